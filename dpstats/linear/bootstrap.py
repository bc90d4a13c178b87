"""The parametric bootstrap of a linear fit: the last steps of a release simulated from what was released.

Post-processing: nothing here sees a row, and the random numbers are the same in every call, so that its
answer is a function of the release.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpstats._types import Floats
from dpstats._validation import fail, one_of

__all__ = [
    "DRAWS",
    "LEAST",
    "MOST",
    "Corrected",
    "bootstrap",
    "check_cov_type",
    "rounds_response",
]

DRAWS = 1000
MOST = 1.9
"""Rounds diverge where a step's curvature is 2; the limits on the rows keep a release from it."""
_SEED = 20220426
LEAST = 0.05
"""A direction that is shrunk by more than 95 % is corrected as if by 95 %."""


@dataclass(frozen=True)
class Corrected:
    """Estimates corrected for their bias, (q,), and their covariance, (q, q).

    The covariance is of sampling, privacy noise, and what the noise hides of the Gram matrix.
    """

    estimates: Floats
    cov: Floats


Response = Callable[[Floats, Floats, np.random.Generator], tuple[Floats, Floats]]
"""How an estimate answers to the rows: what :func:`bootstrap` asks for as `response`."""


def check_cov_type(
    cov_type: str, unit: object, known: tuple[str, ...] = ("robust", "nonrobust", "bootstrap")
) -> str:
    """Return `cov_type` if it is one of the `known`, and "cluster" where units are summed up and it is that,
    "robust" or the usual one, which comes first; else a ParameterError.
    """
    if unit is None:
        return one_of("cov_type", cov_type, known)
    if cov_type not in (known[0], "robust", "cluster"):
        fail("cov_type", cov_type, "'cluster' with unit=: the rows of a unit are not independent")
    return "cluster"


def bootstrap(
    estimates: Floats,
    gram: Floats,
    gram_noise: float,
    scores: Floats,
    response: Response,
) -> Corrected:
    r"""Simulate a mechanism whose estimate is affine in the target, and take off its bias.

    Given the Gram matrix ``H`` of the rows and the random parts of the release, the estimate is
    :math:`\hat u = L u + c`. With means :math:`\bar L, \bar c` over the draws the corrected estimate solves
    :math:`\bar L u + \bar c = \hat u`, and its covariance is that of :math:`\bar L^{-1}(L u + c)` at this
    solution.

    Parameters
    ----------
    estimates : (q,) array
        Released estimates.
    gram : (q, q) array
        Released Gram matrix of the rows.
    gram_noise : float
        Standard deviation of the noise on its diagonal; that off it is ``sqrt(2)`` times smaller. 0 takes
        `gram` as it is, which is what a matrix needs that was shrunk already: draws around it would count its
        noise twice.
    scores : (q, q) array
        Covariance of the sums ``sum v e`` of the errors.
    response : callable
        ``response(H, errors, rng)`` returns ``(L, c)`` of shapes (B, q, q) and (B, q), for `H` (B, q, q) and
        the sums ``sum v e`` of the errors, (B, q). One `H` for all draws, and then one `L`, has the shape (1,
        q, q).

    Returns
    -------
    Corrected

    Notes
    -----
    This is the indirect estimator of Wang, Chang and Awan (2025), in closed form because the response is
    affine, with a parametric bootstrap in the manner of Ferrando, Wang and Sheldon (2022). The rows' Gram
    matrix is drawn around the released one and moved to the nearest matrix whose eigenvalues are at least a
    quarter of its noise.
    """
    rng = np.random.default_rng(_SEED)
    q = len(estimates)
    H = gram + symmetric(rng, q, gram_noise) if gram_noise else gram[None]
    values, vectors = np.linalg.eigh(H)
    values = np.maximum(values, gram_noise / 4)
    H = (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)
    errors = rng.standard_normal((DRAWS, q)) @ np.linalg.cholesky(scores).T
    L, c = response(H, errors, rng)
    left, shares, right = np.linalg.svd(L.mean(axis=0))
    back = (right.T / np.maximum(shares, LEAST)) @ left.T
    corrected = back @ (estimates - c.mean(axis=0))
    draws = (L @ corrected + c) @ back.T
    return Corrected(corrected, np.atleast_2d(np.cov(draws, rowvar=False)))


def rounds_response(step: Floats, start: Floats, burn: int, noises: Floats) -> Response:
    """``u <- u + step (H (target - u) + sum v e + noise)``, averaged after the first `burn`.

    Parameters
    ----------
    step : (q, q) array
        The released matrix that multiplies a round's sum.
    start : (q,) array
        First iterate, public or released.
    burn : int
    noises : (T,) array
        Standard deviation of the noise of each round's sum.
    """

    def response(H: Floats, errors: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        moved = step @ H
        kept = np.eye(len(start)) - moved
        L, c = np.zeros_like(H), np.broadcast_to(start, errors.shape)
        sums = np.zeros_like(H), np.zeros_like(errors)
        for t, noise in enumerate(noises):
            gradient = errors + noise * rng.standard_normal(errors.shape)
            L = kept @ L + moved
            c = (kept @ c[:, :, None])[:, :, 0] + gradient @ step.T
            if t >= burn:
                sums = sums[0] + L, sums[1] + c
        rounds = len(noises) - burn
        return sums[0] / rounds, sums[1] / rounds

    return response


def symmetric(rng: np.random.Generator, q: int, noise: float) -> Floats:
    """Symmetric Gaussian matrices, (B, q, q), of standard deviation `noise` on the diagonal."""
    matrix = rng.standard_normal((DRAWS, q, q)) * (noise / 2)
    return matrix + matrix.transpose(0, 2, 1)
