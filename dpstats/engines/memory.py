"""Memory for blocks that is used again, where blocks are made one after another and written elsewhere.

Workers of Dask give freed memory back to the system at once, and new pages take about as long as what is
done with them.
"""

import contextlib
import math
import sys
import threading
from collections.abc import Iterator

import numpy as np

__all__ = ["Memory", "empty", "lent"]

_HERE = threading.local()
_LEAST = 2**12
"""Smaller arrays are not held: they come from memory that a process has anyway."""
_MOST = 8
"""So many arrays are held before those that are not in use are let go of."""
_SPARE = 2
"""An array may be so many times as large as what is asked for."""


class Memory:
    """Arrays that are handed out again when nothing refers to them any more.

    Examples
    --------
    >>> memory = Memory()
    >>> shape = 5_000, 3
    >>> one = memory.empty(shape)
    >>> view, other = one[:1], memory.empty(shape)
    >>> del one
    >>> np.shares_memory(view, memory.empty(shape)), np.shares_memory(other, memory.empty(shape))
    (False, False)
    >>> del view
    >>> len({memory.empty(shape).ctypes.data for _ in range(3)})
    1
    """

    def __init__(self) -> None:
        self._held: list[np.ndarray] = [np.empty(0)]
        # how many are counted of an array without a view depends on the Python
        self._unused = sys.getrefcount(self._held[0])

    def _free(self, i: int) -> bool:
        return sys.getrefcount(self._held[i]) <= self._unused

    def empty(self, shape: tuple[int, ...]) -> np.ndarray:
        """As ``np.empty(shape)``: what is in it is whatever was there before."""
        size, best = math.prod(shape), -1
        if size < _LEAST:
            return np.empty(shape)
        for i in range(len(self._held)):
            if size <= self._held[i].size <= _SPARE * size and self._free(i):
                best = i
        if best < 0:
            if len(self._held) >= _MOST:
                self._held = [self._held[i] for i in range(len(self._held)) if not self._free(i)]
            self._held.append(np.empty(size))
        return self._held[best][:size].reshape(shape)


@contextlib.contextmanager
def lent(memory: Memory) -> Iterator[None]:
    """Let :func:`empty` in this thread use some memory meanwhile."""
    before = getattr(_HERE, "memory", None)
    _HERE.memory = memory
    try:
        yield
    finally:
        _HERE.memory = before


def empty(*shape: int) -> np.ndarray:
    """As ``np.empty(shape)``, in memory that is lent to this thread, if any is."""
    memory = getattr(_HERE, "memory", None)
    return np.empty(shape) if memory is None else memory.empty(shape)
