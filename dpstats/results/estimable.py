"""Coefficients that move without a fitted value that changes, in coordinates in which the others stay."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.results.roots import determined_by

__all__ = ["Anchored"]

_NONE = 1e-9


@dataclass(frozen=True)
class Anchored:
    r"""Coordinates :math:`\beta_j - \sum_m B_{jm} \beta_{p_m}`, and those of the anchors :math:`p_m` as they
    are.

    What a fit determines of coefficients that move together are these differences, as a model has them whose
    reference levels are the anchors'. Fits that determine all of the coefficients know the anchors, too.

    Attributes
    ----------
    moves : (d, m) array
        ``B``: how coefficients may move; the identity in the rows of the anchors.
    anchors : (m,) int array
    """

    moves: Floats
    anchors: Integers

    @classmethod
    def of(cls, frees: Iterable[tuple[Floats | None, Floats]], d: int) -> "Anchored":
        """Those of all movements.

        Parameters
        ----------
        frees : iterable of ((d, m) array or None, (d,) array)
            How coefficients of a fit may move, and its estimates. Anchors are coefficients that are 0 in a
            fit, as it has them in place of what it does not determine, if there are some.
        d : int

        Examples
        --------
        >>> found = Anchored.of([(np.array([[1.0], [-1.0], [-1.0]]), np.array([2.0, 0.0, 0.5]))], 3)
        >>> found.anchors, found.moves.ravel()
        (array([1]), array([-1.,  1.,  1.]))
        """
        moves, anchors = np.zeros((d, 0)), list[int]()
        for free, estimates in frees:
            for column in () if free is None else free.T:
                left = column - moves @ column[anchors]
                some = np.abs(left) > _NONE * np.max(np.abs(column), initial=0.0)
                if not some.any():
                    continue
                zero = some & (estimates == 0)
                anchor = int(np.argmax(np.where(zero if zero.any() else some, np.abs(left), 0.0)))
                left = left / left[anchor]
                moves = np.column_stack([moves - np.outer(left, moves[anchor]), left])
                anchors.append(anchor)
        return cls(moves, np.array(anchors, np.intp))

    def __bool__(self) -> bool:
        return bool(len(self.anchors))

    def _moved(self, sign: float) -> Floats:
        at = np.eye(len(self.moves))
        at[:, self.anchors] += sign * self.moves
        at[self.anchors] = np.eye(len(self.moves))[self.anchors]
        return at

    def known(self, known: Booleans, root: Floats | None, free: Floats | None) -> Booleans:
        """Which coordinates a fit determines, (d,) of bool: all of whose parts it does, or whose parts move
        together.

        Parameters
        ----------
        known : (d,) bool array
            Which coefficients it determines.
        root, free : arrays or None
            Of the fit.
        """
        R = self._moved(-1.0)
        if root is None or free is None:
            return np.asarray(~(R[:, ~known] != 0).any(axis=1))
        return determined_by(R, root, free)

    def there(self, parts: Floats) -> Floats:
        """Estimates, or a factor of a covariance, in these coordinates; what is NaN counts as 0."""
        return np.asarray(self._moved(-1.0) @ np.nan_to_num(parts))

    def back(self, parts: Floats, lost: Sequence[bool] | Booleans) -> Floats:
        """Estimates, or a factor of a covariance, of the coefficients; lost anchors are 0."""
        parts = np.array(parts)
        parts[self.anchors[np.asarray(lost, bool)]] = 0.0
        at, gone = self._moved(1.0), np.isnan(parts if parts.ndim == 1 else parts[:, 0])
        found = np.asarray(at @ np.nan_to_num(parts))
        found[(at[:, gone] != 0).any(axis=1)] = np.nan
        return found

    def free(self, lost: Sequence[bool] | Booleans) -> Floats | None:
        """How the coefficients may move if these anchors are lost; None if none is."""
        return self.moves[:, np.asarray(lost, bool)] if np.any(lost) else None
