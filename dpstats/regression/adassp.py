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
from dpstats.linear.moments import SHARES, BoundedBudget, preparation_steps, stages
from dpstats.linear.newton import Newton, Solved, solved_results
from dpstats.linear.prepare import Prepared
from dpstats.linear.public import PublicDesign
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import Results
from dpstats.selection.within import selecting

__all__ = ["adassp"]

_SHARES = SHARES | {"rounds": 0.40}
"""Shares of mu^2."""
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
        Spend 33 % of ``mu^2`` on a private location and scale of every column without `bounds` and on
        whitening, and use columns within their private ranges. False takes the columns in their own units, as
        Wang (2018) does.
    clip : float, optional
        Norm to which rows are shortened (by that of their covariates), and limit of the response: in
        standardised units, or in the data's own without standardisation. By default ``1.5 sqrt(q)`` for ``q``
        coefficients and 5; without standardisation 1. The response's private range is a limit too.
    %(cov_type, select, bounds, levels, by, ledger, seed)s

    Returns
    -------
    Results or GroupedResults
        With standard errors, ``sigma`` and ``rsquared``.

    %(raises, too few rows, errors)s

    Notes
    -----
    **Method** (Wang 2018). With rows ``z`` within norm `R` and responses ``y`` within `tau`,

    .. math:: \hat\theta = (\tilde G + \lambda I)^{-1} \tilde b, \qquad
              \tilde G = \sum z z^\top + N_G, \quad \tilde b = \sum z y + N_b,

    and :math:`\lambda = \max(0, c - \tilde l)`, ``c`` a bound on the norm of the noise and :math:`\tilde l` a
    lower bound on the least eigenvalue. Both come from one Gram matrix of the rows ``(z, k y)``, which also
    gives the residual variance.

    %(gaussian steps)s
    Proof: ``docs/privacy/adassp.md``.

    By default one private stage of whitening (10 % of ``mu^2``) comes before: directions in which the rows
    hardly vary, such as differences of collinear columns or a rare level, would else be left to the ridge.

    **Standard errors** cover sampling, the noise of both moments, and the ridge's bias in quadrature; a note
    below the table says how far the ridge draws the fit. With ``cov_type="bootstrap"`` its bias is taken off
    the estimates instead.

    %(diamonds)s
    >>> fit = dpstats.adassp("price ~ carat + table", diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.params.round().to_dict(), round(fit.bse["carat"])
    ({'Intercept': 1762.0, 'carat': 7878.0, 'table': -71.0}, 23)
    """
    standardize, clip = (
        check("standardize", standardize, "flag"),
        check("clip", clip, "positive", optional=True),
    )
    cov_type = check_cov_type(cov_type)
    budget = functools.partial(_budget, standardize=standardize, clip=clip, cov_type=cov_type)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed)
    return run(selecting(Estimator("adassp", budget, _release, _results), select), call)


@dataclass(frozen=True)
class _Budget(BoundedBudget):
    """Everything public."""

    cov_type: str


def _budget(
    design: Design, call: Call, rows: int | None, *, standardize: bool, clip: float | None, cov_type: str
) -> _Budget:
    public = PublicDesign.of(design)
    steps = [
        *preparation_steps(public, _SHARES, standardize),
        Step("limit", "limit of the products", _SHARES["limit"]),
        Step("gram", "Gram matrix", _SHARES["gram"]),
        Step("rounds", "moments of covariates and response", _SHARES["rounds"]),
        Step("spread", "residual variance", _SHARES["spread"]),
        Step("outer", "outer products for the standard errors", _SHARES["outer"]),
    ]
    mus, guarantee = divide(call.eps, call.delta, steps, call.seeded)
    clip = clip if clip or standardize else 1.0
    return _Budget(guarantee, mus, public, stages(mus, standardize), standardize, clip, cov_type)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases; without a fit for a flat response."""

    prepared: Prepared
    solved: Solved | None


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed. Every pass over the rows is a sum to which
    a row adds a bounded vector, in coordinates fixed by what has been released before, plus Gaussian noise;
    the bounds are those of :func:`~dpstats.linear.prepare.prepare`, :class:`~dpstats.linear.newton.Newton`
    and the functions of :mod:`dpstats.linear.scores`. Argument: ``docs/privacy/adassp.md``.
    """
    fit = Newton("adassp", blocks, budget, _RELATIVE, 1, rng)
    if fit.prepared.flat_response:
        return _Release(fit.prepared, None)
    fit.limit()
    fit.gram()
    fit.rounds(1, "rounds")
    return _Release(fit.prepared, fit.finish())


def _results(design: Design, budget: _Budget, release: _Release) -> Results:
    """Results from the release alone."""
    return solved_results("AdaSSP", design, budget, release.prepared, release.solved, budget.cov_type)
