"""Frames whose rows are on the workers of a cluster: of Dask, and of Spark."""

import functools
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from dpstats.data.batches import BATCH_ROWS, Batch, Source, arrow_batch, describe_pandas_frame, read_safely
from dpstats.data.columns import describe_narwhals, untyped
from dpstats.data.guessed import check_dask, check_spark
from dpstats.data.pandas_column import PandasColumn
from dpstats.data.schema import Column, nameless
from dpstats.data.units import UnitRows, bucket_of_unit
from dpstats.engines.dask import DaskEngine, has_workers
from dpstats.engines.dask import check_workers as check_dask_workers
from dpstats.engines.local import There, fold, rows_of
from dpstats.engines.partitions import Done, Engine, Partitions, Shuffle, settled, version
from dpstats.engines.spark import SparkEngine, check_speculation
from dpstats.engines.spark import check_workers as check_spark_workers

__all__ = ["Bucket", "ClusterSource", "DaskSource", "SparkSource", "UnitBuckets"]

Block = tuple[np.ndarray, np.ndarray]
Made = Callable[[Batch], Block]


class ClusterSource(Source):
    """Rows on workers; :meth:`close` lets go of what they keep."""

    in_memory, foreign = False, True

    def __init__(self, columns: Iterable[Column], nameless: bool = False) -> None:
        super().__init__(columns, nameless)
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

    def has_workers(self) -> bool:
        """Whether rows can be brought together on workers."""
        return True

    def gathers(self) -> bool:
        """Whether groups can be released there, too; it may say why not."""
        return self.has_workers()

    def sizes(self, by: str, levels: tuple[Any, ...]) -> list[int]:
        """The number of rows of every declared group."""

        def update(state: np.ndarray, codes: np.ndarray, Y: np.ndarray, first: int) -> None:
            declared = codes[codes >= 0].astype(np.intp)
            state += np.bincount(declared, minlength=len(levels))

        rows = There(self.partitions([by], functools.partial(_codes, by, levels)))
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
            functools.partial(self._cut, names, functools.partial(_bucket_of_group, by, levels, buckets)),
            functools.partial(_gathered, self._piece, tuple(self.schema), names, len(levels), buckets, work),
        )
        for done in engine.gathered(there):
            yield settled(done).value

    def shuffled(self, names: list[str], unit: str, coded: frozenset[str], key: str) -> Engine:
        """An engine with the rows in buckets of whole units, pickled."""
        engine = self._engine(names)
        self._engines.append(engine)
        buckets = engine.buckets()
        place = functools.partial(_bucket_of_unit, unit, key, buckets)
        given = self._piece, tuple(self.schema), names, coded, unit, key
        work = functools.partial(_sorted_units, *given)
        return engine.shuffled(Shuffle(version(), buckets, functools.partial(self._cut, names, place), work))

    @classmethod
    def _cut(
        cls, names: list[str], place: Callable[[Batch], np.ndarray], raw: Any
    ) -> Iterator[tuple[int, Any]]:
        """The rows of a partition by the bucket in which each is placed; those in none are dropped."""
        for piece in cls._pieces(raw):
            bucket = place(cls._piece(names, piece))
            for b in np.unique(bucket[bucket >= 0]):
                yield int(b), piece.take(np.flatnonzero(bucket == b))

    @staticmethod
    def _pieces(raw: Any) -> Iterator[Any]:
        raise NotImplementedError

    @staticmethod
    def _piece(names: list[str], piece: Any) -> Batch:
        raise NotImplementedError

    def close(self) -> None:
        while self._engines:
            self._engines.pop().close()
        super().close()


class UnitBuckets:
    """The rows of a frame on workers in buckets of whole units, where they stay until :meth:`close`.

    The units of a bucket are in the order of keyed hashes, and so are the buckets.

    Parameters
    ----------
    source : ClusterSource
    names, coded, unit, key
        As of :class:`~dpstats.data.units.UnitParts`.

    Notes
    -----
    **Privacy.** The bucket of a row is a function of its unit alone, the same for values that compare equal
    and in every process: all rows of a unit are in one bucket. Argument: ``docs/privacy/unit.md``.
    """

    in_memory = False

    def __init__(
        self, source: ClusterSource, names: Collection[str], coded: Collection[str], unit: str, key: str
    ) -> None:
        self.schema, self._passed = source.schema, source._passed
        every = [*names, *({unit} - set(names))]
        self._engines = [source.shuffled(every, unit, frozenset({*coded, unit}), key)]

    def partitions(self, make: Callable[["Bucket"], Iterable[Block]]) -> Partitions:
        """Blocks that are made of every bucket."""
        self._engines.append(self._engines[0].copy())
        return Partitions(self._engines[-1], functools.partial(_of_bucket, make), passed=self._passed)

    def sizes(self) -> list[int]:
        """The number of units in each bucket."""
        return self.partitions(_no_columns).run(rows_of)

    def close(self) -> None:
        """Let go of the rows."""
        while self._engines:
            self._engines.pop().close()


@dataclass(frozen=True)
class Bucket:
    """The rows of some units, and the number of their bucket."""

    number: int
    rows: UnitRows


def _of_bucket(make: Callable[[Bucket], Iterable[Block]], done: Done) -> Iterable[Block]:
    ((pickled, _),) = done.value
    return make(pickle.loads(pickled))


def _no_columns(bucket: Bucket) -> Iterator[Block]:
    none = np.empty((bucket.rows.size, 0))
    yield none, none


def _bucket_of_group(by: str, levels: tuple[Any, ...], buckets: int, batch: Batch) -> np.ndarray:
    """A bucket has a range of groups."""
    codes = np.asarray(batch.codes(by, levels), np.int64)
    return np.where(codes < 0, -1, codes * buckets // len(levels))


def _bucket_of_unit(unit: str, key: str, buckets: int, batch: Batch) -> np.ndarray:
    return bucket_of_unit(batch.keys(unit), key, buckets)


def _sorted_units(
    batch: Callable[[list[str], Any], Batch],
    columns: tuple[Column, ...],
    names: list[str],
    coded: frozenset[str],
    unit: str,
    key: str,
    pieces: list[Any],
    bucket: int,
) -> list[Block]:
    """A :class:`Bucket` of pieces of partitions, sorted and pickled."""
    source = _Gathered(columns, [batch(names, piece) for piece in pieces])
    rows = UnitRows(source, names, coded, unit, key)
    rows.together  # noqa: B018  (sorts them)
    return [(np.frombuffer(pickle.dumps(Bucket(bucket, rows), 5), np.uint8), np.empty(0))]


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
        read_safely(lambda: check_dask(frame))
        check_dask_workers()
        # dask makes texts of objects
        facts = [untyped(c.name) if c.dtype == "string" else c for c in describe_pandas_frame(frame)]
        super().__init__(facts, nameless(frame.columns))
        self._frame = frame

    def _engine(self, names: list[str]) -> Engine:
        # (a selection is a copy)
        every = set(names) == set(self._frame.columns)
        return DaskEngine((self._frame if every else self._frame[names]).to_delayed())

    @staticmethod
    def _blocks(names: list[str], make: Made, raw: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield make(_pandas_batch(names, raw))

    def has_workers(self) -> bool:
        return has_workers()

    @staticmethod
    def _pieces(raw: Any) -> Iterator[Any]:
        # (columns travel where the labels of rows, and some objects, do not)
        yield _pandas_batch(list(raw.columns), raw)

    @staticmethod
    def _piece(names: list[str], piece: Any) -> Batch:
        batch: Batch = piece
        return batch

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        from dask.delayed import delayed

        for part in self._frame[names].to_delayed():
            # (as in `_pieces`)
            yield delayed(_pandas_batch)(names, part).compute()


def _pandas_batch(names: list[str], frame: Any) -> Batch:
    return Batch(len(frame), {name: PandasColumn(frame[name]) for name in names})


class SparkSource(ClusterSource):
    def __init__(self, frame: Any) -> None:
        read_safely(lambda: check_spark(frame))
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
