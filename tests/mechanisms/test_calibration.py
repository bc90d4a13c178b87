"""Which constants of Laplace noise under smooth sensitivity are private. False-alarm rate of each simulation
test: 1e-6."""

import math

import numpy as np
import pytest
from constants import nissim
from scipy.integrate import quad
from scipy.stats import norm

from dpstats.mechanisms import calibration
from dpstats.mechanisms.smooth_sensitivity import tuned

Z = norm.isf(1e-6)
BUDGETS = [(0.1, 1e-6), (0.5, 1e-6), (1.0, 1e-9), (2.0, 1e-6), (4.0, 1e-4), (12.0, 1e-6), (700.0, 1e-6)]


@pytest.mark.parametrize("eps", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("lam", [-0.5, -0.1, 0.0, 0.2])
@pytest.mark.parametrize("shift", [-1.2, 0.0, 0.4, 3.0])
def test_hockey_stick_is_the_integral(eps, lam, shift):
    def gap(x):
        p = 0.5 * math.exp(-abs(x))
        q = 0.5 * math.exp(-lam - abs(x - shift) * math.exp(-lam))
        return max(p - math.exp(eps) * q, 0.0)

    points = sorted({0.0, shift})
    ends = [-60.0, *points, 60.0]
    integral = sum(quad(gap, a, b, limit=400)[0] for a, b in zip(ends, ends[1:], strict=False))
    assert calibration.hockey_stick(eps, lam, shift) == pytest.approx(integral, abs=2e-8)


def worst(eps, alpha, beta):
    """Largest divergence over a grid of all allowed changes of scale and place."""
    lams = np.append(np.linspace(-beta, beta, 41), [-beta * (1 - 1e-9)])
    return max(
        calibration.hockey_stick(eps, lam, share * alpha * min(1.0, math.exp(lam)))
        for lam in lams
        for share in np.linspace(-1, 1, 21)
    )


@pytest.mark.parametrize(("eps", "delta"), BUDGETS)
def test_calibration_in_one_dimension_is_exact(eps, delta):
    alpha, beta = calibration.calibrate(eps, delta)
    assert 0 < alpha < eps
    assert delta * (1 - 1e-5) < worst(eps, alpha, beta) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(("eps", "delta"), BUDGETS)
def test_a_beta_20_percent_too_large_is_caught(eps, delta):
    alpha, beta = calibration.calibrate(eps, delta)
    assert worst(eps, alpha, 1.2 * beta) > 1.5 * delta


def test_an_alpha_above_eps_is_caught():
    _, beta = calibration.calibrate(1.0, 1e-6)
    assert worst(1.0, 1.1, beta) > 1e-2


@pytest.mark.parametrize("eps", [0.5, 1.0, 2.0, 4.0])
def test_gain_over_the_constants_of_nissim_et_al(eps):
    gain = math.prod(calibration.calibrate(eps, 1e-6)) / math.prod(nissim(eps, 1e-6))
    assert gain == pytest.approx({0.5: 1.67, 1.0: 1.54, 2.0: 1.42, 4.0: 1.29}[eps], abs=0.01)


def test_published_constants_do_not_hold_for_a_large_eps():
    """They were derived for eps < 1; the exact calibration is valid everywhere."""
    assert worst(50.0, *nissim(50.0, 1e-6)) > 100e-6
    assert worst(50.0, *calibration.calibrate(50.0, 1e-6)) <= 1e-6 * (1 + 1e-9)
    assert worst(0.5, *nissim(0.5, 1e-6)) < 1e-6


def divergence_by_simulation(eps, d, scale, shift, draws, seed):
    """Mean and standard error of the divergence of d Laplace variables from those shifted and scaled."""
    z = np.random.default_rng(seed).laplace(size=(draws, d))
    q = np.abs(z - shift / d).sum(axis=1) / scale + d * math.log(scale)
    gap = np.maximum(1 - np.exp(eps + np.abs(z).sum(axis=1) - q), 0.0)
    return gap.mean(), gap.std() / math.sqrt(draws)


@pytest.mark.parametrize(("eps", "delta"), [(1.0, 0.01), (0.3, 0.05)])
@pytest.mark.slow
def test_calibration_in_two_dimensions_by_simulation(eps, delta):
    alpha, beta = calibration.calibrate(eps, delta, 2)
    for lam in (-beta, beta):
        for share in (0.0, 1.0):
            mean, se = divergence_by_simulation(
                eps, 2, math.exp(lam), share * alpha * min(1, math.exp(lam)), 400_000, 1
            )
            assert mean <= delta + Z * se


def test_the_dilation_is_exact_and_a_larger_one_is_caught():
    eps, beta = 0.5, 0.2
    exact = calibration.dilation_divergence(eps, beta, 2)
    mean, se = divergence_by_simulation(eps, 2, math.exp(-beta), 0.0, 400_000, 2)
    assert abs(mean - exact) < Z * se
    mean, se = divergence_by_simulation(eps, 2, math.exp(-1.2 * beta), 0.0, 400_000, 3)
    assert mean - exact > Z * se


@pytest.mark.parametrize("d", [2, 3, 10])
def test_calibration_in_more_dimensions(d):
    alpha, beta = calibration.calibrate(1.0, 1e-6, d)
    assert d * beta <= 1.0 - alpha
    for share in (0.2, 0.5, 1.0):
        assert calibration.dilation_divergence(1.0 - alpha, share * beta, d) <= 1e-6
    assert calibration.dilation_divergence(1.0 - alpha, 1.2 * beta, d) > 1.5e-6
    assert math.prod(calibration.calibrate(1.0, 1e-6, 1)) > alpha * beta


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("eps", [701.0, 2e3, 1e12])
def test_a_budget_whose_exponential_is_no_double_counts_as_the_largest(eps, d):
    """The constants of a smaller budget are valid for a larger one."""
    assert calibration.calibrate(eps, 1e-6, d) == calibration.calibrate(700.0, 1e-6, d)
    alpha, beta = tuned(eps, 1e-6, d, 500, 1 / (d + 1))
    assert (alpha, beta) == tuned(700.0, 1e-6, d, 500, 1 / (d + 1))
    left = 700.0 - alpha
    found = calibration.dilation_divergence(left, beta, d) if d > 1 else worst(700.0, alpha, beta)
    assert d * beta <= left and found <= 1e-6 * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 1, 60, 500, 10**5])
@pytest.mark.parametrize("eps", [0.1, 1.0, 8.0])
def test_tuned_pairs_are_valid(rows, eps):
    alpha, beta = tuned(eps, 1e-6, 1, rows, 0.5)
    assert 0 < alpha < eps and worst(eps, alpha, beta) <= 1e-6 * (1 + 1e-9)
    alpha, beta = tuned(eps, 1e-6, 3, rows, 0.25)
    assert 3 * beta <= eps - alpha and calibration.dilation_divergence(eps - alpha, beta, 3) <= 1e-6


@pytest.mark.parametrize("d", [2, 3])
def test_of_several_coordinates_the_scale_grows_for_all(d):
    """At the centre the densities differ by the factor ``exp(d beta)``: what is left of eps pays."""
    alpha, beta = calibration.pair(0.3, 1.0, 0.3, d)
    assert 0 < d * beta <= (1.0 - alpha) * (1 + 1e-9)
