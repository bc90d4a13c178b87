"""Seconds for 10^6 rows and 10 columns, to ``speed.csv``: the fastest of several, next to NumPy's.

    python benchmarks/least_squares/speed.py

What is compared takes turns, so that a machine that is busy for a while is busy for all.
"""

import os
import platform
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats
from dpstats.data.sources import open_source
from dpstats.engines.local import Arrays
from dpstats.formula.design import Design
from dpstats.linear.prepare import PublicDesign
from dpstats.mechanisms.rng import Randomness
from dpstats.regression import adassp, boosted_adassp

RESULTS = Path(__file__).with_name("speed.csv")
TURNS = 5
GRAM, ROUNDS = "X.T @ X", "100 rounds in NumPy"


def fastest(steps, turns=TURNS):
    """Least seconds of each step, by name; the first turn, which compiles and fills caches, does not count."""
    seconds = {name: [] for name in steps}
    for _ in range(turns + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - start)
    return {name: min(values[1:]) for name, values in seconds.items()}


def rounds(X, y, radius, tau, T):
    """BoostedAdaSSP's arithmetic without noise."""
    Z = X * np.minimum(1, radius / np.linalg.norm(X, axis=1))[:, None]
    inverse, theta = np.linalg.inv(Z.T @ Z), np.zeros(Z.shape[1])
    for _ in range(T):
        theta += inverse @ (Z.T @ np.clip(y - Z @ theta, -tau, tau))
    return theta


def on_arrays(estimator, formula, data, *plan):
    """The mechanism of an estimator behind the front door."""
    source = open_source(data)
    design = Design.from_formula(formula, source.schema)
    arrays = Arrays(*next(iter(design.blocks(source))))
    planned = estimator._plan(PublicDesign.of(design), 1.0, 1e-6, True, *plan, False)
    return lambda: estimator._release(arrays, planned, Randomness())


def main():
    g = np.random.default_rng(0)
    n = 10**6
    X = g.standard_normal((n, 10))
    y = X.sum(axis=1) + g.standard_normal(n)
    data = {f"x{j}": X[:, j].copy() for j in range(10)} | {"y": y}
    frame = pd.DataFrame(data)
    formula = "y ~ " + " + ".join(f"x{j}" for j in range(10))
    joined = np.column_stack([np.ones(n), X])
    published = {"standardize": False, "clip": 1.0, "rounds": 100}
    against = {
        GRAM: {
            GRAM: lambda: joined.T @ joined,
            "adassp, mechanism on arrays": on_arrays(adassp, formula, data, None),
            "adassp": lambda: dpstats.adassp(formula, data, eps=1),
            "adassp, data frame": lambda: dpstats.adassp(formula, frame, eps=1),
            "ols": lambda: dpstats.ols(formula, data, eps=1),
            "huber": lambda: dpstats.huber(formula, data, eps=1),
        },
        ROUNDS: {
            ROUNDS: lambda: rounds(joined, y, 5.0, 3.0, 100),
            "boosted_adassp, 100 rounds, mechanism on arrays": on_arrays(
                boosted_adassp, formula, data, None, 100
            ),
            "boosted_adassp, 100 rounds": lambda: dpstats.boosted_adassp(formula, data, eps=1, rounds=100),
            "boosted_adassp, 100 rounds as published": lambda: dpstats.boosted_adassp(
                formula, data, eps=1, **published
            ),
        },
    }
    rows = []
    for reference, steps in against.items():
        seconds = fastest(steps)
        rows += [(what, value, value / seconds[reference], reference) for what, value in seconds.items()]
    table = pd.DataFrame(rows, columns=["what", "seconds", "ratio", "to"]).round(3)
    table["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}"
    table.to_csv(RESULTS, index=False)
    print(table.drop(columns="machine").to_string(index=False))


if __name__ == "__main__":
    main()
