"""Plots of released descriptions and diagnostics. matplotlib (the extra ``dpstats[plot]``) is imported on
first use.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats._format import shorten
from dpstats._types import Floats
from dpstats._validation import fail
from dpstats.results.plots import pyplot, title

if TYPE_CHECKING:
    from dpstats.explore.described import LevelCounts, NumberSummary
    from dpstats.explore.description import Description
    from dpstats.explore.diagnosed import Bins
    from dpstats.explore.diagnosis import CountDiagnosis, LinearDiagnosis, LogitDiagnosis

__all__ = ["bars", "beyond", "description", "of_counts", "of_residuals", "of_shares"]

_ACROSS, _WIDE, _HIGH = 3, 3.6, 2.7
_BARS = 40
_SOME = 0.005
"""The least share of rows beyond the bars that a panel mentions."""


def _grid(panels: Sequence[Callable[[Any], None]], across: int, wide: float, high: float, above: str) -> Any:
    plt = pyplot()
    across = min(across, len(panels))
    down = -(-len(panels) // across)
    figure, axes = plt.subplots(
        down, across, figsize=(wide * across, high * down + 0.4), layout="constrained", squeeze=False
    )
    for ax, panel in zip(axes.ravel(), panels, strict=False):
        panel(ax)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    for ax in axes.ravel()[len(panels) :]:
        ax.remove()
    figure.suptitle(above, fontsize="medium")
    return figure


# -- descriptions --------------------------------------------------------------------------------------------


def description(described: "Description", columns: Any) -> Any:
    """A histogram for each column of numbers, shares of levels for each column of these, and correlations.

    The bars of a histogram lie between points about the private quartiles, and show how many rows were
    counted there per unit of the column; lines at the quartiles, a dot at the mean with its interval. Where
    rows visibly lie beyond these points a panel says how many.

    Parameters
    ----------
    described : Description
    columns : str or sequence of str, optional
        Which to show, by default all.

    Returns
    -------
    matplotlib.figure.Figure
    """
    names = [n.name for n in described.number_summaries] + [f.name for f in described.level_counts]
    if isinstance(columns, str):
        columns = [columns]
    if columns is not None and not (
        isinstance(columns, list | tuple)
        and columns
        and all(isinstance(c, str) and c in names for c in columns)
    ):
        fail("columns", columns, f"names among {names}")
    wanted = names if columns is None else list(columns)
    panels: list[Callable[[Any], None]] = []
    for number in described.number_summaries:
        if number.name in wanted:
            panels.append(functools.partial(_histogram, number=number))
    for factor in described.level_counts:
        if factor.name in wanted:
            panels.append(functools.partial(_shares, factor=factor))
    if described.correlations is not None and columns is None:
        panels.append(lambda ax: _heat(ax, described))
    return _grid(panels, _ACROSS, _WIDE, _HIGH, title("Description", described.guarantee))


def bars(number: "NumberSummary") -> tuple[Floats, Floats]:
    """Ends of the bars of a histogram, (k + 1,), and released numbers of rows in them, (k,)."""
    around = number.around
    # as far out as rows are seen on either side
    least = np.maximum(3 * around.sd, 0.001 * number.count)
    seen = np.flatnonzero((around.below > least) & (number.count - around.below > least))
    first, last = (seen[0], seen[-1]) if len(seen) else (0, len(around.at) - 1)
    first, last = max(first - 1, 0), min(last + 1, len(around.at) - 1)
    # points about quartiles that all but coincide are too close for bars that are seen beside the mean
    mean = number.mean.estimate
    axis = [around.at[first], around.at[last], *([mean] if math.isfinite(mean) else [])]
    least = 2 * (max(axis) - min(axis)) / _BARS
    if around.at[last] - around.at[first] < least:
        middle = (around.at[first] + around.at[last]) / 2
        rows = max(float(around.below[last] - around.below[first]), 0.0)
        return np.array([middle - least / 2, middle + least / 2]), np.array([rows])
    # released counts at points that are about evenly spread
    grid = np.linspace(around.at[first], around.at[last], _BARS + 1)
    places = np.unique(np.clip(np.searchsorted(around.at, grid), first, last))
    ends, below = around.at[places], around.below[places]
    return ends, np.maximum(np.diff(below), 0.0)


def beyond(number: "NumberSummary") -> tuple[float, float]:
    """Released shares of the rows below the first and above the last point, 0 where none are seen there."""
    around = number.around
    rows = np.array([around.below[0], number.count - around.below[-1]])
    noise = 3 * np.array([around.sd[0], math.hypot(around.sd[-1], number.count_sd)])
    seen = rows > np.maximum(noise, _SOME * number.count)
    left, right = np.where(seen, np.minimum(rows / max(number.count, 1.0), 1.0), 0.0)
    return float(left), float(right)


def _histogram(ax: Any, number: "NumberSummary") -> None:
    ends, rows = bars(number)
    widths = np.diff(ends)
    ax.bar(ends[:-1], rows / widths, widths, align="edge", color="C0", alpha=0.45, linewidth=0)
    found = {key: (value, lower, upper) for key, value, _, lower, upper in number.rows(0.05)}
    for key in ("25 %", "median", "75 %"):
        ax.axvline(found[key][0], color="C0", linewidth=1.6 if key == "median" else 0.9)
    mean, lower, upper = found["mean"]
    height = 0.04 * ax.get_ylim()[1]
    if math.isfinite(lower):
        ax.hlines(height, lower, upper, color="C3", linewidth=2)
    ax.plot([mean], [height], "o", color="C3", markersize=4)
    for share, side, at in zip(beyond(number), ("left", "right"), (0.03, 0.97), strict=True):
        if share:
            text = f"{100 * share:.0f} % of rows\nfurther {side}"
            ax.text(at, 0.96, text, transform=ax.transAxes, ha=side, va="top", fontsize="x-small")
    ax.set_title(shorten([number.name], 32)[0], fontsize="small", parse_math=False)
    ax.set_yticks([])
    ax.locator_params(axis="x", nbins=5)
    ax.tick_params(labelsize="small")


def _shares(ax: Any, factor: "LevelCounts") -> None:
    share, _, low, high = factor.shares(0.05).T
    rows = np.arange(len(share))
    ax.barh(rows, share, color="C0", alpha=0.45)
    ax.hlines(rows, low, high, color="C0", linewidth=1.6)
    ax.set_yticks(
        rows, shorten([str(level) for level in factor.levels], 18), parse_math=False, fontsize="small"
    )
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    ax.set_title(shorten([factor.name], 32)[0], fontsize="small", parse_math=False)
    ax.tick_params(labelsize="small")


def _heat(ax: Any, described: "Description") -> None:
    found = described.correlations
    assert found is not None
    names = shorten(list(found.names), 12)
    ax.grid(False)
    ax.imshow(found.estimates, vmin=-1, vmax=1, cmap="RdBu_r")
    places = np.arange(len(names))
    ax.set_xticks(places, names, rotation=60, ha="right", fontsize="x-small", parse_math=False)
    ax.set_yticks(places, names, fontsize="x-small", parse_math=False)
    if len(names) <= 10:
        for i in places:
            for j in places:
                r = found.estimates[i, j]
                text = "n.d." if math.isnan(r) else f"{r:z.2f}"
                ax.text(
                    j, i, text, ha="center", va="center", fontsize=5.5, color="w" if abs(r) > 0.6 else "k"
                )
    ax.set_title("correlation", fontsize="small")


# -- diagnostics ---------------------------------------------------------------------------------------------


def of_residuals(found: "LinearDiagnosis") -> Any:
    """As R's ``plot(lm)``: residuals and their spread against predictions, normal Q-Q, residuals by column.

    Returns
    -------
    matplotlib.figure.Figure
    """
    panels: list[Callable[[Any], None]] = [
        functools.partial(_binned, bins=found.fitted),
        functools.partial(_qq, found=found),
        functools.partial(_spread, bins=found.fitted),
    ]
    panels += [functools.partial(_binned, bins=bins) for bins in found.columns]
    if not found.columns:
        panels.append(functools.partial(_leverage, found=found))
    across = 2 if len(panels) <= 4 else 3
    return _grid(panels, across, 4.0, 3.1, title("Diagnostics", found.guarantee))


def of_shares(found: "LogitDiagnosis") -> Any:
    """ROC curve, and observed against predicted shares.

    Returns
    -------
    matplotlib.figure.Figure
    """
    panels = [functools.partial(_roc, found=found), functools.partial(_calibration, found=found)]
    return _grid(panels, 2, 4.0, 3.6, title("Diagnostics", found.guarantee))


def of_counts(found: "CountDiagnosis") -> Any:
    """A hanging rootogram.

    Returns
    -------
    matplotlib.figure.Figure
    """
    panels = [functools.partial(_rootogram, found=found)]
    return _grid(panels, 1, 6.4, 3.8, title("Diagnostics", found.guarantee))


def _middles(edges: Floats) -> Floats:
    """Where the bins are drawn: between edges, and as far beyond the ends as the nearest bin reaches."""
    if len(edges) < 2:
        return np.arange(len(edges) + 1.0)
    inner = (edges[1:] + edges[:-1]) / 2
    return np.concatenate([[2 * edges[0] - inner[0]], inner, [2 * edges[-1] - inner[-1]]])


def _binned(ax: Any, bins: "Bins") -> None:
    frame, x = bins.to_frame(), _middles(bins.edges)
    ax.axhline(0, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    ax.vlines(x, frame["conf.low"], frame["conf.high"], color="C0", linewidth=1.6)
    ax.plot(x, frame["mean"], "o-", color="C0", markersize=4, linewidth=0.8)
    ax.set_xlabel(shorten([bins.name], 36)[0], fontsize="small", parse_math=False)
    ax.set_ylabel(f"mean residual\n(limited at {bins.limit:.2g} sigma)", fontsize="small")
    ax.tick_params(labelsize="small")


def _spread(ax: Any, bins: "Bins") -> None:
    frame, x = bins.to_frame(), _middles(bins.edges)
    ax.errorbar(
        x, frame["spread"], 1.96 * frame["spread.error"], fmt="o-", color="C0", markersize=4, linewidth=0.8
    )
    ax.axhline(bins.sigma * math.sqrt(bins.mean_square), color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("prediction", fontsize="small")
    ax.set_ylabel("root mean square residual\n(limited at 2 sigma)", fontsize="small")
    ax.tick_params(labelsize="small")


def _qq(ax: Any, found: Any) -> None:
    frame = found.residuals.to_frame()
    frame = frame[frame["normal"].notna()]
    low, high = frame["residual"].min(), frame["residual"].max()
    ax.plot([low, high], [low, high], color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    ax.hlines(frame["residual"], frame["conf.low"], frame["conf.high"], color="C0", linewidth=1.6)
    ax.plot(frame["normal"], frame["residual"], "o", color="C0", markersize=4)
    ax.set_xlabel("normal quantile", fontsize="small")
    ax.set_ylabel("residual / sigma", fontsize="small")
    ax.tick_params(labelsize="small")


def _leverage(ax: Any, found: Any) -> None:
    frame = found.leverage.to_frame()
    ax.errorbar(frame["times"], frame["share"], 1.96 * frame["std.error"], fmt="o-", color="C0", markersize=4)
    ax.set_xlabel("leverage, times its mean", fontsize="small")
    ax.set_ylabel("share of rows beyond", fontsize="small")
    ax.set_ylim(bottom=0)


def _roc(ax: Any, found: Any) -> None:
    frame, (area, se) = found.calibration.roc(), found.calibration.auc()
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    ax.plot(frame["fpr"], frame["tpr"], "o-", color="C0", markersize=3)
    ax.set_xlabel("false positive rate", fontsize="small")
    ax.set_ylabel("true positive rate", fontsize="small")
    ax.set_title(f"area {area:.3f} (std err {se:.3f})", fontsize="small")
    ax.set_aspect("equal")


def _calibration(ax: Any, found: Any) -> None:
    frame = found.calibration.to_frame()
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    ax.vlines(frame["predicted"], frame["conf.low"], frame["conf.high"], color="C0", linewidth=1.6)
    ax.plot(frame["predicted"], frame["observed"], "o", color="C0", markersize=4)
    ax.set_xlabel("predicted share", fontsize="small")
    ax.set_ylabel("observed share", fontsize="small")
    ax.set_aspect("equal")


def _rootogram(ax: Any, found: Any) -> None:
    frame = found.rootogram.to_frame()
    x, expected = np.arange(len(frame)), np.sqrt(frame["expected"])
    observed = np.sqrt(frame["observed"])
    # bars hang from the expected frequencies
    ax.bar(x, observed, bottom=expected - observed, color="C0", alpha=0.45, width=0.8)
    ax.plot(x, expected, "o-", color="C3", markersize=3)
    half = 1.96 * frame["std.error"] / (2 * np.sqrt(np.maximum(frame["expected"], 1.0)))
    shown = frame["expected"] > 2 * frame["std.error"]
    ax.vlines(x[shown], -half[shown], half[shown], color="k", linewidth=1)
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set_xticks(x, frame["count"], fontsize="x-small")
    ax.set_xlabel("count", fontsize="small")
    ax.set_ylabel("square root of rows", fontsize="small")
