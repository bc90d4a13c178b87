"""The size of a column's values, a power of two, and the lattice of numbers that goes with it.

Half of all doubles lie between -1 and 1, and nearly all of these nearer to 0 than any datum: a mechanism that
draws among doubles prefers the gap between data that has 0 in it. On the lattice of a size the numbers below
it are equally far apart, as subnormal doubles are, and 0 is a number like others.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.mechanisms.rng import Randomness

__all__ = ["LARGEST", "SizedLattice", "log_weights", "release_size", "scores", "sizes"]

LARGEST = 2.0**128
"""Without bounds an answer is this far from 0 at most: 3.4e38, the end of single precision."""
_LEAST = 126
"""The least size is 2^-126, 1e-38, the other end of single precision; with bounds below 1 it is so much less
than these."""
_NORMAL = -1022
"""Exponent of the smallest normal double."""
_SIZES = np.arange(-80, 81, 4)
"""Exponents of the other sizes: 2^-80 to 2^80, about 1e-24 to 1e24, by factors of 16."""
_LEAN = 0.25
"""By so much the log-weight of each of these is below that of the next smaller one, before scores."""
_PRIOR = 100.0
"""The least size weighs so many times as much as the next one. Where rows do not suffice it is drawn, which
does no harm; sizes larger than values of about 1, which may be 0 on such lattices, have 3 draws in 10,000."""


def sizes(largest: float = LARGEST) -> Integers:
    """The exponents to draw from, ascending, for answers of at most `largest`, a public number.

    Examples
    --------
    >>> sizes()[[0, 1, 2, -1]].tolist()
    [-126, -80, -76, 80]
    >>> sizes(1.0)[-1].item(), sizes(1e-30).tolist()
    (0, [-226])
    """
    end = math.frexp(largest)[1] - 1
    return np.append(max(min(end, 0) - _LEAST, _NORMAL), _SIZES[end >= _SIZES])


def scores(x: Floats, exponents: Integers) -> Floats:
    """Score of every size, for sorted data: minus its distance in rows from the median of absolute values.

    A size is scored for all values from it to the next one; the least for all below, the last for all above.
    """
    edges = np.ldexp(1.0, exponents[1:])
    below = np.searchsorted(x, edges, side="left") - np.searchsorted(x, -edges, side="right")
    off = np.concatenate([[0], below, [len(x)]]) - len(x) / 2
    return -np.maximum(np.maximum(off[:-1], -off[1:]), 0.0)


def log_weights(x: Floats, exponents: Integers, eps: float) -> Floats:
    """Log of the unnormalised probability of every size."""
    prior = -_LEAN * np.arange(-1.0, len(exponents) - 1)
    prior[0] = math.log(_PRIOR)
    # eps / (2 sensitivity), and the sensitivity is one half
    return eps * scores(x, exponents) + prior


def release_size(x: Floats, eps: float, rng: Randomness, largest: float = LARGEST) -> int:
    """Draw the exponent of the size of some values.

    Parameters
    ----------
    x : (n,) array
        Finite, sorted; may be empty.
    eps : float
        Budget.
    rng : Randomness
    largest : float, optional
        The largest absolute value of an answer, public.

    Returns
    -------
    int

    Notes
    -----
    **Privacy.** Pure `eps`-DP, and `eps`-bounded-range, neighbours: one record added or removed. With ``G(t)
    = #{abs(x) < t} - n/2`` the score of a size is minus the distance of 0 from ``[G(size), G(next size)]``.
    A record more moves the count by 0 or 1 and `n/2` by 1/2, so ``G`` and the score move by at most 1/2, and
    the draw is by ``exp(eps score)`` times weights that are public. Argument: ``docs/privacy/quantile.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.mechanisms.rng import Randomness
    >>> release_size(np.linspace(-5, 5, 1001), 1.0, Randomness(1))  # their median is 2.5, between 1 and 16
    0
    """
    exponents = sizes(largest)
    weights = log_weights(x, exponents, eps)
    return int(exponents[int(np.argmax(weights + rng.gumbel(len(weights))))])


@dataclass(frozen=True)
class SizedLattice:
    """The lattice of doubles shifted so that a size is its smallest normal number.

    From the size on the numbers are doubles; below it they are multiples of 2^-52 times the size. Mechanisms
    for doubles run on ``shrunk`` values, unchanged, and their answers are ``grown`` again.

    Parameters
    ----------
    exponent : int
        Of the size, released or public.
    bounds : (float, float)
        Of the answers, public.

    Examples
    --------
    >>> lattice = SizedLattice(0, (-10.0, 10.0))
    >>> lattice.shrunk(np.array([1.0, 2.0**-52, 2.0**-54])).tolist() == [2.0**-1022, 5e-324, 0.0]
    True
    >>> lattice.grown(lattice.shrunk(np.array([3.7, 10.0, -11.0]))).tolist()
    [3.7, 10.0, -10.0]
    """

    exponent: int
    bounds: tuple[float, float]

    def shrunk(self, x: Floats) -> Floats:
        """Values on the lattice, as doubles: each is rounded by itself, and their order is kept."""
        return np.asarray(np.ldexp(x, _NORMAL - self.exponent), float)

    @functools.cached_property
    def ends(self) -> tuple[float, float]:
        """The bounds, shrunk."""
        low, high = self.shrunk(np.array(self.bounds)).tolist()
        return low, high

    def grown(self, shrunk: Floats) -> Floats:
        """Answers in the units of the data; at an end they are the bound, with all its digits."""
        low, high = self.bounds
        inside = np.clip(np.ldexp(shrunk, self.exponent - _NORMAL), low, high)
        return np.where(shrunk <= self.ends[0], low, np.where(shrunk >= self.ends[1], high, inside))
