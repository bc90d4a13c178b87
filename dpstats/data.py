"""Anything tabular as batches of rows.

:func:`open_source` looks at names and dtypes alone. Rows are read by :meth:`Source.batches`, and only of the columns
asked for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpstats._columns import NumpyColumns, PandasColumns
from dpstats.errors import SchemaError
from dpstats.schema import Column, Schema

__all__ = ["Batch", "Source", "open_source"]


@dataclass(frozen=True)
class Batch:
    """Some rows of some columns.

    Attributes
    ----------
    rows : int
    columns : mapping of str to object
        The columns, as their library has them.
    dialect : type
        How to convert them (:mod:`dpstats._columns`).
    """

    rows: int
    columns: Mapping
    dialect: type

    def numbers(self, name):
        """Return a column as a numeric array, shape (rows,), NaN where a value is missing or no number."""
        return self.dialect.numbers(self.columns[name])

    def codes(self, name, levels):
        """Return the positions of a column's values among the levels, shape (rows,), -1 where they are none."""
        return self.dialect.codes(self.columns[name], levels)


class Source:
    """Tabular data that have been looked at for names and dtypes alone.

    Attributes
    ----------
    schema : Schema
        What the dtypes say.
    in_memory : bool
        Whether :meth:`batches` gives one batch with all rows.
    """

    in_memory = True

    def __init__(self, schema):
        self.schema = schema

    def batches(self, names) -> Iterator[Batch]:
        """Yield the rows, of the named columns alone."""
        raise TypeError("Source is abstract")


class _PandasSource(Source):
    def __init__(self, frame):
        names = [name for name in frame.columns if isinstance(name, str)]
        counts = pd.Series(names, dtype=object).value_counts()
        dtypes = dict(zip(frame.columns, frame.dtypes, strict=True))
        super().__init__(
            Schema(
                tuple(
                    PandasColumns.describe(name, dtypes[name])
                    if counts[name] == 1
                    else Column(name, "repeated", str(dtypes[name]))
                    for name in dict.fromkeys(names)
                )
            )
        )
        self._frame = frame

    def batches(self, names):
        yield Batch(len(self._frame), {name: self._frame[name] for name in names}, PandasColumns)


class _MappingSource(Source):
    def __init__(self, data):
        arrays = {name: values if hasattr(values, "dtype") else np.fromiter(values, object) for name, values in data.items()}
        super().__init__(Schema(tuple(NumpyColumns.describe(name, np.asarray(a).dtype) for name, a in arrays.items())))
        self._arrays = {name: np.asarray(a) for name, a in arrays.items()}

    def batches(self, names):
        columns = {name: self._arrays[name] for name in names}
        yield Batch(max(map(len, columns.values()), default=0), columns, NumpyColumns)


def open_source(data):
    """Return a source of rows, having looked at names and dtypes alone."""
    if isinstance(data, Source):
        return data
    if isinstance(data, pd.DataFrame):
        return _PandasSource(data)
    if isinstance(data, Mapping):
        return _MappingSource(data)
    raise SchemaError(f"data of type {type(data).__name__} is not tabular")
