"""Compiled passes over the rows for regression."""

import numpy as np

from dpstats._jit import kernel
from dpstats.mechanisms._kernels import CEILING

__all__ = ["solve_definite", "subset_moments", "sum_squares"]

_ROWS = 4096


@kernel
def subset_moments(X, Y, columns, loc, inverse, cell, groups, first, last, shift, moments):
    """Accumulate the second moments of the subsets `first` to `last` (exclusive), in one pass.

    A subset has `groups` cells. The row ``u = (1, z, y - shift[s])`` of cell ``c`` of subset ``s`` adds
    ``u u'`` to ``moments[c]``. The shift of a subset is the response of its first row, so large offsets of
    the response cancel before anything is squared. Every subset adds up its own rows in their order: the
    bits of its sums do not depend on any other row.

    Parameters
    ----------
    X, Y, columns, loc, inverse
        As in :func:`dpstats.linear.score_kernels.whitened`.
    cell : (n,) int32 array
        Cell of each row; those of subset ``s`` are ``groups s`` to ``groups (s + 1) - 1``.
    groups, first, last : int
    shift : (m,) float array
        NaN where a subset has no row yet; updated in place.
    moments : (groups m, q + 2, q + 2) float array
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
            kept += cell[t] >= groups * first and cell[t] < groups * last
        for t in mine[:kept]:
            s = cell[t] // groups
            for j in range(q):
                c = columns[j]
                value = X[t, c] if c < d else Y[t, c - d]
                u[j + 1] = (min(max(value, -CEILING), CEILING) - loc[j]) * inverse[j]
            if np.isnan(shift[s]):
                shift[s] = u[q]
            u[q] -= shift[s]
            target = moments[cell[t]]
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


@kernel
def sum_squares(X, Y, columns, loc, inverse, beta, W, sigma, centre, spread, limit, units, state):
    """Add ``min(r^2, C)``, ``min(t^2, C)``, ``t`` within ``+-sqrt(C)`` and ``v r > 0`` of all rows.

    With ``r = (y - beta' (1, z)) / sigma``, ``t = (y - centre) / spread``, ``v = W' (1, z)``, ``C = limit``.
    Every row is handled on its own, so that the bits of its terms do not depend on any other.

    Parameters
    ----------
    X, Y, columns, loc, inverse
        As in :func:`dpstats.linear.score_kernels.whitened`.
    beta : (q + 1,) array
        The intercept first.
    W : (q + 1, k) array
    sigma, centre, spread, limit : float
    units : float
        As in :func:`dpstats.mechanisms.sums.sum_bounded`.
    state : (2, 3 + k) int64 array
        Whole numbers as there; updated in place.
    """
    root = np.sqrt(limit)
    terms = np.empty(3 + W.shape[1])
    z = np.ones(columns.size + 1)
    for i in range(X.shape[0]):
        y = min(max(Y[i, 0], -CEILING), CEILING)
        fitted = beta[0]
        for j in range(columns.size):
            value = min(max(X[i, columns[j]], -CEILING), CEILING)
            z[j + 1] = (value - loc[j]) * inverse[j]
            fitted += beta[j + 1] * z[j + 1]
        r, t = (y - fitted) / sigma, (y - centre) / spread
        # comparisons with what is not a number are false
        terms[0] = r * r if r * r < limit else limit
        terms[1] = t * t if t * t < limit else limit
        terms[2] = t if -root < t < root else (root if t > 0 else -root)
        for k in range(W.shape[1]):
            v = 0.0
            for j in range(z.size):
                v += W[j, k] * z[j]
            terms[3 + k] = 1.0 if v * r > 0 else 0.0
        for k in range(terms.size):
            whole = np.int64(np.rint(terms[k] * units))
            low = state[1, k] + (whole & 0xFFFFFFFF)
            state[0, k] += (whole >> 32) + (low >> 32)
            state[1, k] = low & 0xFFFFFFFF
