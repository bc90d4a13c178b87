"""A test of constant error variance from two released matrices."""

import math

import numpy as np
from scipy.special import chdtrc

from dpstats._types import Floats
from dpstats.results.hypotheses import HetTest

__all__ = ["het_test"]

_NORMAL = 3.0
_MISFIT = 0.1
"""The two matrices weigh rows far out differently: a difference of a tenth says nothing."""


def het_test(
    outer: Floats, outer_noise: float, gram: Floats, gram_noise: float, count: float, kurtosis: float
) -> HetTest:
    r"""Compare the outer products of the scores with the Gram matrix, to which they are proportional under
    errors of constant variance (White 1980).

    .. math:: \sum_{i \le j} \frac{(|M - t G|_{ij} - a)_+^2}{s_{ij}^2}, \qquad
              t = \operatorname{tr} M / \operatorname{tr} G,

    with :math:`s_{ij}^2` the variance of the privacy noise and of the sampling for normal covariates, and
    ``a`` a tenth of the largest entry of ``t G``: both matrices limit rows far out, at different places,
    which alone can make such a difference. Under the hypothesis the sum is at most about chi-squared with
    ``q (q + 1) / 2 - 1`` degrees of freedom, so the test is conservative, and a variance that changes little
    with the covariates is not seen.

    Parameters
    ----------
    outer, gram : (q, q) arrays
        ``M`` and ``G``, over the number of rows.
    outer_noise, gram_noise : float
        Standard deviations of the noise on their diagonals; off it, ``sqrt(2)`` times smaller.
    count : float
    kurtosis : float
        Of the errors; taken as at least that of normal ones.

    Examples
    --------
    >>> M = np.array([[1.0, 0.0], [0.0, 3.0]])
    >>> print(het_test(M, 0.05, np.eye(2), 0.05, 2000, 3.0))
    Constant error variance: chi2(2) = 52.24, p < 0.001
    """
    q = len(gram)
    t = max(float(np.trace(outer) / np.trace(gram)), 0.0)
    contrast = outer - t * gram
    where = np.triu_indices(q)
    diagonal = where[0] == where[1]
    privacy = (outer_noise**2 + t**2 * gram_noise**2) * np.where(diagonal, 1.0, 0.5)
    # columns with few rows have smaller entries, as those rows are shortened
    size = max(float(np.diagonal(gram).max()), gram_noise)
    sampling = (t * size) ** 2 * (max(kurtosis, _NORMAL) - 1) / count
    variance = privacy + sampling * np.where(diagonal, 3.0, 1.0)
    beyond = np.maximum(np.abs(contrast[where]) - _MISFIT * t * size, 0.0)
    statistic = float(np.sum(beyond**2 / variance))
    df = math.comb(q + 1, 2) - 1
    return HetTest(statistic, float(chdtrc(df, statistic)) if df else 1.0, df)
