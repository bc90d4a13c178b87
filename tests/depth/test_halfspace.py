"""Exact halfspace depth: brute force, invariance, and input that is out of the ordinary."""

import warnings

import brute_force
import numpy as np
import pytest

from dpstats import depth
from dpstats.depth import _halfspace
from dpstats.errors import ParameterError


def grid(rng, n, d, width=2):
    return rng.integers(-width, width + 1, (n, d)).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "trials"), [(1, 60), (2, 60), (3, 40), (4, 12), (5, 4)])
def test_brute_force_on_tied_grids(d, trials):
    rng = np.random.default_rng(d)
    for _ in range(trials):
        data = grid(rng, rng.integers(1, 9 if d < 4 else 7), d)
        points = np.vstack([data[:2], grid(rng, 2, d), data.mean(axis=0, keepdims=True)])
        assert depth.halfspace(points, data).tolist() == brute_force.halfspace(points, data).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 4])
def test_brute_force_on_degenerate_data(d):
    """Data in a subspace: exactly, and only up to rounding."""
    rng = np.random.default_rng(10 + d)
    for trial in range(12):
        data = grid(rng, 7, 2) @ rng.integers(-2, 3, (2, d))
        if trial % 2:
            data = data * 0.1 + 0.7
        points = data[:3]
        assert _halfspace.exact_depths(points, data).tolist() == brute_force.halfspace(points, data).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["normal", "grid"])
def test_scale_does_not_matter(d, kind):
    rng = np.random.default_rng(d)
    n = 60 if d < 4 else 20
    data = rng.standard_normal((n, d)) if kind == "normal" else grid(rng, n, d)
    points = np.vstack([data[:10], grid(rng, 5, d)])
    expected = depth.halfspace(points, data).tolist()
    for scale in (1e-9, 1e9, 0.1, 1e-40, 1e40):
        assert depth.halfspace(points * scale, data * scale).tolist() == expected
    columns = 10.0 ** rng.integers(-9, 10, d)
    assert depth.halfspace(points * columns, data * columns).tolist() == expected


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["normal", "grid"])
def test_one_outlier_counts_as_one_row(d, kind):
    """An outlier at 1e8 or 1e10 has the effect of the same row at 1e3, far outside too."""
    rng = np.random.default_rng(20 + d)
    n = 50 if d < 4 else 16
    data = rng.standard_normal((n, d)) if kind == "normal" else grid(rng, n, d)
    far = np.eye(d)[0]
    near, distant = np.vstack([data, 1e3 * far]), np.vstack([data, 1e10 * far])
    points = data[:12]
    found = depth.halfspace(points, distant)
    assert (found == depth.halfspace(points, np.vstack([data, 1e8 * far]))).all()
    if kind == "normal":
        assert (np.abs(found - depth.halfspace(points, near)) <= 1).all()
    if d < 4:
        assert (found >= depth.halfspace(points, data)).all()
    rows = slice(0, 4) if d < 4 else slice(0, 1)
    small = np.vstack([data[:8], 1e10 * far])
    assert (
        depth.halfspace(points[rows], small).tolist() == brute_force.halfspace(points[rows], small).tolist()
    )


@pytest.mark.parametrize("d", [2, 3])
def test_affine_equivariance(d):
    """Integer maps of integer data are exact, so the counts must agree exactly."""
    rng = np.random.default_rng(d)
    data, points = grid(rng, 40, d, 5), grid(rng, 10, d, 5)
    expected = depth.halfspace(points, data).tolist()
    for _ in range(10):
        A = rng.integers(-4, 5, (d, d))
        if round(np.linalg.det(A)) == 0:
            continue
        b = rng.integers(-100, 100, d)
        assert depth.halfspace(points @ A + b, data @ A + b).tolist() == expected


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", ["normal", "grid"])
def test_adding_and_substituting_a_row(d, kind):
    rng = np.random.default_rng(30 + d)
    for _ in range(10):
        data = rng.standard_normal((25, d)) if kind == "normal" else grid(rng, 25, d)
        row = rng.standard_normal((1, d)) if kind == "normal" else grid(rng, 1, d)
        points = np.vstack([data[:8], row])
        before = depth.halfspace(points, data)
        added = depth.halfspace(points, np.vstack([data, row]))
        assert ((added - before >= 0) & (added - before <= 1)).all()
        swapped = data.copy()
        swapped[rng.integers(25)] = row
        assert (np.abs(depth.halfspace(points, swapped) - before) <= 1).all()


def test_decimals_are_read_as_decimals():
    """On paper the three points are collinear with the query between two of them; as doubles they are not."""
    data = np.array([[0.1, 0.3], [0.2, 0.6], [0.3, 0.9]])
    assert depth.halfspace([0.2, 0.6], data).tolist() == [2]
    assert _halfspace.exact_depths(np.array([[0.2, 0.6]]), data).tolist() == [1]


def test_decimal_queries_off_the_lattice_of_the_data():
    data = np.array([[0.1, 0.3], [0.2, 0.6], [0.3, 0.9], [0.4, 1.2]])
    assert depth.halfspace([[0.25, 0.75], [0.2, 0.6], [1 / 3, 1.0]], data).tolist() == [2, 2, 0]


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_few_rows(d):
    z = np.zeros((2, d))
    assert depth.halfspace(z, np.empty((0, d))).tolist() == [0, 0]
    assert depth.halfspace(z, np.zeros((1, d))).tolist() == [1, 1]
    assert depth.halfspace(z, np.zeros((5, d))).tolist() == [5, 5]
    assert depth.halfspace(z, np.stack([np.ones(d), -np.ones(d)])).tolist() == [1, 1]
    assert depth.halfspace(z + 2, np.stack([np.ones(d), -np.ones(d)])).tolist() == [0, 0]
    assert depth.halfspace(np.empty((0, d)), z).tolist() == []


def test_many_ties_at_the_sorting_thresholds():
    """More rows than the insertion sort takes, all directions tied in pairs."""
    rng = np.random.default_rng(0)
    directions = grid(rng, 40, 2, 9)
    data = np.vstack([directions, 3 * directions, -directions])
    found = depth.halfspace([0, 0], data)
    zeros = 3 * (directions == 0).all(axis=1).sum()
    angles = np.arctan2(*data[(data != 0).any(axis=1)].T)
    v = np.linspace(0, 2 * np.pi, 20001) + 1.234e-4  # off every direction of the grid
    counts = (np.sin(angles[None] - v[:, None]) > 1e-9).sum(axis=1)
    assert found.tolist() == [zeros + counts.min()]


def test_a_vector_is_a_point_or_many():
    assert depth.halfspace([1, 2, 3], [1, 2, 3, 4]).tolist() == [1, 2, 2]
    assert depth.halfspace([0, 0], [[1, 1], [-1, -1]]).tolist() == [1]


def test_method():
    data = np.random.default_rng(0).standard_normal((120, 4))
    with pytest.warns(UserWarning, match="upper bound"):
        found = depth.halfspace(data[:3], data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert depth.halfspace(data[:3], data, "directions").tolist() == found.tolist()
        assert (
            depth.halfspace(data[:1], data[:30], "exact")
            <= depth.halfspace(data[:1], data[:30], "directions")
        ).all()
        assert depth.halfspace(data[:3], data, "directions", directions=np.eye(4)).shape == (3,)
        assert depth.halfspace(data[:3], data, "directions", directions=0).shape == (3,)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("data", ([0.0, 0.0], [[1, np.nan]])),
        ("data", ([0.0, 0.0], "text")),
        ("data", ([0.0, 0.0], np.zeros((2, 2, 2)))),
        ("points", ([[0.0, np.inf]], [[1, 2]])),
        ("points", ([[0.0, 1.0, 2.0]], [[1, 2]])),
        ("points", (["a", "b"], [[1, 2]])),
        ("method", ([0.0, 0.0], [[1, 2]], "exactly")),
    ],
)
def test_errors_name_the_parameter(name, arguments):
    with pytest.raises(ParameterError, match=f"^{name} must"):
        depth.halfspace(*arguments)


@pytest.mark.parametrize("bad", [-1, "many", [[1.0]], [], True])
def test_bad_directions(bad):
    with pytest.raises(ParameterError, match="^directions must"):
        depth.halfspace([0.0, 0.0], [[1, 2]], "directions", directions=bad)


def test_the_brute_force_catches_an_off_by_one_of_the_sweep():
    """A test of the test: counting the closed side of the last direction only is caught on grids."""
    rng = np.random.default_rng(0)
    data = grid(rng, 9, 2)
    truth = brute_force.halfspace(data, data)
    v = np.array([1.0, 0.5])
    one_direction = np.array([((data - z) @ v >= 0).sum() for z in data])
    assert (one_direction != truth).any()
