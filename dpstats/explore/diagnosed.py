"""What :func:`dpstats.diagnose` releases: outcomes of tests, sums and counts by bins, and their tables."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special
from scipy.optimize import isotonic_regression

from dpstats._types import Floats

__all__ = ["Bins", "Calibration", "Leverage", "Outcome", "Residuals", "Rootogram"]

_Z = 1.959963984540054
_FEW = 3.0
"""A bin of fewer rows, in standard deviations of the noise, shows nothing."""


@dataclass(frozen=True)
class Outcome:
    """A test from released values.

    Attributes
    ----------
    name : str
        Of the hypothesis, or of what is looked for.
    statistic : float
        Chi-squared with `df` degrees of freedom under the hypothesis.
    df : int
    pvalue : float
    """

    name: str
    statistic: float
    df: int
    pvalue: float


@dataclass(frozen=True)
class Bins:
    """Residuals by bins of a prediction or a column: released sums.

    Attributes
    ----------
    name : str
        Of what the bins are of.
    edges : (k,) array
        Released quantiles between the bins.
    counts, sums : (k + 1,) arrays
        Numbers of rows, and sums of standardised residuals, limited.
    sums_sd : float
        Standard deviation of the noise of a sum.
    squares : (k + 1,) array or None
        Sums of their squares, limited.
    squares_sd : float
    sigma : float
        The unit of residuals.
    limit : float
        Up to what standardised residuals count in `sums`.
    """

    name: str
    edges: Floats
    counts: Floats
    sums: Floats
    sums_sd: float
    squares: Floats | None
    squares_sd: float
    sigma: float
    limit: float

    @property
    def mean_square(self) -> float:
        """Mean square of all rows."""
        assert self.squares is not None
        return float(self.squares.sum() / max(self.counts.sum(), 1.0))

    def to_frame(self) -> pd.DataFrame:
        """The mean residual of each bin, in units of the response: of residuals limited at ``limit * sigma``.

        Returns
        -------
        DataFrame
            A row for each bin: its ends, number of rows, mean residual with standard error and interval, and,
            of bins of the prediction, the root mean square residual; NaN where a bin has too few rows.

        Examples
        --------
        >>> counts, sums = np.array([400.0, 600.0]), np.array([-40.0, 40.0])
        >>> bins = Bins("x", np.array([0.5]), counts, sums, 3.0, None, 0.0, sigma=2.0, limit=3.0)
        >>> bins.to_frame()[["low", "high", "rows", "mean", "std.error"]].round(2)
           low  high   rows  mean  std.error
        0 -inf   0.5  400.0 -0.20       0.10
        1  0.5   inf  600.0  0.13       0.08
        """
        ends = np.concatenate([[-math.inf], self.edges, [math.inf]])
        seen = self.counts > _FEW * self.sums_sd / self.limit
        rows = np.where(seen, np.maximum(self.counts, 1.0), np.nan)
        # squares are limited nearer than residuals of many rows are: there they are no less than typical
        least = 0.05 if self.limit <= 3 else 1.0
        variance = 1.0 if self.squares is None else np.clip(self.squares / rows, least, None)
        mean, se = self.sums / rows, np.sqrt(variance / rows + (self.sums_sd / rows) ** 2)
        frame = pd.DataFrame(
            {"low": ends[:-1], "high": ends[1:], "rows": self.counts, "mean": mean * self.sigma}
        )
        frame["std.error"] = se * self.sigma
        frame["conf.low"], frame["conf.high"] = (mean - _Z * se) * self.sigma, (mean + _Z * se) * self.sigma
        if self.squares is not None:
            frame["spread"] = np.sqrt(np.clip(self.squares / rows, 0.0, None)) * self.sigma
            noise = self.squares_sd / rows
            frame["spread.error"] = np.sqrt(noise**2 + 2 / rows) / 2 / np.sqrt(variance) * self.sigma
        return frame


@dataclass(frozen=True)
class Residuals:
    """Numbers of standardised residuals by size: released counts between `edges`, in units of `sigma`."""

    edges: Floats
    counts: Floats
    sd: float
    sigma: float

    def to_frame(self) -> pd.DataFrame:
        """The normal Q-Q plot.

        Returns
        -------
        DataFrame
            At each edge the normal quantile of the share below it, with its interval.

        Examples
        --------
        >>> Residuals(np.array([-1.0, 1.0]), np.array([160.0, 680.0, 160.0]), 2.0, 1.0).to_frame().round(2)
           residual  normal  conf.low  conf.high
        0      -1.0   -0.99     -1.09      -0.90
        1       1.0    0.99      0.90       1.09
        """
        n = max(float(self.counts.sum()), 1.0)
        share = np.cumsum(self.counts)[:-1] / n
        cells = np.arange(1, len(self.counts))
        # noise adds up over the cells on the nearer side
        noise = self.sd * np.sqrt(np.minimum(cells, len(self.counts) - cells)) / n
        se = np.sqrt(np.clip(share * (1 - share), 0.0, None) / n + noise**2)
        z = [special.ndtri(np.clip(share + k * _Z * se, 0.0, 1.0)) for k in (0, -1, 1)]
        frame = pd.DataFrame({"residual": self.edges, "normal": z[0], "conf.low": z[1], "conf.high": z[2]})
        return frame.where(np.isfinite(frame))


@dataclass(frozen=True)
class Leverage:
    """Numbers of rows by leverage: released counts between `limits`, in units of the mean leverage.

    Attributes
    ----------
    limits : (k,) array
    counts : (k + 1,) array
    sd : float
        Standard deviation of the noise of a count.
    count : float
        The released number of rows.
    metric_sd : float
        That of the noise of a leverage, over the leverage itself.
    """

    limits: Floats
    counts: Floats
    sd: float
    count: float
    metric_sd: float = 0.0

    def to_frame(self) -> pd.DataFrame:
        """Share of the rows whose leverage is above so many times the mean, with its standard error.

        Returns
        -------
        DataFrame
            Columns ``times, share, std.error``.

        Examples
        --------
        >>> Leverage(np.array([2.0, 4.0]), np.array([900.0, 80.0, 20.0]), 2.0, 1000.0).to_frame().round(3)
           times  share  std.error
        0    2.0   0.10      0.010
        1    4.0   0.02      0.005
        """
        beyond = np.cumsum(self.counts[::-1])[::-1][1:]
        cells = np.arange(len(self.limits), 0, -1)
        n = max(self.count, 1.0)
        share = isotonic_regression(np.clip(beyond / n, 0.0, 1.0), increasing=False).x
        # a metric that is off moves all leverages, as the limits would
        steps = np.abs(np.diff(share) / np.diff(np.log(self.limits)))
        moved = self.metric_sd * np.concatenate([steps[:1], (steps[1:] + steps[:-1]) / 2, steps[-1:]])
        se = np.sqrt(cells * (self.sd / n) ** 2 + share * (1 - share) / n + moved**2)
        return pd.DataFrame({"times": self.limits, "share": share, "std.error": se})


@dataclass(frozen=True)
class Calibration:
    """Rows of both classes by bins of the prediction: released counts.

    Attributes
    ----------
    edges : (k,) array
        Released quantiles of the linear predictor.
    zeros, ones : (k + 1,) arrays
    sd : float
        Standard deviation of the noise of each.
    expected : (k + 1,) array
        Sums of the predicted shares.
    expected_sd : float
    """

    edges: Floats
    zeros: Floats
    ones: Floats
    sd: float
    expected: Floats
    expected_sd: float

    def to_frame(self) -> pd.DataFrame:
        """A row for each tenth of the predictions: mean predicted share, observed share, and an interval.

        Both shares have noise. The predicted one lies between the released edges of its tenth, and is moved
        there; what it may be off by then is in the interval, which is to hold the predicted share where the
        model is right.

        Returns
        -------
        DataFrame
            Columns ``rows, predicted, observed``, ``std.error`` of the difference of both, and ``conf.low,
            conf.high``, the observed share less and plus 1.96 of these.

        Examples
        --------
        >>> zeros, ones = np.array([400.0, 300, 200, 100]), np.array([100.0, 200, 300, 400])
        >>> found = Calibration(np.array([-1.0, 0, 1]), zeros, ones, 2.0, ones + 10, 2.0)
        >>> found.to_frame()[["rows", "predicted", "observed", "std.error"]].round(3)
             rows  predicted  observed  std.error
        0  1000.0       0.32       0.3      0.015
        1  1000.0       0.72       0.7      0.015
        """
        zeros, ones, expected = (
            part.reshape(-1, 2).sum(axis=1) for part in (self.zeros, self.ones, self.expected)
        )
        rows, sd = zeros + ones, math.sqrt(2) * self.sd
        n = np.where(rows > _FEW * math.sqrt(2) * sd, np.maximum(rows, 1.0), np.nan)
        edges = special.expit(np.concatenate([[-np.inf], self.edges[1::2], [np.inf]]))
        share, predicted = np.clip(ones / n, 0.0, 1.0), np.clip(expected / n, edges[:-1], edges[1:])
        off = np.minimum(math.sqrt(2) * self.expected_sd / n, np.diff(edges) / 2)
        se = np.sqrt(np.maximum(share * (1 - share), 1 / n) / n + (sd / n) ** 2 + off**2)
        low, high = np.clip(share - _Z * se, 0.0, 1.0), np.clip(share + _Z * se, 0.0, 1.0)
        return pd.DataFrame({"rows": rows, "predicted": predicted, "observed": share, "std.error": se,
                             "conf.low": low, "conf.high": high})  # fmt: skip

    def roc(self) -> pd.DataFrame:
        """The ROC curve at the edges: false and true positive rates, from the strictest threshold on.

        Returns
        -------
        DataFrame
            Columns ``fpr, tpr``.

        Examples
        --------
        >>> zeros, ones = np.array([400.0, 300, 200, 100]), np.array([100.0, 200, 300, 400])
        >>> Calibration(np.array([-1.0, 0, 1]), zeros, ones, 2.0, ones, 2.0).roc()
           fpr  tpr
        0  0.0  0.0
        1  0.1  0.4
        2  0.3  0.7
        3  0.6  0.9
        4  1.0  1.0
        """
        zeros, ones = np.maximum(self.zeros, 0.0)[::-1], np.maximum(self.ones, 0.0)[::-1]
        rates = [np.concatenate([[0.0], np.cumsum(x)]) / max(float(x.sum()), 1.0) for x in (zeros, ones)]
        return pd.DataFrame({"fpr": rates[0], "tpr": rates[1]})

    def auc(self) -> tuple[float, float]:
        """Area under the ROC curve, by trapezoids, and its standard error, of sampling and privacy noise.

        Returns
        -------
        tuple of float
            NaN where a class is too small to be seen.

        Examples
        --------
        >>> zeros, ones = np.array([400.0, 300, 200, 100]), np.array([100.0, 200, 300, 400])
        >>> area, se = Calibration(np.array([-1.0, 0, 1]), zeros, ones, 2.0, ones, 2.0).auc()
        >>> round(area, 3), round(se, 3)
        (0.75, 0.011)
        """
        zeros, ones = self.zeros, self.ones
        n0, n1 = float(zeros.sum()), float(ones.sum())
        if min(n0, n1) <= _FEW * self.sd * math.sqrt(len(zeros)):
            return math.nan, math.nan
        below0 = (np.cumsum(zeros) - zeros / 2) / n0
        above1 = (np.cumsum(ones[::-1])[::-1] - ones / 2) / n1
        area = float(np.clip(ones @ below0 / n1, 0.0, 1.0))
        # placements (DeLong et al. 1988); what a count of either class adds to the area
        of_ones, of_zeros = (below0 - area) / n1, (above1 - area) / n0
        sampling = max(float(ones @ of_ones**2), 0.0) + max(float(zeros @ of_zeros**2), 0.0)
        noise = self.sd**2 * float(of_ones @ of_ones + of_zeros @ of_zeros)
        return area, math.sqrt(sampling + noise)


@dataclass(frozen=True)
class Rootogram:
    """Rows by count, observed and expected: released. The last cell is open."""

    observed: Floats
    observed_sd: float
    expected: Floats
    expected_sd: float

    def to_frame(self) -> pd.DataFrame:
        """Numbers of rows by count, observed and expected by the fit.

        Returns
        -------
        DataFrame
            Columns ``count, observed, expected, std.error``: the standard error is that of their difference,
            of sampling and privacy noise.

        Examples
        --------
        >>> Rootogram(np.array([520.0, 300, 180]), 2.0, np.array([500.0, 320, 180]), 2.0).to_frame().round(1)
          count  observed  expected  std.error
        0     0     520.0     500.0       22.5
        1     1     300.0     320.0       18.1
        2    2+     180.0     180.0       13.7
        """
        se = np.sqrt(np.maximum(self.expected, 1.0) + self.observed_sd**2 + self.expected_sd**2)
        top = len(self.observed) - 1
        observed, expected = (np.maximum(numbers, 0.0) for numbers in (self.observed, self.expected))
        return pd.DataFrame({"count": [*map(str, range(top)), f"{top}+"], "observed": observed,
                             "expected": expected, "std.error": se})  # fmt: skip
