"""Partitions of a Dask frame by where they are, and what is asked of the workers that have them."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from dpstats.engines.kept import room
from dpstats.engines.partitions import Done, Failed, Task, added

__all__ = [
    "Share",
    "all_of",
    "asked",
    "at_once",
    "by_thread",
    "client_here",
    "each_of",
    "of_shares",
    "persisted",
    "placed",
    "room_there",
    "sent",
    "size_of",
    "sizes_there",
    "sum_of",
]

_TRIES = 5
"""So often a size is asked for while workers are lost."""
_NAMES = 3
"""So many names a future of a persisted frame may have."""


def client_here() -> Any:
    """The client that Dask would use, or None."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def at_once() -> int:
    """How many tasks run at the same time."""
    client = client_here()
    return 1 if client is None else max(1, sum(client.nthreads().values()))


def room_there() -> int:
    """Bytes that the workers may keep together: on each of their disks as many as on that with the fewest."""
    client = client_here()
    free = {room()} if client is None else set(client.run(room, on_error="ignore").values())
    by_disk = {(machine, disk): size for machine, disk, size in free}
    return len(by_disk) * min(by_disk.values(), default=0)


class Share(NamedTuple):
    """Some partitions, or lists of them, and their numbers; of futures the worker that has them, empty if
    none has."""

    parts: list[Any]
    numbers: list[int]
    worker: str | None = None


def of_shares(task: Task, shares: list[Share], how: Callable[..., Any]) -> list[Any]:
    """A job for each share."""
    from dask.delayed import delayed

    # one copy of the task for all of them
    job, on = delayed(task, pure=False, traverse=False), delayed(how, pure=False)
    return [on(job, share.parts, share.numbers) for share in shares]


def sent(client: Any, task: Task, shares: list[Share], how: Callable[..., Any]) -> list[Any]:
    """The same as futures, on the workers that have the shares; if one is lost any other will do.

    A graph of Dask would take longer to make than a short pass.
    """
    at: dict[str | None, list[int]] = {}
    for i, share in enumerate(shares):
        at.setdefault(share.worker, []).append(i)
    futures: dict[int, Any] = {}
    for worker, here in at.items():
        # (at once: the scheduler takes a millisecond for what is submitted alone)
        mapped = client.map(
            functools.partial(how, task),
            [shares[i].parts for i in here],
            [shares[i].numbers for i in here],
            workers=[worker] if worker else None,
            allow_other_workers=bool(worker),
            pure=False,
        )
        futures |= zip(here, mapped, strict=True)
    return [futures[i] for i in range(len(shares))]


Own = dict[str, list[tuple[list[str], list[int]]]]
"""By worker the names and numbers of the parts of its shares."""


def asked(client: Any, task: Task, shares: list[Share], how: Callable[..., Any]) -> list[Any] | None:
    """What `how` returns of shares, from the workers that have them; None if one has not, or cannot.

    This is a message to each worker, which Dask does not schedule: to schedule a pass takes some 20 ms.
    """
    own: Own = {}
    for share in shares:
        own.setdefault(str(share.worker), []).append(([part.key for part in share.parts], share.numbers))
    if not own.keys() <= client.nthreads().keys():
        # the message would wait for half a minute
        raise RuntimeError("a worker is gone")
    done = client.run(_answered, task, own, how, workers=list(own)).values()
    return None if None in done else [each for answer in done for each in answer]


async def _answered(task: Task, own: Own, how: Callable[..., Any], dask_worker: Any) -> list[Any] | None:
    """The same of a worker's own shares, in its threads."""
    import asyncio

    loop, threads = asyncio.get_running_loop(), dask_worker.executors["default"]
    try:
        jobs = [
            loop.run_in_executor(threads, how, task, [dask_worker.data[key] for key in keys], numbers)
            for keys, numbers in own[dask_worker.address]
        ]
        return list(await asyncio.gather(*jobs))
    except Exception:
        # (a worker would log the arguments with it)
        return None


def each_of(task: Task, parts: list[Any], numbers: list[int]) -> list[tuple[int, Done | Failed]]:
    """What a task returns of every partition of a share, with its number."""
    # (what was kept comes in lists)
    flat = [part for some in parts for part in (some if isinstance(some, list) else [some])]
    return [
        (i, part if isinstance(part, Failed) else task(part, i))
        for part, i in zip(flat, numbers, strict=True)
    ]


def all_of(task: Task, parts: list[Any], numbers: list[int]) -> list[Done | Failed]:
    """The same without the numbers."""
    return [done for _, done in each_of(task, parts, numbers)]


def sum_of(task: Task, parts: list[Any], numbers: list[int]) -> Done | Failed:
    """The same added up."""
    return added(all_of(task, parts, numbers))


def size_of(done: list[Done | Failed]) -> Done | Failed:
    """The size of blocks, of what :func:`all_of` returned."""
    return added([part if isinstance(part, Failed) else Done(0, part.size) for part in done])


def sizes_there(client: Any, parts: list[Any]) -> list[Done | Failed]:
    """The sizes of what :func:`all_of` returned, once it has."""
    from distributed import futures_of, wait

    futures = [futures_of(part)[0] for part in parts]
    for _ in range(_TRIES):
        wait(futures)
        known: dict[str, Done | Failed] = {}
        for found in client.run(_known, [future.key for future in futures], on_error="ignore").values():
            known |= found
        if len(known) == len(futures):
            return list(known.values())
        # a worker was lost just then: its part is made again
    raise RuntimeError("workers are lost again and again")


def _known(keys: list[str], dask_worker: Any) -> dict[str, Done | Failed]:
    return {key: size_of(dask_worker.data[key]) for key in keys if key in dask_worker.data}


def persisted(parts: list[Any]) -> list[Share]:
    """A share for each partition: a future and its worker if all of them are persisted.

    Dask, which does not know yet how long a task takes, would send some of them to others.
    """
    shares, client = [Share([part], [i]) for i, part in enumerate(parts)], client_here()
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
    return [Share([future], [i], next(iter(at.get(future.key, ())), "")) for i, future in enumerate(futures)]


def placed(parts: list[Any], shares: list[Share]) -> list[Share]:
    """What was started of some shares, by where it is: a share for each thread of a worker that has some."""
    client = client_here()
    if client is None:
        return [Share(parts, [i for share in shares for i in share.numbers])]
    from distributed import futures_of, wait

    futures = [futures_of(part)[0] for part in parts]
    wait(futures)
    at = client.who_has(futures)
    return by_thread(
        [
            Share([future], share.numbers, next(iter(at.get(future.key, ())), ""))
            for future, share in zip(futures, shares, strict=True)
        ]
    )


def by_thread(shares: list[Share], most: int | None = None) -> list[Share]:
    """Shares joined by thread of a worker, of at most `most` of them; those of no known worker stay apart."""
    there: dict[str, list[Share]] = {}
    for share in shares:
        if share.worker:
            there.setdefault(share.worker, []).append(share)
    threads, joined = client_here().nthreads() if there else {}, []
    for worker, held in there.items():
        tasks = threads.get(worker, 1)
        for own in (held[k::tasks] for k in range(min(tasks, len(held)))):
            step = most or len(own)
            for some in (own[i : i + step] for i in range(0, len(own), step)):
                parts, numbers = [p for s in some for p in s.parts], [i for s in some for i in s.numbers]
                joined.append(Share(parts, numbers, worker))
    return joined + [share for share in shares if not share.worker]
