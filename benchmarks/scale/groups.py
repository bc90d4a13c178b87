"""Time of 70,000 groups of 50 to 500 rows, in processes of this machine and on a local cluster of Dask;
writes groups.csv.

Run: python benchmarks/scale/groups.py [local] [dask] [ols] [deepest_regression] [70000] (ten minutes a method
on two cores). Two processes, or two workers of a thread and 4 GiB each; one covariate, errors of Student's
law with three degrees of freedom, eps = 4. `cpu`: processor time of all processes, which says more on a busy
machine, and `cpu of one`, of a group, in milliseconds; `failed`: groups whose rows were too few for a
release; `memory`: the largest resident size of a worker of Dask, GiB; `load`: of the machine at the end.
"""

import os
import platform
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from study import peak

import dpstats

PATH = Path(__file__).with_name("groups.csv")
PART = 1_000_000


def table(groups):
    g = np.random.default_rng(20261123)
    sizes = g.integers(50, 501, groups)
    x = g.standard_normal(sizes.sum())
    data = pd.DataFrame({"x": x, "y": 1 + x + g.standard_t(3, len(x))})
    data["tract"] = pd.Categorical(np.repeat(np.arange(groups), sizes))
    # the rows of a group are anywhere
    return data.take(g.permutation(len(data))).reset_index(drop=True)


def timed(method, data, others):
    def cpu():
        return sum(os.times()[:4]) + others()

    start, before = time.perf_counter(), cpu()
    fits = getattr(dpstats, method)("y ~ x", data, eps=4, by="tract")
    return fits, time.perf_counter() - start, cpu() - before


def local(method, data):
    return (*timed(method, data, lambda: 0.0), np.nan)


def dask(method, data):
    import dask.dataframe as dd
    from distributed import Client, LocalCluster, wait

    with (
        LocalCluster(2, threads_per_worker=1, memory_limit="4GiB", dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        there = dd.from_pandas(data, npartitions=-(-len(data) // PART), sort=False).persist()
        wait(there)
        done = timed(method, there, lambda: sum(client.run(time.process_time).values()))
        return (*done, max(client.run(peak).values()))


def main(places, methods, groups):
    data = table(groups)
    kept = pd.read_csv(PATH).to_dict("records") if PATH.exists() else []
    for place in places:
        for method in methods:
            # what is compiled
            getattr(dpstats, method)("y ~ x", data[:2_000], eps=4)
            fits, seconds, cpu, memory = {"local": local, "dask": dask}[place](method, data)
            key = place, method, groups
            kept = [row for row in kept if (row["place"], row["method"], row["groups"]) != key]
            kept.append(
                {
                    "place": place, "method": method, "groups": groups, "rows": len(data), "seconds": seconds,
                    "cpu": cpu, "cpu of one": 1e3 * cpu / groups, "failed": len(fits.failed),
                    "memory": memory, "load": os.getloadavg()[0],
                    "machine": platform.processor() or platform.machine(),
                }
            )  # fmt: skip
            print(*kept[-1].values(), flush=True)
            pd.DataFrame(kept).to_csv(PATH, index=False, float_format="%.4g")


if __name__ == "__main__":
    words = sys.argv[1:]
    numbers = [int(float(word)) for word in words if word[0].isdigit()]
    main(
        [word for word in words if word in ("local", "dask")] or ["local", "dask"],
        [w for w in words if w in ("ols", "deepest_regression")] or ["ols", "deepest_regression"],
        numbers[0] if numbers else 70_000,
    )
