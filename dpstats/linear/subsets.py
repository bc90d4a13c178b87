"""Least squares on random disjoint subsets, from their second moments, and how far the fits vary."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np

from dpstats._threads import WORKERS, in_threads
from dpstats._types import Floats, Integers
from dpstats.engines.local import Block, Source, Without
from dpstats.formula.units import UnitBlocks
from dpstats.linear import subset_kernels as _kernels
from dpstats.linear.left_out import LeftOut
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.whiten import Affine

__all__ = ["SubsetModels", "fit_subsets", "subset_moments"]

_RIDGE = 1e-9
_PIVOT = 1e-13
_SEED = 20220816
_LOG_RANGE = 300.0
_LEAST_ROWS = 32_768


def subset_moments(
    blocks: Iterable[Block],
    affine: Affine,
    m: int,
    rng: Randomness,
    groups: int = 1,
    gone: LeftOut | None = None,
) -> tuple[Floats, Floats]:
    """Second moments of ``(1, z, y)`` on `m` random subsets of so many random groups each: one pass.

    Every row draws its subset and its group independently and uniformly, so adding, removing or replacing a
    row changes one subset. Of units all rows go to the same.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Y of one column.
    affine : Affine
        To the covariates' standardised coordinates ``z``, without the constant column.
    m : int
    rng : Randomness
    groups : int
    gone : LeftOut, optional

    Returns
    -------
    shift : (m,) array
        What was subtracted from the response; 0 in empty subsets.
    moments : (m groups, q + 2, q + 2) array
        Those of a subset's groups one after another.
    """
    q = len(affine.columns)
    loc = np.append(affine.loc, 0.0)
    inverse = np.append(1 / affine.scale, 1.0)
    shift = np.full(m, np.nan)
    moments = np.zeros((m * groups, q + 2, q + 2))
    for X, Y, ends in _pieces(blocks, gone):
        columns = np.append(affine.columns, X.shape[1])
        workers = WORKERS if len(X) > _LEAST_ROWS else 1
        # a seeded stream has an order, the system's has none
        draws = 1 if rng.seeded else workers
        drawn = len(X) if ends is None else len(ends)
        sizes = [drawn * (i + 1) // draws - drawn * i // draws for i in range(draws)]
        parts = in_threads([functools.partial(rng.integers, m * groups, size) for size in sizes])
        cell = np.concatenate(parts)
        if ends is not None:
            cell = np.repeat(cell, np.diff(ends, prepend=0))
        cuts = [m * i // workers for i in range(workers + 1)]
        given = (X, Y, columns, loc, inverse, cell, groups)
        in_threads(
            [
                functools.partial(_kernels.subset_moments, *given, first, last, shift, moments)
                for first, last in pairwise(cuts)
            ]
        )
    return np.nan_to_num(shift), moments


def _pieces(
    blocks: Iterable[Block], gone: LeftOut | None
) -> Iterator[tuple[Floats, Floats, Integers | None]]:
    """Rows, and where those of each unit end if they have units."""
    if isinstance(blocks, UnitBlocks):
        for units, _ in blocks.units:
            if gone:
                units = units.kept(gone.kept(units.X))
            yield units.X, units.Y, units.ends
    else:
        rows = Without(cast(Source, blocks), gone.kept) if gone else blocks
        for X, Y in rows:
            yield X, Y, None


@dataclass(frozen=True)
class SubsetModels:
    """One least-squares fit a subset. A row depends on its own subset only; none is ever NaN.

    Attributes
    ----------
    coefficients : (m, q) array
        In the coordinates ``v = W' z``, relative to the origin.
    log_errors : (m, q) array
        Logs of their jackknife standard errors, a group of the subset left out at a time; (m, 0) where a
        subset is one group.
    """

    coefficients: Floats
    log_errors: Floats


def fit_subsets(
    shift: Floats,
    moments: Floats,
    W: Floats,
    intercept: bool,
    penalty: Floats,
    origin: Floats,
    centre: bool = False,
    usual: float | None = None,
) -> SubsetModels:
    r"""Least squares on every subset in the coordinates ``v = W' z``.

    Parameters
    ----------
    shift : (m,) array
    moments : (m groups, q + 2, q + 2) array
        Of ``(1, z, y - shift)``, `z` without the constant.
    W : (d, d) array
        Map to the coordinates, the constant first if there is an intercept (``d = q + 1``, else ``d = q``).
    intercept : bool
    penalty : (d, d) array
        Added to every subset's ``z z'`` sums: a released or public ridge.
    origin : (d,) array
        A released or public fit in the coordinates ``z``. The coefficients are relative to it, so rounding
        and jitter are relative to what is left to learn.
    centre : bool
        Whether the ridge pulls towards the subset's own mean, with zero slopes, instead of `origin`.
    usual : float, optional
        About the standard error of a coefficient; None if `W` is not known to whiten.

    Returns
    -------
    SubsetModels

    Notes
    -----
    Where a subset lacks a direction (a rare level), the ridge fills it in from what it pulls towards. On top
    of `penalty` there is a ridge of 1e-9 of each coordinate's own sum of squares, or if `W` whitens of one a
    row, if that is more. (That of a column which is 0 throughout the subset may be next to nothing: it would
    take over what the constant is off the origin, many times magnified.) The fits of all subsets that lack a
    direction would be at the origin there, and in the middle of all fits. So the origin of each subset is
    moved by a fixed normal vector with the standard deviation `usual`, whatever the rows are.

    With :math:`b_{(g)}` the fit without group :math:`g` of :math:`G`, the squared standard error is
    :math:`\frac{G-1}{G} \sum_g (b_{(g)} - \bar b)^2`, whatever the variances of the errors.
    """
    groups = len(moments) // len(shift)
    cells = moments.reshape(len(shift), groups, *moments.shape[1:])
    about, least = np.zeros((len(shift), len(W))), 0.0
    if usual is not None:
        about, least = usual * np.random.default_rng(_SEED).standard_normal(about.shape), 1.0
    coefficients = _fit(cells.sum(axis=1), shift, about, least, penalty, W, intercept, origin, centre)
    if groups == 1:
        return SubsetModels(coefficients, np.empty((len(shift), 0)))
    fits = np.stack(
        [
            _fit(
                np.delete(cells, g, axis=1).sum(axis=1),
                shift,
                about,
                least,
                penalty * (1 - 1 / groups),
                W,
                intercept,
                origin,
                centre,
            )
            for g in range(groups)
        ]
    )
    with np.errstate(all="ignore"):
        errors = np.sqrt((groups - 1) * np.var(fits, axis=0))
        logs = np.log(errors)
    return SubsetModels(coefficients, np.clip(np.nan_to_num(logs, nan=_LOG_RANGE), -_LOG_RANGE, _LOG_RANGE))


def _fit(
    moments: Floats,
    shift: Floats,
    about: Floats,
    least: float,
    penalty: Floats,
    W: Floats,
    intercept: bool,
    origin: Floats,
    centre: bool,
) -> Floats:
    """Coefficients of :func:`fit_subsets` from the moments of whole subsets."""
    d = len(W)
    rows = moments[:, 0, 0]
    keep = slice(0, -1) if intercept else slice(1, -1)
    start = origin + about @ W.T
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
        A = W.T @ moments[:, keep, keep] @ W
        step = cross @ W
        own = np.maximum(np.einsum("ijj->ij", A), least * rows[:, None])
        ridge = _RIDGE * own + np.finfo(float).tiny
        stabilised = A + W.T @ penalty @ W + ridge[:, :, None] * np.eye(d)
        _kernels.solve_definite(np.ascontiguousarray(stabilised), step, _PIVOT)
        c = np.linalg.solve(W, (start - origin).T).T + step if centre else about + step
    c[~np.isfinite(c).all(axis=1)] = 0.0
    return c
