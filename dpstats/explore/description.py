"""What :func:`dpstats.describe` returns: released numbers about the columns of a table, and the tables of
them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpstats._boundary import guarded
from dpstats._format import MISSING, UNDETERMINED, format_row, format_value
from dpstats._text import Summary, Table, Tabled
from dpstats._types import Booleans, Floats
from dpstats._validation import check
from dpstats.errors import NotReleased
from dpstats.explore.described import QUARTILES, SEEN, Correlation, LevelCounts, NumberSummary, around
from dpstats.location.tail import unseen_note
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.estimates import with_limits
from dpstats.results.parts import Origin
from dpstats.results.saved import plain
from dpstats.results.spends import spends_table
from dpstats.results.table import NOISY, format_ends, promise

__all__ = ["Description"]

_LIMITED = "*"
"""Marks columns whose mean is of limited values."""
_SD = 4
"""Where a row of the table of numbers has the standard deviation."""


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
        Columns that could not be described: texts without declared levels and dates, of a declared type. Of
        pandas a ``category``, a nullable type or one of Arrow is declared; a column of ``str``, ``object`` or
        ``datetime64`` counts as numbers, and what is no number as missing.

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
    design: None = None
    origin: Origin | None = None
    alpha = 0.05
    side_by_side = True  # groups are columns of one table

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
            Columns ``column, statistic, estimate, std.error, conf.low, conf.high`` and ``limited.low,
            limited.high``. Means, standard deviations, quartiles and shares have intervals that cover
            sampling and privacy noise; the number of rows, and those of missing values, intervals that cover
            privacy noise. A standard deviation that noise hides has an interval alone. The last two are the
            ends of the interval into which values were moved, if a mean, and a standard deviation with it, is
            of such ones.

        Raises
        ------
        ParameterError
            If `alpha` is out of range.

        Examples
        --------
        >>> import dpstats
        >>> table = dpstats.datasets.load_diamonds()[::10]
        >>> found = dpstats.describe(table, ["carat", "cut"], eps=5, seed=1)  # seeded for the example
        >>> found.tidy()[["column", "statistic", "estimate"]][2:7].round(1)
          column statistic  estimate
        2  carat      mean       0.8
        3  carat        sd       0.5
        4  carat      25 %       0.4
        5  carat    median       0.7
        6  carat      75 %       1.0
        """
        names = ["column", "statistic", "estimate", "std.error", "conf.low", "conf.high"]
        rows = list(self._rows(check("alpha", self.alpha if alpha is None else alpha)))
        limited = [
            (name.removesuffix("mean") + what, low, high)
            for name, low, high in self.limited
            for what in ("mean", "sd")
        ]
        terms = [f"{column}: {statistic}" for column, statistic, *_ in rows]
        return with_limits(pd.DataFrame(rows, columns=names), [terms], [limited], always=True)

    def _rows(self, alpha: float) -> Iterator[tuple[Any, ...]]:
        yield "", "rows", max(self.rows, 0.0), self.rows_sd, *around(self.rows, self.rows_sd, alpha)
        for number in self.number_summaries:
            for row in number.rows(alpha):
                yield number.name, *row
        for factor in self.level_counts:
            lost = float(factor.counts[-1])
            yield factor.name, "missing", lost, factor.sd, *around(float(factor.noisy[-1]), factor.sd, alpha)
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
            Prints as text of 78 columns; ``as_text()``, ``as_html()``, ``as_latex()``.

        Raises
        ------
        ParameterError
            If `alpha` is out of range.

        Examples
        --------
        >>> import dpstats
        >>> table = dpstats.datasets.load_diamonds()[::10]
        >>> found = dpstats.describe(table, ["carat", "cut"], eps=5, seed=1)  # seeded for the example
        >>> print("\\n".join(found.summary().as_text().splitlines()[3:7]))
        ==============================================================================
                                missing     mean  std err     sd   25 %  median   75 %
        ------------------------------------------------------------------------------
        carat                       <16  0.79838  0.00687  0.470  0.400   0.700  1.040
        """
        alpha = check("alpha", self.alpha if alpha is None else alpha)
        tables = [
            t for t in (self._numbers_table(alpha), self._levels_table(alpha), self._pairs_table()) if t.rows
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
                (NOISY[self.guarantee.unit is not None], f"{max(self.rows, 0):,.0f}"),
                ("Std. dev. of its noise", _spread_of_noise(self.rows_sd)),
            ),
            coefficients=tables[0],
            further=tuple(tables[1:]),
            paragraphs=(*self._legend(alpha), covers, *promise(self.guarantee)),
            spends=spends_table(self.guarantee),
            notes=(*self._notes(), *self.notes),
        )

    def _legend(self, alpha: float) -> Iterator[str]:
        rows = self._numbers_table(alpha).rows
        empty = {
            n.all_missing for n, row in zip(self.number_summaries, rows, strict=True) if UNDETERMINED in row
        }
        if any(UNDETERMINED in row for row in self._levels_table(alpha).rows):
            empty.add(False)
        if False in empty:
            still = any(
                mean == UNDETERMINED != middle and low == middle == high
                for _, _, mean, *_, low, middle, high in rows
            )
            why = ["all values are missing"] * (True in empty) + ["a column does not vary"] * still
            which = f", except where {' or '.join(why)}" if why else ""
            yield (
                f"{UNDETERMINED}: not determined by this release; more rows, a larger eps or fewer columns "
                f"may help{which}."
            )
        elif empty:
            yield f"{UNDETERMINED}: not determined, as all values that are seen are missing."
        if any(row[_SD].startswith("<") for row in rows):
            yield "sd <: noise hides the standard deviation, which is smaller than that."

    def _notes(self) -> Iterator[str]:
        limited = [f"{name.removesuffix(': mean')} {format_ends(*ends)}" for name, *ends in self.limited]
        if limited:
            what = (
                ", standard deviations and correlations" if self.correlations else " and standard deviations"
            )
            yield (
                f"{_LIMITED} Means{what} are those of values moved into: " + ", ".join(limited)
                + ". How many lie further out, and where, is too little seen at this budget: fewer columns, "
                "or a larger eps, would show more."
            )  # fmt: skip
        unseen = [n.mean.unseen for n in self.number_summaries if n.mean.variance >= 0 and not n.mean.limited]
        if max(unseen, default=0.0) >= 1:
            yield unseen_note(max(unseen), "the limits of a mean") + "; its interval may not allow for these."
        shortened = self.correlations.shortened if self.correlations else ()
        if shortened:
            yield (
                "In correlations rows count as if they were less far out; those of columns with long tails "
                "are nearer to the correlations of most rows than to Pearson's: "
                + ", ".join(shortened) + "."
            )  # fmt: skip
        if self.skipped:
            yield (
                "Not described, as they have no declared levels, are no numbers or occur more than once: "
                + ", ".join(self.skipped)
                + "."
            )

    def _numbers_table(self, alpha: float) -> Table:
        rows = []
        for n in self.number_summaries:
            found = {key: row for key, *row in n.rows(alpha)}
            mean, se, *_ = found["mean"]
            others = [found[key] for key in ("sd", *QUARTILES)]
            texts = [*format_row(mean, se), *(_within(x, low, high) for x, _, low, high in others)]
            # (before the name, of which a table may cut the end)
            name = f"{_LIMITED} {n.name}" if n.mean.limited and not math.isnan(mean) else n.name
            gone, sd, *_ = found["missing"]
            missing = self._missing(gone, sd, alpha)
            rows.append((name, missing, *(UNDETERMINED if t == MISSING else t for t in texts)))
        return Table(("", "missing", "mean", "std err", "sd", *QUARTILES), tuple(rows))

    @staticmethod
    def _missing(count: float, sd: float, alpha: float) -> str:
        """A number of missing values, or the upper end of its interval where noise hides it."""
        most = math.ceil(around(count, sd, alpha)[1])
        return f"{count:,.0f}" if count > SEEN * sd else f"<{most:,}"

    def _levels_table(self, alpha: float) -> Table:
        rows = []
        for factor in self.level_counts:
            missing = self._missing(float(factor.noisy[-1]), factor.sd, alpha)
            rows.append((f"{factor.name} (missing: {missing})", *[""] * 5))
            for level, count, (share, se, low, high) in zip(
                factor.levels, factor.counts, factor.shares(alpha), strict=False
            ):
                rows.append((f"  {level}", f"{count:,.0f}", *map(_share, (share, se, low, high))))
        ends = f"[{alpha / 2:.6g}", f"{1 - alpha / 2:.6g}]"
        return Table(("", "rows", "share", "std err", *ends), tuple(rows))

    def _pairs_table(self) -> Table:
        found = self.correlations
        if found is None:
            return Table(("",), ())
        rows = tuple(
            (
                name,
                *(UNDETERMINED if math.isnan(r) else f"{r:z.2f}" for r in line[: i + 1]),
                *[""] * (len(line) - i - 1),
            )
            for i, (name, line) in enumerate(zip(found.names, found.estimates, strict=True))
        )
        return Table(("correlation", *(name[:8] for name in found.names)), rows)

    def to_dict(self) -> dict[str, Any]:
        """All released numbers as plain dicts, lists and numbers; None for what is not determined.

        Returns
        -------
        dict

        Examples
        --------
        >>> import dpstats
        >>> table = dpstats.datasets.load_diamonds()[::10]
        >>> found = dpstats.describe(table, ["carat", "cut"], eps=5, seed=1)  # seeded for the example
        >>> found.to_dict()["statistics"][2]["statistic"], len(found.to_dict()["statistics"])
        ('mean', 13)
        """
        found = self.correlations
        return {
            "columns": self.columns,
            "limited": [list(ends) for ends in self.limited],
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

        Parameters
        ----------
        columns : sequence of str, optional
            Which of them; by default all.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import dpstats
        >>> table = dpstats.datasets.load_diamonds()[::10]
        >>> found = dpstats.describe(table, ["carat", "cut"], eps=5, seed=1)  # seeded for the example
        >>> [ax.get_title() for ax in found.plot().axes]
        ['carat', 'cut']
        """
        from dpstats.explore.panels import description

        return description(self, columns)

    def __repr__(self) -> str:
        return f"<Description: {self.columns}, {self.guarantee}>"

    # -- what a table of groups reads -----------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """What the estimates are called in a table of groups."""
        return tuple(
            f"{column}: {statistic}".removeprefix(": ") for column, statistic, *_ in self._rows(self.alpha)
        )

    @property
    def estimates(self) -> Floats:
        """The released numbers, in the order of :attr:`names`."""
        return np.array([row[2] for row in self._rows(self.alpha)])

    def table(self, alpha: float | None = None) -> Floats:
        """The columns of :meth:`dpstats.results.results.Results.table`, without tests.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            One minus the confidence of the intervals, by default 0.05.

        Returns
        -------
        (statistics, 6) ndarray

        Raises
        ------
        ParameterError
            If `alpha` is out of range.

        Examples
        --------
        >>> import dpstats
        >>> table = dpstats.datasets.load_diamonds()[::10]
        >>> found = dpstats.describe(table, ["carat", "cut"], eps=5, seed=1)  # seeded for the example
        >>> found.table().shape
        (13, 6)
        """
        found = np.array([row[2:] for row in self._rows(self.alpha if alpha is None else alpha)], float)
        return np.column_stack([found[:, :2], np.full((len(found), 2), np.nan), found[:, 2:]])

    @property
    def limited(self) -> tuple[tuple[str, float, float], ...]:
        """Names of the means that are of values moved into an interval, and its ends."""
        return tuple(
            (f"{n.name}: mean", float(n.mean.low), float(n.mean.high))
            for n in self.number_summaries
            if n.mean.limited and n.mean.variance >= 0
        )

    def _determined(self) -> Booleans:
        return ~np.isnan(self.estimates)


def _share(x: float) -> str:
    return UNDETERMINED if math.isnan(x) else f"{x:.4f}"


def _spread_of_noise(sd: float) -> str:
    """A standard deviation in whole rows, or two digits of one that is less than a row."""
    return f"{sd:,.0f}" if sd >= 1 or sd == 0 else f"{sd:.2g}"


def _within(estimate: float, low: float, high: float) -> str:
    """A number with the digits that its interval allows, or what it is below if noise hides it."""
    if math.isnan(estimate) and high > low:
        return f"<{format_value(high, high - low)}"
    return format_value(estimate, high - low)
