"""How often intervals of `poisson` hold for the coefficient of a group that few rows are in; writes
rare_groups.csv.

    python benchmarks/glm/rare_groups.py 200       # tables a design; some seven minutes

Counts of mean ``exp(a + b x + c z)`` with a normal `x` and a group `z`; where there is a `second` group, it
is 38 % of the rows and has .3. Columns: `held` is the share of the determined intervals that contain ``c``,
`bias` the mean error, `sd` its standard deviation, `se` the median standard error; `others` the least share
of the other coefficients.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

LAWS = {
    "Poisson": lambda g, mean: g.poisson(mean),
    "negative binomial": lambda g, mean: g.poisson(mean * g.gamma(1.5, 1 / 1.5, len(mean))),
    "Poisson, and 40 % zeros": lambda g, mean: (g.random(len(mean)) < 0.6) * g.poisson(mean / 0.6),
    "binomial of 6": lambda g, mean: g.binomial(6, np.minimum(mean / 6, 1)),
    "0/1": lambda g, mean: (g.random(len(mean)) < mean) * 1,
}
DESIGNS = [
    # law, and that of the group; rows, eps, share of the group, a, b, c, whether there is a second group
    ("Poisson", 20_000, 1.0, 0.02, 0.2, 0.5, 0.0, False),
    ("Poisson", 20_000, 0.5, 0.05, 0.2, 0.5, 0.0, False),
    ("Poisson", 20_000, 1.0, 0.02, 0.2, 0.25, -0.5, True),
    ("Poisson", 20_000, 1.0, 0.02, 1.5, 0.25, -0.5, True),
    ("Poisson", 50_000, 1.0, 0.01, 0.2, 0.25, -0.5, True),
    ("Poisson", 50_000, 0.5, 0.02, 0.2, 0.25, 0.0, True),
    ("Poisson", 50_000, 3.0, 0.02, 0.2, 0.25, 0.0, True),
    ("negative binomial", 20_000, 1.0, 0.02, 0.2, 0.5, 0.0, False),
    ("negative binomial", 50_000, 1.0, 0.02, 0.2, 0.25, 0.0, True),
    ("Poisson, and 40 % zeros", 20_000, 1.0, 0.02, 0.5, 0.3, 0.0, False),
    ("binomial of 6", 20_000, 1.0, 0.02, 0.5, 0.3, 0.0, False),
    ("0/1", 20_000, 1.0, 0.02, -0.8, 0.2, 0.0, False),
    ("Poisson / 0/1", 20_000, 1.0, 0.02, 0.7, 0.25, np.log(0.5) - 0.7, False),
    ("negative binomial / 0/1", 50_000, 1.0, 0.02, 0.7, 0.25, np.log(0.3) - 0.7, False),
    ("negative binomial / Poisson", 50_000, 0.5, 0.03, 0.7, 0.25, np.log(0.3) - 0.7, False),
    ("negative binomial / Poisson", 20_000, 1.0, 0.02, 0.7, 0.25, -0.7, False),
    ("negative binomial", 20_000, 1.0, 0.02, 0.7, 0.25, np.log(0.3) - 0.7, False),
]


def main(runs):
    rows = []
    for laws, n, eps, share, a, b, c, second in DESIGNS:
        law, _, own = laws.partition(" / ")
        errors, said = [], []
        for seed in range(runs):
            g = np.random.default_rng(seed)
            x, place = g.normal(size=n), g.random(n)
            group = np.where(place < share, "c", np.where(second & (place < share + 0.38), "b", "a"))
            mean = np.exp(a + b * x + c * (group == "c") + 0.3 * (group == "b"))
            y = np.where(group == "c", LAWS[own or law](g, mean), LAWS[law](g, mean))
            levels = {"group": ["a", "b", "c"] if second else ["a", "c"]}
            data = {"x": x, "group": group, "y": y}
            fit = dpstats.poisson("y ~ x + group", data, eps=eps, levels=levels, seed=seed)
            truth = pd.Series({"Intercept": a, "x": b, "group[T.b]": 0.3, "group[T.c]": c})[fit.params.index]
            errors.append(fit.params - truth)
            said.append(fit.bse)
        error, se = (pd.DataFrame(some).reset_index(drop=True) for some in (errors, said))
        held = (error.abs() <= 1.96 * se).where(se.notna()).mean()
        error, se = error["group[T.c]"], se["group[T.c]"]
        rows.append({
            "law": laws, "n": n, "eps": eps, "share": share, "a": a, "b": b, "c": c, "second": second,
            "tables": runs, "determined": se.notna().sum(), "held": held["group[T.c]"], "bias": error.mean(),
            "sd": error.std(), "se": se.median(), "others": held.drop("group[T.c]").min(),
        })  # fmt: skip
        print(*rows[-1].values(), flush=True)
    pd.DataFrame(rows).round(4).to_csv(Path(__file__).with_name("rare_groups.csv"), index=False)


if __name__ == "__main__":
    main(int(sys.argv[1]))
