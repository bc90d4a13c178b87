"""Halfspace (Tukey) depth of points in a data set, as integer counts."""

import math
import warnings

import numpy as np
from numpy.typing import ArrayLike

from dpstats._jit import kernel
from dpstats._types import Floats, Integers
from dpstats._validation import one_of
from dpstats.depth._directions import directions as public_directions
from dpstats.depth._directions import halfspace_bound
from dpstats.depth._order import workspace
from dpstats.depth._reading import clip, decimals, matrix
from dpstats.depth._sweep import hyperspace_depth, plane_depth, space_depth
from dpstats.errors import ParameterError

__all__ = ["halfspace", "exact_depths"]

_EXACT_4 = 100  # rows up to which depth in four dimensions is exact by default
_MORE_DIGITS = 6  # decimal places that a point may have more than the data
_EXACT_WORK = 300_000  # n**(d - 1) up to which it is in five and more


@kernel
def _in_plane(P, weights, Z):
    ws = workspace(P.shape[0])
    out = np.empty(Z.shape[0], np.int64)
    for q in range(Z.shape[0]):
        out[q] = plane_depth(P, Z[q], weights, ws)
    return out


@kernel
def _in_space(P, weights, Z):
    ws = workspace(P.shape[0])
    out = np.empty(Z.shape[0], np.int64)
    for q in range(Z.shape[0]):
        out[q] = space_depth(P, Z[q], weights, ws)
    return out


@kernel
def _in_hyperspace(P, weights, Z):
    ws = workspace(P.shape[0])
    inner = workspace(P.shape[0])
    out = np.empty(Z.shape[0], np.int64)
    for q in range(Z.shape[0]):
        out[q] = hyperspace_depth(P, Z[q], weights, ws, inner)
    return out


_MANY = {2: _in_plane, 3: _in_space, 4: _in_hyperspace}


def _primitive(u):
    g = math.gcd(*u)
    return tuple(v // g for v in u)


def _recursive(vectors, d):
    """Depth of the origin among nonzero integer vectors with weights, in any dimension; exact."""
    if d == 1:
        return min(
            sum(w for u, w in vectors.items() if u[0] > 0), sum(w for u, w in vectors.items() if u[0] < 0)
        )
    best = sum(vectors.values())
    for u in vectors:
        k = max(range(d), key=lambda c: abs(u[c]))
        s = 1 if u[k] > 0 else -1
        opposite = tuple(-v for v in u)
        rest: dict[tuple[int, ...], int] = {}
        for a, w in vectors.items():
            p = [s * (a[c] * u[k] - a[k] * u[c]) for c in range(d) if c != k]
            if any(p):
                p = _primitive(p)
                rest[p] = rest.get(p, 0) + w
        best = min(best, min(vectors[u], vectors.get(opposite, 0)) + _recursive(rest, d - 1))
        if best == 0:
            break
    return best


def rational_depth(P, z):
    """Exact depth in any dimension, in Python's integers; `z` is a sequence of floats or fractions."""
    rows = [[v.as_integer_ratio() for v in row] for row in (*P.tolist(), z)]
    common = math.lcm(*(denominator for row in rows for _, denominator in row))
    whole = [[a * (common // b) for a, b in row] for row in rows]
    vectors: dict[tuple[int, ...], int] = {}
    zeros = 0
    for row in whole[:-1]:
        u = [a - b for a, b in zip(row, whole[-1], strict=True)]
        if not any(u):
            zeros += 1
            continue
        u = _primitive(u)
        vectors[u] = vectors.get(u, 0) + 1
    return zeros + (_recursive(vectors, len(z)) if vectors else 0)


def exact_depths(Z: Floats, P: Floats) -> Integers:
    """Exact halfspace depth of the rows of `Z` among the rows of `P`, taken as the doubles they are.

    No reading of decimals and no validation: the kernel that private estimators call. Magnitudes must be
    zero or in [2**-200, 2**200] (:func:`dpstats.depth._reading.clip`).
    """
    n, d = P.shape
    out = np.zeros(len(Z), dtype=np.int64)
    if n == 0 or len(Z) == 0:
        return out
    if d == 1:
        x = np.sort(P[:, 0])
        return np.minimum(np.searchsorted(x, Z[:, 0], "right"), n - np.searchsorted(x, Z[:, 0], "left"))
    inside = ((Z >= P.min(axis=0)) & (Z <= P.max(axis=0))).all(axis=1)
    if d <= 4:
        rows, weights = np.unique(P, axis=0, return_counts=True)
        out[inside] = _MANY[d](rows, weights, Z[inside])
    else:
        out[inside] = [rational_depth(P, z) for z in Z[inside].tolist()]
    return out


def small_enough(n: int, d: int) -> bool:
    """Whether exact depth is the default for n rows in d dimensions."""
    if d <= 3:
        return True
    return n <= _EXACT_4 if d == 4 else n ** (d - 1) <= _EXACT_WORK


def _as_written(Z: Floats, P: Floats) -> Integers:
    """Exact depths with decimals read as decimals: of the data, and of points with a few more digits."""
    (rows,), exponents = decimals(P)
    read = (rows != P).any(axis=0)  # the columns that were rescaled
    out = np.empty(len(Z), dtype=np.int64)
    waiting = np.ones(len(Z), dtype=bool)
    for digits in range(_MORE_DIGITS + 1):
        scaled = clip(np.where(read, Z * 10.0 ** (exponents + digits), Z))
        whole = np.rint(scaled)
        meant = np.abs(scaled - whole) <= 8 * np.finfo(float).eps * np.abs(scaled)
        now = waiting & (meant | ~read).all(axis=1)
        if now.any():
            out[now] = exact_depths(
                np.where(read, whole, scaled)[now], np.where(read, rows * 10.0**digits, rows)
            )
            waiting &= ~now
    if waiting.any():
        out[waiting] = exact_depths(clip(Z[waiting]), clip(P))
    return out


def halfspace(
    points: ArrayLike, data: ArrayLike, method: str | None = None, *, directions: ArrayLike | None = None
) -> Integers:
    """Halfspace depth: the fewest observations in a closed half-space that has the point on its boundary.

    .. math:: hd(z) = \\min_{v \\ne 0} \\#\\{i : v'(x_i - z) \\ge 0\\}

    Not private: the result depends on the data exactly.

    Parameters
    ----------
    points : array_like of shape (m, d), or (d,) for one point
        Where to compute the depth. A vector holds m points if the data have one column.
    data : array_like of shape (n, d) or (n,)
        The observations. Ties, duplicates and data in a subspace are ordinary input.
    method : {None, "exact", "directions"}
        ``"exact"``: integer counts without any tolerance. Time per point ``O(n^(d-1) log n)``.
        ``"directions"``: the minimum over a public set of directions only, an upper bound of the depth.
        None: exact for d <= 3, for d = 4 up to n = 100, and for d >= 5 while ``n**(d-1) <= 300000``
        (n = 23 for d = 5); otherwise directions, with a `UserWarning` that says so.
    directions : int or array_like of shape (k, d), optional
        For ``"directions"``: how many random directions to add to the axes and sign vectors (default
        1000, seed 0), or the directions themselves. They are used as they are: bring the columns to
        comparable units first.

    Returns
    -------
    ndarray of shape (m,), int64
        Counts in ``0 .. n``; divide by n for the depths of mrfDepth and ddalpha.

    Raises
    ------
    dpstats.errors.ParameterError
        If an array is not numeric, not finite or has the wrong shape, or a parameter is not allowed.

    Notes
    -----
    Columns of decimals are read as decimals: 0.1, 0.2, 0.3 are equally spaced. Other numbers are the
    doubles they are. Magnitudes above 2**200 or below 2**-200 count as 2**200 and 0.

    Examples
    --------
    >>> halfspace([[0, 0], [1, 1], [3, 3]], [[0, 0], [2, 0], [0, 2], [2, 2], [1, 1]])
    array([1, 3, 0])
    """
    if method is not None:
        one_of("method", method, ("exact", "directions"))
    P = matrix("data", data)
    n, d = P.shape
    Z = matrix("points", points, columns=d, vector_is="column" if d == 1 else "row")
    if method is None:
        method = "exact" if small_enough(n, d) else "directions"
        if method == "directions":
            warnings.warn(
                f"depth among {n} rows in {d} dimensions is an upper bound over a set of directions; "
                'method="exact" computes it exactly, and slowly.',
                UserWarning,
                stacklevel=2,
            )
    if method == "exact":
        return _as_written(Z, P)
    return halfspace_bound(Z, P, chosen_directions(directions, d))


def chosen_directions(directions: ArrayLike | None, d: int) -> Floats:
    """Return the set of directions that the parameter `directions` asks for."""
    if directions is None:
        return public_directions(d)
    if isinstance(directions, (int, np.integer)) and not isinstance(directions, bool):
        if directions < 0:
            raise ParameterError(f"directions must be a count or an array of directions, got {directions}.")
        return public_directions(d, int(directions))
    return matrix("directions", directions, columns=d, at_least=1, vector_is="row")
