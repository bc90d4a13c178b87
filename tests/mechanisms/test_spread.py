"""The private scale: sensitivity by brute force, accuracy with few rows."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chisquare

from dpstats.mechanisms import spread
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.spread import (
    GRID,
    distance_weights,
    half_mass_spread,
    spread_scores,
    typical_distance,
)

NO_ROWS = distance_weights(np.array([]), 2.0)


def distance_scores(x):
    """Times the budget over 2, and with what is public, these are the weights."""
    return distance_weights(x, 2.0) - NO_ROWS


@pytest.mark.parametrize("x", [np.repeat([0.0, 3.0], [700, 300]), np.repeat([1e6, 1e6 + 3], [500, 500])])
@pytest.mark.parametrize("factor", [1.0, 1e-4, 1e5])
@pytest.mark.slow
def test_values_of_which_half_are_the_same_have_a_distance(x, factor):
    """Their spread is the least of all candidates."""
    noise = Randomness(5)
    found = np.array([typical_distance(factor * x, 0.4, noise) for _ in range(40)])
    assert np.all((factor * 3 / 8 <= found) & (found <= factor * 3))


def test_the_distance_withstands_rows_far_out():
    rng, noise = np.random.default_rng(6), Randomness(6)
    x = np.where(rng.random(1000) < 0.3, 1e20, 1.0) * rng.normal(size=1000)
    assert max(typical_distance(x, 0.2, noise) for _ in range(40)) <= 4


@pytest.mark.parametrize("x", [[], [3.0], np.zeros(50), [1e308, -1e308, 0.0]])
def test_any_data_have_a_distance(x):
    with np.errstate(over="ignore"):
        assert typical_distance(np.array(x, dtype=float), 1.0, Randomness(3)) in GRID


def test_a_score_of_a_distance_is_that_of_its_definition():
    x = np.random.default_rng(7).choice([0.0, 1.0, 1.5, 8.0], 30)
    centres = np.unique((x[:, None] + x) / 2)

    def held(s):
        return max(np.sum(np.abs(x - c) <= s) for c in centres)

    expected = [min((held(2 * s) - held(s / 2)) / 2, held(2 * s) - 15) for s in GRID]
    assert distance_scores(x) == pytest.approx(expected)


def worst_move(scores, trials=300):
    rng, worst = np.random.default_rng(1), 0.0
    for _ in range(trials):
        x = rng.choice([0.0, 1e-30, 1.0, 1.5, 8.0, 1e9, -3.0, *rng.normal(size=3)], rng.integers(1, 30))
        replaced = x.copy()
        replaced[0] = rng.choice([0.0, 1.0, -1e30, 7.0])
        with np.errstate(invalid="ignore"):
            before = scores(x)
            for other in (replaced, x[1:], np.append(x, 2.0)):
                worst = max(worst, np.abs(before - scores(other)).max())
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("scores", [spread_scores, distance_scores])
def test_scores_move_by_at_most_one(scores):
    """And by nearly as much: those of a sum over two intervals would be caught."""
    assert 0.75 < worst_move(scores) <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("centre", [0.0, 1e6])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_few_rows_give_the_scale_to_a_factor_of_four(centre, scale):
    rng, noise = np.random.default_rng(2), Randomness(2)
    x = centre + scale * rng.standard_cauchy(400)
    found = [half_mass_spread(x, 0.2, noise) for _ in range(50)]
    assert scale / 4 <= np.median(found) <= 4 * scale


@pytest.mark.parametrize("x", [[], [3.0], np.zeros(50), [1e308, -1e308, 0.0]])
def test_any_data(x):
    with np.errstate(over="ignore"):
        assert half_mass_spread(np.array(x, dtype=float), 1.0, Randomness(3)) in GRID


X = np.array([0.0, 0.5, 1.0, 3.0, 9.0, 27.0, 81.0, 243.0])


def p_value(weights, stated, draws=4000):
    """Of draws by `weights`, of the law ``exp(weight)`` of those that are `stated`."""
    noise, expected = Randomness(4), draws * softmax(stated)
    seen = np.bincount(
        [np.searchsorted(GRID, spread._drawn(weights, noise)) for _ in range(draws)], minlength=len(GRID)
    )
    common = expected > 5
    return chisquare(seen[common], expected[common] * seen[common].sum() / expected[common].sum()).pvalue


@pytest.mark.parametrize(
    ("release", "weights"),
    [(half_mass_spread, lambda x, eps: eps / 2 * spread_scores(x)), (typical_distance, distance_weights)],
)
@pytest.mark.slow
def test_draws_have_the_stated_law(release, weights):
    """False-alarm rate 1e-6."""
    by_weights = [spread._drawn(weights(X, 3.0), Randomness(seed)) for seed in range(60)]
    assert [release(X, 3.0, Randomness(seed)) for seed in range(60)] == by_weights
    assert p_value(weights(X, 3.0), weights(X, 3.0)) > 1e-6
    # test of the test
    assert p_value(weights(X, 6.0), weights(X, 3.0)) < 1e-6
