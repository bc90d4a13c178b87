"""Coverage and width of intervals about units of several rows; writes coverage.csv.

Run: python benchmarks/unit/study.py 400 (six hours on one core), then names of cases if only some are wanted;
other rows are kept.

Units have 1 to 30 rows: of a heavy-tailed law (``Pareto``, index 1.3) or a uniform one. ``x1`` is the same
in all rows of a unit, ``x2`` moves in time (AR(1), 0.5); errors are a random intercept of the unit and an
AR(1) process (0.6), each of variance 1. Answers of ``logit`` and ``poisson`` are the quantiles at these
errors, so that their models hold for each row. A row is a coefficient of a case. `coverage`: of the 95 %
intervals; `width`: median ratio of the standard errors to the cluster-robust ones of statsmodels without
privacy, of the same estimator (of ``ols`` for ``huber`` and ``tukey_em``); `distance`: root mean squared
distance to its estimates, in those standard errors; `record`: coverage of what ``ols`` prints without
``unit=`` (``logit`` and ``poisson``: what they print).
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import special, stats
from scipy.signal import lfilter

import dpstats

PATH = Path(__file__).with_name("coverage.csv")
FORMULA, TRUTH = "y ~ x1 + x2", pd.Series({"Intercept": 2.0, "x1": 1.0, "x2": -0.5})
OF_ANSWERS = TRUTH / 2 - pd.Series({"Intercept": 1.5, "x1": 0.0, "x2": 0.0})
FAMILIES = {"logit": sm.families.Binomial(), "poisson": sm.families.Poisson()}
CASES = {
    "ols": ("ols", {}),
    "ols, weights": ("ols", {"weights": "unit"}),
    "ols, effects": ("ols", {"effects": "unit"}),
    "huber": ("huber", {}),
    "adassp": ("adassp", {}),
    "boosted_adassp": ("boosted_adassp", {}),
    "tukey_em": ("tukey_em", {}),
    "logit": ("logit", {}),
    "poisson": ("poisson", {}),
}
CELLS = (("Pareto", 2_000, 1.0), ("Pareto", 2_000, 3.0), ("Pareto", 20_000, 1.0), ("Pareto", 20_000, 3.0),
         ("uniform", 4_000, 2.0), ("uniform", 20_000, 3.0))  # fmt: skip


def autoregressive(noise, first, correlation):
    """An AR(1) process of variance 1 that starts anew at every True of `first`."""
    out = np.empty(len(noise))
    starts = np.append(np.flatnonzero(first), len(noise))
    for start, end in zip(starts[:-1], starts[1:], strict=True):
        part = noise[start:end] * np.sqrt(1 - correlation**2)
        part[0] = noise[start]
        out[start:end] = lfilter([1.0], [1.0, -correlation], part)
    return out


def draw(case, law, units, seed):
    """A panel, its rows in random order."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 31, units) if law == "uniform" else np.minimum(30, 1 + rng.pareto(1.3, units))
    unit = np.repeat(np.arange(units), rows.astype(int))
    first = np.append(True, unit[1:] != unit[:-1])
    x1 = rng.standard_normal(units)[unit]
    x2 = autoregressive(rng.standard_normal(len(unit)), first, 0.5)
    errors = rng.standard_normal(units)[unit] + autoregressive(rng.standard_normal(len(unit)), first, 0.6)
    truth = OF_ANSWERS if case in FAMILIES else TRUTH
    y = truth["Intercept"] + truth["x1"] * x1 + truth["x2"] * x2
    place = stats.norm.cdf(errors / np.sqrt(2))
    y = {
        "logit": lambda: (place < special.expit(y)).astype(float),
        "poisson": lambda: stats.poisson.ppf(place, np.exp(y)),
    }.get(case, lambda: y + errors)()
    frame = pd.DataFrame({"y": y, "x1": x1, "x2": x2, "unit": unit})
    return frame.iloc[rng.permutation(len(frame))]


def exact(frame, case):
    """The estimates and cluster-robust standard errors without privacy."""
    clusters, weights, formula = frame["unit"], None, FORMULA
    size = frame.groupby("unit")["y"].transform("size")
    if case == "ols, effects":
        columns = ["y", "x2"]
        within = frame[columns] - frame.groupby("unit")[columns].transform("mean")
        frame, formula = within[size > 1], "y ~ x2 - 1"
        clusters = clusters[size > 1]
    elif case == "ols, weights":
        weights = 1 / size
    elif case in FAMILIES:
        model = smf.glm(formula, frame, family=FAMILIES[case])
        fit = model.fit(cov_type="cluster", cov_kwds={"groups": clusters})
        return fit.params, fit.bse
    model = smf.ols(formula, frame) if weights is None else smf.wls(formula, frame, weights=weights)
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": clusters})
    return fit.params, fit.bse


def cell(case, law, units, eps, sets):
    name, given = CASES[case]
    found, refused = [], 0
    for seed in range(sets):
        frame = draw(case, law, units, seed)
        try:
            fit = getattr(dpstats, name)(FORMULA, frame, eps=eps, seed=seed, unit="unit", **given)
        except dpstats.ReleaseFailed:
            refused += 1
            continue
        params, bse = exact(frame, case)
        ends = fit.conf_int().loc[params.index]
        method = getattr(dpstats, case if case in FAMILIES else "ols")
        record = method(FORMULA, frame, eps=eps, seed=seed).conf_int().loc[params.index]
        truth = (OF_ANSWERS if case in FAMILIES else TRUTH)[params.index]
        found.append(
            pd.DataFrame(
                {
                    "coverage": (ends[0] <= truth) & (truth <= ends[1]),
                    "width": fit.bse[params.index] / bse,
                    "distance": ((fit.params[params.index] - params) / bse) ** 2,
                    "record": (record[0] <= truth) & (truth <= record[1]),
                    "known": fit.bse[params.index].notna(),
                }
            )
        )
    for coefficient in found[0].index if found else ():
        table = pd.DataFrame([f.loc[coefficient] for f in found]).astype(float)
        known = table[table["known"] > 0]
        yield {
            "case": case, "rows": law, "units": units, "eps": eps, "coefficient": coefficient, "sets": sets,
            "refused": refused / sets, "not determined": 1 - table["known"].mean(),
            "coverage": known["coverage"].mean(), "width": known["width"].median(),
            "distance": np.sqrt(known["distance"].mean()), "record": table["record"].mean(),
        }  # fmt: skip
    if not found:
        yield {"case": case, "rows": law, "units": units, "eps": eps, "sets": sets, "refused": 1.0}


def main(sets, cases, path=PATH):
    kept = pd.read_csv(path).to_dict("records") if path.exists() else []
    for case in cases:
        kept = [row for row in kept if row["case"] != case]
        for law, units, eps in CELLS:
            new = list(cell(case, law, units, eps, sets))
            kept += new
            for row in new:
                print(*(f"{v:.3f}" if isinstance(v, float) else v for v in row.values()), flush=True)
            pd.DataFrame(kept).to_csv(path, index=False, float_format="%.4g")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or list(CASES))
