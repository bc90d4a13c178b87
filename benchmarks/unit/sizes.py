"""Coverage where units of many rows differ from the others; writes sizes.csv.

    OMP_NUM_THREADS=1 python benchmarks/unit/sizes.py [SETS]    # 100 by default; an hour on one core

5,000 units, and designs of which the numbers of rows tell something:

- `heavy users`: 15 % of the units have 13 rows on average, the others two; the slope of a column is another
  in their rows (-.6 and -.2; of `logit` .6 and 0, of `poisson` .4 and 0)
- `visits by need`: the rows of units with a 0/1 column grow with the unit's own effect
- `slope by size`, `level by size`: log-normal numbers of rows, and a slope, or a constant, that grows with
  their logarithm
- `alike`: the numbers of rows of the first, and one slope for all

The truth is the estimate of all rows without privacy in 1.2 million units. A row is a coefficient; `coverage`
is of 95 % intervals, `off` the mean error in mean standard errors, `se` the median standard error, and
`classical` the coverage of cluster-robust intervals without privacy.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpstats

PATH = Path(__file__).with_name("sizes.csv")
UNITS, LARGE = 5_000, 400_000
Z = 1.959964
FAMILIES = {"logit": sm.families.Binomial(), "poisson": sm.families.Poisson()}


def answers(kind, linear, rng):
    """Responses at a linear predictor."""
    if kind == "logit":
        return (rng.random(len(linear)) < 1 / (1 + np.exp(-linear))) * 1
    if kind == "poisson":
        return rng.poisson(np.exp(linear))
    return linear + rng.normal(size=len(linear))


def users(kind, units, rng, alike=False):
    heavy = rng.random(units) < 0.15
    unit = np.repeat(np.arange(units), 1 + rng.poisson(np.where(heavy, 12, 1)))
    dose, own = rng.integers(0, 4, len(unit)) * 1.0, rng.normal(size=units)[unit]
    slopes = {"logit": (0.6, 0.0), "poisson": (0.4, 0.0)}.get(kind, (-0.6, -0.2))
    slope = sum(slopes) / 2 if alike else np.where(heavy[unit], *slopes)
    level = {"logit": -0.5, "poisson": 0.2}.get(kind, 24.0)
    frame = {
        "id": unit,
        "x": dose,
        "y": answers(kind, level + slope * dose + (0.4 if kind else 1) * own, rng),
    }
    return pd.DataFrame(frame), "y ~ x"


def need(kind, units, rng):
    own, ill = rng.normal(size=units), (rng.random(units) < 0.5) * 1.0
    unit = np.repeat(np.arange(units), 1 + rng.poisson(np.exp(0.8 + 0.6 * own * ill)))
    x, share = rng.integers(0, 2, len(unit)) * 1.0, 0.5 if kind else 1
    linear = share * (2 * own + ill)[unit] - 0.5 * x
    return pd.DataFrame(
        {"id": unit, "ill": ill[unit], "x": x, "y": answers(kind, linear, rng)}
    ), "y ~ ill + x"


def by_size(kind, units, rng, slope, level):
    rows = np.minimum(np.ceil(rng.lognormal(1, 1, units)).astype(int), 300)
    unit, log = np.repeat(np.arange(units), rows), np.repeat(np.log(rows), rows)
    x, own = rng.normal(size=len(unit)), rng.normal(size=units)[unit]
    linear = (0 if kind else 1) + (0.3 + slope * log) * x + level * log + (0.4 if kind else 1) * own
    return pd.DataFrame({"id": unit, "x": x, "y": answers(kind, linear, rng)}), "y ~ x"


DESIGNS = {
    "heavy users": users,
    "visits by need": need,
    "slope by size": lambda *given: by_size(*given, 0.1, 0.0),
    "level by size": lambda *given: by_size(*given, 0.0, 0.2),
    "alike": lambda *given: users(*given, alike=True),
}
CASES = {
    "ols": ("ols", {}),
    "ols, effects": ("ols", {"effects": "unit"}),
    "adassp": ("adassp", {}),
    "logit": ("logit", {}),
    "poisson": ("poisson", {}),
}


def classical(kind, formula, frame, effects):
    if effects:
        columns = frame.columns.drop("id")
        frame = frame.assign(**frame[columns].sub(frame.groupby("id")[columns].transform("mean")))
        formula = f"{formula} - 1"
    if kind:
        model = smf.glm(formula, frame, family=FAMILIES[kind])
    else:
        model = smf.ols(formula, frame)
    return model.fit(cov_type="cluster", cov_kwds={"groups": frame["id"]})


def coefficients(case, design, eps, sets):
    estimator, more = CASES[case]
    kind, effects = estimator if estimator in FAMILIES else "", "effects" in more
    wholes = [DESIGNS[design](kind, LARGE, np.random.default_rng([9, i])) for i in range(3)]
    truth = sum(classical(kind, formula, frame, effects).params for frame, formula in wholes) / len(wholes)
    errors, ses, held = [], [], []
    for seed in range(sets):
        frame, formula = DESIGNS[design](kind, UNITS, np.random.default_rng(seed))
        fit = getattr(dpstats, estimator)(formula, frame, eps=eps, unit="id", seed=seed, **more)
        plain = classical(kind, formula, frame, effects)
        held.append(np.abs(plain.params - truth) <= Z * plain.bse)
        errors.append(fit.params - truth)
        ses.append(fit.bse)
    errors, ses = (pd.DataFrame(parts)[list(truth.index)].reset_index(drop=True) for parts in (errors, ses))
    given = ses.notna()
    within = (errors.abs() <= Z * ses).where(given)
    for name in truth.index:
        yield {
            "fit": case, "design": design, "eps": eps, "coefficient": name, "sets": sets,
            "given": int(given[name].sum()), "coverage": within[name].mean(),
            "off": errors[name].mean() / ses[name].mean(), "se": ses[name].median(),
            "classical": np.mean([h[name] for h in held]),
        }  # fmt: skip


if __name__ == "__main__":
    sets, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100, []
    for case in CASES:
        for design in DESIGNS:
            for eps in (1.0, 3.0):
                found = list(coefficients(case, design, eps, sets))
                print(pd.DataFrame(found).round(3).to_string(index=False, header=False), flush=True)
                rows += found
    pd.DataFrame(rows).round(4).to_csv(PATH, index=False)
