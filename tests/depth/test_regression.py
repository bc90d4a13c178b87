import warnings

import brute_force
import numpy as np
import pytest

from dpstats import depth
from dpstats.depth import _regression
from dpstats.errors import ParameterError


def sample(rng, n, p, kind):
    if kind == "grid":
        return rng.integers(-2, 3, (n, p)).astype(float), rng.integers(-2, 3, n).astype(float)
    X = rng.standard_normal((n, p))
    return X, X.sum(axis=1) + rng.standard_normal(n)


def some_fits(rng, X, y, m=5):
    """Lines through observations, flat lines and others."""
    p = X.shape[1]
    fits = [rng.integers(-2, 3, p + 1).astype(float) for _ in range(m)]
    fits.append(np.append(np.sort(y)[len(y) // 2], np.zeros(p)))
    return np.array(fits)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["grid", "normal"])
@pytest.mark.parametrize(("p", "trials"), [(1, 40), (2, 16), (3, 6)])
def test_brute_force(p, trials, kind):
    rng = np.random.default_rng(p)
    for _ in range(trials):
        X, y = sample(rng, rng.integers(1, 11 if p < 3 else 8), p, kind)
        fits = some_fits(rng, X, y)
        assert depth.regression(fits, X, y, rtol=0).tolist() == brute_force.regression(fits, X, y).tolist()


def test_the_identity_with_halfspace_depth():
    """rd = zeros + halfspace depth of the origin among sgn(r)(1, x), the route of d + 1 dimensions."""
    rng = np.random.default_rng(0)
    for p in (1, 2):
        X, y = sample(rng, 25, p, "grid")
        for fit in some_fits(rng, X, y):
            r = y - fit[0] - X @ fit[1:]
            U = (np.sign(r)[:, None] * np.column_stack([np.ones(len(y)), X]))[r != 0]
            want = (r == 0).sum() + depth.halfspace(np.zeros(p + 1), U, "exact")[0]
            assert depth.regression(fit, X, y).tolist() == [want]


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("scale", [1e-9, 1e9, 0.1])
def test_scale_does_not_matter(p, scale):
    rng = np.random.default_rng(p)
    X, y = sample(rng, 30, p, "grid")
    fits = some_fits(rng, X, y)
    expected = depth.regression(fits, X, y).tolist()
    assert depth.regression(fits * scale, X, y * scale).tolist() == expected
    slopes = np.append(1.0, np.full(p, 1 / scale))
    assert depth.regression(fits * slopes, X * scale, y).tolist() == expected


@pytest.mark.parametrize("p", [1, 2, 3])
def test_an_outlier_counts_as_one_row(p):
    rng = np.random.default_rng(p)
    X, y = sample(rng, 20, p, "normal")
    fits = some_fits(rng, X, y)
    before = depth.regression(fits, X, y)
    for far in (1e3, 1e10):
        added = depth.regression(fits, np.vstack([X, np.full(p, far)]), np.append(y, -far))
        assert ((added >= before) & (added <= before + 1)).all()
    vertical = depth.regression(fits, np.vstack([X, np.zeros(p)]), np.append(y, 1e10))
    assert (
        vertical.tolist() == depth.regression(fits, np.vstack([X, np.zeros(p)]), np.append(y, 1e3)).tolist()
    )


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("kind", ["grid", "normal"])
def test_adding_and_substituting_a_row(p, kind):
    rng = np.random.default_rng(40 + p)
    for _ in range(8):
        X, y = sample(rng, 20, p, kind)
        new, value = sample(rng, 1, p, kind)
        fits = some_fits(rng, X, y)
        before = depth.regression(fits, X, y)
        added = depth.regression(fits, np.vstack([X, new]), np.append(y, value))
        assert ((added >= before) & (added <= before + 1)).all()
        X[3], y[3] = new, value[0]
        assert (np.abs(depth.regression(fits, X, y) - before) <= 1).all()


def test_regression_equivariance():
    rng = np.random.default_rng(5)
    X, y = sample(rng, 30, 2, "grid")
    fits = some_fits(rng, X, y)
    expected = depth.regression(fits, X, y).tolist()
    line = np.array([3.0, -2.0, 5.0])
    assert depth.regression(fits + line, X, y + line[0] + X @ line[1:]).tolist() == expected
    assert depth.regression(-fits, X, -y).tolist() == expected
    A = np.array([[2.0, 1.0], [1.0, 1.0]])
    mapped = np.column_stack([fits[:, 0], fits[:, 1:] @ np.linalg.inv(A).T])
    assert depth.regression(mapped, X @ A, y).tolist() == expected


def test_rounded_fits_pass_through_their_points():
    x, y = np.array([1.0, 4.0, 7.0, 2.0]), np.array([1.0, 2.0, 3.0, 9.0])
    fit = np.array([2 / 3, 1 / 3])
    assert depth.regression(fit, x, y).tolist() == [3]
    assert depth.regression(fit, x, y, rtol=0)[0] <= 3
    assert _regression.residual_signs(fit[None], x[:, None], y, 1e-10)[0].tolist() == [0, 0, 0, 1]


def test_few_rows():
    assert depth.regression([1, 2], [], []).tolist() == [0]
    assert depth.regression([1, 2], [0], [1]).tolist() == [1]
    assert depth.regression([1, 2], [0], [5]).tolist() == [0]
    assert depth.regression([[0, 0], [1, 1]], [1, 1], [0, 2]).tolist() == [1, 1]
    assert depth.regression(np.zeros((2, 4)), np.zeros((3, 3)), [0, 1, -1]).tolist() == [2, 2]
    assert depth.regression(np.empty((0, 2)), [1], [1]).tolist() == []


def test_directions_are_an_upper_bound():
    rng = np.random.default_rng(0)
    X, y = sample(rng, 60, 3, "normal")
    fits = rng.normal(size=(10, 4)) * 0.5
    exact = depth.regression(fits, X, y, "exact")
    bound = depth.regression(fits, X, y, "directions")
    assert (bound >= exact).all() and (bound - exact).max() <= 3
    one = depth.regression(fits[:, :2], X[:, :1], y, "directions")
    assert one.tolist() == depth.regression(fits[:, :2], X[:, :1], y).tolist()  # every split of one covariate


def test_more_covariates_say_that_they_are_approximate():
    rng = np.random.default_rng(0)
    X, y = sample(rng, 40, 4, "normal")
    with pytest.warns(UserWarning, match="upper bound"):
        depth.regression(np.zeros(5), X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        depth.regression(np.zeros(5), X, y, "directions")
    with pytest.raises(ParameterError, match="^method must"):
        depth.regression(np.zeros(5), X, y, "exact")


@pytest.mark.parametrize(
    ("name", "arguments", "more"),
    [
        ("x", ([0, 0], [1, np.nan], [1, 2]), {}),
        ("x", ([0, 0], "text", [1, 2]), {}),
        ("y", ([0, 0], [1, 2], [1, np.inf]), {}),
        ("y", ([0, 0], [1, 2], [1, 2, 3]), {}),
        ("y", ([0, 0], [1, 2], ["a", "b"]), {}),
        ("fits", ([0, 0, 0], [1, 2], [1, 2]), {}),
        ("fits", ([0, np.nan], [1, 2], [1, 2]), {}),
        ("method", ([0, 0], [1, 2], [1, 2], "fast"), {}),
        ("rtol", ([0, 0], [1, 2], [1, 2]), {"rtol": -1}),
    ],
)
def test_errors_name_the_parameter(name, arguments, more):
    with pytest.raises(ParameterError, match=f"^{name} must"):
        depth.regression(*arguments, **more)
