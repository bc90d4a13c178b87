"""What statsmodels results have and a private result does not, with the reason."""

from dpstats.errors import DpstatsError

__all__ = ["WITHHELD", "NotReleased", "not_released"]


class NotReleased(DpstatsError, AttributeError):
    """A statistic that this result does not have, because it was not privately released."""


_PER_ROW = "has one entry for each row of private data and was not released"
_SUMS = "is computed from the private rows and was not released"
_ROBUST = "needs the private rows; this result has the one covariance in cov_params()"

#: Attribute to reason. Each reason completes the sentence that starts with the attribute.
WITHHELD = {
    **dict.fromkeys(
        ("resid", "residuals", "fittedvalues", "fitted", "wresid", "resid_pearson", "resid_response", "sresid",
         "weights", "get_influence", "outlier_test", "get_prediction"),
        _PER_ROW,
    ),
    **dict.fromkeys(
        ("llf", "aic", "bic", "ess", "ssr", "centered_tss", "uncentered_tss", "mse_model", "mse_resid", "mse_total",
         "rsquared_adj", "df_resid", "condition_number", "eigenvals", "normalized_cov_params", "compare_f_test",
         "compare_lm_test", "compare_lr_test", "el_test", "conf_int_el", "info_criteria", "chisq", "fit_history"),
        _SUMS,
    ),
    **dict.fromkeys(("get_robustcov_results", *(f"HC{i}_se" for i in range(4)), *(f"cov_HC{i}" for i in range(4))), _ROBUST),
    **dict.fromkeys(("fvalue", "f_pvalue"), _SUMS + "; f_test() tests all slopes from the released covariance"),
    **dict.fromkeys(("model", "data"), "would hold the private data; a result keeps none"),
    "rsquared": "was not released by this fit",
    "sigma": "(the residual standard deviation) was not released by this fit",
    "scale": "(the residual variance, sigma squared) was not released by this fit",
    "nobs": "(the number of rows) is private and was not released by this fit",
}  # fmt: skip


def not_released(name):
    """The error for the attribute `name`, a key of :data:`WITHHELD`.

    Examples
    --------
    >>> not_released("resid")
    NotReleased("'resid' has one entry for each row of private data and was not released.")
    """
    return NotReleased(f"{name!r} {WITHHELD[name]}.")
