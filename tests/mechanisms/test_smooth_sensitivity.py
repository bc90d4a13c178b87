"""Smooth sensitivity: release, truncation. False-alarm rate of each simulation test: 1e-6."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from dpstats.errors import ParameterError
from dpstats.mechanisms import calibration, noise
from dpstats.mechanisms import smooth_sensitivity as ss
from dpstats.mechanisms.rng import Randomness

Z = norm.isf(1e-6)
BUDGETS = [(0.1, 1e-6), (0.5, 1e-6), (1.0, 1e-9), (2.0, 1e-6), (4.0, 1e-4), (12.0, 1e-6)]


# -- the release -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [3.0, 40.0, 1000.0])
def test_integer_noise_is_close_to_rounded_continuous_noise(units):
    k = np.arange(0, 50 * int(units))
    integer = math.tanh(0.5 / units) * np.exp(-k / units)
    rounded = np.where(k == 0, -math.expm1(-0.5 / units), np.exp(-k / units) * math.sinh(0.5 / units))
    assert np.abs(np.log(integer / rounded)).max() <= 1 / (4 * units)


def test_release_adds_laplace_noise_of_the_stated_scale():
    parameters, rng = ss.SmoothNoise.of(1.0, 1e-6), Randomness(4)
    draws = np.array([ss.release([2.0], 0.3, parameters, rng)[0][0] for _ in range(4000)])
    size = np.abs(draws - 2.0) * parameters.alpha / 0.3
    assert abs(size.mean() - 1) < Z / math.sqrt(4000)
    assert abs(np.median(draws) - 2.0) < Z * 0.3 / parameters.alpha / math.sqrt(4000)


def test_released_scale_is_unbiased_on_the_log_scale():
    parameters, rng = ss.SmoothNoise.of(1.0, 1e-6), Randomness(5)
    logs = np.log([ss.release([2.0], 0.3, parameters, rng)[1] * parameters.alpha / 0.3 for _ in range(4000)])
    spread = parameters.log_sensitivity / parameters.eps_scale
    assert abs(logs.mean()) < Z * spread * math.sqrt(2 / 4000)
    assert abs(np.abs(logs).mean() / spread - 1) < Z / math.sqrt(4000)


def last_bits(value, scale, parameters):
    exponent = math.floor(math.log2(scale * parameters.alpha)) - 30
    return value / 2.0**exponent


@pytest.mark.parametrize("rng", [Randomness(), Randomness(6)])
def test_the_lattice_is_a_function_of_the_released_scale(rng):
    parameters = ss.SmoothNoise.of(1.0, 1e-6)
    for bound in (0.3, 0.4, 3e-7, 0.0):
        values, scale = ss.release([2.0], bound, parameters, rng)
        units = last_bits(values[0], scale, parameters)
        assert units == round(units)


def test_noise_of_a_private_lattice_would_be_seen():
    """What `release` avoids: noise.laplace puts its lattice next to the (private) sensitivity."""
    fine = noise.laplace(np.zeros(50), 0.9, 1.0, Randomness(7)) * 2.0**30
    coarse = noise.laplace(np.zeros(50), 1.1, 1.0, Randomness(7)) * 2.0**30
    assert np.any(fine != np.rint(fine)) and np.all(coarse == np.rint(coarse))


@pytest.mark.parametrize("d", [1, 3])
def test_the_noise_is_for_the_lattice_too(d, monkeypatch):
    """Rounding moves two statistics apart by a step a coordinate; and however far above the bound the
    released scale came out, integer noise has as many steps as its allowance is for."""
    parameters, seen = ss.SmoothNoise.of(1.0, 1e-6, d), []
    monkeypatch.setattr(noise, "laplace_on_grid", lambda values, scale, exponent, rng: seen.append(scale))
    for exponent in (-24, 100):
        monkeypatch.setattr(ss, "released_scale", lambda *_, exponent=exponent: (1.0, exponent, 1.0))
        ss.release(np.zeros(d), 1.0, parameters, Randomness(0))
    assert seen == [(1 + d * 2.0**-24) / parameters.alpha, ss._LEAST_UNITS * 2.0**100]


@pytest.mark.parametrize("d", [1, 3])
def test_what_is_left_of_a_budget_pays_for_integer_noise(d):
    """On ``d`` coordinates, its log-density is within ``d / (4 units)`` of the rounded continuous one."""
    given = []
    parameters = ss.SmoothNoise.of(1.0, 1e-6, d, lambda *left: given.append(left) or (0.1, 0.1))
    ((eps, delta, _),) = given
    lattice = d / (4 * ss._LEAST_UNITS)
    assert eps + parameters.eps_scale == pytest.approx(1.0 - 2 * lattice, rel=1e-12, abs=0)
    assert delta == pytest.approx(1e-6 * math.exp(-lattice), rel=1e-12, abs=0)


def test_bounds_have_room_for_rounding():
    """Of the statistics and of the bound, by many units in their last place; for both neighbours."""
    room = 2.0**-44
    assert ss.enlarged(np.array([1.0, -3.0]), 0.5) >= 0.5 + room * (0.5 + 3.0)
    parameters = ss.SmoothNoise.of(1.0, 1e-6)
    assert parameters.beta <= parameters.log_sensitivity - 2 * room


def test_release_without_spread_is_exact_to_rounding():
    parameters = ss.SmoothNoise.of(1.0, 1e-6)
    values, scale = ss.release([1234.5], 0.0, parameters, Randomness())
    assert values[0] == pytest.approx(1234.5, rel=1e-8)
    assert ss.release([0.0], 0.0, parameters, Randomness())[0][0] == pytest.approx(0, abs=1e-200)


def test_several_coordinates_have_independent_noise():
    parameters, rng = ss.SmoothNoise.of(1.0, 1e-6, 2), Randomness(8)
    draws = np.array([ss.release([0.0, 0.0], 1.0, parameters, rng)[0] for _ in range(2000)])
    assert abs(np.corrcoef(draws.T)[0, 1]) < 2 * Z / math.sqrt(2000)


def test_too_small_a_budget_is_refused():
    with pytest.raises(ParameterError, match="eps must be at least"):
        ss.SmoothNoise.of(1e-7, 1e-6)


@pytest.mark.parametrize("alpha", [0.05, 0.5])
@pytest.mark.slow
def test_noise_interval_covers_what_it_says(alpha):
    parameters, rng = ss.SmoothNoise.of(1.0, 1e-6), Randomness(9)
    hits = 0
    for _ in range(4000):
        values, scale = ss.release([2.0], 0.3, parameters, rng)
        rate = parameters.eps_scale / parameters.log_sensitivity
        ((low, high),) = ss.NoiseInterval((values[0],), (scale,), rate).conf_int(alpha)
        hits += low <= 2.0 <= high
    assert abs(hits / 4000 - (1 - alpha)) < Z * math.sqrt(alpha * (1 - alpha) / 4000)


# -- truncation and test ---------------------------------------------------------------------------------


def random_sensitivities(rng, m):
    """Non-decreasing local sensitivities with gaps of very different sizes, often one near the K-th."""
    steps = rng.exponential(size=m) * np.exp(rng.normal(0, 2, size=m)) * (rng.random(m) < 0.7)
    steps[rng.integers(m)] *= math.exp(rng.normal(4, 3))
    A = np.cumsum(steps)
    A[m - rng.integers(0, m // 2) :] = np.inf
    return A


def sensitivities_of_a_neighbour(rng, A):
    """Local sensitivities of a neighbour: non-decreasing, between those next to each."""
    low = np.concatenate([[0.0], A[:-1]])
    high = np.concatenate([A[1:], [np.inf]])
    pick = rng.random(len(A))
    pick[rng.random(len(A)) < 0.6] = rng.integers(0, 2)
    with np.errstate(invalid="ignore"):
        between = np.where(np.isfinite(high), low + pick * (high - low), np.where(pick < 0.5, low, np.inf))
    return np.maximum.accumulate(between)


def truncation_violations(margin, trials=4000, K=6, beta=0.3):
    rng = np.random.default_rng(10)
    jumps = smooth = 0
    for _ in range(trials):
        A = random_sensitivities(rng, 14)
        other = sensitivities_of_a_neighbour(rng, A)
        bound, safe = margin(A, K, beta)
        other_bound, other_safe = margin(other, K, beta)
        jumps += abs(safe - other_safe) > 1
        if safe >= 0:
            smooth += not (
                other_bound <= math.exp(beta) * bound * (1 + 1e-12)
                and bound <= math.exp(beta) * other_bound * (1 + 1e-12)
            )
    return jumps, smooth


def test_margin_has_sensitivity_one_and_means_smooth():
    assert truncation_violations(ss.truncated) == (0, 0)


def knife_edges(K, beta, r, ulps):
    """Sequences with the `r`-th inequality an equality, but for rounding, and those of a neighbour that gain
    where this one is large and lose where it is small."""
    steps = np.arange(2 * K + 2)
    for k in range(r, K):
        # the maximum is attained by the term k alone
        A = np.where(steps >= k - r, 1.0, 0.0)
        height = math.exp(-k * beta) / math.exp(-K * beta)
        for _ in range(abs(ulps)):
            height = np.nextafter(height, math.inf if ulps > 0 else 0.0)
        A[K + r :] = height
        A[K + r + 1 :] *= math.exp(beta)
        other = np.where(steps < K, np.append(0.0, A[:-1]), np.append(A[1:], math.inf))
        yield A, other


def edge_violations(margin, room, *size):
    """How often the margin moves by more than 1, where everything hangs on the last digit."""
    worse = 0
    for K, beta in ((8, 0.3), (40, 0.047), (110, 0.12)):
        # equalities as they are, and where the allowance for rounding puts them
        for r in range(1, K - 1):
            for ulps in range(-2, 3):
                for A, other in itertools.islice(knife_edges(K, beta, r, ulps), 3):
                    for enlarged in (0.0, room * (r + 1), room * r):
                        pair = (
                            a / np.where(np.arange(len(a)) >= K, math.exp(enlarged), 1.0) for a in (A, other)
                        )
                        margins = [margin(a, K, beta + (room if size else 0.0), *size)[1] for a in pair]
                        worse += abs(margins[0] - margins[1]) > 1
    return worse


@pytest.mark.slow
def test_margin_has_sensitivity_one_where_the_last_digit_decides():
    """An auditor's sequences: without the allowance one record moved the margin by 2."""
    assert edge_violations(ss.truncated, 2.0**-36) == 0
    assert edge_violations(ss.truncated, 2.0**-12, 0.0) == 0
    # and where the floor decides as much as the sequence
    assert edge_violations(ss.truncated, 2.0**-12, 2.0**26) == 0


@pytest.mark.slow
def test_a_margin_that_is_compared_as_rounded_is_caught():
    def rounded(A, K, beta):
        decay, r = np.exp(-beta * np.arange(K)), -1
        best = np.maximum.accumulate(decay * A[:K])
        while (
            r + 1 < K - 1
            and math.exp(-K * beta) * A[K + r + 1] <= math.exp(-(r + 1) * beta) * best[K - r - 2]
        ):
            r += 1
        return best[-1], max(r - 1, -1)

    assert edge_violations(rounded, 2.0**-36) > 0


def test_nothing_passes_where_exponentials_leave_the_doubles():
    """Else ``exp(-K beta)`` would be 0, and at most anything: one side of every inequality."""
    A = np.exp(np.linspace(0, 600, 3000))
    assert ss.truncated(A, 1000, 0.1)[1] == -1 and ss.truncated(np.ones(3000), 1000, 1.2)[1] == -1
    assert ss.truncated(np.ones(3000), 1000, 0.5)[1] > 0
    # of a rounded statistic nothing is left of a small rate
    assert ss.truncated(np.ones(300), 100, 2.0**-12, 1.0)[1] == -1


@pytest.mark.slow
def test_a_margin_that_is_one_too_large_is_caught():
    def lenient(A, K, beta):
        bound, margin = ss.truncated(A, K, beta)
        return bound, max(margin + 1, -1) if margin >= 0 else 0

    assert truncation_violations(lenient)[1] > 0


@pytest.mark.slow
def test_a_margin_that_does_not_shift_the_sensitivities_is_caught():
    def unshifted(A, K, beta):
        bound, _ = ss.truncated(A, K, beta)
        r = max((r for r in range(K) if math.exp(-K * beta) * A[K + r] <= bound < math.inf), default=-1)
        return bound, max(r - 1, -1) if r < K - 1 else 10 * K

    assert truncation_violations(unshifted)[0] > 0


def test_unbounded_sensitivities_are_never_safe():
    assert ss.truncated(np.full(10, np.inf), 4, 0.1)[1] == -1
    assert ss.truncated([0.0, np.inf, np.inf], 2, 0.1)[1] == -1
    assert ss.truncated(np.zeros(20), 4, 0.1) == (0.0, 2)


def test_smooth_maximum_is_the_maximum():
    rng = np.random.default_rng(11)
    for _ in range(50):
        A = np.minimum.accumulate(np.append(random_sensitivities(rng, 40), np.inf)[::-1])[::-1]
        terms = np.exp(-0.2 * np.arange(4000)) * np.minimum(np.append(A, np.full(3959, np.inf)), 50.0)
        found = ss.smooth_maximum(lambda k, A=A: A[min(k, 40)], 0.2, 50.0)
        assert found == pytest.approx(terms.max(), rel=1e-12)


def test_smooth_maximum_evaluates_few_distances():
    asked = []
    ss.smooth_maximum(lambda k: asked.append(k) or 1.0 + 0.02 * k, 0.01, 1e6)
    assert len(asked) < 150  # of 1,380 that the box leaves open


def test_number_of_distances_is_capped_by_the_rows():
    few = ss.distances_needed(100, 0.33, 0.25, 1e-6, 0.05)
    many = ss.distances_needed(10**6, 0.33, 0.25, 1e-6, 0.05)
    assert few == 33 and many == ss.distances_needed(10**7, 0.33, 0.25, 1e-6, 0.05) < 400


def test_tuned_pairs_take_the_box_in_with_few_rows():
    """Noise of the median of 200 normal values in a box of 1,000 spreads, against the largest product."""
    from dpstats.mechanisms.order_statistics import smooth_median_bound

    x = np.sort(np.random.default_rng(12).normal(size=200))
    scales = [
        smooth_median_bound(x, beta, -500.0, 500.0) / alpha
        for alpha, beta in (ss.tuned(1.0, 1e-6, 1, 200, 0.5), calibration.calibrate(1.0, 1e-6))
    ]
    assert scales[0] < 0.5 * scales[1]


def test_statistics_stay_within_reach_of_the_largest_noise():
    """Two values at either end of the doubles, with the bound cut: both signs come out. False-alarm rate
    1e-6."""
    parameters, rng = ss.SmoothNoise.of(1.0, 1e-6, 2), Randomness(11)
    negative = sum(ss.release([1.7e308, -1.7e308], math.inf, parameters, rng)[0][0] < 0 for _ in range(200))
    # a statistic at a quarter of the bound, Laplace noise of scale bound / alpha
    expected = math.exp(-parameters.alpha / 4) / 2
    assert abs(negative / 200 - expected) < norm.isf(5e-7) * math.sqrt(expected * (1 - expected) / 200)
    assert np.abs(np.diff(ss.limited([1.7e308, -1.7e308]))) <= 2.0**900


@pytest.mark.parametrize(("eps", "delta"), BUDGETS)
def test_budgets_pay_for_the_scale_and_the_rest(eps, delta):
    """The log of the scale may move by all that the bound may, at its own share; the rest is left to the
    release."""
    parameters = ss.SmoothNoise.of(eps, delta)
    assert parameters.beta + ss.ROUNDING <= parameters.log_sensitivity
    assert 0 < parameters.eps_scale < eps

    def divergence(eps):
        # the largest that the constants allow: see test_calibration
        lam = -parameters.log_sensitivity
        return calibration.hockey_stick(eps, lam, parameters.alpha * math.exp(lam))

    assert divergence(eps - parameters.eps_scale) <= delta * (1 + 1e-9)
    # test of the test: at the whole eps the same constants would leave delta unspent
    assert divergence(eps) < 0.97 * delta
