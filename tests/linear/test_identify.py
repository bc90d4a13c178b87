"""Directions that the noise hides: the worst case in closed form, when it covers, and when there is none."""

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.linear.identify import CERTAIN, HIDDEN, Seen, identify, undetermined
from dpstats.linear.scores import averaged_noise

ROUNDS, BURN = 7, 1


def left_at(eigenvalues):
    return averaged_noise(np.clip(1 - eigenvalues, -0.9, 1.0), BURN, np.zeros(ROUNDS))[1]


def seen(values, noise=0.0, spread=0.0):
    q = len(values)
    return Seen(np.diag(values), noise, np.eye(q), np.full(q, spread))


def test_without_noise_the_bound_is_what_is_known():
    """The lesser of what the response can explain and of what the move leaves, of the share that is left."""
    values, moved = np.array([0.3, 0.5, 1.0]), np.array([2.0, 0.1, 5.0])
    bias, hidden = identify(seen(values), 1.0, left_at, moved, np.diag([0.0, 0.01, 0.0]), 1.5)
    left = left_at(values)
    by_response = np.sqrt(1.5 / values)
    by_move = (moved + 2 * np.array([0.0, 0.1, 0.0])) / (1 - left)
    assert by_response[0] < by_move[0] and by_move[1] < by_response[1]
    np.testing.assert_allclose(bias, np.diag((left * np.minimum(by_response, by_move)) ** 2), rtol=1e-10)
    np.testing.assert_array_equal(hidden, 0)


@pytest.mark.parametrize("eigenvalue", [0.05, 0.2, 0.6])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0, -1.0])
def test_the_worst_case_covers_whatever_the_start(eigenvalue, share):
    """A target that explains at most the first residuals, in exact rounds from a start at 0."""
    variance = 1.0
    target = share * math.sqrt(variance / eigenvalue)
    left = left_at(np.array([eigenvalue]))
    moved = (1 - left) * target
    bias, hidden = identify(seen([eigenvalue]), 1.0, left_at, moved, np.zeros((1, 1)), variance)
    assert not hidden.any()
    assert abs(moved[0] - target) <= math.sqrt(bias[0, 0]) * (1 + 1e-9) + 1e-12


def test_the_bound_covers_in_directions_that_are_seen_through_noise():
    """Gram matrices with noise, which change what is left and where: the true bias along every coordinate is
    within the bound in 97 % of 400 draws."""
    g, values, noise, variance = np.random.default_rng(0), np.array([0.35, 0.7, 1.1]), 0.04, 1.0
    left, held = left_at(values), []
    for _ in range(400):
        target = g.standard_normal(3)
        target *= math.sqrt(variance / np.sum(values * target**2)) * g.random()
        moved, spread = (1 - left) * target, 1e-4 * np.eye(3)
        draw = g.standard_normal((3, 3)) * noise / 2
        released = Seen(np.diag(values) + draw + draw.T, noise, np.eye(3), np.full(3, 1e3))
        bias, _ = identify(released, 1.0, left_at, moved, spread, variance)
        held.append(np.abs(left * target) <= 1.96 * np.sqrt(np.diag(bias + spread)))
    assert np.mean(held, axis=0).min() > 0.97


@pytest.mark.slow
def test_the_bound_itself_holds_unless_the_noise_is_farther_out_than_it_allows_for():
    """Of 2,000 draws of one eigenvalue 99.4 %, by two and a half standard deviations; false alarm 1e-6."""
    g, noise, eigenvalue = np.random.default_rng(2), 0.05, 0.4
    left = left_at(np.array([eigenvalue]))
    moved, held = 1 - left, 0
    for _ in range(2000):
        released = seen([eigenvalue + noise * g.standard_normal()], noise=noise, spread=1e6)
        bias, _ = identify(released, 1.0, left_at, moved, np.zeros((1, 1)), 1e9)
        held += bias[0, 0] >= left[0] ** 2
    low, high = stats.binom.ppf([1e-6, 1 - 1e-6], 2000, stats.norm.cdf(2.5))
    assert low <= held <= high


@pytest.mark.parametrize("value, dark", [(HIDDEN + 0.31, False), (HIDDEN + 0.29, True), (-0.2, True)])
def test_hidden_is_what_may_be_as_good_as_empty(value, dark):
    """Three standard deviations of the noise above what counts as empty."""
    assert CERTAIN == 3
    before = seen([value, 1.0], noise=0.1, spread=1e6)
    bias, hidden = identify(before, 1.0, left_at, np.ones(2), 1e-4 * np.eye(2), 2.0)
    assert (hidden[0, 0] > 0) == dark and (bias[0, 0] == 0) == dark
    assert hidden[1, 1] == 0 < bias[1, 1]
    if dark:
        assert hidden[0, 0] == pytest.approx(2.0 / HIDDEN)
    np.testing.assert_array_equal(undetermined(bias + 1e-4 * np.eye(2), hidden), [dark, False])


def test_what_is_hidden_leaves_other_coefficients_alone():
    """A hidden contrast of two coefficients makes both undetermined, and not the third."""
    contrast = np.array([1.0, -1.0, 0.0]) / math.sqrt(2)
    gram = np.eye(3) - 0.999 * np.outer(contrast, contrast)
    both = Seen(gram, 0.02, np.eye(3), np.full(3, 1e3))
    bias, hidden = identify(both, 1.0, left_at, np.ones(3), 1e-4 * np.eye(3), 1.0)
    assert undetermined(bias + 1e-4 * np.eye(3), hidden).tolist() == [True, True, False]


def test_the_mean_of_both_matrices_is_weighted_by_precision():
    """Equal noise halves the variance; one without noise is taken as it is."""
    one = Seen(np.diag([80.0, 120.0]), 0.1, 100 * np.eye(2), np.full(2, math.sqrt(0.1)))
    values, sd, _ = one.directions()
    # with noise of 0.005 times their distance, what it pushes them apart by is nothing
    np.testing.assert_allclose(values, [90, 110], atol=1e-3)
    np.testing.assert_allclose(sd, 0.1 / math.sqrt(2))
    values, sd, _ = Seen(np.diag([0.8, 1.2]), 0.0, np.eye(2), np.full(2, 0.3)).directions()
    np.testing.assert_allclose(values, [0.8, 1.2])
    np.testing.assert_allclose(sd, 0, atol=1e-12)


@pytest.mark.parametrize("truth", [np.ones(20), np.repeat([0.4, 1.0], [4, 16]), np.linspace(0.5, 1.5, 20)])
def test_noise_does_not_make_directions_look_empty(truth):
    """Noise of 0.1 takes 0.3 to 0.6 off the least of twenty eigenvalues; some of that is given back, and not
    all.

    Means of 400 draws, whose standard errors are below 0.004.
    """
    g, q, noise = np.random.default_rng(2), len(truth), 0.1
    raw, found = [], []
    for _ in range(400):
        draw = g.standard_normal((q, q)) / 2 * noise
        gram = np.diag(truth) + draw + draw.T
        raw.append(np.linalg.eigvalsh(gram)[0])
        found.append(Seen(gram, noise, np.eye(q), np.full(q, 1e3)).directions()[0][0])
    least = truth.min()
    assert np.mean(raw) < least - 0.25 and np.mean(found) < least
    assert np.mean(found) - np.mean(raw) > 0.27 * (least - np.mean(raw))


def test_two_empty_directions_stay_empty():
    """Their own noise parts them too, and neither is taken for less empty than it looks by more than that."""
    gram = np.diag([0.01, 0.02, 1.0, 1.1])
    values, sd, _ = Seen(gram, 0.05, np.eye(4), np.full(4, 1e3)).directions()
    assert (values[:2] - CERTAIN * sd[:2] < HIDDEN).all() and values[0] < 0.02


def test_the_standard_deviations_are_those_of_the_noise():
    """Of eigenvalues that stand apart; 2,000 draws, false alarm 1e-6 (a relative error of 0.09)."""
    g, truth, noise = np.random.default_rng(1), np.diag([0.5, 1.0, 2.0]), 0.01
    spread = np.array([0.05, 0.1, 0.2])
    values, stated = [], []
    for _ in range(2000):
        late, early = (g.standard_normal((3, 3)) / 2 for _ in range(2))
        late, early = noise * (late + late.T), np.outer(spread, spread) * (early + early.T)
        # the earlier matrix is made diagonal by the coordinates: what is off its diagonal is 0 by choice
        gram = truth + late
        v, sd, _ = Seen(gram, noise, np.diag(np.diag(truth + early)), spread).directions()
        values.append(v)
        stated.append(sd)
    np.testing.assert_allclose(np.mean(stated, axis=0), np.std(values, axis=0), rtol=0.09)


@pytest.mark.parametrize("noise", [0.01, 0.2])
def test_columns_of_few_rows_repeat_no_other(noise):
    """Noise mixes the directions of two rare dummies, which are apart; of two columns that repeat each other
    each has rows enough. Where noise turns directions by more than .15 none is told."""
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    rare, alike, mixed = np.diag([1e-3, 2e-3, 1.0, 1.0, 1.0]), np.eye(5), np.eye(5)
    alike[:2, :2] = turn @ np.diag([2.0, 0.0]) @ turn
    mixed[:2, :2] = turn
    for gram, want in ((mixed @ rare @ mixed, []), (alike, [[0, 1]] if noise < 0.15 else [])):
        shows = Seen.alone(gram, noise)
        dark = shows.hidden()
        found = shows.repeated(9 * dark @ dark.T, np.eye(5))
        assert [list(those) for those in found] == want
