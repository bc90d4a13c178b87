"""The table of terms of one fit, in R's word for it; comparisons of two fits are refused."""

from dataclasses import replace

from dpstats._boundary import guarded
from dpstats._validation import fail
from dpstats.errors import ParameterError
from dpstats.results.results import Results
from dpstats.results.terms import TermTests

__all__ = ["anova"]

_TWO = (
    "anova takes one fit, got several. The residual sums of two releases carry independent privacy noise, "
    "clips and limits of columns, so that their difference is no F or likelihood-ratio test, and can be "
    "negative. Test the further terms of the larger fit: anova(large), or large.wald_test([...]) for several "
    "terms together."
)


@guarded
def anova(fit: Results, *others: Results) -> TermTests:
    """Wald tests of the terms of a fit, but for the constant: at no privacy cost.

    Each term is tested given all others, as by ``car::Anova(fit, type = 3)`` in R; there are no sequential
    sums of squares, which were not released. Two fits cannot be compared: test the terms of the larger one.

    Parameters
    ----------
    fit : Results
        With standard errors that cover sampling and privacy noise.
    others : Results
        Refused, whatever they are.

    Returns
    -------
    dpstats.results.terms.TermTests
        With ``table``, a DataFrame; ``n.d.`` or NaN for a term that is not determined.

    Raises
    ------
    ParameterError
        If there is more than one fit, or it is no Results.
    NotReleased
        If the standard errors do not cover the sampling variation.

    See Also
    --------
    dpstats.results.results.Results.wald_test_terms : the same with the constant.

    Examples
    --------
    >>> from dpstats.privacy.guarantee import Guarantee
    >>> from dpstats.results.results import SAMPLING_AND_PRIVACY
    >>> fit = Results(method="OLS", formula="y ~ x", names=("Intercept", "x"), estimates=[1.0, -0.5],
    ...               cov=[[0.04, 0.0], [0.0, 0.01]], covers=SAMPLING_AND_PRIVACY,
    ...               guarantee=Guarantee(1, 0, "add-remove", "pure"))
    >>> anova(fit)
                             OLS: Wald tests of terms
    ==============================================================================
    Formula: y ~ x
    ==============================================================================
                                                                   chi2  P>chi2  df
    ------------------------------------------------------------------------------
    x                                                             25.00  <0.001   1
    ==============================================================================
    Wald tests from the released estimates and their covariance, which holds the
    privacy noise. They cost no privacy.
    ==============================================================================
    """
    if others:
        raise ParameterError(_TWO)
    if not isinstance(fit, Results):
        fail("fit", fit, "the Results of one fit")
    tests = fit.wald_test_terms()
    kept = [i for i, term in enumerate(tests.terms) if term != "Intercept"]
    return replace(
        tests,
        terms=tuple(tests.terms[i] for i in kept),
        statistics=tuple(tests.statistics[i] for i in kept),
        pvalues=tuple(tests.pvalues[i] for i in kept),
        df_constraint=tuple(tests.df_constraint[i] for i in kept),
    )
