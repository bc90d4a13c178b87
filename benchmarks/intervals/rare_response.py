"""A response that is 1 in few rows and 0 in the others: coverage of the intervals that are given; writes
rare_response.csv.

    OMP_NUM_THREADS=1 python benchmarks/intervals/rare_response.py [SETS]    # 100 by default; ten minutes

`y ~ x + z` with normal columns; ones are more where x is large. delta = 1e-6. `determined` is the percentage
of data sets with intervals, the others that of these which hold the coefficient; `classical` is the least of
them for least squares without privacy (HC1), over all data sets.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from designs import least_squares

import dpstats

PATH = Path(__file__).with_name("rare_response.csv")
CELLS = [(2_000, ones) for ones in (36, 72, 144, 300)]
CELLS += [(20_000, ones) for ones in (40, 80, 120, 240, 480, 1_000)]
METHODS = {
    "ols": (dpstats.ols, None),
    "ols, bounds (0, 1)": (dpstats.ols, {"y": (0, 1)}),
    "adassp": (dpstats.adassp, None),
    "boosted_adassp": (dpstats.boosted_adassp, None),
}


def draw(n, ones, seed):
    """A frame, with about so many ones, and the coefficients of the projection."""
    g = np.random.default_rng([n, ones, seed])
    x, z = g.standard_normal((2, n))
    share = ones / n
    y = g.random(n) < share * np.exp(0.3 * x - 0.045)
    return pd.DataFrame({"x": x, "z": z, "y": y * 1.0}), np.array([share, 0.3 * share, 0.0])


def held(ends, truth):
    return (ends[:, 0] <= truth) & (truth <= ends[:, 1])


def classical(n, ones, sets):
    found = []
    for seed in range(sets):
        frame, truth = draw(n, ones, seed)
        estimates, errors = least_squares("y ~ x + z", frame)
        found.append(held(estimates[:, None] + 1.96 * errors[:, None] * [-1, 1], truth))
    return 100 * np.mean(found, axis=0).min()


def row(n, ones, eps, name, sets):
    method, bounds = METHODS[name]
    found = []
    for seed in range(sets):
        frame, truth = draw(n, ones, seed)
        ends = method("y ~ x + z", frame, eps=eps, bounds=bounds, seed=seed).conf_int().to_numpy()
        found.append(np.where(np.isnan(ends[:, 0]), np.nan, held(ends, truth)))
    given = ~np.isnan(found).all(axis=1)
    shares = 100 * np.mean(np.array(found)[given], axis=0) if given.any() else np.full(3, np.nan)
    return [name, n, ones, eps, sets, 100 * given.mean(), *shares]


if __name__ == "__main__":
    sets, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100, []
    for n, ones in CELLS:
        plain = classical(n, ones, sets)
        for eps in (0.5, 1, 4):
            for name in METHODS:
                rows.append([*row(n, ones, eps, name, sets), plain])
                print(*rows[-1], flush=True)
    columns = ["method", "n", "ones", "eps", "sets", "determined", "constant", "x", "z", "classical"]
    pd.DataFrame(rows, columns=columns).round(1).to_csv(PATH, index=False, lineterminator="\n")
