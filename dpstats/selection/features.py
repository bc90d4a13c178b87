"""Private choice of the terms of a regression formula."""

import functools
from dataclasses import dataclass
from typing import Any, cast

import pandas as pd

from dpstats._boundary import guarded
from dpstats._text import Summary, Table, Tabled
from dpstats._types import Bounds, Levels
from dpstats._validation import check, one_of
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.guarantee import NEIGHBOURS, Guarantee, Kind, Neighbours
from dpstats.privacy.ledger import Ledger
from dpstats.results.spends import spends_table
from dpstats.results.table import promise
from dpstats.selection.choice import AUTO, METHODS, UNUSED, Choice, reduced_formula

__all__ = ["Selection", "select_features"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Selection(Tabled):
    """The terms that were chosen, and what choosing them cost. It holds no row and no score.

    Parameters
    ----------
    method : str
        Name of the method, for the title.
    formula : str
        As the user wrote it.
    response : str
    terms : tuple of str
        In order of choice, or in that of the formula if they were chosen at once.
    rounds : tuple of int
        In which round each chosen term was chosen.
    columns : tuple of int
        Number of columns of each chosen term.
    candidates : tuple of str
        All terms that could be chosen.
    model : str
        The formula of the selected model, for an estimator.
    guarantee : Guarantee

    Examples
    --------
    >>> import dpstats
    >>> table = dpstats.datasets.load_diamonds()[::20]
    >>> choice = dpstats.select_features("price ~ carat + depth + table", table, k=1, eps=5)
    >>> choice.terms, choice.model
    (('carat',), 'price ~ carat')
    """

    method: str
    formula: str
    response: str
    terms: tuple[str, ...]
    rounds: tuple[int, ...]
    columns: tuple[int, ...]
    candidates: tuple[str, ...]
    model: str
    guarantee: Guarantee

    def summary(self) -> Summary:
        """The table: terms in order of choice, the guarantee, and how the budget was divided.

        Returns
        -------
        dpstats._text.Summary

        Examples
        --------
        >>> import dpstats
        >>> table = dpstats.datasets.load_diamonds()[::20]
        >>> choice = dpstats.select_features("price ~ carat + depth + table", table, k=1, eps=5)
        >>> print(choice.summary().as_csv())
        Chosen term,round,columns
        carat,1,1
        """
        rows = tuple(
            (t, str(r), str(c)) for t, r, c in zip(self.terms, self.rounds, self.columns, strict=True)
        )
        return Summary(
            title=f"{self.method} (differentially private)",
            formula=self.formula,
            facts=(("Dep. variable", self.response), ("Candidate terms", f"{len(self.candidates):,}")),
            coefficients=Table(("Chosen term", "round", "columns"), rows),
            paragraphs=(
                f"The selected model is {self.model!r}.",
                "Scores are not released. An interval from a later fit on the same data is about the "
                "model chosen "
                "here; it does not cover the choice.",
                UNUSED,
                *promise(self.guarantee),
            ),
            spends=spends_table(self.guarantee),
        )

    def tidy(self) -> pd.DataFrame:
        """One row for each chosen term.

        Returns
        -------
        DataFrame
            Columns ``term, round, columns``.

        Examples
        --------
        >>> import dpstats
        >>> table = dpstats.datasets.load_diamonds()[::20]
        >>> choice = dpstats.select_features("price ~ carat + depth + table", table, k=1, eps=5)
        >>> choice.tidy()
            term  round  columns
        0  carat      1        1
        """
        return pd.DataFrame(
            {"term": list(self.terms), "round": list(self.rounds), "columns": list(self.columns)}
        )

    def to_dict(self) -> dict[str, Any]:
        """The whole result as plain dicts, lists, strings and numbers.

        Returns
        -------
        dict

        Examples
        --------
        >>> import dpstats
        >>> table = dpstats.datasets.load_diamonds()[::20]
        >>> choice = dpstats.select_features("price ~ carat + depth + table", table, k=1, eps=5)
        >>> choice.to_dict()["candidates"]
        ['carat', 'depth', 'table']
        """
        return {
            "method": self.method,
            "formula": self.formula,
            "response": self.response,
            "terms": list(self.terms),
            "rounds": list(self.rounds),
            "columns": list(self.columns),
            "candidates": list(self.candidates),
            "model": self.model,
            "guarantee": self.guarantee.to_dict(),
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.method}: {self.model}, {self.guarantee}>"


@guarded
def select_features(
    formula: str,
    data: Any,
    *,
    k: int,
    eps: float,
    delta: float = 0.0,
    method: str = "auto",
    neighbours: Neighbours = "add-remove",
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Selection:
    r"""Differentially private choice of the `k` terms of a formula that matter most for the response.

    No bounds are needed and there is nothing to tune. A categorical term enters as a whole, and the constant
    is never a candidate.

    Parameters
    ----------
    formula : str
        ``"price ~ ."`` for all columns; see ``docs/formulas.md``.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
    k : int
        Number of terms to choose; smaller than the number of terms.
    eps : float
        Privacy budget; positive.
    delta : float
        In [0, 1). 0 gives a pure guarantee. Where terms are chosen one by one a positive `delta` composes the
        rounds more tightly: noise falls by a seventh at ``k = 5`` and by a third at ``k = 10`` (``eps = 1,
        delta = 1e-6``). A choice at once leaves it unspent.
    method : {"auto", "kendall", "pairs", "sub_lasso"}
        ``"kendall"`` chooses one by one, by rank correlation with the response less that with the terms
        chosen before (DPKendall). ``"pairs"`` compares all sets of `k` terms (at most 7 terms, in at most
        5,000 sets of one column each) by how well the signs of their differences order pairs of rows.
        ``"sub_lasso"`` lets the Lasso on random subsets of the rows vote (needs scikit-learn, ``pip install
        'dpstats[selection]'``). ``"auto"`` is ``"pairs"`` from four terms on, where the sets are few enough,
        and otherwise ``"kendall"``.
    neighbours : {"add-remove", "substitution"}
    bounds : mapping of str to (float, float), optional
        Public ranges of columns; values outside are moved to the nearer end.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns.
    unit : str, optional
        A column such as ``"patient_id"``: protect all rows of one of its values, and not one row alone. One
        row of each, drawn at random, is used.
    ledger : Ledger, optional
        Charged before any row is read.
    seed : int, optional
        For simulation only: the release then protects nobody, and its guarantee says so.

    Returns
    -------
    Selection
        ``terms`` in order of choice, or in their own if chosen at once; ``model`` (the formula of the
        selected model), ``guarantee``, ``summary()``, ``tidy()``, ``to_dict()``.

    Raises
    ------
    ParameterError, FormulaError, SchemaError, BudgetExceeded
    ImportError
        If SubLasso is asked for without scikit-learn.

    Notes
    -----
    **Method.** With :math:`\hat\tau(x, y) = (C - D)/(n - 1)`, concordant less discordant pairs, round ``r``
    of DPKendall picks by the exponential mechanism the term whose best column maximises

    .. math:: |\hat\tau(X_j, Y)| - \frac{1}{|S|} \sum_{s \in S} \max_{j' \in s} |\hat\tau(X_j, X_{j'})|

    over the terms :math:`S` chosen before (Joseph, Ribero and Yu 2023, with a statistic that ties cannot
    break). Only monotone relations count: a term that matters through its square alone, or only together with
    another, is not seen. ``O(d k n log n)`` for `d` columns.

    Signs of pairs puts the rows in random order and pairs each with the 8 before and the 8 behind it. With
    :math:`s` the sign of a pair's difference in the response and :math:`p` the pattern of signs of the
    differences in one column of each term, a set of terms scores

    .. math:: \max_{|h| \le 1/4} \frac1{16} \sum_{\text{pairs}} 2 s\, h(p) - h(p)^2

    over odd functions :math:`h`, and one draw of the exponential mechanism picks a set. This sees terms that
    matter only beside each other. ``O(n)`` for each set.

    **Privacy.** One record moves every :math:`|\hat\tau|` by an amount in [-3/2, 1] when it is added,
    whatever the ties. The `k` rounds are composed as bounded-range mechanisms. It moves the score of every
    set by an amount within an interval of width 3/2. SubLasso spends a tenth of `eps` on the number of rows.
    Proofs: ``docs/privacy/selection.md``.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> choice = dpstats.select_features("price ~ carat + depth + table + clarity", diamonds, k=1, eps=1)
    >>> choice.terms, choice.model
    (('carat',), 'price ~ carat')
    """
    one_of("neighbours", neighbours, NEIGHBOURS)
    one_of("method", method, (AUTO, *METHODS))
    check("k", k, "count")
    budget = functools.partial(_budget, k=k, method=method, neighbours=neighbours)
    estimator = Estimator("select_features", budget, _release, _results, Needs(delta="delta", classes=True))
    call = Call(formula, data, eps, delta, bounds, levels, None, ledger, seed, unit)
    # without groups there are no results of groups
    return cast(Selection, run(estimator, call))


@dataclass(frozen=True)
class _Budget:
    """Everything public about a selection."""

    choice: Choice
    guarantee: Guarantee


def _budget(
    design: Design, call: Call, rows: int | None, *, k: int, method: str, neighbours: Neighbours
) -> _Budget:
    choice = Choice.of(design, k, call.eps, call.delta, method, neighbours)
    kind: Kind = "approximate" if any(s.delta for s in choice.spends) else "pure"
    spent = sum(s.delta for s in choice.spends)
    return _Budget(choice, Guarantee(call.eps, spent, neighbours, kind, choice.spends, seeded=call.seeded))


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> tuple[str, ...]:
    """The mechanism: rows in, names of terms out.

    **Privacy.** ``budget.guarantee``; see :meth:`Choice.run`.
    """
    return budget.choice.run(blocks, rng)


def _results(design: Design, budget: _Budget, terms: tuple[str, ...]) -> Selection:
    """The selection from the names of the chosen terms alone."""
    choice = budget.choice
    return Selection(
        method=METHODS[choice.method],
        formula=design.formula,
        response=design.response_names[0],
        terms=terms,
        rounds=tuple(range(1, len(terms) + 1)) if choice.rounds > 1 else (1,) * len(terms),
        columns=tuple(len(choice.terms[t]) for t in terms),
        candidates=tuple(choice.terms),
        model=reduced_formula(design, terms),
        guarantee=budget.guarantee,
    )
