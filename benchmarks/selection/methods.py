"""Which method chooses best, by the number of terms: the evidence behind ``method="auto"``.

    python benchmarks/selection/methods.py DATA_DIRECTORY [data sets]

For every data set and k = 2 to 7: 40 seeded choices by ``select_features`` with DPKendall and with signs of
pairs, at 5 % of eps = ln 3 and delta = 1e-5, and the R-squared of *least squares* on the chosen columns: the
choice alone, without the noise of a fit. ``best`` is that of the best set. Rewrites the rows of these data
sets in ``methods.csv`` beside this file.
"""

import itertools
import pathlib
import sys

import numpy as np
import pandas as pd
from pipelines import DELTA, EPS, RESPONSES, SHARE, load, r_squared

import dpstats
from dpstats.selection.pairs import feasible

TRIALS, METHODS, SIZES = 40, ("kendall", "pairs"), range(2, 8)


def study(frame, response):
    """Rows of the table for one data set."""
    columns = [c for c in frame if c != response]
    explained = r_squared(frame, response)
    for k in (k for k in SIZES if k < len(columns)):
        best = max(map(explained, itertools.combinations(range(len(columns)), k)))
        for method in METHODS if feasible([1] * len(columns), k) else METHODS[:1]:
            r2 = []
            for seed in range(TRIALS):
                chosen = dpstats.select_features(
                    f"Q({response!r}) ~ " + " + ".join(f"Q({c!r})" for c in columns), frame,
                    k=k, eps=SHARE * EPS, delta=SHARE * DELTA, method=method, seed=seed,
                )  # fmt: skip
                r2.append(explained(chosen.candidates.index(t) for t in chosen.terms))
            yield k, method, best, np.median(r2), np.mean(r2), np.quantile(r2, 0.1)


def main(directory, names):
    names, rows = names or list(RESPONSES), []
    for name in names:
        for k, method, *r2 in study(*load(directory, name)):
            rows.append({"data": name, "k": k, "method": method})
            rows[-1].update(zip(("best", "median", "mean", "tenth"), np.round(r2, 4), strict=True))
            print(*rows[-1].values(), flush=True)
    table, path = pd.DataFrame(rows), pathlib.Path(__file__).with_name("methods.csv")
    if path.exists():
        before = pd.read_csv(path)
        table = pd.concat([before[~before["data"].isin(names)], table])
    table.to_csv(path, index=False)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
