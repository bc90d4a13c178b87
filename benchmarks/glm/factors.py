"""`poisson` and `logit` of factors with low rates, few events, or many ones: what is determined, and holds.

Run: OMP_NUM_THREADS=1 python benchmarks/glm/factors.py [TABLES [LABEL]]   (40; half a minute; writes
factors.csv, in which rows of other labels are kept: `before` is commit 8dc73893)

Life tables have age groups with equally many of 20,000 rows, rates of exp(-9) in the first and `step` more in
the logarithm in each, and log-normal exposures. The others are logistic. `determined` is the percentage of
the coefficients that have an interval, `held` of these, and `se` their median standard error.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

PATH, ROWS = Path(__file__).with_name("factors.csv"), 20_000
SHARES = [0.3, 0.2, 0.15, 0.1, 0.1, 0.06, 0.05, 0.04]


def life_table(groups, step):
    def make(g):
        ages, exposure = g.integers(0, groups, ROWS), np.exp(g.normal(8, 1.2, ROWS))
        counts = g.poisson(exposure * np.exp(-9 + step * ages)) * 1.0
        given = {"exposure": "exposure", "levels": {"ages": list(range(groups))}}
        return "poisson", {"y": counts, "ages": ages, "exposure": exposure}, "y ~ ages", given

    return make, lambda name: -9.0 if name == "Intercept" else step * int(name[7:-1])


def few_events(cov_type):
    def make(g):
        levels, age = g.choice(8, ROWS, p=SHARES), g.integers(18, 91, ROWS) * 1.0
        y = (g.random(ROWS) < 1 / (1 + np.exp(3.2 - 0.03 * (age - 50)))) * 1.0
        given = {"cov_type": cov_type, "levels": {"g": list(range(8))}}
        return "logit", {"y": y, "age": age, "g": levels}, "y ~ age + g", given

    return make, lambda name: {"Intercept": -4.7, "age": 0.03}.get(name, 0.0)


def mostly(sign):
    def make(g):
        s = (g.random(ROWS) < 0.5) * 1.0
        y = (g.random(ROWS) < 1 / (1 + np.exp(-sign * (3.7 + 0.4 * s)))) * 1.0
        return "logit", {"y": y, "s": s}, "y ~ s", {}

    return make, lambda name: sign * {"Intercept": 3.7, "s": 0.4}[name]


DESIGNS = {
    "life table, 18 groups, step .42": (life_table(18, 0.42), (1, 3)),
    "life table, 9 groups, step .8": (life_table(9, 0.8), (1,)),
    "life table, 18 groups, step .2": (life_table(18, 0.2), (1,)),
    "4 % events, eight levels, robust": (few_events("robust"), (1, 3)),
    "4 % events, eight levels, nonrobust": (few_events("nonrobust"), (1, 3)),
    "98 % ones": (mostly(1), (1, 3)),
    "98 % zeros": (mostly(-1), (1, 3)),
}


def cell(make, truth, eps, tables):
    given, held, errors = [], [], []
    for seed in range(tables):
        name, data, formula, arguments = make(np.random.default_rng(seed))
        fit = getattr(dpstats, name)(formula, pd.DataFrame(data), eps=eps, seed=seed, **arguments)
        off = np.abs(fit.params.to_numpy() - [truth(column) for column in fit.names])
        known = fit.determined.to_numpy()
        given.append(known)
        held.append(off[known] < 1.96 * fit.bse.to_numpy()[known])
        errors.append(fit.bse.to_numpy()[known])
    return 100 * np.mean(given), 100 * np.mean(np.concatenate(held)), np.median(np.concatenate(errors))


def main(tables, label):
    rows = []
    for design, ((make, truth), budgets) in DESIGNS.items():
        for eps in budgets:
            determined, held, se = cell(make, truth, eps, tables)
            rows.append({
                "code": label, "design": design, "eps": eps, "tables": tables,
                "determined": round(determined, 1), "held": round(held, 1), "se": round(se, 3),
            })  # fmt: skip
            print(*rows[-1].values(), flush=True)
    kept = [old[old["code"] != label] for old in [pd.read_csv(PATH)]] if PATH.exists() else []
    pd.concat([*kept, pd.DataFrame(rows)]).to_csv(PATH, index=False)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40, sys.argv[2] if len(sys.argv) > 2 else "now")
