"""Medsweep: robust regression on any number of covariates by repeated median slopes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpstats._types import Floats
from dpstats._validation import check
from dpstats.depth._reading import matrix, vector

__all__ = ["Medsweep", "medsweep", "lower_median", "slope"]

_CONVERGED = 1e-10


@dataclass(frozen=True, eq=False)
class Medsweep:
    """A Medsweep fit.

    Attributes
    ----------
    fit : ndarray of shape (p + 1,)
        Coefficients, the intercept first.
    sweeps : int
        How often the response was swept.
    converged : bool
        Whether the last sweep changed nothing but rounding.
    """

    fit: np.ndarray
    sweeps: int
    converged: bool


def lower_median(values: Floats) -> float:
    """Return the order statistic of rank ``ceil(n / 2)``; 0 of nothing."""
    if len(values) == 0:
        return 0.0
    k = (len(values) - 1) // 2
    return float(np.partition(values, k)[k])


def slope(u: Floats, w: Floats) -> float:
    """Return ``med_i (w_i - med w) / (u_i - med u)``, lower medians; rows with ``u_i = med u`` have no slope.

    Examples
    --------
    >>> slope(np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, 5.0, 7.0, 90.0]))
    2.0
    """
    run = u - lower_median(u)
    rise = w - lower_median(w)
    moves = run != 0
    return lower_median(rise[moves] / run[moves])


def medsweep(x: ArrayLike, y: ArrayLike, *, max_sweeps: int = 100) -> Medsweep:
    """Medsweep regression (Van Aelst, Rousseeuw, Hubert and Struyf 2002), for any number of covariates.

    Not private. A fast approximation of the deepest regression in several covariates.

    Parameters
    ----------
    x : array_like of shape (n, p) or (n,)
        Covariates, without a constant.
    y : array_like of shape (n,)
        Response, ``n >= 1``.
    max_sweeps : int
        Sweeps of the response after which to stop without convergence.

    Returns
    -------
    Medsweep
        ``fit`` (intercept first), ``sweeps`` and whether it ``converged``.

    Raises
    ------
    dpstats.errors.ParameterError
        If an array is not numeric, not finite or has the wrong shape, there are no rows, or `max_sweeps` is
        not a positive integer.

    Notes
    -----
    Each covariate is swept on the ones before it: its median slope on them is taken out. The response is
    swept on the swept covariates, over and over, until its slopes vanish; the intercept is the median
    residual. All medians are lower medians. A covariate that is constant after sweeping gets slope 0.

    Examples
    --------
    >>> x = [[0, 1], [1, 0], [2, 1], [3, 3], [4, 0], [5, 2]]
    >>> y = [1 + 2 * a - b for a, b in x]
    >>> medsweep(x, y[:-1] + [1000]).fit.round(6).tolist()
    [1.0, 2.0, -1.0]
    """
    X = matrix("x", x, at_least=1)
    y = vector("y", y, length=len(X))
    max_sweeps = check("max_sweeps", max_sweeps, "count")
    return Medsweep(*_fit(X, y, max_sweeps))


def _fit(X: Floats, y: Floats, max_sweeps: int) -> tuple[Floats, int, bool]:
    p = X.shape[1]
    swept = np.empty_like(X)
    to_x = np.eye(p)  # swept = X @ to_x, up to constants
    for j in range(p):
        column = X[:, j] - lower_median(X[:, j])
        for k in range(j):
            s = slope(swept[:, k], column)
            column = column - s * swept[:, k]
            to_x[:, j] -= s * to_x[:, k]
        swept[:, j] = column
    spread = np.median(np.abs(swept - np.median(swept, axis=0)), axis=0)
    r = y
    b = np.zeros(p)
    converged = False
    sweeps = 0
    while not converged and sweeps < max_sweeps:
        sweeps += 1
        change = 0.0
        for j in range(p):
            s = slope(swept[:, j], r)
            r = r - s * swept[:, j]
            b[j] += s
            change = max(change, abs(s) * spread[j])
        size = np.median(np.abs(r - lower_median(r))) + np.abs(b) @ spread
        converged = bool(change <= _CONVERGED * size)
    fit = to_x @ b
    return np.append(lower_median(y - X @ fit), fit), sweeps, converged
