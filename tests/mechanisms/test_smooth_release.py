"""What the estimators by smooth sensitivity share: how the budget is divided, and who decides whether there
is a release."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from dpstats.errors import ReleaseFailed
from dpstats.mechanisms import smooth_release as _smooth
from dpstats.mechanisms.line_depths import LineDepths
from dpstats.mechanisms.order_statistics import smooth_median_bound
from dpstats.mechanisms.plane_depths import Depths
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.smooth_release import SmoothBudget, SmoothStatistic, smooth_release
from dpstats.mechanisms.smooth_sensitivity import enlarged, smooth_maximum, truncated
from dpstats.privacy.guarantee import Spend

BOX = ((0.0, 1.0),)
SIGNS = np.array([[-1.0, 1.0], [-1.0, 1.0]])


def budget(box=None, law="laplace", eps=2.0, rows=4000, **more):
    statistic = SmoothStatistic("median", "median", 1, 0.5, lambda n: (n + 1) // 2 - 2, 0.33, law)
    return SmoothBudget.of(statistic, eps, 1e-6, rows, box, seeded=True, **more)


def released(got, A, rng):
    return smooth_release([0.5], lambda count: A, None, None, got, rng)


@pytest.mark.parametrize("law", ["laplace", "student"])
@pytest.mark.parametrize("box", [None, BOX])
def test_the_budget_is_divided(box, law):
    """Between test and release, whose delta is one; without a test the release has it all."""
    got = budget(box, law)
    assert (got.eps_test > 0) == (box is None)
    assert got.eps_test + got.noise.eps == pytest.approx(2.0, rel=1e-12)
    assert got.guarantee.eps == 2.0 and got.guarantee.delta == (
        1e-6 if box is None or law == "laplace" else 0
    )
    assert sum(s.eps for s in got.guarantee.spends) == pytest.approx(2.0)
    assert sum(s.delta for s in got.guarantee.spends) == got.guarantee.delta
    if law == "laplace":
        assert got.noise.delta == 1e-6


@pytest.mark.parametrize("outcome", [True, False])
@pytest.mark.parametrize("law", ["laplace", "student"])
def test_the_test_has_its_budget_and_decides(law, outcome, monkeypatch):
    """Whatever the exact margin is: here it would pass, then it would not."""
    given = []
    monkeypatch.setattr(_smooth, "passes", lambda *a: given.append(a) or outcome)
    got, rng = budget(law=law), Randomness(1)
    for A in (np.linspace(1.0, 2.0, got.evaluated), np.full(got.evaluated, np.inf)):
        A[0] = 1.0
        if outcome:
            assert np.isfinite(released(got, A, rng).values).all()
        else:
            with pytest.raises(ReleaseFailed, match="bounds="):
                released(got, A, rng)
        _, margin = truncated(A, got.distances, got.noise.beta)
        assert given.pop() == (margin, got.eps_test, got.delta, rng)


@pytest.mark.parametrize("exact", [True, False])
def test_a_statistic_that_is_rounded_has_room_for_it(exact, monkeypatch):
    """Test and bound get a share of the statistic's size, unless it is an order statistic."""
    given = []
    monkeypatch.setattr(_smooth, "truncated", lambda *a: given.append(a) or truncated(*a))
    monkeypatch.setattr(_smooth, "passes", lambda *a: True)
    got = budget()
    got = replace(got, statistic=replace(got.statistic, exact=exact))
    smooth_release([-3.0], lambda count: np.zeros(count), None, None, got, Randomness(1))
    *_, size = given[0]
    assert size == (None if exact else 3.0)
    assert truncated(*given[0])[0] == (0.0 if exact else 2.0**-28 * 3)


def test_earlier_steps_are_paid_for():
    before = (Spend("scale", "exponential mechanism", 0.5),)
    got, alone = budget(before=before), budget(eps=1.5)
    assert got.noise == alone.noise and got.eps_test == alone.eps_test
    assert got.guarantee.eps == 2.0 and got.guarantee.spends == before + alone.guarantee.spends


def test_random_dp_has_no_test_and_no_public_box():
    for box in (None, BOX):
        got = budget(box, gamma=0.1)
        assert (got.eps_test, got.distances, got.box) == (0.0, None, None)
        assert got.guarantee.kind.startswith("random") and got.guarantee.gamma == 0.1


def test_intervals_know_the_noise_of_the_scale():
    """Coverage of 1,500 releases; false-alarm rate 1e-6."""
    got, rng, hits = budget(BOX, eps=1.0, rows=200), Randomness(2), 0
    for _ in range(1500):
        values, scale = got.noise.release([0.5], 0.3, rng)
        ((low, high),) = got.interval(values, [scale]).conf_int(0.2)
        hits += low <= 0.5 <= high
    assert abs(hits / 1500 - 0.8) < norm.isf(5e-7) * math.sqrt(0.16 / 1500)


def at_a_far_bound(kind, rows, bound):
    """Smooth bounds of data of which so many rows are at a bound, far from the others; and the decay."""
    beta, box = {"median": 0.325, "distances": 0.325, "point": 17.0, "line": 24.0}[kind], bound * SIGNS
    if kind == "median":
        values = np.append(np.zeros(4600 - rows), np.full(rows, bound))
        return smooth_median_bound(values, beta, -bound, bound), beta
    if kind == "distances":
        return smooth_maximum(lambda k: 2 * bound * (k > 2299 - rows), beta, 2 * bound), beta
    values = np.zeros((130, 2))
    values[:rows, 1] = bound
    if kind == "line":
        values[:, 0] = np.arange(130) % 2 * 2.0 - 1
        return LineDepths.of(*values.T).smooth_bound(box, beta), beta
    return Depths.of(values).smooth_bound(box, beta), beta


@pytest.mark.parametrize("bound", [1e40, 1e60, 1e300])
@pytest.mark.parametrize("kind", ["median", "distances", "point", "line"])
def test_no_bound_falls_at_once_where_a_box_is_wide(kind, bound):
    """``exp(-k beta)`` leaves the doubles, and what it times the box is must not decide."""
    found = [at_a_far_bound(kind, rows, bound) for rows in range(40)]
    logs = np.log([enlarged(np.zeros(1), smooth) for smooth, _ in found])
    assert np.abs(np.diff(logs)).max() <= found[0][1] * (1 + 1e-9)


def test_a_box_that_is_wider_than_all_doubles_is_a_bound():
    """Not NaN, whatever the depth."""
    box, values = 1e308 * SIGNS, np.zeros((90, 2))
    for rows in (0, 40, 89):
        values[:rows, 0] = np.arange(rows)
        with np.errstate(over="ignore"):  # as in a public call
            assert Depths.of(values).smooth_bound(box, 17.0) == np.inf
            assert LineDepths.of(*values.T).smooth_bound(box, 17.0) == np.inf
    assert enlarged(np.zeros(1), np.inf) == 2.0**900
