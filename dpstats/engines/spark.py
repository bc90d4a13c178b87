"""Partitions of a Spark frame, which Arrow carries to Python on its workers."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dpstats.engines.partitions import (
    BUCKETS,
    PIECES,
    Done,
    Failed,
    Shuffle,
    Task,
    added,
    attempted,
    check_versions,
    version,
)
from dpstats.errors import SchemaError

__all__ = ["SparkEngine", "check_speculation", "check_workers"]

_UNREADABLE = "the data could not be read by Spark, or its workers cannot import dpstats."
_FAILED = -1
"""The bucket of what could not be read."""


class SparkEngine:
    """Runs tasks on the partitions of a frame, by ``mapInArrow``.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Of the columns that are needed; kept on the workers, in memory or on disk, until :meth:`close`. Its
        partitions must be the same each time they are computed.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame.persist()

    def run(self, task: Task) -> list[tuple[int, Done | Failed]]:
        rows = attempted(lambda: self._mapped(task, "part int, done binary").collect(), _UNREADABLE)
        return [(row["part"], pickle.loads(row["done"])) for row in rows]

    def _mapped(self, task: Task, columns: str) -> Any:
        return self._frame.mapInArrow(_work(task), columns)

    def total(self, task: Task) -> Done | Failed:
        return added([done for _, done in sorted(self.run(task), key=lambda pair: pair[0])])

    def _at_once(self) -> int:
        return max(1, int(self._frame.sparkSession.sparkContext.defaultParallelism))

    def buckets(self) -> int:
        at_once = self._at_once()
        parts = max(1, attempted(lambda: int(self._frame.rdd.getNumPartitions()), _UNREADABLE))
        return min(max(BUCKETS * at_once, parts // 2), max(at_once, PIECES // parts))

    def gathered(self, shuffle: Shuffle) -> Iterator[Done | Failed]:
        for row in attempted(lambda: self._buckets(shuffle).collect(), _UNREADABLE):
            yield pickle.loads(row["done"])

    def shuffled(self, shuffle: Shuffle) -> "SparkEngine":
        return attempted(lambda: _SparkBuckets(self._buckets(shuffle)), _UNREADABLE)

    def copy(self) -> "SparkEngine":
        # (it keeps no blocks)
        return self

    def _buckets(self, shuffle: Shuffle) -> Any:
        """A row for each bucket: its number, and what is done to it."""
        pieces = self._frame.mapInArrow(_cut(shuffle), "part int, bucket int, nth int, piece binary")
        # a bucket that no row is in, too
        every = self._frame.sparkSession.range(shuffle.buckets).selectExpr(
            "-1 part", "cast(id as int) bucket", "0 nth", "cast(null as binary) piece"
        )
        # by the number's hash: a task that runs again sends the same pieces to the same place
        there = pieces.union(every).repartition(shuffle.buckets, "bucket")
        return there.mapInArrow(_gather(shuffle), "part int, done binary")

    def used(self, task: Task, size: int) -> None:
        """(Spark keeps the frame.)"""

    def close(self) -> None:
        self._frame.unpersist()


class _SparkBuckets(SparkEngine):
    """Runs tasks on what a shuffle made of every bucket."""

    def _mapped(self, task: Task, columns: str) -> Any:
        # a task takes its buckets one after another: to start it takes longer than a short pass
        return self._frame.coalesce(self._at_once()).mapInArrow(_work_on_buckets(task), columns)


def _work(task: Task) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def work(batches: Iterable[Any]) -> Iterator[Any]:
        yield _row(index := _partition(), task(batches, index))

    return work


def _work_on_buckets(task: Task) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def work(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number, done in zip(batch["part"].to_pylist(), batch["done"], strict=True):
                made = pickle.loads(done.as_buffer())
                yield _row(number, made if isinstance(made, Failed) else task(made, number))

    return work


def _row(part: int, done: Done | Failed) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32()), "done": [pickle.dumps(done)]})


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _cut(shuffle: Shuffle) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def cut(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        part, done = _partition(), shuffle.split(batches)
        found = [(_FAILED, [done])] if isinstance(done, Failed) else sorted(done.value.items())
        for bucket, pieces in found:
            for nth, piece in enumerate(pieces):
                yield pa.RecordBatch.from_pydict(
                    {
                        "part": pa.array([part], pa.int32()),
                        "bucket": pa.array([bucket], pa.int32()),
                        "nth": pa.array([nth], pa.int32()),
                        "piece": [pickle.dumps(piece)],
                    }
                )

    return cut


def _gather(shuffle: Shuffle) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def gather(batches: Iterable[Any]) -> Iterator[Any]:
        found: dict[int, list[tuple[int, int, Any]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                pieces = found.setdefault(row["bucket"], [])
                if row["piece"] is not None:
                    pieces.append((row["part"], row["nth"], pickle.loads(row["piece"])))
        for bucket, pieces in found.items():
            pieces.sort(key=lambda piece: piece[:2])
            yield _row(bucket, shuffle.gather([p if bucket == _FAILED else [p] for *_, p in pieces], bucket))

    return gather


def check_speculation(session: Any) -> None:
    """Raise a SchemaError if Spark may run a task twice and take what is done first: that may depend on what
    was drawn."""
    if str(session.sparkContext.getConf().get("spark.speculation", "false")).lower() == "true":
        raise SchemaError("by= needs spark.speculation to be false: groups are released on the workers.")


def check_workers(session: Any) -> None:
    """Raise an ImportError unless workers have this version of dpstats."""
    try:
        rows = session.range(2, numPartitions=2).mapInArrow(_versions, "version string").collect()
        versions = {row["version"] for row in rows}
    except Exception:
        versions = {""}
    check_versions(versions, "Spark (PYSPARK_PYTHON says which Python they run)")


def _versions(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    # (a worker that has not read all that it was given ends, and the next task waits for a new one's imports)
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"version": [version()]})
