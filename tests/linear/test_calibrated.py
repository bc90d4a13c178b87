"""The clip of counts by what its intervals cover: the allowance for a bias, and where the clip is."""

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.linear import calibrated
from dpstats.linear import tails as families
from dpstats.linear.calibrated import allowance, calibrated_clip
from dpstats.linear.clip import Clip, edges_about
from dpstats.linear.tails import TAIL
from dpstats.mechanisms._kernels import EXPONENT


@pytest.mark.parametrize("variance", [1.0, 1e-6])
def test_intervals_cover_on_average(variance):
    """Of biases drawn as the weights say 95 % of the intervals hold; a little more, by the rounding."""
    biases, weights = np.array([0.0, 0.5, 1.5, 12.0]), np.array([0.5, 0.3, 0.19, 0.01])
    sd = math.sqrt(variance)
    half = 1.959964 * sd * math.sqrt(1 + allowance(biases * sd, weights, variance) / variance)
    law = stats.norm(biases * sd, sd)
    assert 0.95 <= weights @ (law.cdf(half) - law.cdf(-half)) < 0.957


def test_unlikely_biases_do_not_decide_and_likely_ones_do():
    """A hundredth far away costs a hundredth of coverage; of a tenth nothing but its square helps."""
    near = allowance(np.array([0.0, 1e6]), np.array([0.99, 0.01]), 1.0)
    assert near == pytest.approx((stats.norm.isf((1 - 0.95 / 0.99) / 2) / 1.959964) ** 2 - 1, rel=0.15)
    assert allowance(np.array([0.0, 1e6]), np.array([0.9, 0.1]), 1.0) == pytest.approx(1e11)
    assert allowance(np.zeros(3), np.full(3, 1 / 3), 2.0) == 0.0
    # never more than the mean square
    assert allowance(np.array([0.1]), np.ones(1), 1.0) <= 0.01 * (1 + 1e-9)


def tails(rows, far, seed, sd):
    """Released counts of parts of size about 2, those of one sign with a share `far` of exponential ones."""
    g = np.random.default_rng(seed)
    sizes = np.where(g.random(rows) < far, g.exponential(12.0, rows), 2 * np.abs(g.standard_normal(rows)))
    sign = g.random(rows) < 0.5
    edges = edges_about(2.0)
    limits = np.concatenate([[0], 2.0 ** ((edges - EXPONENT) / 2), [np.inf]])
    counts = np.array([np.histogram(s, limits)[0] for s in (2 * np.abs(g.standard_normal(rows // 2)),
                                                              sizes[sign])])  # fmt: skip
    return edges, counts + g.standard_normal(counts.shape) * sd, sizes[sign]


@pytest.mark.slow
def test_the_clip_goes_out_with_the_tail():
    n, q, sd = 20_000, 4, 13.0
    noise = 1 / 0.12 / n
    norms = []
    for seed in range(10):
        for far in (0.0, 0.05):
            edges, counts, _ = tails(n, far, seed, sd)
            norms.append(calibrated_clip(edges, counts, sd, q, n, noise, 1.0).norm)
    assert np.median(norms[1::2]) > 1.8 * np.median(norms[::2])


@pytest.mark.slow
def test_the_bias_of_a_visible_tail_is_within_the_allowance():
    n, q, sd = 20_000, 4, 13.0
    held = 0
    for seed in range(40):
        edges, counts, sizes = tails(n, 0.05, seed, sd)
        clip = calibrated_clip(edges, counts, sd, q, n, 1 / 0.12 / n, 1.0)
        bias = np.sum(np.maximum(sizes - clip.norm, 0)) / n / math.sqrt(q)
        deviation = math.sqrt(1 / n + (clip.norm / 0.12 / n) ** 2)
        half = 1.96 * math.sqrt(deviation**2 + clip.bias**2 / q)
        held += float(stats.norm.cdf((half - bias) / deviation) - stats.norm.cdf((-half - bias) / deviation))
    assert held / 40 > 0.93


@pytest.mark.parametrize("sign", [0, 1])
def test_rows_that_are_seen_far_beyond_are_a_bias(sign):
    """Zero-inflated counts of a rare group: 55 rows a thousand times as long as the others, and nothing in
    between, as no tail has it. The clip is beyond them, or they are in the bias."""
    n, q, sd = 20_000, 3, 3.8
    edges, counts, _ = tails(n, 0.0, 1, sd)
    near = calibrated_clip(edges, counts, sd, q, n, 1 / 0.3 / n, 3.0)
    assert near.unseen == 5.5 * sd
    counts[sign, -2] += 55
    clip = calibrated_clip(edges, counts, sd, q, n, 1 / 0.3 / n, 3.0)
    farthest = 2.0 ** ((edges[-2] - EXPONENT) / 2)
    least = (55 - 4 * sd) / n * (farthest - clip.norm)
    assert near.norm < farthest / 10 and (clip.norm >= farthest or clip.bias >= 0.9 * least)


SHORT = np.array([300.0, 150, 60, 25, 10, 4, 1, 0, 0, 0, 0, 0])
LONG = np.array([300.0, 150, 70, 40, 25, 15, 9, 4, 2, 1, 0, 0])


@pytest.mark.parametrize("tails", [(SHORT, 3 * SHORT), (3 * SHORT, SHORT), (SHORT, LONG), (LONG, SHORT)])
@pytest.mark.slow
def test_the_allowance_is_over_pairs_of_tails(tails, monkeypatch):
    """Bayes' rule over all pairs, with odds of 7 to 1 that both signs have one tail."""
    monkeypatch.setattr(calibrated, "_far_out", lambda counts, sd: 0.0)
    counts = np.hstack([np.array([[900.0, 500, 450, 400], [900, 300, 270, 240]]), tails])
    n, q, noise = 6_000.0, 3, 1e-3
    got = calibrated_clip(edges_about(1.0), counts, 5.0, q, n, noise, 1.0)
    at = np.flatnonzero(np.isclose(families.GRID[families.CLIPS], got.norm))[0]
    misfit = np.array([0.2] * 4 + [0.05] * 8)
    minus, plus = (families.Tail.of(c[families.TAIL :], 5.0, n, misfit) for c in counts)
    prior = np.exp(families._tails(families.PRODUCTS)[2])
    prior /= prior.sum()
    weights = (np.outer(prior, prior) + 7 * np.diag(prior)) * np.outer(minus.weights, plus.weights)
    weights /= np.outer(prior, prior)
    weights /= weights.sum()
    biases = np.abs(plus.excesses[:, at] - minus.excesses[:, at, None]) / math.sqrt(q)
    expected = allowance(biases.ravel(), weights.ravel(), 1 / n + (got.norm * noise) ** 2)
    assert got.bias == pytest.approx(math.sqrt(q * expected), rel=0.02)


CELLS = np.array([4400.0, 3500, 2450, 1270, 620, 260, 200, 80, 25, 5, 0, 0])
"""Of 100,000 overdispersed counts with an exponential covariate, without noise: those with positive parts,
longer than is typical, by cell."""


def overdispersed(far=1.0):
    """Released counts, with `far` times the rows at eight times the typical size and more."""
    counts = np.zeros((2, TAIL + len(CELLS)))
    counts[:, :TAIL] = 10_000.0
    counts[1, TAIL:] = CELLS * np.where(np.arange(len(CELLS)) < 6, 1.0, far)
    counts[0, TAIL:] = counts[1, TAIL:] * np.where(np.arange(len(CELLS)) < 7, 0.3, 0.0)
    return edges_about(1.0), counts, 13.4, 3, 100_000.0, 1.6e-4, 4.0


def test_with_many_rows_cells_far_out_say_how_far_a_tail_goes(monkeypatch):
    """A tail that is wrong by a fifth there does not fit, well as it may fit thousands of rows near by."""
    monkeypatch.setattr(calibrated, "_far_out", lambda counts, sd: 0.0)
    given, misfits, of = overdispersed(), [], families.Tail.of
    monkeypatch.setattr(families.Tail, "of", lambda *args: misfits.append(args[3]) or of(*args))
    calibrated_clip(*given)

    def error(misfit):
        cells, weights = (
            families._tails(families.PRODUCTS)[1],
            of(given[1][1, TAIL:], 2.0, given[4], misfit).weights,
        )
        expected = CELLS.sum() * (cells @ weights) / weights.sum()
        return np.max(np.abs(expected[6:9] / CELLS[6:9] - 1))

    assert error(misfits[0]) < 0.1 < 0.15 < error(0.2)


def test_what_is_seen_far_out_is_along_one_direction(monkeypatch):
    """The clip is farther out there, and all of the excess is allowed for along one direction."""
    given = overdispersed(2.0)
    whole = calibrated_clip(*given)
    assert calibrated._far_out(given[1], given[2]) == 1.0
    # neither the noise of counts, nor what small counts have
    assert calibrated._far_out(given[1][::-1] * [[1.0], [0.0]], given[2]) == 0.0
    assert calibrated._far_out(overdispersed(0.05)[1], given[2]) == 0.0
    monkeypatch.setattr(calibrated, "_far_out", lambda counts, sd: 0.0)
    spread = calibrated_clip(*given)
    assert whole.norm >= 1.4 * spread.norm
    monkeypatch.undo()
    # where noise is many times the sampling it stays where it is
    noisy = (*given[:5], 2e-2, given[6])
    clip = calibrated_clip(*noisy)
    monkeypatch.setattr(calibrated, "_far_out", lambda counts, sd: 0.0)
    assert clip.norm == calibrated_clip(*noisy).norm


def test_squares_that_are_cut_are_added_along_as_many_directions_as_the_bias(monkeypatch):
    given = overdispersed(2.0)
    for far, times in ((0.0, 1.0), (1.0, 3.0)):
        monkeypatch.setattr(calibrated, "_far_out", lambda counts, sd, far=far: far)
        clip = calibrated_clip(*given)
        beyond = Clip(math.inf, 0.0, clip.sizes, clip.beyond).squares(clip.norm)
        assert clip.again == pytest.approx(times * beyond, rel=0.1) and beyond > 0.1
