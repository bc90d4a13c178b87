"""Depths at the ends of a line's intervals: the definition, sensitivity, and what coverage rests on."""

import numpy as np
import pytest

from dpstats.mechanisms.slope_depths import largest_depth, slope_levels, value_levels


def small(rng, least=1):
    n = int(rng.integers(least, 13))
    return rng.integers(0, 7, n).astype(float), rng.integers(-4, 5, n).astype(float)


def by_definition(x, r):
    """Over all finite intercepts, the least count over the splits; NaN is on both sides."""
    splits, both = [-np.inf, *x], np.isnan(r)
    return max(
        min(np.sum((x <= v) & (both | (r >= a))) + np.sum((x > v) & (both | (r <= a))) for v in splits)
        for a in (*r[np.isfinite(r)], 0.0)
    )


def last(x):
    return np.append(np.diff(x) > 0, True)


@pytest.mark.slow
def test_depth_is_that_of_the_definition():
    rng = np.random.default_rng(1)
    for _ in range(400):
        x, r = small(rng)
        x = np.sort(x)
        assert largest_depth(r, last(x)) == by_definition(x, r)
        r = np.where(rng.random(len(r)) < 0.4, rng.choice([-np.inf, np.inf, np.nan], len(r)), r)
        assert largest_depth(r, last(x)) == by_definition(x, r)
    assert largest_depth(np.array([]), np.array([], bool)) == 0


def by_slopes(x, y, slope, widths):
    ends = zip(slope - widths, slope + widths, strict=True)
    deepest = [(by_definition(x, y - a * x), by_definition(x, b * x - y)) for a, b in ends]
    return np.array(deepest).T - len(x) / 2


WIDTHS = np.array([0.1, 0.5, 1.3])


@pytest.mark.slow
def test_levels_are_those_of_the_ends():
    rng = np.random.default_rng(2)
    for _ in range(100):
        x, y = small(rng)
        assert np.array_equal(slope_levels(x, y, 0.3, WIDTHS), by_slopes(x, y, 0.3, WIDTHS))


@pytest.mark.slow
def test_levels_of_a_value_are_those_of_slopes_after_the_projection():
    rng = np.random.default_rng(3)
    for _ in range(100):
        x, y = small(rng)
        at = 2.5
        u, w = 1 / (x - at), y / (x - at)
        assert np.array_equal(value_levels(x, y, at, 0.37, WIDTHS), by_slopes(u, w, 0.37, WIDTHS))


@pytest.mark.parametrize("beyond", [1.0, 1e9])
def test_rows_at_the_point_are_on_one_side_of_a_value_whatever_the_slope(beyond):
    """They were once on both sides: of a slope that is no number."""
    x, y = np.repeat([2.0, 5.0], [60, 40]), np.append(np.linspace(-0.9, 0.9, 60), np.linspace(-9, 9, 40))
    levels = value_levels(x, y, 2.0, 0.0, np.array([0.0, beyond]))
    # of the rows at the point none is beyond: the others alone count, half of them on either side of a slope
    assert np.all(levels[:, 0] == 0) and np.all(levels[:, 1] == 20 - 50)


def test_rows_at_the_point_with_the_value_count_on_both_sides():
    """Half of the responses are the same: the level at them is that of ties broken at random, or larger."""
    x, y = np.repeat([2.0, 5.0], [60, 40]), np.tile([1.0, 3.0], 50)
    y[:40] = 2.0
    levels = value_levels(x, y, 2.0, 2.0, np.array([0.0]))
    assert np.all(levels >= 0)


def worst_move(levels, trials=300):
    rng, worst = np.random.default_rng(4), 0.0
    for _ in range(trials):
        x, y = small(rng, 2)
        if rng.random() < 0.3:
            x[1:] = 3.0
        x2, y2 = x.copy(), y.copy()
        x2[0], y2[0] = rng.choice([-1e300, 0.0, 3.0, 1e300]), rng.choice([-1e300, 0.0, 1e300, 5e-324])
        here = levels(x, y)
        for there in (levels(x2, y2), levels(x[1:], y[1:])):
            worst = max(worst, float(np.abs(here - there).max()))
    return worst


@pytest.mark.parametrize(
    "levels",
    [
        lambda x, y: slope_levels(x, y, 0.3, WIDTHS),
        lambda x, y: value_levels(x, y, 3.0, 0.37, WIDTHS),
        lambda x, y: value_levels(x, y, 1e300, 0.37, WIDTHS),
    ],
)
def test_one_record_moves_a_level_by_at_most_one(levels):
    assert 0 < worst_move(levels) <= 1


def one_sided(x, y, slopes):
    by_x = np.argsort(x)
    x, y = x[by_x], y[by_x]
    return np.array([largest_depth(y - b * x, last(x)) for b in slopes])


def test_the_depth_of_one_side_grows_with_the_slope():
    """What coverage rests on: a slope beyond an end of the interval is no shallower than the end."""
    rng, slopes = np.random.default_rng(5), np.sort(np.random.default_rng(6).normal(size=60) * 2)
    for _ in range(40):
        x, y = rng.normal(size=(2, int(rng.integers(2, 40))))
        assert np.all(np.diff(one_sided(x, y, slopes)) >= 0)
