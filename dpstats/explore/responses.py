"""Diagnostics of generalised linear models from noisy counts and sums over the rows."""

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import special

from dpstats._types import Floats, Integers
from dpstats.engines.local import Mapped, row_products
from dpstats.explore.clipped_counts import mean_excess, mean_residual
from dpstats.explore.diagnosed import Calibration, Outcome, Rootogram
from dpstats.explore.diagnosis import CountDiagnosis, Diagnosis, LogitDiagnosis
from dpstats.explore.score_tests import POWERS, SHARES, STAGES, inverse, polynomials, score_test, unknown
from dpstats.explore.sums import column_of, noisy_counts, noisy_sum, shortened
from dpstats.formula.design import Blocks, Design
from dpstats.linear.budget import LinearBudget, Step, divide, preparation, stage_steps, stages_of
from dpstats.linear.family import Answers, Binomial, Counts, Family
from dpstats.linear.prepare import Prepared, prepare
from dpstats.linear.public import PublicDesign
from dpstats.linear.scores import whitened_gram
from dpstats.mechanisms.quantiles import bisected
from dpstats.mechanisms.rng import Randomness

__all__ = ["GLMDiagnostics", "release_responses"]

_DISPERSION = "Dispersion as of Poisson counts"
_TWENTIETHS = np.arange(1, 20) / 20
_MOST_COUNTS = 40
"""A rootogram shows counts up to so many at most."""
_LARGEST = 600.0
_LENGTH = {"logit": 2.5, "log": 8.0}
"""Of a row's products of powers with the standardised residual."""
_RESIDUAL = 5.0
_RADIUS2 = 2.0
_EXCESS, _SLACK = 12.0, 0.02
"""A row's part in the test of the dispersion is limited to this, before its mean is taken off: that lies in
(-0.02, 0). With a mean of 1/2 or more in the denominator no part is below -1.5.
"""
_LEAST_MEAN = 0.5


@dataclass(frozen=True)
class GLMDiagnostics(LinearBudget):
    """Everything public: the budget and the released fit.

    Attributes
    ----------
    determined : bool
        Whether every coefficient is. Tests are made only then: what errors of coefficients add to them is of
        the second order, which is small where they are.
    """

    design: Design
    wide: Design | None
    coefficients: Floats
    determined: bool
    family: Family

    @classmethod
    def of(
        cls,
        design: Design,
        wide: Design | None,
        coefficients: Floats,
        determined: bool,
        link: str,
        eps: float,
        delta: float,
        seeded: bool,
    ) -> "GLMDiagnostics":
        """Divide a budget."""
        counts, public = link == "log", PublicDesign.of(design)
        steps = [
            *preparation(public, SHARES),
            *stage_steps(STAGES),
            Step("search", "quantiles of the linear predictor", 0.08),
            Step("classes", "rows by prediction and response", 0.12 * (not counts)),
            Step("expected", "predicted shares by prediction", 0.06 * (not counts)),
            Step("observed", "rows by count", 0.08 * counts),
            Step("expected counts", "predicted shares of the counts", 0.06 * counts),
            Step("dispersion", "squared residuals", 0.10 * counts * determined),
            Step("dispersion outer", "their squares", 0.03 * counts * determined),
            Step("gram", "products with powers of the predictor", 0.10 * determined),
            Step("powers", "powers of the predictor by residuals", 0.18 * determined),
            Step("powers outer", "their outer products", 0.05 * determined),
        ]
        mus, guarantee = divide(eps, delta, steps, seeded)
        family = Counts() if counts else Binomial()
        of_fit = design, wide, coefficients, determined
        return cls(guarantee, mus, public, stages_of(STAGES, mus), *of_fit, family)


class _Predicted(Mapped):
    """Rows as whitened covariates ``V``, and ``Y``: linear predictor and response."""

    def __init__(self, blocks: Any, budget: GLMDiagnostics, prepared: Prepared) -> None:
        super().__init__(blocks)
        self._coefficients, self._wide = budget.coefficients, budget.wide is not None
        self._affine, self._W = prepared.affine, prepared.whitening.W

    def map(self, X: Floats, Y: Floats) -> tuple[Floats, Floats]:
        with np.errstate(all="ignore"):
            predictor = row_products(X, self._coefficients) + (Y[:, -1] if self._wide else 0.0)
            V = row_products(self._affine.apply(X), self._W)
        predictor = np.clip(np.nan_to_num(predictor, nan=0.0), -_LARGEST, _LARGEST)
        limit = 2.0**300
        V = np.ascontiguousarray(np.clip(np.nan_to_num(V), -limit, limit))
        return V, np.column_stack([predictor, np.clip(Y[:, 0], -limit, limit)])


def _means(predictor: Floats, counts: bool) -> Floats:
    return np.exp(predictor) if counts else np.asarray(special.expit(predictor), float)


class _Weighted(Mapped):
    """Rows ``sqrt(w) (v, g)``, shortened, with ``w`` the variance of the response over its typical one,
    beside the residual over ``sqrt(w)`` and the typical standard deviation, the mean, and their product.
    """

    def __init__(
        self, rows: Any, middle: float, scale: float, typical: float, counts: bool, radius: float
    ) -> None:
        super().__init__(rows)
        self._middle, self._scale, self._typical, self._counts = middle, scale, typical, counts
        self._radius = radius

    def map(self, V: Floats, Y: Floats) -> tuple[Floats, Floats]:
        mean = _means(Y[:, 0], self._counts)
        variance = mean if self._counts else mean * (1 - mean)
        root = np.sqrt(np.clip(variance / self._typical, 1e-6, 25.0))
        powers = polynomials((Y[:, 0] - self._middle) / self._scale)
        joined = shortened(np.column_stack([V, powers]) * root[:, None], self._radius)
        sd = math.sqrt(self._typical) * root
        return np.ascontiguousarray(joined), np.column_stack([np.nan_to_num((Y[:, 1] - mean) / sd), mean, sd])


def release_responses(blocks: Blocks, budget: GLMDiagnostics, rng: Randomness) -> Diagnosis:
    """The mechanism: rows in, released diagnostics out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed: the fit is public here, and every step is
    a Gaussian mechanism on counts, or on sums of terms of bounded length, in coordinates fixed by what has
    been released before. What is taken off limited residuals of counts is a function of the prediction; the
    terms are shortened after that, which hardly any need. Argument: ``docs/privacy/diagnose.md``.
    """
    mus, counts, family = budget.mus, budget.family.counts, budget.family
    answers = Answers.of_design(blocks, budget.design, family, budget.wide)
    prepared = prepare("diagnose", cast(Blocks, answers), budget, rng, fitted=False)
    n, q = max(prepared.count, 1.0), len(prepared.affine.columns)
    with_offsets = Answers.of_design(blocks, budget.design, family, budget.wide, offsets=True)
    rows = _Predicted(prepared.rows_of(with_offsets), budget, prepared)
    cuts = bisected(column_of(rows, 0), _TWENTIETHS, mus["search"], rng)
    scale = float(cuts[-1] - cuts[0]) / (2 * float(special.ndtri(0.95)))
    name = "Powers of the linear predictor (link)"
    tests = [unknown(name)]
    if scale > 0 and budget.determined:
        # the mean variance, by the released quantiles
        means = _means(cuts, counts)
        typical = max(float(np.mean(means if counts else means * (1 - means))), 1e-9)
        radius2 = _RADIUS2 * (q + len(POWERS))
        weighted = _Weighted(rows, float(cuts[9]), scale, typical, counts, math.sqrt(radius2))
        gram = whitened_gram(weighted, q + len(POWERS), radius2, mus["gram"], rng) / n
        map_ = inverse(gram[:q, :q], math.sqrt(2 * q) * radius2 / mus["gram"] / n) @ gram[:q, q + 1 :]
        length = _LENGTH[family.link] if counts else _LENGTH[family.link] / math.sqrt(typical)

        def products(T: Floats, R: Floats) -> Floats:
            left = T[:, q + 1 :] - row_products(T[:, :q], map_)
            return left * (_limited(left, R, length) if counts else R[:, 0])[:, None]

        tests = [score_test(name, weighted, products, length, "powers", mus, rng)]
    common: dict[str, Any] = {
        "formula": budget.design.formula,
        "guarantee": budget.guarantee,
        "count": prepared.count,
    }
    if not counts:
        return LogitDiagnosis(tests=tuple(tests), calibration=_calibration(rows, cuts, budget, rng), **common)
    dispersion = _dispersion(rows, n, budget, rng) if budget.determined else unknown(_DISPERSION, 1)
    tests.append(dispersion)
    return CountDiagnosis(tests=tuple(tests), rootogram=_rootogram(rows, cuts, budget, rng), **common)


def _limited(left: Floats, R: Floats, length: float) -> Floats:
    """Standardised residuals of counts, limited, less their means under Poisson's law.

    A limit ``L`` takes at most ``1 / (4 L)`` off the mean of what has the variance 1, so that products with
    `left` keep within `length` if ``(L + 1 / (4 L)) |left| <= length``.
    """
    times = length / np.maximum(np.sqrt(np.sum(left**2, axis=1)), 1e-9)
    limit = np.minimum((times + np.sqrt(np.maximum(times**2 - 1, 0.0))) / 2, _RESIDUAL)
    return np.clip(R[:, 0], -limit, limit) - mean_residual(R[:, 1], R[:, 2], limit)


def _calibration(rows: Any, cuts: Floats, budget: GLMDiagnostics, rng: Randomness) -> Calibration:
    """Rows by twentieth of the predictions and by response, and sums of the predicted shares."""
    mus, size = budget.mus, len(cuts) + 1

    def place(Y: Floats) -> Integers:
        return np.searchsorted(cuts, Y[:, 0], side="right")

    def classes(V: Floats, Y: Floats) -> Integers:
        return (place(Y) + size * (Y[:, 1] == 1))[:, None]

    def shares(V: Floats, Y: Floats) -> Floats:
        terms = np.zeros((len(Y), size))
        terms[np.arange(len(Y)), place(Y)] = special.expit(Y[:, 0])
        return terms

    noisy = noisy_counts(rows, classes, (1, 2 * size), mus["classes"], rng)[0].reshape(2, size)
    expected = noisy_sum(rows, shares, size, 1.0, mus["expected"], rng)
    return Calibration(cuts, noisy[0], noisy[1], 1 / mus["classes"], expected, 1 / mus["expected"])


def _rootogram(rows: Any, cuts: Floats, budget: GLMDiagnostics, rng: Randomness) -> Rootogram:
    """Rows by count, and the sums of their predicted probabilities."""
    mus = budget.mus
    # beyond nearly all of what the largest means predict
    largest = float(np.exp(min(cuts[-1], 20.0)))
    top = int(min(max(math.ceil(largest + 3 * math.sqrt(largest) + 2), 4), _MOST_COUNTS))

    def counts(V: Floats, Y: Floats) -> Integers:
        return np.minimum(Y[:, 1], top + 1).astype(np.int64)[:, None]

    def shares(V: Floats, Y: Floats) -> Floats:
        mean = np.exp(np.minimum(Y[:, 0], 50.0))
        below = special.pdtr(np.arange(top + 1), mean[:, None])
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    observed = noisy_counts(rows, counts, (1, top + 2), mus["observed"], rng)[0]
    expected = noisy_sum(rows, shares, top + 2, 1.0, mus["expected counts"], rng)
    return Rootogram(observed, 1 / mus["observed"], expected, 1 / mus["expected counts"])


def _excess(V: Floats, Y: Floats) -> Floats:
    """By how much squared residuals exceed counts, over the means: limited, less its mean of Poisson's."""
    mean = np.exp(np.minimum(Y[:, 0], 100.0))
    scale = np.maximum(mean, _LEAST_MEAN)
    excess = np.minimum(np.nan_to_num(((Y[:, 1] - mean) ** 2 - Y[:, 1]) / scale), _EXCESS)
    return (excess - mean_excess(mean, scale, _EXCESS))[:, None]


def _dispersion(rows: Any, n: float, budget: GLMDiagnostics, rng: Randomness) -> Outcome:
    """Whether squared residuals are larger or smaller than the means (Cameron and Trivedi 1990)."""
    mus = budget.mus
    length = _EXCESS + _SLACK
    total = float(noisy_sum(rows, _excess, 1, length, mus["dispersion"], rng)[0])
    square = float(
        noisy_sum(rows, lambda V, Y: _excess(V, Y) ** 2, 1, length**2, mus["dispersion outer"], rng)[0]
    )
    noise = (length / mus["dispersion"]) ** 2
    statistic = total**2 / (max(square, n, length**2 / mus["dispersion outer"]) + noise)
    return Outcome(_DISPERSION, statistic, 1, float(special.chdtrc(1, statistic)))
