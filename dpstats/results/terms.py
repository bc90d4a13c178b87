"""Joint tests of the terms of a formula, one line a term."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpstats._format import UNDETERMINED, format_p, format_statistic
from dpstats._text import Summary, Table, Tabled
from dpstats._types import Floats
from dpstats.results import inference

__all__ = ["TermTests", "term_tests"]

_NOTE = (
    "Wald tests from the released estimates and their covariance, which holds the privacy noise. They cost "
    "no privacy."
)
_LOST = f"{UNDETERMINED}: the term has a coefficient that is not determined."


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TermTests(Tabled):
    """Wald tests of terms: that all coefficients of a term are 0.

    Parameters
    ----------
    method, formula : str
        Of the fit.
    terms : tuple of str
    statistics, pvalues : tuple of float
        One for each term; NaN for a term with a coefficient that is not determined.
    df_constraint : tuple of int
        Numbers of coefficients that are 0 under the hypotheses.
    df_denom : float or None
        Of the F tests; None for chi-squared tests.

    Examples
    --------
    >>> tests = TermTests(method="OLS", formula="y ~ f", terms=("f",), statistics=(9.21034,), pvalues=(0.01,),
    ...                   df_constraint=(2,))
    >>> tests.table
       statistic  pvalue  df_constraint
    f    9.21034    0.01              2
    """

    method: str
    formula: str
    terms: tuple[str, ...]
    statistics: tuple[float, ...]
    pvalues: tuple[float, ...]
    df_constraint: tuple[int, ...]
    df_denom: float | None = None

    @property
    def table(self) -> pd.DataFrame:
        """A row for each term: ``statistic, pvalue, df_constraint``, and for F tests ``df_denom``."""
        columns: dict[str, object] = {
            "statistic": list(self.statistics), "pvalue": list(self.pvalues),
            "df_constraint": list(self.df_constraint),
        }  # fmt: skip
        if self.df_denom is not None:
            columns["df_denom"] = self.df_denom
        return pd.DataFrame(columns, index=list(self.terms))

    def summary(self) -> Summary:
        """The tests as a table that prints as text and HTML.

        Returns
        -------
        dpstats._text.Summary

        Examples
        --------
        >>> import dpstats
        >>> print(dpstats.anova(dpstats.datasets.load_fit()).summary().as_csv())
        ,chi2,P>chi2,df
        cut,537.80,<0.001,4
        carat,40826.62,<0.001,1
        """
        letter = "chi2" if self.df_denom is None else "F"
        numbers = zip(self.statistics, self.pvalues, strict=True)
        shown = [
            (UNDETERMINED, "-") if np.isnan(value) else (format_statistic(value), format_p(p))
            for value, p in numbers
        ]
        rows = tuple(
            (term, *texts, str(q))
            for term, texts, q in zip(self.terms, shown, self.df_constraint, strict=True)
        )
        facts = () if self.df_denom is None else (("Residual df", f"{self.df_denom:g}"),)
        lost = (_LOST,) if np.isnan(self.statistics).any() else ()
        return Summary(
            title=f"{self.method}: Wald tests of terms",
            formula=self.formula,
            facts=facts,
            coefficients=Table(("", letter, f"P>{letter}", "df"), rows),
            paragraphs=(*lost, _NOTE),
        )

    def __repr__(self) -> str:
        return str(self)


def term_tests(
    estimates: Floats,
    cov: Floats,
    terms: Mapping[str, slice],
    df: float | None,
    root: Floats | None = None,
    free: Floats | None = None,
    *,
    method: str,
    formula: str,
) -> TermTests:
    """The tests of all terms.

    Parameters
    ----------
    estimates : (d,) array
    cov : (d, d) array
        NaN for coefficients that are not determined.
    terms : mapping of str to slice
    df : float or None
    root, free : arrays, optional
        As of :func:`~dpstats.results.inference.joint_test`.
    method, formula : str

    Returns
    -------
    TermTests

    Examples
    --------
    >>> terms = {"x": slice(0, 1), "f": slice(1, 3)}
    >>> names = {"method": "OLS", "formula": "y ~ x + f"}
    >>> found = term_tests(np.array([3.0, 1.0, 2.0]), np.eye(3), terms, None, **names)
    >>> found.table["statistic"].to_dict(), found.df_constraint
    ({'x': 9.0, 'f': 5.0}, (1, 2))
    """
    found = []
    for where in terms.values():
        R = np.eye(len(estimates))[where]
        value, q, p = inference.joint_test(estimates, cov, R, 0.0, df, root, free)
        found.append((value, len(R) if np.isnan(value) else q, p))
    statistics, numbers, pvalues = zip(*found, strict=True) if found else ((), (), ())
    return TermTests(
        method=method,
        formula=formula,
        terms=tuple(terms),
        statistics=tuple(float(x) for x in statistics),
        pvalues=tuple(float(x) for x in pvalues),
        df_constraint=tuple(int(q) for q in numbers),
        df_denom=df,
    )
