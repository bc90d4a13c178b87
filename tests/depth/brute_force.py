"""Brute force: the definitions in exact rational arithmetic.

Nothing here shares code or an algorithm with the kernels: hyperplanes are enumerated, not swept.
"""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np

__all__ = ["halfspace", "regression", "vertices", "contour_candidates"]


def _exact(array):
    return [[Fraction(float(v)) for v in row] for row in np.atleast_2d(np.asarray(array, dtype=float))]


def _dot(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


def _whole(row):
    """A positive multiple of a row in whole numbers, with which arithmetic is much faster."""
    times = math.lcm(*(Fraction(v).denominator for v in row))
    numbers = [int(v * times) for v in row]
    common = math.gcd(*numbers) or 1
    return [v // common for v in numbers]


def _null_vectors(rows, d):
    """A basis of the vectors orthogonal to `rows`, by elimination, all in whole numbers."""
    rows = [list(r) for r in rows]
    pivots: list[int] = []
    for c in range(d):
        at = next((i for i in range(len(pivots), len(rows)) if rows[i][c] != 0), None)
        if at is None:
            continue
        i = len(pivots)
        rows[i], rows[at] = rows[at], rows[i]
        for r in range(len(rows)):
            if r != i and rows[r][c] != 0:
                times, less = rows[i][c], rows[r][c]
                rows[r] = [times * a - less * b for a, b in zip(rows[r], rows[i], strict=True)]
        pivots.append(c)
    basis = []
    for free in (c for c in range(d) if c not in pivots):
        v = [0] * d
        v[free] = math.lcm(*(rows[i][c] for i, c in enumerate(pivots)))
        for i, c in enumerate(pivots):
            v[c] = -rows[i][free] * v[free] // rows[i][c]
        basis.append(_whole(v))
    return basis


def _closed_count(U):
    """``min over v != 0 of #{u in U: v'u >= 0}``: v orthogonal to dim - 1 of the vectors, then perturbed."""
    zeros = sum(not any(u) for u in U)
    U = [_whole(u) for u in U if any(u)]
    if not U:
        return zeros
    d = len(U[0])
    rank = d - len(_null_vectors(U, d))
    if rank == 1:
        c = next(c for c in range(d) if U[0][c] != 0)
        positive = sum(u[c] > 0 for u in U)
        return zeros + min(positive, len(U) - positive)
    best = len(U)
    complement = _null_vectors(U, d)  # normals are sought in the span of U
    for subset in combinations(U, rank - 1):
        normals = _null_vectors(list(subset) + complement, d)
        if len(normals) != 1:
            continue
        values = [_dot(normals[0], u) for u in U]
        boundary = _closed_count([u for u, v in zip(U, values, strict=True) if v == 0])
        best = min(best, sum(v > 0 for v in values) + boundary, sum(v < 0 for v in values) + boundary)
    return zeros + best


def halfspace(points, data):
    """Halfspace depth by the definition; see :func:`dpstats.depth.halfspace`."""
    X = _exact(data)
    return np.array(
        [_closed_count([[a - b for a, b in zip(x, z, strict=True)] for x in X]) for z in _exact(points)]
    )


def regression(fits, x, y):
    """Regression depth by the definition, exact residual signs; see :func:`dpstats.depth.regression`."""
    X = [[Fraction(1), *row] for row in _exact(np.asarray(x, dtype=float).reshape(len(y), -1))]
    Y = [Fraction(float(v)) for v in y]
    depths = []
    for fit in _exact(fits):
        r = [b - _dot(fit, a) for a, b in zip(X, Y, strict=True)]
        on = sum(v == 0 for v in r)
        U = [a if v > 0 else [-c for c in a] for a, v in zip(X, r, strict=True) if v != 0]
        depths.append(on + (_closed_count(U) if U else 0))
    return np.array(depths)


def _split_depth(x, signs):
    """Regression depth with one covariate from residual signs, over all splits of the line."""
    n = len(x)
    best = n
    ordered = sorted(set(x))
    for cut in [None, *ordered]:
        left = [cut is not None and v <= cut for v in x]
        a = sum((s >= 0) if inside else (s <= 0) for s, inside in zip(signs, left, strict=True))
        b = sum((s <= 0) if inside else (s >= 0) for s, inside in zip(signs, left, strict=True))
        best = min(best, a, b)
    return best


def vertices(x, y):
    """Every vertex of the dual arrangement as ``{(intercept, slope): depth}``, in rational numbers."""
    x = [Fraction(float(v)) for v in x]
    y = [Fraction(float(v)) for v in y]
    found = {}
    for i, j in combinations(range(len(x)), 2):
        if x[i] == x[j]:
            continue
        slope = (y[j] - y[i]) / (x[j] - x[i])
        fit = (y[i] - slope * x[i], slope)
        if fit not in found:
            r = [b - fit[0] - fit[1] * a for a, b in zip(x, y, strict=True)]
            found[fit] = _split_depth(x, [(v > 0) - (v < 0) for v in r])
    return found


def contour_candidates(data):
    """Points that include every vertex of every depth contour in the plane, with their depths.

    These are the data and all the intersections of two lines through two data points each.
    """
    X = sorted({tuple(row) for row in _exact(data)})
    all_rows = _exact(data)
    lines = set()
    for p, q in combinations(X, 2):
        a, b = p[1] - q[1], q[0] - p[0]
        c = -(a * p[0] + b * p[1])
        lead = a if a != 0 else b
        lines.add((a / lead, b / lead, c / lead))
    points = set(X)
    for (a, b, c), (d, e, f) in combinations(lines, 2):
        w = a * e - b * d
        if w != 0:
            points.add(((b * f - c * e) / w, (c * d - a * f) / w))
    return {
        z: _closed_count([[a - b for a, b in zip(row, z, strict=True)] for row in all_rows]) for z in points
    }
