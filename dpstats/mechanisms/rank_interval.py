"""The private half-width of a distribution-free interval for a quantile.

The interval is the released estimate plus and minus a half-width, which the exponential mechanism draws from
a public grid. It aims at ranks beyond the quantile such that what sampling and the mechanism miss together
is at most `alpha`: the interval covers whatever the distribution is, and whatever the grid. Proof:
``docs/privacy/median.md``.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, bdtrc, ndtri

from dpstats._types import Booleans, Floats, Integers
from dpstats.mechanisms.rng import Randomness

__all__ = ["RankInterval", "without_end"]

_STEPS = 6
"""Candidates to an octave of the half-width: a sixth of an octave is 12 %."""
_OCTAVES = 80
"""Half-widths but 0 run from 2^-80 to 2^80, about 1e-24 to 1e24."""
_SOFTENING = 50.0
"""Keeps the sensitivity of the target ranks near that of the quantile when there are few rows."""

_GROWTH = 0.015
"""By so much the log-weight of each finite half-width exceeds that of the next smaller one, before scores."""
_LOG_NARROWER = -math.log(math.expm1(_GROWTH))
"""All half-widths smaller than one weigh together at most ``exp`` of this times as much as it."""
_HALF_WIDTHS = np.concatenate(
    [[0.0], 2.0 ** (np.arange(-_STEPS * _OCTAVES, _STEPS * _OCTAVES + 1) / _STEPS), [np.inf]]
)
_NO_END = 5.0
"""The infinite half-width weighs so many times as much as all others together: where rows do not suffice one
draw in six is finite, of which few are below :data:`_VAST`. It costs ``log(6) / slope`` ranks more rows, and
no width where these suffice."""
_LOG_PRIOR = np.append(_GROWTH * np.arange(len(_HALF_WIDTHS) - 1), 0.0)
_LOG_PRIOR[-1] = math.log(_NO_END) + np.logaddexp.reduce(_LOG_PRIOR[:-1])
_ROWS = np.unique(np.concatenate([np.arange(60), np.geomspace(60, 1e9, 90).round()])).astype(np.int64)
_MARGIN = 0.1
_VAST = 2.0**48
"""Half-widths from here on, 2.8e14, are without end if they reach across 0: where rows do not suffice the
draw is between all that reach beyond them. (Where they do suffice only columns about 0 in such units have
them.)"""


def without_end(estimates: Floats, half_widths: Floats) -> Booleans:
    """Which intervals are without end: of any half-width, or of one that no rows have chosen.

    Examples
    --------
    >>> without_end(np.array([1.3, 1e-90, -2e23, 0.0]), np.array([6e23, 2048.0, 5e22, np.inf]))
    array([ True, False, False,  True])
    """
    return np.asarray(half_widths >= np.maximum(_VAST, np.abs(estimates)))


def miss_bound(n: Integers, q: float, target: Floats, slope: float) -> Floats:
    """``E min(1, exp(c - slope (B - target)))``, `B` binomial of `n` and `q`, ``c`` the weight of what is
    narrower.

    Parameters
    ----------
    n, target : (m,) arrays
        Numbers of rows, and the ranks that the mechanism aims at.
    q, slope : float

    Returns
    -------
    (m,) ndarray
        Bound on the probability that one end falls short of the quantile.
    """
    edge = target + _LOG_NARROWER / slope
    whole = np.floor(edge)
    m = np.clip(whole, 0, n)
    below = np.where(whole < 0, 0.0, bdtr(m, n, q))
    # the sum over B > m of its probability times exp(-slope B) is a tail of other odds, unless that is 0 to
    # machine precision: then at most a geometric series, as the ratio of successive probabilities falls
    kept = 1 - q + q * math.exp(-slope)
    tail = np.where(whole < 0, 1.0, bdtrc(m, n, q * math.exp(-slope) / kept))
    ratio = (n - m) / (m + 1) * (q / (1 - q) * math.exp(-slope))
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = slope * edge + n * math.log(kept) + np.log(tail)
        at_m = bdtr(m, n, q) - np.where(m > 0, bdtr(np.maximum(m - 1, 0), n, q), 0.0)
        series = slope * (edge - m) + np.log(at_m * ratio / np.where(ratio < 1, 1 - ratio, 0.0))
    beyond = np.exp(np.minimum(np.where(tail > 1e-290, exact, series), 0.0))
    return np.asarray(np.minimum(below + np.where(whole >= n, 0.0, beyond), 1.0), float)


@functools.lru_cache(maxsize=256)
def _allowance(q: float, tail: float, slope: float) -> float:
    """The least ``b`` with ``miss_bound`` at most `tail` at ``q n - z sqrt(q (1 - q) (n + softening)) - b``,
    for all n, and for ``1 - q`` too."""
    low, high = -5.0, 5.0 + (_LOG_NARROWER - math.log(tail)) / slope
    for _ in range(24):
        b = (low + high) / 2
        worst = max(float(miss_bound(_ROWS, p, _target(_ROWS, p, tail, b), slope).max()) for p in (q, 1 - q))
        low, high = (b, high) if worst > tail else (low, b)
    return high + _MARGIN


def _target(n: Integers, q: float, tail: float, allowance: float) -> Floats:
    spread = -float(ndtri(tail)) * np.sqrt(q * (1 - q) * (n + _SOFTENING))
    return np.asarray(q * n - spread - allowance, float)


@dataclass(frozen=True)
class RankInterval:
    """Public parameters of an interval for the `q` quantile.

    Parameters
    ----------
    q : float
    alpha : float
        One minus the confidence.
    eps : float
        Budget.
    """

    q: float
    alpha: float
    eps: float

    @property
    def sensitivity(self) -> float:
        """By how much a score moves for a record: a count by 0 or 1, a target by ``q - c`` to ``q``, the same
        way."""
        z = -float(ndtri(self.alpha / 2))
        return max(self.q, 1 - self.q) + z * math.sqrt(self.q * (1 - self.q) / _SOFTENING) / 2

    @property
    def slope(self) -> float:
        """By how much the log-weight of a half-width falls with each rank that it is off."""
        return self.eps / (2 * self.sensitivity)

    def targets(self, n: int) -> tuple[float, ...]:
        """The ranks, from below and from above, that the mechanism aims at among `n`."""
        tail = self.alpha / 2
        allowance = _allowance(self.q, tail, self.slope)
        return tuple(float(_target(np.array(n), q, tail, allowance)) for q in (self.q, 1 - self.q))

    def scores(self, x: Floats, centre: float) -> Floats:
        """Score of every half-width for sorted data: minus the distance from the targets in ranks.

        A half-width is scored together with the next smaller one, between which the ranks may jump.
        """
        below, above = self.targets(len(x))
        outside = np.maximum(
            np.searchsorted(x, centre - _HALF_WIDTHS, side="left") - below,
            len(x) - np.searchsorted(x, centre + _HALF_WIDTHS, side="right") - above,
        )
        outside[-1] = -math.inf
        before = np.append(math.inf, outside[:-1])
        return -np.maximum(np.maximum(outside, -before), 0.0)

    def log_weights(self, x: Floats, centre: float) -> Floats:
        """Log of the unnormalised probability of every half-width."""
        return self.slope * self.scores(x, centre) + _LOG_PRIOR

    def release(self, x: Floats, centre: float, rng: Randomness) -> float:
        """Draw the half-width.

        Parameters
        ----------
        x : (n,) array
            Finite, sorted.
        centre : float
            A released estimate.
        rng : Randomness

        Returns
        -------
        float
            Infinite where the rows do not suffice.

        Notes
        -----
        **Privacy.** `eps`-DP under add-remove, given the estimate.
        """
        weights = self.log_weights(x, centre)
        return float(_HALF_WIDTHS[int(np.argmax(weights + rng.gumbel(len(weights))))])
