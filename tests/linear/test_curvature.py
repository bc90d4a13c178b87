"""The Gram matrix of the standard errors: its radius and its shrinkage."""

import math

import numpy as np
import pytest

from dpstats.linear.curvature import curvature_radius2, least_radius2, shrunken, shrunken_to


@pytest.mark.parametrize("q", [1, 6, 30])
@pytest.mark.parametrize("mu", [0.01, 0.05, 1.0])
def test_radius_grows_with_the_rows_and_never_beyond_them(q, mu):
    radii = [curvature_radius2(q, count, mu) for count in np.geomspace(1, 1e9, 60)]
    assert (np.diff(radii) >= 0).all()
    assert all(r <= count for r, count in zip(radii, np.geomspace(1, 1e9, 60), strict=True))


def test_noise_where_rows_allow():
    q, count, mu = 6, 200_000, 0.05
    assert curvature_radius2(q, count, mu) / mu / count == pytest.approx(0.15 / math.sqrt(2 * q))
    assert curvature_radius2(q, 5000, mu) / mu / 5000 == pytest.approx(0.25 / math.sqrt(2 * q))


@pytest.mark.parametrize("q", [2, 6])
def test_noise_and_what_is_cut_go_to_0_with_the_rows(q):
    radii = np.array([curvature_radius2(q, count, 0.05) for count in (1e7, 1e9, 1e11)])
    np.testing.assert_allclose(radii[1:] / radii[:-1], 10.0)
    noise = radii / 0.05 / np.array([1e7, 1e9, 1e11])
    assert noise[0] < 0.15 / math.sqrt(2 * q) and noise[2] < 2e-4


def test_few_rows_have_the_least_radius():
    """Half a standard deviation of a chi-squared length above its mean."""
    assert curvature_radius2(8, 500, 0.05) == least_radius2(8) == 8 + math.sqrt(16) / 2


def test_shrunken_to_keeps_the_target_where_only_noise_is_seen():
    """Mean squared error over 300 draws against a target that is right, and one that is far off."""
    g, target = np.random.default_rng(2), np.array([[2.0, 0.5, 0], [0.5, 1, 0], [0, 0, 0.5]])
    errors = {}
    for name, truth in (("right", target), ("wrong", 4 * np.eye(3))):
        draws = [truth + symmetric(g, 3, 0.3) for _ in range(300)]
        moved = [shrunken_to(draw, 0.3, target) for draw in draws]
        assert all(np.allclose(m, m.T) and np.linalg.eigvalsh(m)[0] > 0 for m in moved)
        errors[name] = [np.mean([np.sum((m - truth) ** 2) for m in s]) for s in (draws, moved)]
    assert errors["right"][1] < 0.3 * errors["right"][0]
    assert errors["wrong"][1] < 1.05 * errors["wrong"][0]


def test_shrunken_to_is_positive_whatever_the_noise():
    """At least a fifth of the target in every direction."""
    target = np.diag([4.0, 1.0])
    got = shrunken_to(np.diag([400.0, -30.0]), 0.1, target)
    np.testing.assert_allclose(np.diagonal(got), [400, 0.2], rtol=1e-3)
    np.testing.assert_allclose(shrunken_to(target, 0.1, target), target, rtol=1e-12)


def symmetric(g, q, noise):
    matrix = g.standard_normal((q, q)) * noise / 2
    return matrix + matrix.T


def test_shrinkage_lowers_the_error_and_keeps_hidden_directions():
    """Mean squared error over 300 draws, false alarm far below 1e-6: the gain is many standard errors."""
    g = np.random.default_rng(0)
    truth, share = np.diag([1.1, 0.9, 1.0, 0.3]), np.array([1.0, 1.0, 0.95, 0.35])
    before, after, hidden = [], [], []
    for _ in range(300):
        noisy = truth + symmetric(g, 4, 0.15)
        moved, left = shrunken(noisy, 0.15, share)
        assert 0 <= left <= 0.15 and np.array_equal(moved, moved.T)
        before.append(np.sum((noisy - truth) ** 2))
        after.append(np.sum((moved - truth) ** 2))
        hidden.append(moved[3, 3])
    assert np.mean(after) < 0.5 * np.mean(before)
    assert 0.25 < np.mean(hidden) < 0.45


def test_without_noise_nothing_moves():
    gram = np.array([[2.0, 0.5], [0.5, 1.0]])
    moved, noise = shrunken(gram, 0.0, np.ones(2))
    np.testing.assert_allclose(moved, gram, rtol=1e-12)
    assert noise == 0
    alone, _ = shrunken(np.array([[0.7]]), 0.1, np.ones(1))
    assert alone == 0.7


def test_noise_that_drowns_the_trace_leaves_what_the_whitening_aims_at():
    """Else standard errors would be of nothing: a trace below zero has no curvature to divide by."""
    moved, noise = shrunken(np.array([[-2.0, 0.3], [0.3, 1.5]]), 3.0, np.array([1.0, 0.5]))
    np.testing.assert_allclose(moved, np.diag([1.0, 0.5]))
    assert noise == 0


def test_what_is_left_of_the_noise_is_the_error_that_is_left():
    """A matrix that differs from the target by a draw as large as the noise; 820 squares, alarm 1e-6."""
    g, q, noise = np.random.default_rng(1), 40, 0.1
    truth = np.eye(q) + symmetric(g, q, noise)
    moved, left = shrunken(truth + symmetric(g, q, noise), noise, np.ones(q))
    error = np.sum((moved - truth) ** 2)
    assert error == pytest.approx(left**2 * q * (q + 1) / 2, rel=0.35)
