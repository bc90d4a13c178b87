"""Sums over rows are exact sums of rounded terms: the same to the last bit in any order, in any pieces, for
any number of rows."""

import functools
import math
import sys
import types
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpstats._estimators import ESTIMATORS
from dpstats.engines import local
from dpstats.engines.local import Rows
from dpstats.linear import gradients as _gradients
from dpstats.linear import score_kernels
from dpstats.linear.gradients import Gradients
from dpstats.mechanisms import _kernels, standardize
from dpstats.mechanisms.sums import from_whole, sum_bounded, units_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from estimators import data, run  # noqa: E402

Q, RADIUS, LIMIT = 3, 3.0, 2.5
HOSTILE = [0.0, -0.0, 5e-324, 1e-300, 2.0**-60, 1.0, np.nextafter(3.0, 4), 1e12, 2.0**101, 1e160, 1e308]


def whole(state):
    """The whole numbers of a state, as Python's."""
    high, low = state
    return [2**32 * int(h) + int(w) for h, w in zip(high.ravel(), low.ravel(), strict=True)]


def rows(n, seed=0):
    """Rows of all sizes: at the radius, alternating large and small, cancelling, hostile."""
    g = np.random.default_rng(seed)
    V = g.standard_normal((n, Q))
    V *= np.choose(np.arange(n) % 4, [1.0, 1e-7, 1e9, RADIUS / np.linalg.norm(V, axis=1)])[:, None]
    Y = 2 * g.standard_normal((n, 1)) * g.choice([1.0, 1e-9, 1e6], (n, 1))
    V[1::5] = -V[: len(V[1::5])]
    for i, value in enumerate(HOSTILE[: n // 3]):
        V[3 * i], Y[3 * i] = value * g.choice([-1.0, 1.0], Q), value if i % 2 else 1.0
    return V, Y


def shortened(n, seed=0):
    """The same within the radius, as rows of `settled_gradient` are."""
    V, Y = rows(n, seed)
    V = np.clip(V, -1e150, 1e150)
    return V * np.minimum(1.0, RADIUS / np.maximum(np.linalg.norm(V, axis=1), 1e-300))[:, None], Y


_U = np.array([0.5, -0.25, 1.0])
_ROTATION = np.linalg.qr(np.random.default_rng(5).standard_normal((Q, Q)))[0]
_BOX = np.full(Q, -LIMIT), np.full(Q, LIMIT)
_WIDE = np.full(Q, -1e9), np.full(Q, 1e9)
# the rows, the shape and the bound of a row's term, and the kernel; all kernels end with units and state
SUMS = {
    "clipped_gram": (rows, (Q, Q), RADIUS**2, lambda V, Y, *s: _kernels.clipped_gram(
        V, Y, np.arange(Q), np.zeros(Q), np.ones(Q), 0, 2.0, _ROTATION, RADIUS**2, *s)),
    "product_gradient": (rows, (Q,), LIMIT, lambda V, Y, *s: score_kernels.product_gradient(
        V, Y, _U, math.inf, LIMIT, *s)),
    "product_excess": (rows, (2 * Q,), LIMIT, lambda V, Y, *s: score_kernels.product_excess(
        V, Y, _U, math.inf, LIMIT, 4.0, *s)),
    "product_gram": (rows, (Q, Q), LIMIT**2, lambda V, Y, *s: score_kernels.product_gram(
        V, Y, _U, math.inf, LIMIT, *s)),
    "inner_gram": (shortened, (Q, Q), RADIUS**2, lambda V, Y, *s: score_kernels.inner_gram(
        V, Y, _U, math.inf, math.inf, RADIUS, *s)),
    "residual_moments": (rows, (1,), LIMIT,
                         lambda V, Y, *s: score_kernels.residual_moments(V, Y, _U, LIMIT, *s)),
    "psi_moments": (rows, (2,), 1.0, lambda V, Y, *s: score_kernels.psi_moments(V, Y, _U, LIMIT, *s)),
    "outside_score": (rows, (1,), 1.0,
                      lambda V, Y, *s: score_kernels.outside_score(
        V, Y, _ROTATION, _U, *_BOX, *_WIDE, LIMIT**2, *s)),
    "settled_gradient": (shortened, (Q,), LIMIT,
                         lambda V, Y, units, state: score_kernels.settled_gradient(
        V, Y, _U, LIMIT, 0.1, units, units_of(RADIUS**2), state, np.zeros((2, Q, Q), np.int64),
        np.zeros(len(V), bool))),
    "settled_gram": (shortened, (Q, Q), RADIUS**2,
                     lambda V, Y, units, state: score_kernels.settled_gradient(
        V, Y, _U, LIMIT, 0.1, units_of(LIMIT), units, np.zeros((2, Q), np.int64), state,
        np.zeros(len(V), bool))),
}  # fmt: skip


def state_of(name, V, Y):
    _, shape, bound, kernel = SUMS[name]
    state = np.zeros((2, *shape), np.int64)
    with np.errstate(all="ignore"):
        kernel(V, Y, units_of(bound), state)
    return state


def is_the_sum_of_its_rows(name, n):
    """Whether a sum is that of its rows one by one, forwards and backwards and in pieces, to the last bit."""
    V, Y = SUMS[name][0](n)
    want = whole(state_of(name, V, Y))
    for order in (slice(None), slice(None, None, -1)):
        A, B = np.ascontiguousarray(V[order]), np.ascontiguousarray(Y[order])
        for size in (1, 7, n):
            got = sum(state_of(name, A[i : i + size], B[i : i + size]) for i in range(0, n, size))
            if whole(got) != want:
                return False
    return True


@pytest.mark.parametrize("name", SUMS)
class TestEverySum:
    @pytest.mark.parametrize("n", [1, 50, 3 * _kernels.TILE + 11])
    def test_is_the_exact_sum_of_its_rows_in_any_order_and_in_any_pieces(self, name, n):
        assert is_the_sum_of_its_rows(name, n)

    def test_no_row_adds_more_than_the_bound(self, name):
        """Entries are rounded by half a unit, of ``2^-41`` of the bound at most; the bound is attained but
        for the Gram of settled rows."""
        source, shape, bound, _ = SUMS[name]
        V, Y = source(400)
        norms = [
            np.linalg.norm(from_whole(state_of(name, V[i : i + 1], Y[i : i + 1]), units_of(bound)))
            for i in range(400)
        ]
        limit = bound * (math.sqrt(2) if name == "psi_moments" else 1.0)
        assert max(norms) <= limit * (1 + 1e-14 + math.sqrt(math.prod(shape)) * 2.0**-42)
        assert max(norms) > 0.7 * limit or name == "settled_gram"

    def test_is_within_its_bound_of_the_sum_in_the_reals(self, name):
        """Half a unit for each row, and what a row's own arithmetic errs by: against exact sums of the terms
        computed alone."""
        source, _, bound, _ = SUMS[name]
        V, Y = source(2_000)
        fine = 2.0**8 * units_of(bound)
        exact = 0
        for i in range(len(V)):
            state = np.zeros((2, *SUMS[name][1]), np.int64)
            with np.errstate(all="ignore"):
                SUMS[name][3](V[i : i + 1], Y[i : i + 1], fine, state)
            exact = exact + np.array([Fraction(w) for w in whole(state)], dtype=object)
        got = np.array([Fraction(w) for w in whole(state_of(name, V, Y))], dtype=object)
        assert max(abs(got - exact / 2**8)) <= len(V) * Fraction(1 + 2.0**-8) / 2


@pytest.mark.parametrize("k", [1, 3, 8, 11, 17])
def test_terms_of_rows_of_any_width_do_not_depend_on_where_they_stand(k):
    """Loops over the columns of a row may add up in another order: the same one for each row."""
    g = np.random.default_rng(k)
    V, Y, u = g.standard_normal((300, k)) * 3.0, g.standard_normal((300, 1)) * 5.0, g.standard_normal(k)
    for kernel, arguments, shape in (
        (score_kernels.product_gradient, (4.0, 3.0), (2, k)),
        (score_kernels.product_excess, (4.0, 3.0, 9.0 * k), (2, 2 * k)),
        (score_kernels.product_gram, (4.0, 3.0), (2, k, k)),
        (score_kernels.inner_gram, (4.0, 30.0, 3.0), (2, k, k)),
        (score_kernels.residual_moments, (9.0,), (2, 1)),
        (score_kernels.psi_moments, (4.0,), (2, 2)),
    ):
        one, single = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        kernel(V, Y, u, *arguments, 2.0**32, one)
        for i in range(300):
            kernel(V[i : i + 1], Y[i : i + 1], u, *arguments, 2.0**32, single)
        assert whole(one) == whole(single)
    for kernel, arguments, shape in (
        (score_kernels.product_octaves, (4.0,), (2, _kernels.OCTAVES)),
        (score_kernels.residual_octaves, (), (_kernels.OCTAVES,)),
    ):
        one, single = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        kernel(V, Y, u, *arguments, one)
        for i in range(300):
            kernel(V[i : i + 1], Y[i : i + 1], u, *arguments, single)
        assert (one == single).all() and one.sum() == 300


def uncompiled(monkeypatch, **changes):
    """The Gram kernel as Python runs it, with some of its parts replaced."""
    for name, value in changes.items():
        monkeypatch.setattr(_kernels, name, value)
    for module, name in (
        (_kernels, "clipped_gram"),
        (_kernels, "add_gram"),
        (_kernels, "standardized"),
        (_kernels, "mapped"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name).py_func)


def test_variants_that_add_in_floating_point_are_caught(monkeypatch):
    with monkeypatch.context() as patch:
        uncompiled(patch)
        assert is_the_sum_of_its_rows("clipped_gram", 60)
    with monkeypatch.context() as patch:
        # the tiles' totals are rounded, and not each row's term
        numpy = types.SimpleNamespace(
            **{name: getattr(np, name) for name in ("empty", "sqrt", "inf", "int64")}, rint=lambda x: x
        )
        uncompiled(patch, np=numpy)
        assert not is_the_sum_of_its_rows("clipped_gram", 60)
    with monkeypatch.context() as patch:
        # one number of 32 bits, added to in sequence
        uncompiled(
            patch, carried=lambda high, low, part: (high, np.int64(np.float32(low) + np.float32(part)))
        )
        assert not is_the_sum_of_its_rows("clipped_gram", 60)
    with monkeypatch.context() as patch:
        # what goes beyond the low word is lost
        uncompiled(patch, carried=lambda high, low, part: (high, (low + np.int64(part)) & _kernels._LOW))
        assert not is_the_sum_of_its_rows("clipped_gram", 60)


@pytest.mark.parametrize("largest", [1, 2**31, 2**52])
def test_totals_of_tiles_add_up_exactly_however_many(largest):
    """10^5 tiles, and as many states as if each were a partition, against Python's whole numbers."""
    g = np.random.default_rng(largest % 7)
    parts = g.integers(-largest, largest, 100_000, endpoint=True)
    parts[::2] = largest
    high = low = np.int64(0)
    carried = _kernels.carried.py_func
    for part in parts.tolist():
        high, low = carried(high, low, float(part))
    total = sum(parts.tolist())
    assert 2**32 * int(high) + int(low) == total and 0 <= low < 2**32
    merged = np.array([parts >> 32, parts & (2**32 - 1)]).sum(axis=1)
    assert 2**32 * int(merged[0]) + int(merged[1]) == total
    assert from_whole(merged, 1.0) == from_whole(np.array([high, low]), 1.0) == float(total)
    in_sequence = int(functools.reduce(lambda a, b: a + b, parts.astype(float)))
    assert (in_sequence == total) == (largest < 2**52), "plain addition of doubles is to be caught"


@pytest.mark.parametrize("n", [1, 2**20, 2**32, 2**40])
def test_one_row_more_moves_the_released_sum_by_its_term(n):
    """Sums of `n` rows at the bound: exact as whole numbers, and within ``2^-11`` of the bound as doubles up
    to ``2^40`` rows."""
    for bound in (1.0, 9.0, 1e-30, 4e9):
        units = units_of(bound)
        term = int(bound * units)
        assert 2**41 <= term < 2**42
        pair = [from_whole(np.array(divmod(m * term, 2**32)), units) for m in (n, n + 1)]
        assert abs(float(pair[1] - pair[0]) - bound) <= bound * 2.0**-11
        assert pair[1] == pytest.approx((n + 1) * bound, rel=1e-12)


def test_what_the_states_can_hold():
    """``2^52`` rows at the bound, and ``2^31 - 1`` states in one sum."""
    n, term = 2**52, 2**42 - 1
    high, low = divmod(n * term, 2**32)
    assert high < 2**63
    assert from_whole(np.array([high, low]), 1.0) == float(n * term)
    assert (2**31 - 1) * (2**32 - 1) < 2**63


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.slow
def test_pieces_and_threads_do_not_show(monkeypatch, name):
    """A seeded release is the same to the last bit in one piece and in many."""
    rows, eps = ESTIMATORS[name].small
    frame = data(rows, seed=1).assign(z=lambda table: table["z"] ** 3)
    fits = []
    for least, workers in ((10**9, 1), (100, 5)):
        monkeypatch.setattr(local, "_LEAST_ROWS", least)
        monkeypatch.setattr(local, "WORKERS", workers)
        fits.append(run(name, frame, eps=eps).to_dict())
    assert fits[0] == fits[1]


def test_histograms_count_beyond_two_thousand_million():
    bits, columns = np.ones((5, 1)).view(np.uint64), np.zeros(1, np.uint64)
    hist = np.full((1, _kernels.GRID_CELLS), 2**31 - 1)
    _kernels.count_top(bits, columns, hist)
    assert hist.max() == 2**31 + 4
    cell = np.argmax(hist, axis=1).astype(np.uint64)
    hist[:] = 2**31 - 1
    _kernels.count_low(bits, columns, cell, np.uint64(48), hist)
    assert hist.max() == 2**31 + 4
    octaves = np.full((1, _kernels.OCTAVES), 2**31 - 1)
    _kernels.count_octaves(np.ones((5, 1)), columns, np.zeros(1), np.zeros(1), octaves)
    assert octaves.max() == 2**31 + 4


def test_states_of_histograms_are_of_64_bits():
    group = standardize.Columns(0, np.array([0]), 1.0, 1.0)
    blocks = Rows(np.ones((5, 1)), np.ones(5))
    _, (top,) = standardize._count_top(blocks, [group])
    (low,) = standardize._count_low(blocks, [group], [np.zeros(1, np.uint64)], 48)
    (octaves,) = standardize._count_octaves(blocks, [group], [(np.zeros(1), np.zeros(1))])
    assert top.dtype == low.dtype == octaves.dtype == np.int64


class TestWhichWay:
    """Sums from a reference point and sums over all rows round their terms differently: few enough rows, or
    one way alone."""

    @staticmethod
    def settled(clip=1.0, far=0.0):
        g = np.random.default_rng(0)
        V = shortened(40_000)[0] / 10
        u = np.array([1.0, -1.0, 0.5]) + far
        Y = V @ u[:, None] + 0.05 * clip * g.standard_normal((40_000, 1))
        sums, direct = Gradients(Rows(V, Y), RADIUS), []
        steps = [u + 0.01 * clip * 0.5**i for i in range(4)]
        got = [sums.at(u, clip) for u in steps]
        for u in steps:
            state = sum_bounded(Rows(V, Y), (Q,), units_of(clip),
                                lambda state, V, Y, first, u=u:
                                score_kernels.product_gradient(V, Y, u, math.inf, clip,
                                    units_of(clip), state))  # fmt: skip
            direct.append(state)
        return sums._reference is not None, np.abs(np.array(got) - direct).max() / clip

    def test_the_two_ways_agree_within_their_allowance(self):
        used, apart = self.settled()
        assert used and apart < 40_000 * (4 * 2.0**-41 + 3 * 2.0**-53 * 20)

    def test_many_rows_go_one_way(self, monkeypatch):
        monkeypatch.setattr(_gradients, "_MOST_NUMBERS", 40_000 * Q)
        assert self.settled()[0]
        monkeypatch.setattr(_gradients, "_MOST_NUMBERS", 40_000 * Q - 1)
        assert self.settled() == (False, 0.0)

    def test_residuals_that_are_small_differences_of_large_numbers_go_one_way(self):
        assert self.settled(1.0, far=50.0)[0]
        assert self.settled(1e-3, far=50.0) == (False, 0.0)
        assert self.settled(1.0, far=1e5) == (False, 0.0)


@pytest.mark.parametrize("clip", [1.0, 1e-290, 1e290])
def test_terms_are_finite_whatever_the_row(clip):
    """A short row with a large residual: its factor in units must not overflow before it meets the row."""
    for norm, y in [(1e-300, 1e300), (1e-150, 1e119), (5e-324, 1e308), (1e150, 1e119), (1e-100, 1e-300)]:
        V, Y = np.full((1, Q), norm / math.sqrt(Q)), np.array([[y]])
        state = np.zeros((2, Q), np.int64)
        score_kernels.product_gradient(V, Y, np.zeros(Q), math.inf, clip, units_of(clip), state)
        assert np.linalg.norm(from_whole(state, units_of(clip))) <= clip * (1 + 1e-11)


@pytest.mark.parametrize("exponent", [-1070, -700, -602, -601, -600, -560, -559, -558, -300, 0, 300])
def test_rounding_to_units_keeps_within_the_bound_however_small_it_is(exponent):
    clip = 1.5 * 2.0**exponent
    units, state = units_of(clip), np.zeros((2, Q), np.int64)
    assert units * clip < 0.5 or 2**41 <= units * clip < 2**42
    V = np.full((1, Q), 1 / math.sqrt(Q))
    score_kernels.product_gradient(V, np.ones((1, 1)), np.zeros(Q), math.inf, clip, units, state)
    assert np.linalg.norm(from_whole(state, units) / clip) <= 1 + 1e-11


@pytest.mark.parametrize("k", [4, 11, 37])
def test_rows_of_many_columns_are_computed_alike_wherever_they_stand(k):
    """Dot products of many columns are vectorised: the same operations for a row alone and among others."""
    g = np.random.default_rng(k)
    V, u, clip = g.standard_normal((1_500, k)), g.standard_normal(k), 2.5
    Y, order, units = 3 * g.standard_normal((1_500, 1)), g.permutation(1_500), units_of(2.5)

    def state(V, Y):
        state = np.zeros((2, k), np.int64)
        score_kernels.product_gradient(V, Y, u, 2.0, clip, units, state)
        return state

    want = whole(state(V, Y))
    assert whole(state(V[order], Y[order])) == want
    assert whole(sum(state(V[i : i + 1], Y[i : i + 1]) for i in range(1_500))) == want
