"""What regressions do first: the accounting of every noise, the public part, and the way back to columns."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.errors import ReleaseFailed
from dpstats.formula.design import Design
from dpstats.linear import prepare as _prepare
from dpstats.linear.budget import LinearBudget
from dpstats.linear.prepare import Prepared, prepare
from dpstats.linear.public import PublicDesign
from dpstats.linear.refusals import check_columns, check_rows
from dpstats.mechanisms import _kernels, noise, whiten
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.whiten import Affine, Stage, Whitening
from dpstats.privacy.guarantee import Guarantee

SILENT = 1e7


def frame(n, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((n, 3)) @ np.array([[1.0, 0.5, 0], [0, 1, 2], [0, 0, 1]])
    group = generator.choice(["a", "b", "c"], n, p=[0.02, 0.49, 0.49])
    y = 3 + x @ [1.0, -2.0, 0.5] + (group == "b") + generator.standard_normal(n)
    return pd.DataFrame(x, columns=["x1", "x2", "x3"]).assign(
        year=1990.0 + generator.integers(0, 30, n), g=pd.Categorical(group, ["a", "b", "c"]), y=y
    )


def design_of(formula, data, **facts):
    return Design.from_formula(formula, Schema.of(open_source(data), **facts))


def blocks_of(design, data):
    return design.blocks(open_source(data))


STEPS = "count", "location", "scale", "response_location", "response_scale"
LEVELS = 0.13


def budget_of(public, steps, stages, neighbours="add-remove", **more):
    """A budget whose preparation has the Gaussian-DP parameters `steps`."""
    guarantee = Guarantee(1.0, 1e-6, neighbours, "approximate", ())
    mus = {"levels": LEVELS} | dict(zip(STEPS, steps, strict=False)) | dict(more)
    return LinearBudget(guarantee, mus, public, stages)


def silent(design, stages=3, **changes):
    """As good as no noise: preparation with so large a budget, but for `changes`."""
    plan = tuple(Stage(2.0 if i < stages - 1 else 500.0, 0.0, SILENT) for i in range(stages))
    mus = dict.fromkeys((*STEPS, "levels"), SILENT) | changes
    return budget_of(PublicDesign.of(design), (), plan, **mus)


def prepared(blocks, budget, seed=1, **more):
    """What is released, whatever the number of rows."""
    return prepare("test", blocks, budget, Randomness(seed), check_count=lambda count: None, **more)


@pytest.fixture
def spent(monkeypatch):
    """``mu^2`` actually spent under a relation, from each draw and the true sensitivity behind it."""
    calls, pure, real, radii, gram = [], [], noise._add, [], whiten.release_gram

    def add(values, law, sensitivity, budget, rng):
        if law == "laplace":
            pure.append(budget)
        else:
            # behind the sums of squares, the numbers of rows on the sides of axes
            calls.append((sensitivity, budget, np.size(values), bool(pure)))
        return real(values, law, sensitivity, budget, rng)

    monkeypatch.setattr(noise, "_add", add)
    monkeypatch.setattr(whiten, "release_gram", lambda *a: radii.append((a[2].shape[1], a[3])) or gram(*a))

    def total(relation, group_sizes):
        double, root = (1.0, 1.0) if relation == "add-remove" else (2.0, math.sqrt(2.0))
        grams, squares = iter(radii), 0.0
        for sensitivity, budget, size, sides in calls:
            if sides:
                need = math.sqrt(size)
            elif size == 1:
                need = 1.0
            elif size == 3:
                # the levels of one factor
                need = root
            elif size % _kernels.OCTAVES == 0:
                columns = size // _kernels.OCTAVES
                # twice as many cells where both sides are counted apart
                columns = columns if columns in group_sizes else columns // 2
                assert columns in group_sizes
                need = root * math.sqrt(columns)
            elif size % _kernels.GRID_BITS == 0 and size // _kernels.GRID_BITS in group_sizes:
                # the noise of 13 comparisons at once, each of which moves by 1/2, or 1 for a replaced row
                need = double * math.sqrt(_kernels.GRID_BITS * (size // _kernels.GRID_BITS)) / 2
            else:
                k, radius2 = next(grams)
                assert size == k * (k + 1) // 2
                need = root * radius2
            squares += (need * budget / sensitivity) ** 2
        assert next(grams, None) is None
        return squares

    total.calls, total.pure = calls, pure
    return total


FORMULAS = {
    "y ~ x1 + x2 + x3": (3, 1),
    "y ~ x1 + x2 + x3 - 1": (3, 1),
    "y ~ x1 + g": (1, 1),
    "y ~ g": (0, 1),
    "y ~ x1 + I(x1**2) + np.exp(x2):g + x3:year - 1": (1, 3),
}


@pytest.mark.parametrize("relation", ["add-remove", "substitution"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_all_noise_of_the_preparation_adds_up_to_its_budget(formula, relation, spent):
    data = frame(3000)
    design = design_of(formula, data)
    public = PublicDesign.of(design)
    stages = (Stage(2.0, 0.0, 0.11), Stage(2.0, 0.05, 0.07, response=False), Stage(2.0, 1.0, 0.05))
    free = float(len(public.free) > 0)
    steps = (0.2, 0.3 * public.located * free, 0.4 * free, 0.05 * public.intercept, 0.06)
    prepared(blocks_of(design, data), budget_of(public, steps, stages, relation))
    levels = LEVELS if public.factors else 0.0
    mu2 = sum(mu**2 for mu in (*steps, levels)) + sum(stage.mu**2 for stage in stages)
    used = spent(relation, FORMULAS[formula])
    assert not spent.pure
    # a thousandth less than planned, for the rounding of sums
    assert 0.995 * mu2 < used <= mu2 * (1 + 1e-12)


@pytest.mark.parametrize("neighbours", ["add-remove", "substitution"])
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.slow
def test_all_noise_of_tukey_em_adds_up_to_its_guarantee(formula, neighbours, spent):
    fit = dpstats.tukey_em(formula, frame(40_000), eps=6, delta=1e-5, neighbours=neighbours, seed=3)
    planned = sum(spend.mu**2 for spend in fit.guarantee.spends if spend.mu)
    used = spent(neighbours, FORMULAS[formula])
    assert 0.995 * planned < used <= planned * (1 + 1e-12)
    # what is not Gaussian is the test and the draw, and the sums of squares: their budgets are the rest
    rest, squares = [spend for spend in fit.guarantee.spends if not spend.mu]
    assert [squares.eps] == spent.pure and squares.delta == 0
    gaussian_eps = dpstats.privacy.conversions.gdp_eps(math.sqrt(planned), fit.guarantee.delta / 2)
    assert gaussian_eps + rest.eps + squares.eps <= fit.guarantee.eps * (1 + 1e-9)
    assert rest.delta <= fit.guarantee.delta / 2


def test_accounting_check_catches_add_remove_noise_under_substitution(spent):
    data = frame(2000)
    design = design_of("y ~ x1", data)
    stages = (Stage(2.0, 0.0, 0.1),)
    prepared(blocks_of(design, data), budget_of(PublicDesign.of(design), (0.2, 0.3, 0.4, 0.1, 0.1), stages))
    assert spent("substitution", (1,)) > 1.3 * (0.2**2 + 0.3**2 + 0.4**2 + 3 * 0.1**2)


def test_a_refusal_after_the_count_has_drawn_no_other_noise(spent):
    data = frame(500)
    design = design_of("y ~ x1", data)

    def refuse(count):
        raise ReleaseFailed("too few")

    with pytest.raises(ReleaseFailed):
        prepare("test", blocks_of(design, data), silent(design), Randomness(1), check_count=refuse)
    assert [size for *_, size, _ in spent.calls] == [1]
    spent.calls.clear()
    with pytest.raises(ReleaseFailed):
        dpstats.tukey_em("y ~ x1", data, eps=0.1, seed=1)
    assert [size for *_, size, _ in spent.calls] == [1]


def test_without_noise_whitened_rows_have_the_identity_as_gram_matrix():
    data = frame(20_000)
    design = design_of("y ~ x1 + x2 + year + g", data)
    blocks = blocks_of(design, data)
    X, Y = next(iter(blocks))
    got = prepared(blocks, silent(design))
    v = got.affine.apply(np.hstack([X, Y])) @ got.whitening.W
    np.testing.assert_allclose(v.T @ v / len(v), np.eye(X.shape[1]), atol=1e-2)
    assert got.count == pytest.approx(20_000, abs=1e-3)
    assert not got.flat_response
    # the first fit is least squares, in standardised units
    theta = np.linalg.lstsq(X, Y[:, 0], rcond=None)[0]
    back = got.to_units(X.shape[1], True) @ np.linalg.solve(got.whitening.W, got.whitening.theta)
    back *= got.response.scale[0]
    back[0] += got.response.loc[0]
    np.testing.assert_allclose(X @ back, X @ theta, atol=0.05)


@pytest.mark.parametrize("formula", ["y ~ x1 + year + g", "y ~ x1 + year + g - 1"])
def test_coefficients_map_back_to_columns(formula):
    data = frame(3000)
    design = design_of(formula, data, bounds={"x1": (-4, 4)})
    blocks = blocks_of(design, data)
    X, Y = next(iter(blocks))
    public = PublicDesign.of(design)
    got = prepared(blocks, silent(design, location=SILENT * public.intercept))
    c = np.random.default_rng(2).standard_normal(len(got.affine.columns))
    v = got.affine.apply(np.hstack([X, Y])) @ got.whitening.W
    np.testing.assert_allclose(X @ (got.to_units(X.shape[1], public.intercept) @ c), v @ c, atol=1e-8)


def test_columns_without_variation_leave_the_model():
    data = frame(3000).assign(x2=7.0, x3=1e308)
    design = design_of("y ~ x1 + x2 + x3", data)
    got = prepared(blocks_of(design, data), silent(design))
    assert 2 not in got.affine.columns
    assert {0, 1} <= set(got.affine.columns.tolist())
    assert np.isfinite(got.whitening.W).all()


@pytest.mark.parametrize("name", ["ols", "huber", "adassp", "boosted_adassp", "gradient_descent", "tukey_em"])
def test_nothing_left_to_fit_is_a_failed_release(name):
    """Without a constant, when no column shows any variation: the promised exception, and no other."""
    data = {"x": np.zeros(20_000), "y": np.arange(20_000.0)}
    with pytest.raises(ReleaseFailed, match="no column of the formula shows any variation"):
        getattr(dpstats, name)("y ~ x - 1", data, eps=1, seed=0)


@pytest.mark.parametrize("value", [7.0, 0.0, -1e308])
def test_a_flat_response_has_no_first_fit(value):
    data = frame(3000).assign(y=value)
    design = design_of("y ~ x1", data)
    got = prepared(blocks_of(design, data), silent(design, response_scale=0.5, response_location=0.5))
    assert got.flat_response == (abs(value) < 1e300)
    assert np.isfinite(got.whitening.theta).all()
    if got.flat_response:
        assert not got.whitening.theta.any()
        assert got.response.scale[0] == 1


@pytest.mark.parametrize("bounds", [{"x1": (-6, 6), "y": (-10, 20)}, {"x1": (-1e9, 1e7), "y": (-1e9, 1e9)}])
def test_bounds_do_not_replace_the_private_scale(bounds):
    data = frame(3000)
    with_bounds, without = (
        prepared(blocks_of(design, data), silent(design))
        for design in (design_of("y ~ x1 + g", data, bounds=bounds), design_of("y ~ x1 + g", data))
    )
    column = 3
    assert with_bounds.affine.scale[column] == pytest.approx(without.affine.scale[column])
    assert with_bounds.response.scale[0] == pytest.approx(without.response.scale[0])


def test_bounds_keep_what_the_noise_hides():
    """Two rows show no octave: without bounds the column leaves the model, with bounds it has their scale."""
    data = frame(3000).iloc[:2]
    weak = {"location": 0.1, "scale": 0.01, "response_location": 0.1, "response_scale": 0.01}
    for bounds in ({}, {"x1": (-6, 6), "y": (-10, 20)}):
        design = design_of("y ~ x1", data, bounds=bounds)
        got = prepared(blocks_of(design, data), silent(design, **weak))
        assert got.flat_response == (not bounds)
        assert (1 in got.affine.columns) == bool(bounds)
    assert (got.affine.loc[1], got.affine.scale[1]) == (0.0, 6.0)
    assert (got.response.loc[0], got.response.scale[0]) == (5.0, 15.0)


def test_much_data_is_thinned_and_says_so(monkeypatch):
    monkeypatch.setattr(_prepare, "_ENOUGH_ROWS", 1000)
    data = frame(16_000)
    design = design_of("y ~ x1 + x2", data)
    seen, real = [], _prepare.sample
    monkeypatch.setattr(_prepare, "sample", lambda *a: seen.append(a[1]) or real(*a))
    got = prepared(blocks_of(design, data), silent(design))
    assert seen == [4]
    assert got.count == pytest.approx(16_000, abs=1)
    assert got.rows == pytest.approx(1000, abs=1)
    X, Y = next(iter(blocks_of(design, data)))
    v = got.affine.apply(np.hstack([X, Y])) @ got.whitening.W
    np.testing.assert_allclose(v.T @ v / len(v), np.eye(3), atol=0.25)


def test_limits_are_those_of_the_private_range():
    data = frame(4000)
    data.loc[0, "x1"] = 1e6
    design = design_of("y ~ x1 + g", data)
    got = prepared(blocks_of(design, data), silent(design, scale=1.0), reach=1.0)
    column = design.column_names.index("x1")
    assert got.high[column] - got.low[column] == pytest.approx(2 * got.columns.reach[0])
    assert got.high[column] < 100
    others = np.delete(np.arange(len(got.low)), column)
    assert np.isinf(got.low[others]).all() and np.isinf(got.high[others]).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows_give_finite_numbers(n):
    data = frame(max(n, 1)).iloc[:n]
    design = design_of("y ~ x1 + x2 + g", data)
    for mu in (0.2, 30.0):
        stages = (Stage(2.0, 0.0, mu), Stage(2.0, 1.0, mu))
        with np.errstate(all="ignore"):
            got = prepared(
                blocks_of(design, data), budget_of(PublicDesign.of(design), [mu] * 5, stages), seed=n
            )
        for value in (got.count, got.affine.loc, got.affine.scale, got.whitening.W, got.whitening.theta):
            assert np.isfinite(value).all()


def test_no_row_makes_a_release_of_tiny_bounds_nan(monkeypatch):
    seen = []
    real = noise._add
    monkeypatch.setattr(
        noise, "_add", lambda values, *more: (seen.append(np.asarray(values)), real(values, *more))[1]
    )
    x, y = np.linspace(0, 1, 300), np.tile([2e-300, 0.0, 1e-300], 100)
    for name in ("adassp", "boosted_adassp", "ols", "huber", "gradient_descent"):
        bounds = {"x": (0, 1), "y": (0, 2e-300)}
        getattr(dpstats, name)("y ~ x", {"x": x, "y": y}, eps=10, bounds=bounds, seed=1)
    assert all(np.isfinite(values).all() for values in seen)


@pytest.mark.parametrize("columns", [1, 4])
def test_the_default_check_refuses_by_the_released_count_alone(columns):
    """Six standard deviations of an octave's noise may be a quarter of the rows; where a response is located,
    3.2 of a step, sqrt(13 / .55) / 2 over the budget, half of them."""
    budget = budget_of(None, (0.1, 0.1, 0.5, 0.1, 0.1), ())
    need = 6 * math.sqrt(columns) / 0.5 / 0.25
    check_rows("test", budget, columns, need)
    with pytest.raises(ReleaseFailed, match=f"test: {columns} column.* needs? about {need:,.0f} rows"):
        check_rows("test", budget, columns, need - 1)
    check_rows("test", budget, 0, -5.0)
    need = 3.2 * math.sqrt(13 / 0.55) / 0.1
    for known in (0, columns):
        check_rows("test", budget, known, need, response=True)
        with pytest.raises(ReleaseFailed, match=f"test: a response .*needs about {need:,.0f} rows"):
            check_rows("test", budget, known, need - 1, response=True)


def test_a_failure_says_what_may_help_by_the_released_count():
    """Within three standard deviations of its noise there may be no row: bounds and budgets are no help."""
    budget = budget_of(None, (0.1, 0.1, 0.5, 0.1, 0.1), ())
    for count, told in (
        (3 / budget.mus["count"] - 1, "may be that of no rows at eps = 1. Rows with missing values or"),
        (
            3 / budget.mus["count"],
            "Nothing was estimated. Fewer columns of that sort, as by bounds={...}, or a",
        ),
    ):
        with pytest.raises(ReleaseFailed, match=re.escape(told)):
            check_rows("test", budget, 4, count)


def test_few_rows_of_a_response_of_unknown_range_are_refused_whatever_the_columns():
    """Noise could leave its location orders of magnitude off."""
    data = pd.DataFrame({"x": np.linspace(0, 1, 200), "y": 1e6 + np.tile([-1.0, 1.0], 100)})
    for formula in ("y ~ x", "y ~ 1"):
        with pytest.raises(ReleaseFailed, match="a response of unknown range"):
            dpstats.ols(formula, data, eps=1, seed=0, bounds={"x": (0, 1)} if "x" in formula else None)
    dpstats.ols("y ~ x", data, eps=1, seed=0, bounds={"x": (0, 1), "y": (0, 2e6)})


@pytest.mark.parametrize(
    "name", ["ols", "huber", "adassp", "boosted_adassp", "gradient_descent", "logit", "poisson", "tukey_em"]
)
@pytest.mark.slow
def test_no_usable_row_is_refused(name):
    """Here no level is declared, and bounds leave nothing else to refuse."""
    data = pd.DataFrame({"g": pd.Categorical(["a", "b"] * 1_000), "y": [0.0, 1.0] * 1_000})
    for seed in range(3):
        with pytest.raises(ReleaseFailed):
            bounds = None if name in ("logit", "poisson") else {"y": (0, 1)}
            getattr(dpstats, name)("y ~ g", data, eps=1, seed=seed, levels={"g": ["A", "B"]}, bounds=bounds)


@pytest.mark.parametrize("columns", [20, 300])
def test_too_many_columns_are_refused_by_the_released_count_alone(columns):
    """The noise of the most precise of the Gram matrices is five times what the rows add up to."""
    budget = budget_of(None, (0.1, 0.1, 0.5, 0.1, 0.1), (Stage(2.0, 0.0, 0.05), Stage(4.0, 0.0, 0.2)))
    need = math.sqrt(2 * columns) * 4.0 * (columns + 1) / 0.2 / 5
    check_columns("test", budget, columns, need * (1 + 1e-12))
    with pytest.raises(ReleaseFailed, match=f"test: {columns} columns.* need about {need:,.0f} rows"):
        check_columns("test", budget, columns, need - 1)
    check_columns("test", budget_of(None, (0.1,) * 5, ()), columns, -5.0)


@pytest.mark.parametrize("name", ["ols", "huber"])
@pytest.mark.slow
def test_a_factor_of_a_thousand_levels_is_refused(name):
    g = np.random.default_rng(0)
    levels = [f"l{i}" for i in range(1000)]
    data = pd.DataFrame({"f": pd.Categorical.from_codes(g.integers(0, 1000, 20_000), levels)})
    with pytest.raises(ReleaseFailed, match="1000 columns"):
        getattr(dpstats, name)("y ~ f", data.assign(y=g.standard_normal(20_000)), eps=1, seed=1)


def test_gradients_are_those_that_the_map_back_has():
    rng = np.random.default_rng(2)
    prepared = Prepared.raw(100.0, 4)
    affine = Affine(np.arange(4), np.array([0.0, 5, 2, -1]), np.array([1.0, 2, 0.5, 3]))
    W = rng.normal(size=(4, 4))
    given = rng.normal(size=4)
    for intercept in (True, False):
        loc = affine.loc if intercept else 0 * affine.loc
        made = replace(
            prepared, affine=replace(affine, loc=loc), whitening=Whitening.public(W), intercept=intercept
        )
        np.testing.assert_allclose(made.to_units(4, intercept).T @ made.gradient(given), given)
