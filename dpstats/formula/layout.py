"""The layout of a design: which factors make which columns, and how to fill them for some rows.

patsy lays out the columns (contrasts, redundancy, names) from factors that know their schema and no data.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import patsy

from dpstats.data.schema import Schema
from dpstats.errors import FormulaError
from dpstats.formula import ranges as iv
from dpstats.formula.factors import Categorical, Codes, Numeric, as_number, make_factor
from dpstats.formula.grammar import Name, Piece
from dpstats.formula.splines import Spline
from dpstats.formula.terms import parse_terms

__all__ = ["Beside", "Layout", "Second", "check_offset", "make_layout"]

MAX_COLUMNS = 3_000


@dataclass(frozen=True)
class Layout:
    """How rows become numbers.

    Attributes
    ----------
    responses, subterms
        What the columns of the responses and of the design matrix are computed from.
    column_names, column_bounds, term_slices
        Of the design matrix.
    numbers, column_numbers : dict of str to (float, float) or None
        The columns read as numbers, with their declared bounds: in all, and by the right-hand side.
    coded, column_coded : frozenset of (str, tuple)
        The columns read as levels, with the levels: likewise.
    declared : frozenset of str
        The columns whose levels in the schema are used; of others the formula writes them out.
    """

    responses: tuple[Numeric | Codes, ...]
    subterms: tuple["_Subterm", ...]
    column_names: tuple[str, ...]
    term_slices: Mapping[str, slice]
    column_bounds: tuple[tuple[float, float] | None, ...]
    numbers: dict[str, tuple[float, float] | None]
    column_numbers: dict[str, tuple[float, float] | None]
    column_coded: frozenset[tuple[str, tuple[Any, ...]]]
    declared: frozenset[str]

    @property
    def coded(self) -> frozenset[tuple[str, tuple[Any, ...]]]:
        return self.column_coded.union(*(factor.coded for factor in self.responses))

    @property
    def column_reads(self) -> frozenset[str]:
        """The names of the columns that the right-hand side reads."""
        return frozenset(self.column_numbers) | {name for name, _ in self.column_coded}

    @property
    def reads(self) -> frozenset[str]:
        """The names of all columns that are read."""
        return frozenset(self.numbers) | {name for name, _ in self.coded}

    @property
    def categorical_terms(self) -> tuple[str, ...]:
        """The terms of the right-hand side with a factor of levels: declared ones, booleans, comparisons."""
        return tuple(s.term for s in self.subterms if any(isinstance(f, Categorical) for f in s.factors))

    @property
    def sharing(self) -> tuple[str, ...]:
        """Names of the factors whose columns share levels, as those of treatment contrasts do not."""
        pairs = [pair for s in self.subterms for pair in zip(s.factors, s.contrasts, strict=True)]
        return tuple(
            dict.fromkeys(f.name for f, c in pairs if c is not None and not np.isin(c, (0, 1)).all())
        )

    def fill_columns(self, piece: Piece, out: np.ndarray) -> None:
        """Write the design matrix of a piece to `out`, and mark the rows of the piece that are not usable."""
        values: dict[str, np.ndarray] = {}
        for subterm in self.subterms:
            subterm.fill(piece, values, out[:, subterm.columns])

    def fill_responses(self, piece: Piece, out: np.ndarray) -> None:
        """Write the responses of a piece to `out`, and mark the rows of the piece that are not usable."""
        for j, response in enumerate(self.responses):
            out[:, j] = response.values(piece)
            piece.usable &= np.isfinite(out[:, j])


@dataclass(frozen=True)
class _Subterm:
    """Consecutive columns of a term: all products of a column of each factor, those of the first factor
    varying fastest.
    """

    term: str
    columns: slice
    factors: tuple[Numeric | Spline | Categorical, ...]
    contrasts: tuple[np.ndarray | None, ...] = field(repr=False)

    def fill(self, piece: Piece, values: dict[str, np.ndarray], out: np.ndarray) -> None:
        product = None
        for factor, contrast in zip(self.factors, self.contrasts, strict=True):
            if factor.name not in values:
                values[factor.name] = _values(factor, piece)
            part = values[factor.name]
            part = part if contrast is None else contrast[part]
            product = part if product is None else _products(product, part)
        out[...] = 1.0 if product is None else product
        if len(self.factors) > 1:
            piece.usable &= np.isfinite(out).all(axis=1)

    def to_dict(self) -> dict[str, Any]:
        """The term (None: the constant), the number of columns, and what is multiplied: codes with the rows
        of a contrast.
        """
        factors = []
        for factor, contrast in zip(self.factors, self.contrasts, strict=True):
            factors.append({"factor": factor.name} | factor.to_dict())
            if contrast is not None:
                factors[-1] |= {"contrast": contrast.tolist(), "width": contrast.shape[1]}
        width = self.columns.stop - self.columns.start
        return {"term": self.term if factors else None, "width": width, "factors": factors}

    def bounds(self) -> list[tuple[float, float] | None]:
        products = [(1.0, 1.0)]
        for factor, contrast in zip(self.factors, self.contrasts, strict=True):
            part: Iterable[iv.Interval]
            if contrast is not None:
                part = zip(contrast.min(axis=0).tolist(), contrast.max(axis=0).tolist(), strict=True)
            elif isinstance(factor, Numeric):
                part = [factor.bounds or iv.ANYTHING]
            else:
                assert isinstance(factor, Spline)
                part = factor.column_bounds
            products = [iv.multiply(p, q) for q in part for p in products]
        return [iv.known(p) for p in products]


def _products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """All products of two columns of the same rows, those of `first` varying fastest."""
    return (second[:, :, None] * first[:, None, :]).reshape(len(first), -1)


def _values(factor: Numeric | Spline | Categorical, piece: Piece) -> np.ndarray:
    """Return a factor's codes (rows,) or numbers (rows, width), marking the rows that are not usable."""
    if isinstance(factor, Categorical):
        codes = factor.codes(piece)
        piece.usable &= codes >= 0
        return codes
    values = factor.values(piece)
    if values.ndim == 2:
        piece.usable &= np.isfinite(values).all(axis=1)
        return values
    piece.usable &= np.isfinite(values)
    return values[:, None]


class _SchemaFactor:
    """A factor as patsy wants to see it, whose only data are one row made up from the schema."""

    origin = None

    def __init__(self, factor: Numeric | Spline | Categorical) -> None:
        self.factor = factor

    def name(self) -> str:
        return self.factor.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SchemaFactor) and self.name() == other.name()

    def __hash__(self) -> int:
        return hash(self.name())

    def memorize_passes_needed(self, state: Any, eval_env: Any) -> int:
        return 0

    def eval(self, state: Any, data: Any) -> Any:
        factor = self.factor
        if isinstance(factor, Categorical):
            return patsy.builtins.C([], factor.contrast, list(factor.levels))
        return np.zeros((1, factor.width))


def make_layout(formula: str, schema: Schema, aside: Container[object]) -> Layout:
    """Return the layout of a formula for a schema; the errors are those of ``Design.from_formula``."""
    lhs, rhs = parse_terms(formula, schema, aside)
    made = {}

    def factor_of(code: str) -> Numeric | Spline | Categorical:
        if code not in made:
            made[code] = make_factor(code, schema)
        return made[code]

    responses = tuple(_response(factor_of(term.factors[0].name())) for term in lhs)
    if not rhs:
        raise FormulaError("the formula has no terms; write at least the constant, 'response ~ 1'.")
    terms = [patsy.Term([_SchemaFactor(factor_of(f.name())) for f in term.factors]) for term in rhs]
    info = _design_info(terms)
    subterms, start = [], 0
    for term, codings in info.term_codings.items():
        for coding in codings:
            columns = slice(start, start + coding.num_columns)
            factors = tuple(f.factor for f in coding.factors)
            contrasts = tuple(
                np.array(coding.contrast_matrices[f].matrix, dtype=float)
                if f in coding.contrast_matrices
                else None
                for f in coding.factors
            )
            subterms.append(_Subterm(term.name(), columns, factors, contrasts))
            start = columns.stop
    used = [f.factor for term in terms for f in term.factors]
    numbers = {name for factor in used for name in factor.numbers}
    response_numbers = {name for factor in responses for name in factor.numbers}
    return Layout(
        responses=responses,
        subterms=tuple(subterms),
        column_names=tuple(info.column_names),
        term_slices=MappingProxyType(dict(info.term_name_slices)),
        column_bounds=tuple(b for subterm in subterms for b in subterm.bounds()),
        numbers={name: schema[name].bounds for name in sorted(numbers | response_numbers)},
        column_numbers={name: schema[name].bounds for name in sorted(numbers)},
        column_coded=frozenset(key for factor in used for key in factor.coded),
        declared=frozenset(
            factor.column
            for factor in (*used, *(r.factor for r in responses if isinstance(r, Codes)))
            if isinstance(factor, Categorical) and factor.column is not None and not factor.written
        ),
    )


def check_offset(expression: str, schema: Schema) -> None:
    """Raise an error unless an expression, a text without ``C``, is one number per row."""
    factor = as_number(make_factor(expression, schema))
    if not isinstance(factor, Numeric):
        raise FormulaError(f"{factor.name!r} must be numeric, and has declared levels.")


def _response(factor: Numeric | Spline | Categorical) -> Numeric | Codes:
    factor = as_number(factor)
    if isinstance(factor, Categorical):
        if len(factor.levels) == 2:
            # the number of its level; Needs says who takes that
            return Codes(factor)
        raise FormulaError(
            f"the response {factor.name!r} must be numeric, and has {len(factor.levels):,} declared levels; "
            "only logit takes levels, two of them."
        )
    if isinstance(factor, Spline):
        raise FormulaError(f"the response {factor.name!r} must be numeric.")
    return factor


def _design_info(terms: list[Any]) -> Any:
    """Return patsy's DesignInfo of terms of schema factors."""
    columns = 0
    if any(term.factors and term.name() == "Intercept" for term in terms):
        raise FormulaError("a column 'Intercept' would have the name of the constant; rename it.")
    for term in terms:
        columns += int(np.prod([float(f.factor.width) for f in term.factors]))
        if columns > MAX_COLUMNS:
            raise FormulaError(f"the formula makes more than {MAX_COLUMNS:,} columns.")
    try:
        (info,) = patsy.build.design_matrix_builders([terms], lambda: iter([{}]), patsy.EvalEnvironment([]))
    except Exception as error:
        raise FormulaError(
            f"the formula does not make a design: {getattr(error, 'message', error)}."
        ) from None
    return info


@dataclass(frozen=True)
class Beside:
    """Columns read as numbers, and the codes of factors, as further responses."""

    numbers: tuple[str, ...]
    factors: tuple[str, ...]

    def __call__(self, layout: Layout) -> Layout:
        found = {f.name: f for s in layout.subterms for f in s.factors if isinstance(f, Categorical)}
        more = [Numeric(name, Name(name), layout.numbers[name], frozenset([name])) for name in self.numbers]
        codes = [Codes(found[name]) for name in self.factors]
        return replace(layout, responses=(*layout.responses, *more, *codes))


@dataclass(frozen=True)
class Second:
    """The second response of another design as a further one, and what that design reads."""

    wide: Any  # a Design

    def __call__(self, layout: Layout) -> Layout:
        wide = self.wide.layout
        responses = (*layout.responses, wide.responses[1])
        return replace(layout, responses=responses, numbers=wide.numbers | layout.numbers)
