"""Blocks that stay where their rows are: the partitions of a table on the workers of a cluster.

An engine knows how to run a task on every partition and to add up what the tasks return. Nothing else of the
package knows where rows are: :func:`~dpstats.engines.local.fold` and its like hand a task to the engine where
the blocks that they get have `partitions`. Only what a task returns travels; noise is added on the driver.
"""

import functools
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from dpstats._quiet import quiet
from dpstats._threads import one_thread
from dpstats.errors import SchemaError

__all__ = [
    "BUCKETS",
    "Coins",
    "Done",
    "Engine",
    "Failed",
    "PIECES",
    "Partitions",
    "Shuffle",
    "Task",
    "added",
    "attempted",
    "check_versions",
    "settled",
    "uniform",
    "version",
]

Block = tuple[np.ndarray, np.ndarray]
R = TypeVar("R")
Work = Callable[[Iterable[Block], int], Any]
Maps = tuple[Callable[[np.ndarray, np.ndarray], Block], ...]

BUCKETS = 8
"""So many buckets for each task that runs at once: the last ones to end leave few workers waiting."""
PIECES = 100_000
"""The most pieces that rows are cut into, unless that leaves workers without a bucket."""
_UNREADABLE = "a partition of the data could not be read, on a worker."


@functools.cache
def version() -> str:
    """That of dpstats, wherever this runs."""
    from importlib.metadata import version

    return version("dpstats")


@dataclass(frozen=True)
class Done:
    """What a task returned, and the size of its blocks in bytes."""

    value: Any
    size: int

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sys.getsizeof(self.value)


@dataclass(frozen=True)
class Failed:
    """A task that did not: for another version of dpstats, or for a reason that may hold data (None)."""

    version: str | None


@dataclass(frozen=True)
class Task:
    """What is done to a partition, on a worker.

    Attributes
    ----------
    version : str
        Of dpstats on the driver.
    make : callable
        ``make(raw)`` yields blocks of what the engine has as a partition.
    maps : tuple of callable
        ``map(X, Y)`` of every block, one after another.
    work : callable
        ``work(blocks, index)``, of the partition with this number.
    last : bool
        Whether blocks that are mapped may take the place of those that were not.
    """

    version: str
    make: Callable[[Any], Iterable[Block]]
    maps: Maps
    work: Work
    last: bool = False

    def __call__(self, raw: Any, index: int) -> Done | Failed:
        size = [0]
        return _on_worker(self.version, lambda: Done(self.work(self._blocks(raw, size), index), size[0]))

    def _blocks(self, raw: Any, size: list[int]) -> Iterator[Block]:
        for X, Y in self.make(raw):
            size[0] += X.nbytes + Y.nbytes
            for step in self.maps:
                X, Y = step(X, Y)
            yield X, Y


def _on_worker(expected: str, step: Callable[[], Done]) -> Done | Failed:
    """What a step returns on a worker with the version that is expected, or that it did not."""
    if expected != version():
        return Failed(version())
    try:
        with quiet(), np.errstate(all="ignore"), one_thread():
            return step()
    except Exception:
        # its text and its frames may hold rows, and a worker writes them to its log
        return Failed(None)


@dataclass(frozen=True)
class Shuffle:
    """Rows gathered by bucket, and what is done to each bucket, on workers.

    Attributes
    ----------
    version : str
        Of dpstats on the driver.
    buckets : int
    cut : callable
        ``cut(raw)`` yields, of what the engine has as a partition, numbers of buckets and pieces with rows of
        them.
    work : callable
        ``work(pieces, bucket)``, of all pieces of a bucket in the order of their partitions.
    """

    version: str
    buckets: int
    cut: Callable[[Any], Iterable[tuple[int, Any]]]
    work: Callable[[list[Any], int], Any]

    def split(self, raw: Any) -> Done | Failed:
        """The pieces of a partition, a list for each bucket that has any."""

        def step() -> Done:
            pieces: dict[int, list[Any]] = {}
            for bucket, piece in self.cut(raw):
                pieces.setdefault(bucket, []).append(piece)
            return Done(pieces, 0)

        return _on_worker(self.version, step)

    def gather(self, parts: Iterable[list[Any] | Failed], bucket: int) -> Done | Failed:
        """What is done to a bucket, of its pieces from every partition."""
        pieces: list[Any] = []
        for part in parts:
            if isinstance(part, Failed):
                return part
            pieces += part
        return _on_worker(self.version, lambda: Done(self.work(pieces, bucket), 0))


class Engine(Protocol):
    """Where partitions are."""

    def run(self, task: Task) -> list[tuple[int, Done | Failed]]:
        """What the task returns of every partition, with its number."""

    def total(self, task: Task) -> Done | Failed:
        """The sum of what the task returns of every partition."""

    def buckets(self) -> int:
        """How many buckets keep all workers at work."""

    def gathered(self, shuffle: Shuffle) -> Iterator[Done | Failed]:
        """What a shuffle returns of every bucket, in any order."""

    def shuffled(self, shuffle: Shuffle) -> "Engine":
        """An engine whose partitions are what a shuffle returns of every bucket, blocks, as a :class:`Done`;
        they stay on the workers until it is closed."""

    def copy(self) -> "Engine":
        """An engine on the same partitions, as long as these are there; it keeps blocks of its own."""

    def used(self, task: Task, size: int) -> None:
        """Told the size of the blocks of a task, in bytes; they may be asked for again."""

    def close(self) -> None:
        """Let go of what is kept."""


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Partitions:
    """Blocks on workers, mapped there.

    Parameters
    ----------
    engine : Engine
    make : callable
        See :class:`Task`.
    maps : tuple of callable
    once : tuple of callable
        Further ones, whose blocks no engine should keep: they are for one pass, or no arrays.
    passed : callable
        Called when a pass over the rows is done.
    last : bool
        Whether nothing is made any more of the blocks without `maps`, which would have to be read again.
    """

    engine: Engine
    make: Callable[[Any], Iterable[Block]]
    maps: Maps = ()
    once: Maps = ()
    passed: Callable[[], None] = _nothing
    last: bool = False

    def mapped(self, step: Callable[..., Block], once: bool = False, last: bool = False) -> "Partitions":
        """These blocks, each mapped once more."""
        if once or self.once:
            return replace(self, once=(*self.once, step))
        return replace(self, maps=(*self.maps, step), last=last)

    def _task(self, work: Work) -> Task:
        if self.once:
            work = functools.partial(_after, self.once, work)
        return Task(version(), self.make, self.maps, work, self.last)

    def run(self, work: Work) -> list[Any]:
        """What ``work(blocks, index)`` returns of every partition, in their order."""
        task = self._task(work)
        done = [(index, settled(done)) for index, done in self.engine.run(task)]
        self.engine.used(task, sum(each.size for _, each in done))
        self.passed()
        return [each.value for _, each in sorted(done, key=lambda pair: pair[0])]

    def total(self, work: Work) -> Any:
        """The sum of what ``work(blocks, index)`` returns of every partition."""
        task = self._task(work)
        done = settled(self.engine.total(task))
        self.engine.used(task, done.size)
        self.passed()
        return done.value


def _after(maps: Maps, work: Work, blocks: Iterable[Block], index: int) -> Any:
    return work((functools.reduce(lambda block, step: step(*block), maps, block) for block in blocks), index)


def settled(done: Done | Failed) -> Done:
    """What was done; an error that says nothing about rows where it was not."""
    if isinstance(done, Done):
        return done
    if done.version is None:
        raise SchemaError(_UNREADABLE)
    check_versions({done.version}, "the cluster")
    raise SchemaError(_UNREADABLE)


def check_versions(found: set[str], engine: str) -> None:
    """Raise an ImportError unless workers have this version of dpstats; "" is of one that has none."""
    for other in found - {version()}:
        has = f"have dpstats {other}, and here it is {version()}" if other else "cannot import dpstats"
        raise ImportError(f"workers of {engine} {has}: install dpstats {version()} there.")


def attempted(step: Callable[[], R], failed: str) -> R:
    """What an engine's step returns, without warnings; a SchemaError in place of its errors, whose text and
    frames may hold data."""
    try:
        with quiet():
            return step()
    except Exception:
        pass
    raise SchemaError(failed)


def added(parts: list[Done | Failed]) -> Done | Failed:
    """The sum of what some tasks returned: arrays, or tuples of them, in a tree; None of no task."""
    if not parts:
        return Done(None, 0)
    while len(parts) > 1:
        parts = [_pair(*parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def _pair(one: Done | Failed, other: Done | Failed | None = None) -> Done | Failed:
    if other is None or isinstance(one, Failed):
        return one
    if isinstance(other, Failed):
        return other
    if isinstance(one.value, tuple):
        value: Any = tuple(a + b for a, b in zip(one.value, other.value, strict=True))
    else:
        value = one.value + other.value
    return Done(value, one.size + other.size)


@dataclass(frozen=True)
class Coins:
    """Random words that are a function of a secret key and the number of a partition.

    A task that runs again has the same ones: with fresh ones, whether it ran again would depend on them, and
    what is released on the rows that made it fail (``docs/privacy/engines.md``).
    """

    key: bytes = field(repr=False)

    def bytes(self, index: int, size: int) -> bytes:
        """The first `size` of them for a partition: SHAKE-256 of the key and the number."""
        return hashlib.shake_256(self.key + index.to_bytes(8, "little")).digest(size)

    def words(self, index: int, size: int) -> np.ndarray:
        """The first `size` of them, of 64 bits each."""
        return np.frombuffer(self.bytes(index, 8 * size), np.uint64)


def uniform(words: np.ndarray) -> np.ndarray:
    """Numbers uniform on the open interval (0, 1), symmetric about 1/2, of words of 64 bits.

    The centres of 2^52 equal cells: one bit more and the last centre would round to 1.
    """
    return ((words >> np.uint64(12)).astype(float) + 0.5) * 2.0**-52
