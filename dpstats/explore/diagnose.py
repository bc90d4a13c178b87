"""Private diagnostics of a released fit, on the rows that it was fitted to: a further release."""

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Floats
from dpstats._validation import fail
from dpstats.data.schema import Schema
from dpstats.errors import NotReleased, ParameterError
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.explore.diagnosis import Diagnosis
from dpstats.explore.residuals import LinearDiagnostics, release_linear
from dpstats.explore.responses import GLMDiagnostics, release_responses
from dpstats.formula.design import Design
from dpstats.formula.terms import with_offset
from dpstats.privacy.ledger import Ledger
from dpstats.results.glm import GLMResults
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import Results

__all__ = ["diagnose"]


@documented
@guarded
def diagnose(
    fit: Results,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Diagnosis:
    r"""Differentially private diagnostics of a released fit: tests, residuals by bins, a panel of plots.

    A further release about the same rows: its budget adds to that of the fit. Also ``fit.diagnose(data,
    eps=1)``.

    Parameters
    ----------
    fit : Results
        Of a regression with a constant: what it holds is public here.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
        The rows of the fit, or others with the same columns; of one group's fit the rows of that group.
    %(eps, delta, ledger, seed)s

    Returns
    -------
    Diagnosis
        ``summary()``, ``test_table``, ``frames()``, ``plot()``, ``guarantee``. Of a linear fit: Ramsey's
        RESET, a test of constant error variance, one of normal errors, residuals by tenths of the prediction
        and by fifths of the columns, a normal Q-Q plot, shares of rows of high leverage. (A response of whole
        numbers or scores, with columns of few values, has residuals in lumps, which with many rows the test
        of normal errors rejects whatever their skewness and kurtosis.) Of `logit`: ROC curve, its area,
        calibration by tenths, and a test of the link. Of `poisson`: a rootogram, and tests of the link and
        of the dispersion. These tests are made where every coefficient of the fit is determined, but those of
        columns that left it.

    Raises
    ------
    ReleaseFailed
        If there are too few rows for so many columns. All of the budget is spent.
    NotReleased
        If the fit has no regression function, or no residual standard deviation.
    %(errors)s

    Notes
    -----
    **Residuals of a released fit** hold the error of its coefficients, :math:`x^\top(\theta^* - \hat\theta)`.
    The tests are sums

    .. math:: \sum_i (g_i - B^\top v_i)\,\psi(r_i),

    whose terms are orthogonal to the whitened columns :math:`v` in a released Gram matrix, so that this error
    drops out, and their variance is that of the sampling, from released outer products, and of the noise. The
    powers of the prediction :math:`g` are limited, and :math:`\psi` limits residuals to 3 standard
    deviations: a few rows far out decide nothing.

    **Limited residuals** of skewed errors have a mean beyond 0, even where the mean of the response is a
    straight line. Ramsey's test limits them at 3 times a spread that is a released straight line of the
    prediction: their mean is then a straight line too, and drops out, if errors are of one law but for such
    a spread. It may reject where the shape of the errors changes, or their spread is bent. Mean
    residuals by bins are of residuals limited at 3 ``sigma`` or, of many rows, at up to 20, which
    ``fitted.limit`` says; there an interval may miss 0 for skewed errors of unequal variance alone. Of counts
    the means that the limits leave are known from Poisson's law, and taken off.

    Bounds and levels are those of the fit, but for columns that its offset alone reads. Limits that
    ``winsorize`` found are not applied: residuals are those of the rows as they are. All count
    alike, also of a fit with weights, about whose line their mean need not be 0.

    %(gaussian steps)s
    Proof: ``docs/privacy/diagnose.md``.

    %(diamonds)s
    >>> fit = dpstats.ols("price ~ carat", diamonds, eps=1, seed=1)  # seeded for the example
    >>> dpstats.diagnose(fit, diamonds, eps=1, seed=2).test_table["pvalue"].round(3)
    Powers of the prediction (RESET)      0.0
    Constant error variance               0.0
    Normal errors (skewness, kurtosis)    0.0
    Name: pvalue, dtype: float64
    """
    if isinstance(fit, GroupedResults):
        raise ParameterError(
            "fit must be the result of one group, such as fits['a'], with the rows of that group."
        )
    if not isinstance(fit, Results):
        fail("fit", fit, "the result of a regression")
    design = fit.design
    if not isinstance(design, Design):
        raise NotReleased("This result has no regression function, so it has no residuals.")
    if not design.has_intercept or len(design.column_names) < 2:
        fail("fit", design.formula, "a regression with a constant and at least one column")
    coefficients = np.nan_to_num(fit.estimates)
    whole = replace(design, limits=None)
    levels = {c.name: list(c.levels) for c in design.schema if c.levels is not None}
    bounds = {c.name: c.bounds for c in design.schema if c.bounds is not None}
    call = Call(
        f"diagnose: {fit.formula}", data, eps, delta, bounds, levels, None, ledger, seed, fit.guarantee.unit
    )
    offset = fit.offset if isinstance(fit, GLMResults) else None

    def of_fit(call: Call, schema: Schema) -> Design:
        if offset is None:
            return whole
        others = set(schema.names).difference(whole.schema.names)
        return Design.from_formula(with_offset(fit.formula, offset), schema, others)

    if isinstance(fit, GLMResults):
        budget: Any = functools.partial(
            _glm_budget,
            whole=whole,
            wide=offset is not None,
            coefficients=coefficients,
            # (a column that left is exactly 0)
            determined=bool((np.isfinite(fit.bse) | (fit.params == 0)).all()),
            link=fit.link,
        )
        release: Any = release_responses
    else:
        if not fit.released.get("sigma", 0) > 0:
            raise NotReleased("Residuals are shown in units of sigma, which this fit has not released.")
        budget = functools.partial(_linear_budget, coefficients=coefficients, sigma=fit.sigma)
        release = release_linear
    needs = Needs(responses="any", classes=True)
    estimator: Any = Estimator("diagnose", budget, release, _results, needs, design=of_fit)
    found: Any = run(estimator, call)
    return found


def _linear_budget(
    design: Design, call: Call, rows: int | None, *, coefficients: Floats, sigma: float
) -> LinearDiagnostics:
    return LinearDiagnostics.of(design, coefficients, sigma, call.eps, call.delta, call.seeded)


def _glm_budget(
    design: Design,
    call: Call,
    rows: int | None,
    *,
    whole: Design,
    wide: bool,
    coefficients: Floats,
    determined: bool,
    link: str,
) -> GLMDiagnostics:
    wider = design if wide else None
    return GLMDiagnostics.of(whole, wider, coefficients, determined, link, call.eps, call.delta, call.seeded)


def _results(design: Design, budget: Any, release: Diagnosis) -> Diagnosis:
    """The diagnosis, which is made of released values alone."""
    return release
