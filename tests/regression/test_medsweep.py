"""Medsweep through the front door."""

import math
import pickle
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.privacy.conversions import zcdp_eps
from dpstats.regression import medsweep as module

sys.path.insert(0, str(Path(__file__).parents[1]))
from remembered import once  # noqa: E402

VARIANTS = [{"variant": "sequential"}, {"variant": "joint", "clamp": 1000}]


def simulated(n, seed=0):
    rng = np.random.default_rng(seed)
    x, z, v = rng.normal(size=(3, n))
    z = z + 0.5 * x
    return {"x": x, "z": z, "v": v, "y": 1 + 2 * x - z + rng.standard_t(3, size=n)}


@pytest.mark.slow
@pytest.mark.parametrize("how", VARIANTS)
@pytest.mark.parametrize(
    ("formula", "truth"),
    [("y ~ x + z", [1, 2, -1]), ("I(y + z) ~ x", [1, 2]), ("y ~ x + z + v", [1, 2, -1, 0])],
)
def test_estimates(how, formula, truth):
    fit = dpstats.medsweep(formula, simulated(4000), eps=6, seed=1, **how)
    assert np.abs(fit.params - truth).max() < 0.35
    assert fit.guarantee.neighbours == "substitution" and fit.nobs == 4000
    assert fit.predict({"x": [0.0], "z": [0.0], "v": [0.0]})[0] == fit.params["Intercept"]


def test_it_withstands_outliers():
    data = simulated(3000)
    data["y"][:300] = 1e6
    fit = dpstats.medsweep("y ~ x + z", data, eps=6, seed=1)
    assert np.abs(fit.params - [1, 2, -1]).max() < 0.5


def test_sequential_with_one_covariate_is_pure_and_its_steps_add_up():
    fit = dpstats.medsweep("y ~ x", simulated(500), eps=2, seed=1)
    assert (fit.guarantee.kind, fit.guarantee.delta) == ("pure", 0)
    assert [s.step for s in fit.guarantee.spends][3:] == ["intercept", "number of slopes"]
    assert sum(s.eps for s in fit.guarantee.spends) == pytest.approx(2)
    assert fit.conf_int().isna().all(axis=None) and "No intervals" in str(fit)


def test_many_medians_are_composed_in_zcdp():
    fit = dpstats.medsweep("y ~ x + z + v", simulated(2000), eps=2, seed=1)
    assert fit.guarantee.kind == "approximate" and fit.guarantee.delta == 1e-6
    assert sum(s.eps for s in fit.guarantee.spends) > 2
    assert zcdp_eps(sum(s.rho for s in fit.guarantee.spends), 1e-6) <= 2 * (1 + 1e-9)
    pure = dpstats.medsweep("y ~ x + z + v", simulated(2000), eps=2, delta=0, seed=1)
    assert pure.guarantee.kind == "pure" and sum(s.eps for s in pure.guarantee.spends) == pytest.approx(2)


def test_joint_spends_equal_shares():
    fit = dpstats.medsweep("y ~ x + z", simulated(500), eps=2, variant="joint", clamp=10, seed=1)
    assert [s.eps for s in fit.guarantee.spends] == [0.5] * 4
    assert sum(s.delta for s in fit.guarantee.spends) == pytest.approx(1e-6)


@pytest.mark.slow
def test_joint_interval_covers_the_noise(monkeypatch):
    """False-alarm rate 1e-6."""
    from dpstats.mechanisms.median_slope import median_slope

    monkeypatch.setattr(module, "smooth_slope_bound", once(module.smooth_slope_bound))
    data = simulated(150)
    truth = median_slope(data["x"], data["y"], 1000.0)
    hits = 0
    for seed in range(200):
        fit = dpstats.medsweep("y ~ x", data, eps=4, variant="joint", clamp=1000, seed=seed)
        low, high = fit.conf_int(0.1).loc["x"]
        hits += low <= truth <= high
    assert abs(hits / 200 - 0.9) < 4.9 * math.sqrt(0.09 / 200)
    assert fit.covers == "privacy noise only"


@pytest.mark.parametrize("how", VARIANTS)
@pytest.mark.parametrize(
    "data",
    [
        {"x": np.zeros(60), "y": np.arange(60.0)},
        {"x": np.arange(60.0), "y": np.zeros(60)},
        {"x": np.array([]), "y": np.array([])},
        {"x": np.full(9, np.nan), "y": np.zeros(9)},
        {"x": np.array([1e308, -1e308, 0.0, 5e-324]), "y": np.array([1e308, 0.0, -1e308, 1e308])},
    ],
)
def test_no_data_raise_or_warn(how, data, monkeypatch):
    monkeypatch.setattr(module, "_ROWS", 0)
    monkeypatch.setattr(module, "_RATIOS", -1e9)
    monkeypatch.setattr(module, "_LARGEST", math.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        str(dpstats.medsweep("y ~ x", data, eps=1, **how))


@pytest.mark.parametrize("how", VARIANTS)
@pytest.mark.parametrize("term", ["g", "truth", "I(x > 1)", "x:g", "C(k, levels=[0, 1])"])
def test_terms_with_levels_are_refused_before_anything_is_charged(how, term):
    data = pd.DataFrame({"x": np.arange(400.0), "k": np.tile([0, 1], 200), "y": np.arange(400.0)})
    data["g"], data["truth"] = np.where(data.k == 1, "a", "b"), pd.array(data.k == 1, dtype="boolean")
    ledger = dpstats.Ledger(":memory:", eps=4, delta=1e-5)
    words = (
        f"^medsweep takes covariates of mostly different numbers, and {re.escape(repr(term))} has levels. For"
    )
    with pytest.raises(dpstats.FormulaError, match=words):
        dpstats.medsweep(f"y ~ x + {term}", data, eps=2, levels={"g": ["a", "b"]}, ledger=ledger, **how)
    assert ledger.remaining()[0] == pytest.approx(4)


def test_the_coefficient_of_a_0_1_column_is_what_the_docstring_says():
    """The median response of the ones less that of all rows."""
    rng = np.random.default_rng(2)
    x = (rng.random(20_000) < 0.3) * 1.0
    y = 1 + 2 * x + rng.normal(size=20_000)
    fit = dpstats.medsweep("y ~ x", {"x": x, "y": y}, eps=20, bounds={"x": (0, 1)}, seed=1)
    assert fit.params["x"] == pytest.approx(np.median(y[x == 1]) - np.median(y), abs=0.05)
    assert "less that of *all* rows" in (dpstats.medsweep.__doc__ or "")


@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x - 1", "x + y ~ z"])
def test_formulas(formula):
    with pytest.raises(dpstats.FormulaError):
        dpstats.medsweep(formula, simulated(50), eps=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"variant": "both"}, "variant must be one of"),
        ({"variant": "joint"}, "clamp must be a positive finite number"),
        ({"clamp": 3}, "clamp must be None unless variant='joint'"),
        ({"variant": "joint", "clamp": 3, "delta": 0}, "delta must be a number in"),
    ],
)
def test_parameters(arguments, message):
    with pytest.raises(dpstats.ParameterError, match=message):
        dpstats.medsweep("y ~ x", simulated(50), eps=1, **arguments)


def test_groups_and_pickle():
    data = simulated(900) | {"g": np.repeat(["a", "b", "c"], 300)}
    fits = dpstats.medsweep("y ~ x", data, eps=4, levels={"g": ["a", "b", "c"]}, by="g", seed=1)
    assert np.abs(fits.params["x"] - 1.5).max() < 1
    assert len(pickle.dumps(fits["a"])) < 5000


def test_joint_stays_within_the_clamp_of_its_bound(monkeypatch):
    """The smooth bound of the intercept is that of residuals within the clamp."""
    seen, real = [], module.smooth_median_bound
    monkeypatch.setattr(module, "smooth_median_bound", lambda x, *more: seen.append(x) or real(x, *more))
    data = simulated(200)
    fit = dpstats.medsweep("y ~ x", data | {"y": data["y"] + 1e6}, eps=2, variant="joint", clamp=10, seed=1)
    (rest,) = seen
    assert np.abs(rest).max() <= 10 and np.all(np.diff(rest) >= 0)
    assert fit.guarantee.eps == 2


def test_few_rows_are_refused_by_their_public_number():
    with pytest.raises(dpstats.ParameterError, match="200 rows are too few for 4 medians at eps = 1"):
        dpstats.medsweep("y ~ x", simulated(200), eps=1)


def rare(n, share):
    rng = np.random.default_rng(3)
    g = (rng.random(n) < share) * 1.0
    return {"g": g, "y": rng.normal(size=n) + 3.0 * g}


@pytest.mark.parametrize("seed", range(5))
def test_a_column_of_few_ones_is_refused_by_a_private_count(seed):
    with pytest.raises(dpstats.ReleaseFailed, match="too few rows that are off the median"):
        dpstats.medsweep("y ~ g", rare(4000, 0.01), eps=1, bounds={"g": (0, 1)}, seed=seed)


def test_the_count_is_that_of_the_slope_with_fewest_ratios(monkeypatch):
    """With its noise and the sensitivity of one record."""
    seen = []
    monkeypatch.setattr(module, "laplace", lambda *given: seen.append(given[:3]) or 1e9)
    dpstats.medsweep("y ~ g", rare(4000, 0.2), eps=4, bounds={"g": (0, 1)}, seed=1)
    ((count, sensitivity, eps),) = seen
    assert 600 < count < 1000 and sensitivity == 1 and eps == pytest.approx(0.2)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_many_0_1_columns_never_give_numbers_of_any_size(seed):
    """Coefficients of 0/1 columns are released near the data, or not at all."""
    rng = np.random.default_rng(seed)
    names, g = [f"g{i}" for i in range(1, 20)], rng.integers(0, 20, 50_000)
    data = {name: (g == i) * 1.0 for i, name in enumerate(names, 1)} | {"y": rng.normal(size=50_000)}
    bounds = dict.fromkeys(names, (0, 1))
    try:
        fit = dpstats.medsweep("y ~ " + " + ".join(names), data, eps=2, bounds=bounds, seed=seed)
    except dpstats.ReleaseFailed:
        return
    assert np.abs(fit.params).max() < 10


@pytest.mark.parametrize("variant", ["sequential", "joint"])
def test_a_residual_is_that_of_its_own_row(monkeypatch, variant):
    """With eight covariates a matrix product rounds the last of many equal rows in another way."""
    g = np.random.default_rng(1)
    n, names, seen = 403, [f"x{j}" for j in range(13)], []
    where, found = {
        "sequential": (module.exponential, "quantile"), "joint": (module, "lower_median"),
    }[variant]  # fmt: skip
    real = getattr(where, found)

    def watched(values, *more, **given):
        seen.append(np.unique(values))
        return real(values, *more, **given)

    monkeypatch.setattr(where, found, watched)
    for row in g.standard_normal((5, 14)):
        slopes = g.standard_normal(13)

        def swept(X, y, centre, slope, slopes=slopes):
            slope(np.ones(n), np.ones(n))  # so that there are ratios
            return slopes

        monkeypatch.setattr(module, "_swept", swept)
        data = dict(zip([*names, "y"], np.tile(row, (n, 1)).T, strict=True))
        given = {"clamp": 1e3} if variant == "joint" else {}
        formula = "y ~ " + " + ".join(names)
        dpstats.medsweep(formula, data, eps=500, variant=variant, seed=1, **given)
    assert len(seen) >= 5 and all(len(values) == 1 for values in seen)


def test_slopes_of_the_joint_release_are_of_finite_numbers_within_a_limit(monkeypatch):
    """Else a neighbour could move the log of a smooth bound by more than beta; and what is swept out of an
    infinite number is none."""
    seen = []

    def bound(u, w, clamp, beta):
        seen.append((u, w))
        return 1.0

    monkeypatch.setattr(module, "smooth_slope_bound", bound)
    monkeypatch.setattr(module, "release", lambda found, *more: ([1e3], 1.0))
    x = np.array([1e308, -1e308, 1e300, 0.5, 2.0, 3.0])
    data = {"x": x, "z": x[::-1].copy(), "w": np.full(6, -1e308), "y": np.full(6, 1.7e308)}
    dpstats.medsweep("y ~ x + z + w", data, eps=1, variant="joint", clamp=1e300, seed=1)
    assert len(seen) == 6 and any(len(u) < 6 for u, _ in seen)
    for u, w in seen:
        assert np.abs([u, w]).max() <= 2.0**400


def test_a_smooth_bound_holds_for_rows_of_any_size(monkeypatch):
    """One record more or less moves its logarithm by beta at most: here beyond the limit of the numbers."""
    seen, real = [], module.smooth_slope_bound
    monkeypatch.setattr(
        module,
        "smooth_slope_bound",
        lambda u, w, clamp, beta: seen.append(real(u, w, clamp, 2.0)) or seen[-1],
    )
    monkeypatch.setattr(module, "release", lambda found, *more: (found, 1.0))
    x = [-5e-324, 1e9, 1e30, 0.5, -2.0, 1e30, 1.0000000000000002, -2.0, 1e9, -1e300, 1e308, 3.0]
    y = [1.0000000000000002, 1e308, -2.0, 0.0, -1.0, 1.0, 2.0, 1e30, -1e308, -1e308, 1.0, 1.0]
    for last in ((3.0, 1.0), (-1e300, -2.0)):
        x[-1], y[-1] = last
        data = {"x": np.array(x), "y": np.array(y)}
        dpstats.medsweep("y ~ x", data, eps=1, variant="joint", clamp=1e300, seed=1)
    assert abs(math.log(seen[0] / seen[1])) <= 2.0
