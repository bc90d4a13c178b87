"""Compiled passes against slow equals, on hostile values; and all of it again with the compiler switched
off."""

import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from dpstats.mechanisms import _kernels
from dpstats.mechanisms.sums import from_whole, units_of

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
ROWS = 3000 if JIT else 120
SPECIAL = (0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 2.0**-100, -(2.0**-100), np.nextafter(2.0**-100, 0), 1.0,
           -1.0, np.nextafter(1.0, 2), 2.0**101, np.nextafter(2.0**101, np.inf), -(2.0**101), 1e308, -1e308,
           1990.0)  # fmt: skip

pytestmark = pytest.mark.filterwarnings("error")


def hostile(seed, columns=3, rows=None):
    """Finite doubles of all sorts: special values, random bits, normal and rounded numbers."""
    generator = np.random.default_rng(seed)
    shape = (rows or ROWS, columns)
    bits = generator.integers(0, 2**64, shape, dtype=np.uint64).view(float)
    bits = np.where(np.isfinite(bits), bits, 0.0)
    choices = [generator.choice(SPECIAL, shape), bits, generator.standard_normal(shape), np.rint(bits % 7)]
    return np.ascontiguousarray(np.choose(generator.integers(0, 4, shape), choices))


def slow_key(x):
    """Signed count of lattice points between 0 and `x`, with the public limits on magnitudes, plus 2^60."""
    low, high = (int(np.float64(v).view(np.int64)) for v in (2.0**-100, 2.0**101))
    magnitude = int(np.float64(abs(x)).view(np.int64))
    steps = min(magnitude, high) - low + 1 if magnitude >= low else 0
    return 2**60 + (-steps if x < 0 else steps)


def columns_of(*index):
    return np.array(index, dtype=np.uint64)


def test_counts_of_all_grids():
    x = hostile(1)
    columns = columns_of(2, 0)
    keys = [[slow_key(v) for v in x[:, c]] for c in (2, 0)]
    top = np.zeros((2, _kernels.GRID_CELLS), np.int64)
    _kernels.count_top(x.view(np.uint64), columns, top)
    for c, column in enumerate(keys):
        np.testing.assert_array_equal(top[c], np.bincount([k >> 48 for k in column], minlength=2**13))
    busiest = top.argmax(axis=1)
    for cell in (busiest, np.array([2**12, 2**12]), np.array([0, 2**13 - 1])):
        low = np.zeros((2, _kernels.GRID_CELLS), np.int64)
        _kernels.count_low(x.view(np.uint64), columns, cell.astype(np.uint64), np.uint64(48), low)
        for c, column in enumerate(keys):
            inside = [(k >> 35) & (2**13 - 1) for k in column if k >> 48 == cell[c]]
            np.testing.assert_array_equal(low[c], np.bincount(np.array(inside, int), minlength=2**13))
        finer = (cell << 13) + low.argmax(axis=1)
        low[:] = 0
        _kernels.count_low(x.view(np.uint64), columns, finer.astype(np.uint64), np.uint64(35), low)
        for c, column in enumerate(keys):
            inside = [(k >> 22) & (2**13 - 1) for k in column if k >> 35 == finer[c]]
            np.testing.assert_array_equal(low[c], np.bincount(np.array(inside, int), minlength=2**13))


def test_keys_keep_the_order_of_numbers():
    x = np.unique(hostile(2))
    hist = np.zeros((1, _kernels.GRID_CELLS), np.int64)
    cells = []
    for value in x[:: max(1, len(x) // 300)]:
        hist[:] = 0
        _kernels.count_top(np.array([[value]]).view(np.uint64), columns_of(0), hist)
        cells.append(int(hist.argmax()))
    assert cells == sorted(cells)
    assert cells[0] >= 0 and cells[-1] < _kernels.GRID_CELLS


@pytest.mark.parametrize("loc", [0.0, 1990.0, -(2.0**101), 1e-310])
def test_counts_of_octaves(loc):
    x = hostile(3)
    for width in (0.0, 1e-3, 2.0**90):
        got = np.zeros((1, _kernels.OCTAVES), np.int64)
        _kernels.count_octaves(x, columns_of(1), np.array([loc]), np.array([width]), got)
        want = np.zeros(_kernels.OCTAVES, int)
        for value in x[:, 1]:
            distance = abs(value - loc)
            if distance > width:
                want[min(max(math.frexp(distance)[1] - 1 + 100, 2), 200) if value else 0] += 1
            elif loc:
                want[1] += 1
        np.testing.assert_array_equal(got[0], want)
        sides = np.zeros((1, 2 * _kernels.OCTAVES), np.int64)
        _kernels.count_octaves(x, columns_of(1), np.array([loc]), np.array([width]), sides)
        np.testing.assert_array_equal(sides[0, : _kernels.OCTAVES] + sides[0, _kernels.OCTAVES :], want)
        assert sides[0, _kernels.OCTAVES :].sum() == np.sum(x[:, 1] - loc > width)


def slow_rows(X, Y, columns, loc, inverse):
    joined = np.clip(np.column_stack([X, Y])[:, columns], -(2.0**101), 2.0**101)
    return (joined - loc) * inverse


def arguments(seed, rows=None):
    generator = np.random.default_rng(seed)
    X, Y = hostile(seed, 4, rows), hostile(seed + 1, 1, rows)
    columns = np.array([3, 0, 4, 1])
    return X, Y, columns, generator.standard_normal(4), np.exp(generator.standard_normal(4)), generator


def test_standardized_rows():
    X, Y, columns, loc, inverse, _ = arguments(4)
    out = np.full((4, 50), np.nan)
    _kernels.standardized(X, Y, 7, 40, columns, loc, inverse, out)
    np.testing.assert_array_equal(out[:, :40].T, slow_rows(X, Y, columns, loc, inverse)[7:47])
    assert np.isnan(out[:, 40:]).all()


@pytest.mark.parametrize("rows", [0, 1, 50, _kernels.TILE - 1, _kernels.TILE, 2 * _kernels.TILE + 5])
def test_clipped_gram(rows):
    rows = rows if JIT else min(rows, 150)
    X, Y, columns, loc, inverse, generator = arguments(5, max(rows, 1))
    X, Y = X[:rows], np.column_stack([Y[:rows], np.abs(hostile(7, 1, max(rows, 1)))[:rows]])
    W = generator.standard_normal((4, 3))
    for radius2, weight in itertools.product((1e-3, 10.0, 1e60), ((-1, 1.0), (1, 3.0))):
        gram, units = np.zeros((2, 3, 3), np.int64), units_of(radius2)
        _kernels.clipped_gram(X, Y, columns, loc, inverse, *weight, W, radius2, units, gram)
        gram = from_whole(gram, units)
        v = slow_rows(X, Y, columns, loc, inverse) @ W
        if weight[0] > 0:
            v *= np.minimum(Y[:, 1], 2.0**101)[:, None] / 3
        norm2 = (v**2).sum(axis=1)
        v *= np.sqrt(np.minimum(1.0, radius2 / np.maximum(norm2, 1e-200)))[:, None]
        np.testing.assert_allclose(gram, v.T @ v, rtol=1e-10, atol=1e-10 * max(rows, 1) * radius2)
        assert np.trace(gram) <= rows * radius2 * (1 + 1e-12)


def test_rows_whose_norm_overflows_have_no_weight():
    """The sum stays finite whatever the rows: a NaN in it would tell of one row."""
    X, Y = np.array([[1.0], [2.0**101], [-1.0]]), np.zeros((3, 1))
    for inverse, w in ((1.0, 1e200), (1e300, 1e300), (np.inf, 1.0)):
        gram, units = np.zeros((2, 1, 1), np.int64), units_of(4.0)
        columns = np.array([0])
        with np.errstate(all="ignore"):
            _kernels.clipped_gram(
                X,
                Y,
                columns,
                np.array([1.0]),
                np.array([inverse]),
                -1,
                1.0,
                np.array([[w]]),
                4.0,
                units,
                gram,
            )
        assert 0 <= from_whole(gram, units) <= 12


def test_octaves_of_squares():
    values = [2.0**-100, 1.0, np.nextafter(1.0, 0.0), np.nextafter(2.0, 0.0), 2.0, 3e7, 2.0**100, 2.0**101]
    values += [1e308, 1e-300, 5e-324]
    for value in values:
        cell = _kernels.octave(np.float64(value).view(np.int64))
        assert cell == min(max(math.frexp(value)[1] + 99, 0), 200)
    ends = [0.0, np.inf, np.nan, -np.nan]
    assert [_kernels.octave(np.float64(value).view(np.int64)) for value in ends] == [0, 200, 200, 200]


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="this is the run without the compiler")
def test_the_same_without_the_compiler():
    """What is compiled is ordinary Python: no wrap-around, no index out of range that the compiler hides."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stdout[-2000:]
