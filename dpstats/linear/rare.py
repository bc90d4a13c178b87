"""Levels, cells of two factors, and values of columns, that few rows have, and that may leave.

All of this is computed from what has been released, and from the formula.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.formula.design import Design
from dpstats.formula.factors import Categorical, Numeric
from dpstats.formula.grammar import Name
from dpstats.linear.conditioning import MadeUp, without_reference
from dpstats.linear.left_out import LeftOut
from dpstats.linear.public import PublicDesign
from dpstats.mechanisms.standardize import Standardization

__all__ = ["FEW", "Rare", "rare_rows", "values_unseen"]

FEW, _FEW_UNSEEN = 0.1, 0.2
"""Rows that may leave are at most this share of all; those that are not seen, if their values are spread."""
_OCTAVES = 4.0
"""Values that are not seen are taken to be spread over so many octaves at most."""


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
        Theirs of all rows, at least that of the noise of their number; of a cell as much as it may be.
    telling : (t,) int array
        Those of the columns that nothing else tells of: not products with what is 0 in many of the rows.
    whole : bool
        Whether all rows of a level are among them.
    levels : tuple of (str, int)
        Factors and levels that all of the rows have; none of a value of a column.
    marks : int
        Of a cell the column that is 1 in its rows and else 0.
    of : float
        Of a cell the share of the smaller of its two levels.
    likely : float
        Of a cell the share that it is seen to have.
    few : bool
        Whether these may leave: not cells that are not seen to be few, or are divided by a third factor.
    """

    columns: Integers
    gone: LeftOut
    share: float
    telling: Integers
    whole: bool = True
    levels: tuple[tuple[str, int], ...] = ()
    marks: int = -1
    of: float = 1.0
    likely: float | None = None
    few: bool = True


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
        if gone and (columns.scale[i] > 0 or public.scale[j] > 0) and alike > (1 - FEW) * count:
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
        alike = few if columns.loc[i] == 0 else columns.at[i] > (1 - FEW) * count
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
    assert public.marginals is not None
    found = np.ones(len(public.scale), bool)
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
        for level in map(int, np.flatnonzero(counts <= FEW * count)):
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
    """Cells of two factors that a column marks; how many rows they have is not known yet."""
    design, joint = made.marginals.design, np.array(made.marginals.joint, np.intp)
    factors = [
        (factor.name, np.maximum(counts, noise) / count, *made.marginals.own_columns(factor))
        for factor, counts in zip(made.marginals.factors, levels, strict=True)
    ]
    for (first, some, own, whole), (second, others, too, all_of) in itertools.combinations(factors, 2):
        marks = _marks(design, {first, second})
        alone = not any(
            _crossed(design, first, second, third) for third, *_ in factors if third not in {first, second}
        )
        for a, b in itertools.product(range(len(some)), range(len(others))):
            columns, of = joint[own[a] & too[b]], ((first, a), (second, b))
            mark = [j for j in columns if j in marks]
            if len(mark) == 1:
                gone = replace(LeftOut.nothing(len(design.column_names)), columns=columns)
                telling, both = columns[dense[columns]], bool(whole[a] and all_of[b])
                least = float(min(some[a], others[b]))
                yield Rare(columns, gone, least, telling, both, of, int(mark[0]), least, few=alone)


def _crossed(design: Design, *names: str) -> bool:
    """Whether different factors are multiplied in some term."""
    return any(
        set(names) <= {f.name for f in subterm.factors if isinstance(f, Categorical)}
        for subterm in design.layout.subterms
    )


def _marks(design: Design, names: set[str]) -> set[int]:
    """The columns of the product of two factors alone that are 1 in a cell and 0 elsewhere."""
    found = set[int]()
    for subterm in design.layout.subterms:
        factors = [f.name for f in subterm.factors if isinstance(f, Categorical)]
        if len(factors) == len(subterm.factors) == 2 and set(factors) == names:
            found.update(range(subterm.columns.start, subterm.columns.stop))
    return {j for j in found if design.column_bounds[j] == (0, 1)}
