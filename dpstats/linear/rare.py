"""Levels, cells of two factors, and values of columns, that few rows have, and that leave once the noise is
seen to hide them.

All of this is computed from what has been released, and from the formula.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.formula.design import Design
from dpstats.formula.factors import Categorical, Numeric
from dpstats.formula.grammar import Name
from dpstats.linear.conditioning import MadeUp, without_reference
from dpstats.linear.identify import Seen
from dpstats.linear.left_out import LeftOut
from dpstats.linear.public import PublicDesign
from dpstats.mechanisms.standardize import Standardization
from dpstats.mechanisms.whiten import Affine, Whitening

if TYPE_CHECKING:
    from dpstats.linear.prepare import Prepared

__all__ = ["Rare", "Turned", "rare_rows", "turned_without", "values_unseen", "without_hidden"]

_FEW, _FEW_UNSEEN = 0.1, 0.2
"""Rows that may leave are at most this share of all; those that are not seen, if their values are spread."""
_OCTAVES = 4.0
"""Values that are not seen are taken to be spread over so many octaves at most."""
_SAME = 1e-6
"""A mean of a group of rows that is so near to 0 or 1 is that of rows that all have it."""
_OF_ONE, _OF_LEVEL = 0.25, 0.5
"""Rows leave where so much of what tells of them is hidden, as with many levels noise mixes their directions;
and a cell in place of its level where that is so much of what is hidden of the level."""


@dataclass(frozen=True)
class Rare:
    """Few rows, by what was released, without which some columns say nothing.

    Attributes
    ----------
    columns : (k,) int array
        These columns of the design.
    gone : LeftOut
        The rows.
    share : float
        Theirs of all rows, at least that of the noise of their number.
    telling : (t,) int array
        Those of the columns that nothing else tells of: not products with what is 0 in many of the rows.
    whole : bool
        Whether all rows of a level are among them.
    levels : tuple of (str, int)
        Factors and levels that all of the rows have; none of a value of a column.
    """

    columns: Integers
    gone: LeftOut
    share: float
    telling: Integers
    whole: bool = True
    levels: tuple[tuple[str, int], ...] = ()

    def apart(self, other: "Rare") -> bool:
        """Whether the two have no row in common, as levels of one factor."""
        return any(f == g and a != b for f, a in self.levels for g, b in other.levels)


def rare_rows(
    made: MadeUp | None,
    levels: Sequence[Floats],
    columns: Standardization | None,
    public: PublicDesign,
    count: float,
    noises: tuple[float, float],
    references: bool,
) -> tuple[Rare, ...]:
    """The levels and cells of two factors that may leave, and the columns with one value in nearly all rows.

    Parameters
    ----------
    made : MadeUp or None
        With the levels that have left.
    levels : sequence of (L,) arrays
        Released numbers of rows of the levels of each factor.
    columns : Standardization or None
        Of the free columns.
    public : PublicDesign
    count : float
        Released number of rows.
    noises : (float, float)
        Standard deviations of the noise of the numbers of rows of levels, and away from a column's location.
    references : bool
        Whether reference levels may leave.
    """
    dense = _dense(columns, public)
    found = [] if made is None else list(_levels(made, levels, count, noises[0], dense, references))
    found += [] if made is None else _cells(made, levels, count, noises[0], dense)
    for i, j in enumerate(() if columns is None else public.free):
        assert columns is not None
        seen = float(columns.rows[i].sum())
        alike = count - seen if columns.loc[i] == 0 else float(columns.at[i])
        gone = _apart(public, columns, i, True)
        if gone and (columns.scale[i] > 0 or public.scale[j] > 0) and alike > (1 - _FEW) * count:
            telling = gone.apart[(gone.apart == j) | dense[gone.apart]]
            found.append(Rare(gone.apart, gone, max(count - alike, noises[1]) / count, telling))
    return tuple(found)


def values_unseen(
    columns: Standardization | None, public: PublicDesign, count: float, threshold: float
) -> LeftOut:
    """The rows that have another value in a column than nearly all, where these are not seen.

    Parameters
    ----------
    columns : Standardization or None
        Of the free columns.
    public : PublicDesign
    count : float
        Released number of rows.
    threshold : float
        So many rows in an octave are seen.
    """
    gone = LeftOut.nothing(len(public.scale))
    few = _OCTAVES * threshold <= _FEW_UNSEEN * count
    for i, j in enumerate(() if columns is None else public.free):
        assert columns is not None
        alike = few if columns.loc[i] == 0 else columns.at[i] > (1 - _FEW) * count
        if columns.scale[i] == 0 and public.scale[j] == 0 and alike:
            gone = gone.beside(_apart(public, columns, i, False))
    return gone


def _apart(public: PublicDesign, columns: Standardization, i: int, seen: bool) -> LeftOut:
    """The rows off the location of a free column; none where some other column is not known in the others."""
    j, loc = int(public.free[i]), float(columns.loc[i])
    near, nothing = columns.width[i] * (loc != 0), LeftOut.nothing(len(public.scale))
    at = [j]
    if public.marginals is not None and j in public.marginals.joint:
        names = [name for name, place in public.marginals.variables.items() if place == i]
        at = [] if loc or not names else _multiplied(public.marginals.design, names[0])
    size = np.ones(len(at))
    return replace(
        nothing,
        apart=np.array(at, int),
        least=(loc - near) * size,
        most=(loc + near) * size,
        seen=seen * size > 0,
    )


def _dense(columns: Standardization | None, public: PublicDesign) -> Booleans:
    """Which columns are products of at most one thing that is 0 in many rows: levels, whose cells may leave,
    or a column whose location is 0."""
    found = np.ones(len(public.scale), bool)
    if public.marginals is None:
        return found
    places = public.marginals.variables
    for subterm in public.marginals.design.layout.subterms:
        zeros = int(any(isinstance(factor, Categorical) for factor in subterm.factors))
        for factor in subterm.factors:
            name = factor.node.name if isinstance(factor, Numeric) and isinstance(factor.node, Name) else None
            place = places.get(name, len(public.free)) if name is not None else len(public.free)
            at_zero = columns is not None and place < len(public.free) and columns.loc[place] == 0
            zeros += at_zero
        found[subterm.columns] = zeros < 2
    return found


def _multiplied(design: Design, name: str) -> list[int]:
    """The columns that are 0 where a variable is, if these are all that read it; else none."""
    found: list[int] = []
    for subterm in design.layout.subterms:
        factors = [f for f in subterm.factors if isinstance(f, Numeric)]
        reads = any(name in f.numbers for f in subterm.factors if not isinstance(f, Categorical))
        if reads and not any(isinstance(f.node, Name) and f.node.name == name for f in factors):
            return []
        found += range(subterm.columns.start, subterm.columns.stop) if reads else ()
    return found


def _levels(
    made: MadeUp,
    levels: Sequence[Floats],
    count: float,
    noise: float,
    dense: Booleans,
    references: bool,
) -> Iterator[Rare]:
    joint, d = np.array(made.marginals.joint, np.intp), len(made.marginals.design.column_names)
    for factor, counts in zip(made.marginals.factors, levels, strict=True):
        own, whole = made.marginals.own_columns(factor)
        reference = made.marginals.reference(factor) if references else None
        for level in map(int, np.flatnonzero(counts <= _FEW * count)):
            share = float(max(counts[level], noise)) / count
            if (factor.name, level) in made.left:
                continue
            if own[level].any():
                columns = joint[own[level]]
                gone = replace(LeftOut.nothing(d), columns=columns)
                of = ((factor.name, level),)
                yield Rare(columns, gone, share, columns[dense[columns]], bool(whole[level]), of)
            elif reference is not None and reference.level == level != (most := int(np.argmax(counts))):
                gone = without_reference(reference, most - (most > level), d)
                telling = gone.instead[dense[gone.instead]]
                yield Rare(gone.instead, gone, share, telling, levels=((factor.name, level),))


def _cells(
    made: MadeUp, levels: Sequence[Floats], count: float, noise: float, dense: Booleans
) -> Iterator[Rare]:
    """Cells of two factors with columns of their own, as large as if the factors were independent."""
    joint, d = np.array(made.marginals.joint, np.intp), len(made.marginals.design.column_names)
    factors = [
        (factor.name, np.maximum(counts, noise) / count, *made.marginals.own_columns(factor))
        for factor, counts in zip(made.marginals.factors, levels, strict=True)
    ]
    for (first, some, own, whole), (second, others, too, all_of) in itertools.combinations(factors, 2):
        for a, b in np.argwhere(np.outer(some, others) <= _FEW):
            columns = joint[own[a] & too[b]]
            of = (first, int(a)), (second, int(b))
            if len(columns) and not set(of) & set(made.left):
                gone, share = replace(LeftOut.nothing(d), columns=columns), float(some[a] * others[b])
                yield Rare(columns, gone, share, columns[dense[columns]], bool(whole[a] and all_of[b]), of)


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


def without_hidden(prepared: "Prepared", gram: Floats, noise: float, aim: float) -> Turned | None:
    """Leave out rare rows along which the noise hides a direction, one after the other.

    The rows that leave may be among those of other columns that few rows tell of: of these as much less is
    taken to be known as if they all were.

    Parameters
    ----------
    prepared : Prepared
    gram : (q, q) array
        Released Gram matrix of whitened rows over their number.
    noise : float
        Standard deviation on its diagonal.
    aim : float
        Eigenvalue of a direction that is seen well.

    Returns
    -------
    Turned or None
        None where none leave.
    """
    found = Turned(prepared, gram, np.eye(len(gram)))
    while True:
        now = found.prepared
        more = prepared.count / now.count if now.count > 0 else 1.0
        rare = _of_direction(now, Seen.of(found.gram, noise * more, now.whitening, aim).hidden(aim))
        if rare is None:
            return found if now is not prepared else None
        found = _without(found, rare)


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
    along = [(rare, _normal(prepared, rare).T @ dark) for rare in prepared.rare if dark.size]
    shares = [(float(np.linalg.norm(part, 2)) ** 2, rare) for rare, part in along if part.size]
    most, best = max(shares, key=lambda found: found[0], default=(0.0, None))
    if best is None or most <= _OF_ONE:
        return None
    cells = [(share, rare) for share, rare in shares if best.levels and set(rare.levels) > set(best.levels)]
    share, cell = max(cells, key=lambda found: found[0], default=(0.0, best))
    return cell if share > max(_OF_ONE, _OF_LEVEL * most) else best


def _without(found: Turned, rare: Rare) -> Turned:
    """Without some rows, and the columns that say nothing then."""
    prepared = found.prepared
    affine, whitening = prepared.affine, prepared.whitening
    stay = ~np.isin(affine.columns, rare.columns)
    free = turned_without(whitening.W, ~stay)
    # the noise is that of a product again
    spread2, turned = np.linalg.eigh(free.T @ (whitening.spread[:, None] ** 2 * free))
    turn = free @ turned
    W = (whitening.W @ turn)[stay]
    kept = 1 - min(rare.share * rare.whole, 0.5)
    fewer = Affine(affine.columns[stay], affine.loc[stay], affine.scale[stay])
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
        rare=tuple(other for other in prepared.rare if other is not rare),
    )
    less_known = np.eye(len(W))
    for other in left.rare:
        if not other.apart(rare):
            normal = _normal(left, other)
            stays = math.sqrt(max(1 - rare.share / other.share, 0.0))
            less_known = less_known @ (np.eye(len(W)) - (1 - stays) * normal @ normal.T)
    turn = turn @ less_known
    # (over the number of the rows that stay)
    before, gram = (turn.T @ g @ turn / kept for g in (whitening.gram, found.gram))
    left = replace(left, whitening=replace(less, gram=before))
    return Turned(left, gram, change @ found.change)


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
