"""Noisy full-batch gradient descent, a baseline."""

import math
from dataclasses import dataclass

import numpy as np

from dpstats._boundary import guarded
from dpstats._validation import check, one_of
from dpstats.estimation import pipeline as _estimate
from dpstats.linear.budget import Step, divide, preparation
from dpstats.linear.moments import bounded_rows
from dpstats.linear.prepare import Prepared, PublicDesign
from dpstats.linear.results import regression_results
from dpstats.linear.scores import Whitened, product_gradient
from dpstats.privacy.guarantee import Guarantee

__all__ = ["gradient_descent"]

_SHARES = {
    "count": 0.01,
    "location": 0.06,
    "scale": 0.10,
    "response_location": 0.03,
    "response_scale": 0.03,
    "gradients": 0.77,
}
"""Shares of mu^2."""
_SCHEDULES = {"constant": lambda t: 1.0, "1/t": lambda t: 1.0 / t, "1/sqrt(t)": lambda t: 1.0 / math.sqrt(t)}


@guarded
def gradient_descent(
    formula,
    data,
    *,
    eps,
    delta=1e-6,
    clip=2.0,
    steps=40,
    learning_rate=0.25,
    schedule="constant",
    standardize=True,
    bounds=None,
    levels=None,
    by=None,
    ledger=None,
    seed=None,
):
    r"""Differentially private linear regression by noisy gradient descent.

    A baseline for comparisons: its result depends on `clip`, `steps` and `learning_rate`, and choosing them by
    looking at results is not private. It has no standard errors.

    Parameters
    ----------
    formula : str
        Such as ``"price ~ carat + clarity"``; see :doc:`formulas`.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
    eps : float
        Privacy budget; positive.
    delta : float
        In (0, 1); far below one over the number of rows.
    clip : float
        Norm to which the gradient of each row is shortened.
    steps : int
    learning_rate : float
    schedule : {"constant", "1/t", "1/sqrt(t)"}
        The learning rate of step ``t = 1, 2, ...`` in units of `learning_rate`.
    standardize : bool
        Spend 23 % of ``mu^2`` on a private location and scale of every column without `bounds`, and use columns
        within their private ranges. False takes the columns in their own units.
    bounds : mapping of str to (float, float), optional
        Publicly known bounds of columns. They cost nothing and save the standardisation of those columns.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns.
    by : str, optional
        A column with declared levels: one fit for each group, each with the whole budget.
    ledger : Ledger, optional
        Charged before any row is read.
    seed : int, optional
        For simulation only: the release then protects nobody, and its guarantee says so.

    Returns
    -------
    Results

    Raises
    ------
    ReleaseFailed
        If there are too few rows for so many columns of unknown range, or if no column shows any variation. All of the
        budget is spent; in the first case only the count's part under a ledger that adds up by zCDP or GDP.
    ParameterError, FormulaError, SchemaError, BudgetExceeded

    Notes
    -----
    **Method.** From :math:`\theta_0 = 0`, with the released number of rows :math:`\tilde n`,

    .. math:: \theta_t = \theta_{t-1} + \frac{\eta_t}{\tilde n}
              \Bigl(\sum_i \mathrm{clip}_C\bigl(z_i (y_i - z_i^\top \theta_{t-1})\bigr) + N_t\Bigr).

    **Privacy.** ``(eps, delta)``-DP; neighbours: one record added or removed. All steps are Gaussian and compose
    exactly (mu-GDP). Proof: ``docs/privacy/gradient_descent.md``.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> fit = dpstats.gradient_descent("price ~ carat", diamonds, eps=1)
    >>> bool(5000 < fit.params["carat"] < 9500)
    True
    """
    eps = check("eps", eps)
    delta = check("delta", delta, "positive_delta")
    clip = check("clip", clip, "positive")
    steps = check("steps", steps, "count")
    learning_rate = check("learning_rate", learning_rate, "positive")
    standardize = check("standardize", standardize, "flag")
    one_of("schedule", schedule, tuple(_SCHEDULES))
    rates = learning_rate * np.array([_SCHEDULES[schedule](t) for t in range(1, steps + 1)])

    def plan(design, seeded):
        _estimate.one_response(design, "gradient_descent")
        return _plan(PublicDesign.of(design), eps, delta, clip, rates, standardize, seeded)

    def release(blocks, design, plan, rng):
        return _results(design, plan, _release(blocks, plan, rng))

    return _estimate.estimate(
        "gradient_descent",
        formula,
        data,
        bounds=bounds,
        levels=levels,
        by=by,
        ledger=ledger,
        seed=seed,
        plan=plan,
        release=release,
    )


@dataclass(frozen=True)
class _Plan:
    """Everything public."""

    guarantee: Guarantee
    public: PublicDesign
    mus: dict
    clip: float
    rates: np.ndarray
    standardize: bool


def _plan(public, eps, delta, clip, rates, standardize, seeded):
    steps = (
        preparation(public, _SHARES) if standardize else [Step("count", "number of rows", _SHARES["count"])]
    )
    steps.append(Step("gradients", "gradients", _SHARES["gradients"], len(rates)))
    mus, guarantee = divide(eps, delta, steps, seeded)
    return _Plan(guarantee, public, mus, clip, rates, standardize)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases: the preparation, and the last iterate, (q,)."""

    prepared: Prepared
    coefficients: np.ndarray


def _release(blocks, plan, rng):
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``plan.guarantee``, one record added or removed: a row moves a step's sum by at most ``clip``.
    Argument: ``docs/privacy/gradient_descent.md``.
    """
    prepared, frame = bounded_rows("gradient_descent", blocks, plan, rng)
    u = np.zeros(len(prepared.affine.columns))
    if prepared.flat_response:
        return _Release(prepared, u)
    rows, count = Whitened(blocks, frame), max(prepared.count, 1.0)
    for rate in plan.rates:
        u = u + rate / count * product_gradient(
            rows, u, (math.inf, math.inf), plan.clip, plan.mus["gradients"], rng
        )
    return _Release(prepared, u)


def _results(design, plan, release):
    """Results from the release alone."""
    return regression_results(
        "Noisy gradient descent",
        design,
        plan.guarantee,
        release.prepared,
        release.coefficients,
        None,
        None,
        winsorized=plan.standardize,
        rounds=len(plan.rates),
    )
