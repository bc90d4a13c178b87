"""Coverage of the slope of a column that goes with the units' own effects; writes slopes.csv.

    OMP_NUM_THREADS=1 python benchmarks/unit/slopes.py [SETS]    # 200 by default; minutes on one core

5,000 units of 1 to some 10 rows have an effect with the variance 1, and the column is normal plus half of
it; `y ~ x` at eps = 1. `coverage` is that of 95 % intervals for the slope, 1.4 (and 1 within units), and
`off` the mean error in standard errors; cluster-robust least squares without privacy beside them.
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


def panel(seed):
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(UNITS), rng.poisson(4, UNITS) + 1)
    effect = rng.normal(size=UNITS)[unit]
    x = rng.normal(size=len(unit)) + 0.5 * effect
    return pd.DataFrame({"id": unit, "x": x, "y": 1 + x + effect + rng.normal(size=len(unit))})


def private(estimator, truth, **more):
    def errors(seed):
        fit = getattr(dpstats, estimator)("y ~ x", panel(seed), eps=1, unit="id", seed=seed, **more)
        return (fit.params["x"] - truth) / fit.bse["x"]

    return errors


def classical(seed):
    frame = panel(seed)
    fit = smf.ols("y ~ x", frame).fit(cov_type="cluster", cov_kwds={"groups": frame["id"]})
    return (fit.params["x"] - 1.4) / fit.bse["x"]


WAYS = {
    "least squares, not private": classical,
    "ols": private("ols", 1.4),
    "huber": private("huber", 1.4),
    "adassp": private("adassp", 1.4),
    "boosted_adassp": private("boosted_adassp", 1.4),
    "ols, effects": private("ols", 1.0, effects="unit"),
}

if __name__ == "__main__":
    sets, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200, []
    for name, errors in WAYS.items():
        z = np.array([errors(seed) for seed in range(sets)])
        given = np.isfinite(z)
        rows.append(
            {
                "fit": name, "sets": sets, "given": int(given.sum()),
                "coverage": np.mean(np.abs(z[given]) <= Z), "off": z[given].mean(),
            }
        )  # fmt: skip
    table = pd.DataFrame(rows)
    table.round(4).to_csv(PATH, index=False)
    print(table.round(3).to_string(index=False))
