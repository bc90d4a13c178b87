"""What `describe` and `diagnose` hold: coverage and error of a description, size and power of the tests.

    python benchmarks/explore/study.py describe RUNS     rewrites describe.csv
    python benchmarks/explore/study.py diagnose RUNS     rewrites diagnose.csv; departures have half the runs

See README.md. Every release is seeded, so that a study can be made again.
"""

import math
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from scipy import special, stats  # noqa: E402

import dpstats  # noqa: E402

HERE = Path(__file__).parent
QUARTILES = {"25 %": 0.25, "median": 0.5, "75 %": 0.75}
EPS = 1.0


# -- describe --------------------------------------------------------------------------------------------


def population():
    frame = dpstats.datasets.load_diamonds()
    return frame.assign(log_price=np.log(frame["price"]), price_per_carat=frame["price"] / frame["carat"])


def described(job):
    """Rows of the population drawn with replacement, described: the statistics and what is true of them."""
    seed, n = job
    whole = POPULATION
    table = whole.iloc[np.random.default_rng(seed).integers(0, len(whole), n)]
    found = dpstats.describe(table, eps=EPS, seed=seed).tidy().assign(n=n, seed=seed)
    found["truth"] = [
        TRUTH.get(key, math.nan) for key in zip(found["column"], found["statistic"], strict=True)
    ]
    found.loc[found["statistic"] == "rows", "truth"] = n
    found.loc[found["statistic"] == "missing", "truth"] = 0
    return found


POPULATION = population()
NUMBERS = [name for name in POPULATION if POPULATION[name].dtype.kind in "if"]
TIED = 0.005
TRUTH = {(name, "mean"): POPULATION[name].mean() for name in NUMBERS}
TRUTH |= {(name, "sd"): POPULATION[name].std() for name in NUMBERS}
REPEATED = {}
for _name in NUMBERS:
    for _label, _q in QUARTILES.items():
        TRUTH[_name, _label] = np.quantile(POPULATION[_name], _q, method="inverted_cdf")
        REPEATED[_name, _label] = float(np.mean(POPULATION[_name] == TRUTH[_name, _label]))
for _name in POPULATION.columns.difference(NUMBERS):
    for _level, _share in POPULATION[_name].value_counts(normalize=True).items():
        TRUTH[_name, f"share of {_level}"] = _share


def off_in_ranks(row):
    """By how much of the rows a quartile is off, with four digits."""
    x, q = SORTED[row["column"]], QUARTILES[row["statistic"]]
    value = float(f"{row['estimate']:.4g}")
    low, high = (np.searchsorted(x, value, side) / len(x) for side in ("left", "right"))
    return max(low - q, q - high, 0.0)


SORTED = {name: np.sort(POPULATION[name].to_numpy(float)) for name in NUMBERS}


def describe(runs):
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for n in (len(POPULATION), 10_000):
            found = pd.concat(pool.map(described, [(seed, n) for seed in range(runs)], chunksize=4))
            found["kind"] = found["statistic"].str.replace("share of.*", "share of a level", regex=True)
            # an interval cannot end within a value: where a quartile lies inside of many it holds always
            ties = [REPEATED.get(key, 0.0) for key in zip(found["column"], found["statistic"], strict=True)]
            found.loc[np.array(ties) > TIED, "kind"] += ", repeated"
            shown = found["estimate"].notna() & found["conf.low"].notna() & found["conf.high"].notna()
            inside = (found["conf.low"] <= found["truth"]) & (found["truth"] <= found["conf.high"])
            means = found[found["statistic"] == "mean"]
            off = (means["estimate"] / means["truth"] - 1).abs().groupby(means["seed"]).max()
            for kind, part in found[shown].groupby("kind", sort=False):
                hit = inside[shown][found[shown]["kind"] == kind]
                row = {"n": n, "kind": kind, "intervals": len(part), "coverage": hit.mean()}
                if kind == "mean":
                    row |= {"largest_error": off.max(), "runs_with_all_within_2_percent": (off < 0.02).mean()}
                elif kind.removesuffix(", repeated") in QUARTILES:
                    row["largest_error"] = part.apply(off_in_ranks, axis=1).max()
                elif kind == "sd":
                    row["largest_error"] = (part["estimate"] / part["truth"] - 1).abs().max()
                elif kind in ("rows", "missing"):
                    row["largest_error"] = ((part["estimate"] - part["truth"]).abs() / n).max()
                else:
                    row["largest_error"] = (part["estimate"] - part["truth"]).abs().max()
                rows.append(row | {"not_determined": 1 - len(part) / (found["kind"] == kind).sum()})
                print(rows[-1], flush=True)
    table = pd.DataFrame(rows).round(4)
    table.to_csv(HERE / "describe.csv", index=False)


# -- diagnose --------------------------------------------------------------------------------------------

CASES = {
    "ols": (
        "none",
        "curve",
        "unequal variances",
        "t(3) errors",
        "skewed errors",
        "skewed errors of unequal variances",
    ),
    "logit": ("none", "curve", "skewed columns"),
    "poisson": ("none", "curve", "overdispersion", "rare counts", "skewed columns"),
}
LEVELS = np.array(["a", "b", "c"])


def made(model, departure, n, seed):
    """Rows of a model with a skewed column and a factor, and one departure from it."""
    rng = np.random.default_rng(seed)
    x1, x2, f = rng.standard_normal(n), np.exp(0.5 * rng.standard_normal(n)), rng.integers(0, 3, n)
    frame = pd.DataFrame({"x1": x1, "x2": x2, "f": pd.Categorical(LEVELS[f], LEVELS)})
    if model == "ols":
        mean, e = 1 + x1 + 0.5 * x2 + 0.3 * (f == 1), rng.standard_normal(n)
        if departure == "curve":
            mean = mean + 0.06 * x1**2
        if departure == "unequal variances":
            e = e * np.exp(0.08 * (mean - mean.mean()))
        if departure == "t(3) errors":
            e = rng.standard_t(3, n) / math.sqrt(3)
        if departure == "skewed errors":
            e = rng.exponential(size=n) - 1
        if departure == "skewed errors of unequal variances":
            e = (rng.exponential(size=n) - 1) * np.maximum(1 + 0.15 * (mean - mean.mean()), 0.1)
        return frame.assign(y=mean + e)
    if departure == "skewed columns":
        # the model holds
        x1, x2 = rng.gamma(2, 0.7, n), (rng.random(n) < 0.3) * 1.0
        frame = frame.assign(x1=x1, x2=x2)
    eta = -0.8 + 0.7 * x1 + 0.4 * x2 + 0.3 * (f == 1)
    if departure == "curve":
        eta = eta + 0.15 * (x1**2 - 1)
    if model == "logit":
        return frame.assign(y=(rng.random(n) < special.expit(eta)) * 1.0)
    eta = eta - 3 * (departure == "rare counts")
    mean = np.exp(eta) * (rng.gamma(4, 1 / 4, n) if departure == "overdispersion" else 1.0)
    return frame.assign(y=rng.poisson(mean) * 1.0)


def classical(model, frame):
    """P-values without privacy, in the order of the private tests."""
    import statsmodels.api as sm
    import statsmodels.formula.api as smf
    import statsmodels.stats.diagnostic as sd

    if model == "ols":
        fit = smf.ols("y ~ x1 + x2 + f", frame).fit()
        z = fit.fittedvalues
        unequal = sd.het_breuschpagan(fit.resid, np.column_stack([np.ones(len(z)), z, z**2]))[1]
        return [
            sd.linear_reset(fit, power=3, use_f=True).pvalue,
            unequal,
            stats.jarque_bera(fit.resid).pvalue,
        ]
    family = sm.families.Binomial() if model == "logit" else sm.families.Poisson()
    fit = smf.glm("y ~ x1 + x2 + f", frame, family=family).fit()
    eta = stats.zscore(fit.predict(which="linear"))
    wide = smf.glm("y ~ x1 + x2 + f + e2 + e3", frame.assign(e2=eta**2, e3=eta**3), family=family)
    # the likelihood ratio, which holds its level better than Wald's test here
    found = [stats.chi2.sf(2 * (wide.fit().llf - fit.llf), 2)]
    if model == "poisson":
        mean = fit.fittedvalues
        u = ((frame["y"] - mean) ** 2 - frame["y"]) / mean
        found.append(2 * stats.norm.sf(abs(u.sum()) / np.sqrt(2 * len(u))))
    return found


def diagnosed(job):
    model, departure, n, seed = job
    frame = made(model, departure, n, seed)
    fit = getattr(dpstats, model)("y ~ x1 + x2 + f", frame, eps=EPS, seed=seed)
    tests = fit.diagnose(frame, eps=EPS, seed=seed + 10**6).tests
    return [t.pvalue for t in tests], classical(model, frame), [t.name for t in tests]


def diagnose(runs):
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for model, departures in CASES.items():
            for n in (5_000, 10_000):
                for departure in departures:
                    several = runs if departure == "none" else runs // 2
                    jobs = [(model, departure, n, seed) for seed in range(several)]
                    found = list(pool.map(diagnosed, jobs, chunksize=8))
                    private, without = (np.array([one[i] for one in found]) for i in (0, 1))
                    for k, name in enumerate(found[0][2]):
                        rows.append({
                            "model": model, "n": n, "departure": departure, "test": name, "runs": several,
                            "rejected": np.mean(private[:, k] < 0.05),
                            "rejected_without_privacy": np.mean(without[:, k] < 0.05),
                            "not_determined": np.mean(np.isnan(private[:, k])),
                        })  # fmt: skip
                        print(rows[-1], flush=True)
                    pd.DataFrame(rows).round(4).to_csv(HERE / "diagnose.csv", index=False)


if __name__ == "__main__":
    {"describe": describe, "diagnose": diagnose}[sys.argv[1]](int(sys.argv[2]))
