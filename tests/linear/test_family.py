"""Families: which responses they take, first looks at them, and the rows with offsets."""

import math

import numpy as np
import pandas as pd
import pytest

from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.engines.local import Rows
from dpstats.formula.design import Design
from dpstats.linear import family as module
from dpstats.linear.family import Answers, Binomial, Counts, release_exposure
from dpstats.mechanisms.rng import Randomness


def source(y, *more):
    return Rows(np.ones((len(y), 1)), np.column_stack([y, *more]))


@pytest.mark.parametrize("family, taken", [
    (Binomial(), [0.0, 1.0, -0.0]), (Counts(), [0.0, 1.0, -0.0, 7.0, 1e6, 1e300]),
])  # fmt: skip
def test_responses(family, taken):
    others = [-1.0, 0.5, 2.5, -1e300, math.nextafter(1, 2)] + [2.0] * (not family.counts)
    assert family.usable(np.array(taken)).all() and not family.usable(np.array(others)).any()


def test_start_of_shares():
    y = np.repeat([0.0, 1.0], [700, 300])
    start = Binomial().start(source(y), 1000.0, 1e6, Randomness(0))
    assert start.mean == pytest.approx(0.3, abs=1e-5) and start.seen and start.dispersion == 1
    assert start.deviance == pytest.approx(-2 * (0.3 * math.log(0.3) + 0.7 * math.log(0.7)), abs=1e-4)


@pytest.mark.parametrize("ones", [0, 1000])
def test_a_class_nobody_is_in_is_not_seen_and_the_share_stays_away_from_the_ends(ones):
    y = np.repeat([0.0, 1.0], [1000 - ones, ones])
    for seed in range(20):
        start = Binomial().start(source(y), 1000.0, 0.05, Randomness(seed))
        assert 2 / 0.05 / 1000 <= min(start.mean, 1 - start.mean)
    assert not Binomial().start(source(y), 1000.0, 1.0, Randomness(0)).seen


@pytest.mark.parametrize("mean", [0.05, 2.0, 900.0])
def test_start_of_counts(mean):
    g = np.random.default_rng(1)
    y = g.poisson(mean, 20_000) * 1.0
    start = Counts().start(source(y), 20_000.0, 1e3, Randomness(0))
    assert start.seen and start.mean == pytest.approx(y.mean(), rel=0.1)
    assert 1 <= start.dispersion < 1.1 + mean * 0.03
    # the largest mean lies beyond all counts, and not far beyond
    assert y.max() < math.exp(start.top) < 80 * max(y.max(), 1)


def test_dispersion_of_counts():
    g = np.random.default_rng(1)
    y = g.poisson(3 * g.gamma(0.5, 2, 50_000)) * 1.0
    start = Counts().start(source(y), 50_000.0, 1e3, Randomness(0))
    assert start.dispersion == pytest.approx(y.var() / y.mean(), rel=0.1)


def test_no_counts_but_zero_and_a_single_far_cell():
    assert not Counts().start(source(np.zeros(1000)), 1000.0, 1e3, Randomness(0)).seen
    rows = np.zeros(module._CELLS)
    rows[:4], rows[50] = [500, 300, 100, 50], 4.0
    # four standard deviations far off are a false alarm, near by they count
    assert module.counts_start(rows, 1.0, 950.0).top < math.log(100)
    rows[50], rows[8] = 0.0, 4.0
    assert module.counts_start(rows, 1.0, 950.0).top > math.log(40)


def test_a_group_in_many_cells_of_a_few_rows_is_seen():
    rows = np.zeros(module._CELLS)
    rows[:4], rows[8:16] = [5000, 3000, 800, 100], 1.5
    assert module.counts_start(rows, 1.0, 8912.0).top > math.log(16 * 11)
    # as many rows that are spread over twice the cells are no more than noise
    rows[8:16], rows[8:24] = 0.0, 0.75
    assert module.counts_start(rows, 1.0, 8912.0).top < math.log(16 * 8)


def test_each_row_is_one_count(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "gaussian", lambda total, s, mu, rng: seen.append((total, s)) or total * 1.0)
    for family, value in ((Binomial(), 1.0), (Counts(), 0.0), (Counts(), 3.0), (Counts(), 1e308)):
        family.start(source(np.array([value])), 1.0, 1.0, None)
    release_exposure(source(np.array([1.0]), np.array([1e308])), 1.0, None)
    release_exposure(source(np.array([1.0]), np.array([-1e308])), 1.0, None)
    assert all(np.sum(np.abs(total)) == 1 and s == 1 for total, s in seen) and len(seen) == 6


def test_exposure():
    sizes = np.random.default_rng(1).gamma(4, 50, 10_000)
    blocks = source(np.ones(10_000), np.log(sizes))
    assert release_exposure(blocks, 1e3, Randomness(0)) == pytest.approx(sizes.mean(), rel=0.1)


@pytest.mark.parametrize("unit", [1e-30, 1e-9, 1.0, 1e9, 1e18, 1e29])
def test_exposures_of_any_unit(unit):
    sizes = np.random.default_rng(1).uniform(0.05, 1.5, 10_000) * unit
    released = release_exposure(source(np.ones(10_000), np.log(sizes)), 1e3, Randomness(0))
    assert released == pytest.approx(sizes.mean(), rel=0.02)


def test_an_empty_cell_far_out_is_no_exposure():
    # at more than four standard deviations is one of 3,000 empty cells, of which there are hundreds
    rows = np.zeros(module._EXPOSURES)
    rows[module._MIDDLE] = 1000.0
    alone = module.exposure_start(rows, 1.0)
    assert alone == pytest.approx(2**0.25)
    for far in (-150, -20, 20, 150):
        rows[module._MIDDLE + far] = 4.5
        assert module.exposure_start(rows, 1.0) == alone
        rows[module._MIDDLE + far] = 0.0
    for near in (-6, 6):
        rows[module._MIDDLE + near] = 4.5
        assert module.exposure_start(rows, 1.0) != alone
        rows[module._MIDDLE + near] = 0.0
    assert module.exposure_start(np.zeros(module._EXPOSURES), 1.0) == 1.0


def test_exposures_in_many_cells_of_a_few_rows_are_seen():
    rows = np.zeros(module._EXPOSURES)
    rows[300:308] = 3.0
    middles = 2.0 ** ((np.arange(300, 308) - module._MIDDLE + 0.5) / 2)
    assert module.exposure_start(rows, 1.0) == pytest.approx(middles.mean())


@pytest.mark.parametrize("mean", [1e9, 1e12, 1e18])
def test_start_of_large_counts(mean):
    y = np.floor(np.random.default_rng(1).gamma(2, mean / 2, 20_000))
    start = Counts().start(source(y), 20_000.0, 1e3, Randomness(0))
    assert start.mean == pytest.approx(y.mean(), rel=0.05)
    assert start.dispersion == pytest.approx(y.var() / y.mean(), rel=0.1)
    assert y.max() < math.exp(start.top) < 80 * y.max()


FRAME = pd.DataFrame({
    "y": [0.0, 1.0, 2.5, 3.0, np.nan, 4.0, 5.0], "x": [1.0, 2, 3, 4, 5, np.nan, 7],
    "pop": [10.0, 20, 30, 0.0, 50, 60, 70], "w": pd.Categorical(list("ababaab"), ["a", "b"]),
})  # fmt: skip


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + w", "y ~ x + I(x**2)"])
def test_rows_without_an_answer_or_an_offset_are_dropped_everywhere(formula):
    data = open_source(FRAME)
    schema = Schema.of(data)
    wide = Design.from_formula("y + np.log(pop) ~ " + formula.partition("~")[2], schema)
    narrow = Design.from_formula(formula, wide.schema)
    blocks = wide.blocks(data)
    ((X, Y),) = Answers.of_design(blocks, narrow, Counts(), wide)
    assert Y.tolist() == [[0.0], [1.0], [5.0]] and X.shape == (3, len(narrow.column_names))
    ((again, with_offset),) = Answers.of_design(blocks, narrow, Counts(), wide, True)
    assert np.array_equal(again, X) and np.allclose(with_offset[:, 1], np.log([10, 20, 70]))
    ((_, beside),) = Answers.of_design(blocks, narrow, Counts(), wide).of(narrow.beside(["x"], ()))
    assert beside.tolist() == [[0.0, 1.0], [1.0, 2.0], [5.0, 7.0]]
    ((_, plain),) = Answers.of_design(narrow.blocks(data), narrow, Counts(), None)
    assert plain.ravel().tolist() == [0.0, 1.0, 3.0, 5.0]
