"""What is known of the error of a deep point among subset fits: each part against its value."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpstats.linear import deep_fit as module
from dpstats.linear.deep_fit import DeepFit, axes_of, covariance, skewness_bias, unseen_skewness
from dpstats.linear.goodness import Goodness
from dpstats.linear.subsets import fit_subsets, subset_moments
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.whiten import Affine

NONE = np.zeros((2, 2))


def prepared_of(gram=(1.0, 1.0), noise=0.0, weak=NONE, hidden=NONE, count=5000.0, W=None, made=None):
    whitening = SimpleNamespace(
        W=np.eye(2) if W is None else W, gram=np.diag(gram), spread=np.full(2, math.sqrt(noise)), weak=weak,
        hidden=hidden, theta=np.zeros(2), theta_variance=np.array([0.001, 0.002]), sigma=0.5,
    )  # fmt: skip
    response = SimpleNamespace(scale=np.array([2.0]))
    return SimpleNamespace(
        whitening=whitening, count=count, rows=count, response=response, made=made,
        affine=SimpleNamespace(columns=np.arange(2), loc=np.zeros(2), scale=np.ones(2)),
    )  # fmt: skip


def fit_of(moved=(0.1, 0.4), errors=(0.2, 0.3), pull=None):
    goodness = None if pull is None else Goodness(1.0, 2.0, np.array(pull), 0.001, (0.0, 0.0))
    return DeepFit(None, 5000.0, 100, np.eye(2), np.array(moved), np.log(errors), goodness)


@pytest.fixture(autouse=True)
def constants(monkeypatch):
    monkeypatch.setattr(
        module, "pivot_variance", lambda m, k, eps: 0.04 if (m, k, eps) == (100, 4, 0.9) else np.nan
    )
    monkeypatch.setattr(module, "_true_square", lambda rows, q: 1.5 if (rows, q) == (12, 2) else np.nan)


def test_sampling_and_privacy_noise_are_in_units_of_a_subset():
    cov, hidden = covariance(fit_of(), prepared_of(), 0.9)
    np.testing.assert_allclose(cov, np.diag([0.04 * 1.5 * 0.2**2, 0.04 * 1.5 * 0.3**2]), rtol=1e-12)
    assert (hidden == 0).all()


@pytest.mark.parametrize("why", ["weak", "hidden"])
def test_the_ridge_leaves_a_known_share_of_the_way(why):
    prepared = prepared_of(gram=(1.0, 0.5), noise=0.01, **{why: np.diag([0.0, 50_000.0])})
    cov, hidden = covariance(fit_of(), prepared, 0.9)
    ridge, least = 0.02 * 50_000 / 5000, 0.5 - module.BELOW * 0.01
    left, variance = ridge / (least + ridge), 0.04 * 1.5 * 0.3**2
    ways = [1 / math.sqrt(least), (0.4 + 2 * math.sqrt(variance)) / (1 - left)]
    assert cov[1, 1] - variance == pytest.approx((left * min(ways)) ** 2, rel=1e-9)
    assert (hidden == 0).all()


def test_a_direction_that_may_be_none_is_hidden_if_a_ridge_holds_it():
    weak = np.diag([0.0, 5000.0])
    for gram, hides in ((0.05, True), (0.07, False)):
        prepared = prepared_of(gram=(1.0, gram), noise=0.01, weak=weak)
        assert (covariance(fit_of(), prepared, 0.9)[1][1, 1] > 0) == hides
    assert (covariance(fit_of(), prepared_of(gram=(1.0, 0.05), noise=0.01), 0.9)[1] == 0).all()
    _, hidden = covariance(fit_of(), prepared_of(gram=(1.0, 0.05), noise=0.01, weak=weak), 0.9)
    np.testing.assert_allclose(hidden, np.diag([0, 1 / 0.03]))


def test_a_direction_of_several_axes_that_may_be_none_is_hidden():
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    for gram, hides in ((0.05, 1), (0.07, 0)):
        prepared = prepared_of(noise=0.01, weak=turn @ np.diag([0.0, 5000.0]) @ turn.T)
        prepared.whitening.gram = turn @ np.diag([1.0, gram]) @ turn.T
        hidden = covariance(fit_of(), prepared, 0.9)[1]
        np.testing.assert_allclose(hidden, hides / 0.03 * np.outer([0.6, 0.8], [0.6, 0.8]), atol=1e-12)


def test_what_only_a_level_has_is_hidden_without_a_ridge():
    """Subsets without a row of it stay where they are."""
    prepared = prepared_of(gram=(1.0, 0.05), noise=0.01)
    prepared.made = SimpleNamespace(alone=lambda affine: [(0.1, np.eye(2)[:, 1:], None)])
    np.testing.assert_allclose(covariance(fit_of(), prepared, 0.9)[1], np.diag([0, 1 / 0.03]))


@pytest.mark.parametrize("degrees, near", [(2, True), (18, True), (19, False)])
def test_of_a_direction_that_only_a_level_has_noise_turns_nothing(degrees, near):
    """It is known from the formula, unless what is hidden is another one."""
    known, found = (np.array([math.cos(a), math.sin(a)]) for a in np.radians([50, 50 + degrees]))
    prepared = prepared_of(noise=0.01, weak=np.diag([5000.0, 5000.0]))
    prepared.made = SimpleNamespace(alone=lambda affine: [(0.1, np.outer(known, [2.0, -1.0, 0.0]), None)])
    prepared.whitening.gram = np.eye(2) - 0.99 * np.outer(found, found)
    hidden = covariance(fit_of(), prepared, 0.9)[1]
    expected = known if near else found
    np.testing.assert_allclose(hidden, np.outer(expected, expected) / 0.03, atol=1e-12)


def test_a_small_ridge_holds_what_may_be_none():
    """Less than a hundredth of the way where the mean square is as released, and all where it is 0."""
    _, hidden = covariance(
        fit_of(), prepared_of(gram=(1.0, 0.03), noise=0.01, weak=np.diag([0.0, 50.0])), 0.9
    )
    assert hidden[1, 1] > 0


def test_a_small_mean_square_may_be_none_where_its_noise_is_a_quarter_of_it():
    """Of rare levels those are seen whose noise is up: their intervals held in 85 %."""
    weak = np.diag([0.0, 1.0])
    for gram, hides in ((0.10, True), (0.12, False), (0.6, False)):
        prepared = prepared_of(gram=(3.0, gram), noise=0.025 if gram < 0.5 else 0.17, weak=weak)
        assert (covariance(fit_of(), prepared, 0.9)[1][1, 1] > 0) == hides, gram


def test_an_axis_along_which_most_subsets_have_no_rows_is_hidden():
    """Residuals of 1 and 50 rows a subset make an error of 0.14: one below a fiftieth is not believed."""
    turned = np.array([[0.6, -0.8], [0.8, 0.6]])
    for error, hides in ((0.0022, True), (0.0024, False)):
        seen = covariance(fit_of(errors=(0.2, error)), prepared_of(), 0.9)[1]
        np.testing.assert_allclose(seen, np.diag([0, hides / 0.03]))
    fit = replace(fit_of(errors=(0.2, 0.002)), axes=turned)
    np.testing.assert_allclose(
        covariance(fit, prepared_of(), 0.9)[1], np.outer([-0.8, 0.6], [-0.8, 0.6]) / 0.03
    )
    # where all fits agree, as on a response without errors, they are what they seem
    assert (covariance(fit_of(errors=(2e-9, 1e-9)), prepared_of(), 0.9)[1] == 0).all()


def test_skewness_of_the_greatest_pull_goes_into_all_coefficients():
    back = np.array([[1.0, 0.0], [1.0, -2.0]])
    got = skewness_bias(back, fit_of(pull=[0.05, -0.1]), prepared_of(), 0.9)
    chance = 0.001**2 + 1 / 20_000 + 0.1 * 0.04 / 50
    pull = math.sqrt(0.01 - (4 + 2 * math.log(2)) * chance)
    bias = 20 * math.sqrt(2 * math.pi / 50) * pull * math.sqrt(1.5) * np.array([0.2, 0.3])
    np.testing.assert_allclose(got, [bias[0] ** 2, (bias[0] + 2 * bias[1]) ** 2], rtol=1e-9)
    assert (skewness_bias(back, fit_of(pull=[0.01, -0.02]), prepared_of(), 0.9) == 0).all()
    assert (skewness_bias(back, fit_of(), prepared_of(), 0.9) == 0).all()


def test_skewness_that_noise_hides_goes_into_each_axis_by_itself():
    """The variance of a pull in place of its square, and not the greatest of all."""
    chance = 0.001**2 + 1 / 20_000 + 0.1 * 0.04 / 50
    unseen = 400 * 2 * math.pi / 50 * chance
    assert unseen_skewness(fit_of(pull=[0.05, -0.1]), prepared_of(), 0.9) == pytest.approx(unseen, rel=1e-12)
    assert unseen_skewness(fit_of(), prepared_of(), 0.9) == 0
    cov, hidden = covariance(fit_of(pull=[0.0, 0.0]), prepared_of(), 0.9)
    np.testing.assert_allclose(cov, (0.04 + unseen) * 1.5 * np.diag([0.2**2, 0.3**2]), rtol=1e-12)
    assert (hidden == 0).all()


@pytest.mark.parametrize(("noise", "hides"), [(0.0824, False), (0.0842, True)])
def test_nothing_is_determined_where_errors_would_be_three_times_noise_for_it(noise, hides):
    """``400 2 pi / 50`` times a variance of 0.007 is nine times 0.04."""
    fit = fit_of(pull=[0.0, 0.0])
    fit = replace(fit, goodness=replace(fit.goodness, noise=noise))
    hidden = covariance(fit, prepared_of(), 0.9)[1]
    np.testing.assert_allclose(hidden, np.eye(2) * hides / 0.03)


def test_axes_are_those_of_the_columns_unless_one_is_hidden():
    rotation = np.array([[0.6, -0.8], [0.8, 0.6]])
    scales = np.array([[2.0, 0.3], [0.3, 1.0]])
    whitening = prepared_of(W=scales @ rotation).whitening
    np.testing.assert_allclose(whitening.W @ axes_of(whitening), scales, atol=1e-12)
    hidden = prepared_of(gram=(1.0, 0.2), W=scales @ rotation).whitening
    np.testing.assert_array_equal(axes_of(hidden), np.eye(2))


@pytest.mark.parametrize("size", [16, 48])
def test_factor_for_small_subsets_makes_the_jackknife_that_of_the_fits(monkeypatch, size):
    """Median squared jackknife error times the factor is the variance of normal fits, within 10 %."""
    monkeypatch.undo()
    module._true_square.cache_clear()
    generator = np.random.default_rng(7)
    m = 4000
    X = np.column_stack([np.ones(m * size), generator.standard_normal((m * size, 2))])
    Y = generator.standard_normal((m * size, 1))
    affine = Affine(np.array([1, 2]), np.zeros(2), np.ones(2))
    shift, moments = subset_moments([(X, Y)], affine, m, Randomness(8), 4)
    got = fit_subsets(shift, moments, np.eye(3), True, np.zeros((3, 3)), np.zeros(3))
    scale = 1.4826 * np.median(np.abs(got.coefficients), axis=0)
    known = module._true_square(size // 4, 3) * np.exp(2 * np.median(got.log_errors, axis=0))
    np.testing.assert_allclose(known, scale**2, rtol=0.2 if size < 20 else 0.1)
