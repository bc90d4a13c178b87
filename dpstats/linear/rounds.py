"""Rounds of released scores from a first fit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from dpstats._types import Array, Floats
from dpstats.formula.design import Blocks
from dpstats.formula.units import UnitBlocks
from dpstats.linear.clip import (
    INFORMATION,
    MAY_CUT,
    UNIT_INFORMATION,
    Clip,
    choose_clip,
    edges_about,
    median_known,
    outer_square,
)
from dpstats.linear.curvature import curvature_radius2
from dpstats.linear.gradients import Gradients
from dpstats.linear.het import het_test
from dpstats.linear.hidden_rows import without_hidden
from dpstats.linear.identify import Seen
from dpstats.linear.loss import Loss, Squared
from dpstats.linear.prepare import Prepared
from dpstats.linear.score_kernels import FAR
from dpstats.linear.scores import EXCESS_NOISE, outer_limit
from dpstats.linear.skew import PART, skewness, unsettled
from dpstats.linear.spread import spread_share
from dpstats.linear.summed import Summed, most_rows
from dpstats.linear.whitened import Frame, Whitened
from dpstats.mechanisms.rng import Randomness
from dpstats.results.hypotheses import HetTest

__all__ = ["Rounds", "Walk"]

_FIRST_CLIP = 2.5
_SWING, _UNDONE = 8.0, 0.5
"""Standard deviations of their noise from which two rounds that undo each other count as a swing, and the
part of the one that the other undoes at least."""
_OVERSHOOT, _VISIBLE, _LEARNS = 2.0, 5.0, 2
"""Steps are shortened where a round meets at least twice the curvature that it assumed, by five standard
deviations of the noise; at most twice, and not where more than two rounds were made since."""
_OUTER = 0.15
_OUTER_LIMITS = 4.0, 40.0
"""Squared products are cut where their noise is 15 % of the variance, at 4 times their mean or more, and
beyond 40 times where it is less."""
_UNIT_OUTER = 2.0
"""Of units they are cut so many times farther out."""


@dataclass(frozen=True)
class Rounds:
    """What rounds release, in whitened coordinates and units of the standardised response.

    Attributes
    ----------
    start, coefficients : (q,) arrays
        Where they began, and the average of the iterates after the first `burn`.
    hessian : (q, q) array
        Mean curvature of the loss at the start of the averaged rounds: the Gram matrix of the rows whose part
        of the score moves, over the number of rows.
    hessian_noise : float
        Standard deviation of the noise on its diagonal.
    outer : (q, q) array
        Mean outer product of the rows' parts of the score, at the end.
    outer_noise : float
    cut : float
        Mean square of the products that `outer` lacks, as the counts show it; 0 for units.
    metric : (q, q) array or None
        Of units: what a part is multiplied by before it is limited; `clip`, `excess`, `outer` and noises are
        in those coordinates. None for the identity.
    noises : (T,) array
        Standard deviation of the noise of each round's score.
    burn : int
    clip : Clip
        Norm to which a row's score was shortened in the averaged rounds, and what that takes off its mean.
    excess : (q,) array
        What shortening to that norm in place of twice it takes off the mean, at the end.
    contrast : (q,) array or None
        By how much the parts of rows far out differ from the others', in the mean; of units, those of many
        rows. None where all rows of units count, and of rows for a loss that limits residuals, where a line
        that bends is another.
    excess_noise : float
        Standard deviation of the noise of an entry of `excess`; that of `contrast` is ``sqrt(3/4)`` of it.
    skew : tuple of (q,) array and float, or None
        How far products are off their centre (:func:`~dpstats.linear.skew.skewness`); None for units.
    assumed : float
        Mean curvature of the loss that the rounds assumed.
    curvature, psi2 : float
        Share of rows whose residual moves the score, and the mean of ``psi^2``, at the end; of units summed
        up, and of rows with weights, of the squared norms of their parts, over the number of coefficients.
    residual2 : float
        Mean squared residual; of units summed up, of the sums of their squares.
    het : HetTest or None
        Of what was released; None for units.
    swings : bool
        Whether the last rounds visibly go back and forth: rows far out, of which the Gram matrices show
        little, have a curvature of 2 or more, and the rounds do not settle.
    precondition : (q, q) array
        What scores were multiplied by since the curvature is known: about `assumed` over the `hessian`, or
        less where the rounds met more.
    most : float
        A unit of more rows counts as if it had so many.
    uneven : bool
        Whether rows have weights.
    """

    start: Floats
    coefficients: Floats
    hessian: Floats
    hessian_noise: float
    outer: Floats
    outer_noise: float
    cut: float
    metric: Floats | None
    noises: Floats
    burn: int
    clip: Clip
    excess: Floats
    contrast: Floats | None
    excess_noise: float
    skew: tuple[Floats, float] | None
    assumed: float
    curvature: float
    psi2: float
    residual2: float
    het: HetTest | None
    swings: bool
    precondition: Floats
    most: float = math.inf
    uneven: bool = False


class Walk:
    """Rounds on the whitened rows, one after another.

    Parameters
    ----------
    blocks : iterable of (X, Y), or Summed
        Rows as they come, or those of units in the coordinates of `prepared`.
    prepared : Prepared
    winsorized : bool
        Whether columns are moved into their limits.
    mus : mapping of str to float
        Of ``hessian``, ``limit``, ``first rounds``, ``rounds``, ``spread``, ``excess``, ``outer`` and, where
        rows count by themselves, ``skewness``.
    averaged : int
        Number of the last rounds, which are averaged.
    rng : Randomness
    size : float
        About the mean number of rows of a unit, if `blocks` have units.

    Attributes
    ----------
    rows : Whitened or Summed
    count : float
        Released number of rows, at least 1.
    prepared : Prepared
        Without what :meth:`curve` leaves out.
    u : (q,) array
        Where the rounds have got to, in whitened coordinates; at first the first fit.

    Notes
    -----
    **Privacy.** Each method but :meth:`restart` and :meth:`guess_limit` is one release of the parameter that
    it names (:meth:`rounds` one a round, :meth:`finish` four, or three of units); rows and their limits are
    fixed by what was released before. See :mod:`dpstats.linear.scores` for sensitivities. Argument:
    ``docs/privacy/ols.md``.
    """

    def __init__(
        self,
        blocks: Blocks | Summed,
        prepared: Prepared,
        winsorized: bool,
        mus: Mapping[str, float],
        averaged: int,
        rng: Randomness,
        size: float = 1.0,
    ) -> None:
        whitening = prepared.whitening
        frame = Frame.of(prepared, winsorized)
        if isinstance(blocks, UnitBlocks):
            noise = max(prepared.count, 1.0), len(whitening.W), averaged, mus["rounds"]
            blocks = Summed(blocks, frame, size, most=most_rows(*noise, size=size, least=size))
        self._blocks, self._winsorized = blocks, winsorized
        self.rows = blocks if isinstance(blocks, Summed) else Whitened(blocks, frame, last=not prepared.rare)
        self._sums: Whitened | Summed | Gradients = self.rows
        self.count = max(prepared.count, 1.0)
        self._last: tuple[Array, Array, float, float] | None = None
        self._shortened = 0
        self._back: Array = np.eye(len(whitening.W))
        self._step = self._back
        self.prepared = prepared
        self.u: Array = np.linalg.solve(whitening.W, whitening.theta)
        self._mus, self._averaged, self._rng = mus, averaged, rng
        self.restart()

    def restart(self) -> None:
        """Forget the rounds so far: they lead to a start."""
        self._start, self._noises = self.u, list[float]()
        self._path = list[Array]()

    def guess_limit(self, loss: Loss) -> None:
        """Shorten scores to two and a half times their typical norm: a public rule, for a start."""
        self._clip = Clip.at(_FIRST_CLIP * loss.scale * math.sqrt(len(self.u)))

    def limit(self, loss: Loss) -> None:
        """Choose the norm to which scores are shortened from here on; the parameter is ``limit``."""
        mu, q, self._counted = self._mus["limit"], len(self.u), self.u
        noise = 1 / self._mus["rounds"] / math.sqrt(self._averaged) / self.count / loss.curvature
        edges = edges_about(loss.scale * math.sqrt(q))
        counts = loss.counts(self.rows, self.u, edges, mu, self._rng)
        units = isinstance(self.rows, Summed)
        given = (1.0, UNIT_INFORMATION) if units else (spread_share(q, self.prepared.intercept), INFORMATION)
        self._clip = choose_clip(edges, counts, 1 / mu, q, self.count, noise, *given, one_way=units)

    def curve(self, loss: Loss) -> None:
        """Release the curvature, by which rounds are steps of Newton's method from here on; the parameter is
        ``hessian``."""
        mu, q = self._mus["hessian"], len(self.u)
        radius2 = curvature_radius2(q, self.count, mu)
        hessian = loss.hessian(self.rows, self.u, self._clip.norm, radius2, mu, self._rng)
        self._hessian, self._hessian_noise = hessian / self.count, radius2 / mu / self.count
        self._leave_hidden(loss, radius2)
        seen = Seen.of(self._hessian, self._hessian_noise, self.prepared.whitening, loss.curvature)
        self._step = seen.steps(loss.curvature)
        if isinstance(loss, Squared) and isinstance(self.rows, Whitened):
            self._sums = Gradients(self.rows, math.inf, self._last and self._last[0], self.count)

    def _leave_hidden(self, loss: Loss, radius2: float) -> None:
        """Leave out rare rows of which the curvature shows too little: they would hide coefficients."""
        if not isinstance(self.rows, Whitened):
            return
        found = without_hidden(self.prepared, self._hessian, self._hessian_noise, loss.curvature, radius2)
        if found is None:
            return
        more = self.count / max(found.prepared.count, 1.0)
        self.prepared, self.count = found.prepared, self.count / more
        self._hessian, self._hessian_noise = found.gram, self._hessian_noise * more
        self.u, self._counted = found.change @ self.u, found.change @ self._counted
        self._back, self._last = np.eye(len(self.u)), None
        self.rows = Whitened(cast(Blocks, self._blocks), Frame.of(self.prepared, self._winsorized), last=True)
        self._sums = self.rows
        self.restart()

    def rounds(self, loss: Loss, times: int, key: str) -> None:
        """Move `times` times, each with the parameter `key`."""
        mu, self._curvature = self._mus[key], loss.curvature
        for _ in range(times):
            score = loss.score(self._sums, self.u, self._clip.norm, mu, self._rng)
            self._shorten(score, self._clip.norm / mu)
            step = self._step @ (self._back @ score)
            self.u = self.u + step / (self.count * loss.curvature)
            self._noises.append(self._clip.norm / mu)
            self._path.append(self.u)

    def _shorten(self, score: Array, noise: float) -> None:
        """Divide the steps by how much more curvature the last round met than it assumed, and start anew.

        Gram matrices limit rows far out, and do not show all of their curvature: along them the rounds would
        swing from side to side. The change of the score over the last step shows it.
        """
        last, self._last = self._last, (self.u, score, self._clip.norm, noise)
        if last is None or last[2] != self._clip.norm:
            return
        moved = self.u - last[0]
        met = moved @ (self._back @ (last[1] - score)) / self.count
        assumed = self._curvature * (moved @ np.linalg.solve(self._step, moved))
        error = np.linalg.norm(self._back.T @ moved) * math.hypot(noise, last[3]) / self.count
        visible = met > _OVERSHOOT * assumed and met - assumed > _VISIBLE * error
        if visible and self._shortened < _LEARNS and len(self._path) <= _LEARNS:
            self._step = self._step * (assumed / met)
            self._shortened += 1
            self.restart()

    def measure(self, loss: Loss) -> None:
        """Measure parts of units by how they vary, so that noise is alike in all directions.

        The parameter is ``unit metric``; where rows count by themselves nothing is released.
        """
        if not isinstance(self.rows, Summed):
            return
        mu, q = self._mus["unit metric"], len(self.u)
        square = outer_limit(loss.scale**2, q, self.count * mu, _OUTER, _OUTER_LIMITS)
        # a few units far out should not decide how the others are measured
        square = min(square, _OUTER_LIMITS[1] * q * loss.scale**2)
        outer = loss.outer(self.rows, self.u, math.sqrt(square), mu, self._rng) / self.count
        self._back = np.linalg.inv(self.rows.measure(outer, square / mu / self.count, loss.scale))

    def finish(self, loss: Loss) -> Rounds:
        """Average the last rounds, and release spread, excess and outer products there."""
        averaged = self._path[-self._averaged :]
        u, q = np.mean(averaged, axis=0), len(self.u)
        rows, clip = self.rows, self._clip
        if isinstance(rows, Whitened) and self.prepared.intercept:
            noise = self._noises[-1] / self.count / loss.curvature / math.sqrt(len(averaged))
            W, moved = self.prepared.whitening.W, u - self._counted
            clip = median_known(clip, W, moved, noise, loss.scale, self.count)
        curvature, psi2 = loss.spread(rows, u, self.count, self._mus["spread"], self._rng)
        residual2 = psi2
        if isinstance(rows, Summed) or self.prepared.affine.weighted:
            psi2 = self._clip.power(self._clip.norm, 2) / q
        mu, norm = self._mus["excess"], self._clip.norm
        # (rows with weights say themselves how far out they are without these)
        far2 = 0.0 if self.prepared.affine.weighted else FAR * q
        excess, contrast = loss.excess(self.rows, u, norm, far2, mu, self._rng) / self.count
        visible = rows.cut if isinstance(rows, Summed) else isinstance(loss, Squared)
        excess_noise = EXCESS_NOISE * norm / mu / self.count
        skew = None
        if isinstance(rows, Whitened):
            path = [self._start, *self._path][-len(averaged) - 1 :]
            rest = self._noises[-1] / self.count / math.sqrt(len(averaged))
            step, noise = self._step / loss.curvature, self._hessian_noise
            score, rest = unsettled(path, step, self._hessian, noise, rest)
            mu = self._mus["skewness"]
            inner = loss.score(rows, u, PART * norm, mu, self._rng) / self.count
            skew = skewness(clip, inner, PART * norm / mu / self.count, score, rest, self.count)
        mu, noise, limits = self._mus["outer"], _OUTER, _OUTER_LIMITS
        if isinstance(rows, Summed):
            # what a few large units add is not alike in all directions, so none of it is cut without need
            noise, limits = _UNIT_OUTER * noise, (limits[0], math.inf)
        square = min(outer_limit(psi2, q, self.count * mu, noise, limits), self._clip.norm**2)
        if not isinstance(rows, Summed):
            square = outer_square(self._clip, square, 1 / mu / self.count, q, MAY_CUT)
        outer = loss.outer(self.rows, u, math.sqrt(square), mu, self._rng) / self.count
        noise, het, cut = square / mu / self.count, None, 0.0
        if isinstance(rows, Summed):
            # what this clip cuts that the rounds' does not, in the shape of what is left
            outer *= 1 + self._clip.squares(math.sqrt(square)) / max(float(np.trace(outer)), q * psi2)
        else:
            kurtosis = self._clip.kurtosis(math.sqrt(square), q)
            het = het_test(outer, noise, self._hessian, self._hessian_noise, self.count, kurtosis)
            cut = self._clip.squares(math.sqrt(square), math.inf)
        return Rounds(
            start=self._start,
            coefficients=u,
            hessian=self._hessian,
            hessian_noise=self._hessian_noise,
            outer=outer,
            outer_noise=noise,
            cut=cut,
            metric=rows.metric if isinstance(rows, Summed) else None,
            noises=np.array(self._noises),
            burn=len(self._path) - len(averaged),
            clip=clip,
            excess=excess,
            contrast=contrast if visible else None,
            excess_noise=excess_noise,
            skew=skew,
            assumed=loss.curvature,
            curvature=curvature,
            psi2=psi2,
            residual2=residual2,
            het=het,
            swings=self._swings(),
            precondition=self._step,
            most=rows.most if isinstance(rows, Summed) else math.inf,
            uneven=self.prepared.affine.weighted,
        )

    def _swings(self) -> bool:
        before, last = np.linalg.solve(self._step, np.diff(self._path[-3:], axis=0).T).T
        noise = self._noises[-1] / self.count / self._curvature * math.sqrt(2 * len(last))
        least, far = np.linalg.norm(last), np.linalg.norm(before)
        # a round that goes a little too far is undone by less and less
        return bool(before @ last < 0 and _UNDONE * far < least and min(least, far) > _SWING * noise)
