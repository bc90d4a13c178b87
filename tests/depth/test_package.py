"""The package as a whole: what it imports, its examples, and the kernels without the compiler."""

import ast
import doctest
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from dpstats import depth

ROOT = Path(depth.__file__).parent
MODULES = sorted(m.name for m in pkgutil.iter_modules([str(ROOT)]))
HERE = Path(__file__).parent


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_down(name):
    allowed = (
        "numpy",
        "scipy",
        "numba",
        "matplotlib",
        "dpstats.depth",
        "dpstats.errors",
        "dpstats._validation",
        "dpstats._jit",
        "dpstats._types",
    )
    for node in ast.walk(ast.parse((ROOT / f"{name}.py").read_text())):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module]
        for module in modules:
            assert module.split(".")[0] in sys.stdlib_module_names or module.startswith(allowed), (
                name,
                module,
            )


def test_importing_is_light():
    heavy = ("numba", "numpy", "scipy", "matplotlib")
    code = f"import sys, dpstats.depth; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_all_public_names_exist():
    for name in depth.__all__:
        assert getattr(depth, name).__doc__
    assert set(depth.__all__) <= set(dir(depth))
    with pytest.raises(AttributeError):
        depth.nothing  # noqa: B018


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    found = doctest.testmod(
        importlib.import_module(f"dpstats.depth.{name}"), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert found.failed == 0


@pytest.mark.slow
def test_kernels_without_the_compiler():
    """The same tests on small cases, in the interpreter."""
    chosen = [
        *(f"test_halfspace.py::{t}" for t in ("test_decimals_are_read_as_decimals", "test_few_rows")),
        *(f"test_halfspace.py::test_brute_force_on_tied_grids[{k}]" for k in ("2-60", "3-40")),
        "test_halfspace.py::test_brute_force_on_degenerate_data[2]",
        *(f"test_regression.py::test_brute_force[{k}]" for k in ("1-40-grid", "2-16-grid", "3-6-grid")),
        "test_deepest.py::test_every_vertex_once_with_its_exact_depth[grid]",
        "test_contours.py::test_brute_force[grid]",
        "test_expansions.py",
        "test_order.py",
        "test_predicates.py::test_sides_of_intersections",
    ]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(HERE / c) for c in chosen)],
        capture_output=True, text=True, env=environment, cwd=HERE, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-3000:]
