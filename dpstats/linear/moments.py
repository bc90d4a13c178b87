"""What ``adassp``, ``boosted_adassp`` and ``gradient_descent`` share: rows within a radius, and a ridge."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpstats._types import Floats
from dpstats.formula.design import Blocks
from dpstats.linear.budget import LinearBudget, Step, preparation
from dpstats.linear.prepare import REACH, Prepared, prepare
from dpstats.linear.public import PublicDesign
from dpstats.linear.scores import Frame
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import release_count
from dpstats.mechanisms.whiten import Stage

__all__ = [
    "SHARES",
    "BoundedBudget",
    "bounded_rows",
    "one_stage",
    "preparation_steps",
    "row_radius",
    "shrinkage_bias",
    "spectral_floor",
]

SHARES = {
    "count": 0.01,
    "location": 0.06,
    "scale": 0.10,
    "response_location": 0.03,
    "response_scale": 0.03,
}
"""Shares of ``mu^2`` of the standardisation."""
_STAGE = 2.0, 0.05
"""Clip rule (c, L) of the whitening: what noise hides, or is below a twentieth of the rows, stays small."""
_RADIUS = 1.5
"""Standardised rows are shortened to this multiple of their root mean square length."""


@dataclass(frozen=True)
class BoundedBudget(LinearBudget):
    """The budget of an estimator whose rows lie within a radius, standardised or in their own units."""

    standardize: bool
    clip: float | None


def preparation_steps(public: PublicDesign, shares: Mapping[str, float], standardize: bool) -> list[Step]:
    """The steps before the estimator's own; without standardisation the count alone."""
    if not standardize:
        return [Step("count", "number of rows", shares["count"])]
    steps = preparation(public, shares)
    if "whitening" in shares:
        steps.append(Step("whitening", "whitening, Gram matrix", shares["whitening"]))
    return steps


def one_stage(mus: Mapping[str, float]) -> tuple[Stage, ...]:
    """The one stage of whitening, where there is a budget for it."""
    return (Stage(*_STAGE, mus["whitening"], response=False),) if mus.get("whitening") else ()


def bounded_rows(
    method: str, blocks: Blocks, budget: BoundedBudget, rng: Randomness
) -> tuple[Prepared, Frame]:
    """Standardise if the budget says so: what is released, and the map to the coordinates of the fit.

    Parameters
    ----------
    method : str
    blocks : iterable of (X, Y)
    budget : BoundedBudget
    rng : Randomness

    Returns
    -------
    prepared : Prepared
    frame : Frame

    Notes
    -----
    **Privacy.** As :func:`~dpstats.linear.prepare.prepare`; without standardisation the count alone is
    released.
    """
    if not budget.standardize:
        prepared = Prepared.raw(release_count(blocks, budget.mus["count"], rng), len(budget.public.scale))
        return prepared, Frame.of(prepared, False)
    prepared = prepare(method, blocks, budget, rng, REACH)
    return prepared, Frame.of(prepared, True)


def row_radius(q: int) -> float:
    """Norm to which standardised rows of `q` coordinates are shortened by default."""
    return _RADIUS * math.sqrt(q)


def spectral_floor(gram: Floats, noise: float) -> float:
    """Ridge that keeps a noisy Gram matrix away from zero.

    Parameters
    ----------
    gram : (q, q) array
        With symmetric noise of standard deviation `noise` on the diagonal and ``noise / sqrt(2)`` off it.
    noise : float

    Returns
    -------
    float
        ``max(0, c - l)``, where ``c = sqrt(2 q) noise`` bounds the noise's spectral norm and ``l``, the least
        eigenvalue of `gram` less ``c``, is a lower bound of the true one's.

    Notes
    -----
    Wang (2018) releases the least eigenvalue separately; the released matrix bounds it at no further cost.
    """
    c = math.sqrt(2 * len(gram)) * noise
    return max(0.0, c - max(0.0, float(np.linalg.eigvalsh(gram)[0]) - c))


def shrinkage_bias(A: Floats, ridge: float, theta: Floats, spread: Floats) -> Floats:
    """Squared bias of ridge regression along the axes of its matrix, as a matrix to add to the covariance.

    Along an axis with eigenvalue ``a`` the estimate is ``1 - ridge/a`` of the target on average. The square
    of the target is that of the estimate less its variance.

    Parameters
    ----------
    A : (q, q) array
        Gram matrix plus ridge.
    ridge : float
    theta : (q,) array
    spread : (q, q) array
        Covariance of `theta`.
    """
    values, vectors = np.linalg.eigh(A)
    lost = np.clip(ridge / np.maximum(values, 1e-300), 0.0, 1.0)
    squares = np.maximum((vectors.T @ theta) ** 2 - np.sum(vectors * (spread @ vectors), axis=0), 0.0)
    return (vectors * (lost / np.maximum(1 - lost, 0.05)) ** 2 * squares) @ vectors.T
