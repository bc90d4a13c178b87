"""Docstrings: the entries of shared parameters are those of :mod:`dpstats._docs`, and none is left open."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import dpstats
from dpstats import depth
from dpstats._docs import documented
from dpstats._estimators import ESTIMATORS
from dpstats._text import Summary
from dpstats.explore.described import Correlation, LevelCounts, NumberSummary
from dpstats.explore.description import Description
from dpstats.explore.diagnosed import Bins, Calibration, Leverage, Residuals, Rootogram
from dpstats.explore.diagnosis import CountDiagnosis, LinearDiagnosis, LogitDiagnosis
from dpstats.explore.plan import Plan
from dpstats.privacy.statement import Statement
from dpstats.results.glm import GLMResults
from dpstats.results.grouped import GroupedResults
from dpstats.results.hypotheses import HetTest
from dpstats.results.inference import FixedInterval
from dpstats.results.parts import Heterogeneity, Origin
from dpstats.results.prediction import Prediction
from dpstats.results.registry import Deployment
from dpstats.results.results import Results
from dpstats.results.terms import TermTests
from dpstats.selection.features import Selection


def test_entries_come_in_their_order_and_at_the_indent_of_their_line():
    @documented
    def function():
        """Title.

        Parameters
        ----------
        own : int
        %(eps, seed)s
        """

    assert function.__doc__.split("\n")[4:10] == [
        "        own : int",
        "        eps : float",
        "            Privacy budget; positive.",
        "        seed : int, optional",
        "            For simulation only: the release then protects nobody, and its guarantee says so.",
        "        ",
    ]


def test_everything_else_of_a_docstring_is_left_as_it_is():
    @documented
    def function():
        """At 95 %(eps)s of the budget, 5 %."""

    assert function.__doc__ == "At 95 %(eps)s of the budget, 5 %."


def test_an_unknown_entry_is_an_error():
    with pytest.raises(KeyError, match="epsilon"):

        @documented
        def function():
            """Title.

            %(epsilon)s
            """


def test_without_docstrings_nothing_happens():
    def function():
        pass

    assert documented(function) is function and function.__doc__ is None


@pytest.mark.parametrize("name", [n for n in dpstats.__all__ if inspect.isfunction(getattr(dpstats, n))])
def test_public_docstrings_describe_every_parameter_once(name):
    function = getattr(dpstats, name)
    text = inspect.getdoc(function)
    assert "%(" not in text
    section = text.split("Parameters\n----------\n")[1].split("\n\n")[0]
    named = [n for line in re.findall(r"^(\w[\w, ]*) :", section, re.MULTILINE) for n in line.split(", ")]
    parameters = set(inspect.signature(function).parameters)
    assert len(named) == len(set(named))
    # the one that says of the others that they are as in another docstring
    assert set(named) <= parameters if name == "quantile" else set(named) == parameters


@pytest.mark.parametrize("name", [n for n in dpstats.__all__ if inspect.isfunction(getattr(dpstats, n))])
@pytest.mark.parametrize("section", ["Returns", "Raises", "Examples"])
def test_public_functions_have_all_sections(name, section):
    text = inspect.getdoc(getattr(dpstats, name))
    assert f"\n\n{section}\n{'-' * len(section)}\n" in text


def test_the_readme_says_which_parameters_all_estimators_share():
    parameters = {name: inspect.signature(getattr(dpstats, name)).parameters for name in ESTIMATORS}
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (shared,) = re.findall(r"All take `formula, data, \*, eps` and share (.*?); most take `delta`", readme)
    assert re.findall(r"`(\w+)`", shared) == ["bounds", "levels", "unit", "ledger", "seed"]
    assert all(set(re.findall(r"`(\w+)`", shared)) <= known.keys() for known in parameters.values())
    assert [name for name, known in parameters.items() if "by" not in known] == ["select_features"]
    assert "and all but `select_features` take `by`." in readme


@pytest.mark.parametrize("name", ESTIMATORS)
def test_examples_show_a_number_or_a_table(name):
    (shown,) = doctest.DocTestFinder(recurse=False).find(getattr(dpstats, name), name)
    assert any(example.want.strip() for example in shown.examples), "an example without an answer"
    assert not any(example.want.strip() in ("True", "False") for example in shown.examples)


CLASSES = (
    Results, GLMResults, GroupedResults, Prediction, HetTest, Heterogeneity, TermTests, Deployment, Origin,
    FixedInterval, Selection, Plan, Description, NumberSummary, LevelCounts, Correlation, LinearDiagnosis,
    LogitDiagnosis, CountDiagnosis, Bins, Residuals, Leverage, Calibration, Rootogram, dpstats.Ledger,
    dpstats.Guarantee, Statement, Summary,
)  # fmt: skip


def methods():
    """Public methods of what users hold in hand, each once and in the class that defines it."""
    found = {}
    for kind in CLASSES:
        for name, member in inspect.getmembers(kind, lambda m: inspect.isfunction(m) or inspect.ismethod(m)):
            if not name.startswith("_") and member.__module__.startswith("dpstats"):
                found.setdefault(member.__qualname__, member)
    return [pytest.param(member, id=name) for name, member in found.items()]


def sections(text):
    """The sections of a docstring in numpydoc's form, by their heading."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("method", methods())
def test_methods_describe_what_they_take(method):
    text, parameters = inspect.getdoc(method), list(inspect.signature(method).parameters)
    assert text
    described = re.findall(r"^(\w[\w, ]*?)(?: :.*)?$", sections(text).get("Parameters", ""), re.MULTILINE)
    named = [name for line in described for name in line.split(", ")]
    # those of a class method are those of the class
    assert named == [p for p in parameters if p != "self"] or "Parameters as of the class" in text


@pytest.mark.parametrize("method", methods())
def test_methods_say_what_comes_back_and_what_they_raise(method):
    found = sections(inspect.getdoc(method))
    back = inspect.signature(method).return_annotation
    assert ("Returns" in found) == (back not in (None, "None"))
    code = inspect.getsource(inspect.unwrap(method)).replace(method.__doc__, "")
    refuses = re.search(r"\bfail\(|\bcheck\(|\bone_of\(|\braise\b", code)
    # an alpha out of range is an error, wherever it is looked at
    refuses = refuses or "alpha" in inspect.signature(method).parameters
    assert "Raises" in found or not refuses


@pytest.mark.parametrize("name", [n for n in depth.__all__ if inspect.isfunction(getattr(depth, n))])
def test_functions_of_depths_describe_what_they_take_and_return(name):
    found = sections(inspect.getdoc(getattr(depth, name)))
    described = re.findall(r"^(\w[\w, ]*?)(?: :.*)?$", found["Parameters"], re.MULTILINE)
    named = [name for line in described for name in line.split(", ")]
    assert named == list(inspect.signature(getattr(depth, name)).parameters)
    assert found["Returns"]


@pytest.mark.parametrize("method", methods())
def test_examples_of_methods_show_something(method):
    (shown,) = doctest.DocTestFinder(recurse=False).find(method, method.__qualname__)
    wanted = [example.want.strip() for example in shown.examples if example.want.strip()]
    assert wanted and not set(wanted) <= {"True", "False"}
