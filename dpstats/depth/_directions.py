"""A public set of directions, and depth over it: an upper bound of halfspace and regression depth.

The set depends on the dimension, a count and a seed only, never on data. Depth over a fixed set of
directions changes by at most one when a row is replaced, like the exact depth.
"""

from itertools import product

import numpy as np

from dpstats._types import Array, Floats, Integers

__all__ = ["directions", "halfspace_bound", "regression_bound"]

_SIGN_VECTORS_UP_TO = 10
_SLACK = 8 * np.finfo(float).eps


def directions(d: int, count: int = 1000, seed: int = 0) -> Floats:
    """Return a public set of directions, one of each opposite pair.

    Parameters
    ----------
    d : int
        The dimension.
    count : int
        How many random directions, uniform on the sphere.
    seed : int
        Seed of the random directions.

    Returns
    -------
    ndarray of shape (k, d)
        The axes, the sign vectors ``{-1, 1}^d`` (up to d = 10) and the random unit vectors.

    Examples
    --------
    >>> directions(2, count=0).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]]
    """
    sets = [np.eye(d)]
    if 2 <= d <= _SIGN_VECTORS_UP_TO:
        sets.append(np.array([(1.0, *s) for s in product((1.0, -1.0), repeat=d - 1)]))
    random = np.random.default_rng(seed).standard_normal((count, d))
    sets.append(random / np.linalg.norm(random, axis=1, keepdims=True))
    return np.concatenate(sets)


def centre_and_unit(X: Floats) -> tuple[Floats, Floats]:
    """What columns are centred and scaled by, medians, so that random directions see all of them."""
    centre = np.median(X, axis=0)
    away = np.abs(X - centre)
    spread, fallback = np.median(away, axis=0), away.max(axis=0)
    return centre, np.where(spread > 0, spread, np.where(fallback > 0, fallback, 1.0))


def project(X: Floats, v: Floats) -> Floats:
    """``X @ v`` with an order of additions that does not depend on the shape of X.

    A matrix product would round a point and an equal row of data differently.
    """
    value = np.zeros(len(X))
    for c in range(X.shape[1]):
        value += X[:, c] * v[c]
    return value


def halfspace_bound(points: Floats, data: Floats, vectors: Floats) -> Integers:
    """``min over v in vectors of #{i: v'(x_i - z) >= 0}`` and the same of ``-v``, for every point z.

    Values within rounding of the threshold are counted, so this is never below the exact depth by rounding
    of the point's own projection.
    """
    best = np.full(len(points), len(data), dtype=np.int64)
    for v in vectors:
        projected = np.sort(project(data, v))
        at, size = project(points, v), project(np.abs(points), np.abs(v))
        slack = _SLACK * size
        np.minimum(best, np.searchsorted(projected, at + slack, side="right"), out=best)
        np.minimum(best, len(data) - np.searchsorted(projected, at - slack, side="left"), out=best)
    return best


def regression_bound(signs: Array, x: Floats, vectors: Floats) -> Integers:
    """Regression depth with the covariates replaced by ``v'x``, minimised over v.

    Parameters
    ----------
    signs : ndarray of shape (m, n)
        Residual signs of m fits.
    x : ndarray of shape (n, p)
        Covariates, of comparable scales.
    vectors : ndarray of shape (k, p)
        Directions.

    Returns
    -------
    ndarray of shape (m,)
        ``min over v, t of #{s_i (v'x_i - t) >= 0}``: every split of every projection.
    """
    above = (signs >= 0).sum(axis=1)
    below = (signs <= 0).sum(axis=1)
    best = np.minimum(above, below)
    for v in vectors:
        at, size = project(x, v), project(np.abs(x), np.abs(v))
        order = np.argsort(at, kind="stable")
        ends = np.flatnonzero(np.diff(at[order]) > _SLACK * size[order][1:])
        running = np.cumsum(signs[:, order], axis=1, dtype=np.int64)[:, ends]
        if running.size:
            np.minimum(best, below + running.min(axis=1), out=best)
            np.minimum(best, above - running.max(axis=1), out=best)
    return best
