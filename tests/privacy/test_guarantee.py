import math
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import dpstats
from dpstats._format import at_least, at_most
from dpstats.errors import ParameterError
from dpstats.privacy.guarantee import KINDS, Guarantee, Spend


def test_facts_are_frozen():
    g = Guarantee(1, 1e-6, "add-remove", "approximate")
    with pytest.raises(FrozenInstanceError):
        g.eps = 2
    assert g.replace(eps=2).eps == 2 and g.eps == 1
    assert pickle.loads(pickle.dumps(g)) == g


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eps": -1}, "eps must be"),
        ({"eps": math.nan}, "eps must be"),
        ({"eps": math.inf}, "eps must be"),
        ({"delta": 1}, "delta must be"),
        ({"delta": -1e-9}, "delta must be"),
        ({"neighbours": "both"}, "neighbours must be one of 'add-remove', 'substitution'"),
        ({"kind": "zcdp"}, "kind must be"),
    ],
)
def test_guarantee_is_checked(changes, message):
    with pytest.raises(ParameterError, match=message):
        Guarantee(1, 0, "add-remove", "pure").replace(**changes)


@pytest.mark.parametrize("name", ["eps", "delta", "mu", "rho"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_spend_is_checked(name, value):
    with pytest.raises(ParameterError, match=f"{name} must be"):
        Spend(**{"step": "s", "mechanism": "m", "eps": 1, name: value})


def test_text_says_what_is_promised():
    random = Guarantee(0.5, 1e-6, "substitution", KINDS[2], gamma=0.01, seeded=True)
    assert str(random).startswith("(0.5, 1e-06)-DP, random")
    assert "one record replaced" in str(random)
    assert "SEEDED: protects nobody" in str(random)
    assert "SEEDED" not in str(random.replace(seeded=False))


def test_to_dict_is_plain():
    g = Guarantee(1, 0, "add-remove", "pure", (Spend("median", "exponential mechanism", 1),))
    assert g.to_dict()["spends"] == [
        {
            "step": "median",
            "mechanism": "exponential mechanism",
            "eps": 1,
            "delta": 0.0,
            "mu": None,
            "rho": None,
        }
    ]


def test_no_text_promises_more_than_the_release_keeps():
    """Budgets are rounded up, and what is left is rounded down."""
    guarantee = Guarantee(1.00049, 1.0049e-6, "add-remove", "approximate")
    assert str(guarantee).startswith("(1.001, 1.01e-06)-DP")
    assert "<td>1.00049</td>" in guarantee._repr_html_()
    assert "1.00001" in Guarantee(1.000001, 0, "add-remove", "pure")._repr_html_()
    ledger = dpstats.Ledger(":memory:", eps=3, delta=1e-5)
    for eps in (1.00049, 0.33334):
        ledger.charge(guarantee.replace(eps=eps, delta=1.0004e-6), "m")
    text = " ".join(str(ledger.report()).split())
    assert "charged (1.334, 2.01e-06); left (1.666, 7.99e-06)" in text
    assert "(2.668, 9.6e-06)-DP when one record is replaced" in text
    with pytest.raises(dpstats.BudgetExceeded, match="asks for eps = 1.66618, .* there is eps = 1.66617"):
        ledger.charge(Guarantee(1.6661705, 0, "add-remove", "pure"), "m")


def test_budgets_are_rounded_to_one_side():
    numbers = np.random.default_rng(0).lognormal(0, 5, 2_000)
    for digits in (3, 4, 6):
        for x in numbers:
            up, down, last = float(at_least(x, digits)), float(at_most(x, digits)), 10.0**-digits
            assert down <= (1 + 1e-9) * x and x <= (1 + 1e-9) * up and up - down <= 10.1 * last * up
    assert at_least(0.1 + 0.2) == at_most(0.1 + 0.2) == "0.3"


def test_so_many_records_that_nothing_is_promised():
    with pytest.raises(ParameterError, match="rows must be fewer"):
        Guarantee(10, 1e-6, "add-remove", "approximate").of_unit("id", 3)


def test_of_units_random_differential_privacy_promises_nothing():
    random = Guarantee(0.5, 1e-6, "add-remove", KINDS[2], gamma=0.01)
    with pytest.raises(ParameterError, match="has no such rule"):
        random.of_unit("id", 2)
