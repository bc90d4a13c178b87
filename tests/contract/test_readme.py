"""The README's code runs, and its numbers are those of the committed studies."""

import csv
import re
from pathlib import Path

import pytest

import dpstats

ROOT = Path(dpstats.__file__).parents[1]
README = ROOT / "README.md"
pytestmark = pytest.mark.skipif(not README.is_file(), reason="the README is not installed with the package")


def study(name):
    with open(ROOT / "benchmarks" / name, newline="") as file:
        return list(csv.DictReader(file))


def test_code_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.S):
        exec(block, names)
    assert "TukeyEM" in capsys.readouterr().out


def test_accuracy_is_as_measured():
    rows = dict(re.findall(r"^\| (\w+), [\d,]+ x \d+ \| (.*) \|$", README.read_text(), re.M))
    ols = {
        r["data"]: float(r["r2"])
        for r in study("least_squares/accuracy.csv")
        if (r["estimator"], r["eps"]) == ("ols", "1.0986")
    }
    tukey = {r["data"]: r for r in study("tukey_em/accuracy.csv")}
    assert len(rows) == 8
    for name, text in rows.items():
        median = tukey[name]["median"]
        expected = "refused: too few rows" if median == "nan" else median
        assert text == f"{tukey[name]['ols']} | {ols[name]:.3f} | {expected}"


def test_coverage_is_as_measured():
    coverage = [100 * float(r["coverage"]) for r in study("tukey_em/interval_coverage.csv")]
    assert f"covered {min(coverage):.1f} to {max(coverage):.1f} % of the time" in README.read_text()


def test_links_lead_somewhere():
    for page in [README, *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
