"""What the table says of limits and shrinkage."""

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.linear.results import Inference, r_squared


def hidden(n=4000, seed=0, share=0.005):
    """A level so rare that the noise hides it."""
    g = np.random.default_rng(seed)
    data = pd.DataFrame({"a": g.standard_normal(n), "d": pd.array(g.random(n) < share, dtype="boolean")})
    return data.assign(y=1 + data["a"] + data["d"] + g.standard_normal(n))


@pytest.mark.parametrize("name, limit", [
    ("ols", "A row counts as if its residual were at most"),
    ("adassp", "A row counts as if its residual were at most"),
    ("boosted_adassp", "A row counts as if its residual were at most"),
    ("huber", "Residuals beyond"),
])  # fmt: skip
def test_every_table_names_its_limits(name, limit):
    fit = getattr(dpstats, name)("y ~ a + d", hidden(), eps=1, seed=1)
    assert any(note.startswith(limit) for note in fit.notes)
    text = fit.summary().as_text()
    assert limit in text


@pytest.mark.parametrize("cov_type", ["robust", "nonrobust", "bootstrap"])
@pytest.mark.parametrize("name", ["ols", "huber", "adassp", "boosted_adassp"])
@pytest.mark.slow
def test_what_the_noise_hides_has_no_standard_error(name, cov_type):
    fit = getattr(dpstats, name)("y ~ a + d", hidden(), eps=0.5, seed=1, cov_type=cov_type)
    assert np.isnan(fit.bse["d[T.True]"])


@pytest.mark.parametrize("name", ["ols", "huber"])
def test_what_is_hidden_and_stays_has_no_standard_error(name):
    """Two columns that are nearly the same, of which no rare rows tell."""
    g = np.random.default_rng(3)
    data = hidden(share=0.3).assign(b=lambda d: d["a"] + 1e-3 * g.standard_normal(len(d)))
    fit = getattr(dpstats, name)("y ~ a + b + d", data, eps=0.5, seed=1)
    assert (fit.params[["a", "b"]] != 0).all() and fit.bse[["a", "b"]].isna().all()


@pytest.mark.parametrize("name", ["ols", "huber"])
def test_a_level_that_is_hidden_later_leaves_then(name):
    """With eighty rows it counts as a level that has rows, and the whitening sees them."""
    fit = getattr(dpstats, name)("y ~ a + d", hidden(share=0.02), eps=0.5, seed=1)
    assert fit.params["d[T.True]"] == 0 and np.isnan(fit.bse["d[T.True]"])
    assert fit.bse[["Intercept", "a"]].notna().all()
    assert "Left out, with their rows, which are too few for the noise: d[T.True]." in fit.notes


def test_of_a_column_that_left_tables_have_no_estimate():
    """Predictions are as if it were 0, and a table that is published would have said so."""
    fit = dpstats.ols("y ~ a + d", hidden(share=0.02), eps=0.5, seed=1)
    assert fit.params["d[T.True]"] == 0
    known = fit.tidy().set_index("term")["estimate"].notna()
    assert known.to_dict() == {"Intercept": True, "a": True, "d[T.True]": False}


def test_a_table_says_where_most_of_a_standard_error_is_a_bound():
    """Prices at a small budget, which the counts hardly show; not where noise or sampling are most of it."""
    g = np.random.default_rng(1)
    x, z = g.standard_normal((2, 2_000))
    data = {"x": x, "z": z, "y": np.exp(10 + 0.5 * x + 0.5 * g.standard_normal(2_000)), "w": x + z}
    fit = dpstats.ols("y ~ x", data, eps=0.5, seed=1)
    shares = np.diagonal(fit.bias) / np.diagonal(fit.cov)
    assert (shares > 0.75).all()
    assert any(note.startswith("Standard errors of Intercept, x are for the most part") for note in fit.notes)
    assert "more rows or" in fit.notes[-1]
    units = dpstats.ols("y ~ x", data | {"id": np.arange(2_000) // 2}, eps=0.5, unit="id", seed=1)
    assert "more units or" in units.notes[-1]
    fit = dpstats.ols("w ~ x", data, eps=3, seed=1)
    assert (np.diagonal(fit.bias) < 0.7 * np.diagonal(fit.cov)).all()
    assert not any("for the most part" in note for note in fit.notes)


def test_noise_explains_nothing():
    """What the noise of the coefficients adds to the explained variance on average is taken off."""
    u, gram, noise = np.array([0.6, 0.8]), np.diag([1.0, 2.0]), 0.3
    explained = 0.36 + 2 * 0.64 - noise
    inference = Inference(np.eye(2), np.zeros((2, 2)), noise, gram, (), None, np.zeros((2, 2)))
    assert r_squared(None, u, inference, 0.5, False) == pytest.approx(explained / (explained + 0.5))
    assert r_squared(None, u / 10, inference, 0.5, False) == 0


@pytest.mark.parametrize("name", ["ols", "adassp", "tukey_em", "logit", "poisson"])
def test_a_constant_alone_explains_nothing(name):
    rng = np.random.default_rng(3)
    y = (rng.random(20_000) < 0.3) * 1.0 if name == "logit" else rng.poisson(2, 20_000) * 1.0
    fit = getattr(dpstats, name)("y ~ 1", {"y": y}, eps=1, seed=1)
    assert (fit.prsquared if name in ("logit", "poisson") else fit.rsquared) == 0
    assert "far out have less" not in str(fit.summary()) and "R-squared has noise" not in str(fit.summary())
