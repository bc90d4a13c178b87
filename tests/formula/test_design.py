"""The formula front door: equal to patsy on clean data, closed to everything else, and one row at a time.

patsy itself is the oracle: on data without missing values, a formula inside the grammar means what patsy and
statsmodels make of it. Outside the grammar, no formula may run code or learn from data. Inside, what becomes
of a row may depend on that row alone.
"""

import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import patsy
import pyarrow as pa
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import exp, log, log10, sqrt  # noqa: F401  (for patsy, which evaluates formulas here)

import dpstats
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.errors import DpstatsError, FormulaError, SchemaError
from dpstats.estimation.call import text_reminder
from dpstats.formula.design import Design
from dpstats.formula.grammar import FUNCTIONS, Function
from dpstats.formula.pieces import Piece
from dpstats.formula.terms import with_offset

pytestmark = pytest.mark.filterwarnings("error")


def clean_frame(n=80, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "y": rng.normal(size=n),
            "y2": rng.normal(size=n),
            "x": rng.uniform(0.1, 5, n),
            "z": rng.normal(size=n),
            "i": rng.permutation(np.arange(n) % 4 + 1),
            "b": rng.permutation(np.arange(n) % 2 == 0),
            "b2": rng.permutation(np.arange(n) % 3 == 0),
            "g": pd.Categorical.from_codes(rng.integers(0, 3, n), ["a", "b", "c"]),
            "h": pd.Categorical.from_codes(rng.integers(0, 4, n), ["r", "s", "t", "u"], ordered=True),
            "k": pd.Categorical.from_codes(rng.integers(0, 2, n), [10, 20, 30]),
            "s": pd.Series(np.array(["p", "q"])[rng.permutation(np.arange(n) % 2)], dtype=object),
            "two words": rng.normal(size=n),
        }
    )


CLEAN = clean_frame()
# The same with types that are declared, as patsy takes those of NumPy.
TYPED = CLEAN.astype(
    {"y": "Float64", "y2": "Float64", "x": "Float64", "z": "Float64", "i": "Int64", "two words": "Float64"}
    | {"b": "boolean", "b2": "boolean", "s": "string"}
)
LEVELS = {"s": ["p", "q"]}


def design_of(formula, data=TYPED, levels=None, bounds=None):
    return Design.from_formula(formula, Schema.of(open_source(data), levels=levels, bounds=bounds))


# ---- equal to patsy ----

PATSY = [
    "y ~ 1",
    "y ~ x",
    "y ~ x - 1",
    "y ~ 0 + x",
    "y ~ x + z + i",
    "y ~ g",
    "y ~ g - 1",
    "y ~ g + h - 1",
    "y ~ g*h",
    "y ~ g:h",
    "y ~ g:h - 1",
    "y ~ g + g:h",
    "y ~ g/h",
    "y ~ g/x",
    "y ~ x/g",
    "y ~ x*g",
    "y ~ x:g",
    "y ~ x:g - 1",
    "y ~ (g + h + k)**2",
    "y ~ (x + z + g)**3 - x:z:g",
    "y ~ z * np.log(x) - np.log(x)",
    "y ~ x * I(z**2) - I(z**2):x",
    "y ~ x*z*g - 1",
    "y ~ x + x:z + g:x + g:z + b",
    "y ~ b",
    "y ~ b - 1",
    "y ~ b*x",
    "y ~ b:g",
    "y ~ k",
    "y ~ k:b",
    "y ~ s",
    "y ~ C(s)",
    "y ~ C(i, levels=[1, 2, 3, 4])",
    "y ~ C(i, levels=[4, 3, 2, 1])",
    "y ~ C(g, levels=['c', 'b', 'a'])",
    "y ~ C(g, Treatment)",
    "y ~ C(g, Treatment('b'))",
    "y ~ C(g, Treatment(reference='c'))",
    "y ~ C(g, Treatment(reference=1))",
    "y ~ C(k, Treatment(20))",
    "y ~ C(g, Sum)",
    "y ~ C(g, Sum('a')) - 1",
    "y ~ C(h, Poly)",
    "y ~ C(h, Poly(scores=[1, 2, 4, 8]))",
    "y ~ C(h, Helmert)*z",
    "y ~ C(h, Diff) - 1",
    "y ~ C(h, contrast=Sum):x",
    "y ~ C(b)",
    "y ~ C(b, Sum)",
    "y ~ C(np.floor(x), levels=[0, 1, 2, 3, 4])",
    "y ~ C(i > 2)",
    "y ~ I(x)",
    "y ~ I(x + z) + I(x*z) + I(x/z) + I(x - z) + I(-x) + I(+z)",
    "y ~ I(x**2) + I(x**-1) + I(2**z) + I(x**0.5)",
    "y ~ I(x//2) + I(z % 2)",
    "y ~ I(x > 2)",
    "y ~ x > 2",
    "y ~ I(x <= 2):g",
    "y ~ I(i == 2) + I(i != 3) - 1",
    "y ~ I((x > 1) & (z < 0)) + I((x > 4) | b) + I(~b)",
    "y ~ np.log(x) + np.log2(x) + np.log10(x) + np.log1p(x)",
    "y ~ np.exp(z) + np.expm1(z) + np.exp2(z) + np.sqrt(x) + np.cbrt(z) + np.square(z)",
    "y ~ log(x) + exp(z) + sqrt(x) + abs(z) + log10(x)",
    "y ~ np.abs(z) + np.absolute(z) + np.fabs(z) + np.sign(z) + np.reciprocal(x)",
    "y ~ np.sin(x) + np.cos(x) + np.tan(z) + np.arctan(z) + np.tanh(z) + np.sinh(z) + np.cosh(z)",
    "y ~ np.arcsin(np.tanh(z)) + np.arccos(np.tanh(z))",
    "y ~ np.floor(x) + np.ceil(x) + np.trunc(z) + np.rint(z)",
    "y ~ np.minimum(x, z) + np.maximum(x, 1) + np.power(x, 1.5)",
    "y ~ np.clip(z, -1, 1) + np.clip(z, a_min=-0.5, a_max=0.5)",
    "y ~ np.where(z > 0, z, 0) + np.where(b, x, z)",
    "y ~ np.sin(2*np.pi*x) + I(x*np.e)",
    "y ~ np.log(I(x + 1)) + I(np.log(x)**2)",
    "y ~ I(x*b)",
    "y ~ bs(x, knots=[1, 2.5], lower_bound=0, upper_bound=6)",
    "y ~ bs(x, knots=[1, 2.5], degree=2, lower_bound=0, upper_bound=6) - 1",
    "y ~ bs(x, knots=(1, 2.5), degree=1, include_intercept=True, lower_bound=0, upper_bound=6) - 1",
    "y ~ bs(x, knots=[], lower_bound=0, upper_bound=6)",
    "y ~ bs(np.log(x), knots=[0], lower_bound=-3, upper_bound=3)*g",
    "y ~ cr(x, knots=[1, 2], lower_bound=0, upper_bound=6) - 1",
    "y ~ cr(x, knots=[1, 2], lower_bound=0, upper_bound=6, constraints=[1, 1, 1, 1])",
    "y ~ cr(x, knots=[1, 2], lower_bound=0, upper_bound=6, constraints=[[1, 1, 1, 1], [0, 1, -1, 0]])",
    "y ~ cc(z, knots=[-1, 0, 1], lower_bound=-2, upper_bound=2) - 1",
    "y ~ Q('two words') + Q('x')",
    "y ~ x + x + x",
    "y ~ (x + g) - g",
    "y ~ x+z  +   g",
    "y ~\n x +\n z",
    "np.log(x) ~ z",
    "I(y**2) ~ z",
    "Q('two words') ~ z",
    "y + y2 ~ x",
    "np.exp(y) + y2 + x ~ 1",
]


def patsy_arrays(formula, data=CLEAN):
    Y, X = patsy.dmatrices(formula, data)
    return np.asarray(X), np.asarray(Y), X.design_info, Y.design_info


@pytest.mark.parametrize("options", ["", ", right=False", ", include_lowest=True"])
@pytest.mark.parametrize("breaks", ["[0, 1, 3]", "[-np.inf, 1, 3, np.inf]", "(1, 2, 3, 4)"])
def test_intervals_are_those_of_pandas(breaks, options):
    """Half of the values are breaks themselves; outside of all intervals a row is not used."""
    data = pd.DataFrame({"y": 1.0, "x": [*np.arange(-1, 6), *np.arange(-1, 6) + 0.7, np.nan, -0.0]})
    codes = eval(f"pd.cut(data['x'], {breaks}, labels=False{options})", {"pd": pd, "np": np, "data": data})
    design = design_of(f"y ~ cut(x, {breaks}{options}) - 1", data)
    np.testing.assert_array_equal(design.arrays(data)[0].argmax(axis=1), codes.dropna())
    np.testing.assert_array_equal(np.isnan(design.matrix(data)[:, 0]), codes.isna())
    if "right" in options:  # the highest break then belongs to the last interval, as in R
        lowest = design_of(f"y ~ pd.cut(x, {breaks}{options}, include_lowest=True) - 1", data).matrix(data)
        more = np.isnan(design.matrix(data)[:, 0]) & ~np.isnan(lowest[:, 0])
        assert set(data["x"][more]) == {float(np.asarray(eval(breaks, {"np": np}))[-1])} - {np.inf}
        assert (lowest[more, -1] == 1).all()


def test_intervals_are_named_by_their_ends_or_labels():
    def levels(text):
        return [name.removeprefix(text)[1:-1] for name in design_of(f"y ~ {text} - 1").column_names]

    assert levels("cut(x, [-np.inf, 0, 2.5, 1e20])") == ["(-inf, 0]", "(0, 2.5]", "(2.5, 1e+20]"]
    assert levels("cut(x, [0, 1, 2], right=False)") == ["[0, 1)", "[1, 2)"]
    assert levels("cut(x, [0, 1, 2], include_lowest=True)") == ["[0, 1]", "(1, 2]"]
    assert levels("cut(x, [0, 1, 2], right=False, include_lowest=True)") == ["[0, 1)", "[1, 2]"]
    assert levels("cut(x, [0, 1, 2], labels=['low', 'high'])") == ["low", "high"]
    chosen = "C(cut(x, [0, 1, 2, 3], labels=['low', 'mid', 'high']), Treatment('mid'))"
    assert design_of(f"y ~ {chosen}").column_names == ("Intercept", f"{chosen}[T.low]", f"{chosen}[T.high]")


@pytest.mark.slow
@pytest.mark.parametrize("kind, knots", [("cr", 30), ("cr", 100), ("cc", 41), ("bs", 40)])
def test_a_spline_of_a_row_does_not_depend_on_how_many_rows_there_are(kind, knots):
    """Products of matrices round rows by the shape of the whole; with many knots from few rows on."""
    columns = knots + (2 if kind == "cr" else 1)
    more = "" if kind == "bs" else f", constraints={[1.0] * columns}"
    formula = (
        f"y ~ {kind}(x, knots={list(range(1, knots + 1))}, lower_bound=0, upper_bound={knots + 1}{more})"
    )
    x = np.random.default_rng(0).uniform(0, knots + 1, 130)
    design = design_of(formula, levels=LEVELS)
    rows = design.matrix({"x": x})
    assert np.linalg.matrix_rank(rows) == rows.shape[1]
    for size in range(1, 130):
        np.testing.assert_array_equal(design.matrix({"x": x[:size]}), rows[:size])


@pytest.mark.parametrize("formula", PATSY)
def test_equals_patsy(formula):
    design = design_of(formula, levels=LEVELS)
    assert pickle.loads(pickle.dumps(design)).column_names == design.column_names
    X, Y, x_info, y_info = patsy_arrays(formula)
    assert design.column_names == tuple(x_info.column_names)
    assert design.response_names == tuple(y_info.column_names)
    assert dict(design.term_slices) == dict(x_info.term_name_slices)
    assert list(design.term_slices) == x_info.term_names
    assert design.has_intercept == ("Intercept" in x_info.term_names)
    got_X, got_Y = design.arrays(CLEAN)
    np.testing.assert_allclose(got_X, X, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(got_Y, Y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(design.matrix(CLEAN.drop(columns=["y", "y2"])), X, rtol=1e-12, atol=1e-12)


FACTORS = ["x", "z", "g", "h", "b", "C(k, Sum)", "np.log(x)", "I(z**2)", "C(i, levels=[1, 2, 3, 4])"]


@st.composite
def formulas(draw, depth=3):
    """Random combinations of factors by patsy's operators."""

    def term(level):
        if level == 0 or draw(st.integers(0, 2)) == 0:
            return draw(st.sampled_from(FACTORS))
        operator = draw(st.sampled_from([" + ", ":", "*", " + ", " - ", "/"]))
        return f"({term(level - 1)}{operator}{term(level - 1)})"

    return "y ~ " + term(depth) + draw(st.sampled_from(["", " - 1", " + 0", " + x:g", " + 1"]))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(formulas())
def test_random_formulas_equal_patsy(formula):
    try:
        X, _, info, _ = patsy_arrays(formula)
    except patsy.PatsyError:
        with pytest.raises(FormulaError):
            design_of(formula)
        return
    if X.shape[1] == 0:
        with pytest.raises(FormulaError, match="no terms"):
            design_of(formula)
        return
    try:
        design = design_of(formula)
    except FormulaError as error:
        # patsy passes over it
        assert "which is not in it" in str(error) and " - " in formula
        return
    assert design.column_names == tuple(info.column_names)
    np.testing.assert_allclose(design.arrays(CLEAN)[0], X, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("formula", ["y ~ z - z.mean()", "y ~ x - foo(z)[3]", "y ~ x - np.log(x)"])
def test_what_is_not_there_is_not_taken_away(formula):
    """``z - z.mean()`` fitted ``z``, without a word."""
    with pytest.raises(FormulaError, match="takes away|cannot contain"):
        design_of(formula)


@pytest.mark.parametrize("formula", ["y ~ x**2", "y ~ z + (x)**3", "y ~ (x:z)**2", "y ~ I(x)**2"])
def test_a_term_is_not_crossed_with_itself(formula):
    """patsy reads ``x**2`` as ``x``, and so does R: a parabola was a line, and charged."""
    with pytest.raises(FormulaError, match=r"crosses .* the power of a column is written I\(age\*\*2\)"):
        design_of(formula)
    with pytest.raises(FormulaError, match=r"I\(age\*\*2\)"):
        design_of("y ~ x^2")


@pytest.mark.parametrize("formula", ["y ~ y", "y ~ x*y", "np.log(y) ~ x + np.log( y )", "y ~ Q('y') + x"])
def test_a_response_is_no_predictor(formula):
    """It would explain itself, with an R-squared of 1 (R leaves it out, with a warning)."""
    with pytest.raises(FormulaError, match="has its response, .* among its terms"):
        design_of(formula)
    design_of("np.log(y) ~ x + y")


@pytest.mark.parametrize(
    "lhs", ["y - y2", "y**2", "y*y2", "y:y2", "y/y2", "y + y", "y + 1", "0 + y", "-y", "2", "(y + y2)**2"]
)
def test_signs_between_responses_are_not_dropped(lhs):
    """``y - y2 ~ 1`` answered for ``y``."""
    with pytest.raises(FormulaError, match=r"must begin with a column .* arithmetic is written I\(a - b\)"):
        design_of(f"{lhs} ~ x")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("blood.pressure", "blood.pressure"), ("np.log(a.b.c)", "a.b.c"), ("two words", "two words"),
        ("class", "class"), ("1st", "..."), ("x " * 50 + "x", "..."),
    ],
)  # fmt: skip
def test_names_that_are_no_names_of_python_are_told_how_they_are_written(text, name):
    with pytest.raises(FormulaError, match=re.escape(f'is written Q("{name}").')):
        design_of(f"y ~ x + {text}")


@pytest.mark.parametrize("text", ["factor(k)", "as.factor(k)"])
def test_factors_of_r_are_told_how_they_are_written(text):
    with pytest.raises(FormulaError, match=r"write C\(x, levels=\[\.\.\.\]\)\."):
        design_of(f"y ~ x + {text}")


@pytest.mark.parametrize("text", ["x if b else z", "np.foo", "x[0]", "f'{x}'"])
def test_of_what_is_no_name_that_is_not_said(text):
    with pytest.raises(FormulaError, match="cannot contain") as caught:
        design_of(f"y ~ I({text})")
    assert "Q(" not in str(caught.value)


@pytest.mark.parametrize(
    "formula", ["y ~ x", "y~x", "  y ~\n x", "(y) ~ x", "Q('a ~ (b') ~ x", "I(~(y > 0)) ~ x"]
)
def test_an_offset_is_one_response_more(formula):
    """A function of its row, in bounds that follow from those declared."""
    data = CLEAN.assign(**{"a ~ (b": CLEAN["y"]})
    bounds = {"z": (-1.0, 1.0), "x": (1.0, 2.0)}
    for offset, expected, within in (
        ("z", data["z"].clip(-1, 1), (-1.0, 1.0)),
        (" z - x ", data["z"].clip(-1, 1) - data["x"].clip(1, 2), (-3.0, 0.0)),
        ("z + z", 2 * data["z"].clip(-1, 1), (-2.0, 2.0)),
        ("Q('a ~ (b') # b", data["y"], None),
    ):
        design = design_of(with_offset(formula, offset), data, bounds=bounds)
        assert len(design.response_names) == 2 and design.column_names == ("Intercept", "x")
        assert design.response_bounds[1] == within
        np.testing.assert_array_equal(design.arrays(data)[1][:, 1], expected)
        np.testing.assert_array_equal(design.arrays(data.iloc[3:5])[1][:, 1], expected[3:5])


def test_columns_with_a_part_of_their_own_are_not_among_all_others():
    schema = Schema.of(open_source(CLEAN))
    design = Design.from_formula("y ~ . - y2", schema, aside=("g", "x", None))
    names = set(design.term_slices)
    assert {"z", "h", "b"} <= names and not {"g", "x"} & names
    again = pickle.loads(pickle.dumps(design))
    assert set(again.term_slices) == names
    assert "g" in Design.from_formula("y ~ g + .", schema, aside=("g",)).term_slices


NUMBERS = st.sampled_from(["x", "z", "i", "0.5", "2", "-1.5", "3"])


@st.composite
def expressions(draw, depth=4):
    def node(level):
        if level == 0:
            return draw(NUMBERS)
        kind = draw(st.sampled_from(["leaf", "binary", "call", "two", "minus", "where"]))
        if kind == "leaf":
            return draw(NUMBERS)
        if kind == "binary":
            return f"({node(level - 1)} {draw(st.sampled_from('+-*/'))} {node(level - 1)})"
        if kind == "call":
            name = draw(
                st.sampled_from(["exp", "log", "sqrt", "abs", "sin", "tanh", "square", "arctan", "log1p"])
            )
            return f"np.{name}({node(level - 1)})"
        if kind == "two":
            return f"np.{draw(st.sampled_from(['minimum', 'maximum']))}({node(level - 1)}, {node(level - 1)})"
        if kind == "minus":
            return f"(-{node(level - 1)})"
        # Compared are values that exist: with a missing one numpy says False, and here the row is dropped.
        return f"np.where({node(0)} > {node(0)}, {node(level - 1)}, {node(level - 1)})"

    return node(depth)


FLOATS = CLEAN[["x", "z", "i"]].astype(float)
BOUNDS = {"x": (0.1, 5.0), "z": (-6.0, 6.0), "i": (1.0, 4.0)}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(expressions(), st.booleans())
def test_random_expressions_equal_numpy_and_stay_in_their_bounds(expression, bounded):
    text = f"I({expression} + 0*x)"
    with np.errstate(all="ignore"):
        expected = eval(expression + " + 0*x", {"np": np}, {name: FLOATS[name].to_numpy() for name in FLOATS})
    design = design_of(f"y ~ {text} - 1", FLOATS.assign(y=1.0), bounds=BOUNDS if bounded else None)
    X, _ = design.arrays(FLOATS.assign(y=1.0))
    np.testing.assert_allclose(X[:, 0], expected[np.isfinite(expected)], rtol=1e-9)
    (bounds,) = design.column_bounds
    if bounds is not None and len(X):
        assert bounds[0] <= X.min() and X.max() <= bounds[1]


def test_a_fit_equals_statsmodels():
    formula = "y ~ np.log(x)*g + h + b"
    design = design_of(formula)
    X, Y = design.arrays(CLEAN)
    fit = smf.ols(formula, CLEAN).fit()
    beta, *_ = np.linalg.lstsq(X, Y[:, 0], rcond=None)
    np.testing.assert_allclose(beta, fit.params.to_numpy())
    assert list(design.column_names) == list(fit.params.index)


# ---- where patsy has no word ----


def test_dot_stands_for_the_other_columns():
    data = CLEAN[["x", "g", "y", "two words", "z"]]
    design = design_of("np.log(y) ~ . - z", data)
    assert design.column_names == ("Intercept", "g[T.b]", "g[T.c]", "x", 'Q("two words")')
    assert pickle.loads(pickle.dumps(design)).column_names == design.column_names
    assert design_of("y ~ .:x", data[["x", "y", "z"]]).column_names == ("Intercept", "x", "z:x")


@pytest.mark.parametrize("name", ["if", "None", "nan", "a\nb", "\u017f", 'a "b" \\', "100 %"])
def test_a_dot_quotes_the_names_that_need_it(name):
    names = design_of("y ~ .", pd.DataFrame({name: [1.0, 2.0], "y": [0.0, 1.0]})).column_names
    assert names == ("Intercept", f"Q({json.dumps(name, ensure_ascii=False)})")


@pytest.mark.parametrize("name", [0, 1.5, ("a", "b"), None])
def test_a_dot_stands_for_no_columns_without_names(name):
    """It left them out: of a frame made from an array, all."""
    data = {name: [1.0, 2.0], "y": [0.0, 1.0], "x": [2.0, 1.0]}
    frame = pd.DataFrame(list(data.values()), index=pd.Index(data, tupleize_cols=False)).T
    dask = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=1)
    for table in (lambda: data, lambda: frame, lambda: iter([frame]), lambda: iter([data]), lambda: dask):
        with pytest.raises(SchemaError, match="no strings"):
            design_of("y ~ .", table())
        with pytest.raises(SchemaError, match="no strings"):
            dpstats.describe(table(), eps=1)
        assert design_of("y ~ x", table()).column_names == ("Intercept", "x")


def test_a_column_with_the_name_of_the_constant():
    with pytest.raises(FormulaError, match="the name of the constant"):
        design_of("y ~ .", pd.DataFrame({"Intercept": [1.0, 2.0], "y": [0.0, 1.0]}))


def test_a_boolean_response_is_a_number():
    for formula in ("b ~ x", "I(x > 2) ~ x", "b + y ~ 1"):
        _, Y = design_of(formula).arrays(CLEAN)
        np.testing.assert_array_equal(Y[:, 0], CLEAN["b"] if "b" in formula else CLEAN["x"] > 2)
    assert design_of("b ~ x").response_names == ("b",)


def test_truth_values_are_numbers_in_arithmetic():
    X, _ = design_of("y ~ I(b + b2) - 1").arrays(CLEAN)
    np.testing.assert_array_equal(X[:, 0], CLEAN["b"].astype(int) + CLEAN["b2"])


def test_levels_make_numbers_categorical():
    design = design_of("y ~ i", levels={"i": [1, 2]})
    assert design.column_names == ("Intercept", "i[T.2]")
    X, _ = design.arrays(CLEAN)
    assert len(X) == (CLEAN["i"] <= 2).sum()


def test_a_level_that_never_occurs_has_its_column():
    X, _ = design_of("y ~ k").arrays(CLEAN)
    assert X.shape[1] == 3 and not X[:, 2].any()
    assert design_of("y ~ s", levels={"s": ["p"]}).column_names == ("Intercept",)


def test_a_column_can_be_number_and_category():
    X, _ = design_of("y ~ i + C(i, levels=[1, 2, 3, 4]) - 1").arrays(CLEAN)
    np.testing.assert_array_equal(X[:, 4], CLEAN["i"])
    np.testing.assert_array_equal(X[:, :4].argmax(axis=1) + 1, CLEAN["i"])


def test_splines_take_their_ends_from_declared_bounds():
    design = design_of("y ~ bs(x, knots=[2])", bounds={"x": (0, 5)})
    expected = design_of("y ~ bs(x, knots=[2], lower_bound=0, upper_bound=5)")
    np.testing.assert_array_equal(design.arrays(CLEAN)[0], expected.arrays(CLEAN)[0])


def test_spline_arguments_outside_are_moved_to_the_ends():
    data = pd.DataFrame({"y": 1.0, "x": [-1e300, -1.0, 0.0, 1.0, 7.0, 1e308]})
    for spline in ("bs", "cr"):
        X, _ = design_of(f"y ~ {spline}(x, knots=[0.5], lower_bound=0, upper_bound=1) - 1", data).arrays(data)
        assert (X[:2] == X[2]).all() and (X[4:] == X[3]).all()
    X, _ = design_of("y ~ cc(x, knots=[0.5], lower_bound=0, upper_bound=1) - 1", data[1:5]).arrays(data[1:5])
    np.testing.assert_allclose(X, np.broadcast_to(X[0], X.shape), atol=1e-12)


def test_columns_may_be_called_like_functions():
    data = CLEAN.assign(np=CLEAN["z"], log=CLEAN["x"], C=CLEAN["z"], I=CLEAN["i"])
    X, _ = design_of("y ~ np + log + C + I + np.log(log) + I(I) + log(x) - 1", data).arrays(data)
    expected = CLEAN[["z", "x", "z", "i"]].assign(a=np.log(CLEAN["x"]), b=CLEAN["i"], c=np.log(CLEAN["x"]))
    np.testing.assert_array_equal(X, expected)


# ---- bounds ----


def test_column_bounds():
    design = design_of(
        "np.exp(x) + y ~ x + g + b + x:g + np.log(x) + z + I(z*x) + np.clip(z, -1, 1)"
        " + bs(z, knots=[0], degree=2, lower_bound=-4, upper_bound=4) + C(h, Sum)",
        bounds={"x": (1.0, 4.0)},
    )
    bounds = dict(zip(design.column_names, design.column_bounds, strict=True))
    assert bounds["Intercept"] == (1, 1)
    assert bounds["g[T.b]"] == bounds["b[T.True]"] == (0, 1)
    assert bounds["C(h, Sum)[S.r]"] == (-1, 1)
    assert bounds["x"] == (1, 4) and bounds["x:g[T.b]"] == (0, 4)
    assert bounds["np.log(x)"] == pytest.approx((0, np.log(4)))
    assert bounds["z"] is None and bounds["I(z * x)"] is None
    assert bounds["np.clip(z, -1, 1)"] == (-1, 1)
    assert {v for k, v in bounds.items() if k.startswith("bs(")} == {(0, 1)}
    assert design.response_bounds == (pytest.approx((np.e, np.exp(4))), None)


def test_values_outside_the_bounds_are_moved_to_the_nearer_end():
    data = pd.DataFrame({"y": [0.0, 9.0, -9.0, 1.0, 1.0], "x": [-5.0, 0.5, 1e308, np.inf, np.nan]})
    X, Y = design_of("y ~ x + I(x**2)", data, bounds={"x": (0, 1), "y": (-1, 2)}).arrays(data)
    np.testing.assert_array_equal(X, [[1, 0, 0], [1, 0.5, 0.25], [1, 1, 1]])
    np.testing.assert_array_equal(Y[:, 0], [0, 2, -1])


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=30))
def test_every_value_is_inside_its_bounds(values):
    data = pd.DataFrame(
        {"y": 1.0, "x": values, "z": values[::-1], "g": pd.Categorical(["a"] * len(values), ["a", "b"])}
    )
    formula = (
        "np.exp(x) ~ np.log(x)*z*g + I(x/(z + 20)) + np.sqrt(x):z + C(g, Sum)"
        " + cr(x, knots=[1], lower_bound=0, upper_bound=2)"
        " + cc(x, knots=[1, 1.5], lower_bound=0, upper_bound=2) + I(x > z) + np.sin(x) - 1"
    )
    design = design_of(formula, data, bounds={"x": (0.1, 3), "z": (-5, 5)})
    X, Y = design.arrays(data)
    for column, (lo, hi) in zip(
        np.hstack([X, Y]).T, design.column_bounds + design.response_bounds, strict=True
    ):
        assert not len(column) or (lo <= column.min() and column.max() <= hi)


# ---- closed ----

LEARNERS = [
    "center(x)", "standardize(x)", "scale(x)", "bs(x, df=4)", "bs(x, 4)", "bs(x, knots=[1])", "cr(x, df=4)",
    "bs(x, knots=x, lower_bound=0, upper_bound=9)",
    "bs(x, knots=[np.mean(x)], lower_bound=0, upper_bound=9)",
    "bs(x, knots=[1], lower_bound=np.min(x), upper_bound=9)",
    "bs(x, knots=list(x), lower_bound=0, upper_bound=9)",
    "cr(x, knots=[1], lower_bound=0, upper_bound=9, constraints='center')", "te(cr(x, df=3), cr(z, df=3))",
    "I(x - x.mean())", "x.mean()", "np.mean(x)", "I(x - np.mean(x))", "np.median(x)", "np.cumsum(x)",
    "np.sort(x)", "np.random.rand()", "np.random.rand(80)", "np.linalg.norm(x)", "np.max(x)", "max(x)",
    "min(x, z)", "sum(x)", "len(x)", "np.add.reduce(x)", "np.maximum.accumulate(x)", "np.diff(x)",
    "np.unique(x)", "np.isnan(x)", "np.quantile(x, 0.5)", "np.digitize(x, x)", "np.interp(x, x, z)",
    "np.argsort(x)", "np.roll(x, 1)", "np.gradient(x)", "poly(x, 2)", "C(x)", "C(i)", "C(x + 1)", "C(s)",
    "s", "C(s, levels=set(s))", "C(s, levels=s)", "C(i, levels=range(4))", "C(i, levels=[v for v in i])",
    "x[0]", "x[::-1]", "x[x > 3]", "I(x @ z)", "np.dot(x, z)", "cut(x, 3)", "pd.cut(x, bins=4)",
    "pd.qcut(x, 4)", "cut(x, x)",
]  # fmt: skip
CODE = [
    "__import__('os').system('true')", "__import__('os')", "eval('x')", "exec('1')", "open('f')",
    "globals()", "print(x)", "x.__class__", "x.__class__.__bases__", "np.log.__class__(x)", "np.__dict__",
    "np.log.__self__", "().__class__", "(lambda: x)()", "I((lambda: x)())", "(lambda v: v)(x)",
    "I(lambda: x)", "I([v for v in x])", "I({v for v in x})", "I({x: 1})", "I((v for v in x))", "I(f'{x}')",
    "f'{x}'", "I(x := z)", "(x := z)", "I((yield x))", "await x", "I(*x)", "'x'", "b'x'", "I('x')", "Q(x)",
    "Q('x' + 'y')", "Q(f'x')", "Q(b'x')", "Q('x', 'y')", "Q(name='x')", "Q('x').real", "I(x if b else z)",
    "I(x and z)", "I(not b)", "I(1 < x < 3)", "I(x is z)", "I(x in [1, 2])", "I(x << 2)", "I(x ^ 2)",
    "I(~x)", "I(x & z)", "I(x | 1)", "np.log(*x)", "np.log(**x)", "np.log(x, out=x)",
    "np.log(x, where=x > 0)", "np.log()", "np.log(x, x)", "np.clip(x)", "np.where(x > 1)", "np.load('f')",
    "np.memmap('f')", "np.vectorize(x)", "np.log", "np.fromfile('f')", "math.log(x)", "os.system('true')",
    "log(x)(z)", "np.log(x).real", "I(x).T", "I()", "I(x, z)", "True", "None", "...", "I(True)", "I(None)",
    "I(1j*x)", "I(1e999*x)", "I(9" + "9" * 400 + "*x)", "I(1)", "np.log(2)", "I(2**10**10)", "I(np.inf*x)",
    "I(np.nan*x)", "np.np.log(x)", "numpy.random.rand(1)", "I", "np.C(g)", "2*x", "-x", "C(g, levels=[])",
    "C(g, levels=['a', 'a'])", "C(g, levels=[1e999])", "C(g, np.eye(3))", "C(g, lambda: 1)", "C()",
    "C(g, Treatment('zz'))", "C(g, Treatment(9))", "C(g, Treatment(x))", "C(g, Poly(scores=[1]))",
    "C(g, foo)", "C(g, x)", "C(g, patsy.Sum)", "C(g, Sum(1, 2))", "C(x, levels=['a'])", "C(C(g))",
    "C(I(x), levels=['a'])", "C(g + 1)", "I(C(g))", "np.log(g)", "I(g + 1)",
    "I(bs(x, knots=[1], lower_bound=0, upper_bound=9))", "offset(x)", "ns(x, 3)", "cut()", "cut(x)",
    "cut(x, [1, 3, 2])", "cut(x, [1, 2])", "cut(x, [1, np.nan, 3])", "cut(g, [1, 2, 3])",
    "np.cut(x, [1, 2, 3])", "cut(x, [1, 2, 3], labels=['a'])", "cut(x, [1, 2, 3], labels=['a', 'a'])",
    "cut(x, [1, 2, 3], labels=[1, 2])", "cut(x, [1, 2, 3], right=x)", "cut(x, [1, 2, 3], retbins=True)",
    "I(cut(x, [1, 2, 3]))",
    "C(cut(x, [1, 2, 3]), levels=['a', 'b'])", "C(cut(x, [1, 2, 3]), Treatment('a'))",
    "bs(x, knots=[9], lower_bound=0, upper_bound=3)", "bs(x, knots=[1], lower_bound=3, upper_bound=0)",
    "bs(x, knots=[1], degree=99, lower_bound=0, upper_bound=3)",
    "bs(x, knots=[1], degree=x, lower_bound=0, upper_bound=3)",
    "bs(x, knots=[1], degree=1.5, lower_bound=0, upper_bound=3)",
    "bs(g, knots=[1], lower_bound=0, upper_bound=3)",
    "bs(x, knots=[1], include_intercept=x, lower_bound=0, upper_bound=3)", "bs()",
    "cr(x, knots=[1, 1], lower_bound=1, upper_bound=1)",
    "cr(x, knots=[1], lower_bound=0, upper_bound=3, constraints=[1])",
    "cc(x, knots=[], lower_bound=0, upper_bound=0)",
    "cr(x, knots=[1], lower_bound=0, upper_bound=3, constraints=[[1, 1, 1], [1, 1]])", "nope", "Q('nope')",
    "two words", "x y", "x; import os", "x # z", "x 'a", "$x", "?", "x\\z", "x\x00", "\u2028x", "x ~ z",
    "(x ~ z)", "x +", "* x", "(x", "x)", "5", "x**z", "(x + z)**0", "(x + z)**1.5", "(x + z)^2", "x^2", "0",
    "",
]  # fmt: skip
HUGE = [
    "I(" + "(" * 500 + "x" + ")" * 500 + ")",
    "I(" + "-" * 5000 + "x)",
    "I(" + "+".join(["x"] * 5000) + ")",
    "+".join(["x"] * 60_000),
    "np.log(" * 500 + "x" + ")" * 500,
    "-" * 3000 + "1",
    "*".join(f"x{i}" for i in range(40)),
    "(" + "+".join(f"x{i}" for i in range(200)) + ")**100",
    "C(i, levels=[" + ", ".join(map(str, range(4000))) + "])",
    "C(i, levels=["
    + ", ".join(map(str, range(99)))
    + "]):C(x, levels=["
    + ", ".join(map(str, range(99)))
    + "])",
    "bs(x, knots=[" + ", ".join(str(i / 1000) for i in range(1, 999)) + "], lower_bound=0, upper_bound=1)",
    "x" * 200_000,
    "I(x**" * 2000,
]


def test_the_refused_formulas_are_as_many_as_the_docs_say():
    assert len(LEARNERS + CODE) == 223


@pytest.mark.parametrize("text", LEARNERS + CODE)
def test_everything_else_is_refused(text):
    with pytest.raises((FormulaError, SchemaError)) as caught:
        design_of(f"y ~ {text}")
    if caught.type is FormulaError and text not in ("0", ""):
        assert "docs/formulas.md" in str(caught.value) or "term" in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("text", HUGE, ids=range(len(HUGE)))
def test_huge_formulas_are_refused_in_short(text):
    with pytest.raises(FormulaError) as caught:
        design_of(f"y ~ {text}")
    assert len(str(caught.value)) < 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["(" * 3000 + "x" + ")" * 3000, "+".join(["x"] * 1500), " + ".join(f"x:z:Q('x{i}')" for i in range(300))],
)
def test_long_formulas_are_read(text):
    data = pd.concat([CLEAN, pd.DataFrame(0.0, CLEAN.index, [f"x{i}" for i in range(300)])], axis=1)
    assert len(design_of(f"y ~ {text}", data).column_names) > 1


RESPONSES = [
    "", " ", "y", "~ x", "y ~", "y ~ 0", "y ~ x - x - 1", "0 ~ x", "1 ~ x", "1 + y ~ x", "y:x ~ 1",
    "y*x ~ 1", "g ~ x", "s ~ x", "C(i, levels=[1]) ~ x",
    "bs(y, knots=[1], lower_bound=0, upper_bound=9) ~ x", "y ~ x ~ z", ". ~ x", "np.mean(y) ~ x",
    "y - y ~ x",
]  # fmt: skip


@pytest.mark.parametrize("formula", RESPONSES)
def test_a_formula_needs_a_numeric_response_and_a_term(formula):
    with pytest.raises((FormulaError, SchemaError)):
        design_of(formula)


@pytest.mark.parametrize("formula", [None, 3, b"y ~ x", ["y ~ x"], patsy.ModelDesc([], [])])
def test_a_formula_is_a_string(formula):
    with pytest.raises(FormulaError, match="formula must be a string"):
        design_of(formula)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="xyzgbn.pQIC()[]{}+-*/:~'\"=,^&|<>!@#%0123e _\\\n", max_size=40))
def test_no_text_gets_anything_but_a_design_or_a_refusal(text):
    try:
        design = design_of("y ~ " + text)
    except DpstatsError:
        return
    assert len(design.column_names) >= 1


@pytest.mark.parametrize("name", ["s", "two words", 'quo"te'])
def test_the_message_about_levels_is_the_line_to_write(name):
    data = pd.DataFrame({"y": [1.0], name: ["a"]}, dtype="string").astype({"y": "Float64"})
    factor = name if name.isidentifier() else "Q(" + repr(name) + ")"
    with pytest.raises(SchemaError) as caught:
        design_of(f"y ~ {factor}", data)
    line = str(caught.value).split("levels=", 1)[1].split("}")[0] + "}"
    levels = eval(line.replace("...", "'a', 'b'"))
    assert design_of(f"y ~ {factor}", data, levels=levels).column_names[1] == f"{factor}[T.b]"


UNUSABLE = [
    pa.array([0, 1], pa.date32()),
    pa.array([0, 1], pa.timestamp("s")),
    pa.array([0, 1], pa.duration("s")),
    pa.array([[1], [2]]),
    pa.array([b"a", b"b"]),
    np.zeros((2, 2)),
]


@pytest.mark.parametrize("column", UNUSABLE)
def test_unusable_dtypes_are_schema_errors(column):
    data = {"y": [1.0, 2.0], "x": column}
    with pytest.raises(SchemaError, match="column 'x'"):
        design_of("y ~ x", data)
    assert design_of("y ~ 1", data).arrays(data)[0].shape == (2, 1)


NO_NUMBERS = [
    [1j, 2j],
    pd.to_datetime(["2020", "2021"]),
    pd.to_datetime(["2020", "2021"], utc=True),
    pd.to_timedelta([1, 2]),
    pd.period_range("2020", periods=2),
    pd.interval_range(0, 2),
    [None, None],
    [[1], [2]],
    ["a", "b"],
]


@pytest.mark.parametrize("column", NO_NUMBERS)
def test_columns_without_a_declared_type_hold_numbers_or_nothing(column):
    """pandas made the dtype from the values: a refusal would tell about them."""
    data = pd.DataFrame({"y": [1.0, 2.0], "x": column})
    design = design_of("y ~ x", data)
    assert design == design_of("y ~ x", data.assign(x=[1, 2]))
    assert design.arrays(data)[0].shape == (0, 2)


def test_a_column_without_a_declared_type_is_true_where_it_is_not_zero():
    data = pd.DataFrame(
        {"y": 1.0, "x": [1.0, 2.0, 0.0, -0.0], "b": [True, None, True, False], "n": np.arange(4)}
    )
    X, _ = design_of("y ~ I(x & b) + I(~b) + n", data).arrays(data)
    assert X[:, 1:].tolist() == [[1, 0, 0], [0, 0, 2], [0, 1, 3]]


# ---- rows that cannot be used ----

DIRTY_COLUMNS = {
    "y": st.sampled_from([0.0, 1.5, -2.0, np.nan, np.inf, 1e308, 5e-324]),
    "x": st.sampled_from([0.5, 2.0, 0.0, -1.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0]),
    "z": st.sampled_from([0.25, -3.0, 0.0, np.nan, 1e200, -1e200]),
    "i": st.sampled_from([1, 2, 3, 4, 5, -7, 2**62]),
    "n": st.sampled_from([1, 2, None, 2**53 + 1]),
    "b": st.booleans(),
    "b2": st.sampled_from([True, False, None]),
    "g": st.sampled_from(["a", "b", "c", None]),
    "s": st.sampled_from(["p", "q", "undeclared", None, 3, float("nan"), ("p",), ["p"]]),
}
DIRTY_DTYPES = {
    "i": "int64",
    "n": "Int64",
    "b2": "boolean",
    "g": pd.CategoricalDtype(["a", "b", "c"]),
    "s": object,
}
DIRTY = [
    "y ~ x + z + i + g + s + b",
    "y ~ 1",
    "y + x ~ 1",
    "np.log(x) ~ I(x/z) + n*b2",
    "y ~ np.where(x > 1, np.log(x), z)*g - 1",
    "y ~ C(i, levels=[1, 2, 3]) + C(n, levels=[1, 2]) + I(x > z) + I((x > 0) & b2)",
    "y ~ x:z:g + np.exp(x) + np.power(x, 0) + I(x**0)",
    "y ~ bs(x, knots=[1], lower_bound=0, upper_bound=3) + cr(z, knots=[0], lower_bound=-1, upper_bound=2)",
    "y ~ cut(x, [0, 1, np.inf], right=False)*g + C(pd.cut(z, [-1, 0, 1], include_lowest=True), Sum)",
    "y ~ cc(x, knots=[1], lower_bound=0, upper_bound=3) + I(x % z) + I(x // z) + np.sign(x) + np.tan(x)",
]


@st.composite
def dirty_frames(draw, max_size=12):
    rows = draw(st.integers(0, max_size))
    columns = {
        name: draw(st.lists(values, min_size=rows, max_size=rows)) for name, values in DIRTY_COLUMNS.items()
    }
    return pd.DataFrame(
        {name: pd.Series(v, dtype=DIRTY_DTYPES.get(name)) for name, v in columns.items()}
    ).astype({"y": float, "x": float, "z": float, "b": bool})


def one_by_one(design, data):
    """The rows of a frame, each mapped on its own."""
    parts = [design.arrays(data.iloc[[r]]) for r in range(len(data))]
    X = np.concatenate([np.empty((0, len(design.column_names))), *(x for x, _ in parts)])
    Y = np.concatenate([np.empty((0, len(design.response_names))), *(y for _, y in parts)])
    return X, Y


def differs_row_by_row(design, data):
    X, Y = design.arrays(data)
    by_row = one_by_one(design, data)
    return X.shape != by_row[0].shape or not (np.array_equal(X, by_row[0]) and np.array_equal(Y, by_row[1]))


@pytest.mark.slow
@pytest.mark.parametrize("formula", DIRTY)
@settings(max_examples=25, deadline=None)
@given(data=dirty_frames())
def test_a_row_is_mapped_by_itself_in_silence(formula, data):
    design = design_of(formula, data, levels=LEVELS, bounds={"z": (-1e3, 1e3)})
    X, Y = design.arrays(data)
    assert np.isfinite(X).all() and np.isfinite(Y).all()
    assert X.flags.c_contiguous and Y.flags.c_contiguous and X.dtype == Y.dtype == np.float64
    assert X.shape[1] == len(design.column_names) and Y.shape[1] == len(design.response_names)
    assert not differs_row_by_row(design, data)
    M = design.matrix(data)
    assert M.shape == (len(data), X.shape[1])
    assert (np.isfinite(M).all(axis=1) | np.isnan(M).all(axis=1)).all()


def test_the_row_by_row_check_catches_a_function_that_looks_at_other_rows(monkeypatch):
    centred = Function(lambda x: x - np.mean(x), lambda a: (-np.inf, np.inf))
    monkeypatch.setitem(FUNCTIONS, "exp", centred)
    assert differs_row_by_row(design_of("y ~ np.exp(x)"), CLEAN)


def test_the_row_by_row_check_catches_a_learned_level(monkeypatch):
    from dpstats.formula.factors import Categorical

    def learned(self, batch):
        return np.unique(batch.codes(self.column, self.levels), return_inverse=True)[1]

    monkeypatch.setattr(Categorical, "codes", learned)
    assert differs_row_by_row(design_of("y ~ g"), CLEAN[CLEAN["g"] != "a"])


@settings(max_examples=25, deadline=None)
@given(dirty_frames(), dirty_frames(), st.sampled_from(DIRTY))
@pytest.mark.slow
def test_everything_with_a_name_or_a_shape_comes_from_the_schema(one, other, formula):
    designs = [design_of(formula, data, levels=LEVELS, bounds={"x": (0, 1)}) for data in (one, other)]
    assert designs[0] == designs[1] and pickle.dumps(designs[0]) == pickle.dumps(designs[1])
    for fact in ("column_names", "response_names", "column_bounds", "response_bounds", "term_slices"):
        assert getattr(designs[0], fact) == getattr(designs[1], fact)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(dirty_frames(), st.sampled_from(LEARNERS + CODE))
def test_a_refusal_does_not_depend_on_the_data(data, text):
    def answer(frame):
        try:
            return design_of(f"y ~ {text}", frame)
        except DpstatsError as error:
            return type(error), str(error)

    said = answer(data)
    assert said == answer(data.iloc[:0])
    # (of a column without a declared type some are no learners)
    assert isinstance(said, tuple) or text in ("s", "I(~x)", "I(x & z)", "C(x, levels=['a'])")


def test_a_comparison_with_a_missing_value_is_missing():
    data = pd.DataFrame({"y": 1.0, "x": [-1.0, 4.0]})
    X, _ = design_of("y ~ np.where(np.log(x) > 1, 1, 0*x) - 1", data).arrays(data)
    assert X.tolist() == [[1.0]]


def test_all_missing_and_empty_columns_give_no_rows():
    data = pd.DataFrame({"y": [1.0, 2.0], "x": [np.nan, np.nan]})
    for frame in (data, data.iloc[:0]):
        X, Y = design_of("y ~ x", frame).arrays(frame)
        assert X.shape == (0, 2) and Y.shape == (0, 1)


def test_huge_values_are_kept_until_they_overflow():
    data = pd.DataFrame({"y": [1e308, 1.0, 5e-324], "x": [1e308, 1e308, 5e-324]})
    assert len(design_of("y ~ x", data).arrays(data)[0]) == 3
    assert len(design_of("y ~ I(x*10)", data).arrays(data)[0]) == 1
    assert len(design_of("y ~ x:I(x + 0)", data).arrays(data)[0]) == 1


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.filterwarnings("error")
def test_pieces_and_threads_do_not_show(workers, monkeypatch):
    monkeypatch.setattr("dpstats.formula.design.WORKERS", workers)
    monkeypatch.setattr("dpstats.formula.design._LEAST_ROWS", 10_000)
    data = clean_frame(40_000)
    data.loc[data.index[::7], "x"] = np.nan
    data.loc[data.index[::11], "x"] = -1.0
    formula = "y ~ x*g + np.log(x) + C(i, levels=[1, 2, 3])"
    X, Y = design_of(formula).arrays(data)
    kept = data[(data["x"] > 0) & (data["i"] <= 3)]
    expected_X, expected_Y, *_ = patsy_arrays(formula, kept)
    np.testing.assert_allclose(X, expected_X, rtol=1e-12)
    np.testing.assert_array_equal(Y, expected_Y)


# ---- designs ----


def test_pickles_small_and_whole():
    wide = CLEAN.assign(
        **{f"c{j}": pd.Categorical(["l1"] * len(CLEAN), [f"l{i}" for i in range(500)]) for j in range(20)}
    )
    design = design_of(
        "np.log(x) ~ g*z + bs(z, knots=[0], lower_bound=-9, upper_bound=9)", wide, bounds={"z": (-9, 9)}
    )
    text = pickle.dumps(design)
    assert len(text) < 1000
    again = pickle.loads(text)
    assert again == design and hash(again) == hash(design)
    assert again.schema.names == ("x", "z", "g")
    np.testing.assert_array_equal(again.arrays(CLEAN)[0], design.arrays(CLEAN)[0])
    assert len(pickle.dumps(again)) == len(text)


def test_a_design_within_limits():
    design = design_of("y ~ x + g")
    low, high = np.full(len(design.column_names), -0.5), np.full(len(design.column_names), 0.5)
    within = design.within(low, high)
    assert design.limits is None
    np.testing.assert_array_equal(within.limits, (low, high))
    np.testing.assert_array_equal(within.matrix(CLEAN), np.clip(design.matrix(CLEAN), -0.5, 0.5))
    assert within.to_dict() == design.to_dict() | {"low": low.tolist(), "high": high.tolist()}
    assert "low" not in design.to_dict()
    with pytest.raises(AttributeError):
        within.low = high


def test_a_design_reminds_of_columns_that_may_hold_text():
    data = {name: [1.0, 2.0] for name in "yabcdef"}
    assert "declared type: 'y', 'a'. What" in text_reminder(design_of("y ~ a", data))
    assert "'d' and 2 more" in text_reminder(design_of("y ~ a + b + c + d + e + f", data))
    declared = {name: (0, 1) for name in data}
    assert text_reminder(design_of("y ~ a", data, bounds=declared)) == ""


def test_the_design_does_not_keep_what_a_reader_made_of_missing_values():
    whole = design_of("y ~ i + g", CLEAN.assign(i=CLEAN["i"].astype("int64")))
    holes = design_of("y ~ i + g", CLEAN.assign(i=CLEAN["i"].where(CLEAN["i"] > 1)))
    assert whole == holes and pickle.dumps(whole) == pickle.dumps(holes)


def test_matrix_has_a_row_per_row_and_needs_no_response():
    design = design_of("np.log(x) ~ z + g")
    new = pd.DataFrame({"z": [1.0, np.nan, 2.0, 3.0], "g": ["a", "b", "new", "c"], "other": 1})
    M = design.matrix(new)
    np.testing.assert_array_equal(M, [[1, 0, 0, 1], [np.nan] * 4, [np.nan] * 4, [1, 0, 1, 3]])
    assert design.matrix(new.iloc[:0]).shape == (0, 4)
    assert design_of("y ~ 1").matrix(new).tolist() == [[1.0]] * 4
    np.testing.assert_array_equal(
        design.matrix({"z": [1, "2"], "g": ["a", "c"]}), [[1, 0, 0, 1], [1, 0, 1, 2]]
    )


def test_new_data_must_have_the_columns_with_fitting_dtypes():
    design = design_of("y ~ z + g")
    with pytest.raises(SchemaError, match="no column 'g'"):
        design.matrix(CLEAN[["z"]])
    with pytest.raises(SchemaError, match="uses it as a number"):
        design.matrix({"z": pd.array(["1"], dtype="string"), "g": ["a"]})
    with pytest.raises(SchemaError, match="categorical variable"):
        design.matrix({"z": [1.0], "g": np.zeros((1, 1))})


def test_blocks_in_memory_are_one_pair_made_once():
    blocks = design_of("y ~ x").blocks(open_source(CLEAN))
    assert blocks.in_memory
    ((X, Y),) = blocks
    ((X_again, Y_again),) = blocks
    assert X_again is X and Y_again is Y and X.shape == (len(CLEAN), 2)


@pytest.mark.parametrize("rows", [0, 50])
def test_blocks_of_a_file_without_a_usable_row_are_one_pair_without_rows(tmp_path, rows):
    pd.DataFrame({"y": np.full(rows, np.nan), "x": np.ones(rows)}).to_parquet(tmp_path / "rows.parquet")
    source = open_source(tmp_path / "rows.parquet")
    ((X, Y),) = Design.from_formula("y ~ x", Schema.of(source)).blocks(source)
    assert X.shape == (0, 2) and Y.shape == (0, 1)


def test_values_of_an_expression_are_moved_into_what_is_known_of_them():
    """Rounding may take a function beyond the interval that is computed for it by a last digit; here more."""
    schema = Schema.of(open_source({"y": [0.0], "x": [0.0]}), bounds={"x": (0, 1)})
    design = Design.from_formula("y ~ np.sqrt(x)", schema)
    (factor,) = design.layout.subterms[1].factors
    piece = Piece(3, {"x": np.array([0.25, 0.81, 0.0])}, {})
    assert factor.bounds == (0.0, 1.0)
    np.testing.assert_allclose(factor.values(piece), [0.5, 0.9, 0.0])
    np.testing.assert_array_equal(replace(factor, bounds=(0.1, 0.5)).values(piece), [0.5, 0.5, 0.1])


@pytest.mark.parametrize("spline", ["cr(x, knots=[1], lower_bound=0, upper_bound=2)",
                                    "cc(x, knots=[0.7, 1.4], lower_bound=0, upper_bound=2)"])  # fmt: skip
def test_a_spline_is_moved_into_its_bounds(spline):
    """They are found on a grid, between whose points it may stray; here by more."""
    (factor,) = design_of(f"y ~ {spline} - 1").layout.subterms[0].factors
    piece = Piece(3, {"x": np.array([0.3, 1.2, 1.9])}, {})
    moved = replace(factor, column_bounds=((0.2, 0.3),) * factor.width).values(piece)
    np.testing.assert_array_equal(moved, np.clip(factor.values(piece), 0.2, 0.3))
    assert not np.array_equal(moved, factor.values(piece))


def test_zeros_of_expressions_have_no_sign():
    """By which else a row could be used or not, as it stands in the table: NumPy takes either of 0 and -0."""
    data = pd.DataFrame({"y": 1.0, "x": [0.0, -0.0, 1.0]})
    X, _ = design_of("y ~ I(-x) + np.minimum(x, -x) - 1", data).arrays(data)
    assert len(X) == 3 and not np.signbit(X[:2]).any()
    assert len(design_of("y ~ np.exp(1 / (-x))", data).arrays(data)[0]) == 1
