"""Poisson regression: statsmodels' fit, offsets, overdispersion, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats

import dpstats
from dpstats.linear.calibrated import calibrated_clip

COEFFICIENTS = np.array([0.4, 0.3, -0.2, 0.5])


def frame(n=20_000, seed=0, shape=None):
    g = np.random.default_rng(seed)
    x, z = g.standard_normal(n), g.gamma(2, 1, n)
    w, pop = g.random(n) < 0.4, g.gamma(4, 500, n)
    mean = np.exp(np.column_stack([np.ones(n), x, z, w]) @ COEFFICIENTS)
    more = 1.0 if shape is None else g.gamma(shape, 1 / shape, n)
    return pd.DataFrame({
        "x": x, "z": z, "w": w * 1.0, "pop": pop, "y": g.poisson(mean * more) * 1.0,
        "cases": g.poisson(mean * more * pop / 1000) * 1.0,
    })  # fmt: skip


def reference(formula, data, cov_type="HC0", **given):
    return smf.glm(formula, data, family=sm.families.Poisson(), **given).fit(cov_type=cov_type)


@pytest.mark.parametrize("shape", [None, 0.5])
@pytest.mark.parametrize("cov_type", ["nonrobust", "robust"])
@pytest.mark.slow
def test_statsmodels_without_noise(cov_type, shape):
    data = frame(shape=shape)
    fit = dpstats.poisson("y ~ x + z + w", data, eps=1e6, seed=1, cov_type=cov_type)
    exact = reference("y ~ x + z + w", data, {"robust": "HC0", "nonrobust": "nonrobust"}[cov_type])
    np.testing.assert_allclose(fit.params, exact.params, atol=0.1 * exact.bse.max())
    np.testing.assert_allclose(fit.bse, exact.bse, rtol=0.06)
    assert fit.deviance == pytest.approx(exact.deviance, rel=0.01)
    assert fit.null_deviance == pytest.approx(exact.null_deviance, rel=0.01)
    assert fit.dispersion == pytest.approx(exact.pearson_chi2 / exact.df_resid, rel=0.25)
    slopes = fit.marginal_effects()["estimate"] / fit.params.iloc[1:]
    np.testing.assert_allclose(slopes, data["y"].mean(), rtol=0.02)


@pytest.mark.parametrize("given", [{"exposure": "pop"}, {"offset": "np.log(pop)"}, {"exposure": "pop / 2"}])
@pytest.mark.slow
def test_offsets(given):
    data = frame()
    fit = dpstats.poisson("cases ~ x + z", data, eps=1e6, seed=1, **given)
    halved = np.log(2) if given.get("exposure") == "pop / 2" else 0.0
    exact = reference("cases ~ x + z", data, exposure=data["pop"])
    np.testing.assert_allclose(fit.params - [halved, 0, 0], exact.params, atol=3e-3)
    assert fit.formula == "cases ~ x + z" and fit.response == "cases"
    new = data.head(4)
    size = np.asarray(new["pop"]) / (2 if halved else 1)
    expected = exact.predict(new, exposure=new["pop"])
    np.testing.assert_allclose(fit.predict(new, exposure=size), expected, rtol=0.01)


@pytest.mark.parametrize(
    ("offset", "shift"),
    [
        ("np.log(pop) - x", lambda d: np.log(d["pop"]) - d["x"]),
        ("x + x", lambda d: 2 * d["x"]),
        ("x - 1", lambda d: d["x"] - 1),
        ("- x # of a comment", lambda d: -d["x"]),
    ],
)
def test_an_offset_is_arithmetic(offset, shift):
    """The algebra of terms took ``a - b`` and ``a + a`` for ``a``, without a word."""
    data = frame(4000)
    fit = dpstats.poisson("y ~ z", data, eps=1e6, seed=1, offset=offset)
    exact = reference("y ~ z", data, offset=shift(data))
    np.testing.assert_allclose(fit.params, exact.params, atol=3e-3)
    assert fit.offset == offset and fit.formula == "y ~ z"


@pytest.mark.parametrize("mean", [50, 10_000])
def test_the_deviance_about_the_mean_of_large_counts(mean):
    """What the columns explain grows with the mean of the counts, their noise with its root. Within 10 % of
    the deviance without privacy, at a large budget."""
    g = np.random.default_rng(1)
    x = g.standard_normal(20_000)
    y = g.poisson(mean * np.exp(0.5 * x - 0.125)).astype(float)
    fit = dpstats.poisson("y ~ x", {"x": x, "y": y}, eps=100, seed=1)
    m = y.mean()
    exact = 2 * np.sum(np.where(y > 0, y * np.log(np.maximum(y, 1) / m), 0) - (y - m))
    assert fit.null_deviance == pytest.approx(exact, rel=0.1)


@pytest.mark.slow
def test_deviances_of_rare_counts():
    """Rows that are not 0 make most of them, and are not cut: twelve tables, noise of a tenth each. With four
    times the noise they are not shown, as noise may be most of them."""
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(20_000)
        y = rng.poisson(0.02 * np.exp(0.5 * x)).astype(float)
        fit = dpstats.poisson("y ~ x", {"x": x, "y": y}, eps=6, seed=seed)
        exact = sm.GLM(y, sm.add_constant(x), family=sm.families.Poisson()).fit()
        ratios.append([fit.deviance / exact.deviance, fit.null_deviance / exact.null_deviance])
    np.testing.assert_allclose(np.mean(ratios, axis=0), 1.0, atol=0.1 * 4.9 / math.sqrt(12))
    fit = dpstats.poisson("y ~ x", {"x": x, "y": y}, eps=0.5, seed=0)
    assert math.isnan(fit.deviance) and math.isnan(fit.prsquared) and math.isnan(fit.dispersion)
    assert "Not determined: deviance, null deviance, dispersion." in str(fit)


def test_rows_without_an_exposure_are_dropped():
    data = frame(8000)
    more = pd.concat([data, data.head(1000).assign(pop=np.nan), data.head(1000).assign(pop=-1.0)])
    one, other = (dpstats.poisson("cases ~ x", d, eps=1e6, seed=1, exposure="pop") for d in (data, more))
    np.testing.assert_allclose(one.params, other.params, atol=2e-3)
    assert other.nobs == pytest.approx(8000, abs=1)


@pytest.mark.parametrize("unit", [1e-12, 1e9, 1e15])
def test_the_unit_of_an_exposure_moves_the_constant_alone(unit):
    rng = np.random.default_rng(3)
    x, size = rng.normal(size=5_000), rng.uniform(0.1, 3, 5_000)
    y = rng.poisson(np.exp(0.3 * x) * size)

    def fit(unit):
        data = {"x": x, "size": size * unit, "y": y}
        return dpstats.poisson("y ~ x", data, eps=1e4, exposure="size", seed=1)

    one, other = fit(1.0), fit(unit)
    assert other.determined.all()
    assert other.params["x"] == pytest.approx(one.params["x"], rel=1e-3)
    assert other.params["Intercept"] == pytest.approx(one.params["Intercept"] - math.log(unit), abs=1e-3)
    assert other.null_deviance == pytest.approx(one.null_deviance, rel=2e-3)
    assert other.prsquared == pytest.approx(one.prsquared, rel=0.02)


def test_counts_of_money():
    rng = np.random.default_rng(3)
    x = rng.normal(size=5_000)
    y = np.floor(rng.gamma(20, 0.05, 5_000) * np.exp(0.3 * x) * 1e12)
    fit = dpstats.poisson("y ~ x", {"x": x, "y": y}, eps=1e4, seed=1)
    assert fit.determined.all() and fit.params["x"] == pytest.approx(0.3, abs=0.02)
    classical = sm.GLM(y, sm.add_constant(x), sm.families.Poisson()).fit()
    assert fit.null_deviance == pytest.approx(classical.null_deviance, rel=0.05)


def test_offsets_by_groups():
    data = frame(16_000).assign(g=np.resize(["a", "b"], 16_000))
    fits = dpstats.poisson("cases ~ x", data, eps=1e5, seed=1, exposure="pop", by="g",
                           levels={"g": ["a", "b"]})  # fmt: skip
    for group in ("a", "b"):
        own = data[data["g"] == group]
        exact = reference("cases ~ x", own, exposure=own["pop"])
        np.testing.assert_allclose(fits[group].params, exact.params, atol=5e-3)


@pytest.mark.slow
def test_intervals_cover_overdispersed_counts():
    covered = []
    for seed in range(40):
        low, high = dpstats.poisson("y ~ x + w", frame(20_000, seed, 2.0).assign(z=0.0), eps=1, seed=seed
                                    ).conf_int().to_numpy().T  # fmt: skip
        covered.append([low[1] <= 0.3 <= high[1], low[2] <= 0.5 <= high[2]])
    assert np.sum(covered) > stats.binom.ppf(1e-6, 80, 0.93)


MARGINS = {
    # a column, the slope, and exposures
    "normal": (lambda g, n: g.normal(size=n), 0.8, False),
    "exponential": (lambda g, n: g.exponential(size=n), 0.5, False),
    "1 % ones": (lambda g, n: (g.random(n) < 0.01) * 1.0, 2.5, False),
    "exposures": (lambda g, n: g.normal(size=n), 0.1, True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MARGINS)
def test_marginal_effects_are_covered(name):
    """Where few rows have much of the mean, which has no end: limited without allowance, they held in 10 to
    45 %. As many as binomial trials at 0.93 would at 1e-6; and the error of the mean is what it is said to
    be."""
    make, slope, exposed = MARGINS[name]
    rng = np.random.default_rng(9)
    truth = np.exp(slope * make(rng, 10**6)).mean() * (np.exp(0.32) if exposed else 1.0)
    held, ratios, said = 0, [], []
    for seed in range(25):
        rng = np.random.default_rng([71, seed])
        x = make(rng, 20_000)
        days = np.exp(0.8 * rng.normal(size=20_000)) if exposed else np.ones(20_000)
        data = {"x": x, "y": rng.poisson(days * np.exp(slope * x)), "days": days}
        fit = dpstats.poisson("y ~ x", data, eps=1, seed=seed, exposure="days" if exposed else None)
        effect = fit.marginal_effects().loc["x"]
        held += effect["conf.low"] <= slope * truth <= effect["conf.high"]
        ratios.append(fit.slopes.mean / truth)
        said.append(fit.slopes.noise / truth)
    assert held >= stats.binom.ppf(1e-6, 25, 0.93)
    assert np.std(ratios) < 2 * np.mean(said) and abs(np.mean(ratios) - 1) < 1.5 * np.mean(said)


def test_robust_standard_errors_allow_for_overdispersion():
    data = frame(20_000, 1, 0.5)
    robust, plain = (
        dpstats.poisson("y ~ x", data, eps=1e5, seed=1, cov_type=c) for c in ("robust", "nonrobust")
    )
    assert np.all(robust.bse > 1.5 * plain.bse)


def test_other_responses_are_dropped():
    data = frame(5000)
    more = pd.concat([data, data.head(900).assign(y=0.5), data.head(900).assign(y=-2.0)])
    one, other = (dpstats.poisson("y ~ x", d, eps=1e6, seed=1) for d in (data, more))
    np.testing.assert_allclose(one.params, other.params, atol=2e-3)


def test_the_table_says_how_many_rows_may_go_unseen():
    fit = dpstats.poisson("y ~ x", frame(5000), eps=1, seed=1)
    assert any("typical size. Some 80 rows beyond that may go unseen" in note for note in fit.notes)
    assert any("intervals allow for what is seen of that" in note for note in fit.notes)
    assert "Rows whose response is not 0, 1, 2, ... are left out." in fit.notes


def test_hardly_any_counts():
    with pytest.raises(dpstats.ReleaseFailed, match="hardly any counts but 0"):
        dpstats.poisson("y ~ x", frame(5000).assign(y=0.0), eps=1, seed=1)


def test_parameters():
    data = frame(100)
    for given, message in (
        ({"cov_type": "HC3"}, "cov_type must be"),
        ({"offset": 3}, "offset must be None, the name of a column or an expression"),
        ({"offset": "pop", "exposure": "pop"}, "exposure must be None where there is an offset"),
        ({"exposure": "pop", "select": 1}, "select must be None with an offset"),
    ):
        with pytest.raises(dpstats.ParameterError, match=message):
            dpstats.poisson("y ~ x", data, eps=1, **given)
    for formula in ("y + x ~ w", "y"):
        with pytest.raises(dpstats.FormulaError):
            dpstats.poisson(formula, data, eps=1, exposure="pop")
    with pytest.raises(dpstats.SchemaError):
        dpstats.poisson("y ~ x", data, eps=1, exposure="nobody")


def test_what_is_wrong_with_an_offset_is_said_of_it():
    """It was said of ``'y + ~ x ~ x'``, a formula that nobody wrote."""
    data = frame(100).assign(g=pd.Categorical(np.resize(["a", "b"], 100)))
    for given, message in (
        ({"offset": "~ x"}, "offset must be None, the name of a column or an expression, as in "),
        ({"offset": ""}, "offset must be None, the name of a column or an expression, as in "),
        ({"offset": "g"}, "offset: 'g' must be numeric, and has declared levels."),
        ({"exposure": "g"}, "exposure: 'g' must be numeric, and has declared levels."),
        ({"exposure": "pop)"}, "exposure: the formula cannot contain 'pop)': it is not a Python expression"),
        ({"exposure": "pop) + (x"}, "exposure: the formula cannot contain 'pop) + (x': it is not"),
        ({"offset": "3"}, "offset: the formula cannot contain '3': it names no column"),
        ({"exposure": "nobody"}, "exposure: there is no column 'nobody'; the columns are 'x',"),
    ):
        with pytest.raises(ValueError) as caught:
            dpstats.poisson("y ~ x", data, eps=1, **given)
        assert str(caught.value).startswith(message), given
    for formula, message in (
        ("y + x ~ z", "poisson takes one response, and 'y + x ~ z' has 2."),
        ("g ~ z", "the response 'g' must be numeric."),
        ("y ~ x +", "the formula 'y ~ x +' cannot be parsed: "),
        ("y", "the formula 'y' has no response;"),
    ):
        with pytest.raises(dpstats.FormulaError) as caught:
            dpstats.poisson(formula, data, eps=1, exposure="pop")
        assert str(caught.value).startswith(message), formula


def test_all_other_columns_are_not_those_of_the_exposure():
    data = frame(5000)[["x", "z", "w", "pop", "cases"]]
    fit, same = (
        dpstats.poisson(f"cases ~ {rhs}", data, exposure="pop", eps=1e5, seed=1) for rhs in (".", "x + z + w")
    )
    assert fit.params.index.tolist() == ["Intercept", "x", "z", "w"]
    np.testing.assert_array_equal(fit.params, same.params)


@pytest.mark.parametrize("bounds", [(0, 2.5), (0.5, 4)])
def test_bounds_to_which_counts_cannot_be_moved(bounds):
    """The rows beyond would be moved to 2.5, which is no count, and left out."""
    with pytest.raises(
        dpstats.errors.ParameterError, match="bounds of the response 'y' must be whole numbers"
    ):
        dpstats.poisson("y ~ x", frame(100), bounds={"y": bounds}, eps=1)
    assert len(dpstats.poisson("y ~ x", frame(5000), bounds={"y": (-0.5, 3)}, eps=1e5, seed=1).params) == 2


@pytest.mark.slow
def test_the_dispersion_of_poisson_counts_is_one():
    """Twelve tables of 4,000 rows; without what squares have beyond their limit it is .85 in the median.
    Where that is much, it is no number."""
    found = []
    for seed in range(12):
        g = np.random.default_rng(seed)
        x = g.standard_normal((4_000, 3))
        data = {"x": x[:, 0], "z": x[:, 1], "w": x[:, 2], "y": g.poisson(np.exp(0.4 * x[:, 0]))}
        found.append(dpstats.poisson("y ~ x + z + w", data, eps=1, seed=seed).dispersion)
    assert 0.93 < np.nanmedian(found) < 1.07 and np.sum(np.isnan(found)) < 3


@pytest.mark.slow
def test_a_clip_takes_no_counts_off_a_rare_group(monkeypatch):
    """With hardly any noise and a narrow clip; about their means the group's counts would come out lower by
    a tenth."""
    narrow = lambda *args: replace(calibrated_clip(*args), norm=4.0)  # noqa: E731
    monkeypatch.setattr("dpstats.linear.glm.calibrated_clip", narrow)
    g = np.random.default_rng(1)
    x, z = g.standard_normal(100_000), (g.random(100_000) < 0.03) * 1.0
    y = g.poisson(np.exp(0.7 + 0.3 * x))
    fit = dpstats.poisson("y ~ x + z", {"x": x, "z": z, "y": y}, eps=1e3, seed=1)
    least = sm.GLM(y, sm.add_constant(np.column_stack([x, z])), sm.families.Poisson()).fit()
    assert abs(fit.params["z"] - least.params[2]) < 0.03
