"""Count half-spaces by rotating a line over sorted directions.

All depths of this package come down to one question: of the vectors ``u_a = s_a (P[a] - z)``, with signs
``s_a``, how many lie in the closed half-space that holds the fewest? In the plane a line through the
origin rotates over the sorted directions. In three and four dimensions every vector (pair of vectors) is
a pivot: the rest are projected along it, which leaves the plane; the minimum over the pivots is exact:

    hd(U) = min over pivots of  hd(vectors within the span of the pivot) + hd(the others, projected).

(An optimal normal can be turned until its boundary holds d - 1 independent vectors, then turned back by
an infinitesimal amount; any pivot gives the count of some half-space, so it is never too small.)
"""

import numpy as np

from dpstats._jit import kernel
from dpstats.depth._order import order
from dpstats.depth._predicates import minor2_sign

__all__ = ["plane_depth", "space_depth", "hyperspace_depth", "count"]


@kernel(inline="always")
def count(s, m, n_vertical, ws):
    """Return the fewest of the sorted vectors ``s_a u_a`` in an open half-plane whose boundary avoids them.

    ``s`` has entries -1, 0, 1; vectors with 0 do not count.
    """
    R, idx, tie, vertical = ws[0], ws[4], ws[5], ws[6]
    above = 0
    total = 0
    for t in range(n_vertical):
        a = vertical[t]
        total += abs(s[a])
        if (R[1, a] > 0.0) == (s[a] > 0):
            above += abs(s[a])
    for t in range(m):
        a = idx[0, t]
        total += abs(s[a])
        if (R[0, a] > 0.0) == (s[a] > 0):
            above += abs(s[a])
    best = min(above, total - above)
    for t in range(m):
        a = idx[0, t]
        if R[0, a] > 0.0:
            above -= s[a]
        else:
            above += s[a]
        if t + 1 == m or not tie[t + 1]:
            best = min(best, above, total - above)
    return best


@kernel
def _line_depth(s, members, n_members, column, P, z):
    """Return the fewest of the vectors, all on one line, on one side of the origin."""
    positive = 0
    total = 0
    for t in range(n_members):
        a = members[t]
        total += abs(s[a])
        if (P[a, column] - z[column] > 0.0) == (s[a] > 0):
            positive += abs(s[a])
    return min(positive, total - positive)


@kernel(inline="always")
def plane_depth(P, z, s, ws):
    """Halfspace depth of the origin among the plane vectors ``s_a (P[a] - z)``, zero vectors included."""
    m, n_vertical, n_zero = order(P, z, None, None, ws)
    zeros = 0
    for t in range(n_zero):
        zeros += abs(s[ws[7][t]])
    return zeros + count(s, m, n_vertical, ws)


@kernel
def _within_pair(P, z, s, pivot, pivot2, n_zero, ws, inner):
    """Halfspace depth of the vectors in the span of two pivots, ``ws[7][:n_zero]``, zero vectors excluded."""
    if n_zero == 2:
        return 0
    d = P.shape[1]
    best_minor = 0.0
    k, l = 0, 0
    for c1 in range(d):
        for c2 in range(c1 + 1, d):
            left = (P[pivot, c1] - z[c1]) * (P[pivot2, c2] - z[c2])
            right = (P[pivot, c2] - z[c2]) * (P[pivot2, c1] - z[c1])
            if abs(left - right) > best_minor and minor2_sign(P, z, pivot, pivot2, c1, c2) != 0:
                best_minor = abs(left - right)
                k, l = c1, c2
    if best_minor == 0.0:
        for c1 in range(d):
            for c2 in range(c1 + 1, d):
                if minor2_sign(P, z, pivot, pivot2, c1, c2) != 0:
                    k, l = c1, c2
    Q = np.empty((n_zero, 2))
    t = np.empty(n_zero, s.dtype)
    origin = np.empty(2)
    origin[0] = z[k]
    origin[1] = z[l]
    size = 0
    for q in range(n_zero):
        a = ws[7][q]
        if P[a, k] != z[k] or P[a, l] != z[l]:
            Q[size, 0] = P[a, k]
            Q[size, 1] = P[a, l]
            t[size] = s[a]
            size += 1
    return plane_depth(Q[:size], origin, t[:size], inner)


@kernel(inline="always")
def _nonzero(P, z, s, nonzero):
    """List the vectors that have a side; return how many, the weight of all of them, and that of zero
    vectors."""
    n, d = P.shape
    zeros = 0
    size = 0
    total = 0
    for a in range(n):
        is_zero = True
        for c in range(d):
            if P[a, c] != z[c]:
                is_zero = False
        if is_zero:
            zeros += abs(s[a])
        elif s[a] != 0:
            nonzero[size] = a
            size += 1
            total += abs(s[a])
    return size, total, zeros


@kernel(inline="always")
def _largest(P, z, i):
    """Return the column of the largest coordinate of ``P[i] - z``."""
    k = 0
    for c in range(1, P.shape[1]):
        if abs(P[i, c] - z[c]) > abs(P[i, k] - z[k]):
            k = c
    return k


@kernel
def space_depth(P, z, s, ws):
    """Halfspace depth of the origin among ``s_a (P[a] - z)`` in three dimensions."""
    nonzero = np.empty(P.shape[0], np.int32)
    size, best, zeros = _nonzero(P, z, s, nonzero)
    for t in range(size):
        i = nonzero[t]
        m, n_vertical, n_zero = order(P, z, i, None, ws)
        k = _largest(P, z, i)
        found = count(s, m, n_vertical, ws)
        if found < best:
            kept = 0
            for q in range(n_zero):  # zero vectors have no side
                a = ws[7][q]
                if P[a, k] != z[k]:
                    ws[7][kept] = a
                    kept += 1
            best = min(best, found + _line_depth(s, ws[7], kept, k, P, z))
        if zeros + best == 0:
            return 0
    return zeros + best


@kernel
def hyperspace_depth(P, z, s, ws, inner):
    """As :func:`space_depth`, in four dimensions."""
    nonzero = np.empty(P.shape[0], np.int32)
    size, best, zeros = _nonzero(P, z, s, nonzero)
    paired = False
    for t in range(size):
        for r in range(t + 1, size):
            i, j = nonzero[t], nonzero[r]
            m, n_vertical, n_zero = order(P, z, i, j, ws)
            if m < 0:
                continue
            paired = True
            found = count(s, m, n_vertical, ws)
            if found < best:
                best = min(best, found + _within_pair(P, z, s, i, j, n_zero, ws, inner))
            if zeros + best == 0:
                return 0
    if size > 0 and not paired:  # all on one line
        best = _line_depth(s, nonzero, size, _largest(P, z, nonzero[0]), P, z)
    return zeros + best
