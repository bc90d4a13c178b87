"""Private means of columns, with no bounds: clipped residuals from a private location, averaged."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Floats, Levels
from dpstats._validation import check
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.budget import Step, divide
from dpstats.linear.loss import Huber
from dpstats.linear.prepare import REACH, check_rows
from dpstats.linear.scores import Frame, Whitened, averaged_noise
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import Columns, release_count, standardize
from dpstats.mechanisms.whiten import Affine
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import SAMPLING_AND_PRIVACY, Results

__all__ = ["mean"]

_SHARES = {"count": 0.05, "location": 0.1, "scale": 0.15, "moments": 0.1, "rounds": 0.6}
"""Shares of mu^2."""
_ROUNDS = 8


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
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    r"""Differentially private mean of one or several columns.

    Parameters
    ----------
    %(formula of columns, data, eps, delta)s
    clip : float, optional
        Distance from the estimate, in units of a private scale, beyond which values count as if they were
        there; of a column with bounds, in units of half their range. By default 1.4 times the private range
        of the column, which leaves out what is too rare to be seen.
    rounds : int, optional
        Number of rounds; the later half is averaged. By default 1, or 8 with `clip`.
    %(bounds, levels, by, ledger, seed)s

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
    **Method** (Tang et al. 2023, algorithm 3). From a private median,

    .. math:: \theta \leftarrow \theta
              + \frac{1}{\tilde n} \Bigl(\sum_i \mathrm{clip}_\tau(y_i - \theta) + N_t\Bigr),

    in the limit Huber's location with threshold :math:`\tau`.

    %(gaussian steps)s
    Proof: ``docs/privacy/mean.md``.

    **Standard errors** cover sampling and privacy noise; they say nothing about values beyond the clip.

    %(diamonds)s
    >>> fit = dpstats.mean("price ~ 1", diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.conf_int().round()
                0       1
    price  3896.0  3964.0
    """
    clip = check("clip", clip, "positive", optional=True)
    rounds = check("rounds", rounds, "count", optional=True) or (_ROUNDS if clip else 1)
    budget = functools.partial(_budget, clip=clip, rounds=rounds)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed)
    needs = Needs(columns="constant", responses="any")
    return run(Estimator("mean", budget, _release, _results, needs), call)


@dataclass(frozen=True)
class _Budget:
    """Everything public."""

    guarantee: Guarantee
    mus: Mapping[str, float]
    bounds: tuple[tuple[float, float] | None, ...]
    clip: float | None
    rounds: int


def _budget(design: Design, call: Call, rows: int | None, *, clip: float | None, rounds: int) -> _Budget:
    bounds = design.response_bounds
    free, k = any(b is None for b in bounds), len(bounds)
    steps = [
        # without a private location the estimate may lie far from where its sum starts, and the count matters
        Step("count", "number of rows", _SHARES["count"] if free else _SHARES["rounds"]),
        Step("location", "locations", _SHARES["location"] * free),
        Step("scale", "scales", _SHARES["scale"] * free),
        Step("rounds", "clipped means", _SHARES["rounds"], rounds * k),
        Step("moments", "mean squares of clipped values", _SHARES["moments"], k),
    ]
    mus, guarantee = divide(call.eps, call.delta, steps, call.seeded)
    return _Budget(guarantee, mus, bounds, clip, rounds)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases: the number of rows, and arrays (k,) in the columns' units.

    The variances are NaN for a column without visible variation; `low` and `high` are what values are clipped
    to, about the estimates.
    """

    count: float
    estimates: Floats
    variances: Floats
    low: Floats
    high: Floats


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed: in standardised units a row moves a
    clipped sum by at most ``tau``. Argument: ``docs/privacy/mean.md``.
    """
    mus, k = budget.mus, len(budget.bounds)
    released = release_count(blocks, mus["count"], rng)
    free = np.array([j for j, b in enumerate(budget.bounds) if b is None], dtype=np.int64)
    count = max(released, 1.0)
    loc, scale, reach = np.zeros(k), np.ones(k), np.ones(k)
    for j, b in enumerate(budget.bounds):
        if b is not None:
            loc[j], scale[j] = (b[0] + b[1]) / 2, (b[1] - b[0]) / 2 or 1.0
    if len(free):
        check_rows("mean", budget, len(free), released)
        (s,) = standardize(blocks, [Columns(1, free, mus["location"], mus["scale"])], count, rng)
        loc[free], scale[free] = s.loc, s.scale
        reach[free] = REACH * s.reach / np.where(s.scale > 0, s.scale, 1.0)
    estimates, variances, limits = loc.copy(), np.full(k, np.nan), np.zeros(k)
    for j in np.flatnonzero(scale > 0).tolist():
        tau = budget.clip or reach[j]
        affine = Affine(np.array([0, 1 + j]), np.array([0, loc[j]]), np.array([1, scale[j]]))
        u, variance = _column(blocks, affine, tau, budget, count, rng)
        estimates[j] += scale[j] * u
        variances[j] = scale[j] ** 2 * variance
        limits[j] = scale[j] * tau
    # with one round values are clipped about the location, with more about the estimate
    middle = loc if budget.rounds == 1 else estimates
    return _Release(released, estimates, variances, middle - limits, middle + limits)


def _column(
    blocks: Blocks, affine: Affine, tau: float, budget: _Budget, count: float, rng: Randomness
) -> tuple[float, float]:
    """Estimate and variance of one column in standardised units."""
    rows = Whitened(blocks, Frame(affine, np.eye(1), np.array([-np.inf]), np.array([np.inf])))
    loss = Huber(tau)
    u, kept, burn = np.zeros(1), [], budget.rounds // 2
    for t in range(budget.rounds):
        total = loss.score(rows, u, math.inf, tau, budget.mus["rounds"], rng)
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
    return float(u[0]), float(noise[0] + miscount + bias + sampling)


def _results(design: Design, budget: _Budget, release: _Release) -> Results:
    """Results from the release alone."""
    names = design.response_names
    flat = np.isnan(release.variances)
    # how the columns vary together is not released
    cov = np.full((len(names), len(names)), np.nan)
    np.fill_diagonal(cov, release.variances)
    notes = []
    if not flat.all():
        notes.append("Values count as moved into: " + ", ".join(
            f"{names[j]} [{release.low[j]:.4g}, {release.high[j]:.4g}]" for j in np.flatnonzero(~flat)
        ) + ". The mean and its interval are those of the values so moved.")  # fmt: skip
    if flat.any():
        constant = ", ".join(names[j] for j in np.flatnonzero(flat))
        notes.append(f"No variation beyond the privacy noise: {constant}. The location is given.")
    return Results(
        method="Mean",
        formula=design.formula,
        names=names,
        estimates=release.estimates,
        cov=cov,
        covers=SAMPLING_AND_PRIVACY,
        guarantee=budget.guarantee,
        released={"n": release.count, "rounds": budget.rounds},
        notes=tuple(notes),
    )
