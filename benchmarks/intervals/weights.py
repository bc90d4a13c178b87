"""Intervals of ``ols`` with weights of rows.

Run: OMP_NUM_THREADS=1 python benchmarks/intervals/weights.py [SETS [DESIGN]]   (400; half an hour; of one
design the others' rows in weights.csv are kept)

Data set i has seed i. The truth is weighted least squares on four million rows. `determined` is the share
of the data sets with an interval, `held` that of these in which it holds the truth, `plain` that of HC1
intervals of weighted least squares without privacy, and `width` the median ratio of the widths.
"""

import functools
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import patsy

import dpstats

PATH = Path(__file__).with_name("weights.csv")
TRUTH_ROWS, PIECE = 4_000_000, 500_000
FORMULA = "y ~ x + g + z + u"
CELLS = ((2_000, 3), (5_000, 1), (5_000, 3), (20_000, 0.5), (50_000, 1))


def rows(g, n):
    """Columns of all sorts, and a response without curvature."""
    code = g.choice(3, n, p=[0.6, 0.3, 0.1])
    x, z, u, e = g.normal(50, 15, n), g.lognormal(0, 0.7, n), (g.random(n) < 0.2) * 1.0, g.standard_normal(n)
    y = 1 + 0.05 * x + 0.5 * (code == 1) - (code == 2) + 0.3 * z + 0.4 * u + e
    return {"y": y, "x": x, "g": pd.Categorical.from_codes(code, list("abc")), "z": z, "u": u}, code, e


def equal(g, n):
    return rows(g, n)[0] | {"w": np.ones(n)}


def uniform(g, n):
    return rows(g, n)[0] | {"w": g.uniform(100, 1000, n)}


def skewed(g, n):
    return rows(g, n)[0] | {"w": g.lognormal(7, 0.8, n)}


def by_level(g, n):
    data, code, _ = rows(g, n)
    return data | {"w": np.array([1.0, 3.0, 10.0])[code] * g.uniform(0.5, 1.5, n)}


def with_x(g, n):
    data, _, _ = rows(g, n)
    return data | {"w": np.exp((data["x"] - 50) / 20)}


def counts(g, n):
    return rows(g, n)[0] | {"w": 1.0 + g.poisson(2, n)}


def inverse_variance(g, n):
    data, _, e = rows(g, n)
    s = np.exp(0.5 * g.standard_normal(n))
    return data | {"y": data["y"] + (s - 1) * e, "w": 1 / s**2}


def survey(g, n, least):
    """Drawn with probabilities, from `least` to 1, that depend on a column in which the mean is bent, and on
    the error."""
    data, _, e = rows(g, 3 * n)
    share = np.maximum(1 / (1 + np.exp(-(data["x"] - 60) / 10 - 0.3 * e)), least)
    chosen = np.flatnonzero(g.random(3 * n) < share)[:n]
    bent = pd.DataFrame(data | {"w": 1 / share}).iloc[chosen]
    return dict(bent.assign(y=bent["y"] + 0.0015 * (bent["x"] - 50) ** 2))


DESIGNS = {
    "equal": equal,
    "uniform": uniform,
    "log-normal": skewed,
    "by level": by_level,
    "going with x": with_x,
    "numbers of rows": counts,
    "inverse variances": inverse_variance,
    "a survey": functools.partial(survey, least=0.1),
    "a survey, few rows decide": functools.partial(survey, least=0.0),
}


def weighted(frame):
    y, X = (np.asarray(m) for m in patsy.dmatrices(FORMULA, frame))
    w = frame["w"].to_numpy()[:, None]
    return X, y[:, 0], X.T @ (w * X), X.T @ (w * y)[:, 0], w


def truth(make):
    g, gram, moment = np.random.default_rng(20261201), 0.0, 0.0
    for _ in range(TRUTH_ROWS // PIECE):
        _, _, a, b, _ = weighted(pd.DataFrame(make(g, PIECE)))
        gram, moment = gram + a, moment + b
    return np.linalg.solve(gram, moment)


def without_privacy(frame):
    X, y, gram, moment, w = weighted(frame)
    inverse = np.linalg.inv(gram)
    beta = inverse @ moment
    parts = X * w * (y - X @ beta)[:, None]
    return beta, np.sqrt(np.diag(inverse @ parts.T @ parts @ inverse) * len(X) / (len(X) - len(beta)))


def cells(name, sets):
    make = DESIGNS[name]
    beta = truth(make)
    for n, eps in CELLS:
        held, plain, width = [], [], []
        for seed in range(sets):
            frame = pd.DataFrame(make(np.random.default_rng([seed, n]), n))
            b, se = without_privacy(frame)
            plain.append(np.abs(b - beta) < 1.96 * se)
            try:
                fit = dpstats.ols(FORMULA, frame, eps=eps, weights="w", seed=seed)
            except dpstats.errors.ReleaseFailed:
                continue
            order = ["Intercept", "g[T.b]", "g[T.c]", "x", "z", "u"]
            ends = fit.conf_int().loc[order].to_numpy()
            inside = (ends[:, 0] <= beta) & (beta <= ends[:, 1])
            held.append(np.where(np.isfinite(ends[:, 0]), inside, np.nan))
            width.append(np.ptp(ends, axis=1) / 3.92 / se)
        found = {
            "determined": 100 * np.sum(np.isfinite(held), axis=0) / sets,
            "held": 100 * np.nanmean(held, axis=0),
            "plain": 100 * np.mean(plain, axis=0),
            "width": np.nanmedian(width, axis=0),
        }
        yield pd.DataFrame({"weights": name, "rows": n, "eps": eps, "coefficient": order} | found)


def main(sets, designs):
    table = pd.concat([cell for name in designs for cell in cells(name, sets)]).round(2)
    print(table.to_string(index=False))
    if PATH.exists():
        old = pd.read_csv(PATH)
        table = pd.concat([old[~old["weights"].isin(designs)], table])
    table.to_csv(PATH, index=False)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400, sys.argv[2:] or list(DESIGNS))
