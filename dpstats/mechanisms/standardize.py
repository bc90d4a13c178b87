"""Private location and scale of columns, with no bounds: noisy bisection, then a histogram of octaves.

This is the package's one private standardisation (steps 0 to 2 of ``ols``). All noise is Gaussian.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpstats._types import Booleans, Floats, Integers, Words
from dpstats.engines.local import count_rows, fold
from dpstats.mechanisms import _kernels
from dpstats.mechanisms.noise import gaussian
from dpstats.mechanisms.rng import Randomness

__all__ = [
    "BISECTIONS",
    "NEXT",
    "RMS",
    "Columns",
    "Standardization",
    "from_key",
    "release_count",
    "release_levels",
    "standardize",
]

BISECTIONS = _kernels.GRIDS * _kernels.GRID_BITS
"""Noisy bisection steps a column: 39 fix it to 2^-30 of its own magnitude."""

GRID_SHARES = 0.55, 0.3, 0.15
"""Shares of the grids in the budget of a location: a wrong cell of the first may be off by orders of
magnitude."""
FALSE_ALARM = 1e-3
FALSE_ALARM_FAR = 1e-9
GAP = 6
UNIT = 2.5
"""Where nothing stands out, the octave from 1 to 2 is looked at alone, at so many standard deviations:
columns of 0 and 1, and of counts, vary there."""
_WINDOWS = (1, 2, 4)
_NEXT_TO_ZERO, _NEAR_ZERO = 2.0**-40, 2.0**-10
"""Below the first a location is next to 0, and values at 0 are no variation; below the second a quarter of
the rows suffices for that in place of half."""
_WRONG = 25.0
"""Standard deviations of the noise of a count by which a step of the last grid, whose noise is about six
times as large, is hardly wrong."""
_ZEROS = 2.0
"""Zeros count as variation beyond so many standard deviations of their noise."""
_NEAR = tuple(2.0 ** (_kernels.KEY_BITS - grid * _kernels.GRID_BITS - 51) for grid in (2, 1))
"""Twice a cell of the second grid, and of the first, relative to the location: a wrong step in the next grid
leaves the location so near to the median."""
RMS = 1.47
"""Root mean square of a log-uniform magnitude within an octave, relative to its lower edge."""
NEXT = 0.25
"""Zeros that are nearer to a location than this share of the scale of what else is seen are no variation."""
_SQUARES = (RMS * 2.0 ** (np.arange(_kernels.OCTAVES) - _kernels.EXPONENT)) ** 2


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
        Gaussian-DP parameters of the location step (all 39 bisections together) and of the scale step.
        ``mu_loc = 0`` takes 0 as the location and spends nothing on it.
    signed : bool
        Count distances below and above the location apart, for :attr:`Standardization.rows`. The noise of
        both together is what decides on visible octaves, so that takes ``sqrt(2)`` times as many rows.
    """

    side: int
    index: Integers
    mu_loc: float
    mu_scale: float
    signed: bool = False


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
    rows : (q, 2, OCTAVES) array
        Released numbers of rows below and above `loc` by octave of the distance, 0 where none are visible.
        Half of the rows are on either side if they were not counted apart.
    at : (q,) array
        Released number of rows at `loc`, or at 0 where that is no variation.
    """

    loc: Floats
    width: Floats
    scale: Floats
    reach: Floats
    filled: Floats
    rows: Floats
    at: Floats

    @classmethod
    def joined(cls, parts: "Sequence[Standardization]") -> "Standardization":
        """The columns of several groups, one behind the other."""
        return cls(*(np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(cls)))

    def first(self, q: int) -> "Standardization":
        """The first `q` columns."""
        return self.taken(np.arange(q))

    def taken(self, of: Integers | Booleans) -> "Standardization":
        """Some of the columns."""
        return Standardization(*(getattr(self, field.name)[of] for field in fields(self)))


def release_levels(
    blocks: Iterable[tuple[Floats, Floats]],
    columns: Sequence[int],
    sizes: Sequence[int],
    mu: float,
    rng: Randomness,
) -> list[Floats]:
    """Release how many rows each level of some factors has.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    columns : sequence of int
        Columns of Y that hold the levels' numbers ``0, 1, ...``.
    sizes : sequence of int
        Number of levels of each.
    mu : float
    rng : Randomness

    Returns
    -------
    list of (L,) arrays

    Notes
    -----
    **Privacy.** A record has one level of each of the f factors, so it adds 1 to f counts: l2-sensitivity
    ``sqrt(f)``, and ``mu``-GDP. When a record is replaced, at most 2 counts a factor move, by 1:
    ``sqrt(2 f)``; callers pass `mu` divided by ``sqrt(2)``. Argument: ``docs/privacy/standardize.md``.
    """
    ends = np.cumsum([0, *sizes])

    def update(state: Integers, X: Floats, Y: Floats, first: int) -> None:
        for column, start, size in zip(columns, ends, sizes, strict=False):
            codes = np.clip(Y[:, column], 0, size - 1).astype(np.intp)
            state[start : start + size] += np.bincount(codes, minlength=size)

    counts = fold(blocks, lambda: np.zeros(ends[-1], np.int64), update)
    noisy = gaussian(counts, math.sqrt(len(columns)), mu, rng)
    return np.split(noisy, ends[1:-1])


def release_count(blocks: Iterable[tuple[Floats, Floats]], mu: float, rng: Randomness) -> float:
    """Release the number of rows.

    Notes
    -----
    **Privacy.** Sensitivity 1, whether a record is added, removed or replaced (a replaced row may become
    unusable): ``mu``-GDP. Argument: ``docs/privacy/standardize.md``.
    """
    return float(gaussian(count_rows(blocks), 1.0, mu, rng))


def standardize(
    blocks: Iterable[tuple[Floats, Floats]], groups: Sequence[Columns], count: float, rng: Randomness
) -> list[Standardization]:
    """Release the location and scale of every column of `groups`.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Finite C-contiguous float arrays, re-iterable; four passes are made.
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
    n, hists = _count_top(blocks, groups)
    cells: list[Words] = [np.zeros(len(g.index), np.uint64) for g in groups]
    below = [np.zeros(len(g.index), np.int64) for g in groups]
    for grid in range(_kernels.GRIDS):
        if grid:
            hists = list(_count_low(blocks, groups, cells, _kernels.KEY_BITS - grid * _kernels.GRID_BITS))
        for i, (g, hist) in enumerate(zip(groups, hists, strict=True)):
            cell = _descend(hist, below[i], n, g, GRID_SHARES[grid], rng)
            below[i] = below[i] + np.array([column[:c].sum() for column, c in zip(hist, cell, strict=True)])
            cells[i] = (cells[i] << np.uint64(_kernels.GRID_BITS)) + cell.astype(np.uint64)
    locations = [_location(cell, g) for cell, g in zip(cells, groups, strict=True)]
    results = []
    for g, (loc, width), hist in zip(
        groups, locations, _count_octaves(blocks, groups, locations), strict=True
    ):
        noise = math.sqrt(len(g.index))
        noisy = gaussian(hist, noise, g.mu_scale, rng, _possible(loc, width, hist))
        sides = noisy.reshape(len(g.index), -1, _kernels.OCTAVES)
        sd = math.sqrt(sides.shape[1]) * noise / g.mu_scale
        at, zeros, squares = _take_apart(sides, loc, sd, max(count, 1.0))
        both = _without_spikes(sides.sum(axis=1), at, loc, sd, max(count, 1.0))
        scale, reach, filled, visible = _visible_scale(both, sd, max(count, 1.0), squares)
        rows = np.where(visible[:, None], np.maximum(sides, 0.0), 0.0) * (sides.shape[1] / 2)
        rows = np.repeat(rows, 3 - sides.shape[1], axis=1)
        results.append(Standardization(loc, width, scale, reach, filled, rows, at + zeros))
    return results


def _descend(
    hist: Integers, below: Integers, n: float, group: Columns, share: float, rng: Randomness
) -> Integers:
    """Bisect one grid of the lattice: the chosen cell of each column, shape (q,).

    ``below`` is the number of values below the grid.
    """
    q = len(group.index)
    if group.mu_loc == 0:
        return np.full(q, _kernels.GRID_CELLS // 2)
    lower = np.zeros(q, dtype=np.int64)
    counts, columns = np.cumsum(hist, axis=1), np.arange(q)
    # the steps' noise is drawn at once; the statistics, multiples of 1/2, lie on its lattice
    steps = _kernels.GRID_BITS
    budget = group.mu_loc * math.sqrt(share)
    noise = gaussian(np.zeros((steps, q)), math.sqrt(steps * q) / 2, budget, rng)
    for step in range(steps):
        middle = lower + (_kernels.GRID_CELLS >> (step + 1))
        statistic = below + counts[columns, middle - 1] - n / 2
        lower = np.where(statistic + noise[step] > 0, lower, middle)
    return lower


def _location(cell: Words, group: Columns) -> tuple[Floats, Floats]:
    """The end nearest to zero of the released interval, and the interval's width: two (q,) arrays."""
    q = len(group.index)
    if group.mu_loc == 0:
        return np.zeros(q), np.zeros(q)
    shift = np.uint64(_kernels.KEY_BITS - BISECTIONS)
    ends = from_key(cell << shift), from_key((cell + np.uint64(1)) << shift)
    inner = np.abs(ends[0]) <= np.abs(ends[1])
    return np.where(inner, *ends), np.abs(ends[1] - ends[0])


def from_key(key: Words) -> Floats:
    """Doubles of lattice keys (inverse of the kernels' key)."""
    offset, limit = int(_kernels.OFFSET), int(_kernels.HIGHEST) - int(_kernels.LOWEST) + 1
    signed = np.clip(key.astype(np.int64) - offset, -limit, limit)
    bits = np.where(signed == 0, 0, np.abs(signed) + int(_kernels.LOWEST) - 1)
    return np.copysign(bits.view(np.float64), signed.astype(float)) * (signed != 0)


def _possible(loc: Floats, width: Floats, hist: Integers) -> Booleans:
    """Which cells of octaves a value may have, with a location that is known to `width`."""
    octaves = np.arange(hist.shape[1]) % _kernels.OCTAVES
    least = np.maximum(np.where(width > 0, np.frexp(width)[1] - 1 + _kernels.EXPONENT, 2), 2)
    return np.where(octaves < 2, (loc != 0)[:, None], octaves >= least[:, None])


def _take_apart(sides: Floats, loc: Floats, sd: float, n: float) -> tuple[Floats, Floats, Floats]:
    """Move the zeros to the octave of their distance, in place; those that may be noise are left out.

    Noise can leave a location anywhere between 0 and other values where about half of the rows are zeros, or
    more. So they are left out, too, where they are much nearer to it than other values that are seen; and
    where none are, if they are most of the rows, or next to the location a quarter.

    Returns
    -------
    at : (q,) array
        The rows at the location, which are not counted as an octave either.
    zeros : (q,) array
        Zeros that are no variation.
    squares : (q, OCTAVES) array
        The mean square distance in each octave.
    """
    zeros, at = sides[:, :, 0].copy(), sides[:, :, 1].sum(axis=1)
    sides[:, :, :2] = 0.0
    count, both = zeros.sum(axis=1), sides.sum(axis=1)
    # of a median at a power of two the location may be just below
    octave = np.clip(np.frexp(loc * (1 + _NEAR[0]))[1] - 1 + _kernels.EXPONENT, 2, _kernels.OCTAVES - 1)
    left = (count - at > n / 4) & ((count > n / 2) | (np.abs(loc) < _NEAR_ZERO))
    scale = _visible_scale(both, sd, n)[0]
    left = np.where(scale > 0, np.abs(loc) < NEXT * scale, left)
    squares = np.tile(_SQUARES, (len(loc), 1))
    for j in np.flatnonzero((count > _ZEROS * sd) & ~left & (np.abs(loc) > _NEXT_TO_ZERO)):
        k = octave[j]
        sides[j, :, k] += zeros[j]
        share = min(count[j] / max(sides[j, :, k].sum(), sd), 1.0)
        squares[j, k] += share * (loc[j] ** 2 - squares[j, k])
    return at, np.where(left, count, 0.0), squares


def _without_spikes(both: Floats, at: Floats, loc: Floats, sd: float, n: float) -> Floats:
    """The counts without those of equal values that a wrong step of the bisection has left a location beside.

    Their distance to it is no variation. They are told by a single octave, with few rows in the two on either
    side, next to a location that has few rows `at` it. Two values with the location between them may share
    an octave, too, which has all rows then; a step is hardly wrong by so many, unless they are few. Farther
    off an octave has to have most rows but not all.
    """
    _, reach, _, visible = _visible_scale(both, sd, n)
    rows = np.where(visible, both, 0.0)
    beside = sum(np.roll(both, k, axis=1) for k in (-2, -1, 1, 2))
    distance = reach / np.maximum(np.abs(loc), 2.0**-_kernels.EXPONENT)
    spike = (visible.sum(axis=1) == 1) & (at < n / 4) & np.any(visible & (beside < rows / 3), axis=1)
    seen = rows.sum(axis=1)
    spike &= np.where(distance <= _NEAR[0], seen < n / 2 + _WRONG * sd, (seen > n / 2) & (seen < 0.9 * n))
    spike &= distance <= _NEAR[1]
    return np.where(spike[:, None] & visible, 0.0, both)


def _visible_scale(
    noisy: Floats, sd: float, n: float, mean_squares: Floats | None = None
) -> tuple[Floats, Floats, Floats, Booleans]:
    """Scale, reach, filled rows and visible octaves of each column from its noisy counts: post-processing.

    Single octaves, then windows of 2 and 4 neighbouring octaves among the rest, are kept where they stand
    out of the noise (false-alarm rate 1e-3 over all windows of all columns). The farthest kept octave must
    be beyond doubt (1e-9), or lie within `GAP` octaves of one that is: a single false cell far out would
    ruin the column's scale. Where none is beyond doubt those that stand out count, and where none does, the
    octave from 1 to 2 (:data:`UNIT`): a column that is kept for nothing costs less than one that is lost.
    """
    q, cells = noisy.shape
    scale, reach, filled, visible = np.zeros(q), np.zeros(q), np.zeros(q), np.zeros((q, cells), bool)
    near_z, far_z = -ndtri(FALSE_ALARM / _tests(noisy)), -ndtri(FALSE_ALARM_FAR / _tests(noisy))
    for j, counts in enumerate(noisy):
        near, far = np.zeros(cells, bool), np.zeros(cells, bool)
        for width in _WINDOWS:
            rest = np.where(near, 0.0, counts)
            z = np.convolve(rest, np.ones(width), "valid") / (sd * math.sqrt(width))
            for i in np.flatnonzero(z > near_z):
                window = slice(i, i + width)
                near[window] |= rest[window] > 0
                far[window] |= (rest[window] > 0) & (z[i] > far_z)
        if not near.any():
            near[_kernels.EXPONENT] = counts[_kernels.EXPONENT] > UNIT * sd
        if not far.any():
            far = near
        if not far.any():
            continue
        top = np.flatnonzero(far)[-1]
        for k in np.flatnonzero(near):
            if top < k <= top + GAP:
                top = k
        kept = np.flatnonzero(near[: top + 1])
        visible[j, kept] = True
        squares = (_SQUARES if mean_squares is None else mean_squares[j])[kept]
        scale[j] = math.sqrt(np.sum(counts[kept] * squares) / n)
        reach[j] = 2.0 ** (kept[-1] - _kernels.EXPONENT + 1)
        shares = counts[kept] * (squares / squares[-1])
        filled[j] = np.sum(shares) ** 2 / np.sum(shares * (squares / squares[-1]))
    return scale, reach, filled, visible


def _tests(noisy: Floats) -> int:
    """How many windows are looked at, one after the other."""
    return len(_WINDOWS) * noisy.size


def _columns(group: Columns) -> Words:
    return np.asarray(group.index, dtype=np.uint64)


def _count_top(
    blocks: Iterable[tuple[Floats, Floats]], groups: Sequence[Columns]
) -> tuple[int, list[Integers]]:
    rows = np.zeros(1, dtype=np.int64)

    def zero() -> tuple[Integers, ...]:
        return (
            np.zeros(1, np.int64),
            *(np.zeros((len(g.index), _kernels.GRID_CELLS), np.int64) for g in groups),
        )

    def update(state: tuple[Integers, ...], X: Floats, Y: Floats, first: int) -> None:
        state[0][0] += len(X)
        for g, hist in zip(groups, state[1:], strict=True):
            _kernels.count_top((X, Y)[g.side].view(np.uint64), _columns(g), hist)

    rows, *hists = fold(blocks, zero, update)
    return int(rows[0]), hists


def _count_low(
    blocks: Iterable[tuple[Floats, Floats]], groups: Sequence[Columns], cells: Sequence[Any], shift: int
) -> tuple[Integers, ...]:
    def zero() -> tuple[Integers, ...]:
        return tuple(np.zeros((len(g.index), _kernels.GRID_CELLS), np.int64) for g in groups)

    def update(state: tuple[Integers, ...], X: Floats, Y: Floats, first: int) -> None:
        for g, cell, hist in zip(groups, cells, state, strict=True):
            if g.mu_loc:
                values = (X, Y)[g.side].view(np.uint64)
                _kernels.count_low(values, _columns(g), cell, np.uint64(shift), hist)

    return fold(blocks, zero, update)


def _count_octaves(
    blocks: Iterable[tuple[Floats, Floats]], groups: Sequence[Columns], locations: Any
) -> tuple[Integers, ...]:
    def zero() -> tuple[Integers, ...]:
        return tuple(np.zeros((len(g.index), (1 + g.signed) * _kernels.OCTAVES), np.int64) for g in groups)

    def update(state: tuple[Integers, ...], X: Floats, Y: Floats, first: int) -> None:
        for g, (loc, width), hist in zip(groups, locations, state, strict=True):
            _kernels.count_octaves((X, Y)[g.side], _columns(g), loc, width, hist)

    return fold(blocks, zero, update)
