"""Frames that come one after another, once: written to a temporary file for the passes that follow."""

import itertools
import os
from collections.abc import Callable, Iterator, Set
from typing import Any

from dpstats.data.batches import Batch, Source
from dpstats.data.columns import untyped
from dpstats.data.spill import Spill
from dpstats.errors import SchemaError

__all__ = ["StreamSource"]


def _guarded(frames: Iterator[Any]) -> Iterator[Any]:
    """The frames; what the iterator raises may quote rows, whatever its type."""
    while True:
        try:
            frame = next(frames)
        except StopIteration:
            return
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException:
            # (raised below, so that the new error does not carry it)
            break
        if isinstance(frame, str | bytes | os.PathLike | list | tuple):
            # a text may be one of a row, and a path would be quoted
            raise SchemaError("an iterator of frames has a text, a path or a list in the place of a frame.")
        yield frame
    raise SchemaError(
        "the iterator of frames raised an error, which may quote rows: run the iterator alone to see it."
    )


class StreamSource(Source):
    """An iterator of frames with the same columns, of any kind that `opened` takes.

    The first frame says what the columns are called; types may differ from frame to frame, so that none is
    taken from it.
    """

    in_memory = False

    def __init__(self, frames: Iterator[Any], opened: Callable[[Any], Source]) -> None:
        frames = _guarded(frames)
        first = next(frames, None)
        if first is None:
            raise SchemaError("the iterator of frames is empty.")
        given = opened(first).schema
        columns = (column if column.kind == "repeated" else untyped(column.name) for column in given)
        super().__init__(columns, given.nameless)
        self._opened = opened
        self._frames: Iterator[Any] | None = itertools.chain([first], frames)
        self._spill = Spill()

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        if self._frames is not None:
            frames, self._frames = self._frames, None
            every = [column.name for column in self.schema if column.kind != "repeated"]
            for frame in frames:
                for batch in self._later(frame).batches(every):
                    self._spill.add(batch)
        for batch in self._spill.read():
            yield Batch(batch.rows, {name: batch.columns[name] for name in names})

    def _later(self, frame: Any) -> Source:
        """A frame after the first, of which nothing is public."""
        try:
            return self._opened(frame)
        except SchemaError:
            pass
        raise SchemaError("a frame of the iterator cannot be read.")

    def close(self) -> None:
        super().close()
        self._spill.close()
