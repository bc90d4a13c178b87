"""Made-up tables from descriptions of their columns, or public tables drawn anew. No private row is read."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import ndtr

from dpstats._types import Floats
from dpstats._validation import fail, is_finite, quoted
from dpstats.explore.laws import LAWS, SCORES, WEIGHTS, Shares, described, standardized

__all__ = ["Drawn", "Grouped", "Lookalike", "Resampled", "lookalike"]

Correlations = Mapping[tuple[str, str], float]
_TERMS = 24
_ENDS = 0.9995
"""The largest correlation of normal scores."""
_ROUNDING = 0.05
"""Negative eigenvalues of a correlation matrix down to this are put down to rounded correlations."""
_DECIMALS = 0.005
"""Correlations so little beyond what two laws allow are taken for the largest: they are rounded."""


class Lookalike(Protocol):
    """A table that can be drawn at any number of rows."""

    def draw(self, n: int, rng: np.random.Generator) -> pd.DataFrame: ...


@dataclass(frozen=True, eq=False)
class Resampled:
    """Rows of a public table, drawn with replacement. Text becomes a factor of the values that occur."""

    frame: pd.DataFrame

    @classmethod
    def of(cls, frame: pd.DataFrame) -> "Resampled":
        """The table with factors in place of text."""
        if not len(frame):
            fail("like", frame, "a table with rows")
        columns = {}
        for name, column in frame.items():
            numeric = pd.api.types.is_numeric_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype)
            columns[str(name)] = column if numeric else pd.Categorical(column.astype(object))
        return cls(pd.DataFrame(columns, index=frame.index))

    def draw(self, n: int, rng: np.random.Generator) -> pd.DataFrame:
        """`n` rows."""
        rows = self.frame.take(rng.integers(len(self.frame), size=n))
        return rows.reset_index(drop=True)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Columns with given laws, joined by a Gaussian copula.

    Attributes
    ----------
    columns : dict
        Quantile functions by name.
    root : (d, d) array
        Cholesky factor of the correlations of the normal scores.
    """

    columns: Mapping[str, Callable[[Floats], Floats]]
    root: Floats

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def draw(self, n: int, rng: np.random.Generator) -> pd.DataFrame:
        """`n` rows."""
        scores = ndtr(rng.standard_normal((n, len(self.columns))) @ self.root.T)
        made: dict[str, Any] = {}
        for (name, law), u in zip(self.columns.items(), scores.T, strict=True):
            values = law(u)
            made[name] = values
            if isinstance(law, Shares) and law.levels is not None:
                made[name] = pd.Categorical.from_codes(values.astype(int), categories=list(law.levels))
        return pd.DataFrame(made)


@dataclass(frozen=True, eq=False)
class Grouped:
    """Groups of rows, each drawn in its own way.

    Attributes
    ----------
    shares : tuple of float
    groups : tuple of Drawn
        With the same columns.
    levels : dict
        Levels of the factors in all groups, by name.
    """

    shares: tuple[float, ...]
    groups: tuple[Drawn, ...]
    levels: Mapping[str, tuple[str, ...]]

    def draw(self, n: int, rng: np.random.Generator) -> pd.DataFrame:
        """`n` rows, of each group about its share."""
        counts = rng.multinomial(n, self.shares)
        parts = [group.draw(int(k), rng) for group, k in zip(self.groups, counts, strict=True) if k]
        frame = pd.concat([part[list(self.groups[0].names)] for part in parts], ignore_index=True)
        factors = {name: pd.Categorical(frame[name], categories=list(v)) for name, v in self.levels.items()}
        return frame.assign(**factors)


def lookalike(like: Any, correlation: Correlations | None = None) -> Lookalike:
    """What :func:`dpstats.plan` draws tables from.

    Parameters
    ----------
    like : DataFrame, dict or list of dict
        As there.
    correlation : dict, optional
        As there.

    Returns
    -------
    Lookalike

    Examples
    --------
    >>> table = lookalike({"x": ("lognormal", 2, 1), "z": "normal"}, {("x", "z"): 0.5})
    >>> drawn = table.draw(200_000, np.random.default_rng(1))
    >>> float(drawn["x"].mean().round(2)), float(drawn.corr().loc["x", "z"].round(2))
    (2.0, 0.5)
    """
    if isinstance(like, pd.DataFrame):
        if correlation is not None:
            fail("correlation", correlation, "None where like is a table")
        return Resampled.of(like)
    if isinstance(like, list | tuple):
        if correlation is not None:
            fail("correlation", correlation, "None where like is a list: each group has its own")
        return _grouped(like)
    return _drawn(like, correlation)


def _drawn(like: Any, correlation: Any, group: int | None = None) -> Drawn:
    """What a description is drawn from: of a whole table, or of a group of rows and its number."""
    name, where, what = "like", "correlation", "a public pandas DataFrame, or a dictionary of columns"
    if group is not None:
        name, where, what = f"like[{group}]", f"like[{group}]: correlation", "with a dictionary of columns"
    if not (isinstance(like, Mapping) and like and all(isinstance(column, str) for column in like)):
        fail(name, like, f"{what}, each {_EXAMPLE}")
    columns = {
        column: described(f"{name}: column {quoted(column)}", description, constant=group is not None)
        for column, description in like.items()
    }
    return Drawn(columns, np.asarray(np.linalg.cholesky(_scores(columns, correlation, where)), float))


def _grouped(like: Any) -> Grouped:
    keys = {"share", "columns", "correlation"}
    fine = all(isinstance(group, Mapping) and {"share", "columns"} <= set(group) <= keys for group in like)
    if not (like and fine):
        fail("like", like, "a list of groups such as {'share': 0.2, 'columns': {...}, 'correlation': {...}}")
    shares = [group["share"] for group in like]
    bad = [share for share in shares if not (is_finite(share) and share > 0)]
    if bad or abs(math.fsum(shares) - 1) > 0.01:
        wanted = "a list of groups with shares above 0 that add up to 1"
        fail("like", bad[0] if bad else math.fsum(shares), wanted)
    groups: list[Drawn] = []
    for i, group in enumerate(like):
        groups.append(_drawn(group["columns"], group.get("correlation"), i))
        other = set(groups[0].names) ^ set(groups[i].names)
        if other:
            fail(f"like[{i}]", min(other), "with the columns of like[0], and no others")
    levels: dict[str, tuple[str, ...]] = {}
    for name in groups[0].names:
        laws = [group.columns[name] for group in groups]
        of_group = [law.levels if isinstance(law, Shares) else None for law in laws]
        factors = [found for found in of_group if found is not None]
        if factors and len(factors) < len(groups):
            fail("like", name, "a list of groups in which a column has levels in all or in none")
        if factors:
            levels[name] = tuple(dict.fromkeys(level for found in factors for level in found))
        alone = [law.levels or law.values for law in laws if isinstance(law, Shares) and len(law.values) == 1]
        if len(alone) == len(laws) and len(set(alone)) == 1:
            fail("like", name, "a list of groups in which no column has one value alone")
    total = math.fsum(shares)
    return Grouped(tuple(share / total for share in shares), tuple(groups), levels)


_EXAMPLE = (
    "described as in ('normal', 0, 1) or {'yes': 0.3, 'no': 0.7}; laws are "
    + ", ".join(map(repr, LAWS))
    + " and 'quantiles'"
)


def _scores(columns: Mapping[str, Callable[[Floats], Floats]], correlation: Any, where: str) -> Floats:
    """Correlations of the normal scores that give the columns those asked for."""
    names = list(columns)
    matrix, asked = np.eye(len(names)), np.eye(len(names))
    if correlation is None:
        return matrix
    if not isinstance(correlation, Mapping):
        fail(where, correlation, 'a dictionary such as {("x", "z"): 0.5}')
    series = {}
    for pair, wanted in correlation.items():
        known = isinstance(pair, tuple) and len(pair) == 2 and all(name in columns for name in pair)
        if not known or pair[0] == pair[1]:
            fail(where, pair, "a dictionary whose keys are pairs of different columns of like")
        if not (is_finite(wanted) and -1 <= wanted <= 1):
            fail(where, wanted, "a dictionary of numbers in [-1, 1]")
        for name in pair:
            if name not in series:
                series[name] = _hermite(columns[name])
        i, j = map(names.index, pair)
        asked[i, j] = asked[j, i] = wanted
        product = series[pair[0]] * series[pair[1]]
        score = _score(product, float(wanted))
        if score is None:
            low, high = _ends(columns[pair[0]], columns[pair[1]])
            if not low - _DECIMALS <= wanted <= high + _DECIMALS:
                allowed = f"between {low:z.2f} and {high:z.2f} for {quoted(pair[0])} and {quoted(pair[1])}"
                fail(where, wanted, f"{allowed}, whose laws allow no other")
            # what is left are the ends, to which the series of the scores does not reach
            score = 0.0 if low == high else -_ENDS if wanted < 0 else _ENDS
        matrix[i, j] = matrix[j, i] = score
    if np.linalg.eigvalsh(asked)[0] < -_ROUNDING:
        fail(where, None, "that of a possible table: these contradict one another")
    return _nearest(matrix)


def _hermite(law: Callable[[Floats], Floats]) -> Floats:
    """Coefficients of a standardised column in the normalised Hermite polynomials of its score."""
    (mean, sd), values = standardized(law), law(ndtr(SCORES))
    if not sd > 0:
        return np.zeros(_TERMS)
    values = (values - mean) / sd
    before, now, found = np.ones_like(SCORES), SCORES, []
    for k in range(1, _TERMS + 1):
        found.append(float(WEIGHTS @ (values * now)))
        before, now = now, (SCORES * now - math.sqrt(k) * before) / math.sqrt(k + 1)
    return np.array(found)


def _score(products: Floats, wanted: float) -> float | None:
    """The correlation of two normal scores at which the columns have the correlation wanted; None where it
    is beyond that of the largest scores.
    """
    powers = np.arange(1, len(products) + 1)

    def of_columns(score: float) -> float:
        return float(products @ score**powers)

    if wanted == 0:
        return 0.0
    if not of_columns(-_ENDS) < wanted < of_columns(_ENDS):
        return None
    root: float = brentq(lambda score: of_columns(score) - wanted, -_ENDS, _ENDS, xtol=1e-6)
    return root


def _ends(first: Callable[[Floats], Floats], second: Callable[[Floats], Floats]) -> tuple[float, float]:
    """The least and the largest correlation of two columns: those of opposite and of equal ranks."""
    u = ndtr(SCORES)
    (mean, sd), (other_mean, other_sd) = standardized(first), standardized(second)
    if not (sd > 0 and other_sd > 0):
        return 0.0, 0.0
    a, b = (first(u) - mean) / sd, (second(u) - other_mean) / other_sd
    return float(WEIGHTS @ (a * b[::-1])), float(WEIGHTS @ (a * b))


def _nearest(matrix: Floats) -> Floats:
    """A correlation matrix near `matrix`, which may be none: not every table has a Gaussian copula."""
    values, vectors = np.linalg.eigh(matrix)
    if values[0] > 1e-6:
        return matrix
    mended = (vectors * np.maximum(values, 1e-6)) @ vectors.T
    scale = np.sqrt(np.diagonal(mended))
    return mended / np.outer(scale, scale)
