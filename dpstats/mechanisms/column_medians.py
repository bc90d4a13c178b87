"""Private medians of several columns, within bounds or in units of scales."""

import numpy as np

from dpstats._types import Floats
from dpstats.mechanisms import exponential
from dpstats.mechanisms.rng import Randomness

__all__ = ["LARGEST", "column_medians", "half_ranges"]

LARGEST = 2.0**200
"""In units of scales nothing is beyond."""


def half_ranges(bounds: Floats) -> Floats:
    """Half of the widths of bounds, (d, 2): positive, and so that their double is finite."""
    lower, upper = bounds.T / 2
    return np.clip(upper - lower, np.finfo(float).tiny, np.finfo(float).max / 2)


def column_medians(
    Y: Floats, Z: Floats, scale: Floats, bounds: Floats | None, eps: float, rng: Randomness
) -> Floats:
    """Private medians of the columns, in units of the scales.

    Notes
    -----
    **Privacy.** `eps` a column (``docs/privacy/quantile.md``). Within bounds a record is replaced by its
    position from 1 to 2, where doubles are evenly spaced: half of all doubles are closer to 0 than 1, and to
    search them would cost ranks.
    """

    def medians(columns: Floats, limits: tuple[float, float]) -> Floats:
        return np.array(
            [
                exponential.quantile(x, 0.5, eps, rng, neighbours="substitution", bounds=limits)
                for x in columns.T
            ]
        )

    if bounds is None:
        return medians(Z, (-LARGEST, LARGEST))
    lower, half = bounds[:, 0] / 2, half_ranges(bounds)
    drawn = medians(1 + (np.clip(Y, *bounds.T) / 2 - lower) / half, (1.0, 2.0))
    return np.clip(2 * (lower + (drawn - 1) * half) / scale, -LARGEST, LARGEST)
