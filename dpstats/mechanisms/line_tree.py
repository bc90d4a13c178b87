"""A partition of the lattice of lines on which regression depth is known or bounded: the compiled part.

A candidate is a slope ``s`` and a centre ``c``. Observation i is the line

    V_i(s) = y_i - x_i s,

and its residual at the candidate is positive if ``c < V_i(s)``, otherwise negative. A node of the tree holds the candidates
with ``first <= s unit < stop`` and ``V_lo(s) <= c < V_hi(s)``; it is cut at a column or along an observation that lies between
its sides. All comparisons are exact: first in doubles, with a bound of the error, and if that is not enough by expansions.

A node may stand for several shells at once: itself and its magnifications by powers of 4. Magnified by 4, a node sees the
observations ``V_i`` as it would unmagnified see ``y_i / 4 - x_i s``; so the first and the last shell bound all between. Its sides
are those of the shells or parallels of observations through the origin, which are the same lines in all of them.

A node keeps a list of the observations that are open, that is, cross it. What was settled above it, between one open
observation and the next in order of the covariate, enters the depth by three numbers only: the sum of the signs and the
extremes of the partial sums. So a node costs the number of its open observations and not that of all.
"""

import math

import numpy as np

from dpstats._jit import kernel
from dpstats.depth._expansions import two_product, two_sum

__all__ = ["FIELDS", "Tree", "measure", "above", "depth_at", "refine", "split"]

FIELDS = ("first", "stop", "lo", "hi", "shells", "bound", "open", "list", "length")
FIRST, STOP, LO, HI, SHELLS, BOUND, OPEN, LIST, LENGTH = range(len(FIELDS))
UNIT, WEIGHT, HEIGHT = range(3)
INDEX, SUM, LOW, HIGH = range(4)
AT_SHELL, AT_COLUMN, AT_LINE = range(3)
SIDES = 8
"""Sides of a shell."""
_NONE = 1 << 30
"""The extremes of no partial sums: the lowest is this, the highest minus this."""
_ROUGH, _CLOSE = 2.0**-30, 2.0**-48
"""Relative to the numbers that enter a difference: where its rounding is below 2^-18 of it, and where its sign is known."""
_INFLATE = 1 + 2.0**-16
_SURE, _FAR = 0.25, 50.0
"""Share of the weight that need not be doubted before the first draw; nodes that weigh ``exp(-50)`` of the largest are left out of it."""


class Tree:
    """Nodes, with room for as many, and the lists of open observations.

    Attributes
    ----------
    I : (room, len(FIELDS)) int64 ndarray
    F : (room, 3) ndarray
        Unit, log-weight and height.
    A : (entries, 4) int32 ndarray
        Lists: an open observation, and of those settled before it the sum of signs and the extremes of the partial sums.
        A list ends with observation -1.
    used : (2,) int64 ndarray
        Nodes and entries in use.
    """

    def __init__(self, n, room):
        self.I, self.F = np.zeros((0, len(FIELDS)), np.int64), np.zeros((0, 3))
        self.A = np.empty((4 * n + (1 << 18), 4), np.int32)
        self.A[: n + 1] = 0, 0, _NONE, -_NONE
        self.A[: n + 1, INDEX] = np.arange(n + 1)
        self.A[n, INDEX] = -1
        self.used = np.array([0, n + 1])
        self.grow(room)

    def grow(self, room):
        """Room for `room` nodes."""
        I, F = np.zeros((room, len(FIELDS)), np.int64), np.zeros((room, 3))
        I[: len(self.I)], F[: len(self.F)] = self.I, self.F
        self.I, self.F = I, F


@kernel
def _exact(terms):
    """The sum of a few doubles, to rounding, with its exact sign; overwrites them."""
    # after each pass the terms before the last are the errors, which do not overlap
    m = 0
    for j in range(len(terms)):
        q = terms[j]
        k = 0
        for i in range(m):
            q, err = two_sum(q, terms[i])
            if err != 0.0:
                terms[k] = err
                k += 1
        terms[k] = q
        m = k + 1
    total = 0.0
    for i in range(m):
        total += terms[i]
    return total


@kernel
def _difference(x_i, y_i, x_j, y_j, s):
    """``V_i(s) - V_j(s)`` to a relative 2^-18, with its exact sign."""
    rise, turn = y_i - y_j, (x_i - x_j) * s
    rough = rise - turn
    if abs(rough) > _ROUGH * (abs(rise) + abs(turn)):
        return rough
    terms = np.empty(6)
    p, e = two_product(x_i, s)
    q, f = two_product(x_j, s)
    terms[0], terms[1], terms[2], terms[3], terms[4], terms[5] = -e, f, -p, q, y_i, -y_j
    return _exact(terms)


@kernel
def above(x, y, i, s, c):
    """Whether ``c < V_i(s)``, the centre being the sum of the three doubles `c`."""
    rise, turn = y[i] - c[0], x[i] * s
    rough = rise - turn
    if abs(rough) > _CLOSE * (abs(rise) + abs(turn)) + 2 * abs(c[1]):
        return rough > 0.0
    terms = np.empty(6)
    p, e = two_product(x[i], s)
    terms[0], terms[1], terms[2], terms[3], terms[4], terms[5] = -c[2], -c[1], -e, -p, y[i], -c[0]
    return _exact(terms) > 0.0


@kernel
def depth_at(x, y, last, s, c):
    """Depth of a candidate; `last` marks the last of the observations with one value of the covariate."""
    total = 0
    low = 0
    high = 0
    n = len(last)
    for i in range(n):
        total += 1 if above(x, y, i, s, c) else -1
        if last[i]:
            low = min(low, total)
            high = max(high, total)
    return min((n - total) // 2 + low, (n + total) // 2 - high)


@kernel
def in_shell(line, number, n):
    """The number of a line of a node in a later shell: sides of shells follow n observations and n lines through the origin."""
    return line if line < 2 * n else line + SIDES * number


@kernel
def _frame(I, F, x, y, node):
    """The sides of a node in its first shell and the slopes at its ends."""
    lo, hi, unit = I[node, LO], I[node, HI], F[node, UNIT]
    return x[lo], y[lo], x[hi], y[hi], I[node, FIRST] / unit, (I[node, STOP] - 1) / unit


@kernel
def _inside(x_i, top, bottom, frame):
    """By how much lines of one slope are inside of a node, at both ends: the top one above its lower side, the bottom one
    below its upper side."""
    x_lo, y_lo, x_hi, y_hi, s, t = frame
    return (
        _difference(x_i, top, x_lo, y_lo, s),
        _difference(x_i, top, x_lo, y_lo, t),
        _difference(x_hi, y_hi, x_i, bottom, s),
        _difference(x_hi, y_hi, x_i, bottom, t),
    )


@kernel
def _sign(x_i, top, bottom, frame):
    """-1 if lines of one slope are nowhere above the lower side of a node, 1 if nowhere below the upper one, otherwise 0."""
    x_lo, y_lo, x_hi, y_hi, s, t = frame
    if _difference(x_i, top, x_lo, y_lo, s) <= 0.0 and _difference(x_i, top, x_lo, y_lo, t) <= 0.0:
        return -1
    if _difference(x_hi, y_hi, x_i, bottom, s) <= 0.0 and _difference(x_hi, y_hi, x_i, bottom, t) <= 0.0:
        return 1
    return 0


@kernel
def measure(I, F, A, node, x, y, last, rate, grain):
    """Bound the depth on a node, count the observations that cross it, and weigh it.

    Observations are those of the list that it comes with. `grain` is the number of centres to a column's width.
    """
    frame = _frame(I, F, x, y, node)
    far = 0.25 ** (I[node, SHELLS] - 1)
    total = 0
    low = 0
    high = 0
    n_open = 0
    entry = I[node, LIST]
    while True:
        if A[entry, LOW] <= A[entry, HIGH]:
            low = min(low, total + A[entry, LOW])
            high = max(high, total + A[entry, HIGH])
        total += A[entry, SUM]
        i = A[entry, INDEX]
        if i < 0:
            break
        sign = _sign(x[i], max(y[i], y[i] * far), min(y[i], y[i] * far), frame)
        total += sign
        if sign == 0:
            n_open += 1
        if last[i]:
            low = min(low, total)
            high = max(high, total)
        entry += 1
    settled = len(last) - n_open
    bound = n_open + min((settled - total) // 2 + low, (settled + total) // 2 - high)
    I[node, BOUND] = bound
    I[node, OPEN] = n_open
    x_lo, y_lo, x_hi, y_hi, s, t = frame
    height = max(_difference(x_hi, y_hi, x_lo, y_lo, s), _difference(x_hi, y_hi, x_lo, y_lo, t))
    if height <= 0.0:
        I[node, OPEN] = 0
        F[node, HEIGHT] = 0.0
        F[node, WEIGHT] = -np.inf
    else:
        F[node, HEIGHT] = math.floor(height * F[node, UNIT] * grain * _INFLATE) + 1.0
        columns = float(I[node, STOP] - I[node, FIRST]) * I[node, SHELLS]
        F[node, WEIGHT] = math.log(columns) + math.log(F[node, HEIGHT]) + rate * bound


@kernel
def _listed(I, A, used, node, x, y, last, frame):
    """Write the list of the open observations of a node, if there is room."""
    at = used[1]
    if I[node, OPEN] == I[node, LENGTH] or at + I[node, OPEN] + 1 > len(A):
        return
    far = 0.25 ** (I[node, SHELLS] - 1)
    entry = I[node, LIST]
    I[node, LIST], I[node, LENGTH] = at, I[node, OPEN]
    total = 0
    low = _NONE
    high = -_NONE
    while True:
        if A[entry, LOW] <= A[entry, HIGH]:
            low = min(low, total + A[entry, LOW])
            high = max(high, total + A[entry, HIGH])
        total += A[entry, SUM]
        i = A[entry, INDEX]
        sign = 0
        if i >= 0:
            sign = _sign(x[i], max(y[i], y[i] * far), min(y[i], y[i] * far), frame)
        if sign != 0:
            total += sign
            if last[i]:
                low = min(low, total)
                high = max(high, total)
        else:
            A[at, INDEX], A[at, SUM], A[at, LOW], A[at, HIGH] = i, total, low, high
            at += 1
            total = 0
            low = _NONE
            high = -_NONE
            if i < 0:
                used[1] = at
                return
        entry += 1


@kernel
def _plan(I, A, node, x, y, last, frame):
    """What to cut a node at: shells, or a column, or a line; and the number of the first column above or that of the line.

    The line in the middle of those that lie between its sides, or the column in the middle of the crossings of a side, if
    these are more. In more shells than one the lines are the observations' parallels through the origin, which are the
    same in all of them; where most of the open observations cross some of the shells only, the shells are halved.
    """
    many = I[node, SHELLS] > 1
    far = 0.25 ** (I[node, SHELLS] - 1)
    lines = np.empty(I[node, OPEN], np.int64)
    heights = np.empty(I[node, OPEN])
    crossings = np.empty(2 * I[node, OPEN])
    n_lines = 0
    n_crossings = 0
    n_useful = 0
    n_some = 0
    entry = I[node, LIST]
    while A[entry, INDEX] >= 0:
        i = A[entry, INDEX]
        entry += 1
        if _sign(x[i], max(y[i], y[i] * far), min(y[i], y[i] * far), frame) != 0:
            continue
        if many and (_sign(x[i], y[i], y[i], frame) != 0 or _sign(x[i], y[i] * far, y[i] * far, frame) != 0):
            n_some += 1
            continue
        level = 0.0 if many else y[i]
        a, b, c, d = _inside(x[i], level, level, frame)
        if (a <= 0.0 and b <= 0.0) or (c <= 0.0 and d <= 0.0):
            n_some += 1
            continue
        n_useful += 1
        if min(a, b, c, d) >= 0.0:
            lines[n_lines] = i + len(last) if many else i
            heights[n_lines] = a + b
            n_lines += 1
        else:
            if (a < 0.0) != (b < 0.0):
                crossings[n_crossings] = a / (a - b)
                n_crossings += 1
            if (c < 0.0) != (d < 0.0):
                crossings[n_crossings] = c / (c - d)
                n_crossings += 1
    if n_some > n_useful:
        return AT_SHELL, 0
    if n_lines >= n_crossings:
        return AT_LINE, lines[np.argsort(heights[:n_lines])[n_lines // 2]]
    first, end = I[node, FIRST], I[node, STOP] - 1
    cut = first + int(math.ceil(np.median(crossings[:n_crossings]) * (end - first)))
    return AT_COLUMN, min(max(cut, first + 1), end)


@kernel
def split(I, F, A, used, node, x, y, last, rate, grain):
    """Cut a node; its parts are the next two."""
    frame = _frame(I, F, x, y, node)
    _listed(I, A, used, node, x, y, last, frame)
    kind, cut = _plan(I, A, node, x, y, last, frame)
    for side in range(2):
        part = used[0] + side
        I[part] = I[node]
        F[part, UNIT] = F[node, UNIT]
        if kind == AT_SHELL:
            below = I[node, SHELLS] // 2
            I[part, SHELLS] = below if side == 0 else I[node, SHELLS] - below
            if side == 1:
                I[part, LO] = in_shell(I[node, LO], below, len(last))
                I[part, HI] = in_shell(I[node, HI], below, len(last))
                F[part, UNIT] *= 0.25**below
        elif kind == AT_COLUMN:
            I[part, STOP if side == 0 else FIRST] = cut
        else:
            I[part, HI if side == 0 else LO] = cut
        measure(I, F, A, part, x, y, last, rate, grain)
    F[node, WEIGHT] = -np.inf
    used[0] += 2


@kernel
def refine(I, F, A, used, x, y, last, rate, grain):
    """Cut nodes until at least `_SURE` of their weight is that of candidates of the least depth that they may have.

    Stops early where there is no room for more nodes; returns whether it came to the end.
    """
    while True:
        n = used[0]
        top = -np.inf
        for node in range(n):
            top = max(top, F[node, WEIGHT])
        total = 0.0
        doubt = 0.0
        n_doubt = 0
        for node in range(n):
            if F[node, WEIGHT] > top - _FAR:
                w = math.exp(F[node, WEIGHT] - top)
                total += w
                if I[node, OPEN] > 0:
                    doubt -= w * math.expm1(-rate * I[node, OPEN])
                    n_doubt += 1
        if total - doubt >= _SURE * total:
            return True
        # the nodes below this have less than half of the doubt together
        least = math.log(doubt / (2 * n_doubt)) + top
        for node in range(n):
            if I[node, OPEN] > 0 and F[node, WEIGHT] >= least:
                if F[node, WEIGHT] + math.log(-math.expm1(-rate * I[node, OPEN])) >= least:
                    if used[0] + 2 > len(I):
                        return False
                    split(I, F, A, used, node, x, y, last, rate, grain)
