"""The private half-width of an interval that inverts a test of ranks.

An interval is a released estimate plus and minus a half-width. What is counted at its ends (rows beyond, or a
depth) is small where the end lies far enough out; the law of the same count at the true value is known. The
exponential mechanism draws the half-width from a short public grid. Proof:
``docs/privacy/deepest_regression.md``.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from dpstats._types import Floats
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.rounds import choose

__all__ = ["ALPHA", "LAWS", "HalfWidth", "around_medians", "survival"]

_STEPS = 6
"""Candidates to an octave of the half-width: a sixth of an octave is 12 %."""
_BELOW, _ABOVE = 3, 6
"""Octaves of candidates below and above the unit."""
ALPHA = 0.05
"""One minus the confidence."""
_GRID = 2.0 ** (np.arange(-_STEPS * _BELOW, _STEPS * _ABOVE + 1) / _STEPS)
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


LAWS = ("ranks", "walk", "count")


@lru_cache(maxsize=256)
def _slack(law: str, rows: int, eps: float) -> float:
    """The ``1 - alpha`` quantile of ``sqrt(rows) X + (2 / eps) (E + ln candidates)``, `E` exponential."""
    x = np.linspace(0.0, 4.0, 4001)
    beyond = survival(law, x)
    beyond[0] = 1.0
    narrow = 1 - _FEW * max(rows, 1) ** -0.25 if law == "ranks" else 1.0
    # each piece of probability at its upper end
    ranks, mass = np.sqrt(rows) * narrow * x[1:] + 0.5, -np.diff(beyond)

    def missed(s: float) -> float:
        return float(mass @ np.exp(-np.maximum(s - ranks, 0.0) * eps / 2)) + beyond[-1] - ALPHA

    reach = 2 * np.log(len(_GRID) + 1) / eps
    return float(brentq(missed, 0.0, ranks[-1] + 20 / eps, xtol=1e-6)) + float(reach)


@dataclass(frozen=True)
class HalfWidth:
    """Public parameters of a half-width, for a confidence of 95 %.

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
    def slack(self) -> float:
        """Ranks short of half of the rows that the mechanism aims at."""
        return _slack(self.law, self.rows, self.eps)

    def candidates(self, spread: float) -> Floats:
        """The finite half-widths, from the spread of residuals in units of the estimate."""
        unit = min(3 * spread * self.slack / max(self.rows, 1), 2.0**900)
        return unit * _GRID

    def scores(self, levels: Floats) -> Floats:
        """Score of the candidates and of infinity: minus the distance of minus the slack from what is between
        a candidate's level and the next smaller one's.

        Parameters
        ----------
        levels : (m,) array
            The larger count at the two ends of each candidate minus half the number of usable rows.
        """
        # the largest from here outwards: a narrower interval never has a lower level
        outside = np.append(np.maximum.accumulate(levels[::-1])[::-1], -np.inf)
        before = np.append(np.inf, outside[:-1])
        return -np.maximum(np.maximum(outside + self.slack, -self.slack - before), 0.0)

    def release(self, candidates: Floats, levels: Floats, rng: Randomness) -> float:
        """Draw the half-width; infinite where the rows do not suffice.

        Notes
        -----
        **Privacy.** `eps`-DP, one record replaced, usable or not: each level moves by at most 1, running
        maxima keep that, and the slack is public. The candidates are made of numbers released before.

        Examples
        --------
        >>> from dpstats.mechanisms.rng import Randomness
        >>> half, x = HalfWidth("count", 1000, 2.0), np.random.default_rng(0).normal(size=1000)
        >>> g = half.candidates(1.0)
        >>> levels = np.maximum((x[:, None] >= g).sum(axis=0), (x[:, None] <= -g).sum(axis=0)) - 500
        >>> round(half.release(g, levels, Randomness(1)), 2)
        0.17
        """
        return float(np.append(candidates, np.inf)[choose(self.scores(levels), 2.0, self.eps, rng)])


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

    Notes
    -----
    **Privacy.** ``half_width.eps`` a column, one record replaced, usable or not: the number of rows beyond an
    end less half of all moves by at most 1.
    """
    out = []
    for y, value, unit in zip(np.sort(Y, axis=0).T, values, units, strict=True):
        widths = half_width.candidates(unit)
        with np.errstate(over="ignore"):
            below = np.searchsorted(y, value - widths, side="right")
            above = len(y) - np.searchsorted(y, value + widths, side="left")
        out.append(half_width.release(widths, np.maximum(below, above) - len(y) / 2, rng))
    return np.array(out)
