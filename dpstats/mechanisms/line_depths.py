"""What edits can do to the deepest line; for the deepest point see :mod:`dpstats.mechanisms.plane_depths`."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.depth import regression_levels
from dpstats.depth._deepest import RegressionLevels
from dpstats.mechanisms.smooth_sensitivity import least_bound

__all__ = ["LineDepths"]

_VALUES = [3, 2]
"""Where the extremes of the values at -1 and at 1 are, ``theta_0 - theta_1`` and ``theta_0 + theta_1``."""


@dataclass(frozen=True)
class LineDepths:
    """The values of the deepest line at -1 and 1, and the extent of the sets of less deep lines.

    Attributes
    ----------
    found : RegressionLevels
        In the coordinates in which the two points are -1 and 1: the values are ``theta_0 -+ theta_1``.
    n : int
        Usable rows.
    """

    found: RegressionLevels
    n: int

    @classmethod
    def of(cls, x: Floats, y: Floats) -> Self:
        return cls(regression_levels(x, y), len(x))

    @property
    def values(self) -> Floats:
        """Of the deepest line at -1 and 1, shape (2,)."""
        middle, slope = self.found.estimate
        return np.array([middle - slope, middle + slope])

    def taus(self, count: int) -> Integers:
        """``tau_0 ... tau_{count - 1}``: what any deepest line after ``k + 1`` edits has in these data."""
        k = np.arange(count)
        return np.maximum(self.found.depth - (k + 1), -(-self.n // 3)) - (k + 1)

    def local_sensitivities(self, count: int) -> Floats:
        """``A_0 ... A_{count - 1}`` without a box: l1 diameters of sets of lines, infinite if unbounded."""
        tau = self.taus(count)
        width = self.found.upper - self.found.lower
        # the sum of the two values is 2 theta_0, their difference 2 theta_1
        diameters = 2 * np.maximum(width[:, 0], width[:, 1])
        return np.where(tau > self.found.unbounded, diameters[np.maximum(tau, 0)], np.inf)

    def smooth_bound(self, box: Floats, beta: float) -> float:
        """``max_k exp(-k beta) A_k`` with a box for the two values, shape (2, 2).

        ``A_k`` is the least of the l1 diameter of the set of lines, the sum of its widths within the box, and
        the diameter of the box.
        """
        diameter = float(np.sum(box[:, 1] - box[:, 0]))
        if not np.isfinite(diameter):
            return np.inf
        # at greater distances no depth is positive, and the box is all there is
        A = self.local_sensitivities(self.found.depth + 2)
        tau = np.maximum(self.taus(len(A)), 0)
        # widths of an unbounded set are those of the box
        lower, upper = (
            np.clip(side[tau][:, _VALUES], *box.T) for side in (self.found.lower, self.found.upper)
        )
        A = np.minimum(np.minimum(A, (upper - lower).sum(axis=1)), diameter)
        return max(float(np.max(np.exp(-beta * np.arange(len(A))) * A)), least_bound(diameter))

    def extent(self, depth: int) -> tuple[Floats, Floats]:
        """Least and largest values at -1 and 1 of lines of at least this depth; infinite if unbounded."""
        depth = min(depth, self.found.depth)
        return self.found.lower[depth, _VALUES], self.found.upper[depth, _VALUES]
