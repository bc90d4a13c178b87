"""Private simple regression by noisy sufficient statistics (NoisyStats)."""

import math
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Levels
from dpstats.engines.local import gather
from dpstats.errors import ParameterError, ReleaseFailed
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.anchors import quarter_points
from dpstats.mechanisms.noise import laplace
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import Results

__all__ = ["noisy_stats"]

_COUNT = 0.1
"""Share of eps for the number of usable rows; the three statistics share the rest equally."""
_SENSITIVITY = 1 + 2.0**-16
"""1, enlarged for the rounding of sums."""
_NEEDS = Needs(columns="one covariate", delta="delta", public_rows=True)
_NO_ERRORS = "The spread of the residuals is not released, so there are no standard errors."


@documented
@guarded
def noisy_stats(
    formula: str,
    data: Any,
    *,
    eps: float,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    r"""Differentially private simple regression from a noisy covariance and variance, with public bounds.

    Parameters
    ----------
    %(formula of a line, data, eps)s
    bounds : mapping of str to (float, float)
        Public bounds of both columns. Values outside are moved to the nearer end; noise is in proportion to
        the width of the bounds.
    %(levels, by, unit, ledger, seed)s

    %(results)s
        Two coefficients, without standard errors.

    %(raises)s
    ReleaseFailed
        If the noisy variance of the column is not positive (the covariance is then not spent), or the
        noisy number of rows is not.
    ParameterError
        If bounds are missing.
    %(errors)s

    Notes
    -----
    **Method** (Alabi, McMillan, Sarathy, Smith and Vadhan 2022, Algorithm 1). With `x` and `y` mapped to [0,
    1],

    .. math:: \hat b = \frac{\sum (x_i - \bar x)(y_i - \bar y) + L_1}{\sum (x_i - \bar x)^2 + L_2}, \qquad
        \hat a = \tfrac12 + \frac{\sum (y_i - \tfrac12) - \hat b \sum (x_i - \tfrac12) + L_3}{\hat n} -
        \tfrac12 \hat b,

    with Laplace noise of scale ``1/e``, ``1/e`` and ``(1 + |b|)/e`` for ``e = 0.3 eps``. The published
    algorithm divides by the number of rows; as a row may be unusable, that number is private here, and a
    tenth of `eps` pays for it.

    **Privacy.** Pure `eps`-DP; neighbours: one record replaced, usable or not, the number of rows handed in
    being public. Proof: ``docs/privacy/noisy_stats.md``.

    %(diamonds)s
    >>> bounds = {"price": (0, 2e4), "carat": (0, 5)}
    >>> fit = dpstats.noisy_stats(
    ...     "price ~ carat", diamonds, eps=1, bounds=bounds, seed=1
    ... )  # seeded for the example
    >>> fit.params.round().to_dict()
    {'Intercept': -2125.0, 'carat': 7601.0}
    """
    estimator = Estimator("noisy_stats", _budget, _release, _results, _NEEDS)
    return run(estimator, Call(formula, data, eps, 0.0, bounds, levels, by, ledger, seed, unit))


@dataclass(frozen=True)
class _Budget:
    """Everything public: bounds of the column and of the response, and the budget of the steps."""

    guarantee: Guarantee
    rows: int
    column: tuple[float, float]
    response: tuple[float, float]
    eps_count: float
    eps_each: float


def _finite(known: tuple[float, float] | None) -> TypeGuard[tuple[float, float]]:
    return known is not None and 0 < known[1] - known[0] < math.inf


def _budget(design: Design, call: Call, rows: int) -> _Budget:
    column, response = design.column_bounds[1], design.response_bounds[0]
    quarter_points(design)
    # a width that overflows would make a row at the far end not a number
    if not (_finite(column) and _finite(response)):
        example = ", ".join(f"{c.name!r}: (lower, upper)" for c in design.schema if c.levels is None)
        raise ParameterError(f"noisy_stats needs finite public bounds of every column: bounds={{{example}}}.")
    eps_count = _COUNT * call.eps
    eps_each = (call.eps - eps_count) / 3
    spends = (
        Spend("number of rows", "Laplace noise", eps_count),
        Spend("variance of the column", "Laplace noise", eps_each),
        Spend("covariance", "Laplace noise", eps_each),
        Spend("intercept", "Laplace noise", eps_each),
    )
    guarantee = Guarantee(call.eps, 0.0, "substitution", "pure", spends, seeded=call.seeded)
    return _Budget(guarantee, rows, column, response, eps_count, eps_each)


@dataclass(frozen=True)
class _Release:
    """The number of usable rows plus noise, and the line in the units of the data."""

    count: float
    intercept: float
    slope: float


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, a line out.

    Raises
    ------
    ReleaseFailed

    Notes
    -----
    **Privacy.** ``budget.guarantee``. In units of the bounds, a record replaced, added or removed moves the
    number of rows, ``nvar`` and ``ncov`` by at most 1 each, and the sum of ``y - 1/2 - slope (x - 1/2)``, at
    a released slope, by at most ``1 + |slope|``. Proof: ``docs/privacy/noisy_stats.md``.
    """
    X, Y = gather(blocks)
    x, y = X[:, 1], Y[:, 0]
    x, y = ((v - lo) / (hi - lo) for v, (lo, hi) in ((x, budget.column), (y, budget.response)))
    n = len(x)
    u, v = (z - (np.mean(z) if n else 0.0) for z in (x, y))
    count = float(laplace(n, 1.0, budget.eps_count, rng))
    nvar = float(laplace(np.sum(u * u), _SENSITIVITY, budget.eps_each, rng))
    spends = budget.guarantee.spends
    if nvar <= 0 or count <= 0:
        what = "variance of the column" if count > 0 else "number of rows"
        raise ReleaseFailed(
            f"noisy_stats: the noisy {what} is not positive, so there is no slope. More rows, a larger "
            f"eps or narrower "
            "bounds would help. The covariance and the intercept were not spent.",
            budget.guarantee.replace(spends=spends[:2]),
        )
    slope = float(laplace(np.sum(u * v), _SENSITIVITY, budget.eps_each, rng)) / nvar
    residuals = float(np.sum(y - 0.5) - slope * np.sum(x - 0.5))
    centre = float(laplace(residuals, _SENSITIVITY * (1 + abs(slope)), budget.eps_each, rng)) / count
    (x_low, x_high), (y_low, y_high) = budget.column, budget.response
    units = (y_high - y_low) / (x_high - x_low)
    intercept = (y_low + y_high) / 2 + centre * (y_high - y_low) - slope * units * (x_low + x_high) / 2
    return _Release(count, intercept, slope * units)


def _results(design: Design, budget: _Budget, release: _Release) -> Results:
    """Results from the release alone."""
    return Results.of_regression(
        design,
        "NoisyStats",
        [release.intercept, release.slope],
        budget.guarantee,
        _NO_ERRORS,
        released={"nobs": budget.rows, "n": release.count},
    )
