"""A line that is released by its values at two points of the covariate."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpstats._types import Floats
from dpstats._validation import check, fail, is_finite
from dpstats.errors import FormulaError
from dpstats.formula.design import Design
from dpstats.mechanisms.smooth_sensitivity import noise_quantile

__all__ = ["LineInterval", "check_anchors", "coefficients", "quarter_points"]


def check_anchors(at: Any) -> tuple[float, float] | None:
    """Return `at` as an increasing pair of finite numbers, or None."""
    if at is None:
        return None
    ok = isinstance(at, list | tuple) and len(at) == 2
    ok = ok and all(is_finite(v) for v in at)
    # half of their distance is a unit, which must not be rounded to 0
    if not ok or float(at[0]) / 2 == float(at[1]) / 2:
        fail("at", at, "None or two different finite numbers, values of the covariate")
    return float(min(at)), float(max(at))


def quarter_points(design: Design) -> tuple[float, float] | None:
    """The points a quarter and three quarters of the way through the public bounds of the one covariate.

    None without bounds. A covariate that is constant by its bounds, as ``I(0 * x)`` is, is refused: a line is
    not determined by its value at one point.
    """
    bounds = design.column_bounds[1]
    if bounds is None:
        return None
    low, high = bounds
    first, second = 0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high
    if not first / 2 < second / 2:
        raise FormulaError(f"{design.column_names[1]!r} is constant by its public bounds, and has no slope.")
    return first, second


def _weights(at: tuple[float, float]) -> Floats:
    a, b = at
    return np.array([[b, -a], [-1.0, 1.0]]) / (b - a)


def coefficients(values: ArrayLike, at: tuple[float, float]) -> Floats:
    """Intercept and slope of the line with `values` at two points, shape (2,).

    Examples
    --------
    >>> coefficients((1.0, 5.0), (0.0, 2.0))
    array([1., 2.])
    """
    return _weights(at) @ np.asarray(values, dtype=float)


@dataclass(frozen=True)
class LineInterval:
    """Intervals for intercept and slope that cover the privacy noise of a line's values at two points.

    Parameters
    ----------
    values : (float, float)
        Released values of the line at the points.
    scale : float
        The released scale of their noise.
    at : (float, float)
    rate : float
        As in :class:`~dpstats.mechanisms.smooth_sensitivity.NoiseInterval`.

    Notes
    -----
    A coefficient is ``w_1 v_1 + w_2 v_2``, so its noise is a weighted sum of two Laplace variables times
    ``scale exp(-L)``, ``L`` Laplace of rate `rate`; its quantile is public.
    """

    values: tuple[float, float]
    scale: float
    at: tuple[float, float]
    rate: float

    def conf_int(self, alpha: float) -> Floats:
        """The ends as a ``(2, 2)`` array."""
        alpha = check("alpha", alpha)
        weights = np.sort(np.abs(_weights(self.at)))
        half = [self.scale * weighted_quantile(small, large, self.rate, alpha) for small, large in weights]
        return coefficients(self.values, self.at)[:, None] + np.outer(half, [-1.0, 1.0])

    def to_dict(self) -> dict[str, Any]:
        """What the intervals of every confidence are computed from, beside the estimates."""
        return {"kind": "line", "at": list(self.at), "scale": self.scale, "rate": self.rate}


def weighted_quantile(small: float, large: float, rate: float, alpha: float) -> float:
    """The ``1 - alpha`` quantile of ``|small Z_1 + large Z_2| exp(-L)``: Laplace, `L` of rate `rate`."""
    # rounded up, so that few different ratios are ever integrated
    return float(large) * noise_quantile(rate, alpha, math.ceil(64 * small / large) / 64)
