"""Private choice of the terms of a regression formula."""

from dataclasses import dataclass

import pandas as pd

from dpstats import _estimate
from dpstats._report import promise, spends_table
from dpstats._validation import check, one_of
from dpstats.privacy.guarantee import NEIGHBOURS, Guarantee
from dpstats.selection.choice import METHODS, Choice, plan_choice, reduced_formula
from dpstats.summary import Summary, Table

__all__ = ["Selection", "select_features"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Selection:
    """The terms that were chosen, and what choosing them cost. It holds no row and no score.

    Parameters
    ----------
    method : str
        Name of the method, for the title.
    formula : str
        As the user wrote it.
    response : str
    terms : tuple of str
        In order of choice.
    columns : tuple of int
        Number of columns of each chosen term.
    candidates : tuple of str
        All terms that could be chosen.
    model : str
        The formula of the selected model, for an estimator.
    guarantee : Guarantee
    """

    method: str
    formula: str
    response: str
    terms: tuple[str, ...]
    columns: tuple[int, ...]
    candidates: tuple[str, ...]
    model: str
    guarantee: Guarantee

    def summary(self):
        """The table: terms in order of choice, the guarantee, and how the budget was divided.

        Returns
        -------
        dpstats.summary.Summary
        """
        rows = tuple(
            (t, str(i), str(c)) for i, (t, c) in enumerate(zip(self.terms, self.columns, strict=True), 1)
        )
        return Summary(
            title=f"{self.method} (differentially private)",
            formula=self.formula,
            facts=(("Dep. variable", self.response), ("Candidate terms", f"{len(self.candidates):,}")),
            coefficients=Table(("Chosen term", "round", "columns"), rows),
            paragraphs=(
                f"The selected model is {self.model!r}.",
                "Scores are not released. An interval from a later fit on the same data is about the model chosen "
                "here; it does not cover the choice.",
                *promise(self.guarantee),
            ),
            spends=spends_table(self.guarantee.spends),
        )

    def tidy(self):
        """One row for each chosen term: ``term, round, columns``."""
        rounds = range(1, len(self.terms) + 1)
        return pd.DataFrame({"term": list(self.terms), "round": list(rounds), "columns": list(self.columns)})

    def to_dict(self):
        """The whole result as plain dicts, lists, strings and numbers."""
        return {
            "method": self.method,
            "formula": self.formula,
            "response": self.response,
            "terms": list(self.terms),
            "columns": list(self.columns),
            "candidates": list(self.candidates),
            "model": self.model,
            "guarantee": self.guarantee.to_dict(),
        }

    def __str__(self):
        return str(self.summary())

    def __repr__(self):
        return f"<{type(self).__name__} {self.method}: {self.model}, {self.guarantee}>"

    def _repr_html_(self):
        return self.summary().as_html()


def select_features(
    formula,
    data,
    *,
    k,
    eps,
    delta=0.0,
    method="kendall",
    neighbours="add-remove",
    bounds=None,
    levels=None,
    ledger=None,
    seed=None,
):
    r"""Differentially private choice of the `k` terms of a formula that matter most for the response.

    No bounds are needed and there is nothing to tune. A categorical term enters as a whole, and the constant
    is never a candidate.

    Parameters
    ----------
    formula : str
        ``"price ~ ."`` for all columns; see :doc:`formulas`.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
    k : int
        Number of terms to choose; smaller than the number of terms.
    eps : float
        Privacy budget; positive.
    delta : float
        In [0, 1). 0 gives a pure guarantee. A positive `delta` composes the rounds more tightly: noise falls by
        a seventh at ``k = 5`` and by a third at ``k = 10`` (``eps = 1, delta = 1e-6``).
    method : {"kendall", "sub_lasso"}
        Rank correlation with the response, less that with the terms chosen before (DPKendall), or votes of the
        Lasso on random subsets of the rows (SubLasso; needs scikit-learn, ``pip install 'dpstats[selection]'``).
    neighbours : {"add-remove", "substitution"}
    bounds : mapping of str to (float, float), optional
        Public ranges of columns; values outside are moved to the nearer end.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns.
    ledger : Ledger, optional
        Charged before any row is read.
    seed : int, optional
        For simulation only: the release then protects nobody, and its guarantee says so.

    Returns
    -------
    Selection
        ``terms`` in order of choice, ``model`` (the formula of the selected model), ``guarantee``,
        ``summary()``, ``tidy()``, ``to_dict()``.

    Raises
    ------
    ParameterError, FormulaError, SchemaError, BudgetExceeded
    ImportError
        If SubLasso is asked for without scikit-learn.

    Notes
    -----
    **Method.** With :math:`\hat\tau(x, y) = (C - D)/(n - 1)`, concordant less discordant pairs, round ``r`` of
    DPKendall picks by the exponential mechanism the term whose best column maximises

    .. math:: |\hat\tau(X_j, Y)| - \frac{1}{|S|} \sum_{s \in S} \max_{j' \in s} |\hat\tau(X_j, X_{j'})|

    over the terms :math:`S` chosen before (Joseph, Ribero and Yu 2023, with a statistic that ties cannot break).
    Only monotone relations count: a term that matters through its square alone, or only together with
    another, is not seen. ``O(d k n log n)`` for `d` columns.

    **Privacy.** One record moves every :math:`|\hat\tau|` by an amount in [-3/2, 1] when it is added, whatever the
    ties. The `k` rounds are composed as bounded-range mechanisms. SubLasso spends a tenth of `eps` on the number
    of rows. Proofs: ``docs/privacy/selection.md``.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> choice = dpstats.select_features("price ~ carat + depth + table + clarity", diamonds, k=1, eps=1)
    >>> choice.terms, choice.model
    (('carat',), 'price ~ carat')
    """
    eps, delta = check("eps", eps), check("delta", delta)
    one_of("neighbours", neighbours, NEIGHBOURS)
    one_of("method", method, tuple(METHODS))
    check("k", k, "count")

    def plan(design, seeded):
        _estimate.one_response(design, "select_features")
        choice = plan_choice(design, k, eps, delta, method, neighbours)
        kind = "approximate" if any(s.delta for s in choice.spends) else "pure"
        spent = sum(s.delta for s in choice.spends)
        return _Plan(choice, Guarantee(eps, spent, neighbours, kind, choice.spends, seeded=seeded))

    def release(blocks, design, plan, rng):
        terms = plan.choice.run(blocks, rng)
        return Selection(
            method=METHODS[method],
            formula=design.formula,
            response=design.response_names[0],
            terms=terms,
            columns=tuple(len(plan.choice.terms[t]) for t in terms),
            candidates=tuple(plan.choice.terms),
            model=reduced_formula(design, terms),
            guarantee=plan.guarantee,
        )

    return _estimate.estimate(
        "select_features",
        formula,
        data,
        bounds=bounds,
        levels=levels,
        ledger=ledger,
        seed=seed,
        plan=plan,
        release=release,
    )


@dataclass(frozen=True)
class _Plan:
    """The public part of a selection."""

    choice: Choice
    guarantee: Guarantee
