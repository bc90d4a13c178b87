"""Private deepest regression through the front door; what edits can do: ``test_line_depths.py``."""

import math
import pickle
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import dpstats
from dpstats.depth import regression_levels
from dpstats.linear import anchors, line_widths
from dpstats.linear.anchors import LineInterval, coefficients, weighted_quantile
from dpstats.mechanisms import line_depths, slope_depths
from dpstats.mechanisms.rng import Randomness
from dpstats.regression import deepest

sys.path.insert(0, str(Path(__file__).parents[1]))
from remembered import once  # noqa: E402


def simulated(n, seed=0, slope=2.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return {"x": x, "y": 1 + slope * x + rng.standard_t(3, size=n)}


BOUNDS = {"y": (-1000, 1000)}


SMOOTH = {"mechanism": "smooth"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "how"),
    [
        (500, {"bounds": BOUNDS, "at": (-0.7, 0.7)}),
        (500, {"bounds": BOUNDS | {"x": (-4, 4)}}),
        (1000, {"bounds": BOUNDS}),
        (1000, {"at": (0.7, -0.7)}),
        (1000, {}),
        (2500, {"guarantee": "random", "gamma": 0.1}),
    ],
)
def test_smooth_estimates_and_guarantee(n, how):
    fit = dpstats.deepest_regression("y ~ x", simulated(n), eps=6, seed=1, **SMOOTH, **how)
    assert np.abs(fit.params - [1, 2]).max() < 1
    assert fit.guarantee.eps == 6 and fit.guarantee.neighbours == "substitution"
    assert sum(s.eps for s in fit.guarantee.spends) == pytest.approx(6)
    assert fit.guarantee.kind.startswith("random" if "gamma" in how else "approximate")
    assert fit.nobs == n and fit.covers == "privacy noise only" and fit.bse.isna().all()
    assert fit.predict({"x": np.array([0.0, 1.0])}) == pytest.approx([fit.params.iloc[0], fit.params.sum()])


@pytest.mark.parametrize(
    ("n", "eps", "how"),
    [
        (100, 4, {"bounds": BOUNDS, "at": (-0.7, 0.7)}),
        (300, 2, {"bounds": BOUNDS | {"x": (-4, 4)}}),
        (300, 2, {"bounds": {"y": (-1e6, 1e6)}, "delta": 0}),
        (200, 4, {"at": (0.7, -0.7)}),
        (400, 2, {}),
    ],
)
def test_drawn_estimates_and_guarantee(n, eps, how):
    how = how | {"intervals": None}
    fit = dpstats.deepest_regression("y ~ x", simulated(n), eps=eps, seed=1, **how)
    assert np.abs(fit.params - [1, 2]).max() < 0.6
    assert (fit.guarantee.eps, fit.guarantee.delta, fit.guarantee.kind) == (eps, 0.0, "pure")
    assert fit.guarantee.neighbours == "substitution" and sum(
        s.eps for s in fit.guarantee.spends
    ) == pytest.approx(eps)
    assert len(fit.guarantee.spends) == (1 if "at" in how or "x" in how.get("bounds", {}) else 3)
    assert (
        fit.nobs == n
        and fit.conf_int().isna().all(axis=None)
        and "whose spread is not released" in fit.covers
    )


@pytest.mark.slow
def test_a_drawn_line_is_about_as_precise_as_the_deepest():
    """Median absolute errors over 60 data sets of 300 rows, in a box a thousand times too wide."""
    errors = np.zeros((2, 60))
    for seed in range(60):
        data = simulated(300, seed)
        drawn = dpstats.deepest_regression(
            "y ~ x", data, eps=4, at=(-0.7, 0.7), bounds=BOUNDS, intervals=None, seed=seed
        ).params.iloc[1]
        errors[:, seed] = drawn - 2, regression_levels(data["x"], data["y"]).estimate[1] - 2
    drawn, deepest_line = np.median(np.abs(errors), axis=1)
    assert drawn < 1.25 * deepest_line


def test_a_drawn_line_stays_within_the_bounds(monkeypatch):
    monkeypatch.setattr(deepest, "_ROWS", 0)
    data = simulated(60)
    for seed in range(20):
        fit = dpstats.deepest_regression("y ~ x", data, eps=0.01, at=(-1, 1), bounds={"y": (3, 4)}, seed=seed)
        values = fit.predict({"x": np.array([-1.0, 1.0])})
        assert np.all((values > 3 - 1e-9) & (values < 4 + 1e-9))


def test_random_dp_is_for_smooth():
    with pytest.raises(
        dpstats.ParameterError, match="guarantee must be 'approximate' unless mechanism='smooth'"
    ):
        dpstats.deepest_regression("y ~ x", simulated(50), eps=1, guarantee="random", gamma=0.1)
    with pytest.raises(dpstats.ParameterError, match="mechanism must be one of"):
        dpstats.deepest_regression("y ~ x", simulated(50), eps=1, mechanism="laplace")
    with pytest.raises(dpstats.ParameterError, match="delta must be"):
        dpstats.deepest_regression("y ~ x", simulated(50), eps=1, delta=0, **SMOOTH)


def test_estimate_follows_changes_of_units():
    """The line gets its noise at two points, so a covariate far from 0 costs nothing."""
    data = simulated(800)
    far = {"x": 2000 + 10 * data["x"], "y": data["y"]}
    fit = dpstats.deepest_regression("y ~ x", data, eps=3, at=(-1, 1), bounds=BOUNDS, seed=1, **SMOOTH)
    moved = dpstats.deepest_regression("y ~ x", far, eps=3, at=(1990, 2010), bounds=BOUNDS, seed=1, **SMOOTH)
    assert moved.params["x"] * 10 == pytest.approx(fit.params["x"], abs=1e-4)
    assert moved.conf_int().diff(axis=1).iloc[1, 1] * 10 == pytest.approx(
        fit.conf_int().diff(axis=1).iloc[1, 1], rel=0.01
    )


@pytest.mark.slow
def test_interval_covers_the_noise(monkeypatch):
    """2 coefficients x 400 releases; false-alarm rate 1e-6."""
    monkeypatch.setattr(line_depths, "regression_levels", once(line_depths.regression_levels))
    data = simulated(120)
    truth = found_params(data)
    hits = np.zeros(2)
    for seed in range(400):
        fit = dpstats.deepest_regression("y ~ x", data, eps=2, at=(-1, 1), bounds=BOUNDS, seed=seed, **SMOOTH)
        interval = fit.conf_int(0.1).to_numpy()
        hits += (interval[:, 0] <= truth) & (truth <= interval[:, 1])
    assert np.all(np.abs(hits / 400 - 0.9) < 4.9 * math.sqrt(0.09 / 400))


def found_params(data):
    return regression_levels(data["x"], data["y"]).estimate


@pytest.mark.parametrize("w", [0.0, 0.5, 1.0])
def test_quantile_of_weighted_noise(w):
    """False-alarm rate 1e-6."""
    rng = np.random.default_rng(6)
    z, scale = rng.laplace(size=(2, 200_000)), np.exp(-rng.laplace(size=200_000) / 1.5)
    share = np.mean(np.abs(z[0] + w * z[1]) * scale > weighted_quantile(w, 1.0, 1.5, 0.05))
    assert abs(share - 0.05) < 4.9 * math.sqrt(0.05 * 0.95 / 200_000)


def test_line_interval_turns_values_into_coefficients():
    line = LineInterval((1.0, 5.0), 0.1, (0.0, 2.0), 1.0)
    assert coefficients(line.values, line.at) == pytest.approx([1.0, 2.0])
    low, high = line.conf_int(0.05).T
    assert low + high == pytest.approx([2.0, 4.0])


@pytest.mark.parametrize(
    "data",
    [
        {"x": np.zeros(60), "y": np.arange(60.0)},
        {"x": np.arange(60.0), "y": np.zeros(60)},
        {"x": np.full(60, np.nan), "y": np.zeros(60)},
        {"x": np.array([]), "y": np.array([])},
        {"x": np.array([1e308, -1e308, 0.0]), "y": np.array([1e308, 0.0, -1e308])},
    ],
)
def test_no_data_raise_or_warn(monkeypatch, data):
    monkeypatch.setattr(deepest, "_ROWS", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for how in ({"at": (-1, 1), "bounds": BOUNDS}, {"bounds": BOUNDS}, {}, {"bounds": BOUNDS} | SMOOTH):
            fit = dpstats.deepest_regression("y ~ x", data, eps=1, **how)
            assert np.all(np.isfinite(fit.params))
            str(fit)


def test_a_failed_test_says_what_would_help():
    rng = np.random.default_rng(7)
    y = rng.choice([-1, 1], 1000) * 10.0 ** rng.uniform(-60, 60, 1000)
    with pytest.raises(dpstats.ReleaseFailed, match="bounds= of the response"):
        dpstats.deepest_regression(
            "y ~ x", {"x": rng.normal(size=1000), "y": y}, eps=1, at=(0, 1), seed=1, **SMOOTH
        )


@pytest.mark.parametrize("how", [{}, {"at": (-1, 1), "bounds": BOUNDS}, {"intervals": None}])
@pytest.mark.parametrize(("eps", "need"), [(1, 80), (3, 27)])
def test_few_rows_are_refused_before_anything_is_charged(how, eps, need):
    ledger = dpstats.Ledger(":memory:", eps=4, delta=1e-5)
    for n in (0, 3, need - 1):
        words = f"^deepest_regression: {n} rows are too few at eps = {eps}, which needs {need}. A larger eps"
        with pytest.raises(dpstats.ParameterError, match=words):
            dpstats.deepest_regression("y ~ x", simulated(n), eps=eps, ledger=ledger, **how)
    assert ledger.remaining()[0] == pytest.approx(4)
    dpstats.deepest_regression("y ~ x", simulated(need), eps=eps, ledger=ledger, seed=1, **how)


def test_no_fewer_columns_than_one_are_asked_for():
    data = simulated(300)
    G = {"g": ["a", "b"]}
    fits = [
        dpstats.deepest_regression("y ~ x", data, eps=0.3, seed=1),
        dpstats.quantile("y ~ 1", data, q=[0.25, 0.5], eps=0.02, seed=1),
        dpstats.quantile(
            "y ~ 1", data | {"g": ["a"] * 300}, q=[0.25, 0.5], eps=0.02, by="g", levels=G, seed=1
        ),
    ]
    for fit in fits:
        assert not np.all(fit.determined) and "more rows or a larger eps may help" in str(fit)


def test_an_infinite_interval_is_not_determined():
    """Rows that are not refused, and too few for any interval."""
    fit = dpstats.deepest_regression("y ~ x", simulated(100), eps=1, seed=1)
    assert np.isinf(fit.conf_int()).all(axis=None) and not fit.determined.any()
    assert str(fit).count("n.d.") > 2 and "inf" not in str(fit.summary().coefficients.rows)


def test_few_rows_without_bounds_are_refused():
    with pytest.raises(dpstats.ParameterError, match="100 rows are too few.*bounds= of the response"):
        dpstats.deepest_regression("y ~ x", simulated(100), eps=1, **SMOOTH)
    with pytest.raises(dpstats.ParameterError, match="the rows more"):
        dpstats.deepest_regression("y ~ x", simulated(100), eps=1, guarantee="random", gamma=0.1, **SMOOTH)


@pytest.mark.parametrize("formula", ["y ~ x + np.exp(x)", "y ~ x - 1", "y ~ 1", "y + x ~ x"])
def test_formulas(formula):
    with pytest.raises(dpstats.FormulaError):
        dpstats.deepest_regression(formula, simulated(50), eps=1, bounds=BOUNDS)


def test_other_formulas_point_to_what_takes_them():
    frame, levels = simulated(50) | {"g": ["a"] * 50}, {"g": ["a", "b", "c"]}
    for formula, instead in (("y ~ 1", "use dpstats.median"), ("y ~ g", "use dpstats.huber")):
        for name in ("deepest_regression", "theil_sen", "noisy_stats"):
            with pytest.raises(dpstats.FormulaError, match=instead) as refused:
                getattr(dpstats, name)(formula, frame, eps=1, levels=levels)
            assert "medsweep" not in str(refused.value)


def test_points_of_a_column_far_from_0_have_digits_that_differ():
    data = simulated(800)
    fit = dpstats.deepest_regression("y ~ x", data | {"x": 2e9 + data["x"]}, eps=3, seed=1)
    a, b = map(float, re.search("at x = (.*) and (.*)[.]", fit.notes[0]).groups())
    assert b > a > 1e9


def test_more_covariates_point_to_medsweep():
    with pytest.raises(dpstats.FormulaError, match="medsweep"):
        dpstats.deepest_regression("y ~ x + np.exp(x)", simulated(50), eps=1, bounds=BOUNDS)


@pytest.mark.parametrize("estimator", ["deepest_regression", "theil_sen", "noisy_stats"])
@pytest.mark.parametrize("x", ["I(0 * x)", "np.clip(x, 2, 2)"])
def test_a_covariate_that_is_constant_by_its_bounds_is_refused(estimator, x):
    with pytest.raises(dpstats.FormulaError, match="constant by its public bounds"):
        getattr(dpstats, estimator)(f"y ~ {x}", simulated(400), eps=1)


@pytest.mark.parametrize("value", [0.0, 1.0, -1e308, 1e-310])
def test_a_constant_covariate_is_fitted_like_any_other(value):
    data = simulated(400)
    fit = dpstats.deepest_regression("y ~ x", data | {"x": np.full(400, value)}, eps=1, seed=1)
    assert np.all(np.isfinite(fit.params))


@pytest.mark.parametrize("centre", [-np.finfo(float).max, 0.0, np.finfo(float).max])
def test_private_points_do_not_overflow(monkeypatch, centre):
    monkeypatch.setattr(anchors, "quantile", lambda *args, **kwargs: centre)
    fit = dpstats.deepest_regression("y ~ x", simulated(400), eps=1, seed=1)
    assert not np.any(np.isnan(fit.params))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.5])
@pytest.mark.parametrize("how", [{}, {"intervals": None}, SMOOTH | {"bounds": {"y": (0, 30)}}])
def test_a_covariate_of_which_half_is_one_value_needs_no_points(share, how):
    """They were once as close as can be, and slopes 1e24 and more."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = 5 * (rng.random(1000) < share)
        data = {"x": x, "y": 10 + 2 * x + rng.normal(size=1000)}
        fit = dpstats.deepest_regression("y ~ x", data, eps=4, seed=seed, **how)
        assert fit.params.to_numpy() == pytest.approx([10, 2], abs=0.5)


@pytest.mark.parametrize("at", [(1, 1), (0, 5e-324), (0, math.inf), 3, (1, 2, 3), ("a", "b")])
def test_anchors_are_checked(at):
    with pytest.raises(dpstats.ParameterError, match="at must be"):
        dpstats.deepest_regression("y ~ x", simulated(50), eps=1, at=at)


@pytest.mark.parametrize("mechanism", ["exponential", "smooth"])
def test_results_pickle_without_data(mechanism):
    sizes = {
        len(
            pickle.dumps(
                dpstats.deepest_regression(
                    "y ~ x", simulated(n), eps=1, at=(-1, 1), bounds=BOUNDS, mechanism=mechanism
                )
            )
        )
        for n in (100, 400)
    }
    assert max(sizes) - min(sizes) < 30


STEPS = ["spread of the residuals", "half-width of the intercept", "half-width of the slope"]


@pytest.mark.parametrize(
    ("n", "eps", "how"), [(500, 4, {}), (300, 1, {"at": (-1, 1)}), (300, 4, {"bounds": BOUNDS})]
)
@pytest.mark.parametrize("intervals", ["iid", "median-zero"])
def test_intervals_and_their_budget(n, eps, how, intervals):
    fit = dpstats.deepest_regression("y ~ x", simulated(n), eps=eps, seed=1, intervals=intervals, **how)
    assert fit.covers == "sampling and privacy noise"
    assert sum(s.eps for s in fit.guarantee.spends) == pytest.approx(eps)
    assert [s.step for s in fit.guarantee.spends][-3:] == STEPS
    low, high = fit.conf_int().to_numpy().T
    assert np.all((low < [1, 2]) & ([1, 2] < high))
    assert ("independent of the covariate" if intervals == "iid" else "whatever their") in str(fit)


def errors(law, x, rng):
    n = len(x)
    if law == "whole numbers":
        return rng.integers(-2, 3, n)
    if law == "exponential":
        return rng.exponential(size=n) - math.log(2)
    return rng.normal(size=n) * (np.abs(x - 2005) / 5 if law == "|x|" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["normal", "exponential", "whole numbers", "|x|"])
def test_intervals_cover(law):
    """40 data sets of 300 rows, years as the covariate; more than 11 misses of 5 % each have a probability of
    4e-7."""
    missed = np.zeros(2)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.integers(1990, 2021, 300).astype(float)
        e = errors(law, x, rng)
        fit = dpstats.deepest_regression("y ~ x", {"x": x, "y": 3 - 0.2 * x + e}, eps=4, seed=seed)
        low, high = fit.conf_int().to_numpy().T
        missed += (low > [3, -0.2]) | (high < [3, -0.2])
    assert missed.max() <= 11


def test_half_widths_follow_the_units():
    data = simulated(400)
    one = dpstats.deepest_regression("y ~ x", data, eps=4, at=(-1, 1), seed=1)
    other = dpstats.deepest_regression(
        "y ~ x", {"x": 8 * data["x"], "y": data["y"]}, eps=4, at=(-8, 8), seed=1
    )
    widths = [fit.conf_int().diff(axis=1).iloc[:, 1].to_numpy() for fit in (one, other)]
    assert widths[0] == pytest.approx(widths[1] * [1, 8])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("far", "size", "more"),
    [(1.0, 1e100, {"bounds": {"y": (-1e103, 1e103)}}), (1e33, 1.0, {"at": (-1.0, 1.0)}), (1e33, 1.0, {})],
    ids=["response", "a third of the covariate", "private points"],
)
def test_intervals_cover_or_are_infinite_at_any_size(far, size, more):
    """20 data sets; more than 8 misses of 5 % each have a probability of 2e-7."""
    missed = np.zeros(2)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = np.where(rng.random(500) < 0.3, far, 1.0) * rng.normal(size=500)
        data = {"x": x, "y": size * (1 + 2 * x + rng.normal(size=500))}
        low, high = (
            dpstats.deepest_regression("y ~ x", data, eps=8, seed=seed, **more).conf_int().to_numpy().T
        )
        missed += (low > [size, 2 * size]) | (high < [size, 2 * size])
    assert missed.max() <= 8


@pytest.mark.parametrize("bounds", [{}, {"y": (-1e308, 1e308)}])
def test_no_end_is_nan_where_a_coefficient_is_infinite(bounds):
    x = 1e-310 * np.random.default_rng(1).normal(size=800)
    fit = dpstats.deepest_regression("y ~ x", {"x": x, "y": x}, eps=8, bounds=bounds, seed=1)
    assert not fit.conf_int().isna().any(axis=None)


def test_a_constant_response_has_an_interval():
    data = {"x": np.arange(2000.0), "y": np.full(2000, 5.0)}
    low, high = dpstats.deepest_regression("y ~ x", data, eps=8, seed=1).conf_int().to_numpy().T
    assert np.all((low <= [5, 0]) & ([5, 0] <= high) & (high - low < 1e-3))


@pytest.mark.parametrize("ones", [0.3, 0.6])
@pytest.mark.slow
def test_the_intercept_is_determined_by_rows_at_0(ones):
    """At the value of a reference group, whatever its share."""
    rng = np.random.default_rng(0)
    x = (rng.random(2000) < ones) * 1.0
    data = {"x": x, "y": 10 + 2 * x + rng.normal(size=2000)}
    low, high = dpstats.deepest_regression("y ~ x", data, eps=4, at=(0, 1), seed=1).conf_int().to_numpy().T
    assert np.all((low < [10, 2]) & ([10, 2] < high)) and high[0] - low[0] < 1


def test_intervals_are_checked():
    with pytest.raises(dpstats.ParameterError, match="intervals must be one of"):
        dpstats.deepest_regression("y ~ x", simulated(300), eps=1, intervals="normal")
    with pytest.raises(dpstats.ParameterError, match="intervals must be left out"):
        dpstats.deepest_regression("y ~ x", simulated(300), eps=1, intervals="median-zero", **SMOOTH)


def test_an_infinite_covariate_has_a_residual(monkeypatch):
    """In units of close points it is infinite, and 0 times that is NaN: half of the rows with it, and one
    more, moved the level of every half-width by the number of rows. It moves by 1, whatever x is."""
    levels, n = [], 400

    def watched(x, rest, slope, widths):
        assert not np.isnan(rest).any()
        levels.append(slope_depths.slope_levels(x, rest, slope, widths))
        return levels[-1]

    monkeypatch.setattr(line_widths, "slope_levels", watched)
    widths = line_widths.LineHalfWidths.of("median-zero", 1.0, n, 0.1)
    for more in (199, 200):
        x = np.linspace(0, 1, n)
        x[n - more :] = np.inf
        # the released line is level
        widths.release(x, np.full(n, 2.5), np.array([2.0, 2.0]), (0.0, 0.05), Randomness(1))
    assert np.abs(levels[1] - levels[0]).max() <= 1
