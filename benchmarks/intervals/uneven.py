"""Intervals of ``ols`` where errors are skewed and large in some rows: in proportion, or in a small group.

Run: OMP_NUM_THREADS=1 python benchmarks/intervals/uneven.py [SETS [LABEL]]   (100; ten minutes; writes
uneven.csv, in which rows of other labels are kept: `before` is commit 227830c1)

Data set i has seed i. The truth is least squares on four million rows. `determined` is the percentage of the
data sets with an interval, `held` that of these in which it holds the truth, `plain` that of HC1 intervals
without privacy, and `width` the median ratio of the widths. The first two are straight lines: revenue in
proportion to size, and a difference in differences beside it.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import patsy

import dpstats

PATH = Path(__file__).with_name("uneven.csv")
TRUTH_ROWS, PIECE = 4_000_000, 500_000


def proportional(g, n):
    size = np.exp(g.standard_normal(n))
    return {"y": size * np.exp(0.5 * g.standard_normal(n)), "size": size}


def differences(g, n):
    treat, post = (g.random((2, n)) < 0.5) * 1.0
    size = np.exp(g.standard_normal(n))
    mean = 2 + treat + post + treat * post / 2 + 1.5 * size
    return {"y": mean * np.exp(0.6 * g.standard_normal(n) - 0.18), "treat": treat, "post": post, "size": size}


def employed(g, n):
    own, educ, z = (g.random(n) < 0.08) * 1.0, np.round(g.normal(13, 2.5, n)), g.standard_normal(n)
    factor = np.where(own > 0, np.exp(1.1 * z - 0.605), np.exp(0.4 * z - 0.08))
    return {"y": (1000 + 300 * educ) * factor, "educ": educ, "own": own}


def level(g, n):
    code = np.searchsorted([0.05, 0.4, 0.7], g.random(n))
    x, z = g.standard_normal((2, n))
    errors = np.where(code == 0, 3 * (np.exp(1.2 * z) - np.exp(0.72)), z)
    return {"y": 1 + x + errors, "x": x, "g": pd.Categorical.from_codes(code, list("dabc"))}


def exposed(g, n):
    few, age = (g.random(n) < 0.02) * 1.0, g.normal(50, 15, n)
    errors = np.where(few > 0, 10 * (g.exponential(size=n) - 1), g.standard_normal(n))
    return {"y": 0.02 * age + errors, "few": few, "age": age}


def group(g, n):
    few, x = (g.random(n) < 0.1) * 1.0, g.standard_normal(n)
    errors = np.where(few > 0, 2.5 * (g.exponential(size=n) - 1), g.standard_normal(n))
    return {"y": 1 + x + 2 * few + errors, "group": few, "x": x}


DESIGNS = {
    "in proportion": (proportional, "y ~ size", (5_000, 20_000, 200_000)),
    "in proportion, differences": (differences, "y ~ treat * post + size", (20_000,)),
    "8 % employed by themselves": (employed, "y ~ educ + own", (20_000,)),
    "level of 5 %": (level, "y ~ x + C(g, Treatment('a'))", (20_000,)),
    "2 % exposed": (exposed, "y ~ few + age", (20_000,)),
    "group of 10 %": (group, "y ~ group + x", (3_000, 10_000, 50_000)),
}


def truth(make, formula):
    g, gram, moment = np.random.default_rng(20261129), 0.0, 0.0
    for _ in range(TRUTH_ROWS // PIECE):
        y, X = patsy.dmatrices(formula, pd.DataFrame(make(g, PIECE)))
        gram, moment = gram + np.asarray(X.T @ X), moment + np.asarray(X.T @ y)[:, 0]
    return np.linalg.solve(gram, moment)


def least_squares(formula, frame):
    y, X = (np.asarray(m) for m in patsy.dmatrices(formula, frame))
    inverse = np.linalg.inv(X.T @ X)
    beta = inverse @ (X.T @ y[:, 0])
    parts = X * (y[:, 0] - X @ beta)[:, None]
    return beta, np.sqrt(np.diag(inverse @ parts.T @ parts @ inverse) * len(X) / (len(X) - len(beta)))


def cells(name, sets, label):
    make, formula, sizes = DESIGNS[name]
    beta = truth(make, formula)
    for rows in sizes:
        frames = [pd.DataFrame(make(np.random.default_rng([seed, rows]), rows)) for seed in range(sets)]
        plain = [least_squares(formula, frame) for frame in frames]
        without = np.mean([np.abs(b - beta) < 1.96 * se for b, se in plain], axis=0)
        for eps in (0.5, 1, 3):
            held, width = [], []
            for seed, frame in enumerate(frames):
                try:
                    fit = dpstats.ols(formula, frame, eps=eps, seed=seed)
                except dpstats.errors.ReleaseFailed:
                    continue
                ends = fit.conf_int().to_numpy()
                inside = (ends[:, 0] <= beta) & (beta <= ends[:, 1])
                held.append(np.where(np.isfinite(ends[:, 0]), inside, np.nan))
                width.append(np.ptp(ends, axis=1) / 3.92 / plain[seed][1])
            found = {
                "determined": 100 * np.sum(np.isfinite(held), axis=0) / sets,
                "held": 100 * np.nanmean(held, axis=0),
                "plain": 100 * without,
                "width": np.nanmedian(width, axis=0),
            }
            keys = {"code": label, "design": name, "rows": rows, "eps": eps, "coefficient": list(fit.names)}
            yield pd.DataFrame(keys | found)


def main(sets, label):
    table = pd.concat([cell for name in DESIGNS for cell in cells(name, sets, label)]).round(2)
    print(table.to_string(index=False))
    if PATH.exists():
        old = pd.read_csv(PATH)
        table = pd.concat([old[old["code"] != label], table])
    table.to_csv(PATH, index=False)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2] if len(sys.argv) > 2 else "now")
