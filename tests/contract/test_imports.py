"""Which way imports point, read from the source."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpstats

ROOT = Path(dpstats.__file__).parent
# a module may import from its own folder and from those before it
ORDER = (
    "_estimators",
    "errors",
    "_validation",
    "_boundary",
    "_types",
    "_docs",
    "_format",
    "_markup",
    "_text",
    "_jit",
    "_threads",
    "_quiet",
    "engines",
    "data",
    "formula",
    "privacy",
    "depth",
    "mechanisms",
    "results",
    "linear",
    "estimation",
    "selection",
    "location",
    "regression",
    "explore",
    "datasets",
    "dpstats",
    "bridge",
    "bridge_explore",
)
ESTIMATORS = ("location", "regression", "selection")


@functools.cache
def modules():
    """Names without the leading ``dpstats.``, and files."""
    files = [(path.relative_to(ROOT).with_suffix("").parts, path) for path in sorted(ROOT.rglob("*.py"))]
    return [(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path) for parts, path in files]


def _for_types(node):
    """Whether a statement is there for types alone."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _statements(tree, for_types):
    """All that imports may be among: what is in no expression."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr) or (_for_types(node) and not for_types):
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


def imported(path, for_types=True):
    """Modules of dpstats that a file imports, without the leading ``dpstats.``."""
    names = set()
    for node in _statements(parsed(path), for_types):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    known = {name for name, _ in modules()}
    ours = set()
    for name in names:
        if name.split(".")[0] == "dpstats":
            inner = name.removeprefix("dpstats").lstrip(".")
            ours.add(inner if inner in known else inner.rpartition(".")[0])
    # what comes from the root is above everything
    return {name or "dpstats" for name in ours}


NAMES = [name or "dpstats" for name, _ in modules()]


@functools.cache
def graph(for_types=True):
    return {name or "dpstats": imported(path, for_types) for name, path in modules()}


def floor(name):
    return ORDER.index(name.split(".")[0])


@pytest.mark.parametrize("name", NAMES)
def test_direction(name):
    assert not {target for target in graph()[name] if floor(target) > floor(name)}


def test_imports_are_found():
    """The graph is read from the source: an empty one would have no wrong direction."""
    assert {"_boundary", "linear.prepare", "estimation.pipeline"} <= graph()["regression.ols"]
    assert all(target in graph() for targets in graph().values() for target in targets)


def test_imports_by_name_are_for_lazy_packages_alone():
    """What `importlib` imports is not in the graph."""
    found = {
        name
        for name, path in modules()
        if "import_module" in (text := path.read_text()) or "__import__" in text
    }
    assert found == {"", "depth"}


def test_the_table_for_newcomers_has_this_order():
    page = (ROOT.parent / "CONTRIBUTING.md").read_text().split("## Where things are")[1].split("##")[0]
    first = [cell for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) if "dpstats/" in (cell := row)]
    named = [name for cell in first for name in re.findall(r"`(?:dpstats/)?(\w+)(?:\.py|/)`", cell)]
    assert [name for name in named if name != "r_bridge"] == [
        "__init__" if name == "dpstats" else name for name in ORDER
    ]


def test_every_floor_is_there():
    assert {name.split(".")[0] for name in NAMES} == set(ORDER)


@pytest.mark.parametrize("name", [n for n in NAMES if n.split(".")[0] in ESTIMATORS])
def test_no_import_from_a_sibling_estimator(name):
    siblings = {target for target in graph()[name] if target.split(".")[0] in ESTIMATORS}
    public = {f"{module.removeprefix('dpstats.')}" for module in dpstats._PUBLIC.values()}
    assert not (siblings & public) - {name}


def test_no_cycles():
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            path.append(name)
            for target in graph(for_types=False).get(name, ()):
                visit(target)
            done.add(path.pop())

    for name in graph(for_types=False):
        visit(name)


def test_results_know_nothing_of_rows():
    rows = {"data", "formula", "engines"}
    results = [name for name in NAMES if name.split(".")[0] == "results"]
    assert "results.results" in results
    for name in results:
        assert not {target for target in graph()[name] if target.split(".")[0] in rows}


def test_import_is_lazy():
    heavy = "['numba', 'opendp', 'statsmodels', 'scipy', 'pandas', 'matplotlib', 'numpy']"
    code = f"import sys, dpstats; dir(dpstats); print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_public_name_imports():
    for name in dpstats.__all__:
        assert getattr(dpstats, name) is not None


def test_modules_stay_short():
    assert not {name: n for name, path in modules() if (n := len(path.read_text().splitlines())) > 450}
