"""Frames whose rows are on the workers of a cluster: of Dask, and of Spark."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any

import narwhals as nw
import numpy as np

from dpstats.data.batches import BATCH_ROWS, Batch, Source, arrow_batch, describe_pandas_frame
from dpstats.data.columns import PandasColumn, describe_narwhals, untyped
from dpstats.data.guessed import check_dask, check_spark
from dpstats.data.schema import Column
from dpstats.engines.dask import DaskEngine, has_workers
from dpstats.engines.dask import check_workers as check_dask_workers
from dpstats.engines.local import fold
from dpstats.engines.partitions import Engine, Partitions, Shuffle, settled, version
from dpstats.engines.spark import SparkEngine, check_speculation
from dpstats.engines.spark import check_workers as check_spark_workers

__all__ = ["ClusterSource", "DaskSource", "SparkSource"]

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
        return Partitions(engine, functools.partial(self._blocks, names, make), passed=self._passed)

    @staticmethod
    def _blocks(names: list[str], make: Made, raw: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        raise NotImplementedError

    def gathers(self) -> bool:
        """Whether rows can be brought together on workers; it may say why not."""
        return True

    def sizes(self, by: str, levels: tuple[Any, ...]) -> list[int]:
        """The number of rows of every declared group."""

        def update(state: np.ndarray, codes: np.ndarray, Y: np.ndarray, first: int) -> None:
            declared = codes[codes >= 0].astype(np.intp)
            state += np.bincount(declared, minlength=len(levels))

        rows = _Coded(self.partitions([by], functools.partial(_codes, by, levels)))
        return [int(size) for size in fold(rows, lambda: np.zeros(len(levels), np.int64), update)]

    def gathered(
        self,
        names: Sequence[str],
        by: str,
        levels: tuple[Any, ...],
        work: Callable[[Source, range], Any],
    ) -> Iterator[Any]:
        """Gather the rows of the declared groups on workers, a range of groups in one place.

        Parameters
        ----------
        names : sequence of str
            The columns that are needed.
        by : str
            Column of the groups.
        levels : tuple
            Its declared levels; rows of any other are left out.
        work : callable
            ``work(rows, groups)``, of a source of all rows of a range of groups, by position, in the order of
            this source. What it returns travels.

        Yields
        ------
        What `work` returned, in any order.
        """
        names = [*names, *({by} - set(names))]
        engine = self._engine(names)
        self._engines.append(engine)
        buckets = min(len(levels), engine.buckets())
        there = Shuffle(
            version(),
            buckets,
            functools.partial(self._cut, names, by, levels, buckets),
            functools.partial(_gathered, self._piece, tuple(self.schema), names, len(levels), buckets, work),
        )
        for done in engine.gathered(there):
            yield settled(done).value

    @classmethod
    def _cut(
        cls, names: list[str], by: str, levels: tuple[Any, ...], buckets: int, raw: Any
    ) -> Iterator[tuple[int, Any]]:
        """The rows of a partition by bucket; a bucket has a range of groups."""
        for piece in cls._pieces(raw):
            codes = np.asarray(cls._piece(names, piece).codes(by, levels), np.int64)
            bucket = np.where(codes < 0, -1, codes * buckets // len(levels))
            for b in np.unique(bucket[bucket >= 0]):
                yield int(b), cls._taken(piece, np.flatnonzero(bucket == b))

    @staticmethod
    def _pieces(raw: Any) -> Iterator[Any]:
        raise NotImplementedError

    @staticmethod
    def _piece(names: list[str], piece: Any) -> Batch:
        raise NotImplementedError

    @staticmethod
    def _taken(piece: Any, rows: np.ndarray) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        while self._engines:
            self._engines.pop().close()
        super().close()


class _Coded:
    in_memory = False

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    @property
    def partitions(self) -> Partitions:
        return self._partitions

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        raise NotImplementedError


def _codes(by: str, levels: tuple[Any, ...], batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    codes = np.asarray(batch.codes(by, levels), float)
    return codes, codes


class _Gathered(Source):
    """Pieces of partitions, one after another."""

    in_memory = False

    def __init__(self, columns: Iterable[Column], batches: list[Batch]) -> None:
        super().__init__(columns)
        self._held = batches

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        yield from self._held


def _gathered(
    batch: Callable[[list[str], Any], Batch],
    columns: tuple[Column, ...],
    names: list[str],
    groups: int,
    buckets: int,
    work: Callable[[Source, range], Any],
    pieces: list[Any],
    bucket: int,
) -> Any:
    """What `work` returns of a bucket: of the groups ``i`` with ``i * buckets // groups == bucket``."""
    first, end = (-(-groups * b // buckets) for b in (bucket, bucket + 1))
    return work(_Gathered(columns, [batch(names, piece) for piece in pieces]), range(first, end))


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
        # (a selection is a copy)
        every = set(names) == set(self._frame.columns)
        return DaskEngine(self._frame if every else self._frame[names])

    @staticmethod
    def _blocks(names: list[str], make: Made, raw: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield make(_pandas_batch(names, raw))

    def gathers(self) -> bool:
        return has_workers()

    @staticmethod
    def _pieces(raw: Any) -> Iterator[Any]:
        yield raw

    @staticmethod
    def _piece(names: list[str], piece: Any) -> Batch:
        return _pandas_batch(names, piece)

    @staticmethod
    def _taken(piece: Any, rows: np.ndarray) -> Any:
        return piece.iloc[rows]

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
        for table in SparkSource._pieces(raw):
            yield make(arrow_batch(table, names))

    def gathers(self) -> bool:
        check_speculation(self._frame.sparkSession)
        return True

    @staticmethod
    def _pieces(raw: Any) -> Iterator[Any]:
        import pyarrow as pa

        waiting: list[Any] = []
        for batch in raw:
            waiting.append(batch)
            if sum(len(b) for b in waiting) >= BATCH_ROWS:
                yield pa.Table.from_batches(waiting)
                waiting = []
        if waiting:
            yield pa.Table.from_batches(waiting)

    @staticmethod
    def _piece(names: list[str], piece: Any) -> Batch:
        return arrow_batch(piece, names)

    @staticmethod
    def _taken(piece: Any, rows: np.ndarray) -> Any:
        return piece.take(rows)

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
