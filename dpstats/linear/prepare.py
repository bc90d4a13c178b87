"""Private standardisation and whitening of a regression's rows: what several estimators do first."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpstats._types import Booleans, Floats
from dpstats.engines.local import Clipped, Source, Without, sample
from dpstats.errors import ReleaseFailed
from dpstats.formula.design import Blocks
from dpstats.linear.budget import LinearBudget
from dpstats.linear.conditioning import SEEN, MadeUp, least_rows, make_up
from dpstats.linear.crossed import Cells, cells_of_products
from dpstats.linear.hidden_rows import seen_cells
from dpstats.linear.left_out import LeftOut
from dpstats.linear.public import PublicDesign, public_scale
from dpstats.linear.rare import Rare, rare_rows, values_unseen
from dpstats.linear.refusals import check_columns, check_rows, check_some, columns_need, rows_needed, visible
from dpstats.linear.two_values import groups_of_two
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.standardize import (
    Columns,
    Standardization,
    release_count,
    release_levels,
    standardize,
)
from dpstats.mechanisms.whiten import Affine, Stage, Whitening, whiten

__all__ = ["REACH", "STAGES", "Prepared", "prepare"]

STAGES = ((2.0, 0.0, 0.08), (2.0, 0.25, 0.07), (2.0, 0.5, 0.05), (2.0, 1.0, 0.07))
"""Four stages of whitening: clip rule (c, L), and share of ``mu^2``."""
REACH = math.sqrt(2.0)
"""Columns are winsorised at this multiple of their private range."""
_ALIKE = 0.8
"""Nearly all rows: this share of them."""
_AS_MANY = 2.5
"""Values that are not seen stay with their rows beside others that have fewer rows than so many times what is
seen of one octave."""
_ENOUGH_ROWS = 2**17
"""About so many rows are looked at; more would only slow down what the noise blurs anyway."""


@dataclass(frozen=True)
class Prepared:
    """What is released about the rows before the regression proper.

    Attributes
    ----------
    count : float
        Number of rows plus noise.
    affine : Affine
        To standardised coordinates ``z`` of the columns that show variation (and the constant).
    response : Affine
        To the standardised response. Its scale is 1 if the response shows no variation.
    columns : Standardization or None
        Of the free columns, for their private ranges.
    flat_response : bool
        The response shows no variation beyond the noise.
    whitening : Whitening
    rows : float
        Released number of rows that the standardisation and the whitening looked at.
    low, high : (d,) arrays
        Limits into which the columns were moved before the whitening; infinite where they were not.
    varied : float
        Where nearly all rows are seen to have one value of the response, the share of those that are seen
        to have another; else 1. NaN if the response was not standardised.
    levels : (k, q) array, (k,) array
        Means of ``z`` in the rows of each level, as far as they are known, and the shares of the rows.
    twos : (k, q) array, (k,) array
        As `levels`, of the two values of numeric columns that are seen to have no others, if these have no
        part in a product.
    cells : Cells
        Likewise of products, of levels and such values.
    levels_apart : (k,) array of bool
        Which of `levels` are of factors that `cells` are not of.
    gone : LeftOut
        The rows of levels that left the model, which are not in `count`.
    counted : float
        Released number of all rows.
    intercept : bool
        Whether the first column is the constant.
    variables : Standardization or None
        As `columns`, with the variables that are no column behind them.
    unseen : (d,) array of bool or None
        Columns that share a level of a factor that is not seen.
    made : MadeUp or None
        Rows from what was released of variables and levels.
    rare : tuple of Rare
        Rows that may leave once the noise is seen to hide a direction.
    out : tuple of tuples of (str, int)
        Factors and levels whose rows have left since, of a cell two.
    """

    count: float
    affine: Affine
    response: Affine
    columns: Standardization | None
    flat_response: bool
    whitening: Whitening
    rows: float
    low: Floats
    high: Floats
    varied: float
    levels: tuple[Floats, Floats]
    twos: tuple[Floats, Floats]
    cells: Cells
    levels_apart: Booleans
    gone: LeftOut
    counted: float
    intercept: bool
    variables: Standardization | None = None
    unseen: Booleans | None = None
    made: MadeUp | None = None
    rare: tuple[Rare, ...] = ()
    out: tuple[tuple[tuple[str, int], ...], ...] = ()

    @classmethod
    def raw(cls, count: float, d: int, intercept: bool = True) -> "Prepared":
        """Rows as they are: no standardisation, no limits."""
        affine = Affine(np.arange(d), np.zeros(d), np.ones(d))
        response = Affine(np.array([d]), np.zeros(1), np.ones(1))
        whitening = Whitening.public(np.eye(d))
        none = np.full(d, np.inf)
        return cls(
            count,
            affine,
            response,
            None,
            False,
            whitening,
            count,
            -none,
            none,
            math.nan,
            (np.zeros((0, d)), np.zeros(0)),
            (np.zeros((0, d)), np.zeros(0)),
            Cells.none(d),
            np.zeros(0, bool),
            LeftOut.nothing(d),
            count,
            intercept,
        )

    def rows_of(self, blocks: Source) -> Source:
        """The rows of `blocks` that are not left out."""
        return Without(blocks, self.gone.kept) if self.gone else blocks

    def to_units(self, d: int, intercept: bool) -> Floats:
        """The matrix that maps coefficients in whitened coordinates to coefficients of the `d` columns.

        For the standardised response; multiply by ``response.scale`` and add ``response.loc`` to the
        intercept.
        """
        back = np.zeros((d, len(self.affine.columns)))
        back[self.affine.columns] = self.whitening.W / self.affine.scale[:, None]
        if intercept:
            back[0] -= self.affine.loc @ back[self.affine.columns]
        return back

    def gradient(self, whitened: Floats) -> Floats:
        """A gradient by the coefficients of the columns in the model, from one in whitened coordinates."""
        slope = np.asarray(np.linalg.solve(self.whitening.W.T, whitened)) * self.affine.scale
        return slope + self.affine.loc * slope[0] if self.intercept else slope


def prepare(
    method: str,
    blocks: Blocks,
    budget: LinearBudget,
    rng: Randomness,
    reach: float = math.inf,
    check_count: Callable[[float], object] | None = None,
    fitted: bool = True,
    levels_seen: float = SEEN,
    squared: bool = False,
    few: bool = False,
    crossed: bool = False,
    references: float = 0.0,
    leave: bool = False,
) -> Prepared:
    """Release count, standardisation, whitening and a first fit.

    Parameters
    ----------
    method : str
        Name of the estimator.
    blocks : iterable of (X, Y)
        Re-iterable; Y of one column.
    budget : LinearBudget
        Its `mus` of ``count, location, scale, response_location, response_scale``, 0 for a step that is not
        needed, and its stages. With neighbours by substitution the location steps move by twice as much, the
        histograms and the Gram matrices by sqrt(2), so those steps run with that much more noise at the same
        budget.
    rng : Randomness
    reach : float
        Free columns are moved into `reach` times their private range (``loc +- reach``) before the whitening.
    check_count : callable, optional
        Called with the released count before anything else is released; it may raise. By default
        :func:`check_rows`.
    levels_seen, references : float
        As `seen` and `references` of :func:`~dpstats.linear.conditioning.make_up`.
    squared : bool
        Whether the standardised columns are to be squared before they are whitened, which half the digits
        survive.
    few : bool
        Whether columns with two values are looked for, whose groups of rows may have few events: `twos`.
    crossed : bool
        Whether also cells of products are: `cells`.
    leave : bool
        Whether rows that differ in a column from nearly all others may leave where they are not seen, and
        later those of :attr:`Prepared.rare`.
    fitted : bool
        Without it the response is left alone: it is not standardised, and there is no first fit.

    Returns
    -------
    Prepared

    Raises
    ------
    ReleaseFailed
        If no column shows any variation.

    Notes
    -----
    **Privacy.** ``mu``-GDP with ``mu^2`` the sum over the steps, under the budget's neighbouring relation;
    see :func:`~dpstats.mechanisms.standardize.standardize` and
    :func:`~dpstats.mechanisms.whiten.release_gram`. Beyond some 185,000 rows a random part of them is used
    (see :func:`~dpstats.engines.local.sample`), at a rate that depends on the released count.
    """
    public, mus = budget.public, budget.mus
    marginals, f, extra, weights = public.marginals, len(public.free), public.variables, int(public.weighted)
    together = f + extra + weights
    substitution = budget.guarantee.neighbours == "substitution"
    twice, root = (2.0, math.sqrt(2.0)) if substitution else (1.0, 1.0)
    count = release_count(blocks, mus["count"], rng)
    if check_count is None:
        unknown, q = public.unknown and together, len(public.scale)
        if columns_need(budget, q) < rows_needed(budget, unknown, public.response_unknown):
            # of two needs the larger is named; with that many rows the other is met
            check_rows(method, budget, unknown, count, response=public.response_unknown)
        check_columns(method, budget, q, count)
        check_some(method, budget, count)
    else:
        check_count(count)
    halvings = max(0, round(math.log2(max(count, 1.0) / _ENOUGH_ROWS)))
    rows: Any = sample(blocks if marginals is None else marginals.beside(blocks), halvings, rng)
    rows_count = max(count / 2**halvings, 1.0)
    # columns, the variables beside them and weights share a budget as if they were one group
    groups = [
        Columns(side, index, mus["location"] / twice * share, mus["scale"] / root * share, public.signed)
        for side, index in (
            (0, public.free),
            (1, 1 + weights + np.arange(extra)),
            (1, 1 + np.arange(weights)),
        )
        if (share := math.sqrt(len(index) / max(together, 1)))
    ]
    if fitted:
        groups.append(
            Columns(1, np.array([0]), mus["response_location"] / twice, mus["response_scale"] / root)
        )
    released = list(standardize(rows, groups, rows_count, rng))
    y = released.pop() if fitted else None
    weight = _weight(method, released.pop()) if weights else (-1, 1.0)
    variables = Standardization.joined(released) if released else None
    columns = variables.first(f) if variables is not None and f else None
    levels, noise, unseen = [], 0.0, None
    if marginals is not None and marginals.factors:
        sizes, mu = [factor.width for factor in marginals.factors], mus["levels"] / root
        first = 1 + weights + extra
        levels = release_levels(rows, range(first, first + len(sizes)), sizes, mu, rng)
        noise = math.sqrt(len(sizes)) / mu
        unseen = marginals.shared([n < least_rows(noise, rows_count, levels_seen) for n in levels])
    loc, scale = public.loc.copy(), public.scale.copy()
    low, high = np.full(len(scale), -np.inf), np.full(len(scale), np.inf)
    if columns is not None:
        seen = columns.scale > 0
        found = public.free[seen]
        loc[found], scale[found] = columns.loc[seen], columns.scale[seen]
        if reach < math.inf:
            low[found], high[found] = ((columns.loc + s * reach * columns.reach)[seen] for s in (-1, 1))
        if not public.intercept:
            loc[found], scale[found] = 0.0, np.hypot(scale[found], loc[found])
    made = None
    if marginals is not None and not marginals.plain:
        made = make_up(marginals, variables, levels, noise, rows_count, reach, levels_seen, references)
    if made is not None:
        made.standardize(loc, scale, public.intercept)
        if reach < math.inf:
            made.limit(low, high)
    for j, bounds in enumerate(() if marginals is None else marginals.design.column_bounds):
        if bounds is not None and low[j] <= bounds[0] and bounds[1] <= high[j]:
            # limits that no value reaches
            low[j], high[j] = -np.inf, np.inf
    if not len(active := np.flatnonzero(scale > 0)):
        raise ReleaseFailed(
            f"{method}: no column of the formula shows any variation beyond the privacy noise."
        )
    affine = Affine(active, loc[active], scale[active], weight)
    response, flat, varied = Affine(np.array([len(scale)]), np.zeros(1), np.ones(1)), False, math.nan
    if y is not None:
        response, flat = _response(y, public, len(scale))
        alike = y.loc[0] == 0 or y.at[0] > _ALIKE * rows_count
        varied = float(y.rows.sum()) / rows_count if alike else 1.0
    stages = [Stage(s.c, s.L, s.mu / root, s.response) for s in budget.stages]
    start = None if made is None else made.start(active, loc, scale, public.intercept, squared)
    of_levels = None if made is None else made.groups(active, loc, scale)
    gone, kept, rare = LeftOut.nothing(len(scale)), count, tuple[Rare, ...]()
    if leave and marginals is not None:
        noises = noise, math.sqrt(together * (1 + public.signed)) / (mus["scale"] / root) if f else 0.0
        rare = rare_rows(made, levels, columns, public, rows_count, noises, references > 0)
        edge = visible(together, mus["scale"] / root) if f else math.inf
        if all(other.share * rows_count > _AS_MANY * edge for other in rare):
            # (or the few rows of others may be among them)
            gone = values_unseen(columns, public, rows_count, edge)
    if made is not None and made.left:
        gone = made.gone.beside(gone)
        kept, rows_count = count * made.stay, max(rows_count * made.stay, 1.0)
    if gone:
        rows = Without(rows, gone.kept)
    if np.isfinite(low).any():
        rows = Clipped(rows, low, high)
    joined = response if fitted and not flat else None
    whitening = whiten(rows, affine, rows_count, stages, rng, joined, start, of_levels)
    none = np.zeros((0, len(active))), np.zeros(0)
    twos, cells, apart = none, Cells.none(len(active)), np.zeros(0, bool)
    if few:
        inverse = np.linalg.inv(whitening.W)
        gram = inverse.T @ whitening.gram @ inverse
        if made is not None:
            if crossed:
                cells = cells_of_products(made, variables, public, affine, whitening, gram, rows_count)
            apart = np.array([name not in cells.factors for name, _ in made.levels], bool)
        if columns is not None and public.intercept:
            at = np.isin(public.free, np.setdiff1d(active, cells.columns))
            places = np.searchsorted(active, public.free[at])
            twos = groups_of_two(columns.taken(at), places, gram.diagonal(), whitening.mean, rows_count)
    # levels and bounded columns have no wild rows, and may be rare
    wild = np.isin(active, public.free[public.scale[public.free] == 0])
    whitening = replace(whitening, weak=whitening.weak * np.outer(wild, wild))
    whole = Prepared(
        kept,
        affine,
        response,
        columns,
        flat,
        whitening,
        rows_count,
        low,
        high,
        varied,
        of_levels or none,
        twos,
        cells,
        apart,
        gone,
        count,
        public.intercept,
        variables,
        unseen,
        made,
        rare,
    )
    return seen_cells(whole) if rare else whole


def _weight(method: str, roots: Standardization) -> tuple[int, float]:
    """Where the roots of the weights are, and about the root of the mean weight."""
    unit = math.hypot(float(roots.loc[0]), float(roots.scale[0]))
    if unit == 0:
        raise ReleaseFailed(f"{method}: hardly any row has a weight that is not 0.")
    return 1, unit


def _response(y: Standardization, public: PublicDesign, d: int) -> tuple[Affine, bool]:
    """The map to the standardised response, and whether it is flat."""
    bounds, loc, scale = public.response_bounds, y.loc, float(y.scale[0])
    if bounds is not None and scale == 0:
        middle, scale = public_scale(*bounds, public.intercept)
        loc = np.array([middle])
    return Affine(np.array([d]), loc, np.array([scale or 1.0])), scale == 0
