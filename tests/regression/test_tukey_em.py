"""tukey_em from formula to results; the mechanism's parts are tested in tests/mechanisms."""

import math
import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpstats
from dpstats.data.sources import open_source
from dpstats.formula.design import Design
from dpstats.linear import deep_fit
from dpstats.linear.cells import inherited_root
from dpstats.privacy.conversions import gdp_eps
from dpstats.regression import tukey_em as module


def linear(rows, seed=0, columns=3, sigma=1.0):
    """Gaussian linear data with coefficients 1, 2, ... and intercept 5."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns))
    names = [f"x{j + 1}" for j in range(columns)]
    y = 5 + X @ np.arange(1, columns + 1) + sigma * rng.standard_normal(rows)
    return pd.DataFrame(X, columns=names).assign(y=y)


FORMULA = "y ~ x1 + x2 + x3"


@pytest.fixture(scope="module")
def diamonds():
    return dpstats.datasets.load_diamonds()


def r_squared(fit, formula, data):
    design = Design.from_formula(formula, open_source(data).schema)
    X, Y = next(iter(design.blocks(open_source(data))))
    return 1 - np.mean((Y[:, 0] - X @ fit.params.to_numpy()) ** 2) / np.var(Y[:, 0])


class TestAccuracy:
    @pytest.mark.slow
    def test_headline(self, diamonds):
        formula = "price ~ carat + clarity"
        scores = [
            r_squared(dpstats.tukey_em(formula, diamonds, eps=1, seed=s), formula, diamonds) for s in range(5)
        ]
        assert np.median(scores) > 0.87

    @pytest.mark.slow
    def test_nine_predictors(self, diamonds):
        frame = diamonds.assign(**{c: diamonds[c].cat.codes + 1 for c in ("cut", "color", "clarity")})
        formula = "price ~ carat + cut + color + clarity + depth + table + x + y + z"
        scores = [
            r_squared(dpstats.tukey_em(formula, frame, eps=np.log(3), delta=1e-5, seed=s), formula, frame)
            for s in range(5)
        ]
        assert np.median(scores) > 0.85

    def test_large_budget_gives_least_squares_up_to_the_subsets(self):
        # with a huge eps the draw is the median of the subset fits, whose error is that of least squares
        # times about sqrt(pi/2)
        frame = linear(60_000)
        fit = dpstats.tukey_em(FORMULA, frame, eps=200, delta=1e-6, models=200, seed=1)
        X = np.column_stack([np.ones(60_000), frame[["x1", "x2", "x3"]]])
        ols = np.linalg.lstsq(X, frame["y"], rcond=None)[0]
        assert np.abs(fit.params.to_numpy() - ols).max() < 4 / np.sqrt(60_000)

    @pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
    def test_units_do_not_matter(self, scale):
        frame = linear(30_000)
        scaled = frame.assign(x1=frame["x1"] * scale, y=frame["y"] / scale)
        fit = dpstats.tukey_em(FORMULA, scaled, eps=3, seed=2)
        in_units = fit.params.to_numpy() * np.array([1, scale, 1, 1]) * scale
        assert np.abs(in_units - [5, 1, 2, 3]).max() < 0.15

    def test_offsets_do_not_matter(self):
        frame = linear(30_000)
        fit = dpstats.tukey_em(
            FORMULA, frame.assign(x2=frame["x2"] + 2000, y=frame["y"] + 1e9), eps=3, seed=2
        )
        assert np.abs(fit.params[["x1", "x2", "x3"]] - [1, 2, 3]).max() < 0.15

    @pytest.mark.slow
    def test_intervals_cover(self):
        # nominal 95 %; a true coverage of 92 % fails with probability below 1e-6 only beyond this count
        runs = 40
        truth = np.array([5, 1, 2, 3])
        hits = np.zeros(4)
        for seed in range(runs):
            interval = dpstats.tukey_em(FORMULA, linear(20_000, seed), eps=2, seed=seed).conf_int().to_numpy()
            hits += (interval[:, 0] <= truth) & (truth <= interval[:, 1])
        assert hits.min() >= binom.ppf(1e-6 / 4, runs, 0.92)

    def test_released_sigma_and_r_squared(self):
        fit = dpstats.tukey_em(FORMULA, linear(40_000, sigma=2.0), eps=3, seed=3)
        assert fit.released["sigma"] == pytest.approx(2.0, rel=0.1)
        assert fit.rsquared == pytest.approx(14 / 18, abs=0.06)
        assert fit.released["n"] == pytest.approx(40_000, abs=2_000)

    def test_rare_reference_level_is_filled_in_from_the_first_fit(self):
        # 1 % of the rows are in the reference level: most subsets have none of them
        rng = np.random.default_rng(5)
        group = rng.choice(["a", "b", "c"], p=[0.01, 0.49, 0.5], size=60_000)
        y = np.where(group == "a", 0.0, 10.0) + rng.standard_normal(60_000)
        fit = dpstats.tukey_em("y ~ g", {"g": group, "y": y}, levels={"g": ["a", "b", "c"]}, eps=3, seed=1)
        assert np.abs(fit.params - [0, 10, 10]).max() < 2


class TestVariants:
    def test_substitution(self):
        fit = dpstats.tukey_em(FORMULA, linear(40_000), eps=3, neighbours="substitution", seed=1)
        assert fit.guarantee.neighbours == "substitution"
        assert np.abs(fit.params - [5, 1, 2, 3]).max() < 0.2

    def test_raw_axes(self):
        fit = dpstats.tukey_em(FORMULA, linear(40_000), eps=3, whiten=False, seed=1)
        assert np.abs(fit.params - [5, 1, 2, 3]).max() < 0.2
        assert fit.bse.isna().all()
        assert "Without whitening" in fit.summary().as_text()

    def test_raw_axes_of_unequal_units(self):
        frame = linear(40_000)
        fit = dpstats.tukey_em(FORMULA, frame.assign(x1=frame["x1"] * 1e-7), eps=3, whiten=False, seed=1)
        assert fit.params["x1"] == pytest.approx(1e7, rel=0.2)

    def test_raw_axes_with_a_number_of_models_spend_nothing_else(self):
        fit = dpstats.tukey_em(FORMULA, linear(40_000), eps=3, whiten=False, models=500, seed=1)
        assert len(fit.guarantee.spends) == 1
        assert "n" not in fit.released

    def test_no_intercept(self):
        frame = linear(40_000)
        fit = dpstats.tukey_em("y ~ x1 + x2 + x3 - 1", frame.assign(y=frame["y"] - 5), eps=3, seed=1)
        assert np.abs(fit.params - [1, 2, 3]).max() < 0.2

    @pytest.mark.slow
    def test_intercept_only(self):
        fit = dpstats.tukey_em("y ~ 1", linear(20_000), eps=2, seed=1)
        assert abs(fit.params["Intercept"] - 5) < 0.5

    @pytest.mark.parametrize("limit", [20, 1e7])
    def test_true_bounds_do_no_harm_however_wide(self, limit):
        frame = linear(30_000)
        bounds = dict.fromkeys(frame.columns, (-limit, limit))
        fit = dpstats.tukey_em(FORMULA, frame, eps=3, bounds=bounds, seed=1)
        assert np.abs(fit.params - [5, 1, 2, 3]).max() < 0.2

    def test_constant_column_leaves_the_model(self):
        fit = dpstats.tukey_em(FORMULA, linear(40_000).assign(x2=3.7), eps=3, seed=1)
        assert fit.params["x2"] == 0
        assert np.isnan(fit.bse["x2"])
        assert "x2" in " ".join(fit.notes)
        # which takes up its mean
        assert np.isnan(fit.bse["Intercept"]) and not np.isnan(fit.bse["x1"])

    @pytest.mark.slow
    @pytest.mark.parametrize("rows", [150_000, 400_000])
    def test_file_and_frame_agree(self, tmp_path, rows):
        # the larger one is thinned; some row groups have no usable row
        frame = linear(rows)
        frame.loc[50_000:130_000, "x1"] = np.nan
        frame.to_parquet(tmp_path / "rows.parquet", row_group_size=40_000)
        one = dpstats.tukey_em(FORMULA, frame, eps=1, seed=4).params
        other = dpstats.tukey_em(FORMULA, tmp_path / "rows.parquet", eps=1, seed=4).params
        assert np.allclose(one, other, rtol=1e-8)


class TestGuarantee:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "kwargs", [{}, {"whiten": False}, {"neighbours": "substitution"}, {"models": 600}]
    )
    def test_spends_compose_to_the_promise(self, kwargs):
        fit = dpstats.tukey_em(FORMULA, linear(40_000), eps=1, delta=1e-6, seed=1, **kwargs)
        guarantee = fit.guarantee
        assert (guarantee.eps, guarantee.delta, guarantee.kind) == (1, 1e-6, "approximate")
        gaussian = [s for s in guarantee.spends if s.mu is not None]
        rest = [s for s in guarantee.spends if s.mu is None]
        delta = sum(s.delta for s in rest)
        eps = gdp_eps(math.hypot(*(s.mu for s in gaussian)), guarantee.delta - delta) if gaussian else 0
        assert eps + sum(s.eps for s in rest) == pytest.approx(1, abs=1e-6) and delta <= guarantee.delta

    @pytest.mark.parametrize("kwargs", [{}, {"whiten": False, "models": 500}])
    def test_margin_test_and_draw_have_one_budget(self, kwargs, monkeypatch):
        """The margin is that of the draw that follows it, and both deltas are the one that was paid for."""
        budgets, given = [], {}
        release, tukey = module._release, module.tukey
        monkeypatch.setattr(module, "_release", lambda *a: budgets.append(a[1]) or release(*a))
        for target, name in ((tukey, "margin"), (module, "passes"), (tukey, "sample")):
            real = getattr(target, name)
            monkeypatch.setattr(
                target, name, lambda *a, real=real, name=name: given.update({name: a}) or real(*a)
            )
        monkeypatch.setattr(deep_fit, "pivot_variance", lambda *a: 1.0)
        fit = dpstats.tukey_em(FORMULA, linear(40_000), eps=3, delta=1e-6, seed=1, **kwargs)
        (budget,), (last, *_) = budgets, [s for s in fit.guarantee.spends if "safety test" in s.mechanism]
        boxes, t, eps_draw, delta = given["margin"]
        m = fit.released["models"]
        assert boxes.S.shape[0] == m and t == int(0.15 * m)
        assert given["sample"][1:3] == (t, eps_draw) and given["sample"][0] is boxes
        margin, eps_test, test_delta, _ = given["passes"]
        assert margin == tukey.margin(boxes, t, eps_draw, delta)
        assert delta == test_delta == budget.delta == last.delta
        assert eps_test + eps_draw == pytest.approx(last.eps, rel=1e-12)

    def test_seed_is_confessed(self):
        assert dpstats.tukey_em(FORMULA, linear(40_000), eps=3, seed=1).guarantee.seeded
        assert not dpstats.tukey_em(FORMULA, linear(40_000), eps=3).guarantee.seeded

    def test_same_seed_same_release(self):
        frame = linear(40_000)
        one, other = (dpstats.tukey_em(FORMULA, frame, eps=3, seed=9) for _ in range(2))
        assert (one.params == other.params).all()

    def test_ledger_is_charged_before_rows_are_read(self, monkeypatch):
        ledger = dpstats.Ledger(":memory:", eps=3, delta=1e-5)

        def crash(*args):
            raise KeyboardInterrupt

        monkeypatch.setattr(module, "_release", crash)
        with pytest.raises(KeyboardInterrupt):
            dpstats.tukey_em(FORMULA, linear(100), eps=1, ledger=ledger)
        assert ledger.remaining()[0] == pytest.approx(2)

    def test_budget_exceeded_leaves_the_ledger(self):
        ledger = dpstats.Ledger(":memory:", eps=0.5, delta=1e-5)
        with pytest.raises(dpstats.BudgetExceeded):
            dpstats.tukey_em(FORMULA, linear(100), eps=1, ledger=ledger)
        assert ledger.remaining()[0] == pytest.approx(0.5)

    def test_refusal_spends_the_preparation_alone(self):
        ledger = dpstats.Ledger(":memory:", eps=3, delta=1e-5)
        with pytest.raises(dpstats.ReleaseFailed, match="rows") as caught:
            dpstats.tukey_em(FORMULA, linear(200), eps=1, ledger=ledger, seed=1)
        assert caught.value.guarantee.eps == pytest.approx(0.22)
        assert ledger.remaining()[0] == pytest.approx(3 - caught.value.guarantee.eps)

    @pytest.mark.parametrize("seed", range(4))
    def test_refusal_names_a_number_of_rows_that_would_do(self, seed):
        """Above the private count, near the threshold, too; and with so many rows there is a fit."""
        with pytest.raises(dpstats.ReleaseFailed) as caught:
            dpstats.tukey_em("y ~ x1", linear(1_700, columns=1), eps=1, seed=seed)
        needs, count = (
            int(n.replace(",", "")) for n in re.findall(r"(?:about|count is) ([\d,]+)", str(caught.value))
        )
        assert count < needs
        fit = dpstats.tukey_em("y ~ x1", linear(needs, columns=1), eps=1, seed=seed)
        (enough,) = re.findall(r"Some ([\d,]+) rows would do", fit.covers)
        fit = dpstats.tukey_em("y ~ x1", linear(int(enough.replace(",", "")), columns=1), eps=1, seed=seed)
        assert "no standard errors" not in fit.covers

    def test_failed_test_spends_everything(self):
        # 30 models cannot pass at this budget
        with pytest.raises(dpstats.ReleaseFailed, match="safety test") as caught:
            dpstats.tukey_em(FORMULA, linear(2_000), eps=1, models=30, seed=1)
        assert caught.value.guarantee.eps == 1

    @pytest.mark.parametrize(("eps", "told"), [(1, True), (3, False)])
    @pytest.mark.slow
    def test_a_note_says_where_standard_errors_are_mostly_an_allowance(self, eps, told):
        fit = dpstats.tukey_em("y ~ x1", linear(15_000, columns=1), eps=eps, seed=1)
        assert any("most of the standard errors is an allowance" in note for note in fit.notes) == told

    @pytest.mark.slow
    def test_pickle_is_small_and_of_one_size(self):
        """But for notes, which say how much noise R-squared has where that is not little."""
        fits = [
            dpstats.tukey_em("y ~ x1", linear(n, columns=1), eps=8, models=300, seed=1)
            for n in (10_000, 1_000_000)
        ]
        sizes = {len(pickle.dumps(replace(fit, notes=()))) for fit in fits}
        assert [any("R-squared has noise" in note for note in fit.notes) for fit in fits] == [True, False]
        assert len(sizes) == 1
        assert sizes.pop() < 50_000


HOSTILE = {
    "no rows": lambda f: f.iloc[:0],
    "one row": lambda f: f.iloc[:1],
    "constant response": lambda f: f.assign(y=1.0),
    "constant columns": lambda f: f.assign(x1=0.0, x2=7.0, x3=-1.0),
    "all missing": lambda f: f.assign(x1=np.nan),
    "huge": lambda f: f * 1e308,
    "mixed huge": lambda f: f.assign(x1=np.where(np.arange(len(f)) % 2, 1e308, -1e308)),
    "subnormal": lambda f: f * 5e-324,
    "infinite": lambda f: f.assign(x2=np.inf),
    "copies": lambda f: f.assign(x2=f["x1"], x3=f["x1"]),
    "perfect": lambda f: f.assign(y=2 * f["x1"]),
    "one outlier": lambda f: f.assign(x1=np.r_[1e300, f["x1"].to_numpy()[1:]]),
}


class TestHostileInput:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", HOSTILE)
    @pytest.mark.parametrize(
        "kwargs", [{}, {"models": 500}, {"whiten": False}, {"whiten": False, "models": 8}]
    )
    def test_neither_crashes_nor_speaks(self, name, kwargs):
        frame = HOSTILE[name](linear(6_000))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                fit = dpstats.tukey_em(FORMULA, frame, eps=2, seed=1, **kwargs)
            except dpstats.ReleaseFailed as failure:
                assert failure.guarantee is not None
                assert failure.__cause__ is None
            else:
                assert np.isfinite(fit.params).all()
                fit.summary().as_text()

    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_draw_behind_a_lucky_test_is_finite(self, name, monkeypatch):
        # the test may pass by chance on any data: what follows must work on any data
        monkeypatch.setattr(module, "passes", lambda *args: True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit = dpstats.tukey_em(FORMULA, HOSTILE[name](linear(3_000)), eps=2, models=100, seed=1)
            assert np.isfinite(fit.params).all()

    def test_level_that_never_occurs(self):
        frame = linear(40_000).assign(g=pd.Categorical(["a", "b"] * 20_000, ["a", "b", "never"]))
        fit = dpstats.tukey_em("y ~ x1 + g", frame, eps=3, seed=1)
        assert np.isfinite(fit.params).all()

    def test_one_row_per_subset(self):
        with pytest.raises(dpstats.ReleaseFailed):
            dpstats.tukey_em(FORMULA, linear(300), eps=1, models=300, seed=1)


class TestMistakes:
    @pytest.mark.parametrize(
        ("kwargs", "message"),
        [
            ({"eps": 0}, "eps must be a positive finite number, got 0"),
            ({"eps": 1, "delta": 0}, "delta must be a number in"),
            ({"eps": 1, "models": 3}, "models must be None or an integer of at least 8, got 3"),
            ({"eps": 1, "neighbours": "both"}, "neighbours must be one of"),
            ({"eps": 1, "whiten": 1}, "whiten must be True or False"),
            ({"eps": 1, "seed": -1}, "seed must be"),
            ({"eps": 1, "ledger": "study.db"}, "ledger must be None or a dpstats.Ledger"),
        ],
    )
    def test_named_parameter(self, kwargs, message):
        with pytest.raises(dpstats.ParameterError, match=message):
            dpstats.tukey_em(FORMULA, linear(10), **kwargs)

    def test_two_responses(self):
        with pytest.raises(dpstats.FormulaError, match="one response"):
            dpstats.tukey_em("y + x1 ~ x2", linear(10), eps=1)

    def test_eps_has_no_default(self):
        with pytest.raises(TypeError):
            dpstats.tukey_em(FORMULA, linear(10))


def test_products_of_all_levels_that_rows_have_tell_no_slope_apart():
    """The declared reference level has no row, so that the products add up to the column."""
    rng = np.random.default_rng(1)
    x, g = rng.normal(50, 10, 20_000), rng.choice(["b", "c"], 20_000)
    y = 1 + 0.5 * x + 0.2 * x * (g == "c") + rng.normal(0, 3, 20_000)
    fit = dpstats.tukey_em(
        "y ~ x + g:x", {"x": x, "g": g, "y": y}, levels={"g": ["a", "b", "c"]}, eps=1, seed=1
    )
    assert fit.bse.isna()[1:].all()


@pytest.mark.parametrize("formula", ["y ~ x + g", "y ~ x*g"])
def test_levels_that_left_and_an_empty_reference_level(formula):
    """Nothing of the others is looked up at the place of a column that is not there."""
    rng = np.random.default_rng(2)
    x, g = rng.normal(5, 2, 20_000), rng.choice(["c", "d"], 20_000)
    data, levels = {"x": x, "g": g, "y": 0.5 * x + (g == "c") + rng.normal(size=20_000)}, {"g": list("abcd")}
    fit = dpstats.tukey_em(formula, data, levels=levels, eps=2, seed=1)
    assert fit.bse.drop("x").isna().all() and np.isfinite(fit.bse["x"]) == (formula == "y ~ x + g")


def test_contrasts_that_share_a_rare_level_are_not_determined():
    """250 rows of 20,000: where they were printed they held in 48 to 70 %."""
    rng = np.random.default_rng(3)
    g = np.where(np.arange(20_000) < 250, "d", rng.choice(list("abc"), 20_000))
    data = {"g": g, "x": rng.normal(5, 2, 20_000)}
    data["y"] = 0.5 * data["x"] + (g == "b") + 3 * (g == "c") + 2 * (g == "d") + rng.normal(size=20_000)
    fit = dpstats.tukey_em("y ~ x + C(g, Sum)", data, levels={"g": list("abcd")}, eps=1, seed=4)
    assert fit.determined.tolist() == [False] * 4 + [True]


@pytest.mark.slow
def test_slopes_of_a_rare_reference_level_hold():
    """400 rows of 20,000: half of 60 tables held. Here 30; false alarm 1e-6."""
    held = []
    for seed in range(30):
        rng = np.random.default_rng([seed, 600])
        x = rng.normal(50, 10, 20_000)
        g = np.where(np.arange(20_000) < 400, "a", rng.choice(["b", "c"], 20_000))
        y = 1 + 0.5 * x + 0.2 * x * (g == "c") + 3 * (g == "b") + rng.normal(0, 3, 20_000)
        fit = dpstats.tukey_em(
            "y ~ x*g", {"x": x, "g": g, "y": y}, levels={"g": list("abc")}, eps=3, seed=seed
        )
        held.append(abs(fit.params["x"] - 0.5) <= 1.96 * fit.bse["x"])
    assert sum(held) >= binom.ppf(1e-6, 30, 0.93)


@pytest.mark.slow
def test_products_of_sparse_columns_hold():
    """Two columns that are 1 in 5 % of 100,000 rows: of 80 tables 21 held. Here 30; false alarm 1e-6."""
    held = []
    for seed in range(30):
        rng = np.random.default_rng([seed, 601])
        x, (z, w) = rng.standard_normal(100_000), (rng.random((2, 100_000)) < 0.05) * 1.0
        y = 2 + 0.5 * x + 1.5 * z + 1.5 * w + 0.7 * z * w + rng.standard_normal(100_000)
        fit = dpstats.tukey_em("y ~ x + z * w", {"x": x, "z": z, "w": w, "y": y}, eps=3, seed=seed)
        held.append(abs(fit.params["z:w"] - 0.7) <= 1.96 * fit.bse["z:w"])
    assert sum(held) >= binom.ppf(1e-6, 30, 0.93)


def test_what_rare_cells_inherit_is_in_the_covariance(monkeypatch):
    rng = np.random.default_rng(5)
    group = rng.choice(["a", "b", "c"], p=[0.01, 0.49, 0.5], size=60_000)
    y = np.where(group == "a", 0.0, 10.0) + rng.standard_normal(60_000)
    seen, results = [], module._results
    monkeypatch.setattr(module, "_results", lambda *a: seen.append(a) or results(*a))
    fit = dpstats.tukey_em("y ~ g", {"g": group, "y": y}, levels={"g": ["a", "b", "c"]}, eps=3, seed=1)
    inherited = []
    monkeypatch.setattr(
        module, "inherited_root", lambda *a: inherited.append(inherited_root(*a)) or 0 * inherited[0]
    )
    without = results(*seen[0])
    added = inherited[0] @ inherited[0].T
    np.testing.assert_allclose(fit.cov_params() - without.cov_params(), added, rtol=1e-9)
    # the reference level is the rare one: all coefficients lean on it
    assert (np.diag(added) > 0.2 * np.diag(without.cov_params())).all()


@pytest.mark.slow
@pytest.mark.parametrize("n, eps", [(100_000, 3.0), (20_000, 1e4)])
def test_what_no_columns_tell_apart_is_not_determined_however_many_rows(n, eps):
    """Indicators that add up to the constant: with much budget the ridge is small, and keeps all of them."""
    g = np.random.default_rng(3)
    z, male = g.uniform(0, 5, n), g.random(n) < 0.5
    y = 1 - 0.5 * z + g.standard_normal(n)
    data = pd.DataFrame({"y": y, "z": z, "male": male, "female": ~male}).astype(
        {"male": "boolean", "female": "boolean"}
    )
    fit = dpstats.tukey_em("y ~ male + female + z", data, eps=eps, seed=1)
    assert fit.bse.drop("z").isna().all()
    plain = dpstats.tukey_em("y ~ male + z", data, eps=eps, seed=1)
    assert plain.bse.notna().all()


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_response_without_variation_has_no_standard_errors(value):
    g = np.random.default_rng(0)
    data = pd.DataFrame({"x": g.standard_normal(20_000), "y": np.full(20_000, value)})
    fit = dpstats.tukey_em("y ~ x", data, eps=1, seed=1)
    assert fit.bse.isna().all() and "shows no variation" in fit.summary().as_text()
    np.testing.assert_allclose(fit.params, [value, 0.0], atol=1e-9)
