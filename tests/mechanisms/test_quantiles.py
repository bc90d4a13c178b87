"""Several quantiles together: without noise those of the sample, what a row moves, and the coverage of their
intervals."""

import math

import numpy as np
import pytest

from dpstats.mechanisms import quantiles
from dpstats.mechanisms.quantiles import Distribution, bisected, bisection_sensitivity, counted
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import from_key

Q = np.array([0.25, 0.5, 0.75])
LARGE = 1e6


def skewed(n, seed=0):
    return np.sort(np.exp(np.random.default_rng(seed).standard_normal(n)))


@pytest.mark.parametrize(
    "q", [[0.5], [0.25, 0.5, 0.75], [0.1, 0.2, 0.9], [0.2, 0.8, 0.9], np.arange(1, 10) / 10]
)
def test_the_sensitivity_is_the_longest_vector_that_a_row_can_add(q):
    q = np.array(q)
    points = np.arange(len(q)) + 1.0
    longest = max(np.linalg.norm((x < points) - q) for x in np.arange(len(q) + 1) + 0.5)
    assert bisection_sensitivity(q) == pytest.approx(longest)


def test_the_sensitivity_has_room_for_rounding(monkeypatch):
    """A row below all points, among so many that their products with the quantiles are rounded."""
    seen, q = [], np.array([0.1, 0.3, 0.7])
    monkeypatch.setattr(quantiles, "gaussian", lambda value, s, *_: seen.append(s) or value)
    bisected(skewed(5), q, 1.0, Randomness(0))
    n = 2**31 - np.arange(1, 1_000)[:, None]
    moved = np.linalg.norm((n - q * n) - ((n - 1) - q * (n - 1)), axis=1).max()
    assert bisection_sensitivity(q) < moved <= min(seen)


def test_a_row_is_counted_once_in_each_histogram(monkeypatch):
    seen, real = [], quantiles.gaussian
    monkeypatch.setattr(
        quantiles, "gaussian", lambda value, *given: seen.append((value, *given[:2])) or real(value, *given)
    )
    x = skewed(50)
    for rows in (x, x[1:], x[:-1]):
        counted(rows, np.array([0.5, 1.0, 2.0]), 1.0, 0.1, 0.2, 0.3, Randomness(0))
    for whole, *others in zip(seen[:3], seen[3:6], seen[6:], strict=True):
        assert all(np.linalg.norm(whole[0] - other[0]) <= whole[1] == 1.0 for other in others)
    assert [mu for *_, mu in seen] == [0.1, 0.2, 0.3] * 3


def test_points_that_would_cross_are_kept_in_order(monkeypatch):
    """Else a row could lie below a higher point and above a lower one, and move the vector by more."""
    seen = []
    monkeypatch.setattr(quantiles, "from_key", lambda key: seen.append(key) or from_key(key))
    for seed in range(20):
        found = bisected(skewed(50), Q, 0.05, Randomness(seed))
        assert np.all(np.diff(found) >= 0)
    assert all(np.all(np.diff(key.astype(float)) >= 0) for key in seen)


@pytest.mark.parametrize("scale", [1.0, -1e-9, 1e12])
def test_without_noise_quantiles_are_those_of_the_sample(scale):
    x = np.sort(scale * skewed(4_001))
    found = bisected(x, Q, LARGE, Randomness(1))
    assert found == pytest.approx(np.quantile(x, Q), rel=1e-6)
    around = counted(x, found, 1.0, LARGE, LARGE, LARGE, Randomness(2))
    assert around.below == pytest.approx(np.searchsorted(x, around.at), abs=0.01)


def test_values_of_few_digits_are_found_as_they_are():
    x = np.sort(np.random.default_rng(0).integers(0, 5, 10_000).astype(float))
    assert bisected(x, Q, 5.0, Randomness(0)).tolist() == [1.0, 2.0, 3.0]
    x = np.sort(np.round(0.1 * np.random.default_rng(0).integers(-40, 41, 10_000), 1))
    assert bisected(x, Q, 5.0, Randomness(0)) == pytest.approx(np.quantile(x, Q, method="inverted_cdf"))


@pytest.mark.parametrize("value", [0.0, 7.0, -1e300, 5e-324])
def test_a_column_of_one_value(value):
    x = np.full(1_000, value)
    found = bisected(x, Q, 1.0, Randomness(0))
    around = counted(x, found, 0.0, 1.0, 1.0, 1.0, Randomness(1))
    assert found == pytest.approx([np.clip(value, -(2.0**101), 2.0**101)] * 3, rel=1e-9, abs=1e-30)
    assert np.all(np.isfinite(around.at)) and np.all(np.diff(around.below) >= 0)


def test_without_rows_there_is_an_answer():
    x = np.empty(0)
    found = bisected(x, Q, 1.0, Randomness(0))
    around = counted(x, found, 0.0, 1.0, 1.0, 1.0, Randomness(1))
    assert np.all(np.isfinite(found)) and around.interval(0.5, 1.0, 10.0, 0.05)[0] == -math.inf


def test_beyond_the_points_nothing_is_known():
    x = skewed(1_000)
    around = counted(x, np.quantile(x, Q), 1.0, LARGE, LARGE, LARGE, Randomness(0))
    assert around.quantile(-5.0) == -math.inf and around.quantile(1_005.0) == math.inf


def test_the_ends_of_an_interval_have_the_noise_of_their_own_points():
    at, below = np.arange(11.0), np.linspace(0.0, 1_000.0, 11)
    for loud, ends in ((at < 0, (4, 6)), (at > 5, (4, 7)), (at < 5, (3, 6))):
        found = Distribution(at, below, np.where(loud, 60.0, 1.0), at[5:6])
        assert found.interval(0.5, 1_000, 0.0, 0.05) == ends


@pytest.mark.slow
@pytest.mark.parametrize("grain", [0.0, 0.05])
def test_intervals_cover(grain):
    """Continuous values, and values rounded to few digits, which lie in few places."""
    runs, n, mu = 600, 5_000, 0.1
    rng, hits = np.random.default_rng(5), 0
    truth = np.exp(np.array([-0.6744897501960817, 0.0, 0.6744897501960817]))
    if grain:
        truth = np.ceil(truth / grain - 0.5) * grain
    for seed in range(runs):
        x = np.sort(np.exp(rng.standard_normal(n)))
        x = np.round(x / grain) * grain if grain else x
        randomness = Randomness(seed)
        found = bisected(x, Q, mu, randomness)
        around = counted(x, found, 1.0, mu, mu, mu, randomness)
        ends = np.array([around.interval(q, n, 1.0, 0.05) for q in Q])
        hits += np.sum((ends[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= ends[:, 1]))
    # false alarm 1e-6 below .95; runs are independent, the three of a run are not
    assert hits / (3 * runs) > 0.95 - 4.9 * math.sqrt(0.05 * 0.95 / runs)
    assert hits / (3 * runs) < 0.985 or grain


def test_the_estimate_stays_on_a_value_that_the_counts_allow():
    x = np.sort(np.repeat([1.0, 2.0, 3.0, 4.0], 500))
    around = counted(x, np.array([1.0, 2.0, 3.0]), 1.0, 1.0, 1.0, 1.0, Randomness(3))
    assert around.estimate(750.0) == 2.0
    assert around.estimate(1_250.0) == 3.0
