"""One of each group of copies (Theorem 3.8 of DPKendall's paper), and the time of a choice beside SciPy's.

    python benchmarks/selection/kendall.py

Copies: five independent normal columns, three copies of each, 50 columns of noise, ``y`` their sum plus unit noise,
n = 10,000, eps = 1 and pure; 200 seeded runs of k = 5; how many take one of each group. Speed: n = 500,000, 90
columns, k = 5, whole call of ``select_features``, beside as many ``scipy.stats.kendalltau`` (one timed 20 times); and 16
columns, k = 5, the largest case of signs of pairs (4,368 sets): seconds, and seconds of all processors together. Writes ``kendall.csv`` beside this file.
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


def table(n, d):
    """Normal columns, five of them informative."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, d))
    y = X[:, :5].sum(axis=1) + generator.standard_normal(n)
    return X, y, pd.DataFrame(X, columns=[f"x{j}" for j in range(d)]).assign(y=y)


def at_once(n=500_000, d=16, k=5):
    """Seconds, and processor seconds, of the largest choice at once."""
    _, _, frame = table(n, d)
    start, used = time.perf_counter(), time.process_time()
    chosen = dpstats.select_features("y ~ .", frame, k=k, eps=1, method="pairs", seed=0)
    assert chosen.terms == ("x0", "x1", "x2", "x3", "x4")
    return time.perf_counter() - start, time.process_time() - used


def speed(n=500_000, d=90, k=5):
    """Seconds of a whole choice, and of the same number of SciPy calls."""
    X, y, frame = table(n, d)
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
    sets = at_once()
    print(f"4,368 sets of 5 columns: {sets[0]:.1f} s, {sets[1]:.1f} s of all processors together")
    row = {
        "copies_runs": RUNS,
        "copies_good": good,
        "calls": calls,
        "seconds": round(ours, 1),
        "scipy": round(scipy, 1),
        "pairs_seconds": round(sets[0], 1),
        "pairs_processor_seconds": round(sets[1], 1),
    }
    pd.DataFrame([row]).to_csv(pathlib.Path(__file__).with_name("kendall.csv"), index=False)


if __name__ == "__main__":
    main()
