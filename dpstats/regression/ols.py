"""Private least squares with no bounds and no tuning: standardise, whiten, then clipped gradient rounds."""

import math
from dataclasses import dataclass, replace

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
    outside_score,
    product_gradient,
    product_level,
    residual_variance,
)
from dpstats.mechanisms.whiten import Affine, Stage, release_gram
from dpstats.privacy.guarantee import Guarantee
from dpstats.selection.within_old import with_selection

__all__ = ["ols"]

_SHARES = {
    "count": 0.01,
    "location": 0.06,
    "scale": 0.11,
    "response_location": 0.03,
    "response_scale": 0.03,
    "gram": 0.05,
    "level": 0.04,
    "choice": 0.015,
    "first rounds": 0.03,
    "rounds": 0.34,
    "sigma": 0.02,
}
"""Shares of mu^2; the whitening stages have the rest."""
_STAGES = ((2.0, 0.0, 0.08), (2.0, 0.25, 0.07), (2.0, 0.5, 0.05), (2.0, 1.0, 0.07))
"""Clip rule (c, L) and share of each whitening stage."""
_LEVELS = 2
_FIRST, _ROUNDS = 3, 6
_CLIP_LOSS = 0.002
"""Products are clipped where none are visible, or earlier: where the noise costs this share of the variance."""
_EVIDENCE = 3.0
"""Standard errors of the private comparison that decide between narrow and wide limits."""
_NEAR_EXACT = 0.01
"""Without evidence the limits are wide if the first fit leaves less than this share of the variance."""
_SINGLE = 0.1
"""Wide limits lie where one row with one standardised coefficient of 1 has this share of the sum of squares."""
_VARIANCE_NOISE, _CEILINGS = 0.08, (9.0, 64.0)
"""Squared residuals are cut where the noise is 8 % of the variance, at 3 to 8 standard deviations."""


@guarded
def ols(
    formula,
    data,
    *,
    eps,
    delta=1e-6,
    winsorize="auto",
    select=None,
    cov_type="formula",
    bounds=None,
    levels=None,
    by=None,
    ledger=None,
    seed=None,
):
    r"""Differentially private least squares, with nothing to tune and no bound to guess.

    Columns are standardised and whitened privately, and noisy gradient rounds with clipped contributions lead to
    the least-squares fit.

    Parameters
    ----------
    formula : str
        Such as ``"price ~ carat + clarity"``; see :doc:`formulas`.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
        Anything tabular; see :mod:`dpstats.data.sources`.
    eps : float
        Privacy budget; positive.
    delta : float
        In (0, 1); far below one over the number of rows.
    winsorize : {"auto", True, False}
        Whether to move the values of every column without `bounds` into limits, in the fit and in ``predict()``;
        the table names them. Without limits a single row far out, which a private fit cannot follow, may get an
        absurd prediction. True takes the private range (times 1.4). ``"auto"`` compares it privately (1.5 % of
        ``mu^2``) with limits of ``sqrt(n / 10)`` standard deviations, by how either predicts the rows between
        them; where that does not decide, it takes the wide ones if the first fit leaves less than 1 % of the
        variance.
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
        ``params``, ``bse``, ``conf_int()``, ``summary()``, ``rsquared``, ``f_test()``, ``guarantee`` ...

    Raises
    ------
    ReleaseFailed
        If there are too few rows for so many columns of unknown range, or if no column shows any variation. All of the
        budget is spent; in the first case only the count's part under a ledger that adds up by zCDP or GDP.
    ParameterError, FormulaError, SchemaError, BudgetExceeded

    Notes
    -----
    **Method.** A private location and scale of every column; four noisy Gram matrices, each in the metric of
    the one before, which make the covariates ``v = W' z`` nearly orthonormal; then nine rounds

    .. math:: u \leftarrow u + \frac1{\tilde n} \Bigl(\sum_i \mathrm{clip}_C(v_i w_i (y_i - u^\top v_i)) + N_t\Bigr),

    of which the last six are averaged. ``C`` is twice the highest half-octave of the products that visibly holds
    rows, and ``w`` limits the leverage of rows far out. A column that shows no variation beyond the noise leaves the
    model, and the table says so.

    **Privacy.** ``(eps, delta)``-DP; neighbours: one record added or removed. All steps are Gaussian and compose
    exactly (mu-GDP). Proof: ``docs/privacy/ols.md``.

    **Standard errors** cover sampling and privacy noise. The noise of averaged rounds is known; the sampling part is
    that of homoskedastic errors, from a released Gram matrix and residual variance; what the rounds leave of the
    first fit is added in quadrature, and notes below the table say how much that is. With ``cov_type="bootstrap"`` it
    is taken off the estimates instead. Contributions of rows beyond the clip are a bias that neither knows of.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> fit = dpstats.ols("price ~ carat + clarity", diamonds, eps=1)
    >>> bool(7500 < fit.params["carat"] < 9000)
    True
    """
    if not isinstance(winsorize, bool) and not (isinstance(winsorize, str) and winsorize == "auto"):
        fail("winsorize", winsorize, "'auto', True or False")
    eps = check("eps", eps)
    delta = check("delta", delta, "positive_delta")
    cov_type = check_cov_type(cov_type)

    def plan(design, seeded, eps, delta):
        _estimate.one_response(design, "ols")
        return _plan(PublicDesign.of(design), eps, delta, winsorize, seeded)

    def release(blocks, design, plan, rng):
        return _results(design, plan, _release(blocks, plan, rng), cov_type)

    plan, release = with_selection(select, eps, delta, plan, release, by=by)
    return _estimate.estimate(
        "ols",
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
    """Everything public: the budget of every step, and what is known about the columns."""

    guarantee: Guarantee
    public: PublicDesign
    budget: Budget
    mus: dict
    winsorize: bool | str


def _plan(public, eps, delta, winsorize, seeded):
    steps = [
        *preparation(public, _SHARES),
        *(
            Step(f"stage {i}", f"whitening, Gram matrix {i + 1}", share)
            for i, (_, _, share) in enumerate(_STAGES)
        ),
        Step("gram", "Gram matrix for the standard errors", _SHARES["gram"]),
        Step("choice", "choice between narrow and wide limits", _SHARES["choice"] * (winsorize == "auto")),
        Step("level", "clip level of the products", _SHARES["level"], _LEVELS),
        Step("first rounds", "gradients, first rounds", _SHARES["first rounds"], _FIRST),
        Step("rounds", "gradients, averaged rounds", _SHARES["rounds"], _ROUNDS),
        Step("sigma", "residual variance", _SHARES["sigma"]),
    ]
    mus, guarantee = divide(eps, delta, steps, seeded)
    stages = tuple(Stage(c, L, mus[f"stage {i}"]) for i, (c, L, _) in enumerate(_STAGES))
    keys = "count", "location", "scale", "response_location", "response_scale"
    budget = Budget(*(mus[key] for key in keys), stages)
    return _Plan(guarantee, public, budget, mus, winsorize)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases, in coordinates ``v`` of the whitened design and of the standardised response.

    Attributes
    ----------
    prepared : Prepared
        Count, standardisation, whitening and first fit.
    coefficients : (q,) array
        Average of the last iterates.
    gram : (q, q) array
        Gram matrix of ``v`` over the number of rows.
    gram_noise : float
        Standard deviation of the noise on its diagonal.
    clips : (T,) array
        Norm to which products were shortened, by round.
    variance : float
        Mean squared residual.
    winsorized : bool
        Whether the columns were moved into their private ranges.
    """

    prepared: Prepared
    coefficients: np.ndarray
    gram: np.ndarray
    gram_noise: float
    clips: np.ndarray
    variance: float
    winsorized: bool


def _release(blocks, plan, rng):
    """The mechanism: rows in, released values out.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Finite C-contiguous float arrays, (n, d) and (n, 1); re-iterable.
    plan : _Plan
    rng : Randomness

    Returns
    -------
    _Release

    Raises
    ------
    ReleaseFailed

    Notes
    -----
    **Privacy.** ``plan.guarantee``, one record added or removed. Every pass over the rows is a sum to which a row
    adds a bounded vector, in coordinates fixed by what has been released before, plus Gaussian noise; the bounds are
    those of :func:`~dpstats.linear.prepare.prepare`, :func:`~dpstats.mechanisms.whiten.release_gram` and the
    functions of :mod:`dpstats.linear.scores`. Argument: ``docs/privacy/ols.md``.
    """
    reach = REACH if plan.winsorize else math.inf
    prepared = prepare(blocks, plan.public, plan.budget, rng, lambda n: check_rows("ols", plan, n), reach)
    whitening, count, mus = prepared.whitening, max(prepared.count, 1.0), plan.mus
    q = len(prepared.affine.columns)
    if q == 0:
        raise ReleaseFailed("ols: no column of the formula shows any variation beyond the privacy noise.")
    if prepared.flat_response:
        return _Release(prepared, np.zeros(q), np.eye(q), 0.0, np.zeros(0), 0.0, bool(plan.winsorize))
    u = np.linalg.solve(whitening.W, whitening.theta)
    winsorized = bool(plan.winsorize)
    if plan.winsorize == "auto":
        prepared = _choose(blocks, prepared, mus["choice"], rng)
    rows = Whitened(blocks, Frame.of(prepared, winsorized))
    radius2 = curvature_radius2(q, count, mus["gram"])
    gram = release_gram(
        rows, Affine(np.arange(q), np.zeros(q), np.ones(q)), np.eye(q), radius2, mus["gram"], rng
    )
    most = math.sqrt(_CLIP_LOSS * _ROUNDS / q) * mus["rounds"] * count
    limits = whitening.radius2, math.inf
    clips, kept = [], []
    for t in range(_FIRST + _ROUNDS):
        if t in (0, _FIRST):
            level = product_level(rows, u, limits, mus["level"], rng)
            clip = min(2 * level, most) if level else most
        mu = mus["first rounds"] if t < _FIRST else mus["rounds"]
        u = u + product_gradient(rows, u, limits, clip, mu, rng) / count
        clips.append(clip)
        if t >= _FIRST:
            kept.append(u)
    u = np.mean(kept, axis=0)
    cut = min(max(_VARIANCE_NOISE * count * mus["sigma"], _CEILINGS[0]), _CEILINGS[1]) * whitening.sigma**2
    variance = residual_variance(rows, u, cut, count, mus["sigma"], rng)
    least = 2 * cut / mus["sigma"] / count
    return _Release(
        prepared,
        u,
        gram / count,
        radius2 / mus["gram"] / count,
        np.array(clips),
        max(variance, least),
        winsorized,
    )


def _choose(blocks, narrow, mu, rng):
    """Narrow or wide limits of the columns: by how the rows in between are predicted, if enough of them are there."""
    a = narrow.affine
    half = np.maximum(
        (narrow.high - narrow.low)[a.columns] / 2, math.sqrt(_SINGLE * max(narrow.count, 1.0)) * a.scale
    )
    low, high = narrow.low.copy(), narrow.high.copy()
    low[a.columns], high[a.columns] = a.loc - half, a.loc + half
    wide = replace(narrow, low=low, high=high)
    frames = Frame.of(narrow, True), Frame.of(wide, True)
    score = outside_score(blocks, *frames, narrow.whitening.theta, mu, rng)
    if abs(score) * mu > _EVIDENCE:
        return wide if score > 0 else narrow
    return narrow if narrow.whitening.sigma**2 > _NEAR_EXACT else wide


def _inference(plan, release, cov_type):
    """What the rounds' noise, and what they leave of the first fit, mean for the coefficients."""
    prepared, whitening = release.prepared, release.prepared.whitening
    count, q = max(prepared.count, 1.0), len(release.coefficients)
    gram, gram_noise = shrunken(release.gram, release.gram_noise, prepared.whitening.share)
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, gram_noise)
    noises = release.clips / np.repeat([plan.mus["first rounds"], plan.mus["rounds"]], [_FIRST, _ROUNDS])
    noise, left = averaged_noise(np.clip(1 - values, -0.9, 1.0), _FIRST, (noises / count) ** 2)
    start = np.linalg.solve(whitening.W, whitening.theta)
    moved = vectors.T @ (release.coefficients - start)
    # the average is (1 - left) of the way from the first fit to the target
    bias = np.minimum(left / np.maximum(1 - left, 0.05), 1.0) * moved
    variances = noise + (1 - left) ** 2 * release.variance / (values * count) + bias**2
    corrected = None
    if cov_type == "bootstrap":
        rounds = rounds_response(np.eye(q) / count, start, _FIRST, noises)
        curvature = (vectors * values) @ vectors.T * count
        corrected = bootstrap(release.coefficients, curvature, 0.0, release.variance, rounds, MOST * count)
    limit = float(release.clips[-1]) / math.sqrt(q) * float(prepared.response.scale[0])
    notes = (
        *stops_short(left, "the first fit", cov_type),
        f"A row counts as if its residual were at most {limit:.3g} (where its columns are of average size; less far out).",
    )
    return Inference((vectors * variances) @ vectors.T, float(noise @ values), gram, notes, corrected)


def _results(design, plan, release, cov_type):
    """Results from the release alone."""
    return regression_results(
        "Private OLS",
        design,
        plan.guarantee,
        release.prepared,
        release.coefficients,
        None if release.prepared.flat_response else _inference(plan, release, cov_type),
        release.variance,
        winsorized=release.winsorized,
        rounds=_FIRST + _ROUNDS,
    )
