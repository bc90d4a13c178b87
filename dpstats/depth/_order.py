"""Sort vectors by direction, exactly, after projecting them along none, one or two pivots into the plane.

The vectors are ``u_a = P[a] - z`` in two, three or four dimensions. Directions are compared by rounded slopes
with an error bound and, within the bound, by :mod:`dpstats.depth._predicates`.

Names, here and where :func:`order` is called:

``P``, ``z``
    Rows of data, shape (n, d), and the centre.
``a``, ``i``, ``j``
    Rows; ``pivot`` and ``pivot2`` are rows too.
``c``, ``k``, ``l``
    Columns. A pivot is projected along by eliminating a column: ``k`` for the first, ``l`` for the second;
    ``c1`` and ``c2`` are the two that are left.
``W``, ``E``
    Coordinates after the first of two projections, and bounds of their errors, by column left and row.
``R``
    The projected vectors, by row of data: ``R[0]`` and ``R[1]`` their x and y, ``R[2]`` and ``R[3]`` bounds
    of the errors of these, ``R[4]`` the slope ``y / x`` and ``R[5]`` a bound of its error.
``m``, ``idx``, ``tie``
    How many vectors are sorted; ``idx[0, :m]`` in order; ``tie[t]``: the t-th has the slope of the one
    before.
``ws``
    The arrays of :func:`workspace`, in its order.
"""

import numba
import numpy as np

from dpstats._jit import kernel, out_of_line
from dpstats.depth._expansions import MATRIX, VECTOR
from dpstats.depth._predicates import minor2_sign, minor3_sign, minor4_sign

__all__ = ["WORKSPACE", "workspace", "project", "order"]

_EPS = 2.220446049250313e-16
_TINY = 1e-280  # swamps every underflow in a bound, far below any product of two normal coordinates
_HUGE = 1e150  # above every projected coordinate; its square does not overflow
_INSERTION = 24
_MOVES = 4

_INT = numba.int64
_INDICES = numba.int32[::1]
_ORDER = numba.int32[:, ::1]
_KEYS = numba.uint64[:, ::1]
_FRAME = numba.types.UniTuple(_INT, 5)
_NONE = numba.types.none
_PIVOTS = (_NONE, _NONE), (_INT, _NONE), (_INT, _INT)  # in two, three and four dimensions
WORKSPACE = numba.types.Tuple(
    (MATRIX, MATRIX, MATRIX, _KEYS, _ORDER, numba.boolean[::1], _INDICES, _INDICES, VECTOR)
)


@kernel(WORKSPACE(_INT))
def workspace(n):
    """Return the scratch arrays of :func:`order` for up to `n` vectors."""
    return (
        np.empty((6, n)),  # projected x and y, bounds of their errors; the slope and a bound of its error
        np.empty((4, n)),  # the first projection, when there are two: coordinates are in rows 0..2
        np.empty((4, n)),  # bounds of its errors
        np.empty((2, n), np.uint64),  # sort keys
        np.empty((2, n), np.int32),  # row 0: the order
        np.empty(n, np.bool_),  # tie[k]: the k-th in order has the direction of the one before
        np.empty(n, np.int32),  # vectors with x == 0, y != 0
        np.empty(n, np.int32),  # vectors projected to zero
        np.empty(n, np.float64),  # slopes
    )


@kernel(inline="always")
def _radix(slope, m, keys, idx):
    """Sort ``idx[0, :m]`` by ``slope[:m]``, stably; a pass for each byte that is not constant."""
    source = 0
    counts = np.zeros((8, 256), np.int64)
    bits = slope[:m].view(np.uint64)
    top = np.uint64(1) << np.uint64(63)
    zero = np.uint64(0)
    byte = np.uint64(255)
    for a in range(m):
        # doubles are in the order of these integers: of negative ones all bits turned, of others the sign bit
        v = bits[a]
        v = ~v if v & top != zero else v | top
        keys[0, a] = v
        for b in range(8):
            counts[b, (v >> np.uint64(8 * b)) & byte] += 1
    # least significant byte first; b is the byte, counts[b] first how often each value is, then where it goes
    for b in range(8):
        shift = np.uint64(8 * b)
        if counts[b, (keys[source, 0] >> shift) & byte] == m:
            continue
        total = 0
        for v in range(256):
            here = counts[b, v]
            counts[b, v] = total
            total += here
        target = 1 - source
        for a in range(m):
            v = keys[source, a]
            digit = (v >> shift) & byte
            at = counts[b, digit]
            counts[b, digit] = at + 1
            keys[target, at] = v
            idx[target, at] = idx[source, a]
        source = target
    if source == 1:
        # (compiling an assignment of slices takes seconds, for its error message)
        for a in range(m):
            idx[0, a] = idx[1, a]


@kernel(inline="always")
def _insertion(slope, m, idx):
    """Sort ``idx[0, :m]`` by ``slope[:m]``, which is permuted along."""
    for a in range(1, m):
        v = slope[a]
        i = idx[0, a]
        b = a - 1
        while b >= 0 and slope[b] > v:
            slope[b + 1] = slope[b]
            idx[0, b + 1] = idx[0, b]
            b -= 1
        slope[b + 1] = v
        idx[0, b + 1] = i


@kernel(numba.void(MATRIX, VECTOR, _INT, _INT, MATRIX, MATRIX))
def _along_one(P, z, pivot, k, W, E):
    """Project along one pivot, eliminating column `k`: write the other columns, in order, to the rows of `W`,
    and bounds of their errors to those of `E`."""
    out_of_line()
    d = P.shape[1]
    u_k = P[pivot, k] - z[k]
    for row in range(d - 1):
        c = row if row < k else row + 1
        # divided by u_k, so that magnitudes stay near those of the data
        ratio = (P[pivot, c] - z[c]) / u_k
        for a in range(P.shape[0]):
            first = P[a, c] - z[c]
            second = (P[a, k] - z[k]) * ratio
            W[row, a] = first - second
            E[row, a] = 4.0 * _EPS * (abs(first) + abs(second)) + _TINY


@kernel(numba.void(MATRIX, MATRIX, _INT, _INT, _INT, numba.boolean, MATRIX, _INT))
def _along_two(W, E, best, r, pivot2, certain, R, side):
    """Project row `r` of a first projection along a second pivot, eliminating row `best`: to ``R[side]``,
    with the bounds of the errors in ``R[2 + side]``. `certain`: the pivot's coordinate in row `best` is not
    zero by its bound."""
    out_of_line()
    # the determinant W[r, a] w_l - W[best, a] w_r, w the second pivot
    w_l = W[best, pivot2]
    e_l = E[best, pivot2]
    w_r = W[r, pivot2]
    e_r = E[r, pivot2]
    for a in range(W.shape[1]):
        first = W[r, a] * w_l
        second = W[best, a] * w_r
        R[side, a] = first - second
        error = (
            abs(W[r, a]) * e_l
            + E[r, a] * (abs(w_l) + e_l)
            + abs(W[best, a]) * e_r
            + E[best, a] * (abs(w_r) + e_r)
            + 2.0 * _EPS * (abs(first) + abs(second))
        )
        # if not even w_l is certain, exact arithmetic decides everything
        R[2 + side, a] = 2.0 * error + _TINY if certain else _HUGE


@kernel(numba.types.Tuple((_INT, numba.boolean))(MATRIX, VECTOR, _INT, _INT, _INT, MATRIX, MATRIX))
def _eliminated(P, z, pivot, pivot2, k, W, E):
    """Return the row of the second pivot's largest certain coordinate, or of one that is exactly not zero.

    ``(row, certain)``; row -1 if the second pivot lies in the span of the first.
    """
    out_of_line()
    best = -1
    for row in range(3):
        w = W[row, pivot2]
        if abs(w) > E[row, pivot2] and (best < 0 or abs(w) > abs(W[best, pivot2])):
            best = row
    if best >= 0:
        return best, True
    for row in range(3):
        if minor2_sign(P, z, pivot, pivot2, k, row if row < k else row + 1) != 0:
            best = row
    return best, False


@kernel(
    *(
        numba.void(MATRIX, _INT, MATRIX, VECTOR, *pivots, _INT, _INT, _INT, _INT, numba.boolean)
        for pivots in _PIVOTS[1:]
    )
)
def _settle(R, a, P, z, pivot, pivot2, k, l, c1, c2, positive):
    """Give the coordinates of one projected vector their exact signs, where its bounds leave them open.

    `positive`: whether the first pivot's entry in column `k`, which the coordinates were divided by, is
    positive.
    """
    out_of_line()
    for side in range(2):
        if abs(R[side, a]) <= R[2 + side, a]:
            c = c1 if side == 0 else c2
            if pivot2 is None:
                s = minor2_sign(P, z, pivot, a, k, c)
            else:
                s = minor3_sign(P, z, pivot, pivot2, a, k, l, c)
            if not positive:
                s = -s
            if s == 0:
                R[side, a] = 0.0
                R[2 + side, a] = 0.0
            else:
                R[side, a] = s * max(abs(R[side, a]), _TINY)
                R[2 + side, a] = 2.0 * R[2 + side, a] + _TINY


@kernel(inline="always")
def project(P, z, pivot, pivot2, ws):
    """Project the vectors ``P[a] - z`` along the pivots into the plane.

    The pivots are None and None in two dimensions, a row and None in three, two rows in four.

    Returns ``(k, l, c1, c2, orientation)``: the eliminated columns, the columns that are left, and the sign
    that relates the cross product of two projected vectors to the minor of the unprojected ones.
    ``orientation == 0``: a pivot is zero (or the second lies in the span of the first).
    """
    R = ws[0]
    n, d = P.shape
    if pivot is None:
        for a in range(n):
            x = P[a, 0] - z[0]
            y = P[a, 1] - z[1]
            R[0, a] = x
            R[1, a] = y
            R[2, a] = _EPS * abs(x)
            R[3, a] = _EPS * abs(y)
        return 0, 0, 0, 1, 1
    k = 0
    for c in range(1, d):
        if abs(P[pivot, c] - z[c]) > abs(P[pivot, k] - z[k]):
            k = c
    if P[pivot, k] == z[k]:
        return 0, 0, 0, 0, 0
    positive = P[pivot, k] > z[k]
    if pivot2 is None:
        _along_one(P, z, pivot, k, R, R[2:])
        l, c1, c2 = 0, 1 if k == 0 else 0, 1 if k == 2 else 2
        orientation = 1 if positive else -1
    else:
        W, E = ws[1], ws[2]
        _along_one(P, z, pivot, k, W, E)
        best, certain = _eliminated(P, z, pivot, pivot2, k, W, E)
        if best < 0:
            return 0, 0, 0, 0, 0
        r1 = 1 if best == 0 else 0
        r2 = 1 if best == 2 else 2
        _along_two(W, E, best, r1, pivot2, certain, R, 0)
        _along_two(W, E, best, r2, pivot2, certain, R, 1)
        l = best if best < k else best + 1
        c1 = r1 if r1 < k else r1 + 1
        c2 = r2 if r2 < k else r2 + 1
        orientation = minor2_sign(P, z, pivot, pivot2, k, l)
    for a in range(n):
        if abs(R[0, a]) <= R[2, a] or abs(R[1, a]) <= R[3, a]:
            _settle(R, a, P, z, pivot, pivot2, k, l, c1, c2, positive)
    return k, l, c1, c2, orientation


@kernel(*(_INT(_INT, _INT, MATRIX, MATRIX, VECTOR, *pivots, _FRAME) for pivots in _PIVOTS))
def _compare(i, j, R, P, z, pivot, pivot2, frame):
    """Return -1, 0, 1 as the slope of vector `i` is smaller than, equal to or larger than that of `j`."""
    # y_i / x_i against y_j / x_j, by the determinant x_j y_i - y_j x_i and the signs of x_i and x_j
    xi, yi, xj, yj = R[0, i], R[1, i], R[0, j], R[1, j]
    first = xj * yi
    second = yj * xi
    det = first - second
    error = (
        (abs(xj) + R[2, j]) * R[3, i]
        + R[2, j] * abs(yi)
        + (abs(yj) + R[3, j]) * R[2, i]
        + R[3, j] * abs(xi)
        + 2.0 * _EPS * (abs(first) + abs(second))
        + 1e-300
    )
    same = (xi > 0.0) == (xj > 0.0)
    if abs(det) > error:
        return 1 if (det > 0.0) == same else -1
    equal = True
    for c in range(P.shape[1]):
        equal = equal and P[i, c] == P[j, c]
    if equal:
        return 0
    k, l, c1, c2, orientation = frame
    if pivot is None:
        s = minor2_sign(P, z, j, i, 0, 1)
    elif pivot2 is None:
        s = orientation * minor3_sign(P, z, pivot, j, i, k, c1, c2)
    else:
        s = orientation * minor4_sign(P, z, pivot, pivot2, j, i, k, l, c1, c2)
    return s if same else -s


@kernel(*(numba.void(_ORDER, _INT, MATRIX, MATRIX, VECTOR, *pivots, _FRAME) for pivots in _PIVOTS))
def _merge_sort(idx, m, R, P, z, pivot, pivot2, frame):
    """Sort ``idx[0, :m]`` by :func:`_compare`, bottom up."""
    out_of_line()
    source = 0
    width = 1
    while width < m:
        target = 1 - source
        for start in range(0, m, 2 * width):
            mid = min(start + width, m)
            stop = min(start + 2 * width, m)
            a = start
            b = mid
            for t in range(start, stop):
                take_left = b >= stop
                if not take_left and a < mid:
                    take_left = _compare(idx[source, a], idx[source, b], R, P, z, pivot, pivot2, frame) <= 0
                if take_left:
                    idx[target, t] = idx[source, a]
                    a += 1
                else:
                    idx[target, t] = idx[source, b]
                    b += 1
        source = target
        width *= 2
    if source == 1:
        # (compiling an assignment of slices takes seconds, for its error message)
        for a in range(m):
            idx[0, a] = idx[1, a]


@kernel(*(numba.types.UniTuple(_INT, 3)(MATRIX, VECTOR, *pivots, WORKSPACE) for pivots in _PIVOTS))
def order(P, z, pivot, pivot2, ws):
    """Sort the projected vectors with ``x != 0`` by slope, and set the others aside.

    Returns ``(m, vertical, zero)``: how many are sorted (``ws[4][0, :m]``, ties in ``ws[5]``), how many
    have ``x == 0`` (``ws[6]``) and how many are zero (``ws[7]``); ``m == -1`` if the pivots are not
    independent. Pivots as in :func:`project`.
    """
    out_of_line()
    R, keys, idx, tie, vertical, zero, slope = ws[0], ws[3], ws[4], ws[5], ws[6], ws[7], ws[8]
    frame = project(P, z, pivot, pivot2, ws)
    if frame[4] == 0:
        return -1, 0, 0
    m = 0
    n_vertical = 0
    n_zero = 0
    for a in range(P.shape[0]):
        if R[0, a] != 0.0:
            idx[0, m] = a
            t = R[1, a] / R[0, a] + 0.0  # no negative zero: it would sort before zero
            slope[m] = t
            m += 1
            R[4, a] = t
            gap = abs(R[0, a]) - R[2, a]
            if pivot is None:
                R[5, a] = 2.0 * _EPS * abs(t)
            elif gap > 0.0:
                R[5, a] = 2.0 * _EPS * abs(t) + 1.0001 * (R[3, a] + R[2, a] * abs(t)) / gap
            else:
                R[5, a] = np.inf
        elif R[1, a] != 0.0:
            vertical[n_vertical] = a
            n_vertical += 1
        else:
            zero[n_zero] = a
            n_zero += 1
    if m == 0:
        return m, n_vertical, n_zero
    if m <= _INSERTION:
        _insertion(slope, m, idx)
    else:
        _radix(slope, m, keys, idx)
    # the slopes are in order but for rounding: every vector against the one before
    tie[0] = False
    moves = 0
    a = 1
    while a < m:
        i, j = idx[0, a - 1], idx[0, a]
        if R[4, j] - R[4, i] > R[5, i] + R[5, j]:
            tie[a] = False
            a += 1
            continue
        c = _compare(i, j, R, P, z, pivot, pivot2, frame)
        at = a
        while c > 0:  # rounding has misplaced j by a few places
            idx[0, at] = idx[0, at - 1]
            tie[at] = tie[at - 1]
            at -= 1
            moves += 1
            c = _compare(idx[0, at - 1], j, R, P, z, pivot, pivot2, frame) if at > 0 else -1
        if at < a:
            idx[0, at] = j
            tie[at + 1] = False
        tie[at] = c == 0
        a += 1
        if moves > _MOVES * m:  # or everything: the slopes are noise, sort again by comparisons
            _merge_sort(idx, m, R, P, z, pivot, pivot2, frame)
            moves = 0
            a = 1
    return m, n_vertical, n_zero
