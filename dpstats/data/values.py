"""How a single value is read: as a number, and as one of declared levels.

Both are total functions of the value, so that no other row has a say: they raise nothing, and they do not ask
how the value is stored. 3, 3.0, ``np.int8(3)``, ``Decimal("3")`` and the text ``"3"`` are one number; True
and the text ``true``, in letters of either case, are 1. A text is first what it says: it is a level if it
equals one letter by letter, and only otherwise a number. Whole numbers are compared exactly, also beyond
2**53.
"""

import math
import numbers as abstract
import pickle
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["NOT_OURS", "exact", "number_codes", "object_codes", "parse_numbers", "plain", "recode", "stored"]

NOT_OURS = KeyboardInterrupt
"""What a user raises, and no value: all else that its methods raise is a fact about a row."""

# in letters of any case, as pandas has it where it guesses the type of a column of a CSV file
_TRUTH = {"true": 1, "false": 0}
_LARGEST = sys.float_info.max
# values of these kinds can be written down, whatever they are
_PLAIN = {str, bytes, int, float, bool, complex, Decimal, Fraction, type(None), type(pd.NA), type(pd.NaT)}


def exact(value: Any) -> int | float | None:
    """Return the number that a value is: an int if whole, else the nearest float; None if it is none."""
    # A time difference is an integer to NumPy.
    if isinstance(value, np.timedelta64):
        return None
    if isinstance(value, int | np.integer | np.bool_):
        return int(value)
    if isinstance(value, str):
        return _exact_text(value)
    if isinstance(value, complex | np.complexfloating):
        if value.imag != 0:
            return None
        value = value.real
    if isinstance(value, np.floating):
        # (A long double may be whole and no double.)
        value = float(value)
    if not isinstance(value, float | Decimal | Fraction):
        return None
    number = float(value)
    # (A whole Decimal beyond the range of floats may have more digits than memory.)
    return int(value) if math.isfinite(number) and value == int(value) else number


def _exact_text(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return _TRUTH.get(text.lower())
    return int(number) if number.is_integer() else number


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    try:
        if type(value) is str and value.lower() not in _TRUTH:
            return float(value)
        number = exact(value)
        return math.nan if number is None else float(number)
    except NOT_OURS:
        raise
    except BaseException:
        # a text that is no number; an integer beyond all floats; a class whose methods raise
        return math.nan


def _code(value: Any, table: Mapping[Any, int]) -> int:
    try:
        if isinstance(value, str) and value in table:
            return table[value]
        if isinstance(value, np.timedelta64):
            # before version 2, NumPy has one equal a number
            return next((c for x, c in table.items() if isinstance(x, np.timedelta64) and x == value), -1)
        number = exact(value)
        return table.get(value if number is None else number, -1)
    except NOT_OURS:
        raise
    except BaseException:
        # what cannot be compared is no level; the reason is a fact about a row
        return -1


def parse_numbers(values: Sequence[Any]) -> np.ndarray:
    """Return a sequence of Python objects as float64, NaN where one is no number."""
    return np.fromiter((_number(v) for v in values), np.float64, len(values))


def plain(values: Iterable[Any], kinds: Set[type] = _PLAIN) -> bool:
    """Whether all values are of some kinds, by default those that can be pickled, whatever they are."""
    try:
        return set(map(type, values)) <= kinds
    except NOT_OURS:
        raise
    except BaseException:
        # (of a class whose class has no hash)
        return False


def stored(values: np.ndarray) -> np.ndarray:
    """Return what an array of Python objects is pickled as: None for one that cannot be, or is another then.

    The objects are back when it is unpickled. Each is pickled once, and by itself: whether that works may
    depend on how often it is tried, and on what it lies in.
    """
    return values if plain(values) else np.fromiter((_stored(v) for v in values), object, len(values))


def _stored(value: Any) -> Any:
    try:
        if type(value) in _PLAIN:
            return value
        pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        return _Pickled(pickled) if type(pickle.loads(pickled)) is type(value) else None
    except NOT_OURS:
        raise
    except BaseException:
        return None


class _Pickled:
    """An object as bytes, which is itself when it has been pickled."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._pickled,)


def _unpickled(pickled: bytes) -> Any:
    try:
        return pickle.loads(pickled)
    except NOT_OURS:
        raise
    except BaseException:
        return None


def object_codes(values: Sequence[Any], levels: Sequence[Any]) -> np.ndarray:
    """Return the positions of Python objects among the levels, -1 where one is none."""
    table = {level: code for code, level in enumerate(levels)}
    known: dict[str, int] = {}
    if not all(type(level) is str for level in levels):
        return np.fromiter((_known_code(v, table, known) for v in values), np.int64, len(values))
    # nothing but a text equals a text
    texts = values if plain(values) else [v if issubclass(type(v), str) else None for v in values]
    try:
        return np.fromiter((table.get(v, -1) for v in texts), np.int64, len(texts))
    except NOT_OURS:
        raise
    except BaseException:
        # one cannot be compared: all are looked up with care
        return np.fromiter((_known_code(v, table, known) for v in texts), np.int64, len(texts))


def _known_code(value: Any, table: Mapping[Any, int], known: dict[Any, int]) -> int:
    """Return the code of a value; those of texts are kept, since it takes a while to make a number of one."""
    if type(value) is not str:
        return _code(value, table)
    if value not in known:
        known[value] = _code(value, table)
    return known[value]


def number_codes(values: np.ndarray, levels: Sequence[Any]) -> np.ndarray:
    """Return the same positions for an array of integers, floats or truth values."""
    if values.dtype.kind == "f":
        values = values.astype(np.float64, copy=False)
    dtype, same = {"i": (np.int64, _as_integer), "f": (np.float64, _as_float)}.get(
        values.dtype.kind, (np.uint64, _as_natural)
    )
    keys = {same(level): code for code, level in enumerate(levels) if isinstance(level, abstract.Real)}
    keys.pop(None, None)
    found = pd.Index(np.array(list(keys), dtype)).get_indexer(values.astype(dtype, copy=False))
    return np.array([*keys.values(), -1], np.int64)[found]


def _as_integer(level: Any) -> int | None:
    return int(level) if -(2**63) <= level < 2**63 and level == int(level) else None


def _as_natural(level: Any) -> int | None:
    return int(level) if 0 <= level < 2**64 and level == int(level) else None


def _as_float(level: Any) -> float | None:
    return float(level) if -_LARGEST <= level <= _LARGEST and level == float(level) else None


def recode(codes: np.ndarray, categories: Sequence[Any], levels: Sequence[Any]) -> np.ndarray:
    """Return codes of `categories` (-1: missing) as codes of `levels`."""
    return np.append(object_codes(categories, levels), -1)[codes]
