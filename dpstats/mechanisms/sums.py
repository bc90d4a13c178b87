"""Exact sums of bounded terms over the rows: the part of a noisy sum that comes before its noise."""

import math
from collections.abc import Callable, Iterable

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.engines.local import fold

__all__ = ["SUMMATION", "from_whole", "sum_bounded", "units_of"]

_BITS = 42
"""A term of a bounded sum is at most ``2^42`` units: a tile of 1,024 of them is a whole number below
``2^53``.
"""
_MOST_UNITS, _NO_UNITS = 600, 500
_WORD = 32

SUMMATION = 2.0**-10
"""Relative enlargement of the noise of a sum over the rows for rounding errors (``docs/privacy/whiten.md``).
"""


def units_of(bound: float) -> float:
    """How many units 1 is, a power of two, so that `bound` is less than ``2^42`` units and at least ``2^41``.

    A bound below ``2^-559`` is less than half a unit, and all terms are rounded to 0.

    Examples
    --------
    >>> [units_of(bound) for bound in (1.0, 0.25, 1000.0)]
    [2199023255552.0, 8796093022208.0, 4294967296.0]
    """
    exponent = _BITS - math.frexp(bound)[1]
    return 2.0 ** (exponent if exponent <= _MOST_UNITS else _NO_UNITS)


def sum_bounded(
    blocks: Iterable[tuple[Floats, Floats]],
    shape: tuple[int, ...],
    units: float,
    update: Callable[[Integers, Floats, Floats, int], None],
) -> Floats:
    """Sum of bounded terms over the rows of `blocks`, to the last bit the same in any order and in any
    pieces.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    shape : tuple of int
    units : float
        :func:`units_of` the bound. Each term is rounded to whole units.
    update : callable
        ``update(state, X, Y, first)`` adds a piece's terms in place to the whole numbers ``2^32 state[0] +
        state[1]``, int64, and leaves ``0 <= state[1] < 2^32``.

    Returns
    -------
    array of `shape`

    Notes
    -----
    **Privacy.** Terms are rounded one by one and added without error, so one row more moves the sum by its
    own rounded term, whatever the other rows, their number and their order. Argument:
    ``docs/privacy/whiten.md``.
    """
    return from_whole(fold(blocks, lambda: np.zeros((2, *shape), np.int64), update), units)


def from_whole(state: Integers, units: float) -> Floats:
    """The sum that a state of :func:`sum_bounded`, or a sum of fewer than ``2^31`` of them, stands for."""
    high, low = state
    return (np.ldexp(high + (low >> _WORD), _WORD) + (low & ((1 << _WORD) - 1))) / units
