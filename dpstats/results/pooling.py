"""Generalised least squares over independent estimates, in coordinates that hold their small directions."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from dpstats._types import Booleans, Floats, Integers
from dpstats.errors import ParameterError
from dpstats.results.estimable import Known, common_moves
from dpstats.results.roots import held, root_of, triangular

__all__ = ["Pooled", "pool"]

_NONE, _SIGNED = 1e-15, 1e-9
"""Share of a standard error that a coefficient has of its own, given the others, that is none; and a negative
eigenvalue that rounding does not make, in units of standard errors."""


class Pooled(NamedTuple):
    """Pooled coefficients, NaN where nothing is known; Cochran's Q and its degrees of freedom, factors of
    both matrices, and how coefficients may move that no release determines.
    """

    estimates: Floats
    cov: Floats
    bias: Floats
    statistic: float
    df: int
    root: Floats
    bias_root: Floats
    free: Floats | None


def pool(
    estimates: Sequence[Floats],
    covs: Sequence[Floats],
    known: Sequence[Known],
    biases: Sequence[Floats] | None = None,
    roots: Sequence[Floats | None] | None = None,
    bias_roots: Sequence[Floats | None] | None = None,
    first: Collection[int] = (),
) -> Pooled:
    """Generalised least squares over independent estimates of parts of one vector.

    Bounds on biases may be met by all releases alike, and add up as lengths; the rest of the covariances, as
    variances. All of it is done in coordinates in which the sum of the covariances is the identity: as they
    are, coefficients may be correlated up to the last digits.

    Parameters
    ----------
    estimates : sequence of (d,) arrays
    covs : sequence of (d, d) arrays
    known : sequence of Known
        What a release determines; the rest of its numbers is not used.
    biases : sequence of (d, d) arrays, optional
        The parts of the covariances that are of bounds on biases.
    roots, bias_roots : sequences of (d, k) arrays or None, optional
        Factors of the covariances, and of their parts, where there are some.
    first : collection of int
        Coefficients that are 0 where coefficients move that no release determines, if they do.

    Returns
    -------
    Pooled

    Raises
    ------
    ParameterError
        If a covariance is not positive definite, or has no factor and has lost its small directions.

    Examples
    --------
    >>> both, first = (Known.of(np.array(known)) for known in ([True, True], [True, False]))
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
    moves, anchors = common_moves(known, first)
    some = np.any([np.any(k.ways != 0, axis=0) for k in known], axis=0)
    inside = some.copy()
    inside[anchors] = False
    pairs = list(zip(covs, roots or none, known, strict=True))
    factors = [None if F is None else k.ways @ np.nan_to_num(F) for _, F, k in pairs]
    matrices = [_of(k, V) if F is None else F @ F.T for (V, _, k), F in zip(pairs, factors, strict=True)]
    unit = _units(known, matrices, some)
    lower = [
        _cholesky(V / unit[k.rows, None] / unit[k.rows], None if F is None else F / unit[k.rows, None], i)
        for i, (V, F, k) in enumerate(zip(matrices, factors, known, strict=True), 1)
    ]
    basis = _basis(lower, known, moves / unit[:, None] * unit[anchors], anchors, inside)
    whitened = [
        (
            solve_triangular(L, (k.ways * unit)[:, inside] / unit[k.rows, None] @ basis, lower=True),
            solve_triangular(L, k.ways @ np.nan_to_num(b) / unit[k.rows], lower=True),
        )
        for L, b, k in zip(lower, estimates, known, strict=True)
    ]
    inner = np.linalg.inv(sum((W.T @ W for W, _ in whitened), np.zeros((basis.shape[1],) * 2)))
    moved = inner @ sum((W.T @ y for W, y in whitened), np.zeros(basis.shape[1]))
    statistic = float(sum(np.sum((y - W @ moved) ** 2) for W, y in whitened))
    shares: list[Floats] = []
    for L, (W, _), B, G, k in zip(
        lower, whitened, biases or [np.zeros((d, d))] * len(covs), bias_roots or none, known, strict=True
    ):
        at = unit[k.rows]
        length = _length(
            _of(k, B) / at[:, None] / at, None if G is None else k.ways @ np.nan_to_num(G) / at[:, None]
        )
        shares.append(inner @ W.T @ solve_triangular(L, length @ np.eye(d)[k.rows], lower=True))
    together = sum(shares, np.zeros_like(shares[0]))
    shared = together @ together.T
    inner = inner + shared - sum(share @ share.T for share in shares)
    whole = np.where(some, 0.0, np.nan)[:, None] * np.ones(basis.shape[1])
    whole[inside] = unit[inside, None] * basis
    root, bias_root = whole @ root_of(inner), whole @ root_of(shared)
    if not some.any():  # a factor without columns would be one of 0
        root = bias_root = np.full((d, 1), np.nan)
    cov = root @ root.T
    free = moves.any(axis=1)
    cov[free] = cov[:, free] = np.nan
    return Pooled(
        np.where(some, whole @ moved, np.nan),
        cov,
        bias_root @ bias_root.T,
        statistic,
        sum(len(k.rows) for k in known) - int(inside.sum()),
        root,
        bias_root,
        moves if free.any() else None,
    )


def _of(known: Known, matrix: Floats) -> Floats:
    """The covariance of what is known, from that of the coefficients."""
    return np.asarray(known.ways @ np.nan_to_num(matrix) @ known.ways.T, float)


def _units(known: Sequence[Known], matrices: Sequence[Floats], some: Booleans) -> Floats:
    """The least standard error of each coefficient, as columns may differ by orders of magnitude; of one from
    which differences are taken in all releases that of these.
    """
    own, of_others = np.full((2, len(some)), np.inf)
    for k, V in zip(known, matrices, strict=True):
        variances = np.diagonal(V)
        own[k.rows] = np.minimum(own[k.rows], variances)
        reach = np.where(k.ways != 0, variances[:, None], np.inf)
        of_others = np.minimum(of_others, reach.min(axis=0, initial=np.inf))
    unit = np.sqrt(np.where(some, np.where(np.isfinite(own), own, of_others), 1.0))
    if not np.all(unit > 0):
        raise ParameterError("fits must have positive standard errors, and a coefficient has one of 0.")
    return np.asarray(unit, float)


def _basis(
    factors: Sequence[Floats], known: Sequence[Known], moves: Floats, anchors: Integers, inside: Booleans
) -> Floats:
    """Coordinates of the coefficients that are not anchors, in which the sum of the covariances is one."""
    d = len(inside)
    alone = inside & ~np.isin(np.arange(d), np.concatenate([k.rows for k in known]))
    parts = [np.eye(d)[:, alone]]
    for L, k in zip(factors, known, strict=True):
        part = np.eye(d)[:, k.rows] @ L
        # where an anchor stays as it is
        parts.append(part - moves @ part[anchors])
    return triangular(np.hstack(parts)[inside])


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
