"""Private Tukey median of several columns (Tukey 1975, Cumings-Menon 2022)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from dpstats._boundary import guarded
from dpstats._validation import allows, check, fail, one_of
from dpstats.errors import FormulaError, ParameterError
from dpstats.estimation import pipeline as _estimate
from dpstats.mechanisms import exponential
from dpstats.mechanisms.deep_point import ROUNDS, deep_point, general_directions, least_radius
from dpstats.mechanisms.plane_depths import Depths
from dpstats.mechanisms.smooth_release import SmoothPlan, check_guarantee, smooth_release
from dpstats.mechanisms.spread import half_mass_spread
from dpstats.privacy.conversions import bounded_range_rho
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.results.results import PRIVACY, Results

__all__ = ["tukey_median"]

_SCALES = {"exponential": 0.25, "smooth": 0.15}
"""Share of eps for private scales of the columns, where none are public."""
_CENTRE = 0.45
"""Share of eps for the medians of the columns, from which the draw begins."""
_DIRECTIONS = 200
_ROWS = {"bounds": 80, "no bounds": 150}
"""Least rows a column at eps = 1; with fewer the point is often anywhere but near the data."""
_NO_INTERVAL = "The point comes from an exponential mechanism, whose spread is not released."
_LEVEL_SHARE = 0.22
_ENLARGE = 2.0
_LARGEST = 2.0**200


@guarded
def tukey_median(
    formula,
    data,
    *,
    eps,
    delta=1e-6,
    mechanism="exponential",
    scale=None,
    directions=None,
    guarantee="approximate",
    gamma=None,
    bounds=None,
    levels=None,
    by=None,
    ledger=None,
    seed=None,
):
    """Differentially private Tukey median: the deepest point of several columns together.

    The halfspace depth of a point is the least number of observations on one side of it, over all directions. The
    Tukey median is the centre of the deepest points. Unlike the medians of the columns it goes along with rotations of
    the data; the private one does so as nearly as its fixed directions are all directions.

    Parameters
    ----------
    formula : str
        ``"height + weight ~ 1"``: two or more columns. For one column there is :func:`dpstats.median`.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
        Anything tabular; see :mod:`dpstats.data.sources`.
    eps : float
        Privacy budget; positive.
    delta : float
        In (0, 1), far below one over the number of rows; not used by ``mechanism="exponential"``, which takes 0 as well.
    mechanism : {"exponential", "smooth"}
        ``"exponential"`` draws a deep point; ``"smooth"``, for two columns, adds noise to the deepest, as in Cumings-Menon
        (2022).
    scale : mapping of str to float, optional
        A public typical spread of each column, the unit in which it is measured. By default the widths of the bounds;
        without bounds, private scales (25 % of `eps`; with ``"smooth"`` 15 %).
    directions : int, optional
        For ``"exponential"``: depth is measured over this many random public directions; 200 by default.
    guarantee : {"approximate", "random"}
        For ``"smooth"``: ``"random"`` is the variant of Cumings-Menon (2022), whose proof does not hold as published.
    gamma : float, optional
        For ``guarantee="random"``: the share of data sets without promise.
    bounds : mapping of str to (float, float), optional
        Public bounds of all columns, or of none. They may be loose. ``"exponential"`` wants some 120 rows a column with
        them and 200 without at ``eps=1``, in inverse proportion to `eps`; with fewer the point may be far from the data,
        and fewer than 80 and 150 are refused.
        ``"smooth"`` finds out by a private test whether they are needed, which takes one or two thousand.
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
    **Exponential.** From private medians of the columns on (45 % of `eps`), three times a point ``p`` is drawn among a
    thousand random ones around the last and itself, with probability proportional to

    .. math:: \\exp(\\varepsilon_r\\, hd(p) / 2),

    ``hd`` the depth over the directions. So its depth falls short of the largest by some tens of observations at ``eps=1``, and in
    inverse proportion to `eps`.

    **Smooth.** With ``L = ceil(n / 3)``, which the largest depth ``q`` always reaches, every Tukey median after ``k + 1``
    edits has depth at least

    .. math:: \\tau_k = \\max(q - (k+1), L) - (k+1)

    in these data. The set of such points is a polygon; Laplace noise of a smooth version of its l1 diameter is added to
    the centroid of the deepest.

    **Privacy.** ``"exponential"``: pure ``eps``-DP; ``"smooth"``: ``(eps, delta)``-DP. Neighbours: one record replaced, the
    number of rows handed in being public. Proof: ``docs/privacy/tukey_median.md``.

    **Intervals.** With ``"smooth"`` they cover the privacy noise alone. With ``"exponential"`` there are none.

    Examples
    --------
    >>> import dpstats, numpy as np
    >>> x, y = np.random.default_rng(0).normal(size=(2, 1000))
    >>> data = {"height": 170 + 8 * x, "weight": 70 + 6 * x + 8 * y}
    >>> bounds = {"height": (50, 250), "weight": (20, 300)}
    >>> fit = dpstats.tukey_median("height + weight ~ 1", data, eps=1, bounds=bounds)
    >>> bool(np.abs(fit.params - [170, 70]).max() < 6)
    True
    """
    eps = check("eps", eps)
    one_of("mechanism", mechanism, ("exponential", "smooth"))
    delta = check("delta", delta, "delta" if mechanism == "exponential" else "positive_delta")
    gamma = check_guarantee(guarantee, gamma)
    if mechanism == "exponential":
        if guarantee == "random":
            fail("guarantee", guarantee, "'approximate' unless mechanism='smooth'")
        directions = check("directions", _DIRECTIONS if directions is None else directions, "count")
    elif directions is not None:
        fail("directions", directions, "None for mechanism='smooth', whose depths are exact")

    def plan(design, seeded, rows):
        _estimate.location_only(design, "tukey_median")
        if mechanism == "exponential":
            return _plan(design, eps, rows, scale, directions, seeded)
        return _smooth_plan(design, eps, delta, rows, scale, gamma, seeded)

    def release(blocks, design, plan, rng):
        Y = _estimate.all_rows(blocks)[1]
        values, noise = _drawn(Y, plan, rng) if plan.smooth is None else _noisy(Y, plan, rng)
        return _results(design, plan, values, noise)

    return _estimate.estimate(
        "tukey_median", formula, data, bounds=bounds, levels=levels, ledger=ledger, seed=seed, plan=plan,
        release=release, by=by, public_rows=True,
    )  # fmt: skip


@dataclass(frozen=True)
class _Plan:
    """Public facts.

    Attributes
    ----------
    scale : (d,) ndarray or None
        Public scales of the columns; None for private ones at `eps_scale` a column.
    bounds : (d, 2) ndarray or None
    eps_centre, eps_point : float
        Budgets of the median of a column and of all rounds.
    directions : (k, d) ndarray or None
    rows : int
        Handed in.
    smooth : SmoothPlan or None
        None for the exponential mechanism.
    """

    scale: np.ndarray | None
    eps_scale: float
    bounds: np.ndarray | None
    eps_centre: float
    eps_point: float
    directions: np.ndarray | None
    rows: int
    smooth: SmoothPlan | None
    guarantee: Guarantee


def _plan(design, eps, rows, scale, directions, seeded):
    names, bounds, scale = _columns(design, scale)
    d = len(names)
    need = math.ceil(_ROWS["no bounds" if bounds is None else "bounds"] * d / eps)
    if rows < need:
        raise ParameterError(
            f"tukey_median: {rows:,} rows are too few for {d} columns at eps = {eps:g}, which need {need:,} at least. Fewer columns "
            f"or a larger eps would do{', and with bounds of all columns half the rows' if bounds is None else ''}."
        )
    scales = _scale_spends(names, scale, _SCALES["exponential"] * eps)
    eps_centre = _CENTRE / d * eps
    eps_point = eps - sum(s.eps for s in scales) - _CENTRE * eps
    steps = [(f"centre of {name}", eps_centre) for name in names]
    steps += [(f"deep point, round {r}", share * eps_point) for r, share in enumerate(ROUNDS, 1)]
    spends = [Spend(what, "exponential mechanism", e, rho=bounded_range_rho(e)) for what, e in steps]
    whole = Guarantee(eps, 0.0, "substitution", "pure", (*scales, *spends), seeded=seeded)
    V = general_directions(d, directions)
    return _Plan(scale, _SCALES["exponential"] / d * eps, bounds, eps_centre, eps_point, V, rows, None, whole)


def _smooth_plan(design, eps, delta, rows, scale, gamma, seeded):
    names, bounds, scale = _columns(design, scale)
    if len(names) != 2:
        raise FormulaError(
            f"tukey_median with mechanism='smooth' takes two columns, and the formula has {len(names)}. "
            "For more use mechanism='exponential'."
        )
    scales = _scale_spends(names, scale, _SCALES["smooth"] * eps)
    if gamma is not None:
        _random_level(rows, gamma)
    box = None if bounds is None or gamma is not None else bounds
    left = eps - sum(s.eps for s in scales)
    smooth = SmoothPlan.of(
        "tukey_median", "Tukey median", 2, left, delta, rows, box, gamma, seeded, _LEVEL_SHARE, 1 / 3,
        lambda n: n // 3 - 3,
    )  # fmt: skip
    whole = smooth.guarantee.replace(eps=eps, spends=(*scales, *smooth.guarantee.spends))
    return _Plan(scale, _SCALES["smooth"] / 2 * eps, bounds, 0.0, 0.0, None, rows, smooth, whole)


def _columns(design, scale):
    """Names, bounds and public scales of the columns; None for what there is not."""
    names, bounds = design.response_names, design.response_bounds
    if len(names) < 2:
        raise FormulaError(
            f"tukey_median takes two or more columns, as in 'height + weight ~ 1', got {design.formula!r}. "
            "For one column use dpstats.median."
        )
    if any(b is None for b in bounds):
        if any(b is not None for b in bounds):
            with_bounds = ", ".join(sorted(n for n, b in zip(names, bounds, strict=True) if b))
            raise ParameterError(
                f"bounds must be given for all columns or none, got those of {with_bounds} alone."
            )
        bounds = None
    else:
        bounds = np.array(bounds)
    return names, bounds, _public_scale(scale, names, bounds)


def _public_scale(scale, names, bounds):
    if scale is None:
        return None if bounds is None else 2 * _half_widths(bounds)
    named = isinstance(scale, Mapping) and set(scale) == set(names)
    if not named or not all(allows(scale[name], "positive") for name in names):
        fail("scale", scale, f"a mapping from {', '.join(names)} to positive numbers")
    return np.array([float(scale[name]) for name in names])


def _half_widths(bounds):
    """Positive, and so that their double is finite."""
    lower, upper = bounds.T / 2
    return np.clip(upper - lower, np.finfo(float).tiny, np.finfo(float).max / 2)


def _scale_spends(names, scale, eps):
    if scale is not None:
        return ()
    e = eps / len(names)
    return tuple(
        Spend(f"scale of {name}", "exponential mechanism", e, rho=bounded_range_rho(e)) for name in names
    )


def _scaled(Y, plan, rng):
    """The columns in units of public or released scales, and the scales.

    Notes
    -----
    **Privacy.** Row by row, once the scales are known; each private one costs ``plan.eps_scale``.
    """
    scale = plan.scale
    if scale is None:
        scale = np.array([half_mass_spread(y, plan.eps_scale, rng) for y in Y.T])
    return np.clip(Y / scale, -_LARGEST, _LARGEST), scale


# -- a deep point, drawn ---------------------------------------------------------------------------------


def _drawn(Y, plan, rng):
    """The mechanism: columns in, a deep point out; there is no scale of noise.

    Notes
    -----
    **Privacy.** Pure DP: ``plan.guarantee``, one record replaced, usable or not. Scales, medians of the columns, and
    :func:`~dpstats.mechanisms.deep_point.deep_point`; the budgets add up, and each step takes the numbers released before as
    public.
    """
    Z, scale = _scaled(Y, plan, rng)
    box = None if plan.bounds is None else np.clip(plan.bounds / scale[:, None], -_LARGEST, _LARGEST)
    centre = _centre(Y, Z, scale, plan, rng)
    least = least_radius(plan.rows, len(scale), plan.eps_point)
    values = scale * deep_point(Z, centre, plan.directions, plan.eps_point, least, box, rng)
    limits = (-np.finfo(float).max, np.finfo(float).max) if plan.bounds is None else plan.bounds.T
    return np.clip(values, *limits), None


def _centre(Y, Z, scale, plan, rng):
    """Private medians of the columns, in units of the scales.

    Notes
    -----
    **Privacy.** ``plan.eps_centre`` a column (``docs/privacy/quantile.md``). Within bounds a record is replaced by its
    position from 1 to 2, where doubles are evenly spaced: half of all doubles are closer to 0 than 1, and to search
    them would cost ranks.
    """
    if plan.bounds is None:
        limits, columns = (-_LARGEST, _LARGEST), Z.T
    else:
        lower, half = plan.bounds[:, 0] / 2, _half_widths(plan.bounds)
        limits, columns = (1.0, 2.0), (1 + (np.clip(Y, *plan.bounds.T) / 2 - lower) / half).T
    drawn = np.array(
        [
            exponential.quantile(x, 0.5, plan.eps_centre, rng, neighbours="substitution", bounds=limits)
            for x in columns
        ]
    )
    return (
        drawn
        if plan.bounds is None
        else np.clip(2 * (lower + (drawn - 1) * half) / scale, -_LARGEST, _LARGEST)
    )


# -- the deepest point in the plane, with noise -----------------------------------------------------------


def _noisy(Y, plan, rng):
    """The mechanism: two columns in, a noisy Tukey median and the scales of its noise out.

    Notes
    -----
    **Privacy.** ``plan.guarantee``, one record replaced, usable or not. The levels bound what ``k + 1`` edits can do; noise
    and test are those of :func:`~dpstats.mechanisms.smooth_release.smooth_release`. For ``gamma`` the box depends on the data, and there is no
    proof.
    """
    Z, scale = _scaled(Y, plan, rng)
    smooth = plan.smooth
    depths = Depths.of(Z)
    if smooth.levels is not None:
        levels = depths.levels(smooth.level_count)
        values, noise = smooth_release("tukey_median", depths.point, smooth, rng, levels=levels)
    else:
        box = np.array(smooth.box) / scale[:, None] if smooth.gamma is None else _random_box(depths, smooth)
        bound = depths.smooth_bound(box, smooth.noise.beta)
        values, noise = smooth_release(
            "tukey_median", np.clip(depths.point, *box.T), smooth, rng, bound=bound
        )
    return values * scale, noise * scale


# -- the random-DP variant of the paper ------------------------------------------------------------------


def _random_level(rows, gamma):
    """The depth of the box of the random-DP variant, ``n (1 / 3 - 2 t)`` with ``t`` from Devroye (1982)."""
    n = max(rows, 3)
    log_shatter = math.log(2) + 2 * math.log(n**2 - 1) + math.log1p(float(n**2 - 1) ** -2)

    def log_excess(t):
        return math.log(4) + 4 * t + 4 * t * t + log_shatter - 2 * n * t * t - math.log(gamma / 2)

    t = brentq(log_excess, 0, 10 + log_shatter)
    if n * (1 / 3 - 2 * t) < 1:
        fail("gamma", gamma, f"larger, or the rows more, for guarantee='random' (there are {rows:,} rows)")
    return math.floor(n * (1 / 3 - 2 * t))


def _random_box(depths, smooth):
    n = len(depths.Z)
    if n == 0:
        return np.zeros((2, 2))
    tau = min(_random_level(smooth.rows, smooth.gamma), (n + 1) // 2)
    by_axis = np.sort(depths.Z, axis=0)
    lower, upper = by_axis[tau - 1], by_axis[n - tau]
    slack = (_ENLARGE - 1) / 2 * (upper - lower)
    return np.column_stack([lower - slack, upper + slack])


def _results(design, plan, values, scales):
    smooth = plan.smooth
    return Results(
        method="Tukey median",
        formula=design.formula,
        names=design.response_names,
        estimates=values,
        cov=None,
        covers=_NO_INTERVAL if smooth is None else PRIVACY,
        guarantee=plan.guarantee,
        interval=None if smooth is None else smooth.interval(values, scales),
        released={"nobs": plan.rows},
    )
