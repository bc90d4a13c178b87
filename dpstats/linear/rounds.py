"""Rounds of released scores from a first fit, and what their noise and their start mean for the estimate."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from dpstats._types import Array, Floats
from dpstats.formula.design import Blocks
from dpstats.formula.units import UnitBlocks
from dpstats.linear.bootstrap import MOST, bootstrap, rounds_response
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
from dpstats.linear.curvature import curvature_radius2, shrunken, shrunken_to
from dpstats.linear.gradients import Gradients
from dpstats.linear.het import het_test
from dpstats.linear.identify import Seen, identify
from dpstats.linear.loss import Loss, Squared
from dpstats.linear.misfit import FAR, MANY_ROWS, OFF_THE_LINE, of_large_units, with_misfit
from dpstats.linear.prepare import Prepared
from dpstats.linear.rare import without_hidden
from dpstats.linear.results import Inference
from dpstats.linear.scores import EXCESS_NOISE, averaged_reach, outer_limit
from dpstats.linear.spread import cut_shape, of_long_rows, spread_share, with_squares
from dpstats.linear.summed import Summed, most_rows
from dpstats.linear.whitened import Frame, Whitened
from dpstats.mechanisms.rng import Randomness
from dpstats.results.hypotheses import HetTest

__all__ = ["Rounds", "Walk", "rounds_inference"]

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
    assumed : float
        Mean curvature of the loss that the rounds assumed.
    curvature, psi2 : float
        Share of rows whose residual moves the score, and the mean of ``psi^2``, at the end; of units summed
        up, of the squared norms of their parts, over the number of coefficients.
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
    assumed: float
    curvature: float
    psi2: float
    residual2: float
    het: HetTest | None
    swings: bool
    precondition: Floats
    most: float = math.inf


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
        Of ``hessian``, ``limit``, ``first rounds``, ``rounds``, ``spread``, ``excess`` and ``outer``.
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
    it names (:meth:`rounds` one a round, :meth:`finish` three); rows and their limits are fixed by what was
    released before. See :mod:`dpstats.linear.scores` for sensitivities. Argument: ``docs/privacy/ols.md``.
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
        self._leave_hidden(loss)
        seen = Seen.of(self._hessian, self._hessian_noise, self.prepared.whitening, loss.curvature)
        self._step = seen.steps(loss.curvature)
        if isinstance(loss, Squared) and isinstance(self.rows, Whitened):
            self._sums = Gradients(self.rows, math.inf, self._last and self._last[0], self.count)

    def _leave_hidden(self, loss: Loss) -> None:
        """Leave out rare rows of which the curvature shows too little: they would hide coefficients."""
        if not isinstance(self.rows, Whitened):
            return
        found = without_hidden(self.prepared, self._hessian, self._hessian_noise, loss.curvature)
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
        if isinstance(rows, Summed):
            psi2 = self._clip.power(self._clip.norm, 2) / q
        mu, norm = self._mus["excess"], self._clip.norm
        excess, contrast = loss.excess(self.rows, u, norm, FAR * q, mu, self._rng) / self.count
        visible = rows.cut if isinstance(rows, Summed) else isinstance(loss, Squared)
        excess_noise = EXCESS_NOISE * norm / mu / self.count
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
            assumed=loss.curvature,
            curvature=curvature,
            psi2=psi2,
            residual2=residual2,
            het=het,
            swings=self._swings(),
            precondition=self._step,
            most=rows.most if isinstance(rows, Summed) else math.inf,
        )

    def _swings(self) -> bool:
        before, last = np.linalg.solve(self._step, np.diff(self._path[-3:], axis=0).T).T
        noise = self._noises[-1] / self.count / self._curvature * math.sqrt(2 * len(last))
        least, far = np.linalg.norm(last), np.linalg.norm(before)
        # a round that goes a little too far is undone by less and less
        return bool(before @ last < 0 and _UNDONE * far < least and min(least, far) > _SWING * noise)


def rounds_inference(rounds: Rounds, prepared: Prepared, cov_type: str, note: str) -> Inference:
    r"""What is known of the errors of the coefficients: the covariance, part by part.

    .. math:: \frac1n (I - L) A^{-1} M A^{-1} (I - L) + N
              + A^{-1} K A^{-1} + I_d

    with ``A`` the curvature, ``L`` what rounds ``u + P score`` leave of their start (a mean of powers of
    ``I - P A``), ``M`` the covariance of the scores (:math:`\psi_2 A` over the curvature for "nonrobust"),
    ``N`` the noise of the averaged rounds, ``K`` a bound on the second moment of what the clip takes off, and
    :math:`I_d` the bounds of :func:`~dpstats.linear.identify.identify`, whose hidden directions come apart.

    Parameters
    ----------
    rounds : Rounds
    prepared : Prepared
    cov_type : {"robust", "nonrobust", "bootstrap"}
    note : str
        A further note for the table.

    Returns
    -------
    Inference
        With "bootstrap" also corrected estimates: what is seen of the start is taken off, and both bounds
        stay in their covariance.
    """
    whitening, count, q = prepared.whitening, max(prepared.count, 1.0), len(rounds.coefficients)
    A, A_noise = shrunken(rounds.hessian, rounds.hessian_noise, whitening.share)
    values, vectors = np.linalg.eigh(A)
    A_least = (vectors * np.maximum(values, A_noise)) @ vectors.T
    sizes, directions = np.linalg.eigh(rounds.precondition)  # in these, rounds are steps of one size
    root = (directions * np.sqrt(sizes)) @ directions.T
    values, vectors = np.linalg.eigh(root @ A_least @ root)
    vectors = root @ vectors
    back = np.eye(q) if rounds.metric is None else np.linalg.inv(rounds.metric)

    def left_over(eigenvalues: Floats) -> tuple[Floats, Floats]:
        contraction = np.clip(1 - eigenvalues / rounds.assumed, -0.9, 1.0)
        return averaged_reach(contraction, rounds.burn, len(rounds.noises))

    reach, left = left_over(values)
    turned = vectors.T @ back
    variances = (rounds.noises / count / rounds.assumed) ** 2
    noise = (turned @ turned.T) * ((reach.T * variances) @ reach)
    kept = (1 - left) / values
    flat = A_least * (rounds.psi2 / rounds.curvature)
    if rounds.metric is not None:
        flat = rounds.psi2 * np.eye(q)
    scores = flat
    if cov_type != "nonrobust":
        scores = with_squares(shrunken_to(rounds.outer, rounds.outer_noise, flat), flat, rounds.cut)
    scores = scores * (count / max(count - q, count / 2))
    shape = scores / np.trace(scores)
    if rounds.metric is None:
        shape = of_long_rows(scores, flat)
        shape = cut_shape(shape, A, whitening.W, rounds.coefficients, prepared.intercept)
    straight = taken = rounds.clip.moment(rounds.excess, rounds.excess_noise, shape)
    off, why, large = False, OFF_THE_LINE if rounds.metric is None else MANY_ROWS, np.zeros((q, q))
    rest = rounds.noises[-1] / count / math.sqrt(len(rounds.noises) - rounds.burn)
    if rounds.contrast is not None:
        found = rounds.contrast, rounds.excess_noise, rest, scores / count
        if rounds.metric is not None:
            large, off = of_large_units(*found)
        else:
            ratio = rounds.clip.norm / math.sqrt(q * rounds.psi2)
            taken, off = with_misfit(straight, rounds.excess, *found, ratio)
    more = turned @ (taken - straight + large) @ turned.T
    taken = rounds.clip.with_seen(taken, rounds.excess, rounds.excess_noise) + large
    scores = back @ scores @ back.T
    drawn = count * scores
    scores = vectors.T @ scores @ vectors
    lost = (vectors / values) @ (turned @ taken @ turned.T) @ (vectors / values).T
    spread = (vectors * kept) @ scores @ (vectors * kept).T / count + vectors @ noise @ vectors.T
    seen = Seen.of(rounds.hessian, rounds.hessian_noise, whitening, rounds.assumed)
    moved = rounds.coefficients - rounds.start
    variance = max(whitening.sigma**2, rounds.residual2)
    steps = seen.along(rounds.precondition)
    bias, hidden = identify(seen, rounds.assumed, lambda e: left_over(steps * e)[1], moved, spread, variance)
    cov = spread + lost + bias
    notes: tuple[str, ...] = (note,)
    if off and 2 * np.trace((vectors / values) @ more @ (vectors / values).T) > np.trace(cov):
        notes = (note, why)
    if rounds.swings:  # more than all that is known of any coefficient
        hidden = hidden + np.eye(q) * (np.trace(cov) + variance)
        notes = (note, "Rows far out keep the rounds from settling: no coefficient is determined.")
    corrected = None
    if cov_type == "bootstrap":
        step = rounds.precondition / (count * rounds.assumed)
        response = rounds_response(step, rounds.start, rounds.burn, rounds.noises)
        within, turn = np.minimum(values, MOST * rounds.assumed), np.linalg.inv(vectors)  # or rounds diverge
        whole = (turn.T * within) @ turn * count
        simulated = bootstrap(rounds.coefficients, whole, 0.0, drawn, response)
        corrected = replace(simulated, cov=simulated.cov + lost + bias)
    return Inference(cov, lost + bias, float(np.diagonal(noise) @ values), A, notes, corrected, hidden)
