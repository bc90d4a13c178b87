"""Over which directions what a clip takes off is spread."""

import numpy as np

from dpstats._types import Floats

__all__ = ["cut_shape", "spread_share"]

_PREDICTOR, _ELSEWHERE = 1.5, 0.3
"""Of the squared bias along the constant, what is allowed along the predictor, and along the others."""


def cut_shape(
    scores: Floats,
    A: Floats,
    W: Floats,
    coefficients: Floats,
    constant: bool,
) -> Floats:
    """How a squared bias is spread over the directions, (q, q): its trace is 1 if all are alike.

    What a clip takes off lies along the constant where errors are skewed alike in all rows, and along the
    linear predictor where their size depends on the mean. Along directions on which neither depends there is
    less; how much was measured on real data (``benchmarks/real/directions.csv``).

    Parameters
    ----------
    scores : (q, q) array
        Covariance of the parts.
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
    return np.asarray(shape / np.trace(scores), float)


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
