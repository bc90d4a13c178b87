"""The one list of estimators that tests run through, with the data they run on."""

import numpy as np
import pandas as pd

import dpstats

__all__ = ["BOUNDS", "CASES", "LINE", "ONE", "PLANE", "ROWS", "TWO", "data", "run", "usual"]

LINE, PLANE, ONE, TWO = "y ~ x", "y ~ x + z", "y ~ 1", "y + x ~ 1"
BOUNDS = {"x": (-10, 10), "y": (-50, 50)}
# formula and the parameters that make a release likely
CASES = {
    "adassp": (PLANE, {}),
    "boosted_adassp": (PLANE, {}),
    "bounding_box": (ONE, {}),
    "deepest_regression": (LINE, {}),
    "gradient_descent": (PLANE, {}),
    "huber": (PLANE, {}),
    "mean": (ONE, {}),
    "median": (ONE, {}),
    "medsweep": (PLANE, {}),
    "noisy_stats": (LINE, {"bounds": BOUNDS}),
    "ols": (PLANE, {}),
    "quantile": (ONE, {"q": 0.9}),
    "select_features": (PLANE, {"k": 1}),
    "theil_sen": (LINE, {}),
    "tukey_em": (PLANE, {}),
    "tukey_median": (TWO, {}),
}
# the exact depths take n^2 log n steps
ROWS = {"deepest_regression": 2_000, "tukey_median": 4_000, "medsweep": 6_000}


def data(rows, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, rows))
    return pd.DataFrame({"x": x, "z": z, "y": 5 + 2 * x - z + rng.standard_normal(rows)})


def usual(name):
    return data(ROWS.get(name, 20_000))


def run(name, frame, **changes):
    formula, own = CASES[name]
    return getattr(dpstats, name)(
        changes.pop("formula", formula), frame, **{"eps": 4, "seed": 1, **own, **changes}
    )
