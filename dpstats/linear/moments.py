"""What ``adassp``, ``boosted_adassp`` and ``gradient_descent`` share: rows within a radius, and a ridge."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    "row_radius2",
    "spectral_floor",
]

SHARES = {
    "count": 0.01,
    "location": 0.06,
    "scale": 0.10,
    "response_location": 0.03,
    "response_scale": 0.03,
    "whitening": 0.10,
    "gram": 0.14,
    "limit": 0.04,
    "spread": 0.02,
    "outer": 0.05,
}
"""Shares of ``mu^2`` of the steps that have the same everywhere."""
_STAGE = 2.0, 0.05
"""Clip rule (c, L) of the whitening: what noise hides, or is below a twentieth of the rows, stays small."""
_LEAST, _RELATIVE = 2.25, 0.05


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
    return (Stage(*_STAGE, mus["whitening"]),) if mus.get("whitening") else ()


def bounded_rows(
    method: str, blocks: Blocks, budget: BoundedBudget, rng: Randomness, limited: bool = False
) -> tuple[Prepared, Frame]:
    """Standardise if the budget says so: what is released, and the map to the coordinates of the fit.

    Parameters
    ----------
    method : str
    blocks : iterable of (X, Y)
    budget : BoundedBudget
    rng : Randomness
    limited : bool
        Whether columns are moved into their private ranges in the fit, as they are in ``predict()``.

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
    prepared = prepare(method, blocks, budget, rng, REACH if limited else math.inf)
    if limited or prepared.columns is None:
        return prepared, Frame.of(prepared, True)
    low, high, free, columns = prepared.low.copy(), prepared.high.copy(), budget.public.free, prepared.columns
    low[free], high[free] = columns.loc - REACH * columns.reach, columns.loc + REACH * columns.reach
    return replace(prepared, low=low, high=high), Frame.of(prepared, False)


def row_radius2(q: int, count: float, mu: float) -> float:
    """Square of the length beyond which whitened rows have less weight.

    As wide as leaves a Gram matrix with a relative noise of ``0.05 / sqrt(2 q)``, and at least 2.25 times the
    mean squared length of a row.

    Parameters
    ----------
    q : int
    count : float
        The released number of rows.
    mu : float
        Gaussian-DP parameter of the Gram matrix.
    """
    return max(_LEAST * q, min(_RELATIVE * count * mu / math.sqrt(2 * q), count))


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
