"""How a column is described, and the quantile function that a description means."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import root
from scipy.special import ndtr

from dpstats._types import Floats
from dpstats._validation import fail, is_finite

__all__ = ["LAWS", "SCORES", "WEIGHTS", "Law", "Quantiles", "Shares", "described", "standardized"]

SCORES = np.linspace(-8.0, 8.0, 4001)
"""Normal scores, and their weights for means over a normal law."""
WEIGHTS = np.exp(-(SCORES**2) / 2)
WEIGHTS /= WEIGHTS.sum()
_MATCHED = 1e-6


@dataclass(frozen=True)
class Law:
    """A law of SciPy, cut off at `low` and `high`.

    Attributes
    ----------
    frozen : object
        With ``ppf`` and ``cdf``.
    low, high : float
    """

    frozen: Any
    low: float = -math.inf
    high: float = math.inf

    def __call__(self, u: Floats) -> Floats:
        """Quantiles."""
        # of whole numbers the lower end itself may occur
        below = self.frozen.cdf(np.nextafter(self.low, -math.inf))
        values = self.frozen.ppf(below + u * (self.frozen.cdf(self.high) - below))
        return np.clip(values, self.low, self.high)


@dataclass(frozen=True)
class Quantiles:
    """Values at given shares, and straight lines between them."""

    shares: tuple[float, ...]
    values: tuple[float, ...]

    def __call__(self, u: Floats) -> Floats:
        """Quantiles."""
        return np.interp(u, self.shares, self.values)


@dataclass(frozen=True)
class Shares:
    """Values and their shares: numbers, or the positions of levels.

    Attributes
    ----------
    values : tuple of float
    upto : tuple of float
        Cumulated shares.
    levels : tuple of str or None
    """

    values: tuple[float, ...]
    upto: tuple[float, ...]
    levels: tuple[str, ...] | None = None

    def __call__(self, u: Floats) -> Floats:
        """Quantiles."""
        position = np.searchsorted(np.array(self.upto[:-1]), u, side="right")
        return np.array(self.values)[position]


def _normal(mean: float = 0.0, sd: float = 1.0) -> Any:
    return stats.norm(mean, sd)


def _lognormal(mean: float, sd: float) -> Any:
    squared = math.log1p((sd / mean) ** 2)
    return stats.lognorm(math.sqrt(squared), scale=mean * math.exp(-squared / 2))


def _gamma(mean: float, sd: float) -> Any:
    return stats.gamma((mean / sd) ** 2, scale=sd * sd / mean)


def _exponential(mean: float = 1.0) -> Any:
    return stats.expon(scale=mean)


def _t(mean: float = 0.0, sd: float = 1.0, df: float = 5.0) -> Any:
    return stats.t(df, mean, sd * math.sqrt((df - 2) / df))


def _laplace(mean: float = 0.0, sd: float = 1.0) -> Any:
    return stats.laplace(mean, sd / math.sqrt(2))


def _uniform(low: float = 0.0, high: float = 1.0) -> Any:
    return stats.uniform(low, high - low)


def _beta(mean: float, sd: float, low: float = 0.0, high: float = 1.0) -> Any:
    m, v = (mean - low) / (high - low), (sd / (high - low)) ** 2
    size = m * (1 - m) / v - 1
    return stats.beta(m * size, (1 - m) * size, low, high - low)


def _poisson(mean: float) -> Any:
    return stats.poisson(mean)


def _negbinomial(mean: float, sd: float) -> Any:
    return stats.nbinom(mean * mean / (sd * sd - mean), mean / (sd * sd))


def _integers(low: float, high: float) -> Any:
    return stats.randint(int(low), int(high) + 1)


@dataclass(frozen=True)
class _Kind:
    """How a law is written."""

    make: Callable[..., Any]
    parameters: tuple[str, ...]
    needed: int
    """How many of the parameters have no default."""
    ok: Callable[[Mapping[str, float]], bool]
    allowed: str
    cut: bool = True
    """Whether `low` and `high` cut it off."""


def _whole(x: float) -> bool:
    return float(x).is_integer()


LAWS: dict[str, _Kind] = {
    "normal": _Kind(_normal, ("mean", "sd"), 0, lambda p: p["sd"] > 0, "sd > 0"),
    "lognormal": _Kind(_lognormal, ("mean", "sd"), 2, lambda p: min(p.values()) > 0, "mean > 0, sd > 0"),
    "gamma": _Kind(_gamma, ("mean", "sd"), 2, lambda p: min(p.values()) > 0, "mean > 0, sd > 0"),
    "exponential": _Kind(_exponential, ("mean",), 0, lambda p: p["mean"] > 0, "mean > 0"),
    "t": _Kind(_t, ("mean", "sd", "df"), 0, lambda p: p["sd"] > 0 and p["df"] > 2, "sd > 0, df > 2"),
    "laplace": _Kind(_laplace, ("mean", "sd"), 0, lambda p: p["sd"] > 0, "sd > 0"),
    "uniform": _Kind(_uniform, ("low", "high"), 0, lambda p: p["low"] < p["high"], "low < high", cut=False),
    "beta": _Kind(
        _beta,
        ("mean", "sd", "low", "high"),
        2,
        lambda p: (
            p["low"] < p["mean"] < p["high"]
            and 0 < p["sd"] ** 2 < (p["mean"] - p["low"]) * (p["high"] - p["mean"])
        ),
        "low < mean < high, 0 < sd^2 < (mean - low) (high - mean)",
        cut=False,
    ),
    "poisson": _Kind(_poisson, ("mean",), 1, lambda p: p["mean"] > 0, "mean > 0"),
    "negbinomial": _Kind(
        _negbinomial, ("mean", "sd"), 2, lambda p: 0 < p["mean"] < p["sd"] ** 2, "0 < mean < sd^2"
    ),
    "bernoulli": _Kind(stats.bernoulli, ("p",), 1, lambda p: 0 < p["p"] < 1, "0 < p < 1", cut=False),
    "integers": _Kind(
        _integers,
        ("low", "high"),
        2,
        lambda p: p["low"] < p["high"] and _whole(p["low"]) and _whole(p["high"]),
        "whole numbers, low < high",
        cut=False,
    ),
}
_DEFAULTS: dict[str, dict[str, float]] = {
    "normal": {"mean": 0.0, "sd": 1.0},
    "exponential": {"mean": 1.0},
    "laplace": {"mean": 0.0, "sd": 1.0},
    "t": {"mean": 0.0, "sd": 1.0, "df": 5.0},
    "uniform": {"low": 0.0, "high": 1.0},
    "beta": {"low": 0.0, "high": 1.0},
}


def described(name: str, description: Any, constant: bool = False) -> Callable[[Floats], Floats]:
    """The quantile function that a description means.

    Parameters
    ----------
    name : str
        What an error calls it.
    description : str, tuple or dict
        The name of a law; a tuple of it and its parameters, by position or in a dictionary; or a dictionary
        of values and shares.
    constant : bool
        Whether there may be one value alone.

    Returns
    -------
    callable
        From shares to values.

    Raises
    ------
    ParameterError

    Examples
    --------
    >>> described("age", ("uniform", 18, 90))(np.array([0.0, 0.5]))
    array([18., 54.])
    >>> described("cut", {"Fair": 0.2, "Good": 0.8}).levels
    ('Fair', 'Good')
    """
    if isinstance(description, Mapping):
        return _shares(name, description, constant)
    given: tuple[Any, ...] = (description,) if isinstance(description, str) else description
    if not (isinstance(given, tuple) and given and isinstance(given[0], str)):
        fail(name, description, "the name of a law, a tuple of it and its parameters, or values and shares")
    law, *rest = given
    if law == "quantiles":
        return _quantiles(name, rest)
    if law not in LAWS:
        fail(name, law, f"of a law among {', '.join(LAWS)}, quantiles")
    kind = LAWS[law]
    ends = ("low", "high") if kind.cut else ()
    if len(rest) == 1 and isinstance(rest[0], Mapping):
        parameters = dict(rest[0])
    else:
        parameters = dict(zip(kind.parameters, rest, strict=False))
    known = set(parameters) <= {*kind.parameters, *ends} and len(rest) <= len(kind.parameters)
    if not known or not set(kind.parameters[: kind.needed]) <= set(parameters):
        wanted = ", ".join(kind.parameters) + "".join(f"[, {end}]" for end in ends)
        fail(name, law, f"given by {law!r} and {wanted}")
    if not all(is_finite(value) for value in parameters.values()):
        fail(name, law, "described by finite numbers")
    cut = {end: float(parameters.pop(end)) for end in ends if end in parameters}
    whole = _DEFAULTS.get(law, {}) | {key: float(value) for key, value in parameters.items()}
    if not kind.ok(whole):
        fail(name, law, f"with {kind.allowed}")
    return _cut(name, law, kind, whole, cut) if cut else Law(kind.make(**whole))


def _cut(name: str, law: str, kind: _Kind, whole: dict[str, float], cut: Mapping[str, float]) -> Law:
    """The law that has the mean and sd wanted after it is cut off."""
    matched = [key for key in ("mean", "sd") if key in whole]
    wanted = np.array([whole[key] for key in matched])
    u, unit = ndtr(SCORES), max(map(abs, whole.values()))

    def made(x: Floats) -> Law | None:
        changed = whole | dict(zip(matched, (float(v) * unit for v in x), strict=True))
        return Law(kind.make(**changed), **cut) if kind.ok(changed) else None

    def miss(x: Floats) -> Floats:
        candidate = made(x)
        if candidate is None:
            return np.full(len(x), 10.0)
        values = candidate(u)
        mean = float(WEIGHTS @ values)
        found = np.array([mean, math.sqrt(max(float(WEIGHTS @ (values - mean) ** 2), 0.0))])
        return (found[: len(x)] - wanted) / unit

    low, high = cut.get("low", -math.inf), cut.get("high", math.inf)
    if low < whole["mean"] < high:
        with np.errstate(all="ignore"):
            solved = root(miss, wanted / unit, tol=1e-10)
            best = made(solved.x)
            if best is not None and float(np.max(np.abs(miss(solved.x)))) < _MATCHED:
                return best
    fail(name, law, f"a law with such a mean and sd between {low:g} and {high:g}, as 'beta' may have")


def standardized(law: Callable[[Floats], Floats]) -> tuple[float, float]:
    """Mean and standard deviation of a law."""
    values = law(ndtr(SCORES))
    mean = float(WEIGHTS @ values)
    return mean, math.sqrt(float(WEIGHTS @ (values - mean) ** 2))


def _quantiles(name: str, rest: list[Any]) -> Quantiles:
    allowed = "described as in ('quantiles', {0: 18, 0.5: 40, 1: 90}): shares from 0 to 1, values that rise"
    if not (len(rest) == 1 and isinstance(rest[0], Mapping) and len(rest[0]) >= 2):
        fail(name, "quantiles", allowed)
    points = list(rest[0].items())
    if not all(is_finite(x) for point in points for x in point):
        fail(name, "quantiles", allowed)
    shares, values = (tuple(map(float, column)) for column in zip(*sorted(points), strict=True))
    rising = all(a <= b for a, b in zip(values, values[1:], strict=False)) and values[0] < values[-1]
    if not (shares[0] == 0 and shares[-1] == 1 and rising):
        fail(name, "quantiles", allowed)
    return Quantiles(shares, values)


def _shares(name: str, description: Mapping[Any, Any], constant: bool) -> Shares:
    allowed = "a dictionary of levels (text) or of numbers and their shares, which add up to 1"
    levels = all(isinstance(key, str) for key in description)
    numbers = all(is_finite(key) for key in description)
    shares = list(description.values())
    enough = len(shares) > 1 or (constant and shares)
    if not (enough and (levels or numbers) and all(is_finite(s) and s > 0 for s in shares)):
        fail(name, description, allowed)
    total = math.fsum(shares)
    if abs(total - 1) > 0.01:
        fail(name, total, allowed)
    items = list(description.items()) if levels else sorted(description.items())
    upto = tuple(np.cumsum([share / total for _, share in items]).tolist())
    if levels:
        return Shares(tuple(map(float, range(len(items)))), upto, tuple(key for key, _ in items))
    return Shares(tuple(float(key) for key, _ in items), upto)
