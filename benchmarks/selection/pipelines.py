"""Regression with and without a private choice of terms, over real data sets and a wide synthetic one.

    python benchmarks/selection/pipelines.py DATA_DIRECTORY [data sets] [choices] [k]

For every data set and estimator: no choice; one call with ``select=k``, at k = 5 and 10 (where there are more
columns than that); and, as in the paper, a choice by DPKendall or SubLasso at 5 % of eps = ln 3 and delta =
1e-5 and then a fit with the rest. Seeded trials, in number as the table says; in-sample R-squared on the full
data; a failed release counts as minus infinity. Choices are ``none``, ``select``, ``kendall``, ``sub_lasso``.
Rewrites its rows in ``pipelines.csv`` beside this file; seconds are medians, choice and fit together.
"""

import math
import pathlib
import platform
import sys
import time

import numpy as np
import pandas as pd

import dpstats

EPS, DELTA, SHARE = math.log(3), 1e-5, 0.05
TRIALS = {"none": 20, "select": 20, "kendall": 20, "sub_lasso": 10}
WIDE, WIDE_TRIALS = "synthetic600", 10
RESPONSES = {
    "diamonds": "price",
    "california": "median_house_value",
    "nba": "PTS_home",
    "garbage": "REFUSETONSCOLLECTED",
    "kc_house": "price",
    "bike_sharing": "cnt",
    "wine_quality": "quality",
    "scorecard": "earnings_med",
}
ESTIMATORS = {
    "tukey_em": ("tukey_em", {}),
    "tukey_em, whiten=False": ("tukey_em", {"whiten": False}),
    "ols": ("ols", {}),
    "adassp": ("adassp", {}),
    "boosted_adassp": ("boosted_adassp", {}),
}


def load(directory, name):
    """A data set with numeric columns alone (levels of a factor as 1, 2, ... in their order), and its
    response."""
    if name == WIDE:
        return synthetic(), "y"
    frame = pd.read_parquet(pathlib.Path(directory) / f"{name}.parquet")
    orders = {
        "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
        "color": list("DEFGHIJ"),
        "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
    }
    for column, levels in orders.items() if name == "diamonds" else ():
        frame[column] = pd.Categorical(frame[column].astype(str), levels).codes + 1
    return frame.astype(float), RESPONSES[name]


def synthetic(n=10_000, seed=2023):
    """600 columns: 10 informative ones of falling weight, 5 noisy copies of each (correlation 0.9), 540 of
    noise."""
    generator = np.random.default_rng(seed)
    informative = generator.standard_normal((n, 10))
    copies = 0.9 * np.repeat(informative, 5, axis=1) + math.sqrt(1 - 0.81) * generator.standard_normal(
        (n, 50)
    )
    X = np.hstack([informative, copies, generator.standard_normal((n, 540))])
    y = informative @ (1 / np.arange(1, 11)) + 0.5 * generator.standard_normal(n)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(600)]).assign(y=y)


def r_squared(frame, response):
    """A function of positions of columns: the R-squared of least squares on them alone."""
    correlation = frame[[*(c for c in frame if c != response), response]].corr().to_numpy()
    G, b = correlation[:-1, :-1], correlation[:-1, -1]

    def explained(S):
        S = list(S)
        return float(b[S] @ np.linalg.lstsq(G[np.ix_(S, S)], b[S], rcond=None)[0])

    return explained


def trial(frame, response, estimators, method, k, seed):
    """R-squared and seconds of a choice and a fit, for each estimator."""
    start = time.perf_counter()
    formula, share, extra = f"Q({response!r}) ~ .", 0.0, {}
    if method == "select":
        extra = {"select": k}
    elif method != "none":
        share = SHARE
        formula = dpstats.select_features(
            formula, frame, k=k, eps=share * EPS, delta=share * DELTA, method=method, seed=seed
        ).model
    choice = time.perf_counter() - start
    budget = {"eps": (1 - share) * EPS, "delta": (1 - share) * DELTA}
    y = frame[response].to_numpy()
    for name, options in estimators:
        start = time.perf_counter()
        try:
            fit = getattr(dpstats, name)(formula, frame, **budget, **extra, **options, seed=seed)
            r2 = 1 - np.mean((np.asarray(fit.predict(frame)) - y) ** 2) / np.var(y)
        except dpstats.ReleaseFailed:
            r2 = -math.inf
        yield r2, choice + time.perf_counter() - start


def main(directory, asked):
    estimators, rows = ESTIMATORS.values(), []
    names = [a for a in asked if a in RESPONSES or a == WIDE] or [*RESPONSES, WIDE]
    choices = [a for a in asked if a in TRIALS] or list(TRIALS)
    sizes = [int(a) for a in asked if a.isdecimal()] or [5, 10]
    for name in names:
        frame, response = load(directory, name)
        columns = frame.shape[1] - 1
        cases = [(method, k) for k in sizes for method in choices if method != "none" and k < columns]
        for method, k in [("none", columns)] * ("none" in choices) + cases:
            trials = range(WIDE_TRIALS if name == WIDE else TRIALS[method])
            runs = np.array([list(trial(frame, response, estimators, method, k, seed)) for seed in trials])
            for estimator, (r2, seconds) in zip(ESTIMATORS, runs.transpose(1, 2, 0), strict=True):
                rows.append({
                    "data": name,
                    "rows": len(frame),
                    "columns": columns,
                    "estimator": estimator,
                    "selection": method,
                    "k": k,
                    "trials": len(trials),
                    "median_r2": round(float(np.median(r2)), 3),
                    "least_r2": round(float(np.min(r2)), 3),
                    "failed": int(np.sum(np.isinf(r2))),
                    "seconds": round(float(np.median(seconds)), 2),
                })  # fmt: skip
                print(*rows[-1].values(), flush=True)
    table, path = pd.DataFrame(rows), pathlib.Path(__file__).with_name("pipelines.csv")
    if path.exists():
        before, key = pd.read_csv(path), ["data", "estimator", "selection", "k"]
        table = pd.concat([before, table]).drop_duplicates(key, keep="last")
    table.sort_values(["data", "estimator", "k", "selection"]).to_csv(path, index=False)
    above = (
        table.assign(above=table["median_r2"] > 0).groupby(["estimator", "selection", "data"])["above"].max()
    )
    print("share of data sets with a median R-squared above 0 (at either k):")
    print(above.groupby(["estimator", "selection"]).mean().round(2).to_string())
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
