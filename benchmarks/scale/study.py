"""Time and memory on a local cluster of Dask, by number of rows, beside the same in memory; writes scale.csv.

Run: python benchmarks/scale/study.py 1e6 1e7 1e8 (half an hour on two cores), of ols and adassp. Two workers
of a thread and 1 GiB each; rows of ten normal columns are made on the workers, and made again where they do
not fit. A row is the second of two calls, the first compiled what there was to compile. `memory`: the largest
resident size of a worker, GiB; `seconds in memory`: of a pandas frame in this process, where it fits.
"""

import platform
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

PATH = Path(__file__).with_name("scale.csv")
COLUMNS = [f"x{k}" for k in range(10)]
FORMULA = "y ~ " + " + ".join(COLUMNS)
PART, IN_MEMORY = 500_000, 10_000_000


def part(index, rows=PART):
    g = np.random.default_rng([20261123, index])
    frame = pd.DataFrame(g.standard_normal((rows, 10)), columns=COLUMNS)
    return frame.assign(y=frame.sum(axis=1) + g.standard_normal(rows))


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def timed(method, table):
    for seed in (1, 2):
        start = time.perf_counter()
        fit = getattr(dpstats, method)(FORMULA, table, eps=1, seed=seed)
        seconds = time.perf_counter() - start
    return seconds, fit


def on_workers(method, rows):
    import dask
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    # that of the workers, whatever has been kept for the passes
    limits = {"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}
    with (
        dask.config.set(limits),
        LocalCluster(2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        table = dd.from_map(part, range(rows // PART), meta=part(0, 1))
        seconds, fit = timed(method, table)
        return seconds, fit, max(client.run(peak).values())


def main(sizes):
    kept = pd.read_csv(PATH).to_dict("records") if PATH.exists() else []
    for rows in sizes:
        for method in ("ols", "adassp"):
            seconds, fit, memory = on_workers(method, rows)
            here, apart = np.nan, np.nan
            if rows <= IN_MEMORY:
                table = pd.concat([part(i) for i in range(rows // PART)], ignore_index=True)
                here, same = timed(method, table)
                apart = float(np.max(np.abs(fit.params / same.params - 1)))
                del table
            kept = [row for row in kept if (row["method"], row["rows"]) != (method, rows)]
            kept.append(
                {
                    "method": method, "rows": rows, "seconds": seconds, "memory": memory,
                    "seconds in memory": here, "ratio": seconds / here, "difference": apart,
                    "machine": platform.processor() or platform.machine(),
                }
            )  # fmt: skip
            print(*kept[-1].values(), flush=True)
            pd.DataFrame(kept).to_csv(PATH, index=False, float_format="%.3g")


if __name__ == "__main__":
    main([int(float(size)) for size in sys.argv[1:]])
