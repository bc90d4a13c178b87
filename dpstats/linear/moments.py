"""What ``adassp``, ``boosted_adassp`` and ``gradient_descent`` share: rows within a radius, and a ridge for noise."""

import math

import numpy as np

from dpstats.errors import ReleaseFailed
from dpstats.linear.prepare import Budget, Prepared, prepare
from dpstats.linear.scores import Frame
from dpstats.mechanisms.standardize import release_count
from dpstats.mechanisms.whiten import Stage

__all__ = ["REACH", "bounded_rows", "check_rows", "row_radius", "shrinkage_bias", "spectral_floor"]

REACH = math.sqrt(2.0)
"""Columns are winsorised at this multiple of their private range."""
_STAGE = 2.0, 0.05
"""Clip rule (c, L) of the whitening: what noise hides, or is below a twentieth of the rows, stays small."""
_RADIUS = 1.5
"""Standardised rows are shortened to this multiple of their root mean square length."""
_SCALE_NOISE = 0.2
"""Refuse if the threshold for a visible octave exceeds this share of the rows."""
_VISIBLE = 8.0


def bounded_rows(method, blocks, plan, rng, whitening=False):
    """Standardise if the plan says so: what is released, and the map to the coordinates of the fit.

    Parameters
    ----------
    method : str
    blocks : iterable of (X, Y)
    plan : object
        With ``public``, ``mus``, ``guarantee`` and ``standardize``.
    rng : Randomness
    whitening : bool
        Whether one stage of whitening follows the standardisation, for which the plan then has a budget.

    Returns
    -------
    prepared : Prepared
    frame : Frame

    Notes
    -----
    **Privacy.** As :func:`~dpstats.linear.prepare.prepare`; without standardisation the count alone is released.
    """
    if not plan.standardize:
        prepared = Prepared.raw(release_count(blocks, plan.mus["count"], rng), len(plan.public.scale))
        return prepared, Frame.of(prepared, False)
    keys = "count", "location", "scale", "response_location", "response_scale"
    stages = (Stage(*_STAGE, plan.mus["whitening"], response=False),) if whitening else ()
    budget = Budget(*(plan.mus[key] for key in keys), stages)
    prepared = prepare(blocks, plan.public, budget, rng, lambda n: check_rows(method, plan, n), REACH)
    if len(prepared.affine.columns) == 0:
        raise ReleaseFailed(
            f"{method}: no column of the formula shows any variation beyond the privacy noise."
        )
    return prepared, Frame.of(prepared, True)


def check_rows(method, plan, count):
    """Refuse where the noise of the standardisation would swamp the rows: public facts and the released count."""
    columns = len(plan.public.free)
    if not columns:
        return
    need = _VISIBLE * math.sqrt(columns) / plan.mus["scale"] / _SCALE_NOISE
    if count < need:
        raise ReleaseFailed(
            f"{method}: {columns} column{'s' * (columns > 1)} of unknown range at eps = {plan.guarantee.eps:.4g} need about {need:,.0f} "
            f"rows, and the private count is {max(count, 0):,.0f}. Nothing was fitted. Fewer columns of that sort, as by "
            "bounds={...}, or a larger eps would do.",
            plan.guarantee.replace(spends=plan.guarantee.spends[:1]),
        )


def row_radius(q):
    """Norm to which standardised rows of `q` coordinates are shortened by default."""
    return _RADIUS * math.sqrt(q)


def spectral_floor(gram, noise):
    """Ridge that keeps a noisy Gram matrix away from zero.

    Parameters
    ----------
    gram : (q, q) array
        With symmetric noise of standard deviation `noise` on the diagonal and ``noise / sqrt(2)`` off it.
    noise : float

    Returns
    -------
    float
        ``max(0, c - l)``, where ``c = sqrt(2 q) noise`` bounds the noise's spectral norm and ``l``, the least
        eigenvalue of `gram` less ``c``, is a lower bound of the true one's.

    Notes
    -----
    Wang (2018) releases the least eigenvalue separately; the released matrix bounds it at no further cost.
    """
    c = math.sqrt(2 * len(gram)) * noise
    return max(0.0, c - max(0.0, float(np.linalg.eigvalsh(gram)[0]) - c))


def shrinkage_bias(A, ridge, theta, spread):
    """Squared bias of ridge regression along the axes of its matrix, as a matrix to add to the covariance.

    Along an axis with eigenvalue ``a`` the estimate is ``1 - ridge/a`` of the target on average. The square of the
    target is that of the estimate less its variance.

    Parameters
    ----------
    A : (q, q) array
        Gram matrix plus ridge.
    ridge : float
    theta : (q,) array
    spread : (q, q) array
        Covariance of `theta`.
    """
    values, vectors = np.linalg.eigh(A)
    lost = np.clip(ridge / np.maximum(values, 1e-300), 0.0, 1.0)
    squares = np.maximum((vectors.T @ theta) ** 2 - np.sum(vectors * (spread @ vectors), axis=0), 0.0)
    return (vectors * (lost / np.maximum(1 - lost, 0.05)) ** 2 * squares) @ vectors.T
