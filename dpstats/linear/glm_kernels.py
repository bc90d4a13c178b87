"""Compiled passes over the rows for rounds of generalised linear models.

Each has a slow equal in ``tests/linear/test_glm_scores.py``. Rows come as whitened covariates ``V`` and pairs
``R`` of the response and an offset; whatever they hold, what a row adds is limited. A row that is out of
range adds nothing.

Common parameters: ``u`` (k,) the coefficients; `counts` whether the mean is ``exp(eta)`` (else it is
``1 / (1 + exp(-eta))``); `top` the largest ``eta`` (and, for shares, minus the least); `clip` the largest
norm of a row's part of the score; `radius2` the largest norm of its part of the information; `dispersion`
``phi``, how many times their mean the variance of counts is (of 1/2, that of fair coins, none is skewed).
"""

import math

import numpy as np

from dpstats._jit import kernel, prefetch
from dpstats.mechanisms._kernels import TILE, add_gram, carried, octave

__all__ = [
    "FAR_WEIGHT",
    "answers",
    "deviances",
    "excess",
    "far_rows",
    "information",
    "part_gram",
    "part_octaves",
    "part_squares",
    "score",
    "weights",
]


_FAR = 3.0
"""The way of a count's linear predictor to its response is taken for so long at most."""
_SHORTEST = 1e-280
"""Squared norms of rows that are no rows of zeros are larger."""
_RARE = 0.25
"""Means up to which a count is taken for an event that is there or not."""
_NARROWEST, _WIDEST = 1e-6, 6.0
"""Limits of a residual, in standard deviations, between which its skewness is allowed for."""
_NOT_SKEWED, _RISING = 0.5, 0.75
"""The mean up to which it is not, and how much farther on all of it is."""
_ROOT_TWO, _ROOT_TWO_PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)
FAR_WEIGHT = 4.0
"""What is released of rows far out has so many times the weight that they have in the score, at most 1."""
_LEAST_WEIGHT = 1e-280
"""Weights of rows below that have lost their digits."""
LEAST = 60.0
"""Means of counts are at least ``exp(-60)``, so that what is divided by their roots has a size."""


@kernel(inline="always")
def _row(v, response, offset, u, counts, top):
    """Residual, variance of the response at the mean, bound on the residual, and squared norm of the row.

    The bound is the residual's own size for counts, and for shares the larger one of either answer.
    """
    eta, norm2 = offset, 0.0
    for a in range(u.size):
        eta += v[a] * u[a]
        norm2 += v[a] * v[a]
    # a squared norm that has lost its digits bounds nothing
    if not (_SHORTEST < norm2 < np.inf and abs(eta) < np.inf):
        return 0.0, 0.0, 0.0, 0.0
    if counts:
        mean = np.exp(min(eta, top))
        return response - mean, mean, abs(response - mean), norm2
    mean = 1.0 / (1.0 + np.exp(-min(max(eta, -top), top)))
    # (the bound is one for answers alone)
    return min(max(response, 0.0), 1.0) - mean, mean * (1.0 - mean), max(mean, 1.0 - mean), norm2


@kernel(inline="always")
def _centre(mean, most, dispersion):
    """Where a count's residual of at most ``c = most`` is taken from, its derivative by the mean, and its
    variance there if the mean is small (else 0).

    Of a rare event, which is there with the probability of the mean, ``t = c m / (1 - m)`` leaves the limited
    residual with the mean 0, if that is less than the mean: one about the mean would take rare events off.

    Other counts of the variance ``phi m`` have a third central moment of ``k phi m``, with ``k = 2 phi - 1``
    if they are Poisson or binomial. Of a normal variable bent to be so skewed (Cornish and Fisher) the
    limited residual has the mean 0 about ``t = m - k a f(a) / (6 F(a) - 3)``, with the normal density ``f``
    and distribution ``F``, and ``a = c / sqrt(phi m)``. A group may vary less than all rows do, and most of
    all where its mean is small: ``k`` is at most 1, and from means of 1.25 down to .5 it falls to 0.
    """
    if not 0.0 < mean < _RARE:
        at = most / np.sqrt(dispersion * mean) if mean > _NOT_SKEWED else np.inf
        if not _NARROWEST < at < _WIDEST:
            return mean, 1.0, 0.0
        density, within = np.exp(-at * at / 2.0) / _ROOT_TWO_PI, math.erf(at / _ROOT_TWO)
        skewed, rising = min(2.0 * dispersion - 1.0, 1.0), (mean - _NOT_SKEWED) / _RISING
        shift = at * density / (3.0 * within)
        moved = (1.0 - at * at - 2.0 * at * density / within) * density / (3.0 * within)
        fall = 1.0 + skewed * min(rising, 1.0) * moved * at / (2.0 * mean)
        if rising < 1.0:
            fall -= skewed * shift / _RISING
        return mean - skewed * min(rising, 1.0) * shift, max(fall, 0.0), 0.0
    if most >= 1.0 - mean:
        return mean, 1.0, mean * (1.0 - mean)
    share = most / (1.0 - mean)
    return share * mean, share / (1.0 - mean), most * share * mean


@kernel(inline="always")
def _part(r, variance, far, norm2, counts, clip, radius2, dispersion):
    """The residual of a row's part of the score, its weight, and that of its part of the information."""
    weight = 1.0
    if variance * norm2 > radius2:
        weight = radius2 / (variance * norm2)
    length = weight * np.sqrt(norm2)
    if weight < _LEAST_WEIGHT or not length > 0.0:
        return 0.0, 0.0, 0.0
    if counts:
        centre, fall, _ = _centre(variance, clip / length, dispersion)
        r += variance - centre
        if length * abs(r) > clip:
            # the part of a count no longer moves with the coefficients
            return np.copysign(clip / length, r), weight, 0.0
        return r, weight, weight * min(fall, 1.0)
    if length * far > clip:
        weight *= clip / (length * far)
    return r, weight, weight


@kernel(inline="always")
def _model_variance(mean, norm2, clip, radius2):
    """The variance that a row's part of the score has as a rare event, over its squared length."""
    weight = min(1.0, radius2 / max(mean * norm2, _SHORTEST))
    return weight * weight * _centre(mean, clip / max(weight * np.sqrt(norm2), _SHORTEST), 0.5)[2]


@kernel(inline="always")
def _secant(r, mean):
    """How fast a count's residual ``y - m`` falls to 0, over ``log(y / m)``: a logarithmic mean."""
    way = min(abs(np.log1p(r / mean)), _FAR)
    return abs(r) / way if way > 1e-6 else mean


@kernel
def answers(Z, R, u, counts, top, V, Y):
    """Fill `V` and `Y` with rows of least squares whose score and information at `u` are those of `Z`, `R`:
    ``v = sqrt(w) z`` and ``y = v'u + (r - m) / sqrt(w)``, ``w`` the variance at the mean ``m``.
    """
    for i in range(len(Z)):
        prefetch(Z, i)
        fitted = 0.0
        for a in range(u.size):
            fitted += Z[i, a] * u[a]
        eta = min(max(fitted + R[i, 1], -LEAST), top)
        if counts:
            mean = np.exp(eta)
            root = np.sqrt(mean)
        else:
            mean = 1.0 / (1.0 + np.exp(-max(eta, -top)))
            root = np.sqrt(mean * (1.0 - mean))
        for a in range(u.size):
            V[i, a] = root * Z[i, a]
        Y[i, 0] = root * fitted + (R[i, 0] - mean) / root


@kernel
def score(V, R, u, counts, top, clip, radius2, dispersion, units, total):
    """``total += sum_i f_i v_i r_i``, (2, k), terms rounded to multiples of ``1/units``.

    ``units`` is a power of two with ``units clip <= 2^42``; `total` holds ``2^32 total[0] + total[1]`` units.
    """
    part = np.empty(u.size)
    for start in range(0, len(V), TILE):
        part[:] = 0.0
        for i in range(start, min(start + TILE, len(V))):
            prefetch(V, i)
            r, variance, far, norm2 = _row(V[i], R[i, 0], R[i, 1], u, counts, top)
            r, weight, _ = _part(r, variance, far, norm2, counts, clip, radius2, dispersion)
            factor = weight * r
            if abs(factor) < np.inf and factor != 0.0:
                factor *= units
                for a in range(u.size):
                    part[a] += np.rint(factor * V[i, a])
        for a in range(part.size):
            total[0, a], total[1, a] = carried(total[0, a], total[1, a], part[a])


@kernel
def excess(V, R, u, top, clip, radius2, times, units, total):
    """``total += sum_i e_i v_i``, (2, k), rounded as in :func:`score`, for ``(times - 1) clip``.

    ``e_i v_i`` is what a row of shares adds to the score with `clip` and `radius2` `times` as large, less
    what it adds with these.
    """
    part = np.empty(u.size)
    for start in range(0, len(V), TILE):
        part[:] = 0.0
        for i in range(start, min(start + TILE, len(V))):
            prefetch(V, i)
            r, variance, far, norm2 = _row(V[i], R[i, 0], R[i, 1], u, False, top)
            near = _part(r, variance, far, norm2, False, clip, radius2, 0.5)[1]
            wide = _part(r, variance, far, norm2, False, times * clip, times * radius2, 0.5)[1]
            factor = (wide - near) * r
            if abs(factor) < np.inf and factor != 0.0:
                factor *= units
                for a in range(u.size):
                    part[a] += np.rint(factor * V[i, a])
        for a in range(part.size):
            total[0, a], total[1, a] = carried(total[0, a], total[1, a], part[a])


@kernel
def far_rows(V, R, u, top, clip, radius2, dispersion, count, units, total):
    """``total += sum_i (p_i, count)``, (2, k + 1), ``p`` a row's part of the score with up to four times
    its weight, over rows of counts that have less than 1; rounded as in :func:`score`, with ``units
    sqrt(clip^2 + count^2) <= 2^42``."""
    part = np.empty(1 + u.size)
    for start in range(0, len(V), TILE):
        part[:] = 0.0
        for i in range(start, min(start + TILE, len(V))):
            prefetch(V, i)
            r, mean, far, norm2 = _row(V[i], R[i, 0], R[i, 1], u, True, top)
            if not mean * norm2 > radius2:
                continue
            r, weight, _ = _part(r, mean, far, norm2, True, clip, FAR_WEIGHT * radius2, dispersion)
            factor = weight * r
            if abs(factor) < np.inf and factor != 0.0:
                factor *= units
                for a in range(u.size):
                    part[a] += np.rint(factor * V[i, a])
            part[u.size] += np.rint(units * count)
        for a in range(part.size):
            total[0, a], total[1, a] = carried(total[0, a], total[1, a], part[a])


@kernel
def information(V, R, u, counts, top, clip, radius2, dispersion, squared, secant, units, gram):
    """``gram += sum_i f_i w_i v_i v_i'``, (2, k, k), ``w`` the variance; ``f`` is 0 for a count whose part of
    the score is shortened, or whose mean is the largest; with `secant` it has the slope of a secant instead.
    A count's ``f`` has the derivative of its centre as a factor. With `squared` the variance of the part of
    the score by the model, whatever the response; of counts where the mean is small, else 0.
    """
    tile, most = np.empty((u.size, TILE)), np.exp(top)
    for start in range(0, len(V), TILE):
        rows = min(TILE, len(V) - start)
        for t in range(rows):
            i = start + t
            prefetch(V, i)
            r, variance, far, norm2 = _row(V[i], R[i, 0], R[i, 1], u, counts, top)
            moved, weight, slope = _part(r, variance, far, norm2, counts, clip, radius2, dispersion)
            if counts and squared:
                variance, slope = _model_variance(variance, norm2, clip, radius2), 1.0
            elif counts and (slope == 0.0 or variance >= most):
                slope = 0.0
                if secant and variance > 0.0:
                    # the weight with which its part is shortened
                    weight *= min(abs(moved / r), 1.0) if r != 0.0 else 1.0
                    variance = _secant(r, variance)
                    slope = min(weight, radius2 / max(variance * norm2, _SHORTEST))
            factor = slope * np.sqrt(variance) if squared else np.sqrt(slope * variance)
            for a in range(u.size):
                tile[a, t] = factor * V[i, a] if 0.0 < factor < np.inf else 0.0
        add_gram(tile, rows, units, gram)


@kernel
def part_gram(V, R, u, counts, top, clip, radius2, dispersion, cut, units, gram):
    """``gram += sum_i p_i p_i'``, (2, k, k), ``p`` a row's part of the score shortened to the norm `cut`."""
    tile = np.empty((u.size, TILE))
    for start in range(0, len(V), TILE):
        rows = min(TILE, len(V) - start)
        for t in range(rows):
            i = start + t
            prefetch(V, i)
            r, variance, far, norm2 = _row(V[i], R[i, 0], R[i, 1], u, counts, top)
            r, weight, _ = _part(r, variance, far, norm2, counts, clip, radius2, dispersion)
            factor = weight * r
            length = abs(factor) * np.sqrt(norm2)
            if length > cut:
                factor *= cut / length
            for a in range(u.size):
                tile[a, t] = factor * V[i, a] if abs(factor) < np.inf and factor != 0.0 else 0.0
        add_gram(tile, rows, units, gram)


@kernel
def part_octaves(V, R, u, counts, top, radius2, hist):
    """``hist[s, octave(|p_i|^2)] += 1``, ``p`` a row's part without a clip, ``s`` 1 where ``r > 0``."""
    square = np.empty(1)
    bits = square.view(np.int64)
    for i in range(len(V)):
        prefetch(V, i)
        r, variance, far, norm2 = _row(V[i], R[i, 0], R[i, 1], u, counts, top)
        factor = _part(r, variance, far, norm2, counts, np.inf, radius2, 0.5)[1] * r
        square[0] = factor * factor * norm2
        hist[1 if r > 0.0 else 0, octave(bits[0])] += 1


@kernel
def part_squares(V, R, u, counts, top, radius2, ceiling, units, total):
    """``total += sum_i min(|p_i|^2, ceiling)`` in units, (2, 1), ``p`` as in `part_octaves`."""
    for start in range(0, len(V), TILE):
        part = 0.0
        for i in range(start, min(start + TILE, len(V))):
            prefetch(V, i)
            r, variance, far, norm2 = _row(V[i], R[i, 0], R[i, 1], u, counts, top)
            factor = _part(r, variance, far, norm2, counts, np.inf, radius2, 0.5)[1] * r
            square = factor * factor * norm2
            part += np.rint(units * (square if square < ceiling else ceiling))
        total[0, 0], total[1, 0] = carried(total[0, 0], total[1, 0], part)


@kernel(inline="always")
def _deviance(response, eta, counts, top):
    """The deviance of a row."""
    if counts:
        eta = min(eta, top)
        best = response * np.log(response) - response if response > 0.0 else 0.0
        return 2.0 * max(best - response * eta + np.exp(eta), 0.0)
    eta = min(max(eta, -top), top)
    return 2.0 * np.log1p(np.exp(-eta if response > 0.5 else eta))


@kernel(inline="always")
def _explained(response, eta, at_null, counts, top, most):
    """What the deviance of a row is lower at `eta`, where it is at most `most`, than at `at_null`."""
    if not counts:
        return _deviance(response, at_null, False, top) - min(_deviance(response, eta, False, top), most)
    eta, at_null = min(eta, top), min(at_null, top)
    return 2.0 * (response * (eta - at_null) - (np.exp(eta) - np.exp(at_null)))


@kernel
def deviances(V, R, u, null, counts, top, most, least, units, total):
    """``total += sum_i (min(d_i / most, 1), clip((n_i - d_i) / least, -1, 1))`` in units, (2, 2), with the
    deviances ``d_i`` at `u` and ``n_i`` at `null`."""
    for start in range(0, len(V), TILE):
        fitted, explained = 0.0, 0.0
        for i in range(start, min(start + TILE, len(V))):
            prefetch(V, i)
            eta, at_null = R[i, 1], R[i, 1]
            for a in range(u.size):
                eta += V[i, a] * u[a]
                at_null += V[i, a] * null[a]
            if abs(eta) < np.inf and abs(at_null) < np.inf:
                d = _deviance(R[i, 0], eta, counts, top)
                less = _explained(R[i, 0], eta, at_null, counts, top, most)
                fitted += np.rint(units * (d / most if d < most else 1.0))
                beyond = 1.0 if less > 0.0 else -1.0
                explained += np.rint(units * (less / least if abs(less) < least else beyond))
        total[0, 0], total[1, 0] = carried(total[0, 0], total[1, 0], fitted)
        total[0, 1], total[1, 1] = carried(total[0, 1], total[1, 1], explained)


@kernel
def weights(V, R, u, counts, top, share, most, longest, units, total):
    """``total += sum_i (w_i, share w_i' v_i)`` in units, (2, 1 + k), ``w'`` the derivative by ``eta``.

    Each row's ``w`` is at most `most`, and its slopes are shortened to the length `longest`.
    """
    part = np.empty(1 + u.size)
    for start in range(0, len(V), TILE):
        part[:] = 0.0
        for i in range(start, min(start + TILE, len(V))):
            prefetch(V, i)
            r, variance, _, norm2 = _row(V[i], R[i, 0], R[i, 1], u, counts, top)
            mean = R[i, 0] - r
            slope = share * (variance if counts else variance * (1.0 - 2.0 * mean))
            length = np.abs(slope) * np.sqrt(norm2)
            factor = units if length <= longest else units * (longest / length)
            if variance > 0.0 and length < np.inf:
                part[0] += np.rint(units * min(variance, most))
                for a in range(u.size):
                    part[1 + a] += np.rint(factor * slope * V[i, a])
        for a in range(part.size):
            total[0, a], total[1, a] = carried(total[0, a], total[1, a], part[a])
