r"""Tails of products of a score and of values, as released counts by half-octave show them.

The counts of one sign are compared with a family of tails, those of Weibull laws alone and mixed with a far
component; a posterior over the family says how much may lie beyond a clip.
"""

import functools
import itertools
from dataclasses import dataclass

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.engines.memory import empty

__all__ = ["CLIPS", "EDGES", "GRID", "MISFIT", "ODDS", "PRODUCTS", "TAIL", "Family", "Tail", "squares_beyond"]

EDGES = np.array([-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22])
"""Cells of products, in half-octaves about their typical size; the first and the last are open."""
TAIL = 4
"""The first of the cells that are fitted."""
GRID = 2.0 ** (np.arange(97) / 8)
CLIPS = np.arange(8, 73, 4)
"""Clips that are tried: twice the typical size and more, by half-octaves; indices of the grid."""
_INDICES = 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0
_FAR_SHARES = 0.01, 0.03, 0.1, 0.3
MISFIT = 0.2
"""No tail of the family fits cells better than within a fifth."""
ODDS = 7.0
"""Prior odds that both signs have the same rows, and that they have one tail whatever their rows."""
_LAST, _LAST_SEEN = 0.05, 1.0
"""Excesses end where so many rows are expected, as one table in twenty has one there, and shares of the rows
where a table has one: with squares of what is farther out, intervals would be too wide however large eps."""
_NO_WEIGHT = 1e-6
"""Pairs of tails with less of the posterior are left out."""


@dataclass(frozen=True)
class Family:
    """Tails that may be: Weibull laws alone, and mixed with a far component.

    Attributes
    ----------
    edges : tuple of int
        Lower edges of the cells that are fitted, in half-octaves above that of the first; the last is open.
    shapes : tuple of (float, float, tuple of float)
        Shapes, their prior weights with each index, and the tail indices at the first edge.
    far : tuple of (float, float, tuple of float)
        Likewise of far components, weights with all indices together.
    """

    edges: tuple[int, ...]
    shapes: tuple[tuple[float, float, tuple[float, ...]], ...]
    far: tuple[tuple[float, float, tuple[float, ...]], ...]


PRODUCTS = Family(
    tuple(int(edge - EDGES[TAIL - 1]) for edge in EDGES[TAIL - 1 :]),
    tuple((shape, weight, _INDICES) for shape, weight in
          ((0.2, 0.05), (0.5, 0.15), (1.0, 0.3), (1.5, 0.3), (2.0, 0.2))),
    ((1.0, 0.06, (0.03, 0.1, 0.3)), (0.25, 0.01, (0.4, 0.8, 1.6))),
)  # fmt: skip
"""Of products of a score, at their typical size: exponential far components have 6 % of the prior, long ones
1 %."""


@dataclass(frozen=True)
class Tail:
    """The posterior of one sign's tail, in units of the lower edge of the first cell.

    Attributes
    ----------
    weights : (models,) array
    excesses : (models, clips) array
        Mean excess over every clip.
    held : (grid, models) array
        Share of the rows beyond every size, as far as a table has one there.
    prior : (models,) array
        Logarithms of the prior weights.
    """

    weights: Floats
    excesses: Floats
    held: Floats
    prior: Floats

    @classmethod
    def of(
        cls,
        counts: Floats,
        sd: float,
        count: float,
        misfit: float | Floats = MISFIT,
        family: Family = PRODUCTS,
    ) -> "Tail":
        """The posterior from released counts by cell, which no tail fits better than within `misfit`."""
        survival, cells, prior = _tails(family)
        rows = np.full(len(prior), max(float(counts.sum()), sd))
        # (in the same memory: on some systems new pages take longer than the arithmetic)
        expected, variance, weighted = (empty(*cells.shape) for _ in range(3))
        unlike = np.broadcast_to(np.square(misfit), len(cells))[:, None]
        for _ in range(3):
            np.multiply(rows, cells, out=expected)
            np.multiply(unlike, expected, out=variance)
            variance += 1.0
            variance *= expected
            variance += sd**2
            np.divide(cells, variance, out=weighted)
            # (BLAS would start threads for it, in each of several processes)
            rows = np.einsum("ij,i->j", weighted, counts) / np.einsum("ij,ij->j", weighted, cells)
            rows = np.maximum(rows, sd / 4)
        np.subtract(counts[:, None], np.multiply(rows, cells, out=expected), out=expected)
        expected *= expected
        expected /= variance
        fit = prior - np.sum(expected, axis=0) / 2 - np.sum(np.log(variance, out=variance), axis=0) / 2
        weights = np.exp(fit - fit.max())
        held = np.multiply(rows / count, survival, out=empty(*survival.shape))
        held[held < _LAST / count] = 0.0
        excesses, widths = empty(len(CLIPS), len(prior)), np.diff(GRID)[:, None] / 2
        # (clip by clip: new pages for all areas would take longer than the arithmetic)
        for i, (first, last) in enumerate(zip(CLIPS, [*CLIPS[1:], len(GRID) - 1], strict=True)):
            part = held[first : last + 1]
            np.add.reduceat((part[1:] + part[:-1]) * widths[first:last], [0], axis=0, out=excesses[i : i + 1])
        np.cumsum(excesses[::-1], axis=0, out=excesses[::-1])
        held[held < _LAST_SEEN / count] = 0.0
        return cls(weights, excesses.T, held, prior)

    @functools.cached_property
    def beyond(self) -> Floats:
        """Median share of the rows beyond every size, (grid,)."""
        return _weighted_median(self.held.T, self.weights)

    def median(self) -> Floats:
        """Of the mean excess over every clip, (clips,)."""
        return _weighted_median(self.excesses, self.weights)

    def pairs(self, other: "Tail") -> tuple[Integers, Integers, Floats]:
        """Pairs of tails, of this sign and the other, and their posterior weights, (pairs,) each.

        With prior odds of 7 to 1 both have one tail of the family, whatever their numbers of rows; if not,
        one tells nothing of the other. Pairs with less than a millionth of the posterior are left out.
        """
        here, there, alike = self._with(other)
        least = _NO_WEIGHT * (1 + float(alike.sum()))
        # (no pair has more than either of its tails)
        some, others = np.flatnonzero(here > least), np.flatnonzero(there > least)
        apart = np.outer(here[some], there[others])
        i, j = np.nonzero(apart > least)
        same = np.flatnonzero(alike > least)
        weights = np.append(apart[i, j], alike[same])
        return np.append(some[i], same), np.append(others[j], same), weights / weights.sum()

    def square_differences(self, other: "Tail") -> tuple[Floats, Floats]:
        """Mean square of the difference of the signs' mean excesses over every clip, (clips,): if one tail
        tells nothing of the other, and over the posterior of all :meth:`pairs`."""
        (mean, variance), (other_mean, other_variance) = self.moments(), other.moments()
        apart = (mean - other_mean) ** 2 + variance + other_variance
        alike = self._with(other)[2]
        squares = np.einsum("i,ij->j", alike, (self.excesses - other.excesses) ** 2)
        return apart, (apart + squares) / (1 + float(alike.sum()))

    def _with(self, other: "Tail") -> tuple[Floats, Floats, Floats]:
        """Posterior weights of this tail and the other if they tell nothing of each other, and, as odds to
        that, of both having one tail."""
        prior = np.exp(self.prior)
        here, there = (tail.weights / tail.weights.sum() for tail in (self, other))
        return here, there, ODDS * here * there / (prior / prior.sum())

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of the mean excess over every clip, (clips,)."""
        weights = self.weights / self.weights.sum()
        mean = np.einsum("i,ij->j", weights, self.excesses)
        return mean, np.einsum("i,ij->j", weights, (self.excesses - mean) ** 2)


def squares_beyond(beyond: Floats) -> Floats:
    """What the squares of the rows `beyond` every size, (grid,), have above that of every clip, (clips,)."""
    return np.cumsum(((beyond[1:] + beyond[:-1]) / 2 * np.diff(GRID**2))[::-1])[::-1][CLIPS]


@functools.cache
def _tails(family: Family) -> tuple[Floats, Floats, Floats]:
    """Shares beyond the points of the grid, (grid, models), those in the cells that are fitted, (cells,
    models), and logarithms of the models' prior weights."""
    tails, weights = [], []
    for shape, weight, indices in family.shapes:
        for index in indices:
            near = _weibull(index, shape)
            tails.append(near)
            weights.append(weight * (1 - sum(far_weight for _, far_weight, _ in family.far)))
            for far_shape, far_weight, far_indices in family.far:
                for share, far in itertools.product(_FAR_SHARES, far_indices):
                    tails.append((1 - share) * near + share * _weibull(far, far_shape))
                    weights.append(weight * far_weight / len(_FAR_SHARES) / len(far_indices))
    survival = np.array(tails)
    at = 4 * np.array(family.edges)
    cells = survival[:, at] - np.append(survival[:, at[1:]], np.zeros((len(tails), 1)), axis=1)
    return np.ascontiguousarray(survival.T), np.ascontiguousarray(cells.T), np.log(weights)


def _weibull(index: float, shape: float) -> Floats:
    """The tail from 1 on with the tail index `index` there."""
    return np.exp(-np.minimum(index / shape * (GRID**shape - 1), 700.0))


def _weighted_median(values: Floats, weights: Floats) -> Floats:
    """The median of every column of numbers that are not negative."""
    columns, half = np.ascontiguousarray(values.T), weights.sum() / 2
    medians = np.zeros(len(columns))
    # most columns are mostly 0, and need no order
    left = np.flatnonzero(np.einsum("ij,j->i", columns == 0.0, weights) < half)
    for i in left:
        order = np.argsort(columns[i])
        medians[i] = columns[i, order[np.searchsorted(np.cumsum(weights[order]), half)]]
    return medians
