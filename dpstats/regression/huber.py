"""Private Huber regression at a fixed, privately released scale."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Levels
from dpstats._validation import check, fail
from dpstats.estimation.call import Call, Estimator
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.formula.units import UnitBlocks
from dpstats.linear.bootstrap import check_cov_type
from dpstats.linear.budget import SHARES, LinearBudget, Step, divide, preparation, stages_of
from dpstats.linear.conditioning import REFERENCE
from dpstats.linear.loss import Huber, Squared
from dpstats.linear.prepare import REACH, Prepared, prepare
from dpstats.linear.public import PublicDesign
from dpstats.linear.refusals import check_directions
from dpstats.linear.results import regression_results
from dpstats.linear.rounds import Rounds, Walk
from dpstats.linear.rounds_inference import rounds_inference
from dpstats.linear.summed import Summed, balanced, whitening_steps
from dpstats.linear.whitened import Frame
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import Results
from dpstats.selection.within import selecting

__all__ = ["huber"]

_SHARES = SHARES | {"residual scale": 0.02, "spread": 0.04, "first rounds": 0.05, "rounds": 0.29}
"""Shares of mu^2; the whitening stages have the rest."""
_FEWEST, _ROUNDS = 6, 14


@documented
@guarded
def huber(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    c: float = 1.345,
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
    r"""Differentially private Huber regression.

    Like least squares for small residuals and like median regression for large ones, so that outliers of the
    response count for little.

    Parameters
    ----------
    %(formula, data, eps, delta)s
    c : float
        Residuals beyond `c` times the residual scale count as if they were there. 1.345 is 95 % efficient for
        normal errors; as `c` goes to 0 the fit goes to median (LAD) regression. The scale is released, that
        of a first fit, and what is estimated is the solution of Huber's equation at that scale.
    rounds : int, optional
        Number of rounds, at least 6; a third of them start with least squares and lead to the Huber fit, and
        the others are averaged. By default 14.
    %(cov_type, select, bounds, levels, by, unit of sums, ledger, seed)s

    Returns
    -------
    Results or GroupedResults
        ``sigma`` is the fixed scale: the median absolute residual of a first least-squares fit, over 0.6745.

    %(raises, too few rows, errors)s

    Notes
    -----
    **Method.** With :math:`\psi(r) = \max(-c\sigma, \min(c\sigma, r))` the estimate solves

    .. math:: \sum_i x_i\, \psi(y_i - x_i^\top \theta) = 0.

    Rows are standardised and whitened as in :func:`dpstats.ols`; Newton rounds
    :math:`u \leftarrow u + \frac{1}{n p}\bigl(\sum \mathrm{clip}(v \psi) + N_t\bigr)` follow, ``p`` the
    released share of residuals within the threshold. This is the fixed point of BoostedAdaSSP (Tang et al.
    2023, theorem A.5). Columns are moved into limits in ``predict()`` alone.

    %(gaussian steps)s
    Proof: ``docs/privacy/huber.md``.

    **Standard errors** are those of an M-estimator whose scale is known: a sandwich of two released matrices,
    the Gram matrix of the rows within the threshold and the mean outer product of the scores. They allow for
    errors whose variance depends on the columns; with ``cov_type="nonrobust"`` the second is ``mean(psi^2)``
    times the whole Gram matrix. To them come the noise of the rounds and bounds on two biases, as in
    :func:`dpstats.ols`, with the same ``n.d.`` where noise hides what there is to know. The coefficients are
    those at which the mean score is 0, which for symmetric errors are those of least squares.

    %(diamonds)s
    >>> fit = dpstats.huber("price ~ carat", diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.params.round().to_dict(), round(fit.sigma)
    ({'Intercept': -1948.0, 'carat': 7122.0}, 822)
    """
    rounds = check("rounds", rounds, "count", optional=True)
    if rounds is not None and rounds < _FEWEST:
        fail("rounds", rounds, f"None or an integer of at least {_FEWEST}")
    c, cov_type = check("c", c, "limit"), check_cov_type(cov_type, unit)
    budget = functools.partial(_budget, c=c, rounds=rounds or _ROUNDS, cov_type=cov_type)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit)
    return run(selecting(Estimator("huber", budget, _release, _results, of_units="all"), select), call)


@dataclass(frozen=True)
class _Budget(LinearBudget):
    """Everything public: `squares` rounds of least squares, `first` and `averaged` ones of Huber's loss."""

    c: float
    squares: int
    first: int
    averaged: int
    cov_type: str


def _budget(design: Design, call: Call, rows: int | None, *, c: float, rounds: int, cov_type: str) -> _Budget:
    public, (stages, whitening) = PublicDesign.of(design), whitening_steps(call.unit)
    squares, first = rounds // 6 + 1, rounds // 6
    averaged = rounds - squares - first
    steps = [
        *preparation(public, _SHARES),
        *whitening,
        Step("hessian", "Gram matrix for the standard errors", _SHARES["hessian"]),
        Step("residual scale", "residual scale", _SHARES["residual scale"]),
        Step("spread", "share and mean square of limited residuals", _SHARES["spread"], 2),
        Step("limit", "sizes of the products", _SHARES["limit"]),
        Step("first rounds", "gradients, first rounds", _SHARES["first rounds"], squares + first),
        Step("rounds", "gradients, averaged rounds", _SHARES["rounds"], averaged),
        Step("excess", "what the clip cuts", _SHARES["excess"]),
        Step("skewness", "skewness of the products", _SHARES["skewness"] * (call.unit is None)),
        Step("outer", "outer products for the standard errors", _SHARES["outer"]),
    ]
    mus, guarantee = divide(call.eps, call.delta, steps, call.seeded)
    return _Budget(guarantee, mus, public, stages_of(stages, mus), c, squares, first, averaged, cov_type)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases, without rounds for a flat response."""

    prepared: Prepared
    rounds: Rounds | None
    """Of Huber's loss, from least squares."""
    sigma: float
    """Residual scale, in standardised units."""


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed; see :class:`~dpstats.linear.rounds.Walk`
    and :mod:`dpstats.linear.scores` for the sensitivity of each step, and ``docs/privacy/huber.md`` for the
    argument.
    """
    mus = budget.mus
    check = functools.partial(check_directions, "huber", budget)
    prepared = prepare("huber", blocks, budget, rng, REACH, check, references=REFERENCE, leave=True)
    if prepared.flat_response:
        return _Release(prepared, None, 0.0)
    guess, size = prepared.whitening.sigma, 1.0
    if isinstance(blocks, UnitBlocks):
        prepared, size = balanced(
            prepared, Summed(blocks, Frame.of(prepared, False)), budget.public.intercept, mus, rng
        )
    squares = Squared(guess)
    walk = Walk(blocks, prepared, False, mus, budget.averaged, rng, size)
    walk.guess_limit(squares)
    walk.rounds(squares, budget.squares, "first rounds")
    walk.restart()
    loss, sigma = Huber.at_scale(budget.c, walk.rows, walk.u, guess, walk.count, mus, rng)
    walk.measure(loss)
    walk.limit(loss)
    walk.curve(loss)
    walk.rounds(loss, budget.first, "first rounds")
    walk.rounds(loss, budget.averaged, "rounds")
    return _Release(walk.prepared, walk.finish(loss), sigma)


def _results(design: Design, budget: _Budget, release: _Release) -> Results:
    """Results from the release alone."""
    prepared, rounds = release.prepared, release.rounds
    u, inference = np.zeros(len(prepared.affine.columns)), None
    if rounds is not None:
        threshold = budget.c * release.sigma * float(prepared.response.scale[0])
        note = (
            f"Residuals beyond {threshold:.3g} count as if they were there. That limit is noisy; where "
            "errors are skewed, or many the same, coefficients depend on it, and intervals are for this one."
        )
        u = rounds.coefficients
        if rounds.metric is not None:
            note = f"{note} {rounds.clip.unit_note(math.sqrt(len(u) * rounds.psi2), rounds.most)}"
        inference = rounds_inference(rounds, prepared, budget.cov_type, note)
    return regression_results(
        "Huber regression",
        design,
        budget.guarantee,
        prepared,
        u,
        inference,
        None,
        cov_type=budget.cov_type,
        winsorized=True,
        fitted_within=False,
        het=None if rounds is None else rounds.het,
        rounds=budget.squares + budget.first + budget.averaged,
        sigma=release.sigma,
    )
