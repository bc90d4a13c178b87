"""Refusals by the private count of rows alone."""

import math

from dpstats.errors import ReleaseFailed
from dpstats.linear.budget import GaussianBudget, LinearBudget
from dpstats.linear.curvature import least_radius2
from dpstats.mechanisms._kernels import GRID_BITS
from dpstats.mechanisms.standardize import GRID_SHARES

__all__ = [
    "check_columns",
    "check_directions",
    "check_needs",
    "check_rows",
    "check_some",
    "columns_need",
    "rows_needed",
    "too_few",
    "visible",
]

_SCALE_NOISE = 0.25
"""Refuse if the threshold for a visible octave exceeds this share of the rows, as a rule."""
_ASTRAY = 3.2
"""Refuse if half of the rows are fewer standard deviations of the noise of a step of the response's
location."""
_SOME = 3.0
"""Standard deviations of the noise that the released count of rows is to have at least."""
_VISIBLE = 6.0
"""An octave is visible beyond about so many standard deviations of its noise."""
_HIDDEN = 5.0
"""Refuse if the noise of the most precise Gram matrix hides so many times what the rows add up to."""
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
    unknown = public.unknown and len(public.free) + public.variables + public.weighted
    if need < rows_needed(budget, unknown, public.response_unknown):
        check_rows(method, budget, unknown, count, response=public.response_unknown)
    if count < need:
        what = f"{q} columns need" if q > 1 else "1 column needs"
        hides = "; with fewer, the noise hides most coefficients"
        raise too_few(method, budget, count, what, need, "Fewer columns", hides)


def too_few(
    method: str, budget: GaussianBudget, count: float, what: str, need: float, fewer: str, why: str = ""
) -> ReleaseFailed:
    """The refusal of fewer rows than `what` is said to need, for the price of the count.

    Where there may be no row at all, the columns' values are the likelier reason.
    """
    eps = budget.guarantee.eps
    needs = f"{what} about {need:,.0f} rows"
    if _may_be_none(budget, count):
        text = f"{_none(count, eps)}; {needs}."
    else:
        counted = f"{needs} at eps = {eps:.4g}, and the private count is {max(count, 0):,.0f}{why}"
        text = f"{counted}. Nothing was estimated. {fewer}, or a larger eps, would do."
    return ReleaseFailed(f"{method}: {text}", budget.guarantee.replace(spends=budget.guarantee.spends[:1]))


def _none(count: float, eps: float) -> str:
    return (
        f"the private count, {max(count, 0):,.0f}, may be that of no rows at eps = {eps:.4g}. Rows with "
        "missing values or undeclared levels do not count. Nothing was estimated"
    )


def check_some(method: str, budget: GaussianBudget, count: float) -> None:
    """Refuse where the released count may be that of no rows; it knows nothing else."""
    if not _may_be_none(budget, count):
        return
    raise ReleaseFailed(
        f"{method}: {_none(count, budget.guarantee.eps)}.",
        budget.guarantee.replace(spends=budget.guarantee.spends[:1]),
    )


def _may_be_none(budget: GaussianBudget, count: float) -> bool:
    return count < _SOME / budget.mus["count"]


def check_rows(
    method: str,
    budget: GaussianBudget,
    columns: int,
    count: float,
    share: float = _SCALE_NOISE,
    response: bool = False,
) -> None:
    """Refuse where the noise of the standardisation would swamp the rows; it knows the released count alone.

    Parameters
    ----------
    method : str
    budget : object
        With ``mus["scale"]`` and a guarantee whose first spend is the count's.
    columns : int
        Those of unknown range.
    count : float
    share : float
        Of the rows, which the threshold for a visible octave may be.
    response : bool
        Whether the response is of unknown range, and located by ``mus["response_location"]``.
    """
    need, located = _scale_need(budget, columns, share), _location_need(budget, response)
    if count >= max(need, located):
        return
    what, fewer = f"{columns} columns of unknown range need", "Fewer columns of that sort"
    if located > need:
        what, fewer = "a response of unknown range needs", "Its range"
    elif columns == 1:
        what = "1 column of unknown range needs"
    raise too_few(method, budget, count, what, max(need, located), f"{fewer}, as by bounds={{...}}")


def rows_needed(budget: GaussianBudget, columns: int, response: bool) -> float:
    """How many rows :func:`check_rows` wants."""
    return max(_scale_need(budget, columns, _SCALE_NOISE), _location_need(budget, response))


def _scale_need(budget: GaussianBudget, columns: int, share: float) -> float:
    return visible(columns, budget.mus["scale"]) / share if columns else -math.inf


def visible(columns: int, mu: float) -> float:
    """About how many rows an octave of one of some columns needs to be seen."""
    return _VISIBLE * math.sqrt(columns) / mu if columns else math.inf


def _location_need(budget: GaussianBudget, response: bool) -> float:
    mu = budget.mus.get("response_location", 0.0)
    return _ASTRAY * math.sqrt(GRID_BITS / GRID_SHARES[0]) / mu if response and mu else -math.inf


def check_columns(method: str, budget: LinearBudget, columns: int, count: float) -> None:
    """Refuse where the noise of the Gram matrices would hide all directions; only the released count is used.

    The noise for ``q`` columns has the spectral norm ``sqrt(2 q) R^2 / mu``, with ``R^2`` at least
    ``c (q + 1)``, and whitened rows add up to `count` along any direction.

    Parameters
    ----------
    method : str
    budget : LinearBudget
    columns : int
    count : float
    """
    need = columns_need(budget, columns)
    if count < need:
        what = f"{columns} columns, with those of the levels, need"
        raise too_few(method, budget, count, what, need, "Fewer columns or levels")


def columns_need(budget: LinearBudget, columns: int) -> float:
    if not budget.stages:
        return -math.inf
    radius2 = min(stage.c / stage.mu for stage in budget.stages) * (columns + 1)
    return math.sqrt(2 * columns) * radius2 / _HIDDEN
