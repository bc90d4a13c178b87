"""Rows that leave a model with levels that few rows have."""

from dataclasses import dataclass

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.engines.local import zero_in

__all__ = ["LeftOut"]


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
    """

    columns: Integers
    dummies: tuple[Integers, ...]
    instead: Integers
    free: Floats
    references: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def nothing(cls, d: int) -> "LeftOut":
        """Of `d` columns."""
        none = np.zeros(0, np.intp)
        return cls(none, (), none, np.zeros((d, 0)))

    def __bool__(self) -> bool:
        return bool(len(self.columns) or self.dummies)

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
        return np.asarray(kept, bool)
