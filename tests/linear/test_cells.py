"""Cells that few subsets hold rows of: which there are, by hand, and what they add to the variance."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.formula.design import Design
from dpstats.linear.cells import (
    _AVERAGE,
    _SHORT,
    Cell,
    cells_of,
    inherited_root,
    levels_root,
    share_without,
    short_root,
)
from dpstats.linear.public import PublicDesign
from dpstats.mechanisms.whiten import Affine


def design_of(formula):
    columns = {
        "x": [0.5, 0.7],
        "z": [1.0, 2.0],
        "y": [1.0, 2.0],
        "g": pd.Categorical(["a", "b"], ["a", "b", "c"]),
    }
    return Design.from_formula(formula, Schema.of(open_source(pd.DataFrame(columns))))


def prepared_of(design, filled, mean):
    """As if every other row had been looked at, and columns were standardised at 0 and 1."""
    d = len(design.column_names)
    rows_away = np.array(filled or [0.0])[:, None, None] * [[[0.5], [0.75]]]
    columns = SimpleNamespace(filled=np.array(filled), rows=rows_away, loc=np.zeros(1)) if filled else None
    return SimpleNamespace(
        count=1000.0, rows=500.0, columns=columns, affine=Affine(np.arange(d), np.zeros(d), np.ones(d)),
        whitening=SimpleNamespace(mean=np.array(mean)), gone=SimpleNamespace(columns=np.zeros(0, int)),
        made=None,
    )  # fmt: skip


def test_the_cells_of_a_factor_and_a_column():
    """1,000 rows, of which 10 % are in b and 85 % in c, and 20 of 500 lie away from the location of x."""
    design = design_of("y ~ g + x")
    assert design.column_names == ("Intercept", "g[T.b]", "g[T.c]", "x")
    prepared = prepared_of(design, filled=[20.0], mean=[1.0, 0.10, 0.85, 0.3])
    sparse, b, c, reference = cells_of(design, PublicDesign.of(design), prepared)
    expected = [
        (sparse, 40.0, [0, 0, 0, 1], [0, 0, 0, 1]),
        (b, 100.0, [1, 1, 0, 0], [0, 1, 0, 0]),
        (c, 850.0, [1, 0, 1, 0], [0, 0, 1, 0]),
        (reference, 50.0, [1, 0, 0, 0], [1, -1, -1, 0]),
    ]
    for cell, rows, told, moved in expected:
        assert cell.rows == pytest.approx(rows)
        assert cell.seen == pytest.approx(rows * (1.25 if cell is sparse else 1))
        np.testing.assert_array_equal(cell.told, told)
        np.testing.assert_array_equal(cell.moved, moved)


def test_the_fit_at_the_value_that_nearly_all_rows_have_stays():
    """Of a column that is 1 in nearly all rows the constant is the fit of the few others."""
    design = design_of("y ~ x")
    for filled, moved in ((20.0, [-1.0, 1.0]), (400.0, [0.0, 1.0])):
        prepared = prepared_of(design, filled=[filled], mean=[1.0, 1.0])
        prepared.columns.loc = np.ones(1)
        (cell,) = cells_of(design, PublicDesign.of(design), prepared)
        np.testing.assert_array_equal(cell.moved, moved)


@pytest.mark.parametrize("formula", ["y ~ g", "y ~ g + x - 1", "y ~ x + z"])
def test_a_move_of_a_cell_leaves_the_others_where_they_are(formula):
    design = design_of(formula)
    public, d = PublicDesign.of(design), len(design.column_names)
    cells = cells_of(design, public, prepared_of(design, [7.0] * len(public.free), np.full(d, 0.3)))
    assert len(cells) == len(public.free) + 3 * (formula == "y ~ g")
    for one in cells:
        for other in cells:
            assert one.moved @ other.told == (one is other)


def test_products_of_sparse_columns_have_cells():
    """As made-up rows have them: 0 or 2 in a tenth, and another column in all rows."""
    design = design_of("y ~ x + z + x:z")
    rows = np.column_stack([np.ones(100), np.repeat([0.0, 2.0], [90, 10]), np.arange(100.0)])
    prepared = prepared_of(design, filled=[20.0, 20.0], mean=[1.0, 0.1, 0.2, 0.1])
    prepared.made = SimpleNamespace(marginals=SimpleNamespace(joint=(0, 3, 1)), rows=rows)
    *_, product = cells_of(design, PublicDesign.of(design), prepared)
    assert (product.rows, product.seen) == pytest.approx((100.0, 100.0))
    prepared.whitening.mean[3] = 0.6
    assert cells_of(design, PublicDesign.of(design), prepared)[-1].seen == pytest.approx(300.0)
    np.testing.assert_array_equal(product.told, [0, 0, 0, 1])
    prepared.made.rows = rows[:, [0, 2, 1]]
    assert len(cells_of(design, PublicDesign.of(design), prepared)) == 2


def test_without_a_constant_levels_have_no_reference():
    design = design_of("y ~ g - 1")
    assert cells_of(design, PublicDesign.of(design), prepared_of(design, None, [0.1, 0.2, 0.7])) == []


def of_levels(alone, gram, share=0.05, W=None, variance=(0.04, 0.09), sharing=True):
    found = [(share, np.array(alone, float), np.array(gram, float))]
    design = SimpleNamespace(layout=SimpleNamespace(sharing=("g",) * sharing))
    made = SimpleNamespace(
        alone=lambda affine: found, levels=[("g", "a")], marginals=SimpleNamespace(design=design)
    )
    return SimpleNamespace(
        made=made, affine=None, count=1000.0, intercept=True,
        response=SimpleNamespace(scale=np.array([2.0])),
        whitening=SimpleNamespace(
            W=np.eye(len(gram)) if W is None else np.array(W), theta_variance=np.array(variance)
        ),
    )  # fmt: skip


def test_subsets_without_a_row_of_a_level_take_over_what_they_tell():
    """50 rows of a reference level among 100 subsets, and a dummy that is 1 elsewhere.

    They tell the constant, whose error in the first fit has the variance ``4 0.04``; the dummy goes the other
    way."""
    none = np.zeros((2, 2))
    prepared = of_levels([[1.0], [-1.0]], [[1.0, 0.0], [0.0, 0.0]])
    root = levels_root(prepared, 100, none)
    expected = math.exp(-1) * 4 * 0.04 * np.outer([1, -1], [1, -1])
    np.testing.assert_allclose(root @ root.T, expected)
    # in other coordinates of the same coefficients and the same errors
    W = np.array([[2.0, 1.0], [0.0, 0.5]])
    prepared = of_levels([[1.0], [-1.0]], [[1.0, 0.0], [0.0, 0.0]], W=W)
    root = W @ levels_root(prepared, 100, none)
    np.testing.assert_allclose(root @ root.T, expected / 0.04 * (4 * 0.04 + 0.09))
    # dummies have cells of their own
    prepared = of_levels([[1.0], [-1.0]], [[1.0, 0.0], [0.0, 0.0]], sharing=False)
    assert not levels_root(prepared, 100, none).any()
    # released standard errors of few rows are too short: 200 in 100 subsets
    prepared = of_levels([[1.0], [-1.0]], [[1.0, 0.0], [0.0, 0.0]], share=0.2, variance=(0.0, 0.0))
    root = levels_root(prepared, 100, np.diag([0.5, 0.3]))
    np.testing.assert_allclose(root @ root.T, 0.86 * 0.5 * np.outer([1, -1], [1, -1]))


def test_a_level_with_a_slope_of_its_own_takes_more_rows_than_one():
    """A constant and a slope need two."""
    gram, none = [[1.0, 0.5], [0.5, 1.0]], np.zeros((2, 2))
    root = levels_root(of_levels(np.eye(2), gram, share=0.2, variance=(0.04, 0.04)), 100, none)
    few = sum(2.0**k / math.factorial(k) for k in range(2)) * math.exp(-2)
    # all of the first fit's error is taken over, in its own proportions
    np.testing.assert_allclose(root @ root.T, few**2 * 0.16 * np.eye(2), atol=1e-12)
    assert levels_root(of_levels(np.eye(2)[:, :0], gram), 100, none).shape == (2, 0)
    # what is 0 in the level as well tells nothing
    assert levels_root(of_levels([[0.0], [1.0]], [[1.0, 0.0], [0.0, 0.0]]), 100, none).shape == (2, 0)


def test_share_of_subsets_without_a_row():
    g = np.random.default_rng(0)
    empty = [np.sum(np.bincount(g.integers(50, size=80), minlength=50) == 0) / 50 for _ in range(4000)]
    assert share_without(80, 50) == pytest.approx(np.mean(empty), abs=0.01)
    assert share_without(-3.0, 50) == share_without(0, 50) == 1


def test_a_worked_example():
    """A rare level: 100 subsets share its 50 rows, and 60.7 % have none and keep to the first fit.

    The first fit's errors of the intercept and of the effect have variances 0.09 and 0.16 and are
    independent, so that of the level's mean is 0.25: the effect inherits ``exp(-0.5)^2 0.25``.
    """
    rare = Cell(50.0, 50.0, told=np.array([1.0, 1.0]), moved=np.array([0.0, 1.0]))
    common = Cell(1e6, 1e6, told=np.array([1.0, 0.0]), moved=np.array([1.0, -1.0]))
    root = inherited_root([rare, common], 100, np.diag([0.3, 0.4]))
    got = root @ root.T
    np.testing.assert_allclose(got, [[0, 0], [0, math.exp(-1) * 0.25]], atol=1e-12)


def test_what_median_standard_errors_lack_where_subsets_have_few_rows():
    """A mean of few normal values, or an origin of its own where there is none, and the jackknife over
    groups; the variance of a median is that of a symmetric density at its middle."""
    g = np.random.default_rng(0)

    def ratio(average, sets=400_000):
        rows = g.poisson(average / 4, (4, sets))
        sums, origin = np.sqrt(rows) * g.standard_normal((4, sets)), g.standard_normal(sets) / average**0.5
        mean = lambda total, count: np.where(count > 0, total / np.maximum(count, 1), origin)  # noqa: E731
        left = mean(sums.sum(axis=0) - sums, rows.sum(axis=0) - rows)
        errors = np.sqrt(3 * left.var(axis=0))
        count = rows.sum(axis=0)
        density = np.mean(np.sqrt(np.where(count > 0, count, average))) / math.sqrt(2 * math.pi)
        return 1 / (4 * density**2 * np.median(errors) ** 2)

    many = ratio(64)
    found = np.array([ratio(r) / many for r in _AVERAGE])
    # near the end the median is where next to no subset is
    np.testing.assert_allclose(found[3:], _SHORT[3:], rtol=0.04)
    np.testing.assert_allclose(found[:3], _SHORT[:3], rtol=0.25)


def test_standard_errors_of_cells_with_few_rows_are_made_longer():
    told, moved = np.array([1.0, 1.0]), np.array([0.0, 1.0])
    few, one, many = (Cell(1.0, rows, told, moved) for rows in (250, 100, 1e6))
    column = Cell(1.0, 100, told, moved, least=2.0)
    cov = np.array([[0.3, 0.1], [0.1, 0.5]])
    for cell, more in ((few, 0.51), (one, 7.87), (many, 0.0), (column, 0.86)):
        root = short_root([cell], 100, cov)
        np.testing.assert_allclose(root @ root.T, [[0, 0], [0, more * 1.0]], atol=1e-12)
