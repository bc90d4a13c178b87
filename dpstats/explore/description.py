"""What :func:`dpstats.describe` returns: released numbers about the columns of a table, and the tables of
them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from dpstats._boundary import guarded
from dpstats._text import UNDETERMINED, Summary, Table, Tabled, format_row, format_value
from dpstats._types import Booleans, Floats
from dpstats._validation import check
from dpstats.errors import NotReleased
from dpstats.location.mean import MeanColumn
from dpstats.mechanisms.quantiles import Distribution
from dpstats.privacy.guarantee import Guarantee
from dpstats.results import inference
from dpstats.results.parts import Origin
from dpstats.results.spends import spends_table
from dpstats.results.table import format_ends, promise

__all__ = ["Correlation", "Description", "LevelCounts", "NumberSummary"]

QUARTILES = {"25 %": 0.25, "median": 0.5, "75 %": 0.75}
_LARGEST_SE = 0.5
"""A correlation with a larger standard error is not determined."""
_SEEN = 2.5
"""Standard deviations of the noise from which on missing values are seen."""


@dataclass(frozen=True)
class NumberSummary:
    """What is released of a column of numbers.

    Attributes
    ----------
    name : str
    count, count_sd : float
        Number of values that are not missing, and the standard deviation of its noise.
    mean : MeanColumn
        With the standard deviation of the values.
    around : Distribution
        Numbers of rows below points around the quartiles.
    bounds : (float, float) or None
    missing, missing_sd : float
    """

    name: str
    count: float
    count_sd: float
    mean: MeanColumn
    around: Distribution
    bounds: tuple[float, float] | None = None
    missing: float = 0.0
    missing_sd: float = 0.0

    def rows(self, alpha: float) -> Iterator[tuple[str, float, float, float, float]]:
        """Statistic, estimate, standard error, and ends of the interval."""
        m = self.mean
        yield "missing", self.missing, self.missing_sd, *_around(self.missing, self.missing_sd, alpha)
        known = m.variance >= 0
        yield "mean", m.estimate if known else math.nan, *_with_interval(m.estimate, m.variance, alpha)
        yield "sd", m.spread, math.nan, math.nan, math.nan
        for label, q in QUARTILES.items():
            ends = list(self.around.interval(q, self.count, self.count_sd, alpha))
            value = self.around.estimate(q * self.count)
            if self.bounds is not None:
                value, *ends = (min(max(x, self.bounds[0]), self.bounds[1]) for x in (value, *ends))
            low, high = (x if math.isfinite(x) else math.nan for x in ends)
            # a quartile whose interval has no end is not determined
            yield label, math.nan if math.isnan(low) or math.isnan(high) else value, math.nan, low, high


def _with_interval(estimate: float, variance: float, alpha: float) -> tuple[float, float, float]:
    se = math.sqrt(variance) if variance >= 0 else math.nan
    low, high = inference.wald_interval([estimate], [se], alpha)[0]
    return se, float(low), float(high)


def _around(count: float, sd: float, alpha: float) -> tuple[float, float]:
    low, high = inference.wald_interval([count], [sd], alpha)[0]
    return max(float(low), 0.0), float(high)


@dataclass(frozen=True)
class LevelCounts:
    """Released numbers of rows by level of a column.

    Attributes
    ----------
    name : str
    levels : tuple
    noisy : (levels + 1,) array
        The last is the number of rows of none.
    sd : float
        Standard deviation of the noise of each.
    """

    name: str
    levels: tuple[Any, ...]
    noisy: Floats
    sd: float

    @property
    def counts(self) -> Floats:
        """Numbers of rows, at least 0."""
        return np.maximum(self.noisy, 0.0)

    def shares(self, alpha: float) -> Floats:
        """Share of each level among the rows that have one, standard error, and interval: (levels, 4)."""
        total = max(float(self.noisy[:-1].sum()), 1.0)
        share = np.clip(self.noisy[:-1] / total, 0.0, 1.0)
        # of a share c / n: the noise of the count, and through n that of all counts
        noise = (1 - 2 * share + len(self.levels) * share**2) * (self.sd / total) ** 2
        # the most that a count may have been, where none is left
        within = np.maximum(share * (1 - share), self.sd / total * (share == 0)) / total
        se = np.sqrt(noise + within)
        ends = np.clip(inference.wald_interval(share, se, alpha), 0.0, 1.0)
        return np.column_stack([share, se, ends])


@dataclass(frozen=True)
class Correlation:
    """Released correlations and their standard errors, (p, p) each; NaN where they are not determined."""

    names: tuple[str, ...]
    estimates: Floats
    se: Floats

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        seen: list[int],
        gram: Floats,
        squares: Floats,
        noise: float,
        count: float,
    ) -> "Correlation":
        r"""Correlations of standardised columns from their mean products.

        The variance of a correlation is that of elliptical distributions, whose kurtosis the mean products of
        squares tell, :math:`(1 + \kappa)(1 - r^2)^2 / n` (Muirhead 1982, section 5.1), and of the noise.

        Parameters
        ----------
        names : tuple of str
        seen : list of int
            Positions of the columns that vary visibly.
        gram, squares : (q, q) arrays
            Mean products of the values, and of their squares.
        noise : float
            Standard deviation of the noise of ``gram`` on the diagonal; beside it, less by ``sqrt(2)``.
        count : float
        """
        variance = np.diag(gram)
        safe = np.where(variance > 2 * noise, variance, np.nan)
        unit = np.sqrt(safe)
        r = np.clip(gram / unit[:, None] / unit, -1.0, 1.0)
        kurtosis = squares / safe[:, None] / safe / (1 + 2 * r**2)
        sampling = np.clip(kurtosis, 0.2, None) * (1 - r**2) ** 2 / count
        relative = (noise / safe) ** 2
        of_noise = noise**2 / 2 / safe[:, None] / safe + r**2 / 4 * (relative[:, None] + relative)
        se = np.sqrt(sampling + of_noise)
        estimates, errors = np.full((2, len(names), len(names)), np.nan)
        known = se < _LARGEST_SE
        estimates[np.ix_(seen, seen)] = np.where(known, r, np.nan)
        errors[np.ix_(seen, seen)] = np.where(known, se, np.nan)
        np.fill_diagonal(estimates, 1.0)
        np.fill_diagonal(errors, 0.0)
        return cls(names, estimates, errors)


@dataclass(frozen=True, eq=False, repr=False)
class Description(Tabled):
    """A released description of a table, made by :func:`dpstats.describe`.

    Attributes
    ----------
    columns : str
        Their names.
    rows, rows_sd : float
        Released number of rows, and the standard deviation of its noise.
    guarantee : Guarantee
    skipped : tuple of str
        Columns that could not be described: texts without declared levels, dates.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> table = dpstats.describe(diamonds, ["carat", "cut"], eps=1, seed=1)  # seeded for the example
    >>> table.levels.loc["cut", "share"].round(2).to_dict()
    {'Fair': 0.03, 'Good': 0.09, 'Very Good': 0.22, 'Premium': 0.26, 'Ideal': 0.4}
    """

    columns: str
    rows: float
    rows_sd: float
    number_summaries: tuple[NumberSummary, ...]
    level_counts: tuple[LevelCounts, ...]
    correlations: Correlation | None
    guarantee: Guarantee
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    limited: tuple[tuple[str, float, float], ...] = field(default=(), repr=False)
    design: None = None
    origin: Origin | None = None
    alpha = 0.05

    @property
    def numbers(self) -> pd.DataFrame:
        """Columns ``missing, mean, sd, 25 %, median, 75 %``, a row for each column of numbers; NaN where the
        release does not determine one."""
        rows = {n.name: {key: value for key, value, *_ in n.rows(self.alpha)} for n in self.number_summaries}
        return pd.DataFrame.from_dict(rows, orient="index", columns=["missing", "mean", "sd", *QUARTILES])

    @property
    def levels(self) -> pd.DataFrame:
        """Columns ``count, share, std.error, conf.low, conf.high`` of every level; the last three are those
        of the share among rows that have a level.
        """
        index, rows = [], []
        for factor in self.level_counts:
            index += [(factor.name, level) for level in factor.levels]
            rows.append(np.column_stack([factor.counts[:-1], factor.shares(self.alpha)]))
        return pd.DataFrame(
            np.concatenate(rows) if rows else np.empty((0, 5)),
            index=pd.MultiIndex.from_tuples(index, names=["column", "level"]) if index else None,
            columns=["count", "share", "std.error", "conf.low", "conf.high"],
        )

    @property
    def correlation(self) -> pd.DataFrame:
        """Correlations of the columns of numbers, NaN where they are not determined."""
        found = self._released_correlations()
        return pd.DataFrame(found.estimates, index=list(found.names), columns=list(found.names))

    @property
    def correlation_se(self) -> pd.DataFrame:
        """Standard errors of :attr:`correlation`: of sampling and privacy noise."""
        found = self._released_correlations()
        return pd.DataFrame(found.se, index=list(found.names), columns=list(found.names))

    def _released_correlations(self) -> Correlation:
        if self.correlations is None:
            raise NotReleased("No correlations were released: correlation=True releases them.")
        return self.correlations

    @guarded
    def tidy(self, alpha: float | None = None) -> pd.DataFrame:
        """One row for each statistic.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            One minus the confidence of the intervals, by default 0.05.

        Returns
        -------
        DataFrame
            Columns ``column, statistic, estimate, std.error, conf.low, conf.high``. Means, quartiles and
            shares have intervals that cover sampling and privacy noise; the number of rows, and those of
            missing values, intervals that cover privacy noise.
        """
        names = ["column", "statistic", "estimate", "std.error", "conf.low", "conf.high"]
        return pd.DataFrame(
            list(self._rows(check("alpha", self.alpha if alpha is None else alpha))), columns=names
        )

    def _rows(self, alpha: float) -> Iterator[tuple[Any, ...]]:
        yield "", "rows", max(self.rows, 0.0), self.rows_sd, *_around(self.rows, self.rows_sd, alpha)
        for number in self.number_summaries:
            for row in number.rows(alpha):
                yield number.name, *row
        for factor in self.level_counts:
            lost = float(factor.counts[-1])
            yield factor.name, "missing", lost, factor.sd, *_around(float(factor.noisy[-1]), factor.sd, alpha)
            for level, shares in zip(factor.levels, factor.shares(alpha), strict=True):
                yield factor.name, f"share of {level}", *map(float, shares)

    @guarded
    def summary(self, alpha: float | None = None) -> Summary:
        """The tables, and the guarantee.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            One minus the confidence of the intervals, by default 0.05.

        Returns
        -------
        dpstats._text.Summary
        """
        alpha = check("alpha", self.alpha if alpha is None else alpha)
        tables = [
            t for t in (self._numbers_table(), self._levels_table(alpha), self._pairs_table()) if t.rows
        ]
        percent = f"{100 * (1 - alpha):.10g}%"
        covers = (
            f"Standard errors of means, and {percent} intervals of shares, cover sampling and privacy noise; "
            "tidy() has all intervals. Of rows and missing values the numbers in the table are estimated, "
            "and their error is privacy noise alone."
        )
        return Summary(
            title="Description (differentially private)",
            formula="",
            facts=(
                ("Rows (noisy)", f"{max(self.rows, 0):,.0f}"),
                ("Std. dev. of its noise", f"{self.rows_sd:,.0f}"),
            ),
            coefficients=tables[0],
            further=tuple(tables[1:]),
            paragraphs=(*self._legend(), covers, *promise(self.guarantee)),
            spends=spends_table(self.guarantee),
            notes=(*self._notes(), *self.notes),
        )

    def _legend(self) -> tuple[str, ...]:
        frame = self.numbers
        if not frame.isna().any().any():
            return ()
        return (
            f"{UNDETERMINED}: not determined by this release; more rows, a larger eps or fewer columns "
            "would.",
        )

    def _notes(self) -> Iterator[str]:
        limited = [
            f"{n.name} {format_ends(n.mean.low, n.mean.high)}"
            for n in self.number_summaries
            if n.mean.limited
        ]
        if limited:
            yield (
                "Means and standard deviations are those of values moved into: " + ", ".join(limited)
                + ". How many lie further out, and where, is too little seen at this budget."
            )  # fmt: skip
        if self.skipped:
            yield (
                "Not described, as they have no declared levels or are no numbers: "
                + ", ".join(self.skipped)
                + "."
            )

    def _numbers_table(self) -> Table:
        rows = []
        for n in self.number_summaries:
            found = {key: (value, se) for key, value, se, *_ in n.rows(self.alpha)}
            mean, se = found["mean"]
            texts = [*format_row(mean, se), *(format_value(found[k][0]) for k in ("sd", *QUARTILES))]
            rows.append(
                (n.name, self._missing(*found["missing"]), *(UNDETERMINED if t == "-" else t for t in texts))
            )
        return Table(("", "missing", "mean", "std err", "sd", *QUARTILES), tuple(rows))

    @staticmethod
    def _missing(count: float, sd: float) -> str:
        """A number of missing values, or the least that would have been seen."""
        return f"{count:,.0f}" if count > _SEEN * sd else f"<{_SEEN * sd:,.0f}"

    def _levels_table(self, alpha: float) -> Table:
        rows = []
        for factor in self.level_counts:
            rows.append(
                (f"{factor.name} (missing: {self._missing(factor.counts[-1], factor.sd)})", *[""] * 5)
            )
            for level, count, (share, se, low, high) in zip(
                factor.levels, factor.counts, factor.shares(alpha), strict=False
            ):
                rows.append((f"  {level}", f"{count:,.0f}", *(f"{x:.4f}" for x in (share, se, low, high))))
        ends = f"[{alpha / 2:.6g}", f"{1 - alpha / 2:.6g}]"
        return Table(("", "rows", "share", "std err", *ends), tuple(rows))

    def _pairs_table(self) -> Table:
        found = self.correlations
        if found is None:
            return Table(("",), ())
        rows = tuple(
            (
                name,
                *(UNDETERMINED if math.isnan(r) else f"{r:.2f}" for r in line[: i + 1]),
                *[""] * (len(line) - i - 1),
            )
            for i, (name, line) in enumerate(zip(found.names, found.estimates, strict=True))
        )
        return Table(("correlation", *(name[:8] for name in found.names)), rows)

    def to_dict(self) -> dict[str, Any]:
        """All released numbers as plain dicts, lists and numbers; None for what is not determined."""

        def plain(x: Any) -> Any:
            return None if isinstance(x, float) and not math.isfinite(x) else x

        found = self.correlations
        return {
            "columns": self.columns,
            "statistics": [{k: plain(v) for k, v in row.items()} for row in self.tidy().to_dict("records")],
            "correlation": None
            if found is None
            else {
                "names": list(found.names),
                "estimates": [[plain(float(x)) for x in row] for row in found.estimates],
                "std.errors": [[plain(float(x)) for x in row] for row in found.se],
            },
            "guarantee": self.guarantee.to_dict(),
        }

    @guarded
    def plot(self, columns: Any = None) -> Any:
        """A panel for each column, and one of the correlations; see
        :func:`dpstats.explore.panels.description`.
        """
        from dpstats.explore.panels import description

        return description(self, columns)

    def __repr__(self) -> str:
        return f"<Description: {self.columns}, {self.guarantee}>"

    # -- what a table of groups reads -----------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(
            f"{column}: {statistic}".removeprefix(": ") for column, statistic, *_ in self._rows(self.alpha)
        )

    @property
    def estimates(self) -> Floats:
        return np.array([row[2] for row in self._rows(self.alpha)])

    def table(self, alpha: float | None = None) -> Floats:
        """The columns of :meth:`dpstats.results.results.Results.table`, without tests."""
        found = np.array([row[2:] for row in self._rows(self.alpha if alpha is None else alpha)], float)
        return np.column_stack([found[:, :2], np.full((len(found), 2), np.nan), found[:, 2:]])

    def _determined(self) -> Booleans:
        return ~np.isnan(self.estimates)
