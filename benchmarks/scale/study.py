"""Time and memory on a local cluster of Dask, by number of rows, beside the same in memory; writes scale.csv.

Run: python benchmarks/scale/study.py 1e6 1e7 1e8 (ten minutes on two cores), of ols and adassp. Two
workers of a thread and 4 GiB each; rows of ten normal columns are made on the workers. Times of calls are
those of the fastest of twelve, but of one where rows do not fit here (the same call in memory takes up to
twice as long where the system finds no huge pages). `making`: of making the rows and nothing else, which is a
part of `seconds`, and `making in memory` the same in this process, which is no part of `seconds in memory`.
`memory`: the largest resident size of a worker, GiB; `seconds in memory`: of a pandas frame in this process,
where it fits; `difference`: largest relative one of the estimates, with the same seed.
`held`: seconds where the workers hold the rows before the call, as this process holds the frame, and
`held ratio` to those in memory. `cpu made`, `cpu`, `cpu in memory`: processor time of all processes for
`seconds`, `held` and `seconds in memory`, which says more on a busy machine; `system made`: what the system
takes of the first; `load`: that of the machine.
"""

import os
import platform
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

PATH = Path(__file__).with_name("scale.csv")
COLUMNS = [f"x{k}" for k in range(10)]
FORMULA = "y ~ " + " + ".join(COLUMNS)
PART, IN_MEMORY, CALLS = 200_000, 10_000_000, 12
FIELDS = (
    "method,rows,seconds,memory,seconds in memory,ratio,difference,held,held ratio,cpu,cpu in memory,load,"
    "making,cpu made,system made,making in memory,machine"
).split(",")


def part(index, rows=PART):
    g = np.random.default_rng([20261123, index])
    frame = pd.DataFrame(g.standard_normal((rows, 10)), columns=COLUMNS)
    return frame.assign(y=frame.sum(axis=1) + g.standard_normal(rows))


def peak():
    # (ru_maxrss would begin with that of the process that started this one)
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 2**20


def processor():
    """Processor time of this process, and the system's part of it."""
    times = os.times()
    return np.array([times.user + times.system, times.system])


def timed(method, table, calls, others=lambda: 0.0):
    """Of the fastest of some calls: seconds, processor time with that of others, and the system's part."""
    found = []
    for _ in range(calls):
        start, before = time.perf_counter(), processor() + others()
        getattr(dpstats, method)(FORMULA, table, eps=1)
        found.append((time.perf_counter() - start, *(processor() + others() - before)))
    return min(found)


def on_workers(method, rows):
    import dask.dataframe as dd
    from distributed import Client, LocalCluster, wait

    with (
        LocalCluster(2, threads_per_worker=1, memory_limit="4GiB", dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        table = dd.from_map(part, range(rows // PART), meta=part(0, 1))
        dpstats.ols(FORMULA, part(0), eps=1)

        def others():
            return sum(client.run(processor).values())

        client.run(part, 0)
        start = time.perf_counter()
        table.map_partitions(len).sum().compute()
        found, calls = {"making": time.perf_counter() - start}, 1 if rows > IN_MEMORY else CALLS
        found["seconds"], found["cpu made"], found["system made"] = timed(method, table, calls, others)
        found["memory"], fit = max(client.run(peak).values()), None
        if rows <= IN_MEMORY:
            fit = getattr(dpstats, method)(FORMULA, table, eps=1, seed=1)
            table = table.persist()
            wait(table)
            found["held"], found["cpu"], _ = timed(method, table, CALLS, others)
        return found, fit


def in_memory(method, rows, fit):
    start = time.perf_counter()
    table = pd.concat([part(i) for i in range(rows // PART)], ignore_index=True)
    found = {"making in memory": time.perf_counter() - start}
    found["seconds in memory"], found["cpu in memory"], _ = timed(method, table, CALLS)
    same = getattr(dpstats, method)(FORMULA, table, eps=1, seed=1)
    return found | {"difference": float(np.max(np.abs(fit.params / same.params - 1)))}


def main(sizes, methods):
    kept = pd.read_csv(PATH).to_dict("records") if PATH.exists() else []
    for rows in sizes:
        for method in methods:
            kept = [row for row in kept if (row["method"], row["rows"]) != (method, rows)]
            machine = platform.processor() or platform.machine()
            found, fit = on_workers(method, rows)
            if fit is not None:
                found |= in_memory(method, rows, fit)
                here = found["seconds in memory"]
                found |= {"ratio": found["seconds"] / here, "held ratio": found["held"] / here}
            kept.append(
                {"method": method, "rows": rows, "load": os.getloadavg()[0], "machine": machine} | found
            )
            print(kept[-1], flush=True)
            pd.DataFrame(kept, columns=FIELDS).to_csv(PATH, index=False, float_format="%.3g")


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word in ("ols", "adassp")]
    sizes = [int(float(word)) for word in sys.argv[1:] if word not in given]
    main(sizes, given or ("ols", "adassp"))
