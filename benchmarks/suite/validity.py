"""Validity: coverage and width of the 95 % intervals of every estimator that prints them.

An interval that covers sampling and privacy noise is asked whether it holds the parameter of the population;
one that covers the noise alone, whether it holds what the same estimator gives on these data without noise.
The width is relative to that of a textbook interval without privacy on the same data.
"""

import math
import warnings

import numpy as np
import pandas as pd
from scipy import stats

import dpstats
from dpstats import depth
from dpstats.results.results import SAMPLING_AND_PRIVACY

EPS, DELTA = 1.0, 1e-6
SETS = {"quick": 80, "full": 400}
KEY = ["estimator", "design", "rows", "coefficient"]
Z = stats.norm.ppf(0.975)


# designs of regressions: five columns, coefficients 1, errors of standard deviation 1
def regression(design, n, g):
    """A frame with columns ``x1 .. x5`` and ``y``."""
    X = g.standard_normal((n, 5))
    if design == "correlated":  # equicorrelated: (1 + 3 r) / ((1 - r)(1 + 4 r)) = 20
        X = np.sqrt(0.96) * g.standard_normal((n, 1)) + np.sqrt(0.04) * X
    if design == "rare dummy":
        X[:, 4] = g.random(n) < 0.02
    errors = g.standard_t(5, n) / math.sqrt(5 / 3) if design == "heavy tails" else g.standard_normal(n)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(1, 6)]).assign(y=2 + X.sum(axis=1) + errors)


def line(design, n, g):
    """A frame with columns ``x`` and ``y``; ``y = 1 + x + e``."""
    x = g.standard_normal(n)
    return pd.DataFrame(
        {"x": x, "y": 1 + x + (g.standard_t(3, n) if design == "heavy tails" else g.standard_normal(n))}
    )


def column(design, n, g):
    """One column: standard normal, or lognormal."""
    return pd.DataFrame({"y": np.exp(g.standard_normal(n)) if design == "skewed" else g.standard_normal(n)})


def plane(design, n, g):
    """Two correlated columns."""
    x, y = g.standard_normal((2, n))
    return pd.DataFrame({"x": x, "y": 0.6 * x + 0.8 * y})


def textbook_regression(frame):
    """Half-widths of the intervals of least squares."""
    y = frame["y"].to_numpy()
    X = np.column_stack([np.ones(len(y)), frame.drop(columns="y")])
    inverse = np.linalg.inv(X.T @ X)
    r = y - X @ (inverse @ (X.T @ y))
    return Z * np.sqrt(r @ r / (len(y) - X.shape[1]) * np.diag(inverse))


def textbook_quantile(q):
    """Half-width of the interval between two order statistics."""

    def half(frame):
        y = np.sort(frame["y"].to_numpy())
        low, high = stats.binom.ppf([0.025, 0.975], len(y), q).astype(int)
        return np.array([(y[min(high, len(y) - 1)] - y[low - 1]) / 2])

    return half


def textbook_mean(frame):
    """Half-widths of the intervals of the means."""
    return Z * frame.std().to_numpy() / math.sqrt(len(frame))


def quantile_of(design, q):
    """The population's quantile."""
    z = stats.norm.ppf(q)
    return math.exp(z) if design == "skewed" else z


def noiseless_line(frame):
    """The deepest line of these data."""
    return depth.regression_levels(frame["x"].to_numpy(), frame["y"].to_numpy()).estimate


FIVE = "y ~ x1 + x2 + x3 + x4 + x5"
FOUR_DESIGNS = ("normal", "correlated", "heavy tails", "rare dummy")
WIDE = {"y": (-1000.0, 1000.0)}
# estimator: formula, parameters, designs, sizes, how to draw, the truth of a design, without noise, the
# textbook
REGRESSION = (FIVE, {}, FOUR_DESIGNS, (5_000, 50_000), regression, lambda design: [2.0, 1, 1, 1, 1, 1], None,
              textbook_regression)  # fmt: skip
CASES = {
    **{name: (name, *REGRESSION) for name in ("ols", "boosted_adassp", "adassp", "huber")},
    "tukey_em": ("tukey_em", FIVE, {}, FOUR_DESIGNS, (50_000,), *REGRESSION[4:]),
    "mean": ("mean", "y ~ 1", {}, ("normal", "skewed"), (1_000, 20_000), column,
             lambda design: [math.exp(0.5) if design == "skewed" else 0.0], None, textbook_mean),
    "median": ("median", "y ~ 1", {}, ("normal", "skewed"), (1_000, 20_000), column,
               lambda design: [quantile_of(design, 0.5)], None, textbook_quantile(0.5)),
    "quantile, 0.9": ("quantile", "y ~ 1", {"q": 0.9}, ("normal", "skewed"), (1_000, 20_000), column,
                      lambda design: [quantile_of(design, 0.9)], None, textbook_quantile(0.9)),
    "deepest_regression, smooth": ("deepest_regression", "y ~ x", {"mechanism": "smooth", "bounds": WIDE},
                                   ("normal", "heavy tails"), (500,), line,
                           lambda design: [1.0, 1.0], noiseless_line, textbook_regression),
    "tukey_median, smooth": ("tukey_median", "x + y ~ 1",
        {"mechanism": "smooth", "bounds": {"x": (-1000.0, 1000.0)} | WIDE}, ("normal",), (500,), plane,
                     lambda design: [0.0, 0.0], lambda frame: depth.tukey_median(frame.to_numpy()).point,
                     textbook_mean),
}  # fmt: skip
AT_ONCE = 20
KNOWN = ("estimator", CASES)


def tasks(mode, folder):
    """Data sets, so many at once, large ones first."""
    return sorted(
        (
            {"estimator": name, "design": design, "rows": n, "first": first, "sets": AT_ONCE}
            for name, (_, _, _, designs, sizes, *_) in CASES.items()
            for design in designs
            for n in sizes
            for first in range(0, SETS[mode], AT_ONCE)
        ),
        key=lambda t: -t["rows"],
    )


def run(task):
    """One row for every data set and coefficient; data set i is drawn with seed i, and so is its release."""
    return [
        {k: task[k] for k in ("estimator", "design", "rows")} | row
        for seed in range(task["first"], task["first"] + task["sets"])
        for row in _once(*CASES[task["estimator"]], task["design"], task["rows"], seed)
    ]


def _once(function, formula, own, designs, sizes, draw, truth, noiseless, textbook, design, n, seed):
    frame = draw(design, n, np.random.default_rng(seed))
    takes_delta = function not in ("quantile",)
    budget = {"eps": EPS, "delta": DELTA} if takes_delta else {"eps": EPS}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = getattr(dpstats, function)(formula, frame, **budget, seed=seed, **own)
    except dpstats.ReleaseFailed as error:
        return [{"coefficient": "", "seed": seed, "failure": type(error).__name__}]
    population = fit.covers == SAMPLING_AND_PRIVACY
    target = np.asarray(truth(design) if population else noiseless(frame), float)
    low, high = fit.conf_int().to_numpy().T
    given, half = np.isfinite(high - low), textbook(frame)
    return [
        {"coefficient": name, "seed": seed, "failure": "",
         "about": "population" if population else "these data",
         "given": bool(given[j]), "covered": bool(low[j] <= target[j] <= high[j]),
         "width": (high[j] - low[j]) / (2 * half[j])}
        for j, name in enumerate(fit.params.index)
    ]  # fmt: skip


def summary(raw):
    """Counts and shares by coefficient, and by estimator and design over its coefficients (``all``)."""
    cell = ["estimator", "design", "rows"]
    rows = []
    for key, group in raw.groupby(cell, sort=False):
        failed = int((group["coefficient"] == "").sum())
        sets, fits = group["seed"].nunique(), group[group["coefficient"] != ""]
        for coefficient, part in [*fits.groupby("coefficient", sort=False), ("all", fits)]:
            given = part[part["given"].astype(bool)]
            hits = int(given["covered"].sum())
            q25, width, q75 = np.quantile(given["width"], [0.25, 0.5, 0.75]) if len(given) else [math.nan] * 3
            rows.append(dict(zip(cell, key, strict=True)) | {
                "coefficient": coefficient, "about": next(iter(part["about"]), ""), "data_sets": sets,
                "failed": failed,
                "intervals": len(given), "not_given": len(part) - len(given), "covered": hits,
                "coverage": hits / len(given) if len(given) else math.nan, "width": width, "width_q25": q25,
                "width_q75": q75,
            })  # fmt: skip
    return ordered(pd.DataFrame(rows))


def ordered(table):
    """By estimator, size and design."""
    order = {name: i for i, name in enumerate(CASES)}
    return table.sort_values(["estimator", "rows", "design"], kind="stable", ignore_index=True,
                             key=lambda c: c.map(order) if c.name == "estimator" else c)  # fmt: skip
