"""Noisy gradient rounds in a whitened metric: the private steps behind ``ols``, and how their noise adds up."""

from dataclasses import dataclass

import numpy as np

from dpstats.mechanisms._kernels import OCTAVES
from dpstats.mechanisms.levels import release_top_level
from dpstats.mechanisms.noise import gaussian
from dpstats.mechanisms.passes import sum_rows
from dpstats.mechanisms.whiten import Affine
from dpstats.regression import _boosting_kernels as kernels

__all__ = ["Frame", "averaged_noise", "product_gradient", "product_level", "residual_variance"]

_SUMMATION = 2.0**-10
"""Relative enlargement of the noise for the rounding errors of a sum over the rows."""


@dataclass(frozen=True)
class Frame:
    """The coordinates in which the rounds take place; all of it public or released.

    Attributes
    ----------
    affine : Affine
        From the joined row ``(x, y)`` to standardised covariates ``z`` (q of them) and response, in this order.
    W : (q, q) array
        ``v = W' z``.
    radius2 : float
        Rows count with weight ``w = min(1, radius2 / |v|^2)``.
    """

    affine: Affine
    W: np.ndarray
    radius2: float

    def arguments(self, u):
        """What every kernel takes after the rows, for coefficients `u` of ``v``."""
        a = self.affine
        return a.columns, a.loc, 1 / a.scale, np.ascontiguousarray(self.W), self.W @ u, self.radius2


def product_gradient(blocks, frame, u, clip, mu, rng):
    """Release ``sum_i clip(v_i w_i r_i)``, ``r = y - u'v``, each product shortened to the norm `clip`.

    Returns
    -------
    (q,) array

    Notes
    -----
    **Privacy.** A record adds or removes one vector of norm at most `clip`, whatever it holds: ``mu``-GDP under
    add-remove. Argument: ``docs/privacy/ols.md``.
    """

    def update(state, X, Y, first):
        kernels.product_gradient(X, Y, *frame.arguments(u), clip, state)

    total = sum_rows(blocks, lambda: np.zeros(len(u)), update)
    return gaussian(total, (1 + _SUMMATION) * clip, mu, rng)


def product_level(blocks, frame, u, mu, rng):
    """Release the highest half-octave of ``|v w r|`` that visibly holds rows: ``mu``-GDP under add-remove."""

    def update(state, X, Y, first):
        kernels.product_levels(X, Y, *frame.arguments(u), state)

    return release_top_level(sum_rows(blocks, lambda: np.zeros(OCTAVES, np.int64), update), mu, rng)


def residual_variance(blocks, frame, u, ceiling, count, mu, rng):
    """Release the sum of ``min(r^2, ceiling)``, divided by `count`.

    Notes
    -----
    **Privacy.** A record moves the sum by at most `ceiling`: ``mu``-GDP under add-remove.
    """
    columns, loc, inverse, _, theta, _ = frame.arguments(u)

    def update(state, X, Y, first):
        kernels.residual_moments(X, Y, columns, loc, inverse, theta, ceiling, state)

    total = sum_rows(blocks, lambda: np.zeros(1), update)
    return float(gaussian(total, (1 + _SUMMATION) * ceiling, mu, rng)[0]) / count


def averaged_noise(contraction, burn, variances):
    """Noise variance of averaged iterates, and what is left of the start, along directions that contract.

    The error along a direction is multiplied by ``m`` each round and gains noise; the rounds from `burn` on are
    averaged.

    Parameters
    ----------
    contraction : (q,) array
        The factors ``m``.
    burn : int
    variances : (T,) array
        Noise variance added in each round, the same in every direction.

    Returns
    -------
    variance : (q,) array
    left : (q,) array
        Share of the first error that is still in the average.

    Examples
    --------
    >>> variance, left = averaged_noise(np.array([0.0, 0.5]), 1, np.ones(3))
    >>> variance.tolist(), left.tolist()
    ([0.5, 0.953125], [0.0, 0.1875])
    """
    rounds = np.arange(len(variances))
    kept = rounds[burn:]
    variance = np.zeros(len(contraction))
    for s, added in enumerate(variances):
        ages = kept[kept >= s] - s
        variance += added * (np.sum(contraction[:, None] ** ages, axis=1) / len(kept)) ** 2
    return variance, np.mean(contraction[:, None] ** (kept + 1), axis=1)
