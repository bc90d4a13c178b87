"""Partitions of a Dask frame: on the workers of a ``distributed`` cluster, or in this process without one."""

import functools
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.engines.kept import Kept, keep
from dpstats.engines.partitions import (
    BUCKETS,
    PIECES,
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
from dpstats.engines.shares import (
    Share,
    all_of,
    asked,
    at_once,
    by_thread,
    client_here,
    each_of,
    of_shares,
    persisted,
    placed,
    room_there,
    sent,
    size_of,
    sizes_there,
    sum_of,
)
from dpstats.errors import SchemaError

__all__ = ["DaskEngine", "check_workers", "has_workers"]

_SHARE = 0.5
"""Blocks are kept if they take at most this share of what is free on the workers' disks."""
_TOGETHER = 8
"""So many partitions that a worker has are kept by one task."""
_FAN = 8
"""So many sums are added up on a worker at a time."""
_UNREADABLE = "the data could not be read by Dask, or its workers are gone."


class DaskEngine:
    """Runs tasks on the partitions of a frame, under whatever client or scheduler is there.

    Blocks that are asked for again are kept on the workers, if they fit on their disks: as they were made,
    and as they were last mapped; or only so, if nobody needs the others. A pass over kept blocks is a message
    to each worker, which Dask does not schedule, or where one has gone a task for each of their threads.

    Parameters
    ----------
    parts : list of delayed objects
        The partitions, which must be the same each time they are computed.
    own : bool
        Whether they are on the workers, and nobody else lets go of them.
    """

    def __init__(self, parts: list[Any], own: bool = False) -> None:
        self._parts, self._own = parts, own
        self._kept: dict[Maps, list[Share]] = {}
        self._raw = ""
        self._there: list[Share] | None = None
        self._apart: list[Share] | None = None
        self._size: dict[Maps, int] = {}
        self._most: float | None = None
        self._new: list[Any] = []

    def run(self, task: Task) -> list[tuple[int, Done | Failed]]:
        return [pair for share in self._done(task, each_of) for pair in share]

    def total(self, task: Task) -> Done | Failed:
        return added(self._done(task, sum_of))

    def buckets(self) -> int:
        tasks, parts = sum(client_here().nthreads().values()), max(len(self._parts), 1)
        return max(1, min(max(BUCKETS * tasks, parts // 2), max(tasks, PIECES // parts)))

    def gathered(self, shuffle: Shuffle) -> Iterator[Done | Failed]:
        from distributed import as_completed

        client, parts = client_here(), self._buckets(shuffle, self._cut(shuffle))
        # a future that is let go of is not computed again when its worker is lost
        left = attempted(lambda: as_completed(client.compute(parts), with_results=True), _UNREADABLE)
        try:
            for _ in parts:
                yield attempted(lambda: next(left)[1], _UNREADABLE)
        finally:
            left.clear()

    def shuffled(self, shuffle: Shuffle) -> "DaskEngine":
        from dask.base import persist
        from distributed import wait

        laid, gathered = uuid.uuid4().hex, uuid.uuid4().hex
        shuffle = replace(
            shuffle,
            cut=functools.partial(_cut_to_disk, laid, shuffle.cut),
            work=functools.partial(_gathered_to_disk, gathered, shuffle.work),
        )
        cut = list(self._computed(persist, self._cut(shuffle)))
        there, buckets, some = DaskEngine([], own=True), self._buckets(shuffle, cut), at_once()
        for first in range(0, len(buckets), some):
            # what is asked for first is done first: few buckets are in memory
            there._parts += self._computed(persist, buckets[first : first + some])
        try:
            attempted(lambda: wait(there._parts), _UNREADABLE)
        except BaseException:
            there.close()
            raise
        finally:
            self._let_go(cut)
        return there

    def copy(self) -> "DaskEngine":
        return DaskEngine(self._parts)

    def _cut(self, shuffle: Shuffle) -> list[Any]:
        """A job for each partition."""
        from dask.delayed import delayed

        job, split = delayed(shuffle, pure=False, traverse=False), delayed(_split, pure=False)
        return [split(job, part) for part in self._parts]

    @staticmethod
    def _buckets(shuffle: Shuffle, cut: list[Any]) -> list[Any]:
        """A job for each bucket, of partitions that are cut."""
        from dask.delayed import delayed

        job = delayed(shuffle, pure=False, traverse=False)
        pick, gather = delayed(_picked, pure=False), delayed(_gathered, pure=False)
        return [gather(job, [pick(each, b) for each in cut], b) for b in range(shuffle.buckets)]

    def used(self, task: Task, size: int) -> None:
        self._size = {maps: known for maps, known in self._size.items() if maps in ((), task.maps)}
        self._size |= {(): size, task.maps: size}

    def close(self) -> None:
        self._release(*self._kept)
        self._let_go(self._new + (self._parts if self._own else []))
        self._size, self._new, self._own = {}, [], False
        self._there = self._apart = None

    def _release(self, *kept: Maps) -> None:
        for maps in kept:
            self._let_go([part for share in self._kept.pop(maps) for part in share.parts])

    @staticmethod
    def _let_go(parts: list[Any]) -> None:
        if client_here() is not None:
            from distributed import futures_of

            for future in futures_of(parts):
                # at once: the frames of an error may hold it for a while
                future.release()

    def _keep(self, task: Task) -> None:
        """Keep the blocks of a task: as they were made, and as mapped."""
        if task.maps in self._kept or not self._parts or (self._kept and not task.maps):
            return
        if self._most is None:
            self._most = _SHARE * attempted(room_there, _UNREADABLE)
        in_place = task.last and () in self._kept
        token = self._raw if in_place else uuid.uuid4().hex
        keeping = replace(task, work=functools.partial(keep, token))
        if not self._size:
            self._size[()] = self._first(keeping)
        # mapped blocks are about as large as they were
        size = self._size.setdefault(task.maps, self._size[()])
        self._release(*[maps for maps in self._kept if maps])
        if size > self._most:
            self._let_go(self._new)
            self._new = []
            return
        if () in self._kept and not in_place and self._size[()] + size > self._most:
            # passes over the mapped ones are the many
            self._release(())
        shares, there = self._to_keep(keeping)
        if in_place:
            there = replace(there, make=_given)
        self._new += self._started(there, shares[len(self._new) :])
        self._kept[task.maps] = attempted(lambda: placed(self._new, shares), _UNREADABLE)
        self._new = []
        if in_place:
            self._release(())
        if not task.maps:
            self._raw = token

    def _first(self, keeping: Task) -> int:
        """Start to keep the blocks as they are made; return how large they are, by one partition for each
        thread."""
        from dask.base import compute

        shares, there = self._to_keep(keeping)
        client, some = client_here(), min(at_once(), len(shares))
        # workers go on meanwhile
        self._new = self._started(there, shares if client else shares[:some])
        if client is None:
            sizes = [size_of(done) for done in self._computed(compute, self._new)]
        else:
            sizes = attempted(lambda: sizes_there(client, self._new[:some]), _UNREADABLE)
        seen = sum(len(share.numbers) for share in shares[:some])
        return sum(settled(size).size for size in sizes) * len(self._parts) // seen

    def _to_keep(self, keeping: Task) -> tuple[list[Share], Task]:
        """The shares of which blocks are kept: the first partitions one by one, others of a worker some at a
        time."""
        shares, there = self._shares(keeping)
        if () in self._kept:
            return shares, there
        if self._apart is None:
            # once: workers may come and go meanwhile
            first = at_once()
            self._apart = shares[:first] + by_thread(shares[first:], _TOGETHER)
        return self._apart, there

    def _shares(self, task: Task) -> tuple[list[Share], Task]:
        """Where the blocks of a task are, and what is left to do to them: kept ones together, others one by
        one."""
        if task.maps in self._kept:
            return self._kept[task.maps], replace(task, make=_held, maps=())
        if () in self._kept:
            return self._kept[()], replace(task, make=_held)
        if self._there is None:
            self._there = attempted(lambda: persisted(self._parts), _UNREADABLE)
        return self._there, task

    def _started(self, task: Task, shares: list[Share]) -> list[Any]:
        """What :func:`all_of` returns of every share, under way."""
        from dask.base import persist

        client = client_here()
        if client is not None and all(share.worker is not None for share in shares):
            return attempted(lambda: sent(client, task, shares, all_of), _UNREADABLE)
        return list(self._computed(persist, of_shares(task, shares, all_of)))

    def _done(self, task: Task, how: Callable[..., Any]) -> list[Any]:
        """What ``how(task, parts, numbers)`` returns of every share, or of some of them added up."""
        kept = bool(self._kept)
        try:
            self._keep(task)
            return self._passed(task, how)
        except SchemaError:
            if not (kept or self._kept):
                raise
        # whatever became of what is kept, blocks can be made again: the sums are the same
        self._release(*self._kept)
        self._let_go(self._new)
        self._new = []
        return self._passed(task, how)

    def _passed(self, task: Task, how: Callable[..., Any]) -> list[Any]:
        """The same, of what is there."""
        from dask.base import compute
        from dask.delayed import delayed

        maps, client = task.maps, client_here()
        shares, task = self._shares(task)
        if maps in self._kept and shares and all(share.worker for share in shares):
            try:
                done = attempted(lambda: asked(client, task, shares, how), _UNREADABLE)
            except SchemaError:
                # whoever has them now, or makes them again
                self._kept[maps] = shares = [share._replace(worker="") for share in shares]
            else:
                if done is not None:
                    return done
        if client is not None and all(share.worker is not None for share in shares):
            futures = attempted(lambda: sent(client, task, shares, how), _UNREADABLE)
            try:
                return list(attempted(lambda: client.gather(futures), _UNREADABLE))
            finally:
                self._let_go(futures)
        parts, together = of_shares(task, shares, how), delayed(added, pure=False)
        while how is sum_of and len(parts) > _FAN:
            parts = [together(parts[i : i + _FAN]) for i in range(0, len(parts), _FAN)]
        return list(self._computed(compute, parts))

    def _computed(self, how: Callable[..., Any], parts: list[Any]) -> Any:
        # without a cluster one after another: each uses all threads
        given = {} if client_here() is not None else {"scheduler": "synchronous"}
        return attempted(lambda: how(*parts, **given), _UNREADABLE)


def _split(shuffle: Shuffle, part: Any) -> Done | Failed:
    return shuffle.split(part)


def _picked(cut: Done | Failed, bucket: int) -> list[Any] | Failed:
    if isinstance(cut, Failed):
        return cut
    return [_lifted(piece) if isinstance(piece, Kept) else piece for piece in cut.value.get(bucket, [])]


def _gathered(shuffle: Shuffle, parts: list[list[Any] | Failed], bucket: int) -> Done | Failed:
    return shuffle.gather(parts, bucket)


def _cut_to_disk(token: str, cut: Callable[..., Any], part: Any) -> Iterator[tuple[int, Kept]]:
    for bucket, piece in cut(part):
        yield bucket, Kept(token, [(np.frombuffer(pickle.dumps(piece, 5), np.uint8), np.empty(0))])


def _lifted(piece: Kept) -> bytes:
    ((pickled, _),) = piece
    return pickled.tobytes()


def _gathered_to_disk(token: str, work: Callable[..., Any], pieces: list[bytes], bucket: int) -> Kept:
    return Kept(token, work([pickle.loads(piece) for piece in pieces], bucket))


def _held(done: Done) -> Iterable[Any]:
    blocks: Iterable[Any] = done.value
    return blocks


def _given(done: Done) -> Iterable[Any]:
    kept: Kept = done.value
    return kept.given()


def has_workers() -> bool:
    """Whether there is a cluster, and not this process alone."""
    return client_here() is not None


def check_workers() -> None:
    """Raise an ImportError unless all workers have this version of dpstats."""
    client = client_here()
    if client is None:
        return
    try:
        versions = set(client.run(version).values())
    except Exception:
        versions = {""}
    check_versions(versions, "Dask")
