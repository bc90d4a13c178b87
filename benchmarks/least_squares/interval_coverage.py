"""Coverage and width of the 95 % intervals on simulated data, to ``interval_coverage.csv``.

    python benchmarks/least_squares/interval_coverage.py ols 400

Four designs of five columns, true coefficients 1, errors of standard deviation 1, in data sets of 5,000 and 50,000
rows at eps = 1, delta = 1e-6. Seeded: data set i is drawn with seed i, the release too. `width` is the median ratio
of an interval's width to that of non-private least squares on the same data; `share` is the share of intervals that
were given at all.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

RESULTS = Path(__file__).with_name("interval_coverage.csv")
DESIGNS = "gaussian", "correlated", "t5", "rare dummy"


def simulate(design, n, seed):
    """A data frame with columns ``x1 .. x5`` and ``y``."""
    g = np.random.default_rng(seed)
    X = g.standard_normal((n, 5))
    if design == "correlated":  # equicorrelated: (1 + 3 r) / ((1 - r)(1 + 4 r)) = 20
        X = np.sqrt(0.96) * g.standard_normal((n, 1)) + np.sqrt(0.04) * X
    errors = g.standard_t(5, n) / np.sqrt(5 / 3) if design == "t5" else g.standard_normal(n)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, 6)])
    if design == "rare dummy":
        frame["x5"] = g.random(n) < 0.02
    frame["y"] = 2 + frame[[f"x{j}" for j in range(1, 6)]].sum(axis=1) + errors
    return frame


def study(name, estimator, design, n, runs):
    """One row of the table."""
    covered, ratios = [], []
    formula = "y ~ x1 + x2 + x3 + x4 + x5"
    for seed in range(runs):
        frame = simulate(design, n, seed)
        fit = estimator(formula, frame, eps=1, seed=seed)
        low, high = fit.conf_int().to_numpy().T
        truth = np.array([2.0, 1, 1, 1, 1, 1])
        covered.append(np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high)))
        X = np.column_stack([np.ones(n), frame.drop(columns="y")]).astype(float)
        inverse = np.linalg.inv(X.T @ X)
        b = inverse @ X.T @ frame["y"].to_numpy()
        s = np.sqrt(np.sum((frame["y"].to_numpy() - X @ b) ** 2) / (n - 6))
        ratios.append((high - low) / (2 * 1.96 * s * np.sqrt(np.diag(inverse))))
    covered, ratios = np.array(covered), np.array(ratios)
    each = np.nanmean(covered, axis=0)
    return {
        "estimator": name,
        "design": design,
        "n": n,
        "data sets": runs,
        "coverage": np.nanmean(covered[:, 1:]),
        "least": np.min(each),
        "most": np.max(each),
        "intercept": each[0],
        "last": each[-1],
        "width": np.nanmedian(ratios[:, 1:]),
        "share": np.isfinite(ratios).mean(),
    }


def main(name, runs, designs=DESIGNS, sizes=(5000, 50000), save=True):
    for n in sizes:
        for design in designs:
            start = time.perf_counter()
            row = study(name, getattr(dpstats, name), design, n, runs)
            print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()},
                  f"{time.perf_counter() - start:.0f} s", flush=True)  # fmt: skip
            if save:
                _store(row)


def _store(row):
    """Replace the row of this estimator, design and size in the table."""
    table = pd.DataFrame([row])
    if RESULTS.exists():
        old = pd.read_csv(RESULTS)
        same = (old[["estimator", "design", "n"]] == table.loc[0, ["estimator", "design", "n"]]).all(axis=1)
        table = pd.concat([old[~same], table])
    table.sort_values(["estimator", "n", "design"]).round(4).to_csv(RESULTS, index=False)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
