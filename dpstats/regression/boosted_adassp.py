"""BoostedAdaSSP: clipped residuals fitted round after round with one noisy Gram matrix."""

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

__all__ = ["boosted_adassp"]

_FIRST, _ROUNDS = 3, 6
_RELATIVE = 0.2
"""Rounds forget the noise of the Gram matrix, so that the rows' radius may be wide."""


@documented
@guarded
def boosted_adassp(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    standardize: bool = True,
    clip: float | None = None,
    rounds: int | None = None,
    cov_type: str = "robust",
    select: int | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    r"""Differentially private linear regression by boosting AdaSSP.

    Rounds on residuals, all with the same noisy ridge inverse: they forget the noise of the Gram matrix, and
    :func:`dpstats.adassp` does not.

    Parameters
    ----------
    %(formula, data, eps, delta)s
    standardize : bool
        Spend about 35 % of ``mu^2`` on a private location and scale of every column and on whitening, and
        predict with columns within their private ranges. False takes the columns in their own units; with
        ``clip=1, rounds=100`` that is the fixed setting of Tang et al. (2023).
    clip : float, optional
        Length of a row's covariates beyond which the row has less weight; its residual times that length
        counts up to the square of `clip`. In whitened units, or in the data's own without standardisation. By
        default both limits are learnt privately; without standardisation 1. Where a given limit visibly cuts
        rows there are no standard errors.
    rounds : int, optional
        Number of rounds, of which the later two thirds (the last alone without standardisation) are averaged.
        By default 9, or 100 without standardisation.
    %(cov_type, select, bounds, levels, by, unit of sums, ledger, seed)s

    Returns
    -------
    Results or GroupedResults
        With standard errors, ``sigma``, ``rsquared`` and ``rounds``.

    %(raises, too few rows, errors)s

    Notes
    -----
    **Method** (Tang, Aydore, Kearns, Rho, Roth, Wang, Wang and Wu 2023). With weighted rows ``v`` as in
    :func:`dpstats.adassp`,

    .. math:: u \leftarrow u + (\tilde G + \lambda I)^{-1}
              \Bigl(\sum \mathrm{clip}_C\bigl(v (y - v^\top u)\bigr) + N_t\Bigr),

    the whitening, the Gram matrix :math:`\tilde G`, its ridge and `C` as there. The first third of the rounds
    trusts the whitening and takes :math:`n I` for the Gram matrix.

    %(gaussian steps)s
    Proof: ``docs/privacy/boosted_adassp.md``.

    **Standard errors** cover sampling (a sandwich of released outer products; with ``cov_type="nonrobust"``
    that of errors of constant variance), the noise of the rounds, and bounds on what they leave of the way
    and on what `C` takes off. Coefficients that the noise hides have none. With ``cov_type="bootstrap"`` the
    bias that can be seen is taken off the estimates instead.

    %(diamonds)s
    >>> formula = "price ~ carat + table"
    >>> fit = dpstats.boosted_adassp(formula, diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.params.round().to_dict(), round(fit.bse["carat"])
    ({'Intercept': 1783.0, 'carat': 7846.0, 'table': -72.0}, 40)
    """
    standardize, clip = (
        check("standardize", standardize, "flag"),
        check("clip", clip, "limit", optional=True),
    )
    rounds, cov_type = check("rounds", rounds, "count", optional=True), check_cov_type(cov_type, unit)
    budget = functools.partial(_budget, standardize=standardize, clip=clip, rounds=rounds, cov_type=cov_type)
    check_standardize(standardize, unit)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit)
    return run(
        selecting(Estimator("boosted_adassp", budget, _release, _results, of_units="all"), select), call
    )


@dataclass(frozen=True)
class _Budget(BoundedBudget):
    """Everything public: the last `averaged` rounds are averaged, behind `first` others."""

    first: int
    averaged: int
    cov_type: str


def _budget(
    design: Design,
    call: Call,
    rows: int | None,
    *,
    standardize: bool,
    clip: float | None,
    rounds: int | None,
    cov_type: str,
) -> _Budget:
    public = PublicDesign.of(design)
    if standardize:
        total = rounds or _FIRST + _ROUNDS
        first = total // 3
    else:
        total, clip = rounds or 100, clip or 1.0
        first = total - 1
    # without a standardisation all rounds are alike, as published
    weight = SHARES["first rounds"] if standardize else SHARES["rounds"] * first
    before = Step("first rounds", "gradients, first rounds", weight * bool(first), max(first, 1))
    last = Step("rounds", "gradients, averaged rounds", SHARES["rounds"], total - first)
    steps = solved_steps(public, standardize, clip, call.unit, before, last)
    mus, guarantee = divide(call.eps, call.delta, steps, call.seeded)
    given = guarantee, mus, public, stages(mus, standardize, call.unit), standardize, clip
    return _Budget(*given, first, total - first, cov_type)


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> Prepared | Solved:
    """The mechanism: rows in, released values out, without a fit for a flat response.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed. Every pass over the rows is a sum to which
    a row adds a bounded vector, in coordinates fixed by what has been released before, plus Gaussian noise;
    the bounds are those of :func:`~dpstats.linear.prepare.prepare`, :class:`~dpstats.linear.newton.Newton`
    and the functions of :mod:`dpstats.linear.scores`. Argument: ``docs/privacy/boosted_adassp.md``.
    """
    fit = Newton("boosted_adassp", blocks, budget, _RELATIVE, budget.averaged, rng)
    if fit.prepared.flat_response:
        return fit.prepared
    if budget.first and budget.standardize:
        fit.guess_limit()
        fit.rounds(budget.first, "first rounds")
    fit.limit()
    fit.gram()
    if not budget.standardize:
        fit.rounds(budget.first, "first rounds")
    fit.rounds(budget.averaged, "rounds")
    return fit.finish()


def _results(design: Design, budget: _Budget, release: Prepared | Solved) -> Results:
    """Results from the release alone."""
    rounds = budget.first + budget.averaged
    return solved_results("BoostedAdaSSP", design, budget, release, budget.cov_type, rounds)
