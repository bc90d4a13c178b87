"""Depth contours and the Tukey median in the plane, from the exact polygons."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from dpstats._types import Floats
from dpstats.depth._halfspace import exact_depths
from dpstats.depth._plane import polygons
from dpstats.depth._reading import clip, decimals, integers, matrix

__all__ = ["contours", "plane_contours", "plane_median", "l1_diameter", "centroid"]


def _without_repeats(corners: Floats) -> Floats:
    if len(corners) < 2:
        return corners
    return (
        corners[(corners != np.roll(corners, 1, axis=0)).any(axis=1)]
        if np.ptp(corners, axis=0).any()
        else corners[:1]
    )


def plane_contours(data: Floats, depths: Iterable[int]) -> list[Floats | None]:
    """Return the polygons ``{hd >= t}`` of plane data taken as the doubles they are.

    The kernel that private estimators call: no reading of decimals, nothing raises or warns because of
    the data, any n. ``O(n^2 log n)`` time for all depths together.

    Parameters
    ----------
    data : ndarray of shape (n, 2)
        Finite numbers; magnitudes are clipped one by one to ``[2**-200, 2**200]``.
    depths : sequence of int
        At most 0 gives None (the whole plane), above the maximal depth an empty polygon.

    Returns
    -------
    list of ndarray of shape (k, 2), or None
        Vertices, counter-clockwise, to a few units in the last place; one for a point, two for a segment.

    Examples
    --------
    >>> [p.tolist() for p in plane_contours([[0, 0], [4, 0], [0, 4], [1, 1]], [2, 3])]
    [[[1.0, 1.0]], []]
    """
    rows, weights = np.unique(clip(np.asarray(data, dtype=float).reshape(-1, 2)), axis=0, return_counts=True)
    n = int(weights.sum())
    depths = np.asarray(depths, dtype=np.int64)
    wanted = np.unique(depths[(depths >= 1) & (depths <= n)])
    found = {}
    if len(wanted):
        by_x, by_y = (np.repeat(k, weights[k]) for k in (np.argsort(c, kind="stable") for c in rows.T))
        boxes = np.column_stack([by_x[wanted - 1], by_x[n - wanted], by_y[wanted - 1], by_y[n - wanted]])
        sizes, corners = polygons(rows, weights, boxes, wanted, rows[by_x[n // 2]])
        for t, size, polygon in zip(wanted, sizes, corners, strict=True):
            found[int(t)] = _without_repeats(polygon[:size])
    return [None if t < 1 else found.get(int(t), np.empty((0, 2))) for t in depths]


def plane_median(data: Floats) -> tuple[Floats | None, int]:
    """Return the deepest region of plane data and its depth, with no reading of decimals.

    For private estimators, as :func:`plane_contours`; without data the region is None, the whole plane.

    Parameters
    ----------
    data : ndarray of shape (n, 2)
        Finite numbers; magnitudes are clipped one by one to ``[2**-200, 2**200]``.

    Returns
    -------
    region : ndarray of shape (k, 2) or None
        Vertices, counter-clockwise.
    depth : int
        The maximal depth of any point.

    Examples
    --------
    >>> region, depth = plane_median([[0, 0], [4, 0], [0, 4], [1, 1]])
    >>> region.tolist(), depth
    ([[1.0, 1.0]], 2)
    """
    data = clip(np.asarray(data, dtype=float).reshape(-1, 2))
    n = len(data)
    if n == 0:
        return None, 0
    _, weights = np.unique(data, axis=0, return_counts=True)
    middle = np.sort(data, axis=0)[(n - 1) // 2]
    scale = np.median(np.abs(data - middle), axis=0)
    nearest = data[np.argmin((np.abs(data - middle) / np.where(scale > 0, scale, 1.0)).sum(axis=1))]
    reached = int(exact_depths(np.stack([middle, nearest]), data).max())
    # the centre-point theorem, and half of the data on either side of a point
    depths = np.arange(max(reached, -(-n // 3)), (n + int(weights.max())) // 2 + 1)
    regions = plane_contours(data, depths)
    best = max(t for t, region in enumerate(regions) if region is None or len(region))
    return regions[best], int(depths[best])


def centroid(polygon: Floats | None) -> Floats:
    """Return the centre of mass of a convex polygon, a segment or a point; the origin for None, the plane.

    Parameters
    ----------
    polygon : (k, 2) array or None
        Its vertices in their order, as :func:`plane_contours` has them.

    Returns
    -------
    (2,) ndarray

    Examples
    --------
    >>> centroid(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])).tolist()
    [1.0, 1.0]
    """
    if polygon is None:
        return np.zeros(2)
    if len(polygon) < 3:
        return polygon.mean(axis=0)
    base = polygon[0]
    u = polygon[1:-1] - base
    v = polygon[2:] - base
    # none is negative but for rounding, of points on a line: a mean with such weights would be outside
    areas = np.maximum(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0], 0.0)
    total = areas.sum()
    if not total > 1e-14 * (np.abs(u[:, 0] * v[:, 1]) + np.abs(u[:, 1] * v[:, 0])).sum():
        return polygon.mean(axis=0)
    return base + (areas[:, None] * (u + v)).sum(axis=0) / (3 * total)


def l1_diameter(polygon: Floats | None) -> float:
    """Return the l1 diameter of a polygon; 0 if it is empty, infinite for None (the whole plane).

    Parameters
    ----------
    polygon : (k, 2) array or None
        Its vertices.

    Returns
    -------
    float

    Examples
    --------
    >>> l1_diameter(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]))
    3.0
    """
    if polygon is None:
        return np.inf
    if len(polygon) == 0:
        return 0.0
    return float(max(np.ptp(polygon[:, 0] + polygon[:, 1]), np.ptp(polygon[:, 0] - polygon[:, 1])))


def contours(data: ArrayLike, depths: ArrayLike) -> list[Floats]:
    """Exact contours of halfspace depth in the plane: the polygons ``{z : hd(z) >= t}``.

    Not private. ``O(n^2 log n)`` time for all depths together.

    Parameters
    ----------
    data : array_like of shape (n, 2)
        The observations.
    depths : int or array_like of int
        The depths t, positive counts.

    Returns
    -------
    list of ndarray of shape (k, 2)
        For every depth its vertices, counter-clockwise: none if no point is that deep, one if a single
        point is, two for a segment.

    Raises
    ------
    dpstats.errors.ParameterError
        If `data` is not a finite matrix with two columns or `depths` are not positive integers.

    Examples
    --------
    >>> square = [[0, 0], [2, 0], [2, 2], [0, 2], [1, 1]]
    >>> [p.tolist() for p in contours(square, [1, 3])]
    [[[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]], [[1.0, 1.0]]]
    """
    data = matrix("data", data, columns=2)
    depths = integers(depths)
    (table,), exponents = decimals(data)
    found = plane_contours(table, depths)
    return [polygon / 10.0**exponents for polygon in found if polygon is not None]
