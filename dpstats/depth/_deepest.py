"""The deepest regression line, extremes of the lines of every depth, and all vertices of the arrangement."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpstats._types import Array, Floats
from dpstats.depth._arrangement import prepare, walk
from dpstats.depth._reading import clip, decimals, vector
from dpstats.depth._regression import RTOL, exact_depths

__all__ = ["DeepestRegression", "RegressionLevels", "deepest_regression", "regression_levels", "vertices"]


@dataclass(frozen=True, eq=False)
class DeepestRegression:
    """A line of maximal regression depth.

    Attributes
    ----------
    fit : ndarray of shape (2,)
        Intercept and slope.
    depth : int
        Its depth, the largest of any line. If `rule` is "vertex" the exact line has this depth, and `fit`
        is that line rounded.
    rule : {"mean", "vertex", "flat"}
        "mean": the mean of the deepest vertices is deepest itself. "vertex": it is not, and this is the
        deepest vertex nearest to it. "flat": all covariates are equal.
    """

    fit: np.ndarray
    depth: int
    rule: str


@dataclass(frozen=True, eq=False)
class RegressionLevels:
    """What smooth sensitivity needs to know of a simple regression.

    Attributes
    ----------
    estimate : ndarray of shape (2,)
        The mean of the deepest vertices. It lies in the hull of the deepest set, not always in the set.
    depth : int
        The maximal depth q.
    lower, upper : ndarray of shape (q + 1, 4)
        Row t: extremes of ``theta_0, theta_1, theta_0 + theta_1, theta_0 - theta_1`` over
        ``{rd >= t}``, rounded outward by a few units in the last place; infinite where that is unbounded.
    unbounded : int
        G: the set of lines of depth at least t is bounded exactly when ``t > unbounded``.
    """

    estimate: np.ndarray
    depth: int
    lower: np.ndarray
    upper: np.ndarray
    unbounded: int

    def diameters(self) -> Floats:
        """Return the l1 diameter of the set of every depth, shape (q + 1,): the larger of two widths."""
        with np.errstate(invalid="ignore"):
            return np.maximum(self.upper[:, 2] - self.lower[:, 2], self.upper[:, 3] - self.lower[:, 3])


def _explore(x: Floats, y: Floats) -> tuple[Floats, Floats, int, Any]:
    """Walk the arrangement; return per-depth extremes, the maximal depth and the deepest vertices."""
    P, weights, group = prepare(x, y)
    lower = np.full((len(x) + 1, 4), np.inf)
    upper = np.full((len(x) + 1, 4), -np.inf)
    _, best, deepest = walk(P, weights, group, lower, upper, np.empty((0, 2)), np.empty(0, np.int32))
    return lower, upper, best, deepest


def _flat(y: Floats) -> tuple[Floats, int]:
    """The answer without a vertex, where all covariates are equal: slope zero and the lower median of the
    response, and its depth. Without kernels, as what is compiled must not tell private estimators' rows."""
    middle = np.sort(y)[(len(y) - 1) // 2] if len(y) else 0.0
    return np.array([middle, 0.0]), int(min((y <= middle).sum(), (y >= middle).sum()))


def _largest_tie(x: Floats, y: Floats) -> int:
    """G: the largest depth within one group of equal covariates."""
    best = 0
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    for group in np.split(y, np.flatnonzero(np.diff(x)) + 1) if len(x) else []:
        up_to = np.searchsorted(group, group, "right")
        from_ = len(group) - np.searchsorted(group, group, "left")
        best = max(best, int(np.minimum(up_to, from_).max()))
    return best


def deepest_regression(x: ArrayLike, y: ArrayLike) -> DeepestRegression:
    """Deepest regression line of one covariate: a line of exactly maximal regression depth.

    Not private. ``O(n^2 log n)`` time, O(n) memory.

    Parameters
    ----------
    x, y : array_like of shape (n,)
        Covariate and response, ``n >= 1``.

    Returns
    -------
    DeepestRegression
        ``fit`` (intercept, slope), ``depth`` and the ``rule`` that chose it.

    Raises
    ------
    dpstats.errors.ParameterError
        If an argument is not a finite numeric vector, the lengths differ or there are no rows.

    Notes
    -----
    Usually several vertices of the dual arrangement are deepest, and the deepest set need not be convex,
    so that averages of deepest lines are often not deepest. The rule: the mean of the distinct deepest
    vertices if it has maximal depth, else the deepest vertex nearest to the mean, in the mean squared
    difference of the two lines over the observed covariates (ties: smaller slope, then intercept). The
    rule follows changes of units of x and y, and the addition of a line to y.

    Decimals are read as decimals; see :func:`dpstats.depth.halfspace`.

    Examples
    --------
    >>> found = deepest_regression([1, 2, 3, 4, 5, 6], [2, 4, 6, 8, 10, 100])
    >>> found.fit.tolist(), found.depth
    ([0.0, 2.0], 5)
    """
    x = vector("x", x, at_least=1)
    y = vector("y", y, length=len(x))
    (table,), exponents = decimals(np.column_stack([x, y]))
    u, v = np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])
    _, _, best, deepest = _explore(u, v)
    if best < 0:
        fit, best = _flat(v)
        rule = "flat"
    else:
        fit, rule = deepest.mean(axis=0), "mean"
        if exact_depths(fit[None], u[:, None], v, RTOL)[0] < best:
            gap = deepest - fit
            distance = (gap[:, 0] + gap[:, 1] * u.mean()) ** 2 + gap[:, 1] ** 2 * u.var()
            fit, rule = deepest[np.lexsort((deepest[:, 0], deepest[:, 1], distance))[0]], "vertex"
    unit_x, unit_y = 10.0**exponents
    return DeepestRegression(np.array([fit[0] / unit_y, fit[1] * unit_x / unit_y]), int(best), rule)


def regression_levels(x: Floats, y: Floats) -> RegressionLevels:
    """Maximal regression depth and the extremes of the lines of every depth, for private estimators.

    No decimals are read: the numbers are the doubles they are, clipped one by one to
    ``[2**-200, 2**200]`` in magnitude, so that neighbouring data stay neighbours. Nothing raises or
    warns because of the data; any n, also 0.

    Parameters
    ----------
    x, y : ndarray of shape (n,)
        Finite numbers.

    Returns
    -------
    RegressionLevels

    Examples
    --------
    >>> levels = regression_levels([0, 1, 2, 3], [0, 1, 2, 9])
    >>> levels.depth, levels.unbounded, levels.diameters()[2:].round(9).tolist()
    (3, 1, [18.0, 0.0])
    """
    x = clip(np.asarray(x, dtype=float))
    y = clip(np.asarray(y, dtype=float))
    lower, upper, best, deepest = _explore(x, y)
    unbounded = _largest_tie(x, y)
    if best < 0:
        estimate, best = _flat(y)
    else:
        estimate = deepest.mean(axis=0)
    lower = np.minimum.accumulate(lower[best::-1])[::-1]
    upper = np.maximum.accumulate(upper[best::-1])[::-1]
    lower[: unbounded + 1] = -np.inf
    upper[: unbounded + 1] = np.inf
    if not len(deepest):
        lower[:], upper[:] = -np.inf, np.inf
    return RegressionLevels(estimate, int(best), lower, upper, unbounded)


def vertices(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Array]:
    """Return all the lines through two observations, each once, with their regression depths.

    Time ``O(n^2 log n)``, memory O(n) beside the output.

    Parameters
    ----------
    x, y : array_like of shape (n,)
        Covariate and response.

    Returns
    -------
    fits : ndarray of shape (m, 2)
        Intercepts and slopes; lines through more than two observations appear once.
    depths : ndarray of shape (m,), int32
        Their exact depths.

    Examples
    --------
    >>> fits, depths = vertices([0, 1, 2], [0, 1, 4])
    >>> sorted(zip(fits.tolist(), depths.tolist()))
    [([-2.0, 3.0], 2), ([0.0, 1.0], 2), ([0.0, 2.0], 2)]
    """
    x = vector("x", x)
    y = vector("y", y, length=len(x))
    (table,), exponents = decimals(np.column_stack([x, y]))
    P, weights, group = prepare(table[:, 0], table[:, 1])
    pairs = len(P) * (len(P) - 1) // 2
    fits = np.empty((pairs, 2))
    depths = np.empty(pairs, np.int32)
    bounds = np.empty((len(x) + 1, 4))
    found, _, _ = walk(P, weights, group, bounds.copy(), bounds, fits, depths)
    fits, depths = fits[:found], depths[:found]
    unit_x, unit_y = 10.0**exponents
    fits[:, 0] /= unit_y
    fits[:, 1] *= unit_x / unit_y
    return fits, depths
