"""Dates, moments and spans: neither numbers nor levels, but units may be told apart by them.

A library's own conversion of a column raises where one value is too far out for it, so that values are
converted one by one.
"""

import datetime
from typing import Any

import numpy as np
import pandas as pd

from dpstats._types import Array
from dpstats.data.values import NOT_OURS

__all__ = ["TimeColumn", "arrow_times", "nothing", "plain_time", "polars_times"]

_ARROW = {"date32[day]": ("M8[D]", "int32"), "date64[ms]": ("M8[ms]", "int64")}


class TimeColumn:
    """Times as NumPy has them, shape (rows,).

    Parameters
    ----------
    values : (rows,) array
        Of the kind ``"M"`` or ``"m"``.
    utc : bool
        Whether moments have a zone.
    days : bool
        Whether they are dates.
    """

    def __init__(self, values: Array, utc: bool = False, days: bool = False) -> None:
        self._values, self._utc, self._days = values, utc, days

    def numbers(self) -> np.ndarray:
        return np.full(len(self._values), np.nan)

    def codes(self, levels: tuple[Any, ...]) -> np.ndarray:
        return np.full(len(self._values), -1)

    def keys(self) -> np.ndarray:
        if self._days:
            items = (value.astype("M8[D]").item() for value in self._values)
            kept = (item if isinstance(item, datetime.date) else None for item in items)
        else:
            kept = (plain_time(value, self._utc) for value in self._values)
        return np.fromiter(kept, object, len(self._values))

    def take(self, rows: np.ndarray) -> "TimeColumn":
        return TimeColumn(self._values[rows], self._utc, self._days)


def plain_time(value: Any, utc: bool = False) -> Any:
    """A moment or a span as Python has it, or as pandas has it where it has nanoseconds; None if neither has
    it, as of picoseconds. Moments with a zone are in UTC, and Python's are the first of two that a clock
    shows.

    Parameters
    ----------
    value : datetime, timedelta, or one of pandas or NumPy
    utc : bool
        Whether a moment of NumPy has a zone.

    Examples
    --------
    >>> plain_time(np.datetime64("2020-01-02"))
    datetime.datetime(2020, 1, 2, 0, 0)
    >>> plain_time(np.datetime64("20000-01-02")) is None
    True
    """
    try:
        if isinstance(value, np.datetime64 | pd.Timestamp):
            moment = pd.Timestamp(value)
            if moment is pd.NaT or isinstance(value, np.datetime64) and moment.to_datetime64() != value:
                return None
            if utc:
                moment = moment.tz_localize("UTC")
            elif moment.tzinfo is not None:
                moment = moment.tz_convert("UTC")
            exact = moment.to_pydatetime(warn=False)
            return moment if moment.nanosecond else exact
        if isinstance(value, datetime.datetime) and value is not pd.NaT:
            return value if value.tzinfo is None else value.replace(fold=0).astimezone(datetime.UTC)
        if type(value) is datetime.timedelta:
            return value
        span = pd.Timedelta(value)
        return None if span is pd.NaT else span if span.nanoseconds else span.to_pytimedelta()
    except NOT_OURS:
        raise
    except BaseException:
        return None


def nothing(rows: int) -> TimeColumn:
    """A column without any value: of types that hold no number, no level and no unit."""
    return TimeColumn(np.full(rows, np.datetime64("NaT", "s")))


def arrow_times(column: Any) -> TimeColumn | None:
    """The column of a pyarrow ChunkedArray of times, None of other types. Times of day are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind = column.type
    if not types.is_temporal(kind):
        return None
    if not (types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind)):
        return nothing(len(column))
    unit, integer = _ARROW.get(str(kind), ("", "int64"))
    unit = unit or f"{'M' if types.is_timestamp(kind) else 'm'}8[{kind.unit}]"
    values = pc.cast(column, pa.type_for_alias(integer))
    missing = pc.is_null(column).to_numpy()
    times = pc.fill_null(values, 0).to_numpy().astype("i8").view(unit)
    times[missing] = "NaT"
    return TimeColumn(times, types.is_timestamp(kind) and kind.tz is not None, types.is_date(kind))


def polars_times(series: Any) -> TimeColumn | None:
    """The column of a polars Series of times, None of other types. Times of day are missing."""
    import polars as pl

    kind = series.dtype
    if not kind.is_temporal():
        return None
    if kind == pl.Time:
        return nothing(len(series))
    letter = "m" if kind == pl.Duration else "M"
    unit = "D" if kind == pl.Date else kind.time_unit
    values = series.to_physical().fill_null(0).to_numpy().astype("i8").view(f"{letter}8[{unit}]")
    values[series.is_null().to_numpy()] = "NaT"
    return TimeColumn(values, getattr(kind, "time_zone", None) is not None, kind == pl.Date)
