"""The formula front door: patsy's formulas over a closed, row-wise grammar, built from the schema alone.

:meth:`Design.from_formula` decides everything that has a name or a shape (terms, columns, levels, knots) from
the formula and the :class:`~dpstats.data.schema.Schema`, before any row has been read; :meth:`Design.arrays` then
maps rows to rows. A row that cannot be used is dropped without a word. The argument that nothing leaks here
is in docs/privacy/front_door.md; what can be written, in docs/formulas.md.
"""

import functools
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from dpstats._threads import WORKERS, in_threads
from dpstats._validation import quoted, shown
from dpstats.data.schema import Schema
from dpstats.data.sources import Batch, open_source
from dpstats.errors import FormulaError, SchemaError
from dpstats.formula.layout import make_plan

__all__ = ["Blocks", "Design", "check_formula"]

_CODABLE = ("number", "truth", "untyped", "factor", "text")

# Rows that are computed at a time: their columns stay in the processor's cache.
_CHUNK = 8_192
# Fewer rows than these are not worth a thread.
_LEAST_ROWS = 32_768


def check_formula(formula):
    """Raise a FormulaError unless `formula` is a string."""
    if not isinstance(formula, str):
        raise FormulaError(
            f"the formula must be a string such as 'y ~ x1 + x2', got {shown(formula)}. It comes first, then the data."
        )


@dataclass(frozen=True)
class Design:
    """What a formula means for a schema: named columns, and the map from rows of data to rows of numbers.

    A design holds the text of the formula and the public facts about the columns it names; it pickles as
    those.

    Parameters
    ----------
    formula : str
    schema : Schema
        Of the columns that the formula names.
    limits : (low, high), optional
        Into which :meth:`matrix` moves the columns: released limits, for the predictions of a winsorised fit.

    See Also
    --------
    Design.from_formula : makes one, checking everything.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpstats.data.sources import open_source
    >>> frame = pd.DataFrame({"price": [326, 334, None], "carat": [0.23, 0.29, 0.31], "cut": ["A", "B", "A"]})
    >>> schema = Schema.of(open_source(frame), levels={"cut": ["A", "B"]})
    >>> design = Design.from_formula("np.log2(price) ~ cut + carat", schema)
    >>> design.response_names, design.column_names
    (('np.log2(price)',), ('Intercept', 'cut[T.B]', 'carat'))
    >>> X, Y = design.arrays(frame)
    >>> X
    array([[1.  , 0.  , 0.23],
           [1.  , 1.  , 0.29]])
    """

    formula: str
    schema: Schema
    limits: tuple[np.ndarray, np.ndarray] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_formula(cls, formula, schema):
        """Return the design of a formula for a schema.

        Parameters
        ----------
        formula : str
            For example ``"price ~ carat + clarity"``.
        schema : Schema
            What is public about the columns of the data.

        Returns
        -------
        Design

        Raises
        ------
        FormulaError
            If the formula is no string or is outside the grammar, or its responses are not numeric.
        SchemaError
            If it names an unknown or unusable column, or one whose levels are not declared.
        """
        check_formula(formula)
        plan = make_plan(formula, schema)
        design = cls(formula, schema.select(plan.reads, plan.declared))
        design.__dict__["_plan"] = plan
        return design

    @cached_property
    def _plan(self):
        return make_plan(self.formula, self.schema)

    def __getstate__(self):
        return self.formula, self.schema, self.limits

    def __setstate__(self, state):
        for name, value in zip(("formula", "schema", "limits"), state, strict=True):
            object.__setattr__(self, name, value)

    @property
    def response_names(self):
        """The names of the responses, a tuple of str."""
        return tuple(factor.name for factor in self._plan.responses)

    @property
    def response_bounds(self):
        """What is public about the responses' values: per response ``(lo, hi)``, or None where nothing is."""
        return tuple(factor.bounds for factor in self._plan.responses)

    @property
    def column_names(self):
        """The names of the columns of the design matrix, as patsy and statsmodels give them."""
        return self._plan.column_names

    @property
    def column_bounds(self):
        """What is public about the columns' values: per column ``(lo, hi)``, or None where nothing is.

        Every value that :meth:`arrays` returns lies in these bounds.
        """
        return self._plan.column_bounds

    @property
    def term_slices(self):
        """A mapping from the names of the terms to slices of columns, in the order of the columns."""
        return self._plan.term_slices

    @property
    def coded(self):
        """The names of the columns that are read as levels, a frozenset of str."""
        return frozenset(name for name, _ in self._plan.coded)

    @property
    def taken_as_numbers(self):
        """The names of the columns of no declared type or bounds that are read as numbers, whatever they hold."""
        numbers = self._plan.numbers
        return tuple(
            c.name for c in self.schema if c.kind == "untyped" and c.name in numbers and c.bounds is None
        )

    @property
    def reminder(self):
        """What a failure says of columns that may hold text: a fact about the schema alone."""
        names = self.taken_as_numbers
        if not names:
            return ""
        listed = ", ".join(quoted(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
        return f" (Of no declared type: {listed}. What is no number in them counts as missing; text needs levels=.)"

    def within(self, low, high):
        """This design with columns that :meth:`matrix` moves into limits, arrays of shape (columns,)."""
        return replace(self, limits=(low, high))

    @property
    def has_intercept(self):
        """Whether the first column is the constant 1."""
        return self.column_names[:1] == ("Intercept",)

    def arrays(self, batch):
        """Return the usable rows of a batch as numbers.

        Parameters
        ----------
        batch : dpstats.data.sources.Batch or tabular
            Some rows of the data, with the columns that the formula names.

        Returns
        -------
        X : ndarray, shape (rows, columns)
            The design matrix, float64 and C-contiguous.
        Y : ndarray, shape (rows, responses)
            The responses, likewise.

        Notes
        -----
        A row is dropped, without a word, if a column that the formula names is missing or not finite in it,
        if it has an undeclared level, or if a computed value is not finite. Each row is mapped by itself.
        """
        plan = self._plan
        batch = self._batch(batch, plan.reads)
        X = np.empty((batch.rows, len(self.column_names)))
        Y = np.empty((batch.rows, len(plan.responses)))
        columns = _columns(batch, plan.numbers, plan.coded)
        pieces = max(1, min(WORKERS, batch.rows // _LEAST_ROWS))
        cuts = [batch.rows * i // pieces for i in range(pieces + 1)]
        parts = [slice(a, b) for a, b in pairwise(cuts)]
        counts = in_threads(
            [functools.partial(self._fill, columns, part, X[part], Y[part]) for part in parts]
        )
        kept = 0
        for part, count in zip(parts, counts, strict=True):
            if part.start > kept:
                X[kept : kept + count] = X[part.start : part.start + count]
                Y[kept : kept + count] = Y[part.start : part.start + count]
            kept += count
        return X[:kept], Y[:kept]

    @np.errstate(all="ignore")
    def _fill(self, columns, part, X, Y):
        """Write the usable rows of a part of a batch to the front of `X` and `Y`, and return their number."""
        plan = self._plan
        kept = 0
        # filled by columns and copied as a whole, which is faster than to write columns of rows far apart
        scratch = np.empty((X.shape[1], min(_CHUNK, len(X)))).T
        for chunk in _chunks(columns, plan.numbers, part):
            x, y = scratch[: chunk.rows], Y[kept : kept + chunk.rows]
            plan.fill_columns(chunk, x)
            plan.fill_responses(chunk, y)
            if not chunk.usable.all():
                good = np.flatnonzero(chunk.usable)
                x, y[: len(good)] = x[good], y[good]
            X[kept : kept + len(x)] = x
            kept += len(x)
        return kept

    @np.errstate(all="ignore")
    def matrix(self, data):
        """Return the design matrix of new data, one row per row of the data.

        Parameters
        ----------
        data : tabular
            With the columns that the right-hand side names.

        Returns
        -------
        ndarray, shape (rows, columns)
            Rows that cannot be used are NaN.

        Raises
        ------
        SchemaError
            If a column is not there or has another kind of dtype.
        """
        plan = self._plan
        parts = []
        for batch in self._batches(open_source(data), plan.column_reads):
            X = np.empty((batch.rows, len(self.column_names)))
            start = 0
            columns = _columns(batch, plan.column_numbers, plan.column_coded)
            for chunk in _chunks(columns, plan.column_numbers, slice(0, batch.rows)):
                rows = X[start : start + chunk.rows]
                plan.fill_columns(chunk, rows)
                rows[~chunk.usable] = np.nan
                start += chunk.rows
            parts.append(X if self.limits is None else np.clip(X, *self.limits))
        return (
            parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, len(self.column_names))), *parts])
        )

    def blocks(self, source):
        """Return the usable rows of a source as pairs of arrays, to be iterated as often as wanted.

        Parameters
        ----------
        source : dpstats.data.sources.Source or tabular

        Returns
        -------
        Blocks
        """
        source = open_source(source)
        self._check(source, self._plan.reads)
        return Blocks(self, source)

    def _batch(self, batch, names):
        if isinstance(batch, Batch):
            return batch
        source = open_source(batch)
        if not source.in_memory:
            raise SchemaError("the rows of a file come in batches: use blocks().")
        return next(iter(self._batches(source, names)))

    def _batches(self, source, names):
        self._check(source, names)
        return source.batches([name for name in self.schema.names if name in names], self.coded)

    def _check(self, source, names):
        """Raise a SchemaError unless the source has the named columns, with dtypes that fit this design."""
        numbers = {name for name in self._plan.numbers if name in names}
        for name in sorted(names):
            if name not in source.schema:
                raise SchemaError(f"the data have no column {quoted(name)}, which the formula names.")
            column = source.schema[name]
            allowed = ("number", "truth", "untyped") if name in numbers else _CODABLE
            if column.kind not in allowed:
                raise SchemaError(
                    f"column {name!r} has dtype {column.dtype}; the formula uses it as "
                    f"{'a number' if name in numbers else 'a categorical variable'}."
                )


class Blocks:
    """The usable rows of a source as pairs ``(X, Y)``, to be iterated as often as wanted.

    Of a source in memory there is one pair, made at the first pass and kept; a file is read again in each
    pass.

    Attributes
    ----------
    in_memory : bool
    """

    def __init__(self, design, source):
        self._design = design
        self._source = source
        self._held = None

    @property
    def in_memory(self):
        return self._source.in_memory

    def __iter__(self):
        if self.in_memory:
            if self._held is None:
                (batch,) = self._batches()
                self._held = self._design.arrays(batch)
            yield self._held
            return
        empty = True
        for batch in self._batches():
            X, Y = self._design.arrays(batch)
            if len(X):
                empty = False
                yield X, Y
        if empty:
            # as in memory: a pair without rows, so that nobody stumbles over there being none
            yield (
                np.empty((0, len(self._design.column_names))),
                np.empty((0, len(self._design.response_names))),
            )

    def of(self, design):
        """The rows of the same source that another design can use."""
        return design.blocks(self._source)

    def _batches(self):
        return self._design._batches(self._source, self._design._plan.reads)


class _Chunk:
    """Some rows of the columns a design reads, and which of them are usable so far."""

    def __init__(self, rows, numbers, codes):
        self.rows = rows
        self.usable = np.ones(rows, dtype=bool)
        self._numbers = numbers
        self._codes = codes
        for values in numbers.values():
            self.usable &= np.isfinite(values)
        for codes_of in codes.values():
            self.usable &= codes_of >= 0

    def number(self, name):
        return self._numbers[name]

    def codes(self, name, levels):
        return self._codes[name, levels]


def _columns(batch, numbers, coded):
    """The columns of a batch as numbers by name, and as codes by name and levels."""
    return {name: batch.numbers(name) for name in numbers}, {key: batch.codes(*key) for key in coded}


def _chunks(columns, bounds, part):
    """Yield the rows of a part of a batch in chunks; `bounds` maps the numbers' names to bounds or None."""
    numbers, codes = columns
    for start in range(part.start, part.stop, _CHUNK):
        rows = slice(start, min(start + _CHUNK, part.stop))
        chunk = {}
        for name, limits in bounds.items():
            # There is one zero: whether -0 keeps its sign may depend on how the other values are stored.
            values = np.add(numbers[name][rows], 0.0, dtype=np.float64)
            if limits is not None:
                # An infinite value is not usable; moved into the bounds it would pass for a number.
                values = np.where(np.isfinite(values), np.clip(values, *limits), np.nan)
            chunk[name] = values
        yield _Chunk(rows.stop - start, chunk, {key: values[rows] for key, values in codes.items()})
