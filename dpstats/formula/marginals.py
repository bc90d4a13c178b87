"""What the columns of a design are made of: variables and factors, whose distributions are released apart.

All of it follows from the formula and the schema. Made-up rows of the variables and factors become rows of
the design by the same map as rows of data.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.formula.design import Blocks, Design
from dpstats.formula.factors import Categorical, Numeric
from dpstats.formula.grammar import Name

__all__ = ["Marginals"]


@dataclass(frozen=True)
class Marginals:
    """Which columns of a design stand for themselves, and what the others are computed from.

    Attributes
    ----------
    design : Design
    direct : tuple of int
        Columns to standardise by themselves: variables, and functions of variables that no other column reads
        or of several variables.
    variables : dict of str to int
        Variables that several columns read, or a spline or a product, with their position: among the columns
        that stand for themselves, and behind these those that are no column (:attr:`extra`).
    extra : tuple of str
    factors : tuple of Categorical
    joint : tuple of int
        Columns whose joint distribution follows, in part, from those of variables and factors, and the
        constant.
    moved : tuple of int
        Those among them that read a variable and do not stand for themselves.
    """

    design: Design
    direct: tuple[int, ...]
    variables: Mapping[str, int]
    extra: tuple[str, ...]
    factors: tuple[Categorical, ...]
    joint: tuple[int, ...]
    moved: tuple[int, ...]

    @classmethod
    def of(cls, design: Design) -> "Marginals":
        """The variables and factors of a design.

        Examples
        --------
        >>> from dpstats.data.sources import open_source
        >>> schema = open_source({"y": [0.0], "x": [1.0], "z": [1.0], "w": [1.0]}).schema
        >>> marginals = Marginals.of(Design.from_formula("y ~ w + x + I(x**2) + np.log(z)", schema))
        >>> marginals.direct, dict(marginals.variables), marginals.extra, marginals.joint
        ((1, 2, 4), {'x': 1}, (), (0, 2, 3))
        """
        subterms = design.layout.subterms
        read = [
            {
                name
                for factor in subterm.factors
                if not isinstance(factor, Categorical)
                for name in factor.numbers
            }
            for subterm in subterms
        ]
        times = Counter(name for names in read for name in names)
        direct: list[int] = []
        joint: list[int] = []
        moved: list[int] = []
        names_of: list[str | None] = []
        held: set[str] = set()
        for subterm, names in zip(subterms, read, strict=True):
            columns = range(subterm.columns.start, subterm.columns.stop)
            first = subterm.factors[0] if len(subterm.factors) == 1 else None
            shared = not isinstance(first, Numeric) or any(times[name] > 1 for name in names)
            if shared:
                held |= names
                joint += columns
            if isinstance(first, Numeric) and (not shared or isinstance(first.node, Name) or len(names) > 1):
                direct += columns
                names_of.append(first.node.name if isinstance(first.node, Name) else None)
            elif names:
                moved += columns
        extra = tuple(sorted(held - set(names_of)))
        places = {name: names_of.index(name) for name in sorted(held) if name in names_of}
        places |= {name: len(direct) + i for i, name in enumerate(extra)}
        found = {f.name: f for s in subterms for f in s.factors if isinstance(f, Categorical)}
        return cls(design, tuple(direct), places, extra, tuple(found.values()), tuple(joint), tuple(moved))

    @property
    def plain(self) -> bool:
        """Whether every column but the constant stands for itself, and for no other."""
        return not self.variables and not self.factors

    def reading(self, factor: Categorical) -> Booleans:
        """Which of the :attr:`joint` columns read a factor, (len(joint),) of bool."""
        columns = [
            range(subterm.columns.start, subterm.columns.stop)
            for subterm in self.design.layout.subterms
            if any(isinstance(f, Categorical) and f.name == factor.name for f in subterm.factors)
        ]
        return np.isin(self.joint, [j for some in columns for j in some])

    def beside(self, blocks: Blocks) -> Blocks:
        """The rows of `blocks`, with the variables that are no column and the numbers of the levels as
        further responses."""
        if not self.extra and not self.factors:
            return blocks
        return blocks.of(self.design.beside(self.extra, self.factors))

    def rows(self, values: Mapping[str, Floats], codes: Mapping[str, Integers]) -> tuple[Floats, Booleans]:
        """The :attr:`joint` columns of rows that are made up.

        Parameters
        ----------
        values : mapping
            Of the variables, to arrays of the same length; they are moved into declared bounds.
        codes : mapping
            From the names of factors to the numbers of levels.

        Returns
        -------
        X : (n, len(joint)) array
        usable : (n,) array of bool
            Whether a row can be used.
        """
        numbers = {}
        for name, x in values.items():
            bounds = self.design.layout.numbers[name]
            numbers[name] = x if bounds is None else np.clip(x, *bounds)
        size = len(next(iter([*values.values(), *codes.values()])))
        piece, filled = _MadeUp(size, numbers), dict(codes)
        X, joint = np.zeros((size, len(self.design.column_names))), set(self.joint)
        with np.errstate(all="ignore"):
            for subterm in self.design.layout.subterms:
                if subterm.columns.start in joint:
                    subterm.fill(piece, filled, X[:, subterm.columns])
        return X[:, list(self.joint)], piece.usable


class _MadeUp:
    """Some rows of made-up variables."""

    def __init__(self, rows: int, numbers: Mapping[str, Floats]) -> None:
        self.rows, self._numbers = rows, numbers
        self.usable = np.ones(rows, dtype=bool)

    def number(self, name: str) -> Floats:
        return self._numbers[name]

    def codes(self, name: str, levels: Iterable[object]) -> Integers:
        raise AssertionError("levels are made up before")
