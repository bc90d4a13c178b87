"""The list of estimators: complete, and the same in the package, the tests, the R package and the
documentation."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import dpstats
from dpstats._estimators import AUDITED, ESTIMATORS, Listed

ROOT = Path(dpstats.__file__).parents[1]
BRANCHES = ("location", "regression", "selection")
#: Of planning: they take no rows that are private.
BEFORE = {"plan", "split"}
AROUND = {"describe", "diagnose"}

pytestmark = pytest.mark.skipif(
    not (ROOT / "r_bridge").is_dir(), reason="the R package and the documentation are not installed"
)


def text(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def in_tables(page):
    """Texts in backquotes in the first column of the page's tables."""
    cells = re.findall(r"^\|([^|]*)\|", page, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def takes_rows(value):
    """Whether it takes rows and a budget, as estimators do."""
    return inspect.isfunction(value) and {"data", "eps"} <= inspect.signature(value).parameters.keys()


@pytest.mark.parametrize("name", ESTIMATORS)
class TestListed:
    def test_is_public_and_lives_where_the_list_says(self, name):
        listed = ESTIMATORS[name]
        function = getattr(dpstats, name)
        assert takes_rows(function) and function.__module__ == listed.module
        assert name in importlib.import_module(listed.module).__all__
        assert listed.module.split(".")[1] in BRANCHES
        assert set(listed.own) <= set(inspect.signature(function).parameters)

    def test_has_a_test_file(self, name):
        _, folder, stem = ESTIMATORS[name].module.split(".")
        assert re.search(rf"\b{name}\b", text("tests", folder, f"test_{stem}.py"))

    def test_has_a_function_in_r_or_a_reason(self, name):
        exported = f"export(dp_{name})" in text("r_bridge", "NAMESPACE")
        assert exported or ESTIMATORS[name].not_in_r or ESTIMATORS[name].experimental
        assert not (exported and ESTIMATORS[name].not_in_r)
        if exported:
            code = "\n".join(path.read_text() for path in (ROOT / "r_bridge" / "R").glob("*.R"))
            assert f"\ndp_{name} <- function(formula, data, " in code
            assert f"`dp_{name}()`" in text("r_bridge", "README.md")

    def test_has_a_privacy_page(self, name):
        pages = re.findall(r"docs/privacy/(\w+)\.md", inspect.getdoc(getattr(dpstats, name)))
        assert any((ROOT / "docs" / "privacy" / f"{page}.md").is_file() for page in pages)

    def test_says_so_if_it_is_experimental(self, name):
        said = "**Experimental.**" in inspect.getdoc(getattr(dpstats, name))
        assert said == ESTIMATORS[name].experimental


@pytest.mark.parametrize("name", AUDITED)
class TestAudited:
    def test_has_a_line_in_the_table_of_privacy_pages(self, name):
        pages = re.findall(r"docs/privacy/(\w+)\.md", inspect.getdoc(getattr(dpstats, name)))
        lines = [line for line in text("docs", "privacy", "README.md").splitlines() if line.startswith("| [")]
        (line,) = (line for line in lines if f"`{name}`" in line)
        page = re.match(r"\| \[(\w+)\]\(\1\.md\) \|", line)[1]
        assert page in pages

    def test_has_a_line_in_the_table_of_the_readme(self, name):
        assert name in in_tables(text("README.md"))


def test_nothing_that_takes_rows_is_missing():
    found = set()
    for module in pkgutil.walk_packages(dpstats.__path__, "dpstats."):
        if not module.ispkg and "._" not in module.name:
            loaded = importlib.import_module(module.name)
            public = [getattr(loaded, name) for name in getattr(loaded, "__all__", ())]
            found |= {value.__name__ for value in public if takes_rows(value)}
    # what is done before and after a fit has no formula of its own
    assert found - AROUND == set(ESTIMATORS)


def test_pages_name_no_function_that_is_gone():
    public = {name for name in dpstats.__all__ if inspect.isfunction(getattr(dpstats, name))}
    functions = {n for n in public if "formula" in inspect.signature(getattr(dpstats, n)).parameters}
    assert functions - BEFORE == set(ESTIMATORS)
    r = set(re.findall(r"^export\(dp_(\w+)\)", text("r_bridge", "NAMESPACE"), re.MULTILINE))
    others = {
        "available",
        "combine",
        "config",
        "describe",
        "glm",
        "guarantee",
        "het_test",
        "install",
        "ledger",
        "marginal_effects",
        "remaining",
        "split",
    }
    assert r - functions == others
    table = text("docs", "privacy", "README.md").split("## Estimators")[1].split("\n## ")[0]
    named = {n for line in table.splitlines() for n in re.findall(r"`(\w+)`", line)}
    assert named <= functions | AROUND


def test_it_is_in_order_and_fixed():
    assert list(ESTIMATORS) == sorted(ESTIMATORS)
    for attribute in Listed.__slots__:
        with pytest.raises(AttributeError, match="fixed"):
            setattr(ESTIMATORS["ols"], attribute, None)


def test_a_function_that_is_not_listed_would_be_found():
    """Test of the test."""

    def estimator(formula, data, *, eps):
        pass

    def other(formula, data):
        pass

    assert takes_rows(estimator) and not takes_rows(other) and takes_rows(dpstats.ols)
