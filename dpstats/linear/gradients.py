"""Sums of shortened products at one point after another, without a visit to every row each time."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.engines.local import Block, Mapped, Rows, fold, gather, partitions_of
from dpstats.engines.partitions import Partitions
from dpstats.linear import score_kernels as kernels
from dpstats.mechanisms.sums import from_whole, sum_bounded, units_of

__all__ = ["Gradients"]

_AHEAD = 3.0
"""A reference is to serve points within this multiple of the last step."""
_FEWEST_ROWS = 32_768
"""Fewer rows than these are passed over as fast as it takes to avoid it."""
_PASSES = 3
"""To make a reference takes about as long as so many passes."""
_PROBED = 2048
"""So many rows of the first block, evenly spaced, tell how many are near the limit."""
_MOST_NEAR = 0.3
"""No reference is made if more than this share of rows is near the limit."""
_MOST_KEPT = 2**17
"""Of a file, so many rows are kept in memory at most."""
_MOST_NUMBERS = 2**27
_SQUARES = 2.0**-500, 2.0**500
"""No reference is made where squared norms are so small or large that they have no units."""
_MOST_ROUNDING = 2.0**13
"""No reference is made of more numbers (rows times k), or with a reach for which ``k (1 + 2 |u| m / clip)``,
``m`` the smaller of ``radius^2`` and ``clip / reach``, is larger: the rounding errors of all rows together
would show which way a sum was taken (``docs/privacy/boosted_adassp.md``)."""


class Gradients:
    """The sums ``g(u) = sum_i clip(v_i (y_i - u'v_i))`` of products shortened to a norm, at many ``u``.

    While ``u`` stays within some reach of a reference point, most rows' products stay within that norm, or
    beyond it on one side. What those rows add is an affine function of ``u``, known from two sums; only the
    others, which are kept apart, are visited. A reference is made when the steps have become short enough.

    Parameters
    ----------
    rows : iterable of (V, Y)
        Finite covariates (n, k) and one response (n, 1); re-iterable, with the attribute ``in_memory``.
    radius : float
        No row of V is longer.
    last : (k,) array, optional
        The point before the first: how far they are apart tells how far the next may be.
    count : float
        About how many rows there are, if that is released: with too many no reference is tried.

    Notes
    -----
    **Privacy.** This is no mechanism: it computes what a pass over the rows computes, to rounding. Which rows
    are visited, and when references are made, shows in the time, and in how many passes there are, which
    nobody may be told. That a row adds at most `clip`, as computed, is argued in
    ``docs/privacy/boosted_adassp.md``.

    Examples
    --------
    >>> sums = Gradients(Rows(np.array([[1.0], [2.0]]), np.array([3.0, 9.0])), 2.0)
    >>> sums.at(np.array([2.0]), 4.0)
    array([5.])
    """

    def __init__(
        self, rows: Mapped | Rows, radius: float = math.inf, last: Floats | None = None, count: float = 0.0
    ) -> None:
        self._rows = rows
        self._radius = radius
        self._last = last
        self._count = count
        self._reference: _Reference | None = None
        self._visited = 0
        self._farthest = math.inf
        self._partitions = 1
        self._compiled = False

    def at(self, u: Floats, clip: float) -> Floats:
        """The sum at `u`, shape ``(k,)``."""
        if not self._compiled:
            self._compiled = True
            # compiled, and stored, whether or not the rows ask for a reference
            _split(np.zeros((0, len(u))), np.zeros((0, 1)), u, 1.0, 1.0, 1.0, 1.0)
        reach = math.inf
        if self._last is not None:
            reach = self._precise(u, clip, _AHEAD * float(np.linalg.norm(u - self._last)))
        if self._outdated(u, clip, reach):
            self._reference = self._settle(u, clip, reach)
            self._visited = 0
        self._last = u
        if self._reference is None:
            return _sum(self._rows, u, clip)
        self._visited += len(self._reference.near.X)
        return self._reference.at(u)

    def _outdated(self, u: Floats, clip: float, reach: float) -> bool:
        reference = self._reference
        if reference is None or not reference.serves(u, clip):
            return True
        # as much has been spent on a reference with too long a reach as a new one costs
        return 4 * reach < reference.reach and self._visited > _PASSES * reference.rows

    def _settle(self, u: Floats, clip: float, reach: float) -> "_Reference | None":
        """A reference at `u`, or None where it would not pay."""
        if not 0 < reach <= self._farthest or reach == math.inf or self._count * len(u) > _MOST_NUMBERS:
            return None
        # a row whose product stays within the clip has |v|^2 reach <= clip
        square = min(self._radius**2, clip / reach)
        if not _SQUARES[0] < square < _SQUARES[1]:
            return None
        units = units_of(clip), units_of(square)
        limits = u, clip, reach, *units
        partitions = partitions_of(self._rows)
        if partitions is not None:
            # rows that are near would be added up here and not there, where another processor may round long
            # ones in another way
            return self._settle_there(partitions, limits) if self._short(u, clip, reach) else None
        V, Y = next(iter(self._rows))
        if len(V) < _FEWEST_ROWS:
            return None
        every = len(V) // _PROBED
        *_, near = _split(np.ascontiguousarray(V[::every]), np.ascontiguousarray(Y[::every]), *limits)
        if np.mean(near) > _MOST_NEAR:
            return None
        k, rows, count, kept = len(u), 0, 0, []
        gradient, gram = np.zeros((2, k), np.int64), np.zeros((2, k, k), np.int64)
        for V, Y in self._rows:
            part, squares, near = _split(V, Y, *limits)
            gradient, gram = gradient + part, gram + squares
            index = np.flatnonzero(near)
            rows, count = rows + len(V), count + len(index)
            if rows * k > _MOST_NUMBERS:
                self._farthest = -math.inf
                return None
            if count > _MOST_KEPT and not self._rows.in_memory:
                self._farthest = reach / 2
                return None
            kept.append((V.take(index, axis=0), Y.take(index, axis=0)))
        return _Reference(
            u,
            clip,
            reach,
            from_whole(gradient, units[0]),
            from_whole(gram, units[1]),
            Rows(*gather(kept)),
            rows,
        )

    def _settle_there(
        self, partitions: Partitions, limits: tuple[Floats, float, float, float, float]
    ) -> "_Reference | None":
        """A reference from rows on the workers of a cluster; those near the clip come here."""
        u, clip, reach, *units = limits
        k, share = len(u), _MOST_KEPT // max(self._partitions, 1)

        def work(blocks: Iterable[Block], index: int) -> tuple[Integers, Integers, Block | None, int]:
            V, Y = gather(blocks)
            part, squares, near = _split(V, Y, *limits)
            few = np.flatnonzero(near)
            return part, squares, (V[few], Y[few]) if len(few) <= share else None, len(V)

        parts = partitions.run(work)
        self._partitions = len(parts)
        rows, kept = sum(part[3] for part in parts), [part[2] for part in parts if part[2] is not None]
        if rows * k > _MOST_NUMBERS:
            self._farthest = -math.inf
            return None
        if len(kept) < len(parts):
            self._farthest = reach / 2
            return None
        gradient, gram = sum(part[0] for part in parts), sum(part[1] for part in parts)
        sums = from_whole(np.asarray(gradient), units[0]), from_whole(np.asarray(gram), units[1])
        return _Reference(u, clip, reach, *sums, Rows(*gather(kept)), rows)

    def _precise(self, u: Floats, clip: float, reach: float) -> float:
        """`reach`, or as much more as rounding asks for: infinity where no reach is long enough."""
        if self._short(u, clip, reach):
            return reach
        # |u| + reach, times clip / reach
        most = (_MOST_ROUNDING / len(u) - 1) / 2
        return max(reach, float(np.linalg.norm(u)) / (most - 1)) if most > 1 else math.inf

    def _short(self, u: Floats, clip: float, reach: float) -> bool:
        """Whether rows are so short that rounding allows any reach up to this one, for all of them."""
        most = (_MOST_ROUNDING / len(u) - 1) / 2
        return bool((np.linalg.norm(u) + reach) * self._radius**2 <= most * clip)


@dataclass(frozen=True)
class _Reference:
    """What is known about the sum around a point."""

    u: Floats
    clip: float
    reach: float
    gradient: Floats
    """Sum at `u` over the rows that are not near the clip, (k,)."""
    gram: Floats
    """``sum v v'`` over the rows whose products stay within the clip, (k, k)."""
    near: Rows
    """The rows near the clip."""
    rows: int
    """All rows."""

    def serves(self, u: Floats, clip: float) -> bool:
        return clip == self.clip and float(np.linalg.norm(u - self.u)) <= self.reach

    def at(self, u: Floats) -> Floats:
        return self.gradient - self.gram @ (u - self.u) + _sum(self.near, u, self.clip)


def _sum(rows: Mapped | Rows, u: Floats, clip: float) -> Floats:
    units = units_of(clip)

    def update(state: Integers, V: Floats, Y: Floats, first: int) -> None:
        kernels.product_gradient(V, Y, u, math.inf, clip, units, state)

    return sum_bounded(rows, (len(u),), units, update)


def _split(
    V: Floats, Y: Floats, u: Floats, clip: float, reach: float, units: float, squares: float
) -> tuple[Integers, Integers, Booleans]:
    """Sum and Gram matrix of the rows not near the clip, as whole numbers, and which are near."""
    near = np.zeros(len(V), dtype=bool)
    k = len(u)

    def zero() -> tuple[Integers, Integers]:
        return np.zeros((2, k), np.int64), np.zeros((2, k, k), np.int64)

    def update(state: tuple[Integers, Integers], V: Floats, Y: Floats, first: int) -> None:
        kernels.settled_gradient(V, Y, u, clip, reach, units, squares, *state, near[first : first + len(V)])

    return *fold([(V, Y)], zero, update), near
