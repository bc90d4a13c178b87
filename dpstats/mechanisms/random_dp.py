"""What the random-DP variants of Cumings-Menon (2022) share: boxes from the data, meant for all data alike.

Their proof does not hold as published: ``docs/privacy/smooth_sensitivity.md``.
"""

import math
from collections.abc import Callable
from typing import Any

from scipy.optimize import brentq

from dpstats._validation import check, fail, one_of

__all__ = ["check_guarantee", "common_depth", "dkw_distance", "log_half_planes", "widened"]

GUARANTEES = ("approximate", "random")
_WIDEN = 2.0


def check_guarantee(guarantee: str, gamma: float | None) -> float | None:
    """Validate the parameters of the random-DP variants; returns `gamma`."""
    one_of("guarantee", guarantee, GUARANTEES)
    if guarantee == "random":
        return check("gamma", gamma)
    if gamma is not None:
        fail("gamma", gamma, "None unless guarantee='random'")
    return None


def dkw_distance(rows: int, gamma: float) -> float:
    """``t`` of the two-sample Dvoretzky-Kiefer-Wolfowitz inequality.

    Raises
    ------
    ParameterError
        If not one row of half the sample is left at that distance.
    """
    t = math.sqrt((1 + math.log(1 / gamma)) / max(rows, 1))
    _left(rows, 0.5 - t, gamma)
    return t


def common_depth(rows: int, gamma: float, log_shatter: Callable[[int], float]) -> int:
    """The depth ``n (1/3 - 2 t)`` of the box, with ``t`` from Devroye (1982).

    Parameters
    ----------
    rows : int
    gamma : float
    log_shatter : callable
        ``log_shatter(N)``: log of the most subsets of `N` points that the sets of the depth pick out.

    Raises
    ------
    ParameterError
        If it is not positive.

    Examples
    --------
    >>> common_depth(10_000, 0.1, log_half_planes)
    2415
    """
    n = max(rows, 3)
    log_subsets = log_shatter(n**2)

    def log_excess(t: float) -> float:
        return math.log(4) + 4 * t + 4 * t * t + log_subsets - 2 * n * t * t - math.log(gamma / 2)

    t = brentq(log_excess, 0, 10 + log_subsets)
    return _left(rows, 1 / 3 - 2 * t, gamma, n)


def _left(rows: int, share: float, gamma: float, n: int | None = None) -> int:
    """A share of the rows, rounded down; refused if that is none."""
    n = rows if n is None else n
    if n * share < 1:
        fail("gamma", gamma, f"larger, or the rows more, for guarantee='random' (there are {rows:,} rows)")
    return math.floor(n * share)


def log_half_planes(N: int) -> float:
    """Log of the most subsets of `N` points that half-planes pick out."""
    return math.log(2 * (N - 1) ** 2 + 2)


def widened(lower: Any, upper: Any) -> tuple[Any, Any]:
    """The ends of an interval twice as long about the same middle."""
    slack = (_WIDEN - 1) / 2 * (upper - lower)
    return lower - slack, upper + slack
