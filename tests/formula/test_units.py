"""Units of several rows: which rows they have, whatever the source, and the one that is drawn."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats
from dpstats.data.groups import UnitRows
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.formula.design import Design
from dpstats.formula.units import UnitBlocks
from dpstats.mechanisms.rng import Randomness

IDS = ["b", "a", "b", None, "c", "a", "b", "d"]
Y = np.array([1.0, 2.0, 3.0, 4.0, np.nan, 6.0, 7.0, np.nan])


def blocks(frame, formula="y ~ 1", seed=0, levels=None):
    source = open_source(frame)
    design = Design.from_formula(formula, Schema.of(source, levels=levels))
    return UnitBlocks.drawn(
        design, UnitRows(source, design.schema.names, design.coded, "id"), Randomness(seed)
    )


def responses(units):
    return [part.tolist() for part in np.split(units.Y[:, 0], units.ends[:-1])]


def csv_file(frame, folder):
    path = folder / "rows.csv"
    frame.to_csv(path, index=False, quoting=csv.QUOTE_MINIMAL)
    return str(path)


def parquet_file(frame, folder):
    path = folder / "rows.parquet"
    frame.to_parquet(path, row_group_size=3)
    return str(path)


def polars_frame(frame, folder):
    return pytest.importorskip("polars").from_pandas(frame)


def arrow_table(frame, folder):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


SOURCES = {
    "pandas": lambda frame, folder: frame,
    "mapping": lambda frame, folder: {name: frame[name].tolist() for name in frame},
    "polars": polars_frame,
    "arrow": arrow_table,
    "csv": csv_file,
    "parquet": parquet_file,
}
KINDS = {
    "text": lambda ids: ids,
    "category": lambda ids: pd.Categorical(ids, categories=["z", "d", "c", "b", "a"]),
    "string": lambda ids: pd.array(ids, dtype="string"),
    "integers": lambda ids: pd.array([None if v is None else ord(v) for v in ids], dtype="Int64"),
    "floats": lambda ids: np.array([np.nan if v is None else ord(v) / 7 for v in ids]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", SOURCES)
def test_rows_of_a_unit_come_together_whatever_their_order(source, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(dpstats.data.sources, "BATCH_ROWS", 3)
    frame = pd.DataFrame({"id": KINDS[kind](IDS), "y": Y})
    made = blocks(SOURCES[source](frame, tmp_path))
    # c and d have no usable row, and the row without a unit is left out
    assert responses(made.units) == [[1, 3, 7], [2, 6]]
    ((_, one),) = made
    assert len(one) == 2 and one[0, 0] in (1, 3, 7) and one[1, 0] in (2, 6)


def test_a_value_that_cannot_be_compared_is_missing():
    class Odd:
        def __eq__(self, other):
            raise ValueError("no")

        __hash__ = object.__hash__

    ids = np.array(["a", [1], "a", Odd(), "b", {"x": 1}, "b", "b"], dtype=object)
    assert responses(blocks({"id": ids, "y": np.arange(8.0)}).units) == [[0, 2], [4, 6, 7]]


def test_an_empty_text_is_no_unit():
    frame = pd.DataFrame({"id": ["a", "", "b", "", "b", "c"], "y": np.arange(6.0)})
    made = blocks(frame)
    assert responses(made.units) == [[0], [2, 4], [5]]
    ((_, one),) = made
    assert one[[0, 2], 0].tolist() == [0, 5] and one[1, 0] in (2, 4)


def test_the_row_drawn_is_uniform_among_the_usable_ones():
    frame = pd.DataFrame(
        {"id": np.repeat(np.arange(20_000), 4), "y": np.tile([0.0, np.nan, 2.0, 3.0], 20_000)}
    )
    ((_, one),) = blocks(frame)
    counts = np.unique(one, return_counts=True)[1]
    assert len(one) == 20_000 and len(counts) == 3
    assert stats.chisquare(counts).pvalue > 1e-6


def test_of_a_unit_that_left_the_others_draw_as_before():
    frame = pd.DataFrame({"id": np.repeat(np.arange(50), 3), "y": np.arange(150.0)})
    ((_, whole),) = blocks(frame, seed=3)
    # the last to come has the last coin
    ((_, less),) = blocks(frame[frame["id"] < 49], seed=3)
    np.testing.assert_array_equal(whole[:-1], less)


def test_another_design_has_the_same_rows_drawn():
    frame = pd.DataFrame(
        {"id": np.repeat(np.arange(99), 3), "y": np.arange(297.0), "x": np.arange(297.0) ** 2}
    )
    made = blocks(frame, "y ~ x")
    ((X, Y),) = made.of(Design.from_formula("x ~ y", Schema.of(open_source(frame))))
    ((first, second),) = made
    np.testing.assert_array_equal(X[:, 1], second[:, 0])
    np.testing.assert_array_equal(Y[:, 0], first[:, 1])


def test_no_row_or_no_unit_is_no_error():
    for ids in ([], [None, None]):
        frame = {"id": np.array(ids, dtype=object), "y": np.arange(float(len(ids)))}
        made = blocks(frame)
        assert len(made.units.ends) == 0 and sum(len(y) for _, y in made) == 0


def test_rows_about_the_mean_of_their_unit():
    frame = pd.DataFrame({
        "id": [1, 1, 1, 2, 3, 3, 4, 4],
        "x": [1e9, 1e9 + 1, 1e9 + 5, 7.0, 2.0, 4.0, 1e308, -1e308],
        "y": [1.0, 2.0, 6.0, 7.0, 0.0, 1.0, 1.0, 2.0],
    })  # fmt: skip
    within = blocks(frame, "y ~ x").units.within(slice(1, None))
    # one row has no mean to differ from, and a unit whose mean is out of range is left out
    np.testing.assert_allclose(within.X[:, 0], [-2, -1, 3, -1, 1], atol=1e-6)
    np.testing.assert_allclose(within.Y[:, 0], [-2, -1, 3, -0.5, 0.5])
    assert within.ends.tolist() == [3, 5]


def test_text_of_a_csv_file_is_compared_as_text():
    text = "id,y\n01,1\n1,2\n01,3\n1.0,4\n"
    frame = pd.read_csv(io.StringIO(text), dtype={"id": str})
    assert responses(blocks(frame).units) == [[1, 3], [2], [4]]
