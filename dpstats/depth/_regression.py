"""Regression depth of linear fits, as integer counts."""

import warnings

import numpy as np
from numpy.typing import ArrayLike

from dpstats._jit import kernel
from dpstats._types import Array, Floats, Integers
from dpstats._validation import check, fail, one_of
from dpstats.depth._directions import centre_and_unit, regression_bound
from dpstats.depth._halfspace import chosen_directions
from dpstats.depth._order import order, workspace
from dpstats.depth._predicates import residual_sign
from dpstats.depth._reading import clip, decimals, matrix, vector
from dpstats.depth._sweep import count

__all__ = ["regression", "exact_depths", "residual_signs"]

RTOL = 1e-10
_EPS = 2.220446049250313e-16
_EXACT_ROWS = {1: None, 2: 5000, 3: 300}  # rows up to which depth is exact by default


@kernel
def _residual_signs(fits, X, y, rtol, floors):
    signs = np.empty((fits.shape[0], len(y)), np.int8)
    for f in range(fits.shape[0]):
        for i in range(len(y)):
            r = y[i] - fits[f, 0]
            size = abs(y[i]) + abs(fits[f, 0])
            for c in range(X.shape[1]):
                term = fits[f, 1 + c] * X[i, c]
                r -= term
                size += abs(term)
            if abs(r) > max(max(rtol, (X.shape[1] + 2) * _EPS) * size, floors[f]):
                signs[f, i] = 1 if r > 0.0 else -1
            elif rtol > 0.0:
                signs[f, i] = 0
            else:
                signs[f, i] = residual_sign(fits[f], X, y, i)
    return signs


def residual_signs(fits: Floats, X: Floats, y: Floats, rtol: float) -> Array:
    """Return the signs of the residuals, shape (m, n).

    With ``rtol == 0`` they are exact. Otherwise a residual is zero if it is at most `rtol` times the sum of
    the magnitudes of its own terms, or of those of a middling row: the rounding of an intercept has the
    size of the rows that it was computed from.
    """
    floors = np.zeros(len(fits))
    if rtol > 0 and len(y):
        middling = np.concatenate([[1.0], np.median(np.abs(X), axis=0)])
        floors = rtol * (np.median(np.abs(y)) + np.abs(fits) @ middling)
    return _residual_signs(fits, X, y, rtol, floors)


@kernel(inline="always")
def _sides(signs, f, members, n_members):
    """How many of the members have a positive residual, and how many a negative one."""
    positive = 0
    negative = 0
    for t in range(n_members):
        s = signs[f, members[t]]
        if s > 0:
            positive += 1
        elif s < 0:
            negative += 1
    return positive, negative


@kernel
def _split_depths(position, signs, members, n_members, out):
    """Fewest of the members in a half-line of residual signs, written to `out`; zeros do not count.

    ``members`` are rows in increasing order of ``position``; equal positions stay together.
    """
    for f in range(signs.shape[0]):
        positive, negative = _sides(signs, f, members, n_members)
        running = 0
        best = min(positive, negative)
        for t in range(n_members):
            running += signs[f, members[t]]
            if t + 1 == n_members or position[members[t + 1]] != position[members[t]]:
                best = min(best, negative + running, positive - running)
        out[f] = best


@kernel
def _one_covariate(x, by_x, signs, out):
    _split_depths(x, signs, by_x, len(by_x), out)


@kernel
def _two_covariates(X, signs, out):
    """Every distinct point of the covariates is a pivot; the order around it serves all fits."""
    n = X.shape[0]
    ws = workspace(n)
    for i in range(n):
        m, n_vertical, n_zero = order(X, X[i], None, None, ws)
        here = ws[7]
        if here[0] != i:
            continue  # the same point as an earlier one
        for f in range(signs.shape[0]):
            within = min(_sides(signs, f, here, n_zero))
            out[f] = min(out[f], within + count(signs[f], m, n_vertical, ws))


@kernel
def _three_covariates(X, signs, out):
    """Every line through two distinct points is a pivot; the order around it serves all fits."""
    n = X.shape[0]
    ws = workspace(n)
    along = np.empty(n)
    within = np.empty(signs.shape[0], np.int64)
    repeated = np.zeros(n, np.bool_)
    for j in range(n):
        for i in range(j):
            repeated[j] = repeated[j] or (X[i, 0] == X[j, 0] and X[i, 1] == X[j, 1] and X[i, 2] == X[j, 2])
    for i in range(n):
        for j in range(i + 1, n):
            if repeated[i] or repeated[j]:
                continue
            m, n_vertical, n_zero = order(X, X[i], j, None, ws)
            on_line = ws[7]
            k = 0
            for c in range(1, 3):
                if abs(X[j, c] - X[i, c]) > abs(X[j, k] - X[i, k]):
                    k = c
            first = True  # is (i, j) the first pair of rows that spans this line?
            for t in range(n_zero):
                a = on_line[t]
                along[a] = X[a, k]
                if a < i or (a < j and X[a, k] != X[i, k]):
                    first = False
            if not first:
                continue
            by_position = np.argsort(along[on_line[:n_zero]], kind="mergesort")
            members = on_line[:n_zero][by_position]
            _split_depths(along, signs, members, n_zero, within)
            for f in range(signs.shape[0]):
                out[f] = min(out[f], within[f] + count(signs[f], m, n_vertical, ws))


def exact_depths(fits: Floats, X: Floats, y: Floats, rtol: float = 0.0) -> Integers:
    """Exact regression depth for one, two or three covariates, of arrays taken as the doubles they are.

    No reading of decimals and no validation: the kernel that private estimators call. Magnitudes must be
    zero or in [2**-200, 2**200] (:func:`dpstats.depth._reading.clip`).
    """
    signs = residual_signs(fits, X, y, rtol)
    return _from_signs(signs, X)


def _from_signs(signs: Array, X: Floats) -> Integers:
    n, p = X.shape
    zeros = (signs == 0).sum(axis=1)
    out = np.minimum((signs > 0).sum(axis=1), (signs < 0).sum(axis=1))  # all of the line on one side
    if n == 0 or len(signs) == 0:
        return zeros
    if p == 1:
        x = np.ascontiguousarray(X[:, 0])
        _one_covariate(x, np.argsort(x, kind="stable"), signs, out)
    elif p == 2:
        _two_covariates(X, signs, out)
    else:
        _three_covariates(X, signs, out)
    return zeros + out


def regression(
    fits: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    method: str | None = None,
    *,
    rtol: float = RTOL,
    directions: ArrayLike | None = None,
) -> Integers:
    """Regression depth: the fewest observations that a fit must pass to become a non-fit.

    .. math:: rd(\\theta) = \\min_{l \\ne 0} \\#\\{i : \\mathrm{sgn}(r_i)\\, l'(1, x_i) \\ge 0\\},
              \\qquad r_i = y_i - \\theta'(1, x_i)

    An observation with residual zero always counts. Not private: the result depends on the data exactly.

    Parameters
    ----------
    fits : array_like of shape (m, p + 1), or (p + 1,) for one fit
        Coefficients, the intercept first.
    x : array_like of shape (n, p) or (n,)
        Covariates, without a constant.
    y : array_like of shape (n,)
        Response.
    method : {None, "exact", "directions"}
        ``"exact"``: for one covariate in ``O(n)`` per fit, two in ``O(n^2)``, three in ``O(n^3)``, after a
        sort. ``"directions"``: an upper bound; the covariates are projected on a public set of
        directions (after centring and scaling by medians), with every split of each projection.
        None: exact for p = 1, p = 2 up to n = 5000 and p = 3 up to n = 300; otherwise directions, with a
        `UserWarning` that says so.
    rtol : float
        A residual is zero if it is at most `rtol` times ``|y| + sum |theta_j x_j|`` (its own, or that at the
        medians of the columns): fits are usually results of rounded computations. 0: only if it is
        exactly zero.
    directions : int or array_like of shape (k, p), optional
        As in :func:`halfspace`.

    Returns
    -------
    ndarray of shape (m,), int64
        Counts in ``0 .. n``.

    Raises
    ------
    dpstats.errors.ParameterError
        If an array is not numeric, not finite or has the wrong shape, a parameter is not allowed, or
        ``method="exact"`` is asked for with more than three covariates.

    Examples
    --------
    >>> x, y = [1, 2, 3, 4, 5], [1, 2, 3, 4, 9]
    >>> regression([[0, 1], [3, 0], [10, 0]], x, y)
    array([4, 1, 0])
    """
    if method is not None:
        one_of("method", method, ("exact", "directions"))
    rtol = check("rtol", rtol, "nonnegative")
    X = matrix("x", x)
    n, p = X.shape
    y = vector("y", y, length=n)
    fits = matrix("fits", fits, columns=p + 1, vector_is="row")
    limit = _EXACT_ROWS.get(p, 0)
    if method == "exact" and p > 3:
        fail("method", method, "None or 'directions' for more than three covariates")
    if method is None:
        method = "exact" if limit is None or n <= limit else "directions"
        if method == "directions":
            hint = ' method="exact" computes it exactly, and slowly.' if p <= 3 else ""
            warnings.warn(
                f"regression depth among {n} rows with {p} covariates is an upper bound over a set of "
                f"directions.{hint}",
                UserWarning,
                stacklevel=2,
            )
    signs = residual_signs(clip(fits), clip(X), clip(y), rtol)
    if method == "directions":
        if n == 0:
            return np.zeros(len(fits), dtype=np.int64)
        centre, unit = centre_and_unit(X)
        return regression_bound(signs, (X - centre) / unit, chosen_directions(directions, p))
    (read,), _ = decimals(X)
    return _from_signs(signs, read)
