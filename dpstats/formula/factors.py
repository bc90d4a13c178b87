"""Factors of a formula, made from its text and the schema alone.

A factor is what stands between the operators of a formula: ``carat``, ``np.log(price)``, ``C(cut,
levels=[...])``, ``bs(age, knots=[...])``. :func:`make_factor` decides what it is; :meth:`Numeric.values`,
:meth:`Spline.values` and :meth:`Categorical.codes` compute it for a piece of the rows, each row from that row
alone.
"""

import ast
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import patsy

from dpstats.data.schema import Schema, check_levels, check_levels_fit, how_to_declare, unusable
from dpstats.data.values import number_codes
from dpstats.errors import SchemaError
from dpstats.formula import ranges as iv
from dpstats.formula.cuts import Intervals, is_cut, make_intervals
from dpstats.formula.grammar import (
    NOT_EQUAL,
    Apply,
    Name,
    Node,
    Number,
    Piece,
    bind,
    called,
    constant,
    names_in,
    parse,
    refuse,
    translate,
)
from dpstats.formula.splines import SPLINES, Spline, make_spline

__all__ = ["Categorical", "Codes", "Numeric", "make_factor"]

_CONTRASTS = {
    "Treatment": (patsy.Treatment, "reference"),
    "Sum": (patsy.Sum, "omit"),
    "Poly": (patsy.Poly, "scores"),
    "Helmert": (patsy.Helmert, None),
    "Diff": (patsy.Diff, None),
}


@dataclass(frozen=True)
class Numeric:
    """One number per row.

    Attributes
    ----------
    name : str
        As patsy names it.
    node : Name or Apply
    bounds : (float, float) or None
        Every value lies in this range.
    numbers : frozenset of str
        The columns it reads, as numbers.
    truth : bool
        It is 0 or 1 in every row that is not missing, whatever the data.
    """

    name: str
    node: Name | Number | Apply
    bounds: tuple[float, float] | None
    numbers: frozenset[str]
    truth: bool = False

    coded: ClassVar[frozenset[Any]] = frozenset()
    width: ClassVar[int] = 1

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "number"}

    def values(self, piece: Piece) -> np.ndarray:
        """Return the values, shape (rows,); NaN where they cannot be computed."""
        if isinstance(self.node, Name):
            return piece.number(self.node.name)
        values = _evaluate(self.node, piece)
        return values if self.bounds is None else np.clip(values, *self.bounds) + 0.0


@dataclass(frozen=True)
class Categorical:
    """One declared level per row.

    The levels are the values of the column `column`, or of the number `argument`, or the `intervals` that
    this number is in. A `contrast` (patsy's) of None is treatment coding. `written` says whether the formula
    writes the levels out; otherwise they are those of the schema, or of truth values.
    """

    name: str
    levels: tuple[Any, ...]
    contrast: Any = field(repr=False)
    column: str | None = None
    argument: Numeric | None = None
    written: bool = False
    intervals: Intervals | None = None

    @property
    def numbers(self) -> frozenset[str]:
        return frozenset() if self.argument is None else self.argument.numbers

    @property
    def coded(self) -> frozenset[tuple[str, tuple[Any, ...]]]:
        return frozenset() if self.column is None else frozenset([(self.column, self.levels)])

    @property
    def width(self) -> int:
        return len(self.levels)

    def to_dict(self) -> dict[str, Any]:
        found = {"kind": "levels", "levels": list(self.levels)}
        return found if self.intervals is None else found | self.intervals.to_dict()

    def codes(self, piece: Piece) -> np.ndarray:
        """Return the positions of the levels, shape (rows,); -1 where the value is no level."""
        if self.argument is not None:
            values = self.argument.values(piece)
            return (
                number_codes(values, self.levels) if self.intervals is None else self.intervals.codes(values)
            )
        assert self.column is not None
        return piece.codes(self.column, self.levels)


@dataclass(frozen=True)
class Codes:
    """The codes of a factor, as numbers."""

    factor: Categorical
    bounds = None

    @property
    def truth(self) -> bool:
        return len(self.factor.levels) == 2

    @property
    def name(self) -> str:
        return self.factor.name

    @property
    def numbers(self) -> frozenset[str]:
        return self.factor.numbers

    @property
    def coded(self) -> frozenset[tuple[str, tuple[Any, ...]]]:
        return self.factor.coded

    def values(self, piece: Piece) -> np.ndarray:
        return self.factor.codes(piece).astype(float)


_BAR = (
    "a bar is the logical or, written I(a | b); fixed effects of persons are unit= with "
    'effects="unit", and random effects are not fitted'
)


def make_factor(code: str, schema: Schema) -> Numeric | Spline | Categorical:
    """Return the factor that a piece of a formula stands for.

    Parameters
    ----------
    code : str
        The piece, as patsy's parser hands it on.
    schema : Schema

    Returns
    -------
    Numeric, Spline or Categorical

    Raises
    ------
    FormulaError
        If it is outside the grammar.
    SchemaError
        If what is declared about its columns does not suffice.
    """
    tree = parse(code)
    name = called(tree)
    if isinstance(tree, ast.Call) and name in SPLINES:
        return make_spline(code, tree, lambda argument: _numeric(code, translate(argument, code), schema))
    if isinstance(tree, ast.Call) and name == "C":
        return _categorical(code, tree, schema)
    if isinstance(tree, ast.Call) and is_cut(tree):
        return _cut(code, tree, schema)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitOr):
        sides = [side for side in (tree.left, tree.right) if not isinstance(side, ast.Compare)]
        if not all(isinstance(side, ast.Name) and schema[side.id].kind == "truth" for side in sides):
            refuse(code, _BAR)
    node = translate(tree, code)
    if isinstance(node, Name):
        column = schema[node.name]
        if column.levels is not None:
            if not column.levels:
                raise SchemaError(f"column {column.name!r} has no categories; {how_to_declare(column.name)}.")
            return Categorical(code, column.levels, None, column=column.name)
    if _is_truth(node, schema):
        return Categorical(code, (False, True), None, argument=_numeric(code, node, schema))
    return _numeric(code, node, schema)


def as_number(factor: Numeric | Spline | Categorical) -> Numeric | Spline | Categorical:
    """Return a truth-valued factor as the number 0 or 1, and any other as it is."""
    if isinstance(factor, Categorical) and factor.argument is not None and factor.levels == (False, True):
        return factor.argument
    return factor


def _numeric(code: str, node: Node, schema: Schema) -> Numeric:
    _check(node, schema, code)
    truth = _is_truth(node, schema)
    node = _with_truths(node, schema)
    names = frozenset(names_in(node))
    if not names:
        refuse(code, "it names no column")
    return Numeric(code, node, iv.known(_interval(node, schema)), names, truth=truth)


def _is_truth(node: Node, schema: Schema) -> bool:
    if isinstance(node, Name):
        return schema[node.name].kind == "truth"
    return isinstance(node, Apply) and node.function.truth


def _check(node: Node, schema: Schema, code: str) -> None:
    if isinstance(node, Name):
        column = schema[node.name]
        if column.kind in ("unusable", "repeated"):
            raise SchemaError(unusable(column))
        if column.kind == "text":
            raise SchemaError(
                f"column {column.name!r} holds text ({column.dtype}) and its levels are not declared; "
                f"{how_to_declare(column.name)}."
            )
        if column.levels is not None:
            refuse(code, f"column {column.name!r} is categorical, and this needs numbers")
    elif isinstance(node, Apply):
        if node.function.logical and not all(_may_be_truth(a, schema) for a in node.args):
            refuse(code, "&, | and ~ take comparisons or boolean columns, in parentheses")
        for arg in node.args:
            _check(arg, schema, code)


def _may_be_truth(node: Node, schema: Schema) -> bool:
    return _is_truth(node, schema) or isinstance(node, Name) and schema[node.name].kind == "untyped"


def _with_truths(node: Node, schema: Schema) -> Node:
    """Return a node with ``x != 0`` in the place of every column x without a type to which &, | or ~ is
    applied.
    """
    if not isinstance(node, Apply):
        return node
    args = tuple(_with_truths(arg, schema) for arg in node.args)
    if node.function.logical:
        args = tuple(a if _is_truth(a, schema) else Apply(NOT_EQUAL, (a, Number(0.0))) for a in args)
    return Apply(node.function, args)


def _interval(node: Node, schema: Schema) -> iv.Interval:
    if isinstance(node, Number):
        return node.value, node.value
    if isinstance(node, Name):
        column = schema[node.name]
        return iv.TRUTH if column.kind == "truth" else column.bounds or iv.ANYTHING
    return node.function.interval(*(_interval(arg, schema) for arg in node.args))


def _evaluate(node: Node, piece: Piece) -> Any:
    if isinstance(node, Number):
        return np.float64(node.value)
    if isinstance(node, Name):
        return piece.number(node.name)
    values = node.function.apply(*(_evaluate(arg, piece) for arg in node.args))
    # There is one zero: which of 0 and -0 is the smaller, NumPy decides by where they stand in the array.
    values += 0.0
    return values


def _categorical(code: str, tree: ast.Call, schema: Schema) -> Categorical:
    args = bind(tree, ("data", "contrast", "levels"), code)
    if "data" not in args:
        refuse(code, "write C(x, levels=[...])")
    if isinstance(args["data"], ast.Call) and is_cut(args["data"]):
        if "levels" in args:
            refuse(code, "the levels of cut() are its labels, cut(x, [...], labels=[...])")
        factor = _cut(code, args["data"], schema, _contrast(args.get("contrast"), code))
        _check_contrast(factor)
        return factor
    node = translate(args["data"], code)
    levels = (
        check_levels(_literals(args["levels"], code), f"the levels of {code!r}") if "levels" in args else None
    )
    contrast = _contrast(args.get("contrast"), code)
    if isinstance(node, Name) and schema[node.name].kind != "truth":
        column = schema[node.name]
        if column.kind in ("unusable", "repeated"):
            raise SchemaError(unusable(column))
        if levels is None and not column.levels:
            raise SchemaError(
                f"the levels of column {column.name!r} ({column.dtype}) are not declared; "
                f"{how_to_declare(column.name)}."
            )
        if levels is not None:
            check_levels_fit(column, levels)
        known = levels or column.levels
        assert known is not None
        factor = Categorical(code, known, contrast, column=column.name, written=levels is not None)
    else:
        truth = _is_truth(node, schema)
        if levels is None and not truth:
            refuse(code, "the levels of an expression must be written out, C(expression, levels=[...])")
        levels = levels or (False, True)
        if any(isinstance(v, str) or isinstance(v, bool) != truth for v in levels):
            refuse(code, f"the levels of this expression are {'False and True' if truth else 'numbers'}")
        factor = Categorical(code, levels, contrast, argument=_numeric(code, node, schema))
    _check_contrast(factor)
    return factor


def _cut(code: str, tree: ast.Call, schema: Schema, contrast: Any = None) -> Categorical:
    of, intervals, labels = make_intervals(code, tree)
    argument = _numeric(code, translate(of, code), schema)
    return Categorical(code, labels, contrast, argument=argument, intervals=intervals)


def _literals(tree: ast.expr, code: str) -> list[Any]:
    if not isinstance(tree, ast.List | ast.Tuple):
        refuse(code, "levels, knots and scores must be written out, as in [1, 2, 3]")
    return [_literal(item, code) for item in tree.elts]


def _literal(tree: ast.expr, code: str) -> Any:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str | bool | int):
        return tree.value
    value = constant(tree, code)
    inner = tree.operand if isinstance(tree, ast.UnaryOp) else tree
    return int(value) if isinstance(getattr(inner, "value", None), int) else value


def _contrast(tree: ast.expr | None, code: str) -> Any:
    if tree is None:
        return None
    name = tree.id if isinstance(tree, ast.Name) else called(tree)
    if name not in _CONTRASTS:
        refuse(code, f"the contrasts are {', '.join(_CONTRASTS)}")
    make, parameter = _CONTRASTS[name]
    if isinstance(tree, ast.Name):
        return make()
    assert isinstance(tree, ast.Call)
    args = bind(tree, (parameter,) if parameter else (), code)
    read = _literals if parameter == "scores" else _literal
    return make(**{key: read(value, code) for key, value in args.items()})


def _check_contrast(factor: Categorical) -> None:
    if factor.contrast is None:
        return
    try:
        factor.contrast.code_with_intercept(list(factor.levels))
        factor.contrast.code_without_intercept(list(factor.levels))
    except Exception as error:
        refuse(factor.name, f"the contrast does not fit the levels ({getattr(error, 'message', error)})")
