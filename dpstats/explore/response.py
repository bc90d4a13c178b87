"""A made-up response, and what a fit without privacy would say of it."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from dpstats._types import Floats
from dpstats._validation import allows, check, fail, is_finite
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.errors import SchemaError
from dpstats.explore.laws import Shares, described, standardized
from dpstats.explore.lookalike import Lookalike
from dpstats.formula.design import Design

__all__ = ["FAMILIES", "Errors", "Response", "classical", "design_of", "made"]

FAMILIES = {"logit": "binomial", "poisson": "counts"}
"""Of the estimators whose response is not made by adding errors."""
_LARGE = 50_000
"""Rows from which the variance of the made-up prediction is taken."""
_STEEPEST = 3.0
_LARGEST = 30.0
_STEPS = 50


@dataclass(frozen=True)
class Errors:
    """Errors of mean 0.

    Attributes
    ----------
    sigma : float
        Their standard deviation where the columns of `spread` are at their means.
    law : callable
        Quantile function; `mean` and `sd` are its own.
    mean, sd : float
    spread : tuple of (position, slope, mean, sd)
        Of columns of the design on which the standard deviation depends.
    """

    sigma: float
    law: Callable[[Floats], Floats]
    mean: float
    sd: float
    spread: tuple[tuple[int, float, float, float], ...] = ()

    def draw(self, X: Floats, rng: np.random.Generator) -> Floats:
        """Errors for the rows of a design matrix."""
        errors = (self.law(rng.random(len(X))) - self.mean) / self.sd
        return errors * self.sigma * self.sizes(X)

    def sizes(self, X: Floats) -> Floats:
        """Standard deviations in relation to one another."""
        log = np.zeros(len(X))
        for position, slope, mean, sd in self.spread:
            log += slope * (X[:, position] - mean) / sd
        return np.exp(np.clip(log, -_STEEPEST, _STEEPEST))


@dataclass(frozen=True, eq=False)
class Response:
    """How a response is made from the columns of a design.

    Attributes
    ----------
    name : str
    design : Design
    effects : (d,) array
    family : str
        ``"errors"``, ``"binomial"`` or ``"counts"``.
    errors : Errors or None
    """

    name: str
    design: Design
    effects: Floats
    family: str
    errors: Errors | None = None

    def add(self, frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """The table with the response."""
        X = self.design.matrix(frame.assign(**{self.name: 0.0}))
        line = X @ self.effects
        with np.errstate(invalid="ignore"):
            if self.errors is not None:
                values = line + self.errors.draw(X, rng)
            elif self.family == "binomial":
                values = np.where(np.isnan(line), np.nan, rng.random(len(line)) < expit(line))
            else:
                rates = np.exp(np.minimum(np.nan_to_num(line), _LARGEST))
                values = np.where(np.isnan(line), np.nan, rng.poisson(rates))
        return frame.assign(**{self.name: values})


def design_of(formula: str, frame: pd.DataFrame, options: Mapping[str, Any]) -> Design:
    """The design of a formula for a table, with what an estimator's options declare."""
    declared = {key: options.get(key) for key in ("levels", "bounds")}
    return Design.from_formula(formula, Schema.of(open_source(frame), **declared))


def made(
    formula: str,
    like: Lookalike,
    estimator: str,
    options: Mapping[str, Any],
    effects: Mapping[str, float] | None,
    sigma: float | None,
    r2: float | None,
    errors: Any,
    spread: Mapping[str, float] | None,
    rng: np.random.Generator,
) -> tuple[Design, dict[str, float], Response | None]:
    """The design, the effects, and the response where `like` has none.

    Parameters are those of :func:`dpstats.plan`.
    """
    frame = like.draw(_LARGE, rng)
    response = formula.partition("~")[0].strip()
    present = response in frame or not re.fullmatch(r"[^\W\d]\w*", response)
    sigma, r2 = check("sigma", sigma, "positive", optional=True), _r2(r2)
    law = _law(errors)
    given = {"sigma": sigma, "r2": r2, "spread": spread}
    if present and response not in frame:
        try:
            design_of(f"{response} ~ 1", frame, {})
        except SchemaError as error:
            allowed = "one whose response is a name alone where like lacks it and effects make it"
            raise SchemaError(f"{error} (formula must be {allowed}.)") from None
    if present:
        for name, value in given.items():
            if value is not None:
                fail(name, value, f"None where like has the response {response!r}")
        design = design_of(formula, frame, options)
        return design, check_effects(effects, design.column_names), None
    design = design_of(formula, frame.assign(**{response: 0.0}), options)
    if effects is None:
        fail("effects", None, f"given where like lacks the response {response!r}, from which it is then made")
    family = FAMILIES.get(estimator, "errors")
    known = check_effects(effects, design.column_names)
    beta = np.array([known.get(name, 0.0) for name in design.column_names])
    if family != "errors":
        for name, value in given.items():
            if value is not None:
                fail(name, value, f"None for {estimator}, whose model makes the response")
        return design, known, Response(response, design, beta, family)
    if (sigma is None) == (r2 is None):
        fail("sigma", sigma, "given, or r2 in its place, where the response is made from effects")
    X = design.matrix(frame.assign(**{response: 0.0}))
    X = X[~np.isnan(X).any(axis=1)]
    sloped = Errors(1.0, law, *standardized(law), _spread(spread, design, X))
    if sigma is None:
        assert r2 is not None
        explained = float(np.var(X @ beta))
        if not explained > 0:
            fail("r2", r2, "None where the effects explain nothing; give sigma")
        sigma = math.sqrt(explained * (1 - r2) / r2)
    scale = sigma / math.sqrt(float(np.mean(sloped.sizes(X) ** 2)))
    return design, known, Response(response, design, beta, family, replace(sloped, sigma=scale))


def _law(errors: Any) -> Callable[[Floats], Floats]:
    """The law of the errors, of which a short name may say the degrees of freedom."""
    short = re.fullmatch(r"t(\d+)", errors) if isinstance(errors, str) else None
    law = described("errors", ("t", 0, 1, int(short[1])) if short else errors)
    if isinstance(law, Shares) and law.levels is not None:
        fail("errors", errors, "a law, and no levels")
    return law


def _r2(r2: Any) -> float | None:
    if r2 is not None and not allows(r2, "alpha"):
        fail("r2", r2, "None or a number in (0, 1)")
    return None if r2 is None else float(r2)


def _spread(spread: Any, design: Design, X: Floats) -> tuple[tuple[int, float, float, float], ...]:
    names = [name for name in design.column_names if name != "Intercept"]
    if spread is None:
        return ()
    valid = isinstance(spread, Mapping) and all(name in names for name in spread)
    if not (valid and all(is_finite(slope) for slope in spread.values())):
        fail("spread", spread, f"a dictionary of numbers by columns among {names}")
    found = []
    for name, slope in spread.items():
        position = design.column_names.index(name)
        column = X[:, position]
        found.append((position, float(slope), float(column.mean()), float(column.std()) or 1.0))
    return tuple(found)


# -- without privacy -----------------------------------------------------------------------------------


def classical(design: Design, frame: pd.DataFrame, estimator: str, robust: bool) -> Floats:
    """Standard errors without privacy, NaN where there are none.

    Of least squares, or of maximum likelihood for `logit` and `poisson`.

    Parameters
    ----------
    design : Design
    frame : DataFrame
    estimator : str
    robust : bool
        Whether they allow for errors whose variance depends on the columns (White 1980).

    Returns
    -------
    (d,) ndarray
    """
    X, Y = design.arrays(frame)
    nothing = np.full(X.shape[1], np.nan)
    if len(X) <= X.shape[1]:
        return nothing
    y = Y[:, 0]
    # an estimator of units of its own may be far off 1
    scale = np.sqrt(np.mean(X * X, axis=0))
    scale[scale == 0] = 1.0
    X = X / scale
    try:
        if estimator in FAMILIES:
            bread, scores = _likelihood(X, y, FAMILIES[estimator])
        else:
            root = np.linalg.pinv(X)
            bread = root @ root.T
            scores = y - X @ (root @ y)
            if not robust:
                bread = bread * float(scores @ scores) / (len(X) - X.shape[1])
    except np.linalg.LinAlgError:
        return nothing
    if robust:
        weighted = X * scores[:, None]
        bread = bread @ (weighted.T @ weighted) @ bread
    return np.sqrt(np.diagonal(bread)) / scale


def _likelihood(X: Floats, y: Floats, family: str) -> tuple[Floats, Floats]:
    """Inverse information and residuals of maximum likelihood, by Newton's method."""
    binomial = family == "binomial"
    start = np.zeros(len(y)) if binomial else np.log(y + 0.5)
    beta = np.asarray(np.linalg.lstsq(X, start, rcond=None)[0], float)
    for _ in range(_STEPS):
        line = np.clip(X @ beta, -_LARGEST, _LARGEST)
        mean = expit(line) if binomial else np.exp(line)
        weights = mean * (1 - mean) if binomial else mean
        step = np.linalg.solve((X * weights[:, None]).T @ X, X.T @ (y - mean))
        beta = beta + step
        if float(np.max(np.abs(step))) < 1e-8:
            break
    return np.linalg.inv((X * weights[:, None]).T @ X), y - mean


def check_effects(effects: Any, names: tuple[str, ...]) -> dict[str, float]:
    """Coefficients by name of column."""
    if effects is None:
        return {}
    if not isinstance(effects, Mapping):
        fail("effects", effects, f"a dictionary of numbers by names among {list(names)}")
    for name, value in effects.items():
        if name not in names:
            fail("effects", name, f"about names among {list(names)}")
        if not is_finite(value):
            fail(f"effects[{name!r}]", value, "a finite number")
    return {name: float(value) for name, value in effects.items()}
