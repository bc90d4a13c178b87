"""Coverage of pooled intervals: `dpstats.combine` of 20 groups, with bounds on biases that may be alike.

    OMP_NUM_THREADS=1 python benchmarks/intervals/pooled.py [TABLES]    # 60 by default; minutes on one core

Rows are in one of 20 groups at random; eps = 1. `held` is the share of the pooled 95 % intervals with the
truth, `independent` that of intervals that take bounds on biases for errors of their own in each group, and
`single` that of the groups' own; `width` is the median half width over that of one group.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats
from dpstats.results.pooling import pool

PATH = Path(__file__).with_name("pooled.csv")
GROUPS, Z = 20, 1.959964


def incomes(rng, n):
    return {"y": np.exp(10 + 0.8 * rng.normal(size=n))}


def shares(rng, n):
    return {"y": (rng.random(n) < 0.3) * 1.0}


def counts(rng, n):
    x = rng.normal(size=n)
    return {"x": x, "y": rng.poisson(np.exp(0.5 + 0.5 * x) * rng.gamma(2, 0.5, n)) * 1.0}


def line(errors):
    def drawn(rng, n):
        x = rng.normal(size=n)
        return {"x": x, "y": 1 + x + errors(rng, n)}

    return drawn


LAWS = {
    "log-normal incomes": ("mean", "y ~ 1", incomes, 200_000, [np.exp(10.32)]),
    "0/1": ("mean", "y ~ 1", shares, 200_000, [0.3]),
    "overdispersed counts": ("poisson", "y ~ x", counts, 100_000, [0.5, 0.5]),
    "normal errors": ("ols", "y ~ x", line(lambda rng, n: rng.normal(size=n)), 100_000, [1, 1]),
    "log-normal errors": (
        "ols", "y ~ x", line(lambda rng, n: np.exp(rng.normal(size=n)) - np.exp(0.5)), 200_000, [1, 1],
    ),
    "t(3) errors": ("huber", "y ~ x", line(lambda rng, n: rng.standard_t(3, n)), 100_000, [1, 1]),
}  # fmt: skip


def cell(law, tables):
    """The rows of a law, one for each coefficient."""
    estimator, formula, draw, n, truth = LAWS[law]
    held, independent, single, widths, singles = [], [], [], [], []
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(draw(rng, n)).assign(g=rng.integers(0, GROUPS, n))
        levels = {"g": list(range(GROUPS))}
        groups = getattr(dpstats, estimator)(formula, frame, eps=1, by="g", levels=levels, seed=seed)
        pooled, fits = dpstats.combine(groups), list(groups.values())
        known = [np.isfinite(np.diagonal(fit.cov)) for fit in fits]
        alone = pool([fit.estimates for fit in fits], [fit.cov for fit in fits], known)
        errors = np.array([fit.bse for fit in fits])
        off = np.abs(np.array([fit.estimates for fit in fits]) - truth)
        held.append(np.abs(pooled.estimates - truth) <= Z * pooled.bse)
        independent.append(np.abs(alone[0] - truth) <= Z * np.sqrt(np.diagonal(alone[1])))
        single.append(np.where(np.isnan(errors), np.nan, off <= Z * errors))
        widths.append(pooled.bse)
        singles.append(np.nanmedian(errors, axis=0))
    return [
        {
            "estimator": estimator, "law": law, "rows": n, "coefficient": name, "tables": tables,
            "held": np.mean(held, axis=0)[j], "independent": np.mean(independent, axis=0)[j],
            "single": np.nanmean(single, axis=(0, 1))[j],
            "width": np.median(np.array(widths) / np.array(singles), axis=0)[j],
        }
        for j, name in enumerate(pooled.names)
    ]  # fmt: skip


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    table = pd.DataFrame([row for law in LAWS for row in cell(law, count)])
    table.round(4).to_csv(PATH, index=False)
    print(table.round(3).to_string(index=False))
