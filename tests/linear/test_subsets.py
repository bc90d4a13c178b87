"""Least squares on random subsets: against NumPy's solver, and never anything but a finite number."""

import math

import numpy as np
import pytest

from dpstats.formula.units import UnitBlocks, Units
from dpstats.linear import subset_kernels as _kernels
from dpstats.linear import subsets as _subsets
from dpstats.linear.subsets import fit_subsets, subset_moments
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.whiten import Affine

pytestmark = pytest.mark.filterwarnings("error")


class Assigned(Randomness):
    """A source of randomness whose subsets are given."""

    def __init__(self, subsets):
        super().__init__(seed=0)
        self._left = np.asarray(subsets, dtype=np.int32)

    def integers(self, high, size):
        drawn, self._left = self._left[:size], self._left[size:]
        return drawn


def affine(q):
    return Affine(np.arange(1, q + 1), np.linspace(-1, 1, q), np.linspace(0.5, 3, q))


def data(n, q, seed, offset=0.0, intercept=True):
    """Rows with a leading constant, their standardised coordinates, and a response."""
    generator = np.random.default_rng(seed)
    X = np.hstack([np.ones((n, 1)), affine(q).loc + 2 * generator.standard_normal((n, q))])
    Z = (X[:, 1:] - affine(q).loc) / affine(q).scale
    if intercept:
        Z = np.hstack([np.ones((n, 1)), Z])
    y = Z @ generator.standard_normal(Z.shape[1]) + generator.standard_normal(n) + offset * intercept
    return X, y[:, None], Z


def fits(X, Y, subsets, m, W, intercept=True, penalty=None, origin=None, centre=True, blocks=None, groups=1):
    """Fits on subsets, or with `groups` of them: `subsets` are then cells."""
    q = X.shape[1] - 1
    d = len(W)
    shift, moments = subset_moments(blocks or [(X, Y)], affine(q), m, Assigned(subsets), groups)
    penalty = np.zeros((d, d)) if penalty is None else penalty
    return fit_subsets(
        shift, moments, W, intercept, penalty, np.zeros(d) if origin is None else origin, centre
    )


def whitening(d, seed=3):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0] @ np.diag(
        np.linspace(0.5, 2, d)
    )


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_every_subset_has_its_least_squares_fit(intercept, offset):
    n, q, m = 3000, 4, 30
    X, Y, Z = data(n, q, 1, offset, intercept)
    subsets = np.random.default_rng(2).integers(0, m, n)
    W = whitening(Z.shape[1])
    got = fits(X, Y, subsets, m, W, intercept)
    for s in range(m):
        z, y = Z[subsets == s], Y[subsets == s, 0]
        want = np.linalg.lstsq(z, y - offset * intercept, rcond=None)[0]
        want[0] += offset * intercept
        np.testing.assert_allclose(W @ got.coefficients[s], want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_standard_errors_are_those_of_the_jackknife_over_groups(intercept):
    n, q, m, groups = 3000, 3, 6, 4
    X, Y, Z = data(n, q, 31, 0.0, intercept)
    cells = np.random.default_rng(32).integers(0, m * groups, n)
    W = whitening(Z.shape[1])
    got = fits(X, Y, cells, m, W, intercept, groups=groups)
    for s in range(m):
        left = []
        for g in range(groups):
            rows = (cells // groups == s) & (cells % groups != g)
            left.append(np.linalg.solve(W, np.linalg.lstsq(Z[rows], Y[rows, 0], rcond=None)[0]))
        squares = (groups - 1) / groups * np.sum((left - np.mean(left, axis=0)) ** 2, axis=0)
        np.testing.assert_allclose(got.log_errors[s], np.log(squares) / 2, rtol=1e-5)
        rows = cells // groups == s
        whole = np.linalg.solve(W, np.linalg.lstsq(Z[rows], Y[rows, 0], rcond=None)[0])
        np.testing.assert_allclose(got.coefficients[s], whole, rtol=1e-6, atol=1e-6)


def test_standard_errors_hold_where_errors_scale_with_a_column():
    """Their root mean square is the spread of the fits: within 10 %, ten standard errors of it."""
    generator = np.random.default_rng(33)
    n, m, groups = 400_000, 2000, 4
    x = generator.standard_normal(n)
    y = x + np.abs(x) * generator.standard_normal(n)
    X, Y = np.column_stack([np.ones(n), x]), y[:, None]
    shift, moments = subset_moments(
        [(X, Y)], Affine(np.array([1]), np.zeros(1), np.ones(1)), m, Randomness(34), groups
    )
    got = fit_subsets(shift, moments, np.eye(2), True, np.zeros((2, 2)), np.zeros(2))
    spread = got.coefficients.std(axis=0)
    assert spread[1] > 1.6 * spread[0]
    np.testing.assert_allclose(np.sqrt(np.mean(np.exp(2 * got.log_errors), axis=0)), spread, rtol=0.1)


@pytest.mark.parametrize("intercept", [True, False])
def test_coefficients_are_relative_to_the_origin(intercept):
    X, Y, Z = data(2000, 3, 4, 1e6, intercept)
    subsets = np.random.default_rng(5).integers(0, 10, 2000)
    W = whitening(Z.shape[1])
    origin = np.linalg.lstsq(Z, Y[:, 0], rcond=None)[0] + 0.1
    for centre in (True, False):
        got = fits(X, Y, subsets, 10, W, intercept, origin=origin, centre=centre)
        for s in range(10):
            want = np.linalg.lstsq(Z[subsets == s], Y[subsets == s, 0], rcond=None)[0]
            np.testing.assert_allclose(origin + W @ got.coefficients[s], want, rtol=1e-6, atol=1e-6)


def test_a_subset_without_a_row_of_a_column_keeps_to_an_origin_of_its_own():
    """Its constant is that of its rows; the column's coefficient is about the origin, and not all that the
    constant is off the origin over how little the coordinates are turned: 50 times that."""
    g = np.random.default_rng(41)
    m, n = 200, 20_000
    subsets = g.integers(0, m, n)
    x = ((g.random(n) < 0.05) & (subsets % 2 == 0)) * 1.0
    y = 0.3 + 2 * x + g.standard_normal(n)
    X, Y = np.column_stack([np.ones(n), x]), y[:, None]
    shift, moments = subset_moments(
        [(X, Y)], Affine(np.array([1]), np.zeros(1), np.ones(1)), m, Assigned(subsets), 1
    )
    W = np.array([[1.0, -0.02], [-0.02, 5.0]])
    without = np.arange(m) % 2 == 1
    means = np.array([y[subsets == s].mean() for s in np.flatnonzero(without)])
    given = shift, moments, W, True, np.zeros((2, 2)), np.array([0.0, 2.0])
    magnified = np.abs(fit_subsets(*given).coefficients[without, 1])
    assert np.median(magnified) > 4
    fits = fit_subsets(*given, usual=0.1).coefficients
    along = W.T @ np.linalg.solve(W @ W.T, [0, 1.0])
    along /= np.linalg.norm(along)
    np.testing.assert_allclose((fits @ W.T)[without, 0], means, atol=1e-5)
    # what no row tells has the standard deviation 0.1, and the other subsets are as they were
    assert 0.07 < np.std(fits[without] @ along) < 0.14
    np.testing.assert_allclose(fits[~without], fit_subsets(*given).coefficients[~without], atol=1e-5)


def test_the_penalty_pulls_towards_the_origin():
    X, Y, Z = data(800, 3, 6)
    subsets = np.random.default_rng(7).integers(0, 8, 800)
    generator = np.random.default_rng(8)
    origin, root = generator.standard_normal(4), generator.standard_normal((4, 2))
    penalty, W = 50 * root @ root.T, whitening(4)
    got = fits(X, Y, subsets, 8, W, penalty=penalty, origin=origin, centre=False)
    for s in range(8):
        z, y = Z[subsets == s], Y[subsets == s, 0]
        want = np.linalg.solve(z.T @ z + penalty, z.T @ (y - z @ origin))
        np.testing.assert_allclose(W @ got.coefficients[s], want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("sizes", [[1, 0, 699], [100] * 7, [350, 350]])
def test_blocks_and_threads_change_not_a_bit(sizes, monkeypatch):
    X, Y, Z = data(700, 3, 9, offset=1e8)
    subsets = np.random.default_rng(10).integers(0, 12, 700)
    whole = fits(X, Y, subsets, 4, whitening(4), groups=3)
    ends = np.cumsum(sizes)
    blocks = [(X[b - s : b], Y[b - s : b]) for s, b in zip(sizes, ends, strict=True)]
    for workers in (1, 3, 50):
        monkeypatch.setattr(_subsets, "_LEAST_ROWS", 20)
        monkeypatch.setattr(_subsets, "WORKERS", workers)
        cut = fits(X, Y, subsets, 4, whitening(4), blocks=blocks, groups=3)
        for field in ("coefficients", "log_errors"):
            np.testing.assert_array_equal(getattr(cut, field), getattr(whole, field))


def test_seeded_partition_does_not_depend_on_the_blocks():
    X, Y, _ = data(500, 2, 11)
    whole = subset_moments([(X, Y)], affine(2), 7, Randomness(1))
    cut = subset_moments(
        [(X[:123], Y[:123]), (X[123:123], Y[123:123]), (X[123:], Y[123:])], affine(2), 7, Randomness(1)
    )
    for a, b in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(a, b)


def test_system_partition_is_uniform_and_keeps_every_row():
    X, Y, _ = data(4000, 2, 12)
    _, moments = subset_moments([(X, Y)], affine(2), 5, Randomness())
    counts = moments[:, 0, 0]
    assert counts.sum() == 4000
    # false-alarm rate below 1e-6
    assert (abs(counts - 800) < 5.2 * math.sqrt(4000 * 0.16)).all()


def neighbours(relation):
    X, Y, _ = data(600, 3, 13, offset=50.0)
    subsets = np.random.default_rng(14).integers(0, 20, 600)
    # near the end, where pieces of a fixed share of the rows would move by one row
    at = 590
    if relation == "add-remove":
        other = np.delete(X, at, 0), np.delete(Y, at, 0), np.delete(subsets, at)
    else:
        changed, response = X.copy(), Y.copy()
        changed[at, 1:], response[at] = 1e9, -1e9
        other = changed, response, subsets
    return (X, Y, subsets), other, subsets[at]


@pytest.mark.parametrize("relation", ["add-remove", "substitution"])
@pytest.mark.parametrize("workers", [1, 4])
def test_neighbours_change_one_model_and_no_other_by_a_single_bit(relation, workers, monkeypatch):
    """With the subsets of the other rows as they were. A model may depend on its own rows only."""
    monkeypatch.setattr(_subsets, "_LEAST_ROWS", 20)
    monkeypatch.setattr(_subsets, "WORKERS", workers)
    one, two, touched = neighbours(relation)
    for groups in (1, 4):
        a, b = (
            fits(*rows, 20 // groups, whitening(4), origin=np.full(4, 0.3), groups=groups)
            for rows in (one, two)
        )
        rows_a, rows_b = (np.hstack([f.coefficients, f.log_errors]) for f in (a, b))
        changed = np.flatnonzero((rows_a != rows_b).any(axis=1))
        assert changed.tolist() == [touched // groups]


def test_empty_subsets_are_at_the_origin_or_at_zero():
    X, Y, _ = data(5, 2, 15)
    origin, W = np.array([1.0, 2.0, 3.0]), whitening(3)
    root = np.array([[1.0], [1.0], [1.0]])
    for penalty in (np.zeros((3, 3)), root @ root.T, np.diag([0.0, 0.0, 1e-3])):
        # a rank-one penalty and nothing else once made the solver fail, which told of an empty subset
        got = fits(X, Y, [0] * 5, 3, np.eye(3), penalty=penalty, origin=origin, centre=False)
        np.testing.assert_array_equal(got.coefficients[1:], 0.0)
        assert (fits(X, Y, [0] * 5, 3, np.eye(3), penalty=penalty, groups=4).log_errors[1:] == -300).all()
        got = fits(X, Y, [0] * 5, 3, W, penalty=penalty, origin=origin)
        np.testing.assert_allclose(origin + got.coefficients[1:] @ W.T, 0.0, atol=1e-12)
    none = fits(X[:0], Y[:0], [], 3, W)
    assert np.isfinite(none.coefficients).all()


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_fewer_rows_than_coefficients_fit_them_and_keep_the_rest(rows):
    X, Y, Z = data(rows, 3, 16)
    origin = np.array([0.5, -1.0, 2.0, 0.0])
    got = fits(X, Y, [0] * rows, 1, np.eye(4), origin=origin, centre=False)
    beta = origin + got.coefficients[0]
    np.testing.assert_allclose(Z @ beta, Y[:, 0], rtol=1e-4)
    # what the rows do not see is not moved: the step lies in the span of the rows, in units of the columns
    units = np.sqrt(np.sum(Z**2, axis=0))
    step = got.coefficients[0] * units
    outside = step - np.linalg.pinv(Z / units) @ (Z / units @ step)
    assert np.linalg.norm(outside) < 1e-5 * np.linalg.norm(step)


def test_a_level_that_a_subset_lacks_keeps_its_coefficient_of_the_origin():
    generator = np.random.default_rng(17)
    X = np.hstack([np.ones((200, 1)), generator.standard_normal((200, 2))])
    X[:100, 2] = affine(2).loc[1]
    Y = 3 + X[:, 1:2] + generator.standard_normal((200, 1))
    origin = np.array([3.0, 0.4, 9.0])
    got = fits(X, Y, [0] * 100 + [1] * 100, 2, np.eye(3), origin=origin, centre=False)
    assert got.coefficients[0, 2] == pytest.approx(0, abs=1e-9)
    assert abs(got.coefficients[1, 2]) > 1


@pytest.mark.parametrize("seed", range(12))
def test_hostile_rows_give_finite_models(seed):
    generator = np.random.default_rng(seed)
    n, q, m = int(generator.integers(1, 60)), 3, 6
    values = [0.0, -0.0, 1.0, 5e-324, 1e-300, 1e154, 1e308, -1e308, 2.0**101]
    X = np.hstack([np.ones((n, 1)), generator.choice(values, (n, q))])
    Y = generator.choice(values, (n, 1))
    subsets = generator.integers(0, m, n)
    for intercept in (True, False):
        d = q + intercept
        for penalty in (np.zeros((d, d)), 1e-3 * np.ones((d, d)), 1e200 * np.eye(d)):
            for centre in (True, False):
                given = (whitening(d), intercept, penalty, np.full(d, 1e6), centre)
                for groups in (1, 3):
                    got = fits(X, Y, subsets, m // groups, *given, groups=groups)
                    assert np.isfinite(got.coefficients).all()
                    assert (abs(got.log_errors) <= 300).all()


def test_constant_responses_are_fitted_by_the_intercept():
    X, _, _ = data(50, 2, 18)
    got = fits(X, np.full((50, 1), 7.0), [0] * 50, 1, np.eye(3))
    np.testing.assert_allclose(got.coefficients[0], [7, 0, 0], atol=1e-9)


def test_definite_solver_against_numpy_and_on_singular_matrices():
    generator = np.random.default_rng(19)
    roots = generator.standard_normal((20, 5, 5))
    A, b = roots @ roots.transpose(0, 2, 1), generator.standard_normal((20, 5))
    x = b.copy()
    _kernels.solve_definite(A.copy(), x, 1e-13)
    np.testing.assert_allclose(x, np.linalg.solve(A, b[:, :, None])[:, :, 0], rtol=1e-7)
    singular = np.stack(
        [np.zeros((3, 3)), np.ones((3, 3)), np.diag([1.0, 0.0, 2.0]), np.full((3, 3), np.nan)]
    )
    x = np.array([[0.0, 0, 0], [2.0, 2, 2], [3.0, 0, 4], [0.0, 0, 0]])
    _kernels.solve_definite(singular, x, 1e-13)
    np.testing.assert_allclose(x, [[0, 0, 0], [2, 0, 0], [3, 0, 2], [0, 0, 0]], rtol=1e-15)


def test_a_unit_is_in_one_subset():
    """Moments are those of the subsets that the units were assigned to."""
    X, _, y = data(30, 2, 5)
    ends = np.array([4, 5, 11, 20, 30])
    blocks = object.__new__(UnitBlocks)
    # units may come in several blocks
    units = Units(X, y, ends)
    blocks.__dict__["units"] = [units[0:2].block(), units[2:5].block()]
    given = np.array([1, 0, 1, 2, 0])
    _, moments = subset_moments(blocks, affine(2), 3, Assigned(given))
    of = np.repeat(given, np.diff(ends, prepend=0))
    np.testing.assert_array_equal(moments[:, 0, 0], np.bincount(of, minlength=3))
    for g in range(3):
        np.testing.assert_allclose(
            moments[g, 0, 1:-1], ((X[of == g, 1:] - affine(2).loc) / affine(2).scale).sum(axis=0)
        )
