"""AdaSSP: ridge regression from one noisy matrix of moments."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Array, Bounds, Floats, Levels
from dpstats._validation import check
from dpstats.estimation.call import Call, Estimator
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.bootstrap import bootstrap, check_cov_type, solve_response
from dpstats.linear.budget import Step, divide
from dpstats.linear.moments import (
    SHARES,
    BoundedBudget,
    bounded_rows,
    one_stage,
    preparation_steps,
    row_radius,
    shrinkage_bias,
    spectral_floor,
)
from dpstats.linear.prepare import Prepared
from dpstats.linear.public import PublicDesign
from dpstats.linear.results import Inference, regression_results, shortened, stops_short
from dpstats.linear.scores import shortened_gram
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.inference import nearest_psd
from dpstats.results.results import Results
from dpstats.selection.within import selecting

__all__ = ["adassp"]

_SHARES = SHARES | {"whitening": 0.10, "moments": 0.67}
"""Shares of mu^2."""
_CEILING = 5.0
"""Standardised responses are limited to their private range, and to this."""
_BALANCE = 0.7
"""Length of the response's part of a row in relation to the covariates' part, both at their limits."""


@documented
@guarded
def adassp(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    standardize: bool = True,
    clip: float | None = None,
    cov_type: str = "formula",
    select: int | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    r"""Differentially private linear regression from noisy sufficient statistics (AdaSSP).

    Ridge regression on a noisy Gram matrix, the ridge being as large as the noise makes necessary. The
    simplest private regression; :func:`dpstats.ols` is more accurate.

    Parameters
    ----------
    %(formula, data, eps, delta)s
    standardize : bool
        Spend 33 % of ``mu^2`` on a private location and scale of every column without `bounds` and on
        whitening, and use columns within their private ranges. False takes the columns in their own units, as
        Wang (2018) does.
    clip : float, optional
        Norm to which rows are shortened (by that of their covariates), and limit of the response: in
        standardised units, or in the data's own without standardisation. By default ``1.5 sqrt(q)`` for ``q``
        coefficients and 5; without standardisation 1. The response's private range is a limit too.
    %(cov_type, select, bounds, levels, by, ledger, seed)s

    Returns
    -------
    Results or GroupedResults
        With standard errors, ``sigma`` and ``rsquared``.

    %(raises, too few rows, errors)s

    Notes
    -----
    **Method** (Wang 2018). With rows ``z`` within norm `R` and responses ``y`` within `tau`,

    .. math:: \hat\theta = (\tilde G + \lambda I)^{-1} \tilde b, \qquad
              \tilde G = \sum z z^\top + N_G, \quad \tilde b = \sum z y + N_b,

    and :math:`\lambda = \max(0, c - \tilde l)`, ``c`` a bound on the norm of the noise and :math:`\tilde l` a
    lower bound on the least eigenvalue. Both come from one Gram matrix of the rows ``(z, k y)``, which also
    gives the residual variance.

    %(gaussian steps)s
    Proof: ``docs/privacy/adassp.md``.

    By default one private stage of whitening (10 % of ``mu^2``) comes before: directions in which the rows
    hardly vary, such as differences of collinear columns or a rare level, would else be left to the ridge.

    **Standard errors** cover sampling, the noise of both moments, and the ridge's bias in quadrature; a note
    below the table says how far the ridge draws the fit. With ``cov_type="bootstrap"`` its bias is taken off
    the estimates instead.

    %(diamonds)s
    >>> fit = dpstats.adassp("price ~ carat + table", diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.params.round().to_dict(), round(fit.bse["carat"])
    ({'Intercept': 1762.0, 'carat': 7878.0, 'table': -71.0}, 23)
    """
    standardize, clip = (
        check("standardize", standardize, "flag"),
        check("clip", clip, "positive", optional=True),
    )
    cov_type = check_cov_type(cov_type)
    budget = functools.partial(_budget, standardize=standardize, clip=clip, cov_type=cov_type)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed)
    return run(selecting(Estimator("adassp", budget, _release, _results), select), call)


@dataclass(frozen=True)
class _Budget(BoundedBudget):
    """Everything public."""

    cov_type: str


def _budget(
    design: Design, call: Call, rows: int | None, *, standardize: bool, clip: float | None, cov_type: str
) -> _Budget:
    public = PublicDesign.of(design)
    steps = [
        *preparation_steps(public, _SHARES, standardize),
        Step("moments", "moments of covariates and response", _SHARES["moments"]),
    ]
    mus, guarantee = divide(call.eps, call.delta, steps, call.seeded)
    clip = clip if clip or standardize else 1.0
    return _Budget(guarantee, mus, public, one_stage(mus), standardize, clip, cov_type)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases.

    Attributes
    ----------
    prepared : Prepared
    gram : (q, q) array
        ``sum z z'`` plus noise.
    cross : (q,) array
        ``sum z y`` plus noise.
    square : float
        ``sum y^2`` plus noise.
    noise : float
        Standard deviation of the noise on the diagonal of `gram`.
    weight : float
        ``k``: the noise of `cross` has standard deviation ``noise / (k sqrt(2))``, that of `square`
        ``noise / k^2``.
    """

    prepared: Prepared
    gram: Floats
    cross: Floats
    square: float
    noise: float
    weight: float


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed. A row ``(z, k y)`` has squared norm at
    most ``R^2 + (k tau)^2``, which is the sensitivity of the Gram matrix in Frobenius norm. Argument:
    ``docs/privacy/adassp.md``.
    """
    prepared, frame = bounded_rows("adassp", blocks, budget, rng)
    q = len(prepared.affine.columns)
    radius, ceiling = _limits(budget, prepared)
    if prepared.flat_response:
        return _Release(prepared, np.eye(q), np.zeros(q), 0.0, 0.0, 1.0)
    weight = _BALANCE * radius / ceiling
    mu = budget.mus["moments"]
    moments = shortened_gram(blocks, frame, radius, ceiling, budget.standardize, weight, mu, rng)
    return _Release(
        prepared,
        moments[:q, :q],
        moments[:q, q] / weight,
        float(moments[q, q]) / weight**2,
        (radius**2 + (weight * ceiling) ** 2) / mu,
        weight,
    )


def _inference(budget: _Budget, release: _Release, theta: Floats, variance: float) -> Inference:
    """What the noise of the moments and the ridge mean for the coefficients."""
    prepared, G = release.prepared, release.gram
    q, count = len(theta), max(prepared.count, 1.0)
    ridge = spectral_floor(G, release.noise)
    A = G + ridge * np.eye(q)
    inverse, gram = np.linalg.inv(A), nearest_psd(G)
    cross_noise = release.noise / (math.sqrt(2) * release.weight)
    gram_noise = release.noise**2 / 2 * (theta @ theta * np.eye(q) + np.outer(theta, theta))
    privacy = inverse @ (cross_noise**2 * np.eye(q) + gram_noise) @ inverse
    spread = privacy + variance * inverse @ gram @ inverse
    corrected = None
    if budget.cov_type == "bootstrap":
        corrected = bootstrap(theta, G, release.noise, variance, solve_response(A, cross_noise))
    middle, scale = float(prepared.response.loc[0]), float(prepared.response.scale[0])
    radius, ceiling = _limits(budget, prepared)
    notes = (
        *stops_short(np.clip(ridge / np.linalg.eigvalsh(A), 0.0, 1.0), "0", budget.cov_type),
        f"Responses are moved into [{middle - ceiling * scale:.4g}, {middle + ceiling * scale:.4g}]; "
        + shortened(radius, budget.standardize),
    )
    cov = spread + shrinkage_bias(A, ridge, theta, spread)
    return Inference(cov, float(np.sum(privacy * gram)) / count, gram / count, notes, corrected)


def _results(design: Design, budget: _Budget, release: _Release) -> Results:
    """Results from the release alone."""
    prepared, G, b = release.prepared, release.gram, release.cross
    theta: Array = np.linalg.solve(G + spectral_floor(G, release.noise) * np.eye(len(b)), b)
    rss = float(release.square - 2 * theta @ b + theta @ G @ theta)
    variance = max(rss, release.noise / release.weight**2, 1e-12 * abs(release.square)) / max(
        prepared.count, 1.0
    )
    return regression_results(
        "AdaSSP",
        design,
        budget.guarantee,
        prepared,
        theta,
        None if prepared.flat_response else _inference(budget, release, theta, variance),
        variance,
        winsorized=budget.standardize,
    )


def _limits(budget: _Budget, prepared: Prepared) -> tuple[float, float]:
    """The norm to which rows are shortened, and the largest standardised response."""
    radius = budget.clip or row_radius(len(prepared.affine.columns))
    return radius, min(prepared.response_reach, budget.clip or _CEILING)
