"""TukeyEM: a private point of high Tukey depth among least-squares fits on random subsets."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtri

from dpstats._boundary import guarded
from dpstats._validation import check, fail, one_of
from dpstats.errors import ReleaseFailed
from dpstats.estimation import pipeline as _estimate
from dpstats.linear.prepare import Budget, Prepared, PublicDesign, prepare
from dpstats.linear.subsets import fit_subsets, subset_moments
from dpstats.mechanisms import tukey
from dpstats.mechanisms.ptr import passes
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import release_count
from dpstats.mechanisms.whiten import Affine, Stage
from dpstats.privacy.conversions import gdp_eps, gdp_mu
from dpstats.privacy.guarantee import NEIGHBOURS, Guarantee, Spend
from dpstats.results.results import SAMPLING_AND_PRIVACY, Results
from dpstats.selection.within import with_selection

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
_MOST_MODELS = 2000
_FEWEST_MODELS = 8
_LARGEST_LOG = 700.0
"""Its exponential is a double."""
_UNDERCOUNT = 1e-4
_RIDGE = 0.02
_EXTRA_AXES = 2
_PIVOTS = 1024


@guarded
def tukey_em(
    formula,
    data,
    *,
    eps,
    delta=1e-6,
    models=None,
    whiten=True,
    select=None,
    neighbours="add-remove",
    bounds=None,
    levels=None,
    by=None,
    ledger=None,
    seed=None,
):
    """Differentially private linear regression by TukeyEM.

    Least squares is fitted on many random disjoint subsets of the rows, and the exponential mechanism
    draws a point that lies deep among the fits. There is nothing to tune and no bound to guess.

    Parameters
    ----------
    formula : str
        ``"price ~ carat + clarity"``; see :doc:`formulas`.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
        Anything tabular; see :mod:`dpstats.data.sources`.
    eps : float
        Privacy budget; positive.
    delta : float
        In (0, 1); far below one over the number of rows.
    models : int, optional
        Number of subsets. By default from a private count of the rows: enough for the safety test to pass
        on Gaussian fits with 15 % to spare, and more while subsets keep twenty rows a coefficient, up to 2000.
    whiten : bool
        Measure depth along the axes of a privately whitened design (20 % of `eps`). False uses the axes of
        the columns as they are, as Amin et al. do, and prints no standard errors.
    select : int, optional
        Choose this many terms privately first (:func:`dpstats.select_features`), at 5 % of the budget, and fit them.
    neighbours : {"add-remove", "substitution"}
        Whether neighbouring data sets differ by one record more or less, or by one record replaced.
    bounds : mapping of str to (float, float), optional
        Publicly known bounds of columns. They cost nothing and save the standardisation of those columns.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns.
    by : str, optional
        A column with declared levels: one fit for each group, each with the whole budget.
    ledger : Ledger, optional
        Charged before any row is read.
    seed : int, optional
        For simulation only: the release then protects nobody, and its guarantee says so.

    Returns
    -------
    Results or GroupedResults
        ``params``, ``bse``, ``conf_int()``, ``summary()``, ``guarantee`` ...

    Raises
    ------
    ReleaseFailed
        If the data have too few rows for the number of coefficients (the preparation's share of `eps`, and `delta`, are
        spent), or if they fail the safety test (all is spent).
    ParameterError, FormulaError, SchemaError, BudgetExceeded

    Notes
    -----
    **Method.** With ``m`` subsets, ``u(b)`` the least number of fits on either side of ``b`` along any axis, and
    ``t = 0.15 m``, the release has density proportional to ``exp(eps2 u(b) / 2)`` on ``u(b) >= t``, provided that
    a private test finds the fits at a safe distance from any for which that restriction would leak
    (Amin, Joseph, Ribero and Vassilvitskii 2022, with a factor 2 in the exponent and a tighter test).

    **Privacy.** `neighbours` as asked; ``(eps, delta)``-DP. One record lies in one subset, so neighbours differ
    in one fit, and the depth of any point moves by at most 1. 20 % of `eps` and half of `delta` pay for
    Gaussian releases (count, locations, scales, two Gram matrices; composed in mu-GDP), the rest for the
    safety test and the draw behind it (propose-test-release with a single delta). Proofs:
    ``docs/privacy/tukey_em.md``.

    **Standard errors** cover sampling and privacy noise. They rest on homoskedastic, nearly symmetric errors
    and on well-filled subsets: under skewed errors the intercept estimates a median of subset fits, which
    is off the mean.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> fit = dpstats.tukey_em("price ~ carat + clarity", diamonds, eps=1)
    >>> bool(7000 < fit.params["carat"] < 9500)
    True
    """
    eps = check("eps", eps)
    delta = check("delta", delta, "positive_delta")
    models = check("models", models, "count", optional=True)
    if models is not None and models < _FEWEST_MODELS:
        fail("models", models, f"None or an integer of at least {_FEWEST_MODELS}")
    whiten = check("whiten", whiten, "flag")
    one_of("neighbours", neighbours, NEIGHBOURS)

    def plan(design, seeded, eps, delta):
        _estimate.one_response(design, "tukey_em")
        return _plan(design, eps, delta, models, whiten, neighbours, seeded)

    def release(blocks, design, plan, rng):
        return _results(design, plan, _release(blocks, plan, rng))

    plan, release = with_selection(select, eps, delta, plan, release, neighbours=neighbours, by=by)
    return _estimate.estimate(
        "tukey_em",
        formula,
        data,
        bounds=bounds,
        levels=levels,
        by=by,
        ledger=ledger,
        seed=seed,
        plan=plan,
        release=release,
    )


@dataclass(frozen=True)
class _Plan:
    """Everything public: the budget of every step, and what is known about the columns."""

    guarantee: Guarantee
    public: PublicDesign
    budget: Budget
    whiten: bool
    models: int | None
    eps_test: float
    eps_draw: float
    delta: float


def _plan(design, eps, delta, models, whiten, neighbours, seeded):
    public = PublicDesign.of(design)
    steps = []
    if whiten:
        steps += ["count", "whitening"]
        steps += ["scale"] * bool(len(public.free)) + ["response_scale"] * (public.response_bounds is None)
        steps += [s.replace("scale", "location") for s in steps if "scale" in s and public.intercept]
    elif models is None:
        steps += ["count"]
    preparation = _PREPARATION if whiten else _COUNT_ALONE * len(steps)
    mu = gdp_mu(preparation * eps, delta / 2) if steps else 0.0
    total = sum(_SHARES[s] for s in steps)
    mus = {s: mu * math.sqrt(_SHARES[s] / total) if s in steps else 0.0 for s in _SHARES}
    stages = tuple(Stage(c, L, mus["whitening"] * math.sqrt(s)) for c, L, s in _STAGES) if whiten else ()
    named = [
        ("number of rows", mus["count"]),
        ("locations of the columns", mus["location"]),
        ("scales of the columns", mus["scale"]),
        ("location of the response", mus["response_location"]),
        ("scale of the response", mus["response_scale"]),
        *((f"whitening, Gram matrix {i + 1}", stage.mu) for i, stage in enumerate(stages)),
    ]
    rest, delta_rest = (1 - preparation) * eps, delta / 2 if steps else delta
    spends = [Spend(step, "Gaussian noise", gdp_eps(s, delta / 2), delta / 2, mu=s) for step, s in named if s]
    spends.append(
        Spend("coefficients, sigma, R-squared", "safety test, then exponential mechanism", rest, delta_rest)
    )
    return _Plan(
        guarantee=Guarantee(eps, delta, neighbours, "approximate", tuple(spends), seeded=seeded),
        public=public,
        budget=Budget(
            mus["count"],
            mus["location"],
            mus["scale"],
            mus["response_location"],
            mus["response_scale"],
            stages,
            substitution=neighbours == "substitution",
        ),
        whiten=whiten,
        models=models,
        eps_test=_TEST * rest,
        eps_draw=(1 - _TEST) * rest,
        delta=delta_rest,
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
    coefficients : (q,) array
        In the whitened coordinates and the response's units, relative to the first fit.
    log_sigma, log_spread : float
        Logs of the residual standard deviation and of the response's, as drawn.
    """

    prepared: Prepared | None
    count: float | None
    models: int
    coefficients: np.ndarray
    log_sigma: float
    log_spread: float


def _release(blocks, plan, rng):
    """The mechanism: rows in, released values out.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Finite C-contiguous float arrays, (n, d) and (n, 1); re-iterable.
    plan : _Plan
    rng : Randomness

    Returns
    -------
    _Release

    Raises
    ------
    ReleaseFailed

    Notes
    -----
    **Privacy.** ``plan.guarantee``, for add-remove or substitution neighbours. The preparation is Gaussian (see
    :func:`~dpstats.linear.prepare.prepare`). The number of subsets is a function of the released count.
    Every row draws its subset independently, so under either relation neighbours differ in one row of the
    model matrix; the margin of :func:`~dpstats.mechanisms.tukey.margin` then moves by at most 1, and test and
    draw are ``(eps_test + eps_draw, delta)``-DP by propose-test-release. Everything else is post-processing.
    Proof: ``docs/privacy/tukey_em.md``.
    """
    d = len(plan.public.scale)
    prepared, count = None, None
    if plan.whiten:
        prepared = prepare(
            blocks, plan.public, plan.budget, rng, lambda released: _subsets(plan, d, released)
        )
        count = prepared.count
        affine, W = prepared.affine, prepared.whitening.W
    else:
        if plan.budget.count:
            count = release_count(blocks, plan.budget.count, rng)
        affine, W = Affine(np.arange(d), np.zeros(d), np.ones(d)), np.eye(d)
    q = len(affine.columns)
    if q == 0:
        raise ReleaseFailed(
            "tukey_em: no column of the formula shows any variation beyond the privacy noise."
        )
    m = _subsets(plan, q, count)
    slopes = slice(int(plan.public.intercept), None)
    inner = Affine(affine.columns[slopes], affine.loc[slopes], affine.scale[slopes])
    shift, moments = subset_moments(blocks, inner, m, rng)
    if prepared is None:
        fits = fit_subsets(
            shift, moments, W, plan.public.intercept, np.zeros((q, q)), np.zeros(q), centre=True
        )
    else:
        fits = fit_subsets(
            shift,
            moments,
            W,
            plan.public.intercept,
            _ridge(prepared) / m,
            _origin(prepared),
            # without a first fit each subset's own mean is a better centre than a coarse location
            centre=prepared.flat_response,
        )
    axes = np.column_stack([fits.coefficients, fits.log_sigma, fits.log_spread])
    boxes = tukey.Boxes.of(tukey.jitter(axes, rng))
    t = _depth(m)
    margin = tukey.margin(boxes, t, plan.eps_draw, plan.delta)
    if not passes(margin, plan.eps_test, plan.delta, rng):
        raise ReleaseFailed(
            f"tukey_em: the fits on {m} subsets did not pass the safety test, so there is no estimate. "
            "Fewer columns, a larger eps or delta, or more rows would help."
        )
    point = tukey.sample(boxes, t, plan.eps_draw, rng)
    return _Release(prepared, count, m, point[:q], float(point[q]), float(point[q + 1]))


def _ridge(prepared):
    """Ridge for the whole data in the coordinates ``z``: 2 % of the noise floor, where the noise hides the data."""
    return _RIDGE * prepared.whitening.hidden * max(prepared.count, 1.0) / prepared.rows


def _first_fit(prepared):
    """First fit of the response less its location, in the coordinates ``z``, shrunk where the noise hides the data."""
    whitening = prepared.whitening
    inverse = np.linalg.inv(whitening.W)
    gram = max(prepared.count, 1.0) * inverse.T @ inverse
    return np.linalg.solve(gram + _ridge(prepared), gram @ whitening.theta) * prepared.response.scale[0]


def _origin(prepared):
    """What the released coefficients are relative to: the first fit and the response's location, if centred."""
    origin = _first_fit(prepared)
    origin[0] += prepared.response.loc[0]
    return origin


def _depth(m):
    return max(int(_DEPTH * m), 1)


def _subsets(plan, q, count):
    """Number of subsets for `q` coefficients and a released count; refuses when rows are too few."""
    if plan.models is not None:
        return plan.models
    least = tukey.least_models(q + _EXTRA_AXES, plan.eps_test, plan.eps_draw, plan.delta, _DEPTH)
    fewest = math.ceil(_LEAST_HEADROOM * least) * (q + 3)
    low = count + ndtri(_UNDERCOUNT) / plan.budget.count
    if low < fewest:
        raise ReleaseFailed(
            f"tukey_em: a fit of {q} coefficients at eps = {plan.guarantee.eps:.4g} needs about "
            f"{fewest:,} rows, and the private count is {max(count, 0):,.0f}. Nothing was fitted. Fewer columns or a "
            "larger eps would do.",
            plan.guarantee.replace(spends=plan.guarantee.spends[:1]),
        )
    m = max(math.ceil(_HEADROOM * least), min(low / (_ROWS * q), _MOST_MODELS))
    return int(min(m, low / (q + 3)))


@functools.lru_cache(maxsize=256)
def _pivot_variance(m, k, eps):
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


def _results(design, plan, release):
    """Results from the release alone."""
    d = len(design.column_names)
    prepared = release.prepared
    released = {"models": release.models}
    notes = []
    if release.count is not None:
        released["n"] = release.count
    cov = None
    if prepared is None:
        estimates = release.coefficients
        covers = (
            "Without whitening there are no standard errors: the spread of the subset fits is not released."
        )
    else:
        back = prepared.to_units(d, plan.public.intercept)
        whitened = np.linalg.solve(prepared.whitening.W, _origin(prepared)) + release.coefficients
        estimates = back @ whitened
        q = len(release.coefficients)
        rows = max(release.count, 1.0) / release.models
        log_sigma = release.log_sigma - math.log(_median_sd(rows - q))
        log_spread = release.log_spread - math.log(_median_sd(rows - plan.public.intercept))
        sigma = math.exp(min(log_sigma, _LARGEST_LOG))
        released |= {
            "sigma": sigma,
            "rsquared": 1 - math.exp(min(2 * (log_sigma - log_spread), _LARGEST_LOG)),
        }
        covers = "There are no standard errors: the subsets have too few rows for the number of coefficients."
        left_out = np.setdiff1d(np.arange(d), prepared.affine.columns)
        if rows > q + 1:
            covers = SAMPLING_AND_PRIVACY
            cov = back @ _covariance(plan, release, sigma, rows) @ back.T + _thin_cells(
                design, plan, release, back
            )
            cov[left_out] = cov[:, left_out] = np.nan
            notes.append(
                "Standard errors assume homoskedastic, nearly symmetric errors; under skewed errors the intercept "
                "is off the mean."
            )
        if len(left_out):
            names = ", ".join(design.column_names[j] for j in left_out)
            notes.append(f"Left out, no variation beyond the privacy noise: {names}.")
    return Results(
        method="TukeyEM",
        formula=design.formula,
        response=design.response_names[0],
        names=design.column_names,
        estimates=estimates,
        cov=cov,
        covers=covers,
        guarantee=plan.guarantee,
        released=released,
        notes=tuple(notes),
        terms=dict(design.term_slices),
        design=design,
    )


def _median_sd(df):
    """Median of a residual standard deviation with `df` degrees of freedom, for sigma = 1."""
    return math.sqrt(gammaincinv(max(df, 1.0) / 2, 0.5) / (max(df, 1.0) / 2))


def _covariance(plan, release, sigma, rows):
    """Covariance of the released coefficients in whitened coordinates, sampling and privacy noise together."""
    q = len(release.coefficients)
    whitening = release.prepared.whitening
    pivot = _pivot_variance(release.models, q + _EXTRA_AXES, plan.eps_draw)
    # a subset's fit varies by sigma^2 / (rows - q - 1) in a unit direction (random Gaussian design)
    variance = pivot * sigma**2 / max(rows - q - 1, 1.0) / whitening.share
    # what the ridge takes from the coefficients is a bias; it enters in quadrature
    ridge = whitening.W.T @ _ridge(release.prepared) @ whitening.W / max(release.count, 1.0)
    shrunk = np.linalg.solve(whitening.W, _first_fit(release.prepared)) + release.coefficients
    bias = np.linalg.solve(np.diag(whitening.share) + ridge, ridge @ shrunk)
    return np.diag(variance) + np.outer(bias, bias)


def _thin_cells(design, plan, release, back):
    """Variance from cells that few subsets hold: there the release leans on the noisy first fit.

    A cell is a level of a factor, its reference level, or the part of a sparse column away from its location.
    With ``r`` (released) effective rows a subset, a share ``exp(-r)`` of the subsets says nothing about its level,
    and that share of the first fit's error stays.
    """
    prepared = release.prepared
    whitening = prepared.whitening
    d = len(back)
    first = back * np.sqrt(whitening.theta_variance) * prepared.response.scale[0]
    rows = np.full(d, np.inf)
    thinned = max(prepared.count, 1.0) / prepared.rows
    if prepared.columns is not None:
        rows[plan.public.free] = prepared.columns.filled * thinned
    mean = np.ones(d)
    mean[prepared.affine.columns] = prepared.affine.loc + prepared.affine.scale * whitening.mean
    added = np.zeros((d, d))

    def add(cell, filled, shift):
        weight = math.exp(-max(filled, 0.0) / release.models)
        added[...] += weight**2 * np.sum((cell @ first) ** 2) * np.outer(shift, shift)

    unit = np.eye(d)
    for slope in range(int(plan.public.intercept), d):
        if np.isfinite(rows[slope]):
            add(unit[slope], rows[slope], unit[slope])
    if plan.public.intercept:
        for term in design.term_slices.values():
            cells = [j for j in range(d)[term] if j and design.column_bounds[j] == (0, 1)]
            for j in cells:
                add(unit[0] + unit[j], prepared.count * mean[j], unit[j])
            if cells:
                add(unit[0], prepared.count * (1 - mean[cells].sum()), unit[0] - unit[cells].sum(axis=0))
    return added
