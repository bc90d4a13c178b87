"""Generalised least squares over independent estimates, in coordinates that hold their small directions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from dpstats._types import Booleans, Floats
from dpstats.errors import ParameterError
from dpstats.results.roots import held, root_of, triangular

__all__ = ["Pooled", "pool"]

_NONE, _SIGNED = 1e-15, 1e-9
"""Share of a standard error that a coefficient has of its own, given the others, that is none; and a negative
eigenvalue that rounding does not make, in units of standard errors."""


class Pooled(NamedTuple):
    """Pooled coefficients, NaN where nothing is known; Cochran's Q and its degrees of freedom, and factors of
    both matrices.
    """

    estimates: Floats
    cov: Floats
    bias: Floats
    statistic: float
    df: int
    root: Floats
    bias_root: Floats


def pool(
    estimates: Sequence[Floats],
    covs: Sequence[Floats],
    known: Sequence[Booleans],
    biases: Sequence[Floats] | None = None,
    roots: Sequence[Floats | None] | None = None,
    bias_roots: Sequence[Floats | None] | None = None,
) -> Pooled:
    """Generalised least squares over independent estimates of parts of one vector.

    Bounds on biases may be met by all releases alike, and add up as lengths; the rest of the covariances, as
    variances. All of it is done in coordinates in which the sum of the covariances is the identity: as they
    are, coefficients may be correlated up to the last digits.

    Parameters
    ----------
    estimates : sequence of (d,) arrays
    covs : sequence of (d, d) arrays
    known : sequence of (d,) bool arrays
        Which coefficients a release determines; only their numbers are used.
    biases : sequence of (d, d) arrays, optional
        The parts of the covariances that are of bounds on biases.
    roots, bias_roots : sequences of (d, k) arrays or None, optional
        Factors of the covariances, and of their parts, where there are some.

    Returns
    -------
    Pooled

    Raises
    ------
    ParameterError
        If a covariance is not positive definite, or has no factor and has lost its small directions.

    Examples
    --------
    >>> both, first = np.array([True, True]), np.array([True, False])
    >>> b, V = [np.array([1.0, 5.0]), np.array([3.0, 0.0])], [np.eye(2)] * 2
    >>> found = pool(b, V, [both, first])
    >>> found.estimates.round(12).tolist(), np.diagonal(found.cov).round(12).tolist()
    ([2.0, 5.0], [0.5, 1.0])
    >>> round(found.statistic, 12), found.df
    (2.0, 1)
    >>> np.diagonal(pool(b, V, [both, both], [0.5 * np.eye(2)] * 2).cov).round(2).tolist()
    [0.75, 0.75]
    """
    d, none = len(estimates[0]), [None] * len(covs)
    some = np.any(known, axis=0)
    # in units of the least standard errors: columns may differ by orders of magnitude
    variances = [np.where(k, np.diagonal(V), np.inf) for V, k in zip(covs, known, strict=True)]
    unit = np.sqrt(np.where(some, np.min(variances, axis=0), 1.0))
    if not np.all(unit > 0):
        raise ParameterError("fits must have positive standard errors, and a coefficient has one of 0.")
    factors = [
        _cholesky(V[np.ix_(k, k)] / unit[k, None] / unit[k], None if F is None else F[k] / unit[k, None], i)
        for i, (V, F, k) in enumerate(zip(covs, roots or none, known, strict=True), 1)
    ]
    basis = np.zeros((d, d))
    basis[np.ix_(some, some)] = triangular(
        np.hstack([np.eye(d)[some][:, k] @ L for L, k in zip(factors, known, strict=True)])
    )
    basis = basis[:, some]
    whitened = [
        (solve_triangular(L, basis[k], lower=True), solve_triangular(L, b[k] / unit[k], lower=True))
        for L, b, k in zip(factors, estimates, known, strict=True)
    ]
    inner = np.linalg.inv(sum((W.T @ W for W, _ in whitened), np.zeros((basis.shape[1],) * 2)))
    moved = inner @ sum((W.T @ y for W, y in whitened), np.zeros(basis.shape[1]))
    statistic = float(sum(np.sum((y - W @ moved) ** 2) for W, y in whitened))
    shares: list[Floats] = []
    for L, (W, _), B, G, k in zip(
        factors, whitened, biases or [np.zeros((d, d))] * len(covs), bias_roots or none, known, strict=True
    ):
        length = _length(
            B[np.ix_(k, k)] / unit[k, None] / unit[k], None if G is None else G[k] / unit[k, None]
        )
        shares.append(inner @ W.T @ solve_triangular(L, length @ np.eye(d)[k], lower=True))
    together = sum(shares, np.zeros_like(shares[0]))
    shared = together @ together.T
    inner = inner + shared - sum(share @ share.T for share in shares)
    basis = np.where(some, unit, np.nan)[:, None] * basis
    root, bias_root = basis @ root_of(inner), basis @ root_of(shared)
    if not some.any():  # a factor without columns would be one of 0
        root = bias_root = np.full((d, 1), np.nan)
    pooled = np.where(some, basis @ moved, np.nan)
    return Pooled(
        pooled,
        root @ root.T,
        bias_root @ bias_root.T,
        statistic,
        int(np.sum(known)) - int(some.sum()),
        root,
        bias_root,
    )


def _cholesky(cov: Floats, root: Floats | None, i: int) -> Floats:
    """The lower triangular factor of a covariance, of that of fit `i` for errors."""
    wrong = f"fits must have positive definite covariances, and that of fit {i} is not"
    if root is not None:
        L: Floats = triangular(root)
        if L.shape[0] != L.shape[1] or np.any(np.abs(np.diagonal(L)) <= _NONE * np.linalg.norm(L, axis=1)):
            raise ParameterError(f"{wrong}.")
        return L
    try:
        L = np.asarray(np.linalg.cholesky(cov))
    except np.linalg.LinAlgError:
        if np.linalg.eigvalsh(cov)[0] < -_SIGNED:
            raise ParameterError(f"{wrong}.") from None
        L = np.zeros_like(cov)
    if not held(L):
        raise ParameterError(
            f"{wrong} to the digits that it has: it was saved by an older version, or put in by hand. Fit "
            "again, or centre columns before powers of them are taken."
        )
    return L


def _length(bias: Floats, root: Floats | None) -> Floats:
    """The symmetric root of a part of a covariance."""
    if root is None:
        return root_of(bias)
    vectors, lengths, _ = np.linalg.svd(root, full_matrices=False)
    return np.asarray((vectors * lengths) @ vectors.T)
