"""Private location and scale of columns, with no bounds: noisy bisection, then a histogram of octaves.

This is the package's one private standardisation (steps 0 to 2 of ``ols``). All noise is Gaussian.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpstats._types import Array, Floats, Integers, Words
from dpstats.engines.local import fold
from dpstats.mechanisms import _kernels
from dpstats.mechanisms.noise import gaussian
from dpstats.mechanisms.rng import Randomness

__all__ = ["BISECTIONS", "Columns", "Standardization", "release_count", "standardize"]

BISECTIONS = 2 * _kernels.LEVEL_BITS
"""Noisy bisection steps a column: 26 fix it to 2^-17 of its own magnitude."""

FALSE_ALARM = 1e-3
FALSE_ALARM_FAR = 1e-9
GAP = 6
_WINDOWS = (1, 2, 4)
_RMS = 1.47
"""Root mean square of a log-uniform magnitude within an octave, relative to its lower edge."""


@dataclass(frozen=True)
class Columns:
    """A group of columns standardised together, and the budget for it.

    Attributes
    ----------
    side : {0, 1}
        0 for the design matrix, 1 for the response.
    index : (q,) int array
        Columns of that side.
    mu_loc, mu_scale : float
        Gaussian-DP parameters of the location step (all 26 bisections together) and of the scale step.
        ``mu_loc = 0`` takes 0 as the location and spends nothing on it.
    """

    side: int
    index: Integers
    mu_loc: float
    mu_scale: float


@dataclass(frozen=True)
class Standardization:
    """Released location and scale of a group of columns, in the columns' units.

    Attributes
    ----------
    loc : (q,) array
        About the median.
    width : (q,) array
        Resolution of `loc`; distances up to it count as zero.
    scale : (q,) array
        About the root mean square distance from `loc`; 0 where the column shows no variation.
    reach : (q,) array
        Upper edge of the farthest octave that visibly holds rows: the column's private range is
        ``loc +- reach``.
    filled : (q,) array
        Effective number of rows away from `loc`: ``(sum d^2)^2 / sum d^4`` over the distances ``d``.
    """

    loc: Floats
    width: Floats
    scale: Floats
    reach: Floats
    filled: Floats


def release_count(blocks: Iterable[tuple[Floats, Floats]], mu: float, rng: Randomness) -> float:
    """Release the number of rows.

    Notes
    -----
    **Privacy.** Sensitivity 1, whether a record is added, removed or replaced (a replaced row may become
    unusable): ``mu``-GDP. Argument: ``docs/privacy/standardize.md``.
    """
    return float(gaussian(sum(len(X) for X, _ in blocks), 1.0, mu, rng))


def standardize(
    blocks: Iterable[tuple[Floats, Floats]], groups: Sequence[Columns], count: float, rng: Randomness
) -> list[Standardization]:
    """Release the location and scale of every column of `groups`.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Finite C-contiguous float arrays, re-iterable; three passes are made.
    groups : sequence of Columns
    count : float
        The released number of rows.
    rng : Randomness

    Returns
    -------
    list of Standardization
        One for each group.

    Notes
    -----
    **Privacy.** Neighbours: one record added or removed. A bisection step compares ``#{x < t} - n/2`` with 0
    for all q columns of a group: each moves by 1/2, so the l2-sensitivity is ``sqrt(q)/2`` a step; the steps
    are composed adaptively in GDP. The octave histogram gains at most one count a column: ``sqrt(q)``. The
    whole is ``mu``-GDP with ``mu^2`` the sum of ``mu_loc^2 + mu_scale^2``. When a record is replaced, a
    bisection statistic moves by 1 and the histogram by ``sqrt(2 q)``: callers pass budgets divided by 2 and
    ``sqrt(2)``. Argument: ``docs/privacy/standardize.md``.
    """
    groups = [group for group in groups if len(group.index)]
    if not groups:
        return []
    n, tops = _count_top(blocks, groups)
    cells = [_descend(hist, 0, n, g, rng) for hist, g in zip(tops, groups, strict=True)]
    lows = _count_low(blocks, groups, cells)
    locations = []
    for g, hist, top, cell in zip(groups, lows, tops, cells, strict=True):
        below = np.where(np.arange(_kernels.LEVEL_CELLS) < cell[:, None], top, 0).sum(axis=1)
        locations.append(_location(cell, _descend(hist, below, n, g, rng), g))
    results = []
    for g, (loc, width), hist in zip(
        groups, locations, _count_octaves(blocks, groups, locations), strict=True
    ):
        noise = math.sqrt(len(g.index))
        noisy = gaussian(hist, noise, g.mu_scale, rng)
        results.append(
            Standardization(loc, width, *_visible_scale(noisy, noise / g.mu_scale, max(count, 1.0)))
        )
    return results


def _descend(hist: Integers, below: Integers | int, n: float, group: Columns, rng: Randomness) -> Integers:
    """Bisect one level of the lattice: the chosen cell of each column, shape (q,)."""
    q = len(group.index)
    if group.mu_loc == 0:
        return np.full(q, _kernels.LEVEL_CELLS // 2)
    lower = np.zeros(q, dtype=np.int64)
    counts = np.concatenate([np.zeros((q, 1)), np.cumsum(hist, axis=1)], axis=1)
    columns = np.arange(q)
    # the steps' noise is drawn at once; the statistics, multiples of 1/2, lie on its lattice
    steps = _kernels.LEVEL_BITS
    budget = group.mu_loc * math.sqrt(steps / BISECTIONS)
    noise = gaussian(np.zeros((steps, q)), math.sqrt(steps * q) / 2, budget, rng)
    for step in range(steps):
        middle = lower + (_kernels.LEVEL_CELLS >> (step + 1))
        statistic = below + counts[columns, middle] - n / 2
        lower = np.where(statistic + noise[step] > 0, lower, middle)
    return lower


def _location(cell: Array, leaf: Array, group: Columns) -> tuple[Floats, Floats]:
    """The end nearest to zero of the released interval, and the interval's width: two (q,) arrays."""
    q = len(group.index)
    if group.mu_loc == 0:
        return np.zeros(q), np.zeros(q)
    start = (cell.astype(np.uint64) << _kernels.TOP_SHIFT) + (leaf.astype(np.uint64) << _kernels.LOW_SHIFT)
    ends = _from_key(start), _from_key(start + (np.uint64(1) << _kernels.LOW_SHIFT))
    inner = np.abs(ends[0]) <= np.abs(ends[1])
    return np.where(inner, *ends), np.abs(ends[1] - ends[0])


def _from_key(key: Words) -> Floats:
    """Doubles of lattice keys (inverse of the kernels' key)."""
    offset, limit = int(_kernels.OFFSET), int(_kernels.HIGHEST) - int(_kernels.LOWEST) + 1
    signed = np.clip(key.astype(np.int64) - offset, -limit, limit)
    bits = np.where(signed == 0, 0, np.abs(signed) + int(_kernels.LOWEST) - 1)
    return np.copysign(bits.view(np.float64), signed.astype(float)) * (signed != 0)


def _visible_scale(noisy: Floats, sd: float, n: float) -> tuple[Floats, Floats, Floats]:
    """Scale, reach and filled rows of each column from its noisy octave counts: post-processing.

    Single octaves, then windows of 2 and 4 neighbouring octaves among the rest, are kept where they stand
    out of the noise (false-alarm rate 1e-3 over all windows of all columns). The farthest kept octave must
    be beyond doubt (1e-9), or lie within `GAP` octaves of one that is: a single false cell far out would
    ruin the column's scale.
    """
    q, cells = noisy.shape
    scale, reach, filled = np.zeros(q), np.zeros(q), np.zeros(q)
    tests = len(_WINDOWS) * cells * q
    near_z, far_z = -ndtri(FALSE_ALARM / tests), -ndtri(FALSE_ALARM_FAR / tests)
    for j, counts in enumerate(noisy):
        near, far = np.zeros(cells, bool), np.zeros(cells, bool)
        for width in _WINDOWS:
            rest = np.where(near, 0.0, counts)
            z = np.convolve(rest, np.ones(width), "valid") / (sd * math.sqrt(width))
            for i in np.flatnonzero(z > near_z):
                window = slice(i, i + width)
                near[window] |= rest[window] > 0
                far[window] |= (rest[window] > 0) & (z[i] > far_z)
        if not far.any():
            continue
        top = np.flatnonzero(far)[-1]
        for k in np.flatnonzero(near):
            if top < k <= top + GAP:
                top = k
        kept = np.flatnonzero(near[: top + 1])
        lower_edge = 2.0 ** (kept - _kernels.EXPONENT)
        squares = (_RMS * lower_edge) ** 2
        scale[j] = math.sqrt(np.sum(counts[kept] * squares) / n)
        reach[j] = 2 * lower_edge[-1]
        shares = counts[kept] * (squares / squares[-1])
        filled[j] = np.sum(shares) ** 2 / np.sum(shares * (squares / squares[-1]))
    return scale, reach, filled


def _columns(group: Columns) -> Words:
    return np.asarray(group.index, dtype=np.uint64)


def _count_top(
    blocks: Iterable[tuple[Floats, Floats]], groups: Sequence[Columns]
) -> tuple[int, list[Integers]]:
    rows = np.zeros(1, dtype=np.int64)

    def zero() -> tuple[Integers, ...]:
        return (
            np.zeros(1, np.int64),
            *(np.zeros((len(g.index), _kernels.LEVEL_CELLS), np.int64) for g in groups),
        )

    def update(state: tuple[Integers, ...], X: Floats, Y: Floats, first: int) -> None:
        state[0][0] += len(X)
        for g, hist in zip(groups, state[1:], strict=True):
            _kernels.count_top((X, Y)[g.side].view(np.uint64), _columns(g), hist)

    rows, *hists = fold(blocks, zero, update)
    return int(rows[0]), hists


def _count_low(
    blocks: Iterable[tuple[Floats, Floats]], groups: Sequence[Columns], cells: Any
) -> tuple[Integers, ...]:
    def zero() -> tuple[Integers, ...]:
        return tuple(np.zeros((len(g.index), _kernels.LEVEL_CELLS), np.int64) for g in groups)

    def update(state: tuple[Integers, ...], X: Floats, Y: Floats, first: int) -> None:
        for g, cell, hist in zip(groups, cells, state, strict=True):
            if g.mu_loc:
                _kernels.count_low((X, Y)[g.side].view(np.uint64), _columns(g), cell.astype(np.uint64), hist)

    return fold(blocks, zero, update)


def _count_octaves(
    blocks: Iterable[tuple[Floats, Floats]], groups: Sequence[Columns], locations: Any
) -> tuple[Integers, ...]:
    def zero() -> tuple[Integers, ...]:
        return tuple(np.zeros((len(g.index), _kernels.OCTAVES), np.int64) for g in groups)

    def update(state: tuple[Integers, ...], X: Floats, Y: Floats, first: int) -> None:
        for g, (loc, width), hist in zip(groups, locations, state, strict=True):
            _kernels.count_octaves((X, Y)[g.side], _columns(g), loc, width, hist)

    return fold(blocks, zero, update)
