"""Half-widths of rank intervals: sensitivity, law, and how rarely they stop short."""

import functools

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import binom, chisquare

from dpstats.mechanisms import half_width as module
from dpstats.mechanisms.half_width import ALPHA, HalfWidth, around_medians, survival
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.slope_depths import largest_depth

TWO_ENDS = 400, 2.0
"""Rows and a budget with which each end has a half-width of its own."""


def column_levels(y, value, widths):
    below = (y[:, None] <= value - widths).sum(axis=0)
    above = (y[:, None] >= value + widths).sum(axis=0)
    return np.array([below, above]) - len(y) / 2


def sides(half, levels):
    """What each draw is made from."""
    return levels if half.ends == 2 else levels.max(axis=0, keepdims=True)


def law(half, side):
    return softmax(half.eps / half.ends / 2 * half.scores(side))


def neighbours(trials=300):
    """One record replaced, or one that ceases to be usable."""
    rng = np.random.default_rng(1)
    for _ in range(trials):
        y = rng.choice([0.0, 1e-9, 1.0, 5.0, *rng.normal(size=5)], int(rng.integers(1, 60)))
        other = y.copy()
        other[0] = rng.choice([-1e9, 0.0, 1.0, 1e9])
        yield from ((y, other), (y, y[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("eps", [1.0, 8.0])
def test_scores_have_sensitivity_one(eps):
    half, worst = HalfWidth("count", 60, eps), 0.0
    widths = half.candidates(1.0)
    for pair in neighbours():
        a, b = (np.array([half.scores(s) for s in sides(half, column_levels(v, 0.3, widths))]) for v in pair)
        worst = max(worst, float(np.abs(a - b).max()))
    assert 0.9 < worst <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("eps", [1.0, 8.0])
def test_all_draws_together_are_eps_private(eps):
    """The exact log-ratio of the law of one half-width or two, which are independent."""
    half, worst = HalfWidth("count", 60, eps), 0.0
    assert half.ends == (2 if eps > 1 else 1)
    widths = half.candidates(1.0)
    for pair in neighbours():
        a, b = (np.log([law(half, s) for s in sides(half, column_levels(v, 0.3, widths))]) for v in pair)
        worst = max(worst, float((a - b).max(axis=1).sum()), float((b - a).max(axis=1).sum()))
    assert 0.6 * eps < worst <= eps


def test_a_slack_that_moves_with_the_usable_rows_is_public_instead():
    """The slack depends on the rows that were handed in alone."""
    half = HalfWidth("count", 60, 1.0)
    assert half.scores(np.zeros(len(half.candidates(1.0))))[0] == -half.slack


@pytest.mark.parametrize("n", [1, 7, 40, 400, 5000])
def test_law_of_counts(n):
    """The two-sided test of the binomial, with the half of a rank that the slack adds."""
    x = np.linspace(0.1, 3, 60)
    exact = 2 * binom.cdf(np.ceil(n / 2 - np.sqrt(n) * x - 0.5) - 1, n, 0.5)
    assert np.all(exact <= survival("count", x) * 1.05 + 1e-9)


def walk(n, count, rng):
    signs = rng.choice([-1, 1], (count, n))
    S = np.concatenate([np.zeros((count, 1)), np.cumsum(signs, axis=1)], axis=1)
    return np.abs(S - S[:, -1:] / 2).max(axis=1) / np.sqrt(n)


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 300])
def test_law_of_the_walk(n):
    """False-alarm rate 1e-6."""
    found = walk(n, 20_000, np.random.default_rng(2))
    for x in (1.2, 1.4, 1.5, 1.7):
        p = survival("walk", np.array([x]))[0]
        assert np.mean(found - 0.5 / np.sqrt(n) > x) < p + 4.9 * np.sqrt(p / 20_000)


def ranks(n, count, rng):
    last = np.ones(n, bool)
    shuffled = (rng.permutation(n).astype(float) for _ in range(count))
    return np.array([n / 2 - np.array([largest_depth(r, last), largest_depth(-r, last)]) for r in shuffled])


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 200, 1000])
def test_law_of_ranks(n):
    """False-alarm rate 1e-6."""
    found = (ranks(n, 4000, np.random.default_rng(3)) - 0.5) / np.sqrt(n)
    for x in (module._NOT_BOTH, 1.0, 1.2, 1.4):
        p = survival("ranks", np.array([x]))[0]
        narrow = 1 - module._FEW * n**-0.25
        # both sides together, which is more than the larger of the two
        assert (found > x * narrow).sum(axis=1).mean() < p + 4.9 * np.sqrt(p / 4000)


def test_laws_are_survival_functions():
    x = np.linspace(0, 4, 400)
    for law in ("ranks", "walk", "count"):
        p = survival(law, x)
        assert np.all(np.diff(p) <= 1e-12) and p[0] == 1 and p[-1] < 1e-10


def miss(half, y, value):
    """Exact probability, given the data, that 0 is outside."""
    widths = half.candidates(1.0)
    levels = sides(half, column_levels(y, value, widths))
    return law(half, levels[0 if value > 0 else -1])[:-1][np.abs(value) > widths].sum()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "eps"), [(30, 1.0), (400, 0.2), TWO_ENDS])
@pytest.mark.parametrize("law", ["normal", "cauchy", "clusters", "coin"])
def test_intervals_cover_the_median_whatever_the_law(n, eps, law):
    """Mean over 400 data sets of the exact probability; false-alarm rate 1e-6. The value is off by as much as
    it likes."""
    half, rng, missed = HalfWidth("count", n, eps), np.random.default_rng(4), []
    for _ in range(400):
        y = {
            "normal": lambda: rng.normal(size=n),
            "cauchy": lambda: rng.standard_cauchy(n),
            "clusters": lambda: rng.choice([-5.0, 5.0], n) + 0.01 * rng.normal(size=n),
            "coin": lambda: rng.choice([-1.0, 0.0, 1.0], n),
        }[law]()
        missed.append(miss(half, y, rng.choice([-2.0, 0.001, 0.1, 2.0])))
    assert np.mean(missed) < ALPHA + 4.9 * np.std(missed) / 20 + 1e-9


def test_without_allowance_for_the_candidates_it_would_not_cover(monkeypatch):
    """All rows but a few at the ends of a gap in which the value is: every candidate within tempts."""
    n, eps = 400, 0.5
    y, half = np.repeat([-30.0, 30.0], n // 2), HalfWidth("count", n, eps)
    y[: int(half.slack)] = 0.0005
    safe = miss(half, y, 10.0)
    monkeypatch.setattr(HalfWidth, "slack", property(lambda self: 2.0))
    assert miss(half, y, 10.0) > safe


@pytest.mark.parametrize(("n", "eps"), [(30, 0.1), (400, 0.2), TWO_ENDS])
def test_the_slack_allows_for_sampling_and_all_smaller_half_widths(n, eps):
    """The law of binomial counts, and the weight of what is smaller than one candidate at its score."""
    half = HalfWidth("count", n, eps)
    weights = law(half, np.full(len(half.candidates(1.0)), -half.slack))
    smaller, k = weights[:-1].sum() / weights[-1], np.arange(n + 1)
    short = half.slack - np.maximum(n / 2 - (k if half.ends == 2 else np.minimum(k, n - k)), 0)
    missed = binom.pmf(k, n, 0.5) @ np.minimum(smaller * np.exp(-eps / half.ends / 2 * short), 1)
    assert 0.03 < half.ends * missed <= ALPHA


def test_few_rows_give_an_infinite_interval():
    half = HalfWidth("walk", 5, 0.1)
    assert half.release(half.candidates(1.0), np.full((2, 67), 2.5), Randomness(1)).tolist() == [np.inf] * 2


@functools.cache
def draws_of(half, draws):
    """The levels, and the places of so many pairs of half-widths among the candidates."""
    y, rng = np.random.default_rng(5).normal(size=half.rows), Randomness(6)
    widths = half.candidates(1.0)
    levels = column_levels(y, 0.02, widths)
    return levels, np.searchsorted(widths, [half.release(widths, levels, rng) for _ in range(draws)])


def p_value(half, other, draws=4000):
    """Of draws of one law, against the other's; pairs where there are two."""
    widths = half.candidates(1.0)
    levels, drawn = draws_of(half, draws)
    laws = [law(other, side) for side in sides(half, levels)]
    expected = draws * (laws[0] if half.ends == 1 else np.multiply.outer(*laws).ravel())
    cells = drawn[:, 0] if half.ends == 1 else drawn @ [len(widths) + 1, 1]
    assert half.ends == 2 or np.array_equal(drawn[:, 0], drawn[:, 1])
    seen = np.bincount(cells, minlength=len(expected))
    common = expected > 5
    return chisquare(seen[common], expected[common] * seen[common].sum() / expected[common].sum()).pvalue


@pytest.mark.slow
@pytest.mark.parametrize(("n", "eps"), [(300, 1.0), TWO_ENDS])
def test_draws_have_the_stated_law(n, eps):
    """False-alarm rate 1e-6."""
    half = HalfWidth("count", n, eps)
    assert p_value(half, half) > 1e-6
    # test of the test
    assert p_value(half, HalfWidth("count", n, 2 * eps)) < 1e-6


def test_columns_have_counts_of_their_own(monkeypatch):
    seen = []
    monkeypatch.setattr(HalfWidth, "release", lambda self, widths, levels, rng: seen.append(levels) or [1, 1])
    Y, half = np.random.default_rng(7).normal(size=(50, 2)), HalfWidth("count", 50, 1.0)
    around_medians(Y, np.array([0.1, -0.2]), np.array([1.0, 2.0]), half, Randomness(1))
    for j, (value, unit) in enumerate(((0.1, 1.0), (-0.2, 2.0))):
        assert np.array_equal(seen[j], column_levels(Y[:, j], value, half.candidates(unit)))
