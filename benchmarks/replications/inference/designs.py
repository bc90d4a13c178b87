"""Designs of the papers, and two that are harder.

A design has two descriptions of its columns. The formula is what ``dpstats.ols`` is given, with no
bounds. The basis ``Z`` is what the other methods are given: every column mapped by its true bounds into
[-1, 1] (a constant is 1), and for the squared year the square of the mapped year, so that nothing but privacy
is hard. ``back`` maps coefficients of the basis to those of the formula, which are compared.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

__all__ = ["CELLS", "DESIGNS", "Cell", "Design", "response_range"]


@dataclass(frozen=True)
class Design:
    """A way to draw data.

    Attributes
    ----------
    draw : callable
        ``(n, rng) -> (frame, Z)``; the frame has the response ``y``.
    formula : str
    truth : (d,) array
        Coefficients of the formula.
    back : (d, d) array
        ``truth = back @ (coefficients of Z)``.
    mean, scale : (d,) arrays
        Of the columns of Z in the population; 0 and 1 for the constant, and no mean without a constant.
    noise : float
        Standard deviation of the errors.
    low : (d,) array
        Least values of the columns of Z; the largest are 1.
    response : (float, float) or None
        Bounds of the response; None for the range of 99.98 % of the population.
    """

    draw: Callable
    formula: str
    truth: np.ndarray
    back: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    noise: float
    low: np.ndarray
    response: tuple[float, float] | None = None


@dataclass(frozen=True)
class Cell:
    """A design, rows and a budget: ``eps`` with delta = 1e-6, or ``mu``."""

    design: str
    n: int
    eps: float | None = None
    mu: float | None = None


def frame_of(X, y):
    return pd.DataFrame(X, columns=[f"x{j + 1}" for j in range(X.shape[1])]).assign(y=y)


def no_constant(d):
    return "y ~ " + " + ".join(f"x{j + 1}" for j in range(d)) + " - 1"


def uniform(d=5):
    """Lin et al.: columns uniform on [0, 1], coefficients from [1, 2], normal errors, y in [0, 7]."""
    truth = np.random.RandomState(42).uniform(1, 2, d)

    def draw(n, rng):
        X = rng.uniform(0, 1, (n, d))
        return frame_of(X, X @ truth + rng.standard_normal(n)), X

    ones = np.ones(d)
    spread = ones / np.sqrt(3)  # root mean square: there is no constant to take the mean up
    return Design(draw, no_constant(d), truth, np.eye(d), 0 * ones, spread, 1.0, 0 * ones, (0, 7))


def isotropic(d, limit=4.0):
    """Brown et al.: standard normal columns, one effect of 1, standard normal errors."""
    truth = np.zeros(d)
    truth[0] = 1

    def draw(n, rng):
        X = rng.standard_normal((n, d))
        return frame_of(X, X @ truth + rng.standard_normal(n)), X / limit

    ones = np.ones(d)
    return Design(draw, no_constant(d), truth, np.eye(d) / limit, 0 * ones, ones / limit, 1.0, -ones)


def bounded(d=4, limit=5.0):
    """Ferrando et al.: columns on [-5, 5], coefficients 10, errors on [-10, 10], all uniform.

    Rows with ``|y| > 150`` are left out, as there.
    """
    truth = np.full(d, 10.0)

    def draw(n, rng):
        X = rng.uniform(-limit, limit, (n, d))
        y = X @ truth + rng.uniform(-10, 10, n)
        kept = np.abs(y) <= 150
        return frame_of(X[kept], y[kept]), X[kept] / limit

    ones = np.ones(d)
    spread = ones / np.sqrt(3)
    return Design(
        draw, no_constant(d), truth, np.eye(d) / limit, 0 * ones, spread, 10 / np.sqrt(3), -ones, (-150, 150)
    )


def years(first=1950, last=2020):
    """A calendar year, its square, and normal errors: trend 3.5 and curvature -1.5 over half the span."""
    middle, half = (first + last) / 2, (last - first) / 2
    # t = (year - middle) / half: (1, t, t^2) in terms of (1, year, year^2)
    back = np.array(
        [[1, -middle / half, (middle / half) ** 2], [0, 1 / half, -2 * middle / half**2], [0, 0, 1 / half**2]]
    )
    effects = np.array([10, 3.5, -1.5])
    t = (np.arange(first, last + 1) - middle) / half

    def draw(n, rng):
        year = rng.integers(first, last + 1, n)
        z = (year - middle) / half
        Z = np.column_stack([np.ones(n), z, z**2])
        return pd.DataFrame({"year": year, "y": Z @ effects + rng.standard_normal(n)}), Z

    return Design(
        draw, "y ~ year + I(year**2)", back @ effects, back,
        np.array([0, 0, np.mean(t**2)]), np.array([1, np.std(t), np.std(t**2)]), 1.0, np.array([1.0, -1, 0]),
    )  # fmt: skip


def skewed(limit=20.0, shape=1.0):
    """A log-normal column, cut at 20, whose value sets the spread of the errors; and a normal one."""
    # (1, x, w) in terms of z = 2 x / limit - 1 and w / 4
    back = np.array([[1, -1, 0], [0, 2 / limit, 0], [0, 0, 1 / 4]])
    truth = np.array([2.0, 1, 1])

    def draw(n, rng):
        x = np.minimum(np.exp(shape * rng.standard_normal(n)), limit)
        w = np.clip(rng.standard_normal(n), -4, 4)
        y = 2 + x + w + (0.5 + 0.5 * x) * rng.standard_normal(n)
        return pd.DataFrame({"x": x, "w": w, "y": y}), np.column_stack([np.ones(n), 2 * x / limit - 1, w / 4])

    _, many = draw(400_000, np.random.default_rng(0))
    mean, scale = many.mean(axis=0), many.std(axis=0)
    mean[0], scale[0] = 0, 1
    return Design(draw, "y ~ x + w", truth, back, mean, scale, 1.75, np.array([1.0, -1, -1]))


DESIGNS = {
    "uniform, d = 5": uniform(5),
    "isotropic, d = 5": isotropic(5),
    "isotropic, d = 10": isotropic(10),
    "bounded, d = 4": bounded(),
    "year and its square": years(),
    "skewed, heteroskedastic": skewed(),
}

CELLS = [
    Cell("uniform, d = 5", 500, mu=1.0),
    Cell("uniform, d = 5", 1_000, mu=0.5),
    Cell("uniform, d = 5", 1_000, mu=1.0),
    Cell("uniform, d = 5", 1_000, mu=2.0),
    Cell("uniform, d = 5", 5_000, mu=1.0),
    Cell("isotropic, d = 5", 1_000, eps=1.0),
    Cell("isotropic, d = 5", 2_500, eps=1.0),
    Cell("isotropic, d = 5", 2_500, eps=3.0),
    Cell("isotropic, d = 5", 10_000, eps=1.0),
    Cell("isotropic, d = 10", 10_000, eps=1.0),
    Cell("bounded, d = 4", 1_000, eps=5.0),
    Cell("bounded, d = 4", 5_000, eps=5.0),
    Cell("bounded, d = 4", 10_000, eps=1.0),
    Cell("year and its square", 10_000, eps=1.0),
    Cell("year and its square", 10_000, eps=3.0),
    Cell("skewed, heteroskedastic", 10_000, eps=1.0),
    Cell("skewed, heteroskedastic", 10_000, eps=3.0),
]


@functools.cache
def response_range(name):
    """Bounds of the response of a design."""
    design = DESIGNS[name]
    if design.response is not None:
        return design.response
    frame, _ = design.draw(400_000, np.random.default_rng(0))
    low, high = np.quantile(frame["y"], [1e-4, 1 - 1e-4])
    return float(low), float(high)
