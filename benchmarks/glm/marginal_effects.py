"""How often intervals of `poisson`'s average marginal effects hold; writes marginal_effects.csv.

    python benchmarks/glm/marginal_effects.py 100       # tables a cell; some five minutes

Counts of mean ``d exp(a + b x)`` with one column. Columns: `held`, the share of the intervals that contain
``b E d exp(a + b x)``; `ratio`, the mean of the released mean variance over the true one, and `spread`, its
standard deviation; `said`, the median of its standard error.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

DESIGNS = {
    "normal, b = .8": (lambda g, n: g.normal(size=n), -0.5, 0.8, 0),
    "uniform on (-2, 2), b = .8": (lambda g, n: g.uniform(-2, 2, n), -0.5, 0.8, 0),
    "exponential, b = .4": (lambda g, n: g.exponential(size=n), 0.0, 0.4, 0),
    "exponential, b = .5": (lambda g, n: g.exponential(size=n), 0.0, 0.5, 0),
    "gamma(2), b = .4": (lambda g, n: g.gamma(2, 1, n), -0.5, 0.4, 0),
    "log-normal(.7) up to 12, b = .3": (lambda g, n: np.minimum(g.lognormal(0, 0.7, n), 12), 0.0, 0.3, 0),
    "10 % ones, b = 2": (lambda g, n: (g.random(n) < 0.1) * 1.0, -1.0, 2.0, 0),
    "1 % ones, b = 2.5": (lambda g, n: (g.random(n) < 0.01) * 1.0, 0.0, 2.5, 0),
    "1 % ones, b = 3": (lambda g, n: (g.random(n) < 0.01) * 1.0, 0.0, 3.0, 0),
    "normal, b = .1; log-normal(.8) exposures": (lambda g, n: g.normal(size=n), 0.0, 0.1, 1),
    "normal, b = .1; exposures 20 in 1 % of rows": (lambda g, n: g.normal(size=n), 0.0, 0.1, 2),
}
CELLS = (2_000, 3.0), (20_000, 1.0), (20_000, 3.0), (100_000, 1.0)


def table(name, g, n):
    make, a, b, kind = DESIGNS[name]
    x = make(g, n)
    d = [np.ones(n), np.exp(0.8 * g.normal(size=n)), np.where(g.random(n) < 0.01, 20.0, 1.0)][kind]
    return x, d, d * np.exp(a + b * x)


def main(runs):
    rows = []
    for name, (*_, b, kind) in DESIGNS.items():
        truth = table(name, np.random.default_rng(9), 2_000_000)[2].mean()
        for n, eps in CELLS:
            held, ratios, said = [], [], []
            for seed in range(runs):
                g = np.random.default_rng([seed, n])
                x, d, mean = table(name, g, n)
                data = {"x": x, "days": d, "y": g.poisson(mean)}
                exposure = "days" if kind else None
                try:
                    fit = dpstats.poisson("y ~ x", data, eps=eps, seed=seed, exposure=exposure)
                except dpstats.ReleaseFailed:
                    continue
                effect = fit.marginal_effects().loc["x"]
                if np.isfinite(effect["std.error"]):
                    held.append(effect["conf.low"] <= b * truth <= effect["conf.high"])
                    ratios.append(fit.slopes.mean / truth)
                    said.append(fit.slopes.noise / truth)
            rows.append({
                "design": name, "n": n, "eps": eps, "tables": runs, "given": len(held),
                "held": np.mean(held) if held else np.nan, "ratio": np.mean(ratios) if held else np.nan,
                "spread": np.std(ratios) if held else np.nan, "said": np.median(said) if held else np.nan,
            })  # fmt: skip
            print(*rows[-1].values(), flush=True)
    pd.DataFrame(rows).round(4).to_csv(Path(__file__).with_name("marginal_effects.csv"), index=False)


if __name__ == "__main__":
    main(int(sys.argv[1]))
