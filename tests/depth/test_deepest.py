"""The dual arrangement: every vertex against rational arithmetic, and what is made of it."""

import brute_force
import numpy as np
import pytest

from dpstats import depth
from dpstats.errors import ParameterError


def sample(rng, n, kind):
    if kind == "grid":
        return rng.integers(-3, 4, n).astype(float), rng.integers(-3, 4, n).astype(float)
    if kind == "few x":
        return rng.integers(0, 3, n).astype(float), rng.standard_normal(n)
    return rng.standard_normal(n), rng.standard_cauchy(n)


KINDS = ["grid", "few x", "continuous"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_every_vertex_once_with_its_exact_depth(kind):
    rng = np.random.default_rng(0)
    for _ in range(40):
        x, y = sample(rng, rng.integers(1, 12), kind)
        fits, depths = depth.vertices(x, y)
        exact = brute_force.vertices(x, y)
        found = sorted(
            (round(a, 8) + 0.0, round(b, 8) + 0.0, int(d)) for (a, b), d in zip(fits, depths, strict=True)
        )
        want = sorted((round(float(a), 8) + 0.0, round(float(b), 8) + 0.0, d) for (a, b), d in exact.items())
        assert found == want


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_extremes_are_those_of_the_vertices_of_each_depth(kind):
    rng = np.random.default_rng(1)
    for _ in range(30):
        x, y = sample(rng, rng.integers(2, 12), kind)
        exact = brute_force.vertices(x, y)
        if not exact:
            continue
        levels = depth.regression_levels(x, y)
        assert levels.depth == max(exact.values())
        assert levels.lower.shape == levels.upper.shape == (levels.depth + 1, 4)
        deepest = np.array([[float(a), float(b)] for (a, b), d in exact.items() if d == levels.depth])
        np.testing.assert_allclose(levels.estimate, deepest.mean(axis=0), rtol=1e-9, atol=1e-9)
        for t in range(levels.depth + 1):
            if t <= levels.unbounded:
                assert np.isinf(levels.lower[t]).all() and np.isinf(levels.diameters()[t])
                continue
            values = [(a, b, a + b, a - b) for (a, b), d in exact.items() if d >= t]
            for c in range(4):
                low, high = min(v[c] for v in values), max(v[c] for v in values)
                assert levels.lower[t, c] <= low and levels.upper[t, c] >= high  # rounded outward
                assert levels.lower[t, c] >= float(low) - 1e-9 * (1 + abs(float(low)))
                assert levels.upper[t, c] <= float(high) + 1e-9 * (1 + abs(float(high)))


@pytest.mark.parametrize("far", [(-1.6e149, -2.5e30), (1e60, 1e45), (3e40, 3e40)])
def test_one_row_far_out_leaves_the_extremes_within_those_of_one_edit(far):
    """The fits of depth ``t`` after a row is replaced have at least ``t - 1`` before: their extremes are
    within those, to rounding.

    A rounding in units of the far row would make the set of every depth as wide as its last place.
    """
    x, y = np.random.default_rng(0).standard_normal((2, 31))
    before = depth.regression_levels(x, y)
    after = depth.regression_levels(np.append(far[0], x[1:]), np.append(far[1], y[1:]))
    t = np.arange(before.unbounded + 2, min(before.depth + 1, after.depth) + 1)
    room = 1e-12 * np.abs(before.upper[t - 1])
    assert np.all(after.upper[t, :2] <= (before.upper[t - 1] + room)[:, :2])
    assert np.all(after.lower[t, :2] >= (before.lower[t - 1] - room)[:, :2])


def test_a_depth_is_unbounded_up_to_the_largest_tie_and_not_beyond():
    """At depth G there are lines of that depth and any slope; deeper there are none beyond the extremes."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        x, y = sample(rng, 12, "few x")
        levels = depth.regression_levels(x, y)
        steep = []
        for group in np.unique(x):
            for height in np.unique(y[x == group]):
                steep += [(height - s * group, s) for s in (-1e6, 1e6)]
        depths = depth.regression(steep, x, y)
        assert depths.max() == levels.unbounded
        if levels.depth > levels.unbounded:
            assert np.isfinite(levels.upper[levels.unbounded + 1 :]).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_deepest_regression_is_deepest(kind):
    rng = np.random.default_rng(3)
    rules = set()
    for _ in range(25):
        x, y = sample(rng, 14, kind)
        found = depth.deepest_regression(x, y)
        exact = brute_force.vertices(x, y)
        assert found.depth == max(exact.values())
        assert depth.regression(found.fit, x, y).tolist() == [found.depth]
        assert depth.regression(rng.normal(size=(200, 2)), x, y).max() <= found.depth
        rules.add(found.rule)
    assert "mean" in rules and (kind != "continuous" or "vertex" in rules)


def test_the_rule_follows_units_and_added_lines():
    rng = np.random.default_rng(4)
    for _ in range(10):
        x, y = sample(rng, 21, "continuous")
        a, b = depth.deepest_regression(x, y).fit
        found = depth.deepest_regression(4 * x, 8 * y).fit
        np.testing.assert_allclose(found, [8 * a, 2 * b], rtol=1e-12)
        found = depth.deepest_regression(x, y + 3 + 2 * x).fit
        np.testing.assert_allclose(found, [a + 3, b + 2], rtol=1e-9, atol=1e-9)
        found = depth.deepest_regression(-x, y).fit
        np.testing.assert_allclose(found, [a, -b], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1e9, 0.1])
def test_scale_does_not_matter(scale):
    rng = np.random.default_rng(5)
    for kind in KINDS:
        x, y = sample(rng, 30, kind)
        depths = np.sort(depth.vertices(x, y)[1])
        assert (np.sort(depth.vertices(x, y * scale)[1]) == depths).all()
        assert (np.sort(depth.vertices(x * scale, y)[1]) == depths).all()


def test_one_outlier():
    rng = np.random.default_rng(6)
    x, y = sample(rng, 40, "continuous")
    for far in ((1e10, 0.0), (0.0, 1e10), (1e10, -1e10)):
        found = depth.deepest_regression(np.append(x, far[0]), np.append(y, far[1]))
        assert abs(found.depth - depth.deepest_regression(x, y).depth) <= 1
        assert np.abs(found.fit).max() < 100


def test_a_substitution_moves_the_maximal_depth_by_at_most_one():
    rng = np.random.default_rng(7)
    for kind in KINDS:
        x, y = sample(rng, 15, kind)
        before = depth.regression_levels(x, y).depth
        for _ in range(10):
            u, v = x.copy(), y.copy()
            k = rng.integers(15)
            (u[k],), (v[k],) = sample(rng, 1, kind)
            assert abs(depth.regression_levels(u, v).depth - before) <= 1


def test_without_a_vertex():
    flat = depth.deepest_regression([2, 2, 2, 2], [5, 1, 3, 9])
    assert flat.fit.tolist() == [3.0, 0.0] and flat.depth == 2 and flat.rule == "flat"
    assert depth.deepest_regression([7], [4]).fit.tolist() == [4.0, 0.0]
    two = depth.deepest_regression([0, 1], [1, 3])
    assert two.fit.tolist() == [1.0, 2.0] and two.depth == 2
    assert len(depth.vertices([1, 1], [2, 3])[0]) == 0
    assert len(depth.vertices([], [])[0]) == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_extremes_never_raise_or_warn(n):
    for value in (0.0, 1.0, 1e300, -1e-300):
        levels = depth.regression_levels(np.full(n, value), np.full(n, value))
        assert levels.unbounded == n and levels.depth == n
        assert np.isinf(levels.diameters()).all()
    rng = np.random.default_rng(n)
    for scale in (1e-310, 1e308):
        depth.regression_levels(rng.uniform(-1, 1, n) * scale, rng.uniform(-1, 1, n) * scale)


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("x", [], []),
        ("x", [1, np.nan], [1, 2]),
        ("x", "text", [1]),
        ("x", [[1, 2], [3, 4]], [1, 2]),
        ("y", [1, 2], [1, 2, 3]),
        ("y", [1, 2], ["a", "b"]),
        ("y", [1, 2], [1, np.inf]),
    ],
)
def test_errors_name_the_parameter(name, x, y):
    with pytest.raises(ParameterError, match=f"^{name} must"):
        depth.deepest_regression(x, y)
