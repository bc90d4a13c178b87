"""One column of one batch, as numbers or as codes of declared levels, whatever library holds it.

Each conversion maps values one by one, so that what becomes of a row depends on that row alone, and none
raises or warns on account of a value. (The general-purpose conversions of the libraries do: pyarrow's casts
raise on values that do not fit, and narwhals looks at values to say what a pandas object column is.)

A column has two methods. ``numbers()`` gives a numeric array, shape (rows,), NaN where a value is missing or
is no number; ``codes(levels)`` gives the positions of the values among the levels, -1 where a value is none
of them.
"""

import math
import numbers as abstract
from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd

from dpstats.schema import Column

__all__ = [
    "ArrowColumn",
    "NumpyColumn",
    "PandasColumn",
    "PolarsColumn",
    "describe_narwhals",
    "describe_numpy",
    "describe_pandas",
]

# What dask puts in place of categories that it would have to read the data for.
_UNKNOWN_CATEGORIES = "__UNKNOWN_CATEGORIES__"


def describe_numpy(name, values):
    """Return the facts that an array's dtype states. An object array came from a list: it has no type."""
    kinds = {
        "b": "truth",
        "i": "number",
        "u": "number",
        "f": "number",
        "O": "untyped",
        "U": "text",
        "T": "text",
    }
    kind = kinds.get(values.dtype.kind, "unusable") if values.ndim == 1 else "unusable"
    return Column(name, kind, str(values.dtype))


def describe_pandas(name, dtype):
    """Return the facts that a pandas dtype states."""
    api = pd.api.types
    levels = None
    if isinstance(dtype, pd.CategoricalDtype):
        known = dtype.categories is not None and _UNKNOWN_CATEGORIES not in dtype.categories
        kind = "factor" if known else "text"
        levels = tuple(dtype.categories.tolist()) if known else None
    elif api.is_bool_dtype(dtype):
        kind = "truth"
    elif api.is_numeric_dtype(dtype):
        kind = "unusable" if api.is_complex_dtype(dtype) else "number"
    elif api.is_object_dtype(dtype) or api.is_string_dtype(dtype):
        kind = "text"
    else:
        kind = "unusable"
    return Column(name, kind, str(dtype), levels)


def describe_narwhals(name, dtype):
    """Return the facts that a narwhals dtype states. Of categorical dtypes, only an Enum's are declared."""
    if dtype.is_numeric():
        kind = "number"
    elif dtype == nw.Boolean:
        kind = "truth"
    elif dtype == nw.Enum:
        return Column(name, "factor", "Enum", tuple(dtype.categories))
    elif dtype in (nw.String, nw.Categorical, nw.Object):
        # Of a modin or cudf object column narwhals says String or Object after a look at its values.
        return Column(name, "text", "text")
    else:
        kind = "unusable"
    return Column(name, kind, str(dtype))


class NumpyColumn:
    """A NumPy array, shape (rows,)."""

    def __init__(self, values):
        self._values = values

    def numbers(self):
        values = self._values
        if isinstance(values, np.ma.MaskedArray):
            values = values.astype(np.float64).filled(np.nan)
        return parse_numbers(values) if values.dtype.kind == "O" else values

    def codes(self, levels):
        values = self._values
        if values.dtype.kind == "O":
            return parse_codes(values, levels)
        if values.dtype.kind in "iufb":
            return number_codes(self.numbers(), levels)
        return object_codes(values.tolist(), levels)


class PandasColumn:
    """A pandas Series."""

    def __init__(self, series):
        self._series = series

    def numbers(self):
        dtype = self._series.dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "iufb":
            return self._series.to_numpy()
        return self._series.to_numpy(dtype=np.float64, na_value=np.nan)

    def codes(self, levels):
        dtype = self._series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            codes, categories = self._series.cat.codes.to_numpy(), dtype.categories.tolist()
            return codes if tuple(categories) == levels else recode(codes, categories, levels)
        if pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype):
            return number_codes(self.numbers(), levels)
        return object_codes(self._series.tolist(), levels)


class ArrowColumn:
    """A pyarrow ChunkedArray."""

    def __init__(self, column):
        self._column = column

    def numbers(self):
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self._column.type
        plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if plain and self._column.null_count == 0:
            return self._column.to_numpy()
        # The safe cast would raise where an integer is not exactly a double.
        return pc.cast(self._column, pa.float64(), safe=False).to_numpy()

    def codes(self, levels):
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self._column.type
        if pa.types.is_dictionary(kind):
            parts = [_dictionary_codes(chunk, levels) for chunk in self._column.chunks]
            return np.concatenate([np.empty(0, np.int64), *parts])
        if "string" in str(kind):
            wanted = pa.array([v if isinstance(v, str) else None for v in levels], pa.large_string())
            found = pc.index_in(pc.cast(self._column, pa.large_string()), value_set=wanted, skip_nulls=True)
            return pc.fill_null(found, -1).to_numpy()
        return number_codes(self.numbers(), levels)


def _dictionary_codes(chunk, levels):
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = pc.fill_null(pc.cast(chunk.indices, pa.int64(), safe=False), -1).to_numpy(zero_copy_only=False)
    return recode(codes, chunk.dictionary.to_pylist(), levels)


class PolarsColumn:
    """A polars Series."""

    def __init__(self, series):
        self._series = series

    def numbers(self):
        import polars as pl

        dtype = self._series.dtype
        plain = dtype.is_integer() or dtype.is_float()
        if plain and self._series.null_count() == 0:
            return self._series.to_numpy()
        return self._series.cast(pl.Float64, strict=False).to_numpy()

    def codes(self, levels):
        import polars as pl

        series = self._series
        if isinstance(series.dtype, pl.Enum | pl.Categorical | pl.String):
            if not all(isinstance(v, str) for v in levels):
                return np.full(len(series), -1)
            codes = series.cast(pl.String).cast(pl.Enum(levels), strict=False).to_physical()
            return codes.cast(pl.Int64).fill_null(-1).to_numpy()
        return number_codes(self.numbers(), levels)


def number_codes(values, levels):
    """Return the codes of a numeric or boolean array; levels that are no numbers match nothing."""
    if not all(isinstance(v, abstract.Real) for v in levels):
        return np.full(len(values), -1)
    values = values.astype(np.int8) if values.dtype.kind == "b" else values
    exact = all(isinstance(v, int) and abs(v) < 2**63 for v in levels)
    index = pd.Index([int(v) if exact else float(v) for v in levels], dtype=np.int64 if exact else np.float64)
    return index.get_indexer(values)


def object_codes(values, levels):
    """Return the codes of a list of Python objects; one that cannot be compared is no level."""
    table = {level: code for code, level in enumerate(levels)}
    try:
        return np.fromiter((table.get(v, -1) for v in values), np.int64, len(values))
    except Exception:
        return np.fromiter((_lookup(table, v) for v in values), np.int64, len(values))


def _lookup(table, value):
    try:
        return table.get(value, -1)
    except Exception:
        return -1


def recode(codes, categories, levels):
    """Return codes of `categories` (-1: missing) as codes of `levels`."""
    table = np.append(object_codes(categories, levels), -1)
    return table[codes]


def parse_numbers(values):
    """Return an object array as float64: Python's reading of each item, NaN where it has none."""
    # Adding 0 makes -0 into 0: whether the sign survives a CSV reader depends on the other values of the
    # column.
    return np.fromiter((_number(v) for v in values), np.float64, len(values)) + 0.0


_NUMBERS = (str, float, int, np.floating, np.integer, np.bool_, Decimal)


def _number(value):
    try:
        return float(value) if isinstance(value, _NUMBERS) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def parse_codes(values, levels):
    """Return the codes of an object array whose items may be the texts of the levels (``"2"`` for 2)."""
    if all(isinstance(v, abstract.Real) and not isinstance(v, bool) for v in levels):
        return number_codes(parse_numbers(values), levels)
    table = {text: code for code, level in enumerate(levels) for text in _texts(level)}
    table.update((level, code) for code, level in enumerate(levels))
    return np.fromiter((_lookup(table, v) for v in values), np.int64, len(values))


def _texts(level):
    return (str(level), str(level).lower(), str(level).upper()) if isinstance(level, bool) else (str(level),)
