"""Exact sums and products of doubles, as expansions (Shewchuk 1997).

An expansion is a sum of doubles that do not overlap, smallest first, kept in the first ``k`` places of
an array. Every function is exact as long as nothing overflows or underflows, which holds for products of
four numbers whose magnitudes lie in [2**-200, 2**200] or are zero (see :mod:`dpstats.depth._reading`).

Nothing here may be compiled with ``fastmath``: the error terms would be optimised away.
"""

import numba
import numpy as np

from dpstats._jit import kernel

__all__ = [
    "VECTOR",
    "MATRIX",
    "two_sum",
    "two_diff",
    "two_product",
    "product",
    "scale",
    "add",
    "multiply2",
    "sign",
    "estimate",
]

VECTOR = numba.float64[::1]
MATRIX = numba.float64[:, ::1]

_SPLITTER = 134217729.0  # 2**27 + 1


@kernel
def two_sum(a, b):
    """Return the rounded sum and its error."""
    s = a + b
    virtual = s - a
    return s, (a - (s - virtual)) + (b - virtual)


@kernel
def two_diff(a, b):
    """Return the rounded difference and its error."""
    s = a - b
    virtual = a - s
    return s, (a - (s + virtual)) + (virtual - b)


@kernel
def two_product(a, b):
    """Return the rounded product and its error (Dekker's splitting; no fused multiply-add is assumed)."""
    p = a * b
    c = _SPLITTER * a
    a_hi = c - (c - a)
    a_lo = a - a_hi
    c = _SPLITTER * b
    b_hi = c - (c - b)
    b_lo = b - b_hi
    return p, a_lo * b_lo - (((p - a_hi * b_hi) - a_lo * b_hi) - a_hi * b_lo)


@kernel(inline="always")
def _append(h, k, term):
    """Write a term to ``h[k]`` unless it is zero; return the length."""
    if term != 0.0:
        h[k] = term
        k += 1
    return k


@kernel
def product(a, b, h):
    """Write ``a b`` to ``h`` (room for 2); return its length."""
    p, p_err = two_product(a, b)
    return _append(h, _append(h, 0, p_err), p)


@kernel(numba.int64(VECTOR, numba.int64, numba.float64, VECTOR))
def scale(e, m, b, h):
    """Write ``b`` times the expansion ``e[:m]`` to ``h`` (room for ``2 m``); return its length."""
    k = 0
    q = 0.0  # the sum so far but for the terms in h
    for i in range(m):
        p, p_err = two_product(e[i], b)
        s, s_err = two_sum(q, p_err)
        k = _append(h, k, s_err)
        q, q_err = two_sum(p, s)
        k = _append(h, k, q_err)
    return _append(h, k, q)


@kernel(numba.int64(VECTOR, numba.int64, VECTOR, numba.int64, VECTOR))
def add(e, m, f, n, h):
    """Write ``e[:m] + f[:n]`` to ``h`` (room for ``m + n``, not an operand); return its length."""
    i = 0
    j = 0
    k = 0
    q = 0.0  # the sum so far but for the terms in h
    for _ in range(m + n):
        # the smaller of the two next terms
        if j >= n or (i < m and abs(e[i]) < abs(f[j])):
            term = e[i]
            i += 1
        else:
            term = f[j]
            j += 1
        q, err = two_sum(q, term)
        k = _append(h, k, err)
    return _append(h, k, q)


@kernel(numba.int64(VECTOR, numba.int64, numba.float64, numba.float64, VECTOR))
def multiply2(e, m, hi, lo, h):
    """Write ``(hi + lo) e[:m]`` to ``h`` (room for ``4 m``); return its length."""
    if lo == 0.0:
        return scale(e, m, hi, h)
    low = np.empty(2 * m)
    high = np.empty(2 * m)
    return add(low, scale(e, m, lo, low), high, scale(e, m, hi, high), h)


@kernel(numba.int64(VECTOR, numba.int64))
def sign(e, m):
    """Return the sign of ``e[:m]``: that of its largest component, the last."""
    if m == 0 or e[m - 1] == 0.0:
        return 0
    return 1 if e[m - 1] > 0.0 else -1


@kernel(numba.float64(VECTOR, numba.int64))
def estimate(e, m):
    """Return the double next to ``e[:m]`` (to one unit in the last place)."""
    total = 0.0
    for i in range(m):
        total += e[i]
    return total
