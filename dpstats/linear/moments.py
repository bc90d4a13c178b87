"""What ``adassp``, ``boosted_adassp`` and ``gradient_descent`` share: rows within a radius, and a ridge."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpstats._types import Floats
from dpstats._validation import fail
from dpstats.formula.design import Blocks
from dpstats.linear.budget import LinearBudget, Recipe, Step, preparation, stage_steps, stages_of
from dpstats.linear.prepare import REACH, Prepared, prepare
from dpstats.linear.public import PublicDesign
from dpstats.linear.summed import unit_steps
from dpstats.linear.whitened import Frame
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import release_count
from dpstats.mechanisms.whiten import Stage

__all__ = [
    "SHARES",
    "BoundedBudget",
    "bounded_rows",
    "check_standardize",
    "preparation_steps",
    "raised",
    "row_radius2",
    "solved_steps",
    "stages",
]

SHARES = {
    "count": 0.01,
    "location": 0.06,
    "scale": 0.10,
    "response_location": 0.03,
    "response_scale": 0.03,
    "gram": 0.12,
    "limit": 0.07,
    "excess": 0.08,
    "skewness": 0.02,
    "spread": 0.02,
    "outer": 0.05,
    "first rounds": 0.05,
    "rounds": 0.31,
}
"""Shares of ``mu^2``, in relation to the others, of the steps that have the same everywhere."""
STAGES = ((2.0, 0.0, 0.05), (2.0, 0.25, 0.05), (2.0, 0.5, 0.05))
"""Three stages of whitening: clip rule (c, L), and share of ``mu^2``."""
_SEEN = 3.0
"""Standard deviations of the noise that a rare level needs: a Gram matrix of all rows shows it, once it is
there."""
_LEAST, _FAR = 2.25, 100.0


@dataclass(frozen=True)
class BoundedBudget(LinearBudget):
    """The budget of an estimator whose rows lie within a radius, standardised or in their own units."""

    standardize: bool
    clip: float | None


def preparation_steps(
    public: PublicDesign,
    shares: Mapping[str, float],
    standardize: bool,
    recipe: Recipe = STAGES,
    unit: object = None,
) -> list[Step]:
    """The steps before the estimator's own; without standardisation the count alone.

    With a `unit` the last stage of the whitening is on all rows of each.
    """
    if not standardize:
        return [Step("count", "number of rows", shares["count"])]
    if unit is None:
        return [*preparation(public, shares), *stage_steps(recipe)]
    return [*preparation(public, shares), *stage_steps(recipe[:-1]), *unit_steps(recipe[-1][2])]


def solved_steps(
    public: PublicDesign, standardize: bool, clip: float | None, unit: object, first: Step, rounds: Step
) -> list[Step]:
    """The steps of an estimator by :class:`~dpstats.linear.newton.Newton`, given those of its rounds.

    With a given `clip` what it cuts is not released; nor is skewness of units.
    """
    free = standardize and not clip
    return [
        *preparation_steps(public, SHARES, standardize, unit=unit),
        first,
        Step("limit", "sizes of the products", SHARES["limit"]),
        Step("gram", "Gram matrix", SHARES["gram"]),
        rounds,
        Step("spread", "residual variance", SHARES["spread"]),
        Step("excess", "what the clip cuts", SHARES["excess"] * free),
        Step("skewness", "skewness of the products", SHARES["skewness"] * (free and unit is None)),
        Step("outer", "outer products for the standard errors", SHARES["outer"]),
    ]


def stages(mus: Mapping[str, float], standardize: bool, unit: object = None) -> tuple[Stage, ...]:
    """The stages of whitening, none without standardisation."""
    if not standardize:
        return ()
    recipe = STAGES if unit is None else STAGES[:-1]
    return stages_of(recipe, mus)


def check_standardize(standardize: bool, unit: object) -> None:
    """Raise a ParameterError where rows in their own units are to be summed up by unit."""
    if unit is not None and not standardize:
        fail("standardize", standardize, "True with unit=")


def bounded_rows(
    method: str,
    blocks: Blocks,
    budget: BoundedBudget,
    rng: Randomness,
    limited: bool = False,
    references: float = 0.0,
) -> tuple[Prepared, Frame]:
    """Standardise if the budget says so: what is released, and the map to the coordinates of the fit.

    Parameters
    ----------
    method : str
    blocks : iterable of (X, Y)
    budget : BoundedBudget
    rng : Randomness
    limited : bool
        Whether columns are moved into their private ranges in the fit, as they are in the whitening and in
        ``predict()``.
    references : float
        As of :func:`~dpstats.linear.prepare.prepare`.

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
        count = release_count(blocks, budget.mus["count"], rng)
        prepared = Prepared.raw(count, len(budget.public.scale), budget.public.intercept)
        return prepared, Frame.of(prepared, False)
    prepared = prepare(
        method, blocks, budget, rng, REACH, levels_seen=_SEEN, references=references, leave=references > 0
    )
    return prepared, Frame.of(prepared, limited)


def row_radius2(q: int, count: float, mu: float, relative: float) -> float:
    """Square of the length beyond which whitened rows have less weight.

    As wide as leaves a Gram matrix with noise of `relative` over ``sqrt(2 q)``, and at least 2.25 times the
    mean squared length of a row. Beyond a hundred times that mean it grows with the square root of what noise
    allows, so that both go to 0 with more rows, the noise and what is cut.

    Parameters
    ----------
    q : int
    count : float
        The released number of rows.
    mu : float
        Gaussian-DP parameter of the Gram matrix.
    relative : float

    Examples
    --------
    >>> row_radius2(8, 20_000, 0.1, 0.2), row_radius2(8, 1_000, 0.1, 0.2)
    (100.0, 18.0)
    """
    wide = relative * count * mu / math.sqrt(2 * q)
    return max(_LEAST * q, min(wide, math.sqrt(wide * _FAR * q), count))


def raised(gram: Floats, noise: float) -> Floats:
    r"""A noisy Gram matrix with a ridge that keeps it away from zero.

    .. math:: \tilde G + \max(0, c - \max(0, \tilde l - c)) I

    with ``c = sqrt(2 q) noise``, a bound on the noise's spectral norm, and :math:`\tilde l`, the least
    eigenvalue: :math:`\tilde l - c` is a lower bound of the true one's. Eigenvalues still below ``c`` become
    ``c``.

    Parameters
    ----------
    gram : (q, q) array
        With symmetric noise of standard deviation `noise` on the diagonal and ``noise / sqrt(2)`` off it.
    noise : float

    Returns
    -------
    (q, q) array

    Notes
    -----
    Wang (2018) releases the least eigenvalue separately; the released matrix bounds it at no further cost.

    Examples
    --------
    >>> raised(np.diag([1.0, 0.1]), 0.1).diagonal().round(2), raised(np.eye(2), 0.1).diagonal()
    (array([1.2, 0.3]), array([1., 1.]))
    """
    c = math.sqrt(2 * len(gram)) * noise
    values, vectors = np.linalg.eigh(gram)
    ridge = max(0.0, c - max(0.0, float(values[0]) - c))
    return (vectors * np.maximum(values + ridge, c)) @ vectors.T
