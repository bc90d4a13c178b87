import math

import numpy as np
import pytest
from scipy import stats

from dpstats.engines import local
from dpstats.engines.local import Clipped, Rows, fold, gather, row_products, sample
from dpstats.mechanisms.rng import Randomness

ALARM = 1e-6


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of a few rows and several workers, so that little data take the path of much."""
    monkeypatch.setattr(local, "_LEAST_ROWS", 5)
    monkeypatch.setattr(local, "WORKERS", 4)


def rows(n, seed=0):
    generator = np.random.default_rng(seed)
    return generator.integers(-1000, 1000, (n, 3)).astype(float), generator.integers(-9, 9, (n, 1)).astype(
        float
    )


def cut(X, Y, sizes):
    ends = np.cumsum(sizes)
    return [(X[b - s : b], Y[b - s : b]) for s, b in zip(sizes, ends, strict=True)]


BLOCKS = [[0], [1], [4, 0, 7], [100], [1] * 30, [37, 3, 60], [0, 0]]


@pytest.mark.parametrize("sizes", BLOCKS)
def test_sums_are_those_of_one_pass_whatever_the_blocks(sizes, small_pieces):
    X, Y = rows(sum(sizes))

    def update(state, X, Y, first):
        state += X.T @ Y

    got = fold(cut(X, Y, sizes), lambda: np.zeros((3, 1)), update)
    # integers below 2^53: the sums are exact
    np.testing.assert_array_equal(got, X.T @ Y)


@pytest.mark.parametrize("sizes", BLOCKS)
def test_tuples_and_row_numbers(sizes, small_pieces):
    X, Y = rows(sum(sizes))
    seen = []

    def update(state, X, Y, first):
        state[0][0] += len(X)
        state[1][:] += X.sum(axis=0)
        seen.append((first, X[:, 0].tolist()))

    count, total = fold(cut(X, Y, sizes), lambda: (np.zeros(1, int), np.zeros(3)), update)
    assert count[0] == len(X)
    np.testing.assert_array_equal(total, X.sum(axis=0))
    blocks = cut(X, Y, sizes)
    for first, values in seen:
        assert any(block[0][first : first + len(values), 0].tolist() == values for block in blocks)


def test_states_with_their_own_addition(small_pieces):
    class State:
        def __init__(self):
            self.rows = []

        def __iadd__(self, other):
            self.rows += other.rows
            return self

    X, Y = rows(50)
    got = fold([(X, Y)], State, lambda state, X, Y, first: state.rows.extend(X[:, 0]))
    assert sorted(got.rows) == sorted(X[:, 0])


def test_no_blocks_give_the_zero_state():
    assert fold([], lambda: np.zeros(2), None).tolist() == [0, 0]


def test_errors_of_a_piece_arrive(small_pieces):
    def update(state, X, Y, first):
        if first > 0:
            raise MemoryError

    with pytest.raises(MemoryError):
        fold([rows(100)], lambda: np.zeros(1), update)


def test_rows_are_contiguous_floats_and_iterate_again():
    X = np.asfortranarray(np.arange(6).reshape(3, 2))
    source = Rows(X, [1, 2, 3])
    for _ in range(2):
        ((left, right),) = source
        assert left.flags.c_contiguous and left.dtype == float
        np.testing.assert_array_equal(left, X)
        assert right.shape == (3, 1)
    assert source.in_memory


@pytest.mark.parametrize("halvings", [1, 2, 5])
@pytest.mark.parametrize("seed", [1, None])
def test_sampling_keeps_each_row_by_its_own_coin(halvings, seed):
    n = 40_000
    X = np.arange(2.0 * n).reshape(n, 2)
    ((kept, responses),) = sample(
        [(X[:999], X[:999, :1]), (X[999:], X[999:, :1])], halvings, Randomness(seed)
    )
    rows = (kept[:, 0] / 2).astype(int)
    np.testing.assert_array_equal(kept, X[rows])
    np.testing.assert_array_equal(responses, X[rows, :1])
    assert (np.diff(rows) > 0).all()
    p = 2.0**-halvings
    assert stats.binomtest(len(rows), n, p).pvalue > ALARM
    # no pattern with the position in a word, and none between neighbours
    assert stats.chisquare(np.bincount(rows % 64, minlength=64)).pvalue > ALARM
    assert stats.binomtest(int((np.diff(rows) == 1).sum()), n - 1, p * p).pvalue > ALARM / 10


def test_sampling_nothing_or_no_rows():
    blocks = [rows(5)]
    assert sample(blocks, 0, Randomness(1)) is blocks
    assert list(sample([], 3, Randomness(1))) == []
    ((X, Y),) = sample([rows(0)], 3, Randomness(1))
    assert X.shape == (0, 3) and Y.shape == (0, 1)


def test_a_neighbour_stays_a_neighbour_when_rows_are_sampled():
    """With the coins of the other rows as they were, one row more is one row more or none."""
    X, Y = rows(200)
    ((with_last, _),) = sample([(X, Y)], 2, Randomness(3))
    ((without, _),) = sample([(X[:-1], Y[:-1])], 2, Randomness(3))
    np.testing.assert_array_equal(with_last[: len(without)], without)
    assert len(with_last) - len(without) in (0, 1)


def test_clipped_blocks_move_columns_into_their_limits():
    X, Y = rows(30)
    low, high = np.array([-5.0, -math.inf, 0.0]), np.array([5.0, math.inf, 0.0])
    for source in (Rows(X, Y), type("Stream", (list,), {"in_memory": False})(cut(X, Y, [10, 20]))):
        clipped = Clipped(source, low, high)
        assert clipped.in_memory == source.in_memory
        for _ in range(2):
            got = np.concatenate([block for block, _ in clipped])
            np.testing.assert_array_equal(got, np.clip(X, low, high))


def test_gathered_rows_are_those_of_the_blocks_in_their_order():
    X, Y = rows(30)
    for sizes in ([30], [10, 0, 20]):
        got = gather(cut(X, Y, sizes))
        np.testing.assert_array_equal(got[0], X)
        np.testing.assert_array_equal(got[1], Y)
    assert [part.shape for part in gather([])] == [(0, 0), (0, 0)]


@pytest.mark.parametrize("columns", [1, 3, 8, 17])
def test_products_of_a_row_do_not_depend_on_the_rows_beside_it(columns):
    """Matrix products round the last rows in another way: with eight columns, three of 20,003 equal ones."""
    g = np.random.default_rng(1)
    A, vector = g.standard_normal((columns, 3)), g.standard_normal(columns)
    X = np.repeat(g.standard_normal((1, columns)), 203, axis=0)
    for matrix in (A, vector):
        whole = row_products(X, matrix)
        assert len(np.unique(whole, axis=0)) == 1
        np.testing.assert_array_equal(whole[:7], row_products(X[:7], matrix))
        np.testing.assert_allclose(whole, X @ matrix, rtol=1e-12, atol=1e-14)
