"""Code of other packages without its warnings, whose texts may quote rows, from any number of threads."""

import contextlib
import os
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

__all__ = ["quiet"]

_TURN = threading.RLock()
_INSIDE: Counter[int] = Counter()
"""How many times each thread is inside."""
_ALL: tuple[Any, ...] = ("ignore", None, Warning, None, 0)
"""The filter that ignores everything: this object, which is in no list but by this module."""
_FILTERS: list[list[Any]] = []
"""While one is: the lists of filters that have it."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ignore all warnings, of all threads, until the last thread that asked for it is out.

    In the place of `warnings.catch_warnings`, which keeps what it found for itself: of two threads whose
    calls overlap, the second finds the first one's filters, and leaves them to the process for good. Here the
    first one in puts a filter of ours before the others, in their list, and the last one out takes it away.
    (It has to be for all threads, as those packages have threads of their own. A thread that puts other
    filters in their place meanwhile hears warnings until we come in anew.)

    Examples
    --------
    >>> import warnings
    >>> with quiet():
    ...     warnings.warn("row 7 is odd")
    """
    thread = threading.get_ident()
    with _TURN:
        if not _INSIDE:  # the first one in
            # (in this list: another in its place would undo what a thread that leaves `catch_warnings` does)
            filters: Any = warnings.filters
            filters.insert(0, _ALL)
            _FILTERS.append(filters)
        _INSIDE[thread] += 1
    try:
        yield
    finally:
        with _TURN:
            _leave(thread)


def _leave(thread: int) -> None:
    _INSIDE[thread] -= 1
    if not _INSIDE[thread]:
        del _INSIDE[thread]
    if not _INSIDE:
        _restore()


def _restore() -> None:
    # others who were within `catch_warnings` may have copied it
    every: list[Any] = [*_FILTERS, warnings.filters]
    for filters in every:
        filters[:] = [f for f in filters if f is not _ALL]
    _FILTERS.clear()


def _in_child() -> None:
    """Of the threads of its parent a forked child has the one that forked."""
    for thread in set(_INSIDE) - {threading.get_ident()}:
        del _INSIDE[thread]
    if _FILTERS and not _INSIDE:
        _restore()
    _TURN.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_TURN.acquire, after_in_parent=_TURN.release, after_in_child=_in_child)
