"""A column of polars: see :mod:`dpstats.data.columns`."""

import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpstats.data.columns import NumpyColumn, is_text_level
from dpstats.data.times import TimeColumn, nothing, polars_times
from dpstats.data.values import object_codes

__all__ = ["PolarsColumn", "polars_batches", "polars_values"]


def polars_batches(frame: Any, rows: int) -> Iterator[Any]:
    """Yield the rows of a lazy frame as frames, in their order, or raise what stops its query.

    (``collect_batches`` of polars ends without an error where its own code panics.)
    """
    if not hasattr(frame, "sink_batches"):  # polars before 1.34
        yield from frame.collect().iter_slices(rows)
        return
    made: queue.Queue[Any] = queue.Queue(2)
    left = threading.Event()

    def put(item: Any) -> bool:
        """Whether nobody takes it any more."""
        while not left.is_set():
            try:
                made.put(item, timeout=0.1)
                return False
            except queue.Full:
                pass
        return True

    def query() -> None:
        try:
            frame.sink_batches(put, chunk_size=rows, maintain_order=True, engine="streaming")
            put(None)
        except BaseException as error:
            put(error)

    threading.Thread(target=query, daemon=True).start()
    try:
        while (item := made.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        left.set()


def polars_values(series: Any) -> "PolarsColumn | TimeColumn":
    """A column of a polars Series."""
    if series.dtype.is_nested():
        return nothing(len(series))
    return polars_times(series) or PolarsColumn(series)


class PolarsColumn:
    """A polars Series."""

    def __init__(self, series: Any) -> None:
        self._series = series

    def numbers(self) -> np.ndarray:
        import polars as pl

        dtype = self._series.dtype
        # (a cast of decimals, whose scale goes by all of them, is not correctly rounded in polars 1)
        if dtype.is_integer() and not _has_numpy(dtype):
            return self._series.cast(pl.Float64, strict=False).to_numpy()
        return self._plain().numbers()

    def codes(self, levels: tuple[Any, ...]) -> np.ndarray:
        import polars as pl

        series = self._series
        if isinstance(series.dtype, pl.Enum | pl.Categorical | pl.String):
            series = series.cast(pl.String)
            if not all(is_text_level(v) for v in levels):
                return object_codes(series.to_list(), levels)
            codes = series.cast(pl.Enum(levels), strict=False).to_physical()
            return codes.cast(pl.Int64).fill_null(-1).to_numpy()
        return self._plain().codes(levels)

    def keys(self) -> np.ndarray:
        if _has_numpy(self._series.dtype):
            return self._plain().keys()
        items = self._series.to_list()
        return np.fromiter(items, dtype=object, count=len(items))

    def take(self, rows: np.ndarray) -> "PolarsColumn":
        import polars as pl

        series = self._series
        if isinstance(series.dtype, pl.Enum | pl.Categorical):
            # all its categories would come along
            series = series.cast(pl.String)
        return PolarsColumn(series.gather(rows))

    def __reduce__(self) -> tuple[Any, ...]:
        import polars as pl

        # (polars pickles no objects of Python)
        is_object = self._series.dtype == pl.Object
        return self._plain().__reduce__() if is_object else (PolarsColumn, (self._series,))

    def _plain(self) -> NumpyColumn:
        import polars as pl

        series, dtype = self._series, self._series.dtype
        if not _has_numpy(dtype):
            items = series.to_list()
            return NumpyColumn(np.fromiter(items, dtype=object, count=len(items)))
        if series.null_count() == 0:
            return NumpyColumn(series.to_numpy())
        if dtype.is_float():
            return NumpyColumn(series.fill_null(float("nan")).to_numpy())
        filled = series.fill_null(False if dtype == pl.Boolean else 0)
        return NumpyColumn(filled.to_numpy(), series.is_null().to_numpy())


def _has_numpy(dtype: Any) -> bool:
    import polars as pl

    return (dtype.is_integer() and "128" not in str(dtype)) or dtype.is_float() or dtype == pl.Boolean
