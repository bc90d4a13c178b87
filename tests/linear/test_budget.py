"""Every noise drawn during a release adds up to the guarantee, for the whole least-squares family."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.linear.budget import Step, divide, preparation, stage_steps, stages_of
from dpstats.linear.public import PublicDesign
from dpstats.mechanisms.whiten import Stage
from dpstats.privacy.conversions import gdp_mu


def frame(n=6000, seed=0):
    g = np.random.default_rng(seed)
    x = g.standard_normal((n, 2)) @ np.array([[1.0, 0.5], [0, 1]])
    group = g.choice(["a", "b", "c"], n)
    y = 3 + x @ [1.0, -2.0] + (group == "b") + g.standard_normal(n)
    return pd.DataFrame(x, columns=["x1", "x2"]).assign(g=pd.Categorical(group, ["a", "b", "c"]), y=y)


CALLS = {
    "ols": {},
    "ols, raw": {"winsorize": False},
    "adassp": {},
    "adassp, raw": {"standardize": False, "clip": 2.0},
    "boosted_adassp": {},
    "boosted_adassp, published": {"standardize": False, "clip": 1.0, "rounds": 10},
    "boosted_adassp, one round": {"rounds": 1},
    "huber": {"rounds": 7},
    "gradient_descent": {"steps": 5, "schedule": "1/t"},
}
FORMULAS = {
    "y ~ x1 + x2 + g": {},
    "y ~ x1 - 1": {},
    "y ~ x1 + g ": {"bounds": {"x1": (-5, 5), "y": (-20, 20)}},
}


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.slow
def test_all_noise_adds_up_to_the_guarantee(call, formula, adds_up):
    estimator = getattr(dpstats, call.split(",")[0])
    fit = estimator(formula, frame(), eps=2, delta=1e-5, seed=1, **CALLS[call], **FORMULAS[formula])
    adds_up(fit)


@pytest.mark.parametrize("call", ["ols", "huber", "adassp", "boosted_adassp"])
def test_all_noise_of_units_adds_up_to_the_guarantee(call, adds_up):
    panel = frame()
    panel["id"] = np.arange(len(panel["y"])) // 2
    fit = getattr(dpstats, call)("y ~ x1 + x2 + g", panel, eps=2, delta=1e-5, seed=1, unit="id")
    adds_up(fit)


@pytest.mark.parametrize("arguments", [{}, {"clip": 1.5}, {"bounds": {"x1": (-9, 9)}},
                                       {"bounds": {"x1": (-9, 9), "y": (-9, 9)}}])  # fmt: skip
def test_all_noise_of_mean_adds_up_to_the_guarantee(arguments, adds_up):
    adds_up(dpstats.mean("y + x1 ~ 1", frame(), eps=1, delta=1e-5, seed=1, **arguments))


def squares_exceed(mu, parts):
    return sum(Fraction(m) ** 2 for m in parts) > Fraction(mu) ** 2


def random_budgets(number, seed=0):
    """Budgets and steps as estimators divide them: some not needed, some repeated."""
    rng = np.random.default_rng(seed)
    for i in range(number):
        # (conversions take longer than what is looked at: ten divisions of each budget)
        if i % 10 == 0:
            eps, delta = np.exp(rng.uniform(-3, 2)), 10 ** rng.uniform(-9, -4)
        shares = rng.integers(0, 9, rng.integers(1, 8)) / 100
        times = rng.integers(1, 6, len(shares))
        if shares.any():
            yield (
                eps,
                delta,
                [Step(str(i), "step", *st) for i, st in enumerate(zip(shares, times, strict=True))],
            )


@pytest.mark.slow
def test_no_budget_is_exceeded_in_exact_arithmetic(monkeypatch):
    exceeded_by_hand = 0
    # what each step is worth alone is not looked at here
    monkeypatch.setattr("dpstats.linear.budget.gdp_eps", lambda mu, delta: 1.0)
    for eps, delta, steps in random_budgets(600):
        mus, guarantee = divide(eps, delta, steps, False)
        mu, total = gdp_mu(eps, delta), sum(step.share for step in steps)
        parts = [mus[step.key] for step in steps for _ in range(step.times)]
        assert [s.mu for s in guarantee.spends] == [m for m in parts if m]
        assert not squares_exceed(mu, parts)
        rounded = [mu * math.sqrt(s.share / total / s.times) for s in steps for _ in range(s.times)]
        assert parts == pytest.approx(rounded, rel=1e-14)
        exceeded_by_hand += squares_exceed(mu, rounded)
    assert exceeded_by_hand  # the same formula rounded to the nearest fails


def test_a_variant_with_noise_for_half_the_clip_is_caught(adds_up, monkeypatch):
    from dpstats.linear import scores

    real = scores.product_gradient
    monkeypatch.setattr(
        "dpstats.linear.loss.product_gradient",
        lambda rows, u, limits, clip, mu, rng: real(rows, u, limits, clip, 2 * mu, rng),
    )
    fit = dpstats.ols("y ~ x1 + x2", frame(), eps=2, delta=1e-5, seed=1)
    with pytest.raises(AssertionError):
        adds_up(fit)


def test_a_variant_that_forgets_the_number_of_rounds_is_caught(adds_up, monkeypatch):
    def forgetful(eps, delta, steps, seeded):
        mus, guarantee = divide(eps, delta, steps, seeded)
        return {step.key: mus[step.key] * math.sqrt(step.times) for step in steps}, guarantee

    monkeypatch.setattr("dpstats.regression.ols.divide", forgetful)
    fit = dpstats.ols("y ~ x1 + x2", frame(), eps=2, delta=1e-5, seed=1)
    with pytest.raises(AssertionError):
        adds_up(fit)


def test_conversion_agrees_with_dp_accounting():
    from dp_accounting.pld import privacy_loss_distribution

    for eps, delta in ((0.1, 1e-6), (1.0, 1e-5), (5.0, 1e-8)):
        pld = privacy_loss_distribution.from_gaussian_mechanism(1 / gdp_mu(eps, delta))
        assert pld.get_delta_for_epsilon(eps) == pytest.approx(delta, rel=1e-3)


SHARES = dict.fromkeys(("count", "location", "scale", "response_location", "response_scale"), 0.1)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("free", [0, 2])
@pytest.mark.parametrize("bounds", [None, (0.0, 1.0)])
def test_what_is_not_needed_is_not_paid_for(intercept, free, bounds):
    public = PublicDesign(intercept, np.arange(free), np.zeros(3), np.ones(3), bounds)
    paid = {step.key for step in preparation(public, SHARES) if step.share}
    expected = {
        "count": True,
        "location": free and intercept,
        "scale": free,
        "response_location": intercept,
        "response_scale": True,
    }
    assert paid == {key for key, needed in expected.items() if needed}


def test_stages_have_their_rules_and_their_part_of_the_budget():
    recipe = ((2.0, 0.0, 0.25), (4.0, 0.5, 0.75))
    steps = [Step("first", "first", 0.5), *stage_steps(recipe, share=0.5)]
    mus, guarantee = divide(1.0, 1e-6, steps, False)
    mu = gdp_mu(1.0, 1e-6)
    expected = [Stage(2.0, 0.0, mu * math.sqrt(0.125)), Stage(4.0, 0.5, mu * math.sqrt(0.375))]
    for stage, known in zip(stages_of(recipe, mus), expected, strict=True):
        assert (stage.c, stage.L, stage.response) == (known.c, known.L, True)
        assert stage.mu == pytest.approx(known.mu)
    assert [s.step for s in guarantee.spends] == [
        "first",
        "whitening, Gram matrix 1",
        "whitening, Gram matrix 2",
    ]
