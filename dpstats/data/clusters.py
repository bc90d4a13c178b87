"""Frames whose rows are on the workers of a cluster: of Dask, and of Spark."""

import functools
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

import narwhals as nw
import numpy as np

from dpstats.data.batches import BATCH_ROWS, Batch, Source, arrow_batch, describe_pandas_frame
from dpstats.data.columns import PandasColumn, describe_narwhals, untyped
from dpstats.data.guessed import check_dask, check_spark
from dpstats.data.schema import Column
from dpstats.engines.dask import DaskEngine
from dpstats.engines.dask import check_workers as check_dask_workers
from dpstats.engines.partitions import Engine, Partitions
from dpstats.engines.spark import SparkEngine
from dpstats.engines.spark import check_workers as check_spark_workers

__all__ = ["DaskSource", "SparkSource"]

Made = Callable[[Batch], tuple[np.ndarray, np.ndarray]]


class ClusterSource(Source):
    """Rows on workers; :meth:`close` lets go of what they keep."""

    in_memory = False

    def __init__(self, columns: Iterable[Column]) -> None:
        super().__init__(columns)
        self._engines: list[Engine] = []

    def _engine(self, names: list[str]) -> Engine:
        raise NotImplementedError

    def partitions(self, names: list[str], make: Made) -> Partitions:
        engine = self._engine(names)
        self._engines.append(engine)
        return Partitions(engine, functools.partial(self._blocks, names, make))

    @staticmethod
    def _blocks(names: list[str], make: Made, raw: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        raise NotImplementedError

    def close(self) -> None:
        while self._engines:
            self._engines.pop().close()


class DaskSource(ClusterSource):
    def __init__(self, frame: Any) -> None:
        check_dask(frame)
        check_dask_workers()
        # dask makes texts of objects
        super().__init__(
            untyped(fact.name) if fact.dtype == "string" else fact for fact in describe_pandas_frame(frame)
        )
        self._frame = frame

    def _engine(self, names: list[str]) -> Engine:
        return DaskEngine(self._frame[names])

    @staticmethod
    def _blocks(names: list[str], make: Made, raw: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield make(_pandas_batch(names, raw))

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        frame = self._frame[names]
        for i in range(frame.npartitions):
            yield _pandas_batch(names, frame.get_partition(i).compute())


def _pandas_batch(names: list[str], frame: Any) -> Batch:
    return Batch(len(frame), {name: PandasColumn(frame[name]) for name in names})


class SparkSource(ClusterSource):
    def __init__(self, frame: Any) -> None:
        check_spark(frame)
        check_spark_workers(frame.sparkSession)
        described = nw.from_native(frame).collect_schema().items()
        super().__init__(describe_narwhals(*item) for item in described)
        self._frame = frame

    def _engine(self, names: list[str]) -> Engine:
        # (a column's name may have a dot)
        return SparkEngine(self._frame.select([f"`{name}`" for name in names]))

    @staticmethod
    def _blocks(names: list[str], make: Made, raw: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        import pyarrow as pa

        waiting: list[Any] = []
        for batch in raw:
            waiting.append(batch)
            if sum(len(b) for b in waiting) >= BATCH_ROWS:
                yield make(arrow_batch(pa.Table.from_batches(waiting), names))
                waiting = []
        if waiting:
            yield make(arrow_batch(pa.Table.from_batches(waiting), names))

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        import pyarrow as pa

        frame = self._frame.select([f"`{name}`" for name in names])
        # (rows that come one by one are slow)
        for row in frame.mapInArrow(_packed, "rows binary").toLocalIterator():
            yield arrow_batch(pa.ipc.open_stream(row["rows"]).read_all(), names)


def _packed(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"rows": [sink.getvalue().to_pybytes()]})
