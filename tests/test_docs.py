"""Docstrings: the entries of shared parameters are those of :mod:`dpstats._docs`, and none is left open."""

import doctest
import inspect
import re

import pytest

import dpstats
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
    # where a method passes all on, it says where to
    assert named == [p for p in parameters if p != "self"] or "as of the class" in text or "see :" in text


@pytest.mark.parametrize("method", methods())
def test_methods_say_what_comes_back_and_what_they_raise(method):
    found = sections(inspect.getdoc(method))
    back = inspect.signature(method).return_annotation
    assert ("Returns" in found) == (back not in (None, "None"))
    code = inspect.getsource(inspect.unwrap(method)).replace(method.__doc__, "")
    assert "Raises" in found or not re.search(r"\bfail\(|\bcheck\(|\bone_of\(|\braise\b", code)


@pytest.mark.parametrize("method", methods())
def test_examples_of_methods_show_something(method):
    (shown,) = doctest.DocTestFinder(recurse=False).find(method, method.__qualname__)
    wanted = [example.want.strip() for example in shown.examples if example.want.strip()]
    assert wanted and not set(wanted) <= {"True", "False"}
