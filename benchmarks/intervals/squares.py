"""How often 95 % intervals of ``ols`` hold for squares of a skewed column; writes squares.csv.

Run: python benchmarks/intervals/squares.py [SETS] (200 by default; a few minutes on one core).

The 53,940 diamonds of the package are the population, and least squares on all of them is the truth; rows are
drawn with replacement. Nine stones have more than 3.5 carats: they alone decide a square far out.
`undetermined`: share of the sets without an interval; `coverage` is of the rest, `without privacy` that of
least squares with HC1 standard errors on the same rows, and `width` the median ratio of the standard errors.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpstats
from dpstats.datasets import load_diamonds

PATH = Path(__file__).with_name("squares.csv")
FORMULAS = ("price ~ carat", "price ~ carat + I(carat**2)", "np.log(price) ~ carat + I(carat**2)")
ROWS, BUDGETS = (20_000, 50_000), (1.0, 10.0)


def design(formula, frame):
    """Design matrix and response, by hand: patsy would take most of the time."""
    y, x = frame["price"].to_numpy(float), frame["carat"].to_numpy(float)
    powers = 3 if "**2" in formula else 2
    return np.vander(x, powers, increasing=True), np.log(y) if "log" in formula else y


def cell(formula, rows, eps, sets):
    population = load_diamonds()[["price", "carat"]].astype(float)
    truth = np.linalg.lstsq(*design(formula, population), rcond=None)[0]
    seen = []
    for seed in range(sets):
        rng = np.random.default_rng([seed, rows])
        frame = population.iloc[rng.integers(len(population), size=rows)].reset_index(drop=True)
        fit = dpstats.ols(formula, frame, eps=eps, seed=seed)
        X, y = design(formula, frame)
        exact = sm.OLS(y, X).fit(cov_type="HC1")
        for ends in (fit.conf_int().to_numpy(), exact.conf_int()):
            seen.append(np.where(np.isnan(ends[:, 0]), np.nan, (ends[:, 0] <= truth) & (truth <= ends[:, 1])))
        seen.append(np.asarray(fit.bse) / exact.bse)
    held, without, widths = np.array(seen).reshape(sets, 3, -1).transpose(1, 2, 0)
    for j, name in enumerate(fit.names):
        known = ~np.isnan(held[j])
        yield {
            "formula": formula,
            "rows": rows,
            "eps": eps,
            "coefficient": name,
            "sets": sets,
            "undetermined": np.mean(~known),
            "coverage": np.mean(held[j][known]) if known.any() else np.nan,
            "without privacy": np.mean(without[j]),
            "width": np.median(widths[j][known]) if known.any() else np.nan,
        }


def main(sets):
    found = []
    for formula in FORMULAS:
        for rows in ROWS:
            for eps in BUDGETS:
                found += cell(formula, rows, eps, sets)
                print(pd.DataFrame(found).tail(3).to_string(header=False), flush=True)
    pd.DataFrame(found).to_csv(PATH, index=False, float_format="%.4g")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
