"""Private deepest regression with one covariate (Rousseeuw and Hubert 1999, Cumings-Menon 2022)."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from dpstats._boundary import guarded
from dpstats._validation import check, fail, one_of
from dpstats.depth import regression_levels
from dpstats.errors import FormulaError
from dpstats.estimation import pipeline as _estimate
from dpstats.linear.anchors import LineInterval, check_anchors, coefficients
from dpstats.mechanisms import exponential
from dpstats.mechanisms.deep_line import Candidates, deep_line
from dpstats.mechanisms.smooth_release import SmoothPlan, check_guarantee, smooth_release
from dpstats.mechanisms.spread import half_mass_spread
from dpstats.privacy.conversions import bounded_range_rho
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.results.results import PRIVACY, Results

__all__ = ["deepest_regression"]

_ANCHORS = 0.2
"""Share of eps for a private centre and scale of the covariate, where no anchors are public."""
_WHAT = "line at two points"
_LEVEL_SHARE = 0.22
_ENLARGE = 2.0


@guarded
def deepest_regression(
    formula,
    data,
    *,
    eps,
    delta=1e-6,
    mechanism="exponential",
    at=None,
    guarantee="approximate",
    gamma=None,
    bounds=None,
    levels=None,
    by=None,
    ledger=None,
    seed=None,
):
    """Differentially private deepest regression: a robust line through conditional medians.

    The deepest line is the one hardest to turn into a vertical line: its regression depth counts the observations
    that have to be passed on the way. It withstands outliers in the response and in the covariate.

    Parameters
    ----------
    formula : str
        ``"y ~ x"``: one covariate and a constant. For more covariates there is :func:`dpstats.medsweep`.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
        Anything tabular; see :mod:`dpstats.data.sources`.
    eps : float
        Privacy budget; positive.
    delta : float
        In (0, 1), far below one over the number of rows; not used by ``mechanism="exponential"``, which takes 0 as well.
    mechanism : {"exponential", "smooth"}
        ``"exponential"`` draws a deep line; ``"smooth"`` adds noise to the deepest, as in Cumings-Menon (2022).
    at : (float, float), optional
        Two values of the covariate, public and typical of it, by which a line is described. By default the quarter
        points of the covariate's public bounds; without bounds a private centre plus and minus a private scale (20 %
        of `eps`).
    guarantee : {"approximate", "random"}
        For ``"smooth"``: ``"random"`` is the variant of Cumings-Menon (2022), whose proof does not hold as published.
    gamma : float, optional
        For ``guarantee="random"``: the share of data sets without promise.
    bounds : mapping of str to (float, float), optional
        Public bounds of columns. Those of the response bound the line at the two points; they may be loose. Without
        them ``"exponential"`` wants a hundred rows or more; ``"smooth"`` finds out by a private test whether they
        are needed, which takes one or two thousand.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns, such as that of `by`.
    by : str, optional
        A column with declared levels: one line for each, every one at the whole `eps`.
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
        With ``"smooth"`` and no bounds of the response, if the private test fails.
    ParameterError, FormulaError, SchemaError, BudgetExceeded

    Notes
    -----
    **Exponential.** A line is described by its values at the two points, within the bounds of the response or, without
    bounds, at all sizes from 1e-30 to 1e30 alike, and drawn with probability proportional to

    .. math:: \\exp(\\varepsilon\\, rd(\\theta) / 2),

    so its depth falls short of the largest by a few observations whatever the noise of the data, and its error is close
    to that of the deepest line itself. Responses are moved by a random relative 2^-36 first, which breaks ties.

    **Smooth.** The mean of the deepest lines among those through two observations. With ``L = ceil(n / 3)``, which the
    largest depth ``q`` always reaches, every fit after ``k + 1`` edits has depth at least

    .. math:: \\tau_k = \\max(q - (k+1), L) - (k+1)

    in these data, so the extent of the set of such lines bounds what an edit can do. The line's values at the two
    points are released with Laplace noise of a smooth version of that bound.

    **Privacy.** ``"exponential"``: pure ``eps``-DP; ``"smooth"``: ``(eps, delta)``-DP. Neighbours: one record replaced, the number of
    rows handed in being public. Proof: ``docs/privacy/deepest_regression.md``.

    **Intervals.** With ``"smooth"`` they cover the privacy noise alone: they are about the deepest line of these data. With
    ``"exponential"`` there are none.

    Examples
    --------
    >>> import dpstats, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> data = {"x": x, "y": 1 + 2 * x + rng.standard_t(3, size=500)}
    >>> fit = dpstats.deepest_regression("y ~ x", data, eps=4)
    >>> bool(abs(fit.params["x"] - 2) < 0.7)
    True
    """
    eps = check("eps", eps)
    one_of("mechanism", mechanism, ("exponential", "smooth"))
    delta = check("delta", delta, "delta" if mechanism == "exponential" else "positive_delta")
    gamma = check_guarantee(guarantee, gamma)
    if mechanism == "exponential" and guarantee == "random":
        fail("guarantee", guarantee, "'approximate' unless mechanism='smooth'")
    at = check_anchors(at)

    def plan(design, seeded, rows):
        _estimate.one_response(design, "deepest_regression")
        return _plan(design, mechanism, eps, delta, rows, at, gamma, seeded)

    def release(blocks, design, plan, rng):
        X, Y = _estimate.all_rows(blocks)
        return _results(design, plan, _release(X[:, 1], Y[:, 0], plan, rng))

    return _estimate.estimate(
        "deepest_regression", formula, data, bounds=bounds, levels=levels, ledger=ledger, seed=seed, plan=plan,
        release=release, by=by, public_rows=True,
    )  # fmt: skip


@dataclass(frozen=True)
class _Plan:
    """Public facts: the anchors or the budget for them, the budget of the line, and the smooth release if that is asked for."""

    at: tuple[float, float] | None
    eps_anchor: float
    eps_line: float
    y_bounds: tuple[float, float] | None
    rows: int
    smooth: SmoothPlan | None
    guarantee: Guarantee


def _plan(design, mechanism, eps, delta, rows, at, gamma, seeded):
    if not design.has_intercept or len(design.column_names) != 2:
        raise FormulaError(
            f"deepest_regression takes one covariate and a constant, as in 'y ~ x', got {design.formula!r}. "
            "For more covariates use dpstats.medsweep."
        )
    x_bounds, y_bounds = design.column_bounds[1], design.response_bounds[0]
    if at is None and x_bounds is not None:
        lo, hi = x_bounds
        at = (0.75 * lo + 0.25 * hi, 0.25 * lo + 0.75 * hi)
    eps_anchor = _ANCHORS / 2 * eps
    anchors = [] if at is not None else [
        Spend(f"{what} of the covariate", "exponential mechanism", eps_anchor, rho=bounded_range_rho(eps_anchor))
        for what in ("centre", "scale")
    ]  # fmt: skip
    left = eps - sum(s.eps for s in anchors)
    if mechanism == "exponential":
        line = Spend(_WHAT, "exponential mechanism", left, rho=bounded_range_rho(left))
        whole = Guarantee(eps, 0.0, "substitution", "pure", (*anchors, line), seeded=seeded)
        return _Plan(at, eps_anchor, left, y_bounds, rows, None, whole)
    if gamma is not None:
        _random_level(rows, gamma)
    box = None if gamma is not None or y_bounds is None else (y_bounds, y_bounds)
    smooth = SmoothPlan.of(
        "deepest_regression", _WHAT, 2, left, delta, rows, box, gamma, seeded, _LEVEL_SHARE, 1 / 3,
        lambda n: n // 3 - 2, f"bounds={{{design.response_names[0]!r}: (lower, upper)}}",
    )  # fmt: skip
    whole = smooth.guarantee.replace(eps=eps, spends=(*anchors, *smooth.guarantee.spends))
    return _Plan(at, eps_anchor, left, y_bounds, rows, smooth, whole)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases: the line's values at two points, the points, and the scale of noise if there is one."""

    values: np.ndarray
    at: tuple[float, float]
    scale: float | None


def _release(x, y, plan, rng):
    """The mechanism: covariate and response in, the line at two points out.

    Notes
    -----
    **Privacy.** ``plan.guarantee``, one record replaced, usable or not. The covariate is moved and scaled by public
    or released numbers, row by row; then :func:`_drawn` or :func:`_noisy`, whose budgets add to that of the points.
    """
    at = plan.at or _private_anchors(x, plan, rng)
    a, b = at
    x = (x - (a / 2 + b / 2)) / (b / 2 - a / 2)
    if plan.smooth is None:
        return _Release(_drawn(x, y, plan, rng), at, None)
    values, scale = _noisy(x, y, plan.smooth, rng)
    return _Release(values, at, scale)


def _drawn(x, y, plan, rng):
    """The values at -1 and 1 of a line drawn by its depth.

    Notes
    -----
    **Privacy.** Pure ``plan.eps_line``-DP (:func:`~dpstats.mechanisms.deep_line.deep_line`); the response is moved and scaled
    by its public bounds.
    """
    if plan.y_bounds is None:
        centre, slope = deep_line(x, y, plan.eps_line, Candidates.unbounded(), rng)
        return np.array([centre - slope, centre + slope])
    lo, hi = plan.y_bounds
    middle, half = lo / 2 + hi / 2, max(hi / 2 - lo / 2, np.finfo(float).tiny)
    centre, slope = deep_line(x, (y - middle) / half, plan.eps_line, Candidates.bounded(), rng)
    return np.clip(middle + half * np.array([centre - slope, centre + slope]), lo, hi)


def _noisy(x, y, smooth, rng):
    """The values at -1 and 1 of the deepest line, with noise, and its scale.

    Notes
    -----
    **Privacy.** ``smooth.guarantee``: :func:`depth_levels` bounds what ``k + 1`` edits can do; noise and test are
    those of :func:`~dpstats.mechanisms.smooth_release.smooth_release`. For ``gamma`` the box depends on the data, and there is no proof.
    """
    found = regression_levels(x, y)
    values = np.array([found.estimate[0] - found.estimate[1], found.estimate[0] + found.estimate[1]])
    if smooth.levels is not None:
        levels = depth_levels(found, len(x), smooth.level_count)
        return smooth_release(
            "deepest_regression", values, smooth, rng, levels=levels, how="bounds= of the response"
        )
    box = np.array(smooth.box) if smooth.gamma is None else _random_box(found, smooth)
    bound = bounded_smooth_bound(found, len(x), box, smooth.noise.beta)
    return smooth_release("deepest_regression", np.clip(values, *box.T), smooth, rng, bound=bound)


def _private_anchors(x, plan, rng):
    centre = exponential.quantile(x, 0.5, plan.eps_anchor, rng, neighbours="substitution")
    scale = half_mass_spread(x, plan.eps_anchor, rng)
    # a scale that the centre swallows (a constant covariate) would leave one point
    scale = max(scale, 2.0**-20 * abs(centre))
    return centre - scale, centre + scale


# -- what edits can do -----------------------------------------------------------------------------------


def _depths(found, n, count):
    """``tau_0 ... tau_{count - 1}``: what any fit after ``k + 1`` edits has in these data."""
    k = np.arange(count)
    return np.maximum(found.depth - (k + 1), -(-n // 3)) - (k + 1)


def depth_levels(found, n, count):
    """``A_0 ... A_{count - 1}`` without a box: the l1 diameters of the level sets, infinite where unbounded.

    Parameters
    ----------
    found : RegressionLevels
        In the coordinates in which the two points are -1 and 1; the released values are ``theta_0 -+ theta_1``.
    n : int
        Usable rows.
    count : int

    Returns
    -------
    (count,) ndarray
    """
    tau = _depths(found, n, count)
    width = found.upper - found.lower
    # the sum of the two values is 2 theta_0, their difference 2 theta_1
    diameters = 2 * np.maximum(width[:, 0], width[:, 1])
    return np.where(tau > found.unbounded, diameters[np.maximum(tau, 0)], np.inf)


def bounded_smooth_bound(found, n, box, beta):
    """``max_k exp(-k beta) A_k`` with a box for the two values, shape (2, 2).

    ``A_k`` is the least of the l1 diameter of the level set, the sum of its widths within the box, and the diameter of the
    box.
    """
    diameter = float(np.sum(box[:, 1] - box[:, 0]))
    # past this level no depth is positive, and the box is all there is
    levels = depth_levels(found, n, found.depth + 2)
    tau = np.maximum(_depths(found, n, len(levels)), 0)
    # widths of an unbounded set are those of the box
    inside = (np.clip(found.upper[tau, 2:], *box.T) - np.clip(found.lower[tau, 2:], *box.T)).sum(axis=1)
    levels = np.minimum(np.minimum(levels, inside), diameter)
    return float(np.max(np.exp(-beta * np.arange(len(levels))) * levels))


# -- the random-DP variant of the paper ------------------------------------------------------------------


def _random_level(rows, gamma):
    """The depth of the box of the random-DP variant, ``n (1/3 - 2 t)`` with ``t`` from Devroye (1982)."""
    n = max(rows, 3)
    # wedges: half-planes of the residual and half-lines of the covariate, closed on either side
    log_shatter = 2 * (math.log(2 * (n**2 - 1) ** 2 + 2) + math.log(2 * n**2))

    def log_excess(t):
        return math.log(4) + 4 * t + 4 * t * t + log_shatter - 2 * n * t * t - math.log(gamma / 2)

    t = brentq(log_excess, 0, 10 + log_shatter)
    if n * (1 / 3 - 2 * t) < 1:
        fail("gamma", gamma, f"larger, or the rows more, for guarantee='random' (there are {rows:,} rows)")
    return math.floor(n * (1 / 3 - 2 * t))


def _random_box(found, smooth):
    level = min(_random_level(smooth.rows, smooth.gamma), found.depth)
    lower, upper = found.lower[level, 2:], found.upper[level, 2:]
    if not np.all(np.isfinite(upper - lower)):
        lower, upper = np.full(2, -1e100), np.full(2, 1e100)
    slack = (_ENLARGE - 1) / 2 * (upper - lower)
    return np.column_stack([lower - slack, upper + slack])


def _results(design, plan, release):
    a, b = release.at
    interval, covers = None, "The line comes from an exponential mechanism, whose spread is not released."
    if plan.smooth is not None:
        interval, covers = LineInterval.of(release.values, release.scale, release.at, plan.smooth), PRIVACY
    role = "was drawn by its values" if plan.smooth is None else "got its noise"
    return Results(
        method="Deepest regression",
        formula=design.formula,
        response=design.response_names[0],
        names=design.column_names,
        estimates=coefficients(release.values, release.at),
        cov=None,
        covers=covers,
        guarantee=plan.guarantee,
        interval=interval,
        released={"nobs": plan.rows},
        notes=(f"The line {role} at {design.column_names[1]} = {a:.6g} and {b:.6g}.",),
        terms=dict(design.term_slices),
        design=design,
    )
