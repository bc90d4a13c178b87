"""Several private quantiles of a column together, and the released counts around them. All noise is Gaussian.

Noisy bisection finds the quantiles; noisy counts of the rows between points around them then say how the
column is distributed there, for a better estimate and for its interval (Woodruff 1952).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import ndtri

from dpstats._types import Floats, Words
from dpstats.mechanisms import _kernels
from dpstats.mechanisms.noise import gaussian
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import BISECTIONS, from_key

__all__ = ["Distribution", "bisected", "bisection_sensitivity", "counted"]

_ROUNDED = 1 + 2.0**-20
"""The products ``q n`` are rounded: of fewer than 2^31 rows, by less than this allows for."""
_NEAR, _FAR = -13, 3
"""Points lie at powers of two of the spread of the quantiles, from the closest to the farthest."""
_PARTS = 8
"""Each length between two points is cut into so many."""
_FINEST = 2.0**-20
"""Least spread, relative to the quantiles themselves."""


def bisection_sensitivity(q: Floats) -> float:
    r"""By how much a row moves the numbers of rows below `k` ascending points, less what is aimed at.

    A row adds :math:`1\{x < t_j\} - q_j` to the `j`-th; it lies above the first `c` points and below the
    others for some `c`.

    Examples
    --------
    >>> round(bisection_sensitivity(np.array([0.25, 0.5, 0.75])), 4)
    0.9354
    """
    return max(math.sqrt(float(np.sum(q[:c] ** 2) + np.sum((1 - q[c:]) ** 2))) for c in range(len(q) + 1))


def bisected(x: Floats, q: Floats, mu: float, rng: Randomness) -> Floats:
    """Release quantiles of sorted doubles by noisy bisection of the lattice of doubles, all at once.

    Parameters
    ----------
    x : (n,) array
        Finite, sorted.
    q : (k,) array
        Ascending, in (0, 1).
    mu : float
    rng : Randomness

    Returns
    -------
    (k,) array
        Ascending, to 2^-30 of their own magnitude.

    Notes
    -----
    **Privacy.** Neighbours: one record added or removed. Each of 39 steps compares ``#{x < t_j} - q_j n``
    with 0 for all `j`. The points ``t_j`` ascend, as they are made to, so that a row moves the vector by at
    most :func:`bisection_sensitivity`; each step is Gaussian noise at ``mu / sqrt(39)``, composed adaptively
    in GDP. Argument: ``docs/privacy/describe.md``.
    """
    q = np.asarray(q, float)
    sensitivity, budget = _ROUNDED * bisection_sensitivity(q), mu / math.sqrt(BISECTIONS)
    cell: Words = np.zeros(len(q), np.uint64)
    for step in range(BISECTIONS):
        shift = np.uint64(_kernels.KEY_BITS - step - 1)
        upper = (cell << np.uint64(1)) + np.uint64(1)
        below = np.searchsorted(x, from_key(upper << shift), side="left")
        statistic = gaussian(below - q * len(x), sensitivity, budget, rng)
        cell = np.maximum.accumulate(np.where(statistic > 0, upper - np.uint64(1), upper))
    shift = np.uint64(_kernels.KEY_BITS - BISECTIONS)
    ends = from_key(cell << shift), from_key((cell + np.uint64(1)) << shift)
    # numbers of few digits lie next to the end that is nearer to zero
    inner = np.where(np.abs(ends[0]) <= np.abs(ends[1]), *ends)
    return np.sort(np.where(inner == 0, 0.0, np.nextafter(inner, np.copysign(np.inf, inner))))


@dataclass(frozen=True)
class Distribution:
    """How many rows lie below some points: released, with their standard errors.

    Attributes
    ----------
    at : (m,) array
        Ascending.
    below : (m,) array
        Numbers of rows below, ascending too.
    sd : (m,) array
        Standard deviations of their noise.
    anchors : (k,) array
        The points about which the others lie.
    """

    at: Floats
    below: Floats
    sd: Floats
    anchors: Floats

    def quantile(self, rank: float) -> float:
        """The value with so many rows below it; infinite beyond the points."""
        if not self.below[0] <= rank <= self.below[-1]:
            return math.copysign(math.inf, rank - self.below[0])
        value = float(np.interp(rank, self.below, self.at))
        near = self.anchors[np.argmin(np.abs(self.anchors - value))]
        i = int(np.searchsorted(self.at, near))
        low, high = self.at[max(i - 1, 0)], self.at[min(i + 1, len(self.at) - 1)]
        # closer than the closest points nothing is known
        return float(near) if low < value < high else value

    def estimate(self, rank: float) -> float:
        """As :meth:`quantile`, but an anchor where the counts allow that it is one: values of few digits, of
        which there are many rows, are found exactly by the search and not between points.
        """
        off = np.abs(np.interp(self.anchors, self.at, self.below) - rank)
        i = int(np.argmin(off))
        near = off[i] < float(np.interp(self.anchors[i], self.at, self.sd))
        return float(self.anchors[i]) if near else self.quantile(rank)

    def interval(self, q: float, count: float, count_sd: float, alpha: float) -> tuple[float, float]:
        """Woodruff's interval of a population's quantile: sampling and privacy noise, in ranks.

        Its ends are points, the next ones outwards: between two of them all rows may be in one place.

        Parameters
        ----------
        q : float
        count, count_sd : float
            Released number of rows, and the standard deviation of its noise.
        alpha : float

        Returns
        -------
        low, high : float
            Infinite beyond the points.
        """
        rank = q * count
        noise = self.sd  # of an end its own: it may hang on another anchor than what is at the rank
        half = -float(ndtri(alpha / 2)) * np.sqrt(
            q * (1 - q) * max(count, 1.0) + noise**2 + (q * count_sd) ** 2
        )
        below, above = np.flatnonzero(self.below + half <= rank), np.flatnonzero(self.below - half >= rank)
        return (
            float(self.at[below[-1]]) if len(below) else -math.inf,
            float(self.at[above[0]]) if len(above) else math.inf,
        )


def counted(
    x: Floats,
    anchors: Floats,
    unit: float,
    mu_anchors: float,
    mu_points: float,
    mu_parts: float,
    rng: Randomness,
) -> Distribution:
    """Release the numbers of rows below points around `anchors`.

    Parameters
    ----------
    x : (n,) array
        Finite, sorted.
    anchors : (k,) array
        Released, ascending.
    unit : float
        A released length, for anchors that are all the same.
    mu_anchors, mu_points, mu_parts : float
    rng : Randomness

    Returns
    -------
    Distribution

    Notes
    -----
    **Privacy.** Three histograms, over cells that are fixed by what has been released before: a row adds 1 to
    one cell of each. GDP with the root of the sum of the squares of the three parameters, under add-remove.
    Argument: ``docs/privacy/describe.md``.
    """
    anchors = np.unique(anchors)
    spread = max(float(anchors[-1] - anchors[0]), _FINEST * float(np.abs(anchors).max()))
    if anchors[-1] == anchors[0]:
        spread = max(unit, spread) or 1.0
    steps = spread * 2.0 ** np.arange(_NEAR, _FAR + 1)
    inner = steps[steps <= spread / 2]
    around = [
        anchors,
        *(anchors[:, None] + s * inner for s in (-1, 1)),
        anchors[0] - steps,
        anchors[-1] + steps,
    ]
    points = np.unique(np.concatenate([np.ravel(p) for p in around]))
    points = points[np.isfinite(points)]
    parts = np.linspace(points[:-1], points[1:], _PARTS, endpoint=False, axis=1)
    at = np.unique(np.append(parts, points[-1]))

    below = np.cumsum(_histogram(x, anchors, mu_anchors, rng)[:-1])
    variance = np.arange(1, len(anchors) + 1) / mu_anchors**2
    # every point hangs on the nearest anchor, and what is between points on the nearest of these
    below, variance = _hung(
        anchors, below, variance, points, _histogram(x, points, mu_points, rng), mu_points
    )
    below, variance = _hung(points, below, variance, at, _histogram(x, at, mu_parts, rng), mu_parts)
    return Distribution(at, isotonic_regression(below, weights=1 / variance).x, np.sqrt(variance), anchors)


def _histogram(x: Floats, at: Floats, mu: float, rng: Randomness) -> Floats:
    """Noisy numbers of rows below the first point, between each and the next, and above the last."""
    return gaussian(np.diff(np.searchsorted(x, at, side="left"), prepend=0, append=len(x)), 1.0, mu, rng)


def _hung(
    known: Floats, below: Floats, variance: Floats, at: Floats, counts: Floats, mu: float
) -> tuple[Floats, Floats]:
    """Numbers of rows below the points `at`, from those below the nearest `known` point and counts between;
    and their variances."""
    places = np.searchsorted(at, known)
    nearest = np.argmin(np.abs(np.arange(len(at))[:, None] - places), axis=1)
    sums = np.concatenate([[0.0], np.cumsum(counts[1:-1])])
    cells = np.abs(np.arange(len(at)) - places[nearest])
    return below[nearest] + sums - sums[places[nearest]], variance[nearest] + cells / mu**2
