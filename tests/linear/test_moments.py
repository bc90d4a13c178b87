"""What the estimators with rows within a radius share: their steps, the ridge against noise, and its bias."""

import math

import numpy as np
import pytest

from dpstats.engines.local import Rows
from dpstats.errors import ReleaseFailed
from dpstats.linear.budget import divide, preparation
from dpstats.linear.moments import (
    BoundedBudget,
    bounded_rows,
    one_stage,
    preparation_steps,
    row_radius,
    shrinkage_bias,
    spectral_floor,
)
from dpstats.linear.public import PublicDesign
from dpstats.mechanisms.rng import Randomness

SHARES = {"count": 0.1, "location": 0.1, "scale": 0.1, "response_location": 0.1, "response_scale": 0.1}
PUBLIC = PublicDesign(True, np.arange(1, 3), np.zeros(3), np.ones(3), None)


def rows(n=4000):
    g = np.random.default_rng(0)
    X = np.column_stack([np.ones(n), 5 + 3 * g.standard_normal((n, 2))])
    return Rows(X, X @ [1.0, 2, 3])


def budget_of(standardize, shares, eps=1e4):
    mus, guarantee = divide(eps, 1e-6, preparation_steps(PUBLIC, shares, standardize), True)
    return BoundedBudget(guarantee, mus, PUBLIC, one_stage(mus), standardize, None)


def test_without_standardisation_the_count_alone_is_released():
    (step,) = preparation_steps(PUBLIC, SHARES | {"whitening": 0.5}, False)
    assert step.key == "count"
    prepared, frame = bounded_rows("test", rows(), budget_of(False, SHARES), Randomness(0))
    assert prepared.count == pytest.approx(4000, abs=0.1) and prepared.columns is None
    assert not prepared.affine.loc.any() and (prepared.affine.scale == 1).all()
    assert np.isinf(frame.low).all() and np.isinf(frame.high).all()


@pytest.mark.parametrize("whitening", [0.0, 0.5])
def test_with_it_columns_get_limits_and_a_stage_where_there_is_a_budget_for_one(whitening):
    shares = SHARES | ({"whitening": whitening} if whitening else {})
    steps = preparation_steps(PUBLIC, shares, True)
    assert [s.key for s in steps] == [s.key for s in preparation(PUBLIC, shares)] + ["whitening"] * bool(
        whitening
    )
    budget = budget_of(True, shares)
    assert [(s.c, s.L, s.mu, s.response) for s in budget.stages] == (
        [(2.0, 0.05, budget.mus["whitening"], False)] if whitening else []
    )
    prepared, frame = bounded_rows("test", rows(), budget, Randomness(0))
    np.testing.assert_allclose(prepared.affine.loc[1:], 5, atol=1)
    assert np.isfinite(frame.low[1:]).all() and np.isfinite(frame.high[1:]).all()
    assert np.allclose(prepared.whitening.W, np.eye(3)) == (not whitening)


def test_too_few_rows_are_refused():
    with pytest.raises(ReleaseFailed, match="test: 2 columns of unknown range"):
        bounded_rows("test", rows(30), budget_of(True, SHARES, eps=0.1), Randomness(0))


def test_default_radius():
    assert row_radius(4) == 3.0


def test_ridge_and_bias():
    assert spectral_floor(np.eye(4) * 1e6, 1.0) == 0
    assert spectral_floor(np.zeros((4, 4)), 1.0) == pytest.approx(math.sqrt(8))
    # the noise, of norm 2, may have made an eigenvalue of 1 look like 3
    assert spectral_floor(np.diag([3.0, 30.0]), 1.0) == pytest.approx(1.0)
    A, theta = np.diag([2.0, 100.0]), np.array([1.0, 1.0])
    bias = shrinkage_bias(A, 1.0, theta, np.zeros((2, 2)))
    np.testing.assert_allclose(np.diag(bias), [1.0, (1 / 99) ** 2])
    assert not shrinkage_bias(A, 1.0, theta, np.eye(2) * 4).any()
