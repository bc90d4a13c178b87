"""Sums of squares and sides of rows: what they are, how far a row moves them, and their noise."""

import math

import numpy as np
import pytest

from dpstats.linear import goodness as module
from dpstats.linear.goodness import Goodness, release_goodness, square_limit
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.sums import SUMMATION
from dpstats.mechanisms.whiten import Affine

BETA, W = np.array([1.0, 2.0, 0.0]), np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]])
AFFINE = Affine(np.array([1, 2]), np.array([0.5, -1.0]), np.array([2.0, 0.5]))


def rows(n, seed=0):
    generator = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), generator.standard_normal((n, 2))])
    return X, (5 + X[:, 1] + generator.exponential(size=n))[:, None]


def release(X, Y, rng=0, count=None, eps=0.1, mu=0.2):
    given = (BETA, W, (0.5, 4.0, 3.0), count or len(X), eps, mu, True)
    return release_goodness([(X, Y)], AFFINE, *given, Randomness(rng))


@pytest.fixture
def sums(monkeypatch):
    """What is released, without noise, with its sensitivity and budget."""
    given = []

    def exact(values, sensitivity, budget, rng):
        given.append((np.array(values), sensitivity, budget))
        return np.array(values)

    monkeypatch.setattr(module, "laplace", exact)
    monkeypatch.setattr(module, "gaussian", exact)
    return given


def test_mean_squares_and_pull_by_hand(sums, monkeypatch):
    monkeypatch.setattr(module, "square_limit", lambda *args: 1e6)
    X, Y = rows(2000)
    got = release(X, Y, eps=1e9)
    z = np.column_stack([np.ones(2000), (X[:, 1:] - AFFINE.loc) / AFFINE.scale])
    r = Y[:, 0] - z @ BETA
    assert got.residual == pytest.approx(np.mean(r**2), rel=1e-6)
    assert got.total == pytest.approx(np.var(Y), rel=1e-6)
    assert got.rsquared == pytest.approx(max(1 - np.mean(r**2) / np.var(Y), 0), abs=1e-6)
    np.testing.assert_allclose(got.pull, np.mean((z @ W) * r[:, None] > 0, axis=0) - 0.5)


HOSTILE = [0.0, 1.0, -1.0, 1e4, -1e4, 1e308, -1e308, 5e-324]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_row_moves_the_sums_by_no_more_than_the_sensitivity(sums, replaced):
    X, Y = rows(50)
    generator = np.random.default_rng(1)
    most = np.zeros(2)
    for _ in range(300):
        x, y = X.copy(), Y.copy()
        x[-1, 1:], y[-1] = generator.choice(HOSTILE, 2), generator.choice(HOSTILE)
        sums.clear()
        release(x, y, count=50)
        release(*((X, Y) if replaced else (X[:-1], Y[:-1])), count=50)
        (squares, sensitivity, eps), (sides, reach, mu), (squares2, *_), (sides2, *_) = sums
        assert (eps, mu) == (0.1, 0.2)
        moved = np.sum(abs(squares - squares2)) / sensitivity, np.linalg.norm(sides - sides2) / reach
        assert max(moved) <= 1
        most = np.maximum(most, moved)
    # a row does move them nearly as far
    assert most[0] > 0.6 and most[1] == pytest.approx(1)
    limit = square_limit(50, 0.1)
    assert sensitivity == pytest.approx((1 + SUMMATION) * 2 * (limit + math.sqrt(limit)), rel=1e-9)


def test_noise_is_laplace_of_the_sensitivity_and_gaussian():
    X, Y = rows(400)
    limit = square_limit(400, 0.5)
    # nearly balanced, so that no share is limited
    runs = [release(X, Y - 5.2, seed, eps=0.5, mu=0.2) for seed in range(400)]
    scale = (2 * limit + 2 * math.sqrt(limit)) / 0.5 / 400
    total = np.array([g.residual for g in runs]) / 0.25
    # a mean square below its noise is raised to it: the law is that of the quantiles above the median
    assert np.quantile(total, 0.9) - np.quantile(total, 0.6) == pytest.approx(scale * math.log(4), rel=0.5)
    pull = np.array([g.pull for g in runs])
    # false alarm 1e-6: the relative standard error of the deviation of 400 values is 3.5 %
    np.testing.assert_allclose(pull.std(axis=0), runs[0].noise, rtol=4.9 / math.sqrt(800))
    assert runs[0].noise == pytest.approx(math.sqrt(2) / 0.2 / 400)


def test_limit_grows_with_what_the_noise_allows():
    assert square_limit(100, 0.1) == 9
    assert square_limit(10_000, 0.1) == pytest.approx(0.04 * 1000 / 2)
    assert square_limit(1e9, 1.0) == 60


@pytest.mark.slow
def test_what_is_said_of_the_noise_of_squares_is_true():
    """Of 300 releases; the error of a standard deviation of Laplace noise is 6 %, so 30 % is five of them."""
    X, Y = rows(20_000)
    got = [release(X, Y, rng=k, eps=0.5) for k in range(300)]
    for what, told in (
        ([g.residual for g in got], got[0].square_noise[0]),
        ([g.total for g in got], np.median([g.square_noise[1] for g in got])),
    ):
        assert np.std(what) == pytest.approx(told, rel=0.3)
    told = Goodness(0.5, 2.0, np.zeros(1), 0.0, (0.03, 0.16))
    assert (told.rsquared, told.rsquared_noise) == pytest.approx((0.75, math.hypot(0.03, 0.25 * 0.16) / 2))
