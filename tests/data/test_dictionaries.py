"""Dictionaries whose indices have 8 or 16 bits, and queries that end early: no value stops a read."""

import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dpstats
from dpstats.data import sources
from dpstats.data.dictionaries import is_narrow
from dpstats.data.polars_column import polars_batches
from dpstats.data.sources import open_source
from dpstats.errors import SchemaError

LEVELS = ("l0", "l1", "l2")
NARROW = "column 'g' may be a dictionary with indices of 8 or 16 bits"


def categories(path, more, rows=2_000):
    """Two frames of pandas with 128 categories, in one row group; and a record with another one."""
    levels = [f"l{i % 100}" for i in range(rows // 2)], [f"l{100 + i % 28}" for i in range(rows // 2)]
    frames = [
        pd.DataFrame({"g": pd.Categorical(g), "x": 1.0}) for g in (levels[0], levels[1] + ["new"] * more)
    ]
    pq.write_table(pa.concat_tables([pa.Table.from_pandas(frame) for frame in frames]), path)
    assert pq.read_schema(path).field("g").type == pa.dictionary(pa.int8(), pa.string())
    return path


def texts(path, more):
    values = pq.ParquetFile(categories(path, more), read_dictionary=["g"]).read()
    pq.write_table(values.set_column(0, "g", values["g"].cast(pa.string())).replace_schema_metadata(), path)
    return path


def lists(path, more):
    """The same within lists, which are no values, but rows are counted by the first column."""
    stored = [categories(path, 0, 256), categories(path.with_suffix(".2.parquet"), more, 256)]
    tables = []
    for file in stored:
        for part in np.split(np.arange(pq.read_metadata(file).num_rows), [100]):
            one = (
                pq.ParquetFile(file, read_dictionary=["g"]).read()["g"].cast(pa.string()).take(pa.array(part))
            )
            code = one.combine_chunks().dictionary_encode().cast(pa.dictionary(pa.int16(), pa.string()))
            tables.append(
                pa.table({"g": pa.ListArray.from_arrays(np.arange(len(part) + 1), code), "x": part})
            )
    pq.write_table(pa.concat_tables(tables), path)
    return path


def dask(path, **options):
    return pytest.importorskip("dask.dataframe").read_parquet(path, **options)


READ = {
    "path": lambda path, more: categories(path, more),
    "path, as units": lambda path, more: categories(path, more),
    "dataset": lambda path, more: ds.dataset(categories(path, more)),
    "dataset of row groups": lambda path, more: ds.FileSystemDataset(
        [part.subset(row_group_ids=[0]) for part in ds.dataset(categories(path, more)).get_fragments()],
        ds.dataset(path).schema, ds.ParquetFileFormat()),
    "dataset in memory": lambda path, more: (lambda part: ds.FileSystemDataset(
        [part], part.physical_schema, part.format))(
            ds.ParquetFileFormat().make_fragment(pa.py_buffer(categories(path, more).read_bytes()))),
    "dataset of texts": lambda path, more: ds.dataset(
        categories(path, more), schema=pa.schema({"g": pa.string()})),
    "texts as a dictionary": lambda path, more: ds.dataset(
        texts(path, more), schema=pa.schema({"g": pa.dictionary(pa.int8(), pa.string())})),
    "datasets": lambda path, more: ds.dataset([ds.dataset(categories(path, more))]),
    "datasets, filtered": lambda path, more: ds.dataset([ds.dataset(categories(path, more))]).filter(
        pc.field("x") > 0),
    "duckdb": lambda path, more: pytest.importorskip("duckdb").read_parquet(str(categories(path, more))),
    "polars, texts": lambda path, more: pl.scan_parquet(texts(path, more)),
    "dask, texts": lambda path, more: dask(texts(path, more)),
}  # fmt: skip
"""What is read, and has the same rows with one value more."""


@pytest.mark.slow
@pytest.mark.parametrize("made", READ)
def test_a_value_too_many_for_a_narrow_dictionary_changes_no_other(made, tmp_path):
    found = []
    for more in (0, 1):
        source = open_source(READ[made](tmp_path / "a.parquet", more))
        batches = list(source.batches(["g"], frozenset("g")))
        codes = np.concatenate([batch.codes("g", LEVELS) for batch in batches])
        keys = [value for batch in batches for value in batch.keys("g")]
        assert len(codes) == len(keys) == 2_000 + more
        found.append((source.schema, codes[:2_000].tolist(), keys[:2_000]))
    assert found[0] == found[1]


@pytest.mark.parametrize("more", [0, 1])
def test_files_with_a_value_too_many_have_releases(more, tmp_path):
    path = categories(tmp_path / "a.parquet", more)
    assert dpstats.describe(path, ["g"], levels={"g": LEVELS}, eps=100).rows == pytest.approx(2_000, abs=9)
    assert dpstats.mean("x ~ 1", path, eps=100, unit="g").estimates.shape == (1,)
    nested = lists(tmp_path / "b.parquet", more)
    assert sum(batch.rows for batch in open_source(nested).batches(["g"])) == 512 + more


def test_a_dataset_stays_as_it_is(tmp_path):
    dataset = ds.dataset(categories(tmp_path / "a.parquet", 0))
    open_source(dataset)
    assert dataset.format.read_options.dictionary_columns == set()
    plain = ds.dataset(texts(tmp_path / "b.parquet", 0))
    assert open_source(plain)._dataset is plain


REFUSED = {
    "polars": lambda path: pl.scan_parquet(path),
    "polars, as text": lambda path: pl.scan_parquet(path).select(h=pl.col("g").cast(pl.String, strict=False)),
    "polars, filtered": lambda path: pl.scan_parquet(path).filter(pl.col("g") == "l1").select("x"),
    "polars, joined": lambda path: pl.LazyFrame({"x": [1.0]}).join(pl.scan_parquet(path), on="x"),
    "polars, mapped": lambda path: pl.scan_parquet(path).map_batches(lambda frame: frame),
    "polars, in memory": lambda path: pl.scan_parquet(path.read_bytes()),
    "polars, second file": lambda path: pl.scan_parquet(
        [texts(path.with_name("0.parquet"), 0), path],
        cast_options=pl.ScanCastOptions(categorical_to_string="allow"),
    ),
    "dask": dask,
    "dask, arrow": lambda path: dask(path, filesystem="arrow"),
    "dask, filtered": lambda path: (lambda frame: frame[frame.g == "l1"][["x"]])(dask(path)),
    "dask, filters": lambda path: dask(path, columns=["x"], filters=[("g", "==", "l1")]),
    "dask, renamed": lambda path: dask(path).rename(columns={"g": "h"}),
    "dataset, in lists": lambda path: ds.dataset(lists(path, 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("made", REFUSED)
def test_scans_that_would_stop_at_a_value_too_many_are_refused(made, more, tmp_path, monkeypatch):
    monkeypatch.setattr(pl.LazyFrame, "collect", None)
    with pytest.raises(SchemaError, match=NARROW):
        open_source(REFUSED[made](categories(tmp_path / "a.parquet", more)))


@pytest.mark.slow
def test_scans_of_other_columns_and_of_wide_dictionaries_are_read(tmp_path):
    path = categories(tmp_path / "a.parquet", 1)
    wide, enum = tmp_path / "wide.parquet", tmp_path / "enum.parquet"
    pq.write_table(pa.table({"g": pa.array(["l0", "l1"]).dictionary_encode()}), wide)
    pl.DataFrame({"g": pl.Series(["l0", "l1"], dtype=pl.Enum(LEVELS))}).write_parquet(enum)
    for data, names in [(pl.scan_parquet(path).select("x"), "x"), (dask(path)[["x"]], "x"),
                        (pl.scan_parquet(path).drop("g").map_batches(lambda frame: frame), "x"),
                        (pl.scan_parquet(wide), "g"), (dask(wide), "g"), (pl.scan_parquet(enum), "g"),
                        (pl.read_parquet(enum).cast(pl.Categorical).lazy(), "g")]:  # fmt: skip
        assert [column.name for column in open_source(data).schema] == list(names)


@pytest.mark.slow
def test_files_that_dask_would_cast_are_refused(tmp_path):
    for i, values in enumerate([[1, 2], [1.0, 1.5]]):
        pq.write_table(pa.table({"y": values, "z": [1.0, 2.0]}), tmp_path / f"{i}.parquet")
    with pytest.raises(SchemaError, match="column 'y' of the dataset is"):
        open_source(dask(tmp_path, filesystem="arrow"))
    assert len(open_source(dask(tmp_path, filesystem="arrow")[["z"]]).schema) == 1


@pytest.mark.parametrize("width", [pl.UInt8, pl.UInt16, pl.UInt32])
@pytest.mark.parametrize("rows", [3, 300])
def test_casts_to_categories_of_few_bits_are_refused(width, rows):
    few = pl.Categorical(pl.Categories("few", "", physical=width))
    for column, dtype in (pl.col("g"), few), (pl.concat_list("g"), pl.List(few)):
        frame = pl.LazyFrame({"g": [f"l{i}" for i in range(rows)]}).select(column.cast(dtype, strict=False))
        if width == pl.UInt32:
            assert len(open_source(frame).schema) == 1
        else:
            with pytest.raises(SchemaError, match=r"pl\.Categorical or pl\.Enum"):
                open_source(frame)


def test_a_query_that_ends_early_is_an_error(tmp_path, monkeypatch):
    """The code of polars panics at the value too many, and its own iterator of batches just ends."""
    monkeypatch.setattr(sources, "check_polars", lambda frame: None)
    frame = pl.scan_parquet(categories(tmp_path / "a.parquet", 1))
    with pytest.raises(SchemaError, match=r"^the data could not be read\.$"):
        list(open_source(frame).batches(["g"]))
    assert sum(batch.rows for batch in open_source(frame).batches(["x"])) == 2_001


def test_categories_that_are_no_texts_are_their_values(tmp_path):
    """Columns of them stop nothing, in Parquet and Feather files, of which pandas has narrow ones, too."""
    for values in ([1, 2, 3, 2], [b"a", b"b", b"a", b"c"]):
        frame = pd.DataFrame({"g": pd.Categorical(values), "x": [1.0, 2.0, 3.0, 4.0]})
        for name, write in ("feather", frame.to_feather), ("parquet", frame.to_parquet):
            write(tmp_path / name)
            source = open_source(ds.dataset(tmp_path / name, format=name))
            (batch,) = source.batches(["x"])
            assert batch.numbers("x").tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32()])
def test_indices_of_8_and_16_bits_are_narrow(index):
    for dtype in (pa.dictionary(index, pa.string()), pa.list_(pa.dictionary(index, pa.string()))):
        assert is_narrow(dtype) == (index.bit_width < 32)


def test_rows_of_a_scan_keep_their_order_and_few_wait(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(1_000_000)}), path, row_group_size=1_000)
    frames = list(polars_batches(pl.scan_parquet(path), 10_000))
    assert np.array_equal(pl.concat(frames)["x"], np.arange(1_000_000))
    made, asked = [], []

    class Query:
        def sink_batches(self, take, **options):
            asked.append(options)
            for i in range(100):
                made.append(i)
                if take(i):
                    return

    batches = polars_batches(Query(), 7)
    assert next(batches) == 0
    time.sleep(0.3)
    # two in the queue, and one that waits for its place
    assert len(made) <= 4 and asked[0]["maintain_order"] and asked[0]["chunk_size"] == 7
    assert [*batches] == list(range(1, 100))


def test_a_query_stops_when_nobody_reads_on():
    batches = polars_batches(pl.LazyFrame({"x": np.arange(100_000)}), 100)
    assert np.array_equal(next(batches)["x"], np.arange(100))
    batches.close()
    frames = list(polars_batches(pl.LazyFrame({"x": np.arange(100_000)}), 1_000))
    assert np.array_equal(pl.concat(frames)["x"], np.arange(100_000))


def test_a_filter_and_the_row_groups_of_a_dataset_are_kept(tmp_path):
    path = categories(tmp_path / "a.parquet", 0)
    pq.write_table(pq.read_table(path).append_column("n", [np.arange(2_000)]), path, row_group_size=500)
    every = ds.dataset(path)
    (part,) = every.get_fragments()
    some = ds.FileSystemDataset([part.subset(row_group_ids=[1, 3])], every.schema, every.format)
    few = ds.dataset([every]).filter(pc.field("n") < 300)
    for dataset, rows in (some, [*range(500, 1_000), *range(1_500, 2_000)]), (few, [*range(300)]):
        found = [batch.numbers("n") for batch in open_source(dataset).batches(["g", "n"])]
        assert np.concatenate(found).tolist() == rows
