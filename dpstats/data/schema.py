"""What is public about the columns of a data set: dtype, levels, bounds. Declared, never learned.

A :class:`Schema` is all that the formula front door may look at before the budget has been spent. It is read
from dtypes and from the arguments ``levels=`` and ``bounds=``; no value of any row is looked at.
"""

import difflib
import json
import keyword
import unicodedata
from collections.abc import Container, ItemsView, Iterable, Iterator, KeysView, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpstats._types import Bounds, Levels
from dpstats._validation import about, is_finite, quoted, shown
from dpstats.errors import ParameterError, SchemaError

__all__ = [
    "Column",
    "Schema",
    "check_levels",
    "check_levels_fit",
    "how_to_declare",
    "in_formula",
    "nameless",
    "unusable",
]


_RENAME = "Names that are integers are made strings by df.columns = df.columns.map(str)."
_LEAST_WIDTH = 1e-300
"""Of declared bounds: what is divided by less leaves the range of doubles."""


@dataclass(frozen=True)
class Column:
    """The public facts about one column.

    Attributes
    ----------
    name, dtype : str
        The dtype as the source calls it, for messages.
    kind : str
        Of columns whose type was declared: ``"number"``; ``"truth"`` (a boolean); ``"factor"`` (has declared
        levels); ``"text"`` (strings: not usable until levels are declared). ``"untyped"`` is all else that
        may hold anything (NumPy arrays and what pandas makes of them, lists, CSV fields): a factor if levels
        are declared, otherwise a number, values that are no numbers being missing. ``"repeated"`` (the name
        occurs more than once) and ``"unusable"`` (typed dates, nested types, ...) cannot be used.
    levels : tuple or None
        The declared levels, in order.
    bounds : (float, float) or None
        The declared range. Values outside are moved to its nearer end.
    """

    name: str
    kind: str
    dtype: str
    levels: tuple[Any, ...] | None = None
    bounds: tuple[float, float] | None = None


def nameless(names: Iterable[Any]) -> bool:
    """Whether there are names that are no strings."""
    return not all(isinstance(name, str) for name in names)


@dataclass(frozen=True)
class Schema:
    """The public facts about the columns of a data set.

    Parameters
    ----------
    columns : tuple of Column
        In the order of the source.
    nameless : bool, optional
        Whether the source has other columns, whose names are no strings: no formula can name them.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpstats.data.sources import open_source
    >>> frame = pd.DataFrame({"price": [1.0, 2.0], "cut": ["Good", "Fair"]})
    >>> schema = Schema.of(open_source(frame), levels={"cut": ["Fair", "Good"]}, bounds={"price": (0, 100)})
    >>> schema["cut"].levels, schema["price"].bounds
    (('Fair', 'Good'), (0.0, 100.0))
    """

    columns: tuple[Column, ...]
    nameless: bool = False

    @classmethod
    def of(cls, source: Any, *, levels: Levels | None = None, bounds: Bounds | None = None) -> "Schema":
        """Return the schema of a source together with what the caller declares about it.

        Parameters
        ----------
        source : dpstats.data.batches.Source
            From :func:`dpstats.data.sources.open_source`; only its dtypes are looked at.
        levels : dict of str to list, optional
            The levels of categorical columns, in order. A row with any other value is not used.
        bounds : dict of str to (float, float), optional
            Public ranges of numeric columns. Values outside are moved to the nearer end.

        Returns
        -------
        Schema

        Raises
        ------
        SchemaError
            If a declaration names no column, or contradicts its dtype.
        ParameterError
            If ``levels`` or ``bounds`` is not such a dictionary.
        """
        schema = source.schema
        columns = {column.name: column for column in schema.columns}
        for name, values in _declarations("levels", levels, '{"cut": ["Fair", "Good"]}').items():
            with about("levels"):
                column = schema[name]
            columns[name] = _with_levels(column, values)
        for name, pair in _declarations("bounds", bounds, '{"age": (0, 120)}').items():
            with about("bounds"):
                column = schema[name]
            columns[name] = _with_bounds(column, columns[name], pair)
        return cls(tuple(columns.values()), schema.nameless)

    def select(self, names: Container[str], declared: Container[str]) -> "Schema":
        """Return the schema of the columns in `names` alone, in their order here: what results keep.

        Names of dtypes are left out, and the levels of columns that are not in `declared`: those of a
        categorical dtype may hold more than what the formula writes out.
        """
        kept = [replace(column, dtype="") for column in self.columns if column.name in names]
        return Schema(
            tuple(
                c if c.levels is None or c.name in declared else replace(c, kind="untyped", levels=None)
                for c in kept
            )
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def whole(self) -> tuple[str, ...]:
        """The names of all columns there are, for what stands for them.

        Raises
        ------
        SchemaError
            If some have names that are no strings.
        """
        if self.nameless:
            raise SchemaError(
                "names of some columns of the data are no strings, so that no formula can name them: "
                "data.columns = data.columns.astype(str)."
            )
        return self.names

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> Column:
        try:
            return self._by_name[name]
        except KeyError:
            raise SchemaError(self._no_such_column(name)) from None

    def _no_such_column(self, name: str) -> str:
        named = quoted(name)
        if not self.columns:
            return f"there is no column {named}; the data have no column whose name is a string. {_RENAME}"
        alike = [other for other in self.names if other.lower() == name.lower()]
        close = alike or difflib.get_close_matches(name[:80], self.names, n=2)
        if close:
            return f"there is no column {named}; did you mean {' or '.join(map(repr, close))}?"
        listed = ", ".join(repr(n) for n in self.names[:20])
        more = f" and {len(self) - 20} more" if len(self) > 20 else ""
        rename = f" {_RENAME}" if name.isdigit() else ""
        return f"there is no column {named}; the columns are {listed}{more}.{rename}"

    def __getstate__(self) -> tuple[Column, ...]:
        return self.columns

    def __setstate__(self, columns: tuple[Column, ...]) -> None:
        object.__setattr__(self, "columns", columns)


def how_to_declare(name: str) -> str:
    """Return the advice that ends every message about missing levels."""
    return (
        f"declare them with levels={{{_quoted(name)}: [...]}}, with C({in_formula(name)}, levels=[...])"
        " in the formula, or with a pandas categorical dtype whose categories are public"
    )


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def in_formula(name: str) -> str:
    """Return how a formula refers to the column."""
    # Python folds letters that look alike, and patsy reads some names as numbers
    plain = name.isidentifier() and unicodedata.normalize("NFKC", name) == name
    if plain and not keyword.iskeyword(name) and name.lower() not in ("inf", "infinity", "nan"):
        return name
    return f"Q({_quoted(name)})"


def _declarations(parameter: str, value: object, example: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ParameterError(
            f"{parameter} must be a dictionary by column name, as {example}, got {shown(value)}."
        )
    if not all(isinstance(k, str) for k in value):
        raise ParameterError(f"the keys of {parameter} must be names of columns, strings. {_RENAME}")
    return value


def _with_levels(column: Column, values: Any) -> Column:
    name = column.name
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise ParameterError(f"levels[{name!r}] must be a list of levels, got {type(values).__name__}.")
    if isinstance(values, AbstractSet) and not isinstance(values, KeysView | ItemsView):
        # the order of a set may differ from run to run, and with it the reference level
        raise ParameterError(
            f"levels[{name!r}] must be a list of levels, in their order, and a {type(values).__name__} "
            f"has none."
        )
    levels = check_levels(values, f"levels[{name!r}]")
    if column.kind in ("unusable", "repeated"):
        raise SchemaError(unusable(column))
    check_levels_fit(column, levels)
    return replace(column, kind="factor", levels=levels)


def check_levels(values: Iterable[Any], what: str) -> tuple[Any, ...]:
    """Return `values` as a tuple of distinct strings, numbers or booleans, or raise a SchemaError."""
    levels = tuple(map(_of_python, values))
    for v in levels:
        if not (isinstance(v, str | bool) or is_finite(v)):
            raise SchemaError(f"{what} must hold strings, finite numbers or booleans, got {shown(v)}.")
    levels = tuple(0.0 if isinstance(v, float) and v == 0 else v for v in levels)
    if not levels:
        raise SchemaError(f"{what} must hold at least one level.")
    if len(set(levels)) < len(levels):
        raise SchemaError(f"{what} must hold distinct levels.")
    return levels


def _of_python(level: Any) -> Any:
    of_numpy = hasattr(level, "item") and getattr(level, "ndim", 0) == 0
    # (a time of NumPy would be an integer)
    return level.item() if of_numpy and getattr(level, "dtype", np.dtype("O")).kind not in "mM" else level


def check_levels_fit(column: Column, levels: tuple[Any, ...]) -> None:
    """Raise a SchemaError if no value of the column's declared type could equal one of the levels."""
    name, dtype = column.name, column.dtype
    if column.kind == "truth" and not all(isinstance(v, bool) for v in levels):
        raise SchemaError(f"column {name!r} is boolean ({dtype}), so its levels must be False and True.")
    if column.kind == "number" and any(isinstance(v, str | bool) for v in levels):
        raise SchemaError(f"column {name!r} holds numbers ({dtype}), so its levels must be numbers.")
    if column.kind == "text" and not all(isinstance(v, str) for v in levels):
        raise SchemaError(f"column {name!r} holds text ({dtype}), so its levels must be strings.")


def unusable(column: Column) -> str:
    """Return the message about a column that no formula can use."""
    if column.kind == "repeated":
        return f"the column name {column.name!r} occurs more than once; rename the columns."
    return (
        f"column {column.name!r} has dtype {column.dtype}, which is neither numeric nor categorical; "
        "convert it to a number (a date: to days since a fixed day) or to a category first."
    )


def _shown_pair(pair: Any) -> str:
    """What a message says of what should be a pair: types alone, as its parts may come from rows."""
    if isinstance(pair, list | tuple) and len(pair) == 2:
        if all(isinstance(part, int | float | np.number) and not isinstance(part, bool) for part in pair):
            return "an end that is not finite"
        return f"a pair of {' and '.join(dict.fromkeys(type(part).__name__ for part in pair))}"
    return "None" if pair is None else type(pair).__name__


def _with_bounds(declared: Column, column: Column, pair: Any) -> Column:
    name = column.name
    ok = isinstance(pair, list | tuple | np.ndarray) and len(pair) == 2
    ok = ok and all(is_finite(b) for b in pair)
    if not ok or not pair[0] < pair[1]:
        got = "a first one that is not the smaller" if ok else _shown_pair(pair)
        raise ParameterError(
            f"bounds[{name!r}] must be a pair of finite numbers (lower, upper) with lower < upper, got {got}."
        )
    if float(pair[1]) - float(pair[0]) < _LEAST_WIDTH:
        raise ParameterError(f"bounds[{name!r}] must be farther apart than {_LEAST_WIDTH:g}.")
    if declared.kind not in ("number", "untyped") or column.levels is not None:
        what = "has levels" if column.levels is not None else f"has dtype {declared.dtype}"
        raise SchemaError(f"bounds are for numeric columns, but column {name!r} {what}.")
    return replace(column, bounds=(float(pair[0]) + 0.0, float(pair[1]) + 0.0))
