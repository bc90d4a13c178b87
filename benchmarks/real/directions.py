"""Which directions what a clip takes off has, on real data and without privacy; writes directions.csv.

    python benchmarks/real/directions.py DATA       # DATA as of study.py; half a minute

Rows are whitened exactly, ``v = R^-T x sqrt(n)``, and ``r`` are the residuals of least squares. A clip at
`times` the typical size of ``v r`` (the root of the number of coefficients times the residuals' normalised
median absolute deviation) takes ``b = mean of v r (1 - min(1, C / |v r|))`` off the mean score. The private
counts show the difference of the signs' mean excesses, ``L``; its share along one direction of many is ``L``
over the root of their number. Columns: `rows_cut`, rows whose product is longer; `signal`, ``L`` over the
standard error that rows drawn from the same population give it; and the absolute values of ``b`` along the
constant, along the linear predictor (where that is not the constant) and along the others (root mean square,
less what such rows give by chance), over that share.
"""

import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import patsy

HERE = Path(__file__).parent
TIMES = 4, 8, 16
LEAST_ROWS, LEAST_SIGNAL = 5, 2.0


def rows_of(data, study):
    """A table of what `study` yields for every problem and its frame."""
    rows = []
    for problem in tomllib.loads((HERE / "problems.toml").read_text())["problem"]:
        path = Path(data) / f"{problem['name']}.parquet"
        if not path.exists():
            print(f"{problem['name']}: no data", flush=True)
            continue
        frame = pd.read_parquet(path)
        rows += study(problem, frame.astype({c: float for c in frame.select_dtypes("bool")}))
    return pd.DataFrame(rows)


def main(data):
    table = rows_of(data, directions)
    table.round(3).to_csv(HERE / "directions.csv", index=False)
    print(summary(table))


def directions(problem, frame):
    """The rows of a problem: one for every clip that cuts some rows."""
    y, X = (np.asarray(part, float) for part in patsy.dmatrices(problem["formula"], frame))
    n, q = X.shape
    V = np.linalg.qr(X)[0] * np.sqrt(n)
    b = V.T @ y[:, 0] / n
    r = y[:, 0] - V @ b
    lengths = np.linalg.norm(V, axis=1)
    constant = V.mean(axis=0) / np.linalg.norm(V.mean(axis=0))
    predictor = b - constant * (constant @ b)
    predictor /= np.linalg.norm(predictor)
    size = np.sqrt(q) * max(np.median(np.abs(r)) / 0.6745, np.std(r) / 20)
    for times in TIMES:
        cut = np.sign(r) * np.maximum(lengths * np.abs(r) - times * size, 0.0)
        if np.count_nonzero(cut) < LEAST_ROWS or q < 3:
            continue
        bias = np.mean(V / lengths[:, None] * cut[:, None], axis=0)
        shown, chance = abs(cut.mean()), np.sqrt(np.mean(cut**2) / n)
        rest = bias - constant * (constant @ bias) - predictor * (predictor @ bias)
        others = max(rest @ rest / (q - 2) - chance**2 / q, 0.0)
        share = shown / np.sqrt(q)
        yield {
            "problem": problem["name"], "part": problem["part"], "rows": n, "coefficients": q,
            "times": times, "rows_cut": np.count_nonzero(cut), "signal": shown / chance,
            "constant": abs(constant @ bias) / share, "predictor": abs(predictor @ bias) / share,
            "others": np.sqrt(others) / share,
        }  # fmt: skip


def summary(table):
    """Mean squares by part and clip, where the signs visibly differ."""
    seen = table[table["signal"] > LEAST_SIGNAL]
    squares = seen.assign(**{c: seen[c] ** 2 for c in ("constant", "predictor", "others")})
    by = squares.groupby(["part", "times"])
    means = by[["constant", "predictor", "others"]].mean().round(2)
    return means.assign(problems=by["problem"].nunique()).to_string()


if __name__ == "__main__":
    main(sys.argv[1])
