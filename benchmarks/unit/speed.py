"""A million rows of a hundred thousand units, with `unit=` and without, side by side; writes speed.csv.
Ten million rows of a million units from a Parquet file, and the memory that it takes; writes memory.csv.

Run: python benchmarks/unit/speed.py (ten minutes). Medians of five runs that take turns, formula and frame or
path of a Parquet file in, table out, rows in random order; compiled code is there before. Memory is the peak
of a process of its own, with what it had after `import dpstats` and a call on few rows; one run each.
"""

import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

HERE = Path(__file__).parent
ROWS, UNITS, RUNS, MANY = 1_000_000, 100_000, 5, 10
FORMULA = "y ~ " + " + ".join(f"x{j}" for j in range(1, 10))
MACHINE = platform.processor() or platform.machine()


def frame(rows, units, seed=0):
    g = np.random.default_rng(seed)
    X = g.standard_normal((rows, 9))
    unit = g.integers(units, size=rows)
    effects = np.random.default_rng(0).standard_normal(units)
    y = X @ np.linspace(-1, 1, 9) + effects[unit] + g.standard_normal(rows)
    columns = {f"x{j + 1}": X[:, j] for j in range(9)}
    return pd.DataFrame(columns | {"y": y, "number": unit, "text": np.char.add("p", unit.astype(str))})


def seconds(method, table, runs=RUNS):
    formula = FORMULA.replace("y", "I(y > 0)") if method == "logit" else FORMULA
    calls = {"none": {}, "numbers": {"unit": "number"}, "texts": {"unit": "text"}}
    taken = {name: [] for name in calls}
    for run in range(runs + 1):
        for name, given in calls.items():
            start = time.perf_counter()
            getattr(dpstats, method)(formula, table, eps=1, seed=run, **given).summary().as_text()
            if run:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def times(folder):
    table, path, out = frame(ROWS, UNITS), folder / "rows.parquet", []
    table.to_parquet(path)
    for method in ("ols", "huber", "adassp", "tukey_em", "logit"):
        for name, data in {"frame": table, "file": str(path)}.items():
            found = seconds(method, data)
            for units in ("numbers", "texts"):
                ratio = found[units] / found["none"]
                given = {"method": method, "data": name, "units": units, "seconds": found[units]}
                out.append(given | {"without": found["none"], "ratio": ratio, "machine": MACHINE})
                print(*out[-1].values(), flush=True)
    pd.DataFrame(out).to_csv(HERE / "speed.csv", index=False, float_format="%.3g")


CALL = """
import sys, time, dpstats
few, path, method, formula, unit = sys.argv[1:]
given = {"unit": unit} if unit else {}
call = lambda data: getattr(dpstats, method)(formula, data, eps=1, seed=1, **given).summary().as_text()
call(few)
start = time.perf_counter()
call(path)
taken = time.perf_counter() - start
status = open("/proc/self/status").read()
print(taken, int(status.split("VmHWM:")[1].split()[0]) / 2**20)
"""


def memory(folder):
    from pyarrow import Table
    from pyarrow.parquet import ParquetWriter

    few, path, out = folder / "few.parquet", folder / "many.parquet", []
    frame(100_000, 20_000).to_parquet(few)
    first = Table.from_pandas(frame(1, 1))
    with ParquetWriter(path, first.schema) as file:
        for i in range(MANY):
            file.write_table(Table.from_pandas(frame(ROWS, MANY * UNITS, i)).cast(first.schema))
    for method in ("ols", "logit"):
        formula = FORMULA.replace("y", "I(y > 0)") if method == "logit" else FORMULA
        for unit in ("", "number", "text"):
            given = [str(few), str(path), method, formula, unit]
            done = subprocess.run([sys.executable, "-c", CALL, *given], capture_output=True, check=True)
            taken, peak = map(float, done.stdout.split())
            out.append({
                "method": method, "units": {"": "none"}.get(unit, unit + "s"), "rows": MANY * ROWS,
                "seconds": taken, "peak": peak, "machine": MACHINE,
            })  # fmt: skip
            print(*out[-1].values(), flush=True)
    pd.DataFrame(out).to_csv(HERE / "memory.csv", index=False, float_format="%.3g")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as found:
        for what in sys.argv[1:] or ("times", "memory"):
            {"times": times, "memory": memory}[what](Path(found))
