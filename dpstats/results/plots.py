"""Plots of released values. matplotlib (the extra ``dpstats[plot]``) is imported on first use."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats._format import UNDETERMINED, at_least, shorten
from dpstats._types import Booleans, Floats
from dpstats._validation import check, fail
from dpstats.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from dpstats.results.many import Many
    from dpstats.results.results import Results

__all__ = ["coefficients", "groups", "pyplot", "title"]

_ROW_INCHES = 0.32
_FEWEST_TICKS = 3
_RATIOS = (1, 2, 5), (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8), tuple(np.arange(1, 10, 0.1).round(1))
_TIED = 1e-9
"""Width of intervals of ranks, relative to where they lie, below which many rows have one value."""


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
    exponentiate: bool = False,
) -> Any:
    """Coefficients and their intervals, one below the other, with a line at 0.

    Means, medians and quantiles have that line only where it lies among them. A coefficient without an
    interval is an open marker, with ``n.d.`` after its name if others have one.
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
    exponentiate : bool
        Have the axis tell ``exp(coef)``, on a logarithmic scale.

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

    effects = standardize or not _of_location(results)
    whole = _intervals(ax, estimate, low, high, effects=effects, ranks=results.cov is None)
    labels = shorten([results.names[i] for i in chosen], 32)
    labels = _marked(labels, results.determined.to_numpy()[chosen])
    ax.set_yticks(range(len(chosen)), labels, parse_math=False)
    of_values = _of_location(results) and "Intercept" not in results.names
    what = results.method if of_values else "exp(coef)" if exponentiate else "Coefficient"
    what += " / standard error" if standardize else ""
    if exponentiate:
        _set_ratios(ax)
    ax.set_xlabel(what + (_coverage(results, alpha) if whole.any() else ""))
    ax.set_title(title(results.method, results.guarantee), fontsize="medium")
    return ax


def groups(results: "Many", term: str | None = None, ax: Any = None, *, alpha: float | None = None) -> Any:
    """One coefficient of all groups, one below the other, with its intervals, and a line at 0 as of one fit.

    A group that does not determine it has ``n.d.`` after its name, and an open marker if it has an
    estimate.

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
    some = next(iter(found.values()))
    lines, known = np.full((len(results.levels), 3), np.nan), np.ones(len(results.levels), bool)
    labels = shorten([str(level) for level in results.levels], 32)
    for i, level in enumerate(results.levels):
        if level in found:
            ends = found[level].conf_int(alpha).loc[term]
            lines[i] = found[level].params[term], *ends
            known[i] = found[level].determined[term]
        else:
            labels[i] += " (no estimate)"
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 1.6 + _ROW_INCHES * len(lines)), layout="constrained")
    whole = _intervals(ax, *lines.T, effects=not _of_location(some), ranks=some.cov is None)
    ax.set_yticks(range(len(lines)), _marked(labels, known), parse_math=False)
    ax.set_xlabel(term + (_coverage(some, alpha) if whole.any() else ""), parse_math=False)
    line = title(some.method, results.guarantee)
    ax.set_title(f"{term}, by {results.by}\n{line}", fontsize="medium", parse_math=False)
    return ax


def _set_ratios(ax: Any) -> None:
    """Have an axis of logarithms tell ratios, round ones as far as these are several."""
    low, high = ax.get_xlim()
    for steps in _RATIOS:
        every = [step * 10.0**power for power in range(-9, 10) for step in steps]
        ratios = [ratio for ratio in every if low <= np.log(ratio) <= high]
        if len(ratios) >= _FEWEST_TICKS:
            break
    else:
        ratios = np.exp(np.linspace(low, high, 5)).tolist()
    ax.set_xticks(np.log(ratios), [f"{ratio:.4g}" for ratio in ratios])


def _of_location(results: "Results") -> bool:
    """Whether the estimates are of where values lie, of which 0 is no more special than any other."""
    return results.formula.partition("~")[2].strip() == "1"


def _intervals(
    ax: Any, estimate: Floats, low: Floats, high: Floats, *, effects: bool, ranks: bool
) -> Booleans:
    """Draw estimates and intervals, one below the other; which of them have an interval.

    An estimate without one is an open marker. The axis of effects holds 0; where all of `ranks` is one value,
    that is its middle.
    """
    rows, whole = np.arange(len(estimate)), np.isfinite(low) & np.isfinite(high)
    shown = np.concatenate([estimate[np.isfinite(estimate)], low[whole], high[whole]])
    if effects or (len(shown) and shown.min() <= 0 <= shown.max()):
        ax.axvline(0, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    ax.hlines(rows[whole], low[whole], high[whole], color="C0", linewidth=1.8)
    ax.plot(estimate[whole], rows[whole], "o", color="C0", markersize=4)
    ax.plot(estimate[~whole], rows[~whole], "o", color="C0", markersize=4, fillstyle="none")
    if ranks and not effects and len(shown) and 0 < np.ptp(shown) <= _TIED * np.abs(shown).max():
        ax.set_xlim(shown[0] - 0.05 * abs(shown[0]), shown[0] + 0.05 * abs(shown[0]))
    ax.set_ylim(len(rows) - 0.5, -0.5)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return np.asarray(whole)


def _marked(labels: Sequence[str], determined: Booleans) -> list[str]:
    """The labels, with ``n.d.`` after those of coefficients that are not determined."""
    pairs = zip(labels, determined, strict=True)
    return [label if known else f"{label} ({UNDETERMINED})" for label, known in pairs]


def _coverage(results: "Results", alpha: float | None) -> str:
    """What intervals cover, as a further line of a label."""
    percent = 100 * (1 - (results.alpha if alpha is None else alpha))
    return f"\n{percent:.10g}% intervals cover {results.covers}"


def title(what: str, guarantee: Guarantee) -> str:
    """What a figure shows, and its guarantee; of a seeded release a line that it protects nobody."""
    text = f"{what}, eps = {at_least(guarantee.eps)}, delta = {at_least(guarantee.delta)}"
    return text + ("\nSEEDED: protects nobody" if guarantee.seeded else "")


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
