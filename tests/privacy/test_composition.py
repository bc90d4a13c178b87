import math

import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstats.errors import ParameterError
from dpstats.privacy import composition
from dpstats.privacy.composition import compose, gdp_delta, gdp_eps, gdp_mu, gdp_split, step_rho, zcdp_eps
from dpstats.privacy.guarantee import Spend


def step(eps, delta=0.0, mu=None, rho=None):
    return Spend("step", "mechanism", eps, delta, mu, rho)


def gaussian(mu, delta=1e-7):
    return step(gdp_eps(mu, delta), delta, mu)


PURE = st.floats(1e-3, 3).map(step)
OPAQUE = st.tuples(st.floats(1e-3, 3), st.floats(1e-12, 1e-8)).map(lambda t: step(*t))
GAUSSIAN = st.tuples(st.floats(1e-3, 1), st.floats(1e-12, 1e-8)).map(lambda t: gaussian(*t))
BOUNDED_RANGE = st.floats(1e-3, 3).map(lambda e: step(e, rho=composition.bounded_range_rho(e)))
STEPS = st.lists(st.one_of(PURE, OPAQUE, GAUSSIAN, BOUNDED_RANGE), max_size=8)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, derandomize=True)
@given(STEPS, st.randoms())
def test_properties(steps, random):
    eps, _ = compose(steps, 1e-6, pld=False)
    assert eps <= math.fsum(s.eps for s in steps) * (1 + 1e-15)  # never above basic composition
    shuffled = list(steps)
    random.shuffle(shuffled)
    assert compose(shuffled, 1e-6, pld=False).eps == eps
    assert compose(steps, 2e-6, pld=False).eps <= eps
    for s in steps[:2]:
        assert compose([*steps, s], 1e-6, pld=False).eps >= eps


@pytest.mark.slow
@settings(max_examples=15, deadline=None, derandomize=True)
@given(STEPS)
def test_the_numerical_accountant_only_helps(steps):
    assert compose(steps, 1e-6).eps <= compose(steps, 1e-6, pld=False).eps


def exact_randomised_response(eps, k, delta):
    """The least total of `k` randomised responses (Kairouz, Oh & Viswanath 2015), by bisection."""

    def divergence(total):
        p = 1 / (1 + math.exp(-eps))
        return math.fsum(
            math.comb(k, j) * (p ** (k - j) * (1 - p) ** j) * -math.expm1(total - (k - 2 * j) * eps)
            for j in range(k + 1)
            if (k - 2 * j) * eps > total
        )

    low, high = 0.0, k * eps
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if divergence(middle) <= delta else (middle, high)
    return high


@pytest.mark.parametrize(("eps", "k"), [(0.1, 30), (0.5, 10), (0.02, 500)])
def test_pure_steps_against_the_exact_optimum(eps, k):
    optimum = exact_randomised_response(eps, k, 1e-6)
    total = compose([step(eps)] * k, 1e-6)
    assert optimum * (1 - 1e-9) <= total.eps <= 1.1 * optimum
    for name, method in composition._METHODS.items():
        assert method([step(eps)] * k, 1e-6) >= optimum * (1 - 1e-9), name


def test_gaussian_steps_compose_exactly():
    delta = 1e-6
    mu = gdp_mu(1, delta)
    parts = [gaussian(m) for m in gdp_split(mu, (0.2, 0.3, 0.5))]
    total = compose(parts, delta)
    assert total.method == "gdp"
    assert total.eps == pytest.approx(1, rel=1e-9)
    assert gdp_delta(mu, total.eps) <= delta


@pytest.mark.slow
def test_gaussian_beside_pure_is_at_least_the_exact_mixture():
    """Against a fine grid of the mixture's own privacy curve, by dp_accounting without the margins of
    ours."""
    mu, eps, delta = 0.3, 0.4, 1e-6
    exact = (
        privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-5)
        .compose(
            privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(eps, 0), 1e-5
            )
        )
        .get_epsilon_for_delta(delta)
    )
    steps = [gaussian(mu), step(eps)]
    assert compose(steps, delta, pld=False).eps == pytest.approx(eps + gdp_eps(mu, delta))
    assert exact - 2e-5 <= compose(steps, delta).eps <= exact + 1e-3


def test_zcdp_wins_for_many_exponential_mechanisms():
    eps = 0.3
    steps = [step(eps, rho=eps**2 / 8)] * 20
    total = compose(steps, 1e-6)
    assert total.method == "zcdp"
    assert total.eps == pytest.approx(zcdp_eps(20 * eps**2 / 8, 1e-6), rel=1e-9)


def test_a_single_step_costs_what_it_says():
    assert compose([], 0) == (0.0, "basic")
    assert compose([step(0.7)], 0) == (0.7, "basic")
    assert compose([step(0.7, 1e-6)], 1e-6) == (0.7, "basic")


def test_deltas_that_sum_to_the_total_but_for_rounding():
    third = 1e-6 / 3
    assert compose([step(0.1, third)] * 3, 1e-6).eps == pytest.approx(0.3)
    assert compose([step(0.1, 1e-9), step(0.1, 2e-9)], 3e-9).eps == pytest.approx(0.2)


def test_too_small_a_delta():
    with pytest.raises(ParameterError, match="delta must be at least 2e-06"):
        compose([step(0.1, 1e-6)] * 2, 1e-6)


def test_step_rho():
    assert step_rho(step(0.5, 1e-6)) == (composition.pure_rho(0.5), 1e-6)
    assert step_rho(step(0.5)) == (composition.pure_rho(0.5), 0.0)
    assert step_rho(step(0.5, rho=0.5**2 / 8)) == (0.5**2 / 8, 0.0)
    assert step_rho(step(0.5, rho=10)) == (composition.pure_rho(0.5), 0.0)
    assert step_rho(gaussian(0.2))[0] == pytest.approx(0.02)
    # With a delta, eps alone says nothing of the zCDP of a Gaussian step.
    assert step_rho(step(1e-3, 1e-3, mu=0.2))[0] == pytest.approx(0.02)


def test_the_accountant_steps_aside_where_its_rounding_would_matter():
    steps = [step(0.1)] * 30
    assert composition._pld(steps, 1e-12) == math.inf
    assert compose(steps, 1e-12).method != "pld"
    assert composition._pld([step(800.0)] * 2, 1e-6) == math.inf


def test_an_optimistic_accountant_is_caught(monkeypatch):
    """The test of the test: an ``eps`` that shrinks with the square root of the steps is below the
    optimum."""
    monkeypatch.setitem(
        composition._METHODS, "basic", lambda spends, delta: math.hypot(*(s.eps for s in spends))
    )
    with pytest.raises(AssertionError):
        test_pure_steps_against_the_exact_optimum(0.1, 30)
