import copy
import dataclasses
import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from dpstats.errors import DpstatsError, NotReleased, ParameterError
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.results.inference import FixedInterval
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results

GUARANTEE = Guarantee(
    1.0,
    1e-6,
    "add-remove",
    "approximate",
    (Spend("row count", "discrete Laplace noise", 0.1), Spend("models", "propose-test-release", 0.9, 1e-6)),
)


class Line:
    """A design for `predict`: intercept and x, row by row."""

    def matrix(self, data):
        x = np.asarray(data["x"], float)
        return np.column_stack([np.ones_like(x), x])


def make(**changes):
    parts = {
        "method": "TukeyEM", "formula": "y ~ x", "response": "y", "names": ("Intercept", "x"),
        "estimates": [1.5, -0.25], "cov": [[0.04, 0.001], [0.001, 0.0025]], "covers": SAMPLING_AND_PRIVACY,
        "guarantee": GUARANTEE,
    }  # fmt: skip
    return Results(**(parts | changes))


@pytest.fixture(scope="module")
def classical():
    """A statsmodels fit, and a Results with its estimates, covariance and degrees of freedom."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({
        "x": rng.normal(size=80), "z": rng.normal(size=80) * 1e4, "f": rng.choice(["a", "b", "c"], size=80)
    })  # fmt: skip
    frame["y"] = 1 + 2 * frame["x"] + (frame["f"] == "b") + rng.normal(size=80)
    fit = smf.ols("y ~ x + z + C(f)", frame).fit()
    ours = Results(
        method="OLS", formula="y ~ x + z + C(f)", response="y", names=tuple(fit.params.index),
        estimates=fit.params.to_numpy(), cov=fit.cov_params().to_numpy(), covers=SAMPLING_AND_PRIVACY,
        guarantee=GUARANTEE, df=fit.df_resid, terms={"C(f)": slice(1, 3)},
    )  # fmt: skip
    return fit, ours


# -- the same words, the same numbers as statsmodels -------------------------------------------------


def test_a_classical_fit_is_reproduced(classical):
    theirs, ours = classical
    for name in ("params", "bse", "tvalues", "pvalues"):
        pd.testing.assert_series_equal(
            getattr(ours, name), getattr(theirs, name), rtol=1e-9, check_names=False
        )
    for alpha in (0.05, 0.01):
        pd.testing.assert_frame_equal(ours.conf_int(alpha), theirs.conf_int(alpha), rtol=1e-9)
    pd.testing.assert_frame_equal(ours.cov_params(), theirs.cov_params())


def test_without_degrees_of_freedom_the_normal_distribution_is_used(classical):
    fit, ours = classical
    theirs = fit.model.fit(use_t=False)
    ours = dataclasses.replace(ours, df=None)
    np.testing.assert_allclose(ours.pvalues, theirs.pvalues, rtol=1e-9)
    np.testing.assert_allclose(ours.conf_int(), theirs.conf_int(), rtol=1e-9)


JOINT = ["x = 2", "x = z, C(f)[T.b] - C(f)[T.c] = 1", np.eye(5)[1:4], np.eye(5)]


@pytest.mark.parametrize("df", ["F", "chi2"])
@pytest.mark.parametrize("spec", JOINT, ids=["one", "equations", "matrix", "all"])
def test_wald_test_is_that_of_statsmodels(classical, spec, df):
    theirs, ours = classical
    expected = theirs.wald_test(spec, use_f=df == "F", scalar=True)
    got = (ours if df == "F" else dataclasses.replace(ours, df=None)).wald_test(spec)
    assert got.distribution == expected.distribution == df
    assert got.df_denom == expected.df_denom and getattr(got, "df_num", None) == getattr(
        expected, "df_num", None
    )
    assert got.statistic == pytest.approx(float(expected.statistic), rel=1e-8)
    assert float(got.pvalue) == pytest.approx(float(expected.pvalue), rel=1e-6)


@pytest.mark.parametrize("spec", ["x = 2", "x = z, C(f)[T.b] - C(f)[T.c] = 1", [[0, 1, -1, 0, 0]]])
def test_t_test_is_that_of_statsmodels(classical, spec):
    theirs, ours = (fit.t_test(spec) for fit in classical)
    for name in ("effect", "sd", "tvalue", "pvalue"):
        np.testing.assert_allclose(np.ravel(getattr(ours, name)), np.ravel(getattr(theirs, name)), rtol=1e-8)
    np.testing.assert_allclose(ours.conf_int(), theirs.conf_int(), rtol=1e-8)
    assert ours.distribution == theirs.distribution


def test_f_test_of_a_term_and_of_all_slopes_are_those_of_statsmodels(classical):
    theirs, ours = classical
    term = theirs.f_test("C(f)[T.b] = 0, C(f)[T.c] = 0")
    for spec in ("C(f)", ["C(f)"], ["C(f)[T.b]", "C(f)[T.c]"], "C(f)[T.b] = 0, C(f)[T.c] = 0"):
        got = ours.f_test(spec)
        assert (got.df_num, got.df_denom) == (term.df_num, term.df_denom)
        assert got.fvalue == pytest.approx(float(term.fvalue)) and got.pvalue == pytest.approx(
            float(term.pvalue)
        )
    assert ours.f_test().fvalue == pytest.approx(theirs.fvalue)
    assert float(ours.f_test().pvalue) == pytest.approx(theirs.f_pvalue)


def test_f_test_without_degrees_of_freedom_is_the_chi_squared_test(classical):
    theirs, ours = classical
    wald = theirs.wald_test("C(f)[T.b] = 0, C(f)[T.c] = 0", use_f=False, scalar=True)
    got = dataclasses.replace(ours, df=None).f_test("C(f)")
    assert got.distribution == "chi2" and got.df_denom == 2
    assert got.statistic == pytest.approx(float(wald.statistic))
    assert float(got.pvalue) == pytest.approx(float(wald.pvalue))
    assert "chi2" in str(got)


def test_t_test_labels_its_rows():
    table = str(make().t_test("x = 1, Intercept = x").summary())
    assert "x = 1" in table and "Intercept = x" in table


def test_every_statsmodels_attribute_is_there_or_says_why_not(classical):
    plumbing = {
        "initialize", "k_constant", "load", "cov_kwds", "cov_type", "t_test_pairwise", "cov_params_default",
        "fit_options", "bcov_scaled", "bcov_unscaled",
    }  # fmt: skip
    fit, ours = classical
    robust = sm.RLM(fit.model.endog, fit.model.exog).fit()
    names = {name for name in [*dir(fit), *dir(robust)] if not name.startswith("_")} - plumbing
    assert {"resid", "fittedvalues", "llf", "get_influence", "sresid"} <= names
    for name in names:
        if not hasattr(ours, name):
            with pytest.raises(NotReleased, match=name):
                getattr(ours, name)


# -- what was not released ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["resid", "fittedvalues", "rsquared", "sigma", "scale", "nobs", "aic", "df_resid", "rsquared_adj"]
)
def test_unreleased_statistics_raise_and_say_why(name):
    fit = make()
    assert not hasattr(fit, name)
    with pytest.raises(NotReleased, match=f"'{name}' .*(not released|private)"):
        getattr(fit, name)
    with pytest.raises(DpstatsError):
        getattr(fit, name)


def test_released_statistics_are_attributes():
    fit = make(released={"n": 1000.5, "sigma": 3.0, "rsquared": 0.9})
    assert (fit.nobs, fit.sigma, fit.scale, fit.rsquared) == (1000.5, 3.0, 9.0, 0.9)
    assert make(released={"nobs": 1000, "n": 990.0}).nobs == 1000


def test_a_plain_typo_is_a_plain_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'parms'") as caught:
        make().parms  # noqa: B018
    assert not isinstance(caught.value, NotReleased)


def test_the_table_tells_nothing_but_what_was_released():
    text = str(make().summary())
    for word in ("Rows", "R-squared", "Residual", "Models"):
        assert word not in text
    assert "Rows (noisy):                   1,001" in str(make(released={"n": 1000.6}))
    assert "Rows (public):" in str(make(released={"nobs": 1000}))
    both = str(make(released={"nobs": 1000, "n": 990.0}))
    assert "Rows handed in (public):        1,000" in both and "Usable rows (noisy):              990" in both


# -- what the numbers cover --------------------------------------------------------------------------


def test_no_tests_where_standard_errors_lack_the_sampling_variation():
    fit = make(covers=PRIVACY)
    assert fit.bse.notna().all() and fit.conf_int().notna().all(axis=None)
    assert fit.tvalues.isna().all() and fit.pvalues.isna().all()
    for test in (fit.t_test, fit.wald_test, fit.f_test):
        with pytest.raises(NotReleased, match="the intervals cover privacy noise only"):
            test("x = 0")
    assert "not about a population. Hence there are no tests." in " ".join(str(fit).split())


def test_no_covariance_gives_nan_a_dash_and_the_reason():
    fit = make(cov=None, covers="no standard error is known for this mechanism.")
    for numbers in (fit.bse, fit.tvalues, fit.pvalues, fit.conf_int()[0], fit.cov_params()["x"]):
        assert numbers.isna().all()
    with pytest.raises(NotReleased, match="no tests: no standard error is known for this mechanism.$"):
        fit.f_test()
    text = str(fit)
    assert "No intervals. no standard error is known for this mechanism." in text
    assert [line.split() for line in text.split("\n") if line.startswith("x ")] == [
        ["x", "-0.25000", *"-----"]
    ]


def test_intervals_that_are_not_wald_intervals():
    fit = make(cov=None, interval=FixedInterval((1.0, -1.0), (1.9, 0.1), 0.1))
    assert fit.alpha == 0.1
    assert fit.conf_int().to_numpy().tolist() == [[1.0, 1.9], [-1.0, 0.1]]
    assert fit.bse.isna().all() and fit.pvalues.isna().all()
    assert "90% intervals cover sampling and privacy noise." in str(fit.summary())
    with pytest.raises(ParameterError, match="alpha must be 0.1"):
        fit.conf_int(0.05)
    with pytest.raises(ParameterError, match="alpha must be 0.1"):
        fit.summary(0.05)
    with pytest.raises(NotReleased, match="there is no covariance"):
        fit.t_test("x = 0")


def test_a_coefficient_without_a_standard_error_does_not_spoil_the_others():
    fit = make(cov=[[0.04, math.nan], [math.nan, math.nan]])
    assert fit.bse.tolist()[0] == 0.2 and math.isnan(fit.bse["x"])
    assert fit.t_test("Intercept = 0").pvalue == pytest.approx(fit.pvalues["Intercept"])
    assert math.isnan(fit.t_test("x = 0").pvalue)
    for involved in ("x", None, "x = Intercept"):
        with pytest.raises(NotReleased, match="joint test has coefficients that are not determined: x"):
            fit.f_test(involved)


@pytest.mark.parametrize("alpha", [0, 1, math.nan, "0.05"])
def test_alpha_is_checked(alpha):
    for method in (make().conf_int, make().summary, make().tidy):
        with pytest.raises(ParameterError, match="alpha must be"):
            method(alpha)


# -- the table ---------------------------------------------------------------------------------------

TABLE = """\
                       TukeyEM (differentially private)
==============================================================================
Formula: y ~ x
Dep. variable:                      y    Residual std. dev.:             3.142
Rows (noisy):                  53,931    R-squared:                     0.8948
Models:                         1,000
==============================================================================
                                coef  std err      z   P>|z|   [0.025   0.975]
------------------------------------------------------------------------------
Intercept                      1.500    0.200   7.50  <0.001    1.108    1.892
x                            -0.2500   0.0500  -5.00  <0.001  -0.3480  -0.1520
==============================================================================
95% intervals and standard errors cover sampling and privacy noise.
Privacy: eps = 1, delta = 1e-06, approximate differential privacy. Neighbours:
one record added or removed.
------------------------------------------------------------------------------
Step       Mechanism                share  eps  delta
row count  discrete Laplace noise  10.0 %  0.1      0
models     propose-test-release    90.0 %  0.9  1e-06
------------------------------------------------------------------------------
[1] Errors are taken as homoskedastic.
=============================================================================="""


def test_the_whole_table():
    released = {"n": 53930.7, "models": 1000, "sigma": 3.14159, "rsquared": 0.89482}
    assert str(make(released=released, notes=["Errors are taken as homoskedastic."]).summary()) == TABLE


def test_student_t_heads_the_columns():
    header = str(make(df=5).summary(0.1)).split("\n")[5].split()
    assert header == ["coef", "std", "err", "t", "P>|t|", "[0.05", "0.95]"]


def test_random_privacy_is_written_out_as_weaker_and_unproven():
    kind = "random (claimed by the paper, unproven)"
    text = " ".join(str(make(guarantee=Guarantee(1, 1e-5, "substitution", kind, gamma=0.05))).split())
    assert "random differential privacy (claimed by the paper, unproven)" in text
    assert "weaker than differential privacy: for a share gamma = 0.05 of the data sets" in text
    assert "one record replaced; the number of rows is public" in text
    assert "RDP" not in text


def test_pure_privacy_and_scope():
    guarantee = Guarantee(
        math.log(3), 0, "add-remove", "pure", scope="Each declared group has the whole budget."
    )
    text = " ".join(str(make(guarantee=guarantee)).split())
    assert "eps = 1.09862, delta = 0, pure differential privacy." in text
    assert "Scope: Each declared group has the whole budget." in text
    assert "Step" not in text


def test_a_seeded_release_warns_everywhere():
    fit = make(guarantee=GUARANTEE.replace(seeded=True))
    for text in (str(fit), repr(fit), fit._repr_html_(), fit.summary().as_latex()):
        assert "SEEDED" in text
    for text in (str(make()), repr(make()), make()._repr_html_()):
        assert "SEEDED" not in text
    assert fit.glance()["seeded"].tolist() == [True]


def test_gaussian_steps_show_shares_of_mu_squared_and_no_eps():
    rounds = (Spend("round", "Gaussian noise", 0.3, 1e-6, mu=0.1),) * 9
    last = Spend("variance", "Gaussian noise", 0.3, 1e-6, mu=0.1)
    text = " ".join(str(make(guarantee=GUARANTEE.replace(spends=(*rounds, last)))).split())
    assert "Step Mechanism share mu round (9 times) Gaussian noise 90.0 % 0.3 variance" in text
    assert "Shares of the budget are those of mu squared, which adds up over the steps." in text
    assert "Shares" not in str(make())


def test_html_and_latex_show_the_same_numbers():
    summary = make(released={"n": 53931}).summary()
    for text in (summary.as_html(), summary.as_latex().replace("{,}", ",")):
        for number in ("-0.2500", "0.0500", "-5.00", "53,931"):
            assert number in text
    assert make()._repr_html_() == make().summary()._repr_html_()
    assert repr(make().summary()) == str(make().summary())


def test_repr_is_one_short_line():
    assert repr(make()) == (
        "<Results TukeyEM: y ~ x, (1, 1e-06)-DP, approximate; neighbours: one record added or removed>"
    )


# -- tables of numbers -------------------------------------------------------------------------------


def test_tidy_has_the_columns_of_broom():
    tidy = make().tidy(0.1)
    assert list(tidy.columns) == [
        "term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high"
    ]  # fmt: skip
    fit = make()
    assert tidy["term"].tolist() == ["Intercept", "x"]
    np.testing.assert_array_equal(tidy["estimate"], fit.params)
    np.testing.assert_array_equal(tidy["p.value"], fit.pvalues)
    np.testing.assert_array_equal(tidy[["conf.low", "conf.high"]], fit.conf_int(0.1))


def test_glance_has_one_row_and_the_same_columns_for_every_fit():
    full = make(released={"n": 99.5, "sigma": 2, "rsquared": 0.5}).glance()
    empty = make().glance()
    assert len(full) == len(empty) == 1 and list(full.columns) == list(empty.columns)
    assert full.loc[0, ["r.squared", "sigma", "nobs", "eps", "delta"]].tolist() == [0.5, 2.0, 99.5, 1.0, 1e-6]
    assert empty.loc[0, ["r.squared", "sigma", "nobs"]].isna().all()


def test_to_dict_is_strict_json_and_complete():
    fit = make(released={"n": 10.5}, cov=[[0.04, math.nan], [math.nan, math.nan]], terms={"x": slice(1, 2)})
    back = json.loads(json.dumps(fit.to_dict(), allow_nan=False))
    assert back == fit.to_dict()
    assert back["coefficients"][0]["estimate"] == 1.5 and back["coefficients"][1]["std.error"] is None
    assert back["released"] == {"n": 10.5} and back["terms"] == {"x": ["x"]}
    assert back["guarantee"]["spends"][1]["step"] == "models"


# -- prediction --------------------------------------------------------------------------------------


def test_predictions_keep_the_index_and_nan_for_unusable_rows():
    fit = make(design=Line())
    frame = pd.DataFrame({"x": [0.0, 2.0, math.nan]}, index=["a", "b", "c"])
    pd.testing.assert_series_equal(
        fit.predict(frame), pd.Series([1.5, 1.0, math.nan], index=frame.index, name="y")
    )
    got = fit.predict({"x": [2.0]})
    assert isinstance(got, np.ndarray) and got.tolist() == [1.0]
    assert fit.predict(frame.iloc[:0]).empty


def test_a_location_result_does_not_predict():
    with pytest.raises(NotReleased, match="no regression function"):
        make().predict(pd.DataFrame({"x": [1.0]}))


# -- a value that nothing can change -----------------------------------------------------------------


def test_nothing_mutable_leaks_out():
    fit = make(released={"n": 10.0}, terms={"x": slice(1, 2)}, notes=["a"])
    before = fit.to_dict()
    for series in (fit.params, fit.bse, fit.tvalues, fit.pvalues):
        series.iloc[:] = 99.0
    for frame in (fit.conf_int(), fit.cov_params(), fit.tidy().drop(columns="term")):
        frame.iloc[:, :] = 99.0
    fit.to_dict()["released"]["n"] = 99.0
    assert fit.to_dict() == before
    with pytest.raises(TypeError):
        fit.released["n"] = 99.0
    with pytest.raises(TypeError):
        fit.terms["x"] = slice(0, 1)
    for array in (fit.estimates, fit.cov):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 99.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        fit.method = "other"
    with pytest.raises((AttributeError, TypeError)):
        fit.resid = 0


def test_inputs_are_copied():
    estimates, cov, released = np.array([1.5, -0.25]), np.eye(2), {"n": 10.0}
    fit = make(estimates=estimates, cov=cov, released=released)
    estimates[:] = cov[:] = released["n"] = 99.0
    assert fit.params.tolist() == [1.5, -0.25] and fit.cov_params().iloc[0, 0] == 1 and fit.nobs == 10
    interval = np.array([[1.0, 2.0], [0.0, 1.0]])

    class Own:
        def conf_int(self, alpha):
            return interval

    fit = make(cov=None, interval=Own())
    frame = fit.conf_int()
    frame.iloc[:, :] = 99.0
    assert interval[0, 0] == 1.0


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_equal_and_as_unchangeable(clone):
    fit = make(
        released={"n": 10.0}, terms={"x": slice(1, 2)}, notes=["a"], df=7, design=Line(),
        cov=[[0.04, math.nan], [math.nan, math.nan]],
    )  # fmt: skip
    other = clone(fit)
    assert other == fit and other is not fit
    assert str(other) == str(fit)
    assert other.predict({"x": [2.0]}).tolist() == [1.0]
    assert not other.estimates.flags.writeable and not other.cov.flags.writeable
    with pytest.raises(TypeError):
        other.released["n"] = 99.0


@pytest.mark.parametrize(
    "change",
    [
        {"method": "other"}, {"formula": "y ~ x + 0"}, {"response": None}, {"names": ("Intercept", "z")},
        {"estimates": [1.5, -0.2500001]}, {"cov": [[0.04, 0.0011], [0.0011, 0.0025]]}, {"df": 3},
        {"covers": PRIVACY}, {"guarantee": GUARANTEE.replace(eps=2)}, {"released": {"n": 1.0}},
        {"notes": ["a"]}, {"terms": {"x": slice(1, 2)}}, {"interval": FixedInterval((0, 0), (1, 1), 0.05)},
    ],
)  # fmt: skip
def test_equality_sees_every_part(change):
    assert make() == make()
    assert make(**change) != make()
    assert make() != "something else"


def test_the_pickle_is_small_and_of_one_size():
    names = tuple(f"C(x, levels=['a', 'b'])[T.{i}]" for i in range(40))
    sizes = set()
    for n in (1e4, 1e6, 31337.25):
        rng = np.random.default_rng(int(n))
        fit = make(
            names=names,
            estimates=rng.normal(size=40) * n,
            cov=np.eye(40) / n,
            released={"n": n, "models": n / 10},
        )
        sizes.add(len(pickle.dumps(fit)))
    assert len(sizes) == 1 and max(sizes) < 50_000
    assert len({len(pickle.dumps({"n": n})) for n in (100, 100_000)}) == 2  # what the check must not see
    assert len({len(pickle.dumps(make(released={"n": n}))) for n in (100, 100_000)}) == 1


def test_a_hashable_stand_in_is_not_promised():
    with pytest.raises(TypeError, match="unhashable"):
        hash(make())


# -- construction ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ("x", "x")}, "names must be distinct"),
        ({"estimates": [1.0, 2.0, 3.0]}, r"estimates must be of shape \(2,\)"),
        ({"cov": np.eye(3)}, r"cov must be None or of shape \(2, 2\)"),
        ({"released": {"bandwidth": 1.0}}, "released must be a mapping with keys among"),
        ({"guarantee": "eps = 1"}, "guarantee must be a Guarantee"),
        ({"covers": "everything"}, "covers must be 'sampling and privacy noise' or 'privacy noise only'"),
        ({"cov": None}, "covers must be"),
        ({"df": 0}, "df must be None or a positive finite number"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        make(**change)
