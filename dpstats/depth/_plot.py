"""A picture of depth contours: a bagplot with as many contours as wanted."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpstats._types import Floats
from dpstats.depth._contours import contours
from dpstats.depth._halfspace import halfspace
from dpstats.depth._reading import integers, matrix
from dpstats.depth._tukey import tukey_median

__all__ = ["plot_contours"]

_FRACTIONS = (0.0, 0.15, 0.35, 0.55, 0.75)


def _bag_depth(data: Floats, deepest: int) -> int:
    """The largest depth whose region holds at least half of the observations."""
    depths = np.sort(halfspace(data, data))
    return int(min(max(depths[(len(depths)) // 2], 1), deepest))


def plot_contours(data: ArrayLike, depths: ArrayLike | None = None, *, ax: Any = None) -> Any:
    """Plot plane data with depth contours, the bag, the deepest region and the Tukey median.

    Not private: it shows the observations.

    Parameters
    ----------
    data : array_like of shape (n, 2)
        The observations, ``n >= 1``.
    depths : int or array_like of int, optional
        Of the contours; by default the hull (depth 1) and four more.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    dpstats.errors.ParameterError
        If `data` is not a finite matrix with two columns and at least one row, or `depths` are not positive
        integers.
    ImportError
        If matplotlib is not installed (``pip install dpstats[plot]``).

    Notes
    -----
    The shaded bag is the deepest region that holds at least half of the observations.
    """
    X = matrix("data", data, columns=2, at_least=1)
    median = tukey_median(X)
    if depths is None:
        depths = np.unique(np.maximum(1, np.round(np.array(_FRACTIONS) * median.depth)).astype(int))
    else:
        depths = np.unique(integers(depths))
    bag = _bag_depth(X, median.depth)
    *lines, bag_polygon, deepest = contours(X, [*depths, bag, median.depth])
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(7.0, 5.0), layout="constrained")
    ax.fill(*bag_polygon.T, facecolor="#c6dbef", edgecolor="none", label=f"bag (depth {bag})", zorder=1)
    ax.scatter(*X.T, s=9, color="#555555", linewidths=0, alpha=0.75, zorder=2)
    shades = plt.get_cmap("Blues")(np.linspace(0.55, 0.95, max(len(depths), 1)))
    for depth, polygon, colour in zip(depths, lines, shades, strict=True):
        if len(polygon):
            ax.plot(
                *np.vstack([polygon, polygon[:1]]).T,
                color=colour,
                linewidth=1.1,
                zorder=3,
                label=f"depth {depth}",
            )
    ax.fill(
        *deepest.T,
        facecolor="#fd8d3c",
        edgecolor="#d94801",
        linewidth=1,
        zorder=4,
        label=f"deepest ({median.depth})",
    )
    ax.plot(
        *median.point, marker="o", markersize=4, markerfacecolor="white", markeredgecolor="black",
        linestyle="none", zorder=5, label="Tukey median",
    )  # fmt: skip
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax
