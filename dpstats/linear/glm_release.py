"""What the rounds of a generalised linear model release."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from dpstats._types import Floats
from dpstats.linear.clip import Clip
from dpstats.linear.family import Start
from dpstats.linear.identify import Seen
from dpstats.linear.prepare import Prepared
from dpstats.linear.rounds import Rounds

__all__ = ["GLMRelease", "still_moving"]

_ALARM, _MOVES = 1e-4, 0.1
"""Rounds are not settled where noise explains their later scores with at most this probability, and these
lead so far: in shares of the sampling variance, by direction."""


@dataclass(frozen=True)
class GLMRelease:
    r"""What rounds release, in coordinates in which the information is about the number of rows times one.

    Attributes
    ----------
    prepared : Prepared
        Its whitening is of the rows times the root of their weight: the information is about ``n I``.
    start, coefficients : (q,) arrays
        Where the averaged rounds began, and their estimate.
    seen : Seen
        Mean information: of counts at the end; of shares, and with units, where the averaged rounds began,
        and the round before.
    turn : (q, q) array
        ``T``: with the information ``A`` of `seen` that at the end is ``T' A T``.
    onward : float
        How much of that there is where rounds that fall short lead, at most 1.
    divisor : (q, q) array
        What the steps divided by, at the end.
    noise : float
        Standard deviation of the noise of each of the averaged rounds' scores, over the number of rows.
    averaged : int
        Number of those rounds.
    clip : Clip
        Norm to which rows' parts of the score were limited.
    radius2 : float
        And that of the information of the averaged rounds.
    model, outer : (q, q) array or None
        Mean outer product of the rows' parts of the score, at the end: by the model, and as it is.
    model_noise, outer_noise : float
    cut : float
        Mean of what the limit of these parts takes off their squares, and that of the rounds does not.
    excess : (q,) array or None
        At the end, of the mean of the scores: of shares what limits of :math:`\sqrt 2` times the size add to
        it, of counts the part of rows that have less weight.
    excess_noise : float
        Standard deviation of the noise of an entry.
    excess_rest : float
        Variance that an entry of counts has besides where the model holds.
    first : Start
        First look at the response.
    exposure : float
        Taken off the offsets.
    predictor_sd : float
        Standard deviation of the linear predictor, by the first whitening.
    square : float
        Mean squared norm of the parts of the score, each up to a limit.
    beyond : float
        What that limit takes off the mean, as the counts of the parts show it.
    deviance, null_deviance : float
        Means over the rows.
    deviance_noise : (float, float)
        Standard deviations of the noise of the deviance, and of what it is lower than the other.
    weight : float
        Mean of the variance of the response, which is the mean derivative of the mean.
    weight_slope : (q,) array
        Its derivative by the coefficients.
    weight_error : float
        Standard deviation of the error of `weight`: of its noise, and of what shortening takes off.
    unsettled : bool
        Whether the last score visibly leads farther than a standard error.
    unit : float
        Squared length of coefficients that change linear predictors by 1 in root mean square.
    rounds : Rounds or None
        Where units have several rows, those on their sums; the deviances and the weight are of one row each.
    size : float
        About the mean number of rows of a unit.
    """

    prepared: Prepared
    start: Floats
    coefficients: Floats
    seen: Seen
    turn: Floats
    onward: float
    divisor: Floats
    noise: float
    averaged: int
    clip: Clip
    outer: Floats | None
    outer_noise: float
    first: Start
    exposure: float
    predictor_sd: float
    square: float
    deviance: float
    null_deviance: float
    deviance_noise: tuple[float, float]
    weight: float
    weight_slope: Floats
    weight_error: float
    radius2: float = math.inf
    beyond: float = 0.0
    model: Floats | None = None
    model_noise: float = 0.0
    cut: float = 0.0
    excess: Floats | None = None
    excess_noise: float = math.inf
    excess_rest: float = 0.0
    unsettled: bool = False
    unit: float = 1.0
    rounds: Rounds | None = None
    size: float = 1.0


def still_moving(scores: Floats, noise: float, divisor: Floats, dispersion: float) -> bool:
    """Whether the later half of the averaged rounds' scores, (rounds, q), leads on from the estimate.

    Where that has arrived, a score is noise, less that of the estimate before, averaged over rounds so far.
    """
    rounds, q = scores.shape
    later = rounds // 2
    before = np.tri(rounds, rounds, -1) / np.maximum(np.arange(rounds), 1)[:, None]
    left = np.sum(np.mean((np.eye(rounds) - before)[later:], axis=0) ** 2)
    mean = scores[later:].mean(axis=0)
    leads = mean @ np.linalg.solve(divisor, mean)
    return bool(mean @ mean > chdtri(q, _ALARM) * noise**2 * left and leads > _MOVES * dispersion * q)
