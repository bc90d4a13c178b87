"""A column of pandas: see :mod:`dpstats.data.columns`."""

from typing import Any

import numpy as np
import pandas as pd

from dpstats.data.columns import ArrowColumn, NumpyColumn, Values, arrow_column, describe_arrow, untyped
from dpstats.data.schema import Column
from dpstats.data.times import TimeColumn, nothing
from dpstats.data.values import parse_numbers, plain, recode

__all__ = ["PandasColumn", "describe_pandas"]

# What dask puts in place of categories that it would have to read the data for.
_UNKNOWN_CATEGORIES = "__UNKNOWN_CATEGORIES__"


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


def _is_text_in(dtype: Any, storage: str) -> bool:
    return isinstance(dtype, pd.StringDtype) and dtype.storage == storage


def _same(column: Values) -> Values:
    return column


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
        dtype = self._series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            numbers = np.append(parse_numbers(_categories(dtype)), np.nan)
            return numbers[self._series.cat.codes.to_numpy()]
        return self._plain().numbers()

    def codes(self, levels: tuple[Any, ...]) -> np.ndarray:
        dtype = self._series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            return recode(self._series.cat.codes.to_numpy(), _categories(dtype), levels)
        return self._plain().codes(levels)

    def keys(self) -> Any:
        dtype = self._series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            items = [*_categories(dtype), None]
            return np.fromiter(items, object, len(items))[self._series.cat.codes.to_numpy()]
        if _is_text_in(dtype, "pyarrow"):
            # as they are: Arrow tells texts apart faster than Python does objects
            return self._series.array
        return self._plain().keys()

    def take(self, rows: np.ndarray) -> Values:
        if isinstance(self._series.dtype, pd.CategoricalDtype):
            return PandasColumn(self._series.iloc[rows].cat.remove_unused_categories())
        return self._plain().take(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        series, dtype = self._series, self._series.dtype
        if isinstance(dtype, pd.ArrowDtype):
            # (pandas pickles none of views, and of some other types)
            return _same, (self._plain(),)
        if isinstance(dtype, pd.CategoricalDtype) and not plain(dtype.categories):
            return NumpyColumn(self.keys()).__reduce__()
        if pd.api.types.is_object_dtype(dtype) or _is_text_in(dtype, "python"):
            return NumpyColumn(series.to_numpy(object)).__reduce__()
        # without the labels of the rows, which may be what cannot be pickled
        series = series.reset_index(drop=True).rename(None)
        series.attrs = {}
        return PandasColumn, (series,)

    def _plain(self) -> "NumpyColumn | ArrowColumn | TimeColumn":
        series, dtype = self._series, self._series.dtype
        if isinstance(dtype, np.dtype):
            return NumpyColumn(series.to_numpy())
        if isinstance(dtype, pd.ArrowDtype) or _is_text_in(dtype, "pyarrow"):
            return arrow_column(series.array)
        if isinstance(dtype, pd.BooleanDtype) or _is_nullable_number(dtype):
            missing = series.isna().to_numpy()
            values = series.to_numpy(dtype=dtype.numpy_dtype, na_value=0)
            return NumpyColumn(values, missing if missing.any() else None)
        if isinstance(dtype, pd.DatetimeTZDtype):
            return TimeColumn(series.array.asi8.view(f"M8[{dtype.unit}]"), utc=True)
        if isinstance(dtype, pd.SparseDtype):
            return _dense(series.array)
        if isinstance(dtype, pd.IntervalDtype) and not pd.api.types.is_numeric_dtype(dtype.subtype):
            # (pandas has none of those between times far out)
            return nothing(len(series))
        return NumpyColumn(series.to_numpy(dtype=object))
