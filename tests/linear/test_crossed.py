"""Cells of products, told by what is released: where their rows are, and how many there are."""

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.linear.prepare import Prepared
from dpstats.regression import logit


def prepared(monkeypatch, formula, frame, eps=50.0) -> Prepared:
    """What is released before the rounds, about answers that nothing has a part in."""
    seen = []
    results = logit.glm_results
    monkeypatch.setattr(logit, "glm_results", lambda *a: seen.append(a[2].prepared) or results(*a))
    frame = frame.assign(y=(np.random.default_rng(9).random(len(frame)) < 0.3) * 1.0)
    dpstats.logit(formula, frame, eps=eps, seed=1)
    return seen[0]


@pytest.fixture(scope="module")
def frame():
    rng, n = np.random.default_rng(0), 20_000
    z = rng.random(n) < 0.3
    a = pd.Categorical.from_codes(rng.choice(3, n, p=[0.5, 0.3, 0.2]), ["a0", "a1", "a2"])
    return pd.DataFrame(
        {
            "x": 2 + rng.standard_normal(n),
            "z": z * 1.0,
            # more often where z is 1
            "w": (rng.random(n) < 0.2 + 0.3 * z) * 1.0,
            "v": (rng.random(n) < 0.4) * 2.0 - 1,
            "a": a,
        }
    )


def cells(found):
    return found.cells.means * found.affine.scale + found.affine.loc


@pytest.mark.parametrize("formula", ["y ~ x + z*w", "y ~ x + z + w + I(z*w)"])
def test_cells_of_two_columns_of_zeros_and_ones(monkeypatch, frame, formula):
    found = prepared(monkeypatch, formula, frame)
    rows = cells(found)
    order = np.lexsort((rows[:, 3], rows[:, 2]))
    expected = [[1, z, w, z * w] for z in (0, 1) for w in (0, 1)]
    assert rows[order][:, [0, 2, 3, 4]] == pytest.approx(np.array(expected), abs=1e-6)
    counts = frame.groupby(["z", "w"]).size() / len(frame)
    # (second moments have a sixth of noise, whatever eps)
    assert found.cells.shares[order] == pytest.approx(counts.to_numpy(), rel=0.35)
    # and are in place of those of each column
    assert len(found.twos[1]) == 0 and set(found.cells.factors) == {"z", "w"}
    # x is what it is everywhere
    assert rows[:, 1] == pytest.approx(2, abs=0.1)


def test_cells_of_levels_and_of_a_column_of_minus_one_and_one(monkeypatch, frame):
    found = prepared(monkeypatch, "y ~ x + a*v", frame)
    rows = cells(found)
    assert len(rows) == 6 and not found.levels_apart.any()
    # constant, two levels, x, v, and products
    assert np.sort(rows[:, 4]) == pytest.approx([-1, -1, -1, 1, 1, 1], abs=1e-6)
    assert rows[:, 5:] == pytest.approx(rows[:, 1:3] * rows[:, [4]], abs=1e-6)
    shares = [found.cells.shares[(np.abs(rows[:, 1:3] - at) < 1e-6).all(axis=1)].sum() for at in np.eye(2)]
    assert shares == pytest.approx([0.3, 0.2], rel=0.35)
    assert found.cells.shares.sum() == pytest.approx(1, abs=0.25)


def test_cells_that_no_column_tells_apart_are_one(monkeypatch, frame):
    found = prepared(monkeypatch, "y ~ x + z:w", frame)
    rows, both = cells(found), float(np.mean(frame.z * frame.w))
    order = np.argsort(rows[:, 2])
    assert rows[order, 2] == pytest.approx([0, 1], abs=1e-6)
    assert found.cells.shares[order] == pytest.approx([1 - both, both], rel=0.35)


def test_only_cells_are_asked_that_columns_tell_from_the_others(monkeypatch, frame):
    u = pd.Series(np.random.default_rng(4).random(len(frame)) < 0.5) * 1.0
    found = prepared(monkeypatch, "y ~ x + z + w + u + z:w:u", frame.assign(u=u))
    # the cell of all three, and each value of each column
    assert len(found.cells.shares) == 1 + 6
    assert found.cells.shares[0] == pytest.approx(float(np.mean(frame.z * frame.w * u)), rel=0.4)


def test_what_is_multiplied_with_a_column_moves_its_rows(monkeypatch, frame):
    found = prepared(monkeypatch, "y ~ x*z + w", frame)
    rows = cells(found)
    assert rows[:, 2] == pytest.approx([1, 0]) and rows[:, 3] == pytest.approx(rows[:, 1] * rows[:, 2])
    one, zero = (direction[0] * found.affine.scale for direction in found.cells.within)
    assert abs(one[1]) == pytest.approx(1, abs=0.2) and one[3] == pytest.approx(one[1])
    assert zero[3] == pytest.approx(0, abs=1e-9) and one[[0, 2, 4]] == pytest.approx(0)
    # w has no part in a product
    assert len(found.twos[1]) == 2


@pytest.mark.parametrize("formula", ["y ~ x + z:x", "y ~ z:x", "y ~ x + a:x", "y ~ x + I(z * x)"])
def test_values_that_are_multipliers_alone_are_not_asked(monkeypatch, frame, formula):
    """About x = 0 their rows are where all are, so that a few rows would be as far from their fit as many."""
    found = prepared(monkeypatch, formula, frame.assign(x=frame.x - 2))
    assert len(found.cells.shares) == 0


def test_designs_without_products_have_none(monkeypatch, frame):
    found = prepared(monkeypatch, "y ~ x + z + a", frame)
    assert len(found.cells.shares) == 0 and found.levels_apart.all() and len(found.twos[1]) == 2
