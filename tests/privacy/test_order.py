"""The ledger is charged before a row is read, also where every group is estimated by itself."""

import contextlib
import sys
from pathlib import Path

import numpy as np
import pytest

import dpstats
from dpstats.data.batches import Source
from dpstats.data.sources import open_source
from dpstats.estimation.call import Needs

sys.path.insert(0, str(Path(__file__).parents[1]))
from estimators import GROUPED, data, public_rows, run  # noqa: E402

DATA = data(900).assign(g=np.repeat(["a", "b", "c"], 300))
GROUPS = {"by": "g", "levels": {"g": ["a", "b", "c"]}}
# a number of rows that is public is counted first
PRIVATE_ROWS = [name for name in GROUPED if not public_rows(name)]


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
@pytest.mark.parametrize("name", PRIVATE_ROWS)
def test_nothing_is_read_before_the_charge(name, groups, events):
    with contextlib.suppress(dpstats.ReleaseFailed):
        run(name, DATA, ledger=dpstats.Ledger(":memory:", eps=4, delta=1e-5), **groups)
    assert events.count("charged") == 1 and events[0] == "charged" and "read" in events
    events.clear()
    with pytest.raises(dpstats.BudgetExceeded):
        run(name, DATA, ledger=dpstats.Ledger(":memory:", eps=1, delta=1e-5), **groups)
    assert events == ["charged"]


def test_reading_first_is_caught(events, monkeypatch):
    """Test of the test."""
    check = Needs.check
    monkeypatch.setattr(
        Needs,
        "check",
        lambda self, name, design: (list(design.blocks(open_source(DATA))), check(self, name, design)),
    )
    with pytest.raises(AssertionError):
        test_nothing_is_read_before_the_charge("ols", {}, events)
