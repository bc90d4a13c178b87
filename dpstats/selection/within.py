"""``select=k`` in a regression: 5 % of the budget chooses terms, the rest fits them."""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

from dpstats._validation import check, fail
from dpstats.errors import ReleaseFailed
from dpstats.estimation.call import Budget, Call, Estimator
from dpstats.formula.design import Blocks, Design
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.conversions import gdp_mu, round_down
from dpstats.privacy.guarantee import Guarantee, Neighbours
from dpstats.results.results import Results
from dpstats.selection.choice import AUTO, METHODS, UNUSED, Choice, reduced_formula

__all__ = ["SHARE", "selecting"]

SHARE = 0.05
"""Share of eps and delta for the choice of terms."""


def selecting(
    estimator: Estimator[Any, Any, Results], k: int | None, neighbours: Neighbours = "add-remove"
) -> Estimator[Any, Any, Results]:
    """Put a private choice of terms before an estimator.

    Parameters
    ----------
    estimator : Estimator
        It is asked for its budget with the whole design before any row is read, and with the reduced design
        afterwards; whatever it refuses, it must refuse for the whole design. If all its steps are Gaussian
        for one design they are for every one, and the sum of their ``mu^2`` depends on eps and delta alone.
    k : int or None
        Number of terms; None leaves the estimator as it is.
    neighbours : {"add-remove", "substitution"}
        Those of the estimator.

    Returns
    -------
    Estimator
        Of the same name. Groups would choose different terms and fill no common table, so it refuses `by`.

    Notes
    -----
    **Privacy.** Composition of the choice and of the estimator on the reduced design, which is a function of
    public facts and the released choice. If all steps of the estimator are Gaussian it has 95 % of eps and
    delta, and the choice the ``mu`` that Gaussian composition leaves of the whole; otherwise budgets add up.
    A row is unusable if a column of the whole formula is missing in it when terms are chosen, and if a column
    of the chosen terms is when they are fitted; both times it is dropped by itself. Argument:
    ``docs/privacy/selection.md``.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> fit = dpstats.tukey_em("price ~ carat + cut + clarity", diamonds, eps=1, select=1)
    >>> fit.formula, fit.guarantee.spends[0].step
    ('price ~ carat', 'choice of 1 term')
    """
    k = check("select", k, "count", optional=True)
    if k is None:
        return estimator
    return Estimator(
        estimator.name,
        functools.partial(_budget, estimator, k, neighbours),
        functools.partial(_release, estimator),
        functools.partial(_results, estimator),
        estimator.needs,
        estimator.of_units,
    )


@dataclass(frozen=True)
class _Budget:
    """Everything public about a choice and the fit behind it.

    `guarantee` is that of both, `design` that of the whole formula, `call` the user's with what is left for
    the fit, and `fit` the guarantee of a fit of the whole formula at that.
    """

    guarantee: Guarantee
    design: Design
    choice: Choice
    call: Call
    fit: Guarantee


def _budget(
    estimator: Estimator[Any, Any, Results],
    k: int,
    neighbours: Neighbours,
    design: Design,
    call: Call,
    rows: int | None,
) -> _Budget:
    if call.by is not None:
        fail("by", call.by, "None with select=; choose the terms for all groups first, by select_features")
    choice = Choice.of(design, k, SHARE * call.eps, SHARE * call.delta, AUTO, neighbours, "select")
    left = replace(
        call,
        eps=call.eps - sum(s.eps for s in choice.spends),
        delta=call.delta - sum(s.delta for s in choice.spends),
    )
    fit = estimator.budget(design, left, rows).guarantee
    if all(s.mu is not None for s in fit.spends):
        left = replace(call, eps=(1 - SHARE) * call.eps, delta=(1 - SHARE) * call.delta)
        fit = estimator.budget(design, left, rows).guarantee
        unspent = gdp_mu(call.eps, call.delta) ** 2 - math.fsum(s.mu**2 for s in fit.spends)
        choice = choice.beside_gaussian(round_down(math.sqrt(max(unspent, 0.0)), 1e-12))
    return _Budget(_together(choice, fit, call.eps, call.delta), design, choice, left, fit)


def _together(choice: Choice, fit: Guarantee, eps: float, delta: float) -> Guarantee:
    """The guarantee of a choice and of the fit behind it."""
    kind = "approximate" if fit.kind == "pure" and delta > 0 else fit.kind
    return fit.replace(eps=eps, delta=delta, kind=kind, spends=choice.spends + fit.spends)


@dataclass(frozen=True)
class _Release:
    """The chosen terms, and the fit of them: its design, its budget, and what it released."""

    terms: tuple[str, ...]
    design: Design
    budget: Budget
    fit: Any


def _release(
    estimator: Estimator[Any, Any, Results], blocks: Blocks, budget: _Budget, rng: Randomness
) -> _Release:
    """The mechanism: rows in, terms and a fit of them out.

    **Privacy.** ``budget.guarantee``; see :func:`selecting`. A fit that stops early has spent its first steps
    only, which are known to be those of the whole formula where the two divide their budgets alike.
    """
    terms = budget.choice.run(blocks, rng)
    design = Design.from_formula(reduced_formula(budget.design, terms), budget.design.schema)
    fit = estimator.budget(design, budget.call, None)
    try:
        return _Release(terms, design, fit, estimator.release(blocks.of(design), fit, rng))
    except ReleaseFailed as failure:
        if failure.guarantee is not None:
            spends = budget.choice.spends + failure.guarantee.spends
            same = fit.guarantee.spends == budget.fit.spends
            failure.guarantee = budget.guarantee.replace(spends=spends) if same else None
        raise


def _results(
    estimator: Estimator[Any, Any, Results], design: Design, budget: _Budget, release: _Release
) -> Results:
    """Results of the fit, with the choice in the guarantee and in a note."""
    choice, terms = budget.choice, release.terms
    results = estimator.results(release.design, release.budget, release.fit)
    order = "in this order" if choice.rounds > 1 else "at once"
    note = (
        f"{METHODS[choice.method]} chose {', '.join(terms)} ({order}) among the {len(choice.terms)} terms of "
        f"{design.formula!r}, at eps = {sum(s.eps for s in choice.spends):.3g}. Intervals are about the "
        f"model chosen "
        f"here; they do not cover the choice. {UNUSED}"
    )
    whole = budget.guarantee
    return replace(
        results,
        guarantee=_together(choice, results.guarantee, whole.eps, whole.delta),
        notes=(note, *results.notes),
    )
