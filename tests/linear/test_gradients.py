"""Sums of shortened products: equal to a pass over all rows, bounded row by row, and cheap where
they can be."""

import numpy as np
import pytest

from dpstats.engines.local import Rows
from dpstats.linear import gradients as _gradients
from dpstats.linear import score_kernels
from dpstats.linear.gradients import Gradients
from dpstats.mechanisms.sums import from_whole, units_of

N = 40_000
RADIUS = 3.0
HOSTILE = [
    (0.0, 1e308),
    (3.0, -1e308),
    (3.0, np.inf),
    (3.0, 2.0**101),
    (3.0, 1e12),
    (1e-300, 5e-324),
    (3.0, 1.5),
]


def rows(hostile=()):
    """Rows within a radius, the first of them hostile: norm and response."""
    g = np.random.default_rng(0)
    V = g.standard_normal((N, 3))
    V[:, 0] = 1.0
    V *= np.minimum(1, RADIUS / np.linalg.norm(V, axis=1))[:, None]
    Y = V @ [[1.0], [-1.0], [0.5]] + 0.5 * g.standard_normal((N, 1))
    for i, (norm, y) in enumerate(hostile):
        V[i], Y[i] = [norm / np.sqrt(3)] * 3, y
    return V, Y


def path():
    """Points that come nearer, then wander, then jump."""
    g = np.random.default_rng(1)
    lengths = np.concatenate([0.5 ** np.arange(8), np.full(13, 0.005), [0.3, 0.1, 0.01, 0.01]])
    turns = g.standard_normal((25, 3))
    return np.cumsum(lengths[:, None] * turns / np.linalg.norm(turns, axis=1)[:, None], axis=0) + [
        1.0,
        -1.0,
        0.5,
    ]


def brute_force(V, Y, u, clip):
    with np.errstate(all="ignore"):
        r = Y[:, 0] - V @ u
        size = np.abs(r) * np.linalg.norm(V, axis=1)
        factor = r * np.minimum(1, clip / np.where(size > 0, size, 1.0))
        return np.where(np.abs(r) < 2.0**400, factor, 0.0) @ V


class InPieces:
    """A source that is read anew at each pass."""

    in_memory = False

    def __init__(self, V, Y):
        self._pieces = [(V[:33_000], Y[:33_000]), (V[33_000:], Y[33_000:])]

    def __iter__(self):
        return iter(self._pieces)


@pytest.fixture
def visits(monkeypatch):
    """How many rows each call visits."""
    visited = []
    real, split = _gradients._sum, _gradients._split

    def counted_sum(source, *arguments):
        visited.append(sum(len(V) for V, _ in source))
        return real(source, *arguments)

    def counted_split(V, *arguments):
        if len(V):
            visited.append(len(V))
        return split(V, *arguments)

    monkeypatch.setattr(_gradients, "_sum", counted_sum)
    monkeypatch.setattr(_gradients, "_split", counted_split)
    return visited


@pytest.mark.slow
@pytest.mark.parametrize("source", [Rows, InPieces])
@pytest.mark.parametrize("clip", [0.4, 2.0, 8.0])
@pytest.mark.parametrize("radius", [RADIUS, np.inf])
def test_equal_to_a_pass_at_every_point(source, clip, radius, visits):
    V, Y = rows(HOSTILE)
    sums = Gradients(source(V, Y), radius)
    points = path()
    for u in points:
        np.testing.assert_allclose(sums.at(u, clip), brute_force(V, Y, u, clip), atol=1e-6 * clip)
    assert sum(visits) < 0.6 * len(points) * N


def far_out(v, r):
    """Rows with a few so far out that their residuals are rounded by much more than they are."""
    V, Y = rows()
    V[: len(v)] = np.outer(v, [1.0, 1.0, -1.0])
    Y[: len(v), 0] = V[: len(v)] @ [1.0, -1.0, 0.5] + r
    return V, Y


def test_rows_of_any_length_are_visited_or_beyond_the_clip(visits):
    V, Y = far_out([1e3, 1e6, 1e150, 1e200, 1e6], [1e-3, 1e-6, 1.0, 1.0, 1e9])
    sums = Gradients(Rows(V, Y))
    for u in path():
        np.testing.assert_allclose(sums.at(u, 1.5), brute_force(V, Y, u, 1.5), atol=1e-6)
    assert sum(visits) < 15 * N


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_a_reach_is_as_long_as_rounding_asks_for(size):
    V, Y = rows()
    u, step = size * np.array([1.0, -1.0, 0.5]), np.array([1e-9, 0.0, 0.0])
    sums = Gradients(Rows(V, Y), last=u - step)
    sums.at(u, 1.5)
    reference, norm = sums._reference, np.linalg.norm(u)
    assert reference.reach > 1e-3 * size
    assert 3 * (1 + 2 * (norm + reference.reach) / reference.reach) <= 2**13 * (1 + 1e-9)
    # short rows need no more than the step
    sums = Gradients(Rows(V, Y), RADIUS, last=u - step)
    sums.at(u, 1.5 * size)
    assert sums._reference.reach == pytest.approx(3e-9, rel=1e-3)


def test_at_the_edge_of_the_reach_long_rows_do_not_show_the_way():
    """Rows whose residual there is less than its rounding: a reference with them, a pass without the last."""
    g, u = np.random.default_rng(1), np.array([1.0])
    last = u - 1e-9
    V = g.standard_normal((2**15, 1))
    Y = V + 0.3 * g.standard_normal((2**15, 1))
    reach = Gradients(Rows(V, Y), last=last)._precise(u, 1.0, 3e-9)
    edge = u + reach
    while np.linalg.norm(edge - u) > reach:
        edge = np.nextafter(edge, 0)
    # a fifth of the rows, not the last
    V[:6000, 0] = 10 ** g.uniform(8.5, 30, 6000)
    Y[:6000, 0] = V[:6000, 0] * edge * (1 + 2.0**-52 * g.integers(-3, 4, 6000))
    sums = [Gradients(Rows(V[:rows], Y[:rows]), last=last) for rows in (2**15, 2**15 - 1)]
    for point in (u, edge):
        assert abs(sums[0].at(point, 1.0) - sums[1].at(point, 1.0)) <= 1 + 2.0**-11
    assert sums[0]._reference is not None and sums[1]._reference is None


class Partitioned(Rows):
    """Rows that stay where another processor may be."""

    partitions = object()


def test_long_rows_on_workers_are_passed_over(monkeypatch):
    passes = []
    monkeypatch.setattr(_gradients, "_sum", lambda rows, u, clip: passes.append(rows))
    V, Y = rows()
    there = Partitioned(V, Y)
    sums = Gradients(there, last=np.zeros(3))
    for u in path():
        sums.at(u, 1.0)
    assert passes == [there] * 25


def test_a_new_clip_is_heeded(visits):
    V, Y = rows()
    sums = Gradients(Rows(V, Y), RADIUS)
    for u, clip in zip(path(), [2.0] * 15 + [1.0] * 10, strict=True):
        np.testing.assert_allclose(sums.at(u, clip), brute_force(V, Y, u, clip), atol=1e-6)


def test_a_reach_that_proves_too_long_is_shortened(visits):
    V, Y = rows()
    sums = Gradients(Rows(V, Y), RADIUS)
    u = np.array([1.0, -1.0, 0.5])
    for step in [0.03] * 3 + [1e-4] * 200:
        u = u + step * np.array([0.6, 0.0, 0.8]) * (-1) ** len(visits)
        sums.at(u, 0.5)
    assert visits[-1] < 0.003 * N < 0.02 * N < visits[5]


def test_too_many_rows_for_a_reference_are_passed_over(visits):
    V, Y = rows()
    sums = Gradients(Rows(V, Y), RADIUS, count=2.0**26)
    for u in path():
        sums.at(u, 1.0)
    assert visits == [N] * 25


def test_few_rows_are_passed_over(visits):
    V, Y = rows()
    sums = Gradients(Rows(V[:1000], Y[:1000]), RADIUS)
    for u in path():
        sums.at(u, 1.0)
    assert visits == [1000] * 25


def test_of_a_file_a_part_alone_is_kept_in_memory(visits, monkeypatch):
    monkeypatch.setattr(_gradients, "_MOST_KEPT", 10)
    V, Y = rows()
    sums = Gradients(InPieces(V, Y), RADIUS)
    for u in path():
        np.testing.assert_allclose(sums.at(u, 0.5), brute_force(V, Y, u, 0.5), atol=1e-6)
        assert sums._reference is None or len(sums._reference.near.X) <= 10


@pytest.mark.parametrize("compiled", [True, False])
def test_rows_are_settled_only_if_their_products_stay_on_their_side(compiled):
    kernel = score_kernels.settled_gradient
    kernel = kernel if compiled else kernel.py_func
    V, Y = rows(HOSTILE)
    V, Y, u, clip, reach = V[:2500], Y[:2500], np.array([1.0, -0.9, 0.5]), 1.0, 0.05
    gradient, gram = np.zeros((2, 3), np.int64), np.zeros((2, 3, 3), np.int64)
    near, units = np.zeros(2500, dtype=bool), (units_of(clip), units_of(RADIUS**2))
    with np.errstate(all="ignore"):
        kernel(V, Y, u, clip, reach, *units, gradient, gram, near)
        r, norm = Y[:, 0] - V @ u, np.linalg.norm(V, axis=1)
        size, change, known = norm * abs(r), norm**2 * reach, (abs(r) < 2.0**400) & (norm > 2.0**-480)
        inside, outside = (size + change <= clip) & known, (size - 2 * change >= clip) & known
    np.testing.assert_array_equal(near, ~(inside | outside))
    assert inside.sum() > 500 and outside.sum() > 100 and near.sum() > 100
    factor = np.where(near, 0.0, r) * np.minimum(1, clip / np.where(size > 0, size, 1.0))
    np.testing.assert_allclose(from_whole(gradient, units[0]), factor @ V, atol=1e-9)
    np.testing.assert_allclose(from_whole(gram, units[1]), V[inside].T @ V[inside], atol=1e-9)


def moves_by(clip):
    """The most that one row moves a sum on the way, over `clip`."""
    V, Y = rows()
    points, largest = path(), 0.0
    without = Gradients(Rows(V, Y), RADIUS)
    expected = [without.at(u, clip) for u in points]
    inside = [(3.0, np.sqrt(3) * points[k].sum() + r) for k in (1, 8, 12) for r in (-0.49, 0.49)]
    for norm, y in [*HOSTILE, *inside]:
        v = norm / np.sqrt(3) * np.array([1.0, 1.0, 1.0])
        sums = Gradients(Rows(np.vstack([V, v]), np.vstack([Y, [[y]]])), RADIUS)
        for u, other in zip(points, expected, strict=True):
            largest = max(largest, float(np.linalg.norm(sums.at(u, clip) - other)))
    return largest / clip


def test_no_row_moves_a_sum_by_more_than_the_clip():
    assert moves_by(1.5) == pytest.approx(1.0, abs=1e-9)


def test_a_variant_that_overstays_its_reach_is_caught(monkeypatch):
    monkeypatch.setattr(_gradients._Reference, "serves", lambda self, u, clip: True)
    monkeypatch.setattr(_gradients, "_AHEAD", 0.05)
    assert moves_by(1.5) > 1.05


def test_what_is_compiled_and_stored_does_not_depend_on_the_rows(monkeypatch):
    """A file on disk would tell whether there were rows enough for a reference."""
    lengths, kernel = [], score_kernels.settled_gradient

    def watched(V, *given):
        lengths.append(len(V))
        return kernel(V, *given)

    monkeypatch.setattr(score_kernels, "settled_gradient", watched)
    few = Rows(np.ones((3, 2)), np.ones((3, 1)))
    for sums in (Gradients(few, 2.0), Gradients(few, 2.0, last=np.zeros(2))):
        lengths.clear()
        sums.at(np.zeros(2), 1.0)
        sums.at(np.zeros(2), 1.0)
        assert lengths == [0]
