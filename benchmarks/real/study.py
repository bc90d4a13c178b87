"""`ols` on real data: R2 beside that of least squares, and whether its intervals hold the estimates of that.

    OMP_NUM_THREADS=1 PYTHONHASHSEED=0 python benchmarks/real/study.py DATA OUT.csv    # 48 problems, eps = 1
    python benchmarks/real/study.py DATA OUT.csv --part reserve                # 43 kept back
    python benchmarks/real/study.py DATA OUT.csv --only ames births --eps 3
    python benchmarks/real/study.py --summary OUT.csv

DATA has ``NAME.parquet`` for every problem (``collect.py``). Rows of OUT.csv of the same problem and eps are
replaced. Releases have seeds 0, 1, ... and the default delta.

Columns: `ls_r2`, R2 of least squares on the same rows; `r2`, that of ``fit.predict`` on them; `open_r2`, that
of the coefficients without the limits into which ``predict`` may move columns (medians over seeds; a refused
fit has minus infinity); `r2_low`, the lowest `r2`. `given`, the intervals printed; `determined`, their share
of the coefficients of all seeds; `held`, the share of the intervals given that contain the least-squares
estimate; `se_ratio`, the median over coefficients and seeds of the standard error over HC1 of least squares;
`worst`, the coefficient whose intervals fail most often, if any do; `seconds`, median of a fit. `ten_rows` is
a fact about least squares: the share of HC1's variance that ten rows have, where it is most.
"""

import argparse
import math
import os
import time
import tomllib
import warnings
from collections import Counter
from pathlib import Path

os.environ["DPSTATS_DEBUG"] = "1"  # errors as they are, so that a crash is not taken for a refusal

import numpy as np
import pandas as pd
import patsy
import statsmodels.api as sm

import dpstats

HERE = Path(__file__).parent
LOSS, HELD, RATIO = 0.01, 0.90, 2.0
KEY = ["problem", "eps"]


def main(arguments=None):
    """Run the problems asked for, or print what a table says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("output", type=Path)
    parser.add_argument("--part", choices=["main", "reserve", "all"], default="main")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--eps", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args(arguments)
    problems = tomllib.loads((HERE / "problems.toml").read_text())["problem"]
    if not options.summary:
        wanted = [
            p for p in problems
            if (p["name"] in options.only if options.only else options.part in (p["part"], "all"))
        ]  # fmt: skip
        for problem in sorted(wanted, key=lambda p: p["rows"]):
            run(problem, options)
    print(summary(pd.read_csv(options.output), problems))


def run(problem, options):
    """The rows of a problem, into the output."""
    path = options.data / f"{problem['name']}.parquet"
    if not path.exists():
        print(f"{problem['name']}: no data", flush=True)
        return
    data = pd.read_parquet(path)
    if len(data) != problem["rows"]:
        print(f"{problem['name']}: {len(data)} rows, not {problem['rows']}", flush=True)
    rows = []
    for eps in options.eps:
        row = study(problem, data, eps, options.seeds)
        rows.append(row)
        print(
            problem["name"],
            ", ".join(f"{k} {v:.4g}" for k, v in row.items() if isinstance(v, float)),
            flush=True,
        )
    rows = pd.DataFrame(rows)
    if options.output.exists():
        old = pd.read_csv(options.output)
        new = set(map(tuple, rows[KEY].to_numpy()))
        rows = pd.concat([old[[tuple(key) not in new for key in old[KEY].to_numpy()]], rows])
    rows.round(5).sort_values(KEY).to_csv(options.output, index=False)


def study(problem, data, eps, seeds):
    """What `seeds` releases of a problem come to: a row of the table."""
    formula, n = problem["formula"], len(data)
    numbers = data.astype({name: float for name in data.select_dtypes("bool")})  # as `ols` takes them
    y, X = patsy.dmatrices(formula, numbers, return_type="dataframe")
    y = y.iloc[:, 0].to_numpy()
    least = sm.OLS(y, X.to_numpy()).fit(cov_type="HC1")
    d, seconds, failed = X.shape[1], [], []
    r2, open_r2 = np.full((2, seeds), -math.inf)
    given, held, ratio = np.zeros((seeds, d), bool), np.zeros((seeds, d), bool), np.full((seeds, d), np.nan)
    for seed in range(seeds):
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit = dpstats.ols(formula, data, eps=eps, seed=seed)
        except Exception as error:
            failed.append(type(error).__name__)
            continue
        seconds.append(time.perf_counter() - start)
        assert list(fit.params.index) == list(X.columns), (list(fit.params.index), list(X.columns))
        r2[seed] = share(y, fit.predict(data).to_numpy())
        open_r2[seed] = share(y, X.to_numpy() @ fit.params.to_numpy())
        low, high = fit.conf_int().to_numpy().T
        given[seed] = np.isfinite(high - low)
        held[seed] = given[seed] & (low <= least.params) & (least.params <= high)
        ratio[seed] = np.where(given[seed], fit.bse.to_numpy() / least.bse, np.nan)
    count = int(given.sum())
    misses = (given & ~held).sum(axis=0)
    return {
        "problem": problem["name"], "eps": eps, "part": problem["part"], "rows": n, "columns": d - 1,
        "seeds": seeds, "refused": len(failed),
        "reasons": " ".join(f"{name} {times}" for name, times in Counter(failed).items()),
        "ten_rows": ten_rows(least),
        "ls_r2": share(y, least.fittedvalues), "r2": np.median(r2), "r2_low": r2.min(),
        "open_r2": np.median(open_r2), "given": count, "determined": count / given.size,
        "held": held.sum() / count if count else math.nan,
        "se_ratio": np.nanmedian(ratio) if count else math.nan,
        "worst": X.columns[misses.argmax()] if misses.any() else "",
        "seconds": float(np.median(seconds)) if seconds else math.nan,
    }  # fmt: skip


def ten_rows(least):
    """The share of a coefficient's HC1 variance that ten rows have; the most over coefficients."""
    squares = np.square(least.model.pinv_wexog * least.resid)
    return float(np.max(np.partition(squares, -10)[:, -10:].sum(axis=1) / squares.sum(axis=1)))


def share(y, fitted):
    """R2: the share of the variance that fitted values explain."""
    return float(1 - np.mean((y - fitted) ** 2) / np.var(y))


def summary(rows, problems):
    """The counts, one line for each part and eps, with the problems that fail."""
    lines = []
    wanted = Counter(p["part"] for p in problems)
    for (part, eps), cell in rows.groupby(["part", "eps"]):
        with_intervals = cell[cell["given"] > 0]
        counts = {
            f"R2 >= LS - {LOSS}": cell["r2"] >= cell["ls_r2"] - LOSS,
            "the same of coefficients without limits": cell["open_r2"] >= cell["ls_r2"] - LOSS,
            f"intervals hold LS >= {HELD:.0%}": with_intervals["held"] >= HELD,
            f"median ratio of standard errors <= {RATIO:g}": with_intervals["se_ratio"] <= RATIO,
        }
        lines.append(f"{part}, eps = {eps:g}: {len(cell)} of {wanted[part]} problems")
        for text, good in counts.items():
            bad = ", ".join(cell.loc[good.index[~good], "problem"])
            lines.append(f"  {text}: {good.sum()} of {len(good)}" + (f"; not {bad}" if bad else ""))
        none = ", ".join(cell.loc[cell["given"] == 0, "problem"])
        lines += [
            f"  without intervals: {len(cell) - len(with_intervals)}" + (f"; {none}" if none else ""),
            f"  median of these ratios: {with_intervals['se_ratio'].median():.2f}",
            f"  mean share of coefficients determined: {cell['determined'].mean():.3f}",
            f"  refused: {int(cell['refused'].sum())} of {int(cell['seeds'].sum())} fits",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
