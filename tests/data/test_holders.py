"""What holds a column: one row more, or an odd one, does not change how the others are read, or whether."""

import datetime
import uuid

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.data import units
from dpstats.data.columns import NumpyColumn, PandasColumn, arrow_values, describe_pandas
from dpstats.data.sources import open_source
from dpstats.errors import SchemaError


def numbered(column):
    return units._numbered(column.keys())[0].tolist()


def streamed(*frames):
    """The numbers and the units of a column `x` of frames, by way of a temporary file."""
    source = open_source(iter(frames))
    batches = list(source.batches(["x"]))
    source.close()
    numbers = np.concatenate([np.asarray(batch.numbers("x"), float) for batch in batches])
    return numbers.tolist(), [
        code for batch in batches for code in units._numbered(batch.keys("x"))[0].tolist()
    ]


@pytest.mark.filterwarnings("ignore:The 'sparse_index' parameter")
@pytest.mark.parametrize("fill", [0, np.nan])
def test_a_gap_of_a_sparse_column_makes_no_floats_of_the_others(fill):
    kind = "i8" if np.isnan(fill) else "u8"
    ids = np.arange(2**53, 2**53 + 6, dtype=kind)
    for gaps in (0, 1, 3):
        index = pd._libs.sparse.IntIndex(len(ids) + gaps, np.arange(len(ids), dtype="i4"))
        array = pd.arrays.SparseArray(
            ids, sparse_index=index, fill_value=fill, dtype=pd.SparseDtype(kind, fill)
        )
        column = PandasColumn(pd.Series(array))
        assert numbered(column)[:6] == list(range(6))
        assert column.codes((2**53, 2**53 + 1)).tolist()[:6] == [0, 1, -1, -1, -1, -1]
        np.testing.assert_array_equal(column.numbers()[6:], np.full(gaps, float(fill)))


def test_labels_of_rows_that_cannot_be_pickled_do_not_matter():
    frame = pd.DataFrame({"x": [1.0, 2.0, 2.0]})
    odd = frame.set_axis(pd.Index([0, 1, lambda: 0], dtype=object))
    odd.attrs["note"] = lambda: 0
    assert streamed(odd) == streamed(frame) == ([1.0, 2.0, 2.0], [0, 1, 1])


def test_objects_of_polars_are_read_one_by_one():
    pl = pytest.importorskip("polars")
    for odd in (uuid.UUID(int=5), object(), None):
        frame = pl.DataFrame({"x": pl.Series([1.0, 2.0, 2.0, odd], dtype=pl.Object)})
        numbers, codes = streamed(frame)
        assert numbers[:3] == [1.0, 2.0, 2.0] and np.isnan(numbers[3]) and codes[:3] == [0, 1, 1]


@pytest.mark.parametrize("far", [3, 8_000_000])
def test_times_in_dictionaries_and_in_lists_raise_nothing(far):
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    days = pa.array([1, 2, far], pa.int32()).cast(pa.date32())
    numbers, codes = streamed(pa.table({"x": days.dictionary_encode()}))
    assert np.isnan(numbers).all() and codes == [0, 1, 2 if far == 3 else -1]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), days)
    assert streamed(pa.table({"x": lists}))[1] == [-1] * 3
    nested = pl.DataFrame({"x": pl.Series([[1], [2], [far]], dtype=pl.List(pl.Int32)).cast(pl.List(pl.Date))})
    assert streamed(nested)[1] == [-1] * 3


@pytest.mark.parametrize("far", [1, 2**40])
def test_a_category_that_is_a_time_far_out_refuses_its_column_alone(far):
    pa = pytest.importorskip("pyarrow")
    moments = pd.array(pa.array([1, 1, far]).cast(pa.timestamp("s")), pd.ArrowDtype(pa.timestamp("s")))
    series = pd.Series(moments).astype("category")
    assert describe_pandas("z", series.dtype).kind == ("factor" if far == 1 else "unusable")
    column = PandasColumn(series)
    assert numbered(column)[:2] == [0, 0] and column.codes((5,)).tolist() == [-1] * 3
    frame = pd.DataFrame({"x": np.arange(3.0), "z": series})
    assert open_source(frame).schema["x"].kind == "untyped"


def test_views_of_texts_have_rows():
    pa = pytest.importorskip("pyarrow")
    if not hasattr(pa, "string_view"):
        pytest.skip("string views are new in pyarrow 16")
    column = arrow_values(pa.chunked_array([pa.array(["a", "b", "a"]).cast(pa.string_view())]))
    assert numbered(column) == [0, 1, 0] and numbered(column.take(np.array([0, 2]))) == [0, 0]


@pytest.mark.parametrize("kind", [">i8", ">f8", ">M8[s]", ">u4"])
def test_the_order_of_bytes_does_not_matter(kind):
    values = np.array([3, 5, 3]).astype(kind)
    assert numbered(NumpyColumn(values)) == [0, 1, 0]
    assert numbered(NumpyColumn(np.ma.masked_array(values, [False, True, False]))) == [0, -1, 0]


def test_a_span_is_one_unit_in_a_column_of_its_own_and_beside_others():
    far = pd.Timedelta(np.timedelta64(999_999_999 * 86_400, "s"))
    spans = pd.Series([far, far, pd.Timedelta(np.timedelta64(5, "s"))])
    assert numbered(PandasColumn(spans)) == [0, 0, 1]
    mixed = pd.Series([*spans, "x"], dtype=object)
    assert numbered(PandasColumn(mixed)) == [0, 0, 1, 2]
    assert units._plain(datetime.timedelta(999_999_999)) == datetime.timedelta(999_999_999)


class Odd(type):
    """A class of classes that have no hash."""

    def __eq__(cls, other):
        return cls is other


class Unhashed(metaclass=Odd):
    pass


class Another:
    """A number where it is unpickled."""

    def __reduce__(self):
        return int, (5,)


@pytest.mark.parametrize("odd", [Unhashed(), Another()], ids=["unhashed", "another"])
def test_odd_classes_are_missing_in_memory_and_in_streams(odd):
    values = np.fromiter([1.0, "q", 1.0, odd], object, 4)
    assert numbered(NumpyColumn(values)) == [0, 1, 0, -1]
    numbers, codes = streamed(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    assert numbers[0] == 1.0 and np.isnan(numbers[3]) and codes == [0, 1, 0, -1]


@pytest.mark.parametrize("later", [{"Alice Smith": 3}, ["Alice Smith"], pd.Series(["Alice Smith"]), 7])
def test_a_later_frame_is_not_quoted(later):
    ledger = dpstats.Ledger(":memory:", eps=9, delta=1e-5)
    frame = pd.DataFrame({"x": np.arange(900.0) % 7})
    with pytest.raises(SchemaError) as raised:
        dpstats.mean("x ~ 1", iter([frame, later]), eps=1, delta=1e-6, ledger=ledger)
    assert "Alice" not in str(raised.value) and raised.value.__context__ is None
    assert ledger.remaining()[0] == pytest.approx(8)
