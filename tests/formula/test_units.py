"""Units of several rows: which rows they have, whatever the source, and the one that is drawn."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.data.units import UnitParts
from dpstats.formula.design import Design
from dpstats.formula.units import UnitBlocks, Units
from dpstats.mechanisms.rng import Randomness

IDS = ["b", "a", "b", None, "c", "a", "b", "d"]
Y = np.array([1.0, 2.0, 3.0, 4.0, np.nan, 6.0, 7.0, np.nan])


KEY = "0123456789abcdef"


def blocks(frame, formula="y ~ 1", seed=0, levels=None, key=KEY):
    source = open_source(frame)
    design = Design.from_formula(formula, Schema.of(source, levels=levels))
    parts = UnitParts(source, design.schema.names, design.coded, "id", key)
    return UnitBlocks.drawn(design, parts, Randomness(seed))


def responses(made):
    """Those of each unit."""
    found = []
    for units, _ in made.units:
        found += [part.tolist() for part in np.split(units.Y[:, 0], units.ends)[:-1]]
    return found


def one_by_one(made):
    return [units[i : i + 1] for units, _ in made.units for i in range(len(units))]


def drawn(made):
    """The response of the row drawn of each unit."""
    return np.concatenate([Y[:, 0] for _, Y in made])


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
@pytest.mark.parametrize("held", [1 << 22, 8], ids=["memory", "disk"])
@pytest.mark.slow
def test_rows_of_a_unit_come_together_whatever_their_order(source, kind, held, tmp_path, monkeypatch):
    monkeypatch.setattr(dpstats.data.sources, "BATCH_ROWS", 3)
    monkeypatch.setattr(dpstats.data.units, "_HELD", held)
    frame = pd.DataFrame({"id": KINDS[kind](IDS), "y": Y})
    made = blocks(SOURCES[source](frame, tmp_path))
    assert made.in_memory == (held > 8 or source not in ("csv", "parquet"))
    # c and d have no usable row, and the row without a unit is left out
    found = responses(made)
    assert sorted(found) == [[1, 3, 7], [2, 6]]
    assert len(drawn(made)) == 2 and all(y in ys for y, ys in zip(drawn(made), found, strict=True))


def test_a_value_that_cannot_be_compared_is_missing():
    class Odd:
        def __eq__(self, other):
            raise ValueError("no")

        __hash__ = object.__hash__

    ids = np.array(["a", [1], "a", Odd(), "b", {"x": 1}, "b", "b"], dtype=object)
    assert sorted(responses(blocks({"id": ids, "y": np.arange(8.0)}))) == [[0, 2], [4, 6, 7]]


def test_an_empty_text_is_no_unit():
    frame = pd.DataFrame({"id": ["a", "", "b", "", "b", "c"], "y": np.arange(6.0)})
    # wherever in the order of the units it would be
    for i in range(8):
        made = blocks(frame, key=f"{i:016x}")
        found = responses(made)
        assert sorted(found) == [[0], [2, 4], [5]]
        assert all(y in ys for y, ys in zip(drawn(made), found, strict=True))


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
    made = blocks(frame, seed=3)
    # the last in the order has the last coin
    less = blocks(frame[~frame["y"].isin(responses(made)[-1])], seed=3)
    np.testing.assert_array_equal(drawn(made)[:-1], drawn(less))


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
        assert responses(made) == [] and len(drawn(made)) == 0


def test_rows_about_the_mean_of_their_unit():
    frame = pd.DataFrame({
        "id": [1, 1, 1, 2, 3, 3, 4, 4],
        "x": [1e9, 1e9 + 1, 1e9 + 5, 7.0, 2.0, 4.0, 1e308, -1e308],
        "y": [1.0, 2.0, 6.0, 7.0, 0.0, 1.0, 1.0, 2.0],
    })  # fmt: skip
    within = [u.within(slice(1, None)) for u in one_by_one(blocks(frame, "y ~ x"))]
    within = sorted((u for u in within if len(u)), key=lambda u: -len(u.X))
    # one row has no mean to differ from, and a unit whose mean is out of range is left out
    assert len(within) == 2
    np.testing.assert_allclose(within[0].X[:, 0], [-2, -1, 3], atol=1e-6)
    np.testing.assert_allclose(within[0].Y[:, 0], [-2, -1, 3])
    np.testing.assert_allclose(within[1].X[:, 0], [-1, 1])
    np.testing.assert_allclose(within[1].Y[:, 0], [-0.5, 0.5])
    assert [u.ends.tolist() for u in within] == [[3], [2]]


def test_rows_about_a_mean_are_those_of_their_unit_alone():
    g = np.random.default_rng(0)
    ends = np.cumsum(g.integers(1, 300, 20))
    units = Units(g.standard_normal((ends[-1], 4)), g.standard_normal((ends[-1], 1)), ends)
    whole = units.within(slice(1, None))
    alone = [units[i : i + 1].within(slice(1, None)) for i in range(len(units))]
    np.testing.assert_array_equal(whole.X, np.concatenate([one.X for one in alone]))
    np.testing.assert_array_equal(whole.Y, np.concatenate([one.Y for one in alone]))


def test_text_of_a_csv_file_is_compared_as_text():
    text = "id,y\n01,1\n1,2\n01,3\n1.0,4\n"
    frame = pd.read_csv(io.StringIO(text), dtype={"id": str})
    assert sorted(responses(blocks(frame))) == [[1, 3], [2], [4]]


def test_a_unit_that_overflows_takes_no_other_along():
    X = np.array([[1.0, 2], [1, 4], [1, 1e308], [1, -1e308]])
    within = Units(X, np.arange(4.0)[:, None], np.array([2, 4])).within(slice(1, 2))
    assert within.X.tolist() == [[-1.0], [1.0]]
