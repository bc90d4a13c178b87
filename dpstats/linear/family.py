"""Families of generalised linear models with their canonical links, and the rows that they can use."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._types import Booleans, Floats, Integers
from dpstats.engines.local import Block, Mapped, fold
from dpstats.formula.design import Blocks, Design
from dpstats.formula.units import EveryUnit, UnitBlocks, Units
from dpstats.linear.whitened import Frame, whiten
from dpstats.mechanisms.noise import gaussian
from dpstats.mechanisms.rng import Randomness

__all__ = ["Answers", "Binomial", "Counts", "Family", "Scored", "Start"]

TOP = 12.0
"""A share is at least ``1 / (1 + exp(12))``, and so is one minus it."""
_VISIBLE, _FLOOR = 1.5, 2.0
"""Standard deviations of its noise at which a class is seen; its number of rows counts as at least two."""
_CELLS = 135
"""Cells of counts: 0, and half-octaves from 1 on, to ``2^67``; the last is open."""
_SEEN, _SURE, _GAP = 3.5, 5.5, 6
"""Standard deviations at which a cell of counts is seen: within so many cells of another one, and beyond."""
_TOGETHER = 1, 2, 4, 8
"""Numbers of neighbouring cells that are looked at together: a rare group may have rows in many."""
_TIMES_LARGEST = 16.0
"""The largest mean, in units of the largest counts that are seen."""
_MIDDLE = 200
_EXPOSURES = 2 * _MIDDLE + 1
"""Half-octaves of exposures, from ``2^-100`` to ``2^100``; the first and the last are open."""
_LARGEST = 700.0
"""Exponentials of larger linear predictors may overflow."""
_NORMAL = np.linspace(-8, 8, 1601)
_DENSITY = np.exp(-(_NORMAL**2) / 2)
_DENSITY /= _DENSITY.sum()
"""Points for means over a normal law, and their weights."""


@dataclass(frozen=True)
class Start:
    """A private first look at the response.

    Attributes
    ----------
    mean : float
    dispersion : float
        Variance over that of the family at this mean, at least 1.
    deviance : float
        Mean deviance of a row about the mean.
    top : float
        The largest linear predictor.
    seen : bool
        Whether the response visibly varies.
    """

    mean: float
    dispersion: float
    deviance: float
    top: float
    seen: bool


class Family:
    """What a family has to answer; both have the canonical link.

    Attributes
    ----------
    counts : bool
        The mean is the exponential of the linear predictor; else its logistic function.
    answers : str
        The responses of the family, in words.
    """

    counts: bool
    link: str
    answers: str

    def usable(self, y: Floats) -> Booleans:
        """Which responses are answers of the family."""
        raise NotImplementedError

    def start(self, blocks: Iterable[Block], count: float, mu: float, rng: Randomness) -> Start:
        """Release a first look at the response: ``mu``-GDP under add-remove."""
        raise NotImplementedError

    def predictor(self, mean: float) -> float:
        """The linear predictor of a mean."""
        raise NotImplementedError

    def mean(self, predictor: float) -> float:
        """The mean at a linear predictor."""
        raise NotImplementedError

    def variance(self, mean: float) -> float:
        """Of a response."""
        raise NotImplementedError


@dataclass(frozen=True)
class Binomial(Family):
    """Responses 0 and 1: ``P(y = 1) = 1 / (1 + exp(-eta))``."""

    counts = False
    link = "logit"
    answers = "0 or 1"

    def usable(self, y: Floats) -> Booleans:
        return (y == 0) | (y == 1)

    def start(self, blocks: Iterable[Block], count: float, mu: float, rng: Randomness) -> Start:
        """Release the share of ones.

        Notes
        -----
        **Privacy.** A record adds 0 or 1 to their number: ``mu``-GDP under add-remove. Argument:
        ``docs/privacy/logit.md``.
        """

        def update(state: Integers, X: Floats, Y: Floats, first: int) -> None:
            state += int(np.sum(Y[:, 0] == 1))

        ones = float(gaussian(fold(blocks, lambda: np.zeros(1, np.int64), update), 1.0, mu, rng)[0])
        least = min(_FLOOR / mu, count / 2)
        seen = _VISIBLE / mu < ones < count - _VISIBLE / mu
        p = min(max(ones, least), count - least) / count
        deviance = -2 * (p * math.log(p) + (1 - p) * math.log(1 - p))
        return Start(p, 1.0, deviance, TOP, seen)

    def predictor(self, mean: float) -> float:
        return math.log(mean / (1 - mean))

    def mean(self, predictor: float) -> float:
        return 1 / (1 + math.exp(-min(max(predictor, -_LARGEST), _LARGEST)))

    def variance(self, mean: float) -> float:
        return mean * (1 - mean)

    @staticmethod
    def moments(mean: float, sd: float) -> tuple[float, float, float, float]:
        r"""Means of :math:`p`, :math:`p'`, :math:`p' x` and :math:`p' x^2` with :math:`p` the mean of answers
        whose linear predictor is :math:`m + s x`, `x` standard normal.

        Examples
        --------
        >>> [round(part, 4) + 0.0 for part in Binomial.moments(0.0, 4.0)]
        [0.5, 0.0912, 0.0, 0.0144]
        """
        eta = np.clip(mean + sd * _NORMAL, -_LARGEST / 2, _LARGEST / 2)
        odds = np.exp(-eta)
        variances = _DENSITY / (2 + np.exp(eta) + odds)
        p = float(_DENSITY @ (1 / (1 + odds)))
        return p, float(variances.sum()), float(variances @ _NORMAL), float(variances @ _NORMAL**2)


@dataclass(frozen=True)
class Counts(Family):
    """Responses 0, 1, 2, ...: their mean is ``exp(eta)``."""

    counts = True
    link = "log"
    answers = "0, 1, 2, ..."

    def usable(self, y: Floats) -> Booleans:
        return (y >= 0) & (y == np.floor(y))

    def start(self, blocks: Iterable[Block], count: float, mu: float, rng: Randomness) -> Start:
        """Release how many counts there are by size, for their mean, variance and range.

        Notes
        -----
        **Privacy.** A record adds 1 to one number: ``mu``-GDP under add-remove. Argument:
        ``docs/privacy/poisson.md``.
        """

        def update(state: Integers, X: Floats, Y: Floats, first: int) -> None:
            with np.errstate(divide="ignore"):
                cells = np.floor(2 * np.log2(Y[:, 0])) + 1
            state += np.bincount(np.clip(cells, 0, _CELLS - 1).astype(np.intp), minlength=_CELLS)

        exact = fold(blocks, lambda: np.zeros(_CELLS, np.int64), update)
        return counts_start(gaussian(exact, 1.0, mu, rng), 1 / mu, count)

    def predictor(self, mean: float) -> float:
        return math.log(mean)

    def mean(self, predictor: float) -> float:
        return math.exp(min(predictor, _LARGEST))

    def variance(self, mean: float) -> float:
        return mean


def _last_seen(rows: Floats, sd: float) -> int:
    """The last cell that is seen, from the first on; `sd` is the standard deviation of each cell's noise."""
    last = 0
    for k in range(1, len(rows)):
        times = (_SEEN if k - last <= _GAP else _SURE) * sd
        for cells in _TOGETHER:
            window = rows[k : k + cells]
            if window.sum() > times * math.sqrt(len(window)):
                last = k
    return last


def counts_start(rows: Floats, sd: float, count: float) -> Start:
    """What noisy numbers of counts by size say; `sd` is the noise's standard deviation."""
    upper = np.ceil(2.0 ** (np.arange(_CELLS) / 2)) - 1
    lower = np.append([0.0, 1.0], upper[1:-1] + 1)
    sizes = (lower + np.maximum(upper, lower)) / 2
    last = _last_seen(rows, sd)
    seen, last = last > 0, max(last, 1)
    kept, middle = np.maximum(rows[: last + 1], 0.0), sizes[: last + 1]
    mean = max(float(kept @ middle), _FLOOR * sd) / count
    variance = float(kept @ middle**2) / count - mean**2
    away = middle > 0
    deviance = 2 * float(kept[away] @ (middle[away] * np.log(middle[away] / mean))) / count
    top = math.log(_TIMES_LARGEST * max(float(upper[last]), 1.0))
    return Start(mean, max(variance / mean, 1.0), max(deviance, 0.1), top, seen)


def release_exposure(blocks: Iterable[Block], mu: float, rng: Randomness) -> float:
    """Release about the mean of ``exp`` of the offsets, the last column of Y.

    Notes
    -----
    **Privacy.** From the number of rows by half-octave, to which a record adds 1: ``mu``-GDP under
    add-remove. Argument: ``docs/privacy/poisson.md``.
    """

    def update(state: Integers, X: Floats, Y: Floats, first: int) -> None:
        halves = np.clip(Y[:, -1], -_MIDDLE, _MIDDLE) * (2 / math.log(2))
        cells = np.clip(np.floor(halves) + _MIDDLE, 0, _EXPOSURES - 1)
        state += np.bincount(cells.astype(np.intp), minlength=_EXPOSURES)

    exact = fold(blocks, lambda: np.zeros(_EXPOSURES, np.int64), update)
    return exposure_start(gaussian(exact, 1.0, mu, rng), 1 / mu)


def exposure_start(rows: Floats, sd: float) -> float:
    """What noisy numbers of exposures by size say; `sd` is the noise's standard deviation.

    One of hundreds of empty cells is often at more than three standard deviations, and a few rows that are
    far out would be the mean: exposures are looked for from where most are.
    """
    sums = np.concatenate([[0.0], np.cumsum(rows)])
    full = [(sums[c:] - sums[:-c]) / math.sqrt(c) for c in _TOGETHER]
    fullest = int(np.argmax([window.max() for window in full]))
    first = int(np.argmax(full[fullest]))
    if full[fullest][first] <= _SURE * sd:
        return 1.0
    low = first - _last_seen(rows[first::-1], sd)
    high = first + max(_last_seen(rows[first:], sd), _TOGETHER[fullest] - 1)
    kept = np.maximum(rows[low : high + 1], 0.0)
    middles = 2.0 ** ((np.arange(low, high + 1) - _MIDDLE + 0.5) / 2)
    return float(kept @ middles / kept.sum())


class Answers(Mapped):
    """The rows whose response is an answer of a family, and that have an offset if one is wanted.

    Parameters
    ----------
    blocks : Blocks
    family : Family
    wide : Design or None
        A design whose second response is the offset.
    offsets : bool
        Whether the offsets come along, as the last column of Y.
    """

    def __init__(self, blocks: Blocks, family: Family, wide: Design | None, offsets: bool = False) -> None:
        super().__init__(blocks)
        self._source, self.family, self._wide, self._offsets = blocks, family, wide, offsets

    @classmethod
    def of_design(
        cls, blocks: Blocks, design: Design, family: Family, wide: Design | None, offsets: bool = False
    ) -> "Answers":
        """The rows that `design` makes of the source of `blocks`."""
        if wide is None:
            return cls(blocks, family, None, offsets)
        return cls(blocks.of(design.with_second(wide)), family, wide, offsets)

    def of(self, design: Design) -> "Answers":
        """The rows of the same source that another design can use."""
        blocks = self._source if self._wide is not None else self._source.of(design)
        return Answers.of_design(blocks, design, self.family, self._wide, self._offsets)

    @property
    def units(self) -> "_Answering":
        """All such rows of every unit, where the blocks have units."""
        assert isinstance(self._source, UnitBlocks)
        return _Answering(self._source.units, self)

    def map(self, X: Floats, Y: Floats) -> Block:
        usable = self.family.usable(Y[:, 0])
        if not usable.all():
            X, Y = X[usable], Y[usable]
        if self._wide is not None and not self._offsets:
            Y = np.ascontiguousarray(Y[:, :-1])
        return X, Y


class _Answering(EveryUnit):
    """The rows of each unit that `answers` maps."""

    def __init__(self, units: Any, answers: Answers) -> None:
        super().__init__(units)
        self._answers = answers

    def of_units(self, units: Units) -> Units:
        units = units.kept(self._answers.family.usable(units.Y[:, 0]))
        return Units(*self._answers.map(units.X, units.Y), units.ends)


class Scored(Mapped):
    """Whitened covariates and, as two columns, responses and offsets.

    Parameters
    ----------
    blocks : iterable of (X, Y)
        Y has the response first and, with `offset`, the offset last.
    frame : Frame
    offset : float or None
        Is taken off the offsets; None for none.
    """

    def __init__(self, blocks: Any, frame: Frame, offset: float | None) -> None:
        super().__init__(blocks)
        self._frame, self._offset = frame, offset

    def map(self, X: Floats, Y: Floats) -> Block:
        f = self._frame
        X, Y = f.rows(X, Y)
        V, R = np.empty((len(X), f.W.shape[1])), np.empty((len(X), 1))
        whiten(f, math.inf, X, np.ascontiguousarray(Y[:, :1]), V, R)
        offset = np.zeros(len(X)) if self._offset is None else Y[:, -1] - self._offset
        return V, np.column_stack([R, offset])
