"""Predicted means of new rows with standard errors and intervals, from released values only."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpstats._boundary import guarded
from dpstats._types import Array, Floats
from dpstats._validation import check
from dpstats.errors import NotReleased
from dpstats.results import inference
from dpstats.results.parts import Predictor
from dpstats.results.roots import determined_by
from dpstats.results.table import SAMPLING_AND_PRIVACY

if TYPE_CHECKING:
    from dpstats.results.results import Results

__all__ = ["Prediction", "Predictions", "linear_predictors", "mean", "need_rows", "predicted"]

_ROUNDING = 1e-13
"""Share of its terms below which a variance may be their rounding."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted means of rows, with intervals that do not leave the range of a mean.

    Parameters
    ----------
    linear, linear_se : (n,) arrays
        Linear predictors and their standard errors.
    link : {"identity", "logit", "log"}
    index : pandas.Index or None
        Of the rows.
    sigma : float or None
        Released residual standard deviation of a linear fit, for :attr:`se_obs`.
    df : float or None
        Degrees of freedom of Student's t; None is the normal distribution.

    Examples
    --------
    >>> frame = Prediction(np.array([10.0]), np.array([3.0]), "identity", sigma=4.0).summary_frame()
    >>> frame.round(1).iloc[0].tolist()
    [10.0, 3.0, 4.1, 15.9, 0.2, 19.8]
    """

    linear: Floats
    linear_se: Floats
    link: str
    index: Any = None
    sigma: float | None = None
    df: float | None = None

    @property
    def predicted_mean(self) -> Array:
        """Predicted means, (n,)."""
        return mean(self.linear, self.link)

    @property
    def se_mean(self) -> Array:
        """Standard errors of the means by the delta method, (n,)."""
        values = self.predicted_mean
        slope = {"logit": values * (1 - values), "log": values}.get(self.link, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.linear_se * slope)

    @property
    def se_obs(self) -> Array:
        r"""Standard errors of single responses, (n,): :math:`\sqrt{\sigma^2 + \mathrm{se}^2}`.

        Raises
        ------
        NotReleased
            If the fit is not linear, or its sigma was not released.
        """
        if self.sigma is None:
            raise NotReleased("Prediction intervals need a linear fit with a released sigma.")
        return np.hypot(self.sigma, self.linear_se)

    @guarded
    def conf_int(self, alpha: float = 0.05, obs: bool = False) -> Array:
        """Ends of the intervals of the means: those of the linear predictor, mapped.

        Parameters
        ----------
        alpha : float in (0, 1)
            One minus the confidence.
        obs : bool
            Whether the intervals are those of single responses, which suppose normal errors of one variance.

        Returns
        -------
        (n, 2) ndarray

        Raises
        ------
        ParameterError
            If `alpha` is out of range, or `obs` is no truth value.
        NotReleased
            If intervals of single responses are asked for and the fit has no released sigma.

        Examples
        --------
        >>> Prediction(np.array([10.0]), np.array([3.0]), "identity", sigma=4.0).conf_int(obs=True).round(1)
        array([[ 0.2, 19.8]])
        """
        se = self.se_obs if check("obs", obs, "flag") else self.linear_se
        return mean(inference.wald_interval(self.linear, se, check("alpha", alpha), self.df), self.link)

    @guarded
    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """A table with statsmodels' column names, a row for each row.

        Parameters
        ----------
        alpha : float in (0, 1)
            One minus the confidence.

        Returns
        -------
        DataFrame
            Columns ``mean, mean_se, mean_ci_lower, mean_ci_upper``, and for a linear fit with a released
            sigma ``obs_ci_lower, obs_ci_upper``: intervals of single responses. These suppose normal errors
            of constant variance, which no number of rows makes up for.

        Raises
        ------
        ParameterError
            If `alpha` is out of range.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> fit.get_prediction({"carat": [0.5, 1.0], "cut": ["Ideal", "Fair"]}).summary_frame().round()
             mean  mean_se  mean_ci_lower  mean_ci_upper  obs_ci_lower  obs_ci_upper
        0  1845.0     21.0         1804.0         1886.0       -1009.0        4699.0
        1  4079.0     77.0         3927.0         4230.0        1221.0        6936.0
        """
        parts = [self.predicted_mean, self.se_mean, self.conf_int(alpha)]
        names = ["mean", "mean_se", "mean_ci_lower", "mean_ci_upper"]
        if self.sigma is not None:
            parts.append(self.conf_int(alpha, obs=True))
            names += ["obs_ci_lower", "obs_ci_upper"]
        return pd.DataFrame(np.column_stack(parts), index=self.index, columns=names)


class Predictions:
    """Predictions from a result: what :class:`~dpstats.results.results.Results` inherits, over its fields."""

    __slots__ = ()
    names: tuple[str, ...]
    response: str | None
    estimates: Floats
    design: Predictor | None

    @guarded
    def predict(self, data: Any = None) -> pd.Series | Floats:
        """Predictions for new rows.

        Parameters
        ----------
        data : DataFrame or other table
            The columns on the right-hand side of the formula. There is no default: a result keeps no rows.

        Returns
        -------
        Series or ndarray
            One number a row, with the index of `data` where it has one; NaN for a row with a missing or
            undeclared value.

        Raises
        ------
        NotReleased
            If the result has no regression function, or no rows are given.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> fit.predict({"carat": [0.5, 1.0], "cut": ["Ideal", "Fair"]}).round()
        array([1845., 4079.])
        """
        if self.design is None:
            raise NotReleased("This result has no regression function to predict from.")
        need_rows(data)
        matrix = np.asarray(self.design.matrix(data), float)
        values = linear_predictors(matrix, self.estimates)
        if isinstance(data, pd.DataFrame):
            return pd.Series(values, index=data.index, name=self.response)
        return values

    @guarded
    def get_prediction(self, data: Any = None) -> Prediction:
        """Predicted means of new rows with standard errors and intervals, as in statsmodels.

        Parameters
        ----------
        data : DataFrame or other table
            The columns on the right-hand side of the formula.

        Returns
        -------
        Prediction
            With ``predicted_mean``, ``se_mean``, ``conf_int(alpha)`` and ``summary_frame(alpha)``, which has
            intervals of single responses too where sigma was released; these suppose normal errors of
            constant variance. Standard errors and intervals are NaN where a coefficient that is not
            determined would be needed, and for a row with a column beyond :attr:`limits` or declared bounds:
            its predicted mean is that at the limit.

        Raises
        ------
        NotReleased
            If the result has no regression function, or no covariance of sampling and privacy noise.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> fit.get_prediction({"carat": [1.0], "cut": ["Ideal"]}).conf_int().round()
        array([[5748., 5860.]])
        """
        fit: Any = self
        return predicted(fit, data)

    @property
    def limits(self) -> pd.DataFrame:
        """Where :meth:`predict` winsorises columns: 0 (lower) and 1 (upper), a row for each that it does."""
        limits = getattr(self.design, "limits", None)
        ends = np.full((2, len(self.names)), np.inf) if limits is None else np.array(limits, float)
        frame = pd.DataFrame(ends.T, index=list(self.names), columns=[0, 1])
        return frame[np.isfinite(ends).any(axis=0)]


def predicted(
    results: "Results", data: Any, shift: Callable[[int], Any] = lambda rows: 0.0, link: str = "identity"
) -> Prediction:
    """The :class:`Prediction` of a result at new rows.

    Parameters
    ----------
    results : dpstats.results.results.Results
    data : tabular
        The columns on the right-hand side of the formula.
    shift : callable
        What is added to the linear predictors of so many rows: a number or an array.
    link : {"identity", "logit", "log"}

    Returns
    -------
    Prediction

    Raises
    ------
    NotReleased
        If there is no regression function, or no covariance of sampling and privacy noise.
    """
    if results.design is None or results.cov is None or results.covers != SAMPLING_AND_PRIVACY:
        raise NotReleased(
            "This result has no regression function with standard errors to predict from: they must cover "
            f"{SAMPLING_AND_PRIVACY}."
        )
    need_rows(data)
    design: Any = results.design
    limits = getattr(design, "limits", None)
    # the mean at a declared bound is not that of a row beyond it
    matrix, lost = (design if limits is None else replace(design, limits=None)).new_rows(data)
    if limits is not None:
        limited = np.clip(matrix, *limits)
        # the mean at the limit is not that of a row beyond it
        lost |= (limited != matrix).any(axis=1)
        matrix = limited
    if results.root is None or results.free is None:
        lost |= (matrix != 0)[:, ~results.determined.to_numpy()].any(axis=1)
    else:
        lost |= ~determined_by(matrix, results.root, results.free)
    with np.errstate(over="ignore", invalid="ignore"):
        linear = linear_predictors(matrix, results.estimates) + shift(len(matrix))
        se = np.where(lost, np.nan, _errors(matrix, results.cov, results.root))
    index = data.index if isinstance(data, pd.DataFrame) else None
    sigma = results.released.get("sigma") if link == "identity" else None
    return Prediction(linear, se, link, index, sigma, results.df)


def _errors(matrix: Floats, cov: Floats, root: Floats | None) -> Floats:
    """Standard errors of linear predictors; NaN where a covariance without a factor cannot hold them."""
    if root is not None:
        return np.asarray(np.linalg.norm(matrix @ np.nan_to_num(root), axis=1))
    cov, sizes = np.nan_to_num(cov), np.abs(matrix)
    variance = np.sum((matrix @ cov) * matrix, axis=1)
    rounding = _ROUNDING * np.sum((sizes @ np.abs(cov)) * sizes, axis=1)
    return np.sqrt(np.where(variance < rounding, np.nan, variance))


def linear_predictors(matrix: Floats, estimates: Floats) -> Floats:
    """Of rows, (n,): NaN where an estimate that is NaN would be needed.

    Examples
    --------
    >>> linear_predictors(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([2.0, np.nan])).tolist()
    [2.0, nan]
    """
    unknown = np.isnan(estimates)
    with np.errstate(over="ignore", invalid="ignore"):
        values: Floats = matrix[:, ~unknown] @ estimates[~unknown]
    values[(matrix[:, unknown] != 0).any(axis=1)] = np.nan
    return values


def need_rows(data: Any) -> None:
    """Refuse predictions of the rows of the fit, which statsmodels means where no data are given."""
    if data is None:
        raise NotReleased(
            "Fitted values of the private rows were not released: predict(data) takes new rows, public or "
            "made up."
        )


def mean(linear: Any, link: str) -> Any:
    """Means of linear predictors.

    Examples
    --------
    >>> mean(0.0, "logit"), mean(0.0, "identity")
    (np.float64(0.5), 0.0)
    """
    if link == "identity":
        return linear
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-linear)) if link == "logit" else np.exp(linear)
