"""How released coefficients fit: sums of squares, and on which side of them the rows pull."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._types import Floats
from dpstats.formula.design import Blocks
from dpstats.linear import subset_kernels as _kernels
from dpstats.mechanisms.noise import gaussian, laplace
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.sums import SUMMATION, sum_bounded, units_of
from dpstats.mechanisms.whiten import Affine

__all__ = ["Goodness", "release_goodness", "square_limit"]

_LEAST_LIMIT, _MOST_LIMIT = 9.0, 60.0
_NOISE = 0.04
"""The limit grows until the scale of the noise is this share of the rows."""


@dataclass(frozen=True)
class Goodness:
    """Released mean squares.

    Attributes
    ----------
    residual : float
        Of the residuals.
    total : float
        Of the response, about its mean if there is an intercept.
    pull : (k,) array
        Share of rows that pull a coefficient up, less a half: 0 on average where errors are symmetric.
    noise : float
        Standard deviation of its noise.
    square_noise : (float, float)
        Standard deviations of the noise of `residual` and `total`.
    """

    residual: float
    total: float
    pull: Floats
    noise: float
    square_noise: tuple[float, float]

    @property
    def rsquared(self) -> float:
        """One minus their quotient, and at least 0."""
        return max(1 - self.residual / self.total, 0.0) if self.total > 0 else 0.0

    @property
    def rsquared_noise(self) -> float:
        """Standard deviation of the noise of :attr:`rsquared`, to first order."""
        of_residual, of_total = self.square_noise
        return math.hypot(of_residual, (1 - self.rsquared) * of_total) / self.total if self.total > 0 else 0.0


def square_limit(count: float, eps: float) -> float:
    """Limit of a squared residual, in units of the residual variance that is known beforehand."""
    return float(np.clip(_NOISE * count * eps / 2, _LEAST_LIMIT, _MOST_LIMIT))


def release_goodness(
    blocks: Blocks,
    affine: Affine,
    beta: Floats,
    W: Floats,
    scales: tuple[float, float, float],
    count: float,
    eps: float,
    mu: float,
    intercept: bool,
    rng: Randomness,
) -> Goodness:
    """Mean squares of the residuals and of the response, and the pull of the rows.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    affine : Affine
        To the covariates' coordinates ``z``, without the constant column.
    beta : (q + 1,) array
        Released coefficients of ``(1, z)``.
    W : (q + 1, k) array
        A row ``(1, z)`` with residual ``r`` pulls the coefficients up where ``W' (1, z) r`` is positive.
    scales : (float, float, float)
        Released guesses of the residuals' scale, of the response's mean, and of its scale.
    count : float
        Released number of rows.
    eps, mu : float
        Of the mean squares, and of the pull.
    intercept : bool
    rng : Randomness

    Returns
    -------
    Goodness

    Notes
    -----
    **Privacy.** With squares limited to ``C`` a record adds at most ``2 C + sqrt(C)`` to the three sums, and
    one replaced moves them by at most ``2 C + 2 sqrt(C)``, in the l1-norm: the sensitivity under either
    relation, and the mean squares are ``eps``-DP. Each of the `k` numbers of rows moves by at most 1 under
    either, by ``sqrt(k)`` in the l2-norm: ``mu``-GDP. Argument: ``docs/privacy/tukey_em.md``.
    """
    sigma, centre, spread = scales
    limit = square_limit(count, eps)
    sensitivity = 2 * limit + 2 * math.sqrt(limit)
    inverse, units = 1 / affine.scale, units_of(limit)

    def update(state: Any, X: Floats, Y: Floats, first: int) -> None:
        _kernels.sum_squares(
            X, Y, affine.columns, affine.loc, inverse, beta, W, sigma, centre, spread, limit, units, state
        )

    k = W.shape[1]
    sums = sum_bounded(blocks, (3 + k,), units, update)
    residual, total, mean = laplace(sums[:3], (1 + SUMMATION) * sensitivity, eps, rng) / count
    above = gaussian(sums[3:], math.sqrt(k), mu, rng) / count
    # what is below the noise is not told from it
    least = sensitivity / (eps * count)
    noise = math.sqrt(2) * least * spread * spread
    if intercept:
        total, noise = total - mean**2, noise * math.hypot(1, 2 * mean)
    return Goodness(
        # (a power of a float that overflows raises)
        sigma * sigma * max(residual, least),
        spread * spread * max(total, least),
        np.clip(above - 0.5, -0.5, 0.5),
        math.sqrt(k) / (mu * count),
        (math.sqrt(2) * least * sigma * sigma, noise),
    )
