"""Noisy sums of bounded terms and counts over the rows, for diagnostics."""

from collections.abc import Callable, Iterable

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.engines.local import fold
from dpstats.mechanisms.noise import gaussian
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.sums import SUMMATION, sum_bounded, units_of

__all__ = ["column_of", "noisy_counts", "noisy_sum", "shortened"]

Block = tuple[Floats, Floats]
_WORD, _AT_ONCE = 32, 8_192


def shortened(terms: Floats, length: float) -> Floats:
    """Rows shortened to a length; what is not a number counts as nothing."""
    terms = np.nan_to_num(terms, nan=0.0, posinf=2.0**100, neginf=-(2.0**100))
    norm = np.sqrt(np.sum(terms**2, axis=1, keepdims=True))
    return terms * np.minimum(1.0, length / np.maximum(norm, 1e-300))


def noisy_sum(
    rows: Iterable[Block],
    terms: Callable[[Floats, Floats], Floats],
    m: int,
    length: float,
    mu: float,
    rng: Randomness,
) -> Floats:
    """Release the sum over the rows of ``terms(V, Y)``, an (n, m) array, each row shortened to a length.

    Notes
    -----
    **Privacy.** Terms are shortened here, rounded one by one, and added without error: a row moves the sum by
    at most `length`, ``mu``-GDP under add-remove. Argument: ``docs/privacy/diagnose.md``.
    """
    units = units_of(length)

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        # few rows at a time: their terms stay in cache, and so many of at most 2^42 units do not overflow
        for start in range(0, len(V), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            whole = np.rint(shortened(terms(V[rows], Y[rows]), length) * units).astype(np.int64)
            total = whole.sum(axis=0)
            state[0] += total >> _WORD
            state[1] += total & ((1 << _WORD) - 1)
            state[0] += state[1] >> _WORD
            state[1] &= (1 << _WORD) - 1

    return gaussian(sum_bounded(rows, (m,), units, update), (1 + SUMMATION) * length, mu, rng)


def noisy_counts(
    rows: Iterable[Block],
    cells: Callable[[Floats, Floats], Integers],
    shape: tuple[int, ...],
    mu: float,
    rng: Randomness,
) -> Floats:
    """Release numbers of rows by cell.

    Parameters
    ----------
    rows : iterable of (V, Y)
    cells : callable
        ``cells(V, Y)`` has the cell of each row for each of `k` histograms, (n, k), -1 for none.
    shape : (k, cells)
    mu : float
    rng : Randomness

    Notes
    -----
    **Privacy.** A row adds 1 to one count of each histogram at most: l2-sensitivity ``sqrt(k)``.
    """
    k, size = shape

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        found = cells(V, Y)
        for j in range(k):
            kept = found[:, j][found[:, j] >= 0]
            state[j] += np.bincount(np.minimum(kept, size - 1), minlength=size)

    counts = fold(rows, lambda: np.zeros(shape, np.int64), update)
    return gaussian(counts, float(np.sqrt(k)), mu, rng)


def column_of(rows: Iterable[Block], j: int) -> Floats:
    """A column of the responses, sorted."""
    return np.sort(np.concatenate([Y[:, j] for _, Y in rows]))
