"""The depth of the best line of a given slope, or through a given value: what its interval is made of.

For residuals ``r`` of a slope and any finite intercept ``a``, count at each split ``v`` of the covariate

    #{x_i <= v, r_i >= a} + #{x_i > v, r_i <= a},

and take the least over splits and the largest over ``a``. Small is evidence that the slope is too low. At a
fixed number of negative residuals each count grows with the slope, and so does the whole.
"""

from collections.abc import Callable

import numpy as np

from dpstats._jit import kernel
from dpstats._types import Booleans, Floats, Integers

__all__ = ["largest_depth", "slope_levels", "value_levels"]

_LARGEST_Y, _LARGEST_X, _LARGEST_END = 2.0**1000, 2.0**600, 2.0**300
"""Larger magnitudes are moved to these: then no product overflows."""
_NONE = 1 << 30


@kernel
def _set(sums: Integers, lows: Integers, leaf: int, sign: int, is_last: bool) -> None:
    """Change a sign, and all sums above it."""
    sums[leaf] = sign
    lows[leaf] = sign if is_last else _NONE
    p = leaf // 2
    while p > 0:
        sums[p] = sums[2 * p] + sums[2 * p + 1]
        lows[p] = min(lows[2 * p], sums[2 * p] + lows[2 * p + 1])
        p //= 2


@kernel
def largest_depth(r: Floats, last: Booleans) -> int:
    """The largest over finite intercepts of the least count over splits.

    Parameters
    ----------
    r : (n,) array
        Residuals in order of the covariate. An infinite one is on its side of every intercept, and NaN counts
        on both sides of all.
    last : (n,) bool array
        Whether a row is the last of its value of the covariate.

    Notes
    -----
    **Privacy.** Each count, at an intercept and a split, is a sum over records of 0 or 1. So it moves by at
    most 1 when a record is replaced, by 0 or 1 upwards when one is added; least and largest keep that, as
    they go over all splits and all finite intercepts, whatever the records are. A residual is a function of
    its record alone. Argument: ``docs/privacy/deepest_regression.md``.
    """
    n = len(r)
    order = np.argsort(r, kind="mergesort")
    # finite residuals, and to their right infinite ones and those that are on both sides
    k, stop, both = 0, n, 0
    while stop > 0 and np.isnan(r[order[stop - 1]]):
        stop -= 1
        both += 1
    while stop > 0 and r[order[stop - 1]] == np.inf:
        stop -= 1
    while k < stop and r[order[k]] == -np.inf:
        k += 1
    least = k
    # at first the middle one; where none is finite, all intercepts are alike
    middle = r[order[min(max(n // 2, k), stop - 1)]] if k < stop else 0.0
    total = 0
    low = 0
    at_most = both
    for i in range(n):
        if r[i] > middle:
            total += 1
        elif r[i] <= middle:
            at_most += 1
            total -= 1 if r[i] < middle else 0
        if last[i]:
            low = min(low, total)
    best = at_most + low
    # an intercept with at most `best` residuals on one side cannot do better
    k = min(max(k, best - both), stop)
    if k >= stop:
        return best
    while k > least and r[order[k - 1]] == r[order[k]]:
        k -= 1
    size = 1
    while size < n:
        size *= 2
    # sums of signs and the least partial sums, in a binary tree over the rows in order of the covariate
    sums, lows = np.zeros(2 * size, np.int64), np.full(2 * size, _NONE, np.int64)
    for q in range(n - both):
        sums[size + order[q]] = -1 if q < k else 1
    for i in range(n):
        if last[i]:
            lows[size + i] = sums[size + i]
    for p in range(size - 1, 0, -1):
        sums[p] = sums[2 * p] + sums[2 * p + 1]
        lows[p] = min(lows[2 * p], sums[2 * p] + lows[2 * p + 1])
    while k < stop and n - k > best:
        end = k
        while end < stop and r[order[end]] == r[order[k]]:
            _set(sums, lows, size + order[end], 0, last[order[end]])
            end += 1
        best = max(best, end + both + min(0, lows[1]))
        for q in range(k, end):
            _set(sums, lows, size + order[q], -1, last[order[q]])
        k = end
    return int(best)


def _levels(key: Floats, residuals: Callable[[float], Floats], ends: tuple[Floats, Floats]) -> Floats:
    """Levels of lower and upper ends, rows in order of the key."""
    last = np.append(key[1:] > key[:-1], True)[: len(key)]
    sides = zip(ends, (1, -1), strict=True)
    deepest = [[largest_depth(sign * residuals(b), last) for b in side] for side, sign in sides]
    return np.array(deepest) - len(key) / 2


def _ends(middle: float, widths: Floats) -> tuple[Floats, Floats]:
    low, high = (np.clip(middle + side * widths, -_LARGEST_END, _LARGEST_END) for side in (-1, 1))
    return low, high


def slope_levels(x: Floats, y: Floats, slope: float, widths: Floats) -> Floats:
    """Levels of the intervals ``slope +- widths``.

    Parameters
    ----------
    x, y : (n,) arrays
        Not NaN.
    slope : float
        Released.
    widths : (m,) array

    Returns
    -------
    (2, m) ndarray
        The counts at the lower and the upper ends, minus half the number of rows.

    Notes
    -----
    **Privacy.** Sensitivity 1, one record replaced, usable or not, given the slope. Argument:
    ``docs/privacy/deepest_regression.md``.
    """
    by_x = np.argsort(x, kind="stable")
    x, y = np.clip(x[by_x], -_LARGEST_X, _LARGEST_X), np.clip(y[by_x], -_LARGEST_Y, _LARGEST_Y)
    return _levels(x, lambda b: y - b * x, _ends(slope, widths))


def value_levels(x: Floats, y: Floats, at: float, value: float, widths: Floats) -> Floats:
    """Levels of the intervals ``value +- widths`` of the line's value at the covariate `at`.

    Lines through one point are lines of one slope in the covariate ``1 / (x - at)`` and the response
    ``y / (x - at)``. A row at the point is above or below the value whatever the slope: its residual is
    infinite, or NaN if it has that value. Parameters, result and sensitivity otherwise as of
    :func:`slope_levels`.
    """
    x, y = np.clip(x, -_LARGEST_X, _LARGEST_X), np.clip(y, -_LARGEST_Y, _LARGEST_Y)
    away = x - min(max(at, -_LARGEST_END), _LARGEST_END)
    with np.errstate(over="ignore", divide="ignore"):
        key = 1 / np.abs(away) * np.sign(away + (away == 0))
    by_key = np.argsort(key, kind="stable")
    key, away, y = key[by_key], np.where(away == 0, 0.0, away)[by_key], y[by_key]

    def residuals(value: float) -> Floats:
        rise = y - value
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return rise / away

    return _levels(key, residuals, _ends(value, widths))
