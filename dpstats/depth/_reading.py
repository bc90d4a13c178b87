"""Validate arrays, and read them as the numbers that were meant.

Kernels are exact for doubles, but data are usually decimals: 0.1, 0.2 and 0.3 are collinear on paper and
not as doubles. :func:`decimals` finds columns of decimals and rescales them to integers, so that what is
tied or collinear as written is so in the computation; halfspace and regression depth do not notice the
change of units. Other columns are left alone.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from dpstats._types import Floats, Integers
from dpstats.errors import ParameterError

__all__ = ["matrix", "vector", "integers", "clip", "decimals", "LARGEST", "SMALLEST"]

LARGEST = 2.0**200
SMALLEST = 2.0**-200
_DIGITS = 14  # decimal digits that every double carries through a few roundings


def _numeric(name: str, value: ArrayLike, allowed: str) -> Floats:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError
        return np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be {allowed}, got something that is not numeric.") from None


def _finite(name: str, array: Floats, allowed: str) -> Floats:
    if not np.isfinite(array).all():
        raise ParameterError(f"{name} must be {allowed}, got missing or infinite values.")
    return array


def matrix(
    name: str, value: ArrayLike, *, columns: int | None = None, at_least: int = 0, vector_is: str = "column"
) -> Floats:
    """Return `value` as a finite float matrix; a vector becomes a column (or a row)."""
    shape = (
        "a matrix of finite numbers"
        if columns is None
        else f"a matrix of finite numbers with {columns} columns"
    )
    array = _numeric(name, value, shape)
    if array.ndim == 1:
        array = array[:, None] if vector_is == "column" else array[None, :]
    if array.ndim != 2 or array.shape[1] == 0 or (columns is not None and array.shape[1] != columns):
        raise ParameterError(f"{name} must be {shape}, got shape {np.shape(value)}.")
    if len(array) < at_least:
        raise ParameterError(f"{name} must have at least {at_least} rows, got {len(array)}.")
    return _finite(name, array, shape)


def vector(name: str, value: ArrayLike, *, length: int | None = None, at_least: int = 0) -> Floats:
    """Return `value` as a finite float vector."""
    allowed = "a vector of finite numbers" if length is None else f"a vector of {length} finite numbers"
    array = _numeric(name, value, allowed)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or (length is not None and len(array) != length):
        raise ParameterError(f"{name} must be {allowed}, got shape {np.shape(value)}.")
    if len(array) < at_least:
        raise ParameterError(f"{name} must have at least {at_least} entries, got {len(array)}.")
    return _finite(name, array, allowed)


def integers(depths: ArrayLike) -> Integers:
    """Return `depths` as a vector of positive integers."""
    array = np.atleast_1d(np.asarray(depths))
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array < 1).any():
        raise ParameterError("depths must be a positive integer or a vector of them.")
    return array.astype(np.int64)


def clip(array: Floats) -> Floats:
    """Move magnitudes above 2**200 to 2**200 and those below 2**-200 to 0: the range of exact arithmetic.

    A rule for each number by itself, so neighbouring data sets stay neighbours.
    """
    array = np.clip(array, -LARGEST, LARGEST)
    return np.where(np.abs(array) < SMALLEST, 0.0, array)


def _decimal_scale(column: Floats) -> tuple[Floats, int] | None:
    """Return ``(k, m)`` with ``column = k * 10**-m`` to within rounding and integers k, or None."""
    largest = float(np.abs(column).max(initial=0.0))
    if largest == 0.0:
        return column, 0
    if (column == np.rint(column)).all():
        return column, 0
    smallest = float(np.abs(column[column != 0.0]).min())
    first = max(1, -math.floor(math.log10(smallest)) - 1)
    for m in range(first, max(first, -math.floor(math.log10(smallest))) + _DIGITS):
        power = 10.0**m
        if not math.isfinite(power * largest) or smallest * power > 10.0**_DIGITS:
            return None
        scaled = column * power
        k = np.rint(scaled)
        # with more digits than a double has, every number would look like a decimal
        meant = np.abs(scaled - k) <= 8 * np.finfo(float).eps * np.abs(k)
        if meant.all() and np.median(np.abs(k)) <= 10.0**_DIGITS / 10:
            return k, m
    return None


def decimals(*arrays: Floats) -> tuple[tuple[Floats, ...], Integers]:
    """Rescale the columns of the arrays, together, to integers where they hold decimals.

    Parameters
    ----------
    *arrays : ndarray of shape (n_i, d)
        Coordinates of the same space.

    Returns
    -------
    arrays : tuple of ndarray
        Copies; a column that holds decimals in all arrays is multiplied by its power of ten.
    scales : ndarray of shape (d,)
        What the columns were multiplied by, as exponents of ten.

    Examples
    --------
    >>> (a,), exponents = decimals(np.array([[0.1, 1 / 3], [0.25, 2.0]]))
    >>> a[:, 0].tolist(), exponents.tolist()
    ([10.0, 25.0], [2, 0])
    """
    out = [clip(a) for a in arrays]
    exponents = np.zeros(arrays[0].shape[1], dtype=np.int64)
    for c in range(arrays[0].shape[1]):
        found = _decimal_scale(np.concatenate([a[:, c] for a in out]))
        if found is None:
            continue
        k, exponents[c] = found
        start = 0
        for a in out:
            a[:, c] = k[start : start + len(a)]
            start += len(a)
    return tuple(out), exponents
