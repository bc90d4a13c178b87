"""Private Poisson regression with no bounds and no tuning."""

import functools
from dataclasses import replace
from typing import Any, cast

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Levels
from dpstats._validation import about, fail
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.estimation.second import declared_beside, own_design, reads, with_second
from dpstats.formula.design import Blocks, Design, check_formula
from dpstats.formula.terms import with_offset
from dpstats.linear.bootstrap import check_cov_type
from dpstats.linear.family import Counts
from dpstats.linear.glm import release_glm
from dpstats.linear.glm_budget import GLMBudget, glm_budget
from dpstats.linear.glm_release import GLMRelease
from dpstats.linear.glm_results import glm_results
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.ledger import Ledger
from dpstats.results.glm import GLMResults
from dpstats.results.grouped import GroupedResults
from dpstats.selection.within import selecting

__all__ = ["poisson"]

_NEEDS = Needs(values="a whole number from 0")


@documented
@guarded
def poisson(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    offset: str | None = None,
    exposure: str | None = None,
    cov_type: str = "robust",
    select: int | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> GLMResults | GroupedResults:
    r"""Differentially private Poisson regression of counts, with nothing to tune and no bound to guess.

    Parameters
    ----------
    %(formula, data, eps, delta)s
    offset, exposure : str, optional
        A column, or an expression as in ``I(...)`` of a formula, that is added to the linear predictor:
        itself, or the logarithm of an exposure. Signs are arithmetic: ``offset="a - b"`` is the difference. A
        row where it is missing, or an exposure not positive, is dropped. Not with `select`.
    cov_type : {"robust", "nonrobust"}
        A sandwich (Huber 1967, White 1982), which allows for counts that vary more than Poisson's, or the
        standard errors of Poisson's model. With `unit` always one that is robust to clusters.
    %(select, bounds, levels, by, unit of sums, ledger, seed)s

    Returns
    -------
    GLMResults or GroupedResults
        ``params``, ``bse``, ``conf_int()``, ``summary(exponentiate=True)``, ``marginal_effects()``,
        ``predict()``, ``deviance``, ``dispersion``, ``guarantee`` ...

    %(raises, too few rows)s
        Also if hardly any counts but 0 show; then all of it is spent.
    %(errors)s

    Notes
    -----
    **Response.** Non-negative integers; a row with any other value is dropped. Units do not matter as long as
    counts are below 1e20, and exposures between 1e-30 and 1e30; where rows are few, exposures are best given
    in a unit in which they are about 1.

    **Method.** That of :func:`dpstats.logit` with the mean ``exp(eta)``: seven rounds of Newton's method from
    the constant alone, eight averaged ones. A row's part of the score is shortened to a norm that is chosen
    from released counts of the parts by size and sign: the noise that it takes against the bias that it may
    leave.

    %(gaussian steps)s
    Proof: ``docs/privacy/poisson.md``.

    **Standard errors** add up sampling, the noise of the rounds, a bound on what the rounds leave of their
    start, and an allowance for what the clip takes off: with it 95 % intervals hold on average over the tails
    that the released counts leave possible. A few rows very far out, which show in no count, may move an
    interval off. Rows whose mean is large and whose columns are far out count less; where the mean is not the
    model's, intervals allow for what is seen of that beyond the noise. Where noise hides a direction of the
    columns, a coefficient that mostly depends on it is not determined (``n.d.`` in the table, NaN). There is
    no bootstrap, as for :func:`dpstats.logit`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats
    >>> rng = np.random.default_rng(1)
    >>> x = rng.standard_normal(20_000)
    >>> visits = {"visits": rng.poisson(np.exp(0.5 + 0.3 * x)), "x": x}
    >>> fit = dpstats.poisson("visits ~ x", visits, eps=1, seed=1)  # seeded for the example
    >>> fit.conf_int().round(2)
                  0     1
    Intercept  0.49  0.52
    x          0.29  0.31
    """
    cov_type = check_cov_type(cov_type, unit, ("robust", "nonrobust"))
    expression = _expression(offset, exposure, select)
    check_formula(formula)
    own = None if expression is None else formula
    estimator: Estimator[Any, Any, Any] = Estimator(
        "poisson",
        functools.partial(_budget, own=own, cov_type=cov_type),
        _release,
        functools.partial(_results, offset=expression),
        _NEEDS,
        of_units="all",
    )
    if expression is not None:
        given = ("offset", str(offset)) if exposure is None else ("exposure", exposure)
        design = functools.partial(with_second, own=formula, given=given, name="poisson", needs=_NEEDS)
        estimator = replace(estimator, needs=replace(_NEEDS, responses="any"), design=design)
    wide = formula if expression is None else with_offset(formula, expression)
    written = None if expression is None else f"{formula}, offset {expression}"
    call = Call(wide, data, eps, delta, bounds, levels, by, ledger, seed, unit, written)
    results: Any = run(selecting(estimator, select), call)
    return cast(GLMResults | GroupedResults, results)


_READ = {
    "offset": "None, the name of a column or an expression, as in 'np.log(hours)'",
    "exposure": "None, or what is positive: the name of a column or an expression, as in 'days / 365'",
}
"""Whose logarithm is taken is not to be a logarithm."""


def _expression(offset: str | None, exposure: str | None, select: int | None) -> str | None:
    """The offset as an expression of the formula's grammar."""
    for name, value in (("offset", offset), ("exposure", exposure)):
        # (~ x is what R has for a formula of one side, and would be a logical not)
        if not (value is None or isinstance(value, str) and value.strip() and value.strip()[0] != "~"):
            fail(name, value, _READ[name])
    if offset is not None and exposure is not None:
        fail("exposure", exposure, "None where there is an offset")
    if select is not None and (offset is not None or exposure is not None):
        fail("select", select, "None with an offset; choose the terms first, by select_features")
    for name, value in (("offset", offset), ("exposure", exposure)):
        if value is not None:
            with about(name):
                reads(value)
    return offset if exposure is None else f"np.log({exposure.strip()})"


def _budget(design: Design, call: Call, rows: int | None, *, own: str | None, cov_type: str) -> GLMBudget:
    narrow, wide = design, None
    if own is not None:
        narrow, wide = own_design(design, own, (call.by, call.unit)), design
    of_call = call.eps, call.delta, call.seeded, call.unit is not None
    return glm_budget(narrow, wide, Counts(), cov_type, *of_call)


def _release(blocks: Blocks, budget: GLMBudget, rng: Randomness) -> GLMRelease:
    """The mechanism; see :func:`~dpstats.linear.glm.release_glm`.

    **Privacy.** ``budget.guarantee``, one record added or removed. Argument: ``docs/privacy/poisson.md``.
    """
    return release_glm("poisson", blocks, budget, rng)


def _results(design: Design, budget: GLMBudget, release: GLMRelease, *, offset: str | None) -> GLMResults:
    """Results from the release alone."""
    results = glm_results("Poisson regression", budget, release)
    return replace(results, offset=offset, declared=declared_beside(design, budget.narrow))
