"""A private scale of one column: half the length of the shortest interval that holds half of the rows."""

import numpy as np

from dpstats._types import Floats
from dpstats.mechanisms.rng import Randomness

__all__ = ["GRID", "half_mass_spread", "spread_scores"]

GRID = 2.0 ** np.arange(-80, 81)
"""Candidates, 1e-24 to 1e24; a scale is wanted to a factor of two only."""


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
    x = np.sort(x)
    first = np.arange(len(x))
    held = np.array(
        [np.max(np.searchsorted(x, x + 2 * s, side="right") - first, initial=0) for s in GRID], float
    )
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
    weights = eps / 2 * spread_scores(x)
    return float(GRID[int(np.argmax(weights + rng.gumbel(len(weights))))])
