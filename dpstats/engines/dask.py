"""Partitions of a Dask frame: on the workers of a ``distributed`` cluster, or in this process without one."""

import functools
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dpstats.engines.kept import Kept, keep, room
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
from dpstats.errors import SchemaError

__all__ = ["DaskEngine", "check_workers", "has_workers"]

_SHARE = 0.5
"""Blocks are kept if they take at most this share of what is free on the workers' disks."""
_AHEAD = 3
"""So many times as many partitions are kept before it is known whether all fit, as run at a time."""
_NAMES = 3
"""So many names a future of a persisted frame may have."""
_FAN = 8
"""So many sums are added up on a worker at a time."""
_UNREADABLE = "the data could not be read by Dask, or its workers are gone."


class DaskEngine:
    """Runs tasks on the partitions of a frame, under whatever client or scheduler is there.

    Blocks that are asked for again are kept on the workers' disks, if they fit there: as they were made, and
    as they were last mapped; or only so, if nobody needs the others. A pass over kept blocks is one task for
    each thread of a worker.

    Parameters
    ----------
    parts : list of delayed objects
        The partitions, which must be the same each time they are computed.
    own : bool
        Whether they are on the workers, and nobody else lets go of them.
    """

    def __init__(self, parts: list[Any], own: bool = False) -> None:
        self._parts, self._own = parts, own
        self._kept: dict[Maps, list[_Share]] = {}
        self._raw = ""
        self._there: list[_Share] | None = None
        self._size: dict[Maps, int] = {}
        self._most: float | None = None
        self._new: list[Any] = []

    def run(self, task: Task) -> list[tuple[int, Done | Failed]]:
        return [pair for share in self._done(task, _each) for pair in share]

    def total(self, task: Task) -> Done | Failed:
        return added(self._done(task, _sum))

    def buckets(self) -> int:
        at_once, parts = sum(_client().nthreads().values()), max(len(self._parts), 1)
        return max(1, min(max(BUCKETS * at_once, parts // 2), max(at_once, PIECES // parts)))

    def gathered(self, shuffle: Shuffle) -> Iterator[Done | Failed]:
        from distributed import as_completed

        client, parts = _client(), self._buckets(shuffle, self._cut(shuffle))
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
        there, buckets, some = DaskEngine([], own=True), self._buckets(shuffle, cut), _at_once()
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
        self._size, self._new, self._own, self._there = {}, [], False, None

    def _release(self, *kept: Maps) -> None:
        for maps in kept:
            self._let_go([part for share in self._kept.pop(maps) for part in share.parts])

    @staticmethod
    def _let_go(parts: list[Any]) -> None:
        if _client() is not None:
            from distributed import futures_of

            for future in futures_of(parts):
                # at once: the frames of an error may hold it for a while
                future.release()

    def _keep(self, task: Task) -> None:
        """Keep the blocks of a task: as they were made, and as mapped."""
        if task.maps in self._kept or not self._parts or (self._kept and not task.maps):
            return
        if self._most is None:
            self._most = _SHARE * attempted(_room, _UNREADABLE)
        in_place = task.last and () in self._kept
        token = self._raw if in_place else uuid.uuid4().hex
        keeping = replace(task, work=functools.partial(keep, token))
        if not self._size:
            # before the first pass: what some partitions take, one for each thread; meanwhile, some others
            shares, there = self._shares(keeping)
            self._new = self._started(there, shares[: _AHEAD * _at_once()])
            sizes = self._sizes(self._new[: _at_once()])
            self._size[()] = sum(sizes) * len(shares) // len(sizes)
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
        shares, there = self._shares(keeping)
        if in_place:
            there = replace(there, make=_given)
        self._new += self._started(there, shares[len(self._new) :])
        together = () in self._kept
        self._kept[task.maps] = attempted(lambda: _placed(self._new, shares, together), _UNREADABLE)
        self._new = []
        if in_place:
            self._release(())
        if not task.maps:
            self._raw = token

    def _sizes(self, parts: list[Any]) -> list[int]:
        from dask.base import compute
        from dask.delayed import delayed

        size = delayed(_size, pure=False)
        return [settled(done).size for done in self._computed(compute, [size(part) for part in parts])]

    def _shares(self, task: Task) -> tuple[list["_Share"], Task]:
        """Where the blocks of a task are, and what is left to do to them: kept ones together, others one by
        one."""
        if task.maps in self._kept:
            return self._kept[task.maps], replace(task, make=_held, maps=())
        if () in self._kept:
            return self._kept[()], replace(task, make=_held)
        if self._there is None:
            self._there = attempted(lambda: _persisted(self._parts), _UNREADABLE)
        return self._there, task

    def _started(self, task: Task, shares: list["_Share"]) -> list[Any]:
        """What :func:`_all` returns of every share, under way."""
        from dask.base import persist

        client = _client()
        if client is not None and all(share.worker is not None for share in shares):
            return attempted(lambda: _sent(client, task, shares, _all), _UNREADABLE)
        return list(self._computed(persist, _of_shares(task, shares, _all)))

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

        shares, task = self._shares(task)
        client = _client()
        if client is not None and all(share.worker is not None for share in shares):
            sent = attempted(lambda: _sent(client, task, shares, how), _UNREADABLE)
            try:
                return list(attempted(lambda: client.gather(sent), _UNREADABLE))
            finally:
                self._let_go(sent)
        parts, together = _of_shares(task, shares, how), delayed(added, pure=False)
        while how is _sum and len(parts) > _FAN:
            parts = [together(parts[i : i + _FAN]) for i in range(0, len(parts), _FAN)]
        return list(self._computed(compute, parts))

    def _computed(self, how: Callable[..., Any], parts: list[Any]) -> Any:
        # without a cluster one after another: each uses all threads
        given = {} if _client() is not None else {"scheduler": "synchronous"}
        return attempted(lambda: how(*parts, **given), _UNREADABLE)


class _Share(NamedTuple):
    """Some partitions, or lists of them, and their numbers; of futures the worker that has them, empty if
    none has."""

    parts: list[Any]
    numbers: list[int]
    worker: str | None = None


def _of_shares(task: Task, shares: list[_Share], how: Callable[..., Any]) -> list[Any]:
    """A job for each share."""
    from dask.delayed import delayed

    # one copy of the task for all of them
    job, on = delayed(task, pure=False, traverse=False), delayed(how, pure=False)
    return [on(job, share.parts, share.numbers) for share in shares]


def _sent(client: Any, task: Task, shares: list[_Share], how: Callable[..., Any]) -> list[Any]:
    """The same as futures, on the workers that have the shares; if one is lost any other will do.

    A graph of Dask would take longer to make than a short pass.
    """
    at: dict[str | None, list[int]] = {}
    for i, share in enumerate(shares):
        at.setdefault(share.worker, []).append(i)
    futures: dict[int, Any] = {}
    for worker, here in at.items():
        # (at once: the scheduler takes a millisecond for what is submitted alone)
        sent = client.map(
            functools.partial(how, task),
            [shares[i].parts for i in here],
            [shares[i].numbers for i in here],
            workers=[worker] if worker else None,
            allow_other_workers=True,
            pure=False,
        )
        futures |= zip(here, sent, strict=True)
    return [futures[i] for i in range(len(shares))]


def _each(task: Task, parts: list[Any], numbers: list[int]) -> list[tuple[int, Done | Failed]]:
    # (what was kept comes in lists)
    flat = [part for some in parts for part in (some if isinstance(some, list) else [some])]
    return [
        (i, part if isinstance(part, Failed) else task(part, i))
        for part, i in zip(flat, numbers, strict=True)
    ]


def _all(task: Task, parts: list[Any], numbers: list[int]) -> list[Done | Failed]:
    return [done for _, done in _each(task, parts, numbers)]


def _sum(task: Task, parts: list[Any], numbers: list[int]) -> Done | Failed:
    return added(_all(task, parts, numbers))


def _persisted(parts: list[Any]) -> list[_Share]:
    """A share for each partition: a future and its worker if all of them are persisted.

    Dask, which does not know yet how long a task takes, would send some of them to others.
    """
    shares, client = [_Share([part], [i]) for i, part in enumerate(parts)], _client()
    if client is None:
        return shares
    from distributed import Future

    futures = []
    for part in parts:
        value = part.dask.get(part.key)
        for _ in range(_NAMES):
            name = getattr(value, "target", value)
            if isinstance(name, tuple) and name and isinstance(name[0], str):
                value = part.dask.get(name)
        if not isinstance(value, Future) or not value.done():
            return shares
        futures.append(value)
    at = client.who_has(futures)
    return [_Share([future], [i], next(iter(at.get(future.key, ())), "")) for i, future in enumerate(futures)]


def _placed(parts: list[Any], shares: list[_Share], together: bool) -> list[_Share]:
    """What was started of some shares, by where it is: a share for each thread of a worker that has some, as
    they are if they are `together`."""
    client = _client()
    if client is None:
        return [_Share(parts, [i for share in shares for i in share.numbers])]
    if together:
        return [_Share([part], *share[1:]) for part, share in zip(parts, shares, strict=True)]
    from distributed import futures_of, wait

    futures = [futures_of(part)[0] for part in parts]
    wait(futures)
    at, threads = client.who_has(futures), client.nthreads()
    there: dict[str, list[int]] = {}
    for position, future in enumerate(futures):
        there.setdefault(next(iter(at.get(future.key, ())), ""), []).append(position)
    return [
        _Share([futures[p] for p in own], [i for p in own for i in shares[p].numbers], worker)
        for worker, held in there.items()
        for k in range(threads.get(worker, 1))
        if (own := held[k :: threads.get(worker, 1)])
    ]


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


def _size(parts: list[Done | Failed]) -> Done | Failed:
    return added([part if isinstance(part, Failed) else Done(0, part.size) for part in parts])


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


def _at_once() -> int:
    """How many tasks run at the same time."""
    client = _client()
    return 1 if client is None else max(1, sum(client.nthreads().values()))


def _room() -> int:
    """Bytes that the workers may keep together: on each of their disks as many as on that with the fewest."""
    client = _client()
    free = {room()} if client is None else set(client.run(room, on_error="ignore").values())
    by_disk = {(machine, disk): size for machine, disk, size in free}
    return len(by_disk) * min(by_disk.values(), default=0)


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
