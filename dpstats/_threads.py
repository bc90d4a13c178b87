"""A small pool of threads for code that releases the GIL. It lives as long as the process and survives a
fork.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

__all__ = ["WORKERS", "alone", "in_threads", "one_thread", "pieces"]

WORKERS = os.cpu_count() or 1
T = TypeVar("T")
_ALONE = False
_HERE = threading.local()


@functools.lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """The pool of a process: a forked child has its parent's object but none of its threads, and not every
    fork tells Python (R's does not)."""
    return ThreadPoolExecutor(WORKERS, thread_name_prefix="dpstats")


def alone() -> None:
    """Run everything in the calling thread from now on: for one of several processes on one machine."""
    global _ALONE
    _ALONE = True


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Run everything in the calling thread meanwhile: for one of several tasks of a process."""
    before = getattr(_HERE, "alone", False)
    _HERE.alone = True
    try:
        yield
    finally:
        _HERE.alone = before


def _silent(job: Callable[[], T]) -> T:
    """A pool's thread has NumPy's settings of its own, and a warning may be one row's doing."""
    with np.errstate(all="ignore"):
        return job()


def in_threads(jobs: Iterable[Callable[[], T]]) -> list[T]:
    """Run callables at the same time and return their results in order.

    The first runs in the calling thread. Jobs must not call this function themselves.
    """
    if _ALONE or getattr(_HERE, "alone", False):
        return [job() for job in jobs]
    first, *rest = jobs
    waiting = [_pool(os.getpid()).submit(_silent, job) for job in rest]
    return [first(), *(job.result() for job in waiting)]


def pieces(rows: int, least: int, workers: int = WORKERS) -> list[slice]:
    """Cut so many rows into consecutive slices, one for each worker, of `least` rows or more (or into one).

    Examples
    --------
    >>> pieces(10, least=4, workers=3)
    [slice(0, 5, None), slice(5, 10, None)]
    """
    n = max(1, min(workers, rows // least))
    return [slice(rows * i // n, rows * (i + 1) // n) for i in range(n)]
