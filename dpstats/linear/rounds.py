"""Rounds of released scores from a first fit, and what their noise and their start mean for the estimate."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpstats._types import Array, Floats
from dpstats.formula.design import Blocks
from dpstats.linear.bootstrap import MOST, bootstrap, rounds_response
from dpstats.linear.curvature import curvature_radius2, shrunken
from dpstats.linear.loss import Loss
from dpstats.linear.prepare import Prepared
from dpstats.linear.results import Inference, stops_short
from dpstats.linear.scores import Frame, Whitened, averaged_noise, whitened_gram
from dpstats.mechanisms.rng import Randomness

__all__ = ["SHARES", "Rounds", "Walk", "rounds_inference"]

SHARES = {
    "count": 0.01,
    "location": 0.06,
    "scale": 0.11,
    "response_location": 0.03,
    "response_scale": 0.03,
    "gram": 0.05,
    "limit": 0.04,
}
"""Shares of ``mu^2`` of the steps that have the same everywhere; those of the whitening are in its stages."""

_CLIP_LOSS = 0.002
"""A clip is too wide if the averaged rounds have more noise, in units of the response's variance."""


@dataclass(frozen=True)
class Rounds:
    """What rounds release, in whitened coordinates and units of the standardised response.

    Attributes
    ----------
    start, coefficients : (q,) arrays
        Where they began, and the average of the iterates after the first `burn`.
    gram : (q, q) array
        Gram matrix of the whitened rows over their number.
    gram_noise : float
        Standard deviation of the noise on its diagonal.
    noises : (T,) array
        Standard deviation of the noise of each round's score.
    burn : int
    clip : float
        Norm to which a row's score was shortened in the averaged rounds.
    assumed : float
        Mean curvature of the loss that the rounds assumed.
    curvature, psi2 : float
        The mean curvature, and the mean of ``psi^2``, at the end.
    """

    start: Floats
    coefficients: Floats
    gram: Floats
    gram_noise: float
    noises: Floats
    burn: int
    clip: float
    assumed: float
    curvature: float
    psi2: float


class Walk:
    """Rounds on the whitened rows, one after another.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    prepared : Prepared
    winsorized : bool
        Whether columns are moved into their limits.
    mus : mapping of str to float
        Of ``gram``, ``limit``, ``first rounds``, ``rounds`` and ``spread``.
    averaged : int
        Number of the last rounds, which are averaged.
    rng : Randomness

    Attributes
    ----------
    rows : Whitened
    count : float
        Released number of rows, at least 1.
    u : (q,) array
        Where the rounds have got to, in whitened coordinates; at first the first fit.

    Notes
    -----
    **Privacy.** The Gram matrix here, and each method but :meth:`restart`, is one release of the parameter
    that it names (:meth:`rounds` one a round); rows and their limits are fixed by what was released before.
    See :mod:`dpstats.linear.scores` for sensitivities, and ``docs/privacy/ols.md`` for the argument.
    """

    def __init__(
        self,
        blocks: Blocks,
        prepared: Prepared,
        winsorized: bool,
        mus: Mapping[str, float],
        averaged: int,
        rng: Randomness,
    ) -> None:
        whitening, q = prepared.whitening, len(prepared.affine.columns)
        self.rows = Whitened(blocks, Frame.of(prepared, winsorized))
        self.count = max(prepared.count, 1.0)
        self._noises: list[float] = []
        self._path: list[Array] = []
        self.u: Array = np.linalg.solve(whitening.W, whitening.theta)
        self._mus, self._averaged, self._rng, self._radius2 = mus, averaged, rng, whitening.radius2
        radius2 = curvature_radius2(q, self.count, mus["gram"])
        self._gram = whitened_gram(self.rows, q, radius2, mus["gram"], rng) / self.count
        self._gram_noise = radius2 / mus["gram"] / self.count
        self.restart()

    def restart(self) -> None:
        """Forget the rounds so far: they lead to a start."""
        self._start, self._noises, self._path = self.u, [], []

    def clip_at_top(self, loss: Loss) -> None:
        """Clip scores at twice the largest visible one from here on, or earlier where the noise is dear."""
        # the noise of the average then has the variance _CLIP_LOSS over its q directions
        deviation = math.sqrt(_CLIP_LOSS * self._averaged / len(self.u))
        most = deviation * self._mus["rounds"] * self.count * loss.curvature
        top = loss.top_score(self.rows, self.u, self._radius2, self._mus["limit"], self._rng)
        self._clip = min(2 * top, most) if top else most

    def rounds(self, loss: Loss, times: int, key: str) -> None:
        """Move `times` times, each with the parameter `key`."""
        mu = self._mus[key]
        for _ in range(times):
            score = loss.score(self.rows, self.u, self._radius2, self._clip, mu, self._rng)
            self.u = self.u + score / (self.count * loss.curvature)
            self._noises.append(self._clip / mu)
            self._path.append(self.u)

    def finish(self, loss: Loss) -> Rounds:
        """Average the last rounds, and release curvature and spread there."""
        u = np.mean(self._path[-self._averaged :], axis=0)
        curvature, psi2 = loss.spread(self.rows, u, self.count, self._mus["spread"], self._rng)
        return Rounds(
            start=self._start,
            coefficients=u,
            gram=self._gram,
            gram_noise=self._gram_noise,
            noises=np.array(self._noises),
            burn=len(self._path) - self._averaged,
            clip=self._clip,
            assumed=loss.curvature,
            curvature=curvature,
            psi2=psi2,
        )


def rounds_inference(rounds: Rounds, prepared: Prepared, cov_type: str, start: str, note: str) -> Inference:
    """What the noise of the rounds, and what they leave of their start, mean for the coefficients.

    Parameters
    ----------
    rounds : Rounds
    prepared : Prepared
    cov_type : {"formula", "bootstrap"}
    start : str
        What the rounds started from, in words.
    note : str
        A further note for the table.

    Returns
    -------
    Inference
    """
    count, q = max(prepared.count, 1.0), len(rounds.coefficients)
    gram, gram_noise = shrunken(rounds.gram, rounds.gram_noise, prepared.whitening.share)
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, gram_noise)
    slope = rounds.curvature / rounds.assumed
    noise, left = averaged_noise(
        np.clip(1 - values * slope, -0.9, 1.0), rounds.burn, (rounds.noises / count / rounds.assumed) ** 2
    )
    # the average is (1 - left) of the way from the start to the target
    moved = vectors.T @ (rounds.coefficients - rounds.start)
    bias = np.minimum(left / np.maximum(1 - left, 0.05), 1.0) * moved
    sampling = (1 - left) ** 2 * rounds.psi2 / rounds.curvature**2 / (values * count)
    corrected = None
    if cov_type == "bootstrap":
        step = np.eye(q) / (count * rounds.assumed)
        response = rounds_response(step, rounds.start, rounds.burn, rounds.noises, rounds.curvature)
        whole = (vectors * values) @ vectors.T * count
        corrected = bootstrap(rounds.coefficients, whole, 0.0, rounds.psi2, response, MOST * count / slope)
    return Inference(
        (vectors * (noise + sampling + bias**2)) @ vectors.T,
        float(noise @ values),
        gram,
        (*stops_short(left, start, cov_type), note),
        corrected,
    )
