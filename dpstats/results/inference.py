"""Intervals and tests from released values only: pure functions on estimates and their covariance.

Everything here is post-processing. Nothing is scaled by a number of rows; `df=None` stands for the
normal distribution, a number for Student's t with so many degrees of freedom.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpstats._types import Floats
from dpstats._validation import check, fail
from dpstats.results.roots import determined_by

__all__ = ["FixedInterval", "contrasts", "critical_value", "joint_test",
           "standard_errors", "wald_interval", "wald_pvalues", "wald_statistics"]  # fmt: skip


def standard_errors(cov: ArrayLike) -> Floats:
    r"""Square roots of the diagonal of a covariance matrix.

    Parameters
    ----------
    cov : (d, d) array_like
        Covariance of the estimates. Entries may be NaN.

    Returns
    -------
    (d,) ndarray
        NaN where the variance is negative or NaN.

    Examples
    --------
    >>> standard_errors([[4.0, 1.0], [1.0, float("nan")]])
    array([ 2., nan])
    """
    variances = np.diagonal(np.asarray(cov, float))
    return np.sqrt(np.where(variances >= 0, variances, np.nan))


def critical_value(alpha: float, df: float | None = None) -> float:
    """The two-sided critical value of the normal or Student's t distribution.

    Parameters
    ----------
    alpha : float in (0, 1)
        One minus the confidence.
    df : float, optional
        Degrees of freedom; None (or infinity) is the normal distribution.

    Returns
    -------
    float

    Raises
    ------
    ParameterError
        If `alpha` or `df` is out of range.

    Examples
    --------
    >>> round(critical_value(0.05), 3), round(critical_value(0.05, df=5), 3)
    (1.96, 2.571)
    """
    tail = check("alpha", alpha) / 2
    df = _degrees(df)
    return float(-special.ndtri(tail) if df is None else -special.stdtrit(df, tail))


def wald_interval(
    estimates: ArrayLike, se: ArrayLike, alpha: float = 0.05, df: float | None = None
) -> Floats:
    r"""Wald intervals :math:`\hat\theta_j \pm q_{1-\alpha/2}\,\mathrm{se}_j`.

    Parameters
    ----------
    estimates, se : (d,) array_like
        Estimates and their standard errors, in the same units.
    alpha, df
        As of :func:`critical_value`.

    Returns
    -------
    (d, 2) ndarray
        Lower and upper ends; NaN where the standard error is.

    Examples
    --------
    >>> wald_interval([10.0], [2.0]).round(2)
    array([[ 6.08, 13.92]])
    """
    estimates, se = np.asarray(estimates, float), np.asarray(se, float)
    with np.errstate(over="ignore", invalid="ignore"):
        half = critical_value(alpha, df) * se
        return np.stack([estimates - half, estimates + half], axis=-1)


def wald_statistics(estimates: ArrayLike, se: ArrayLike) -> Floats:
    r"""Ratios :math:`\hat\theta_j / \mathrm{se}_j`.

    Returns
    -------
    (d,) ndarray
        Infinite for a standard error of 0 (NaN if the estimate is 0 as well), NaN where either is NaN.

    Examples
    --------
    >>> wald_statistics([1.0, -2.0, 0.0], [0.5, 0.0, 0.0])
    array([  2., -inf,  nan])
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(estimates, float) / np.asarray(se, float)


def wald_pvalues(statistics: ArrayLike, df: float | None = None) -> Floats:
    r"""Two-sided p-values :math:`2\,F(-|t_j|)`, accurate far out in the tail.

    Parameters
    ----------
    statistics : (d,) array_like
    df : float, optional
        Degrees of freedom of Student's t; None is the normal distribution.

    Returns
    -------
    (d,) ndarray
        NaN where the statistic is; 0 where it is infinite or the value is below 5e-324.

    Examples
    --------
    >>> wald_pvalues([0.0, 1.959964, 30.0])
    array([1.00000000e+000, 4.99999982e-002, 9.81342785e-198])
    """
    tail = -np.abs(np.asarray(statistics, float))
    df = _degrees(df)
    return 2 * (special.ndtr(tail) if df is None else special.stdtr(df, tail))


def contrasts(
    estimates: ArrayLike,
    cov: ArrayLike,
    R: ArrayLike,
    root: Floats | None = None,
    free: Floats | None = None,
) -> tuple[Floats, Floats]:
    r"""Linear combinations :math:`R\hat\theta` and their standard errors.

    Parameters
    ----------
    estimates : (d,) array_like
    cov : (d, d) array_like
    R : (q, d) array_like
    root : (d, k) array, optional
        A factor of `cov`, which has digits that `cov` rounds away.
    free : (d, m) array, optional
        How coefficients may move without a fitted value that changes.

    Returns
    -------
    effect, se : (q,) ndarray
        A NaN in `estimates` or `cov` reaches only the rows of `R` that use it. With `free` a standard error
        is NaN where the combination moves, whatever `cov` says of the coefficients.

    Examples
    --------
    >>> contrasts([3.0, float("nan")], [[4.0, float("nan")], [float("nan"), 1.0]], [[1, 0], [1, -1]])
    (array([ 3., nan]), array([ 2., nan]))
    """
    estimates, cov = np.asarray(estimates, float), np.asarray(cov, float)
    effect, variance = [], []
    with np.errstate(over="ignore", invalid="ignore"):
        for row in np.asarray(R, float):
            used = row != 0
            effect.append(row[used] @ estimates[used])
            if root is None:
                variance.append(row[used] @ cov[np.ix_(used, used)] @ row[used])
            else:
                variance.append(np.sum((row[used] @ root[used]) ** 2))
    if root is not None and free is not None:
        variance = list(np.where(determined_by(np.asarray(R, float), root, free), variance, np.nan))
    return np.array(effect), standard_errors(np.diag(variance))


def joint_test(
    estimates: ArrayLike,
    cov: ArrayLike,
    constraints: ArrayLike | None = None,
    values: ArrayLike = 0.0,
    df: float | None = None,
    root: Floats | None = None,
    free: Floats | None = None,
) -> tuple[float, int, float]:
    r"""Wald test of :math:`R\theta = r`.

    .. math:: W = (R\hat\theta - r)^\top (R C R^\top)^{+} (R\hat\theta - r),

    which is :math:`\chi^2_q` with `q` the rank of :math:`R C R^\top`, or, with `df` degrees of freedom,
    :math:`W/q \sim F_{q,\,df}`. The rank and the pseudo-inverse are taken in units of the standard
    errors, so that they do not depend on how the columns are scaled.

    Parameters
    ----------
    estimates : (d,) array_like
    cov : (d, d) array_like
        Covariance `C` of the estimates.
    constraints : (q, d) array_like, optional
        The matrix `R`; by default the identity, hence a test of all estimates.
    values : (q,) array_like or float
        The values `r`.
    df : float, optional
    root : (d, k) array, optional
        A factor `F` of :math:`C = F F^\top`, which has digits that `C` rounds away.
    free : (d, m) array, optional
        How coefficients may move without a fitted value that changes.

    Returns
    -------
    statistic : float
        `W` if `df` is None, else `W/q`.
    q : int
        Numerator degrees of freedom.
    pvalue : float

    Notes
    -----
    Statistic and p-value are NaN if a number that the hypothesis uses is not finite, if `q` is 0, if
    :math:`R C R^\top` has a negative eigenvalue beyond rounding, or if one of the combinations that are
    tested moves with `free`.

    Examples
    --------
    >>> statistic, q, p = joint_test([3.0, 4.0], [[1.0, 0.0], [0.0, 1.0]])
    >>> round(statistic, 6), q, round(p, 8)
    (25.0, 2, 3.73e-06)
    """
    estimates, cov = np.asarray(estimates, float), np.asarray(cov, float)
    R = np.eye(estimates.size) if constraints is None else np.atleast_2d(np.asarray(constraints, float))
    used = np.any(R != 0, axis=0)  # a NaN variance of an estimate that is not tested must not spread
    R = R[:, used]
    with np.errstate(over="ignore", invalid="ignore"):
        effect = R @ estimates[used] - values
        middle = R @ cov[np.ix_(used, used)] @ R.T if root is None else R @ root[used]
    if not (np.all(np.isfinite(middle)) and np.all(np.isfinite(effect))):
        return math.nan, len(effect), math.nan
    if root is not None and free is not None and not determined_by(R, root[used], free[used]).all():
        return math.nan, len(effect), math.nan
    unit = np.sqrt(np.diagonal(middle).clip(0)) if root is None else np.linalg.norm(middle, axis=1)
    unit[unit == 0] = 1
    with np.errstate(over="ignore", invalid="ignore"):
        if root is None:
            eigenvalues, vectors = np.linalg.eigh(middle / unit[:, None] / unit)
            lengths = np.sign(eigenvalues) * np.sqrt(np.abs(eigenvalues))
            rounding = math.sqrt(len(effect) * 1e-12 * np.abs(eigenvalues).max(initial=0))
        else:
            vectors, lengths, _ = np.linalg.svd(middle / unit[:, None], full_matrices=False)
            rounding = len(effect) * 1e-14 * lengths.max(initial=0)
        kept = lengths > rounding
        q = int(kept.sum())
        if q == 0 or lengths.min() < -rounding:
            return math.nan, q, math.nan
        W = float(np.sum((vectors[:, kept].T @ (effect / unit) / lengths[kept]) ** 2))
    df = _degrees(df)
    if df is None:
        return W, q, float(special.chdtrc(q, W))
    return W / q, q, float(special.fdtrc(q, df, W / q))


@dataclass(frozen=True, slots=True)
class FixedInterval:
    """Intervals that were released for one confidence only and cannot be restated at another.

    Parameters
    ----------
    lower, upper : tuple of float
        Ends, one pair for each estimate.
    alpha : float in (0, 1)
        One minus their confidence.

    Examples
    --------
    >>> FixedInterval((1.0,), (2.0,), alpha=0.1).conf_int(0.1)
    array([[1., 2.]])
    >>> FixedInterval((1.0,), (2.0,), alpha=0.1).conf_int(0.05)
    Traceback (most recent call last):
    ...
    dpstats.errors.ParameterError: alpha must be 0.1, that of the released intervals, got 0.05.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", check("alpha", self.alpha))
        for name in ("lower", "upper"):
            object.__setattr__(self, name, tuple(float(x) for x in getattr(self, name)))

    def conf_int(self, alpha: float) -> Floats:
        """The ends.

        Parameters
        ----------
        alpha : float in (0, 1)
            That of the intervals, which are those of one confidence.

        Returns
        -------
        (d, 2) ndarray

        Raises
        ------
        ParameterError
            If `alpha` is another than theirs.

        Examples
        --------
        >>> FixedInterval((1.0, 5.0), (2.0, 8.0), alpha=0.1).conf_int(0.1)
        array([[1., 2.],
               [5., 8.]])
        """
        if not math.isclose(check("alpha", alpha), self.alpha, rel_tol=1e-9):
            fail("alpha", alpha, f"{self.alpha:g}, that of the released intervals")
        return np.column_stack([self.lower, self.upper])

    def to_dict(self) -> dict[str, Any]:
        """The ends, which are those of one confidence.

        Returns
        -------
        dict

        Examples
        --------
        >>> FixedInterval((1.0,), (2.0,), alpha=0.1).to_dict()
        {'kind': 'fixed', 'lower': [1.0], 'upper': [2.0]}
        """
        return {"kind": "fixed", "lower": list(self.lower), "upper": list(self.upper)}


def _degrees(df: float | None) -> float | None:
    if df is None or df == math.inf:
        return None
    return check("df", df, "positive")
