"""Weights of rows: what weighted least squares equals, what a weight may do, and what is public of it."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats
from dpstats.engines.local import Rows
from dpstats.errors import FormulaError, ParameterError, ReleaseFailed, SchemaError
from dpstats.linear.whitened import Frame, Whitened
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.whiten import Affine, join, release_gram

FORMULA = "y ~ x + z + g"


def survey(n=20_000, seed=0):
    """Weights that go with a level, and errors that are larger where weights are."""
    r = np.random.default_rng(seed)
    g = r.choice(3, n, p=[0.6, 0.3, 0.1])
    w = np.array([1.0, 3.0, 10.0])[g] * r.lognormal(7, 0.5, n)
    x, z = r.normal(50, 15, n), r.lognormal(0, 0.7, n)
    y = 1 + 0.05 * x + 0.3 * z - (g == 2) + 0.001 * (x - 50) ** 2 + r.standard_normal(n) * (1 + (g == 2))
    return pd.DataFrame({"y": y, "x": x, "z": z, "g": pd.Categorical.from_codes(g, list("abc")), "w": w})


@pytest.mark.parametrize("formula", [FORMULA, "y ~ x + I(x ** 2) + g * z"])
def test_least_squares_as_eps_grows(formula):
    """Coefficients, robust standard errors, sigma and R-squared are those of statsmodels, although what a row
    adds to a score differs by an order of magnitude from level to level."""
    data = survey(50_000)
    fit = dpstats.ols(formula, data, eps=1e6, weights="w", seed=1)
    least = smf.wls(formula, data, weights=data["w"]).fit(cov_type="HC1")
    names = list(fit.names)
    assert (np.abs(fit.params - least.params[names]) < 0.1 * least.bse[names]).all()
    np.testing.assert_allclose(fit.bse, least.bse[names], rtol=0.05)
    assert fit.sigma == pytest.approx(math.sqrt(least.scale / data["w"].mean()), rel=0.01)
    assert fit.rsquared == pytest.approx(least.rsquared, abs=0.01)
    # unweighted standard errors are others
    assert (np.abs(np.log(smf.ols(formula, data).fit().bse / least.bse)) > 0.2).any()


@pytest.mark.parametrize("weights", ["w * 4.0 ** -20", "w * 4.0 ** 25", "np.sqrt(w ** 2)"])
def test_a_unit_of_weights_does_not_matter(weights):
    data = survey()
    fits = [dpstats.ols(FORMULA, data, eps=1e6, weights=w, seed=1) for w in ("w", weights)]
    assert (np.abs(fits[0].params - fits[1].params) < 0.05 * fits[0].bse).all()
    np.testing.assert_allclose(fits[0].bse, fits[1].bse, rtol=0.02)


def test_equal_weights_are_none():
    data = survey().assign(w=7.0)
    fit = dpstats.ols(FORMULA, data, eps=1e6, weights="w", seed=1)
    plain = dpstats.ols(FORMULA, data, eps=1e6, seed=1)
    np.testing.assert_allclose(fit.params, plain.params, rtol=1e-3)
    np.testing.assert_allclose(fit.bse, plain.bse, rtol=0.01)
    assert fit.sigma == pytest.approx(plain.sigma, rel=0.01)


def test_rows_without_a_weight_or_with_a_negative_one_are_not_used():
    data = survey()
    few = data.iloc[:15_000]
    rest = data.iloc[15_000:].assign(y=1e6)
    rest["w"] = np.resize([np.nan, -1.0, -np.inf, np.inf], len(rest))
    fits = [dpstats.ols(FORMULA, d, eps=2, weights="w", seed=1) for d in (few, pd.concat([few, rest]))]
    np.testing.assert_array_equal(fits[0].params, fits[1].params)


def test_a_weight_of_0_counts_for_nothing():
    data = survey()
    data.loc[::5, ["y", "w"]] = [1e6, 0.0]
    fit = dpstats.ols(FORMULA, data, eps=1e6, weights="w", seed=1)
    least = smf.wls(FORMULA, data[data["w"] > 0], weights=data["w"][data["w"] > 0]).fit()
    np.testing.assert_allclose(fit.params, least.params[list(fit.names)], rtol=0.02)


def test_where_hardly_a_row_has_a_weight_nothing_is_released():
    with pytest.raises(ReleaseFailed, match=r"hardly any row has a weight that is not 0\."):
        dpstats.ols(FORMULA, survey().assign(w=0.0), eps=2, weights="w", seed=2)


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ g", "y ~ 1", "y ~ 0 + x"])
def test_all_noise_adds_up_to_the_guarantee(formula, adds_up):
    adds_up(dpstats.ols(formula, survey(), eps=2, delta=1e-5, weights="w", seed=1))


WEIGHTS = (0.0, 5e-324, 1e-3, 1.0, 7.0, 2.0**101, 1e308)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_no_weight_moves_a_gram_matrix_by_more_than_the_radius(weight):
    """One row more, of any length and weight: the matrix of all others stays, and it adds a bounded one."""
    r = np.random.default_rng(0)
    X, Y = r.standard_normal((50, 2)), np.column_stack([r.standard_normal(50), np.ones(50)])
    affine, W = Affine(np.arange(2), np.zeros(2), np.ones(2), (1, 0.5)), np.eye(2)
    for size in (1e-3, 1.0, 1e9, 1e308):
        more = np.vstack([X, [size, -size]]), np.vstack([Y, [0.0, weight]])
        one, other = (release_gram([rows], affine, W, 4.0, 1e12, Randomness(1)) for rows in ((X, Y), more))
        assert np.isfinite(other).all()
        assert np.linalg.norm(other - one) <= 4.0 * (1 + 1e-3)


def test_rows_are_multiplied_by_the_root_of_their_weight_after_they_were_limited():
    r = np.random.default_rng(0)
    X, y, s = r.standard_normal((500, 2)), r.standard_normal(500), 4 * np.abs(r.standard_normal(500))
    affine = Affine(np.arange(2), np.array([0.5, 0.0]), np.array([2.0, 1.0]), (1, 3.0))
    response = Affine(np.array([2]), np.array([1.0]), np.array([4.0]))
    frame = Frame(
        join(affine, response), np.array([[1.0, 0.5], [0.0, 2.0]]), np.full(2, -0.6), np.full(2, 0.7)
    )
    ((V, R),) = Whitened(Rows(X, np.column_stack([y, s])), frame)
    z = np.clip((X - affine.loc) / affine.scale, -0.6, 0.7)
    np.testing.assert_allclose(V, (s / 3)[:, None] * (z @ frame.W), rtol=1e-12)
    np.testing.assert_allclose(R[:, 0], s / 3 * (y - 1) / 4, rtol=1e-12)
    # how far out a row is does not depend on its weight, unless that is large
    lengths = np.sum((z @ frame.W) ** 2, axis=1) * np.maximum((s / 3) ** 2 / 2, 1) / (5 * 2)
    np.testing.assert_allclose(R[:, 1], (lengths - 0.4) / 0.6, rtol=1e-9)


def test_what_a_result_says():
    fit = dpstats.ols(FORMULA, survey(), eps=2, weights="w", seed=1)
    assert fit.formula == FORMULA and fit.method == "Private weighted least squares"
    assert fit.notes[0] == "Rows count by their weights, w."
    assert fit.predict(survey(10).drop(columns="w")).notna().all()
    assert "locations of the columns and of the weights" in str(fit)
    with pytest.raises(dpstats.errors.NotReleased):
        fit.het_test()


def test_rows_of_a_rare_cell_leave_and_the_others_keep_their_weights():
    """Half of the rows have nine times the weight and another mean: the constant tells which count."""
    r = np.random.default_rng(0)
    heavy, g, h = r.random(40_000) < 0.5, r.integers(0, 3, 40_000), r.integers(0, 2, 40_000)
    h[g == 2] = 0
    h[np.flatnonzero(g == 2)[:40]] = 1
    y = 1 + 5 * heavy + (g == 1) + r.standard_normal(40_000)
    levels = {"g": pd.Categorical.from_codes(g, list("abc")), "h": pd.Categorical.from_codes(h, list("uv"))}
    data = pd.DataFrame({"y": y, "w": np.where(heavy, 9.0, 1.0), **levels})
    fit = dpstats.ols("y ~ g * h", data, eps=1, weights="w", seed=1)
    assert np.isfinite(fit.bse).sum() == 5 and np.isnan(fit.bse["g[T.c]:h[T.v]"])
    assert abs(fit.params["Intercept"] - 5.5) < 4 * fit.bse["Intercept"] < 0.6


def test_a_ledger_has_the_formula_and_the_weights(tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=9, delta=1e-3)
    dpstats.ols(FORMULA, survey(), eps=2, weights="w", ledger=ledger)
    dpstats.ols("y ~ x", survey(), eps=2, weights="w", by="g", ledger=ledger)
    assert f"{FORMULA}, weights w" in str(ledger.report()) and "y ~ x, weights w, by g" in str(
        ledger.report()
    )


def test_groups_have_weights_too():
    data = survey()
    fits = dpstats.ols("y ~ x + z", data, eps=1e6, weights="w", by="g", seed=1)
    for level in "abc":
        own = data[data["g"] == level]
        least = smf.wls("y ~ x + z", own, weights=own["w"]).fit(cov_type="HC1")
        assert (np.abs(fits[level].params - least.params) < 0.3 * least.bse).all()
    assert fits.formula == "y ~ x + z"


def panel(units=8_000, seed=0):
    """Persons of one to several rows, all with the weight of the person, who have effects of their own."""
    r = np.random.default_rng(seed)
    person = np.repeat(np.arange(units), 1 + r.poisson(2, units))
    own, few = r.standard_normal(units)[person], (r.random(units) < 0.3)[person]
    x = r.standard_normal(len(person)) + own / 2
    y = 1 + x / 2 + few + own + r.standard_normal(len(person))
    w = r.lognormal(6, 0.6, units)[person] * (1 + 2 * few)
    return pd.DataFrame({"y": y, "x": x, "few": 1.0 * few, "w": w, "id": person})


def test_standard_errors_of_units_are_clustered():
    data = panel()
    fit = dpstats.ols("y ~ x + few", data, eps=1e6, weights="w", unit="id", seed=1)
    clusters = {"cov_type": "cluster", "cov_kwds": {"groups": data["id"]}}
    least = smf.wls("y ~ x + few", data, weights=data["w"]).fit(**clusters)
    assert (np.abs(fit.params - least.params) < 0.05 * least.bse).all()
    np.testing.assert_allclose(fit.bse, least.bse, rtol=0.02)
    assert fit.sigma == pytest.approx(math.sqrt(least.scale / data["w"].mean()), rel=0.02)
    assert fit.rsquared == pytest.approx(least.rsquared, abs=0.01)


def test_all_noise_of_units_adds_up_to_the_guarantee(adds_up):
    adds_up(dpstats.ols("y ~ x + few", panel(), eps=2, delta=1e-5, weights="w", unit="id", seed=1))


def test_a_dot_does_not_stand_for_the_weights():
    assert dpstats.ols("y ~ .", survey(), eps=2, weights="w", seed=1).names == (
        "Intercept", "g[T.b]", "g[T.c]", "x", "z",
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments, error, says",
    [
        ({"weights": "v"}, SchemaError, "weights: there is no column 'v'"),
        ({"weights": "g"}, FormulaError, "weights: 'g' must be numeric"),
        ({"weights": "w / w.sum()"}, FormulaError, "weights: the formula cannot contain 'w / w.sum"),
        ({"weights": "unit"}, ParameterError, "weights must be 'row' or the name of a column without unit="),
        ({"weights": ""}, ParameterError, "weights must be 'row', the name of a column, or"),
        ({"weights": np.ones(3)}, ParameterError, "weights must be 'row', the name of a column, or"),
        (
            {"weights": "w", "unit": "x", "effects": "unit"},
            ParameterError,
            "effects must be None with weights",
        ),
        ({"weights": "w", "cov_type": "bootstrap"}, ParameterError, "cov_type must be 'robust' with weights"),
        ({"weights": "w", "cov_type": "nonrobust"}, ParameterError, "cov_type must be 'robust' with weights"),
        ({"weights": "w", "select": 1}, ParameterError, "select must be None with weights"),
    ],
)
def test_mistakes(arguments, error, says):
    with pytest.raises(error, match=says.replace("(", r"\(")):
        dpstats.ols(FORMULA, survey(50), eps=1, **arguments)
