"""Compiled counting of pairs of rows by the signs of their differences."""

import numpy as np

from dpstats._jit import kernel

__all__ = ["count_patterns", "sign_sum", "sort_by_rank"]


@kernel
def sort_by_rank(ranks, distinct, order, starts):
    """Counting sort of rows by their dense ranks.

    Parameters
    ----------
    ranks : (n,) int32 array
        In ``[0, distinct)``.
    distinct : int
        Number of distinct ranks.
    order : (n,) int32 array
        Filled with the rows in order of rank.
    starts : (distinct + 1,) int64 array
        Filled with where each rank's rows start in `order`.
    """
    starts[:] = 0
    for i in range(len(ranks)):
        starts[ranks[i] + 1] += 1
    for r in range(distinct):
        starts[r + 1] += starts[r]
    place = starts[:distinct].copy()
    for i in range(len(ranks)):
        order[place[ranks[i]]] = i
        place[ranks[i]] += 1


@kernel
def sign_sum(ranks, distinct, order, starts):
    """``sum over i < j of sign(x_i - x_j) sign(t_i - t_j)``, exactly; a tied pair adds 0.

    The rows are met in the order of ``t``, those tied in ``t`` together: each asks a Fenwick tree over the
    ranks of ``x`` how many rows of smaller ``t`` lie below and above it. ``O(n log distinct)``.

    Parameters
    ----------
    ranks : (n,) int32 array
        Dense ranks of ``x``.
    distinct : int
        Number of distinct values of ``x``.
    order, starts
        From :func:`sort_by_rank` of ``t``.

    Returns
    -------
    int
    """
    tree = np.zeros(distinct + 1, np.int32)
    ties = np.zeros(distinct, np.int32)
    total = np.int64(0)
    for g in range(len(starts) - 1):
        first, last = starts[g], starts[g + 1]
        for i in range(first, last):
            r = ranks[order[i]]
            below = np.int64(0)
            node = r
            while node > 0:
                below += tree[node]
                node &= node - 1
            total += 2 * below + ties[r] - first
        for i in range(first, last):
            r = ranks[order[i]]
            ties[r] += 1
            node = r + 1
            while node <= distinct:
                tree[node] += 1
                node += node & -node
    return total


@kernel
def count_patterns(values, reach, sets, tables):
    """How often every pattern of signs occurs among the pairs of rows at most `reach` apart, for sets of
    columns.

    A pair is turned so that the response does not fall from its first row to its second. Its pattern in a set
    of ``k`` columns is a number of ``k`` digits to the base 3, the signs of the differences plus 1.

    Parameters
    ----------
    values : (c + 1, n) float array
        Columns and, last, the response.
    reach : int
    sets : (m, k) int array
        Columns of each set. Sets that begin alike share work if they follow each other.
    tables : (m, 2 * 3**k) int64 array
        Counts are added: of pairs whose response rises, then of those where it is tied.
    """
    columns, n = values.shape
    k = sets.shape[1]
    rows = 2048
    turn = np.empty(rows * reach, np.int8)
    digits = np.empty((columns - 1, rows * reach), np.int8)
    codes = np.empty((k, rows * reach), np.int16)
    for start in range(0, n - 1, rows):
        end = min(start + rows, n - 1)
        pairs = 0
        for i in range(start, end):
            for j in range(i + 1, min(i + reach, n - 1) + 1):
                first, second = values[-1, i], values[-1, j]
                turn[pairs] = -1 if second < first else 1
                codes[0, pairs] = 1 if second == first else 0
                pairs += 1
        for c in range(columns - 1):
            p = 0
            for i in range(start, end):
                x = values[c, i]
                for j in range(i + 1, min(i + reach, n - 1) + 1):
                    z = values[c, j]
                    sign = (1 if z > x else 0) - (1 if z < x else 0)
                    digits[c, p] = 1 + turn[p] * sign
                    p += 1
        for s in range(len(sets)):
            depth = 0
            while s > 0 and depth < k - 1 and sets[s, depth] == sets[s - 1, depth]:
                depth += 1
            for place in range(depth, k - 1):
                c = sets[s, place]
                for p in range(pairs):
                    codes[place + 1, p] = codes[place, p] * 3 + digits[c, p]
            c = sets[s, k - 1]
            for p in range(pairs):
                tables[s, codes[k - 1, p] * 3 + digits[c, p]] += 1
