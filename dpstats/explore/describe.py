"""A private first look at a table: means, quartiles, counts of levels, correlations, for one budget."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Floats, Levels
from dpstats._validation import check, fail
from dpstats.data.schema import Column, Schema
from dpstats.engines.local import Rows
from dpstats.errors import ReleaseFailed
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.explore.columns import ColumnRows, Listing
from dpstats.explore.described import SEEN, Correlation, LevelCounts, NumberSummary
from dpstats.explore.description import Description
from dpstats.linear.budget import Step, divide
from dpstats.linear.scores import whitened_gram
from dpstats.location.mean import MeanBudget, MeanColumn, limited_means
from dpstats.mechanisms.noise import gaussian
from dpstats.mechanisms.quantiles import bisected, counted
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults

__all__ = ["describe"]

_SHARES = {
    "scale": ("scales", 0.08),
    "tail": ("rows by distance", 0.13),
    "rounds": ("limited means", 0.40),
    "moments": ("mean squares", 0.07),
    "search": ("search for the quartiles", 0.13),
    "anchors": ("rows below the quartiles", 0.07),
    "points": ("rows near the quartiles", 0.06),
    "parts": ("rows nearer to the quartiles", 0.06),
}
"""Words for the steps of a column of numbers, and their shares of its part of mu^2."""
_COUNT, _FACTOR, _CORRELATION = 0.06, 0.25, 0.5
"""Share of the counts of rows and of missing values; parts of a factor, and of a column in the correlations,
relative to that of a column of numbers."""
_SQUARES = 0.25
"""Share of the mean squares in the budget of the correlations."""
_QUARTILES = np.array([0.25, 0.5, 0.75])
_BESIDE_ZERO = 2.0**-20, 2.0**-80
"""Below these, the first relative to the largest quartile, a released median is where noise has left it
between zeros and other values."""
_RADIUS2 = 4.0, 16.0
"""Rows are limited to a mean square of standardised values between these, by how much noise that takes."""
_RADIUS_NOISE = 0.02
_FAR = 2.0**100
"""Standardised values count up to it, so that squares are finite."""


@documented
@guarded
def describe(
    data: Any,
    columns: Any = None,
    *,
    eps: float,
    delta: float = 1e-6,
    correlation: bool = False,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Description | GroupedResults:
    r"""Differentially private description of a table, for one budget.

    Number of rows; of every column of numbers the missing values, mean, standard deviation and quartiles; of
    every column of levels the number of rows of each.

    Parameters
    ----------
    %(data)s
    columns : sequence of str, optional
        Which to describe, by default all that can be: numbers, truth values, and columns with declared
        levels. The budget is divided among them, so fewer are described better. Text and dates are left out
        where their type was declared, as Arrow's, polars' and pandas' nullable types are; a column of
        pandas' ``str``, ``object`` or ``datetime64`` counts as numbers and takes its part of the budget,
        unless `columns` leaves it out.
    %(eps, delta)s
    correlation : bool
        Whether to release Pearson's correlations of the columns of numbers too, over the rows in which none
        is missing. They take a third of the budget.
    %(bounds, levels, by, unit, ledger, seed)s

    Returns
    -------
    Description or GroupedResults
        ``summary()``, ``numbers``, ``levels``, ``correlation``, ``tidy()``, ``plot()``, ``guarantee`` ...

    Raises
    ------
    %(errors)s

    Notes
    -----
    **Method.** Means and standard deviations as :func:`dpstats.mean` has them. Quartiles by noisy bisection
    of the lattice of doubles, all three together; noisy counts of the rows between points around them then
    give the quartiles again, and Woodruff's intervals for them: the values whose released ranks are

    .. math:: q \tilde n \pm z \sqrt{q (1 - q) \tilde n + \sigma^2}.

    Levels by one noisy histogram a column.

    %(gaussian steps)s
    Proof: ``docs/privacy/describe.md``.

    **Intervals** of means, standard deviations, quartiles, and shares of levels cover sampling and privacy
    noise; counts of rows and of missing values are those of the table, and their standard errors are those of
    the noise. Of a standard deviation that noise hides, the table has the upper end of the interval, as
    ``<0.5``. What the release does not determine is ``n.d.`` in the table: so are mean and standard deviation
    where the counts around the quartiles show more rows far out than such a deviation allows for. Where means
    are those of limited values, marked by ``*`` in the table, correlations are too. Rows far out are
    shortened for correlations: those of skewed columns may be off by more than their standard errors say.

    %(diamonds)s
    >>> table = dpstats.describe(diamonds, ["price", "carat", "cut"], eps=1, seed=1)  # seeded for the example
    >>> table.numbers[["mean", "median"]].round(1)
             mean  median
    price  3922.8  2406.0
    carat     0.8     0.7
    """
    check("correlation", correlation, "flag")
    if isinstance(data, str) and not (columns is None or isinstance(columns, list | tuple | str)):
        fail("data", data, "a table, which comes first: describe(data, columns, eps=1)")
    if isinstance(columns, pd.Index | np.ndarray) and columns.ndim == 1:
        columns = columns.tolist()
    if not (columns is None or isinstance(columns, list | tuple | str)):
        fail("columns", columns, "None or a list of names of columns")
    named = ", ".join(map(str, [columns] if isinstance(columns, str) else columns or ["all columns"]))

    def listing(call: Call, schema: Schema) -> Listing:
        found = Listing.of(columns, schema, (call.by, call.unit))
        if correlation and len(found.numbers) < 2:
            fail("correlation", True, "False for fewer than two columns of numbers")
        return found

    def budget(design: Listing, call: Call, rows: int | None) -> _Budget:
        return _budget(design, call, correlation)

    needs = Needs(responses="any")
    estimator: Any = Estimator("describe", budget, _release, _results, needs, design=listing)  # type: ignore[arg-type]
    return run(estimator, Call(named, data, eps, delta, bounds, levels, by, ledger, seed, unit))


@dataclass(frozen=True)
class _Budget:
    """Everything public: what is described, and the Gaussian-DP parameter of every step."""

    guarantee: Guarantee
    mus: dict[str, float]
    listing: Listing


def _budget(listing: Listing, call: Call, correlation: bool) -> _Budget:
    numbers, factors = len(listing.numbers), len(listing.factors)
    free = sum(c.bounds is None for c in listing.numbers)
    parts = numbers * (1 + _CORRELATION * correlation) + factors * _FACTOR
    one = (1 - _COUNT) / parts
    steps = [Step("count", "numbers of rows and of missing values", _COUNT)]
    for key, (words, share) in _SHARES.items():
        times = free if key in ("scale", "tail") else numbers
        steps.append(Step(key, words, share * one * times, max(times, 1)))
    steps.append(Step("levels", "numbers of rows by level", one * _FACTOR * factors))
    products = one * _CORRELATION * numbers * correlation
    steps.append(Step("products", "products of columns", products * (1 - _SQUARES)))
    steps.append(Step("squares", "products of squares", products * _SQUARES))
    mus, guarantee = divide(call.eps, call.delta, steps, call.seeded)
    return _Budget(guarantee, mus, listing)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases."""

    rows: float
    rows_sd: float
    numbers: tuple[NumberSummary, ...]
    levels: tuple[LevelCounts, ...]
    correlation: Correlation | None


def _release(rows: ColumnRows, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed: every step is a Gaussian mechanism on sums
    or counts over the rows, in coordinates fixed by what has been released before. Argument:
    ``docs/privacy/describe.md``.
    """
    listing, mus = budget.listing, budget.mus
    p = len(listing.numbers)
    # a row adds 1 to the number of rows and to each number of missing values at most
    total = rows.count()
    missing = np.array([total - len(rows.numbers(column)) for column in listing.numbers], float)
    sensitivity = math.sqrt(1 + p)
    noisy = gaussian(np.append(total, missing), sensitivity, mus["count"], rng)
    sd = sensitivity / mus["count"]
    count = max(float(noisy[0]), 1.0)
    numbers = []
    for column, gone in zip(listing.numbers, noisy[1:], strict=True):
        shown = float(gone) if gone > SEEN * sd else 0.0
        present, present_sd = max(count - shown, 1.0), sd * math.sqrt(1 + (shown > 0))
        summary = _number(rows.numbers(column), column, present, present_sd, budget, rng)
        numbers.append(replace(summary, missing=max(float(gone), 0.0), missing_sd=sd))
    levels = _levels(rows, budget, rng) if listing.factors else ()
    pairs = _correlation(rows, numbers, budget, rng) if mus["products"] else None
    return _Release(float(noisy[0]), sd, tuple(numbers), levels, pairs)


def _number(
    x: Floats, column: Column, count: float, count_sd: float, budget: _Budget, rng: Randomness
) -> NumberSummary:
    """A column of numbers: mean, standard deviation and quartiles."""
    mus = budget.mus
    x = np.sort(x)
    quartiles = bisected(x, _QUARTILES, mus["search"], rng)
    # about the median, so that the mean needs no location of its own
    middle = 0.0 if column.bounds else _middle(quartiles)
    own = MeanBudget(
        budget.guarantee, mus | {"count": 1 / count_sd, "location": 0.0}, (column.bounds,), None, 1
    )
    try:
        (mean,) = limited_means("describe", Rows(np.ones((len(x), 1)), x - middle), own, count, rng)
    except ReleaseFailed:
        # too few rows to see their range, by the released count alone
        mean = MeanColumn(math.nan)
    mean = replace(mean, estimate=mean.estimate + middle, low=mean.low + middle, high=mean.high + middle)
    unit = mean.spread if math.isfinite(mean.spread) else 0.0
    around = counted(x, quartiles, unit, mus["anchors"], mus["points"], mus["parts"], rng)
    found = NumberSummary(column.name, count, count_sd, mean, around, column.bounds)
    # of most rows at one value noise may show their distance to the location, and hide all others
    return replace(found, mean=MeanColumn(math.nan)) if found.overrun else found


def _middle(quartiles: Floats) -> float:
    """The released median, or 0 where it stands for zeros: their distance to it is no variation."""
    relative, least = _BESIDE_ZERO
    median = float(quartiles[1])
    return 0.0 if abs(median) < max(relative * float(np.abs(quartiles).max()), least) else median


def _levels(rows: ColumnRows, budget: _Budget, rng: Randomness) -> tuple[LevelCounts, ...]:
    """Numbers of rows by level, and of those of none, of all factors together: a row adds 1 to one count of
    each."""
    factors = budget.listing.factors
    counts = [
        np.bincount(np.where(codes < 0, len(levels), codes), minlength=len(levels) + 1)
        for name, levels in factors
        for codes in [rows.codes(name, levels)]
    ]
    sensitivity, mu = math.sqrt(len(factors)), budget.mus["levels"]
    noisy = gaussian(np.concatenate(counts), sensitivity, mu, rng)
    ends = np.cumsum([len(c) for c in counts])[:-1]
    return tuple(
        LevelCounts(name, levels, part, sensitivity / mu)
        for (name, levels), part in zip(factors, np.split(noisy, ends), strict=True)
    )


def _correlation(
    rows: ColumnRows, numbers: Sequence[NumberSummary], budget: _Budget, rng: Randomness
) -> Correlation:
    r"""Correlations of the columns that vary visibly.

    Values are moved into the limits of their mean if it is one of limited values, so that the released means
    and standard deviations, by which they are standardised, are theirs. Rows are then shortened to a length
    that bounds the noise: a row adds a matrix of Frobenius norm at most the square of that.
    """
    mus, columns = budget.mus, budget.listing.numbers
    seen = [j for j, n in enumerate(numbers) if n.mean.spread > 0]
    q, names = len(seen), tuple(n.name for n in numbers)
    if q < 2:
        return Correlation(names, *np.full((2, len(names), len(names)), np.nan))
    means = [numbers[j].mean for j in seen]
    loc, scale = (np.array([getattr(m, key) for m in means]) for key in ("estimate", "spread"))
    ends = np.array([(m.low, m.high) if m.limited else (-np.inf, np.inf) for m in means])
    Z = np.clip(rows.complete([columns[j] for j in seen]), *ends.T)
    Z = np.clip((Z - loc) / scale, -_FAR, _FAR)
    count = max(min(n.count for n in numbers), 1.0)
    # the noise of a product is c q / mu
    c = min(max(_RADIUS_NOISE * count * mus["products"] / q, _RADIUS2[0]), _RADIUS2[1])
    Z /= np.maximum(np.sqrt((Z**2).sum(axis=1, keepdims=True) / (c * q)), 1.0)
    response = np.zeros((len(Z), 1))
    gram = whitened_gram(Rows(Z, response), q, c * q, mus["products"], rng)
    squares = whitened_gram(Rows(Z**2, response), q, (c * q) ** 2, mus["squares"], rng)
    return Correlation.of(names, seen, gram / count, squares / count, c * q / mus["products"] / count, count)


def _reminder(listing: Listing, numbers: Sequence[NumberSummary]) -> Iterator[str]:
    """Which columns of no declared type may hold text or dates: those whose values are seen to be missing."""
    untyped = {c.name for c in listing.numbers if c.kind == "untyped"}
    empty = [n.name for n in numbers if n.name in untyped and n.all_missing]
    if empty:
        yield (
            "All values that are seen of columns of no declared type are missing: " + ", ".join(empty)
            + ". What is no number counts as missing (pd.to_numeric; dates as days); text needs levels=."
        )  # fmt: skip


def _results(listing: Listing, budget: _Budget, release: _Release) -> Description:
    """The description from the release alone."""
    return Description(
        columns=listing.formula,
        rows=release.rows,
        rows_sd=release.rows_sd,
        number_summaries=release.numbers,
        level_counts=release.levels,
        correlations=release.correlation,
        guarantee=budget.guarantee,
        skipped=listing.skipped,
        notes=tuple(_reminder(listing, release.numbers)),
    )
