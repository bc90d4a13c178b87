"""Compiled passes over the rows for private standardisation.

Each has a slow equal in ``tests/mechanisms/test_kernels.py``. They release the GIL and allocate nothing per
row. Everything is unsigned: signed indices cost a factor of five here, for the wrap-around of negative ones.
"""

import numpy as np

from dpstats._jit import kernel, prefetch
from dpstats._types import Floats, Integers, Words

EXPONENT = 100
"""Public prior on magnitudes: below ``2^-EXPONENT`` counts as zero, above ``2^(EXPONENT + 1)`` is clipped."""

_U = np.uint64
GRID_BITS = 13
"""A location is a cell of a coarse grid of the lattice, in it a cell of a finer grid, and so on."""
GRIDS = 3
GRID_CELLS = 1 << GRID_BITS
OCTAVES = 2 * EXPONENT + 1

LOWEST = _U(np.array(2.0**-EXPONENT).view(np.uint64))
HIGHEST = _U(np.array(2.0 ** (EXPONENT + 1)).view(np.uint64))
OFFSET = _U(1 << 60)
"""The key of zero; all keys lie strictly between 0 and twice this."""

KEY_BITS = 61
TOP_SHIFT = _U(KEY_BITS - GRID_BITS)
_GRID_SHIFT = _U(GRID_BITS)
_CELL_MASK = _U(GRID_CELLS - 1)
_MAGNITUDE = _U(0x7FFFFFFFFFFFFFFF)
_SIGN = _U(63)
_MANTISSA_BITS = _U(52)
_ONE = _U(1)
_TWO = _U(2)
_ZERO = _U(0)
_BIAS = _U(1023 - EXPONENT)
_TOP_OCTAVE = _U(OCTAVES - 1)
_ROW = np.int64(1)


@kernel(inline="always")
def _key(bits: np.uint64) -> np.uint64:
    """Order-preserving lattice key of the double with these bits."""
    magnitude = bits & _MAGNITUDE
    steps = min(magnitude, HIGHEST) - LOWEST + _ONE if magnitude >= LOWEST else _ZERO
    return OFFSET - steps if bits >> _SIGN else OFFSET + steps


@kernel
def count_top(bits: Words, columns: Words, hist: Integers) -> None:
    """``hist[c, cell] += 1`` for the coarse cell of every value.

    Parameters
    ----------
    bits : (n, d) uint64 array
        The bits of finite doubles.
    columns : (q,) uint64 array
        Which columns to count.
    hist : (q, GRID_CELLS) int64 array
        Updated in place.
    """
    for i in range(bits.shape[0]):
        prefetch(bits, i)
        for c in range(columns.size):
            hist[c, _key(bits[i, columns[c]]) >> TOP_SHIFT] += _ROW


@kernel
def count_low(bits: Words, columns: Words, cell: Words, shift: np.uint64, hist: Integers) -> None:
    """As `count_top`, for the cells of the next grid inside the cell ``cell[c]``, (q,) uint64, of the grids
    before: the first bits of keys, without the last `shift`."""
    low = shift - _GRID_SHIFT
    for i in range(bits.shape[0]):
        prefetch(bits, i)
        for c in range(columns.size):
            key = _key(bits[i, columns[c]])
            if key >> shift == cell[c]:
                hist[c, (key >> low) & _CELL_MASK] += _ROW


@kernel
def count_octaves(x: Floats, columns: Words, loc: Floats, width: Floats, hist: Integers) -> None:
    """``hist[c, octave] += 1`` for the octave of every ``|x - loc|`` above `width`; others are at `loc`.

    Parameters
    ----------
    x : (n, d) float array
        Finite.
    columns : (q,) uint64 array
    loc, width : (q,) float arrays
    hist : (q, OCTAVES) or (q, 2 OCTAVES) int64 array
        Cell ``k`` counts distances in ``[2^(k - EXPONENT), 2^(k - EXPONENT + 1))``; cells 2 and the last take
        what lies beyond. The larger one has those of values above `loc` in its second half. No other cell has
        the values that are 0 but not at the location, which are in cell 0, and those at a location that is
        not 0, which are in cell 1.
    """
    above = np.uint64(hist.shape[1]) - _TOP_OCTAVE - _ONE
    distance = np.empty(1)
    bits = distance.view(np.uint64)
    for i in range(x.shape[0]):
        prefetch(x, i)
        for c in range(columns.size):
            distance[0] = abs(x[i, columns[c]] - loc[c])
            if distance[0] > width[c]:
                exponent = bits[0] >> _MANTISSA_BITS
                octave = exponent - _BIAS if exponent > _BIAS + _TWO else _TWO
                octave = min(octave, _TOP_OCTAVE) if x[i, columns[c]] != 0.0 else _ZERO
                hist[c, octave + above if x[i, columns[c]] > loc[c] else octave] += _ROW
            elif loc[c] != 0.0:
                hist[c, _ONE] += _ROW


TILE = 128
"""Rows worked on together: their arrays, one row a coordinate, stay in cache between the steps."""

CEILING = 2.0 ** (EXPONENT + 1)

_WORD = np.int64(32)
_LOW = np.int64(2**32 - 1)


@kernel
def standardized(
    X: Floats, Y: Floats, start: int, rows: int, columns: Integers, loc: Floats, inverse: Floats, out: Floats
) -> None:
    """Fill ``out[:, :rows]`` with ``((x, y)[columns] - loc) * inverse`` of the rows from `start`,
    transposed."""
    d = X.shape[1]
    for t in range(rows):
        prefetch(X, start + t)
        for j in range(columns.size):
            c = columns[j]
            out[j, t] = X[start + t, c] if c < d else Y[start + t, c - d]
    for j in range(columns.size):
        for t in range(rows):
            out[j, t] = (min(max(out[j, t], -CEILING), CEILING) - loc[j]) * inverse[j]


@kernel
def weighed(Y: Floats, start: int, rows: int, column: int, unit: float, z: Floats) -> None:
    """Multiply ``z[:, :rows]`` by a column of the rows of Y from `start`, over `unit`; by nothing if it is
    -1."""
    if column < 0:
        return
    for t in range(rows):
        weight = min(max(Y[start + t, column], -CEILING), CEILING) / unit
        for j in range(len(z)):
            z[j, t] *= weight


@kernel
def mapped(W: Floats, z: Floats, rows: int, v: Floats, norm2: Floats) -> None:
    """Fill ``v[:, :rows]`` with ``W' z`` and ``norm2[:rows]`` with the squared norms, the same way for every
    row."""
    norm2[:rows] = 0.0
    for a in range(W.shape[1]):
        v[a, :rows] = 0.0
        for j in range(len(W)):
            w = W[j, a]
            if w != 0.0:
                for t in range(rows):
                    v[a, t] += w * z[j, t]
        for t in range(rows):
            norm2[t] += v[a, t] * v[a, t]


@kernel(inline="always")
def carried(high: np.int64, low: np.int64, part: float) -> tuple[np.int64, np.int64]:
    """``2^32 high + low + part`` for a whole number `part` below ``2^53``, as such a pair again: exact."""
    low += np.int64(part)
    return high + (low >> _WORD), low & _LOW


@kernel(fastmath={"reassoc"})
def add_gram(v: Floats, rows: int, units: float, gram: Integers) -> None:
    """``gram += sum_t rint(units v_t v_t')`` over the first `rows` columns of the (k, TILE) array `v`.

    Products are at most ``2^42``, so those of a tile add up to less than ``2^53``, exactly and in any order.
    """
    whole = np.empty(rows)
    for a in range(v.shape[0]):
        for t in range(rows):
            whole[t] = units * v[a, t]
        for b in range(a + 1):
            total = 0.0
            for t in range(rows):
                total += np.rint(whole[t] * v[b, t])
            gram[0, a, b], gram[1, a, b] = carried(gram[0, a, b], gram[1, a, b], total)
            gram[0, b, a], gram[1, b, a] = gram[0, a, b], gram[1, a, b]


@kernel
def clipped_gram(
    X: Floats,
    Y: Floats,
    columns: Integers,
    loc: Floats,
    inverse: Floats,
    weight: int,
    unit: float,
    W: Floats,
    radius2: float,
    units: float,
    gram: Integers,
) -> None:
    """``gram += sum_i w_i v_i v_i'`` with ``v = s W' (((x, y) - loc) * inverse)`` and
    ``w = min(1, radius2 / |v|^2)``.

    A row whose norm overflows has weight 0: the sum is finite whatever the rows.

    Parameters
    ----------
    X : (n, d) float array
    Y : (n, r) float array
    columns : (q,) intp array
        Which columns of the joined row ``(x, y)`` enter, by index into its d + r entries.
    loc, inverse : (q,) float arrays
        Location and reciprocal scale of those columns.
    weight, unit : int, float
        ``s`` is ``y[weight] / unit``; 1 if `weight` is -1.
    W : (q, k) float array
    radius2 : float
        Squared radius to which rows are clipped.
    units : float
        Products are rounded to multiples of ``1/units``; a power of two with ``units radius2 <= 2^42``.
    gram : (2, k, k) int64 array
        ``2^32 gram[0] + gram[1]`` units; updated in place.
    """
    k = W.shape[1]
    z, v, norm2 = np.empty((columns.size, TILE)), np.empty((k, TILE)), np.empty(TILE)
    for start in range(0, len(X), TILE):
        rows = min(TILE, len(X) - start)
        standardized(X, Y, start, rows, columns, loc, inverse, z)
        weighed(Y, start, rows, weight, unit, z)
        mapped(W, z, rows, v, norm2)
        for t in range(rows):
            if norm2[t] > radius2 or not norm2[t] < np.inf:
                shrink = np.sqrt(radius2 / norm2[t]) if norm2[t] < np.inf else 0.0
                for a in range(k):
                    v[a, t] = v[a, t] * shrink if shrink > 0.0 else 0.0
        add_gram(v, rows, units, gram)


@kernel(inline="always")
def octave(bits: np.int64) -> int:
    """Cell of a histogram of octaves for the bits of a square: ``floor(log2(square)) + EXPONENT``, clipped to
    the end cells. What is not finite is in the last, whatever the sign of what is no number.
    """
    exponent = int((bits >> np.int64(52)) & np.int64(2047)) - 1023 + EXPONENT
    return min(max(exponent, 0), OCTAVES - 1)
