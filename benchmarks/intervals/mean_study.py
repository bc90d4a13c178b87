"""Coverage and width of the interval of ``mean``; writes mean.csv.

Run: python benchmarks/intervals/mean_study.py 400 1000 2000 20000 200000 (half an hour on one core): the
number of data sets, and sizes. Rows of other sizes are kept.

A row is a law, a size and a budget. `refused`: no interval; `limited`: the table says that the interval
is for the mean of limited values. `coverage` is of the population's mean where the interval claims it,
`limited coverage` of the mean of the values moved into the limits that are printed (from a sample of
2,000,000). `limited holds mean`: how often the latter hold the population's mean all the same. `width`:
median ratio to the classical interval, where the population's mean is claimed. `classical`: coverage of
the mean plus and minus 1.96 standard errors without privacy.
"""

import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr

import dpstats

HERE = Path(__file__).parent
ROUNDED_UP = 500 * (1 + ndtr((4 - np.log(np.arange(1, 100_000))) / 0.7).sum())
"""Mean of whole 500s: a sum of tail probabilities."""
LAWS = {
    "normal": (lambda g, n: g.standard_normal(n), 0.0),
    "t(3)": (lambda g, n: g.standard_t(3, n), 0.0),
    "log-normal(1)": (lambda g, n: g.lognormal(0, 1, n), math.exp(0.5)),
    "log-normal(1.5)": (lambda g, n: g.lognormal(0, 1.5, n), math.exp(1.125)),
    "log-normal(2)": (lambda g, n: g.lognormal(0, 2, n), math.exp(2)),
    "exponential": (lambda g, n: g.exponential(1, n), 1.0),
    "Pareto(2.5)": (lambda g, n: 1 + g.pareto(2.5, n), 2.5 / 1.5),
    "0/1, 10 %": (lambda g, n: (g.random(n) < 0.1) * 1.0, 0.1),
    "0/1, 1 %": (lambda g, n: (g.random(n) < 0.01) * 1.0, 0.01),
    "95 % zeros": (lambda g, n: (g.random(n) < 0.05) * g.lognormal(0, 1, n), 0.05 * math.exp(0.5)),
    "1e6 +- 1": (lambda g, n: 1e6 + g.uniform(-1, 1, n), 1e6),
    "uniform": (lambda g, n: g.random(n), 0.5),
    "Laplace": (lambda g, n: g.laplace(size=n), 0.0),
    "two clusters": (lambda g, n: g.standard_normal(n) + 8 * (g.random(n) < 0.3), 2.4),
    "minus log-normal(1)": (lambda g, n: -g.lognormal(0, 1, n), -math.exp(0.5)),
    "gamma(0.3)": (lambda g, n: g.gamma(0.3, 1, n), 0.3),
    "Weibull(0.6)": (lambda g, n: g.weibull(0.6, n), math.gamma(1 + 1 / 0.6)),
    "score, beta(5, 2)": (lambda g, n: 100 * g.beta(5, 2, n), 500 / 7),
    "years": (lambda g, n: g.integers(1990, 2021, n) * 1.0, 2005.0),
    "wages, in 500s": (lambda g, n: 500 * np.ceil(g.lognormal(4, 0.7, n)), ROUNDED_UP),
    "costs, 60 % zeros": (lambda g, n: (g.random(n) < 0.4) * g.lognormal(7, 1.2, n), 0.4 * math.exp(7.72)),
    "Poisson(0.3)": (lambda g, n: g.poisson(0.3, n) * 1.0, 0.3),
    "negative binomial": (lambda g, n: g.poisson(4 * g.gamma(0.5, 2, n)) * 1.0, 4.0),
    "0/1, 50 %": (lambda g, n: (g.random(n) < 0.5) * 1.0, 0.5),
    "costs, 1 % far out": (
        lambda g, n: np.where(g.random(n) < 0.99, g.gamma(2, 60, n), g.lognormal(9, 0.8, n)),
        0.99 * 120 + 0.01 * math.exp(9.32),
    ),
    "1e9 +- 1": (lambda g, n: 1e9 + g.standard_normal(n), 1e9),
}


def cell(law, n, eps, runs):
    draw, truth = LAWS[law]
    g = np.random.default_rng(20221122)
    # values about the median keep their digits
    middle = np.median(draw(g, 1000))
    population = np.sort(draw(g, 2_000_000)) - middle
    sums = np.concatenate([[0.0], np.cumsum(population)])

    def limited_mean(low, high):
        a, b = np.searchsorted(population, [low - middle, high - middle])
        total = a * (low - middle) + sums[b] - sums[a] + (len(population) - b) * (high - middle)
        return middle + total / len(population)

    seen = []
    for seed in range(runs):
        y = draw(g, n)
        mean, width = y.mean(), 1.96 * y.std() / math.sqrt(n)
        row = {"classical": abs(mean - truth) <= width, "refused": True, "limited": False}
        try:
            fit = dpstats.mean("y ~ 1", {"y": y}, eps=eps, seed=seed)
        except dpstats.ReleaseFailed:  # too few rows
            seen.append(row)
            continue
        low, high = fit.conf_int().loc["y"]
        if np.isfinite(high - low):
            row["refused"], row["limited"] = False, bool(fit.limited)
            about = limited_mean(*fit.limited[0][1:]) if fit.limited else truth
            row["limited coverage" if fit.limited else "coverage"] = float(low <= about <= high)
            row["limited holds mean" if fit.limited else "width"] = (
                float(low <= truth <= high) if fit.limited else (high - low) / 2 / width if width else np.nan
            )
        seen.append(row)
    frame = pd.DataFrame(seen).reindex(
        columns=[
            "classical",
            "refused",
            "limited",
            "coverage",
            "limited coverage",
            "limited holds mean",
            "width",
        ]
    )
    out = frame.drop(columns="width").astype(float).mean().to_dict() | {"width": frame["width"].median()}
    return {"law": law, "n": n, "eps": eps, "runs": runs, **out}


def main(runs, sizes):
    path = HERE / "mean.csv"
    kept = pd.read_csv(path).query("n not in @sizes").to_dict("records") if path.exists() else []
    for n in sizes:
        for law in LAWS:
            for eps in (0.5, 1.0, 3.0):
                kept.append(cell(law, n, eps, runs))
                print(*(f"{v:.3f}" if isinstance(v, float) else v for v in kept[-1].values()), flush=True)
    pd.DataFrame(kept).to_csv(path, index=False, float_format="%.4g")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]), [int(n) for n in sys.argv[2:]])
