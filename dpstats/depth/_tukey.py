"""The Tukey median: the centre of the deepest region of halfspace depth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpstats._types import Floats
from dpstats._validation import one_of
from dpstats.depth._contours import centroid, plane_median
from dpstats.depth._directions import halfspace_bound
from dpstats.depth._halfspace import chosen_directions, halfspace, small_enough
from dpstats.depth._reading import decimals, matrix

__all__ = ["TukeyMedian", "tukey_median"]

_EXACT_3 = 2000  # rows up to which three dimensions are exact by default
_DIGITS = 6  # decimals of a unit of the data to which a point is rounded where that makes it deeper


@dataclass(frozen=True, eq=False)
class TukeyMedian:
    """A Tukey median, and what about it is exact.

    Attributes
    ----------
    point : ndarray of shape (d,)
        The median, rounded to doubles.
    depth : int
        The halfspace depth of `point` as it is returned, or its depth over the directions, which is an upper
        bound of that. In more than three dimensions, data in a subspace with too many rows for an exact
        depth (:func:`halfspace`) have the depth within it, of the unrounded point.
    largest : int or None
        The largest halfspace depth of any point, where it is certain. It exceeds `depth` where the deepest
        region is so thin that `point` was rounded out of it.
    method : {"exact", "directions"}
        Which of the two `depth` is.
    maximal : bool
        Whether `depth` is certainly the largest halfspace depth of any point.
    centre : bool
        Whether `point` is the centroid of the deepest region, rounded; otherwise it is some point in it, or
        near it.
    """

    point: np.ndarray
    depth: int
    largest: int | None
    method: str
    maximal: bool
    centre: bool


def _on_line(x: Floats) -> tuple[float, int]:
    """The middle of the deepest interval, and its depth."""
    x = np.sort(x)
    n = len(x)
    low, high = x[(n - 1) // 2], x[n // 2]
    middle = low + (high - low) / 2
    at = low if low == high else middle
    return middle, int(min((x <= at).sum(), (x >= at).sum()))


def _frame(X: Floats) -> tuple[list[int], Callable[[Floats], Floats]]:
    """Return columns that determine all others on the data, exactly or to rounding, and the affine map."""
    centre = X[0]
    unit = np.abs(X - centre).max(axis=0)
    scaled = (X - centre) / np.where(unit > 0, unit, 1.0)
    chosen: list[int] = []
    for c in range(X.shape[1]):
        if np.linalg.matrix_rank(scaled[:, [*chosen, c]]) > len(chosen):
            chosen.append(c)
    A = np.column_stack([np.ones(len(X)), scaled[:, chosen]])
    coefficients = np.linalg.lstsq(A, scaled, rcond=None)[0]

    def lift(point: Floats) -> Floats:
        inner = (point - centre[chosen]) / unit[chosen]
        full = centre + np.where(unit > 0, unit, 0.0) * (np.append(1.0, inner) @ coefficients)
        full[chosen] = point
        return full

    return chosen, lift


def _certified(X: Floats, points: Floats, depth: int, largest: int | None, centre: bool) -> TukeyMedian:
    """The deepest of some points as they are: rounding may have moved the first off a plane that it was
    on."""
    best = 0
    if small_enough(len(X), X.shape[1]):
        reached = halfspace(points, X, "exact")
        best = int(reached.argmax())
        depth = int(reached[best])
    return TukeyMedian(points[best], depth, largest, "exact", depth == largest, centre)


def tukey_median(
    data: ArrayLike, method: str | None = None, *, directions: ArrayLike | None = None
) -> TukeyMedian:
    """Tukey median: the centroid of the region of maximal halfspace depth.

    Not private.

    Parameters
    ----------
    data : array_like of shape (n, d) or (n,)
        The observations, ``n >= 1``. Data that lie in a line, a plane or a space of three dimensions are
        treated in that.
    method : {None, "exact", "directions"}
        ``"exact"``: up to three dimensions. In the plane from the exact polygons, ``O(n^2 log n)``; in
        space by cutting planes whose end is certified by the exact depth. ``"directions"``: maximal
        depth over a public set of directions, by bisection with a linear program. None: exact for
        d <= 2, for d = 3 up to n = 2000, else directions.
    directions : int or array_like of shape (k, d), optional
        As in :func:`halfspace`.

    Returns
    -------
    TukeyMedian
        ``point``, its ``depth``, the ``largest`` of any point, and in ``method``, ``maximal`` and ``centre``
        what of it is exact.

    Raises
    ------
    dpstats.errors.ParameterError
        If `data` is not a finite numeric matrix or has no rows, a parameter is not allowed, or
        ``method="exact"`` is asked for data that span more than three dimensions.

    Notes
    -----
    The deepest region of data on a grid can be a single point that no double names, or a segment on which
    none lies. Then ``depth``, that of the point that is returned, is below ``largest``.

    Examples
    --------
    >>> found = tukey_median([[0, 0], [4, 0], [1, 3], [2, 7]])
    >>> found.point.tolist(), found.depth, found.maximal
    ([1.0, 3.0], 2, True)
    """
    if method is not None:
        one_of("method", method, ("exact", "directions"))
    X = matrix("data", data, at_least=1)
    n = len(X)
    (table,), exponents = decimals(X)
    units = 10.0**exponents
    chosen, lift = _frame(table)
    d = len(chosen)
    inner = np.ascontiguousarray(table[:, chosen])
    if method is None:
        method = "exact" if d <= 2 or (d == 3 and n <= _EXACT_3) else "directions"
    if method == "directions":
        from dpstats.depth._space import deepest_in_pool

        V = chosen_directions(directions, X.shape[1])
        point, depth = deepest_in_pool(X, V)
        return TukeyMedian(point, int(halfspace_bound(point[None], X, V)[0]), None, method, False, False)
    if d > 3:
        one_of("method", method, ("directions",))
    if d == 0:
        return TukeyMedian(X[0].copy(), n, n, method, True, True)
    maximal = centre = True
    if d == 1:
        point, depth = _on_line(inner[:, 0])
    elif d == 2:
        region, depth = plane_median(inner)
        point = centroid(region)
    else:
        from dpstats.depth._space import deepest_in_space

        point, depth, maximal, centre = deepest_in_space(inner, chosen_directions(100, 3))
    lifted = lift(point)
    points = np.array([lifted, np.round(lifted, _DIGITS)])
    return _certified(X, points / units, depth, int(depth) if maximal else None, centre)
