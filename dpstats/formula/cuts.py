"""A number cut into intervals whose ends the formula writes out: ``cut(age, [0, 18, 65, np.inf])``."""

import ast
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.formula.grammar import bind, called, constant, refuse

__all__ = ["Intervals", "is_cut", "make_intervals"]

_PARAMETERS = ("x", "bins", "right", "labels", "include_lowest")
_FLAGS = ("right", "include_lowest")
_LEAST = 3


@dataclass(frozen=True)
class Intervals:
    """Intervals between neighbouring `breaks`, which increase and may be infinite.

    Attributes
    ----------
    breaks : tuple of float
    right : bool
        Whether an interval has its right end and not its left one.
    include_lowest : bool
        Whether the outermost end that no interval has belongs to the first interval, or the last.
    """

    breaks: tuple[float, ...]
    right: bool = True
    include_lowest: bool = False

    def codes(self, values: np.ndarray) -> np.ndarray:
        """The numbers of the intervals that values are in; -1 where there is none.

        Examples
        --------
        >>> values = np.array([0.0, 1.0, 1.5, 3.0, np.nan])
        >>> Intervals((0.0, 1.0, 3.0)).codes(values)
        array([-1,  0,  1,  1, -1])
        >>> Intervals((0.0, 1.0, 3.0), right=False, include_lowest=True).codes(values)
        array([ 0,  1,  1,  1, -1])
        """
        codes = np.searchsorted(self.breaks, values, side="left" if self.right else "right") - 1
        last = len(self.breaks) - 2
        if self.include_lowest:
            codes[values == self.breaks[0 if self.right else -1]] = 0 if self.right else last
        codes[(codes > last) | np.isnan(values)] = -1
        return codes

    @property
    def labels(self) -> tuple[str, ...]:
        """Of each interval, as ``(0, 18]``.

        Examples
        --------
        >>> Intervals((-np.inf, 18.0, 65.5), include_lowest=True).labels
        ('[-inf, 18]', '(18, 65.5]')
        """
        pairs = list(itertools.pairwise(map(_written, self.breaks)))
        opened, closed = ["(" if self.right else "["] * len(pairs), ["]" if self.right else ")"] * len(pairs)
        if self.include_lowest and self.right:
            opened[0] = "["
        elif self.include_lowest:
            closed[-1] = "]"
        return tuple(f"{o}{a}, {b}{c}" for o, (a, b), c in zip(opened, pairs, closed, strict=True))

    def to_dict(self) -> dict[str, Any]:
        return {"breaks": list(self.breaks), "right": self.right, "include_lowest": self.include_lowest}


def is_cut(tree: ast.expr) -> bool:
    """Whether an expression is a call of ``cut``, or of pandas' by its usual names."""
    if not isinstance(tree, ast.Call):
        return False
    of_pandas = isinstance(tree.func, ast.Attribute) and ast.unparse(tree.func) in ("pd.cut", "pandas.cut")
    return of_pandas or called(tree) == "cut"


def make_intervals(code: str, tree: ast.Call) -> tuple[ast.expr, Intervals, tuple[Any, ...]]:
    """The number that a call of ``cut`` is of, its intervals, and their labels.

    Parameters
    ----------
    code : str
        The factor, for messages.
    tree : ast.Call

    Raises
    ------
    FormulaError
        If the breaks are not written out, or do not increase, or labels are no texts for each interval.
    """
    args = bind(tree, _PARAMETERS, code)
    if "x" not in args or "bins" not in args:
        refuse(code, "write cut(x, [0, 18, 65, np.inf])")
    if not isinstance(args["bins"], ast.List | ast.Tuple):
        refuse(code, "the data would place such breaks; write them out, [0, 18, 65]")
    breaks = tuple(_end(item, code) for item in args["bins"].elts)
    if len(breaks) < _LEAST or not all(a < b for a, b in itertools.pairwise(breaks)):
        refuse(code, "the breaks must be three numbers or more that increase; np.inf is one")
    flags = [_flag(args[name], name, code) if name in args else name == "right" for name in _FLAGS]
    intervals = Intervals(breaks, *flags)
    if "labels" not in args:
        return args["x"], intervals, intervals.labels
    return args["x"], intervals, _labels(args["labels"], len(breaks) - 1, code)


def _end(tree: ast.expr, code: str) -> float:
    """A number, or infinity as ``np.inf`` and ``-np.inf``."""
    sign, inner = 1.0, tree
    while isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.USub | ast.UAdd):
        sign = -sign if isinstance(inner.op, ast.USub) else sign
        inner = inner.operand
    infinite = ast.unparse(inner) in ("np.inf", "numpy.inf", "inf", "math.inf")
    return sign * math.inf if infinite else constant(tree, code)


def _flag(tree: ast.expr, name: str, code: str) -> bool:
    value = getattr(tree, "value", None)
    if not isinstance(value, bool):
        refuse(code, f"{name} must be True or False")
    return value


def _labels(tree: ast.expr, number: int, code: str) -> tuple[str, ...]:
    items = tree.elts if isinstance(tree, ast.List | ast.Tuple) else []
    labels = tuple(label for item in items if isinstance(label := getattr(item, "value", None), str))
    if not len(items) == len(set(labels)) == number:
        refuse(code, f"labels must be {number} distinct texts, one for each interval")
    return labels


def _written(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
