"""Blocks on the disk of a worker while a release is made, in a file without a name."""

import contextlib
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
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from dpstats.engines.memory import Memory, lent

__all__ = ["Kept", "keep", "room"]

_AT_ONCE = 2**20
"""Bytes that are written at a time: for more Linux looks for huge pages, which a virtual machine may have to
ask its host for (measured: eight times the time)."""

_MAPPED, _PART, _MAPS = 2**29, 8, 100
"""Bytes that stay mapped in a process at most, at most one part in so many of the memory that a worker may
use (to Dask, which stops one with little left, they are memory), and how many blocks (each holds its file
open once more)."""

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
        # here, where the worker is known; in a pass it is not
        self.room = _mapped_at_most()

    def memory(self) -> Memory:
        """For the blocks that this thread makes to write them."""
        try:
            made: Memory = self._here.memory
        except AttributeError:
            made = self._here.memory = Memory()
        return made

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
        if room is None and size and hasattr(os, "posix_fallocate"):
            # (to find room page by page takes a third longer; if there is none, to write fails)
            with contextlib.suppress(OSError):
                os.posix_fallocate(self._file.fileno(), start, size)
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
        change of the file; what stays mapped keeps what was written, as rows in memory do."""
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


_MAPPED_NOW: WeakKeyDictionary[mmap.mmap, int] = WeakKeyDictionary()
"""What stays mapped, with its size, until nothing refers to it."""


def _stays(held: mmap.mmap, size: int, room: int) -> bool:
    """Whether what was read may stay mapped: to map it anew in each pass takes a twentieth of a release."""
    with _FILES_LOCK:
        if len(_MAPPED_NOW) >= _MAPS or size + sum(_MAPPED_NOW.values()) > room:
            return False
        _MAPPED_NOW[held] = size
        return True


@dataclass(frozen=True)
class _Place:
    """Where a block is, and what its arrays are."""

    start: int
    arrays: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]

    @property
    def size(self) -> int:
        return sum(math.prod(shape) * dtype.itemsize for shape, dtype in self.arrays)


class Kept:
    """Blocks in a file; elsewhere, when they are sent there, in one of that place.

    To Dask they are as small as they look: they take no memory.

    Parameters
    ----------
    token : str
        What is kept under the same token is in the same file.
    blocks : iterable of (X, Y)
    again : bool
        Whether they are read again and again: what was read stays mapped as far as there is room, until they
        are given away.

    Examples
    --------
    >>> kept = Kept("a", [(np.ones((2, 1)), np.zeros((2, 1))), (np.ones((0, 1)), np.ones((0, 1)))])
    >>> for X, Y in kept:
    ...     print(X.tolist(), Y.tolist())
    [[1.0], [1.0]] [[0.0], [0.0]]
    [] []
    """

    def __init__(self, token: str, blocks: Iterable[Block], again: bool = False) -> None:
        self.token, self._again, self._file = token, again, _file(token)
        self._places: list[_Place] | None = None
        self._mapped: dict[int, Block] = {}
        with lent(self._file.memory()):
            self._places = [
                _Place(self._file.write(block), tuple((array.shape, array.dtype) for array in block))
                for block in blocks
            ]

    def __iter__(self) -> Iterator[Block]:
        for i, place in enumerate(self._there()):
            block = self._mapped.get(i)
            if block is None:
                held, block = self._read(place)
                if self._again and held is not None and _stays(held, place.size, self._file.room):
                    self._mapped[i] = block
                del held
            yield block
            del block

    def given(self) -> Iterator[Block]:
        """The blocks for the last time: once the next is asked for, others may take the place of one."""
        places, self._places = self._there(), None
        mapped, self._mapped = self._mapped, {}
        for i, place in enumerate(places):
            block = mapped.pop(i, None) or self._read(place)[1]
            yield block
            del block
            self._file.free(place.start, place.size)

    def _there(self) -> list[_Place]:
        if self._places is None:
            raise RuntimeError("the blocks were given away")
        return self._places

    def _read(self, place: _Place) -> tuple[mmap.mmap | None, Block]:
        """What is mapped of a block, and its arrays."""
        held, at, arrays = self._file.read(place.start, place.size) if place.size else None, 0, []
        for shape, dtype in place.arrays:
            n = math.prod(shape)
            if held is None or not n:
                arrays.append(np.empty(shape, dtype))
            else:
                arrays.append(np.frombuffer(held, dtype, n, at).reshape(shape))
            at += n * dtype.itemsize
        X, Y = arrays
        return held, (X, Y)

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, (self.token, [(X.copy(), Y.copy()) for X, Y in self])


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


def _mapped_at_most() -> int:
    worker = _worker()
    limit = None if worker is None else worker.memory_manager.memory_limit
    return min(_MAPPED, limit // _PART) if limit else _MAPPED


def room(dask_worker: Any = None) -> tuple[str, int, int]:
    """A machine, one of its file systems, and the bytes that are free there, for what a worker keeps."""
    directory = tempfile.gettempdir() if dask_worker is None else dask_worker.local_directory
    return socket.gethostname(), os.stat(directory).st_dev, shutil.disk_usage(directory).free
