"""Coverage of `ols` and `poisson` where one sign of the residuals alone has a few rows far out.

    OMP_NUM_THREADS=1 python benchmarks/intervals/one_sided.py LABEL    # a minute; writes one_sided.csv

100 data sets a law at eps = 1, with their own seeds; rows of other labels are kept. A law of `ols` is the
share of rows far out, their size, the width of the positive side, and the share of positive rows: errors are
normal and exponential, moved to the mean 0. One of `poisson` is the share of rows whose mean has an
exponential factor, and the mean of that. `held` is the share of the 95 % intervals with the truth, `width`
their median width, `bias` and `sd` those of the estimates, all three times the root of the rows.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

PATH = Path(__file__).with_name("one_sided.csv")
SETS = 100
ERRORS = [(0.002, 8, 1.2, 0.5, 60_000), (0.0005, 15, 1.0, 0.35, 60_000)]
FACTORS = [(0.002, 8, 60_000), (0.01, 4, 20_000), (0.0005, 20, 60_000), (0.005, 8, 20_000)]


def linear(rng, far, size, wider, positive, n):
    """A frame with the coefficients 1, 1 and .5."""
    X, plus = rng.standard_normal((n, 2)), rng.random(n) < positive
    errors = np.where(plus, wider, -1.0) * np.abs(rng.standard_normal(n))
    out = rng.random(n) < far
    errors[out] = size * rng.exponential(size=out.sum())
    errors -= (1 - far) * np.sqrt(2 / np.pi) * (positive * wider - (1 - positive)) + far * size
    return X, 1 + X @ [1, 0.5] + errors, np.array([1, 1, 0.5])


def counts(rng, far, factor, n):
    """A frame whose constant is that of the mean over the factors."""
    X, out = rng.standard_normal((n, 2)), rng.random(n) < far
    mean = np.exp(1 + X @ [0.3, -0.2]) * np.where(out, factor * rng.exponential(size=n), 1)
    return X, rng.poisson(mean) * 1.0, np.array([1 + np.log(1 - far + far * factor), 0.3, -0.2])


def cell(estimator, draw, law):
    """The rows of a law."""
    held, widths, errors = [], [], []
    for seed in range(SETS):
        X, y, truth = draw(np.random.default_rng(seed), *law)
        frame = pd.DataFrame({"y": y, "a": X[:, 0], "b": X[:, 1]})
        fit = getattr(dpstats, estimator)("y ~ a + b", frame, eps=1, seed=seed)
        low, high = fit.conf_int().to_numpy().T
        held.append((low <= truth) & (truth <= high))
        widths.append(high - low)
        errors.append(np.asarray(fit.params) - truth)
    root = np.sqrt(law[-1])
    for j, name in enumerate(["constant", "a", "b"]):
        yield {
            "estimator": estimator,
            "law": " ".join(f"{v:g}" for v in law[:-1]),
            "rows": law[-1],
            "coefficient": name,
            "held": np.mean(held, axis=0)[j],
            "width": root * np.median(widths, axis=0)[j],
            "bias": root * np.mean(errors, axis=0)[j],
            "sd": root * np.std(errors, axis=0)[j],
        }


if __name__ == "__main__":
    label = sys.argv[1]
    rows = [row for law in ERRORS for row in cell("ols", linear, law)]
    rows += [row for law in FACTORS for row in cell("poisson", counts, law)]
    table = pd.DataFrame(rows).assign(label=label)
    if PATH.exists():
        kept = pd.read_csv(PATH)
        table = pd.concat([kept[kept["label"] != label], table])
    table.to_csv(PATH, index=False, float_format="%.3g")
