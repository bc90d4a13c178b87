"""Lines drawn by their depth: the law on lattices small enough to list, what one record does to it, hostile
data."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dpstats.depth import regression, regression_levels
from dpstats.mechanisms import deep_line as deep
from dpstats.mechanisms import line_tree as tree
from dpstats.mechanisms.deep_line import Candidates, deep_line
from dpstats.mechanisms.rng import Randomness

SMALL = {"bounded": Candidates.bounded(3, fine=1), "unbounded": Candidates.unbounded(4, 1, fine=1)}


@functools.cache
def listed(which):
    """All candidates of a small lattice, once for every piece they are in: ``(unit, s, c)``."""
    lattice = SMALL[which]
    grain, out = 2**lattice.fine, []
    for shell, unit in enumerate(lattice.units):
        for first, stop, lo, hi in lattice.pieces:
            for k in range(first, stop):
                low, high = (
                    lattice.y[i] * unit - lattice.x[i] * k
                    for i in (tree.SIDES * shell + lo, tree.SIDES * shell + hi)
                )
                out += [
                    (unit, k / unit, c / (unit * grain))
                    for c in range(round(low * grain), round(high * grain))
                ]
    return np.array(out)


def depths(x, y, candidates):
    """Depth by its definition over all splits of the covariate, from the signs of the residuals."""
    _, s, c = np.array(candidates, dtype=float).T[:, :, None]
    above = c < y - x * s
    if len(x) == 0:
        return np.zeros(len(s), dtype=int)
    best = np.full(len(s), len(x))
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
    if ties == "far":
        return 40 + x, y
    if ties == "parallel":
        return np.where(x > 0, 1e9, -3.0), y
    return (x.round(), y.round(1)) if ties else (x, y)


def p_value(x, y, which, rate, draws=1000, seed=1):
    """Of a chi-square test of drawn candidates, those with little weight put together."""
    rng = Randomness(seed)
    probability = law(x, y, which, rate)
    keys = [(c, s) for _, s, c in listed(which)]
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


CASES = [("bounded", 1, 0.4, False), ("bounded", 7, 0.3, False), ("bounded", 30, 1.5, False),
         ("bounded", 12, 1.0, True), ("unbounded", 12, 0.6, False), ("unbounded", 15, 1.0, True),
         ("bounded", 11, 1.2, "far"), ("unbounded", 25, 0.7, "far"),
         ("unbounded", 14, 0.9, "parallel")]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("which", "n", "rate", "ties"), CASES)
def test_law_of_the_draws(which, n, rate, ties):
    """False-alarm rate 1e-6 for all cases together."""
    assert p_value(*data(n, n, ties), which, rate) > 1e-6 / len(CASES)


@pytest.mark.slow
def test_a_sampler_that_takes_every_proposal_is_caught(monkeypatch):
    monkeypatch.setattr(tree, "depth_at", lambda *a: 10**6)
    assert p_value(*data(12, 12, True), "bounded", 1.0) < 1e-9


def test_overlapping_nodes_are_caught(monkeypatch):
    monkeypatch.setattr(tree, "above", lambda *a: True)
    assert p_value(*data(7, 7), "bounded", 0.3) < 1e-9


def kernel_law(x, y, which, rate):
    """The law with the depths of the compiled kernel, for what a record does to it."""
    by_x = np.argsort(x, kind="stable")
    last = np.append(np.diff(x[by_x]) > 0, True)[: len(x)]
    found = [tree.depth_at(x[by_x], y[by_x], last, s, (c, 0.0, 0.0)) for _, s, c in listed(which)]
    weights = np.exp(rate * np.array(found))
    return weights / weights.sum()


def worst_ratio(rate):
    """Largest log-ratio between the laws of neighbours: records replaced, also by unusable ones, jitter
    kept."""
    rng, worst = np.random.default_rng(3), 0.0
    for _ in range(60):
        n = int(rng.integers(1, 9))
        x, y = rng.integers(-1, 2, n).astype(float), rng.integers(-2, 3, n) / 2 + 1e-3 * rng.uniform(-1, 1, n)
        here = kernel_law(x, y, "bounded", rate)
        for _ in range(12):
            i = rng.integers(n)
            there_x, there_y = x.copy(), y.copy()
            there_x[i], there_y[i] = rng.integers(-2, 3), rng.choice([-5.0, -0.3, 0.2, 5.0])
            if rng.random() < 0.2:
                there_x, there_y = np.delete(there_x, i), np.delete(there_y, i)
            worst = max(
                worst, float(np.abs(np.log(here / kernel_law(there_x, there_y, "bounded", rate))).max())
            )
    return worst


@pytest.mark.slow
def test_privacy_of_a_replaced_record():
    eps = 1.4
    assert 0.7 * eps < worst_ratio(eps / 2) <= eps * (1 + 1e-12)


@pytest.mark.slow
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
    fits = rng.normal(size=(40, 2))
    got = [tree.depth_at(x, y, last, s, (c, 0.0, 0.0)) for c, s in fits]
    assert got == depths(x, y, [(1.0, s, c) for c, s in fits]).tolist()
    assert got == regression(fits, x, y, rtol=0.0).tolist()
    assert got == [tree.depth_at.py_func(x, y, last, s, (c, 0.0, 0.0)) for c, s in fits]


def near_ties(count):
    """Lines that all but meet, of all sizes: ``(x_i, y_i, x_j, y_j, s)``, and a centre on the first but for
    its last parts."""
    rng = np.random.default_rng(5)
    for _ in range(count):
        x_i, x_j = rng.normal(size=2) * 10.0 ** rng.integers(-20, 21, 2)
        s = float(rng.integers(-(2**48), 2**48)) * 2.0 ** rng.integers(-100, 50)
        y_i = rng.normal() * 10.0 ** rng.integers(-15, 30)
        y_j = float(y_i + (x_j - x_i) * s) * (1 + rng.integers(-2, 3) * 2.0**-52)
        c = float(y_i - x_i * s), *(rng.normal(size=2) * abs(y_i) * 2.0 ** -np.array([54.0, 107.0]))
        yield x_i, y_i, x_j, y_j, s, c


def test_comparisons_are_exact():
    for x_i, y_i, x_j, y_j, s, c in near_ties(2000):
        at, to, slope = Fraction(y_i), Fraction(y_j), Fraction(s)
        difference = at - to - (Fraction(x_i) - Fraction(x_j)) * slope
        got = tree._difference(x_i, y_i, x_j, y_j, s)
        assert abs(Fraction(got) - difference) <= abs(difference) / 2**18
        exact = sum(map(Fraction, c)) < at - Fraction(x_i) * slope
        assert tree.above(np.array([x_i]), np.array([y_i]), 0, s, c) == exact


def test_comparisons_in_doubles_are_caught():
    wrong = 0
    for x_i, y_i, x_j, y_j, s, _ in near_ties(2000):
        difference = Fraction(y_i) - Fraction(y_j) - (Fraction(x_i) - Fraction(x_j)) * Fraction(s)
        wrong += ((y_i - y_j) - (x_i - x_j) * s > 0) != (difference > 0)
    assert wrong > 100


def grown(x, y, rate, candidates, all_open=False):
    """The tree before the first draw, or with every node cut that can be."""
    nodes, rows = deep._roots(x, y, rate, candidates)
    while not tree.refine(nodes.fields, nodes.reals, nodes.entries, nodes.used, *rows):
        nodes.grow(2 * len(nodes.fields))
    node = 0
    while all_open and node < nodes.used[0]:
        if np.isfinite(nodes.reals[node, tree.WEIGHT]) and nodes.fields[node, tree.OPEN]:
            if nodes.used[0] + 2 > len(nodes.fields):
                nodes.grow(2 * len(nodes.fields))
            tree.split(nodes.fields, nodes.reals, nodes.entries, nodes.used, node, *rows)
        node += 1
    return nodes, rows


def shell_and_sides(I, F, node, lattice, n):
    """The first shell of a node, and how many lines on its sides are from there to a later one."""
    shell = int(np.flatnonzero(lattice.units == F[node, tree.UNIT])[0])
    return shell, lambda there: [tree.in_shell(I[node, i], there - shell, n) for i in (tree.LO, tree.HI)]


def holds(I, F, node, shell, s, c, lattice, rows):
    """Whether a leaf holds a candidate of a shell."""
    x, y, last = rows[:3]
    first, lines = shell_and_sides(I, F, node, lattice, len(last))
    if not first <= shell < first + I[node, tree.SHELLS]:
        return False
    if not I[node, tree.FIRST] <= s * lattice.units[shell] < I[node, tree.STOP]:
        return False
    lo, hi = lines(shell)
    return not tree.above(x, y, lo, s, (c, 0.0, 0.0)) and tree.above(x, y, hi, s, (c, 0.0, 0.0))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lattice", [Candidates.bounded(6), Candidates.bounded(), Candidates.unbounded()])
def test_leaves_partition_the_lattice_and_bound_the_depth(seed, lattice):
    x, y = data(60, seed, ties=(False, True, "far", "parallel")[seed])
    y = y + 2.0**-36 * np.random.default_rng(seed).uniform(-1, 1, 60)
    nodes, rows = grown(x, y, 1.0, lattice)
    x, y, last = rows[:3]
    I, F = nodes.fields[: nodes.used[0]], nodes.reals[: nodes.used[0]]
    leaves = np.flatnonzero(np.isfinite(F[:, tree.WEIGHT]))
    rng = np.random.default_rng(seed)
    found = 0
    for j in range(40):
        if j % 2:
            # a deep one
            node = leaves[np.argmax(F[leaves, tree.WEIGHT] + rng.gumbel(size=len(leaves)))]
            first, lines = shell_and_sides(I, F, node, lattice, len(last))
            shell = first + int(rng.integers(I[node, tree.SHELLS]))
            s = rng.integers(I[node, tree.FIRST], I[node, tree.STOP]) / lattice.units[shell]
            c = float(np.mean([y[i] - x[i] * s for i in lines(shell)]))
        else:
            shell = int(rng.integers(len(lattice.units)))
            s, c = rng.uniform(-1, 1, 2) * lattice.y[tree.SIDES * shell]
            s = np.rint(s * lattice.units[shell]) / lattice.units[shell]
        size = (abs(s) + abs(c)) / lattice.y[tree.SIDES * shell]
        if 1e-9 + (len(lattice.units) > 1) / 4 < size < 1 - 1e-9:
            (one,) = [node for node in leaves if holds(I, F, node, shell, s, c, lattice, rows)]
            depth = tree.depth_at(x, y, last, s, (c, 0.0, 0.0))
            assert I[one, tree.BOUND] - I[one, tree.OPEN] <= depth <= I[one, tree.BOUND]
            found += 1
    assert found > 15


def test_an_entry_of_a_list_stands_for_the_run_before_it():
    """The module's example: six observations with signs ``+ ? - - ? +``, and again with the last two tied."""
    signs = np.array([1, 0, -1, -1, 0, 1])
    frame = 0.0, 0.0, 0.0, 1.0, 0.0, 1.0  # the centres from 0 to 1
    x, y = np.zeros(6), 0.5 + signs
    for last, runs, bound in (
        ([True] * 6, [(1, 1, 1, 1), (4, -2, -2, -1), (-1, 1, 1, 1)], 3),
        ([True] * 2 + [False, True] * 2, [(1, 1, 1, 1), (4, -2, -2, -2), (-1, 1, 1, 1)], 3),
        (
            [False] * 5 + [True],
            [(1, 1, tree._NONE, -tree._NONE), (4, -2, tree._NONE, -tree._NONE), (-1, 1, 1, 1)],
            4,
        ),
    ):
        nodes = tree.Tree(6, 1)
        nodes.fields[0, [tree.SHELLS, tree.LENGTH]] = 1, 6
        for _ in range(2):  # from all observations, and from the list of the open ones
            got = tree._bound(nodes.fields, nodes.entries, 0, x, y, np.array(last), frame)
            assert got == (bound, 2)
            nodes.fields[0, tree.BOUND], nodes.fields[0, tree.OPEN] = got
            tree._shorten(nodes.fields, nodes.entries, nodes.used, 0, x, y, np.array(last), frame)
            start, length = nodes.fields[0, tree.LIST : tree.LENGTH + 1]
            assert [tuple(e) for e in nodes.entries[start : start + length + 1].tolist()] == runs


def cuts(x, y, lattice):
    """How many cuts it takes until no observation is open in any node."""
    y = y + 2.0**-36 * np.abs(y) * np.random.default_rng(1).uniform(-1, 1, len(y))
    nodes, _ = grown(x, y, 1.0, lattice, all_open=True)
    leaves = np.isfinite(nodes.reals[: nodes.used[0], tree.WEIGHT])
    assert not np.any(nodes.fields[: nodes.used[0], tree.OPEN][leaves])
    return (nodes.used[0] - len(lattice.pieces)) // 2


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 12])
def test_cuts_are_bounded_whatever_the_data(n):
    """The cap of the documentation; a twentieth of it would not do."""
    rng = np.random.default_rng(n)
    z, e = rng.normal(size=n), rng.standard_t(3, size=n)
    most, cap = 0, (n**2 + 606 * n) * math.log2(4 * n)
    for x in (
        z,
        1e5 + z,
        2.0**20 + z.round(),
        2.0**90 * z,
        2.0**-90 * z,
        np.where(z > 0, 1e9, -3.0),
        10.0 ** (15 * z),
    ):
        for y in (1 + e, np.full(n, 5.0), 2 + 3 * x, 10.0 ** (15 * e)):
            most = max(most, cuts(np.clip(x, -1e30, 1e30), np.clip(y, -1e40, 1e40), Candidates.unbounded()))
    assert cap / 20 < most <= cap


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
        unit, s, c = listed(which).T
        size = np.abs(c) + np.abs(s)
        if which == "bounded":
            assert size.max() <= 1
            continue
        for one in np.unique(unit):
            radius = 2.0**4 / one
            assert np.all((size[unit == one] >= radius / 4) & (size[unit == one] <= radius))
            assert len(np.unique(np.column_stack([s, c])[unit == one], axis=0)) == (unit == one).sum()
        assert len({(unit == one).sum() for one in np.unique(unit)}) == 1
    assert math.isclose(Candidates.unbounded().units.min(), 2.0**48 / 4.0**50)


def test_the_rate_is_half_of_eps(monkeypatch):
    """The law of the draws, and what a record does to it, are tested by their rate."""
    seen = []
    monkeypatch.setattr(deep, "_draw", lambda x, y, rate, candidates, rng: seen.append(rate) or (0.0, 0.0))
    deep.deep_line(np.arange(3.0), np.arange(3.0), 1.4, SMALL["bounded"], Randomness(1))
    assert seen == [0.7]


def test_values_are_moved_to_where_comparisons_are_exact(monkeypatch):
    """Beyond, products overflow or lose their errors, and depths would be none that the bounds are of."""
    seen = []
    monkeypatch.setattr(deep, "_draw", lambda x, y, *more: seen.append((x, y)) or (0.0, 0.0))
    x, y = [1e308, -1e308, 5e-324, 2.0**-101, 2.0**-100], [1e308, -1e308, 0.0, 1.0, -1.0]
    deep.deep_line(np.array(x), np.array(y), 1.0, SMALL["bounded"], Randomness(1))
    ((x, y),) = seen
    assert x.tolist() == [2.0**100, -(2.0**100), 0.0, 0.0, 2.0**-100]
    assert np.abs(y).max() <= 2.0**150 * (1 + 2.0**-35)
