"""Coverage of the 95 % intervals, by design, estimator, size, budget and coefficient.

    python benchmarks/intervals/study.py                                   # everything: days
    python benchmarks/intervals/study.py --minutes 10 --runs 60            # a piece; again for the next one
    python benchmarks/intervals/study.py --estimators ols --designs "VIF 20" --sizes 2000 --eps 1
    python benchmarks/intervals/study.py --summary [--output TABLE.csv]    # what is there, as a table

Data set i of a design is the same for all estimators and budgets, and its release has seed i; delta = 1e-6.
Cells (design, estimator, rows, eps) that are there, from the same code and with as many data sets, are
skipped. Each row names its run; the table of runs beside the output has code, commit, designs and machine.

Columns: `refused` data sets with ReleaseFailed or another refusal, `crashed` with any other error; of the
rest `undetermined` have a NaN interval and `given` have one. `covered` of those hold the truth, `below` and
`above` lie below and above it. `width` is their mean over the mean of the HC1 intervals of least squares
without privacy (of the first 20 data sets); `bias` is the distance of the mean estimate from the truth, and
`spread` the standard deviation of the estimates, both in (root mean square) standard errors: 0 and 1 for
standard errors that are right. Of coefficients that are pooled (``designs.py``) a data set counts once each,
and `bias` and `spread` are of the errors of all of them.
"""

import argparse
import hashlib
import math
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from designs import DESIGNS, ESTIMATORS, data, least_squares  # noqa: E402
from suite import environment, pool, store  # noqa: E402

import dpstats  # noqa: E402

OUTPUT = HERE.parents[1] / "build" / "bench" / "intervals.csv"
CELL = ["design", "estimator", "n", "eps"]
BARS = 0.93, 0.98
ALPHA = 0.01
Z = stats.norm.ppf(0.975)
REFERENCES = 20
LIMIT = 6 * 3600  # seconds of one cell


def main(arguments=None):
    """Run the cells that are missing, or print the summary."""
    options = parse(arguments)
    if options.summary:
        if not options.output.exists():
            sys.exit(f"there is no table {options.output}: run the study, or name another with --output.")
        print(summary(chosen(read(options.output), options)).to_string(index=False))
        return
    run = environment.describe("intervals") | {"commit": commit(), "designs": digest()}
    log = options.output.with_name(options.output.stem + "_runs.csv")
    todo = missing(tasks(options), read(options.output), read(log), run)
    print(f"{len(todo)} cells", flush=True)
    until = time.time() + 60 * options.minutes
    todo = [task | {"until": until} for task in todo]
    for task, rows, error in pool.run(cell, todo, options.workers, limit=LIMIT):
        if error:
            print(f"{task}: {error}", flush=True)
        elif rows:
            save(pd.DataFrame(rows).assign(run=run["run"]), options.output)
            used = read(options.output)["run"]
            runs = store.merge(read(log), pd.DataFrame([run]), ["run"])
            store.write(runs[runs["run"].isin(used)].sort_values("run"), log.name, log.parent)
            print(", ".join(str(task[k]) for k in CELL), flush=True)


def parse(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400, help="data sets")
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS), metavar="DESIGN")
    parser.add_argument("--estimators", nargs="+", choices=ESTIMATORS, default=list(ESTIMATORS))
    parser.add_argument("--sizes", nargs="+", type=int, help="by default each design's own")
    parser.add_argument("--eps", nargs="+", type=float, default=[0.5, 1.0, 3.0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no cell after this time")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--summary", action="store_true")
    return parser.parse_args(arguments)


def tasks(options):
    """The cells asked for: by estimator, then small data first."""
    return [
        {"design": name, "estimator": estimator, "n": n, "eps": eps, "runs": options.runs}
        for estimator in options.estimators
        for n in sorted({n for design in DESIGNS.values() for n in design.sizes})
        for eps in options.eps
        for name in options.designs
        if estimator in DESIGNS[name].estimators and n in DESIGNS[name].sizes
        if options.sizes is None or n in options.sizes
    ]


def missing(wanted, rows, runs, run):
    """The tasks without rows of the same code and designs and at least as many data sets."""
    if rows.empty:
        return wanted
    alike = (runs["code"] == run["code"]) & (runs["designs"] == run["designs"])
    same = rows[rows["run"].isin(runs.loc[alike, "run"])]
    done = same.groupby(CELL)["runs"].min().to_dict()
    return [task for task in wanted if done.get(tuple(task[k] for k in CELL), 0) < task["runs"]]


def cell(task):
    """The rows of a cell; None after ``task["until"]``."""
    if time.time() > task["until"]:
        return None
    os.environ["DPSTATS_DEBUG"] = "1"  # a crash is not counted as a failed private test
    return study(getattr(dpstats, task["estimator"]), task)


def study(estimator, task):
    """One row for each coefficient of a cell.

    Parameters
    ----------
    estimator : callable
        Takes ``(formula, frame, *, eps, bounds, seed)``; its result has ``params`` and ``conf_int()``.
    task : dict
        ``design``, ``estimator``, ``n``, ``eps``, ``runs``.
    """
    design, key = DESIGNS[task["design"]], {k: task[k] for k in CELL}
    fits, reference, failed, names = [], [], {"refused": 0, "crashed": 0}, None
    for i in range(task["runs"]):
        frame, truth = data(task["design"], task["n"], i)
        if i < REFERENCES:
            reference.append(2 * Z * least_squares(design.formula, frame)[1])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit = estimator(design.formula, frame, eps=task["eps"], bounds=design.bounds, seed=i)
        except TimeoutError:  # of the pool
            raise
        except Exception as error:
            failed["refused" if isinstance(error, dpstats.errors.DpstatsError) else "crashed"] += 1
            continue
        names = list(fit.params.index)
        fits.append(np.column_stack([fit.params, fit.conf_int()]))
    reference, d = np.mean(reference, axis=0), len(truth)
    fits = np.reshape(fits, (-1, d, 3))
    parts = [slice(j, j + 1) for j in range(design.pooled or d)]
    if design.pooled:
        parts.append(slice(design.pooled, d))
    labels = names or [f"coefficient {j}" for j in range(d)]
    return [
        key
        | {"coefficient": labels[p.start] + " ..." * (p.stop - p.start > 1), "runs": task["runs"], **failed}
        | counted(fits[:, p], truth[p], reference[p])
        for p in parts
    ]


def counted(fits, truth, reference):
    """What intervals of estimate and truth come to.

    Parameters
    ----------
    fits : (data sets, k, 3) array
        Estimate and both ends of the interval.
    truth : (k,) array
        NaN where there is none: an interval that is given does not cover.
    reference : (k,) array
        Mean width without privacy.
    """
    width = fits[..., 2] - fits[..., 1]
    given = np.isfinite(width)
    error, low, high = (fits - truth[:, None])[given].T
    found = {
        "undetermined": int(np.sum(~given)), "given": len(low),
        "covered": int(np.sum((low <= 0) & (high >= 0))),
        "below": int(np.sum(high < 0)), "above": int(np.sum(low > 0)),
    }  # fmt: skip
    if len(low) == 0:
        return found | dict.fromkeys(("coverage", "width", "bias", "spread"), math.nan)
    scale = math.sqrt(np.mean((width[given] / (2 * Z)) ** 2))
    return found | {
        "coverage": found["covered"] / len(low),
        "width": np.mean((width / reference)[given]),
        "bias": abs(np.mean(error)) / scale,
        "spread": np.std(error) / scale,
    }


def missed(covered, given):
    """The bars that a coefficient misses beyond Monte Carlo error, each with false-alarm rate `ALPHA`."""
    low, high = BARS
    if given and stats.binom.cdf(covered, given, low) < ALPHA:
        return "93"
    return "98" if given and stats.binom.sf(covered - 1, given, high) < ALPHA else ""


def summary(rows):
    """Designs down: worst and median coverage over coefficients, shares, and the bars that are missed."""
    lines = []
    for key, cell_rows in rows.groupby(["estimator", "n", "eps", "design"], sort=False):
        shown = cell_rows[cell_rows["given"] > 0]
        worst = shown.loc[shown["coverage"].idxmin(), "coefficient"] if len(shown) else ""
        fits = cell_rows["undetermined"].sum() + cell_rows["given"].sum()
        bars = {missed(c, g) for c, g in zip(shown["covered"], shown["given"], strict=True)} - {""}
        runs = cell_rows["runs"].iloc[0]
        lines.append(dict(zip(["estimator", "n", "eps", "design"], key, strict=True)) | {
            "runs": runs,
            "refused": cell_rows["refused"].iloc[0] / runs,
            "crashed": cell_rows["crashed"].iloc[0] / runs,
            "undetermined": cell_rows["undetermined"].sum() / fits if fits else math.nan,
            "worst": shown["coverage"].min(),
            "of": worst if len(worst) <= 20 else f"{worst[:5]}...{worst[-6:]}",
            "median": shown["coverage"].median(),
            "width": shown["width"].median(),
            "misses": " ".join(sorted(bars)),
        })  # fmt: skip
    return pd.DataFrame(lines).round(3)


def chosen(rows, options):
    """The rows of the cells asked for."""
    cells = {tuple(task[k] for k in CELL) for task in tasks(options)}
    return rows[[key in cells for key in rows[CELL].itertuples(index=False, name=None)]]


def read(path):
    """A table as written; an empty frame if there is none."""
    return (
        pd.read_csv(path, dtype=dict.fromkeys(("code", "commit", "designs"), str))
        if path.exists()
        else pd.DataFrame()
    )


def save(rows, path):
    """Put the rows of a cell in place of those that are there, in the order of the tasks."""
    old = read(path)
    if len(old):
        same = (old[CELL] == rows[CELL].iloc[0]).all(axis=1)
        rows = pd.concat([old[~same], rows])
    order = {name: i for i, name in enumerate([*ESTIMATORS, *DESIGNS])}
    rows = rows.sort_values(["estimator", "n", "eps", "design"], kind="stable",
                            key=lambda c: c.map(order) if c.name in CELL[:2] else c)  # fmt: skip
    store.write(rows, path.name, path.parent)


def digest():
    """Of the designs, so that results on other designs are told apart."""
    return hashlib.sha256((HERE / "designs.py").read_bytes()).hexdigest()[:12]


def commit():
    """The commit that is checked out, with a + if files differ from it."""

    def git(*words):
        return subprocess.run(["git", "-C", str(HERE), *words], capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") + "+" * bool(git("status", "--porcelain", "dpstats"))


if __name__ == "__main__":
    main()
