"""What the first call of every estimator takes: with nothing compiled before, and with the code of an earlier
process.

Run: python benchmarks/first_call.py [estimator ...]; writes first_call.csv

Every row is two new processes with one folder for compiled code, empty before the first. Processor time
beside wall time: a busy machine lengthens the wall time only (most of it; shared caches cost some of both).
"""

import csv
import importlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
BOUNDS = {"x": (-10, 10), "z": (-10, 10), "y": (-50, 50)}
VARIANTS = {
    "deepest_regression, smooth": ("deepest_regression", "y ~ x", {"bounds": BOUNDS, "mechanism": "smooth"}),
    "median, smooth": ("median", "y ~ 1", {"bounds": BOUNDS, "mechanism": "smooth"}),
    "tukey_median, three columns": ("tukey_median", "y + x + z ~ 1", {"bounds": BOUNDS}),
}
ROWS = {
    "deepest_regression": 500,
    "tukey_median": 500,
    "medsweep": 3_000,
}  # others 20,000; few, so that compiling is what is seen
STEPS = ("import_s", "touch_s", "first_fit_s", "second_fit_s")
COLUMNS = [
    "estimator", "import_s", "touch_s", "first_fit_cold_s", "first_fit_warm_s", "second_fit_s",
    "touch_cpu_s", "first_fit_cold_cpu_s", "first_fit_warm_cpu_s", "machine", "load",
]  # fmt: skip


def calls():
    """Function, formula and own parameters by name: the audited estimators of the list and the variants."""
    from dpstats._estimators import AUDITED, ESTIMATORS

    listed = {name: (name, ESTIMATORS[name].formula, ESTIMATORS[name].own) for name in AUDITED}
    return dict(sorted((listed | VARIANTS).items()))


def one(name):
    """Wall and processor seconds of import, of touching the name, and of two fits, in this process."""
    wall, cpu = [], []

    def timed(step):
        start, before = time.perf_counter(), time.process_time()
        made = step()
        cpu.append(time.process_time() - before)
        wall.append(time.perf_counter() - start)
        return made

    dpstats = timed(lambda: importlib.import_module("dpstats"))
    function, formula, own = calls()[name]
    fit = timed(lambda: getattr(dpstats, function))
    import numpy as np

    g = np.random.default_rng(0)
    n = ROWS.get(function, 20_000)
    x, z = g.standard_normal((2, n))
    data = {"x": x, "z": z, "y": 5 + 2 * x - z + g.standard_normal(n)}
    for _ in range(2):
        timed(lambda: fit(formula, data, eps=4, **own))
    print(*wall, *cpu)


def measured(name, folder):
    done = subprocess.run(
        [sys.executable, __file__, "--one", name],
        env=os.environ | {"NUMBA_CACHE_DIR": folder},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds = [float(s) for s in done.stdout.split()]
    return dict(zip(STEPS, seconds[:4], strict=True)), dict(zip(STEPS, seconds[4:], strict=True))


def row(name):
    with tempfile.TemporaryDirectory() as folder:
        cold, cold_cpu = measured(name, folder)
        warm, warm_cpu = measured(name, folder)
    seconds = {
        "import_s": warm["import_s"],
        "touch_s": warm["touch_s"],
        "first_fit_cold_s": cold["first_fit_s"],
        "first_fit_warm_s": warm["first_fit_s"],
        "second_fit_s": warm["second_fit_s"],
        "touch_cpu_s": warm_cpu["touch_s"],
        "first_fit_cold_cpu_s": cold_cpu["first_fit_s"],
        "first_fit_warm_cpu_s": warm_cpu["first_fit_s"],
    }
    return {
        "estimator": name,
        **{key: f"{value:.3g}" for key, value in seconds.items()},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, numba {version('numba')}",
        "load": round(os.getloadavg()[0], 1),
    }


def main(names):
    path = HERE / "first_call.csv"
    rows = {}
    if names and path.exists():
        with path.open(newline="") as file:
            rows = {r["estimator"]: r for r in csv.DictReader(file)}
    for name in names or calls():
        rows[name] = row(name)
        print(*(rows[name][key] for key in COLUMNS[:9]), flush=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[name] for name in calls() if name in rows)


if __name__ == "__main__":
    one(sys.argv[2]) if sys.argv[1:2] == ["--one"] else main(sys.argv[1:])
