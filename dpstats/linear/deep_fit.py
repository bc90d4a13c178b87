"""A deep point among fits on subsets: what is released of it, and what is known of its error."""

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpstats._types import Floats
from dpstats.linear.goodness import Goodness
from dpstats.linear.identify import BELOW, CERTAIN, HIDDEN
from dpstats.linear.prepare import Prepared
from dpstats.linear.subsets import fit_subsets
from dpstats.mechanisms import tukey
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.whiten import Whitening

__all__ = [
    "DEPTH",
    "GROUPS",
    "DeepFit",
    "axes_of",
    "covariance",
    "depth_of",
    "origin_of",
    "own_share",
    "pivot_variance",
    "ridge_of",
    "skewness_bias",
    "unseen_skewness",
    "usual_error",
]

GROUPS = 4
"""Groups of a subset's rows, left out in turn for its standard errors."""
DEPTH = 0.15
"""The draw is restricted to depth at least this share of the models."""
_RIDGE = 0.02
"""Ridge of the subsets' fits, in units of the noise floor of the whitening's first stage."""
_PIVOTS = 1024
"""Number of simulated draws, over all axes."""
_SEEN = 0.5
"""All directions are seen if the whitening left none with a mean square below this."""
_SMALL = 30
"""Subsets with more rows a coefficient are taken for large ones."""
_CHANCE = 4.0
"""The square of the greatest of `q` pulls counts as far as it exceeds ``4 + 2 ln q`` times its variance."""
_SKEW = 20.0
"""How far medians of subset fits may be off, over what the rows' pull says if rows are nearly normal."""
_LARGEST_LOG = 150.0
"""The square of its exponential is a double, and so are products with it."""
_NEGLIGIBLE = 0.01
"""A ridge that leaves no more than this share of the way does not matter."""
_SURE = 4.5
"""A small mean square of fewer standard deviations of its noise may be 0, too: of those that are smaller than
the noise shows the largest are seen, and they are smaller than they seem."""
_NEAR, _ALIKE = 0.95, 1e-6
"""Cosine of the angle from which on a direction is near to those that are known; and the size, over the
largest, below which one of these is no other than the rest."""
_DROWNED = 3.0
"""Nothing is determined where skewness that noise hides may do more than so many of noise's own errors."""
_BLIND = 0.02
"""Least standard error of a subset's fit, over what residuals and rows make of it, if most subsets see the
direction: a smaller one has a direction along which errors are some seventy times smaller, too."""


@dataclass(frozen=True)
class DeepFit:
    """What the mechanism releases.

    Attributes
    ----------
    prepared : Prepared or None
        Count, standardisation, whitening and first fit; None without whitening.
    count : float or None
        Number of rows plus noise.
    models : int
        Number of subsets used.
    axes : (q, q) array
        Orthonormal directions in the whitened coordinates, along which depth is measured.
    coefficients : (q,) array
        Along the axes, in the response's units, relative to the first fit.
    log_errors : (q,) array, or (0,)
        Logs of the standard errors of a subset's coefficients, as drawn.
    goodness : Goodness or None
    """

    prepared: Prepared | None
    count: float | None
    models: int
    axes: Floats
    coefficients: Floats
    log_errors: Floats
    goodness: Goodness | None


def axes_of(whitening: Whitening) -> Floats:
    """Directions in the whitened coordinates: near the columns' own, if the noise hides none of them."""
    if (np.diagonal(whitening.gram) - 2 * whitening.spread**2 < _SEEN).any():
        return np.eye(len(whitening.W))
    # W = P U with P symmetric: along the rows of U the coefficients are nearest to those of the columns
    left, _, right = np.linalg.svd(whitening.W)
    return (left @ right).T


def ridge_of(prepared: Prepared) -> Floats:
    """Ridge of the subsets' fits, for all rows and in the coordinates ``z``: 2 % of what is hard to see."""
    whitening = prepared.whitening
    return _RIDGE * (whitening.hidden + whitening.weak) * max(prepared.count, 1.0) / prepared.rows


def _first_fit(prepared: Prepared) -> Floats:
    """First fit of the centred response in the coordinates ``z``, shrunk where directions are hard to see."""
    whitening, count = prepared.whitening, max(prepared.count, 1.0)
    inverse = np.linalg.inv(whitening.W)
    gram = count * inverse.T @ inverse
    return np.linalg.solve(gram + ridge_of(prepared), gram @ whitening.theta) * prepared.response.scale[0]


def origin_of(prepared: Prepared) -> Floats:
    """What the released coefficients are relative to: first fit and location of the response, if centred."""
    origin = _first_fit(prepared)
    origin[0] += prepared.response.loc[0]
    return origin


def usual_error(prepared: Prepared, models: int) -> float:
    """About the standard error of a subset's coefficient in whitened coordinates, by the first fit."""
    residual = float(prepared.response.scale[0]) * prepared.whitening.sigma
    return residual * math.sqrt(models / max(prepared.count, 1.0))


def depth_of(m: int) -> int:
    """Depth to which the draw is restricted, of `m` models."""
    return max(int(DEPTH * m), 1)


@functools.lru_cache(maxsize=256)
def pivot_variance(m: int, k: int, eps: float) -> float:
    """Variance of ``released - c`` on one axis when the `m` fits are standard normal around ``c``.

    Simulated with a fixed seed through the same sampler; no data are involved.
    """
    generator = np.random.default_rng(20220816)
    rng = Randomness(seed=20220816)
    runs = max(16, -(-_PIVOTS // k))
    draws = [
        tukey.sample(tukey.Boxes.of(generator.standard_normal((m, k))), depth_of(m), eps, rng)
        for _ in range(runs)
    ]
    return float(np.mean(np.square(draws)))


@functools.lru_cache(maxsize=256)
def _true_square(rows: int, q: int) -> float:
    """Variance of a coefficient over the square of its median jackknife standard error.

    Simulated for normal columns and errors, with so many `rows` in each of the groups; no data are involved.
    """
    generator = np.random.default_rng(20220816)
    sets = max(64, _PIVOTS * GROUPS // q)
    rows = min(rows, _SMALL * q // GROUPS + 1)
    u = generator.standard_normal((sets * GROUPS, rows, q + 2))
    u[:, :, 0] = 1.0
    moments = u.transpose(0, 2, 1) @ u
    zero = np.zeros((q, q))
    logs = fit_subsets(np.zeros(sets), moments, np.eye(q), False, zero, np.zeros(q)).log_errors
    return math.exp(-2 * float(np.median(logs))) / max(rows * GROUPS - q - 1, 1)


def covariance(fit: DeepFit, prepared: Prepared, eps: float) -> tuple[Floats, Floats]:
    """Covariance of the released coefficients in whitened coordinates, and that of hidden directions.

    A direction is hidden if its mean square may be 0 for all that the noise shows: the ridge may then hold a
    fit at the origin, and nothing is known of its bias. Elsewhere the ridge leaves a known share of the way.
    An axis is hidden, too, if half of the subsets have no row that is not 0 along it, as of a column that is
    1 in few rows: their fits stay at the origin, whatever is left out, and the released error is next to 0,
    which is what is looked at. All axes are hidden where standard errors would be little else than what the
    noise hides of skewness (:func:`unseen_skewness`).
    """
    whitening, count = prepared.whitening, max(prepared.count, 1.0)
    squares = _square_errors(fit, prepared)
    pivot = pivot_variance(fit.models, 2 * len(fit.coefficients), eps)
    unseen = unseen_skewness(fit, prepared, eps)
    cov = (fit.axes * ((pivot + unseen) * squares)) @ fit.axes.T
    ridge = whitening.W.T @ ridge_of(prepared) @ whitening.W / count
    noise = whitening.spread**2
    gram = np.diagonal(whitening.gram)
    dark = gram - CERTAIN * noise <= HIDDEN
    safe = np.maximum(gram - BELOW * noise, HIDDEN)
    scale = float(prepared.response.scale[0])
    # the target explains no more of the first fit's residuals than they are
    unexplained = (scale * whitening.sigma) ** 2
    left = np.linalg.solve(np.diag(safe) + ridge, ridge)
    kept = np.clip(np.diagonal(left), 0.0, 1.0)
    reached = np.abs(fit.axes @ fit.coefficients) + 2 * np.sqrt(np.diagonal(cov))
    most = np.minimum(np.sqrt(unexplained / safe), reached / np.maximum(1 - kept, 1e-12))
    bias = np.where(dark, 0.0, np.abs(left) @ np.where(dark, 0.0, most))
    hidden = unexplained / HIDDEN * _hidden(prepared, noise, ridge)
    errors = np.sqrt(squares)
    usual = usual_error(prepared, fit.models)
    blind = errors < _BLIND * min(usual, float(np.max(errors)))
    blind |= unseen > _DROWNED**2 * pivot
    without = (fit.axes * np.where(blind, unexplained / HIDDEN, 0.0)) @ fit.axes.T
    return cov + np.diag(bias**2), hidden + without


def _hidden(prepared: Prepared, noise: Floats, ridge: Floats) -> Floats:
    """The projection onto directions, of axes together as well, in which fits may stay at the origin: (q, q).

    Where the mean square of one may be 0 a ridge keeps all, however small it is. So do subsets without a row
    of a level in the directions that only its rows have. These are known from the formula, and noise turns
    what the released Gram matrix shows of them: what is near to their span is taken to be in it.
    """
    whitening = prepared.whitening
    values, vectors = np.linalg.eigh(whitening.gram)
    errors = (vectors**2).T @ noise
    least = np.where(values < np.minimum(_SURE * errors, _SEEN), 0.0, values - CERTAIN * errors)
    ridges = np.einsum("ik,ij,jk->k", vectors, ridge, vectors)
    held = ridges / np.maximum(np.maximum(least, 0.0) + ridges, 1e-300) > _NEGLIGIBLE
    found, known = vectors[:, least <= HIDDEN], np.zeros((len(noise), 0))
    if found.size and prepared.made is not None:
        alone = [known, *(combinations for _, combinations, _ in prepared.made.alone(prepared.affine))]
        sizes, axes = np.linalg.svd(np.linalg.solve(whitening.W, np.hstack(alone)).T)[1:]
        known = axes[: len(sizes)][sizes > _ALIKE * max(sizes, default=0.0)].T
    turn, cosines, other = np.linalg.svd(found.T @ known, full_matrices=False)
    turn, known = turn[:, cosines > _NEAR], known @ other[cosines > _NEAR].T
    rest = (found - found @ turn @ turn.T)[:, held[least <= HIDDEN]]
    return np.asarray(known @ known.T + rest @ rest.T)


def _square_errors(fit: DeepFit, prepared: Prepared) -> Floats:
    """Variances of a subset's coefficients along the axes."""
    rows = max(round(max(prepared.count, 1.0) / fit.models / GROUPS), 1)
    logs = np.clip(fit.log_errors, -_LARGEST_LOG, _LARGEST_LOG)
    return np.asarray(_true_square(rows, len(fit.coefficients)) * np.exp(2 * logs))


def skewness_bias(back: Floats, fit: DeepFit, prepared: Prepared, eps: float) -> Floats:
    r"""Squares of what skewed errors may do to medians of subset fits: (d,).

    Where the share of rows that pull some coefficient up is :math:`1/2 + \Delta`, their pull is skewed, and
    so are fits on ``r`` rows: a median of fits with the standard deviation ``s`` is taken to be off by

    .. math:: \kappa \sqrt{2 \pi} \max |\Delta| s / \sqrt{r}.

    Nearly normal rows have :math:`\kappa = 1`; where errors grow with the mean, as those of counts and prices
    do, medians are off by more. ``docs/privacy/tukey_em.md`` has the reasons, and what was measured.

    Parameters
    ----------
    back : (d, q) array
        From whitened coordinates to the coefficients.
    fit : DeepFit
    prepared : Prepared
    eps : float
        Of the draw.
    """
    if fit.goodness is None:
        return np.zeros(len(back))
    least = _CHANCE + 2 * math.log(len(fit.coefficients))
    seen = max(float(np.max(fit.goodness.pull**2)) - least * _pull_variance(fit, prepared, eps), 0.0)
    bias = np.sqrt(_square_bias(fit, prepared) * seen * _square_errors(fit, prepared))
    return np.asarray((np.abs(back @ fit.axes) @ bias) ** 2)


def unseen_skewness(fit: DeepFit, prepared: Prepared, eps: float) -> float:
    """Mean square of what skewness that noise hides may do to medians of subset fits, over their variances.

    That of :func:`skewness_bias` for the variance of a pull, along each axis by itself.
    """
    if fit.goodness is None:
        return 0.0
    return _square_bias(fit, prepared) * _pull_variance(fit, prepared, eps)


def own_share(fit: DeepFit, prepared: Prepared, eps: float) -> float:
    """Share of sampling and privacy noise in their variance and that of unseen skewness together."""
    own = pivot_variance(fit.models, 2 * len(fit.coefficients), eps)
    return own / (own + unseen_skewness(fit, prepared, eps))


def _square_bias(fit: DeepFit, prepared: Prepared) -> float:
    """Square of how far a median is off, in standard deviations of a subset's fit, for a pull of 1."""
    return _SKEW**2 * 2 * math.pi * fit.models / max(prepared.count, 1.0)


def _pull_variance(fit: DeepFit, prepared: Prepared, eps: float) -> float:
    """Variance of a released pull if no row pulls more to one side than to the other."""
    assert fit.goodness is not None
    count = max(prepared.count, 1.0)
    # the release moves the share too: by E|v| f(0), about 0.3, a unit of sigma
    moved = 0.1 * pivot_variance(fit.models, 2 * len(fit.coefficients), eps) * fit.models / count
    return fit.goodness.noise**2 + 1 / (4 * count) + moved
