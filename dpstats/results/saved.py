"""How results are written as plain dicts, lists, strings and numbers, for :func:`dpstats.from_dict`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from dpstats._format import package_version
from dpstats.results.inference import FixedInterval
from dpstats.results.parts import Declared, Interval, Origin, Predictor

__all__ = [
    "FORMAT",
    "declared",
    "decoded",
    "design_facts",
    "encoded",
    "header",
    "interval_facts",
    "plain",
    "stored_levels",
]

FORMAT = "1.0"
"""Of what ``to_dict()`` writes: another number before the point is another format."""


def header(kind: str, origin: Origin | None) -> dict[str, str | None]:
    """What a saved result says of itself.

    Examples
    --------
    >>> header("Results", Origin("0.2.0", "2026-01-31T12:00:00+00:00"))["released_at"]
    '2026-01-31T12:00:00+00:00'
    """
    origin = origin or Origin(package_version())
    return {
        "kind": kind,
        "format": FORMAT,
        "version": origin.version,
        "released_at": origin.released_at,
    }


def encoded(value: Any) -> Any:
    """A value for JSON: NaN as None, infinities as text, arrays and tuples as lists.

    Examples
    --------
    >>> encoded({"a": np.array([0.1, math.nan]), "b": (-math.inf, True, "x")})
    {'a': [0.1, None], 'b': ['-Infinity', True, 'x']}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: encoded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(item) for item in value]
    if isinstance(value, pd.Interval):
        return {"left": encoded(value.left), "right": encoded(value.right), "closed": value.closed}
    if isinstance(value, Real) and not isinstance(value, int):
        value = float(value)
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def plain(x: Any) -> Any:
    """An item of a table of numbers for JSON: None for a number that is not finite."""
    return None if isinstance(x, float) and not math.isfinite(x) else x


def decoded(values: Any) -> Any:
    """Numbers that :func:`encoded` wrote, in lists or not.

    Examples
    --------
    >>> decoded([0.1, None, "-Infinity"])
    [0.1, nan, -inf]
    """
    if isinstance(values, list):
        return [decoded(value) for value in values]
    return math.nan if values is None else float(values)


def interval_facts(interval: Interval | None, alpha: float) -> dict[str, Any] | None:
    """Intervals by their kind and parameters; those of a kind that is not of this package by their ends.

    Examples
    --------
    >>> interval_facts(FixedInterval((1.0,), (math.inf,), 0.1), 0.1)
    {'kind': 'FixedInterval', 'lower': [1.0], 'upper': ['Infinity'], 'alpha': 0.1}
    """
    if interval is None:
        return None
    if not (is_dataclass(interval) and type(interval).__module__.startswith("dpstats.")):
        lower, upper = np.asarray(interval.conf_int(alpha), float).T.tolist()
        interval = FixedInterval(tuple(lower), tuple(upper), alpha)
    return {"kind": type(interval).__name__, **encoded(asdict(interval))}


def declared(facts: Sequence[Mapping[str, Any]]) -> tuple[Declared, ...]:
    """What plain dicts say was declared about columns.

    Examples
    --------
    >>> declared([{"name": "age", "levels": None, "bounds": [0.0, 120.0]}])
    (Declared(name='age', levels=None, bounds=(0.0, 120.0)),)
    """
    return tuple(
        Declared(
            column["name"],
            stored_levels(column["levels"]),
            None if column["bounds"] is None else (float(column["bounds"][0]), float(column["bounds"][1])),
        )
        for column in facts
    )


def stored_levels(levels: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """Levels as a saved result has them: an interval, as ``pandas.cut`` makes them, is a dictionary there.

    Examples
    --------
    >>> stored_levels(["a", {"left": 0.0, "right": 1.0, "closed": "right"}])
    ('a', Interval(0.0, 1.0, closed='right'))
    """
    if levels is None:
        return None
    return tuple(pd.Interval(**level) if isinstance(level, Mapping) else level for level in levels)


def design_facts(design: Predictor | None) -> dict[str, Any] | None:
    """The public facts that new rows are read by; None where there are none to be had."""
    facts = getattr(design, "facts", None)
    return None if facts is None else encoded(facts())
