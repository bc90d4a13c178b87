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
from dpstats.mechanisms.exponential import quantile
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.smooth_sensitivity import noise_quantile
from dpstats.mechanisms.spread import typical_distance

__all__ = ["LineInterval", "check_anchors", "coefficients", "private_points", "quarter_points"]

_LARGEST_CENTRE = 2.0**1000
"""A private centre beyond is moved to this."""


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


def private_points(
    x: Floats, eps_centre: float, eps_distance: float, rng: Randomness, least: float
) -> tuple[float, float]:
    """Two points about a private centre of the column `x`, a typical distance from it; `least` is the least
    distance over the centre.

    Notes
    -----
    **Privacy.** ``eps_centre + eps_distance``; neighbours: one record replaced. Argument:
    ``docs/privacy/deepest_regression.md``.
    """
    centre = quantile(x, 0.5, eps_centre, rng, neighbours="substitution")
    distance = typical_distance(x, eps_distance, rng)
    # a distance that the centre swallows (a constant covariate) would leave one point; neither may overflow
    centre = min(max(centre, -_LARGEST_CENTRE), _LARGEST_CENTRE)
    distance = max(distance, least * abs(centre))
    return centre - distance, centre + distance


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
    with np.errstate(all="ignore"):
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
        with np.errstate(all="ignore"):
            return coefficients(self.values, self.at)[:, None] + np.outer(half, [-1.0, 1.0])

    def to_dict(self) -> dict[str, Any]:
        """What the intervals of every confidence are computed from, beside the estimates."""
        return {"kind": "line", "at": list(self.at), "scale": self.scale, "rate": self.rate}


def weighted_quantile(small: float, large: float, rate: float, alpha: float) -> float:
    """The ``1 - alpha`` quantile of ``|small Z_1 + large Z_2| exp(-L)``: Laplace, `L` of rate `rate`."""
    # rounded up, so that few different ratios are ever integrated
    return float(large) * noise_quantile(rate, alpha, math.ceil(64 * small / large) / 64)
