"""Noisy full-batch gradient descent, a baseline."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Floats, Levels
from dpstats._validation import check, one_of
from dpstats.estimation.call import Call, Estimator
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.linear.budget import Step, divide
from dpstats.linear.moments import SHARES, BoundedBudget, bounded_rows, preparation_steps
from dpstats.linear.prepare import Prepared
from dpstats.linear.public import PublicDesign
from dpstats.linear.results import regression_results
from dpstats.linear.scores import product_gradient
from dpstats.linear.whitened import Whitened
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import Results

__all__ = ["gradient_descent"]

_SHARES = SHARES | {"gradients": 0.77}
"""Shares of mu^2."""
_SCHEDULES: dict[str, Callable[[int], float]] = {
    "constant": lambda t: 1.0,
    "1/t": lambda t: 1.0 / t,
    "1/sqrt(t)": lambda t: 1.0 / math.sqrt(t),
}


@documented
@guarded
def gradient_descent(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    clip: float = 2.0,
    steps: int = 40,
    learning_rate: float = 0.25,
    schedule: str = "constant",
    standardize: bool = True,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    r"""Differentially private linear regression by noisy gradient descent.

    A baseline for comparisons: its result depends on `clip`, `steps` and `learning_rate`, and choosing them
    by looking at results is not private. It has no standard errors.

    Parameters
    ----------
    %(formula, data, eps, delta)s
    clip : float
        Norm to which the gradient of each row is shortened.
    steps : int
    learning_rate : float
    schedule : {"constant", "1/t", "1/sqrt(t)"}
        The learning rate of step ``t = 1, 2, ...`` in units of `learning_rate`.
    standardize : bool
        Spend 23 % of ``mu^2`` on a private location and scale of every column without `bounds`, and use
        columns within their private ranges. False takes the columns in their own units.
    %(bounds, levels, by, unit, ledger, seed)s

    Returns
    -------
    Results or GroupedResults
        Coefficients without standard errors.

    %(raises, too few rows, errors)s

    Notes
    -----
    **Method.** From :math:`\theta_0 = 0`, with the released number of rows :math:`\tilde n`,

    .. math:: \theta_t = \theta_{t-1} + \frac{\eta_t}{\tilde n}
              \Bigl(\sum_i \mathrm{clip}_C\bigl(z_i (y_i - z_i^\top \theta_{t-1})\bigr) + N_t\Bigr).

    %(gaussian steps)s
    Proof: ``docs/privacy/gradient_descent.md``.

    %(diamonds)s
    >>> fit = dpstats.gradient_descent("price ~ carat", diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.params.round().to_dict()
    {'Intercept': -2268.0, 'carat': 7753.0}
    """
    clip, steps = check("clip", clip, "positive"), check("steps", steps, "count")
    learning_rate = check("learning_rate", learning_rate, "positive")
    one_of("schedule", schedule, tuple(_SCHEDULES))
    standardize = check("standardize", standardize, "flag")
    rates = learning_rate * np.array([_SCHEDULES[schedule](t) for t in range(1, steps + 1)])
    budget = functools.partial(_budget, standardize=standardize, clip=clip, rates=rates)
    call = Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit)
    return run(Estimator("gradient_descent", budget, _release, _results), call)


@dataclass(frozen=True)
class _Budget(BoundedBudget):
    """Everything public, with the learning rate of every step."""

    clip: float
    rates: Floats


def _budget(
    design: Design, call: Call, rows: int | None, *, standardize: bool, clip: float, rates: Floats
) -> _Budget:
    public = PublicDesign.of(design)
    steps = [
        *preparation_steps(public, _SHARES, standardize, ()),
        Step("gradients", "gradients", _SHARES["gradients"], len(rates)),
    ]
    mus, guarantee = divide(call.eps, call.delta, steps, call.seeded)
    return _Budget(guarantee, mus, public, (), standardize, clip, rates)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases."""

    prepared: Prepared
    coefficients: Floats
    """The last iterate, shape (q,)."""


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed: a row moves a step's sum by at most
    ``clip``. Argument: ``docs/privacy/gradient_descent.md``.
    """
    prepared, frame = bounded_rows("gradient_descent", blocks, budget, rng, limited=True)
    u = np.zeros(len(prepared.affine.columns))
    if prepared.flat_response:
        return _Release(prepared, u)
    rows, count = Whitened(blocks, frame, last=True), max(prepared.count, 1.0)
    for rate in budget.rates:
        u = u + rate / count * product_gradient(rows, u, math.inf, budget.clip, budget.mus["gradients"], rng)
    return _Release(prepared, u)


def _results(design: Design, budget: _Budget, release: _Release) -> Results:
    """Results from the release alone."""
    fit = release.prepared, release.coefficients, None, None
    rounds, winsorized = len(budget.rates), budget.standardize
    return regression_results(
        "Noisy gradient descent", design, budget.guarantee, *fit, rounds=rounds, winsorized=winsorized
    )
