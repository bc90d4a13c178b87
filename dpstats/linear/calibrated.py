r"""A clip chosen by the intervals that it leads to: the shortest that hold on average over the tails.

An interval :math:`\hat\beta \pm z \sqrt{V + k}` of an estimate with the variance ``V`` and the bias ``b``
holds with the probability

.. math:: \Phi(z \sqrt{1 + k / V} - b / \sqrt V) - \Phi(-z \sqrt{1 + k / V} - b / \sqrt V).

The posterior over the tails of the parts (:mod:`dpstats.linear.tails`) gives the law of ``b`` for every clip,
and ``k`` is the least variance with which the mean of this probability is 95 %, or the mean of the squared
bias where that is less.
"""

import functools
import math

import numpy as np
from scipy.special import ndtr

from dpstats._types import Floats, Integers
from dpstats.linear.clip import INFORMATION, SEEN, Clip, visible
from dpstats.linear.tails import CLIPS, EDGES, GRID, MISFIT, TAIL, Tail, squares_beyond
from dpstats.mechanisms._kernels import EXPONENT

__all__ = ["allowance", "calibrated_clip"]

_LEVEL, _Z = 0.95, 1.959963984540054
_RATIOS = np.concatenate([[0.0], np.geomspace(0.01, 200.0, 400)])
"""Biases in standard deviations; others are taken as the next larger one."""
_ADDED = np.concatenate([[0.0], np.geomspace(0.003, 1e4, 240)])
"""Variances that are added, over the variance without a bias."""
_NEAR, _CLOSE = 4, 0.05
"""Beyond so many cells tails are taken to fit within a twentieth: with many rows a misfit in the cells near
the typical size would decide how far they go."""
_OUT, _FAR = (slice(TAIL + 6, TAIL + 7), 1.0, 3.0), (slice(TAIL + 7, TAIL + 10), -3.0, 3.0)
"""Cells of 8 to 16 times the typical size, and of more; from how many standard deviations of their noise on
rows may be there, and from how many on they are."""


def calibrated_clip(
    edges: Integers, counts: Floats, sd: float, q: int, count: float, noise: float, variance: float
) -> Clip:
    """Read a clip off released counts of parts of the score.

    Parameters
    ----------
    edges, counts, sd, q, count, noise
        As of :func:`~dpstats.linear.clip.choose_clip`.
    variance : float
        Of the parts along one direction.

    Returns
    -------
    Clip
        Its `bias` is the root of `q` times what is added along one direction.

    Notes
    -----
    Post-processing of the counts. The bias along a direction is the difference of the mean excesses of both
    signs over the root of the number of directions; that both have one tail has prior odds of 7 to 1. That
    few rows lie far out, which the prior holds to be unlikely and the counts do not show, is paid for by the
    other tails' intervals, which cover more; a root mean square over the tails would let a hundredth of the
    posterior decide the width of all intervals.

    What is cut is spread over all `q` directions, unless rows are seen at 16 times the typical size and more:
    these are those of large means, or far out in a column, so that it is along one. Where noise is more than
    sampling, a clip farther out for that would cost more than it mends, and directions stay more.
    """
    size = 2.0 ** ((edges[TAIL - 1] - EXPONENT) / 2)
    misfit = np.where(np.arange(len(EDGES) + 1 - TAIL) < _NEAR, MISFIT, _CLOSE)
    minus, plus = (Tail.of(cells[TAIL:], sd, count, misfit) for cells in counts)
    low, high, weights = minus.pairs(plus)
    norms = size * GRID[CLIPS]
    variances = variance / count + (norms * noise) ** 2
    seen, _ = visible(edges, counts, sd, count)
    biases = np.empty((len(norms), len(weights)))
    for i in range(len(norms)):
        above, below = plus.excesses[high, i], minus.excesses[low, i]
        biases[i] = np.maximum(np.maximum(above, seen[1, i]) - below, np.maximum(below, seen[0, i]) - above)
    beyond = minus.beyond + plus.beyond
    squares = squares_beyond(beyond)

    def choice(directions: float) -> tuple[int, float, float]:
        """The clip, what is added along a direction, and the squares that are cut, of one of so many."""
        scale, cut = size / math.sqrt(directions), size**2 * squares / directions
        added = np.array([allowance(b * scale, weights, v) for b, v in zip(biases, variances, strict=True)])
        # rows far out may be all that there is of a direction
        best = int(np.argmin(variances + added + INFORMATION * cut / count))
        return best, float(added[best]), float(cut[best])

    best, added, cut = choice(q)
    far = _far_out(counts, sd) * min(variance / count / (norms[best] * noise) ** 2, 1.0)
    if far > 0:
        best, added, cut = choice(q ** (1 - far))
    bias, again = math.sqrt(q * added), q * cut
    return Clip(float(norms[best]), bias, size * GRID, beyond, unseen=SEEN * sd, again=again)


def _far_out(counts: Floats, sd: float) -> float:
    """How far rows of large counts are seen far out, from 0 to 1."""
    share = 1.0
    for cells, least, most in (_OUT, _FAR):
        rows = float(counts[1, cells].sum()) / (sd * math.sqrt(cells.stop - cells.start))
        share *= min(max((rows - least) / (most - least), 0.0), 1.0)
    return share


def allowance(biases: Floats, weights: Floats, variance: float) -> float:
    """The least variance to add for 95 % coverage on average, at most the mean square of the biases.

    Parameters
    ----------
    biases, weights : (m,) arrays
        Possible biases, not negative, and their probabilities.
    variance : float
        Of the estimate.

    Examples
    --------
    >>> allowance(np.array([0.0]), np.ones(1), 1.0)
    0.0
    >>> round(allowance(np.array([3.0]), np.ones(1), 1.0), 1)
    4.7
    >>> round(allowance(np.array([0.0, 1000.0]), np.array([0.99, 0.01]), 1.0), 2)
    0.09
    """
    square = float(weights @ biases**2)
    cells = np.minimum(np.searchsorted(_RATIOS, biases / math.sqrt(variance)), len(_RATIOS) - 1)
    held = _held() @ np.bincount(cells, weights, len(_RATIOS))
    if held[-1] < _LEVEL:
        return square
    # coverage is concave in what is added: between two points a chord asks for too much, if for anything
    return min(square, float(np.interp(_LEVEL, held, _ADDED)) * variance)


@functools.cache
def _held() -> Floats:
    """Probability that an interval holds, by what is added and by the bias."""
    half = _Z * np.sqrt(1 + _ADDED)[:, None]
    return np.asarray(ndtr(half - _RATIOS) - ndtr(-half - _RATIOS), float)
