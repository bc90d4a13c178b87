"""Where counts are limited from: the centres of rare events and of skewed counts, derivatives, variances."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpstats.linear import glm_kernels
from dpstats.linear.glm_kernels import _centre
from dpstats.mechanisms.sums import from_whole, units_of

MEANS = np.geomspace(1e-6, 0.2499, 12)
LIMITS = np.geomspace(1e-3, 30, 12)


def moments(t, mean, most):
    """Mean and mean square of ``min(max(Y - t, -c), c)`` for an event of the probability `mean`."""
    none, one = (max(min(y - t, most), -most) for y in (0.0, 1.0))
    return (1 - mean) * none + mean * one, (1 - mean) * none**2 + mean * one**2


@pytest.mark.parametrize("mean", MEANS)
def test_rare_events_that_are_limited_have_the_mean_zero_about_it(mean):
    for most in LIMITS:
        t, fall, variance = _centre(mean, most, 0.5)
        first, second = moments(t, mean, most)
        assert abs(first) < 1e-15 and variance == pytest.approx(second, rel=1e-9)
        h = 1e-6 * mean
        low, high = (_centre(mean + s * h, most, 0.5)[0] for s in (-1, 1))
        assert fall == pytest.approx((high - low) / (2 * h), rel=1e-3) or (mean > 0.9 * (1 - most) > 0)
        # limiting adds nothing to a variance
        assert variance <= mean and variance <= most**2


@pytest.mark.parametrize("mean", [0.25, 0.6, 3.0, 1e6, math.inf])
def test_counts_that_are_not_skewed_or_not_limited_are_taken_about_their_mean(mean):
    for most in (1e-300, 0.3, 1e9, math.inf):
        assert _centre(mean, most, 0.5) == (mean, 1.0, 0.0)
    for most in (0.0, 1e-300, 6.01 * math.sqrt(3 * mean), math.inf):
        assert _centre(mean, most, 3.0) == (mean, 1.0, 0.0)


def poisson(k, mean):
    return stats.poisson.pmf(k, mean)


def negative_binomial(k, mean):
    """Of which the variance is 1.5 times the mean."""
    return stats.nbinom.pmf(k, 2 * mean, 2 / 3)


def binomial(k, mean):
    """Of four times the mean of trials, between two whole numbers of them in proportion."""
    low, part = divmod(4 * mean, 1)
    return (1 - part) * stats.binom.pmf(k, low, 0.25) + part * stats.binom.pmf(k, low + 1, 0.25)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "dispersion", "left"),
    [(poisson, 1.0, 1 / 3), (binomial, 0.75, 1 / 3), (negative_binomial, 1.5, 2 / 3)],
)
def test_limited_counts_have_nearly_the_mean_zero_about_it(law, dispersion, left):
    """Over means from 1.25 to 8, as counts have few values: so much of what they have about their mean."""
    k = np.arange(200)
    for limit in (0.5, 0.7, 1.0, 1.5, 2.0):
        about_mean, about_centre = [], []
        for mean in np.geomspace(1.25, 8, 400):
            most = limit * math.sqrt(dispersion * mean)
            for found, at in ((about_mean, mean), (about_centre, _centre(mean, most, dispersion)[0])):
                found.append(law(k, mean) @ np.clip(k - at, -most, most) / most)
        assert abs(np.mean(about_centre)) < -np.mean(about_mean) * left


def test_the_centre_does_not_jump_and_its_derivative_is_told():
    """A jump would hold back rounds that come from above, and a centre below 0 has a wrong root."""
    means = np.linspace(0.26, 2.5, 400)
    for dispersion, most in itertools.product((0.25, 0.7, 1.0, 4.0), (0.05, 0.3, 1.0, 2.5)):
        found = np.array([_centre(mean, most, dispersion)[:2] for mean in means])
        assert (found[:, 0] >= means - 0.17).all() and (found[:, 0] > 0).all()
        assert np.abs(np.diff(found[:, 0]) / np.diff(means) - 1).max() < 0.3
        # a rare group of 0/1 outcomes may be in a table of counts
        assert _centre(0.5, most, dispersion) == (0.5, 1.0, 0.0)
        h = 1e-6
        for mean in (0.4, 0.6, 0.9, 1.2, 1.3, 2.0):
            low, high = (_centre(mean + s * h, most, dispersion)[0] for s in (-1, 1))
            assert _centre(mean, most, dispersion)[1] == pytest.approx((high - low) / (2 * h), abs=1e-6)


def test_numbers_that_are_none_are_no_harm():
    for mean, dispersion in itertools.product((0.0, 5e-324, 1e-300, 1e-3, 0.24999, math.nan), (0.25, 3.0)):
        for most in (5e-324, 1e-300, 1.0, 1e308, math.inf):
            t, fall, variance = _centre(mean, most, dispersion)
            assert not mean > 0 or (0 <= t <= mean and 0 <= fall < 4 / 3 + 1e-9 and 0 <= variance <= mean)


def row_score(v, y, offset, clip):
    units, state = units_of(clip), np.zeros((2, len(v)), np.int64)
    u = np.zeros(len(v))
    glm_kernels.score(np.array([v]), np.array([[y, offset]]), u, True, 20.0, clip, 1e3, 0.5, units, state)
    return from_whole(state, units)


def row_matrix(v, y, offset, clip, radius2, squared=False):
    bound = min(radius2, clip**2) if squared else radius2
    units, state = units_of(bound), np.zeros((2, len(v), len(v)), np.int64)
    limits = True, 20.0, clip, radius2, 0.5, squared, False
    glm_kernels.information(np.array([v]), np.array([[y, offset]]), 0 * v, *limits, units, state)
    return from_whole(state, units)


@pytest.mark.parametrize("mean", [0.02, 0.2])
def test_scores_of_rare_events_have_the_mean_zero_whatever_the_clip(mean):
    v = np.array([3.0, -4.0])
    for clip in (0.2, 1.0, 4.0, 12.0):
        none, one = (row_score(v, y, math.log(mean), clip) for y in (0.0, 1.0))
        assert np.linalg.norm((1 - mean) * none + mean * one) < 1e-9 * clip
        second = (1 - mean) * np.outer(none, none) + mean * np.outer(one, one)
        for y in (0.0, 1.0, 50.0):
            model = row_matrix(v, y, math.log(mean), clip, 1e3, squared=True)
            np.testing.assert_allclose(model, second, atol=1e-7 * clip**2)
        assert np.linalg.norm(row_score(v, 50.0, math.log(mean), clip)) <= clip * (1 + 1e-9)


def test_no_row_has_more_variance_than_the_noise_is_for():
    """Whatever its length, its mean and its response; some come near the bounds."""
    most = {}
    for clip, radius2 in ((50.0, 2.0), (1.5, 2.0), (0.5, 5.0)):
        bound = min(radius2, clip**2)
        for mean in (1e-280, 1e-6, 1e-3, 0.02, 0.1, 0.2499, 0.26, 3.0):
            for length in np.append(np.geomspace(1e-3, 1e6, 28), [math.sqrt(radius2 / mean), 1e140]):
                v = np.array([0.6, -0.8]) * length
                for y in (0.0, 1.0, 1e308):
                    moved = np.linalg.norm(row_matrix(v, y, math.log(mean), clip, radius2, squared=True))
                    assert moved <= bound * (1 + 1e-9)
                    most[clip] = max(most.get(clip, 0.0), moved / bound)
    # limited events vary by a third of the clip at most, where their mean is a quarter
    assert most[50.0] > 0.99 and most[1.5] > 0.3 and most[0.5] > 0.3


def test_information_is_how_limited_scores_fall():
    v, offset, h = np.array([0.6, -0.8]), math.log(0.2), 1e-5
    for clip in (0.5, 2.5):
        up, down = (row_score(v, 0.0, offset + s * h, clip) for s in (1, -1))
        # along v the predictor moves by one
        np.testing.assert_allclose(
            row_matrix(v, 0.0, offset, clip, 1e3) @ v, (down - up) / (2 * h), atol=1e-6
        )
        assert np.linalg.norm(row_matrix(v, 50.0, offset, clip, 1e3)) == 0.0


def test_a_centre_that_moves_faster_than_the_mean_adds_no_more_than_the_noise_is_for():
    mean, clip, radius2 = 0.2499, 0.75, 0.2499
    matrix = row_matrix(np.array([1.0, 0.0]), 0.0, math.log(mean), clip, radius2)
    assert _centre(mean, clip, 0.5)[1] > 1.3
    assert 0.9 * radius2 < np.linalg.norm(matrix) <= radius2 * (1 + 1e-9)


def test_parts_of_rows_that_are_out_of_range_are_no_longer_than_the_clip():
    """Huge covariates leave a weight of a few digits; it was multiplied with a huge response."""
    rows = [
        ([-5.48e12, 2.48e12], 1e308, 39.8, [0.00039034, 0.00100411], 5.0, 0.00148790, 0.0229035),
        ([-1.43e97, 0.0], 2.9e227, 0.0, [0.0, 0.0], 5.0, 0.1, 1.0),
        ([1e150, 1e150], 1e308, 3.0, [0.0, 0.0], 5.0, 1e-3, 1e-3),
    ]
    for (v, y, offset, u, top, clip, radius2), dispersion in itertools.product(rows, (0.5, 3.0)):
        units, state = units_of(clip), np.zeros((2, 2), np.int64)
        given = np.array([v]), np.array([[y, offset]]), np.array(u), True, top, clip, radius2, dispersion
        glm_kernels.score(*given, units, state)
        assert np.linalg.norm(from_whole(state, units)) <= clip * (1 + 1e-9)
