"""Interval arithmetic contains every finite value."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpstats.formula import ranges as iv
from dpstats.formula.grammar import _BINARY, FUNCTIONS

INF = math.inf
ENDS = st.sampled_from(
    [-INF, -1e300, -7.5, -2.0, -1.0, -0.3, 0.0, 1e-300, 0.5, 1.0, 2.0, 3.0, 800.0, 1e300, INF]
)
INTERVALS = (
    st.tuples(ENDS, ENDS)
    .map(lambda ends: tuple(sorted(ends)))
    .filter(lambda e: e not in [(INF, INF), (-INF, -INF)])
)
SHARES = st.floats(0, 1)


def inside(interval, share):
    """Return a point of an interval."""
    lo, hi = (max(min(end, 1e306), -1e306) for end in interval)
    return min(max(lo + share * (hi - lo), lo), hi)


def contains(interval, value):
    lo, hi = interval
    slack = 1e-9 * abs(value)
    return lo - slack <= value <= hi + slack


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data())
def test_functions_stay_in_their_intervals(name, data):
    function = FUNCTIONS[name]
    intervals = data.draw(st.tuples(*[INTERVALS] * len(function.parameters)))
    points = [inside(i, data.draw(SHARES)) for i in intervals]
    with np.errstate(all="ignore"):
        value = function.apply(*map(np.float64, points))
    assert not np.isfinite(value) or contains(function.interval(*intervals), value)


@pytest.mark.slow
@pytest.mark.parametrize("operator", _BINARY, ids=lambda o: o.__name__)
@given(data=st.data())
def test_operators_stay_in_their_intervals(operator, data):
    function = _BINARY[operator]
    a, b = data.draw(st.tuples(INTERVALS, INTERVALS))
    if data.draw(st.booleans()):
        b = (inside(b, data.draw(SHARES)),) * 2
    elif data.draw(st.booleans()):
        a = (inside(a, data.draw(SHARES)),) * 2
    x, y = inside(a, data.draw(SHARES)), inside(b, data.draw(SHARES))
    with np.errstate(all="ignore"):
        value = function.apply(np.float64(x), np.float64(y))
    assert not np.isfinite(value) or contains(function.interval(a, b), value)


@pytest.mark.parametrize(
    "got, expected",
    [
        (iv.add((0, 1), (2, 5)), (2, 6)),
        (iv.subtract((0, 1), (2, 5)), (-5, -1)),
        (iv.multiply((-2, 3), (-1, 4)), (-8, 12)),
        (iv.multiply((0, 0), iv.ANYTHING), (0, 0)),
        (iv.divide((1, 2), (4, 8)), (0.125, 0.5)),
        (iv.divide((1, 2), (-1, 1)), iv.ANYTHING),
        (iv.power((-3, 2), (2, 2)), (0, 9)),
        (iv.power((-3, 2), (3, 3)), (-27, 8)),
        (iv.power((1, 4), (0.5, 0.5)), (1, 2)),
        (iv.power((2, 4), (-1, -1)), (0.25, 0.5)),
        (iv.absolute((-3, 2)), (0, 3)),
        (iv.clip(iv.ANYTHING, (0, 0), (1, 1)), (0, 1)),
        (FUNCTIONS["log"].interval((1, math.e)), (0, 1)),
        (FUNCTIONS["log"].interval((0, 1)), (-INF, 0)),
        (FUNCTIONS["sqrt"].interval((-1, 4)), (0, 2)),
        (FUNCTIONS["exp"].interval((0, 1e6)), (1, INF)),
    ],
)
def test_known_values(got, expected):
    assert got == pytest.approx(expected)


def test_known_needs_both_ends():
    assert iv.known((0, 1)) == (0.0, 1.0)
    assert iv.known((0, INF)) is None
