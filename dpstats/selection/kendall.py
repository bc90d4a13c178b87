"""Private choice of terms by Kendall rank correlation (DPKendall), with a statistic that ties cannot break.

Pure functions with the paper's symbols: ``K`` concordant minus discordant pairs, ``tau = K / (n - 1)``, ``S``
the terms chosen so far. The proofs are in ``docs/privacy/selection.md``.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np

from dpstats._threads import WORKERS, in_threads
from dpstats._types import Array
from dpstats.data.spill import Spill
from dpstats.formula.design import Blocks
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.rounds import choose
from dpstats.selection import _kernels

__all__ = ["WIDTH", "Ranks", "choose_terms", "rank_columns"]

T = TypeVar("T")

WIDTH = {"add-remove": 2.5, "substitution": 4.0}
"""Width of the interval in which every ``|tau|`` moves between neighbours; later rounds have twice that."""
_ROUNDED = 1 + 2.0**-20
"""Scores are quotients of exact integers, rounded once: off by 2^-22 at most below 2^31 rows."""
_SLAB = 1 << 26


@dataclass(frozen=True)
class Ranks:
    """Dense ranks of some columns: equal values share a rank, and ranks have no gap.

    Attributes
    ----------
    ranks : (c, n) int32 array
    distinct : (c,) int array
        Number of distinct values of each column.
    """

    ranks: np.ndarray
    distinct: np.ndarray

    @classmethod
    def empty(cls, c: int, n: int) -> Self:
        return cls(np.empty((c, n), np.int32), np.zeros(c, np.int64))

    def put(self, j: int, values: Array) -> None:
        """Rank `values`, shape (n,), as column `j`."""
        order = np.argsort(values)
        ordered = values[order]
        steps = np.empty(len(values), np.int32)
        steps[:1] = 0
        steps[1:] = ordered[1:] != ordered[:-1]
        np.cumsum(steps, out=steps)
        self.ranks[j, order] = steps
        self.distinct[j] = steps[-1] + 1 if len(steps) else 0

    def sign_sums(self, target: int, columns: Sequence[int]) -> list[int]:
        """``K`` between the target column and each of `columns`: a list of Python integers."""
        distinct = int(self.distinct[target])
        order = np.empty(self.ranks.shape[1], np.int32)
        starts = np.empty(distinct + 1, np.int64)
        _kernels.sort_by_rank(self.ranks[target], distinct, order, starts)

        def work(part: list[int]) -> list[int]:
            return [int(_kernels.sign_sum(self.ranks[j], int(self.distinct[j]), order, starts)) for j in part]

        return _in_parts(work, list(columns))


def _in_parts(work: Callable[[list[int]], list[T]], items: list[int]) -> list[T]:
    """``work(items)`` in threads, for a `work` that maps lists to lists of equal length."""
    parts = [items[i::WORKERS] for i in range(min(WORKERS, len(items)))]
    out: list[Any] = [None] * len(items)
    for i, results in enumerate(in_threads([functools.partial(work, part) for part in parts])):
        out[i::WORKERS] = results
    return out


class _Aside:
    """Columns and responses of blocks, read once and put aside in a temporary file."""

    def __init__(self, blocks: Blocks, columns: Sequence[int]) -> None:
        self._spill = Spill()
        for X, Y in blocks:
            self._spill.add((X[:, columns], Y))

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        return self._spill.read()


def rank_columns(blocks: Blocks, columns: Sequence[int]) -> Ranks:
    """Dense ranks of columns of the design and, last, of the response.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Re-iterable, with the attribute `in_memory`; Y of one column.
    columns : sequence of int

    Returns
    -------
    Ranks
        Of ``len(columns) + 1`` columns, four bytes an entry. Blocks that are read from a file are read once,
        since a query may have another order at the next pass, and put into a temporary one; of this as many
        columns are held as doubles at a time as make half a gigabyte.
    """
    c = len(columns)
    rows = blocks if blocks.in_memory else _Aside(blocks, columns)
    pieces = [Y[:, 0].copy() for _, Y in rows]
    response = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0), *pieces])
    n = len(response)
    out = Ranks.empty(c + 1, n)
    out.put(c, response)
    width = c if blocks.in_memory else max(WORKERS, _SLAB // max(n, 1))
    for start in range(0, c, max(width, 1)):
        slab = np.asarray(columns[start : start + width], dtype=np.intp)
        if blocks.in_memory:
            X, index = next(iter(blocks))[0], slab
        else:
            held = [np.empty((0, len(slab))), *(X[:, start : start + width] for X, _ in rows)]
            X, index = np.concatenate(held), np.arange(len(slab))

        def work(part: list[int], X: Array = X, index: Array = index, start: int = start) -> list[int]:
            for i in part:
                out.put(start + i, X[:, index[i]])
            return part

        _in_parts(work, list(range(len(slab))))
    return out


def choose_terms(
    ranks: Ranks, terms: Sequence[Sequence[int]], k: int, step: float, neighbours: str, rng: Randomness
) -> list[int]:
    """DPKendall: `k` rounds of the exponential mechanism on rank correlations.

    Parameters
    ----------
    ranks : Ranks
        Of the candidates' columns and, last, of the response.
    terms : sequence of sequence of int
        The columns of each candidate term; a term enters as a whole.
    k : int
        At most the number of terms.
    step : float
        Budget of a round (:func:`~dpstats.mechanisms.rounds.per_round`).
    neighbours : {"add-remove", "substitution"}
    rng : Randomness

    Returns
    -------
    list of int
        The chosen terms in order of choice.

    Notes
    -----
    The score of a term is the largest over its columns ``j`` of ``|tau(X_j, Y)| - (1/|S|) sum_{s in S}
    max_{j' in s} |tau(X_j, X_j')|``: correlation with the response less the mean correlation with the terms
    chosen so far.

    **Privacy.** Each round is `step`-bounded-range under `neighbours`, because a record more or less moves
    every ``|tau|`` by an amount in [-3/2, 1] (or all in [-1, 3/2]), and a record replaced by at most 2;
    maxima and means of such amounts stay in the interval, and a difference of two doubles its width. Proof:
    ``docs/privacy/selection.md``.
    """
    columns = [j for term in terms for j in term]
    pairs = max(ranks.ranks.shape[1] - 1, 1)
    relevance = dict(zip(columns, map(abs, ranks.sign_sums(len(ranks.distinct) - 1, columns)), strict=True))
    redundancy = dict.fromkeys(columns, 0)
    left = list(range(len(terms)))
    chosen: list[int] = []
    for _ in range(k):
        if chosen:
            rest = [j for t in left for j in terms[t]]
            worst = dict.fromkeys(rest, 0)
            for target in terms[chosen[-1]]:
                for j, K in zip(rest, ranks.sign_sums(target, rest), strict=True):
                    worst[j] = max(worst[j], abs(K))
            for j in rest:
                redundancy[j] += worst[j]
        size = max(len(chosen), 1)
        # Python integers: the one rounding is that of the true division
        scores = [max(relevance[j] * size - redundancy[j] for j in terms[t]) / (size * pairs) for t in left]
        width = WIDTH[neighbours] * (2 if chosen else 1) * _ROUNDED
        chosen.append(left.pop(choose(scores, width, step, rng)))
    return chosen
