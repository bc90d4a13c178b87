"""Results of generalised linear models: odds and rate ratios, marginal effects."""

import functools
import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpstats._boundary import guarded
from dpstats._format import format_p, format_statistic
from dpstats._text import Summary, Table
from dpstats._types import Floats
from dpstats._validation import check, fail, one_of
from dpstats.errors import NotReleased, ParameterError
from dpstats.results import inference
from dpstats.results.habits import fixed
from dpstats.results.prediction import Prediction, mean, predicted
from dpstats.results.results import Results
from dpstats.results.saved import encoded
from dpstats.results.table import numbers, report

__all__ = ["GLMResults", "Slopes"]


@dataclass(frozen=True, slots=True)
class Slopes:
    """How the mean of the response answers to the linear predictor, on average over the rows.

    Parameters
    ----------
    mean : float
        Mean derivative of the mean by the linear predictor.
    gradient : (d,) array
        Its derivative by the coefficients.
    noise : float
        Standard deviation of the privacy noise of `mean`.
    """

    mean: float
    gradient: Floats
    noise: float


@fixed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GLMResults(Results):
    """Released estimates of a generalised linear model; see :class:`~dpstats.results.results.Results`.

    Parameters
    ----------
    link : {"logit", "log"}
        Of the mean of the response to the linear predictor.
    slopes : Slopes, optional
        For :meth:`marginal_effects`.
    offset : str, optional
        What was added to the linear predictor, as an expression of the formula's grammar.

    Examples
    --------
    >>> import dpstats
    >>> fit = dpstats.datasets.load_fit("logit")
    >>> fit.params.round(2).to_dict(), round(fit.prsquared, 3)
    ({'Intercept': 0.19, 'carat': -0.77}, 0.017)
    """

    link: str = "logit"
    slopes: Slopes | None = None
    offset: str | None = None

    @property
    def event(self) -> str | None:
        """Of a response with two declared levels the second, whose share is modelled."""
        columns = getattr(self.design, "schema", ())
        levels = next((c.levels for c in columns if c.name == self.response), None)
        return str(levels[1]) if self.link == "logit" and levels and len(levels) == 2 else None

    @property
    def deviance(self) -> float:
        """The released deviance, with privacy noise of its own; NaN where that may be much of it."""
        return self._get("deviance")

    @property
    def null_deviance(self) -> float:
        """The deviance of the constant alone: :attr:`deviance` and the difference, which was released, too.

        The difference has less noise than either where the columns explain little, counts as 0 where noise
        has made it negative, and is no test: :meth:`f_test` is. Of counts the constant is at their mean as it
        was read off the first release, a few hundredths off: with means of 20 and more this is too large, and
        :attr:`prsquared` too.
        """
        return self._get("null_deviance")

    @property
    def prsquared(self) -> float:
        """Share of the deviance that the columns explain; for a 0/1 response McFadden's pseudo R-squared.

        Released with noise, and at least 0; NaN where the noise may be a tenth and more.
        """
        null = self._get("null_deviance")
        return 0.0 if null <= 0 else min(max(1 - self._get("deviance") / null, 0.0), 1.0)

    @property
    def dispersion(self) -> float:
        """The released dispersion of counts: 1 for Poisson counts, more for overdispersed ones.

        It compares the variance of the scores with that of Poisson counts: Pearson's where the variance of a
        count is in proportion to its mean, and more where it grows faster. NaN where much of it would be read
        off the tail of few counts, as of rare events. It has no standard error, and at ``eps = 1`` may be a
        fifth off: :meth:`diagnose` has a test.
        """
        return self._get("dispersion")

    @guarded
    def predict(
        self,
        data: Any = None,
        which: str = "mean",
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> pd.Series | Floats:
        """Predictions for new rows.

        Parameters
        ----------
        data : DataFrame or other table
            The columns on the right-hand side of the formula.
        which : {"mean", "linear"}
            The mean of the response, or the linear predictor.
        offset, exposure : float or array, optional
            Added to the linear predictor, `exposure` by its logarithm; by default 0 and 1, with a warning if
            `data` have the column that the fit took them from.

        Returns
        -------
        Series or ndarray
            As :meth:`dpstats.results.results.Results.predict`.

        Raises
        ------
        ParameterError
            If `which` is another word, an exposure is not positive, or there are not as many as rows.
        NotReleased
            If no rows are given: fitted values were not released.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit("logit")
        >>> fit.predict({"carat": [0.3, 1.0]}).round(2)
        array([0.49, 0.36])
        """
        which = one_of("which", which, ("mean", "linear"))
        linear = Results.predict(self, data)
        self._tell_of_offset(data, offset, exposure)
        linear = linear + _shift(offset, exposure, len(linear))
        return linear if which == "linear" else mean(linear, self.link)

    @guarded
    def get_prediction(
        self, data: Any = None, offset: ArrayLike | None = None, exposure: ArrayLike | None = None
    ) -> Prediction:
        """Predicted means of new rows with standard errors and intervals, as in statsmodels.

        Parameters
        ----------
        data, offset, exposure
            As of :meth:`predict`.

        Returns
        -------
        Prediction
            With ``predicted_mean``, ``se_mean``, ``conf_int(alpha)`` and ``summary_frame(alpha)``; NaN where
            a coefficient that is not determined would be needed.

        Raises
        ------
        ParameterError
            If an exposure is not positive, or there are not as many as rows.
        NotReleased
            If no rows are given, or there is no covariance of sampling and privacy noise.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit("logit")
        >>> fit.get_prediction({"carat": [0.3, 1.0]}).summary_frame().round(3)
            mean  mean_se  mean_ci_lower  mean_ci_upper
        0  0.490    0.003          0.483          0.497
        1  0.359    0.002          0.354          0.364
        """
        self._tell_of_offset(data, offset, exposure)
        return predicted(self, data, functools.partial(_shift, offset, exposure), self.link)

    def _tell_of_offset(self, data: Any, offset: ArrayLike | None, exposure: ArrayLike | None) -> None:
        """Warn where new rows have the column of an exposure, which is not read from them."""
        given = offset is not None or exposure is not None
        names = getattr(data, "columns", data if isinstance(data, Mapping) else ())
        # (a function's name is followed by its parenthesis)
        read = re.findall(r"\b\w+\b(?!\s*[(.])", self.offset or "")
        if not given and (found := [name for name in read if name in list(names)]):
            warnings.warn(
                f"predictions are for an exposure of 1 (an offset of 0): the column {found[0]!r} of the new "
                "rows is not read. Give exposure= or offset=, as numbers; exposure=1 says that it is meant.",
                stacklevel=4,
            )

    @guarded
    def marginal_effects(self, alpha: float = 0.05) -> pd.DataFrame:
        r"""Average marginal effects: the mean derivative of the mean response by every column.

        That of column ``j`` is :math:`\hat\beta_j \bar w`, with :math:`\bar w` the released mean derivative
        of the mean by the linear predictor. As in statsmodels' ``get_margeff()`` the derivative stands for
        the difference also where a column is an indicator; a power or a product is a column of its own. With
        an exposure or offset it is that of the counts, where ``get_margeff()`` leaves the exposure out.

        Parameters
        ----------
        alpha : float in (0, 1)

        Returns
        -------
        DataFrame
            Columns ``estimate, std.error, statistic, p.value, conf.low, conf.high``, a row for each column
            but the constant.

        Raises
        ------
        NotReleased
            If what it needs was not released.
        ParameterError
            If `alpha` is out of range.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit("logit")
        >>> fit.marginal_effects()[["estimate", "std.error"]].round(4)
               estimate  std.error
        carat   -0.1753      0.006
        """
        if self.slopes is None or self.cov is None:
            raise NotReleased(
                "This result has no marginal effects: of pooled fits, and of fits without standard errors, "
                "the mean derivative is not known. A single fit has them."
            )
        alpha, slopes = check("alpha", alpha), self.slopes
        known = self._determined()
        cov, beta = np.nan_to_num(self.cov), self.estimates
        # of what is not determined the mean hardly depends: it is in the noise of nothing
        jacobian = slopes.mean * np.eye(len(beta)) + np.outer(beta, slopes.gradient)
        if self.root is None:
            variance = np.diagonal(jacobian @ cov @ jacobian.T)
        else:
            variance = np.sum((jacobian @ np.nan_to_num(self.root)) ** 2, axis=1)
        variance = variance + beta**2 * slopes.noise**2
        effects, se = beta * slopes.mean, np.where(known, np.sqrt(np.maximum(variance, 0.0)), np.nan)
        statistics = inference.wald_statistics(effects, se)
        table = np.column_stack([
            effects, se, statistics, inference.wald_pvalues(statistics),
            inference.wald_interval(effects, se, alpha),
        ])  # fmt: skip
        names = ["estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high"]
        frame = pd.DataFrame(table, index=list(self.names), columns=names)
        return frame.drop(index="Intercept", errors="ignore")

    @guarded
    def tidy(self, alpha: float | None = None, exponentiate: bool = False) -> pd.DataFrame:
        """One row for each coefficient, with broom's column names.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            As in :meth:`conf_int`.
        exponentiate : bool
            Whether estimates and intervals are of ``exp(coef)``: odds ratios of a 0/1 response, rate ratios
            of counts. Standard errors stay those of the coefficients, as in broom.

        Returns
        -------
        DataFrame
            Columns ``term, estimate, std.error, statistic, p.value, conf.low, conf.high``.

        Raises
        ------
        ParameterError
            If `alpha` is out of range, or `exponentiate` is no truth value.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit("logit")
        >>> fit.tidy(exponentiate=True)[["term", "estimate", "conf.low", "conf.high"]].round(2)
                term  estimate  conf.low  conf.high
        0  Intercept      1.21      1.16       1.26
        1      carat      0.46      0.44       0.48
        """
        frame = Results.tidy(self, alpha)
        if check("exponentiate", exponentiate, "flag"):
            columns = ["estimate", "conf.low", "conf.high"]
            with np.errstate(over="ignore"):
                frame[columns] = np.exp(frame[columns])
        return frame

    @guarded
    def summary(self, alpha: float | None = None, exponentiate: bool = False) -> Summary:
        """The table; see :meth:`dpstats.results.results.Results.summary`.

        Parameters
        ----------
        alpha : float in (0, 1), optional
        exponentiate : bool
            Whether the table is of ``exp(coef)``, as of :meth:`tidy`.

        Returns
        -------
        dpstats._text.Summary

        Raises
        ------
        ParameterError
            If `alpha` is out of range, or `exponentiate` is no truth value.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit("logit")
        >>> print(fit.summary(exponentiate=True).as_csv())
        ,exp(coef),std err,z,P>|z|,[0.025,0.975]
        Intercept,1.2091,0.0193,9.86,<0.001,1.1643,1.2556
        carat,0.46360,0.0218,-35.18,<0.001,0.44417,0.48388
        """
        summary = report(self, self._alpha(alpha))
        if not check("exponentiate", exponentiate, "flag"):
            return summary
        rows = []
        known = self._determined()
        for row, sure in zip(self.tidy(alpha, True).itertuples(index=False, name=None), known, strict=True):
            term, estimate, se, statistic, p, low, high = row
            estimate, se, low, high = numbers(sure, estimate, se, low, high, odds=True)
            rows.append((term, estimate, se, format_statistic(statistic), format_p(p), low, high))
        header = ("", "exp(coef)", *summary.coefficients.header[2:])
        words = "exp(coef) with its interval; standard errors and z are of coef."
        return replace(
            summary, coefficients=Table(header, tuple(rows)), paragraphs=(words, *summary.paragraphs)
        )

    def to_dict(self) -> dict[str, Any]:
        """The whole result; see :meth:`dpstats.results.results.Results.to_dict`.

        Returns
        -------
        dict
            With ``link``, ``slopes`` and ``offset`` beside its entries.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit("logit")
        >>> fit.to_dict()["link"]
        'logit'
        """
        slopes = self.slopes
        average = None if slopes is None else {
            "mean": slopes.mean, "gradient": slopes.gradient.tolist(), "noise": slopes.noise,
        }  # fmt: skip
        facts = {"link": self.link, "slopes": encoded(average), "offset": self.offset}
        return Results.to_dict(self) | facts

    def glance(self) -> pd.DataFrame:
        """One row for the fit; see :meth:`dpstats.results.results.Results.glance`.

        Returns
        -------
        DataFrame
            With ``null.deviance`` and ``deviance`` beside its columns.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit("logit")
        >>> fit.glance()[["nobs", "null.deviance", "deviance"]].round()
              nobs  null.deviance  deviance
        0  53981.0        72671.0   71442.0
        """
        frame = Results.glance(self)
        frame["null.deviance"] = self.released.get("null_deviance", math.nan)
        frame["deviance"] = self.released.get("deviance", math.nan)
        return frame


def _shift(offset: ArrayLike | None, exposure: ArrayLike | None, rows: int) -> Any:
    """What an offset and an exposure add to the linear predictors of so many rows."""
    shift: Any = 0.0
    for name, given in (("offset", offset), ("exposure", exposure)):
        if given is None:
            continue
        if isinstance(given, str):
            fail(name, given, "numbers, as data['pop']: a name is not looked up")
        try:
            values = np.asarray(given, float)
        except (TypeError, ValueError):
            fail(name, given, "numbers")
        if values.shape not in ((), (rows,)):
            raise ParameterError(
                f"{name} must be one number, or a list of one for each of the {rows} rows, got an array of "
                f"the shape {values.shape}."
            )
        if name == "exposure":
            if np.any(values <= 0):
                raise ParameterError("exposure must be positive: the model has its logarithm.")
            values = np.log(values)
        shift = shift + values
    return shift
