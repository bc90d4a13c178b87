"""Rows held in memory in an order of their own: those of every declared group together."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._types import Array
from dpstats._validation import about
from dpstats.data.batches import Batch, Source
from dpstats.data.columns import arrow_column
from dpstats.data.schema import Schema, how_to_declare
from dpstats.errors import SchemaError

__all__ = ["GroupedRows", "HeldRows", "group_levels"]


def group_levels(by: str, schema: Schema) -> tuple[Any, ...]:
    """The levels of the column of the groups, which must be declared."""
    with about("by"):
        column = schema[by]
    if column.kind == "truth":
        return (False, True)
    if not column.levels:
        raise SchemaError(f"the groups by {by!r} must be declared: {how_to_declare(by)}.")
    return tuple(column.levels)


class HeldRows:
    """Columns of a source in memory, in some order of some of its rows.

    Parameters
    ----------
    source : Source
    names : collection of str
        The columns that are kept.
    coded : collection of str
        Those whose codes or keys will be asked for.

    Attributes
    ----------
    rows : int
        How many there are.
    order : slice or int array
        Positions of the rows in the source.
    """

    def __init__(self, source: Source, names: Collection[str], coded: Collection[str]) -> None:
        self.schema = source.schema
        self._batches = list(source.batches(names, frozenset(coded)))
        self._arrays: dict[Any, Any] = {}
        self.rows = sum(batch.rows for batch in self._batches)
        self.order: Any = slice(None)

    def source(self, rows: Any) -> Source:
        """Some of the rows, a slice or an array of positions in this order, as a source."""
        return _HeldSource(self, rows)

    def array(self, name: str, what: str | tuple[Any, ...]) -> Any:
        """A column in this order: ``"numbers"``, ``"keys"``, or codes of levels."""
        key = name, what
        if key not in self._arrays:
            self._arrays[key] = self._read(name, what)[self.order]
        return self._arrays[key]

    def _read(self, name: str, what: str | tuple[Any, ...]) -> Any:
        """A column in the order of the source."""
        if what == "keys":
            parts = [batch.keys(name) for batch in self._batches]
        elif what == "numbers":
            parts = [batch.numbers(name) for batch in self._batches]
        else:
            parts = [np.asarray(batch.codes(name, tuple(what))) for batch in self._batches]
        if len(parts) == 1:
            return parts[0]
        if what == "keys":
            parts = [part if isinstance(part, np.ndarray) else arrow_column(part).keys() for part in parts]
            if len({part.dtype for part in parts}) > 1:
                # whole numbers beyond 2^53 are not what floats make of them
                parts = [part.astype(object) for part in parts]
        return np.concatenate(parts) if parts else np.empty(0)


class GroupedRows(HeldRows):
    """The rows of every declared group.

    Parameters
    ----------
    source, names, coded
        As of :class:`HeldRows`.
    by : str
        Column of the groups.
    levels : tuple
        Its declared levels; rows of any other are left out.
    """

    def __init__(
        self, source: Source, names: Collection[str], coded: Collection[str], by: str, levels: tuple[Any, ...]
    ) -> None:
        super().__init__(source, [*names, *({by} - set(names))], {*coded, by})
        codes = np.asarray(self._read(by, levels), dtype=np.int64)
        self.order = np.argsort(codes, kind="stable")
        self._ends = np.searchsorted(codes[self.order], np.arange(len(levels) + 1))

    def size(self, i: int) -> int:
        """The number of rows of a group, usable or not."""
        return int(self._ends[i + 1] - self._ends[i])

    def group(self, i: int) -> Source:
        """The rows of a group as a source."""
        return self.source(slice(self._ends[i], self._ends[i + 1]))


class _HeldSource(Source):
    def __init__(self, held: HeldRows, rows: Any) -> None:
        self.schema = held.schema
        self._held, self._rows = held, rows

    def _batches(self, names: Collection[str], coded: Collection[str]) -> Iterator[Batch]:
        columns = {name: _HeldColumn(self._held, name, self._rows) for name in names}
        rows = self._rows
        size = len(range(self._held.rows)[rows]) if isinstance(rows, slice) else len(rows)
        yield Batch(size, columns)


@dataclass(frozen=True)
class _HeldColumn:
    held: HeldRows
    name: str
    rows: Any

    def numbers(self) -> Any:
        return self.held.array(self.name, "numbers")[self.rows]

    def codes(self, levels: tuple[Any, ...]) -> Any:
        return self.held.array(self.name, levels)[self.rows]

    def keys(self) -> Any:
        return self.held.array(self.name, "keys")[self.rows]

    def take(self, rows: Array) -> "_HeldColumn":
        return _HeldColumn(self.held, self.name, np.arange(self.held.rows)[self.rows][rows])
