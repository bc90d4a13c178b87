r"""Scores and Gram matrices added up unit by unit: what a unit of several rows adds is limited as a whole.

A unit's part of a score, :math:`s_g = \sum_{i \in g} v_i \psi_i`, is treated as a row's :math:`v \psi` is:
the releases of :mod:`dpstats.linear.scores` take one vector a unit in place of one a row.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.engines.local import Block, Mapped, Source, in_pieces
from dpstats.engines.partitions import Partitions
from dpstats.formula.units import EveryUnit, UnitBlocks, Units
from dpstats.linear import unit_kernels as kernels
from dpstats.linear.budget import Recipe, Step, stage_steps
from dpstats.linear.clip import edges_about
from dpstats.linear.curvature import shrunken_to
from dpstats.linear.left_out import LeftOut
from dpstats.linear.prepare import STAGES, Prepared
from dpstats.linear.scores import product_counts, residual_variance
from dpstats.linear.whitened import Frame, Whitened
from dpstats.mechanisms._kernels import EXPONENT
from dpstats.mechanisms.noise import symmetric_gaussian
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.sums import SUMMATION, sum_bounded, units_of

__all__ = [
    "LEAST_WEIGHT",
    "Framed",
    "Summed",
    "balanced",
    "most_rows",
    "root_weights",
    "unit_steps",
    "whitening_steps",
]

_SIZES = 0.02
"""Share of ``mu^2`` of the count of units by size."""

_UNIT_STAGES = STAGES[:-1]
"""The stages of the whitening on one row of each unit; the share of the last is for a Gram matrix of all."""
_METRIC = 0.04
"""Share of ``mu^2`` of how the parts of units vary."""
_FEW = 0.01
"""Units whose Gram matrices are scaled down, as a share of all."""
_SEEN = 3.0
"""Standard deviations of their noise from which units show in a count."""
LEAST_WEIGHT = 0.01
"""A mean weight is at least so many times its usual size."""
_NOISE_SHARE = 0.5
"""Standard deviations of the sampling that noise may have before units of many rows count less."""
_NOISE = 0.25
"""The largest noise of the Gram matrix of the units, relative to what its eigenvalues are at the least."""


def unit_steps(gram: float, metric: float = 0.0) -> list[Step]:
    """The steps of :func:`balanced`, and of :meth:`~dpstats.linear.rounds.Walk.measure`."""
    return [
        Step("unit sizes", "sizes of the units", _SIZES),
        Step("unit gram", "Gram matrix of the units", gram),
        Step("unit metric", "outer products of the units", metric),
    ]


def whitening_steps(unit: object) -> tuple[Recipe, list[Step]]:
    """The stages of the whitening, and its steps; with units the last stage is on all rows of each."""
    if unit is None:
        return STAGES, stage_steps(STAGES)
    return _UNIT_STAGES, [*stage_steps(_UNIT_STAGES), *unit_steps(STAGES[-1][2], _METRIC)]


class Framed(EveryUnit):
    """Whitened rows of every unit.

    Parameters
    ----------
    units : iterable of (Units, array)
    rows : Mapped
        Maps the rows.
    gone : LeftOut
    radius2, most : float
        As of :class:`Summed`.
    """

    def __init__(
        self,
        units: Source,
        rows: Mapped,
        gone: LeftOut,
        radius2: float = math.inf,
        most: float = math.inf,
    ) -> None:
        super().__init__(units)
        self._rows, self._gone, self._radius2, self._most = rows, gone, radius2, most

    def of_units(self, units: Units) -> Units:
        if self._gone:
            units = units.kept(self._gone.kept(units.X))
        units = Units(*self._rows.map(units.X, units.Y), units.ends)
        root: Floats | float = 1.0
        if self._most < math.inf:
            root = root_weights(units, self._most)
        if self._radius2 < math.inf:
            lengths = _norms(units)[:, 0]
            with np.errstate(all="ignore"):
                shorter = np.sqrt(np.maximum(lengths / self._radius2, 1.0))
            root = root * np.repeat(shorter, units.sizes)[:, None]
        if not isinstance(root, float):
            # (the map has made these arrays)
            np.divide(units.X, root, out=units.X)
            np.divide(units.Y, root, out=units.Y)
        return units


class _Parts(Mapped):
    """Each unit's part of the score as a row (:meth:`Summed.scores`); beside the sign, from 0 to 1, by how
    much its rows are more than `most`: up to twice as many."""

    once = True

    def __init__(
        self, units: Source, u: Floats, threshold: float, metric: Floats, most: float = math.inf
    ) -> None:
        super().__init__(units)
        self._given, self._most = (u.copy(), threshold, metric), most

    def map(self, X: Any, Y: Floats) -> Block:
        S, sign = np.empty((len(X), len(self._given[0]))), np.empty((len(X), 2))
        _of_each(X, kernels.scores, *self._given, S, sign)
        sign[:, 1] = np.clip(X.sizes / self._most - 1, 0.0, 1.0)
        return S, sign


class _Norms(Mapped):
    """The Frobenius norm of each unit's Gram matrix, as the covariate of a row with the response 1."""

    once = True

    def map(self, X: Any, Y: Floats) -> Block:
        return _norms(X), np.ones((len(X), 1))


class _Squares(Mapped):
    """The root of each unit's sum of squared residuals, as the response of a row."""

    once = True

    def __init__(self, units: Source, u: Floats) -> None:
        super().__init__(units)
        self._u = u

    def map(self, X: Any, Y: Floats) -> Block:
        squares = np.empty(len(X))
        _of_each(X, kernels.squares, self._u, squares)
        return np.zeros((len(X), 1)), np.sqrt(squares)[:, None]


def _norms(units: Units) -> Floats:
    out = np.empty(len(units))
    _of_each(units, kernels.norms, np.zeros(units.X.shape[1]), out)
    return out[:, None]


def _of_each(units: Units, fill: Callable[..., object], *given: Any) -> None:
    """Run a kernel for pieces of the units, in threads."""
    V, Y, ends = units.X, units.Y, units.ends
    in_pieces(len(ends), lambda i: fill(V, Y, ends, i.start, i.stop, *given))


class Summed:
    """Whitened rows, those of each unit together; what iterates over it sees the one row drawn of each.

    Parameters
    ----------
    blocks : UnitBlocks
    frame : Frame
    size : float
        About the mean number of rows of a unit, public or released.
    radius2 : float
        The rows of a unit are shortened by a common factor, so that the Frobenius norm of their Gram matrix
        is at most this.
    most : float
        A unit of more rows than these counts as if it had so many, each with less weight.

    Attributes
    ----------
    cut : bool
        Whether units of many rows count less for the noise, and not because units are to count alike.
    """

    def __init__(
        self,
        blocks: UnitBlocks,
        frame: Frame,
        size: float = 1.0,
        radius2: float = math.inf,
        most: float = math.inf,
    ) -> None:
        rows = Whitened(blocks, frame)
        self._single: Mapped = rows
        self.size, self.most = size, 1.0 if blocks.shared else most
        self.cut = not blocks.shared and most < math.inf
        self._framed = Framed(blocks.units, rows, frame.gone, radius2, self.most)
        self.metric: Floats = np.eye(frame.W.shape[1])
        self._last: tuple[Floats, float, Mapped] | None = None

    def at(self, u: Floats) -> Mapped:
        """The units as they are at other coefficients; those of least squares are the same everywhere."""
        return self._framed

    def measure(self, outer: Floats, noise: float, scale: float) -> Floats:
        """Measure parts by a released mean outer product of them, so that the mean square of each coordinate
        becomes that of `scale`; return the metric.

        Parameters
        ----------
        outer : (q, q) array
        noise : float
            Standard deviation of the noise on its diagonal.
        scale : float
        """
        q = len(outer)
        mean = max(float(np.trace(outer)) / q, noise)
        values, vectors = np.linalg.eigh(shrunken_to(outer, noise, mean * np.eye(q)))
        self.metric, self._last = (vectors * (scale / np.sqrt(values))) @ vectors.T, None
        return self.metric

    def __iter__(self) -> Iterator[Block]:
        return iter(self._single)

    @property
    def partitions(self) -> Partitions | None:
        return self._single.partitions

    def scores(self, u: Floats, threshold: float) -> Mapped:
        """Each unit's part of the score, in the metric, as a row: times the sign of the sum of its residuals
        its covariates, and that sign its response. The row's product, at coefficients 0, is the part."""
        if self._last is None or self._last[1] != threshold or not np.array_equal(self._last[0], u):
            self._last = u.copy(), threshold, _Parts(self.at(u), u, threshold, self.metric, self.most)
        return self._last[2]

    def norms(self, u: Floats) -> Mapped:
        """The Frobenius norm of each unit's Gram matrix, as the covariate of a row with the response 1."""
        return _Norms(self.at(u))

    def gram(
        self, u: Floats, threshold: float, clip: float, radius2: float, mu: float, rng: Randomness
    ) -> Floats:
        """Release the sum of the units' Gram matrices, each scaled to a Frobenius norm up to `radius2`.

        Of a unit's rows those count whose residual is within `threshold`, and of the units those whose part
        of the score is not longer than `clip`.

        Notes
        -----
        **Privacy.** A unit adds or removes one matrix of Frobenius norm at most `radius2`, whatever its rows:
        ``mu``-GDP under add-remove. Argument: ``docs/privacy/unit.md``.
        """
        parts, units = _Parts(self._framed, u, threshold, self.metric), units_of(radius2)

        def update(state: Integers, X: Any, Y: Floats, first: int) -> None:
            inside: Booleans = np.ones(len(X), dtype=bool)
            if clip < math.inf:
                with np.errstate(all="ignore"):
                    inside = np.linalg.norm(parts.map(X, Y)[0], axis=1) <= clip
            kernels.gram(X.X, X.Y, X.ends, 0, len(X), u, threshold, inside, radius2, units, state)

        total = sum_bounded(self.at(u), (len(u), len(u)), units, update)
        return symmetric_gaussian(total, (1 + SUMMATION) * radius2, mu, rng)

    def residuals(self, u: Floats, ceiling: float, count: float, mu: float, rng: Randomness) -> float:
        """Release the mean over the units of their sum of squared residuals, each at most `ceiling`.

        Notes
        -----
        **Privacy.** A unit moves the sum by at most `ceiling`: ``mu``-GDP under add-remove. Argument:
        ``docs/privacy/unit.md``.
        """
        return residual_variance(_Squares(self.at(u), u), np.zeros(1), ceiling, count, mu, rng)


def root_weights(units: Units, most: float) -> Floats:
    """What rows are divided by, (n, 1), so that a unit of more than `most` rows counts as if it had those."""
    return np.repeat(np.sqrt(np.maximum(units.sizes / most, 1.0)), units.sizes)[:, None]


def most_rows(count: float, q: int, averaged: int, mu: float, size: float, least: float) -> float:
    """How many rows of a unit are to count, before what they add up to is limited.

    Where noise asks for a short limit, units of many rows would be beyond it. To shorten what they add
    depends on their responses, and brings a bias; that they count less depends on the number of their rows
    alone. By a rule that reads no row: the parts that `q` coefficients allow where the noise of `averaged`
    rounds of the parameter `mu` is half of the sampling error, but `least` rows at the least; `size` is the
    released mean number of rows.
    """
    longest = _NOISE_SHARE * math.sqrt(count * averaged) * mu
    return max(longest * math.sqrt(size / q), least)


def balanced(
    prepared: Prepared,
    rows: Summed,
    intercept: bool,
    mus: Mapping[str, float],
    rng: Randomness,
) -> tuple[Prepared, float]:
    """The preparation in coordinates in which the units' Gram matrices add up to about their number.

    Parameters
    ----------
    prepared : Prepared
        From one row of each unit.
    rows : Summed
        In the coordinates of `prepared`.
    intercept : bool
    mus : mapping of str to float
        Of ``unit sizes`` and ``unit gram``.
    rng : Randomness

    Returns
    -------
    prepared : Prepared
    size : float
        About the mean number of rows of a unit, times their weight.

    Notes
    -----
    **Privacy.** Two releases: a count of the units by the norm of their Gram matrix, one a unit;
    and :meth:`Summed.gram`. Argument: ``docs/privacy/unit.md``.
    """
    # (of units some rows may be left out, but hardly any as a whole)
    whitening, count = prepared.whitening, max(prepared.counted, 1.0)
    sizes, gram = mus["unit sizes"], mus["unit gram"]
    W, q = whitening.W, len(whitening.W)
    edges = edges_about(float(q))
    u: Floats = np.asarray(np.linalg.solve(W, whitening.theta), float)
    cells = product_counts(rows.norms(u), np.zeros(1), math.inf, edges, sizes, rng)[1]
    radius2, least = _radius(edges, cells, 1 / sizes, count)
    radius2 = max(min(radius2, _NOISE * count * gram * least / math.sqrt(2 * q)), 2 * least)
    total = rows.gram(u, math.inf, math.inf, radius2, gram, rng) / count
    noise = radius2 / gram / count
    values, vectors = np.linalg.eigh(total)
    stretch = 1 / np.sqrt(np.maximum(values, np.maximum(noise, 1e-3 * least)))
    whitening = replace(
        whitening,
        W=W @ (vectors * stretch),
        gram=np.diag(values * stretch**2),
        spread=math.sqrt(noise) * stretch,
        share=np.maximum(values * stretch**2, 1e-3),
    )
    # every row has the product 1 with the constant's coefficients
    constant = np.linalg.inv(W)[:, 0]
    size = float(constant @ total @ constant if intercept else np.trace(total) / q)
    least = LEAST_WEIGHT if prepared.affine.weighted else 1.0
    return replace(prepared, count=prepared.counted, whitening=whitening), max(size, least)


def _radius(edges: Integers, cells: Floats, sd: float, count: float) -> tuple[float, float]:
    """A norm that few units exceed, and a typical one, from released counts by norm."""
    sizes = 2.0 ** ((edges - EXPONENT) / 2)
    beyond = np.cumsum(cells[::-1])[::-1][1:]
    noise = sd * np.sqrt(np.arange(len(beyond), 0, -1))
    few = np.flatnonzero(beyond <= np.maximum(_FEW * count, _SEEN * noise))
    top = int(few[0]) if len(few) else len(sizes) - 1
    typical = int(np.argmax(beyond <= count / 2)) if (beyond <= count / 2).any() else top
    return float(sizes[top]), float(sizes[min(typical, top)])
