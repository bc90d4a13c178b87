"""The Tukey median: the centre of the deepest region of halfspace depth."""

from dataclasses import dataclass

import numpy as np

from dpstats._validation import one_of
from dpstats.depth._contours import centroid, plane_median
from dpstats.depth._directions import halfspace_bound
from dpstats.depth._halfspace import chosen_directions
from dpstats.depth._reading import decimals, matrix

__all__ = ["TukeyMedian", "tukey_median"]

_EXACT_3 = 2000  # rows up to which three dimensions are exact by default


@dataclass(frozen=True, eq=False)
class TukeyMedian:
    """A Tukey median, and what about it is exact.

    Attributes
    ----------
    point : ndarray of shape (d,)
        The median, rounded to doubles.
    depth : int
        Its halfspace depth (of the unrounded point), or its depth over the directions, which is an upper
        bound of that.
    method : {"exact", "directions"}
        Which of the two `depth` is.
    maximal : bool
        Whether `depth` is certainly the largest halfspace depth of any point.
    centre : bool
        Whether `point` is the centroid of the deepest region; otherwise it is some point in it.
    """

    point: np.ndarray
    depth: int
    method: str
    maximal: bool
    centre: bool


def _on_line(x):
    """The middle of the deepest interval, and its depth."""
    x = np.sort(x)
    n = len(x)
    low, high = x[(n - 1) // 2], x[n // 2]
    middle = low + (high - low) / 2
    at = low if low == high else middle
    return middle, int(min((x <= at).sum(), (x >= at).sum()))


def _frame(X):
    """Return columns that determine all others on the data, exactly or to rounding, and the affine map."""
    centre = X[0]
    unit = np.abs(X - centre).max(axis=0)
    scaled = (X - centre) / np.where(unit > 0, unit, 1.0)
    chosen = []
    for c in range(X.shape[1]):
        if np.linalg.matrix_rank(scaled[:, [*chosen, c]]) > len(chosen):
            chosen.append(c)
    A = np.column_stack([np.ones(len(X)), scaled[:, chosen]])
    coefficients = np.linalg.lstsq(A, scaled, rcond=None)[0]

    def lift(point):
        inner = (point - centre[chosen]) / unit[chosen]
        full = centre + np.where(unit > 0, unit, 0.0) * (np.append(1.0, inner) @ coefficients)
        full[chosen] = point
        return full

    return chosen, lift


def tukey_median(data, method=None, *, directions=None):
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
        ``point``, ``depth``, and in ``method``, ``maximal`` and ``centre`` what of it is exact.

    Raises
    ------
    dpstats.errors.ParameterError
        If `data` is not a finite numeric matrix or has no rows, a parameter is not allowed, or
        ``method="exact"`` is asked for data that span more than three dimensions.

    Notes
    -----
    In space the deepest region of data on a grid can be a single point that no double names. Then a
    nearby fraction or observation is tried, and if that fails too, the answer has ``maximal=False``.

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
        return TukeyMedian(point, int(halfspace_bound(point[None], X, V)[0]), method, False, False)
    if d > 3:
        one_of("method", method, ("directions",))
    if d == 0:
        return TukeyMedian(X[0].copy(), n, method, True, True)
    if d == 1:
        point, depth = _on_line(inner[:, 0])
        return TukeyMedian(lift(np.array([point])) / units, depth, method, True, True)
    if d == 2:
        region, depth = plane_median(inner)
        return TukeyMedian(lift(centroid(region)) / units, depth, method, True, True)
    from dpstats.depth._space import deepest_in_space

    point, depth, maximal, centre = deepest_in_space(inner, chosen_directions(100, 3))
    return TukeyMedian(lift(point) / units, depth, method, maximal, centre)
