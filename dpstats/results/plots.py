"""Plots of released values. matplotlib (the extra ``dpstats[plot]``) is imported on first use."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats._format import at_least
from dpstats._text import UNDETERMINED, shorten
from dpstats._validation import check, fail

if TYPE_CHECKING:
    from dpstats.results.many import Many
    from dpstats.results.results import Results

__all__ = ["coefficients", "groups", "pyplot"]

_ROW_INCHES = 0.32


def pyplot() -> Any:
    """``matplotlib.pyplot``; an ImportError that names the extra where it is not installed."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib, which comes with: pip install 'dpstats[plot]'") from None
    return plt


def coefficients(
    results: "Results",
    ax: Any = None,
    *,
    terms: str | Sequence[str] | None = None,
    intercept: bool = False,
    alpha: float | None = None,
    standardize: bool = False,
) -> Any:
    """Coefficients and their intervals, one below the other, with a line at 0.

    A coefficient without an interval is an open marker, with ``n.d.`` after its name if others have one.
    Coefficients keep the units of their columns, so one large one can hide the others: choose with `terms`,
    or set `standardize`.

    Parameters
    ----------
    results : dpstats.results.results.Results
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, as high as the number of coefficients asks.
    terms : str or sequence of str, optional
        Terms or coefficients to show, in this order; by default all.
    intercept : bool
        Whether to show the intercept when `terms` does not say.
    alpha : float in (0, 1), optional
        One minus the confidence of the intervals; see `Results.conf_int`.
    standardize : bool
        Divide each coefficient and its interval by its standard error: one unitless scale for all, on
        which the distance from 0 is the z (or t) statistic.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ParameterError
        If `terms` names something else or nothing is left to show, or if `standardize` is asked of a result
        without standard errors.
    """
    plt = pyplot()
    intercept, standardize = check("intercept", intercept, "flag"), check("standardize", standardize, "flag")
    frame = results.tidy(alpha)
    chosen = _chosen(results, terms, intercept)
    estimate, se, low, high = (
        frame[c].to_numpy()[chosen] for c in ("estimate", "std.error", "conf.low", "conf.high")
    )
    if standardize:
        if results.cov is None:
            fail("standardize", True, "False for a result without standard errors")
        with np.errstate(divide="ignore", invalid="ignore"):
            estimate, low, high = estimate / se, low / se, high / se
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 1.6 + _ROW_INCHES * len(chosen)), layout="constrained")

    rows = np.arange(len(chosen))
    whole = np.isfinite(low) & np.isfinite(high)
    ax.axvline(0, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    ax.hlines(rows[whole], low[whole], high[whole], color="C0", linewidth=1.8)
    ax.plot(estimate[whole], rows[whole], "o", color="C0", markersize=4)
    ax.plot(estimate[~whole], rows[~whole], "o", color="C0", markersize=4, fillstyle="none")
    labels = shorten([results.names[i] for i in chosen], 32)
    labels = [
        name if known else f"{name} ({UNDETERMINED})"
        for name, known in zip(labels, results.determined.to_numpy()[chosen], strict=True)
    ]
    ax.set_yticks(rows, labels, parse_math=False)
    ax.set_ylim(len(chosen) - 0.5, -0.5)
    what = "Coefficient / standard error" if standardize else "Coefficient"
    if whole.any():
        percent = 100 * (1 - (results.alpha if alpha is None else alpha))
        what += f"\n{percent:.10g}% intervals cover {results.covers}"
    ax.set_xlabel(what)
    guarantee = results.guarantee
    title = f"{results.method}, eps = {at_least(guarantee.eps)}, delta = {at_least(guarantee.delta)}"
    ax.set_title(title + ("\nSEEDED: protects nobody" if guarantee.seeded else ""), fontsize="medium")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def groups(results: "Many", term: str | None = None, ax: Any = None, *, alpha: float | None = None) -> Any:
    """One coefficient of all groups, one below the other, with its intervals.

    Parameters
    ----------
    results : dpstats.results.grouped.GroupedResults
    term : str, optional
        Which coefficient, by default the last.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    alpha : float in (0, 1), optional
        One minus the confidence of the intervals.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ParameterError
        If there is no such coefficient, or no group has results.
    """
    plt = pyplot()
    names = list(results.names)
    if not names or not (term is None or (isinstance(term, str) and term in names)):
        fail("term", term, f"a coefficient of some group, among {names}")
    term = names[-1] if term is None else term
    found = {level: result for level, result in results.items() if term in result.names}
    rows = np.arange(len(found))
    estimates = [float(result.params[term]) for result in found.values()]
    ends = np.array([result.conf_int(alpha).loc[term].to_numpy(float) for result in found.values()])
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 1.6 + _ROW_INCHES * len(found)), layout="constrained")
    ax.axvline(0, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    ax.hlines(rows, ends[:, 0], ends[:, 1], color="C0", linewidth=1.8)
    ax.plot(estimates, rows, "o", color="C0", markersize=4)
    ax.set_yticks(rows, shorten([str(level) for level in found], 32), parse_math=False)
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.set_xlabel(term, parse_math=False)
    ax.set_title(f"{term}, by {results.by}", fontsize="medium", parse_math=False)
    return ax


def _chosen(results: "Results", terms: str | Sequence[str] | None, intercept: bool) -> list[int]:
    """Positions of the coefficients to show."""
    names = list(results.names)
    if terms is None:
        chosen = [i for i, name in enumerate(names) if intercept or name != "Intercept"]
    else:
        wanted = [terms] if isinstance(terms, str) else terms
        known = {name: [i] for i, name in enumerate(names)}
        known |= {term: list(range(len(names))[where]) for term, where in results.terms.items()}
        named = isinstance(wanted, list | tuple) and all(
            isinstance(name, str) and name in known for name in wanted
        )
        if not named:
            fail("terms", terms, f"names among {list(known)}")
        chosen = [i for name in wanted for i in known[name]]
    if not chosen:
        fail(
            "terms", terms, "such that one coefficient at least is shown (the intercept needs intercept=True)"
        )
    return chosen
