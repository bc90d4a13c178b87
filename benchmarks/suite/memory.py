"""Peak memory that a fit adds to a process that already holds the data, one process for each method."""

import json
import math
import subprocess
import sys
from pathlib import Path

KEY = ["method", "rows", "columns"]
SIZES = {
    "quick": [(100_000, 10), (1_000_000, 10)],
    "full": [(10_000, 10), (100_000, 10), (1_000_000, 10), (4_000_000, 10)],
}
METHODS = (
    "statsmodels ols", "ols", "tukey_em", "boosted_adassp", "adassp", "huber", "gradient_descent",
    "diffprivlib",
)  # fmt: skip
KNOWN = ("method", METHODS)
CHILD = """
import gc, json, sys
sys.path.insert(0, sys.argv[1])
from suite import memory, speed
name, rows, columns = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
speed.MANY[name](speed.problem(20_000, 2))  # imports and compiled code
p = speed.problem(rows, columns)
gc.collect()
before = memory.restart_peak()
speed.MANY[name](p)
print(json.dumps({"added_mib": memory.peak() - before, "data_mib": p.frame.memory_usage().sum() / 2**20}))
"""


def restart_peak():
    """Forget the peak so far (Linux); resident memory in MiB."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _status("VmRSS")


def peak():
    """Peak resident memory in MiB."""
    return _status("VmHWM")


def _status(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(field))


def tasks(mode, folder):
    """One task for each method and size."""
    if not Path("/proc/self/clear_refs").exists():
        return []
    return [{"method": m, "rows": n, "columns": d} for n, d in reversed(SIZES[mode]) for m in METHODS]


def run(task):
    """One row; a method that fails on these data has no number."""
    arguments = [str(Path(__file__).parents[1]), task["method"], str(task["rows"]), str(task["columns"])]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=False
    )
    if child.returncode:
        return [task | {"added_mib": math.nan, "data_mib": math.nan, "failure": "failed"}]
    return [task | json.loads(child.stdout.splitlines()[-1]) | {"failure": ""}]


def summary(raw):
    """The rows as they are."""
    return ordered(raw)


def ordered(table):
    """By size and method."""
    order = {name: i for i, name in enumerate(METHODS)}
    return table.sort_values(
        ["rows", "method"], key=lambda c: c.map(order) if c.name == "method" else c, ignore_index=True
    )
