"""Where counts are limited from: the centre that leaves Poisson counts without a bias, and its derivative."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from dpstats.linear import glm_kernels
from dpstats.linear.glm_kernels import _centre
from dpstats.mechanisms.sums import from_whole, units_of

MEANS = np.geomspace(1e-3, 29.9, 40)
LIMITS = np.geomspace(0.05, 25, 40)


def law(mean):
    """Poisson probabilities of 0, 1, ..., up to where there is nothing more."""
    k = np.arange(int(mean + 40 * math.sqrt(mean)) + 60)
    return k, stats.poisson.pmf(k, mean)


def limited(t, mean, most):
    """``E min(max(Y - t, -c), c)``."""
    k, p = law(mean)
    return float(np.clip(k - t, -most, most) @ p)


def centre(mean, most):
    return optimize.brentq(limited, mean - 2, mean + 2, args=(mean, most), xtol=1e-13)


def rare(mean, most):
    """Whether hardly any count is so far out that the limit is felt: there the centre is the mean."""
    return (mean + most) * math.log1p(most / mean) - most > glm_kernels._RARE


@pytest.mark.parametrize("mean", MEANS)
def test_limited_counts_have_the_mean_zero_about_it(mean):
    for most in LIMITS:
        t, fall = _centre(mean, most)
        assert 0.0 <= fall <= 1.0
        if t == mean and rare(mean, most):
            assert fall == 1.0 and abs(limited(t, mean, most)) < math.exp(-glm_kernels._RARE) * (1 + most)
        else:
            assert abs(limited(t, mean, most)) < 1e-12 * (1 + mean)


def test_the_derivative_by_the_mean():
    """Against differences, where no count comes to be limited in between; at most 1."""
    compared = 0
    for mean in MEANS[::2]:
        for most in LIMITS[::2]:
            h = 1e-5 * mean
            low, high = centre(mean - h, most), centre(mean + h, most)
            k, _ = law(mean)
            if ((abs(k - low) < most) != (abs(k - high) < most)).any() or rare(mean, most):
                continue
            compared += 1
            slope = (high - low) / (2 * h)
            assert _centre(mean, most)[1] == pytest.approx(min(slope, 1.0), abs=1e-4)
    assert compared > 150


def test_large_means_are_nearly_normal():
    """Within a hundredth of a standard deviation, where a limit is no smaller than one."""
    for mean in (31.0, 100.0, 1e4):
        for k in (1.0, 1.5, 3.0):
            t, fall = _centre(mean, k * math.sqrt(mean))
            assert fall == 1.0
            assert abs(t - centre(mean, k * math.sqrt(mean))) < 0.01 * math.sqrt(mean)


def test_numbers_that_are_none_are_no_harm():
    values = [0.0, 5e-324, 1e-300, 1e-3, 1.0, 29.9, 30.1, 1e100, 1e308, math.inf]
    for mean in values:
        for most in values:
            t, fall = _centre(mean, most)
            assert 0.0 <= fall <= 1.0 and (math.isfinite(t) or not math.isfinite(mean))


def test_no_count_is_beyond_the_inverses():
    """The loop over the counts reads so many of them at most: `numba` does not look."""
    most = max(
        mean + 1 + limit
        for mean in np.linspace(1e-6, 30, 400)
        for limit in np.linspace(0.01, 100, 2000)
        if limit**2 <= 2 * glm_kernels._RARE * (mean + limit / 3)
    )
    assert most + 2 < len(glm_kernels._INVERSES)


def row_score(v, y, offset, clip):
    units, state = units_of(clip), np.zeros((2, len(v)), np.int64)
    u = np.zeros(len(v))
    glm_kernels.score(np.array([v]), np.array([[y, offset]]), u, True, 20.0, clip, 1e3, units, state)
    return from_whole(state, units)


@pytest.mark.parametrize("mean", [0.02, 0.3, 4.0])
def test_scores_have_the_mean_zero_whatever_the_clip(mean):
    v = np.array([3.0, -4.0])
    k, p = law(mean)
    for clip in (0.2, 1.0, 5.0, 12.0):
        scores = np.array([row_score(v, float(y), math.log(mean), clip) for y in k[p > 1e-14]])
        assert np.linalg.norm(p[p > 1e-14] @ scores) < 1e-7 * clip
        assert np.linalg.norm(scores, axis=1).max() <= clip * (1 + 1e-9)


def row_information(v, y, offset, clip, radius2):
    units, state = units_of(radius2), np.zeros((2, len(v), len(v)), np.int64)
    limits = True, 20.0, clip, radius2, False, False
    glm_kernels.information(np.array([v]), np.array([[y, offset]]), 0 * v, *limits, units, state)
    return from_whole(state, units)


def test_information_is_how_limited_scores_fall():
    v, offset, h = np.array([0.6, -0.8]), math.log(0.4), 1e-5
    for clip, inside in ((0.9, 0.0), (2.5, 1.0)):
        up, down = (row_score(v, inside, offset + s * h, clip) for s in (1, -1))
        matrix = row_information(v, inside, offset, clip, 1e3)
        # along v the predictor moves by one
        np.testing.assert_allclose(matrix @ v, (down - up) / (2 * h), atol=1e-6)
        assert np.linalg.norm(row_information(v, 50.0, offset, clip, 1e3)) == 0.0


def test_a_centre_that_moves_fast_adds_no_more_than_its_noise_is_for():
    """Between counts the centre may move by nearly twice what the mean does."""
    mean, clip, radius2 = 7.190638655817123, 0.5, 2.0
    v = np.array([0.5 / 0.948066364753618, 0.0])
    matrix = row_information(v, 7.0, math.log(mean), clip, radius2)
    assert 0.9 * radius2 < np.linalg.norm(matrix) <= radius2 * (1 + 1e-9)
