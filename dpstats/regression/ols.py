"""Private least squares with no bounds and no tuning: standardise, whiten, then clipped gradient rounds."""

import math
from dataclasses import dataclass

import numpy as np

from dpstats import _estimate
from dpstats._validation import check, fail
from dpstats.errors import ReleaseFailed
from dpstats.mechanisms.whiten import Affine, Stage, release_gram
from dpstats.privacy.guarantee import Guarantee
from dpstats.regression._accounting import Step, divide, preparation
from dpstats.regression._boosting import (
    Frame,
    Whitened,
    averaged_noise,
    outside_score,
    product_gradient,
    product_level,
    residual_variance,
)
from dpstats.regression._prepare import Budget, Prepared, PublicDesign, prepare
from dpstats.regression._reporting import regression_results

__all__ = ["ols"]

_SHARES = {
    "count": 0.01,
    "location": 0.06,
    "scale": 0.11,
    "response_location": 0.03,
    "response_scale": 0.03,
    "gram": 0.05,
    "level": 0.04,
    "choice": 0.015,
    "first rounds": 0.03,
    "rounds": 0.34,
    "sigma": 0.02,
}
"""Shares of mu^2; the whitening stages have the rest."""
_STAGES = ((2.0, 0.0, 0.08), (2.0, 0.25, 0.07), (2.0, 0.5, 0.05), (2.0, 1.0, 0.07))
"""Clip rule (c, L) and share of each whitening stage."""
_GRAM = (2.0, 0.15)
"""Clip rule of the Gram matrix for the standard errors: at most some 4 % noise where rows allow."""
_LEVELS = 2
_FIRST, _ROUNDS = 3, 6
_CLIP_LOSS = 0.002
"""Products are clipped where none are visible, or earlier: where the noise costs this share of the variance."""
_REACH = math.sqrt(2.0)
"""Columns are winsorised at this multiple of their private range."""
_EVIDENCE = 3.0
"""Standard errors of the private comparison that decide between raw and winsorised columns."""
_NEAR_EXACT = 0.01
"""Without evidence: columns are used raw if the first fit leaves less than this share of the variance."""
_SCALE_NOISE = 0.2
"""Refuse if the threshold for a visible octave exceeds this share of the rows."""
_VISIBLE = 8.0
_VARIANCE_NOISE, _CEILINGS = 0.08, (9.0, 64.0)
"""Squared residuals are cut where the noise is 8 % of the variance, at 3 to 8 standard deviations."""


def ols(
    formula,
    data,
    *,
    eps,
    delta=1e-6,
    winsorize="auto",
    bounds=None,
    levels=None,
    ledger=None,
    seed=None,
):
    if not (winsorize == "auto" or isinstance(winsorize, bool)):
        fail("winsorize", winsorize, "'auto', True or False")
    eps = check("eps", eps)
    delta = check("delta", delta, "positive_delta")

    def plan(design, seeded):
        _estimate.one_response(design, "ols")
        return _plan(PublicDesign.of(design), eps, delta, winsorize, seeded)

    def release(blocks, design, plan, rng):
        return _results(design, plan, _release(blocks, plan, rng))

    return _estimate.estimate(
        "ols", formula, data, bounds=bounds, levels=levels, ledger=ledger, seed=seed, plan=plan, release=release
    )


@dataclass(frozen=True)
class _Plan:
    """Everything public: the budget of every step, and what is known about the columns."""

    guarantee: Guarantee
    public: PublicDesign
    budget: Budget
    mus: dict
    winsorize: bool | str


def _plan(public, eps, delta, winsorize, seeded):
    steps = [
        *preparation(public, _SHARES),
        *(Step(f"stage {i}", f"whitening, Gram matrix {i + 1}", share) for i, (_, _, share) in enumerate(_STAGES)),
        Step("gram", "Gram matrix for the standard errors", _SHARES["gram"]),
        Step("choice", "choice between raw and winsorised columns", _SHARES["choice"] * (winsorize == "auto")),
        Step("level", "clip level of the products", _SHARES["level"], _LEVELS),
        Step("first rounds", "gradients, first rounds", _SHARES["first rounds"], _FIRST),
        Step("rounds", "gradients, averaged rounds", _SHARES["rounds"], _ROUNDS),
        Step("sigma", "residual variance", _SHARES["sigma"]),
    ]
    mus, guarantee = divide(eps, delta, steps, seeded)
    stages = tuple(Stage(c, L, mus[f"stage {i}"]) for i, (c, L, _) in enumerate(_STAGES))
    keys = "count", "location", "scale", "response_location", "response_scale"
    budget = Budget(*(mus[key] for key in keys), stages)
    return _Plan(guarantee, public, budget, mus, winsorize)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases, in coordinates ``v`` of the whitened design and of the standardised response.

    Attributes
    ----------
    prepared : Prepared
        Count, standardisation, whitening and first fit.
    coefficients : (q,) array
        Average of the last iterates.
    gram : (q, q) array
        Gram matrix of ``v`` over the number of rows.
    gram_noise : float
        Standard deviation of the noise on its diagonal.
    clips : (T,) array
        Norm to which products were shortened, by round.
    variance : float
        Mean squared residual.
    winsorized : bool
        Whether the columns were moved into their private ranges.
    """

    prepared: Prepared
    coefficients: np.ndarray
    gram: np.ndarray
    gram_noise: float
    clips: np.ndarray
    variance: float
    winsorized: bool


def _release(blocks, plan, rng):
    reach = _REACH if plan.winsorize else math.inf
    prepared = prepare(blocks, plan.public, plan.budget, rng, lambda n: _check_count(plan, n), reach)
    whitening, count, mus = prepared.whitening, max(prepared.count, 1.0), plan.mus
    q = len(prepared.affine.columns)
    if q == 0:
        raise ReleaseFailed("ols: no column of the formula shows any variation beyond the privacy noise.")
    if prepared.flat_response:
        return _Release(prepared, np.zeros(q), np.eye(q), 0.0, np.zeros(0), 0.0, bool(plan.winsorize))
    u = np.linalg.solve(whitening.W, whitening.theta)
    winsorized = bool(plan.winsorize)
    if plan.winsorize == "auto":
        winsorized = _choose(blocks, prepared, mus["choice"], rng)
    rows = Whitened(blocks, Frame.of(prepared, winsorized))
    c, L = _GRAM
    radius2 = min(max(c * q, L * count * mus["gram"] / math.sqrt(2 * q)), count)
    gram = release_gram(rows, Affine(np.arange(q), np.zeros(q), np.ones(q)), np.eye(q), radius2, mus["gram"], rng)
    most = math.sqrt(_CLIP_LOSS * _ROUNDS / q) * mus["rounds"] * count
    limits = whitening.radius2, math.inf
    clips, kept = [], []
    for t in range(_FIRST + _ROUNDS):
        if t in (0, _FIRST):
            level = product_level(rows, u, limits, mus["level"], rng)
            clip = min(2 * level, most) if level else most
        mu = mus["first rounds"] if t < _FIRST else mus["rounds"]
        u = u + product_gradient(rows, u, limits, clip, mu, rng) / count
        clips.append(clip)
        if t >= _FIRST:
            kept.append(u)
    u = np.mean(kept, axis=0)
    cut = min(max(_VARIANCE_NOISE * count * mus["sigma"], _CEILINGS[0]), _CEILINGS[1]) * whitening.sigma**2
    variance = residual_variance(rows, u, cut, count, mus["sigma"], rng)
    least = 2 * cut / mus["sigma"] / count
    return _Release(
        prepared, u, gram / count, radius2 / mus["gram"] / count, np.array(clips), max(variance, least), winsorized
    )


def _choose(blocks, prepared, mu, rng):
    """Whether to winsorise: by how the rows outside the limits are predicted, if enough of them are."""
    score = outside_score(blocks, Frame.of(prepared, True), prepared.whitening.theta, mu, rng)
    if abs(score) * mu > _EVIDENCE:
        return score < 0
    return prepared.whitening.sigma**2 > _NEAR_EXACT


def _check_count(plan, count):
    """Refuse where the noise of the standardisation would swamp the rows."""
    budget, columns = plan.budget, len(plan.public.free)
    if not columns:
        return
    need = _VISIBLE * math.sqrt(columns) / budget.scale / _SCALE_NOISE
    if count < need:
        raise ReleaseFailed(
            f"ols: {columns} columns of unknown range at eps = {plan.guarantee.eps:.4g} need about {need:,.0f} rows, "
            f"and the private count is {max(count, 0):,.0f}. Nothing was fitted. Fewer columns, bounds={{...}} for some "
            "of them, or a larger eps would do.",
            plan.guarantee.replace(spends=plan.guarantee.spends[:1]),
        )


def _covariance(plan, release):
    """Covariance of the coefficients, bias in quadrature, and what the noise adds to the explained variance."""
    count = max(release.prepared.count, 1.0)
    values, vectors = np.linalg.eigh(release.gram)
    values = np.maximum(values, release.gram_noise)
    mus = np.repeat([plan.mus["first rounds"], plan.mus["rounds"]], [_FIRST, _ROUNDS])
    noise, left = averaged_noise(np.clip(1 - values, -0.9, 1.0), _FIRST, (release.clips / mus / count) ** 2)
    whitening = release.prepared.whitening
    start = np.linalg.solve(whitening.W, whitening.theta)
    moved = vectors.T @ (release.coefficients - start)
    # the average is (1 - left) of the way from the first fit to the target
    bias = np.minimum(left / np.maximum(1 - left, 0.05), 1.0) * moved
    variances = noise + (1 - left) ** 2 * release.variance / (values * count) + bias**2
    return (vectors * variances) @ vectors.T, float(noise @ values)


def _results(design, plan, release):
    """Results from the release alone."""
    cov, noise = None, 0.0
    if not release.prepared.flat_response:
        cov, noise = _covariance(plan, release)
    return regression_results(
        "Private OLS",
        design,
        plan.guarantee,
        release.prepared,
        release.coefficients,
        cov,
        noise,
        release.gram,
        release.variance,
        winsorized=release.winsorized,
        rounds=_FIRST + _ROUNDS,
    )
