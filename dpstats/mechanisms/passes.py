"""Sums over the rows: ``state = zero(); update(state, piece) ...; merge by addition``."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

__all__ = ["Arrays", "sum_rows"]

_LEAST_ROWS = 32_768


class Arrays:
    """Design matrix and response held in memory, as a source of one block.

    Parameters
    ----------
    X : (n, d) float array
        Finite.
    Y : (n, r) float array
        Finite.
    """

    in_memory = True

    def __init__(self, X, Y):
        self.X = np.ascontiguousarray(X, dtype=float)
        self.Y = np.ascontiguousarray(Y, dtype=float).reshape(len(self.X), -1)

    def __iter__(self):
        yield self.X, self.Y


def sum_rows(blocks, zero, update):
    """Fold `update` over the rows of `blocks`, in threads, and add up the states.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Pairs of C-contiguous float arrays with the same number of rows.
    zero : callable
        Returns a fresh state: an array, a tuple of arrays, or anything with ``+=``.
    update : callable
        ``update(state, X, Y, first)`` adds a piece's rows to the state in place; `first` is the index
        of the piece's first row within its block. It should release the GIL.

    Returns
    -------
    The sum of all states. Integer arrays are exact; float arrays agree to rounding whatever the pieces.
    """
    workers = os.cpu_count() or 1
    states = [zero()]
    for X, Y in blocks:
        n = len(X)
        pieces = max(1, min(workers, n // _LEAST_ROWS))
        while len(states) < pieces:
            states.append(zero())
        cuts = [n * i // pieces for i in range(pieces + 1)]
        if pieces == 1:
            update(states[0], X, Y, 0)
            continue
        with ThreadPoolExecutor(pieces) as pool:
            jobs = [
                pool.submit(update, states[i], X[a:b], Y[a:b], a)
                for i, (a, b) in enumerate(zip(cuts, cuts[1:], strict=False))
            ]
            for job in jobs:
                job.result()
    total = states[0]
    for other in states[1:]:
        if isinstance(total, tuple):
            total = tuple(a + b for a, b in zip(total, other, strict=True))
        else:
            total += other
    return total
