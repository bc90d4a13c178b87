"""Data of which a unit, such as a person, has several rows: one row of each, and all of them together."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.data.batches import Batch, Source
from dpstats.data.clusters import Bucket, UnitBuckets
from dpstats.data.units import UnitParts, UnitRows
from dpstats.engines.local import Block, Mapped, There, partition_coins, partitions_of, rows_of
from dpstats.engines.local import Coins as SampleCoins
from dpstats.engines.partitions import Coins as PartitionCoins
from dpstats.engines.partitions import Partitions, uniform
from dpstats.errors import NotReleased
from dpstats.formula.design import Blocks, Design

__all__ = ["EveryUnit", "UnitBlocks", "Units", "WithinBlocks", "WithinDesign", "drawn", "drawn_source"]


class Coins(SampleCoins, Protocol):
    """What rows are drawn with: :class:`~dpstats.mechanisms.rng.Randomness`."""

    def uniform(self, size: int) -> np.ndarray: ...


@dataclass(frozen=True)
class Units:
    """All usable rows of some units, those of a unit together.

    It stands in a block where the design matrix stands elsewhere: its length is the number of units.

    Attributes
    ----------
    X, Y : (n, d) and (n, r) arrays
    ends : (m,) int array
        Where the rows of each unit end; every unit has one at least.
    """

    X: Floats
    Y: Floats
    ends: Integers

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, units: slice) -> "Units":
        ends = np.append(0, self.ends)[units.start : units.stop + 1]
        rows = slice(ends[0], ends[-1])
        return Units(self.X[rows], self.Y[rows], ends[1:] - ends[0])

    @property
    def sizes(self) -> Integers:
        """Number of rows of each unit, (m,)."""
        return np.diff(self.ends, prepend=0)

    def block(self) -> Any:
        """These units as a block, without anything beside them."""
        return self, np.empty((len(self), 0))

    def kept(self, rows: Booleans) -> "Units":
        """Some of the rows, of the units that have any of them."""
        ends: Integers = np.append(0, np.cumsum(rows))[self.ends]
        return Units(self.X[rows], self.Y[rows], ends[np.diff(ends, prepend=0) > 0])

    def within(self, columns: slice) -> "Units":
        """Rows about the mean of their unit, some columns of them, of units of two rows or more."""
        sizes = self.sizes
        starts = self.ends - sizes
        joined = np.hstack([self.X[:, columns], self.Y])
        with np.errstate(all="ignore"):
            # about the first row: the mean of large numbers loses their differences
            joined = joined - np.repeat(joined[starts], sizes, axis=0)
            means = np.add.reduceat(joined, starts, axis=0) / sizes[:, None] if len(sizes) else joined
            joined = joined - np.repeat(means, sizes, axis=0)
        finite = np.isfinite(joined).all(axis=1)
        kept = (sizes > 1) & (np.logical_and.reduceat(finite, starts) if len(sizes) else finite)
        rows = np.repeat(kept, sizes)
        split = joined.shape[1] - self.Y.shape[1]
        X, Y = (np.ascontiguousarray(part) for part in np.split(joined[rows], [split], axis=1))
        return Units(X, Y, np.cumsum(sizes[kept]))


class EveryUnit(Mapped):
    """Blocks of units, each mapped by the method ``of_units(units)`` of a subclass, which returns units.

    Parameters
    ----------
    blocks : iterable of (Units, array)
        With the attribute `in_memory`.
    """

    @property
    def partitions(self) -> Partitions | None:
        base = partitions_of(self._blocks)
        if base is None or self.once or base.once != (_together,):
            return base and base.mapped(self.map, once=True)
        return replace(base, maps=(*base.maps, self._flat))

    def _flat(self, X: Floats, Y: Floats) -> Block:
        return _flat(self.of_units(_together(X, Y)[0]))

    def map(self, X: Any, Y: Any) -> Any:
        return self.of_units(X).block()

    def of_units(self, units: Units) -> Units:
        raise NotImplementedError


def _flat(units: Units) -> Block:
    """Units as arrays, which workers can keep: the last response says which row is the last of a unit."""
    last = np.zeros(len(units.X))
    last[units.ends - 1] = 1.0
    return units.X, np.column_stack([units.Y, last])


def _together(X: Floats, Y: Floats) -> Any:
    return Units(X, np.ascontiguousarray(Y[:, :-1]), np.flatnonzero(Y[:, -1]) + 1).block()


Uniforms = Callable[[int, int], Floats]
"""``(bucket, size)``: uniform coins for the units of a bucket."""


def _coins(sizes: Callable[[], list[int]], rng: Coins) -> Uniforms:
    """Those of a seed in the order of the units, of which `sizes` are in each bucket; else a function of a
    key, the same for a task that runs again."""
    if rng.seeded:
        return functools.partial(_given, [rng.uniform(size) for size in sizes()])
    return functools.partial(_keyed, partition_coins(rng))


def _given(coins: list[Floats], bucket: int, size: int) -> Floats:
    return coins[bucket]


def _keyed(coins: PartitionCoins, bucket: int, size: int) -> Floats:
    return uniform(coins.words(bucket, size))


class _Kept:
    """Blocks that are kept as the rows are: in memory, or on disk."""

    def __init__(self, parts: UnitParts, blocks: Iterable[Any] = ()) -> None:
        self.in_memory = parts.in_memory
        self._held: list[Any] = []
        self._spill = None if self.in_memory else parts.spill()
        for block in blocks:
            self.add(block)

    def add(self, block: Any) -> None:
        if self._spill is None:
            self._held.append(block)
        else:
            self._spill.add(block)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held) if self._spill is None else self._spill.read()


class UnitBlocks(Blocks):
    """One usable row of every unit, drawn at random; and beside them all rows of the units.

    What iterates over it sees the rows that were drawn, once and for all: a unit added or removed is one row
    added or removed. A unit without a usable row has one that is not usable.

    Parameters
    ----------
    design : Design
    parts : UnitParts or UnitBuckets
        All rows, here or on the workers of a cluster.
    one : Source
        The rows that were drawn.
    shared : bool
        Whether the rows of a unit share the weight of one.
    """

    def __init__(
        self, design: Design, parts: UnitParts | UnitBuckets, one: Source, shared: bool = False
    ) -> None:
        super().__init__(design, one)
        self._parts, self.shared = parts, shared

    @classmethod
    def drawn(cls, design: Design, parts: UnitParts | UnitBuckets, rng: Coins) -> "UnitBlocks":
        """Draw a row of every unit, uniformly among those that `design` can use."""
        if isinstance(parts, UnitBuckets):
            return cls(design, parts, _DrawnThere(parts, design, _coins(parts.sizes, rng)))
        units, places = _Kept(parts), _Kept(parts)
        for rows in parts:
            found, usable = _usable(design, rows)
            units.add(found.block())
            places.add(drawn(rows, usable, rng.uniform(rows.size)))
        blocks = cls(design, parts, _Drawn(parts, places))
        blocks.__dict__["units"] = units
        return blocks

    def __iter__(self) -> Iterator[Block]:
        return iter(self._one)

    def of(self, design: Design) -> "UnitBlocks":
        return UnitBlocks(design, self._parts, self._source, self.shared)

    def sharing(self) -> "UnitBlocks":
        """The same rows, those of a unit with the weight of one together."""
        blocks = UnitBlocks(self._design, self._parts, self._source, True)
        blocks.__dict__["units"] = self.units
        return blocks

    @cached_property
    def units(self) -> Any:
        """All usable rows: blocks ``(Units, array)`` of some units at a time, of which the array is empty."""
        if isinstance(self._parts, UnitBuckets):
            there = self._parts.partitions(functools.partial(_units_of_bucket, self._design))
            return There(there.mapped(_together, once=True))
        return _Kept(self._parts, (_usable(self._design, rows)[0].block() for rows in self._parts))

    @cached_property
    def _one(self) -> Iterable[Block]:
        if isinstance(self._parts, UnitBuckets):
            return There(self.partitions)
        return _Kept(self._parts, super().__iter__())


class WithinBlocks(UnitBlocks):
    """Rows about the mean of their unit; what iterates over it sees one row of every unit of two or more.

    Parameters
    ----------
    blocks : UnitBlocks
    columns : slice
        Of X, without the constant.
    rng : Randomness
    """

    def __init__(self, blocks: UnitBlocks, columns: slice, rng: Coins) -> None:
        super().__init__(blocks._design, blocks._parts, blocks._source, blocks.shared)
        if isinstance(self._parts, UnitBuckets):
            there: Any = _Within(blocks.units, columns)
            coins = _coins(lambda: there.partitions.run(rows_of), rng)
            make = functools.partial(_within_of_bucket, self._design, columns, coins)
            self.__dict__ |= {"units": there, "partitions": self._parts.partitions(make)}
            return
        units, one = _Kept(self._parts), _Kept(self._parts)
        for every, _ in blocks.units:
            within = every.within(columns)
            units.add(within.block())
            one.add(_one_of_each(within, rng.uniform(len(within))))
        self.__dict__ |= {"units": units, "_one": one}


class _Within(EveryUnit):
    """Rows about the mean of their unit, on workers."""

    def __init__(self, units: Any, columns: slice) -> None:
        super().__init__(units)
        self._columns = columns

    def of_units(self, units: Units) -> Units:
        return units.within(self._columns)


def _one_of_each(units: Units, coins: Floats) -> Block:
    """A row of every unit."""
    sizes = units.sizes
    chosen = units.ends - sizes + np.minimum((coins * sizes).astype(np.int64), sizes - 1)
    return units.X[chosen], units.Y[chosen]


@dataclass(frozen=True)
class WithinDesign:
    """The columns of a design without its constant, as a table of them needs it."""

    design: Design

    has_intercept = False
    limits = None

    @property
    def columns(self) -> slice:
        """Those of the design that are left."""
        return slice(int(self.design.has_intercept), None)

    @property
    def formula(self) -> str:
        return self.design.formula

    @property
    def response_names(self) -> tuple[str, ...]:
        return self.design.response_names

    @property
    def column_names(self) -> tuple[str, ...]:
        return self.design.column_names[self.columns]

    @property
    def column_bounds(self) -> tuple[tuple[float, float] | None, ...]:
        return (None,) * len(self.column_names)

    @property
    def term_slices(self) -> Mapping[str, slice]:
        shift = self.columns.start
        terms = self.design.term_slices.items()
        return {name: slice(s.start - shift, s.stop - shift) for name, s in terms if s.start >= shift}

    def within(self, low: np.ndarray, high: np.ndarray) -> "WithinDesign":
        return self

    def to_dict(self) -> dict[str, Any]:
        """As :meth:`Design.to_dict`, without the constant."""
        facts = self.design.to_dict()
        return facts | {"columns": [block for block in facts["columns"] if block["term"] is not None]}

    def facts(self) -> dict[str, Any]:
        """As :meth:`Design.facts`, and that the effects of the units were taken out."""
        return self.design.facts() | {"within": True}

    def matrix(self, data: object) -> np.ndarray:
        raise NotReleased("Predictions need the effects of the units, which are not released.")

    new_rows = matrix


def _usable(design: Design, rows: UnitRows) -> tuple[Units, np.ndarray]:
    """The usable rows of every unit, and which of `rows.together` they are."""
    source = rows.source(slice(None))
    design._check(source, design.layout.reads)
    (batch,) = design._batches(source, design.layout.reads)
    usable = np.zeros(batch.rows, dtype=bool)
    X, Y = design.arrays(batch, usable)
    kept = usable[rows.together]
    places = rows.together[kept] if usable.all() else (np.cumsum(usable) - 1)[rows.together[kept]]
    numbers = rows.units[kept]
    last = np.append(numbers[1:] != numbers[:-1], np.ones(min(len(numbers), 1), dtype=bool))
    return Units(X.take(places, axis=0), Y.take(places, axis=0), np.flatnonzero(last) + 1), kept


def drawn(rows: UnitRows, usable: np.ndarray, coins: Floats) -> np.ndarray:
    """Positions of one row of every unit, each drawn uniformly from the unit's usable rows; where there is
    none, of the unit's first row.

    **Privacy.** The row of a unit depends on nothing but that unit's rows and a coin of its own. Argument:
    ``docs/privacy/unit.md``.

    Parameters
    ----------
    rows : UnitRows
    usable : (n,) bool array
        Which of ``rows.together`` are.
    coins : (units,) array
        Uniform on (0, 1).
    """
    sizes = np.bincount(rows.units, minlength=rows.size)
    able = np.bincount(rows.units[usable], minlength=rows.size)
    first, start = np.cumsum(sizes) - sizes, np.cumsum(able) - able
    place = (coins * able).astype(np.int64)
    chosen = start + np.minimum(place, np.maximum(able - 1, 0))
    kept = np.append(np.flatnonzero(usable), 0)
    return rows.together[np.where(able > 0, kept[np.minimum(chosen, len(kept) - 1)], first)]


def drawn_source(parts: UnitParts, rng: Coins) -> Source:
    """One row of every unit, whatever it holds."""
    places = (drawn(rows, np.ones(len(rows.together), dtype=bool), rng.uniform(rows.size)) for rows in parts)
    return _Drawn(parts, _Kept(parts, places))


class _Drawn(Source):
    """Rows at some places of each part."""

    def __init__(self, parts: UnitParts, places: Iterable[Integers]) -> None:
        self.schema, self.in_memory = parts.schema, parts.in_memory
        self._parts, self._places = parts, places

    def _batches(self, names: list[str], coded: Set[str]) -> Iterator[Batch]:
        for rows, places in zip(self._parts, self._places, strict=True):
            yield from rows.source(places).batches(names, coded)


class _DrawnThere(Source):
    """Rows of each bucket on workers, drawn as `design` can use them."""

    in_memory = False

    def __init__(self, parts: UnitBuckets, design: Design, coins: Uniforms) -> None:
        self.schema = parts.schema
        self._parts, self._drawn = parts, (design, coins)

    def partitions(self, names: list[str], make: Callable[[Batch], Block]) -> Partitions:
        return self._parts.partitions(functools.partial(_drawn_of_bucket, *self._drawn, names, make))


# -- on workers --------------------------------------------------------------------------------------------


def _units_of_bucket(design: Design, bucket: Bucket) -> Iterator[Block]:
    yield _flat(_usable(design, bucket.rows)[0])


def _drawn_of_bucket(
    design: Design, coins: Uniforms, names: list[str], make: Callable[[Batch], Block], bucket: Bucket
) -> Iterator[Block]:
    rows = bucket.rows
    places = drawn(rows, _usable(design, rows)[1], coins(bucket.number, rows.size))
    yield from map(make, rows.source(places).batches(names, design.coded))


def _within_of_bucket(design: Design, columns: slice, coins: Uniforms, bucket: Bucket) -> Iterator[Block]:
    units = _usable(design, bucket.rows)[0].within(columns)
    yield _one_of_each(units, coins(bucket.number, len(units)))
