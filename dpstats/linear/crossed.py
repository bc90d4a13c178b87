"""Cells of products: the rows of each combination of levels and of the values of columns with two.

All of this is computed from what has been released, and from the formula.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.formula.factors import Categorical
from dpstats.linear.conditioning import MadeUp, values_of
from dpstats.linear.public import PublicDesign
from dpstats.linear.two_values import TwoValues, two_values
from dpstats.mechanisms.standardize import Standardization
from dpstats.mechanisms.whiten import Affine, Whitening

__all__ = ["Cells", "cells_of_products"]

_EACH, _AT_ONCE = 64, 2**20
"""Made-up rows of a cell, in which all that it is not a cell of has its distribution; and numbers at once."""
_MOST = 1024
"""Products with more cells are not asked about."""
_OWN = 1e-6
"""A combination of columns that is so near to 1 in a cell and to 0 elsewhere tells its rows from others."""
_DECIMALS = 9
"""Cells whose columns are equal to so many decimals are one."""
_VARIES = 1e-6
"""Directions in which made-up rows of a cell vary by less than this share of the farthest are none."""


@dataclass(frozen=True)
class Cells:
    """Groups of rows that only columns of products tell from others, as far as released numbers say.

    Attributes
    ----------
    means : (k, q) array
        Of the standardised columns.
    shares : (k,) array
        Of the rows.
    within : tuple of (r, q) arrays
        Directions from each mean in which a variable that is multiplied with the cell's moves rows.
    factors : frozenset of str
        Factors whose levels these groups are, or are parts of.
    columns : (j,) int array
        Columns of the design of which the same holds.
    """

    means: Floats
    shares: Floats
    within: tuple[Floats, ...] = ()
    factors: frozenset[str] = frozenset()
    columns: Integers = field(default_factory=lambda: np.zeros(0, np.intp))

    @classmethod
    def none(cls, q: int) -> "Cells":
        """Without a product there are none."""
        return cls(np.zeros((0, q)), np.zeros(0))


def cells_of_products(
    made: MadeUp,
    variables: Standardization | None,
    public: PublicDesign,
    affine: Affine,
    whitening: Whitening,
    gram: Floats,
    rows: float,
) -> Cells:
    r"""The cells of the largest products of factors and of variables with two values.

    Cells between which no column distinguishes are one. Where a combination :math:`c^\top z` of columns is 1
    in a cell and 0 in all others, its share of the rows is :math:`c^\top E[zz^\top] c`, of which the second
    moments are released; they are of rows with known weights. A cell without such a combination is not asked
    about; the values of its columns are, each by itself, if they have one.

    Parameters
    ----------
    made : MadeUp
    variables : Standardization or None
        Of the columns that stand for themselves, and the variables behind them.
    public : PublicDesign
        Without a constant numeric variables are not asked whether they have two values.
    affine : Affine
    whitening : Whitening
    gram : (q, q) array
        About the second moments of standardised rows.
    rows : float
        Released number of rows.

    Returns
    -------
    Cells
    """
    two, free = {}, public.free
    for name, i in made.marginals.variables.items() if public.intercept else ():
        assert variables is not None
        at = np.flatnonzero(affine.columns == free[i]) if i < len(free) else np.zeros(0, np.intp)
        # of a variable that is no column the rows below and above its location were counted apart
        below, above = variables.rows[i].sum(axis=1)
        square, mean = (gram[at[0], at[0]], whitening.mean[at[0]]) if len(at) else (1.0, above - below)
        found = two_values(variables, i, float(square), float(mean), rows)
        if found is not None:
            two[name] = found
    return _Crossing(made, variables, two, rows, affine).cells(whitening, gram)


class _Crossing:
    """Made-up rows of cells; see :func:`cells_of_products`."""

    def __init__(
        self,
        made: MadeUp,
        variables: Standardization | None,
        two: Mapping[str, TwoValues],
        rows: float,
        affine: Affine,
    ) -> None:
        self._marginals, self._two, self._affine = made.marginals, two, affine
        generator, grid = np.random.default_rng(20220816), (np.arange(_EACH) + 0.5) / _EACH
        self._spread, self._codes = dict[str, Floats](), dict[str, Integers]()
        for name, i in made.marginals.variables.items():
            assert variables is not None
            values = values_of(variables, i, rows, _EACH)
            if name in two:
                values = np.where(grid < two[name].share, two[name].other, two[name].here)
            self._spread[name] = generator.permutation(values)
        self._choices = {
            name: {found.other: found.share, found.here: 1 - found.share} for name, found in two.items()
        }
        for name, codes in made.codes.items():
            self._codes[name] = generator.permutation(np.sort(codes)[(grid * len(codes)).astype(np.intp)])
            levels = [level for level in np.unique(codes) if (name, level) not in made.left]
            self._choices[name] = {float(level): float(np.mean(codes == level)) for level in levels}
        self._reads = [
            frozenset[str]().union(
                *([f.name] if isinstance(f, Categorical) else f.numbers for f in subterm.factors)
            )
            for subterm in made.marginals.design.layout.subterms
            for _ in range(subterm.columns.start, subterm.columns.stop)
        ]
        joint = np.array(made.marginals.joint, np.intp)
        self._inside = np.isin(joint, affine.columns)
        self._at = np.searchsorted(affine.columns, joint[self._inside])

    def cells(self, whitening: Whitening, gram: Floats) -> Cells:
        """All of them; `gram` has the second moments of standardised rows."""
        known = frozenset(self._choices)
        sets = {names & known for names in self._reads}
        found = [(np.zeros((0, len(gram))), np.zeros(0), list[Floats]())]
        asked, single = set[str](), set[str]()
        for crossed in sorted((s for s in sets if s and not any(s < t for t in sets)), key=sorted):
            whole = False
            if len(crossed) > 1 and math.prod(len(self._choices[name]) for name in crossed) <= _MOST:
                z, share, moved, whole = self._product(crossed, whitening, gram)
                found.append((z, share, moved))
            (asked if whole else single).update(crossed)
        for name in sorted(single - asked):
            if name in self._two or self._beside([name]):
                z, moved = self._rows([name], [(value,) for value in self._choices[name]])
                own = self._columns_of([name])
                if np.abs(z[:, own] @ np.linalg.pinv(z[:, own]) - np.eye(len(z))).max() < _OWN:
                    found.append((z, np.array(list(self._choices[name].values())), moved))
                    asked.add(name)
        means, shares, within = zip(*found, strict=True)
        columns = [j for j, names in enumerate(self._reads) if names and names <= asked]
        return Cells(
            np.vstack(means),
            np.concatenate(shares),
            tuple(itertools.chain(*within)),
            frozenset(asked),
            np.array(columns, np.intp),
        )

    def _product(
        self, crossed: frozenset[str], whitening: Whitening, gram: Floats
    ) -> tuple[Floats, Floats, list[Floats], bool]:
        """Means, shares and directions of a product's cells, and whether nothing else is to be asked."""
        names = sorted(crossed)
        z, moved = self._rows(names, list(itertools.product(*(self._choices[name] for name in names))))
        own = self._columns_of(crossed)
        _, first, which = np.unique(
            np.round(z[:, own], _DECIMALS), axis=0, return_index=True, return_inverse=True
        )
        apart = len(first) == len(z)
        z = np.array([z[which.ravel() == i].mean(axis=0) for i in range(len(first))])
        c = np.zeros((len(gram), len(z)))
        c[own] = np.linalg.pinv(z[:, own])
        told = np.abs(z @ c - np.eye(len(z))).max(axis=0) < _OWN
        lengths2 = np.maximum(np.sum((z @ whitening.W) ** 2, axis=1), 1e-300)
        shares = np.einsum("ik,ij,jk->k", c, gram, c) / np.minimum(1.0, whitening.radius2 / lengths2)
        # of cells that are one the variables beside them move rows in more than one way
        within = [moved[i] if apart else np.zeros((0, len(gram))) for i in first[told]]
        whole = bool(told.all()) and (apart or (len(z) > 1 and not self._beside(names)))
        return z[told], np.clip(shares, 0.0, 1.0)[told], within, whole

    def _columns_of(self, names: Iterable[str]) -> Integers:
        """Standardised columns that read nothing but variables of `names`, the constant among them."""
        return np.flatnonzero([self._reads[j] <= set(names) for j in self._affine.columns])

    def _beside(self, names: Sequence[str]) -> frozenset[str]:
        """Variables with more values, of which all of `names` have products."""
        together = (reads for reads in self._reads if reads >= set(names))
        return frozenset[str]().union(*together) - set(self._choices)

    def _rows(self, names: Sequence[str], cells: Sequence[tuple[float, ...]]) -> tuple[Floats, list[Floats]]:
        """Mean standardised rows of cells, (k, q), and how what is beside them moves rows."""
        affine, crossed, beside = self._affine, set(names), self._beside(names)
        q, reads = len(affine.columns), [self._reads[j] for j in affine.columns]
        varies = np.array([names <= crossed | beside and bool(names & beside) for names in reads])
        means, moved, size = np.zeros((len(cells), q)), list[Floats](), max(_AT_ONCE // (_EACH * q), 1)
        for start in range(0, len(cells), size):
            part = np.array(cells[start : start + size])
            k = len(part)
            values = {name: np.tile(x, k) for name, x in self._spread.items()}
            codes = {name: np.tile(x, k) for name, x in self._codes.items()}
            for name, chosen in zip(names, part.T, strict=True):
                if name in self._two:
                    values[name] = np.repeat(chosen, _EACH)
                else:
                    codes[name] = np.repeat(chosen.astype(np.intp), _EACH)
            X, usable = self._marginals.rows(values, codes)
            z = np.zeros((k * _EACH, q))
            z[:, self._at] = (X[:, self._inside] - affine.loc[self._at]) / affine.scale[self._at]
            for i, (rows, use) in enumerate(
                zip(z.reshape(k, _EACH, q), usable.reshape(k, _EACH), strict=True)
            ):
                rows = rows[use] if use.any() else np.zeros((1, q))
                means[start + i] = rows.mean(axis=0)
                moved.append(_directions(np.where(varies, rows - means[start + i], 0.0)))
        return means, moved


def _directions(rows: Floats) -> Floats:
    """Directions in which rows vary, as long as their standard deviations."""
    if not rows.any():
        return np.zeros((0, rows.shape[1]))
    _, s, V = np.linalg.svd(rows / np.sqrt(len(rows)), full_matrices=False)
    return np.asarray((s[:, None] * V)[s > _VARIES * s[0]], float)
