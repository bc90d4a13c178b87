"""Private Theil-Sen regression: exponential-mechanism medians over random matchings of the rows."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._format import too_few
from dpstats._types import Bounds, Floats, Integers, Levels
from dpstats._validation import check
from dpstats.engines.local import gather
from dpstats.errors import ParameterError, ReleaseFailed
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.anchors import private_points, quarter_points
from dpstats.mechanisms.exponential import exponential_spend, quantile
from dpstats.mechanisms.noise import laplace
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import Results

__all__ = ["theil_sen"]

_TEST = 0.05
"""Share of eps for the number of usable pairs."""
_CENTRE, _DISTANCE = 0.15, 0.1
"""Shares of eps for centre and spread of the covariate, where it has no bounds."""
_NATS = 18.0
"""What a median's slack in rank must be worth: the 11 nats of the lattice, and 7 for a failure of 1e-3."""
_SLACK = 0.25
"""A median may be off by this share of the ranks."""
_NEEDS = Needs(columns="one covariate", delta="delta", public_rows=True)
_NO_ERRORS = "The spread of the pairwise lines is not released, so there are no standard errors."


@documented
@guarded
def theil_sen(
    formula: str,
    data: Any,
    *,
    eps: float,
    matchings: int = 10,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    """Differentially private simple regression by medians of lines through random pairs of rows.

    Parameters
    ----------
    %(formula of a line, data, eps)s
    matchings : int
        How often the rows are paired. More pairs vary less, at no cost in privacy noise; the time is in
        proportion.
    bounds : mapping of str to (float, float), optional
        Public bounds. With those of the column the line is estimated at a quarter and three quarters of that
        range; else at a private centre plus and minus a private distance, which cost 25 % of `eps`. With
        those of the response its estimates stay in them.
    %(levels, by, unit, ledger, seed)s

    %(results)s
        Two coefficients, without standard errors.

    %(raises)s
    ReleaseFailed
        If too few pairs of usable rows differ in the column (5 % of `eps` is spent).
    ParameterError
        If there are too few rows; their number is public.
    %(errors)s

    Notes
    -----
    **Method** (Alabi, McMillan, Sarathy, Smith and Vadhan 2022, ``DPExpTheilSen`` with ``k`` matchings; Dwork
    and Lei 2009). A matching pairs the rows at random; the line through a pair gives the response at two
    points. The estimates at each point, over all matchings, have a median, drawn by the exponential
    mechanism; the two medians make the line. Under skewed errors such a median is off the mean, and of a
    skewed column not equally at both points: then the slope is off, too, by some per cent, where the
    median of the slopes of all pairs would not be.

    The paper takes private quartiles for the points. Of a column that has one value in a quarter of its rows,
    as a 0/1 column or a count with many zeros, these fall next to it, and the slope between them is
    anything; a typical distance between rows (as of :func:`deepest_regression`) is not. Of a column with a
    very long tail, as of a log-normal one with a log-sd of 1.5, one of the points is often beyond all rows,
    and slopes spread up to twice as far as with quartiles.

    **Privacy.** Pure `eps`-DP; neighbours: one record replaced, the number of rows being public. A record is
    in one pair of each matching, so the score of a median moves by at most ``k``, also if the record becomes
    unusable: then a pair disappears or changes. What is left of `eps` is halved between the two points.
    Proof: ``docs/privacy/theil_sen.md``.

    %(diamonds)s
    >>> seed = 1  # for the example
    >>> fit = dpstats.theil_sen("price ~ carat", diamonds, eps=1, matchings=2, seed=seed)
    >>> fit.params.round(-1).to_dict()
    {'Intercept': -1480.0, 'carat': 6060.0}
    """
    matchings = check("matchings", matchings, "count")
    budget = functools.partial(_budget, matchings=matchings)
    estimator = Estimator("theil_sen", budget, _release, _results, _NEEDS)
    return run(estimator, Call(formula, data, eps, 0.0, bounds, levels, by, ledger, seed, unit))


@dataclass(frozen=True)
class _Budget:
    """Everything public."""

    guarantee: Guarantee
    rows: int
    matchings: int
    points: tuple[float, float] | None
    """Where the line is estimated; None for private points."""
    response: tuple[float, float] | None
    """Bounds of the response."""
    eps_test: float
    """Of the number of pairs."""
    eps_centre: float
    """Of the points, as `eps_distance`."""
    eps_distance: float
    eps_median: float
    """Of each median."""
    least: float
    """Pairs that a matching must have."""


def _budget(design: Design, call: Call, rows: int, *, matchings: int) -> _Budget:
    eps, points = call.eps, quarter_points(design)
    eps_test, eps_centre, eps_distance = _TEST * eps, _CENTRE * eps, _DISTANCE * eps
    if points:
        eps_centre = eps_distance = 0.0
    eps_median = (eps - eps_test - eps_centre - eps_distance) / 2
    # the score loses eps_median / (2 matchings) a rank over rows of pairs times matchings
    least = 2 * _NATS / (_SLACK * eps_median)
    needed = max(2 * least, 2 * _NATS / (_SLACK * eps_centre) if eps_centre else 0.0)
    if rows < needed:
        raise ParameterError(
            f"theil_sen: {too_few(rows)} at eps = {eps:g}, which needs {math.ceil(needed):,}. "
            f"A larger eps would do.{call.unit_reminder}"
        )
    steps = () if points else (("centre", eps_centre), ("distance", eps_distance))
    spends = (
        Spend("number of pairs", "Laplace noise", eps_test),
        *(exponential_spend(f"{what} of the column", spent) for what, spent in steps),
        *(exponential_spend(f"response at point {i}", eps_median) for i in (1, 2)),
    )
    guarantee = Guarantee(eps, 0.0, "substitution", "pure", spends, seeded=call.seeded)
    response = design.response_bounds[0]
    each = eps_test, eps_centre, eps_distance, eps_median
    return _Budget(guarantee, rows, matchings, points, response, *each, least)


@dataclass(frozen=True)
class _Release:
    """The line."""

    intercept: float
    slope: float


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, a line out.

    Raises
    ------
    ReleaseFailed

    Notes
    -----
    **Privacy.** ``budget.guarantee``; one record replaced, usable or not. In each matching one pair changes,
    appears or disappears: the mean number of pairs moves by at most 1, and the score of a median by at most
    ``matchings``, so each median is ``eps_median``-DP. Proof: ``docs/privacy/theil_sen.md``.
    """
    X, Y = gather(blocks)
    x, y = X[:, 1], Y[:, 0]
    pairs = np.concatenate([_matching(len(x), rng) for _ in range(budget.matchings)])
    pairs = pairs[x[pairs[:, 0]] != x[pairs[:, 1]]]
    spends = budget.guarantee.spends
    if laplace(len(pairs) / budget.matchings, 1.0, budget.eps_test, rng) < budget.least:
        raise ReleaseFailed(
            f"theil_sen: a private count found fewer than {math.ceil(budget.least):,} pairs of usable rows "
            "that differ in the column. Only the count was spent.",
            budget.guarantee.replace(spends=spends[:1]),
        )
    points = budget.points or private_points(x, budget.eps_centre, budget.eps_distance, rng, 2.0**-40)
    first, second = (_median(x, y, pairs, at, budget, rng) for at in points)
    slope = (second - first) / (points[1] - points[0])
    intercept = first - slope * points[0]
    if not (math.isfinite(slope) and math.isfinite(intercept)):
        raise ReleaseFailed("theil_sen: the released line is beyond the range of numbers.")
    return _Release(intercept, slope)


def _matching(n: int, rng: Randomness) -> Integers:
    """Random disjoint pairs of `n` rows, shape (n // 2, 2)."""
    return rng.permutation(n)[: n - n % 2].reshape(-1, 2)


def _median(x: Floats, y: Floats, pairs: Integers, at: float, budget: _Budget, rng: Randomness) -> float:
    """The private median of the lines through the pairs at the point `at`."""
    i, j = pairs.T
    lines, eps = _lines_at(x[i], y[i], x[j], y[j], at), budget.eps_median / budget.matchings
    return quantile(lines, 0.5, eps, rng, neighbours="substitution", bounds=budget.response)


def _lines_at(x1: Floats, y1: Floats, x2: Floats, y2: Floats, at: float) -> Floats:
    """The response at the point `at` of the lines through pairs; a pair with no finite line is left out."""
    largest = np.finfo(float).max
    slope = (y2 - y1) / (x2 - x1)
    lines = slope * (at - x1 / 2 - x2 / 2) + (y1 / 2 + y2 / 2)
    return np.clip(lines[~np.isnan(lines)], -largest, largest)


def _results(design: Design, budget: _Budget, release: _Release) -> Results:
    """Results from the release alone."""
    return Results.of_regression(
        design,
        "Theil-Sen",
        [release.intercept, release.slope],
        budget.guarantee,
        _NO_ERRORS,
        released={"nobs": budget.rows},
        notes=(
            "A median regression: under skewed errors the intercept is off the mean, and of a skewed column "
            "the slope, too, by some per cent.",
        ),
    )
