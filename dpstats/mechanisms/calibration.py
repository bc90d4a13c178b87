"""The constants of Laplace noise scaled by a smooth bound: which pairs ``(alpha, beta)`` are
``(eps, delta)``-DP.

``f + (S / alpha) Z`` with standard Laplace ``Z`` and a beta-smooth bound ``S`` of ``f`` compares two Laplace
laws: shifted by at most ``alpha`` and scaled by at most ``exp(beta)``. Proofs:
``docs/privacy/smooth_sensitivity.md``.
"""

import functools
import math
from collections.abc import Callable

from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaincc

__all__ = [
    "LARGEST_EPS",
    "calibrate",
    "dilation_divergence",
    "hockey_stick",
    "pair",
]

LARGEST_EPS = 700.0
"""A larger budget counts as this: there is no noise to speak of, and the exponentials leave the doubles."""


def _laplace_mass(a: float, b: float) -> float:
    """Mass of the standard Laplace law on ``(a, b)``, accurate in both tails."""
    if b <= a:
        return 0.0
    if a >= 0:
        return 0.5 * (math.exp(-a) - math.exp(-b))
    if b <= 0:
        return 0.5 * (math.exp(b) - math.exp(a))
    return 1 - 0.5 * math.exp(a) - 0.5 * math.exp(-b)


def hockey_stick(eps: float, lam: float, shift: float) -> float:
    r"""``sup_A P(A) - e^eps Q(A)`` for ``P`` standard Laplace and ``Q`` Laplace with scale ``e^lam`` about
    `shift`.

    The log-ratio of the densities is linear on three pieces of the line, so each holds at most one
    interval on which it exceeds `eps`, and the divergence is a sum of Laplace probabilities.

    Examples
    --------
    >>> round(hockey_stick(1.0, 0.0, 2.0), 6)  # 1 - exp(-1/2)
    0.393469
    """
    c = math.exp(-lam)

    def excess(x: float) -> float:
        return -abs(x) + abs(x - shift) * c + lam - eps

    left, right = min(0.0, shift), max(0.0, shift)
    # per piece: its ends, a point on it, and the slope of the excess there
    pieces = (
        (-math.inf, left, left, 1 - c),
        (left, right, left, -c - 1 if shift > 0 else 1 + c),
        (right, math.inf, right, c - 1),
    )
    total = 0.0
    for low, high, at, slope in pieces:
        if slope == 0:
            low, high = (low, high) if excess(at) > 0 else (0.0, 0.0)
        elif slope > 0:
            low = max(low, at - excess(at) / slope)
        else:
            high = min(high, at - excess(at) / slope)
        total += _laplace_mass(low, high) - math.exp(eps) * _laplace_mass(
            (low - shift) * c, (high - shift) * c
        )
    return total


def dilation_divergence(eps: float, beta: float, d: int) -> float:
    """Divergence at `eps` between ``d`` standard Laplace variables and the same times ``exp(-beta)``."""
    q = (eps + d * beta) / math.expm1(beta)
    return float(gammaincc(d, q) - math.exp(eps) * gammaincc(d, q * math.exp(beta)))


def _largest_beta(divergence: Callable[[float], float], eps: float, delta: float) -> float:
    """The largest beta (below `eps`) with ``divergence(beta) <= delta``, rounded down."""
    if divergence(eps) <= delta:
        return eps
    # the divergence is below exp(-eps / beta) up to constants; far below that it underflows to 0
    low = eps / (800 - math.log(delta))
    return brentq(lambda beta: divergence(beta) - delta, low, eps, xtol=1e-15, rtol=1e-12) * (1 - 1e-9)


@functools.lru_cache(maxsize=256)
def calibrate(eps: float, delta: float, d: int = 1) -> tuple[float, float]:
    """The pair ``(alpha, beta)`` with the largest product for which the Laplace release is DP.

    Parameters
    ----------
    eps, delta : float
        Budget of the release; both positive.
    d : int
        Number of coordinates. For one the calibration is exact (:func:`hockey_stick` of the worst pair); for
        more the shift by ``alpha`` is charged in full and the change of scale exactly.

    Returns
    -------
    alpha, beta : float
        The noise is ``S / alpha`` times standard Laplace on each coordinate, ``S`` a `beta`-smooth bound of
        the l1 local sensitivity.

    Examples
    --------
    >>> alpha, beta = calibrate(1.0, 1e-6)
    >>> round(alpha, 3), round(beta, 4)
    (0.532, 0.05)
    """
    eps = min(eps, LARGEST_EPS)
    # a loose tolerance: the product is flat at its maximum, and every pair on the frontier is valid
    found = minimize_scalar(
        lambda share: -math.prod(pair(share * eps, eps, delta, d)), bounds=(0.05, 0.95), method="bounded"
    )
    return pair(float(found.x) * eps, eps, delta, d)


def pair(alpha: float, eps: float, delta: float, d: int) -> tuple[float, float]:
    """The largest beta for an `alpha`, with it."""

    def divergence(beta: float) -> float:
        if d == 1:
            return hockey_stick(eps, -beta, alpha * math.exp(-beta))
        return 1.0 if d * beta > eps - alpha else dilation_divergence(eps - alpha, beta, d)

    return alpha, _largest_beta(divergence, eps - alpha, delta)
