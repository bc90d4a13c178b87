"""The median slope and a smooth bound on its local sensitivity, its two centres included.

    slope(u, w) = med_i h_i(med w, med u),        h_i(c) = (w_i - c_1) / (u_i - c_2),

lower medians throughout; a row with ``u_i = c_2`` has the slope ``+inf``, ``-inf`` or 0 by the sign of its
rise. After ``k`` edits the centres lie in the rectangle ``R_k`` of the order statistics ``m - k`` to
``m + k``, so

    A_k = clamp(sup over R_{k+1} of h_(m+k+1)) - clamp(inf over R_{k+1} of h_(m-k-1)).

The supremum is bounded over cells. For the bound to be smooth it must grow with the rectangle, whatever the
data: the cells are those of dyadic grids fixed in advance, the finest of which the rectangle meets in few
cells. (Cells at order statistics, as in the paper's Algorithm 3, move with the data, and a bound over them is
not smooth.)
"""

import math

import numpy as np

from dpstats._jit import kernel
from dpstats._types import Floats
from dpstats.mechanisms.order_statistics import lower_median
from dpstats.mechanisms.smooth_sensitivity import smooth_maximum

__all__ = ["LARGEST", "median_slope", "slope_sensitivity", "smooth_slope_bound"]

_CELLS = 12
"""Most cells to a side of the rectangle; at least 2."""
LARGEST = 2.0**400
"""Magnitudes must not exceed this."""


def median_slope(u: Floats, w: Floats, clamp: float) -> float:
    """``slope(u, w)``, clamped to ``[-clamp, clamp]``; 0 for no rows.

    Examples
    --------
    >>> median_slope(np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, 5.0, 7.0, 90.0]), 100.0)
    2.0
    """
    if len(u) == 0:
        return 0.0
    run, rise = u - lower_median(np.sort(u)), w - lower_median(np.sort(w))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(run != 0, rise / run, np.where(rise != 0, np.sign(rise) * np.inf, 0.0))
    return min(max(lower_median(np.sort(ratios)), -clamp), clamp)


def _edges(lo: float, hi: float) -> Floats:
    """Ends of the cells of the finest dyadic grid that ``[lo, hi]`` meets in at most `_CELLS` cells.

    A larger interval never has a finer grid, which the smoothness of the bound rests on.
    """
    if lo == hi:
        return np.array([lo, hi])
    g = math.frexp((hi - lo) / _CELLS)[1] - 2
    g = max(g, math.frexp(max(abs(lo), abs(hi)))[1] - 50, -400)
    while math.floor(math.ldexp(hi, -g)) - math.floor(math.ldexp(lo, -g)) + 1 > _CELLS:
        g += 1
    inner = (math.floor(math.ldexp(lo, -g)) + np.arange(1, _CELLS + 1)) * 2.0**g
    return np.concatenate([[lo], inner[(inner > lo) & (inner < hi)], [hi]])


@kernel
def _extremes(
    u: Floats, w: Floats, across: Floats, along: Floats, high: int, low: int
) -> tuple[float, float]:
    """Largest `high`-th smallest upper bound and smallest `low`-th smallest lower bound over all cells."""
    n = len(u)
    upper, lower = np.empty(n), np.empty(n)
    most, least = -np.inf, np.inf
    for a in range(len(across) - 1):
        for b in range(len(along) - 1):
            for i in range(n):
                down, up = w[i] - across[a + 1], w[i] - across[a]
                near, far = u[i] - along[b + 1], u[i] - along[b]
                if near <= 0.0 <= far:
                    lower[i], upper[i] = -np.inf, np.inf
                elif near > 0.0:
                    lower[i] = down / (far if down >= 0.0 else near)
                    upper[i] = up / (near if up >= 0.0 else far)
                else:
                    lower[i] = up / (far if up >= 0.0 else near)
                    upper[i] = down / (near if down >= 0.0 else far)
            most = max(most, np.partition(upper, high)[high])
            least = min(least, np.partition(lower, low)[low])
    return most, least


def slope_sensitivity(
    u: Floats, w: Floats, sorted_u: Floats, sorted_w: Floats, clamp: float, k: int
) -> float:
    """``A_k`` of the median slope of ``(n,)`` arrays; at most ``2 * clamp``."""
    n = len(u)
    m = (n + 1) // 2 - 1
    if m - k - 1 < 0 or m + k + 1 >= n:
        return 2 * clamp
    across = _edges(sorted_w[m - k - 1], sorted_w[m + k + 1])
    along = _edges(sorted_u[m - k - 1], sorted_u[m + k + 1])
    most, least = _extremes(u, w, across, along, m + k + 1, m - k - 1)
    return min(max(most, -clamp), clamp) - min(max(least, -clamp), clamp)


def smooth_slope_bound(u: Floats, w: Floats, clamp: float, beta: float) -> float:
    """``max_k exp(-k beta) A_k`` of the median slope."""
    # for what it compiles and stores, which must not tell whether there are three rows
    two = np.zeros(2)
    _extremes(two, two, two, two, 0, 0)
    by_u, by_w = np.sort(u), np.sort(w)
    return smooth_maximum(lambda k: slope_sensitivity(u, w, by_u, by_w, clamp, k), beta, 2 * clamp)
