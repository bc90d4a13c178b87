"""The rows of every declared group, in order of their group and held in memory."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._validation import fail
from dpstats.data.schema import Schema, how_to_declare
from dpstats.data.sources import Batch, Source
from dpstats.errors import SchemaError

__all__ = ["GroupedRows", "group_levels"]


def group_levels(by: object, schema: Schema) -> tuple[Any, ...]:
    """The levels of the column of the groups, which must be declared."""
    if not isinstance(by, str):
        fail("by", by, "None or the name of a column")
    column = schema[by]
    if column.kind == "truth":
        return (False, True)
    if column.levels is None:
        raise SchemaError(f"the groups by {by!r} must be declared: {how_to_declare(by)}.")
    return tuple(column.levels)


class GroupedRows:
    """The rows of every declared group.

    Parameters
    ----------
    source : Source
        All rows.
    names : collection of str
        The columns that are kept.
    coded : collection of str
        Those whose codes will be asked for.
    by : str
        Column of the groups.
    levels : tuple
        Its declared levels; rows of any other are left out.
    """

    def __init__(
        self, source: Source, names: Collection[str], coded: Collection[str], by: str, levels: tuple[Any, ...]
    ) -> None:
        self.schema = source.schema
        self._batches = list(source.batches([*names, *({by} - set(names))], frozenset(coded) | {by}))
        parts = [np.asarray(batch.codes(by, levels)) for batch in self._batches]
        codes = np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)
        self._order = np.argsort(codes, kind="stable")
        self._ends = np.searchsorted(codes[self._order], np.arange(len(levels) + 1))
        self._arrays: dict[Any, Any] = {}

    def size(self, i: int) -> int:
        """The number of rows of a group, usable or not."""
        return int(self._ends[i + 1] - self._ends[i])

    def source(self, i: int) -> Source:
        """The rows of a group as a source."""
        return _GroupSource(self, slice(self._ends[i], self._ends[i + 1]))

    def array(self, name: str, levels: tuple[Any, ...] | None = None) -> Any:
        """A column of numbers, or of codes, in order of the groups."""
        key = name, levels
        if key not in self._arrays:
            parts = [b.numbers(name) if levels is None else b.codes(name, levels) for b in self._batches]
            self._arrays[key] = np.concatenate(parts)[self._order] if parts else np.empty(0)
        return self._arrays[key]


class _GroupSource(Source):
    def __init__(self, groups: GroupedRows, rows: slice) -> None:
        self.schema = groups.schema
        self._groups, self._rows = groups, rows

    def _batches(self, names: Collection[str], coded: Collection[str]) -> Iterator[Batch]:
        columns = {name: _GroupColumn(self._groups, name, self._rows) for name in names}
        yield Batch(self._rows.stop - self._rows.start, columns)


@dataclass(frozen=True)
class _GroupColumn:
    groups: GroupedRows
    name: str
    rows: slice

    def numbers(self) -> Any:
        return self.groups.array(self.name)[self.rows]

    def codes(self, levels: tuple[Any, ...]) -> Any:
        return self.groups.array(self.name, levels)[self.rows]
