"""What the estimators of weighted rows share: their steps, the rows' radius, the ridge against noise."""

import math

import numpy as np
import pytest

from dpstats.engines.local import Rows
from dpstats.errors import ReleaseFailed
from dpstats.linear.budget import divide, preparation
from dpstats.linear.moments import (
    STAGES,
    BoundedBudget,
    bounded_rows,
    preparation_steps,
    raised,
    row_radius2,
    stages,
)
from dpstats.linear.public import PublicDesign
from dpstats.mechanisms.rng import Randomness

SHARES = {"count": 0.1, "location": 0.1, "scale": 0.1, "response_location": 0.1, "response_scale": 0.1}
PUBLIC = PublicDesign(True, np.arange(1, 3), np.zeros(3), np.array([1.0, 0.0, 0.0]), None)


def rows(n=4000):
    g = np.random.default_rng(0)
    X = np.column_stack([np.ones(n), 5 + 3 * g.standard_normal((n, 2))])
    return Rows(X, X @ [1.0, 2, 3])


def budget_of(standardize, recipe=STAGES, eps=1e4):
    mus, guarantee = divide(eps, 1e-6, preparation_steps(PUBLIC, SHARES, standardize, recipe), True)
    given = stages(mus, standardize) if recipe else ()
    return BoundedBudget(guarantee, mus, PUBLIC, given, standardize, None)


def test_without_standardisation_the_count_alone_is_released():
    (step,) = preparation_steps(PUBLIC, SHARES, False)
    assert step.key == "count"
    prepared, frame = bounded_rows("test", rows(), budget_of(False), Randomness(0))
    assert prepared.count == pytest.approx(4000, abs=0.1) and prepared.columns is None
    assert not prepared.affine.loc.any() and (prepared.affine.scale == 1).all()
    assert np.isinf(frame.low).all() and np.isinf(frame.high).all()


@pytest.mark.parametrize("recipe", [(), STAGES])
@pytest.mark.parametrize("limited", [True, False])
def test_with_it_columns_have_limits_and_the_stages_of_the_recipe(recipe, limited):
    steps = preparation_steps(PUBLIC, SHARES, True, recipe)
    keys = [f"stage {i}" for i in range(len(recipe))]
    assert [s.key for s in steps] == [s.key for s in preparation(PUBLIC, SHARES)] + keys
    budget = budget_of(True, recipe)
    assert [(s.c, s.L, s.mu, s.response) for s in budget.stages] == [
        (c, L, budget.mus[f"stage {i}"], True) for i, (c, L, _) in enumerate(recipe)
    ]
    prepared, frame = bounded_rows("test", rows(), budget, Randomness(0), limited)
    np.testing.assert_allclose(prepared.affine.loc[1:], 5, atol=1)
    assert np.isfinite(prepared.low[1:]).all() and np.isfinite(prepared.high[1:]).all()
    assert np.isfinite(frame.low[1:]).all() == limited and np.isfinite(frame.high[1:]).all() == limited
    assert np.allclose(prepared.whitening.W, np.eye(3)) == (not recipe)


def test_too_few_rows_are_refused():
    with pytest.raises(ReleaseFailed, match="2 columns of unknown range need about"):
        bounded_rows("test", rows(30), budget_of(True, eps=0.1), Randomness(1))


def test_the_radius_grows_with_what_the_noise_allows():
    n, q, mu = 1e5, 8, 0.1
    radius2 = row_radius2(q, n, mu, 0.2)
    # noise radius2 / mu on the diagonal, over n, is 0.2 / sqrt(2 q)
    assert radius2 / mu / n == pytest.approx(0.2 / math.sqrt(2 * q))
    assert row_radius2(q, 100, mu, 0.2) == 2.25 * q
    assert row_radius2(q, 1000, 1e6, 0.2) == 1000
    many = np.array([row_radius2(q, count, mu, 0.2) for count in (1e7, 1e9)])
    assert many[1] / many[0] == pytest.approx(10.0)  # and the noise, over the rows, falls as their root


def test_the_ridge_keeps_the_noise_away_from_zero():
    c = math.sqrt(8)
    np.testing.assert_array_equal(raised(np.eye(4) * 1e6, 1.0), np.eye(4) * 1e6)
    np.testing.assert_allclose(raised(np.zeros((4, 4)), 1.0), np.eye(4) * c)
    # the noise, of norm c, may have made an eigenvalue of c / 2 look like one of 1.5 c
    np.testing.assert_allclose(raised(np.diag([1.5 * c, 30.0]), math.sqrt(2)).diagonal(), [2 * c, 30 + c / 2])
    # or one that is positive like one of -c
    np.testing.assert_allclose(raised(np.diag([-0.9 * c, 30.0]), math.sqrt(2)).diagonal(), [c, 30 + c])
