"""The private sums behind logit and poisson: kernels against slow equals, sensitivities, noise, one round
against its guarantee."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpstats.engines.local import Rows
from dpstats.linear import glm_kernels, glm_scores
from dpstats.linear.clip import edges_about
from dpstats.linear.glm_scores import Parts
from dpstats.mechanisms._kernels import EXPONENT, OCTAVES
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.sums import SUMMATION, from_whole, units_of
from dpstats.privacy.conversions import gdp_delta

U = np.array([0.5, 0.25, -1.0])
CLIP, RADIUS2, CUT = 1.5, 2.0, 1.0
NO_ROWS = np.array([
    [1.0, np.nan, 0.0, 1.0, 0.0], [np.nan, np.nan, np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0, 1.0, 0.0],
    [-np.inf, np.nan, np.inf, 1.0, 0.0], [1.0, 0.0, 0.0, np.nan, 0.0], [1.0, 0.0, 0.0, 1.0, np.nan],
    [1.0, 0.0, 0.0, np.inf, 0.0], [1.0, 0.0, 0.0, -1e308, -np.inf], [1.0, 1.0, 0.0, 1e308, 0.0],
    [1.0, 1.0, 0.0, -7.0, 0.0],
])  # fmt: skip
"""Covariates, response and offset that no design has: the kernels limit what a row adds whatever it holds."""
FAMILIES = pytest.mark.parametrize("counts", [False, True])
SHARES, COUNTS = Parts(False, 12.0, CLIP, RADIUS2), Parts(True, 3.0, CLIP, RADIUS2, 1.3)
HOSTILE = np.array([
    [0.0, 0.0, 0.0], [1e308, -1e308, 1e308], [1e12, 1.0, -1e12], [-1e12, 1e-300, 3.0], [5e-324, 0.0, 1e308],
    [1e160, 1e160, 1e160], [1e-170, 0.0, 0.0],
    [1.0, 2.0, -3.0], [40.0, 0.0, 0.0], [-900.0, 3.0, 0.0], [7.0, 7.0, 7.0],
])  # fmt: skip


def rows(counts, n=60, seed=0):
    """Rows of all lengths, and a few that are out of range."""
    g = np.random.default_rng(seed)
    V = np.vstack([g.standard_normal((n, 3)) * g.choice([1e-3, 0.3, 1, 30], (n, 1)), HOSTILE])
    y = g.poisson(2.0, len(V)) * 1.0 if counts else g.integers(0, 2, len(V)) * 1.0
    if counts:
        y[-3:] = 1e6, 1e100, 1e308
    return V, np.column_stack([y, g.standard_normal(len(V))])


def secants(w, r, f, g, length):
    """Weights of the information and variances where counts that are shortened have those of a secant; `f`
    without the clip."""
    with np.errstate(all="ignore"):
        f = np.minimum(f, CLIP / (length * np.abs(r)))
        way = np.minimum(np.abs(np.log(np.maximum(r + w, 0) / w)), 3.0)
        slope = np.where((g == 0) & (w > 0), np.abs(r) / way, w)
        limited = np.minimum(f, RADIUS2 / (slope * length**2))
    return np.where((g == 0) & (w > 0), limited, g), slope


def slow(V, R, u, parts, clip=None):
    """Weights of the score and of the information, residuals of the score, variances, means, lengths, and
    weights without the clip, row by row; for the centre of counts see ``test_centre.py``."""
    out = np.zeros((len(V), 7))
    clip = parts.clip if clip is None else clip
    with np.errstate(all="ignore"):
        for i, v in enumerate(V):
            eta, norm2 = R[i, 1] + float(np.sum(v * u)), float(np.sum(v * v))
            if not (1e-280 < norm2 < np.inf and abs(eta) < np.inf):
                continue
            if parts.counts:
                mean = math.exp(min(eta, parts.top))
                variance, far = mean, abs(R[i, 0] - mean)
            else:
                mean = 1 / (1 + math.exp(-min(max(eta, -parts.top), parts.top)))
                variance, far = mean * (1 - mean), max(mean, 1 - mean)
            f = min(1.0, parts.radius2 / (variance * norm2) if variance * norm2 else 1.0)
            r, fall = R[i, 0] - mean, 1.0
            if parts.counts:
                t, fall, _ = glm_kernels._centre(mean, clip / (f * math.sqrt(norm2)), parts.dispersion)
                r += mean - t
                far = abs(r)
            longest = clip / (f * math.sqrt(norm2))  # the residual's: its part may be beyond all numbers
            of_score = f * min(1.0, longest / far if far else 1.0)
            of_matrix = f * min(fall, 1) * (far <= longest and eta < parts.top) if parts.counts else of_score
            out[i] = of_score, of_matrix, r, variance, mean, math.sqrt(norm2), f
    return out.T


def summed(kernel, shape, bound, *arguments):
    units, state = units_of(bound), np.zeros((2, *shape), np.int64)
    kernel(*arguments, units, state)
    return from_whole(state, units)


def given(parts):
    return parts.limits


def in_range(V, R, parts):
    """Rows whose part is a number."""
    f, _, r, _, _, length, _ = slow(V, R, U, parts)
    with np.errstate(all="ignore"):
        return np.isfinite(f * r) & np.isfinite(f * r * length)


@FAMILIES
def test_sums_are_those_of_bounded_terms(counts):
    parts = COUNTS if counts else SHARES
    V, R = rows(counts)
    V, R = V[in_range(V, R, parts)], R[in_range(V, R, parts)]
    f, g, r, w, mean, length, whole = slow(V, R, U, parts)
    p = (f * r)[:, None] * np.where((f * r)[:, None] != 0, V, 0.0)
    room = len(V) * 2.0**-38
    score = summed(glm_kernels.score, (3,), CLIP, V, R, U, *given(parts))
    np.testing.assert_allclose(score, p.sum(axis=0), atol=room)
    for secant in (True, False):
        of_matrix, slope = secants(w, R[:, 0] - mean, whole, g, length) if secant and counts else (g, w)
        matrix = summed(glm_kernels.information, (3, 3), RADIUS2, V, R, U, *given(parts), False, secant)
        factor = np.sqrt(of_matrix * slope)[:, None]
        scaled = factor * np.where(factor > 0, V, 0.0)
        np.testing.assert_allclose(matrix, scaled.T @ scaled, atol=room)
    matrix = summed(glm_kernels.information, (3, 3), RADIUS2, V, R, U, *given(parts), True, False)
    scaled *= np.sqrt(g)[:, None]
    if counts:
        # of rare events, whatever the response
        limits = CLIP / np.maximum(whole * length, 1e-300)
        variances = [
            glm_kernels._centre(m, c, parts.dispersion)[2] for m, c in zip(mean, limits, strict=True)
        ]
        scaled = (whole * np.sqrt(variances))[:, None] * np.where(whole[:, None] > 0, V, 0.0)
        assert 5 < np.count_nonzero(variances) < len(V)
    np.testing.assert_allclose(matrix, scaled.T @ scaled, atol=room)
    if not counts:
        wide = slow(V, R, U, replace(parts, clip=2 * CLIP, radius2=2 * RADIUS2))[0]
        added = ((wide - f) * r)[:, None] * np.where(wide[:, None] > f[:, None], V, 0.0)
        excess = summed(glm_kernels.excess, (3,), CLIP, V, R, U, parts.top, CLIP, RADIUS2, 2.0)
        np.testing.assert_allclose(excess, added.sum(axis=0), atol=room)
        assert 0.9 * CLIP < np.linalg.norm(added, axis=1).max() <= CLIP * (1 + 1e-12)
    if counts:
        less, near = (0 < whole) & (whole < 1), CLIP / 2
        f, _, r, *_ = slow(V, R, U, replace(parts, clip=near, radius2=4 * RADIUS2))
        part = (f * r)[:, None] * np.where(less[:, None] & ((f * r)[:, None] != 0), V, 0.0)
        far = summed(glm_kernels.far_rows, (4,), CLIP, V, R, U, *given(replace(parts, clip=near))[1:], 0.5)
        np.testing.assert_allclose(far, [*part.sum(axis=0), 0.5 * less.sum()], atol=room)
        assert 5 < less.sum() < len(V) and np.linalg.norm(part, axis=1).max() > 0.9 * near
    cut = p * np.minimum(1, CUT / np.maximum(np.linalg.norm(p, axis=1), 1e-300))[:, None]
    outer = summed(glm_kernels.part_gram, (3, 3), CUT**2, V, R, U, *given(parts), CUT)
    np.testing.assert_allclose(outer, cut.T @ cut, atol=room)
    assert (f < 1).any() and (f == 1).any() and (0 < g).any()


@FAMILIES
def test_information_is_the_slope_of_the_score(counts):
    """Where no weight moves with the coefficients."""
    g = np.random.default_rng(3)
    V, y = g.standard_normal((50, 3)), g.integers(0, 2, 50) * 1.0
    R, parts, h = np.column_stack([y, np.zeros(50)]), Parts(counts, 12.0, 1e3, 1e3), 1e-5

    def score(u):
        return summed(glm_kernels.score, (3,), 1e3, V, R, u, *given(parts))

    slope = np.array([(score(U - h * e) - score(U + h * e)) / (2 * h) for e in np.eye(3)])
    matrix = summed(glm_kernels.information, (3, 3), 1e3, V, R, U, *given(parts), False, False)
    np.testing.assert_allclose(matrix, slope, atol=1e-4)


def test_weights_of_shares_do_not_depend_on_the_response():
    V, R = rows(False)
    other = np.column_stack([1 - R[:, 0], R[:, 1]])
    for squared in (False, True):
        first, second = (
            summed(glm_kernels.information, (3, 3), RADIUS2, V, part, U, *given(SHARES), squared, False)
            for part in (R, other)
        )
        assert np.array_equal(first, second)
    # so that where the model holds what wider limits add has the mean 0: p and 1 - p of both answers
    f, mean = slow(V, R, U, SHARES)[[0, 4]]
    one, none = (
        np.array(
            [
                summed(
                    glm_kernels.excess,
                    (3,),
                    CLIP,
                    v[None],
                    np.array([[y, r[1]]]),
                    U,
                    12.0,
                    CLIP,
                    RADIUS2,
                    2.0,
                )
                for v, r in zip(V, R, strict=True)
            ]
        )
        for y in (1.0, 0.0)
    )
    inside = (0 < mean) & (mean < 1)
    np.testing.assert_allclose((mean[:, None] * one + (1 - mean[:, None]) * none)[inside], 0, atol=1e-9)
    assert np.abs(one).max() > 0.1


@pytest.mark.filterwarnings("ignore:overflow")
@FAMILIES
def test_sizes_squares_deviances_and_mean_variances(counts):
    parts = COUNTS if counts else SHARES
    V, R = rows(counts)
    keep = in_range(V, R, parts) & (np.linalg.norm(np.clip(V, -1e9, 1e9), axis=1) < 1e3)
    V, R = V[keep], R[keep]
    f, _, r, w, mean, length, _ = slow(V, R, U, parts, math.inf)
    sizes = np.abs(f * r) * length
    hist = np.zeros((2, OCTAVES), np.int64)
    glm_kernels.part_octaves(V, R, U, counts, parts.top, parts.radius2, hist)
    with np.errstate(divide="ignore"):
        cells = np.clip(np.floor(np.log2(sizes**2)), -EXPONENT, EXPONENT).astype(int) + EXPONENT
    for sign in (False, True):
        assert np.array_equal(hist[int(sign)], np.bincount(cells[(r > 0) == sign], minlength=OCTAVES))
    squares = summed(glm_kernels.part_squares, (1,), 3.0, V, R, U, counts, parts.top, parts.radius2, 3.0)
    np.testing.assert_allclose(squares, np.minimum(sizes**2, 3.0).sum(), atol=1e-9)
    y, null = R[:, 0], np.array([0.1, 0.0, 0.0])

    def deviance(u):
        eta = np.minimum(V @ u + R[:, 1], parts.top)
        if counts:
            own = np.where(y > 0, y * np.log(np.maximum(y, 1)) - y, 0.0)
            return np.maximum(2 * (own - y * eta + np.exp(eta)), 0)
        return 2 * np.log1p(np.exp(np.where(y > 0, -1, 1) * np.maximum(eta, -parts.top)))

    got = summed(glm_kernels.deviances, (2,), 1.0, V, R, U, null, counts, parts.top, 4.0, 2.0)
    if counts:
        fitted, mean = (np.minimum(V @ u + R[:, 1], parts.top) for u in (U, null))
        less = 2 * (y * (fitted - mean) - (np.exp(fitted) - np.exp(mean)))
    else:
        less = deviance(null) - np.minimum(deviance(U), 4)
    expected = [np.minimum(deviance(U) / 4, 1).sum(), np.clip(less / 2, -1, 1).sum()]
    np.testing.assert_allclose(got, expected, atol=1e-9)
    assert np.any(less > 2) and np.any(less < -2) and np.any(np.abs(less) < 1)
    slope = w * (1 if counts else 1 - 2 * mean)
    most = np.median(w)
    for share, longest in ((1.0, 2.0), (0.3, 0.2)):
        vectors = share * slope[:, None] * V
        vectors *= np.minimum(1, longest / np.maximum(np.linalg.norm(vectors, axis=1), 1e-300))[:, None]
        got = summed(glm_kernels.weights, (4,), 2.0, V, R, U, counts, parts.top, share, most, longest)
        np.testing.assert_allclose(got, [np.minimum(w, most).sum(), *vectors.sum(axis=0)], atol=1e-9)


RELEASES = {
    "score": (lambda rows, parts, mu, rng: glm_scores.release_score(rows, U, parts, mu, rng), CLIP),
    "information": (
        lambda rows, parts, mu, rng: glm_scores.release_information(rows, U, parts, mu, rng), RADIUS2,
    ),
    "information by secants": (
        lambda rows, parts, mu, rng: (
            glm_scores.release_information(rows, U, parts, mu, rng, secant=True)
        ), RADIUS2,
    ),
    "variance by the model": (
        lambda rows, parts, mu, rng: glm_scores.release_model_variance(rows, U, parts, mu, rng), RADIUS2,
    ),
    "excess": (
        lambda rows, parts, mu, rng: glm_scores.release_excess(rows, U, parts, mu, rng),
        (math.sqrt(2) - 1) * CLIP,
    ),
    "far rows": (
        lambda rows, parts, mu, rng: (
            lambda far: np.append(far[0], CLIP / 4 * far[1])
        )(glm_scores.release_far_rows(rows, U, parts, mu, rng)),
        math.sqrt(17) / 4 * CLIP,
    ),
    "outer": (lambda rows, parts, mu, rng: glm_scores.release_outer(rows, U, parts, CUT, mu, rng), CUT**2),
    "sizes": (
        lambda rows, parts, mu, rng: glm_scores.release_sizes(rows, U, parts, edges_about(1.0), mu, rng), 1.0,
    ),
    "squares": (lambda rows, parts, mu, rng: glm_scores.release_squares(rows, U, parts, 3.0, mu, rng), 3.0),
    "deviances": (
        lambda rows, parts, mu, rng: (
            glm_scores.release_deviances(rows, U, 0 * U, parts, (3.0, 0.5), mu, rng) / [3.0, 0.5]
        ),
        math.sqrt(2),
    ),
    "weights": (
        lambda rows, parts, mu, rng: (
            glm_scores.release_weights(rows, U, parts, 0.3, (0.2, 0.15), mu, rng) * [1, 0.3, 0.3, 0.3]
        ), 0.25,
    ),
}  # fmt: skip


def noiseless(monkeypatch):
    """A list to which releases, from now on without noise, add their sensitivities."""
    paid = []

    def release(total, sensitivity, mu, rng):
        paid.append(sensitivity)
        return np.array(total, float)

    for noise in ("gaussian", "symmetric_gaussian"):
        monkeypatch.setattr(glm_scores, noise, release)
    return paid


def moves_by(name, monkeypatch, parts):
    """The largest norm of what one row adds, and what the noise is for."""
    release, _ = RELEASES[name]
    seen = noiseless(monkeypatch)
    V, R = rows(parts.counts, 200)
    # far out, against what the model says, and just inside the limits
    far = [[30.0, 0, 0], [-30.0, 0, 0], [5.0, 5.0, 0], [1.0, 0, 0], [0.05, 0.0, 0.0], [2.5, 0.0, 1.25]]
    V, R = np.vstack([V, far, far]), np.vstack([R, [[0.0, 0.0]] * 6, [[1.0, 0.0]] * 6])
    # too short for a squared norm, with a response that makes up for it
    V = np.vstack([V, [[1e-170, 0, 0]], [[2.6e-162, 0, 0]]])
    R = np.vstack([R, [[1e175 if parts.counts else 1.0, 0.0]] * 2])
    V, R = np.vstack([V, NO_ROWS[:, :3]]), np.vstack([R, NO_ROWS[:, 3:]])
    if parts.counts:  # at the largest mean, and there with a residual of 0
        top = [[0.0, y] for y in (math.exp(parts.top), math.nextafter(math.exp(parts.top), 0), 0.0, 30.0)]
        V, R = np.vstack([V, [[10.0, 0, 0]] * 4]), np.vstack([R, np.array(top)[:, ::-1]])
    sums = [release(Rows(V[i : i + 1], R[i : i + 1]), parts, 1.0, None) for i in range(len(V))]
    assert np.isfinite(sums).all()
    return max(float(np.linalg.norm(total)) for total in sums), seen[0]


@FAMILIES
@pytest.mark.parametrize("name", RELEASES)
def test_no_row_moves_a_release_by_more_than_its_noise_is_for(name, counts, monkeypatch):
    if name == ("excess" if counts else "far rows"):
        pytest.skip("of the other family alone")
    if counts and name.endswith("by the model"):
        pytest.skip("for rows that come near the bound see test_centre.py")
    parts = COUNTS if counts else SHARES
    moved, paid = moves_by(name, monkeypatch, parts)
    room = 1.0 if name == "sizes" else 1 + SUMMATION
    assert paid == pytest.approx(room * RELEASES[name][1], rel=1e-12)
    # some row comes near the bound: the test has rows that would show a larger one
    assert 0.9 * RELEASES[name][1] < moved <= RELEASES[name][1] * (1 + 1e-9)


def test_the_clip_limits_the_variance_of_shares_too(monkeypatch):
    """Where it is narrower than the radius: `f^2 w |v|^2` comes near `C^2`, where the answers are even."""
    moved, paid = moves_by("variance by the model", monkeypatch, Parts(False, 12.0, 0.5, 5.0))
    assert paid == pytest.approx(0.25 * (1 + SUMMATION))
    assert 0.9 * 0.25 < moved <= 0.25 * (1 + 1e-9)


@pytest.mark.parametrize("name, kernel", [("score", "score"), ("information", "information")])
def test_a_weight_left_out_is_caught(name, kernel, monkeypatch):
    real = getattr(glm_kernels, kernel)

    def unlimited(V, R, u, counts, top, clip, radius2, *others):
        real(V, R, u, counts, top, 4 * clip, 4 * radius2, *others)

    monkeypatch.setattr(glm_kernels, kernel, unlimited)
    moved, paid = moves_by(name, monkeypatch, SHARES)
    assert moved > 1.2 * paid


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.slow
def test_noise_has_the_size_of_the_sensitivity(name):
    """Standard deviation of an entry against sensitivity / mu; false alarm 1e-6."""
    release, sensitivity = RELEASES[name]
    nobody, rng, mu, draws = Rows(np.zeros((0, 3)), np.zeros((0, 2))), Randomness(7), 0.2, 3000
    sample = np.array([np.ravel(release(nobody, SHARES, mu, rng))[0] for _ in range(draws)])
    room = 1.0 if name == "sizes" else 1 + SUMMATION
    ratio = np.sum(sample**2) / (room * sensitivity / mu) ** 2
    assert stats.chi2.isf(1 - 5e-7, draws) < ratio < stats.chi2.isf(5e-7, draws)


@FAMILIES
@pytest.mark.slow
def test_exact_divergence_of_a_round_on_a_small_domain(counts, monkeypatch):
    """All data sets of up to two rows from a small domain, and all rows one may add: the hockey-stick
    divergence of Gaussian noise between neighbours is at most the guarantee, and some pair comes near it."""
    paid = noiseless(monkeypatch)
    parts, mu = (COUNTS if counts else SHARES), 0.7
    covariates = list(itertools.product([-9.0, 0.3, 1.0], [0.0, 2.0]))
    domain = [(v, y) for v in covariates for y in ((0.0, 1.0, 7.0, 1e9) if counts else (0.0, 1.0))]
    u = U[:2]

    def sums(data):
        V = np.array([v for v, _ in data]).reshape(-1, 2)
        source = Rows(V, np.column_stack([[y for _, y in data], np.zeros(len(data))]).reshape(-1, 2))
        score = glm_scores.release_score(source, u, parts, mu, None) / paid[-1]
        matrix = glm_scores.release_information(source, u, parts, mu, None, secant=True) / paid[-1]
        return score, matrix

    worst = 0.0
    for size in range(3):
        for data in itertools.combinations_with_replacement(domain, size):
            score, matrix = sums(data) if data else (np.zeros(2), np.zeros((2, 2)))
            for row in domain:
                more_score, more_matrix = sums((*data, row))
                # both are released, each at mu
                apart = mu * math.hypot(
                    np.linalg.norm(more_score - score), np.linalg.norm(more_matrix - matrix)
                )
                worst = max(worst, apart)
    promised = math.sqrt(2) * mu
    for eps in (0.1, 1.0, 3.0):
        assert gdp_delta(worst, eps) <= gdp_delta(promised, eps)
    assert worst > 0.7 * promised


def test_a_row_without_a_length_has_no_part():
    """None of what follows compares greater than a limit, so that nothing else would shorten it."""
    assert glm_kernels._part(0.5, 0.3, 1.0, math.nan, True, 2.0, 4.0, 1.0) == (0.0, 0.0, 0.0)
    assert glm_kernels._part(0.5, 0.3, 1.0, 0.0, False, 2.0, 4.0, 1.0) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("counts", [False, True])
def test_a_weight_that_has_lost_its_digits_leaves_nothing(counts):
    """Rounded up, it would leave more of a row than the radius."""
    norm2, radius2 = 1e307, 1.4e-16
    assert radius2 / norm2 * norm2 > 1.05 * radius2
    assert glm_kernels._part(1.0, 1.0, 1.0, norm2, counts, 1.0, radius2, 1.0) == (0.0, 0.0, 0.0)


def test_a_count_at_its_mean_falls_as_fast_as_the_mean():
    assert [glm_kernels._secant(r, 2.0) for r in (0.0, 1e-9)] == [2.0, 2.0]
    assert glm_kernels._secant(1.0, 2.0) == pytest.approx(1 / math.log(1.5))
