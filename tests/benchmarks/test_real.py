"""The study of real data: its list of problems, what it computes for one, and what it counts."""

import importlib.util
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

FOLDER = Path(__file__).parents[2] / "benchmarks" / "real"


def module(name):
    """A script of the folder; another folder has a ``study`` too."""
    spec = importlib.util.spec_from_file_location(f"real_{name}", FOLDER / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def study(monkeypatch):
    monkeypatch.setenv("DPSTATS_DEBUG", "1")  # the script sets it
    return module("study")


PROBLEMS = tomllib.loads((FOLDER / "problems.toml").read_text())["problem"]


def test_problems():
    assert len({p["name"] for p in PROBLEMS}) == len({p["source"] for p in PROBLEMS}) == len(PROBLEMS)
    assert sum(p["part"] == "main" for p in PROBLEMS) == 48
    assert all(p["rows"] >= max(1_000, 50 * p["columns"]) for p in PROBLEMS)
    assert set(pd.read_csv(FOLDER / "baseline.csv")["problem"]) == {p["name"] for p in PROBLEMS}


def test_prepared_table():
    table = pd.DataFrame({"y.1": [1, 2, 3, 4, 5], "g": ["b", "a", "", "a", "b"], "k": [2, 10, 2, 2, 2],
                          "x": [1.0, 2.0, 3.0, np.nan, 5.0], "unused": np.nan})  # fmt: skip
    problem = {"formula": "y_1 ~ g + I(x**2) + k", "factors": ["k"], "where": "y_1 > 1"}
    data = module("collect").prepared(table, problem)
    assert list(data) == ["y_1", "g", "x", "k"] and list(data["y_1"]) == [2, 5]
    assert list(data["k"].cat.categories) == ["2", "10"] and list(data["g"]) == ["a", "b"]


@pytest.mark.slow
def test_a_problem_beside_least_squares(study):
    g = np.random.default_rng(1)
    x, b = g.normal(size=4_000), g.random(4_000) < 0.3
    data = pd.DataFrame({"y": x + b + g.normal(size=4_000), "x": x, "b": b})
    problem = {"name": "made up", "part": "main", "formula": "y ~ x + b"}
    row = study.study(problem, data, 50.0, 2)
    assert row["ls_r2"] == pytest.approx(smf.ols("y ~ x + b", data).fit().rsquared)
    assert row["r2"] == pytest.approx(row["ls_r2"], abs=0.01) and row["r2_low"] <= row["r2"]
    assert row["held"] == row["determined"] == 1 and row["given"] == 6 and row["refused"] == 0
    assert row["se_ratio"] == pytest.approx(1, abs=0.15) and 0.01 < row["ten_rows"] < 0.1
    refused = study.study(problem, data.head(30), 0.1, 2)
    assert refused["refused"] == 2 and refused["r2"] == -np.inf and refused["given"] == 0


def test_counts(study):
    columns = ["problem", "ls_r2", "r2", "open_r2", "given", "held", "se_ratio", "refused"]
    rows = pd.DataFrame([
        ("good", 0.5, 0.495, 0.3, 10, 0.9, 2.0, 0),
        ("bad", 0.5, 0.48, 0.5, 10, 0.8, 2.1, 0),
        ("none", 0.5, -np.inf, -np.inf, 0, np.nan, np.nan, 5),
    ], columns=columns).assign(eps=1.0, part="main", seeds=5, determined=1.0)  # fmt: skip
    text = study.summary(rows, [{"part": "main"}] * 4)
    for line in [
        "main, eps = 1: 3 of 4 problems", "R2 >= LS - 0.01: 1 of 3; not bad, none",
        "without limits: 1 of 3; not good, none", "intervals hold LS >= 90%: 1 of 2; not bad\n",
        "<= 2: 1 of 2; not bad\n", "without intervals: 1; none", "refused: 5 of 15 fits",
    ]:  # fmt: skip
        assert line in text, line


@pytest.mark.slow
def test_rows_of_a_run_replace_those_of_the_same_problem(study, tmp_path, capsys):
    g = np.random.default_rng(2)
    problem = next(p for p in PROBLEMS if p["name"] == "fingers")
    data = pd.DataFrame({"height": g.normal(size=3_000), "finger": g.normal(size=3_000)})
    data.to_parquet(tmp_path / "fingers.parquet")
    for seeds in ("1", "2"):
        study.main([str(tmp_path), str(tmp_path / "out.csv"), "--only", problem["name"], "--seeds", seeds])
    rows = pd.read_csv(tmp_path / "out.csv")
    assert list(rows["seeds"]) == [2] and "1 of 48 problems" in capsys.readouterr().out
