"""The private half-widths of an interval that inverts a test of ranks.

An interval reaches from a released estimate to either side by a half-width. What is counted at its ends (rows
beyond, or a depth) is small where the end lies far enough out; the law of the same count at the true value is
known. The exponential mechanism draws the half-widths from a short public grid. Proof:
``docs/privacy/deepest_regression.md``.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from dpstats._types import Floats
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.rounds import choose

__all__ = ["ALPHA", "LEAST_UNIT", "HalfWidth", "around_medians", "survival"]

_STEPS = 6
"""Candidates to an octave of the half-width: a sixth of an octave is 12 %."""
_BELOW, _ABOVE, _WIDEST = 3, 6, 3.0
"""Octaves of candidates below the unit, and above it; but up to three spreads, if the unit is small by them:
values may be few and far between."""
_FAR, _FARTHEST = 12, 2.0**10
"""So many candidates more, farther apart where the spread is small by the estimate: up to so many times
it."""
ALPHA = 0.05
"""One minus the confidence."""
_MOST_GROWTH, _PART = math.log(2), 16
"""The log-weight of each candidate exceeds that of the next smaller one by the budget of a draw times the
rows, over this times the number of candidates, but at most by the first. Over all candidates that is a
quarter of what half of the rows, as a distance, takes away."""
_TWO_ENDS = 30.0
"""Each end has a half-width of its own where the budget times the root of the rows is at least this."""
_NOT_BOTH = 0.8
"""From here on a law bounds the sum of the tails of both sides, and not that of the larger alone."""
_TABLE = np.array(
    [1, 0.987, 0.896, 0.718, 0.533, 0.377, 0.255, 0.165, 0.1, 0.0615, 0.035, 0.0185, 0.0115, 0.006, 0.0037]
)
"""Probability beyond 0.3, 0.4, ... 1.7 for the law "ranks", with twice its Monte Carlo error
(``benchmarks/depth_estimators/intervals.py``)."""
_FEW = 0.35
"""The law of ranks for n rows is narrower than its limit by at least this times ``n**-0.25``."""


def survival(law: str, x: Floats) -> Floats:
    """An upper bound of ``P(X > x)``, where ``n/2 - sqrt(n) X`` is what is counted at the true value.

    Parameters
    ----------
    law : {"ranks", "walk", "count"}
        ``"ranks"``: the least of both sides' largest depths of a slope, over intercepts, errors independent
        of the covariate. ``"walk"``: the least depth at the true line of errors of median zero. ``"count"``:
        the least number of rows on either side of the median.
    x : (m,) array

    Examples
    --------
    >>> survival("count", np.array([0.98])).round(3)
    array([0.05])
    """
    if law == "count":
        return 2 * ndtr(-2 * x)
    if law == "walk":
        return np.minimum(2 * (2 * ndtr(-2 * x) + 4 * x / np.sqrt(2 * np.pi) * np.exp(-2 * x * x)), 1.0)
    tail = 2 * np.exp(-2 * x * x)  # the bound of Kolmogorov and Smirnov
    at = 0.3 + 0.1 * np.arange(len(_TABLE))
    inner = np.exp(np.interp(x, at, np.log(_TABLE)))
    return np.where(x > at[-1], np.minimum(tail, _TABLE[-1]), inner)


LEAST_UNIT = 2.0**-30
"""Times the released value: a spread below is none."""


@lru_cache(maxsize=256)
def _slack(law: str, rows: int, eps: float, ends: int) -> float:
    """The least ``s`` at which ``E min(1, W exp(-eps (s - sqrt(rows) X) / 2))``, summed over the ends, is at
    most `ALPHA`; ``W`` is the weight of all candidates smaller than one over its own."""
    x = np.linspace(0.0, 4.0, 4001)
    beyond = survival(law, x)
    beyond[0] = 1.0
    beyond = np.where(x < _NOT_BOTH, ends, 1) * beyond
    narrow = 1 - _FEW * max(rows, 1) ** -0.25 if law == "ranks" else 1.0
    # each piece of probability at its upper end
    ranks, mass = np.sqrt(rows) * narrow * x[1:] + 0.5, -np.diff(beyond)

    def missed(s: float) -> float:
        return float(mass @ np.exp(-np.maximum(s - ranks, 0.0) * eps / 2)) + beyond[-1] - ALPHA

    smaller = np.exp(-_growth(rows, eps) * np.arange(1, _candidates(rows) + 1)).sum()
    high = ranks[-1] + 20 / eps + 1
    return float(brentq(missed, 0.0, high, xtol=1e-6)) + float(2 * np.log(smaller) / eps)


def _candidates(rows: int) -> int:
    """How many there are."""
    return len(_grid(rows)) + _FAR


def _grid(rows: int) -> Floats:
    """Near candidates in units of the typical one, which is about ``1 / sqrt(rows)`` spreads."""
    above = max(_ABOVE, math.ceil(math.log2(_WIDEST * math.sqrt(max(rows, 1)))))
    return np.asarray(2.0 ** (np.arange(-_STEPS * _BELOW, _STEPS * above + 1) / _STEPS), float)


def _growth(rows: int, eps: float) -> float:
    return min(_MOST_GROWTH, eps * rows / (_PART * _candidates(rows)))


@dataclass(frozen=True)
class HalfWidth:
    """Public parameters of the half-widths of an interval, for a confidence of 95 %.

    Parameters
    ----------
    law : str
        As in :func:`survival`.
    rows : int
        Handed in, public; at least the number of usable ones.
    eps : float
    """

    law: str
    rows: int
    eps: float

    @property
    def ends(self) -> int:
        """How many half-widths are drawn: one for both ends, or one for each at half of the budget."""
        return 2 if self.eps * math.sqrt(self.rows) >= _TWO_ENDS else 1

    @property
    def eps_end(self) -> float:
        """Budget of a draw."""
        return self.eps / self.ends

    @property
    def slack(self) -> float:
        """Ranks short of half of the rows that the mechanism aims at."""
        return _slack(self.law, self.rows, self.eps_end, self.ends)

    def candidates(self, spread: float, size: float = 0.0) -> Floats:
        """The finite half-widths, from the spread of residuals in units of the estimate and its size.

        The spread of values of which half are the same is nothing, and tells nothing of the others: then
        candidates go from :data:`LEAST_UNIT` times the size to a thousand times it.
        """
        grid, size = _grid(self.rows), min(size, 2.0**900)
        if spread < LEAST_UNIT * size:
            return size * np.geomspace(LEAST_UNIT, _FARTHEST, len(grid) + _FAR)
        near = min(3 * spread * self.slack / max(self.rows, 1), 2.0**900) * grid
        ratio = max((_FARTHEST * size / near[-1]) ** (1 / _FAR), grid[1] / grid[0])
        return np.append(near, near[-1] * ratio ** np.arange(1, _FAR + 1))

    def scores(self, levels: Floats) -> Floats:
        """Score of the candidates and of infinity: minus the distance of minus the slack from what is between
        a candidate's level and the next smaller one's, and a public part that grows with the candidate.

        Parameters
        ----------
        levels : (m,) array
            The count at an end of each candidate, or the larger at its two, minus half the number of usable
            rows.
        """
        # the largest from here outwards: a narrower interval never has a lower level
        outside = np.append(np.maximum.accumulate(levels[::-1])[::-1], -np.inf)
        before = np.append(np.inf, outside[:-1])
        distance = np.maximum(np.maximum(outside + self.slack, -self.slack - before), 0.0)
        growth = _growth(self.rows, self.eps_end) * 2 / self.eps_end
        return np.asarray(growth * np.arange(len(distance)) - distance, float)

    def release(self, candidates: Floats, levels: Floats, rng: Randomness) -> Floats:
        """Draw the half-widths; infinite where the rows do not suffice.

        Parameters
        ----------
        candidates : (m,) array
        levels : (2, m) array
            The counts at the lower and the upper end of each candidate, minus half the number of usable rows.
        rng : Randomness

        Returns
        -------
        (2,) ndarray
            From the estimate down and up.

        Notes
        -----
        **Privacy.** `eps`-DP, one record replaced, usable or not: each level moves by at most 1, largest of
        levels keep that, and slack and growth are public. Two ends are two draws of `eps_end` each. The
        candidates are made of numbers released before.

        Examples
        --------
        >>> from dpstats.mechanisms.rng import Randomness
        >>> half, x = HalfWidth("count", 1000, 2.0), np.random.default_rng(0).normal(size=1000)
        >>> g = half.candidates(1.0)
        >>> levels = np.array([(x[:, None] <= -g).sum(axis=0), (x[:, None] >= g).sum(axis=0)]) - 500
        >>> half.release(g, levels, Randomness(1)).round(2)
        array([0.16, 0.03])
        """
        sides = levels if self.ends == 2 else levels.max(axis=0, keepdims=True)
        drawn = [choose(self.scores(side), 2.0, self.eps_end, rng) for side in sides]
        return np.resize(np.append(candidates, np.inf)[drawn], 2)


def around_medians(
    Y: Floats, values: Floats, units: Floats, half_width: HalfWidth, rng: Randomness
) -> Floats:
    """Half-widths of intervals about released values that cover the medians of the columns.

    Parameters
    ----------
    Y : (n, d) array
    values, units : (d,) arrays
        Released or public; the units are typical spreads of the columns.
    half_width : HalfWidth
        With the law ``"count"``, its budget that of a column.
    rng : Randomness

    Returns
    -------
    (d, 2) ndarray
        Down and up.

    Notes
    -----
    **Privacy.** ``half_width.eps`` a column, one record replaced, usable or not: the number of rows beyond an
    end less half of all moves by at most 1.
    """
    out = []
    for y, value, unit in zip(np.sort(Y, axis=0).T, values, units, strict=True):
        widths = half_width.candidates(unit, abs(value))
        with np.errstate(over="ignore"):
            below = np.searchsorted(y, value - widths, side="right")
            above = len(y) - np.searchsorted(y, value + widths, side="left")
        out.append(half_width.release(widths, np.array([below, above]) - len(y) / 2, rng))
    return np.array(out)
