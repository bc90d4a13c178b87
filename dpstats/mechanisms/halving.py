"""Several quantiles by the exponential mechanism: the middle one of all rows, then those of either half.

Pure DP, no bounds. A record is in one cell of each level, so the levels divide the budget, and not the
quantiles (Kaplan, Schnapp and Stemmer 2022). Ties are broken by coins of the records, so that cells halve
where values repeat.
"""

import math

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.mechanisms.exponential import coarsen, float_keys
from dpstats.mechanisms.rng import Randomness

__all__ = ["halved", "levels_of", "place"]

_TIES = 32
"""A place is a point of the lattice of doubles and, within it, one of 2^32."""


def levels_of(k: int) -> int:
    """How often rows are halved for `k` quantiles.

    Examples
    --------
    >>> [levels_of(k) for k in (1, 2, 3, 4, 9)]
    [1, 2, 2, 3, 4]
    """
    return math.ceil(math.log2(k + 1))


def _gaps(
    keys: Integers, ties: Integers, f: float, eps: float, low: int, high: int
) -> tuple[Integers, Integers, Floats, Floats]:
    """Keys and ties of the ends of the gaps between places, numbers of places in them, and logs of their
    weights.
    """
    n = len(keys)
    ends = np.array([low >> _TIES, *keys, high >> _TIES], dtype=np.int64)
    rest = np.array([low & (1 << _TIES) - 1, *ties, high & (1 << _TIES) - 1], dtype=np.int64)
    # differences of keys may overflow int64, and are exact unsigned
    sizes = np.ldexp((ends[1:].view(np.uint64) - ends[:-1].view(np.uint64)).astype(float), _TIES)
    sizes += np.diff(rest).astype(float)
    score = -np.abs(f * n - np.arange(n + 1))
    with np.errstate(divide="ignore"):
        weights = np.log(sizes) + eps * score / (2 * max(f, 1 - f))
    return ends, rest, sizes, weights


def place(keys: Integers, ties: Integers, f: float, eps: float, low: int, high: int, rng: Randomness) -> int:
    """Draw a place near the fraction `f` of some places in their order.

    Parameters
    ----------
    keys, ties : (n,) int64 arrays
        Places ``2^32 key + tie`` in ascending order, in ``[low, high)``.
    f : float
    eps : float
    low, high : int
        Public, or drawn before.
    rng : Randomness

    Returns
    -------
    int
        In ``[low, high)``.

    Notes
    -----
    **Privacy.** The score of a place is minus the distance of `f n` from the number of places below. It moves
    by at most ``max(f, 1 - f)`` when a record is added or removed, and the draw is by ``exp(eps score / (2
    max(f, 1 - f)))``: pure `eps`-DP, and `eps`-bounded-range. Argument: ``docs/privacy/quantile.md``.
    """
    ends, rest, _, weights = _gaps(keys, ties, f, eps, low, high)
    i = int(np.argmax(weights + rng.gumbel(len(weights))))
    first, last = ((int(ends[j]) << _TIES) + int(rest[j]) for j in (i, i + 1))
    # a gap may hold nearly 2^96 places: 192 bits make the draw uniform to 2^-96
    word = int.from_bytes(rng.words(3).tobytes(), "little")
    return first + (word * (last - first) >> 192)


def halved(x: Floats, q: Floats, eps: float, rng: Randomness, bounds: tuple[float, float]) -> Floats:
    """Private quantiles of finite doubles.

    Parameters
    ----------
    x : (n,) array
        Finite, any order; may be empty.
    q : (k,) array
        Ascending, in (0, 1).
    eps : float
        Of all together.
    rng : Randomness
    bounds : (float, float)
        Public bounds of the answers.

    Returns
    -------
    (k,) array
        Ascending, rounded to a lattice of relative 2^-30.

    Notes
    -----
    **Privacy.** Pure `eps`-DP under add-remove: cells of a level are disjoint, and fixed by what was drawn on
    the levels before, so a record is in one draw of each; :func:`place` has the part of a level. Argument:
    ``docs/privacy/quantile.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.mechanisms.rng import Randomness
    >>> halved(np.arange(1001.0), np.array([0.25, 0.5]), 400.0, Randomness(1), (0.0, 1000.0)).round()
    array([250., 500.])
    """
    lo, hi = (int(key) for key in float_keys(bounds))
    keys = np.clip(float_keys(x), lo, hi)
    # coins of the records: where they are the same, so are the places, and no more is lost than a tie
    ties = (rng.words(len(keys)) >> np.uint64(64 - _TIES)).astype(np.int64)
    order = np.lexsort((ties, keys))
    keys, ties = keys[order], ties[order]
    each, found = eps / levels_of(len(q)), np.zeros(len(q))

    def halve(rows: slice, first: int, last: int, below: float, above: float, low: int, high: int) -> None:
        if first == last:
            return
        middle = (first + last) // 2
        own, own_ties = keys[rows], ties[rows]
        f = (float(q[middle]) - below) / (above - below)
        drawn = place(own, own_ties, f, each, low, high, rng)
        key, tie = drawn >> _TIES, drawn & (1 << _TIES) - 1
        found[middle] = coarsen(key)
        start = int(np.searchsorted(own, key, side="left"))
        stop = int(np.searchsorted(own, key, side="right"))
        cut = rows.start + start + int(np.searchsorted(own_ties[start:stop], tie, side="left"))
        halve(slice(rows.start, cut), first, middle, below, float(q[middle]), low, drawn)
        halve(slice(cut, rows.stop), middle + 1, last, float(q[middle]), above, drawn, high)

    halve(slice(0, len(keys)), 0, len(q), 0.0, 1.0, lo << _TIES, (hi + 1) << _TIES)
    return np.clip(found, *bounds)
