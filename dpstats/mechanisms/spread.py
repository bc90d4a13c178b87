"""A private scale of one column: half the length of the shortest interval that holds half of the rows, or a
distance at which many rows are of each other.
"""

import numpy as np

from dpstats._types import Floats
from dpstats.mechanisms.rng import Randomness

__all__ = ["GRID", "distance_weights", "half_mass_spread", "spread_scores", "typical_distance"]

GRID: Floats = np.asarray(2.0 ** np.arange(-80, 81), float)
"""Candidates, 1e-24 to 1e24; a scale is wanted to a factor of two only."""
_LOG_PRIOR = -np.log1p(np.abs(np.log2(GRID)))
"""Log-weights of the candidates before any row is seen: in usual units a scale is not very far from 1."""


def _held(x: Floats, half_lengths: Floats) -> Floats:
    """The most rows in an interval of each half-length, ``g(s) = max over c of #{i : |x_i - c| <= s}``."""
    x = np.sort(x)
    first = np.arange(len(x))
    ends = (x.searchsorted(x + 2 * s, side="right") for s in half_lengths)
    return np.array([(end - first).max(initial=0) for end in ends], float)


def _drawn(weights: Floats, rng: Randomness) -> float:
    """A candidate, with a probability in proportion to ``exp(weight)``."""
    return float(GRID[int(np.argmax(weights + rng.gumbel(len(weights))))])


def spread_scores(x: Floats) -> Floats:
    """Score of every candidate ``s``: minus the distance of ``n / 2`` from what intervals of half-length
    ``s`` hold.

    Parameters
    ----------
    x : (n,) array
        Finite.

    Returns
    -------
    (161,) ndarray
        ``-dist(n / 2, [g(s / 2), g(s)])`` with ``g(s) = max over c of #{i : |x_i - c| <= s}``; the first
        interval begins at 0 and the last ends at infinity.
    """
    held = _held(x, GRID)
    below = np.append(0.0, held[:-1])
    held[-1] = np.inf
    half = len(x) / 2
    return -np.maximum(np.maximum(below - half, half - held), 0.0)


def half_mass_spread(x: Floats, eps: float, rng: Randomness) -> float:
    """Release the scale of a column to a factor of two.

    Parameters
    ----------
    x : (n,) array
        Finite, any order; may be empty.
    eps : float
    rng : Randomness

    Returns
    -------
    float
        A power of two in `GRID`.

    Notes
    -----
    **Privacy.** ``eps``-DP, neighbours: one record replaced, added or removed. Each ``g(s)`` moves by at most
    1, and ``n / 2`` by at most 1/2 the same way, so a score moves by at most 1; ``exp(eps score / 2)`` is
    sampled with Gumbel noise. The grid is public and short, so few rows suffice
    (``docs/privacy/deepest_regression.md``).

    Examples
    --------
    >>> from dpstats.mechanisms.rng import Randomness
    >>> half_mass_spread(np.random.default_rng(0).normal(1e6, 3, 1000), 1.0, Randomness(1))
    2.0
    """
    return _drawn(eps / 2 * spread_scores(x), rng)


def distance_weights(x: Floats, eps: float) -> Floats:
    """Log-weight of every candidate ``s``, with which :func:`typical_distance` draws it.

    Parameters
    ----------
    x : (n,) array
        Finite.
    eps : float

    Returns
    -------
    (161,) ndarray
        ``eps u(s) / 2`` and a public part, with ``u(s) = min((g(2 s) - g(s / 2)) / 2, g(2 s) - n / 2)`` and
        ``g`` as in :func:`spread_scores`.
    """
    held = _held(x, np.concatenate([GRID[:1] / 2, GRID, 2 * GRID[-1:]]))
    near, far = held[:-2], held[2:]
    return np.asarray(_LOG_PRIOR + eps / 2 * np.minimum((far - near) / 2, far - len(x) / 2), float)


def typical_distance(x: Floats, eps: float, rng: Randomness) -> float:
    """Release a distance at which many rows are of each other, to a factor of two.

    Of a column without many equal values it is about its :func:`half_mass_spread`. Where half of the rows and
    more have one value, as of a 0/1 column, that is nothing, and this the distance of the others.

    Parameters
    ----------
    x : (n,) array
        Finite, any order; may be empty.
    eps : float
    rng : Randomness

    Returns
    -------
    float
        A power of two in `GRID`.

    Notes
    -----
    **Privacy.** ``eps``-DP, neighbours: one record replaced, added or removed. Each ``g(s)`` moves by at most
    1, so half of a difference of two by at most 1; ``g(s) - n / 2`` does too, as ``n / 2`` moves by at most
    1/2 and the same way. The lesser of the two keeps that: a score of sensitivity 1, whose
    ``exp(eps score / 2)`` times a public weight is sampled with Gumbel noise.

    Examples
    --------
    >>> from dpstats.mechanisms.rng import Randomness
    >>> typical_distance(np.repeat([0.0, 3.0], [700, 300]), 1.0, Randomness(1))
    2.0
    """
    return _drawn(distance_weights(x, eps), rng)
