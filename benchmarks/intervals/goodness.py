"""R-squared and residual standard deviation beside those of least squares; writes goodness.csv.

    OMP_NUM_THREADS=1 python benchmarks/intervals/goodness.py [SETS]    # 40 by default; minutes on one core

`y ~ x` at eps = 1, delta = 1e-6. `sigma` is the median ratio to the residual standard deviation of least
squares on the same rows, `rsquared` the median, `least` and `most` its range, and `exact` the median without
privacy.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import dpstats

PATH = Path(__file__).with_name("goodness.csv")
ESTIMATORS = "ols", "adassp", "huber", "tukey_em"


def normal(g, n):
    x = g.standard_normal(n)
    return x, 1 + 2 * x + 2 * g.standard_normal(n)


def log_normal_column(g, n):
    x = g.lognormal(0, 1.2, n)
    return x, 1 + 2 * x + 6 * g.standard_normal(n)


def t3_errors(g, n):
    x = g.standard_normal(n)
    return x, 1 + 2 * x + g.standard_t(3, n)


def log_normal_errors(g, n):
    x = g.standard_normal(n)
    return x, 1 + 2 * x + g.lognormal(0, 1.2, n)


def costs(g, n):
    """Zero in 70 %."""
    x = g.standard_normal(n)
    return x, np.where(g.uniform(size=n) < 0.7, 0.0, np.exp(1 + 0.5 * x + g.standard_normal(n)))


DESIGNS = {
    "normal": normal,
    "log-normal column": log_normal_column,
    "t(3) errors": t3_errors,
    "log-normal errors": log_normal_errors,
    "costs": costs,
}

if __name__ == "__main__":
    sets, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 40, []
    for design, draw in DESIGNS.items():
        for n in (2_000, 20_000):
            found = {name: [] for name in ESTIMATORS}
            for seed in range(sets):
                x, y = draw(np.random.default_rng([seed, n]), n)
                frame = pd.DataFrame({"x": x, "y": y})
                exact = smf.ols("y ~ x", frame).fit()
                for name, values in found.items():
                    try:
                        fit = getattr(dpstats, name)("y ~ x", frame, eps=1, seed=seed)
                    except dpstats.ReleaseFailed:
                        continue
                    ratio, share = fit.sigma / np.sqrt(exact.scale), fit.released.get("rsquared", np.nan)
                    values.append((ratio, share, exact.rsquared))
            for name, values in found.items():
                sigma, share, exact = np.array(values or [[np.nan] * 3]).T
                rows.append(
                    {
                        "design": design, "n": n, "fit": name, "sets": sets, "given": len(values),
                        "sigma": np.median(sigma), "rsquared": np.median(share), "least": share.min(),
                        "most": share.max(), "exact": np.median(exact),
                    }
                )  # fmt: skip
    table = pd.DataFrame(rows)
    table.round(4).to_csv(PATH, index=False)
    print(table.round(3).to_string(index=False))
