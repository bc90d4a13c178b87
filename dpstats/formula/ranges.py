"""Interval arithmetic: which values can an expression take, given public ranges of its columns?

An interval is a pair ``(lo, hi)`` of extended reals that contains every *finite* value the expression can
take. ``(-inf, inf)`` says that nothing is known. Rounding is not accounted for here: whoever relies on an
interval also moves the computed values into it (:mod:`dpstats.formula.design` does).
"""

import math
from collections.abc import Callable

Interval = tuple[float, float]

ANYTHING: Interval = (-math.inf, math.inf)
TRUTH: Interval = (0.0, 1.0)


def add(a: Interval, b: Interval) -> Interval:
    return _ordered(a[0] + b[0], a[1] + b[1])


def subtract(a: Interval, b: Interval) -> Interval:
    return _ordered(a[0] - b[1], a[1] - b[0])


def multiply(a: Interval, b: Interval) -> Interval:
    # 0 times an unbounded factor is 0: the values themselves are finite.
    products = [0.0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(products), max(products)


def divide(a: Interval, b: Interval) -> Interval:
    if b[0] <= 0 <= b[1]:
        return ANYTHING
    quotients = [0.0 if math.isinf(y) else x / y for x in a for y in b]
    return min(quotients), max(quotients)


def floor_divide(a: Interval, b: Interval) -> Interval:
    # x // y is the floor of the exact quotient, which can be one less than the floor of the rounded one.
    lo, hi = floor(divide(a, b))
    return lo - 1.0, hi


def remainder(a: Interval, b: Interval) -> Interval:
    # The sign of the divisor, and a rounded result may equal the divisor.
    return (min(b[0], 0.0), max(b[1], 0.0))


def negative(a: Interval) -> Interval:
    return -a[1], -a[0]


def power(a: Interval, b: Interval) -> Interval:
    if b[0] != b[1]:
        return exponential(b, math.log(a[0])) if a[0] == a[1] and a[0] > 0 else ANYTHING
    p = b[0]
    if p < 0:
        return divide((1.0, 1.0), power(a, (-p, -p)))
    if p == 0:
        return 1.0, 1.0
    if p == int(p):
        lower, upper = sorted((_pow(a[0], p), _pow(a[1], p)))
        return 0.0 if p % 2 == 0 and a[0] <= 0 <= a[1] else lower, upper
    a = within(a, 0.0, math.inf)
    return _pow(a[0], p), _pow(a[1], p)


def exponential(a: Interval, rate: float = 1.0) -> Interval:
    """Return the range of ``exp(rate * x)``."""
    ends = multiply(a, (rate, rate))
    return _exp(ends[0]), _exp(ends[1])


def absolute(a: Interval) -> Interval:
    lo, hi = abs(a[0]), abs(a[1])
    return (0.0 if a[0] <= 0 <= a[1] else min(lo, hi)), max(lo, hi)


def minimum(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), min(a[1], b[1])


def maximum(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), max(a[1], b[1])


def clip(a: Interval, lo: Interval, hi: Interval) -> Interval:
    return minimum(maximum(a, lo), hi)


def where(condition: Interval, a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def floor(a: Interval) -> Interval:
    lo, hi = (x if math.isinf(x) else float(math.floor(x)) for x in a)
    return lo, hi


def ceil(a: Interval) -> Interval:
    lo, hi = (x if math.isinf(x) else float(math.ceil(x)) for x in a)
    return lo, hi


def within(a: Interval, lo: float, hi: float) -> Interval:
    """Return the part of `a` in ``[lo, hi]``, or `ANYTHING` where there is none."""
    a = max(a[0], lo), min(a[1], hi)
    return a if a[0] <= a[1] else (lo, hi)


def constant(lo: float, hi: float) -> Callable[..., Interval]:
    """Return the interval function of an `f` whose range is ``[lo, hi]``."""
    return lambda *args: (lo, hi)


def known(a: Interval) -> Interval | None:
    """Return `a` as a pair of floats, or None where an end is not finite."""
    return (float(a[0]), float(a[1])) if math.isfinite(a[0]) and math.isfinite(a[1]) else None


def _ordered(lo: float, hi: float) -> Interval:
    # inf - inf says that nothing is known about that end.
    return (-math.inf if math.isnan(lo) else lo), (math.inf if math.isnan(hi) else hi)


def _pow(x: float, p: float) -> float:
    try:
        return math.pow(x, p)
    except OverflowError:
        return -math.inf if x < 0 and p % 2 == 1 else math.inf


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf
