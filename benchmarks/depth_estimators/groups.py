"""Time of deepest_regression without anchors: 2,000 groups, and data for which the search for a line is hard;
writes groups.csv.

A private centre and scale of the covariate often fall far from a group of fifty rows. The hard data are drawn
at anchors, budgets and numbers of rows that are bad for them. All processes are warm. Run: python
benchmarks/depth_estimators/groups.py  (a minute)
"""

import os
import platform
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

HERE = Path(__file__).parent


def groups(count=2000):
    """All groups at once, in as many processes as there are cores, and then one after the other."""
    g = np.random.default_rng(1)
    sizes = g.integers(50, 501, count)
    x = g.normal(size=sizes.sum())
    data = pd.DataFrame({"x": x, "y": 1 + x + g.standard_t(3, size=len(x))})
    data["tract"] = pd.Categorical(np.repeat(np.arange(count), sizes))
    dpstats.deepest_regression("y ~ x", data[:500], eps=4, intervals=None)
    start, before = time.perf_counter(), os.times()
    dpstats.deepest_regression("y ~ x", data, eps=4, by="tract", intervals=None)
    wall, after = time.perf_counter() - start, os.times()
    at_once = {"what": f"{count} groups of 50 to 500 rows, in all", "fits": count, "wall_total": wall,
               "cpu_total": sum(after[:4]) - sum(before[:4])}  # fmt: skip
    ends = np.append(0, np.cumsum(sizes))
    columns = {name: data[name].to_numpy() for name in ("x", "y")}
    parts = [{name: values[a:b] for name, values in columns.items()} for a, b in zip(ends[:-1], ends[1:],
        strict=True)]  # fmt: skip
    return [
        at_once,
        times(f"{count} groups of 50 to 500 rows, one fit", [(part, 4.0, None) for part in parts]),
    ]


def times(what, fits):
    """Smallest, middle and largest time of fits ``(data, eps, at)``."""
    taken, cpu = [], []
    for data, eps, at in fits:
        start, before = time.perf_counter(), time.process_time()
        dpstats.deepest_regression("y ~ x", data, eps=eps, at=at, intervals=None)
        taken.append(time.perf_counter() - start)
        cpu.append(time.process_time() - before)
    return {
        "what": what, "fits": len(fits), "wall_total": sum(taken), "cpu_total": sum(cpu),
        "wall_min": min(taken), "wall_median": np.median(taken), "wall_max": max(taken),
        "cpu_median": np.median(cpu), "cpu_max": max(cpu),
    }  # fmt: skip


def covariates(n, g):
    z = g.normal(size=n)
    return {
        "normal": z, "constant": np.full(n, 3.7), "two-valued": (z > 0) * 1.0, "rarely one": (z > 1.6) * 1.0,
        "a million and one": 1e6 + z,
        "a million, two-valued": 1e6 + np.sign(z), "integers": np.round(3 * z),
        "mostly zero": np.where(z < 0.3, 0, np.exp(z)),
        "incomes": np.exp(10 + z), "years": g.integers(1990, 2024, n).astype(float),
        "Cauchy": g.standard_cauchy(n),
        "two clusters": np.where(z > 0, 1e-3, -1e3) + 1e-6 * z, "last bits": 1 + 2.0**-50 * np.round(8 * z),
    }  # fmt: skip


def responses(x, g):
    e = g.standard_t(3, size=len(x))
    return [1 + x - np.median(x) + e, np.round(3 * e), np.full(len(x), 5.0), 2 + 3 * x, np.exp(9 + e),
            1e6 + e, np.where(e < 0.2, 0, np.exp(e)), e * 10.0 ** (10 * g.normal(size=len(x)))]  # fmt: skip


def anchors(x):
    """None (private), good ones, and ones that are too close, too wide or far from the data."""
    middle, spread = float(np.median(x)), float(np.subtract(*np.quantile(x, [0.75, 0.25]))) or 1.0
    fine = 2.0**-30 * max(abs(middle), 1e-3)
    return [None, (middle - spread, middle + spread), (middle - fine, middle + fine), (-(2.0**-80), 2.0**-80),
            (-(2.0**80), 2.0**80), (1e5 - 1, 1e5 + 1), (1e12 - 1, 1e12 + 1),
            (-1e4 - 2**-6, -1e4 + 2**-6)]  # fmt: skip


def hard(n):
    """A line for every covariate: all responses, a budget and anchors chosen at random for each."""
    g = np.random.default_rng(n)
    for name, x in covariates(n, g).items():
        fits = []
        for y in responses(x, g):
            at = anchors(x)
            for j in g.permutation(len(at))[:4]:
                fits.append(({"x": x, "y": y}, float(g.choice([0.1, 1.0, 4.0, 12.0])), at[j]))
        yield times(f"x {name}, n = {n}", fits)


def main():
    rows = groups()
    for n in (5, 20, 62, 200, 500):
        rows += hard(n)
    frame = pd.DataFrame(rows)
    frame["machine"] = (
        f"{platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, NumPy {np.__version__}"
    )
    frame["load"] = round(os.getloadavg()[0], 1)  # of other work
    print(frame.drop(columns=["machine"]).to_string())
    frame.to_csv(HERE / "groups.csv", index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
