"""Speed: whole calls on growing data, interleaved with ``X.T @ X``, statsmodels and other packages.

The times of one table are taken in turn, round after round, in one process that has the machine to itself, so
that a slow moment hits all of them, each without the garbage of the one before. Releases are not seeded:
noise and random bits cost what they cost a user.
"""

import gc
import inspect
import math
import time
import warnings

import numpy as np
import pandas as pd

import dpstats
from suite import methods
from suite.problems import Problem

EPS, DELTA = 1.0, 1e-6
ROUNDS = {"quick": 5, "full": 11}
KEY = ["table", "method", "rows", "columns"]
TABLES = {  # (rows, columns)
    "rows": [(10_000, 10), (100_000, 10), (1_000_000, 10)],
    "columns": [(100_000, 2), (100_000, 5), (100_000, 10), (100_000, 20), (100_000, 50)],
    "one covariate": [(1_000, 1), (4_000, 1), (16_000, 1), (100_000, 1)],
}
BOUNDS = (-12.0, 12.0)
BASES = ("statsmodels ols", "X.T @ X")  # what the others are compared with is always timed
LONGEST = {
    "quick": 1.5,
    "full": 10.0,
}  # seconds of one call; a method that took longer is not given larger data


def problem(rows, columns):
    """A linear data set."""
    g = np.random.default_rng(0)
    X = g.standard_normal((rows, columns))
    y = X.sum(axis=1) + g.standard_normal(rows)
    names = [f"x{j}" for j in range(columns)]
    frame = pd.DataFrame(X, columns=names).assign(y=y)
    return Problem(f"y ~ {' + '.join(names)}", frame, X, y, np.ones(rows, bool))


def ours(name, **own):
    """A whole call: formula and frame in, results out."""
    function = getattr(dpstats, name)
    budget = {"eps": EPS} | ({"delta": DELTA} if "delta" in inspect.signature(function).parameters else {})
    return lambda p: function(p.formula, p.frame, **budget, **own)


def statsmodels(p):
    """The non-private call that a user would write."""
    import statsmodels.formula.api as smf

    return smf.ols(p.formula, p.frame).fit()


def peer(predict):
    """Another package on arrays, with its prediction, which is a small part."""
    return lambda p: predict(p, EPS, DELTA, None)


MANY = {
    "X.T @ X": lambda p: p.X.T @ p.X,
    "statsmodels ols": statsmodels,
    **{
        n: ours(n)
        for n in ("ols", "tukey_em", "boosted_adassp", "adassp", "huber", "gradient_descent", "medsweep")
    },
    "diffprivlib": peer(methods._diffprivlib),
    "DP-EBM": peer(methods._dp_ebm),
}
ONE = {
    "statsmodels ols": statsmodels,
    "ols": ours("ols"),
    "deepest_regression": ours("deepest_regression", bounds={"y": BOUNDS}),
    "medsweep": ours("medsweep"),
    "theil_sen": ours("theil_sen"),
    "noisy_stats": ours("noisy_stats", bounds={"x0": BOUNDS, "y": BOUNDS}),
    "OpenDP Theil-Sen": peer(methods._opendp),
}


KNOWN = ("method", [*MANY, *ONE])


def tasks(mode, folder):
    """One task for each table."""
    return [{"table": table, "rounds": ROUNDS[mode], "longest": LONGEST[mode]} for table in TABLES]


def run(task):
    """Seconds of every call of every round of one table."""
    rows, slow, sizes = [], set(), TABLES[task["table"]]
    warm_up(sizes[0][1])
    for n, d in sizes:
        p, steady = problem(n, d), {}
        for name, call in (ONE if d == 1 else MANY).items():
            if name in slow:
                continue
            first, failure = _time(call, p)
            if failure or (first > task["longest"] and name not in BASES):
                rows.append(_row(task, name, n, d, 0, math.nan if failure else first, failure))
                slow |= set() if failure else {name}
            else:
                steady[name] = call
        for turn in range(task["rounds"]):
            rows += [_row(task, name, n, d, turn, *_time(call, p)) for name, call in steady.items()]
    return rows


def warm_up(columns):
    """Imports and compiled code, on data that every method takes."""
    one = columns == 1
    p = problem(3_000 if one else 20_000, 1 if one else 2)
    for call in (ONE if one else MANY).values():
        _time(call, p)


def _row(task, name, n, d, turn, seconds, failure):
    return {
        "table": task["table"],
        "method": name,
        "rows": n,
        "columns": d,
        "round": turn,
        "seconds": seconds,
        "failure": failure,
    }


def _time(call, p):
    # what the call before left to the garbage collector is not this one's
    gc.collect()
    start, failure = time.perf_counter(), ""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            call(p)
    except Exception as error:  # a refusal, or whatever another package raises
        failure = type(error).__name__
    return time.perf_counter() - start, failure


def summary(raw):
    """Least and median seconds, and the ratio to statsmodels on the same data (of the least times)."""

    def row(group):
        seconds = group["seconds"].dropna()
        return pd.Series({
            "rounds": len(seconds), "failure": "; ".join(sorted(set(group["failure"].dropna()) - {""})),
            "least": seconds.min(), "median": seconds.median(), "most": seconds.max(),
        })  # fmt: skip

    table = raw.groupby(KEY, sort=False).apply(row, include_groups=False).reset_index()
    place = ["table", "rows", "columns"]
    for name, column in zip(BASES, ("over_statsmodels", "over_product"), strict=True):
        base = table.loc[table["method"] == name].set_index(place)["least"]
        table[column] = table["least"] / base.reindex(pd.MultiIndex.from_frame(table[place])).to_numpy()
    return ordered(table)


def ordered(table):
    """By table, size and method."""
    order = {name: i for i, name in enumerate(dict.fromkeys([*TABLES, *MANY, *ONE]))}
    return table.sort_values(["table", "rows", "columns", "method"], kind="stable", ignore_index=True,
                             key=lambda c: c.map(order) if c.name in ("table", "method") else c)  # fmt: skip
