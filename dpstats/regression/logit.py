"""Private logistic regression with no bounds and no tuning."""

import functools
from typing import Any, cast

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Levels
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.bootstrap import check_cov_type
from dpstats.linear.family import Binomial
from dpstats.linear.glm import release_glm
from dpstats.linear.glm_budget import GLMBudget, glm_budget
from dpstats.linear.glm_release import GLMRelease
from dpstats.linear.glm_results import glm_results
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.ledger import Ledger
from dpstats.results.glm import GLMResults
from dpstats.results.grouped import GroupedResults
from dpstats.selection.within import selecting

__all__ = ["logit"]


@documented
@guarded
def logit(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    cov_type: str = "nonrobust",
    select: int | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> GLMResults | GroupedResults:
    r"""Differentially private logistic regression, with nothing to tune and no bound to guess.

    Parameters
    ----------
    %(formula, data, eps, delta)s
    cov_type : {"nonrobust", "robust"}
        Standard errors of the model, or a sandwich (Huber 1967, White 1982). With `unit` always one that is
        robust to clusters.
    %(select, bounds, levels, by, unit of sums, ledger, seed)s

    Returns
    -------
    GLMResults or GroupedResults
        ``params``, ``bse``, ``conf_int()``, ``summary(exponentiate=True)``, ``marginal_effects()``,
        ``predict()``, ``deviance``, ``prsquared``, ``guarantee`` ...

    %(raises, too few rows)s
        Also if hardly any rows are of one of the classes; then all of it is spent.
    %(errors)s

    Notes
    -----
    **Response.** 0 and 1, a boolean, or a column with two declared levels, of which the second is the event.
    A row with any other value is dropped. The table says so, but where declared levels, a comparison as in
    ``I(y > 0)`` or a declared boolean leave no other value. Of counts the rows of 0 and 1 alone are kept.

    **Method.** The columns are standardised and whitened privately, as by :func:`dpstats.ols`. From the
    released share of events five rounds of Newton's method lead to a start: each releases the score and the
    information

    .. math:: \sum_i f_i v_i (y_i - p_i) + N, \qquad \sum_i f_i p_i (1 - p_i) v_i v_i^\top + N',

    and goes on in coordinates in which that information is about the number of rows. Four more rounds at
    one information matrix are averaged. The weights ``f`` limit rows whose columns are far out; they depend
    on the columns alone, so that they bring no bias where the model holds. Where it does not, intervals allow
    for what is seen of that beyond the noise.

    %(gaussian steps)s
    Proof: ``docs/privacy/logit.md``.

    **Standard errors** add up sampling, the noise of the rounds, and a bound on what the rounds leave of
    their start. Where noise hides a direction of the columns, a coefficient that mostly depends on it is not
    determined (``n.d.`` in the table, NaN). Where columns separate the classes, estimates stay finite. With
    fewer than some hundred events at ``eps = 1`` the normal approximation behind the intervals is rough.
    Where all events of a level, of one value of a numeric column with two, or of a cell of their products
    may be noise, its coefficient is not determined.
    There is no ``"bootstrap"`` as in :func:`dpstats.ols`: steps that divide by the released information leave
    nothing of the start in a simulation from it, and how the score curves, which one would simulate, depends
    on columns that are not released.

    %(diamonds)s
    >>> fit = dpstats.logit("I(price > 5000) ~ depth + table", diamonds, eps=1, seed=1)  # for the example
    >>> fit.tidy(exponentiate=True).round(2)[["term", "estimate", "conf.low", "conf.high"]]
            term  estimate  conf.low  conf.high
    0  Intercept      0.00      0.00       0.00
    1      depth      1.03      1.02       1.05
    2      table      1.11      1.10       1.12
    >>> fit.marginal_effects()["estimate"].round(4).to_dict()
    {'depth': 0.006, 'table': 0.0197}
    """
    cov_type = check_cov_type(cov_type, unit, ("nonrobust", "robust"))
    budget = functools.partial(_budget, cov_type=cov_type)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit)
    needs = Needs(classes=True, values="0, 1 or one of its two declared levels")
    estimator: Estimator[Any, Any, Any] = Estimator(
        "logit", budget, _release, _results, needs, of_units="all"
    )
    results: Any = run(selecting(estimator, select), call)
    return cast(GLMResults | GroupedResults, results)


def _budget(design: Design, call: Call, rows: int | None, *, cov_type: str) -> GLMBudget:
    of_call = call.eps, call.delta, call.seeded, call.unit is not None
    return glm_budget(design, None, Binomial(), cov_type, *of_call)


def _release(blocks: Blocks, budget: GLMBudget, rng: Randomness) -> GLMRelease:
    """The mechanism; see :func:`~dpstats.linear.glm.release_glm`.

    **Privacy.** ``budget.guarantee``, one record added or removed. Argument: ``docs/privacy/logit.md``.
    """
    return release_glm("logit", blocks, budget, rng)


def _results(design: Design, budget: GLMBudget, release: GLMRelease) -> GLMResults:
    """Results from the release alone."""
    return glm_results("Logistic regression", budget, release)
