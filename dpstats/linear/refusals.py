"""Refusals by the private count of rows alone, of estimators that work in rounds."""

import math

from dpstats.errors import ReleaseFailed
from dpstats.linear.budget import LinearBudget
from dpstats.linear.curvature import least_radius2
from dpstats.linear.prepare import check_rows, rows_needed
from dpstats.privacy.guarantee import Guarantee

__all__ = ["check_directions", "check_needs"]

_HIDES_MOST = 1.0
"""Spectral norm of the noise of the mean of two Gram matrices that hides most directions of any design."""


def check_directions(method: str, budget: LinearBudget, count: float) -> None:
    """Refuse where the noise would swamp the rows or hide most directions; it knows the released count alone.

    Parameters
    ----------
    method : str
    budget : LinearBudget
        With ``mus["hessian"]`` and a guarantee whose first spend is the count's.
    count : float
    """
    q = len(budget.public.scale)
    # the least radius decides: wider ones are taken where they have less noise than that
    need = math.sqrt(q) * least_radius2(q) / budget.mus["hessian"] / _HIDES_MOST
    check_needs(method, budget, need, count)


def check_needs(method: str, budget: LinearBudget, need: float, count: float) -> None:
    """Refuse fewer rows than `need`, or than columns of unknown range need; name the larger one."""
    public, q = budget.public, len(budget.public.scale)
    unknown = public.unknown and len(public.free) + public.variables
    if need < rows_needed(budget, unknown, public.response_unknown):
        check_rows(method, budget, unknown, count, response=public.response_unknown)
    if count < need:
        raise _too_few(method, q, need, count, budget.guarantee)


def _too_few(method: str, columns: int, need: float, count: float, guarantee: Guarantee) -> ReleaseFailed:
    """The refusal of a design whose directions noise would hide, for the price of the count."""
    several = columns > 1
    return ReleaseFailed(
        f"{method}: {columns} column{'s' * several} at eps = {guarantee.eps:.4g} need{'s' * (not several)} "
        f"about {need:,.0f} rows, and the private count is {max(count, 0):,.0f}; with fewer, the noise hides "
        "most coefficients. Nothing was estimated. Fewer columns, or a larger eps would do.",
        guarantee.replace(spends=guarantee.spends[:1]),
    )
