import math
import pickle
from dataclasses import FrozenInstanceError

import pytest

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
