"""How far the values of a mean may go: where to limit them, and what that takes off the mean.

From released counts by size and side of the location. What is seen is extrapolated: what is too far out to be
seen cannot be bounded by anyone.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.linear.tails import CLIPS, GRID, Family, Tail
from dpstats.mechanisms._kernels import EXPONENT

__all__ = ["EDGES", "Limit", "choose_limit", "unseen_note", "unseen_rows"]

_HALF_OCTAVES = np.array([-8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16])
EDGES = _HALF_OCTAVES + EXPONENT
"""Lower edges, from the second on, of cells of ``|r|``, whose typical size is 1; the last is open."""
_LOWER = 2.0 ** (_HALF_OCTAVES / 2)
_WIDTHS = np.diff(_HALF_OCTAVES, append=_HALF_OCTAVES[-1] + 4)

_VISIBLE = 3.3
"""A cell visibly holds rows beyond so many standard deviations of its noise."""
_TOGETHER = 3.0
"""So do two consecutive cells or more farther out, of one side, together, beyond what the last visible one
continues to."""
_SURELY = 4.5
"""Of about one size so many rows are seen nearly always, in standard deviations of the noise of a count."""
_STEPS = 13
"""Limits are tried up to so many half-octaves above the narrowest."""
_SKEWED = 2.2
"""Standard errors of the difference of both sides from which a tail counts as one-sided."""
_DECAY = 0.25, 0.58
"""Between these lies what each half-octave that is too far out to be seen holds, at most, as a share of the
one before: a power law of index 4 to 1.6.
"""
_FAR = 80
_SEEN = 200.0
"""Rows, in units of the noise of a count, from which a tail is followed at all."""
_ENOUGH = 12.0
"""So are the rows in visible cells, in units of the noise of a cell: of fewer, what is seen is chance."""
_NEAR = 7
"""The first of the cells, all of them, to which tails are fitted: from the typical size on."""
_ORDINARY = 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0
_VALUES = Family(
    tuple(int(edge) for edge in _HALF_OCTAVES[_NEAR - 1 :]),
    (
        (0.05, 0.05, (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)),
        (0.2, 0.2, _ORDINARY),
        (0.5, 0.25, _ORDINARY),
        (1.0, 0.25, _ORDINARY),
        (1.5, 0.15, _ORDINARY),
        (2.0, 0.1, _ORDINARY),
    ),
    ((1.0, 0.03, (0.03, 0.1, 0.3)), (0.25, 0.01, (0.4, 0.8, 1.6))),
)
"""Values of columns have longer tails than products of a score: incomes, and sizes of firms. A Weibull tail
of the shape .05 is nearly a power law."""


@dataclass(frozen=True)
class Limit:
    """A limit of the distances from the location, and what is known about those beyond.

    Attributes
    ----------
    tau : float
        Distances count up to it.
    removed : float
        Estimate of the mean of what that takes off.
    bias : float
        Bound on the error of `removed`.
    followed : bool
        Whether `removed` and `bias` can be had; else the mean is one of limited values.
    size : float
        Root mean square of the distances that are seen.
    share, sizes : arrays
        Estimated share of the rows by size, from the innermost visible cell to beyond what is seen.
    together : int
        How many of the visible cells, the outermost ones, are so only together.
    """

    tau: float
    removed: float
    bias: float
    followed: bool
    size: float
    share: Floats
    sizes: Floats
    together: int = 0

    def squares_beyond(self, cut: float) -> tuple[float, float]:
        """The mean of ``min(r, tau)^2 - cut`` where it is positive: of the rows in visible cells, and half of
        the most beyond them."""
        parts = self._beyond(cut)
        return float(parts[:-_FAR].sum()), float(parts[-_FAR:].sum())

    def squares_together(self, cut: float) -> float:
        """What of that is of cells that are visible only together, and beyond them."""
        return float(self._beyond(cut)[-_FAR - self.together :].sum()) if self.together else 0.0

    def _beyond(self, cut: float) -> Floats:
        return np.asarray(self.share * np.maximum(np.minimum(self.sizes, self.tau) ** 2 - cut, 0.0), float)

    def fourth(self, cut: float) -> float:
        """The mean of ``min(r^2, cut)^2``."""
        return float(self.share @ np.minimum(self.sizes**2, cut) ** 2)


def unseen_rows(sd: float) -> float:
    """So many rows far out, of about one size, the noise of a count may hide; spread over `k` cells,
    ``sqrt(k)`` times as many.

    Examples
    --------
    >>> unseen_rows(10.0)
    45.0
    """
    return _SURELY * sd


def unseen_note(rows: float, where: str) -> str:
    """What a note says of them.

    Examples
    --------
    >>> unseen_note(unseen_rows(10.0), "x [0, 9]")
    'Some 40 rows of about one size, and more of several sizes, may go unseen beyond x [0, 9]'
    """
    rows = max(float(f"{rows:.1g}"), 2.0)
    return f"Some {rows:,.0f} rows of about one size, and more of several sizes, may go unseen beyond {where}"


def choose_limit(counts: Floats, sd: float, count: float, noise: float) -> Limit | None:
    """Choose the limit of a mean from released counts.

    Parameters
    ----------
    counts : (2, 18) array
        Rows with ``r <= 0`` and ``r > 0`` by cell of ``|r|`` (:data:`EDGES`).
    sd : float
        Standard deviation of the noise of a count.
    count : float
        Released number of rows.
    noise : float
        Standard deviation of the noise of the mean, for a limit of 1.

    Returns
    -------
    Limit or None
        None where no cell by itself visibly holds rows, leaving out the open one.

    Notes
    -----
    **Privacy.** Post-processing of released counts. Argument: ``docs/privacy/mean.md``.

    **Visible** are cells whose count stands out from its noise, and beyond them two consecutive cells of one
    side or more whose counts do so together, less what the last visible cell continues to: a few large values
    among many small ones, which are spread over several cells.

    **What lies beyond the last visible cell**, on the longer side: at most what the last two visible cells
    continue to as a power law, one standard error added, and at most the rows counted there, one standard
    error added; at least nothing. The limit has the least noise variance plus the square of half of that.
    `removed` is the mean of what the limit takes off over the tails that the counts leave possible
    (:mod:`dpstats.linear.tails`), and `bias` its standard deviation, or half of the most that lies beyond, if
    that is more. Where no side is visibly longer, both tails are taken to be alike, and nothing is removed.
    """
    both, difference = counts.sum(axis=0)[1:], (counts[1] - counts[0])[1:]
    spread = math.sqrt(2) * sd
    stands_out = both > _VISIBLE * spread
    # the last cell has no end: what it holds may lie anywhere
    visible = np.flatnonzero(stands_out[:-1])
    if not len(visible):
        return None
    enough = count > _SEEN * sd and both[visible].sum() > _ENOUGH * spread
    followed = bool(enough and not stands_out[-1])
    far = visible
    if followed:
        far, followed = _with_others(counts[:, 1:], visible, sd)
    k = int(far[-1])
    top = float(_LOWER[k] * 2.0 ** (_WIDTHS[k] / 2))
    beyond_count = top * 2.0 ** (np.arange(_FAR) / 2 + 0.25), _beyond(both, k, spread)
    limits = top * 2.0 ** (np.arange(_STEPS) / 2)
    leans, most = _leans(both, difference, k, spread)
    tau, removed, error = float(limits[1]), 0.0, 0.0
    if followed and leans:
        cut_off = np.array([beyond_count[1] @ np.maximum(beyond_count[0] - c, 0.0) for c in limits])
        half = most * cut_off / count / 2
        best = int(np.argmin((limits * noise) ** 2 + half**2))
        tau = float(limits[best])
        removed, error = _removed(counts, sd, count, tau)
        error = max(error, float(half[best]))
    inner = 2.0 ** _WIDTHS[visible]
    squares = _LOWER[visible] ** 2 * (inner - 1) / np.log(inner)
    return Limit(
        tau,
        removed,
        error,
        followed,
        math.sqrt(float(both[visible] @ squares) / count),
        np.concatenate([np.maximum(both[far], 0.0), beyond_count[1] / 2]) / count,
        np.concatenate([_LOWER[far] * 2.0 ** (_WIDTHS[far] / 4), beyond_count[0]]),
        len(far) - len(visible),
    )


def _removed(counts: Floats, sd: float, count: float, tau: float) -> tuple[float, float]:
    """Mean of what the limit takes off, and its standard deviation, over the tails that the counts leave
    possible."""
    below, above = (Tail.of(cells[_NEAR:], sd, count, family=_VALUES) for cells in counts)
    at = int(np.argmin(np.abs(np.log(GRID[CLIPS] / tau))))
    low, high, weights = below.pairs(above)
    off = above.excesses[high, at] - below.excesses[low, at]
    mean = float(weights @ off)
    return mean, math.sqrt(float(weights @ (off - mean) ** 2))


def _with_others(counts: Floats, alone: Integers, sd: float) -> tuple[Integers, bool]:
    """The cells that are visible `alone`, and those beyond that are so together, on one side.

    Sums of consecutive cells of one side are held against what the last visible cell continues to. Beyond the
    cells of the sum that stands out most the search begins anew. If the last cell, which has no end, is among
    these: those that are visible alone, and False.
    """
    both, visible = counts.sum(axis=0), alone
    while True:
        k = int(visible[-1])
        octaves = np.cumsum(_WIDTHS[k:]) - _WIDTHS[k]
        last, decay = _falling(both, k, math.sqrt(2) * sd)
        expected = last * decay * (1 - decay**octaves) / (1 - decay)
        sums = np.zeros((2, len(octaves)))
        sums[:, 1:] = np.cumsum(counts[:, k + 1 :], axis=1)
        first, end = np.triu_indices(len(octaves), 2)  # two cells and more
        rows = expected[end] - expected[first]
        scores = ((sums[:, end] - sums[:, first] - rows) / np.sqrt((end - first) * sd**2 + rows)).max(axis=0)
        # rows without an end are to stand out as those of one cell do
        scores -= np.where(end == len(octaves) - 1, math.sqrt(2) * _VISIBLE, _TOGETHER)
        if scores.max(initial=0.0) <= 0:
            return visible, True
        best = int(np.argmax(scores))
        visible = np.append(visible, np.arange(first[best], end[best]) + k + 1)
        if visible[-1] == len(both) - 1:
            return alone, False


def _beyond(both: Floats, k: int, spread: float) -> Floats:
    """The most rows in each half-octave beyond the last visible cell, `k`."""
    last, decay = _falling(both, k, spread)
    rest = float(both[k + 1 :].sum())
    rows = max(rest, 0.0) + _error(rest, spread, len(both) - k - 1)
    first = min(last * decay, rows * (1 - decay))
    return np.asarray(first * decay ** np.arange(_FAR), float)


def _falling(both: Floats, k: int, spread: float) -> tuple[float, float]:
    """Rows in a half-octave of the cell `k`, and what part of them the next one has, at most."""
    last = (max(both[k], 0.0) + _error(both[k], spread)) / _WIDTHS[k]
    decay = math.inf
    if k:
        before = max(both[k - 1] - _error(both[k - 1], spread), spread) / _WIDTHS[k - 1]
        decay = (last / before) ** (2 / (_WIDTHS[k] + _WIDTHS[k - 1]))
    return last, min(max(decay, _DECAY[0]), _DECAY[1])


def _error(rows: float, spread: float, cells: int = 1) -> float:
    return math.sqrt(cells * spread**2 + max(rows, 0.0))


def _leans(both: Floats, difference: Floats, k: int, spread: float) -> tuple[bool, float]:
    """Whether a side is visibly longer, and the largest difference of the sides as a share of the tail."""

    def score(cells: slice) -> float:
        rows = max(both[cells].sum(), 0.0)
        error = math.sqrt(len(both[cells]) * spread**2 + rows)
        return float(difference[cells].sum() / error) if error else 0.0

    scores = [score(cells) for cells in (slice(k + 1), slice(max(k - 1, 0), k + 2), slice(k + 1, None))]
    tail = slice(max(k - 1, 0), None)
    rows, lead = max(both[tail].sum(), spread), difference[tail].sum()
    most = min(1.0, (abs(lead) + math.sqrt(len(both[tail]) * spread**2 + rows)) / rows)
    return max(map(abs, scores)) >= _SKEWED, float(most)
