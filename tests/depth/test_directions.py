import numpy as np
import pytest

from dpstats import depth
from dpstats.depth._directions import halfspace_bound


def test_the_set_is_public_and_seeded():
    a, b = depth.directions(4, 50, seed=3), depth.directions(4, 50, seed=3)
    assert (a == b).all() and a.shape == (4 + 8 + 50, 4)
    assert (a != depth.directions(4, 50, seed=4)).any()
    np.testing.assert_allclose(np.linalg.norm(a[12:], axis=1), 1)


def test_one_of_each_opposite_pair():
    v = depth.directions(5, 0)
    assert len({tuple(r) for r in v} & {tuple(-r) for r in v}) == 0
    assert len(v) == 5 + 16
    assert len(depth.directions(11, 0)) == 11  # too many sign vectors


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 4])
def test_an_upper_bound_of_the_depth(d):
    rng = np.random.default_rng(d)
    for data in (rng.standard_normal((25, d)), rng.integers(-2, 3, (25, d)).astype(float)):
        exact = depth.halfspace(data, data, "exact")
        bound = halfspace_bound(data, data, depth.directions(d, 200))
        assert (bound >= exact).all() and (bound - exact).mean() < 2


def test_a_point_of_the_data_counts_itself():
    """Equal numbers must get equal projections, whatever the shape of the array they are in."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((50, 7))
    for q in (data, data[:1], data[3:17]):
        assert (halfspace_bound(q, data, depth.directions(7, 300)) >= 1).all()
