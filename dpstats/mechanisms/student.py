"""Student noise with two degrees of freedom, scaled by a smooth bound on the local sensitivity: pure DP.

The density ``(2 + t^2)^(-3/2)`` has tails that a change of scale moves by a bounded factor, so no delta is
needed, and ``beta`` may be several times that of Laplace noise at a small delta. The pairs ``(alpha, beta)``
are exact: the largest log-ratio of two such densities has a closed form. Proof:
``docs/privacy/smooth_sensitivity.md``.
"""

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar

from dpstats._types import Floats
from dpstats._validation import fail
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.smooth_sensitivity import ROUNDING, enlarged, limited, reference_noise

__all__ = ["StudentNoise", "largest_log_ratio", "student", "student_pair"]

_BYTES = 320
"""Of a uniform variable: fine enough for the doubles next to 0 beside noise of the largest scale, ``2^2100``
times as large."""

_LEAST_EPS = 1e-4
"""At less, rounding is no small part of the privacy loss that the pair is computed for."""
_LARGEST = Fraction(np.finfo(float).max)


def student(rng: Randomness) -> Fraction:
    """A Student variable with two degrees of freedom as a fraction, exact to ``2^-2560`` like `u`.

    ``(2 u - 1) / sqrt(2 u (1 - u))`` with ``u`` uniform, its root taken in integers.

    Examples
    --------
    >>> from dpstats.mechanisms.rng import Randomness
    >>> round(float(student(Randomness(1))), 2)  # seeded for the example
    -2.56
    """
    (u,) = rng.exact_uniform(1, _BYTES)
    j, whole = u.numerator, u.denominator
    square = (((2 * j - whole) ** 2) << (16 * _BYTES)) // (2 * j * (whole - j))
    size = Fraction(math.isqrt(square), 1 << 8 * _BYTES)
    return size if 2 * j > whole else -size


def _log_ratio(lam: float, shift: float) -> float:
    """``sup_t ln p(t) / q(t)``: `p` Student about 0, `q` about `shift` with scale ``e^lam``.

    At an extreme ``-shift t^2 + (shift^2 + 2 e^(2 lam) - 2) t + 2 shift = 0``; far out the log-ratio is
    ``-2 lam``.
    """
    c = math.exp(-2 * lam)
    b = shift**2 + 2 / c - 2
    root = math.sqrt(b**2 + 8 * shift**2)
    points = ((b - root) / (2 * shift), (b + root) / (2 * shift)) if shift else (0.0,)
    return max(-2 * lam, *(lam + 1.5 * math.log((2 + (t - shift) ** 2 * c) / (2 + t * t)) for t in points))


def largest_log_ratio(alpha: float, beta: float) -> float:
    """The largest log-ratio of densities whose scales differ by ``e^lam``, ``|lam| <= beta``, and whose
    centres by ``alpha`` times the smaller scale: the privacy loss of the pair.

    It is convex in ``lam`` on either side of 0 and increases with the distance of the centres, so three cases
    decide.

    Examples
    --------
    >>> round(largest_log_ratio(1e-9, 0.25), 6)
    0.5
    """
    return max(_log_ratio(-beta, alpha * math.exp(-beta)), _log_ratio(0.0, alpha), _log_ratio(beta, alpha))


@functools.lru_cache(maxsize=4096)
def student_pair(share: float, eps: float) -> tuple[float, float]:
    """``(alpha, beta)`` at `eps` exactly, with `share` of the largest possible ``beta``, which is
    ``eps / 2``."""
    # beyond this budget there is no noise to speak of, and exp overflows
    eps = min(eps, 100.0)
    beta = share * eps / 2
    alpha = brentq(lambda a: largest_log_ratio(a, beta) - eps, 1e-12 * eps, 4 * math.exp(eps / 3), rtol=1e-14)
    return alpha * (1 - 1e-9), beta * (1 - 1e-9)


@functools.lru_cache(maxsize=256)
def _largest_product(eps: float) -> tuple[float, float]:
    found = minimize_scalar(
        lambda share: -math.prod(student_pair(float(share), eps)), bounds=(0.05, 0.95), method="bounded"
    )
    return student_pair(float(found.x), eps)


@functools.lru_cache(maxsize=1024)
def _tuned(eps: float, rows: int, deepest: float) -> tuple[float, float]:
    pairs = (student_pair(share, eps) for share in np.linspace(0.05, 0.95, 37))
    return min(pairs, key=lambda pair: reference_noise(pair[0], pair[1], 1, rows, deepest))


@dataclass(frozen=True)
class StudentNoise:
    """Public parameters of a release of one number.

    Attributes
    ----------
    eps : float
        What the release costs: pure DP.
    alpha, beta : float
        The noise has scale ``S / alpha`` for a `beta`-smooth bound ``S``.
    """

    eps: float
    alpha: float
    beta: float

    @classmethod
    def of(cls, eps: float, rows: int | None = None, deepest: float = 0.5) -> Self:
        """Choose the pair with the largest product, or with the least noise on reference data of
        `rows` rows.

        Examples
        --------
        >>> noise = StudentNoise.of(1.0)
        >>> round(largest_log_ratio(noise.alpha, noise.beta), 6)
        1.0
        """
        if eps < _LEAST_EPS:
            fail("eps", eps, f"at least {_LEAST_EPS:.1g} for this mechanism")
        alpha, beta = _largest_product(eps) if rows is None else _tuned(eps, rows, deepest)
        return cls(eps, alpha, beta - 2 * ROUNDING)

    def release(self, values: ArrayLike, bound: float, rng: Randomness) -> tuple[Floats, None]:
        """Release one statistic with noise scaled by its smooth bound.

        Parameters
        ----------
        values : (1,) array_like
        bound : float
            ``S(D)``, a `beta`-smooth bound on its local sensitivity.
        rng : Randomness

        Returns
        -------
        values : (1,) ndarray
        scale : None
            It is not released.

        Notes
        -----
        **Privacy.** Pure ``eps``-DP under the relation for which `bound` is smooth. The noisy value is
        computed in integers and rounded once, to the nearest double: its digits tell nothing of the noise
        scale.
        """
        values = limited(values)
        noisy = Fraction(float(values[0])) + Fraction(enlarged(values, bound)) / Fraction(
            self.alpha
        ) * student(rng)
        return np.array([float(max(-_LARGEST, min(noisy, _LARGEST)))]), None
