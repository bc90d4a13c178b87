"""Generalised linear models: rounds of Newton's method, each in the metric of the information before it."""

import functools
import math
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dpstats._types import Array, Floats
from dpstats.errors import ReleaseFailed
from dpstats.formula.design import Blocks
from dpstats.formula.units import UnitBlocks
from dpstats.linear.calibrated import calibrated_clip
from dpstats.linear.clip import Clip, edges_about, outer_square
from dpstats.linear.conditioning import REFERENCE_OF_SHARES
from dpstats.linear.curvature import curvature_radius2
from dpstats.linear.family import Answers, Scored, Start, release_exposure
from dpstats.linear.glm_budget import (
    LEAD,
    LEAST_RADIUS2,
    UNIT_ROUNDS,
    GLMBudget,
    check_information,
    deviance_ceilings,
    weight_ceilings,
)
from dpstats.linear.glm_release import GLMRelease, still_moving
from dpstats.linear.glm_scores import (
    COUNTED,
    FAR_WEIGHT,
    FARTHER,
    Parts,
    release_deviances,
    release_excess,
    release_far_rows,
    release_information,
    release_model_variance,
    release_outer,
    release_score,
    release_sizes,
    release_squares,
    release_weights,
)
from dpstats.linear.glm_units import SummedAnswers
from dpstats.linear.hidden_rows import Turned, turned_without, without_hidden
from dpstats.linear.identify import Seen
from dpstats.linear.loss import Squared
from dpstats.linear.normal_columns import NormalColumns
from dpstats.linear.prepare import Prepared, prepare
from dpstats.linear.rounds import Walk
from dpstats.linear.scores import outer_limit
from dpstats.linear.summed import balanced, most_rows
from dpstats.linear.whitened import Frame
from dpstats.mechanisms._kernels import EXPONENT, OCTAVES
from dpstats.mechanisms.rng import Randomness

__all__ = ["release_glm"]

_LONGEST = (1.5, 3.0)
"""A step changes the linear predictor of shares and of counts by at most so much, in root mean square."""
_LEAST, _MOST = 1.2, 2.0
"""The clip of shares, in units of the typical size of a part of the score, where noise dominates and where it
does not matter."""
_EQUAL, _SMALL, _FAR = 0.5, 0.2, 30.0
"""The most noise of that clip, and noise that is no loss, in standard deviations of the sampling; and the
widest clip."""
_COUNT_CLIP = 4.0
"""The clip of counts on the way to a start, in units of their typical size."""
_DOUBT, _DOUBT_OF_COUNTS = 2.5, 3.0
"""So many times the expected square of its noise is taken off the square of a step to a start."""
_BELOW = 10
"""How many half-octaves below their typical size the parts of counts are looked for."""
_WIDE = 0.25
"""The spectral norm of the noise of an information matrix on the way, over the rows, if rows are short."""
_STRETCH, _LIKELY = 0.7, 1.5
"""A direction is stretched if its information has fallen to so much of what it was at the constant alone, by
so many standard deviations of its noise."""
_GROWN = 1.3
"""It is compressed if its information has grown to so much."""
_CERTAIN = 3.0
_STEADY = 0.2
"""The least eigenvalue that a step divides by."""
_OUTER, _OUTER_LIMITS = 0.15, (4.0, 40.0)
"""Squared parts are cut where their noise is 15 % of the variance, at 4 times their mean or more, and beyond
40 times where it is less."""
_CUT_NOISE, _CUTS = 0.08, (9.0, 64.0)
"""Their mean square, where its noise is 8 % of it, at 9 to 64 times that."""
_LEAST_DISPERSION = 0.25
_LEAST_TRACE = 0.5
"""The least mean eigenvalue of the information in the dispersion that tells how skewed counts are."""
_FAR_CLIP = 0.5
"""Where the parts of rows of counts that have less weight are limited, in clips."""
_ONWARD = 0.25
"""Averaged rounds leave about so much of their way where the information about shares falls."""
_LEAST_LEFT = 0.01
"""The least share of that information that is said to be left so much farther on."""


def release_glm(method: str, blocks: Blocks, budget: GLMBudget, rng: Randomness) -> GLMRelease:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed. Every pass over the rows is a sum to which
    a row adds a bounded vector, in coordinates fixed by what has been released before, plus Gaussian noise;
    the bounds are those of :func:`~dpstats.linear.prepare.prepare` and of
    :mod:`dpstats.linear.glm_scores`. Argument: ``docs/privacy/logit.md``.
    """
    family, mus = budget.family, budget.mus
    make = functools.partial(Answers.of_design, blocks, budget.narrow, family, budget.wide)
    check = functools.partial(check_information, method, budget)
    given, shares = (method, cast(Blocks, make()), budget, rng), not family.counts
    references = REFERENCE_OF_SHARES if shares else 0.0
    make_up = functools.partial(prepare, few=True, crossed=shares, leave=True, references=references)
    prepared = make_up(*given, check_count=check, fitted=False)
    count = max(prepared.count, 1.0)
    with_offsets = make(offsets=True)
    kept = prepared.rows_of(with_offsets)
    first = family.start(kept, count, mus["start"], rng)
    if not first.seen:
        raise ReleaseFailed(
            f"{method}: the response shows no variation beyond the privacy noise: "
            + ("hardly any counts but 0." if family.counts else "hardly any rows of one of its classes.")
        )
    exposure = 1.0 if budget.wide is None else release_exposure(kept, mus["exposure"], rng)
    walk = _Walk(with_offsets, prepared, first, exposure, budget, count, rng)
    for t in range(budget.first):
        walk.step(t)
    return walk.finish_units() if isinstance(blocks, UnitBlocks) else walk.finish()


class _Walk:
    """Rounds on the whitened rows, one after another; see :func:`release_glm`."""

    def __init__(
        self,
        blocks: Answers,
        prepared: Prepared,
        first: Start,
        exposure: float,
        budget: GLMBudget,
        count: float,
        rng: Randomness,
    ) -> None:
        self._blocks, self._budget, self._rng = blocks, budget, rng
        self._first, self._exposure, self._count = first, exposure, count
        family = budget.family
        W, self._q = prepared.whitening.W, len(prepared.whitening.W)
        self._first_map = W
        self._intercept = budget.public.intercept
        variance = family.variance(first.mean) if self._intercept else family.variance(0.5)
        # coordinates in which the information is about the number of rows, at the constant alone
        self._move(prepared, W / math.sqrt(variance), np.eye(self._q), np.zeros(self._q))
        self._variance, self._dispersion, self._beyond = variance, first.dispersion, 0.0
        self._u = self._null()

    def _null(self) -> Array:
        """The coefficients of the constant alone."""
        predictor = self._budget.family.predictor(self._first.mean)
        return self._constant() * predictor if self._intercept else np.zeros(self._q)

    def _constant(self) -> Array:
        """``a`` with ``v' a = 1`` for every row."""
        return np.linalg.inv(self._prepared.whitening.W)[:, 0]

    def _move(self, prepared: Prepared, W: Floats, gram: Floats, spread: Floats) -> None:
        """Take on other coordinates, ``v = W' z``."""
        whitening = replace(prepared.whitening, W=W, gram=gram, spread=spread)
        self._prepared = replace(prepared, whitening=whitening)
        self._rows = Scored(self._blocks, Frame.of(self._prepared, False), self._offset())

    def _offset(self) -> float | None:
        return None if self._budget.wide is None else math.log(self._exposure)

    def _typical(self) -> float:
        """Typical norm of a row's part of the score."""
        first, root = self._first, math.sqrt(self._q)
        if self._budget.family.counts:
            return root * math.sqrt(self._dispersion)
        return root * max(first.mean, 1 - first.mean) / math.sqrt(self._variance)

    def _parts(self, clip: float, radius2: float) -> Parts:
        return Parts(self._budget.family.counts, self._first.top, clip, radius2)

    def step(self, t: int) -> None:
        """One round to a start; the parameters are ``score t`` and ``information t``."""
        q, n, mus = self._q, self._count, self._budget.mus
        mu = mus[f"information {t}"]
        radius2 = max(LEAST_RADIUS2 * q, min(_WIDE * n * mu / math.sqrt(2 * q), n))
        if mus[f"sizes {t}"]:
            self._look(radius2, mus[f"sizes {t}"])
        clip = self._typical() * (_COUNT_CLIP if self._budget.family.counts else _LEAST)
        parts = self._parts(clip, radius2)
        score = release_score(self._rows, self._u, parts, mus[f"score {t}"], self._rng)
        if t == self._budget.first - 1 and not self._budget.family.counts:
            # part of the standard errors: with the weights of the averaged rounds
            parts = self._parts(self._clip_of_shares(), radius2)
        # by the last matrix averaged rounds step, too: what does not move has no part in it
        onward = t < self._budget.first - 1
        matrix = release_information(self._rows, self._u, parts, mu, self._rng, secant=onward)
        noise = radius2 / mu
        values, vectors = np.linalg.eigh(matrix)
        raised = np.maximum(values, min(math.sqrt(2 * q) * noise, n))
        step = vectors @ ((vectors.T @ score) / raised)
        # as far as it is more than noise (James and Stein 1961)
        expected = (clip / mus[f"score {t}"]) ** 2 * float(np.sum(1 / raised**2))
        doubt = _DOUBT_OF_COUNTS if self._budget.family.counts else _DOUBT
        step *= max(0.0, 1 - doubt * expected / max(float(step @ step), 1e-300))
        u = self._u + self._limited(step)
        if t == 0:
            # at the constant alone what is missing of the information is of rows that count less
            self._base = matrix / n
        short = np.clip(np.einsum("ie,ij,je->e", vectors, self._base, vectors), noise / n, 1.0)
        turned = (values + _LIKELY * noise < _STRETCH * short * n) | (values > _GROWN * n)
        if onward and not turned.any():
            self._u = u
            return
        stretch = np.where(turned, np.sqrt(n / raised), 1.0)
        turn = vectors * stretch
        self._base = turn.T @ self._base @ turn
        self._u = (vectors.T @ u) / stretch
        W = self._prepared.whitening.W @ turn
        self._move(self._prepared, W, np.diag(values * stretch**2 / n), np.sqrt(noise / n) * stretch)
        if self._intercept:
            a = self._constant()
            most = math.exp(self._first.top) if self._budget.family.counts else 0.25
            self._variance = min(max(float(a @ a), 1e-6), most)

    def _look(self, radius2: float, mu: float) -> None:
        """Read the dispersion off released counts of the parts by size, where some stand out of the noise."""
        edges = edges_about(self._typical())[0] + np.arange(-_BELOW, len(edges_about(1.0)))
        edges = np.unique(np.clip(edges, 1, OCTAVES - 1))
        parts = self._parts(math.inf, radius2)
        rows = release_sizes(self._rows, self._u, parts, edges, mu, self._rng).sum(axis=0)[1:]
        rows = np.where(rows > _CERTAIN * math.sqrt(2) / mu, rows, 0.0)
        if rows.any():
            squares = 2.0 ** (edges - EXPONENT + 0.5)
            self._dispersion = max(float(rows @ squares) / self._count / self._q, _LEAST_DISPERSION)

    def finish(self) -> GLMRelease:
        """The averaged rounds, and what is released at their end."""
        q, n, mus, rng = self._q, self._count, self._budget.mus, self._rng
        start, whitening = self._u, self._prepared.whitening
        radius2 = curvature_radius2(q, n, mus["hessian"])
        clip, dispersion = self._clip(radius2)
        parts = self._parts(clip.norm, radius2)
        if self._budget.family.counts:
            skewed = dispersion * q / max(float(np.trace(whitening.gram)), _LEAST_TRACE * q)
            parts = replace(parts, dispersion=skewed)
        hessian = release_information(self._rows, start, parts, mus["hessian"], rng) / n
        noise = radius2 / mus["hessian"] / n
        if (found := without_hidden(self._prepared, hessian, noise, 1.0, None)) is not None:
            hessian, noise = self._leave(found, noise)
            q, n, start, whitening = self._q, self._count, self._u, self._prepared.whitening
        seen = Seen(hessian, noise, whitening.gram, whitening.spread)
        divisor, columns = steady(seen), self._columns()
        u, points, scores = start, list[Floats](), list[Floats]()
        for t in range(self._budget.averaged):
            # equal weights for the scores of all rounds
            points.append(u)
            scores.append(release_score(self._rows, u, parts, mus["rounds"], rng) / n)
            if self._budget.family.counts:
                u = u + self._limited(np.linalg.inv(divisor) @ scores[-1] / (t + 1))
            else:
                u = columns.solved(divisor, start, points, scores, self._limited)
        turn, onward = np.eye(q), 1.0
        if not self._budget.family.counts:
            turn = columns.turn(start, u)
            divisor = turn.T @ divisor @ turn
            onward = min(max(columns.least(u, u + _ONWARD * (u - start)), _LEAST_LEFT), 1.0)
        if mus["end"]:
            end = release_information(self._rows, u, parts, mus["end"], rng) / n
            seen = Seen.alone(end, radius2 / mus["end"] / n)
        model, outer, model_noise, outer_noise, cut = None, None, 0.0, 0.0, 0.0
        unlike = self._unlike(u, parts)
        if mus["variance"]:
            model = release_model_variance(self._rows, u, parts, mus["variance"], rng) / n
            model_noise = min(radius2, clip.norm**2) / mus["variance"] / n
        if mus["outer"]:
            square = outer_limit(dispersion, q, n * mus["outer"], _OUTER, _OUTER_LIMITS)
            square = min(square, clip.norm**2)
            if self._budget.family.counts:
                square = outer_square(clip, square, 1 / mus["outer"] / n, q)
            outer = release_outer(self._rows, u, parts, math.sqrt(square), mus["outer"], rng) / n
            outer_noise = square / mus["outer"] / n
            cut = clip.squares(math.sqrt(square))
        return GLMRelease(
            **self._summaries(u, parts, dispersion),
            **unlike,
            start=start,
            coefficients=u,
            seen=seen,
            turn=turn,
            onward=onward,
            unit=self._variance,
            divisor=divisor,
            noise=clip.norm / mus["rounds"] / n,
            averaged=self._budget.averaged,
            clip=clip,
            radius2=radius2,
            model=model,
            model_noise=model_noise,
            outer=outer,
            outer_noise=outer_noise,
            cut=cut,
            square=q * dispersion,
            beyond=self._beyond,
            unsettled=still_moving(n * np.array(scores), clip.norm / mus["rounds"], n * divisor, dispersion),
        )

    def _unlike(self, u: Floats, parts: Parts) -> dict[str, Any]:
        """What is released of rows that need not follow the model of the others."""
        q, n, mu = self._q, self._count, self._budget.mus["excess"]
        if not self._budget.family.counts:
            excess = release_excess(self._rows, u, parts, mu, self._rng) / n
            return {"excess": excess, "excess_noise": (FARTHER - 1) * parts.clip / mu / n}
        near = replace(parts, clip=_FAR_CLIP * parts.clip)
        excess, rows = release_far_rows(self._rows, u, near, mu, self._rng)
        noise = math.hypot(1, COUNTED) / mu / n
        share = max(rows / n, noise / COUNTED)
        # their sampling, and what the noise of the coefficients does to them
        radius2 = FAR_WEIGHT * parts.radius2
        sampling = share * min(near.clip**2, radius2 * parts.dispersion) / q / n
        moved = min(share * radius2 / q, 1.0) * parts.clip / self._budget.mus["rounds"] / n
        found = {"excess_rest": sampling + moved**2 / self._budget.averaged}
        return found | {"excess": excess / n, "excess_noise": noise * near.clip}

    def _leave(self, found: Turned, noise: float) -> tuple[Floats, float]:
        """Without rare rows, which would hide other coefficients: what is left of a matrix, and its noise."""
        stay = np.isin(self._prepared.affine.columns, found.prepared.affine.columns)
        self._first_map = (self._first_map @ turned_without(self._first_map, ~stay))[stay]
        count = max(found.prepared.count, 1.0)
        more, self._count = self._count / count, count
        self._u, self._q = found.change @ self._u, len(found.change)
        whitening = found.prepared.whitening
        self._move(found.prepared, whitening.W, whitening.gram, whitening.spread)
        return found.gram, noise * more

    def _summaries(self, u: Floats, parts: Parts, dispersion: float) -> dict[str, Any]:
        """What is released about the fit as a whole."""
        n, mus, rng = self._count, self._budget.mus, self._rng
        spread, mu = self._columns().predictor(u)[1], mus["deviance"]
        limits = deviance_ceilings(self._budget, self._first, n, dispersion, spread)
        sums = release_deviances(self._rows, u, self._null(), parts, limits, mu, rng)
        deviance, explained = sums / n
        lengths2 = self._q / self._variance
        share, ceilings, cut, more = weight_ceilings(
            self._budget, self._first, n, dispersion, spread, lengths2
        )
        slopes = release_weights(self._rows, u, parts, share, ceilings, mus["weights"], rng) / n / (1 - cut)
        weight, noise = max(float(slopes[0]), 0.0), math.hypot(*ceilings) / mus["weights"] / n / (1 - cut)
        return {
            "prepared": self._prepared,
            "first": self._first,
            "exposure": self._exposure,
            "predictor_sd": spread,
            "deviance": max(float(deviance), 0.0),
            "null_deviance": max(float(deviance), 0.0) + max(float(explained), 0.0),
            "deviance_noise": tuple(math.sqrt(2) * ceiling / mu / n for ceiling in limits),
            "weight": weight,
            "weight_slope": slopes[1:],
            "weight_error": math.hypot(noise, more * weight),
        }

    def finish_units(self) -> GLMRelease:
        """As :meth:`finish`, by rounds on sums over the rows of each unit."""
        mus, rng, family, q = self._budget.mus, self._rng, self._budget.family, self._q
        whitening = self._prepared.whitening
        prepared = replace(self._prepared, whitening=replace(whitening, theta=whitening.W @ self._u))
        given = self._offset(), self._first.top
        rows = SummedAnswers(self._blocks, Frame.of(prepared, False), *given)
        prepared, size = balanced(prepared, rows, self._intercept, mus, rng)
        self._move(prepared, prepared.whitening.W, prepared.whitening.gram, prepared.whitening.spread)
        self._u = np.asarray(np.linalg.solve(prepared.whitening.W, prepared.whitening.theta), float)
        size /= family.variance(self._first.mean) if self._intercept else family.variance(0.5)
        size = max(size, 1.0)
        most = most_rows(self._count, q, UNIT_ROUNDS, mus["rounds"], size, least=1.0)
        rows = SummedAnswers(self._blocks, Frame.of(prepared, False), *given, size, most)
        walk, loss = Walk(rows, prepared, False, mus, UNIT_ROUNDS, rng), Squared(math.sqrt(self._dispersion))
        walk.guess_limit(loss)
        walk.rounds(loss, LEAD[0], "first rounds")
        walk.restart()
        walk.measure(loss)
        walk.limit(loss)
        walk.curve(loss)
        walk.rounds(loss, LEAD[1], "first rounds")
        walk.rounds(loss, UNIT_ROUNDS, "rounds")
        rounds, whitening = walk.finish(loss), prepared.whitening
        seen = Seen(rounds.hessian, rounds.hessian_noise, whitening.gram, whitening.spread)
        parts = self._parts(math.inf, curvature_radius2(q, self._count, mus["hessian"]))
        return GLMRelease(
            **self._summaries(rounds.coefficients, parts, self._dispersion),
            start=rounds.start,
            coefficients=rounds.coefficients,
            seen=seen,
            turn=np.eye(q),
            onward=1.0,
            divisor=steady(seen),
            noise=float(rounds.noises[-1]) / self._count,
            averaged=UNIT_ROUNDS,
            clip=rounds.clip,
            outer=rounds.outer,
            outer_noise=rounds.outer_noise,
            square=q * rounds.psi2,
            rounds=rounds,
            size=rows.size,
        )

    def _columns(self) -> NormalColumns:
        inverse = np.linalg.inv(self._first_map)
        constant = np.zeros(self._q)
        if self._intercept:
            constant = inverse[:, 0] / np.linalg.norm(inverse[:, 0])
        return NormalColumns(inverse @ self._prepared.whitening.W, constant)

    def _limited(self, step: Floats) -> Array:
        """The step, shortened where it changes linear predictors by too much."""
        size = math.sqrt(float(step @ step) / self._variance)
        return step * min(1.0, _LONGEST[self._budget.family.counts] / max(size, 1e-300))

    def _clip_of_shares(self) -> float:
        """The clip of the averaged rounds, by a rule that reads no row."""
        typical = self._typical()
        root = math.sqrt(self._count * self._budget.averaged) * self._budget.mus["rounds"]
        wide = min(_SMALL * root, _FAR * typical)
        return max(_LEAST * typical, min(_EQUAL * root, _MOST * typical), wide)

    def _clip(self, radius2: float) -> tuple[Clip, float]:
        """The clip of the averaged rounds, and the dispersion: of counts by ``typical`` and ``limit``."""
        q, n, mus = self._q, self._count, self._budget.mus
        averaged = mus["rounds"] * math.sqrt(self._budget.averaged)
        if not self._budget.family.counts:
            return Clip.at(self._clip_of_shares()), 1.0
        parts, mu = self._parts(math.inf, radius2), mus["typical"]
        ceiling = min(max(_CUT_NOISE * n * mu, _CUTS[0]), _CUTS[1]) * self._dispersion * q
        squares = release_squares(self._rows, self._u, parts, ceiling, mu, self._rng)
        dispersion = max(squares / n / q, _LEAST_DISPERSION)
        self._dispersion = dispersion
        edges = edges_about(math.sqrt(q * dispersion))
        sizes = release_sizes(self._rows, self._u, parts, edges, mus["limit"], self._rng)
        clip = calibrated_clip(edges, sizes, 1 / mus["limit"], q, n, 1 / averaged / n, dispersion)
        self._beyond = clip.squares(math.sqrt(ceiling))
        return clip, dispersion


def steady(seen: Seen) -> Floats:
    """What Newton steps divide by: the mean by precision of two released matrices, away from 0."""
    values, sd, vectors = seen.directions()
    return (vectors * np.maximum(values, np.maximum(_STEADY, _CERTAIN * sd))) @ vectors.T
