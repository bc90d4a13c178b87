"""What is seen of what a clip takes off: what lies beyond it, and how far products are off their centre."""

import math
from collections.abc import Sequence

import numpy as np

from dpstats._types import Array, Floats
from dpstats.linear.clip import Clip
from dpstats.linear.spread import raised, seen_moment

__all__ = ["PART", "skewness", "unsettled", "with_seen"]

PART, _BELOW = 0.25, 16
"""Where products are limited for :func:`skewness`, in clips, and parts of the first size, below which there
are no counts."""
_GOES_ON, _REACHES, _MOST_SEEN, _SURELY = 10.0, 2.5, 2.0, 2.5
"""What is seen to be cut, up to twice the clip, counts so many times the typical size over the clip, and the
second times at most: a rule of thumb from simulated costs. It ends with so many times the bias that the
counts show; where it is seen by so many standard deviations, with that of signs that differ."""
_OF_TAIL = 8.0
"""What is seen of skewness within the clip counts at most so many times what lies beyond it by the counts
over what lies within: rows that are alike on both sides have a part in the counts, and none in what is seen.
"""


def skewness(
    clip: Clip, inner: Floats, noise: float, score: Floats, rest: float, count: float
) -> tuple[Floats, float]:
    """How far products within a quarter of the clip are off their centre, to the side of what the clip takes
    off, and the variance of an entry that is not skewness.

    Products that the clip limits add up to 0 at the estimates. Where the long ones point elsewhere than the
    others, those between the quarter and the clip therefore add up to the negative of what the quarter
    leaves, and what is beyond the clip goes on in that direction: errors that are skewed in some rows show
    there, whatever those of the other rows are.

    Parameters
    ----------
    clip : Clip
    inner : (q,) array
        Released mean of the products, shortened to a quarter of the clip.
    noise : float
        Standard deviation of the noise of an entry.
    score, rest : (q,) array and float
        Mean of the products that the clip limits (:func:`unsettled`), and the standard deviation of an entry.
    count : float

    Examples
    --------
    >>> clip = Clip(4.0, 0.1, np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.5, 0.2, 0.05, 0.0]))
    >>> far, variance = skewness(clip, np.array([-0.2, 0.0]), 0.01, np.zeros(2), 0.01, 1e4)
    >>> far, round(variance, 6)
    (array([0.2, 0. ]), 0.000135)
    """
    share, left = _within(clip)
    return share * score - inner, noise**2 + (share * rest) ** 2 + left / count / len(inner)


def _within(clip: Clip) -> tuple[float, float]:
    """Which share of the rows that the clip leaves as they are a quarter of it leaves, and the mean square of
    what that limits products to, less the share of what the clip does."""
    first = clip.sizes[0]
    below = first * (np.arange(_BELOW) + 0.5) / _BELOW  # rows below the first size are spread evenly
    sizes = np.concatenate([below, np.sqrt(clip.sizes[1:] * clip.sizes[:-1]), clip.sizes[-1:]])
    rows = -np.diff(clip.beyond, prepend=clip.beyond[0], append=0.0)[1:]
    rows = np.maximum(np.concatenate([np.full(_BELOW, (1 - clip.beyond[0]) / _BELOW), rows]), 0.0)
    within = float(rows[sizes < clip.norm].sum())  # none by counts that are noise
    share = float(rows[sizes < PART * clip.norm].sum()) / within if within > 0 else 1.0
    rest = np.minimum(sizes, PART * clip.norm) - share * np.minimum(sizes, clip.norm)
    return share, float(rows @ rest**2)


def unsettled(
    path: Sequence[Array], step: Array, curvature: Floats, noise: float, rest: float
) -> tuple[Array, float]:
    """Mean of the score at the average of a path, as far as steps along it have not brought it to 0, and the
    standard deviation of an entry.

    Parameters
    ----------
    path : sequence of (q,) arrays
        Where rounds were that are averaged, after one in which they began.
    step, curvature : (q, q) arrays
        What a mean score was multiplied by, and by how much it moves.
    noise, rest : float
        Standard deviations of the noise of `curvature`, and of the mean of the released scores.

    Examples
    --------
    >>> one = np.eye(1)
    >>> unsettled([np.zeros(1), 0.5 * np.ones(1)], step=0.5 * one, curvature=one, noise=0.2, rest=0.0)
    (array([0.5]), 0.1)
    """
    moved = (path[-1] - path[0]) / (len(path) - 1)
    score = np.linalg.solve(step, moved) - curvature @ moved
    return np.asarray(score), math.hypot(rest, noise * float(np.linalg.norm(moved)))


def with_seen(
    moment: Floats, clip: Clip, excess: tuple[Floats, float], skewed: tuple[Floats, float] | None
) -> Floats:
    """A bound on the second moment of what a clip takes off, with what released vectors show along
    themselves, where that is more.

    Of the excess two and a half times the root mean square of its posterior
    (:func:`~dpstats.linear.spread.seen_moment`) counts, and less for a clip beyond four times the typical
    size; of the skewness no more than eight times the part of it that lies beyond the clip, by the counts.
    That is at most twice the bias that the counts show, since noise is seen by chance; and of what is seen
    with more certainty, that of signs that differ, whether the counts show that they do or not.

    Parameters
    ----------
    moment : (q, q) array
    clip : Clip
    excess, skewed : tuple of (q,) array and float
        The released excess, and the :func:`skewness`, if it was released, each with the variance of an entry.
    """
    if len(clip.sizes) == 1:
        return moment
    unlike = clip.signs.unlike if clip.signs else 0.0
    for released, of_tail, surely in ((excess, math.inf, _SURELY), (skewed, _OF_TAIL, 1.0)):
        if released is None or not seen_moment(*released).any():
            continue
        factor = _goes_on(clip, of_tail)
        for deviations, most in ((1.0, _MOST_SEEN * clip.bias), (surely, unlike)):
            likely = factor**2 * seen_moment(*released, deviations)
            if likely.any():
                moment = raised(moment, likely, released[0], most**2)
    return moment


def _goes_on(clip: Clip, of_tail: float) -> float:
    """How many times what is seen may be what the clip takes off, and no more than `of_tail` times what lies
    beyond it over what lies between a quarter of it and it."""
    times = min(_GOES_ON * math.sqrt(clip.power(clip.norm, 2)) / clip.norm, _REACHES)
    beyond = clip.excess(clip.norm)
    within = max(clip.excess(PART * clip.norm) - beyond, 1e-300)
    return min(times, of_tail * beyond / within) if math.isfinite(of_tail) else times
