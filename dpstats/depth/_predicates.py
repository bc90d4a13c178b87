"""Signs of determinants of differences of points: a floating-point filter, then exact arithmetic.

The vectors are ``u_a = P[a] - z`` with ``P`` of shape (n, d); they are never formed in rounded
arithmetic here. No tolerance is used: a result of zero means exactly zero.
"""

import numba
import numpy as np

from dpstats._jit import kernel, out_of_line
from dpstats.depth._expansions import MATRIX, VECTOR, add, multiply2, scale, sign, two_diff, two_product

__all__ = [
    "orient2d",
    "minor2_sign",
    "minor3_sign",
    "minor4_sign",
    "residual_sign",
    "line",
    "lines_minor2",
    "lines_sign",
]

_INT = numba.int64
_ORIENT_BOUND = 3.3306690738754716e-16  # (3 + 16 u) u with u = 2**-53
_CORRECTED_BOUND = 4.0e-31  # 32 u**2, where 16 u**2 would do
_WHOLE_3 = 114000.0  # determinants of integers below this are exact in doubles: 6 b**3 < 2**53
_WHOLE_4 = 4400.0  # 24 b**4 < 2**53


@kernel
def _compare_products(a, b, c, d):
    """Return the sign of ``a b - c d``."""
    p, p_err = two_product(a, b)
    q, q_err = two_product(c, d)
    if p != q:
        return 1 if p > q else -1
    if p_err != q_err:
        return 1 if p_err > q_err else -1
    return 0


@kernel(_INT(MATRIX, VECTOR, _INT, _INT, _INT, _INT, VECTOR))
def _minor2(P, z, i, j, c1, c2, out):
    """Write ``u_i[c1] u_j[c2] - u_i[c2] u_j[c1]`` to `out` (room for 16); return its length."""
    out_of_line()
    e = np.empty(2)
    left = np.empty(8)
    right = np.empty(8)
    hi, lo = two_diff(P[i, c1], z[c1])
    e[0] = lo
    e[1] = hi
    hi, lo = two_diff(P[j, c2], z[c2])
    m = multiply2(e, 2, hi, lo, left)
    hi, lo = two_diff(P[i, c2], z[c2])
    e[0] = -lo
    e[1] = -hi
    hi, lo = two_diff(P[j, c1], z[c1])
    n = multiply2(e, 2, hi, lo, right)
    return add(left, m, right, n, out)


@kernel(_INT(MATRIX, VECTOR, _INT, _INT, _INT, _INT, _INT, _INT, VECTOR))
def _minor3(P, z, i, j, k, c1, c2, c3, out):
    """Write the 3 x 3 minor of the rows ``u_i, u_j, u_k`` to `out` (room for 192); return its length."""
    out_of_line()
    minor = np.empty(16)
    term = np.empty(64)
    partial = np.empty(128)
    hi, lo = two_diff(P[i, c1], z[c1])
    m1 = multiply2(minor, _minor2(P, z, j, k, c2, c3, minor), hi, lo, term)
    first = term[:m1].copy()
    hi, lo = two_diff(P[i, c2], z[c2])
    m2 = multiply2(minor, _minor2(P, z, j, k, c1, c3, minor), -hi, -lo, term)
    m = add(first, m1, term, m2, partial)
    hi, lo = two_diff(P[i, c3], z[c3])
    m3 = multiply2(minor, _minor2(P, z, j, k, c1, c2, minor), hi, lo, term)
    return add(partial, m, term, m3, out)


@kernel(_INT(MATRIX, VECTOR, _INT, _INT, _INT, _INT))
def minor2_sign(P, z, i, j, c1, c2):
    """Return the sign of ``u_i[c1] u_j[c2] - u_i[c2] u_j[c1]``."""
    out_of_line()
    a, a_lo = two_diff(P[i, c1], z[c1])
    b, b_lo = two_diff(P[j, c2], z[c2])
    c, c_lo = two_diff(P[i, c2], z[c2])
    d, d_lo = two_diff(P[j, c1], z[c1])
    if a_lo == 0.0 and b_lo == 0.0 and c_lo == 0.0 and d_lo == 0.0:
        return _compare_products(a, b, c, d)
    # the exact products of the rounded differences, corrected to first order for their errors
    p, p_err = two_product(a, b)
    q, q_err = two_product(c, d)
    det, det_err = two_diff(p, q)
    det += det_err + (p_err - q_err) + ((a * b_lo + b * a_lo) - (c * d_lo + d * c_lo))
    if abs(det) > _CORRECTED_BOUND * (abs(p) + abs(q)):
        return 1 if det > 0.0 else -1
    out = np.empty(16)
    return sign(out, _minor2(P, z, i, j, c1, c2, out))


@kernel(_INT(MATRIX, _INT, _INT, _INT))
def orient2d(P, i, j, k):
    """Return the sign of ``det(P[i] - P[k], P[j] - P[k])``: 1 if ``i, j, k`` turn to the left."""
    left = (P[i, 0] - P[k, 0]) * (P[j, 1] - P[k, 1])
    right = (P[i, 1] - P[k, 1]) * (P[j, 0] - P[k, 0])
    det = left - right
    if abs(det) > _ORIENT_BOUND * (abs(left) + abs(right)):
        return 1 if det > 0.0 else -1
    return minor2_sign(P, P[k], i, j, 0, 1)


@kernel(numba.boolean(MATRIX, VECTOR, _INT, numba.float64))
def _whole(P, z, i, bound):
    """Whether ``P[i]`` and `z` are integers of magnitude below ``bound / 2``: differences are then exact."""
    for c in range(P.shape[1]):
        x, o = P[i, c], z[c]
        if not (2.0 * abs(x) < bound and 2.0 * abs(o) < bound and x == np.floor(x) and o == np.floor(o)):
            return False
    return True


@kernel
def _determinant3(a, b, c, d, e, f, g, h, i):
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


@kernel(_INT(MATRIX, VECTOR, _INT, _INT, _INT, _INT, _INT, _INT))
def minor3_sign(P, z, i, j, k, c1, c2, c3):
    """Return the sign of the 3 x 3 minor of ``u_i, u_j, u_k`` in the columns ``c1, c2, c3``."""
    out_of_line()
    if _whole(P, z, i, _WHOLE_3) and _whole(P, z, j, _WHOLE_3) and _whole(P, z, k, _WHOLE_3):
        det = _determinant3(
            *(P[i, c1] - z[c1], P[i, c2] - z[c2], P[i, c3] - z[c3]),
            *(P[j, c1] - z[c1], P[j, c2] - z[c2], P[j, c3] - z[c3]),
            *(P[k, c1] - z[c1], P[k, c2] - z[c2], P[k, c3] - z[c3]),
        )
        return 1 if det > 0.0 else -1 if det < 0.0 else 0
    out = np.empty(192)
    return sign(out, _minor3(P, z, i, j, k, c1, c2, c3, out))


@kernel(_INT(MATRIX, VECTOR, _INT, _INT, _INT, _INT, _INT, _INT, _INT, _INT))
def minor4_sign(P, z, i, j, k, l, c1, c2, c3, c4):
    """Return the sign of the 4 x 4 minor of ``u_i, u_j, u_k, u_l`` in the given columns."""
    out_of_line()
    columns = (c1, c2, c3, c4)
    whole = _whole(P, z, i, _WHOLE_4) and _whole(P, z, j, _WHOLE_4)
    if whole and _whole(P, z, k, _WHOLE_4) and _whole(P, z, l, _WHOLE_4):
        det = 0.0
        for skip in range(4):
            a = columns[1] if skip == 0 else columns[0]
            b = columns[1] if skip > 1 else columns[2]
            c = columns[2] if skip == 3 else columns[3]
            minor = _determinant3(
                *(P[j, a] - z[a], P[j, b] - z[b], P[j, c] - z[c]),
                *(P[k, a] - z[a], P[k, b] - z[b], P[k, c] - z[c]),
                *(P[l, a] - z[a], P[l, b] - z[b], P[l, c] - z[c]),
            )
            term = (P[i, columns[skip]] - z[columns[skip]]) * minor
            det += -term if skip % 2 == 1 else term
        return 1 if det > 0.0 else -1 if det < 0.0 else 0
    total = np.empty(0)
    size = 0
    minor = np.empty(192)
    term = np.empty(768)
    for skip in range(4):
        a = columns[1] if skip == 0 else columns[0]
        b = columns[1] if skip > 1 else columns[2]
        c = columns[2] if skip == 3 else columns[3]
        hi, lo = two_diff(P[i, columns[skip]], z[columns[skip]])
        if skip % 2 == 1:
            hi, lo = -hi, -lo
        m = multiply2(minor, _minor3(P, z, j, k, l, a, b, c, minor), hi, lo, term)
        new = np.empty(size + m)
        size = add(total, size, term, m, new)
        total = new
    return sign(total, size)


@kernel(_INT(VECTOR, MATRIX, VECTOR, _INT))
def residual_sign(fit, X, y, i):
    """Return the sign of ``y_i - fit[0] - sum_c fit[1 + c] X[i, c]``, exactly."""
    hi, lo = two_diff(y[i], fit[0])
    total = np.empty(2)
    total[0] = lo
    total[1] = hi
    m = 2
    one = np.empty(2)
    for c in range(X.shape[1]):
        hi, lo = two_product(-fit[1 + c], X[i, c])
        one[0] = lo
        one[1] = hi
        new = np.empty(m + 2)
        m = add(total, m, one, 2, new)
        total = new
    return sign(total, m)


@kernel(_INT(MATRIX, _INT, _INT, MATRIX))
def line(P, i, j, e):
    """Write the coefficients of a directed line to `e`, shape (3, 4); return the length of the third.

    The line runs from ``P[i]`` to ``P[j]`` and ``a x + b y + c > 0`` on its left. A negative `j` stands for
    a line parallel to an axis through ``P[i]``, with its left side (-1) ``x < x_i``, (-2) ``x > x_i``,
    (-3) ``y < y_i``, (-4) ``y > y_i``. ``a`` and ``b`` have two components, ``c`` up to four.
    """
    out_of_line()
    e[:] = 0.0
    if j < 0:
        axis = 0 if j >= -2 else 1
        s = -1.0 if j == -1 or j == -3 else 1.0
        e[axis, 1] = s
        e[2, 0] = -s * P[i, axis]
        return 1
    e[0, 1], e[0, 0] = two_diff(P[i, 1], P[j, 1])
    e[1, 1], e[1, 0] = two_diff(P[j, 0], P[i, 0])
    p = np.empty(2)
    q = np.empty(2)
    p[1], p[0] = two_product(P[i, 0], P[j, 1])
    q[1], q[0] = two_product(-P[j, 0], P[i, 1])
    return add(p, 2, q, 2, e[2])


@kernel(_INT(VECTOR, _INT, VECTOR, _INT, VECTOR))
def _times_c(minor, m, c, size, out):
    """Write ``minor[:m] c[:size]`` to `out` (room for ``2 m size``); return its length."""
    out_of_line()
    n = 0
    term = np.empty(2 * m)
    for t in range(size):
        k = scale(minor, m, c[t], term)
        new = np.empty(n + k)
        n = add(out, n, term, k, new)
        # (compiling an assignment of slices takes seconds, for its error message)
        for i in range(n):
            out[i] = new[i]
    return n


@kernel(_INT(MATRIX, MATRIX, VECTOR))
def _minor_ab(A, B, out):
    """Write ``a_A b_B - b_A a_B`` to `out` (room for 16); return its length."""
    out_of_line()
    left = np.empty(8)
    right = np.empty(8)
    m = multiply2(A[0, :2], 2, B[1, 1], B[1, 0], left)
    n = multiply2(A[1, :2], 2, -B[0, 1], -B[0, 0], right)
    return add(left, m, right, n, out)


@kernel(_INT(MATRIX, _INT, MATRIX, _INT, _INT, VECTOR))
def lines_minor2(A, nA, B, nB, which, out):
    """Write a homogeneous coordinate of the intersection of two lines to `out` (room for 32).

    ``which`` 0, 1, 2: ``x w``, ``y w``, ``w`` of ``A x B``. Returns the length of the expansion.
    """
    out_of_line()
    if which == 2:
        return _minor_ab(A, B, out)
    r = 1 - which  # x = b_A c_B - c_A b_B, y = c_A a_B - a_A c_B
    left = np.empty(16)
    right = np.empty(16)
    if which == 0:
        m = _times_c(A[r, :2], 2, B[2], nB, left)
        n = _times_c(-B[r, :2], 2, A[2], nA, right)
    else:
        m = _times_c(B[r, :2], 2, A[2], nA, left)
        n = _times_c(-A[r, :2], 2, B[2], nB, right)
    return add(left, m, right, n, out)


@kernel(_INT(MATRIX, _INT, MATRIX, _INT, MATRIX, _INT))
def lines_sign(A, nA, B, nB, C, nC):
    """Return the sign of ``det(A, B, C)`` of three lines in the form of :func:`line`."""
    out_of_line()
    minor = np.empty(16)
    first = np.empty(128)
    second = np.empty(128)
    partial = np.empty(256)
    total = np.empty(384)
    n1 = _times_c(minor, _minor_ab(A, B, minor), C[2], nC, first)
    n2 = _times_c(minor, _minor_ab(B, C, minor), A[2], nA, second)
    m = add(first, n1, second, n2, partial)
    n1 = _times_c(minor, _minor_ab(C, A, minor), B[2], nB, first)
    return sign(total, add(partial, m, first, n1, total))
