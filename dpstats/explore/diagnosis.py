"""What ``fit.diagnose()`` returns: released diagnostics, a table of tests, and a panel of plots."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from dpstats._boundary import guarded
from dpstats._text import UNDETERMINED, Summary, Table, Tabled, format_p, format_statistic
from dpstats._types import Floats
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.parts import Origin
from dpstats.results.spends import spends_table
from dpstats.results.table import promise

__all__ = [
    "Bins", "Calibration", "CountDiagnosis", "Diagnosis", "Leverage", "LinearDiagnosis", "LogitDiagnosis",
    "Residuals", "Rootogram", "Outcome",
]  # fmt: skip

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
    """

    name: str
    edges: Floats
    counts: Floats
    sums: Floats
    sums_sd: float
    squares: Floats | None
    squares_sd: float
    sigma: float

    @property
    def mean_square(self) -> float:
        """Mean square of all rows."""
        assert self.squares is not None
        return float(self.squares.sum() / max(self.counts.sum(), 1.0))

    def to_frame(self) -> pd.DataFrame:
        """A row for each bin: its ends, number of rows, mean residual with standard error and interval, and,
        of bins of the prediction, the root mean square residual. Residuals are in units of the response; NaN
        where a bin has too few rows.
        """
        ends = np.concatenate([[-math.inf], self.edges, [math.inf]])
        seen = self.counts > _FEW * self.sums_sd / 3
        rows = np.where(seen, np.maximum(self.counts, 1.0), np.nan)
        variance = 1.0 if self.squares is None else np.clip(self.squares / rows, 0.05, None)
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
        """The normal Q-Q plot: at each edge the normal quantile of the share below it, with its interval."""
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
    """Numbers of rows by leverage: released counts between `limits`, in units of the mean leverage."""

    limits: Floats
    counts: Floats
    sd: float
    count: float

    def to_frame(self) -> pd.DataFrame:
        """Share of the rows whose leverage is above so many times the mean, with its standard error."""
        beyond = np.cumsum(self.counts[::-1])[::-1][1:]
        cells = np.arange(len(self.limits), 0, -1)
        n = max(self.count, 1.0)
        share = np.clip(beyond / n, 0.0, 1.0)
        se = np.sqrt(cells * (self.sd / n) ** 2 + share * (1 - share) / n)
        return pd.DataFrame({"times": self.limits, "share": share, "std.error": se})


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Diagnosis(Tabled):
    """Released diagnostics of a fit.

    Attributes
    ----------
    formula : str
        Of the fit.
    guarantee : Guarantee
        Of this further release; the fit has its own.
    tests : tuple of Outcome
    count : float
        Released number of rows.
    """

    formula: str
    guarantee: Guarantee
    tests: tuple[Outcome, ...]
    count: float
    notes: tuple[str, ...] = ()
    origin: Origin | None = None
    design: None = None

    @property
    def test_table(self) -> pd.DataFrame:
        """Columns ``statistic, df, pvalue``, a row for each test; NaN where the release does not determine
        one.
        """
        rows = [(t.statistic, t.df, t.pvalue) for t in self.tests]
        return pd.DataFrame(rows, index=[t.name for t in self.tests], columns=["statistic", "df", "pvalue"])

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "Rows (noisy)", f"{max(self.count, 0):,.0f}"

    def _further(self) -> Iterator[Table]:
        yield from ()

    def _words(self) -> Iterator[str]:
        yield (
            "P-values cover sampling and privacy noise. A small one says that the model misses something "
            "that these data show; a large one, that noise and rows do not show it."
        )

    @guarded
    def summary(self) -> Summary:
        """The table of tests, and the guarantee."""
        rows = tuple(
            (t.name, *((format_statistic(t.statistic), str(t.df), format_p(t.pvalue)) if
            math.isfinite(t.statistic)
                       else (UNDETERMINED, str(t.df), UNDETERMINED)))
            for t in self.tests
        )  # fmt: skip
        return Summary(
            title="Diagnostics (differentially private)",
            formula=self.formula,
            facts=tuple(self._facts()),
            coefficients=Table(("", "chi2", "df", "P>chi2"), rows),
            further=tuple(self._further()),
            paragraphs=(*self._words(), *promise(self.guarantee)),
            spends=spends_table(self.guarantee),
            notes=self.notes,
        )

    @guarded
    def plot(self) -> Any:
        """One figure of some panels; see :mod:`dpstats.explore.panels`.

        Returns
        -------
        matplotlib.figure.Figure
        """
        return self._figure()

    def _figure(self) -> Any:
        raise NotImplementedError

    def frames(self) -> dict[str, pd.DataFrame]:
        """What was released, as tables by name."""
        return {"tests": self.test_table}

    def to_dict(self) -> dict[str, Any]:
        """All released numbers as plain dicts, lists, strings and numbers; None for what is not finite."""

        def plain(x: Any) -> Any:
            return None if isinstance(x, float) and not math.isfinite(x) else x

        tables = {
            name: [
                {k: plain(v) for k, v in row.items()}
                for row in frame.reset_index(names="name").to_dict("records")
            ]
            for name, frame in self.frames().items()
        }
        return {"formula": self.formula, "tables": tables, "guarantee": self.guarantee.to_dict()}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.formula}, {self.guarantee}>"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LinearDiagnosis(Diagnosis):
    """Released diagnostics of a linear fit.

    Attributes
    ----------
    fitted : Bins
        Residuals by tenths of the prediction.
    columns : tuple of Bins
        Residuals by fifths of columns of numbers.
    residuals : Residuals
        Their distribution.
    leverage : Leverage
    """

    fitted: Bins
    columns: tuple[Bins, ...]
    residuals: Residuals
    leverage: Leverage

    def _figure(self) -> Any:
        from dpstats.explore.panels import of_residuals

        return of_residuals(self)

    def frames(self) -> dict[str, pd.DataFrame]:
        """Tables of what was released: ``tests``, ``fitted``, ``qq``, ``leverage``, one for each column."""
        found = {"tests": self.test_table, "fitted": self.fitted.to_frame(), "qq": self.residuals.to_frame()}
        found["leverage"] = self.leverage.to_frame()
        return found | {bins.name: bins.to_frame() for bins in self.columns}

    def _further(self) -> Iterator[Table]:
        rows = [
            (f"  above {times:g} times the mean", f"{100 * share:.2f} %", f"{100 * se:.2f} %")
            for times, share, se in self.leverage.to_frame().itertuples(index=False, name=None)
        ]
        yield Table(("Leverage", "share of rows", "std err"), tuple(rows))


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
        """A row for each tenth of the predictions: mean predicted share, observed share, and its interval."""
        zeros, ones, expected = (
            part.reshape(-1, 2).sum(axis=1) for part in (self.zeros, self.ones, self.expected)
        )
        rows, sd = zeros + ones, math.sqrt(2) * self.sd
        n = np.where(rows > _FEW * math.sqrt(2) * sd, np.maximum(rows, 1.0), np.nan)
        share, predicted = np.clip(ones / n, 0.0, 1.0), np.clip(expected / n, 0.0, 1.0)
        noise = (sd / n) ** 2 * ((1 - share) ** 2 + share**2)
        se = np.sqrt(np.maximum(share * (1 - share), 1 / n) / n + noise)
        low, high = np.clip(share - _Z * se, 0.0, 1.0), np.clip(share + _Z * se, 0.0, 1.0)
        return pd.DataFrame({"rows": rows, "predicted": predicted, "observed": share, "std.error": se,
                             "conf.low": low, "conf.high": high})  # fmt: skip

    def roc(self) -> pd.DataFrame:
        """The ROC curve at the edges: false and true positive rates, from the strictest threshold on."""
        zeros, ones = np.maximum(self.zeros, 0.0)[::-1], np.maximum(self.ones, 0.0)[::-1]
        rates = [np.concatenate([[0.0], np.cumsum(x)]) / max(float(x.sum()), 1.0) for x in (zeros, ones)]
        return pd.DataFrame({"fpr": rates[0], "tpr": rates[1]})

    def auc(self) -> tuple[float, float]:
        """Area under the ROC curve, by trapezoids, and its standard error, of sampling and privacy noise."""
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


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LogitDiagnosis(Diagnosis):
    """Released diagnostics of a model of a 0/1 response.

    Attributes
    ----------
    calibration : Calibration
    """

    calibration: Calibration

    def _figure(self) -> Any:
        from dpstats.explore.panels import of_shares

        return of_shares(self)

    @property
    def auc(self) -> float:
        """Area under the ROC curve."""
        return self.calibration.auc()[0]

    @property
    def auc_se(self) -> float:
        """Its standard error: sampling and privacy noise."""
        return self.calibration.auc()[1]

    def frames(self) -> dict[str, pd.DataFrame]:
        """What was released, as tables: ``tests``, ``calibration``, ``roc``."""
        return {
            "tests": self.test_table,
            "calibration": self.calibration.to_frame(),
            "roc": self.calibration.roc(),
        }

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield from super()._facts()
        area, se = self.calibration.auc()
        known = math.isfinite(area)
        yield "Area under the ROC curve", f"{area:.3f} ({se:.3f})" if known else UNDETERMINED

    def _further(self) -> Iterator[Table]:
        rows = [
            (f"  tenth {i}", f"{max(row.rows, 0):,.0f}", *(UNDETERMINED if math.isnan(x) else f"{x:.3f}" for x
            in
             (row.predicted, row.observed, row[3])))
            for i, row in enumerate(self.calibration.to_frame().itertuples(index=False), 1)
        ]  # fmt: skip
        yield Table(("Calibration", "rows", "predicted", "observed", "std err"), tuple(rows))


@dataclass(frozen=True)
class Rootogram:
    """Rows by count, observed and expected: released. The last cell is open."""

    observed: Floats
    observed_sd: float
    expected: Floats
    expected_sd: float

    def to_frame(self) -> pd.DataFrame:
        """A row for each count: numbers of rows observed and expected by the fit, and the standard error of
        their difference, of sampling and privacy noise.
        """
        se = np.sqrt(np.maximum(self.expected, 1.0) + self.observed_sd**2 + self.expected_sd**2)
        top = len(self.observed) - 1
        return pd.DataFrame({"count": [*map(str, range(top)), f"{top}+"], "observed": self.observed,
                             "expected": self.expected, "std.error": se})  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CountDiagnosis(Diagnosis):
    """Released diagnostics of a model of counts.

    Attributes
    ----------
    rootogram : Rootogram
    """

    rootogram: Rootogram

    def _figure(self) -> Any:
        from dpstats.explore.panels import of_counts

        return of_counts(self)

    def frames(self) -> dict[str, pd.DataFrame]:
        """What was released, as tables: ``tests`` and ``rootogram``."""
        return {"tests": self.test_table, "rootogram": self.rootogram.to_frame()}

    def _further(self) -> Iterator[Table]:
        rows = [
            (f"  {row.count_}", f"{row.observed:,.0f}", f"{row.expected:,.0f}", f"{row[3]:,.0f}")
            for row in self.rootogram.to_frame().rename(columns={"count": "count_"}).itertuples(index=False)
        ]
        yield Table(("Count", "observed", "expected", "std err of difference"), tuple(rows))
