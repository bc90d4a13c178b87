"""Blocks on the disk of a worker while a release is made, in a file without a name."""

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
from weakref import WeakValueDictionary

import numpy as np

from dpstats.engines.memory import Memory, lent

__all__ = ["Kept", "keep", "room"]

_AT_ONCE = 2**20
"""Bytes that are written at a time: for more Linux looks for huge pages, which a virtual machine may have to
ask its host for (measured: eight times the time)."""

Block = tuple[np.ndarray, np.ndarray]


class _File:
    """Arrays in a temporary file.

    No other user can open it, since it has no name. It goes with the last block that refers to it, and with
    the process, however that ends.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(dir=_directory(), buffering=0)
        self._lock, self._end = threading.Lock(), 0
        self._here = threading.local()

    def memory(self) -> Memory:
        """For the blocks that this thread makes to write them."""
        try:
            made: Memory = self._here.memory
        except AttributeError:
            made = self._here.memory = Memory()
        return made

    def write(self, block: Block) -> int:
        """Write the arrays of a block, one behind the other; return where they begin."""
        with self._lock:
            start = self._end
            self._file.seek(start)
            for array in block:
                left = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                while left:
                    left = left[self._file.write(left[:_AT_ONCE]) :]
            size = self._file.tell() - start
            self._end += -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        return start

    def read(self, start: int, size: int) -> mmap.mmap:
        """What is there. It is in memory as long as an array of it is, and can be written to without a
        change of the file."""
        return mmap.mmap(self._file.fileno(), size, offset=start, access=mmap.ACCESS_COPY)


_FILES: WeakValueDictionary[str, _File] = WeakValueDictionary()
_FILES_LOCK = threading.Lock()


def _file(token: str) -> _File:
    """The file of this process for what is kept under a token: one, since open files are few."""
    with _FILES_LOCK:
        file = _FILES.get(token)
        if file is None:
            file = _FILES[token] = _File()
        return file


@dataclass(frozen=True)
class _Place:
    """Where a block is, and what its arrays are."""

    start: int
    arrays: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]


class Kept:
    """Blocks in a file; elsewhere, when they are sent there, in one of that place.

    To Dask they are as small as they look: they take no memory.

    Parameters
    ----------
    token : str
        What is kept under the same token is in the same file.
    blocks : iterable of (X, Y)

    Examples
    --------
    >>> kept = Kept("a", [(np.ones((2, 1)), np.zeros((2, 1))), (np.ones((0, 1)), np.ones((0, 1)))])
    >>> for X, Y in kept:
    ...     print(X.tolist(), Y.tolist())
    [[1.0], [1.0]] [[0.0], [0.0]]
    [] []
    """

    def __init__(self, token: str, blocks: Iterable[Block]) -> None:
        self._token, self._file = token, _file(token)
        with lent(self._file.memory()):
            self._places = [
                _Place(self._file.write(block), tuple((array.shape, array.dtype) for array in block))
                for block in blocks
            ]

    def __iter__(self) -> Iterator[Block]:
        for place in self._places:
            X, Y = self._arrays(place)
            yield X, Y

    def _arrays(self, place: _Place) -> Iterator[np.ndarray]:
        counts = [math.prod(shape) for shape, _ in place.arrays]
        size = sum(n * dtype.itemsize for n, (_, dtype) in zip(counts, place.arrays, strict=True))
        held, at = self._file.read(place.start, size) if size else b"", 0
        for n, (shape, dtype) in zip(counts, place.arrays, strict=True):
            yield np.frombuffer(held, dtype, n, at).reshape(shape) if n else np.empty(shape, dtype)
            at += n * dtype.itemsize

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, (self._token, [(X.copy(), Y.copy()) for X, Y in self])


def keep(token: str, blocks: Iterable[Block], index: int) -> Kept:
    """Work of a task, with a token: its blocks, kept."""
    return Kept(token, blocks)


def _directory() -> str:
    """Of the worker that runs this, or of temporary files."""
    try:
        from distributed import get_worker

        return str(get_worker().local_directory)
    except (ImportError, ValueError):
        return tempfile.gettempdir()


def room(dask_worker: Any = None) -> tuple[str, int, int]:
    """A machine, one of its file systems, and the bytes that are free there, for what a worker keeps."""
    directory = tempfile.gettempdir() if dask_worker is None else dask_worker.local_directory
    return socket.gethostname(), os.stat(directory).st_dev, shutil.disk_usage(directory).free
