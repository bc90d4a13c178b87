"""The exponential mechanism over regression depth: a line drawn with probability growing in its depth.

A candidate ``z`` of a public lattice is drawn with probability proportional to ``exp(eps rd(z) / 2)``. The
lattice is far too large to be listed, so it is partitioned (:mod:`dpstats.mechanisms.line_tree`) into nodes
on which the depth is bounded by ``b``. A node is chosen with a weight of its size times ``exp(eps b / 2)``, a
candidate is drawn in it uniformly and accepted with probability ``exp(eps (rd(z) - b) / 2)``; otherwise the
node is cut and the drawing starts again. Whatever the partition, an accepted candidate has exactly the law
wanted. The number of cuts is at most of order ``(n^2 + 606 n) log n``.
"""

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.mechanisms import line_tree as tree
from dpstats.mechanisms.rng import Randomness

__all__ = ["Candidates", "deep_line"]

_BITS, _FINE = 48, 104
"""Slopes have 48 bits, centres 104 more: between almost parallel lines there should be candidates."""
_OCTAVE_PAIRS = 50
"""Without bounds the candidates reach from 4^-50 to 4^50, 1e-30 to 1e30."""
_JITTER = 2.0**-36
"""Responses are moved by this, relative to their size, so that ties do not hide the lines through them."""
_LEAST = 2.0**-64
"""Least size of a response that jitter is relative to, where there are no bounds."""
_LARGEST_Y, _LARGEST_X = 2.0**150, 2.0**100
"""What lies beyond is moved to these, and covariates below the inverse to 0: then no product overflows or
underflows."""
_ROOM, _STRETCH = 1 << 12, 64
_Rows = tuple[Floats, Floats, Booleans, float, float]
"""Covariate, response, which row is the last of one covariate, rate, and centres to a column's width."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The public lattice: in every shell, four times as large as the one before, the same pieces between
    pairs of lines.

    Attributes
    ----------
    x, y : (b,) ndarray
        The lines at the sides of the pieces, as observations: ``c = y - x s``; `SIDES` to a shell.
    pieces : (r, 4) int64 ndarray
        Of the first shell: first column, column past the last, lower and upper side.
    units : (shells,) ndarray
        Columns to a unit of the slope, powers of two.
    fine : int
        There are ``2**fine`` centres to the width of a column.
    floor : float
        Least size of a response that jitter is relative to.
    """

    x: Floats
    y: Floats
    pieces: Integers
    units: Floats
    fine: int
    floor: float

    @classmethod
    @functools.lru_cache(maxsize=4)
    def bounded(cls, bits: int = _BITS, fine: int = _FINE) -> Self:
        """Lines whose values ``c - s`` and ``c + s`` are in ``[-1, 1]``."""
        K = 2**bits
        pieces = np.array([(-K, 0, 2, 1), (0, K + 1, 3, 0)], dtype=np.int64)
        x, y = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 1.0, -1.0, -1.0])
        return cls(x, y, pieces, np.full(1, float(K)), fine, 1.0)

    @classmethod
    @functools.lru_cache(maxsize=4)
    def unbounded(cls, bits: int = _BITS, reach: int = _OCTAVE_PAIRS, fine: int = _FINE) -> Self:
        """Lines of all sizes: as many candidates with ``|c| + |s|`` in ``[R/4, R)`` for every power ``R`` of
        four."""
        K, q = 2**bits, 2**bits // 4
        radii = 4.0 ** np.arange(-reach, reach + 1)
        shell = [(-K, -q, 2, 1), (-q, 0, 5, 1), (-q, 0, 2, 6), (0, q, 4, 0), (0, q, 3, 7), (q, K, 3, 0)]
        pieces = np.array(shell, dtype=np.int64)
        x = np.tile([1.0, -1.0, 1.0, -1.0] * 2, len(radii))
        y = np.repeat(radii, 8) * np.tile(np.array([1, 1, -1, -1, 0.25, 0.25, -0.25, -0.25]), len(radii))
        return cls(x, y, pieces, K / radii, fine, _LEAST)


def deep_line(
    x: Floats, y: Floats, eps: float, candidates: Candidates, rng: Randomness
) -> tuple[float, float]:
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
    **Privacy.** Pure ``eps``-DP, neighbours: one record replaced, or becoming or ceasing to be unusable
    (``eps/2``-DP for one added or removed), and ``(eps^2/8)``-zCDP: ``eps``-bounded-range given the jitter,
    and averaged over it. Each record's residual sign at a candidate is a function of that record, its own
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
    x = np.clip(x, -_LARGEST_X, _LARGEST_X)
    return _draw(np.where(np.abs(x) < 1 / _LARGEST_X, 0.0, x), y, eps / 2, candidates, rng)


def _draw(x: Floats, y: Floats, rate: float, candidates: Candidates, rng: Randomness) -> tuple[float, float]:
    """A candidate with probability proportional to ``exp(rate depth)``."""
    nodes, rows = _roots(x, y, rate, candidates)
    while not tree.refine(nodes.fields, nodes.reals, nodes.entries, nodes.used, *rows):
        nodes.grow(2 * len(nodes.fields))
    x, y, last, _, grain = rows
    while True:
        node = _chosen(nodes.reals[: nodes.used[0], tree.WEIGHT], rng)
        first, stop, low, high, shells, bound = (int(v) for v in nodes.fields[node, : tree.BOUND + 1])
        shell, height = _below(shells, rng), int(nodes.reals[node, tree.HEIGHT])
        low, high = (tree.in_shell(line, shell, len(last)) for line in (low, high))
        unit = nodes.reals[node, tree.UNIT] * 0.25**shell
        s = float(first + _below(stop - first, rng)) / unit
        # the least centre of the column, and then a step up to the height of the node
        bottom = (Fraction(y[low]) - Fraction(x[low]) * Fraction(s)) * Fraction(unit * grain)
        c = _parts(math.ceil(bottom) + _below(height, rng), unit * grain)
        if tree.above(x, y, high, s, c):
            lost = rate * (bound - tree.depth_at(x, y, last, s, c))
            if -math.log(rng.small_uniform(1)[0]) >= lost:
                return float(c[0]), float(s)
        if nodes.fields[node, tree.OPEN]:
            if nodes.used[0] + 2 > len(nodes.fields):
                nodes.grow(2 * len(nodes.fields))
            tree.split(nodes.fields, nodes.reals, nodes.entries, nodes.used, node, *rows)


def _roots(x: Floats, y: Floats, rate: float, candidates: Candidates) -> tuple[tree.Tree, _Rows]:
    """The tree before any cut, and its rows: covariate in order and response, with the sides after them."""
    by_x = np.argsort(x, kind="stable")
    n, last = len(x), np.append(np.diff(x[by_x]) > 0, True)[: len(x)]
    x, y = x[by_x], y[by_x]
    x, y = np.concatenate([x, x, candidates.x]), np.concatenate([y, np.zeros(n), candidates.y])
    rows = x, y, last, rate, 2.0**candidates.fine
    nodes = tree.Tree(n, _ROOM)
    for node, (first, stop, lo, hi) in enumerate(candidates.pieces):
        nodes.fields[node] = first, stop, 2 * n + lo, 2 * n + hi, len(candidates.units), 0, 0, 0, n
        nodes.reals[node, tree.UNIT] = candidates.units[0]
        tree.measure(nodes.fields, nodes.reals, nodes.entries, node, *rows)
    nodes.used[0] = len(candidates.pieces)
    return nodes, rows


def _chosen(weights: Floats, rng: Randomness) -> int:
    """An index with probability proportional to the exponential of its weight: a stretch, then one of the
    stretch."""
    full = np.full((-(-len(weights) // _STRETCH), _STRETCH), -np.inf)
    full.ravel()[: len(weights)] = weights
    with np.errstate(divide="ignore"):
        stretches = np.log(np.exp(full - full.max()).sum(axis=1))
    stretch = int(np.argmax(stretches + rng.gumbel(len(stretches))))
    return _STRETCH * stretch + int(np.argmax(full[stretch] + rng.gumbel(_STRETCH)))


def _parts(c: int, unit: float) -> tuple[float, ...]:
    """The number ``c / unit`` as a sum of three doubles; `unit` is a power of two."""
    parts = []
    for _ in range(3):
        parts.append(float(c) / unit)
        c -= int(float(c))
    return tuple(parts)


def _below(size: int, rng: Randomness) -> int:
    """A uniform integer in ``[0, size)``, from 256 random bits."""
    word = int.from_bytes(rng.words(4).tobytes(), "little")
    return (word * size) >> 256
