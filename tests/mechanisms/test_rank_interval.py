"""The interval's sensitivity, its rank allowance and its coverage, on adversarial data."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
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
@pytest.mark.slow
def test_scores_have_the_stated_sensitivity(case):
    interval = RankInterval(*case)
    assert worst_move(interval) <= interval.sensitivity + 1e-9


def test_half_a_rank_would_not_be_enough():
    """The target depends on the number of rows too, so the sensitivity exceeds that of the median's score."""
    assert worst_move(RankInterval(0.5, 0.05, 1.0)) > 0.5 + 1e-6


def quadrature(n, q, target, slope, log_narrower):
    """``E min(1, exp(c - slope (B - target)))`` as a sum over the law of `B`."""
    b = np.arange(n + 1)
    return float(np.sum(binom.pmf(b, n, q) * np.exp(np.minimum(log_narrower - slope * (b - target), 0.0))))


@pytest.mark.parametrize("case", CASES)
def test_miss_bound_is_its_sum(case):
    q, slope = case[0], RankInterval(*case).slope
    for n in (0, 1, 2, 7, 19, 100, 2500, 12_345):
        for target in (-40.3, -3.0, q * n - 20.7, q * n - 2.25, q * n + 5.0):
            computed = _rank_interval.miss_bound(np.array([n]), q, np.array([target]), slope)
            expected = quadrature(n, q, target, slope, _rank_interval._LOG_NARROWER)
            # a geometric series bounds the tail where its exact sum underflows
            assert expected * (1 - 1e-6) <= computed[0] <= expected * 1.01 + 1e-12


@pytest.mark.parametrize("case", [*CASES, (0.5, 0.05, 0.01), (0.99, 0.05, 1.0), (0.25, 0.01, 10.0)])
def test_sampling_and_the_mechanism_miss_together_alpha_at_most(case):
    """At other numbers of rows than those for which the allowance was computed."""
    interval = RankInterval(*case)
    n = np.unique(np.random.default_rng(0).integers(0, 3000, 300)).tolist() + [12_345, 777_777, 10**8 + 7]
    targets = np.array([interval.targets(m) for m in n])
    for q, target in zip((interval.q, 1 - interval.q), targets.T, strict=True):
        bound = _rank_interval.miss_bound(np.array(n), q, target, interval.slope)
        assert bound.max() <= interval.alpha / 2


def test_an_end_is_short_as_rarely_as_bounded():
    """Exactly, for data of all sorts: both ends together, given how many rows lie below the quantile."""
    for case in CASES:
        interval, rng = RankInterval(*case), np.random.default_rng(2)
        widths = _rank_interval._HALF_WIDTHS
        for n in (1, 30, 400):
            lower, upper = interval.targets(n)
            for _ in range(30):
                x = np.sort(rng.choice([adversarial(rng, n), rng.standard_cauchy(n), np.full(n, 1.0)]))
                centre, quantile = rng.choice([0.0, 1.0, -50.0]), rng.choice([*x, rng.standard_cauchy()])
                weights = softmax(interval.log_weights(x, centre))
                at_most = np.searchsorted(x, quantile, side="right")
                at_least = n - np.searchsorted(x, quantile, side="left")
                c, h = _rank_interval._LOG_NARROWER, interval.slope
                for short, off in (
                    (quantile < centre - widths, at_most - lower),
                    (quantile > centre + widths, at_least - upper),
                ):
                    assert weights[short].sum() <= math.exp(min(c - h * off, 0.0)) * (1 + 1e-9)


def test_how_far_the_intervals_aim():
    """At n = 1,000 and 65 % of eps = 1, beside the ranks of the classical interval."""
    for q, aimed, classical in ((0.5, 41, 31), (0.9, 38, 19)):
        assert [round(q * 1000 - RankInterval(q, 0.05, 0.65).targets(1000)[0])] == [aimed]
        assert round(1.96 * math.sqrt(1000 * q * (1 - q))) == classical


def test_all_narrower_half_widths_weigh_as_stated():
    prior = np.exp(_rank_interval._LOG_PRIOR)
    narrower = np.concatenate([[0.0], np.cumsum(prior)[:-1]])
    assert np.max(narrower / prior) <= math.exp(_rank_interval._LOG_NARROWER)
    assert np.max(narrower / prior) > 0.99 * math.exp(_rank_interval._LOG_NARROWER)


def test_where_rows_do_not_suffice_hardly_a_finite_half_width_is_given():
    """Exactly: with a good estimate, and with any other, at most 1 % are determined and longer than the data
    a hundred times; one draw of six was before."""
    rng = np.random.default_rng(5)
    cases = [(60, 0.5, 0.65), (1000, 0.9, 0.325), (500, 0.9, 0.65), (200, 0.9, 1.95), (30, 0.5, 0.65)]
    widths = _rank_interval._HALF_WIDTHS
    for n, q, eps in cases:
        interval = RankInterval(q, 0.05, eps)
        for x in (np.exp(10 + rng.standard_normal(n)), 1990 + rng.integers(0, 31, n), 1e-6 * rng.random(n)):
            x = np.sort(x)
            for centre in (float(np.quantile(x, q)), 3.6e4, -1e11, 1e-90):
                given = ~_rank_interval.without_end(np.full(len(widths), centre), widths)
                long = widths > 100 * max(x[-1] - x[0], abs(centre - x[0]))
                assert softmax(interval.log_weights(x, centre))[given & long].sum() < 0.01


def test_no_end_takes_little_from_where_rows_do_suffice():
    """Exactly, for a median and a .9 quantile; fewer rows have more without an end."""
    rng, widths = np.random.default_rng(6), _rank_interval._HALF_WIDTHS
    x = np.sort(rng.standard_normal(150))
    few = softmax(RankInterval(0.5, 0.05, 0.325).log_weights(x, 0.0))
    assert few[_rank_interval.without_end(np.zeros(len(widths)), widths)].sum() > 0.3
    for n, q, eps in ((200, 0.5, 0.325), (500, 0.5, 0.325), (1000, 0.9, 0.65), (2000, 0.9, 0.325)):
        interval = RankInterval(q, 0.05, eps)
        for scale in (1e-6, 1.0, 1e5, 1e9, 8.64e13):
            x = np.sort(scale * rng.standard_normal(n))
            for centre in (float(np.quantile(x, q)), 1e-90):
                lost = _rank_interval.without_end(np.full(len(widths), centre), widths)
                assert softmax(interval.log_weights(x, centre))[lost].sum() < 0.03


@pytest.mark.parametrize("case", CASES)
@pytest.mark.slow
def test_laws_of_neighbours_differ_by_eps_at_most(case):
    """Exact log-ratios over all half-widths, for small data sets, piles of ties and all their neighbours."""
    interval, worst = RankInterval(*case), 0.0
    values = [-1e9, 0.0, 1.0, 3.0]
    small = [x for n in range(4) for x in itertools.combinations_with_replacement(values, n)]
    piles = [np.repeat(values, n) for n in itertools.product((0, 25, 50, 400), repeat=4)]
    for x in (*small, *piles):
        laws = [
            log_softmax(interval.log_weights(np.sort(np.array([*x, *more])), 1.0))
            for more in ([], *([v] for v in values))
        ]
        worst = max(worst, *(float(np.max(np.abs(law - laws[0]))) for law in laws[1:]))
    assert worst <= interval.eps * (1 + 1e-9)
    # not so far below that a factor of 2 would go unseen
    assert worst > 0.5 * interval.eps


def test_too_few_rows_give_an_infinite_interval():
    assert RankInterval(0.5, 0.05, 0.1).release(np.array([1.0]), 1.0, Randomness(1)) == math.inf


def p_value(eps, stated, draws=4000):
    """Of draws at `eps`, of the law ``w exp(eps score / (2 sensitivity))`` at the budget `stated`."""
    x, rng = np.sort(np.random.default_rng(3).standard_normal(200)), Randomness(4)
    interval, other = RankInterval(0.5, 0.05, stated), RankInterval(0.5, 0.05, eps)
    expected = draws * softmax(interval.log_weights(x, 0.1))
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
