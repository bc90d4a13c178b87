"""What is seen of what a clip takes off: against its definition, by simulation, and its limits."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats
from dpstats.linear import rounds_inference
from dpstats.linear.clip import Clip, _Signs
from dpstats.linear.skew import PART, skewness, unsettled, with_seen

SIZES = np.geomspace(0.01, 100, 400)
WITHIN = Clip(2.0, 1.0, SIZES, np.where(SIZES < 1, 1.0, 0.0))
"""All products are within 1: nothing lies beyond the clip."""


def seen_of(vector, noise):
    """The mean square along a vector of its posterior, by hand."""
    q, square = len(vector), float(vector @ vector)
    spare = square / q - noise**2 * (1 + math.sqrt(2 / q))
    kept = spare / (spare + noise**2)
    return kept * (kept * square + noise**2)


@pytest.mark.parametrize(
    ("norm", "bias", "times"), [(2.0, 1.0, 2.5), (8.0, 1.0, 1.25), (2.0, 0.1, 2.5), (2.0, 1e-3, 2.5)]
)
def test_what_is_seen_to_be_cut_is_allowed_for_in_its_direction(norm, bias, times):
    """Ten times T/C the root of what is seen, two and a half times and twice the bias at most; and not less
    than the bound that there is. Noise alone changes nothing."""
    clip = Clip(norm, bias, SIZES, WITHIN.beyond)
    noise, shape = 0.1, np.diag([0.01, 0.01])
    excess = np.array([0.0, math.sqrt(2 * noise**2 * (1 + 2))])
    found = with_seen(shape, clip, (excess, noise**2), None)
    expected = max(min(times**2 * seen_of(excess, noise), 4 * bias**2), shape[1, 1])
    assert found[1, 1] == pytest.approx(expected)
    assert found[0, 1] == 0 and found[0, 0] >= shape[0, 0]
    for other, vector in ((clip, np.array([0.0, 0.1])), (Clip.at(norm), excess)):
        np.testing.assert_array_equal(with_seen(shape, other, (vector, noise**2), None), shape)


@pytest.mark.parametrize(("deviations", "most"), [(2.2, 0.2), (2.8, 0.7)])
def test_what_is_seen_with_more_certainty_may_be_all_that_signs_that_differ_have(deviations, most):
    """Beyond two and a half standard deviations: less is at most twice the bias that the counts show."""
    clip = Clip(2.0, 0.1, SIZES, WITHIN.beyond, signs=_Signs(np.zeros((2, 2)), 1.0, 1.0, 0.7, 0.1))
    excess = np.array([0.0, math.sqrt(2 * (1 + deviations))])
    found = with_seen(np.diag([1e-6, 1e-6]), clip, (excess, 1.0), None)
    assert found[1, 1] == pytest.approx(most**2)


@pytest.mark.parametrize(("beyond", "times"), [(0.0, 0.0), (0.02, 0.8), (0.5, 2.5)])
def test_skewness_counts_in_proportion_to_what_lies_beyond_the_clip(beyond, times):
    """Eight times what lies beyond it over what lies between a quarter of it and it, and no more than of the
    excess counts. Nothing beyond it: nothing is cut."""
    between = 8 * beyond / times if times else 1.0
    clip = Clip(2.0, 10.0, np.array([0.5, 1.0, 1.9, 2.1, 4.1]), np.zeros(5))
    clip = Clip(2.0, 10.0, clip.sizes, np.array([0, 0, between, beyond, 0]) / np.array([1, 1, 0.475, 1.0, 1]))
    # by the trapezoids of the excess, between 0.5 and 2 and beyond
    inside, outside = clip.excess(0.5) - clip.excess(2.0), clip.excess(2.0)
    skewed, noise, shape = np.array([0.0, 1.0]), 0.1, np.diag([1e-9, 1e-9])
    none = np.zeros(2), 1.0
    found = with_seen(shape, clip, none, (skewed, noise**2))
    power = math.sqrt(clip.power(2.0, 2))
    factor = min(8 * outside / inside, 10 * power / 2.0, 2.5)
    assert found[1, 1] == pytest.approx(max(factor**2 * seen_of(skewed, noise), 1e-9))
    assert (factor > 0) == (beyond > 0)


def test_scores_that_have_not_settled_are_known():
    """Rounds whose steps are too short leave some of the score at their average, and noise in it."""
    g = np.random.default_rng(0)
    A, P, target = np.diag([1.0, 0.4]), np.diag([1.0, 0.5]), np.array([2.0, -3.0])
    path, noise = [np.zeros(2)], 0.01
    released = []
    for _ in range(5):
        released.append(A @ (target - path[-1]) + noise * g.standard_normal(2))
        path.append(path[-1] + P @ released[-1])
    found, sd = unsettled(path[1:], P, A, 0.0, noise / 2)
    true = A @ (target - np.mean(path[2:], axis=0))
    errors = np.mean([r - A @ (target - u) for r, u in zip(released[1:], path[1:], strict=False)], axis=0)
    np.testing.assert_allclose(found, true + errors, rtol=1e-12, atol=1e-14)
    assert sd == noise / 2 and abs(true[1]) > 0.3
    moved = np.linalg.norm((path[-1] - path[1]) / 4)
    assert unsettled(path[1:], P, A, 0.3, 0.4)[1] == pytest.approx(math.hypot(0.4, 0.3 * moved))


def test_skewness_is_what_lies_between_the_quarter_and_the_clip():
    """At estimates where what the clip limits adds up to 0."""
    clip = Clip(4.0, 0.1, np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.5, 0.2, 0.05, 0.0]))
    inner, score = np.array([-0.2, 0.1]), np.array([0.04, 0.0])
    found, variance = skewness(clip, inner, 0.03, score, 0.05, 400.0)
    # rows by size: half of them below 1, evenly; within a quarter of the clip is what is below 1
    share = 0.5 / 0.95
    np.testing.assert_allclose(found, share * score - inner)
    below = (np.arange(16) + 0.5) / 16
    sizes = np.concatenate([below, np.sqrt([2.0, 8.0, 32.0])])
    rows = np.concatenate([np.full(16, 0.5 / 16), [0.3, 0.15, 0.05]])
    rest = np.minimum(sizes, PART * 4) - share * np.minimum(sizes, 4.0)
    assert variance == pytest.approx(0.03**2 + (share * 0.05) ** 2 + rows @ rest**2 / 400 / 2)


@pytest.mark.parametrize("beyond", [[1.4, 0.1, 0.0, 0.0], [-0.3, -0.1, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
def test_counts_that_are_noise_say_no_more_than_that_all_rows_are_within(beyond):
    """More rows than there are, or fewer than none, beyond the first size."""
    clip = Clip(4.0, 0.1, np.array([1.0, 2.0, 4.0, 8.0]), np.array(beyond))
    found, variance = skewness(clip, np.array([-0.2, 0.1]), 0.03, np.array([1.0, 1.0]), 0.05, 400.0)
    assert np.all(np.abs(found + [-0.2, 0.1]) <= 1) and 0.03**2 <= variance < 1


def grouped(seed, n=20_000):
    """Errors of a group of 5 % are skewed and large; those of the others are normal."""
    g = np.random.default_rng(seed)
    group, x, z = (g.random(n) < 0.05) * 1.0, *g.standard_normal((2, n))
    errors = np.where(group > 0, 3 * (np.exp(1.2 * z) - np.exp(0.72)), z)
    return pd.DataFrame({"y": 1 + x + errors, "x": x, "group": group})


def released_by(data, eps, seeds, monkeypatch, formula="y ~ x + group"):
    """The mean square of the skewness in its standard deviations, and the fits."""
    squares, fits = [], []
    real = rounds_inference.with_seen

    def watched(moment, clip, excess, skewed):
        squares.append(float(skewed[0] @ skewed[0]) / skewed[1])
        return real(moment, clip, excess, skewed)

    monkeypatch.setattr(rounds_inference, "with_seen", watched)
    for seed in seeds:
        fits.append(dpstats.ols(formula, data(seed), eps=eps, seed=seed))
    return np.array(squares), fits


@pytest.mark.slow
@pytest.mark.parametrize("eps", [0.5, 3.0])
def test_noise_and_sampling_are_all_that_normal_errors_show(eps, monkeypatch):
    """Of 40 tables the squares are at most chi-squared, with as many degrees of freedom as there are entries;
    they are somewhat less, as the noise of the curvature and rare long rows are allowed for. False alarm
    1e-6."""

    def normal(seed):
        X = np.random.default_rng(seed).standard_normal((5_000, 4))
        return pd.DataFrame(X, columns=list("abcy"))

    squares, _ = released_by(normal, eps, range(40), monkeypatch, "y ~ a + b + c")
    assert squares.sum() < stats.chi2.isf(1e-6, 4 * 40)
    assert squares.sum() > 0.5 * stats.chi2.isf(1 - 1e-6, 4 * 40)


@pytest.mark.slow
def test_a_group_with_skewed_errors_is_seen_along_its_column(monkeypatch):
    """In most tables, and the standard error of its coefficient grows more than that of the slope.
    (Coverage is in benchmarks/intervals/uneven.csv.)"""
    squares, fits = released_by(grouped, 1.0, range(40), monkeypatch)
    assert np.mean(squares > stats.chi2.isf(0.05, 3)) > 0.5
    monkeypatch.setattr(rounds_inference, "with_seen", lambda moment, *a: moment)
    plain = [dpstats.ols("y ~ x + group", grouped(seed), eps=1.0, seed=seed) for seed in range(40)]
    wider = np.mean([fit.bse / old.bse for fit, old in zip(fits, plain, strict=True)], axis=0)
    assert wider[2] > 1.08 > wider[1]
