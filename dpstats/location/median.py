"""Private medians and quantiles of one column."""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Floats, Levels
from dpstats._validation import allows, check, fail, one_of
from dpstats.engines.local import gather
from dpstats.estimation.call import Call, Estimator, Needs, text_reminder
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.mechanisms import exponential
from dpstats.mechanisms.exponential import exponential_spend
from dpstats.mechanisms.halving import halved, levels_of
from dpstats.mechanisms.order_statistics import lower_median, median_sensitivities, smooth_median_bound
from dpstats.mechanisms.random_dp import check_guarantee, dkw_distance, widened
from dpstats.mechanisms.rank_interval import RankInterval, without_end
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.size import LARGEST, SizedLattice, release_size, sizes
from dpstats.mechanisms.smooth_release import SmoothBudget, SmoothRelease, SmoothStatistic, smooth_release
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.inference import FixedInterval
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results

__all__ = ["median", "quantile"]

_ESTIMATE = 0.35
"""Share of eps for the estimate when an interval is released too."""
_SIZE = 0.12
"""Share of the estimate's budget for the size of the values: it is found with some 600 rows at eps = 1, and
without an interval with some 200."""
_NOTHING = 2.0**-20
"""Where an interval is so many times as long as its estimate, and 0 is in it, the estimate is 0."""
_ASTRAY = 4096.0
"""An interval that has 0 in it and is so many times as long as values are large says nothing."""
_NOTE = "The interval covers the population's value for any distribution, if rows are independent draws."
_AT_BOUND = "A declared bound is the estimate: values beyond it, if there are any, count as moved to it"
_UNDETERMINED = "Not determined at this budget (more rows, a larger eps, or bounds would do)"
_NO_INTERVAL = (
    "The scale of the noise is not released, so there is no interval; mechanism='exponential' has one."
)
_STATISTIC = SmoothStatistic(
    "median",
    "median",
    d=1,
    deepest=0.5,
    farthest=lambda rows: (rows + 1) // 2 - 2,
    share=0.33,
    law="student",
    exact=True,
)
_MECHANISMS = ("exponential", "smooth")


@documented
@guarded
def median(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    mechanism: str = "exponential",
    alpha: float | None = 0.05,
    guarantee: str = "approximate",
    gamma: float | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    """Differentially private median of a column, with an interval that holds for any distribution.

    Parameters
    ----------
    formula : str
        ``"income ~ 1"``; the left side may be transformed, as in ``"np.log(income) ~ 1"``.
    %(data, eps)s
    delta : float
        Used by ``mechanism="smooth"`` without bounds, for its test; the others spend none.
    mechanism : {"exponential", "smooth"}
        ``"exponential"``: the exponential mechanism on floating-point numbers; pure DP, no bounds needed.
        ``"smooth"``: the lower median with noise of smooth sensitivity (Nissim et al. 2007), symmetric about
        it: Student noise with two degrees of freedom, which has no variance, or Laplace noise for
        ``guarantee="random"``.
    alpha : float or None
        One minus the confidence of the released interval (``"exponential"`` alone). None releases no interval
        and spends all of `eps` on the estimate; else 65 % of it pays for the interval. 12 % of the estimate's
        share pays for the size of the values, without which numbers near 0 would be preferred.
    %(guarantee, gamma)s
    bounds : mapping of str to (float, float), optional
        Public bounds of the column. Never needed (up to 3.4e38, where answers end without); ``"smooth"``
        without bounds tests privately whether they can be done without, which takes some hundreds of rows.
    %(levels, by, unit, ledger, seed)s

    %(results)s

    %(raises, private test, errors)s

    Notes
    -----
    **Privacy.** ``"exponential"``: pure ``eps``-DP, neighbours: one record added or removed: exponential
    mechanisms for the size of the values, the estimate and the half-width of the interval. ``"smooth"``:
    pure ``eps``-DP with bounds and ``(eps, delta)``-DP without, neighbours: one record replaced, the number
    of rows handed in being public. Proofs: ``docs/privacy/median.md``.

    **Interval.** The estimate plus and minus a private half-width, which reaches ranks that allow for
    sampling and for the rank error of the mechanism: it covers the population median with probability at
    least ``1 - alpha`` for any distribution. Where few rows or a small `eps` leave it without an end, the
    median is not determined: it is NaN, and ``n.d.`` in the table. There bounds matter: they end the
    interval, and the estimate is given. With ``alpha=None`` nothing tells how far off the estimate may be.
    ``"smooth"`` has none, as the scale of its noise is not released; with ``guarantee="random"`` one that
    covers the privacy noise.

    %(diamonds)s
    >>> fit = dpstats.median("price ~ 1", diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.params.round().to_dict()
    {'price': 2401.0}
    """
    one_of("mechanism", mechanism, _MECHANISMS)
    alpha = check("alpha", alpha, optional=True)
    gamma = check_guarantee(guarantee, gamma)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit)
    if mechanism == "exponential":
        if guarantee == "random":
            fail("guarantee", guarantee, "'approximate' unless mechanism='smooth'")
        return run(_quantile("median", "Median", (0.5,), alpha), call)
    needs = Needs(columns="constant", public_rows=True)
    budget = functools.partial(_smooth_budget, gamma=gamma)
    return run(Estimator("median", budget, _smooth_release, _smooth_results, needs), call)


@documented
@guarded
def quantile(
    formula: str,
    data: Any,
    *,
    q: float | list[float] | tuple[float, ...],
    eps: float,
    alpha: float | None = 0.05,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    """Differentially private quantiles of a column, with intervals that hold for any distribution.

    Parameters
    ----------
    formula : str
        As in :func:`median`.
    %(data)s
    q : float or list of float
        In (0, 1). Several are released together, by halving the rows again and again: the budget of the
        estimates is divided among the halvings, of which ``k`` quantiles take ``log2(k + 1)``.
    %(eps)s
    alpha : float or None
        As in :func:`median`.
    bounds : mapping of str to (float, float), optional
        Public bounds of the column. Never needed.
    %(levels, by, unit, ledger, seed)s

    %(results)s

    %(raises, errors)s

    Notes
    -----
    **Privacy.** Pure ``eps``-DP, neighbours: one record added or removed: exponential mechanisms for the size
    of the values, the estimates and the half-widths. Proof: ``docs/privacy/median.md``.

    **Intervals** as of :func:`median`. With few rows beyond a quantile, as beyond the 0.99 quantile of some
    thousands, bounds matter: without them it may be not determined, which is NaN, and ``n.d.`` in the table.

    %(diamonds)s
    >>> fit = dpstats.quantile("price ~ 1", diamonds, q=0.9, eps=1, seed=1)  # seeded for the example
    >>> fit.params.round().to_dict()
    {'price': 9820.0}
    """
    if isinstance(q, np.ndarray) and q.ndim == 1:
        q = q.tolist()
    several = isinstance(q, list | tuple)
    # a list that is no list of fractions may be a column: its values are not shown
    if isinstance(q, list | tuple) and not (
        q and all(allows(one, "q") for one in q) and len({*map(float, q)}) == len(q)
    ):
        fail("q", q, "a number in (0, 1), or a list of distinct ones")
    wanted = tuple(float(one) for one in q) if isinstance(q, list | tuple) else (check("q", q),)
    title = "Quantiles" if several else f"Quantile {_texts(wanted)[0]}"
    estimator = _quantile("quantile", title, wanted, check("alpha", alpha, optional=True), several)
    return run(estimator, Call(formula, data, eps, 0.0, bounds, levels, by, ledger, seed, unit))


# -- exponential mechanism -------------------------------------------------------------------------------


def _texts(q: tuple[float, ...]) -> list[str]:
    """Each of `q` in six digits, or in all where these are those of another or of 1."""
    short = [f"{one:g}" for one in q]
    return [text if [*short, "1"].count(text) == 1 else repr(one) for one, text in zip(q, short, strict=True)]


def _quantile(
    name: str, title: str, q: tuple[float, ...], alpha: float | None, several: bool = False
) -> "Estimator[_Budget, _Release, Results]":
    """The estimator of quantiles by the exponential mechanism."""
    return Estimator(
        name,
        functools.partial(_budget, q=q, alpha=alpha),
        _release,
        functools.partial(_results, title=title, several=several),
        Needs(columns="constant", delta="delta"),
    )


@dataclass(frozen=True)
class _Budget:
    """Everything public: the quantiles, the budgets of the size of the values and of the estimates, their
    intervals if there are any, and bounds of the column.
    """

    guarantee: Guarantee
    q: tuple[float, ...]
    eps_size: float
    eps_estimate: float
    intervals: tuple[RankInterval, ...]
    bounds: tuple[float, float] | None


def _budget(
    design: Design, call: Call, rows: int | None, *, q: tuple[float, ...], alpha: float | None
) -> _Budget:
    share = 1.0 if alpha is None else _ESTIMATE
    eps_size, eps_interval = _SIZE * share * call.eps, (1 - share) * call.eps
    eps_estimate = (1 - _SIZE) * share * call.eps
    halvings = levels_of(len(q))
    words = "estimate" if halvings == 1 else "estimates, one halving of the rows"
    spends = [exponential_spend("size of the values", eps_size)]
    spends += [exponential_spend(words, eps_estimate / halvings)] * halvings
    intervals: tuple[RankInterval, ...] = ()
    if alpha is not None:
        spends += [exponential_spend("half-width of the interval", eps_interval / len(q))] * len(q)
        intervals = tuple(RankInterval(one, alpha, eps_interval / len(q)) for one in q)
    guarantee = Guarantee(call.eps, 0.0, "add-remove", "pure", tuple(spends), seeded=call.seeded)
    return _Budget(guarantee, q, eps_size, eps_estimate, intervals, design.response_bounds[0])


@dataclass(frozen=True)
class _Release:
    """The released quantiles, the half-widths of their intervals, and the size of the values, a power of two;
    infinite where none is seen."""

    estimates: tuple[float, ...]
    half_widths: tuple[float, ...]
    size: float


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, quantiles and half-widths out.

    **Privacy.** Pure ``budget.guarantee.eps``-DP under add-remove: exponential mechanisms, whose budgets add
    up. The later ones see the earlier results as public numbers. Values are rounded to the lattice of the
    released size one by one, so that neighbours stay neighbours.
    """
    y = np.sort(gather(blocks)[1][:, 0])
    bounds = budget.bounds or (-LARGEST, LARGEST)
    largest = max(abs(bounds[0]), abs(bounds[1]))
    size = release_size(y, budget.eps_size, rng, largest)
    lattice = SizedLattice(size, bounds)
    values, q = lattice.shrunk(y), np.array(budget.q)
    if len(q) == 1:
        found = np.array([exponential.quantile(values, q[0], budget.eps_estimate, rng, bounds=lattice.ends)])
    else:
        order = np.argsort(q)
        found = halved(values, q[order], budget.eps_estimate, rng, lattice.ends)[np.argsort(order)]
    estimates = lattice.grown(found).tolist()
    widths = [
        interval.release(y, estimate, rng)
        for interval, estimate in zip(budget.intervals, estimates, strict=False)
    ]
    seen = size > sizes(largest)[0]
    return _Release(tuple(estimates), tuple(widths), math.ldexp(1.0, size) if seen else math.inf)


def _results(design: Design, budget: _Budget, release: _Release, *, title: str, several: bool) -> Results:
    """Results from the release alone."""
    (name,) = design.response_names
    names = tuple(f"{name}[{text}]" for text in _texts(budget.q)) if several else (name,)
    covers = "The budget was spent on the estimate alone (alpha=None)."
    estimates = np.array(release.estimates)
    interval: FixedInterval | None = None
    notes: tuple[str, ...] = ()
    if budget.intervals:
        covers, notes = SAMPLING_AND_PRIVACY, (_NOTE,)
        lo, hi = budget.bounds or (-math.inf, math.inf)
        widths = np.array(release.half_widths)
        ends = np.array([np.maximum(estimates - widths, lo), np.minimum(estimates + widths, hi)])
        # the lattice has numbers much nearer to 0 than the rows can tell from it
        around_0 = (ends[0] <= 0) & (ends[1] >= 0)
        estimates[around_0 & (np.abs(estimates) < _NOTHING * (ends[1] - ends[0]))] = 0.0
        # without ends the estimate may be any number
        lost = np.zeros(len(widths), bool)
        if budget.bounds is None:
            # or as good as without: so far beyond the values that the estimate may be any number, too
            astray = (widths >= np.abs(estimates)) & (widths > _ASTRAY * release.size)
            lost = without_end(estimates, widths) | astray
        estimates[lost] = ends[:, lost] = math.nan
        if lost.any():
            hidden = ", ".join(name for name, gone in zip(names, lost, strict=True) if gone)
            notes += (f"{_UNDETERMINED}: {hidden}.{text_reminder(design)}",)
        interval = FixedInterval(tuple(ends[0]), tuple(ends[1]), budget.intervals[0].alpha)
    if budget.bounds is not None:
        at_bound = [name for name, x in zip(names, estimates, strict=True) if x in budget.bounds]
        if at_bound:
            notes += (f"{_AT_BOUND}: {', '.join(at_bound)}.",)
    found = Results.of_columns(
        design, title, estimates[:1], budget.guarantee, covers,
        interval=interval if not several else None if interval is None else _first(interval), notes=notes,
    )  # fmt: skip
    return replace(found, names=names, estimates=estimates, interval=interval) if several else found


def _first(interval: FixedInterval) -> FixedInterval:
    return FixedInterval(interval.lower[:1], interval.upper[:1], interval.alpha)


# -- smooth sensitivity ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SmoothBudget:
    """Public facts: those of the smooth release, and how far the box of the random-DP variant reaches."""

    guarantee: Guarantee
    smooth: SmoothBudget
    reach: float | None


def _smooth_budget(design: Design, call: Call, rows: int, *, gamma: float | None) -> _SmoothBudget:
    box = design.response_bounds[0]
    reach = None if gamma is None else dkw_distance(rows, gamma)
    statistic = _STATISTIC if gamma is None else replace(_STATISTIC, law="laplace")
    smooth = SmoothBudget.of(
        statistic, call.eps, call.delta, rows, None if box is None else (box,), gamma, seeded=call.seeded
    )
    return _SmoothBudget(smooth.guarantee, smooth, reach)


def _smooth_release(blocks: Blocks, budget: _SmoothBudget, rng: Randomness) -> SmoothRelease:
    """The mechanism: rows in, a noisy lower median and the scale of its noise out.

    **Privacy.** ``budget.guarantee``, one record replaced, usable or not: the bound is smooth towards data
    with one record more, less or changed. For random DP the box depends on the data and there is no proof.
    """
    x = np.sort(gather(blocks)[1][:, 0])
    smooth = budget.smooth
    box = smooth.box if budget.reach is None else (_random_box(x, budget.reach),)

    def smooth_bound(box: Floats, beta: float) -> float:
        ((lo, hi),) = box
        return smooth_median_bound(np.clip(x, lo, hi), beta, lo, hi)

    # without rows, the lower end of the box
    median = lower_median(x) if len(x) or box is None else box[0][0]
    return smooth_release(
        [median], functools.partial(median_sensitivities, x), smooth_bound, box, smooth, rng
    )


def _random_box(x: Floats, reach: float) -> tuple[float, float]:
    """The order statistics that hold any other sample's median with probability ``1 - gamma``, widened."""
    n = len(x)
    if n == 0:
        return 0.0, 0.0
    lo = x[min(max(math.floor(n * (0.5 - reach)), 1), n) - 1]
    hi = x[min(max(math.ceil(n * (0.5 + reach)), 1), n) - 1]
    return widened(float(lo), float(hi))


def _smooth_results(design: Design, budget: _SmoothBudget, release: SmoothRelease) -> Results:
    """Results from the release alone."""
    scales = () if release.scale is None else (release.scale,)
    interval = budget.smooth.interval(release.values, scales)
    return Results.of_columns(
        design,
        "Median, smooth sensitivity",
        release.values,
        budget.guarantee,
        PRIVACY if interval else _NO_INTERVAL,
        interval=interval,
        released={"nobs": budget.smooth.rows},
    )
