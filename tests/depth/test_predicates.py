"""Signs against rational arithmetic, on vectors chosen to be degenerate or as nearly so as doubles allow."""

from fractions import Fraction

import numpy as np
import pytest

from dpstats.depth import _predicates as p


def determinant(rows):
    if len(rows) == 1:
        return rows[0][0]
    total = Fraction(0)
    for c, v in enumerate(rows[0]):
        total += (-1) ** c * v * determinant([[x for k, x in enumerate(r) if k != c] for r in rows[1:]])
    return total


def exact_sign(P, z, rows, columns):
    U = [[Fraction(float(P[r, c])) - Fraction(float(z[c])) for c in columns] for r in rows]
    value = determinant(U)
    return (value > 0) - (value < 0)


def nearly_flat(rng, d, kind):
    """Rows whose differences span d - 1 dimensions: exactly on integers, up to rounding otherwise."""
    if kind == "integers":
        return (rng.integers(-9, 10, (6, d - 1)) @ rng.integers(-9, 10, (d - 1, d))).astype(float)
    if kind == "large integers":
        return (rng.integers(-(2**20), 2**20, (6, d - 1)) @ rng.integers(-(2**10), 2**10, (d - 1, d))).astype(
            float
        )
    X = rng.standard_normal((6, d - 1)) @ rng.standard_normal((d - 1, d))
    if kind == "moved":
        X = X + 1e6 * rng.standard_normal(d)
    return X * (1e-9 if kind == "small" else 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["integers", "large integers", "rounded", "moved", "small"])
def test_minors(kind):
    rng = np.random.default_rng(0)
    zeros = 0
    for _ in range(60):
        P = nearly_flat(rng, 2, kind)
        assert p.minor2_sign(P, P[0], 1, 2, 0, 1) == exact_sign(P, P[0], (1, 2), (0, 1))
        assert p.orient2d(P, 1, 2, 0) == exact_sign(P, P[0], (1, 2), (0, 1))
        P = nearly_flat(rng, 3, kind)
        for columns in ((0, 1, 2), (2, 0, 1)):
            s = exact_sign(P, P[0], (1, 2, 3), columns)
            zeros += s == 0
            assert p.minor3_sign(P, P[0], 1, 2, 3, *columns) == s
        P = nearly_flat(rng, 4, kind)
        for columns in ((0, 1, 2, 3), (3, 1, 0, 2)):
            s = exact_sign(P, P[0], (1, 2, 3, 4), columns)
            assert p.minor4_sign(P, P[0], 1, 2, 3, 4, *columns) == s
    assert (zeros > 0) == ("integers" in kind)


def test_a_rounded_determinant_fails_here():
    """A test of the test: the plain formula has wrong signs on the same vectors."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(60):
        P = nearly_flat(rng, 3, "rounded")
        U = P[1:4] - P[0]
        wrong += np.sign(np.linalg.det(U)) != exact_sign(P, P[0], (1, 2, 3), (0, 1, 2))
    assert wrong > 5


def test_residual_signs_are_exact():
    x, y = np.array([[0.1], [0.3]]), np.array([0.1 * 3, 0.3 * 3])
    fit = np.array([0.0, 3.0])
    for i in range(2):
        exact = Fraction(y[i]) - 3 * Fraction(x[i, 0])
        assert p.residual_sign(fit, x, y, i) == (exact > 0) - (exact < 0)
    assert p.residual_sign(np.array([1.0, 2.0]), np.array([[4.0]]), np.array([9.0]), 0) == 0


@pytest.mark.slow
def test_sides_of_intersections():
    """Three lines through two points each, concurrent or nearly so."""
    rng = np.random.default_rng(3)
    kinds = set()
    for trial in range(200):
        P = rng.integers(-4, 5, (6, 2)).astype(float)
        if trial % 2:
            P = P * 0.1 + 0.3
        lines, exact = [], []
        for i, j in ((0, 1), (2, 3), (4, 5 if trial % 3 else -1 - trial % 4)):
            e = np.empty((3, 4))
            n = p.line(P, i, j, e)
            lines.append((e, n))
            exact.append([sum((Fraction(float(v)) for v in row), Fraction(0)) for row in e])
            if j >= 0:
                (a, b), (c, d) = ([Fraction(float(v)) for v in P[k]] for k in (i, j))
                assert exact[-1] == [b - d, c - a, a * d - c * b]
        s = determinant(exact)
        kinds.add((s > 0) - (s < 0))
        assert p.lines_sign(*lines[0], *lines[1], *lines[2]) == (s > 0) - (s < 0)
        out = np.empty(32)
        (a, b, c), (d, e_, f) = exact[:2]
        for which, want in enumerate((b * f - c * e_, c * d - a * f, a * e_ - b * d)):
            m = p.lines_minor2(*lines[0], *lines[1], which, out)
            assert sum((Fraction(float(v)) for v in out[:m]), Fraction(0)) == want
    assert kinds == {-1, 0, 1}
