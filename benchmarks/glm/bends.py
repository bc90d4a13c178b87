"""`logit` and `poisson` of columns whose effect bends: whether intervals hold the fit without privacy of all
rows.

Run: OMP_NUM_THREADS=1 python benchmarks/glm/bends.py [TABLES [LABEL]]   (100; four minutes; writes bends.csv,
in which rows of other labels are kept: `before` is commit 8dc73893 for `logit`, edd51e19 for `poisson`)

`y ~ x + w` with a normal `w` of no effect, and the linear predictors below; the truth is the fit of two
million rows. `x` and `constant` are the percentages of the tables in which the intervals hold, `plain` that
of `x` without privacy (of counts HC0), and `width` the median standard error of `x` over the one without it.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpstats

PATH, MANY = Path(__file__).with_name("bends.csv"), 2_000_000
DESIGNS = {
    "logit": {
        ".8 log x, log-normal x": (lambda g, n: np.exp(g.normal(0, 1, n)), lambda x: 0.8 * np.log(x)),
        "3 x / (1 + x) - 1.5, exponential x": (
            lambda g, n: g.exponential(1, n),
            lambda x: 3 * x / (1 + x) - 1.5,
        ),
        "min(x, 1), normal x": (lambda g, n: g.normal(0, 1, n), lambda x: np.minimum(x, 1.0)),
        ".3 x^2 - .5, normal x": (lambda g, n: g.normal(0, 1, n), lambda x: 0.3 * x**2 - 0.5),
        ".5 x - 1, exponential x (right)": (lambda g, n: g.exponential(1, n), lambda x: 0.5 * x - 1),
    },
    "poisson": {
        "log(1 + x), exponential x": (lambda g, n: g.exponential(1, n), np.log1p),
        ".8 log(1 + x), log-normal x (.8)": (
            lambda g, n: np.exp(0.8 * g.normal(0, 1, n)),
            lambda x: 0.8 * np.log1p(x),
        ),
        "min(x, 1), normal x": (lambda g, n: g.normal(0, 1, n), lambda x: np.minimum(x, 1.0)),
        ".2 x^2 - .5, normal x": (
            lambda g, n: g.normal(0, 1, n),
            lambda x: np.minimum(0.2 * x**2 - 0.5, 3.0),
        ),
        ".3 x, exponential x (right)": (lambda g, n: g.exponential(1, n), lambda x: 0.3 * x),
        ".5 x, normal x, exponential factors (right)": (
            lambda g, n: g.normal(0, 1, n),
            lambda x: 0.5 * x,
        ),
    },
}
CELLS = [(5_000, 1.0), (20_000, 1.0), (20_000, 3.0)]


def table(model, name, g, n):
    draw, predictor = DESIGNS[model][name]
    x = draw(g, n)
    if model == "logit":
        y = g.random(n) < 1 / (1 + np.exp(-predictor(x)))
    else:
        y = g.poisson(np.exp(predictor(x)) * (g.exponential(size=n) if "factors" in name else 1.0))
    return pd.DataFrame({"x": x, "w": g.normal(size=n), "y": y * 1.0})


def plain(model, data, start=None):
    X = sm.add_constant(data[["x", "w"]])
    if model == "logit":
        return sm.GLM(data["y"], X, family=sm.families.Binomial()).fit(start_params=start)
    return sm.GLM(data["y"], X, family=sm.families.Poisson()).fit(start_params=start, cov_type="HC0")


def main(tables, label):
    rows = []
    for model, name in [(each, name) for each in DESIGNS for name in DESIGNS[each]]:
        truth = plain(model, table(model, name, np.random.default_rng(99), MANY)).params.to_numpy()
        for n, eps in CELLS:
            held, width, without = np.zeros(3), [], 0
            for seed in range(tables):
                data = table(model, name, np.random.default_rng([seed, n]), n)
                fit = getattr(dpstats, model)("y ~ x + w", data, eps=eps, seed=seed)
                held += np.abs(fit.params.to_numpy() - truth) < 1.96 * fit.bse.to_numpy()
                other = plain(model, data, truth)
                width.append(fit.bse["x"] / other.bse["x"])
                without += abs(other.params["x"] - truth[1]) < 1.96 * other.bse["x"]
            shares = 100 * held / tables
            rows.append({
                "code": label, "model": model, "linear predictor": name, "rows": n, "eps": eps,
                "tables": tables, "constant": shares[0], "x": shares[1], "plain": 100 * without / tables,
                "width": np.nanmedian(width),
            })  # fmt: skip
            print(*rows[-1].values(), flush=True)
    found = pd.DataFrame(rows).round(2)
    kept = [old[old["code"] != label] for old in [pd.read_csv(PATH)]] if PATH.exists() else []
    pd.concat([*kept, found]).to_csv(PATH, index=False)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2] if len(sys.argv) > 2 else "now")
