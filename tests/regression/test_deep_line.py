"""Lines drawn by their depth: the law on lattices small enough to list, what one record does to it, hostile data."""

import functools
import math

import numpy as np
import pytest
from scipy.stats import chi2

from dpstats.depth import regression, regression_levels
from dpstats.mechanisms.rng import Randomness
from dpstats.regression import _deep_line as deep
from dpstats.regression import _line_tree as tree
from dpstats.regression._deep_line import Candidates, deep_line

SMALL = {"bounded": Candidates.bounded(3), "unbounded": Candidates.unbounded(4, 1)}


@functools.cache
def listed(which):
    """All candidates of a small lattice, once for every piece they are in: ``(unit, k, c)``."""
    lattice = SMALL[which]
    out = []
    for (first, stop, lo, hi), unit in zip(lattice.pieces, lattice.units, strict=True):
        for k in range(first, stop):
            low, high = (np.rint(lattice.y[side] * unit - lattice.x[side] * k) for side in (lo, hi))
            out += [(unit, k, int(c)) for c in np.arange(low, high)]
    return np.array(out)


def depths(x, y, candidates):
    """Depth by its definition over all splits of the covariate, from the signs of the rounded residuals."""
    unit, k, c = np.array(candidates, dtype=float).T[:, :, None]
    above = c < np.rint(y * unit - x * k)
    if len(x) == 0:
        return np.zeros(len(unit), dtype=int)
    best = np.full(len(unit), len(x))
    for split in (*np.unique(x), -np.inf):
        left = x <= split
        one = (above & left).sum(axis=1) + (~above & ~left).sum(axis=1)
        best = np.minimum(best, np.minimum(one, len(x) - one))
    return best


def law(x, y, which, rate):
    weights = np.exp(rate * depths(x, y, listed(which)))
    return weights / weights.sum()


def data(n, seed, ties=False):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n), rng.normal(size=n) / 2
    return (x.round(), y.round(1)) if ties else (x, y)


def p_value(x, y, which, rate, draws=1000, seed=1):
    """Of a chi-square test of drawn candidates, those with little weight put together."""
    rng = Randomness(seed)
    probability = law(x, y, which, rate)
    keys = [(c / unit, k / unit) for unit, k, c in listed(which)]
    expected, seen = {}, {}
    for key, p in zip(keys, probability, strict=True):
        expected[key] = expected.get(key, 0.0) + p * draws
    for _ in range(draws):
        key = deep._draw(x, y, rate, SMALL[which], rng)
        if key not in expected:
            return 0.0
        seen[key] = seen.get(key, 0) + 1
    order = sorted(expected, key=expected.get)
    bins, e, s = [], 0.0, 0
    for key in order:
        e, s = e + expected[key], s + seen.get(key, 0)
        if e >= 8:
            bins.append((e, s))
            e, s = 0.0, 0
    bins.append((e + 1e-9, s)) if e > 4 else None
    e, s = np.array(bins).T
    return float(chi2.sf(np.sum((s - e) ** 2 / e), len(bins) - 1))


CASES = [("bounded", 1, 0.4, False), ("bounded", 7, 0.3, False), ("bounded", 30, 1.5, False), ("bounded", 12, 1.0, True),
         ("unbounded", 12, 0.6, False), ("unbounded", 15, 1.0, True)]  # fmt: skip


@pytest.mark.parametrize(("which", "n", "rate", "ties"), CASES)
def test_law_of_the_draws(which, n, rate, ties):
    """False-alarm rate 1e-6 for all cases together."""
    assert p_value(*data(n, n, ties), which, rate) > 1e-6 / len(CASES)


def test_a_sampler_that_takes_every_proposal_is_caught(monkeypatch):
    monkeypatch.setattr(tree, "depth_at", lambda *a: 10**6)
    assert p_value(*data(12, 12, True), "bounded", 1.0) < 1e-9


def test_overlapping_nodes_are_caught(monkeypatch):
    monkeypatch.setattr(tree, "holds", lambda *a: True)
    assert p_value(*data(7, 7), "bounded", 0.3) < 1e-9


def kernel_law(x, y, which, rate):
    """The law with the depths of the compiled kernel, for what a record does to it."""
    by_x = np.argsort(x, kind="stable")
    last = np.append(np.diff(x[by_x]) > 0, True)[: len(x)]
    found = [tree.depth_at(x[by_x], y[by_x], last, float(k), float(c), unit) for unit, k, c in listed(which)]
    weights = np.exp(rate * np.array(found))
    return weights / weights.sum()


def worst_ratio(rate, which="bounded", count=60):
    """Largest log-ratio between the laws of neighbours: records replaced, also by unusable ones, jitter kept."""
    rng, worst = np.random.default_rng(3), 0.0
    for _ in range(count):
        n = int(rng.integers(1, 9))
        x, y = rng.integers(-1, 2, n).astype(float), rng.integers(-2, 3, n) / 2 + 1e-3 * rng.uniform(-1, 1, n)
        here = kernel_law(x, y, which, rate)
        for _ in range(12):
            i = rng.integers(n)
            there_x, there_y = x.copy(), y.copy()
            there_x[i], there_y[i] = rng.integers(-2, 3), rng.choice([-5.0, -0.3, 0.2, 5.0])
            if rng.random() < 0.2:
                there_x, there_y = np.delete(there_x, i), np.delete(there_y, i)
            worst = max(worst, float(np.abs(np.log(here / kernel_law(there_x, there_y, which, rate))).max()))
    return worst


def test_privacy_of_a_replaced_record():
    eps = 1.4
    assert 0.7 * eps < worst_ratio(eps / 2) <= eps * (1 + 1e-12)


def test_dropping_the_two_is_caught():
    eps = 1.4
    assert worst_ratio(eps) > 1.2 * eps


@pytest.mark.parametrize("seed", range(5))
def test_kernel_against_the_definition_and_the_public_depth(seed):
    rng = np.random.default_rng(seed)
    x, y = data(25, seed, ties=seed % 2)
    by_x = np.argsort(x, kind="stable")
    x, y = x[by_x], y[by_x] + 1e-9 * rng.uniform(-1, 1, 25)
    last = np.append(np.diff(x) > 0, True)
    unit = 2.0**40
    fits = rng.normal(size=(40, 2))
    candidates = np.rint(fits * unit)
    got = [tree.depth_at(x, y, last, k, c, unit) for c, k in candidates]
    assert got == depths(x, y, [(unit, k, c) for c, k in candidates]).tolist()
    assert got == regression(candidates / unit, x, y, rtol=0.0).tolist()
    assert got == [tree.depth_at.py_func(x, y, last, k, c, unit) for c, k in candidates]


def grown(x, y, rate, candidates, most=6000):
    by_x = np.argsort(x, kind="stable")
    last = np.append(np.diff(x[by_x]) > 0, True)
    x, y = np.concatenate([x[by_x], candidates.x]), np.concatenate([y[by_x], candidates.y])
    rows = (x, y, last, rate, 2.0**candidates.bits)
    I, F, used = deep._roots(candidates, rows)
    I, F = tree.grow(I, F, most)
    return I, F, tree.refine(I, F, used, *rows, 1 / rate, most), rows


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bits", [6, 48])
def test_leaves_partition_the_lattice_and_bound_the_depth(seed, bits):
    x, y = data(60, seed, ties=seed % 2)
    y = y + 2.0**-36 * np.random.default_rng(seed).uniform(-1, 1, 60)
    I, F, used, rows = grown(x, y, 1.0, Candidates.bounded(bits))
    leaves = np.flatnonzero(I[:used, tree.CHILD] < 0)
    rng = np.random.default_rng(seed)
    for node in rng.choice(leaves, 40):
        first, stop, low, bound, height = I[node, [tree.FIRST, tree.STOP, tree.LO, tree.BOUND, tree.HEIGHT]]
        if height == 0:
            continue
        k = float(rng.integers(first, stop))
        c = tree.line_at(rows[0], rows[1], low, k, F[node, 0]) + rng.integers(height)
        inside = []
        for other in leaves:
            o = I[other]
            floor = tree.line_at(rows[0], rows[1], o[tree.LO], k, F[other, 0])
            if (
                o[tree.FIRST] <= k < o[tree.STOP]
                and floor <= c < floor + o[tree.HEIGHT]
                and tree.holds(I, F, other, *rows[:2], k, c)
            ):
                inside.append(other)
        depth = tree.depth_at(*rows[:3], k, c, F[node, 0])
        K = 2**bits
        if abs(k) <= K and -K + abs(k) <= c < K - abs(k):
            (one,) = inside
            assert I[one, tree.BOUND] - I[one, tree.OPEN] <= depth <= I[one, tree.BOUND]


def hostile(n=300):
    rng = np.random.default_rng(8)
    x, steps, z = rng.normal(size=n), rng.integers(-8, 8, n).astype(float), rng.normal(size=n)
    return {
        "constant": (x, np.full(n, 5.0), (5.0, 0.0, 1e-6)),
        "zero": (x, np.zeros(n), (0.0, 0.0, 1e-6)),
        "collinear": (x, 1 + 2 * x, (1.0, 2.0, 1e-6)),
        "one covariate": (np.full(n, 0.3), z, None),
        "one record": (np.full(n, 0.3), np.ones(n), None),
        "steps": (steps, np.round(1 + 0.3 * steps + z), (1.0, 0.3, 0.6)),
        "two covariates": ((steps > 0) * 1.0, (steps > 0) + np.round(z), None),
        "mostly zero": (x, np.where(z < 0.2, 0.0, np.exp(z)), (0.0, 0.0, 1.5)),
        "two clusters": (np.where(steps > 0, 1e-3, -1e3) + 1e-6 * x, z, None),
        "dust": (0.1 + np.where(steps > 0, 0.2, 2.0**-54 * steps), 1 + 2.0**-52 * steps, None),
        "wild": (np.tan(1.5707 * np.tanh(x)) ** 3, 10.0 ** (30 * z), None),
    }


@pytest.mark.parametrize("name", hostile())
@pytest.mark.parametrize("lattice", [Candidates.unbounded(), Candidates.bounded()])
def test_hostile_data(name, lattice):
    x, y, line = hostile()[name]
    scale = 1.0 if lattice is Candidates.unbounded() else 100.0
    got = deep_line(x, np.clip(y / scale, -1e100, 1e100), 5.0, lattice, Randomness(1))
    assert np.all(np.isfinite(got))
    if line is not None:
        assert np.abs(np.array(got) * scale - line[:2]).max() < line[2]


def test_depth_of_a_draw_is_near_the_largest():
    """The shortfall times ``eps / 2`` is the log of a ratio of areas: here 44 nats at most."""
    rng = np.random.default_rng(9)
    for seed in range(3):
        x = rng.normal(size=400)
        y = 1e6 + 3 * x + rng.standard_cauchy(400)
        fit = deep_line(x, y, 4.0, Candidates.unbounded(), Randomness(seed))
        assert regression([fit], x, y)[0] > regression_levels(x, y).depth - 20


def test_no_rows():
    assert np.all(np.abs(deep_line(np.empty(0), np.empty(0), 1.0, Candidates.bounded(), Randomness(1))) <= 1)


def test_candidates_are_where_they_should_be():
    """Shells do not overlap, and each has as many candidates; half of the box's diamond is on either side."""
    for which in SMALL:
        unit, k, c = listed(which).T
        size = (np.abs(c) + np.abs(k)) / unit
        if which == "bounded":
            assert size.max() <= 1
            continue
        for one in np.unique(unit):
            radius = 2.0**4 / one
            assert np.all((size[unit == one] >= radius / 4) & (size[unit == one] <= radius))
            assert len(np.unique(np.column_stack([k, c])[unit == one], axis=0)) == (unit == one).sum()
        assert len({(unit == one).sum() for one in np.unique(unit)}) == 1
    assert math.isclose(Candidates.unbounded().units.min(), 2.0**48 / 4.0**50)
