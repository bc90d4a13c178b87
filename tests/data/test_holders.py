"""What holds a column: one row more, or an odd one, does not change how the others are read, or whether."""

import datetime
import errno
import uuid
import warnings
from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.data import units
from dpstats.data.columns import NumpyColumn, arrow_values
from dpstats.data.pandas_column import PandasColumn, describe_pandas
from dpstats.data.polars_column import polars_values
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


@pytest.mark.parametrize("precise", [2, 8, 25])
def test_a_decimal_is_the_nearest_number_whatever_the_scale_of_its_column(precise):
    """One record with more decimals than the others gives all of them another scale."""
    pa = pytest.importorskip("pyarrow")
    prices = [Decimal(cents).scaleb(-2) for cents in range(3_000)]
    column = arrow_values(
        pa.chunked_array([pa.array([*prices, Decimal("0.1").quantize(Decimal(10) ** -precise)])])
    )
    assert column.numbers()[:-1].tolist() == [float(price) for price in prices]
    assert column.take(np.array([113])).numbers().tolist() == [1.13]
    pl = pytest.importorskip("polars")
    column = polars_values(pl.Series([*prices, Decimal("0.1").quantize(Decimal(10) ** -precise)]))
    assert column.numbers()[:-1].tolist() == [float(price) for price in prices]


@pytest.mark.parametrize("odd", [b"3", b"x", b"", uuid.UUID(int=5)], ids=repr)
def test_a_column_of_bytes_is_no_number(odd):
    pa = pytest.importorskip("pyarrow")
    if isinstance(odd, uuid.UUID) and not hasattr(pa, "uuid"):
        pytest.skip("identifiers are new in pyarrow 18")
    kind = pa.uuid() if isinstance(odd, uuid.UUID) else pa.binary()
    values = pa.array([odd.bytes if isinstance(odd, uuid.UUID) else odd, None])
    table = pa.table({"x": values.cast(pa.binary(16)).cast(kind) if kind != pa.binary() else values})
    numbers, codes = streamed(table)
    assert np.isnan(numbers).all() and codes == [0, -1]


@pytest.mark.parametrize("far", [3, 2**40])
def test_times_in_an_extension_are_missing(far):
    pa = pytest.importorskip("pyarrow")

    class Moments(pa.ExtensionType):
        def __init__(self):
            super().__init__(pa.timestamp("s"), "dpstats.test.moments")

        def __arrow_ext_serialize__(self):
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage, serialized):
            return cls()

    seconds = pa.array([1, 2, far]).cast(pa.timestamp("s"))
    column = arrow_values(pa.chunked_array([pa.ExtensionArray.from_storage(Moments(), seconds)]))
    assert column.codes((1, 2)).tolist() == [-1] * 3 and numbered(column) == [-1] * 3


@pytest.mark.parametrize("far", ["2026-01-01", "12026-01-01"])
def test_moments_of_a_zone_in_intervals_and_in_categories(far):
    moments = np.array(["2026-01-01", "2026-01-02", far], "M8[us]")
    when = pd.Series(moments).dt.tz_localize("UTC").dt.tz_convert("America/New_York")
    stay = pd.arrays.IntervalArray.from_arrays(when, when + pd.Timedelta("1D"))
    assert numbered(PandasColumn(pd.Series(stay))) == [-1] * 3
    numbers, codes = streamed(pd.DataFrame({"x": when.astype("category")}))
    assert np.isnan(numbers).all() and codes[:2] == [0, 1]
    whole = PandasColumn(pd.Series(pd.arrays.IntervalArray.from_breaks([0, 1, 2])))
    assert whole.codes((pd.Interval(0, 1), pd.Interval(1, 2))).tolist() == [0, 1]


@pytest.mark.parametrize("rows", [900, 6_000])
def test_dictionaries_of_views_have_rows_however_many_there_are(rows, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    if not hasattr(pa, "string_view"):
        pytest.skip("string views are new in pyarrow 16")
    monkeypatch.setattr(units, "_HELD", 1 << 12)
    for plain, view in ((pa.string(), pa.string_view()), (pa.binary(), pa.binary_view())):
        texts = pa.array(["a", "b"]).cast(plain).cast(view)
        chosen = pa.DictionaryArray.from_arrays(np.arange(2 * rows) % 2, texts)
        table = pa.table({"g": chosen, "id": np.arange(2 * rows) // 2})
        parts = units.UnitParts(open_source(iter([table])), ["g"], ["g"], "id", "0" * 16)
        levels = ("a", "b") if plain == pa.string() else (b"a", b"b")
        codes = np.concatenate([part._read("g", levels) for part in parts])
        parts.close()
        assert np.bincount(codes).tolist() == [rows, rows]


class Error(BaseException):
    """No error that programs expect."""


class Hash:
    def __hash__(self):
        raise Error


class Real(float):
    def __float__(self):
        raise Error


class Written:
    def __reduce__(self):
        raise Error


class Once:
    """A class whose objects can be pickled once."""

    left = 1

    def __reduce__(self):
        type(self).left -= 1
        if type(self).left < 0:
            raise Error
        return Once, ()


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("odd", [Hash(), Real(2), Written(), Once(), *map(nested, range(300, 500, 4))])
def test_what_a_record_raises_is_its_own(odd):
    Once.left = 1
    values = np.fromiter([1.0, "a", 1.0, odd], object, 4)
    assert NumpyColumn(values).codes(("a", "b")).tolist()[:3] == [-1, 0, -1]
    assert NumpyColumn(values).codes((1, "a")).tolist()[:3] == [0, 1, 0]
    numbers, codes = streamed(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    assert numbers[0] == numbers[2] == 1.0 and np.isnan([numbers[1], numbers[3]]).all()
    assert codes[:3] == [0, 1, 0]


class Equal:
    """A category that cannot be compared."""

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = object.__hash__


def test_a_category_of_a_later_frame_that_cannot_be_compared_is_none_of_the_levels():
    dtype = pd.CategoricalDtype(pd.Index([Equal(), "a"], dtype=object))
    column = PandasColumn(pd.Series(pd.Categorical.from_codes([1, 0, -1, 1], dtype=dtype)))
    assert column.codes(("b", "a")).tolist() == [1, -1, -1, 1]
    assert np.isnan(column.numbers()).all()


class Text(str):
    def __reduce__(self):
        raise Error


class Number(float):
    """A number that says it is a text."""

    def __eq__(self, other):
        return other == "a" if isinstance(other, str) else float.__eq__(self, other)

    def __hash__(self):
        return hash("a")


@pytest.mark.parametrize("odd", [None, [1]])
def test_a_record_without_a_hash_does_not_change_what_others_are(odd):
    values = np.fromiter([Number(1), Text("a"), odd], object, 3)
    assert NumpyColumn(values).codes(("a", "b")).tolist() == [-1, 0, -1]


def test_texts_that_cannot_be_pickled():
    series = pd.Series(pd.array(["a", Text("b")], pd.StringDtype("python")))
    assert streamed(pd.DataFrame({"x": series}))[1] == [0, -1]


class Changing(datetime.tzinfo):
    """A zone that says something else each time it is asked."""

    asked = 0

    def utcoffset(self, moment):
        Changing.asked += 1
        return datetime.timedelta(minutes=Changing.asked)


@pytest.mark.parametrize("more", [0, 1])
def test_times_of_day_in_a_zone_of_ones_own_are_no_units(more):
    noon = datetime.time(12, 0)
    own, fixed = noon.replace(tzinfo=Changing()), noon.replace(tzinfo=datetime.UTC)
    values = np.fromiter([*[None] * more, noon, own, fixed, noon, fixed], object)
    assert numbered(NumpyColumn(values))[more:] == [0, -1, 1, 0, 1]


def test_long_complex_numbers_are_no_units():
    """Python has none, and would round them."""
    assert numbered(NumpyColumn(np.array([1, 2j, 1], np.clongdouble))) == [-1, -1, -1]


@pytest.mark.parametrize("kind", [OSError, ImportError, SchemaError])
@pytest.mark.parametrize("holder", ["reader", "reader in an iterator", "lazy"])
def test_errors_of_what_makes_rows_are_not_quoted(kind, holder):
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    error = OSError(errno.EIO, "Alice Smith") if kind is OSError else kind("Alice Smith")

    def batches():
        yield pa.record_batch({"x": np.arange(5.0)})
        raise error

    def fails(frame):
        raise error

    reader = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.float64()}), batches())
    data = {
        "reader": lambda: reader,
        "reader in an iterator": lambda: iter([pa.table({"x": np.arange(5.0)}), reader]),
        "lazy": lambda: pl.DataFrame({"x": [1.0]}).lazy().map_batches(fails, schema={"x": pl.Float64}),
    }[holder]()
    with pytest.raises(SchemaError) as caught:
        list(open_source(data).batches(["x"]))
    assert "Alice" not in str(caught.value) and caught.value.__context__ is None


def test_warnings_of_a_unit_are_not_heard(monkeypatch):
    """Neither where units are told apart nor where their rows are written."""
    monkeypatch.setattr(units, "_HELD", 1 << 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        odd = pd.Period("2020-01-01", "B")
    ids = pd.Series(np.fromiter([*range(200), odd], object, 201), dtype=object)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        source = open_source(iter([pd.DataFrame({"id": ids, "x": np.arange(201.0)})]))
        parts = units.UnitParts(source, ["x"], [], "id", "0" * 16)
        assert sum(parts.sizes()) == 201
        parts.close()
    assert not heard


def test_columns_of_arrow_in_pandas_are_written_whatever_their_type():
    pa = pytest.importorskip("pyarrow")
    views = [kind() for name in ("string_view", "binary_view") if (kind := getattr(pa, name, None))]
    for kind in [pa.large_string(), *views]:
        values = pa.array([b"a" if "binary" in str(kind) else "a"] * 2).cast(kind)
        frame = pd.DataFrame({"x": pd.Series(pd.array(values, dtype=pd.ArrowDtype(kind)))})
        assert streamed(frame)[1] == [0, 0]


def test_dictionaries_of_lists_hold_nothing():
    pa = pytest.importorskip("pyarrow")
    lists = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([[1, 2]]))
    column = arrow_values(pa.chunked_array([lists]))
    assert np.isnan(column.numbers()).all() and numbered(column) == [-1, -1]


def test_a_repeated_name_in_an_iterator_refuses_its_column_alone():
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", "x"])
    assert streamed(frame)[0] == [3.0]
    with pytest.raises(SchemaError, match="more than once"):
        dpstats.mean("a ~ 1", iter([frame]), eps=1)


class Lazy:
    """A lazy frame of a library for which narwhals has a way in of its own."""

    def __init__(self, frame):
        self.frame = frame

    def __narwhals_lazyframe__(self):
        return nw.from_native(self.frame)._compliant_frame


def any_library(path):
    return Lazy(pytest.importorskip("polars").scan_csv(path))


def ibis(path):
    return pytest.importorskip("ibis").duckdb.connect().read_csv(path)


@pytest.mark.parametrize("last", ["1", "x"])
@pytest.mark.parametrize("made", [any_library, ibis])
def test_lazy_frames_of_engines_without_a_check_are_refused(made, last, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y\n" + "1\n" * 9 + last)
    with pytest.raises(SchemaError, match=r"^lazy frames of \w+ cannot be used.*to_pyarrow\(\)"):
        open_source(made(path))


@pytest.mark.parametrize("code", [ord("a"), 0x110000, 0xFFFFFFFF])
@pytest.mark.parametrize("kind", ["U1", "U3", ">U3"])
def test_a_text_of_numpy_with_a_code_that_python_has_not_is_missing(kind, code):
    texts = np.array(["a", "b", "\udc80", "2"] * 250, dtype=kind)
    texts.view(texts.dtype.str[0] + "u4")[0] = code
    lost = code > 0x10FFFF
    for array in (texts, texts[::-1][::-1], np.ma.array(texts), np.rec.fromarrays([texts])["f0"]):
        (batch,) = open_source({"x": array}).batches(["x"])
        assert batch.codes("x", ("a", "b")).tolist() == [-1 if lost else 0, *np.resize([1, -1, -1, 0], 999)]
        assert batch.numbers("x").tolist()[3::4] == [2.0] * 250
        first, *others = numbered(batch.columns["x"])
        assert (first == -1) == lost
        assert others[3:] == np.resize([first if not lost else others[3], *others[:3]], 996).tolist()
    data = {"g": texts, "y": np.arange(1_000.0)}
    assert dpstats.median("y ~ 1", data, eps=2, by="g", levels={"g": ["a", "b"]}).failed == {}


def test_texts_of_numpy_without_letters():
    last = chr(0x10FFFF)
    assert NumpyColumn(np.array(["a", last])).codes(("a", last)).tolist() == [0, 1]
    for array in (np.zeros(3, [("x", "U0")])["x"], np.array(["", "", ""]), np.zeros(0, "U2")):
        assert NumpyColumn(array).codes(("",)).tolist() == [0] * len(array)
