"""The columns of a batch, some rows at a time."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from dpstats.data.batches import Batch
from dpstats.engines.memory import empty

__all__ = ["Held", "Piece", "columns_of", "pieces_of", "rows_at_once"]

Coded = tuple[str, tuple[Any, ...]]
Held = tuple[dict[str, np.ndarray], dict[Coded, np.ndarray]]

_NUMBERS, _LEAST, _MOST = 2**19, 1_024, 32_768
"""Numbers that are computed at a time, within limits of the rows that these are: many, since threads wait
for each other between the steps."""


class Piece:
    """Some rows of the columns a design reads, and which of them are usable so far."""

    def __init__(self, rows: int, numbers: dict[str, np.ndarray], codes: dict[Coded, np.ndarray]) -> None:
        self.rows = rows
        self.usable = np.ones(rows, dtype=bool)
        self._numbers = numbers
        self._codes = codes
        for values in numbers.values():
            self.usable &= np.isfinite(values)
        for codes_of in codes.values():
            self.usable &= codes_of >= 0

    def number(self, name: str) -> np.ndarray:
        return self._numbers[name]

    def codes(self, name: str, levels: tuple[Any, ...]) -> np.ndarray:
        return self._codes[name, levels]


def columns_of(batch: Batch, numbers: Iterable[str], coded: Iterable[Coded]) -> Held:
    """The columns of a batch as numbers by name, and as codes by name and levels."""
    return {name: batch.numbers(name) for name in numbers}, {key: batch.codes(*key) for key in coded}


def rows_at_once(columns: int) -> int:
    """How many rows of a design matrix of so many columns are computed at a time."""
    return max(_LEAST, min(_NUMBERS // max(columns, 1), _MOST))


def pieces_of(
    columns: Held, bounds: Mapping[str, tuple[float, float] | None], rows: slice, size: int
) -> Iterator[Piece]:
    """Yield a slice of the rows of a batch in pieces of `size`, each to be used before the next is asked for;
    `bounds` maps the numbers' names to bounds or None."""
    numbers, codes = columns
    # the same memory for every piece: where the allocator gives back what is freed, new pages cost as much
    # as what is done with them
    scratch = empty(len(bounds), min(size, rows.stop - rows.start))
    for start in range(rows.start, rows.stop, size):
        piece = slice(start, min(start + size, rows.stop))
        found = {}
        for place, (name, limits) in zip(scratch, bounds.items(), strict=True):
            # There is one zero: whether -0 keeps its sign may depend on how the other values are stored.
            values = np.add(numbers[name][piece], 0.0, out=place[: piece.stop - start], dtype=np.float64)
            if limits is not None:
                # An infinite value is not usable; moved into the bounds it would pass for a number.
                values[:] = np.where(np.isfinite(values), np.clip(values, *limits), np.nan)
            found[name] = values
        yield Piece(piece.stop - start, found, {key: values[piece] for key, values in codes.items()})
