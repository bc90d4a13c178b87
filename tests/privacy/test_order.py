"""The ledger is charged before a row is read, also where every group is estimated by itself."""

import numpy as np
import pytest

import dpstats
from dpstats.data.sources import Source

DATA = {"y": np.arange(900.0), "x": np.arange(900.0) ** 2, "g": np.repeat(["a", "b", "c"], 300)}
GROUPS = {"by": "g", "levels": {"g": ["a", "b", "c"]}}
CALLS = {
    "median": ("y ~ 1", {}),
    "mean": ("y ~ 1", {}),
    "ols": ("y ~ x", {}),
}


@pytest.fixture
def events(monkeypatch):
    """What happens, in its order: "charged" and "read"."""
    seen, charge, batches = [], dpstats.Ledger._charge, Source.batches
    monkeypatch.setattr(
        dpstats.Ledger, "_charge", lambda self, *a: (seen.append("charged"), charge(self, *a))[1]
    )
    monkeypatch.setattr(Source, "batches", lambda self, *a: (seen.append("read"), batches(self, *a))[1])
    return seen


@pytest.mark.parametrize("groups", [{}, GROUPS], ids=["whole", "groups"])
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_read_before_the_charge(name, groups, events):
    formula, arguments = CALLS[name]
    call = arguments | groups | {"eps": 4}
    getattr(dpstats, name)(
        formula, DATA, ledger=dpstats.Ledger(":memory:", eps=4, delta=1e-5), seed=1, **call
    )
    assert events.count("charged") == 1 and events[0] == "charged" and "read" in events
    events.clear()
    with pytest.raises(dpstats.BudgetExceeded):
        getattr(dpstats, name)(formula, DATA, ledger=dpstats.Ledger(":memory:", eps=1, delta=1e-5), **call)
    assert events == ["charged"]


def test_reading_first_is_caught(events, monkeypatch):
    """Test of the test."""
    check = dpstats.estimation.pipeline.one_response
    monkeypatch.setattr(
        dpstats.estimation.pipeline,
        "one_response",
        lambda design, method: (list(design.blocks(DATA)), check(design, method)),
    )
    with pytest.raises(AssertionError):
        test_nothing_is_read_before_the_charge("ols", {}, events)
