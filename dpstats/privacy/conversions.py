"""Conversions between forms of differential privacy: pure functions of numbers.

Every result errs on the safe side: a cost is rounded up and an allowance down, by a bound on the rounding
error of its own evaluation. The theorems are in ``docs/privacy/composition.md``.
"""

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr, ndtri

from dpstats._validation import check, fail

__all__ = [
    "bounded_range_rho",
    "gdp_delta",
    "gdp_eps",
    "gdp_mu",
    "gdp_rho",
    "gdp_split",
    "of_group",
    "pure_mu",
    "pure_rho",
    "to_substitution",
    "zcdp_eps",
    "zcdp_rho",
]

ULP = 2.0**-52
_ROOT = {"xtol": 5e-324, "rtol": 4 * ULP, "maxiter": 500}
_Real = TypeVar("_Real", float, NDArray[np.float64])
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def round_up(x: float, error: float = ULP) -> float:
    """`x` enlarged by the relative `error` of its evaluation."""
    return x * (1 + 2 * error)


def round_down(x: float, error: float = ULP) -> float:
    """`x` reduced by the relative `error` of its evaluation."""
    return x * (1 - 2 * error)


def _largest(excess: Callable[[float], float], over: Callable[[float], bool], low: float) -> float:
    """The root of the increasing `excess`, sought from `low`, then smaller until it is not `over`."""
    while excess(low) > 0:
        low /= 2
    while excess(2 * low) <= 0:
        low *= 2
    x: float = brentq(excess, low, 2 * low, **_ROOT)
    step = ULP
    while over(x):
        x, step = x * (1 - step), 2 * step
    return x


# Gaussian differential privacy ------------------------------------------------------------------------


def _mills(t: _Real) -> _Real:
    """``Phi(-t) / phi(t)``, finite for ``t > -37``."""
    ratio: _Real = math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2))
    return ratio


def _mills_slope(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """``1 - t * _mills(t)``, minus the derivative of Mills' ratio, without cancellation."""
    far = np.maximum(t, 3)
    k = np.zeros_like(far)
    for n in range(80, 0, -1):  # Laplace's continued fraction; 80 terms give full precision from t = 3
        k = n / (far + k)
    return np.where(t > 3, k / (far + k), 1 - t * _mills(np.minimum(t, 3)))


def _log_gdp_delta(mu: float, eps: float) -> float:
    """Upper bound of ``log delta``, above the truth by no more than its rounding error.

    With ``x = eps/mu - mu/2`` the curve is ``phi(x) * (R(x) - R(x + mu))``, ``R`` being Mills' ratio.
    """
    x, y = eps / mu - mu / 2, eps / mu + mu / 2
    if x > 1e5:  # delta <= Phi(-x) < exp(-x^2 / 2): far below the least double
        return -x * x / 2
    log_phi = -x * x / 2 - math.log(2 * math.pi) / 2
    if mu < 0.5:  # the difference would cancel: integrate its derivative, all of one sign
        log_delta = log_phi + math.log(mu * float(_WEIGHTS @ _mills_slope(x + mu * (1 + _NODES) / 2)) / 2)
    elif x >= 0:
        log_delta = log_phi + math.log(_mills(x) - _mills(y))
    else:
        log_delta = math.log(ndtr(-x) - math.exp(log_phi) * _mills(y))
    return log_delta + ULP * (64 + 4 * x * x + 4 * abs(x) * y)


def gdp_delta(mu: float, eps: float) -> float:
    r"""The least ``delta`` at which a `mu`-GDP mechanism is ``(eps, delta)``-DP.

    .. math:: \delta = \Phi(-\varepsilon/\mu + \mu/2) - e^{\varepsilon}\,\Phi(-\varepsilon/\mu - \mu/2)

    Parameters
    ----------
    mu : float
        Positive: the parameter of Gaussian differential privacy. Gaussian noise of standard deviation
        ``s / mu`` on a statistic of l2-sensitivity ``s`` is `mu`-GDP.
    eps : float
        Non-negative.

    Returns
    -------
    float
        In ``(0, 1]``, above the exact value by a relative 1e-10 at most where that is at least 1e-300.

    References
    ----------
    Dong, Roth & Su (2022), Gaussian differential privacy, Corollary 2.13; Balle & Wang (2018), Theorem 8.

    Examples
    --------
    >>> round(gdp_delta(1, 1), 9)
    0.126936738
    >>> f"{gdp_delta(0.1, 1):.1e}"
    '1.2e-25'
    """
    mu, eps = check("mu", mu, "positive"), check("eps", eps, "nonnegative")
    return min(1.0, max(math.exp(_log_gdp_delta(mu, eps)), 5e-324))


@functools.lru_cache(maxsize=1024)
def gdp_eps(mu: float, delta: float) -> float:
    """The least ``eps`` at which a `mu`-GDP mechanism is ``(eps, delta)``-DP.

    Parameters
    ----------
    mu, delta : float
        Positive, and in ``(0, 1)``.

    Returns
    -------
    float
        ``eps >= 0`` with ``gdp_delta(mu, eps) <= delta``.

    Examples
    --------
    >>> round(gdp_eps(1, 1e-6), 6)
    4.886554
    """
    mu, delta = check("mu", mu, "positive"), check("delta", delta, "positive_delta")
    goal = math.log(delta)
    if _log_gdp_delta(mu, 0.0) <= goal:
        return 0.0
    top = mu * mu / 2 + mu * math.sqrt(-2 * goal)  # Phi(-x) <= exp(-x^2/2) at x = sqrt(2 log(1/delta))
    while _log_gdp_delta(mu, top) > goal:
        top *= 2
    eps: float = brentq(lambda e: _log_gdp_delta(mu, e) - goal, 0.0, top, **_ROOT)
    step = ULP
    while gdp_delta(mu, eps) > delta:
        eps, step = eps * (1 + step), 2 * step
    return eps


@functools.lru_cache(maxsize=1024)
def gdp_mu(eps: float, delta: float) -> float:
    """The largest ``mu`` for which every ``mu``-GDP mechanism is ``(eps, delta)``-DP.

    Parameters
    ----------
    eps, delta : float
        Non-negative, and in ``(0, 1)``.

    Returns
    -------
    float
        ``mu`` with ``gdp_delta(mu, eps) <= delta``.

    Examples
    --------
    >>> mu = gdp_mu(1, 1e-6)
    >>> round(mu, 6), gdp_delta(mu, 1) <= 1e-6
    (0.236704, True)
    """
    eps, delta = check("eps", eps, "nonnegative"), check("delta", delta, "positive_delta")
    goal = math.log(delta)
    return _largest(lambda mu: _log_gdp_delta(mu, eps) - goal, lambda mu: gdp_delta(mu, eps) > delta, 1.0)


def gdp_split(mu: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Divide `mu` among Gaussian steps so that together they are `mu`-GDP.

    Parameters
    ----------
    mu : float
        Positive: what all the steps together may use.
    shares : sequence of float
        Non-negative, in proportion to one another: shares of ``mu**2``, the quantity that adds up.

    Returns
    -------
    tuple of float
        ``mu * sqrt(share / sum(shares))`` for each share, 0 for a share of 0; the squares sum to ``mu**2`` at
        most, in exact arithmetic.

    Examples
    --------
    >>> [round(m, 12) for m in gdp_split(1, (0.36, 0.64))]
    [0.6, 0.8]
    """
    mu, shares = check("mu", mu, "positive"), tuple(shares)
    total = math.fsum(shares)
    if not (all(s >= 0 for s in shares) and 0 < total < math.inf):
        fail("shares", shares, "non-negative numbers, not all of them 0")
    parts = tuple(mu * math.sqrt(s / total) for s in shares)
    while sum(Fraction(m) ** 2 for m in parts) > Fraction(mu) ** 2:
        parts = tuple(math.nextafter(m, 0) for m in parts)
    return parts


# Zero-concentrated differential privacy ---------------------------------------------------------------


def zcdp_eps(rho: float, delta: float) -> float:
    r"""An ``eps`` at which every `rho`-zCDP mechanism is ``(eps, delta)``-DP.

    .. math:: \varepsilon = \min_{\alpha > 1}\ \alpha\rho + \log\frac{\alpha - 1}{\alpha}
        + \frac{\log(1/\delta) - \log\alpha}{\alpha - 1}

    The minimum is where :math:`\rho(\alpha - 1)^2 + \log\alpha = \log(1/\delta)`; as every ``alpha`` is
    valid, an error in the root costs accuracy but not safety.

    Parameters
    ----------
    rho, delta : float
        Non-negative, and in ``(0, 1)``.

    Returns
    -------
    float

    References
    ----------
    Canonne, Kamath & Steinke (2020), The discrete Gaussian for differential privacy, Proposition 12;
    Asoodeh, Liao, Calmon, Kosut & Sankar (2021), Three variants of differential privacy.

    Examples
    --------
    >>> round(zcdp_eps(0.5, 1e-6), 6)
    5.221534
    """
    rho, delta = check("rho", rho, "nonnegative"), check("delta", delta, "positive_delta")
    if rho == 0:
        return 0.0
    log_inv = -math.log(delta)
    t: float = brentq(lambda t: rho * t * t + math.log1p(t) - log_inv, 0.0, math.sqrt(log_inv / rho), **_ROOT)
    terms = (rho * (1 + t), -math.log1p(1 / t), log_inv / t, -math.log1p(t) / t)
    return max(0.0, math.fsum(terms) + 8 * ULP * math.fsum(map(abs, terms)))


def zcdp_rho(eps: float, delta: float) -> float:
    """The largest ``rho`` for which :func:`zcdp_eps` stays within `eps`.

    Parameters
    ----------
    eps, delta : float
        Positive, and in ``(0, 1)``.

    Returns
    -------
    float
        ``rho`` with ``zcdp_eps(rho, delta) <= eps``.

    Examples
    --------
    >>> round(zcdp_rho(1, 1e-6), 8)
    0.02435597
    """
    eps, delta = check("eps", eps), check("delta", delta, "positive_delta")
    return _largest(
        lambda rho: zcdp_eps(rho, delta) - eps, lambda rho: zcdp_eps(rho, delta) > eps, min(eps, 1.0)
    )


def gdp_rho(mu: float) -> float:
    """The zCDP of a `mu`-GDP step: ``mu**2 / 2``.

    Examples
    --------
    >>> round(gdp_rho(0.2), 12)
    0.02
    """
    mu = check("mu", mu, "nonnegative")
    return round_up(mu * mu / 2)


def bounded_range_rho(eps: float) -> float:
    """The zCDP of an `eps`-bounded-range step: ``eps**2 / 8``.

    The exponential mechanism, sampled exactly or as a noisy maximum with Gumbel noise, is bounded-range
    with its own `eps`; other noisy maxima (exponential noise, permute-and-flip) are not.

    References
    ----------
    Cesar & Rogers (2021), Bounding, concentrating, and truncating, Lemma 3.4.

    Examples
    --------
    >>> round(bounded_range_rho(1), 12)
    0.125
    """
    eps = check("eps", eps, "nonnegative")
    return round_up(eps * eps / 8)


def pure_rho(eps: float) -> float:
    """The zCDP of an ``(eps, 0)``-DP step: ``eps * tanh(eps / 2)``, below the usual ``eps**2 / 2``.

    It cannot be improved: randomised response attains it in the limit of order 1. Proof in
    ``docs/privacy/composition.md``.

    Examples
    --------
    >>> round(pure_rho(1), 12)
    0.46211715726
    """
    eps = check("eps", eps, "nonnegative")
    return round_up(eps * math.tanh(eps / 2), 4 * ULP)


def pure_mu(eps: float) -> float:
    r"""The GDP of an ``(eps, 0)``-DP step.

    .. math:: \Phi(\mu/2) = e^\varepsilon/(1 + e^\varepsilon)

    Examples
    --------
    >>> round(pure_mu(1), 12)
    1.232035385345
    """
    eps = check("eps", eps, "nonnegative")
    tail = math.exp(-eps) / (1 + math.exp(-eps))
    if tail < 1e-300:
        fail("eps", eps, "at most 690 to be expressed as GDP")
    return round_up(max(0.0, -2 * float(ndtri(tail))), 64 * ULP)


# Between neighbouring relations -----------------------------------------------------------------------


def to_substitution(eps: float, delta: float) -> tuple[float, float]:
    """What an add-remove guarantee is worth when one record is replaced: ``(2 eps, (1 + e^eps) delta)``.

    Replacing a record is removing one and adding one.

    Examples
    --------
    >>> to_substitution(1, 0)
    (2.0, 0.0)
    >>> eps, delta = to_substitution(1, 1e-6)
    >>> eps, round(delta, 12)
    (2.0, 3.718282e-06)
    """
    eps, delta = check("eps", eps, "nonnegative"), check("delta", delta)
    if delta == 0 or eps > 700:
        return 2 * eps, 1.0 if delta else 0.0
    return 2 * eps, min(1.0, round_up((1 + math.exp(eps)) * delta, 4 * ULP))


def of_group(eps: float, delta: float, k: int) -> tuple[float, float]:
    """What a guarantee about one record is worth for `k` records (Dwork and Roth 2014, theorem 2.2).

    ``(k eps, (e^(k eps) - 1) / (e^eps - 1) delta)``.

    Examples
    --------
    >>> of_group(0.5, 0, 3)
    (1.5, 0.0)
    >>> eps, delta = of_group(0.5, 1e-6, 3)
    >>> eps, round(delta, 11)
    (1.5, 5.367e-06)
    """
    eps, delta = check("eps", eps, "nonnegative"), check("delta", delta)
    if k == 1 or delta == 0 or k * eps > 700:
        return k * eps, 1.0 if delta and k * eps > 700 else delta
    times = math.expm1(k * eps) / math.expm1(eps) if eps else k
    return k * eps, min(1.0, round_up(times * delta, (8 + 4 * k * eps) * ULP))
