"""Cells that few random subsets hold rows of, and what the other subsets take over from the first fit."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpstats._types import Floats
from dpstats.formula.design import Design
from dpstats.linear.prepare import Prepared
from dpstats.linear.public import PublicDesign

__all__ = ["Cell", "cells_of", "inherited_root", "levels_root", "share_without", "short_root"]

_NONE = 1e-10
"""A combination with a smaller mean square over the rows of a level is 0 there, too."""
_NEARLY = 0.5
"""Where fewer rows than this share are away from a column's location, that is a value of theirs."""
_ALIKE = 1e-6
"""A mean nearer to 1 than this, with a mean square of 1, is of a constant."""
_AT_LEAST = 2.0
"""Of columns, dummies and products: with fewer rows on average most of the error is inherited, and their
intervals hold without more. Combinations that a level has alone in other contrasts inherit less."""
_AVERAGE = (0.75, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0)
_SHORT = (149.0, 50.0, 16.6, 8.87, 4.61, 2.81, 1.86, 1.51, 1.32, 1.16, 1.09, 1.05, 1.02, 1.0)
"""Rows of a cell that a subset has on average, and how many times the variance of medians of fits is what
their median standard error makes of it (``tests/linear/test_cells.py``). With fewer rows that may be 0."""


@dataclass(frozen=True)
class Cell:
    """Rows that alone tell about one combination of the coefficients.

    Attributes
    ----------
    rows : float
        Their released number, those of a column in effect.
    seen : float
        Of a column, those that are away from its location.
    told : (d,) array
        The combination of coefficients that they tell about.
    moved : (d,) array
        How the coefficients move when that combination does, and the fit in all other cells stays.
    least : float
        So many rows a subset :func:`short_root` supposes at least.
    """

    rows: float
    seen: float
    told: Floats
    moved: Floats
    least: float = 0.0


def cells_of(design: Design, public: PublicDesign, prepared: Prepared) -> list[Cell]:
    """The cells: parts of sparse columns away from their location, levels and reference levels, products."""
    unit = np.eye(len(public.scale))
    cells = []
    if prepared.columns is not None:
        part = max(prepared.count, 1.0) / prepared.rows
        rows, seen = prepared.columns.filled * part, prepared.columns.rows.sum(axis=(1, 2)) * part
        # where nearly all rows have one value it is the fit at that value that stays
        stays = np.where(seen < _NEARLY * prepared.count, prepared.columns.loc, 0.0) * public.intercept
        cells = [
            Cell(rows[i], seen[i], unit[j], unit[j] - stays[i] * unit[0], _AT_LEAST)
            for i, j in enumerate(public.free)
        ]
    cells += _products(design, public, prepared)
    if not public.intercept:
        return cells
    constant, share = unit[0], _means(prepared, len(unit))
    for term in design.term_slices.values():
        levels = [j for j in range(len(unit))[term] if j and design.column_bounds[j] == (0, 1)]
        rows = prepared.count * share
        cells += [Cell(rows[j], rows[j], constant + unit[j], unit[j], _AT_LEAST) for j in levels]
        if levels:
            # another constant, and the other levels stay where they are
            rest = prepared.count * (1 - share[levels].sum())
            cells.append(Cell(rest, rest, constant, constant - unit[levels].sum(axis=0), _AT_LEAST))
    return cells


def _products(design: Design, public: PublicDesign, prepared: Prepared) -> Iterator[Cell]:
    """Cells of other columns with one value in most rows, as products of sparse ones are, by made-up rows, in
    which variables are independent; or with more rows, if the released mean says so."""
    if (made := prepared.made) is None:
        return
    unit, means = np.eye(len(public.scale)), _means(prepared, len(public.scale))
    for j, values in zip(made.marginals.joint, made.rows.T, strict=True):
        if j in public.free or design.column_bounds[j] == (0, 1) or (public.intercept and j == 0):
            continue
        usual = float(np.median(values))
        away = values - usual
        if 0 < (seen := float(np.mean(away != 0))) < _NEARLY:
            made_mean, mean = float(np.mean(away)), float(means[j] - usual)
            more = min(max(mean / made_mean, 1.0), 1 / seen) if made_mean else 1.0
            rows = prepared.count * more * np.array([np.mean(away**2) ** 2 / np.mean(away**4), seen])
            moved = unit[j] - usual * public.intercept * unit[0]
            yield Cell(float(rows[0]), float(rows[1]), unit[j], moved, _AT_LEAST)


def _means(prepared: Prepared, d: int) -> Floats:
    """Released means of the `d` columns, 1 for those left out; an indicator's is a share of the rows."""
    mean = np.ones(d)
    affine = prepared.affine
    mean[prepared.gone.columns] = 0.0
    mean[affine.columns] = affine.loc + affine.scale * prepared.whitening.mean
    return mean


def share_without(rows: float, models: int) -> float:
    """Share of `models` random subsets that hold none of so many rows: nearly ``(1 - 1/models)^rows``.

    Examples
    --------
    >>> round(share_without(100, 50), 4), round((1 - 1 / 50) ** 100, 4)
    (0.1353, 0.1326)
    """
    return math.exp(-max(rows, 0.0) / models)


def inherited_root(cells: Sequence[Cell], models: int, errors: Floats) -> Floats:
    r"""A factor of the variance that cells add where subsets without a row of them keep to the first fit.

    .. math:: \sum_c s_c^2 \, \bigl|t_c^\top E\bigr|^2 \, m_c m_c^\top,

    with :math:`s_c` the share of the subsets without a row of cell `c`, :math:`t_c` the combination that it
    tells about, :math:`m_c` the coefficients that move with it, and :math:`E` the errors of the first fit.

    Parameters
    ----------
    cells : sequence of Cell
    models : int
    errors : (d, q) array
        Errors of the first fit's coefficients: ``errors @ g`` for independent ``g`` of variance 1.

    Returns
    -------
    (d, c) array
        With a column for each cell.
    """
    return np.array([
        share_without(cell.rows, models) * np.linalg.norm(cell.told @ errors) * cell.moved for cell in cells
    ]).reshape(len(cells), len(errors)).T  # fmt: skip


def short_root(cells: Sequence[Cell], models: int, cov: Floats) -> Floats:
    r"""A factor of the variance that released standard errors lack where subsets have few rows of a cell.

    A subset without such a row keeps to its origin whichever group of its rows is left out, and with one row
    it does so once. So the median standard error is that of subsets with fewer errors than most, or of none.
    How far it falls short was simulated for numbers of rows by Poisson's law, with ``r`` on average: the
    variance of the median of the fits, over what the median standard error makes of it.

    Parameters
    ----------
    cells : sequence of Cell
    models : int
    cov : (d, d) array
        Of the coefficients.

    Returns
    -------
    (d, c) array
        With a column for each cell.
    """
    rows = np.array([max(cell.seen / models, cell.least) for cell in cells])
    lack = np.exp(np.interp(np.log(np.maximum(rows, _AVERAGE[0])), np.log(_AVERAGE), np.log(_SHORT))) - 1
    return np.array([
        math.sqrt(max(float(cell.told @ cov @ cell.told), 0.0) * more) * cell.moved
        for cell, more in zip(cells, lack, strict=True)
    ]).reshape(len(cells), len(cov)).T  # fmt: skip


def levels_root(prepared: Prepared, models: int, cov: Floats) -> Floats:
    """A factor of the variance of levels of which subsets have few rows, in whitened coordinates: (q, c).

    Only the rows of a level tell about some combinations of the coefficients, as its constant and its slope.
    One alone is a cell, as of a level in contrasts; dummies of a model with a constant have theirs from
    :func:`cells_of`. Of several, subsets with fewer rows keep to the first fit in part: each adds a column as
    in :func:`inherited_root`, of combinations that are orthogonal over the level's rows.

    Parameters
    ----------
    prepared : Prepared
    models : int
    cov : (q, q) array
        As of :func:`short_root`, in whitened coordinates.
    """
    whitening = prepared.whitening
    errors = whitening.W * np.sqrt(whitening.theta_variance) * prepared.response.scale[0]
    roots, cells, count = [np.zeros((len(errors), 0))], list[Cell](), max(prepared.count, 1.0)
    if (made := prepared.made) is None:
        return roots[0]
    for (name, _), (share, alone, gram) in zip(made.levels, made.alone(prepared.affine), strict=True):
        values, turn = np.linalg.eigh(alone.T @ gram @ alone)
        own = alone @ turn[:, values > _NONE] / np.sqrt(values[values > _NONE])
        told, moved, k = gram @ own, np.linalg.solve(whitening.W, own), own.shape[1]
        if k > 1:
            few = special.pdtr(k - 1, share * count / models)
            roots.append(few * np.linalg.norm(told.T @ errors, axis=1) * moved)
        elif k and not (_is_dummy(told[0, 0], prepared) and name not in made.marginals.design.layout.sharing):
            cells.append(Cell(share * count, share * count, whitening.W.T @ told[:, 0], moved[:, 0]))
    own_errors = np.sqrt(whitening.theta_variance) * prepared.response.scale[0]
    roots += [inherited_root(cells, models, np.diag(own_errors)), short_root(cells, models, cov)]
    return np.hstack(roots)


def _is_dummy(mean: float, prepared: Prepared) -> bool:
    """Whether a combination with a mean square of 1 over the rows of a level is a constant there."""
    return prepared.intercept and abs(mean) > 1 - _ALIKE
