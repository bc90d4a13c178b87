"""One estimate for each declared group of rows, and the table of them.

Groups are disjoint: a record is in one of them, so every group has the whole budget (parallel composition;
``docs/privacy/groups.md``).
"""

import multiprocessing
import os
import sys
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pandas as pd

from dpstats._boundary import guarded
from dpstats._text import Summary, Table, format_row
from dpstats._validation import check, fail, shown
from dpstats.data.schema import how_to_declare
from dpstats.data.sources import Batch, Source
from dpstats.errors import ReleaseFailed, SchemaError
from dpstats.formula.design import Winsorized
from dpstats.privacy.guarantee import Guarantee
from dpstats.results import inference
from dpstats.results.results import SAMPLING_AND_PRIVACY

__all__ = ["GroupedResults", "Groups", "run_groups"]

_PARALLEL = 256
"""Fewest groups for which processes are started; a public number, since a measured time would not be."""
_CHUNK = 16
_SHOWN = 40


class Groups:
    """The rows of every declared group.

    Parameters
    ----------
    source : dpstats.data.sources.Source
        All rows; the columns of the design are kept in memory, in order of their group.
    design : dpstats.formula.design.Design
    by : str
        Column of the groups.
    levels : tuple
        Its declared levels; rows of any other are left out.
    """

    def __init__(self, source, design, by, levels):
        self._schema = source.schema
        names = list(design.schema.names)
        coded = design.coded | {by}
        self._batches = list(source.batches([*names, *({by} - set(names))], coded))
        codes = [np.asarray(batch.codes(by, levels)) for batch in self._batches]
        codes = np.concatenate(codes) if codes else np.empty(0, dtype=np.intp)
        self._order = np.argsort(codes, kind="stable")
        self._ends = np.searchsorted(codes[self._order], np.arange(len(levels) + 1))
        self._arrays = {}

    @staticmethod
    def check(by, schema):
        """The levels of the column of the groups, which must be declared."""
        if not isinstance(by, str):
            fail("by", by, "None or the name of a column")
        column = schema[by]
        if column.kind == "truth":
            return (False, True)
        if column.levels is None:
            raise SchemaError(f"the groups by {by!r} must be declared: {how_to_declare(by)}.")
        return column.levels

    @staticmethod
    def scope(by, guarantee):
        """The sentence that qualifies the promise."""
        text = f"the groups by {by!r} are disjoint, so each has the whole budget (parallel composition)."
        if guarantee.neighbours == "substitution":
            text += (
                " A neighbour replaces a record by one of the same group: the group of each record, and with it "
                "the sizes of the groups, are public. A record that may change its group costs twice."
            )
        return text

    @staticmethod
    def seed(seed, i):
        """A seed for the `i`-th group, whatever process it runs in."""
        return int(np.random.SeedSequence([seed, i]).generate_state(1, np.uint64)[0])

    def size(self, i):
        """The number of rows of a group, usable or not."""
        return int(self._ends[i + 1] - self._ends[i])

    def source(self, i):
        """The rows of a group as a source."""
        return _GroupSource(self, self._schema, slice(self._ends[i], self._ends[i + 1]))

    def array(self, name, levels=None):
        """A column of numbers, or of codes, in order of the groups."""
        key = name, levels
        if key not in self._arrays:
            parts = [b.numbers(name) if levels is None else b.codes(name, levels) for b in self._batches]
            self._arrays[key] = np.concatenate(parts)[self._order] if parts else np.empty(0)
        return self._arrays[key]


class _GroupSource(Source):
    def __init__(self, groups, schema, rows):
        self.schema = schema
        self._groups, self._rows = groups, rows

    def _batches(self, names, coded):
        columns = {name: _GroupColumn(self._groups, name, self._rows) for name in names}
        yield Batch(self._rows.stop - self._rows.start, columns)


@dataclass(frozen=True)
class _GroupColumn:
    groups: Groups
    name: str
    rows: slice

    def numbers(self):
        return self.groups.array(self.name)[self.rows]

    def codes(self, levels):
        return self.groups.array(self.name, levels)[self.rows]


# -- running -----------------------------------------------------------------------------------------------

_TASK = None
"""What a worker process runs; it is inherited, so nothing of it need be pickled."""


def _outcome(one, i):
    """The results of a group without the design that all groups share, and how they predict from it; or the private test
    that failed."""
    try:
        result = one(i)
        design = result.design
        limits = (design.low, design.high) if isinstance(design, Winsorized) else None
        return replace(result, design=None), design is not None, limits
    except ReleaseFailed as failure:
        return ReleaseFailed(str(failure))


def _work(chunk):
    return [(i, _outcome(_TASK, i)) for i in chunk]


def _workers(groups):
    """How many processes to use, from public facts: the platform, the processors and the number of groups."""
    if sys.platform != "linux" or groups < _PARALLEL or multiprocessing.current_process().daemon:
        return 1
    return min(len(os.sched_getaffinity(0)), groups // _CHUNK)


def run_groups(one, todo, label):
    """Yield ``(i, outcome)`` for every group, in any order.

    The outcome is a ReleaseFailed, or the Results without their design, whether they had one, and its limits or None.

    Parameters
    ----------
    one : callable
    todo : list of int
    label : str
        For the progress bar, which is shown on a terminal if tqdm is installed.
    """
    global _TASK
    with _progress(len(todo), label) as advance:
        workers = _workers(len(todo))
        # the first groups run here: what they compile, the others inherit
        first, rest = (todo[:1], todo[1:]) if workers > 1 else (todo, [])
        for i in first:
            yield i, _outcome(one, i)
            advance(1)
        if not rest:
            return
        _TASK = one
        try:
            with warnings.catch_warnings():
                # forking beside threads: the workers run none of them
                warnings.simplefilter("ignore", DeprecationWarning)
                with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
                    chunks = [rest[k : k + _CHUNK] for k in range(0, len(rest), _CHUNK)]
                    for done in as_completed([pool.submit(_work, chunk) for chunk in chunks]):
                        yield from done.result()
                        advance(len(done.result()))
        finally:
            _TASK = None


class _Silent:
    def __init__(self, total, label):
        pass

    def __enter__(self):
        return lambda steps: None

    def __exit__(self, *exception):
        return None


class _Bar(_Silent):
    def __init__(self, total, label):
        from tqdm.auto import tqdm

        self._bar = tqdm(total=total, desc=label, unit="group", disable=None, delay=1)

    def __enter__(self):
        return self._bar.update

    def __exit__(self, *exception):
        self._bar.close()


def _progress(total, label):
    try:
        return _Bar(total, label)
    except ImportError:
        return _Silent(total, label)


# -- results -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class GroupedResults:
    """Released estimates of every declared group.

    Made by an estimator called with ``by=``; a mapping-like collection of :class:`~dpstats.results.results.Results`.

    Attributes
    ----------
    method, formula, by : str
        The estimator, the formula and the column of the groups.
    levels : tuple
        The declared groups, in their declared order.
    results : mapping
        From group to its Results, for the groups that have one.
    failed : mapping
        From group to the reason, for the others: too few rows where their number is public, or a failed private test.
    guarantee : Guarantee
        Of all groups together.

    Examples
    --------
    >>> import dpstats, numpy as np
    >>> data = {"income": np.arange(600.0), "tract": np.repeat(["a", "b", "c"], 200)}
    >>> fits = dpstats.median("income ~ 1", data, eps=5, by="tract", levels={"tract": ["a", "b", "c"]}, seed=1)
    >>> len(fits), fits["b"].params.round(-1).to_dict()
    (3, {'income': 300.0})
    >>> fits.tidy().columns[:3].tolist()
    ['tract', 'term', 'estimate']
    """

    method: str
    formula: str
    by: str
    levels: tuple
    results: Mapping
    failed: Mapping
    guarantee: Guarantee

    def __post_init__(self):
        for name in ("results", "failed"):
            ordered = {
                level: getattr(self, name)[level] for level in self.levels if level in getattr(self, name)
            }
            object.__setattr__(self, name, MappingProxyType(ordered))

    @classmethod
    def of(cls, method, design, by, levels, results, failed, guarantee):
        """Put the outcomes of the groups together; every result gets the guarantee with its scope."""
        whole = {}
        for level, (result, predicts, limits) in results.items():
            own = result.guarantee.replace(scope=guarantee.scope)
            limited = design if limits is None else Winsorized(design, *limits)
            whole[level] = replace(result, guarantee=own, design=limited if predicts else None)
        return cls(method, design.formula, by, tuple(levels), whole, failed, guarantee)

    def __len__(self):
        return len(self.levels)

    def __iter__(self):
        return iter(self.levels)

    def __getitem__(self, level):
        """The Results of a group; ReleaseFailed with the reason if it has none."""
        try:
            if level in self.results:
                return self.results[level]
            reason = self.failed.get(level)
        except (TypeError, ValueError):  # it has no hash, or no truth value of being equal
            reason = None
        if reason is not None:
            raise ReleaseFailed(reason, self.guarantee)
        raise KeyError(f"{shown(level)} is not a declared level of {self.by!r}")

    @property
    def names(self):
        """The names of the estimates, those of any group."""
        return max((result.names for result in self.results.values()), key=len, default=())

    @property
    def params(self):
        """Estimates, a DataFrame with a row for each group; NaN for a group that failed."""
        rows = [
            self.results[level].estimates if level in self.results else [np.nan] * len(self.names)
            for level in self
        ]
        index = pd.Index(list(self.levels), name=self.by)
        return pd.DataFrame(
            np.array(rows).reshape(len(self), len(self.names)), index=index, columns=list(self.names)
        )

    @guarded
    def tidy(self, alpha=None):
        """One row for each group and coefficient, with broom's column names.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            One minus the level of the intervals, as in :meth:`Results.conf_int`.

        Returns
        -------
        DataFrame
            The column of the groups, then ``term, estimate, std.error, statistic, p.value, conf.low, conf.high``; NaN for
            a group that failed.
        """
        alpha = None if alpha is None else check("alpha", alpha)
        d = len(self.names)
        values = np.full((len(self), d, 6), np.nan)
        for row, level in zip(values, self.levels, strict=True):
            if (result := self.results.get(level)) is None:
                continue
            row[:, 0] = result.estimates
            if result.cov is not None:
                row[:, 1] = inference.standard_errors(result.cov)
                if result.covers == SAMPLING_AND_PRIVACY:
                    row[:, 2] = inference.wald_statistics(row[:, 0], row[:, 1])
                    row[:, 3] = inference.wald_pvalues(row[:, 2], result.df)
            level_alpha = result.alpha if alpha is None else alpha
            if result.interval is not None:
                row[:, 4:] = result.interval.conf_int(level_alpha)
            elif result.cov is not None:
                row[:, 4:] = inference.wald_interval(row[:, 0], row[:, 1], level_alpha, result.df)
        columns = ("estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high")
        frame = pd.DataFrame(values.reshape(-1, 6), columns=list(columns))
        frame.insert(0, "term", list(self.names) * len(self))
        frame.insert(0, self.by, np.repeat(np.array(self.levels, dtype=object), d))
        return frame.infer_objects()

    @guarded
    def summary(self, alpha=None):
        """The table: a line for each group and coefficient (the first 40 lines), and the guarantee.

        Returns
        -------
        dpstats._text.Summary
        """
        frame = self.tidy(alpha)
        shown = frame.head(_SHOWN)[[self.by, "term", "estimate", "std.error", "conf.low", "conf.high"]]
        rows = []
        for level, term, estimate, se, low, high in shown.itertuples(index=False, name=None):
            estimate, se, low, high = format_row(estimate, se, low, high)
            rows.append((f"{level}: {term}", estimate, se, low, high))
        notes = []
        if len(frame) > _SHOWN:
            notes.append(f"{len(frame) - _SHOWN:,} more lines: tidy() has them all.")
        for reason in dict.fromkeys(self.failed.values()):
            same = [str(level) for level, text in self.failed.items() if text == reason]
            names = ", ".join(same[:5]) + (f" and {len(same) - 5:,} more" if len(same) > 5 else "")
            notes.append(f"No estimate for {names}: {reason}")
        facts = (
            ("Groups by", self.by),
            ("Groups", f"{len(self):,}"),
            ("Without estimate", f"{len(self.failed):,}"),
        )
        if self.results:
            base = next(iter(self.results.values())).summary(alpha)
            level = 1 - (next(iter(self.results.values())).alpha if alpha is None else alpha)
        else:
            scope = () if self.guarantee.scope is None else (f"Scope: {self.guarantee.scope}",)
            base = Summary(self.method, self.formula, (), Table((), ()), (str(self.guarantee) + ".", *scope))
            level = 0.95
        header = ("", "coef", "std err", f"[{(1 - level) / 2:.6g}", f"{(1 + level) / 2:.6g}]")
        return replace(
            base,
            title=base.title.replace(" (", ", by group (", 1),
            facts=facts,
            coefficients=Table(header, tuple(rows)),
            notes=(*base.notes, *notes),
        )

    def to_dict(self):
        """The whole table as plain dicts, lists, strings and numbers."""
        return {
            "by": self.by,
            "groups": [
                {self.by: level}
                | (self.results[level].to_dict() if level in self.results else {"failed": self.failed[level]})
                for level in self.levels
            ],
            "guarantee": self.guarantee.to_dict(),
        }

    def __str__(self):
        return str(self.summary())

    def __repr__(self):
        return f"<GroupedResults {self.method}: {self.formula}, {len(self)} groups by {self.by}, {self.guarantee}>"

    def _repr_html_(self):
        return self.summary().as_html()

    def __reduce__(self):
        state = (
            self.method,
            self.formula,
            self.by,
            self.levels,
            dict(self.results),
            dict(self.failed),
            self.guarantee,
        )
        return _rebuild, state


def _rebuild(*state):
    return GroupedResults(*state)
