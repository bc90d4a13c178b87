"""Private Medsweep: regression by repeated median slopes (Van Aelst et al. 2002, Cumings-Menon 2022)."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._format import too_few
from dpstats._types import Bounds, Floats, Levels
from dpstats._validation import check, fail, one_of
from dpstats.engines.local import gather, row_products
from dpstats.errors import ParameterError, ReleaseFailed
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.mechanisms import exponential
from dpstats.mechanisms.exponential import exponential_spend
from dpstats.mechanisms.median_slope import LARGEST, median_slope, smooth_slope_bound
from dpstats.mechanisms.noise import laplace
from dpstats.mechanisms.order_statistics import lower_median, smooth_median_bound
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.smooth_sensitivity import NoiseInterval, SmoothNoise, release, tuned
from dpstats.privacy.conversions import zcdp_rho
from dpstats.privacy.guarantee import KINDS, Guarantee, Spend
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import PRIVACY, Results

__all__ = ["medsweep"]

_VARIANTS = ("sequential", "joint")
_ROWS, _RATIOS = 100, 200
"""Least rows, and least ratios of which a slope is the median, times the budget of each median."""
_LARGEST = 2.0**200
_COUNT = 0.05
"""Share of eps for the private number of slopes."""
_NEEDS = functools.partial(
    Needs,
    columns="covariates",
    public_rows=True,
    numbers=True,
    instead="For levels use dpstats.huber, or dpstats.deepest_regression for two levels alone.",
)
_DRAWN = (
    "The medians come from exponential mechanisms, whose spread is not released; a slope that their noise "
    "does not tell from 0 comes out as 0 or next to it."
)
_CARRIED = "The noise of several slopes is carried from one covariate to the next."


@documented
@guarded
def medsweep(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    variant: str = "sequential",
    clamp: float | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    """Differentially private robust regression by sweeping: medians of slopes, one covariate at a time.

    A fast relative of the deepest regression, for any number of covariates.

    Parameters
    ----------
    formula : str
        ``"y ~ x1 + x2"``, with a constant. The order matters: each covariate is swept on those before it.
        Terms with levels, booleans or comparisons are refused: see *0/1 columns* below.
    %(data, eps)s
    delta : float
        In [0, 1) for ``"sequential"``, which uses it only where composition gains by it (from about a dozen
        medians, three covariates); positive for ``"joint"``.
    variant : {"sequential", "joint"}
        ``"sequential"``: every median of the algorithm is released by the exponential mechanism. No bounds
        are needed. ``"joint"``: the paper's: Laplace noise of smooth sensitivity once for each slope.
    clamp : float, optional
        For ``"joint"``: slopes and intercept are clamped to ``[-clamp, clamp]``; public, may be loose.
    bounds : mapping of str to (float, float), optional
        Public bounds of columns.
    %(levels, by, unit, ledger, seed)s

    %(results)s

    %(raises)s
    ReleaseFailed
        With ``"sequential"``, if a private count finds too few rows for a slope.
    %(errors)s

    Notes
    -----
    **Method.** Covariate ``j`` is centred at its median and swept: its median slope on each earlier swept
    covariate is taken out. The response is swept likewise, once, and the intercept is the median residual. In
    the joint variant the two centres of a slope are not released, and its noise covers them. Without bounds
    nothing can be said of a covariate that does not vary: ``"sequential"`` then draws its coefficient from
    all doubles. So it may with too few rows: fewer than 100 over the budget of each median are refused. A
    slope is a median over the rows that are off their covariate's median: a private number of them (5 % of
    `eps`) decides whether the line is released.

    **0/1 columns.** Medsweep is for covariates whose values are mostly different. The coefficient of a 0/1
    column that is 0 in most rows comes out as the median response of the ones less that of *all* rows, where
    a regression takes that of the zeros: nearer to 0 by a part that grows with the share of ones, at any
    `eps` and any number of rows. The same holds of other columns with one value in many rows, such as
    amounts that are mostly 0, and spoils the coefficients of covariates that go with them. Terms that are
    levels by the formula and what is declared are refused; a 0/1 column that is read as numbers is not seen,
    as that would be to look at the rows.

    **Small slopes.** Doubles are densest about 0. Where the noise of a median does not tell a slope from 0
    the draw is nearly always next to 0: 1e-90 is such a one, and the table prints 0. So moderate slopes come
    out as 0 or nearly right, and are too small on average.

    **Privacy.** Neighbours: one record replaced. ``"sequential"``: pure ``eps``-DP, or ``(eps, delta)``-DP
    where that allows more for each median. ``"joint"``: ``(eps, delta)``-DP, equal shares for each slope and
    the intercept. Proof: ``docs/privacy/medsweep.md``.

    **Intervals.** ``"joint"`` with one covariate: the privacy noise alone. Otherwise none.

    Examples
    --------
    >>> import dpstats, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x, z = rng.normal(size=(2, 2000))
    >>> data = {"x": x, "z": z, "y": 1 + 2 * x - z + rng.standard_t(3, size=2000)}
    >>> fit = dpstats.medsweep("y ~ x + z", data, eps=2, seed=1)  # seeded for the example
    >>> fit.params.round(2).to_dict()
    {'Intercept': 0.97, 'x': 2.08, 'z': -1.08}
    """
    one_of("variant", variant, _VARIANTS)
    clamp = check("clamp", clamp, "positive", optional=variant == "sequential")
    if variant == "sequential" and clamp is not None:
        fail("clamp", clamp, "None unless variant='joint'")
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit)
    if variant == "sequential":
        steps = _sequential_budget, _sequential_release, _sequential_results
        return run(Estimator("medsweep", *steps, _NEEDS(delta="delta")), call)
    budget = functools.partial(_joint_budget, clamp=clamp)
    return run(Estimator("medsweep", budget, _joint_release, _joint_results, _NEEDS()), call)


def _swept(
    X: Floats, y: Floats, centre: Callable[[Floats, int], float], slope: Callable[[Floats, Floats], float]
) -> Floats:
    """Slopes of a response on covariates, by sweeping.

    Parameters
    ----------
    X : (n, p) array
    y : (n,) array
    centre : callable
        ``centre(values, j)``: what is taken from covariate ``j``, and from the response as ``j = p``.
    slope : callable
        ``slope(u, w)`` releases the median slope of `w` on `u`.

    Returns
    -------
    (p,) ndarray
    """
    swept: list[Floats] = []
    slopes, p = np.zeros((X.shape[1] + 1, X.shape[1])), X.shape[1]
    for j, column in enumerate([*X.T, y]):
        column = column - centre(column, j)
        for k, earlier in enumerate(swept):
            slopes[j, k] = slope(earlier, column)
            column = column - slopes[j, k] * earlier
        swept.append(column)
    to_x = np.eye(p)
    for j in range(p):
        for k in range(j):
            to_x[:, j] -= slopes[j, k] * to_x[:, k]
    return to_x @ slopes[p]


# -- every median by itself ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SequentialBudget:
    """Public facts: the price of each median and of the count, and the bounds of covariates and response."""

    guarantee: Guarantee
    rows: int
    eps_each: float
    eps_count: float
    bounds: tuple[tuple[float, float] | None, ...]


def _sequential_budget(design: Design, call: Call, rows: int) -> _SequentialBudget:
    names, response = design.column_names[1:], design.response_names[0]
    steps = []
    for j, name in enumerate(names):
        steps += [f"median of {name}", *(f"slope of {name} on {earlier}" for earlier in names[:j])]
    steps += [f"median of {response}", *(f"slope on {name}" for name in names), "intercept"]
    eps, delta = call.eps, call.delta
    count = _COUNT * eps
    each, kind, spent = (eps - count) / len(steps), KINDS[0], 0.0
    if delta > 0:
        concentrated = (8 * max(zcdp_rho(eps, delta) - count**2 / 2, 0.0) / len(steps)) ** 0.5
        if concentrated > each:
            each, kind, spent = concentrated, KINDS[1], delta
    if rows < _ROWS / each:
        raise ParameterError(
            f"medsweep: {too_few(rows)} for {len(steps)} medians at eps = {eps:g}, which need "
            f"{math.ceil(_ROWS / each):,} at least. Fewer covariates or a larger eps would do."
            f"{call.unit_reminder}"
        )
    spends = tuple(exponential_spend(step, each) for step in steps)
    spends = (*spends, Spend("number of slopes", "Laplace noise", count, rho=count**2 / 2))
    guarantee = Guarantee(eps, spent, "substitution", kind, spends, seeded=call.seeded)
    bounds = (*design.column_bounds[1:], design.response_bounds[0])
    return _SequentialBudget(guarantee, rows, each, count, bounds)


@dataclass(frozen=True)
class _SequentialRelease:
    """Coefficients, the intercept first."""

    coefficients: np.ndarray


def _sequential_release(blocks: Blocks, budget: _SequentialBudget, rng: Randomness) -> _SequentialRelease:
    """The mechanism: rows in, coefficients out.

    Raises
    ------
    ReleaseFailed

    Notes
    -----
    **Privacy.** Each step maps every row by itself, with numbers released before, to one number, and releases
    the median of those that are finite by an exponential mechanism that covers a row replaced, added or
    removed. Given the numbers released, a record moves the count of each slope's ratios by at most 1, and so
    the least of them, which gets Laplace noise.
    """
    X, Y = gather(blocks)
    X, y = X[:, 1:], Y[:, 0]
    counts = []

    def median(values: Floats, bounds: tuple[float, float] | None = None) -> float:
        values = values[np.isfinite(values)]
        return exponential.quantile(
            values, 0.5, budget.eps_each, rng, neighbours="substitution", bounds=bounds
        )

    def centre(values: Floats, j: int) -> float:
        bounds = budget.bounds[j]
        if bounds is None:
            return median(values)
        # by its position between the bounds, where doubles are evenly spaced: those between 0 and 1 are tiny
        low, half = bounds[0] / 2, max(bounds[1] / 2 - bounds[0] / 2, np.finfo(float).tiny)
        drawn = median(1 + (np.clip(values, *bounds) / 2 - low) / half, (1.0, 2.0))
        return float(np.clip(2 * (low + (drawn - 1) * half), *bounds))

    def slope(u: Floats, w: Floats) -> float:
        ratios = (w / u)[u != 0]
        counts.append(np.isfinite(ratios).sum())
        return median(ratios)

    slopes = _swept(X, y, centre, slope)
    if laplace(min(counts), 1.0, budget.eps_count, rng) < _RATIOS / budget.eps_each:
        raise ReleaseFailed(
            "medsweep: a private count found too few rows that are off the median of a covariate. Covariates "
            "that vary in few rows, such as 0/1 columns, cannot be swept.",
        )
    coefficients = np.append(median(y - row_products(X, slopes)), slopes)
    if not np.all(np.abs(coefficients) <= _LARGEST):
        raise ReleaseFailed("medsweep: the released line is beyond the range of numbers.")
    return _SequentialRelease(coefficients)


def _sequential_results(design: Design, budget: _SequentialBudget, release: _SequentialRelease) -> Results:
    """Results from the release alone."""
    return Results.of_regression(
        design, "Medsweep", release.coefficients, budget.guarantee, _DRAWN, released={"nobs": budget.rows}
    )


# -- noise once for each slope ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _JointBudget:
    """Public facts: the noise of each release, and the clamp."""

    guarantee: Guarantee
    rows: int
    noise: SmoothNoise
    clamp: float


def _joint_budget(design: Design, call: Call, rows: int, *, clamp: float) -> _JointBudget:
    names = design.column_names[1:]
    steps = [f"slope of {b} on {a}" for i, b in enumerate(names) for a in names[:i]]
    steps += [*(f"slope on {name}" for name in names), "intercept"]
    constants = functools.partial(tuned, rows=rows, deepest=0.5)
    noise = SmoothNoise.of(call.eps / len(steps), call.delta / len(steps), 1, constants)
    spends = tuple(
        Spend(step, "Laplace noise of smooth sensitivity", noise.eps, noise.delta) for step in steps
    )
    guarantee = Guarantee(call.eps, call.delta, "substitution", KINDS[1], spends, seeded=call.seeded)
    return _JointBudget(guarantee, rows, noise, clamp)


@dataclass(frozen=True)
class _JointRelease:
    """Coefficients, the intercept first, and the noise scales of the intercept and of each slope in turn."""

    coefficients: np.ndarray
    scales: tuple[float, ...]


def _joint_release(blocks: Blocks, budget: _JointBudget, rng: Randomness) -> _JointRelease:
    """The mechanism: rows in, coefficients out.

    **Privacy.** Each slope is released with noise of the smooth bound of
    :mod:`dpstats.mechanisms.median_slope`, the intercept with that of a median. The columns of each step are
    made row by row from slopes released before.
    """
    X, Y = gather(blocks)
    X, y = X[:, 1:], Y[:, 0]
    scales, clamp, beta = [], budget.clamp, budget.noise.beta

    def slope(u: Floats, w: Floats) -> float:
        usable = ~(np.isnan(u) | np.isnan(w))
        u, w = np.clip(u[usable], -LARGEST, LARGEST), np.clip(w[usable], -LARGEST, LARGEST)
        bound = smooth_slope_bound(u, w, clamp, beta)
        values, scale = release([median_slope(u, w, clamp)], bound, budget.noise, rng)
        scales.append(scale)
        return float(values[0])

    slopes = _swept(X, y, lambda values, j: 0.0, slope)
    rest = y - row_products(X, slopes)
    rest = np.clip(np.sort(rest[np.isfinite(rest)]), -clamp, clamp)
    bound = smooth_median_bound(rest, beta, -clamp, clamp)
    values, scale = release([lower_median(rest)], bound, budget.noise, rng)
    return _JointRelease(np.append(values, slopes), (scale, *scales))


def _joint_results(design: Design, budget: _JointBudget, release: _JointRelease) -> Results:
    """Results from the release alone."""
    covers, interval = _CARRIED, None
    if len(release.scales) == 2:
        rate = budget.noise.eps_scale / budget.noise.log_sensitivity
        covers = PRIVACY
        interval = NoiseInterval(tuple(map(float, release.coefficients)), release.scales, rate)
    return Results.of_regression(
        design,
        "Medsweep",
        release.coefficients,
        budget.guarantee,
        covers,
        interval=interval,
        released={"nobs": budget.rows},
    )
