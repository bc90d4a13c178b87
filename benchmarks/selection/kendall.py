"""DPKendall: one of each group of copies (Theorem 3.8 of its paper), and its time beside SciPy's.

    python benchmarks/selection/kendall.py

Copies: five independent normal columns, three copies of each, 50 columns of noise, ``y`` their sum plus unit
noise, n = 10,000, eps = 1 and pure; 200 seeded runs of k = 5; how many take one of each group. Speed: n =
500,000, 90 columns, k = 5, whole call of ``select_features``, beside as many ``scipy.stats.kendalltau`` (one
timed 20 times). Writes ``kendall.csv`` beside this file.
"""

import os
import pathlib
import time

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import dpstats

RUNS, ROWS = 200, 10_000


def copies(seed):
    """One run: whether the five chosen columns are one of each group."""
    generator = np.random.default_rng(seed)
    informative = generator.standard_normal((ROWS, 5))
    X = np.hstack([np.repeat(informative, 4, axis=1), generator.standard_normal((ROWS, 50))])
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(70)])
    frame["y"] = informative.sum(axis=1) + generator.standard_normal(ROWS)
    chosen = dpstats.select_features("y ~ .", frame, k=5, eps=1, seed=seed)
    return sorted(int(term[1:]) // 4 for term in chosen.terms) == [0, 1, 2, 3, 4]


def speed(n=500_000, d=90, k=5):
    """Seconds of a whole choice, and of the same number of SciPy calls."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, d))
    y = X[:, :5].sum(axis=1) + generator.standard_normal(n)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)]).assign(y=y)
    start = time.perf_counter()
    dpstats.select_features("y ~ .", frame, k=k, eps=1, seed=0)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    for j in range(20):
        kendalltau(X[:, j], y)
    calls = sum(d - r for r in range(k))
    return ours, (time.perf_counter() - start) / 20 * calls, calls


def main():
    good = sum(copies(seed) for seed in range(RUNS))
    print(f"one of each group in {good} of {RUNS} runs")
    ours, scipy, calls = speed()
    print(f"{ours:.1f} s on {os.cpu_count()} processors; {calls} calls of SciPy on one: {scipy:.1f} s")
    row = {
        "copies_runs": RUNS,
        "copies_good": good,
        "calls": calls,
        "seconds": round(ours, 1),
        "scipy": round(scipy, 1),
    }
    pd.DataFrame([row]).to_csv(pathlib.Path(__file__).with_name("kendall.csv"), index=False)


if __name__ == "__main__":
    main()
