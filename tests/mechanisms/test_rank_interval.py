"""The interval's sensitivity, its rank allowance and its coverage, on adversarial data."""

import math

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import binom, chisquare

from dpstats.mechanisms import rank_interval as _rank_interval
from dpstats.mechanisms.rank_interval import RankInterval
from dpstats.mechanisms.rng import Randomness

CASES = [(0.5, 0.05, 1.0), (0.9, 0.05, 0.3), (0.1, 0.2, 2.0)]


def adversarial(rng, n):
    return np.sort(rng.choice([0.0, 1e-9, 1.0, 1.0 + 1e-9, 1e6, *rng.normal(size=5)], n))


def worst_move(interval, trials=400):
    rng, worst = np.random.default_rng(1), 0.0
    for _ in range(trials):
        n = int(rng.integers(0, 60))
        x = adversarial(rng, n)
        more = np.sort(np.append(x, rng.choice([-1e9, 0.0, 1.0, 1e9])))
        centre = rng.choice([0.0, 1.0, rng.normal()])
        with np.errstate(invalid="ignore"):
            move = np.abs(interval.scores(x, centre) - interval.scores(more, centre))
        worst = max(worst, float(move.max()))
    return worst


@pytest.mark.parametrize("case", CASES)
def test_scores_have_the_stated_sensitivity(case):
    interval = RankInterval(*case)
    assert worst_move(interval) <= interval.sensitivity + 1e-9


def test_half_a_rank_would_not_be_enough():
    """The target depends on the number of rows too, so the sensitivity exceeds that of the median's score."""
    assert worst_move(RankInterval(0.5, 0.05, 1.0)) > 0.5 + 1e-6


def miss_probability(interval, x, centre, reach=None):
    """Exact probability, given the data, that the interval stops short of the covering order statistics."""
    n = len(x)
    scores = interval.scores(x, centre)
    weights = np.exp(interval.eps * scores / (2 * interval.sensitivity))
    below = binom.ppf(interval._tail, n, interval.q)
    above = binom.ppf(interval._tail, n, 1 - interval.q)
    widths = _rank_interval._HALF_WIDTHS
    short = (np.searchsorted(x, centre - widths, side="left") >= below) | (
        n - np.searchsorted(x, centre + widths, side="right") >= above
    )
    short[-1] = False
    return weights[short].sum() / weights.sum()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n", [0, 1, 30, 400])
def test_the_mechanism_misses_its_ranks_as_rarely_as_stated(case, n):
    interval, rng = RankInterval(*case), np.random.default_rng(2)
    for _ in range(40):
        x = np.sort(rng.choice([adversarial(rng, n), rng.standard_cauchy(n), np.full(n, 1.0)]))
        assert (
            miss_probability(interval, x, rng.choice([0.0, 1.0, -50.0]))
            <= interval.alpha * _rank_interval._MISS
        )


def test_a_shorter_reach_is_caught(monkeypatch):
    interval = RankInterval(0.5, 0.05, 0.3)
    # all rows at distance 1: every narrower candidate is tempting, and there are hundreds
    x = np.sort(np.repeat([-1.0, 1.0], 200))
    assert miss_probability(interval, x, 0.0) <= 0.0125
    monkeypatch.setattr(RankInterval, "reach", property(lambda self: 2.0))
    assert miss_probability(interval, x, 0.0) > 0.0125


@pytest.mark.parametrize("case", CASES)
def test_targets_stay_below_the_binomial_quantiles(case):
    interval = RankInterval(*case)
    for n in (0, 1, 2, 7, 19, 100, 2500, 12345, 777_777):
        below, above = interval.targets(n)
        assert below <= binom.ppf(interval._tail, n, interval.q)
        assert above <= binom.ppf(interval._tail, n, 1 - interval.q)


def test_too_few_rows_give_an_infinite_interval():
    assert RankInterval(0.5, 0.05, 0.1).release(np.array([1.0]), 1.0, Randomness(1)) == math.inf


def p_value(eps, stated, draws=4000):
    """Of draws at `eps`, of the law ``exp(eps score / (2 sensitivity))`` at the budget `stated`."""
    x, rng = np.sort(np.random.default_rng(3).standard_normal(200)), Randomness(4)
    interval, other = RankInterval(0.5, 0.05, stated), RankInterval(0.5, 0.05, eps)
    expected = draws * softmax(stated * interval.scores(x, 0.1) / (2 * interval.sensitivity))
    widths = [RankInterval.release(other, x, 0.1, rng) for _ in range(draws)]
    seen = np.bincount(np.searchsorted(_rank_interval._HALF_WIDTHS, widths), minlength=len(expected))
    common = expected > 5
    assert common.sum() >= 4
    return chisquare(seen[common], expected[common] * seen[common].sum() / expected[common].sum()).pvalue


@pytest.mark.slow
def test_draws_have_the_stated_law():
    """False-alarm rate 1e-6."""
    assert p_value(1.0, 1.0) > 1e-6
    # test of the test
    assert p_value(2.0, 1.0) < 1e-6


@pytest.mark.parametrize("case", CASES)
def test_sampling_and_the_mechanism_share_alpha(case):
    interval = RankInterval(*case)
    assert 2 * interval._tail + interval.alpha * _rank_interval._MISS <= interval.alpha * (1 + 1e-12)
