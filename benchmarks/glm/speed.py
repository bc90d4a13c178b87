"""Seconds from formula and frame to a fit of 10^6 rows and 10 columns, beside statsmodels; writes speed.csv.

Run: python benchmarks/glm/speed.py (a minute). The best of three calls each; kernels are compiled before.
"""

import os
import platform
import time
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpstats

ROWS, COLUMNS, CALLS = 1_000_000, 10, 3


def best(call):
    seconds = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((ROWS, COLUMNS))
    names = [f"x{i}" for i in range(COLUMNS)]
    eta = X @ np.linspace(-0.3, 0.3, COLUMNS)
    frame = pd.DataFrame(X, columns=names).assign(
        logit=(rng.random(ROWS) < 1 / (1 + np.exp(0.5 - eta))) * 1.0,
        poisson=rng.poisson(np.exp(0.2 + eta)) * 1.0,
    )
    rows = []
    for name in ("logit", "poisson"):
        formula = f"{name} ~ " + " + ".join(names)
        ours = getattr(dpstats, name)
        ours(formula, frame.head(50_000), eps=1, seed=1)

        def theirs(name=name, formula=formula):
            if name == "logit":
                return smf.logit(formula, frame).fit(disp=0)
            return smf.glm(formula, frame, family=sm.families.Poisson()).fit()

        rows.append({
            "estimator": name, "rows": ROWS, "columns": COLUMNS,
            "seconds": best(lambda ours=ours, formula=formula: ours(formula, frame, eps=1, seed=1)),
            "statsmodels": best(theirs),
            "machine": f"{platform.machine()}, {os.cpu_count()} processors, dpstats {dpstats.__version__}",
        })  # fmt: skip
        print(rows[-1])
    pd.DataFrame(rows).to_csv(Path(__file__).with_suffix(".csv"), index=False, float_format="%.3g")


if __name__ == "__main__":
    main()
