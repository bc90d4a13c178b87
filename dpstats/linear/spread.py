"""Over which directions what a clip takes off is spread."""

import math

import numpy as np

from dpstats._types import Floats

__all__ = ["cut_shape", "of_long_rows", "raised", "seen_moment", "spread_share", "with_squares"]

_PREDICTOR, _ELSEWHERE = 1.5, 0.3
"""Of the squared bias along the constant, what is allowed along the predictor, and along the others."""


def cut_shape(
    scores: Floats,
    A: Floats,
    W: Floats,
    coefficients: Floats,
    constant: bool,
) -> Floats:
    """How a squared bias is spread over the directions, (q, q): its trace is that of :func:`spread_share` if
    all are alike, and no less if they are not.

    What a clip takes off lies along the constant where errors are skewed alike in all rows, and along the
    linear predictor where their size depends on the mean. Along directions on which neither depends there is
    less; how much was measured on real data (``benchmarks/real/directions.csv``).

    Parameters
    ----------
    scores : (q, q) array
        Second moment of the parts that are cut, or its shape (:func:`of_long_rows`).
    A : (q, q) array
        Mean curvature: by how much the mean of the parts moves with the coefficients.
    W : (q, q) array
        The map to whitened coordinates, ``v = W' z``.
    coefficients : (q,) array
        In whitened coordinates.
    constant : bool
        Whether the first column is the constant.

    Examples
    --------
    >>> I = np.eye(4)
    >>> cut_shape(I, I, I, np.array([0.0, 2.0, 0.0, 0.0]), constant=True).diagonal().round(3)
    array([0.25 , 0.375, 0.075, 0.075])
    """
    likely = np.column_stack([np.linalg.inv(W)[:, 0], coefficients] if constant else [coefficients])
    root = np.linalg.cholesky(scores)
    turned = np.linalg.solve(root, A @ likely)
    along = np.linalg.qr(turned / np.maximum(np.linalg.norm(turned, axis=0), 1e-300))[0]
    weights = np.array([1.0, _PREDICTOR] if constant else [_PREDICTOR])[: along.shape[1]] - _ELSEWHERE
    shape = root @ (_ELSEWHERE * np.eye(len(root)) + (along * weights) @ along.T) @ root.T
    shape = np.asarray(shape / np.trace(scores), float)
    # where nearly all of it is along one direction, that is not one of many
    return shape * max(spread_share(len(root), constant) / float(np.trace(shape)), 1.0)


def of_long_rows(scores: Floats, flat: Floats) -> Floats:
    r"""The shape of the second moment of long parts, (q, q): :math:`M F^{-1} M`.

    Where errors are larger in some rows than in others, as in a group or far out in a column, the longest
    parts are of these, and more of their squares lie along their directions than of the squares of all parts.

    Parameters
    ----------
    scores : (q, q) array
        Second moment ``M`` of all parts.
    flat : (q, q) array
        What it is where errors do not depend on the columns, ``F``.

    Examples
    --------
    >>> of_long_rows(np.diag([4.0, 1.0]), np.eye(2)).diagonal()
    array([16.,  1.])
    """
    long = scores @ np.linalg.solve(flat, scores)
    return np.asarray((long + long.T) / 2, float)


def with_squares(scores: Floats, flat: Floats, cut: float) -> Floats:
    """A second moment of parts with the mean square `cut` that it lacks, of long ones.

    Examples
    --------
    >>> with_squares(np.diag([2.0, 1.0]), np.eye(2), 5.0).diagonal()
    array([6., 2.])
    """
    long = of_long_rows(scores, flat)
    return np.asarray(scores + cut / np.trace(long) * long, float)


def spread_share(q: int, constant: bool) -> float:
    """The trace of :func:`cut_shape` where all directions are alike.

    Examples
    --------
    >>> round(spread_share(4, True), 3), spread_share(1, True)
    (0.775, 1.0)
    """
    first = [1.0, _PREDICTOR] if constant else [_PREDICTOR]
    weights = [*first, *[_ELSEWHERE] * (q - len(first))]
    return sum(weights[:q]) / q


def seen_moment(released: Floats, noise2: float, beyond: float = 1.0) -> Floats:
    """Second moment of the posterior of a released vector's mean, (q, q), where more than noise is seen.

    Each entry has a normal prior, whose variance is what is to spare: the mean square of the entries of
    `released`, less `noise2`. If that is not more than `beyond` standard deviations of what the mean square
    of noise is, the moment is 0; one of these is taken off the variance, too.

    Examples
    --------
    >>> seen_moment(np.array([3.0, 0.0]), 1.0).round(2)
    array([[5.31, 0.  ],
           [0.  , 0.71]])
    >>> seen_moment(np.array([1.0, 1.0]), 1.0).any()
    np.False_
    """
    q = len(released)
    error = noise2 * math.sqrt(2 / q)
    spare = float(released @ released) / q - noise2 - error
    if not spare > (beyond - 1) * error:  # nor of infinite noise
        return np.zeros((q, q))
    kept = spare / (spare + noise2)
    return np.asarray(kept * (kept * np.outer(released, released) + noise2 * np.eye(q)), float)


def raised(moment: Floats, likely: Floats, direction: Floats, most: float = math.inf) -> Floats:
    """A second moment with so much of a likely one that `direction` has as much as there, or `most`.

    Parameters
    ----------
    moment, likely : (q, q) arrays
    direction : (q,) array
        Of any length but 0.
    most : float
        Of the mean square along it.

    Examples
    --------
    >>> raised(np.eye(2), np.diag([4.0, 1.0]), np.array([2.0, 0.0])).diagonal()
    array([4.  , 1.75])
    """
    direction = direction / np.linalg.norm(direction)
    along, there = float(direction @ likely @ direction), float(direction @ moment @ direction)
    return np.asarray(moment + max(min(along, most) - there, 0.0) / along * likely, float)
