"""One record never changes how another is read.

Every source is made twice, with an ordinary row and with an odd one in its place. What is public about the
columns must be the same, and so must every other row, in every part that a column can play in a formula:
nothing is raised and nothing is said. (What a library does when a frame is made is not looked at: a value
that a typed column cannot hold is null.)
"""

import datetime
import functools
import gzip
import itertools
import json
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

import dpstats
import dpstats.data.sources
from dpstats import bridge as _bridge
from dpstats.data import columns as _columns
from dpstats.data import values as _values
from dpstats.data.batches import Source
from dpstats.data.groups import GroupedRows, group_levels
from dpstats.data.guessed import check_duckdb
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.errors import DpstatsError, SchemaError
from dpstats.formula.design import Design

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.filterwarnings("error")

N, ODD = 11, 6
BIG = 2**53
COLUMNS = {
    "n": list(range(N)),
    "y": [0.5 * row for row in range(N)],
    "x": [1.5, 0.0, -0.0, -2.0, 3.0, 0.1, 2.0, -0.0, 7.0, 1e300, 0.0],
    "i": [1, 0, 2, 3, 0, 5, 4, 1, 0, 2, 3],
    "k": [BIG, BIG + 1, BIG + 2, BIG, BIG + 1, 2**62 + 1, BIG, BIG + 1, 2**62, BIG, BIG + 1],
    "g": ["a", "b", "c", "a", "zz", "b", "a", "c", "1", "NA", "b"],
    "b": [True, False, True, True, False, False, True, True, False, False, True],
}
# Where NumPy or pandas may make floats of integers, these must be small: the digits are lost before we see
# them.
SMALL = COLUMNS | {"k": [value % 1000 for value in COLUMNS["k"]]}
KEYS = {
    id(columns): [columns["k"][row] for row in (0, 1, 5, 8)] for columns in (COLUMNS, SMALL)
}  # fmt: skip

ODDITIES = [
    None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), "", " ", "NA", "nan", "None", "-0", "-0.0", -0.0,
    0, 1.5, "0x10", "0b1", "1e400", "1e-400", "1_000", BIG + 1, 2**62 + 1, 2**63, 2**64, 2**70, -(2**63),
    -(2**70), 10**400, str(BIG + 1), str(2**70), "9" * 5000, Decimal("NaN"), Decimal("sNaN"), Decimal("1.1"),
    Decimal("1e400"), Decimal(3), Decimal("1e5000"), Fraction(1, 3), Fraction(10**400, 3), True, False,
    np.True_, "True", "TRUE", "tRUE", "false", "yes", b"a", b"1", b"\xff\xfe", "\ud800", "\udcff",
    "very long " * 1000, 'quo"te', "it's", "two\nlines", "carriage\rreturn", "null\x00byte", "comma,comma",
    "semi;colon", "tab\t", "#comment", "\ufeff", "inf", "-inf", float("inf"), "Infinity", "nan(123)",
    datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), pd.Timestamp(0),
    pd.Timedelta(1), np.timedelta64(1, "D"), pd.Period("2020"), pd.Interval(0, 1), "2020-01-01", 1j, 1 + 0j,
    np.complex64(2), [1], [], {"a": 1}, {1}, (1, 2), np.zeros(2), np.array(3), 5e-324, 1e308, "5e-324",
    "\uff11\uff12", "1,5", " 12 ", "+3", ".5", "5.", "1d5", "1e5", "1%", "$1", "a ", "A", "ä", "a\u0308",
    np.float16(0.1), np.float32(0.1), np.longdouble("0.1"), np.int8(3), np.uint64(2**63), np.str_("a"),
    object(), print, Ellipsis, "\x1a", "--", "0" * 400,
]  # fmt: skip


def test_there_are_more_than_sixty_oddities():
    assert len(ODDITIES) > 60


class Rude:
    """A value whose every method raises."""

    def _raise(self, *args):
        raise RuntimeError

    __eq__ = __float__ = __int__ = __str__ = __repr__ = __bool__ = _raise
    __hash__ = None


# ---- sources: functions of the columns (dict of lists) and a new folder ----


class Unmade(Exception):
    """A library does not make a frame with this value."""


def typed(make, dtypes):
    """A function that makes typed columns, in which what the type does not hold is null."""

    def column(name, values):
        # (Of other classes polars panics, and pyarrow computes for hours.)
        if type(values[ODD]) in (type(None), bool, int, float, str):
            try:
                return make(values, dtypes[name]), True
            except Exception:
                pass
        return make([*values[:ODD], None, *values[ODD + 1 :]], dtypes[name]), False

    def columns_of(columns):
        made = {name: column(name, values) for name, values in columns.items()}
        if not any(held for name, (_, held) in made.items() if name not in ("n", "y")):
            raise Unmade  # as with None
        return {name: values for name, (values, _) in made.items()}

    return columns_of


def by_name(number, integer, text, truth):
    kinds = {"n": integer, "y": number, "x": number, "i": integer, "k": integer, "g": text, "b": truth}
    return kinds | {"u": text}


arrow = typed(pa.array, by_name(pa.float64(), pa.int64(), pa.string(), pa.bool_()))
arrow_encoded = typed(
    lambda v, t: pa.array(v, t).dictionary_encode() if t == pa.string() else pa.array(v, t),
    by_name(pa.float64(), pa.int64(), pa.string(), pa.bool_()),
)
polars = typed(
    lambda v, t: pl.Series(v, dtype=t, strict=True), by_name(pl.Float64, pl.Int64, pl.String, pl.Boolean)
)
nullable = typed(
    lambda v, t: pd.array(v, dtype=t), by_name("Float64", "Int64", pd.StringDtype("python"), "boolean")
)
on_arrow = typed(
    lambda v, t: pd.array(v, dtype=pd.ArrowDtype(t)),
    by_name(pa.float64(), pa.int64(), pa.string(), pa.bool_()),
)


def objects(values):
    return np.fromiter(values, dtype=object, count=len(values))


def arrays(columns):
    if any(isinstance(v[ODD], bytes | np.timedelta64) for v in columns.values()):
        raise Unmade  # NumPy makes bytes, or times, of all values
    return {name: np.array(values) for name, values in columns.items()}


def masked(columns):
    """Arrays in which the odd value is masked, and something else is in its place."""
    mask = np.arange(N) == ODD
    ordinary = {name: [*v[:ODD], v[0], *v[ODD + 1 :]] for name, v in columns.items()}
    return {name: np.ma.array(values, mask=mask) for name, values in ordinary.items()}


def structured(columns):
    records = np.empty(N, dtype=[(name, object) for name in columns])
    for name, values in columns.items():
        records[name] = objects(values)
    return records


def categorical(columns):
    dtype = pd.CategoricalDtype([*dict.fromkeys(COLUMNS["g"])])
    return pd.DataFrame(columns | {"g": pd.Series(objects(columns["g"])).astype(dtype)})


def field(value):
    raw = value if isinstance(value, bytes) else _text(value).encode("utf-8", "surrogatepass")
    return b'"' + raw.replace(b'"', b'""') + b'"'


def _text(value):
    if type(value) is int and value == 0:
        return "-0"  # a whole number without a sign, unless another row makes floats of the column
    return "" if value is None else str(value)


def csv(columns, path, rows=slice(None)):
    lines = [",".join(columns).encode()]
    lines += [b",".join(map(field, record)) for record in list(zip(*columns.values(), strict=True))[rows]]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def csv_folder(columns, folder):
    csv(columns, folder / "1.csv", slice(0, 4))
    return csv(columns, folder / "2.csv", slice(4, None)).parent


def parquet(columns, folder):
    pq.write_table(pa.table(arrow(columns)), folder / "a.parquet", row_group_size=4)
    return folder / "a.parquet"


def parquet_parts(columns, folder):
    """A part without the odd row, and one with it, whose types come from its values."""
    for part, rows in enumerate((slice(0, 4), slice(4, None))):
        table = pa.table(arrow(columns)).slice(rows.start, N if rows.stop is None else 4)
        if part and table.column("i").null_count:
            i = table.schema.get_field_index("i")
            table = table.set_column(i, "i", table.column("i").cast(pa.float64()))
        pq.write_table(table, folder / f"{part}.parquet")
    return folder


def feather(columns, folder):
    from pyarrow.feather import write_feather

    write_feather(pa.table(arrow(columns)), folder / "a.feather")
    return folder / "a.feather"


def reader(columns):
    table = pa.table(arrow(columns))
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(4))


def duckdb_table(columns):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("rows_of_arrow", pa.table(arrow(columns)))
    connection.execute("create table stored as select * from rows_of_arrow")
    return connection.table("stored")


def dask_frame(columns):
    return pytest.importorskip("dask.dataframe").from_pandas(pd.DataFrame(columns), npartitions=2, sort=False)


def from_r(columns):
    """The columns of an R data frame as they cross the border: doubles, codes, and truth values with NA."""
    frame = nullable(columns)
    numbers = {
        name: {"kind": "number", "values": frame[name].to_numpy(np.float64, na_value=np.nan).tobytes()}
        for name in ("n", "y", "x", "i", "k")
    }
    codes = pd.Categorical(frame["g"], ["a", "b", "c", "1"]).codes.astype(np.int32) + 1
    truths = (frame["b"].to_numpy(float, na_value=-1) + 1).astype(np.int32)
    return _bridge.received(
        numbers
        | {"g": {"kind": "factor", "values": codes.tobytes(), "levels": ["a", "b", "c", "1"]}}
        | {"b": {"kind": "truth", "values": truths.tobytes()}}
        | {"u": numbers["x"]}
    )


MEMORY = {
    "pandas": (pd.DataFrame, SMALL),
    "pandas objects": (lambda c: pd.DataFrame({k: pd.Series(objects(v)) for k, v in c.items()}), COLUMNS),
    "pandas category": (categorical, SMALL),
    "pandas nullable": (lambda c: pd.DataFrame(nullable(c)), COLUMNS),
    "pandas on arrow": (lambda c: pd.DataFrame(on_arrow(c)), COLUMNS),
    "dict of lists": (dict, COLUMNS),
    "dict of tuples": (lambda c: {k: tuple(v) for k, v in c.items()}, COLUMNS),
    "dict of arrays": (arrays, SMALL),
    "dict of object arrays": (lambda c: {k: objects(v) for k, v in c.items()}, COLUMNS),
    "dict of masked arrays": (masked, COLUMNS),
    "dict of series": (lambda c: {k: pd.Series(v) for k, v in c.items()}, SMALL),
    "dict of nullable arrays": (nullable, COLUMNS),
    "dict of arrow": (arrow, COLUMNS),
    "dict of polars": (polars, COLUMNS),
    "dict of polars objects": (lambda c: {k: pl.Series(v, dtype=pl.Object) for k, v in c.items()}, COLUMNS),
    "structured array": (structured, COLUMNS),
    "arrow table": (lambda c: pa.table(arrow(c)), COLUMNS),
    "arrow dictionaries": (lambda c: pa.table(arrow_encoded(c)), COLUMNS),
    "arrow chunks": (
        lambda c: pa.concat_tables(pa.table(arrow(c)).slice(a, 4) for a in range(0, N, 4)),
        COLUMNS,
    ),
    "arrow batch": (lambda c: pa.table(arrow(c)).to_batches()[0], COLUMNS),
    "arrow reader": (reader, COLUMNS),
    "arrow dataset in memory": (lambda c: ds.dataset(pa.table(arrow(c))), COLUMNS),
    "polars": (lambda c: pl.DataFrame(polars(c)), COLUMNS),
    "polars lazy": (lambda c: pl.DataFrame(polars(c)).lazy(), COLUMNS),
    "duckdb": (duckdb_table, COLUMNS),
    "R": (from_r, SMALL),
}
FILES = {
    "csv": (lambda c, d: csv(c, d / "a.csv"), COLUMNS),
    "csv folder": (csv_folder, COLUMNS),
    "parquet": (parquet, COLUMNS),
    "parquet folder": (parquet_parts, SMALL),
    "parquet dataset": (lambda c, d: ds.dataset(parquet(c, d)), COLUMNS),
    "polars scan": (lambda c, d: pl.scan_parquet(parquet(c, d)), COLUMNS),
    "feather": (feather, COLUMNS),
}
SOURCES = {name: (lambda c, d, make=make: make(c), base) for name, (make, base) in MEMORY.items()} | FILES


def made(source, value, tmp_path):
    """The source with the value in row ODD of every column but n and y; in column u, it is the only one."""
    make, base = SOURCES[source]
    columns = {
        name: values if name in ("n", "y") else [*values[:ODD], value, *values[ODD + 1 :]]
        for name, values in base.items()
    }
    columns["u"] = [*[None] * ODD, value, *[None] * (N - ODD - 1)]
    if value is base:
        columns = base | {"u": [None] * N}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return make(columns, tmp_path)
        except Exception as error:
            raise Unmade from error


# ---- what the analyst sees of a source ----


@functools.cache
def parts_of(source_name):
    """By part that a column can play: a formula, levels and bounds."""
    keys = KEYS[id(SOURCES[source_name][1])]
    written = "C(g, levels=['b', 'zz']) + C(i, levels=[0, 1.0, 2]) + C(b, levels=[False, True])"
    return {
        "number": ("y ~ n + x + i + np.exp(1/x) + I(1/i) - 1", {}, {}),
        "bounded number": ("y ~ n + x + i - 1", {}, {"x": (-1, 2), "i": (1, 4)}),
        "response": ("x + i + b ~ n - 1", {}, {}),
        "level": ("y ~ n + g + k - 1", {"g": ["a", "b", "NA"], "k": keys}, {}),
        "written level": (f"y ~ n + {written} - 1", {}, {}),
        "truth value": ("y ~ n + b + I(~b) + I(b & (i > 1)) - 1", {}, {}),
        "group": ("y ~ n - 1", {"k": keys, "g": ["a", "b"]}, {}),
    }


@functools.cache
def design_of(formula, schema):
    return Design.from_formula(formula, schema)


def opened(data):
    """The source that it is, or that of the data."""
    return data if isinstance(data, Source) else open_source(data)


def looked_at(data, formula, levels, bounds):
    """The pickle of the design, or the error, and the rows but the odd one by number."""
    source = opened(data)
    try:
        schema = Schema.of(source, levels=levels, bounds=bounds)
        design = design_of(formula, schema)
    except DpstatsError as error:
        return str(error), None
    X, Y = (np.concatenate(parts) for parts in zip(*design.blocks(source), strict=True))
    others = X[:, design.column_names.index("n")] != ODD
    # (bytes: 0 and -0 are equal)
    return pickle.dumps(design), X[others].tobytes(), Y[others].tobytes()


def everything(source_name, value, tmp_path):
    """By part: what is seen of a source."""
    data = made(source_name, value, tmp_path)
    if source_name == "arrow reader":  # can be read once
        table = data.read_all()
        sources = (pa.RecordBatchReader.from_batches(table.schema, table.to_batches(4)) for _ in iter(int, 1))
    else:  # files are read anew at each pass; of a column in memory its form may be kept
        sources = itertools.repeat(open_source(data) if isinstance(data, Path) else data)
    found = {
        part: (groups if part == "group" else looked_at)(next(sources), *options)
        for part, options in parts_of(source_name).items()
    }
    found["number of rows"] = sum(batch.rows for batch in opened(next(sources)).batches(()))
    return found


def groups(data, formula, levels, bounds):
    """The rows of each group by k, and by g, without the odd one."""
    source = opened(data)
    schema = Schema.of(source, levels=levels, bounds=bounds)
    design = design_of(formula, schema)
    found = []
    for by in ("k", "g"):
        if isinstance(data, pa.RecordBatchReader) and by == "g":
            continue
        made = GroupedRows(source, schema.names, design.coded, by, group_levels(by, schema))
        for i in range(len(schema[by].levels)):
            found += [X[:, 0][X[:, 0] != ODD].tolist() for X, _ in design.blocks(made.group(i))]
    return found


def differences(source_name, tmp_path, oddities):
    """The oddities that are seen in another row than their own, or in an error, and in which part."""
    make, base = SOURCES[source_name]
    expected = everything(source_name, base, tmp_path)
    assert expected["number of rows"] == N and sum(map(len, expected["group"])) > 5
    seen, compared = [], 0
    for position, value in enumerate(oddities):
        try:
            found = everything(source_name, value, tmp_path)
        except Unmade:
            continue
        except DpstatsError as error:
            found = dict.fromkeys(expected, str(error))
        compared += 1
        seen += [(position, part) for part in expected if found[part] != expected[part]]
    assert compared
    return seen


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(dpstats.data.sources, "BATCH_ROWS", 4)


# Columns of these are read as those of a source that has every record: of five that source has, each of these
# takes another one, and null.
ALIKE = (
    ("arrow batch", "arrow chunks", "arrow reader", "arrow dataset in memory"),  # arrow table
    ("dict of arrow", "parquet", "parquet dataset", "parquet folder", "feather", "duckdb"),
    ("polars lazy", "dict of polars", "polars scan"),  # polars
    ("dict of tuples",),  # dict of lists
    ("csv folder",),  # csv
)  # fmt: skip
SOME = {source: [None, *ODDITIES[1 + i :: 5]] for alike in ALIKE for i, source in enumerate(alike)}
UNTYPED = ("pandas", "pandas objects", "dict of lists", "dict of object arrays", "structured array")


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_an_odd_record_changes_no_other(source, tmp_path, small_batches):
    oddities = SOME.get(source, ODDITIES)
    if source == "dict of masked arrays":  # whose odd value is behind the mask
        oddities = oddities[:1]
    if source.startswith("csv"):  # of those that are the same text, one
        oddities = {field(value): value for value in oddities}.values()
    assert differences(source, tmp_path, [*oddities, Rude()] if source in UNTYPED else oddities) == []


@pytest.mark.slow
@pytest.mark.parametrize("source", ["dask", "dask parquet"])
def test_an_odd_record_changes_no_other_in_dask(source, tmp_path, monkeypatch):
    dask = pytest.importorskip("dask.dataframe")
    read = lambda c, d: dask.read_parquet(parquet(c, d))  # noqa: E731
    make = (lambda c, d: dask_frame(c)) if source == "dask" else read
    monkeypatch.setitem(SOURCES, source, (make, SMALL))
    assert differences(source, tmp_path, [None, "x", 2**70]) == []


# ---- what the check would catch ----


def guessed_type(name, values):
    kind = np.array(values.tolist()).dtype.kind
    return dpstats.data.schema.Column(
        name, {"b": "truth", "i": "number", "f": "number"}.get(kind, "text"), ""
    )


BROKEN = {
    "floats of whole numbers beside a null": (
        "dict of arrow",
        _columns.ArrowColumn,
        "_plain",
        lambda self: _columns.NumpyColumn(self._column.to_numpy()),
    ),
    "the sign of zero": ("csv", np, "add", lambda values, zero, out, dtype: np.copyto(out, values) or out),
    "a type of the values": ("dict of lists", dpstats.data.sources, "describe_numpy", guessed_type),
    "an error": ("dict of lists", _columns, "parse_numbers", lambda values: np.array(values, float)),
    "levels by text": (
        "pandas",
        _columns.NumpyColumn,
        "codes",
        lambda self, levels: pd.Index([str(v) for v in levels]).get_indexer([str(v) for v in self._values]),
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.slow
def test_the_check_catches(broken, tmp_path, monkeypatch):
    source, *patch = BROKEN[broken]
    monkeypatch.setattr(*patch)
    if broken == "levels by text":  # which go wrong for truth values without any odd record
        monkeypatch.setattr(__name__ + ".parts_of", lambda source: WHOLE_NUMBERS)
    assert differences(source, tmp_path, [None, "x", 1.5])


WHOLE_NUMBERS = {
    "level": ("y ~ n + C(i, levels=[0, 1, 2]) - 1", {}, {}),
    "group": ("y ~ n - 1", {"k": [1, 2, 3, 992, 993, 904], "g": ["a", "b"]}, {}),
}


# ---- sources that are refused whatever they hold ----


def guessed_sources(folder):
    """Frames over CSV files, whose types their libraries guess."""
    import dask.dataframe
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"create view seen as select * from read_csv('{folder / 'a.csv'}')")
    yield pl.scan_csv(folder / "a.csv")
    yield pl.scan_csv(folder / "a.csv").select("n", "y", "x")
    yield connection.read_csv(str(folder / "a.csv"))
    yield connection.sql("select n, y, x from seen")
    yield connection.from_df(pd.DataFrame({"x": [1.0]}))
    yield connection.from_arrow(pa.table({"x": [1.0]}))
    yield nw.from_native(pl.scan_csv(folder / "a.csv"))
    yield nw.scan_csv(str(folder / "a.csv"), backend="polars")
    yield pl.scan_pyarrow_dataset(ds.dataset(folder / "a.csv", format="csv"))
    yield dask.dataframe.read_csv(folder / "a.csv")[["n", "y", "x"]]
    yield ds.dataset(folder / "a.csv", format="csv")
    yield ds.dataset([ds.dataset(folder / "a.csv", format="csv")])


@pytest.mark.slow
@pytest.mark.parametrize("value", [1.5, None, "x", -0.0, 2**70])
def test_frames_over_csv_files_are_refused(value, tmp_path):
    pytest.importorskip("dask.dataframe")
    pytest.importorskip("duckdb")
    columns = {name: [*SMALL[name][:ODD], value, *SMALL[name][ODD + 1 :]] for name in "nyx"}
    csv(columns, tmp_path / "a.csv")
    for data in guessed_sources(tmp_path):
        with pytest.raises(SchemaError, match="give the path of the CSV files or the frame itself"):
            open_source(data)


def planned(leaf):
    """A relation of duckdb that reads by an operator, of an extension say."""
    plan = [{"name": "PROJECTION", "children": [{"name": f"{leaf} ", "children": []}]}]
    return SimpleNamespace(explain=lambda format: json.dumps(plan) * 3)


@pytest.mark.parametrize("leaf", ["SQLITE_SCAN", "READ_XLSX", "ST_READ", "POSTGRES_QUERY", "PANDAS_SCAN"])
def test_relations_of_duckdb_read_its_tables_and_files_with_types_alone(leaf):
    """SQLite and Excel have a type for each value: duckdb stops at one that is not of its column's."""
    check_duckdb(planned("SEQ_SCAN"))
    with pytest.raises(SchemaError, match="SQLite file or a frame of another library"):
        check_duckdb(planned(leaf))


def test_relations_of_a_duckdb_that_does_not_say_what_it_reads_are_refused():
    """Before 2.0 its plan is a drawing, and in a notebook none."""
    old = SimpleNamespace(explain=lambda type="standard": "")
    with pytest.raises(SchemaError, match="before 2.0"):
        check_duckdb(old)


@pytest.mark.parametrize("last", ["true", "tRuE", "x", "", "1", "1.5"])
def test_truth_values_of_any_case_are_read_alike_whatever_a_batch_holds(last, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n" + "tRUE\nfAlSe\n" * 50 + f"{last}\n")
    (batch,) = open_source(path).batches(["x"])
    assert np.array_equal(batch.numbers("x")[:100], np.tile([1.0, 0.0], 50))


def test_long_doubles_are_read_as_doubles():
    value = np.longdouble(2**63) + 1
    for values in (np.array([value, value]), np.array([value, None], dtype=object)):
        (batch,) = open_source({"x": values}).batches(["x"])
        assert [batch.codes("x", (level,))[0] for level in (2**63, 2**63 + 1)] == [0, -1]


@pytest.mark.parametrize("value", ["0.1", "1e4000", "-1e4000", "1e-4000"])
def test_long_doubles_are_the_numbers_that_they_are_beside_a_text(value):
    """Which makes Python's objects of all."""
    read = []
    for values in (np.array([np.longdouble(value)]), np.array([np.longdouble(value), "x"], dtype=object)):
        (batch,) = open_source({"x": values}).batches(["x"])
        read.append(batch.numbers("x"))
    assert read[0].dtype == np.float64 and read[0][0] == read[1][0]


@pytest.mark.parametrize("error", [GeneratorExit, SystemExit, StopIteration])
def test_a_value_whose_methods_raise_what_leaves_a_program_is_missing(error):
    class Value(float):
        def __float__(self):
            raise error

        def __hash__(self):
            raise error

    (batch,) = open_source({"x": np.array([1.0, Value(2.0), "a"], dtype=object)}).batches(["x"])
    assert np.array_equal(batch.numbers("x"), [1.0, np.nan, np.nan], equal_nan=True)
    assert batch.codes("x", ("a", 1)).tolist() == [1, -1, 0]


def test_a_panic_of_a_library_is_an_error_without_its_text(monkeypatch):
    monkeypatch.delenv("DPSTATS_DEBUG", raising=False)

    class Panic(BaseException):
        pass

    class Column(list):
        def __iter__(self):
            raise Panic("SENTINEL")

    with pytest.raises(dpstats.DpstatsError) as raised:
        dpstats.mean("y ~ 1", {"y": Column([1.0] * 9)}, eps=1)
    assert "SENTINEL" not in str(raised.value)


@pytest.mark.parametrize("name", ["g", "o'k", "a[b", "a b", "a%20b", "é"])
@pytest.mark.parametrize("scan", [pl.scan_parquet, pl.scan_ipc])
def test_folders_of_any_name_are_seen_before_casts(name, scan, tmp_path):
    """Whether a cast is strict may depend on the types that are guessed."""
    for code in (100, 101):
        folder = tmp_path / f"{name}={code}"
        folder.mkdir()
        write = pl.DataFrame.write_parquet if scan is pl.scan_parquet else pl.DataFrame.write_ipc
        write(pl.DataFrame({"y": ["1"]}), folder / "a.file")
    frame = scan(tmp_path, hive_partitioning=True)
    for data in (frame, frame.with_columns(pl.col("y").cast(pl.Float64))):
        with pytest.raises(SchemaError, match="is made from the names of folders"):
            open_source(data)


def test_strict_casts_are_refused():
    frame = pl.DataFrame({"y": [1.0], "x": ["1"]}).lazy()
    with pytest.raises(SchemaError, match="strict=False"):
        open_source(frame.with_columns(pl.col("x").cast(pl.Float64)))
    assert (
        open_source(frame.with_columns(pl.col("x").cast(pl.Float64, strict=False))).schema["x"].kind
        == "number"
    )


def by_folders(folder, more):
    """Ten rows in folders that are named after their codes, which are whole numbers, and one more."""
    codes = [str(100 + i % 3) for i in range(10)] + more
    pq.write_to_dataset(
        pa.table({"y": np.arange(len(codes)) / 1.0, "g": codes}), folder, partition_cols=["g"]
    )
    return folder


BY_FOLDERS = {
    "dataset": lambda folder: ds.dataset(folder, partitioning="hive"),
    "datasets": lambda folder: ds.dataset([ds.dataset(folder, partitioning="hive")]),
    "polars": lambda folder: pl.scan_parquet(folder),
    "polars, renamed": lambda folder: pl.scan_parquet(folder).select("y", h=pl.col("g")),
    "dask": lambda folder: pytest.importorskip("dask.dataframe").read_parquet(folder),
    "dask, renamed": lambda folder: BY_FOLDERS["dask"](folder).rename(columns={"g": "h"})[["y", "h"]],
    "dask and arrow": lambda folder: pytest.importorskip("dask.dataframe").read_parquet(
        folder, filesystem="arrow"
    ),
    "duckdb": lambda folder: pytest.importorskip("duckdb").sql(f"from read_parquet('{folder}/**/*.parquet')"),
    "duckdb, quoted": lambda folder: pytest.importorskip("duckdb").sql(
        f'select * from "{folder}/*/*.parquet"'
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["E10"], ["3000000000"]], ids=str)
@pytest.mark.parametrize("made", BY_FOLDERS)
def test_columns_made_from_the_names_of_folders_are_refused(made, more, tmp_path):
    """Their types are guessed from all names: one record makes texts of numbers, or of no levels some."""
    data = BY_FOLDERS[made](by_folders(tmp_path, more))
    with pytest.raises(SchemaError, match="column 'g' is made from the names of folders"):
        open_source(data)


@pytest.mark.slow
def test_folders_whose_names_are_no_columns_are_read(tmp_path):
    folder = by_folders(tmp_path / "a=1", ["E10"])
    duckdb, dask = pytest.importorskip("duckdb"), pytest.importorskip("dask.dataframe")
    for data in (
        folder.parent / "a=1/*/*.parquet",
        ds.dataset(folder, partitioning=None),
        pl.scan_parquet(folder, hive_partitioning=False),
        pl.scan_parquet(folder).select("y"),
        dask.read_parquet(folder, dataset={"partitioning": None}),
        duckdb.read_parquet(f"{folder}/**/*.parquet"),
        duckdb.sql(f"from read_parquet('{folder}/**/*.parquet', hive_partitioning=false)"),
    ):
        assert [column.name for column in open_source(data).schema] == ["y"]
    texts = duckdb.sql(f"from read_parquet('{folder}/**/*.parquet', hive_types_autocast = false)")
    assert open_source(texts).schema["g"].kind == "text"


@pytest.mark.slow
def test_steps_of_dask_that_fail_at_a_value_are_refused():
    frame = dask_frame({"y": [1.0, 2.0], "x": [1.0, np.nan]})
    with pytest.raises(SchemaError, match="to_numeric"):
        open_source(frame.astype({"x": "int64"}))


def test_a_dataset_whose_files_do_not_have_its_types_is_refused(tmp_path):
    pq.write_table(pa.table({"y": [1.0], "x": [1], "g": ["a"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"y": [1.0], "x": [1.0], "g": ["a"]}), tmp_path / "2.parquet")
    with pytest.raises(SchemaError, match="'x' of the dataset is int64"):
        open_source(ds.dataset(tmp_path))
    assert [column.kind for column in open_source(tmp_path).schema] == ["number", "number", "text"]
    (tmp_path / "2.parquet").unlink()
    encoded = pa.table({"y": [1.0], "x": pa.nulls(1), "g": pa.array(["a"]).dictionary_encode()})
    pq.write_table(encoded, tmp_path / "2.parquet")
    assert len(open_source(ds.dataset(tmp_path)).schema) == 3


# ---- texts that are not Unicode ----


def invalid(dtype):
    """A pyarrow array of the texts a, one that is not UTF-8, and b."""
    ends = pa.py_buffer(np.array([0, 1, 2, 3], np.int32).tobytes())
    return pa.StringArray.from_buffers(3, ends, pa.py_buffer(b"a\xffb")).cast(dtype)


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary", "parquet", "parquet dictionary"])
@pytest.mark.parametrize("levels", [["a", "b"], ["b", "a", "\ud800", "\udcff", "\ufffd"]])
def test_texts_that_are_not_utf8_are_no_level(kind, levels, tmp_path):
    texts = invalid(pa.large_string() if kind == "large_string" else pa.string())
    if "dictionary" in kind:
        texts = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts)
    data = pa.table({"y": [1.0, 2.0, 3.0], "g": texts})
    if "parquet" in kind:
        pq.write_table(data, tmp_path / "a.parquet")
        data = tmp_path / "a.parquet"
    source = open_source(data)
    with pytest.raises(SchemaError, match="are not declared"):
        Design.from_formula("y ~ g", Schema.of(source))
    design = Design.from_formula("y ~ g - 1", Schema.of(source, levels={"g": levels}))
    ((X, Y),) = design.blocks(source)
    assert Y[:, 0].tolist() == [1, 3] and X[:, [levels.index("a"), levels.index("b")]].tolist() == [
        [1, 0],
        [0, 1],
    ]


# ---- one rule for one value ----

ALIKE = [
    (
        3,
        [
            3,
            3.0,
            "3",
            "3.0",
            " 3 ",
            "+3",
            Decimal(3),
            Fraction(3),
            3 + 0j,
            np.int8(3),
            np.uint64(3),
            np.float16(3),
        ],
    ),
    (1, [1, True, np.True_, "True", "TRUE", "true", 1.0, "1"]),
    (0, [0, -0.0, "-0", False, "False", Decimal("-0"), "-0.0"]),
    (BIG + 1, [BIG + 1, str(BIG + 1), np.int64(BIG + 1), Decimal(BIG + 1), f"+{BIG + 1}"]),
    (BIG, [BIG, float(BIG), str(BIG), f"{BIG}.0"]),
    (0.1, [0.1, "0.1", Decimal("0.1"), Fraction(1, 10), np.float64(0.1), ".1", "1e-1"]),
    (
        None,
        [
            np.float32(0.1),
            "x",
            "",
            None,
            b"3",
            1j,
            np.timedelta64(3, "s"),
            pd.Timedelta(3),
            pd.Timestamp(3),
            [3],
            "nan",
        ],
    ),
]


@pytest.mark.parametrize("level, values", ALIKE)
def test_a_value_is_one_number_and_one_level(level, values):
    levels = [number for number, _ in ALIKE if number is not None]
    codes = _values.object_codes(values, levels)
    assert set(codes.tolist()) == {-1 if level is None else levels.index(level)}
    numbers = _values.parse_numbers(values)
    if level is not None:
        assert set((numbers + 0.0).tolist()) == {float(level)}
    for value, code in zip(values, codes, strict=True):
        if isinstance(value, bool | int | float | np.number) and not isinstance(value, np.timedelta64):
            assert _values.number_codes(np.array([value]), levels).tolist() == [code]


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int64", "uint64", "float16", "float32", "float64", "bool"]
)
def test_arrays_are_read_as_their_items(dtype):
    values = np.array([0, 1, 1, 0, 1]).astype(dtype)
    levels = [0.5, 1, -1, 2**63, 2**64, -(2**63), 300, 0, "1", 1e300, float("1e-300")]
    assert (
        _values.number_codes(values, levels).tolist()
        == _values.object_codes(values.tolist(), levels).tolist()
    )


def test_levels_of_an_expression_are_compared_exactly():
    data = {"y": [1.0, 2.0, 3.0], "x": [float(BIG), 1.0, 2.0]}
    design = Design.from_formula(
        f"y ~ C(I(x + 0), levels=[{BIG}, {BIG + 1}, 1]) - 1", Schema.of(open_source(data))
    )
    assert design.arrays(data)[0].tolist() == [[1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    "text", ["np.minimum(x, -x)", "np.maximum(-x, x)", "np.clip(-x, -0.0, 1)", "-x", "x * -2", "x // 3"]
)
def test_formulas_have_one_zero(text):
    """NumPy's minimum of 0 and -0 depends on where they stand."""
    data = {"y": np.ones(37), "x": np.where(np.arange(37) % 2, 0.0, -0.0)}
    for bounds in (None, {"x": (-0.0, 1)}, {"x": (-1, -0.0)}):
        design = Design.from_formula(f"y ~ I({text}) - 1", Schema.of(open_source(data), bounds=bounds))
        X, _ = design.arrays(data)
        assert not np.signbit(X).any() and not X.any() and len(X) == 37
        fit = Design.from_formula(
            f"y ~ I(np.exp(1/({text}))) - 1", Schema.of(open_source(data), bounds=bounds)
        )
        assert len(fit.arrays(data)[0]) == 0


# ---- what a fit keeps ----

SECRET = "Jane Doe, whose name is the longest of all"


@pytest.mark.parametrize(
    "formula, levels",
    [
        ("y ~ C(g, levels=['a', 'b'])", None),
        ("y ~ g", {"g": ["a", "b"]}),
        ("y ~ C(g, Sum, levels=['b', 'a'])", None),
    ],
)
@pytest.mark.parametrize("make", [lambda v: pd.Categorical(v), lambda v: np.array(v), list, objects, pa.array,
                                  lambda v: pa.array(v).dictionary_encode()])  # fmt: skip
@pytest.mark.slow
def test_a_fit_keeps_nothing_of_a_record(formula, levels, make):
    def pickled(last):
        values = [*"abababab", last]
        data = {"y": np.arange(9.0), "x": make(values), "g": make(values)}
        design = dpstats.ols(formula, data, eps=1000.0, levels=levels, seed=1).design
        return pickle.dumps(getattr(design, "design", design))

    assert pickled("a") == pickled(SECRET)
    assert SECRET.encode() not in pickled(SECRET)


@pytest.mark.parametrize("levels", [["b", "a"], ["a", "b", "other"], ["none", "of them"], [1, 2]])
def test_declared_levels_win_over_categories(levels):
    data = {"y": [1.0, 2.0, 3.0], "g": pd.Categorical(["a", "b", "c"])}
    for formula, declared in ((f"y ~ C(g, levels={levels}) - 1", None), ("y ~ g - 1", {"g": levels})):
        X, _ = Design.from_formula(formula, Schema.of(open_source(data), levels=declared)).arrays(data)
        assert X.shape == (2 * ("a" in levels), len(levels))


@pytest.mark.parametrize("first", ["a,a,b,c", ",,b,c", "b,a,b,c"])
def test_a_repeated_name_of_a_csv_file_moves_no_other_column(tmp_path, first):
    path = tmp_path / "rows.csv"
    path.write_text(f"{first}\n1,2,3,7\n4,5,6,8\n")
    names = [name for name in ("b", "c") if first.count(name) == 1]
    (batch,) = open_source(str(path)).batches(names)
    expected = {"b": [3, 6], "c": [7, 8]}
    assert {name: batch.numbers(name).tolist() for name in names} == {name: expected[name] for name in names}


@pytest.mark.parametrize("names", [["b"], ["a", "b"]])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv"])
def test_a_line_with_a_field_more_has_no_values_and_moves_no_field(tmp_path, names, ending):
    """R's `write.table` writes the names of the rows so, and nothing for them in the header."""
    lines = ["a,b", "1,2", "9,3,4", "5,6,", "7", "", '8,"9\n9"', "1,2,3,4", "3,4"]
    text = "\n".join(lines).replace(",", "\t" if ending == ".tsv" else ",").encode()
    path = tmp_path / f"rows{ending}"
    path.write_bytes(gzip.compress(text) if ending == ".csv.gz" else text)
    batches = list(open_source(str(path)).batches(names))
    found = {name: np.concatenate([batch.numbers(name) for batch in batches]).tolist() for name in names}
    no = np.nan
    expected = {"a": [1, no, 5, 7, no, 8, no, 3], "b": [2, no, 6, no, no, no, no, 4]}
    for name in names:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("line", ["1.5,0.3,oops", "1.5,0.3,4,5,6", ",,,", "", "1.5", "a", '"1.5,0.3"'])
def test_whatever_a_line_of_a_csv_file_says_it_is_one_record(tmp_path, line):
    """By substitution the number of rows is public. Lines with a field more were left out of it."""
    found = []
    for last in ("1.5,0.3", line):
        path = tmp_path / "rows.csv"
        path.write_text("\n".join(["y,x", *["1,2", "0,1"] * 350, last]) + "\n")
        fit = dpstats.theil_sen("y ~ x", str(path), eps=4, bounds={"y": (0, 2), "x": (0, 3)}, seed=0)
        sizes = [batch.rows for batch in open_source(str(path)).batches(["y"], coded={"y"})]
        found.append((fit.released["nobs"], sizes))
    assert found[0] == found[1] == (701, [701])
