"""Rows by unit, such as a person: those of a unit together, in memory or by way of a file without a name.

The order of a source is never trusted. A unit's rows are found by the values of a column, and keep their
order; the units come in the order of keyed hashes of these values, so that it does not matter how the rows of
different units lay.
"""

import datetime
import numbers
import uuid
from collections.abc import Collection, Iterator, Set
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from dpstats._types import Array, Integers, Words
from dpstats._validation import about
from dpstats.data.batches import Batch, Source, read_safely
from dpstats.data.columns import arrow_column
from dpstats.data.groups import HeldRows
from dpstats.data.schema import Schema, unusable
from dpstats.data.spill import Spill
from dpstats.data.times import plain_time
from dpstats.data.values import NOT_OURS, plain
from dpstats.errors import SchemaError

__all__ = ["UnitParts", "UnitRows", "bucket_of_unit", "check_unit"]

_HELD = 1 << 22
"""Values held in memory at a time, some 32 MiB of numbers, before they go to disk."""
_BITS = 6
"""Rows are laid on two to the power of this many piles, by so many bits of the hash."""
_SMALL = 1 << 60
"""Whole numbers below this are their own hash."""


def check_unit(unit: str, schema: Schema) -> None:
    """Raise an error unless `unit` names a column whose values can be told apart."""
    with about("unit"):
        if schema[unit].kind in ("unusable", "repeated"):
            raise SchemaError(unusable(schema[unit]))


class UnitRows(HeldRows):
    """Rows in memory, and which of them are of the same unit.

    Values of the column that compare equal are one unit. Nothing is trusted: the rows are sorted here.

    Parameters
    ----------
    source, names, coded
        As of :class:`~dpstats.data.groups.HeldRows`.
    unit : str
        Column of the units.
    key : str, optional
        Of 16 characters: the units are in the order of hashes by this key. By default they are in the order
        in which they appear.

    Attributes
    ----------
    together : (n,) int array
        Positions of the rows that have a unit, those of a unit together and in their order.
    units : (n,) int array
        Their units: 0, 0, 1, 2, 2, 2 ...
    """

    def __init__(
        self,
        source: Source,
        names: Collection[str],
        coded: Collection[str],
        unit: str,
        key: str | None = None,
    ) -> None:
        super().__init__(source, [*names, *({unit} - set(names))], {*coded, unit})
        self._unit, self._key = unit, key

    @cached_property
    def _found(self) -> tuple[Integers, Integers]:
        codes, values = read_safely(lambda: _numbered(self._read(self._unit, "keys")))
        if self._key is not None and len(values):
            places = np.empty(len(values), dtype=np.int64)
            places[np.argsort(_hashes(values, self._key), kind="stable")] = np.arange(len(values))
            codes = np.where(codes < 0, -1, places[codes])
        order = _sorted(codes)
        together = order[np.searchsorted(codes[order], 0) :]
        codes = codes[together]
        # without gaps, where a value that counts as missing had a number
        units: Integers = np.cumsum(np.diff(codes, prepend=codes[:1]) != 0)
        return together, units

    @property
    def together(self) -> Integers:
        return self._found[0]

    @property
    def units(self) -> Integers:
        return self._found[1]

    @property
    def size(self) -> int:
        """The number of units."""
        return int(self.units[-1]) + 1 if len(self.units) else 0


class UnitParts:
    """The rows of a source in parts of whole units, to be iterated as often as wanted.

    Of data in memory, and of files of few rows, there is one part. Rows of other files are laid on piles by
    some bits of the hash of their unit, and piles of many rows once more by further bits, in a file without a
    name; a part is then a pile. So memory holds the rows of a part alone, which are as many as some 32 MiB of
    numbers make up, or those of the largest unit.

    Parameters
    ----------
    source, names, coded, unit
        As of :class:`UnitRows`.
    key : str
        Of 16 characters, for the hashes.

    Attributes
    ----------
    in_memory : bool
        Whether there is one part, which is held.

    Notes
    -----
    **Privacy.** The pile of a row is a function of its unit alone, the same for values that compare equal:
    all rows of a unit are in one part, and what else is in it does not change them. Which units those are is
    found out anew in the part, by comparison and not by hash. Argument: ``docs/privacy/unit.md``.
    """

    def __init__(
        self, source: Source, names: Collection[str], coded: Collection[str], unit: str, key: str
    ) -> None:
        self.schema = source.schema
        self._given = names, coded, unit, key
        self._spills: list[Spill] = []
        self._piles: list[tuple[Spill, int]] = []
        self._held: UnitRows | None = None
        self.in_memory = source.in_memory
        if self.in_memory:
            self._held = UnitRows(source, *self._given)
            return
        every = [*names, *({unit} - set(names))]
        self._limit = _HELD // len(every)
        try:
            self._take(source.batches(every, frozenset({*coded, unit})))
        except BaseException:
            self.close()
            raise

    def _take(self, batches: Iterator[Batch]) -> None:
        first, rows = [], 0
        for batch in batches:
            first.append(batch)
            rows += batch.rows
            if rows > self._limit:
                read_safely(lambda: self._lay(_both(first, batches), 0))
                return
        self._held, self.in_memory = UnitRows(_Listed(self.schema, first), *self._given), True

    def __iter__(self) -> Iterator[UnitRows]:
        if self._held is not None:
            yield self._held
        for spill, pile in self._piles:
            yield UnitRows(_Pile(self.schema, spill, pile), *self._given)

    def sizes(self) -> list[int]:
        """The number of units in each part."""
        return [rows.size for rows in self]

    def spill(self, piles: int = 1) -> Spill:
        """Room on disk, until :meth:`close`."""
        self._spills.append(Spill(piles))
        return self._spills[-1]

    def close(self) -> None:
        """Let go of the rows."""
        while self._spills:
            self._spills.pop().close()
        self._piles, self._held = [], None

    def _lay(self, batches: Iterator[Batch], depth: int) -> None:
        """Lay rows on piles by the bits of their hash that come after `depth` times those of one laying."""
        _, _, unit, key = self._given
        spill, sizes = self.spill(1 << _BITS), np.zeros(1 << _BITS, dtype=np.int64)
        shift = np.uint64(64 - _BITS * (depth + 1))
        for batch in batches:
            codes, found = _numbered(batch.keys(unit))
            piles = (_hashes(found, key) >> shift).astype(np.int64) & (len(sizes) - 1)
            piles = np.append(piles, -1)[codes]
            order = np.argsort(piles, kind="stable")
            ends = np.searchsorted(piles[order], np.arange(len(sizes) + 1))
            laid = batch.take(order)
            for pile in np.flatnonzero(np.diff(ends)).tolist():
                part = laid.take(np.arange(ends[pile], ends[pile + 1]))
                spill.add(part, pile)
                sizes[pile] += part.rows
        total = sizes.sum()
        for pile, size in enumerate(sizes.tolist()):
            # a unit of many rows may be all of them
            if self._limit < size < total and _BITS * (depth + 2) <= 64:
                self._lay(spill.read(pile), depth + 1)
            elif size:
                self._piles.append((spill, pile))


def bucket_of_unit(values: Any, key: str, buckets: int) -> Integers:
    """The bucket of each row by its unit, -1 of one that has none: buckets are in the order of the hashes."""
    codes, found = read_safely(lambda: _numbered(values))
    ranges = (_hashes(found, key) >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)
    return np.append(ranges.astype(np.int64), -1)[codes]


def _both(first: list[Batch], others: Iterator[Batch]) -> Iterator[Batch]:
    while first:
        yield first.pop(0)
    yield from others


class _Listed(Source):
    def __init__(self, schema: Schema, batches: list[Batch]) -> None:
        self.schema, self._listed = schema, batches

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        yield from self._listed


class _Pile(Source):
    def __init__(self, schema: Schema, spill: Spill, pile: int) -> None:
        self.schema, self._spill, self._pile = schema, spill, pile

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        yield from self._spill.read(self._pile)


def _sorted(codes: Integers) -> Integers:
    """The stable order of numbers from -1 to 2^31: by the last 16 bits, then the first, which is fast."""
    low, high = (codes + 1) & 0xFFFF, (codes + 1) >> 16
    order = np.argsort(low.astype(np.uint16), kind="stable")
    return order[np.argsort(high[order].astype(np.uint16), kind="stable")]


def _numbered(values: Any) -> tuple[Integers, Array]:
    """Numbers of distinct values, and these: -1 where one is missing, an empty text, or not comparable."""
    if values.dtype.kind in "SUT":
        values = values.astype(object)
    if values.dtype == object:
        codes, found = _of_objects(np.asarray(values))
    else:
        codes, found = pd.factorize(values)
        if not isinstance(found, np.ndarray):
            # None where a text is none
            found = arrow_column(found).keys()
    if found.dtype == object:
        plain = set(map(type, found)) <= {str}
        empty = (
            found == "" if plain else np.array([v is None or (type(v) is str and not v) for v in found], bool)
        )
        codes = np.append(np.where(empty, -1, np.arange(len(found))), -1)[codes]
    return np.asarray(codes, dtype=np.int64), found


def _of_objects(values: Array) -> tuple[Integers, Array]:
    """Numbers of distinct objects, and these.

    Each is read by a rule of its own, of which the types of all say whether it may change any. Among them is
    always None: of texts alone pandas takes those that have no UTF-8 for their ``repr``.
    """
    if not plain(values, _PLAIN):
        values = np.fromiter(map(_plain, values), object, len(values))
    codes, found = pd.factorize(np.append(values, np.array([None])))
    return np.asarray(codes[:-1]), np.asarray(found)


_PLAIN = {type(None), bool, int, float, str, bytes, datetime.date}
"""Types whose values are equal as they are."""
_KINDS = Decimal, Fraction, complex, datetime.time, uuid.UUID, pd.Period
"""Other types whose values are equal to a copy, and to no two that are not equal to each other."""
_TIMES = datetime.datetime, datetime.timedelta, pd.Timestamp, pd.Timedelta, np.datetime64, np.timedelta64


def _plain(value: Any) -> Any:
    """A value that compares with all others as a Python value, None if there is none.

    NumPy compares a number with Python's after rounding one of them, and a span with a number: which of them
    are one would depend on their places in a hash table, and with them on the number of rows.
    """
    try:
        if isinstance(value, tuple):
            parts = tuple(map(_plain, value))
            lost = any(part is None and v is not None for part, v in zip(parts, value, strict=True))
            return None if lost else parts
        if type(value) in _TIMES:
            return plain_time(value)
        value = _of_python(value)
        known = type(value) in _PLAIN or type(value) in _KINDS
        if type(value) is datetime.time and not isinstance(value.tzinfo, datetime.timezone | None):
            # another zone may say something else each time it is asked
            return None
        return value if known and bool(hash(value) is not None and value == value) else None
    except NOT_OURS:
        raise
    except BaseException:
        return None


def _of_python(value: Any) -> Any:
    if isinstance(value, np.floating):
        number = float(value)
        # (a long double may be no double)
        same = number == value or value != value
        return number if same else Fraction(*value.as_integer_ratio())
    if isinstance(value, np.number | np.bool_):
        return value.item()
    # subclasses of these may have methods of their own
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes.__getitem__(value, slice(None))
    if isinstance(value, int) and type(value) is not bool:
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else value


def _hashes(values: Array, key: str) -> Words:
    """Keyed hashes of 64 bits (SipHash); values that compare equal have the same."""
    texts = values
    if values.dtype.kind in "iu" and (values >= 0).all() and (values < _SMALL).all():
        # as `_text` has them, but fast
        texts = values.astype("S").astype(object)
    elif not (values.dtype == object and set(map(type, values)) == {str} and "".join(values).isascii()):
        texts = np.fromiter(map(_text, values.tolist()), dtype=object, count=len(values))
    return np.asarray(pd.util.hash_array(texts, hash_key=key, categorize=False), dtype=np.uint64)


def _text(value: Any) -> bytes:
    """A text that is the same for values that compare equal, in every process and whatever holds them."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds").encode()
    if isinstance(value, datetime.date):
        return value.isoformat().encode()
    if isinstance(value, numbers.Number | np.generic | datetime.timedelta):
        # Python's hash is the same for equal numbers of all kinds, and that of a small whole number is itself
        return b"%d" % hash(value)
    if isinstance(value, uuid.UUID):
        return value.bytes
    # of other values it may be another in each process
    return b""
