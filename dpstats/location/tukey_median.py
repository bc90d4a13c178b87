"""Private Tukey median of several columns (Tukey 1975, Cumings-Menon 2022)."""

import itertools
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from dpstats import _estimate
from dpstats._boundary import guarded
from dpstats._smooth import SmoothPlan, check_guarantee, smooth_release
from dpstats._validation import allows, check, fail
from dpstats.depth import centroid, l1_diameter, plane_contours, plane_median
from dpstats.depth import directions as public_directions
from dpstats.depth._space import deepest_in_pool
from dpstats.errors import FormulaError, ParameterError
from dpstats.mechanisms.spread import half_mass_spread
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.results import PRIVACY, Results

__all__ = ["tukey_median"]

_SCALES = 0.15
"""Share of eps for private scales of the columns, where none are public."""
_LEVEL_SHARE = 0.22
_SIGN_VECTORS_UP_TO = 10
_DIRECTIONS = 200
_APPROXIMATE = 1
"""From three columns on, a point within this of the largest depth over the directions will do."""
_ENLARGE = 2.0
_LARGEST = 2.0**200


@guarded
def tukey_median(
    formula,
    data,
    *,
    eps,
    delta=1e-6,
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
    Tukey median, the centre of the deepest points, follows rotations of the data and withstands up to a third of
    outliers.

    Parameters
    ----------
    formula : str
        ``"height + weight ~ 1"``: two or more columns. For one column there is :func:`dpstats.median`.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
        Anything tabular; see :mod:`dpstats.data`.
    eps : float
        Privacy budget; positive.
    delta : float
        In (0, 1); far below one over the number of rows.
    scale : mapping of str to float, optional
        A public typical spread of each column: the noise is divided in this proportion. By default the widths of
        the bounds; without bounds, private scales (15 % of `eps`).
    directions : int, optional
        From three columns on, depth is measured over the axes, the sign vectors and this many random public
        directions; 200 by default. In the plane it is exact.
    guarantee : {"approximate", "random"}
        ``"random"`` is the variant of Cumings-Menon (2022), whose proof does not hold as published.
    gamma : float, optional
        For ``guarantee="random"``: the share of data sets without promise.
    bounds : mapping of str to (float, float), optional
        Public bounds of all columns, or of none. Without them a private test finds out whether they are needed, which
        takes one or two thousand rows. They may be loose.
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
        Without bounds, if the private test fails.
    ParameterError, FormulaError, SchemaError, BudgetExceeded

    Notes
    -----
    **Method.** With ``L = ceil(n / (d + 1))``, which the largest depth ``q`` always reaches, every Tukey median after
    ``k + 1`` edits has depth at least ``tau_k = max(q - (k + 1), L) - (k + 1)`` in these data. The set of such points
    is a polygon in the plane; in any dimension its l1 diameter is at most

    .. math:: \\max_{s \\in \\{-1, 1\\}^d} (s'x)_{(n - \\tau_k + 1)} - (s'x)_{(\\tau_k)},

    which needs sorting only. Laplace noise of a smooth version of that bound is added.

    **Privacy.** ``(eps, delta)``-DP, neighbours: one record replaced, the number of rows handed in being public.
    Proof: ``docs/privacy/tukey_median.md``.

    **Intervals** cover the privacy noise alone.

    Examples
    --------
    >>> import dpstats, numpy as np
    >>> x, y = np.random.default_rng(0).normal(size=(2, 1000))
    >>> data = {"height": 170 + 8 * x, "weight": 70 + 6 * x + 8 * y}
    >>> bounds = {"height": (50, 250), "weight": (20, 300)}
    >>> fit = dpstats.tukey_median("height + weight ~ 1", data, eps=2, bounds=bounds)
    >>> bool(np.abs(fit.params - [170, 70]).max() < 6)
    True
    """
    eps = check("eps", eps)
    delta = check("delta", delta, "positive_delta")
    gamma = check_guarantee(guarantee, gamma)
    directions = check("directions", _DIRECTIONS if directions is None else directions, "count")

    def plan(design, seeded, rows):
        _estimate.location_only(design, "tukey_median")
        return _plan(design, eps, delta, rows, scale, directions, gamma, seeded)

    def release(blocks, design, plan, rng):
        return _results(design, plan, *_release(_estimate.all_rows(blocks)[1], plan, rng))

    return _estimate.estimate(
        "tukey_median", formula, data, bounds=bounds, levels=levels, ledger=ledger, seed=seed, plan=plan,
        release=release, by=by, public_rows=True,
    )  # fmt: skip


@dataclass(frozen=True)
class _Plan:
    """Public facts: the scales of the columns or the budget for them, and the smooth release."""

    scale: np.ndarray | None
    eps_scale: float
    directions: np.ndarray | None
    smooth: SmoothPlan
    guarantee: Guarantee


def _plan(design, eps, delta, rows, scale, directions, gamma, seeded):
    names, bounds = design.response_names, design.response_bounds
    d = len(names)
    if d < 2:
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
    scale = _public_scale(scale, names, bounds)
    scales = [] if scale is not None else [
        Spend(f"scale of {name}", "exponential mechanism", _SCALES / d * eps) for name in names
    ]  # fmt: skip
    if gamma is not None:
        _random_level(rows, d, gamma)
    box = None if bounds is None or gamma is not None else bounds
    left = eps - sum(s.eps for s in scales)
    smooth = SmoothPlan.of(
        "tukey_median", "Tukey median", d, left, delta, rows, box, gamma, seeded, _LEVEL_SHARE, 1 / (d + 1),
        lambda n: n // (d + 1) - 3,
    )  # fmt: skip
    whole = smooth.guarantee.replace(eps=eps, spends=(*scales, *smooth.guarantee.spends))
    V = None if d == 2 else public_directions(d, directions)
    return _Plan(scale, _SCALES / d * eps, V, smooth, whole)


def _public_scale(scale, names, bounds):
    if scale is None:
        return None if bounds is None else np.array([hi - lo for lo, hi in bounds])
    named = isinstance(scale, Mapping) and set(scale) == set(names)
    if not named or not all(allows(scale[name], "positive") for name in names):
        fail("scale", scale, f"a mapping from {', '.join(names)} to positive numbers")
    return np.array([float(scale[name]) for name in names])


def _release(Y, plan, rng):
    """The mechanism: columns in, a noisy Tukey median and the scales of its noise out.

    Notes
    -----
    **Privacy.** ``plan.guarantee``, one record replaced, usable or not. The columns are divided by public or
    released numbers, row by row; the levels bound what ``k + 1`` edits can do; noise and test are those of
    :func:`~dpstats._smooth.smooth_release`. For ``gamma`` the box depends on the data, and there is no proof.
    """
    scale = plan.scale
    if scale is None:
        scale = np.array([half_mass_spread(y, plan.eps_scale, rng) for y in Y.T])
    Z = np.clip(Y / scale, -_LARGEST, _LARGEST)
    smooth = plan.smooth
    depths = Depths.of(Z, plan.directions)
    if smooth.levels is not None:
        levels = depths.levels(smooth.level_count)
        values, noise = smooth_release("tukey_median", depths.point, smooth, rng, levels=levels)
    else:
        box = np.array(smooth.box) / scale[:, None] if smooth.gamma is None else _random_box(depths, smooth)
        bound = depths.smooth_bound(box, smooth.noise.beta)
        values, noise = smooth_release("tukey_median", np.clip(depths.point, *box.T), smooth, rng, bound=bound)
    return values * scale, noise * scale


# -- what edits can do -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Depths:
    """The deepest point of data, its depth, and what bounds the sets of less deep points.

    Attributes
    ----------
    Z : (n, d) array
    point : (d,) array
    depth : int
        The largest depth, exact in the plane and over the public directions otherwise.
    slack : int
        By how much the depth of `point` may be smaller.
    along : (m, n) array
        Sorted projections on the sign vectors, one of each opposite pair; for many columns on the axes.
    """

    Z: np.ndarray
    point: np.ndarray
    depth: int
    slack: int
    along: np.ndarray

    @classmethod
    def of(cls, Z, directions):
        n, d = Z.shape
        if d <= _SIGN_VECTORS_UP_TO:
            V = np.array([(1.0, *s) for s in itertools.product((1.0, -1.0), repeat=d - 1)])
        else:
            V = np.eye(d)
        along = np.sort(sum(np.outer(v, z) for v, z in zip(V.T, Z.T, strict=True)), axis=1)
        if n == 0:
            return cls(Z, np.zeros(d), 0, 0, along)
        if directions is None:
            region, depth = plane_median(Z)
            return cls(Z, centroid(region), depth, 0, along)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the linear program; they would depend on the data
            point, depth = deepest_in_pool(Z, directions)
        return cls(Z, point, depth, _APPROXIMATE, along)

    def taus(self, count):
        """``tau_0 ... tau_{count - 1}``: what any deepest point after ``k + 1`` edits has in these data."""
        n, d = self.Z.shape
        k = np.arange(count)
        return np.maximum(self.depth - (k + 1), -(-n // (d + 1))) - (k + 1) - self.slack

    def order_bounds(self, tau):
        """``B``: the bounds of the l1 diameters from order statistics, infinite where ``tau <= 0``."""
        n = len(self.Z)
        inside = np.clip(tau, 1, max(n, 1))
        if n == 0:
            return np.full(len(tau), np.inf)
        widths = self.along[:, n - inside] - self.along[:, inside - 1]
        total = widths.max(axis=0) if self.Z.shape[1] <= _SIGN_VECTORS_UP_TO else widths.sum(axis=0)
        return np.where(tau > 0, np.maximum(total, 0.0), np.inf)

    def diameters(self, tau):
        """The l1 diameters of the level sets: exact polygons in the plane, else :meth:`order_bounds`."""
        bounds = self.order_bounds(tau)
        if self.slack or not len(tau):
            return bounds
        exact = np.array([l1_diameter(polygon) for polygon in plane_contours(self.Z, tau)])
        return np.minimum(exact, bounds)

    def levels(self, count):
        """``A_0 ... A_{count - 1}`` without a box."""
        return self.diameters(self.taus(count))

    def axis_widths(self, tau, box):
        """The sum of the level sets' widths along the axes, within the box."""
        n, d = self.Z.shape
        if n == 0:
            return np.full(len(tau), np.sum(box[:, 1] - box[:, 0]))
        inside = np.clip(tau, 1, n)
        by_axis = np.sort(self.Z, axis=0)
        width = np.clip(by_axis[n - inside], *box.T) - np.clip(by_axis[inside - 1], *box.T)
        return np.where(tau > 0, np.maximum(width, 0.0).sum(axis=1), np.sum(box[:, 1] - box[:, 0]))

    def smooth_bound(self, box, beta):
        """``max_k exp(-k beta) A_k`` with a box, shape (d, 2); polygons are traced only where they can matter."""
        diameter = float(np.sum(box[:, 1] - box[:, 0]))
        tau = self.taus(max(self.depth, 0) + 2)
        decay = np.exp(-beta * np.arange(len(tau)))
        loose = np.minimum(np.minimum(self.order_bounds(tau), self.axis_widths(tau, box)), diameter)
        if self.slack:
            return float(np.max(decay * loose))
        first = int(np.argmax(decay * loose))
        reached = decay[first] * min(self.diameters(tau[first : first + 1])[0], loose[first])
        matter = np.flatnonzero(decay * loose > reached)
        tight = np.minimum(self.diameters(tau[matter]), loose[matter])
        return float(max(reached, np.max(decay[matter] * tight, initial=0.0)))


# -- the random-DP variant of the paper ------------------------------------------------------------------


def _random_level(rows, d, gamma):
    """The depth of the box of the random-DP variant, ``n (1 / (d + 1) - 2 t)`` with ``t`` from Devroye (1982)."""
    n = max(rows, 3)
    log_shatter = math.log(2) + d * math.log(n**2 - 1) + math.log1p(float(n**2 - 1) ** -d)

    def log_excess(t):
        return math.log(4) + 4 * t + 4 * t * t + log_shatter - 2 * n * t * t - math.log(gamma / 2)

    t = brentq(log_excess, 0, 10 + log_shatter)
    if n * (1 / (d + 1) - 2 * t) < 1:
        fail("gamma", gamma, f"larger, or the rows more, for guarantee='random' (there are {rows:,} rows)")
    return math.floor(n * (1 / (d + 1) - 2 * t))


def _random_box(depths, smooth):
    n, d = depths.Z.shape
    if n == 0:
        return np.zeros((d, 2))
    tau = min(_random_level(smooth.rows, d, smooth.gamma), (n + 1) // 2)
    by_axis = np.sort(depths.Z, axis=0)
    lower, upper = by_axis[tau - 1], by_axis[n - tau]
    slack = (_ENLARGE - 1) / 2 * (upper - lower)
    return np.column_stack([lower - slack, upper + slack])


def _results(design, plan, values, scales):
    return Results(
        method="Tukey median",
        formula=design.formula,
        names=design.response_names,
        estimates=values,
        cov=None,
        covers=PRIVACY,
        guarantee=plan.guarantee,
        interval=plan.smooth.interval(values, scales),
        released={"nobs": plan.smooth.rows},
    )
