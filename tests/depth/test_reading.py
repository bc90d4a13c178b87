import numpy as np
import pytest

from dpstats.depth import _reading as reading
from dpstats.errors import ParameterError


@pytest.mark.parametrize("scale", [1e-9, 0.01, 1.0, 2.5, 1e9, 1e-30])
def test_scaled_integers_are_found(scale):
    k = np.random.default_rng(0).integers(-500, 500, (200, 1)).astype(float)
    (found,), exponents = reading.decimals(k * scale)
    assert (found == np.rint(found)).all()
    ratio = found[k[:, 0] != 0] / k[k != 0][:, None]
    assert np.ptp(ratio) == 0
    np.testing.assert_allclose(found / 10.0**exponents, k * scale, rtol=1e-14)


def test_full_doubles_are_left_alone():
    x = np.random.default_rng(0).standard_normal((300, 2))
    (found,), exponents = reading.decimals(x)
    assert (found == x).all() and not exponents.any()


def test_one_outlier_does_not_hide_decimals():
    x = np.append(np.arange(1, 50) / 1000, 1e10)[:, None]
    (found,), exponents = reading.decimals(x)
    assert exponents.tolist() == [3] and (found == np.rint(found)).all()


def test_arrays_are_read_together():
    (a, b), exponents = reading.decimals(np.array([[0.5], [1.0]]), np.array([[0.25]]))
    assert a.tolist() == [[50.0], [100.0]] and b.tolist() == [[25.0]] and exponents.tolist() == [2]


def test_empty_and_constant():
    (found,), _ = reading.decimals(np.empty((0, 2)))
    assert found.shape == (0, 2)
    (found,), _ = reading.decimals(np.zeros((3, 1)))
    assert (found == 0).all()


def test_clip_treats_every_number_by_itself():
    x = np.array([1e300, -1e300, 1e-300, 0.0, 1.5])
    assert reading.clip(x).tolist() == [2.0**200, -(2.0**200), 0.0, 0.0, 1.5]


@pytest.mark.parametrize(
    "bad",
    [
        "text",
        ["a", "b"],
        [[1, np.nan]],
        [[1, np.inf]],
        [[1], [2, 3]],
        [[1j, 2]],
        [[[1.0]]],
        None,
        [[None, 1]],
    ],
)
def test_bad_matrices(bad):
    with pytest.raises(ParameterError, match="^rows must"):
        reading.matrix("rows", bad, columns=2)


@pytest.mark.parametrize("bad", ["text", [1.0, np.nan], [[1, 2]], 3.0, [1.0, 2.0]])
def test_bad_vectors(bad):
    with pytest.raises(ParameterError, match="^y must"):
        reading.vector("y", bad, length=3)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", [1, 0], [[1]], True])
def test_bad_integers(bad):
    with pytest.raises(ParameterError, match="^depths must"):
        reading.integers(bad)


def test_messages_do_not_show_data():
    with pytest.raises(ParameterError) as caught:
        reading.matrix("data", [[123.456, np.nan]])
    assert "123" not in str(caught.value)
