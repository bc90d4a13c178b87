"""Data sets whose records lie on few points, and what one edit makes of them: proofs by brute force."""

import functools

import numpy as np

__all__ = ["data_sets", "neighbours"]


@functools.cache
def neighbours(points, D):
    """One record replaced, or, for a record that becomes or ceases to be unusable, removed or added.

    Parameters
    ----------
    points : tuple of tuples
        What a record may be.
    D : tuple of these, sorted

    Returns
    -------
    set
    """
    out = {tuple(sorted((*D, p))) for p in points}
    for i in range(len(D)):
        rest = D[:i] + D[i + 1 :]
        out |= {rest} | {tuple(sorted((*rest, p))) for p in points}
    return out - {D}


def data_sets(points, count, sizes, seed):
    """So many random data sets, of records on some of the points."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        some = rng.choice(len(points), size=rng.integers(2, len(points) + 1), replace=False)
        yield tuple(sorted(points[i] for i in rng.choice(some, rng.choice(sizes))))
