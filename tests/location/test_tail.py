"""Limits of a mean from counts: what they remove, what cannot be seen, and how far a row moves the counts."""

import numpy as np
import pytest

from dpstats.engines.local import Rows
from dpstats.linear import scores
from dpstats.location import tail
from dpstats.location.tail import EDGES, choose_limit
from dpstats.mechanisms._kernels import EXPONENT


def counted(r):
    """Counts by side and cell, from the definition."""
    with np.errstate(divide="ignore"):
        cell = np.searchsorted(EDGES, np.floor(2 * np.log2(np.abs(r))) + EXPONENT, side="right")
    return np.array([np.bincount(cell[side], minlength=len(EDGES) + 1) for side in (r <= 0, r > 0)], float)


LAWS = {
    "exponential": lambda g, n: g.exponential(1, n) - np.log(2),
    "log-normal": lambda g, n: (g.lognormal(0, 1, n) - 1) / 2,
    "Pareto": lambda g, n: g.pareto(2.5, n) - 0.32,
    "ones": lambda g, n: (g.random(n) < 0.1) * 1.0,
}


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.slow
def test_what_a_limit_removes_is_within_the_bound(law, side):
    n, sd = 100_000, 10.0
    large = np.sort(LAWS[law](np.random.default_rng(1), 2_000_000))
    for seed in range(20):
        g = np.random.default_rng(seed)
        counts = counted(side * LAWS[law](g, n)) + sd * g.standard_normal((2, len(EDGES) + 1))
        limit = choose_limit(counts, sd, n, 5.0 / n)
        removed = side * np.mean(np.maximum(large - limit.tau, 0.0))
        assert limit.followed and -0.5 * limit.bias < side * limit.removed
        # the noise is 5 tau / n; a limit that removes less than its half does no harm
        assert abs(limit.removed - removed) <= limit.bias + 2.5 * limit.tau / n


@pytest.mark.slow
@pytest.mark.parametrize("side", [1, -1])
def test_the_bound_allows_for_tails_that_two_cells_do_not_show(side):
    """Of 2,500 sizes of firms half of the mean lies beyond the last cell that visibly holds rows. What the
    last two cells continue to, at most, is too little in every second table."""
    n, sd = 2_500, 11.0
    large = (np.random.default_rng(1).lognormal(0, 2, 2_000_000) - 1) / 1.7
    held = 0
    for seed in range(40):
        g = np.random.default_rng(seed)
        counts = counted(side * (g.lognormal(0, 2, n) - 1) / 1.7)
        counts = counts + sd * g.standard_normal(counts.shape)
        limit = choose_limit(counts, sd, n, 6.0 / n)
        # (0 where no side leans)
        assert not 0 < limit.bias < tail._removed(counts, sd, n, limit.tau)[1]
        removed = side * np.mean(np.maximum(large - limit.tau, 0.0))
        held += abs(limit.removed - removed) <= 1.96 * limit.bias
    assert held >= 34


def test_a_thin_tail_beyond_what_is_seen_is_taken_to_be_thin():
    """The middle between nothing and the most that may lie there moved means of counts by two standard
    errors, always upward."""
    n, sd = 5_000, 10.0
    off = []
    for seed in range(40):
        g = np.random.default_rng(seed)
        counts = counted(g.gamma(0.6, 1.3, n) - 0.3) + sd * g.standard_normal((2, len(EDGES) + 1))
        limit = choose_limit(counts, sd, n, 5.0 / n)
        off.append(limit.removed / limit.bias)
    assert abs(np.mean(off)) < 0.4


def test_tails_alike_remove_nothing():
    g = np.random.default_rng(0)
    n = 100_000
    limit = choose_limit(counted(g.standard_t(3, n)) + 10 * g.standard_normal((2, 18)), 10.0, n, 5.0 / n)
    assert limit.removed == limit.bias == 0 and limit.followed and limit.tau > 4


@pytest.mark.parametrize("law", LAWS)
def test_squares_seen_and_beyond(law):
    r = LAWS[law](np.random.default_rng(3), 200_000)
    limit = choose_limit(counted(r), 3.0, len(r), 5.0 / len(r))
    cut = 1.5 * limit.size**2
    limited = np.minimum(np.abs(r), limit.tau) ** 2
    assert limit.size**2 == pytest.approx(np.mean(limited), rel=0.45)
    seen, unseen = limit.squares_beyond(cut)
    assert seen + unseen == pytest.approx(np.mean(np.maximum(limited - cut, 0)), rel=0.5, abs=0.05)
    assert 0 < unseen < seen
    assert limit.fourth(9 * cut) == pytest.approx(np.mean(np.minimum(r**2, 9 * cut) ** 2), rel=1.1)


def test_few_rows_and_rows_without_an_end_are_not_followed():
    g = np.random.default_rng(0)
    few = counted(g.exponential(1, 1500))
    assert not choose_limit(few, 10.0, 1500, 0.01).followed
    many = counted(g.exponential(1, 50_000))
    assert choose_limit(many, 10.0, 50_000, 1e-4).followed
    sparse = counted((g.random(50_000) < 0.002) * 1.0)
    assert not choose_limit(sparse, 10.0, 50_000, 1e-4).followed
    # (on each side too few to stand out)
    both = many.copy()
    both[:, -1] += 25
    assert not choose_limit(both, 10.0, 50_000, 1e-4).followed
    many[1, -1] += 500
    assert not choose_limit(many, 10.0, 50_000, 1e-4).followed


def with_a_hump(g, far, n=20_000, rows=120):
    """Costs: nearly all small, `rows` of them log-normal about `far` times the typical size."""
    return np.append(g.gamma(2, 1, n - rows) - 1.7, far * g.lognormal(0, 0.8, rows))


@pytest.mark.parametrize("side", [1, -1])
def test_rows_that_several_cells_hold_together_are_followed(side):
    """Hardly a cell stands out by itself. The limit moves out to them, and the bound holds, in nearly all
    tables, or they have no end; cells by themselves show them in 25 and the bound holds in 22."""
    n, sd, found, held = 20_000, 10.0, 0, 0
    for seed in range(40):
        g = np.random.default_rng(seed)
        r = side * with_a_hump(g, 20.0)
        exact = counted(r)
        limit = choose_limit(exact + sd * g.standard_normal(exact.shape), sd, n, 5.0 / n)
        found += limit.tau > 20 or not limit.followed
        removed = np.mean(r - np.clip(r, -limit.tau, limit.tau))
        held += not limit.followed or abs(limit.removed - removed) <= limit.bias + 2.5 * limit.tau * 5 / n
    assert found >= 36 and held >= 34


def test_rows_that_the_last_cell_holds_together_with_others_are_not_followed():
    counts = counted(with_a_hump(np.random.default_rng(0), 250.0))
    assert (counts.sum(axis=0)[-5:] < 3.3 * np.sqrt(2) * 15).all()
    limit = choose_limit(counts, 15.0, 20_000, 2e-4)
    assert not limit.followed and limit.tau < 20
    # they are to stand out as those of one cell are, or noise would leave no tail
    assert choose_limit(counts, 18.0, 20_000, 2e-4).followed


def test_one_cell_is_not_seen_together():
    counts = counted(np.random.default_rng(3).standard_normal(20_000))
    visible = np.flatnonzero(counts.sum(axis=0)[1:-1] > 3.3 * np.sqrt(2) * 10)
    counts[1, 14] += 40.0
    assert len(tail._with_others(counts[:, 1:], visible, 10.0)[0]) == len(visible)
    counts[1, 15] += 40.0
    assert list(tail._with_others(counts[:, 1:], visible, 10.0)[0][len(visible) :]) == [13, 14]


@pytest.mark.parametrize("side", [0, 1])
def test_cells_are_seen_together_from_three_standard_deviations_beyond_what_a_tail_continues_to(side):
    """By the rule as docs/privacy/mean.md has it, for two cells of an octave each."""
    sd, counts = 40.0, np.zeros((2, 17))
    counts[:, 9], counts[:, 10] = 250.0, 200.0  # visible, a half-octave each, as is the next
    spread = np.sqrt(2) * sd

    def one_more(rows):
        return rows + np.sqrt(spread**2 + rows)

    last, before = one_more(400.0), 500.0 - np.sqrt(spread**2 + 500.0)
    assert last / before > 0.58  # the most that is followed
    continued = last * (0.58**2 + 0.58**3 + 0.58**4 + 0.58**5)
    counts[1 - side, 11] = -1e3
    for beyond, seen in ((2.95, []), (3.05, [12, 13])):
        rows = continued + beyond * np.sqrt(2 * sd**2 + continued)
        counts[side, 12:14] = 0.7 * rows, 0.3 * rows
        visible = np.arange(11)
        found, ends = tail._with_others(counts, visible, sd)
        assert list(found[len(visible) :]) == seen and ends


def test_beyond_cells_that_are_seen_together_others_are_looked_for():
    """And the other side's noise takes nothing from the rows of one."""
    counts = counted(np.random.default_rng(3).standard_normal(20_000))
    visible = np.flatnonzero(counts.sum(axis=0)[1:-1] > 3.3 * np.sqrt(2) * 10)
    counts[1, 12:17] = 60.0, 60.0, -300.0, 40.0, 40.0
    counts[0, 12:14] = -90.0
    found = tail._with_others(counts[:, 1:], visible, 10.0)[0]
    assert list(found[len(visible) :]) == [11, 12, 14, 15]
    limit = choose_limit(counts, 10.0, 20_000, 2e-4)
    assert limit.together == 4 and (limit.share >= 0).all()


def test_squares_of_cells_that_are_seen_together():
    """What a standard deviation would rest on: those cells, and what lies beyond them."""
    counts, found = counted(with_a_hump(np.random.default_rng(1), 20.0)), 0
    for seed in range(20):
        noise = 10 * np.random.default_rng(seed).standard_normal(counts.shape)
        limit = choose_limit(counts + noise, 10.0, 20_000, 2e-4)
        seen, unseen = limit.squares_beyond(4.0)
        if limit.together:
            found += 1
            assert unseen < limit.squares_together(4.0) <= seen + unseen
    assert found
    alone = choose_limit(counted(np.random.default_rng(3).standard_normal(20_000)), 10.0, 20_000, 2e-4)
    assert alone.together == 0 == alone.squares_together(4.0)


@pytest.mark.parametrize("law", ["normal", *LAWS])
def test_what_a_tail_continues_to_is_no_hump(law):
    """The limit is where the cells by themselves have it, in all but 1.5 % of tables."""
    draw = LAWS.get(law, lambda g, n: g.standard_normal(n))
    n, sd, moved = 20_000, 10.0, 0
    exact = counted(draw(np.random.default_rng(7), n))
    for seed in range(400):
        counts = exact + sd * np.random.default_rng(seed).standard_normal(exact.shape)
        visible = np.flatnonzero(counts.sum(axis=0)[1:-1] > 3.3 * np.sqrt(2) * sd)
        with_others, ends = tail._with_others(counts[:, 1:], visible, sd)
        moved += len(with_others) > len(visible) or not ends
    assert moved <= 0.015 * 400


def test_nothing_visible_gives_no_limit():
    counts = np.zeros((2, 18))
    counts[:, 0] = 1e4
    assert choose_limit(counts, 10.0, 2e4, 1e-3) is None
    counts[1, -1] = 1e4
    assert choose_limit(counts, 10.0, 3e4, 1e-3) is None


def test_a_row_adds_one_count(monkeypatch):
    """Whatever it holds: the counts move by 1 in the l2-norm, which is the sensitivity that is stated."""
    noise = []
    monkeypatch.setattr(
        scores, "gaussian", lambda value, sensitivity, mu, rng: noise.append(sensitivity) or value
    )
    base = [0.3, -2.0, 0.0, 1e5]

    def counts(values):
        rows = Rows(np.ones((len(values), 1)), np.array(values))
        return scores.product_counts(rows, np.zeros(1), np.inf, EDGES, 1.0, None)

    for value in (0.0, -0.0, 5e-324, -5e-324, 1e-3, 1.0, -1.0, 255.9, 256.1, 1e308, -1e308):
        assert np.linalg.norm(counts([*base, value]) - counts(base)) == 1
    assert set(noise) == {1.0}
    values = np.random.default_rng(0).standard_cauchy(500)
    np.testing.assert_array_equal(counts(values.tolist()), counted(values))


@pytest.mark.parametrize(("index", "shape"), [(1.0, 0.5), (2.0, 1.0), (0.75, 0.2)])
def test_a_tail_of_the_family_is_known_by_its_counts(index, shape):
    """Cells begin where the family has them: what lies beyond a limit is that of the law, on either side."""
    n, grid = 10_000_000, np.linspace(2.0, 2e4, 4_000_000)
    lower = 2.0 ** (tail._HALF_OCTAVES[tail._NEAR - 1 :] / 2)
    beyond = 0.2 * np.exp(-index / shape * (lower**shape - 1))
    counts = np.zeros((2, len(EDGES) + 1))
    counts[1, tail._NEAR :] = n * (beyond - np.append(beyond[1:], 0.0))
    excess = np.trapezoid(0.2 * np.exp(-index / shape * (grid**shape - 1)), grid)
    for side in (counts, counts[::-1]):
        sign = 1 if side is counts else -1
        assert tail._removed(side, 1.0, n, 2.0) == pytest.approx((sign * excess, 0), abs=0.02 * excess)
