"""Smooth bounds on the local sensitivity of the lower median: compiled loops over a window of order
statistics.

With ``x_(i)`` the order statistics, ``m = ceil(n / 2)`` and ``x_(i) = lo`` for ``i < 1``, ``hi`` for
``i > n``,

    A_k = max over 0 <= t <= k + 1 of  x_(m + t) - x_(m + t - k - 1)

is the local sensitivity at distance ``k`` (Nissim, Raskhodnikova and Smith 2007), also when rows come and go.
"""

import math

import numpy as np

from dpstats._jit import kernel
from dpstats._types import Floats
from dpstats.mechanisms.smooth_sensitivity import least_bound

__all__ = ["lower_median", "median_sensitivities", "smooth_median_bound"]

_FIRST_WINDOW = 64


def lower_median(x: Floats) -> float:
    """The lower median of sorted data, shape (n,); 0 for none."""
    return float(x[(len(x) + 1) // 2 - 1]) if len(x) else 0.0


def _window(x: Floats, width: int, lo: float, hi: float) -> Floats:
    """``x_(m - width) ... x_(m + width)`` of sorted data, ends filled with the bounds."""
    m = (len(x) + 1) // 2 - 1
    at = np.arange(m - width, m + width + 1)
    out = np.where(at < 0, lo, hi)
    inside = (at >= 0) & (at < len(x))
    out[inside] = x[at[inside]]
    return out


@kernel
def _sensitivities(window: Floats, count: int) -> Floats:
    width = (len(window) - 1) // 2
    out = np.empty(count)
    for k in range(count):
        best = 0.0
        for t in range(k + 2):
            best = max(best, window[width + t] - window[width + t - k - 1])
        out[k] = best
    return out


def median_sensitivities(x: Floats, count: int) -> Floats:
    """``A_0 ... A_{count - 1}`` without bounds, infinite from the first that reaches past the data.

    Parameters
    ----------
    x : (n,) array
        Sorted.
    count : int

    Examples
    --------
    >>> median_sensitivities(np.array([0.0, 1.0, 3.0, 7.0, 8.0]), 3)
    array([ 4.,  6., inf])
    """
    # compiled and stored whether or not there are rows
    found = _sensitivities(_window(x if len(x) else np.zeros(1), count + 1, -np.inf, np.inf), count)
    return found if len(x) else np.full(count, np.inf)


@kernel
def _window_maximum(window: Floats, decay: Floats) -> float:
    """``max over l <= m <= u of (x_u - x_l) decay[u - l]`` by divide and conquer.

    The best ``u`` does not decrease in ``l``: ``x_u - x_l <= q (x_v - x_l)`` with ``q <= 1`` and ``u < v``
    stays true when ``x_l`` grows.
    """
    width = (len(window) - 1) // 2
    best = 0.0
    stack = [(0, width, width, 2 * width)]
    while len(stack) > 0:
        first, last, low, high = stack.pop()
        l = (first + last) // 2
        at, most = low, -1.0
        for u in range(low, high + 1):
            value = (window[u] - window[l]) * decay[u - l]
            if value > most:
                at, most = u, value
        best = max(best, most)
        if first < l:
            stack.append((first, l - 1, low, at))
        if l < last:
            stack.append((l + 1, last, at, high))
    return best


def smooth_median_bound(x: Floats, beta: float, lo: float, hi: float) -> float:
    """``max_k exp(-k beta) A_k`` for the lower median of data in ``[lo, hi]``, in ``O(w log w)`` after the
    sort, and at least :func:`~dpstats.mechanisms.smooth_sensitivity.least_bound`.

    Parameters
    ----------
    x : (n,) array
        Sorted, within the bounds.
    beta : float
    lo, hi : float
        Finite.

    Notes
    -----
    Windows of doubling width ``w`` are searched until ``exp(-beta w) (hi - lo)`` cannot win.

    Examples
    --------
    >>> round(smooth_median_bound(np.array([0.0, 1.0, 3.0, 7.0, 8.0]), 1.0, 0.0, 100.0), 3)
    13.128
    """
    width, best = _FIRST_WINDOW, 0.0
    while True:
        decay = np.exp(-beta * (np.arange(2 * width + 1) - 1.0))
        best = _window_maximum(_window(x, width, lo, hi), decay)
        if width > len(x) or math.exp(-beta * width) * (hi - lo) <= best:
            return max(float(best), least_bound(hi - lo))
        width *= 2
