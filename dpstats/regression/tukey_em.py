"""TukeyEM: a private point of high Tukey depth among least-squares fits on random subsets."""

import functools
import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.special import ndtri

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Levels
from dpstats._validation import check, fail, one_of
from dpstats.errors import ReleaseFailed
from dpstats.estimation.call import Call, Estimator
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.budget import LinearBudget, Step, divide, preparation, stage_steps, stages_of
from dpstats.linear.cells import cells_of, inherited_root, levels_root, short_root
from dpstats.linear.deep_fit import (
    DEPTH,
    GROUPS,
    DeepFit,
    axes_of,
    covariance,
    depth_of,
    origin_of,
    own_share,
    ridge_of,
    skewness_bias,
    usual_error,
)
from dpstats.linear.goodness import release_goodness
from dpstats.linear.identify import undetermined
from dpstats.linear.prepare import prepare
from dpstats.linear.public import PublicDesign
from dpstats.linear.refusals import too_few
from dpstats.linear.results import constant_alone, left_out, linear_results, moves_the_constant
from dpstats.linear.subsets import fit_subsets, subset_moments
from dpstats.mechanisms import tukey
from dpstats.mechanisms.ptr import passes
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import release_count
from dpstats.mechanisms.whiten import Affine
from dpstats.privacy.guarantee import NEIGHBOURS, Guarantee, Neighbours, Spend
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import SAMPLING_AND_PRIVACY, Results
from dpstats.results.roots import root_of, side_by_side
from dpstats.selection.within import selecting

__all__ = ["tukey_em"]

_PREPARATION = 0.22
"""Share of eps for all Gaussian steps; delta is halved."""
_SHARES = {
    "count": 0.05,
    "location": 0.15,
    "scale": 0.2,
    "response_location": 0.05,
    "response_scale": 0.05,
    "whitening": 0.5,
    "pull": 0.15,
}
_STAGES = ((2.0, 0.0, 0.5), (4.0, 0.0, 0.5))
"""Clip rule (c, L) of each whitening stage, and its share of the whitening."""
_COUNT_ALONE = 0.05
"""Share of eps for the count when there is no whitening."""
_TEST = 0.3
"""Share of the rest of eps for the safety test; the draw has what is left."""
_HEADROOM, _LEAST_HEADROOM = 1.15, 1.05
"""So many times the models that normal fits need; the lesser where there are no rows for more."""
_ROWS = 20
"""More models than the test needs, as long as a subset has so many rows a coefficient."""
_MOST_MODELS, _FEWEST_MODELS = 2000, 8
_SKEWED = (
    "Errors are skewed, and coefficients are medians of least-squares fits on subsets. "
    "Standard errors include an allowance for how far these may be from least squares on all rows."
)
_MOSTLY_ALLOWANCE = (
    "Subsets have few rows, and noise hides how far medians of their fits are off least squares on all rows: "
    "most of the standard errors is an allowance for it."
)
_NOT_DETERMINED = (
    "Not determined at this budget (more rows, a larger eps, or columns that are less alike would do)"
)
_UNDERCOUNT = 1e-4
"""Chance that there are fewer rows than the bound below which the number of subsets is chosen."""
_VISIBLE = 0.02
"""Standard deviation from which on a note says how much noise R-squared has."""
_FIT = 0.05
"""Share of eps for sigma and R-squared."""


@documented
@guarded
def tukey_em(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    models: int | None = None,
    whiten: bool = True,
    select: int | None = None,
    neighbours: Neighbours = "add-remove",
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    """Differentially private linear regression by TukeyEM.

    Least squares is fitted on many random disjoint subsets of the rows, and the exponential mechanism
    draws a point that lies deep among the fits. There is nothing to tune and no bound to guess.

    Parameters
    ----------
    %(formula, data, eps, delta)s
    models : int, optional
        Number of subsets. By default from a private count of the rows: enough for the safety test to pass
        on Gaussian fits with 15 % to spare, and more while subsets keep twenty rows a coefficient, up to
        2000.
    whiten : bool
        Measure depth along the axes of a privately whitened design (22 % of `eps`). False uses the axes of
        the columns as they are, as Amin et al. do, and prints no standard errors.
    %(select)s
    neighbours : {"add-remove", "substitution"}
        Whether neighbouring data sets differ by one record more or less, or by one record replaced.
    %(bounds, levels, by, unit, ledger, seed)s

    %(results)s
        ``params``, ``bse``, ``conf_int()``, ``summary()``, ``guarantee`` ...

    %(raises)s
    ReleaseFailed
        If the data have too few rows for the number of coefficients (the preparation's share of `eps`, and
        `delta`, are spent), or if they fail the safety test (all is spent).
    %(errors)s

    Notes
    -----
    **Method.** With ``m`` subsets, ``u(b)`` the least number of fits on either side of ``b`` along any axis,
    and ``t = 0.15 m``, the release has density proportional to ``exp(eps2 u(b) / 2)`` on ``u(b) >= t``,
    provided that a private test finds the fits at a safe distance from any for which that restriction would
    leak (Amin, Joseph, Ribero and Vassilvitskii 2022, with a factor 2 in the exponent and a tighter test).

    **Privacy.** `neighbours` as asked; ``(eps, delta)``-DP. One record lies in one subset, so neighbours
    differ in one fit, and the depth of any point moves by at most 1. 22 % of `eps` and half of `delta` pay
    for Gaussian releases (count, locations, scales, two Gram matrices, and how many rows pull each
    coefficient up; composed in mu-GDP), 5 % of `eps` for sums of squares with Laplace noise (sigma and
    R-squared), the rest for the safety test and the draw behind it (propose-test-release with a single
    delta). Proofs: ``docs/privacy/tukey_em.md``.

    **What is estimated** is the median of least-squares fits on subsets. With nearly symmetric errors that
    is least squares on all rows, up to noise. With skewed errors it is not: of counts, prices or costs it
    is nearer to zero, the more so the fewer rows a subset has; :func:`~dpstats.ols` estimates the mean.

    **Standard errors** cover sampling and privacy noise, whatever the variances of the errors: a quarter of
    each subset's rows is left out in turn, and depth is measured along the logs of the resulting standard
    errors too. They include an allowance for skewed errors, which a simulation study has set and no theorem,
    and for skewness that noise may hide: with some 20,000 rows at ``eps=1`` that may be most of them, and
    with fewer than some 8,000 for a line nothing is determined. They fall short where the effect of a skewed
    column differs by another and the formula has no product: medians of fits then are far off least squares,
    with few differences of sides. :func:`~dpstats.ols` is for least squares. There are none if subsets have
    too few rows. A coefficient that depends on a direction of the columns which the noise hides is not
    determined: it has no standard error, and a note names it.

    %(diamonds)s
    >>> fit = dpstats.tukey_em("price ~ carat + table", diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.conf_int().round()
                    0        1
    Intercept -6032.0  10408.0
    carat      6815.0   8888.0
    table      -230.0     73.0
    """
    models = check("models", models, "count", optional=True)
    if models is not None and models < _FEWEST_MODELS:
        fail("models", models, f"None or an integer of at least {_FEWEST_MODELS}")
    one_of("neighbours", neighbours, NEIGHBOURS)
    whiten = check("whiten", whiten, "flag")
    budget = functools.partial(_budget, models=models, whiten=whiten, neighbours=neighbours)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit)
    estimator = Estimator("tukey_em", budget, _release, _results, of_units="all in order")
    return run(selecting(estimator, select, neighbours), call)


@dataclass(frozen=True)
class _Budget(LinearBudget):
    """Everything public: that of the preparation, and what is left for test, draw and sums of squares."""

    whiten: bool
    models: int | None
    eps_test: float
    eps_draw: float
    eps_fit: float
    delta: float


def _budget(
    design: Design, call: Call, rows: int | None, *, models: int | None, whiten: bool, neighbours: Neighbours
) -> _Budget:
    public = PublicDesign.of(design)
    steps, share = [], 0.0
    if whiten:
        steps = [*preparation(public, _SHARES), *stage_steps(_STAGES, _SHARES["whitening"])]
        steps.append(Step("pull", "rows that pull coefficients up", _SHARES["pull"]))
        share = _PREPARATION
    elif models is None:
        steps, share = [Step("count", "number of rows", 1.0)], _COUNT_ALONE
    # the draw behind the test pays delta once
    delta = call.delta / 2 if steps else call.delta
    mus, first = divide(share * call.eps, delta, steps, call.seeded) if steps else ({}, None)
    eps_fit = _FIT * call.eps if whiten else 0.0
    rest = (1 - share) * call.eps - eps_fit
    words = "coefficients and their errors" if whiten else "coefficients"
    last = [Spend(words, "safety test, then exponential mechanism", rest, delta)]
    if whiten:
        last.append(Spend("sigma, R-squared", "Laplace noise", eps_fit))
    spends = (*(first.spends if first else ()), *last)
    return _Budget(
        Guarantee(call.eps, call.delta, neighbours, "approximate", spends, seeded=call.seeded),
        mus,
        public,
        stages_of(_STAGES, mus) if whiten else (),
        whiten,
        models,
        eps_test=_TEST * rest,
        eps_draw=(1 - _TEST) * rest,
        eps_fit=eps_fit,
        delta=delta,
    )


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> DeepFit:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, for add-remove or substitution neighbours. The preparation is Gaussian
    (see :func:`~dpstats.linear.prepare.prepare`). The number of subsets is a function of the released count.
    Every row draws its subset independently, so under either relation neighbours differ in one row of the
    model matrix; the margin of :func:`~dpstats.mechanisms.tukey.margin` then moves by at most 1, and test and
    draw are ``(eps_test + eps_draw, delta)``-DP by propose-test-release. The sums of squares at the released
    point are ``eps_fit``-DP, and the numbers of rows on either side of it are Gaussian, composed with the
    preparation. Everything else is post-processing. Proof: ``docs/privacy/tukey_em.md``.
    """
    d = len(budget.public.scale)
    prepared = count = None
    if budget.whiten:
        prepared = prepare(
            "tukey_em", blocks, budget, rng, check_count=functools.partial(_plan, budget, d), squared=True
        )
        count, affine, axes = prepared.count, prepared.affine, axes_of(prepared.whitening)
        W = prepared.whitening.W @ axes
    else:
        if "count" in budget.mus:
            count = release_count(blocks, budget.mus["count"], rng)
        affine, axes, W = Affine(np.arange(d), np.zeros(d), np.ones(d)), np.eye(d), np.eye(d)
    q = len(affine.columns)
    # (of all rows: with as many as passed before nothing is refused here)
    m, errors = _plan(budget, q, count if prepared is None else prepared.counted)
    slopes = slice(int(budget.public.intercept), None)
    inner = Affine(affine.columns[slopes], affine.loc[slopes], affine.scale[slopes])
    gone = None if prepared is None else prepared.gone
    shift, moments = subset_moments(blocks, inner, m, rng, GROUPS if errors else 1, gone)
    ridge, origin, centre, usual = np.zeros((q, q)), np.zeros(q), True, None
    if prepared is not None:
        # without a first fit each subset's own mean is a better centre than a coarse location
        ridge, origin, centre = ridge_of(prepared) / m, origin_of(prepared), prepared.flat_response
        usual = usual_error(prepared, m)
    fits = fit_subsets(shift, moments, W, budget.public.intercept, ridge, origin, centre, usual)
    boxes = tukey.Boxes.of(tukey.jitter(np.hstack([fits.coefficients, fits.log_errors]), rng))
    t = depth_of(m)
    margin = tukey.margin(boxes, t, budget.eps_draw, budget.delta)
    if not passes(margin, budget.eps_test, budget.delta, rng):
        raise ReleaseFailed(
            f"tukey_em: the fits on {m} subsets did not pass the safety test, so there is no estimate. "
            "Fewer columns, a larger eps or delta, or more rows would help."
        )
    point = tukey.sample(boxes, t, budget.eps_draw, rng)
    goodness = None
    if prepared is not None and not prepared.flat_response:
        beta = origin + W @ point[:q]
        response = prepared.response
        scale = float(response.scale[0])
        scales = prepared.whitening.sigma * scale, float(origin @ prepared.whitening.mean), scale
        if not budget.public.intercept:
            beta, scales = np.append(0.0, beta), (scales[0], 0.0, scale)
        sides = np.vstack([np.zeros((1 - slopes.start, q)), W])
        kept = cast(Blocks, prepared.rows_of(blocks))
        given = (max(prepared.count, 1.0), budget.eps_fit, budget.mus["pull"], budget.public.intercept)
        goodness = release_goodness(kept, inner, beta, sides, scales, *given, rng)
    return DeepFit(prepared, count, m, axes, point[:q], point[q:], goodness)


def _plan(budget: _Budget, q: int, count: float | None) -> tuple[int, bool]:
    """Number of subsets for `q` coefficients and a released count, and whether standard errors have axes.

    Refuses when rows are too few. `least` models pass the safety test if their fits are normal; a fit with a
    variance needs ``q + 3`` rows, and so do three quarters of a subset for the standard errors.
    """
    least, rows = _least(budget, q)
    if budget.models is not None:
        enough = count is not None and count / budget.models >= rows[1]
        return budget.models, bool(budget.whiten and enough and budget.models >= least[1])
    assert count is not None, "released wherever the number of subsets is not given"
    needs = _needs(budget, q)
    if count < needs[0]:
        safe = needs[0] + _doubt(budget)
        raise too_few("tukey_em", budget, count, f"{q} coefficients need", safe, "Fewer columns")
    errors = bool(budget.whiten and count >= needs[1])
    # at least so many rows, but for bad luck with the noise of the count
    low = count - _doubt(budget)
    m = max(math.ceil(_HEADROOM * least[errors]), min(low / (_ROWS * q), _MOST_MODELS))
    return int(min(m, low / rows[errors])), errors


def _doubt(budget: _Budget) -> float:
    """By how many rows a count may be too large, but for bad luck with its noise."""
    return float(-ndtri(_UNDERCOUNT) / budget.mus["count"])


def _least(budget: _Budget, q: int) -> tuple[list[int], list[float]]:
    """Least numbers of subsets and of rows of one, for `q` coefficients without and with standard errors."""
    least = [tukey.least_models(k, budget.eps_test, budget.eps_draw, budget.delta, DEPTH) for k in (q, 2 * q)]
    return least, [float(q + 3), (q + 3) * GROUPS / (GROUPS - 1)]


def _needs(budget: _Budget, q: int) -> list[float]:
    """Private counts that suffice for `q` coefficients without and with standard errors."""
    fewest = [math.ceil(_LEAST_HEADROOM * m) * n for m, n in zip(*_least(budget, q), strict=True)]
    return [rows + _doubt(budget) for rows in fewest]


def _results(design: Design, budget: _Budget, release: DeepFit) -> Results:
    """Results from the release alone."""
    prepared, q = release.prepared, len(release.coefficients)
    released: dict[str, float] = {"models": release.models}
    if release.count is not None:
        released["n"] = release.count
    if prepared is None:
        covers = (
            "Without whitening there are no standard errors: the spread of the subset fits is not released."
        )
        return Results.of_regression(
            design, "TukeyEM", release.coefficients, budget.guarantee, covers, released=released
        )
    back = prepared.to_units(len(design.column_names), budget.public.intercept)
    moved = release.axes @ release.coefficients
    estimates = back @ (np.linalg.solve(prepared.whitening.W, origin_of(prepared)) + moved)
    goodness, rows = release.goodness, max(prepared.count, 1.0)
    if goodness is not None:
        released["sigma"] = math.sqrt(goodness.residual * rows / max(rows - q, 1.0))
        released["rsquared"] = 0.0 if constant_alone(design) else goodness.rsquared
    cov = root = None
    notes = left_out(design, prepared)
    if goodness is not None and goodness.rsquared_noise > _VISIBLE and not constant_alone(design):
        notes = (*notes, f"R-squared has noise with a standard deviation of {goodness.rsquared_noise:.2f}.")
    covers = "There are no standard errors: the subsets have too few rows to show how the fits vary."
    if budget.models is None:
        enough = _needs(budget, len(release.coefficients))[1] + _doubt(budget)
        covers += f" Some {enough:,.0f} rows would do."
    if prepared.flat_response:
        covers = "The response shows no variation beyond the privacy noise: there are no standard errors."
    elif len(release.log_errors):
        covers = SAMPLING_AND_PRIVACY
        inner, hidden = covariance(release, prepared, budget.eps_draw)
        roots = back @ root_of(inner), back @ root_of(hidden)
        cov, hidden = back @ inner @ back.T, back @ hidden @ back.T
        errors = back * np.sqrt(prepared.whitening.theta_variance) * prepared.response.scale[0]
        cells = cells_of(design, budget.public, prepared)
        inherited = inherited_root(cells, release.models, errors)
        own = own_share(release, prepared, budget.eps_draw)
        short = short_root(cells, release.models, own * cov)
        levels = back @ levels_root(prepared, release.models, own * inner)
        inherited = np.hstack([inherited, short, levels])
        cov = cov + inherited @ inherited.T
        skewed = skewness_bias(back, release, prepared, budget.eps_draw)
        cov = cov + np.diag(skewed)
        if skewed.any():
            notes = (*notes, _SKEWED)
        root = side_by_side(*roots, inherited, np.diag(np.sqrt(skewed)))
        lost = undetermined(cov, hidden)
        if prepared.unseen is not None:
            lost |= prepared.unseen
        if moves_the_constant(design, prepared):
            lost[0] = True
        cov = cov + hidden
        cov[lost] = cov[:, lost] = np.nan
        if lost.any():
            names = ", ".join(np.array(design.column_names)[lost])
            notes = (*notes, f"{_NOT_DETERMINED}: {names}.")
        if own < 0.5 and not (skewed.any() or lost.all()):
            notes = (*notes, _MOSTLY_ALLOWANCE)
    return linear_results(
        "TukeyEM",
        design,
        budget.guarantee,
        prepared,
        estimates,
        covers,
        cov=cov,
        released=released,
        notes=notes,
        root=root,
    )
