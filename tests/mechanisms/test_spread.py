"""The private scale: sensitivity by brute force, accuracy with few rows."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chisquare

from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.spread import GRID, half_mass_spread, spread_scores


def worst_move(scores, trials=300):
    rng, worst = np.random.default_rng(1), 0.0
    for _ in range(trials):
        x = rng.choice([0.0, 1e-30, 1.0, 1.5, 8.0, 1e9, -3.0, *rng.normal(size=3)], rng.integers(1, 30))
        replaced = x.copy()
        replaced[0] = rng.choice([0.0, 1.0, -1e30, 7.0])
        with np.errstate(invalid="ignore"):
            for other in (replaced, x[1:], np.append(x, 2.0)):
                worst = max(worst, np.abs(scores(x) - scores(other)).max())
    return worst


@pytest.mark.slow
def test_scores_move_by_at_most_one():
    assert worst_move(spread_scores) <= 1


@pytest.mark.slow
def test_scores_of_a_sum_over_two_intervals_are_caught():
    def doubled(x):
        return 2 * spread_scores(x)

    assert worst_move(doubled) > 1


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


def p_value(eps, stated, draws=4000):
    """Of draws at `eps`, of the law ``exp(eps score / 2)`` at the budget `stated`."""
    x, noise = np.array([0.0, 0.5, 1.0, 3.0, 9.0, 27.0, 81.0, 243.0]), Randomness(4)
    expected = draws * softmax(stated / 2 * spread_scores(x))
    seen = np.bincount(
        [np.searchsorted(GRID, half_mass_spread(x, eps, noise)) for _ in range(draws)], minlength=len(GRID)
    )
    common = expected > 5
    return chisquare(seen[common], expected[common] * seen[common].sum() / expected[common].sum()).pvalue


@pytest.mark.slow
def test_draws_have_the_stated_law():
    """False-alarm rate 1e-6."""
    assert p_value(3.0, 3.0) > 1e-6
    # test of the test
    assert p_value(6.0, 3.0) < 1e-6
