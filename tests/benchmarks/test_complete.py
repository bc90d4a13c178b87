"""The benchmarks leave out no estimator of the list that is not experimental."""

import sys
from pathlib import Path

import first_call
import pandas as pd
import pytest
from suite import methods, speed, validity

from dpstats._estimators import AUDITED, ESTIMATORS
from dpstats.results.results import SAMPLING_AND_PRIVACY

sys.path.insert(0, str(Path(__file__).parents[1]))
from estimators import run, usual  # noqa: E402

GLM = Path(first_call.__file__).parent / "glm"
GLMS = {"logit", "poisson"}
"""Compared, timed and counted in a study of their own."""
REGRESSIONS = {name for name in AUDITED if ESTIMATORS[name].module.startswith("dpstats.regression.")} - GLMS


def test_every_regression_is_compared():
    compared = {name.split(",")[0] for name, m in methods.METHODS.items() if m.kind == methods.OURS}
    assert compared == REGRESSIONS


def test_every_regression_is_timed():
    assert set(speed.MANY) | set(speed.ONE) >= REGRESSIONS


@pytest.mark.slow
@pytest.mark.parametrize("name", AUDITED)
def test_intervals_for_a_population_are_in_the_study_of_coverage(name):
    covers = getattr(run(name, usual(name)), "covers", "")
    studied = {case.split(",")[0] for case in validity.CASES}
    if name in GLMS:
        studied = {design.split(",")[0] for design in pd.read_csv(GLM / "coverage.csv")["design"]}
    assert covers != SAMPLING_AND_PRIVACY or name in studied


def test_generalised_linear_models_are_timed():
    assert set(pd.read_csv(GLM / "speed.csv")["estimator"]) == GLMS


def test_every_first_call_was_measured():
    table = pd.read_csv(Path(first_call.__file__).with_suffix(".csv"))
    assert table["estimator"].tolist() == list(first_call.calls())
    assert set(AUDITED) <= set(table["estimator"])
