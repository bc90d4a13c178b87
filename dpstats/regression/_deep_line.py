"""The exponential mechanism over regression depth: a line drawn with probability growing in its depth.

A candidate ``z`` of a public lattice is drawn with probability proportional to ``exp(eps rd(z) / 2)``. The lattice is far too
large to be listed, so it is partitioned (:mod:`dpstats.regression._line_tree`) into nodes on which the depth is bounded by
``b``. A node is chosen with a weight of its size times ``exp(eps b / 2)``, a candidate is drawn in it uniformly and accepted
with probability ``exp(eps (rd(z) - b) / 2)``; otherwise the node is cut and the drawing starts again. Whatever the
partition, an accepted candidate has exactly the law wanted.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpstats.regression import _line_tree as tree

__all__ = ["Candidates", "deep_line"]

_BITS = 48
"""Slopes and centres have this many bits."""
_OCTAVE_PAIRS = 50
"""Without bounds the candidates reach from 4^-50 to 4^50, 1e-30 to 1e30."""
_JITTER = 2.0**-36
"""Responses are moved by this, relative to their size, so that ties do not hide the lines through them."""
_COVARIATE_BITS = 26
"""Covariates are rounded to these, so that lines are parallel or cross at an angle that rounding does not hide."""
_LEAST = 2.0**-64
_LARGEST_Y, _LARGEST_X = 2.0**150, 2.0**100
_ROOM = 1 << 12


@dataclass(frozen=True, eq=False)
class Candidates:
    """The public lattice: pieces of slopes and centres between pairs of lines.

    Attributes
    ----------
    x, y : (b,) ndarray
        The lines at the sides of the pieces, as observations: ``c = y - x s``.
    pieces : (r, 4) int64 ndarray
        First column, column past the last, lower and upper side.
    units : (r,) ndarray
        Columns and steps to a unit of the slope and of the centre.
    bits : int
        No column or step is beyond ``2**bits``.
    floor : float
        Least size of a response that jitter is relative to.
    """

    x: np.ndarray
    y: np.ndarray
    pieces: np.ndarray
    units: np.ndarray
    bits: int
    floor: float

    @classmethod
    @functools.lru_cache(maxsize=4)
    def bounded(cls, bits=_BITS):
        """Lines whose values ``c - s`` and ``c + s`` are in ``[-1, 1]``."""
        K = 2**bits
        pieces = np.array([(-K, 0, 2, 1), (0, K + 1, 3, 0)], dtype=np.int64)
        x, y = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 1.0, -1.0, -1.0])
        return cls(x, y, pieces, np.full(2, float(K)), bits, 1.0)

    @classmethod
    @functools.lru_cache(maxsize=4)
    def unbounded(cls, bits=_BITS, reach=_OCTAVE_PAIRS):
        """Lines of all sizes: as many candidates with ``|c| + |s|`` in ``[R/4, R)`` for every power ``R`` of four."""
        K, q = 2**bits, 2**bits // 4
        radii = 4.0 ** np.arange(-reach, reach + 1)
        shell = [(-K, -q, 2, 1), (-q, 0, 5, 1), (-q, 0, 2, 6), (0, q, 4, 0), (0, q, 3, 7), (q, K, 3, 0)]
        pieces = np.array(
            [(a, b, 8 * j + lo, 8 * j + hi) for j in range(len(radii)) for a, b, lo, hi in shell],
            dtype=np.int64,
        )
        x = np.tile([1.0, -1.0, 1.0, -1.0] * 2, len(radii))
        y = np.repeat(radii, 8) * np.tile(np.array([1, 1, -1, -1, 0.25, 0.25, -0.25, -0.25]), len(radii))
        return cls(x, y, pieces, np.repeat(K / radii, len(shell)), bits, _LEAST)


def deep_line(x, y, eps, candidates, rng):
    """Draw a line.

    Parameters
    ----------
    x, y : (n,) arrays
        Finite; covariate and response, in the units of the candidates.
    eps : float
        Budget.
    candidates : Candidates
    rng : Randomness

    Returns
    -------
    centre, slope : float
        The line ``centre + slope x``.

    Notes
    -----
    **Privacy.** Pure ``eps``-DP, neighbours: one record replaced, or becoming or ceasing to be unusable (``eps/2``-DP for one
    added or removed), and ``(eps^2/8)``-zCDP: ``eps``-bounded-range given the jitter, and averaged over it. Each record's residual sign at a candidate is a function of that record, its own
    jitter and the candidate, however it is rounded; depth counts signs and moves by at most 1. Argument:
    ``docs/privacy/deepest_regression.md``.

    Examples
    --------
    >>> from dpstats.mechanisms.rng import Randomness
    >>> x = np.random.default_rng(0).normal(size=500)
    >>> centre, slope = deep_line(x, 1 + 2 * x, 1000.0, Candidates.unbounded(), Randomness(1))
    >>> round(centre, 4), round(slope, 4)
    (1.0, 2.0)
    """
    y = np.clip(y, -_LARGEST_Y, _LARGEST_Y)
    y = y + _JITTER * np.maximum(np.abs(y), candidates.floor) * (2 * rng.uniform(len(y)) - 1)
    return _draw(_rounded(np.clip(x, -_LARGEST_X, _LARGEST_X)), y, eps / 2, candidates, rng)


def _rounded(x):
    """`x` to `_COVARIATE_BITS` significant bits, below 1 to as many binary places."""
    shift = _COVARIATE_BITS - np.maximum(np.frexp(x)[1], 0)
    return np.ldexp(np.rint(np.ldexp(x, shift)), -shift)


def _draw(x, y, rate, candidates, rng):
    """A candidate with probability proportional to ``exp(rate depth)``."""
    by_x = np.argsort(x, kind="stable")
    last = np.append(np.diff(x[by_x]) > 0, True)[: len(x)]
    x, y = np.concatenate([x[by_x], candidates.x]), np.concatenate([y[by_x], candidates.y])
    rows = (x, y, last, rate, 2.0**candidates.bits)
    I, F, used = _roots(candidates, rows)
    while (used := tree.refine(I, F, used, *rows, 1 / rate, len(I))) + 2 > len(I):
        I, F = tree.grow(I, F, 2 * len(I))
    while True:
        leaves = np.flatnonzero(I[:used, tree.CHILD] < 0)
        node = leaves[int(np.argmax(F[leaves, 1] + rng.gumbel(len(leaves))))]
        first, stop, low, height, bound = (
            int(v) for v in I[node, [tree.FIRST, tree.STOP, tree.LO, tree.HEIGHT, tree.BOUND]]
        )
        unit = F[node, 0]
        k = float(first + _below(stop - first, rng))
        c = tree.line_at(x, y, low, k, unit) + _below(height, rng)
        if tree.holds(I, F, node, x, y, k, c):
            lost = rate * (bound - tree.depth_at(x, y, last, k, c, unit))
            if -math.log(rng.small_uniform(1)[0]) >= lost:
                return float(c / unit), float(k / unit)
        if I[node, tree.KIND]:
            if used + 2 > len(I):
                I, F = tree.grow(I, F, 2 * len(I))
            tree.split(I, F, used, node, *rows)
            used += 2


def _roots(candidates, rows):
    I, F = tree.grow(np.zeros((0, len(tree.FIELDS)), np.int64), np.zeros((0, 2)), _ROOM)
    n = len(rows[2])
    for node, ((first, stop, lo, hi), unit) in enumerate(
        zip(candidates.pieces, candidates.units, strict=True)
    ):
        I[node, : tree.KIND] = first, stop, n + lo, n + hi, -1, 0, -1
        F[node, 0] = unit
        tree.measure(I, F, node, *rows)
    return I, F, len(candidates.pieces)


def _below(size, rng):
    """A uniform integer in ``[0, size)``, from 128 random bits."""
    high, low = (int(word) for word in rng.words(2))
    return ((high << 64 | low) * size) >> 128
