"""Private choice of a set of terms at once, by how well the signs of their differences order pairs of rows.

Pure functions; ``p`` is a pattern of signs, ``s`` the sign of the response, ``h(p)`` a bet on it. The proofs
are in ``docs/privacy/selection.md``.
"""

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dpstats._threads import WORKERS, in_threads
from dpstats._types import Floats, Integers
from dpstats.engines.local import Block
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.rounds import choose
from dpstats.selection import _kernels

__all__ = ["MOST_SETS", "MOST_TERMS", "WIDTH", "choose_terms", "column_sets", "feasible", "scores"]

REACH = 8
"""Rows are put in random order, and each is paired with this many on either side."""
BET = 0.25
"""Bound of a bet: its gain lies within ``[-2 BET - BET^2, 2 BET - BET^2]``."""
WIDTH = {"add-remove": 6 * BET, "substitution": 8 * BET}
"""Width of the interval in which the scores of all sets move between neighbours."""
MOST_SETS = 5_000
MOST_TERMS = 7
"""There are some 3^k/2 patterns of k signs; with more terms their counts are too small to learn a bet from.
"""
_ROUNDED = 1 + 2.0**-12
"""A score below 2^31 rows is a sum of at most 1,093 quotients of exact integers: off by less than 2^-13."""
_PART = 256


def feasible(sizes: Sequence[int], k: int) -> bool:
    """Whether the sets of `k` terms are few enough, and small enough, to compare them all.

    Parameters
    ----------
    sizes : sequence of int
        Columns of each term.
    k : int
    """
    # counts[j] is the number of choices of one column from each of j terms
    counts = [1] + [0] * k
    for size in sizes:
        for j in range(k, 0, -1):
            counts[j] += size * counts[j - 1]
    return k <= MOST_TERMS and counts[k] <= MOST_SETS


def column_sets(terms: Sequence[Sequence[int]], k: int) -> tuple[list[tuple[int, ...]], Integers, Integers]:
    """All sets of `k` terms, and one column of each term in every possible way.

    Parameters
    ----------
    terms : sequence of sequence of int
        Columns of each term.
    k : int

    Returns
    -------
    chosen : list of tuple of int
        The sets of terms.
    columns : (m, k) int array
        The sets of columns, in the order of their sets of terms.
    starts : (len(chosen),) int array
        Where those of each set of terms start.
    """
    chosen = list(itertools.combinations(range(len(terms)), k))
    ways = [list(itertools.product(*(terms[t] for t in members))) for members in chosen]
    starts = np.cumsum([0, *(len(way) for way in ways[:-1])])
    return chosen, np.array([columns for way in ways for columns in way], dtype=np.intp), starts


def scores(values: Floats, sets: Integers) -> Floats:
    r"""How well each set of columns orders neighbouring rows. Not private.

    Parameters
    ----------
    values : (c + 1, n) float array
        Finite; columns and, last, the response, with the rows in random order.
    sets : (m, k) int array

    Returns
    -------
    (m,) array
        .. math:: u = \max_h \frac1{2r} \sum_{0 < j - i \le r} 2 s_{ij} h(p_{ij}) - h(p_{ij})^2

        with ``r = REACH``, over all odd functions ``h`` of patterns that are bounded by `BET`.

    Examples
    --------
    >>> x = np.arange(100.0)
    >>> scores(np.array([x, 0 * x, x]), np.array([[0], [1]])).round(3).tolist()
    [20.891, 0.0]
    """
    parts = [sets[i : i + _PART] for i in range(0, len(sets), _PART)]
    found: list[Any] = [None] * len(parts)

    def work(first: int) -> None:
        for i in range(first, len(parts), WORKERS):
            tables = np.zeros((len(parts[i]), 2 * 3 ** sets.shape[1]), np.int64)
            _kernels.count_patterns(values, REACH, parts[i], tables)
            found[i] = _best_bets(tables)

    in_threads([functools.partial(work, first) for first in range(min(WORKERS, len(parts)))])
    return np.concatenate(found) / (2 * REACH)


def _best_bets(tables: Integers) -> Floats:
    """``max_h sum 2 s h - h^2`` from counts of patterns: for each pattern, that of a bet on its mean sign."""
    cells = tables.shape[1] // 2
    rising, tied = tables[:, :cells], tables[:, cells:]
    # a pattern and its mirror image are one bet; the one in the middle, all ties, allows none
    half = cells // 2
    surplus = np.abs(rising - rising[:, ::-1])[:, :half].astype(float)
    total = (rising + rising[:, ::-1] + tied + tied[:, ::-1])[:, :half].astype(float)
    inner = surplus * surplus / np.maximum(total, 1.0)
    outer = 2 * BET * surplus - BET * BET * total
    return np.where(surplus <= BET * total, inner, outer).sum(axis=1)


def choose_terms(
    blocks: Iterable[Block],
    terms: Sequence[Sequence[int]],
    k: int,
    eps: float,
    neighbours: str,
    rng: Randomness,
) -> list[int]:
    """The exponential mechanism on all sets of `k` terms.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Y of one column.
    terms : sequence of sequence of int
        Columns of X of each candidate term; a set of terms has the best score of one column from each.
    k : int
    eps : float
    neighbours : {"add-remove", "substitution"}
    rng : Randomness

    Returns
    -------
    list of int
        The chosen terms in their own order.

    Notes
    -----
    **Privacy.** `eps`-DP and ``(eps^2 / 8)``-zCDP under `neighbours`. In a fixed random order a record more
    makes at most ``2 r`` new pairs and separates at most ``r``, each of which counts within ``[-2 b - b^2, 2
    b - b^2] / (2 r)`` for *any* bet, ``b = BET``; so the best sum of every set moves within the same interval
    of width ``6 b``, and within one of ``8 b`` if a record is replaced. Proof: ``docs/privacy/selection.md``.
    """
    chosen, sets, starts = column_sets(terms, k)
    used, where = np.unique(sets, return_inverse=True)
    pieces = [np.column_stack([X[:, used], Y[:, 0]]) for X, Y in blocks]
    rows = np.concatenate([np.empty((0, len(used) + 1)), *pieces])
    values = np.ascontiguousarray(rows[rng.permutation(len(rows))].T)
    best = np.maximum.reduceat(scores(values, where.reshape(sets.shape)), starts)
    return list(chosen[choose(best, WIDTH[neighbours] * _ROUNDED, eps, rng)])
