"""Private choice of terms by votes of the Lasso on random subsets of rows (Kifer, Smith & Thakurta 2012)."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dpstats._quiet import quiet
from dpstats._types import Booleans, Floats, Integers
from dpstats.engines.local import Block, count_rows, sample
from dpstats.mechanisms import _kernels
from dpstats.mechanisms.noise import discrete_laplace
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.rounds import choose

__all__ = ["choose_terms", "need_sklearn", "votes"]

_ROWS = 10
"""Least rows a subset, or twice the number of terms to choose."""
_MOST_SUBSETS = 5000
_MOST_ROWS = 400
"""Rows are thinned at random to fewer than twice as many a subset."""
_PENALTY = 0.1
"""The Lasso's penalty, as a share of the least penalty that leaves no column."""
_ITERATIONS = 1000
_TOLERANCE = 1e-3


def need_sklearn() -> Any:
    """Import scikit-learn's Lasso and return it, or raise an ImportError that says what to install."""
    try:
        from sklearn.linear_model import Lasso
    except ImportError:
        raise ImportError(
            "method='sub_lasso' needs scikit-learn, which comes with: pip install 'dpstats[selection]'"
        ) from None
    return Lasso


def choose_terms(
    blocks: Iterable[Block],
    terms: Sequence[Sequence[int]],
    k: int,
    eps_count: float,
    step: float,
    rng: Randomness,
) -> list[int]:
    """SubLasso: a vote of random subsets, and `k` rounds of the exponential mechanism on the counts.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Re-iterable; Y of one column.
    terms : sequence of sequence of int
        Columns of X of each candidate term.
    k : int
    eps_count : float
        Budget of the number of rows, from which that of subsets follows.
    step : float
        Budget of a round (:func:`~dpstats.mechanisms.rounds.per_round`).
    rng : Randomness

    Returns
    -------
    list of int
        The chosen terms in order of choice.

    Notes
    -----
    **Privacy.** The count is `eps_count`-DP. Every row draws its subset by itself, so neighbours, under
    either relation, differ in one subset, and every term's count of votes by at most 1: its changes lie in an
    interval of width 2, and each round is `step`-bounded-range. Proof: ``docs/privacy/selection.md``.
    """
    count = discrete_laplace(count_rows(blocks), eps_count, rng)
    m = int(min(max(count / max(_ROWS, 2 * k), 1), _MOST_SUBSETS))
    halvings = max(int(math.log2(max(count, 1) / (m * _MOST_ROWS))), 0)
    counts = _count_votes(sample(blocks, halvings, rng), terms, k, m, rng)
    left = list(range(len(terms)))
    return [left.pop(choose(counts[left], 2.0, step, rng)) for _ in range(k)]


def _count_votes(
    blocks: Iterable[Block], terms: Sequence[Sequence[int]], k: int, m: int, rng: Randomness
) -> Floats:
    columns = [j for term in terms for j in term]
    starts = np.cumsum([0, *map(len, terms)])
    pieces = [(X if X.shape[1] == len(columns) else X[:, columns], Y[:, 0]) for X, Y in blocks]
    pieces = pieces or [(np.empty((0, len(columns))), np.empty(0))]
    X, y = pieces[0] if len(pieces) == 1 else map(np.concatenate, zip(*pieces, strict=True))
    subset = rng.integers(m, len(y))
    order = np.argsort(subset, kind="stable")
    cuts = np.searchsorted(subset[order], np.arange(m + 1))
    counts = np.zeros(len(terms))
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        rows = order[first:last]
        counts += votes(X[rows], y[rows], starts, k)
    return counts


def votes(X: Floats, y: Floats, starts: Integers, k: int) -> Booleans:
    """Which terms a subset of the rows votes for.

    Parameters
    ----------
    X : (n, c) float array
        Finite.
    y : (n,) float array
    starts : (terms + 1,) int array
        Where each term's columns start.
    k : int

    Returns
    -------
    (terms,) bool array
        The at most `k` terms with the largest absolute coefficient, 0 excepted, of the Lasso on standardised
        columns.
    """
    terms = len(starts) - 1
    if len(y) < 2:
        return np.zeros(terms, bool)
    Z, target = _unit(X), _unit(y[:, None])[:, 0]
    penalty = _PENALTY * np.max(np.abs(Z.T @ target)) / len(y)
    if not penalty > 0:
        return np.zeros(terms, bool)
    lasso = need_sklearn()(penalty, fit_intercept=False, max_iter=_ITERATIONS, tol=_TOLERANCE, copy_X=False)
    with quiet():  # whether it converges depends on the data
        size = np.abs(lasso.fit(Z, target).coef_)
    strength = np.maximum.reduceat(size, starts[:-1])
    chosen = np.zeros(terms, bool)
    chosen[np.argsort(-strength, kind="stable")[:k]] = True
    return chosen & (strength > 0)


def _unit(columns: Floats) -> Floats:
    """Columns of mean 0 and mean square 1, or 0 where they are constant."""
    centred = np.clip(columns, -_kernels.CEILING, _kernels.CEILING)
    centred = centred - centred.mean(axis=0)
    # by the largest value first, so that no square underflows
    centred = _divided(centred, np.abs(centred).max(axis=0))
    return np.asfortranarray(_divided(centred, np.sqrt(np.mean(np.square(centred), axis=0))))


def _divided(columns: Floats, norm: Floats) -> Floats:
    return columns / np.where(norm > 0, norm, 1.0)
