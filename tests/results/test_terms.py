"""Tests by term, and the table of them, against statsmodels."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats
from dpstats.errors import NotReleased, ParameterError
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results

GUARANTEE = Guarantee(1.0, 1e-6, "add-remove", "approximate")
TERMS = {"Intercept": slice(0, 1), "C(f)": slice(1, 3), "x": slice(3, 4), "z": slice(4, 5)}


@pytest.fixture(scope="module")
def classical():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({
        "x": rng.normal(size=90), "z": rng.normal(size=90) * 1e4, "f": rng.choice(["a", "b", "c"], size=90)
    })  # fmt: skip
    frame["y"] = 0.3 + frame["x"] + 0.4 * (frame["f"] == "b") + rng.normal(size=90)
    fit = smf.ols("y ~ C(f) + x + z", frame).fit()
    ours = Results(
        method="OLS", formula="y ~ C(f) + x + z", response="y", names=tuple(fit.params.index),
        estimates=fit.params.to_numpy(), cov=fit.cov_params().to_numpy(), covers=SAMPLING_AND_PRIVACY,
        guarantee=GUARANTEE, df=fit.df_resid, terms=TERMS,
    )  # fmt: skip
    return fit, ours


@pytest.mark.parametrize("use_f", [True, False])
def test_terms_are_tested_as_in_statsmodels(classical, use_f):
    theirs, ours = classical
    ours = ours if use_f else dataclasses.replace(ours, df=None)
    expected = theirs.model.fit(use_t=use_f).wald_test_terms(scalar=True).table
    table = ours.wald_test_terms().table
    assert list(table.index) == list(expected.index) == list(TERMS)
    assert table.columns.tolist() == expected.columns.tolist()
    np.testing.assert_allclose(table.to_numpy(float), expected.to_numpy(float), rtol=1e-7)


def test_terms_of_one_coefficient_can_be_left_out(classical):
    theirs, ours = classical
    expected = theirs.wald_test_terms(skip_single=True, scalar=True).table
    table = ours.wald_test_terms(skip_single=True).table
    assert list(table.index) == list(expected.index) == ["C(f)"]
    with pytest.raises(ParameterError, match="skip_single must be"):
        ours.wald_test_terms(1)


def test_anova_is_that_table_without_the_constant(classical):
    ours = classical[1]
    table = dpstats.anova(ours).table
    pd.testing.assert_frame_equal(table, ours.wald_test_terms().table.drop("Intercept"))
    for term, row in table.iterrows():
        test = ours.wald_test([term])
        assert row["statistic"] == pytest.approx(float(test.statistic))
        assert row["pvalue"] == pytest.approx(float(test.pvalue)) and row["df_constraint"] == test.df_num


def test_a_term_that_is_not_determined_has_no_test_and_the_others_have(classical):
    ours = classical[1]
    cov = np.array(ours.cov)
    cov[1], cov[:, 1] = math.nan, math.nan
    tests = dpstats.anova(dataclasses.replace(ours, cov=cov, df=None))
    assert tests.table["statistic"].isna().to_dict() == {"C(f)": True, "x": False, "z": False}
    assert tests.table["pvalue"].isna().tolist() == [True, False, False]
    assert tests.df_constraint == (2, 1, 1)
    line = next(line for line in str(tests).splitlines() if line.startswith("C(f)"))
    assert line.split() == ["C(f)", "n.d.", "-", "2"]
    assert "not determined" in str(tests) and "<td>n.d.</td>" in tests._repr_html_()
    assert max(map(len, str(tests).splitlines())) <= 78


def test_two_fits_are_refused_with_the_reason(classical):
    with pytest.raises(ParameterError, match="difference is no F"):
        dpstats.anova(classical[1], classical[1])
    with pytest.raises(ParameterError, match="fit must be the Results of one fit"):
        dpstats.anova("y ~ x")


def test_without_the_sampling_variation_there_are_no_tests(classical):
    with pytest.raises(NotReleased, match="no tests"):
        dpstats.anova(dataclasses.replace(classical[1], covers=PRIVACY))


def test_without_terms_every_name_is_one(classical):
    bare = dataclasses.replace(classical[1], terms={})
    assert list(bare.wald_test_terms().table.index) == list(bare.names)
    without = dataclasses.replace(classical[1], terms={"x": slice(3, 4)})
    assert list(without.wald_test_terms().table.index) == ["Intercept", "x"]


# -- hypotheses in statsmodels' other forms ------------------------------------------------------------


def test_chained_equations_are_all_of_them(classical):
    theirs, ours = classical
    got, expected = ours.wald_test("x = z = 0"), theirs.f_test("x = 0, z = 0")
    assert float(got.pvalue) == pytest.approx(float(expected.pvalue)) and got.df_num == 2
    test = ours.t_test("x = z = 0")
    assert test.c_names == ["x = z", "z = 0"]
    np.testing.assert_allclose(test.effect, [ours.params["x"] - ours.params["z"], ours.params["z"]])


R = np.eye(5)[3:5]


@pytest.mark.parametrize("q", [[1.0, 2.0], np.array([[1.0], [2.0]]), 1.0], ids=["list", "column", "number"])
def test_a_matrix_with_its_values(classical, q):
    theirs, ours = classical
    values = np.resize(np.ravel(q), 2)
    joint, single = theirs.f_test((R, values)), theirs.t_test((R, values))
    assert float(ours.wald_test((R, q)).pvalue) == pytest.approx(float(joint.pvalue))
    np.testing.assert_allclose(ours.t_test((R, q)).tvalue, np.ravel(single.tvalue))
    row = ours.t_test((R[0], [1.0]))
    np.testing.assert_allclose(row.tvalue, np.ravel(theirs.t_test((R[:1], [1.0])).tvalue))


def test_two_rows_are_a_matrix(classical):
    ours = classical[1]
    np.testing.assert_array_equal(ours.t_test((R[0], R[1])).tvalue, ours.t_test(R).tvalue)


@pytest.mark.parametrize("bad", [(R, [1.0, 2.0, 3.0]), (R, math.nan), (R, "x"), (R, [[1.0]], 2)])
def test_values_that_do_not_fit_are_refused(classical, bad):
    with pytest.raises(ParameterError, match="^hypothesis must be"):
        classical[1].wald_test(bad)
