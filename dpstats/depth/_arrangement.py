"""Every vertex of the dual arrangement of a simple regression, with its exact depth, in O(n^2 log n).

In the dual plane an observation ``(x, y)`` is the line of the fits through it and a fit is a point; the
candidates for extremes are the intersections of two lines, the fits through two observations. Along the
line of observation i the fits are ordered by slope, and one residual changes sign at each intersection.
With ``S_k`` the sum of the residual signs of the k smallest covariates (tied ones together, ``S_0 = 0``),

    rd = min( #{r <= 0} + min_k S_k,  #{r >= 0} - max_k S_k ),

and a segment tree over the covariates keeps the two extremes of ``S``. Memory is O(n) beside the output.

The line of an observation i, walked from the slope -inf to +inf; a, b and c are other observations:

    slope           -inf ------ i,a ------------- i,b,c ------ +inf
    residual of a      +         0        -         -     -           a is to the right of i
    residual of b      -         -        -         0     +           b and c are to the left of it, and
    residual of c      -         -        -         0     +           on one line with it

At a vertex the residuals of its observations are zero, and beyond it they have the opposite sign: a step
changes these leaves of the segment tree and no others.

The segment tree is an array of nodes ``(sum, least, largest)``: the sum of the signs in a range of the
covariate and the extremes of its partial sums, the first group's on. Node 1 is the root, nodes ``2 k`` and
``2 k + 1`` are the left and the right half of node k, and leaf ``size + g`` is the group g of equal
covariates.
"""

import numpy as np

from dpstats._jit import kernel
from dpstats.depth._expansions import add, estimate, product
from dpstats.depth._order import order, workspace

__all__ = ["walk", "prepare"]

_SUM, _LEAST, _LARGEST = range(3)
_EPS = 2.220446049250313e-16
_CANCELLED = 2.0**-44
"""An intercept with a larger relative error is computed exactly. Smooth bounds are enlarged by 2^-40
(``docs/privacy``)."""


def prepare(x, y):
    """Return the distinct observations in order of x, their multiplicities, and their groups of equal x."""
    P, weights = np.unique(np.column_stack([x, y]), axis=0, return_counts=True)
    group = np.cumsum(np.concatenate([[False], P[1:, 0] != P[:-1, 0]])[: len(P)]).astype(np.int64)
    return P, weights.astype(np.int64), group


@kernel
def _build(tree, size, n_groups):
    """Fill a segment tree from the sums of its leaves."""
    for leaf in range(size, size + n_groups):
        tree[leaf, _LEAST] = tree[leaf, _SUM]
        tree[leaf, _LARGEST] = tree[leaf, _SUM]
    for node in range(size - 1, 0, -1):
        left = 2 * node
        right = left + 1
        tree[node, _SUM] = tree[left, _SUM] + tree[right, _SUM]
        tree[node, _LEAST] = min(tree[left, _LEAST], tree[left, _SUM] + tree[right, _LEAST])
        tree[node, _LARGEST] = max(tree[left, _LARGEST], tree[left, _SUM] + tree[right, _LARGEST])


@kernel
def _update(tree, node, zero, flipped):
    """Set a leaf to `flipped`; return the extremes at the root as they would be with the leaf at `zero`.

    One pass for both: the sign at a vertex is zero, and beyond it the opposite.
    """
    # of the node on the way up: sum and extremes with the leaf flipped, and (ending in 0) with it at zero
    s, low, high = flipped, flipped, flipped
    s0, low0, high0 = zero, zero, zero
    tree[node, _SUM] = s
    tree[node, _LEAST] = s
    tree[node, _LARGEST] = s
    while node > 1:
        other, other_low, other_high = tree[node ^ 1, _SUM], tree[node ^ 1, _LEAST], tree[node ^ 1, _LARGEST]
        # the extremes of the right half are shifted by the sum of the left one;
        # branch-free: one of the two shifts is zero
        is_right = -(node & 1)  # all bits, or none
        shift = other & is_right
        other_shift = s & ~is_right
        low = min(low + shift, other_low + other_shift)
        high = max(high + shift, other_high + other_shift)
        other_shift = s0 & ~is_right
        low0 = min(low0 + shift, other_low + other_shift)
        high0 = max(high0 + shift, other_high + other_shift)
        s += other
        s0 += other
        node >>= 1
        tree[node, _SUM] = s
        tree[node, _LEAST] = low
        tree[node, _LARGEST] = high
    return low0, high0


@kernel
def _widen(depth, t0, t1, e0, e1, lower, upper):
    """Take the fit ``(t0, t1)`` with errors ``e0``, ``e1`` of its coefficients into the extremes of its
    depth."""
    lower[depth, 0] = min(lower[depth, 0], t0 - e0)
    upper[depth, 0] = max(upper[depth, 0], t0 + e0)
    lower[depth, 1] = min(lower[depth, 1], t1 - e1)
    upper[depth, 1] = max(upper[depth, 1], t1 + e1)
    error = e0 + e1 + _EPS * abs(t0 + t1)
    lower[depth, 2] = min(lower[depth, 2], t0 + t1 - error)
    upper[depth, 2] = max(upper[depth, 2], t0 + t1 + error)
    error = e0 + e1 + _EPS * abs(t0 - t1)
    lower[depth, 3] = min(lower[depth, 3], t0 - t1 - error)
    upper[depth, 3] = max(upper[depth, 3], t0 - t1 + error)


@kernel
def _intercept(x, y, u, v, slope, e, f, h):
    """Intercept of the line through ``(x, y)`` and ``(u, v)``, and its error: at most `_CANCELLED` of it.

    ``e``, ``f`` and ``h`` are scratch for two, two and four doubles.

    An error in units of ``slope x`` would not do: one record far out would make the set of lines of
    every depth as wide as the rounding of its own coordinates.
    """
    drop = slope * x
    intercept = y - drop
    error = 3.0 * _EPS * abs(drop) + _EPS * abs(intercept)
    if error > _CANCELLED * abs(intercept):
        # (y u - x v) / (u - x), the numerator exactly
        k = add(e, product(y, u, e), f, product(-x, v, f), h)
        intercept = estimate(h, k) / (u - x)
        error = 8.0 * _EPS * abs(intercept)
    return intercept, error


@kernel
def _begin(m, n_vertical, weights, group, ws, signed, tree, size):
    """Set `signed` and the segment tree to the residual signs far down the line of an observation, at the
    slope -inf.

    Returns ``(positive, negative)``, the numbers of positive and of negative residuals.
    """
    R, idx, vertical = ws[0], ws[4], ws[6]
    tree[:] = 0
    positive = 0
    negative = 0
    for t in range(m):
        a = idx[0, t]
        # what is to the right of the observation is above a fit that falls steeply
        signed[a] = weights[a] if R[0, a] > 0.0 else -weights[a]
        tree[size + group[a], _SUM] += signed[a]
        if signed[a] > 0:
            positive += weights[a]
        else:
            negative += weights[a]
    for t in range(n_vertical):
        a = vertical[t]
        # above or below the observation itself, at every slope
        if R[1, a] > 0.0:
            tree[size + group[a], _SUM] += weights[a]
            positive += weights[a]
        else:
            tree[size + group[a], _SUM] -= weights[a]
            negative += weights[a]
    _build(tree, size, group[-1] + 1)
    return positive, negative


@kernel
def _grown(deepest):
    """A copy with room for twice as many fits."""
    larger = np.empty((2 * len(deepest), 2))
    # (compiling an assignment of slices takes seconds, for its error message)
    for t in range(len(deepest)):
        larger[t, 0] = deepest[t, 0]
        larger[t, 1] = deepest[t, 1]
    return larger


@kernel
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
    # R[4]: slopes of the fits through observation i and another; idx[0]: the others by that slope; tie[t]:
    # the t-th has the slope of the one before
    R, idx, tie = ws[0], ws[4], ws[5]
    n_groups = group[n - 1] + 1 if n > 0 else 1
    size = 1
    while size < n_groups:
        size *= 2
    tree = np.zeros((2 * size, 4), np.int32)  # padded to 16 bytes
    signed = np.zeros(n, np.int64)  # by observation, the sign of the residual times the multiplicity
    keep = len(depths) > 0
    found = 0
    best = -1
    n_deepest = 0
    deepest = np.empty((64, 2))
    e, f, h = np.empty(2), np.empty(2), np.empty(4)
    for i in range(n):
        m, n_vertical, _ = order(P, P[i], None, None, ws)
        positive, negative = _begin(m, n_vertical, weights, group, ws, signed, tree, size)
        start = 0
        while start < m:
            # the next vertex: where the line of i meets those of idx[0, start:stop]
            stop = start + 1
            while stop < m and tie[stop]:
                stop += 1
            alone = stop - start == 1
            zeros = weights[i]
            first = True  # is i the first observation of this vertex? otherwise it has been visited before
            low = 0
            high = 0
            # at the vertex their residuals are zero
            for t in range(start, stop):
                a = idx[0, t]
                first = first and a > i
                zeros += weights[a]
                if signed[a] > 0:
                    positive -= weights[a]
                else:
                    negative -= weights[a]
                leaf = size + group[a]
                without = tree[leaf, _SUM] - signed[a]
                # of one alone the sign beyond the vertex is set in the same pass
                low, high = _update(tree, leaf, without, without - signed[a] if alone else without)
            if first:
                depth = min(negative + zeros + min(low, 0), positive + zeros - max(high, 0))
                a = idx[0, start]
                slope = R[4, a]
                slope_error = 2.0 * _EPS * abs(slope)
                intercept, error = _intercept(P[i, 0], P[i, 1], P[a, 0], P[a, 1], slope, e, f, h)
                _widen(depth, intercept, slope, error, slope_error, lower, upper)
                if keep:
                    fits[found, 0] = intercept
                    fits[found, 1] = slope
                    depths[found] = depth
                found += 1
                if depth > best:
                    best = depth
                    n_deepest = 0
                if depth == best:
                    if n_deepest == len(deepest):
                        deepest = _grown(deepest)
                    deepest[n_deepest, 0] = intercept
                    deepest[n_deepest, 1] = slope
                    n_deepest += 1
            # beyond the vertex they have the opposite sign
            for t in range(start, stop):
                a = idx[0, t]
                if not alone:
                    leaf = size + group[a]
                    flipped = tree[leaf, _SUM] - signed[a]
                    _update(tree, leaf, flipped, flipped)
                signed[a] = -signed[a]
                if signed[a] > 0:
                    positive += weights[a]
                else:
                    negative += weights[a]
            start = stop
    return found, best, deepest[:n_deepest].copy()
