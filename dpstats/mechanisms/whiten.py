"""Private whitening: the Gram matrix released again and again, each time in the metric learnt so far."""

import math
from dataclasses import dataclass

import numpy as np

from dpstats.mechanisms import _kernels
from dpstats.mechanisms.noise import symmetric_gaussian
from dpstats.mechanisms.passes import sum_rows

__all__ = ["Affine", "Stage", "Whitening", "release_gram", "whiten"]


@dataclass(frozen=True)
class Affine:
    """The public (or released) affine map from a row to standardised coordinates.

    Attributes
    ----------
    columns : (q,) int array
        Entries of the joined row ``(x, y)`` that are used.
    loc, scale : (q,) arrays
        ``z = ((x, y)[columns] - loc) / scale``.
    """

    columns: np.ndarray
    loc: np.ndarray
    scale: np.ndarray

    def apply(self, rows):
        """Standardised coordinates of joined rows, shape ``(n, q)``."""
        clipped = np.clip(rows[:, self.columns], -_kernels.CEILING, _kernels.CEILING)
        return (clipped - self.loc) * (1 / self.scale)


@dataclass(frozen=True)
class Stage:
    """One release of a Gram matrix of clipped rows.

    Attributes
    ----------
    gram : (k, k) array
        ``sum w v v'`` plus noise.
    noise : float
        Standard deviation of the noise on the diagonal (it is ``noise / sqrt(2)`` off it).
    radius2 : float
        Squared radius to which rows were clipped.
    """

    gram: np.ndarray
    noise: float
    radius2: float


@dataclass(frozen=True)
class Whitening:
    """A released linear map that makes the Gram matrix about ``n I``.

    Attributes
    ----------
    W : (q, q) array
        ``v = W' z`` has a Gram near ``n I``, up to the directions that the noise hides.
    floored : (q,) bool array
        For each column of `W`: the last stage could not tell the direction's size from noise.
    stages : tuple of Stage
    """

    W: np.ndarray
    floored: np.ndarray
    stages: tuple[Stage, ...]


def release_gram(blocks, affine, W, radius2, mu, rng):
    """Release ``sum w v v'`` with ``v = W' z`` and ``w = min(1, radius2 / |v|^2)``.

    Returns
    -------
    Stage

    Notes
    -----
    **Privacy.** A record adds or removes one matrix ``w v v'`` of Frobenius norm at most `radius2`: ``mu``-GDP
    under add-remove. Replacing a record moves the sum by at most ``sqrt(2) radius2`` (two positive
    semi-definite matrices have a non-negative inner product); callers divide `mu` accordingly.
    Argument: ``docs/privacy/whiten.md``.
    """
    k = W.shape[1]
    W = np.ascontiguousarray(W)
    inverse = 1 / affine.scale

    def update(state, X, Y, first):
        _kernels.clipped_gram(X, Y, affine.columns, affine.loc, inverse, W, radius2, state)

    total = sum_rows(blocks, lambda: np.zeros((k, k)), update)
    gram = symmetric_gaussian((total + total.T) / 2, radius2, mu, rng)
    return Stage(gram, radius2 / mu, radius2)


def whiten(blocks, affine, count, plan, rng):
    """Learn a whitening map in stages.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    affine : Affine
        To standardised coordinates, the constant column among them.
    count : float
        The released number of rows.
    plan : sequence of (c, L, mu)
        For each stage the clip rule ``R^2 = max(c tr, L n mu / sqrt(2 q))`` and its Gaussian-DP parameter.
    rng : Randomness

    Returns
    -------
    Whitening

    Notes
    -----
    Rows are clipped tightly at first, to condition the problem, and as widely as the noise allows later.
    After each stage the eigenvalues below the noise's spectral norm ``f = sqrt(2 q) s`` are raised to it
    and ``W <- W U sqrt(n / max(ev, f))``: in the next stage noise is measured in the data's own metric.

    **Privacy.** ``mu^2`` adds up over the stages; see :func:`release_gram`.
    """
    q = len(affine.columns)
    W = np.eye(q)
    trace = float(q)
    stages = []
    for c, L, mu in plan:
        radius2 = max(c * trace, L * count * mu / math.sqrt(2 * q))
        stage = release_gram(blocks, affine, W, radius2, mu, rng)
        values, vectors = np.linalg.eigh(stage.gram)
        floor = min(math.sqrt(2 * q) * stage.noise, count)
        raised = np.maximum(values, floor)
        W = W @ (vectors * np.sqrt(count / raised))
        trace = float(np.sum(np.clip(values, 0, None) / raised))
        stages.append(stage)
    return Whitening(W, values < floor, tuple(stages))
