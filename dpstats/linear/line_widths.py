"""Private half-widths of the intervals of a line that was drawn by its depth."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dpstats._types import Floats
from dpstats.mechanisms.exponential import exponential_spend
from dpstats.mechanisms.half_width import LEAST_UNIT, HalfWidth
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.slope_depths import slope_levels, value_levels
from dpstats.mechanisms.spread import half_mass_spread
from dpstats.privacy.guarantee import Spend

__all__ = ["ASSUMES", "LAWS", "LineHalfWidths"]

_INTERCEPT = 0.2
"""Share of the budget for the interval of the intercept; that of the slope has the rest."""
LAWS = {"iid": ("walk", "ranks"), "median-zero": ("walk", "walk")}
"""For the intercept and the slope."""
ASSUMES = {
    "iid": "errors independent of the covariate; that of the intercept, errors of median 0 at every x",
    "median-zero": "errors of median 0 at every x, whatever their scale",
}


@dataclass(frozen=True)
class LineHalfWidths:
    """Public facts of the intervals: what they assume, the budget of the unit, and both half-widths."""

    assumed: str
    eps_unit: float
    intercept: HalfWidth
    slope: HalfWidth

    @classmethod
    def of(cls, assumed: str, eps: float, rows: int, eps_unit: float) -> Self:
        laws, shares = LAWS[assumed], (_INTERCEPT, 1 - _INTERCEPT)
        each = [HalfWidth(law, rows, share * eps) for law, share in zip(laws, shares, strict=True)]
        return cls(assumed, eps_unit, *each)

    @property
    def spends(self) -> tuple[Spend, ...]:
        return (
            exponential_spend("spread of the residuals", self.eps_unit),
            exponential_spend("half-width of the intercept", self.intercept.eps),
            exponential_spend("half-width of the slope", self.slope.eps),
        )

    def release(
        self, x: Floats, y: Floats, values: Floats, at: tuple[float, float], rng: Randomness
    ) -> Floats:
        """Half-widths of intercept and slope, down and up, the covariate in units of the points.

        Returns
        -------
        (2, 2) ndarray
            A row each.

        Notes
        -----
        **Privacy.** ``self.spends``, given the released line: the spread is that of a function of each row,
        and the half-widths are those of :class:`~dpstats.mechanisms.half_width.HalfWidth` for levels of
        sensitivity 1.
        """
        middle, slope = float(values.mean()), float(values[1] / 2 - values[0] / 2)
        a, b = at
        zero, half = -(a / 2 + b / 2) / (b / 2 - a / 2), b / 2 - a / 2
        limit = np.finfo(float).max
        # (in units of the points a covariate may be infinite, and 0 times that is no residual)
        x = np.clip(x, -limit, limit)
        rest = np.clip(y - (middle + slope * x), -limit, limit)
        spread, size = half_mass_spread(rest, self.eps_unit, rng), abs(middle)
        unit = max(spread, LEAST_UNIT * size)
        # slopes and values as what they add to the line's, in units of the spread: of any size
        with np.errstate(over="ignore"):
            rest = rest / unit
        spreads = spread / unit, size / unit
        widths = (1 + abs(zero)) * self.intercept.candidates(*spreads)
        intercept = self.intercept.release(widths, value_levels(x, rest, zero, 0.0, widths), rng)
        widths = self.slope.candidates(*spreads)
        slopes = self.slope.release(widths, slope_levels(x, rest, 0.0, widths), rng)
        with np.errstate(over="ignore"):
            return unit * np.array([intercept, slopes / half])
