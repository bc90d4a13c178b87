"""R-squared of ``ols`` on ten numeric columns that are 1 in one row of a hundred; writes rare_columns.csv.

Run: python benchmarks/least_squares/rare_columns.py (ten seconds): 40 data sets of 20,000 rows, eps = 1, all
coefficients 6, errors of standard deviation 1. `r2` and `r2 of least squares` are of the same rows, in
sample; `determined` is the share of the coefficients with an interval.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

PATH = Path(__file__).with_name("rare_columns.csv")
ROWS, COLUMNS, SETS = 20_000, 10, 40


def main():
    found = []
    for seed in range(SETS):
        g = np.random.default_rng(seed)
        X = (g.random((ROWS, COLUMNS)) < 0.01).astype(float)
        y = X @ np.full(COLUMNS, 6.0) + g.standard_normal(ROWS)
        data = pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)]).assign(y=y)
        fit = dpstats.ols("y ~ " + " + ".join(data.columns[:COLUMNS]), data, eps=1, seed=seed)
        with_constant = np.column_stack([np.ones(ROWS), X])
        exact = with_constant @ np.linalg.lstsq(with_constant, y, rcond=None)[0]
        r2 = [1 - np.mean((y - each) ** 2) / np.var(y) for each in (fit.predict(data), exact)]
        found.append([seed, *r2, fit.bse.notna().mean()])
    table = pd.DataFrame(found, columns=["seed", "r2", "r2 of least squares", "determined"])
    table.to_csv(PATH, index=False, float_format="%.4f")
    print(table.describe().loc[["min", "25%", "50%", "75%", "max"]].round(3))


if __name__ == "__main__":
    main()
