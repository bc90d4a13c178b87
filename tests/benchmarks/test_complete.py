"""The benchmarks leave out no estimator of the list that is not experimental."""

from pathlib import Path

import first_call
import pandas as pd
from suite import methods, speed

from dpstats._estimators import AUDITED, ESTIMATORS

REGRESSIONS = {name for name in AUDITED if ESTIMATORS[name].module.startswith("dpstats.regression.")}


def test_every_regression_is_compared():
    compared = {name.split(",")[0] for name, m in methods.METHODS.items() if m.kind == methods.OURS}
    assert compared == REGRESSIONS


def test_every_regression_is_timed():
    assert set(speed.MANY) | set(speed.ONE) >= REGRESSIONS


def test_every_first_call_was_measured():
    table = pd.read_csv(Path(first_call.__file__).with_suffix(".csv"))
    assert table["estimator"].tolist() == list(first_call.calls())
    assert set(AUDITED) <= set(table["estimator"])
