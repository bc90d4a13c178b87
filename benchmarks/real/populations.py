"""Coverage of `ols` where the rows are drawn from real data: whether intervals hold what all rows say.

    OMP_NUM_THREADS=1 python benchmarks/real/populations.py DATA [SETS]    # writes populations.csv
    python benchmarks/real/populations.py --summary

DATA as of ``study.py``. Of every problem with 1,500 rows or more, SETS times (100) as many rows as it has, at
most 20,000, are drawn with replacement and fitted at eps = 1, with seeds 0, 1, ... The truth is least squares
on all rows. Ten minutes on one core.

Columns: `determined`, the share of the coefficients with an interval; `held`, the share of these that hold
the truth; `least`, the same of the coefficient where it is least, among those that are determined in half of
the sets, and `of` its name; `plain` and `plain_least`, the same of HC0 intervals of least squares without
privacy; `se_ratio`, the median standard error over HC0's.
"""

import argparse
import math
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import patsy
from scipy import stats

import dpstats

HERE = Path(__file__).parent
OUTPUT = HERE / "populations.csv"
FEWEST, MOST, EPS = 1_500, 20_000, 1.0
Z = stats.norm.ppf(0.975)
BAR, ALPHA = 0.93, 0.01


def main(arguments=None):
    """Run, or print the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?", default=Path())
    parser.add_argument("sets", type=int, nargs="?", default=100)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args(arguments)
    if not options.summary:
        problems = tomllib.loads((HERE / "problems.toml").read_text())["problem"]
        rows = []
        for problem in sorted(problems, key=lambda p: p["name"]):
            path = options.data / f"{problem['name']}.parquet"
            if path.exists() and problem["rows"] >= FEWEST:
                rows.append(study(problem, pd.read_parquet(path), options.sets))
                print(*rows[-1].values(), flush=True)
        if not rows:
            parser.error("DATA has no NAME.parquet of a problem")
        pd.DataFrame(rows).round(4).to_csv(OUTPUT, index=False)
    summary(pd.read_csv(OUTPUT))


def study(problem, data, sets):
    """A row of the table."""
    numbers = data.astype({name: float for name in data.select_dtypes("bool")})
    y, X = patsy.dmatrices(problem["formula"], numbers, return_type="dataframe")
    names, X, y = X.columns, X.to_numpy(), y.to_numpy()[:, 0]
    truth, n = np.linalg.lstsq(X, y, rcond=None)[0], min(len(data), MOST)
    given, held, plain, ratio = [], [], [], []
    for seed in range(sets):
        rows = np.random.default_rng([seed, len(data)]).integers(len(data), size=n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fit = dpstats.ols(problem["formula"], data.iloc[rows], eps=EPS, seed=seed)
            except dpstats.ReleaseFailed:
                continue
        low, high = fit.conf_int().to_numpy().T
        inverse = np.linalg.pinv(X[rows])
        estimate = inverse @ y[rows]
        se = np.sqrt(np.square(inverse) @ np.square(y[rows] - X[rows] @ estimate))
        given.append(np.isfinite(high - low))
        held.append(given[-1] & (low <= truth) & (truth <= high))
        plain.append(np.abs(estimate - truth) <= Z * se)
        ratio.append(np.where(given[-1], fit.bse.to_numpy() / se, np.nan))
    row = {"problem": problem["name"], "part": problem["part"], "rows": n, "columns": X.shape[1] - 1}
    row |= {"sets": sets, "refused": sets - len(given)}
    if not given or not np.any(given):
        return row | {"determined": 0.0}
    given, held, plain = (np.array(part) for part in (given, held, plain))
    often = given.mean(axis=0) >= 0.5
    shares = np.where(often, held.sum(axis=0) / np.maximum(given.sum(axis=0), 1), np.inf)
    least = int(shares.argmin())
    return row | {
        "determined": given.mean(), "held": held.sum() / given.sum(),
        "least": shares[least] if often.any() else math.nan, "of": names[least] if often.any() else "",
        "plain": plain.mean(), "plain_least": plain.mean(axis=0).min(), "se_ratio": np.nanmedian(ratio),
    }  # fmt: skip


def summary(table):
    """How many problems hold, and which do not."""
    for part, rows in table.groupby("part"):
        shown = rows[rows["least"].notna()]
        short = shown[stats.binom.cdf((shown["least"] * shown["sets"]).round(), shown["sets"], BAR) < ALPHA]
        print(
            f"{part}: {len(rows)} problems, {len(shown)} with coefficients that are determined in half of "
            f"the sets. In {len(shown) - len(short)} of these all of them hold in {BAR:.0%} or more, "
            "Monte Carlo error aside."
        )
        medians = shown[["held", "plain", "se_ratio"]].median()
        print("  Medians: held {:.3f}, without privacy {:.3f}, standard errors {:.2f}.".format(*medians))
        names = [f"{r.problem} {r.least:.2f} ({r.of})" for r in short.sort_values("least").itertuples()]
        print("  Short: " + ", ".join(names))


if __name__ == "__main__":
    main()
