"""Partitions of a Spark frame, which Arrow carries to Python on its workers."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dpstats.engines.partitions import (
    BUCKETS,
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
        rows = attempted(
            lambda: self._frame.mapInArrow(_work(task), "part int, done binary").collect(), _UNREADABLE
        )
        return [(row["part"], pickle.loads(row["done"])) for row in rows]

    def total(self, task: Task) -> Done | Failed:
        return added([done for _, done in sorted(self.run(task), key=lambda pair: pair[0])])

    def buckets(self) -> int:
        return BUCKETS * max(1, int(self._frame.sparkSession.sparkContext.defaultParallelism))

    def gathered(self, shuffle: Shuffle) -> Iterator[Done | Failed]:
        def rows() -> Any:
            pieces = self._frame.mapInArrow(_cut(shuffle), "bucket int, part int, nth int, piece binary")
            # a bucket that no row is in, too
            every = self._frame.sparkSession.range(shuffle.buckets).selectExpr(
                "cast(id as int) bucket", "-1 part", "0 nth", "cast(null as binary) piece"
            )
            # by the number's hash: a task that runs again sends the same pieces to the same place
            there = pieces.union(every).repartition(shuffle.buckets, "bucket")
            return there.mapInArrow(_gather(shuffle), "done binary").collect()

        for row in attempted(rows, _UNREADABLE):
            yield pickle.loads(row["done"])

    def used(self, task: Task, size: int) -> None:
        """(Spark keeps the frame.)"""

    def close(self) -> None:
        self._frame.unpersist()


def _work(task: Task) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def work(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        index = _partition()
        yield pa.RecordBatch.from_pydict(
            {"part": pa.array([index], pa.int32()), "done": [pickle.dumps(task(batches, index))]}
        )

    return work


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
                        "bucket": pa.array([bucket], pa.int32()),
                        "part": pa.array([part], pa.int32()),
                        "nth": pa.array([nth], pa.int32()),
                        "piece": [pickle.dumps(piece)],
                    }
                )

    return cut


def _gather(shuffle: Shuffle) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def gather(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        found: dict[int, list[tuple[int, int, Any]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                pieces = found.setdefault(row["bucket"], [])
                if row["piece"] is not None:
                    pieces.append((row["part"], row["nth"], pickle.loads(row["piece"])))
        for bucket, pieces in found.items():
            pieces.sort(key=lambda piece: piece[:2])
            done = shuffle.gather([p if bucket == _FAILED else [p] for *_, p in pieces], bucket)
            yield pa.RecordBatch.from_pydict({"done": [pickle.dumps(done)]})

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

    yield pa.RecordBatch.from_pydict({"version": [version()]})
