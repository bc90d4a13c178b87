"""The bound of the median slope, by brute force on small grids."""

import functools
import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from dpstats.mechanisms import median_slope as module
from dpstats.mechanisms.median_slope import median_slope, slope_sensitivity, smooth_slope_bound

sys.path.insert(0, str(Path(__file__).parents[1]))
import small_grids  # noqa: E402

POINTS = tuple(itertools.product((-1.0, 0.0, 1.0, 2.5), (0.0, 1.0, 3.0)))
CLAMP = 4.0
neighbours = functools.partial(small_grids.neighbours, POINTS)
data_sets = functools.partial(small_grids.data_sets, POINTS)


def columns(D):
    return np.array(D, dtype=float).reshape(-1, 2).T


@functools.cache
def slope(D):
    return median_slope(*columns(D), CLAMP)


def bound_at(D, k, shift=0):
    u, w = columns(D)
    return slope_sensitivity(u, w, np.sort(u), np.sort(w), CLAMP, k - shift)


def worst_excess(k, count, sizes, shift=0):
    worst = -math.inf
    for D in data_sets(count, sizes, 1):
        near = {D}
        for _ in range(k):
            near |= {F for E in near for F in neighbours(E)}
        allowed = bound_at(D, k, shift)
        worst = max(worst, max(abs(slope(E) - slope(F)) for E in near for F in neighbours(E)) - allowed)
    return worst


@pytest.mark.slow
def test_at_distance_0_no_edit_does_more():
    assert worst_excess(0, 120, [0, 1, 2, 5, 7, 8, 12]) <= 1e-12


def test_at_distance_1_no_edit_does_more():
    assert worst_excess(1, 5, [7, 9]) <= 1e-12


@pytest.mark.slow
def test_a_bound_of_one_edit_less_is_caught():
    assert worst_excess(0, 250, [5, 7, 8, 12], shift=1) > 0.1


def continuous_pairs(count, seed):
    """Neighbours of moderate size, with a slope that the box does not clamp."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = int(rng.integers(12, 40))
        D = np.column_stack([rng.normal(size=n), rng.normal(size=n)])
        D[:, 1] += D[:, 0]
        E = D.copy() if rng.random() < 0.6 else np.delete(D, 0, axis=0)
        if len(E) == n:
            E[-1] = rng.normal(0, 2, 2) * rng.choice([1, 100])
        yield D, E


def smoothness_excess(bound, beta, pairs):
    worst = 0.0
    for D, E in pairs:
        one, other = bound(*np.transpose(D)), bound(*np.transpose(E))
        worst = max(worst, max(one, other) / math.exp(beta) / min(one, other))
    return worst


@pytest.mark.slow
def test_bound_is_smooth():
    def bound(u, w):
        return smooth_slope_bound(u, w, 50.0, 0.2)

    assert smoothness_excess(bound, 0.2, continuous_pairs(400, 2)) <= 1 + 1e-9


@pytest.mark.slow
def test_bound_is_smooth_on_grids():
    for D in data_sets(60, [3, 6, 9, 12], 3):
        here = smooth_slope_bound(*columns(D), CLAMP, 0.2)
        for E in neighbours(D):
            there = smooth_slope_bound(*columns(E), CLAMP, 0.2)
            assert max(here, there) <= math.exp(0.2) * min(here, there) * (1 + 1e-9)


@pytest.mark.slow
def test_a_slower_decay_is_caught():
    def bound(u, w):
        return smooth_slope_bound(u, w, 50.0, 0.24)

    assert smoothness_excess(bound, 0.2, continuous_pairs(400, 2)) > 1.001


@pytest.mark.slow
def test_cells_at_order_statistics_are_caught(monkeypatch):
    """The paper's Algorithm 3 splits the rectangle at order statistics: the bound is valid but not smooth."""

    def bound(u, w):
        by_u, by_w = np.sort(u), np.sort(w)
        n, m = len(u), (len(u) + 1) // 2 - 1

        def at_order_statistics(k):
            if m - k - 1 < 0 or m + k + 1 >= n:
                return 100.0
            ranks = np.unique(np.linspace(m - k - 1, m + k + 1, 4).round().astype(int))
            most, least = module._extremes(u, w, by_w[ranks], by_u[ranks], m + k + 1, m - k - 1)
            return min(most, 50.0) - max(least, -50.0)

        return max(math.exp(-0.2 * k) * at_order_statistics(k) for k in range(40))

    assert smoothness_excess(bound, 0.2, continuous_pairs(1500, 2)) > 1.01


def test_a_finer_bound_is_smaller_and_still_covers(monkeypatch):
    u, w = np.random.default_rng(4).normal(size=(2, 101))
    by_u, by_w = np.sort(u), np.sort(w)
    found = []
    for cells in (2, 6, 12, 40):
        monkeypatch.setattr(module, "_CELLS", cells)
        found.append(slope_sensitivity(u, w, by_u, by_w, 100.0, 2))
    assert found == sorted(found, reverse=True) and found[-1] < 0.95 * found[0]
    # no centre in the rectangle has a slope outside
    m = 50
    with np.errstate(divide="ignore"):
        inside = [
            np.sort((w - c1) / (u - c2))[[m - 3, m + 3]]
            for c1 in np.linspace(by_w[m - 3], by_w[m + 3], 9)
            for c2 in np.linspace(by_u[m - 3], by_u[m + 3], 9)
        ]
    assert np.max(inside) - np.min(inside) <= found[-1]


def test_a_larger_interval_never_has_a_finer_grid():
    rng = np.random.default_rng(5)
    for _ in range(2000):
        lo, hi = np.sort(rng.normal(size=2)) * 10.0 ** rng.integers(-12, 3) + rng.choice([0, 1, 1e6])
        wider = lo - abs(rng.normal()) * (hi - lo), hi + abs(rng.normal()) * (hi - lo)
        inner, outer = module._edges(lo, hi), module._edges(*wider)
        within = outer[(outer > lo) & (outer < hi)]
        assert len(inner) <= 13 and len(outer) <= 13
        assert np.isin(within, inner).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1.0, 1e100])
def test_extreme_magnitudes(scale):
    u, w = np.random.default_rng(6).normal(size=(2, 31)) * scale
    assert 0 <= smooth_slope_bound(u, w, 10.0, 0.1) <= 20
    assert -10 <= median_slope(u, w, 10.0) <= 10


def test_ties_at_the_centre_have_infinite_slopes_of_either_sign():
    u = np.array([0.0, 0, 0, 0, 0, 0, 1, 1, 1])
    w = np.array([-2.0, -1, 0, 2, 3, 4, 1.4, 1.6, 1.8])
    assert median_slope(u, w, 10.0) == pytest.approx(0.0)
    assert median_slope(u[:5], np.array([0.0, 1, 2, 3, 3]), 10.0) == 0.0
    assert median_slope(np.zeros(3), np.array([1.0, 2.0, 3.0]), 10.0) == 0.0
    assert median_slope(np.empty(0), np.empty(0), 10.0) == 0.0
