"""AdaSSP: ridge regression from one noisy matrix of moments."""

import functools
from dataclasses import dataclass
from typing import Any

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Levels
from dpstats._validation import check
from dpstats.estimation.call import Call, Estimator
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.bootstrap import check_cov_type
from dpstats.linear.budget import Step, divide
from dpstats.linear.moments import SHARES, BoundedBudget, check_standardize, solved_steps, stages
from dpstats.linear.newton import Newton, Solved, solved_results
from dpstats.linear.prepare import Prepared
from dpstats.linear.public import PublicDesign
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import Results
from dpstats.selection.within import selecting

__all__ = ["adassp"]

_FIRST = 2
"""Rounds that improve the first fit: where it is far off, what the clip takes off its residuals is not small.
"""
_RELATIVE = 0.1
"""One round is not enough to forget the noise of the Gram matrix: the rows' radius keeps it small."""


@documented
@guarded
def adassp(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    standardize: bool = True,
    clip: float | None = None,
    cov_type: str = "robust",
    select: int | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    r"""Differentially private linear regression from noisy sufficient statistics (AdaSSP).

    Ridge regression on a noisy Gram matrix, the ridge being as large as the noise makes necessary. The
    simplest private regression; :func:`dpstats.ols` is more accurate.

    Parameters
    ----------
    %(formula, data, eps, delta)s
    standardize : bool
        Spend about 35 % of ``mu^2`` on a private location and scale of every column and on whitening, and
        predict with columns within their private ranges. False takes the columns in their own units, as Wang
        (2018) does.
    clip : float, optional
        Length of a row's covariates beyond which the row has less weight; a row's residual by the first fit
        times that length counts up to the square of `clip`. In whitened units, or in the data's own without
        standardisation. By default both limits are learnt privately; without standardisation 1. Where a given
        limit visibly cuts rows there are no standard errors.
    %(cov_type, select, bounds, levels, by, unit of sums, ledger, seed)s

    Returns
    -------
    Results or GroupedResults
        With standard errors, ``sigma`` and ``rsquared``.

    %(raises, too few rows, errors)s

    Notes
    -----
    **Method** (Wang 2018, about a first fit). With whitened rows ``v`` of weight :math:`\min(1, R^2/|v|^2)`,
    in all sums alike, and their residuals ``r`` by the first fit :math:`u_0`,

    .. math:: \hat u = u_0 + (\tilde G + \lambda I)^{-1} \tilde b, \qquad
              \tilde G = \sum v v^\top + N_G, \quad \tilde b = \sum \mathrm{clip}_C(v r) + N_b,

    and :math:`\lambda = \max(0, c - \tilde l)`, ``c`` a bound on the norm of the noise and :math:`\tilde l` a
    lower bound on the least eigenvalue. ``R`` grows with what the noise allows, and ``C`` is read off private
    counts of the products. The first fit is the whitening's, after two rounds of ``u += clip(v r) / n`` with
    noise. Without standardisation :math:`u_0` is 0.

    %(gaussian steps)s
    Proof: ``docs/privacy/adassp.md``.

    By default three private stages of whitening (about 14 % of ``mu^2``) come before: directions in which the
    rows hardly vary, such as differences of collinear columns or a rare level, would else be left to the
    ridge.

    **Standard errors** cover sampling (a sandwich of released outer products; with ``cov_type="nonrobust"``
    that of errors of constant variance), the noise of both moments, and bounds on what the ridge and `C` take
    off. Coefficients that the noise hides have none. With ``cov_type="bootstrap"`` the bias that can be seen
    is taken off the estimates instead.

    %(diamonds)s
    >>> fit = dpstats.adassp("price ~ carat + table", diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.params.round().to_dict(), round(fit.bse["carat"])
    ({'Intercept': 1824.0, 'carat': 7858.0, 'table': -72.0}, 33)
    """
    standardize, clip = (
        check("standardize", standardize, "flag"),
        check("clip", clip, "limit", optional=True),
    )
    cov_type = check_cov_type(cov_type, unit)
    budget = functools.partial(_budget, standardize=standardize, clip=clip, cov_type=cov_type)
    check_standardize(standardize, unit)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit)
    return run(selecting(Estimator("adassp", budget, _release, _results, of_units="all"), select), call)


@dataclass(frozen=True)
class _Budget(BoundedBudget):
    """Everything public."""

    cov_type: str


def _budget(
    design: Design, call: Call, rows: int | None, *, standardize: bool, clip: float | None, cov_type: str
) -> _Budget:
    public = PublicDesign.of(design)
    # sums of units are balanced as one sum of them needs it: rounds without their Gram matrix may go astray
    share = SHARES["first rounds"] * (standardize and call.unit is None)
    first = Step("first rounds", "gradients, first rounds", share, _FIRST)
    last = Step("rounds", "moments of covariates and response", SHARES["rounds"])
    steps = solved_steps(public, standardize, clip, call.unit, first, last)
    mus, guarantee = divide(call.eps, call.delta, steps, call.seeded)
    clip = clip if clip or standardize else 1.0
    return _Budget(guarantee, mus, public, stages(mus, standardize, call.unit), standardize, clip, cov_type)


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> Prepared | Solved:
    """The mechanism: rows in, released values out, without a fit for a flat response.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed. Every pass over the rows is a sum to which
    a row adds a bounded vector, in coordinates fixed by what has been released before, plus Gaussian noise;
    the bounds are those of :func:`~dpstats.linear.prepare.prepare`, :class:`~dpstats.linear.newton.Newton`
    and the functions of :mod:`dpstats.linear.scores`. Argument: ``docs/privacy/adassp.md``.
    """
    fit = Newton("adassp", blocks, budget, _RELATIVE, 1, rng)
    if fit.prepared.flat_response:
        return fit.prepared
    if budget.mus["first rounds"]:
        fit.guess_limit()
        fit.rounds(_FIRST, "first rounds")
    fit.limit()
    fit.gram()
    fit.rounds(1, "rounds")
    return fit.finish()


def _results(design: Design, budget: _Budget, release: Prepared | Solved) -> Results:
    """Results from the release alone."""
    return solved_results("AdaSSP", design, budget, release, budget.cov_type)
