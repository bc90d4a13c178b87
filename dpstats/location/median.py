"""Private medians and quantiles of one column."""

import math
from dataclasses import dataclass

import numpy as np

from dpstats._boundary import guarded
from dpstats._validation import check, fail, one_of
from dpstats.estimation import pipeline as _estimate
from dpstats.mechanisms import exponential
from dpstats.mechanisms.order_statistics import lower_median, median_levels, smooth_median_bound
from dpstats.mechanisms.rank_interval import RankInterval
from dpstats.mechanisms.smooth_release import SmoothPlan, check_guarantee, smooth_release
from dpstats.privacy.conversions import bounded_range_rho
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.results.inference import FixedInterval
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results

__all__ = ["median", "quantile"]

_ESTIMATE = 0.4
"""Share of eps for the estimate when an interval is released too."""
_NOTE = "The interval covers the population's value for any continuous distribution, if rows are independent draws."
_NO_INTERVAL = (
    "The scale of the noise is not released, so there is no interval; mechanism='exponential' has one."
)
_LEVEL_SHARE = 0.33
_ENLARGE = 2.0
"""Factor by which the data-dependent box of the random-DP variant is widened."""


@guarded
def median(
    formula,
    data,
    *,
    eps,
    delta=1e-6,
    mechanism="exponential",
    alpha=0.05,
    guarantee="approximate",
    gamma=None,
    bounds=None,
    levels=None,
    by=None,
    ledger=None,
    seed=None,
):
    """Differentially private median of a column, with an interval that holds for any distribution.

    Parameters
    ----------
    formula : str
        ``"income ~ 1"``; the left side may be transformed, as in ``"np.log(income) ~ 1"``.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
        Anything tabular; see :mod:`dpstats.data.sources`.
    eps : float
        Privacy budget; positive.
    delta : float
        Used by ``mechanism="smooth"`` without bounds, for its test; the others spend none.
    mechanism : {"exponential", "smooth"}
        ``"exponential"``: the exponential mechanism on the lattice of doubles; pure DP, no bounds needed. ``"smooth"``:
        the lower median with noise of smooth sensitivity (Nissim et al. 2007), symmetric about it: Student noise with two
        degrees of freedom, which has no variance, or Laplace noise for ``guarantee="random"``.
    alpha : float or None
        One minus the level of the released interval (``"exponential"`` alone). None releases no interval and
        spends all of `eps` on the estimate; else 60 % of it pays for the interval.
    guarantee : {"approximate", "random"}
        For ``"smooth"``: ``"random"`` is the variant of Cumings-Menon (2022), whose proof does not hold as published.
    gamma : float, optional
        For ``guarantee="random"``: the share of data sets without promise.
    bounds : mapping of str to (float, float), optional
        Public bounds of the column. Never needed; ``"smooth"`` without bounds tests privately whether they
        can be done without, which takes some hundreds of rows.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns, such as that of `by`.
    by : str, optional
        A column with declared levels: one median for each, every one at the whole `eps`.
    ledger : Ledger, optional
        Charged before any row is read.
    seed : int, optional
        For simulation only: the release then protects nobody, and its guarantee says so.

    Returns
    -------
    Results or GroupedResults

    Raises
    ------
    ReleaseFailed
        With ``"smooth"`` and no bounds, if the private test fails.
    ParameterError, FormulaError, SchemaError, BudgetExceeded

    Notes
    -----
    **Privacy.** ``"exponential"``: pure ``eps``-DP, neighbours: one record added or removed. ``"smooth"``:
    pure ``eps``-DP with bounds and ``(eps, delta)``-DP without, neighbours: one record replaced, the number of rows handed in
    being public. Proofs: ``docs/privacy/median.md``.

    **Interval.** The estimate plus and minus a private half-width, which reaches ranks that allow for sampling
    and for the rank error of the mechanism: it covers the population median with probability at least
    ``1 - alpha`` for any continuous distribution. With few rows or a small `eps` it may be infinite. ``"smooth"`` has
    none, as the scale of its noise is not released; with ``guarantee="random"`` one that covers the privacy noise.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> fit = dpstats.median("price ~ 1", diamonds, eps=1)
    >>> bool(2300 < fit.params["price"] < 2500)
    True
    """
    eps = check("eps", eps)
    one_of("mechanism", mechanism, ("exponential", "smooth"))
    delta = check("delta", delta, "delta" if mechanism == "exponential" else "positive_delta")
    alpha = check("alpha", alpha, optional=True)
    gamma = check_guarantee(guarantee, gamma)
    if mechanism == "exponential":
        if guarantee == "random":
            fail("guarantee", guarantee, "'approximate' unless mechanism='smooth'")
        return _exponential(
            "median",
            formula,
            data,
            0.5,
            eps,
            alpha,
            bounds,
            levels,
            by,
            ledger,
            seed,
        )

    def plan(design, seeded, rows):
        _estimate.one_response(design, "median")
        _estimate.location_only(design, "median")
        return _smooth_plan(design, eps, delta, rows, gamma, seeded)

    def release(blocks, design, plan, rng):
        return _smooth_results(design, plan, *_smooth_release(_estimate.all_rows(blocks)[1][:, 0], plan, rng))

    return _estimate.estimate(
        "median", formula, data, bounds=bounds, levels=levels, ledger=ledger, seed=seed, plan=plan, release=release,
        by=by, public_rows=True,
    )  # fmt: skip


@guarded
def quantile(formula, data, *, q, eps, alpha=0.05, bounds=None, levels=None, by=None, ledger=None, seed=None):
    """Differentially private quantile of a column, with an interval that holds for any distribution.

    Parameters
    ----------
    formula, data, eps, alpha, bounds, levels, by, ledger, seed
        As in :func:`median`.
    q : float
        In (0, 1).

    Returns
    -------
    Results or GroupedResults

    Raises
    ------
    ParameterError, FormulaError, SchemaError, BudgetExceeded

    Notes
    -----
    **Privacy.** Pure ``eps``-DP, neighbours: one record added or removed: the exponential mechanism on the lattice
    of doubles. Proof: ``docs/privacy/median.md``.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> fit = dpstats.quantile("price ~ 1", diamonds, q=0.9, eps=1)
    >>> bool(9400 < fit.params["price"] < 10200)
    True
    """
    q = check("q", q)
    return _exponential(
        "quantile", formula, data, q, check("eps", eps), check("alpha", alpha, optional=True), bounds, levels, by, ledger, seed
    )  # fmt: skip


# -- exponential mechanism -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    guarantee: Guarantee
    q: float
    eps_estimate: float
    interval: RankInterval | None
    bounds: tuple | None


@dataclass(frozen=True)
class _Release:
    """The released quantile and the half-width of its interval."""

    estimate: float
    half_width: float | None


def _exponential(method, formula, data, q, eps, alpha, bounds, levels, by, ledger, seed):
    def plan(design, seeded):
        _estimate.one_response(design, method)
        _estimate.location_only(design, method)
        return _plan(design, q, eps, alpha, seeded)

    def release(blocks, design, plan, rng):
        return _results(method, design, plan, _release(_estimate.all_rows(blocks)[1][:, 0], plan, rng))

    return _estimate.estimate(
        method,
        formula,
        data,
        bounds=bounds,
        levels=levels,
        ledger=ledger,
        seed=seed,
        plan=plan,
        release=release,
        by=by,
    )


def _plan(design, q, eps, alpha, seeded):
    share = 1.0 if alpha is None else _ESTIMATE
    steps = [("estimate", share * eps), ("half-width of the interval", (1 - share) * eps)]
    spends = [Spend(step, "exponential mechanism", e, rho=bounded_range_rho(e)) for step, e in steps if e]
    return _Plan(
        Guarantee(eps, 0.0, "add-remove", "pure", tuple(spends), seeded=seeded),
        q,
        share * eps,
        None if alpha is None else RankInterval(q, alpha, (1 - share) * eps),
        design.response_bounds[0],
    )


def _release(y, plan, rng):
    """The mechanism: values in, a quantile and a half-width out.

    **Privacy.** Pure ``plan.guarantee.eps``-DP under add-remove: two exponential mechanisms, whose budgets add up. The
    second sees the first's result as a public number.
    """
    y = np.sort(y)
    estimate = exponential.quantile(y, plan.q, plan.eps_estimate, rng, bounds=plan.bounds)
    return _Release(estimate, plan.interval and plan.interval.release(y, estimate, rng))


def _results(method, design, plan, release):
    covers, interval, notes = "The budget was spent on the estimate alone (alpha=None).", None, ()
    if release.half_width is not None:
        covers, notes = SAMPLING_AND_PRIVACY, (_NOTE,)
        lo, hi = plan.bounds or (-math.inf, math.inf)
        lower, upper = release.estimate - release.half_width, release.estimate + release.half_width
        interval = FixedInterval((max(lower, lo),), (min(upper, hi),), plan.interval.alpha)
    name = "Median" if method == "median" else f"Quantile {plan.q:g}"
    return Results(
        method=name,
        formula=design.formula,
        response=design.response_names[0],
        names=design.response_names,
        estimates=[release.estimate],
        cov=None,
        covers=covers,
        guarantee=plan.guarantee,
        interval=interval,
        notes=notes,
    )


# -- smooth sensitivity ----------------------------------------------------------------------------------


def _smooth_plan(design, eps, delta, rows, gamma, seeded):
    box = None if gamma is not None else design.response_bounds[0]
    if gamma is not None:
        _random_reach(rows, gamma)
    return SmoothPlan.of(
        "median", "median", 1, eps, delta, rows, None if box is None else (box,), gamma, seeded, _LEVEL_SHARE, 0.5,
        lambda n: (n + 1) // 2 - 2, law="student" if gamma is None else "laplace",
    )  # fmt: skip


def _random_reach(rows, gamma):
    """``t`` of the two-sample Dvoretzky-Kiefer-Wolfowitz inequality, for the declared number of rows."""
    t = math.sqrt((1 + math.log(1 / gamma)) / max(rows, 1))
    if rows * (0.5 - t) < 1:
        fail("gamma", gamma, f"larger, or the rows more, for guarantee='random' (there are {rows:,} rows)")
    return t


def _random_box(x, t):
    """The order statistics around the median that hold any other sample's median with probability ``1 - gamma``."""
    n = len(x)
    if n == 0:
        return 0.0, 0.0
    lo = x[min(max(math.floor(n * (0.5 - t)), 1), n) - 1]
    hi = x[min(max(math.ceil(n * (0.5 + t)), 1), n) - 1]
    slack = (_ENLARGE - 1) / 2 * (hi - lo)
    return float(lo - slack), float(hi + slack)


def _smooth_release(y, plan, rng):
    """The mechanism: values in, a noisy lower median and the scale of its noise out.

    **Privacy.** ``plan.guarantee``, one record replaced, usable or not: the bound is smooth towards data with one record
    more, less or changed. For ``gamma``, the box depends on the data and there is no proof.
    """
    x = np.sort(y)
    if plan.levels is not None:
        levels = median_levels(x, plan.level_count)
        return smooth_release("median", [lower_median(x)], plan, rng, levels=levels)
    lo, hi = plan.box[0] if plan.gamma is None else _random_box(x, _random_reach(plan.rows, plan.gamma))
    x = np.clip(x, lo, hi)
    bound = smooth_median_bound(x, plan.noise.beta, lo, hi)
    return smooth_release("median", [lower_median(x) if len(x) else lo], plan, rng, bound=bound)


def _smooth_results(design, plan, values, scale):
    interval = plan.interval(values, [scale])
    return Results(
        method="Median, smooth sensitivity",
        formula=design.formula,
        response=design.response_names[0],
        names=design.response_names,
        estimates=values,
        cov=None,
        covers=PRIVACY if interval else _NO_INTERVAL,
        guarantee=plan.guarantee,
        interval=interval,
        released={"nobs": plan.rows},
    )
