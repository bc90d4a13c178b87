"""Intervals of ``poisson`` for a group whose rate is another, where its counts are few or many.

Run: OMP_NUM_THREADS=1 python benchmarks/glm/other_rates.py [TABLES]   (100; two minutes)

Writes other_rates.csv. ``y ~ x + z`` with a normal `x`, a mean of ``exp(.2 + .5 x)``, and a column `z` of
zeros and ones, of which a share is 1; these rows have the mean times `rate`, times gamma factors of the
mean 1 and the shape `shape` if there are any, and are 0 in the share `zeros`. Of a share above a half the
constant is looked at. `determined` is the number of tables with an interval, `held` how many of these
have the truth, `off` how many are off by more than five standard errors.
"""

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

PATH = Path(__file__).with_suffix(".csv")
DESIGNS = [
    # share, rate, rows, eps, shape, zeros
    (0.03, 55, 20_000, 8, None, 0.0),
    (0.01, 148, 20_000, 4, None, 0.0),
    (0.005, 148, 20_000, 2, None, 0.0),
    (0.005, 403, 20_000, 8, 1.0, 0.0),
    (0.005, 403, 20_000, 8, 0.5, 0.0),
    (0.005, 403, 20_000, 4, 0.7, 0.0),
    (0.01, 148, 20_000, 2, 2.0, 0.0),
    (0.01, 148, 20_000, 4, None, 0.7),
    (0.2, 1 / 20, 5_000, 1, None, 0.0),
    (0.1, 1 / 7, 5_000, 1, None, 0.0),
    (0.03, 1 / 20, 20_000, 1, None, 0.0),
    (0.03, 1 / 55, 200_000, 1, None, 0.0),
    (0.03, 1 / 55, 20_000, 1, None, 0.0),
    (0.9, 1 / 1_000, 5_000, 1, None, 0.0),
    (0.03, 1 / 20, 5_000, 1, None, 0.0),
]


def table(seed, share, rate, rows, shape, zeros):
    g = np.random.default_rng([seed, 7])
    z, x = (g.random(rows) < share) * 1.0, g.standard_normal(rows)
    mean = np.exp(0.2 + 0.5 * x) * np.where(z > 0, rate, 1)
    if shape:
        mean = mean * np.where(z > 0, g.gamma(shape, 1 / shape, rows), 1)
    y = g.poisson(mean) * 1.0
    return {"y": np.where((z > 0) & (g.random(rows) < zeros), 0.0, y), "x": x, "z": z}


def main(tables):
    found = []
    for share, rate, rows, eps, shape, zeros in DESIGNS:
        name, truth = ("z", math.log(rate * (1 - zeros))) if share < 0.5 else ("Intercept", 0.2)
        errors = []
        for seed in range(tables):
            data = table(seed, share, rate, rows, shape, zeros)
            try:
                fit = dpstats.poisson("y ~ x + z", data, eps=eps, seed=seed)
            except dpstats.ReleaseFailed:
                continue
            errors.append(abs(fit.params[name] - truth) / fit.bse[name])
        sizes = np.array(errors)[np.isfinite(errors)]
        keys = {
            "share": share,
            "rate": round(rate, 4),
            "rows": rows,
            "eps": eps,
            "shape": shape,
            "zeros": zeros,
        }
        counts = {"determined": len(sizes), "held": int(np.sum(sizes <= 1.96)), "off": int(np.sum(sizes > 5))}
        found.append(keys | {"tables": tables} | counts)
        print(found[-1], flush=True)
    pd.DataFrame(found).to_csv(PATH, index=False)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
