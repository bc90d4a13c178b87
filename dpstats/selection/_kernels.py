"""Compiled counting of concordant minus discordant pairs."""

import numpy as np
from numba import njit

__all__ = ["sign_sum", "sort_by_rank"]


@njit(cache=True, nogil=True)
def sort_by_rank(ranks, levels, order, starts):
    """Counting sort of rows by their dense ranks.

    Parameters
    ----------
    ranks : (n,) int32 array
        In ``[0, levels)``.
    levels : int
    order : (n,) int32 array
        Filled with the rows in order of rank.
    starts : (levels + 1,) int64 array
        Filled with where each rank's rows start in `order`.
    """
    starts[:] = 0
    for i in range(len(ranks)):
        starts[ranks[i] + 1] += 1
    for r in range(levels):
        starts[r + 1] += starts[r]
    place = starts[:levels].copy()
    for i in range(len(ranks)):
        order[place[ranks[i]]] = i
        place[ranks[i]] += 1


@njit(cache=True, nogil=True)
def sign_sum(ranks, levels, order, starts):
    """``sum over i < j of sign(x_i - x_j) sign(t_i - t_j)``, exactly; a tied pair adds 0.

    The rows are met in the order of ``t``, those tied in ``t`` together: each asks a Fenwick tree over the ranks
    of ``x`` how many rows of smaller ``t`` lie below and above it. ``O(n log levels)``.

    Parameters
    ----------
    ranks : (n,) int32 array
        Dense ranks of ``x``.
    levels : int
        Number of distinct values of ``x``.
    order, starts
        From :func:`sort_by_rank` of ``t``.

    Returns
    -------
    int
    """
    tree = np.zeros(levels + 1, np.int32)
    ties = np.zeros(levels, np.int32)
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
            while node <= levels:
                tree[node] += 1
                node += node & -node
    return total
