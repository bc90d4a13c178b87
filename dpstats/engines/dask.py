"""Partitions of a Dask frame: on the workers of a ``distributed`` cluster, or in this process without one."""

import os
from collections.abc import Callable, Iterable
from typing import Any

from dpstats.engines.partitions import Done, Failed, Task, added, check_versions, version
from dpstats.errors import SchemaError

__all__ = ["DaskEngine", "check_workers"]

_SHARE = 0.3
"""Blocks are kept if they take at most this share of the workers' memory."""
_FAN = 8
"""So many sums are added up on a worker at a time."""


class DaskEngine:
    """Runs tasks on the partitions of a frame, under whatever client or scheduler is there.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        Its partitions must be the same each time they are computed.
    """

    def __init__(self, frame: Any) -> None:
        self._parts: list[Any] = frame.to_delayed()
        self._held: list[Any] | None = None
        self._asked = False

    def run(self, task: Task) -> list[tuple[int, Done | Failed]]:
        from dask.base import compute

        return list(enumerate(self._computed(compute, self._jobs(task))))

    def total(self, task: Task) -> Done | Failed:
        from dask.base import compute
        from dask.delayed import delayed

        parts, together = self._jobs(task), delayed(added, pure=False)
        while len(parts) > 1:
            parts = [together(parts[i : i + _FAN]) for i in range(0, len(parts), _FAN)]
        (total,) = self._computed(compute, parts)
        done: Done | Failed = total
        return done

    def hold(self, make: Callable[[Any], Iterable[Any]], size: int) -> bool:
        from dask.base import persist

        if not self._asked:
            self._asked = True
            if size <= _SHARE * _memory():
                task = Task(version(), make, (), _blocks)
                self._held = list(self._computed(persist, self._jobs(task)))
        return self._held is not None

    def close(self) -> None:
        self._held = None

    def _jobs(self, task: Task) -> list[Any]:
        from dask.delayed import delayed

        # one copy of the task for all partitions
        job = delayed(task, pure=False, traverse=False)
        if self._held is None:
            raw = delayed(_on_raw, pure=False)
            return [raw(job, part, i) for i, part in enumerate(self._parts)]
        kept = delayed(_on_held, pure=False)
        return [kept(job, part, i) for i, part in enumerate(self._held)]

    def _computed(self, how: Callable[..., Any], parts: list[Any]) -> Any:
        try:
            return how(*parts)
        except Exception:
            # what went wrong may hold data; a worker that is gone comes here after some more attempts
            pass
        raise SchemaError("the data could not be read by Dask, or its workers are gone.")


def _on_raw(task: Task, raw: Any, index: int) -> Done | Failed:
    return task(raw, index)


def _on_held(task: Task, held: Done | Failed, index: int) -> Done | Failed:
    if isinstance(held, Failed):
        return held
    return Task(task.version, iter, task.maps, task.work)(held.value, index)


def _blocks(blocks: Iterable[Any], index: int) -> list[Any]:
    return list(blocks)


def _client() -> Any:
    """The client that Dask would use, or None."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def _memory() -> float:
    """Memory of the workers in bytes, as far as it is known."""
    client = _client()
    if client is None:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return float(sum(worker["memory_limit"] or 0 for worker in workers))


def check_workers() -> None:
    """Raise an ImportError unless all workers have this version of dpstats."""
    client = _client()
    if client is None:
        return
    try:
        versions = set(client.run(version).values())
    except Exception:
        versions = {""}
    check_versions(versions, "Dask")
