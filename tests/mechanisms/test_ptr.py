"""Propose-test-release: exact tails, and the exact guarantee of test and release together."""

import itertools
import math
from decimal import Decimal, localcontext

import pytest
from scipy import stats

from dpstats.mechanisms.ptr import passes, threshold
from dpstats.mechanisms.rng import Randomness

ALARM = 1e-6
GRID = list(itertools.product([0.01, 0.1, 0.37, 0.5, 1.0, 2.0, 7.0], [0.3, 1e-3, 1e-6, 1e-12, 1e-30]))


def tail(eps, c):
    """``P(Z >= c)`` of the integer Laplace law in fifty digits."""
    with localcontext() as context:
        context.prec = 50
        x = (-Decimal(eps)).exp()
        return x ** Decimal(c) / (1 + x) if c >= 0 else 1 - x ** Decimal(1 - c) / (1 + x)


def continuous_threshold(eps, delta):
    """What would be right for continuous noise, and is not for integers."""
    return math.log(1 / (2 * delta)) / eps - 1


def pass_probability(margin, eps, least, noise_eps=None):
    """``P(margin + Z >= least)``."""
    return float(tail(noise_eps or eps, math.ceil(least - margin)))


@pytest.mark.parametrize(("eps", "delta"), GRID)
def test_threshold_is_the_least_that_keeps_the_tail_below_delta(eps, delta):
    c = threshold(eps, delta) + 1
    assert float(tail(eps, c)) <= delta * (1 + 1e-12)
    assert tail(eps, c - 1) > delta
    # the closed form of the tail is the sum of the probabilities
    mass = math.fsum(math.tanh(eps / 2) * math.exp(-eps * z) for z in range(c, c + int(60 / eps)))
    assert mass == pytest.approx(float(tail(eps, c)), rel=1e-9)


def test_check_catches_the_threshold_for_continuous_noise():
    excess = [pass_probability(-1, eps, continuous_threshold(eps, delta)) / delta for eps, delta in GRID]
    assert max(excess) > 1.15
    assert max(pass_probability(-1, eps, threshold(eps, delta)) / delta for eps, delta in GRID) <= 1 + 1e-12


def hockey_stick(p, q, eps):
    """Divergence of two laws on finite sets, given as dicts."""
    return sum(max(0.0, p.get(y, 0.0) - math.exp(eps) * q.get(y, 0.0)) for y in p)


def released(x, eps, eps2, delta, least=None, noise_eps=None):
    """Exact law of test and toy release on data ``x``, an integer; neighbours differ by at most 1.

    The release tells ``x`` outright for ``x <= 0``. From 1 on it says "0", and "b" with a probability that
    grows as fast as ``(eps2, delta)`` allows. The margin is ``x - 1``, or -1 for the data that are not safe.
    """
    least = threshold(eps, delta) if least is None else least
    go = pass_probability(max(x - 1, -1), eps, least, noise_eps)
    stray = 0.0
    for _ in range(x):
        stray = min(math.exp(eps2) * stray + delta, 1 - math.exp(-eps2))
    answer = {str(x): 1.0} if x <= 0 else {"0": 1 - stray, "b": stray}
    return {"failed": 1 - go} | {y: go * p for y, p in answer.items()}


def worst_divergence(eps, eps2, delta, **broken):
    laws = [released(x, eps, eps2, delta, **broken) for x in range(-2, 8 + 2 * threshold(eps, delta))]
    return max(
        max(hockey_stick(p, q, eps + eps2), hockey_stick(q, p, eps + eps2))
        for p, q in itertools.pairwise(laws)
    )


TOY = [(eps, eps2, delta) for eps in (0.1, 0.5, 1.0) for eps2 in (0.3, 1.0) for delta in (1e-3, 1e-6, 0.01)]


@pytest.mark.parametrize(("eps", "eps2", "delta"), TOY)
def test_test_and_release_together_keep_one_delta(eps, eps2, delta):
    worst = worst_divergence(eps, eps2, delta)
    assert worst <= delta * (1 + 1e-9)
    # the two unsafe neighbours differ whenever the test lets them through: nothing is wasted but the integers
    assert worst >= delta * math.exp(-eps) * (1 - 1e-9)


@pytest.mark.slow
def test_exact_check_catches_wrong_thresholds_and_wrong_noise():
    for broken, factor in (
        (lambda eps, delta: {"least": continuous_threshold(eps, delta)}, 1.1),
        (lambda eps, delta: {"least": threshold(eps, delta) - 1}, 1.1),
        (lambda eps, delta: {"noise_eps": 1 / eps}, 100.0),
    ):
        cases = [(e, e2, d) for e, e2, d in TOY if e < 1]
        assert max(worst_divergence(e, e2, d, **broken(e, d)) / d for e, e2, d in cases) > factor


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, None])
def test_test_passes_as_often_as_the_law_says(seed):
    rng, eps, delta, n = Randomness(seed), 0.5, 0.05, 4000
    for margin in (-1, 2, 5, 9):
        passed = sum(passes(margin, eps, delta, rng) for _ in range(n))
        assert stats.binomtest(passed, n, pass_probability(margin, eps, threshold(eps, delta))).pvalue > ALARM
    # below -1 a margin means no less than -1
    passed = sum(passes(-50, eps, 0.3, rng) for _ in range(n))
    assert stats.binomtest(passed, n, pass_probability(-1, eps, threshold(eps, 0.3))).pvalue > ALARM


def test_large_margins_pass_and_lost_ones_fail():
    rng = Randomness(seed=2)
    least = threshold(0.5, 1e-6)
    assert all(passes(least + 80, 0.5, 1e-6, rng) for _ in range(200))
    assert not any(passes(-1, 0.5, 1e-9, rng) for _ in range(200))
    assert passes(True + 10**6, 0.5, 1e-6, rng) is True
