"""A lower bound on eps from samples of a mechanism's output on two neighbouring data sets.

One half of the samples chooses an event, the other half bounds its two probabilities (Clopper-Pearson). If
the mechanism keeps its promise, the bound exceeds the promised eps with probability at most `ALPHA`, whatever
the scores are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, norm

from dpstats.privacy.conversions import gdp_eps

__all__ = ["ALPHA", "MEASURES", "Bound", "clopper_pearson", "lower_bound"]

ALPHA = 1e-6
"""Probability with which a bound may be wrong."""
_SYMBOLS = 100
"""Scores with at most so many values are symbols; an event is then any set of them."""
_THRESHOLDS = 400


@dataclass(frozen=True)
class Bound:
    """What the second half of the samples says.

    Attributes
    ----------
    eps : float
        Lower bound, at least 0.
    p, q : float
        Frequency of the event under the data set where it is likelier, and under the other.
    """

    eps: float
    p: float
    q: float


def clopper_pearson(hits, n, alpha=ALPHA):
    """Lower and upper ends of intervals that each fail with probability at most `alpha`, vectorised over
    `hits`."""
    hits = np.asarray(hits, dtype=float)
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, beta.ppf(alpha, hits, n - hits + 1), 0.0)
        high = np.where(hits < n, beta.ppf(1 - alpha, hits + 1, n - hits), 1.0)
    return low, high


def _apart(p_hits, q_hits, n, delta, alpha):
    """The eps for which ``p = e^eps q + delta``, both bounded."""
    p, q = clopper_pearson(p_hits, n, alpha / 2)[0], clopper_pearson(q_hits, n, alpha / 2)[1]
    return np.where(p > delta, np.log(np.maximum(p - delta, 1e-300) / q), -np.inf)


def _gaussian_apart(p_hits, q_hits, n, delta, alpha):
    """The least mu for which an event can have such probabilities."""
    return norm.ppf(clopper_pearson(p_hits, n, alpha / 2)[0]) - norm.ppf(
        clopper_pearson(q_hits, n, alpha / 2)[1]
    )


def _gaussian_together(p_hits, q_hits, n, delta, alpha):
    """The least mu for which so many guesses can be right.

    Who guesses the data set by the event is right with probability at most ``Phi(mu/2)`` on average over
    both. The number of right guesses is a sum of independent trials, no more spread out than a binomial one
    of the same mean (Hoeffding 1956).
    """
    return 2 * norm.ppf(clopper_pearson(p_hits + n - q_hits, 2 * n, alpha)[0])


def _as_eps(strength, delta):
    return max(float(strength), 0.0)


def _from_mu(strength, delta):
    return gdp_eps(float(strength), delta) if strength > 1e-3 else 0.0


MEASURES = {"dp": ((_apart,), _as_eps), "gdp": ((_gaussian_apart, _gaussian_together), _from_mu)}
"""``dp``: (eps, delta)-DP, pure if delta is 0. ``gdp``: mu-GDP for the largest mu that is (eps, delta)-DP."""


def lower_bound(first, second, measure, delta, alpha=ALPHA):
    """Bound eps from below.

    Parameters
    ----------
    first, second : (n,) float arrays
        Scores of independent outputs on either data set: any function of the output. NaN is a value of its
        own.
    measure : {"dp", "gdp"}
    delta : float
    alpha : float

    Returns
    -------
    Bound

    Examples
    --------
    >>> g = np.random.default_rng(0)
    >>> answers = [(g.random(20_000) < p).astype(float) for p in (0.731, 0.269)]
    >>> 0.8 < lower_bound(*answers, "dp", 0.0).eps < 1
    True
    """
    n = len(first) // 2
    rules, convert = MEASURES[measure]
    best = None
    for swap in (False, True):
        p, q = (first[:n], second[:n]) if not swap else (second[:n], first[:n])
        for events in _families(p, q):
            for rule in rules:
                strengths = rule(events.p_hits, events.q_hits, n, delta, alpha)
                at = int(np.argmax(strengths))
                if best is None or strengths[at] > best[0]:
                    best = strengths[at], events.members(at), rule, swap
    _, members, rule, swap = best
    p, q = (first[n : 2 * n], second[n : 2 * n]) if not swap else (second[n : 2 * n], first[n : 2 * n])
    hits = np.count_nonzero(members(p)), np.count_nonzero(members(q))
    return Bound(convert(rule(*hits, n, delta, alpha), delta), hits[0] / n, hits[1] / n)


@dataclass(frozen=True)
class _Events:
    """Many candidates: how often each happened in the first half, and a function from index to membership."""

    p_hits: np.ndarray
    q_hits: np.ndarray
    members: Callable


def _families(p, q):
    """Candidates that may be likelier under `p`: sets of the symbols with the largest ratios, or half-lines
    and NaN."""
    values, inverse = np.unique(np.concatenate([p, q]), return_inverse=True)
    if len(values) <= _SYMBOLS:
        counts = [np.bincount(part, minlength=len(values)) for part in (inverse[: len(p)], inverse[len(p) :])]
        order = np.argsort(-(counts[0] + 0.5) / (counts[1] + 0.5))
        yield _Events(*(np.cumsum(c[order]) for c in counts), lambda at: _among(values[order[: at + 1]]))
        return
    p_sorted, q_sorted = (np.sort(scores[~np.isnan(scores)]) for scores in (p, q))
    pooled = np.sort(np.concatenate([p_sorted, q_sorted]))
    tails = np.geomspace(10 / len(pooled), 1e-3, 30)
    share = np.concatenate([tails, np.linspace(0, 1, _THRESHOLDS + 2)[1:-1], 1 - tails])
    # without interpolation, which infinite scores do not allow
    cuts = np.unique(np.quantile(pooled, share, method="nearest"))
    at_least = (len(part) - np.searchsorted(part, cuts, side="left") for part in (p_sorted, q_sorted))
    yield _Events(*at_least, lambda at: lambda scores: scores >= cuts[at])
    at_most = (np.searchsorted(part, cuts, side="right") for part in (p_sorted, q_sorted))
    yield _Events(*at_most, lambda at: lambda scores: scores <= cuts[at])
    yield _Events(*(np.array([np.count_nonzero(np.isnan(scores))]) for scores in (p, q)), lambda at: np.isnan)


def _among(symbols):
    named = symbols[~np.isnan(symbols)]
    failed = len(named) < len(symbols)
    return lambda scores: np.isin(scores, named) | (np.isnan(scores) & failed)
