"""Simulated designs whose population coefficients are known.

A design is drawn by a pure function ``draw(n, rng) -> (frame, truth)``. ``truth`` holds the coefficients of
the least-squares projection in the population, in the order of the formula's columns, and NaN where there is
none. It is exact: coefficients of a linear model, moments in closed form, or quadrature. Errors have standard
deviation 1 unless the design says otherwise.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import patsy
from scipy import stats

SIZES = (2_000, 20_000, 200_000)
LEAST_SQUARES = ("ols", "boosted_adassp", "adassp", "tukey_em")
REGRESSIONS = (*LEAST_SQUARES, "huber")
ESTIMATORS = (*REGRESSIONS, "mean")


@dataclass(frozen=True)
class Design:
    """A way to draw data, and how they are fitted.

    Attributes
    ----------
    draw : callable
        ``(n, rng) -> (frame, truth)``.
    formula : str
    bounds : mapping, optional
        Given to the estimator.
    estimators : tuple of str
        Those that estimate the least-squares projection; Huber's does so where errors are symmetric.
    sizes : tuple of int
    pooled : int, optional
        Coefficients from this one on are exchangeable, or nearly, and are counted together.
    """

    draw: Callable
    formula: str
    bounds: Mapping | None = None
    estimators: tuple[str, ...] = REGRESSIONS
    sizes: tuple[int, ...] = SIZES
    pooled: int | None = None


def numeric(X, y, truth):
    """A frame with columns ``x1 .. xd`` and ``y``, and the truth."""
    return pd.DataFrame(X, columns=[f"x{j + 1}" for j in range(X.shape[1])]).assign(y=y), np.array(
        truth, float
    )


def right_hand_side(d):
    return "y ~ " + " + ".join(f"x{j + 1}" for j in range(d))


# five columns, coefficients 1


def five(X, errors):
    return numeric(X, 2 + X.sum(axis=1) + errors, [2, 1, 1, 1, 1, 1])


def normal(n, rng):
    return five(rng.standard_normal((n, 5)), rng.standard_normal(n))


def t3(n, rng):
    """Errors with three degrees of freedom, standard deviation 1."""
    return five(rng.standard_normal((n, 5)), rng.standard_t(3, n) / math.sqrt(3))


def vif_20(n, rng):
    """Equicorrelated at r = .96: variance inflation (1 + 3 r) / ((1 - r)(1 + 4 r)) = 20."""
    X = math.sqrt(0.96) * rng.standard_normal((n, 1)) + math.sqrt(0.04) * rng.standard_normal((n, 5))
    return five(X, rng.standard_normal(n))


def heavy_rows(n, rng):
    """Multivariate t with three degrees of freedom: rows that are long in all columns."""
    X = rng.standard_normal((n, 5)) / np.sqrt(rng.chisquare(3, (n, 1)) / 3)
    return five(X, rng.standard_normal(n))


# other covariates


def vif_1000(n, rng):
    """Two columns with R^2 = .999 and effects of 20 and -20; a third apart from them."""
    z1, z2, z3, e = rng.standard_normal((4, n))
    X = np.column_stack([z1, math.sqrt(0.999) * z1 + math.sqrt(0.001) * z2, z3])
    return numeric(X, 2 + X @ [20, -20, 1] + e, [2, 20, -20, 1])


def skewed(n, rng, law):
    """A skewed column and a normal one."""
    X = np.column_stack([law(rng, n), rng.standard_normal(n)])
    return numeric(X, 2 + X.sum(axis=1) + rng.standard_normal(n), [2, 1, 1])


def log_normal(rng, n):
    return np.exp(1.5 * rng.standard_normal(n))


def pareto(rng, n):
    """Tail index 3, from 1 on."""
    return 1 + rng.pareto(3, n)


def flat_tails(n, rng, limit=4.0):
    """A log-normal column without effect beyond `limit`."""
    x = np.exp(rng.standard_normal(n))
    k, below = math.log(limit), stats.norm.cdf
    mean = math.exp(0.5) * below(k - 1) + limit * below(-k)
    product = math.exp(2) * below(k - 2) + limit * math.exp(0.5) * below(1 - k)
    slope = (product - math.exp(0.5) * mean) / (math.exp(2) - math.exp(1))
    y = np.minimum(x, limit) + rng.standard_normal(n)
    return numeric(x[:, None], y, [mean - slope * math.exp(0.5), slope])


def concave(n, rng, sd=0.7):
    """An income, log-normal, whose effect is that of its logarithm."""
    income = np.exp(10 + sd * rng.standard_normal(n))
    y = 100 + 10 * np.log(income) + 12 * rng.standard_normal(n)
    mean = math.exp(10 + sd**2 / 2)
    slope = 10 * sd**2 / math.expm1(sd**2) / mean
    return numeric(income[:, None], y, [200 - slope * mean, slope])


def wide_bounds(n, rng):
    """An income, declared to lie between 0 and 1e7."""
    income = np.minimum(np.exp(10.5 + 0.6 * rng.standard_normal(n)), 1e7)
    x = rng.standard_normal(n)
    y = 2 + income / 25_000 + x + rng.standard_normal(n)
    return pd.DataFrame({"income": income, "x": x, "y": y}), np.array([2, 1 / 25_000, 1])


def many_columns(n, rng, d=300):
    """Five columns with an effect, the others without."""
    X = rng.standard_normal((n, d))
    return numeric(X, 2 + X[:, :5].sum(axis=1) + rng.standard_normal(n), [2] + [1] * 5 + [0] * (d - 5))


def rare_ones(n, rng):
    """Ten numeric columns of zeros and 1 % ones; least squares explains .78."""
    X = (rng.random((n, 10)) < 0.01).astype(float)
    return numeric(X, 2 + 6 * X.sum(axis=1) + rng.standard_normal(n), [2] + [6] * 10)


def mostly_zero(n, rng):
    """Two columns that are zero in 95 % of rows and exponential in the others, and a normal one."""
    X = rng.exponential(size=(n, 2)) * (rng.random((n, 2)) < 0.05)
    X = np.column_stack([X, rng.standard_normal(n)])
    return numeric(X, 2 + X @ [2, 2, 1] + rng.standard_normal(n), [2, 2, 2, 1])


def interaction(n, rng):
    """Two columns far from zero and their product."""
    x1, x2 = 5 + rng.standard_normal(n), 10 + 2 * rng.standard_normal(n)
    return numeric(
        np.column_stack([x1, x2]), 2 + x1 + x2 + 0.5 * x1 * x2 + rng.standard_normal(n), [2, 1, 1, 0.5]
    )


# factors


def rare_dummy(n, rng):
    """Four normal columns and a boolean one that holds in 1 % of rows."""
    X = rng.standard_normal((n, 5))
    X[:, 4] = rng.random(n) < 0.01
    frame, truth = five(X, rng.standard_normal(n))
    return frame.astype({"x5": "boolean"}), truth


def factor(n, rng, shares, effects, truth):
    """A factor with public levels, the first of which is the reference, and a normal column."""
    levels = [f"l{k}" for k in range(len(shares))]
    codes = rng.choice(len(shares), n, p=shares)
    x = rng.standard_normal(n)
    y = 2 + np.asarray(effects)[codes] + x + rng.standard_normal(n)
    return pd.DataFrame({"g": pd.Categorical.from_codes(codes, levels), "x": x, "y": y}), np.array(
        truth, float
    )


def many_levels(n, rng, levels=1000):
    """A factor of 1,000 equally likely levels with normal effects."""
    effects = np.random.default_rng(7).standard_normal(levels)
    truth = [2 + effects[0], *(effects[1:] - effects[0]), 1]
    return factor(n, rng, np.full(levels, 1 / levels), effects, truth)


# powers and splines of a column far from zero


def polynomial(n, rng, low, high, degree, curve):
    """Powers of a whole number, equally likely from `low` to `high`.

    With `curve`, powers from 2 to `degree` of ``(x - middle) / 10`` have it as their coefficient.
    """
    middle = (low + high) // 2
    x = rng.integers(low, high + 1, n).astype(float)
    centred = np.polynomial.Polynomial([3, 1, *[curve] * (degree - 1)])
    y = centred((x - middle) / 10) + rng.standard_normal(n)
    truth = centred(np.polynomial.Polynomial([-middle / 10, 0.1])).coef
    return pd.DataFrame({"x": x, "y": y}), np.pad(truth, (0, degree + 1 - len(truth)))


KNOTS = 25, 50, 75
SPLINE = "y ~ bs(x, knots=[25, 50, 75], lower_bound=0, upper_bound=100)"


def line(x):
    return 1 + x / 50


def wave(x):
    return 3 * np.sin(x / 15)


def spline(n, rng, mean):
    """A uniform column from 0 to 100 in a cubic spline with three knots."""
    x = rng.uniform(0, 100, n)
    return pd.DataFrame({"x": x, "y": mean(x) + rng.standard_normal(n)}), spline_projection(mean)


@functools.cache
def spline_projection(mean):
    """Coefficients of the spline nearest to `mean`, by Gauss-Legendre quadrature between the knots."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    starts = np.array([0, *KNOTS])[:, None]
    x, root = (starts + 12.5 * (nodes + 1)).ravel(), np.sqrt(np.tile(weights, 4))
    basis = np.asarray(patsy.dmatrix(SPLINE.partition("~")[2], {"x": x}))
    return np.linalg.lstsq(basis * root[:, None], mean(x) * root, rcond=None)[0]


# other responses


def counts(n, rng):
    """Negative binomial, variance m + m^2 / 2 about a mean that is log-linear."""
    X = rng.standard_normal((n, 2))
    y = rng.poisson(np.exp(0.5 + X @ [0.6, 0.3]) * rng.gamma(2, 0.5, n)).astype(float)
    mean = math.exp(0.5 + (0.36 + 0.09) / 2)
    return numeric(X, y, [mean, 0.6 * mean, 0.3 * mean])


def prices(n, rng):
    """Log-normal about a mean that is log-linear."""
    X = rng.standard_normal((n, 2))
    y = np.exp(10 + X @ [0.5, 0.3] + 0.5 * rng.standard_normal(n))
    mean = math.exp(10 + (0.25 + 0.09 + 0.25) / 2)
    return numeric(X, y, [mean, 0.5 * mean, 0.3 * mean])


def zero_or_prices(n, rng):
    """Costs: zero in 60 % of rows, log-normal about a mean that is log-linear in the others."""
    X = rng.standard_normal((n, 2))
    y = np.exp(7 + X @ [0.5, 0.3] + 1.2 * rng.standard_normal(n)) * (rng.random(n) < 0.4)
    mean = 0.4 * math.exp(7 + (0.25 + 0.09 + 1.44) / 2)
    return numeric(X, y, [mean, 0.5 * mean, 0.3 * mean])


def scaled_errors(n, rng):
    """Errors in proportion to ``|x|``."""
    x, e = rng.standard_normal((2, n))
    return numeric(x[:, None], 1 + x + np.abs(x) * e, [1, 1])


def skewed_errors(n, rng):
    """Log-normal errors, seven times as large beyond ``x1 = 1``: what they skew is the column's own."""
    X, e = rng.standard_normal((n, 2)), np.exp(rng.standard_normal(n)) - math.exp(0.5)
    return numeric(X, 1 + X.sum(axis=1) + np.where(X[:, 0] > 1, 2.0, 0.3) * e, [1, 1, 1])


def far(n, rng, level):
    """A response of `level` +- 1."""
    x, e = rng.standard_normal((2, n))
    return numeric(x[:, None], level + 0.6 * x + 0.8 * e, [level, 0.6])


def simple(n, rng):
    x, e = rng.standard_normal((2, n))
    return numeric(x[:, None], 1 + x + e, [1, 1])


# means


def column(n, rng, law, truth):
    return pd.DataFrame({"y": law(rng, n)}), np.array([truth])


def costs(rng, n):
    """Zero in 60 % of rows, log-normal in the others."""
    return np.exp(7 + 1.2 * rng.standard_normal(n)) * (rng.random(n) < 0.4)


def mean_of(law, truth):
    return Design(partial(column, law=law, truth=truth), "y ~ 1", estimators=("mean",))


def powers(low, high, degree, curve):
    terms = ["x", *(f"I(x**{k})" for k in range(2, degree + 1))]
    draw = partial(polynomial, low=low, high=high, degree=degree, curve=curve)
    return Design(draw, "y ~ " + " + ".join(terms))


NO_D = [0.4, 0.4, 0.2, 0.0]
DESIGNS = {
    "normal": Design(normal, right_hand_side(5)),
    "t(3) errors": Design(t3, right_hand_side(5)),
    "|x| errors": Design(scaled_errors, "y ~ x1"),
    "VIF 20": Design(vif_20, right_hand_side(5)),
    "VIF 1,000": Design(vif_1000, right_hand_side(3)),
    **{
        f"{name}, degree {degree}, {'curved' if curve else 'straight'}": powers(low, high, degree, curve)
        for name, low, high, strength in (("year", 1990, 2020, 5), ("age", 18, 90, 0.3))
        for degree in (2, 3)
        for curve in (0, strength)
    },
    "spline, straight": Design(partial(spline, mean=line), SPLINE),
    "spline, wave": Design(partial(spline, mean=wave), SPLINE, estimators=LEAST_SQUARES),
    "interaction": Design(interaction, "y ~ x1 * x2"),
    "wide bounds": Design(wide_bounds, "y ~ income + x", bounds={"income": (0, 1e7)}),
    "300 columns": Design(many_columns, right_hand_side(300), sizes=SIZES[1:], pooled=6),
    "1,000 levels": Design(many_levels, "y ~ g + x", sizes=SIZES[1:], pooled=1),
    "log-normal covariate": Design(partial(skewed, law=log_normal), right_hand_side(2)),
    "Pareto covariate": Design(partial(skewed, law=pareto), right_hand_side(2)),
    "flat tails": Design(flat_tails, "y ~ x1", estimators=LEAST_SQUARES),
    "concave": Design(concave, "y ~ x1", estimators=LEAST_SQUARES),
    "heavy rows": Design(heavy_rows, right_hand_side(5)),
    "counts": Design(counts, right_hand_side(2), estimators=LEAST_SQUARES),
    "prices": Design(prices, right_hand_side(2), estimators=LEAST_SQUARES),
    "costs": Design(zero_or_prices, right_hand_side(2), estimators=LEAST_SQUARES),
    "skewed errors of a part": Design(skewed_errors, right_hand_side(2), estimators=LEAST_SQUARES),
    "numeric 0/1 at 1 %": Design(rare_ones, right_hand_side(10)),
    "95 % zero": Design(mostly_zero, right_hand_side(3)),
    "rare dummy": Design(rare_dummy, right_hand_side(5)),
    "rare reference level": Design(
        partial(factor, shares=[0.005, 0.5, 0.495], effects=[0, 1, 2], truth=[2, 1, 2, 1]), "y ~ g + x"
    ),
    "empty level": Design(
        partial(factor, shares=NO_D, effects=[0, 1, 2, 0], truth=[2, 1, 2, math.nan, 1]), "y ~ g + x"
    ),
    "response 1e6 +- 1": Design(partial(far, level=1e6), "y ~ x1"),
    "response 1e9 +- 1": Design(partial(far, level=1e9), "y ~ x1"),
    "few rows": Design(simple, "y ~ x1", sizes=(150, 500, 1_000)),
    "mean, normal": mean_of(lambda rng, n: rng.standard_normal(n), 0.0),
    "mean, log-normal": mean_of(lambda rng, n: np.exp(rng.standard_normal(n)), math.exp(0.5)),
    "mean, Pareto": mean_of(pareto, 1.5),
    "mean, costs": mean_of(costs, 0.4 * math.exp(7.72)),
    "mean, 1e6 +- 1": mean_of(lambda rng, n: 1e6 + rng.standard_normal(n), 1e6),
    "mean, 1e9 +- 1": mean_of(lambda rng, n: 1e9 + rng.standard_normal(n), 1e9),
}


def data(name, n, i):
    """Data set `i` of a design: the same for all estimators and budgets."""
    return DESIGNS[name].draw(n, np.random.default_rng([*name.encode(), n, i]))


def least_squares(formula, frame):
    """Estimates and HC1 standard errors of least squares without privacy; NaN for columns of zeros."""
    frame = frame.astype({name: bool for name in frame.select_dtypes("boolean")})  # as patsy needs them
    y, X = (np.asarray(part, float) for part in patsy.dmatrices(formula, frame))
    y, used = y[:, 0], X.any(axis=0)
    estimates, errors = np.full((2, X.shape[1]), math.nan)
    Q, R = np.linalg.qr(X[:, used])
    estimates[used] = np.linalg.solve(R, Q.T @ y)
    scores = Q * (y - Q @ (Q.T @ y))[:, None]
    n, d = Q.shape
    half = np.linalg.solve(R, scores.T)
    errors[used] = np.sqrt(np.einsum("ij,ij->i", half, half) * n / (n - d))
    return estimates, errors
