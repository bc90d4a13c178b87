"""Types on the public surface: complete, readable at run time, and seen by a type checker."""

import ast
import inspect
import typing
from pathlib import Path

import pytest

import dpstats
from dpstats import datasets, depth
from dpstats._estimators import ESTIMATORS
from dpstats._types import Bounds, Levels
from dpstats.privacy.ledger import Ledger
from dpstats.results.glm import GLMResults
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import Results
from dpstats.selection.features import Selection


def public_objects():
    yield from ((name, getattr(dpstats, name)) for name in dpstats.__all__)
    yield from ((f"depth.{name}", getattr(depth, name)) for name in depth.__all__)
    yield from ((f"datasets.{name}", getattr(datasets, name)) for name in datasets.__all__)
    yield from ((kind.__name__, kind) for kind in (Results, GroupedResults, Selection))


def functions(name, value):
    """A function, or the public methods and properties of a class that the package defines."""
    if inspect.isfunction(value):
        yield name, value
    if inspect.isclass(value):
        for attribute in dir(value):
            member = inspect.getattr_static(value, attribute)
            member = getattr(member, "fget", None) or getattr(member, "__func__", member)
            ours = getattr(member, "__module__", "") or ""
            if inspect.isfunction(member) and not attribute.startswith("_") and ours.startswith("dpstats"):
                yield f"{name}.{attribute}", member


FUNCTIONS = dict(pair for name, value in public_objects() for pair in functions(name, value))


def test_functions_are_found():
    assert {"median", "select_features", "Results.params", "Results.of_columns", "Ledger.charge"} <= set(
        FUNCTIONS
    )
    assert {"depth.halfspace", "datasets.load_diamonds", "GroupedResults.tidy"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_annotations_are_complete(name):
    function = FUNCTIONS[name]
    hints = typing.get_type_hints(function)
    parameters = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
    assert not {*parameters, "return"} - hints.keys()


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_shared_parameters_have_one_type(name):
    shared = {
        "formula": str,
        "eps": float,
        "delta": float,
        "bounds": Bounds | None,
        "levels": Levels | None,
        "by": str | None,
        "ledger": Ledger | None,
        "seed": int | None,
    }
    hints = typing.get_type_hints(getattr(dpstats, name))
    assert {key: hints[key] for key in shared if key in hints} == {k: shared[k] for k in shared if k in hints}
    own = {
        "select_features": Selection,
        "logit": GLMResults | GroupedResults,
        "poisson": GLMResults | GroupedResults,
    }
    assert hints["return"] == own.get(name, Results | GroupedResults)


@pytest.mark.parametrize("module", [dpstats, depth], ids=["dpstats", "dpstats.depth"])
def test_a_type_checker_sees_the_public_names(module):
    """What is imported lazily is imported once more under ``TYPE_CHECKING``, from the same place."""
    seen = {}
    for node in ast.parse(Path(module.__file__).read_text()).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                seen |= {alias.asname: f"{statement.module}.{alias.name}" for alias in statement.names}
    assert sorted(seen) == module.__all__
    for name, place in seen.items():
        where = module._PUBLIC.get(name, module.__name__)
        where = where if where.startswith("dpstats") else f"{module.__name__}.{where}"
        assert place == f"{where}.{name}"
