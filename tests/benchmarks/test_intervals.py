"""The coverage study: its designs' truth, its counting, and that a piece goes on where the last one ended."""

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import dpstats
from dpstats.errors import ReleaseFailed

FOLDER = Path(__file__).parents[2] / "benchmarks" / "intervals"
sys.path.insert(0, str(FOLDER))

import designs  # noqa: E402
import study  # noqa: E402

FALSE_ALARM = 1e-6
NARROW = [name for name, design in designs.DESIGNS.items() if design.pooled is None]
TASK = {"design": "mean, normal", "estimator": "mean", "n": 2_000, "eps": 1.0, "runs": 50, "until": math.inf}


def assert_truth(formula, frame, truth):
    """Least squares without privacy is where normal theory has it, with HC1 errors; a false alarm of all
    designs together has probability 1e-6 (up to that approximation)."""
    estimates, errors = designs.least_squares(formula, frame)
    known = np.isfinite(truth)
    limit = stats.norm.isf(FALSE_ALARM / 2 / len(designs.DESIGNS) / len(truth))
    assert len(truth) == len(estimates) and (np.abs(estimates - truth)[known] < limit * errors[known]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", NARROW)
def test_truth(name):
    assert_truth(designs.DESIGNS[name].formula, *designs.data(name, 50_000, 0))


def test_truth_of_wide_designs_made_narrow():
    g = np.random.default_rng(0)
    assert_truth(designs.right_hand_side(15), *designs.many_columns(20_000, g, d=15))
    assert_truth("y ~ g + x", *designs.many_levels(20_000, g, levels=15))


@pytest.mark.slow
@pytest.mark.parametrize("name", NARROW)
def test_estimators_read_the_same_columns(name):
    """The order of the truth is that of an estimator's coefficients."""
    design = designs.DESIGNS[name]
    frame, truth = designs.data(name, 4_000, 1)
    fit = getattr(dpstats, design.estimators[0])(design.formula, frame, eps=50, bounds=design.bounds, seed=0)
    if name.startswith("mean"):
        assert len(truth) == len(fit.params) == 1
    else:
        plain = frame.astype({c: bool for c in frame.select_dtypes("boolean")})
        names = patsy.dmatrix(design.formula.partition("~")[2], plain).design_info.column_names
        assert list(fit.params.index) == names and len(truth) == len(names)


@pytest.mark.parametrize("name", ["empty level", "spline, wave", "mean, costs"])
def test_draws_depend_on_the_number_of_the_data_set_alone(name):
    (first, truth), (again, same), (other, _) = (designs.data(name, 100, i) for i in (3, 3, 4))
    pd.testing.assert_frame_equal(first, again)
    np.testing.assert_array_equal(truth, same)
    assert not first["y"].equals(other["y"])


def test_the_reference_is_statsmodels():
    frame, _ = designs.data("rare reference level", 3_000, 0)
    fit = smf.ols("y ~ g + x", frame).fit(cov_type="HC1")
    estimates, errors = designs.least_squares("y ~ g + x", frame)
    np.testing.assert_allclose(estimates, fit.params, rtol=1e-9)
    np.testing.assert_allclose(errors, fit.bse, rtol=1e-9)


class Fit:
    """An estimate of 0 with an interval."""

    def __init__(self, low, high):
        self.params, self.ends = pd.Series({"y": 0.0}), (low, high)

    def conf_int(self):
        return pd.DataFrame([self.ends], index=["y"])


def fake(formula, frame, *, eps, bounds, seed):
    """Ten data sets: two refusals, one crash, one undetermined; of six intervals four hold the truth, 0."""
    match seed % 10:
        case 0 | 1:
            raise ReleaseFailed("too few rows")
        case 2:
            raise ValueError("a mistake")
        case 3:
            return Fit(math.nan, math.nan)
        case 4:
            return Fit(-3.0, -1.0)
        case 5:
            return Fit(1.0, 3.0)
        case _:
            return Fit(-1.0, 1.0)


def test_counting():
    (row,) = study.study(fake, TASK)
    counts = {
        "refused": 10,
        "crashed": 5,
        "undetermined": 5,
        "given": 30,
        "covered": 20,
        "below": 5,
        "above": 5,
    }
    assert row.items() >= counts.items() and row["coverage"] == 20 / 30
    widths = [
        2 * 1.959964 * designs.least_squares("y ~ 1", designs.data("mean, normal", 2_000, i)[0])[1][0]
        for i in range(study.REFERENCES)
    ]
    assert row["width"] == pytest.approx(2 / np.mean(widths), rel=1e-6)
    assert row["bias"] == row["spread"] == 0


def test_bias_and_spread_are_in_standard_errors():
    """Estimates two standard errors off; standard errors half of what they should be."""
    g, z = np.random.default_rng(0), study.Z
    errors = 1 + g.standard_normal((20_000, 1))
    fits = np.stack([errors, errors - z / 2, errors + z / 2], axis=-1)
    found = study.counted(fits, np.zeros(1), np.ones(1))
    # the normal approximation of both has standard deviations .014 and .01; 5 of them: false alarm 1e-6
    assert found["bias"] == pytest.approx(2, abs=0.07) and found["spread"] == pytest.approx(2, abs=0.05)
    assert found["above"] > found["below"] and found["width"] == pytest.approx(z)


def test_an_interval_for_what_has_no_value_does_not_cover():
    found = study.counted(np.array([[[0.0, -1.0, 1.0]]]), np.array([math.nan]), np.ones(1))
    assert (found["given"], found["covered"], found["undetermined"]) == (1, 0, 0)


@pytest.mark.parametrize(("rate", "bar"), [(0.93, "93"), (0.98, "98")])
def test_bars_are_seldom_missed_by_chance(rate, bar):
    counts = np.arange(401)
    mass = stats.binom.pmf(counts, 400, rate)
    false = sum(p for c, p in zip(counts, mass, strict=True) if study.missed(c, 400) == bar)
    assert 0.001 < false < study.ALPHA


def test_bars_that_are_missed_are_seen():
    assert [study.missed(c, 400) for c in (340, 380, 400)] == ["93", "", "98"]
    assert study.missed(60, 60) == study.missed(0, 0) == ""


def test_cells_are_deterministic():
    task = TASK | {"runs": 3}
    assert study.study(dpstats.mean, task) == study.study(dpstats.mean, task)


def test_pooled_coefficients_are_one_row(monkeypatch):
    design = designs.Design(designs.normal, designs.right_hand_side(5), pooled=2)
    monkeypatch.setitem(study.DESIGNS, "normal", design)
    rows = study.study(dpstats.ols, TASK | {"design": "normal", "estimator": "ols", "runs": 2})
    assert [row["coefficient"] for row in rows] == ["Intercept", "x1", "x2 ..."]
    assert [row["given"] for row in rows] == [2, 2, 8]


@pytest.fixture
def called(monkeypatch):
    """Cells in this process, with the fake in place of `mean`; the cells that were computed."""
    cells = []

    def run(function, todo, workers, limit):
        for task in todo:
            cells.append((task["design"], task["n"], task["runs"]))
            yield task, function(task), None

    monkeypatch.setattr(study.pool, "run", run)
    monkeypatch.setattr(dpstats, "mean", fake)
    monkeypatch.setenv("DPSTATS_DEBUG", "1")
    return cells


@pytest.mark.slow
def test_pieces_and_summary(called, tmp_path, capsys):
    output = tmp_path / "coverage.csv"
    piece = ["--estimators", "mean", "--sizes", "2000", "--eps", "1", "--output", str(output)]
    first, second = ["--designs", "mean, normal"], ["--designs", "mean, normal", "mean, costs"]
    study.main([*piece, *first, "--runs", "10"])
    study.main([*piece, *second, "--runs", "10"])
    assert called == [("mean, normal", 2_000, 10), ("mean, costs", 2_000, 10)]
    study.main([*piece, *first, "--runs", "20"])
    table = pd.read_csv(output)
    assert called[2:] == [("mean, normal", 2_000, 20)] and table["runs"].tolist() == [20, 10]
    study.main([*piece, *second, "--runs", "30", "--minutes", "0"])
    pd.testing.assert_frame_equal(pd.read_csv(output), table)
    runs = pd.read_csv(tmp_path / "coverage_runs.csv")
    assert set(table["run"]) == set(runs["run"]) and runs["commit"].notna().all()
    capsys.readouterr()
    study.main([*piece, *second, "--summary"])
    line = next(line for line in capsys.readouterr().out.splitlines() if "mean, normal" in line)
    # runs, refused, crashed, undetermined, worst, its coefficient, median
    assert line.split()[5:12] == ["20", "0.2", "0.1", "0.143", "0.667", "y", "0.667"]


@pytest.mark.parametrize("changed", ["code", "designs"])
def test_rows_of_other_code_are_not_gone_on_with(changed):
    run = {"run": "a", "code": "1e5", "designs": "2e5"}
    rows = pd.DataFrame([{k: TASK[k] for k in study.CELL} | {"runs": 50, "run": "a"}])
    assert study.missing([TASK], rows, pd.DataFrame([run]), run) == []
    assert study.missing([TASK], rows, pd.DataFrame([run]), run | {changed: "new"}) == [TASK]
