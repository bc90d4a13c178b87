"""Private Tukey median of several columns (Tukey 1975, Cumings-Menon 2022)."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._format import too_few
from dpstats._types import Bounds, Floats, Levels
from dpstats._validation import allows, check, fail, one_of
from dpstats.engines.local import gather
from dpstats.errors import ParameterError
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.mechanisms.column_medians import LARGEST, column_medians, half_ranges
from dpstats.mechanisms.deep_point import ROUNDS, deep_point, general_directions, least_radius
from dpstats.mechanisms.exponential import exponential_spend
from dpstats.mechanisms.half_width import ALPHA, HalfWidth, around_medians
from dpstats.mechanisms.plane_depths import Depths
from dpstats.mechanisms.random_dp import check_guarantee, common_depth, log_half_planes, widened
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.smooth_release import SmoothBudget, SmoothStatistic, smooth_release
from dpstats.mechanisms.spread import typical_distance
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.inference import FixedInterval
from dpstats.results.parts import Interval
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results

__all__ = ["tukey_median"]

_SCALES = {"exponential": 0.25, "smooth": 0.15}
"""Share of eps for private scales of the columns, where none are public."""
_CENTRE = 0.45
"""Share of eps for the medians of the columns, from which the draw begins."""
_DIRECTIONS = 200
_ROWS = {"bounds": 80, "no bounds": 150}
"""Least rows a column at eps = 1; with fewer the point is often anywhere but near the data."""
_POINT, _POINT_RANKS = (0.3, 0.55), 1000
"""Least and largest share of eps for the point where intervals are released too, and the eps times rows a
column for it; the intervals have the rest."""
_UNIT = 0.1
"""Of that, what private spreads take where the widths of bounds are the scales."""
_SYMMETRIC = (
    "The intervals cover the centre of symmetry, and the medians of the columns whether there is one or not."
)
_NO_INTERVAL = "The point comes from an exponential mechanism, whose spread is not released."
_STATISTIC = SmoothStatistic(
    "tukey_median", "Tukey median", d=2, deepest=1 / 3, farthest=lambda rows: rows // 3 - 3, share=0.22
)
_DRAWN_NEEDS = Needs(
    columns="constant",
    responses="several",
    delta="delta",
    public_rows=True,
    instead="For one column use dpstats.median.",
)
_SMOOTH_NEEDS = Needs(
    columns="constant",
    responses="two",
    public_rows=True,
    instead="For one column use dpstats.median, for more mechanism='exponential'.",
)
_MECHANISMS = ("exponential", "smooth")


@documented
@guarded
def tukey_median(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    mechanism: str = "exponential",
    scale: Mapping[str, float] | None = None,
    directions: int | None = None,
    intervals: bool = True,
    guarantee: str = "approximate",
    gamma: float | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    """Differentially private Tukey median: the deepest point of several columns together.

    The halfspace depth of a point is the least number of observations on one side of it, over all directions.
    The Tukey median is the centre of the deepest points. Unlike the medians of the columns it goes along with
    rotations of the data; the private one does so as nearly as its fixed directions are all directions.

    Parameters
    ----------
    formula : str
        ``"height + weight ~ 1"``: two or more columns. For one column there is :func:`dpstats.median`.
    %(data, eps, delta of smooth)s
    mechanism : {"exponential", "smooth"}
        ``"exponential"`` draws a deep point; ``"smooth"``, for two columns, adds noise to the deepest, as in
        Cumings-Menon (2022).
    scale : mapping of str to float, optional
        A public typical spread of each column, the unit in which it is measured. By default the widths of the
        bounds; without bounds, private scales (25 % of `eps`; with ``"smooth"`` 15 %).
    directions : int, optional
        For ``"exponential"``: depth is measured over this many random public directions; 200 by default.
    intervals : bool
        Whether ``"exponential"`` releases 95 % intervals, with 45 % of `eps`, and up to 70 % if there are
        many rows; the shares below are of the rest.
    %(guarantee, gamma)s
    bounds : mapping of str to (float, float), optional
        Public bounds of all columns, or of none. They may be loose. ``"exponential"`` wants some 220 rows a
        column with them and 370 without at ``eps=1``, in inverse proportion to `eps`; with fewer the point
        may be far from the data, and fewer than 146 and 273 are refused. With ``intervals=False`` these are
        120 and 200, and 80 and 150. ``"smooth"`` finds out by a private test whether bounds are needed,
        which takes one or two thousand.
    %(levels, by, unit, ledger, seed)s

    %(results)s

    %(raises, private test, errors)s

    Notes
    -----
    **Exponential.** From private medians of the columns on (45 % of `eps`), three times a point ``p`` is
    drawn among a thousand random ones around the last and itself, with probability proportional to

    .. math:: \\exp(\\varepsilon_r\\, hd(p) / 2),

    ``hd`` the depth over the directions. So its depth falls short of the largest by some tens of observations
    at ``eps=1``, and in inverse proportion to `eps`.

    **Smooth.** With ``L = ceil(n / 3)``, which the largest depth ``q`` always reaches, every Tukey median
    after ``k + 1`` edits has depth at least

    .. math:: \\tau_k = \\max(q - (k+1), L) - (k+1)

    in these data. The set of such points is a polygon; Laplace noise of a smooth version of its l1 diameter
    is added to the centroid of the deepest.

    **Privacy.** ``"exponential"``: pure ``eps``-DP; ``"smooth"``: ``(eps, delta)``-DP. Neighbours: one record
    replaced, the number of rows handed in being public. Proof: ``docs/privacy/tukey_median.md``.

    **Intervals.** With ``"exponential"`` they reach from the point to either side by private half-widths,
    beyond the ranks that cover the median of each column, at 95 % a column, whatever its law. If the law is
    symmetric about a centre, that is the centre's coordinate; if not, the Tukey median may lie elsewhere.
    Public bounds end them. With ``"smooth"`` they cover the privacy noise alone.

    Examples
    --------
    >>> import dpstats, numpy as np
    >>> x, y = np.random.default_rng(0).normal(size=(2, 1000))
    >>> data = {"height": 170 + 8 * x, "weight": 70 + 6 * x + 8 * y}
    >>> bounds = {"height": (50, 250), "weight": (20, 300)}
    >>> seed = 1  # for the example
    >>> fit = dpstats.tukey_median("height + weight ~ 1", data, eps=1, bounds=bounds, seed=seed)
    >>> fit.params.round(1).to_dict()
    {'height': 169.5, 'weight': 69.5}
    """
    one_of("mechanism", mechanism, _MECHANISMS)
    gamma = check_guarantee(guarantee, gamma)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit)
    if mechanism == "exponential":
        if guarantee == "random":
            fail("guarantee", guarantee, "'approximate' unless mechanism='smooth'")
        directions = check("directions", _DIRECTIONS if directions is None else directions, "count")
        intervals = check("intervals", intervals, "flag")
        drawn = functools.partial(_drawn_budget, scale=scale, directions=directions, intervals=intervals)
        return run(Estimator("tukey_median", drawn, _drawn_release, _drawn_results, _DRAWN_NEEDS), call)
    if directions is not None:
        fail("directions", directions, "None for mechanism='smooth', whose depths are exact")
    budget = functools.partial(_smooth_budget, scale=scale, gamma=gamma)
    return run(Estimator("tukey_median", budget, _smooth_release, _smooth_results, _SMOOTH_NEEDS), call)


# -- bounds and scales of the columns --------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """Names of the columns, their bounds, and their public scales; None for what there is not.

    Attributes
    ----------
    names : tuple of str
    bounds : (d, 2) ndarray or None
    scale : (d,) ndarray or None
        None for private scales, at `eps_scale` a column.
    """

    names: tuple[str, ...]
    bounds: np.ndarray | None
    scale: np.ndarray | None
    eps_scale: float

    @classmethod
    def of(cls, design: Design, scale: Mapping[str, float] | None, eps_scales: float) -> Self:
        names, bounds = design.response_names, design.response_bounds
        if any(b is None for b in bounds):
            if any(b is not None for b in bounds):
                with_bounds = ", ".join(sorted(n for n, b in zip(names, bounds, strict=True) if b))
                raise ParameterError(
                    f"bounds must be given for all columns or none, got those of {with_bounds} alone."
                )
            known = None
        else:
            known = np.array(bounds)
        return cls(names, known, _public_scale(scale, names, known), eps_scales / len(names))

    @property
    def spends(self) -> tuple[Spend, ...]:
        if self.scale is not None:
            return ()
        return tuple(exponential_spend(f"scale of {name}", self.eps_scale) for name in self.names)


def _public_scale(
    scale: Mapping[str, float] | None, names: tuple[str, ...], bounds: Floats | None
) -> Floats | None:
    if scale is None:
        return None if bounds is None else 2 * half_ranges(bounds)
    named = isinstance(scale, Mapping) and set(scale) == set(names)
    if not named or not all(allows(scale[name], "positive") for name in names):
        fail("scale", scale, f"a mapping from {', '.join(names)} to positive numbers")
    return np.array([float(scale[name]) for name in names])


def _scaled(Y: Floats, columns: _Columns, rng: Randomness) -> tuple[Floats, Floats]:
    """The columns in units of public or released scales, and the scales.

    Notes
    -----
    **Privacy.** Row by row, once the scales are known; each private one costs ``columns.eps_scale``.
    """
    scale = columns.scale
    if scale is None:
        scale = np.array([typical_distance(y, columns.eps_scale, rng) for y in Y.T])
    return np.clip(Y / scale, -LARGEST, LARGEST), scale


@dataclass(frozen=True)
class _Release:
    """The point, the scales of its noise and the half-widths of its intervals; None for what there is not."""

    values: np.ndarray
    scales: np.ndarray | None = None
    half_widths: np.ndarray | None = None


# -- a deep point, drawn ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _DrawnBudget:
    """Public facts."""

    guarantee: Guarantee
    rows: int
    columns: _Columns
    eps_centre: float
    """Of the median of a column."""
    eps_point: float
    """Of all rounds."""
    directions: np.ndarray
    half_width: HalfWidth | None
    """Of each column."""
    eps_unit: float
    """Of the spread of a column, from which its half-widths are made; 0 where the scales are such."""


def _drawn_budget(
    design: Design,
    call: Call,
    rows: int,
    *,
    scale: Mapping[str, float] | None,
    directions: int,
    intervals: bool,
) -> _DrawnBudget:
    d, eps = len(design.response_names), call.eps
    if intervals:
        least, most = (share * eps for share in _POINT)
        eps = min(max(_POINT_RANKS * d / max(rows, 1), least), most)
    columns = _Columns.of(design, scale, _SCALES["exponential"] * eps)
    bounded = columns.bounds is not None
    need = math.ceil(_ROWS["bounds" if bounded else "no bounds"] * d / eps)
    if rows < need:
        more = "" if bounded else ", and with bounds of all columns half the rows"
        less = ", and intervals=False needs fewer" if intervals else ""
        raise ParameterError(
            f"tukey_median: {too_few(rows)} for {d} columns at eps = {call.eps:g}, which need "
            f"{need:,} at least. Fewer columns or a larger eps would do{more}{less}.{call.unit_reminder}"
        )
    eps_centre = _CENTRE / d * eps
    eps_point = eps - sum(s.eps for s in columns.spends) - _CENTRE * eps
    steps = [(f"centre of {name}", eps_centre) for name in columns.names]
    steps += [(f"deep point, round {r}", share * eps_point) for r, share in enumerate(ROUNDS, 1)]
    half_width, each, eps_unit = None, (call.eps - eps) / d, 0.0
    if intervals:
        eps_unit = _UNIT * each if bounded and scale is None else 0.0
        half_width = HalfWidth("count", rows, each - eps_unit)
        steps += [(f"spread of {name}", eps_unit) for name in columns.names if eps_unit]
        steps += [(f"half-width of {name}", half_width.eps) for name in columns.names]
    spends = (*columns.spends, *(exponential_spend(*step) for step in steps))
    guarantee = Guarantee(call.eps, 0.0, "substitution", "pure", spends, seeded=call.seeded)
    public = general_directions(d, directions)
    return _DrawnBudget(guarantee, rows, columns, eps_centre, eps_point, public, half_width, eps_unit)


def _drawn_release(blocks: Blocks, budget: _DrawnBudget, rng: Randomness) -> _Release:
    """The mechanism: rows in, a deep point out; there is no scale of noise.

    Notes
    -----
    **Privacy.** Pure DP: ``budget.guarantee``, one record replaced, usable or not. Scales, medians of the
    columns, :func:`~dpstats.mechanisms.deep_point.deep_point`, and half-widths by
    :class:`~dpstats.mechanisms.half_width.HalfWidth`; the budgets add up, and each step takes the numbers
    released before as public.
    """
    Y = gather(blocks)[1]
    Z, scale = _scaled(Y, budget.columns, rng)
    bounds = budget.columns.bounds
    box = None if bounds is None else np.clip(bounds / scale[:, None], -LARGEST, LARGEST)
    centre = column_medians(Y, Z, scale, bounds, budget.eps_centre, rng)
    least = least_radius(budget.rows, len(scale), budget.eps_point)
    values = scale * deep_point(Z, centre, budget.directions, budget.eps_point, least, box, rng)
    limits = (-np.finfo(float).max, np.finfo(float).max) if bounds is None else bounds.T
    values = np.clip(values, *limits)
    if budget.half_width is None:
        return _Release(values)
    units = scale
    if budget.eps_unit:
        units = np.array([typical_distance(y, budget.eps_unit, rng) for y in Y.T])
    return _Release(values, half_widths=around_medians(Y, values, units, budget.half_width, rng))


def _drawn_results(design: Design, budget: _DrawnBudget, release: _Release) -> Results:
    """Results from the release alone."""
    if release.half_widths is None:
        return _results(design, budget, release, _NO_INTERVAL, None)
    down, up = release.half_widths.T
    ends = np.array([release.values - down, release.values + up])
    lower, upper = ends if budget.columns.bounds is None else np.clip(ends, *budget.columns.bounds.T)
    interval = FixedInterval(tuple(lower), tuple(upper), ALPHA)
    return _results(design, budget, release, SAMPLING_AND_PRIVACY, interval, (_SYMMETRIC,))


# -- the deepest point in the plane, with noise -----------------------------------------------------------


@dataclass(frozen=True)
class _SmoothBudget:
    """Public facts: of the columns and of the smooth release, and the depth of a random-DP box."""

    guarantee: Guarantee
    rows: int
    columns: _Columns
    smooth: SmoothBudget
    depth: int | None


def _smooth_budget(
    design: Design, call: Call, rows: int, *, scale: Mapping[str, float] | None, gamma: float | None
) -> _SmoothBudget:
    columns = _Columns.of(design, scale, _SCALES["smooth"] * call.eps)
    depth = None if gamma is None else common_depth(rows, gamma, log_half_planes)
    smooth = SmoothBudget.of(
        _STATISTIC,
        call.eps,
        call.delta,
        rows,
        columns.bounds,
        gamma,
        before=columns.spends,
        seeded=call.seeded,
    )
    return _SmoothBudget(smooth.guarantee, rows, columns, smooth, depth)


def _smooth_release(blocks: Blocks, budget: _SmoothBudget, rng: Randomness) -> _Release:
    """The mechanism: rows in, a noisy Tukey median and the scales of its noise out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record replaced, usable or not. :class:`Depths` bounds what edits
    can do; noise and test are those of :func:`~dpstats.mechanisms.smooth_release.smooth_release`. For random
    DP the box depends on the data, and there is no proof.
    """
    Z, scale = _scaled(gather(blocks)[1], budget.columns, rng)
    points, known = Depths.of(Z), budget.smooth.box
    box = None if known is None else np.asarray(known) / scale[:, None]
    if budget.depth is not None:
        box = _random_box(Z, budget.depth)
    released = smooth_release(
        points.point, points.local_sensitivities, points.smooth_bound, box, budget.smooth, rng
    )
    assert released.scale is not None  # as of all Laplace noise
    return _Release(released.values * scale, released.scale * scale)


def _random_box(Z: Floats, depth: int) -> Floats:
    n = len(Z)
    if n == 0:
        return np.zeros((2, 2))
    depth = min(depth, (n + 1) // 2)
    by_axis = np.sort(Z, axis=0)
    return np.column_stack(widened(by_axis[depth - 1], by_axis[n - depth]))


def _smooth_results(design: Design, budget: _SmoothBudget, release: _Release) -> Results:
    """Results from the release alone."""
    assert release.scales is not None
    interval = budget.smooth.interval(release.values, release.scales)
    return _results(design, budget, release, PRIVACY, interval)


def _results(
    design: Design,
    budget: _DrawnBudget | _SmoothBudget,
    release: _Release,
    covers: str,
    interval: Interval | None,
    notes: tuple[str, ...] = (),
) -> Results:
    return Results.of_columns(
        design,
        "Tukey median",
        release.values,
        budget.guarantee,
        covers,
        interval=interval,
        released={"nobs": budget.rows},
        notes=notes,
    )
