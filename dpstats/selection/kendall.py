"""Private choice of terms by Kendall rank correlation (DPKendall), with a statistic that ties cannot break.

Pure functions with the paper's symbols: ``K`` concordant minus discordant pairs, ``tau = K / (n - 1)``, ``S``
the terms chosen so far. The proofs are in ``docs/privacy/selection.md``.
"""

import functools
from dataclasses import dataclass

import numpy as np

from dpstats._threads import WORKERS, in_threads
from dpstats.mechanisms.rounds import choose
from dpstats.selection import _kernels

__all__ = ["WIDTH", "Ranks", "choose_terms", "rank_columns"]

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
    levels : (c,) int array
        Number of distinct values of each column.
    """

    ranks: np.ndarray
    levels: np.ndarray

    @classmethod
    def empty(cls, c, n):
        return cls(np.empty((c, n), np.int32), np.zeros(c, np.int64))

    def put(self, j, values):
        """Rank `values`, shape (n,), as column `j`."""
        order = np.argsort(values)
        ordered = values[order]
        steps = np.empty(len(values), np.int32)
        steps[:1] = 0
        steps[1:] = ordered[1:] != ordered[:-1]
        np.cumsum(steps, out=steps)
        self.ranks[j, order] = steps
        self.levels[j] = steps[-1] + 1 if len(steps) else 0

    def sign_sums(self, target, columns):
        """``K`` between the target column and each of `columns`: a list of Python integers."""
        levels = int(self.levels[target])
        order = np.empty(self.ranks.shape[1], np.int32)
        starts = np.empty(levels + 1, np.int64)
        _kernels.sort_by_rank(self.ranks[target], levels, order, starts)

        def work(part):
            return [int(_kernels.sign_sum(self.ranks[j], int(self.levels[j]), order, starts)) for j in part]

        return _in_parts(work, list(columns))


def _in_parts(work, items):
    """``work(items)`` in threads, for a `work` that maps lists to lists of equal length."""
    parts = [items[i::WORKERS] for i in range(min(WORKERS, len(items)))]
    out = [None] * len(items)
    for i, results in enumerate(in_threads([functools.partial(work, part) for part in parts])):
        out[i::WORKERS] = results
    return out


def rank_columns(blocks, columns):
    """Dense ranks of columns of the design and, last, of the response.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Re-iterable, with the attribute `in_memory`; Y of one column.
    columns : sequence of int

    Returns
    -------
    Ranks
        Of ``len(columns) + 1`` columns, four bytes an entry. Of blocks that are read from a file, as many
        columns are held as doubles at a time as make half a gigabyte, so wide designs take several passes.
    """
    columns = np.asarray(columns, dtype=np.intp)
    c = len(columns)
    parts = [Y[:, 0].copy() for _, Y in blocks]
    response = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0), *parts])
    n = len(response)
    out = Ranks.empty(c + 1, n)
    out.put(c, response)
    width = c if blocks.in_memory else max(WORKERS, _SLAB // max(n, 1))
    for start in range(0, c, max(width, 1)):
        slab = columns[start : start + width]
        if blocks.in_memory:
            X, index = next(iter(blocks))[0], slab
        else:
            X = np.concatenate([np.empty((0, len(slab))), *(X[:, slab] for X, _ in blocks)])
            index = np.arange(len(slab))

        def work(part, X=X, index=index, start=start):
            return [out.put(start + i, X[:, index[i]]) for i in part]

        _in_parts(work, list(range(len(slab))))
    return out


def choose_terms(ranks, terms, k, step, neighbours, rng):
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
    relevance = dict(zip(columns, map(abs, ranks.sign_sums(len(ranks.levels) - 1, columns)), strict=True))
    redundancy = dict.fromkeys(columns, 0)
    left = list(range(len(terms)))
    chosen = []
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
