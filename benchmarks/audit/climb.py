"""Hill climbing on a ratio: what a target of the search is, and how it is searched."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from audit.extremes import Box, Tables
from audit.harness import Broken

__all__ = ["Found", "Target", "climb"]

_STARTS = 8
"""Starting points, of which the best is climbed from."""
_PATIENCE = 30
"""Changes in a row that are no better before starting anew."""


@dataclass(frozen=True)
class Target:
    """A mechanism, and the ratio that must not exceed 1.

    Attributes
    ----------
    name : str
        Module and function, or the public function.
    neighbours : str
    ratio : str
        What is divided by what it must not exceed.
    space : Tables or Box
        The neighbours that there are.
    opened : callable
        ``opened()`` is a context manager that yields ``ratio(neighbours)``. It is entered within the broken
        variant's changes.
    broken : harness.Broken
    evaluations : int
        Ratios computed in the full search.
    quick : int
        The same in the quick search.
    """

    name: str
    neighbours: str
    ratio: str
    space: Tables | Box
    opened: Callable
    broken: Broken
    evaluations: int = 1_500
    quick: int = 60


@dataclass(frozen=True)
class Found:
    """The largest ratio, the neighbours that have it, the evaluations made and the one at which 1 was
    exceeded first."""

    ratio: float
    at: object
    evaluations: int
    exceeded: int | None


def climb(target, evaluations, seed, limit, stop=False):
    """Search for neighbours with a large ratio.

    Parameters
    ----------
    target : Target
    evaluations : int
    seed : int
        With the target's name it decides everything.
    limit : float
        What no ratio should exceed.
    stop : bool
        Whether to end there.

    Returns
    -------
    Found
    """
    g = np.random.default_rng([seed, zlib.crc32(f"{target.name}, {target.neighbours}".encode())])
    best, at, used, exceeded = -np.inf, None, 0, None
    with target.opened() as ratio, np.errstate(all="ignore"):

        def tried(state):
            nonlocal best, at, used, exceeded
            value = ratio(state)
            used += 1
            if value > best:
                best, at = value, state
            if exceeded is None and value > limit:
                exceeded = used
            return value

        def over():
            return used >= evaluations or (stop and exceeded is not None)

        while not over():
            state, value = None, -np.inf
            for _ in range(_STARTS):
                start = target.space.start(g)
                found = tried(start)
                if found > value or state is None:
                    state, value = start, found
                if over():
                    break
            stale = 0
            while stale < _PATIENCE and not over():
                changed = target.space.change(g, state)
                found = tried(changed)
                stale = 0 if found > value else stale + 1
                if found >= value:
                    state, value = changed, found
    return Found(float(best), at, used, exceeded)
