"""Private Tukey median: what edits can do, by brute force on small grids, and the front door."""

import functools
import itertools
import math
import pickle
import warnings

import numpy as np
import pytest

import dpstats
from dpstats import depth
from dpstats.location.tukey_median import Depths, tukey_median
from dpstats.mechanisms.smooth_sensitivity import truncated

GRID = tuple(itertools.product((0.0, 1.0, 2.5, 4.0), (0.0, 1.0, 3.0)))
BOX = np.array([[0.0, 4.0], [0.0, 3.0]])


@functools.cache
def depths(D):
    return Depths.of(np.array(D).reshape(-1, 2), None)


@functools.cache
def neighbours(D):
    out = {tuple(sorted((*D, p))) for p in GRID}
    for i in range(len(D)):
        rest = D[:i] + D[i + 1 :]
        out |= {rest} | {tuple(sorted((*rest, p))) for p in GRID}
    return out - {D}


def data_sets(count, sizes, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        some = rng.choice(len(GRID), size=rng.integers(2, len(GRID) + 1), replace=False)
        yield tuple(sorted(GRID[i] for i in rng.choice(some, rng.choice(sizes))))


def allowed(D, k, late=0):
    found = depths(D)
    tau = found.taus(k + 1)[k:] + late
    return min(found.diameters(tau)[0], found.axis_widths(tau, BOX)[0], 7.0)


def worst_excess(k, count, sizes, late=0, walks=None, seed=1):
    """Largest change by the (k + 1)-th edit beyond the level, over all edits or `walks` random ones."""
    rng, worst = np.random.default_rng(seed), -math.inf
    for D in data_sets(count, sizes, seed):
        level = allowed(D, k, late)
        if walks is None:
            pairs = ((E, F) for E in ({D} if k == 0 else neighbours(D)) for F in neighbours(E))
        else:
            pairs = []
            for _ in range(walks):
                E = D
                for _ in range(k):
                    around = sorted(neighbours(E))
                    E = around[rng.integers(len(around))]
                around = sorted(neighbours(E))
                pairs.append((E, around[rng.integers(len(around))]))
        for E, F in pairs:
            worst = max(worst, float(np.abs(depths(E).point - depths(F).point).sum()) - level)
    return worst


def test_level_0_bounds_every_change():
    assert worst_excess(0, 30, [1, 4, 6, 9, 12]) <= 1e-9


@pytest.mark.parametrize("k", [1, 2])
def test_further_levels_bound_random_changes(k):
    assert worst_excess(k, 60, [10, 12, 14], walks=25) <= 1e-9


def test_levels_of_a_depth_one_too_high_are_caught():
    assert worst_excess(0, 30, [6, 9, 12], late=1) > 0.1


def test_exact_diameters_are_at_most_the_order_statistics():
    rng = np.random.default_rng(2)
    for n in (7, 30, 101):
        found = Depths.of(rng.normal(size=(n, 2)) @ np.array([[1.0, 0.4], [0.0, 1.0]]), None)
        tau = np.arange(1, found.depth + 1)
        exact = np.array([depth.l1_diameter(p) for p in depth.plane_contours(found.Z, tau)])
        assert np.all(exact <= found.order_bounds(tau) + 1e-12)
        assert np.all(exact[: n // 4] >= 0.3 * found.order_bounds(tau)[: n // 4])


@pytest.mark.parametrize("d", [2, 3, 4])
def test_order_bounds_are_maxima_over_sign_vectors(d):
    Z = np.random.default_rng(3).normal(size=(40, d))
    tau = np.array([1, 5, 9])
    found = Depths.of(Z, depth.directions(d, 20)).order_bounds(tau)
    for t, bound in zip(tau, found, strict=True):
        along = [np.sort(Z @ s) for s in itertools.product((-1, 1), repeat=d)]
        assert bound == pytest.approx(max(a[40 - t] - a[t - 1] for a in along))


def smoothness_excess(rate, beta=0.25):
    worst = 0.0
    for D in data_sets(25, [0, 1, 4, 7, 11], 4):
        here = depths(D).smooth_bound(BOX, rate)
        for E in neighbours(D):
            there = depths(E).smooth_bound(BOX, rate)
            worst = max(worst, max(here, there) / math.exp(beta) / max(min(here, there), 1e-300))
    return worst


def test_bound_is_smooth():
    assert smoothness_excess(0.25) <= 1 + 1e-9


def test_a_slower_decay_is_caught():
    assert smoothness_excess(0.3) > 1.01


def test_bound_is_the_maximum_over_the_levels():
    for D in data_sets(40, [3, 6, 11], 5):
        terms = [math.exp(-0.2 * k) * allowed(D, k) for k in range(20)]
        assert depths(D).smooth_bound(BOX, 0.2) == pytest.approx(max(terms), rel=1e-12)


def margin_pairs(d, count=200, K=4):
    rng = np.random.default_rng(6)
    for _ in range(count):
        n = int(rng.integers(70, 90))
        D = rng.normal(size=(n, d)).round(1)
        D[: rng.integers(0, 20), 0] += 10.0 ** rng.integers(0, 4)
        E = np.delete(D, 0, axis=0) if rng.random() < 0.3 else D.copy()
        if len(E) == n:
            E[-1] = rng.choice([-1e4, 0.0, 1e4], d)
        V = None if d == 2 else depth.directions(d, 20)
        yield [truncated(Depths.of(F, V).levels(2 * K + 1), K, 1.0) for F in (D, E)]


@pytest.mark.parametrize("d", [2, 3])
def test_margin_without_bounds_has_sensitivity_one_and_means_smooth(d):
    safe = 0
    for (bound, here), (other, there) in margin_pairs(d):
        assert abs(here - there) <= 1
        if here >= 0:
            safe += 1
            assert other <= math.exp(1.0) * bound * (1 + 1e-9) and bound <= math.exp(1.0) * other * (1 + 1e-9)
    assert safe > 20


@pytest.mark.parametrize("d", [3, 5])
@pytest.mark.parametrize("grid", [False, True])
def test_point_of_many_columns_is_as_deep_as_the_levels_assume(d, grid):
    from dpstats.depth._directions import halfspace_bound

    rng, V = np.random.default_rng(7), depth.directions(d, 60)
    for n in (5, 40, 150):
        Z = rng.integers(0, 4, (n, d)).astype(float) if grid else rng.standard_cauchy((n, d))
        found = Depths.of(Z, V)
        # values within rounding of a threshold count: a flat region is a point that no double names
        moved = found.point[None] + 1e-9 * np.vstack([np.zeros(d), rng.normal(size=(200, d))])
        assert halfspace_bound(moved, Z, V).max() >= found.depth - found.slack
        assert found.depth >= -(-n // (d + 1))


def test_changes_in_space_stay_within_the_levels():
    rng, V = np.random.default_rng(8), depth.directions(3, 60)
    for _ in range(60):
        Z = rng.normal(size=(40, 3))
        found, E = Depths.of(Z, V), Z.copy()
        for k in range(3):
            before = Depths.of(E, V).point
            E[rng.integers(40)] = rng.choice([-9.0, 0.0, 9.0], 3)
            assert np.abs(Depths.of(E, V).point - before).sum() <= found.levels(k + 1)[k] + 1e-9


# -- the front door --------------------------------------------------------------------------------------


def simulated(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_t(4, size=(n, d))
    return {f"c{i}": 10.0 * i + 10.0**i * (Z[:, i] + 0.5 * Z[:, 0]) for i in range(d)}


def formula(d=2):
    return " + ".join(f"c{i}" for i in range(d)) + " ~ 1"


def loose(d=2):
    return {f"c{i}": (-1000.0 * 10**i, 1000.0 * 10**i) for i in range(d)}


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("how", ["bounds", "scale", "nothing", "random"])
def test_estimates_and_guarantee(d, how):
    more = {
        "bounds": {"bounds": loose(d)},
        "scale": {"scale": {f"c{i}": 10.0**i for i in range(d)}},
        "nothing": {},
        "random": {"guarantee": "random", "gamma": 0.1},
    }[how]
    fit = tukey_median(formula(d), simulated(4000, d), eps=4, seed=1, **more)
    error = (fit.params - 10.0 * np.arange(d)) / 10.0 ** np.arange(d)
    assert np.abs(error).max() < (2 if how == "random" else 0.6)
    assert fit.guarantee.eps == 4 and fit.guarantee.neighbours == "substitution"
    assert sum(s.eps for s in fit.guarantee.spends) == pytest.approx(4)
    assert fit.guarantee.kind.startswith("random" if how == "random" else "approximate")
    assert fit.nobs == 4000 and fit.covers == "privacy noise only"


@pytest.mark.parametrize("d", [2, 3])
def test_interval_covers_the_noise(d):
    """False-alarm rate 1e-6."""
    data, hits = simulated(200, d), 0
    Z = np.column_stack(list(data.values())) / np.array([2000.0 * 10**i for i in range(d)])
    truth = Depths.of(Z, None if d == 2 else depth.directions(d, 200)).point * [2000.0 * 10**i for i in range(d)]
    for seed in range(200):
        interval = tukey_median(formula(d), data, eps=2, bounds=loose(d), seed=seed).conf_int(0.1).to_numpy()
        hits += interval[0, 0] <= truth[0] <= interval[0, 1]
    assert abs(hits / 200 - 0.9) < 4.9 * math.sqrt(0.09 / 200)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("value", ["none", "missing", "one", "constant", "huge", "line"])
def test_no_data_raise_or_warn(d, value):
    n = 40
    columns = {
        "none": np.empty((0, d)),
        "missing": np.full((n, d), np.nan),
        "one": np.ones((1, d)),
        "constant": np.ones((n, d)),
        "huge": np.random.default_rng(1).choice([1e308, -1e308, 5e-324], (n, d)),
        "line": np.arange(n)[:, None] * np.ones(d),
    }[value]
    data = {f"c{i}": columns[:, i] for i in range(d)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for more in ({"bounds": loose(d)}, {"bounds": loose(d), "scale": {f"c{i}": 1 for i in range(d)}}):
            fit = tukey_median(formula(d), data, eps=1, **more)
            assert np.all(np.isfinite(fit.params))
            str(fit)


def test_few_rows_without_bounds_are_refused():
    with pytest.raises(dpstats.ParameterError, match="100 rows are too few.*bounds="):
        tukey_median(formula(), simulated(100), eps=1)
    with pytest.raises(dpstats.ParameterError, match="the rows more"):
        tukey_median(formula(), simulated(100), eps=1, guarantee="random", gamma=0.1)


def test_one_column_points_to_the_median():
    with pytest.raises(dpstats.FormulaError, match="dpstats.median"):
        tukey_median("c0 ~ 1", simulated(50), eps=1)
    with pytest.raises(dpstats.FormulaError):
        tukey_median("c0 + c1 ~ c0", simulated(50), eps=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bounds": {"c0": (0, 1)}}, "bounds must be given for all columns or none"),
        ({"scale": {"c0": 1}}, "scale must be a mapping from c0, c1"),
        ({"scale": {"c0": 1, "c1": -1}}, "scale must be a mapping from c0, c1 to positive numbers"),
        ({"directions": 0}, "directions must be"),
        ({"gamma": 0.1}, "gamma must be None unless"),
    ],
)
def test_parameters(arguments, message):
    with pytest.raises(dpstats.ParameterError, match=message):
        tukey_median(formula(), simulated(50), **({"eps": 1, "bounds": loose()} | arguments))


def test_groups_and_pickle():
    data = simulated(900) | {"g": np.repeat(["a", "b", "c"], 300)}
    fits = tukey_median(formula(), data, eps=6, bounds=loose(), levels={"g": ["a", "b", "c"]}, by="g", seed=1)
    assert np.abs(fits.params["c0"]).max() < 1
    assert len(pickle.dumps(fits["a"])) < 5000
