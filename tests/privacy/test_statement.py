import json
import re

import pytest

import dpstats
from dpstats import Guarantee, Ledger
from dpstats.privacy.guarantee import KINDS, Spend


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


def test_the_record_of_a_study(ledger):
    report = ledger.report()
    record = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert record == report.to_dict() and record["version"] == dpstats.__version__
    assert record["dataset"] == "study <1>" and record["total"] == {"eps": 3.0, "delta": 1e-5}
    releases = record["releases"]
    assert [r["method"] for r in releases] == ["tukey_em", "median", "medsweep"]
    assert [r["seeded"] for r in releases] == [False, True, False]
    assert (
        releases[1]["formula"] == "price ~ 1" and releases[1]["eps"] == 0.25 and releases[0]["delta"] == 1e-6
    )
    assert all(r["charged_at"].endswith("+00:00") for r in releases)
    assert record["totals"]["add-remove"] == {"charged": [1.25, 1e-6], "left": [1.75, 9e-6]}
    assert record["substitution"] == list(report.substitution) and record["unit"] is None


def test_a_record_has_the_steps_of_its_releases():
    ledger = Ledger(":memory:", eps=3, delta=0, unit="patient")
    steps = (Spend("rows", "Laplace noise", 0.25), Spend("median", "exponential mechanism", 0.75))
    ledger.charge(Guarantee(1, 0, "add-remove", "pure", steps, unit="patient"), "median", "y ~ 1")
    record = ledger.report().to_dict()
    assert [s["step"] for s in record["releases"][0]["spends"]] == ["rows", "median"]
    assert record["unit"] == "patient"


def test_other_forms(ledger):
    report = ledger.report()
    assert report.as_text() == str(report) and report.as_html() == report._repr_html_()
    page = report.as_markdown()
    assert "study \\<1\\>" in page and "**Privacy ledger**" in page
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) == 5 and {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}
    assert f"dpstats: {dpstats.__version__}" in page and dpstats.__version__ in str(report)


def test_everything_as_replacement_of_one_record(ledger):
    eps, delta = ledger.report().substitution
    assert eps == 2 * 1.25 + 0.5
    assert delta == pytest.approx((1 + 2.718281828459045**1.25) * 1e-6 + 1e-6)


def test_an_empty_ledger():
    report = Ledger(":memory:", eps=1, delta=0).report()
    assert re.search("Releases: +0\n", str(report)) and "charged" not in str(report)
    assert "\nNothing has been released yet.\n" in str(report)
    assert report.to_frame().empty and report.to_frame()["seeded"].dtype == bool
    assert report.substitution == (0, 0)


def test_what_is_left_under_gdp_is_said_to_be_for_other_steps():
    ledger = dpstats.Ledger(":memory:", eps=1, delta=1e-6, composition="gdp")
    ledger.charge(dpstats.Guarantee(0.1, 1e-7, "add-remove", "approximate"), "m")
    text = " ".join(str(ledger.report()).split())
    assert "for a release without Gaussian steps, more for one with them." in text
