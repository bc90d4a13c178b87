"""The deepest line: what edits can do, by brute force on small grids."""

import functools
import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from dpstats.mechanisms.line_depths import LineDepths
from dpstats.mechanisms.smooth_sensitivity import truncated

sys.path.insert(0, str(Path(__file__).parents[1]))
import small_grids  # noqa: E402

POINTS = tuple(itertools.product((-1.0, 0.0, 1.0), (0.0, 1.0, 3.0)))
BOX = np.array([[-2.0, 4.0], [-2.0, 4.0]])
neighbours = functools.partial(small_grids.neighbours, POINTS)
data_sets = functools.partial(small_grids.data_sets, POINTS)


@functools.cache
def found(D):
    return LineDepths.of(*np.array(D).reshape(-1, 2).T)


@functools.cache
def estimate(D):
    return np.clip(found(D).values, *BOX.T)


def local_sensitivities(D, count, late=0):
    """``A_k`` within the box; `late` > 0 is an error."""
    lines, sets = found(D), found(D).found
    tau = np.minimum(np.maximum(lines.taus(count) + late, 0), sets.depth)
    if late:
        width = sets.upper - sets.lower
        A = np.where(tau > sets.unbounded, 2 * np.maximum(width[tau, 0], width[tau, 1]), np.inf)
    else:
        A = lines.local_sensitivities(count)
    inside = (np.clip(sets.upper[tau, 2:], *BOX.T) - np.clip(sets.lower[tau, 2:], *BOX.T)).sum(axis=1)
    return np.minimum(np.minimum(A, inside), 12.0)


def worst_excess(k, count, sizes, late=0, seed=1):
    """Largest change of the estimate by the (k + 1)-th edit, beyond ``A_k``."""
    worst = -math.inf
    for D in data_sets(count, sizes, seed):
        allowed = local_sensitivities(D, k + 1, late)[k]
        near = {D}
        for _ in range(k):
            near |= {F for E in near for F in neighbours(E)}
        for E in near:
            for F in neighbours(E):
                worst = max(worst, float(np.abs(estimate(E) - estimate(F)).sum()) - allowed)
    return worst


@pytest.mark.slow
def test_at_distance_0_no_edit_does_more():
    assert worst_excess(0, 150, [0, 1, 3, 5, 6, 8]) <= 1e-12


def test_at_distance_1_no_edit_does_more():
    assert worst_excess(1, 4, [5, 6], seed=2) <= 1e-12


@pytest.mark.slow
def test_sets_of_a_depth_one_too_high_are_caught():
    assert worst_excess(0, 150, [5, 6, 8], late=1) > 0.1


def smoothness_excess(rate, beta=0.3, count=150):
    worst = 0.0
    for D in data_sets(count, [0, 1, 3, 5, 8, 11], 3):
        here = found(D).smooth_bound(BOX, rate)
        for E in neighbours(D):
            there = found(E).smooth_bound(BOX, rate)
            worst = max(
                worst, here / math.exp(beta) / max(there, 1e-300), there / math.exp(beta) / max(here, 1e-300)
            )
    return worst


@pytest.mark.slow
def test_bound_is_smooth():
    assert smoothness_excess(0.3) <= 1 + 1e-9


@pytest.mark.slow
def test_a_slower_decay_is_caught():
    slower = 20  # %
    assert smoothness_excess(0.3 * (1 + slower / 100)) > 1.01


def test_bound_is_the_maximum_over_the_distances():
    for D in data_sets(60, [3, 6, 9], 4):
        terms = np.exp(-0.2 * np.arange(30)) * local_sensitivities(D, 30)
        assert found(D).smooth_bound(BOX, 0.2) == pytest.approx(terms.max(), rel=1e-12)


def margin_pairs(count=250, K=4):
    rng = np.random.default_rng(5)
    for _ in range(count):
        n = int(rng.integers(60, 80))
        D = np.column_stack([rng.integers(-3, 4, n), rng.normal(size=n).round(2)]).astype(float)
        # a few observations far away make a jump near the K-th distance
        D[: rng.integers(0, 20), 1] += 10.0 ** rng.integers(0, 4)
        E = np.delete(D, 0, axis=0) if rng.random() < 0.3 else D.copy()
        if len(E) == n:
            E[-1] = rng.choice([-3.0, 0.0, 3.0]), rng.choice([-1e4, 0.0, 1e4])
        yield [truncated(LineDepths.of(*F.T).local_sensitivities(2 * K + 1), K, 1.2) for F in (D, E)]


@pytest.mark.slow
def test_margin_without_bounds_has_sensitivity_one_and_means_smooth():
    safe = 0
    for (bound, here), (other, there) in margin_pairs():
        assert abs(here - there) <= 1
        if here >= 0:
            safe += 1
            assert other <= math.exp(1.2) * bound * (1 + 1e-9) and bound <= math.exp(1.2) * other * (1 + 1e-9)
    assert safe > 20


def test_extents_are_of_the_values_in_their_order():
    """A steep line, whose values at -1 and 1 are far apart."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    lines = LineDepths.of(x, 5 + 20 * x + rng.normal(size=200))
    lower, upper = lines.extent(60)
    assert np.all((lower < lines.values) & (lines.values < upper)) and np.all(upper - lower < 3)
    box = np.column_stack([lower, upper])
    within = lines.smooth_bound(box, 0.1)
    assert 0 < within <= lines.smooth_bound(np.array([[-100.0, 100.0]] * 2), 0.1)
    # a box about the values counts, one about them in the wrong order holds no line
    assert lines.smooth_bound(box[::-1], 50.0) < 1e-300
