"""The private steps of noisy gradient rounds in a whitened metric, and how their noise adds up."""

import math
from collections.abc import Iterable

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.engines.local import Block, fold
from dpstats.linear import score_kernels as kernels
from dpstats.linear.gradients import Gradients
from dpstats.linear.whitened import Frame
from dpstats.mechanisms._kernels import EXPONENT, OCTAVES
from dpstats.mechanisms.noise import gaussian, symmetric_gaussian
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.sums import SUMMATION, sum_bounded, units_of
from dpstats.mechanisms.whiten import Affine, release_gram

__all__ = [
    "EXCESS_NOISE",
    "averaged_noise",
    "averaged_reach",
    "inner_gram",
    "outer_limit",
    "outside_score",
    "product_counts",
    "product_excess",
    "product_gradient",
    "product_gram",
    "psi_moments",
    "residual_scale",
    "residual_variance",
    "summed_gradient",
    "whitened_gram",
]

EXCESS_NOISE = kernels.EXCESS_SHARE**-0.5
"""Standard deviation of the noise of what a clip takes off, in those of a sum of shortened products."""
_OCTAVES = 8
_NORMAL_MEDIAN = 0.6744897501960817


def whitened_gram(rows: Iterable[Block], q: int, radius2: float, mu: float, rng: Randomness) -> Floats:
    """Release the Gram matrix of `q` whitened covariates.

    See :func:`~dpstats.mechanisms.whiten.release_gram`, here with the identity for a map.
    """
    identity = Affine(np.arange(q), np.zeros(q), np.ones(q))
    return release_gram(rows, identity, np.eye(q), radius2, mu, rng)


def product_gradient(
    rows: Iterable[Block], u: Floats, threshold: float, clip: float, mu: float, rng: Randomness
) -> Floats:
    """Release ``sum_i clip(v_i r_i)``, ``r = y - u'v``, each product shortened to the norm `clip`.

    Parameters
    ----------
    rows : iterable of (V, Y)
        Covariates and response.
    u : (q,) array
    threshold : float
        ``|r|`` counts up to it.
    clip, mu : float
    rng : Randomness

    Returns
    -------
    (q,) array

    Notes
    -----
    **Privacy.** A record adds or removes one vector of norm at most `clip`, whatever it holds: ``mu``-GDP
    under add-remove. Argument: ``docs/privacy/ols.md``.
    """
    units = units_of(clip)

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        kernels.product_gradient(V, Y, u, threshold, clip, units, state)

    total = sum_bounded(rows, (len(u),), units, update)
    return gaussian(total, (1 + SUMMATION) * clip, mu, rng)


def product_excess(
    rows: Iterable[Block], u: Floats, threshold: float, clip: float, far2: float, mu: float, rng: Randomness
) -> Floats:
    """Release what shortening the products of :func:`product_gradient` to `clip` in place of ``2 clip`` takes
    off their sum, and by how much the products of rows far out differ from those of the others.

    Parameters
    ----------
    rows, u, threshold, clip, mu, rng
        As of :func:`product_gradient`.
    far2 : float
        Squared length of ``v`` from which a row is far out. The products of such rows are added, and those of
        rows up to two fifths of that are taken off; between the two the sign turns gradually. If it is 0, the
        second column of the responses says how far out a row is, from 0 to 1.

    Returns
    -------
    (2, q) array
        Both sums. The first has noise of ``sqrt(4/3) clip / mu``, the second of ``clip / mu``.

    Notes
    -----
    **Privacy.** With ``e`` what of a product ``p`` lies between the lengths ``clip`` and ``2 clip``, a record
    adds or removes ``sqrt(3/4) e`` in the one sum, and in the other, times a number between -1 and 1, a
    vector along ``p`` of squared norm ``clip^2 - 3/4 |e|^2`` (``p`` itself if it is within `clip`). Together
    these have at most the norm `clip`, whatever the record holds: both sums are ``mu``-GDP under add-remove,
    and the first is divided by ``sqrt(3/4)`` after its noise. Argument: ``docs/privacy/ols.md``.
    """
    units = units_of(clip)

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        assert far2 > 0 or Y.shape[1] > 1
        kernels.product_excess(V, Y, u, threshold, clip, far2, units, state)

    parts = sum_bounded(rows, (2 * len(u),), units, update)
    noisy = gaussian(parts.reshape(2, -1), (1 + SUMMATION) * clip, mu, rng)
    return noisy * np.array([[EXCESS_NOISE], [1.0]])


def product_gram(
    rows: Iterable[Block], u: Floats, threshold: float, clip: float, mu: float, rng: Randomness
) -> Floats:
    """Release ``sum_i p_i p_i'`` of the products ``p_i = clip(v_i r_i)`` of :func:`product_gradient`.

    Returns
    -------
    (q, q) array
        With noise of standard deviation ``clip^2 / mu`` on the diagonal.

    Notes
    -----
    **Privacy.** A record adds or removes one matrix of Frobenius norm ``|p|^2 <= clip^2``: ``mu``-GDP under
    add-remove. Argument: ``docs/privacy/ols.md``.
    """
    units = units_of(clip**2)

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        kernels.product_gram(V, Y, u, threshold, clip, units, state)

    total = sum_bounded(rows, (len(u), len(u)), units, update)
    return symmetric_gaussian(total, (1 + SUMMATION) * clip**2, mu, rng)


def outer_limit(mean: float, q: int, precision: float, noise: float, limits: tuple[float, float]) -> float:
    """Where squared norms of `q` products are cut for :func:`product_gram`.

    Parameters
    ----------
    mean : float
        Mean square of a product.
    q : int
    precision : float
        The number of rows times ``mu``.
    noise : float
        Share of the variance that the noise may be.
    limits : (least, most)
        In mean squared norms. Where the noise allows three times `most` and more, the limit grows as the
        power 3/4 of that: both the noise and what is cut become small.

    Examples
    --------
    >>> [round(outer_limit(1.0, 2, precision, 0.1, (4.0, 40.0)), 1) for precision in (100, 1_000, 25_600)]
    [8.0, 50.0, 280.8]
    """
    least, most = limits
    times = max(noise * precision / q / math.sqrt(2 * q), least)
    return q * mean * min(times, most * max(times / most / 3, 1.0) ** 0.75)


def inner_gram(
    rows: Iterable[Block],
    u: Floats,
    threshold: float,
    clip: float,
    radius2: float,
    mu: float,
    rng: Randomness,
) -> Floats:
    """Release ``sum_i w_i v_i v_i'`` over the rows whose term in :func:`product_gradient` moves with ``u``.

    These have ``|r| < threshold`` and ``|v r| <= clip``; ``w = min(1, radius2 / |v|^2)``.

    Returns
    -------
    (q, q) array
        With noise of standard deviation ``radius2 / mu`` on the diagonal.

    Notes
    -----
    **Privacy.** A record adds or removes one matrix of Frobenius norm at most `radius2`: ``mu``-GDP under
    add-remove. Argument: ``docs/privacy/ols.md``.
    """
    radius, units = math.sqrt(radius2), units_of(radius2)

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        kernels.inner_gram(V, Y, u, threshold, clip, radius, units, state)

    total = sum_bounded(rows, (len(u), len(u)), units, update)
    return symmetric_gaussian(total, (1 + SUMMATION) * radius2, mu, rng)


def summed_gradient(gradients: Gradients, u: Floats, clip: float, mu: float, rng: Randomness) -> Floats:
    """Release :func:`product_gradient` without a threshold, from `gradients`, the sums over the rows.

    Notes
    -----
    **Privacy.** A record adds or removes one vector of norm at most `clip` (rounding is within the allowance
    for the sum's): ``mu``-GDP under add-remove. Argument: ``docs/privacy/boosted_adassp.md``.
    """
    return gaussian(gradients.at(u, clip), (1 + SUMMATION) * clip, mu, rng)


def product_counts(
    rows: Iterable[Block], u: Floats, threshold: float, edges: Integers, mu: float, rng: Randomness
) -> Floats:
    """Release the number of rows by size of ``|v r|``, for ``r <= 0`` and for ``r > 0``: (2, cells).

    A cell holds the half-octaves between two of the `edges`; the first and the last are open.

    Notes
    -----
    **Privacy.** A record adds or removes one count: ``mu``-GDP under add-remove.
    """

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        kernels.product_octaves(V, Y, u, threshold, state)

    fine = fold(rows, lambda: np.zeros((2, OCTAVES), np.int64), update)
    return gaussian(np.add.reduceat(fine, np.concatenate([[0], edges]), axis=1), 1.0, mu, rng)


def residual_scale(
    rows: Iterable[Block], u: Floats, guess: float, count: float, mu: float, rng: Randomness
) -> float:
    """Release the median of ``|r|`` over 0.6745, which is the standard deviation of normal residuals.

    Parameters
    ----------
    rows, u
        As in :func:`product_gradient`.
    guess : float
        A public or released scale; the answer is sought within a factor of 256 of it.
    count : float
        The released number of rows.

    Returns
    -------
    float

    Notes
    -----
    **Privacy.** From a histogram of half-octaves of ``|r|``, to which a record adds one count: ``mu``-GDP
    under add-remove. Within the half-octave of the median the logarithm is interpolated.
    """

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        kernels.residual_octaves(V, Y, u, state)

    hist = fold(rows, lambda: np.zeros(OCTAVES, np.int64), update)
    middle = round(min(max(2 * math.log2(guess), -EXPONENT + _OCTAVES), EXPONENT - _OCTAVES)) + EXPONENT
    low, high = middle - 2 * _OCTAVES, middle + 2 * _OCTAVES
    low, high = max(low, 0), min(high, OCTAVES)
    cells = np.concatenate([[hist[:low].sum()], hist[low:high]])
    below = np.cumsum(gaussian(cells, 1.0, mu, rng))
    k = min(max(int(np.argmax(below >= count / 2)), 1), len(cells) - 1)
    part = (count / 2 - below[k - 1]) / max(below[k] - below[k - 1], 1.0)
    log2_square = low + k - 1 + min(max(part, 0.0), 1.0) - EXPONENT
    return 2.0 ** (log2_square / 2) / _NORMAL_MEDIAN


def psi_moments(
    rows: Iterable[Block], u: Floats, threshold: float, count: float, mu: float, rng: Randomness
) -> tuple[float, float]:
    """Release the share of rows with ``|r| < threshold`` and the mean of ``min(|r|/threshold, 1)^2``.

    Returns
    -------
    share, square : float
        The share is at least four standard deviations of its noise, the square at least two.

    Notes
    -----
    **Privacy.** A record adds ``(1, t)`` with ``t < 1``, or ``(0, 1)``: a vector of norm at most ``sqrt(2)``.
    ``mu``-GDP under add-remove.
    """
    units = units_of(1.0)

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        kernels.psi_moments(V, Y, u, threshold, units, state)

    total = sum_bounded(rows, (2,), units, update)
    sensitivity = (1 + SUMMATION) * math.sqrt(2)
    share, square = gaussian(total, sensitivity, mu, rng) / count
    noise = sensitivity / mu / count
    return min(max(float(share), 4 * noise), 1.0), min(max(float(square), 2 * noise), 1.0)


def residual_variance(
    rows: Iterable[Block], u: Floats, ceiling: float, count: float, mu: float, rng: Randomness
) -> float:
    """Release the sum of ``min(r^2, ceiling)``, divided by `count`.

    Notes
    -----
    **Privacy.** A record moves the sum by at most `ceiling`: ``mu``-GDP under add-remove.
    """
    units = units_of(ceiling)

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        kernels.residual_moments(V, Y, u, ceiling, units, state)

    total = sum_bounded(rows, (1,), units, update)
    return float(gaussian(total, (1 + SUMMATION) * ceiling, mu, rng)[0]) / count


def outside_score(
    rows: Iterable[Block], narrow: Frame, wide: Frame, theta: Floats, mu: float, rng: Randomness
) -> float:
    """Release how much better wide limits predict rows than narrow ones, where they differ.

    Parameters
    ----------
    rows : iterable of (V, Y)
        Whitened rows, without limits.
    narrow, wide : Frame
        Theirs, but for the limits.
    theta : (q,) array
        Coefficients of ``z``.

    Returns
    -------
    float
        Between minus and plus the number of rows outside the narrow limits, plus noise of standard deviation
        ``1/mu``.

    Notes
    -----
    **Privacy.** A record moves the sum by at most 1: ``mu``-GDP under add-remove.
    """
    back, units = np.ascontiguousarray(np.linalg.inv(narrow.W)), units_of(1.0)
    limits = narrow.low, narrow.high, wide.low, wide.high
    # |z_j| is at most |v| times the length of a column
    nearest = np.minimum(np.minimum(narrow.high, -narrow.low), np.minimum(wide.high, -wide.low))
    inside = max(float(np.min(nearest / np.linalg.norm(back, axis=0))), 0.0) ** 2

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        kernels.outside_score(V, Y, back, theta, *limits, inside, units, state)

    total = sum_bounded(rows, (1,), units, update)
    return float(gaussian(total, 1 + SUMMATION, mu, rng)[0])


def averaged_noise(contraction: Floats, burn: int, variances: Floats) -> tuple[Floats, Floats]:
    """Noise variance of averaged iterates, and what is left of the start, along directions that contract.

    The error along a direction is multiplied by ``m`` each round and gains noise; the rounds from `burn` on
    are averaged.

    Parameters
    ----------
    contraction : (q,) array
        The factors ``m``.
    burn : int
    variances : (T,) array
        Noise variance added in each round, the same in every direction.

    Returns
    -------
    variance : (q,) array
    left : (q,) array
        Share of the first error that is still in the average.

    Examples
    --------
    >>> variance, left = averaged_noise(np.array([0.0, 0.5]), 1, np.ones(3))
    >>> variance.tolist(), left.tolist()
    ([0.5, 0.953125], [0.0, 0.1875])
    """
    reach, left = averaged_reach(contraction, burn, len(variances))
    return variances @ reach**2, left


def averaged_reach(contraction: Floats, burn: int, rounds: int) -> tuple[Floats, Floats]:
    """How much of what each round adds along a direction is in the average, and of the start.

    Parameters
    ----------
    contraction : (q,) array
    burn, rounds : int

    Returns
    -------
    reach : (rounds, q) array
    left : (q,) array
    """
    kept = np.arange(burn, rounds)
    reach = np.zeros((rounds, len(contraction)))
    for s in range(rounds):
        ages = kept[kept >= s] - s
        reach[s] = np.sum(contraction[:, None] ** ages, axis=1) / len(kept)
    return reach, np.mean(contraction[:, None] ** (kept + 1), axis=1)
