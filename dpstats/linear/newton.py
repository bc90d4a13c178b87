"""Rounds of released scores, each times the inverse of one noisy Gram matrix: AdaSSP and its boosting."""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpstats._types import Array, Floats
from dpstats.formula.design import Blocks, Design
from dpstats.formula.units import UnitBlocks
from dpstats.linear.bootstrap import bootstrap, rounds_response
from dpstats.linear.clip import MAY_CUT, Clip, choose_clip, edges_about, median_known, outer_square
from dpstats.linear.conditioning import REFERENCE
from dpstats.linear.curvature import shrunken, shrunken_to
from dpstats.linear.gradients import Gradients
from dpstats.linear.hidden_rows import without_hidden
from dpstats.linear.identify import HIDDEN, Seen, identify
from dpstats.linear.loss import Squared
from dpstats.linear.misfit import OFF_THE_LINE, with_misfit
from dpstats.linear.moments import BoundedBudget, bounded_rows, raised, row_radius2
from dpstats.linear.prepare import Prepared
from dpstats.linear.results import Inference, regression_results
from dpstats.linear.score_kernels import FAR
from dpstats.linear.scores import EXCESS_NOISE, averaged_noise, outer_limit
from dpstats.linear.skew import PART, skewness, unsettled, with_seen
from dpstats.linear.spread import cut_shape, of_long_rows, spread_share, with_squares
from dpstats.linear.summed import Summed, balanced
from dpstats.linear.whitened import Frame, Whitened
from dpstats.mechanisms._kernels import EXPONENT
from dpstats.mechanisms.rng import Randomness
from dpstats.results.results import Results

__all__ = ["Newton", "Solved", "solved_inference", "solved_results"]

_FIRST_CLIP = 3.0
_VISIBLE = 3.3
"""Standard deviations from which rows beyond a given clip are seen."""
_LOST = 100.0
"""Nothing is determined where noise has taken the start so many residual standard deviations off."""
_OUTER = 0.4
_OUTER_LIMITS = 10.0, 40.0
"""Squared products are cut where their noise is 40 % of the variance, at 10 times their mean or more, and
beyond 40 times where it is less."""


@dataclass(frozen=True)
class Solved:
    """What rounds release, in whitened coordinates and units of the standardised response.

    Attributes
    ----------
    prepared : Prepared
    radius : float
        Longer rows have the weight ``(radius / |v|)^2``.
    start, coefficients : (q,) arrays
        Where the rounds began, and the average of the iterates after the first `burn`.
    astray : float
        Expected squared length of the noise in `start`, by the rounds before it.
    gram : (q, q) array
        ``sum v v'`` of the weighted rows whose part of the score moves, over the number of rows.
    gram_noise : float
        Standard deviation of the noise on its diagonal.
    noises : (T,) array
        Standard deviation of the noise of each round's score.
    burn : int
    clip : Clip
        Norm to which a row's score was shortened in the averaged rounds, and what that takes off its mean.
    binds : bool
        Whether that norm was given and is less than the rows need.
    variance : float
        Mean squared residual; of units summed up, of the squared norms of their parts, over the number of
        coefficients.
    residual2, size : float
        Mean squared residual, or of units the mean of the sums of their squares, and of how many rows.
    outer : (q, q) array
        Mean outer product of the rows' parts of the score, at the end.
    outer_noise : float
    cut : float
        Mean square of the parts that `outer` lacks, as the counts show it; 0 for units.
    excess : (q,) array
        What shortening to the clip in place of twice it takes off the mean, at the end.
    contrast : (q,) array or None
        By how much the parts of rows far out differ from the others', in the mean. None of units, and with a
        given clip, of which neither is released.
    excess_noise : float
        Standard deviation of the noise of an entry of `excess`; that of `contrast` is ``sqrt(3/4)`` of it.
        Infinite with a given clip.
    skew : tuple of (q,) array and float, or None
        How far parts are off their centre (:func:`~dpstats.linear.skew.skewness`); None of units, and with a
        given clip.
    """

    prepared: Prepared
    radius: float
    start: Floats
    coefficients: Floats
    astray: float
    gram: Floats
    gram_noise: float
    noises: Floats
    burn: int
    clip: Clip
    binds: bool
    variance: float
    residual2: float
    size: float
    outer: Floats
    outer_noise: float
    cut: float
    excess: Floats
    contrast: Floats | None
    excess_noise: float
    skew: tuple[Floats, float] | None


class Newton:
    """Rounds on weighted rows, one after another.

    Parameters
    ----------
    method : str
        Name of the estimator.
    blocks : iterable of (X, Y)
    budget : BoundedBudget
        Its `mus` of what :func:`~dpstats.linear.moments.bounded_rows` needs, and of ``gram``, ``rounds``,
        ``spread``, ``excess``, ``skewness`` and ``outer``.
    relative : float
        Noise of the Gram matrix that the rows' radius may cause
        (:func:`~dpstats.linear.moments.row_radius2`).
    averaged : int
        Number of the last rounds, which are averaged.
    rng : Randomness

    Attributes
    ----------
    prepared : Prepared

    Notes
    -----
    **Privacy.** The constructor prepares the rows; each method is one release of the parameter that it names
    (:meth:`rounds` one a round, :meth:`finish` four, of units three, or two with a given clip). Rows and
    their limits are fixed by what was released before. See :mod:`dpstats.linear.scores` for sensitivities,
    and ``docs/privacy/adassp.md`` for the argument.
    """

    def __init__(
        self,
        method: str,
        blocks: Blocks,
        budget: BoundedBudget,
        relative: float,
        averaged: int,
        rng: Randomness,
    ) -> None:
        self.prepared, frame = bounded_rows(method, blocks, budget, rng, references=REFERENCE)
        self._budget, self._averaged, self._rng = budget, averaged, rng
        self._count = max(self.prepared.count, 1.0)
        whitening, q, mu = self.prepared.whitening, len(self.prepared.affine.columns), budget.mus["gram"]
        self._start: Array = np.linalg.solve(whitening.W, whitening.theta)
        self._u: Array = self._start
        self._binds, self._size = False, 1.0
        self._noises: list[float] = []
        self._path: list[Array] = []
        if self.prepared.flat_response:
            return
        self._radius = budget.clip or math.sqrt(row_radius2(q, self._count, mu, relative))
        if isinstance(blocks, UnitBlocks):
            intercept = budget.public.intercept
            self.prepared, self._size = balanced(
                self.prepared, Summed(blocks, Frame.of(self.prepared, False)), intercept, budget.mus, rng
            )
            frame, self._count = Frame.of(self.prepared, False), max(self.prepared.count, 1.0)
            self._start = self._u = np.linalg.solve(self.prepared.whitening.W, whitening.theta)
            rows = Summed(blocks, frame, self._size, self._radius**2)
            self._rows: Whitened | Summed = rows
            self._sums: Summed | Gradients = rows
        else:
            self._blocks = blocks
            self._rows = Whitened(blocks, frame, self._radius, last=not self.prepared.rare)
            self._sums = Gradients(self._rows, self._radius, count=self._count)
        self._inverse: Array = np.eye(q) / self._count

    @property
    def _sigma(self) -> float:
        return self.prepared.whitening.sigma

    @property
    def _typical(self) -> float:
        """Norm of the part of the score of a row of average size."""
        return self._sigma * math.sqrt(len(self._u))

    def guess_limit(self) -> None:
        """Shorten scores to three times their typical norm: a public rule, for the first rounds."""
        self._clip = Clip.at(self._budget.clip**2 if self._budget.clip else _FIRST_CLIP * self._typical)

    def limit(self) -> None:
        """Choose the norm to which scores are shortened from here on; the parameter is ``limit``.

        Where it was given, see whether that shortens more rows than the noise hides.
        """
        mus, q, given = self._budget.mus, len(self._u), self._budget.clip
        mu, self._counted = mus["limit"], self._u
        edges = edges_about(given**2 if given else self._typical)
        counts = Squared(self._sigma).counts(self._rows, self._u, edges, mu, self._rng)
        if given:
            beyond = counts[:, 1:][:, 2.0 ** ((edges - EXPONENT) / 2) > 0.99 * given**2]
            self._binds = bool(beyond.sum() > _VISIBLE * math.sqrt(beyond.size) / mu)
            self._clip = Clip.at(given**2)
        else:
            noise = 1 / mus["rounds"] / math.sqrt(self._averaged) / self._count
            share, units = spread_share(q, self.prepared.intercept), isinstance(self._rows, Summed)
            self._clip = choose_clip(edges, counts, 1 / mu, q, self._count, noise, share, one_way=units)

    def gram(self) -> None:
        """Release the Gram matrix of the rows that move the score (``gram``), and start again from here.

        Rounds before it trust the whitening: they take the Gram matrix as the number of rows times one.
        """
        mu, radius2, loss = self._budget.mus["gram"], self._radius**2, Squared(self._sigma)
        self._gram = loss.hessian(self._rows, self._u, self._clip.norm, radius2, mu, self._rng)
        self._noise = radius2 / mu
        self._leave_hidden()
        self._inverse = np.linalg.inv(raised(self._gram, self._noise))
        self._astray = len(self._u) * float(np.sum(np.square(self._noises))) / self._count**2
        self._start, self._noises, self._path = self._u, [], []

    def _leave_hidden(self) -> None:
        """Leave out rare rows of which the Gram matrix shows too little: they would hide others."""
        gram, noise = self._gram / self._count, self._noise / self._count
        found = None
        if isinstance(self._rows, Whitened):
            found = without_hidden(self.prepared, gram, noise, 1.0, self._radius**2)
        if found is None:
            return
        self.prepared, self._gram = found.prepared, found.gram * max(found.prepared.count, 1.0)
        self._count = max(found.prepared.count, 1.0)
        self._u, self._counted = found.change @ self._u, found.change @ self._counted
        self._rows = Whitened(self._blocks, Frame.of(self.prepared, False), self._radius, last=True)
        self._sums = Gradients(self._rows, self._radius, count=self._count)

    def rounds(self, times: int, key: str) -> None:
        """Move `times` times, each with the parameter `key`."""
        mu = self._budget.mus[key]
        for _ in range(times):
            score = Squared(self._sigma).score(self._sums, self._u, self._clip.norm, mu, self._rng)
            self._u = self._u + self._inverse @ score
            self._noises.append(self._clip.norm / mu)
            self._path.append(self._u)

    def finish(self) -> Solved:
        """Average the last rounds, and release ``spread``, ``excess`` and ``outer`` products."""
        u, q, loss = np.mean(self._path[-self._averaged :], axis=0), len(self._u), Squared(self._sigma)
        mus, count = self._budget.mus, self._count
        _, residual2 = loss.spread(self._rows, u, count, mus["spread"], self._rng)
        variance = residual2
        if isinstance(self._rows, Summed):
            read = len(self._clip.sizes) > 1
            variance = self._clip.power(self._clip.norm, 2) / q if read else residual2 / self._size
        excess, contrast, excess_noise = np.zeros(q), None, math.inf
        if mus["excess"]:
            mu, norm = mus["excess"], self._clip.norm
            # one round shortens the parts at its start, which for sums of units is the first fit
            at = self._start if len(self._path) == 1 and isinstance(self._rows, Summed) else u
            far2 = min(FAR * q, self._radius**2)
            excess, contrast = loss.excess(self._rows, at, norm, far2, mu, self._rng) / count
            excess_noise = EXCESS_NOISE * norm / mu / count
        limits = (_OUTER_LIMITS[0], math.inf) if isinstance(self._rows, Summed) else _OUTER_LIMITS
        square = min(outer_limit(variance, q, count * mus["outer"], _OUTER, limits), self._clip.norm**2)
        clip, cut, skew = self._clip, 0.0, None
        if isinstance(self._rows, Whitened):
            if self.prepared.intercept:
                noise = self._noises[-1] / count / math.sqrt(self._averaged)
                W, moved = self.prepared.whitening.W, u - self._counted
                clip = median_known(clip, W, moved, noise, self._sigma, count)
            if mus["skewness"]:
                mu, norm = mus["skewness"], PART * clip.norm
                path = [self._start, *self._path][-self._averaged - 1 :]
                rest = self._noises[-1] / count / math.sqrt(self._averaged)
                gram, noise = self._gram / count, self._noise / count
                score, rest = unsettled(path, self._inverse * count, gram, noise, rest)
                inner = loss.score(self._rows, u, norm, mu, self._rng) / count
                skew = skewness(clip, inner, norm / mu / count, score, rest, count)
            square = outer_square(self._clip, square, 1 / mus["outer"] / count, q, MAY_CUT)
            cut = self._clip.squares(math.sqrt(square), math.inf)
        outer = loss.outer(self._rows, u, math.sqrt(square), mus["outer"], self._rng) / count
        if isinstance(self._rows, Summed):
            # what this clip cuts that the rounds' does not, in the shape of what is left
            outer *= 1 + self._clip.squares(math.sqrt(square)) / max(float(np.trace(outer)), q * variance)
        return Solved(
            prepared=self.prepared,
            radius=self._radius,
            start=self._start,
            coefficients=u,
            astray=self._astray,
            gram=self._gram / count,
            gram_noise=self._noise / count,
            noises=np.array(self._noises) / count,
            burn=len(self._path) - self._averaged,
            clip=clip,
            binds=self._binds,
            variance=variance,
            residual2=residual2,
            size=self._size,
            outer=outer,
            outer_noise=square / mus["outer"] / count,
            cut=cut,
            excess=excess,
            contrast=contrast if isinstance(self._rows, Whitened) else None,
            excess_noise=excess_noise,
            skew=skew,
        )


def solved_results(
    method: str,
    design: Design,
    budget: BoundedBudget,
    release: Prepared | Solved,
    cov_type: str,
    rounds: int | None = None,
) -> Results:
    """The Results of a fit by :class:`Newton`, from its release, which has no fit for a flat response."""
    solved = release if isinstance(release, Solved) else None
    prepared = release if isinstance(release, Prepared) else release.prepared
    u, inference, variance, size = np.zeros(len(prepared.affine.columns)), None, 0.0, 1.0
    if solved is not None:
        u, variance, size = solved.coefficients, solved.residual2, solved.size
        inference = solved_inference(solved, cov_type)
    return regression_results(
        method,
        design,
        budget.guarantee,
        prepared,
        u,
        inference,
        variance,
        winsorized=budget.standardize,
        fitted_within=False,
        rounds=rounds,
        cov_type=None if inference is None else cov_type,
        size=size,
    )


def solved_inference(solved: Solved, cov_type: str) -> Inference:
    r"""What the noise of the rounds, and what they leave of their start, mean for the coefficients.

    With ``P`` the inverse that a round multiplies by and ``A`` the Gram matrix, the error is multiplied by
    ``K = I - P A`` each round; ``L``, the mean of ``K^(t + 1)`` over the averaged rounds, is left of the
    start.
    """
    prepared, q = solved.prepared, len(solved.coefficients)
    count, whitening = max(prepared.count, 1.0), prepared.whitening
    P: Array = np.linalg.inv(raised(solved.gram, solved.gram_noise))
    A, A_noise = shrunken(solved.gram, solved.gram_noise, whitening.share)
    values, vectors = np.linalg.eigh(A)
    A = (vectors * np.maximum(values, max(A_noise, 1e-12))) @ vectors.T
    inverse = np.linalg.inv(A)
    noise, left = _propagated(P, A, solved.burn, solved.noises**2)
    flat = solved.variance * A
    scores = flat
    if cov_type != "nonrobust":
        scores = with_squares(shrunken_to(solved.outer, solved.outer_noise, flat), flat, solved.cut)
    to_target = (np.eye(q) - left) @ inverse
    moved = solved.coefficients - solved.start
    if solved.burn == 0:
        # the first round's share of the average has the noise of the Gram matrix times the way to go
        of_gram = (solved.gram_noise / (len(solved.noises) - solved.burn)) ** 2 / 2
        noise = noise + P @ (of_gram * (moved @ moved * np.eye(q) + np.outer(moved, moved))) @ P
    spread = to_target @ scores @ to_target.T / max(count - q, count / 2) + noise
    # what the clip takes off has the directions of the rows' parts
    long = of_long_rows(scores, flat) if cov_type != "cluster" else scores
    shape = cut_shape(long, A, whitening.W, solved.coefficients, prepared.intercept)
    straight = taken = solved.clip.moment(solved.excess, solved.excess_noise, shape)
    off = False
    if solved.contrast is not None:
        rest = solved.noises[-1] / math.sqrt(len(solved.noises) - solved.burn)
        ratio = solved.clip.norm / math.sqrt(q * solved.variance)
        # half a difference has a quarter of the variance of all parts, if no row moves the estimates by much
        found = solved.excess, solved.contrast, solved.excess_noise, rest, scores / count / 4
        taken, off = with_misfit(straight, *found, ratio, solved.radius**2)
    more = inverse @ (taken - straight) @ inverse
    taken = with_seen(taken, solved.clip, (solved.excess, solved.excess_noise**2), solved.skew)
    lost = inverse @ taken @ inverse
    bias, dark, worst, seen = _bias(solved, moved, spread)
    cov = spread + lost + bias
    # whatever the error along what is hidden, nothing is known of it
    hidden = worst * dark + dark @ cov @ dark
    corrected = None
    if cov_type == "bootstrap":
        response = rounds_response(P / count, solved.start, solved.burn, solved.noises * count)
        whole, drawn = solved.gram * count, scores * (count * count / max(count - q, count / 2))
        simulated = bootstrap(solved.coefficients, whole, solved.gram_noise * count, drawn, response)
        corrected = replace(simulated, cov=simulated.cov + lost + bias)
    limit = solved.clip.norm / math.sqrt(q) * float(prepared.response.scale[0])
    note = (
        solved.clip.unit_note(math.sqrt(float(np.trace(scores))))
        if cov_type == "cluster"
        else solved.clip.note(limit, also=f"; rows longer than {solved.radius:.3g} have less weight")
    )
    off = off and 2 * np.trace(more) > np.trace(cov)
    notes = (note, OFF_THE_LINE) if off else (note,)
    return Inference(cov, lost + bias, float(np.sum(noise * A)), A, notes, corrected, hidden, seen)


def _propagated(P: Floats, A: Floats, burn: int, variances: Floats) -> tuple[Floats, Floats]:
    """Covariance of the average by the noise of the rounds, and the matrix of what it leaves of the start."""
    q, rounds = len(P), len(variances)
    K, powers = np.eye(q) - P @ A, [np.eye(q)]
    for _ in range(rounds):
        powers.append(K @ powers[-1])
    averaged = rounds - burn
    noise, sums = np.zeros((q, q)), np.cumsum(powers, axis=0)
    for s, variance in enumerate(variances):
        # what round s adds is in the averaged rounds t >= s with the power t - s
        first = max(burn - s, 0)
        reached = (sums[rounds - 1 - s] - (sums[first - 1] if first else 0.0)) @ P / averaged
        noise += variance * reached @ reached.T
    return noise, (sums[rounds] - sums[burn]) / averaged


def _bias(solved: Solved, moved: Floats, spread: Floats) -> tuple[Floats, Floats, float, Seen | None]:
    """What may be left of the start (:func:`~dpstats.linear.identify.identify`): a bound on its square, the
    projection onto the directions without one, what stands for their variance, and what shows them."""
    whitening = solved.prepared.whitening
    aim, variance = 1.0, max(whitening.sigma**2, solved.residual2) + solved.astray
    seen = Seen(solved.gram, solved.gram_noise, whitening.gram, whitening.spread)
    if not whitening.spread.any():
        # nothing but this Gram matrix was released
        seen = Seen.alone(solved.gram, solved.gram_noise)
        aim = solved.gram_noise / HIDDEN
    vectors = seen.directions()[2]
    whole = raised(solved.gram, solved.gram_noise)
    added = np.maximum(np.einsum("ie,ij,je->e", vectors, whole - solved.gram, vectors), 0.0)
    divisors = np.einsum("ie,ij,je->e", vectors, whole, vectors)

    def left_at(eigenvalues: Floats) -> Floats:
        if len(solved.noises) == 1:
            # what the noise of the Gram matrix does is part of the spread
            return added / (eigenvalues + added)
        contraction = np.clip(1 - eigenvalues / divisors, -0.9, 1.0)
        return averaged_noise(contraction, solved.burn, solved.noises)[1]

    bias, hidden = identify(seen, aim, left_at, moved, spread, variance)
    worst = variance / (HIDDEN * aim)
    # with a very wide clip noise takes the start farther than the bound, in doubles, follows
    lost = solved.binds or solved.astray > _LOST**2 * max(whitening.sigma**2, solved.residual2)
    return (bias, np.eye(len(moved)), worst, None) if lost else (bias, hidden / worst, worst, seen)
