"""What a clip takes off where rows far out are not on the line of the others."""

import math

import numpy as np
from scipy.special import chdtri

from dpstats._types import Floats
from dpstats.linear.scores import EXCESS_NOISE
from dpstats.linear.spread import raised, seen_moment

__all__ = ["MANY_ROWS", "OFF_THE_LINE", "of_large_units", "with_misfit", "with_unlike_rows"]

OFF_THE_LINE = (
    "Rows far out lie off the line of the others; intervals allow for what is cut of that. A curve, or the "
    "logarithm of a column, may fit them."
)
"""What a table says where a misfit is seen, and most of the variance is for it."""
MANY_ROWS = (
    "Units of many rows visibly differ from the others, and count less than all of their rows. Intervals "
    "allow for what is seen of that, which may be less than there is where a few units have very many. More "
    "units, a larger eps or, of linear models, adassp() count more of their rows."
)
"""The same of units."""
_SEEN = 4.0
"""Standard deviations of the noise from which it is."""
_GOES_ON = 14.0
"""A clip at so many times the typical size may take off as much of a misfit as it leaves."""
_REACHES, _AT_LEAST = 2.5, 2.0
"""Nor more than so many times what it takes off up to twice its length, and two standard deviations of that,
since less is not seen."""
_MORE = 2.0
"""What is seen of units of many rows counts so many times: of all rows beyond twice as many nothing is."""
_TIMES, _TOGETHER, _ALONE = (3.0, 4.0), (1.5, 2.0), 2.0
"""What is seen of rows far out counts so many times, of shares and of counts, if that is more than noise by
so many standard deviations of its mean square: of all entries, and of shares along a coefficient alone."""
_ALARMS = 0.05
"""Of counts, which are noisier, noise is taken for more along any coefficient with this probability."""
_WEIGHTED = 10.0
"""Weights of rows longer than a radius take off so much of a misfit over what they leave, over the square of
the radius a column: about what they do where a log-normal column has no effect far out."""


def with_misfit(
    cut: Floats,
    excess: Floats,
    contrast: Floats,
    noise: float,
    rest: float,
    sampling: Floats,
    ratio: float,
    radius2: float = math.inf,
) -> tuple[Floats, bool]:
    r"""A bound on the second moment of what a clip takes off, (q, q), where the line need not be straight,
    and whether it visibly is not.

    If it is straight, the parts of the score of rows far out add up to about 0. Since all parts together are
    0 at the estimates, what they add up to is ``g``, half of the released difference of theirs and the
    others'. Where the mean square of its entries is above its noise, by more than a standard deviation, the
    clip is held to take off in the same direction: as a root mean square, ``14 / ratio`` times what `g` is
    without its noise, the less the farther out the clip is, and at most two and a half times what is seen to
    be cut along `g` up to twice the clip, with two standard deviations for what is not seen. Along `g` that
    is in place of what `cut` has, if it is more. Where rows longer than a radius ``R`` have less weight, that
    takes off ``10 q / R^2`` times `g` besides.

    Parameters
    ----------
    cut : (q, q) array
        The bound for a straight line (:meth:`~dpstats.linear.clip.Clip.moment`).
    excess, contrast : (q,) arrays
        Means of what :func:`~dpstats.linear.scores.product_excess` releases.
    noise, rest : float
        Standard deviations of the noise of an entry of `excess`, and of what all parts together come to.
    sampling : (q, q) array
        Covariance of the mean score by sampling.
    ratio : float
        The clip over the typical size of a part.
    radius2 : float
        ``R^2``; infinite if all rows have the same weight.

    Examples
    --------
    >>> straight, none, far = np.eye(2), np.zeros(2), np.array([0.0, 3.0])
    >>> known = {"rest": 0.0, "sampling": np.eye(2) / 400, "ratio": 7.0}
    >>> bound, seen = with_misfit(straight, 3 * far, far, noise=0.1, **known)
    >>> bound.round(2), seen
    (array([[1.02, 0.  ],
           [0.  , 8.95]]), True)
    >>> with_misfit(straight, none, far, noise=9.0, **known)
    (array([[1., 0.],
           [0., 1.]]), False)
    """
    g, q = contrast / 2, len(cut)
    noise2 = (noise / EXCESS_NOISE) ** 2 / 4 + rest**2 / 4 + float(np.trace(sampling)) / q
    square, sd = float(g @ g) / q, noise2 * math.sqrt(2 / q)
    seen = seen_moment(g, noise2)
    if not seen.any():
        return cut, False
    along = float(excess @ g) / math.sqrt(q * square)
    most = _REACHES * (max(along, 0.0) + _AT_LEAST * noise)
    clipped = raised(cut, (_GOES_ON / ratio) ** 2 * seen, g, most**2)
    return clipped + (_WEIGHTED * q / radius2) ** 2 * seen, square > noise2 + _SEEN * sd


def of_large_units(contrast: Floats, noise: float, rest: float, sampling: Floats) -> tuple[Floats, bool]:
    r"""A bound on the second moment of what sums lack, (q, q), where units of many rows count as if they had
    fewer, and whether these visibly differ from the others.

    Where they do not, their parts add up to about 0. Since all parts together are 0 at the estimates, half of
    the released difference of theirs and the others' is ``g``, by how much the score would be off if the rows
    of a unit counted, up to twice as many. Where that is more than noise, the bound is the square of twice
    that, which is enough for units of up to some three times as many rows.

    Parameters
    ----------
    contrast, noise, rest, sampling
        As of :func:`with_misfit`; `noise` is that of the excess.
    """
    g, q = contrast / 2, len(contrast)
    noise2 = ((noise / EXCESS_NOISE) ** 2 + rest**2 + float(np.trace(sampling)) / q) / 4
    square, sd = float(g @ g) / q, noise2 * math.sqrt(2 / q)
    return _MORE**2 * seen_moment(g, noise2), square > noise2 + _SEEN * sd


def with_unlike_rows(
    cut: Floats, along: Floats, apart: Floats, excess: Floats, noise2: float, *, counts: bool = False
) -> Floats:
    r"""A bound on the second moment of what weights take off the mean score, (q, q), where rows far out need
    not follow the model of the others.

    Where they do, what is released of them has the mean 0. What it is seen to be counts three times, of
    counts four times: along itself, and along each coefficient alone, as of one column with rows far out. On
    real tables the fit in which all rows count alike was 1.2 to 4 times as far away as what is released
    leads, of counts 2 to 7 times (``benchmarks/glm/README.md``).

    Parameters
    ----------
    cut : (q, q) array
        The bound where the model holds.
    along : (q, k) array
        What coefficients are multiplied by: that times the mean score is what moves them.
    apart : (q, k) array
        For each the score that moves it and, for its size, others the least.
    excess : (q,) array
        Released mean of what larger limits add, or of counts of the parts of rows that have less weight.
    noise2 : float
        Variance of an entry.
    counts : bool
        Whether responses are counts, and not shares.

    Examples
    --------
    >>> one = np.eye(2)
    >>> with_unlike_rows(one, one, one, np.array([4.0, 0.0]), 1.0).round(1)
    array([[133.3,   0. ],
           [  0. ,   8.6]])
    >>> with_unlike_rows(one, one, one, np.array([1.5, -1.0]), 1.0)
    array([[1., 0.],
           [0., 1.]])
    """
    times, together, one = _TIMES[counts], _TOGETHER[counts], _ALONE
    if counts and along.size:
        one = (float(chdtri(1, _ALARMS / along.shape[1])) - 1) / math.sqrt(2)
    seen = seen_moment(excess, noise2, together)
    bound = raised(cut, times**2 * seen, excess) if seen.any() else cut
    for way, score in zip(along.T, apart.T, strict=True):
        size = float(np.linalg.norm(way))
        alone = seen_moment(np.array([way @ excess / size]), noise2, one)
        more = times**2 * size**2 * float(alone[0, 0]) - float(way @ bound @ way)
        if more > 0:
            bound = bound + more / float(way @ score) ** 2 * np.outer(score, score)
    return bound
