"""Predicted means and prediction intervals of linear fits, against statsmodels."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats
from dpstats.errors import NotReleased, ParameterError
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results

COLUMNS = ["mean", "mean_se", "mean_ci_lower", "mean_ci_upper", "obs_ci_lower", "obs_ci_upper"]


class Line:
    def matrix(self, data):
        x = np.asarray(data["x"], float)
        return np.column_stack([np.ones_like(x), x])

    def new_rows(self, data):
        return self.matrix(data), np.zeros(len(data["x"]), bool)


@pytest.fixture(scope="module")
def classical():
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"x": rng.normal(3, 1, 60)})
    frame["y"] = 2 - frame["x"] + rng.normal(size=60)
    fit = smf.ols("y ~ x", frame).fit()
    ours = Results(
        method="OLS", formula="y ~ x", names=("Intercept", "x"), estimates=fit.params.to_numpy(),
        cov=fit.cov_params().to_numpy(), covers=SAMPLING_AND_PRIVACY, df=fit.df_resid, design=Line(),
        guarantee=Guarantee(1, 0, "add-remove", "pure"), released={"sigma": math.sqrt(fit.scale)},
    )  # fmt: skip
    return fit, ours


NEW = pd.DataFrame({"x": [0.0, 2.0, 10.0, math.nan]}, index=["a", "b", "c", "d"])


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_the_frame_of_statsmodels(classical, alpha):
    theirs, ours = classical
    expected = theirs.get_prediction(NEW.dropna()).summary_frame(alpha)
    found = ours.get_prediction(NEW).summary_frame(alpha)
    assert found.columns.tolist() == expected.columns.tolist() == COLUMNS
    np.testing.assert_allclose(found.iloc[:3], expected, rtol=1e-10)
    assert found.loc["d"].isna().all() and list(found.index) == list(NEW.index)
    np.testing.assert_array_equal(found["mean"], ours.predict(NEW))


def test_a_release_with_next_to_no_noise_is_that_of_statsmodels():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.uniform(0, 4, 4000)})
    frame["y"] = 1 + 2 * frame["x"] + rng.normal(size=4000)
    fit = dpstats.ols("y ~ x", frame, eps=1e6, cov_type="nonrobust", seed=1)
    new = pd.DataFrame({"x": [0.5, 2.0, 3.5]})
    found = fit.get_prediction(new).summary_frame()
    expected = smf.ols("y ~ x", frame).fit().get_prediction(new).summary_frame()
    np.testing.assert_allclose(found["mean"], expected["mean"], atol=0.02)
    np.testing.assert_allclose(found["mean_se"], expected["mean_se"], rtol=0.1)
    np.testing.assert_allclose(found[COLUMNS[4:]], expected[COLUMNS[4:]], atol=0.1)


def test_without_sigma_there_are_no_prediction_intervals(classical):
    given = dataclasses.replace(classical[1], released={}).get_prediction(NEW)
    assert given.summary_frame().columns.tolist() == COLUMNS[:4]
    with pytest.raises(NotReleased, match="released sigma"):
        given.conf_int(obs=True)
    with pytest.raises(ParameterError, match="obs must be"):
        given.conf_int(obs=1)


def test_what_is_not_determined_is_needed_or_not(classical):
    cov = np.array([[0.04, math.nan], [math.nan, math.nan]])
    found = dataclasses.replace(classical[1], cov=cov).get_prediction(NEW).summary_frame()
    assert found.loc["a"].notna().all() and found.loc["a", "mean_se"] == pytest.approx(0.2)
    assert found.loc["b", COLUMNS[1:]].isna().all() and np.isfinite(found.loc["b", "mean"])


@pytest.mark.parametrize(
    "changes", [{"covers": PRIVACY}, {"design": None}, {"cov": None, "covers": "No intervals."}],
    ids=["of the noise", "no design", "no covariance"],
)  # fmt: skip
def test_without_standard_errors_of_the_sample_there_is_none(classical, changes):
    with pytest.raises(NotReleased, match="to predict from"):
        dataclasses.replace(classical[1], **changes).get_prediction(NEW)


def test_rows_that_need_no_missing_estimate_are_predicted(classical):
    """Of pooled fits, what none determines has no estimate."""
    missing = dataclasses.replace(
        classical[1], estimates=[2.0, math.nan], cov=np.array([[0.04, math.nan], [math.nan, math.nan]])
    )
    np.testing.assert_array_equal(missing.predict(NEW), [2.0, math.nan, math.nan, math.nan])
    found = missing.get_prediction(NEW).summary_frame()
    assert found.loc["a", "mean"] == 2.0 and found.loc["a", "mean_se"] == pytest.approx(0.2)
    assert found.loc[["b", "c", "d"]].isna().all(axis=None)


@pytest.mark.parametrize(
    "formula", ["y ~ x + I(x**2)", "y ~ x + np.abs(x)", "y ~ I(x - 0.5) + I((x - 0.5)**2)"]
)
def test_where_a_square_is_0_a_row_is_within_its_limits(formula):
    """No row that is made up for the limits need be there, and it is in the middle of the data."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(size=4000)})
    frame["y"] = 1 + frame["x"] + rng.normal(size=4000)
    fit = dpstats.ols(formula, frame, eps=2, seed=1)
    assert fit.get_prediction({"x": [0.0, 0.5, 1.0]}).summary_frame()["mean_se"].notna().all()


def test_a_row_beyond_its_limits_has_no_interval():
    """At the limit it is told the mean there, which is not its own."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": np.exp(rng.normal(size=4000))})
    frame["y"] = 2 + 3 * frame["x"] + rng.normal(size=4000)
    fit = dpstats.ols("y ~ x", frame, eps=2, seed=1)
    low, high = fit.limits.loc["x"]
    assert 0 < high < np.inf
    table = fit.get_prediction({"x": [1.0, high, 1.01 * high, low - 1]}).summary_frame()
    np.testing.assert_array_equal(table["mean_se"].isna(), [False, False, True, True])
    assert table.iloc[2]["mean"] == table.iloc[1]["mean"] and table.iloc[2:, 2:].isna().all(axis=None)
    # without limits, and as a hypothesis, it has one
    contrast = fit.t_test([1.0, 1.01 * high]).conf_int()[0]
    assert contrast[0] < 2 + 3 * 1.01 * high < contrast[1]
    free = dpstats.ols("y ~ x", frame, eps=2, seed=1, winsorize=False)
    np.testing.assert_allclose(free.get_prediction({"x": [1.01 * high]}).conf_int()[0], contrast, rtol=0.01)


@pytest.mark.parametrize("name", ["ols", "huber", "adassp", "tukey_em", "logit", "poisson"])
def test_a_row_beyond_declared_bounds_has_no_interval(name):
    """Into these it is moved in any case: what it is told is the mean at the bound."""
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"age": rng.uniform(18, 90, 9000), "few": rng.random(9000) < 0.4})
    mean = frame["age"] / 40 - 1
    frame["y"] = {
        "logit": rng.random(9000) < 1 / (1 + np.exp(-mean)), "poisson": rng.poisson(np.exp(mean))
    }.get(name, mean + rng.normal(size=9000))  # fmt: skip
    fit = getattr(dpstats, name)(
        "y ~ age + few", frame, eps=3, seed=1, bounds={"age": (18, 90), "y": (-9, 99)}
    )
    new = pd.DataFrame({"age": [17.9, 18, 90, 90.1, math.nan], "few": False})
    table = fit.get_prediction(new).summary_frame()
    np.testing.assert_array_equal(table["mean_se"].isna(), [True, False, False, True, True])
    assert table["mean"][3] == table["mean"][2] and table.iloc[3, 1:].isna().all()
    said = "Values beyond declared bounds count as if they were at them: age [18, 90]"
    assert sum(note.startswith(said) for note in fit.notes) == 1


def test_a_formula_that_is_no_number_at_a_bound_is_moved_too():
    """``log(x)``, a square and a spline read a variable, and it is the variable that has bounds."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"x": rng.uniform(1, 9, 9000), "z": rng.normal(size=9000)})
    frame["y"] = np.log(frame["x"]) + frame["z"] + rng.normal(size=9000)
    for formula in ("y ~ np.log(x) + z", "y ~ x + I(x**2) + z", "y ~ bs(x, knots=[4]) + z", "y ~ x:z"):
        fit = dpstats.ols(formula, frame, eps=3, seed=1, bounds={"x": (1, 9)})
        inside = fit.get_prediction({"x": [0.5, 1.0, 5.0, 9.0, 9.5], "z": [0.1] * 5}).se_mean
        np.testing.assert_array_equal(np.isnan(inside), [True, False, False, False, True])
