"""What :func:`dpstats.describe` releases of a column, and of pairs of columns."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._types import Floats
from dpstats.location.mean import MeanColumn
from dpstats.mechanisms.quantiles import Distribution
from dpstats.results import inference

__all__ = ["QUARTILES", "SEEN", "Correlation", "LevelCounts", "NumberSummary", "around"]

SEEN = 2.5
"""Standard deviations of the noise from which on missing values are seen."""
QUARTILES = {"25 %": 0.25, "median": 0.5, "75 %": 0.75}
_LARGEST_SE = 0.5
"""A correlation, or a share of a level, with a larger standard error is not determined."""
_CUT, _CERTAIN = 0.75, 2.0
"""A column has rows that are cut if its mean square is below that by so many standard deviations of the
noise: not below 1, since the standard deviation that it is measured by has noise too."""
_CHEBYSHEV, _SURE = 4.0, 2.5
"""Rows farther from the mean than so many standard deviations, by Chebyshev's inequality at most one in 16,
are too many if released counts show more by so many standard deviations of their noise."""
_OF_LARGEST = 0.01
"""The `alpha` of the interval whose upper end is the largest that a standard deviation may be."""
_BESIDE_ZERO = 2.0**-20
"""A quartile whose interval holds 0 is 0 if it is smaller, relative to that or to the largest quartile."""
_WIDEST = 20.0
"""Of a quartile, the longest interval in standard deviations: no quartile is two of them from the mean, and
where rows do not suffice the search ends anywhere."""
_FEWEST = 36.0
"""Of fewer rows, in standard deviations of the least noise of the counts around them, the search for the
quartiles sees too little: a step goes astray too often, and may do so at numbers of any size."""


@dataclass(frozen=True)
class NumberSummary:
    """What is released of a column of numbers.

    Attributes
    ----------
    name : str
    count, count_sd : float
        Number of values that are not missing, and the standard deviation of its noise.
    mean : MeanColumn
        With the standard deviation of the values.
    around : Distribution
        Numbers of rows below points around the quartiles.
    bounds : (float, float) or None
    missing, missing_sd : float
    """

    name: str
    count: float
    count_sd: float
    mean: MeanColumn
    around: Distribution
    bounds: tuple[float, float] | None = None
    missing: float = 0.0
    missing_sd: float = 0.0

    def rows(self, alpha: float) -> Iterator[tuple[str, float, float, float, float]]:
        """Statistic, estimate, standard error, and ends of the interval.

        Parameters
        ----------
        alpha : float in (0, 1)

        Returns
        -------
        iterator of (str, float, float, float, float)

        Raises
        ------
        ParameterError
            If `alpha` is out of range.

        Examples
        --------
        >>> import dpstats
        >>> table = dpstats.datasets.load_diamonds()[::10]
        >>> found = dpstats.describe(table, ["carat"], eps=5, seed=1)  # seeded for the example
        >>> [row[0] for row in found.number_summaries[0].rows(0.05)]
        ['missing', 'mean', 'sd', '25 %', 'median', '75 %']
        """
        m = self.mean
        yield "missing", self.missing, self.missing_sd, *around(self.missing, self.missing_sd, alpha)
        known = m.variance >= 0
        yield "mean", m.estimate if known else math.nan, *_with_interval(m.estimate, m.variance, alpha)
        with np.errstate(over="ignore", invalid="ignore"):  # of bounds at the end of what is a number
            error = np.float64(math.hypot(m.square_se, m.beyond)) / (2 * m.spread)
        yield "sd", m.spread, error, *self._spread(alpha)
        found = self.count >= _FEWEST * float(self.around.sd.min())
        largest = float(np.abs(self.around.anchors).max())
        for label, q in QUARTILES.items():
            ends = list(self.around.interval(q, self.count, self.count_sd, alpha))
            value = self.around.estimate(q * self.count)
            if self.bounds is not None:
                value, *ends = (min(max(x, self.bounds[0]), self.bounds[1]) for x in (value, *ends))
            low, high = (x if math.isfinite(x) else math.nan for x in ends)
            if not found or high - low > _WIDEST * self._spread(alpha)[1]:
                low = high = math.nan
            elif low <= 0 <= high and abs(value) < _BESIDE_ZERO * max(high - low, largest):
                # between zeros and other values the search ends anywhere
                value = 0.0
            # a quartile whose interval has no end is not determined
            yield label, math.nan if math.isnan(low) or math.isnan(high) else value, math.nan, low, high

    def _spread(self, alpha: float) -> tuple[float, float]:
        """The interval of the standard deviation, the root of that of its square; of what lies within bounds
        it is at most half their range."""
        m = self.mean
        ends = inference.wald_interval([m.square], [m.square_se], alpha)[0] + [0.0, 2 * m.beyond]
        low, high = map(float, np.sqrt(np.maximum(ends, 0.0)))
        most = math.inf if self.bounds is None else (self.bounds[1] - self.bounds[0]) / 2
        return min(low, most), min(high, most)

    def beyond(self, low: float, high: float) -> tuple[float, float]:
        """A released number of rows that lie below `low` or above `high`, with its standard error.

        Counted from the next points outwards; none beyond the last.

        Parameters
        ----------
        low, high : float

        Returns
        -------
        rows, sd : float

        Examples
        --------
        >>> at, below = np.array([0.0, 1.0, 2.0]), np.array([5.0, 60.0, 90.0])
        >>> found = NumberSummary("x", 100.0, 1.0, MeanColumn(1.0), Distribution(at, below, np.ones(3), at))
        >>> found.beyond(0.0, 1.5)[0]
        15.0
        """
        at = self.around.at
        i = int(np.searchsorted(at, low, side="right")) - 1
        j = int(np.searchsorted(at, high, side="left"))
        rows, variance = 0.0, 0.0
        if i >= 0:
            rows, variance = float(self.around.below[i]), float(self.around.sd[i]) ** 2
        if j < len(at):
            rows += self.count - float(self.around.below[j])
            variance += self.count_sd**2 + float(self.around.sd[j]) ** 2
        return rows, math.sqrt(variance)

    @property
    def all_missing(self) -> bool:
        """Whether missing values are seen, and no others."""
        return self.missing > SEEN * self.missing_sd and self.count < SEEN * self.count_sd

    @property
    def overrun(self) -> bool:
        """Whether more rows visibly lie far from the mean than its standard deviation allows for."""
        m, reach = self.mean.estimate, _CHEBYSHEV * max(self.mean.spread, self._spread(_OF_LARGEST)[1])
        if not math.isfinite(reach):
            return False
        rows, sd = self.beyond(m - reach, m + reach)
        return rows - self.count / _CHEBYSHEV**2 > _SURE * sd


def _with_interval(estimate: float, variance: float, alpha: float) -> tuple[float, float, float]:
    se = math.sqrt(variance) if variance >= 0 else math.nan
    low, high = inference.wald_interval([estimate], [se], alpha)[0]
    return se, float(low), float(high)


def around(count: float, sd: float, alpha: float) -> tuple[float, float]:
    """The interval of a number of rows, about 0 where noise has made it less.

    Examples
    --------
    >>> around(-30.0, 10.0, 0.05)[0], round(around(-30.0, 10.0, 0.05)[1], 1)
    (0.0, 19.6)
    """
    low, high = inference.wald_interval([max(count, 0.0)], [sd], alpha)[0]
    return max(float(low), 0.0), float(high)


@dataclass(frozen=True)
class LevelCounts:
    """Released numbers of rows by level of a column.

    Attributes
    ----------
    name : str
    levels : tuple
    noisy : (levels + 1,) array
        The last is the number of rows of none.
    sd : float
        Standard deviation of the noise of each.
    """

    name: str
    levels: tuple[Any, ...]
    noisy: Floats
    sd: float

    @property
    def counts(self) -> Floats:
        """Numbers of rows, at least 0."""
        return np.maximum(self.noisy, 0.0)

    def shares(self, alpha: float) -> Floats:
        """Share of each level among the rows that have one, standard error, and interval; NaN where the
        standard error is so large that they tell nothing.

        Parameters
        ----------
        alpha : float in (0, 1)

        Returns
        -------
        (levels, 4) ndarray

        Raises
        ------
        ParameterError
            If `alpha` is out of range.

        Examples
        --------
        >>> counts = LevelCounts("cut", ("Fair", "Ideal"), np.array([30.0, 70.0, 0.0]), sd=1.0)
        >>> counts.shares(0.05).round(2)
        array([[0.3 , 0.05, 0.21, 0.39],
               [0.7 , 0.05, 0.61, 0.79]])
        """
        total = max(float(self.noisy[:-1].sum()), 1.0)
        share = np.clip(self.noisy[:-1] / total, 0.0, 1.0)
        # of a share c / n: the noise of the count, and through n that of all counts
        noise = (1 - 2 * share + len(self.levels) * share**2) * (self.sd / total) ** 2
        # the most that a count may have been, where none is left
        within = np.maximum(share * (1 - share), self.sd / total * (share == 0)) / total
        se = np.sqrt(noise + within)
        ends = np.clip(inference.wald_interval(share, se, alpha), 0.0, 1.0)
        found = np.column_stack([share, se, ends])
        found[se > _LARGEST_SE] = np.nan
        return found


@dataclass(frozen=True)
class Correlation:
    """Released correlations and their standard errors, (p, p) each; NaN where they are not determined.

    `shortened` are the columns whose values visibly count as less far out than they are.
    """

    names: tuple[str, ...]
    estimates: Floats
    se: Floats
    shortened: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        seen: list[int],
        gram: Floats,
        squares: Floats,
        noise: float,
        count: float,
    ) -> "Correlation":
        r"""Correlations of standardised columns from their mean products.

        The variance of a correlation is that of elliptical distributions, whose kurtosis the mean products of
        squares tell, :math:`(1 + \kappa)(1 - r^2)^2 / n` (Muirhead 1982, section 5.1), and of the noise.

        Parameters
        ----------
        names : tuple of str
        seen : list of int
            Positions of the columns that vary visibly.
        gram, squares : (q, q) arrays
            Mean products of the values, and of their squares.
        noise : float
            Standard deviation of the noise of ``gram`` on the diagonal; beside it, less by ``sqrt(2)``.
        count : float

        Returns
        -------
        Correlation

        Examples
        --------
        >>> gram = np.array([[1.0, 0.8], [0.8, 1.0]])
        >>> found = Correlation.of(("x", "z"), [0, 1], gram, 1 + 2 * gram**2, noise=0.01, count=1000)
        >>> found.estimates.round(2), found.se.round(3)
        (array([[1. , 0.8],
               [0.8, 1. ]]), array([[0.   , 0.015],
               [0.015, 0.   ]]))
        """
        variance = np.diag(gram)
        safe = np.where(variance > 2 * noise, variance, np.nan)
        unit = np.sqrt(safe)
        r = np.clip(gram / unit[:, None] / unit, -1.0, 1.0)
        kurtosis = squares / safe[:, None] / safe / (1 + 2 * r**2)
        sampling = np.clip(kurtosis, 0.2, None) * (1 - r**2) ** 2 / count
        relative = (noise / safe) ** 2
        of_noise = noise**2 / 2 / safe[:, None] / safe + r**2 / 4 * (relative[:, None] + relative)
        se = np.sqrt(sampling + of_noise)
        estimates, errors = np.full((2, len(names), len(names)), np.nan)
        known = se < _LARGEST_SE
        estimates[np.ix_(seen, seen)] = np.where(known, r, np.nan)
        errors[np.ix_(seen, seen)] = np.where(known, se, np.nan)
        np.fill_diagonal(estimates, 1.0)
        np.fill_diagonal(errors, 0.0)
        # of standardised values the mean square is 1
        cut = variance + _CERTAIN * noise < _CUT
        return cls(names, estimates, errors, tuple(names[j] for j, c in zip(seen, cut, strict=True) if c))
