"""AdaSSP and its boosting: least squares without noise, degenerate data, coverage."""

import functools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats

NAMES = ["a", "b", "c"]
FORMULA = "y ~ a + b + c"


def frame(n=20_000, sigma=0.2, seed=0):
    g = np.random.default_rng(seed)
    X = g.uniform(-1, 1, (n, 3))
    return pd.DataFrame(X, columns=NAMES).assign(y=2 + X @ [1.0, 2, 3] + sigma * g.standard_normal(n))


def least_squares(data):
    X = np.column_stack([np.ones(len(data)), data[NAMES]])
    return np.linalg.lstsq(X, data["y"].to_numpy(), rcond=None)[0]


@pytest.mark.parametrize("estimator", [dpstats.adassp, dpstats.boosted_adassp])
def test_least_squares_as_eps_grows(estimator):
    data = frame(200_000, sigma=0.1)
    fit = estimator(FORMULA, data, eps=1e6, clip=5.0, seed=1)
    np.testing.assert_allclose(fit.params, least_squares(data), rtol=1e-6)


@pytest.mark.parametrize("estimator", [dpstats.adassp, dpstats.boosted_adassp])
def test_least_squares_in_the_data_units(estimator):
    data = frame(20_000)
    more = {"rounds": 30} if estimator is dpstats.boosted_adassp else {}
    fit = estimator(FORMULA, data, eps=1e6, clip=8.0, standardize=False, seed=1, **more)
    np.testing.assert_allclose(fit.params, least_squares(data), rtol=1e-3)
    assert not any("Moved" in note for note in fit.notes)


@pytest.mark.parametrize(
    "estimator", [dpstats.adassp, dpstats.boosted_adassp, dpstats.huber, dpstats.gradient_descent]
)
def test_degenerate_data(estimator):
    data = frame(5000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = estimator(FORMULA, data.assign(y=4.0), eps=1, seed=0)
        assert flat.params["Intercept"] == pytest.approx(4, rel=1e-3) and (flat.params[1:] == 0).all()
        left = estimator(FORMULA, data.assign(b=7.0), eps=1, seed=0)
        assert left.params["b"] == 0 and "Left out" in left.notes[0] + left.notes[-1] + left.notes[-2]
        far = data.copy()
        far.iloc[0] = [1e12, -1e12, 1e308, 1e12]
        fit = estimator(FORMULA, far, eps=1, seed=0)
        assert np.abs(fit.params - least_squares(data)).max() < 1.5
        assert np.abs(fit.predict(far)).max() < 100
        for n in (0, 1):
            with pytest.raises(dpstats.ReleaseFailed):
                estimator(FORMULA, data.iloc[:n], eps=1, seed=0)


@functools.cache
def params(estimator, factor):
    """20 releases of the same rows, one column in other units."""
    data = frame(5000, sigma=1.0).assign(b=lambda d: d["b"] * factor)
    return np.array([estimator(FORMULA, data, eps=1, seed=s).params for s in range(20)])


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1e6, 1e-6])
@pytest.mark.parametrize("estimator", [dpstats.adassp, dpstats.boosted_adassp])
def test_units_do_not_matter_in_law(estimator, factor):
    truth = least_squares(frame(5000, sigma=1.0))
    errors = [params(estimator, 1.0), params(estimator, factor).copy()]
    errors[1][:, 2] *= factor
    size = [np.abs(e - truth)[:, 1:].mean() for e in errors]
    assert 0.5 < size[0] / size[1] < 2


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [dpstats.adassp, dpstats.boosted_adassp])
def test_intervals_cover(estimator):
    """The number covered is binomial at best; false alarm 1e-6."""
    covered = []
    for seed in range(50):
        low, high = estimator(FORMULA, frame(5000, 1.0, seed), eps=1, seed=seed).conf_int().to_numpy().T
        covered.append((low <= [2, 1, 2, 3]) & (high >= [2, 1, 2, 3]))
    assert np.sum(covered) > stats.binom.ppf(1e-6, 200, 0.92)


@pytest.mark.parametrize("estimator", [dpstats.adassp, dpstats.boosted_adassp])
def test_long_rows_count_for_less_and_do_not_bend_the_slope(estimator):
    """A Pareto covariate of infinite variance: shortened rows, or columns moved into limits, would be off."""
    g = np.random.default_rng(1)
    data = pd.DataFrame({"a": g.pareto(1.5, 40_000), "b": g.standard_normal(40_000)})
    data["y"] = 1 + 2 * data["a"] - data["b"] + g.standard_normal(40_000)
    fit = estimator("y ~ a + b", data, eps=50, seed=1)
    assert (np.abs(fit.params - [1, 2, -1]) < 5 * fit.bse).all() and (fit.bse[1:] < 0.02).all()


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [dpstats.adassp, dpstats.boosted_adassp])
def test_intervals_cover_where_errors_grow_with_the_covariate(estimator):
    """Robust intervals do and others do not; binomial at best, false alarm 1e-6."""
    covered = {"robust": 0, "nonrobust": 0}
    for seed in range(50):
        g = np.random.default_rng(seed)
        x = g.standard_normal(5000)
        data = pd.DataFrame({"x": x, "y": 2 + x + np.abs(x) * g.standard_normal(5000)})
        for kind in covered:
            low, high = estimator("y ~ x", data, eps=3, seed=seed, cov_type=kind).conf_int().loc["x"]
            covered[kind] += low <= 1 <= high
    assert covered["robust"] > stats.binom.ppf(1e-6, 50, 0.92)
    assert covered["nonrobust"] < covered["robust"]


def test_sums_of_units_have_no_first_rounds():
    """They take the Gram matrix for that of single rows, and led estimates astray where units are few."""
    data = frame(3_000).assign(id=lambda d: np.arange(len(d)) // 3)
    steps = [{s.step for s in dpstats.adassp(FORMULA, data, eps=2, seed=1, **u).guarantee.spends}
             for u in ({}, {"unit": "id"})]  # fmt: skip
    assert ["gradients, first rounds" in step for step in steps] == [True, False]
