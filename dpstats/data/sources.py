"""Anything tabular as batches of rows.

:func:`open_source` looks at names and dtypes alone. Rows are read by :meth:`Source.batches`, and of the named
columns alone; data in memory are one batch, files are read in batches again at each pass.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import narwhals as nw
import narwhals.dependencies as libraries
import numpy as np
import pandas as pd

from dpstats.data.batches import BATCH_ROWS, Batch, Source, arrow_batch, describe_pandas_frame, read_safely
from dpstats.data.clusters import DaskSource, SparkSource
from dpstats.data.columns import (
    NumpyColumn,
    Values,
    arrow_values,
    describe_arrow,
    describe_chunks,
    describe_narwhals,
    describe_numpy,
    untyped,
)
from dpstats.data.dictionaries import widened
from dpstats.data.files import arrow_batches, arrow_columns, csv_batches, csv_columns, find, need_pyarrow
from dpstats.data.guessed import check_dataset, check_duckdb, check_polars, refuse_lazy
from dpstats.data.pandas_column import PandasColumn, describe_pandas
from dpstats.data.polars_column import polars_batches, polars_values
from dpstats.data.schema import Column, nameless
from dpstats.data.streams import StreamSource
from dpstats.errors import SchemaError

__all__ = ["open_source"]


class _PandasSource(Source):
    def __init__(self, frame: Any) -> None:
        super().__init__(describe_pandas_frame(frame), nameless(frame.columns))
        self._frame = frame

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        yield Batch(len(self._frame), {name: PandasColumn(self._frame[name]) for name in names})


class _MappingSource(Source):
    """A dictionary of arrays or lists."""

    def __init__(self, data: Mapping[Any, Any]) -> None:
        facts, self._columns, lengths = [], {}, set()
        for name, values in data.items():
            if isinstance(name, str):
                fact, self._columns[name] = _described_column(name, values)
                facts.append(fact)
                lengths.add(len(values))
        if len(lengths) > 1:
            raise SchemaError("the columns of the data have different lengths.")
        super().__init__(facts, nameless(data))
        self._rows = max(lengths, default=0)

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        yield Batch(self._rows, {name: self._columns[name] for name in names})


def _described_column(name: str, values: Any) -> tuple[Column, Values]:
    if isinstance(values, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        series = pd.Series(values, copy=False)
        return describe_pandas(name, series.dtype), PandasColumn(series)
    if libraries.is_polars_series(values):
        (fact,) = _describe_polars(values.to_frame(name))
        return fact, polars_values(values)
    if _is_arrow_array(values):
        column = sys.modules["pyarrow"].table({name: values}).column(0)
        return describe_chunks(name, column), arrow_values(column)
    if isinstance(values, list | tuple):
        values = np.fromiter(values, dtype=object, count=len(values))
    elif not (hasattr(values, "__array__") and hasattr(values, "__len__")):
        raise SchemaError(f"column {name!r} is of type {type(values).__name__}, not an array or a list.")
    values = values if isinstance(values, np.ndarray) else np.asarray(values)
    return describe_numpy(name, values), NumpyColumn(values)


def _is_arrow_array(values: object) -> bool:
    pa = sys.modules.get("pyarrow")
    return pa is not None and isinstance(values, pa.Array | pa.ChunkedArray)


class _PolarsSource(Source):
    def __init__(self, frame: Any) -> None:
        super().__init__(_describe_polars(frame))
        self._frame = frame

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        yield _polars_batch(self._frame, names)


def _describe_polars(frame: Any) -> list[Column]:
    import polars as pl

    native = frame.collect_schema()
    described = nw.from_native(frame).collect_schema()
    # (narwhals does not know the type of a column of nulls.)
    return [
        untyped(name) if native[name] == pl.Null else describe_narwhals(name, dtype)
        for name, dtype in described.items()
    ]


def _polars_batch(frame: Any, names: Iterable[str]) -> Batch:
    return Batch(frame.height, {name: polars_values(frame[name]) for name in names})


class _PolarsLazySource(Source):
    in_memory, foreign = False, True

    def __init__(self, frame: Any) -> None:
        read_safely(lambda: check_polars(frame))
        super().__init__(_describe_polars(frame))
        self._frame = frame

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        for batch in polars_batches(self._frame.select(names), BATCH_ROWS):
            yield _polars_batch(batch, names)


class _ArrowSource(Source):
    """A pyarrow Table. A dictionary that all chunks share declares levels; others need ``levels=``."""

    def __init__(self, table: Any) -> None:
        super().__init__(
            describe_chunks(name, column)
            for name, column in zip(table.column_names, table.columns, strict=True)
        )
        self._table = table

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        yield arrow_batch(self._table, names)


class _ArrowStreamSource(Source):
    """A RecordBatchReader: it can be read once, so all its rows are kept in memory at the first pass."""

    foreign = True

    def __init__(self, reader: Any) -> None:
        super().__init__(describe_arrow(field.name, field.type) for field in reader.schema)
        self._reader = reader
        self._table = None

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        if self._table is None:
            self._table = self._reader.read_all()
        yield arrow_batch(self._table, names)


class _ArrowDatasetSource(Source):
    in_memory = False

    def __init__(self, dataset: Any) -> None:
        self._dataset = read_safely(lambda: widened(dataset))
        read_safely(lambda: check_dataset(self._dataset))
        super().__init__(describe_arrow(field.name, field.type) for field in dataset.schema)

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        readahead = {"batch_readahead": 2, "fragment_readahead": 1}
        for batch in self._dataset.to_batches(columns=names, batch_size=BATCH_ROWS, **readahead):
            yield arrow_batch(batch, names)


class _ArrowFilesSource(Source):
    in_memory = False

    def __init__(self, files: list[str], kind: str) -> None:
        super().__init__(arrow_columns(files, kind))
        self._files = files
        self._kind = kind

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        for batch in arrow_batches(self._files, self._kind, names, BATCH_ROWS):
            yield arrow_batch(batch, names)


class _DuckdbSource(Source):
    in_memory = False

    def __init__(self, relation: Any) -> None:
        read_safely(lambda: check_duckdb(relation))
        self._frame = nw.from_native(relation)
        super().__init__(describe_narwhals(*item) for item in self._frame.collect_schema().items())

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        relation = self._frame.select(names).to_native()
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
        for batch in read(BATCH_ROWS):
            yield arrow_batch(batch, names)


class _NarwhalsSource(Source):
    """Any other frame in memory that narwhals knows."""

    foreign = True

    def __init__(self, frame: Any) -> None:
        if frame.implementation.is_pandas_like():
            native = frame.to_native()
            super().__init__(describe_pandas_frame(native), nameless(native.columns))
        else:
            super().__init__(describe_narwhals(*item) for item in frame.collect_schema().items())
        self._frame = frame

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        yield from open_source(self._frame.select(names).to_pandas()).batches(names, coded)


class _CsvSource(Source):
    in_memory = False

    def __init__(self, files: list[str], separator: str) -> None:
        columns = csv_columns(files, separator)
        super().__init__(columns)
        self._files = files
        self._separator = separator
        self._header = [column.name for column in columns]

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        for rows, columns in csv_batches(
            self._files, self._separator, self._header, names, coded, BATCH_ROWS
        ):
            yield Batch(rows, columns)


def open_source(data: Any) -> Source:
    """Return a source of rows, having looked at names and dtypes alone.

    Parameters
    ----------
    data : tabular
        A pandas, polars (also lazy), dask, Spark or modin data frame; a dictionary of arrays or lists; a
        pyarrow Table, RecordBatch, RecordBatchReader or Dataset; a duckdb relation; any other frame in memory
        that narwhals knows or that exports an Arrow stream; an iterator of frames; or the path of Parquet,
        Arrow or CSV files, in which ``*`` is allowed, a list of such, or one that fsspec knows (``"s3://..."``).

    Returns
    -------
    Source
        Data in memory are one batch. Files, datasets and relations are read again at each pass, in batches. A
        RecordBatchReader can be read once, so the first pass keeps its rows in memory.

    Raises
    ------
    SchemaError
        If it is none of these, or no file matches.
    ImportError
        If a file or object needs pyarrow and it is not installed.

    Examples
    --------
    >>> [(column.name, column.kind) for column in open_source({"x": [1, 2, None]}).schema]
    [('x', 'untyped')]
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, nw.DataFrame | nw.LazyFrame):
        data = data.to_native()
    if isinstance(data, pd.DataFrame):
        return _PandasSource(data)
    if isinstance(data, Mapping):
        return _MappingSource(data)
    if isinstance(data, np.ndarray) and data.dtype.names:
        return _MappingSource({name: data[name] for name in data.dtype.names})
    if libraries.is_polars_dataframe(data):
        return _PolarsSource(data)
    if libraries.is_polars_lazyframe(data):
        return _PolarsLazySource(data)
    if libraries.is_dask_dataframe(data) or libraries.is_pyspark_dataframe(data):
        return DaskSource(data) if libraries.is_dask_dataframe(data) else SparkSource(data)
    if libraries.is_pyspark_connect_dataframe(data):
        raise SchemaError("frames of Spark Connect are not supported: give a frame of a Spark session.")
    if libraries.is_duckdb_relation(data):
        return _DuckdbSource(data)
    paths = data if isinstance(data, list | tuple) and data else [data]
    if all(isinstance(path, str) or hasattr(path, "__fspath__") for path in paths):
        return _open_path(data)
    found = _open_arrow(data)
    if found is None and isinstance(data, Iterator):
        return StreamSource(data, open_source)
    return found or _open_other(data)


def _open_arrow(data: Any) -> Source | None:
    pa = sys.modules.get("pyarrow")
    if pa is None:
        return None
    if isinstance(data, pa.Table):
        return _ArrowSource(data)
    if isinstance(data, pa.RecordBatch):
        return _ArrowSource(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return _ArrowStreamSource(data)
    ds = sys.modules.get("pyarrow.dataset")
    return _ArrowDatasetSource(data) if ds is not None and isinstance(data, ds.Dataset) else None


def _open_other(data: Any) -> Source:
    """Open what narwhals knows, or what exports a stream of Arrow batches."""
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        refuse_lazy(data)
    if isinstance(frame, nw.DataFrame):
        return _NarwhalsSource(frame)
    if hasattr(data, "__arrow_c_stream__"):
        pa = need_pyarrow(f"reading a {type(data).__name__}")
        try:
            return _ArrowStreamSource(pa.RecordBatchReader.from_stream(data))
        except pa.ArrowInvalid:
            # A stream of values, not of records.
            pass
    raise SchemaError(
        f"data of type {type(data).__name__} cannot be read: give a frame (pandas, polars, dask, Spark), a "
        "pyarrow table or dataset, a dictionary of arrays, or the path of Parquet or CSV files."
    )


def _open_path(path: Any) -> Source:
    files, kind = find(path)
    return read_safely(lambda: _CsvSource(files, kind) if len(kind) == 1 else _ArrowFilesSource(files, kind))
