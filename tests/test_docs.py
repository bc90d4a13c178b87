"""Docstrings: the entries of shared parameters are those of :mod:`dpstats._docs`, and none is left open."""

import doctest
import inspect
import re

import pytest

import dpstats
from dpstats._docs import documented
from dpstats._estimators import ESTIMATORS
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import Results
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


def methods():
    for kind in (Results, GroupedResults, Selection):
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and member.__module__.startswith("dpstats"):
                yield pytest.param(member, id=f"{kind.__name__}.{name}")


@pytest.mark.parametrize("method", list(methods()))
def test_methods_describe_what_they_take(method):
    text, parameters = inspect.getdoc(method), list(inspect.signature(method).parameters)[1:]
    assert text
    section = text.partition("Parameters\n----------\n")[2].split("\n\n")[0]
    described = re.findall(r"^(\w+) :", section, re.MULTILINE)
    # where a method passes all on, it says where to
    assert described == parameters or "see :" in text or ":meth:" in text
