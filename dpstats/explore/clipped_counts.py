"""Means of limited functions of a Poisson count, as its law has them."""

import numpy as np
from scipy import special

from dpstats._types import Floats

__all__ = ["mean_excess", "mean_residual"]

_LARGE = 1e6
"""Of larger means the limits take hardly anything off, or as much on either side."""


def mean_residual(mean: Floats, sd: Floats, limit: Floats) -> Floats:
    r"""Mean of ``(y - mean) / sd``, moved into ``(-limit, limit)``, where `y` is a Poisson count.

    With the counts between the limits from :math:`a` to :math:`b`, their probabilities :math:`p` and
    :math:`\sum_{y=a}^b (y - m)\,p(y) = m\,(p(a - 1) - p(b))`.

    Parameters
    ----------
    mean, sd, limit : (n,) arrays
        Positive.

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> mean_residual(np.array([0.03, 4.0]), np.array([0.03, 4.0]) ** 0.5, np.array([5.0, 5.0])).round(4)
    array([-0.0203, -0.    ])
    """
    m = np.minimum(mean, _LARGE)
    low, high = np.ceil(m - limit * sd), np.floor(m + limit * sd)
    inside = m * (_probability(low - 1, m) - _probability(high, m)) / sd
    found = inside + limit * (special.pdtrc(high, m) - _below(low, m))
    return np.where(mean < _LARGE, found, 0.0)


def mean_excess(mean: Floats, scale: Floats, limit: float) -> Floats:
    r"""Mean of ``((y - mean)^2 - y) / scale``, or `limit` where it is less, where `y` is a Poisson count.

    As :func:`mean_residual`, with :math:`\sum_{y=a}^b ((y - m)^2 - y)\,p(y) = m\,[(m - b)\,p(b) - (m - a +
    1)\,p(a - 1)]`.

    Parameters
    ----------
    mean, scale : (n,) arrays
        Positive.
    limit : float

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> mean_excess(np.array([0.5, 50.0]), np.array([0.5, 50.0]), 12.0).round(4)
    array([-0.0106, -0.0007])
    """
    m = np.minimum(mean, _LARGE)
    half = np.sqrt(m + 0.25 + limit * scale)
    low, high = np.ceil(m + 0.5 - half), np.floor(m + 0.5 + half)
    inside = m * ((m - high) * _probability(high, m) - (m - low + 1) * _probability(low - 1, m)) / scale
    found = inside + limit * (special.pdtrc(high, m) + _below(low, m))
    return np.where(mean < _LARGE, found, 0.0)


def _probability(count: Floats, mean: Floats) -> Floats:
    k = np.maximum(count, 0.0)
    return np.where(count < 0, 0.0, np.exp(special.xlogy(k, mean) - mean - special.gammaln(k + 1)))


def _below(count: Floats, mean: Floats) -> Floats:
    """Probability of fewer."""
    return np.where(count <= 0, 0.0, special.pdtr(np.maximum(count - 1, 0.0), mean))
