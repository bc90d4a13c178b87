"""The neighbour search: what a replay measures, that it sees what is broken, and a few of its targets."""

import contextlib
import math

import numpy as np
import pandas as pd
import pytest
from audit import replay, search
from audit.climb import Target, climb
from audit.extremes import Box, Tables
from audit.replay import Replay
from audit.tapes import patched
from scipy.stats import binom

import dpstats
from dpstats._estimators import AUDITED
from dpstats.mechanisms import exponential, noise
from dpstats.mechanisms.rng import Randomness
from dpstats.selection import kendall

FALSE_ALARM = 1e-6
QUICK = [
    "adassp",
    "mean",
    "median",
    "noisy_stats",
    "median, smooth",
    "noise.laplace",
    "tukey.margin, 1 axes",
    "student.StudentNoise",
]


def losses(run, first, second, seed=0):
    with Replay().inserted() as tape:
        return tape.losses(run, first, second, seed)


def test_a_replay_adds_up_what_the_steps_lose():
    """Two Gaussian steps, the second about what the first released, and a Laplace step: against the
    formula."""

    def run(value, rng):
        first = noise.gaussian([value, value], 1.0, 0.5, rng)
        second = noise.gaussian(first[0] + 3 * value, 2.0, 0.25, rng)
        return float(second) + float(noise.laplace(value, 4.0, 0.1, rng))

    found = losses(run, 0.0, 1.0)
    assert found.mu == pytest.approx(math.hypot(0.5, 0.5, 3 * 0.25 / 2))
    assert found.eps == pytest.approx(0.1 / 4)


def test_what_is_released_besides_the_noise_is_seen():
    """The same answers, and something else that differs: a number, a further step, a noise of its own
    scale."""

    def says_more(value, rng):
        return float(noise.gaussian(value, 1.0, 0.5, rng)), value > 0.5

    def goes_on(value, rng):
        for _ in range(1 + (value > 0.5)):
            noise.gaussian(0.0, 1.0, 0.5, rng)

    def stops(value, rng):
        goes_on(1 - value, rng)

    def scaled(value, rng):
        noise.gaussian(0.0, 1.0 + value, 0.5, rng)

    for run in (says_more, goes_on, stops):
        assert losses(run, 0.0, 1.0) is None
    assert losses(scaled, 0.0, 1.0).mu == math.inf


def test_a_quantile_loses_the_width_of_its_log_ratios():
    """Against the log-probability of every double of a small lattice."""
    first, second, bounds = np.array([1.0, 1.0, 1.5]), np.array([1.0, 1.25]), (1.0, 1.0 + 2.0**-48)
    lattice = exponential.keys_to_floats(np.arange(*exponential.float_keys(bounds) + [0, 1]))

    def run(x, rng):
        return exponential.quantile(x, 0.25, 1.0, rng, bounds=bounds)

    def log_law(x):
        x = np.clip(x, *bounds)
        below, upto = (np.array([np.sum(f(x, y)) for y in lattice]) for f in (np.less, np.less_equal))
        rank = 0.25 * len(x)
        return -np.maximum(np.maximum(below - rank, rank - upto), 0) / (2 * 0.75)

    expected = np.ptp(log_law(first) - log_law(second))
    assert losses(run, first, second).eps == pytest.approx(expected)


def test_regression_depth_is_that_of_the_package():
    g = np.random.default_rng(0)
    for _ in range(20):
        x, y = g.integers(-2, 3, (2, int(g.integers(1, 9)))).astype(float)
        fits = g.integers(-3, 4, (30, 2)) / 2
        depths = replay.regression_depth(x, y, *fits.T)
        np.testing.assert_array_equal(depths, dpstats.depth.regression(fits, x, y, rtol=0))


def test_neighbours_share_what_is_drawn_for_their_rows():
    """A last row more changes no draw of the others, nor of later calls."""
    few, many = replay._Coupled(5), replay._Coupled(5)
    np.testing.assert_array_equal(few.integers(100, 7), many.integers(100, 8)[:7])
    np.testing.assert_array_equal(few.uniform(3), many.uniform(3))
    order = [i for i in many.permutation(8) if i != 7]
    np.testing.assert_array_equal(few.permutation(7), order)


@pytest.mark.parametrize("n", [2, 3, 8, 9])
def test_matchings_without_the_last_row_differ_in_one_pair(n):
    """Disjoint pairs, as many as there must be, and on average every pair of rows alike."""
    counts, runs = np.zeros((n, n)), 400
    g = Randomness(3)
    for _ in range(runs):
        matching = g.permutation(n)[: n - n % 2].reshape(-1, 2)
        rest = replay._without_last(matching, n)
        assert sorted(set(rest.ravel())) == sorted(rest.ravel()) and rest.size == n - 1 - (n - 1) % 2
        assert n - 1 not in rest
        kept = {frozenset(pair) for pair in matching.tolist()}
        assert sum(frozenset(pair) not in kept for pair in rest.tolist()) <= 1
        np.add.at(counts, tuple(np.sort(rest, axis=1).T), 1)
    possible = counts[np.triu_indices(n - 1, 1)]
    if n > 2:
        share = (n - 1 - (n - 1) % 2) / 2 / len(possible)
        low, high = (
            binom.ppf(tail := FALSE_ALARM / 2 / len(possible), runs, share),
            binom.isf(tail, runs, share),
        )
        assert np.all((low <= possible) & (possible <= high))


@pytest.mark.parametrize("relation", ["add-remove", "substitution"])
def test_pairs_are_neighbours_and_stay_so(relation):
    g, space = np.random.default_rng(1), Tables(2, relation, (1, 6))
    for _ in range(10):
        pair = space.start(g)
        for _ in range(20):
            pair = space.change(g, pair)
            assert 1 <= len(pair.rows) <= 6
            more = len(pair.second) - len(pair.first)
            assert more == (relation == "add-remove")
            np.testing.assert_array_equal(pair.first[: len(pair.rows)], pair.second[: len(pair.rows)])


def test_the_climb_finds_a_corner():
    def opened():
        return contextlib.nullcontext(lambda point: float(np.prod(point)))

    corner = Target("a corner", "", "", Box(4), opened, None)
    assert climb(corner, 1500, 0, 2.0).ratio > 0.95
    assert climb(corner, 1500, 0, 0.5, stop=True).exceeded < 1500


def test_a_mistake_in_a_width_is_found():
    (target,) = (t for t in search.TARGETS if t.name == "select_features, kendall")
    with patched((kendall, "WIDTH", {"add-remove": 1.25})):
        assert climb(target, 400, 0, 1.0, stop=True).ratio > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_targets_are_as_expected(name):
    (target,) = (t for t in search.TARGETS if t.name == name)
    row = search.row_of(target, quick=True)
    assert row.expected, row


def test_the_table_has_every_target_as_expected():
    table = pd.read_csv(search.RESULTS)
    assert (table.largest <= 1 + search.ROUNDING).all() and (table.broken_largest > 1 + search.ROUNDING).all()
    written = list(zip(table.mechanism, table.neighbours, table.ratio, table.broken, strict=True))
    assert written == [(t.name, t.neighbours, t.ratio, t.broken.what) for t in search.TARGETS]
    assert (table.evaluations == [t.evaluations for t in search.TARGETS]).all()


def test_every_public_estimator_is_searched():
    searched = {target.name.split(",")[0] for target in search.TARGETS}
    assert set(AUDITED) <= searched


@pytest.mark.slow
def test_every_target_runs():
    """One pair each, as it is and broken: so that none falls behind the code that it replays."""
    for target in search.TARGETS:
        assert climb(target, 1, search.SEED, math.inf).evaluations == 1, target.name
        with target.broken.applied():
            assert climb(target, 1, search.SEED, math.inf).evaluations == 1, target.name
