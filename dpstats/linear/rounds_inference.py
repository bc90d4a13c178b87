"""What the rounds of released scores leave unknown: their noise, their start, and what the clip takes off."""

import math
from dataclasses import replace

import numpy as np

from dpstats._types import Floats
from dpstats.linear.bootstrap import MOST, bootstrap, rounds_response
from dpstats.linear.curvature import shrunken, shrunken_to
from dpstats.linear.identify import Seen, identify
from dpstats.linear.misfit import MANY_ROWS, OFF_THE_LINE, of_large_units, with_misfit
from dpstats.linear.prepare import Prepared
from dpstats.linear.results import Inference
from dpstats.linear.rounds import Rounds
from dpstats.linear.scores import averaged_reach
from dpstats.linear.skew import with_seen
from dpstats.linear.spread import cut_shape, of_long_rows, with_squares

__all__ = ["rounds_inference"]


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
    cov_type : {"robust", "nonrobust", "bootstrap", "cluster"}
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
        outer = shrunken_to(rounds.outer, rounds.outer_noise, flat, rounds.uneven)
        scores = with_squares(outer, flat, rounds.cut)
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
    excess = rounds.excess, rounds.excess_noise**2
    taken = with_seen(taken, rounds.clip, excess, rounds.skew) + large
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
    told = None if rounds.swings or rounds.metric is not None else seen
    return Inference(cov, lost + bias, float(np.diagonal(noise) @ values), A, notes, corrected, hidden, told)
