"""The replications: the measures, the choice of rows, and that the page says what its tables say."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats

FOLDER = Path(__file__).parents[2] / "benchmarks" / "replications"


@pytest.fixture(scope="module")
def cps():
    spec = importlib.util.spec_from_file_location("replications_cps", FOLDER / "cps.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_overlap(cps):
    assert cps.overlap(0.0, 2.0, 0.0, 2.0) == 1
    assert cps.overlap(0.0, 4.0, 1.0, 2.0) == pytest.approx((1 / 4 + 1) / 2)
    assert cps.overlap(0.0, 1.0, 3.0, 7.0) == pytest.approx((-2 / 1 - 2 / 4) / 2)  # apart


def test_significance(cps):
    low, high = np.array([-1.0, 0.5, -3.0, np.nan]), np.array([1.0, 2.0, -1.0, np.nan])
    assert list(cps.significant(low, high)) == [False, True, True, False]


def test_limit_of_the_residual_is_read_off_a_fit(cps):
    x = np.arange(20_000) % 7.0
    fit = dpstats.ols("y ~ x", {"x": x, "y": x + np.arange(20_000) % 11}, eps=2, seed=1)
    assert 1 < cps.limit_of(fit.notes) < 1e3
    assert np.isnan(cps.limit_of(("something else",)))


def test_rows_of_2009(cps):
    table = pd.DataFrame({
        "age": [40, 15, 67, 30, 30, 20], "female": [1, 0, 0, 0, 1, 0], "education": [12, 9, 12, 16, 16, 18],
        "earnings": [40_000, 9_000, 40_000, 500, 10**6, 30_000], "hours": 40, "week": 50,
        "race": [1, 1, 1, 1, 1, 2],
    })  # fmt: skip
    kept = cps.wages_2009(table, 6)  # too young, too old, less than 2 and more than 150 dollars an hour
    assert list(kept["experience"]) == [22, 0] and list(kept["non_white"]) == [False, True]
    assert list(kept["log_wage"]) == pytest.approx(np.log([40_000, 30_000]))
    with pytest.raises(SystemExit, match="6 rows, not 50,742"):
        cps.wages_2009(table, cps.ROWS_2009)


def test_columns_of_2024(cps):
    table = pd.DataFrame({"log_wage": [10.0], "educ_years": [12], "experience": [20], "female": [1]})
    assert cps.wages_2024(table, 1).iloc[0].tolist() == [10.0, 12.0, 20.0, True]


@pytest.mark.slow
def test_a_cell(cps):
    g = np.random.default_rng(1)
    n = 20_000
    table = pd.DataFrame({"education": g.normal(12, 3, n), "female": pd.array(g.random(n) < 0.5, "boolean")})
    table["log_wage"] = 9 + 0.1 * table["education"] - 0.3 * table["female"].astype(float) + g.normal(size=n)
    lines, limits = cps.study("made up", "log_wage ~ education + female", table, 20.0, 3)
    assert set(lines["term"]) == {"Intercept", "female", "education"}
    # at eps = 20 nearly the confidential fit; far from the bounds of chance
    assert (lines["overlap"] > 0.8).all() and (lines["right"] == 1).all() and (lines["given"] == 1).all()
    assert (lines["ratio"].between(0.9, 1.5)).all() and np.isfinite(limits).all()
    looked = cps.looked_into("made up", "log_wage ~ education + female", table, 1.0, limits)
    assert (np.diff(looked["noise"]) > 0).all() and (np.diff(looked["bias"]) <= 0).all()


def test_tables_and_page_agree(cps):
    page = cps.PAGE.read_text(encoding="utf-8")
    assert cps.filled(page) == page
    ours, peer = (pd.read_csv(FOLDER / f"{name}.csv") for name in ("cps_feasibility", "cps_dp_statsmodels"))
    assert set(ours["sample"]) == set(cps.SAMPLES) and set(ours["eps"]) == set(cps.EPS)
    assert set(peer["sample"]) == set(cps.MODELS) and set(peer["eps"]) == set(cps.PEER_EPS)
    for picture in ("cps_feasibility.png", "cps_dp_statsmodels.png"):
        assert picture in page and (FOLDER / picture).is_file()
