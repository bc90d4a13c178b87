"""Time the depth functions, beside ddalpha and mrfDepth where R has them.

    python benchmarks/depth/run.py            # writes results.csv and README.md beside this file
    python benchmarks/depth/run.py --quick    # two repetitions, prints only

Every time is the median of the repetitions after one warm-up, in CPU seconds of one thread, so that other
work on the machine does not count. Stored times of the R packages
(R 4.2.2, mrfDepth 1.0.17, ddalpha 1.3.13, measured on another machine with two cores) are quoted where a
package is not installed.
"""

import argparse
import csv
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from dpstats import depth  # noqa: E402

HERE = Path(__file__).parent
STORED = {  # seconds, as recorded with the reference values
    "halfspace d=2 n=1000 m=1000": {"mrfDepth": 0.098, "ddalpha": 0.115},
    "halfspace d=3 n=200 m=200": {"mrfDepth": 0.689, "ddalpha": 0.514},
    "tukey_median d=2 n=500": {"mrfDepth": 0.218},
    "tukey_median d=2 n=1000": {"mrfDepth": 0.95},
    "tukey_median d=2 n=2000": {"mrfDepth": 6.82},
    "regression p=1 n=1000 m=1000": {"mrfDepth": 0.148},
    "regression p=2 n=200 m=100": {"mrfDepth": 0.355},
    "regression p=3 n=100 m=10": {"mrfDepth": 0.856},
    "deepest_regression n=500": {"mrfDepth": 4.06},
    "deepest_regression n=2000": {"mrfDepth": 145.9},
    "medsweep p=2 n=2000": {"mrfDepth": 0.002},
}
R_CODE = {
    ("ddalpha", "halfspace"): "depth.halfspace(z, x, exact = TRUE, method = 'recursive')",
    ("mrfDepth", "halfspace"): "hdepth(x, z)",
    ("mrfDepth", "tukey_median"): "hdepthmedian(x)",
    ("mrfDepth", "regression"): "rdepth(x, z)",
    ("mrfDepth", "deepest_regression"): "rdepthmedian(x)",
}
COMPARED = """\
## Beside mrfDepth, case by case

`python benchmarks/depth/mrfdepth.py` (a minute on one core) computes depths by mrfDepth, by dpstats and by a
brute force in exact arithmetic, on small tables: `mrfdepth.csv`, a row for each function and kind of data,
and `mrfdepth_flag.csv`, for `rdepth` with three covariates. With `--tests` it runs the tests marked
`mrfdepth` instead: `mrfdepth_tests.csv`. Both need R with mrfDepth, and CI runs neither:

    tools/install_mrfdepth.sh FOLDER LIBRARY    # FOLDER: the unpacked source of mrfDepth
    R_LIBS=LIBRARY python benchmarks/depth/mrfdepth.py
    R_LIBS=LIBRARY python benchmarks/depth/mrfdepth.py --tests
"""
SLOW = 60.0  # a stored time above which R is not run again


def cases():
    """Yield ``(name, call, table for R, queries for R)``."""
    rng = np.random.default_rng(20261121)
    for d, n in ((2, 1000), (3, 200)):
        X = rng.standard_normal((n, d))
        Z = rng.standard_normal((n, d))
        yield f"halfspace d={d} n={n} m={n}", lambda X=X, Z=Z: depth.halfspace(Z, X), X, Z
    for n in (500, 1000, 2000):
        X = rng.standard_normal((n, 2))
        yield f"tukey_median d=2 n={n}", lambda X=X: depth.tukey_median(X), X, None
    X = rng.standard_normal((200, 3))
    yield "tukey_median d=3 n=200", lambda X=X: depth.tukey_median(X), None, None
    for n in (500, 2000):
        X = rng.standard_normal((n, 2))
        yield (
            f"contours, every depth, n={n}",
            lambda X=X: depth.contours(X, np.arange(1, len(X) // 2)),
            None,
            None,
        )
    for p, n, m in ((1, 1000, 1000), (2, 200, 100), (3, 100, 10)):
        X = rng.standard_normal((n, p))
        y = X.sum(axis=1) + rng.standard_normal(n)
        F = np.column_stack([np.zeros(m), np.ones((m, p))]) + 0.3 * rng.standard_normal((m, p + 1))
        yield (
            f"regression p={p} n={n} m={m}",
            lambda F=F, X=X, y=y: depth.regression(F, X, y),
            np.column_stack([X, y]),
            F,
        )
    for n in (500, 2000):
        x = rng.standard_normal(n)
        y = x + rng.standard_normal(n)
        yield (
            f"deepest_regression n={n}",
            lambda x=x, y=y: depth.deepest_regression(x, y),
            np.column_stack([x, y]),
            None,
        )
    for n in (500, 5000):
        x = rng.standard_normal(n)
        y = x + rng.standard_normal(n)
        yield f"regression_levels n={n}", lambda x=x, y=y: depth.regression_levels(x, y), None, None
        yield f"vertices, all, n={n}", lambda x=x, y=y: depth.vertices(x, y), None, None
    x, y = rng.integers(0, 30, (2, 500)) / 10
    yield "vertices, all, n=500, ties", lambda x=x, y=y: depth.vertices(x, y), None, None
    X = rng.standard_normal((2000, 2))
    y = X @ [1, 2] + rng.standard_normal(2000)
    yield "medsweep p=2 n=2000", lambda X=X, y=y: depth.medsweep(X, y), None, None


def seconds(call, repetitions):
    call()
    times = []
    for _ in range(repetitions):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return statistics.median(times)


def installed(package):
    if shutil.which("Rscript") is None:
        return False
    code = f"quit(status = !requireNamespace('{package}', quietly = TRUE))"
    return subprocess.run(["Rscript", "--vanilla", "-e", code], capture_output=True).returncode == 0


def seconds_in_r(package, call, table, queries):
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(Path(folder) / "x.csv", table, delimiter=",")
        read = "x <- as.matrix(read.csv('x.csv', header = FALSE)); "
        if queries is not None:
            np.savetxt(Path(folder) / "z.csv", queries, delimiter=",")
            read += "z <- as.matrix(read.csv('z.csv', header = FALSE)); "
        code = (
            f"suppressMessages(library({package})); {read}"
            f"times <- replicate(3, sum(system.time(suppressWarnings({call}))[1:2])); cat(median(times))"
        )
        found = subprocess.run(
            ["Rscript", "--vanilla", "-e", code], cwd=folder, capture_output=True, text=True, check=True
        )
    return float(found.stdout.split()[-1])


def peak_memory(n):
    """Peak resident memory in MB that :func:`regression_levels` adds at n rows, in a fresh process."""
    code = f"""
import resource, numpy as np
from dpstats import depth
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
x, y = np.random.default_rng(0).normal(size=(2, {n}))
depth.regression_levels(x[:50], y[:50])
before = peak()
depth.regression_levels(x, y)
print(peak() - before)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(found.stdout) / 1024


def machine():
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next(
            (line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line),
            model,
        )
    import numba
    import scipy

    versions = {
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }
    return f"{model}, {os.cpu_count()} cores, {platform.system()}; " + ", ".join(
        f"{k} {v}" for k, v in versions.items()
    )


def report(rows, memory, where):
    lines = [
        "# Speed of the depth functions",
        "",
        f"Machine: {where}.",
        "CPU seconds of one thread, median after a warm-up (`python benchmarks/depth/run.py`).",
        "Times marked * are stored ones, elapsed seconds on another machine with two cores.",
        "",
        "| case | dpstats | mrfDepth | ddalpha |",
        "|---|---:|---:|---:|",
    ]
    for row in rows:
        cells = []
        for package in ("mrfDepth", "ddalpha"):
            value, source = row[package], row[f"{package}_source"]
            cells.append("" if value == "" else f"{value:.3g}" + ("*" if source == "stored" else ""))
        lines.append(f"| {row['case']} | {row['dpstats']:.3g} | {cells[0]} | {cells[1]} |")
    lines += [
        "",
        "`regression_levels` visits every vertex of the arrangement (124,750 at n = 500, 12,497,500 at",
        "n = 5,000) and keeps the extremes of every depth; the peak memory of the process is",
        f"{memory:.1f} MB higher at n = 5,000 than at n = 50, where it is that of starting up.",
        "`vertices` also returns them all.",
        "mrfDepth's `rdepthmedian` is deepest in 2 of the 9 stored cases; `deepest_regression` always is.",
        "",
        *COMPARED.splitlines(),
        "",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    have = {package: installed(package) for package in ("mrfDepth", "ddalpha")}
    rows = []
    for name, call, table, queries in cases():
        row = {"case": name, "dpstats": seconds(call, 2 if quick else 5)}
        for package in ("mrfDepth", "ddalpha"):
            code = R_CODE.get((package, name.split()[0]))
            stored = STORED.get(name, {}).get(package, "")
            row[package], row[f"{package}_source"] = stored, "stored" if stored != "" else ""
            if have[package] and code and table is not None and (stored == "" or stored < SLOW):
                row[package], row[f"{package}_source"] = (
                    seconds_in_r(package, code, table, queries),
                    "measured",
                )
        rows.append(row)
        print(json.dumps(row), flush=True)
    memory = peak_memory(5000)
    where = machine()
    print(report(rows, memory, where))
    if quick:
        return
    with open(HERE / "results.csv", "w", newline="") as file:
        file.write(f"# {where}; peak memory of regression_levels at n=5000 above n=50: {memory:.1f} MB\n")
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()})
    (HERE / "README.md").write_text(report(rows, memory, where))


if __name__ == "__main__":
    main()
