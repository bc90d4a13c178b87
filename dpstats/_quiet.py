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
_FILTERS: dict[str, Any] = {}
"""While one is: the filters as they were found, and those that ignore everything."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ignore all warnings, of all threads, until the last thread that asked for it is out.

    In the place of `warnings.catch_warnings`, which keeps what it found for itself: of two threads whose
    calls overlap, the second finds the first one's filters, and leaves them to the process for good. Here the
    first one in keeps the filters, and the last one out restores them. (It has to be for all threads, as
    those packages have threads of their own.)

    Examples
    --------
    >>> import warnings
    >>> with quiet():
    ...     warnings.warn("row 7 is odd")
    """
    thread = threading.get_ident()
    with _TURN:
        if not _INSIDE:  # the first one in
            _FILTERS.update(found=warnings.filters, ignoring=[("ignore", None, Warning, None, 0)])
            warnings.filters = _FILTERS["ignoring"]
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
    found, ignoring = _FILTERS["found"], _FILTERS["ignoring"]
    # others who are within `catch_warnings` now may have put theirs in this place, and will put back what
    # they found there
    if warnings.filters is ignoring:
        warnings.filters = found
    ignoring[:] = found
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
