"""The released estimates of every declared group, and the table of them."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from dpstats._boundary import guarded
from dpstats._format import UNDETERMINED, listed
from dpstats._text import Summary, Table, Tabled
from dpstats._validation import check, shown, unknown_in
from dpstats.errors import ParameterError, ReleaseFailed
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.estimates import TIDY, with_limits
from dpstats.results.glm import GLMResults
from dpstats.results.habits import fixed
from dpstats.results.many import Many
from dpstats.results.parts import Origin
from dpstats.results.registry import Registered
from dpstats.results.results import Results
from dpstats.results.saved import encoded, header
from dpstats.results.table import format_ends, legend, number_of_columns, numbers

__all__ = ["GroupedResults", "gathered_notes"]

_SHOWN = 40
_NOTES = 12
"""How many lines, and how many notes that not all groups have, a table shows."""
_BESIDE = 3
"""How many groups stand beside each other where a result is a table by itself."""
_EXPONENTIATED = ["estimate", "conf.low", "conf.high"]


@fixed
@dataclass(frozen=True, eq=False, repr=False)
class GroupedResults(Tabled, Registered, Many):
    """Released estimates of every declared group.

    Made by an estimator called with ``by=``; a mapping-like collection of
    :class:`~dpstats.results.results.Results`: its keys are the groups that have one. `params`, `bse`,
    `tvalues`, `pvalues`, `determined`, `tidy()`, `summary()` and `plot()` have all groups; `conf_int()`,
    `glance()`, `t_test()` and `wald_test()` those with results alone. Tables name the groups `by`, with an
    underscore behind it where another of their columns is called so: ``term_``.

    Attributes
    ----------
    method, formula, by : str
        The estimator, the formula and the column of the groups.
    levels : tuple
        The declared groups, in their declared order.
    results : mapping
        From group to its Results, for the groups that have one.
    failed : mapping
        From group to the reason, for the others: too few rows where their number is public, or a failed
        private test.
    guarantee : Guarantee
        Of all groups together.
    origin : Origin or None
        When the release was made, and by which version of the package.

    Examples
    --------
    >>> import dpstats, numpy as np
    >>> data = {"income": np.arange(600.0), "tract": np.repeat(["a", "b", "c"], 200)}
    >>> levels = {"tract": ["a", "b", "c"]}
    >>> fits = dpstats.median("income ~ 1", data, eps=5, by="tract", levels=levels, seed=1)
    >>> len(fits), fits["b"].params.round(-1).to_dict()
    (3, {'income': 300.0})
    >>> fits.tidy().columns[:3].tolist()
    ['tract', 'term', 'estimate']
    """

    method: str
    formula: str
    by: str
    levels: tuple[Any, ...]
    results: Mapping[Any, Results]
    failed: Mapping[Any, str]
    guarantee: Guarantee
    origin: Origin | None = None

    def __post_init__(self) -> None:
        for name in ("results", "failed"):
            ordered = {
                level: getattr(self, name)[level] for level in self.levels if level in getattr(self, name)
            }
            object.__setattr__(self, name, MappingProxyType(ordered))

    def __getitem__(self, level: Any) -> Results:
        """The Results of a group; ReleaseFailed with the reason if it has none."""
        try:
            if level in self.results:
                return self.results[level]
            reason = self.failed.get(level)
        except (TypeError, ValueError):  # it has no hash, or no truth value of being equal
            reason = None
        if reason is not None:
            raise ReleaseFailed(reason, self.guarantee)
        texts = [str(each) for each in self.levels]
        meant = unknown_in([level], texts) if isinstance(level, str) else ""
        known = f"{self.by!r}, which has {listed(texts, 6)}"
        raise KeyError(f"{shown(level)} is not a declared level of {known}{meant}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the estimates, those of any group; none if all groups failed."""
        return max((result.names for result in self.results.values()), key=len, default=())

    @property
    def params(self) -> pd.DataFrame:
        """Estimates, a DataFrame with a row for each group; NaN for a group that failed.

        If all groups failed it has no columns: the names of the estimates come with the results.
        """
        return self._table({level: fit.estimates for level, fit in self.results.items()}, np.nan)

    @property
    def determined(self) -> pd.DataFrame:
        """Whether the release tells how far an estimate may be off (see :attr:`Results.determined`).

        A DataFrame of bool with a row for each group; True for a group that failed, which has no estimate.
        """
        return self._table({level: fit._determined() for level, fit in self.results.items()}, True)

    def _table(self, found: Mapping[Any, np.ndarray], failed: Any) -> pd.DataFrame:
        names, index = list(self.names), pd.Index(list(self.levels), name=self.by)
        rows = [found.get(level, [failed] * len(names)) for level in self.levels]
        values = np.array(rows, type(failed)).reshape(len(index), len(names))
        return pd.DataFrame(values, index=index, columns=names)

    @guarded
    def tidy(self, alpha: float | None = None, exponentiate: bool = False) -> pd.DataFrame:
        """One row for each group and coefficient, with broom's column names.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            One minus the confidence of the intervals, as in :meth:`Results.conf_int`.
        exponentiate : bool
            Of `logit` and `poisson`: whether estimates and intervals are of ``exp(coef)``, as in
            :meth:`GLMResults.tidy`.

        Returns
        -------
        DataFrame
            The column of the groups, then ``term, estimate, std.error, statistic, p.value, conf.low,
            conf.high``, and ``limited.low, limited.high`` as :meth:`Results.tidy` has them; NaN for a group
            that failed, and no rows if all did. The first column is called
            `by`, with an underscore behind it where another one is: ``term_``.

        Raises
        ------
        ParameterError
            If `alpha` is out of range, `exponentiate` is no truth value, or the results of the groups have
            no such table.

        Examples
        --------
        >>> import dpstats
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> fits.tidy()[["cut", "term", "estimate", "std.error"]].tail(2).round()
             cut       term  estimate  std.error
        8  Ideal  Intercept   -2367.0       54.0
        9  Ideal      carat    8253.0       55.0
        """
        alpha = None if alpha is None else check("alpha", alpha)
        d = len(self.names)
        none = np.full((d, len(TIDY)), np.nan)
        tables = [
            self.results[level].table(alpha) if level in self.results else none for level in self.levels
        ]
        frame = pd.DataFrame(np.array(tables).reshape(-1, len(TIDY)), columns=list(TIDY))
        frame.insert(0, "term", list(self.names) * len(self.levels))
        limited = [getattr(self.results.get(level), "limited", ()) for level in self.levels]
        always = self._beside
        frame = with_limits(frame, [self.names] * len(self.levels), limited, always)
        groups = np.repeat(np.array(self.levels, dtype=object), d)
        frame.insert(0, self._column(frame.columns), groups)
        if self._exponentiated(exponentiate):
            with np.errstate(over="ignore"):
                frame[_EXPONENTIATED] = np.exp(frame[_EXPONENTIATED])
        return frame.infer_objects()

    def _column(self, others: Collection[str]) -> str:
        """What the groups are called beside other columns."""
        return f"{self.by}_" if self.by in others else self.by

    def _stacked(self, tables: dict[Any, pd.DataFrame]) -> pd.DataFrame:
        found = super()._stacked(tables)
        if not tables:
            return found
        return found.rename_axis(index=[self._column(["term", *map(str, found.columns)]), "term"])

    def _exponentiated(self, exponentiate: bool) -> bool:
        """Whether tables are of ``exp(coef)``; an error where the results of the groups have no such ones."""
        wanted: bool = check("exponentiate", exponentiate, "flag")
        if wanted and not all(isinstance(result, GLMResults) for result in self.results.values()):
            raise ParameterError(
                f"exponentiate=True is for results of logit and poisson; {self.method} has no such table."
            )
        return wanted

    @guarded
    def summary(self, alpha: float | None = None, exponentiate: bool = False) -> Summary:
        """The table: a line for each group and coefficient (the first 40 lines), and the guarantee.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            One minus the confidence of the intervals, as in :meth:`Results.conf_int`.
        exponentiate : bool
            Whether the table is of ``exp(coef)``, as of :meth:`tidy`.

        Returns
        -------
        dpstats._text.Summary
            Prints as text of 78 columns; ``as_text()``, ``as_html()``, ``as_latex()``.

        Raises
        ------
        ParameterError
            As of :meth:`tidy`.

        Examples
        --------
        >>> import dpstats
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> print("\\n".join(fits.summary().as_text().splitlines()[6:10]))
                                                       coef  std err   [0.025   0.975]
        ------------------------------------------------------------------------------
        Fair: Intercept                               -1738      523    -2763     -713
        Fair: carat                                    5972      531     4931     7014
        """
        frame = self.tidy(alpha, exponentiate)
        beside = self._beside
        shown = frame.head(0 if beside else _SHOWN).drop(
            columns=["statistic", "p.value", *frame.columns[2 + len(TIDY) :]]
        )
        determined = self.determined.to_numpy().ravel()
        rows: list[tuple[str, ...]] = []
        limited = {
            (level, name): format_ends(*ends)
            for level, results in self.results.items()
            for name, *ends in results.limited
        }
        for row, known in zip(shown.itertuples(index=False, name=None), determined, strict=False):
            level, term, *values = row
            ends = limited.get((level, term))
            line = f"{level}: {term}" + (", limited to" if ends else "")
            rows.append((line, *numbers(known, *values, odds=exponentiate)))
            if ends:
                rows.append((f"  {ends}", *[""] * len(values)))
        notes = self._notes()
        if len(frame) > _SHOWN and not beside:
            notes.append(f"{len(frame) - _SHOWN:,} more lines: tidy() has them all.")
        for reason in dict.fromkeys(self.failed.values()):
            same = [str(level) for level, text in self.failed.items() if text == reason]
            notes.append(f"No estimate for {listed(same, 5)}: {reason}")
        offset = getattr(next(iter(self.results.values()), None), "offset", None)
        facts = (
            *([("Offset", offset)] if offset else []),
            ("Groups by", self.by),
            ("Groups", f"{len(self.levels):,}"),
            ("Without estimate", f"{len(self.failed):,}"),
        )
        if self.results:
            one = next(iter(self.results.values()))
            base, columns = one.summary(alpha), number_of_columns(one)
            confidence = 1 - (one.alpha if alpha is None else alpha)
        else:
            scope = () if self.guarantee.scope is None else (f"Scope: {self.guarantee.scope}",)
            title = f"{self.method} (differentially private)"
            base = Summary(title, self.formula, (), Table((), ()), (str(self.guarantee) + ".", *scope))
            confidence, columns = 0.95, 0
        coef = "exp(coef)" if exponentiate else "coef"
        header = ("", coef, "std err", f"[{(1 - confidence) / 2:.6g}", f"{(1 + confidence) / 2:.6g}]")
        marks = legend(self.determined.to_numpy().all(axis=0), columns=columns)
        paragraphs = tuple(sentence for sentence in base.paragraphs if not sentence.startswith(UNDETERMINED))
        if beside:
            tables = self._side_by_side(frame)
            base = replace(base, coefficients=tables[0], further=tuple(tables[1:]))
            words = tuple(text for text in paragraphs if not text.startswith("Standard errors of"))
            errors = "Standard errors are in parentheses; tidy() has all intervals."
            notes += [f"{level}: {name} of values moved into {e}." for (level, name), e in limited.items()]
            return self._by_group(base, facts, (*marks, errors, *words), notes)
        if exponentiate:
            paragraphs = ("exp(coef) with its interval; standard errors are of coef.", *paragraphs)
        base = replace(base, coefficients=Table(header, tuple(rows)))
        return self._by_group(base, facts, (*marks, *paragraphs), notes)

    @staticmethod
    def _by_group(
        base: Summary, facts: tuple[tuple[str, str], ...], paragraphs: tuple[str, ...], notes: list[str]
    ) -> Summary:
        title = base.title.replace(" (", ", by group (", 1)
        return replace(base, title=title, facts=facts, paragraphs=paragraphs, notes=tuple(notes))

    def _side_by_side(self, frame: pd.DataFrame) -> list[Table]:
        """Tables with a row for each estimate and a column for each group, a few groups in each."""
        cells: dict[tuple[Any, str], str] = {}
        determined = self.determined.to_numpy().ravel()
        for row, known in zip(frame.itertuples(index=False, name=None), determined, strict=True):
            level, term, estimate, se, _, _, low, high = row[:8]
            text, error, *_ = numbers(known, estimate, se, low, high)
            if not known:
                text = UNDETERMINED
            elif not math.isnan(se):
                text = f"{text} ({error})"
            cells[level, term] = text
        levels, tables = list(self.results), []
        for start in range(0, len(levels), _BESIDE):
            some = levels[start : start + _BESIDE]
            lines = [(name, *(cells.get((level, name), "") for level in some)) for name in self.names]
            tables.append(Table(("", *map(str, some)), tuple(lines)))
        return tables

    def _notes(self) -> list[str]:
        notes = [(str(level), result.notes) for level, result in self.results.items()]
        return gathered_notes(notes, "fits[group].notes has those of a group")

    def to_dict(self) -> dict[str, Any]:
        """The whole table as plain dicts, lists, strings and numbers for JSON, for :func:`dpstats.from_dict`.

        Returns
        -------
        dict
            With a list of ``groups``: each has its level as ``group``, and what :meth:`Results.to_dict`
            gives, or the reason why it ``failed``.

        Examples
        --------
        >>> import dpstats
        >>> fits = dpstats.datasets.load_fit("groups")
        >>> [group["group"] for group in fits.to_dict()["groups"]]
        ['Fair', 'Good', 'Very Good', 'Premium', 'Ideal']
        """
        return {
            "dpstats": header(type(self).__name__, self.origin),
            "method": self.method,
            "formula": self.formula,
            "by": self.by,
            "levels": encoded(self.levels),
            "groups": [
                {"group": encoded(level)}
                | (self.results[level].to_dict() if level in self.results else {"failed": self.failed[level]})
                for level in self.levels
            ],
            "guarantee": self.guarantee.to_dict(),
        }

    def __repr__(self) -> str:
        groups = f"{len(self.levels)} groups by {self.by}"
        return f"<GroupedResults {self.method}: {self.formula}, {groups}, {self.guarantee}>"

    def __eq__(self, other: object) -> bool:
        """Whether all is equal but when it was released, as of :class:`Results`."""
        if not isinstance(other, GroupedResults):
            return NotImplemented
        names = [f.name for f in fields(self) if f.name != "origin"]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]  # how Python says that there is no hash

    def __reduce__(self) -> tuple[Any, ...]:
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        return _restore, (state | {"results": dict(self.results), "failed": dict(self.failed)},)


def _restore(state: dict[str, Any]) -> GroupedResults:
    return GroupedResults(**state)


def gathered_notes(notes: Sequence[tuple[str, Sequence[str]]], rest: str) -> list[str]:
    """The notes that all of several results have, then each one's own, as far as there is room.

    Parameters
    ----------
    notes : sequence of (str, sequence of str)
        What a result is called, and its notes.
    rest : str
        Where those are for which there is no room.

    Returns
    -------
    list of str

    Examples
    --------
    >>> gathered_notes([("a", ["Of all.", "Limits [0, 1]."]), ("b", ["Of all."])], "fits have them")
    ['Of all.', 'a: Limits [0, 1].']
    """
    common = [note for note in (notes[0][1] if notes else ()) if all(note in each for _, each in notes)]
    own = [f"{name}: {note}" for name, each in notes for note in each if note not in common]
    beyond = len(own) - _NOTES
    more = [f"{beyond:,} more note{'s' * (beyond > 1)}: {rest}."] if beyond > 0 else []
    return [*common, *own[:_NOTES], *more]
