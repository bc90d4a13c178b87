"""Private quantiles: the exact output law on the lattice of doubles, for all small data sets and
neighbours."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from dpstats.errors import ParameterError
from dpstats.mechanisms import exponential
from dpstats.mechanisms.exponential import (
    coarsen,
    float_keys,
    keys_to_floats,
    log_weights,
    quantile,
    quantile_cells,
)
from dpstats.mechanisms.rng import Randomness

ALARM = 1e-6
TINY, MAX = 5e-324, np.finfo(float).max
HOSTILE = (-MAX, -1.0, -TINY, -0.0, 0.0, TINY, 1.0, np.nextafter(1.0, 2), 1e308)


@functools.lru_cache(maxsize=4096)
def log_law(x, q, eps, relation, weigh):
    """First keys of the cells, in order, and the log probability of each lattice point of a cell."""
    cells = quantile_cells(np.array(x, dtype=float), q)
    weights = weigh(cells, q, eps, relation)
    density = weights - np.log(cells.size.astype(float)) - logsumexp(weights)
    order = np.argsort(cells.first)
    return cells.first[order], density[order]


def log_densities(x, q, eps, relation, where, weigh=log_weights):
    """Log probability of each lattice point with a key in `where`."""
    first, density = log_law(tuple(x), q, eps, relation, weigh)
    return density[np.searchsorted(first, where, side="right") - 1]


def worst_log_ratio(x, other, q, eps, relation, weigh=log_weights):
    """Largest log-ratio of the two output laws over every lattice point: both are constant between keys."""
    keys = np.unique(float_keys([*x, *other]))
    where = np.unique(np.concatenate([keys - 1, keys, keys + 1, [-exponential.MAX_KEY]]))
    where = where[np.abs(where) <= exponential.MAX_KEY]
    p, r = (log_densities(data, q, eps, relation, where, weigh) for data in (x, other))
    return float(np.abs(p - r).max())


def neighbours(values, n, relation):
    """Every pair of data sets that differ in one row, once; by number, as 0 and -0 are equal."""
    every, seen = range(len(values)), set()
    for x in itertools.combinations_with_replacement(every, n):
        for new in every:
            others = (
                [(*x, new)] if relation == "add-remove" else [(*x[:i], new, *x[i + 1 :]) for i in range(n)]
            )
            for other in others:
                if (pair := frozenset((x, tuple(sorted(other))))) not in seen:
                    seen.add(pair)
                    yield [values[i] for i in x], [values[i] for i in other]


def worst_over_small_data(q, eps, relation, largest=3):
    values = HOSTILE if largest < 4 else (0.0, 1.0, 2.0)
    return max(
        worst_log_ratio(x, other, q, eps, relation, log_weights)
        for n in range(largest + 1)
        for x, other in neighbours(values, n, relation)
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("relation", ["add-remove", "substitution"])
@pytest.mark.parametrize("q", [0.5, 0.1, 0.9])
def test_every_output_keeps_within_eps_between_all_small_neighbours(q, relation):
    eps = 1.3
    assert worst_over_small_data(q, eps, relation) <= eps * (1 + 1e-9)
    assert worst_over_small_data(q, eps, relation, largest=5) <= eps * (1 + 1e-9)


def worst_over_piles(q, eps, relation, weigh=log_weights):
    """As `worst_over_small_data`, for piles of ties in many proportions: there the normaliser moves as
    well."""
    worst = 0.0
    for low, middle, high in itertools.product((0, 1, 8, 30), (0, 30, 60), (0, 1, 8, 30)):
        x = [-1.0] * low + [0.0] * middle + [1.0] * high
        others = [[*x, -1.0], [*x, 0.0], [*x, 1.0]]
        if relation == "substitution":
            others = [[*x[1:], 1.0], [*x[:-1], -1.0]] if x else []
        worst = max([worst, *(worst_log_ratio(x, other, q, eps, relation, weigh) for other in others)])
    return worst


CASES = list(itertools.product(["add-remove", "substitution"], [0.5, 0.2, 0.9]))


@pytest.mark.slow
@pytest.mark.parametrize(("relation", "q"), CASES)
def test_eps_is_attained_so_the_two_cannot_be_dropped(relation, q):
    assert 0.999 * 2.0 < worst_over_piles(q, 2.0, relation) <= 2.0 * (1 + 1e-9)

    def without_two(cells, q, eps, relation):
        return log_weights(cells, q, 2 * eps, relation)

    assert worst_over_piles(q, 2.0, relation, without_two) > 1.9 * 2.0


@pytest.mark.parametrize("q", [0.1, 0.9])
def test_check_catches_the_sensitivity_of_the_median_at_other_quantiles(q):
    def as_for_the_median(cells, q, eps, relation):
        return log_weights(cells, 0.5, eps, relation)

    assert worst_over_piles(q, 2.0, "add-remove", as_for_the_median) > 1.5 * 2.0


def test_cells_and_scores_are_those_of_the_definition():
    """Every lattice point between two close bounds, one by one."""
    generator = np.random.default_rng(1)
    for trial in range(200):
        lo = int(generator.choice([-6, 0, int(float_keys(1.0)), -int(float_keys(2.0))]))
        keys = np.arange(lo, lo + 13)
        n = int(generator.integers(0, 7))
        x = keys_to_floats(generator.choice(keys[2:-2], n)) if n else np.array([])
        q = float(generator.choice([0.5, 0.25, 0.9]))
        bounds = keys_to_floats([keys[0], keys[-1]])
        cells = quantile_cells(x, q, bounds)
        got = {}
        for first, size, score in zip(cells.first, cells.size, cells.score, strict=True):
            for key in range(int(first), int(first) + int(size)):
                assert key not in got
                got[key] = score
        y = keys_to_floats(keys)
        below, upto = (x[:, None] < y).sum(axis=0), (x[:, None] <= y).sum(axis=0)
        want = -np.maximum(np.maximum(below - q * n, q * n - upto), 0)
        assert sorted(got) == keys.tolist()
        np.testing.assert_allclose([got[key] for key in keys], want, atol=1e-12, err_msg=str(trial))


@pytest.mark.filterwarnings("error")
def test_cells_cover_the_whole_lattice_without_overflow():
    for x in ([], [0.0], [-MAX], [MAX], [-MAX, MAX], [-MAX, -TINY, -0.0, 0.0, TINY, 1.0, MAX, MAX]):
        cells = quantile_cells(np.array(x), 0.5)
        assert sum(int(s) for s in cells.size) == 2 * exponential.MAX_KEY + 1
        atoms = cells.first[cells.size == 1]
        assert set(float_keys(np.array(x)).tolist()) <= set(atoms.tolist())
        assert np.isfinite(log_weights(cells, 0.5, 1.0, "add-remove")).all()


def test_keys_are_ordered_like_doubles_and_merge_the_zeros():
    generator = np.random.default_rng(2)
    x = generator.integers(0, 2**64, 20_000, dtype=np.uint64).view(float)
    x = np.concatenate([x[np.isfinite(x)], HOSTILE])
    keys = float_keys(x)
    order = np.argsort(x, kind="stable")
    assert (np.diff(keys[order]) >= 0).all()
    assert ((np.diff(keys[order]) == 0) == (np.diff(x[order]) == 0)).all()
    np.testing.assert_array_equal(keys_to_floats(keys), x)
    assert float_keys(-0.0) == float_keys(0.0) == 0
    np.testing.assert_array_equal(float_keys(-x), -keys)


def test_coarse_values_are_monotone_symmetric_and_within_a_relative_rounding():
    generator = np.random.default_rng(3)
    keys = np.sort(
        np.concatenate(
            [
                generator.integers(-exponential.MAX_KEY, exponential.MAX_KEY, 5000),
                generator.integers(-(2**24), 2**24, 1000),
                [0, exponential.MAX_KEY],
            ]
        )
    )
    values = np.array([coarsen(int(key)) for key in keys])
    exact = keys_to_floats(keys)
    assert (np.diff(values) >= 0).all()
    assert np.isfinite(values).all()
    normal = abs(exact) > 2.3e-308
    assert (abs(values[normal] / exact[normal] - 1) <= 2.0**-30).all()
    assert [coarsen(int(key)) for key in float_keys(values)] == values.tolist()
    assert [coarsen(-int(key)) for key in keys] == (-values).tolist()
    assert all(math.copysign(1, coarsen(key)) == 1 for key in (-1, -(2**20), 0, 1))


@pytest.mark.slow
def test_draws_follow_the_law_of_the_cells():
    x, bounds, q, eps, draws = np.array([1.0, 2.0, 2.0, 4.0, 50.0]), (0.5, 64.0), 0.4, 1.5, 6000
    cells = quantile_cells(x, q, bounds)
    rng = Randomness(seed=4)
    drawn = np.array([quantile(x, q, eps, rng, bounds=bounds) for _ in range(draws)])
    weights = log_weights(cells, q, eps, "add-remove")
    expected = draws * np.exp(weights - logsumexp(weights))
    order = np.argsort(cells.first)
    counts = np.bincount(
        np.searchsorted(cells.first[order], float_keys(drawn), side="right") - 1, minlength=len(order)
    )
    common = expected[order] > 5
    assert common.sum() >= 4
    assert (
        stats.chisquare(
            counts[common], expected[order][common] * counts[common].sum() / expected[order][common].sum()
        ).pvalue
        > ALARM
    )
    inside = float_keys(drawn[(drawn > 2) & (drawn < 4)])
    span = float_keys(np.array([2.0, 4.0]))
    assert stats.kstest((inside - span[0]) / (span[1] - span[0]), "uniform").pvalue > ALARM


@pytest.mark.slow
def test_atoms_are_drawn_with_their_probability(monkeypatch):
    """On a lattice of a few thousand points ties outweigh the gaps; the rounding of the answer would hide
    them."""
    monkeypatch.setattr(exponential, "coarsen", keys_to_floats)
    keys = np.array([-1500, -1500, 0, 0, 0, 2000])
    x, bounds = keys_to_floats(keys), keys_to_floats(np.array([-2500, 2500]))
    cells = quantile_cells(x, 0.5, bounds)
    weights = log_weights(cells, 0.5, 6.0, "add-remove")
    rng, draws = Randomness(seed=5), 8000
    expected = draws * np.exp(weights - logsumexp(weights))
    drawn = float_keys([quantile(x, 0.5, 6.0, rng, bounds=bounds) for _ in range(draws)])
    order = np.argsort(cells.first)
    counts = np.bincount(np.searchsorted(cells.first[order], drawn, side="right") - 1, minlength=len(order))
    common = expected[order] > 10
    assert (cells.size[order][common] == 1).any()
    scaled = expected[order][common] * counts[common].sum() / expected[order][common].sum()
    assert stats.chisquare(counts[common], scaled).pvalue > ALARM


class Extreme(Randomness):
    """Words that are all zero or all one."""

    def __init__(self, word):
        super().__init__(seed=0)
        self._word = word

    def words(self, size):
        return np.full(size, self._word, dtype=np.uint64)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_extreme_words_stay_inside_the_lattice_and_the_bounds(word):
    for x in ([], [0.0], [MAX], [-MAX, MAX], list(HOSTILE)):
        x = np.array(x)
        assert abs(quantile(x, 0.5, 1.0, Extreme(word))) <= MAX
        assert 1.0 <= quantile(x, 0.5, 1.0, Extreme(word), bounds=(1.0, 3.0)) <= 3.0
        assert quantile(x, 0.5, 1.0, Extreme(word), bounds=(2.5, 2.5)) == 2.5


@pytest.mark.filterwarnings("error")
@pytest.mark.slow
def test_no_data_gives_a_uniform_lattice_point():
    rng = Randomness(seed=6)
    drawn = np.array([quantile(np.array([]), 0.3, 1.0, rng) for _ in range(3000)])
    assert stats.kstest(float_keys(drawn) / exponential.MAX_KEY, stats.uniform(-1, 2).cdf).pvalue > ALARM


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_large_eps_returns_the_sample_quantile(scale):
    x = scale * np.random.default_rng(7).permutation(np.arange(1.0, 102.0))
    for q in (0.1, 0.5, 0.75):
        want = np.quantile(x, q, method="inverted_cdf")
        assert quantile(x, q, 1e4, Randomness(8)) == pytest.approx(want, rel=1e-9)
        assert quantile(x, q, 1e4, Randomness(8), neighbours="substitution") == pytest.approx(want, rel=1e-9)


def test_draws_are_on_the_public_lattice():
    rng = Randomness(seed=9)
    x = np.random.default_rng(10).standard_normal(500)
    drawn = np.array([quantile(x, 0.5, 0.5, rng) for _ in range(200)])
    assert (drawn.view(np.int64) & ((1 << 22) - 1) == 0).all()


def test_order_of_the_data_does_not_matter():
    x = np.random.default_rng(11).standard_normal(100)
    assert quantile(x, 0.5, 1.0, Randomness(3)) == quantile(x[::-1], 0.5, 1.0, Randomness(3))


def test_relation_is_checked():
    with pytest.raises(ParameterError, match="neighbours must be one of"):
        quantile(np.zeros(3), 0.5, 1.0, Randomness(0), neighbours="swap")
