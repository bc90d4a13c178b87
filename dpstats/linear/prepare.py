"""Private standardisation and whitening of a regression's rows: what several estimators do first."""

import math
from dataclasses import dataclass

import numpy as np

from dpstats.data.sources import Batch
from dpstats.engines.local import Clipped, sample
from dpstats.mechanisms.standardize import Columns, Standardization, release_count, standardize
from dpstats.mechanisms.whiten import Affine, Stage, Whitening, whiten

__all__ = ["Budget", "Prepared", "PublicDesign", "prepare"]

_BALANCED_ROWS = 4096
_LEAST_ROWS = 256
_LEAST_EIGENVALUE = 1e-6
_TINY = 2.0**-1022
"""The least scale: the reciprocal of a smaller one may overflow, and 0 times it is not a number."""
_ENOUGH_ROWS = 2**17
"""About so many rows are looked at; more would only slow down what the noise blurs anyway."""


class _BalancedBatch(Batch):
    """Made-up rows in which every level, and every value within declared bounds, is equally likely."""

    def __init__(self, schema):
        super().__init__(_BALANCED_ROWS, {})
        object.__setattr__(self, "_schema", schema)
        object.__setattr__(self, "_generator", np.random.default_rng(20220816))

    def numbers(self, name):
        column = self._schema[name]
        if column.kind == "truth":
            return self._generator.integers(0, 2, self.rows).astype(float)
        low, high = column.bounds or (1.0, 2.0)
        return low + (high - low) * self._generator.random(self.rows)

    def codes(self, name, levels):
        return self._generator.integers(0, len(levels), self.rows)


@dataclass(frozen=True)
class PublicDesign:
    """What is public about the columns of a design, before any row is read.

    Attributes
    ----------
    intercept : bool
    free : (f,) int array
        Columns of unknown range: they are standardised privately.
    loc, scale : (d,) arrays
        Public standardisation of the other columns from their bounds; 0 and 1 for the free ones.
    W : (d, d) array
        Makes the Gram matrix of a balanced design (levels equally likely, values uniform within bounds) the
        identity: without it a rare reference level would look like a collinearity.
    response_bounds : (float, float) or None
    """

    intercept: bool
    free: np.ndarray
    loc: np.ndarray
    scale: np.ndarray
    W: np.ndarray
    response_bounds: tuple | None

    @classmethod
    def of(cls, design):
        """The public facts of a :class:`dpstats.formula.design.Design`."""
        bounds = design.column_bounds
        d = len(bounds)
        free = np.array([j for j, b in enumerate(bounds) if b is None], dtype=np.int64)
        known = np.setdiff1d(np.arange(d), free)
        loc, scale = np.zeros(d), np.ones(d)
        for j in known:
            loc[j], scale[j] = _public_scale(*bounds[j], design.has_intercept)
        W = np.eye(d)
        balanced, _ = design.arrays(_BalancedBatch(design.schema))
        if len(balanced) >= _LEAST_ROWS:
            z = (balanced[:, known] - loc[known]) / scale[known]
            values, vectors = np.linalg.eigh(z.T @ z / len(z))
            # symmetric square root: keeps each coordinate near its own column
            root = vectors / np.sqrt(np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
            W[np.ix_(known, known)] = root
        return cls(design.has_intercept, free, loc, scale, W, design.response_bounds[0])


def _public_scale(low, high, centred):
    """Location and scale of values within public bounds; values in units of the scale are never infinite."""
    if low == high:
        return 0.0, max(abs(low), _TINY) if low else 1.0
    if centred:
        return low / 2 + high / 2, max(high / 2 - low / 2, _TINY)
    return 0.0, max(abs(low), abs(high), _TINY)


@dataclass(frozen=True)
class Budget:
    """Gaussian-DP parameters of the steps of :func:`prepare`; 0 for a step that is not needed.

    Attributes
    ----------
    count, location, scale : float
        For the number of rows and for all free columns together.
    response_location, response_scale : float
    stages : tuple of Stage
    substitution : bool
        Neighbours by substitution: the location steps move by twice as much, the histograms and the Gram
        matrices by sqrt(2), so those steps run with that much more noise at the same budget.
    """

    count: float
    location: float
    scale: float
    response_location: float
    response_scale: float
    stages: tuple[Stage, ...]
    substitution: bool = False


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
    response_reach : float
        Largest standardised response in bounds, or visible distance from its location.
    """

    count: float
    affine: Affine
    response: Affine
    columns: Standardization | None
    flat_response: bool
    whitening: Whitening
    rows: float
    low: np.ndarray
    high: np.ndarray
    response_reach: float

    @classmethod
    def raw(cls, count, d):
        """Rows as they are: no standardisation, no limits."""
        affine = Affine(np.arange(d), np.zeros(d), np.ones(d))
        response = Affine(np.array([d]), np.zeros(1), np.ones(1))
        whitening = whiten((), affine, count, (), None)
        none = np.full(d, np.inf)
        return cls(count, affine, response, None, False, whitening, count, -none, none, math.inf)

    def to_units(self, d, intercept):
        """The matrix that maps coefficients in whitened coordinates to coefficients of the `d` columns.

        For the standardised response; multiply by ``response.scale`` and add ``response.loc`` to the intercept.
        """
        back = np.zeros((d, len(self.affine.columns)))
        back[self.affine.columns] = self.whitening.W / self.affine.scale[:, None]
        if intercept:
            back[0] -= self.affine.loc @ back[self.affine.columns]
        return back


def prepare(blocks, public, budget, rng, check_count=None, reach=math.inf):
    """Release count, standardisation, whitening and a first fit.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Re-iterable; Y of one column.
    public : PublicDesign
    budget : Budget
    rng : Randomness
    check_count : callable, optional
        Called with the released count before anything else is released; it may raise.
    reach : float
        Free columns are moved into `reach` times their private range (``loc +- reach``) before the whitening.

    Returns
    -------
    Prepared

    Notes
    -----
    **Privacy.** ``mu``-GDP with ``mu^2`` the sum over the steps, under the budget's neighbouring relation; see
    :func:`~dpstats.mechanisms.standardize.standardize` and :func:`~dpstats.mechanisms.whiten.release_gram`. Beyond
    some 185,000 rows a random part of them is used (see :func:`~dpstats.engines.local.sample`), at a rate that
    depends on the released count.
    """
    twice, root = (2.0, math.sqrt(2.0)) if budget.substitution else (1.0, 1.0)
    loc, scale = public.loc.copy(), public.scale.copy()
    groups = [
        Columns(0, public.free, budget.location / twice, budget.scale / root),
        Columns(1, np.array([0]), budget.response_location / twice, budget.response_scale / root),
    ]
    asked = [group for group in groups if group.mu_scale]
    count = release_count(blocks, budget.count, rng)
    if check_count is not None:
        check_count(count)
    halvings = max(0, round(math.log2(max(count, 1.0) / _ENOUGH_ROWS)))
    rows = sample(blocks, halvings, rng)
    rows_count = max(count / 2**halvings, 1.0)
    released = standardize(rows, asked, rows_count, rng)
    standards = dict(zip((group.side for group in asked), released, strict=True))
    columns = standards.get(0)
    low, high = np.full(len(scale), -np.inf), np.full(len(scale), np.inf)
    if columns is not None:
        loc[public.free], scale[public.free] = columns.loc, columns.scale
        if reach < math.inf:
            half = reach * columns.reach
            low[public.free], high[public.free] = columns.loc - half, columns.loc + half
            rows = Clipped(rows, low, high)
    active = np.flatnonzero(scale > 0)
    affine = Affine(active, loc[active], scale[active])
    d = len(scale)
    flat, farthest = False, 1.0
    if 1 in standards:
        y = standards[1]
        flat = bool(y.scale[0] == 0)
        response = Affine(np.array([d]), y.loc, np.where(y.scale > 0, y.scale, 1.0))
        farthest = float(y.reach[0] / response.scale[0])
    else:
        y_loc, y_scale = _public_scale(*(public.response_bounds or (0.0, 0.0)), public.intercept)
        response = Affine(np.array([d]), np.array([y_loc]), np.array([y_scale]))
    stages = [Stage(s.c, s.L, s.mu / root, s.response) for s in budget.stages]
    whitening = whiten(
        rows, affine, rows_count, stages, rng, None if flat else response, public.W[np.ix_(active, active)]
    )
    return Prepared(count, affine, response, columns, flat, whitening, rows_count, low, high, farthest)
