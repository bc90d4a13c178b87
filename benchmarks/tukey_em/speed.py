"""Speed and memory of tukey_em.

    python benchmarks/tukey_em/speed.py

Writes ``speed.csv``: medians of one run, side by side. 10^6 rows by 10 columns in a data frame against
``statsmodels.formula.api.ols(...).fit()``; the mechanism on arrays against ``X.T @ X``; and the peak memory of
a fit of a Parquet file of 10^7 rows, in a process of its own.
"""

import csv
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROWS = 10**6
COLUMNS = [f"x{j}" for j in range(10)]
FORMULA = f"y ~ {' + '.join(COLUMNS)}"

STREAM = """
import resource, sys, time
import dpstats
start = time.perf_counter()
dpstats.tukey_em(sys.argv[2], sys.argv[1], eps=1)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def median_time(function, repeats=7):
    """Median seconds of `function`, after one call to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def frame(rows, seed):
    """A linear data set."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 10))
    return pd.DataFrame(X, columns=COLUMNS).assign(y=X @ np.arange(10.0) + rng.standard_normal(rows))


def write_parquet(path):
    """10^7 rows in ten row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for part in range(10):
        table = pa.Table.from_pandas(frame(ROWS, part), preserve_index=False)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def main():
    """Measure and write the table."""
    import statsmodels.formula.api as smf

    import dpstats
    from dpstats.data.sources import open_source
    from dpstats.engines.local import Arrays
    from dpstats.formula.design import Design
    from dpstats.mechanisms.rng import Randomness
    from dpstats.regression import tukey_em

    data = frame(ROWS, 0)
    design = Design.from_formula(FORMULA, open_source(data).schema)
    X = np.ascontiguousarray(data[COLUMNS].to_numpy())
    arrays = Arrays(*next(iter(design.blocks(open_source(data)))))
    plan = tukey_em._plan(design, 1.0, 1e-6, None, True, "add-remove", False)
    product = median_time(lambda: X.T @ X, 21)
    ols = median_time(lambda: smf.ols(FORMULA, data).fit(), 3)
    rows = [
        ("X.T @ X, 10^6 x 10", product, "", ""),
        ("tukey_em, mechanism on arrays", t := median_time(lambda: tukey_em._release(arrays, plan, Randomness())), t / product, "X.T @ X"),
        ("statsmodels smf.ols(...).fit()", ols, "", ""),
        ("tukey_em, formula and frame", t := median_time(lambda: dpstats.tukey_em(FORMULA, data, eps=1)), t / ols, "smf.ols"),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "rows.parquet")
        write_parquet(path)
        run = subprocess.run(
            [sys.executable, "-c", STREAM, path, FORMULA], capture_output=True, text=True, check=True
        )
    seconds, mebibytes = map(float, run.stdout.split())
    rows.append(("tukey_em, Parquet file of 10^7 rows", seconds, mebibytes, "MiB at the peak"))
    path = Path(__file__).with_name("speed.csv")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["what", "seconds", "ratio_or_memory", "to", "machine"])
        machine = f"{os.cpu_count()} cores {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}"
        for what, seconds, ratio, unit in rows:
            writer.writerow([what, f"{seconds:.4f}", f"{ratio:.3g}" if ratio else "", unit, machine])
    print(path.read_text())


if __name__ == "__main__":
    main()
