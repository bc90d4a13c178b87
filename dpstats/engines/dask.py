"""Partitions of a Dask frame: on the workers of a ``distributed`` cluster, or in this process without one."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from dpstats.engines.partitions import (
    BUCKETS,
    Done,
    Failed,
    Maps,
    Shuffle,
    Task,
    added,
    attempted,
    check_versions,
    settled,
    version,
)

__all__ = ["DaskEngine", "check_workers", "has_workers"]

_SHARE = 0.25
"""Blocks are kept if they take at most this share of the workers' memory."""
_FAN = 8
"""So many sums are added up on a worker at a time."""
_PIECES = 100_000
"""The most pieces that rows are cut into, unless that leaves workers without a bucket."""
_UNREADABLE = "the data could not be read by Dask, or its workers are gone."


class DaskEngine:
    """Runs tasks on the partitions of a frame, under whatever client or scheduler is there.

    Blocks that are asked for again are kept on the workers, if they fit there: as they were made, and as they
    were last mapped.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        Its partitions must be the same each time they are computed.
    """

    def __init__(self, frame: Any) -> None:
        self._parts: list[Any] = frame.to_delayed()
        self._kept: dict[Maps, list[Any]] = {}
        self._size: dict[Maps, int] = {}

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

    def buckets(self) -> int:
        at_once = sum(_client().nthreads().values())
        return max(1, min(BUCKETS * at_once, max(at_once, _PIECES // max(len(self._parts), 1))))

    def gathered(self, shuffle: Shuffle) -> Iterator[Done | Failed]:
        from dask.delayed import delayed
        from distributed import as_completed

        client = _client()
        job = delayed(shuffle, pure=False, traverse=False)
        split, pick, gather = (delayed(step, pure=False) for step in (_split, _picked, _gathered))
        cut = [split(job, part) for part in self._parts]
        parts = [gather(job, [pick(each, b) for each in cut], b) for b in range(shuffle.buckets)]
        # a future that is let go of is not computed again when its worker is lost
        left = attempted(lambda: as_completed(client.compute(parts), with_results=True), _UNREADABLE)
        try:
            for _ in parts:
                yield attempted(lambda: next(left)[1], _UNREADABLE)
        finally:
            left.clear()

    def used(self, task: Task, size: int) -> None:
        self._size = {maps: known for maps, known in self._size.items() if maps in ((), task.maps)}
        self._size |= {(): size, task.maps: size}

    def close(self) -> None:
        self._kept, self._size = {}, {}

    def _keep(self, task: Task) -> None:
        """Keep the blocks of a task: as they were made, and as mapped if they were asked for before."""
        from dask.base import compute, persist

        if not self._size and self._parts:
            # before the first pass: as many times the first partition's
            (first,) = self._computed(compute, self._jobs(replace(task, maps=(), work=_no_blocks), 1))
            self._size[()] = settled(first).size * len(self._parts)
        if task.maps in self._kept or task.maps not in self._size or (self._kept and not task.maps):
            return
        kept, most = {maps: parts for maps, parts in self._kept.items() if not maps}, _SHARE * _memory()
        if self._size[task.maps] > most:
            return
        new = list(self._computed(persist, self._jobs(replace(task, work=_blocks))))
        if sum(self._size[maps] for maps in {*kept, task.maps}) > most:
            # passes over the mapped ones are the many
            kept = {}
        self._kept = kept | {task.maps: new}

    def _jobs(self, task: Task, first: int | None = None) -> list[Any]:
        from dask.delayed import delayed

        if task.work not in (_blocks, _no_blocks):
            self._keep(task)
        parts = self._parts[:first]
        if task.maps in self._kept:
            parts, task = self._kept[task.maps], replace(task, make=_held, maps=())
        elif () in self._kept:
            parts, task = self._kept[()], replace(task, make=_held)
        # one copy of the task for all partitions
        job, on = delayed(task, pure=False, traverse=False), delayed(_on, pure=False)
        return [on(job, part, i) for i, part in enumerate(parts)]

    def _computed(self, how: Callable[..., Any], parts: list[Any]) -> Any:
        # without a cluster one after another: each uses all threads
        given = {} if _client() is not None else {"scheduler": "synchronous"}
        return attempted(lambda: how(*parts, **given), _UNREADABLE)


def _on(task: Task, part: Any, index: int) -> Done | Failed:
    return part if isinstance(part, Failed) else task(part, index)


def _split(shuffle: Shuffle, part: Any) -> Done | Failed:
    return shuffle.split(part)


def _picked(cut: Done | Failed, bucket: int) -> list[Any] | Failed:
    return cut if isinstance(cut, Failed) else cut.value.get(bucket, [])


def _gathered(shuffle: Shuffle, parts: list[list[Any] | Failed], bucket: int) -> Done | Failed:
    return shuffle.gather(parts, bucket)


def _held(done: Done) -> Iterable[Any]:
    blocks: Iterable[Any] = done.value
    return blocks


def _blocks(blocks: Iterable[Any], index: int) -> list[Any]:
    return list(blocks)


def _no_blocks(blocks: Iterable[Any], index: int) -> None:
    for _ in blocks:
        pass


def _client() -> Any:
    """The client that Dask would use, or None."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def has_workers() -> bool:
    """Whether there is a cluster, and not this process alone."""
    return _client() is not None


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
