"""Rows on which every listed estimator makes a release, the call that makes it, and what its signature and
its needs tell."""

import contextlib
import inspect
from unittest import mock

import numpy as np
import pandas as pd

import dpstats
from dpstats._estimators import ESTIMATORS
from dpstats.estimation.call import Call

__all__ = ["BOUNDS", "GROUPED", "data", "public_rows", "run", "takes", "usual"]

BOUNDS = {"x": (-10, 10), "y": (-50, 50)}


def takes(parameter):
    """The estimators that have a parameter."""
    return [n for n in ESTIMATORS if parameter in inspect.signature(getattr(dpstats, n)).parameters]


GROUPED = takes("by")


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


def public_rows(name, **changes):
    """Whether the number of rows handed in is public in the listed call with changes."""
    asked = []

    def checked(call, needs):
        asked.append(needs.public_rows)
        raise dpstats.ParameterError("that was all")

    with mock.patch.object(Call, "checked", checked), contextlib.suppress(dpstats.ParameterError):
        run(name, None, **changes)
    return asked[0] or changes.get("neighbours") == "substitution"
