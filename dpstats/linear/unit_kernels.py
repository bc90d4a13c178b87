"""Compiled sums over the rows of each unit. Each has a slow equal in ``tests/linear/test_summed.py``.

The rows of a unit are added up in their order, so that its sums do not depend on any other unit; what a unit
adds to a release is limited and rounded after that.
"""

import numpy as np

from dpstats._jit import kernel
from dpstats.mechanisms._kernels import TILE, carried

__all__ = ["gram", "norms", "scores", "squares"]


@kernel(inline="always")
def _residual(v, y, u, threshold):
    r = y
    for a in range(u.size):
        r -= v[a] * u[a]
    return min(max(r, -threshold), threshold)


@kernel
def scores(V, Y, ends, first, last, u, threshold, metric, S, sign):
    """Fill ``S[g]`` with ``T sum_i v_i r_i`` times the sign of ``sum_i r_i``, and ``sign[g]`` with that, for
    the units from `first` to `last`; ``r = y - u'v`` moved into ``[-threshold, threshold]``, `T` the metric.
    """
    part = np.empty(u.size)
    for g in range(first, last):
        total = 0.0
        part[:] = 0.0
        for i in range(ends[g - 1] if g else 0, ends[g]):
            r = _residual(V[i], Y[i, 0], u, threshold)
            total += r
            for a in range(u.size):
                part[a] += V[i, a] * r
        sign[g, 0] = 1.0 if total > 0.0 else -1.0
        for a in range(u.size):
            S[g, a] = 0.0
            for b in range(u.size):
                S[g, a] += metric[a, b] * part[b]
            S[g, a] *= sign[g, 0]


@kernel
def squares(V, Y, ends, first, last, u, out):
    """Fill ``out[g]`` with ``sum_i (y_i - u'v_i)^2``."""
    for g in range(first, last):
        total = 0.0
        for i in range(ends[g - 1] if g else 0, ends[g]):
            r = _residual(V[i], Y[i, 0], u, np.inf)
            total += r * r
        out[g] = total


@kernel(inline="always")
def _gram_of(V, Y, begin, end, u, threshold, G):
    """Fill the upper half of `G` with ``sum_i v_i v_i'`` over the rows with ``|r| < threshold``; return its
    Frobenius norm.
    """
    k = u.size
    for a in range(k):
        for b in range(k):
            G[a, b] = 0.0
    for i in range(begin, end):
        if threshold < np.inf and not abs(_residual(V[i], Y[i, 0], u, np.inf)) < threshold:
            continue
        # whole rows, though half would do: loops of one length are compiled to vectors
        for a in range(k):
            for b in range(k):
                G[a, b] += V[i, a] * V[i, b]
    total = 0.0
    for a in range(k):
        total += G[a, a] * G[a, a]
        for b in range(a + 1, k):
            total += 2 * G[a, b] * G[a, b]
    return np.sqrt(total)


@kernel
def norms(V, Y, ends, first, last, u, out):
    """Fill ``out[g]`` with the Frobenius norm of ``sum_i v_i v_i'``."""
    G = np.empty((u.size, u.size))
    for g in range(first, last):
        out[g] = _gram_of(V, Y, ends[g - 1] if g else 0, ends[g], u, np.inf, G)


@kernel
def gram(V, Y, ends, first, last, u, threshold, inside, radius2, units, total):
    """``total += sum_g w_g G_g``, ``G_g = sum_i v_i v_i'`` over the unit's rows with ``|r| < threshold`` and
    ``w_g = min(1, radius2 / |G_g|_F)``, over the units `inside`; terms are rounded to multiples of
    ``1/units``, (2, k, k) as in :func:`~dpstats.mechanisms._kernels.add_gram`.
    """
    k = u.size
    G, part = np.empty((k, k)), np.empty((k, k))
    for start in range(first, last, TILE):
        part[:] = 0.0
        for g in range(start, min(start + TILE, last)):
            if not inside[g]:
                continue
            norm = _gram_of(V, Y, ends[g - 1] if g else 0, ends[g], u, threshold, G)
            if not 0.0 < norm < np.inf:
                continue
            w = min(1.0, radius2 / norm)
            for a in range(k):
                for b in range(a, k):
                    part[a, b] += np.rint(units * (w * G[a, b]))
        for a in range(k):
            for b in range(a, k):
                total[0, a, b], total[1, a, b] = carried(total[0, a, b], total[1, a, b], part[a, b])
                total[0, b, a], total[1, b, a] = total[0, a, b], total[1, a, b]
