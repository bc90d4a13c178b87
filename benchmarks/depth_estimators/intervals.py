"""Intervals of deepest_regression and tukey_median: coverage and width beside those without privacy.

    python -m benchmarks.depth_estimators.intervals             (writes intervals.csv)
    python -m benchmarks.depth_estimators.intervals ranks       (prints the law of ranks)

Errors have median 0 at every x. `width_ratio` is the mean width over that of the non-private interval on the
same data: for the slope that of least absolute deviations (statsmodels' QuantReg), for a column of the Tukey
median the order statistics of the sign test. `plain_coverage` is that of the non-private interval; where it
is far from 95 the ratio says little, and `ideal_ratio` compares with 3.92 standard deviations of the
non-private estimate over the data sets.
"""

import csv
import sys
import warnings
from pathlib import Path

import numpy as np
import statsmodels.api as sm
from scipy.stats import binom

import dpstats
from dpstats.mechanisms.slope_depths import largest_depth

LAWS = ("normal", "laplace", "t3", "exponential", "abs(x)")
SIZES = {500: 400, 2000: 100}
EPS = 4.0


def errors(law, x, rng):
    n = len(x)
    return {
        "normal": lambda: rng.normal(size=n),
        "laplace": lambda: rng.laplace(size=n),
        "t3": lambda: rng.standard_t(3, n),
        "exponential": lambda: rng.exponential(size=n) - np.log(2),
        "abs(x)": lambda: np.abs(x) * rng.normal(size=n),
    }[law]()


def line(law, n, seed):
    rng = np.random.default_rng([seed, n])
    x = rng.normal(size=n)
    data = {"x": x, "y": 1 + 2 * x + errors(law, x, rng)}
    fit = dpstats.deepest_regression("y ~ x", data, eps=EPS, seed=seed)
    plain = sm.QuantReg(data["y"], sm.add_constant(x)).fit(0.5)
    pairs = zip(fit.conf_int().to_numpy(), fit.params, plain.conf_int(), plain.params, strict=True)
    return [(*found, truth) for found, truth in zip(pairs, (1.0, 2.0), strict=True)]


def column(law, n, seed):
    rng = np.random.default_rng([seed, n])
    other = rng.normal(size=n)
    data = {"a": errors(law, other, rng), "b": other}
    fit = dpstats.tukey_median("a + b ~ 1", data, eps=EPS, seed=seed)
    ordered = np.sort(data["a"])
    k = int(binom.ppf(0.025, n, 0.5))
    plain = (ordered[k - 1], ordered[n - k]), np.median(ordered)
    return [(fit.conf_int().loc["a"], fit.params["a"], *plain, 0.0)]


CASES = {
    line: ("deepest_regression, intercept", "deepest_regression, slope"),
    column: ("tukey_median, a column of two",),
}


def rows(case, law, n, count):
    """One row for each estimate of a case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [case(law, n, seed) for seed in range(count)]
    return [
        row(what, law, n, found) for what, found in zip(CASES[case], zip(*runs, strict=True), strict=True)
    ]


def row(what, law, n, runs):
    ends, estimates, plain_ends, plain, truth = (np.array(part) for part in zip(*runs, strict=True))
    finite = np.isfinite(ends).all(axis=1)

    def covers(e):
        return round(100 * float(np.mean((e[:, 0] <= truth) & (truth <= e[:, 1]))), 1)

    width, plain_width = np.ptp(ends[finite], axis=1).mean(), np.ptp(plain_ends, axis=1).mean()
    return {
        "what": what,
        "errors": law,
        "n": n,
        "eps": EPS,
        "data_sets": len(runs),
        "finite": round(100 * float(finite.mean()), 1),
        "coverage": covers(ends),
        "plain_coverage": covers(plain_ends),
        "width_ratio": round(float(width / plain_width), 2),
        "ideal_ratio": round(float(width / (3.92 * plain.std())), 2),
        "estimate_sd_ratio": round(float(estimates.std() / plain.std()), 2),
    }


def ranks(sizes=(50, 500, 2000, 10_000), count=4000):
    """Quantiles of ``(n/2 - least of both sides) / sqrt(n)``."""
    rng = np.random.default_rng(0)
    for n in sizes:
        last = np.ones(n, bool)
        signs = (rng.permutation(n).astype(float) for _ in range(count))
        X = [(n / 2 - min(largest_depth(r, last), largest_depth(-r, last))) / np.sqrt(n) for r in signs]
        print(n, np.quantile(X, [0.5, 0.8, 0.9, 0.95, 0.975, 0.99]).round(3))


def main():
    path = Path(__file__).with_name("intervals.csv")
    with path.open("w", newline="") as out:
        for case in CASES:
            for n, count in SIZES.items():
                for law in LAWS:
                    found = rows(case, law, n, count)
                    if out.tell() == 0:
                        table = csv.DictWriter(out, found[0], lineterminator="\n")
                        table.writeheader()
                    table.writerows(found)
                    out.flush()


if __name__ == "__main__":
    ranks() if sys.argv[1:] == ["ranks"] else main()
