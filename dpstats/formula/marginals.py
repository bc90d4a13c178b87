"""What the columns of a design are made of: variables and factors, whose distributions are released apart.

All of it follows from the formula and the schema. Made-up rows of the variables and factors become rows of
the design by the same map as rows of data.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.formula.design import Blocks, Design
from dpstats.formula.factors import Categorical, Numeric
from dpstats.formula.grammar import Name

__all__ = ["Marginals"]


class Reference(NamedTuple):
    """A level without a column of its own; columns are those of the design.

    Attributes
    ----------
    factor : str
    names : tuple of str
        Of all levels.
    level : int
    dummies : (L - 1,) int array
        One of these is 1 in the rows of any other level, and all are 0 in its own.
    own : (L - 1, m) int array
        Those of each other level: its dummy, and what that is multiplied with.
    margin : (m,) int array
        What those of all levels would add up to: the constant, and what dummies are multiplied with.
    """

    factor: str
    names: tuple[str, ...]
    level: int
    dummies: Integers
    own: Integers
    margin: Integers


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

    def own_columns(self, factor: Categorical) -> tuple[Booleans, Booleans]:
        """Which of the :attr:`joint` columns are 0 but for rows of one level of a factor.

        Parameters
        ----------
        factor : Categorical
            One of :attr:`factors`.

        Returns
        -------
        own : (L, len(joint)) array of bool
            By level; none of a level that has no such column in some term of the factor, as the reference
            level.
        whole : (L,) array of bool
            Whether every row of a level is not 0 in one of them.
        """
        levels = len(factor.levels)
        own = np.zeros((levels, len(self.design.column_names)), bool)
        everywhere, whole = np.ones(levels, bool), np.zeros(levels, bool)
        for subterm in self.design.layout.subterms:
            names = [f.name if isinstance(f, Categorical) else None for f in subterm.factors]
            if factor.name not in names:
                continue
            place = names.index(factor.name)
            filled = [None if c is None else c != 0 for c in subterm.contrasts]
            here = filled.pop(place)
            assert here is not None
            alone = here & (here.sum(axis=0) == 1)
            before = math.prod(map(_width, subterm.factors[:place], subterm.contrasts[:place]))
            rest = math.prod(map(_width, subterm.factors[place + 1 :], subterm.contrasts[place + 1 :]))
            own[:, subterm.columns] = np.tile(np.repeat(alone, before, axis=1), rest)
            everywhere &= alone.any(axis=1)
            if all(other is not None and other.any(axis=1).all() for other in filled):
                whole |= alone.any(axis=1)
        return (own & everywhere[:, None])[:, list(self.joint)], whole & everywhere

    def reference(self, factor: Categorical) -> "Reference | None":
        """The level of a factor that has no column, as treatment contrasts have one.

        Parameters
        ----------
        factor : Categorical
            One of :attr:`factors`.

        Returns
        -------
        Reference or None
            None without a constant, where there is no such level, or not the same one in all terms of the
            factor, or where these are products with something that is no term itself.
        """
        subterms, width = self.design.layout.subterms, len(factor.levels) - 1
        found: list[tuple[int, Integers, Integers]] = []
        dummies = None
        for subterm in subterms if self.design.has_intercept and width else ():
            names = [f.name for f in subterm.factors]
            if factor.name not in names:
                continue
            place = names.index(factor.name)
            contrast = subterm.contrasts[place]
            assert contrast is not None
            level, others = np.flatnonzero(~np.any(contrast, axis=1)), names[:place] + names[place + 1 :]
            if len(level) != 1 or not np.array_equal(np.delete(contrast, level, axis=0), np.eye(width)):
                return None
            beside = [s for s in subterms if [f.name for f in s.factors] == others]
            before = math.prod(map(_width, subterm.factors[:place], subterm.contrasts[:place]))
            columns = np.arange(subterm.columns.start, subterm.columns.stop)
            own = np.swapaxes(columns.reshape(-1, width, before), 0, 1).reshape(width, -1)
            margin = np.arange(beside[0].columns.start, beside[0].columns.stop) if beside else columns[:0]
            if len(margin) != own.shape[1]:
                return None
            found.append((int(level[0]), own, margin))
            if not others:
                dummies = columns
        if dummies is None or len({at for at, _, _ in found}) != 1:
            return None
        at = found[0][0]
        own, margin = np.hstack([part for _, part, _ in found]), np.hstack([part for *_, part in found])
        return Reference(factor.name, tuple(map(str, factor.levels)), at, dummies, own, margin)

    def shared(self, unseen: Sequence[Booleans]) -> Booleans:
        """Which columns share a level that is not seen, of factors whose columns share levels: those of their
        terms, and of what these are products with.

        Parameters
        ----------
        unseen : sequence of (L,) array of bool
            Which levels of each of :attr:`factors` are not seen.
        """
        found, layout = np.zeros(len(self.design.column_names), bool), self.design.layout
        names = [{f.name for f in s.factors} for s in layout.subterms]
        for factor, levels in zip(self.factors, unseen, strict=True):
            if factor.name in layout.sharing and levels.any():
                own = [n for n in names if factor.name in n]
                lost = [*own, *(n - {factor.name} for n in own)]
                for subterm, n in zip(layout.subterms, names, strict=True):
                    found[subterm.columns] |= n in lost
        return found

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


def _width(factor: Any, contrast: np.ndarray | None) -> int:
    """The number of columns that a factor multiplies a product by."""
    if contrast is not None:
        return contrast.shape[1]
    return 1 if isinstance(factor, Numeric) else len(factor.column_bounds)


class _MadeUp:
    """Some rows of made-up variables."""

    def __init__(self, rows: int, numbers: Mapping[str, Floats]) -> None:
        self.rows, self._numbers = rows, numbers
        self.usable = np.ones(rows, dtype=bool)

    def number(self, name: str) -> Floats:
        return self._numbers[name]

    def codes(self, name: str, levels: Iterable[object]) -> Integers:
        raise AssertionError("levels are made up before")
