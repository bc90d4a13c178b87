"""Sums over the rows of each unit: kernels against slow equals, sensitivities, and what they are for."""

import itertools
import math

import numpy as np
import pytest

from dpstats.engines.local import Rows
from dpstats.formula.units import UnitBlocks, Units
from dpstats.linear import loss, summed, unit_kernels
from dpstats.linear.clip import Clip
from dpstats.linear.family import Binomial, Counts
from dpstats.linear.glm_units import SummedAnswers
from dpstats.linear.prepare import Prepared
from dpstats.linear.rounds import Walk
from dpstats.linear.summed import Summed
from dpstats.linear.whitened import Frame
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.sums import SUMMATION, from_whole, units_of
from dpstats.mechanisms.whiten import Affine

U = np.array([0.5, -1.0])


class Every(list):
    """Blocks of units in memory."""

    in_memory = True


class Blocks:
    """Units of given rows; what iterates over it sees the first row of each."""

    in_memory = True

    def __init__(self, X, y, ends, shared=False):
        units = Units(np.asarray(X, float), np.asarray(y, float)[:, None], np.asarray(ends))
        self.units, self.shared = Every([units.block()]), shared

    def __iter__(self):
        ((units, _),) = self.units
        starts = np.append(0, units.ends[:-1]).astype(int)
        yield units.X[starts], units.Y[starts]


def held(source):
    """The rows of a source of one block."""
    ((X, Y),) = source
    return Rows(X, Y)


def products(rows):
    return rows.X * rows.Y[:, :1]


def plain_frame(q=2):
    """Rows as they are."""
    affine = Affine(np.arange(q + 1), np.zeros(q + 1), np.ones(q + 1))
    return Frame(affine, np.eye(q), np.full(q, -np.inf), np.full(q, np.inf))


def made(units, **more):
    """A Summed of units, each a list of rows (x, ..., y)."""
    rows = np.concatenate([np.asarray(unit, float) for unit in units])
    ends = np.cumsum([len(unit) for unit in units])
    return Summed(Blocks(rows[:, :-1], rows[:, -1], ends), plain_frame(rows.shape[1] - 1), **more)


def some(n=60, seed=0):
    g = np.random.default_rng(seed)
    sizes = g.integers(1, 6, n)
    return [g.standard_normal((size, 3)) * g.choice([0.1, 1, 20]) for size in sizes]


@pytest.mark.parametrize("threshold", [math.inf, 0.7])
def test_parts_are_sums_over_the_rows(threshold):
    units = some()
    rows = held(made(units).scores(U, threshold))
    for unit, S, sign in zip(units, rows.X, rows.Y[:, 0], strict=True):
        r = np.clip(unit[:, 2] - unit[:, :2] @ U, -threshold, threshold)
        np.testing.assert_allclose(S * sign, unit[:, :2].T @ r, rtol=1e-9, atol=1e-12)
        assert sign == (1 if r.sum() > 0 else -1)


@pytest.mark.parametrize("threshold", [math.inf, 0.7])
def test_gram_matrices_are_scaled_and_left_out_as_a_whole(threshold, monkeypatch):
    monkeypatch.setattr(summed, "symmetric_gaussian", lambda total, *more: total)
    units, clip, radius2 = some(), 3.0, 5.0
    total = np.zeros((2, 2))
    for unit in units:
        r = unit[:, 2] - unit[:, :2] @ U
        if np.linalg.norm(unit[:, :2].T @ np.clip(r, -threshold, threshold)) <= clip:
            G = unit[np.abs(r) < threshold, :2].T @ unit[np.abs(r) < threshold, :2]
            total += G * min(1.0, radius2 / max(np.linalg.norm(G), 1e-300))
    found = made(units).gram(U, threshold, clip, radius2, 1.0, Randomness(0))
    np.testing.assert_allclose(found, total, atol=1e-9)


VALUES = (-1.0, 0.0, 2.0, 1e160, -1e308, 5e-324)
"""Of the columns and the response of a row, in all combinations of up to three rows of a few of them."""
ROWS = [np.array(row) for row in itertools.product((-1.0, 0.5, 1e308), (0.0, 1e160), VALUES)]


def people():
    """All units of one row, and some of two and three: hostile values next to plain ones."""
    g = np.random.default_rng(1)
    for size, count in ((1, len(ROWS)), (2, 300), (3, 600)):
        for _ in range(count):
            yield [ROWS[i] for i in g.integers(len(ROWS), size=size)]
    yield [np.array([1.0, 1.0, 3.0])] * 1_000
    yield [np.array([1.0, -1.0, -3.0])] * 1_000
    yield [np.array([1e150, 1.0, 1e150])] * 1_000


def test_noise_of_gram_matrices_has_room_for_rounding(monkeypatch):
    seen = []
    monkeypatch.setattr(summed, "symmetric_gaussian", lambda total, s, mu, rng: seen.append(s) or total)
    made([np.array([[1.0, 2.0, 3.0]])]).gram(U, math.inf, math.inf, 4.0, 1.0, None)
    assert seen == [(1 + SUMMATION) * 4.0]


def watched(monkeypatch):
    """What the next step releases, without noise, and the sensitivity that its noise is for."""
    moved = {}

    def centre(total, sensitivity, mu, rng):
        moved["value"], moved["allowed"] = np.atleast_1d(np.asarray(total, float)), sensitivity
        return total

    for names in (vars(summed), loss.product_gradient.__globals__):
        for name in ("gaussian", "symmetric_gaussian"):
            if name in names:
                monkeypatch.setitem(names, name, centre)
    return moved


@pytest.mark.slow
def test_no_unit_moves_a_release_by_more_than_its_noise_is_for(monkeypatch):
    """Every step of the rounds, before its noise, with and without a unit; sums are of whole numbers."""
    moved = watched(monkeypatch)
    base = [np.array([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]]), np.array([[2.0, 0.0, 1.0]])]
    squared, huber = loss.Squared(1.0), loss.Huber(0.7)
    edges = np.array([90, 95, 100, 105])
    steps = {
        "score": lambda rows, of: of.score(rows, U, 1.5, 1.0, None),
        "counts": lambda rows, of: of.counts(rows, U, edges, 1.0, None),
        "excess": lambda rows, of: of.excess(rows, U, 1.5, 4.0, 1.0, None),
        "outer": lambda rows, of: of.outer(rows, U, 1.5, 1.0, None),
        "hessian": lambda rows, of: of.hessian(rows, U, 1.5, 4.0, 1.0, None),
        "gram": lambda rows, of: rows.gram(U, math.inf, math.inf, 4.0, 1.0, None),
        "squares": lambda rows, of: rows.residuals(U, 2.0, 1.0, 1.0, None),
    }

    def values(units):
        out = {}
        for limit in (math.inf, 1.6):
            rows = made(units, most=limit)
            rows.metric = np.array([[2.0, 0.5], [0.5, 1.0]])
            for of in (squared, huber):
                for name, step in steps.items():
                    step(rows, of)
                    out[name, of, limit] = moved["value"].copy(), moved["allowed"]
        return out

    without, most = values(base), {}
    with np.errstate(all="ignore"):
        for unit in people():
            for key, (value, allowed) in values([*base, unit]).items():
                shift = float(np.linalg.norm(value - without[key][0])) / allowed
                most[key] = max(most.get(key, 0.0), shift)
    assert max(most.values()) <= 1.0, most
    # and not in vain
    assert min(most.values()) > 0.9, most


class Given:
    """Units of a generalised linear model."""

    def __init__(self, blocks, family):
        self.units, self.family, self.in_memory = blocks.units, family, True
        self._blocks = blocks

    def __iter__(self):
        return iter(self._blocks)


def answers(units, family):
    rows = np.concatenate([np.asarray(unit, float) for unit in units])
    ends = np.cumsum([len(unit) for unit in units])
    given = Given(Blocks(rows[:, :-1], rows[:, -1], ends), family)
    return SummedAnswers(given, plain_frame(rows.shape[1] - 1), None, 12.0)


@pytest.mark.parametrize("family", [Binomial(), Counts()])
def test_answers_have_the_scores_of_their_model(family, monkeypatch):
    """At any coefficients, wherever the rows were made first; and the Gram matrix is the information."""
    monkeypatch.setattr(summed, "symmetric_gaussian", lambda total, *more: total)
    units = [np.clip(unit, -3, 3) for unit in some()]
    for unit in units:
        unit[:, 2] = (unit[:, 2] > 0) * (1 if not family.counts else 3)
    rows, total, squares = answers(units, family), np.zeros((2, 2)), 0.0
    rows.at(np.zeros(2))
    found = held(rows.scores(U, math.inf))
    for unit, S, sign in zip(units, found.X, found.Y[:, 0], strict=True):
        mean = np.array([family.mean(eta) for eta in unit[:, :2] @ U])
        np.testing.assert_allclose(S * sign, unit[:, :2].T @ (unit[:, 2] - mean), rtol=1e-9, atol=1e-9)
        variance = np.array([family.variance(m) for m in mean])
        G = (unit[:, :2] * variance[:, None]).T @ unit[:, :2]
        total += G * min(1.0, 5.0 / np.linalg.norm(G))
        squares += min(np.sum((unit[:, 2] - mean) ** 2 / variance), 4.0)
    np.testing.assert_allclose(rows.gram(U, math.inf, math.inf, 5.0, 1.0, Randomness(0)), total, atol=1e-9)
    assert rows.residuals(U, 4.0, 1.0, 1e12, Randomness(0)) == pytest.approx(squares, rel=1e-6)


@pytest.mark.parametrize("family", [Binomial(), Counts()])
@pytest.mark.slow
def test_no_unit_of_answers_moves_a_release_by_more_than_its_noise_is_for(family, monkeypatch):
    moved = watched(monkeypatch)
    squared = loss.Squared(1.0)
    steps = {
        "score": lambda rows: squared.score(rows, U, 1.5, 1.0, None),
        "excess": lambda rows: squared.excess(rows, U, 1.5, 4.0, 1.0, None),
        "outer": lambda rows: squared.outer(rows, U, 1.5, 1.0, None),
        "hessian": lambda rows: squared.hessian(rows, U, 1.5, 4.0, 1.0, None),
        "gram": lambda rows: rows.gram(U, math.inf, math.inf, 4.0, 1.0, None),
        "squares": lambda rows: rows.residuals(U, 2.0, 1.0, 1.0, None),
    }

    def values(units):
        rows, out = answers(units, family), {}
        for name, step in steps.items():
            step(rows)
            out[name] = moved["value"].copy(), moved["allowed"]
        return out

    base = [np.array([[1.0, 2.0, 1.0], [0.0, 1.0, 0.0]]), np.array([[2.0, 0.0, 1.0]])]
    without, most = values(base), {}
    with np.errstate(all="ignore"):
        for unit in people():
            # a response of the family, as large as any
            unit = [np.append(row[:2], 1.0 if not family.counts and row[2] else abs(row[2])) for row in unit]
            for key, (value, allowed) in values([*base, unit]).items():
                shift = float(np.linalg.norm(value - without[key][0])) / allowed
                most[key] = max(most.get(key, 0.0), shift)
    assert 0.9 < min(most.values()) <= max(most.values()) <= 1.0, most


def test_a_unit_within_a_radius(monkeypatch):
    units = some()
    norms = held(made(units, radius2=2.0).norms(U)).X[:, 0]
    assert norms.max() <= 2.0 * (1 + 1e-12)
    plain = held(made(units).norms(U)).X[:, 0]
    np.testing.assert_allclose(norms, np.minimum(plain, 2.0))


def test_units_of_many_rows_count_as_if_they_had_fewer():
    units = some()
    limited, each = (held(made(units, **more).scores(U, math.inf)) for more in ({"most": 2.0}, {}))
    weight = np.minimum(1.0, 2.0 / np.array([len(u) for u in units]))[:, None]
    np.testing.assert_allclose(products(limited), products(each) * weight, rtol=1e-9, atol=1e-12)
    answered = [np.column_stack([unit[:, :2], unit[:, 2] > 0]) for unit in units]
    rows, ends = np.concatenate(answered), np.cumsum([len(u) for u in units])
    given = Given(Blocks(rows[:, :-1], rows[:, -1], ends), Binomial())
    limited = held(SummedAnswers(given, plain_frame(), None, 12.0, most=2.0).scores(U / 2, math.inf))
    each = held(answers(answered, Binomial()).scores(U / 2, math.inf))
    np.testing.assert_allclose(products(limited), products(each) * weight, rtol=1e-9, atol=1e-12)
    # by how much they have more, up to twice as many
    more = np.clip(np.array([len(u) for u in units]) / 2 - 1, 0, 1)
    np.testing.assert_array_equal(limited.Y[:, 1], more)
    assert set(more) == {0.0, 0.5, 1.0} and not each.Y[:, 1].any()
    # as many as noise allows: more with more units, and never fewer than asked for
    assert summed.most_rows(2_000, 3, 6, 0.05, 3.0, 3.0) < summed.most_rows(20_000, 3, 6, 0.05, 3.0, 3.0)
    assert summed.most_rows(100, 3, 6, 1e-3, 3.0, 3.0) == 3.0


@pytest.mark.parametrize("of", [loss.Squared(1.0), loss.Huber(0.7)])
def test_what_units_of_many_rows_add_beyond_their_limit(of):
    """Twice that is released, less the sum of all, where no part is longer than the clip."""
    units, rng = some(), Randomness(0)
    rows, whole = made(units, most=2.0), made(units)
    found = of.excess(rows, U, 1e6, 4.0, 1e14, rng)[1]
    counted, sizes = products(held(rows.scores(U, of.threshold))), np.array([len(u) for u in units])[:, None]
    # with up to twice as many rows, and with as many as count
    added = counted * np.minimum(np.maximum(sizes / 2, 1), 2) - counted
    np.testing.assert_allclose(found, 2 * added.sum(0) - counted.sum(0), atol=1e-2)
    assert rows.cut and not whole.cut and not made(units, most=math.inf).cut
    assert not Summed(Blocks(np.ones((2, 2)), np.ones(2), [2], True), plain_frame(), most=2.0).cut


def test_rows_that_share_a_weight():
    units = some()
    rows, ends = np.concatenate(units), np.cumsum([len(u) for u in units])
    shared = held(Summed(Blocks(rows[:, :2], rows[:, 2], ends, True), plain_frame()).scores(U, math.inf))
    each = held(made(units).scores(U, math.inf))
    sizes = np.array([len(u) for u in units])[:, None]
    np.testing.assert_allclose(products(shared), products(each) / sizes, rtol=1e-9, atol=1e-12)


def test_sums_of_a_unit_do_not_depend_on_others():
    """To the last bit: a unit alone, and among others."""
    units = some(200, 3)
    together = held(made(units).scores(U, 1.3)).X
    for g in (0, 7, 150, 199):
        np.testing.assert_array_equal(held(made([units[g]]).scores(U, 1.3)).X[0], together[g])


def test_a_unit_whose_sums_overflow_adds_nothing():
    """Of no row the norm does; a weight of 0 times what is infinite would be no number, and the sum none."""
    V, scale, total = np.full((3, 2), 9e153), units_of(5.0), np.zeros((2, 2, 2), np.int64)
    assert 2 * 9e153 * 9e153 < 3 * 9e153 * 9e153 == math.inf
    unit_kernels.gram(
        V, np.zeros((3, 1)), np.array([3]), 0, 1, U, np.inf, np.ones(1, bool), 5.0, scale, total
    )
    assert not total.any()


def test_kernels_add_whole_numbers():
    units = some(1500, 5)
    rows, ends = np.concatenate(units), np.cumsum([len(u) for u in units])
    V, Y = np.ascontiguousarray(rows[:, :2]), np.ascontiguousarray(rows[:, 2:])
    inside, scale = np.ones(len(ends), bool), units_of(5.0)
    whole, parts = (np.zeros((2, 2, 2), np.int64) for _ in range(2))
    unit_kernels.gram(V, Y, ends, 0, len(ends), U, np.inf, inside, 5.0, scale, whole)
    for first in range(0, len(ends), 400):
        last = min(first + 400, len(ends))
        unit_kernels.gram(V, Y, ends, first, last, U, np.inf, inside, 5.0, scale, parts)
    np.testing.assert_array_equal(from_whole(whole, scale), from_whole(parts, scale))


def test_a_round_in_another_metric_goes_as_far():
    """Units with the identity for Gram matrix: a round without noise is the solution, whatever the metric."""
    beta, count = np.array([2.0, -3.0]), 50
    X = np.tile(np.eye(2), (count, 1))
    blocks = object.__new__(UnitBlocks)
    units = Units(X, (X @ beta)[:, None], np.arange(2, 2 * count + 1, 2))
    blocks.__dict__ |= {"units": Every([units.block()]), "shared": False}
    walk = Walk(blocks, Prepared.raw(count, 2), False, {"rounds": 1e12}, 1, Randomness(0))
    metric = np.array([[2.0, 0.5], [0.5, 0.7]])
    walk.rows.metric, walk._back, walk._clip = metric, np.linalg.inv(metric), Clip.at(1e6)
    walk.rounds(loss.Squared(1.0), 1, "rounds")
    np.testing.assert_allclose(walk.u, beta, rtol=1e-4)
