"""What the estimators by smooth sensitivity share: how the budget is divided, and who decides whether there
is a release."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpstats.errors import ReleaseFailed
from dpstats.mechanisms import smooth_release as _smooth
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.smooth_release import SmoothPlan, smooth_release
from dpstats.mechanisms.smooth_sensitivity import truncated

BOX = ((0.0, 1.0),)


def plan(box=None, law="laplace", eps=2.0, rows=4000):
    return SmoothPlan.of(
        "median",
        "median",
        1,
        eps,
        1e-6,
        rows,
        box,
        None,
        True,
        0.33,
        0.5,
        lambda n: (n + 1) // 2 - 2,
        law=law,
    )


@pytest.mark.parametrize("law", ["laplace", "student"])
@pytest.mark.parametrize("box", [None, BOX])
def test_the_budget_is_divided(box, law):
    """Between test and release, whose delta is one; without a test the release has it all."""
    got = plan(box, law)
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
    got, rng = plan(law=law), Randomness(1)
    for levels in (np.linspace(1.0, 2.0, got.level_count), np.full(got.level_count, np.inf)):
        levels[0] = 1.0
        if outcome:
            assert np.isfinite(smooth_release("median", [0.5], got, rng, levels=levels)[0]).all()
        else:
            with pytest.raises(ReleaseFailed, match="bounds="):
                smooth_release("median", [0.5], got, rng, levels=levels)
        _, margin = truncated(levels, got.levels, got.noise.beta)
        assert given.pop() == (margin, got.eps_test, got.delta, rng)


def test_intervals_know_the_noise_of_the_scale():
    """Coverage of 1,500 releases; false-alarm rate 1e-6."""
    got, rng, hits = plan(BOX, eps=1.0, rows=200), Randomness(2), 0
    for _ in range(1500):
        values, scale = got.noise.release([0.5], 0.3, rng)
        ((low, high),) = got.interval(values, [scale]).conf_int(0.2)
        hits += low <= 0.5 <= high
    assert abs(hits / 1500 - 0.8) < norm.isf(5e-7) * math.sqrt(0.16 / 1500)
