"""Private deepest regression with one covariate (Rousseeuw and Hubert 1999, Cumings-Menon 2022)."""

import functools
import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._format import apart, too_few
from dpstats._types import Bounds, Floats, Levels
from dpstats._validation import fail, one_of
from dpstats.engines.local import gather
from dpstats.errors import ParameterError
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.anchors import LineInterval, check_anchors, coefficients, private_points, quarter_points
from dpstats.linear.line_widths import ASSUMES, LAWS, LineHalfWidths
from dpstats.mechanisms.deep_line import Candidates, deep_line
from dpstats.mechanisms.exponential import exponential_spend
from dpstats.mechanisms.half_width import ALPHA
from dpstats.mechanisms.line_depths import LineDepths
from dpstats.mechanisms.random_dp import check_guarantee, common_depth, log_half_planes, widened
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.smooth_release import SmoothBudget, SmoothStatistic, smooth_release
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.inference import FixedInterval
from dpstats.results.parts import Interval
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results

__all__ = ["deepest_regression"]

_CENTRE = 0.1
"""Share of eps for a private centre of the covariate, where no anchors are public."""
_SCALE, _SCALE_RANKS = (0.03, 0.1), 60
"""Least and largest share of eps for a private scale, and the eps times rows that it needs."""
_LINE, _LINE_RANKS = (0.22, 0.6), 300
"""The same for the line, where intervals are released too."""
_ROWS = 80
"""Least rows at eps = 1 for a line to be drawn; without bounds some times as many bring it near the data."""
_WHAT = "line at two points"
_STATISTIC = SmoothStatistic(
    "deepest_regression",
    _WHAT,
    d=2,
    deepest=1 / 3,
    farthest=lambda rows: rows // 3 - 2,
    share=0.22,
    how="bounds= of the response",
)
_DRAWN = "The line comes from an exponential mechanism, whose spread is not released."
_MECHANISMS = ("exponential", "smooth")
_NEEDS = functools.partial(
    Needs, columns="one covariate", public_rows=True, instead="For more covariates use dpstats.medsweep."
)


@documented
@guarded
def deepest_regression(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    mechanism: str = "exponential",
    at: tuple[float, float] | None = None,
    intervals: str | None = "iid",
    guarantee: str = "approximate",
    gamma: float | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    """Differentially private deepest regression: a robust line through conditional medians.

    The deepest line is the one hardest to turn into a vertical line: its regression depth counts the
    observations that have to be passed on the way. It withstands outliers in the response and in the
    covariate.

    Parameters
    ----------
    formula : str
        ``"y ~ x"``: one covariate and a constant. For more covariates there is :func:`dpstats.medsweep`.
    %(data, eps, delta of smooth)s
    mechanism : {"exponential", "smooth"}
        ``"exponential"`` draws a deep line; ``"smooth"`` adds noise to the deepest, as in Cumings-Menon
        (2022).
    at : (float, float), optional
        Two values of the covariate, public and typical of it, by which a line is described. By default the
        quarter points of the covariate's public bounds; without bounds a private centre plus and minus a
        private scale (13 to 20 % of `eps`). A covariate that has one value in most rows should have
        points or bounds, such as ``(0, 1)``, and so should one in units of 1e-6 or 1e9 where rows are fewer
        than some 1,000 over `eps`: a private scale may miss it.
    intervals : {"iid", "median-zero", None}
        What 95 % intervals of ``"exponential"`` assume. ``"iid"``: for the slope, errors independent of the
        covariate, of any law. ``"median-zero"``: errors of median 0 at every value of the covariate, of any
        law and scale; wider. None releases no intervals and leaves their share of `eps` to the line.
    %(guarantee, gamma)s
    bounds : mapping of str to (float, float), optional
        Public bounds of columns. Those of the response bound the line at the two points; they may be loose.
        Without them ``"exponential"`` wants a hundred rows or more; ``"smooth"`` finds out by a private test
        whether they are needed, which takes one or two thousand.
    %(levels, by, unit, ledger, seed)s

    %(results)s

    %(raises)s
    ReleaseFailed
        With ``"smooth"`` and no bounds of the response, if the private test fails.
    ParameterError
        If there are too few rows; their number is public.
    %(errors)s

    Notes
    -----
    **Exponential.** A line is described by its values at the two points, within the bounds of the response
    or, without bounds, at all sizes from 1e-30 to 1e30 alike, and drawn with probability proportional to

    .. math:: \\exp(\\varepsilon\\, rd(\\theta) / 2),

    so its depth falls short of the largest by a few observations whatever the noise of the data, and its
    error is close to that of the deepest line itself. Responses are moved by a random relative 2^-36 first,
    which breaks ties.

    **Smooth.** The mean of the deepest lines among those through two observations. With ``L = ceil(n / 3)``,
    which the largest depth ``q`` always reaches, every fit after ``k + 1`` edits has depth at least

    .. math:: \\tau_k = \\max(q - (k+1), L) - (k+1)

    in these data, so the extent of the set of such lines bounds what an edit can do. The line's values at the
    two points are released with Laplace noise of a smooth version of that bound.

    **Privacy.** ``"exponential"``: pure ``eps``-DP; ``"smooth"``: ``(eps, delta)``-DP. Neighbours: one record
    replaced, the number of rows handed in being public. Proof: ``docs/privacy/deepest_regression.md``.

    **Intervals.** With ``"exponential"`` they reach from the line that was drawn to either side by private
    half-widths, at 95 %, and invert tests of ranks: sampling and privacy noise are covered whatever the law
    of the errors. That of the intercept always assumes errors of median 0 at every value of the covariate.
    With few rows or a small `eps` they are wide, or infinite. With ``"smooth"`` they cover the privacy noise
    alone: they are about the deepest line of these data.

    Examples
    --------
    >>> import dpstats, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> data = {"x": x, "y": 1 + 2 * x + rng.standard_t(3, size=500)}
    >>> fit = dpstats.deepest_regression("y ~ x", data, eps=4, seed=1)  # seeded for the example
    >>> fit.params.round(2).to_dict()
    {'Intercept': 0.93, 'x': 2.04}
    """
    one_of("mechanism", mechanism, _MECHANISMS)
    gamma = check_guarantee(guarantee, gamma)
    at = check_anchors(at)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit)
    if mechanism == "exponential":
        if guarantee == "random":
            fail("guarantee", guarantee, "'approximate' unless mechanism='smooth'")
        if intervals is not None:
            one_of("intervals", intervals, tuple(LAWS))
        drawn = functools.partial(_drawn_budget, at=at, intervals=intervals)
        needs = _NEEDS(delta="delta")
        return run(Estimator("deepest_regression", drawn, _drawn_release, _drawn_results, needs), call)
    if intervals not in (None, "iid"):
        fail("intervals", intervals, "left out with mechanism='smooth', whose intervals cover its noise")
    budget = functools.partial(_smooth_budget, at=at, gamma=gamma)
    return run(Estimator("deepest_regression", budget, _smooth_release, _smooth_results, _NEEDS()), call)


# -- the points by which a line is described --------------------------------------------------------------


@dataclass(frozen=True)
class _Anchors:
    """The points where they are public, else None; the budget of a private centre and of a private scale."""

    at: tuple[float, float] | None
    eps_centre: float
    eps_scale: float

    @classmethod
    def of(cls, design: Design, eps: float, rows: int, at: tuple[float, float] | None) -> Self:
        points = at or quarter_points(design)
        return cls(points, _CENTRE * eps, _between(_SCALE, eps, _SCALE_RANKS, rows))

    @property
    def spends(self) -> tuple[Spend, ...]:
        if self.at is not None:
            return ()
        steps = ("centre", self.eps_centre), ("scale", self.eps_scale)
        return tuple(exponential_spend(f"{what} of the covariate", eps) for what, eps in steps)


def _between(shares: tuple[float, float], eps: float, ranks: float, rows: int) -> float:
    """What a step that misses by ``1 / eps`` ranks needs, but no less and no more than its shares of eps."""
    return min(max(ranks / max(rows, 1), shares[0] * eps), shares[1] * eps)


def _between_anchors(
    blocks: Blocks, anchors: _Anchors, rng: Randomness
) -> tuple[Floats, Floats, tuple[float, float]]:
    """The covariate in units in which the points are -1 and 1, the response, and the points.

    Notes
    -----
    **Privacy.** ``anchors.spends``. The covariate is moved and scaled by public or released numbers, row by
    row.
    """
    X, Y = gather(blocks)
    x, y = X[:, 1], Y[:, 0]
    a, b = at = anchors.at or private_points(x, anchors.eps_centre, anchors.eps_scale, rng, 2.0**-20)
    return (x - (a / 2 + b / 2)) / (b / 2 - a / 2), y, at


# -- a deep line, drawn ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _DrawnBudget:
    """Public facts: the points or their budget, the budget of the line, bounds of the response, intervals."""

    guarantee: Guarantee
    rows: int
    anchors: _Anchors
    eps_line: float
    y_bounds: tuple[float, float] | None
    intervals: LineHalfWidths | None


def _drawn_budget(
    design: Design, call: Call, rows: int, *, at: tuple[float, float] | None, intervals: str | None
) -> _DrawnBudget:
    need = math.ceil(_ROWS / call.eps)
    if rows < need:
        raise ParameterError(
            f"deepest_regression: {too_few(rows)} at eps = {call.eps:g}, which needs {need:,}. "
            f"A larger eps would do.{call.unit_reminder}"
        )
    anchors, asked = _Anchors.of(design, call.eps, rows, at), None
    left = line = call.eps - sum(s.eps for s in anchors.spends)
    if intervals is not None:
        line = _between(_LINE, call.eps, _LINE_RANKS, rows)
        eps_unit = _between(_SCALE, call.eps, _SCALE_RANKS, rows)
        asked = LineHalfWidths.of(intervals, left - line - eps_unit, rows, eps_unit)
    spends = (*anchors.spends, exponential_spend(_WHAT, line), *(asked.spends if asked else ()))
    guarantee = Guarantee(call.eps, 0.0, "substitution", "pure", spends, seeded=call.seeded)
    return _DrawnBudget(guarantee, rows, anchors, line, design.response_bounds[0], asked)


@dataclass(frozen=True)
class _DrawnRelease:
    """The line's values at two points, the points, and half-widths of intercept and slope, down and up."""

    values: np.ndarray
    at: tuple[float, float]
    half_widths: np.ndarray | None


def _drawn_release(blocks: Blocks, budget: _DrawnBudget, rng: Randomness) -> _DrawnRelease:
    """The mechanism: rows in, a line drawn by its depth out, and half-widths of its intervals.

    Notes
    -----
    **Privacy.** Pure DP: ``budget.guarantee``, one record replaced, usable or not. The points, then
    :func:`~dpstats.mechanisms.deep_line.deep_line` with the response moved and scaled by its public bounds,
    then the half-widths; the budgets add up.
    """
    x, y, at = _between_anchors(blocks, budget.anchors, rng)
    if budget.y_bounds is None:
        centre, slope = deep_line(x, y, budget.eps_line, Candidates.unbounded(), rng)
        values = np.array([centre - slope, centre + slope])
    else:
        lo, hi = budget.y_bounds
        middle, half = lo / 2 + hi / 2, max(hi / 2 - lo / 2, np.finfo(float).tiny)
        centre, slope = deep_line(x, (y - middle) / half, budget.eps_line, Candidates.bounded(), rng)
        values = np.clip(middle + half * np.array([centre - slope, centre + slope]), lo, hi)
    intervals = budget.intervals
    half_widths = None if intervals is None else intervals.release(x, y, values, at, rng)
    return _DrawnRelease(values, at, half_widths)


def _drawn_results(design: Design, budget: _DrawnBudget, release: _DrawnRelease) -> Results:
    """Results from the release alone."""
    if budget.intervals is None or release.half_widths is None:
        return _results(design, budget, release, "was drawn by its values", _DRAWN, None)
    middle, ends = coefficients(release.values, release.at), release.half_widths.T * [[-1], [1]]
    # infinite ends stay so: a coefficient may be infinite, too
    lower, upper = np.add(middle, ends, out=ends, where=np.isfinite(ends))
    interval = FixedInterval(tuple(lower), tuple(upper), ALPHA)
    note = f"Interval of the slope: {ASSUMES[budget.intervals.assumed]}."
    return _results(
        design, budget, release, "was drawn by its values", SAMPLING_AND_PRIVACY, interval, (note,)
    )


# -- the deepest line, with noise ------------------------------------------------------------------------


@dataclass(frozen=True)
class _SmoothBudget:
    """Public facts: the points or their budget, those of the smooth release, the depth of a random-DP box."""

    guarantee: Guarantee
    rows: int
    anchors: _Anchors
    smooth: SmoothBudget
    depth: int | None


def _smooth_budget(
    design: Design, call: Call, rows: int, *, at: tuple[float, float] | None, gamma: float | None
) -> _SmoothBudget:
    anchors, bounds = _Anchors.of(design, call.eps, rows, at), design.response_bounds[0]
    depth = None if gamma is None else common_depth(rows, gamma, _log_wedges)
    box = None if bounds is None else (bounds, bounds)
    smooth = SmoothBudget.of(
        _STATISTIC, call.eps, call.delta, rows, box, gamma, before=anchors.spends, seeded=call.seeded
    )
    return _SmoothBudget(smooth.guarantee, rows, anchors, smooth, depth)


def _log_wedges(N: int) -> float:
    """Log of the most subsets of `N` points in double wedges.

    A wedge is a half-plane of the residual and a half-line of the covariate.
    """
    return 2 * (log_half_planes(N) + math.log(2 * N))


@dataclass(frozen=True)
class _SmoothRelease:
    """The line's values at two points, the points, and the scale of the noise of the values."""

    values: np.ndarray
    at: tuple[float, float]
    scale: float


def _smooth_release(blocks: Blocks, budget: _SmoothBudget, rng: Randomness) -> _SmoothRelease:
    """The mechanism: rows in, the deepest line with noise out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record replaced, usable or not. :class:`LineDepths` bounds what
    edits can do; noise and test are those of :func:`~dpstats.mechanisms.smooth_release.smooth_release`. For
    random DP the box depends on the data, and there is no proof.
    """
    x, y, at = _between_anchors(blocks, budget.anchors, rng)
    lines = LineDepths.of(x, y)
    box = budget.smooth.box if budget.depth is None else _random_box(lines, budget.depth)
    released = smooth_release(
        lines.values, lines.local_sensitivities, lines.smooth_bound, box, budget.smooth, rng
    )
    assert released.scale is not None  # as of all Laplace noise
    return _SmoothRelease(released.values, at, released.scale)


def _random_box(lines: LineDepths, depth: int) -> Floats:
    lower, upper = lines.extent(depth)
    if not np.all(np.isfinite(upper - lower)):
        lower, upper = np.full(2, -1e100), np.full(2, 1e100)
    return np.column_stack(widened(lower, upper))


def _smooth_results(design: Design, budget: _SmoothBudget, release: _SmoothRelease) -> Results:
    """Results from the release alone."""
    first, second = map(float, release.values)
    rate = budget.smooth.rate
    assert rate is not None
    interval = LineInterval((first, second), float(release.scale), release.at, rate)
    return _results(design, budget, release, "got its noise", PRIVACY, interval)


def _results(
    design: Design,
    budget: _DrawnBudget | _SmoothBudget,
    release: _DrawnRelease | _SmoothRelease,
    role: str,
    covers: str,
    interval: Interval | None,
    notes: tuple[str, ...] = (),
) -> Results:
    a, b = apart(*release.at, digits=6)
    return Results.of_regression(
        design,
        "Deepest regression",
        coefficients(release.values, release.at),
        budget.guarantee,
        covers,
        interval=interval,
        released={"nobs": budget.rows},
        notes=(f"The line {role} at {design.column_names[1]} = {a} and {b}.", *notes),
    )
