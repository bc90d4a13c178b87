"""One column of one batch, as numbers or as codes of declared levels, whatever library holds it.

Each conversion maps values one by one, by the rule of :mod:`dpstats.data.values`, so that what becomes of a
row depends on that row alone; and none raises or warns on account of a value. (The general-purpose
conversions of the libraries do: pyarrow's casts raise on values that do not fit, a null makes floats of
integers, and narwhals looks at values to say what a pandas object column is.)

A column has four methods. ``numbers()`` gives a numeric array, shape (rows,), NaN where a value is missing
or is no number; ``codes(levels)`` gives the positions of the values among the levels, -1 where a value is
none of them; ``keys()`` gives the values themselves, to be compared with each other, None or NaN where one is
missing. ``take(rows)`` gives some of the rows, an array of positions, as a column that is small if they are
few.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import narwhals as nw
import numpy as np
import pandas as pd

from dpstats._types import Array
from dpstats.data.schema import Column
from dpstats.data.times import TimeColumn, arrow_times, nothing
from dpstats.data.values import number_codes, object_codes, parse_numbers, recode, stored

__all__ = [
    "ArrowColumn",
    "NumpyColumn",
    "PandasColumn",
    "Values",
    "arrow_values",
    "describe_arrow",
    "describe_chunks",
    "describe_narwhals",
    "describe_numpy",
    "describe_pandas",
    "is_text_level",
    "untyped",
]

# What dask puts in place of categories that it would have to read the data for.
_UNKNOWN_CATEGORIES = "__UNKNOWN_CATEGORIES__"


class Values(Protocol):
    """One column of one batch."""

    def numbers(self) -> np.ndarray: ...

    def codes(self, levels: tuple[Any, ...]) -> np.ndarray: ...

    def keys(self) -> Any: ...

    def take(self, rows: np.ndarray) -> "Values": ...


def untyped(name: str) -> Column:
    """Return the facts about a column whose dtype, if it has one, was made from its values."""
    return Column(name, "untyped", "no declared type")


def describe_numpy(name: str, values: np.ndarray) -> Column:
    """Return the facts about a NumPy array. Its dtype says what the values happen to be, so it is none of
    them.
    """
    return untyped(name) if values.ndim == 1 else Column(name, "unusable", "an array of several dimensions")


def describe_pandas(name: str, dtype: Any) -> Column:
    """Return the facts that a pandas dtype states: one that was declared, not one that pandas found by
    itself.
    """
    if isinstance(dtype, pd.CategoricalDtype):
        if dtype.categories is None or _UNKNOWN_CATEGORIES in dtype.categories:
            return Column(name, "text", "category")
        levels = tuple(_categories(dtype))
        if any(level is None for level in levels):
            return Column(name, "unusable", "category")
        return Column(name, "factor", "category", levels)
    if isinstance(dtype, pd.ArrowDtype):
        return describe_arrow(name, dtype.pyarrow_dtype)
    if isinstance(dtype, pd.StringDtype) and dtype.na_value is pd.NA:
        return Column(name, "text", "string")
    if isinstance(dtype, pd.BooleanDtype):
        return Column(name, "truth", "boolean")
    return Column(name, "number", str(dtype)) if _is_nullable_number(dtype) else untyped(name)


def _is_nullable_number(dtype: Any) -> bool:
    return (
        isinstance(dtype, pd.api.extensions.ExtensionDtype)
        and dtype.na_value is pd.NA
        and pd.api.types.is_numeric_dtype(dtype)
        and hasattr(dtype, "numpy_dtype")
    )


def describe_narwhals(name: str, dtype: Any) -> Column:
    """Return the facts that a narwhals dtype states. Of categorical dtypes, only an Enum's are declared."""
    if dtype.is_numeric():
        kind = "number"
    elif dtype == nw.Boolean:
        kind = "truth"
    elif dtype == nw.Enum:
        return Column(name, "factor", "Enum", tuple(dtype.categories))
    elif dtype in (nw.String, nw.Categorical):
        kind = "text"
    elif dtype == nw.Object:
        return untyped(name)
    else:
        kind = "unusable"
    return Column(name, kind, str(dtype))


def describe_arrow(name: str, dtype: Any) -> Column:
    """Return the facts that a pyarrow type states."""
    from pyarrow import types

    inner = dtype.value_type if types.is_dictionary(dtype) else dtype
    if types.is_null(inner):
        return untyped(name)
    if types.is_integer(inner) or types.is_floating(inner) or types.is_decimal(inner):
        kind = "number"
    elif types.is_boolean(inner):
        kind = "truth"
    else:
        kind = "text" if _is_text(inner) else "unusable"
    return Column(name, kind, str(dtype))


def describe_chunks(name: str, column: Any) -> Column:
    """Return the facts that a pyarrow ChunkedArray in memory states: a dictionary that its chunks share is
    levels.
    """
    from pyarrow import types

    fact = describe_arrow(name, column.type)
    if fact.kind == "unusable" or not types.is_dictionary(column.type) or not column.num_chunks:
        return fact
    first, *others = [chunk.dictionary for chunk in column.chunks]
    levels = tuple(_items(first))
    distinct = None not in levels and len(set(levels)) == len(levels)
    return (
        replace(fact, kind="factor", levels=levels) if distinct and all(map(first.equals, others)) else fact
    )


def _is_text(dtype: Any) -> bool:
    from pyarrow import types

    # (string views are new in pyarrow 16)
    return types.is_string(dtype) or types.is_large_string(dtype) or str(dtype) == "string_view"


class NumpyColumn:
    """A NumPy array, shape (rows,), and which of its items are missing, (rows,) bool or None."""

    def __init__(self, values: Array, missing: Array | None = None) -> None:
        if isinstance(values, np.ma.MaskedArray):
            values, missing = values.data, np.ma.getmaskarray(values)
        # (pandas cannot tell numbers apart whose bytes are in the other order)
        self._values = values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))
        self._missing = missing

    def numbers(self) -> np.ndarray:
        values = self._values
        if values.dtype.kind not in "iufb":
            values = parse_numbers(self._objects())
        return values if self._missing is None else np.where(self._missing, np.nan, values)

    def codes(self, levels: tuple[Any, ...]) -> np.ndarray:
        plain = self._values.dtype.kind in "iufb"
        codes = number_codes(self._values, levels) if plain else object_codes(self._objects(), levels)
        return codes if self._missing is None else np.where(self._missing, -1, codes)

    def keys(self) -> np.ndarray:
        values = self._values
        if values.dtype.kind in "mM":
            values = TimeColumn(values).keys()
        elif values.dtype == np.longdouble:
            values = values.astype(float)
        if self._missing is None:
            return values
        keys = values.astype(object)
        keys[self._missing] = None
        return keys

    def take(self, rows: np.ndarray) -> "NumpyColumn":
        return NumpyColumn(self._values[rows], None if self._missing is None else self._missing[rows])

    def __reduce__(self) -> tuple[Any, ...]:
        values = self._values
        return NumpyColumn, (stored(values) if values.dtype == object else values, self._missing)

    def _objects(self) -> Sequence[Any]:
        # (In a list some times would be integers.)
        return [None] * len(self._values) if self._values.dtype.kind in "mM" else self._values.tolist()


def _is_arrow_text(dtype: Any) -> bool:
    return isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"


def arrow_column(values: Any) -> "ArrowColumn | TimeColumn":
    """A column of an array of pandas that Arrow holds."""
    import pyarrow as pa

    return arrow_values(pa.table({"x": values}).column(0))


def arrow_values(column: Any) -> "ArrowColumn | TimeColumn":
    """A column of a pyarrow ChunkedArray."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(column.type) and not _is_text(column.type.value_type):
        column = column.cast(column.type.value_type)
    if types.is_nested(column.type):
        return nothing(len(column))
    if str(column.type) in ("string_view", "binary_view"):
        # pyarrow takes no rows out of these
        column = column.cast(pa.large_string() if _is_text(column.type) else pa.large_binary())
    return arrow_times(column) or ArrowColumn(column)


def writable(series: Any) -> Any:
    """A Series that can be pickled: without the objects that cannot be."""
    dtype = series.dtype
    if pd.api.types.is_object_dtype(dtype):
        return pd.Series(stored(series.to_numpy()), series.index, dtype)
    if isinstance(dtype, pd.CategoricalDtype) and dtype.categories.dtype == object:
        lost = [kept is None for kept in stored(dtype.categories.to_numpy())]
        return series.cat.remove_categories(dtype.categories[lost]) if any(lost) else series
    return series


def _categories(dtype: Any) -> list[Any]:
    """The categories of a dtype of pandas, None of a time that Python has not."""
    try:
        return list(dtype.categories.tolist())
    except Exception:
        return list(PandasColumn(pd.Series(dtype.categories)).keys())


def _dense(array: Any) -> NumpyColumn:
    """A sparse array of pandas in its own type: with gaps pandas may make floats of integers."""
    kind, fill = array.dtype.subtype, array.fill_value
    gaps = kind.kind in "iub" and bool(pd.isna(fill))
    values = np.full(len(array), 0 if gaps else fill, kind)
    at = array.sp_index.to_int_index().indices
    values[at] = array.sp_values
    if not gaps:
        return NumpyColumn(values)
    missing = np.ones(len(array), bool)
    missing[at] = False
    return NumpyColumn(values, missing)


class PandasColumn:
    """A pandas Series."""

    def __init__(self, series: Any) -> None:
        self._series = series

    def numbers(self) -> np.ndarray:
        return self._plain().numbers()

    def codes(self, levels: tuple[Any, ...]) -> np.ndarray:
        dtype = self._series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            codes, categories = self._series.cat.codes.to_numpy(), _categories(dtype)
            return codes if tuple(categories) == levels else recode(codes, categories, levels)
        return self._plain().codes(levels)

    def keys(self) -> Any:
        dtype = self._series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            items = [*_categories(dtype), None]
            return np.fromiter(items, object, len(items))[self._series.cat.codes.to_numpy()]
        if _is_arrow_text(dtype):
            # as they are: Arrow tells texts apart faster than Python does objects
            return self._series.array
        return self._plain().keys()

    def take(self, rows: np.ndarray) -> Values:
        if isinstance(self._series.dtype, pd.CategoricalDtype):
            return PandasColumn(self._series.iloc[rows].cat.remove_unused_categories())
        return self._plain().take(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        # without the labels of the rows, which may be what cannot be pickled
        series = writable(self._series).reset_index(drop=True).rename(None)
        series.attrs = {}
        return PandasColumn, (series,)

    def _plain(self) -> "NumpyColumn | ArrowColumn | TimeColumn":
        series, dtype = self._series, self._series.dtype
        if isinstance(dtype, np.dtype):
            return NumpyColumn(series.to_numpy())
        if isinstance(dtype, pd.ArrowDtype) or _is_arrow_text(dtype):
            return arrow_column(series.array)
        if isinstance(dtype, pd.BooleanDtype) or _is_nullable_number(dtype):
            missing = series.isna().to_numpy()
            values = series.to_numpy(dtype=dtype.numpy_dtype, na_value=0)
            return NumpyColumn(values, missing if missing.any() else None)
        if isinstance(dtype, pd.DatetimeTZDtype):
            return TimeColumn(series.array.asi8.view(f"M8[{dtype.unit}]"), utc=True)
        if isinstance(dtype, pd.SparseDtype):
            return _dense(series.array)
        return NumpyColumn(series.to_numpy(dtype=object))


class ArrowColumn:
    """A pyarrow ChunkedArray."""

    def __init__(self, column: Any) -> None:
        from pyarrow import types

        if types.is_dictionary(column.type) and not _is_text(column.type.value_type):
            column = column.cast(column.type.value_type)
        self._column = column

    def numbers(self) -> np.ndarray:
        from pyarrow import types

        kind = self._column.type
        if types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind):
            return self._plain().numbers()
        if _is_text(kind) or types.is_dictionary(kind):
            return parse_numbers(_items(self._column))
        return _floats(self._column)

    def codes(self, levels: tuple[Any, ...]) -> np.ndarray:
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import types

        column, kind = self._column, self._column.type
        if types.is_dictionary(kind):
            parts = [_dictionary_codes(chunk, levels) for chunk in column.chunks]
            return np.concatenate([np.empty(0, np.int64), *parts])
        if _is_text(kind) and all(is_text_level(v) for v in levels):
            wanted = pa.array(levels, pa.large_string())
            found = pc.index_in(pc.cast(column, pa.large_string()), value_set=wanted, skip_nulls=True)
            return pc.fill_null(found, -1).to_numpy()
        if types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind):
            return self._plain().codes(levels)
        return object_codes(_items(column), levels)

    def keys(self) -> np.ndarray:
        import pyarrow as pa
        from pyarrow import types

        kind = self._column.type
        if types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind):
            return self._plain().keys()
        texts = self._column if types.is_dictionary(kind) else self._column.dictionary_encode()
        parts = [np.empty(0, dtype=object)]
        for chunk in texts.chunks:
            codes = pa.compute.fill_null(pa.compute.cast(chunk.indices, pa.int64(), safe=False), -1)
            items = [*_items(chunk.dictionary), None]
            parts.append(np.fromiter(items, object, len(items))[codes.to_numpy(zero_copy_only=False)])
        return np.concatenate(parts)

    def take(self, rows: np.ndarray) -> Values:
        import pyarrow as pa
        from pyarrow import types

        kind = self._column.type
        if types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind):
            return self._plain().take(rows)
        # a dictionary would come along whole
        column = self._column.cast(kind.value_type) if types.is_dictionary(kind) else self._column
        return ArrowColumn(column.take(pa.array(rows)))

    def _plain(self) -> NumpyColumn:
        """The column of integers, truth values or floats as NumPy has it."""
        import pyarrow.compute as pc
        from pyarrow import types

        column = self._column
        if column.null_count == 0:
            return NumpyColumn(column.to_numpy())
        if types.is_floating(column.type):
            return NumpyColumn(_floats(column))
        zero = False if types.is_boolean(column.type) else 0
        return NumpyColumn(pc.fill_null(column, zero).to_numpy(), pc.is_null(column).to_numpy())


def _floats(column: Any) -> Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    # (A safe cast would raise where a value is not exactly a double.)
    return pc.cast(column, pa.float64(), safe=False).to_numpy()


def is_text_level(level: object) -> bool:
    """Whether a level is a text that Unicode has, as pyarrow and polars need it."""
    return type(level) is str and not any("\ud800" <= c <= "\udfff" for c in level)


def _items(array: Any) -> list[Any]:
    """Return the Python objects of a pyarrow array; a text that is not UTF-8 is None, which is no level."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    if types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    try:
        return array.to_pylist()
    except UnicodeDecodeError:
        raw = pc.cast(pc.cast(array, pa.large_string()), pa.large_binary()).to_pylist()
    return [None if text is None else _decoded(text) for text in raw]


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _dictionary_codes(chunk: Any, levels: tuple[Any, ...]) -> Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = pc.fill_null(pc.cast(chunk.indices, pa.int64(), safe=False), -1).to_numpy(zero_copy_only=False)
    return recode(codes, _items(chunk.dictionary), levels)
