"""Rare rows leave once the noise is seen to hide a direction along which they are.

All of this is computed from what has been released, and from the formula.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpstats._types import Booleans, Floats
from dpstats.linear.identify import Seen
from dpstats.linear.marks import Groups, column_of, decided, in_cell
from dpstats.linear.rare import FEW, Rare
from dpstats.mechanisms.whiten import Whitening

if TYPE_CHECKING:
    from dpstats.linear.prepare import Prepared

__all__ = ["Turned", "seen_cells", "turned_without", "without_hidden"]

_SAME = 1e-6
"""A mean of a group of rows that is so near to 0 or 1 is that of rows that all have it."""
_OF_ONE, _OF_LEVEL = 0.25, 0.5
"""Rows leave where so much of what tells of them is hidden, as with many levels noise mixes their directions;
and a cell in place of its level where that is so much of what is hidden of the level."""
_NOTHING, _FEWER = 1e-9, 0.75
"""Groups with a smaller share of the rows are none; and if more of one is there than this, all of it is."""
_ALIKE, _AS_TWINS = 0.9, 0.8
"""Of a squared cosine: a column marks the rows of a level, and not those of two; and where another column
marks the same rows, since noise mixes the three."""
_MOSTLY = 0.5
"""Of the rows of a level, those that leave with others if it is to be seen no more."""
_CLEAR = 0.1
"""Groups of rows are partialled out where that puts at most so much noise along a direction."""
_SURELY, _OF_ROWS = 2.0, 0.5
"""Standard deviations by which a cell may have more rows than it is seen to have; and the share of a level's
rows that those of a cell are at most, if it is to leave in place of the level."""


@dataclass(frozen=True)
class Turned:
    """What is left of whitened coordinates without some rows and columns.

    Attributes
    ----------
    prepared : Prepared
    gram : (k, k) array
        The Gram matrix of whitened rows over their number, in the new coordinates.
    change : (k, q) array
        Coefficients ``u`` become ``change u``, the same but for those of the columns.
    """

    prepared: "Prepared"
    gram: Floats
    change: Floats


def without_hidden(
    prepared: "Prepared", gram: Floats, noise: float, aim: float, radius2: float | None
) -> Turned | None:
    """Leave out rare rows along which the noise hides a direction, one after the other.

    What rows of a level or cell have told of others is taken off the matrices. Rows with another value in a
    column may be among those of others that few rows tell of: of these as much less is taken to be known as
    if they all were.

    Parameters
    ----------
    prepared : Prepared
    gram : (q, q) array
        Released Gram matrix of whitened rows over their number.
    noise : float
        Standard deviation on its diagonal.
    aim : float
        Eigenvalue of a direction that is seen well.
    radius2 : float or None
        Longer rows have less weight in it: this over their squared length. None for a matrix of information,
        which does not say how many rows there are.

    Returns
    -------
    Turned or None
        None where none leave.
    """
    gram, noise = gram / aim, noise / aim
    first = _joined(prepared)
    first = first if radius2 is None else seen_cells(first, (gram, noise, radius2))
    found = Turned(first, gram, np.eye(len(gram)))
    while True:
        now = found.prepared
        of_count = noise * (prepared.count / now.count if now.count > 0 else 1.0)
        rare = _of_direction(now, Seen.of(found.gram, of_count, now.whitening, 1.0).hidden())
        if rare is None:
            return replace(found, gram=aim * found.gram) if now is not first else None
        # but for those that have left with others before, where that is more than noise
        there = 1.0 if rare.marks >= 0 else _there(now, rare) / max(_there(first, rare), _NOTHING)
        found = _without(found, rare, there if there < _FEWER else 1.0, of_count)


def _normal(prepared: "Prepared", rare: Rare) -> Floats:
    """An orthonormal basis of the whitened directions, (q, k), that its telling columns depend on; none
    where all of these have left, or of a value of a column one has, or no other column is there."""
    normal = prepared.whitening.W[np.isin(prepared.affine.columns, rare.telling)]
    all_of_it = np.isin(prepared.affine.columns, rare.columns).all()
    none = all_of_it or not rare.levels and len(normal) != len(rare.telling)
    return np.asarray(np.linalg.qr(normal[: 0 if none else None].T)[0])


def _of_direction(prepared: "Prepared", dark: Floats) -> Rare | None:
    """Whose columns are most along these directions, (q, k), or what these span; of a level, rather a cell of
    it that is half as much so."""
    along = [(rare, _normal(prepared, rare).T @ dark) for rare in prepared.rare if dark.size and rare.few]
    shares = [(float(np.linalg.norm(part, 2)) ** 2, rare) for rare, part in along if part.size]
    most, best = max(shares, key=lambda found: found[0], default=(0.0, None))
    if best is None or most <= _OF_ONE:
        return None
    cells = [(share, rare) for share, rare in shares if best.levels and set(rare.levels) > set(best.levels)]
    share, cell = max(cells, key=lambda found: found[0], default=(0.0, best))
    return cell if share > max(_OF_ONE, _OF_LEVEL * most) else best


def _joined(prepared: "Prepared") -> "Prepared":
    """With one group of rare rows of a level and of columns of two values that repeat it: they are hidden for
    being alike, and leave together. One after the other would be counted twice, and the second one's rows may
    be anyone's."""
    rare, joined = list(prepared.rare), list[Rare]()
    columns = [one for one in rare if not one.levels]
    for column in columns:
        twins = any(_alike(prepared, column, one) > _ALIKE for one in columns if one is not column)
        least = _AS_TWINS if twins else _ALIKE
        for i, level in enumerate(prepared.rare):
            alone = len(level.levels) == 1 and _alike(prepared, column, level) > least
            if alone and not _has_others(prepared, column, level):
                rare[i] = _together(rare[i], column)
                joined.append(column)
                break
    return replace(prepared, rare=tuple(one for one in rare if not any(one is other for other in joined)))


def _together(level: Rare, column: Rare) -> Rare:
    """The rows of a level and of another value in a column, which are the same."""
    columns, telling = (
        np.union1d(a, b) for a, b in ((level.columns, column.columns), (level.telling, column.telling))
    )
    gone = level.gone.beside(column.gone)
    own = np.intersect1d(level.telling, level.gone.columns)
    gone = replace(gone, alike=np.union1d(gone.alike, np.append(own, column.telling)))
    return replace(level, columns=columns, telling=telling, gone=gone)


def _alike(prepared: "Prepared", rare: Rare, other: Rare) -> float:
    """How alike what marks the rows of the one is to that of the other: a squared cosine."""
    one, two = _mark_of(prepared, rare), _mark_of(prepared, other)
    if one is None or two is None:
        return 0.0
    return float(one @ two) ** 2 / max(float(one @ one) * float(two @ two), 1e-300)


def _has_others(prepared: "Prepared", column: Rare, level: Rare) -> bool:
    """Whether the rows that a column marks, beside those of a level, are mostly all of another rare level:
    it would have none left."""
    one, two = _mark_of(prepared, column), _mark_of(prepared, level)
    assert one is not None and two is not None
    rest = one * (float(two @ two) / float(one @ two)) - two
    for other in prepared.rare:
        mark = _mark_of(prepared, other) if len(other.levels) == 1 and other is not level else None
        if mark is not None and float(rest @ mark) > _MOSTLY * float(mark @ mark):
            return True
    return False


def _without(found: Turned, rare: Rare, there: float, noise: float) -> Turned:
    """Without some rows, of which the share `there` is still there, and the columns that say nothing then."""
    prepared = found.prepared
    affine, whitening = prepared.affine, prepared.whitening
    stay = ~np.isin(affine.columns, rare.columns)
    free = turned_without(whitening.W, ~stay)
    # the noise is that of a product again
    spread2, turned = np.linalg.eigh(free.T @ (whitening.spread[:, None] ** 2 * free))
    turn = free @ turned
    W = (whitening.W @ turn)[stay]
    share = there * (rare.share if rare.likely is None else rare.likely)
    kept = 1 - min(share * rare.whole, 0.5)
    fewer = replace(affine, columns=affine.columns[stay], loc=affine.loc[stay], scale=affine.scale[stay])
    z = _moved(prepared, rare)[stay]
    change = np.asarray(np.linalg.solve(W, z @ whitening.W))
    both = np.ix_(stay, stay)
    less = Whitening(
        W,
        np.diagonal(turn.T @ (whitening.share[:, None] * turn)).copy(),
        whitening.hidden[both],
        whitening.weak[both],
        whitening.mean[stay],
        z @ whitening.theta,
        change**2 @ whitening.theta_variance,
        whitening.sigma,
        whitening.radius2,
        whitening.gram,
        np.sqrt(np.maximum(spread2, 0.0) / kept),
    )
    cells = prepared.cells
    levels, twos, of_products = (
        ~_of_rows(prepared, rare, means) for means in (prepared.levels[0], prepared.twos[0], cells.means)
    )
    within = tuple(part[:, stay] for part, use in zip(cells.within, of_products, strict=True) if use)
    left = replace(
        prepared,
        affine=fewer,
        whitening=less,
        count=prepared.count * kept,
        rows=max(prepared.rows * kept, 1.0),
        levels=(prepared.levels[0][levels][:, stay], prepared.levels[1][levels]),
        levels_apart=prepared.levels_apart[levels[: len(prepared.levels_apart)]],
        twos=(prepared.twos[0][twos][:, stay], prepared.twos[1][twos]),
        cells=replace(
            cells, means=cells.means[of_products][:, stay], shares=cells.shares[of_products], within=within
        ),
        gone=prepared.gone.beside(rare.gone),
        out=(*prepared.out, *[rare.levels] * bool(rare.levels)),
        rare=tuple(other for other in prepared.rare if other is not rare),
    )
    told = _told_by(found, rare, noise)
    # (over the number of the rows that stay)
    before, gram = (
        _less_known(left, rare, turn.T @ matrix @ turn / kept, turn.T @ rest @ turn / kept)
        for matrix, rest in (
            (whitening.gram, _without_told(whitening.gram, *told, whitening.spread)),
            (found.gram, _without_told(found.gram, *told, np.full(len(found.gram), math.sqrt(noise)))),
        )
    )
    left = replace(left, whitening=replace(less, gram=before))
    return Turned(left, gram, change @ found.change)


def _less_known(left: "Prepared", rare: Rare, all_rows: Floats, matrix: Floats) -> Floats:
    """A Gram matrix with no more along the columns of other rare rows, or along those of levels beside rows
    with another value in a column, than if all rows that have left had been theirs."""
    for other in left.rare:
        normal = _normal(left, other)
        if normal.size and not (other.levels and rare.levels):
            stays = max(1 - rare.share / max(other.share, 1e-300), 0.0)
            now, then = (float(np.trace(normal.T @ g @ normal)) for g in (matrix, all_rows))
            less = np.eye(len(matrix))
            if now > stays * then:
                less -= (1 - math.sqrt(max(stays * then, 0.0) / now)) * normal @ normal.T
            matrix = less @ matrix @ less
    return matrix


def _without_told(matrix: Floats, told: Sequence["_Told"], rest: Floats, spread: Floats) -> Floats:
    """A Gram matrix without what groups of rows have of it.

    Of a column that is 0 in other rows, ``v'm``, that is ``G m m' G / m' G m``, and so on with the next one
    in what is left: as columns of factors do not vary in a cell, nothing is left of what its rows tell of
    them. Fewer rows than the noise count as these. Where ``G m`` is noise the mean of the rows stands for it,
    as far as it is known. `rest` is of groups without such columns.
    """
    for group in told:
        moved = matrix @ group.column
        sd = float(spread**2 @ group.column**2)
        square = max(float(group.column @ moved), sd, 1e-300)
        noise = float(np.sum(spread**2)) * sd / 2 / square
        if noise <= _CLEAR:
            matrix = matrix - np.outer(moved, moved) / square
        elif group.mean is not None:
            matrix = matrix - square * np.outer(group.mean, group.mean)
    return np.asarray(matrix - rest)


@dataclass(frozen=True)
class _Told:
    """A column that is 0 but for some rows, as what whitened rows are multiplied by, and the mean of these
    rows if it is 1 there and that is known."""

    column: Floats
    mean: Floats | None = None


def _told_by(found: Turned, rare: Rare, noise: float) -> tuple[list[_Told], Floats]:
    """What rows that leave have of Gram matrices, for :func:`_without_told`: of a level by its cells with the
    levels of each other factor.

    Without the columns that leave, these rows would tell of others, of which few rows may be left.
    """
    prepared, rest, told = found.prepared, np.zeros_like(found.gram), list[_Told]()
    mark = _mark_of(prepared, rare)
    if not rare.levels or prepared.made is None:
        return [_Told(mark)] if mark is not None else [], rest
    (name, level), *more = rare.levels
    whole = known = in_cell(prepared, dict(rare.levels))
    for other in prepared.made.marginals.factors if not more else ():
        if other.name == name:
            continue
        groups, cells = Groups.of(prepared, (name, other.name)), list[tuple[float, Floats]]()
        for b in map(int, np.unique(groups.codes[:, 1])):
            codes = {name: level, other.name: b}
            mean = in_cell(prepared, codes)
            if (cell := groups.mark(codes)) is not None:
                told.append(_Told(cell, mean))
            elif share := groups.share(codes, found.gram, noise):
                cells.append((share, mean))
        if cells:
            middle = sum(share * row for share, row in cells) / sum(share for share, _ in cells)
            rest += sum(share * np.outer(row - middle, row - middle) for share, row in cells)
            whole = whole + middle - known
    if mark is not None and not told:
        told.append(_Told(mark, whole))
    # slopes, and what third factors divide
    columns = [column_of(prepared, int(j)) for j in rare.gone.columns]
    return told + [_Told(column) for column in columns if column is not None], rest


def _mark_of(prepared: "Prepared", rare: Rare) -> Floats | None:
    """What whitened rows are multiplied by to give 1 for the rows that may leave, and 0 for others; of rows
    with another value in a column what gives that, less the value of the others."""
    if len(rare.levels) == 1:
        ((name, level),) = rare.levels
        return Groups.of(prepared, (name,)).mark({name: level})
    if rare.levels:
        return column_of(prepared, rare.marks)
    if (column := column_of(prepared, int(rare.gone.apart[0]))) is None or not prepared.intercept:
        return column
    middle = float(rare.gone.least[0] + rare.gone.most[0]) / 2
    return np.asarray(column - middle * np.linalg.inv(prepared.whitening.W)[:, 0])


def _there(prepared: "Prepared", rare: Rare) -> float:
    """Mean square of what marks rare rows, by the rows that are there; 1 if nothing does."""
    mark = _mark_of(prepared, rare)
    return 1.0 if mark is None else max(float(mark @ prepared.whitening.gram @ mark), 0.0)


def turned_without(W: Floats, out: Booleans) -> Floats:
    """An orthonormal basis, (q, k), of the coordinates ``W' z`` without a part of some columns of ``z``."""
    return np.asarray(np.linalg.svd(W[out])[2][int(np.sum(out)) :].T)


def _of_rows(prepared: "Prepared", rare: Rare, means: Floats) -> Booleans:
    """Which groups of rows, with these means of the standardised columns, leave."""
    affine, gone = prepared.affine, rare.gone
    raw = np.zeros((len(means), len(gone.free)))
    raw[:, affine.columns] = affine.loc + affine.scale * means
    found = np.any(np.abs(raw[:, gone.columns] - 1) < _SAME, axis=1)
    for columns in gone.dummies:
        found |= np.all(np.abs(raw[:, columns]) < _SAME, axis=1)
    # the root mean square distance is that of the other value in a share of the rows
    here = np.isin(gone.apart, affine.columns)
    apart, middle = gone.apart[here], (gone.least + gone.most)[here] / 2
    away = np.abs(raw[:, apart] - middle)
    far = affine.scale[np.searchsorted(affine.columns, apart)] / max(math.sqrt(rare.share), 1e-9)
    return np.asarray(found | np.any(away > far / 2, axis=1), bool)


def _moved(prepared: "Prepared", rare: Rare) -> Floats:
    """The map of coefficients of standardised columns, (q, q), that takes some out, for the rows that stay.

    There the fitted values stay the same: without a reference level the constant, and what it is multiplied
    with, take up the coefficients of another level, and the constant those of a column with one value.
    """
    affine, d = prepared.affine, len(prepared.gone.free)
    units = np.zeros((d, len(affine.columns)))
    units[affine.columns] = np.diag(1 / affine.scale)
    if prepared.intercept:
        units[0] -= affine.loc / affine.scale
    move = np.eye(d)
    for column, way in zip(rare.gone.instead, rare.gone.free.T, strict=False):
        move[:, column] -= way
    if prepared.intercept:
        move[0, rare.gone.apart] += (rare.gone.least + rare.gone.most) / 2
    move[rare.columns] = 0.0
    back = np.zeros((len(affine.columns), d))
    back[:, affine.columns] = np.diag(affine.scale)
    if prepared.intercept:
        back[0, affine.columns] += affine.loc
    return np.asarray(back @ move @ units)


def seen_cells(prepared: "Prepared", *more: tuple[Floats, float, float]) -> "Prepared":
    """With what the whitening matrix says of how many rows cells have, of those that a column still marks.

    That is the mean square of the column, and the largest of those by further matrices, each with the
    standard deviation of its noise and the squared radius beyond which rows have less weight. The squared
    length of a row is about one over the share of its cell, and one more for each column that its factors do
    not decide.
    """
    whitening, found = prepared.whitening, list[Rare]()
    for rare in prepared.rare:
        mark = _mark_of(prepared, rare) if rare.marks >= 0 else None
        if mark is None:
            found += [rare] * (rare.marks < 0)
            continue
        told = [columns for columns, _ in decided(prepared, {name for name, _ in rare.levels})]
        others = len(mark) - int(np.isin(np.concatenate(told), prepared.affine.columns).sum())
        long2, likely, most = 1 / max(float(mark @ mark), 1e-300) + others, 0.0, 0.0
        for matrix, sd, limit in (
            (whitening.gram, float(whitening.spread**2 @ mark**2), whitening.radius2),
            *((matrix, sd * float(mark @ mark), limit) for matrix, sd, limit in more),
        ):
            weight = min(limit / long2, 1.0)
            seen = float(mark @ matrix @ mark) / weight
            likely, most = max(likely, seen), max(most, seen + _SURELY * sd / weight)
        few = rare.few and most <= min(_OF_ROWS * rare.of, FEW)
        found.append(replace(rare, share=most, likely=likely, few=few))
    return replace(prepared, rare=tuple(found))
