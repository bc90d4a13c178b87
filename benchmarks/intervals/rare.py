"""Coefficients beside few rows: a rare level, a rare reference level, a rare value of a column.

Run: OMP_NUM_THREADS=1 python benchmarks/intervals/rare.py [SETS [LABEL]]   (100; half an hour; writes
rare.csv, in which rows of other labels are kept: `before` is commit ffd0fb1c, run with this file)

Data set i has seed i, eps = 1. `few` is the expected number of rare rows. `determined` is the percentage of
the data sets in which the coefficient of `x` has an interval, `held` that of these in which it holds the
truth; `rare` and `rare_held` are the same of the rare rows' own coefficient, where it has one.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

PATH = Path(__file__).with_name("rare.csv")
SLOPE, EFFECT = 0.3, 2.0


def level(g, n, few, formula="y ~ x + g"):
    x, code = g.normal(5, 2, n), np.searchsorted([0.4, 0.7, 1 - few / n], g.random(n))
    data = {"x": x, "g": pd.Categorical.from_codes(code, list("abcd"))}
    return data, SLOPE * x + (code == 1) + EFFECT * (code == 3), formula, "g[T.d]"


def reference(g, n, few):
    data, mean, *_ = level(g, n, few)
    return data, mean, "y ~ x + C(g, Treatment('d'))", None


def value(g, n, few, formula="y ~ x + few", tilt=0.0):
    """Some rows have 1 in a column of zeros: more of them where x is large, with a `tilt`."""
    x = g.normal(5, 2, n)
    odds = np.exp(tilt * (x - 5) / 2)
    rare = (g.random(n) < few * odds / odds.sum()) * 1.0
    return {"x": x, "few": rare}, SLOPE * x + EFFECT * rare, formula, "few"


def tilted(g, n, few):
    return value(g, n, few, tilt=2.0)


def product(g, n, few):
    return value(g, n, few, "y ~ x * few")


DESIGNS = {
    "a level": level,
    "the reference level": reference,
    "a value of a column": value,
    "a value, where x is large": tilted,
    "a value, and its product": product,
}
ESTIMATORS = ("ols", "huber", "adassp", "logit", "poisson")
SIZES = {3_000: (30, 60, 90), 20_000: (60, 100, 200)}


def answers(estimator, mean, g):
    """Responses, and the coefficients of x and of the rare rows."""
    if estimator == "logit":
        return (g.random(len(mean)) < 1 / (1 + np.exp(1.5 - mean))) * 1.0, SLOPE, EFFECT
    if estimator == "poisson":
        return g.poisson(np.exp(mean / 3)) * 1.0, SLOPE / 3, EFFECT / 3
    return mean + 2 * g.standard_normal(len(mean)), SLOPE, EFFECT


def cell(estimator, name, n, few, sets):
    found = {"x": [], "rare": []}
    for seed in range(sets):
        g = np.random.default_rng([seed, n, few])
        data, mean, formula, own = DESIGNS[name](g, n, few)
        y, slope, effect = answers(estimator, mean, g)
        fit = getattr(dpstats, estimator)(formula, pd.DataFrame(data | {"y": y}), eps=1, seed=seed)
        ends = fit.conf_int()
        for key, coefficient, truth in (("x", "x", slope), ("rare", own, effect)):
            low, high = ends.loc[coefficient] if coefficient else (np.nan, np.nan)
            found[key].append(low <= truth <= high if np.isfinite(low) else np.nan)
    row = {"estimator": estimator, "design": name, "rows": n, "few": few}
    for key, held, given in (("x", "held", "determined"), ("rare", "rare_held", "rare")):
        seen = np.isfinite(found[key])
        row |= {
            given: 100 * np.mean(seen),
            held: 100 * np.mean(np.array(found[key])[seen]) if seen.any() else np.nan,
        }
    return row


def main(sets, label):
    rows = []
    for estimator in ESTIMATORS:
        for name in DESIGNS:
            for n, fews in SIZES.items():
                for few in fews:
                    rows.append({"code": label} | cell(estimator, name, n, few, sets))
                    print(*rows[-1].values(), flush=True)
    table = pd.DataFrame(rows).round(1)
    if PATH.exists():
        old = pd.read_csv(PATH)
        table = pd.concat([old[old["code"] != label], table])
    table.to_csv(PATH, index=False)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2] if len(sys.argv) > 2 else "now")
