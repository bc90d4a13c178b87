"""Propose-test-release with one delta for the test and the release behind it."""

import math

from dpstats.mechanisms.noise import discrete_laplace
from dpstats.mechanisms.rng import Randomness

__all__ = ["passes", "threshold"]


def threshold(eps: float, delta: float) -> int:
    """The least value that a noisy margin must reach.

    For integer Laplace noise, ``P(Z >= c) = exp(-eps c) / (1 + exp(-eps))``. The threshold is ``c - 1``
    with the least integer ``c`` for which that tail is at most `delta`, so an unsafe data set, whose
    margin is -1, passes with probability at most `delta`.

    Examples
    --------
    >>> threshold(0.5, 1e-6)
    26
    """
    c = math.ceil((-math.log(delta) - math.log1p(math.exp(-eps))) / eps)
    while math.exp(-eps * c) / (1 + math.exp(-eps)) > delta:
        c += 1
    return c - 1


def passes(margin: int, eps: float, delta: float, rng: Randomness) -> bool:
    """Whether the release may go ahead.

    Parameters
    ----------
    margin : int
        An integer statistic of sensitivity 1 with: ``margin >= 0`` implies that the mechanism behind the
        test is ``(eps2, delta)``-indistinguishable between these data and each neighbour, both ways; -1
        otherwise.
    eps : float
        Budget of the test.
    delta : float
        The one delta of test and release.
    rng : Randomness

    Returns
    -------
    bool

    Notes
    -----
    **Privacy.** Test and release together are ``(eps + eps2, delta)``-DP under whichever relation the
    margin's sensitivity was proved for: the bit is ``eps``-DP; at margin -1 it is set with probability at
    most `delta`; at margin 0 or more both directions hold with ``(eps2, delta)``; only one of the two
    cases holds for given data, so `delta` is paid once. Proof: ``docs/privacy/ptr.md``.
    """
    return discrete_laplace(max(int(margin), -1), eps, rng) >= threshold(eps, delta)
