import re

import pytest

from dpstats import Guarantee, Ledger
from dpstats.privacy.guarantee import KINDS


@pytest.fixture
def ledger():
    ledger = Ledger(":memory:", eps=3, delta=1e-5, dataset="study <1>")
    ledger.charge(
        Guarantee(1, 1e-6, "add-remove", "approximate"),
        "tukey_em",
        "price ~ carat + " + " + ".join("abcdefghijkl"),
    )
    ledger.charge(Guarantee(0.25, 0, "add-remove", "pure", seeded=True), "median", "price ~ 1")
    ledger.charge(Guarantee(0.5, 1e-6, "substitution", KINDS[2], gamma=0.1), "medsweep", "y ~ x")
    return ledger


def test_text(ledger):
    text = str(ledger.report())
    assert max(map(len, text.splitlines())) <= 78
    assert "Privacy ledger" in text and "study <1>" in text and "SEEDED" in text and "random DP" in text
    assert "One record added or removed: charged (1.25, 1e-06); left (1.75, 9e-06)." in text
    assert "One record replaced: charged (0.5, 1e-06); left (2.5, 9e-06)." in text
    assert repr(ledger.report()) == text


def test_html_is_escaped(ledger):
    page = ledger.report()._repr_html_()
    assert "study &lt;1&gt;" in page and "<1>" not in page


def test_frame(ledger):
    frame = ledger.report().to_frame()
    assert list(frame["method"]) == ["tukey_em", "median", "medsweep"]
    assert list(frame["seeded"]) == [False, True, False]
    assert frame["eps"].sum() == 1.75
    assert str(frame["charged_at"].dt.tz) == "UTC"
    assert frame.attrs["totals"]["substitution"]["charged"] == (0.5, 1e-6)
    assert frame.attrs["eps"] == 3


def test_everything_as_replacement_of_one_record(ledger):
    eps, delta = ledger.report().substitution
    assert eps == 2 * 1.25 + 0.5
    assert delta == pytest.approx((1 + 2.718281828459045**1.25) * 1e-6 + 1e-6)


def test_an_empty_ledger():
    report = Ledger(":memory:", eps=1, delta=0).report()
    assert re.search("Releases: +0\n", str(report)) and "charged" not in str(report)
    assert report.to_frame().empty and report.to_frame()["seeded"].dtype == bool
    assert report.substitution == (0, 0)
