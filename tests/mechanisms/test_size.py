"""The size of the values: the exact law of its draw for small data sets and all their neighbours, and the
lattice that goes with it."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax, softmax

from dpstats.mechanisms import size
from dpstats.mechanisms.exponential import float_keys, keys_to_floats, log_weights, quantile_cells
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.size import LARGEST, SizedLattice, release_size, scores, sizes

MAX, TINY = np.finfo(float).max, 5e-324
HOSTILE = (-MAX, -16.0, -1.0, -0.0, TINY, 2.0**-80, np.nextafter(1.0, 0), 1.0, 17.0, 2.0**100)
EPS = 1.3


def worst_log_ratio(x, weigh, exponents):
    """The largest log-ratio of the law for `x` and for `x` with any one record more."""
    one = log_softmax(weigh(np.sort(x), exponents, EPS))
    return max(
        float(np.abs(one - log_softmax(weigh(np.sort([*x, more]), exponents, EPS))).max()) for more in HOSTILE
    )


def worst(weigh=size.log_weights, largest=LARGEST):
    """Over all data sets of up to three hostile values, and piles of ties in many proportions."""
    few = (x for n in range(4) for x in itertools.combinations_with_replacement(HOSTILE, n))
    piles = (
        [1e-30] * low + [1.0] * middle + [-1e9] * high
        for low, middle, high in itertools.product((0, 1, 20, 60), (0, 20, 61), (0, 1, 20, 60))
    )
    exponents = sizes(largest)
    return max(worst_log_ratio(x, weigh, exponents) for x in itertools.chain(few, piles))


@pytest.mark.parametrize("largest", [LARGEST, 5.0, 1e-30])
def test_no_log_ratio_exceeds_eps(largest):
    assert worst(largest=largest) <= EPS * (1 + 1e-9)


def test_eps_is_attained_and_mistakes_are_caught():
    assert worst() > 0.99 * EPS

    def without_two(x, exponents, eps):
        return 2 * eps * scores(x, exponents) + size.log_weights(x, exponents, 0.0)

    def without_the_middle(x, exponents, eps):
        """Counts are compared with a number that does not depend on the rows: they move by 1, not 1/2."""
        edges = np.ldexp(1.0, exponents[1:])
        below = np.concatenate([[0], (np.abs(x)[:, None] < edges).sum(axis=0), [len(x)]]) - 20.0
        return -eps * np.maximum(np.maximum(below[:-1], -below[1:]), 0.0)

    def of_a_quarter(x, exponents, eps):
        """A quantile other than the median has a larger sensitivity."""
        edges = np.ldexp(1.0, exponents[1:])
        below = np.concatenate([[0], (np.abs(x)[:, None] < edges).sum(axis=0), [len(x)]]) - len(x) / 4
        return -eps * np.maximum(np.maximum(below[:-1], -below[1:]), 0.0)

    assert worst(without_two) > 1.9 * EPS
    assert worst(without_the_middle) > 1.2 * EPS
    assert worst(of_a_quarter) > 1.2 * EPS


def test_scores_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    for largest in (LARGEST, 3.0, 1e-40):
        exponents = sizes(largest)
        for _ in range(100):
            x = np.sort(rng.choice([*HOSTILE, *rng.normal(size=3), *(1e-9 * rng.normal(size=3))],
                                   rng.integers(0, 12)))  # fmt: skip
            got = scores(x, exponents)
            for i in range(len(exponents)):
                first = 0.0 if i == 0 else 2.0 ** exponents[i]
                last = math.inf if i + 1 == len(exponents) else 2.0 ** exponents[i + 1]
                g = [sum(abs(v) < t for v in x) - len(x) / 2 for t in (first, last)]
                assert got[i] == -max(g[0], -g[1], 0)


def test_sizes_suit_public_bounds():
    assert np.all(np.diff(sizes()) > 0) and len(sizes()) == 42
    for largest in (1e300, LARGEST, 1e6, 16.0, 15.9, 1.0, 1e-3, 1e-30, 1e-300, TINY):
        exponents = sizes(largest)
        assert np.all(np.ldexp(1.0, exponents[1:]) <= largest) and exponents.min() >= -1022
        # by 126 powers of two below, or where doubles end
        assert exponents[0] <= max(math.frexp(largest)[1] - 1 - 126, -1022) or largest > 1
        low, high = SizedLattice(int(exponents[-1]), (-largest, largest)).ends
        assert low < 0 < high


def test_draws_follow_the_law():
    """20,000 draws; a false alarm of 1e-6."""
    x, eps = np.sort(np.random.default_rng(2).normal(size=40)), 0.5
    rng = Randomness(3)
    drawn = [release_size(x, eps, rng, 1e6) for _ in range(20_000)]
    exponents = sizes(1e6)
    expected = softmax(size.log_weights(x, exponents, eps)) * len(drawn)
    counts = np.array([drawn.count(e) for e in exponents])
    rare = expected < 5
    counts, expected = (np.append(v[~rare], v[rare].sum()) for v in (counts, expected))
    assert counts.sum() == len(drawn)
    assert stats.chisquare(counts, expected).pvalue > 1e-6


def test_rows_that_suffice_have_their_size_and_others_the_least():
    """Exactly. A size above the values may make zeros of them; the least does nothing."""
    rng, exponents = np.random.default_rng(4), sizes()
    for scale, at_most in ((1e-9, 0.0017), (1.0, 0.0003), (3e4, 0.0003), (1e9, 0.0003)):
        for law in (rng.standard_normal, rng.standard_cauchy, rng.standard_exponential):
            for rows in (0, 10, 100, 200, 300, 400, 600, 3_000):
                x = np.sort(scale * law(rows))
                # of a median at eps = 1
                weights = softmax(size.log_weights(x, exponents, 0.12 * 0.35))
                middle = np.median(np.abs(x)) if rows else scale
                above = np.ldexp(1.0, exponents) > 16 * middle
                assert weights[above].sum() <= at_most
                right = (np.ldexp(1.0, exponents) > middle / 256) & ~above
                if rows == 3_000 or (rows == 600 and scale <= 1):
                    assert weights[right].sum() > 0.9
                if rows <= 200:
                    assert weights[0] > 0.9
    # a column that is mostly 0 has the least, whatever the others are
    x = np.sort(np.where(rng.random(3_000) < 0.6, 0.0, rng.standard_normal(3_000)))
    assert softmax(size.log_weights(x, exponents, 0.12 * 0.35))[0] > 0.999


@pytest.mark.parametrize("exponent", [-1022, -126, -4, 0, 48, 80])
def test_the_lattice_keeps_order_and_what_it_has(exponent):
    lattice, rng = SizedLattice(exponent, (-LARGEST, LARGEST)), np.random.default_rng(5)
    unit = 2.0**exponent
    x = np.concatenate(
        [
            unit * rng.normal(size=500) * 10.0 ** rng.integers(-12, 4, 500) if exponent > -1022 else [],
            rng.normal(size=500),
            [0.0, -0.0, unit, -unit, np.nextafter(unit, 0), 2 * unit, LARGEST, -LARGEST],
        ]
    )
    x = np.sort(x[np.abs(x) <= LARGEST])
    shrunk = lattice.shrunk(x)
    assert np.all(np.diff(shrunk) >= 0)
    # each by itself, whatever is beside it
    assert all(lattice.shrunk(np.array([v]))[0] == s for v, s in zip(x, shrunk, strict=True))
    assert np.array_equal(lattice.shrunk(-x), -shrunk)
    back = lattice.grown(shrunk)
    # doubles from the size on, and below it multiples of 2^-52 of it
    large = np.abs(x) >= unit
    assert np.array_equal(back[large], x[large])
    assert np.all(np.abs(back - x)[~large] <= unit * 2.0**-53)
    assert np.array_equal(lattice.shrunk(back), shrunk)
    # the first numbers of the lattice are equally far apart, and all of them are told apart
    keys = np.array([-3, -2, -1, 0, 1, 2, 3, 2**51, 2**52, 2**52 + 1], dtype=np.int64)
    grown = lattice.grown(keys_to_floats(keys))
    assert np.array_equal(grown / max(unit, 2.0**-1022), keys * 2.0**-52)
    assert np.array_equal(float_keys(lattice.shrunk(grown)), keys)


def test_the_least_exponent_changes_nothing():
    x = np.random.default_rng(6).integers(0, 2**64, 2_000, dtype=np.uint64).view(float)
    x = x[np.isfinite(x)]
    lattice = SizedLattice(-1022, (-MAX, MAX))
    assert np.array_equal(lattice.shrunk(x), x) and np.array_equal(lattice.grown(x), x)


@pytest.mark.parametrize("bounds", [(0.1, 1e6 / 3), (-1e6 / 3, 0.7), (-1e300, 1e300), (0.0, 1e-40)])
def test_answers_at_an_end_are_the_bound(bounds):
    for exponent in sizes(max(map(abs, bounds))).tolist():
        lattice = SizedLattice(exponent, bounds)
        low, high = lattice.ends
        found = lattice.grown(np.array([low, high, (low + high) / 2]))
        assert found[:2].tolist() == list(bounds) and bounds[0] <= found[2] <= bounds[1]


def test_the_draw_on_the_lattice_of_a_size_keeps_within_eps():
    """The mechanism runs on rounded values: of neighbours all but one are the same."""
    for exponent in (-126, 0, 4):
        lattice = SizedLattice(exponent, (-LARGEST, LARGEST))

        def law(x, at, lattice=lattice):
            cells = quantile_cells(lattice.shrunk(np.array(x, float)), 0.5, lattice.ends)
            weights = log_softmax(log_weights(cells, 0.5, EPS, "add-remove")) - np.log(
                cells.size.astype(float)
            )
            order = np.argsort(cells.first)
            return weights[order][np.searchsorted(cells.first[order], at, side="right") - 1]

        keys = float_keys(lattice.shrunk(np.array(HOSTILE)))
        end = int(float_keys(lattice.ends[1]))
        at = np.clip(np.concatenate([keys - 1, keys, keys + 1]), -end, end)
        for n in range(3):
            for x in itertools.combinations(HOSTILE, n):
                for more in HOSTILE:
                    assert np.abs(law(x, at) - law([*x, more], at)).max() <= EPS * (1 + 1e-9)
