r"""Scores of a generalised linear model added up unit by unit, through rows of least squares.

At coefficients :math:`u` the rows :math:`\sqrt{w} v` with the responses
:math:`\sqrt{w} v^\top u + (y - m) / \sqrt{w}` have the score and the Gram matrix that the model's rows have
there, :math:`w` the variance of the response at its mean :math:`m` (Nelder & Wedderburn 1972). They are made
anew at every point of the rounds, so that the rounds end at the model's estimate.
"""

import math

import numpy as np

from dpstats._types import Floats
from dpstats.engines.local import fold
from dpstats.linear import glm_kernels as kernels
from dpstats.linear.family import Answers, Scored
from dpstats.linear.scores import Frame
from dpstats.linear.summed import Summed, root_weights

__all__ = ["SummedAnswers"]


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
    u : (q,) array
        Coefficients at which the rows are wanted first.
    size, most : float
        As of :class:`~dpstats.linear.summed.Summed`.
    """

    _point: Floats | None

    def __init__(
        self,
        blocks: Answers,
        frame: Frame,
        offset: float | None,
        top: float,
        u: Floats,
        size: float = 1.0,
        most: float = math.inf,
    ) -> None:
        units = blocks.units
        single = Scored(blocks, frame, offset)
        self._single, self.size = single, size
        self._Z, self._R = single.map(units.X, units.Y)
        self._ends, self._counts, self._top = units.ends, blocks.family.counts, top
        self._V, self._Y = np.empty_like(self._Z), np.empty((len(self._Z), 1))
        self.most, self._weights = most, root_weights(units, most)
        self.metric, self._last, self._point = np.eye(len(u)), None, None
        self.at(u)

    def at(self, u: Floats) -> None:
        if self._point is not None and np.array_equal(self._point, u):
            return

        def update(state: Floats, Z: Floats, R: Floats, first: int) -> None:
            rows = slice(first, first + len(Z))
            kernels.answers(Z, R, u, self._counts, self._top, self._V[rows], self._Y[rows])

        fold([(self._Z, self._R)], lambda: np.zeros(0), update)
        self._V /= self._weights
        self._Y /= self._weights
        self._point = u.copy()
