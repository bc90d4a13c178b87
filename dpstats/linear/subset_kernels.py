"""Compiled passes over the rows for regression."""

import numpy as np

from dpstats._jit import kernel
from dpstats.mechanisms._kernels import CEILING

__all__ = ["solve_definite", "subset_moments"]

_ROWS = 4096


@kernel
def subset_moments(X, Y, columns, loc, inverse, subset, first, last, shift, moments):
    """Accumulate the second moments of the subsets `first` to `last` (exclusive), in one pass.

    The row ``u = (1, z, y - shift[s])`` adds ``u u'`` to ``moments[s]``. The shift of a subset is the
    response of its first row, so large offsets of the response cancel before anything is squared. Every
    subset adds up its own rows in their order: the bits of its sums do not depend on any other row.

    Parameters
    ----------
    X, Y, columns, loc, inverse
        As in :func:`dpstats.linear.score_kernels.whitened`.
    subset : (n,) int32 array
        Subset of each row.
    first, last : int
    shift : (m,) float array
        NaN where a subset has no row yet; updated in place.
    moments : (m, q + 2, q + 2) float array
        Updated in place.
    """
    n, d = X.shape
    q = columns.size
    mine = np.empty(_ROWS, dtype=np.int64)
    u = np.empty(q + 1)
    u[0] = 1.0
    for start in range(0, n, _ROWS):
        kept = 0
        # without a branch: whether a row is kept cannot be predicted
        for t in range(start, min(start + _ROWS, n)):
            mine[kept] = t
            kept += subset[t] >= first and subset[t] < last
        for t in mine[:kept]:
            s = subset[t]
            for j in range(q):
                c = columns[j]
                value = X[t, c] if c < d else Y[t, c - d]
                u[j + 1] = (min(max(value, -CEILING), CEILING) - loc[j]) * inverse[j]
            if np.isnan(shift[s]):
                shift[s] = u[q]
            u[q] -= shift[s]
            target = moments[s]
            for a in range(q + 1):
                ua = u[a]
                row = target[a]
                for b in range(q + 1):
                    row[b] += ua * u[b]


@kernel
def solve_definite(A, b, floor):
    """Solve ``A x = b`` for many positive semi-definite `A` by Cholesky decomposition, without ever failing.

    Parameters
    ----------
    A : (m, d, d) float array
        Destroyed.
    b : (m, d) float array
        Overwritten with the solutions.
    floor : float
        A pivot at or below `floor` times its diagonal entry (or not a number) marks a direction that the
        others determine; its unknown is 0.
    """
    d = A.shape[1]
    for s in range(A.shape[0]):
        L, x = A[s], b[s]
        for j in range(d):
            pivot = L[j, j]
            for k in range(j):
                pivot -= L[j, k] * L[j, k]
            if not pivot > floor * L[j, j]:
                L[j, j] = 0.0
                L[j + 1 :, j] = 0.0
                continue
            root = np.sqrt(pivot)
            L[j, j] = root
            for i in range(j + 1, d):
                value = L[i, j]
                for k in range(j):
                    value -= L[i, k] * L[j, k]
                L[i, j] = value / root
        for j in range(d):
            value = x[j]
            for k in range(j):
                value -= L[j, k] * x[k]
            x[j] = value / L[j, j] if L[j, j] > 0 else 0.0
        for j in range(d - 1, -1, -1):
            value = x[j]
            for k in range(j + 1, d):
                value -= L[k, j] * x[k]
            x[j] = value / L[j, j] if L[j, j] > 0 else 0.0
