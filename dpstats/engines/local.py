"""Sums over the rows: ``state = zero(); update(state, X, Y, first) ...; merge by addition``.

Rows come in blocks, pairs ``(X, Y)`` of a design matrix and responses.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from dpstats._threads import WORKERS, in_threads, pieces
from dpstats.engines.partitions import Coins as PartitionCoins
from dpstats.engines.partitions import Partitions

__all__ = [
    "Clipped",
    "Mapped",
    "Rows",
    "There",
    "Without",
    "count_rows",
    "fold",
    "gather",
    "in_pieces",
    "partition_coins",
    "partitions_of",
    "row_products",
    "rows_of",
    "sample",
    "zero_in",
]

_LEAST_ROWS = 32_768
"""Fewer rows than these are not worth a thread."""

Block = tuple[np.ndarray, np.ndarray]
S = TypeVar("S")


class Source(Protocol):
    """Blocks that can be read again."""

    @property
    def in_memory(self) -> bool: ...

    def __iter__(self) -> Iterator[Block]: ...


class Coins(Protocol):
    """What a sample is drawn with: :class:`~dpstats.mechanisms.rng.Randomness`."""

    @property
    def seeded(self) -> bool: ...

    def integers(self, high: int, size: int) -> np.ndarray: ...

    def words(self, size: int) -> np.ndarray: ...


def row_products(X: np.ndarray, A: np.ndarray) -> np.ndarray:
    """``X @ A``, with each row added up in the same order whatever rows are beside it.

    A matrix product rounds a row by its place and by how many there are, so that one record more would move
    the last digits of others.

    Examples
    --------
    >>> row_products(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0]))
    array([12., 34.])
    """
    total = np.zeros((len(X), *A.shape[1:]))
    for column, coefficients in zip(X.T, A, strict=True):
        total += np.multiply.outer(column, coefficients)
    return total


def partitions_of(blocks: Any) -> Partitions | None:
    """The partitions of blocks that stay on the workers of a cluster; None of others."""
    # (not getattr of the blocks: an error in there would pass for having none)
    return blocks.partitions if hasattr(type(blocks), "partitions") else None


class Rows:
    """Rows held in memory, as a source of one block.

    Parameters
    ----------
    X : (n, d) float array
        Finite.
    Y : (n, r) float array
        Finite.
    """

    in_memory = True

    def __init__(self, X: ArrayLike, Y: ArrayLike) -> None:
        self.X = np.ascontiguousarray(X, dtype=float)
        Y = np.ascontiguousarray(Y, dtype=float)
        self.Y = Y[:, None] if Y.ndim == 1 else Y

    def __iter__(self) -> Iterator[Block]:
        yield self.X, self.Y


class There:
    """Blocks on the workers of a cluster."""

    in_memory = False

    def __init__(self, partitions: Partitions | None) -> None:
        assert partitions is not None
        self._partitions = partitions

    @property
    def partitions(self) -> Partitions:
        return self._partitions

    def __iter__(self) -> Iterator[Block]:
        """The rows of all partitions, here."""
        yield from self._partitions.run(_gathered)


def _gathered(blocks: Iterable[Block], index: int) -> Block:
    return gather(blocks)


class Mapped:
    """A source of the blocks of another, mapped row by row by the method ``map(X, Y)`` of a subclass.

    Blocks in memory are mapped once and kept; those of a file are mapped in each pass.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        With the attribute `in_memory`.
    """

    once = False
    """Whether workers should not keep blocks that are mapped so."""
    last = False
    """Whether nothing else is made of the blocks of the other source from then on."""

    def __init__(self, blocks: Source) -> None:
        self._blocks = blocks
        self._held: list[Block] | None = None

    @property
    def in_memory(self) -> bool:
        return self._blocks.in_memory

    @property
    def partitions(self) -> Partitions | None:
        """Where the blocks stay on the workers of a cluster, these."""
        base = partitions_of(self._blocks)
        return None if base is None else base.mapped(self.map, self.once, self.last)

    def __getstate__(self) -> dict[str, Any]:
        # what goes to workers maps their blocks, and takes none along
        return {k: v for k, v in self.__dict__.items() if k not in ("_blocks", "_held", "_source")}

    def __iter__(self) -> Iterator[Block]:
        if self._held is None:
            mapped = (self.map(X, Y) for X, Y in self._blocks)
            if not self.in_memory:
                yield from mapped
                return
            self._held = list(mapped)
        yield from self._held

    def map(self, X: np.ndarray, Y: np.ndarray) -> Block:
        raise NotImplementedError


class Clipped(Mapped):
    """A source of blocks whose columns are moved into limits.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    low, high : (d,) arrays
        Limits of the columns of X; infinite where there are none.
    """

    def __init__(self, blocks: Source, low: np.ndarray, high: np.ndarray) -> None:
        super().__init__(blocks)
        self._limits = low, high

    def map(self, X: np.ndarray, Y: np.ndarray) -> Block:
        return np.clip(X, *self._limits), Y


class Without(Mapped):
    """A source of some rows of another.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    kept : callable
        Which of the rows X, (n,) of bool: a function of each row alone.
    """

    def __init__(self, blocks: Source, kept: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__(blocks)
        self._kept = kept

    def map(self, X: np.ndarray, Y: np.ndarray) -> Block:
        return _taken(X, Y, self._kept(X))


def zero_in(X: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Which rows are 0 in all of some columns, (n,) of bool."""
    return ~np.any(X[:, columns], axis=1)


def count_rows(blocks: Iterable[Block]) -> int:
    """The exact number of rows."""
    partitions = partitions_of(blocks)
    if partitions is None:
        return sum(len(X) for X, _ in blocks)
    return sum(partitions.run(rows_of))


def rows_of(blocks: Iterable[Block], index: int) -> int:
    """The number of rows of a partition: work for :meth:`Partitions.run`."""
    return sum(len(X) for X, _ in blocks)


def gather(blocks: Iterable[Block]) -> Block:
    """All rows of some blocks as two arrays, in their order.

    Examples
    --------
    >>> X, Y = gather([(np.ones((2, 1)), np.zeros((2, 1))), (np.ones((1, 1)), np.full((1, 1), 5.0))])
    >>> np.hstack([X, Y])
    array([[1., 0.],
           [1., 0.],
           [1., 5.]])
    """
    blocks = list(blocks)
    # an empty partition may not know its columns
    blocks = [block for block in blocks if len(block[0])] or blocks[:1]
    if len(blocks) == 1:
        return blocks[0]
    X, Y = zip(*blocks, strict=True) if blocks else ((np.empty((0, 0)),), (np.empty((0, 0)),))
    return np.concatenate(X), np.concatenate(Y)


def sample(blocks: Iterable[Block], halvings: int, rng: Coins) -> Iterable[Block]:
    """Keep each row with probability ``2^-halvings``, independently, in memory.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    halvings : int
    rng : Randomness

    Returns
    -------
    iterable of (X, Y)
        `blocks` itself if there is nothing to drop.

    Notes
    -----
    Whether a row is kept depends on nothing but its own coin, so one row more in `blocks` is one row more or
    none in the sample. What this means for privacy is said in ``docs/privacy/standardize.md``.
    """
    if halvings == 0:
        return blocks
    partitions = partitions_of(blocks)
    if partitions is not None:
        return Rows(*gather(partitions.run(_sampled(partitions, halvings, rng))))
    kept = []
    for X, Y in blocks:
        if rng.seeded:
            # one word a row, so that a seed keeps the same rows however they are cut into blocks
            stays = rng.integers(1 << halvings, len(X)) == 0
        else:
            stays = _staying(rng.words(halvings * -(-len(X) // 64)), halvings, len(X))
        kept.append(_taken(X, Y, stays))
    return Rows(*gather(kept)) if kept else blocks


def _staying(words: np.ndarray, halvings: int, rows: int) -> np.ndarray:
    """A row stays if `halvings` random bits of its own are all one."""
    bits = np.bitwise_and.reduce(words.reshape(halvings, -1), axis=0)
    return np.unpackbits(bits.view(np.uint8), count=rows).view(bool)


def _taken(X: np.ndarray, Y: np.ndarray, stays: np.ndarray) -> Block:
    rows = np.flatnonzero(stays)
    return X.take(rows, axis=0), Y.take(rows, axis=0)


def _sampled(partitions: Partitions, halvings: int, rng: Coins) -> Callable[[Iterable[Block], int], Block]:
    """What a worker keeps of its rows."""
    if rng.seeded:
        kept = [rng.integers(1 << halvings, rows) == 0 for rows in partitions.run(rows_of)]

        def stays(index: int, rows: int) -> np.ndarray:
            return kept[index]

    else:
        coins = partition_coins(rng)

        def stays(index: int, rows: int) -> np.ndarray:
            return _staying(coins.words(index, halvings * -(-rows // 64)), halvings, rows)

    def work(blocks: Iterable[Block], index: int) -> Block:
        X, Y = gather(blocks)
        return _taken(X, Y, stays(index, len(X)))

    return work


def partition_coins(rng: Coins) -> PartitionCoins:
    """Coins for the rows of partitions, by a key that is drawn here."""
    return PartitionCoins(rng.words(4).tobytes())


def in_pieces(rows: int, work: Callable[[slice], object]) -> None:
    """Do something to so many rows of arrays in memory, in threads.

    Parameters
    ----------
    rows : int
    work : callable
        ``work(piece)`` does it to the rows of a slice. It should release the GIL.

    Examples
    --------
    >>> squares = np.empty(3)
    >>> in_pieces(3, lambda piece: np.square(np.arange(3.0)[piece], out=squares[piece]))
    >>> squares
    array([0., 1., 4.])
    """
    in_threads([functools.partial(work, piece) for piece in pieces(rows, _LEAST_ROWS, WORKERS)])


def fold(
    blocks: Iterable[Block], zero: Callable[[], S], update: Callable[[S, np.ndarray, np.ndarray, int], object]
) -> S:
    """Fold `update` over the rows of `blocks`, in threads, and add up the states.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Pairs of C-contiguous float arrays with the same number of rows.
    zero : callable
        Returns a fresh state: an array, a tuple of arrays, or anything with ``+=``.
    update : callable
        ``update(state, X, Y, first)`` adds a piece's rows to the state in place; `first` is the index
        of the piece's first row within its block. It should release the GIL.

    Returns
    -------
    The sum of all states, exact whatever the pieces if the arrays are of integers.

    Examples
    --------
    >>> def update(state, X, Y, first):
    ...     state += X.T @ Y
    >>> fold(Rows([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]), lambda: np.zeros((2, 1)), update)
    array([[4.],
           [6.]])
    """
    partitions = partitions_of(blocks)
    if partitions is not None:
        total = partitions.total(lambda blocks, index: fold(blocks, zero, update))
        return zero() if total is None else cast(S, total)
    states: list[Any] = [zero()]
    for X, Y in blocks:
        cut = pieces(len(X), _LEAST_ROWS, WORKERS)
        while len(states) < len(cut):
            states.append(zero())
        in_threads(
            [
                functools.partial(update, state, X[piece], Y[piece], piece.start)
                for state, piece in zip(states, cut, strict=False)
            ]
        )
    total = states[0]
    for other in states[1:]:
        if isinstance(total, tuple):
            total = tuple(a + b for a, b in zip(total, other, strict=True))
        else:
            total += other
    return cast(S, total)
