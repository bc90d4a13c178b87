"""Which way imports point, read from the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dpstats

ROOT = Path(dpstats.__file__).parent
BASE = {"errors", "_boundary", "_validation", "_threads", "_jit"}
FRONT = BASE | {
    "schema",
    "data",
    "formula",
    "_columns",
    "_factors",
    "_files",
    "_grammar",
    "_guessed",
    "_intervals",
    "_plan",
    "_splines",
    "_terms",
    "_values",
}
RESULTS = BASE | {"results", "inference", "summary", "plots", "_report", "_withheld", "privacy.guarantee"}
# a module (or package) may import from these and from itself
ALLOWED = {
    "errors": set(),
    "_boundary": {"errors"},
    "_validation": {"errors"},
    "_threads": set(),
    "_jit": set(),
    "depth": BASE,
    "privacy": BASE | {"summary"},
    "mechanisms": BASE | {"privacy"},
    "datasets": BASE,
    **{name: FRONT for name in FRONT - BASE},
    **{name: RESULTS for name in ("results", "inference", "summary", "plots", "_report", "_withheld")},
}
ESTIMATORS = ("location", "regression", "selection")


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imported(path):
    """Modules of dpstats that a file imports, without the leading ``dpstats.``."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
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
    return ours - {""}


GRAPH = {name: imported(path) for name, path in modules() if name}


def within(name, allowed):
    return any(name == a or name.startswith(a + ".") for a in allowed)


@pytest.mark.parametrize("name", GRAPH)
def test_direction(name):
    top = name.split(".")[0]
    if top in ALLOWED:
        wrong = {target for target in GRAPH[name] if not within(target, ALLOWED[top] | {top})}
        assert not wrong


@pytest.mark.parametrize("name", [n for n in GRAPH if n.split(".")[0] in ESTIMATORS])
def test_no_import_from_a_sibling_estimator(name):
    siblings = {
        target
        for target in GRAPH[name]
        if target.split(".")[0] in ESTIMATORS
        and "." in target
        and not target.rpartition(".")[2].startswith("_")
    }
    public = {f"{module.removeprefix('dpstats.')}" for module in dpstats._PUBLIC.values()}
    assert not (siblings & public) - {name}


def test_no_cycles():
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            path.append(name)
            for target in GRAPH.get(name, ()):
                visit(target)
            done.add(path.pop())

    for name in GRAPH:
        visit(name)


def test_results_know_nothing_of_rows():
    for name in ("results", "_report", "summary", "inference", "plots"):
        assert not within("data", GRAPH[name]) and not within("formula", GRAPH[name])


def test_import_is_lazy():
    heavy = "['numba', 'opendp', 'statsmodels', 'scipy', 'pandas', 'matplotlib', 'numpy']"
    code = f"import sys, dpstats; dir(dpstats); print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_public_name_imports():
    for name in dpstats.__all__:
        assert getattr(dpstats, name) is not None
