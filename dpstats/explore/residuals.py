"""Diagnostics of a linear fit from noisy sums over its residuals.

The residuals of a released fit are those of least squares plus ``v'(u* - u)``, the error of the fit. Sums
over them are taken with terms that are orthogonal to the columns, in the released Gram matrix, so that this
error drops out.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from dpstats._types import Floats, Integers
from dpstats.engines.local import Mapped, row_products
from dpstats.explore.diagnosed import Bins, Leverage, Outcome, Residuals
from dpstats.explore.diagnosis import LinearDiagnosis
from dpstats.explore.score_tests import (
    LENGTH,
    RESIDUAL_EDGES,
    SHARES,
    STAGES,
    inverse,
    normality,
    polynomials,
    score_test,
    unknown,
)
from dpstats.explore.sums import column_of, noisy_counts, noisy_sum, shortened
from dpstats.formula.design import Blocks, Design
from dpstats.linear.budget import LinearBudget, Step, divide, preparation, stage_steps, stages_of
from dpstats.linear.prepare import Prepared, prepare
from dpstats.linear.public import PublicDesign
from dpstats.linear.scores import whitened_gram
from dpstats.mechanisms.quantiles import bisected
from dpstats.mechanisms.rng import Randomness

__all__ = ["LinearDiagnostics", "numeric_columns", "release_linear"]

_DECILES = np.arange(1, 10) / 10
_FIFTHS = np.arange(1, 5) / 5
_MOST_COLUMNS = 12
"""Residuals are shown against the first columns of numbers; more would have too little of the budget each."""
_PSI, _SQUARE = 3.0, 4.0
"""Standardised residuals count up to 3, and their squares up to 4."""
_MOST, _NOISE = 20.0, 1.5
"""In the sums by bins residuals of many rows count up to more, 20 at most, as long as the noise of a sum is
no larger than so many times its sampling error.
"""
_PRODUCT = 6.0
_RADIUS2 = 2.0
_SDS = np.linspace(0.25, 3.0, 111)
_LIMITED_SQUARES = _SDS**2 * special.chdtr(3, _SQUARE / _SDS**2) + _SQUARE * special.chdtrc(
    1, _SQUARE / _SDS**2
)
"""Standard deviations of normal residuals, and the means of their limited squares."""
_REACH = 1.5
"""Of a straight line of spreads, in standard deviations of the prediction."""
_METRIC_NOISE = 0.15
"""The most noise of the metric of leverages, if rows are short."""
LEVERAGES = np.array([2.0, 3.0, 5.0, 10.0])
"""Limits of the leverage, in units of its mean."""


@dataclass(frozen=True)
class LinearDiagnostics(LinearBudget):
    """Everything public: the budget, the released fit, and which columns residuals are shown against."""

    design: Design
    coefficients: Floats
    sigma: float
    columns: tuple[int, ...]

    @classmethod
    def of(
        cls, design: Design, coefficients: Floats, sigma: float, eps: float, delta: float, seeded: bool
    ) -> "LinearDiagnostics":
        """Divide a budget."""
        public, columns = PublicDesign.of(design), numeric_columns(design)
        steps = [
            *preparation(public, SHARES),
            *stage_steps(STAGES),
            Step("search", "deciles of the predictions", 0.05),
            Step("residuals", "residuals by size", 0.06),
            Step("rows", "rows by prediction", 0.02),
            Step("sums", "residuals by prediction", 0.05),
            Step("squares", "squared residuals by prediction", 0.04),
            Step("gram", "products with powers of the prediction", 0.08),
            Step("reset", "powers of the prediction by residuals", 0.13),
            Step("reset outer", "their outer products", 0.04),
            Step("het", "predictions by squared residuals", 0.14),
            Step("het outer", "their outer products", 0.03),
            Step("leverage gram", "products of the columns", 0.04),
            Step("leverage", "rows by leverage", 0.01),
            Step("columns search", "fifths of the columns", 0.05 * bool(columns), max(len(columns), 1)),
            Step("columns rows", "rows by column", 0.02 * bool(columns)),
            Step("columns sums", "residuals by column", 0.05 * bool(columns)),
        ]
        mus, guarantee = divide(eps, delta, steps, seeded)
        return cls(guarantee, mus, public, stages_of(STAGES, mus), design, coefficients, sigma, columns)


def numeric_columns(design: Design) -> tuple[int, ...]:
    """Positions of the first columns that are no constant and not 0 or 1."""
    bounds = design.column_bounds
    found = [
        j
        for j, name in enumerate(design.column_names)
        if name != "Intercept" and bounds[j] not in ((0, 1), (1, 1))
    ]
    return tuple(found[:_MOST_COLUMNS])


def _limit(rows: float, mu: float) -> float:
    """Up to what standardised residuals count in sums over so many rows, ``mu``-GDP for a limit of 1.

    Skewed residuals have a mean beyond 0 once they are limited, the more so the wider they are spread, and
    over many rows it would show: there the limit is as high as the noise allows.
    """
    return min(max(_NOISE * math.sqrt(max(rows, 0.0)) * mu, _PSI), _MOST)


@dataclass(frozen=True)
class Spread:
    """The standard deviation of residuals over the typical one, a straight line of the prediction.

    Errors of one law, times a spread that is linear in the prediction, have a mean that is linear in it too
    where they are limited at so many times their spread; terms orthogonal to the columns do not see it.
    """

    middle: float
    scale: float
    slope: float

    @classmethod
    def of(cls, bins: Bins, middle: float, scale: float) -> "Spread":
        """The line through released bins, from their limited squares as normal residuals have them."""
        assert bins.squares is not None
        z, rows = (bins.edges - middle) / scale, np.maximum(bins.counts, 1.0)
        ends = z[0] - 0.75 * (z[1] - z[0]), z[-1] + 0.75 * (z[-1] - z[-2])
        places = np.concatenate([[ends[0]], (z[1:] + z[:-1]) / 2, [ends[1]]])
        sds = np.interp(bins.squares / rows, _LIMITED_SQUARES, _SDS)
        slope, level = np.polyfit(places, sds, 1, w=np.sqrt(rows))
        return cls(middle, scale, float(slope / max(level, _SDS[0])))

    @property
    def most(self) -> float:
        """Its largest value for nearly all rows; it is limited to that."""
        return min(1 + _REACH * abs(self.slope), float(_SDS[-1]))

    def __call__(self, prediction: Floats) -> Floats:
        line = 1 + self.slope * (prediction - self.middle) / self.scale
        return np.clip(line, _SDS[0], self.most)


class _Residuals(Mapped):
    """Rows as whitened covariates ``V``, and ``Y``: prediction, standardised residual, columns shown."""

    def __init__(self, blocks: Any, budget: LinearDiagnostics, prepared: Prepared) -> None:
        super().__init__(blocks)
        self._budget, self._affine, self._W = budget, prepared.affine, prepared.whitening.W

    def map(self, X: Floats, Y: Floats) -> tuple[Floats, Floats]:
        b = self._budget
        with np.errstate(all="ignore"):
            prediction = row_products(X, b.coefficients)
            residual = (Y[:, 0] - prediction) / b.sigma
            V = row_products(self._affine.apply(X), self._W)
        shown = np.column_stack([prediction, residual, X[:, list(b.columns)]])
        limit = 2.0**300
        return (
            np.ascontiguousarray(np.clip(np.nan_to_num(V), -limit, limit)),
            np.ascontiguousarray(np.clip(np.nan_to_num(shown), -limit, limit)),
        )


class _Joined(Mapped):
    """Rows ``t = (v, g)``, shortened to a length, ``g`` the polynomials of the standardised prediction,
    beside the same responses.
    """

    def __init__(self, rows: Any, middle: float, scale: float, radius: float) -> None:
        super().__init__(rows)
        self._middle, self._scale, self._radius = middle, scale, radius

    def map(self, V: Floats, Y: Floats) -> tuple[Floats, Floats]:
        powers = polynomials((Y[:, 0] - self._middle) / self._scale)
        joined = np.column_stack([V, powers])
        return np.ascontiguousarray(shortened(joined, self._radius)), Y


def release_linear(blocks: Blocks, budget: LinearDiagnostics, rng: Randomness) -> LinearDiagnosis:
    """The mechanism: rows in, released diagnostics out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed: the fit is public here, and every step is
    a Gaussian mechanism on counts, or on sums of terms of bounded length, in coordinates fixed by what has
    been released before; so are the limits of residuals. Argument: ``docs/privacy/diagnose.md``.
    """
    mus = budget.mus
    prepared = prepare("diagnose", blocks, budget, rng, fitted=False)
    n, q = max(prepared.count, 1.0), len(prepared.affine.columns)
    rows = _Residuals(prepared.rows_of(blocks), budget, prepared)
    deciles = bisected(column_of(rows, 0), _DECILES, mus["search"], rng)
    scale = float(deciles[-1] - deciles[0]) / (2 * float(special.ndtri(0.9)))
    by_size = noisy_counts(
        rows,
        lambda V, Y: np.searchsorted(RESIDUAL_EDGES, Y[:, 1:2]),
        (1, len(RESIDUAL_EDGES) + 1),
        mus["residuals"],
        rng,
    )[0]
    fitted = _by_prediction(rows, deciles, n, budget, rng)
    tests = [unknown("Powers of the prediction (RESET)"), unknown("Constant error variance")]
    metric = np.eye(q)
    if scale > 0:
        joined = _Joined(rows, float(deciles[4]), scale, math.sqrt(_RADIUS2 * (q + 3)))
        gram = whitened_gram(joined, q + 3, _RADIUS2 * (q + 3), mus["gram"], rng) / n
        floor = math.sqrt(2 * q) * _RADIUS2 * (q + 3) / mus["gram"] / n
        metric = inverse(gram[:q, :q], floor)
        ones = np.asarray(np.linalg.inv(prepared.whitening.W)[:, 0], float)
        tests = [
            _reset(joined, gram, metric, Spread.of(fitted, float(deciles[4]), scale), budget, rng),
            _het(joined, gram, ones, fitted, _first_moments(by_size), budget, rng),
        ]
    tests.append(normality(by_size, 1 / mus["residuals"]))
    return LinearDiagnosis(
        formula=budget.design.formula,
        guarantee=budget.guarantee,
        tests=tuple(tests),
        count=prepared.count,
        fitted=fitted,
        columns=_by_column(rows, n, budget, rng) if budget.columns else (),
        residuals=Residuals(RESIDUAL_EDGES, by_size, 1 / mus["residuals"], budget.sigma),
        leverage=_leverage(rows, q, n, budget, rng),
    )


def _by_prediction(rows: Any, deciles: Floats, n: float, budget: LinearDiagnostics, rng: Randomness) -> Bins:
    """Rows, mean residual and mean square of each tenth of the predictions."""
    mus, size = budget.mus, len(deciles) + 1
    limit = _limit(n / size, mus["sums"])

    def place(Y: Floats) -> Integers:
        return np.searchsorted(deciles, Y[:, :1])

    def spread_out(values: Floats, cells: Integers) -> Floats:
        terms = np.zeros((len(values), size))
        terms[np.arange(len(values)), cells[:, 0]] = values
        return terms

    counts = noisy_counts(rows, lambda V, Y: place(Y), (1, size), mus["rows"], rng)[0]
    sums = noisy_sum(
        rows,
        lambda V, Y: spread_out(np.clip(Y[:, 1], -limit, limit), place(Y)),
        size,
        limit,
        mus["sums"],
        rng,
    )
    squares = noisy_sum(
        rows,
        lambda V, Y: spread_out(np.minimum(Y[:, 1] ** 2, _SQUARE), place(Y)),
        size,
        _SQUARE,
        mus["squares"],
        rng,
    )
    return Bins(
        "prediction",
        deciles,
        counts,
        sums,
        limit / mus["sums"],
        squares,
        _SQUARE / mus["squares"],
        budget.sigma,
        limit,
    )


def _by_column(rows: Any, n: float, budget: LinearDiagnostics, rng: Randomness) -> tuple[Bins, ...]:
    """Rows and mean residual of each fifth of the columns."""
    mus, k = budget.mus, len(budget.columns)
    edges = [bisected(column_of(rows, 2 + j), _FIFTHS, mus["columns search"], rng) for j in range(k)]
    size = len(_FIFTHS) + 1
    limit = _limit(n / size, mus["columns sums"] / math.sqrt(k))

    def place(Y: Floats) -> Integers:
        return np.column_stack([np.searchsorted(edges[j], Y[:, 2 + j], side="right") for j in range(k)])

    def terms(V: Floats, Y: Floats) -> Floats:
        found, psi = place(Y), np.clip(Y[:, 1], -limit, limit)
        values = np.zeros((len(Y), k, size))
        for j in range(k):
            values[np.arange(len(Y)), j, found[:, j]] = psi
        return values.reshape(len(Y), -1)

    length = limit * math.sqrt(k)
    counts = noisy_counts(rows, lambda V, Y: place(Y), (k, size), mus["columns rows"], rng)
    sums = noisy_sum(rows, terms, k * size, length, mus["columns sums"], rng).reshape(k, size)
    names = [budget.design.column_names[j] for j in budget.columns]
    sd = length / mus["columns sums"]
    return tuple(
        Bins(names[j], edges[j], counts[j], sums[j], sd, None, 0.0, budget.sigma, limit) for j in range(k)
    )


def _reset(
    rows: Any, gram: Floats, metric: Floats, spread: Spread, budget: LinearDiagnostics, rng: Randomness
) -> Outcome:
    """Ramsey's test: whether residuals go with the square and the cube of the prediction."""
    q, mus = len(metric), budget.mus
    map_ = metric @ gram[:q, q + 1 :]

    def products(V: Floats, Y: Floats) -> Floats:
        left, limits = V[:, q + 1 :] - row_products(V[:, :q], map_), _PSI * spread(Y[:, :1])
        return left * np.clip(Y[:, 1:2], -limits, limits)

    length = _PRODUCT * spread.most
    return score_test("Powers of the prediction (RESET)", rows, products, length, "reset", mus, rng)


def _first_moments(counts: Floats) -> tuple[float, float]:
    """The mean of standardised residuals limited at the root of :data:`_SQUARE`, and of those that are not
    beyond it the mean, by released counts."""
    limit = math.sqrt(_SQUARE)
    ends = np.concatenate([[-8.0], RESIDUAL_EDGES, [8.0]])
    low, high = np.clip(ends[:-1], -limit, limit), np.clip(ends[1:], -limit, limit)
    shares = np.maximum(counts, 0.0) / max(float(np.maximum(counts, 0.0).sum()), 1.0)
    within = shares * np.where(high > low, (high - low) / np.diff(ends), 0.0)
    mean = float(shares @ ((low + high) / 2))
    return mean, float(within @ ((low + high) / 2)) / max(float(within.sum()), 0.1)


def _het(
    rows: Any,
    gram: Floats,
    ones: Floats,
    fitted: Bins,
    first: tuple[float, float],
    budget: LinearDiagnostics,
    rng: Randomness,
) -> Outcome:
    """Whether squared residuals go with the prediction and its square (Koenker 1981; White 1980).

    An error of the fit moves limited squares of skewed residuals, and not alike in all rows: a multiple of
    the residual, limited too, is taken off, so that the derivative of both together has the mean 0.
    """
    q, mus = len(ones), budget.mus
    weight = max(float(ones @ gram[:q, :q] @ ones), 0.1)
    middle = ones @ gram[:q, q : q + 2] / weight
    square = float(np.clip(fitted.mean_square, 0.2, _SQUARE - 0.5))
    limit, slope = math.sqrt(_SQUARE), 2 * float(np.clip(first[1], -1.0, 1.0))
    mean = square - slope * first[0]
    most = max(_SQUARE + abs(slope) * limit - mean, mean + slope**2 / 4)
    length = (LENGTH + float(np.linalg.norm(middle))) * most

    def products(V: Floats, Y: Floats) -> Floats:
        r = np.clip(Y[:, 1:2], -limit, limit)
        return (V[:, q : q + 2] - middle) * (r**2 - slope * r - mean)

    return score_test("Constant error variance", rows, products, length, "het", mus, rng)


def _leverage(rows: Any, q: int, n: float, budget: LinearDiagnostics, rng: Randomness) -> Leverage:
    """Numbers of rows by leverage, in units of its mean.

    Rows far out make much of the Gram matrix; that of the tests is of rows which are shortened to nearly
    the typical length, and by it many rows would have a high leverage.
    """
    mu = budget.mus["leverage gram"]
    wide = min(q * math.sqrt(n * mu) / 2, _METRIC_NOISE * n * mu / math.sqrt(2 * q))
    radius2 = min(max(_RADIUS2 * q, wide), n)
    floor = math.sqrt(2 * q) * radius2 / mu / n
    metric = inverse(whitened_gram(rows, q, radius2, mu, rng) / n, floor)

    def cells(V: Floats, Y: Floats) -> Integers:
        with np.errstate(over="ignore", invalid="ignore"):
            times = sum((row_products(V, metric) * V).T, np.zeros(len(V))) / q
        return np.searchsorted(LEVERAGES, np.nan_to_num(times, nan=np.inf))[:, None]

    counts = noisy_counts(rows, cells, (1, len(LEVERAGES) + 1), budget.mus["leverage"], rng)[0]
    return Leverage(LEVERAGES, counts, 1 / budget.mus["leverage"], n, radius2 / mu / n)
