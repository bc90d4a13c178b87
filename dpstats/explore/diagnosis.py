"""What ``fit.diagnose()`` returns: released diagnostics, a table of tests, and a panel of plots."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpstats._boundary import guarded
from dpstats._format import UNDETERMINED, format_p, format_statistic
from dpstats._text import Summary, Table, Tabled
from dpstats.explore.diagnosed import Bins, Calibration, Leverage, Outcome, Residuals, Rootogram
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.parts import Origin
from dpstats.results.saved import plain
from dpstats.results.spends import spends_table
from dpstats.results.table import NOISY, promise

__all__ = ["CountDiagnosis", "Diagnosis", "LinearDiagnosis", "LogitDiagnosis"]


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
        yield NOISY[self.guarantee.unit is not None], f"{max(self.count, 0):,.0f}"

    def _further(self) -> Iterator[Table]:
        yield from ()

    def _words(self) -> Iterator[str]:
        if any(math.isnan(t.statistic) for t in self.tests):
            yield (
                f"{UNDETERMINED}: not determined; more rows or a larger eps, also of the fit, may help. "
                "Tests of a model of shares or counts need every coefficient that is in the fit determined."
            )
        yield (
            "P-values cover sampling and privacy noise. A small one says that the model misses something "
            "that these data show; a large one, that noise and rows do not show it."
        )

    @guarded
    def summary(self) -> Summary:
        """The table of tests, and the guarantee.

        Returns
        -------
        dpstats._text.Summary

        Examples
        --------
        >>> import dpstats
        >>> fit, table = dpstats.datasets.load_fit(), dpstats.datasets.load_diamonds()[::10]
        >>> found = fit.diagnose(table, eps=5, seed=1)  # seeded for the example
        >>> print("\\n".join(found.summary().as_csv().splitlines()[:4]))
        ,chi2,df,P>chi2
        Powers of the prediction (RESET),179.14,2,<0.001
        Constant error variance,734.14,2,<0.001
        "Normal errors (skewness, kurtosis)",434.72,2,<0.001
        """
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

        Examples
        --------
        >>> import dpstats
        >>> fit, table = dpstats.datasets.load_fit(), dpstats.datasets.load_diamonds()[::10]
        >>> found = fit.diagnose(table, eps=5, seed=1)  # seeded for the example
        >>> [ax.get_xlabel() for ax in found.plot().axes][:2]
        ['prediction', 'normal quantile']
        """
        return self._figure()

    def _figure(self) -> Any:
        raise NotImplementedError

    def frames(self) -> dict[str, pd.DataFrame]:
        """What was released, as tables by name.

        Returns
        -------
        dict of str to DataFrame

        Examples
        --------
        >>> import dpstats
        >>> fit, table = dpstats.datasets.load_fit(), dpstats.datasets.load_diamonds()[::10]
        >>> found = fit.diagnose(table, eps=5, seed=1)  # seeded for the example
        >>> {name: frame.shape for name, frame in found.frames().items()}
        {'tests': (3, 3), 'fitted': (10, 9), 'qq': (27, 4), 'leverage': (4, 3), 'carat': (5, 7)}
        """
        return {"tests": self.test_table}

    def to_dict(self) -> dict[str, Any]:
        """All released numbers as plain dicts, lists, strings and numbers; None for what is not finite.

        Returns
        -------
        dict

        Examples
        --------
        >>> import dpstats
        >>> fit, table = dpstats.datasets.load_fit(), dpstats.datasets.load_diamonds()[::10]
        >>> found = fit.diagnose(table, eps=5, seed=1)  # seeded for the example
        >>> found.to_dict()["tables"]["tests"][0]["name"]
        'Powers of the prediction (RESET)'
        """
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
        Rows by leverage. Rows far out count less in the matrix that it is measured by, the less the smaller
        the budget: of columns with heavy tails the shares come out too high.
    """

    fitted: Bins
    columns: tuple[Bins, ...]
    residuals: Residuals
    leverage: Leverage

    def _figure(self) -> Any:
        from dpstats.explore.panels import of_residuals

        return of_residuals(self)

    def frames(self) -> dict[str, pd.DataFrame]:
        """Tables of what was released: ``tests``, ``fitted``, ``qq``, ``leverage``, one for each column.

        Returns
        -------
        dict of str to DataFrame

        Examples
        --------
        >>> import dpstats
        >>> fit, table = dpstats.datasets.load_fit(), dpstats.datasets.load_diamonds()[::10]
        >>> found = fit.diagnose(table, eps=5, seed=1)  # seeded for the example
        >>> found.frames()["leverage"].round(3)
           times  share  std.error
        0    2.0  0.120      0.011
        1    3.0  0.034      0.006
        2    5.0  0.031      0.004
        3   10.0  0.002      0.003
        """
        found = {"tests": self.test_table, "fitted": self.fitted.to_frame(), "qq": self.residuals.to_frame()}
        found["leverage"] = self.leverage.to_frame()
        return found | {bins.name: bins.to_frame() for bins in self.columns}

    def _further(self) -> Iterator[Table]:
        rows = [
            (f"  above {times:g} times the mean", f"{100 * share:.2f} %", f"{100 * se:.2f} %")
            for times, share, se in self.leverage.to_frame().itertuples(index=False, name=None)
        ]
        yield Table(("Leverage", "share of rows", "std err"), tuple(rows))


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
        """What was released, as tables: ``tests``, ``calibration``, ``roc``.

        Returns
        -------
        dict of str to DataFrame

        Examples
        --------
        >>> import dpstats
        >>> table = dpstats.datasets.load_diamonds()[::10].assign(ideal=lambda rows: rows["cut"] == "Ideal")
        >>> found = dpstats.datasets.load_fit("logit").diagnose(table, eps=5, seed=1)  # for the example
        >>> found.frames()["calibration"][["rows", "predicted", "observed"]].head(3).round(2)
             rows  predicted  observed
        0  541.25       0.22      0.27
        1  483.84       0.32      0.35
        2  688.16       0.34      0.35
        """
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
        rows = []
        for i, row in enumerate(self.calibration.to_frame().itertuples(index=False), 1):
            shares = (row.predicted, row.observed, row[3])
            texts = [UNDETERMINED if math.isnan(x) else f"{x:z.3f}" for x in shares]
            rows.append((f"  tenth {i}", f"{max(row.rows, 0):,.0f}", *texts))
        yield Table(("Calibration", "rows", "predicted", "observed", "std err of difference"), tuple(rows))


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
        """What was released, as tables: ``tests`` and ``rootogram``.

        Returns
        -------
        dict of str to DataFrame

        Examples
        --------
        >>> import dpstats
        >>> import numpy as np
        >>> x = np.linspace(-1, 1, 4_000)
        >>> table = {"x": x, "visits": np.random.default_rng(1).poisson(np.exp(0.5 * x))}
        >>> fit = dpstats.poisson("visits ~ x", table, eps=5, seed=1)  # seeded for the example
        >>> fit.diagnose(table, eps=5, seed=1).frames()["rootogram"].columns.tolist()
        ['count', 'observed', 'expected', 'std.error']
        """
        return {"tests": self.test_table, "rootogram": self.rootogram.to_frame()}

    def _further(self) -> Iterator[Table]:
        rows = [
            (f"  {row.count_}", f"{row.observed:z,.0f}", f"{row.expected:z,.0f}", f"{row[3]:,.0f}")
            for row in self.rootogram.to_frame().rename(columns={"count": "count_"}).itertuples(index=False)
        ]
        yield Table(("Count", "observed", "expected", "std err of difference"), tuple(rows))
