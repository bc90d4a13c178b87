"""Signs of pairs: the time of the largest choice of five terms.

    python benchmarks/selection/pairs.py

n = 500,000 rows, 16 normal columns, five of them informative: all 4,368 sets of five, whole call of
``select_features`` at eps = 1. Seconds on the clock, and of all processors together, which other work on the
machine does not change much. Writes ``pairs.csv`` beside this file.
"""

import os
import pathlib
import time

import numpy as np
import pandas as pd

import dpstats

ROWS, COLUMNS, K = 500_000, 16, 5


def main():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((ROWS, COLUMNS))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)])
    frame["y"] = X[:, :K].sum(axis=1) + generator.standard_normal(ROWS)
    dpstats.select_features("y ~ .", frame.head(100), k=K, eps=1, method="pairs")
    start, used = time.perf_counter(), time.process_time()
    chosen = dpstats.select_features("y ~ .", frame, k=K, eps=1, method="pairs", seed=0)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    row = {
        "rows": ROWS,
        "columns": COLUMNS,
        "k": K,
        "processors": os.cpu_count(),
        "seconds": round(seconds, 1),
        "processor_seconds": round(used, 1),
        "found": sum(t in ("x0", "x1", "x2", "x3", "x4") for t in chosen.terms),
    }
    print(row)
    pd.DataFrame([row]).to_csv(pathlib.Path(__file__).with_name("pairs.csv"), index=False)


if __name__ == "__main__":
    main()
