r"""Directions that the noise hides: a worst case for what rounds leave of their start, or none."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.mechanisms.whiten import Whitening

__all__ = ["BELOW", "CERTAIN", "HIDDEN", "Seen", "identify", "undetermined"]

HIDDEN = 0.03
"""A direction is hidden if its eigenvalue may be below this share of what the whitening aims at."""
BELOW, CERTAIN = 2.5, 3.0
"""How many standard deviations an eigenvalue may be below the released one: for a bound on what rounds leave,
and for whether there is one at all."""
_TURNED = 2.0
"""Standard deviations by which noise may turn a hidden direction towards a coefficient that is none of it."""
_NAMED, _SHARP = 2.5, 0.15
"""From so many on a coefficient is named; where one is at most so much, in radians, the direction is seen
well enough to tell whose it is."""
_MUCH = 0.3
"""There is much of a column by itself if it has so much of what directions have in the middle."""
_SURE, _LEAST = 4.0, 0.35
"""For how far a round goes an eigenvalue counts as at least so many standard deviations of its noise, and as
at least this share of what the whitening aims at: rounds that go too far do not settle."""


@dataclass(frozen=True)
class Seen:
    """Two released Gram matrices over the number of rows, in the same coordinates.

    Attributes
    ----------
    gram : (q, q) array
    noise : float
        Standard deviation of the noise on its diagonal.
    before : (q, q) array
        The earlier one, of all rows.
    spread : (q,) array
        The noise of its entry ``(i, j)`` has the standard deviation ``spread_i spread_j``. In both, the noise
        off the diagonal is ``sqrt(2)`` times smaller.
    """

    gram: Floats
    noise: float
    before: Floats
    spread: Floats

    @classmethod
    def of(cls, gram: Floats, noise: float, whitening: Whitening, curvature: float) -> "Seen":
        """What a loss of this mean curvature shows beside the last stage of a whitening, whose aim is 1."""
        return cls(gram, noise, curvature * whitening.gram, math.sqrt(curvature) * whitening.spread)

    @classmethod
    def alone(cls, gram: Floats, noise: float) -> "Seen":
        """A matrix with nothing before it."""
        return cls(gram, noise, np.zeros_like(gram), np.full(len(gram), 1e3))

    def directions(self) -> tuple[Floats, Floats, Floats]:
        """Eigenvalues of the mean by precision, their standard deviations, both (q,), and eigenvectors."""
        s2 = np.outer(self.spread, self.spread) ** 2
        weight = s2 / np.maximum(s2 + self.noise**2, 1e-300) if self.noise else np.ones_like(s2)
        mean = weight * self.gram + (1 - weight) * self.before
        variance = weight**2 * self.noise**2 + (1 - weight) ** 2 * s2
        values, vectors = np.linalg.eigh(mean)
        squares = vectors**2
        between = squares.T @ variance @ squares
        sd = np.sqrt(np.diagonal(between))
        # noise pushes eigenvalues apart: by half of this between two that are farther apart than it is large
        gaps = values[:, None] - values
        push = np.sum(between * gaps / np.maximum(gaps**2 + 2 * between, 1e-300), axis=1) / 2
        return values - push, sd, vectors

    def steps(self, aim: float) -> Floats:
        """What scores are multiplied by so that a round goes all the way along each direction, (q, q): `aim`
        over the mean of both matrices.
        """
        values, sd, vectors = self.directions()
        sizes = aim / np.maximum(values, np.maximum(_SURE * sd, _LEAST * aim))
        return (vectors * sizes) @ vectors.T

    def hidden(self) -> Floats:
        """Directions, (q, k), whose eigenvalue may be as good as 0, if that of one that is seen well is 1."""
        values, error, vectors = self.directions()
        return np.asarray(vectors[:, values - CERTAIN * error <= HIDDEN])

    def leaning(self, hidden: Floats, back: Floats) -> Floats:
        """The map to coefficients, (d, q), without what these have of hidden directions by the noise of these
        alone.

        Where a level without events is hidden, noise mixes its direction with others that are well known: a
        coefficient leans on it as far as that is more than two standard deviations of the mixing.

        Parameters
        ----------
        hidden : (q, q) array
            From :func:`identify`.
        back : (d, q) array

        Examples
        --------
        >>> seen = Seen.alone(np.diag([0.0, 1.0]), 0.05)
        >>> seen.leaning(np.diag([9.0, 0.0]), np.array([[1.0, 0.3], [0.08, 1.0]])).round(2)
        array([[1. , 0.3],
               [0. , 1. ]])
        """
        vectors, parts, mixed, dark = self._leans(hidden, back)
        return np.asarray(np.where(dark & (np.abs(parts) < _TURNED * mixed), 0.0, parts) @ vectors.T)

    def repeated(self, hidden: Floats, back: Floats) -> list[Integers]:
        """Coefficients, two or more, of which one nearly repeats the others: for each hidden direction that
        is seen well, those that lean on it, if there is much of each by itself (rare levels hide directions
        of their own).

        Parameters
        ----------
        hidden, back
            As of :meth:`leaning`.

        Examples
        --------
        >>> turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
        >>> seen = Seen.alone(turn @ np.diag([1.0, 0.0]) @ turn, 0.01)
        >>> seen.repeated(turn @ np.diag([0.0, 9.0]) @ turn, np.eye(2))
        [array([0, 1])]
        """
        _, parts, mixed, dark = self._leans(hidden, back)
        alone, ways = np.linalg.pinv(back), np.linalg.norm(back, axis=1)
        there = np.einsum("ij,ik,kj->j", alone, self.gram, alone)
        much = there > _MUCH * np.median(np.diagonal(self.gram)) * np.sum(alone**2, axis=0)
        lean = (np.abs(parts) >= _NAMED * mixed) & (ways > 0)[:, None]
        seen = mixed[np.argmax(ways)] <= _SHARP * np.max(ways)
        dark = dark & seen & (lean.sum(axis=0) > 1) & ~np.any(lean & ~much[:, None], axis=0)
        return [np.flatnonzero(lean[:, e]) for e in np.flatnonzero(dark)]

    def _leans(self, hidden: Floats, back: Floats) -> tuple[Floats, Floats, Floats, Booleans]:
        """Directions, what coefficients have of them, the standard deviation of that by noise, and which are
        hidden, rounding aside."""
        values, error, vectors = self.directions()
        turn = error / np.maximum(np.median(values) - values, error)
        along = self.along(hidden)
        dark = along > 1e-9 * np.max(along, initial=0.0)
        return vectors, back @ vectors, turn * np.linalg.norm(back, axis=1)[:, None], dark

    def along(self, matrix: Floats) -> Floats:
        """Of a symmetric matrix, the values along the directions, (q,)."""
        vectors = self.directions()[2]
        return np.einsum("ie,ij,je->e", vectors, matrix, vectors)


def identify(
    seen: Seen,
    aim: float,
    left_at: Callable[[Floats], Floats],
    moved: Floats,
    spread: Floats,
    variance: float,
    below: float = BELOW,
) -> tuple[Floats, Floats]:
    r"""What may be left of the start, squared, as matrices to add to a covariance.

    Along a direction whose eigenvalue is at least :math:`\lambda`, of which rounds leave the share
    :math:`\ell = \ell(\lambda)`, the bias is at most

    .. math:: \ell \min\Bigl(\sqrt{V / \lambda},\; \frac{|m| + 2 s}{1 - \ell}\Bigr)

    with ``m`` how far the estimate moved and ``s`` its standard error: the first because the target explains
    at most the mean squared residual ``V`` of the start, the second because the rounds have gone the share
    :math:`1 - \ell` of the way. :math:`\lambda` is taken `below` standard deviations below the
    released eigenvalue, and as at least 3 % of `aim`. If it may be less than that by three standard
    deviations, there is no bound: where an eigenvalue may be 0 no interval of finite length covers
    uniformly (Gleser and Hwang 1987, Dufour 1997).

    Parameters
    ----------
    seen : Seen
    aim : float
        Eigenvalue of a direction that is seen well.
    left_at : callable
        Share of the start that is left, by eigenvalue.
    moved : (q,) array
    spread : (q, q) array
        Covariance of the estimates without bias.
    variance : float
        Mean squared residual of the start.
    below : float
        By how many standard deviations eigenvalues are lowered.

    Returns
    -------
    bias, hidden : (q, q) arrays
        Of the directions with a bound, and of those without, as if their eigenvalue were the least that
        counts.
    """
    values, error, vectors = seen.directions()
    dark = values - CERTAIN * error <= HIDDEN * aim
    safe = np.maximum(values - below * error, HIDDEN * aim)
    left = left_at(safe)
    sd = np.sqrt(np.maximum(np.einsum("ie,ij,je->e", vectors, spread, vectors), 0.0))
    reached = (np.abs(vectors.T @ moved) + 2 * sd) / np.maximum(1 - left, 1e-12)
    bias = np.where(dark, 0.0, left * np.minimum(np.sqrt(variance / safe), reached))
    return (vectors * bias**2) @ vectors.T, (vectors[:, dark] * (variance / (HIDDEN * aim))) @ vectors[
        :, dark
    ].T


def undetermined(cov: Floats, hidden: Floats) -> Booleans:
    """Which coefficients are not determined, (d,) of bool: more variance is hidden than all the rest is.

    Parameters
    ----------
    cov : (d, d) array
        Of everything but the hidden directions.
    hidden : (d, d) array
        Of those alone, from :func:`identify`, in the same coordinates.

    Examples
    --------
    >>> undetermined(np.diag([1.0, 1.0]), np.diag([0.2, 5.0]))
    array([False,  True])
    """
    return np.diagonal(hidden) > np.diagonal(cov)
