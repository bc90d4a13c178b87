"""Partitions of a Spark frame, which Arrow carries to Python on its workers."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dpstats.engines.partitions import Done, Failed, Task, added, attempted, check_versions, version

__all__ = ["SparkEngine", "check_workers"]


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
            lambda: self._frame.mapInArrow(_work(task), "part int, done binary").collect(),
            "the data could not be read by Spark, or its workers cannot import dpstats.",
        )
        return [(row["part"], pickle.loads(row["done"])) for row in rows]

    def total(self, task: Task) -> Done | Failed:
        return added([done for _, done in sorted(self.run(task), key=lambda pair: pair[0])])

    def used(self, task: Task, size: int) -> None:
        """(Spark keeps the frame.)"""

    def close(self) -> None:
        self._frame.unpersist()


def _work(task: Task) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def work(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        index = 0 if context is None else context.partitionId()
        yield pa.RecordBatch.from_pydict(
            {"part": pa.array([index], pa.int32()), "done": [pickle.dumps(task(batches, index))]}
        )

    return work


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
