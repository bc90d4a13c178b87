"""Parts of a total: a ledger of the same rule takes releases of them all, and not a bit more."""

import inspect
import math
import re
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpstats
from dpstats import BudgetExceeded, Guarantee, Ledger, ParameterError, split
from dpstats._estimators import ESTIMATORS
from dpstats.linear.budget import Step, divide
from dpstats.privacy.conversions import gdp_mu
from dpstats.privacy.filters import FILTERS, limits

sys.path.insert(0, str(Path(__file__).parents[1]))
from estimators import data, run  # noqa: E402

STEPS = [Step("a", "first", 0.1), Step("b", "second", 0.7, times=10), Step("c", "third", 0.2, times=3)]


def gaussian(eps, delta):
    """The guarantee of an estimator whose steps are Gaussian."""
    return divide(eps, delta, STEPS, seeded=False)[1]


@pytest.mark.parametrize("rule", FILTERS)
@pytest.mark.parametrize("total", [(0.1, 1e-9), (1, 1e-6), (8, 1e-5)])
@pytest.mark.parametrize("parts", [1, 3, *(pytest.param(parts, marks=pytest.mark.slow) for parts in (7, 50))])
def test_the_parts_fit_and_no_more(rule, total, parts):
    ledger = Ledger(":memory:", eps=total[0], delta=total[1], composition=rule)
    budgets = split(total[0], parts, rule, total[1])
    assert len(budgets) == parts and len(set(budgets)) == 1
    for part in budgets[1:]:
        ledger.charge(gaussian(*part), "ols")
    with pytest.raises(BudgetExceeded):
        ledger.charge(gaussian(budgets[0].eps * (1 + 1e-7), budgets[0].delta), "ols")
    ledger.charge(gaussian(*budgets[0]), "ols")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee(1e-4 * total[0], 0, "add-remove", "pure"), "median")


@pytest.mark.parametrize("rule", FILTERS)
def test_weights_are_shares_of_what_adds_up(rule):
    parts = split(2, {"main": 3, "check": 1.0, "rest": 0.5}, rule, 1e-6)
    ledger = Ledger(":memory:", eps=2, delta=1e-6, composition=rule)
    for name, part in parts.items():
        ledger.charge(gaussian(*part), name)
    cost = {
        "basic": lambda part: part.eps / limits(rule, 2, 1e-6)[0],
        "zcdp": lambda part: gdp_mu(*part) ** 2 / 2 / limits(rule, 2, 1e-6)[0],
        "gdp": lambda part: gdp_mu(*part) ** 2 / limits(rule, 2, 1e-6)[0],
    }[rule]
    assert [cost(part) for part in parts.values()] == pytest.approx([3 / 4.5, 1 / 4.5, 0.5 / 4.5], rel=1e-8)


@pytest.mark.parametrize("rule", FILTERS)
@pytest.mark.slow
def test_three_regressions(rule):
    rng = np.random.default_rng(0)
    x = rng.normal(size=8_000)
    data = {"x": x, "y": x + rng.normal(size=8_000)}
    ledger = Ledger(":memory:", eps=1, delta=1e-6, composition=rule)
    parts = split(1, 3, rule=rule)
    for seed, part in enumerate(parts):
        dpstats.ols("y ~ x", data, eps=part.eps, delta=part.delta, ledger=ledger, seed=seed)
    with pytest.raises(BudgetExceeded):
        dpstats.ols("y ~ x", data, eps=0.01, delta=1e-9, ledger=ledger, seed=9)


def test_gaussian_rules_give_each_part_more():
    basic, zcdp, gdp = (split(1, 3, rule)[0].eps for rule in FILTERS)
    assert basic == pytest.approx(1 / 3) and basic < zcdp < gdp
    # what is left out of the total is the half of delta that the rule keeps for opaque steps
    mu = gdp_mu(1, 5e-7) / math.sqrt(3)
    assert gdp_mu(gdp, 1e-6) == pytest.approx(mu, rel=1e-9)


def test_the_basic_rule_divides_delta_too():
    parts = split(1, {"a": 1, "b": 2}, delta=3e-6)
    assert parts == {"a": (1 / 3, 1e-6), "b": (2 / 3, 2e-6)}
    assert [p.delta for p in split(1, 2, delta=0)] == [0, 0]
    assert sum(Fraction(p.eps) for p in split(3, 4)) == 3


@pytest.mark.slow
def test_the_estimators_that_it_names_have_gaussian_steps_alone():
    named = re.findall(r"`(\w+)`", split.__doc__.split("all are Gaussian:")[1].split("Under")[0])
    found = set()
    for name, listed in ESTIMATORS.items():
        if "delta" in inspect.signature(getattr(dpstats, name)).parameters:
            rows, eps = listed.small
            spends = run(name, data(rows), eps=eps).guarantee.spends
            found |= {name} if all(spend.mu for spend in spends) else set()
    assert set(named) == found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_eps": 0}, "total_eps must be a positive finite number"),
        ({"parts": 0}, "parts must be a positive integer, or"),
        ({"parts": {}}, "parts must be"),
        ({"parts": {"a": -1}}, "parts must be"),
        ({"parts": {1: 1.0}}, "parts must be"),
        ({"parts": 2.0}, "parts must be"),
        ({"rule": "rdp"}, "rule must be one of"),
        ({"delta": 1}, "delta must be"),
        ({"rule": "gdp", "delta": 0}, "delta must be positive for rule='gdp'"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(ParameterError, match=message):
        split(**{"total_eps": 1, "parts": 3, **changes})
