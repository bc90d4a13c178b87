"""Private deepest regression: what edits can do, by brute force on small grids, and the front door."""

import functools
import itertools
import math
import pickle
import warnings

import numpy as np
import pytest

import dpstats
from dpstats.depth import regression_levels
from dpstats.linear.anchors import LineInterval, coefficients, weighted_quantile
from dpstats.mechanisms.smooth_sensitivity import truncated
from dpstats.regression import deepest

POINTS = tuple(itertools.product((-1.0, 0.0, 1.0), (0.0, 1.0, 3.0)))
BOX = np.array([[-2.0, 4.0], [-2.0, 4.0]])


@functools.cache
def found(D):
    x, y = np.array(D).reshape(-1, 2).T
    return regression_levels(x, y)


@functools.cache
def estimate(D):
    theta = found(D).estimate
    return np.clip([theta[0] - theta[1], theta[0] + theta[1]], *BOX.T)


@functools.cache
def neighbours(D):
    """One record replaced, or, for a record that becomes or ceases to be unusable, removed or added."""
    out = {tuple(sorted((*D, p))) for p in POINTS}
    for i in range(len(D)):
        rest = D[:i] + D[i + 1 :]
        out |= {rest} | {tuple(sorted((*rest, p))) for p in POINTS}
    return out - {D}


def data_sets(count, sizes, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        some = rng.choice(len(POINTS), size=rng.integers(2, len(POINTS) + 1), replace=False)
        yield tuple(sorted(POINTS[i] for i in rng.choice(some, rng.choice(sizes))))


def levels(D, count, late=0):
    """``A_k`` within the box; `late` > 0 is an error."""
    lv = deepest.depth_levels(found(D), len(D), count + late)[:count] if not late else None
    tau = np.maximum(deepest._depths(found(D), len(D), count) + late, 0)
    tau = np.minimum(tau, found(D).depth)
    if late:
        width = found(D).upper - found(D).lower
        lv = np.where(tau > found(D).unbounded, 2 * np.maximum(width[tau, 0], width[tau, 1]), np.inf)
    inside = (np.clip(found(D).upper[tau, 2:], *BOX.T) - np.clip(found(D).lower[tau, 2:], *BOX.T)).sum(axis=1)
    return np.minimum(np.minimum(lv, inside), 12.0)


def worst_excess(k, count, sizes, late=0, seed=1):
    """Largest change of the estimate by the (k + 1)-th edit, beyond what the level allows."""
    worst = -math.inf
    for D in data_sets(count, sizes, seed):
        allowed = levels(D, k + 1, late)[k]
        near = {D}
        for _ in range(k):
            near |= {F for E in near for F in neighbours(E)}
        for E in near:
            for F in neighbours(E):
                worst = max(worst, float(np.abs(estimate(E) - estimate(F)).sum()) - allowed)
    return worst


@pytest.mark.slow
def test_level_0_bounds_every_change():
    assert worst_excess(0, 150, [0, 1, 3, 5, 6, 8]) <= 1e-12


def test_level_1_bounds_every_change():
    assert worst_excess(1, 4, [5, 6], seed=2) <= 1e-12


@pytest.mark.slow
def test_levels_of_a_depth_one_too_high_are_caught():
    assert worst_excess(0, 150, [5, 6, 8], late=1) > 0.1


def smoothness_excess(rate, beta=0.3, count=150):
    worst = 0.0
    for D in data_sets(count, [0, 1, 3, 5, 8, 11], 3):
        here = deepest.bounded_smooth_bound(found(D), len(D), BOX, rate)
        for E in neighbours(D):
            there = deepest.bounded_smooth_bound(found(E), len(E), BOX, rate)
            worst = max(
                worst, here / math.exp(beta) / max(there, 1e-300), there / math.exp(beta) / max(here, 1e-300)
            )
    return worst


@pytest.mark.slow
def test_bound_is_smooth():
    assert smoothness_excess(0.3) <= 1 + 1e-9


@pytest.mark.slow
def test_a_slower_decay_is_caught():
    assert smoothness_excess(1.2 * 0.3) > 1.01


def test_bound_is_the_maximum_over_the_levels():
    for D in data_sets(60, [3, 6, 9], 4):
        terms = np.exp(-0.2 * np.arange(30)) * levels(D, 30)
        assert deepest.bounded_smooth_bound(found(D), len(D), BOX, 0.2) == pytest.approx(
            terms.max(), rel=1e-12
        )


def margin_pairs(count=250, K=4):
    rng = np.random.default_rng(5)
    for _ in range(count):
        n = int(rng.integers(60, 80))
        D = np.column_stack([rng.integers(-3, 4, n), rng.normal(size=n).round(2)]).astype(float)
        # a few observations far away make a jump of the levels near the K-th
        D[: rng.integers(0, 20), 1] += 10.0 ** rng.integers(0, 4)
        E = np.delete(D, 0, axis=0) if rng.random() < 0.3 else D.copy()
        if len(E) == n:
            E[-1] = rng.choice([-3.0, 0.0, 3.0]), rng.choice([-1e4, 0.0, 1e4])
        yield [
            truncated(deepest.depth_levels(regression_levels(*F.T), len(F), 2 * K + 1), K, 1.2)
            for F in (D, E)
        ]


def test_margin_without_bounds_has_sensitivity_one_and_means_smooth():
    safe = 0
    for (bound, here), (other, there) in margin_pairs():
        assert abs(here - there) <= 1
        if here >= 0:
            safe += 1
            assert other <= math.exp(1.2) * bound * (1 + 1e-9) and bound <= math.exp(1.2) * other * (1 + 1e-9)
    assert safe > 20


# -- the front door --------------------------------------------------------------------------------------


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
            "y ~ x", data, eps=4, at=(-0.7, 0.7), bounds=BOUNDS, seed=seed
        ).params.iloc[1]
        errors[:, seed] = drawn - 2, regression_levels(data["x"], data["y"]).estimate[1] - 2
    drawn, deepest_line = np.median(np.abs(errors), axis=1)
    assert drawn < 1.25 * deepest_line


def test_a_drawn_line_stays_within_the_bounds():
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
def test_interval_covers_the_noise():
    """2 coefficients x 400 releases; false-alarm rate 1e-6."""
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
def test_no_data_raise_or_warn(data):
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


def test_few_rows_without_bounds_are_refused():
    with pytest.raises(dpstats.ParameterError, match="100 rows are too few.*bounds={'y'"):
        dpstats.deepest_regression("y ~ x", simulated(100), eps=1, **SMOOTH)
    with pytest.raises(dpstats.ParameterError, match="the rows more"):
        dpstats.deepest_regression("y ~ x", simulated(100), eps=1, guarantee="random", gamma=0.1, **SMOOTH)


@pytest.mark.parametrize("formula", ["y ~ x + np.exp(x)", "y ~ x - 1", "y ~ 1", "y + x ~ x"])
def test_formulas(formula):
    with pytest.raises(dpstats.FormulaError):
        dpstats.deepest_regression(formula, simulated(50), eps=1, bounds=BOUNDS)


def test_more_covariates_point_to_medsweep():
    with pytest.raises(dpstats.FormulaError, match="medsweep"):
        dpstats.deepest_regression("y ~ x + np.exp(x)", simulated(50), eps=1, bounds=BOUNDS)


@pytest.mark.parametrize("at", [(1, 1), (0, math.inf), 3, (1, 2, 3), ("a", "b")])
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
        for n in (50, 400)
    }
    assert max(sizes) - min(sizes) < 30
