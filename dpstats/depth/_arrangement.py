"""Every vertex of the dual arrangement of a simple regression, with its exact depth, in O(n^2 log n).

In the dual plane an observation ``(x, y)`` is the line of the fits through it and a fit is a point; the
candidates for extremes are the intersections of two lines, the fits through two observations. Along the
line of observation i the fits are ordered by slope, and one residual changes sign at each intersection.
With ``S_k`` the sum of the residual signs of the k smallest covariates (tied ones together),

    rd = min( #{r <= 0} + min_k S_k,  #{r >= 0} - max_k S_k ),

and a segment tree over the covariates keeps the two extremes of ``S``. Memory is O(n) beside the output.
"""

import numpy as np

from dpstats.depth._expansions import add, estimate, jit, two_product
from dpstats.depth._order import order, workspace

__all__ = ["walk", "prepare"]

_EPS = 2.220446049250313e-16
_CANCELLED = 2.0**-44
"""An intercept with a larger relative error is computed exactly. Smooth bounds are enlarged by 2^-40
(``docs/privacy``)."""


def prepare(x, y):
    """Return the distinct observations in order of x, their multiplicities, and their groups of equal x."""
    P, weights = np.unique(np.column_stack([x, y]), axis=0, return_counts=True)
    group = np.cumsum(np.concatenate([[False], P[1:, 0] != P[:-1, 0]])[: len(P)]).astype(np.int64)
    return P, weights.astype(np.int64), group


@jit
def _build(T, size):
    for node in range(size - 1, 0, -1):
        l = 2 * node
        r = l + 1
        T[node, 0] = T[l, 0] + T[r, 0]
        T[node, 1] = min(T[l, 1], T[l, 0] + T[r, 1])
        T[node, 2] = max(T[l, 2], T[l, 0] + T[r, 2])


@jit
def _update(T, node, zero, flipped):
    """Set a leaf to `flipped`; return the extremes at the root as they would be with the leaf at `zero`.

    One pass for both: the sign at a vertex is zero, and beyond it the opposite.
    """
    s, low, high = flipped, flipped, flipped
    s0, low0, high0 = zero, zero, zero
    T[node, 0] = s
    T[node, 1] = s
    T[node, 2] = s
    while node > 1:
        b, b_low, b_high = T[node ^ 1, 0], T[node ^ 1, 1], T[node ^ 1, 2]
        # branch-free: one of the two shifts is zero
        right = -(node & 1)
        mine = b & right
        its = s & ~right
        low = min(low + mine, b_low + its)
        high = max(high + mine, b_high + its)
        its = s0 & ~right
        low0 = min(low0 + mine, b_low + its)
        high0 = max(high0 + mine, b_high + its)
        s += b
        s0 += b
        node >>= 1
        T[node, 0] = s
        T[node, 1] = low
        T[node, 2] = high
    return low0, high0


@jit
def _widen(level, t0, t1, e0, e1, lower, upper):
    """Take a fit with errors ``e0``, ``e1`` of its coefficients into the extremes of its depth."""
    total = e0 + e1 + _EPS * abs(t0 + t1)
    lower[level, 0] = min(lower[level, 0], t0 - e0)
    upper[level, 0] = max(upper[level, 0], t0 + e0)
    lower[level, 1] = min(lower[level, 1], t1 - e1)
    upper[level, 1] = max(upper[level, 1], t1 + e1)
    lower[level, 2] = min(lower[level, 2], t0 + t1 - total)
    upper[level, 2] = max(upper[level, 2], t0 + t1 + total)
    total = e0 + e1 + _EPS * abs(t0 - t1)
    lower[level, 3] = min(lower[level, 3], t0 - t1 - total)
    upper[level, 3] = max(upper[level, 3], t0 - t1 + total)


@jit
def _expansion(a, b, sign, out):
    """Write ``sign a b`` to `out` as an expansion; return its length."""
    p, p_err = two_product(sign * a, b)
    k = 0
    if p_err != 0.0:
        out[k] = p_err
        k += 1
    if p != 0.0:
        out[k] = p
        k += 1
    return k


@jit
def _intercept(x, y, u, v, slope, e, f, h):
    """Intercept of the line through ``(x, y)`` and ``(u, v)``, and its error: at most `_CANCELLED` of it.

    An error in units of ``slope x`` would not do: one record far out would make every level of depth as wide
    as the rounding of its own coordinates.
    """
    drop = slope * x
    level = y - drop
    error = 3.0 * _EPS * abs(drop) + _EPS * abs(level)
    if error > _CANCELLED * abs(level):
        k = add(e, _expansion(y, u, 1.0, e), f, _expansion(x, v, -1.0, f), h)
        level = estimate(h, k) / (u - x)
        error = 8.0 * _EPS * abs(level)
    return level, error


@jit
def walk(P, weights, group, lower, upper, fits, depths):
    """Visit every distinct vertex once.

    Parameters
    ----------
    P, weights, group
        From :func:`prepare`.
    lower, upper : ndarray of shape (N + 1, 4)
        By depth, the extremes of ``theta_0, theta_1, theta_0 + theta_1, theta_0 - theta_1`` over the
        vertices of that depth, rounded outward; to start, ``inf`` and ``-inf``.
    fits, depths : ndarray of shape (capacity, 2) and (capacity,)
        Filled with the vertices; of length 0 if they are not wanted.

    Returns
    -------
    found : int
        Number of distinct vertices.
    best : int
        Maximal depth of a vertex; -1 if there is none.
    deepest : ndarray of shape (k, 2)
        The vertices of that depth.
    """
    n = P.shape[0]
    ws = workspace(n)
    R, idx, tie, vertical = ws[0], ws[4], ws[5], ws[6]
    n_groups = group[n - 1] + 1 if n > 0 else 1
    size = 1
    while size < n_groups:
        size *= 2
    T = np.zeros((2 * size, 4), np.int32)  # sum, least and largest prefix sum; padded to 16 bytes
    s = np.zeros(n, np.int64)
    keep = len(depths) > 0
    found = 0
    best = -1
    n_deepest = 0
    deepest = np.empty((64, 2))
    e, f, h = np.empty(2), np.empty(2), np.empty(4)
    for i in range(n):
        m, n_vertical, _ = order(P, P[i], None, None, ws)
        T[:] = 0
        positive = 0
        negative = 0
        for t in range(m):
            a = idx[0, t]
            s[a] = weights[a] if R[0, a] > 0.0 else -weights[a]
            T[size + group[a], 0] += s[a]
            if s[a] > 0:
                positive += weights[a]
            else:
                negative += weights[a]
        for t in range(n_vertical):
            a = vertical[t]
            if R[1, a] > 0.0:
                T[size + group[a], 0] += weights[a]
                positive += weights[a]
            else:
                T[size + group[a], 0] -= weights[a]
                negative += weights[a]
        for g in range(n_groups):
            T[size + g, 1] = T[size + g, 0]
            T[size + g, 2] = T[size + g, 0]
        _build(T, size)
        start = 0
        while start < m:
            stop = start + 1
            while stop < m and tie[stop]:
                stop += 1
            zeros = weights[i]
            first = True
            low = 0
            high = 0
            for t in range(start, stop):
                a = idx[0, t]
                first = first and a > i
                zeros += weights[a]
                if s[a] > 0:
                    positive -= weights[a]
                else:
                    negative -= weights[a]
                node = size + group[a]
                now = T[node, 0] - s[a]
                if stop - start == 1:
                    low, high = _update(T, node, now, now - s[a])
                else:
                    low, high = _update(T, node, now, now)
            if first:
                depth = min(negative + zeros + min(low, 0), positive + zeros - max(high, 0))
                a = idx[0, start]
                t1 = R[4, a]
                e1 = 2.0 * _EPS * abs(t1)
                t0, e0 = _intercept(P[i, 0], P[i, 1], P[a, 0], P[a, 1], t1, e, f, h)
                _widen(depth, t0, t1, e0, e1, lower, upper)
                if keep:
                    fits[found, 0] = t0
                    fits[found, 1] = t1
                    depths[found] = depth
                found += 1
                if depth > best:
                    best = depth
                    n_deepest = 0
                if depth == best:
                    if n_deepest == len(deepest):
                        larger = np.empty((2 * n_deepest, 2))
                        # (compiling an assignment of slices takes seconds, for its error message)
                        for t in range(n_deepest):
                            larger[t, 0] = deepest[t, 0]
                            larger[t, 1] = deepest[t, 1]
                        deepest = larger
                    deepest[n_deepest, 0] = t0
                    deepest[n_deepest, 1] = t1
                    n_deepest += 1
            for t in range(start, stop):
                a = idx[0, t]
                if stop - start > 1:
                    node = size + group[a]
                    now = T[node, 0] - s[a]
                    _update(T, node, now, now)
                s[a] = -s[a]
                if s[a] > 0:
                    positive += weights[a]
                else:
                    negative += weights[a]
            start = stop
    return found, best, deepest[:n_deepest].copy()
