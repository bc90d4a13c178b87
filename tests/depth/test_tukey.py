from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dpstats import depth
from dpstats.depth import _space
from dpstats.depth._halfspace import rational_depth
from dpstats.errors import ParameterError


def test_one_dimension_is_the_median():
    for n in (1, 2, 5, 8):
        x = np.random.default_rng(n).standard_normal(n)
        found = depth.tukey_median(x)
        np.testing.assert_allclose(found.point, [np.median(x)])
        assert found.depth == depth.halfspace(found.point, x)[0] and found.maximal and found.centre


def test_the_plane_beats_every_point_tried():
    rng = np.random.default_rng(0)
    for data in (
        rng.standard_normal((60, 2)),
        rng.integers(0, 6, (60, 2)).astype(float),
        rng.standard_cauchy((60, 2)),
    ):
        found = depth.tukey_median(data)
        tries = np.vstack(
            [data, rng.uniform(-3, 6, (500, 2)), found.point + 0.05 * rng.standard_normal((500, 2))]
        )
        assert depth.halfspace(tries, data).max() <= found.depth
        assert found.maximal and found.centre


def test_affine_equivariance_in_the_plane():
    rng = np.random.default_rng(1)
    data = rng.standard_normal((50, 2))
    A, b = np.array([[2.0, 0.5], [-1.0, 3.0]]), np.array([4.0, -7.0])
    one, other = depth.tukey_median(data), depth.tukey_median(data @ A + b)
    assert one.depth == other.depth
    np.testing.assert_allclose(one.point @ A + b, other.point, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_space(seed):
    """The depth is that of the point, and no point tried is deeper; the centroid is in the middle."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(12, 60))
    data = rng.standard_normal((n, 3)) if seed % 2 else rng.integers(-3, 4, (n, 3)).astype(float)
    found = depth.tukey_median(data)
    assert found.method == "exact"
    assert depth.halfspace(found.point, data)[0] == found.depth >= -(-n // 4)
    near = found.point + rng.standard_normal((150, 3)) * np.repeat([0.3, 0.05, 0.005], 50)[:, None]
    assert depth.halfspace(np.vstack([near, data]), data).max() <= found.depth or not found.maximal


@pytest.mark.slow
def test_space_is_usually_certified():
    done = []
    for seed in range(20):
        rng = np.random.default_rng(100 + seed)
        found = depth.tukey_median(rng.standard_normal((30, 3)))
        done.append(found.maximal)
    assert sum(done) >= 18


@pytest.mark.slow
def test_the_centroid_in_space_is_that_of_the_region():
    """Against the mean of uniform points that are as deep; four standard errors, about 2e-4 to fail."""
    rng = np.random.default_rng(3)
    data = rng.standard_normal((40, 3))
    found = depth.tukey_median(data)
    assert found.centre
    box = 0.2
    points = found.point + rng.uniform(-box, box, (8000, 3))
    inside = points[depth.halfspace(points, data) >= found.depth]
    assert len(inside) > 20 and np.abs(inside - found.point).max() < box * 0.9
    error = inside.std(axis=0) / np.sqrt(len(inside))
    assert (np.abs(inside.mean(axis=0) - found.point) < 4 * error).all()


def test_data_in_a_subspace():
    rng = np.random.default_rng(4)
    flat = rng.integers(-5, 6, (40, 2)).astype(float)
    lifted = flat @ np.array([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, -1.0, 1.0]]) + [0, 0, 5, 0]
    one, other = depth.tukey_median(flat), depth.tukey_median(lifted)
    assert one.largest == other.largest and other.method == "exact"
    np.testing.assert_allclose(other.point[:2], one.point, rtol=1e-12)
    np.testing.assert_allclose(other.point[2], 2 * one.point[0] - one.point[1] + 5)
    constant = depth.tukey_median(np.full((7, 3), 2.5))
    assert constant.point.tolist() == [2.5, 2.5, 2.5] and constant.depth == 7
    line = depth.tukey_median(np.outer([1, 2, 3, 4, 9], [1.0, 1.0, -1.0]))
    np.testing.assert_allclose(line.point, [3, 3, -3])
    assert line.depth == 3


def tied_space(seed):
    """Few rows on a grid, some of them repeated, and some in tenths."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 25))
    data = rng.integers(0, rng.integers(2, 5), (n, 3)).astype(float)
    if seed % 3 == 1:
        data = data / 10
    elif seed % 3 == 2:
        data = np.repeat(data[: max(4, n // 3)], 3, axis=0)
    return data


@pytest.mark.slow
def test_the_depth_is_that_of_the_point_as_returned():
    """Also of corners that no double names, and of data in a plane, whose third coordinate was off by an
    ulp."""
    thin = 0
    for seed in range(90):
        data = tied_space(seed)
        found = depth.tukey_median(data)
        assert found.depth == depth.halfspace(found.point, data)[0]
        assert found.largest is None or found.depth <= found.largest
        assert found.maximal == (found.depth == found.largest)
        thin += found.largest is not None and found.depth < found.largest
    assert thin > 3  # the search finds the cases that were claimed too deep


@pytest.mark.slow
def test_directions():
    rng = np.random.default_rng(5)
    data = rng.standard_normal((150, 5)) + np.arange(5)
    found = depth.tukey_median(data)
    assert found.method == "directions" and not found.maximal
    assert found.depth == depth.halfspace(found.point, data, "directions")[0]
    assert (
        found.depth >= depth.halfspace(np.vstack([data, np.median(data, axis=0)]), data, "directions").max()
    )
    np.testing.assert_allclose(found.point, np.arange(5), atol=0.5)
    own = depth.tukey_median(data, directions=np.eye(5))
    middle = np.sort(data, axis=0)[74:76]  # a median in every coordinate
    assert own.depth == 75 and (own.point >= middle[0] - 1e-9).all() and (own.point <= middle[1] + 1e-9).all()


@pytest.mark.slow
def test_the_pool_gives_an_upper_bound():
    rng = np.random.default_rng(6)
    data = rng.standard_normal((40, 3))
    _, over_few = _space.deepest_in_pool(data, depth.directions(3, 50))
    assert over_few >= depth.tukey_median(data).depth


@pytest.mark.filterwarnings("error")
def test_the_pool_never_raises_or_warns():
    V = depth.directions(4, 20)
    assert _space.deepest_in_pool(np.empty((0, 4)), V)[1] == 0
    rng = np.random.default_rng(7)
    for n in (1, 2, 3, 30):
        for scale in (0.0, 1e-310, 1e-9, 1e9, 1e308):
            point, reached = _space.deepest_in_pool(rng.uniform(-1, 1, (n, 4)) * scale, V)
            assert np.isfinite(point).all() and reached >= -(-n // 5)
        mixed = rng.standard_normal((n, 4))
        mixed[0] = 1e300
        assert np.isfinite(_space.deepest_in_pool(mixed, V)[0]).all()


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
def test_few_rows(n, d):
    data = np.random.default_rng(n).standard_normal((n, d))
    found = depth.tukey_median(data)
    assert found.point.shape == (d,) and found.largest == (2 if n == 3 and d == 1 else 1)
    assert found.depth == depth.halfspace(found.point[None], data, "exact")[0]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("data", ([],)),
        ("data", ([[1, np.nan]],)),
        ("data", ("text",)),
        ("method", ([[1, 2]], "best")),
        ("method", (np.random.default_rng(0).standard_normal((9, 4)), "exact")),
        ("directions", (np.random.default_rng(0).standard_normal((9, 4)), None)),
    ],
)
def test_errors_name_the_parameter(name, arguments):
    more = {"directions": "all"} if name == "directions" else {}
    with pytest.raises(ParameterError, match=f"^{name} must"):
        depth.tukey_median(*arguments, **more)


def corners_in_space(data):
    """Every intersection of three planes through three observations each, in rational numbers."""
    rows = [[Fraction(v) for v in row] for row in data.tolist()]
    planes = []
    for i, j, k in combinations(range(len(rows)), 3):
        normal = _space._cross(*([a - b for a, b in zip(rows[m], rows[i], strict=True)] for m in (j, k)))
        if any(normal):
            planes.append((normal, _space._dot(normal, rows[i])))
    for (a, p), (b, q), (c, r) in combinations(planes, 3):
        bc = _space._cross(b, c)
        volume = _space._dot(a, bc)
        if volume != 0:
            ca, ab = _space._cross(c, a), _space._cross(a, b)
            yield tuple((p * x + q * y + r * z) / volume for x, y, z in zip(bc, ca, ab, strict=True))


@pytest.mark.parametrize(("n", "kind"), [(5, "normal"), (6, "normal"), (6, "grid"), (5, "grid")])
@pytest.mark.slow
def test_space_by_brute_force(n, kind):
    """Few rows: the deepest region is a point or a segment, and is still found."""
    rng = np.random.default_rng(n)
    data = rng.standard_normal((n, 3)) if kind == "normal" else rng.integers(-2, 3, (n, 3)).astype(float)
    found = depth.tukey_median(data)
    deepest = max(rational_depth(data, z) for z in {*corners_in_space(data), *map(tuple, data.tolist())})
    assert found.largest == deepest
    assert found.depth == rational_depth(data, found.point.tolist()) and found.maximal == (
        found.depth == deepest
    )
