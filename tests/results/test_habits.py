"""Spellings of statsmodels, and what can be asked of the fits of many groups."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats._boundary import _meant
from dpstats.results.habits import ModelNames


def table(n=6_000, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, n))
    g = np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    return pd.DataFrame({"x": x, "z": z, "y": 1 + 2 * x - z + rng.standard_normal(n), "g": pd.Categorical(g)})


@pytest.fixture(scope="module")
def fit():
    return dpstats.ols("y ~ x + z", table(), eps=3, seed=1)


@pytest.fixture(scope="module")
def groups():
    return dpstats.ols("y ~ x", table(), eps=8, by="g", seed=1)


class TestStatsmodels:
    def test_numbers_that_follow_from_what_was_released(self, fit):
        assert (fit.df_model, fit.use_t) == (2.0, False) and fit.df_resid == fit.nobs - 3
        n = fit.nobs
        assert fit.rsquared_adj == pytest.approx(1 - (1 - fit.rsquared) * (n - 1) / (n - 3))
        test = fit.wald_test(["x", "z"])
        assert fit.fvalue == pytest.approx(float(np.squeeze(test.statistic)) / 2)
        assert fit.f_pvalue == pytest.approx(float(test.pvalue))

    def test_columns_of_intervals_and_covariances(self, fit):
        assert list(fit.conf_int(cols=["z"]).index) == ["z"] == list(fit.conf_int(cols=2).index)
        R = np.array([[0.0, 1.0, -1.0]])
        assert fit.cov_params(r_matrix=R).iloc[0, 0] == pytest.approx((R @ fit.cov @ R.T)[0, 0])
        assert fit.cov_params(column=["x"]).shape == (1, 1)
        for wrong in ({"cols": ["nope"]}, {"cols": []}, {"cols": 7}):
            with pytest.raises(dpstats.ParameterError, match="cols must be"):
                fit.conf_int(**wrong)
        with pytest.raises(dpstats.ParameterError, match="r_matrix must be"):
            fit.cov_params(r_matrix=[[1.0]])

    def test_summary_col(self, fit):
        from statsmodels.iolib.summary2 import summary_col

        text = str(summary_col([fit, fit], include_r2=True))
        assert "R-squared" in text and "y I" in text

    def test_stargazer(self, fit):
        tables = pytest.importorskip("stargazer.stargazer")
        from dpstats.results import adapters

        adapters.stargazer()
        page = tables.Stargazer([fit, fit]).render_html()
        assert "Observations" in page and f"{fit.params['x']:.3f}" in page

    def test_the_model_holds_names_alone(self, fit):
        assert fit.model == ModelNames("y", ["Intercept", "x", "z"], "y ~ x + z")
        with pytest.raises(dpstats.NotReleased, match="model.endog"):
            fit.model.endog  # noqa: B018
        with pytest.raises(AttributeError, match="nonsense"):
            fit.model.nonsense  # noqa: B018

    def test_saved_and_loaded(self, fit, tmp_path):
        fit.save(tmp_path / "fit.json")
        again = dpstats.load(tmp_path / "fit.json")
        assert again == fit and json.loads((tmp_path / "fit.json").read_text())["method"] == "Private OLS"
        (tmp_path / "other").write_text("no json")
        with pytest.raises(dpstats.ParameterError, match="path must be"):
            dpstats.load(tmp_path / "other")
        with pytest.raises(FileNotFoundError):
            dpstats.load(tmp_path / "gone")

    def test_the_rest(self, fit):
        assert str(fit.summary2()) == str(fit.summary()) and fit.remove_data() is None
        assert fit.summary().as_csv().splitlines()[1].startswith("Intercept,")
        assert "<table" in fit.guarantee._repr_html_()

    @pytest.mark.parametrize("name", ["foo", "params", "cov"])
    def test_nothing_can_be_set(self, fit, name):
        with pytest.raises(AttributeError, match="a result is fixed"):
            setattr(fit, name, 1)

    def test_nor_in_groups(self):
        with pytest.raises(AttributeError, match="a result is fixed"):
            dpstats.datasets.load_fit("groups").foo = 1

    def test_groups_are_saved_too(self, tmp_path):
        fits = dpstats.datasets.load_fit("groups")
        fits.save(tmp_path / "fits")
        assert dpstats.load(tmp_path / "fits").to_dict() == fits.to_dict()


def test_parameters_by_other_names(monkeypatch):
    monkeypatch.delenv("DPSTATS_DEBUG", raising=False)
    with pytest.raises(TypeError, match="did you mean 'eps'"):
        dpstats.ols("y ~ x", table(), epsilon=1)
    named = _meant("ols() got an unexpected keyword argument 'neighbors'", ["eps"])
    assert named.endswith("'neighbors'; it has one kind of neighbours, which its help and fit.guarantee name")
    levels = _meant("Estimates.conf_int() got an unexpected keyword argument 'level'", ["self", "alpha"])
    assert levels.startswith("conf_int()") and levels.endswith("did you mean 'alpha', one minus the level?")
    guess = "f() got an unexpected keyword argument 'id'. Did you mean 'self'?"  # by Python 3.13
    assert _meant(guess, ["self", "unit"]).endswith("'id'; did you mean 'unit'?")
    assert _meant(guess, ["self"]).endswith("'id'")
    assert _meant("f() missing 1 required argument", ["eps"]).endswith("argument")
    with pytest.raises(TypeError, match=r"^diagnose\(\) .*'eps', the privacy budget, as in eps=1"):
        dpstats.datasets.load_fit().diagnose(table())
    assert "'winsorize'" in _meant("f() got an unexpected keyword argument 'winsorise'", ["winsorize"])


class TestGroups:
    def test_manners_of_a_mapping(self, groups):
        assert list(groups) == groups.keys() == ["a", "b", "c"] and "a" in groups and "z" not in groups
        assert (
            dict(groups.items())["b"] == groups["b"] == next(r for r in groups.values() if r == groups["b"])
        )
        assert groups.get("z") is None and groups.get("a") == groups["a"]

    def test_tables(self, groups):
        assert groups.bse.loc["b", "x"] == groups["b"].bse["x"]
        assert groups.pvalues.shape == groups.tvalues.shape == (3, 2)
        assert groups.conf_int().loc[("c", "x"), 0] == groups["c"].conf_int().loc["x", 0]
        assert groups.glance().loc["a", "eps"] == 8

    def test_tests(self, groups):
        found = groups.t_test("x = 2")
        assert found.loc[("a", "x = 2"), "coef"] == pytest.approx(groups["a"].params["x"])
        assert groups.wald_test("x = 2").loc["a", "pvalue"] == pytest.approx(
            float(groups["a"].wald_test("x = 2").pvalue)
        )

    def test_predictions_by_group(self, groups):
        new = table(20, 5)
        found = groups.predict(new)
        for i, row in new.iterrows():
            alone = groups[row["g"]].predict(new.loc[[i]])
            assert found[i] == pytest.approx(float(alone.iloc[0]))
        with pytest.raises(dpstats.SchemaError, match="no column 'g', which says which group"):
            groups.predict(new.drop(columns="g"))
        with pytest.raises(dpstats.ParameterError, match="a pandas DataFrame with the column 'g'"):
            groups.predict({"g": ["a"]})
        assert repr(groups.values()).startswith("dict_values") and len(groups.items()) == 3

    def test_what_one_fit_has_is_asked_of_a_group(self, groups):
        for name in ("get_prediction", "diagnose", "rsquared"):
            with pytest.raises(AttributeError, match=rf"as in fits\['a'\]\.{name}"):
                getattr(groups, name)
        for name in ("resid", "aic"):
            with pytest.raises(dpstats.NotReleased, match="and was not released"):
                getattr(groups, name)
        with pytest.raises(AttributeError, match="'GroupedResults' object has no attribute 'nope'"):
            groups.nope  # noqa: B018
        assert not hasattr(groups, "nobs")

    def test_plot(self, groups):
        pytest.importorskip("matplotlib").use("Agg")
        label = "x\n95% intervals cover sampling and privacy noise"
        assert groups.plot("x").get_xlabel() == label
        with pytest.raises(dpstats.ParameterError, match="term must be"):
            groups.plot("nope")


def test_there_is_no_f_statistic_of_the_constant_alone():
    data = pd.DataFrame({"y": np.arange(2000.0)})
    fit = dpstats.ols("y ~ 1", data, eps=10, seed=1)
    assert np.isnan(fit.fvalue) and np.isnan(fit.f_pvalue)


def test_what_is_not_determined_is_left_to_what_asks_for_it():
    fit = dpstats.datasets.load_fit()
    cov = np.array(fit.cov)
    cov[1], cov[:, 1] = np.nan, np.nan
    lost = dataclasses.replace(fit, cov=cov)
    with pytest.raises(dpstats.NotReleased, match="not determined: cut"):
        lost.f_test()
    for name in ("fvalue", "f_pvalue"):
        with pytest.raises(dpstats.NotReleased, match="not determined: cut"):
            getattr(lost, name)
    R = np.eye(len(cov))[-1:]
    assert lost.cov_params(R).iloc[0, 0] == cov[-1, -1] == pytest.approx(float(lost.t_test(R).sd.item()) ** 2)
    assert lost.cov_params(np.eye(len(cov))).isna().to_numpy().sum() == len(cov) ** 2
