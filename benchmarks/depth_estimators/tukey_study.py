"""Error of the private Tukey median, drawn by depth; and that of the first version, which was not private
from three columns on.

    python benchmarks/depth_estimators/tukey_study.py   to tukey_accuracy.csv (about five minutes on one core)

The error is the distance from the population's Tukey median in units of the columns' standard deviations (for
log-normal columns, of their logarithms). Columns lie 20 units from zero, and bounds are 100 units to either
side of zero.
"""

import functools
from pathlib import Path

import numpy as np
import pandas as pd

import dpstats
from dpstats.mechanisms import deep_point as _deep_point

RESULTS = Path(__file__).with_name("tukey_accuracy.csv")
SETS = 20
LAWS = ("correlated", "log-normal", "20 % outliers")
CENTRE, HALF_WIDTH = 20.0, 100.0
FIRST_VERSION = {
    # columns, rows, eps, bounds: data sets, median and mean error of commit e4e8d7f on normal data, in the
    # units above
    (3, 1000, 1.0, True): (200, 1.1094, 1.2198),
    (3, 4000, 1.0, True): (100, 0.3986, 0.4549),
    (3, 4000, 1.0, False): (100, 0.7297, 0.8794),
    (3, 1000, 4.0, True): (100, 0.2114, 0.2378),
    (3, 1000, 4.0, False): (100, 0.3548, 0.4247),
    (5, 4000, 1.0, True): (60, 0.9395, 0.9534),
    (5, 4000, 1.0, False): (60, 1.5354, 1.5635),
    (2, 500, 1.0, True): (40, 1.2852, 1.2991),
    (2, 1000, 1.0, True): (40, 0.4880, 0.5383),
    (2, 1000, 1.0, False): (40, 0.7215, 0.8571),
    (2, 1000, 4.0, True): (40, 0.0640, 0.0687),
    (2, 1000, 4.0, False): (40, 0.0703, 0.0896),
}
"""Bounds were 20 units to either side of data around zero; without bounds 1,000 rows at eps = 1 in three
columns were refused."""


def draw(law, n, d, g):
    """Data around zero."""
    Z = g.standard_normal((n, d))
    if law == "correlated":
        return np.sqrt(0.1) * Z + np.sqrt(0.9) * g.standard_normal((n, 1))
    if law == "log-normal":
        return np.exp(Z)
    if law == "20 % outliers":
        Z[: n // 5] += 10.0
    return Z


@functools.cache
def target(law, d):
    """The population's Tukey median: on the diagonal by symmetry, found on it from 100,000 rows."""
    if law in ("normal", "correlated"):
        return 0.0
    V = _deep_point.general_directions(d, 200)
    X = draw(law, 100_000, d, np.random.default_rng(1))
    steps = np.linspace(0.0, 2.0, 401)
    deep = _deep_point.depths(np.repeat(steps[:, None], d, axis=1), X, V)
    return float(steps[deep >= deep.max() - 50].mean())


def cell(law, n, d, eps, bounded, sets):
    """Errors of many data sets."""
    names = [f"y{j}" for j in range(d)]
    box = {"bounds": dict.fromkeys(names, (-HALF_WIDTH, HALF_WIDTH))} if bounded else {}
    errors = []
    for seed in range(sets):
        X = CENTRE + draw(law, n, d, np.random.default_rng(seed))
        fit = dpstats.tukey_median(
            " + ".join(names) + " ~ 1",
            dict(zip(names, X.T, strict=True)),
            eps=eps,
            intervals=False,
            seed=seed,
            **box,
        )
        errors.append(float(np.linalg.norm(fit.params - CENTRE - target(law, d))))
    return {
        "law": law, "columns": d, "rows": n, "eps": eps, "bounds": bounded, "sets": sets,
        "median": np.median(errors), "mean": np.mean(errors), "beyond_1": np.mean(np.array(errors) > 1),
    }  # fmt: skip


def main():
    """All cells, and the first version where it was measured."""
    cells = [("normal", n, d, eps) for d in (2, 3, 5) for n in (500, 1000, 4000) for eps in (0.5, 1.0, 4.0)]
    cells += [(law, 4000, 3, 1.0) for law in LAWS]
    rows = []
    for law, n, d, eps in cells:
        for bounded in (True, False):
            sets = 200 if (law, n, d, eps) == ("normal", 1000, 3, 1.0) else SETS
            rows.append(cell(law, n, d, eps, bounded, sets) | {"version": "exponential"})
            print(rows[-1], flush=True)
    for (d, n, eps, bounded), (sets, median, mean) in FIRST_VERSION.items():
        rows.append({
            "law": "normal", "columns": d, "rows": n, "eps": eps, "bounds": bounded, "sets": sets,
            "median": median,
            "mean": mean, "version": "e4e8d7f",
        })  # fmt: skip
    pd.DataFrame(rows).to_csv(RESULTS, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
