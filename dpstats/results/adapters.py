"""What other packages read our results by: tables of stargazer, effects of marginaleffects."""

import math
from typing import Any

import numpy as np
import pandas as pd

from dpstats._boundary import guarded
from dpstats._validation import fail
from dpstats.errors import NotReleased
from dpstats.results.prediction import mean
from dpstats.results.results import Results
from dpstats.results.roots import held, triangular
from dpstats.results.table import SAMPLING_AND_PRIVACY

__all__ = ["marginaleffects", "stargazer"]


def stargazer() -> None:
    """Let ``stargazer.stargazer.Stargazer`` take results of this package, from now on.

    Its stars and notes know nothing of a guarantee: say it beside the table.

    Raises
    ------
    ImportError
        If the package stargazer is not installed.
    """
    from stargazer.translators import register_class

    register_class(Results, _facts)


def _facts(fit: Results) -> dict[str, Any]:
    """What a table of stargazer shows of a fit; None for what was not released."""

    def released(name: str) -> Any:
        return getattr(fit, name, None)

    ends = fit.conf_int()
    return {
        "p_values": fit.pvalues,
        "cov_values": fit.params,
        "cov_std_err": fit.bse,
        "cov_names": fit.params.index.values,
        "conf_int_low_values": ends[0],
        "conf_int_high_values": ends[1],
        "dependent_variable": fit.model.endog_names,
        "r2": released("rsquared"),
        "r2_adj": released("rsquared_adj"),
        "pseudo_r2": released("prsquared"),
        "f_statistic": released("fvalue"),
        "f_p_value": released("f_pvalue"),
        "degree_freedom": fit.df_model,
        "degree_freedom_resid": released("df_resid"),
        "nobs": released("nobs"),
        "resid_std_err": released("sigma"),
    }


@guarded
def marginaleffects(fit: Results, newdata: Any = None) -> Any:
    """A regression as the package marginaleffects takes models, about rows that you give.

    Predictions, comparisons and slopes are then means over `newdata`, whose rows are taken as fixed; the
    standard errors are those of the released covariance. Where :meth:`Results.predict` winsorises columns,
    so do these predictions, and a slope beyond the limits is 0.

    Parameters
    ----------
    fit : Results or GLMResults
        Of a regression whose standard errors cover sampling and privacy noise, without an offset.
    newdata : DataFrame
        The columns on the right-hand side of the formula, in rows that are public or made up. There is no
        default: a result holds no rows over which to average.

    Returns
    -------
    marginaleffects.classes.ModelAbstract
        For ``marginaleffects.avg_slopes``, ``predictions``, ``comparisons``, ``hypotheses`` and the others.

    Raises
    ------
    ImportError
        If the package marginaleffects is not installed.
    NotReleased
        If the fit has no such standard errors, or one that is not determined.
    ParameterError
        If `newdata` is no data frame.
    """
    if not isinstance(fit, Results):
        fail("fit", fit, "a result of a regression")
    if newdata is None:
        fail(
            "newdata", None, "a DataFrame of public or made-up rows (a result holds no rows to average over)"
        )
    if not isinstance(newdata, pd.DataFrame):
        fail("newdata", newdata, "a pandas DataFrame of public or made-up rows")
    if fit.design is None or fit.cov is None or fit.covers != SAMPLING_AND_PRIVACY:
        raise NotReleased(
            f"marginaleffects needs a regression whose standard errors cover {SAMPLING_AND_PRIVACY}."
        )
    if not fit.determined.all():
        raise NotReleased(
            "marginaleffects needs all standard errors, and this fit has coefficients that are not "
            "determined; get_prediction() has those of predictions that can do without them."
        )
    if fit.root is not None and not held(triangular(fit.root)):
        raise NotReleased(
            "marginaleffects needs a covariance matrix, and doubles do not hold that of columns so nearly "
            "dependent: centre columns before powers or products of them are taken; get_prediction() needs "
            "no centring."
        )
    if getattr(fit, "offset", None) is not None:
        raise NotReleased("marginaleffects knows of no offset: use predict(data, offset=).")
    matrix = np.asarray(fit.design.matrix(newdata), float)  # its errors name the column that is missing
    if np.isnan(matrix).any():
        fail("newdata", newdata, "a pandas DataFrame without missing or undeclared values")
    return _model(fit, newdata)


def _model(fit: Results, newdata: pd.DataFrame) -> Any:
    import polars as pl
    from marginaleffects.classes import ModelAbstract, ModelVault

    design: Any = fit.design
    levels = dict(design.layout.column_coded)

    class Model(ModelAbstract):  # type: ignore[misc]
        """What the package asks of a model, over released values."""

        # by which it chooses between Student's t and the normal distribution
        df_resid = math.inf if fit.df is None else fit.df

        def get_vcov(self, vcov: Any = True) -> Any:
            if not isinstance(vcov, bool):
                fail("vcov", vcov, "True or False; a result has one covariance, that of its cov_type")
            return np.array(fit.cov) if vcov else None

        def get_exog(self, newdata: Any) -> Any:
            return np.asarray(design.matrix(newdata), float)

        def get_predict(self, params: Any, newdata: Any) -> Any:
            means = mean(np.asarray(newdata) @ params, getattr(fit, "link", "identity"))
            return pl.DataFrame({"rowid": np.arange(len(means), dtype=np.int32), "estimate": means})

    def column(name: str) -> Any:
        values = newdata[name].tolist()
        texts = list(levels.get(name, sorted({v for v in values if isinstance(v, str)})))
        # the package takes texts as levels in their order alone
        enum = pl.Enum(texts) if texts and all(isinstance(v, str) for v in texts) else None
        return pl.Series(name, values, dtype=enum)

    names = [name for name in newdata.columns if isinstance(name, str)]
    reads = [name for name in names if name in design.layout.column_reads]
    vault = ModelVault(
        coef=np.array(fit.estimates),
        coefnames=np.array(fit.names),
        # for the package's lists of columns alone: the design matrix is that of the fit
        formula="response ~ " + " + ".join(f"`{name}`" for name in reads or ["1"]),
        variable_names=["response", *reads],
        modeldata=pl.DataFrame([column(name) for name in names]),
        package="dpstats",
    )
    try:
        made = Model(fit, vault)
    except pl.exceptions.PolarsError:
        raise ImportError(
            f"this version of marginaleffects does not work with polars {pl.__version__}: "
            "install polars below 2, or a later marginaleffects."
        ) from None
    for name in set(reads) & set(levels):  # also numbers and truth values, where they are levels
        made.set_variable_type(name, "character")
    return made
