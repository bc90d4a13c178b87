"""Objects on disk while a release is made, in a file without a name."""

import pickle
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

__all__ = ["Spill"]


class Spill:
    """Piles of objects in a temporary file, to be read as often as wanted.

    No other user can open the file, since it has no name, and it goes with :meth:`close`, with the last
    reference to it, and with the process, however that ends.

    Parameters
    ----------
    piles : int

    Examples
    --------
    >>> spill = Spill(2)
    >>> for i in range(4):
    ...     spill.add(i * 10, i % 2)
    >>> list(spill.read(1)), list(spill.read(0))
    ([10, 30], [0, 20])
    """

    def __init__(self, piles: int = 1) -> None:
        self._file = tempfile.TemporaryFile()
        # also when nobody calls close(): a file that is left to the collector is a warning of Python's
        self._finally = weakref.finalize(self, self._file.close)
        self._places: list[list[int]] = [[] for _ in range(piles)]

    def add(self, item: Any, pile: int = 0) -> None:
        """Put an item on a pile."""
        self._places[pile].append(self._file.seek(0, 2))
        pickle.dump(item, self._file, pickle.HIGHEST_PROTOCOL)

    def read(self, pile: int = 0) -> Iterator[Any]:
        """The items of a pile, in the order in which they came."""
        for place in self._places[pile]:
            self._file.seek(place)
            yield pickle.load(self._file)

    def close(self) -> None:
        """Let go of the file."""
        self._finally()
