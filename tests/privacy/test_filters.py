import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr

from dpstats.errors import ParameterError
from dpstats.privacy import filters
from dpstats.privacy.conversions import bounded_range_rho, gdp_eps, gdp_mu, gdp_split, pure_mu, pure_rho
from dpstats.privacy.filters import charged, fits, largest, limits, release_cost, step_rho, stopped_early
from dpstats.privacy.guarantee import KINDS, Guarantee, Spend


def step(eps, delta=0.0, mu=None, rho=None, name="step"):
    return Spend(name, "mechanism", eps, delta, mu, rho)


def release(eps, delta=0.0, spends=(), kind=None):
    return Guarantee(eps, delta, "add-remove", kind or ("approximate" if delta else "pure"), tuple(spends))


# The totals: against what is exact -----------------------------------------------------------------------


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


def total(rule, steps, delta):
    """The ``eps`` that a rule charges for pure or Gaussian releases, one after the other."""
    cost = sum(Fraction(release_cost(rule, release(s.eps, s.delta, [s]))[0]) for s in steps)
    return charged(rule, cost, Fraction(), delta)[0]


@pytest.mark.parametrize(("eps", "k"), [(0.1, 30), (0.5, 10), (0.02, 500)])
def test_no_rule_charges_pure_steps_less_than_the_exact_optimum(eps, k):
    optimum = exact_randomised_response(eps, k, 1e-6)
    charges = [total(rule, [step(eps)] * k, 1e-6) for rule in filters.FILTERS]
    assert optimum * (1 - 1e-9) <= min(charges) <= 1.25 * optimum
    # The test of the test: a charge that grows with the square root of the number of steps is below it.
    assert math.sqrt(k) * eps < optimum


@pytest.mark.slow
def test_gaussian_beside_pure_is_charged_no_less_than_the_exact_mixture():
    mu, eps, delta = 0.3, 0.4, 1e-6
    pure = common.DifferentialPrivacyParameters(eps, 0)
    exact = (
        privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-5)
        .compose(privacy_loss_distribution.from_privacy_parameters(pure, 1e-5))
        .get_epsilon_for_delta(delta)
    )
    for rule in ("zcdp", "gdp"):
        assert exact - 2e-5 <= total(rule, [step(gdp_eps(mu, 1e-7), 1e-7, mu), step(eps)], delta)


def test_step_rho():
    assert step_rho(step(0.5, 1e-6)) == (pure_rho(0.5), 1e-6)
    assert step_rho(step(0.5)) == (pure_rho(0.5), 0.0)
    assert step_rho(step(0.5, rho=bounded_range_rho(0.5))) == (bounded_range_rho(0.5), 0.0)
    assert step_rho(step(0.5, rho=10)) == (pure_rho(0.5), 0.0)
    assert step_rho(step(1.0, 1e-7, mu=0.2))[0] == pytest.approx(0.02)
    # With a delta, eps alone says nothing of the zCDP of a Gaussian step.
    assert step_rho(step(1e-3, 1e-3, mu=0.2))[0] == pytest.approx(0.02)


# The theorem: what an adversary who decides by outputs can reach -----------------------------------------


def reached(delta, eps, stop_price, rest=12.0):
    """The exact ``delta`` at ``eps + rest`` when the second half of a Gaussian release is run or not, by
    choice.

    The release has two equal Gaussian steps, jointly ``(eps, delta)``-DP. After the first, the adversary
    either stops, at the price `stop_price`, or goes on and pays `eps`; what then is left of ``eps + rest``
    goes into one randomised response.
    """
    mu = gdp_mu(eps, delta) / math.sqrt(2)

    def stop(loss):
        return max(0.0, -math.expm1(stop_price - loss)) / (1 + math.exp(stop_price - eps - rest))

    def go_on(loss):
        e = eps - loss
        # (norm.cdf() and norm.pdf() take a hundred times as long for a single number)
        return (ndtr(-e / mu + mu / 2) - math.exp(e) * ndtr(-e / mu - mu / 2)) / (1 + math.exp(-rest))

    def best(z):
        loss = mu * mu / 2 + mu * z
        return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * max(stop(loss), go_on(loss))

    grid = np.linspace(-9, 9, 361)
    return sum(quad(best, a, b, epsabs=1e-14)[0] for a, b in zip(grid, grid[1:], strict=False))


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_gaussian_steps_are_kept_all_or_none(delta):
    eps = 1.0
    halves = gdp_split(gdp_mu(eps, delta), (0.5, 0.5))
    steps = [step(gdp_eps(m, delta / 2), delta / 2, m, name=str(i)) for i, m in enumerate(halves)]
    price, _ = release_cost("basic", release(eps, delta, steps), steps[:1])
    assert reached(delta, eps, price) <= delta
    # The test of the test: the price of the first step by its own conversion lets the adversary through.
    # docs/privacy/ledger.md says by how much.
    assert reached(delta, eps, gdp_eps(halves[0], delta)) / delta == pytest.approx(
        {1e-3: 1.6, 1e-6: 1.9}[delta], abs=0.05
    )


# Costs ---------------------------------------------------------------------------------------------------


def test_a_release_costs_its_guarantee_under_basic():
    assert release_cost("basic", release(1, 1e-6)) == (1, 1e-6)
    assert release_cost("basic", release(1, 1e-6, [step(0.5), step(0.2)])) == (1, 1e-6)


def test_steps_stand_alone_when_their_budgets_add_up():
    steps = [step(0.125, name="count"), step(0.375, 1e-6, name="test"), step(0.5, name="draw")]
    g = release(1, 1e-6, steps)
    assert release_cost("basic", g, steps[:1]) == (0.125, 1e-6)  # delta stays spent
    assert release_cost("basic", g, steps[:2]) == (0.5, 1e-6)
    assert release_cost("basic", g, steps) == (1, 1e-6)
    assert release_cost("basic", g, []) == (0, 0)


def test_gaussian_group_beside_other_steps():
    delta, mu = 1e-6, gdp_mu(0.9, 1e-6)
    moments = [step(gdp_eps(m, delta / 2), delta / 2, m) for m in gdp_split(mu, (0.3, 0.7))]
    count = step(0.1, name="count")
    g = release(1, delta, [count, *moments])
    assert sum(s.eps for s in g.spends) > 1
    assert release_cost("basic", g, [count]) == (0.1, delta)
    assert release_cost("basic", g, [count, moments[0]]) == (1, delta)
    assert release_cost("basic", g, moments[:1])[0] == pytest.approx(0.9)
    # A group that does not fit in what the others leave is no part of its own.
    assert release_cost("basic", g.replace(eps=0.99), [count]) == (0.99, delta)


def test_joint_accounting_of_another_kind_is_all_or_none():
    steps = [step(0.2, name=str(i)) for i in range(60)]
    g = release(8, 1e-6, steps)
    assert release_cost("basic", g, steps[:1]) == (8, 1e-6)


def test_zcdp_and_gdp_costs_go_by_step():
    steps = [step(0.1), step(0.5, 1e-7, name="draw"), step(1.0, 1e-6, mu=0.2)]
    g = release(1.6, 2e-6, steps)
    cost, delta = release_cost("zcdp", g)
    assert cost == pytest.approx(pure_rho(0.1) + pure_rho(0.5) + 0.02) and delta == 1e-7
    cost, delta = release_cost("gdp", g)
    assert cost == pytest.approx(pure_mu(0.1) ** 2 + pure_mu(0.5) ** 2 + 0.04) and delta == 1e-7
    assert release_cost("zcdp", g, steps[:1]) == (pure_rho(0.1), 1e-7)


@pytest.mark.parametrize("rule", filters.FILTERS)
def test_random_dp_is_charged_whole(rule):
    steps = [step(0.1, name="a"), step(0.2, name="b")]
    g = release(1, 1e-6, steps, KINDS[2])
    assert release_cost(rule, g) == release_cost(rule, release(1, 1e-6))
    for kept in (steps[:1], steps[1:], steps):
        assert release_cost(rule, g, kept) == release_cost(rule, g)
    assert release_cost(rule, g, []) == (0, 0)
    assert stopped_early(g, steps[1:]).kind == KINDS[2]


def test_only_reserved_steps_can_be_kept():
    g = release(1, 0, [step(0.5), step(0.5)])
    assert release_cost("basic", g, [step(0.5)] * 2) == (1, 0)
    for kept in ([step(0.4)], [step(0.5)] * 3):
        with pytest.raises(ParameterError, match="spends must be steps that this release has reserved"):
            release_cost("basic", g, kept)


STEPS = st.lists(
    st.tuples(st.floats(1e-3, 1), st.sampled_from([0.0, 1e-9]), st.one_of(st.none(), st.just(0.1))),
    max_size=6,
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.sampled_from(filters.FILTERS), st.floats(0.01, 5), STEPS, st.integers(0, 63))
def test_stopping_early_never_costs_more_and_more_steps_never_less(rule, eps, parts, mask):
    steps = [step(e, d, m, name=str(i)) for i, (e, d, m) in enumerate(parts)]
    g = release(eps, 1e-6, steps)
    kept = [s for i, s in enumerate(steps) if mask >> i & 1]
    whole, part, less = (release_cost(rule, g, k) for k in (None, kept, kept[1:]))
    assert less[0] <= part[0] <= whole[0] * (1 + 1e-9) and less[1] <= part[1] <= whole[1]
    assert stopped_early(g, kept).spends == tuple(kept)


# Limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["zcdp", "gdp"])
def test_a_positive_delta_is_needed(rule):
    with pytest.raises(ParameterError, match="positive for composition"):
        limits(rule, 1, 0)


@pytest.mark.parametrize("rule", filters.FILTERS)
def test_what_is_left_fits_and_no_more(rule):
    limit = limits(rule, 3, 1e-5)
    eps, delta = largest(rule, *map(Fraction, limit))
    ask = release_cost(rule, release(eps, delta))
    assert all(fits(Fraction(a), b) for a, b in zip(ask, limit, strict=True))
    more = release_cost(rule, release(eps * (1 + 1e-8), delta))
    assert not fits(Fraction(more[0]), limit[0])
    spent = charged(rule, *map(Fraction, limit), 1e-5)
    assert spent == pytest.approx((3, 1e-5), rel=1e-9)
    assert charged(rule, Fraction(), Fraction(), 1e-5) == (0, 0)
    assert largest(rule, Fraction(-1, 10**15), Fraction(-1, 10**25)) == (0, 0)


def test_zcdp_allows_more_small_releases_than_basic():
    count = {r: int(limits(r, 3, 1e-5)[0] / release_cost(r, release(0.01))[0]) for r in filters.FILTERS}
    assert count["zcdp"] > count["gdp"] > 5 * count["basic"]


def test_tolerance_is_for_rounding_only():
    assert fits(sum(Fraction(3 / 7) for _ in range(7)), 3.0)
    assert not fits(Fraction(3) * (1 + Fraction(1, 10**9)), 3.0)
    assert filters.TOLERANCE <= Fraction(1, 10**9)
