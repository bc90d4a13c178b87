"""Private Medsweep: regression by repeated median slopes (Van Aelst et al. 2002, Cumings-Menon 2022)."""

import functools
from dataclasses import dataclass, replace

import numpy as np

from dpstats._boundary import guarded
from dpstats._validation import check, fail, one_of
from dpstats.errors import FormulaError
from dpstats.estimation import pipeline as _estimate
from dpstats.mechanisms import exponential
from dpstats.mechanisms.median_slope import LARGEST, median_slope, smooth_slope_bound
from dpstats.mechanisms.order_statistics import lower_median, smooth_median_bound
from dpstats.mechanisms.smooth_sensitivity import NoiseInterval, SmoothNoise, release, tuned
from dpstats.privacy.conversions import bounded_range_rho, zcdp_rho
from dpstats.privacy.guarantee import KINDS, Guarantee, Spend
from dpstats.results.results import PRIVACY, Results

__all__ = ["medsweep"]


@guarded
def medsweep(
    formula,
    data,
    *,
    eps,
    delta=1e-6,
    variant="sequential",
    clamp=None,
    bounds=None,
    levels=None,
    by=None,
    ledger=None,
    seed=None,
):
    """Differentially private robust regression by sweeping: medians of slopes, one covariate at a time.

    A fast relative of the deepest regression, for any number of covariates.

    Parameters
    ----------
    formula : str
        ``"y ~ x1 + x2"``, with a constant. The order matters: each covariate is swept on those before it.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
        Anything tabular; see :mod:`dpstats.data.sources`.
    eps : float
        Privacy budget; positive.
    delta : float
        In [0, 1) for ``"sequential"``, which uses it only where composition gains by it (from about a dozen medians,
        three covariates); positive for ``"joint"``.
    variant : {"sequential", "joint"}
        ``"sequential"``: every median of the algorithm is released by the exponential mechanism. No bounds are
        needed. ``"joint"``: the paper's: Laplace noise of smooth sensitivity once for each slope.
    clamp : float, optional
        For ``"joint"``: slopes and intercept are clamped to ``[-clamp, clamp]``; public, may be loose.
    bounds : mapping of str to (float, float), optional
        Public bounds of columns.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns.
    by : str, optional
        A column with declared levels: one fit for each, every one at the whole `eps`.
    ledger : Ledger, optional
        Charged before any row is read.
    seed : int, optional
        For simulation only: the release then protects nobody, and its guarantee says so.

    Returns
    -------
    Results or GroupedResults

    Raises
    ------
    ParameterError, FormulaError, SchemaError, BudgetExceeded

    Notes
    -----
    **Method.** Covariate ``j`` is centred at its median and swept: its median slope on each earlier swept covariate is
    taken out. The response is swept likewise, once, and the intercept is the median residual. In the joint
    variant the two centres of a slope are not released, and its noise covers them. Without bounds nothing can be
    said of a covariate that does not vary: ``"sequential"`` then draws its coefficient from all doubles. So it may with too few rows:
    there should be about ``100 k/eps`` of them for the ``k`` medians of the guarantee's steps (four with one covariate).

    **Privacy.** Neighbours: one record replaced. ``"sequential"``: pure ``eps``-DP, or ``(eps, delta)``-DP where
    that allows more for each median. ``"joint"``: ``(eps, delta)``-DP, equal shares for each slope and the intercept.
    Proof: ``docs/privacy/medsweep.md``.

    **Intervals.** ``"joint"`` with one covariate: the privacy noise alone. Otherwise none.

    Examples
    --------
    >>> import dpstats, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x, z = rng.normal(size=(2, 2000))
    >>> data = {"x": x, "z": z, "y": 1 + 2 * x - z + rng.standard_t(3, size=2000)}
    >>> fit = dpstats.medsweep("y ~ x + z", data, eps=2)
    >>> bool(np.abs(fit.params - [1, 2, -1]).max() < 0.5)
    True
    """
    eps = check("eps", eps)
    one_of("variant", variant, ("sequential", "joint"))
    delta = check("delta", delta, "delta" if variant == "sequential" else "positive_delta")
    clamp = check("clamp", clamp, "positive", optional=variant == "sequential")
    if variant == "sequential" and clamp is not None:
        fail("clamp", clamp, "None unless variant='joint'")

    def plan(design, seeded, rows):
        _estimate.one_response(design, "medsweep")
        if not design.has_intercept or len(design.column_names) < 2:
            raise FormulaError(
                f"medsweep takes a constant and covariates, as in 'y ~ x', got {design.formula!r}."
            )
        build = _sequential_plan if variant == "sequential" else _joint_plan
        return build(design, eps, delta, clamp, rows, seeded)

    def release(blocks, design, plan, rng):
        X, Y = _estimate.all_rows(blocks)
        run = _sequential if variant == "sequential" else _joint
        return _results(design, plan, run(X[:, 1:], Y[:, 0], plan, rng))

    return _estimate.estimate(
        "medsweep", formula, data, bounds=bounds, levels=levels, ledger=ledger, seed=seed, plan=plan, release=release,
        by=by, public_rows=True,
    )  # fmt: skip


@dataclass(frozen=True)
class _Plan:
    """Public facts: the price of each release, and the bounds."""

    guarantee: Guarantee
    rows: int
    eps_each: float
    column_bounds: tuple
    response_bounds: tuple | None
    noise: SmoothNoise | None
    clamp: float | None


@dataclass(frozen=True)
class _Release:
    """Coefficients, the intercept first, and for one covariate in the joint variant the scales of their noise."""

    coefficients: np.ndarray
    scales: tuple | None


# -- every median by itself ------------------------------------------------------------------------------


def _sequential_plan(design, eps, delta, clamp, rows, seeded):
    names = design.column_names[1:]
    steps = []
    for j, name in enumerate(names):
        steps += [f"median of {name}", *(f"slope of {name} on {earlier}" for earlier in names[:j])]
    response = design.response_names[0]
    steps += [f"median of {response}", *(f"slope on {name}" for name in names), "intercept"]
    each, kind, spent = eps / len(steps), KINDS[0], 0.0
    if delta > 0:
        concentrated = (8 * zcdp_rho(eps, delta) / len(steps)) ** 0.5
        if concentrated > each:
            each, kind, spent = concentrated, KINDS[1], delta
    spends = tuple(Spend(step, "exponential mechanism", each, rho=bounded_range_rho(each)) for step in steps)
    guarantee = Guarantee(eps, spent, "substitution", kind, spends, seeded=seeded)
    return _Plan(guarantee, rows, each, design.column_bounds[1:], design.response_bounds[0], None, None)


def _sequential(X, y, plan, rng):
    """The mechanism: covariates and response in, coefficients out.

    **Privacy.** Each step maps every row by itself, with numbers released before, to one number, and releases the median of
    those that are finite by an exponential mechanism that covers a row replaced, added or removed.
    """

    def median(values, bounds=None):
        values = values[np.isfinite(values)]
        return exponential.quantile(values, 0.5, plan.eps_each, rng, neighbours="substitution", bounds=bounds)

    def slope(u, w):
        return median((w / u)[u != 0])

    p = X.shape[1]
    swept, to_x = np.empty_like(X), np.eye(p)
    for j in range(p):
        column = X[:, j] - median(X[:, j], plan.column_bounds[j])
        for k in range(j):
            s = slope(swept[:, k], column)
            column = column - s * swept[:, k]
            to_x[:, j] -= s * to_x[:, k]
        swept[:, j] = column
    b = np.empty(p)
    residual = y - median(y, plan.response_bounds)
    for j in range(p):
        b[j] = slope(swept[:, j], residual)
        residual = residual - b[j] * swept[:, j]
    slopes = to_x @ b
    return _Release(np.append(median(y - X @ slopes), slopes), None)


# -- noise once for each slope ---------------------------------------------------------------------------


def _joint_plan(design, eps, delta, clamp, rows, seeded):
    names = design.column_names[1:]
    steps = [f"slope of {b} on {a}" for i, b in enumerate(names) for a in names[:i]]
    steps += [*(f"slope on {name}" for name in names), "intercept"]
    noise = SmoothNoise.of(
        eps / len(steps), delta / len(steps), 1, functools.partial(tuned, rows=rows, deepest=0.5)
    )
    spends = tuple(
        Spend(step, "Laplace noise of smooth sensitivity", noise.eps, noise.delta) for step in steps
    )
    guarantee = Guarantee(eps, delta, "substitution", KINDS[1], spends, seeded=seeded)
    return _Plan(
        guarantee, rows, noise.eps, design.column_bounds[1:], design.response_bounds[0], noise, clamp
    )


def _joint(X, y, plan, rng):
    """The mechanism: covariates and response in, coefficients out.

    **Privacy.** Each slope is released with noise of the smooth bound of :mod:`dpstats.mechanisms.median_slope`, the
    intercept with that of a median. The columns of each step are made row by row from slopes released before.
    """
    scales = []

    def slope(u, w):
        usable = ~(np.isnan(u) | np.isnan(w))
        u, w = np.clip(u[usable], -LARGEST, LARGEST), np.clip(w[usable], -LARGEST, LARGEST)
        bound = smooth_slope_bound(u, w, plan.clamp, plan.noise.beta)
        values, scale = release([median_slope(u, w, plan.clamp)], bound, plan.noise, rng)
        scales.append(scale)
        return float(values[0])

    p = X.shape[1]
    swept, to_x = np.array(X), np.eye(p)
    for j in range(p):
        for k in range(j):
            s = slope(swept[:, k], swept[:, j])
            swept[:, j] -= s * swept[:, k]
            to_x[:, j] -= s * to_x[:, k]
    b = np.empty(p)
    residual = np.array(y)
    for j in range(p):
        b[j] = slope(swept[:, j], residual)
        residual -= b[j] * swept[:, j]
    slopes = to_x @ b
    rest = y - X @ slopes
    rest = np.clip(np.sort(rest[np.isfinite(rest)]), -plan.clamp, plan.clamp)
    bound = smooth_median_bound(rest, plan.noise.beta, -plan.clamp, plan.clamp)
    values, scale = release([lower_median(rest)], bound, plan.noise, rng)
    return _Release(np.append(values, slopes), (scale, *scales) if p == 1 else None)


def _results(design, plan, release):
    if plan.noise is None:
        covers = "The medians come from exponential mechanisms, whose spread is not released."
    else:
        covers = "The noise of several slopes is carried from one covariate to the next."
    results = Results(
        method="Medsweep",
        formula=design.formula,
        response=design.response_names[0],
        names=design.column_names,
        estimates=release.coefficients,
        cov=None,
        covers=covers,
        guarantee=plan.guarantee,
        released={"nobs": plan.rows},
        terms=dict(design.term_slices),
        design=design,
    )
    if release.scales is None:
        return results
    rate = plan.noise.eps_scale / plan.noise.log_sensitivity
    interval = NoiseInterval(tuple(map(float, release.coefficients)), release.scales, rate)
    return replace(results, covers=PRIVACY, interval=interval)
