"""How a squared bias is spread over directions, and clips that are chosen for it."""

import math

import numpy as np
import pytest

from dpstats.linear.clip import choose_clip, edges_about
from dpstats.linear.spread import cut_shape, spread_share


@pytest.mark.parametrize("constant", [True, False])
def test_a_bias_is_spread_over_constant_predictor_and_the_rest(constant):
    """In the metric of the parts, over what each direction would have of one that is the same along all."""
    g = np.random.default_rng(4)
    half, A, W = g.standard_normal((3, 6, 6))
    M, A, u = half @ half.T, A @ A.T, g.standard_normal(6)
    shape = cut_shape(M, A, W, u, constant)
    ones = A @ np.linalg.solve(W, np.eye(6)[0])  # of z = (1, 0, ...), which every row has in its first column
    along = [ones, A @ u] if constant else [A @ u]
    root = np.linalg.cholesky(M)
    basis = np.linalg.qr(np.column_stack([*np.linalg.solve(root, np.transpose(along)).T, *np.eye(6)]))[0]
    dual = np.linalg.solve(root.T, basis)
    expected = np.full(6, 0.3)
    expected[: len(along)] = [1.0, 1.5][-len(along) :]
    total = np.trace(root @ basis @ np.diag(expected) @ basis.T @ root.T) / np.trace(M)
    expected *= max(spread_share(6, constant) / total, 1.0)
    np.testing.assert_allclose(dual.T @ shape @ dual * np.trace(M), np.diag(expected), atol=1e-9)


def test_a_bias_along_one_direction_is_not_one_of_many():
    """Parts that are long along a direction of their own, as a small group's, have what all would have."""
    M = np.diag([1.0, 1.0, 1e4, 1.0])
    shape = cut_shape(M, np.eye(4), np.eye(4), np.array([0.0, 1.0, 0.0, 0.0]), constant=True)
    assert shape[2, 2] == pytest.approx(spread_share(4, True), rel=1e-3)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("q", [1, 2, 5])
def test_the_share_of_a_clip_is_the_trace(q, constant):
    """Where the parts are white; one direction is the constant's, or the predictor's."""
    u = np.ones(q)
    shape = cut_shape(np.eye(q), np.eye(q), np.eye(q), u, constant)
    assert np.trace(shape) == pytest.approx(spread_share(q, constant), rel=1e-12)
    assert spread_share(1, constant) == (1.0 if constant else 1.5)


def test_a_fit_of_zeros_has_a_shape():
    """Without an effect the predictor has no direction of its own."""
    shape = cut_shape(np.eye(3), np.eye(3), np.eye(3), np.zeros(3), True)
    assert np.isfinite(shape).all() and np.trace(shape) <= spread_share(3, True) + 1e-12


def test_a_clip_is_nearer_where_most_directions_lose_little():
    edges = edges_about(math.sqrt(40))
    tail = 4000 * 0.6 ** np.arange(len(edges) + 1)
    counts = np.array([0.2 * tail, tail])
    near, far = (
        choose_clip(edges, counts, 10.0, 40, 100_000, 1e-4, share) for share in (spread_share(40, True), 1.0)
    )
    assert near.norm < 0.8 * far.norm and near.bias > far.bias
