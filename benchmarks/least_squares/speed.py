"""Seconds for arrays of 10^6 rows and 10 columns, to ``speed.csv``: the fastest of five, next to NumPy's.

    python benchmarks/least_squares/speed.py
"""

import os
import platform
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats
from dpstats.data import open_source
from dpstats.formula import Design
from dpstats.mechanisms.passes import Arrays
from dpstats.mechanisms.rng import Randomness
from dpstats.regression import adassp
from dpstats.regression._prepare import PublicDesign

RESULTS = Path(__file__).with_name("speed.csv")


def fastest(step, times=5):
    step()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def rounds(X, y, radius, tau, T):
    """BoostedAdaSSP's arithmetic without noise."""
    Z = X * np.minimum(1, radius / np.linalg.norm(X, axis=1))[:, None]
    inverse, theta = np.linalg.inv(Z.T @ Z), np.zeros(Z.shape[1])
    for _ in range(T):
        theta += inverse @ (Z.T @ np.clip(y - Z @ theta, -tau, tau))
    return theta


def adassp_on_arrays(formula, data):
    """The mechanism of `adassp` behind the front door."""
    source = open_source(data)
    design = Design.from_formula(formula, source.schema)
    arrays = Arrays(*next(iter(design.blocks(source))))
    plan = adassp._plan(PublicDesign.of(design), 1.0, 1e-6, True, None, False)
    return lambda: adassp._release(arrays, plan, Randomness())


def main():
    g = np.random.default_rng(0)
    n = 10**6
    X = g.standard_normal((n, 10))
    y = X.sum(axis=1) + g.standard_normal(n)
    data = {f"x{j}": X[:, j].copy() for j in range(10)} | {"y": y}
    formula = "y ~ " + " + ".join(f"x{j}" for j in range(10))
    joined = np.column_stack([np.ones(n), X])
    seconds = {
        "X.T @ X": fastest(lambda: joined.T @ joined),
        "100 rounds in NumPy": fastest(lambda: rounds(joined, y, 5.0, 3.0, 100), 2),
        "ols": fastest(lambda: dpstats.ols(formula, data, eps=1)),
        "adassp, mechanism on arrays": fastest(adassp_on_arrays(formula, data)),
        "adassp": fastest(lambda: dpstats.adassp(formula, data, eps=1)),
        "boosted_adassp, 100 rounds": fastest(lambda: dpstats.boosted_adassp(formula, data, eps=1, rounds=100), 2),
        "huber": fastest(lambda: dpstats.huber(formula, data, eps=1)),
    }
    table = pd.DataFrame({"what": list(seconds), "seconds": list(seconds.values())})
    table["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}"
    table.round(3).to_csv(RESULTS, index=False)
    print(table)


if __name__ == "__main__":
    main()
