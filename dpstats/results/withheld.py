"""What statsmodels results have and a private result may not have, with the reason."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpstats.errors import NotReleased

__all__ = ["WITHHELD", "Withheld", "not_released"]


_REASONS = {
    "has one entry for each row of private data and was not released": (
        "resid residuals fittedvalues fitted wresid resid_pearson resid_response sresid weights "
        "get_influence outlier_test mu get_hat_matrix_diag resid_dev resid_deviance resid_working "
        "resid_generalized resid_anscombe resid_anscombe_scaled resid_anscombe_unscaled"
    ),
    "is computed from the private rows and was not released": (
        "llf aic bic ess ssr centered_tss uncentered_tss mse_model mse_resid mse_total rsquared_adj df_resid "
        "condition_number eigenvals normalized_cov_params compare_f_test compare_lm_test compare_lr_test "
        "el_test conf_int_el info_criteria chisq fit_history llnull llr llr_pvalue llf_scaled bic_llf "
        "bic_deviance pearson_chi2 pred_table score_test im_ratio"
    ),
    "needs the private rows; this result has the one covariance in cov_params()": (
        "get_robustcov_results HC0_se HC1_se HC2_se HC3_se cov_HC0 cov_HC1 cov_HC2 cov_HC3"
    ),
    "would hold the private data; a result keeps none": "data",
    "would draw the private rows; fit.diagnose(data, eps=) has plots of what it releases": (
        "plot_added_variable plot_ceres_residuals plot_partial_residuals"
    ),
    "is not there: the call of the estimator has fitted already": "fit",
    "is not there: the number of steps is fixed, and none depends on the data": (
        "converged mle_retvals mle_settings"
    ),
    "is marginal_effects() of a logit or poisson fit": "get_margeff",
    "is prsquared here": "pseudo_rsquared",
    "is dpstats.load(path) here": "load",
    "is link here": "family",
    "is not there: the tests are t_test, f_test and wald_test": "test",
    "is not there: units are unit= in the call of the estimator": "cov_kwds",
    "is not there: t_test([...]) takes the differences one by one": "t_test_pairwise",
    "was not released by this fit": "deviance null_deviance dispersion prsquared",
    "was not released by this fit; logit and poisson have prsquared": "rsquared",
    "(the residual standard deviation) was not released by this fit": "sigma",
    "(the residual variance, sigma squared) was not released by this fit": "scale",
    "(the number of rows) is private and was not released by this fit": "nobs",
}

#: Attribute to reason. Each reason completes the sentence that starts with the attribute.
WITHHELD = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def not_released(name: str) -> NotReleased:
    """The error for the attribute `name`, a key of :data:`WITHHELD`.

    Examples
    --------
    >>> not_released("resid")
    NotReleased("'resid' has one entry for each row of private data and was not released.")
    """
    return NotReleased(f"{name!r} {WITHHELD[name]}.")


class Withheld:
    """What a result has besides the estimates if it was released, and the error if it was not."""

    __slots__ = ()
    released: Mapping[str, float]

    @property
    def nobs(self) -> float:
        """The number of rows: the public number, else the released noisy one."""
        return self._get("nobs" if "nobs" in self.released else "n", "nobs")

    @property
    def rsquared(self) -> float:
        """The released R-squared."""
        return self._get("rsquared")

    @property
    def sigma(self) -> float:
        """The released residual standard deviation, in units of the response."""
        return self._get("sigma")

    @property
    def scale(self) -> float:
        """The square of :attr:`sigma`, as in statsmodels' OLS."""
        return self._get("sigma", "scale") ** 2

    def _get(self, key: str, name: str | None = None) -> float:
        if key not in self.released:
            raise not_released(name or key)
        return self.released[key]

    if not TYPE_CHECKING:  # so that a type checker reports attributes that do not exist

        def __getattr__(self, name: str) -> Any:
            if name in WITHHELD:
                raise not_released(name)
            found = getattr(type(self), name, None)
            if isinstance(found, property):  # which has said why, as an AttributeError
                return found.fget(self)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
