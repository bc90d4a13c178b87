"""Numeric columns with two values, as far as released numbers tell: their rows are as those of two levels."""

import math
from dataclasses import dataclass

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.mechanisms._kernels import EXPONENT
from dpstats.mechanisms.standardize import NEXT, RMS, Standardization

__all__ = ["TwoValues", "groups_of_two", "two_values"]

_ALL = 0.95
"""One octave of the distance from the location has at least this share of the rows that are seen away from
it."""
_ZERO = 0.02
"""The other value is 0 if the mean square of the distance is the square of the location, but for this."""

_OPPOSITE = 0.25
"""It is the negative of the location if its distance may be that of it, but for this."""
_BESIDE, _JUST = 2.0**-40, 2.0**-20
"""A location that is less than the first of these shares of the distance below 0 is at 0; the second is more
than what is not known of a location."""


@dataclass(frozen=True)
class TwoValues:
    """The value that most rows of a column have, the other one, and the share of the rows that have that."""

    here: float
    other: float
    share: float


def groups_of_two(
    columns: Standardization, at: Integers, squares: Floats, means: Floats, rows: float
) -> tuple[Floats, Floats]:
    """Rows of standardised columns for each value of columns with two values, and their shares.

    All other columns are at their locations in them: their means in these rows are hidden by the noise of the
    second moments.

    Parameters
    ----------
    columns : Standardization
        Released location and scale of the columns `at`.
    at : (f,) int array
        Which of the standardised columns they are.
    squares, means : (q,) arrays
        About the mean squares and the means of all standardised columns, of which the first is the constant.
    rows : float
        Released number of rows.

    Returns
    -------
    means : (k, q) array
    shares : (k,) array

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.mechanisms._kernels import EXPONENT, OCTAVES
    >>> counts = np.zeros((1, 2, OCTAVES))
    >>> counts[0, :, EXPONENT] = 50.0
    >>> one, zero = np.ones(1), np.zeros(1)
    >>> columns = Standardization(zero, zero, one / 4, 2 * one, 100 * one, counts, zero)
    >>> groups_of_two(columns, np.array([1]), np.ones(2), np.array([1.0, 0.4]), 1000.0)
    (array([[1., 4.],
           [1., 0.]]), array([0.1, 0.9]))
    """
    groups, shares = [], []
    for i, j in enumerate(at):
        found = two_values(columns, i, float(squares[j]), float(means[j]), rows)
        if found is None:
            continue
        both = np.zeros((2, len(means)))
        both[:, 0] = 1.0
        both[:, j] = (np.array([found.other, found.here]) - columns.loc[i]) / columns.scale[i]
        groups.append(both)
        shares += [found.share, 1 - found.share]
    return np.reshape(groups, (len(shares), len(means))), np.array(shares)


def two_values(columns: Standardization, i: int, square: float, mean: float, rows: float) -> TwoValues | None:
    """The two values of column `i`, or None; `square` and `mean` are about those of standardised values."""
    counts, loc, scale = columns.rows[i].sum(axis=0), float(columns.loc[i]), float(columns.scale[i])
    octave, seen = int(np.argmax(counts)), float(counts.sum())
    if not counts[octave] > _ALL * seen:
        return None
    edge, share = 2.0 ** (octave - EXPONENT), min(seen / rows, 1.0)
    # zeros that are next to the location count as rows at it
    here = 0.0 if abs(loc) < scale * NEXT else loc
    return TwoValues(here, loc + _distance(loc, scale, edge, share, square, mean), share)


def _distance(loc: float, scale: float, edge: float, share: float, square: float, mean: float) -> float:
    """From the location to the other value, whose octave begins at `edge`; `share` of the rows have it.

    On which side it is the column's released mean says, where both are possible.
    """
    times = scale / abs(loc) if loc else math.inf
    if abs(times * times / share - 1) < _ZERO:
        return -loc
    size = edge * min(max(RMS * math.sqrt(max(square, 0.0)), 1.0), 2.0)
    side = -1.0 if loc < -_BESIDE * edge else 1.0
    at_zero = abs(loc) < scale * NEXT
    if at_zero and side * mean < 0:
        side = -side
    # beyond the location, unless the distance is that of its negative
    if not at_zero and abs(loc) * (1 + _JUST) < edge and side * mean > 0 and edge != 2 * abs(loc):
        return side * size
    if at_zero:
        return side * (1 - abs(loc) if edge <= 1 - abs(loc) < 2 * edge else size)
    if edge == 1:
        size = 1.0
    # a location may be just below a power of two
    octaves = abs(loc) * (1 + _JUST) / edge
    if octaves >= 2:
        return math.copysign(size, mean)
    if octaves < 1:
        opposite = 2 * abs(loc)
        return -side * (opposite if abs(size / opposite - 1) < _OPPOSITE else size)
    return side * size
