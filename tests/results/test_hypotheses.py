"""Hypotheses in words; the tests themselves are compared with statsmodels in test_results.py."""

import math

import numpy as np
import pytest

import dpstats
from dpstats.errors import NotReleased, ParameterError
from dpstats.results.hypotheses import _contradictory, linear_hypothesis

NAMES = ["Intercept", "carat", "cut[T.Good]", "cut[T.Ideal]", 'C(f, levels=["a, b"])[T.a, b]']
TERMS = {"cut": slice(2, 4), "carat": slice(1, 2)}


def test_terms_names_equations_and_matrices_make_the_same_hypothesis():
    for spec in (
        "cut",
        ["cut"],
        ["cut[T.Good]", "cut[T.Ideal]"],
        "cut[T.Good] = 0, cut[T.Ideal] = 0",
        ["cut[T.Good] = 0", "cut[T.Ideal] = 0"],
        [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0]],
    ):
        R, r, labels = linear_hypothesis(spec, NAMES, TERMS)
        np.testing.assert_array_equal(R, np.eye(5)[2:4])
        np.testing.assert_array_equal(r, [0, 0])
        assert len(labels) == 2


def test_equations_may_have_values_and_combinations():
    R, r, labels = linear_hypothesis("2 * carat - cut[T.Good] = 3", NAMES)
    np.testing.assert_array_equal(R, [[0, 2, -1, 0, 0]])
    assert r.tolist() == [3] and labels == ["2 * carat - cut[T.Good] = 3"]
    R, _, labels = linear_hypothesis(NAMES[4] + " = 1", NAMES)
    np.testing.assert_array_equal(R, [[0, 0, 0, 0, 1]])
    assert labels == ["c0"]


@pytest.mark.parametrize(
    "bad",
    ["price = 0", "carat ** 2 = 1", "carat = ", "", [], ["cut", "carat = 1 ="], [[1, 2]], np.empty((0, 5)),
     np.zeros((1, 1, 5)), None, 3.0, {"carat": 1}, "__import__('os')", [[object()] * 5],
     "carat / 0 = 1", "1e999 * carat = 1", "carat = 1e999", [[math.nan, 0, 0, 0, 0]]],
)  # fmt: skip
def test_what_is_not_a_linear_hypothesis_is_refused(bad):
    with pytest.raises(ParameterError, match="^hypothesis must be"):
        linear_hypothesis(bad, NAMES, TERMS)


@pytest.mark.parametrize(
    ("hypothesis", "holds"),
    [
        ("carat = 0, carat = 1", False),
        ("carat = 7900, 2 * carat = 15801", False),
        ([[0, 0, 0, 0, 0]] * 2, True),
        (([[0, 0, 0, 0, 0]], 1), False),
        ("carat = 7900, carat = 7900", True),
        ("carat = 1e-9, cut[T.Good] = 1e9, carat - cut[T.Good] = 5", False),
        ("carat = 7917, cut[T.Good] = 500, carat + cut[T.Good] = 8417", True),
        ("carat = 1e200, cut[T.Good] = 1e-200", True),
    ],
)
def test_equations_that_cannot_hold_together_are_told_apart(hypothesis, holds):
    """A pseudo-inverse would drop what contradicts, and test something else."""
    R, values, _ = linear_hypothesis(hypothesis, NAMES, TERMS)
    assert _contradictory(R, values) is not holds


def test_they_are_refused():
    with pytest.raises(ParameterError, match="equations that can hold together"):
        dpstats.datasets.load_fit().wald_test("carat = 0, carat = 1")


def test_a_name_that_is_none_of_them_is_told():
    fit = dpstats.datasets.load_fit("ols")
    for hypothesis in ("caret = 0", "cut[T.Good] = 2 * caret"):
        with pytest.raises(dpstats.ParameterError, match="'caret' is none of them; did you mean 'carat'"):
            fit.wald_test(hypothesis)
    # a list may be a column of data
    with pytest.raises(dpstats.ParameterError, match=r"terms \(did you mean 'carat'\?\), got list"):
        fit.wald_test(["carat", "caret"])
    with pytest.raises(dpstats.ParameterError) as caught:
        fit.wald_test(["Smith", "Jones"])
    assert "Smith" not in str(caught.value)
    with pytest.raises(dpstats.ParameterError, match=r"terms, got 'carat \* carat = 0'"):
        fit.wald_test("carat * carat = 0")


def test_a_joint_test_without_covariances_is_refused():
    """It was NaN: a mean of several columns has standard errors, and no covariances between them."""
    rng = np.random.default_rng(0)
    fit = dpstats.mean("a + b ~ 1", {"a": rng.normal(9, 1, 2000), "b": rng.normal(5, 1, 2000)}, eps=5, seed=1)
    for test in (fit.f_test, lambda: fit.wald_test("a = 9, b = 5"), lambda: fit.wald_test("a - b = 4")):
        with pytest.raises(NotReleased, match="covariances between its estimates"):
            test()
    assert fit.wald_test("a = 0").pvalue < 1e-6 and fit.wald_test_terms().table["pvalue"].max() < 1e-6


def test_the_test_of_all_but_the_constant_says_where_there_is_none():
    fit = dpstats.ols("y ~ 1", {"y": np.random.default_rng(0).normal(9, 1, 2000)}, eps=5, seed=1)
    with pytest.raises(ParameterError, match="the fit has a constant alone"):
        fit.f_test()
    assert fit.f_test("Intercept").pvalue < 1e-6 and math.isnan(fit.fvalue)
