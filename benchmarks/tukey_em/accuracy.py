"""Accuracy of tukey_em, defaults only, beside least squares.

    python benchmarks/tukey_em/accuracy.py DATA_DIRECTORY [runs]

``DATA_DIRECTORY`` holds the Parquet files of the eight data sets; ordered factors of the diamonds enter as
1, 2, ... . Writes ``accuracy.csv``: in-sample R-squared of least squares and the quantiles of tukey_em's over
the runs, eps = ln 3 and delta = 1e-5 except for the headline formula (eps = 1, delta = 1e-6).
"""

import csv
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats
from dpstats.data.sources import open_source
from dpstats.formula.design import Design

RESPONSES = {
    "diamonds": "price",
    "california": "median_house_value",
    "nba": "PTS_home",
    "garbage": "REFUSETONSCOLLECTED",
    "kc_house": "price",
    "bike_sharing": "cnt",
    "scorecard": "earnings_med",
    "wine_quality": "quality",
}


def cases(directory):
    """Yield (name, formula, frame, eps, delta)."""
    diamonds = dpstats.datasets.load_diamonds()
    yield "headline", "price ~ carat + clarity", diamonds, 1.0, 1e-6
    yield "synthetic", *synthetic(), math.log(3), 1e-5
    for name, response in RESPONSES.items():
        frame = pd.read_parquet(Path(directory) / f"{name}.parquet")
        if name == "diamonds":
            ordered = {c: diamonds[c].cat.codes + 1 for c in ("cut", "color", "clarity")}
            frame = diamonds.assign(**ordered)
        columns = [f'Q("{c}")' for c in frame.columns if c != response]
        yield name, f"{response} ~ {' + '.join(columns)}", frame, math.log(3), 1e-5


def synthetic():
    """The linear problem of Amin et al.: 22,000 rows, 10 informative features, noise 10."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((22_000, 10))
    y = X @ (100 * rng.random(10)) + 10 * rng.standard_normal(22_000)
    names = [f"x{j}" for j in range(10)]
    return f"y ~ {' + '.join(names)}", pd.DataFrame(X, columns=names).assign(y=y)


def main(directory, runs):
    """Run the study and write the table."""
    path = Path(__file__).with_name("accuracy.csv")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            [
                "data",
                "rows",
                "columns",
                "eps",
                "delta",
                "ols",
                "q25",
                "median",
                "q75",
                "least",
                "failed",
                "runs",
            ]
        )
        for name, formula, frame, eps, delta in cases(directory):
            source = open_source(frame)
            design = Design.from_formula(formula, source.schema)
            X, Y = next(iter(design.blocks(source)))
            y = Y[:, 0]
            ols = r_squared(X, y, np.linalg.lstsq(X, y, rcond=None)[0])
            scores, failed = [], 0
            for _ in range(runs):
                try:
                    fit = dpstats.tukey_em(formula, frame, eps=eps, delta=delta)
                    scores.append(r_squared(X, y, fit.params.to_numpy()))
                except dpstats.ReleaseFailed:
                    failed += 1
            quantiles = np.quantile(scores, [0.25, 0.5, 0.75, 0.0]) if scores else [np.nan] * 4
            numbers = [f"{v:.3f}" for v in (ols, *quantiles)]
            writer.writerow([name, len(y), X.shape[1], f"{eps:.4g}", delta, *numbers, failed, runs])
    print(path.read_text())


def r_squared(X, y, beta):
    """In-sample R-squared."""
    return 1 - np.mean((y - X @ beta) ** 2) / np.var(y)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60)
