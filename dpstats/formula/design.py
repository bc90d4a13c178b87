"""The formula front door: patsy's formulas over a closed, row-wise grammar, built from the schema alone.

:meth:`Design.from_formula` decides everything that has a name or a shape (terms, columns, levels, knots) from
the formula and the :class:`~dpstats.data.schema.Schema`, before any row has been read; :meth:`Design.arrays`
then maps rows to rows. A row that cannot be used is dropped without a word. The argument that nothing leaks
here is in docs/privacy/front_door.md; what can be written, in docs/formulas.md.
"""

import functools
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpstats._threads import WORKERS, in_threads, pieces
from dpstats._validation import quoted, shown
from dpstats.data.batches import Batch, Source
from dpstats.data.schema import Column, Schema
from dpstats.data.sources import open_source
from dpstats.engines.memory import empty
from dpstats.engines.partitions import Partitions
from dpstats.errors import FormulaError, SchemaError
from dpstats.formula.factors import Categorical, Codes
from dpstats.formula.layout import Beside, Layout, Second, make_layout
from dpstats.formula.pieces import Held, columns_of, pieces_of, rows_at_once

__all__ = ["Blocks", "Design", "check_formula"]

_CODABLE = ("number", "truth", "untyped", "factor", "text")

# Fewer rows than these are not worth a thread.
_LEAST_ROWS = 32_768


def check_formula(formula: object) -> None:
    """Raise a FormulaError unless `formula` is a string."""
    if not isinstance(formula, str):
        raise FormulaError(
            f"the formula must be a string such as 'y ~ x1 + x2', got {shown(formula)}. It comes first, "
            f"then the data."
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
    further : tuple of callable
        What :meth:`beside` and :meth:`with_second` add to the layout.
    aside : collection of str
        Columns that ``.`` does not stand for.

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
    further: tuple[Callable[[Layout], Layout], ...] = field(default=(), compare=False, repr=False)
    aside: Container[object] = field(default=(), compare=False, repr=False)

    @classmethod
    def from_formula(cls, formula: str, schema: Schema, aside: Container[object] = ()) -> "Design":
        """Return the design of a formula for a schema.

        Parameters
        ----------
        formula : str
            For example ``"price ~ carat + clarity"``.
        schema : Schema
            What is public about the columns of the data.
        aside : collection of str
            Columns with a part of their own (groups, units, an offset), which ``.`` does not stand for.

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
        layout = make_layout(formula, schema, aside)
        design = cls(formula, schema.select(layout.reads, layout.declared), aside=aside)
        design.__dict__["layout"] = layout
        return design

    @functools.cached_property
    def layout(self) -> Layout:
        """How rows become numbers, a :class:`~dpstats.formula.layout.Layout`."""
        layout = make_layout(self.formula, self.schema, self.aside)
        for add in self.further:
            layout = add(layout)
        return layout

    def within(self, low: np.ndarray, high: np.ndarray) -> "Design":
        """Return this design with limits for :meth:`matrix`, arrays of shape (columns,)."""
        limited = replace(self, limits=(low, high))
        limited.__dict__["layout"] = self.layout
        return limited

    def beside(self, numbers: Collection[str], factors: Collection[Categorical]) -> "Design":
        """Return this design with further responses: columns read as numbers, and the codes of factors, which
        are among those that the right-hand side reads."""
        more = Beside(tuple(numbers), tuple(factor.name for factor in factors))
        return replace(self, further=(*self.further, more))

    def with_second(self, wide: "Design") -> "Design":
        """Return this design with one more response, the second of another design."""
        return replace(self, schema=wide.schema, further=(*self.further, Second(wide)))

    def to_dict(self) -> dict[str, Any]:
        """Return how the columns are made, by terms, as plain dicts, lists, strings and numbers.

        Examples
        --------
        >>> schema = open_source({"y": [1.0, 2.0], "x": [3.0, 4.0]}).schema
        >>> for columns in Design.from_formula("y ~ x", schema).to_dict()["columns"]:
        ...     print(columns)
        {'term': None, 'width': 1, 'factors': []}
        {'term': 'x', 'width': 1, 'factors': [{'factor': 'x', 'kind': 'number'}]}
        """
        columns = [subterm.to_dict() for subterm in self.layout.subterms]
        limits = (
            {}
            if self.limits is None
            else dict(zip(("low", "high"), map(np.ndarray.tolist, self.limits), strict=True))
        )
        return {"formula": self.formula, "columns": columns} | limits

    def facts(self) -> dict[str, Any]:
        """Return what :meth:`of_facts` makes the map of new rows from again: formula, schema and limits.

        Examples
        --------
        >>> schema = open_source({"y": [1.0, 2.0], "x": [3.0, 4.0]}).schema
        >>> facts = Design.from_formula("y ~ x", schema).facts()
        >>> Design.of_facts(facts).matrix({"x": [5.0]})
        array([[1., 5.]])
        """
        columns = [
            {"name": c.name, "kind": c.kind, "levels": c.levels, "bounds": c.bounds} for c in self.schema
        ]
        low, high = (None, None) if self.limits is None else self.limits
        return {"formula": self.formula, "columns": columns, "low": low, "high": high}

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> "Design":
        """Return the design of :meth:`facts`, without what was read beside its responses."""
        columns = (
            Column(
                c["name"],
                c["kind"],
                "",
                None if c["levels"] is None else tuple(c["levels"]),
                None if c["bounds"] is None else (float(c["bounds"][0]), float(c["bounds"][1])),
            )
            for c in facts["columns"]
        )
        design = cls.from_formula(facts["formula"], Schema(tuple(columns)))
        if facts["low"] is None:
            return design
        return design.within(*(np.array(facts[end], float) for end in ("low", "high")))

    def __getstate__(self) -> tuple[Any, ...]:
        return self.formula, self.schema, self.limits, self.further, self.aside

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for name, value in zip(("formula", "schema", "limits", "further", "aside"), state, strict=False):
            object.__setattr__(self, name, value)

    @property
    def response_names(self) -> tuple[str, ...]:
        """The names of the responses, a tuple of str."""
        return tuple(factor.name for factor in self.layout.responses)

    @property
    def class_responses(self) -> tuple[str, ...]:
        """The names of the responses that are one of two levels, and read as 0 and 1."""
        return tuple(factor.name for factor in self.layout.responses if isinstance(factor, Codes))

    @property
    def response_bounds(self) -> tuple[tuple[float, float] | None, ...]:
        """What is public about the responses' values: per response ``(lo, hi)``, or None where nothing is."""
        return tuple(factor.bounds for factor in self.layout.responses)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns of the design matrix, as patsy and statsmodels give them."""
        return self.layout.column_names

    @property
    def column_bounds(self) -> tuple[tuple[float, float] | None, ...]:
        """What is public about the columns' values: per column ``(lo, hi)``, or None where nothing is.

        Every value that :meth:`arrays` returns lies in these bounds.
        """
        return self.layout.column_bounds

    @property
    def term_slices(self) -> Mapping[str, slice]:
        """A mapping from the names of the terms to slices of columns, in the order of the columns."""
        return self.layout.term_slices

    @property
    def coded(self) -> frozenset[str]:
        """The names of the columns that are read as levels, a frozenset of str."""
        return frozenset(name for name, _ in self.layout.coded)

    @property
    def taken_as_numbers(self) -> tuple[str, ...]:
        """The names of the columns of no declared type or bounds that are read as numbers, whatever they
        hold.
        """
        numbers = self.layout.numbers
        return tuple(
            c.name for c in self.schema if c.kind == "untyped" and c.name in numbers and c.bounds is None
        )

    @property
    def has_intercept(self) -> bool:
        """Whether the first column is the constant 1."""
        return self.column_names[:1] == ("Intercept",)

    def arrays(self, batch: Any, usable: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the usable rows of a batch as numbers.

        Parameters
        ----------
        batch : dpstats.data.batches.Batch or tabular
            Some rows of the data, with the columns that the formula names.
        usable : bool array, shape (all rows of the batch,), optional
            Is filled with which rows these are.

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
        layout = self.layout
        batch = self._batch(batch, layout.reads)
        X = empty(batch.rows, len(self.column_names))
        Y = empty(batch.rows, len(layout.responses))
        usable = np.empty(batch.rows, dtype=bool) if usable is None else usable
        columns = columns_of(batch, layout.numbers, layout.coded)
        cut = pieces(batch.rows, _LEAST_ROWS, WORKERS)
        counts = in_threads(
            [functools.partial(self._fill, columns, rows, X[rows], Y[rows], usable[rows]) for rows in cut]
        )
        kept = 0
        for rows, count in zip(cut, counts, strict=True):
            if rows.start > kept:
                X[kept : kept + count] = X[rows.start : rows.start + count]
                Y[kept : kept + count] = Y[rows.start : rows.start + count]
            kept += count
        return X[:kept], Y[:kept]

    @np.errstate(all="ignore")
    def _fill(self, columns: Held, rows: slice, X: np.ndarray, Y: np.ndarray, usable: np.ndarray) -> int:
        """Write the usable rows of a slice of a batch to the front of `X` and `Y`; return their number."""
        layout = self.layout
        kept = seen = 0
        # filled by columns and copied as a whole, which is faster than to write columns of rows far apart
        size = rows_at_once(X.shape[1])
        scratch = empty(X.shape[1], min(size, len(X))).T
        for piece in pieces_of(columns, layout.numbers, rows, size):
            x, y = scratch[: piece.rows], Y[kept : kept + piece.rows]
            layout.fill_columns(piece, x)
            layout.fill_responses(piece, y)
            usable[seen : seen + piece.rows] = piece.usable
            seen += piece.rows
            if not piece.usable.all():
                good = np.flatnonzero(piece.usable)
                x, y[: len(good)] = x[good], y[good]
            X[kept : kept + len(x)] = x
            kept += len(x)
        return kept

    @np.errstate(all="ignore")
    def matrix(self, data: Any) -> np.ndarray:
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
        layout, size = self.layout, rows_at_once(len(self.column_names))
        matrices = [np.empty((0, len(self.column_names)))]
        for batch in self._batches(open_source(data), layout.column_reads):
            X = np.empty((batch.rows, len(self.column_names)))
            start = 0
            columns = columns_of(batch, layout.column_numbers, layout.column_coded)
            for piece in pieces_of(columns, layout.column_numbers, slice(0, batch.rows), size):
                rows = X[start : start + piece.rows]
                layout.fill_columns(piece, rows)
                rows[~piece.usable] = np.nan
                start += piece.rows
            matrices.append(X if self.limits is None else np.clip(X, *self.limits))
        return matrices[1] if len(matrices) == 2 else np.concatenate(matrices)

    def new_rows(self, data: Any) -> tuple[np.ndarray, np.ndarray]:
        """The :meth:`matrix` of new data, and in which rows it moves a value into declared bounds."""
        source, found = open_source(data), [np.zeros(0, bool)]
        bounds = [(name, ends) for name, ends in self.layout.column_numbers.items() if ends is not None]
        for batch in self._batches(source, self.layout.column_reads):
            values = [(np.asarray(batch.numbers(name), float), *ends) for name, ends in bounds]
            beyond = [(x < low) | (x > high) for x, low, high in values]
            found.append(np.any([np.zeros(batch.rows, bool), *beyond], axis=0))
        return self.matrix(source), np.concatenate(found)

    def blocks(self, source: Any) -> "Blocks":
        """Return the usable rows of a source as pairs of arrays, to be iterated as often as wanted.

        Parameters
        ----------
        source : dpstats.data.batches.Source or tabular

        Returns
        -------
        Blocks
        """
        source = open_source(source)
        self._check(source, self.layout.reads)
        return Blocks(self, source)

    def _batch(self, batch: Any, names: Collection[str]) -> Batch:
        if isinstance(batch, Batch):
            return batch
        source = open_source(batch)
        if not source.in_memory:
            raise SchemaError("the rows of a file come in batches: use blocks().")
        return next(iter(self._batches(source, names)))

    def _batches(self, source: Source, names: Collection[str]) -> Iterator[Batch]:
        self._check(source, names)
        return source.batches([name for name in self.schema.names if name in names], self.coded)

    def _check(self, source: Source, names: Collection[str]) -> None:
        """Raise a SchemaError unless the source has the named columns, with dtypes that fit this design."""
        numbers = {name for name in self.layout.numbers if name in names}
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
    """

    def __init__(self, design: Design, source: Source) -> None:
        self._design = design
        self._source = source
        self._held: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def in_memory(self) -> bool:
        return self._source.in_memory

    @functools.cached_property
    def partitions(self) -> Partitions | None:
        """Where the rows are on the workers of a cluster, the pairs there."""
        reads = self._design.layout.reads
        self._design._check(self._source, reads)
        names = [name for name in self._design.schema.names if name in reads]
        return self._source.partitions(names or list(self._design.schema.names[:1]), self._design.arrays)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if self.in_memory:
            if self._held is None:
                (batch,) = self._batches()
                self._held = self._design.arrays(batch)
            yield self._held
            return
        pairs = (pair for pair in map(self._design.arrays, self._batches()) if len(pair[0]))
        # as in memory: a pair without rows, so that nobody stumbles over there being none
        sizes = len(self._design.column_names), len(self._design.response_names)
        yield next(pairs, (np.empty((0, sizes[0])), np.empty((0, sizes[1]))))
        yield from pairs

    def given_up(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The pairs, for a caller who writes over them: they are made again if they are read again."""
        for pair in self:
            self._held = None  # before they are written over
            yield pair

    def of(self, design: Design) -> "Blocks":
        """The rows of the same source that another design can use."""
        return design.blocks(self._source)

    def _batches(self) -> Iterator[Batch]:
        return self._design._batches(self._source, self._design.layout.reads)
