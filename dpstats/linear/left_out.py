"""Rows that leave a model with levels, and values of columns, that few rows have."""

from dataclasses import dataclass, field, replace

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.engines.local import zero_in

__all__ = ["LeftOut"]


def _no_columns() -> Integers:
    return np.zeros(0, np.intp)


@dataclass(frozen=True)
class LeftOut:
    """Which rows are left out: a function of a row, and of what was released before.

    Attributes
    ----------
    columns : (k,) int array
        Rows that are not 0 in one of these are left out, as those of levels with a column.
    dummies : tuple of int arrays
        Rows that are 0 in all of one of these are left out, too: those of reference levels.
    instead : (m,) int array
        Columns of levels that stay, which are not in the model either: without the reference level's rows the
        columns of the others add up to the constant, or to what they are multiplied with.
    free : (d, m) array
        How coefficients may move then without a fitted value that changes.
    references : tuple of (str, str, str)
        The factors of these levels, the levels, and those of `instead`.
    apart : (a,) int array
        Rows outside `least` and `most` in one of these are left out: nearly all have one value there.
    least, most : (a,) arrays
    seen : (a,) array of bool
        Whether any of these rows are seen beyond the noise.
    alike : (r,) int array
        Those of `columns` and `apart` of rows that are not few, but have both a level and another value.
    """

    columns: Integers
    dummies: tuple[Integers, ...]
    instead: Integers
    free: Floats
    references: tuple[tuple[str, str, str], ...] = ()
    apart: Integers = field(default_factory=_no_columns)
    least: Floats = field(default_factory=lambda: np.zeros(0))
    most: Floats = field(default_factory=lambda: np.zeros(0))
    seen: Booleans = field(default_factory=lambda: np.zeros(0, bool))
    alike: Integers = field(default_factory=_no_columns)

    @classmethod
    def nothing(cls, d: int) -> "LeftOut":
        """Of `d` columns."""
        return cls(_no_columns(), (), _no_columns(), np.zeros((d, 0)))

    def __bool__(self) -> bool:
        return bool(len(self.columns) or self.dummies or len(self.apart))

    def beside(self, other: "LeftOut") -> "LeftOut":
        """What this one leaves out and what `other` does."""
        columns = np.concatenate([self.columns, other.columns])
        instead = np.concatenate([self.instead, other.instead])
        free = np.hstack([self.free, other.free])
        free[columns] = 0.0
        return replace(
            self,
            columns=columns,
            dummies=self.dummies + other.dummies,
            instead=instead[~np.isin(instead, columns)],
            free=free,
            references=self.references + other.references,
            apart=np.concatenate([self.apart, other.apart]),
            least=np.concatenate([self.least, other.least]),
            most=np.concatenate([self.most, other.most]),
            seen=np.concatenate([self.seen, other.seen]),
            alike=np.concatenate([self.alike, other.alike]),
        )

    def kept(self, X: Floats) -> Booleans:
        """Which rows are not left out, (n,) of bool.

        Examples
        --------
        >>> some = LeftOut(np.array([2]), (np.array([1, 2]),), np.array([1]), np.zeros((3, 1)))
        >>> some.kept(np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]))
        array([False,  True, False])
        """
        kept = zero_in(X, self.columns)
        for columns in self.dummies:
            kept &= ~zero_in(X, columns)
        for j, least, most in zip(self.apart, self.least, self.most, strict=True):
            kept &= (X[:, j] >= least) & (X[:, j] <= most)
        return np.asarray(kept, bool)
