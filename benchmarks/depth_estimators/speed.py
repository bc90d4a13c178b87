"""Time per fit after warm-up, and 2,000 synthetic tracts; writes speed.csv.

Run: python benchmarks/depth_estimators/speed.py
"""

import os
import platform
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

HERE = Path(__file__).parent
BOUNDS = {"y": (-1000, 1000)}


def sample(g, n):
    x = g.normal(size=n)
    return {"x": x, "z": g.normal(size=n), "y": 1 + x + g.standard_t(3, size=n)}


def median_time(run, times):
    """Median wall and mean processor time of a run, after one to warm up."""
    run()
    taken, cpu = [], time.process_time()
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)), (time.process_time() - cpu) / times


def tracts():
    g = np.random.default_rng(1)
    sizes = g.integers(50, 501, 2000)
    data = pd.DataFrame(sample(g, sizes.sum()))
    data["tract"] = pd.Categorical(np.repeat(np.arange(2000), sizes))
    dpstats.deepest_regression("y ~ x", data[:500], eps=4, at=(-0.7, 0.7), bounds=BOUNDS, intervals=None)
    start, before = time.perf_counter(), os.times()
    fits = dpstats.deepest_regression(
        "y ~ x", data, eps=4, at=(-0.7, 0.7), bounds=BOUNDS, by="tract", intervals=None
    )
    fitted, after = time.perf_counter() - start, os.times()
    cpu = sum(after[:4]) - sum(before[:4])
    start = time.perf_counter()
    frame = fits.tidy()
    print("tidy:", round(time.perf_counter() - start, 2), "s; failed:", len(fits.failed),
          "; slopes within 1:",
          (np.abs(frame.query("term == 'x'").estimate - 1) < 1).mean())  # fmt: skip
    return fitted, cpu


if __name__ == "__main__":
    g = np.random.default_rng(0)
    data = sample(g, 500)
    rows = [
        ("deepest_regression, n = 500",
         median_time(lambda: dpstats.deepest_regression("y ~ x", data, eps=4, at=(-0.7, 0.7),
                                                        bounds=BOUNDS, intervals=None),
                     15)),
        ("deepest_regression, no bounds, n = 500",
         median_time(lambda: dpstats.deepest_regression("y ~ x", data, eps=4, at=(-0.7, 0.7),
                                                        intervals=None), 15)),
        ("deepest_regression, smooth, n = 500",
         median_time(lambda: dpstats.deepest_regression("y ~ x", data, eps=4, at=(-0.7, 0.7), bounds=BOUNDS,
                                                        mechanism="smooth"), 15)),
        ("medsweep, sequential, n = 500", median_time(lambda: dpstats.medsweep("y ~ x", data, eps=4), 50)),
        ("medsweep, joint, n = 500",
         median_time(lambda: dpstats.medsweep("y ~ x", data, eps=4, variant="joint", clamp=1000), 5)),
        ("median, n = 500", median_time(lambda: dpstats.median("y ~ 1", data, eps=1), 50)),
        ("median, smooth, n = 500",
         median_time(lambda: dpstats.median("y ~ 1", data, eps=1, mechanism="smooth", bounds=BOUNDS), 50)),
        ("tukey_median, smooth, n = 500",
         median_time(lambda: dpstats.tukey_median("x + y ~ 1", data, eps=1, mechanism="smooth",
                                                  bounds={"x": (-1000, 1000)} | BOUNDS), 5)),
        ("2,000 tracts of 50 to 500 rows, deepest_regression", tracts()),
    ]  # fmt: skip
    frame = pd.DataFrame(
        [(what, *seconds) for what, seconds in rows], columns=["what", "wall_seconds", "cpu_seconds"]
    )
    frame["machine"] = (
        f"{platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, NumPy {np.__version__}"
    )
    frame["load"] = round(os.getloadavg()[0], 1)  # of other work, and of the two processes
    print(frame.to_string())
    frame.to_csv(HERE / "speed.csv", index=False, float_format="%.4g")
