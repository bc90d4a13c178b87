"""What tables of other packages read our results by."""

from typing import Any

from dpstats.results.results import Results

__all__ = ["stargazer"]


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
