"""Intervals of ``tukey_em`` for columns, levels and products of which random subsets have few rows or none.

Run: OMP_NUM_THREADS=1 python benchmarks/tukey_em/few_rows.py [TABLES [LABEL]]   (60; two minutes; writes
few_rows.csv, in which rows of other labels are kept: `before` is commit bcbb2c95)

Normal errors of variance 1; the truth is that of the law. `determined` is the number of tables with an
interval, `held` how many of these have the truth, `width` the median width over ``3.92 / sqrt(rows n)`` with
`rows` the share of the rows that the coefficient is about.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

PATH = Path(__file__).with_suffix(".csv")


def ones(share):
    """A numeric column that is 1 in such a share of the rows, beside a normal one."""

    def draw(g, n):
        z, x = (g.random(n) < share) * 1.0, g.standard_normal(n)
        return {"z": z, "x": x, "y": 1 + 2 * z + x + g.standard_normal(n)}

    rare = min(share, 1 - share)
    return draw, "y ~ z + x", {"Intercept": (1, rare if share > 0.5 else 1), "z": (2, rare)}


def level(share, formula, truth):
    """A factor whose level `a` has such a share of the rows; means 1, 2 and 3."""

    def draw(g, n):
        code, x = g.choice(3, n, p=[share, 0.5, 0.5 - share]), g.standard_normal(n)
        y = np.array([1.0, 2.0, 3.0])[code] + x + g.standard_normal(n)
        return {"g": pd.Categorical.from_codes(code, list("abc")), "x": x, "y": y}

    return draw, formula, {name: (value, share) for name, value in truth.items()}


def product(share, both):
    """Two columns that are 1 in such a share of the rows, both in the share `both`, and their product."""

    def draw(g, n):
        u, x = g.random(n), g.standard_normal(n)
        z = (u < share) * 1.0
        w = ((u < both) | ((u >= share) & (u < 2 * share - both))) * 1.0
        y = 2 + 0.5 * x + 1.5 * z + 1.5 * w + 0.7 * z * w + g.standard_normal(n)
        return {"z": z, "w": w, "x": x, "y": y}

    return draw, "y ~ x + z * w", {"z": (1.5, share), "w": (1.5, share), "z:w": (0.7, both)}


DESIGNS = {
    "1 in 1 %": (ones(0.01), (20_000, 200_000)),
    "1 in 99 %": (ones(0.99), (20_000, 200_000)),
    "treatment, 1 %": (level(0.01, "y ~ g + x", {"Intercept": 1, "g[T.b]": 1}), (20_000, 200_000)),
    "Sum, 1 %": (level(0.01, "y ~ C(g, Sum) + x", {"C(g, Sum)[S.a]": -1}), (50_000, 200_000)),
    "Helmert, 1 %": (level(0.01, "y ~ C(g, Helmert) + x", {"C(g, Helmert)[H.b]": 0.5}), (50_000, 200_000)),
    "no constant, 1 %": (level(0.01, "y ~ g + x - 1", {"g[a]": 1}), (50_000, 200_000)),
    "slopes, 2 %": (level(0.02, "y ~ g * x", {"x": 1, "g[T.b]:x": 0}), (20_000, 100_000)),
    "product, 10 %": (product(0.1, 0.01), (20_000, 100_000)),
    "product, 5 %": (product(0.05, 0.0025), (100_000,)),
    "product, together": (product(0.1, 0.06), (20_000, 100_000)),
    "product, apart": (product(0.1, 0.002), (100_000,)),
}


def cells(name, tables, label):
    (draw, formula, truth), sizes = DESIGNS[name]
    for n in sizes:
        for eps in (1, 3):
            fits = []
            for seed in range(tables):
                data = pd.DataFrame(draw(np.random.default_rng([seed, 6]), n))
                try:
                    fits.append(dpstats.tukey_em(formula, data, eps=eps, seed=seed))
                except dpstats.ReleaseFailed:
                    continue
            for coefficient, (value, share) in truth.items():
                se = np.array([fit.bse[coefficient] for fit in fits])
                known = np.isfinite(se)
                errors = np.abs([fit.params[coefficient] - value for fit in fits])[known]
                width = np.median(se[known]) * np.sqrt(share * n) if known.any() else np.nan
                counts = {"determined": int(known.sum()), "held": int(np.sum(errors <= 1.96 * se[known]))}
                keys = {"code": label, "design": name, "rows": n, "eps": eps, "coefficient": coefficient}
                yield keys | {"tables": tables} | counts | {"width": round(float(width), 2)}


def main(tables, label):
    table = pd.DataFrame([cell for name in DESIGNS for cell in cells(name, tables, label)])
    print(table.to_string(index=False))
    if PATH.exists():
        old = pd.read_csv(PATH)
        table = pd.concat([old[old["code"] != label], table])
    table.to_csv(PATH, index=False)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60, sys.argv[2] if len(sys.argv) > 2 else "now")
