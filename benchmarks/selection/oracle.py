"""How good a fit of five chosen columns can be at all: every set of five, chosen with the data in hand.

    python benchmarks/selection/oracle.py DATA_DIRECTORY [data sets]

No choice of five columns, private or not, can do better than this oracle. Every set of five is ranked by its
least-squares R-squared; each estimator fits the best 40 of them in five seeded releases, the five sets with
the highest medians again in 40 others, and the best median of those is the oracle's. Fits have 95 % of eps =
ln 3 and delta = 1e-5, as with ``select=5``, and 100 % where ``share`` is 1: the choice is a gift. ``none`` is
the fit of all columns, over the same 40 seeds, with the whole budget. In-sample R-squared on the full data; a
failed release counts as minus infinity. Rewrites the rows of these data sets in ``oracle.csv`` beside this
file.
"""

import itertools
import math
import pathlib
import sys

import numpy as np
import pandas as pd
from pipelines import DELTA, EPS, load, r_squared

import dpstats

K, SCREENED, FINALISTS, SCREENS, TRIALS = 5, 40, 5, 5, 40
ESTIMATORS = ("ols", "boosted_adassp", "tukey_em")
NAMES = ("wine_quality", "kc_house", "bike_sharing", "california", "diamonds", "garbage")


def least_squares(frame, response):
    """R-squared of least squares on every set of `K` columns, best first, and on all of them."""
    columns = [c for c in frame if c != response]
    explained = r_squared(frame, response)
    sets = itertools.combinations(range(len(columns)), K)
    ranked = sorted(((explained(S), tuple(columns[j] for j in S)) for S in sets), reverse=True)
    return ranked, explained(range(len(columns)))


def releases(frame, response, columns, estimator, share, seeds):
    """R-squared of one release for each seed."""
    formula = f"Q({response!r}) ~ " + " + ".join(f"Q({c!r})" for c in columns)
    y, out = frame[response].to_numpy(), []
    for seed in seeds:
        try:
            fit = getattr(dpstats, estimator)(formula, frame, eps=share * EPS, delta=share * DELTA, seed=seed)
            out.append(1 - np.mean((np.asarray(fit.predict(frame)) - y) ** 2) / np.var(y))
        except dpstats.ReleaseFailed:
            out.append(-math.inf)
    return np.array(out)


def study(frame, response):
    """Rows of the table for one data set."""
    ranked, full = least_squares(frame, response)
    columns = [c for c in frame if c != response]
    screens, finals = range(1000, 1000 + SCREENS), range(TRIALS)
    yield "least squares", "none", math.nan, full, full, 0, " ".join(columns)
    yield "least squares", "oracle", math.nan, *[ranked[0][0]] * 2, 0, " ".join(ranked[0][1])
    for estimator in ESTIMATORS:
        r2 = releases(frame, response, columns, estimator, 1.0, finals)
        yield estimator, "none", 1.0, *_middle(r2), " ".join(columns)

        def quality(S, estimator=estimator):
            return np.median(releases(frame, response, S, estimator, 0.95, screens))

        sets = sorted((S for _, S in ranked[:SCREENED]), key=quality, reverse=True)[:FINALISTS]
        for share in (0.95, 1.0):
            runs = [releases(frame, response, S, estimator, share, finals) for S in sets]
            best = int(np.argmax([np.median(r) for r in runs]))
            yield estimator, "oracle", share, *_middle(runs[best]), " ".join(sets[best])


def _middle(r2):
    return float(np.median(r2)), float(np.min(r2)), int(np.sum(np.isinf(r2)))


def main(directory, names):
    names, rows = names or NAMES, []
    for name in names:
        for estimator, choice, share, median, least, failed, columns in study(*load(directory, name)):
            rows.append({
                "data": name, "estimator": estimator, "choice": choice, "share": share,
                "median_r2": round(median, 4), "least_r2": round(least, 4), "failed": failed,
                "columns": columns,
            })  # fmt: skip
            print(*rows[-1].values(), flush=True)
    table, path = pd.DataFrame(rows), pathlib.Path(__file__).with_name("oracle.csv")
    if path.exists():
        before = pd.read_csv(path)
        table = pd.concat([before[~before["data"].isin(names)], table])
    table.to_csv(path, index=False)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
