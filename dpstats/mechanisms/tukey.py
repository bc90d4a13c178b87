"""Restricted exponential mechanism over axis-aligned Tukey depth (Amin et al. 2022, corrected).

Pure functions on the `m` by `k` array of models, with the paper's symbols: ``S`` sorted columns, ``V_i`` the
volume of the box of depth at least ``i``, ``w_i`` the weight of the layer of depth exactly ``i``.
Everything is in logs. The proofs are in ``docs/privacy/tukey_em.md``.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from scipy.special import logsumexp, ndtri

from dpstats._types import Floats
from dpstats.mechanisms.exponential import coarsen, float_keys
from dpstats.mechanisms.ptr import threshold
from dpstats.mechanisms.rng import Randomness

__all__ = ["Boxes", "gaussian_margin", "jitter", "least_models", "margin", "rounding", "sample", "unsafety"]

_RELATIVE_JITTER = 2.0**-40
_ABSOLUTE_JITTER = 2.0**-200
_HUGE = 2.0**500
"""Models are within this, and multiples of its reciprocal: no quotient of two distances leaves the
doubles."""
_MANY_MODELS = 2**22


@dataclass(frozen=True)
class Boxes:
    """The nested boxes of depth at least ``i``, for ``i = 1 .. h`` with ``h = floor(m / 2)``.

    Attributes
    ----------
    S : (m, k) array
        Each axis sorted in increasing order.
    log_volume : (h,) array
        ``ln V_i``; -inf for an empty box.
    log_layer : (h,) array
        ``ln (V_i - V_{i+1})`` with ``V_{h+1} = 0``.
    """

    S: Floats
    log_volume: Floats
    log_layer: Floats

    @classmethod
    def of(cls, models: Floats) -> Self:
        """Boxes of an (m, k) array of models without NaN; what lies beyond +-2^500 is moved there.

        An infinite side would make every layer outside it look empty, and the safety test pass. A layer comes
        from what each axis loses, ``V_i - V_{i+1} = V_i (1 - prod_j (1 - W_j / side_j))``: the difference of
        two volumes would have lost the thin ones to rounding.
        """
        S = np.sort(np.rint(np.clip(models, -_HUGE, _HUGE) * _HUGE) / _HUGE, axis=0)
        h = len(S) // 2
        low, high = S[:h], S[::-1][:h]
        sides = high - low
        lost = (low[1:] - low[:-1]) + (high[:-1] - high[1:])
        with np.errstate(divide="ignore", invalid="ignore"):
            log_volume = np.sum(np.log(sides), axis=1)
            share = lost / sides[:-1]
            kept = np.where(share <= 0.5, np.log1p(-np.minimum(share, 0.5)), np.log(sides[1:] / sides[:-1]))
            log_layer = log_volume + np.append(np.log(-np.expm1(np.sum(kept, axis=1))), 0.0)
        log_layer[log_volume == -np.inf] = -np.inf
        return cls(S, log_volume, log_layer)


def _logs(log_volume: Floats) -> tuple[Floats, Floats]:
    inner = np.append(log_volume[1:], -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_layer = log_volume + np.log1p(-np.exp(np.minimum(inner - log_volume, 0.0)))
    log_layer[~(inner < log_volume)] = -np.inf
    return log_volume, log_layer


def jitter(models: Floats, rng: Randomness) -> Floats:
    """Models with ties broken: ``c (1 + 2^-40 U) + 2^-200 U'``, ``U, U'`` uniform on (-1, 1), for every
    entry.

    Public constants, never scaled by the models' spread and never applied to tied entries only.
    """
    u = 2 * rng.uniform(2 * models.size).reshape(2, *models.shape) - 1
    return models * (1 + _RELATIVE_JITTER * u[0]) + _ABSOLUTE_JITTER * u[1]


def unsafety(boxes: Boxes, t: int, k: int, eps: float) -> float:
    """``ln f_k``: the largest ``ln delta`` lost within distance `k`, at restriction depth `t`.

    ::

        f_k = e^eps sum_{i=t-1-k}^{t+k} (V_i - V_{i+1}) e^{eps min(t, i+k)/2}
                  / sum_{i>=t+1+k} (V_i - V_{i+1}) e^{eps (i-k)/2}

    It is infinite where ``t - 1 - k < 1`` or ``t + 1 + k > h``. With ``f_0 <= delta`` the mechanism
    restricted to depth at least `t` is ``(eps, delta)``-indistinguishable between these models and any that
    differ in one.
    """
    h = len(boxes.log_layer)
    if t - 1 - k < 1 or t + 1 + k > h:
        return math.inf
    depth = np.arange(1, h + 1)
    outer = slice(t - 2 - k, t + k)
    inner = slice(t + k, None)
    above = logsumexp(boxes.log_layer[outer] + eps / 2 * np.minimum(t, depth[outer] + k))
    below = logsumexp(boxes.log_layer[inner] + eps / 2 * (depth[inner] - k))
    return math.inf if below == -math.inf else eps + above - below


def rounding(m: int, k: int, eps: float) -> float:
    """``tau``: no ``ln f``, and no log-weight of :func:`sample`, of `m` models on `k` axes is off by more
    through rounding."""
    return 2.0**-53 * (1024 * (k + 8) ** 2 + 16 * m * (1 + eps))


def margin(boxes: Boxes, t: int, eps: float, delta: float) -> int:
    """``M``: the largest ``k >= 0`` with ``ln f_k + 2 tau (k + 3) <= ln delta``, or -1.

    Changing one model moves it by at most 1, also as it is computed: ``tau`` is the rounding of ``ln f``, and
    the allowance for it grows with the distance by as much as two roundings may differ.
    """
    m, k = boxes.S.shape
    target, tau = math.log(delta), rounding(m, k, eps)
    low, high = -1, t - 1
    while high - low > 1:
        middle = (low + high) // 2
        if unsafety(boxes, t, middle, eps) + 2 * tau * (middle + 3) <= target:
            low = middle
        else:
            high = middle
    return low


def sample(boxes: Boxes, t: int, eps: float, rng: Randomness) -> Floats:
    """Draw from the density proportional to ``exp(eps depth / 2)`` on the points of depth at least `t`.

    A layer is drawn with weight ``w_i = (V_i - V_{i+1}) e^{eps i/2}`` by Gumbel noise; within the layer the
    first axis whose own depth is exactly ``i`` by
    ``vol C_j = prod_{j'<j} V_{j',i+1} W_{j,i} prod_{j'>j} V_{j',i}``; then a uniform point. The point is
    computed in exact arithmetic and rounded once, to a lattice of relative 2^-30: the last bits of a product
    of doubles would tell which boxes it came from.

    Returns
    -------
    (k,) array
    """
    S = boxes.S
    m, k = S.shape
    h = len(boxes.log_layer)
    weights = boxes.log_layer + eps / 2 * np.arange(1, h + 1)
    weights[: t - 1] = -np.inf
    i = int(np.argmax(weights + rng.gumbel(h))) + 1
    low, high = S[i - 1], S[m - i]
    intervals = [[ends] for ends in zip(low, high, strict=True)]
    if i < h:
        low_in, high_in = S[i], S[m - i - 1]
        with np.errstate(divide="ignore"):
            outside = np.log(high - low)
            inside = np.log(np.maximum(high_in - low_in, 0.0))
            shell = np.log(np.maximum((high - high_in) + (low_in - low), 0.0))
        before = np.concatenate([[0.0], np.cumsum(inside)[:-1]])
        after = np.concatenate([np.cumsum(outside[::-1])[::-1][1:], [0.0]])
        first = int(np.argmax(before + shell + after + rng.gumbel(k)))
        intervals[:first] = [[ends] for ends in zip(low_in[:first], high_in[:first], strict=True)]
        intervals[first] = [(low[first], low_in[first]), (high_in[first], high[first])]
    return np.array([_point(ends, u) for ends, u in zip(intervals, rng.exact_uniform(k), strict=True)])


def _point(intervals: Sequence[tuple[float, float]], share: Fraction) -> float:
    """The coarse double at an exact `share` of the length of the intervals, taken in order."""
    exact = [(Fraction(a), Fraction(b)) for a, b in intervals]
    step = share * sum(b - a for a, b in exact)
    for a, b in exact:
        if step <= b - a:
            break
        step -= b - a
    return coarsen(int(float_keys(float(a + step))))


@functools.lru_cache(maxsize=4096)
def gaussian_margin(m: int, k: int, t: int, eps: float, delta: float) -> int:
    """The margin at which `m` models with independent Gaussian axes would stand: their normal quantiles."""
    h = m // 2
    i = np.arange(1, h + 1)
    half_side = -ndtri((i - 0.5) / m)
    boxes = Boxes(np.empty((m, k)), *_logs(k * np.log(2 * half_side)))
    return margin(boxes, t, eps, delta)


@functools.lru_cache(maxsize=4096)
def least_models(k: int, eps_test: float, eps_draw: float, delta: float, share: float) -> int:
    """The least `m` (on a grid of 5 %) whose Gaussian margin passes the test with ``6 / eps_test`` to spare.

    Parameters
    ----------
    k : int
        Axes.
    eps_test, eps_draw, delta : float
        Budget of the test, of the draw, and their one delta.
    share : float
        The restriction depth is ``t = floor(share m)``.

    Returns
    -------
    int
        Beyond four million a lower bound, which no data will feed: the depth must exceed the margin.
    """
    wanted = threshold(eps_test, delta) + 6 / eps_test
    m = max(8, int(wanted / share))
    while m < _MANY_MODELS and gaussian_margin(m, k, int(share * m), eps_draw, delta) < wanted:
        m = int(1.05 * m) + 1
    return m
