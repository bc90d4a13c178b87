"""Private Huber regression at a fixed, privately released scale."""

import math
from dataclasses import dataclass

import numpy as np

from dpstats._boundary import guarded
from dpstats._validation import check, fail
from dpstats.errors import ReleaseFailed
from dpstats.estimation import pipeline as _estimate
from dpstats.linear.bootstrap import MOST, bootstrap, check_cov_type, rounds_response
from dpstats.linear.budget import Step, divide, preparation
from dpstats.linear.curvature import curvature_radius2, shrunken
from dpstats.linear.moments import REACH, check_rows
from dpstats.linear.prepare import Budget, Prepared, PublicDesign, prepare
from dpstats.linear.results import Inference, regression_results, stops_short
from dpstats.linear.scores import (
    Frame,
    Whitened,
    averaged_noise,
    product_gradient,
    product_level,
    psi_moments,
    residual_scale,
)
from dpstats.mechanisms.whiten import Affine, Stage, release_gram
from dpstats.privacy.guarantee import Guarantee
from dpstats.selection.within_old import with_selection

__all__ = ["huber"]

_SHARES = {
    "count": 0.01,
    "location": 0.06,
    "scale": 0.11,
    "response_location": 0.03,
    "response_scale": 0.03,
    "gram": 0.05,
    "residual scale": 0.02,
    "psi": 0.04,
    "level": 0.04,
    "first rounds": 0.05,
    "rounds": 0.29,
}
"""Shares of mu^2; the whitening stages have the rest."""
_STAGES = ((2.0, 0.0, 0.08), (2.0, 0.25, 0.07), (2.0, 0.5, 0.05), (2.0, 1.0, 0.07))
"""Clip rule (c, L) and share of each whitening stage."""
_FEWEST, _ROUNDS = 6, 14
_CLIP_LOSS = 0.002
"""Products are clipped where none are visible, or earlier: where the noise costs this share of the variance."""


@guarded
def huber(
    formula,
    data,
    *,
    eps,
    delta=1e-6,
    c=1.345,
    rounds=None,
    select=None,
    cov_type="formula",
    bounds=None,
    levels=None,
    by=None,
    ledger=None,
    seed=None,
):
    r"""Differentially private Huber regression.

    Like least squares for small residuals and like median regression for large ones, so that outliers of the
    response count for little.

    Parameters
    ----------
    formula : str
        Such as ``"price ~ carat + clarity"``; see :doc:`formulas`.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
    eps : float
        Privacy budget; positive.
    delta : float
        In (0, 1); far below one over the number of rows.
    c : float
        Residuals beyond `c` times the residual scale count as if they were there. 1.345 is 95 % efficient for
        normal errors; as `c` goes to 0 the fit goes to median (LAD) regression.
    rounds : int, optional
        Number of rounds, at least 6; a third of them start with least squares and lead to the Huber fit, and the
        others are averaged. By default 14.
    select : int, optional
        Choose this many terms privately first (:func:`dpstats.select_features`), at 5 % of the budget, and fit them.
    cov_type : {"formula", "bootstrap"}
        Standard errors by formula, or by a parametric bootstrap: the rounds are simulated from released values, and
        the estimates are corrected for the bias that shows. It costs no privacy, and takes milliseconds.
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
        ``sigma`` is the fixed scale: the median absolute residual of a first least-squares fit, over 0.6745.

    Raises
    ------
    ReleaseFailed
        If there are too few rows for so many columns of unknown range, or if no column shows any variation. All of the
        budget is spent; in the first case only the count's part under a ledger that adds up by zCDP or GDP.
    ParameterError, FormulaError, SchemaError, BudgetExceeded

    Notes
    -----
    **Method.** With :math:`\psi(r) = \max(-c\sigma, \min(c\sigma, r))` the estimate solves

    .. math:: \sum_i x_i\, \psi(y_i - x_i^\top \theta) = 0.

    Rows are standardised and whitened as in :func:`dpstats.ols`; Newton rounds
    :math:`u \leftarrow u + \frac{1}{n p}\bigl(\sum \mathrm{clip}(v \psi) + N_t\bigr)` follow, ``p`` the released share of
    residuals within the threshold. This is the fixed point of BoostedAdaSSP (Tang et al. 2023, theorem A.5).

    **Privacy.** ``(eps, delta)``-DP; neighbours: one record added or removed. All steps are Gaussian and compose
    exactly (mu-GDP). Proof: ``docs/privacy/huber.md``.

    **Standard errors** are those of an M-estimator, ``mean(psi^2) / p^2`` in place of the residual variance, both
    released, and cover the noise of the rounds. They assume errors that do not depend on the covariates.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> fit = dpstats.huber("price ~ carat", diamonds, eps=1)
    >>> bool(6500 < fit.params["carat"] < 8500)
    True
    """
    eps = check("eps", eps)
    delta = check("delta", delta, "positive_delta")
    cov_type = check_cov_type(cov_type)
    c = check("c", c, "positive")
    rounds = check("rounds", rounds, "count", optional=True)
    if rounds is not None and rounds < _FEWEST:
        fail("rounds", rounds, f"None or an integer of at least {_FEWEST}")

    def plan(design, seeded, eps, delta):
        _estimate.one_response(design, "huber")
        return _plan(PublicDesign.of(design), eps, delta, c, rounds or _ROUNDS, seeded)

    def release(blocks, design, plan, rng):
        return _results(design, plan, _release(blocks, plan, rng), cov_type)

    plan, release = with_selection(select, eps, delta, plan, release, by=by)
    return _estimate.estimate(
        "huber",
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
    budget: Budget
    mus: dict
    c: float
    squares: int
    first: int
    rounds: int


def _plan(public, eps, delta, c, rounds, seeded):
    squares, first = rounds // 6 + 1, rounds // 6
    rounds -= squares + first
    steps = [
        *preparation(public, _SHARES),
        *(Step(f"stage {i}", f"whitening, Gram matrix {i + 1}", s) for i, (_, _, s) in enumerate(_STAGES)),
        Step("gram", "Gram matrix for the standard errors", _SHARES["gram"]),
        Step("residual scale", "residual scale", _SHARES["residual scale"]),
        Step("psi", "share and mean square of limited residuals", _SHARES["psi"], 2),
        Step("level", "clip level of the products", _SHARES["level"], 2),
        Step("first rounds", "gradients, first rounds", _SHARES["first rounds"], squares + first),
        Step("rounds", "gradients, averaged rounds", _SHARES["rounds"], rounds),
    ]
    mus, guarantee = divide(eps, delta, steps, seeded)
    stages = tuple(Stage(c_, L, mus[f"stage {i}"]) for i, (c_, L, _) in enumerate(_STAGES))
    keys = "count", "location", "scale", "response_location", "response_scale"
    budget = Budget(*(mus[key] for key in keys), stages)
    return _Plan(guarantee, public, budget, mus, c, squares, first, rounds)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases, in coordinates ``v`` of the whitened design and of the standardised response.

    Attributes
    ----------
    prepared : Prepared
    start : (q,) array
        Least-squares coefficients, from which the Huber rounds start.
    coefficients : (q,) array
        Average of the last iterates.
    gram : (q, q) array
        Gram matrix of ``v`` over the number of rows.
    gram_noise : float
        Standard deviation of the noise on its diagonal.
    sigma : float
        Residual scale.
    step : float
        Share of residuals within the threshold at the start: the curvature that the rounds assumed.
    share, square : float
        The same at the end, and the mean of ``(psi / threshold)^2``.
    noises : (T,) array
        Standard deviation of the noise of each Huber round, over the number of rows.
    """

    prepared: Prepared
    start: np.ndarray
    coefficients: np.ndarray
    gram: np.ndarray
    gram_noise: float
    sigma: float
    step: float
    share: float
    square: float
    noises: np.ndarray


def _release(blocks, plan, rng):
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``plan.guarantee``, one record added or removed; see
    :func:`~dpstats.linear.scores.product_gradient` and its neighbours for the sensitivity of each step, and
    ``docs/privacy/huber.md`` for the argument.
    """
    prepared = prepare(blocks, plan.public, plan.budget, rng, lambda n: check_rows("huber", plan, n), REACH)
    whitening, count, mus = prepared.whitening, max(prepared.count, 1.0), plan.mus
    q = len(prepared.affine.columns)
    if q == 0:
        raise ReleaseFailed("huber: no column of the formula shows any variation beyond the privacy noise.")
    if prepared.flat_response:
        return _Release(prepared, np.zeros(q), np.zeros(q), np.eye(q), 0.0, 0.0, 1.0, 1.0, 1.0, np.zeros(0))
    rows = Whitened(blocks, Frame.of(prepared, True))
    radius2 = curvature_radius2(q, count, mus["gram"])
    gram = release_gram(
        rows, Affine(np.arange(q), np.zeros(q), np.ones(q)), np.eye(q), radius2, mus["gram"], rng
    )
    u = np.linalg.solve(whitening.W, whitening.theta)
    limits, step = (whitening.radius2, math.inf), 1.0
    noises, kept = [], []
    for t in range(plan.squares + plan.first + plan.rounds):
        if t == plan.squares:
            start = u
            sigma = residual_scale(rows, u, whitening.sigma, count, mus["residual scale"], rng)
            limits = whitening.radius2, plan.c * sigma
            step, _ = psi_moments(rows, u, plan.c * sigma, count, mus["psi"], rng)
        if t in (0, plan.squares):
            most = math.sqrt(_CLIP_LOSS * plan.rounds / q) * mus["rounds"] * count * step
            level = product_level(rows, u, limits, mus["level"], rng)
            clip = min(2 * level, most) if level else most
        mu = mus["first rounds"] if t < plan.squares + plan.first else mus["rounds"]
        u = u + product_gradient(rows, u, limits, clip, mu, rng) / (count * step)
        noises.append(clip / mu / count)
        if t >= plan.squares + plan.first:
            kept.append(u)
    u = np.mean(kept, axis=0)
    share, square = psi_moments(rows, u, limits[1], count, mus["psi"], rng)
    gram_noise = radius2 / mus["gram"] / count
    noises = np.array(noises[plan.squares :])
    return _Release(prepared, start, u, gram / count, gram_noise, sigma, step, share, square, noises)


def _inference(plan, release, cov_type):
    """What the rounds' noise, and what they leave of least squares, mean for the coefficients."""
    prepared, count, q = release.prepared, max(release.prepared.count, 1.0), len(release.coefficients)
    gram, gram_noise = shrunken(release.gram, release.gram_noise, prepared.whitening.share)
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, gram_noise)
    slope = release.share / release.step
    noise, left = averaged_noise(
        np.clip(1 - values * slope, -0.9, 1.0), plan.first, (release.noises / release.step) ** 2
    )
    moved = vectors.T @ (release.coefficients - release.start)
    bias = np.minimum(left / np.maximum(1 - left, 0.05), 1.0) * moved
    threshold = plan.c * release.sigma
    psi2 = release.square * threshold**2
    sampling = (1 - left) ** 2 * psi2 / release.share**2 / (values * count)
    corrected = None
    if cov_type == "bootstrap":
        rounds = rounds_response(
            np.eye(q) / (count * release.step),
            release.start,
            plan.first,
            release.noises * count,
            release.share,
        )
        curvature = (vectors * values) @ vectors.T * count
        corrected = bootstrap(release.coefficients, curvature, 0.0, psi2, rounds, MOST * count / slope)
    notes = (
        *stops_short(left, "least squares", cov_type),
        f"Residuals beyond {threshold * float(prepared.response.scale[0]):.3g} count as if they were there.",
    )
    return Inference(
        (vectors * (noise + sampling + bias**2)) @ vectors.T, float(noise @ values), gram, notes, corrected
    )


def _results(design, plan, release, cov_type):
    """Results from the release alone."""
    return regression_results(
        "Huber regression",
        design,
        plan.guarantee,
        release.prepared,
        release.coefficients,
        None if release.prepared.flat_response else _inference(plan, release, cov_type),
        None,
        winsorized=True,
        rounds=plan.squares + plan.first + plan.rounds,
        sigma=release.sigma,
    )
