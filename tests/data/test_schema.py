"""What may be declared about columns, and what contradicts their dtypes."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpstats.data.schema import Column, Schema
from dpstats.data.sources import open_source
from dpstats.errors import ParameterError, SchemaError

FRAME = pd.DataFrame(
    {
        "x": pd.Series([1.0, 2.0], dtype="Float64"),
        "i": pd.Series([1, 2], dtype="Int64"),
        "b": pd.Series([True, False], dtype="boolean"),
        "s": pd.Series(["a", "b"], dtype="string"),
        "o": pd.Series([1, "b"], dtype=object),
        "c": pd.Categorical(["u", "v"], categories=["v", "u", "w"]),
        "d": pd.Series([0, 1], dtype=pd.ArrowDtype(pa.timestamp("s"))),
    }
)


def schema(**declared):
    return Schema.of(open_source(FRAME), **declared)


def test_kinds_come_from_dtypes():
    assert {c.name: c.kind for c in schema()} == {
        "x": "number", "i": "number", "b": "truth", "s": "text", "o": "untyped", "c": "factor",
        "d": "unusable",
    }  # fmt: skip
    assert schema()["c"].levels == ("v", "u", "w")


def test_levels_and_bounds_are_kept_as_declared():
    declared = schema(levels={"s": ["b", "a"], "i": np.array([2, 1]), "c": ("u", "v")}, bounds={"x": (0, 5)})
    assert declared["s"] == Column("s", "factor", declared["s"].dtype, ("b", "a"))
    assert declared["i"].levels == (2, 1) and type(declared["i"].levels[0]) is int
    assert declared["c"].levels == ("u", "v")
    assert declared["x"].bounds == (0.0, 5.0)
    assert declared.names == schema().names


@pytest.mark.parametrize(
    "declared, message",
    [
        ({"levels": {"t": ["a"]}}, "levels: there is no column 't'"),
        ({"bounds": {"t": (0, 1)}}, "bounds: there is no column 't'"),
        ({"levels": {"x": ["a"]}}, "holds numbers"),
        ({"levels": {"i": [True]}}, "holds numbers"),
        ({"levels": {"b": ["yes", "no"]}}, "is boolean"),
        ({"levels": {"s": [1, 2]}}, "must be strings"),
        ({"levels": {"d": ["2020"]}}, "neither numeric nor categorical"),
        ({"levels": {"s": []}}, "at least one"),
        ({"levels": {"s": ["a", "a"]}}, "distinct"),
        ({"levels": {"o": [1, True]}}, "distinct"),
        ({"levels": {"o": [None]}}, "strings, finite numbers or booleans"),
        ({"levels": {"x": [np.nan]}}, "strings, finite numbers or booleans"),
        ({"levels": {"x": [10**400]}}, "strings, finite numbers or booleans"),
        (
            {"levels": {"o": np.array(["2020"], "M8[ns]")}},
            "strings, finite numbers or booleans, got datetime64",
        ),
        ({"levels": {"o": np.array([5], "m8[ns]")}}, "strings, finite numbers or booleans, got timedelta64"),
        ({"bounds": {"s": (0, 1)}}, "bounds are for numeric columns"),
        ({"bounds": {"b": (0, 1)}}, "bounds are for numeric columns"),
        ({"bounds": {"i": (0, 1)}, "levels": {"i": [1]}}, "has levels"),
    ],
)
def test_contradictions_are_schema_errors(declared, message):
    with pytest.raises(SchemaError, match=message):
        schema(**declared)


@pytest.mark.parametrize(
    "declared",
    [
        {"levels": ["a"]},
        {"levels": {1: ["a"]}},
        {"levels": {"s": "ab"}},
        {"levels": {"s": 3}},
        {"bounds": {"x": 3}},
        {"bounds": {"x": (1, 0)}},
        {"bounds": {"x": (0, np.inf)}},
        {"bounds": {"x": (0, 1e-301)}},
        {"bounds": {"x": (np.timedelta64(1), 5)}},
        {"bounds": {"x": (0, np.nan)}},
        {"bounds": {"x": (0, 1, 2)}},
        {"bounds": {"x": (False, True)}},
        {"bounds": [("x", 0, 1)]},
    ],
)
def test_malformed_declarations_are_parameter_errors(declared):
    with pytest.raises(ParameterError, match="levels|bounds"):
        schema(**declared)


def test_declared_levels_win_over_categories():
    assert schema(levels={"c": ["other", 3]})["c"] == Column("c", "factor", "category", ("other", 3))


def test_there_is_one_zero():
    declared = schema(levels={"i": [-0.0, 1]}, bounds={"x": (-0.0, 5)})
    assert str(declared["i"].levels) == "(0.0, 1)" and str(declared["x"].bounds) == "(0.0, 5.0)"


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        [1.0, None],
        [True, False],
        [True, None],
        ["a", "b"],
        ["a", None],
        ["a", 3],
        [None, None],
        [1j, 2],
    ]
    + [
        [1, 2**70],
        [pd.Timestamp(0), pd.NaT],
        [pd.NaT, None],
        [b"a", "b"],
        [[1], {}],
        [pd.Interval(0, 1)] * 2,
    ],
)
def test_what_pandas_and_numpy_make_of_values_is_no_declaration(values):
    assert schema_of(pd.DataFrame({"x": values})) == schema_of({"x": values}) == schema_of({"x": [0, 0]})
    as_array = pd.Series(values).to_numpy()
    assert schema_of({"x": as_array}) == schema_of({"x": [0, 0]})


def schema_of(data):
    return Schema.of(open_source(data))


def test_a_missing_column_is_named_with_its_neighbours():
    wide = Schema(tuple(Column(f"column{i}", "number", "float64") for i in range(30)))
    with pytest.raises(SchemaError, match="did you mean 'column1"):
        wide["colum1"]
    with pytest.raises(SchemaError, match="and 10 more"):
        wide["zzz"]
    with pytest.raises(SchemaError, match="no column whose name is a string"):
        Schema(())["x"]


def test_pickles_as_its_columns_alone():
    s = schema(levels={"s": ["a", "b"]})
    size = len(pickle.dumps(s))
    assert s["s"].levels == ("a", "b")  # fills the index by name
    assert len(pickle.dumps(s)) == size
    again = pickle.loads(pickle.dumps(s))
    assert again == s and hash(again) == hash(s) and again["s"] == s["s"]


def test_the_schema_does_not_depend_on_values():
    other = FRAME.iloc[:0]
    assert Schema.of(open_source(other)) == schema()
    changed = FRAME.assign(o=[None, [1]], x=[np.nan, np.inf], s=["z", None])
    assert Schema.of(open_source(changed.astype(FRAME.dtypes))) == schema()
