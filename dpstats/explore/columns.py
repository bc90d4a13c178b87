"""Columns of a table one by one, as :func:`dpstats.describe` reads them: each drops what it misses alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._types import Floats, Integers
from dpstats._validation import about, fail
from dpstats.data.batches import Source
from dpstats.data.schema import Column, Schema, how_to_declare, unusable
from dpstats.errors import SchemaError

__all__ = ["ColumnRows", "Listing"]

_NUMBERS = ("number", "untyped")


@dataclass(frozen=True)
class Listing:
    """Which columns of a table are described, and how: public facts alone.

    It stands where a :class:`~dpstats.formula.design.Design` stands for the estimators of a formula.

    Parameters
    ----------
    schema : Schema
        Of the columns that are described.
    skipped : tuple of str
        Columns that are not, as they have no declared levels or cannot be used.
    """

    schema: Schema
    skipped: tuple[str, ...] = ()

    class_responses = ()
    response_names = ()
    column_names = ()

    @classmethod
    def of(cls, columns: Sequence[str] | None, schema: Schema, apart: Sequence[str | None] = ()) -> "Listing":
        """The named columns, or all but those set `apart`; an error if a named one cannot be described."""
        if columns is None:
            found = [schema[name] for name in schema.whole() if name not in apart]
            usable = [c for c in found if c.kind in (*_NUMBERS, "truth", "factor")]
            if not usable:
                raise SchemaError("no column can be described: texts need declared levels, levels={...}.")
            return cls(Schema(tuple(usable)), tuple(c.name for c in found if c not in usable))
        named = [columns] if isinstance(columns, str) else columns
        if not isinstance(named, list | tuple) or not named or not all(isinstance(n, str) for n in named):
            fail("columns", columns, "None or a list of names of columns")
        if len(set(named)) < len(named):
            fail("columns", columns, "distinct names")
        for name in named:
            if name in apart:
                fail("columns", name, "other columns than those of by= and unit=")
            with about("columns"):
                column = schema[name]
            if column.kind in ("unusable", "repeated"):
                raise SchemaError(unusable(column))
            if column.kind == "text":
                raise SchemaError(f"column {name!r} holds text without levels: {how_to_declare(name)}.")
        return cls(Schema(tuple(schema[name] for name in named)))

    @property
    def formula(self) -> str:
        return ", ".join(self.schema.names)

    @property
    def numbers(self) -> tuple[Column, ...]:
        """The columns of numbers."""
        return tuple(c for c in self.schema if c.kind in _NUMBERS)

    @property
    def factors(self) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        """The columns of levels, with these."""
        return tuple(
            (c.name, (False, True) if c.kind == "truth" else c.levels or ())
            for c in self.schema
            if c.kind in ("truth", "factor")
        )

    @property
    def coded(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.factors)

    def blocks(self, source: Source) -> "ColumnRows":
        return ColumnRows(self, source)


class ColumnRows:
    """The values of the columns of a listing, in memory one column at a time."""

    def __init__(self, listing: Listing, source: Source) -> None:
        self._listing, self._source = listing, source

    def count(self) -> int:
        """The number of rows, whatever they hold."""
        return sum(batch.rows for batch in self._source.batches(self._listing.schema.names[:1]))

    def numbers(self, column: Column) -> Floats:
        """The finite values of a column of numbers, moved into its bounds."""
        values = self._numbers([column])[:, 0]
        return values[np.isfinite(values)]

    def codes(self, name: str, levels: tuple[Any, ...]) -> Integers:
        """Positions of the values among the levels, (rows,); -1 where one is missing or is no level."""
        batches = self._source.batches([name], frozenset([name]))
        parts = [np.asarray(batch.codes(name, levels), dtype=np.int64) for batch in batches]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def complete(self, columns: Sequence[Column]) -> Floats:
        """The rows in which all these columns are finite, (rows, columns)."""
        values = self._numbers(columns)
        return np.ascontiguousarray(values[np.isfinite(values).all(axis=1)])

    def _numbers(self, columns: Sequence[Column]) -> Floats:
        """The values of columns, (rows, columns), all from one pass: the next may have another order."""
        batches = self._source.batches([column.name for column in columns])
        parts = [np.column_stack([batch.numbers(c.name) for c in columns]) for batch in batches]
        values = np.concatenate([np.empty((0, len(columns))), *parts])
        # (a number beyond all doubles is infinite in one source, and missing in another)
        values[~np.isfinite(values)] = np.nan
        low, high = zip(*(column.bounds or (-np.inf, np.inf) for column in columns), strict=True)
        return np.clip(values, low, high, out=values)
