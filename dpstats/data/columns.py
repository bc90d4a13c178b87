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

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import narwhals as nw
import numpy as np

from dpstats._types import Array
from dpstats.data.schema import Column
from dpstats.data.times import TimeColumn, arrow_times, nothing
from dpstats.data.values import number_codes, object_codes, parse_numbers, recode, stored

__all__ = [
    "ArrowColumn",
    "NumpyColumn",
    "Values",
    "arrow_values",
    "describe_arrow",
    "describe_chunks",
    "describe_narwhals",
    "describe_numpy",
    "is_text_level",
    "untyped",
]


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
        elif values.dtype == np.longdouble:
            # (as one is read beside a text, which makes objects of all)
            with np.errstate(all="ignore"):
                values = values.astype(np.float64)
        return values if self._missing is None else np.where(self._missing, np.nan, values)

    def codes(self, levels: tuple[Any, ...]) -> np.ndarray:
        plain = self._values.dtype.kind in "iufb"
        codes = number_codes(self._values, levels) if plain else object_codes(self._objects(), levels)
        return codes if self._missing is None else np.where(self._missing, -1, codes)

    def keys(self) -> np.ndarray:
        values = self._values
        if values.dtype.kind in "mM":
            values = TimeColumn(values).keys()
        elif values.dtype.kind == "U":
            values = _unicode(values)
        elif values.dtype in (np.longdouble, np.clongdouble):
            # pandas would round them
            values = values.astype(object)
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
        values = self._values
        if values.dtype.kind in "mM":
            # (in a list some would be integers)
            return [None] * len(values)
        return (_unicode(values) if values.dtype.kind == "U" else values).tolist()


def _unicode(texts: Array) -> Array:
    """NumPy's texts, shape (rows,), as objects: None where one has a code that Python has not."""
    if texts.dtype.itemsize == 0 or not len(texts):
        return texts.astype(object)
    codes = np.ascontiguousarray(texts).view(np.uint32).reshape(len(texts), -1)
    lost = (codes > sys.maxunicode).any(axis=1)
    if not lost.any():
        return texts.astype(object)
    items = np.where(lost, "", texts).astype(object)
    items[lost] = None
    return items


def arrow_column(values: Any) -> "ArrowColumn | TimeColumn":
    """A column of an array of pandas that Arrow holds."""
    import pyarrow as pa

    return arrow_values(pa.table({"x": values}).column(0))


def arrow_values(column: Any) -> "ArrowColumn | TimeColumn":
    """A column of a pyarrow ChunkedArray."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind) and types.is_nested(kind.value_type):
        return nothing(len(column))
    # (pyarrow takes no rows out of views, and makes nothing else of dictionaries of them)
    if types.is_dictionary(kind) and (whole := _whole(kind.value_type)) is not None:
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(whole))
            for chunk in column.chunks
        ]
        column = pa.chunked_array(chunks, pa.dictionary(kind.index_type, whole))
    elif (whole := _whole(kind)) is not None:
        column = column.cast(whole)
    if types.is_dictionary(column.type) and not _is_text(column.type.value_type):
        column = column.cast(column.type.value_type)
    kind = column.type
    # (an extension's own conversion raises where a time is too far out)
    inner = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else None
    if types.is_nested(inner or kind) or (inner is not None and types.is_temporal(inner)):
        return nothing(len(column))
    return arrow_times(column) or ArrowColumn(column)


def _whole(dtype: Any) -> Any:
    """The type of pyarrow that holds what one of views does, None of other types."""
    import pyarrow as pa

    return {"string_view": pa.large_string(), "binary_view": pa.large_binary()}.get(str(dtype))


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
        if _is_text(kind) or types.is_dictionary(kind) or types.is_decimal(kind):
            # (pyarrow makes other doubles of decimals than the nearest, by their scale, which may be of all)
            return parse_numbers(_items(self._column))
        return np.full(len(self._column), np.nan)

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
        if not (_is_text(kind) or types.is_dictionary(kind)):
            items = _items(self._column)
            return np.fromiter(items, object, len(items))
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
