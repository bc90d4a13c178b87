"""The exponential mechanism over halfspace depth: a deep point, drawn in rounds from public candidates."""

import numpy as np
from scipy.special import ndtri

from dpstats._types import Floats, Integers
from dpstats.depth import directions
from dpstats.depth._directions import project
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.rounds import choose

__all__ = ["ROUNDS", "candidates", "deep_point", "depths", "general_directions", "least_radius"]

ROUNDS = (1 / 7, 2 / 7, 4 / 7)
"""Shares of the budget: an early round need only come closer."""
_CANDIDATES = 1000
_LARGEST = 2.0
"""Typical length of the longest steps, in units of the columns' scales."""


def general_directions(d: int, count: int) -> Floats:
    """Public unit vectors in general position: none is orthogonal to data that lie in a plane of round
    equations."""
    return directions(d, count)[-count:]


def depths(points: Floats, Z: Floats, V: Floats) -> Integers:
    """Depth of points over a set of directions.

    Parameters
    ----------
    points : (m, d) array
    Z : (n, d) array
    V : (k, d) array

    Returns
    -------
    (m,) int ndarray
        ``min over v of min(#{i: v'z_i <= v'p}, #{i: v'z_i >= v'p})``.

    Notes
    -----
    **Privacy.** Sensitivity 1 at every point when a row is replaced, added or removed, as computed: the
    rounded ``v'z`` is one function of ``v`` and of the row alone, so each count is a sum over rows of 0 or 1.
    A matrix product, whose order of additions depends on where a row stands, would not do.
    """
    least = np.full(len(points), len(Z))
    for v in V:
        along = np.sort(project(Z, v))
        at = project(points, v)
        np.minimum(least, np.searchsorted(along, at, side="right"), out=least)
        np.minimum(least, len(Z) - np.searchsorted(along, at, side="left"), out=least)
    return least


def least_radius(rows: int, d: int, eps: float) -> float:
    """Typical length of the shortest steps: far below what the mechanism can resolve."""
    return min(d / (32 * eps * max(rows, 1)), _LARGEST / 64)


def candidates(centre: Floats, least: float, box: Floats | None, rng: Randomness) -> Floats:
    """Points around a centre, and itself: normal steps, as many in every octave from `least` to two units.

    Parameters
    ----------
    centre : (d,) array
        Released before.
    least : float
    box : (d, 2) array or None
        Public; points are moved into it.
    rng : Randomness

    Returns
    -------
    (1000, d) ndarray
    """
    m, d = _CANDIDATES - 1, len(centre)
    radius = least * (_LARGEST / least) ** rng.uniform(m)
    points = np.vstack([centre, centre + radius[:, None] * ndtri(rng.uniform(m * d)).reshape(m, d)])
    return points if box is None else np.clip(points, *box.T)


def deep_point(
    Z: Floats, centre: Floats, V: Floats, eps: float, least: float, box: Floats | None, rng: Randomness
) -> Floats:
    """Draw a deep point.

    Parameters
    ----------
    Z : (n, d) array
        Finite, in units of public or released scales.
    centre : (d,) array
        Where to begin; released before.
    V : (k, d) array
        Public directions.
    eps : float
    least : float
        From :func:`least_radius`.
    box : (d, 2) array or None
    rng : Randomness

    Returns
    -------
    (d,) ndarray

    Notes
    -----
    **Privacy.** Pure ``eps``-DP, one record replaced, usable or not. Each of the `ROUNDS` draws one of
    finitely many candidates, which depend on public numbers and earlier releases, with probability
    proportional to ``exp(e depth / 2)``, ``e`` its share of `eps`; the depth of each has sensitivity 1. The
    work does not depend on luck. Proof: ``docs/privacy/tukey_median.md``.

    Examples
    --------
    >>> from dpstats.mechanisms.rng import Randomness
    >>> rng = Randomness(1)  # seeded for the example
    >>> Z = np.random.default_rng(0).normal(3, 1, (2000, 3))
    >>> least = least_radius(2000, 3, 1.0)
    >>> point = deep_point(Z, np.full(3, 2.0), general_directions(3, 100), 1.0, least, None, rng)
    >>> point.round(1)
    array([2.9, 3. , 3. ])
    """
    for share in ROUNDS:
        points = candidates(centre, least, box, rng)
        centre = points[choose(depths(points, Z, V), 2.0, share * eps, rng)]
    return centre
