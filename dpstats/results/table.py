"""What the table of a result says: which numbers, and the sentences about coverage and privacy."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dpstats._format import UNDETERMINED, at_least, format_p, format_row, format_statistic, format_value
from dpstats._text import Summary, Table
from dpstats.privacy.guarantee import KINDS, Guarantee, relation
from dpstats.results.spends import division, spends_table

if TYPE_CHECKING:
    from dpstats.results.results import Results

__all__ = [
    "PRIVACY",
    "NOISY",
    "RELEASED",
    "SAMPLING_AND_PRIVACY",
    "format_ends",
    "legend",
    "number_of_columns",
    "numbers",
    "promise",
    "report",
]

SAMPLING_AND_PRIVACY = "sampling and privacy noise"
PRIVACY = "privacy noise only"

NOISY = "Rows (noisy)", "Units (noisy)"
"""What a noisy number is of, without and with `unit`."""

#: The keys of ``Results.released`` and what the table calls them.
RELEASED = {
    "nobs": "Rows (public)",
    "n": NOISY[0],
    "models": "Models",
    "rounds": "Rounds",
    "sigma": "Residual std. dev.",
    "rsquared": "R-squared",
    "deviance": "Deviance",
    "null_deviance": "Null deviance",
    "dispersion": "Dispersion",
}
_OF_METHODS = {"Huber regression": {"sigma": "Residual scale (MAD)"}}
_OF_UNITS = {"nobs": "Units (public)", "n": NOISY[1]}
_OF_BOTH = {"nobs": "Rows handed in (public)", "n": "Usable rows (noisy)"}
"""Where both are known: rows with missing values are among the first, and not among the second."""
_LARGE_EPS, _LARGE_DELTA = 20.0, 1e-3
_COUNTS = ("nobs", "n", "models", "rounds")


def report(results: "Results", alpha: float) -> Summary:
    """The :class:`dpstats._text.Summary` of a :class:`dpstats.results.results.Results`.

    Parameters
    ----------
    results : dpstats.results.results.Results
    alpha : float in (0, 1)
        One minus the confidence of the intervals.

    Returns
    -------
    dpstats._text.Summary
    """
    letter = "t" if results.df else "z"
    header = ("", "coef", "std err", letter, f"P>|{letter}|", f"[{alpha / 2:.6g}", f"{1 - alpha / 2:.6g}]")
    determined = results.determined.to_numpy()
    limited = {name: format_ends(low, high) for name, low, high in results.limited}
    rows: list[tuple[str, ...]] = []
    for row, known in zip(results.tidy(alpha).itertuples(index=False, name=None), determined, strict=True):
        term, estimate, se, statistic, p, low, high = row[:7]
        estimate, se, low, high = numbers(known, estimate, se, low, high)
        line = f"{term}, limited to" if term in limited else term
        rows.append((line, estimate, se, format_statistic(statistic), format_p(p), low, high))
        if term in limited:
            rows.append((f"  {limited[term]}", *[""] * 6))
    facts = [("Dep. variable", results.response)] if results.response else []
    if event := getattr(results, "event", None):
        facts.append(("Event", event))
    if offset := getattr(results, "offset", None):
        facts.append(("Offset", offset))
    names = RELEASED | _OF_METHODS.get(results.method, {})
    names |= _OF_BOTH if _OF_BOTH.keys() <= results.released.keys() else {}
    names |= {} if results.guarantee.unit is None else _OF_UNITS
    facts += [(names[k], _fact(k, results.released[k])) for k in RELEASED if k in results.released]
    if results.cov_type:
        facts.append(("Covariance type", results.cov_type))
    guarantee = results.guarantee
    return Summary(
        title=f"{results.method} (differentially private)",
        formula=results.formula,
        facts=tuple(facts),
        coefficients=Table(header, tuple(rows)),
        paragraphs=(
            *legend(determined, _sharing(results), number_of_columns(results)),
            _coverage(results, alpha),
            *promise(guarantee),
        ),
        spends=spends_table(guarantee),
        notes=results.notes,
    )


def _sharing(results: "Results") -> Sequence[str]:
    """Factors whose columns share levels."""
    return getattr(getattr(results.design, "layout", None), "sharing", ())


def number_of_columns(results: "Results") -> int:
    """How many columns the estimates are of, the constant aside."""
    of_one = (
        getattr(results, "response", None) is not None and results.formula.partition("~")[2].strip() == "1"
    )
    return 1 if of_one else len(results.names) - ("Intercept" in results.names)


def legend(determined: ArrayLike, sharing: Sequence[str] = (), columns: int | None = None) -> tuple[str, ...]:
    """What stands below a table in which a coefficient has no standard error or interval; `sharing` are the
    factors whose columns share levels, and `columns` their number if it is not that of the coefficients.

    Examples
    --------
    >>> legend([False])
    ('n.d.: not determined; more rows or a larger eps may help.',)
    """
    known = np.asarray(determined, bool)
    several = (known.size if columns is None else columns) > 1
    what = "more rows, a larger eps or fewer columns" if several else "more rows or a larger eps"
    if known.all():
        return ()
    said = f"{UNDETERMINED}: not determined; {what} may help."
    if sharing:
        said += (
            f" The columns of {', '.join(sharing)} share levels: one that few rows have, or none, hides them "
            "all, and others with them. With treatment contrasts it would leave by itself."
        )
    return (said,)


def numbers(determined: bool, estimate: float, se: float, *ends: float, odds: bool = False) -> list[str]:
    """The texts of an estimate, its standard error and its interval, marked if it is not determined.

    With `odds` estimate and interval are exp(coef), and the standard error, that of the coefficient, has
    digits of its own. A coefficient that is not determined and exactly 0 is of a column that left the model:
    it has no estimate.

    Examples
    --------
    >>> numbers(True, 2.0, 0.5, 1.0, 3.0), numbers(False, 2.0, 0.5), numbers(False, 0.0, 0.5)
    (['2.000', '0.500', '1.000', '3.000'], ['2.000', 'n.d.'], ['-', 'n.d.'])
    """
    if odds:
        shown = format_row(estimate, math.nan, *ends)
        shown[1] = format_row(math.nan, se)[1]
    else:
        shown = format_row(estimate, se, *ends)
    if determined:
        return shown
    first = format_value(math.nan) if estimate == (1 if odds else 0) else shown[0]
    return [first, *[UNDETERMINED] * (1 + len(ends))]


def format_ends(low: float, high: float) -> str:
    """The ends of an interval, with digits enough to tell its length.

    Examples
    --------
    >>> format_ends(-0.51234, 12.25), format_ends(999_992.04, 1_000_008.0)
    ('[-0.51, 12.25]', '[999992.04, 1000008.00]')
    """
    length = high - low
    if not 1e-6 < length < 1e15 or max(abs(low), abs(high)) >= 1e15:
        return f"[{low:.6g}, {high:.6g}]"
    decimals = max(3 - math.floor(math.log10(length)), 0) if length < 10 else 2 * (length < 1000)
    return f"[{low:z.{decimals}f}, {high:z.{decimals}f}]"


def _fact(key: str, value: float) -> str:
    if math.isnan(value):
        return UNDETERMINED
    return f"{value:z,.0f}" if key in _COUNTS and abs(value) < 1e15 else format_value(value)


def _coverage(results: "Results", alpha: float) -> str:
    what = f"{100 * (1 - alpha):.10g}% intervals"
    if results.cov is not None:
        what += " and standard errors"
    if results.covers == SAMPLING_AND_PRIVACY:
        return f"{what} cover {results.covers}."
    if results.covers == PRIVACY:
        return (
            f"{what} cover {results.covers}: they are about the estimate that these data would give without "
            "noise, not about a population. Hence there are no tests."
        )
    return "No intervals. " + results.covers


def promise(g: Guarantee) -> Iterator[str]:
    """The sentences that state a guarantee."""
    words = relation(g.neighbours, g.unit)
    if g.neighbours == "substitution":
        words += f"; the number of {'rows' if g.unit is None else 'units'} is public"
    pure, approximate, _ = KINDS
    name = {pure: "pure differential privacy", approximate: "approximate differential privacy"}.get(
        g.kind, "random differential privacy (claimed by the paper, unproven)"
    )
    yield f"Privacy: eps = {at_least(g.eps)}, delta = {at_least(g.delta)}, {name}. Neighbours: {words}."
    if g.kind not in (pure, approximate):
        share = "some share" if g.gamma is None else f"a share gamma = {g.gamma:.6g}"
        yield (
            f"This is weaker than differential privacy: for {share} of the data sets that a population could "
            "give, nothing is promised."
        )
    if g.eps > _LARGE_EPS or g.delta > _LARGE_DELTA:
        what = [f"eps = {g.eps:.6g}"] * (g.eps > _LARGE_EPS) + [f"delta = {g.delta:.6g}"] * (
            g.delta > _LARGE_DELTA
        )
        yield (
            f"NOTE: {' and '.join(what)}: that protects little. Usual are eps from a tenth to a few, "
            "and delta far below one over the number of rows."
        )
    if g.scope:
        yield f"Scope: {g.scope}"
    if g.seeded:
        yield (
            "WARNING: SEEDED. The randomness came from a seed, so this release PROTECTS NOBODY: whoever "
            "knows the seed can undo the noise."
        )
    if divided := division(g)[2]:
        yield divided
