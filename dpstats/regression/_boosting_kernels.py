"""Compiled passes over the rows for boosting. Each has a slow equal in ``tests/regression/test_boosting.py``."""

import numpy as np
from numba import njit

from dpstats.mechanisms._kernels import TILE, octave, standardized

__all__ = ["product_gradient", "product_levels", "residual_moments"]


@njit(cache=True, nogil=True)
def _rows(X, Y, start, rows, columns, loc, inverse, W, theta, radius2, tile, residual, weight, length):
    """Fill residuals, leverage weights ``min(1, R^2/|v|^2)`` and lengths ``|v|`` of a tile; return ``v``."""
    q = W.shape[0]
    standardized(X, Y, start, rows, columns[q:], loc[q:], inverse[q:], residual)
    standardized(X, Y, start, rows, columns[:q], loc[:q], inverse[:q], tile)
    v = np.dot(tile[:rows], W)
    for t in range(rows):
        r = residual[t, 0]
        for j in range(q):
            r -= tile[t, j] * theta[j]
        norm2 = 0.0
        for a in range(v.shape[1]):
            norm2 += v[t, a] * v[t, a]
        if norm2 < np.inf and abs(r) < np.inf:
            weight[t] = min(1.0, radius2 / norm2) if norm2 > 0.0 else 1.0
        else:  # beyond the range of doubles: the row counts for nothing
            v[t] = 0.0
            weight[t] = norm2 = r = 0.0
        residual[t, 0] = r
        length[t] = np.sqrt(norm2)
    return v


@njit(cache=True, nogil=True)
def product_gradient(X, Y, columns, loc, inverse, W, theta, radius2, clip, gradient):
    """``gradient += sum_i clip(v_i w_i r_i)``, each row's product shortened to norm `clip`.

    Parameters
    ----------
    X : (n, d) float array
    Y : (n, 1) float array
    columns : (q + 1,) intp array
        Entries of the joined row ``(x, y)``: the covariates', then the response's.
    loc, inverse : (q + 1,) float arrays
    W : (q, k) float array
        ``v = W' z``.
    theta : (q,) float array
        ``r = y - theta' z``.
    radius2 : float
        ``w = min(1, radius2 / |v|^2)``.
    clip : float
    gradient : (k,) float array
        Updated in place.
    """
    n = len(X)
    tile = np.empty((TILE, len(W)))
    residual, weight, length = np.empty((TILE, 1)), np.empty(TILE), np.empty(TILE)
    for start in range(0, n, TILE):
        rows = min(TILE, n - start)
        v = _rows(X, Y, start, rows, columns, loc, inverse, W, theta, radius2, tile, residual, weight, length)
        for t in range(rows):
            product = length[t] * weight[t] * abs(residual[t, 0])
            weight[t] *= residual[t, 0] * (clip / product if product > clip else 1.0)
        gradient += np.dot(weight[:rows], v)


@njit(cache=True, nogil=True)
def product_levels(X, Y, columns, loc, inverse, W, theta, radius2, hist):
    """``hist[octave((|v_i| w_i r_i)^2)] += 1``, for the rows of `product_gradient`."""
    n = len(X)
    tile = np.empty((TILE, len(W)))
    residual, weight, length = np.empty((TILE, 1)), np.empty(TILE), np.empty(TILE)
    for start in range(0, n, TILE):
        rows = min(TILE, n - start)
        _rows(X, Y, start, rows, columns, loc, inverse, W, theta, radius2, tile, residual, weight, length)
        for t in range(rows):
            hist[octave((length[t] * weight[t] * residual[t, 0]) ** 2)] += 1


@njit(cache=True, nogil=True)
def residual_moments(X, Y, columns, loc, inverse, theta, ceiling, total):
    """``total += sum_i min(r_i^2, ceiling)``, a (1,) array updated in place."""
    n = len(X)
    q = theta.size
    tile = np.zeros((TILE, columns.size))
    for start in range(0, n, TILE):
        rows = min(TILE, n - start)
        standardized(X, Y, start, rows, columns, loc, inverse, tile)
        for t in range(rows):
            r = tile[t, q]
            for j in range(q):
                r -= tile[t, j] * theta[j]
            square = r * r
            total[0] += square if square < ceiling else ceiling
