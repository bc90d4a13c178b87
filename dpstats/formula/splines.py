"""Spline bases with public knots: patsy's ``bs``, ``cr`` and ``cc``, whose knots would else be learned."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from patsy.mgcv_cubic_splines import CC, CR
from patsy.splines import BS

from dpstats.engines.local import row_products
from dpstats.formula.grammar import Piece, bind, constant, refuse

__all__ = ["SPLINES", "Spline", "make_spline"]

SPLINES = {
    "bs": (BS, ("x", "df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound")),
    "cr": (CR, ("x", "df", "knots", "lower_bound", "upper_bound", "constraints")),
    "cc": (CC, ("x", "df", "knots", "lower_bound", "upper_bound", "constraints")),
}
_MAX_DEGREE = 10
_MAX_KNOTS = 200
# Points per knot interval at which the range of a basis function is looked for.
_GRID = 64


@dataclass(frozen=True)
class Spline:
    """A spline basis with public knots: several numbers per row.

    `basis` is patsy's transform with its knots set, and `arguments` what it is called with; times `within`
    its columns are where constraints hold. Values of the `argument` outside the `limits`, which are the outer
    knots, are moved there (by ``cc``: wrapped around).
    """

    name: str
    argument: Any
    basis: Any = field(repr=False)
    limits: tuple[float, float]
    cyclic: bool
    arguments: dict[str, Any] = field(repr=False, hash=False)
    within: np.ndarray | None = field(default=None, repr=False, hash=False, compare=False)
    column_bounds: tuple[tuple[float, float], ...] = ()

    coded: ClassVar[frozenset[Any]] = frozenset()

    @property
    def numbers(self) -> frozenset[str]:
        return self.argument.numbers

    @property
    def width(self) -> int:
        return len(self.column_bounds)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "spline", "lower": float(self.limits[0]), "upper": float(self.limits[1])}

    def values(self, piece: Piece) -> np.ndarray:
        """Return the basis, shape (rows, width); NaN where the argument is missing."""
        x = self.argument.values(piece)
        unusable = ~np.isfinite(x)
        x = np.where(unusable, self.limits[0], x)
        basis = self.raw(x if self.cyclic else np.clip(x, *self.limits))
        if self.column_bounds:
            lo, hi = np.transpose(self.column_bounds)
            basis = np.clip(basis, lo, hi)
        basis[unusable] = np.nan
        return basis

    def raw(self, x: np.ndarray) -> np.ndarray:
        """Return patsy's basis of values that are inside the limits."""
        if not len(x):
            return np.empty((0, self.width))
        basis = np.array(self.basis.transform(x, **self.arguments), dtype=float)
        return basis if self.within is None else row_products(basis, self.within)


def make_spline(code: str, tree: ast.Call, make_argument: Callable[..., Any]) -> Spline:
    """Return the spline that a call of ``bs``, ``cr`` or ``cc`` stands for.

    Parameters
    ----------
    code : str
        The call, for the name and for messages.
    tree : ast.Call
    make_argument : callable
        Makes the Numeric of the syntax tree of the first argument.

    Raises
    ------
    FormulaError
        If a knot or an end is not written out, or they do not make a spline.
    """
    kind = ast.unparse(tree.func)
    make, parameters = SPLINES[kind]
    args = bind(tree, parameters, code)
    if "x" not in args:
        refuse(code, f"write {kind}(x, knots=[...], lower_bound=..., upper_bound=...)")
    if "df" in args:
        refuse(code, "df= would place the knots at quantiles of the data; write them out, knots=[...]")
    if "knots" not in args:
        refuse(code, "the knots must be written out, knots=[...]")
    if "constraints" in args and not isinstance(args["constraints"], ast.List | ast.Tuple):
        refuse(
            code,
            "constraints='center' would learn from the data; write the numbers out, or remove the intercept",
        )
    argument = make_argument(args["x"])
    lower, upper = (
        constant(args[end], code) if end in args else (argument.bounds or (None, None))[i]
        for i, end in enumerate(("lower_bound", "upper_bound"))
    )
    if lower is None or upper is None:
        refuse(
            code, "lower_bound= and upper_bound= must be given here, or bounds={...} declared for the column"
        )
    options = {
        "knots": np.array(_constants(args["knots"], code)),
        "lower_bound": lower,
        "upper_bound": upper,
    }
    if "degree" in args:
        degree = constant(args["degree"], code)
        if degree not in range(_MAX_DEGREE + 1):
            refuse(code, f"degree must be an integer from 0 to {_MAX_DEGREE}")
        options["degree"] = int(degree)
    if "include_intercept" in args:
        flag = getattr(args["include_intercept"], "value", None)
        if not isinstance(flag, bool):
            refuse(code, "include_intercept must be True or False")
        options["include_intercept"] = flag
    if "constraints" in args:
        options["constraints"] = _matrix(args["constraints"], code)
    return _fixed_spline(code, kind, make, argument, (lower, upper), options)


def _constants(tree: ast.expr, code: str) -> list[float]:
    if not isinstance(tree, ast.List | ast.Tuple) or len(tree.elts) > _MAX_KNOTS:
        refuse(code, f"the knots must be written out, as in knots=[1, 2, 3], and be at most {_MAX_KNOTS}")
    return [constant(item, code) for item in tree.elts]


def _matrix(tree: ast.expr, code: str) -> np.ndarray:
    if isinstance(tree, ast.List | ast.Tuple) and all(
        isinstance(row, ast.List | ast.Tuple) for row in tree.elts
    ):
        rows = [_constants(row, code) for row in tree.elts]
    else:
        rows = [_constants(tree, code)]
    if not rows or len({len(row) for row in rows}) != 1:
        refuse(code, "the constraints must be rows of equal length")
    return np.array(rows)


def _fixed_spline(
    code: str,
    kind: str,
    make: Callable[..., Any],
    argument: Any,
    limits: tuple[float, float],
    options: dict[str, Any],
) -> Spline:
    basis, within = make(), None
    lo, hi = limits
    try:
        basis.memorize_chunk(np.array(limits), **options)
        basis.memorize_finish()
        if "constraints" in options:
            # patsy's product with this is one of matrices, which rounds a row by how many there are
            rows, basis._constraints = options["constraints"], None
            within = np.linalg.qr(rows.T, mode="complete")[0][:, len(rows) :]
        ends = np.unique(np.concatenate([limits, options["knots"]]))
        grid = np.concatenate([np.linspace(a, b, _GRID) for a, b in zip(ends[:-1], ends[1:], strict=True)])
        spline = Spline(code, argument, basis, limits, kind == "cc", options, within)
        values = spline.raw(grid)
    except Exception as error:
        refuse(code, f"the knots and bounds do not make a spline ({error})")
    if not (lo < hi and np.isfinite(values).all()):
        refuse(code, "the knots and bounds do not make a spline")
    if kind == "bs":
        bounds = ((0.0, 1.0),) * values.shape[1]
    else:
        # A cubic between grid points strays less than the margin; values() moves what would.
        low, high = values.min(axis=0), values.max(axis=0)
        margin = 0.01 * (high - low)
        bounds = tuple(zip((low - margin).tolist(), (high + margin).tolist(), strict=True))
    return replace(spline, column_bounds=bounds)
