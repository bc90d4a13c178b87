"""The rounds behind the least-squares family: kernels against slow equals, sensitivities, noise, its
propagation."""

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.engines.local import Rows
from dpstats.linear import score_kernels, scores
from dpstats.linear.scores import Frame, Whitened, averaged_noise
from dpstats.mechanisms._kernels import CEILING, EXPONENT, OCTAVES
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.sums import from_whole, units_of
from dpstats.mechanisms.whiten import Affine

HOSTILE = np.array([
    [0.0, 0.0, 0.0], [1e308, -1e308, 1e308], [1e12, 1.0, -1e12], [-1e12, 1e-300, 3.0], [5e-324, 0.0, 1e308],
    [2.0**101, -(2.0**101), 0.0], [1e160, 1e160, 1e160], [1.0, 2.0, -3.0], [-0.0, 1e200, -1e-200],
    [7.0, 7.0, 7.0],
])  # fmt: skip


def summed(kernel, shape, bound, *arguments):
    """What a kernel adds up, in the units that go with the bound of a row's term."""
    units, state = units_of(bound), np.zeros((2, *shape), np.int64)
    kernel(*arguments, units, state)
    return from_whole(state, units)


def rows(n=40, seed=0):
    g = np.random.default_rng(seed)
    V = g.standard_normal((n, 3)) * g.choice([1e-3, 1, 30], (n, 1))
    return V, V @ [1.0, -1.0, 0.5] + g.standard_normal(n)


def hostile_rows():
    return HOSTILE, HOSTILE[::-1, 0] * 0.5


def slow_terms(V, y, u, radius2, threshold, clip):
    """What each row adds to the gradient."""
    out = np.zeros_like(V)
    with np.errstate(all="ignore"):
        for i, v in enumerate(V):
            r, norm2 = y[i] - np.sum(v * u), np.sum(v * v)
            if not (norm2 < np.inf and abs(r) < 2.0**400):
                continue
            r = min(max(r, -threshold), threshold)
            w = radius2 / norm2 if norm2 > radius2 else 1.0
            size = math.sqrt(norm2) * w * abs(r)
            factor = w * r * (clip / size if size > clip else 1.0)
            out[i] = factor * v if factor else 0.0
    return out


LIMITS = [(math.inf, math.inf), (4.0, math.inf), (math.inf, 0.7), (4.0, 0.7)]


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("source", [rows, hostile_rows])
def test_gradient_is_the_sum_of_bounded_terms(source, limits):
    (V, y), u, clip = source(), np.array([0.5, 0.25, -1.0]), 2.5
    terms = slow_terms(V, y, u, *limits, clip)
    total = summed(score_kernels.product_gradient, (3,), clip, V, y[:, None], u, *limits, clip)
    np.testing.assert_allclose(total, terms.sum(axis=0), rtol=0, atol=len(V) * clip * 2.0**-42)
    assert np.linalg.norm(terms, axis=1).max() <= clip * (1 + 1e-12)


@pytest.mark.parametrize("source", [rows, hostile_rows])
def test_levels_count_each_row_once_and_in_its_octave(source):
    (V, y), u = source(), np.array([0.5, 0.25, -1.0])
    products, residuals = np.zeros(OCTAVES, np.int64), np.zeros(OCTAVES, np.int64)
    score_kernels.product_octaves(V, y[:, None], u, 4.0, math.inf, products)
    score_kernels.residual_octaves(V, y[:, None], u, residuals)
    assert products.sum() == residuals.sum() == len(V)
    sizes = np.linalg.norm(slow_terms(V, y, u, 4.0, math.inf, math.inf), axis=1)
    with np.errstate(all="ignore"):
        octaves = np.clip(np.floor(np.log2(sizes**2)), -EXPONENT, EXPONENT) + EXPONENT
    np.testing.assert_array_equal(products, np.bincount(octaves.astype(int), minlength=OCTAVES))


@pytest.mark.parametrize("source", [rows, hostile_rows])
def test_moments_are_bounded(source):
    (V, y), u = source(), np.array([0.5, 0.25, -1.0])
    for i in range(len(V)):
        one = V[i : i + 1], y[i : i + 1, None]
        total = summed(score_kernels.residual_moments, (1,), 3.0, *one, u, 3.0)
        pair = summed(score_kernels.psi_moments, (2,), 1.0, *one, u, 3.0)
        assert 0 <= total[0] <= 3.0
        assert np.linalg.norm(pair) <= math.sqrt(2) and pair.min() >= 0
    V, y = rows()
    r = y - V @ u
    total = summed(score_kernels.residual_moments, (1,), 3.0, V, y[:, None], u, 3.0)
    pair = summed(score_kernels.psi_moments, (2,), 1.0, V, y[:, None], u, 3.0)
    np.testing.assert_allclose(total, np.minimum(r**2, 3.0).sum())
    np.testing.assert_allclose(pair, [(abs(r) < 3).sum(), np.minimum(abs(r) / 3, 1).__pow__(2).sum()])


def frame(low=-np.inf, high=np.inf):
    affine = Affine(np.array([0, 1, 2, 3]), np.array([0.0, 1, -2, 5]), np.array([1.0, 3, 0.5, 2]))
    W = np.array([[1.0, 0.2, 0], [0, 2, 1], [0, 0, -1]])
    return Frame(affine, W, np.full(3, low), np.full(3, high))


@pytest.mark.parametrize("limits", [(math.inf, math.inf), (2.0, 1.5)])
@pytest.mark.parametrize("whole", [True, False])
def test_whitened_rows(limits, whole):
    radius, ceiling = limits
    V, y = rows(1500)
    f = frame(-1.0, 1.5)
    ((got, response),) = Whitened(Rows(V, y), f, radius, ceiling, whole)
    z = np.clip((V - f.affine.loc[:3]) / f.affine.scale[:3], -1.0, 1.5)
    v, r = z @ f.W, (y - 5) / 2
    factor = np.minimum(1, radius / np.linalg.norm(v, axis=1))
    np.testing.assert_allclose(got, v * factor[:, None], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        response[:, 0], np.clip(r * (factor if whole else 1), -ceiling, ceiling), atol=1e-12
    )


def test_whitened_hostile_rows_stay_within_the_radius():
    ((V, r),) = Whitened(Rows(HOSTILE, HOSTILE[:, 0]), frame(), 2.0, 1.5)
    assert (
        np.isfinite(V).all() and np.linalg.norm(V, axis=1).max() <= 2 * (1 + 1e-12) and np.abs(r).max() <= 1.5
    )


def test_outside_score_is_within_one_and_favours_the_better_prediction():
    narrow, wide = frame(-1.0, 1.0), frame(-20.0, 20.0)
    theta = np.array([1.0, 1.0, 1.0])
    a = narrow.affine
    for i in range(len(HOSTILE)):
        for y in (0.0, 1e308, -3.0):
            for far in (wide, frame()):
                total = summed(score_kernels.outside_score, (1,), 1.0, HOSTILE[i : i + 1],
                               np.array([[y]]), a.columns,
                               a.loc, 1 / a.scale, theta, narrow.low, narrow.high, far.low,
                               far.high)  # fmt: skip
                assert abs(total[0]) <= 1

    def score(x, y):
        return scores.outside_score(Rows(np.array([x]), [y]), narrow, wide, theta, 1e9, Randomness(0))

    far = [9.0, 1.0, -2.0]  # z = (9, 0, 0)
    assert score(far, 5.0 + 2 * 9) == pytest.approx(1, abs=1e-6)
    assert score(far, 5.0 + 2 * 1) == pytest.approx(-1, abs=1e-6)
    assert score([1e9, 1.0, -2.0], 5.0 + 2 * 20) == pytest.approx(1, abs=1e-6)
    assert score([0.5, 1.0, -2.0], 0.0) == pytest.approx(0, abs=1e-6)


def moves_by(kernel, bound, source=hostile_rows):
    """The largest norm of what one row adds, over `bound`."""
    V, y = source()
    largest = 0.0
    for i in range(len(V)):
        limits = np.zeros(3), math.inf, math.inf, bound
        total = summed(kernel, (3,), bound, V[i : i + 1], y[i : i + 1, None], *limits)
        largest = max(largest, np.linalg.norm(total))
    return largest / bound


def test_no_row_moves_the_gradient_by_more_than_the_clip_and_a_variant_that_clips_entries_is_caught():
    assert moves_by(score_kernels.product_gradient, 2.5) == pytest.approx(1.0, abs=1e-12)

    def entrywise(V, Y, u, radius2, threshold, clip, units, gradient):
        with np.errstate(all="ignore"):
            gradient[0] += np.int64(units / 2**32 * np.clip(np.nan_to_num(V * Y), -clip, clip).sum(axis=0))

    assert moves_by(entrywise, 2.5) > 1.2


@pytest.mark.parametrize("release", ["gradient", "variance", "score", "psi"])
def test_noise_of_each_sum(release):
    """Standard deviation against sensitivity / mu; false alarm 1e-6."""
    blocks, rng, mu, draws = Rows(np.zeros((5, 3)), np.zeros(5)), Randomness(7), 0.2, 4000
    u, inf, many = np.zeros(3), (math.inf, math.inf), 2000
    far = Rows(np.zeros((many, 3)), np.full(many, 0.5))
    once, sensitivity = {
        "gradient": (lambda: scores.product_gradient(blocks, u, inf, 3.0, mu, rng)[1], 3.0),
        "variance": (lambda: 5 * scores.residual_variance(blocks, u, 3.0, 5, mu, rng), 3.0),
        "score": (lambda: scores.outside_score(blocks, frame(), frame(), u, mu, rng), 1.0),
        # so many rows that the floor of the share is never reached
        "psi": (lambda: many * (scores.psi_moments(far, u, 1.0, many, mu, rng)[1] - 0.25), math.sqrt(2)),
    }[release]
    sample = np.array([once() for _ in range(draws)])
    ratio = np.sum(sample**2) / (sensitivity / mu) ** 2 / (1 + 2.0**-10) ** 2
    assert stats.chi2.isf(1 - 5e-7, draws) < ratio < stats.chi2.isf(5e-7, draws)


def test_averaged_noise_against_simulation():
    """False alarm 1e-6 a direction."""
    m, variances, burn, runs = np.array([-0.3, 0.0, 0.4, 0.95]), np.array([4.0, 4, 1, 1, 1, 1]), 2, 40_000
    g = np.random.default_rng(1)
    x, kept = np.zeros((runs, 4)), []
    for t, v in enumerate(variances):
        x = m * x + math.sqrt(v) * g.standard_normal((runs, 4))
        if t >= burn:
            kept.append(x)
    variance, left = averaged_noise(m, burn, variances)
    ratio = np.sum(np.mean(kept, axis=0) ** 2, axis=0) / variance
    assert np.all(ratio > stats.chi2.isf(1 - 5e-7, runs)) and np.all(ratio < stats.chi2.isf(5e-7, runs))
    np.testing.assert_allclose(left, np.mean([m ** (t + 1) for t in range(burn, 6)], axis=0))


def test_residual_scale_is_the_normalised_median():
    V, y = np.zeros((20_000, 1)), np.random.default_rng(3).standard_normal(20_000) * 1e-4
    for guess in (1e-5, 1e-4, 5e-3):
        scale = scores.residual_scale(Rows(V, y), np.zeros(1), guess, 20_000, 1e6, Randomness(0))
        assert scale == pytest.approx(1e-4, rel=0.05)
    for y in (np.zeros(10), np.full(10, CEILING)):
        assert 0 < scores.residual_scale(Rows(V[:10], y), np.zeros(1), 1.0, 10, 1.0, Randomness(0)) < math.inf
