"""Logistic regression: statsmodels' fit, the model's coefficients, standard errors, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import dpstats
from dpstats.linear.family import Binomial, Counts

COEFFICIENTS = np.array([-0.5, 0.8, -0.4, 0.6])


def frame(n=20_000, seed=0):
    g = np.random.default_rng(seed)
    x, z = g.standard_normal(n), g.gamma(2, 1, n)
    w = g.random(n) < 0.4
    eta = np.column_stack([np.ones(n), x, z, w]) @ COEFFICIENTS
    y = g.random(n) < 1 / (1 + np.exp(-eta))
    return pd.DataFrame({"x": x, "z": z, "w": w * 1.0, "y": y * 1.0})


@pytest.mark.parametrize("cov_type", ["nonrobust", "robust"])
@pytest.mark.slow
def test_statsmodels_without_noise(cov_type):
    data = frame()
    fit = dpstats.logit("y ~ x + z + w", data, eps=1e6, seed=1, cov_type=cov_type)
    kind = {"robust": "HC0", "nonrobust": "nonrobust"}[cov_type]
    reference = smf.logit("y ~ x + z + w", data).fit(disp=0, cov_type=kind)
    np.testing.assert_allclose(fit.params, reference.params, atol=2e-3)
    np.testing.assert_allclose(fit.bse, reference.bse, rtol=0.02)
    assert fit.deviance == pytest.approx(-2 * reference.llf, rel=1e-3)
    assert fit.null_deviance == pytest.approx(-2 * reference.llnull, rel=1e-3)
    assert fit.prsquared == pytest.approx(reference.prsquared, abs=2e-3)
    effects = fit.marginal_effects()
    margins = reference.get_margeff()
    np.testing.assert_allclose(effects["estimate"], margins.margeff, rtol=0.01)
    np.testing.assert_allclose(effects["std.error"], margins.margeff_se, rtol=0.03)


def test_without_a_constant():
    data = frame()
    fit = dpstats.logit("y ~ x + w - 1", data, eps=1e6, seed=1)
    reference = smf.logit("y ~ x + w - 1", data).fit(disp=0)
    np.testing.assert_allclose(fit.params, reference.params, atol=4e-3)


@pytest.mark.slow
def test_standard_errors_are_those_of_the_release():
    """Errors over standard errors, and the noise they count on: false alarm 1e-6."""
    runs, z, data = 60, [], frame(6000)
    exact = smf.logit("y ~ x + z + w", data).fit(disp=0)
    se = []
    for seed in range(runs):
        fit = dpstats.logit("y ~ x + z + w", data, eps=1, seed=seed)
        z.append((fit.params - exact.params).to_numpy())
        se.append(fit.bse.to_numpy())
    # about the exact estimate of the same rows there is the noise alone, and the bound on what is left
    spread, noise = np.array(z), np.sqrt(np.maximum(np.square(se) - np.square(exact.bse.to_numpy()), 0))
    ratio = np.sum((spread / noise) ** 2, axis=0)
    assert np.all(ratio < 1.5 * stats.chi2.isf(5e-7, runs)) and np.all(ratio > 0.3 * runs)


@pytest.mark.slow
def test_intervals_cover():
    covered = []
    for seed in range(80):
        low, high = (
            dpstats.logit("y ~ x + z + w", frame(5000, seed), eps=1, seed=seed).conf_int().to_numpy().T
        )
        covered.append((low <= COEFFICIENTS) & (high >= COEFFICIENTS))
    assert np.sum(covered) > stats.binom.ppf(1e-6, 320, 0.93)


def test_two_levels_a_boolean_and_zeros_and_ones_are_the_same():
    data = frame(5000)
    words = np.where(data["y"] == 1, "yes", "no")
    call = {"eps": 1, "seed": 3}
    plain = dpstats.logit("y ~ x", data, **call)
    others = [
        dpstats.logit("y ~ x", data.assign(y=data["y"] == 1), **call),
        dpstats.logit("y ~ x", data.assign(y=words), levels={"y": ["no", "yes"]}, **call),
        dpstats.logit("y ~ x", data.assign(y=pd.Categorical(words, ["no", "yes"])), **call),
        dpstats.logit("y == 1 ~ x", data, **call),
    ]
    assert all(np.array_equal(fit.params.to_numpy(), plain.params.to_numpy()) for fit in others)
    turned = dpstats.logit("y ~ x", data.assign(y=words), levels={"y": ["yes", "no"]}, eps=1e6, seed=1)
    exact = dpstats.logit("y ~ x", data, eps=1e6, seed=1)
    np.testing.assert_allclose(turned.params, -exact.params, atol=5e-3)
    # which of two levels is the event is in the table
    assert [turned.event, exact.event] == ["no", None] and "Event:" in str(turned)


def test_the_table_tells_of_other_responses_where_the_schema_allows_them():
    data, note = frame(2000), "Rows whose response is not 0 or 1 are left out."
    words = np.where(data["y"] == 1, "yes", "no")
    calls = [
        ("y ~ x", data["y"], None, True),
        # of a dtype that pandas finds by itself nothing is public
        ("y ~ x", data["y"] == 1, None, True),
        ("y ~ x", (data["y"] == 1).astype("boolean"), None, False),
        ("y ~ x", words, {"y": ["no", "yes"]}, False),
        ("I(y > 0) ~ x", data["y"], None, False),
    ]
    for formula, y, levels, told in calls:
        fit = dpstats.logit(formula, data.assign(y=y), eps=5, levels=levels, seed=3)
        assert (note in fit.notes) == told


def test_other_responses_are_dropped():
    data = frame(5000)
    more = pd.concat([data, data.head(2000).assign(y=0.5), data.head(2000).assign(y=2.0)])
    one, other = (dpstats.logit("y ~ x", d, eps=1e6, seed=1) for d in (data, more))
    np.testing.assert_allclose(one.params, other.params, atol=5e-3)
    assert other.nobs == pytest.approx(5000, abs=1)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_separated_classes_have_finite_estimates_and_no_interval(noise):
    """Without noise the classes are separated; with some, one standard deviation of x is worth 20."""
    data, g = frame(5000), np.random.default_rng(4)
    data["y"] = (data["x"] + noise * g.logistic(size=5000) > 0) * 1.0
    for seed in range(3):
        fit = dpstats.logit("y ~ x + z", data, eps=1, seed=seed)
        assert np.isfinite(fit.params).all() and fit.params["x"] > 1
        assert fit.bse.isna().all() and "separate the classes" in fit.summary().as_text()
    data["y"] = (g.random(5000) < 1 / (1 + np.exp(-4 * data["x"]))) * 1.0
    assert dpstats.logit("y ~ x + z", data, eps=1, seed=1).bse.notna().all()


@pytest.mark.slow
def test_a_rare_level_with_nothing_but_events_is_not_determined():
    """Its linear predictor may end where the variance is 0 in floating point."""
    for seed in range(12):
        g = np.random.default_rng([1, seed])
        rare, x = g.random(5000) < 0.02, g.standard_normal(5000)
        y = np.where(rare, True, g.random(5000) < 0.02) * 1.0
        data = pd.DataFrame({"y": y, "x": x, "f": pd.Categorical.from_codes(rare * 1, ["a", "b"])})
        assert np.isnan(dpstats.logit("y ~ x + f", data, eps=4, seed=seed).bse["f[T.b]"])


@pytest.mark.parametrize("name", ["logit", "poisson"])
@pytest.mark.parametrize("cov_type", ["nonrobust", "robust"])
@pytest.mark.parametrize("rate, determined", [(0.2, True), (0.001, False)])
@pytest.mark.slow
def test_a_level_with_hardly_any_events_is_not_determined(name, cov_type, rate, determined):
    """Of 900 rows of a level 180 or one have an event; the noise is some ten events."""
    g = np.random.default_rng(5)
    codes = g.choice(3, 10_000, p=[0.6, 0.31, 0.09])
    y = (g.random(10_000) < np.array([0.4, 0.4, rate])[codes]) * 1.0
    data = pd.DataFrame(
        {"x": g.standard_normal(10_000), "f": pd.Categorical.from_codes(codes, list("abc")), "y": y}
    )
    fit, given = getattr(dpstats, name), {"eps": 1, "cov_type": cov_type}
    # (at seed 24 rounds end where the level seems to have events)
    fits = [fit("y ~ x + f", data, seed=seed, **given) for seed in (0, 1, 2, 3, 24)]
    known = [np.isfinite(fit.bse["f[T.c]"]) for fit in fits]
    assert sum(known) >= 4 if determined else not any(known)
    assert sum(np.isfinite(fit.bse[["x", "f[T.b]"]]).all() for fit in fits) >= 4


@pytest.mark.parametrize("name", ["logit", "poisson"])
def test_a_level_that_no_row_has_is_not_determined_alone(name):
    data = frame(5000)
    data["f"] = pd.Categorical(np.resize(["a", "b"], 5000), categories=["a", "b", "never"])
    for seed in range(3):
        known = getattr(dpstats, name)("y ~ x + f", data, eps=3, seed=seed).bse.notna()
        assert known.drop("f[T.never]").all() and not known["f[T.never]"]


def test_means_of_linear_predictors():
    for family in (Binomial(), Counts()):
        for mean in (1e-9, 0.2, 0.7):
            assert family.mean(family.predictor(mean)) == pytest.approx(mean, rel=1e-9)
        assert np.isfinite([family.mean(-1e6), family.mean(1e6)]).all()


def test_too_few_rows_of_a_class_or_too_many_columns():
    data = frame(5000).assign(y=0.0)
    with pytest.raises(dpstats.ReleaseFailed, match="hardly any rows of one of its classes"):
        dpstats.logit("y ~ x", data, eps=1, seed=1)
    with pytest.raises(dpstats.ReleaseFailed, match="Nothing was estimated"):
        dpstats.logit("y ~ x + z + w + I(x*z) + I(x*w) + I(x**2) + I(z**2)", frame(300), eps=0.5, seed=1)


def test_a_column_of_three_levels_is_no_response():
    data = frame(100).assign(y=pd.Categorical(np.resize(["a", "b", "c"], 100)))
    with pytest.raises(dpstats.FormulaError, match="has 3 declared levels; only logit takes levels, two of"):
        dpstats.logit("y ~ x", data, eps=1)
    two = frame(100).assign(y=pd.Categorical(np.resize(["a", "b"], 100)))
    for other in (dpstats.ols, dpstats.poisson):
        with pytest.raises(dpstats.FormulaError, match="must be numeric"):
            other("y ~ x", two, eps=1)


def test_parameters():
    with pytest.raises(dpstats.ParameterError, match="cov_type must be"):
        dpstats.logit("y ~ x", frame(100), eps=1, cov_type="HC3")


@pytest.mark.parametrize("name", ["logit", "poisson"])
def test_glm_of_r(name):
    """What tests/reference/glm.R prints."""
    i = np.arange(1.0, 20_001)
    u, x1 = (i * 0.6180339887498949) % 1, np.sin(i)
    x2 = np.cos(0.7 * i) + 0.5 * x1
    data = pd.DataFrame({"x1": x1, "x2": x2})
    if name == "logit":
        data["y"] = (u < 1 / (1 + np.exp(0.5 - x1 + 0.7 * x2))) * 1.0
        coefficients = [-0.447264030208899, 1.115969135093282, -0.813259493551080]
        se, deviances = [0.0154902291553855, 0.0260442826212093, 0.0223140042408145], [24545.3019, 26963.6498]
    else:
        data["y"] = stats.poisson.ppf(u, np.exp(0.5 + 0.4 * x1 - 0.3 * x2))
        coefficients = [0.500744251382846, 0.400675647008339, -0.299495752797903]
        se, deviances = (
            [0.00560563310300220, 0.00865002994307626, 0.00776718097858839],
            [23017.042, 25595.174],
        )
    fit = getattr(dpstats, name)("y ~ x1 + x2", data, eps=1e4, seed=1, cov_type="nonrobust")
    np.testing.assert_allclose(fit.params, coefficients, atol=0.3 * max(se))
    np.testing.assert_allclose(fit.bse, se, rtol=0.06)
    np.testing.assert_allclose([fit.deviance, fit.null_deviance], deviances, rtol=0.01)


@pytest.mark.parametrize("estimator", [dpstats.logit, dpstats.poisson])
def test_the_deviance_that_columns_explain_has_little_noise_where_they_explain_little(estimator):
    """2 for least squares of pure noise; the noise of a deviance by itself is some 200. False alarm 1e-6."""
    g = np.random.default_rng(3)
    data = pd.DataFrame({"x": g.normal(50, 10, 6000), "z": g.gamma(2, 3, 6000), "y": g.integers(0, 2, 6000)})
    fits = [estimator("y ~ x + z", data, eps=1, seed=s) for s in range(5)]
    assert max(abs(fit.null_deviance - fit.deviance) for fit in fits) < 150
    assert max(fit.prsquared for fit in fits) < 0.03
    assert all(fit.null_deviance >= fit.deviance for fit in fits)


def test_bounds_that_leave_no_class():
    data = pd.DataFrame({"x": np.linspace(-1, 1, 100), "y": np.arange(100) % 2.0})
    with pytest.raises(dpstats.errors.ParameterError, match="bounds of the response 'y' must be 0 or less"):
        dpstats.logit("y ~ x", data, bounds={"y": (0.2, 0.8)}, eps=1)


@pytest.mark.slow
def test_standard_errors_of_marginal_effects_fall_with_the_rows():
    """Against the delta method without privacy: the noise of the mean variance must not stay."""
    data = frame(200_000)
    exact = smf.logit("y ~ x + z + w", data).fit(disp=0).get_margeff().summary_frame()["Std. Err."]
    fits = [dpstats.logit("y ~ x + z + w", data, eps=1, seed=seed) for seed in range(3)]
    ratios = np.array([fit.marginal_effects()["std.error"] / exact for fit in fits])
    assert np.all(ratios > 0.95) and np.median(ratios) < 2


@pytest.mark.slow
def test_robust_standard_errors_of_few_events_are_not_less_than_the_models():
    """Squares of events of rare levels are cut: they were 8 to 18 % less, and levels held in 91 %."""
    shares, ratios = [0.3, 0.2, 0.15, 0.1, 0.1, 0.06, 0.05, 0.04], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        g, a = rng.choice(8, 20_000, p=shares), rng.integers(18, 91, 20_000) * 1.0
        y = rng.random(20_000) < 1 / (1 + np.exp(3.2 - 0.03 * (a - 50)))
        data, levels = pd.DataFrame({"y": y * 1.0, "a": a, "g": g}), {"g": list(range(8))}
        fits = [
            dpstats.logit("y ~ a + g", data, eps=10, seed=seed, levels=levels, cov_type=kind).bse
            for kind in ("robust", "nonrobust")
        ]
        ratios.append(fits[0] / fits[1])
    assert np.all(np.median(ratios, axis=0) > 0.95) and np.all(np.median(ratios, axis=0) < 1.1)


def test_columns_that_repeat_each_other_are_named():
    """Both sexes beside a constant; and none without one of them."""
    n, rng = 20_000, np.random.default_rng(0)
    male, x = (rng.random(n) < 0.5) * 1.0, rng.standard_normal(n)
    y = (rng.random(n) < 1 / (1 + np.exp(-0.5 * male - x))) * 1.0
    frame = pd.DataFrame({"male": male, "female": 1 - male, "x": x, "y": y})
    for seed in range(5):
        fit = dpstats.logit("y ~ male + female + x", frame, eps=1, seed=seed)
        assert not fit.determined[:3].any()
        assert any("repeats the others: Intercept, male, female. That hides" in note for note in fit.notes)
        fewer = dpstats.logit("y ~ male + x", frame, eps=1, seed=seed)
        assert not any("repeats" in note for note in fewer.notes)
