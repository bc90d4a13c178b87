"""In-sample R-squared of the least-squares family on real data, to ``accuracy.csv``.

    python benchmarks/least_squares/accuracy.py FOLDER [ESTIMATOR ...]

FOLDER holds the Parquet files named below; ordered factors are taken as 1, 2, ... Defaults only, ten seeded
runs each at delta = 1e-5: median and least R-squared of ``fit.predict`` on the data of the fit, next to
ordinary least squares. The lines of the estimators named are replaced, by default all.
"""

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

RESULTS = Path(__file__).with_name("accuracy.csv")
RESPONSES = {
    "diamonds": "price",
    "california": "median_house_value",
    "nba": "PTS_home",
    "garbage": "REFUSETONSCOLLECTED",
    "kc_house": "price",
    "bike_sharing": "cnt",
    "wine_quality": "quality",
    "scorecard": "earnings_med",
}
ORDERED = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": list("DEFGHIJ"),
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}
ESTIMATORS = "ols", "adassp", "boosted_adassp", "huber", "gradient_descent"
RUNS = 10


def load(folder, name):
    frame = pd.read_parquet(Path(folder) / f"{name}.parquet")
    for column, levels in ORDERED.items():
        if column in frame:
            frame[column] = pd.Categorical(frame[column].astype(str), levels).codes + 1
    return frame.astype(float)


def main(folder, *estimators):
    estimators = estimators or ESTIMATORS
    rows = []
    for name, response in RESPONSES.items():
        data = load(folder, name)
        y, X = data[response].to_numpy(), data.drop(columns=response)
        formula = f"{response} ~ " + " + ".join(f'Q("{column}")' for column in X)
        joined = np.column_stack([np.ones(len(X)), X])
        plain = 1 - np.mean((y - joined @ np.linalg.lstsq(joined, y, rcond=None)[0]) ** 2) / np.var(y)
        for estimator in estimators:
            for eps in (math.log(3), 0.3):
                fits = (
                    getattr(dpstats, estimator)(formula, data, eps=eps, delta=1e-5, seed=s)
                    for s in range(RUNS)
                )
                r2 = [1 - np.mean((y - fit.predict(data)) ** 2) / np.var(y) for fit in fits]
                rows.append({"data": name, "estimator": estimator, "eps": eps, "r2": np.median(r2),
                             "least": min(r2),
                             "least squares": plain})  # fmt: skip
                print(
                    {k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True
                )
    table = pd.DataFrame(rows)
    if RESULTS.exists():
        old = pd.read_csv(RESULTS)
        table = pd.concat([old[~old["estimator"].isin(estimators)], table])
    order = [list(RESPONSES).index, ESTIMATORS.index]
    keys = [table[name].map(rank) for name, rank in zip(("data", "estimator"), order, strict=True)]
    table = table.iloc[np.lexsort((-table["eps"], keys[1], keys[0]))]
    table.round(4).to_csv(RESULTS, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
