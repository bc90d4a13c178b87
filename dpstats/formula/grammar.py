"""The closed, row-wise grammar of formula factors: text in, a tree of known functions out.

A factor (what patsy would hand to Python's ``eval``) is parsed to Python's syntax tree and translated, node
by node, into :class:`Name`, :class:`Number` and :class:`Apply`. Whatever has no translation is a
:class:`~dpstats.errors.FormulaError`. No text is ever evaluated by Python: the trees are evaluated here, by
functions of the table :data:`FUNCTIONS`, each of which computes one row's value from that row's values.
"""

import ast
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeGuard

import numpy as np

from dpstats.errors import FormulaError
from dpstats.formula import ranges as iv

__all__ = [
    "Apply",
    "FUNCTIONS",
    "Function",
    "NOT_EQUAL",
    "Name",
    "Number",
    "bind",
    "called",
    "constant",
    "names_in",
    "parse",
    "refuse",
    "translate",
]

ALLOWED = "\nWhat a formula may contain: docs/formulas.md"

# What is deeper than this is not written by hand; the bound keeps the recursion below within Python's stack.
MAX_DEPTH = 100


@dataclass(frozen=True)
class Function:
    """A function of rows.

    What it makes of a row depends on that row alone.

    Attributes
    ----------
    apply : callable
        Arrays of float64 to an array of float64, elementwise, raising nothing.
    interval : callable
        The ranges of the arguments to the range of the result (:mod:`dpstats.formula.ranges`).
    parameters : tuple of str
        The names of the arguments, which may be used as keywords.
    truth : bool
        Whether the result is a truth value (0.0 or 1.0).
    logical : bool
        Whether the arguments must be truth values.
    """

    apply: Callable[..., Any]
    interval: Callable[..., Any]
    parameters: tuple[str, ...] = ("x",)
    truth: bool = False
    logical: bool = False


@dataclass(frozen=True)
class Name:
    """A column."""

    name: str


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True)
class Apply:
    """A known function of other nodes."""

    function: Function
    args: tuple["Node", ...]


Node = Name | Number | Apply


class Piece(Protocol):
    """Some rows of the data as factors read them, and which of the rows are usable."""

    rows: int
    usable: np.ndarray

    def number(self, name: str) -> np.ndarray: ...

    def codes(self, name: str, levels: tuple[Any, ...]) -> np.ndarray: ...


def _monotone(
    ufunc: np.ufunc, scalar: Callable[[float], float], lo: float = -math.inf, hi: float = math.inf
) -> Function:
    def end(x: float) -> float:
        try:
            return float(scalar(x))
        except (OverflowError, ValueError):
            return float(ufunc(np.float64(x)))

    def interval(a: iv.Interval) -> iv.Interval:
        with np.errstate(all="ignore"):
            a = iv.within(a, lo, hi)
            return end(a[0]), end(a[1])

    return Function(ufunc, interval)


_TWO = ("x1", "x2")
_cosh = _monotone(np.cosh, math.cosh).interval
_CONSTANTS = {"pi": math.pi, "e": math.e}

#: The functions a formula may call, with or without ``np.`` in front.
FUNCTIONS = {
    "log": _monotone(np.log, math.log, 0.0),
    "log2": _monotone(np.log2, math.log2, 0.0),
    "log10": _monotone(np.log10, math.log10, 0.0),
    "log1p": _monotone(np.log1p, math.log1p, -1.0),
    "exp": _monotone(np.exp, math.exp),
    "exp2": _monotone(np.exp2, lambda x: 2.0**x),
    "expm1": _monotone(np.expm1, math.expm1),
    "sqrt": _monotone(np.sqrt, math.sqrt, 0.0),
    "cbrt": _monotone(np.cbrt, math.cbrt),
    "square": Function(np.square, lambda a: iv.power(a, (2.0, 2.0))),
    "reciprocal": Function(np.reciprocal, lambda a: iv.divide((1.0, 1.0), a)),
    "abs": Function(np.abs, iv.absolute),
    "absolute": Function(np.abs, iv.absolute),
    "fabs": Function(np.abs, iv.absolute),
    "sign": _monotone(np.sign, np.sign),
    "floor": Function(np.floor, iv.floor),
    "ceil": Function(np.ceil, iv.ceil),
    "trunc": _monotone(np.trunc, np.trunc),
    "rint": _monotone(np.rint, np.rint),
    "sin": Function(np.sin, iv.constant(-1.0, 1.0)),
    "cos": Function(np.cos, iv.constant(-1.0, 1.0)),
    "tan": Function(np.tan, iv.constant(*iv.ANYTHING)),
    "arcsin": _monotone(np.arcsin, math.asin, -1.0, 1.0),
    "arccos": Function(np.arccos, iv.constant(0.0, math.pi)),
    "arctan": _monotone(np.arctan, math.atan),
    "sinh": _monotone(np.sinh, math.sinh),
    "cosh": Function(np.cosh, lambda a: _cosh(iv.absolute(a))),
    "tanh": _monotone(np.tanh, math.tanh),
    "minimum": Function(np.minimum, iv.minimum, _TWO),
    "maximum": Function(np.maximum, iv.maximum, _TWO),
    "power": Function(np.power, iv.power, _TWO),
    "clip": Function(lambda a, lo, hi: np.minimum(np.maximum(a, lo), hi), iv.clip, ("a", "a_min", "a_max")),
    "where": Function(
        lambda c, a, b: np.where(np.isnan(c), np.nan, np.where(c != 0, a, b)),
        iv.where,
        ("condition", "x", "y"),
    ),
}


def _comparison(ufunc: np.ufunc) -> Function:
    # A comparison with a missing value is missing, not False.
    def apply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(a) | np.isnan(b), np.nan, ufunc(a, b))

    return Function(apply, iv.constant(*iv.TRUTH), _TWO, truth=True)


def _logical(apply: Callable[..., Any], parameters: tuple[str, ...] = _TWO) -> Function:
    return Function(apply, iv.constant(*iv.TRUTH), parameters, truth=True, logical=True)


_BINARY = {
    ast.Add: Function(np.add, iv.add, _TWO),
    ast.Sub: Function(np.subtract, iv.subtract, _TWO),
    ast.Mult: Function(np.multiply, iv.multiply, _TWO),
    ast.Div: Function(np.divide, iv.divide, _TWO),
    ast.FloorDiv: Function(np.floor_divide, iv.floor_divide, _TWO),
    ast.Mod: Function(np.remainder, iv.remainder, _TWO),
    ast.Pow: Function(np.power, iv.power, _TWO),
}
# The operands are 0, 1 or NaN: their extremes are the logical operations, and NaN stays.
_LOGICAL = {ast.BitAnd: _logical(np.minimum), ast.BitOr: _logical(np.maximum)}
_COMPARE = {
    ast.Lt: _comparison(np.less),
    ast.LtE: _comparison(np.less_equal),
    ast.Gt: _comparison(np.greater),
    ast.GtE: _comparison(np.greater_equal),
    ast.Eq: _comparison(np.equal),
    ast.NotEq: _comparison(np.not_equal),
}
NOT_EQUAL = _COMPARE[ast.NotEq]
_NEGATIVE = Function(np.negative, iv.negative)
_NOT = _logical(lambda a: 1.0 - a, ("x",))

_LEARNS = "it would learn from other rows"
_HINTS = {
    "center": f"{_LEARNS}; the estimators standardise the columns themselves, privately",
    "scale": f"{_LEARNS}; the estimators standardise the columns themselves, privately",
    "standardize": f"{_LEARNS}; the estimators standardise the columns themselves, privately",
    "min": f"{_LEARNS}; the smaller of two values of a row is np.minimum(x, y)",
    "max": f"{_LEARNS}; the larger of two values of a row is np.maximum(x, y)",
    "offset": "give it beside the formula, as offset= or exposure= of poisson; of the response of a linear "
    "model subtract it, as in I(y - x) ~ z",
    "ns": "write a natural cubic spline as cr(x, knots=[...], lower_bound=..., upper_bound=...)",
    "poly": f"{_LEARNS}; write x + I(x**2) + I(x**3)",
    "te": "write an interaction of bs or cr terms",
    "factor": "write C(x, levels=[...])",
    "qcut": f"{_LEARNS}; write the breaks out, cut(x, [0, 18, 65])",
    "pmin": "write np.minimum(x, y)",
    "pmax": "write np.maximum(x, y)",
    "ifelse": "write np.where(condition, x, y)",
    **dict.fromkeys(
        [
            "mean",
            "median",
            "sum",
            "std",
            "var",
            "cumsum",
            "diff",
            "sort",
            "rank",
            "quantile",
            "percentile",
            "unique",
        ],
        _LEARNS,
    ),
}


def refuse(text: str, why: str) -> NoReturn:
    """Raise the FormulaError of everything that the grammar does not contain."""
    shown = text if len(text) <= 80 else text[:77] + "..."
    raise FormulaError(f"the formula cannot contain {shown!r}: {why}.{ALLOWED}.") from None


def parse(code: str) -> ast.expr:
    """Return Python's syntax tree of a factor's text, as an expression node."""
    try:
        tree = ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        refuse(code, "it is not a Python expression" + _quoting(code))
    if _too_deep(tree):
        refuse(code, "it is nested too deeply")
    return tree


def _quoting(text: str) -> str:
    """How a column is written whose name is like such a text, which is no expression of the grammar."""
    if text.startswith("as.factor("):
        return f"; {_HINTS['factor']}"
    if not re.fullmatch(r"[\w .]+", text) or re.match(r"(np|numpy)\b", text):
        return ""
    # the formula has been taken apart: of a name with digits it is not known where its blanks were
    name = "..." if len(text) > 80 or re.search(r"\d \w", text) else text
    return f'; a column of such a name is written Q("{name}")'


def _too_deep(tree: ast.AST) -> bool:
    nodes = [tree]
    for _ in range(MAX_DEPTH):
        nodes = [child for node in nodes for child in ast.iter_child_nodes(node)]
        if not nodes:
            return False
    return True


def called(tree: ast.AST) -> str | None:
    """Return the name of the function that `tree` calls, or None; ``np.log`` is ``log``."""
    if not isinstance(tree, ast.Call):
        return None
    f = tree.func
    if isinstance(f, ast.Name):
        return f.id
    return f.attr if _of_numpy(f) and f.attr in FUNCTIONS else None


def _of_numpy(tree: ast.AST) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(tree, ast.Attribute)
        and isinstance(tree.value, ast.Name)
        and tree.value.id in ("np", "numpy")
    )


def translate(tree: ast.expr, text: str) -> Node:
    """Return the node for a syntax tree.

    Parameters
    ----------
    tree : ast.expr
    text : str
        The factor, for messages.

    Returns
    -------
    Name, Number or Apply

    Raises
    ------
    FormulaError
        If the tree has a part outside the grammar.
    """
    if isinstance(tree, ast.Name):
        return Name(tree.id)
    if isinstance(tree, ast.Constant):
        return Number(constant(tree, text))
    if _of_numpy(tree) and tree.attr in _CONSTANTS:
        return Number(_CONSTANTS[tree.attr])
    if isinstance(tree, ast.BinOp):
        args = translate(tree.left, text), translate(tree.right, text)
        if type(tree.op) in _BINARY:
            return Apply(_BINARY[type(tree.op)], args)
        if type(tree.op) in _LOGICAL:
            return Apply(_LOGICAL[type(tree.op)], args)
        power = "; the power of a column is I(age**2)" if isinstance(tree.op, ast.BitXor) else ""
        refuse(text, f"this operator is not in the grammar{power}")
    if isinstance(tree, ast.UnaryOp):
        arg = translate(tree.operand, text)
        if isinstance(tree.op, ast.UAdd):
            return arg
        if isinstance(tree.op, ast.USub):
            return Apply(_NEGATIVE, (arg,))
        if isinstance(tree.op, ast.Invert):
            return Apply(_NOT, (arg,))
    if isinstance(tree, ast.Compare):
        _refuse_text(tree, text)
        if len(tree.ops) == 1 and type(tree.ops[0]) in _COMPARE:
            args = translate(tree.left, text), translate(tree.comparators[0], text)
            return Apply(_COMPARE[type(tree.ops[0])], args)
        refuse(text, "write one comparison at a time, (x > 1) & (x < 3)")
    if isinstance(tree, ast.BoolOp):
        refuse(text, "write & and | between comparisons in parentheses")
    if isinstance(tree, ast.Call):
        return _call(tree, text)
    name = ast.unparse(tree) if isinstance(tree, ast.Attribute) else ""
    refuse(text, "this form is not in the grammar" + _quoting(name))


def _refuse_text(tree: ast.Compare, text: str) -> None:
    """Raise the error of a column that is compared with text, of which levels are declared."""
    sides = [tree.left, *tree.comparators]
    if any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides):
        name = next((side.id for side in sides if isinstance(side, ast.Name)), "g")
        refuse(text, f'text is not compared: write {name}, with levels={{"{name}": [...]}} in the call')


def names_in(node: Node) -> Iterator[str]:
    """Yield the names of the columns that a node reads."""
    if isinstance(node, Name):
        yield node.name
    elif isinstance(node, Apply):
        for arg in node.args:
            yield from names_in(arg)


def _call(tree: ast.Call, text: str) -> Node:
    name = called(tree)
    if name == "I":
        return translate(_only_argument(tree, text, "I(expression)"), text)
    if name == "Q":
        arg = _only_argument(tree, text, 'Q("column name")')
        if not (isinstance(arg, ast.Constant) and isinstance(arg.value, str)):
            refuse(text, 'Q takes one quoted column name, as in Q("column name")')
        return Name(arg.value)
    if name in ("C", "bs", "cr", "cc", "cut"):
        refuse(text, f"{name}(...) must stand on its own between the operators of the formula")
    if name not in FUNCTIONS:
        refuse(text, _HINTS.get(name or _last_name(tree.func) or "", "this function is not in the grammar"))
    function = FUNCTIONS[name]
    args = bind(tree, function.parameters, text)
    if len(args) < len(function.parameters):
        refuse(text, f"{name} has the arguments {', '.join(function.parameters)}")
    return Apply(function, tuple(translate(args[p], text) for p in function.parameters))


def _only_argument(tree: ast.Call, text: str, usage: str) -> ast.expr:
    if len(tree.args) != 1 or tree.keywords or isinstance(tree.args[0], ast.Starred):
        refuse(text, f"write {usage}")
    return tree.args[0]


def _last_name(func: ast.expr) -> str | None:
    return func.attr if isinstance(func, ast.Attribute) else None


def bind(tree: ast.Call, parameters: tuple[str, ...], text: str) -> dict[str, ast.expr]:
    """Return a call's arguments as a dictionary from parameter names to syntax trees."""
    name, known = called(tree) or ast.unparse(tree.func), ", ".join(parameters)
    usage = f"{name}() has the arguments {known}" if len(parameters) > 1 else f"{name}() has no arguments"
    usage = f"write {name}({known}=...)" if len(parameters) == 1 else usage
    if len(tree.args) > len(parameters) or any(isinstance(a, ast.Starred) for a in tree.args):
        refuse(text, usage)
    bound = dict(zip(parameters, tree.args, strict=False))
    for keyword in tree.keywords:
        if keyword.arg not in parameters or keyword.arg in bound:
            refuse(text, usage)
        bound[keyword.arg] = keyword.value
    return bound


def constant(tree: ast.expr, text: str) -> float:
    """Return the finite number that a constant expression such as ``-1.5`` stands for."""
    sign = 1.0
    while isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub | ast.UAdd):
        sign = -sign if isinstance(tree.op, ast.USub) else sign
        tree = tree.operand
    value = tree.value if isinstance(tree, ast.Constant) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        refuse(text, "a number is expected here" if value is None else "a constant must be a number")
    try:
        value = sign * float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        refuse(text, "a number must be finite")
    return value + 0.0
