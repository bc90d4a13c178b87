"""What fits determine where coefficients may move together without a fitted value that changes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space

from dpstats._types import Booleans, Floats, Integers

__all__ = ["Known", "common_moves", "echelon"]

_NONE = 1e-9


def echelon(moves: Floats, first: Collection[int] = ()) -> tuple[Floats, Integers]:
    """The same movements, each with a coefficient of its own that moves by one and in none of the others.

    Parameters
    ----------
    moves : (d, m) array
    first : collection of int
        These coefficients are taken where one of them moves.

    Returns
    -------
    moves : (d, k) array
    anchors : (k,) int array
        In whose rows `moves` is the identity.

    Examples
    --------
    >>> found, anchors = echelon(np.array([[1.0], [-1.0], [-1.0]]), first=[1])
    >>> found.ravel(), anchors
    (array([-1.,  1.,  1.]), array([1]))
    """
    d = len(moves)
    found, anchors = np.zeros((d, 0)), list[int]()
    for column in moves.T:
        left = column - found @ column[anchors]
        some = np.abs(left) > _NONE * np.max(np.abs(column), initial=0.0)
        if not some.any():
            continue
        wanted = some & np.isin(np.arange(d), list(first))
        anchor = int(np.argmax(np.where(wanted if wanted.any() else some, np.abs(left), 0.0)))
        left = left / left[anchor]
        found = np.column_stack([found - np.outer(left, found[anchor]), left])
        anchors.append(anchor)
    return found, np.array(anchors, np.intp)


@dataclass(frozen=True)
class Known:
    r"""What a fit determines: coefficients, or differences :math:`\beta_j - \sum_m B_{jm} \beta_{p_m}` from
    others.

    Attributes
    ----------
    rows : (k,) int array
        The coefficients ``j``.
    ways : (k, d) array
        What is determined of all coefficients.
    """

    rows: Integers
    ways: Floats

    @classmethod
    def of(cls, known: Booleans, free: Floats | None = None, first: Collection[int] = ()) -> "Known":
        """All that a fit determines.

        Parameters
        ----------
        known : (d,) bool array
            Which coefficients have no part that is hidden.
        free : (d, m) array, optional
            How these may move together.
        first : collection of int
            Coefficients from which differences are taken, if they are among these.

        Examples
        --------
        >>> Known.of(np.array([True, False, True]), np.array([[1.0], [1.0], [-1.0]])).ways
        array([[1., 0., 1.]])
        """
        d = len(known)
        moves = np.zeros((d, 0)) if free is None else np.where(known[:, None], free, 0.0)
        moves, anchors = echelon(moves, [i for i in first if known[i]])
        ways = np.eye(d)
        ways[:, anchors] -= moves
        rows = np.setdiff1d(np.flatnonzero(known), anchors)
        return cls(rows, ways[rows])


def common_moves(fits: Sequence[Known], first: Collection[int] = ()) -> tuple[Floats, Integers]:
    """How coefficients that some fit knows of may move without anything that changes of what any determines,
    (d, m), and the anchors of :func:`echelon`.

    Examples
    --------
    >>> all_of_it, difference = (Known.of(np.ones(2, bool), free) for free in (None, np.ones((2, 1))))
    >>> common_moves([difference, difference], [0])[0].round(12).ravel()
    array([1., 1.])
    >>> common_moves([difference, all_of_it])[0].shape
    (2, 0)
    """
    stacked = np.vstack([fit.ways for fit in fits])
    some = np.flatnonzero(np.any(stacked != 0, axis=0))
    moves = np.zeros((stacked.shape[1], 0))
    if len(some):
        space = null_space(stacked[:, some], rcond=_NONE)
        moves = np.zeros((stacked.shape[1], space.shape[1]))
        moves[some] = space
    moves, anchors = echelon(moves, first)
    # what does not move does so to the last digit
    return np.where(np.abs(moves) > _NONE, moves, 0.0), anchors
