"""The plan of a design: which factors make which columns, and how to fill them for some rows.

patsy lays out the columns (contrasts, redundancy, names) from factors that know their schema and no data.
"""

from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import patsy

from dpstats.errors import FormulaError
from dpstats.formula import ranges as iv
from dpstats.formula.factors import Categorical, Numeric, as_number, make_factor
from dpstats.formula.terms import parse_terms

__all__ = ["Plan", "make_plan"]

MAX_COLUMNS = 3_000


@dataclass(frozen=True)
class Plan:
    """How rows become numbers.

    Attributes
    ----------
    responses : tuple of Numeric
    subterms : tuple of _Subterm
    column_names : tuple of str
    term_slices : mapping of str to slice
    column_bounds : tuple of (float, float) or None
    numbers, column_numbers : dict of str to (float, float) or None
        The columns read as numbers, with their declared bounds: in all, and by the right-hand side.
    coded, column_coded : frozenset of (str, tuple)
        The columns read as levels, with the levels: likewise.
    declared : frozenset of str
        The columns whose levels in the schema are used; of others the formula writes them out.
    """

    responses: tuple
    subterms: tuple
    column_names: tuple
    term_slices: MappingProxyType
    column_bounds: tuple
    numbers: dict
    column_numbers: dict
    column_coded: frozenset
    declared: frozenset

    @property
    def coded(self):
        # A response is a number, so the levels are those of the right-hand side.
        return self.column_coded

    @property
    def column_reads(self):
        """The names of the columns that the right-hand side reads."""
        return frozenset(self.column_numbers) | {name for name, _ in self.column_coded}

    @property
    def reads(self):
        """The names of all columns that are read."""
        return frozenset(self.numbers) | self.column_reads

    def fill_columns(self, chunk, out):
        """Write the design matrix of a chunk to `out`, and mark the rows of the chunk that are not usable."""
        values = {}
        for subterm in self.subterms:
            subterm.fill(chunk, values, out[:, subterm.columns])

    def fill_responses(self, chunk, out):
        """Write the responses of a chunk to `out`, and mark the rows of the chunk that are not usable."""
        for j, response in enumerate(self.responses):
            out[:, j] = response.values(chunk)
            chunk.usable &= np.isfinite(out[:, j])


@dataclass(frozen=True)
class _Subterm:
    """Consecutive columns: all products of a column of each part, those of the first part varying fastest."""

    columns: slice
    factors: tuple
    contrasts: tuple = field(repr=False)

    def fill(self, chunk, values, out):
        block = None
        for factor, contrast in zip(self.factors, self.contrasts, strict=True):
            if factor.name not in values:
                values[factor.name] = _values(factor, chunk)
            part = values[factor.name]
            part = part if contrast is None else contrast[part]
            block = part if block is None else (part[:, :, None] * block[:, None, :]).reshape(len(part), -1)
        out[...] = 1.0 if block is None else block
        if len(self.factors) > 1:
            chunk.usable &= np.isfinite(out).all(axis=1)

    def bounds(self):
        products = [(1.0, 1.0)]
        for factor, contrast in zip(self.factors, self.contrasts, strict=True):
            if contrast is not None:
                part = zip(contrast.min(axis=0).tolist(), contrast.max(axis=0).tolist(), strict=True)
            elif isinstance(factor, Numeric):
                part = [factor.bounds or iv.ANYTHING]
            else:
                part = factor.column_bounds
            products = [iv.multiply(p, q) for q in part for p in products]
        return [iv.known(p) for p in products]


def _values(factor, chunk):
    """Return a factor's codes (rows,) or numbers (rows, width), marking the rows that are not usable."""
    if isinstance(factor, Categorical):
        codes = factor.codes(chunk)
        chunk.usable &= codes >= 0
        return codes
    values = factor.values(chunk)
    if values.ndim == 2:
        chunk.usable &= np.isfinite(values).all(axis=1)
        return values
    chunk.usable &= np.isfinite(values)
    return values[:, None]


class _SchemaFactor:
    """A factor as patsy wants to see it, whose only data are one row made up from the schema."""

    origin = None

    def __init__(self, factor):
        self.factor = factor

    def name(self):
        return self.factor.name

    def __eq__(self, other):
        return isinstance(other, _SchemaFactor) and self.name() == other.name()

    def __hash__(self):
        return hash(self.name())

    def memorize_passes_needed(self, state, eval_env):
        return 0

    def eval(self, state, data):
        factor = self.factor
        if isinstance(factor, Categorical):
            return patsy.builtins.C([], factor.contrast, list(factor.levels))
        return np.zeros((1, factor.width))


def make_plan(formula, schema):
    """Return the plan of a formula for a schema; the errors are those of ``Design.from_formula``."""
    lhs, rhs = parse_terms(formula, schema)
    made = {}

    def factor_of(code):
        if code not in made:
            made[code] = make_factor(code, schema)
        return made[code]

    responses = tuple(_response(term, factor_of) for term in lhs)
    if not responses:
        raise FormulaError("the formula has no response; write 'response ~ terms'.")
    if not rhs:
        raise FormulaError("the formula has no terms; write at least the constant, 'response ~ 1'.")
    terms = [patsy.Term([_SchemaFactor(factor_of(f.name())) for f in term.factors]) for term in rhs]
    info = _layout(terms)
    subterms, start = [], 0
    for parts in info.term_codings.values():
        for part in parts:
            columns = slice(start, start + part.num_columns)
            factors = tuple(f.factor for f in part.factors)
            contrasts = tuple(
                np.array(part.contrast_matrices[f].matrix, dtype=float)
                if f in part.contrast_matrices
                else None
                for f in part.factors
            )
            subterms.append(_Subterm(columns, factors, contrasts))
            start = columns.stop
    used = [f.factor for term in terms for f in term.factors]
    numbers = {name for factor in used for name in factor.numbers}
    response_numbers = {name for factor in responses for name in factor.numbers}
    return Plan(
        responses=responses,
        subterms=tuple(subterms),
        column_names=tuple(info.column_names),
        term_slices=MappingProxyType(dict(info.term_name_slices)),
        column_bounds=tuple(b for subterm in subterms for b in subterm.bounds()),
        numbers={name: schema[name].bounds for name in sorted(numbers | response_numbers)},
        column_numbers={name: schema[name].bounds for name in sorted(numbers)},
        column_coded=frozenset(key for factor in used for key in factor.coded),
        declared=frozenset(
            factor.column for factor in used if isinstance(factor, Categorical) and not factor.written
        ),
    )


def _response(term, factor_of):
    if len(term.factors) != 1:
        raise FormulaError(
            f"a response is one number per row, which {term.name()!r} is not; two are written y1 + y2 ~ 1."
        )
    factor = as_number(factor_of(term.factors[0].name()))
    if not isinstance(factor, Numeric):
        raise FormulaError(f"the response {factor.name!r} must be numeric.")
    return factor


def _layout(terms):
    """Return patsy's DesignInfo of terms of schema factors."""
    columns = 0
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
