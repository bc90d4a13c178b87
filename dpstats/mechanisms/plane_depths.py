"""What edits can do to the deepest point in the plane."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.depth import centroid, l1_diameter, plane_contours, plane_median
from dpstats.depth._reading import clip
from dpstats.mechanisms.smooth_sensitivity import least_bound

__all__ = ["Depths"]


@dataclass(frozen=True)
class Depths:
    """The deepest point of data in the plane, its depth, and what bounds the sets of less deep points.

    Attributes
    ----------
    Z : (n, 2) array
        Within the range of exact arithmetic.
    point : (2,) array
    depth : int
        The largest depth.
    along : (2, n) array
        Sorted sums and differences of the columns.
    """

    Z: Floats
    point: Floats
    depth: int
    along: Floats

    @classmethod
    def of(cls, Z: Floats) -> Self:
        # the point, the polygons and the order statistics of the same rows
        Z = clip(Z)
        x, y = Z.T
        along = np.sort([x + y, x - y], axis=1)
        if len(Z) == 0:
            # for what it compiles and stores, which must not tell whether there are rows
            plane_median(np.zeros((1, 2)))
            return cls(Z, np.zeros(2), 0, along)
        region, depth = plane_median(Z)
        return cls(Z, centroid(region), depth, along)

    def taus(self, count: int) -> Integers:
        """``tau_0 ... tau_{count - 1}``: what any deepest point after ``k + 1`` edits has in these data."""
        k = np.arange(count)
        return np.maximum(self.depth - (k + 1), -(-len(self.Z) // 3)) - (k + 1)

    def order_bounds(self, tau: Integers) -> Floats:
        """``B``: the bounds of the l1 diameters from order statistics, infinite where ``tau <= 0``."""
        n = len(self.Z)
        if n == 0:
            return np.full(len(tau), np.inf)
        inside = np.clip(tau, 1, n)
        widths = self.along[:, n - inside] - self.along[:, inside - 1]
        return np.where(tau > 0, np.maximum(widths.max(axis=0), 0.0), np.inf)

    def diameters(self, tau: Integers) -> Floats:
        """The l1 diameters of the sets of depth at least `tau`, from exact polygons."""
        bounds = self.order_bounds(tau)
        if not len(tau):
            return bounds
        exact = np.array([l1_diameter(polygon) for polygon in plane_contours(self.Z, tau)])
        return np.minimum(exact, bounds)

    def local_sensitivities(self, count: int) -> Floats:
        """``A_0 ... A_{count - 1}`` without a box."""
        return self.diameters(self.taus(count))

    def axis_widths(self, tau: Integers, box: Floats) -> Floats:
        """The sum of those sets' widths along the axes, within the box."""
        n = len(self.Z)
        if n == 0:
            return np.full(len(tau), np.sum(box[:, 1] - box[:, 0]))
        inside = np.clip(tau, 1, n)
        by_axis = np.sort(self.Z, axis=0)
        width = np.clip(by_axis[n - inside], *box.T) - np.clip(by_axis[inside - 1], *box.T)
        return np.where(tau > 0, np.maximum(width, 0.0).sum(axis=1), np.sum(box[:, 1] - box[:, 0]))

    def smooth_bound(self, box: Floats, beta: float) -> float:
        """``max_k exp(-k beta) A_k`` with a box, shape (2, 2); polygons are traced only where they can
        matter."""
        diameter = float(np.sum(box[:, 1] - box[:, 0]))
        if not np.isfinite(diameter):
            return np.inf
        tau = self.taus(max(self.depth, 0) + 2)
        decay = np.exp(-beta * np.arange(len(tau)))
        loose = np.minimum(np.minimum(self.order_bounds(tau), self.axis_widths(tau, box)), diameter)
        first = int(np.argmax(decay * loose))
        reached = decay[first] * min(self.diameters(tau[first : first + 1])[0], loose[first])
        matter = np.flatnonzero(decay * loose > reached)
        tight = np.minimum(self.diameters(tau[matter]), loose[matter])
        best = max(reached, np.max(decay[matter] * tight, initial=0.0))
        return max(float(best), least_bound(diameter))
