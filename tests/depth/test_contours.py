"""Exact polygons against every candidate vertex in rational arithmetic."""

import brute_force
import numpy as np
import pytest

from dpstats import depth
from dpstats.errors import ParameterError


def sample(rng, n, kind):
    if kind == "normal":
        return rng.standard_normal((n, 2))
    if kind == "line":
        return np.outer(rng.integers(-3, 4, n), rng.integers(-2, 3, 2)).astype(float) + rng.integers(-5, 5, 2)
    if kind == "duplicates":
        return rng.standard_normal((3, 2))[rng.integers(0, 3, n)]
    return rng.integers(-2, 3, (n, 2)).astype(float)


KINDS = ["normal", "grid", "line", "duplicates"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_brute_force(kind):
    rng = np.random.default_rng(0)
    for _ in range(14):
        n = int(rng.integers(1, 8))
        data = sample(rng, n, kind)
        candidates = brute_force.contour_candidates(data)
        deepest = max(candidates.values())
        region, found = depth.plane_median(data)
        assert found == deepest and len(region)
        polygons = depth.plane_contours(data, range(1, n + 1))
        for t, polygon in zip(range(1, n + 1), polygons, strict=True):
            inside = np.array([[float(a), float(b)] for (a, b), d in candidates.items() if d >= t])
            assert (len(polygon) > 0) == (len(inside) > 0) == (t <= deepest)
            if t > deepest:
                continue
            for v in rng.standard_normal((15, 2)):  # the same support function
                np.testing.assert_allclose((polygon @ v).max(), (inside @ v).max(), rtol=1e-9, atol=1e-9)
            # every vertex is a candidate: none is spurious
            gap = np.abs(polygon[:, None] - inside[None]).sum(axis=2).min(axis=1)
            assert gap.max() < 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_polygons_are_convex_nested_and_as_deep_as_they_say(kind):
    rng = np.random.default_rng(1)
    data = sample(rng, 60, kind)
    _, q = depth.plane_median(data)
    polygons = depth.plane_contours(data, range(1, q + 2))
    assert len(polygons[-1]) == 0
    for t, (outer, inner) in enumerate(zip(polygons[:-1], polygons[1:], strict=True), start=1):
        assert len(np.unique(outer, axis=0)) == len(outer)
        edges = np.roll(outer, -1, axis=0) - outer
        if len(outer) > 2:
            turns = (
                edges[:, 0] * np.roll(edges, -1, axis=0)[:, 1]
                - edges[:, 1] * np.roll(edges, -1, axis=0)[:, 0]
            )
            assert (turns > -1e-12).all()
            normals = np.column_stack([edges[:, 1], -edges[:, 0]])
            if len(inner):
                assert ((inner[None] - outer[:, None]) * normals[:, None]).sum(axis=2).max() < 1e-9
            centre = depth.centroid(outer)
            within = centre + (1 - 1e-7) * (outer - centre)
            assert (depth.halfspace(within, data) >= t).all()
            beyond = centre + (1 + 1e-7) * (outer - centre)
            assert (depth.halfspace(beyond, data) < t).all()


def test_scale_and_an_outlier():
    rng = np.random.default_rng(2)
    for kind in ("normal", "grid"):
        data = sample(rng, 40, kind)
        _, q = depth.plane_median(data)
        for scale in (1e-9, 1e9):
            assert depth.tukey_median(data * scale).depth == depth.tukey_median(data).depth
            for a, b in zip(
                depth.contours(data, [1, q // 2, q]),
                depth.contours(data * scale, [1, q // 2, q]),
                strict=True,
            ):
                np.testing.assert_allclose(a * scale, b, rtol=1e-9)
        for far in ([1e10, 0.0], [0.0, -1e10], [1e10, 1e10]):
            polluted = np.vstack([data, far])
            assert abs(depth.tukey_median(polluted).depth - q) <= 1
            assert np.abs(depth.tukey_median(polluted).point).max() < 10


def test_hull_is_the_first_contour():
    rng = np.random.default_rng(3)
    from scipy.spatial import ConvexHull

    data = rng.standard_normal((80, 2))
    hull = data[ConvexHull(data).vertices]
    found = depth.contours(data, 1)[0]
    assert {tuple(p) for p in found} == {tuple(p) for p in hull}


def test_more_vertices_than_the_first_capacity():
    angle = 2 * np.pi * np.arange(150) / 150 + 0.01
    data = np.column_stack([np.cos(angle), np.sin(angle)])
    assert [len(p) for p in depth.plane_contours(data, [1, 2, 70])] == [150, 150, 150]


@pytest.mark.filterwarnings("error")
def test_kernels_never_raise_or_warn():
    assert [None if p is None else len(p) for p in depth.plane_contours(np.empty((0, 2)), [0, 1])] == [
        None,
        0,
    ]
    region, q = depth.plane_median(np.empty((0, 2)))
    assert region is None and q == 0 and depth.centroid(region).tolist() == [0.0, 0.0]
    for n in (1, 2, 3):
        for value in (0.0, 1e300, 1e-300, -1e308):
            data = np.full((n, 2), value)
            assert [len(p) for p in depth.plane_contours(data, [1, n, n + 1])] == [1, 1, 0]
            assert depth.plane_median(data)[1] == n
    for scale in (1e-310, 1e308):
        depth.plane_median(np.random.default_rng(0).uniform(-1, 1, (9, 2)) * scale)


def test_l1_diameter():
    rng = np.random.default_rng(4)
    for _ in range(10):
        polygon = rng.standard_normal((6, 2))
        pairs = np.abs(polygon[:, None] - polygon[None]).sum(axis=2)
        assert depth.l1_diameter(polygon) == pytest.approx(pairs.max())
    assert depth.l1_diameter(None) == np.inf
    assert depth.l1_diameter(np.empty((0, 2))) == 0.0


def test_the_order_statistic_bound_holds_for_the_exact_diameter():
    """What private Tukey medians use in any dimension is never below the polygon's diameter."""
    rng = np.random.default_rng(5)
    for kind in KINDS:
        data = sample(rng, 50, kind)
        _, q = depth.plane_median(data)
        for t, polygon in zip(range(1, q + 1), depth.plane_contours(data, range(1, q + 1)), strict=True):
            sides = [np.sort(data @ s) for s in ([1, 1], [1, -1])]
            bound = max(s[len(data) - t] - s[t - 1] for s in sides)
            assert depth.l1_diameter(polygon) <= bound + 1e-9


def test_centroid():
    assert depth.centroid(np.array([[1.0, 2.0]])).tolist() == [1.0, 2.0]
    assert depth.centroid(np.array([[0.0, 0.0], [2.0, 4.0]])).tolist() == [1.0, 2.0]
    square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [1.0, 2.0], [0.0, 2.0]])
    np.testing.assert_allclose(depth.centroid(square), [1.0, 1.0])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("data", ([[1, 2, 3]], 1)),
        ("data", ([[1, np.nan]], 1)),
        ("data", ("text", 1)),
        ("depths", ([[1, 2]], 0)),
        ("depths", ([[1, 2]], 1.5)),
        ("depths", ([[1, 2]], "one")),
    ],
)
def test_errors_name_the_parameter(name, arguments):
    with pytest.raises(ParameterError, match=f"^{name} must"):
        depth.contours(*arguments)


@pytest.mark.parametrize("seed", [2, 9, 11])
def test_the_centre_of_a_sliver_is_in_it(seed):
    """Of points on a line but for rounding, where areas are noise; outside, neighbours' centres would be
    farther apart than any bound of a diameter."""
    g = np.random.default_rng([7, seed])
    x = g.standard_normal(61) + 1e4
    data = np.column_stack([x, 3 * x / 7])
    g.standard_normal(61)
    for rep in range(4):
        other, j = data.copy(), g.integers(61)
        off = rep % 2
        other[j] = [1e4 + g.standard_normal(), 3e4 / 7 + g.standard_normal()] if off else data[g.integers(61)]
        polygon, _ = depth.plane_median(other)
        centre, rounding = depth.centroid(polygon), 1e-12 * np.abs(polygon).max()
        for way in ([1, 0], [0, 1], [1, 1], [1, -1]):
            ends = polygon @ way
            assert ends.min() - rounding <= centre @ way <= ends.max() + rounding
