"""What docstrings of estimators share, parameters and whole sections: written once and filled in."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from dpstats._estimators import ESTIMATORS

__all__ = ["SHARED", "documented"]

F = TypeVar("F", bound=Callable[..., Any])

SHARED = {
    "formula": """
formula : str
    Such as ``"price ~ carat + clarity"``; see ``docs/formulas.md``.""",
    "formula of columns": """
formula : str
    ``"y ~ 1"``, or several columns: ``"y1 + y2 ~ 1"``.""",
    "formula of a line": """
formula : str
    ``"y ~ x"``: one response and one numeric column.""",
    "data": """
data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
    Anything tabular, as ``docs/formulas.md`` lists it.""",
    "eps": """
eps : float
    Privacy budget; positive.""",
    "delta": """
delta : float
    In (0, 1); far below one over the number of rows.""",
    "delta of smooth": """
delta : float
    In (0, 1), far below one over the number of rows; not used by ``mechanism="exponential"``, which takes 0
    as well.""",
    "guarantee": """
guarantee : {"approximate", "random"}
    For ``"smooth"``: ``"random"`` is the variant of Cumings-Menon (2022), whose proof does not hold as
    published.""",
    "gamma": """
gamma : float, optional
    For ``guarantee="random"``: the share of data sets without promise.""",
    "select": """
select : int, optional
    Choose this many terms privately first (:func:`dpstats.select_features`), at 5 % of the budget, and
    fit them.""",
    "bounds": """
bounds : mapping of str to (float, float), optional
    Publicly known bounds of columns: values outside are moved to the nearer one. They cost nothing.""",
    "levels": """
levels : mapping of str to sequence, optional
    Public levels of categorical columns, also of that of `by`.""",
    "by": """
by : str, optional
    A column with declared levels: one estimate for each group, each with the whole budget.""",
    "unit": """
unit : str, optional
    A column such as ``"patient_id"``: protect all rows of one of its values, and not one row alone. One row
    of each, drawn at random, is used; rows without a value are dropped.""",
    "unit of sums": """
unit : str, optional
    A column such as ``"patient_id"``: protect all rows of one of its values, and not one row alone. All rows
    are used, and what those of one unit add up to is limited (`ols`, `huber` and generalised linear models
    give units of very many rows less weight before that); rows without a value are dropped.""",
    "ledger": """
ledger : Ledger, optional
    Charged before any row is read.""",
    "seed": """
seed : int, optional
    For simulation only: the release then protects nobody, and its guarantee says so.""",
    "cov_type": """
cov_type : {"robust", "nonrobust", "bootstrap"}
    Standard errors for errors whose variance depends on the columns, or is the same for all rows, or by a
    parametric bootstrap: the last steps are simulated from released values, and the estimates are corrected
    for the bias that shows there. It costs no privacy, takes milliseconds, and cannot mend what the release
    does not hold (``docs/results.md``).""",
    "results": """
Returns
-------
Results or GroupedResults""",
    "gaussian steps": """
**Privacy.** ``(eps, delta)``-DP; neighbours: one record added or removed. All steps are Gaussian and
compose exactly (mu-GDP).""",
    "raises": """
Raises
------""",
    "errors": """
ParameterError, FormulaError, SchemaError, BudgetExceeded
    Before anything is charged; only a SchemaError that the data could not be read comes after the charge.
    With `by`, what fails in some groups is in their table, and raised where it fails in all.""",
    "too few rows": """
ReleaseFailed
    If there are too few rows for so many columns, or if no column shows any variation. All of the budget is
    spent; in the first case only the count's part under a ledger that adds up by zCDP or GDP.""",
    "private test": """
ReleaseFailed
    With ``"smooth"`` and no bounds, if the private test fails.""",
    "diamonds": """
Examples
--------
>>> import dpstats
>>> diamonds = dpstats.datasets.load_diamonds()""",
}
"""Entries of numpydoc sections by name, some with the heading of their section."""

_EXPERIMENTAL = """

    **Experimental.** Its proof is written and the general tests hold; it is not audited yet."""

_PLACE = re.compile(r"^( *)%\(([^)]+)\)s$", re.MULTILINE)


def documented(function: F) -> F:
    """Fill entries of :data:`SHARED` into a docstring: a line ``%(eps, delta)s`` becomes those so named.

    The docstring of an experimental estimator says that it is one.

    Examples
    --------
    >>> @documented
    ... def estimator(eps):
    ...     '''An estimator.
    ...
    ...     %(eps)s
    ...     '''
    >>> print(estimator.__doc__)
    An estimator.
    <BLANKLINE>
        eps : float
            Privacy budget; positive.
    <BLANKLINE>
    """

    def entries(match: re.Match[str]) -> str:
        lines = "".join(SHARED[name.strip()] for name in match[2].split(",")).removeprefix("\n").split("\n")
        return "\n".join(match[1] + line for line in lines)

    if function.__doc__:  # python -OO has none
        summary, blank, rest = _PLACE.sub(entries, function.__doc__).partition("\n\n")
        experimental = getattr(ESTIMATORS.get(function.__name__), "experimental", False)
        function.__doc__ = summary + _EXPERIMENTAL * experimental + blank + rest
    return function
