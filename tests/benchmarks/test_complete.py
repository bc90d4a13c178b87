"""The benchmarks leave out no listed estimator."""

from pathlib import Path

import first_call
import pandas as pd
from suite import methods

from dpstats._estimators import ESTIMATORS


def test_every_regression_is_compared():
    compared = {name.split(",")[0] for name, m in methods.METHODS.items() if m.kind == methods.OURS}
    assert compared == {name for name, e in ESTIMATORS.items() if e.module.startswith("dpstats.regression.")}


def test_every_first_call_was_measured():
    table = pd.read_csv(Path(first_call.__file__).with_suffix(".csv"))
    assert table["estimator"].tolist() == list(first_call.calls())
    assert set(ESTIMATORS) <= set(table["estimator"])
