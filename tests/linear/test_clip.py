"""Clips read off released counts: where they are, what they say is lost, and what they cannot see."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpstats.linear import clip, tails
from dpstats.linear.clip import Clip, choose_clip, edges_about, outer_square
from dpstats.linear.tails import CLIPS, EDGES, GRID, TAIL, Tail
from dpstats.mechanisms._kernels import EXPONENT, OCTAVES

MU = {"limit": 0.063, "rounds": 0.053}
"""Of `ols` at eps = 1."""
SIZE = 400_000
LAWS = {
    "normal": lambda u: stats.norm.ppf(u),
    "t(3)": lambda u: stats.t.ppf(u, 3) / math.sqrt(3),
    "Laplace": lambda u: stats.laplace.ppf(u) / math.sqrt(2),
    "exponential": lambda u: stats.expon.ppf(u) - 1,
    "log-normal": lambda u: (stats.lognorm.ppf(u, 1) - math.exp(0.5)) / math.sqrt(math.e**2 - math.e),
    "negative log-normal": lambda u: -LAWS["log-normal"](u),
    "zero-inflated": lambda u: (
        (np.where(u < 0.9, 0.0, np.exp(stats.norm.ppf(np.maximum(10 * u - 9, 0)))) - 0.165) / 0.823
    ),
}


@functools.cache
def products(law, q):
    """Sizes of products of a law's residuals and normal covariates beside a constant, by sign."""
    g = np.random.default_rng(0)
    norms = np.sqrt(1 + np.sum(g.standard_normal((SIZE, q - 1)) ** 2, axis=1))
    r = LAWS[law](g.permutation(np.arange(SIZE) + 0.5) / SIZE)
    r -= r.mean()
    return [np.sort((norms * np.abs(r))[(r > 0) == sign]) for sign in (False, True)]


def excess(law, q, clip):
    """Mean of what is beyond a clip, by sign."""
    return [np.sum(np.maximum(sizes - clip, 0)) / SIZE for sizes in products(law, q)]


def clips(law, n, q=3, draws=100, seed=1, limit=MU["limit"], **more):
    """Clips of that many samples, of whose products counts are released."""
    g, edges = np.random.default_rng(seed), edges_about(math.sqrt(q))
    limits = np.concatenate([[0], 2.0 ** ((edges - EXPONENT) / 2), [np.inf]])
    means = np.array([np.histogram(sizes, limits)[0] for sizes in products(law, q)]) * n / SIZE
    noise = 1 / MU["rounds"] / math.sqrt(6) / n
    out = []
    for _ in range(draws):
        counts = g.poisson(means) + g.standard_normal(means.shape) / limit
        out.append(choose_clip(edges, counts, 1 / limit, q, n, noise, **more))
    return out


@pytest.mark.slow
def test_normal_errors_lose_nothing_and_the_clip_is_near():
    """At 2 to 5 times the typical size; the bound a tenth of a sampling standard error in half the draws."""
    got = clips("normal", 20_000)
    norms, bias = (np.array([getattr(c, name) for c in got]) for name in ("norm", "bias"))
    assert 2 < np.median(norms) / math.sqrt(3) < 5
    assert np.median(bias) < 0.1 / math.sqrt(20_000) and np.quantile(bias, 0.9) < 0.5 / math.sqrt(20_000)
    assert max(c.bias for c in clips("normal", 20_000, limit=1e3)) < 0.3 / math.sqrt(20_000)
    # and the rounds' noise is less than the sampling error by far
    assert np.median(norms) / MU["rounds"] / math.sqrt(6) / 20_000 < 0.6 / math.sqrt(20_000)


FALLS_SHORT = pytest.mark.xfail(reason="the tails that are tried end too soon for this one", strict=False)


@pytest.mark.parametrize("law, n, q", [
    ("exponential", 2_000, 3),
    ("exponential", 20_000, 3),
    ("exponential", 20_000, 5),
    ("log-normal", 20_000, 3),
    ("log-normal", 200_000, 3),
    ("zero-inflated", 20_000, 3),
    ("log-normal", 200_000, 5),
    pytest.param("zero-inflated", 2_000, 5, marks=FALLS_SHORT),
])  # fmt: skip
@pytest.mark.slow
def test_a_tail_on_one_side_has_a_bias_that_is_bounded(law, n, q):
    """But for half a sampling standard error, in 90 % of samples; 100 of them, false alarm 1e-6."""
    got = clips(law, n, q)
    assert max(c.norm for c in got) > 3 * math.sqrt(q)
    short = [abs(np.subtract(*excess(law, q, c.norm))) - c.bias > 0.5 / math.sqrt(n) for c in got]
    assert np.sum(short) <= stats.binom.isf(1e-6, len(got), 0.1)


@pytest.mark.parametrize("law, n", [("Laplace", 2_000), ("Laplace", 20_000), ("exponential", 20_000)])
@pytest.mark.slow
def test_where_both_signs_may_point_one_way_all_that_is_beyond_may(law, n):
    """But for half a sampling standard error, in 90 % of samples; 100 of them, false alarm 1e-6."""
    got = clips(law, n, one_way=True)
    short = [sum(excess(law, 3, c.norm)) - c.bias > 0.5 / math.sqrt(n) for c in got]
    assert np.sum(short) <= stats.binom.isf(1e-6, len(got), 0.1)


@pytest.mark.slow
def test_counts_too_few_to_tell_the_signs_apart_leave_the_bound_for_signs_that_differ():
    """1,000 rows, twice the noise: within half a standard error in 85 % (without that, in 54 to 61)."""
    law = "log-normal"
    got = clips(law, 1_000, draws=400, limit=MU["limit"] / 2)
    short = [abs(np.subtract(*excess(law, 3, c.norm))) - c.bias > 0.5 / math.sqrt(1_000) for c in got]
    assert np.sum(short) <= stats.binom.isf(1e-6, len(got), 0.15)


def test_few_counts_do_not_show_that_signs_are_alike():
    """Counts that happen to be the same: of few rows the whole bound for signs that differ is left."""
    body = np.array([900.0, 500, 450, 400, 300, 200, 150, 100, 60, 30, 20, 5, 1, 0, 0, 0])
    counts = np.tile(body, (2, 1))
    few, several, many = (clip._difference(times * counts, 30.0)[1] for times in (0.1, 0.3, 10))
    assert few == 1.0 and 0.05 < several < 0.5 and many < 1e-3


def test_the_side_does_not_matter():
    plus, minus = clips("log-normal", 20_000, draws=1), clips("negative log-normal", 20_000, draws=1)
    edges = edges_about(1.0)
    counts = np.random.default_rng(3).gamma(1.0, 300.0, (2, len(edges) + 1))
    one, other = (choose_clip(edges, c, 16.0, 3, 20_000, 1e-3) for c in (counts, counts[::-1]))
    assert (one.norm, one.bias) == (other.norm, other.bias)
    assert plus[0].norm > 4 and minus[0].norm > 4


@pytest.mark.parametrize("n", [1_000, 20_000])
@pytest.mark.parametrize("one_way", [False, True])
def test_what_holds_of_a_skewed_law_holds_of_its_mirror_image(n, one_way):
    g, edges = np.random.default_rng(2), edges_about(math.sqrt(3))
    limits = np.concatenate([[0], 2.0 ** ((edges - EXPONENT) / 2), [np.inf]])
    means = np.array([np.histogram(sizes, limits)[0] for sizes in products("log-normal", 3)]) * n / SIZE
    for sd in (3.0, 16.0, 32.0):
        counts = g.poisson(means) + sd * g.standard_normal(means.shape)
        one, other = (choose_clip(edges, c, sd, 3, n, 1e-3, one_way=one_way) for c in (counts, counts[::-1]))
        assert other.norm == one.norm
        assert [other.bias, other.seen] == pytest.approx([one.bias, one.seen], rel=1e-9)
        np.testing.assert_allclose(other.beyond, one.beyond, rtol=1e-9)


@pytest.mark.parametrize(
    ("shift", "rows"), [(0.0, 100.0), (2.0, 100.0), (3.0, 100.0), (-4.0, 900.0), (2.5, 3.0)]
)
def test_the_signs_differ_with_the_posterior_probability(shift, rows):
    """The normal laws of the score, alike and not, with odds of 7 to 1; counts with little noise."""
    both = np.zeros(len(edges_about(1.0)) + 1)
    both[6] = both[2] = rows
    tilt = shift * math.sqrt(rows)
    counts = np.array([both / 2, both / 2])
    counts[:, 6] += np.array([-0.5, 0.5]) * tilt
    differ, _, alone = clip._difference(counts, 1e-9)
    scores = stats.norm(), stats.norm(scale=math.sqrt(1 + max(math.sqrt(rows) / 2, 1) ** 2))
    alike, unlike = (law.pdf(max(abs(shift) / math.sqrt(2), abs(shift) - 1)) for law in scores)
    assert differ == pytest.approx(unlike / (unlike + 7 * alike), rel=1e-12)
    # standard errors of the rows beyond the typical size, against ten
    assert alone == pytest.approx(min(max(100 / rows, 0.3), 1.0))


@pytest.mark.parametrize(
    ("difference", "moved", "error"),
    [
        (0.0, 0.0, 0.0), (-130.0, 0.0, 0.0), (160.0, 0.0, 0.0), (400.0, 0.0, 0.015), (-900.0, -0.05, 0.0),
        (700.0, 0.02, 0.01), (-400.0, 0.03, 0.02),
    ],
)  # fmt: skip
def test_a_median_off_the_mean_shows_that_signs_differ(difference, moved, error):
    """Rows up to the typical size, all cells together: their difference counts beyond what an error of the
    estimates brings from one sign to the other, in standard errors."""
    edges = edges_about(1.0)
    counts = np.zeros((2, len(edges) + 1))
    counts[:, 0] = np.array([1_700.0, 1_900.0]) + np.array([-0.5, 0.5]) * (difference - 200.0)
    counts[:, 3] = 90.0
    counts[:, 6] = 30.0, 20.0
    sd = 3.0
    plain = choose_clip(edges, counts, sd, 3, 3_830, 1e-3)
    got = plain.with_median(moved, error)
    off = 3_600 * moved / 2.0 ** ((edges[0] - EXPONENT) / 2)
    possible = 0.7 * 3_600 * error / 2.0 ** ((edges[0] - EXPONENT) / 2)
    score = abs(difference - off) / math.sqrt(8 * sd**2 + 3_780 + possible**2 + (off / 2) ** 2)
    differ, share, alone = clip._difference(counts, sd, score)
    above = 50 / math.sqrt(8 * sd**2 + 50)
    upper = 10 / math.sqrt(8 * sd**2 + 50)
    laws = stats.norm(), stats.norm(scale=math.sqrt(1 + max(above / 2, 1) ** 2))
    alike, unlike = (law.pdf(max(score, upper / math.sqrt(2), upper - 1)) for law in laws)
    assert differ == pytest.approx(unlike / (unlike + 7 * alike), rel=1e-9)
    assert (share, alone) == clip._difference(counts, sd)[1:]  # nothing else goes by it
    between = differ * got.signs.unlike + (1 - differ) * got.signs.alike
    assert (
        got.bias == pytest.approx(max(plain.bias, between), rel=1e-12) and got.signs.alike < got.signs.unlike
    )
    assert replace(got, bias=plain.bias) == plain
    bare = replace(plain, bias=0.0).with_median(moved, error)
    assert bare.bias == pytest.approx(between, rel=1e-12)


def test_counts_that_noise_has_made_negative_show_no_median():
    """Few rows and much noise: what is divided by is that of the noise, and no root of less than 0."""
    counts = np.full((2, len(edges_about(1.0)) + 1), -900.0)
    plain = choose_clip(edges_about(1.0), counts, 1.0, 3, 500, 1e-3)
    assert plain.with_median(0.0, 0.0).bias >= plain.bias


SKEWED_IN_A_PART = (
    [[1095, 83, 40, 30, 61, 70, 28, 7, -7, -6, 8, -9, 6, 4, 5, 6],
     [359, 35, 42, 27, 33, 18, 29, 13, 20, -1, -2, 7, -12, 2, -3, -10]],
    [[993, 63, 34, 38, 42, 68, 13, 4, 2, 2, -6, 0, -4, 2, -2, -5],
     [489, 44, 54, 48, 32, 31, 11, 16, 6, -6, 5, -5, 1, -6, 3, 4]],
    [[914, 116, 72, 59, 59, 59, 15, 2, -11, -7, -5, -11, 1, -4, 8, -6],
     [453, 59, 69, 42, 28, 33, 13, 10, 11, 8, -1, -6, -12, -2, 2, -3]],
)  # fmt: skip
"""Released counts of 2,000 rows whose errors are log-normal, seven times as large in one row of six, of which
`ols` cut off two to four standard errors: few rows are far out, and the other sign has more farther in."""


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("counts", SKEWED_IN_A_PART)
def test_errors_that_are_skewed_in_a_part_are_known_by_their_median(counts, side):
    counts, edges = counts[::side], edges_about(1.4)
    plain = choose_clip(edges, np.array(counts, float), 6.3, 3, 2_000, 1.3e-3, 0.93)
    known = clip.median_known(plain, np.eye(3), np.array([0.03 * side, -2.0, 9.0]), 0.01, 0.85, 2_000)
    assert known == plain.with_median(
        math.sqrt(3) * 0.03 * side, math.sqrt(3) * math.hypot(0.01, 0.85 / math.sqrt(2_000))
    )
    assert known.bias > 2 * plain.bias


def test_of_a_clip_that_is_not_read_off_counts_no_median_is_known():
    assert Clip.at(3.0).with_median(0.1, 0.1) == Clip.at(3.0)


def test_the_constant_is_found_behind_the_whitening():
    """A movement along it explains that rows near 0 have one sign; one across it does not."""
    W = np.array([[2.0, 0.7, 0.1], [0.4, 0.5, 0.3], [0.2, 0.9, 1.5]])
    plain = choose_clip(edges_about(1.4), np.array(SKEWED_IN_A_PART[0], float), 6.3, 3, 2_000, 1.3e-3, 0.93)
    constant = np.linalg.solve(W, [1.0, 0.0, 0.0])
    along, across = -0.15 * constant / (constant @ constant), np.cross(constant, [0.3, 0.4, 0.5])
    biases = [clip.median_known(plain, W, moved, 0.0, 0.0, 2_000).bias for moved in (along, across)]
    assert biases[0] == plain.bias
    assert biases[1] == pytest.approx(plain.with_median(0.0, 0.0).bias) and biases[1] > 3 * plain.bias


SHORT = np.array([300.0, 150.0, 60.0, 25.0, 10.0, 4.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
LONG = np.array([300.0, 250.0, 200.0, 170.0, 130.0, 100.0, 70.0, 40.0, 20.0, 10.0, 4.0, 1.0])


def posterior(minus, plus):
    """Probability of every pair of tails: odds of 7 to 1 that both signs have one, and Bayes' rule."""
    prior = np.exp(tails._tails(tails.PRODUCTS)[2])
    prior /= prior.sum()
    likelihoods = np.outer(minus.weights / prior, plus.weights / prior)
    weights = (np.outer(prior, prior) + 7 * np.diag(prior)) * likelihoods
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("other", "least", "most"), [(SHORT, 0.95, 1.0), (2 * SHORT, 0.95, 1.0), (LONG, 0.0, 0.01)]
)
def test_pairs_of_tails_have_their_posterior_probability(other, least, most):
    minus, plus = (clip.Tail.of(c, 5.0, 3_000.0) for c in (SHORT, other))
    expected = posterior(minus, plus)
    low, high, weights = minus.pairs(plus)
    joint = np.zeros_like(expected)
    np.add.at(joint, (low, high), weights)
    # a pair may be short of what is left out, alike or not; what is there makes up for all of it
    np.testing.assert_allclose(joint, expected, rtol=0.02, atol=2e-6)
    assert weights.sum() == pytest.approx(1)
    assert np.trace(joint) == pytest.approx(np.trace(expected), abs=0.005)
    assert least <= np.trace(joint) < most


@pytest.mark.parametrize("times", [0.1, 0.3, 3.0])
@pytest.mark.parametrize("sides", [slice(None), slice(None, None, -1)])
def test_signs_that_differ_tell_of_one_tail_in_part(times, sides):
    """The bound at the clip, by all pairs of tails; one sign has up to three times the rows of the other."""
    body = np.array([[900.0, 500, 450, 400], [900, 300, 270, 240]])
    counts = times * np.hstack([body, [SHORT, 3 * SHORT]])[sides]
    got = choose_clip(edges_about(1.0), counts, 5.0, 3, 6_000 * times, 1e-4)
    minus, plus = (clip.Tail.of(c[clip.TAIL :], 5.0, 6_000 * times) for c in counts)
    at = np.flatnonzero(np.isclose(clip.GRID[clip.CLIPS], got.norm))[0]
    differences = plus.excesses[:, at] - minus.excesses[:, at, None]
    independent = np.outer(minus.weights / minus.weights.sum(), plus.weights / plus.weights.sum())
    apart, together = (np.sum(w * differences**2) for w in (independent, posterior(minus, plus)))
    differ, share, alone = clip._difference(counts, 5.0)
    assert alone == {0.1: 1.0, 0.3: pytest.approx(0.57, abs=0.01), 3.0: 0.3}[times]
    unlike = math.sqrt(alone * apart + (1 - alone) * together)
    assert differ > 0.8 and together < 0.5 * apart
    alike = min(abs(plus.median()[at] - minus.median()[at]) / 2, unlike)
    expected = max(differ * unlike + (1 - differ) * alike, share * math.sqrt(apart))
    assert got.bias == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_tails_that_are_alike_have_little_bias():
    """Heavy ones too: half a sampling standard error in 90 %, and two where counts are few."""
    few = clips("t(3)", 3_000, draws=200)
    assert np.quantile([c.bias for c in few], 0.9) < 2 / math.sqrt(3_000)
    got = clips("t(3)", 20_000, draws=100)
    assert np.quantile([c.bias for c in got], 0.9) < 0.5 / math.sqrt(20_000)
    assert np.median([c.norm for c in got]) > 4 * math.sqrt(3)


def test_no_rows_leave_the_least_clip():
    """Noise alone, or nothing: a finite clip and bias, whatever it reads into it."""
    edges, g = edges_about(1.0), np.random.default_rng(0)
    shape = 2, len(edges) + 1
    for counts in (np.zeros(shape), 16 * g.standard_normal(shape), np.full(shape, -50.0)):
        clip = choose_clip(edges, counts, 16.0, 3, 1.0, 1.0)
        assert np.isfinite([clip.norm, clip.bias]).all() and clip.norm > 0 and clip.bias >= 0
        # where the noise is dear, no more than the least: twice the size below which the body is
        assert clip.norm < 4


def test_dear_noise_keeps_the_clip_near():
    far = clips("log-normal", 20_000, draws=5)
    edges, q = edges_about(math.sqrt(3)), 3
    limits = np.concatenate([[0], 2.0 ** ((edges - EXPONENT) / 2), [np.inf]])
    counts = np.array([np.histogram(s, limits)[0] for s in products("log-normal", q)]) * 20_000 / SIZE
    dear = choose_clip(edges, counts, 16.0, q, 20_000, 1.0)
    assert dear.norm < min(c.norm for c in far) / 2
    assert dear.bias > max(c.bias for c in far)


def test_squares_that_are_cut_weigh_what_they_are_told_to():
    """Of tails that are alike on both sides: where they weigh more the clip is wider."""
    q, edges = 3, edges_about(math.sqrt(3))
    sizes = np.abs(np.random.default_rng(4).standard_t(3, 200_000)) * math.sqrt(3)
    cells = np.searchsorted(edges, np.floor(np.log2(sizes**2)) + EXPONENT, side="right")
    counts = np.tile(np.bincount(cells, minlength=len(edges) + 1) / 2, (2, 1))
    norms = [choose_clip(edges, counts, 16.0, q, 2e5, 1e-4, 1.0, weight).norm for weight in (0.3, 3.0, 30.0)]
    assert norms[0] < norms[1] < norms[2]
    assert choose_clip(edges, counts, 16.0, q, 2e5, 1e-4).norm == norms[1]


@pytest.mark.parametrize("size", [1e-300, 1e-17, 1.0, 3.3, 1e17, 1e300])
def test_edges_stay_within_the_octaves(size):
    edges = edges_about(size)
    assert 1 <= edges[0] and edges[-1] <= OCTAVES - 1 and (np.diff(edges) > 0).all()
    if 1e-10 < size < 1e10:
        # the fourth edge is the typical size, within a half-octave's rounding
        assert 2.0 ** ((edges[3] - EXPONENT) / 2) == pytest.approx(size, rel=2**0.25 - 1)
    np.testing.assert_array_equal(np.diff(edges), np.diff(edges_about(1.0)))


@pytest.mark.parametrize("factor", [2.0**-15, 2.0**15])
def test_units_of_the_products_are_those_of_the_clip(factor):
    """Where the noise is free; it is compared with the response, whose variance is 1."""
    counts = np.random.default_rng(3).gamma(1.0, 300.0, (2, 16))
    plain, scaled = (choose_clip(edges_about(f), counts, 16.0, 3, 20_000, 1e-12) for f in (1.0, factor))
    assert scaled.norm == factor * plain.norm and scaled.bias == pytest.approx(factor * plain.bias, rel=1e-9)


def far_out(rows, sign=1, cell=-2, sd=15.0, seed=1):
    """Counts of 20,000 normal residuals with noise, and so many rows more far out; the clip from them."""
    g, edges = np.random.default_rng(seed), edges_about(1.0)
    limits = np.concatenate([[0], 2.0 ** ((edges - EXPONENT) / 2), [np.inf]])
    counts = np.array([np.histogram(abs(g.standard_normal(10_000)), limits)[0] for _ in range(2)])
    counts = counts + g.standard_normal(counts.shape) * sd
    counts[sign, cell] += rows
    return edges, counts, choose_clip(edges, counts, sd, 1, 20_000, 1 / MU["rounds"] / 2.5 / 20_000)


@pytest.mark.parametrize("sign", [0, 1])
def test_rows_that_are_seen_far_out_are_a_bias_or_within_the_clip(sign):
    """One in a hundred, hundreds of times as far out as the others and nothing in between, as no tail of the
    family has them: the bound was .014 where .5 was cut."""
    near = far_out(0)[2]
    assert near.norm < 6 and near.seen == 0.0
    for cell in (-5, -4, -3, -2):
        edges, _, clip = far_out(200, sign, cell)
        low, high = 2.0 ** ((edges[[cell, cell + 1]] - EXPONENT) / 2)
        left = (200 - 4 * 15) / 20_000 * (math.sqrt(low * high) - clip.norm)
        assert clip.norm >= math.sqrt(low * high) or clip.bias >= clip.seen >= 0.9 * left
        assert clip.norm > 10 * near.norm


def test_rows_far_out_in_some_cells_together_are_seen():
    edges, counts = edges_about(1.0), np.zeros((2, 16))
    counts[1, -4:-1] = 65.0
    most, square = clip.visible(edges, counts, 15.0, 20_000.0)
    assert most[1, 0] > (195 - 2 * 15 * math.sqrt(3)) / 20_000 * 32 and square > 0 and not most[0].any()
    counts[1, -4:-1] = 45.0
    assert not clip.visible(edges, counts, 15.0, 20_000.0)[0].any()


@pytest.mark.slow
def test_noise_is_hardly_ever_taken_for_rows_far_out():
    """In none of 3,000 draws; a threshold of four standard deviations would in nine."""
    g, edges = np.random.default_rng(5), edges_about(1.0)
    for _ in range(3_000):
        most, square = clip.visible(edges, g.standard_normal((2, 16)) * 15.0, 15.0, 20_000.0)
        assert not most.any() and square == 0.0


def test_where_most_rows_are_far_out_the_clip_stays_near():
    """It is the fit that is off; a clip about them would have more noise than the response has variance."""
    edges, _, clip = far_out(12_000, 1, -1)
    lost = (clip.norm / MU["rounds"] / 2.5 / 20_000) ** 2
    assert lost <= 0.004 and clip.bias >= clip.seen > 100


def test_what_is_seen_is_in_the_moment_whatever_the_excess():
    clip = Clip(1.0, 0.7, np.array([1.0, 2.0]), np.zeros(2), seen=0.7)
    square = np.trace(clip.moment(np.array([0.001, 0.0]), 0.002, np.diag([0.75, 0.25])))
    assert square == pytest.approx(0.7**2)
    assert np.trace(replace(clip, seen=0.0).moment(np.array([0.001, 0.0]), 0.002, np.eye(2) / 2)) < 0.01


def test_signs_that_are_equal_at_one_clip_alone_have_a_bias():
    """Counts of a release: one sign has many rows at two to eight times the typical size, the other some at a
    hundred times, and beyond 1.4 both have the same. The clip was there, and what it took off unknown."""
    counts = np.array(
        [
            [12028, 4020, 3802, 2989, 2228, 1557, 633, 177, 76, 33, 64, 40, 43, 5, -6, 3],
            [11422, 3811, 2841, 2325, 1216, 1422, 945, 1011, 825, 286, 204, 30, 3, -11, -5, 16],
        ],
        float,
    )
    found = choose_clip(edges_about(0.7), counts, 17.2, 9, 53_900, 1.46e-4, spread=0.51)
    assert found.norm > 8


def test_the_note_says_how_many_rows_the_counts_may_not_show():
    """The most that is not sure to be seen, 5.5 standard deviations of a count's noise, to one digit: of rows
    in one cell 200 are seen, and 60 are not."""
    edges, counts, found = far_out(60)
    assert found.seen == 0.0 and "Some 80 rows beyond that may go unseen" in found.note(2.0)
    assert not clip.visible(edges, counts, 15.0, 20_000.0)[0].any()
    assert "Some 2 rows" in replace(found, unseen=1.2).note(2.0)
    for known in (replace(found, unseen=0.9), Clip.at(3.0)):
        assert known.note(2.0, "; less", "; more").endswith("of average size; less); more.")
        assert known.unit_note(1.0, 5.0).endswith(
            "its typical size. A unit of more than 5 rows counts as if it had those; where the noise hides "
            "that such units differ from the others, intervals do not allow for it."
        )
        assert known.unit_note(1.0, 1.0).endswith("size. The rows of a unit together count as one.")
    assert found.unit_note(1.0).endswith(
        "Some 80 units beyond that may go unseen; intervals may not allow for these."
    )


def test_squares_and_kurtosis_of_what_is_beyond():
    """Half of the rows at 1 and half at 4, shortened to 4 or 2."""
    sizes = np.geomspace(0.5, 8, 400)
    beyond = np.where(sizes < 1, 1.0, np.where(sizes < 4, 0.5, 0.0))
    clip = Clip(6.0, 0.0, sizes, beyond)
    assert clip.squares(2.0) == pytest.approx(0.5 * (16 - 4), rel=0.02)
    assert clip.squares(6.0) == 0
    less = replace(clip, norm=3.0)
    assert less.squares(2.0, math.inf) == pytest.approx(0.5 * (16 - 4), rel=0.02)
    assert less.squares(2.0) == pytest.approx(0.5 * (9 - 4), rel=0.03)
    second, fourth = 0.5 * 1 + 0.5 * 4, 0.5 * 1 + 0.5 * 16
    assert clip.kurtosis(2.0, 3) == pytest.approx(fourth / second**2 * 3 / 5, rel=0.03)
    known = Clip.at(3.0)
    assert (known.norm, known.bias, known.squares(1.0), known.kurtosis(1.0, 3)) == (3.0, 0.0, 0.0, 0.0)


def test_outer_products_are_cut_where_least_is_lost():
    clip = Clip(20.0, 0.0, GRID, 0.1 * GRID**-2.0)
    near, far = outer_square(clip, 9.0, 0.1, 3), outer_square(clip, 9.0, 0.001, 3)
    assert 9.0 <= near < far <= 400.0
    squares = np.linspace(9.0, 400.0, 2000)
    lost = [(0.003 * s) ** 2 + clip.squares(math.sqrt(s)) ** 2 for s in squares]
    assert far == pytest.approx(squares[np.argmin(lost)], rel=0.1)
    # nothing is cut, and the least limit stays; none is beyond the clip
    short = Clip(20.0, 0.0, GRID, np.where(GRID < 3, 0.1, 0.0))
    assert outer_square(short, 30.0, 0.001, 3) == 30.0
    assert outer_square(short, 900.0, 0.001, 3) == 400.0


def test_excesses_go_on_beyond_the_rows_that_a_table_has():
    """Of log-normal sizes a third of the excess over a clip that two of 20,000 rows reach is of rows that one
    table in two has none of; shares of the rows, whose squares would be most of all, end with the last."""
    n, law = 20_000, stats.lognorm(1.5)
    size = law.ppf(0.7)
    beyond = n * law.sf(size * 2.0 ** (EDGES[TAIL - 1 :] / 2))
    tail = Tail.of(beyond - np.append(beyond[1:], 0.0), 2.0, n)
    for at in (8, 10, 12):
        clip = size * GRID[CLIPS[at]]
        excess = law.expect(lambda x, clip=clip: x - clip, lb=clip) / size
        assert tail.moments()[0][at] == pytest.approx(excess, rel=0.1)
    known = tail.beyond > 0
    assert (n * tail.beyond[known] >= 1).all() and (n * law.sf(size * GRID[~known]) < 1.5).all()


def moment_of(bias, excess, noise, sizes=(1.0, 2.0), beyond=(0.0, 0.0), norm=1.0):
    clip = Clip(norm, bias, np.array(sizes), np.array(beyond))
    return clip.moment(np.asarray(excess, float), noise, np.diag([0.75, 0.25]))


def test_a_bound_that_the_excess_does_not_contradict_is_kept():
    """In the shape that is given; a clip of which nothing is known has none."""
    np.testing.assert_allclose(moment_of(0.2, [0.1, -0.1], 0.1), 0.2**2 * np.diag([0.75, 0.25]), rtol=1e-12)
    np.testing.assert_array_equal(Clip.at(3.0).moment(np.ones(2), 0.1, np.eye(2)), 0)


@pytest.mark.parametrize("q", [1, 4, 15])
@pytest.mark.parametrize("size", [0.0, 1.0, 5.0, 2000.0])
@pytest.mark.slow
def test_bounds_from_the_excess_have_their_level(q, size):
    """A quarter of the upper one is above the true square in 98 % of draws, the lower one below it in 80 %;
    2,000 draws, false alarm 1e-6."""
    g, truth, draws = np.random.default_rng(3), np.zeros(q), 2000
    truth[0] = size
    clips = [Clip(1.0, bias, np.array([1.0, 2.0]), np.zeros(2)) for bias in (0.0, 1e9)]
    excess = truth + g.standard_normal((draws, q))
    low, high = (np.array([np.trace(c.moment(e, 1.0, np.eye(q) / q)) for e in excess]) for c in clips)
    below = int(np.sum(high / 4 < size**2 * (1 - 1e-12)))
    assert below <= stats.binom.isf(1e-6, draws, 0.021)
    above = int(np.sum(low > size**2 * (1 + 1e-12) + 1e-9))
    assert above <= stats.binom.isf(1e-6, draws, 0.205)
    assert size == 0 or above >= stats.binom.isf(1 - 1e-6, draws, 0.195)


def test_what_the_excess_shows_has_its_direction():
    """Far from 0 the moment is that of the excess; what lies beyond twice the clip is in proportion."""
    outer = np.outer([30, 40], [30, 40])
    np.testing.assert_allclose(moment_of(0.0, [30.0, 40.0], 1e-3), outer, rtol=1e-3)
    # of what is beyond the clip at 1, areas are 0.5 up to 2 and 0.25 beyond
    tail = {"sizes": (1.0, 2.0, 4.0), "beyond": (0.75, 0.25, 0.0)}
    np.testing.assert_allclose(moment_of(0.0, [30.0, 40.0], 1e-3, **tail), 1.5**2 * outer, rtol=1e-3)
    # the upper bound reckons with as much again, and with four times it at most
    np.testing.assert_allclose(moment_of(1e9, [30.0, 40.0], 1e-3, **tail), 2**2 * outer, rtol=1e-3)
    far = {"sizes": (1.0, 2.0, 1e3), "beyond": (0.5, 0.5, 0.5)}
    np.testing.assert_allclose(moment_of(1e9, [30.0, 40.0], 1e-3, **far), 4**2 * outer, rtol=1e-3)


def test_a_far_component_counts_by_its_weight():
    """The root mean square has a far component in proportion; a quantile would be all or nothing."""
    tail = Tail(np.array([1.9, 0.1]), np.array([[1.0], [50.0]]), np.zeros((1, 2)), np.zeros(2))
    mean, variance = tail.moments()
    assert mean == pytest.approx(0.95 + 2.5)
    assert mean**2 + variance == pytest.approx(0.95 + 0.05 * 2500)
    assert tail.median() == 1.0
