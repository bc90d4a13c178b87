"""The audit's own bound: its coverage, that it is tight, that it sees what is broken; and a few of its
rows."""

import math

import numpy as np
import pandas as pd
import pytest
from audit import audit, bounds, canaries, tapes
from audit.bounds import lower_bound
from audit.harness import Release, taken_anyway
from audit.replay import Replay
from audit.tapes import patched
from scipy.stats import binom, norm

import dpstats
from dpstats._estimators import AUDITED
from dpstats.mechanisms import noise
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.conversions import gdp_mu

FALSE_ALARM = 1e-6


def answers(g, runs, eps, delta=0.0):
    """Randomised response of two data sets; with probability `delta` the data set is named."""
    share = math.exp(eps) / (1 + math.exp(eps))
    told = g.random((2, runs)) < delta
    plain = (g.random((2, runs)) < np.array([[share], [1 - share]])).astype(float)
    return np.where(told, [[2.0], [3.0]], plain)


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("alpha", [0.2, 1e-3])
def test_clopper_pearson_covers(n, alpha):
    hits = np.arange(n + 1)
    low, high = bounds.clopper_pearson(hits, n, alpha)
    for p in np.linspace(0.001, 0.999, 97):
        mass = binom.pmf(hits, n, p)
        assert mass[low > p].sum() <= alpha * (1 + 1e-9)
        assert mass[high < p].sum() <= alpha * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["dp", "gdp"])
def test_bounds_are_seldom_too_high(measure):
    """At alpha = 0.1, 120 times; the number of failures is at most binomial."""
    g, alpha, repeats, delta = np.random.default_rng(1), 0.1, 120, 1e-3
    mu, high = gdp_mu(1.0, delta), 0
    for _ in range(repeats):
        if measure == "dp":
            samples = answers(g, 300, 1.0, delta)
        else:
            samples = g.normal([[0.0], [mu]], 1.0, (2, 300))
        high += lower_bound(*samples, measure, delta, alpha).eps > 1
    assert high <= binom.isf(FALSE_ALARM, repeats, alpha)


@pytest.mark.slow
def test_bounds_are_tight_with_many_runs():
    g = np.random.default_rng(2)
    assert 0.95 < lower_bound(*answers(g, 400_000, 1.0), "dp", 0.0).eps < 1
    samples = g.normal([[0.0], [gdp_mu(1.0, 1e-6)]], 1.0, (2, 400_000))
    assert 0.85 < lower_bound(*samples, "gdp", 1e-6).eps < 1
    # right guesses say more than the two frequencies one by one
    assert lower_bound(*samples, "dp", 1e-6).eps < 0.6


def test_what_spends_more_than_eps_is_above():
    g = np.random.default_rng(3)
    assert lower_bound(*answers(g, 20_000, 1.5), "dp", 0.0).eps > 1
    assert lower_bound(*g.normal([[0.0], [2 * gdp_mu(1.0, 1e-6)]], 1.0, (2, 20_000)), "gdp", 1e-6).eps > 1


def test_delta_is_accounted_for():
    """Naming the data set with probability delta is allowed, and with three times that it is not."""
    g = np.random.default_rng(4)
    assert lower_bound(*answers(g, 40_000, 0.1, 0.05), "dp", 0.05).eps < 1
    assert lower_bound(*answers(g, 40_000, 0.1, 0.15), "dp", 0.05).eps > 1
    assert lower_bound(*answers(g, 40_000, 0.1, 0.05), "dp", 0.0).eps > 1


def test_equal_laws_have_bound_zero():
    g = np.random.default_rng(5)
    for samples in (g.normal(size=(2, 5000)), np.full((2, 100), np.nan), np.zeros((2, 100))):
        for measure in bounds.MEASURES:
            assert lower_bound(*samples, measure, 1e-6).eps < 0.1


def test_failure_is_a_symbol():
    """NaN, which stands for a failed release, tells as much as any other value."""
    g = np.random.default_rng(6)
    values = g.normal(size=(2, 4000))
    values[g.random((2, 4000)) < [[0.9], [0.1]]] = np.nan
    assert lower_bound(*values, "dp", 0.0).eps > 1


def test_a_tape_gives_the_likelihood_ratio():
    """Gaussian and Laplace steps, the second depending on the first: against the formula."""
    drawn = []

    def run(value, rng):
        first = float(noise.gaussian(value, 1.0, 0.5, rng))
        second = float(noise.laplace(2 * value + first, 2.0, 0.25, rng))
        drawn.append((first, second))

    tape_p, tape_q = tapes.log_ratios(run, 0.0, 1.0, 50, Randomness(0))
    # each run is drawn on one data set and played back on the other, with the same numbers
    assert drawn[0::2] == drawn[1::2]
    first, second = np.array(drawn[0::2]).T

    def log(value):
        return norm.logpdf(first, value, 2.0) - np.abs(second - 2 * value - first) / 8.0

    expected = log(0.0) - log(1.0)
    np.testing.assert_allclose(np.concatenate([tape_p, tape_q]), expected, atol=1e-6)


def test_a_tape_leaves_no_trace():
    before = noise._add
    tapes.log_ratios(lambda value, rng: noise.laplace(value, 1.0, 1.0, rng), 0.0, 1.0, 3, Randomness(0))
    assert noise._add is before


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["noise.laplace, last digits", "rounds.choose", "adassp", "tukey_em, unsafe fits"]
)
def test_rows_are_as_expected(target):
    """The system's randomness, a choice, a transcript, a safety test; a false alarm has probability 1e-6 a
    row."""
    (case,) = (case for case in audit.CASES if case.target == target)
    correct, broken = audit.rows_of(case, case.quick)
    assert correct.verdict == correct.expected == "below"
    assert broken.verdict == broken.expected == "above"


def test_the_table_has_every_row_as_expected():
    table = pd.read_csv(audit.RESULTS)
    assert (table.verdict == table.expected).all()
    assert ((table.lower_bound < table.limit) == (table.expected == "below")).all()
    rows = [
        (case.target, variant, case.eps)
        for case in audit.CASES
        for variant in ("correct", f"broken: {case.broken.what}")
    ]
    assert list(zip(table.target, table.variant, table.limit, strict=True)) == rows


@pytest.mark.parametrize("target", ["ols", "huber", "logit", "poisson", "ols, unit", "tukey_em"])
def test_canaries_bound_at_least_half_of_what_is_promised(target):
    table = pd.read_csv(audit.RESULTS)
    row = table[(table.target == target) & (table.variant == "correct")].iloc[0]
    assert row.lower_bound >= row.limit / 2


@pytest.mark.parametrize(
    ("function", "share"), [(dpstats.ols, 0.95), (dpstats.huber, 0.94), (dpstats.logit, 0.85)]
)
def test_canaries_strain_nearly_all_steps_at_once(function, share):
    """Exactly, by replay, at the answers of one seed: the share of the promised mu that the row costs.

    What is not strained is in the README: a row that is certain of its class has next to no information.
    """
    tables = canaries.far_rows()[function]
    release = Release(function, "y ~ x", tables[0], eps=canaries.ROUNDS_EPS)
    with patched(*taken_anyway()), Replay().inserted() as replay:
        lost = replay.losses(release, *map(release.rows, tables), 0)
    assert share < lost.mu / gdp_mu(canaries.ROUNDS_EPS, 1e-6) <= 1 + 1e-9


def test_every_public_estimator_is_audited():
    audited = {target.split(",")[0].split(" ")[0] for target in (case.target for case in audit.CASES)}
    assert set(AUDITED) <= audited


@pytest.mark.slow
def test_every_case_runs():
    """Two releases each, as it is and broken: so that none falls behind the code that it audits."""
    for case in audit.CASES:
        assert len(list(audit.rows_of(case, 2))) == 2, case.target
