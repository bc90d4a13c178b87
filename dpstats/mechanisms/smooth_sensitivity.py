"""Laplace noise scaled by a smooth bound on the local sensitivity, with and without public bounds.

``S`` is a beta-smooth bound of ``f`` if, for all neighbours, ``|f(D) - f(D')|_1 <= S(D)`` and
``S(D) <= exp(beta) S(D')``. Then ``f + (S / alpha) Z`` with standard Laplace ``Z`` is ``(eps, delta)``-DP for
the pairs ``(alpha, beta)`` of :func:`~dpstats.mechanisms.calibration.calibrate`. Proofs of everything here:
``docs/privacy/smooth_sensitivity.md``.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtri

from dpstats._types import Floats
from dpstats._validation import check, fail
from dpstats.mechanisms import noise
from dpstats.mechanisms.calibration import LARGEST_EPS, calibrate, pair
from dpstats.mechanisms.ptr import threshold
from dpstats.mechanisms.rng import Randomness

__all__ = [
    "NoiseInterval",
    "SmoothNoise",
    "distances_needed",
    "enlarged",
    "least_bound",
    "limited",
    "noise_quantile",
    "reference_noise",
    "release",
    "smooth_maximum",
    "truncated",
    "tuned",
]

SCALE_SHARE = 0.05
"""Share of the budget for the released noise scale."""
_GRID_BITS = 30
"""The lattice of the output is this many powers of two finer than the released scale bound."""
_LEAST_UNITS = 2.0**20
"""Least noise scale, in steps of the lattice."""
ROUNDING = 2.0**-40
"""Relative allowance for rounding in the statistic and in its bound."""
_FLOOR, _ROUNDED, _EXACT = 2.0**-28, 2.0**-12, 2.0**-36
"""What is added to local sensitivities in the test, as a share of the statistic, and the logarithm of what
one side is enlarged by for each distance: of a statistic that is rounded, which may move them by ``2^-42`` of
it, and of one that is not."""
_FARTHEST = 600.0
_TINY, _HUGE = 2.0**-900, 2.0**900


_EXPECTED_BOX = 1e3
"""Diameter of the box in units of the data's spread that :func:`tuned` reckons with."""


@functools.lru_cache(maxsize=1024)
def tuned(eps: float, delta: float, d: int, rows: int, deepest: float) -> tuple[float, float]:
    """The pair ``(alpha, beta)`` with the least noise on reference data of as many rows, from public facts
    alone.

    With few rows or a small budget the box decides the bound, and a large ``beta`` is worth more than a large
    ``alpha``; with many rows the local sensitivity at distance 0 decides. The reference is a normal sample,
    whose set of depth at least ``tau`` has a radius of ``tau / rows`` upper normal quantiles, in a box of a
    thousand times its spread.

    Parameters
    ----------
    eps, delta, d
        As in :func:`calibrate`; every pair is valid for them.
    rows : int
        Handed in.
    deepest : float
        Share of the rows that the largest depth always reaches: ``1 / (d + 1)`` for the Tukey median.

    Examples
    --------
    >>> np.round([tuned(1.0, 1e-6, 1, rows, 0.5) for rows in (200, 20_000)], 3)
    array([[0.125, 0.086],
           [0.55 , 0.048]])
    """
    eps = min(eps, LARGEST_EPS)
    pairs = (pair(share * eps, eps, delta, d) for share in np.linspace(0.1, 0.9, 33))
    return min(pairs, key=lambda constants: reference_noise(constants[0], constants[1], d, rows, deepest))


def reference_noise(alpha: float, beta: float, d: int, rows: int, deepest: float) -> float:
    """The noise scale on the reference data of :func:`tuned`."""
    k = np.arange(max(rows, 1))
    tau = np.maximum(rows / 2 - (k + 1), deepest * rows) - (k + 1)
    sensitivities = np.where(
        tau >= 1, -2 * math.sqrt(d) * ndtri(np.clip(tau, 1, None) / max(rows, 2)), _EXPECTED_BOX
    )
    return np.max(np.exp(-beta * k) * sensitivities) / alpha


@dataclass(frozen=True)
class SmoothNoise:
    """Public parameters of a release by smooth sensitivity.

    Attributes
    ----------
    eps, delta : float
        What the release costs, the noise scale included.
    d : int
        Number of coordinates.
    alpha : float
        The noise has scale ``S / alpha``.
    beta : float
        The rate at which ``S`` must be smooth.
    eps_scale : float
        Share of `eps` for releasing ``ln S``.
    log_sensitivity : float
        By how much ``ln S`` may move, rounding included.
    """

    eps: float
    delta: float
    d: int
    alpha: float
    beta: float
    eps_scale: float
    log_sensitivity: float

    @classmethod
    def of(
        cls,
        eps: float,
        delta: float,
        d: int = 1,
        constants: Callable[[float, float, int], tuple[float, float]] = calibrate,
    ) -> Self:
        """Divide a budget; ``constants(eps, delta, d)`` gives the pair ``(alpha, beta)``.

        Examples
        --------
        >>> SmoothNoise.of(1.0, 1e-6).eps_scale
        0.05
        """
        eps_scale = SCALE_SHARE * eps
        # the discrete law on the lattice against the rounded continuous one
        lattice = d / (4 * _LEAST_UNITS)
        left = eps - eps_scale - 2 * lattice
        if left <= 2 * lattice:
            fail("eps", eps, f"at least {8 * lattice:.1g} for this mechanism")
        alpha, beta = constants(left, delta * math.exp(-lattice), d)
        return cls(eps, delta, d, alpha, beta - 2 * ROUNDING, eps_scale, beta)

    def release(self, values: ArrayLike, bound: float, rng: Randomness) -> tuple[Floats, float]:
        """:func:`release` with these parameters."""
        return release(values, bound, self, rng)


def release(
    values: ArrayLike, bound: float, parameters: SmoothNoise, rng: Randomness
) -> tuple[Floats, float]:
    """Release a statistic with noise scaled by its smooth bound, and the scale itself.

    Parameters
    ----------
    values : (d,) array_like
        The exact statistic.
    bound : float
        ``S(D)``, a `parameters.beta`-smooth bound on its l1 local sensitivity.
    parameters : SmoothNoise
    rng : Randomness

    Returns
    -------
    values : (d,) ndarray
        Noisy.
    scale : float
        The scale of their noise, itself noisy: see :class:`NoiseInterval`.

    Notes
    -----
    **Privacy.** ``(parameters.eps, parameters.delta)``-DP under the relation for which `bound` is smooth.
    ``ln S`` moves by at most ``parameters.log_sensitivity`` and is released first, with Laplace noise. It
    sets a public lattice for the output, which carries integer noise of the private scale: a scale that
    depends on the data must not be seen in the last digits. The bound is enlarged for the rounding of the
    statistic.
    """
    values = limited(values)
    bound, exponent, released = released_scale(values, bound, parameters, rng)
    step = 2.0**exponent
    scale = max((bound + parameters.d * step) / parameters.alpha, _LEAST_UNITS * step)
    return noise.laplace_on_grid(values, scale, exponent, rng), released


def limited(values: ArrayLike) -> Floats:
    """The statistic, moved to where no two values are farther apart than the largest noise scale: `enlarged`
    stops there."""
    values = np.atleast_1d(np.asarray(values, dtype=float))
    reach = _HUGE / (2 * len(values))
    return np.clip(values, -reach, reach)


def enlarged(values: Floats, bound: float) -> float:
    """A smooth bound with room for the rounding of the statistics and of itself, within the range of
    doubles."""
    return min(max(bound * (1 + ROUNDING) + ROUNDING * float(np.max(np.abs(values))), _TINY), _HUGE)


def released_scale(
    values: Floats, bound: float, parameters: SmoothNoise, rng: Randomness
) -> tuple[float, int, float]:
    """Release the noise scale: ``ln S`` with Laplace noise, ``parameters.eps_scale``-DP.

    Returns
    -------
    bound : float
        ``S``, enlarged for rounding: private.
    exponent : int
        Of the lattice that the output is rounded to, a function of the released scale.
    scale : float
        Released.
    """
    bound = enlarged(values, bound)
    noisy_log = float(noise.laplace(math.log(bound), parameters.log_sensitivity, parameters.eps_scale, rng))
    noisy_log = min(max(noisy_log, math.log(_TINY) - 50), math.log(_HUGE) + 50)
    return bound, math.floor(noisy_log / math.log(2)) - _GRID_BITS, math.exp(noisy_log) / parameters.alpha


def least_bound(diameter: float) -> float:
    """Below this a smooth bound within a box of this diameter is not trusted: ``exp(-k beta) diameter`` may
    have left the doubles before, and the bound would fall at once and not by ``beta`` a step.

    Parameters
    ----------
    diameter : float
        Of the public box.

    Examples
    --------
    >>> least_bound(2e60) > math.exp(-745) * 2e60
    True
    """
    return diameter * 2.0**-1020


def smooth_maximum(local_sensitivity: Callable[[int], float], beta: float, diameter: float) -> float:
    """``max_k exp(-k beta) min(A_k, diameter)`` over all ``k >= 0``, evaluating few ``A_k``, and at least
    :func:`least_bound`.

    Parameters
    ----------
    local_sensitivity : callable
        Returns ``A_k`` for `k`: the local sensitivity at distance ``k`` or a bound of it, which must not
        decrease in ``k``; infinite where there is no bound.
    beta : float
    diameter : float
        Of the public box; finite.

    Notes
    -----
    ``exp(-(a + 1) beta) A_b`` bounds all terms between ``a`` and ``b``: what cannot win is not evaluated.

    Examples
    --------
    >>> [round((k + 1.0) * math.exp(-0.5 * k), 3) for k in range(4)]
    [1.0, 1.213, 1.104, 0.893]
    >>> round(smooth_maximum(lambda k: k + 1.0, 0.5, 100.0), 3)
    1.213
    """

    def term(k: int, height: float) -> float:
        return math.exp(-k * beta) * height

    heights = [(0, min(local_sensitivity(0), diameter))]
    best = heights[0][1]
    while term(k := 2 * heights[-1][0] + 1, diameter) > best:
        heights.append((k, min(local_sensitivity(k), diameter)))
        best = max(best, term(*heights[-1]))
    # beyond the last height the box bounds the terms
    heights.append((k, diameter))
    open_intervals = list(zip(heights, heights[1:], strict=False))
    while open_intervals:
        (low, below), (high, above) = open_intervals.pop()
        if high - low < 2 or term(low + 1, above) <= best:
            continue
        middle = (low + high) // 2
        at = (middle, min(local_sensitivity(middle), diameter))
        best = max(best, term(*at))
        open_intervals += [((low, below), at), (at, (high, above))]
    return max(best, least_bound(diameter))


def distances_needed(n: int, share: float, eps_test: float, delta: float, beta: float) -> int:
    """The number ``K`` of distances for the test without bounds, from public facts alone.

    Parameters
    ----------
    n : int
        Rows handed in.
    share : float
        Distances beyond this share of the rows are never used.
    eps_test, delta : float
        Budget of the test.
    beta : float

    Returns
    -------
    int
    """
    return max(min(int(share * n), math.ceil(threshold(eps_test, delta) + 6 / eps_test + 8 / beta)), 1)


def truncated(
    local_sensitivities: ArrayLike, K: int, beta: float, size: float | None = None
) -> tuple[float, int]:
    """Smooth bound over ``k < K`` and the margin of its safety test.

    Parameters
    ----------
    local_sensitivities : (m,) array
        ``A_0 <= A_1 <= ...``, infinite where unbounded; those past the end count as unbounded.
    K : int
        Public.
    beta : float
    size : float, optional
        The largest coordinate of the statistic in size, where the ``A_k`` are differences of numbers that are
        rounded; without it they are exact but for the subtraction.

    Returns
    -------
    bound : float
        ``S_K = max_{k < K} exp(-k beta) A_k``; with a `size` 2^-28 of it is added to each ``A_k``, and `beta`
        is 2^-12 less.
    margin : int
        At least -1, of sensitivity 1; from 0 on, ``S_K`` is `beta`-smooth towards every neighbour, both ways.

    Notes
    -----
    With ``c_r: exp(-K beta) A_{K+r} <= max_{r <= k < K} exp(-k beta) A_{k-r}``, the margin is the largest
    ``r`` for which ``c_r`` holds, less one. If ``A_k(D') <= A_{k+1}(D)`` for all neighbours then
    ``c_{r+1}(D)`` implies ``c_r(D')``. Both may be equalities: so that this holds as computed, too, the left
    side is enlarged by a factor for each distance that is more than rounding may move both sides.
    """
    A, room = np.asarray(local_sensitivities, dtype=float), _EXACT
    if size is not None:
        A, room, beta = A + _FLOOR * size, _ROUNDED, beta - _ROUNDED
    decay = np.exp(-beta * np.arange(K))
    head = np.full(K, np.inf)
    head[: min(K, len(A))] = A[:K]
    best = np.maximum.accumulate(decay * head)
    r = -1
    # (farther on exponentials leave the doubles, and there would be no left side)
    while r + 1 < K and K + r + 1 < len(A) and 0 < K * beta < _FARTHEST:
        # an unbounded local sensitivity makes the left side infinite, and that is not safe
        left = math.exp(-K * beta + room * (r + 2)) * A[K + r + 1]
        if not (left < math.inf and left <= math.exp(-(r + 1) * beta) * best[K - r - 2]):
            break
        r += 1
    return float(best[-1]), max(r - 1, -1)


@dataclass(frozen=True)
class NoiseInterval:
    """Intervals for what the estimates would be without noise, from the released scale.

    Parameters
    ----------
    estimates : tuple of float
    scales : tuple of float
        The released scale of each estimate's noise; 0 for an estimate without.
    rate : float
        ``eps_scale / log_sensitivity``: the rate of the Laplace noise on the log of the scale.

    Notes
    -----
    ``|v - f| = scale * E * exp(-L)`` with ``E`` standard exponential and ``L`` Laplace of rate `rate`, so the
    half-width is the quantile of ``E exp(-L)``, which is public, times the scale.

    Examples
    --------
    >>> NoiseInterval((1.0,), (0.1,), rate=2.0).conf_int(0.05).round(2)
    array([[0.56, 1.44]])
    """

    estimates: tuple[float, ...]
    scales: tuple[float, ...]
    rate: float

    def conf_int(self, alpha: float) -> Floats:
        """The ends as a ``(d, 2)`` array."""
        half = noise_quantile(self.rate, check("alpha", alpha)) * np.array(self.scales)
        estimates = np.array(self.estimates)
        return np.column_stack([estimates - half, estimates + half])

    def to_dict(self) -> dict[str, Any]:
        """What the intervals of every confidence are computed from, beside the estimates."""
        return {"kind": "noise", "scales": list(self.scales), "rate": self.rate}


@functools.lru_cache(maxsize=4096)
def noise_quantile(rate: float, alpha: float, w: float = 0.0) -> float:
    """The ``1 - alpha`` quantile of ``|Z_1 + w Z_2| exp(-L)``, ``Z_1`` and ``Z_2`` standard Laplace.

    Parameters
    ----------
    rate : float
        Of the Laplace variable ``L``.
    alpha : float in (0, 1)
    w : float in [0, 1]
        With 0 it is the quantile of ``E exp(-L)``, ``E`` standard exponential.

    Examples
    --------
    >>> round(noise_quantile(2.0, 0.05), 3), round(noise_quantile(2.0, 0.05, w=1.0), 3)
    (4.399, 6.281)
    """

    def survival(c: float) -> float:
        """``P(|Z_1 + w Z_2| > c)``."""
        if w > 0.999:
            return (1 + c / 2) * math.exp(-c)
        return (math.exp(-c) - (w * w * math.exp(-c / w) if w else 0.0)) / (1 - w * w)

    def tail(log_c: float) -> float:
        # L = t / rate with t standard Laplace
        def integrand(t: float) -> float:
            up, down = (math.exp(min(log_c + s * t / rate, 700)) for s in (1, -1))
            return 0.5 * math.exp(-t) * (survival(up) + survival(down))

        return quad(integrand, 0, 60, limit=200)[0]

    return math.exp(brentq(lambda log_c: tail(log_c) - alpha, -60, 60 + 60 / rate, xtol=1e-9))
