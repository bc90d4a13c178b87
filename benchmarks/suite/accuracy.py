"""Accuracy: in-sample R-squared of every regression estimator on every problem, failures counted."""

import math
import time
import warnings

import numpy as np
import pandas as pd

from suite import problems
from suite.methods import METHODS, OURS, PLAIN

EPS = {"0.5": 0.5, "1": 1.0, "ln 3": math.log(3), "3": 3.0}
DELTA = 1e-5
RUNS = {"quick": 10, "full": 40}
KEY = ["data", "columns", "method", "eps"]
KNOWN = ("method", METHODS)


def tasks(mode, folder):
    """One task for each problem, method and budget, the slow ones first."""
    found = []
    for data, columns in problems.sets(folder):
        for name, method in METHODS.items():
            if columns in method.columns:
                runs = max(1, round(RUNS[mode] * method.share))
                for eps in [""] if method.kind == PLAIN else EPS:
                    task = {"data": data, "columns": columns, "method": name, "eps": eps, "runs": runs}
                    found.append(task | {"folder": folder})
    return sorted(found, key=lambda t: METHODS[t["method"]].share)


def run(task):
    """The rows of one task: seeds 0, 1, ..."""
    problem = problems.load(task["data"], task["columns"], task["folder"])
    size = {"rows": len(problem.y), "covariates": problem.X.shape[1]}
    return [
        {k: task[k] for k in KEY} | size | _once(METHODS[task["method"]], problem, EPS.get(task["eps"]), seed)
        for seed in range(task["runs"])
    ]


def _once(method, problem, eps, seed):
    start, r2, failure = time.perf_counter(), math.nan, ""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            r2 = problem.r_squared(method.predict(problem, eps, DELTA, seed))
        if not math.isfinite(r2):
            r2, failure = math.nan, "not finite"
    except Exception as error:  # whatever a package raises is a fit that was not given
        failure = type(error).__name__
    return {"seed": seed, "r2": r2, "failure": failure, "seconds": time.perf_counter() - start}


def summary(raw):
    """Median and quartiles over the runs that gave a fit, and how many did not."""

    def row(group):
        r2, failed = group["r2"].dropna(), group["r2"].isna()
        q25, median, q75 = np.quantile(r2, [0.25, 0.5, 0.75]) if len(r2) else [math.nan] * 3
        least = r2.min() if len(r2) else math.nan
        reasons = sorted(set(group.loc[failed, "failure"]))
        return pd.Series({
            "rows": group["rows"].iloc[0], "covariates": group["covariates"].iloc[0],
            "kind": METHODS[group.name[2]].kind, "runs": len(group), "failed": failed.sum(),
            "failure": "; ".join(reasons),
            "q25": q25, "median": median, "q75": q75, "least": least, "seconds": group["seconds"].median(),
        })  # fmt: skip

    return ordered(raw.groupby(KEY, sort=False).apply(row, include_groups=False).reset_index())


def ordered(table):
    """By data set, columns, method and budget."""
    order = {name: i for i, name in enumerate([*problems.REAL, "headline", *problems.SYNTHETIC])}
    methods = {name: i for i, name in enumerate(METHODS)}
    ranks = {"data": order, "method": methods, "eps": {"": 0} | {e: i for i, e in enumerate(EPS)}}
    return table.sort_values(
        KEY, key=lambda c: c.map(ranks[c.name]) if c.name in ranks else c, ignore_index=True
    )


def checked(raw):
    """The rows that a later run is compared with: those of dpstats with its defaults."""
    ours = [name for name, method in METHODS.items() if method.kind == OURS]
    return raw.loc[raw["method"].isin(ours), [*KEY, "seed", "r2"]]
