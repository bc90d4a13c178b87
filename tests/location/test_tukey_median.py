"""Private Tukey median: the smooth variant, by brute force on small grids, and the front door (draws:
test_deep_point.py)."""

import functools
import itertools
import math
import pickle
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import dpstats
from dpstats import depth
from dpstats.location import tukey_median as module
from dpstats.location.tukey_median import tukey_median
from dpstats.mechanisms.plane_depths import Depths
from dpstats.mechanisms.smooth_sensitivity import truncated

sys.path.insert(0, str(Path(__file__).parents[1]))
import small_grids  # noqa: E402

GRID = tuple(itertools.product((0.0, 1.0, 2.5, 4.0), (0.0, 1.0, 3.0)))
BOX = np.array([[0.0, 4.0], [0.0, 3.0]])
neighbours = functools.partial(small_grids.neighbours, GRID)
data_sets = functools.partial(small_grids.data_sets, GRID)


@functools.cache
def depths(D):
    return Depths.of(np.array(D).reshape(-1, 2))


def allowed(D, k, late=0):
    found = depths(D)
    tau = found.taus(k + 1)[k:] + late
    return min(found.diameters(tau)[0], found.axis_widths(tau, BOX)[0], 7.0)


def worst_excess(k, count, sizes, late=0, walks=None, seed=1):
    """Largest change by the (k + 1)-th edit beyond ``A_k``, over all edits or `walks` random ones."""
    rng, worst = np.random.default_rng(seed), -math.inf
    for D in data_sets(count, sizes, seed):
        bound = allowed(D, k, late)
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
            worst = max(worst, float(np.abs(depths(E).point - depths(F).point).sum()) - bound)
    return worst


@pytest.mark.slow
def test_at_distance_0_no_edit_does_more():
    assert worst_excess(0, 30, [1, 4, 6, 9, 12]) <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2])
def test_random_edits_at_greater_distances_do_no_more(k):
    assert worst_excess(k, 60, [10, 12, 14], walks=25) <= 1e-9


@pytest.mark.slow
def test_sets_of_a_depth_one_too_high_are_caught():
    assert worst_excess(0, 30, [6, 9, 12], late=1) > 0.1


def test_exact_diameters_are_at_most_the_order_statistics():
    rng = np.random.default_rng(2)
    for n in (7, 30, 101):
        found = Depths.of(rng.normal(size=(n, 2)) @ np.array([[1.0, 0.4], [0.0, 1.0]]))
        tau = np.arange(1, found.depth + 1)
        exact = np.array([depth.l1_diameter(p) for p in depth.plane_contours(found.Z, tau)])
        assert np.all(exact <= found.order_bounds(tau) + 1e-12)
        assert np.all(exact[: n // 4] >= 0.3 * found.order_bounds(tau)[: n // 4])


def test_order_bounds_are_maxima_over_sign_vectors():
    Z = np.random.default_rng(3).normal(size=(40, 2))
    tau = np.array([1, 5, 9])
    found = Depths.of(Z).order_bounds(tau)
    for t, bound in zip(tau, found, strict=True):
        along = [np.sort(Z @ s) for s in itertools.product((-1, 1), repeat=2)]
        assert bound == pytest.approx(max(a[40 - t] - a[t - 1] for a in along))


def test_the_point_and_its_bounds_are_of_the_same_numbers():
    """Numbers below 2^-200 are 0 for exact arithmetic: a column that lies about there jumps as a whole."""
    rng, n, unit = np.random.default_rng(0), 601, 2.0**-200
    sides = np.repeat([-1.0, 1.0], [n // 2 + 1, n // 2])
    x = unit * (1 + 2.0**-40 * sides * rng.random(n))
    other = np.append(unit * (1 + 2.0**-41), x[1:])
    box = 1e-3 * np.array([[-1.0, 1.0], [-1.0, 1.0]])
    here, there = (Depths.of(np.column_stack([part, part])) for part in (x, other))
    moved = np.abs(here.point - there.point).sum()
    assert moved > unit
    for found in (here, there):
        assert found.axis_widths(found.taus(1), box)[0] >= moved * (1 - 1e-12)
        assert found.order_bounds(found.taus(1))[0] >= moved * (1 - 1e-12)


def smoothness_excess(rate, beta=0.25):
    worst = 0.0
    for D in data_sets(25, [0, 1, 4, 7, 11], 4):
        here = depths(D).smooth_bound(BOX, rate)
        for E in neighbours(D):
            there = depths(E).smooth_bound(BOX, rate)
            worst = max(worst, max(here, there) / math.exp(beta) / max(min(here, there), 1e-300))
    return worst


@pytest.mark.slow
def test_bound_is_smooth():
    assert smoothness_excess(0.25) <= 1 + 1e-9


@pytest.mark.slow
def test_a_slower_decay_is_caught():
    assert smoothness_excess(0.3) > 1.01


def test_bound_is_the_maximum_over_the_distances():
    for D in data_sets(40, [3, 6, 11], 5):
        terms = [math.exp(-0.2 * k) * allowed(D, k) for k in range(20)]
        assert depths(D).smooth_bound(BOX, 0.2) == pytest.approx(max(terms), rel=1e-12)


def margin_pairs(count=200, K=4):
    rng = np.random.default_rng(6)
    for _ in range(count):
        n = int(rng.integers(70, 90))
        D = rng.normal(size=(n, 2)).round(1)
        D[: rng.integers(0, 20), 0] += 10.0 ** rng.integers(0, 4)
        E = np.delete(D, 0, axis=0) if rng.random() < 0.3 else D.copy()
        if len(E) == n:
            E[-1] = rng.choice([-1e4, 0.0, 1e4], 2)
        yield [truncated(Depths.of(F).local_sensitivities(2 * K + 1), K, 1.0) for F in (D, E)]


@pytest.mark.slow
def test_margin_without_bounds_has_sensitivity_one_and_means_smooth():
    safe = 0
    for (bound, here), (other, there) in margin_pairs():
        assert abs(here - there) <= 1
        if here >= 0:
            safe += 1
            assert other <= math.exp(1.0) * bound * (1 + 1e-9) and bound <= math.exp(1.0) * other * (1 + 1e-9)
    assert safe > 20


# -- the front door --------------------------------------------------------------------------------------


def simulated(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_t(4, size=(n, d))
    return {f"c{i}": 10.0 * i + 10.0**i * (Z[:, i] + 0.5 * Z[:, 0]) for i in range(d)}


def formula(d=2):
    return " + ".join(f"c{i}" for i in range(d)) + " ~ 1"


def loose(d=2):
    return {f"c{i}": (-1000.0 * 10**i, 1000.0 * 10**i) for i in range(d)}


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("how", ["bounds", "scale", "bounds and scale", "nothing"])
def test_drawn_estimates_and_guarantee(d, how):
    more = {}
    if "bounds" in how:
        more["bounds"] = loose(d)
    if "scale" in how:
        more["scale"] = {f"c{i}": 10.0**i for i in range(d)}
    more["intervals"] = False
    fit = tukey_median(formula(d), simulated(4000, d), eps=4, delta=0, seed=1, **more)
    error = (fit.params - 10.0 * np.arange(d)) / 10.0 ** np.arange(d)
    assert np.abs(error).max() < 0.15
    guarantee = fit.guarantee
    assert (guarantee.eps, guarantee.delta, guarantee.kind) == (4, 0, "pure")
    assert guarantee.neighbours == "substitution"
    assert sum(s.eps for s in guarantee.spends) == pytest.approx(4, rel=1e-12)
    assert any(s.step.startswith("scale") for s in guarantee.spends) == (how == "nothing")
    assert fit.nobs == 4000 and fit.interval is None and "No intervals" in str(fit)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["bounds", "scale", "nothing", "random"])
def test_smooth_estimates_and_guarantee(how):
    more = {
        "bounds": {"bounds": loose()},
        "scale": {"scale": {"c0": 1.0, "c1": 10.0}},
        "nothing": {},
        "random": {"guarantee": "random", "gamma": 0.1},
    }[how]
    fit = tukey_median(formula(), simulated(2000), eps=4, seed=1, mechanism="smooth", **more)
    error = (fit.params - 10.0 * np.arange(2)) / 10.0 ** np.arange(2)
    assert np.abs(error).max() < (2 if how == "random" else 0.6)
    assert fit.guarantee.eps == 4 and fit.guarantee.neighbours == "substitution"
    assert sum(s.eps for s in fit.guarantee.spends) == pytest.approx(4)
    assert fit.guarantee.kind.startswith("random" if how == "random" else "approximate")
    assert fit.nobs == 2000 and fit.covers == "privacy noise only"


@pytest.mark.slow
def test_interval_covers_the_noise():
    """False-alarm rate 1e-6."""
    data, hits = simulated(200), 0
    units = np.array([2000.0, 20000.0])
    truth = Depths.of(np.column_stack(list(data.values())) / units).point * units
    for seed in range(200):
        fit = tukey_median(formula(), data, eps=2, bounds=loose(), seed=seed, mechanism="smooth")
        interval = fit.conf_int(0.1).to_numpy()
        hits += interval[0, 0] <= truth[0] <= interval[0, 1]
    assert abs(hits / 200 - 0.9) < 4.9 * math.sqrt(0.09 / 200)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "mechanism"), [(2, "exponential"), (2, "smooth"), (3, "exponential")])
@pytest.mark.parametrize("value", ["none", "missing", "one", "constant", "huge", "line"])
def test_no_data_raise_or_warn(d, mechanism, value, monkeypatch):
    n = 40
    monkeypatch.setattr(module, "_ROWS", {"bounds": 0, "no bounds": 0})
    columns = {
        "none": np.empty((0, d)),
        "missing": np.full((n, d), np.nan),
        "one": np.ones((1, d)),
        "constant": np.ones((n, d)),
        "huge": np.random.default_rng(1).choice([1e308, -1e308, 5e-324], (n, d)),
        "line": np.arange(n)[:, None] * np.ones(d),
    }[value]
    data = {f"c{i}": columns[:, i] for i in range(d)}
    ways = [{"bounds": loose(d)}, {"bounds": loose(d), "scale": {f"c{i}": 1 for i in range(d)}}]
    if mechanism == "exponential":
        ends = {
            f"c{i}": end for i, end in zip(range(d), [(-1.7e308, 1.7e308), (0, 1e-300), (0, 1)], strict=False)
        }
        ways += [
            {},
            {"bounds": ends},
            *({"scale": {f"c{i}": size for i in range(d)}} for size in (1e-300, 1e300)),
        ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for more in ways:
            fit = tukey_median(formula(d), data, eps=1, mechanism=mechanism, **more)
            assert np.all(np.isfinite(fit.params))
            if "bounds" in more and mechanism == "exponential":
                assert all(lo <= fit.params[name] <= hi for name, (lo, hi) in more["bounds"].items())
            str(fit)


@pytest.mark.slow
def test_the_estimate_is_a_tukey_median_and_not_the_medians_of_the_columns():
    """Log-normal columns, whose deepest point is far from the medians."""
    X = np.exp(np.random.default_rng(5).normal(size=(20_000, 3)))
    data = {f"c{i}": x for i, x in enumerate(X.T)}
    fit = tukey_median(formula(3), data, eps=1, seed=1)
    deepest = depth.tukey_median(X[:2000], "directions").point
    assert np.abs(deepest - 1).min() > 0.1
    assert np.abs(fit.params - deepest).max() < 0.08


@pytest.mark.parametrize(("more", "need"), [({}, 300), ({"bounds": loose()}, 160)])
def test_rows_that_cannot_do_are_refused_by_their_public_number(more, need):
    with pytest.raises(
        dpstats.ParameterError,
        match=f"{need - 1} rows are too few for 2 columns at eps = 1, which need {need}",
    ):
        tukey_median(formula(), simulated(need - 1), eps=1, intervals=False, **more)
    fit = tukey_median(formula(), simulated(need), eps=1, intervals=False, **more)
    assert np.all(np.isfinite(fit.params))
    with pytest.raises(dpstats.ParameterError, match="intervals=False needs fewer"):
        tukey_median(formula(), simulated(need), eps=1, **more)


@pytest.mark.parametrize("intervals", [True, False])
def test_the_numbers_of_rows_that_are_refused_are_told(intervals):
    """A column, from a hundred columns' rows."""
    least = []
    for more in ({"bounds": {f"c{j}": (-9, 9) for j in range(100)}}, {}):
        with pytest.raises(dpstats.ParameterError, match="too few") as error:
            tukey_median(formula(100), simulated(3, 100), eps=1, intervals=intervals, **more)
        need = int(re.search(r"need ([\d,]+) at least", str(error.value))[1].replace(",", ""))
        least.append(math.ceil(need / 100))
    text = " ".join(tukey_median.__doc__.split())
    assert ("fewer than {} and {} are refused" if intervals else "and {} and {}.").format(*least) in text


def test_few_rows_without_bounds_are_refused():
    smooth = {"eps": 1, "mechanism": "smooth"}
    with pytest.raises(dpstats.ParameterError, match="100 rows are too few.*bounds="):
        tukey_median(formula(), simulated(100), **smooth)
    with pytest.raises(dpstats.ParameterError, match="the rows more"):
        tukey_median(formula(), simulated(100), guarantee="random", gamma=0.1, **smooth)


def test_one_column_points_to_the_median():
    with pytest.raises(dpstats.FormulaError, match="dpstats.median"):
        tukey_median("c0 ~ 1", simulated(50), eps=1)
    with pytest.raises(dpstats.FormulaError):
        tukey_median("c0 + c1 ~ c0", simulated(50), eps=1)
    with pytest.raises(dpstats.FormulaError, match="takes two columns.*mechanism='exponential'"):
        tukey_median(formula(3), simulated(50, 3), eps=1, mechanism="smooth")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bounds": {"c0": (0, 1)}}, "bounds must be given for all columns or none"),
        ({"scale": {"c0": 1}}, "scale must be a mapping from c0, c1"),
        ({"scale": {"c0": 1, "c1": -1}}, "scale must be a mapping from c0, c1 to positive numbers"),
        ({"directions": 0}, "directions must be"),
        ({"gamma": 0.1}, "gamma must be None unless"),
        ({"guarantee": "random", "gamma": 0.1}, "guarantee must be 'approximate' unless mechanism='smooth'"),
        ({"mechanism": "smooth", "directions": 9}, "directions must be None for mechanism='smooth'"),
        ({"mechanism": "smooth", "delta": 0}, "delta must be"),
        ({"mechanism": "noise"}, "mechanism must be one of"),
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


def test_scales_spend_their_share(monkeypatch):
    spent, real = [], module.typical_distance
    monkeypatch.setattr(
        module, "typical_distance", lambda x, eps, rng: spent.append(eps) or real(x, eps, rng)
    )
    fit = tukey_median(formula(), simulated(2500), eps=2, seed=1)
    assert sum(spent) == pytest.approx(2 * 1000 / 2500 * 0.25)
    assert spent == [s.eps for s in fit.guarantee.spends if s.step.startswith("scale of")] and len(spent) == 2
    assert sum(s.eps for s in fit.guarantee.spends) == pytest.approx(2)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "share"), [(500, 0.45), (1000, 0.5), (8000, 0.7)])
@pytest.mark.parametrize("more", [{}, {"bounds": loose()}, {"scale": {"c0": 1.0, "c1": 10.0}}])
def test_intervals_and_their_budget(more, rows, share):
    fit = tukey_median(formula(), simulated(rows), eps=4, seed=1, **more)
    spends = {s.step: s.eps for s in fit.guarantee.spends}
    assert sum(spends.values()) == pytest.approx(4) and fit.covers == "sampling and privacy noise"
    own = [eps for step, eps in spends.items() if "half-width" in step or "spread" in step]
    assert sum(own) == pytest.approx(4 * share) and len(own) == (4 if "bounds" in more else 2)
    low, high = fit.conf_int().to_numpy().T
    assert np.all((low < [0, 10]) & ([0, 10] < high) & (high - low < [1, 10]))
    assert "centre of symmetry" in str(fit)


@pytest.mark.slow
def test_bounds_end_the_intervals():
    rng = np.random.default_rng(1)
    data = {"a": (rng.random(400) < 0.5).astype(float), "b": rng.normal(size=400)}
    for seed in range(5):
        fit = tukey_median("a + b ~ 1", data, eps=1, bounds={"a": (0, 1), "b": (-5, 4)}, seed=seed)
        low, high = fit.conf_int().to_numpy().T
        assert np.all((low >= [0, -5]) & (high <= [1, 4]) & (low <= fit.params) & (fit.params <= high))


def column(law, n, rng):
    if law == "whole numbers":
        return rng.integers(-2, 3, n)
    return rng.exponential(size=n) - math.log(2) if law == "exponential" else rng.normal(size=n)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["normal", "exponential", "whole numbers"])
def test_intervals_cover_the_medians(law):
    """60 data sets of 400 rows; more than 14 misses of 5 % each have a probability of 1e-6. They hold about
    any point: few directions do."""
    missed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a = column(law, 400, rng)
        fit = tukey_median(
            "a + b ~ 1", {"a": a, "b": a + rng.normal(size=400)}, eps=4, directions=20, seed=seed
        )
        low, high = fit.conf_int().loc["a"]
        missed += not low <= 0 <= high
    assert missed <= 14


def test_a_column_that_is_mostly_one_value_has_an_interval():
    rng = np.random.default_rng(1)
    data = {"a": 5 + rng.poisson(0.3, 5000).astype(float), "b": rng.normal(size=5000)}
    low, high = tukey_median("a + b ~ 1", data, eps=4, seed=1).conf_int().loc["a"]
    assert 4 < low <= 5 <= high < 6


@pytest.mark.slow
def test_half_of_the_rows_at_one_value_tell_nothing_of_the_others():
    """The released point may be where the other half is."""
    rng = np.random.default_rng(1)
    data = {"a": rng.choice([2.0, 3, 4], 30_000, p=[0.51, 0.32, 0.17]), "b": rng.normal(size=30_000)}
    for seed in range(5):
        low, high = tukey_median("a + b ~ 1", data, eps=1, seed=seed).conf_int().loc["a"]
        assert -10 < low <= 2 <= high < 10


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2_000, 30_000])
def test_a_column_of_few_values_has_finite_ends(rows):
    """Ends lie whole values away however many rows there are."""
    rng = np.random.default_rng(2)
    data = {"a": rng.choice([0.0, 1, 2, 3], rows, p=[0.2, 0.2, 0.4, 0.2]), "b": rng.normal(size=rows)}
    low, high = tukey_median("a + b ~ 1", data, eps=1, seed=1).conf_int().loc["a"]
    assert 0 < low <= 2 <= high < 4


@pytest.mark.slow
def test_a_column_with_many_zeros_has_intervals():
    """Nearly half of the rows at one value: the shortest interval with half of them is nothing, or all."""
    held = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        kids = np.where(rng.random(2_000) < 0.45, 0.0, rng.poisson(2, 2_000) + 1.0)
        fit = dpstats.tukey_median(
            "kids + age ~ 1", {"kids": kids, "age": rng.normal(45, 15, 2_000)}, eps=1, seed=seed
        )
        assert fit.determined.all()
        low, high = fit.conf_int().loc["kids"]
        held += low <= 1 <= high
    assert held >= stats.binom.ppf(1e-6, 12, 0.95)
