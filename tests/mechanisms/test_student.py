"""Student noise for smooth sensitivity: its privacy loss, its sampler, its intervals. False-alarm rate of
each test: 1e-6."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, t

from dpstats.errors import ParameterError
from dpstats.mechanisms import calibration
from dpstats.mechanisms import student as module
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.student import (
    StudentNoise,
    _largest_product,
    largest_log_ratio,
    student,
    student_pair,
)

BUDGETS = [0.1, 1.0, 3.0, 12.0]


def loss(alpha, beta):
    """Largest log-ratio on a grid of places, scales and shifts, densities from SciPy."""
    places = np.concatenate([np.linspace(-30, 30, 3001), -np.geomspace(30, 1e9, 400)])
    here = t.logpdf(places, 2)
    worst = -math.inf
    for lam in np.linspace(-beta, beta, 15):
        for share in (0.0, 0.3, 0.7, 1.0):
            shift = share * alpha * min(1.0, math.exp(lam))
            worst = max(worst, float(np.max(here - t.logpdf(places, 2, shift, math.exp(lam)))))
    return worst


@pytest.mark.parametrize("eps", BUDGETS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_pairs_spend_the_budget_and_no_more(eps, share):
    alpha, beta = student_pair(share, eps)
    assert 0.999 * eps < loss(alpha, beta) <= eps * (1 + 1e-12)
    assert largest_log_ratio(alpha, beta) <= eps


@pytest.mark.parametrize("eps", BUDGETS)
@pytest.mark.slow
def test_constants_20_percent_too_large_are_caught(eps):
    noise = StudentNoise.of(eps)
    alpha, beta = noise.alpha, noise.beta
    assert loss(alpha, beta) <= eps
    assert loss(1.2 * alpha, beta) > 1.02 * eps
    assert loss(alpha, 1.2 * beta) > 1.02 * eps


def test_pairs_of_the_docs():
    noise = StudentNoise.of(1.0)
    assert (noise.alpha, noise.beta) == pytest.approx((0.70, 0.36), abs=0.006)
    assert calibration.calibrate(1.0, 1e-6) == pytest.approx((0.53, 0.05), abs=0.005)


def test_laplace_noise_with_these_constants_is_caught():
    """Their dilation needs the polynomial tail: that of Laplace noise is without bound."""
    alpha, beta = student_pair(0.6, 1.0)
    assert calibration.hockey_stick(1.0, -beta, alpha * math.exp(-beta)) > 1e-3


@pytest.mark.parametrize("eps", [1e-3, 50.0, 5000.0])
def test_extreme_budgets(eps):
    noise = StudentNoise.of(eps)
    assert 0 < noise.alpha < math.inf and 0 < noise.beta < eps
    assert largest_log_ratio(noise.alpha, noise.beta) <= eps


@pytest.mark.parametrize("rows", [0, 60, 10_000])
def test_tuned_pairs_are_valid(rows):
    noise = StudentNoise.of(1.0, rows)
    assert largest_log_ratio(noise.alpha, noise.beta) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("rng", [Randomness(), Randomness(1)])
def test_sampler_has_the_law(rng):
    draws = [float(student(rng)) for _ in range(5000)]
    assert kstest(draws, t(2).cdf).pvalue > 1e-6


def test_sampler_is_exact_where_doubles_are_not():
    class Fixed:
        def exact_uniform(self, size, width):
            return [Fraction(1, 2**200)]

    # -sqrt(2^199) to a relative 2^-199
    assert abs(student(Fixed()) ** 2 / Fraction(2) ** 199 - 1) < Fraction(1, 2**190)
    assert student(Fixed()) < 0


@pytest.mark.slow
def test_release_has_the_scale_of_the_bound():
    noise, rng = StudentNoise.of(1.0), Randomness(2)
    draws = np.array([noise.release([2.0], 0.3, rng)[0][0] for _ in range(3000)])
    assert kstest((draws - 2) * noise.alpha / 0.3, t(2).cdf).pvalue > 1e-6


def test_budgets_of_which_rounding_is_a_part_are_refused():
    """At 1e-6 the loss of the pair is 4e-7 more than it says, at 1e-12 a third."""
    for rows in (None, 1000):
        with pytest.raises(ParameterError, match="eps must be at least 0.0001"):
            StudentNoise.of(0.9e-4, rows)
    least = StudentNoise.of(1e-4)
    assert largest_log_ratio(least.alpha, least.beta) <= 1e-4 and least.beta > 0


@pytest.mark.parametrize(("values", "bound"), [([1e308], 1e300), ([0.0], 0.0), ([-1e-300], 5e-324)])
def test_releases_of_any_size_are_finite(values, bound):
    for seed in range(20):
        assert np.isfinite(StudentNoise.of(1e-4).release(values, bound, Randomness(seed))[0]).all()


@pytest.mark.slow
def test_digits_do_not_tell_the_noise_scale():
    """The last four bits of what is released are uniform, as those of a rounded real are. False-alarm rate
    1e-6.

    Noise on a lattice of its own scale is caught: its digits tell where the lattice lies.
    """
    noise, rng = StudentNoise.of(1.0), Randomness(7)
    bound = 2.0**-7 * noise.alpha

    def pvalue(release):
        values = [v for v in (release() for _ in range(4000)) if 0.5 <= v < 1]
        return chisquare(np.bincount([int(v * 2**53) % 16 for v in values], minlength=16)).pvalue

    assert pvalue(lambda: noise.release([0.75], bound, rng)[0][0]) > 1e-6
    assert pvalue(lambda: 0.75 + 2.0**-7 * round(2.0**40 * float(student(rng))) / 2.0**40) < 1e-6


def test_the_scale_has_room_for_the_rounding_of_the_statistic(monkeypatch):
    monkeypatch.setattr(module, "student", lambda rng: Fraction(1))
    noise = StudentNoise.of(1.0)
    ((value,), _) = noise.release([3.0], 0.5, Randomness(0))
    assert (value - 3.0) * noise.alpha >= 0.5 + 2.0**-44 * (0.5 + 3.0)


def test_pairs_have_room_for_the_rounding_of_the_bound():
    assert StudentNoise.of(1.0).beta <= _largest_product(1.0)[1] - 2.0**-43


def test_release_without_spread_is_exact_to_rounding():
    noise = StudentNoise.of(1.0)
    assert noise.release([1234.5], 0.0, Randomness(4))[0][0] == pytest.approx(1234.5, rel=1e-7)
