import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from dpstats.errors import ParameterError
from dpstats.privacy import conversions
from dpstats.privacy.conversions import (
    bounded_range_rho,
    gdp_delta,
    gdp_eps,
    gdp_mu,
    gdp_rho,
    gdp_split,
    pure_mu,
    pure_rho,
    to_substitution,
    zcdp_eps,
    zcdp_rho,
)

EPS = st.floats(1e-6, 50)
DELTA = st.floats(-300, -0.05).map(lambda e: 10.0**e)
MU = st.floats(-6, 3).map(lambda e: 10.0**e)


def log_delta_by_integration(mu, eps):
    """``delta = int_0^inf phi(x + s) (1 - exp(-mu s)) ds`` with ``x = eps/mu - mu/2``: no cancellation."""
    x = eps / mu - mu / 2
    peak = max(0.0, -x)  # of exp(-x s - s^2/2)
    width = min(1.0, 1 / max(x, 1e-9))

    def integrand(s):
        return math.exp(-x * s - s * s / 2 - peak * peak / 2) * -math.expm1(-mu * s)

    edges = sorted({0.0, *(max(0.0, peak + k * width) for k in (-40, -8, -2, 0, 2, 8, 40))})
    total = sum(
        quad(integrand, a, b, epsabs=0, epsrel=1e-13)[0] for a, b in zip(edges, edges[1:], strict=False)
    )
    return math.log(total) + peak * peak / 2 - x * x / 2 - math.log(2 * math.pi) / 2


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(MU, st.floats(-8, 36))
def test_gdp_delta_against_integration(mu, x):
    eps = max(0.0, (x + mu / 2) * mu)
    error = math.log(gdp_delta(mu, eps)) - log_delta_by_integration(mu, eps)
    # The allowance is for the reference, whose own x = eps/mu - mu/2 is rounded to half a digit of mu.
    noise = 1e-12 + 4e-16 * (1 + abs(x)) * (eps / mu + mu)
    assert -noise <= error <= 1e-10


@pytest.mark.parametrize("mu", [1e-6, 0.3, 1.0, 4.0, 1e3])
def test_gdp_delta_at_zero_eps_is_the_total_variation(mu):
    assert gdp_delta(mu, 0) == pytest.approx(
        1 - 2 * norm.cdf(-mu / 2) if mu > 0.1 else mu / math.sqrt(2 * math.pi), rel=1e-11
    )


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("eps", [0.01, 0.5, 2.0, 8.0])
def test_gdp_delta_against_dp_accounting(mu, eps):
    reference = GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(eps)
    assert gdp_delta(mu, eps) == pytest.approx(reference, rel=1e-6, abs=1e-14)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.one_of(st.just(0.0), st.floats(-6, 4).map(lambda e: 10.0**e)), DELTA)
def test_gdp_mu_is_safe_and_tight(eps, delta):
    mu = gdp_mu(eps, delta)
    assert gdp_delta(mu, eps) <= delta
    assert gdp_delta(mu * (1 + 1e-9), eps) > delta


@settings(max_examples=150, deadline=None, derandomize=True)
@given(MU, DELTA)
def test_gdp_eps_is_safe_and_tight(mu, delta):
    eps = gdp_eps(mu, delta)
    assert gdp_delta(mu, eps) <= delta
    if eps > 0:
        assert gdp_delta(mu, eps * (1 - 1e-9) - 1e-12 * mu * mu) > delta or eps < 1e-9 * mu * mu


def test_a_wrong_curve_is_caught():
    """The test of the test: the textbook formula cancels where mu is small."""

    def naive(mu, eps):
        return norm.cdf(-eps / mu + mu / 2) - math.exp(eps) * norm.cdf(-eps / mu - mu / 2)

    mu, eps = 1e-6, 2e-5
    truth = math.exp(log_delta_by_integration(mu, eps))
    assert math.isclose(gdp_delta(mu, eps), truth, rel_tol=1e-10)
    assert not math.isclose(naive(mu, eps), truth, rel_tol=1e-8)


@pytest.mark.parametrize(
    "shares", [(1.0,), (0.5, 0.5), (0.1, 0.2, 0.3, 0.4), (1 / 3, 1 / 3, 1 / 3), (0.05,) * 20, (3.0, 0.0, 5.0)]
)
def test_gdp_split(shares):
    mu = 0.236
    parts = gdp_split(mu, shares)
    assert parts == pytest.approx([mu * math.sqrt(s / sum(shares)) for s in shares], rel=1e-12)
    assert sum(Fraction(m) ** 2 for m in parts) <= Fraction(mu) ** 2


@pytest.mark.parametrize("shares", [(), (0.0, 0.0), (1.2, -0.2), (math.inf,), (math.nan, 0.5)])
def test_gdp_split_refuses(shares):
    with pytest.raises(ParameterError, match="non-negative numbers, not all of them 0"):
        gdp_split(1, shares)


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 7.0])
@pytest.mark.parametrize("delta", [1e-200, 1e-6, 0.01])
def test_zcdp_eps_is_the_minimum_over_orders(rho, delta):
    t = np.exp(np.linspace(-12, 25, 400_001))
    by_order = rho * (1 + t) + np.log(t / (1 + t)) + (-math.log(delta) - np.log1p(t)) / t
    eps = zcdp_eps(rho, delta)
    assert max(0, by_order.min()) == pytest.approx(eps, rel=1e-7, abs=1e-12)
    assert zcdp_eps(zcdp_rho(eps, delta), delta) <= eps if eps else True


def test_zcdp_eps_against_dp_accounting():
    orders = 1 + np.exp(np.linspace(-3, 8, 5000))
    for rho, delta in [(0.02, 1e-6), (0.5, 1e-5), (2.0, 1e-9)]:
        reference, _ = compute_epsilon(orders, rho * orders, delta)
        assert zcdp_eps(rho, delta) == pytest.approx(reference, rel=1e-5)
        assert zcdp_eps(rho, delta) < rho + 2 * math.sqrt(rho * math.log(1 / delta))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(EPS, DELTA)
def test_zcdp_rho_is_safe_and_tight(eps, delta):
    rho = zcdp_rho(eps, delta)
    assert zcdp_eps(rho, delta) <= eps < zcdp_eps(rho * (1 + 1e-9) + 1e-300, delta) + 1e-9 * eps


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.floats(1e-3, 20), DELTA)
def test_gdp_is_no_worse_than_its_zcdp(mu, delta):
    assert gdp_eps(mu, delta) <= zcdp_eps(gdp_rho(mu), delta)


def renyi(p, q, order):
    moment = sum(a * math.expm1((order - 1) * math.log(a / b)) for a, b in zip(p, q, strict=True))
    return math.log1p(moment) / (order - 1)


ORDERS = [1 + 1e-5, 1.01, 1.5, 2, 3, 7, 20]


@pytest.mark.parametrize("eps", [0.01, 0.3, 1.0, 3.0, 6.0])
def test_pure_rho_covers_randomised_response_and_no_more(eps):
    p = 1 / (1 + math.exp(-eps))
    worst = max(renyi((p, 1 - p), (1 - p, p), order) / order for order in ORDERS)
    assert worst <= pure_rho(eps) <= eps * eps / 2 * (1 + 1e-12)
    assert worst > 0.999 * pure_rho(eps)  # so that 0.999 of it would be too small


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_bounded_range_is_not_kept_by_a_public_coin_and_zcdp_is(eps):
    """The coin of ``docs/privacy/deepest_regression.md``: it chooses between two bounded-range draws and is
    not shown."""
    for odds in (0.5, 1e-3, 1e-6):
        rare = np.array([odds / (1 + odds), odds * math.exp(-eps) / (1 + odds * math.exp(-eps))])
        p, q = (np.array([1 - a / 2 - b / 2, a / 2, b / 2]) for a, b in (rare, rare[::-1]))
        ratios = np.log(p / q)
        for a in (1.01, 1.5, 2.0, 8.0, 64.0):
            divergence = math.log(float(np.sum(p * np.exp((a - 1) * ratios)))) / (a - 1)
            assert divergence <= a * bounded_range_rho(eps) * (1 + 1e-9)
    assert np.ptp(ratios) > 1.99 * eps


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_bounded_range_rho_covers_every_two_point_pair(eps):
    worst = 0.0
    for t in np.linspace(0.01, 0.99, 99) * eps:  # the two privacy losses are t and t - eps
        q = -math.expm1(t - eps) / (math.exp(t) - math.exp(t - eps))
        pair = (q * math.exp(t), 1 - q * math.exp(t)), (q, 1 - q)
        worst = max(worst, *(renyi(*pair, order) / order for order in ORDERS))
    assert worst <= bounded_range_rho(eps)
    if eps < 0.5:
        assert worst > 0.99 * bounded_range_rho(eps)


@pytest.mark.parametrize("eps", [1e-3, 0.3, 1.0, 5.0, 40.0])
def test_pure_mu_is_below_the_trade_off_of_pure_dp(eps):
    alpha = np.concatenate([np.geomspace(1e-30, 0.5, 2000), [1 / (1 + math.exp(eps))]])
    pure = np.maximum(1 - math.exp(eps) * alpha, math.exp(-eps) * (1 - alpha))

    def gaussian(mu):
        return norm.cdf(norm.isf(alpha) - mu)

    assert np.all(gaussian(pure_mu(eps)) <= pure + 1e-13)
    assert not np.all(gaussian(0.999 * pure_mu(eps)) <= pure)


def test_pure_mu_far_out():
    assert pure_mu(0) == 0
    with pytest.raises(ParameterError, match="690"):
        pure_mu(700)


@pytest.mark.parametrize("eps", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.2])
def test_to_substitution_follows_two_steps(eps, delta):
    """A group of two under the worst ``(eps, delta)`` pair: ``P <= e^eps R + delta <= e^eps (e^eps Q + delta)
    + delta``."""
    two_eps, both = to_substitution(eps, delta)
    assert two_eps == 2 * eps
    assert both >= min(1.0, delta + math.exp(eps) * delta) * (1 - 1e-16)
    assert both == pytest.approx(min(1.0, delta * (1 + math.exp(eps))), rel=1e-12)


def test_to_substitution_never_overflows():
    assert to_substitution(1e5, 1e-300) == (2e5, 1.0)
    assert to_substitution(1e5, 0) == (2e5, 0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: gdp_delta(0, 1),
        lambda: gdp_delta(1, -1),
        lambda: gdp_delta(1, math.inf),
        lambda: gdp_eps(1, 0),
        lambda: gdp_mu(1, 1),
        lambda: gdp_mu(math.nan, 0.1),
        lambda: zcdp_eps(-1, 0.1),
        lambda: zcdp_rho(0, 0.1),
        lambda: pure_rho(-1),
        lambda: bounded_range_rho("1"),
        lambda: to_substitution(1, 1),
    ],
)
def test_parameters_are_checked(call):
    with pytest.raises(ParameterError):
        call()


@pytest.mark.parametrize("t", [3.0, 3.5, 6.0, 30.0, 1e4])
def test_mills_slope_joins(t):
    """``1 - t R(t) = int s exp(-ts - s^2/2) ds``."""
    expected = (
        quad(lambda s: s * math.exp(-s - (s / t) ** 2 / 2), 0, np.inf, epsabs=0, epsrel=1e-13)[0] / t**2
    )
    assert float(conversions._mills_slope(t)) == pytest.approx(expected, rel=1e-12)


def test_beyond_the_range_of_doubles_a_group_is_promised_nothing():
    assert conversions.of_group(400.0, 1e-6, 2) == (800.0, 1.0)
    assert conversions.of_group(400.0, 0.0, 2) == (800.0, 0.0)
