"""Each part on the smallest task: rows in the form that its summary takes."""

import math

import numpy as np
import pandas as pd
import pytest
from suite import accuracy, environment, methods, problems, speed, validity


@pytest.mark.parametrize("columns", [problems.ALL, problems.ONE])
def test_every_problem_that_ships_loads(columns):
    for name, kind in problems.sets(None):
        if kind == columns:
            problem = problems.load(name, kind, None)
            assert problem.X.shape[0] == len(problem.y) == len(problem.frame)
            assert np.isfinite(problem.X).all() and np.isfinite(problem.y).all()
            assert problem.r_squared(problem.y) == 1


def test_data_that_were_not_given_are_named():
    assert problems.available(None)[1] == ["nba", "garbage", "kc_house"]


def test_accuracy_counts_failures():
    task = {"data": "wine_quality", "columns": "one", "eps": "ln 3", "runs": 3, "folder": None}
    rows = [
        row for m in ("ols", "OLS", "diffprivlib, ranges given") for row in accuracy.run(task | {"method": m})
    ]
    table = accuracy.summary(pd.DataFrame(rows)).set_index("method")
    assert table.loc["ols", "failed"] == 0 and 0.1 < table.loc["ols", "median"] < 0.19
    assert table.loc["OLS", "median"] == table.loc["OLS", "least"]
    assert list(accuracy.checked(pd.DataFrame(rows))["method"].unique()) == ["ols"]


def test_a_method_that_raises_is_a_failure():
    def refuse(*_):
        raise RuntimeError("the text could hold anything")

    problem = problems.load("wine_quality", "one", None)
    row = accuracy._once(methods.Method(methods.PEER, refuse, ("one",)), problem, 1.0, 0)
    assert math.isnan(row["r2"]) and row["failure"] == "RuntimeError"


@pytest.mark.slow
def test_robust_fits_do_not_follow_the_outliers():
    problem = problems.load("outliers", "all", None)
    scores = {
        m: problem.r_squared(methods.METHODS[m].predict(problem, None, None, 0))
        for m in ("OLS", "Huber", "LAD")
    }
    assert scores["OLS"] < 0.5 < 0.8 < min(scores["Huber"], scores["LAD"])


@pytest.mark.parametrize("estimator", ["mean", "median", "quantile, 0.9"])
def test_validity_counts_coverage(estimator):
    task = {"estimator": estimator, "design": "normal", "rows": 1_000, "first": 0, "sets": 3}
    table = validity.summary(pd.DataFrame(validity.run(task))).set_index("coefficient")
    assert table.loc["all", "data_sets"] == 3 and table.loc["y", "intervals"] <= 3
    assert table.loc["y", "covered"] == table.loc["all", "covered"]


def test_coverage_of_a_wrong_truth_would_be_low(monkeypatch):
    case = list(validity.CASES["mean"])
    case[6] = lambda design: [1.0]
    monkeypatch.setitem(validity.CASES, "mean", tuple(case))
    rows = validity.run({"estimator": "mean", "design": "normal", "rows": 1_000, "first": 0, "sets": 3})
    assert not any(row["covered"] for row in rows)


@pytest.mark.slow
def test_speed_interleaves_and_compares(monkeypatch):
    monkeypatch.setitem(speed.TABLES, "rows", [(3_000, 2)])
    monkeypatch.setattr(
        speed, "MANY", {k: speed.MANY[k] for k in ("X.T @ X", "statsmodels ols", "medsweep", "tukey_em")}
    )
    raw = pd.DataFrame(speed.run({"table": "rows", "rounds": 2, "longest": 60.0}))
    assert raw["method"].tolist()[:4] == ["tukey_em", "X.T @ X", "statsmodels ols", "medsweep"]
    table = speed.summary(raw).set_index("method")
    assert table.loc["tukey_em", "failure"] == "ReleaseFailed" and table.loc["medsweep", "rounds"] == 2
    assert table.loc["statsmodels ols", "over_statsmodels"] == 1


def test_environment_tells_no_host_and_no_path():
    import platform

    row = environment.describe("quick")
    text = " ".join(map(str, row.values()))
    assert platform.node() not in text and "/" not in text
