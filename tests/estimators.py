"""Rows on which every listed estimator makes a release, and the call that makes it."""

import numpy as np
import pandas as pd

import dpstats
from dpstats._estimators import ESTIMATORS

__all__ = ["BOUNDS", "data", "run", "usual"]

BOUNDS = {"x": (-10, 10), "y": (-50, 50)}


def data(rows, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, rows))
    return pd.DataFrame({"x": x, "z": z, "y": 5 + 2 * x - z + rng.standard_normal(rows)})


def usual(name):
    return data(ESTIMATORS[name].rows)


def run(name, frame, **changes):
    """The listed call, with changes."""
    listed = ESTIMATORS[name]
    formula = changes.pop("formula", listed.formula)
    return getattr(dpstats, name)(formula, frame, **{"eps": 4, "seed": 1, **listed.own, **changes})
