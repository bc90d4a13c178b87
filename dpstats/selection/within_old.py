"""``select=k`` in a regression: 5 % of the budget chooses terms, the rest fits them."""

import math
from dataclasses import dataclass, replace

from dpstats._validation import check, fail
from dpstats.errors import ReleaseFailed
from dpstats.formula.design import Design
from dpstats.privacy.conversions import gdp_mu, round_down
from dpstats.privacy.guarantee import Guarantee
from dpstats.selection.choice import AUTO, METHODS, Choice, reduced_formula

__all__ = ["SHARE", "with_selection"]

SHARE = 0.05
"""Share of eps and delta for the choice of terms."""


@dataclass(frozen=True)
class _Plan:
    """The choice, the plan that the whole design would have, and what both cost."""

    choice: Choice
    whole: object
    guarantee: Guarantee


def with_selection(select, eps, delta, plan, release, *, neighbours="add-remove", by=None):
    """Put a private choice of terms before an estimator: the two steps of :func:`dpstats.estimation.pipeline.estimate`.

    Parameters
    ----------
    select : int or None
        Number of terms; None leaves the estimator as it is.
    eps, delta : float
        Budget of the whole.
    plan : callable
        ``plan(design, seeded, eps, delta)`` returns the estimator's plan, with the attribute ``guarantee``. It is
        called with the whole design before any row is read, and with the reduced design afterwards; whatever
        it refuses, it must refuse for the whole design. If all its steps are Gaussian for one design they are for
        every one, and the sum of their ``mu^2`` depends on eps and delta alone.
    release : callable
        ``release(blocks, design, plan, rng)`` returns the Results.
    neighbours : {"add-remove", "substitution"}
    by : str or None
        As the user passed it. Groups would choose different terms and fill no common table, so it excludes `select`.

    Returns
    -------
    plan, release : callable
        As ``estimate`` takes them.

    Raises
    ------
    ParameterError
        If `select` is neither None nor a positive integer, or is given together with `by`.

    Notes
    -----
    **Privacy.** Composition of the choice and of the estimator on the reduced design, which is a function of public facts
    and the released choice. If all steps of the estimator are Gaussian it has 95 % of eps and delta, and the choice the
    ``mu`` that Gaussian composition leaves of the whole; otherwise budgets add up. A row is unusable if a column
    of the whole formula is missing in it when terms are chosen, and if a column of the chosen terms is when
    they are fitted; both times it is dropped by itself. Argument: ``docs/privacy/selection.md``.

    Examples
    --------
    >>> import dpstats
    >>> fit = dpstats.tukey_em("price ~ carat + cut + clarity", dpstats.datasets.load_diamonds(), eps=1, select=1)
    >>> fit.formula, fit.guarantee.spends[0].step
    ('price ~ carat', 'choice of 1 term')
    """
    select = check("select", select, "count", optional=True)
    if select is None:
        return lambda design, seeded: plan(design, seeded, eps, delta), release
    if by is not None:
        fail("by", by, "None with select=; choose the terms for all groups first, by select_features")

    def plan_both(design, seeded):
        choice = Choice.of(design, select, SHARE * eps, SHARE * delta, AUTO, neighbours, "select")
        cost = sum(s.eps for s in choice.spends), sum(s.delta for s in choice.spends)
        whole = plan(design, seeded, eps - cost[0], delta - cost[1])
        if all(s.mu is not None for s in whole.guarantee.spends):
            whole = plan(design, seeded, (1 - SHARE) * eps, (1 - SHARE) * delta)
            left = gdp_mu(eps, delta) ** 2 - math.fsum(s.mu**2 for s in whole.guarantee.spends)
            choice = choice.beside_gaussian(round_down(math.sqrt(max(left, 0.0)), 1e-12))
        return _Plan(choice, whole, _together(choice, whole.guarantee, eps, delta))

    def release_both(blocks, design, planned, rng):
        choice, whole = planned.choice, planned.whole.guarantee
        terms = choice.run(blocks, rng)
        reduced = Design.from_formula(reduced_formula(design, terms), design.schema)
        rest = plan(reduced, whole.seeded, whole.eps, whole.delta)
        try:
            results = release(blocks.of(reduced), reduced, rest, rng)
        except ReleaseFailed as failure:
            same = rest.guarantee.spends == whole.spends
            if failure.guarantee is not None:
                spends = choice.spends + failure.guarantee.spends
                failure.guarantee = planned.guarantee.replace(spends=spends) if same else None
            raise
        order = "in this order" if choice.rounds > 1 else "at once"
        note = (
            f"{METHODS[choice.method]} chose {', '.join(terms)} ({order}) among the {len(choice.terms)} terms of "
            f"{design.formula!r}, at eps = {sum(s.eps for s in choice.spends):.3g}. Intervals are about the model chosen "
            "here; they do not cover the choice."
        )
        return replace(
            results,
            guarantee=_together(choice, results.guarantee, eps, delta),
            notes=(note, *results.notes),
        )

    return plan_both, release_both


def _together(choice, rest, eps, delta):
    """The guarantee of a choice and of the estimator behind it."""
    kind = "approximate" if rest.kind == "pure" and delta > 0 else rest.kind
    return rest.replace(eps=eps, delta=delta, kind=kind, spends=choice.spends + rest.spends)
