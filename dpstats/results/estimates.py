"""Estimates, standard errors, intervals and p-values: what a result computes from its released numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpstats._boundary import guarded
from dpstats._types import Booleans, Floats
from dpstats._validation import check, fail, unknown_in
from dpstats.results import inference
from dpstats.results.parts import Interval
from dpstats.results.roots import determined_by
from dpstats.results.table import SAMPLING_AND_PRIVACY

__all__ = ["TIDY", "Estimates", "with_limits"]

TIDY = ("estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high")
"""What broom calls the numbers of a coefficient."""
Limits = Sequence[tuple[str, float, float]]


def with_limits(
    frame: pd.DataFrame, names: Sequence[Sequence[str]], limited: Sequence[Limits], always: bool = False
) -> pd.DataFrame:
    """A tidy table with two more columns if some of its estimates are about limited values, or `always`: the
    ends.

    `names` and `limited` are those of each result whose rows it has, one after another.

    Examples
    --------
    >>> with_limits(pd.DataFrame({"term": ["x", "y"]}), [["x", "y"]], [(("y", 0.0, 9.0),)])
      term  limited.low  limited.high
    0    x          NaN           NaN
    1    y          0.0           9.0
    """
    if always or any(limited):
        ends = [{name: end for name, *end in of_one} for of_one in limited]
        rows = [
            found.get(name, (np.nan, np.nan))
            for each, found in zip(names, ends, strict=True)
            for name in each
        ]
        frame[["limited.low", "limited.high"]] = np.array(rows, float)
    return frame


class Estimates:
    """The numbers of a result: what :class:`~dpstats.results.results.Results` inherits, over its fields."""

    __slots__ = ()
    names: tuple[str, ...]
    estimates: Floats
    cov: Floats | None
    root: Floats | None
    free: Floats | None
    covers: str
    interval: Interval | None
    df: float | None

    @property
    def params(self) -> pd.Series:
        """Estimates, a Series over the names; 0, as predictions have it, of a column that left the model."""
        return self._series(self.estimates, "coef")

    @property
    def bse(self) -> pd.Series:
        """Standard errors, a Series over the names; NaN where there is none."""
        return self._series(self._se(), "std err")

    @property
    def determined(self) -> pd.Series:
        """Whether the release tells how far an estimate may be off, a Series of bool over the names.

        False where others have a standard error or an interval and this one has none, or the whole line:
        noise, or no variation in the column, hides it. More rows, a larger `eps` or fewer columns would
        determine it. All are True for a result that has no intervals at all.
        """
        return pd.Series(self._determined(), index=list(self.names), name="determined")

    @property
    def tvalues(self) -> pd.Series:
        """Estimates over standard errors; NaN where the standard error lacks the sampling variation."""
        return self._series(self._statistics(), "t" if self.df else "z")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of the hypotheses that a coefficient is 0, from :attr:`tvalues`."""
        name = "P>|t|" if self.df else "P>|z|"
        return self._series(inference.wald_pvalues(self._statistics(), self.df), name)

    @property
    def alpha(self) -> float:
        """One minus the default confidence of the intervals: 0.05, or what they were released for."""
        return getattr(self.interval, "alpha", 0.05)

    @guarded
    def conf_int(self, alpha: float | None = None, cols: Any = None) -> pd.DataFrame:
        """Intervals of confidence ``1 - alpha``.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            By default :attr:`alpha`, which is 0.05 unless the intervals were released for another.
        cols : list of str or int, optional
            Some of the coefficients, by name or position.

        Returns
        -------
        DataFrame
            Columns 0 (lower) and 1 (upper), a row for each name; NaN where there is no interval
            (see :attr:`determined`).

        Raises
        ------
        ParameterError
            If `alpha` is out of range, or is not the one for which the intervals were released, or `cols`
            are not among the coefficients.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> fit.conf_int(0.1, cols=["carat"]).round()
                    0       1
        carat  7853.0  7982.0
        """
        ends = pd.DataFrame(self._interval(self._alpha(alpha)), index=list(self.names), columns=[0, 1])
        return ends if cols is None else ends.iloc[_places(self.names, cols, "cols")]

    @guarded
    def cov_params(self, r_matrix: Any = None, column: Any = None) -> pd.DataFrame:
        """Covariance of the estimates, a DataFrame over the names; NaN if there is none.

        Parameters
        ----------
        r_matrix : (q, d) array, optional
            Of linear combinations, whose covariance is wanted instead.
        column : list of str or int, optional
            Some of the coefficients, by name or position.

        Returns
        -------
        DataFrame
            With the names of the coefficients, or without names for `r_matrix`.

        Raises
        ------
        ParameterError
            If `r_matrix` has another shape, or `column` is not among the coefficients.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> fit.cov_params(column=["Intercept", "carat"]).round()
                   Intercept   carat
        Intercept     7256.0 -1396.0
        carat        -1396.0  1535.0
        """
        d, names = len(self.names), list(self.names)
        cov = np.full((d, d), np.nan) if self.cov is None else np.array(self.cov)
        if r_matrix is not None:
            try:
                R = np.atleast_2d(np.asarray(r_matrix, float))
            except (TypeError, ValueError):
                fail("r_matrix", r_matrix, f"an array of shape (q, {d})")
            if R.ndim != 2 or R.shape[1] != d:
                fail("r_matrix", r_matrix, f"an array of shape (q, {d})")
            used = (R != 0).any(axis=0)  # a NaN variance of an estimate that is not asked for must not spread
            R, cov = R[:, used], cov[np.ix_(used, used)]
            if self.root is None:
                return pd.DataFrame(R @ cov @ R.T)
            lengths = R @ self.root[used]
            if self.free is not None:
                lengths[~determined_by(R, self.root[used], self.free[used])] = np.nan
            return pd.DataFrame(lengths @ lengths.T)
        frame = pd.DataFrame(cov, index=names, columns=names)
        places = range(d) if column is None else _places(self.names, column, "column")
        return frame.iloc[list(places), list(places)]

    @guarded
    def tidy(self, alpha: float | None = None) -> pd.DataFrame:
        """One row for each coefficient, with broom's column names.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            As in :meth:`conf_int`.

        Returns
        -------
        DataFrame
            Columns ``term, estimate, std.error, statistic, p.value, conf.low, conf.high``; and ``limited.low,
            limited.high`` where an estimate is about values limited to an interval.

        Raises
        ------
        ParameterError
            As of :meth:`conf_int`.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> fit.tidy()[["term", "estimate", "std.error"]].tail(2).round(1)
                   term  estimate  std.error
        4  cut[T.Ideal]    1725.2       82.6
        5         carat    7917.2       39.2
        """
        frame = pd.DataFrame(self.table(alpha), columns=list(TIDY))
        frame.insert(0, "term", list(self.names))
        return with_limits(frame, [self.names], [getattr(self, "limited", ())])

    def table(self, alpha: float | None = None) -> Floats:
        """The columns of :meth:`tidy` but the first, as an array of numbers.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            As in :meth:`conf_int`.

        Returns
        -------
        (d, 6) ndarray

        Raises
        ------
        ParameterError
            As of :meth:`conf_int`.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> fit.table()[-1, :3].round(1)
        array([7917.2,   39.2,  202.1])
        """
        statistics, ends = self._statistics(), self._interval(self._alpha(alpha))
        p = inference.wald_pvalues(statistics, self.df)
        # of a column that left the model there is no estimate
        left = self._has_intervals & (self.estimates == 0) & np.isnan(ends).any(axis=1)
        return np.column_stack([np.where(left, np.nan, self.estimates), self._se(), statistics, p, ends])

    @property
    def _has_intervals(self) -> bool:
        return self.cov is not None or self.interval is not None

    def _series(self, values: Floats, name: str) -> pd.Series:
        return pd.Series(np.array(values), index=list(self.names), name=name)

    def _se(self) -> Floats:
        if self.cov is None:
            return np.full(len(self.names), np.nan)
        return inference.standard_errors(self.cov)

    @guarded
    def plot(
        self,
        ax: Any = None,
        *,
        terms: str | Sequence[str] | None = None,
        intercept: bool = False,
        alpha: float | None = None,
        standardize: bool = False,
        exponentiate: bool = False,
    ) -> Any:
        """Coefficients with their intervals, one below the other.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.
        terms : str or sequence of str, optional
            Coefficients or terms to show; all by default.
        intercept : bool
            Whether to show the intercept too, if `terms` does not say.
        alpha : float in (0, 1), optional
            As in :meth:`conf_int`.
        standardize : bool
            Whether to divide estimates and intervals by the standard errors.
        exponentiate : bool
            Of `logit` and `poisson`: whether the axis tells ``exp(coef)``, odds and rate ratios.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ParameterError
            If `terms` names something else or nothing is left to show, `standardize` is asked of a result
            without standard errors, `exponentiate` of a linear one or with `standardize`, or as of
            :meth:`conf_int`.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> [label.get_text() for label in fit.plot(terms="cut").get_yticklabels()]
        ['cut[T.Good]', 'cut[T.Very Good]', 'cut[T.Premium]', 'cut[T.Ideal]']
        """
        from dpstats.results.plots import coefficients

        fit: Any = self
        if check("exponentiate", exponentiate, "flag") and (standardize or not hasattr(fit, "link")):
            fail("exponentiate", True, "False of linear fits and with standardize=True")
        shown: dict[str, Any] = {"terms": terms, "alpha": alpha}
        shown |= {"intercept": intercept, "standardize": standardize}
        return coefficients(fit, ax, **shown, exponentiate=exponentiate)

    def _determined(self) -> Booleans:
        if not self._has_intervals:
            return np.full(len(self.names), True)
        lower, upper = self._interval(self.alpha).T
        return ~(np.isnan(lower) | np.isnan(upper) | (np.isinf(lower) & np.isinf(upper)))

    def _statistics(self) -> Floats:
        if self.covers != SAMPLING_AND_PRIVACY:
            return np.full(len(self.names), np.nan)
        return inference.wald_statistics(self.estimates, self._se())

    def _alpha(self, alpha: float | None) -> float:
        return check("alpha", self.alpha if alpha is None else alpha)

    def _interval(self, alpha: float) -> Floats:
        if self.interval is not None:
            return np.array(self.interval.conf_int(alpha), float)
        return inference.wald_interval(self.estimates, self._se(), alpha, self.df)


def _places(names: Sequence[str], wanted: Any, parameter: str) -> list[int]:
    """Positions of some coefficients, by name or by number."""
    several = [wanted] if isinstance(wanted, str | int) else wanted
    known = {name: i for i, name in enumerate(names)}
    if isinstance(several, list | tuple) and several:
        found = [known.get(w) if isinstance(w, str) else w for w in several]
        if all(type(i) is int and -len(names) <= i < len(names) for i in found):
            return [int(i) for i in found if i is not None]
    texts = [w for w in several if isinstance(w, str)] if isinstance(several, list | tuple) else []
    allowed = f"names or positions of coefficients, among {list(names)}"
    fail(parameter, wanted, allowed + unknown_in(texts, names))
