"""The exact order of directions, against rational slopes after a rational projection."""

from fractions import Fraction

import numpy as np
import pytest

from dpstats.depth import _order


def rational_slopes(P, z, pivots, frame):
    """Slopes of the vectors projected along the pivots, by elimination of the columns in `frame`."""
    U = [[Fraction(float(a)) - Fraction(float(b)) for a, b in zip(row, z, strict=True)] for row in P]
    k, l, c1, c2, _ = frame
    columns = [k, l][: len(pivots)]
    for p, c in zip(pivots, columns, strict=True):
        base = U[p]
        U = [[a - row[c] / base[c] * b for a, b in zip(row, base, strict=True)] for row in U]
    return [(row[c1], row[c2]) for row in U]


def sample(rng, n, d, kind):
    if kind == "normal":
        return rng.standard_normal((n, d))
    if kind == "grid":
        return rng.integers(-3, 4, (n, d)).astype(float)
    flat = rng.integers(-9, 10, (n, max(1, d - 1))) @ rng.integers(-9, 10, (max(1, d - 1), d))
    return flat * 0.1 + 0.7  # all projected slopes equal up to rounding


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "grid", "nearly flat"])
@pytest.mark.parametrize("d", [2, 3, 4])
def test_order(d, kind):
    rng = np.random.default_rng(d)
    for n in (6, 60):
        P = sample(rng, n, d, kind)
        z = P[-1].copy() if kind == "grid" else P.mean(axis=0)
        pivots = [0, 1][: d - 2]
        ws = _order.workspace(n)
        m, n_vertical, n_zero = _order.order(P, z, *(pivots + [None, None])[:2], ws)
        if m < 0:
            continue
        frame = _order.project(P, z, *(pivots + [None, None])[:2], _order.workspace(n))
        exact = rational_slopes(P, z, pivots, frame)
        chosen = ws[4][0, :m].tolist()
        assert sorted([*chosen, *ws[6][:n_vertical].tolist(), *ws[7][:n_zero].tolist()]) == list(range(n))
        assert all(exact[a] == (0, 0) for a in ws[7][:n_zero])
        assert all(exact[a][0] == 0 != exact[a][1] for a in ws[6][:n_vertical])
        slopes = [exact[a][1] / exact[a][0] for a in chosen]
        assert slopes == sorted(slopes)
        assert ws[5][1:m].tolist() == [s == t for s, t in zip(slopes[:-1], slopes[1:], strict=True)]
        sign = 1 if d < 4 else np.sign(ws[0][0, chosen[0]] * float(exact[chosen[0]][0]))
        assert all((ws[0][0, a] > 0) == (sign * exact[a][0] > 0) for a in chosen)


@pytest.mark.slow
def test_sorting_from_any_start():
    """The comparison sort, and the order from it when rounded slopes are no help at all."""
    rng = np.random.default_rng(0)
    P = sample(rng, 80, 3, "nearly flat")
    z = P.mean(axis=0)
    ws = _order.workspace(80)
    m, _, _ = _order.order(P, z, 0, None, ws)
    frame = _order.project(P, z, 0, None, ws)
    exact = rational_slopes(P, z, [0], frame)
    idx = ws[4].copy()
    idx[0, :m] = rng.permutation(idx[0, :m])
    _order._merge_sort(idx, m, ws[0], P, z, 0, None, frame)
    slopes = [exact[a][1] / exact[a][0] for a in idx[0, :m].tolist()]
    assert slopes == sorted(slopes)


def test_radix_and_insertion_sort():
    rng = np.random.default_rng(1)
    for n in (1, 2, 30, 500):
        for slopes in (
            rng.standard_normal(n),
            rng.integers(-3, 4, n) + 0.0,
            np.full(n, -2.5),
            10.0 ** rng.uniform(-200, 200, n),
        ):
            idx = np.empty((2, n), np.int32)
            for sort in (
                lambda s, n, idx: _order._radix(s, n, np.empty((2, n), np.uint64), idx),
                _order._insertion,
            ):
                idx[0] = np.arange(n)
                sort(slopes.copy(), n, idx)
                assert idx[0].tolist() == np.argsort(slopes, kind="stable").tolist()
