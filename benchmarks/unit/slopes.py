"""Coverage of the slope of a column that goes with the units' own effects; writes slopes.csv.

    OMP_NUM_THREADS=1 python benchmarks/unit/slopes.py [SETS]    # 200 by default; half an hour on one core

5,000 units of 1 to some 10 rows have an effect of the law `effects` with the variance 1, and the column is
normal plus half of it; `y ~ x` at eps = 1. `coverage` is that of 95 % intervals for the slope of least
squares, 1.4 (and 1 within units), and `off` the mean error in standard errors; cluster-robust least squares
without privacy beside them.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import dpstats

PATH = Path(__file__).with_name("slopes.csv")
UNITS = 5_000
Z = 1.959964
EFFECTS = {
    "normal": lambda g: g.standard_normal(UNITS),
    "exponential": lambda g: g.exponential(size=UNITS) - 1,
    "Laplace": lambda g: g.laplace(size=UNITS) / np.sqrt(2),
    "log-normal": lambda g: (g.lognormal(size=UNITS) - np.exp(0.5)) / np.sqrt(np.exp(2) - np.e),
    "t(3)": lambda g: g.standard_t(3, UNITS) / np.sqrt(3),
}


def panel(effects, seed):
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(UNITS), rng.poisson(4, UNITS) + 1)
    effect = EFFECTS[effects](rng)[unit]
    x = rng.normal(size=len(unit)) + 0.5 * effect
    return pd.DataFrame({"id": unit, "x": x, "y": 1 + x + effect + rng.normal(size=len(unit))})


def private(estimator, truth, **more):
    def error(frame, seed):
        fit = getattr(dpstats, estimator)("y ~ x", frame, eps=1, unit="id", seed=seed, **more)
        return (fit.params["x"] - truth) / fit.bse["x"]

    return error


def classical(frame, seed):
    fit = smf.ols("y ~ x", frame).fit(cov_type="cluster", cov_kwds={"groups": frame["id"]})
    return (fit.params["x"] - 1.4) / fit.bse["x"]


# what huber estimates is 1.4 with normal effects alone
WAYS = {
    "least squares, not private": (classical, list(EFFECTS)),
    "ols": (private("ols", 1.4), list(EFFECTS)),
    "adassp": (private("adassp", 1.4), list(EFFECTS)),
    "huber": (private("huber", 1.4), ["normal"]),
    "boosted_adassp": (private("boosted_adassp", 1.4), ["normal"]),
    "ols, effects": (private("ols", 1.0, effects="unit"), ["normal"]),
}

if __name__ == "__main__":
    sets, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200, []
    for name, (error, laws) in WAYS.items():
        for effects in laws:
            z = np.array([error(panel(effects, seed), seed) for seed in range(sets)])
            given = np.isfinite(z)
            rows.append(
                {
                    "fit": name, "effects": effects, "sets": sets, "given": int(given.sum()),
                    "coverage": np.mean(np.abs(z[given]) <= Z), "off": z[given].mean(),
                }
            )  # fmt: skip
    table = pd.DataFrame(rows)
    table.round(4).to_csv(PATH, index=False)
    print(table.round(3).to_string(index=False))
