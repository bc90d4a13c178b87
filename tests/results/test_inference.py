import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from dpstats.errors import ParameterError
from dpstats.results import inference


@pytest.fixture(scope="module")
def ols():
    """A classical fit with correlated columns of very different scales."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)) * [1, 1e4, 1e-5, 10]
    return sm.OLS(X @ [1, 1e-4, 0, 0.1] + rng.normal(size=60), sm.add_constant(X)).fit()


def test_wald_statistics_intervals_and_pvalues_are_those_of_statsmodels(ols):
    se = inference.standard_errors(ols.cov_params())
    t = inference.wald_statistics(ols.params, se)
    np.testing.assert_allclose(se, ols.bse, rtol=1e-12)
    np.testing.assert_allclose(t, ols.tvalues, rtol=1e-12)
    np.testing.assert_allclose(inference.wald_pvalues(t, ols.df_resid), ols.pvalues, rtol=1e-9)
    for alpha in (0.05, 0.001):
        got = inference.wald_interval(ols.params, se, alpha, ols.df_resid)
        np.testing.assert_allclose(got, ols.conf_int(alpha), rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-10, 1e-200])
@pytest.mark.parametrize("df", [None, 1, 3.5, 200, math.inf])
def test_critical_values_are_quantiles(alpha, df):
    law = stats.norm() if df in (None, math.inf) else stats.t(df)
    assert inference.critical_value(alpha, df) == pytest.approx(law.isf(alpha / 2), rel=1e-9)


def test_pvalues_keep_their_precision_in_the_tail():
    z = np.array([0.0, 1e-3, 5.0, 37.0, 38.4])
    np.testing.assert_allclose(inference.wald_pvalues(-z), 2 * stats.norm.sf(z), rtol=1e-12)
    for df in (1, 4, 55.5):
        t = np.array([0.0, 1e-3, 5.0, 1e3, 1e8])
        np.testing.assert_allclose(inference.wald_pvalues(t, df), 2 * stats.t.sf(t, df), rtol=1e-10)
    assert inference.wald_pvalues([math.inf, -math.inf]).tolist() == [0.0, 0.0]
    assert inference.wald_pvalues([math.inf], df=3).tolist() == [0.0]


@pytest.mark.filterwarnings("error")
def test_missing_and_degenerate_standard_errors_give_nan_without_a_warning():
    assert np.isnan(inference.standard_errors([[-1e-9, 0], [0, math.nan]])).all()
    t = inference.wald_statistics([1.0, 0.0, math.nan, 1e308, 2.0], [0.0, 0.0, 1.0, 1e-308, math.nan])
    np.testing.assert_array_equal(t, [math.inf, math.nan, math.nan, math.inf, math.nan])
    np.testing.assert_array_equal(inference.wald_pvalues(t), [0, math.nan, math.nan, 0, math.nan])
    ends = inference.wald_interval([1.0, 2.0, 1e308, 3.0], [math.nan, 0.0, 1e308, math.inf])
    np.testing.assert_array_equal(ends[:2], [[math.nan, math.nan], [2, 2]])
    np.testing.assert_array_equal(ends[2:, 1], [math.inf, math.inf])
    assert np.isnan(inference.joint_test([1e200, 1.0], np.diag([1e400, 1.0]))[0])


@pytest.mark.parametrize("bad", [0, 1, -0.1, math.nan, "0.05", True])
def test_alpha_is_checked(bad):
    with pytest.raises(ParameterError, match="alpha must be"):
        inference.wald_interval([1.0], [1.0], bad)


@pytest.mark.parametrize("bad", [0, -1, math.nan, "3"])
def test_degrees_of_freedom_are_checked(bad):
    with pytest.raises(ParameterError, match="df must be"):
        inference.wald_pvalues([1.0], bad)


# -- joint tests -------------------------------------------------------------------------------------


def test_joint_test_is_that_of_statsmodels(ols):
    R = np.array([[0, 1, 0, 0, 0], [0, 0, 0, 1, -2.0], [1, 0, 0, 0, 0]])
    # near enough to the estimates for p-values that are no rounding error
    r = R @ ols.params + np.linalg.cholesky(R @ ols.cov_params() @ R.T) @ [1.2, -1.0, 1.0]
    theirs = ols.f_test((R, r))
    F, q, p = inference.joint_test(ols.params, ols.cov_params(), R, r, ols.df_resid)
    assert (F, q) == (pytest.approx(float(theirs.fvalue), rel=1e-6), 3)
    assert p == pytest.approx(float(theirs.pvalue), rel=1e-6) and p > 1e-3
    theirs = ols.wald_test((R, r), use_f=False, scalar=True)
    W, q, p = inference.joint_test(ols.params, ols.cov_params(), R, r)
    assert (W, q) == (pytest.approx(float(theirs.statistic), rel=1e-6), 3)
    assert p == pytest.approx(float(theirs.pvalue), rel=1e-6)


def test_joint_test_of_one_coefficient_is_its_wald_test(ols):
    F, q, p = inference.joint_test(ols.params, ols.cov_params(), [[0, 0, 1, 0, 0]], df=ols.df_resid)
    assert q == 1 and F == pytest.approx(ols.tvalues[2] ** 2) and p == pytest.approx(ols.pvalues[2])


def test_joint_test_does_not_depend_on_units():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(4, 4))
    theta, cov = rng.normal(size=4), A @ A.T
    unit = np.array([1e-12, 1.0, 1e9, 1e12])
    here = inference.joint_test(theta, cov)
    there = inference.joint_test(theta * unit, cov * unit[:, None] * unit)
    assert here[0] == pytest.approx(there[0], rel=1e-9) and here[1] == there[1] == 4


def test_redundant_constraints_are_counted_once():
    R = [[1, 0], [2, 0], [0, 1], [1, 1]]
    assert inference.joint_test([1.0, 2.0], np.eye(2), R)[:2] == (pytest.approx(5.0), 2)


def test_joint_test_is_nan_where_it_means_nothing():
    nan_elsewhere = np.array([[1, math.nan], [math.nan, math.nan]])
    assert inference.joint_test([2.0, math.nan], nan_elsewhere, [[1, 0]])[0] == pytest.approx(4)
    for estimates, cov in (
        ([2.0, 1.0], nan_elsewhere),
        ([2.0, math.nan], np.eye(2)),
        ([1.0, 1.0], [[1, 2], [2, 1]]),  # indefinite
        ([1.0, 1.0], np.zeros((2, 2))),
    ):
        statistic, _, p = inference.joint_test(estimates, cov)
        assert math.isnan(statistic) and math.isnan(p)


# -- intervals for one confidence only --------------------------------------------------------------------


def test_fixed_interval_answers_for_its_own_confidence_only():
    interval = inference.FixedInterval(np.array([1.0, 2.0]), [3, 4], 0.1)
    assert interval.conf_int(0.1).tolist() == [[1, 3], [2, 4]]
    assert interval == inference.FixedInterval((1.0, 2.0), (3.0, 4.0), 0.1)
    with pytest.raises(ParameterError, match="alpha must be 0.1, that of"):
        interval.conf_int(0.05)
    with pytest.raises(ParameterError, match="alpha must be"):
        inference.FixedInterval((1.0,), (2.0,), 95)


def test_contrasts_are_those_of_statsmodels(ols):
    R = np.array([[0, 1, 0, 0, -3.0], [1, 1, 1, 1, 1]])
    effect, se = inference.contrasts(ols.params, ols.cov_params(), R)
    theirs = ols.t_test(R)
    np.testing.assert_allclose(effect, theirs.effect)
    np.testing.assert_allclose(se, np.ravel(theirs.sd))
