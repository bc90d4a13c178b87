"""Several quantiles by halving: exact log-ratios between neighbours, and quantiles where values repeat."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import dpstats
from dpstats.mechanisms import halving
from dpstats.mechanisms.halving import halved, levels_of, place
from dpstats.mechanisms.rng import Randomness

LOW, HIGH = 0, 12 << 32
ANY = -np.finfo(float).max, np.finfo(float).max


def log_density(places, f, eps, at, sensitivity=1.0):
    """Log of the probability of a place, for each of `at`."""
    places = sorted(places)
    keys = np.array([p >> 32 for p in places], dtype=np.int64)
    ties = np.array([p & (1 << 32) - 1 for p in places], dtype=np.int64)
    ends, rest, sizes, weights = halving._gaps(keys, ties, f, eps * sensitivity, LOW, HIGH)
    log = weights - np.log(np.maximum(sizes, 1e-300))
    whole = np.logaddexp.reduce(weights)
    starts = [(int(k) << 32) + int(t) for k, t in zip(ends[:-1], rest[:-1], strict=True)]
    return np.array([log[np.searchsorted(starts, p, side="right") - 1] for p in at]) - whole


def worst(f, sensitivity=1.0):
    """The largest log-ratio over all data sets of up to four places and a record more, for eps = 1."""
    few, largest = [(k << 32) + t for k in (2, 3, 7) for t in (5, 9)], 0.0
    at = sorted({p + d for p in few for d in (0, 1)} | {LOW, HIGH - 1})
    for n in range(4):
        for rows in itertools.combinations(few, n):
            one = log_density(rows, f, 1.0, at, sensitivity)
            for more in few:
                other = log_density([*rows, more], f, 1.0, at, sensitivity)
                largest = max(largest, float(np.abs(one - other).max()))
    return largest


@pytest.mark.parametrize("f", [0.25, 0.5, 0.9])
def test_no_log_ratio_exceeds_eps(f):
    assert 0.2 < worst(f) <= 1 + 1e-9


def test_a_score_that_counts_for_too_much_is_caught():
    assert worst(0.5, sensitivity=4.0) > 1.5


@pytest.mark.slow
def test_places_are_drawn_by_these_weights_and_uniformly_within_a_gap():
    """20,000 draws; each of the two tests has a false alarm of 1e-6."""
    keys, ties = np.array([2, 3, 7]), np.array([5, 9, 9])
    ends, rest, _, weights = halving._gaps(keys, ties, 0.4, 2.0, LOW, HIGH)
    starts = (ends << 32) + rest
    rng = Randomness(3)
    drawn = np.array([place(keys, ties, 0.4, 2.0, LOW, HIGH, rng) for _ in range(20_000)])
    gap = np.searchsorted(starts, drawn, side="right") - 1
    expected = np.exp(weights - np.logaddexp.reduce(weights)) * len(drawn)
    assert stats.chisquare(np.bincount(gap, minlength=len(weights)), expected).pvalue > 1e-6
    within = (drawn - starts[gap]) / np.diff(starts)[gap]
    assert stats.kstest(within, "uniform").pvalue > 1e-6


def test_levels_and_not_quantiles_divide_the_budget(monkeypatch):
    asked = []

    def recorded(keys, ties, f, eps, low, high, rng):
        asked.append((len(keys), f, eps, low, high))
        return place(keys, ties, f, eps, low, high, rng)

    monkeypatch.setattr(halving, "place", recorded)
    halved(np.arange(1_000.0), np.arange(1, 8) / 8, 3.0, Randomness(0), ANY)
    assert len(asked) == 7 and {eps for _, _, eps, _, _ in asked} == {1.0}
    # the rows of the cells of a level are all rows, once
    assert asked[1][0] + asked[4][0] == 1_000
    assert all(f == pytest.approx(0.5) for _, f, *_ in asked)
    assert levels_of(7) == 3 and levels_of(8) == 4


@pytest.mark.parametrize("q", [[0.1, 0.25, 0.5, 0.75, 0.9], [0.5], [0.99, 0.999]])
@pytest.mark.parametrize("grain", [1e-9, 1.0, 10.0])
def test_ranks_also_where_values_repeat(q, grain):
    x = np.round(np.random.default_rng(0).normal(50, 20, 20_000) / grain) * grain
    found, q = halved(x, np.array(q), 20.0, Randomness(1), ANY), np.array(q)
    below, upto = (
        np.array([np.mean(test(v)) for v in found]) for test in (lambda v: x < v, lambda v: x <= v)
    )
    # a value is rounded to 30 bits, and may lie next to those it stands for
    near = np.array([np.mean(x <= v * (1 + 1e-8)) for v in found])
    assert np.all(below - 0.01 < q) and np.all(q < np.maximum(upto, near) + 0.01)
    assert np.all(np.diff(found) >= 0)


def test_of_one_value_all_quantiles_are_that_value():
    found = halved(np.full(5_000, -7.0), np.array([0.25, 0.5, 0.75]), 10.0, Randomness(0), ANY)
    assert found == pytest.approx([-7.0] * 3)


def test_bounds_and_no_rows():
    found = halved(np.empty(0), np.array([0.2, 0.8]), 1.0, Randomness(0), (1.0, 2.0))
    assert np.all((found >= 1) & (found <= 2)) and found[0] <= found[1]


class TestEstimator:
    DATA = {"x": np.random.default_rng(2).lognormal(size=8_000)}

    def test_in_the_order_asked_for(self):
        fit = dpstats.quantile("x ~ 1", self.DATA, q=[0.75, 0.25, 0.5], eps=4, seed=1)
        assert fit.names == ("x[0.75]", "x[0.25]", "x[0.5]")
        ranks = [np.mean(self.DATA["x"] < v) for v in fit.params]
        assert ranks == pytest.approx([0.75, 0.25, 0.5], abs=0.02)
        ends = fit.conf_int()
        truth = np.exp([0.6744897501960817, -0.6744897501960817, 0.0])
        assert np.all((ends[0] < truth) & (truth < ends[1]))
        assert sum(s.eps for s in fit.guarantee.spends) == pytest.approx(4)

    def test_json(self):
        fit = dpstats.quantile("x ~ 1", self.DATA, q=(0.25, 0.75), eps=1, alpha=None, seed=1)
        assert dpstats.from_dict(fit.to_dict()) == fit and math.isnan(fit.conf_int().iloc[0, 0])

    @pytest.mark.parametrize("q", [[], [0.5, 0.5], [0.5, 1.0], ["a"], 1.5, None])
    def test_what_is_no_list_of_fractions(self, q):
        with pytest.raises(dpstats.ParameterError, match="q must be"):
            dpstats.quantile("x ~ 1", self.DATA, q=q, eps=1)
