"""A partition of the lattice of lines on which regression depth is known or bounded: the compiled part.

A candidate is a pair of integers ``(k, c)``, slope and centre in units of a lattice. Observation i is the function

    V_i(k) = round(y_i unit - x_i k),

and its residual at the candidate is positive if ``c < V_i(k)``, otherwise negative. A node of the tree holds the candidates
with ``first <= k < stop`` and ``V_lo(k) <= c < V_hi(k)`` that lie on its side of every cut above it; a cut is a column or
an observation. The functions are rounded lines, so what holds at both ends of the columns by more than the rounding holds
between them. Nothing else is assumed of the floating-point arithmetic: ``docs/privacy/deepest_regression.md``.
"""

import math

import numpy as np
from numba import njit

__all__ = ["FIELDS", "grow", "measure", "line_at", "depth_at", "holds", "refine", "split"]

FIELDS = ("first", "stop", "lo", "hi", "parent", "side", "child", "kind", "cut", "bound", "open", "height")
FIRST, STOP, LO, HI, PARENT, SIDE, CHILD, KIND, CUT, BOUND, OPEN, HEIGHT = range(len(FIELDS))
COLUMN, OBSERVATION = 1, 2
_ROUNDING = 2.0**-51
_FEW_COLUMNS, _FEW_SLACKS = 4096, 8


@njit(cache=True)
def line_at(x, y, i, k, unit):
    """``V_i(k)``, a whole number."""
    return np.rint(y[i] * unit - x[i] * k)


@njit(cache=True)
def _slack(x, y, i, unit, reach):
    """Twice what ``V_i`` may be off a line, for columns up to `reach`."""
    return 1.0 + _ROUNDING * (abs(y[i]) * unit + abs(x[i]) * reach)


@njit(cache=True)
def _depth(signs, last):
    """Regression depth from the signs of the residuals in order of the covariate; zeros count on either side."""
    total = 0
    low = 0
    high = 0
    negative = 0
    positive = 0
    for i in range(len(signs)):
        s = signs[i]
        total += s
        if s > 0:
            positive += 1
        elif s < 0:
            negative += 1
        if last[i]:
            low = min(low, total)
            high = max(high, total)
    zeros = len(signs) - negative - positive
    return zeros + min(negative + low, positive - high), zeros


@njit(cache=True)
def depth_at(x, y, last, k, c, unit):
    """Depth of the candidate ``(k, c)``."""
    signs = np.empty(len(last), np.int8)
    for i in range(len(last)):
        signs[i] = 1 if c < line_at(x, y, i, k, unit) else -1
    return _depth(signs, last)[0]


@njit(cache=True)
def _place(inner, inner_end, gap, span):
    """Where in ``(0, span)`` a line comes inside of a side of a node, or comes clear of it by `gap`; -1 if nowhere.

    ``inner`` and ``inner_end`` are by how much it is inside at the two ends.
    """
    if (inner < 0) != (inner_end < 0):
        return inner / (inner - inner_end) * span
    if inner <= 0 and inner_end <= 0 and min(inner, inner_end) <= -gap:
        return (inner + 2 * gap) / (inner - inner_end) * span
    return -1.0


@njit(cache=True)
def measure(I, F, node, x, y, last, rate, reach):
    """Bound the depth on a node, count the observations that cross it, and plan the cut that comes next."""
    n = len(last)
    first, end, lo, hi = I[node, FIRST], I[node, STOP] - 1, I[node, LO], I[node, HI]
    unit = F[node, 0]
    low, high = line_at(x, y, lo, first, unit), line_at(x, y, hi, first, unit)
    low_end, high_end = line_at(x, y, lo, end, unit), line_at(x, y, hi, end, unit)
    slack_lo, slack_hi = _slack(x, y, lo, unit, reach), _slack(x, y, hi, unit, reach)
    single = first == end
    half = (end - first) / 2
    # a cut above settles its observation for good: without this, two lines within the rounding could cut in turns
    signs = np.zeros(n, np.int8)
    above = node
    while I[above, PARENT] >= 0:
        side = I[above, SIDE]
        above = I[above, PARENT]
        if I[above, KIND] == OBSERVATION:
            signs[I[above, CUT]] = 1 - 2 * side
    spanning = np.empty(n, np.int64)
    heights = np.empty(n)
    places = np.empty(n)
    n_spanning = 0
    n_places = 0
    for i in range(n):
        if signs[i] != 0:
            continue
        at, to = line_at(x, y, i, first, unit), line_at(x, y, i, end, unit)
        slack = 0.0 if single else _slack(x, y, i, unit, reach)
        # parallel lines keep their order whatever the rounding
        if x[i] == x[lo]:
            under = y[i] <= y[lo]
        else:
            gap = 0.0 if single else slack + slack_lo
            under = low - at >= gap and low_end - to >= gap
        if x[i] == x[hi]:
            over = y[i] >= y[hi]
        else:
            gap = 0.0 if single else slack + slack_hi
            over = at - high >= gap and to - high_end >= gap
        if under:
            signs[i] = -1
        elif over:
            signs[i] = 1
        else:
            if low <= at <= high and low_end <= to <= high_end:
                spanning[n_spanning] = i
                heights[n_spanning] = at + to
                n_spanning += 1
            else:
                place = _place(at - low, to - low_end, slack + slack_lo, end - first)
                other = _place(high - at, high_end - to, slack + slack_hi, end - first)
                if place < 0 or (other >= 0 and abs(other - half) < abs(place - half)):
                    place = other
                if place >= 0:
                    places[n_places] = place
                    n_places += 1
                else:
                    # along a side, within the rounding
                    spanning[n_spanning] = i
                    heights[n_spanning] = at + to
                    n_spanning += 1
    bound, n_open = _depth(signs, last)
    I[node, BOUND] = bound
    I[node, OPEN] = n_open
    I[node, KIND] = 0
    if (
        n_open > 0
        and 0 < end - first < _FEW_COLUMNS
        and max(high - low, high_end - low_end) < _FEW_SLACKS * (slack_lo + slack_hi)
    ):
        # observations closer than the rounding have an order in a single column
        I[node, KIND] = COLUMN
        I[node, CUT] = first + (end - first + 1) // 2
    elif n_spanning > 0 and n_spanning >= n_places:
        middle = np.argsort(heights[:n_spanning])[n_spanning // 2]
        I[node, KIND] = OBSERVATION
        I[node, CUT] = spanning[middle]
    elif n_places > 0 and end > first:
        cut = first + int(math.ceil(np.median(places[:n_places])))
        I[node, KIND] = COLUMN
        I[node, CUT] = min(max(cut, first + 1), end)
    height = max(high - low, high_end - low_end)
    if not single:
        height += slack_lo + slack_hi
    if height < 1:
        I[node, HEIGHT] = 0
        F[node, 1] = -np.inf
        I[node, KIND] = 0
    else:
        I[node, HEIGHT] = int(math.ceil(height))
        F[node, 1] = math.log(float(I[node, STOP] - first)) + math.log(math.ceil(height)) + rate * bound


@njit(cache=True)
def split(I, F, used, node, x, y, last, rate, reach):
    """Cut a node as planned; its parts are the nodes `used` and ``used + 1``."""
    for side in range(2):
        part = used + side
        I[part, FIRST] = I[node, FIRST]
        I[part, STOP] = I[node, STOP]
        I[part, LO] = I[node, LO]
        I[part, HI] = I[node, HI]
        I[part, PARENT] = node
        I[part, SIDE] = side
        I[part, CHILD] = -1
        F[part, 0] = F[node, 0]
        cut = I[node, CUT]
        if I[node, KIND] == COLUMN:
            I[part, STOP if side == 0 else FIRST] = cut
        else:
            I[part, HI if side == 0 else LO] = cut
        measure(I, F, part, x, y, last, rate, reach)
    I[node, CHILD] = used


@njit(cache=True)
def refine(I, F, used, x, y, last, rate, reach, tolerance, most):
    """Cut nodes until those with more than `tolerance` open observations weigh less than a tenth of all.

    Stops early at `most` nodes. Returns the number of nodes.
    """
    while True:
        top = -np.inf
        for node in range(used):
            if I[node, CHILD] < 0:
                top = max(top, F[node, 1])
        total = 0.0
        rough = 0.0
        n_rough = 0
        for node in range(used):
            if I[node, CHILD] < 0:
                w = math.exp(F[node, 1] - top)
                total += w
                if I[node, KIND] != 0 and I[node, OPEN] > tolerance:
                    rough += w
                    n_rough += 1
        if rough <= 0.1 * total:
            return used
        # the rough nodes below this weigh less than half of the rough ones together
        least = math.log(rough / (2 * n_rough)) + top
        for node in range(used):
            if (
                I[node, CHILD] < 0
                and I[node, KIND] != 0
                and I[node, OPEN] > tolerance
                and F[node, 1] >= least
            ):
                if used + 2 > most:
                    return used
                split(I, F, used, node, x, y, last, rate, reach)
                used += 2


@njit(cache=True)
def holds(I, F, node, x, y, k, c):
    """Whether a candidate from the lower side of a node on is on its side of every cut above it, and in its root."""
    if c >= line_at(x, y, I[node, HI], k, F[node, 0]):
        return False
    while I[node, PARENT] >= 0:
        side = I[node, SIDE]
        node = I[node, PARENT]
        cut = I[node, CUT]
        if I[node, KIND] == COLUMN:
            upper = k >= cut
        else:
            upper = c >= line_at(x, y, cut, k, F[node, 0])
        if upper != (side == 1):
            return False
    unit = F[node, 0]
    return line_at(x, y, I[node, LO], k, unit) <= c < line_at(x, y, I[node, HI], k, unit)


def grow(I, F, size):
    """Room for `size` nodes."""
    larger = np.zeros((size, I.shape[1]), np.int64), np.zeros((size, 2))
    larger[0][: len(I)], larger[1][: len(F)] = I, F
    return larger
