"""Tests from noisy sums, which the diagnostics of all models share."""

import math
from typing import Any

import numpy as np
from scipy import special

from dpstats._types import Floats
from dpstats.explore.diagnosed import Outcome
from dpstats.explore.sums import noisy_sum, shortened
from dpstats.mechanisms.rng import Randomness

__all__ = [
    "POWERS",
    "RESIDUAL_EDGES",
    "SHARES",
    "STAGES",
    "inverse",
    "normality",
    "polynomials",
    "score_test",
    "unknown",
]

STAGES = ((2.0, 0.0, 0.06), (2.0, 0.25, 0.06), (2.0, 1.0, 0.07))
"""Three stages of whitening: clip rule (c, L), and share of ``mu^2``."""
SHARES = {
    "count": 0.01,
    "location": 0.04,
    "scale": 0.06,
    "response_location": 0.0,
    "response_scale": 0.0,
}
"""Shares of the steps that prepare the rows."""
RESIDUAL_EDGES = np.concatenate(
    [[-5.0, -3.5, -2.8, -2.2], special.ndtri(np.arange(1, 20) / 20), [2.2, 2.8, 3.5, 5.0]]
)
"""Cells of standardised residuals."""
POWERS = 1, 2, 3
LENGTH = 2.5
"""Of a row's first three Hermite polynomials of the standardised prediction."""


def polynomials(z: Floats) -> Floats:
    """The first three normed Hermite polynomials, (n, 3), rows shortened to :data:`LENGTH`."""
    z = np.clip(z, -8.0, 8.0)
    powers = np.column_stack([z, (z**2 - 1) / math.sqrt(2), (z**3 - 3 * z) / math.sqrt(6)])
    return shortened(powers, LENGTH)


def unknown(name: str, df: int = 2) -> Outcome:
    """A test that the release does not determine."""
    return Outcome(name, math.nan, df, math.nan)


def inverse(matrix: Floats, floor: float) -> Floats:
    """The inverse of a noisy Gram matrix, whose eigenvalues are raised to a floor."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / np.maximum(values, max(floor, 1e-9))) @ vectors.T, float)


def score_test(
    name: str, rows: Any, products: Any, length: float, key: str, mus: Any, rng: Randomness
) -> Outcome:
    """Whether the sum of some products is 0: their sum and the sum of their outer products are released."""
    total = noisy_sum(rows, products, 2, length, mus[key], rng)
    # the outer products of what counted in the sum
    root = math.sqrt(2)

    def outer(V: Floats, Y: Floats) -> Floats:
        p = shortened(products(V, Y), length)
        return np.column_stack([p[:, 0] ** 2, p[:, 1] ** 2, root * p[:, 0] * p[:, 1]])

    a, b, c = noisy_sum(rows, outer, 3, length**2, mus[f"{key} outer"], rng)
    noise = (length / mus[key]) ** 2
    seen = np.array([[a, c / root], [c / root, b]])
    values, vectors = np.linalg.eigh(seen)
    # noise may have made them too small, and the test would reject too often
    values = np.maximum(values + length**2 / mus[f"{key} outer"], 0.0)
    variance = (vectors * values) @ vectors.T + noise * np.eye(2)
    statistic = float(total @ np.linalg.solve(variance, total))
    return Outcome(name, statistic, 2, float(special.chdtrc(2, statistic)))


def normality(counts: Floats, sd: float) -> Outcome:
    r"""Neyman's smooth test of normal residuals on grouped data, with location and scale estimated.

    The score of skewness and kurtosis (the third and fourth Hermite polynomials) of released counts,
    orthogonal to those of location and scale, in the metric of sampling and privacy noise together.

    Parameters
    ----------
    counts : (cells,) array
        Released numbers of standardised residuals between :data:`RESIDUAL_EDGES`.
    sd : float
        Standard deviation of their noise.
    """
    name = "Normal errors (skewness, kurtosis)"
    n = float(counts.sum())
    if n <= 10 * sd * math.sqrt(len(counts)):
        return Outcome(name, math.nan, 2, math.nan)
    ends = np.concatenate([[-math.inf], RESIDUAL_EDGES, [math.inf]])
    middle, scale = 0.0, 1.0
    for _ in range(12):
        moments = _hermite((ends - middle) / scale)
        p = np.maximum(moments[0], 1e-12)
        # d p / d middle and d p / d log(scale) are n times the first two
        weights = 1 / (n * p + sd**2)
        J = n * moments[1:3].T
        step = np.linalg.lstsq(
            J * np.sqrt(weights)[:, None], (counts - n * p) * np.sqrt(weights), rcond=None
        )[0]
        middle, scale = (
            middle + scale * float(np.clip(step[0], -0.5, 0.5)),
            scale * math.exp(float(np.clip(step[1], -0.3, 0.3)) / math.sqrt(2)),
        )
    moments = _hermite((ends - middle) / scale)
    p = np.maximum(moments[0], 1e-12)
    weights = np.sqrt(1 / (n * p + sd**2))
    nuisance = np.column_stack([p, moments[1], moments[2]]) * weights[:, None]
    H = n * moments[3:5].T * weights[:, None]
    basis, _ = np.linalg.qr(nuisance)
    H = H - basis @ (basis.T @ H)
    left = (counts - n * p) * weights
    score, information = H.T @ left, H.T @ H
    if not (np.isfinite(information).all() and np.linalg.cond(information) < 1e12):
        return Outcome(name, math.nan, 2, math.nan)
    statistic = float(score @ np.linalg.solve(information, score))
    return Outcome(name, statistic, 2, float(special.chdtrc(2, statistic)))


def _hermite(z: Floats) -> Floats:
    """Integrals of the normal density times normed Hermite polynomials 0 to 4, over cells between `z`."""
    density = np.where(np.isfinite(z), np.exp(-np.minimum(z * z, 1e3) / 2) / math.sqrt(2 * math.pi), 0.0)
    z = np.where(np.isfinite(z), z, 0.0)
    below = np.concatenate([[0.0], special.ndtr(z[1:-1]), [1.0]])
    # the integral of He_k phi is -He_{k-1} phi
    polynomials = np.array([np.ones_like(z), z, z**2 - 1, z**3 - 3 * z])
    roots = np.sqrt([1.0, 2.0, 6.0, 24.0])[:, None]
    return np.vstack([np.diff(below), -np.diff(polynomials * density) / roots])
