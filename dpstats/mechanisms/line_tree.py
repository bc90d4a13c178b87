r"""A partition of the lattice of lines on which regression depth is known or bounded: the compiled part.

A candidate is a slope ``s`` and a centre ``c``. Observation i is the line

    V_i(s) = y_i - x_i s,

and its residual at the candidate is positive if ``c < V_i(s)``, otherwise negative. A node of the tree holds
the candidates with ``first <= s unit < stop`` and ``V_lo(s) <= c < V_hi(s)``; it is cut at a column or along
an observation that lies between its sides. All comparisons are exact: first in doubles, with a bound of the
error, and if that is not enough by expansions.

        c                         V_1 is above the upper side at both ends and so throughout: its residual is
        |            ____ V_1     positive at every candidate of the node. It is settled.
        |  ____-----      . V_hi  V_2 crosses a side, V_3 lies between the sides: the signs of their residuals
        |---     . '      __ V_3  change within the node. They are open. The node could be cut along V_3, or
        |  . '     __----  |      at the column where V_2 crosses the lower side.
        | |  __----        |      Lines are straight: what holds at both ends of the node holds between them.
        | |--  \ V_2      . V_lo
        | |     .  ' \     |
        +-+----------------+--- s
         first          stop - 1

**Bounds of the depth.** Let the sign of observation i be 1 or -1 like its residual, and ``S_k`` the sum of
the signs of the observations with the k smallest values of the covariate (tied ones together, and
``S_0 = 0``). The depth is

    min( #negative + min_k S_k,  #positive - max_k S_k ).

A node with ``o`` open observations counts them as signs of zero. Either side changes by at most one for each
of them: the depth is at most `bound`, which is ``o`` more than the formula gives for the settled ones, and at
least ``bound - o``.

**Lists.** A node keeps a list of the observations that were open in the node above it. What is settled
between one of the list and the next in order of the covariate enters the depth by three numbers only: the sum
of the signs and the extremes of the partial sums (a *run*). So a node costs the number of its open
observations and not that of all. With six observations, signs ``+ ? - - ? +`` in order of the covariate, the
list has the entries (observation, and of the run before it: sum, low, high)

    (1: 1, 1, 1), (4: -2, -2, -1), (end: 1, 1, 1).

The partial sums are 0, 1, 1, 0, -1, -1, 0; two are settled each way, so
``bound = 2 + min(2 - 1, 2 - 1) = 3``.

**Shells.** A node may stand for several shells at once: itself and its magnifications by powers of 4.
Magnified by 4, a node sees the observations ``V_i`` as it would unmagnified see ``y_i / 4 - x_i s``; so the
first and the last shell bound all between. Its sides are those of the shells or parallels of observations
through the origin, which are the same lines in all of them.
"""

import math

import numpy as np

from dpstats._jit import kernel
from dpstats.depth._expansions import two_product, two_sum

__all__ = ["FIELDS", "Tree", "measure", "above", "depth_at", "refine", "split"]

FIELDS = ("first", "stop", "lo", "hi", "shells", "bound", "open", "list", "length")
FIRST, STOP, LO, HI, SHELLS, BOUND, OPEN, LIST, LENGTH = range(len(FIELDS))
"""First column and column past the last, sides, shells, largest depth, open observations, start and length of
the list."""
UNIT, WEIGHT, HEIGHT = range(3)
"""Columns to a unit of the slope, log-weight, and centres in the tallest column."""
INDEX, SUM, LOW, HIGH = range(4)
"""An observation, and of the run before it the sum of signs and the extremes of the partial sums."""
AT_SHELL, AT_COLUMN, AT_LINE = range(3)
SIDES = 8
"""Sides of a shell."""
_NONE = 1 << 30
"""The extremes of no partial sums: the lowest is this, the highest minus this."""
_ROUGH, _CLOSE = 2.0**-30, 2.0**-48
"""Relative to the numbers that enter a difference: where its rounding is below 2^-18 of it, and where its
sign is known."""
_INFLATE = 1 + 2.0**-16
"""More than what a height may have lost to rounding."""
_SURE, _FAR = 0.25, 50.0
"""Share of the weight that need not be doubted before the first draw; nodes that weigh ``exp(-50)`` of the
largest are left out of it."""


class Tree:
    """Nodes, with room for as many, and the lists of observations.

    Attributes
    ----------
    fields : (room, len(FIELDS)) int64 ndarray
    reals : (room, 3) ndarray
        ``UNIT``, ``WEIGHT`` and ``HEIGHT``; a node that was cut, or holds no candidate, has weight ``-inf``.
    entries : (length, 4) int32 ndarray
        Lists, one after the other. The last entry of each has observation -1.
    used : (2,) int64 ndarray
        Nodes and entries in use.
    """

    def __init__(self, n: int, room: int) -> None:
        self.fields, self.reals = np.zeros((0, len(FIELDS)), np.int64), np.zeros((0, 3))
        self.entries = np.empty((4 * n + (1 << 18), 4), np.int32)
        # the first list: all observations, with nothing settled before them
        self.entries[: n + 1] = 0, 0, _NONE, -_NONE
        self.entries[: n + 1, INDEX] = np.arange(n + 1)
        self.entries[n, INDEX] = -1
        self.used = np.array([0, n + 1])
        self.grow(room)

    def grow(self, room: int) -> None:
        """Room for `room` nodes."""
        fields, reals = np.zeros((room, len(FIELDS)), np.int64), np.zeros((room, 3))
        fields[: len(self.fields)], reals[: len(self.reals)] = self.fields, self.reals
        self.fields, self.reals = fields, reals


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
    """The number of a line of a node in a later shell: sides of shells follow n observations and n lines
    through the origin."""
    return line if line < 2 * n else line + SIDES * number


@kernel
def _frame(fields, reals, x, y, node):
    """The sides of a node in its first shell and the slopes at its ends."""
    lo, hi, unit = fields[node, LO], fields[node, HI], reals[node, UNIT]
    return x[lo], y[lo], x[hi], y[hi], fields[node, FIRST] / unit, (fields[node, STOP] - 1) / unit


@kernel
def _inside(x_i, top, bottom, frame):
    """By how much lines of one slope are inside of a node, at both ends: the top one above its lower side,
    the bottom one below its upper side."""
    x_lo, y_lo, x_hi, y_hi, s, t = frame
    return (
        _difference(x_i, top, x_lo, y_lo, s),
        _difference(x_i, top, x_lo, y_lo, t),
        _difference(x_hi, y_hi, x_i, bottom, s),
        _difference(x_hi, y_hi, x_i, bottom, t),
    )


@kernel
def _sign(x_i, y_i, far, frame):
    """The sign of an observation everywhere in a node, or 0 if it is open.

    It is that of the lines of one slope from `y_i` to ``far y_i``: as the first shell of the node sees the
    observation and as the last one does. -1 if all are at most the lower side at both ends, 1 if all are at
    least the upper one.
    """
    x_lo, y_lo, x_hi, y_hi, s, t = frame
    top, bottom = max(y_i, y_i * far), min(y_i, y_i * far)
    if _difference(x_i, top, x_lo, y_lo, s) <= 0.0 and _difference(x_i, top, x_lo, y_lo, t) <= 0.0:
        return -1
    if _difference(x_hi, y_hi, x_i, bottom, s) <= 0.0 and _difference(x_hi, y_hi, x_i, bottom, t) <= 0.0:
        return 1
    return 0


@kernel
def _with_run(total, low, high, entries, entry):
    """A run, lengthened by the run of an entry: sum of signs and extremes of the partial sums."""
    if entries[entry, LOW] <= entries[entry, HIGH]:  # otherwise it has no partial sums
        low = min(low, total + entries[entry, LOW])
        high = max(high, total + entries[entry, HIGH])
    return total + entries[entry, SUM], low, high


@kernel
def _with_sign(total, low, high, sign, is_last):
    """A run, lengthened by one observation; there is a partial sum only after the last of one value of the
    covariate."""
    total += sign
    if is_last:
        low = min(low, total)
        high = max(high, total)
    return total, low, high


@kernel
def _last_shell(fields, node):
    """What the last shell of a node sees a response multiplied by."""
    return 0.25 ** (fields[node, SHELLS] - 1)


@kernel
def _bound(fields, entries, node, x, y, last, frame):
    """The largest depth that a candidate of a node may have, and the number of observations open in it."""
    far = _last_shell(fields, node)
    # one run from the smallest covariate on, in which open observations have sign 0; S_0 = 0 is a partial sum
    total = 0
    low = 0
    high = 0
    n_open = 0
    start = fields[node, LIST]
    end = start + fields[node, LENGTH]
    for entry in range(start, end):
        total, low, high = _with_run(total, low, high, entries, entry)
        i = entries[entry, INDEX]
        sign = _sign(x[i], y[i], far, frame)
        if sign == 0:
            n_open += 1
        total, low, high = _with_sign(total, low, high, sign, last[i])
    total, low, high = _with_run(total, low, high, entries, end)
    settled = len(last) - n_open
    negative, positive = (settled - total) // 2, (settled + total) // 2
    return n_open + min(negative + low, positive - high), n_open


@kernel
def measure(fields, reals, entries, node, x, y, last, rate, grain):
    """Bound the depth on a node, count the observations that cross it, and weigh it.

    Observations are those of the list that it comes with. `grain` is the number of centres to a column's
    width. The weight is that of a box of candidates of depth `bound`, with as many columns as the node, each
    as tall as its tallest.
    """
    frame = _frame(fields, reals, x, y, node)
    fields[node, BOUND], fields[node, OPEN] = _bound(fields, entries, node, x, y, last, frame)
    # the distance of the sides is linear in the slope, so it is largest at an end
    x_lo, y_lo, x_hi, y_hi, s, t = frame
    height = max(_difference(x_hi, y_hi, x_lo, y_lo, s), _difference(x_hi, y_hi, x_lo, y_lo, t))
    if height <= 0.0:
        # there is no candidate
        fields[node, OPEN] = 0
        reals[node, HEIGHT] = 0.0
        reals[node, WEIGHT] = -np.inf
    else:
        # in centres, rounded up; more than an int64 holds, which math.floor is in some versions of Numba
        reals[node, HEIGHT] = np.floor(height * reals[node, UNIT] * grain * _INFLATE) + 1.0
        columns = float(fields[node, STOP] - fields[node, FIRST]) * fields[node, SHELLS]
        reals[node, WEIGHT] = math.log(columns) + math.log(reals[node, HEIGHT]) + rate * fields[node, BOUND]


@kernel
def _shorten(fields, entries, used, node, x, y, last, frame):
    """Give a node a list of its open observations alone, if there is room: what was settled in it goes into
    the runs."""
    at = used[1]
    if fields[node, OPEN] == fields[node, LENGTH] or at + fields[node, OPEN] + 1 > len(entries):
        return
    far = _last_shell(fields, node)
    start = fields[node, LIST]
    end = start + fields[node, LENGTH]
    # the run since the last open observation
    total = 0
    low = _NONE
    high = -_NONE
    for entry in range(start, end + 1):
        total, low, high = _with_run(total, low, high, entries, entry)
        i = entries[entry, INDEX]
        sign = _sign(x[i], y[i], far, frame) if entry < end else 0
        if sign != 0:
            total, low, high = _with_sign(total, low, high, sign, last[i])
        else:
            # an open observation, or the end of the list
            entries[at, INDEX], entries[at, SUM], entries[at, LOW], entries[at, HIGH] = i, total, low, high
            at += 1
            total = 0
            low = _NONE
            high = -_NONE
    fields[node, LIST], fields[node, LENGTH] = used[1], fields[node, OPEN]
    used[1] = at


@kernel
def _next_cut(fields, entries, node, x, y, last, frame):
    """What to cut a node at: shells, or a column, or a line; and the number of the first column above or that
    of the line.

    The line in the middle of those that lie between its sides, or the column in the middle of the crossings
    of a side, if these are more. In more shells than one the lines are the observations' parallels through
    the origin, which are the same in all of them; where most of the open observations cross some of the
    shells only, the shells are halved.
    """
    many = fields[node, SHELLS] > 1
    far = _last_shell(fields, node)
    # lines that lie between the sides, their heights in the node, and where others cross a side (0 to 1)
    lines = np.empty(fields[node, OPEN], np.int64)
    heights = np.empty(fields[node, OPEN])
    crossings = np.empty(2 * fields[node, OPEN])
    n_lines = 0
    n_crossings = 0
    # open observations that a line or a column can be placed by, and those that call for fewer shells
    n_placing = 0
    n_halving = 0
    start = fields[node, LIST]
    for entry in range(start, start + fields[node, LENGTH]):
        i = entries[entry, INDEX]
        if _sign(x[i], y[i], far, frame) != 0:
            continue  # settled since the list was written
        if many and (_sign(x[i], y[i], 1.0, frame) != 0 or _sign(x[i], y[i] * far, 1.0, frame) != 0):
            n_halving += 1  # open in between, but not in the first shell or not in the last
            continue
        height = 0.0 if many else y[i]
        low_s, low_t, high_s, high_t = _inside(x[i], height, height, frame)
        if (low_s <= 0.0 and low_t <= 0.0) or (high_s <= 0.0 and high_t <= 0.0):
            n_halving += 1  # the parallel through the origin is outside
            continue
        n_placing += 1
        if min(low_s, low_t, high_s, high_t) >= 0.0:
            lines[n_lines] = i + len(last) if many else i
            heights[n_lines] = low_s + low_t
            n_lines += 1
        else:
            if (low_s < 0.0) != (low_t < 0.0):
                crossings[n_crossings] = low_s / (low_s - low_t)
                n_crossings += 1
            if (high_s < 0.0) != (high_t < 0.0):
                crossings[n_crossings] = high_s / (high_s - high_t)
                n_crossings += 1
    if n_halving > n_placing:
        return AT_SHELL, 0
    if n_lines >= n_crossings:
        return AT_LINE, lines[np.argsort(heights[:n_lines])[n_lines // 2]]
    first, end = fields[node, FIRST], fields[node, STOP] - 1
    cut = first + int(math.ceil(np.median(crossings[:n_crossings]) * (end - first)))
    return AT_COLUMN, min(max(cut, first + 1), end)


@kernel
def split(fields, reals, entries, used, node, x, y, last, rate, grain):
    """Cut a node; its parts are the next two."""
    frame = _frame(fields, reals, x, y, node)
    _shorten(fields, entries, used, node, x, y, last, frame)
    kind, cut = _next_cut(fields, entries, node, x, y, last, frame)
    for side in range(2):
        part = used[0] + side
        # a part is the node but for what the cut changes; it shares the node's list
        fields[part] = fields[node]
        reals[part, UNIT] = reals[node, UNIT]
        if kind == AT_SHELL:
            nearer = fields[node, SHELLS] // 2
            fields[part, SHELLS] = nearer if side == 0 else fields[node, SHELLS] - nearer
            if side == 1:
                # its first shell is `nearer` shells on: other sides, and columns 4^nearer times as wide
                fields[part, LO] = in_shell(fields[node, LO], nearer, len(last))
                fields[part, HI] = in_shell(fields[node, HI], nearer, len(last))
                reals[part, UNIT] *= 0.25**nearer
        elif kind == AT_COLUMN:
            fields[part, STOP if side == 0 else FIRST] = cut
        else:
            fields[part, HI if side == 0 else LO] = cut
        measure(fields, reals, entries, part, x, y, last, rate, grain)
    reals[node, WEIGHT] = -np.inf
    used[0] += 2


@kernel
def refine(fields, reals, entries, used, x, y, last, rate, grain):
    """Cut nodes until at least `_SURE` of their weight is that of candidates of the least depth that they may
    have.

    A node of weight ``w`` with ``o`` open observations has ``w (1 - exp(-rate o))`` of *doubt*: by so much
    less it would weigh if its candidates had the least depth that they may have. Every pass cuts the nodes
    with much of the doubt. Stops early where there is no room for more nodes; returns whether it came to the
    end.
    """
    while True:
        n = used[0]
        top = -np.inf
        for node in range(n):
            top = max(top, reals[node, WEIGHT])
        # weights and doubts in units of the largest weight
        total = 0.0
        doubt = 0.0
        n_doubt = 0
        for node in range(n):
            if reals[node, WEIGHT] > top - _FAR:
                w = math.exp(reals[node, WEIGHT] - top)
                total += w
                if fields[node, OPEN] > 0:
                    doubt -= w * math.expm1(-rate * fields[node, OPEN])
                    n_doubt += 1
        if total - doubt >= _SURE * total:
            return True
        # the nodes below this have less than half of the doubt together
        least = math.log(doubt / (2 * n_doubt)) + top
        for node in range(n):
            # (the first comparison is implied by the second, and cheap)
            if fields[node, OPEN] > 0 and reals[node, WEIGHT] >= least:
                if reals[node, WEIGHT] + math.log(-math.expm1(-rate * fields[node, OPEN])) >= least:
                    if used[0] + 2 > len(fields):
                        return False
                    split(fields, reals, entries, used, node, x, y, last, rate, grain)
