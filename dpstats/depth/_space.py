"""The deepest region in three (or more) dimensions, by cutting planes.

Every direction v bounds the region ``{hd >= t}`` by ``v'z <= (v'x)_(n-t+1)``. A pool of directions thus gives
an outer region and an upper bound of the maximal depth. The centre of its largest ball is tested by the
exact depth: if it is as deep as the pool allows, it is deepest; if not, the emptiest half-spaces there,
found by the exact sweep, join the pool and cut the centre off.
"""

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError

from dpstats._jit import kernel
from dpstats.depth._directions import centre_and_unit, project
from dpstats.depth._halfspace import exact_depths, rational_depth
from dpstats.depth._order import order, workspace
from dpstats.depth._reading import clip

__all__ = ["deepest_in_pool", "deepest_in_space", "Pool"]

_CUTS = 8  # normals that join the pool at a time, the deepest of
_CANDIDATES = 40
_ROUNDS = 300
_ALL_PLANES = 20  # distinct rows up to which all planes through three of them are used at once
_VERTEX_ROUNDS = 30
_FLAT = 1e-9  # radius, in units of the data's spread, below which a region counts as flat
_PULL = 1e-6  # corners are tested this much inside, relative to their distance from the centre
_NEAR = 1e-7  # slack below which a plane bounds a flat region
_DENOMINATOR = 5000
_RATIONAL_ROWS = 60  # rows up to which the depth of a rational corner is computed


@kernel
def _emptiest(P, weights, z):
    """For every pivot the emptiest closed half-space next to the pivot's planes: counts and normals.

    The normals are doubles: good directions, whose counts need not be exact. `z` is the point whose
    half-spaces they are; `P` are distinct rows with multiplicities `weights`; other names as in
    :mod:`dpstats.depth._order`.
    """
    n = P.shape[0]
    ws = workspace(n)
    R, idx, tie, vertical, zero = ws[0], ws[4], ws[5], ws[6], ws[7]
    counts = np.full(n, weights.sum() + 1)
    normals = np.zeros((n, 3))
    for i in range(n):
        m, n_vertical, n_zero = order(P, z, i, None, ws)
        if m < 0:
            continue
        k = 0
        for c in range(1, 3):
            if abs(P[i, c] - z[c]) > abs(P[i, k] - z[k]):
                k = c
        c1 = 1 if k == 0 else 0
        c2 = 1 if k == 2 else 2
        # rows on the line through z and the pivot, on the pivot's side of z and on the other
        along = 0
        against = 0
        for t in range(n_zero):
            a = zero[t]
            if P[a, k] != z[k]:
                if (P[a, k] > z[k]) == (P[i, k] > z[k]):
                    along += weights[a]
                else:
                    against += weights[a]
        # rows above a line through z in the projection: upright at first (positive x is above), then turned
        above = 0
        total = 0
        for t in range(n_vertical):
            total += weights[vertical[t]]
            if R[1, vertical[t]] > 0.0:
                above += weights[vertical[t]]
        for t in range(m):
            total += weights[idx[0, t]]
            if R[0, idx[0, t]] > 0.0:
                above += weights[idx[0, t]]
        best = min(above, total - above)
        side = 1.0 if above <= total - above else -1.0
        start = -np.pi / 2
        stop = np.arctan(R[4, idx[0, 0]]) if m > 0 else np.pi / 2
        for t in range(m):
            a = idx[0, t]
            above += -weights[a] if R[0, a] > 0.0 else weights[a]
            if (t + 1 == m or not tie[t + 1]) and min(above, total - above) < best:
                best = min(above, total - above)
                side = 1.0 if above <= total - above else -1.0
                start = np.arctan(R[4, a])
                stop = np.arctan(R[4, idx[0, t + 1]]) if t + 1 < m else np.pi / 2
        # the normal of the best plane, in the middle of angles that count the same, orthogonal to the pivot
        angle = 0.5 * (start + stop)
        u_k = P[i, k] - z[k]
        v = normals[i]
        v[c1] = -side * np.sin(angle)
        v[c2] = side * np.cos(angle)
        v[k] = -(v[c1] * (P[i, c1] - z[c1]) + v[c2] * (P[i, c2] - z[c2])) / u_k
        # tilt towards the pivot by less than would change the side of any other observation
        tilt = 1.0
        for t in range(m + n_vertical):
            a = idx[0, t] if t < m else vertical[t - m]
            flat = 0.0
            cross = 0.0
            for c in range(3):
                flat += v[c] * (P[a, c] - z[c])
                cross += (P[i, c] - z[c]) * (P[a, c] - z[c])
            if cross != 0.0:
                tilt = min(tilt, 0.5 * abs(flat / cross))
        sign = 1.0 if along <= against else -1.0
        for c in range(3):
            v[c] += sign * tilt * (P[i, c] - z[c])
        counts[i] = best + min(along, against)
    return counts, normals


class Pool:
    """Directions with the sorted projections of the data, in units in which the data have spread one.

    Parameters
    ----------
    X : (n, d) array
    V : (k, d) array
        Directions; the opposite ones are added.

    Attributes
    ----------
    centre, unit : (d,) arrays
        Points in these units are ``(X - centre) / unit``.
    data : (n, d) array
    V : (m, d) array
        Unit vectors.
    sorted : (m, n) array
        ``data @ v`` in order, for every direction.
    """

    def __init__(self, X, V):
        self.centre, self.unit = centre_and_unit(X)
        self.data = (X - self.centre) / self.unit
        self.V = np.empty((0, X.shape[1]))
        self.sorted = np.empty((0, len(X)))
        self.add(np.concatenate([V, -V]))

    def add(self, V):
        """Add directions, given for the data in these units."""
        length = np.linalg.norm(V, axis=1, keepdims=True)
        V = V[length[:, 0] > 0] / length[length[:, 0] > 0]
        self.V = np.concatenate([self.V, V])
        self.sorted = np.concatenate(
            [
                self.sorted,
                np.array([np.sort(project(self.data, v)) for v in V]).reshape(-1, len(self.data)),
            ]
        )

    def bounds(self, depth):
        """Return the upper bounds of ``V z`` that depth `depth` implies."""
        return self.sorted[:, len(self.data) - depth]

    def ball(self, depth):
        """Return centre and radius of the largest ball in the region of `depth`, or None if it is empty."""
        d = self.V.shape[1]
        found = linprog(
            np.append(np.zeros(d), -1.0),
            A_ub=np.column_stack([self.V, np.ones(len(self.V))]),
            b_ub=self.bounds(depth),
            bounds=[(None, None)] * d + [(0, None)],
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        return (found.x[:d], found.x[d]) if found.status == 0 else None

    def deepest(self, low, high):
        """Bisect for the largest depth in ``low .. high`` with a region; return ``(depth, ball)``."""
        best = (low, None)
        while low <= high:
            middle = (low + high + 1) // 2
            ball = self.ball(middle)
            if ball is None:
                high = middle - 1
            else:
                best = (middle, ball)
                low = middle + 1
        return best


def deepest_in_pool(X, V):
    """Return a point of maximal depth over the directions `V`, and that depth.

    Bisection with a linear program; the point is the centre of the largest ball in the deepest region, to the
    program's accuracy (1e-10 of the spread of the data): its own depth can miss the maximum by the
    observations that close to the boundary. Without data, the origin and 0. Magnitudes are clipped one by
    one to ``[2**-200, 2**200]``.
    """
    n, d = X.shape
    if n == 0:
        return np.zeros(d), 0
    pool = Pool(clip(X), V)
    depth, ball = pool.deepest(-(-n // (d + 1)), n)
    point = np.zeros(d) if ball is None else ball[0]
    return pool.centre + pool.unit * point, depth


def _snapped(ball, pool, X, depth):
    """Return a point near the centre of a flat ball whose exact depth is at least `depth`, or None.

    A flat region is often an observation, a point with a small denominator (data on a grid), or the corner
    in which three planes through three observations meet.
    """
    z = pool.centre + pool.unit * ball
    nearest = X[np.argsort(np.abs(pool.data - ball).sum(axis=1))[:5]]
    reached = exact_depths(nearest, X)
    if reached.max() >= depth:
        return nearest[reached.argmax()]
    fractions = [Fraction(v).limit_denominator(_DENOMINATOR) for v in z.tolist()]
    common = np.lcm.reduce([f.denominator for f in fractions])
    scaled = np.array([float(f * int(common)) for f in fractions])
    whole = np.abs(X).max() * common < 2**53 and (X == np.rint(X)).all()
    if whole and exact_depths(scaled[None], X * common)[0] >= depth:
        return np.array([float(f) for f in fractions])
    if len(X) <= _RATIONAL_ROWS:
        corner = _corner(ball, pool, X, depth)
        if corner is not None and rational_depth(X, corner) >= depth:
            return np.array([float(v) for v in corner])
    return None


def _cross(u, v):
    return [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]


def _dot(u, v):
    return sum(a * b for a, b in zip(u, v, strict=True))


def _corner(ball, pool, X, depth):
    """Return the rational point where three bounding planes through three observations meet, or None."""
    bounds = pool.bounds(depth)
    planes: list[Any] = []  # (normal, offset)
    for k in np.flatnonzero(bounds - pool.V @ ball < _NEAR):
        on = X[np.abs(pool.data @ pool.V[k] - bounds[k]) < _FLAT].tolist()
        if len(on) < 3:
            continue
        base, *others = ([Fraction(v) for v in row] for row in on)
        edges = [[a - b for a, b in zip(row, base, strict=True)] for row in others]
        normal = next((c for e in edges[1:] if any(c := _cross(edges[0], e))), None)
        if normal is None:
            continue
        if len(planes) == 2:
            line = _cross(planes[0][0], planes[1][0])
            if _dot(line, normal) != 0:
                planes.append((normal, _dot(normal, base)))
                break
        elif not planes or any(_cross(planes[0][0], normal)):
            planes.append((normal, _dot(normal, base)))
    if len(planes) < 3:
        return None
    # the point of a'z = p, b'z = q, c'z = r, by Cramer's rule
    (a, p), (b, q), (c, r) = planes
    bc, ca, ab = _cross(b, c), _cross(c, a), _cross(a, b)
    volume = _dot(a, bc)
    return [(p * x + q * y + r * z) / volume for x, y, z in zip(bc, ca, ab, strict=True)]


def _deepened(v, z, data, depth):
    """Turn a direction `v` towards the deepest cut at `z` until its plane is a facet of the region.

    The plane through the observation of rank ``n - depth + 1`` turns about it, then about the line through
    it and the first observation that it meets, then stops at the second: bounds in general directions
    would approach the region for ever without reaching it.
    """
    along = data @ v
    j = np.argsort(along, kind="stable")[len(data) - depth]
    U = data - data[j]
    target = z - data[j]
    axes = np.empty((0, 3))  # orthonormal directions in the plane that it turns about
    for _ in range(2):
        # w: the direction to turn towards, orthogonal to v and to the axes
        w = target - (target @ v) * v
        for e in axes:
            w -= (w @ e) * e
        length = np.linalg.norm(w)
        if length <= _FLAT * np.linalg.norm(target):
            break
        w /= length
        # row u is met at the angle t with u'(v cos t + w sin t) = 0
        height, speed = U @ v, U @ w
        turning = np.abs(speed) > _FLAT * np.linalg.norm(U, axis=1)
        angle = np.arctan2(-height * np.sign(speed), np.abs(speed))
        angle[~turning | (angle <= 0)] = np.inf
        first = angle.argmin()
        furthest = np.arctan2(target @ w, target @ v)
        stop = min(angle[first], furthest)
        v = np.cos(stop) * v + np.sin(stop) * w
        v /= np.linalg.norm(v)
        if furthest <= angle[first]:
            break
        axis = U[first].copy()
        for e in axes:
            axis -= (axis @ e) * e
        axes = np.concatenate([axes, axis[None] / np.linalg.norm(axis)])
    return v


def _cut(pool, rows, weights, z, below):
    """Add to the pool deep bounds of the region of depth `below` that `z` violates; whether there are any."""
    counts, normals = _emptiest(rows, weights, pool.centre + pool.unit * z)
    worst = np.argsort(counts, kind="stable")[:_CANDIDATES]
    worst = worst[counts[worst] < below]
    normals = normals[worst] * pool.unit
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    found = [_deepened(v, z, pool.data, below) for v in normals]
    excess = [
        v @ z - np.partition(pool.data @ v, len(pool.data) - below)[len(pool.data) - below] for v in found
    ]
    pool.add(np.array([found[k] for k in np.argsort(excess)[: -_CUTS - 1 : -1]]).reshape(-1, 3))
    return max(excess, default=0.0) > _FLAT


def deepest_in_space(X, V):
    """Return ``(point, depth, maximal, centre)`` of a Tukey median of data that span three dimensions.

    ``maximal``: the depth is certainly the largest; ``centre``: the point is the centroid of the region.
    """
    n = len(X)
    rows, weights = np.unique(X, axis=0, return_counts=True)
    pool = Pool(X, V)
    if len(rows) <= _ALL_PLANES:  # few rows have small regions: start with every plane that can bound one
        i, j, k = np.array(list(combinations(range(len(rows)), 3))).T
        normals = np.cross(rows[j] - rows[i], rows[k] - rows[i]) * pool.unit
        pool.add(np.concatenate([normals, -normals]))
    high, ball = pool.deepest(-(-n // 4), (n + int(weights.max())) // 2)
    best: Any = (-1, None)
    maximal = True
    for _ in range(_ROUNDS):
        if ball is None:
            ball = pool.ball(high)
            if ball is None:
                high -= 1
                continue
        z = pool.centre + pool.unit * ball[0]
        flat = ball[1] < _FLAT
        depth = int(exact_depths(z[None], X)[0])
        if depth > best[0]:
            best = (depth, z)
        if depth < high and flat:
            near = _snapped(ball[0], pool, X, high)
            if near is not None:
                best = (high, near)
        if best[0] >= high:
            break
        if not _cut(pool, rows, weights, ball[0], high):
            maximal = False  # the region at this depth, if any, is a point that doubles cannot name
            high -= 1
        ball = None
    depth, point = best
    if depth < high or ball is None or ball[1] < _FLAT:
        return point, depth, maximal and depth >= high, False
    centre = _centroid(pool, rows, weights, X, (point - pool.centre) / pool.unit, depth)
    return (point, depth, maximal, False) if centre is None else (centre, depth, maximal, True)


def _centroid(pool, rows, weights, X, inside, depth):
    """Return the centroid of the region of `depth`, once the exact depth confirms every corner; or None."""
    for _ in range(_VERTEX_ROUNDS):
        try:
            region = HalfspaceIntersection(np.column_stack([pool.V, -pool.bounds(depth)]), inside)
            hull = ConvexHull(region.intersections)
        except QhullError:
            return None
        corners = region.intersections[hull.vertices]
        pulled = corners + _PULL * (inside - corners)
        wrong = np.flatnonzero(exact_depths(pool.centre + pool.unit * pulled, X) < depth)
        if len(wrong) == 0:
            return pool.centre + pool.unit * _solid_centroid(region.intersections, hull)
        for k in wrong[:_CUTS]:
            _cut(pool, rows, weights, pulled[k], depth)
    return None


def _solid_centroid(points, hull):
    """Centroid of a convex body from the triangles of its surface."""
    origin = points[hull.vertices].mean(axis=0)
    triangles = points[hull.simplices] - origin
    volumes = np.abs(np.linalg.det(triangles))
    return origin + (volumes[:, None] * triangles.sum(axis=1)).sum(axis=0) / (4 * volumes.sum())
