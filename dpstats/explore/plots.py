"""The plot of a plan. matplotlib (the extra ``dpstats[plot]``) is imported on first use."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dpstats._format import shorten
from dpstats._validation import fail, one_of
from dpstats.results.plots import pyplot

__all__ = ["planned"]

_WORDS = {
    "se": "Standard error",
    "width": "Width of the interval",
    "ratio": "Standard error / that without privacy",
    "power": "Power",
    "determined": "Chance that the coefficient is determined",
    "refused": "Chance of no release",
}
_SHARES = ("power", "determined", "refused")
_DASHES = ("-", "--", ":", "-.")


def planned(table: pd.DataFrame, ax: Any, *, y: str, x: str | None, terms: str | Sequence[str] | None) -> Any:
    """The table of a :class:`~dpstats.explore.plan.Plan` as lines; parameters as of its method ``plot``."""
    plt = pyplot()
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    one_of("y", y, tuple(_WORDS))
    other = {"eps": "n", "n": "eps"}
    if x is None:
        x = "n" if table["n"].nunique() > table["eps"].nunique() else "eps"
    one_of("x", x, tuple(other))
    by = other[x]
    names = _chosen(table, terms)
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    groups = sorted(table[by].unique())
    for j, (name, label) in enumerate(zip(names, shorten(names, 32), strict=True)):
        for k, group in enumerate(groups):
            lines = table[(table["term"] == name) & (table[by] == group)].sort_values(x)
            given = f"n = {group:,}" if by == "n" else f"eps = {group:.6g}"
            ax.plot(
                lines[x],
                lines[y],
                color=f"C{j % 10}",
                linestyle=_DASHES[k % len(_DASHES)],
                marker="o",
                markersize=4,
                label=f"{label}, {given}" if len(groups) > 1 else label,
            )
    ax.set_xscale("log")
    values = sorted(table[x].unique())
    ax.set_xticks(values, [f"{value:,.6g}" for value in values])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="x", which="minor", length=0)
    if y in _SHARES:
        ax.set_ylim(-0.03, 1.03)
    else:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(ScalarFormatter())
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("eps" if x == "eps" else "Number of rows")
    ax.set_ylabel(_WORDS[y])
    if len(groups) == 1:
        ax.set_title(f"n = {groups[0]:,}" if by == "n" else f"eps = {groups[0]:.6g}", fontsize="medium")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    legend = ax.legend(frameon=False, fontsize="small")
    for text in legend.get_texts():
        text.set_parse_math(False)
    return ax


def _chosen(table: pd.DataFrame, terms: Any) -> list[str]:
    known = list(dict.fromkeys(table["term"]))
    if terms is None:
        return [name for name in known if name != "Intercept"] or known
    wanted = [terms] if isinstance(terms, str) else terms
    valid = isinstance(wanted, list | tuple) and wanted and all(name in known for name in wanted)
    if not valid:
        fail("terms", terms, f"names among {known}")
    return list(wanted)
