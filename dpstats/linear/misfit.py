"""What a clip takes off where rows far out are not on the line of the others."""

import math

import numpy as np

from dpstats._types import Floats

__all__ = ["FAR", "OFF_THE_LINE", "with_misfit"]

FAR = 5.0
"""Rows are far out from this squared length on, a column: five times its mean."""
OFF_THE_LINE = (
    "Rows far out lie off the line of the others; intervals allow for what is cut of that. A curve, or the "
    "logarithm of a column, may fit them."
)
"""What a table says where a misfit is seen, and has most of the variance."""
_SEEN = 4.0
"""Standard deviations of the noise from which it is."""
_GOES_ON = 10.0
"""A clip at so many times the typical size may take off as much of a misfit as it leaves."""


def with_misfit(
    cut: Floats,
    excess: Floats,
    contrast: Floats,
    noise: float,
    left: float,
    sampling: Floats,
    ratio: float,
) -> tuple[Floats, bool]:
    r"""A bound on the second moment of what a clip takes off, (q, q), where the line need not be straight,
    and whether it visibly is not.

    If it is straight, the parts of the score of rows far out add up to about 0. What they add up to is half
    of what the released difference of theirs and the others' and the released excess come to,

    .. math:: g = (\mathrm{contrast} + \mathrm{excess}) / 2,

    since all parts together are 0 at the estimates. Where the mean square of its entries is above its noise,
    by more than a standard deviation, the clip is held to take off in the same direction: as a root mean
    square, ``10 / ratio`` times what `g` is without its noise, the less the farther out the clip is. Along
    `g` that is in place of what `cut` has, if it is more.

    Parameters
    ----------
    cut : (q, q) array
        The bound for a straight line (:meth:`~dpstats.linear.clip.Clip.moment`).
    excess, contrast : (q,) arrays
        Means of what :func:`~dpstats.linear.scores.product_excess` releases.
    noise, left : float
        Standard deviations of the noise of an entry of both, and of what all parts together come to.
    sampling : (q, q) array
        Covariance of the mean score by sampling.
    ratio : float
        The clip over the typical size of a part.

    Examples
    --------
    >>> straight, none, far = np.eye(2), np.zeros(2), np.array([0.0, 3.0])
    >>> known = {"left": 0.0, "sampling": np.eye(2) / 400, "ratio": 5.0}
    >>> bound, seen = with_misfit(straight, none, far, noise=0.1, **known)
    >>> bound.round(2), seen
    (array([[1.03, 0.  ],
           [0.  , 8.91]]), True)
    >>> with_misfit(straight, none, far, noise=3.0, **known)
    (array([[1., 0.],
           [0., 1.]]), False)
    """
    g, q = (contrast + excess) / 2, len(cut)
    noise2 = noise**2 / 2 + left**2 / 4 + float(np.trace(sampling)) / q
    square, sd = float(g @ g) / q, noise2 * math.sqrt(2 / q)
    spare = square - noise2 - sd
    if spare <= 0:
        return cut, False
    # the second moment of the posterior, if the entries are normal with the variance that is not noise
    kept = spare / (spare + noise2)
    likely = (_GOES_ON / ratio) ** 2 * kept * (kept * np.outer(g, g) + noise2 * np.eye(q))
    along, there = float(g @ likely @ g), float(g @ cut @ g)
    return cut + max(1 - there / along, 0.0) * likely, square > noise2 + _SEEN * sd
