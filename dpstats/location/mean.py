"""Private means of columns, with no bounds: limited distances from a private location, averaged."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Levels
from dpstats._validation import check
from dpstats.engines.local import Rows
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.budget import Step, divide
from dpstats.linear.loss import Huber
from dpstats.linear.refusals import check_rows
from dpstats.linear.scores import averaged_noise, product_counts, product_gradient, residual_variance
from dpstats.linear.whitened import Frame, Whitened
from dpstats.location.tail import EDGES, Limit, choose_limit, unseen_note, unseen_rows
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import Columns, release_count, standardize
from dpstats.mechanisms.whiten import Affine
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import SAMPLING_AND_PRIVACY, Results
from dpstats.results.table import format_ends

__all__ = ["MeanBudget", "MeanColumn", "limited_means", "mean"]

_SHARES = {"count": 0.05, "location": 0.08, "scale": 0.15, "tail": 0.15, "moments": 0.1, "rounds": 0.47}
"""Shares of mu^2."""
_ROUNDS = 8
_SCALE_NOISE = 0.16
"""Refuse if the threshold for a visible octave exceeds this share of the rows: an interval has no part for
octaves that are not seen."""
_CUT_NOISE, _CUTS = 0.08, (9.0, 64.0)
"""Squared distances are summed up to where the noise is 8 % of the variance: 3 to 8 standard deviations."""
_SPREAD_NOISE, _LEAST_SQUARE = 4.0, 2.0
"""A standard deviation is given where the variance should be so many standard deviations of its noise, and is
so many."""


@documented
@guarded
def mean(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    clip: float | None = None,
    rounds: int | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    r"""Differentially private mean of one or several columns.

    Parameters
    ----------
    %(formula of columns, data, eps, delta)s
    clip : float, optional
        Distance from the estimate, in units of a private scale, beyond which values count as if they were
        there; of a column with bounds, in units of half their range. By default the bounds are the limits,
        and without bounds limits are chosen from released counts, for the least error of the mean.
    rounds : int, optional
        Number of rounds; the later half is averaged. By default 1, or 8 with `clip`.
    %(bounds, levels, by, unit, ledger, seed)s

    Returns
    -------
    Results or GroupedResults
        A mean and its standard error for each column, without covariances.

    %(raises)s
    ReleaseFailed
        If there are too few rows to see the range of the columns. All of the budget is spent; only the
        count's part under a ledger that adds up by zCDP or GDP.
    %(errors)s

    Notes
    -----
    **Method.** From a private median :math:`m`,

    .. math:: \hat\theta = m + \frac{1}{\tilde n}
              \Bigl(\sum_i \mathrm{clip}_\tau(y_i - m) + N\Bigr) + \tilde b,

    where :math:`\tau` and :math:`\tilde b`, what the limits take off the mean, are read off released counts
    of distances. With `clip`, several rounds lead to Huber's location (Tang et al. 2023, algorithm 3).

    %(gaussian steps)s
    Proof: ``docs/privacy/mean.md``.

    **Standard errors** cover sampling, privacy noise, and, for skewed columns, a bound on the error of
    :math:`\tilde b`. Where one side is visibly longer it allows for tails that go on falling as the last
    counts show, one standard error added, and for those of a family (Weibull tails, nearly power laws) that
    all counts leave possible; rows far out that counts of several sizes show together are part of it. Fewer
    rows than a tail needs to be followed, and `clip`, give the mean of values limited to an interval: the
    table says so in its line, and its interval is for that mean (:func:`ols` of a constant alone has one for
    the mean of all values). No interval allows for rows far out that are
    too few to be seen: a note says how many. Estimates with bounds may be beyond these, by noise.

    %(diamonds)s
    >>> fit = dpstats.mean("price ~ 1", diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.conf_int().round()
                0       1
    price  3895.0  3970.0
    """
    clip = check("clip", clip, "limit", optional=True)
    rounds = check("rounds", rounds, "count", optional=True) or (_ROUNDS if clip else 1)
    budget = functools.partial(_budget, clip=clip, rounds=rounds)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit)
    needs = Needs(columns="constant", responses="any")
    return run(Estimator("mean", budget, _release, _results, needs), call)


@dataclass(frozen=True)
class MeanBudget:
    """Everything public."""

    guarantee: Guarantee
    mus: Mapping[str, float]
    bounds: tuple[tuple[float, float] | None, ...]
    clip: float | None
    rounds: int


def _budget(design: Design, call: Call, rows: int | None, *, clip: float | None, rounds: int) -> MeanBudget:
    bounds = design.response_bounds
    free, k = [b is None for b in bounds], len(bounds)
    columns = sum(free) * (clip is None)
    steps = [
        # without a private location the estimate may lie far from where its sum starts, and the count matters
        Step("count", "number of rows", _SHARES["count"] if any(free) else _SHARES["rounds"]),
        Step("location", "locations", _SHARES["location"] * any(free)),
        Step("scale", "scales", _SHARES["scale"] * any(free)),
        Step("tail", "rows by distance", _SHARES["tail"] * bool(columns), max(columns, 1)),
        Step("rounds", "limited means", _SHARES["rounds"], rounds * k),
        Step("moments", "mean squares", _SHARES["moments"], k),
    ]
    mus, guarantee = divide(call.eps, call.delta, steps, call.seeded)
    return MeanBudget(guarantee, mus, bounds, clip, rounds)


@dataclass(frozen=True)
class MeanColumn:
    """What is released of a column, in its units.

    The variance is NaN for a column without visible variation; the square of a bound on a `bias` is in it.
    Values are limited to `low` and `high`, and the estimate is of their mean if it is `limited`; `spread` is
    their standard deviation, NaN where noise hides it. Its square is `square`, which may be below 0, with a
    standard error of sampling and privacy noise, and at most twice `beyond` more: of values far out.
    """

    estimate: float
    variance: float = math.nan
    spread: float = math.nan
    low: float = math.nan
    high: float = math.nan
    limited: bool = False
    bias: float = 0.0
    square: float = math.nan
    square_se: float = math.nan
    beyond: float = 0.0
    unseen: float = 0.0


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases: the number of rows, and each column."""

    count: float
    columns: tuple[MeanColumn, ...]


def _release(blocks: Blocks, budget: MeanBudget, rng: Randomness) -> _Release:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed: in standardised units a row moves a
    limited sum by at most ``tau``. Argument: ``docs/privacy/mean.md``.
    """
    count = release_count(blocks, budget.mus["count"], rng)
    return _Release(count, limited_means("mean", blocks, budget, count, rng))


def limited_means(
    name: str, blocks: Blocks | Rows, budget: MeanBudget, released: float, rng: Randomness
) -> tuple[MeanColumn, ...]:
    """Release the mean of every response, given the released number of rows.

    **Privacy.** As of the mechanism, whose count it takes as it is.
    """
    mus, k = budget.mus, len(budget.bounds)
    free = np.array([j for j, b in enumerate(budget.bounds) if b is None], dtype=np.int64)
    count = max(released, 1.0)
    loc, scale, width = np.zeros(k), np.ones(k), np.zeros(k)
    for j, b in enumerate(budget.bounds):
        if b is not None:
            loc[j], scale[j] = b[0] / 2 + b[1] / 2, b[1] / 2 - b[0] / 2 or 1.0
    if len(free):
        check_rows(name, budget, len(free), released, _SCALE_NOISE)
        (s,) = standardize(blocks, [Columns(1, free, mus["location"], mus["scale"])], count, rng)
        loc[free], scale[free], width[free] = s.loc, s.scale, s.width
    columns = []
    for j in range(k):
        # where nothing varies beyond the resolution of the location, something may within
        within = scale[j] == 0 and not budget.clip
        unit = width[j] if within else scale[j]
        if unit > 0:
            affine = Affine(np.array([0, 1 + j]), np.array([0, loc[j]]), np.array([1, unit]))
            rows = Whitened(blocks, Frame(affine, np.eye(1), np.array([-np.inf]), np.array([np.inf])))
            column = _column(rows, loc[j], unit, budget.bounds[j] is None, budget, count, rng)
            columns.append(replace(column, limited=column.limited or within))
        else:
            columns.append(MeanColumn(loc[j]))
    return tuple(columns)


def _column(
    rows: Whitened, loc: float, scale: float, free: bool, budget: MeanBudget, count: float, rng: Randomness
) -> MeanColumn:
    """One column, from its standardised rows."""
    if budget.clip:
        u, variance, psi2 = _huber(rows, budget.clip, budget, count, rng)
        # with one round values are limited about the location, with more about the estimate
        middle, reach = loc + scale * u * (budget.rounds > 1), scale * budget.clip
        ends, spread = (middle - reach, middle + reach), scale * math.sqrt(psi2)
        return MeanColumn(loc + scale * u, scale**2 * variance, spread, *ends, limited=True)
    limit, tau, unseen = None, 1.0, 0.0
    if free:
        sd, noise = 1 / budget.mus["tail"], 1 / budget.mus["rounds"] / count
        limit = choose_limit(
            product_counts(rows, np.zeros(1), math.inf, EDGES, budget.mus["tail"], rng), sd, count, noise
        )
        if limit is None:
            return MeanColumn(loc)
        tau, unseen = limit.tau, unseen_rows(sd)
    u, variance, square, *squares = _mean(rows, tau, limit, budget, count, rng)
    bias = 0.0 if limit is None else scale * limit.bias
    limited = limit is not None and not limit.followed
    ends, spread = (loc - scale * tau, loc + scale * tau), scale * math.sqrt(square)
    within, se, beyond = (scale**2 * x for x in squares)
    found = spread, *ends, limited, bias, within, se, beyond, unseen
    return MeanColumn(loc + scale * u, scale**2 * variance, *found)


def _mean(
    rows: Whitened, tau: float, limit: Limit | None, budget: MeanBudget, count: float, rng: Randomness
) -> tuple[float, ...]:
    """Mean of limited values, plus what the limit takes off, its variance, and that of the values (NaN where
    noise hides it); of the latter the part up to the cut, its standard error, and half of the most beyond. No
    `limit` with bounds.

    Whether noise hides the variance is told by counts with noise of their own, where there are any: had it to
    stand out itself, those that do would be too large.
    """
    total = product_gradient(rows, np.zeros(1), math.inf, tau, budget.mus["rounds"], rng)
    u, mu = float(total[0]) / count, budget.mus["moments"]
    cut = 4.0
    if limit is not None:
        cut = min(max(_CUT_NOISE * count * mu, _CUTS[0]), _CUTS[1]) * limit.size**2
    within, error = residual_variance(rows, np.array([u]), cut, count, mu, rng), cut / mu / count
    hidden = within < _LEAST_SQUARE * error
    if limit is None:
        # what lies within bounds has a variance of at most (1 - u)(1 + u)
        largest = max(1 - u**2, 2 / budget.mus["rounds"] / count)
        square = min(max(within, 2 * error), largest)
        within = found = min(within, largest)
        fourth, removed, bias, beyond = (1 + abs(u)) ** 2 * square, 0.0, 0.0, 0.0
    else:
        hidden = hidden or limit.size**2 < _SPREAD_NOISE * error
        seen, unseen = limit.squares_beyond(cut)
        # noise that makes cells visible together makes their squares too large: a mean is known with that
        # error, but no standard deviation
        hidden = hidden or limit.squares_together(cut) > within
        beyond = seen + unseen
        square = max(within, 2 * error) + beyond
        found = within + (beyond if limit.followed else seen)
        fourth, removed, bias = limit.fourth(cut), limit.removed, limit.bias
    of_count = 1 / budget.mus["count"] / count
    noise, miscount = tau / budget.mus["rounds"] / count, u * of_count
    variance = noise**2 + miscount**2 + bias**2 + square / count
    sampling = max(fourth - within**2, 0.0) / count
    se = math.sqrt(error**2 + (within * of_count) ** 2 + sampling)
    return u + removed, variance, math.nan if hidden else found, within, se, beyond


def _huber(
    rows: Whitened, tau: float, budget: MeanBudget, count: float, rng: Randomness
) -> tuple[float, float, float]:
    """Estimate and variance of Huber's location with threshold `tau`, and the mean square of what counts."""
    loss = Huber(tau)
    u, kept, burn = np.zeros(1), [], budget.rounds // 2
    for t in range(budget.rounds):
        total = loss.score(rows, u, tau, budget.mus["rounds"], rng)
        u = u + total / count
        if t >= burn:
            kept.append(u)
    u = np.mean(kept, axis=0)
    share, psi2 = loss.spread(rows, u, count, budget.mus["moments"], rng)
    added = np.full(budget.rounds, (tau / budget.mus["rounds"] / count) ** 2)
    noise, left = averaged_noise(np.array([1 - share]), burn, added)
    # the first round divides by a noisy count, and what that misses is made good by later ones
    miscount = (u[0] / budget.mus["count"] / count) ** 2
    bias = (left[0] / max(1 - left[0], 0.05) * u[0]) ** 2 if budget.rounds > 1 else 0.0
    sampling = psi2 / count / (share**2 if budget.rounds > 1 else 1.0)
    return float(u[0]), float(noise[0] + miscount + bias + sampling), psi2


def _results(design: Design, budget: MeanBudget, release: _Release) -> Results:
    """Results from the release alone."""
    names, columns = design.response_names, release.columns
    # how the columns vary together is not released
    cov = np.full((len(names), len(names)), np.nan)
    np.fill_diagonal(cov, [c.variance for c in columns])
    ends = [f"{name} {format_ends(c.low, c.high)}" for name, c in zip(names, columns, strict=True)]
    limited = [j for j, c in enumerate(columns) if c.limited and not math.isnan(c.variance)]
    flat = [name for name, c in zip(names, columns, strict=True) if math.isnan(c.variance)]
    notes = []
    if limited:
        notes.append(
            "Values count as moved into: " + ", ".join(ends[j] for j in limited)
            + ". The mean and its interval are those of the values so moved; how many lie further out, and "
            "where, is too little seen at this budget. An interval for the mean of all values is that of "
            "ols(), with a constant alone."
        )  # fmt: skip
    followed = [j for j, c in enumerate(columns) if c.unseen >= 1 and not c.limited]
    if followed:
        where = ", ".join(ends[j] for j in followed)
        most = max(columns[j].unseen for j in followed)
        notes.append(f"{unseen_note(most, where)}; the interval may not allow for these.")
    if flat:
        notes.append(
            f"No variation beyond the privacy noise: {', '.join(flat)}. What is given is where most values "
            "are; the mean is not determined, as values far out may go unseen."
        )
    return Results(
        method="Mean",
        formula=design.formula,
        names=names,
        estimates=np.array([c.estimate for c in columns]),
        cov=cov,
        covers=SAMPLING_AND_PRIVACY,
        guarantee=budget.guarantee,
        released={"n": release.count, "rounds": budget.rounds},
        notes=tuple(notes),
        bias=np.diag([c.bias**2 for c in columns]),
        limited=tuple((names[j], float(columns[j].low), float(columns[j].high)) for j in limited),
    )
