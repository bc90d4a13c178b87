"""Peeling: choose one candidate a round by the exponential mechanism, and what several rounds cost together.

The proofs are in ``docs/privacy/selection.md``.
"""

import functools
import math

import numpy as np
from numpy.typing import ArrayLike

from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.conversions import bounded_range_rho, round_down, round_up, zcdp_rho

__all__ = ["choose", "per_round", "rounds_delta", "rounds_rho"]

_LATTICE = 1200
"""Steps of all rounds' losses together in the numerical composition."""
_FEWEST_STEPS = 6
_MOST_ROUNDS = 200
_LARGEST = 300.0
"""Budget of a round beyond which the numerical composition would overflow, and is not needed."""
_ROUNDING = 1e-9, 1e-14
"""Relative and absolute allowance for rounding in the numerical composition."""


def choose(scores: ArrayLike, width: float, eps: float, rng: Randomness) -> int:
    """One round: the index of the largest ``score + (width / eps) Gumbel``.

    Parameters
    ----------
    scores : (c,) array
    width : float
        Between neighbouring data sets the scores move by amounts within an interval of this width. (For
        scores of sensitivity ``s`` that is ``2 s`` at most, and less where the two directions differ.)
    eps : float
        Budget of the round.
    rng : Randomness

    Returns
    -------
    int

    Notes
    -----
    **Privacy.** The choice has probabilities ``p_j`` proportional to ``exp(eps score_j / width)``. If every
    score moves by an amount in ``[a, a + width]``, then ``ln p_j - ln p'_j`` lies in an interval of width
    `eps` around 0: the round is `eps`-DP and `eps`-bounded-range.
    """
    scores = np.asarray(scores, dtype=float)
    return int(np.argmax(scores * (eps / width) + rng.gumbel(len(scores))))


def per_round(eps: float, delta: float, rounds: int) -> float:
    """The budget of each of several rounds that together are ``(eps, delta)``-DP.

    Parameters
    ----------
    eps : float
        Positive.
    delta : float
        In ``[0, 1)``.
    rounds : int
        Of a mechanism that is bounded-range in its budget; each may depend on the outcome of the earlier
        ones.

    Returns
    -------
    float
        The largest of what three proofs give: ``eps / rounds`` (basic composition, the only one at
        ``delta = 0``), zero-concentrated privacy with ``eps_r^2 / 8`` a round, and the exact worst case of
        adaptive bounded-range rounds (:func:`rounds_delta`).

    Examples
    --------
    >>> [round(per_round(1, delta, 5), 3) for delta in (0, 1e-6)]
    [0.2, 0.232]
    """
    pure = round_down(eps / rounds)
    if delta == 0 or rounds == 1:
        return pure
    zcdp = round_down(math.sqrt(8 * zcdp_rho(eps, delta) / rounds), 1e-14)
    best = max(pure, zcdp)
    if rounds > _MOST_ROUNDS or best > _LARGEST:
        return best
    return max(best, _per_round_exact(eps, delta, rounds, best))


@functools.lru_cache(maxsize=512)
def _per_round_exact(eps: float, delta: float, rounds: int, low: float) -> float:
    high = 2 * low
    while rounds_delta(high, rounds, eps) <= delta:
        low, high = high, 2 * high
    while high - low > 1e-4 * low:
        middle = (low + high) / 2
        if rounds_delta(middle, rounds, eps) <= delta:
            low = middle
        else:
            high = middle
    return low


def rounds_delta(step: float, rounds: int, eps: float) -> float:
    r"""An upper bound, nearly attained, of ``delta`` at `eps` for adaptive rounds that are
    `step`-bounded-range.

    .. math:: F_0(x) = (1 - e^x)_+, \quad F_r(x) = \sup_{0 \le t \le s}\
        p_t F_{r-1}(x - t) + (1 - p_t) F_{r-1}(x - t + s), \quad p_t = \frac{e^{s-t} - 1}{e^{s-t} - e^{-t}}

    evaluated on a lattice that contains `eps`, every interval of ``t`` being replaced by the widest
    two-point law it allows. Proof in ``docs/privacy/selection.md``.

    Parameters
    ----------
    step : float
        Positive: the budget of each round.
    rounds : int
    eps : float

    Returns
    -------
    float

    Examples
    --------
    >>> rounds_delta(0.2, 5, 1.0)
    0.0
    >>> f"{rounds_delta(0.25, 5, 1.0):.2g}"
    '9.7e-06'
    """
    if rounds * step <= eps:
        return 0.0
    n = max(_FEWEST_STEPS, _LATTICE // rounds)
    h = step / n
    j = np.arange(n)
    # a loss in [t - step, t] with j h <= t <= (j + 1) h has a likelihood ratio in
    # [e^-(j+1)h, e^(step-jh)], of mean 1
    spread = np.exp(-(j + 1) * h) * np.expm1(step + h)
    weights = np.expm1(step - j * h) / spread, -np.expm1(-(j + 1) * h) / spread
    x = eps + h * np.arange(-rounds * (n + 1), rounds * n + 1)
    values = -np.expm1(np.minimum(x, 0.0))
    for left in range(rounds - 1, -1, -1):
        # lattice positions -left (n + 1) .. left n around eps, as offsets into the previous round's
        size = left * (2 * n + 1) + 1
        down, up = n - j, 2 * n + 1 - j
        new = np.zeros(size)
        for a, b, lower, upper in zip(down, up, *weights, strict=True):
            np.maximum(new, lower * values[a : a + size] + upper * values[b : b + size], out=new)
        values = new
    relative, absolute = _ROUNDING
    return min(1.0, float(values[0]) * (1 + relative) + absolute)


def rounds_rho(step: float, rounds: int) -> float:
    """The zero-concentrated privacy of the rounds together: ``rounds * step**2 / 8``.

    Examples
    --------
    >>> round(rounds_rho(0.2, 5), 9)
    0.025
    """
    return round_up(rounds * bounded_range_rho(step))
