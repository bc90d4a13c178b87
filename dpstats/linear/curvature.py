"""The Gram matrix of whitened rows that standard errors are computed from: its radius and its noise."""

import math

import numpy as np

from dpstats._types import Array, Floats

__all__ = ["curvature_radius2", "least_radius2", "shrunken", "shrunken_to", "visibly_more"]

_NARROW, _WIDE = 0.15, 0.25
_ABOVE, _REACH, _FAR = 0.5, 8.0, 100.0
_LEAST_RATIO, _LEAST_UNEVEN = 0.2, 0.01
_VISIBLE = 2.0
"""Standard deviations of its noise beyond which what a matrix has more than another is seen."""


def curvature_radius2(q: int, count: float, mu: float) -> float:
    """Squared radius to which rows are shortened before their Gram matrix is released.

    As wide as noise of 4 % of the rows allows (``0.15 / sqrt(2 q)`` with six coefficients), or of 7 % up to
    eight times the mean squared length of a row: rounds use all of a level that few rows have, which is far
    out, so the matrix has to show its share. At least :func:`least_radius2`, and at most the square of the
    longest row that whitened coordinates can have.

    Parameters
    ----------
    q : int
    count : float
        The released number of rows.
    mu : float
        Gaussian-DP parameter of the release.

    Returns
    -------
    float
    """
    unit = count * mu / math.sqrt(2 * q)
    narrow = min(_NARROW * unit, math.sqrt(_NARROW * unit * _FAR * q))
    return min(max(least_radius2(q), narrow, min(_WIDE * unit, _REACH * q)), count)


def least_radius2(q: int) -> float:
    """The least squared radius: the mean squared length of a row, and half its standard deviation if normal.

    Shortening rows that are longer takes little off what a direction shows, and much off the noise, by which
    directions are hidden where rows are few.

    Examples
    --------
    >>> least_radius2(2), round(least_radius2(18), 1)
    (3.0, 21.0)
    """
    return q + _ABOVE * math.sqrt(2 * q)


def shrunken(gram: Floats, noise: float, share: Floats) -> tuple[Floats, float]:
    r"""A noisy Gram matrix moved towards what the whitening before it has already shown.

    .. math:: T + \rho (G - T), \qquad
              \rho = \max\Bigl(0,\; 1 - \frac{s^2 q (q + 1) / 2}{\|G - T\|_F^2}\Bigr),

    with ``T = t diag(share)`` of the trace of ``G``, or of the trace that noise alone gives (at most
    ``t = 1``, what the whitening aims at) where that is larger: the linear shrinkage of least expected
    squared error (Ledoit and Wolf 2004) with known noise, towards a target from other releases. Noise spreads
    eigenvalues, and what is divided by small ones would be overstated; a direction that the whitening never
    saw well keeps its small share.

    Parameters
    ----------
    gram : (q, q) array
    noise : float
        Standard deviation ``s`` of the noise on the diagonal, ``s / sqrt(2)`` off it.
    share : (q,) array
        Mean square of each coordinate by the last stage of the whitening, positive
        (:class:`~dpstats.mechanisms.whiten.Whitening`).

    Returns
    -------
    gram : (q, q) array
    noise : float
        What is left of `noise`.

    Examples
    --------
    >>> shrunken(np.diag([1.5, 0.5]), 0.1, np.ones(2))[0].diagonal().round(2)
    array([1.47, 0.53])
    >>> shrunken(np.diag([1.1, 0.9]), 0.1, np.ones(2))[0].diagonal().round(2)
    array([1., 1.])
    >>> shrunken(np.diag([1.1, 0.2]), 0.1, np.array([1.0, 0.3]))[0].diagonal().round(2)
    array([1. , 0.3])
    >>> shrunken(np.diag([-2.1, 0.9]), 3.0, np.ones(2))[0].diagonal().round(2)
    array([1., 1.])
    """
    q = len(gram)
    total = np.sum(share)
    mean = max(np.trace(gram), min(noise * math.sqrt(q), total)) / total
    target = np.diag(share * mean)
    kept = _kept(gram, noise, target)
    return target + kept * (gram - target), math.sqrt(kept) * noise


def shrunken_to(matrix: Floats, noise: float, target: Floats, uneven: bool = False) -> Floats:
    """A noisy symmetric matrix moved towards `target` as in :func:`shrunken`, positive definite.

    Its least eigenvalue, relative to `target`, is at least a fifth; if it is `uneven`, as of rows with
    weights, which may differ by orders of magnitude, it may be less where the noise is.
    """
    mixed = target + _kept(matrix, noise, target) * (matrix - target)
    root, values, vectors = _relative(mixed, target)
    spectral = 2 * math.sqrt(len(target)) * noise / max(float(np.trace(target)) / len(target), 1e-300)
    least = min(_LEAST_RATIO, max(spectral, _LEAST_UNEVEN)) if uneven else _LEAST_RATIO
    half = root @ (vectors * np.sqrt(np.maximum(values, least)))
    return half @ half.T


def visibly_more(difference: Floats, noise: float, metric: Floats) -> Floats:
    """What one matrix has more than another, along the directions where that is more than two standard
    deviations of its noise.

    Parameters
    ----------
    difference, metric : (q, q) arrays
        Directions are those of the difference relative to `metric`, positive definite.
    noise : float
        Standard deviation of the noise on the diagonal of the difference.

    Examples
    --------
    >>> visibly_more(np.diag([1.0, 0.1, -1.0]), 0.1, np.eye(3)).diagonal()
    array([1., 0., 0.])
    """
    root, values, vectors = _relative(difference, metric)
    along = np.linalg.norm(np.linalg.solve(root.T, vectors), axis=0) ** 2
    half = root @ (vectors * np.sqrt(np.where(values > _VISIBLE * noise * along, values, 0.0)))
    return half @ half.T


def _relative(matrix: Floats, metric: Floats) -> tuple[Array, Array, Array]:
    """A root of `metric`, and eigenvalues and vectors of the matrix in coordinates in which that is one."""
    root = np.linalg.cholesky(metric)
    inner = np.linalg.solve(root, np.linalg.solve(root, matrix).T)
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    return root, values, vectors


def _kept(matrix: Floats, noise: float, target: Floats) -> float:
    q, away = len(matrix), float(np.sum((matrix - target) ** 2))
    return max(0.0, 1 - noise**2 * q * (q + 1) / 2 / away) if away else 1.0
