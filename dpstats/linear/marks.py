"""What whitened rows are multiplied by to give a column of the design, or to tell a level, or a cell, from
other rows.

All of this is computed from what has been released, and from the formula.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.formula.factors import Categorical

if TYPE_CHECKING:
    from dpstats.linear.prepare import Prepared

__all__ = ["Groups", "column_of", "decided", "in_cell"]

_SAME = 1e-6
"""A combination of columns that is so near to 1 in a group and to 0 elsewhere marks it."""
_MOST = 4096
"""Factors with more cells are not asked how many rows of a level are in each."""


@dataclass(frozen=True)
class Groups:
    """The rows of each combination of levels of one or two factors, by the columns that these alone decide.

    Attributes
    ----------
    names : tuple of str
    codes : (k, f) int array
    values : (k, m) array
        Of a constant and of these columns.
    inverse : (m, k) array
        Pseudo-inverse of `values`.
    vectors : (q, m) array
        What whitened rows are multiplied by to give them.
    """

    names: tuple[str, ...]
    codes: Integers
    values: Floats
    inverse: Floats
    vectors: Floats

    @classmethod
    def of(cls, prepared: "Prepared", names: tuple[str, ...]) -> "Groups":
        affine, made = prepared.affine, prepared.made
        assert made is not None
        factors = {factor.name: factor for factor in made.marginals.factors}
        sizes = [len(factors[name].levels) for name in names]
        if math.prod(sizes) > _MOST:
            none = np.zeros((0, 0))
            return cls(names, np.zeros((0, len(names)), np.intp), none, none, none)
        out = [dict(levels) for levels in (*[(pair,) for pair in made.left], *prepared.out)]
        codes = np.array([
            code for code in itertools.product(*map(range, sizes))
            if not any(levels.items() <= dict(zip(names, code, strict=True)).items() for levels in out)
        ], np.intp).reshape(-1, len(names))  # fmt: skip
        inverse, values, vectors = np.linalg.inv(prepared.whitening.W), [], []
        ones = inverse[:, 0] if prepared.intercept else np.zeros(len(inverse))
        if prepared.intercept:
            values, vectors = [np.ones((len(codes), 1))], [ones[:, None]]
        for columns, of in decided(prepared, names):
            here = np.isin(columns, affine.columns)
            at = np.searchsorted(affine.columns, columns[here])
            raw = [of(dict(zip(names, code, strict=True)))[here] for code in codes]
            values.append(np.reshape(raw, (len(codes), len(at))))
            vectors.append(affine.scale[at] * inverse[:, at] + np.outer(ones, affine.loc[at]))
        values, vectors = [np.zeros((len(codes), 0)), *values], [np.zeros((len(inverse), 0)), *vectors]
        joined = np.hstack(values)
        return cls(names, codes, joined, np.asarray(np.linalg.pinv(joined), float), np.hstack(vectors))

    def mark(self, codes: dict[str, int]) -> Floats | None:
        """What whitened rows are multiplied by to give 1 where they have some levels, and 0 elsewhere, if the
        columns tell."""
        at = [self.names.index(name) for name in codes]
        target = np.all(self.codes[:, at] == list(codes.values()), axis=1) * 1.0
        combination = self.inverse @ target
        told = len(target) and np.allclose(self.values @ combination, target, atol=_SAME)
        return np.asarray(self.vectors @ combination) if told else None

    def share(self, codes: dict[str, int], gram: Floats, noise: float) -> float:
        """What rows with two levels have of a matrix of rows by their weights, over the number of rows, and
        one standard deviation more."""
        one, other = (self.mark({name: level}) for name, level in codes.items())
        if one is None or other is None:
            return 0.0
        sd = noise * float(np.linalg.norm(one) * np.linalg.norm(other))
        return max(float(one @ gram @ other) + sd, 0.0)


def decided(
    prepared: "Prepared", names: Collection[str]
) -> Iterator[tuple[Integers, Callable[[Mapping[str, int]], Floats]]]:
    """Columns of factors and of their products that some factors alone decide, and their values by level."""
    assert prepared.made is not None
    for subterm in prepared.made.marginals.design.layout.subterms:
        pairs = list(zip(subterm.factors, subterm.contrasts, strict=True))
        if pairs and all(isinstance(factor, Categorical) and factor.name in names for factor, _ in pairs):

            def of(codes: Mapping[str, int], pairs: list[Any] = pairs) -> Floats:
                values: Floats = np.ones(1)
                for factor, contrast in pairs:
                    values = np.kron(np.asarray(contrast, float)[codes[factor.name]], values)
                return values

            yield np.arange(subterm.columns.start, subterm.columns.stop), of


def in_cell(prepared: "Prepared", codes: Mapping[str, int]) -> Floats:
    """Mean of the whitened rows of a cell of factors, (q,): other columns are at their means."""
    affine, raw = prepared.affine, np.full(len(prepared.gone.free), np.nan)
    if prepared.intercept:
        raw[0] = 1.0
    for columns, of in decided(prepared, codes):
        raw[columns] = of(codes)
    z = (raw[affine.columns] - affine.loc) / affine.scale
    return np.asarray(prepared.whitening.W.T @ np.where(np.isfinite(z), z, 0.0))


def column_of(prepared: "Prepared", j: int) -> Floats | None:
    """What whitened rows are multiplied by to give a column of the design, if it is still there."""
    affine, inverse = prepared.affine, np.linalg.inv(prepared.whitening.W)
    at = np.flatnonzero(affine.columns == j)
    if not len(at):
        return None
    ones = inverse[:, 0] if prepared.intercept else 0.0
    return np.asarray(affine.scale[at[0]] * inverse[:, at[0]] + affine.loc[at[0]] * ones)
