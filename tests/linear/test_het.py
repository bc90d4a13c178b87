"""The test of constant error variance: its level, its power, and where it says nothing."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats
from dpstats.linear.het import het_test

N, Q = 20_000, 4


def symmetric(g, q, noise):
    matrix = g.standard_normal((q, q)) * noise / 2
    return matrix + matrix.T


def pvalues(errors, draws, outer_noise=0.03, gram_noise=0.03, scale=1.0):
    """P-values of releases made of rows with normal covariates; `errors` makes residuals of them."""
    g, out = np.random.default_rng(0), []
    for _ in range(draws):
        V = np.column_stack([np.ones(N), g.standard_normal((N, Q - 1))])
        r = errors(g, V)
        outer = (V * (r**2)[:, None]).T @ V / N + symmetric(g, Q, outer_noise)
        gram = V.T @ V / N + symmetric(g, Q, gram_noise)
        out.append(het_test(outer * scale, outer_noise * scale, gram, gram_noise, N, 3.0).pvalue)
    return np.array(out)


@pytest.mark.slow
def test_level_under_constant_variance():
    """At most 5 % of 400 below .05: false alarm 1e-6. (It is conservative: the misfit that it allows for.)"""
    rejected = np.sum(pvalues(lambda g, V: g.standard_normal(N), 400) < 0.05)
    assert rejected <= stats.binom.isf(1e-6, 400, 0.05)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_of_the_response_do_not_matter(scale):
    def growing(g, V):
        return (1 + np.abs(V[:, 1])) * g.standard_normal(N)

    plain, scaled = (pvalues(growing, 3, 0.2, 0.2, scale=s) for s in (1.0, scale))
    assert 0 < plain.min() < 0.5
    np.testing.assert_allclose(scaled, plain, rtol=1e-9)


def test_power_against_a_variance_that_depends_on_a_covariate():
    """Standard deviations |x|, with three times as much variance along x."""
    assert np.all(pvalues(lambda g, V: np.abs(V[:, 1]) * g.standard_normal(N), 20) < 0.01)


@pytest.mark.slow
def test_noise_alone_is_no_evidence():
    """Where the noise is as large as the matrices there is no power, and the level holds."""
    rejected = pvalues(lambda g, V: g.standard_normal(N), 400, outer_noise=1.0, gram_noise=0.3) < 0.05
    assert np.sum(rejected) <= stats.binom.isf(1e-6, 400, 0.05)


def test_without_noise_or_misfit_the_statistic_is_0():
    gram = np.array([[1.0, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 2.0]])
    test = het_test(3 * gram, 0.0, gram, 0.0, 1e4, 3.0)
    assert test.statistic == pytest.approx(0, abs=1e-20) and test.df == 5 and test.pvalue == 1


def test_one_column_has_no_test():
    test = het_test(np.eye(1), 0.1, np.eye(1), 0.1, 1e4, 3.0)
    assert test.df == 0 and test.pvalue == 1


def test_a_difference_of_a_tenth_says_nothing():
    """Both limit rows far out; of a column with few rows the entries are small in both."""
    noise, gram = 0.01, np.diag([1.0, 1.0, 0.05])
    for outer in (np.diag([1.0, 1.15, 0.05]), np.diag([1.0, 1.0, 0.12]), gram + 0.09 * (1 - np.eye(3))):
        assert het_test(outer, noise, gram, noise, 1e5, 3.0).pvalue > 0.99
    assert het_test(np.diag([1.0, 1.5, 0.05]), noise, gram, noise, 1e5, 3.0).pvalue < 0.01


def frame(seed, power, n=20_000):
    g = np.random.default_rng(seed)
    data = pd.DataFrame(g.standard_normal((n, 2)), columns=["a", "b"])
    return data.assign(y=1 + data["a"] - data["b"] + data["a"].abs() ** power * g.standard_normal(n))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ols", "huber"])
def test_fits_reject_what_they_should(name):
    """40 fits with constant variance, 16 with standard deviations ``|x|``: at most 5 % of those, and most of
    these. False alarm 1e-6 each."""
    estimator = getattr(dpstats, name)
    constant, varying = (
        [estimator("y ~ a + b", frame(s, power), eps=1, seed=s).het_test().pvalue < 0.05 for s in range(runs)]
        for power, runs in ((0, 40), (1, 16))
    )
    assert np.sum(constant) <= stats.binom.isf(1e-6, 40, 0.05)
    assert np.sum(varying) >= stats.binom.ppf(1e-6, 16, 0.9)
