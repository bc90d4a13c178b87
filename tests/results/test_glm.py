"""What results of generalised linear models add: ratios, predictions of the mean, marginal effects."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.errors import NotReleased
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.glm import GLMResults, Slopes
from dpstats.results.results import SAMPLING_AND_PRIVACY


class Columns:
    """A design of the columns 1, x, z."""

    def matrix(self, data):
        return np.column_stack([np.ones(len(data)), data["x"], data["z"]]).astype(float)

    def new_rows(self, data):
        return self.matrix(data), np.zeros(len(data), bool)


BETA = np.array([-1.0, 0.5, 0.0])
COV = np.array([[0.04, -0.01, 0], [-0.01, 0.01, 0], [0, 0, 0.09]])
NEW = pd.DataFrame({"x": [0.0, 2.0], "z": [0.0, 1.0]}, index=[5, 7])


def fit(link="logit", cov=COV, **given):
    return GLMResults(**{
        "method": "Example", "formula": "y ~ x + z", "names": ("Intercept", "x", "z"), "estimates": BETA,
        "cov": cov, "covers": SAMPLING_AND_PRIVACY, "response": "y", "design": Columns(), "link": link,
        "guarantee": Guarantee(1, 1e-6, "add-remove", "approximate"),
        "released": {"n": 100.0, "deviance": 80.0, "null_deviance": 100.0},
        "slopes": Slopes(0.2, np.array([0.05, 0.01, 0.0]), 0.01),
    } | given)  # fmt: skip


def test_ratios():
    tidy, plain = fit().tidy(exponentiate=True), fit().tidy()
    for column in ("estimate", "conf.low", "conf.high"):
        np.testing.assert_allclose(tidy[column], np.exp(plain[column]))
    for column in ("std.error", "statistic", "p.value"):
        np.testing.assert_array_equal(tidy[column], plain[column])
    text = fit().summary(exponentiate=True).as_text()
    assert (
        "exp(coef)" in text and f"{math.exp(0.5):.4f}" in text and "standard errors and z are of coef" in text
    )
    assert "exp(coef)" not in fit().summary().as_text()


def test_a_coefficient_that_is_not_determined_stays_so_as_a_ratio():
    cov = COV.copy()
    cov[2] = cov[:, 2] = np.nan
    result = fit(cov=cov)
    assert result.summary(exponentiate=True).as_text().count("n.d.") >= 3
    means = result.get_prediction(NEW)
    # the first row has z = 0
    assert np.isfinite(means.se_mean[0]) and np.isnan(means.se_mean[1])
    effects = result.marginal_effects()
    assert np.isnan(effects.loc["z", "std.error"]) and np.isfinite(effects.loc["x", "std.error"])


def test_deviance():
    assert fit().deviance == 80 and fit().null_deviance == 100 and fit().prsquared == pytest.approx(0.2)
    assert fit().glance()[["deviance", "null.deviance"]].iloc[0].tolist() == [80, 100]
    assert fit(released={"deviance": 120.0, "null_deviance": 100.0}).prsquared == 0
    with pytest.raises(NotReleased):
        _ = fit(released={}).deviance
    with pytest.raises(NotReleased):
        _ = fit().dispersion


@pytest.mark.parametrize("link, mean", [("logit", lambda e: 1 / (1 + np.exp(-e))), ("log", np.exp)])
def test_predictions(link, mean):
    result, linear = fit(link), np.array([-1.0, 0.0])
    pd.testing.assert_series_equal(
        result.predict(NEW, which="linear"), pd.Series(linear, index=[5, 7], name="y")
    )
    np.testing.assert_allclose(result.predict(NEW), mean(linear))
    np.testing.assert_allclose(result.predict(NEW, offset=1.0), mean(linear + 1))
    np.testing.assert_allclose(result.predict(NEW, exposure=[2.0, 3.0]), mean(linear + np.log([2, 3])))
    given = result.get_prediction(NEW)
    X = Columns().matrix(NEW)
    se = np.sqrt(np.diagonal(X @ COV @ X.T))
    slope = (mean(linear + 1e-6) - mean(linear - 1e-6)) / 2e-6
    np.testing.assert_allclose(given.se_mean, se * slope, rtol=1e-6)
    ends = mean(np.stack([linear - 1.959964 * se, linear + 1.959964 * se], axis=1))
    np.testing.assert_allclose(given.conf_int(), ends, rtol=1e-6)
    frame = given.summary_frame()
    assert list(frame.index) == [5, 7]
    assert list(frame.columns) == ["mean", "mean_se", "mean_ci_lower", "mean_ci_upper"]
    for alpha in (0, 1.5):
        with pytest.raises(dpstats.ParameterError):
            given.conf_int(alpha)


def test_refused_predictions():
    with pytest.raises(dpstats.ParameterError, match="which must be"):
        fit().predict(NEW, which="median")
    for given in (0, -1.0, [0.0, 1.0]):
        with pytest.raises(dpstats.ParameterError, match=r"^exposure must be positive: [a-z ]*\.$"):
            fit().predict(NEW, exposure=given)
    for name in ("exposure", "offset"):
        for given, message in (
            ([1.0, 2.0, 3.0], r"one for each of the 2 rows, got an array of the shape \(3,\)"),
            ([[1.0], [2.0]], r"got an array of the shape \(2, 1\)"),
            (["a", "b"], "must be numbers"),
        ):
            for method in ("predict", "get_prediction"):
                with pytest.raises(dpstats.ParameterError, match=message):
                    getattr(fit(), method)(NEW, **{name: given})
    for given in ({"exposure": "pop"}, {"offset": "pop"}):
        with pytest.raises(dpstats.ParameterError, match="must be numbers, as data"):
            fit().get_prediction(NEW, **given)
    for bare in (fit(design=None), fit(cov=None, covers="No intervals.")):
        with pytest.raises(NotReleased):
            bare.get_prediction(NEW)


def test_means_beyond_all_numbers_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit().get_prediction(NEW * 1e200).summary_frame()
    missing = fit().predict(NEW, exposure=[1.0, np.nan])
    assert np.isnan(missing).tolist() == [False, True]


def test_the_offset_is_in_the_table():
    assert "Offset:" not in str(fit()) and "np.log(t)" in str(fit(offset="np.log(t)"))


def test_marginal_effects():
    """The delta method by numerical derivatives, and the noise of the mean slope."""
    effects = fit().marginal_effects()
    assert list(effects.index) == ["x", "z"]
    np.testing.assert_allclose(effects["estimate"], BETA[1:] * 0.2)

    def effect(beta):
        return beta * (0.2 + np.array([0.05, 0.01, 0.0]) @ (beta - BETA))

    J = np.array([(effect(BETA + 1e-6 * e) - effect(BETA - 1e-6 * e)) / 2e-6 for e in np.eye(3)]).T
    variance = np.diagonal(J @ COV @ J.T) + BETA**2 * 0.01**2
    np.testing.assert_allclose(effects["std.error"], np.sqrt(variance[1:]), rtol=1e-6)
    with pytest.raises(NotReleased):
        fit(slopes=None).marginal_effects()


def test_copies():
    result = fit()
    again = pickle.loads(pickle.dumps(result))
    assert again == result and again.link == "logit" and again.slopes.mean == 0.2
    assert result.to_dict()["link"] == "logit" and result.to_dict()["slopes"]["noise"] == 0.01
    assert fit(slopes=Slopes(0.3, np.zeros(3), 0.0)) != result


def test_a_column_of_exposures_that_is_not_read_is_told_of():
    """Only where the new rows have it and nothing is given for it."""
    fitted = fit(offset="np.log(pop)")
    rows = NEW.assign(pop=[2.0, 3.0], log=1.0, np=1.0)
    for ask in (fitted.predict, fitted.get_prediction):
        with pytest.warns(UserWarning, match="the column 'pop' of the new rows is not read"):
            ask(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ask(rows, exposure=1)
            ask(rows, offset=0)
            ask(NEW.assign(log=1.0, np=1.0))


def test_the_r_squared_of_a_logit_is_named():
    with pytest.raises(dpstats.NotReleased, match="logit and poisson have prsquared"):
        dpstats.median("y ~ 1", {"y": np.arange(500.0)}, eps=5, seed=1).rsquared  # noqa: B018


def test_the_scale_of_predictions_has_the_name_of_statsmodels(monkeypatch):
    monkeypatch.delenv("DPSTATS_DEBUG", raising=False)
    with pytest.raises(TypeError, match="did you mean 'which', 'mean' or 'linear'?"):
        fit().predict(NEW, type="link")
