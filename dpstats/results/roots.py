"""Covariances as products ``F F'``: a factor holds the small directions that the matrix rounds away.

Coefficients of uncentred powers are correlated up to the last digits of a double, and the variance of a
prediction is a tiny difference of their covariances. The factor has it to the precision of its own entries.
"""

import numpy as np
from numpy.typing import ArrayLike

from dpstats._types import Booleans, Floats
from dpstats._validation import fail

__all__ = [
    "FEW_DIGITS",
    "determined_by",
    "factor_of",
    "held",
    "of_this",
    "root_of",
    "side_by_side",
    "triangular",
]

_ROUNDING = 1e-8
_CANCELS = 1e-12
"""Share of its terms below which a sum is 0."""
FEW_DIGITS = 3e-7
"""Share of a standard error that a coefficient has of its own, given the others, below which a covariance
does not hold it."""


def root_of(matrix: Floats) -> Floats:
    """The symmetric root of a covariance in coordinates in which it is well conditioned.

    Examples
    --------
    >>> root_of(np.array([[2.0, 0.0], [0.0, 0.25]])).round(3)
    array([[1.414, 0.   ],
           [0.   , 0.5  ]])
    """
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def side_by_side(*roots: Floats) -> Floats:
    """A factor of the sum of covariances, from those of each: (d, k) with `k` at most `d`.

    Examples
    --------
    >>> root = side_by_side(np.eye(2), np.array([[1.0], [1.0]]))
    >>> (root @ root.T).round(12)
    array([[2., 1.],
           [1., 2.]])
    """
    some = [root for root in roots if np.any(root)]
    if len(some) == 1:
        return some[0]
    return triangular(np.hstack(some or list(roots)))


def triangular(root: Floats) -> Floats:
    """A lower triangular factor of the same covariance.

    Rows keep their precision each in its own units.

    Examples
    --------
    >>> np.abs(triangular(np.array([[3.0, 4.0], [0.0, 1.0]]))).round(3)
    array([[5. , 0. ],
           [0.8, 0.6]])
    """
    return np.asarray(np.linalg.qr(root.T).R.T)


def held(triangle: Floats) -> bool:
    """Whether the covariance holds what its triangular factor does.

    Examples
    --------
    >>> held(np.array([[1.0, 0.0], [1.0, 1e-6]])), held(np.array([[1.0, 0.0], [1.0, 1e-9]]))
    (True, False)
    """
    own, sizes = np.abs(np.diagonal(triangle)), np.linalg.norm(triangle, axis=1)
    return bool(np.all(own > FEW_DIGITS * sizes))


def determined_by(R: Floats, root: Floats, free: Floats) -> Booleans:
    """Which linear combinations are determined, (q,) of bool, where coefficients may move together.

    Parameters
    ----------
    R : (q, d) array
    root : (d, k) array
        A factor of the covariance, NaN in the rows of coefficients that no combination may have.
    free : (d, m) array
        How the others may move without a fitted value that changes: what moves then is not determined.

    Examples
    --------
    >>> R = np.array([[1.0, 0.0], [1.0, -1.0]])
    >>> determined_by(R, np.eye(2), np.array([[1.0], [1.0]]))
    array([False,  True])
    """
    gone = np.asarray(~np.isfinite(root).all(axis=1), bool)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.abs(R @ free) > _CANCELS * (np.abs(R) @ np.abs(free))
    return np.asarray(~(moved.any(axis=1) | np.any(R[:, gone] != 0, axis=1)))


def of_this(root: Floats, matrix: Floats, cov: Floats) -> Booleans | None:
    """Whose rows of a matrix the factor has, (d,) of bool: those that are finite, if it is of this matrix.

    Parameters
    ----------
    root : (d, k) array
    matrix : (d, d) array
        May have another source, as a covariance that is put in place of that of a fit.
    cov : (d, d) array
        For what counts as rounding: `matrix`, or what it is a part of.

    Returns
    -------
    (d,) array of bool, or None
        None if the factor is that of another matrix.

    Examples
    --------
    >>> root, cov = np.array([[2.0], [1.0]]), np.array([[4.0, 2.0], [2.0, 1.0]])
    >>> of_this(root, cov, cov), of_this(root, 2 * cov, cov)
    (array([ True,  True]), None)
    """
    known = np.isfinite(np.diagonal(matrix)) & np.isfinite(root).all(axis=1)
    here = np.ix_(known, known)
    sd = np.sqrt(np.maximum(np.nan_to_num(np.diagonal(cov)), np.diagonal(matrix)))[known]
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.abs(root[known] @ root[known].T - matrix[here]) <= _ROUNDING * np.outer(sd, sd)
    whole = np.array_equal(known, np.isfinite(np.diagonal(matrix)))
    return known if whole and bool(np.all(near)) else None


def factor_of(
    root: ArrayLike | None, matrix: Floats | None, cov: Floats | None, free: ArrayLike | None = None
) -> Floats | None:
    """The factor of a matrix, NaN where that is, but for what is free; None if it is one of another matrix.

    Parameters
    ----------
    root : (d, k) array or None
    matrix, cov : (d, d) arrays or None
        As of :func:`of_this`.
    free : (d, m) array, optional
        Coefficients that move keep their rows.

    Examples
    --------
    >>> cov = np.array([[4.0, np.nan], [np.nan, np.nan]])
    >>> root, free = [[2.0], [1.0]], [[0.0], [1.0]]
    >>> factor_of(root, cov, cov).tolist(), factor_of(root, cov, cov, free).tolist()
    ([[2.0], [nan]], [[2.0], [1.0]])
    """
    if root is None or matrix is None or cov is None:
        return None
    factor = np.array(root, float)
    if factor.ndim != 2 or len(factor) != len(matrix):
        fail("root", f"shape {factor.shape}", f"None or of shape ({len(matrix)}, k)")
    known = of_this(factor, matrix, cov)
    if known is None:
        return None
    if free is not None:
        known = known | np.any(np.asarray(free, float) != 0, axis=1)
    factor[~known] = np.nan
    factor.flags.writeable = False
    return factor
