"""TukeyEM: a private point of high Tukey depth among least-squares fits on random subsets."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Floats, Levels
from dpstats._validation import check, fail, one_of
from dpstats.errors import ReleaseFailed
from dpstats.estimation.call import Call, Estimator
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.budget import LinearBudget, Step, divide, preparation, stage_steps, stages_of
from dpstats.linear.cells import cells_of, inherited_variance
from dpstats.linear.goodness import Goodness, release_goodness
from dpstats.linear.identify import BELOW, CERTAIN, HIDDEN, undetermined
from dpstats.linear.prepare import Prepared, prepare
from dpstats.linear.public import PublicDesign
from dpstats.linear.results import left_out, linear_results
from dpstats.linear.subsets import fit_subsets, subset_moments
from dpstats.mechanisms import tukey
from dpstats.mechanisms.ptr import passes
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import release_count
from dpstats.mechanisms.whiten import Affine, Whitening
from dpstats.privacy.guarantee import NEIGHBOURS, Guarantee, Neighbours, Spend
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import SAMPLING_AND_PRIVACY, Results
from dpstats.selection.within import selecting

__all__ = ["tukey_em"]

_PREPARATION = 0.2
"""Share of eps for the count, the standardisation and the whitening; delta is halved."""
_SHARES = {
    "count": 0.05,
    "location": 0.15,
    "scale": 0.2,
    "response_location": 0.05,
    "response_scale": 0.05,
    "whitening": 0.5,
}
_STAGES = ((2.0, 0.0, 0.5), (4.0, 0.0, 0.5))
"""Clip rule (c, L) of each whitening stage, and its share of the whitening."""
_COUNT_ALONE = 0.05
"""Share of eps for the count when there is no whitening."""
_TEST = 0.3
"""Share of the rest of eps for the safety test; the draw has what is left."""
_DEPTH = 0.15
"""The draw is restricted to depth at least this share of the models."""
_HEADROOM, _LEAST_HEADROOM = 1.15, 1.05
"""So many times the models that normal fits need; the lesser where there are no rows for more."""
_ROWS = 20
"""More models than the test needs, as long as a subset has so many rows a coefficient."""
_MOST_MODELS, _FEWEST_MODELS = 2000, 8
_ESTIMAND = (
    "The coefficients are medians of least-squares fits on subsets. Where errors are skewed, "
    "these are not the coefficients of the mean."
)
_NOT_DETERMINED = (
    "Not determined at this budget (more rows, a larger eps, or columns that are less alike would do)"
)
_LARGEST_LOG = 150.0
"""The square of its exponential is a double, and so are products with it."""
_NEGLIGIBLE = 0.01
"""A ridge that leaves no more than this share of the way does not matter."""
_UNDERCOUNT = 1e-4
"""Chance that there are fewer rows than the bound below which the number of subsets is chosen."""
_RIDGE = 0.02
"""Ridge of the subsets' fits, in units of the noise floor of the whitening's first stage."""
_GROUPS = 4
"""Groups of a subset's rows, left out in turn for its standard errors."""
_FIT = 0.08
"""Share of eps for sigma and R-squared."""
_SEEN = 0.5
"""All directions are seen if the whitening left none with a mean square below this."""
_SMALL = 30
"""Subsets with more rows a coefficient are taken for large ones."""
_PIVOTS = 1024
"""Number of simulated draws, over all axes."""


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
        Measure depth along the axes of a privately whitened design (20 % of `eps`). False uses the axes of
        the columns as they are, as Amin et al. do, and prints no standard errors.
    %(select)s
    neighbours : {"add-remove", "substitution"}
        Whether neighbouring data sets differ by one record more or less, or by one record replaced.
    %(bounds, levels, by, ledger, seed)s

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
    differ in one fit, and the depth of any point moves by at most 1. 20 % of `eps` and half of `delta` pay
    for Gaussian releases (count, locations, scales, two Gram matrices; composed in mu-GDP), the rest for the
    safety test and the draw behind it (propose-test-release with a single delta). Proofs:
    ``docs/privacy/tukey_em.md``.

    **Standard errors** cover sampling and privacy noise. They rest on homoskedastic, nearly symmetric errors
    and on well-filled subsets: under skewed errors the intercept estimates a median of subset fits, which
    is off the mean.

    %(diamonds)s
    >>> fit = dpstats.tukey_em("price ~ carat + table", diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.conf_int().round()
                    0       1
    Intercept  1383.0  2535.0
    carat      7787.0  7885.0
    table       -85.0   -64.0
    """
    models = check("models", models, "count", optional=True)
    if models is not None and models < _FEWEST_MODELS:
        fail("models", models, f"None or an integer of at least {_FEWEST_MODELS}")
    one_of("neighbours", neighbours, NEIGHBOURS)
    whiten = check("whiten", whiten, "flag")
    budget = functools.partial(_budget, models=models, whiten=whiten, neighbours=neighbours)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed)
    return run(selecting(Estimator("tukey_em", budget, _release, _results), select, neighbours), call)


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


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases.

    Attributes
    ----------
    prepared : Prepared or None
        Count, standardisation, whitening and first fit; None without whitening.
    count : float or None
        Number of rows plus noise.
    models : int
        Number of subsets used.
    axes : (q, q) array
        Orthonormal directions in the whitened coordinates, along which depth is measured.
    coefficients : (q,) array
        Along the axes, in the response's units, relative to the first fit.
    log_errors : (q,) array, or (0,)
        Logs of the standard errors of a subset's coefficients, as drawn.
    goodness : Goodness or None
    """

    prepared: Prepared | None
    count: float | None
    models: int
    axes: Floats
    coefficients: Floats
    log_errors: Floats
    goodness: Goodness | None


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, for add-remove or substitution neighbours. The preparation is Gaussian
    (see :func:`~dpstats.linear.prepare.prepare`). The number of subsets is a function of the released count.
    Every row draws its subset independently, so under either relation neighbours differ in one row of the
    model matrix; the margin of :func:`~dpstats.mechanisms.tukey.margin` then moves by at most 1, and test and
    draw are ``(eps_test + eps_draw, delta)``-DP by propose-test-release. The sums of squares at the released
    point are ``eps_fit``-DP. Everything else is post-processing. Proof: ``docs/privacy/tukey_em.md``.
    """
    d = len(budget.public.scale)
    prepared = count = None
    if budget.whiten:
        prepared = prepare("tukey_em", blocks, budget, rng, check_count=functools.partial(_plan, budget, d))
        count, affine, axes = prepared.count, prepared.affine, _axes(prepared.whitening)
        W = prepared.whitening.W @ axes
    else:
        if "count" in budget.mus:
            count = release_count(blocks, budget.mus["count"], rng)
        affine, axes, W = Affine(np.arange(d), np.zeros(d), np.ones(d)), np.eye(d), np.eye(d)
    q = len(affine.columns)
    m, errors = _plan(budget, q, count)
    slopes = slice(int(budget.public.intercept), None)
    inner = Affine(affine.columns[slopes], affine.loc[slopes], affine.scale[slopes])
    shift, moments = subset_moments(blocks, inner, m, rng, _GROUPS if errors else 1)
    ridge, origin, centre = np.zeros((q, q)), np.zeros(q), True
    if prepared is not None:
        # without a first fit each subset's own mean is a better centre than a coarse location
        ridge, origin, centre = _ridge(prepared) / m, _origin(prepared), prepared.flat_response
    fits = fit_subsets(shift, moments, W, budget.public.intercept, ridge, origin, centre)
    boxes = tukey.Boxes.of(tukey.jitter(np.hstack([fits.coefficients, fits.log_errors]), rng))
    t = _depth(m)
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
        rows, eps = max(prepared.count, 1.0), budget.eps_fit
        goodness = release_goodness(blocks, inner, beta, scales, rows, eps, budget.public.intercept, rng)
    return _Release(prepared, count, m, axes, point[:q], point[q:], goodness)


def _axes(whitening: Whitening) -> Floats:
    """Directions in the whitened coordinates: near the columns' own, if the noise hides none of them."""
    if (whitening.gram - 2 * whitening.spread**2 < _SEEN).any():
        return np.eye(len(whitening.W))
    # W = P U with P symmetric: along the rows of U the coefficients are nearest to those of the columns
    left, _, right = np.linalg.svd(whitening.W)
    return (left @ right).T


def _ridge(prepared: Prepared) -> Floats:
    """Ridge for all rows in the coordinates ``z``: 2 % of what the directions that are hard to see lack."""
    return _RIDGE * prepared.whitening.hidden * max(prepared.count, 1.0) / prepared.rows


def _first_fit(prepared: Prepared) -> Floats:
    """First fit of the centred response in the coordinates ``z``, shrunk where the noise hides the data."""
    whitening = prepared.whitening
    inverse = np.linalg.inv(whitening.W)
    gram = max(prepared.count, 1.0) * inverse.T @ inverse
    return np.linalg.solve(gram + _ridge(prepared), gram @ whitening.theta) * prepared.response.scale[0]


def _origin(prepared: Prepared) -> Floats:
    """What the released coefficients are relative to: first fit and location of the response, if centred."""
    origin = _first_fit(prepared)
    origin[0] += prepared.response.loc[0]
    return origin


def _depth(m: int) -> int:
    return max(int(_DEPTH * m), 1)


def _plan(budget: _Budget, q: int, count: float | None) -> tuple[int, bool]:
    """Number of subsets for `q` coefficients and a released count, and whether standard errors have axes.

    Refuses when rows are too few. `least` models pass the safety test if their fits are normal; a fit with a
    variance needs ``q + 3`` rows, and so do three quarters of a subset for the standard errors.
    """
    least = [
        tukey.least_models(k, budget.eps_test, budget.eps_draw, budget.delta, _DEPTH) for k in (q, 2 * q)
    ]
    rows = [float(q + 3), (q + 3) * _GROUPS / (_GROUPS - 1)]
    if budget.models is not None:
        known = budget.whiten and count is not None
        return budget.models, known and budget.models >= least[1] and count / budget.models >= rows[1]
    assert count is not None, "released wherever the number of subsets is not given"
    fewest = [math.ceil(_LEAST_HEADROOM * m) * n for m, n in zip(least, rows, strict=True)]
    # at least so many rows, but for bad luck with the noise of the count
    low = count + ndtri(_UNDERCOUNT) / budget.mus["count"]
    if low < fewest[0]:
        raise ReleaseFailed(
            f"tukey_em: a fit of {q} coefficients at eps = {budget.guarantee.eps:.4g} needs about "
            f"{fewest[0]:,.0f} rows, and the private count is {max(count, 0):,.0f}. Nothing was fitted. "
            "Fewer columns or a larger eps would do.",
            budget.guarantee.replace(spends=budget.guarantee.spends[:1]),
        )
    errors = bool(budget.whiten and low >= fewest[1])
    m = max(math.ceil(_HEADROOM * least[errors]), min(low / (_ROWS * q), _MOST_MODELS))
    return int(min(m, low / rows[errors])), errors


@functools.lru_cache(maxsize=256)
def _pivot_variance(m: int, k: int, eps: float) -> float:
    """Variance of ``released - c`` on one axis when the `m` fits are standard normal around ``c``.

    Simulated with a fixed seed through the same sampler; no data are involved.
    """
    generator = np.random.default_rng(20220816)
    rng = Randomness(seed=20220816)
    runs = max(16, -(-_PIVOTS // k))
    draws = [
        tukey.sample(tukey.Boxes.of(generator.standard_normal((m, k))), _depth(m), eps, rng)
        for _ in range(runs)
    ]
    return float(np.mean(np.square(draws)))


@functools.lru_cache(maxsize=256)
def _true_square(rows: int, q: int) -> float:
    """Variance of a coefficient over the square of its median jackknife standard error.

    Simulated for normal columns and errors, with so many `rows` in each of the groups; no data are involved.
    """
    generator = np.random.default_rng(20220816)
    sets = max(64, _PIVOTS * _GROUPS // q)
    rows = min(rows, _SMALL * q // _GROUPS + 1)
    u = generator.standard_normal((sets * _GROUPS, rows, q + 2))
    u[:, :, 0] = 1.0
    moments = u.transpose(0, 2, 1) @ u
    zero = np.zeros((q, q))
    logs = fit_subsets(np.zeros(sets), moments, np.eye(q), False, zero, np.zeros(q)).log_errors
    return math.exp(-2 * float(np.median(logs))) / max(rows * _GROUPS - q - 1, 1)


def _results(design: Design, budget: _Budget, release: _Release) -> Results:
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
    estimates = back @ (np.linalg.solve(prepared.whitening.W, _origin(prepared)) + moved)
    goodness, rows = release.goodness, max(prepared.count, 1.0)
    if goodness is not None:
        released["sigma"] = math.sqrt(goodness.residual * rows / max(rows - q, 1.0))
        released["rsquared"] = goodness.rsquared
    cov, notes = None, (_ESTIMAND, *left_out(design, prepared))
    covers = "There are no standard errors: the subsets have too few rows to show how the fits vary."
    if len(release.log_errors):
        covers = SAMPLING_AND_PRIVACY
        inner, hidden = _covariance(budget, release, prepared)
        cov, hidden = back @ inner @ back.T, back @ hidden @ back.T
        errors = back * np.sqrt(prepared.whitening.theta_variance) * prepared.response.scale[0]
        cells = cells_of(design, budget.public, prepared)
        cov = cov + inherited_variance(cells, release.models, errors)
        lost = undetermined(cov, hidden)
        cov = cov + hidden
        cov[lost] = cov[:, lost] = np.nan
        if lost.any():
            names = ", ".join(np.array(design.column_names)[lost])
            notes = (*notes, f"{_NOT_DETERMINED}: {names}.")
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
    )


def _covariance(budget: _Budget, release: _Release, prepared: Prepared) -> tuple[Floats, Floats]:
    """Covariance of the released coefficients in whitened coordinates, and that of hidden directions.

    A direction is hidden if its mean square may be 0 for all that the noise shows: the ridge may then hold a
    fit at the origin, and nothing is known of its bias. Elsewhere the ridge leaves a known share of the way.
    """
    q, whitening = len(release.coefficients), prepared.whitening
    pivot = _pivot_variance(release.models, 2 * q, budget.eps_draw)
    count = max(prepared.count, 1.0)
    true = _true_square(max(round(count / release.models / _GROUPS), 1), q)
    variance = pivot * true * np.exp(2 * np.clip(release.log_errors, -_LARGEST_LOG, _LARGEST_LOG))
    cov = (release.axes * variance) @ release.axes.T
    ridge = whitening.W.T @ _ridge(prepared) @ whitening.W / count
    noise = whitening.spread**2
    dark = whitening.gram - CERTAIN * noise <= HIDDEN
    safe = np.maximum(whitening.gram - BELOW * noise, HIDDEN)
    # the first fit explains what it leaves no worse than this
    unexplained = whitening.sigma**2 * float(prepared.response.scale[0]) ** 2
    left = np.linalg.solve(np.diag(safe) + ridge, ridge)
    kept = np.clip(np.diagonal(left), 0.0, 1.0)
    reached = np.abs(release.axes @ release.coefficients) + 2 * np.sqrt(np.diagonal(cov))
    most = np.minimum(np.sqrt(unexplained / safe), reached / np.maximum(1 - kept, 1e-12))
    bias = np.where(dark, 0.0, np.abs(left) @ np.where(dark, 0.0, most))
    stands_for = np.where(dark & (kept > _NEGLIGIBLE), unexplained / HIDDEN, 0.0)
    return cov + np.diag(bias**2), np.diag(stands_for)
