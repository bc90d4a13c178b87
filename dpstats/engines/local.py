"""Sums over the rows: ``state = zero(); update(state, piece) ...; merge by addition``."""

import functools
import math
from itertools import pairwise

import numpy as np

from dpstats._threads import WORKERS, in_threads

__all__ = ["SUMMATION", "Arrays", "from_whole", "gather", "sum_bounded", "sum_rows", "thin", "units_of"]

_LEAST_ROWS = 32_768
_BITS = 42
"""A term of a bounded sum is at most ``2^42`` units: a tile of 1,024 of them is a whole number below ``2^53``."""
_MOST_UNITS, _NO_UNITS = 600, 500
_WORD = 32

SUMMATION = 2.0**-10
"""Relative enlargement of the noise of a sum over the rows for rounding errors (``docs/privacy/whiten.md``)."""


class Arrays:
    """Design matrix and response held in memory, as a source of one block.

    Parameters
    ----------
    X : (n, d) float array
        Finite.
    Y : (n, r) float array
        Finite.
    """

    in_memory = True

    def __init__(self, X, Y):
        self.X = np.ascontiguousarray(X, dtype=float)
        Y = np.ascontiguousarray(Y, dtype=float)
        self.Y = Y[:, None] if Y.ndim == 1 else Y

    def __iter__(self):
        yield self.X, self.Y


def gather(blocks):
    """All usable rows of an iterable of ``(X, Y)``, as two arrays."""
    parts = list(blocks)
    if len(parts) == 1:
        return parts[0]
    X, Y = zip(*parts, strict=True) if parts else ((np.empty((0, 0)),), (np.empty((0, 0)),))
    return np.concatenate(X), np.concatenate(Y)


def thin(blocks, halvings, rng):
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
    **Privacy.** Whether a row is kept depends on nothing but its own coin, so neighbours stay neighbours (or
    become equal): whatever holds for a mechanism holds for it on the kept rows. Argument:
    ``docs/privacy/standardize.md``.
    """
    if halvings == 0:
        return blocks
    kept = []
    for X, Y in blocks:
        if rng.seeded:
            # one word a row, so that a seed keeps the same rows however they are cut into blocks
            stays = rng.integers(1 << halvings, len(X)) == 0
        else:
            # a row stays if `halvings` random bits of its own are all one
            bits = np.bitwise_and.reduce(rng.words(halvings * -(-len(X) // 64)).reshape(halvings, -1), axis=0)
            stays = np.unpackbits(bits.view(np.uint8), count=len(X)).view(bool)
        rows = np.flatnonzero(stays)
        kept.append((X.take(rows, axis=0), Y.take(rows, axis=0)))
    if len(kept) == 1:
        return Arrays(*kept[0])
    return Arrays(*(np.concatenate(part) for part in zip(*kept, strict=True))) if kept else blocks


class Clipped:
    """A source of blocks whose columns are moved into limits, row by row.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    low, high : (d,) arrays
        Limits of the columns of X; infinite where there are none.
    """

    def __init__(self, blocks, low, high):
        self._blocks = blocks
        self._limits = low, high
        self._held = None

    @property
    def in_memory(self):
        return self._blocks.in_memory

    def __iter__(self):
        if self._held is None:
            pairs = ((np.clip(X, *self._limits), Y) for X, Y in self._blocks)
            if not self.in_memory:
                yield from pairs
                return
            self._held = list(pairs)
        yield from self._held


def sum_rows(blocks, zero, update):
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
    """
    states = [zero()]
    for X, Y in blocks:
        n = len(X)
        pieces = max(1, min(WORKERS, n // _LEAST_ROWS))
        while len(states) < pieces:
            states.append(zero())
        cuts = [n * i // pieces for i in range(pieces + 1)]
        in_threads(
            [
                functools.partial(update, states[i], X[a:b], Y[a:b], a)
                for i, (a, b) in enumerate(pairwise(cuts))
            ]
        )
    total = states[0]
    for other in states[1:]:
        if isinstance(total, tuple):
            total = tuple(a + b for a, b in zip(total, other, strict=True))
        else:
            total += other
    return total


def units_of(bound):
    """How many units 1 is, a power of two, so that `bound` is less than ``2^42`` units and at least ``2^41``.

    A bound below ``2^-559`` is less than half a unit, and all terms are rounded to 0.

    Examples
    --------
    >>> units_of(1.0) == 2.0**41, units_of(5e-324) == 2.0**500
    (True, True)
    """
    exponent = _BITS - math.frexp(bound)[1]
    return 2.0 ** (exponent if exponent <= _MOST_UNITS else _NO_UNITS)


def sum_bounded(blocks, shape, units, update):
    """Sum of bounded terms over the rows of `blocks`, to the last bit the same in any order and in any pieces.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    shape : tuple of int
    units : float
        :func:`units_of` the bound. Each term is rounded to whole units.
    update : callable
        ``update(state, X, Y, first)`` adds a piece's terms in place to the whole numbers ``2^32 state[0] + state[1]``,
        int64, and leaves ``0 <= state[1] < 2^32``.

    Returns
    -------
    array of `shape`

    Notes
    -----
    **Privacy.** Terms are rounded one by one and added without error, so one row more moves the sum by its own rounded
    term, whatever the other rows, their number and their order. Argument: ``docs/privacy/whiten.md``.
    """
    return from_whole(sum_rows(blocks, lambda: np.zeros((2, *shape), np.int64), update), units)


def from_whole(state, units):
    """The sum that a state of :func:`sum_bounded`, or a sum of fewer than ``2^31`` of them, stands for."""
    high, low = state
    return (np.ldexp(high + (low >> _WORD), _WORD) + (low & ((1 << _WORD) - 1))) / units
