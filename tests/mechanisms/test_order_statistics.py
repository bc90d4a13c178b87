"""The bound of the median's local sensitivity against brute force over all small data sets."""

import itertools
import math

import numpy as np
import pytest

from dpstats.mechanisms.order_statistics import lower_median, median_sensitivities, smooth_median_bound
from dpstats.mechanisms.smooth_sensitivity import truncated

GRID = (0.0, 1.0, 2.5, 3.0)
LO, HI = 0.0, 3.0


def data_sets(n):
    return [tuple(c) for c in itertools.combinations_with_replacement(GRID, n)]


def neighbours(D, unusable):
    """Data sets that differ by one replaced record; with `unusable`, also by one that appears or vanishes."""
    for i in range(len(D)):
        rest = D[:i] + D[i + 1 :]
        yield from (tuple(sorted((*rest, v))) for v in GRID)
        if unusable:
            yield rest
    if unusable:
        yield from (tuple(sorted((*D, v))) for v in GRID)


def ball(D, k, unusable):
    reached = {D}
    for _ in range(k):
        reached |= {E for F in reached for E in neighbours(F, unusable)}
    return reached


def median(D):
    return lower_median(np.array(D)) if D else LO


def local_sensitivity(D, k, unusable):
    return max(abs(median(E) - median(F)) for E in ball(D, k, unusable) for F in neighbours(E, unusable))


def bound_at(D, k, shift=1):
    """``A_k`` by its definition; `shift` is 1."""
    n, m = len(D), (len(D) + 1) // 2

    def x(i):
        return LO if i < 1 else HI if i > n else D[i - 1]

    return max(x(m + t) - x(m + t - k - shift) for t in range(k + shift + 1))


@pytest.mark.parametrize("n", [3, 4, 5])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_the_bound_is_the_local_sensitivity(n, k):
    for D in data_sets(n):
        assert bound_at(D, k) == local_sensitivity(D, k, False)


def test_the_sensitivities_without_bounds_are_those_of_the_definition():
    rng = np.random.default_rng(3)
    for n in (1, 2, 3, 8, 31):
        x = np.sort(rng.standard_cauchy(n))
        m, padded = (n + 1) // 2 - 1, lambda i, x=x, n=n: -np.inf if i < 0 else np.inf if i >= n else x[i]
        want = [max(padded(m + t) - padded(m + t - k - 1) for t in range(k + 2)) for k in range(n)]
        np.testing.assert_array_equal(median_sensitivities(x, n), want)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("k", [0, 1])
def test_the_bound_covers_records_that_become_unusable(n, k):
    for D in data_sets(n):
        assert local_sensitivity(D, k, True) <= bound_at(D, k)


def test_a_bound_that_ignores_the_neighbour_is_caught():
    assert any(bound_at(D, 1, shift=0) < local_sensitivity(D, 1, False) for D in data_sets(5))


def test_the_average_of_the_middle_values_is_not_covered():
    def average(D):
        return float(np.median(D))

    assert any(
        abs(average(D) - average(E)) > bound_at(D, 0) for D in data_sets(4) for E in neighbours(D, True) if E
    )


def brute(D, beta):
    return max(math.exp(-k * beta) * bound_at(D, k) for k in range(len(D) + 2))


@pytest.mark.parametrize("beta", [0.05, 0.4, 2.0])
def test_smooth_bound_is_the_maximum(beta):
    rng = np.random.default_rng(1)
    for _ in range(150):
        D = tuple(np.sort(np.clip(rng.choice([rng.normal(1, 1), *GRID, 2.9], rng.integers(0, 14)), LO, HI)))
        assert smooth_median_bound(np.array(D), beta, LO, HI) == pytest.approx(brute(D, beta), rel=1e-12)


def test_smooth_bound_of_many_rows_is_the_maximum():
    x = np.sort(np.random.default_rng(2).standard_cauchy(700))
    x = np.clip(x, -1e3, 1e3)
    padded = np.concatenate([np.full(701, -1e3), x, np.full(701, 1e3)])
    m = 701 + 349
    terms = [
        math.exp(-0.02 * k) * (padded[m : m + k + 2] - padded[m - k - 1 : m + 1]).max() for k in range(700)
    ]
    assert smooth_median_bound(x, 0.02, -1e3, 1e3) == pytest.approx(max(terms), rel=1e-12)


def smoothness_violations(bound, beta):
    found = 0
    for n in (0, 1, 2, 3, 4, 5):
        for D in data_sets(n):
            for E in neighbours(D, True):
                found += bound(D) > math.exp(beta) * bound(E) * (1 + 1e-12)
    return found


def test_bound_is_smooth_towards_every_neighbour():
    assert smoothness_violations(lambda D: smooth_median_bound(np.array(D), 0.3, LO, HI), 0.3) == 0


def test_a_slower_decay_is_caught():
    assert smoothness_violations(lambda D: smooth_median_bound(np.array(D), 0.36, LO, HI), 0.3) > 0


def margins(rng, trials, margin):
    """Margins and bounds of random pairs of neighbours, rows coming and going, with a gap near the K-th
    distance."""
    for _ in range(trials):
        n, K = int(rng.integers(20, 40)), 5
        x = np.sort(rng.normal(size=n) + rng.choice([0, 1e3, 1e6], n, p=[0.7, 0.2, 0.1]))
        middle = (n + 1) // 2
        x[middle + K + rng.integers(-2, 3) :] += 10 ** rng.uniform(0, 3)
        edit = rng.integers(3)
        y = x if edit == 0 else np.delete(x, rng.integers(n))
        y = np.sort(np.append(y, rng.choice([-1e9, x[middle], 1e9]))) if edit < 2 else y
        yield margin(x, K), margin(y, K)


@pytest.mark.slow
def test_margin_without_bounds_has_sensitivity_one_and_means_smooth():
    def margin(x, K):
        return truncated(median_sensitivities(x, 2 * K + 1), K, 0.4)

    safe = 0
    for (bound, here), (other, there) in margins(np.random.default_rng(3), 3000, margin):
        assert abs(here - there) <= 1
        if here >= 0:
            safe += 1
            assert other <= math.exp(0.4) * bound * (1 + 1e-12) and bound <= math.exp(0.4) * other * (
                1 + 1e-12
            )
    assert safe > 300


def test_sensitivities_that_grow_too_slowly_are_caught():
    def margin(x, K):
        return truncated(np.repeat(median_sensitivities(x, 2 * K + 1), 2), K, 0.4)

    pairs = margins(np.random.default_rng(3), 3000, margin)
    assert any(here >= 0 and other > math.exp(0.4) * bound for (bound, here), (other, _) in pairs)


def test_sensitivities_without_rows_are_unbounded():
    assert np.all(np.isinf(median_sensitivities(np.empty(0), 4)))
    assert np.all(np.isinf(median_sensitivities(np.array([1.0]), 2)))
    assert smooth_median_bound(np.empty(0), 1.0, 0.0, 7.0) == 7.0
