r"""Losses of a linear predictor: what rounds, standard errors and predictions need to know of one.

An estimator of a linear predictor :math:`\eta = v^\top u` is its loss :math:`\rho(y, \eta)` plus its budget.
A round releases the score :math:`\sum_i v_i \psi_i`, :math:`\psi = -\partial\rho/\partial\eta`, and moves by
it over the curvature, the mean of :math:`-\partial\psi/\partial\eta`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.engines.local import Block
from dpstats.linear.gradients import Gradients
from dpstats.linear.scores import (
    inner_gram,
    product_counts,
    product_excess,
    product_gradient,
    product_gram,
    psi_moments,
    residual_scale,
    residual_variance,
    summed_gradient,
)
from dpstats.linear.summed import Summed
from dpstats.mechanisms.rng import Randomness

__all__ = ["Huber", "Loss", "Squared"]

_VARIANCE_NOISE, _CEILINGS = 0.08, (9.0, 64.0)
"""Squared residuals are cut where the noise is 8 % of the variance, at 3 to 8 standard deviations."""


class Loss(Protocol):
    """What a loss has to answer."""

    @property
    def curvature(self) -> float:
        """The mean curvature that a round assumes, public or released."""

    @property
    def scale(self) -> float:
        """A released guess at the typical size of ``psi``."""

    def score(
        self, rows: Iterable[Block] | Gradients, u: Floats, clip: float, mu: float, rng: Randomness
    ) -> Floats:
        """Release the score, (q,), with each row's part shortened to the norm `clip`; sums of squared loss
        may come as `Gradients`.

        **Privacy.** ``mu``-GDP under add-remove, as is each method. Argument: ``docs/privacy/ols.md``.
        """

    def counts(self, rows: Iterable[Block], u: Floats, edges: Integers, mu: float, rng: Randomness) -> Floats:
        """Release the number of rows by half-octave of the norm of their part, by the sign of ``psi``."""

    def hessian(
        self, rows: Iterable[Block], u: Floats, clip: float, radius2: float, mu: float, rng: Randomness
    ) -> Floats:
        """Release the Gram matrix of the rows whose shortened part moves with ``u``, within `radius2`."""

    def excess(
        self, rows: Iterable[Block], u: Floats, clip: float, far2: float, mu: float, rng: Randomness
    ) -> Floats:
        """Release what shortening to `clip` in place of twice that takes off the score, and by how much the
        parts of rows far out differ from the others', (2, q): of units, of those of many rows."""

    def outer(self, rows: Iterable[Block], u: Floats, clip: float, mu: float, rng: Randomness) -> Floats:
        """Release the sum of the outer products of the rows' parts, shortened to the norm `clip`."""

    def spread(
        self, rows: Iterable[Block], u: Floats, count: float, mu: float, rng: Randomness
    ) -> tuple[float, float]:
        """Release the mean curvature and the mean of ``psi^2`` at `u`, of units that of their sums."""


class _Residual:
    """A loss of the residual, ``psi(r) = max(-threshold, min(threshold, r))``."""

    threshold: float

    def score(
        self, rows: Iterable[Block] | Gradients, u: Floats, clip: float, mu: float, rng: Randomness
    ) -> Floats:
        if isinstance(rows, Gradients):
            return summed_gradient(rows, u, clip, mu, rng)
        return product_gradient(*self._parts(rows, u), clip, mu, rng)

    def counts(self, rows: Iterable[Block], u: Floats, edges: Integers, mu: float, rng: Randomness) -> Floats:
        return product_counts(*self._parts(rows, u), edges, mu, rng)

    def hessian(
        self, rows: Iterable[Block], u: Floats, clip: float, radius2: float, mu: float, rng: Randomness
    ) -> Floats:
        if isinstance(rows, Summed):
            return rows.gram(u, self.threshold, clip, radius2, mu, rng)
        return inner_gram(rows, u, self.threshold, clip, radius2, mu, rng)

    def excess(
        self, rows: Iterable[Block], u: Floats, clip: float, far2: float, mu: float, rng: Randomness
    ) -> Floats:
        return product_excess(*self._parts(rows, u), clip, 0.0 if isinstance(rows, Summed) else far2, mu, rng)

    def outer(self, rows: Iterable[Block], u: Floats, clip: float, mu: float, rng: Randomness) -> Floats:
        return product_gram(*self._parts(rows, u), clip, mu, rng)

    def _parts(self, rows: Iterable[Block], u: Floats) -> tuple[Iterable[Block], Floats, float]:
        """Rows, coefficients and threshold whose products are the parts of the score, of rows or of units."""
        if isinstance(rows, Summed):
            return rows.scores(u, self.threshold), np.zeros_like(u), math.inf
        return rows, u, self.threshold


@dataclass(frozen=True)
class Squared(_Residual):
    """Least squares; `sigma`, a released guess at the residual scale, is for where :meth:`spread` cuts."""

    sigma: float
    threshold = math.inf
    curvature = 1.0

    @property
    def scale(self) -> float:
        return self.sigma

    def spread(
        self, rows: Iterable[Block], u: Floats, count: float, mu: float, rng: Randomness
    ) -> tuple[float, float]:
        cut = min(max(_VARIANCE_NOISE * count * mu, _CEILINGS[0]), _CEILINGS[1]) * self.sigma**2
        if isinstance(rows, Summed):
            cut *= rows.size
            return 1.0, max(rows.residuals(u, cut, count, mu, rng), 2 * cut / mu / count)
        variance = residual_variance(rows, u, cut, count, mu, rng)
        return 1.0, max(variance, 2 * cut / mu / count)


@dataclass(frozen=True)
class Huber(_Residual):
    """Huber's loss; its curvature is the share of residuals within the threshold where the rounds start."""

    threshold: float
    curvature: float = 1.0

    @property
    def scale(self) -> float:
        return self.threshold / 2

    def spread(
        self, rows: Iterable[Block], u: Floats, count: float, mu: float, rng: Randomness
    ) -> tuple[float, float]:
        size = rows.size if isinstance(rows, Summed) else 1.0
        share, square = psi_moments(rows, u, self.threshold, count, mu, rng)
        return share, square * self.threshold**2 * size

    @classmethod
    def at_scale(
        cls,
        c: float,
        rows: Iterable[Block],
        u: Floats,
        guess: float,
        count: float,
        mus: Mapping[str, float],
        rng: Randomness,
    ) -> tuple["Huber", float]:
        """The loss whose threshold is `c` times the residual scale at `u`; returns it and the scale.

        Notes
        -----
        **Privacy.** Two releases, of the residual scale (``mus["residual scale"]``) and of the curvature
        (``mus["spread"]``), each Gaussian DP under add-remove. Argument: ``docs/privacy/huber.md``.
        """
        sigma = residual_scale(rows, u, guess, count, mus["residual scale"], rng)
        curvature, _ = cls(c * sigma).spread(rows, u, count, mus["spread"], rng)
        return cls(c * sigma, curvature), sigma
