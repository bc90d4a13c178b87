"""Every mechanism and every estimator has its privacy argument, and says where. The lists come from the
code."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import dpstats
from dpstats._estimators import AUDITED, ESTIMATORS

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "privacy"
NAMED = re.compile(r"docs/privacy/(\w+)\.md")
REFERENCE = re.compile(r":(?:func|class|meth|mod):`~?([\w.]+)`")

pytestmark = pytest.mark.skipif(
    not PAGES.is_dir(), reason="the documentation is not installed with the package"
)


def mechanisms():
    """Modules of mechanisms with a public function that takes a source of randomness."""
    for path in sorted((ROOT / "dpstats" / "mechanisms").glob("[!_]*.py")):
        module = importlib.import_module(f"dpstats.mechanisms.{path.stem}")
        public = [getattr(module, name) for name in module.__all__]
        functions = [value for value in public if inspect.isfunction(value)]
        if any("rng" in inspect.signature(function).parameters for function in functions):
            yield module, functions


def docstrings():
    """``{dotted name: docstring}`` of every module, class and function of the package, private ones too."""
    found = {}

    def visit(node, name):
        found[name] = ast.get_docstring(node) or ""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                visit(child, f"{name}.{child.name}")

    for path in sorted((ROOT / "dpstats").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        visit(ast.parse(path.read_text()), ".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "dpstats").rglob("*.py")
}
DOCSTRINGS = docstrings()
ARGUED = [name for name, text in DOCSTRINGS.items() if "**Privacy.**" in text]


def pages_of(name, seen=()):
    """Pages that a docstring names: itself, through what it refers to, or else anywhere in its module."""
    text = DOCSTRINGS.get(name, "")
    pages = set(NAMED.findall(text))
    module = name
    while module not in MODULES and "." in module:
        module = module.rpartition(".")[0]
    if pages or name in seen:
        return pages
    for target in REFERENCE.findall(text):
        for candidate in (target, f"{module}.{target}"):
            pages |= pages_of(candidate, (*seen, name))
    if not pages:
        beside = (doc for other, doc in DOCSTRINGS.items() if f"{other}.".startswith(f"{module}."))
        pages = {page for doc in beside for page in NAMED.findall(doc)}
    return pages


def pages_named_by(name):
    return NAMED.findall(inspect.getdoc(getattr(dpstats, name)) or "")


def exists(page):
    path = PAGES / f"{page}.md"
    return path.is_file() and len(path.read_text()) > 500


def test_the_lists_are_not_empty():
    stems = {module.__name__.rpartition(".")[2] for module, _ in mechanisms()}
    assert {"noise", "exponential", "ptr", "standardize", "whiten", "tukey"} <= stems
    assert len(ARGUED) > 10


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_names_its_argument(name):
    text = inspect.getdoc(getattr(dpstats, name)) or ""
    assert "**Privacy.**" in text, "the docstring has no section **Privacy.**"
    pages = pages_named_by(name)
    assert pages, "the docstring names no page docs/privacy/<page>.md"
    assert [page for page in pages if not exists(page)] == []


@pytest.mark.parametrize("module", [module for module, _ in mechanisms()], ids=lambda m: m.__name__)
def test_every_mechanism_has_its_argument(module):
    functions = next(functions for found, functions in mechanisms() if found is module)
    texts = [module.__doc__ or "", *(inspect.getdoc(function) or "" for function in functions)]
    pages = {page for text in texts for page in NAMED.findall(text)}
    assert pages, "no docstring of the module names a page docs/privacy/<page>.md"
    assert [page for page in pages if not exists(page)] == []


@pytest.mark.parametrize("name", ARGUED)
def test_every_privacy_section_leads_to_a_page(name):
    pages = pages_of(name)
    assert pages, (
        "neither the docstring, nor what it refers to, nor its module names a page docs/privacy/<page>.md"
    )
    assert [page for page in pages if not exists(page)] == []


def test_every_page_that_is_named_exists():
    named = {page for text in DOCSTRINGS.values() for page in NAMED.findall(text)}
    assert sorted(page for page in named if not exists(page)) == []


def written():
    return sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "README")


@pytest.mark.parametrize("page", written())
def test_every_page_is_in_use_and_names_its_code_and_its_tests(page):
    text = (PAGES / f"{page}.md").read_text()
    assert any(page in NAMED.findall(doc) for doc in DOCSTRINGS.values()), "no docstring names this page"
    for folder in ("dpstats", "tests"):
        paths = re.findall(rf"\b({folder}/[\w/]+(?:\.py|/))", text)
        assert paths, f"the page names nothing in {folder}/"
        assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_index_lists_every_page_and_links_lead_somewhere():
    index = (PAGES / "README.md").read_text()
    experimental = {page for name in set(ESTIMATORS) - set(AUDITED) for page in pages_named_by(name)}
    assert set(written()) - experimental <= set(re.findall(r"\]\((\w+)\.md\)", index))
    for path in PAGES.glob("*.md"):
        for target in re.findall(r"\]\(([\w./]+\.md)", path.read_text()):
            assert (path.parent / target).is_file(), f"{path.name} links to {target}"


def test_a_missing_page_is_noticed(monkeypatch):
    """Test of the test: without its page each kind of check fails."""
    monkeypatch.setitem(globals(), "exists", lambda page: page != "noise")
    from dpstats.mechanisms import noise

    with pytest.raises(AssertionError):
        test_every_mechanism_has_its_argument(noise)
    with pytest.raises(AssertionError):
        test_every_page_that_is_named_exists()
    monkeypatch.setitem(DOCSTRINGS, "dpstats.mechanisms.ptr", "")
    monkeypatch.setitem(DOCSTRINGS, "dpstats.mechanisms.ptr.passes", "**Privacy.** Trust us.")
    with pytest.raises(AssertionError):
        test_every_privacy_section_leads_to_a_page("dpstats.mechanisms.ptr.passes")
