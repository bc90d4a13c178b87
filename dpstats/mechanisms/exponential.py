"""Exponential mechanism for quantiles on the lattice of doubles: pure DP, no bounds."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpstats._types import Floats, Integers, Words
from dpstats._validation import one_of
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.conversions import bounded_range_rho
from dpstats.privacy.guarantee import NEIGHBOURS, Spend

__all__ = [
    "MAX_KEY",
    "QuantileCells",
    "coarsen",
    "exponential_spend",
    "float_keys",
    "keys_to_floats",
    "log_weights",
    "quantile",
    "quantile_cells",
]

_MASK = np.int64(0x7FFFFFFFFFFFFFFF)
MAX_KEY = int(np.array(np.finfo(float).max).view(np.int64))
"""Of the largest finite double."""
_COARSE = 22


def float_keys(x: ArrayLike) -> Integers:
    """The order-preserving integers of finite doubles; ``-0.0`` and ``0.0`` share the key 0.

    Examples
    --------
    >>> float_keys([-0.0, 0.0, 5e-324, -5e-324]).tolist()
    [0, 0, 1, -1]
    """
    bits = np.asarray(x, dtype=float).view(np.int64)
    return np.where(bits < 0, -(bits & _MASK), bits)


def keys_to_floats(keys: ArrayLike) -> Floats:
    """Inverse of :func:`float_keys`."""
    keys = np.asarray(keys, dtype=np.int64)
    magnitude = np.abs(keys).view(np.float64)
    return np.where(keys < 0, -magnitude, magnitude)


def exponential_spend(step: str, eps: float) -> Spend:
    """A step that is an exponential mechanism at `eps`: bounded range, cheaper in zCDP than pure DP."""
    return Spend(step, "exponential mechanism", eps, rho=bounded_range_rho(eps))


@dataclass(frozen=True)
class QuantileCells:
    """The lattice cut into cells of constant score.

    Attributes
    ----------
    first : (c,) int64 array
        Key of the first lattice point of each cell.
    size : (c,) uint64 array
        Number of lattice points in each cell (atoms have 1).
    score : (c,) float array
        ``-dist(q n, [#{x < y}, #{x <= y}])`` on the cell.
    """

    first: Integers
    size: Words
    score: Floats


def quantile_cells(x: Floats, q: float, bounds: tuple[float, float] | None = None) -> QuantileCells:
    """Cut the lattice of doubles (within `bounds`) into atoms, the data values, and the gaps between.

    Parameters
    ----------
    x : (n,) array
        Finite data; values outside the bounds are clipped to them.
    q : float
    bounds : (float, float), optional

    Returns
    -------
    QuantileCells
        Cells of no lattice point left out.
    """
    lo, hi = (-MAX_KEY, MAX_KEY) if bounds is None else (int(k) for k in float_keys(bounds))
    keys = np.clip(float_keys(x), lo, hi)
    atoms, counts = np.unique(keys, return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)]).astype(float)
    edges = np.concatenate([[lo - 1], atoms, [hi + 1]])
    rank = q * len(keys)
    gap_score = -np.abs(rank - below)
    atom_score = -np.maximum(np.maximum(below[:-1] - rank, rank - below[1:]), 0.0)
    first = np.concatenate([edges[:-1] + 1, atoms])
    # differences of keys overflow int64 only over the whole lattice; unsigned arithmetic is exact
    gap_size = edges[1:].view(np.uint64) - edges[:-1].view(np.uint64) - np.uint64(1)
    size = np.concatenate([gap_size, np.ones(len(atoms), dtype=np.uint64)])
    score = np.concatenate([gap_score, atom_score])
    keep = size > 0
    return QuantileCells(first[keep], size[keep], score[keep])


def log_weights(cells: QuantileCells, q: float, eps: float, neighbours: str) -> Floats:
    """Log of each cell's unnormalised probability."""
    sensitivity = max(q, 1 - q) if neighbours == "add-remove" else 1.0
    return np.log(cells.size.astype(float)) + eps * cells.score / (2 * sensitivity)


def quantile(
    x: Floats,
    q: float,
    eps: float,
    rng: Randomness,
    *,
    neighbours: str = "add-remove",
    bounds: tuple[float, float] | None = None,
) -> float:
    """A private quantile of finite doubles.

    Parameters
    ----------
    x : (n,) array
        Finite data, any order; may be empty.
    q : float
        In (0, 1).
    eps : float
        Budget.
    rng : Randomness
    neighbours : {"add-remove", "substitution"}
    bounds : (float, float), optional
        Public bounds of the answer; without them every finite double is a candidate.

    Returns
    -------
    float
        Rounded to a lattice of relative 2^-30.

    Notes
    -----
    **Privacy.** The score ``u(y) = -dist(q n, [#{x < y}, #{x <= y}])`` moves by at most ``max(q, 1 - q)``
    when a record is added or removed and by at most 1 when one is replaced. The mechanism draws ``y`` with
    probability proportional to ``exp(eps u(y) / (2 sensitivity))`` over the lattice and is ``eps``-DP,
    ``eps``-bounded-range and hence ``(eps^2/8)``-zCDP. The choice among cells adds Gumbel noise to their log
    weights; inside a cell the draw is uniform. Argument: ``docs/privacy/quantile.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.mechanisms.rng import Randomness
    >>> quantile(np.arange(1001.0), 0.5, 200.0, Randomness(1))
    500.0
    """
    one_of("neighbours", neighbours, NEIGHBOURS)
    cells = quantile_cells(x, q, bounds)
    weights = log_weights(cells, q, eps, neighbours)
    chosen = int(np.argmax(weights + rng.gumbel(len(weights))))
    # a cell may hold nearly 2^64 points: 128 bits make its coarse parts uniform to 2^-84
    high, low = (int(word) for word in rng.words(2))
    inside = ((high << 64 | low) * int(cells.size[chosen])) >> 128
    key = int(cells.first[chosen]) + inside
    if bounds is not None:
        lo, hi = (float(b) for b in bounds)
    else:
        lo, hi = -math.inf, math.inf
    return min(max(coarsen(key), lo), hi)


def coarsen(key: int) -> float:
    """The double of `key`, rounded to a lattice of relative 2^-30 (its 30 leading bits); never -0.0.

    Examples
    --------
    >>> coarsen(int(float_keys(1.0 + 1e-12)))
    1.0
    """
    magnitude = min((abs(key) + (1 << (_COARSE - 1))) >> _COARSE << _COARSE, MAX_KEY >> _COARSE << _COARSE)
    value = float(keys_to_floats(magnitude))
    return -value if key < 0 and value else value
