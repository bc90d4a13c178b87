"""One column of one batch, as numbers or as codes of declared levels, whatever library holds it.

Each function maps values one by one, so that what becomes of a row depends on that row alone; none raises or
warns on account of a value. (The general-purpose conversions of the libraries do: pyarrow's casts raise on values
that do not fit, pandas and narwhals look at values to decide what an object column is.)
"""

import math
import numbers as abstract
from decimal import Decimal

import numpy as np
import pandas as pd

from dpstats.schema import Column

__all__ = ["NumpyColumns", "PandasColumns"]


class NumpyColumns:
    """Columns that are NumPy arrays; those of dtype object came from lists or CSV fields, and have no type."""

    @staticmethod
    def describe(name, dtype):
        """Return the facts that a dtype states (a :class:`~dpstats.schema.Column`)."""
        kinds = {"b": "truth", "i": "number", "u": "number", "f": "number", "U": "text", "S": "text", "T": "text"}
        return Column(name, kinds.get(dtype.kind, "untyped" if dtype.kind == "O" else "unusable"), str(dtype))

    @staticmethod
    def numbers(values):
        """Return the values as a numeric array, NaN where they are missing or no numbers."""
        return parse_numbers(values) if values.dtype.kind == "O" else values

    @staticmethod
    def codes(values, levels):
        """Return the position of each value among the levels, -1 where it is none of them."""
        if values.dtype.kind == "O":
            return parse_codes(values, levels)
        if values.dtype.kind in "iufb":
            return number_codes(values, levels)
        return object_codes(values.tolist(), levels)


class PandasColumns:
    """Columns that are pandas Series."""

    @staticmethod
    def describe(name, dtype):
        api = pd.api.types
        levels = None
        if isinstance(dtype, pd.CategoricalDtype):
            kind = "text" if dtype.categories is None else "factor"
            levels = None if dtype.categories is None else tuple(dtype.categories.tolist())
        elif api.is_bool_dtype(dtype):
            kind = "truth"
        elif api.is_numeric_dtype(dtype):
            kind = "unusable" if api.is_complex_dtype(dtype) else "number"
        elif api.is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype) or _is_arrow_string(dtype):
            kind = "text"
        else:
            kind = "unusable"
        return Column(name, kind, str(dtype), levels)

    @staticmethod
    def numbers(series):
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufb":
            return series.to_numpy()
        if series.dtype == object:
            return parse_numbers(series.to_numpy())
        return series.to_numpy(dtype=np.float64, na_value=np.nan)

    @staticmethod
    def codes(series, levels):
        dtype = series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            codes = series.cat.codes.to_numpy()
            categories = dtype.categories.tolist()
            return codes if tuple(categories) == levels else recode(codes, categories, levels)
        if isinstance(dtype, np.dtype) and dtype.kind in "iufb":
            return number_codes(series.to_numpy(), levels)
        if pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype):
            return number_codes(series.to_numpy(dtype=np.float64, na_value=np.nan), levels)
        return object_codes(series.tolist(), levels)


def _is_arrow_string(dtype):
    return isinstance(dtype, pd.ArrowDtype) and pd.api.types.is_string_dtype(dtype)


def number_codes(values, levels):
    """Return the codes of a numeric or boolean array, -1 where a number is no level."""
    if not all(isinstance(v, abstract.Real) for v in levels):
        return np.full(len(values), -1)
    if values.dtype.kind == "b":
        values = values.astype(np.int8)
    exact = all(isinstance(v, int) and abs(v) < 2**63 for v in levels)
    index = pd.Index([int(v) if exact else float(v) for v in levels], dtype=np.int64 if exact else np.float64)
    return index.get_indexer(values)


def object_codes(values, levels):
    """Return the codes of a list of Python objects."""
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
    return np.fromiter((_number(v) for v in values), np.float64, len(values))


def _number(value):
    if isinstance(value, str | float | int | np.number | np.bool_ | Decimal) and not isinstance(
        value, np.complexfloating | np.timedelta64
    ):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return math.nan
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
