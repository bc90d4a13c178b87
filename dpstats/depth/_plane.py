"""Exact halfspace-depth contours in the plane, for any number of depths in one pass.

The region ``{hd >= t}`` is the intersection of the half-planes ``v'z <= (v'x)_(n-t+1)``. Between two
directions at which the order statistic changes it belongs to one observation, so those directions, normal
to lines through two observations, suffice. A line with ``a`` observations strictly beyond it and ``o`` on it
bounds the depths ``a < t <= a + o``. A line is rotated about every observation in turn, and each bound
clips the convex polygons of its depths, which start as the boxes of the axis directions.

A vertex is kept as the pair of lines that meet in it (or as an observation), and the side of a vertex is
decided exactly, so regions that are a segment or a point are found as such. ``O(n^2 log n)`` time for all
depths together, memory ``O(n)`` and the polygons.

Names:

``P``, ``weights``
    Distinct observations and their multiplicities; ``i``, ``j`` and ``s`` are observations.
``A``, ``B``, ``C``
    Lines, by number. ``ends[A]`` are two observations on it, in the direction that has the kept side on the
    left; a second one below 0 stands for a line along an axis (:func:`dpstats.depth._predicates.line`).
``coefs[A]``
    ``a``, ``b``, ``c`` of the line ``a x + b y + c = 0``, positive on the left, with ``x`` and ``y`` taken
    about `centre`; and the size of the terms of ``c``.
``ids[k]``, ``V[k]``
    Vertex k of a polygon, counter-clockwise: its two lines, the line of the edge that leaves it and the
    observation in it or -1; its homogeneous coordinates, the third not negative, and sizes that bound their
    errors.
``e``, ``f``, ``g``
    The exact coefficients of three lines as expansions; the third coefficient has ``m``, ``n`` and ``k``
    terms.
``t``
    The index of a depth.
"""

import numba
import numpy as np

from dpstats._jit import kernel, out_of_line
from dpstats.depth._expansions import MATRIX, VECTOR, estimate
from dpstats.depth._order import order, workspace
from dpstats.depth._predicates import line, lines_minor2, lines_sign, orient2d

__all__ = ["polygons"]

_EPS = 2.220446049250313e-16

_INT = numba.int64
_INTS = numba.int64[::1]
_PAIRS = numba.int64[:, ::1]


@kernel(numba.void(MATRIX, VECTOR, _INT, _INT, VECTOR))
def _coefficients(P, centre, i, j, out):
    """Write ``a, b, c`` of a line (:func:`_predicates.line`), centred, and a bound of the size of ``c``."""
    out_of_line()
    if j < 0:
        s = -1.0 if j == -1 or j == -3 else 1.0
        axis = 0 if j >= -2 else 1
        out[0] = s if axis == 0 else 0.0
        out[1] = s if axis == 1 else 0.0
        out[2] = -s * (P[i, axis] - centre[axis])
        out[3] = abs(out[2])
        return
    xi = P[i, 0] - centre[0]
    yi = P[i, 1] - centre[1]
    xj = P[j, 0] - centre[0]
    yj = P[j, 1] - centre[1]
    out[0] = P[i, 1] - P[j, 1]
    out[1] = P[j, 0] - P[i, 0]
    out[2] = xi * yj - xj * yi
    out[3] = abs(xi * yj) + abs(xj * yi)


@kernel(inline="always")
def _meet(A, B, v):
    """Write the homogeneous intersection of two lines, given by their coefficients, to ``v[:3]``, and sizes
    for its errors to ``v[3:]``."""
    v[0] = A[1] * B[2] - B[1] * A[2]
    v[1] = A[2] * B[0] - B[2] * A[0]
    v[2] = A[0] * B[1] - B[0] * A[1]
    v[3] = abs(A[1]) * B[3] + abs(B[1]) * A[3]
    v[4] = A[3] * abs(B[0]) + B[3] * abs(A[0])
    v[5] = abs(A[0] * B[1]) + abs(B[0] * A[1])


@kernel(inline="always")
def _orientation(P, ends, A, B):
    """Return the exact sign of ``a_A b_B - b_A a_B``."""
    e = np.empty((3, 4))
    f = np.empty((3, 4))
    out = np.empty(32)
    m = line(P, ends[A, 0], ends[A, 1], e)
    n = line(P, ends[B, 0], ends[B, 1], f)
    k = lines_minor2(e, m, f, n, 2, out)
    return 0 if k == 0 else 1 if out[k - 1] > 0.0 else -1


@kernel(inline="always")
def _exact_side(P, ends, A, B, C):
    """Return the exact side of line C on which the intersection of lines A and B lies."""
    e = np.empty((3, 4))
    f = np.empty((3, 4))
    g = np.empty((3, 4))
    m = line(P, ends[A, 0], ends[A, 1], e)
    n = line(P, ends[B, 0], ends[B, 1], f)
    k = line(P, ends[C, 0], ends[C, 1], g)
    return lines_sign(e, m, f, n, g, k) * _orientation(P, ends, A, B)


@kernel(inline="always")
def _common(ends, A, B):
    """Return an observation that lies on both lines as one of their ends, or -1."""
    for s in range(2):
        for t in range(2):
            if ends[A, s] >= 0 and ends[A, s] == ends[B, t]:
                return ends[A, s]
    return -1


@kernel(inline="always")
def _side_of_observation(P, i, j, s):
    """Return the side of the line on which observation `s` lies."""
    if j >= 0:
        return 0 if s == i or s == j else orient2d(P, i, j, s)
    axis = 0 if j >= -2 else 1
    gap = P[s, axis] - P[i, axis]
    if j == -1 or j == -3:
        gap = -gap
    return 1 if gap > 0.0 else -1 if gap < 0.0 else 0


@kernel(numba.void(MATRIX, _PAIRS, MATRIX, _INT, _INT, _INTS, VECTOR))
def _set_vertex(P, ends, coefs, A, B, ids, v):
    """Make a vertex of two lines: ids ``(A, B, outgoing edge, observation or -1)`` and its coordinates."""
    out_of_line()
    ids[0] = A
    ids[1] = B
    ids[3] = _common(ends, A, B)
    _meet(coefs[A], coefs[B], v)
    if abs(v[2]) > 4.0 * _EPS * v[5]:
        negative = v[2] < 0.0
    else:
        negative = _orientation(P, ends, A, B) < 0
        if negative == (v[2] > 0.0):
            v[2] = 0.0
    if negative:
        v[0], v[1], v[2] = -v[0], -v[1], -v[2]


@kernel(_INT(MATRIX, _PAIRS, MATRIX, _INT, _PAIRS, MATRIX, _INT, _INTS))
def _clip(P, ends, coefs, C, ids, V, size, side):
    """Clip a polygon to the left of line C; return its new number of vertices."""
    out_of_line()
    a, b, c, c_size = coefs[C]
    cut = False
    for k in range(size):
        s = ids[k, 3]
        if s >= 0:
            side[k] = _side_of_observation(P, ends[C, 0], ends[C, 1], s)
        else:
            value = a * V[k, 0] + b * V[k, 1] + c * V[k, 2]
            bound = 16.0 * _EPS * (abs(a) * V[k, 3] + abs(b) * V[k, 4] + c_size * V[k, 5])
            if abs(value) > bound:
                side[k] = 1 if value > 0.0 else -1
            else:
                side[k] = _exact_side(P, ends, ids[k, 0], ids[k, 1], C)
        cut = cut or side[k] < 0
    if not cut:
        return size
    old = ids[:size].copy()
    old_V = V[:size].copy()
    new = 0
    for k in range(size):
        following = side[k + 1] if k + 1 < size else side[0]
        edge = old[k, 2]
        if side[k] >= 0:
            # (compiling an assignment of slices takes seconds, for its error message)
            for j in range(ids.shape[1]):
                ids[new, j] = old[k, j]
            for j in range(V.shape[1]):
                V[new, j] = old_V[k, j]
            if side[k] == 0 and following < 0:
                ids[new, 2] = C
            new += 1
        if side[k] * following < 0:
            _set_vertex(P, ends, coefs, edge, C, ids[new], V[new])
            ids[new, 2] = C if side[k] > 0 else edge
            new += 1
    return new


@kernel(inline="always")
def _certainly_inside(coef, V, size):
    """Whether every vertex is on the left of the line by more than rounding."""
    a, b, c, c_size = coef
    for k in range(size):
        value = a * V[k, 0] + b * V[k, 1] + c * V[k, 2]
        if value <= 16.0 * _EPS * (abs(a) * V[k, 3] + abs(b) * V[k, 4] + c_size * V[k, 5]):
            return False
    return True


@kernel(inline="always")
def _coordinates(P, ends, ids, out):
    """Write the coordinates of a vertex, exact to a few units in the last place."""
    s = ids[3]
    if s >= 0:
        out[0] = P[s, 0]
        out[1] = P[s, 1]
        return
    e = np.empty((3, 4))
    f = np.empty((3, 4))
    x = np.empty(32)
    m = line(P, ends[ids[0], 0], ends[ids[0], 1], e)
    n = line(P, ends[ids[1], 0], ends[ids[1], 1], f)
    w = estimate(x, lines_minor2(e, m, f, n, 2, x))
    out[0] = estimate(x, lines_minor2(e, m, f, n, 0, x)) / w
    out[1] = estimate(x, lines_minor2(e, m, f, n, 1, x)) / w


@kernel(inline="always")
def _bounds_at(P, weights, total, i, wanted, ws, bounds):
    """Write the bounds of wanted depths on lines whose first observation is `i`; return how many there are.

    Each is ``(p, q, lowest, highest)``: the left of the line from p to q is kept at these depths.
    """
    R, idx, tie, vertical = ws[0], ws[4], ws[5], ws[6]
    m, n_vertical, _ = order(P, P[i], None, None, ws)
    above = 0
    for t in range(m):
        if R[0, idx[0, t]] > 0.0:
            above += weights[idx[0, t]]
    for t in range(n_vertical):
        if R[1, vertical[t]] > 0.0:
            above += weights[vertical[t]]
    found = 0
    start = 0
    while start < m:
        stop = start
        on = weights[i]
        first = True
        far = idx[0, start]
        rising = 0
        while stop < m and (stop == start or tie[stop]):
            a = idx[0, stop]
            on += weights[a]
            first = first and a > i
            if abs(R[0, a]) > abs(R[0, far]):
                far = a
            if R[0, a] > 0.0:
                above -= weights[a]
            else:
                rising += weights[a]
            stop += 1
        if first:
            for upper in range(2):
                beyond = above if upper == 0 else total - on - above
                if wanted[beyond + on + 1] > wanted[beyond + 1]:
                    # what lies beyond is on the right of the directed line
                    reverse = (R[0, far] > 0.0) == (upper == 0)
                    bounds[found, 0] = far if reverse else i
                    bounds[found, 1] = i if reverse else far
                    bounds[found, 2] = beyond + 1
                    bounds[found, 3] = beyond + on
                    found += 1
        above += rising
        start = stop
    return found


@kernel
def _grown(a):
    """Return a copy with room for twice as many vertices."""
    out_of_line()
    out = np.empty((a.shape[0], 2 * a.shape[1], a.shape[2]), a.dtype)
    # (compiling an assignment of slices takes seconds, for its error message)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(a.shape[2]):
                out[i, j, k] = a[i, j, k]
    return out


@kernel
def polygons(P, weights, boxes, depths, centre):
    """Return the polygons ``{hd >= t}`` for the given depths.

    Parameters
    ----------
    P, weights : ndarray of shape (n, 2) and (n,)
        Distinct observations and their multiplicities.
    boxes : ndarray of shape (k, 4), int64
        For every depth the observations that bound x from below and above, and y from below and above.
    depths : ndarray of shape (k,), int64
        Increasing, in ``1 .. sum(weights)``.
    centre : ndarray of shape (2,)
        Somewhere among the data: rounded determinants are taken about it.

    Returns
    -------
    sizes : ndarray of shape (k,)
        Numbers of vertices, 0 for an empty region.
    corners : ndarray of shape (k, capacity, 2)
        Vertices, counter-clockwise; may repeat.
    """
    n = P.shape[0]
    total = weights.sum()
    n_depths = len(depths)
    slot = np.full(total + 2, -1, np.int64)
    for t in range(n_depths):
        slot[depths[t]] = t
    capacity = 32
    ids = np.empty((n_depths, capacity, 4), np.int64)
    V = np.empty((n_depths, capacity, 6))
    side = np.empty(capacity, np.int64)
    sizes = np.zeros(n_depths, np.int64)
    n_lines = 4 * n_depths
    ends = np.empty((n_lines + 64, 2), np.int64)
    coefs = np.empty((n_lines + 64, 4))
    for t in range(n_depths):
        if P[boxes[t, 0], 0] > P[boxes[t, 1], 0] or P[boxes[t, 2], 1] > P[boxes[t, 3], 1]:
            continue
        for q in range(4):
            ends[4 * t + q, 0] = boxes[t, q]
            ends[4 * t + q, 1] = -2 if q == 0 else -1 if q == 1 else -4 if q == 2 else -3
            _coefficients(P, centre, boxes[t, q], ends[4 * t + q, 1], coefs[4 * t + q])
        around = (0, 2, 1, 3)  # left, bottom, right, top
        for q in range(4):
            A = 4 * t + around[q]
            B = 4 * t + around[(q + 1) % 4]
            _set_vertex(P, ends, coefs, A, B, ids[t, q], V[t, q])
            ids[t, q, 2] = B
        sizes[t] = 4
    # how many wanted depths are below each depth
    wanted = np.zeros(total + 2, np.int64)
    for t in range(total + 1):
        wanted[t + 1] = wanted[t] + (1 if slot[t] >= 0 else 0)
    ws = workspace(n)
    bounds = np.empty((2 * n, 4), np.int64)
    coef = np.empty(4)
    step = max(1, int(0.618 * n))
    while _gcd(step, n) != 1:
        step += 1
    for visit in range(n):  # in scattered order: the polygons are then small early
        n_bounds = _bounds_at(P, weights, total, (visit * step) % n, wanted, ws, bounds)
        for k in range(n_bounds):
            p, q, lowest, highest = bounds[k]
            _coefficients(P, centre, p, q, coef)
            stored = False
            for depth in range(lowest, highest + 1):
                t = slot[depth]
                if t < 0 or sizes[t] == 0 or _certainly_inside(coef, V[t], sizes[t]):
                    continue
                if sizes[t] + 2 > capacity:
                    ids = _grown(ids)
                    V = _grown(V)
                    side = np.empty(2 * capacity, np.int64)
                    capacity *= 2
                if not stored:
                    if n_lines == len(ends):
                        ends = np.concatenate((ends, np.empty_like(ends)))
                        coefs = np.concatenate((coefs, np.empty_like(coefs)))
                    ends[n_lines, 0] = p
                    ends[n_lines, 1] = q
                    for j in range(coefs.shape[1]):
                        coefs[n_lines, j] = coef[j]
                    n_lines += 1
                    stored = True
                sizes[t] = _clip(P, ends, coefs, n_lines - 1, ids[t], V[t], sizes[t], side)
    corners = np.empty((n_depths, capacity, 2))
    for t in range(n_depths):
        for k in range(sizes[t]):
            _coordinates(P, ends, ids[t, k], corners[t, k])
    return sizes, corners


@kernel(inline="always")
def _gcd(a, b):
    while b:
        a, b = b, a % b
    return a
