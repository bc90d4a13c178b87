"""The rounds behind the least-squares family: kernels against slow equals, sensitivities, noise, its
propagation."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.engines.local import Rows
from dpstats.formula.design import Design
from dpstats.linear import score_kernels, scores
from dpstats.linear.clip import edges_about
from dpstats.linear.scores import averaged_noise
from dpstats.linear.whitened import Frame, Whitened
from dpstats.mechanisms._kernels import CEILING, EXPONENT, OCTAVES
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.sums import SUMMATION, from_whole, units_of
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


def slow_terms(V, y, u, threshold, clip):
    """What each row adds to the gradient, and whether it moves with ``u``."""
    out, moves = np.zeros_like(V), np.zeros(len(V), bool)
    with np.errstate(all="ignore"):
        for i, v in enumerate(V):
            r, norm2 = y[i] - np.sum(v * u), np.sum(v * v)
            if not (norm2 < np.inf and abs(r) < 2.0**400):
                continue
            moves[i] = abs(r) < threshold and math.sqrt(norm2) * abs(r) <= clip
            r = min(max(r, -threshold), threshold)
            size = math.sqrt(norm2) * abs(r)
            factor = r * (clip / size if size > clip else 1.0)
            out[i] = factor * v if factor else 0.0
    return out, moves


THRESHOLDS = math.inf, 0.7
SOURCES = pytest.mark.parametrize("source", [rows, hostile_rows])


@pytest.mark.parametrize("threshold", THRESHOLDS)
@SOURCES
def test_gradient_is_the_sum_of_bounded_terms(source, threshold):
    (V, y), u, clip = source(), np.array([0.5, 0.25, -1.0]), 2.5
    terms, _ = slow_terms(V, y, u, threshold, clip)
    total = summed(score_kernels.product_gradient, (3,), clip, V, y[:, None], u, threshold, clip)
    np.testing.assert_allclose(total, terms.sum(axis=0), rtol=0, atol=len(V) * clip * 2.0**-42)
    assert np.linalg.norm(terms, axis=1).max() <= clip * (1 + 1e-12)


@pytest.mark.parametrize("threshold", THRESHOLDS)
@SOURCES
def test_outer_products_are_those_of_the_gradients_terms(source, threshold):
    (V, y), u, clip = source(), np.array([0.5, 0.25, -1.0]), 2.5
    terms, _ = slow_terms(V, y, u, threshold, clip)
    total = summed(score_kernels.product_gram, (3, 3), clip**2, V, y[:, None], u, threshold, clip)
    np.testing.assert_allclose(total, terms.T @ terms, rtol=0, atol=len(V) * clip**2 * 2.0**-40)


@pytest.mark.parametrize("threshold", THRESHOLDS)
@SOURCES
def test_gram_matrix_is_of_the_rows_whose_terms_move(source, threshold):
    (V, y), u, clip, radius = source(), np.array([0.5, 0.25, -1.0]), 2.5, 1.5
    _, moves = slow_terms(V, y, u, threshold, clip)
    assert moves.sum() < len(V)
    assert moves.any() or source is hostile_rows
    inside = V[moves]
    norms = np.linalg.norm(inside, axis=1, keepdims=True)
    inside = inside * np.minimum(1, radius / np.maximum(norms, 1e-300))
    total = summed(score_kernels.inner_gram, (3, 3), radius**2, V, y[:, None], u, threshold, clip, radius)
    np.testing.assert_allclose(total, inside.T @ inside, rtol=0, atol=len(V) * radius**2 * 2.0**-40)


def test_gram_matrix_is_the_derivative_of_the_gradient():
    """Of rows none of which is at an edge, with a radius that shortens none."""
    (V, y), u, clip, h = rows(), np.array([0.5, 0.25, -1.0]), 2.5, 1e-6
    for threshold in THRESHOLDS:
        slopes = [
            (
                slow_terms(V, y, u - h * e, threshold, clip)[0]
                - slow_terms(V, y, u + h * e, threshold, clip)[0]
            )
            for e in np.eye(3)
        ]
        _, moves = slow_terms(V, y, u, threshold, clip)
        derivative = np.array([np.sum(slope[moves], axis=0) / (2 * h) for slope in slopes])
        total = summed(score_kernels.inner_gram, (3, 3), 1e4, V, y[:, None], u, threshold, clip, 100.0)
        np.testing.assert_allclose(total, derivative, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("threshold", THRESHOLDS)
@SOURCES
def test_octaves_count_each_row_once_by_size_and_sign(source, threshold):
    (V, y), u = source(), np.array([0.5, 0.25, -1.0])
    products, residuals = np.zeros((2, OCTAVES), np.int64), np.zeros(OCTAVES, np.int64)
    score_kernels.product_octaves(V, y[:, None], u, threshold, products)
    score_kernels.residual_octaves(V, y[:, None], u, residuals)
    assert products.sum() == residuals.sum() == len(V)
    with np.errstate(all="ignore"):
        norms, r = np.sqrt(np.sum(V**2, axis=1)), y - V @ u
        known = np.isfinite(norms) & (np.abs(r) < 2.0**400)
        sizes = norms[known] * np.minimum(np.abs(r[known]), threshold)
        octaves = np.clip(np.floor(np.log2(sizes**2)), -EXPONENT, EXPONENT) + EXPONENT
    for sign in (False, True):
        expected = np.bincount(octaves[(r[known] > 0) == sign].astype(int), minlength=OCTAVES)
        # rows out of range are at an end
        assert np.all(products[int(sign)][1:-1] == expected[1:-1])


def test_cells_hold_what_lies_between_their_edges():
    (V, y), u, edges = rows(300), np.array([0.5, 0.25, -1.0]), edges_about(2.0)
    got = scores.product_counts(Rows(V, y), u, math.inf, edges, 1e9, Randomness(0))
    r = y - V @ u
    sizes = np.linalg.norm(V, axis=1) * np.abs(r)
    limits = np.concatenate([[0], 2.0 ** ((edges - EXPONENT) / 2), [np.inf]])
    expected = [np.histogram(sizes[(r > 0) == sign], limits)[0] for sign in (False, True)]
    np.testing.assert_allclose(got, expected, atol=1e-3)
    assert np.sum(got) == pytest.approx(300, abs=1e-2)


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


@pytest.mark.parametrize("radius", [math.inf, 2.0])
def test_whitened_rows(radius):
    V, y = rows(1500)
    f = frame(-1.0, 1.5)
    ((got, response),) = Whitened(Rows(V, y), f, radius)
    z = np.clip((V - f.affine.loc[:3]) / f.affine.scale[:3], -1.0, 1.5)
    v, r = z @ f.W, (y - 5) / 2
    factor = np.minimum(1, radius / np.linalg.norm(v, axis=1))
    np.testing.assert_allclose(got, v * factor[:, None], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(response[:, 0], r * factor, atol=1e-12)


@pytest.mark.parametrize("k", [3, 2])
def test_rows_of_a_design_are_written_over_and_can_be_read_again(k):
    """Where as many columns are made as there were; the user's table is not touched."""
    V, y = rows(70_000)
    table = pd.DataFrame({"y": y, "a": V[:, 0], "b": V[:, 1]})
    kept = table.copy()
    source = open_source(table)
    blocks = Design.from_formula("y ~ a + b", Schema.of(source)).blocks(source)
    f = frame()
    f = replace(f, W=np.ascontiguousarray(f.W[:, :k]))
    ((before, _),) = blocks
    ((wanted, response),) = Whitened(Rows(before.copy(), y), f, 2.0)
    whitened = Whitened(blocks, f, 2.0, last=True)
    ((got, r),) = whitened
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(r, response)
    assert np.shares_memory(got, before) == (k == 3)
    assert next(iter(whitened))[0] is got
    ((again, _),) = blocks
    np.testing.assert_array_equal(again[:, 1:], kept[["a", "b"]])
    pd.testing.assert_frame_equal(table, kept)


def test_whitened_hostile_rows_stay_within_the_radius():
    ((V, _),) = Whitened(Rows(HOSTILE, HOSTILE[:, 0]), frame(), 2.0)
    assert np.isfinite(V).all() and np.linalg.norm(V, axis=1).max() <= 2 * (1 + 1e-12)


def test_outside_score_is_within_one_and_favours_the_better_prediction():
    narrow, wide = frame(-1.0, 1.0), frame(-20.0, 20.0)
    theta, back = np.array([1.0, 1.0, 1.0]), np.linalg.inv(narrow.W)
    for i in range(len(HOSTILE)):
        for y in (0.0, 1e308, -3.0):
            for far in (wide, frame()):
                total = summed(score_kernels.outside_score, (1,), 1.0, HOSTILE[i : i + 1],
                               np.array([[y]]), back, theta, narrow.low, narrow.high, far.low,
                               far.high, 0.5)  # fmt: skip
                assert abs(total[0]) <= 1

    def score(x, y):
        rows = Whitened(Rows(np.array([x]), [y]), frame())
        return scores.outside_score(rows, narrow, wide, theta, 1e9, Randomness(0))

    far = [9.0, 1.0, -2.0]  # z = (9, 0, 0)
    assert score(far, 5.0 + 2 * 9) == pytest.approx(1, abs=1e-6)
    assert score(far, 5.0 + 2 * 1) == pytest.approx(-1, abs=1e-6)
    assert score([1e9, 1.0, -2.0], 5.0 + 2 * 20) == pytest.approx(1, abs=1e-6)
    assert score([0.5, 1.0, -2.0], 0.0) == pytest.approx(0, abs=1e-6)


U = np.array([0.5, 0.25, -1.0])
CLIP, RADIUS = 2.5, 1.5
KERNELS = {
    "product_gradient": ((3,), CLIP, (0.7, CLIP)),
    "product_excess": ((6,), CLIP, (0.7, CLIP, 4.0)),
    "product_gram": ((3, 3), CLIP**2, (0.7, CLIP)),
    "inner_gram": ((3, 3), RADIUS**2, (0.7, CLIP, RADIUS)),
}


def moves_by(name, kernel=None):
    """The largest norm of what one row adds, over what the noise is for: long and short, near and far."""
    shape, bound, arguments = KERNELS[name]
    kernel = kernel or getattr(score_kernels, name)
    V, y = (np.concatenate(parts) for parts in zip(hostile_rows(), rows(), strict=True))
    V = np.vstack([V, [[1e-3, 0, 0], [5.0, 0, 0], [3.0, -3, 3]]])
    y = np.concatenate([y, [1e5, 2.5, -2.3]])
    sums = [
        summed(kernel, shape, bound, V[i : i + 1], y[i : i + 1, None], U, *arguments) for i in range(len(V))
    ]
    return max(np.linalg.norm(total) for total in sums) / bound


@pytest.mark.parametrize("name", KERNELS)
def test_no_row_moves_a_sum_by_more_than_its_noise_is_for(name):
    assert moves_by(name) == pytest.approx(1.0, abs=1e-9)


def test_broken_variants_are_caught():
    def entrywise(V, Y, u, threshold, clip, units, gradient):
        with np.errstate(all="ignore"):
            r = np.clip(np.nan_to_num(Y - V @ u[:, None]), -threshold, threshold)
            gradient[0] += np.int64(units / 2**32 * np.clip(np.nan_to_num(V * r), -clip, clip).sum(axis=0))

    def unlimited(V, Y, u, threshold, clip, far2, units, parts):
        """All that is beyond the clip."""
        whole, near = (slow_terms(V, Y[:, 0], u, threshold, c)[0] for c in (1e9, clip))
        parts[0, :3] += np.int64(units / 2**32 * (whole - near).sum(axis=0))

    def in_both(V, Y, u, threshold, clip, far2, units, parts):
        """What is beyond the clip, and all that is not: two vectors of norm ``clip``."""
        longer, near = (slow_terms(V, Y[:, 0], u, threshold, c)[0] for c in (2 * clip, clip))
        both = np.concatenate([(longer - near).sum(axis=0), near.sum(axis=0)])
        parts[0] += np.int64(units / 2**32 * both)

    def unshortened(V, Y, u, threshold, clip, units, gram):
        """The outer product of ``v`` and the shortened product: of norm ``clip |v|``."""
        terms, _ = slow_terms(V, Y[:, 0], u, threshold, clip)
        with np.errstate(all="ignore"):
            gram[0] += np.int64(np.clip(units / 2**32 * (V.T @ terms), -1e12, 1e12))

    def weighted_once(V, Y, u, threshold, clip, radius, units, gram):
        """``w = radius / |v|`` in place of its square."""
        _, moves = slow_terms(V, Y[:, 0], u, threshold, clip)
        inside = V[moves]
        w = np.minimum(1, radius / np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), 1e-300))
        gram[0] += np.int64(units / 2**32 * (inside.T @ (w * inside)))

    broken = [
        ("product_gradient", entrywise),
        ("product_excess", unlimited),
        ("product_excess", in_both),
        ("product_gram", unshortened),
        ("inner_gram", weighted_once),
    ]
    for name, kernel in broken:
        assert moves_by(name, kernel) > 1.2, name


def test_noise_of_each_release_is_for_its_sensitivity(monkeypatch):
    """Clip (twice), squared clip, squared radius and one count: the limits of a row."""
    seen = []
    for name in ("gaussian", "symmetric_gaussian"):
        monkeypatch.setattr(scores, name, lambda total, s, mu, rng: seen.append((s, mu)) or total)
    V, y = rows()
    source, edges = Rows(V, y), edges_about(2.0)
    scores.product_gradient(source, U, 0.7, CLIP, 0.1, None)
    scores.product_excess(source, U, 0.7, CLIP, 4.0, 0.5, None)
    scores.product_gram(source, U, 0.7, CLIP, 0.2, None)
    scores.inner_gram(source, U, 0.7, CLIP, RADIUS**2, 0.3, None)
    scores.product_counts(source, U, 0.7, edges, 0.4, None)
    room = 1 + SUMMATION
    assert seen == [
        (room * CLIP, 0.1),
        (room * CLIP, 0.5),
        (room * CLIP**2, 0.2),
        (room * RADIUS**2, 0.3),
        (1.0, 0.4),
    ]


@pytest.mark.parametrize(
    "release", ["gradient", "excess", "outer", "gram", "counts", "variance", "score", "psi"]
)
@pytest.mark.slow
def test_noise_of_each_sum(release):
    """Standard deviation against sensitivity / mu; false alarm 1e-6."""
    blocks, rng, mu, draws = Rows(np.zeros((5, 3)), np.zeros(5)), Randomness(7), 0.2, 4000
    u, inf, many = np.zeros(3), math.inf, 2000
    far, edges = Rows(np.zeros((many, 3)), np.full(many, 0.5)), edges_about(1.0)
    once, sensitivity = {
        "gradient": (lambda: scores.product_gradient(blocks, u, inf, 3.0, mu, rng)[1], 3.0),
        "excess": (lambda: scores.product_excess(blocks, u, inf, 3.0, 4.0, mu, rng)[1, 0], 3.0),
        "outer": (lambda: scores.product_gram(blocks, u, inf, 3.0, mu, rng)[1, 1], 9.0),
        "gram": (lambda: scores.inner_gram(blocks, u, inf, 3.0, 9.0, mu, rng)[1, 2] * math.sqrt(2), 9.0),
        "counts": (lambda: scores.product_counts(blocks, u, inf, edges, mu, rng)[1, 3], 1.0),
        "variance": (lambda: 5 * scores.residual_variance(blocks, u, 3.0, 5, mu, rng), 3.0),
        "score": (lambda: scores.outside_score(blocks, frame(), frame(), u, mu, rng), 1.0),
        # so many rows that the floor of the share is never reached
        "psi": (lambda: many * (scores.psi_moments(far, u, 1.0, many, mu, rng)[1] - 0.25), math.sqrt(2)),
    }[release]
    sample = np.array([once() for _ in range(draws)])
    room = 1.0 if release == "counts" else 1 + 2.0**-10
    ratio = np.sum(sample**2) / (sensitivity / mu) ** 2 / room**2
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


@pytest.mark.parametrize("length", [1e-150, 1e-155, 1e-160, 1e-162, 1e-163, 1e-200, 5e-324])
def test_products_of_rows_that_underflow_are_bounded(length):
    """The squared norm of a row may be 0 where its product with a large residual is far beyond the clip."""
    v, y, clip = np.array([[0.0, length, 0.0]]), np.array([[2.0**399]]), 1e-140
    for name, k, more in (("product_gradient", 3, ()), ("product_excess", 6, (1.0,))):
        moved = summed(getattr(score_kernels, name), (k,), clip, v, y, np.zeros(3), np.inf, clip, *more)
        assert np.linalg.norm(moved) <= clip * (1 + 1e-9)
    units, near = (units_of(clip), units_of(1.0)), np.zeros(1, bool)
    gradient, gram = np.zeros((2, 3), np.int64), np.zeros((2, 3, 3), np.int64)
    score_kernels.settled_gradient(v, y, np.zeros(3), clip, 1e-200, *units, gradient, gram, near)
    assert np.linalg.norm(from_whole(gradient, units[0])) <= clip * (1 + 1e-9)


@pytest.mark.parametrize(
    ("name", "clip", "length", "residual"),
    [
        ("product_gradient", 1e-160, 1e20, 1e-164),
        ("product_excess", 1e-160, 1e20, 1e-164),
        ("settled_gradient", 1e-160, 1e20, 1e-164),
        ("product_gram", 1e-80, 1e130, 1e113),
    ],
)
def test_rows_far_beyond_a_tiny_clip_are_shortened_to_it(name, clip, length, residual):
    """Neither the clip over the product nor the residual times the clip is a normal double; a clip is public
    and may be as small."""
    bound, v = clip**2 if name == "product_gram" else clip, np.array([[0.0, length, 0.0]])
    for y in residual * np.geomspace(1.0, 10.0, 20).reshape(-1, 1, 1):
        if name == "settled_gradient":
            state, gram, near = np.zeros((2, 3), np.int64), np.zeros((2, 3, 3), np.int64), np.zeros(1, bool)
            settled = score_kernels.settled_gradient
            settled(v, y, np.zeros(3), clip, 1e-250, units_of(clip), 1.0, state, gram, near)
            moved = from_whole(state, units_of(clip))
        else:
            shape, more = {"product_gram": ((3, 3), ()), "product_excess": ((6,), (1.0,))}.get(
                name, ((3,), ())
            )
            moved = summed(getattr(score_kernels, name), shape, bound, v, y, np.zeros(3), np.inf, clip, *more)
        assert np.linalg.norm(moved / bound) == pytest.approx(1.0, abs=1e-9)


def test_limits_of_outer_products_grow_with_the_budget():
    """As noise allows, from 4 to 40 mean squared norms, and with much of a budget as its power of 3/4."""
    limits = [
        scores.outer_limit(2.0, 2, precision, 0.1, (4.0, 40.0)) / 4 for precision in (10, 1e3, 4e3, 1e6)
    ]
    assert limits == pytest.approx([4.0, 25.0, 40.0, 40 * (1e5 / 4 / 120) ** 0.75], rel=1e-12)
