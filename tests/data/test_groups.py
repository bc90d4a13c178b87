"""The rows of every declared group: whatever the source and the kind of the column of the groups."""

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.data.groups import GroupedRows, group_levels
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source

LEVELS = ["a", "b", "c", "d"]


def frame(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c", "undeclared"], n)
    return pd.DataFrame({"y": rng.normal(size=n) + 10 * (group == "b"), "x": rng.normal(size=n), "g": group})


DATA = frame()


def median(data=DATA, **more):
    call = {"eps": 5, "alpha": None, "by": "g", "levels": {"g": LEVELS}} | more
    return dpstats.median("y ~ 1", data, **call)


def grouped(data, levels, names=("y",)):
    source = open_source(data)
    return GroupedRows(source, names, (), "g", group_levels("g", Schema.of(source, levels={"g": levels})))


def numbers(rows, i, name="y"):
    return [float(v) for batch in rows.group(i).batches([name]) for v in batch.numbers(name)]


def test_a_group_has_its_rows_in_their_order_and_no_other(monkeypatch):
    data = {"y": np.arange(9.0), "g": list("baxcabxca")}
    for batch in (4, 10_000):
        monkeypatch.setattr(dpstats.data.sources, "BATCH_ROWS", batch)
        rows = grouped(data, ["c", "a", "b", "d"])
        assert [numbers(rows, i) for i in range(4)] == [[3, 7], [1, 4, 8], [0, 5], []]
        assert [rows.size(i) for i in range(4)] == [2, 3, 2, 0]


def test_without_a_row_every_group_is_empty():
    rows = grouped({"y": np.empty(0), "g": np.empty(0, dtype=object)}, ["a", "b"])
    assert [rows.size(i) for i in range(2)] == [0, 0] and numbers(rows, 1) == []


@pytest.mark.parametrize("to", ["dict", "polars", "arrow", "csv"])
def test_every_source(to, tmp_path):
    expected = median(seed=2).params
    data = DATA
    if to == "dict":
        data = {name: DATA[name].to_numpy() for name in DATA}
    elif to == "polars":
        data = pytest.importorskip("polars").DataFrame({name: DATA[name].to_numpy() for name in DATA})
    elif to == "arrow":
        data = pytest.importorskip("pyarrow").Table.from_pandas(DATA)
    elif to == "csv":
        data = tmp_path / "data.csv"
        DATA.to_csv(data, index=False)
    assert median(data, seed=2).params.equals(expected)


def test_kinds_of_group_columns():
    truths = median(DATA.assign(g=(DATA["x"] > 0).astype("boolean")), levels=None, seed=1)
    assert list(truths) == [False, True]
    declared = median(DATA.assign(g=DATA["x"] > 0), levels={"g": [False, True]}, seed=1)
    assert declared[True].params.tolist() == truths[True].params.tolist()
    with pytest.raises(dpstats.SchemaError, match="must be declared"):
        # pandas makes objects of truth values if one is missing
        median(DATA.assign(g=DATA["x"] > 0), levels=None)
    categories = median(
        DATA.assign(g=pd.Categorical(DATA["g"].where(DATA["g"].isin(LEVELS)), LEVELS)), levels=None, seed=1
    )
    assert list(categories) == LEVELS


def test_group_column_may_be_in_the_formula():
    fits = dpstats.median("y ~ 1", DATA.assign(g=(DATA["x"] > 0) * 1), eps=5, by="g", levels={"g": [0, 1]})
    assert len(fits) == 2


def test_undeclared_groups_are_a_schema_error():
    with pytest.raises(dpstats.SchemaError, match="groups by 'g' must be declared.*levels="):
        median(levels=None)
    with pytest.raises(dpstats.SchemaError, match="no column 'h'"):
        median(by="h")
    with pytest.raises(dpstats.ParameterError, match="by must be"):
        median(by=["g"])
