"""What a newcomer types, and what is said: one thing at a time, from the call and the schema alone."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats._boundary import _UNSUPPORTED, _meant

PAGE = (Path(__file__).parents[2] / "docs" / "not_supported.md").read_text(encoding="utf-8")


def table(n=4_000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    frame = pd.DataFrame({"x": x, "y": 1 + 2 * x + rng.standard_normal(n)})
    return frame.assign(g=np.array(["a", "b"])[rng.integers(0, 2, n)], u=x > 0)


def said(call):
    with pytest.raises(Exception) as caught:
        call()
    return str(caught.value)


MISTAKES = {
    "another name of eps": (lambda d: dpstats.ols("y ~ x", d, epsilon=1), "did you mean 'eps'?"),
    "no eps": (lambda d: dpstats.ols("y ~ x", d), "'eps', the privacy budget, as in eps=1"),
    "eps by position": (lambda d: dpstats.ols("y ~ x", d, 1), "after the data all arguments have names"),
    "neighbors": (lambda d: dpstats.tukey_em("y ~ x", d, eps=1, neighbors="x"), "did you mean 'neighbours'?"),
    "a capital": (lambda d: dpstats.ols("Y ~ x", d, eps=1), "there is no column 'Y'; did you mean 'y'?"),
    "arrays": (lambda d: dpstats.ols(d["y"], d[["x"]], eps=1), "It comes first, then the data."),
    "weights of rows": (lambda d: dpstats.ols("y ~ x", d, eps=1, weights=d["x"]), "the name of a column, or"),
    "weights elsewhere": (
        lambda d: dpstats.huber("y ~ x", d, eps=1, weights=d["x"]),
        "docs/not_supported.md",
    ),
    "a subset": (lambda d: dpstats.ols("y ~ x", d, eps=1, subset=d["x"] > 0), "docs/not_supported.md"),
    "an offset of a linear model": (lambda d: dpstats.ols("y ~ x", d, eps=1, offset="x"), "'I(y - x) ~ z'"),
    "groups of a mixed model": (lambda d: dpstats.ols("y ~ x", d, eps=1, groups="g"), "unit='id' protects"),
    "an offset in a formula": (
        lambda d: dpstats.poisson("y ~ x + offset(x)", d, eps=1),
        "offset= or exposure=",
    ),
    "text in a comparison": (
        lambda d: dpstats.ols("y ~ I(g == 'M')", d, eps=1),
        'write g, with levels={"g": [...]}',
    ),
    "text in another": (
        lambda d: dpstats.ols("y ~ np.where('M' != g, 1, x)", d, eps=1),
        'levels={"g": [...]}',
    ),
    "fixed effects": (lambda d: dpstats.ols("y ~ x | g", d, eps=1), 'effects="unit"'),
    "random effects": (lambda d: dpstats.ols("y ~ x + (1 | g)", d, eps=1), "random effects are not fitted"),
    "no response": (lambda d: dpstats.median("y", d, eps=1), "'y ~ 1' for a column alone"),
    "a function that learns": (lambda d: dpstats.ols("y ~ scale(x)", d, eps=1), "docs/formulas.md"),
    "cut in a formula": (lambda d: dpstats.ols("y ~ pd.cut(x, 3)", d, eps=1), "write them out, [0, 18, 65]"),
    "text for a number": (lambda d: dpstats.ols("y ~ g", d, eps=1, seed=1), "text needs levels="),
    "dates": (
        lambda d: dpstats.ols("y ~ t", d.assign(t=pd.Timestamp(0)), eps=1, seed=1),
        "dates as days",
    ),
    "a name that is read as a number": (lambda d: dpstats.ols("y ~ x + inf", d, eps=1), "written Q('inf')"),
    "another such name": (lambda d: dpstats.ols("y ~ NaN", d, eps=1), "written Q('NaN')"),
    "objects for numbers": (lambda d: dpstats.ols("y ~ g", d, eps=1, seed=1), "pd.to_numeric"),
    "an integer for a name": (
        lambda d: dpstats.ols("y ~ Q('3')", d.assign(**{"z": 1.0}).rename(columns={"z": 3}), eps=1),
        "df.columns = df.columns.map(str)",
    ),
    "only integers": (
        lambda d: dpstats.ols("y ~ x", pd.DataFrame(np.ones((3, 2))), eps=1),
        "columns.map(str)",
    ),
    "bounds of an integer": (
        lambda d: dpstats.ols("y ~ x", d, eps=1, bounds={3: (0, 1)}),
        "columns.map(str)",
    ),
    "a column for its name": (
        lambda d: dpstats.ols("y ~ x", d, eps=1, unit=d["g"]),
        "unit must be None or the name of a column, got Series.",
    ),
    "an array of groups": (
        lambda d: dpstats.ols("y ~ x", d, eps=1, by=np.asarray(d["g"])),
        "by must be None or the name of a column, got ndarray.",
    ),
    "a list of groups": (
        lambda d: dpstats.ols("y ~ x", d, eps=1, by=["g", "u"]),
        "of several paste the values into one column with declared levels, got list.",
    ),
    "alpha in the call": (lambda d: dpstats.ols("y ~ x", d, eps=1, alpha=0.1), "fit.conf_int(alpha=0.1)"),
    "confidence in the call": (
        lambda d: dpstats.ols("y ~ x", d, eps=1, conf_level=0.9),
        "fit.conf_int(alpha=0.1)",
    ),
    "tau": (lambda d: dpstats.quantile("y ~ 1", d, tau=0.5, eps=1), "did you mean 'q'?"),
    "a number of terms": (
        lambda d: dpstats.select_features("y ~ x + u", d, select=1, eps=1),
        "did you mean 'k'?",
    ),
    "an argument of a contrast": (
        lambda d: dpstats.ols("y ~ C(g, Treatment(ref='a'))", d, eps=1, levels={"g": ["a", "b"]}),
        "write Treatment(reference=...)",
    ),
    "one row": (lambda d: dpstats.theil_sen("y ~ x", d[:1], eps=1), "1 row is too few at eps = 1"),
    "a unit that is not there": (
        lambda d: dpstats.ols("y ~ x", d, eps=1, unit="person"),
        "unit: there is no column 'person'",
    ),
    "groups that are not there": (lambda d: dpstats.ols("y ~ x", d, eps=1, by="G"), "by: there is no column"),
    "a name of NumPy": (lambda d: dpstats.ols("y ~ x", d, eps=1, by=np.str_("g")), "groups by 'g' must be"),
    "a column to describe": (lambda d: dpstats.describe(d, ["z"], eps=1), "columns: there is no column 'z'"),
    "a difference of responses": (lambda d: dpstats.mean("y - x ~ 1", d, eps=1), "written I(a - b)"),
    "effects of a column": (
        lambda d: dpstats.ols("y ~ x", d, eps=1, unit="g", effects="g"),
        "effects must be None or 'unit', got 'g'.",
    ),
    "bounds in quotes": (
        lambda d: dpstats.ols("y ~ x", d, eps=1, bounds={"x": ("-3", "3")}),
        "with lower < upper, got a pair of str.",
    ),
    "an open end": (
        lambda d: dpstats.ols("y ~ x", d, eps=1, bounds={"x": (0, np.inf)}),
        "with lower < upper, got an end that is not finite.",
    ),
    "bounds as one text": (lambda d: dpstats.ols("y ~ x", d, eps=1, bounds={"x": "1-3"}), "upper, got str."),
    "three bounds": (lambda d: dpstats.ols("y ~ x", d, eps=1, bounds={"x": [1, 2, 3]}), "upper, got list."),
    "a column of bounds": (lambda d: dpstats.ols("y ~ x", d, eps=1, bounds={"x": d["x"]}), "got Series."),
    "a class of statsmodels": (lambda d: dpstats.OLS, "did you mean 'ols'?"),
    "a name of R": (lambda d: dpstats.lm, "did you mean 'ols'?"),
    "nothing alike": (lambda d: dpstats.xyzzy, "no attribute 'xyzzy'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake, monkeypatch):
    monkeypatch.delenv("DPSTATS_DEBUG", raising=False)
    call, expected = MISTAKES[mistake]
    message = said(lambda: call(table()))
    assert expected in message
    assert len(message.splitlines()) <= 2 and len(message) < 320, message


@pytest.mark.parametrize("by", [None, "u"])
def test_a_failure_says_which_units_are_left_out(by, monkeypatch):
    """Rows without a unit left few rows, and the message spoke of bounds alone."""
    monkeypatch.delenv("DPSTATS_DEBUG", raising=False)
    frame = table(400).astype({"u": pd.CategoricalDtype([True, False])}).assign(person=np.nan)
    message = said(lambda: dpstats.ols("y ~ x", frame, eps=1, by=by, unit="person", seed=1))
    what = "is missing, or no plain value such as a number, a text or a date, are left out."
    assert message.endswith(f" Rows whose unit 'person' {what}")
    assert "Rows whose unit" not in said(lambda: dpstats.ols("y ~ x", table(10), eps=1, seed=1))


@pytest.mark.parametrize("name", ["deepest_regression", "tukey_median", "medsweep", "theil_sen"])
def test_a_public_number_of_units_that_is_too_small_says_which_are_left_out(name):
    formula = "y + x ~ 1" if name == "tukey_median" else "y ~ x"
    frame = table(400).assign(person=np.nan)
    message = said(lambda: getattr(dpstats, name)(formula, frame, eps=1, unit="person", seed=1))
    assert "0 rows are too few" in message and message.endswith("or a date, are left out.")


@pytest.mark.parametrize("by", [None, "u"])
@pytest.mark.parametrize(
    "name, values",
    [("logit", "0, 1 or one of its two declared levels"), ("poisson", "a whole number from 0")],
)
def test_a_failure_says_what_a_response_may_be(name, values, by, monkeypatch):
    monkeypatch.delenv("DPSTATS_DEBUG", raising=False)
    frame = table().astype({"u": pd.CategoricalDtype([True, False])})
    if by is None:
        message = said(lambda: getattr(dpstats, name)("y ~ x", frame, eps=1, seed=1))
    else:
        message = said(lambda: getattr(dpstats, name)("y ~ x", frame, eps=1, by=by, seed=1))
    assert message.endswith(f" Rows whose response is not {values} count as missing.")


READ = (
    "(Of declared levels: {}. Rows whose value is none of them are not used, "
    "and the level '1' is not the number 1.)"
)


@pytest.mark.parametrize(("column", "levels"), [("g", ["A", "B"]), ("arm", ["1", "2"])])
def test_a_failure_names_the_columns_that_are_read_as_declared_levels(column, levels, monkeypatch):
    monkeypatch.delenv("DPSTATS_DEBUG", raising=False)
    frame = table().assign(arm=lambda d: 1 + (d["x"] > 0))
    declared = {column: levels, "u": [True, False]}
    assert READ.format(repr(column)) in said(
        lambda: dpstats.ols(f"y ~ {column}", frame, eps=1, levels=declared, seed=1)
    )
    # not of a column that the formula does not read, nor one whose levels are those of its type
    assert "levels:" not in said(lambda: dpstats.ols("y ~ x", frame[:5], eps=1, levels=declared, seed=1))


def test_a_failure_names_the_columns_whose_levels_the_formula_writes_out(monkeypatch):
    monkeypatch.delenv("DPSTATS_DEBUG", raising=False)
    message = said(lambda: dpstats.ols("y ~ C(g, levels=['A', 'B'])", table(), eps=1, seed=1))
    assert message.count(READ.format("'g'")) == 1


@pytest.mark.parametrize(
    ("name", "kind"), [("ols", dpstats.ReleaseFailed), ("deepest_regression", dpstats.ParameterError)]
)
def test_groups_of_which_none_has_an_estimate_are_an_error(name, kind, monkeypatch):
    monkeypatch.delenv("DPSTATS_DEBUG", raising=False)
    frame, ledger = (
        table().assign(arm=lambda d: 1 + (d["x"] > 0)),
        dpstats.Ledger(":memory:", eps=1, delta=1e-5),
    )
    with pytest.raises(kind) as caught:
        getattr(dpstats, name)("y ~ x", frame, eps=1, by="arm", levels={"arm": ["1", "2"]}, ledger=ledger)
    assert READ.format("'arm'") in str(caught.value)
    if kind is dpstats.ReleaseFailed:
        assert str(caught.value).startswith(
            "ols: none of the 2 groups by 'arm' has an estimate. Of the first: ols: "
        )
        assert caught.value.guarantee.eps == 1 and "disjoint" in caught.value.guarantee.scope
    # the groups' private numbers of rows are what was paid for; public ones cost nothing
    assert ledger.remaining()[0] == pytest.approx(0 if kind is dpstats.ReleaseFailed else 1)


def test_mistakes_after_the_fit(monkeypatch):
    monkeypatch.delenv("DPSTATS_DEBUG", raising=False)
    fit = dpstats.ols("y ~ x", table(), eps=5, seed=1)
    for call, expected in (
        (lambda: fit.predict(), "predict(data) takes new rows"),
        (lambda: fit.get_prediction(), "predict(data) takes new rows"),
        (lambda: fit.conf_int(cols=["Intercpt"]), "(did you mean 'Intercept'?), got list."),
        (lambda: fit.summary(title="A"), "ax.set_title()"),
        (lambda: dpstats.combine([fit]), "two Results or more, got 1."),
        (lambda: dpstats.combine(fit, fit), "as in combine([a, b])"),
        (lambda: fit.t_test("w = 0"), "linear in the coefficients Intercept, x"),
        (lambda: fit.wald_test("x = 0", scalar=False), "scalar must be True"),
        (lambda: fit.fit(), "has fitted already"),
        (lambda: fit.get_margeff(), "marginal_effects()"),
        (lambda: fit.model.fit(), "needs the private data"),
    ):
        assert expected in said(call)
    assert said(lambda: fit.wald_test("x = 0", use_f=True)).endswith("'use_f'")


@pytest.mark.parametrize("bins", [3, [-9, 0, 9]])
def test_bins_of_pandas_are_told_of_before_any_row_is_read(bins):
    frame = table().assign(
        bin=lambda d: pd.cut(d["x"], bins), fine=lambda d: pd.cut(d["x"], bins, labels=False)
    )
    with pytest.warns(UserWarning, match="the levels of column 'bin' are intervals") as caught:
        fit = dpstats.ols("y ~ bin", frame, eps=5, seed=1)
    assert caught[0].filename == __file__
    # of the schema alone: other values with the same dtype say the same
    other = frame.assign(
        bin=pd.Categorical([frame["bin"].dtype.categories[0]] * len(frame), dtype=frame["bin"].dtype)
    )
    with pytest.warns(UserWarning, match="'bin'") as again:
        dpstats.mean("y ~ 1", other, eps=5, by="bin", seed=1)
    assert [str(w.message) for w in again] == [str(w.message) for w in caught]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dpstats.ols("y ~ x", frame, eps=5, seed=1)  # not of columns that the formula does not name
        dpstats.ols("y ~ named", frame.assign(named=frame["bin"].cat.rename_categories(str)), eps=5, seed=1)
    again = dpstats.from_dict(json.loads(json.dumps(fit.to_dict())))
    assert again == fit and np.array_equal(again.predict(frame), fit.predict(frame))


def test_groups_of_bins_are_saved():
    frame = table().assign(bin=lambda d: pd.cut(d["x"], [-9, 0, 9]))
    with pytest.warns(UserWarning, match="'bin'"):
        fits = dpstats.mean("y ~ 1", frame, eps=5, by="bin", seed=1)
    again = dpstats.from_dict(json.loads(json.dumps(fits.to_dict())))
    assert again.levels == fits.levels and again[fits.levels[0]] == fits[fits.levels[0]]


def test_a_bar_between_booleans_is_the_logical_or():
    frame = table().assign(v=True).astype({"u": "boolean", "v": "boolean"})
    assert dpstats.ols("y ~ u | v", frame, eps=5, seed=1).names == ("Intercept", "u | v[T.True]")
    assert dpstats.ols("y ~ I(u | (x > 1))", table(), eps=5, seed=1).names[0] == "Intercept"


def test_summary_has_the_tables_of_statsmodels():
    fit = dpstats.ols("y ~ x", table(), eps=5, seed=1)
    facts, coefficients = fit.summary().tables
    assert "Dep. variable" in facts.as_text() and "std err" in coefficients.as_csv()
    assert "<td>" in coefficients.as_html()


@pytest.mark.parametrize("name", sorted(_UNSUPPORTED))
def test_an_argument_of_another_package_has_a_sentence_and_its_place_in_the_page(name):
    text = f"f() got an unexpected keyword argument '{name}'"
    message = _meant(text, ["data", "eps", "effects", "by", "unit"])
    assert message.startswith(f"{text}: ") and message.endswith(" (docs/not_supported.md)")
    assert "did you mean" not in message and len(message) > len(text) + 50
    assert f"`{name}=`" in PAGE
