"""A million rows of a hundred thousand units, with `unit=` and without, side by side; writes speed.csv.

Run: python benchmarks/unit/speed.py (a minute). Medians of five runs that take turns, formula and
frame in, table out, rows in random order; compiled code is there before.
"""

import platform
import statistics
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

PATH = Path(__file__).with_name("speed.csv")
ROWS, UNITS, RUNS = 1_000_000, 100_000, 5
FORMULA = "y ~ " + " + ".join(f"x{j}" for j in range(1, 10))


def frame(rows, units):
    g = np.random.default_rng(0)
    X = g.standard_normal((rows, 9))
    unit = g.integers(units, size=rows)
    y = X @ np.linspace(-1, 1, 9) + g.standard_normal(units)[unit] + g.standard_normal(rows)
    columns = {f"x{j + 1}": X[:, j] for j in range(9)}
    return pd.DataFrame(columns | {"y": y, "number": unit, "text": np.char.add("p", unit.astype(str))})


def main():
    table, out = frame(ROWS, UNITS), []
    for method in ("ols", "huber", "adassp", "tukey_em", "logit"):
        formula = FORMULA.replace("y", "I(y > 0)") if method == "logit" else FORMULA
        calls = {"none": {}, "numbers": {"unit": "number"}, "texts": {"unit": "text"}}
        taken = {name: [] for name in calls}
        for run in range(RUNS + 1):
            for name, given in calls.items():
                start = time.perf_counter()
                getattr(dpstats, method)(formula, table, eps=1, seed=run, **given).summary().as_text()
                if run:
                    taken[name].append(time.perf_counter() - start)
        seconds = {name: statistics.median(times) for name, times in taken.items()}
        for name in ("numbers", "texts"):
            out.append({
                "method": method, "units": name, "seconds": seconds[name], "without": seconds["none"],
                "ratio": seconds[name] / seconds["none"],
                "machine": platform.processor() or platform.machine(),
            })  # fmt: skip
            print(*out[-1].values(), flush=True)
    pd.DataFrame(out).to_csv(PATH, index=False, float_format="%.3g")


if __name__ == "__main__":
    main()
