r"""The private steps of rounds of a generalised linear model, in a whitened metric.

A row adds to the score :math:`f\, v\, (y - m)`, with :math:`m` the mean at the current coefficients and the
weight

.. math:: f = \min\Bigl(1, \frac{R^2}{w |v|^2}, \frac{C}{|v|\, b}\Bigr),

where :math:`w` is the variance of the response at this mean. For shares :math:`b = \max(m, 1 - m)`, whatever
the response is: the weight depends on the covariates alone, and rows that count less bring no bias. For
counts a row adds :math:`f\, v\, (y - t)` with :math:`b = |y - t|`, so that the last term shortens its part to
the norm :math:`C`; where the mean is not small :math:`t = m`, and about the :math:`t` of a small one events
that are limited so have the mean 0 (:func:`dpstats.linear.glm_kernels._centre`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.engines.local import Block, fold
from dpstats.linear import glm_kernels as kernels
from dpstats.mechanisms._kernels import OCTAVES
from dpstats.mechanisms.noise import gaussian, symmetric_gaussian
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.sums import SUMMATION, sum_bounded, units_of

__all__ = [
    "COUNTED",
    "FARTHER",
    "FAR_WEIGHT",
    "Parts",
    "release_deviances",
    "release_excess",
    "release_far_rows",
    "release_information",
    "release_model_variance",
    "release_outer",
    "release_score",
    "release_sizes",
    "release_squares",
    "release_weights",
]


FARTHER = math.sqrt(2)
"""How many times as large limits are for :func:`release_excess`."""
FAR_WEIGHT = kernels.FAR_WEIGHT
COUNTED = 0.25
"""What a row adds to the number of rows of :func:`release_far_rows`, in clips."""


@dataclass(frozen=True)
class Parts:
    """What bounds a row's part of the score and of the information; all of it public or released.

    Attributes
    ----------
    counts : bool
        Whether responses are counts, and not shares.
    top : float
        The largest linear predictor.
    clip, radius2 : float
        ``C`` and ``R^2``.
    dispersion : float
        How many times their mean the variance of counts is, as far as what is skewed is allowed for: with 1/2
        nothing is.
    """

    counts: bool
    top: float
    clip: float
    radius2: float
    dispersion: float = 0.5

    @property
    def limits(self) -> tuple[bool, float, float, float, float]:
        """As the kernels take them."""
        return self.counts, self.top, self.clip, self.radius2, self.dispersion


def release_score(rows: Iterable[Block], u: Floats, parts: Parts, mu: float, rng: Randomness) -> Floats:
    """Release ``sum_i f_i v_i (y_i - m_i)``, (q,), of counts with ``t_i`` for ``m_i``.

    Parameters
    ----------
    rows : iterable of (V, R)
        Covariates (n, q), and responses with offsets (n, 2).
    u : (q,) array
    parts : Parts
    mu : float
    rng : Randomness

    Notes
    -----
    **Privacy.** A record adds or removes one vector of norm at most ``C``, whatever it holds: ``mu``-GDP
    under add-remove. Argument: ``docs/privacy/logit.md``.
    """
    units = units_of(parts.clip)

    def update(state: Integers, V: Floats, R: Floats, first: int) -> None:
        kernels.score(V, R, u, *parts.limits, units, state)

    total = sum_bounded(rows, (len(u),), units, update)
    return gaussian(total, (1 + SUMMATION) * parts.clip, mu, rng)


def release_excess(rows: Iterable[Block], u: Floats, parts: Parts, mu: float, rng: Randomness) -> Floats:
    r"""Release what limits :math:`\sqrt 2` times as large add to the score of shares, (q,).

    With :math:`h_i = \min(R^2/(w_i |v_i|^2), C/(|v_i| b_i))` that is

    .. math:: \sum_i \bigl(\min(1, \sqrt 2\, h_i) - \min(1, h_i)\bigr)\, v_i\, (y_i - m_i),

    which has the mean 0 where the model holds.

    Notes
    -----
    **Privacy.** A record adds or removes one vector: of 0 if its ``h`` is at least 1, and else of a norm of
    at most ``(sqrt(2) - 1) h |v| b``, which is at most ``(sqrt(2) - 1) C``: ``mu``-GDP under add-remove.
    Argument: ``docs/privacy/logit.md``.
    """
    norm = (FARTHER - 1) * parts.clip
    units = units_of(norm)

    def update(state: Integers, V: Floats, R: Floats, first: int) -> None:
        kernels.excess(V, R, u, parts.top, parts.clip, parts.radius2, FARTHER, units, state)

    total = sum_bounded(rows, (len(u),), units, update)
    return gaussian(total, (1 + SUMMATION) * norm, mu, rng)


def release_far_rows(
    rows: Iterable[Block], u: Floats, parts: Parts, mu: float, rng: Randomness
) -> tuple[Floats, float]:
    r"""Release the part of the score of counts, (q,), of rows that have less weight, and how many these are.

    These are the rows with :math:`m_i |v_i|^2 > R^2`, here with four times the weight that they have there,
    at most 1; where they follow the model of the others, their part has about the mean 0. Its noise has the
    standard deviation ``1.03 C / mu``, that of their number ``4.1 / mu``.

    Notes
    -----
    **Privacy.** A record adds or removes one vector: its part of the score, of norm at most ``C``, beside
    ``C / 4``, or nothing: ``mu``-GDP under add-remove. Argument: ``docs/privacy/poisson.md``.
    """
    count, q = COUNTED * parts.clip, len(u)
    norm = math.hypot(parts.clip, count)
    units = units_of(norm)

    def update(state: Integers, V: Floats, R: Floats, first: int) -> None:
        kernels.far_rows(V, R, u, *parts.limits[1:], count, units, state)

    total = gaussian(sum_bounded(rows, (q + 1,), units, update), (1 + SUMMATION) * norm, mu, rng)
    return total[:q], float(total[q]) / count


def release_information(
    rows: Iterable[Block], u: Floats, parts: Parts, mu: float, rng: Randomness, *, secant: bool = False
) -> Floats:
    """Release ``sum_i f_i w_i v_i v_i'``, (q, q): how the score falls with ``u``.

    Of counts ``t_i'``, the derivative of ``t_i`` by the mean, or 1 if that is less, is a factor of ``f_i``,
    and one whose part is shortened adds nothing: its part does not move with ``u``. With `secant` it adds
    how fast its residual falls on the way to 0. The noise has the standard deviation ``R^2 / mu`` on the
    diagonal, and ``sqrt(2)`` times less off it.

    Notes
    -----
    **Privacy.** A record adds or removes one matrix of Frobenius norm ``f w |v|^2 <= R^2``: ``mu``-GDP under
    add-remove. Argument: ``docs/privacy/logit.md``.
    """
    units = units_of(parts.radius2)

    def update(state: Integers, V: Floats, R: Floats, first: int) -> None:
        kernels.information(V, R, u, *parts.limits, False, secant, units, state)

    total = sum_bounded(rows, (len(u), len(u)), units, update)
    return symmetric_gaussian(total, (1 + SUMMATION) * parts.radius2, mu, rng)


def release_model_variance(
    rows: Iterable[Block], u: Floats, parts: Parts, mu: float, rng: Randomness
) -> Floats:
    """Release ``sum_i s_i v_i v_i'``, (q, q), the variance of the score by the model: of shares ``f_i^2 w_i``
    for ``s_i``, of counts that of limited rare events, and 0 where the mean is not small.

    The noise has the standard deviation ``min(R^2, C^2) / mu`` on the diagonal.

    Notes
    -----
    **Privacy.** A record adds or removes one matrix of Frobenius norm ``s |v|^2``. For shares ``f^2 w |v|^2``
    is at most ``R^2`` as ``f w |v|^2``, and at most ``C^2``, since ``w = m (1 - m)`` is at most ``b^2``. For
    counts it is the variance of what is at most ``C``, and limiting adds nothing to a variance:
    ``mu``-GDP under add-remove. Argument: ``docs/privacy/logit.md``, ``docs/privacy/poisson.md``.
    """
    most = min(parts.radius2, parts.clip**2)
    units = units_of(most)

    def update(state: Integers, V: Floats, R: Floats, first: int) -> None:
        kernels.information(V, R, u, *parts.limits, True, False, units, state)

    total = sum_bounded(rows, (len(u), len(u)), units, update)
    return symmetric_gaussian(total, (1 + SUMMATION) * most, mu, rng)


def release_outer(
    rows: Iterable[Block], u: Floats, parts: Parts, cut: float, mu: float, rng: Randomness
) -> Floats:
    """Release ``sum_i p_i p_i'``, (q, q), ``p`` the part of a row of the score shortened to the norm `cut`.

    The noise has the standard deviation ``cut^2 / mu`` on the diagonal.

    Notes
    -----
    **Privacy.** A record adds or removes one matrix of Frobenius norm ``|p|^2 <= cut^2``: ``mu``-GDP under
    add-remove. Argument: ``docs/privacy/logit.md``.
    """
    units = units_of(cut**2)

    def update(state: Integers, V: Floats, R: Floats, first: int) -> None:
        kernels.part_gram(V, R, u, *parts.limits, cut, units, state)

    total = sum_bounded(rows, (len(u), len(u)), units, update)
    return symmetric_gaussian(total, (1 + SUMMATION) * cut**2, mu, rng)


def release_sizes(
    rows: Iterable[Block], u: Floats, parts: Parts, edges: Integers, mu: float, rng: Randomness
) -> Floats:
    """Release the number of rows by the size of their part without a clip, and by the sign of the residual.

    The cells are those of :func:`~dpstats.linear.scores.product_counts`.

    Notes
    -----
    **Privacy.** A record adds or removes one count: ``mu``-GDP under add-remove.
    """

    def update(state: Integers, V: Floats, R: Floats, first: int) -> None:
        kernels.part_octaves(V, R, u, parts.counts, parts.top, parts.radius2, state)

    fine = fold(rows, lambda: np.zeros((2, OCTAVES), np.int64), update)
    return gaussian(np.add.reduceat(fine, np.concatenate([[0], edges]), axis=1), 1.0, mu, rng)


def release_squares(
    rows: Iterable[Block], u: Floats, parts: Parts, ceiling: float, mu: float, rng: Randomness
) -> float:
    """Release ``sum_i min(|p_i|^2, ceiling)`` of the parts without a clip.

    Notes
    -----
    **Privacy.** A record moves the sum by at most `ceiling`: ``mu``-GDP under add-remove.
    """
    units = units_of(ceiling)

    def update(state: Integers, V: Floats, R: Floats, first: int) -> None:
        kernels.part_squares(V, R, u, parts.counts, parts.top, parts.radius2, ceiling, units, state)

    total = sum_bounded(rows, (1,), units, update)
    return float(gaussian(total, (1 + SUMMATION) * ceiling, mu, rng)[0])


def release_deviances(
    rows: Iterable[Block],
    u: Floats,
    null: Floats,
    parts: Parts,
    ceilings: tuple[float, float],
    mu: float,
    rng: Randomness,
) -> Floats:
    """Release the sum of the deviances at `u` and what it is lower than at `null`, (2,), each row's limited
    to its ceiling.

    The difference has a ceiling of its own: of two sums with the noise of a deviance each it would be noise
    wherever columns explain little.

    Notes
    -----
    **Privacy.** In units of the ceilings a record moves both sums by at most 1, the pair by ``sqrt(2)``:
    ``mu``-GDP under add-remove. Argument: ``docs/privacy/logit.md``.
    """
    units = units_of(1.0)

    def update(state: Integers, V: Floats, R: Floats, first: int) -> None:
        kernels.deviances(V, R, u, null, parts.counts, parts.top, *ceilings, units, state)

    total = sum_bounded(rows, (2,), units, update)
    return gaussian(total, (1 + SUMMATION) * math.sqrt(2), mu, rng) * np.array(ceilings)


def release_weights(
    rows: Iterable[Block],
    u: Floats,
    parts: Parts,
    share: float,
    ceilings: tuple[float, float],
    mu: float,
    rng: Randomness,
) -> Floats:
    """Release ``sum_i (w_i, w_i' v_i)``, (1 + q,), ``w'`` the derivative of ``w`` by the linear predictor.

    Each row's ``w`` is at most the first of the `ceilings`, and its slopes, times `share`, are shortened to
    the second.

    Notes
    -----
    **Privacy.** A record adds or removes one vector whose norm is at most the root of the sum of the squared
    ceilings: ``mu``-GDP under add-remove.
    """
    norm = math.hypot(*ceilings)
    units = units_of(norm)

    def update(state: Integers, V: Floats, R: Floats, first: int) -> None:
        kernels.weights(V, R, u, parts.counts, parts.top, share, *ceilings, units, state)

    total = gaussian(sum_bounded(rows, (1 + len(u),), units, update), (1 + SUMMATION) * norm, mu, rng)
    return np.append(total[:1], total[1:] / share)
