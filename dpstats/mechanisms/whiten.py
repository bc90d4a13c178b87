"""Private whitening: the Gram matrix released again and again, each time in the metric learnt so far."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.mechanisms import _kernels
from dpstats.mechanisms.noise import symmetric_gaussian
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.sums import SUMMATION, sum_bounded, units_of

__all__ = ["Affine", "Stage", "Whitening", "join", "release_gram", "whiten"]

_LEAST_RESIDUAL = 1e-12
_WEAK = 0.08
"""A direction is weak if its mean square is below this in the first stage, however small the noise is."""


@dataclass(frozen=True)
class Affine:
    """The public (or released) affine map from a row to standardised coordinates.

    Attributes
    ----------
    columns : (q,) int array
        Entries of the joined row ``(x, y)`` that are used.
    loc, scale : (q,) arrays
        ``z = ((x, y)[columns] - loc) / scale``.
    weight : (int, float)
        A column of ``y`` by which ``z`` is multiplied, and a unit for it; by default there is none, and the
        column is -1.
    """

    columns: Integers
    loc: Floats
    scale: Floats
    weight: tuple[int, float] = (-1, 1.0)

    @property
    def weighted(self) -> bool:
        return self.weight[0] >= 0

    def apply(self, rows: Floats) -> Floats:
        """Standardised coordinates of joined rows, shape ``(n, q)``."""
        clipped = np.clip(rows[:, self.columns], -_kernels.CEILING, _kernels.CEILING)
        return (clipped - self.loc) * (1 / self.scale)


@dataclass(frozen=True)
class Stage:
    """What one stage may do: ``R^2 = max(c max(tr, 1), min(L n mu / sqrt(2 q), n))`` at ``mu``-GDP, with or
    without the response."""

    c: float
    L: float
    mu: float
    response: bool = True


@dataclass(frozen=True)
class Whitening:
    """A released linear map that makes the Gram matrix about ``n I``, and a first fit of the response.

    Attributes
    ----------
    W : (q, q) array
        ``v = W' z`` has a Gram near ``n I``, up to the directions that the noise hides.
    share : (q,) array
        Released mean square of each coordinate of ``v``, of clipped rows and with what was expected to be cut
        of `groups`: 1, or less where the direction was still below the noise floor in the last stage.
    hidden : (q, q) array
        Positive semi-definite, in the coordinates ``z``: ``sum f u u'`` over the directions ``u`` that were
        below the noise floor ``f`` of the first stage. A ridge of this shape stabilises what the noise hides.
    weak : (q, q) array
        What is added if ``f`` is at least 8 % of the rows.
    mean : (q,) array
        Mean of every coordinate of ``z`` by the first stage, if the first of them is the constant.
    theta : (q,) array
        First fit of the standardised response, in the coordinates ``z``; zero without a response.
    theta_variance : (q,) array
        Variance of ``W^-1 theta``: the noise of the last stage that carried the response, and in quadrature
        what that stage held back in directions below its noise floor.
    sigma : float
        Residual scale of that fit (of clipped rows), in standardised units; 1 without a response.
    radius2 : float
        Squared radius of the last stage.
    gram : (q, q) array
        The last released Gram matrix over the number of rows, in the coordinates ``v``; neither raised nor
        limited, and diagonal but for what was expected to be cut of the rows of rare levels.
    spread : (q,) array
        The noise of its entry ``(i, j)`` has the standard deviation ``spread_i spread_j``, and ``sqrt(2)``
        times less off the diagonal.
    """

    W: Floats
    share: Floats
    hidden: Floats
    weak: Floats
    mean: Floats
    theta: Floats
    theta_variance: Floats
    sigma: float
    radius2: float
    gram: Floats
    spread: Floats

    @classmethod
    def public(cls, W: Floats) -> "Whitening":
        """A public map, with nothing released."""
        q = len(W)
        none, zeros = np.zeros((q, q)), np.zeros(q)
        fits = (zeros, zeros, zeros, 1.0)
        return cls(W, np.ones(q), none, none, *fits, math.inf, np.eye(q), zeros)


def release_gram(
    blocks: Iterable[tuple[Floats, Floats]],
    affine: Affine,
    W: Floats,
    radius2: float,
    mu: float,
    rng: Randomness,
) -> Floats:
    """Release ``sum w v v'`` with ``v = W' z`` and ``w = min(1, radius2 / |v|^2)``.

    Returns
    -------
    (k, k) array
        The Gram matrix plus noise of standard deviation ``radius2 / mu`` on the diagonal, and a thousandth
        more.

    Notes
    -----
    **Privacy.** A record adds or removes one matrix ``w v v'`` of Frobenius norm at most `radius2`:
    ``mu``-GDP under add-remove. Replacing a record moves the sum by at most ``sqrt(2) radius2`` (two positive
    semi-definite matrices have a non-negative inner product); callers divide `mu` accordingly. Argument:
    ``docs/privacy/whiten.md``.
    """
    k = W.shape[1]
    W = np.ascontiguousarray(W)
    given = affine.columns, affine.loc, 1 / affine.scale, *affine.weight, W
    units = units_of(radius2)

    def update(state: Any, X: Floats, Y: Floats, first: int) -> None:
        _kernels.clipped_gram(X, Y, *given, radius2, units, state)

    total = sum_bounded(blocks, (k, k), units, update)
    return symmetric_gaussian(total, (1 + SUMMATION) * radius2, mu, rng)


def whiten(
    blocks: Iterable[tuple[Floats, Floats]],
    affine: Affine,
    count: float,
    stages: Sequence[Stage],
    rng: Randomness,
    response: Affine | None = None,
    start: Floats | None = None,
    groups: tuple[Floats, Floats] | None = None,
) -> Whitening:
    """Learn a whitening map, and a first fit of the response, in stages.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    affine : Affine
        To standardised coordinates ``z`` of the design, the constant column among them (``q`` in all).
    count : float
        The released number of rows, at least 1.
    stages : sequence of Stage
        Clip rule and budget of each stage. Without a stage, or without a column, nothing is released, and `W`
        is `start`.
    rng : Randomness
    response : Affine, optional
        To the one standardised response ``y``.
    start : (q, q) array, optional
        A public first guess of `W`, invertible; by default the identity.
    groups : (k, q) array, (k,) array, optional
        Means ``z`` of groups of rows, and their shares of the rows, as far as they are known: what is cut of
        them is added to what is released, so that a group with few rows, which are long, is not taken for a
        direction in which rows do not vary.

    Returns
    -------
    Whitening

    Notes
    -----
    Rows ``v = (W' z, (y - theta'z)/s)`` are clipped to the radius
    ``R^2 = max(c max(tr, 1), min(L n mu / sqrt(2 q), n))``: tightly at first, to condition the problem, and
    as widely as the noise allows later. After each stage the eigenvalues below the noise's spectral norm
    ``f = sqrt(2 q) s`` are raised to it, ``W <- W U sqrt(n / max(ev, f))``, and ``theta`` moves to the fit of
    what was released: in the next stage noise is measured in the data's own metric.

    **Privacy.** ``mu^2`` adds up over the stages; see :func:`release_gram`.
    """
    q = len(affine.columns)
    W, theta, sigma = np.eye(q) if start is None else start, np.zeros(q), 1.0
    if not stages or q == 0:
        return Whitening.public(W)
    trace = float(q)
    hidden, weak = np.zeros((2, q, q))
    mean, variance = np.zeros((2, q))
    for i, stage in enumerate(stages):
        joined = response if stage.response else None
        rows = affine if joined is None else join(affine, joined)
        basis = W if joined is None else _residual_basis(W, theta, sigma)
        # in whitened coordinates no row is longer than sqrt(count)
        wide = min(stage.L * count * stage.mu / math.sqrt(2 * q), count)
        # (where all that was released is noise, no eigenvalue may be above 0)
        radius2 = max(stage.c * max(trace + (joined is not None), 1.0), wide)
        gram = release_gram(blocks, rows, basis, radius2, stage.mu, rng)
        noise = radius2 / stage.mu
        seen, directions = np.linalg.eigh(gram[:q, :q])
        cut = np.zeros((q, q)) if groups is None else count * _cut(groups[0] @ W, groups[1], radius2)
        values, vectors = (seen, directions) if groups is None else np.linalg.eigh(gram[:q, :q] + cut)
        floor = min(math.sqrt(2 * q) * noise, count)
        raised = np.maximum(values, floor)
        onward = vectors * np.sqrt(count / raised)
        if i == 0:
            below = np.linalg.solve(W.T, directions[:, seen < floor])
            hidden = floor * (below @ below.T)
            limit = max(floor, _WEAK * count)
            below = np.linalg.solve(W.T, directions[:, seen < limit])
            weak = limit * (below @ below.T) - hidden
            mean = np.linalg.solve(W.T, np.linalg.solve(W.T, gram[:q, :q]).T)[0]
            mean = mean / max(mean[0], noise)
        if joined is not None:
            # products with the response are cut as the rows are, so their fit needs what is seen
            cross, above = directions.T @ gram[:q, q], np.maximum(seen, floor)
            # a direction below the floor moves by the share of the floor that it reaches
            reached = np.clip(seen / floor, 0.0, 1.0)
            step = cross / above * reached
            theta = theta + sigma * (W @ (directions @ step))
            left = max(gram[q, q] - float(cross @ (cross / above)), noise, _LEAST_RESIDUAL * count)
            error2 = (reached * noise / above) ** 2 / 2 + (cross / above - step) ** 2
            variance = sigma**2 * np.linalg.solve(onward, directions) ** 2 @ error2
            sigma *= math.sqrt(left / count)
        W = W @ onward
        trace = float(np.sum(np.clip(values, 0.0, None) / raised))
    return Whitening(
        W,
        np.clip(values, noise, raised) / raised,
        hidden,
        weak,
        mean,
        theta,
        variance,
        sigma,
        radius2,
        np.diag(values / raised) - onward.T @ cut @ onward / count,
        np.sqrt(noise / raised),
    )


def _cut(means: Floats, shares: Floats, radius2: float) -> Floats:
    """What is expected to be cut of the mean Gram matrix of groups of rows about `means`."""
    length2 = np.sum(means**2, axis=1) + means.shape[1]
    return (means.T * (shares * (1 - np.minimum(1.0, radius2 / length2)))) @ means


def join(affine: Affine, response: Affine) -> Affine:
    """The standardised coordinates of a joined row with the response behind them."""
    return replace(
        affine,
        columns=np.append(affine.columns, response.columns),
        loc=np.append(affine.loc, response.loc),
        scale=np.append(affine.scale, response.scale),
    )


def _residual_basis(W: Floats, theta: Floats, sigma: float) -> Floats:
    """The map from ``(z, y)`` to ``(W' z, (y - theta'z) / sigma)``, transposed: shape ``(q + 1, q + 1)``."""
    q = len(W)
    basis = np.zeros((q + 1, q + 1))
    basis[:q, :q] = W
    basis[:q, q] = -theta / sigma
    basis[q, q] = 1 / sigma
    return basis
