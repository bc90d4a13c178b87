"""The package marginaleffects over our results: what it is given, and what is refused.

The package itself is not among the requirements of the tests, and a stand-in has its two classes.
"""

import sys
import types
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.results import adapters


@dataclass
class Vault:
    coef: Any = None
    coefnames: Any = None
    formula: Any = None
    variable_names: Any = None
    modeldata: Any = None
    package: str = ""
    types: dict = field(default_factory=dict)


class Abstract:
    def __init__(self, model, vault):
        self.model, self.vault = model, vault

    def set_variable_type(self, name, value):
        self.vault.types[name] = value


@pytest.fixture
def stand_in(monkeypatch):
    pytest.importorskip("polars")
    classes = types.ModuleType("marginaleffects.classes")
    classes.ModelAbstract, classes.ModelVault = Abstract, Vault
    monkeypatch.setitem(sys.modules, "marginaleffects", types.ModuleType("marginaleffects"))
    monkeypatch.setitem(sys.modules, "marginaleffects.classes", classes)


def table(n=6_000, seed=0):
    rng = np.random.default_rng(seed)
    x, year = rng.standard_normal(n), rng.integers(2000, 2002, n)
    g = pd.Categorical(np.array(["b", "a"])[rng.integers(0, 2, n)], categories=["b", "a"])
    y = x + (g == "a") + rng.standard_normal(n)
    return pd.DataFrame({"x": x, "year": year, "g": g, "y": y, "k": (y > 0) * 1, "odd name": "u"})


FORMULA = "x + I(x ** 2) + g + C(year, levels=[2000, 2001])"


@pytest.mark.parametrize(("estimator", "response"), [("ols", "y"), ("logit", "k")])
def test_what_the_package_is_given(stand_in, estimator, response):
    fit = getattr(dpstats, estimator)(f"{response} ~ {FORMULA}", table(), eps=20, seed=1)
    new = table(30, 1)
    model = adapters.marginaleffects(fit, new)
    exog = model.get_exog(model.vault.modeldata)
    wanted = fit.get_prediction(new)
    assert model.get_predict(model.vault.coef, exog)["estimate"].to_numpy() == pytest.approx(
        wanted.predicted_mean
    )
    assert np.sqrt(np.einsum("ij,jk,ik->i", exog, model.get_vcov(True), exog)) == pytest.approx(
        wanted.linear_se
    )
    assert model.get_vcov(False) is None and model.df_resid == np.inf
    assert model.vault.variable_names == ["response", "x", "year", "g"]
    assert model.vault.types == {"g": "character", "year": "character"}
    # levels in their declared order; other texts in that of the alphabet
    assert model.vault.modeldata["g"].dtype.categories.to_list() == ["b", "a"]
    assert model.vault.modeldata["odd name"].dtype.categories.to_list() == ["u"]
    with pytest.raises(dpstats.ParameterError, match="vcov must be True or False; a result has one"):
        model.get_vcov("HC3")


def test_what_is_refused(stand_in):
    fit, new = dpstats.ols("y ~ x + g", table(), eps=20, seed=1), table(30, 1)
    with pytest.raises(dpstats.ParameterError, match="a result holds no rows to average over"):
        adapters.marginaleffects(fit)
    with pytest.raises(dpstats.ParameterError, match="newdata must be a pandas DataFrame"):
        adapters.marginaleffects(fit, {"x": [1.0]})
    with pytest.raises(dpstats.SchemaError, match="no column 'g'"):
        adapters.marginaleffects(fit, new.drop(columns="g"))
    with pytest.raises(dpstats.ParameterError, match="without missing or undeclared"):
        adapters.marginaleffects(fit, new.assign(x=np.nan))
    with pytest.raises(dpstats.ParameterError, match="fit must be"):
        adapters.marginaleffects("fit", new)
    with pytest.raises(dpstats.NotReleased, match="standard errors cover"):
        adapters.marginaleffects(dpstats.median("y ~ 1", table(), eps=1, seed=1), new)
    lost = replace(fit, cov=np.where(np.arange(3) == 1, np.nan, fit.cov))
    with pytest.raises(dpstats.NotReleased, match="not determined"):
        adapters.marginaleffects(lost, new)
    rates = dpstats.poisson("k ~ x", table(), eps=20, exposure="year", seed=1)
    with pytest.raises(dpstats.NotReleased, match="offset"):
        adapters.marginaleffects(rates, new)
    data = table().assign(year=lambda d: 2005 + np.round(d["x"]))
    cubic = dpstats.ols("y ~ year + I(year**2) + I(year**3)", data, eps=20, seed=1)
    with pytest.raises(dpstats.NotReleased, match="centre columns before powers"):
        adapters.marginaleffects(cubic, data)


def test_the_package_itself():
    me = pytest.importorskip("marginaleffects")
    fit, new = dpstats.ols(f"y ~ {FORMULA}", table(), eps=20, seed=1), table(30, 1)
    try:
        model = adapters.marginaleffects(fit, new)
    except ImportError as error:
        pytest.skip(str(error))
    slopes = me.avg_slopes(model, variables="g")
    assert float(slopes["estimate"][0]) == pytest.approx(fit.params["g[T.a]"])
    assert float(slopes["std_error"][0]) == pytest.approx(fit.bse["g[T.a]"], rel=1e-4)
    mean = me.avg_predictions(model)
    assert float(mean["estimate"][0]) == pytest.approx(fit.predict(new).mean())
