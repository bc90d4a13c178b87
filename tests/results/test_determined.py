"""Coefficients that a release does not determine: marked wherever a result shows numbers."""

import dataclasses
import math
import pickle

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats._format import UNDETERMINED
from dpstats.errors import NotReleased, ParameterError
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.grouped import GroupedResults
from dpstats.results.hypotheses import HetTest
from dpstats.results.inference import FixedInterval
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results
from dpstats.results.table import legend

NAN = math.nan
(LEGEND,) = legend([True, False])
GUARANTEE = Guarantee(1.0, 1e-6, "add-remove", "approximate")


def make(**changes):
    parts = {
        "method": "OLS", "formula": "y ~ x + rare", "response": "y", "names": ("Intercept", "x", "rare"),
        "estimates": [1.5, -0.25, 0.125], "cov": [[0.04, 0, NAN], [0, 0.0025, NAN], [NAN, NAN, NAN]],
        "covers": SAMPLING_AND_PRIVACY, "guarantee": GUARANTEE,
    }  # fmt: skip
    return Results(**(parts | changes))


KNOWN = make(cov=np.diag([0.04, 0.0025, 0.01]))


def line(text, name):
    (found,) = [row.split() for row in text.split("\n") if row.startswith(name + " ")]
    return found


@pytest.mark.parametrize("width", [78, 60, 120])
def test_the_table_marks_it_and_says_once_what_would_determine_it(width):
    text = make().summary().as_text(width)
    assert line(text, "rare") == ["rare", "0.12500", "n.d.", "-", "-", "n.d.", "n.d."]
    assert UNDETERMINED not in " ".join(line(text, "x"))
    assert max(map(len, text.split("\n"))) <= width
    flat = " ".join(text.split())
    assert flat.count(LEGEND) == 1 and "more rows, a larger eps or fewer columns" in LEGEND
    assert UNDETERMINED not in KNOWN.summary().as_text(width)


def test_the_legend_is_one_line():
    assert len(LEGEND) <= 78 and LEGEND in str(make()).split("\n")
    # no fewer columns than one
    alone = str(make(names=("Intercept",), estimates=[1.5], cov=[[NAN]]))
    assert "n.d.: not determined; more rows or a larger eps may help." in alone


def test_other_forms_mark_it_too():
    for text, end in ((make()._repr_html_(), "</p>"), (make().summary().as_latex(), "")):
        assert text.count(UNDETERMINED) == 4 and LEGEND + end in text
    assert UNDETERMINED not in KNOWN._repr_html_() + KNOWN.summary().as_latex()


def test_numbers_are_missing_and_determined_says_which():
    fit = make()
    assert fit.determined.to_dict() == {"Intercept": True, "x": True, "rare": False}
    assert fit.determined.dtype == bool and fit.determined.name == "determined"
    for numbers in (fit.bse, fit.tvalues, fit.pvalues, fit.conf_int()[0], fit.conf_int()[1]):
        assert numbers.isna().tolist() == [False, False, True]
    assert fit.tidy().isna().sum(axis=1).tolist() == [0, 0, 5]
    rare = fit.to_dict()["coefficients"][2]
    assert (
        rare["estimate"] == 0.125
        and [v for k, v in rare.items() if k not in ("term", "estimate")] == [None] * 5
    )


def test_nothing_is_marked_where_nothing_has_an_interval():
    fit = make(cov=None, covers="There is none.")
    assert fit.determined.all() and UNDETERMINED not in str(fit)


def test_an_interval_decides_where_there_is_one():
    ends = FixedInterval((1.0, NAN, -math.inf), (2.0, NAN, math.inf), 0.05)
    fit = make(cov=None, interval=ends)
    # an interval that holds everything tells nothing, and one with an end says on which side
    assert fit.determined.tolist() == [True, False, False]
    assert line(str(fit), "rare")[-1] == "n.d."
    one_end = FixedInterval((1.0, 0.0, -math.inf), (2.0, math.inf, 3.0), 0.05)
    assert make(cov=None, interval=one_end).determined.all()
    assert make(covers=PRIVACY).determined.tolist() == [True, True, False]


def test_joint_tests_name_what_is_not_determined_and_go_on_without_it():
    fit = make()
    for test in (fit.f_test, fit.wald_test):
        with pytest.raises(NotReleased, match="not determined: rare"):
            test("rare")
    with pytest.raises(NotReleased, match="not determined: rare"):
        fit.f_test()
    assert fit.f_test(["x"]).pvalue == pytest.approx(KNOWN.f_test(["x"]).pvalue)
    tests = fit.t_test(["x = 0", "rare = 0"])
    assert np.isnan(tests.pvalue).tolist() == [False, True]


def test_a_plot_labels_it():
    pytest.importorskip("matplotlib").use("Agg")
    labels = [t.get_text() for t in make().plot().get_yticklabels()]
    assert labels == ["x", "rare (n.d.)"]


def test_groups_mark_it():
    results, failed = {"a": make(), "b": KNOWN}, {"c": "too few."}
    fits = GroupedResults("OLS", "y ~ x + rare", "g", ("a", "b", "c"), results, failed, GUARANTEE)
    assert fits.determined["rare"].to_dict() == {"a": False, "b": True, "c": True}
    text = str(fits)
    assert line(text, "a: rare")[-3:] == ["n.d."] * 3 and UNDETERMINED not in " ".join(line(text, "b: rare"))
    assert text.count(LEGEND) == 1
    # also where it is not the first group that has it, and not where none has
    swapped = dataclasses.replace(fits, results={"a": KNOWN, "b": make()})
    assert str(swapped).count(LEGEND) == 1
    assert LEGEND not in str(dataclasses.replace(fits, results={"a": KNOWN, "b": KNOWN}))


def test_what_covariances_allow_for_is_named():
    fit = make(cov_type="robust")
    assert fit.cov_type == "robust" and fit.to_dict()["cov_type"] == "robust"
    assert "Covariance type: robust" in " ".join(str(fit).split())
    assert make().cov_type is None and "Covariance" not in str(make())
    assert fit != make() and pickle.loads(pickle.dumps(fit)) == fit
    with pytest.raises(ParameterError, match="cov_type must be"):
        make(cov_type=1)


def test_the_test_of_constant_variance_is_given_out_if_it_was_released():
    test = HetTest(41.25, 0.03, 2)
    fit = make(het=test)
    assert fit.het_test() is test and str(test) == "Constant error variance: chi2(2) = 41.25, p = 0.030"
    assert fit.to_dict()["het"] == {"statistic": 41.25, "pvalue": 0.03, "df": 2}
    assert str(HetTest(2.5, 0.0001)) == "Constant error variance: statistic = 2.50, p < 0.001"
    assert pickle.loads(pickle.dumps(fit)).het_test() == test
    with pytest.raises(NotReleased, match="no test of constant error variance"):
        make().het_test()
    with pytest.raises(ParameterError, match="het must be"):
        make(het=(1, 2))


class Clipped:
    """A design that winsorises its second column."""

    limits = np.array([-np.inf, -2.0, -np.inf]), np.array([np.inf, 3.0, np.inf])

    def matrix(self, data):
        return np.clip(data, *self.limits)


def test_limits_of_predictions():
    limits = make(design=Clipped()).limits
    pd.testing.assert_frame_equal(limits, pd.DataFrame({0: [-2.0], 1: [3.0]}, index=["x"]))
    assert make().limits.empty


@pytest.mark.slow
def test_a_release_that_hides_a_level_marks_it():
    g = np.random.default_rng(0)
    data = pd.DataFrame({"x": g.standard_normal(20_000), "rare": (g.random(20_000) < 0.0005) * 1.0})
    data["y"] = 1 + data["x"] + data["rare"] + g.standard_normal(20_000)
    fit = dpstats.ols("y ~ x + rare", data, eps=0.5, seed=1)
    # with the rows that are not 0 there
    assert fit.determined.tolist() == [True, True, False]
    assert line(str(fit), "rare")[-1] == "n.d."
    # of a column about its mean the intercept takes up what all others have
    shifted = dpstats.ols("y ~ x + I(rare - 0.5)", data, eps=0.5, seed=1)
    assert shifted.determined.tolist() == [False, True, False]


def test_contrasts_whose_columns_share_levels_are_named_where_something_is_not_determined():
    rng = np.random.default_rng(0)
    g = pd.Categorical(rng.choice(list("abc"), 6_000), categories=list("abcd"))  # no row is in d
    data = pd.DataFrame({"g": g, "x": rng.normal(size=6_000), "y": rng.normal(size=6_000)})
    shared = dpstats.ols("y ~ C(g, Sum) + x", data, eps=2, seed=1)
    assert not shared.determined.any()
    assert "columns of C(g, Sum) share levels: one that few rows have, or none" in flat(shared)
    # on subsets, too, nothing tells them apart; the slope of another column does not depend on it
    assert dpstats.tukey_em("y ~ C(g, Sum) + x", data, eps=3, seed=1).determined.tolist() == [False] * 4 + [
        True
    ]
    plain = dpstats.ols("y ~ g + x", data, eps=2, seed=1)
    assert plain.determined.sum() == 4 and "share levels" not in flat(plain)


def flat(fit):
    return " ".join(str(fit).split())


def test_a_factor_with_one_level_is_said_to_have_no_column():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"g": pd.Categorical(["a"] * 3_000), "x": rng.normal(size=3_000)})
    fit = dpstats.ols("y ~ g + x", data.assign(y=data["x"]), eps=2, seed=1)
    assert "Without a column, as its factor has one level: g." in fit.notes
    without = dpstats.ols("y ~ x", data.assign(y=data["x"]), eps=2, seed=1, bounds={"x": (-9, 9)})
    assert not any("one level" in note for note in without.notes)


def test_slopes_that_share_a_level_take_the_common_slope_along_and_not_the_constant():
    rng = np.random.default_rng(2)
    g, x = rng.choice(list("abc"), 20_000), rng.normal(size=20_000)
    data = pd.DataFrame({"g": pd.Categorical(g, categories=list("abcd")), "x": x})
    data["y"] = 1 + x * (1 + (g == "a")) + rng.normal(size=20_000)
    fit = dpstats.tukey_em("y ~ x + C(g, Sum):x", data, eps=3, seed=2)
    assert fit.determined.tolist() == [True] + [False] * 4
