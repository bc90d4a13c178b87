"""Coverage and width of the median's interval, its rank error, and medians near 0.

Writes median_coverage.csv, median_ranks.csv and median_near_zero.csv.

Run: python benchmarks/depth_estimators/median_study.py  (about two minutes on one core)
"""

import platform
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom

import dpstats
from dpstats.mechanisms import exponential
from dpstats.mechanisms.rng import Randomness

HERE = Path(__file__).parent
RUNS = 1000
LAWS = {
    "normal": (lambda g, n: g.normal(size=n), 0.0),
    "Cauchy": (lambda g, n: g.standard_cauchy(n), 0.0),
    "exponential": (lambda g, n: g.exponential(size=n), np.log(2)),
    # 0 with probability 0.6, else 1
    "two points": (lambda g, n: (g.random(n) < 0.4).astype(float), 0.0),
    # half the mass near 0 and half near 1000: the population median lies in the gap between them
    "two clusters": (lambda g, n: g.normal(size=n) * 0.01 + 1000.0 * (g.random(n) < 0.5), 500.0),
}


def classical(x):
    """The order-statistic interval without privacy."""
    n = len(x)
    low = int(binom.ppf(0.025, n, 0.5))
    x = np.sort(x)
    return x[low - 1], x[n - low]


def coverage():
    rows = []
    for law, (draw, truth) in LAWS.items():
        for n in (200, 5000):
            for eps in (0.5, 2.0):
                g = np.random.default_rng(20221121)
                hits, classical_hits, ratios, infinite = 0, 0, [], 0
                for run in range(RUNS):
                    x = draw(g, n)
                    fit = dpstats.median("x ~ 1", {"x": x}, eps=eps, seed=run)
                    low, high = fit.conf_int().to_numpy()[0]
                    a, b = classical(x)
                    hits += low <= truth <= high
                    classical_hits += a <= truth <= b
                    infinite += not np.isfinite(high - low)
                    ratios.append((high - low) / (b - a) if b > a else np.nan)
                ratios = np.array(ratios)
                finite = ratios[np.isfinite(ratios)]
                rows.append({
                    "law": law, "n": n, "eps": eps, "coverage": hits / RUNS,
                    "classical coverage": classical_hits / RUNS,
                    "mean width ratio (finite)": finite.mean() if len(finite) else np.nan,
                    "median width ratio": np.nanmedian(ratios) if not np.isnan(ratios).all() else np.nan,
                    "share of infinite intervals": infinite / RUNS,
                })  # fmt: skip
                print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def ranks():
    rows = []
    for law in ("log-normal", "Cauchy"):
        for mechanism, alpha in (("exponential", None), ("exponential", 0.05), ("smooth", 0.05)):
            g = np.random.default_rng(1)
            errors, failed = [], 0
            for run in range(200):
                x = np.sort(g.lognormal(size=1000) if law == "log-normal" else g.standard_cauchy(1000))
                try:
                    fit = dpstats.median("x ~ 1", {"x": x}, eps=1, mechanism=mechanism, alpha=alpha, seed=run)
                except dpstats.ReleaseFailed:
                    failed += 1
                    errors.append(np.inf)
                    continue
                errors.append(abs(np.searchsorted(x, fit.params["x"]) - 500))
            interval = "with interval" if mechanism == "exponential" and alpha else "estimate alone"
            rows.append({
                "law": law, "n": 1000, "eps": 1, "mechanism": mechanism, "budget": interval,
                "median rank error": np.median(errors),
                "90 % rank error": np.quantile(errors, 0.9, method="lower"), "failed": failed / 200,
            })  # fmt: skip
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def near_zero():
    """The estimate's error against the sample median, at the budget that it has beside an interval: on the
    lattice of all doubles, and as it is released."""
    rows = []
    for plus in (0, 1000):
        for n, eps in ((1000, 1.0), (2000, 0.5), (2000, 1.0), (5000, 1.0)):
            g = np.random.default_rng(20221121)
            errors = []
            for run in range(RUNS):
                x = g.normal(0.05, size=n) + plus
                doubles = exponential.quantile(x, 0.5, 0.35 * eps, Randomness(run))
                released = dpstats.median("x ~ 1", {"x": x}, eps=eps, seed=run).params["x"]
                errors.append(np.array([doubles, released]) - np.median(x))
            doubles, released = np.sqrt(np.mean(np.square(errors), axis=0))
            rows.append({"plus": plus, "n": n, "eps": eps, "doubles": doubles, "size": released})
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    print(platform.platform(), platform.python_version(), np.__version__)
    near_zero().to_csv(HERE / "median_near_zero.csv", index=False, float_format="%.4g")
    ranks().to_csv(HERE / "median_ranks.csv", index=False, float_format="%.4g")
    coverage().to_csv(HERE / "median_coverage.csv", index=False, float_format="%.4g")
