"""A test of constant error variance from two released matrices."""

import math

import numpy as np
from scipy.special import chdtrc

from dpstats._types import Floats
from dpstats.results.hypotheses import HetTest

__all__ = ["het_test"]

_NORMAL = 3.0
_MISFIT = 0.2
"""The two matrices weigh rows far out differently: a difference of a fifth says nothing."""


def het_test(
    outer: Floats, outer_noise: float, gram: Floats, gram_noise: float, count: float, kurtosis: float
) -> HetTest:
    r"""Compare the outer products of the scores with the Gram matrix, to which they are proportional under
    errors of constant variance (White 1980).

    .. math:: \sum_{i \le j} \frac{(M - t G)_{ij}^2}{s_{ij}^2}, \qquad
              t = \operatorname{tr} M / \operatorname{tr} G,

    with :math:`s_{ij}^2` the variance of the privacy noise, of the sampling for normal covariates, and of a
    difference of a fifth. Under the hypothesis at most about chi-squared with ``q (q + 1) / 2 - 1`` degrees
    of freedom: both matrices limit rows far out, at different places, which alone can make such a difference.
    So the test is conservative, and a variance that hardly depends on the covariates is not seen.

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
    Constant error variance: chi2(2) = 10.84, p = 0.004
    """
    q = len(gram)
    t = max(float(np.trace(outer) / np.trace(gram)), 0.0)
    contrast = outer - t * gram
    where = np.triu_indices(q)
    diagonal = where[0] == where[1]
    privacy = (outer_noise**2 + t**2 * gram_noise**2) * np.where(diagonal, 1.0, 0.5)
    sizes = np.maximum(np.diagonal(gram), gram_noise)
    sampling = t**2 * (max(kurtosis, _NORMAL) - 1) / count * np.outer(sizes, sizes)[where]
    misfit = (_MISFIT * t) ** 2 * np.outer(sizes, sizes)[where]
    variance = privacy + sampling * np.where(diagonal, 3.0, 1.0) + misfit
    statistic = float(np.sum(contrast[where] ** 2 / variance))
    df = math.comb(q + 1, 2) - 1
    return HetTest(statistic, float(chdtrc(df, statistic)) if df else 1.0, df)
