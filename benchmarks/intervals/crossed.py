"""Intervals beside the product of two factors with rare cells, which leave where noise hides them.

Run: OMP_NUM_THREADS=1 python benchmarks/intervals/crossed.py [TABLES [LABEL]]   (40; two minutes; writes
crossed.csv, in which rows of other labels are kept: `before` is commit 227830c1)

Table i has seed i and 20,000 rows, of which five industries and four regions make twenty cells; those of the
least industry have some 150 rows each. `determined` is the percentage of the tables in which the coefficient
has an interval that has one least often, and `held` that of the intervals that hold the truth: of the slope
(`educ`), of the other coefficients without the least industry (`least held`: of the one that holds least
often), and of those with it (`agri`).
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

PATH = Path(__file__).with_name("crossed.csv")
FORMULA, ROWS, LEAST = "y ~ educ + industry * region", 20_000, "industry[T.agri]"
INDUSTRIES, SHARES = ["retail", "manuf", "public", "finance", "agri"], [0.3, 0.25, 0.3, 0.12, 0.03]
TRUTH = {"Intercept": 1.0, "educ": 0.08, LEAST: -0.3}


def table(seed):
    g = np.random.default_rng(seed)
    industry, region = g.choice(INDUSTRIES, ROWS, p=SHARES), g.choice(list("ENSW"), ROWS)
    educ = np.round(g.normal(13, 3, ROWS))
    y = 1 + 0.08 * educ - 0.3 * (industry == "agri") + g.normal(0, 0.45, ROWS)
    factors = {"industry": pd.Categorical(industry, INDUSTRIES), "region": pd.Categorical(region)}
    return pd.DataFrame({"y": y, "educ": educ} | factors)


def cell(estimator, eps, tables):
    held = []
    for seed in range(tables):
        fit = getattr(dpstats, estimator)(FORMULA, table(seed), eps=eps, seed=seed)
        error = np.abs(fit.params - [TRUTH.get(name, 0.0) for name in fit.names])
        held.append(np.where(fit.determined, error < 1.96 * fit.bse, np.nan))
    names, held = np.array(fit.names), np.array(held)
    rare, slope = np.char.startswith(names.astype(str), LEAST), names == "educ"
    given = np.isfinite(held)
    found = {}
    for part, columns in (("educ", slope), ("others", ~rare & ~slope), ("agri", rare)):
        each = np.sum(held[:, columns] == 1, axis=0) / np.maximum(given[:, columns].sum(axis=0), 1)
        found |= {f"{part} determined": 100 * given[:, columns].mean(axis=0).min()}
        found |= {f"{part} held": 100 * np.nansum(held[:, columns]) / (given[:, columns].sum() or np.nan)}
        found |= {"least held": 100 * each.min()} if part == "others" else {}
    return {"estimator": estimator, "eps": eps, "tables": tables} | found


def main(tables, label):
    rows = [
        {"code": label} | cell(estimator, eps, tables)
        for estimator in ("ols", "huber", "adassp", "boosted_adassp")
        for eps in (0.5, 1, 3)
    ]
    found = pd.DataFrame(rows).round(1)
    print(found.to_string(index=False))
    kept = [old[old["code"] != label] for old in [pd.read_csv(PATH)]] if PATH.exists() else []
    pd.concat([*kept, found]).to_csv(PATH, index=False)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40, sys.argv[2] if len(sys.argv) > 2 else "now")
