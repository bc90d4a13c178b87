r"""Scores of a generalised linear model added up unit by unit, through rows of least squares.

At coefficients :math:`u` the rows :math:`\sqrt{w} v` with the responses
:math:`\sqrt{w} v^\top u + (y - m) / \sqrt{w}` have the score and the Gram matrix that the model's rows have
there, :math:`w` the variance of the response at its mean :math:`m` (Nelder & Wedderburn 1972). They are made
anew at every point of the rounds, so that the rounds end at the model's estimate.
"""

import math
from typing import Any

import numpy as np

from dpstats._types import Floats
from dpstats.engines.local import Mapped, Source, in_pieces
from dpstats.formula.units import EveryUnit, Units
from dpstats.linear import glm_kernels as kernels
from dpstats.linear.family import Answers, Scored
from dpstats.linear.summed import Framed, Summed, root_weights
from dpstats.linear.whitened import Frame

__all__ = ["SummedAnswers"]


class _Answered(EveryUnit):
    """Rows of least squares in place of a generalised linear model's, at some coefficients.

    `weights` of the rows are for units of more than `most` rows; `spare` are arrays of a former point, which
    are written over.
    """

    once = True

    def __init__(
        self, units: Source, u: Floats, counts: bool, top: float, most: float, spare: list[Units]
    ) -> None:
        super().__init__(units)
        self._given, self._most, self._spare = (u.copy(), counts, top), most, spare

    def of_units(self, units: Units) -> Units:
        if self._spare:
            answers = self._spare.pop()
        else:
            answers = Units(np.empty_like(units.X), np.empty((len(units.X), 1)), units.ends)
        in_pieces(
            len(units.X),
            lambda i: kernels.answers(units.X[i], units.Y[i], *self._given, answers.X[i], answers.Y[i]),
        )
        if self._most < math.inf:
            weights = root_weights(units, self._most)
            np.divide(answers.X, weights, out=answers.X)
            np.divide(answers.Y, weights, out=answers.Y)
        return answers


class SummedAnswers(Summed):
    """Whitened rows of a generalised linear model, those of each unit together.

    Parameters
    ----------
    blocks : Answers
        With units.
    frame : Frame
    offset : float or None
        Is taken off the offsets; None for none.
    top : float
        The largest linear predictor.
    size, most : float
        As of :class:`~dpstats.linear.summed.Summed`.
    """

    def __init__(
        self,
        blocks: Answers,
        frame: Frame,
        offset: float | None,
        top: float,
        size: float = 1.0,
        most: float = math.inf,
    ) -> None:
        rows = Scored(blocks, frame, offset)
        self._single, self.size, self.most, self.cut = rows, size, most, most < math.inf
        self._framed = Framed(blocks.units, rows, frame.gone)
        self._model = blocks.family.counts, top
        self.metric, self._last = np.eye(frame.W.shape[1]), None
        self._point: tuple[Floats, _Answered] | None = None

    def at(self, u: Floats) -> Mapped:
        if self._point is None or not np.array_equal(self._point[0], u):
            spare: list[Any] = []
            if self._point is not None and self._framed.in_memory:
                spare = [units for units, _ in self._point[1]]
            self._last = None
            self._point = u.copy(), _Answered(self._framed, u, *self._model, self.most, spare[::-1])
        return self._point[1]
