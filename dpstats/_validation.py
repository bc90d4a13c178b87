"""One table of parameter constraints, one message template.

Every public function passes its parameters through :func:`check`, :func:`one_of` or :func:`fail`; the
messages name the parameter, what is allowed and, if it is a short scalar, the value it got (:func:`shown`).
Of anything larger, such as a column of data that was passed by mistake, they name the type.
"""

import difflib
import math
import numbers
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

from dpstats.errors import FormulaError, ParameterError, SchemaError

__all__ = ["about", "allows", "check", "fail", "is_finite", "one_of", "quoted", "shown", "unknown_in"]

_LONGEST, _MANY = 80, 500


def _no_number(x: object) -> bool:
    """Whether it is an integer by its class alone: a truth value, or a span of NumPy."""
    kind = type(x)
    return kind is bool or (kind.__module__, kind.__name__) == ("numpy", "timedelta64")


def _real(x: Any) -> TypeGuard[float]:
    if _no_number(x) or not isinstance(x, numbers.Real):
        return False
    # an integer beyond the doubles is below infinity
    return not (isinstance(x, numbers.Integral) and abs(int(x)) > sys.float_info.max)


def is_finite(x: object) -> bool:
    """Whether `x` is a real number that a double can hold."""
    try:
        return _real(x) and math.isfinite(x)
    except OverflowError:
        return False


def _int(x: object) -> TypeGuard[int]:
    return isinstance(x, numbers.Integral) and not _no_number(x)


@dataclass(frozen=True)
class _Constraint:
    allowed: str
    ok: Callable[[object], bool]
    to: Callable[[Any], Any]


_CONSTRAINTS = {
    "eps": _Constraint("a positive finite number", lambda x: _real(x) and 0 < x < math.inf, float),
    "delta": _Constraint("a number in [0, 1)", lambda x: _real(x) and 0 <= x < 1, float),
    "positive_delta": _Constraint("a number in (0, 1)", lambda x: _real(x) and 0 < x < 1, float),
    "alpha": _Constraint("a number in (0, 1)", lambda x: _real(x) and 0 < x < 1, float),
    "gamma": _Constraint("a number in (0, 1)", lambda x: _real(x) and 0 < x < 1, float),
    "q": _Constraint("a number in (0, 1)", lambda x: _real(x) and 0 < x < 1, float),
    "seed": _Constraint(
        "None or a non-negative integer",
        lambda x: x is None or (_int(x) and x >= 0),
        lambda x: None if x is None else int(x),
    ),
    "nonnegative": _Constraint(
        "a non-negative finite number", lambda x: _real(x) and 0 <= x < math.inf, float
    ),
    "positive": _Constraint("a positive finite number", lambda x: _real(x) and 0 < x < math.inf, float),
    # in units of a typical row: beyond, squares and products leave the doubles' precision
    "limit": _Constraint("a number from 1e-10 to 1e10", lambda x: _real(x) and 1e-10 <= x <= 1e10, float),
    "count": _Constraint("a positive integer", lambda x: _int(x) and x > 0, int),
    "flag": _Constraint("True or False", lambda x: isinstance(x, bool), bool),
}


def shown(value: object) -> str:
    """What a message may say of a value: itself if it is None, a truth value, a number or a short string, or
    its type.

    Subclasses, whose text may be anything, are named by their type too.

    Examples
    --------
    >>> shown(0.5), shown("median"), shown([1, 2]), shown("x" * 81)
    ('0.5', "'median'", 'list', 'str')
    """
    kind = type(value)
    np = sys.modules.get("numpy")
    if np is not None and kind.__module__ == "numpy" and not _no_number(value):
        value = value.item() if isinstance(value, np.number | np.bool_ | np.str_) else value
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is int and value.bit_length() <= 128:
        return repr(value)
    if type(value) is str and len(value) <= _LONGEST and value.isprintable():
        return repr(value)
    return kind.__name__


def quoted(name: str) -> str:
    """How a message refers to a column or a file by its name; a long text may be data that were passed in its
    place.
    """
    return shown(name) if len(name) <= _LONGEST and name.isprintable() else "of that name"


def unknown_in(spec: str | Sequence[str], known: Sequence[str]) -> str:
    """A parenthesis about the first name in some equations that is not known, or nothing.

    Of a list, which may be a column that was passed by mistake, it says what was meant alone.

    Examples
    --------
    >>> unknown_in("age + regoin = 0", ["age", "region"]), unknown_in(["regoin", "age"], ["age", "region"])
    (" ('regoin' is none of them; did you mean 'region'?)", " (did you mean 'region'?)")
    """
    left = spec if isinstance(spec, str) else " ".join(spec)
    for name in sorted(known, key=len, reverse=True):
        left = left if name.isidentifier() else left.replace(name, " ")
    # names with what is in brackets behind them, but not numbers
    found = re.findall(r"(?<![\w.])[^\W\d][\w.]*(?:[\[(][^\[\]()]*[\])])?", left)
    words = [word for word in found if word not in known]
    if not words or len(words[0]) > _LONGEST:
        return ""
    close = difflib.get_close_matches(words[0], known[:_MANY], 1)
    said = [f"{words[0]!r} is none of them"] * isinstance(spec, str)
    said += [f"did you mean {name!r}?" for name in close]
    return f" ({'; '.join(said)})" if said else ""


def fail(name: str, value: object, allowed: str) -> NoReturn:
    """Raise the one parameter error of the package, which shows no more of `value` than :func:`shown`."""
    raise ParameterError(f"{name} must be {allowed}, got {shown(value)}.") from None


@contextmanager
def about(name: str) -> Iterator[None]:
    """Put the name of a parameter before errors about the columns and the expression that it names.

    Examples
    --------
    >>> with about("unit"):
    ...     raise SchemaError("there is no column 'id'.")
    Traceback (most recent call last):
    ...
    dpstats.errors.SchemaError: unit: there is no column 'id'.
    """
    try:
        yield
    except (FormulaError, SchemaError) as error:
        raise type(error)(f"{name}: {error}") from None


def check(name: str, value: object, kind: str | None = None, *, optional: bool = False) -> Any:
    """Return `value` coerced to what `kind` (default: the parameter's own name) allows.

    Parameters
    ----------
    name : str
        The parameter's name, as the user wrote it.
    value : object
        What was passed.
    kind : str, optional
        A key of the table of constraints; by default `name`.
    optional : bool
        Whether ``None`` is allowed and returned as it is.

    Raises
    ------
    ParameterError
        If the value is not allowed.

    Examples
    --------
    >>> check("eps", 1)
    1.0
    >>> check("models", 0, "count", optional=True)
    Traceback (most recent call last):
    ...
    dpstats.errors.ParameterError: models must be None or a positive integer, got 0.
    """
    if optional and value is None:
        return None
    c = _CONSTRAINTS[kind or name]
    if not c.ok(value):
        fail(name, value, ("None or " if optional else "") + c.allowed)
    return c.to(value)


def allows(value: object, kind: str) -> bool:
    """Whether the table of constraints allows a value: for parts of what an error names as a whole."""
    return _CONSTRAINTS[kind].ok(value)


def one_of(name: str, value: Any, choices: Collection[str]) -> Any:
    """Return `value` if it is one of the strings `choices`, else raise.

    Examples
    --------
    >>> one_of("neighbours", "substitution", ("add-remove", "substitution"))
    'substitution'
    """
    if not isinstance(value, str) or value not in choices:
        fail(name, value, "one of " + ", ".join(repr(c) for c in choices))
    return value
