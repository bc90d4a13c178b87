"""One data set in every form that can be read: the same rows, from names and dtypes alone, in silence."""

import datetime
import importlib.util
import os
import pickle
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpstats.data.sources
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.errors import SchemaError
from dpstats.formula.design import Design

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.filterwarnings("error")

N = 500
FORMULA = "np.log(y) ~ x + i + n + b + g + s + C(i, levels=[1, 2, 3]) + x:g"
LEVELS = {"s": ["p", "q"], "g": ["a", "b", "c"], "b": [False, True]}


def make_frame():
    rng = np.random.default_rng(1)
    x = rng.normal(size=N)
    x[::11] = np.nan
    x[5] = np.inf
    return pd.DataFrame(
        {
            "y": rng.uniform(-0.2, 3, N),
            "x": x,
            "i": rng.integers(1, 5, N),
            "n": pd.array(rng.integers(0, 9, N), dtype="Int64"),
            "b": rng.integers(0, 2, N) == 0,
            "g": pd.Categorical.from_codes(rng.integers(-1, 3, N), ["a", "b", "c"]),
            "s": np.array(["p", "q", "undeclared"])[rng.integers(0, 3, N)],
            "never read": [object()] * N,
        }
    ).assign(n=lambda d: d["n"].mask(d["n"] == 4))


FRAME = make_frame()
PLAIN = FRAME.drop(columns="never read")


def blocks_of(data, formula=FORMULA, levels=LEVELS):
    source = open_source(data)
    return Design.from_formula(formula, Schema.of(source, levels=levels)).blocks(source)


def rows_of(blocks):
    pairs = list(blocks)
    return np.concatenate([X for X, _ in pairs]), np.concatenate([Y for _, Y in pairs])


EXPECTED = rows_of(blocks_of(FRAME))


def test_the_reference_itself():
    kept = FRAME[
        np.isfinite(FRAME["x"])
        & (FRAME["y"] > 0)
        & FRAME["n"].notna()
        & FRAME["g"].notna()
        & (FRAME["s"] != "undeclared")
        & (FRAME["i"] < 4)
    ]
    np.testing.assert_array_equal(EXPECTED[1][:, 0], np.log(kept["y"]))
    assert len(kept) > 100


def exported(table):
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    return Stream()


def plain_polars():
    return pl.DataFrame({name: _polars_values(name) for name in PLAIN})


def _polars_values(name):
    values = PLAIN[name].astype(object).where(PLAIN[name].notna(), None).tolist()
    dtypes = {"g": pl.Enum(["a", "b", "c"]), "s": pl.String, "b": pl.Boolean, "i": pl.Int32, "n": pl.UInt8}
    return pl.Series(name, values, dtype=dtypes.get(name, pl.Float64))


@np.errstate(invalid="ignore")
def nullable(backend):
    return PLAIN.convert_dtypes(dtype_backend=backend)


FORMS = {
    "pandas": lambda d: FRAME,
    "pandas nullable": lambda d: nullable("numpy_nullable"),
    "pandas on arrow": lambda d: nullable("pyarrow"),
    "pandas objects": lambda d: FRAME.astype({"s": object}),
    "pandas index": lambda d: FRAME.set_index(np.zeros(N)),
    "pandas sparse": lambda d: FRAME.assign(x=FRAME["x"].astype(pd.SparseDtype(float))),
    "pandas float32": lambda d: FRAME.assign(i=FRAME["i"].astype("float32")),
    "dict of series": lambda d: dict(FRAME.items()),
    "dict of arrays": lambda d: {
        **dict(FRAME.items()),
        **{c: FRAME[c].to_numpy() for c in ("x", "y", "i", "b")},
    },
    "dict of polars": lambda d: {name: _polars_values(name) for name in PLAIN},
    "dict of arrow": lambda d: {name: pa.Table.from_pandas(PLAIN).column(name) for name in PLAIN},
    "dict of lists": lambda d: {name: PLAIN[name].tolist() for name in PLAIN},
    "polars": lambda d: plain_polars(),
    "polars categorical": lambda d: plain_polars().with_columns(
        pl.col("g").cast(pl.String).cast(pl.Categorical)
    ),
    "polars lazy": lambda d: plain_polars().lazy(),
    "arrow table": lambda d: pa.Table.from_pandas(PLAIN),
    "arrow chunks": lambda d: pa.concat_tables(
        pa.Table.from_pandas(PLAIN).slice(100 * k, 100) for k in range(5)
    ),
    "arrow batch": lambda d: pa.Table.from_pandas(PLAIN).combine_chunks().to_batches()[0],
    "arrow reader": lambda d: pa.RecordBatchReader.from_batches(
        pa.Table.from_pandas(PLAIN).schema, pa.Table.from_pandas(PLAIN).to_batches(100)
    ),
    "arrow stream": lambda d: exported(pa.Table.from_pandas(PLAIN)),
    "arrow view strings": lambda d: pa.Table.from_pandas(PLAIN).set_column(
        PLAIN.columns.get_loc("s"),
        "s",
        pa.array(PLAIN["s"]).cast(getattr(pa, "string_view", pa.large_string)()),
    ),
    "arrow decimals": lambda d: pa.Table.from_pandas(PLAIN).set_column(
        PLAIN.columns.get_loc("i"), "i", pa.array([Decimal(int(v)) for v in PLAIN["i"]])
    ),
    "arrow dataset": lambda d: ds.dataset(_parquet(d)),
    "in-memory dataset": lambda d: ds.dataset(pa.Table.from_pandas(PLAIN)),
    "parquet": lambda d: _parquet(d),
    "parquet path": lambda d: d / os.path.basename(_parquet(d)),
    "parquet glob": lambda d: str(d / "*" / "part*.parquet") if _parts(d) else None,
    "parquet directory": lambda d: _parts(d),
    "feather": lambda d: _feather(d),
    "csv": lambda d: _csv(d / "a.csv"),
    "csv compressed": lambda d: _csv(d / "a.csv.gz"),
    "tsv": lambda d: _csv(d / "a.tsv", sep="\t"),
    "csv glob": lambda d: (
        _csv(d / "b1.csv", PLAIN[:200]) and _csv(d / "b2.csv", PLAIN[200:]) and str(d / "b*.csv")
    ),
    "csv with marks": lambda d: _csv(d / "c.csv", na_rep="NA", quoting=1),
    "csv odd marks": lambda d: _csv(d / "c.csv", na_rep="not known"),
}


def _parquet(directory):
    pq.write_table(pa.Table.from_pandas(PLAIN), directory / "a.parquet", row_group_size=64)
    return str(directory / "a.parquet")


def _parts(directory):
    (directory / "sub").mkdir()
    for part in range(3):
        rows = slice(part * 200, part * 200 + 200)
        pq.write_table(
            pa.Table.from_pandas(PLAIN[rows], preserve_index=False), directory / "sub" / f"part{part}.parquet"
        )
    return str(directory / "sub")


def _feather(directory):
    from pyarrow import feather

    feather.write_feather(pa.Table.from_pandas(PLAIN), directory / "a.feather")
    return str(directory / "a.feather")


def _csv(path, frame=PLAIN, **options):
    frame.to_csv(path, index=False, **options)
    return str(path)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.slow
def test_every_form_gives_the_same_rows_at_every_pass(form, tmp_path, monkeypatch):
    monkeypatch.setattr(dpstats.data.sources, "BATCH_ROWS", 37)
    blocks = blocks_of(FORMS[form](tmp_path))
    for _ in range(3):
        X, Y = rows_of(blocks)
        np.testing.assert_allclose(X, EXPECTED[0], rtol=1e-15)
        np.testing.assert_allclose(Y, EXPECTED[1], rtol=1e-15)
    in_files = any(word in form for word in ("lazy", "dataset", "parquet", "feather", "csv", "tsv"))
    assert blocks.in_memory is not in_files
    assert (len(list(blocks)) == 1) is not in_files


@pytest.mark.parametrize("form", ["pandas", "polars", "arrow table", "parquet", "csv", "dict of arrays"])
def test_predictions_have_a_row_per_row(form, tmp_path):
    design = Design.from_formula(FORMULA, Schema.of(open_source(FRAME), levels=LEVELS))
    M = design.matrix(FORMS[form](tmp_path))
    assert M.shape == (N, len(design.column_names))
    np.testing.assert_allclose(M, design.matrix(PLAIN.drop(columns="y")), rtol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["duckdb", "dask.dataframe", "modin"])
def test_other_libraries(library, tmp_path, monkeypatch):
    if importlib.util.find_spec(library.split(".")[0]) is None:
        pytest.skip(f"{library} is not installed")
    monkeypatch.setattr(dpstats.data.sources, "BATCH_ROWS", 37)
    module = pytest.importorskip(library)
    if library == "duckdb":
        data = module.connect().read_parquet(_parquet(tmp_path))
    elif library == "dask.dataframe":
        data = module.from_pandas(PLAIN, npartitions=4)
    else:
        data = pytest.importorskip("modin.pandas").DataFrame(PLAIN)
    blocks = blocks_of(data)
    for _ in range(2):
        X, _ = rows_of(blocks)
        np.testing.assert_allclose(X, EXPECTED[0], rtol=1e-15)


def test_a_stored_frame_is_read_as_it_is():
    record = np.array([(1.0, 2), (2.0, 3)], dtype=[("y", float), ("x", int)])
    X, Y = rows_of(blocks_of(record, "y ~ x", None))
    assert X.tolist() == [[1, 2], [1, 3]] and Y.tolist() == [[1], [2]]
    masked = {"y": np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), "x": np.ma.array([1, 2, 3], mask=[0, 0, 1])}
    assert rows_of(blocks_of(masked, "y ~ x", None))[0].tolist() == [[1, 1]]


# ---- what a source says before any row is read ----


class Unreadable(Exception):
    """Raised where a row would be read."""


def test_opening_reads_no_rows():
    def poison(*args):
        raise Unreadable

    def batches():
        poison()
        yield

    schema = pa.schema([("y", pa.float64()), ("x", pa.int32())])
    lazy = (
        pl.DataFrame({"y": [1.0], "x": [1]})
        .lazy()
        .map_batches(poison, schema={"y": pl.Float64, "x": pl.Int64})
    )
    for data in (pa.RecordBatchReader.from_batches(schema, batches()), lazy):
        source = open_source(data)
        assert [c.kind for c in source.schema] == ["number", "number"]
        with pytest.raises(SchemaError, match="^the data could not be read.$") as caught:
            list(source.batches(["y"]))
        assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_only_named_columns_are_read():
    class Frame(pd.DataFrame):
        read = set()

        def __getitem__(self, name):
            self.read.add(name)
            return super().__getitem__(name)

    rows_of(blocks_of(Frame(FRAME), "y ~ x + g"))
    assert Frame.read == {"y", "x", "g"}


@pytest.mark.parametrize(
    "values, dtype, kind",
    [
        ([1, 2], pa.int8(), "number"),
        ([Decimal("1.5")], pa.decimal128(5, 2), "number"),
        ([True], pa.bool_(), "truth"),
        (["a"], pa.string(), "text"),
        (["a"], pa.large_string(), "text"),
        ([None], pa.null(), "untyped"),
        ([datetime.date(2020, 1, 1)], pa.date32(), "unusable"),
        ([[1]], pa.list_(pa.int8()), "unusable"),
        ([b"a"], pa.binary(), "unusable"),
    ],
)
def test_arrow_kinds(values, dtype, kind):
    table = pa.table({"x": pa.array(values, dtype)})
    assert open_source(table).schema["x"].kind == kind
    assert open_source(table.slice(0, 0)).schema == open_source(table).schema
    if kind in ("number", "truth") and not pa.types.is_dictionary(dtype):
        X, _ = rows_of(
            blocks_of(table.append_column("y", pa.array([1.0] * len(values))), "y ~ I(x*1) - 1", None)
        )
        assert X[:, 0].tolist() == [float(v) for v in values]


def test_dictionaries_are_levels_if_all_chunks_share_them():
    one = pa.array(["a", "b"]).dictionary_encode()
    other = pa.array(["b", "a"]).dictionary_encode()
    shared = pa.table({"y": [1.0, 2.0, 3.0, 4.0], "g": pa.chunked_array([one, one])})
    mixed = pa.table({"y": [1.0, 2.0, 3.0, 4.0], "g": pa.chunked_array([one, other])})
    assert open_source(shared).schema["g"].levels == ("a", "b")
    with pytest.raises(SchemaError, match='levels={"g": \\[...\\]}'):
        blocks_of(mixed, "y ~ g", None)
    X, _ = rows_of(blocks_of(mixed, "y ~ g", {"g": ["a", "b"]}))
    assert X[:, 1].tolist() == [0, 1, 1, 0]


def test_learned_categories_are_no_declaration(tmp_path):
    frame = pl.DataFrame({"y": [1.0, 2.0], "g": ["a", "b"]}).with_columns(pl.col("g").cast(pl.Categorical))
    pq.write_table(pa.Table.from_pandas(PLAIN), tmp_path / "a.parquet")
    for data in (frame, frame.lazy(), tmp_path / "a.parquet"):
        with pytest.raises(SchemaError, match="levels of column 'g'|levels are not declared"):
            blocks_of(data, "y ~ g", None)


def test_repeated_names_are_refused_where_they_are_used():
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["y", "x", "x"])
    assert rows_of(blocks_of(frame, "y ~ 1", None))[0].shape == (1, 1)
    table = pa.table([pa.array([1.0]), pa.array([1]), pa.array([2])], names=["y", "x", "x"])
    for data in (frame, table):
        with pytest.raises(SchemaError, match="'x' occurs more than once"):
            blocks_of(data, "y ~ x", None)


def test_columns_without_a_string_name_are_left_alone():
    frame = pd.DataFrame({"y": [1.0], 0: [1.0], ("a", "b"): [2.0]})
    assert open_source(frame).schema.names == ("y",)


@pytest.mark.parametrize(
    "data", [None, 3, object(), [1, 2], np.zeros((2, 2)), pd.Series([1.0]), {"x": 3}, {"x": {1, 2}}]
)
def test_what_is_not_tabular_is_refused(data):
    with pytest.raises(SchemaError, match="cannot be read|not an array|no column"):
        open_source(data).schema["x"]


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(SchemaError, match="different lengths"):
        open_source({"x": np.zeros(2), "y": np.zeros(3)})


# ---- files ----


def test_files_that_are_not_there_or_not_alike(tmp_path):
    with pytest.raises(SchemaError, match="there is no file"):
        open_source(tmp_path / "none.csv")
    with pytest.raises(SchemaError, match="there is no file"):
        open_source(str(tmp_path / "*.parquet"))
    (tmp_path / "a.xlsx").write_text("x")
    with pytest.raises(SchemaError, match="must all end in one of"):
        open_source(tmp_path / "a.xlsx")
    (tmp_path / "a.csv").write_text("y,x\n1,2\n")
    (tmp_path / "b.csv").write_text("y,z\n1,2\n")
    with pytest.raises(SchemaError, match="the same header"):
        open_source(str(tmp_path / "*.csv"))
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1.5]}), tmp_path / "b.parquet")
    X, _ = rows_of(blocks_of(str(tmp_path / "*.parquet"), "I(2 * x) ~ x - 1", None))
    assert X.tolist() == [[1], [1.5]]
    pq.write_table(pa.table({"x": [None, None]}), tmp_path / "c.parquet")
    assert open_source(str(tmp_path / "*.parquet")).schema["x"].kind == "number"
    pq.write_table(pa.table({"x": ["text"]}), tmp_path / "d.parquet")
    with pytest.raises(SchemaError, match="same columns and kinds"):
        open_source(str(tmp_path / "*.parquet"))
    with pytest.raises(SchemaError, match="must all end in one of"):
        open_source(tmp_path)


@pytest.mark.slow
def test_without_pyarrow(tmp_path):
    (tmp_path / "a.csv").write_text("y,x,g\n1,2,a\n2,NA,b\n3,4,b\n")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    code = """
import sys
sys.modules["pyarrow"] = None
from dpstats.data.sources import open_source
from dpstats.formula.design import Design
from dpstats.data.schema import Schema
source = open_source("a.csv")
blocks = Design.from_formula("y ~ x + g", Schema.of(source, levels={"g": ["a", "b"]})).blocks(source)
assert [X.tolist() for X, _ in blocks] == [[[1, 0, 2], [1, 1, 4]]]
try:
    open_source("a.parquet")
except ImportError as error:
    assert "dpstats[arrow]" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def csv_numbers(path, texts, rows=65_536):
    """Column x of a CSV file with these texts, as the front door reads it: NaN where a row is dropped."""
    lines = "".join('1,"' + text.replace('"', '""') + '"\n' for text in texts)
    path.write_bytes(("y,x\n" + lines).encode("utf-8", "surrogatepass"))
    design = Design.from_formula("y ~ x - 1", Schema.of(open_source(path)))
    return design.matrix(path)[:, 0]


TEXTS = st.one_of(
    st.floats().map(repr),
    st.integers(-(2**70), 2**70).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(
        [
            "",
            " ",
            "NA",
            "nan",
            "inf",
            "True",
            "false",
            "1_000",
            "0x10",
            "1e",
            "1e5",
            "+5",
            " 7 ",
            "1.",
            ".5",
            "0",
        ]
        + [
            "-0",
            "1e400",
            "1e-400",
            "12abc",
            "1,5",
            "5%",
            "１",
            "\t3",
            "9" * 30,
            "18446744073709551615",
            "-1",
            "00012",
        ]
    ),
    st.sampled_from(["", "True", "False", "1", "x"]),
    st.text(alphabet="0123456789+-.eE_ \t'#;", max_size=8),
)


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_a_csv_number_is_what_float_reads_whatever_the_other_rows_say(tmp_path, texts):
    expected = []
    for text in texts:
        try:
            value = float(text)
        except ValueError:
            value = {"true": 1.0, "false": 0.0}.get(text.lower(), np.nan)
        expected.append(value if np.isfinite(value) else np.nan)
    np.testing.assert_array_equal(csv_numbers(tmp_path / "a.csv", texts), expected)


def test_the_check_of_csv_numbers_catches_type_inference(tmp_path, monkeypatch):
    import dpstats.data.files as files

    def inferred(series, coded, missing):
        return files.NumpyColumn(pd.to_numeric(series, errors="coerce").to_numpy(dtype=float))

    monkeypatch.setattr(files, "_field_column", inferred)
    assert csv_numbers(tmp_path / "a.csv", ["True", "False"]).tolist() == [1, 0]
    assert np.isnan(csv_numbers(tmp_path / "a.csv", ["True", "x"])).all()  # the rule says 1 for the first


def test_csv_levels_are_texts_or_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('y,k,b,t\n1,1,True,x\n1,2.0,false,"a ""b"""\n1,,TRUE,x\n1,3,no,x\n1,1,true,NA\n')
    declared = {"k": [1, 2], "b": [False, True], "t": ["x", 'a "b"', "NA"]}
    M = Design.from_formula("y ~ k + b + t - 1", Schema.of(open_source(path), levels=declared)).matrix(path)
    assert M[[0, 1, 4]].tolist() == [[1, 0, 1, 0, 0], [0, 1, 0, 1, 0], [1, 0, 1, 0, 1]]
    assert np.isnan(M[[2, 3]]).all()


def test_headers_are_read_as_csv_writes_them(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes('\ufeff"y","two ""words""","x,z",y2,y2\n1,2,3,4,5\n'.encode())
    assert open_source(path).schema.names == ("y", 'two "words"', "x,z", "y2")
    X, Y = rows_of(blocks_of(path, "y ~ Q('two \"words\"') + Q('x,z')", None))
    assert X.tolist() == [[1, 2, 3]] and Y.tolist() == [[1]]
    path.write_bytes(b"")
    assert open_source(path).schema.names == ()


def test_a_file_that_is_not_what_its_name_says(tmp_path):
    (tmp_path / "a.parquet").write_text("y,x")
    with pytest.raises(SchemaError, match="^the data could not be read.$"):
        open_source(tmp_path / "a.parquet")


PIECES = [
    "1",
    "2.5",
    ",",
    ",",
    "\n",
    "\n",
    '""',
    "a",
    "True",
    "NA",
    "\r",
    "\r\n",
    "\x00",
    "\xff",
    "#",
    "'",
    "\\",
    " ",
]
PIECES += ["1e400", "9" * 20, "-3", "\u2028", "\t", ";", "\x1a"]


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), max_size=40), st.booleans())
def test_no_csv_line_makes_a_noise(tmp_path, pieces, coded):
    path = tmp_path / "a.csv"
    path.write_bytes(b"y,x,z\n" + "".join(pieces).encode("latin-1", "replace"))
    design = Design.from_formula(
        "y ~ x", Schema.of(open_source(path), levels={"x": ["1", "a"]} if coded else None)
    )
    for X, Y in design.blocks(path):
        assert len(X) == len(Y)


def test_a_quote_that_does_not_close_is_no_csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('y,x\n1,2\n1,"secret\n')
    with pytest.raises(SchemaError, match="^the data could not be read.$") as caught:
        rows_of(blocks_of(path, "y ~ x", None))
    assert caught.value.__context__ is None


# ---- values that trip the libraries ----


@pytest.mark.parametrize(
    "make", [pa.array, lambda v: pl.Series(v, dtype=pl.Int64), lambda v: pd.array(v, dtype="Int64")]
)
def test_integers_beyond_a_double_are_rounded_in_silence(make):
    column = make([2**53 + 1, None, 2**62 + 1])
    data = (
        pa.table({"y": [1.0] * 3, "x": column})
        if isinstance(column, pa.Array)
        else {"y": np.ones(3), "x": column}
    )
    X, _ = rows_of(blocks_of(data, "I(2 * x) ~ x - 1", None))
    assert X[:, 0].tolist() == [float(2**53 + 1), float(2**62 + 1)]


def test_integer_levels_are_compared_exactly():
    data = {"y": np.ones(3), "k": np.array([2**53, 2**53 + 1, 2**53 + 2])}
    X, _ = rows_of(blocks_of(data, "y ~ k - 1", {"k": [2**53, 2**53 + 1]}))
    assert X.tolist() == [[1, 0], [0, 1]]


def test_objects_that_cannot_be_compared_are_no_levels():
    class Rude:
        def __eq__(self, other):
            raise Unreadable

        __hash__ = None

    data = pd.DataFrame({"y": 1.0, "g": pd.Series([[], Rude(), np.zeros(2), "a", {}, pd.NA], dtype=object)})
    X, _ = rows_of(blocks_of(data, "y ~ g - 1", {"g": ["a"]}))
    assert X.tolist() == [[1.0]]


def test_list_items_that_are_no_numbers_are_missing():
    items = [1, "2", None, "x", [1], 1j, np.complex64(1), 10**400, Decimal("4"), True, np.int8(6)]
    items += [float("nan"), b"7", pd.NaT, np.timedelta64(1, "s"), np.datetime64(1, "s")]
    X, _ = rows_of(blocks_of({"y": np.ones(len(items)), "x": items}, "I(2 * x) ~ x - 1", None))
    assert X[:, 0].tolist() == [1, 2, 1, 4, 1, 6]


def test_sources_of_one_schema_make_one_design():
    other = PLAIN.iloc[:3].assign(x=[np.nan] * 3)
    pairs = [
        (PLAIN, other),
        (pa.Table.from_pandas(PLAIN), pa.Table.from_pandas(other)),
        (plain_polars(), plain_polars()[:0]),
    ]
    for pair in pairs:
        schemas = [Schema.of(open_source(data), levels=LEVELS) for data in pair]
        one, two = (pickle.dumps(Design.from_formula(FORMULA, schema)) for schema in schemas)
        assert one == two
