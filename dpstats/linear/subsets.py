"""Least squares on random disjoint subsets, from their second moments."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpstats._threads import WORKERS, in_threads
from dpstats._types import Floats
from dpstats.engines.local import Block
from dpstats.linear import subset_kernels as _kernels
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.whiten import Affine

__all__ = ["SubsetModels", "fit_subsets", "subset_moments"]

_RIDGE = 1e-9
_PIVOT = 1e-13
_LOG_RANGE = 300.0
_LEAST_ROWS = 32_768


def subset_moments(blocks: Iterable[Block], affine: Affine, m: int, rng: Randomness) -> tuple[Floats, Floats]:
    """Second moments of ``(1, z, y)`` on `m` random subsets: one pass.

    Every row draws its subset independently and uniformly, so adding, removing or replacing a row
    changes one subset.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Y of one column.
    affine : Affine
        To the covariates' standardised coordinates ``z``, without the constant column.
    m : int
    rng : Randomness

    Returns
    -------
    shift : (m,) array
        What was subtracted from the response; 0 in empty subsets.
    moments : (m, q + 2, q + 2) array
    """
    q = len(affine.columns)
    loc = np.append(affine.loc, 0.0)
    inverse = np.append(1 / affine.scale, 1.0)
    shift = np.full(m, np.nan)
    moments = np.zeros((m, q + 2, q + 2))
    for X, Y in blocks:
        columns = np.append(affine.columns, X.shape[1])
        workers = WORKERS if len(X) > _LEAST_ROWS else 1
        # a seeded stream has an order, the system's has none
        draws = 1 if rng.seeded else workers
        sizes = [len(X) * (i + 1) // draws - len(X) * i // draws for i in range(draws)]
        subset = np.concatenate(in_threads([functools.partial(rng.integers, m, size) for size in sizes]))
        cuts = [m * i // workers for i in range(workers + 1)]
        in_threads(
            [
                functools.partial(
                    _kernels.subset_moments, X, Y, columns, loc, inverse, subset, first, last, shift, moments
                )
                for first, last in pairwise(cuts)
            ]
        )
    return np.nan_to_num(shift), moments


@dataclass(frozen=True)
class SubsetModels:
    """One least-squares fit a subset. A row depends on its own subset only; none is ever NaN.

    Attributes
    ----------
    coefficients : (m, q) array
        In the coordinates ``v = W' z``, relative to the origin.
    log_sigma : (m,) array
        Log of the residual standard deviation.
    log_spread : (m,) array
        Log of the response's standard deviation (about its mean, or about 0 without an intercept).
    """

    coefficients: Floats
    log_sigma: Floats
    log_spread: Floats


def fit_subsets(
    shift: Floats,
    moments: Floats,
    W: Floats,
    intercept: bool,
    penalty: Floats,
    origin: Floats,
    centre: bool = False,
) -> SubsetModels:
    """Least squares on every subset in the coordinates ``v = W' z``.

    Parameters
    ----------
    shift : (m,) array
    moments : (m, q + 2, q + 2) array
        Of ``(1, z, y - shift)``, `z` without the constant.
    W : (d, d) array
        Whitening map of the coordinates, the constant first if there is an intercept (``d = q + 1``,
        else ``d = q``).
    intercept : bool
    penalty : (d, d) array
        Added to every subset's ``z z'`` sums: a released or public ridge.
    origin : (d,) array
        A released or public fit in the coordinates ``z``. The coefficients are relative to it, so rounding
        and jitter are relative to what is left to learn.
    centre : bool
        Whether the ridge pulls towards the subset's own mean, with zero slopes, instead of `origin`.

    Returns
    -------
    SubsetModels

    Notes
    -----
    Where a subset lacks a direction (a rare level), the ridge fills it in from what it pulls towards. On top
    of `penalty` there is a ridge of 1e-9 of each coordinate's own sum of squares.
    """
    d = len(W)
    rows = moments[:, 0, 0]
    keep = slice(0, -1) if intercept else slice(1, -1)
    start = np.tile(origin, (len(rows), 1))
    if centre:
        start[:] = 0.0
        if intercept:
            start[:, 0] = shift + moments[:, 0, -1] / np.maximum(rows, 1.0)
    # moments of the residual y - start'z from those of y - shift
    move = np.zeros((len(rows), moments.shape[1] - 1))
    move[:, slice(0, None) if intercept else slice(1, None)] = start
    move[:, 0] -= shift
    with np.errstate(all="ignore"):
        moved = np.einsum("ijk,ik->ij", moments[:, :-1, :-1], move)
        cross = moments[:, keep, -1] - moved[:, keep.start :]
        left = moments[:, -1, -1] + np.einsum("ij,ij->i", move, moved - 2 * moments[:, :-1, -1])
        A = W.T @ moments[:, keep, keep] @ W
        b = cross @ W
        ridge = _RIDGE * np.einsum("ijj->ij", A) + np.finfo(float).tiny
        stabilised = A + W.T @ penalty @ W + ridge[:, :, None] * np.eye(d)
        step = b.copy()
        _kernels.solve_definite(np.ascontiguousarray(stabilised), step, _PIVOT)
        residual = left - np.einsum("ij,ij->i", step, 2 * b - np.einsum("ijk,ik->ij", A, step))
        c = np.linalg.solve(W, (start - origin).T).T + step if centre else step
        log_sigma = _half_log(residual, rows - d)
        total = moments[:, -1, -1] + 2 * shift * moments[:, 0, -1] + shift**2 * rows
        if intercept:
            total = moments[:, -1, -1] - moments[:, 0, -1] ** 2 / np.maximum(rows, 1.0)
        log_spread = _half_log(total, rows - 1 if intercept else rows)
    c[~np.isfinite(c).all(axis=1)] = 0.0
    return SubsetModels(c, log_sigma, log_spread)


def _half_log(squares: Floats, df: Floats) -> Floats:
    """``ln sqrt(squares / df)`` within +-300; no degrees of freedom, nothing left or not a number: -300."""
    ok = (df > 0) & (squares > 0)
    value = 0.5 * np.log(np.where(ok, squares, 1.0) / np.where(ok, df, 1.0))
    return np.clip(np.where(ok & np.isfinite(value), value, -_LOG_RANGE), -_LOG_RANGE, _LOG_RANGE)
