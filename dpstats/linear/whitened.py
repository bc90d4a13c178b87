"""Whitened rows: the coordinates in which noisy rounds work, and the rows in them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dpstats._types import Floats
from dpstats.engines.local import Block, Mapped, Source, in_pieces
from dpstats.engines.memory import empty
from dpstats.formula.design import Blocks
from dpstats.linear import score_kernels as kernels
from dpstats.linear.left_out import LeftOut
from dpstats.linear.prepare import Prepared
from dpstats.mechanisms.whiten import Affine, join

__all__ = ["Frame", "Whitened", "whiten"]


@dataclass(frozen=True)
class Frame:
    """Coordinates of the rows; all of it public or released.

    Attributes
    ----------
    affine : Affine
        From the joined row ``(x, y)`` to standardised covariates ``z`` (q of them) and response, in this
        order.
    W : (q, q) array
        ``v = W' z``.
    low, high : (q,) arrays
        Limits of ``z``; infinite where there are none.
    gone : LeftOut
    """

    affine: Affine
    W: Floats
    low: Floats
    high: Floats
    gone: LeftOut = field(default_factory=lambda: LeftOut.nothing(0))

    @classmethod
    def of(cls, prepared: Prepared, winsorized: bool) -> "Frame":
        """The frame of a :class:`~dpstats.linear.prepare.Prepared`, with or without its limits."""
        a = prepared.affine
        low, high = ((limit[a.columns] - a.loc) / a.scale for limit in (prepared.low, prepared.high))
        if not winsorized:
            low, high = np.full(len(a.loc), -np.inf), np.full(len(a.loc), np.inf)
        W = np.ascontiguousarray(prepared.whitening.W)
        return cls(join(a, prepared.response), W, low, high, prepared.gone)

    def rows(self, X: Floats, Y: Floats) -> Block:
        """Those that are not left out."""
        if not self.gone:
            return X, Y
        kept = self.gone.kept(X)
        return X[kept], Y[kept]


class Whitened(Mapped):
    """A source of whitened rows and standardised responses ``(V, Y)``, limited row by row.

    Parameters
    ----------
    blocks : iterable of (X, Y)
    frame : Frame
    radius : float
        Norm to which rows of V are shortened, and their responses by the same factor, so that a linear
        relation stays what it is.
    last : bool
        Whether `blocks` are not needed any more: those of a design in memory are written over.
    """

    def __init__(
        self,
        blocks: Source,
        frame: Frame,
        radius: float = math.inf,
        last: bool = False,
    ) -> None:
        super().__init__(blocks)
        self._frame, self._radius, self.last = frame, radius, last

    def __iter__(self) -> Iterator[Block]:
        blocks = self._blocks
        # (those of units have arrays that are not theirs)
        if self._held is None and self.last and self.in_memory and type(blocks) is Blocks:
            rows = (self._frame.rows(X, Y) for X, Y in blocks.given_up())
            self._held = [self._fill(X, Y, *self._over(X, Y)) for X, Y in rows]
        return super().__iter__()

    def map(self, X: Floats, Y: Floats) -> Block:
        X, Y = self._frame.rows(X, Y)
        return self._fill(X, Y, empty(len(X), self._frame.W.shape[1]), empty(len(X), self._responses))

    @property
    def _responses(self) -> int:
        """With weights the second column says how far out a row is without its own."""
        return 1 + self._frame.affine.weighted

    def _over(self, X: Floats, Y: Floats) -> Block:
        """Where to write what X and Y become: there, where it is of the same shape."""
        k, responses = self._frame.W.shape[1], self._responses
        Y = Y if Y.shape[1] == responses else empty(len(Y), responses)
        return X if X.shape[1] == k else empty(len(X), k), Y

    def _fill(self, X: Floats, Y: Floats, V: Floats, R: Floats) -> Block:
        whiten(self._frame, self._radius, X, Y, V, R)
        return V, R


def whiten(frame: Frame, radius: float, X: Floats, Y: Floats, V: Floats, R: Floats) -> None:
    """Write whitened rows and standardised responses into V and R, shortened as :class:`Whitened` says."""
    a = frame.affine
    given = a.columns, a.loc, 1 / a.scale, *a.weight, frame.W, frame.low, frame.high, radius
    in_pieces(len(X), lambda i: kernels.whitened(X[i], Y[i], *given, V[i], R[i]))
