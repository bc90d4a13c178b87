"""Blocks that a worker keeps while a release is made: in memory, and in a file without a name."""

import math
import mmap
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from dpstats.engines.memory import Memory, lent

__all__ = ["Kept", "keep", "room"]

_AT_ONCE = 2**18
"""Bytes that are written at a time: for more Linux looks for large pages, which a virtual machine may have to
ask its host for (measured: with four times as many twice the time)."""

_MEMORY, _PART, _BLOCKS = 2**29, 8, 1_000
"""Bytes that are held in the memory of a process at most, at most one part in so many of what a worker may
use, and how many blocks."""
_FULL = 0.6
"""Nor is more held than fills a worker to this share: beyond, Dask writes what it keeps to files, and stops
the worker."""

Block = tuple[np.ndarray, np.ndarray]


class _File:
    """Arrays in a temporary file.

    No other user can open it, since it has no name. It goes with the last block that refers to it, and with
    the process, however that ends.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(dir=_directory(), buffering=0)
        self._lock, self._end = threading.Lock(), 0
        self._free: list[tuple[int, int]] = []
        self._here = threading.local()
        self._spare: list[_Held] = []
        # here, where the worker is known; in a pass it may not be
        self.most = _held_at_most()

    def memory(self) -> Memory:
        """For the blocks that this thread makes to write them."""
        try:
            made: Memory = self._here.memory
        except AttributeError:
            made = self._here.memory = Memory()
        return made

    def hold(self, block: Block) -> "_Held | None":
        """A copy of a block in memory, if there is room: new memory, too, costs more than some used again."""
        try:
            held = self._spare.pop()
        except IndexError:
            held = None
        if held is None or not held.is_like(block):
            del held
            held = _Held.like(block, self.most)
        if held is not None:
            for array, other in zip(held.block, block, strict=True):
                array[...] = other
        return held

    def spare(self, held: "_Held") -> None:
        """Let another block take the place of one."""
        self._spare.append(held)

    def write(self, block: Block) -> int:
        """Write the arrays of a block, one behind the other; return where they begin."""
        size = _paged(sum(array.nbytes for array in block))
        with self._lock:
            room = next((i for i, (_, free) in enumerate(self._free) if size and free >= size), None)
            if room is None:
                start, self._end = self._end, self._end + size
            else:
                start, free = self._free.pop(room)
                if free > size:
                    self._free.append((start + size, free - size))
        at = start
        for array in block:
            left = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            while left:
                written = os.pwrite(self._file.fileno(), left[:_AT_ONCE], at)
                left, at = left[written:], at + written
        return start

    def free(self, start: int, size: int) -> None:
        """Let others be written there: a file that grows costs the system more than one written again."""
        with self._lock:
            self._free.append((start, _paged(size)))

    def read(self, start: int, size: int) -> mmap.mmap:
        """What is there. It is in memory as long as an array of it is, and can be written to without a
        change of the file."""
        return mmap.mmap(self._file.fileno(), size, offset=start, access=mmap.ACCESS_COPY)


def _paged(size: int) -> int:
    """The next size where a block may begin."""
    return -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY


_FILES: WeakValueDictionary[str, _File] = WeakValueDictionary()
_FILES_LOCK = threading.Lock()


def _file(token: str) -> _File:
    """The file of this process for what is kept under a token: one, since open files are few."""
    with _FILES_LOCK:
        file = _FILES.get(token)
        if file is None:
            file = _FILES[token] = _File()
        return file


class _Held:
    """A block in memory."""

    _now: "WeakSet[_Held]" = WeakSet()

    def __init__(self, block: Block) -> None:
        X, Y = block
        self.block = np.empty(X.shape, X.dtype), np.empty(Y.shape, Y.dtype)
        self.size = X.nbytes + Y.nbytes

    @classmethod
    def like(cls, block: Block, most: int) -> "_Held | None":
        """Memory for a block, unless all blocks of this process together would take more."""
        with _FILES_LOCK:
            own = sum(array.nbytes for array in block)
            size = own + sum(held.size for held in cls._now)
            if not own or len(cls._now) >= _BLOCKS or size > most:
                return None
            held = cls(block)
            cls._now.add(held)
            return held

    def is_like(self, block: Block) -> bool:
        """Whether a block has the same shapes and types."""
        return all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(self.block, block, strict=True))


@dataclass(frozen=True)
class _Place:
    """Where a block is, and what its arrays are."""

    start: int
    arrays: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]

    @property
    def size(self) -> int:
        return sum(math.prod(shape) * dtype.itemsize for shape, dtype in self.arrays)


class Kept:
    """Blocks in a file or in memory; elsewhere, when they are sent there, in one of that place.

    To Dask they are as small as they look. Whoever passes over them must not write to them.

    Parameters
    ----------
    token : str
        What is kept under the same token is in the same file.
    blocks : iterable of (X, Y)
    again : bool
        Whether they are read again and again: as far as there is room they are in memory, and not in the
        file.

    Examples
    --------
    >>> kept = Kept("a", [(np.ones((2, 1)), np.zeros((2, 1))), (np.ones((0, 1)), np.ones((0, 1)))])
    >>> for X, Y in kept:
    ...     print(X.tolist(), Y.tolist())
    [[1.0], [1.0]] [[0.0], [0.0]]
    [] []
    """

    def __init__(self, token: str, blocks: Iterable[Block], again: bool = False) -> None:
        self.token, self._file = token, _file(token)
        self._places: list[_Place | _Held] | None = None
        with lent(self._file.memory()):
            self._places = [self._placed(block, again) for block in blocks]

    def _placed(self, block: Block, again: bool) -> "_Place | _Held":
        held = self._file.hold(block) if again else None
        return held or _Place(self._file.write(block), tuple((array.shape, array.dtype) for array in block))

    def __iter__(self) -> Iterator[Block]:
        for place in self._there():
            yield self._block(place)
            self._there()  # where they were others may be

    def given(self) -> Iterator[Block]:
        """The blocks for the last time: once the next is asked for, others may take the place of one."""
        places, self._places = self._there()[::-1], None
        while places:
            place = places.pop()
            yield self._block(place)
            if isinstance(place, _Held):
                self._file.spare(place)
            else:
                self._file.free(place.start, place.size)

    def _there(self) -> "list[_Place | _Held]":
        if self._places is None:
            raise RuntimeError("the blocks were given away")
        return self._places

    def _block(self, place: _Place | _Held) -> Block:
        if isinstance(place, _Held):
            return place.block
        read, at, arrays = self._file.read(place.start, place.size) if place.size else None, 0, []
        for shape, dtype in place.arrays:
            n = math.prod(shape)
            if read is None or not n:
                arrays.append(np.empty(shape, dtype))
            else:
                arrays.append(np.frombuffer(read, dtype, n, at).reshape(shape))
            at += n * dtype.itemsize
        X, Y = arrays
        return X, Y

    def __reduce__(self) -> tuple[Any, ...]:
        copies = [(X.copy(), Y.copy()) for X, Y in self]
        self._there()  # and still are
        return Kept, (self.token, copies)


def keep(token: str, blocks: Iterable[Block], index: int) -> Kept:
    """Work of a task, with a token: its blocks, kept."""
    return Kept(token, blocks, again=True)


def _worker() -> Any:
    """The worker that runs this, or None."""
    try:
        from distributed import get_worker

        return get_worker()
    except (ImportError, ValueError):
        return None


def _directory() -> str:
    """Of the worker that runs this, or of temporary files."""
    worker = _worker()
    return tempfile.gettempdir() if worker is None else str(worker.local_directory)


def _held_at_most() -> int:
    worker = _worker()
    limit = None if worker is None else worker.memory_manager.memory_limit
    if not limit:
        return _MEMORY
    return max(min(_MEMORY, limit // _PART, int(_FULL * limit) - worker.monitor.get_process_memory()), 0)


def room(dask_worker: Any = None) -> tuple[str, int, int]:
    """A machine, one of its file systems, and the bytes that are free there, for what a worker keeps."""
    directory = tempfile.gettempdir() if dask_worker is None else dask_worker.local_directory
    return socket.gethostname(), os.stat(directory).st_dev, shutil.disk_usage(directory).free
