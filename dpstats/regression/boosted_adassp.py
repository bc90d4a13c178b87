"""BoostedAdaSSP: clipped residuals fitted round after round with one noisy Gram matrix."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Floats, Levels
from dpstats._validation import check
from dpstats.estimation.call import Call, Estimator
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.bootstrap import bootstrap, check_cov_type, rounds_response
from dpstats.linear.budget import Step, divide
from dpstats.linear.gradients import Gradients
from dpstats.linear.moments import (
    SHARES,
    BoundedBudget,
    bounded_rows,
    one_stage,
    preparation_steps,
    row_radius,
    spectral_floor,
)
from dpstats.linear.prepare import Prepared
from dpstats.linear.public import PublicDesign
from dpstats.linear.results import Inference, regression_results, shortened, stops_short
from dpstats.linear.scores import (
    Whitened,
    averaged_noise,
    residual_gradient,
    residual_variance,
    top_residual,
    whitened_gram,
)
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.inference import nearest_psd
from dpstats.results.results import Results
from dpstats.selection.within import selecting

__all__ = ["boosted_adassp"]

_SHARES = SHARES | {
    "whitening": 0.10,
    "gram": 0.10,
    "limit": 0.02,
    "first rounds": 0.06,
    "rounds": 0.47,
    "sigma": 0.02,
}
"""Shares of mu^2."""
_FIRST, _ROUNDS = 4, 8
_CEILING = 5.0
"""The first rounds limit residuals to the response's private range, and to this."""
_SLACK = 1.5
"""Later rounds limit residuals to this multiple of the highest half-octave that visibly holds rows."""


@documented
@guarded
def boosted_adassp(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    standardize: bool = True,
    clip: float | None = None,
    rounds: int | None = None,
    cov_type: str = "formula",
    select: int | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    r"""Differentially private linear regression by boosting AdaSSP.

    Gradient rounds on clipped residuals, all with the same noisy ridge inverse. Clipping residuals instead of
    responses needs less noise than :func:`dpstats.adassp` where the model fits well.

    Parameters
    ----------
    %(formula, data, eps, delta)s
    standardize : bool
        Spend 33 % of ``mu^2`` on a private location and scale of every column without `bounds` and on
        whitening, and use columns within their private ranges. False takes the columns in their own units;
        with ``clip=1, rounds=100`` that is the fixed setting of Tang et al. (2023).
    clip : float, optional
        Norm to which rows are shortened (by that of their covariates), and limit of the residuals. By default
        ``1.5 sqrt(q)`` for ``q`` coefficients and 5; without standardisation 1. The response's private range
        is a limit too in the first third of the rounds, and a private limit of the residuals in the others.
    rounds : int, optional
        Number of rounds, of which the later two thirds (the last alone without standardisation) are averaged.
        By default 12, or 100 without standardisation.
    %(cov_type, select, bounds, levels, by, ledger, seed)s

    Returns
    -------
    Results or GroupedResults
        With standard errors, ``sigma`` (of limited residuals), ``rsquared`` and ``rounds``.

    %(raises, too few rows, errors)s

    Notes
    -----
    **Method** (Tang, Aydore, Kearns, Rho, Roth, Wang, Wang and Wu 2023). With rows ``z`` within norm `R`,

    .. math:: \theta \leftarrow \theta + (\tilde G + \lambda I)^{-1}
              \Bigl(\sum z\, \mathrm{clip}_\tau(y - z^\top \theta) + N_t\Bigr),

    the whitening, the Gram matrix :math:`\tilde G` and its ridge as in :func:`dpstats.adassp`.

    %(gaussian steps)s
    Proof: ``docs/privacy/boosted_adassp.md``.

    **Standard errors** cover sampling and the noise of the rounds; what the rounds leave of the ridge's bias
    is added in quadrature, and with ``cov_type="bootstrap"`` taken off the estimates instead. Where residuals
    are clipped the target is a Huber regression.

    %(diamonds)s
    >>> formula = "price ~ carat + table"
    >>> fit = dpstats.boosted_adassp(formula, diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.params.round().to_dict(), round(fit.bse["carat"])
    ({'Intercept': 2106.0, 'carat': 7885.0, 'table': -78.0}, 18)
    """
    standardize, clip = (
        check("standardize", standardize, "flag"),
        check("clip", clip, "positive", optional=True),
    )
    rounds, cov_type = check("rounds", rounds, "count", optional=True), check_cov_type(cov_type)
    budget = functools.partial(_budget, standardize=standardize, clip=clip, rounds=rounds, cov_type=cov_type)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed)
    return run(selecting(Estimator("boosted_adassp", budget, _release, _results), select), call)


@dataclass(frozen=True)
class _Budget(BoundedBudget):
    """Everything public: the last `averaged` rounds are averaged, behind `first` others."""

    first: int
    averaged: int
    cov_type: str


def _budget(
    design: Design,
    call: Call,
    rows: int | None,
    *,
    standardize: bool,
    clip: float | None,
    rounds: int | None,
    cov_type: str,
) -> _Budget:
    public = PublicDesign.of(design)
    if standardize:
        total = rounds or _FIRST + _ROUNDS
        first = total // 3
    else:
        total, clip = rounds or 100, clip or 1.0
        first = total - 1
    # without a standardisation all rounds are alike, as published
    weight = _SHARES["first rounds"] if standardize else _SHARES["rounds"] * first
    steps = [
        *preparation_steps(public, _SHARES, standardize),
        Step("gram", "Gram matrix", _SHARES["gram"]),
        Step("first rounds", "gradients, first rounds", weight * bool(first), max(first, 1)),
        Step("limit", "limit of the residuals", _SHARES["limit"] * standardize),
        Step("rounds", "gradients, averaged rounds", _SHARES["rounds"], total - first),
        Step("sigma", "residual variance", _SHARES["sigma"]),
    ]
    mus, guarantee = divide(call.eps, call.delta, steps, call.seeded)
    return _Budget(guarantee, mus, public, one_stage(mus), standardize, clip, first, total - first, cov_type)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases.

    Attributes
    ----------
    prepared : Prepared
    gram : (q, q) array
        ``sum z z'`` plus noise.
    gram_noise : float
        Standard deviation of the noise on its diagonal.
    coefficients : (q,) array
        Average of the last iterates.
    noises : (T,) array
        Standard deviation of the noise of each round.
    variance : float
        Mean squared residual, in standardised units.
    """

    prepared: Prepared
    gram: Floats
    gram_noise: float
    coefficients: Floats
    noises: Floats
    variance: float


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed. A row moves the Gram matrix by at most
    ``R^2`` in Frobenius norm and the gradient of a round by at most ``R tau``. Argument:
    ``docs/privacy/boosted_adassp.md``.
    """
    prepared, frame = bounded_rows("boosted_adassp", blocks, budget, rng)
    mus, count = budget.mus, max(prepared.count, 1.0)
    q = len(prepared.affine.columns)
    u = np.zeros(q)
    if prepared.flat_response:
        return _Release(prepared, np.eye(q), 0.0, u, np.zeros(0), 0.0)
    radius = budget.clip or row_radius(q)
    rows = Whitened(blocks, frame, radius, whole=budget.standardize)
    gram = whitened_gram(rows, q, radius**2, mus["gram"], rng)
    noise = radius**2 / mus["gram"]
    inverse = np.linalg.inv(gram + spectral_floor(gram, noise) * np.eye(q))
    tau = min(prepared.response_reach, budget.clip or _CEILING)
    gradients = Gradients(rows, radius)
    noises, kept = [], []
    for t in range(budget.first + budget.averaged):
        if t == budget.first and budget.standardize:
            top = top_residual(rows, u, mus["limit"], rng)
            tau = min(tau, _SLACK * top) if top else tau
        mu = mus["first rounds"] if t < budget.first else mus["rounds"]
        u = u + inverse @ residual_gradient(gradients, u, radius, tau, mu, rng)
        noises.append(radius * tau / mu)
        if t >= budget.first:
            kept.append(u)
    u = np.mean(kept, axis=0)
    cut = tau**2
    variance = max(residual_variance(rows, u, cut, count, mus["sigma"], rng), cut / mus["sigma"] / count)
    return _Release(prepared, gram, noise, u, np.array(noises), variance)


def _inference(budget: _Budget, release: _Release) -> Inference:
    """What the rounds' noise, and what they leave of the ridge's bias, mean for the coefficients."""
    count, scale = max(release.prepared.count, 1.0), float(release.prepared.response.scale[0])
    q = len(release.coefficients)
    values, vectors = np.linalg.eigh(release.gram)
    ridge = spectral_floor(release.gram, release.gram_noise)
    steps = 1 / (values + ridge)
    inverse = (vectors * steps) @ vectors.T
    values = np.maximum(values, release.gram_noise)
    noise, left = averaged_noise(np.clip(1 - steps * values, -0.9, 1.0), budget.first, release.noises**2)
    noise = noise * steps**2
    sampling = (1 - left) ** 2 * release.variance / values
    reached = vectors.T @ release.coefficients
    squares = np.maximum(reached**2 - noise - sampling, 0.0)
    bias2 = (left / np.maximum(1 - left, 0.05)) ** 2 * squares
    corrected = None
    if budget.cov_type == "bootstrap":
        rounds = rounds_response(inverse, np.zeros(q), budget.first, release.noises)
        corrected = bootstrap(
            release.coefficients, release.gram, release.gram_noise, release.variance, rounds
        )
    radius = budget.clip or row_radius(q)
    limit = release.noises[-1] * budget.mus["rounds"] / radius * scale
    notes = (
        *stops_short(left, "0", budget.cov_type),
        f"Residuals beyond {limit:.3g} count as if they were there; " + shortened(radius, budget.standardize),
    )
    explained = float(noise @ values) / count
    cov = (vectors * (noise + sampling + bias2)) @ vectors.T
    return Inference(cov, explained, nearest_psd(release.gram) / count, notes, corrected)


def _results(design: Design, budget: _Budget, release: _Release) -> Results:
    """Results from the release alone."""
    return regression_results(
        "BoostedAdaSSP",
        design,
        budget.guarantee,
        release.prepared,
        release.coefficients,
        None if release.prepared.flat_response else _inference(budget, release),
        release.variance,
        winsorized=budget.standardize,
        rounds=budget.first + budget.averaged,
    )
