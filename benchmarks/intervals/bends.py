"""Intervals of ``ols`` with normal errors: of lines that bend, and where a product is left out; widths of a
straight line.

Run: OMP_NUM_THREADS=1 python benchmarks/intervals/bends.py [SETS]   (200; two minutes; writes bends.csv)

`straight`, `cube` and `kink` have normal columns. The others leave out a product: of two exponential columns
(`product`), of a log-normal price and a number (`revenue`), of an exponential column and one of zeros and
ones (`groups`). eps = 1; data set i has seed i. The truth is least squares on two million rows. `held` is the
percentage of the data sets with an interval in which it holds the truth, `plain` that of HC1 intervals
without privacy; `median` and `mean` are of the ratios of their widths.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats
from scipy.special import ndtr

import dpstats

PATH = Path(__file__).with_name("bends.csv")
SIZES = {"straight": (500, 1_000, 2_000), "cube": (2_000, 20_000), "kink": (2_000, 20_000)}
SIZES |= dict.fromkeys(("product", "revenue", "groups"), (2_000, 5_000, 20_000))
LINES = {
    "straight": lambda x, z: x,
    "cube": lambda x, z: x**3 / 3,
    "kink": lambda x, z: x + 3 * np.maximum(x - 1, 0) + z,
    "product": lambda x, z: x * z,
    "revenue": lambda x, z: 2 * x * z,
    "groups": lambda x, z: x + 2 * x * z,
}
COLUMNS = {"straight": ["x"], "cube": ["x"]}
LAWS = {
    "product": lambda x, z: (-np.log(ndtr(-x)), -np.log(ndtr(-z))),
    "revenue": lambda x, z: (np.exp(x / 2), 1 + stats.poisson.ppf(ndtr(z), 2)),
    "groups": lambda x, z: (-np.log(ndtr(-x)), (ndtr(z) < 0.2) * 1.0),
}
"""What normal columns become; others stay as they are."""


def draw(law, rows, seed):
    x, z, errors = np.random.default_rng([seed, rows]).standard_normal((3, rows))
    x, z = LAWS[law](x, z) if law in LAWS else (x, z)
    return pd.DataFrame({"x": x, "z": z, "y": LINES[law](x, z) + errors})[[*columns(law), "y"]]


def columns(law):
    return COLUMNS.get(law, ["x", "z"])


def least_squares(frame):
    return sm.OLS(frame["y"], sm.add_constant(frame.drop(columns="y"))).fit(cov_type="HC1")


def cell(law, rows, sets):
    truth = least_squares(draw(law, 2_000_000, 0)).params.to_numpy()
    held, plain, width = [], [], []
    for seed in range(sets):
        frame = draw(law, rows, seed)
        try:
            fit = dpstats.ols("y ~ " + " + ".join(columns(law)), frame, eps=1, seed=seed)
        except dpstats.errors.ReleaseFailed:
            continue
        ours, theirs = fit.conf_int().to_numpy(), least_squares(frame).conf_int().to_numpy()
        held.append(np.where(np.isfinite(ours[:, 0]), inside(ours, truth), np.nan))
        plain.append(inside(theirs, truth))
        width.append(np.ptp(ours, axis=1) / np.ptp(theirs, axis=1))
    found = {
        "sets": np.sum(np.isfinite(held), axis=0),
        "held": 100 * np.nanmean(held, axis=0),
        "plain": 100 * np.mean(plain, axis=0),
        "median": np.nanmedian(width, axis=0),
        "mean": np.nanmean(width, axis=0),
    }
    return pd.DataFrame({"law": law, "rows": rows, "coefficient": ["constant", *columns(law)]} | found)


def inside(intervals, truth):
    return (intervals[:, 0] <= truth) & (truth <= intervals[:, 1])


def main(sets):
    table = pd.concat([cell(law, rows, sets) for law in SIZES for rows in SIZES[law]])
    table.round(2).to_csv(PATH, index=False)
    print(table.round(2).to_string(index=False))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
