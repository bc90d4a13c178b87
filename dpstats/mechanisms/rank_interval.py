"""The private half-width of a distribution-free interval for a quantile.

The interval is the released estimate plus and minus a half-width, which the exponential mechanism draws from
a public grid. It aims at ranks beyond the order statistics that cover the quantile, by as many as the
mechanism may miss: the interval covers whatever the distribution is, and whatever the grid. Proof:
``docs/privacy/median.md``.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpstats._types import Floats
from dpstats.mechanisms.rng import Randomness

__all__ = ["RankInterval"]

_STEPS = 6
"""Candidates to an octave of the half-width: a sixth of an octave is 12 %."""
_OCTAVES = 80
"""Half-widths run from 2^-80 to 2^80, about 1e-24 to 1e24."""
_MISS = 0.25
"""Share of alpha for the mechanism missing its rank; sampling has the rest."""
_SOFTENING = 50.0
"""Keeps the sensitivity of the target ranks near that of the quantile when there are few rows."""

_HALF_WIDTHS = np.append(2.0 ** (np.arange(-_STEPS * _OCTAVES, _STEPS * _OCTAVES + 1) / _STEPS), np.inf)


@functools.lru_cache(maxsize=256)
def _correction(q: float, tail: float) -> float:
    """The least ``b`` with ``q n - z sqrt(q (1 - q) (n + softening)) - b`` at most the binomial quantile, for
    all n."""
    from scipy.stats import binom  # slow to import, and few calls come here

    n = np.unique(np.concatenate([np.arange(4000), np.geomspace(4000, 1e9, 4000).round()]))
    normal = q * n + ndtri(tail) * np.sqrt(q * (1 - q) * (n + _SOFTENING))
    return max(float(np.max(normal - binom.ppf(tail, n, q))), 0.0) + 0.05


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
    def _tail(self) -> float:
        """Probability, on each side, that the covering order statistic is on the wrong side of the
        quantile."""
        return self.alpha * (1 - _MISS) / 2

    @property
    def _z(self) -> float:
        return -float(ndtri(self._tail))

    @property
    def sensitivity(self) -> float:
        """By how much a score moves for a record: a count by 0 or 1, a target by ``q - c`` to ``q``, the same
        way."""
        c = self._z * math.sqrt(self.q * (1 - self.q) / _SOFTENING) / 2
        return max(self.q, 1 - self.q) + c

    @property
    def reach(self) -> float:
        """Ranks by which the mechanism misses with probability at most ``alpha * _MISS``."""
        return 2 * self.sensitivity * math.log(len(_HALF_WIDTHS) / (self.alpha * _MISS)) / self.eps

    def targets(self, n: int) -> tuple[float, ...]:
        """The ranks, from below and from above, of order statistics of `n` that cover the quantile."""
        spread = self._z * math.sqrt(self.q * (1 - self.q) * (n + _SOFTENING))
        return tuple(q * n - spread - _correction(q, self._tail) for q in (self.q, 1 - self.q))

    def scores(self, x: Floats, centre: float) -> Floats:
        """Score of every half-width for sorted data: minus the distance from `reach` ranks beyond the
        targets.

        A half-width is scored together with the next smaller one, between which the ranks may jump.
        """
        below, above = self.targets(len(x))
        outside = np.maximum(
            np.searchsorted(x, centre - _HALF_WIDTHS, side="left") - below,
            len(x) - np.searchsorted(x, centre + _HALF_WIDTHS, side="right") - above,
        )
        outside[-1] = -math.inf
        before = np.append(math.inf, outside[:-1])
        return -np.maximum(np.maximum(outside + self.reach, -self.reach - before), 0.0)

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
        weights = self.eps * self.scores(x, centre) / (2 * self.sensitivity)
        return float(_HALF_WIDTHS[int(np.argmax(weights + rng.gumbel(len(weights))))])
