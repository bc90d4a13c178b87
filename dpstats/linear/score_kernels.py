"""Compiled passes over the rows for noisy gradient rounds.

Each has a slow equal in ``tests/linear/test_scores.py``. Arrays are copied by loops: compiling an assignment
of slices takes seconds, for its error message.

Rows come as whitened covariates ``V`` and standardised responses ``Y``; whatever the floating-point error of
that map, what a row adds is limited after it. A row that is out of range adds nothing.
"""

import numpy as np

from dpstats._jit import kernel, prefetch
from dpstats.mechanisms._kernels import TILE, add_gram, carried, mapped, octave, standardized, weighed

__all__ = [
    "EXCESS_SHARE",
    "FAR",
    "inner_gram",
    "outside_score",
    "product_gradient",
    "product_gram",
    "product_octaves",
    "psi_moments",
    "residual_octaves",
    "residual_moments",
    "settled_gradient",
    "whitened",
]


_FARTHEST = 2.0**400
"""Residuals beyond are out of range: times units, of which 1 has at most ``2^600``, all others are finite."""
_SHORTEST2 = 2.0**-960
"""Rows with a smaller squared norm add nothing: the norm of their product would be lost to underflow."""
EXCESS_SHARE = 0.75
"""What a clip takes off a product has this part of its square in the first sum of `product_excess`."""
FAR = 5.0
"""Rows are far out from this squared length on, a column: five times its mean."""
_LARGE = 2.0
"""How far out a row is counts without its weight up to twice a usual one, and with what it is more."""
_NOT_FAR = 0.4
"""Of the squared length of a row far out, the part up to which one is not."""


@kernel
def whitened(X, Y, columns, loc, inverse, weight, unit, W, low, high, radius, V, R):
    """Fill ``V`` with ``s W' z`` and ``R`` with the standardised response times ``s``, ``z`` moved into
    ``[low, high]``.

    Rows of V are shortened to the norm `radius` (a row without a finite norm becomes 0), their responses by
    the same factor. V and R may be X and Y: a tile is read before it is written.

    Parameters
    ----------
    X : (n, d) float array
    Y : (n, 1) float array
    columns : (q + 1,) intp array
        Entries of the joined row ``(x, y)``: the covariates', then the response's.
    loc, inverse : (q + 1,) float arrays
    weight, unit : int, float
        ``s`` is ``y[weight] / unit``; 1 if `weight` is -1.
    W : (q, k) float array
    low, high : (q,) float arrays
    radius : float
    V : (n, k) float array
    R : (n, 1) or (n, 2) float array
        A second column says how far out a row is without its weight, for `product_excess`.
    """
    k = W.shape[1]
    z, v, norm2 = np.empty((columns.size, TILE)), np.empty((k + 1, TILE)), np.empty(TILE)
    for start in range(0, len(X), TILE):
        rows = _limited(X, Y, start, columns, loc, inverse, weight, unit, W, low, high, radius, z, v, norm2)
        for t in range(rows):
            for a in range(k):
                V[start + t, a] = v[a, t]
            if R.shape[1] > 1:
                root = Y[start + t, weight] / unit
                out = norm2[t] / min(root * root, _LARGE) / (FAR * k)
                R[start + t, 1] = (out - _NOT_FAR) / (1.0 - _NOT_FAR) if 0.0 < out < np.inf else 0.0
            R[start + t, 0] = v[k, t]


@kernel
def _limited(X, Y, start, columns, loc, inverse, weight, unit, W, low, high, radius, z, v, norm2):
    """Fill `v` with what `whitened` makes of a tile, transposed, response last; return its number of rows."""
    q, k = W.shape
    rows = min(TILE, len(X) - start)
    standardized(X, Y, start, rows, columns, loc, inverse, z)
    for j in range(q):
        for t in range(rows):
            z[j, t] = min(max(z[j, t], low[j]), high[j])
    weighed(Y, start, rows, weight, unit, z)
    mapped(W, z[:q], rows, v[:k], norm2)
    for t in range(rows):
        r = z[q, t]
        if norm2[t] > radius * radius or not norm2[t] < np.inf:
            finite = norm2[t] < np.inf
            factor = radius / np.sqrt(norm2[t]) if finite else 1.0
            for a in range(k):
                v[a, t] = v[a, t] * factor if finite else 0.0
            r *= factor
        v[k, t] = r
    return rows


@kernel(inline="always", fastmath={"reassoc"})
def _product(v, y, u, threshold):
    """Limited residual, length, and norm of the product ``v r`` of a row; residual 0 and product infinity for
    a row out of range, 0 and 0 for one without a length.

    A product is shortened to ``clip`` by ``clip / length`` with the sign of the residual: whatever is divided
    by the product, or multiplied by a small residual, may be lost to underflow.
    """
    r = y
    norm2 = 0.0
    for a in range(u.size):
        r -= v[a] * u[a]
        norm2 += v[a] * v[a]
    if not (norm2 < np.inf and abs(r) < _FARTHEST):
        return 0.0, 1.0, np.inf
    if norm2 < _SHORTEST2:
        return 0.0, 1.0, 0.0
    r, length = min(max(r, -threshold), threshold), np.sqrt(norm2)
    return r, length, length * abs(r)


@kernel(fastmath={"reassoc"})
def product_gradient(V, Y, u, threshold, clip, units, gradient):
    """``gradient += sum_i clip(v_i r_i)``, each row's product shortened to norm `clip`.

    Parameters
    ----------
    V : (n, k) float array
    Y : (n, 1) float array
    u : (k,) float array
        ``r = y - u'v``.
    threshold : float
        Residuals are moved into ``[-threshold, threshold]`` first.
    clip : float
    units : float
        Terms are rounded to multiples of ``1/units``; a power of two with ``units clip <= 2^42``.
    gradient : (2, k) int64 array
        ``2^32 gradient[0] + gradient[1]`` units; updated in place.
    """
    part = np.empty(u.size)
    for start in range(0, len(V), TILE):
        part[:] = 0.0
        for i in range(start, min(start + TILE, len(V))):
            prefetch(V, i)
            r, length, _ = _product(V[i], Y[i, 0], u, threshold)
            if r != 0.0:
                factor = np.copysign(min(units * abs(r), units * clip / length), r)
                for a in range(u.size):
                    part[a] += np.rint(factor * V[i, a])
        _carry(part, gradient)


@kernel(fastmath={"reassoc"})
def product_excess(V, Y, u, threshold, clip, far2, units, parts):
    """Add up what shortening ``v_i r_i`` to `clip` in place of twice that takes off it, and the rest of the
    product with the sign of rows far out or of the others.

    Parameters
    ----------
    V, Y, u, threshold, clip, units
        As of `product_gradient`.
    far2 : float
        Rows whose squared length is at least this are far out, those of two fifths of it are not; between
        the two the sign turns gradually. If it is 0, the second column of `Y` says how far out a row is,
        from 0 to 1.
    parts : (2, 2 k) int64 array
        Both sums, in units as in `product_gradient`; updated in place. With ``e`` what is taken off, a row
        adds ``sqrt(3/4) e`` to the one and a vector of at most the squared norm ``clip^2 - 3/4 |e|^2`` to
        the other, so at most the norm `clip` to both together.
    """
    part, k = np.empty(2 * u.size), u.size
    for start in range(0, len(V), TILE):
        part[:] = 0.0
        for i in range(start, min(start + TILE, len(V))):
            prefetch(V, i)
            r, length, product = _product(V[i], Y[i, 0], u, threshold)
            if r == 0.0:
                continue
            out = (length / far2 * length - _NOT_FAR) / (1.0 - _NOT_FAR) if far2 > 0.0 else Y[i, 1]
            sign = 2.0 * min(max(out, 0.0), 1.0) - 1.0
            excess, rest = 0.0, units * r * sign
            if product > clip:
                square = EXCESS_SHARE * min(product / clip - 1.0, 1.0) ** 2
                along = np.copysign(units * clip / length, r)
                excess, rest = np.sqrt(square) * along, np.sqrt(1.0 - square) * sign * along
            for a in range(k):
                part[a] += np.rint(excess * V[i, a])
                part[k + a] += np.rint(rest * V[i, a])
        _carry(part, parts)


@kernel(inline="always")
def _carry(part, total):
    """``total += part`` for the whole numbers of one tile."""
    for a in range(part.size):
        total[0, a], total[1, a] = carried(total[0, a], total[1, a], part[a])


@kernel(fastmath={"reassoc"})
def product_octaves(V, Y, u, threshold, hist):
    """``hist[s, octave((|v_i| r_i)^2)] += 1``, ``s`` 1 where ``r_i > 0``, else 0."""
    square = np.empty(1)
    bits = square.view(np.int64)
    for i in range(len(V)):
        prefetch(V, i)
        r, _, product = _product(V[i], Y[i, 0], u, threshold)
        square[0] = product * product
        hist[1 if r > 0.0 else 0, octave(bits[0])] += 1


@kernel(fastmath={"reassoc"})
def product_gram(V, Y, u, threshold, clip, units, gram):
    """``gram += sum_i p_i p_i'``, (2, k, k), with ``p = clip(v r)``, the terms of `product_gradient`."""
    tile = np.empty((u.size, TILE))
    for start in range(0, len(V), TILE):
        rows = min(TILE, len(V) - start)
        for t in range(rows):
            prefetch(V, start + t)
            r, length, _ = _product(V[start + t], Y[start + t, 0], u, threshold)
            factor = np.copysign(min(abs(r), clip / length), r)
            for a in range(u.size):
                tile[a, t] = factor * V[start + t, a] if factor != 0.0 else 0.0
        add_gram(tile, rows, units, gram)


@kernel(fastmath={"reassoc"})
def inner_gram(V, Y, u, threshold, clip, radius, units, gram):
    """``gram += sum_i w_i v_i v_i'``, ``w = min(1, radius^2 / |v|^2)``, over the rows whose term in
    `product_gradient` moves with ``u``: those with ``|r| < threshold`` and ``|v r| <= clip``.
    """
    tile = np.empty((u.size, TILE))
    for start in range(0, len(V), TILE):
        rows = min(TILE, len(V) - start)
        for t in range(rows):
            prefetch(V, start + t)
            r, _, product = _product(V[start + t], Y[start + t, 0], u, threshold)
            norm2 = 0.0
            for a in range(u.size):
                norm2 += V[start + t, a] * V[start + t, a]
            inside = norm2 < np.inf and abs(r) < threshold and product <= clip
            factor = min(1.0, radius / np.sqrt(norm2)) if inside and norm2 > 0.0 else 0.0
            for a in range(u.size):
                tile[a, t] = factor * V[start + t, a] if factor > 0.0 else 0.0
        add_gram(tile, rows, units, gram)


@kernel(inline="always")
def _residual(v, y, u):
    """``r = y - u'v`` of a row."""
    r = y
    for a in range(u.size):
        r -= v[a] * u[a]
    return r


@kernel(fastmath={"reassoc"})
def residual_octaves(V, Y, u, hist):
    """``hist[octave(r_i^2)] += 1``."""
    square = np.empty(1)
    bits = square.view(np.int64)
    for i in range(len(V)):
        prefetch(V, i)
        square[0] = _residual(V[i], Y[i, 0], u) ** 2
        hist[octave(bits[0])] += 1


@kernel(fastmath={"reassoc"})
def residual_moments(V, Y, u, ceiling, units, total):
    """``total += sum_i min(r_i^2, ceiling)`` in units of `product_gradient`, a (2, 1) int64 array."""
    for start in range(0, len(V), TILE):
        part = 0.0
        for i in range(start, min(start + TILE, len(V))):
            prefetch(V, i)
            r = _residual(V[i], Y[i, 0], u)
            square = r * r
            part += np.rint(units * (square if square < ceiling else ceiling))
        total[0, 0], total[1, 0] = carried(total[0, 0], total[1, 0], part)


@kernel
def outside_score(V, Y, back, theta, low, high, far_low, far_high, inside, units, total):
    """Compare predictions within wide and within narrow limits, on the rows where they differ.

    ``total += sum_i (b_i^2 - a_i^2) / (b_i^2 + a_i^2)`` with ``a`` the residual of the row moved into the
    wide limits and ``b`` that of the row moved into the narrow ones.

    Parameters
    ----------
    V : (n, k) float array
    Y : (n, 1) float array
    back : (k, q) float array
        ``z = back' v``.
    theta : (q,) float array
        Coefficients of ``z``.
    low, high, far_low, far_high : (q,) float arrays
        Narrow and wide limits of ``z``.
    inside : float
        A row with ``|v|^2`` below it is within all limits.
    units : float
        As in `product_gradient`, for terms of at most 1.
    total : (2, 1) int64 array
        Updated in place.
    """
    n = len(V)
    k, q = back.shape
    v, z, norm2 = np.empty((k, TILE)), np.empty((q, TILE)), np.empty(TILE)
    y, within, wide = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    for start in range(0, n, TILE):
        rows = 0
        for i in range(start, min(start + TILE, n)):
            prefetch(V, i)
            square = 0.0
            for j in range(k):
                square += V[i, j] * V[i, j]
            if not square < inside:
                for j in range(k):
                    v[j, rows] = V[i, j]
                y[rows] = Y[i, 0]
                rows += 1
        mapped(back, v, rows, z, norm2)
        for t in range(rows):
            within[t] = wide[t] = y[t]
        for j in range(q):
            for t in range(rows):
                wide[t] -= min(max(z[j, t], far_low[j]), far_high[j]) * theta[j]
                within[t] -= min(max(z[j, t], low[j]), high[j]) * theta[j]
        part = 0.0
        for t in range(rows):
            a, b = wide[t], within[t]
            # the larger is taken out first: squares of large residuals overflow
            largest = max(abs(a), abs(b))
            if a != b and abs(a) < np.inf and abs(b) < np.inf:
                a2, b2 = (a / largest) ** 2, (b / largest) ** 2
                part += np.rint(units * ((b2 - a2) / (b2 + a2)))
        total[0, 0], total[1, 0] = carried(total[0, 0], total[1, 0], part)


@kernel(fastmath={"reassoc"})
def psi_moments(V, Y, u, threshold, units, total):
    """``total += sum_i (1{|r_i| < threshold}, min(|r_i| / threshold, 1)^2)`` in units, (2, 2) int64."""
    part = np.empty(2)
    for start in range(0, len(V), TILE):
        part[:] = 0.0
        for i in range(start, min(start + TILE, len(V))):
            prefetch(V, i)
            r = _residual(V[i], Y[i, 0], u)
            ratio = abs(r) / threshold
            if ratio < 1.0:
                part[0] += units
                part[1] += np.rint(units * (ratio * ratio))
            else:
                part[1] += units
        _carry(part, total)


@kernel(fastmath={"reassoc"})
def settled_gradient(V, Y, u, clip, reach, units, squares, gradient, gram, near):
    """Add up the rows that stay on their side of the clip while ``u`` moves by `reach`; mark the others.

    A row with ``|v| (|r| + |v| reach) <= clip`` adds ``v r`` to `gradient` and ``v v'`` to `gram`; one with
    ``|v| (|r| - 2 |v| reach) >= clip`` adds ``v`` shortened to the norm `clip`, with the sign of ``r``, to
    `gradient`: its residual stays ``|v| reach`` away from where it would be shorter, more than it is rounded
    by. Any other row, one without a length, and one whose residual may get out of range, adds nothing, and
    its entry of `near` becomes True.

    Parameters
    ----------
    V : (n, k) float array
        Finite.
    Y : (n, 1) float array
    u : (k,) float array
        ``r = y - u'v``.
    clip, reach : float
    units, squares : float
        Units of `gradient` and of `gram`, as of `product_gradient`.
    gradient, gram, near : (2, k), (2, k, k) int64 and (n,) bool arrays
        Updated in place.
    """
    inside, part = np.empty((u.size, TILE)), np.empty(u.size)
    for start in range(0, len(V), TILE):
        count = 0
        part[:] = 0.0
        for i in range(start, min(start + TILE, len(V))):
            prefetch(V, i)
            r, norm2 = Y[i, 0], 0.0
            for a in range(u.size):
                r -= V[i, a] * u[a]
                norm2 += V[i, a] * V[i, a]
            length, change = np.sqrt(norm2), norm2 * reach
            size = length * abs(r)
            finite = norm2 >= _SHORTEST2 and abs(r) + length * reach < _FARTHEST
            factor = units * r
            if finite and size + change <= clip:
                for a in range(u.size):
                    inside[a, count] = V[i, a]
                count += 1
            elif finite and size - 2.0 * change >= clip:
                factor = np.copysign(units * clip / length, r)
            else:
                near[i] = True
                continue
            for a in range(u.size):
                part[a] += np.rint(factor * V[i, a])
        _carry(part, gradient)
        add_gram(inside, count, squares, gram)
