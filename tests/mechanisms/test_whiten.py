"""Private whitening: what a row can do to a Gram matrix, the accounting, and what is learnt."""

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.engines.local import Rows
from dpstats.mechanisms import noise, whiten
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.whiten import Affine, Stage

SILENT = 1e8
STAGES = (Stage(2.0, 0.0, SILENT), Stage(2.0, 0.0, SILENT), Stage(100.0, 0.0, SILENT))

pytestmark = pytest.mark.filterwarnings("error")


def identity(q):
    return Affine(np.arange(q), np.zeros(q), np.ones(q))


def exact_gram(X, Y, affine, W, radius2):
    """The statistic that `release_gram` protects: its answer without noise."""
    return whiten.release_gram([(X, Y)], affine, W, radius2, SILENT**2, Randomness(0))


def hostile_rows(generator, n, d):
    values = [0.0, -0.0, 1.0, -1.0, 5e-324, 1e-200, 1e150, 1e308, -1e308, 2.0**101, 3.7]
    return np.where(
        generator.random((n, d)) < 0.5, generator.choice(values, (n, d)), generator.standard_normal((n, d))
    )


@pytest.mark.parametrize("relation", ["add-remove", "substitution"])
def test_no_row_moves_the_gram_matrix_by_more_than_the_radius(relation):
    generator = np.random.default_rng(1)
    attained = 0.0
    for _ in range(200):
        d, k = 3, int(generator.integers(1, 5))
        X = hostile_rows(generator, int(generator.integers(1, 8)), d)
        Y = hostile_rows(generator, len(X), 1)
        affine = Affine(np.arange(4), generator.standard_normal(4), np.exp(3 * generator.standard_normal(4)))
        W, radius2 = generator.standard_normal((4, k)) * generator.choice([1e-3, 1, 1e6]), 2.5
        other = np.hstack([X, Y])
        if relation == "add-remove":
            other = other[1:]
        else:
            other[0] = hostile_rows(generator, 1, 4)
        moved = np.linalg.norm(
            exact_gram(X, Y, affine, W, radius2)
            - exact_gram(
                np.ascontiguousarray(other[:, :3]), np.ascontiguousarray(other[:, 3:]), affine, W, radius2
            )
        )
        bound = radius2 * (1 if relation == "add-remove" else math.sqrt(2))
        # the last digits are those of the lattice, far inside the enlargement of the noise
        assert moved <= bound * (1 + 1e-7)
        attained = max(attained, moved / bound)
    assert attained > 0.99


def test_sensitivity_check_catches_the_add_remove_bound_under_substitution():
    x, other = np.array([[2.0, 0.0]]), np.array([[0.0, 2.0]])
    y = np.zeros((1, 1))
    moved = np.linalg.norm(
        exact_gram(x, y, identity(2), np.eye(2), 4.0) - exact_gram(other, y, identity(2), np.eye(2), 4.0)
    )
    assert moved == pytest.approx(math.sqrt(2) * 4.0)


@pytest.mark.parametrize("blocks", [[5000], [1, 4999], [1024, 1024, 2952]])
def test_gram_matrix_is_that_of_clipped_rows(blocks):
    generator = np.random.default_rng(2)
    X, Y = generator.standard_t(2, (5000, 3)), generator.standard_normal((5000, 1))
    affine = Affine(np.array([3, 0, 2]), np.array([0.5, 0.0, -1.0]), np.array([2.0, 1.0, 0.5]))
    W, radius2 = generator.standard_normal((3, 3)), 6.0
    ends = np.cumsum(blocks)
    pieces = [(X[b - s : b], Y[b - s : b]) for s, b in zip(blocks, ends, strict=True)]
    v = affine.apply(np.hstack([X, Y])) @ W
    v *= np.sqrt(np.minimum(1, radius2 / (v**2).sum(axis=1)))[:, None]
    got = whiten.release_gram(pieces, affine, W, radius2, SILENT, Randomness(0))
    np.testing.assert_allclose(got, v.T @ v, atol=1e-5)
    np.testing.assert_array_equal(got, got.T)


def test_gram_noise_has_the_stated_deviation():
    draws = np.array(
        [whiten.release_gram([], identity(3), np.eye(3), 4.0, 0.5, Randomness(seed)) for seed in range(500)]
    )
    diagonal, above = draws[:, range(3), range(3)] / 8, draws[:, [0, 0, 1], [1, 2, 2]] / (8 / math.sqrt(2))
    for scaled in (diagonal, above):
        # the deviation is a thousandth larger than stated; false-alarm rate 1e-6
        assert np.mean(scaled**2) == pytest.approx(1.002, abs=4.9 * math.sqrt(2 / scaled.size))


def budgets(monkeypatch):
    spent, real = [], noise._add

    def add(values, law, sensitivity, budget, rng):
        assert law == "gaussian"
        spent.append((sensitivity, budget, np.size(values)))
        return real(values, law, sensitivity, budget, rng)

    monkeypatch.setattr(noise, "_add", add)
    return spent


def test_every_stage_spends_its_own_budget_for_its_own_radius(monkeypatch):
    spent = budgets(monkeypatch)
    radii, real = [], whiten.release_gram
    monkeypatch.setattr(whiten, "release_gram", lambda *a: radii.append(a[3]) or real(*a))
    generator = np.random.default_rng(4)
    X, y = generator.standard_normal((2000, 3)), generator.standard_normal(2000)
    stages = (Stage(2.0, 0.0, 0.3), Stage(2.0, 0.5, 0.2, response=False), Stage(2.0, 1.0, 0.1))
    response = Affine(np.array([3]), np.zeros(1), np.ones(1))
    whiten.whiten(Rows(X, y), identity(3), 2000.0, stages, Randomness(1), response)
    assert [budget for _, budget, _ in spent] == [0.3, 0.2, 0.1]
    assert [size for *_, size in spent] == [10, 6, 10]
    for (sensitivity, _, _), radius2 in zip(spent, radii, strict=True):
        assert sensitivity >= radius2 * (1 + 2.0**-10)
    assert radii[0] == 2.0 * 4
    assert radii[2] >= 2000 * 0.1 / math.sqrt(6)


def correlated(n, q, seed):
    generator = np.random.default_rng(seed)
    mix = generator.standard_normal((q, q)) @ np.diag(10.0 ** np.linspace(0, -2, q))
    X = np.hstack([np.ones((n, 1)), generator.standard_normal((n, q)) @ mix])
    return X, X @ generator.standard_normal(q + 1) + 0.5 * generator.standard_normal(n)


def test_without_noise_the_gram_matrix_becomes_n_times_the_identity():
    X, y = correlated(20_000, 5, 5)
    result = whiten.whiten(Rows(X, y), identity(6), len(X), STAGES, Randomness(0))
    v = X @ result.W
    np.testing.assert_allclose(v.T @ v / len(X), np.eye(6), atol=1e-4)
    np.testing.assert_allclose(result.share, 1.0, atol=1e-4)
    assert np.linalg.norm(result.hidden) == 0
    assert result.theta.tolist() == [0] * 6
    assert result.sigma == 1


def test_without_noise_the_first_fit_is_least_squares():
    X, y = correlated(20_000, 5, 6)
    response = Affine(np.array([6]), np.array([1.0]), np.array([2.0]))
    result = whiten.whiten(Rows(X, y), identity(6), len(X), STAGES, Randomness(0), response)
    want = np.linalg.lstsq(X, (y - 1) / 2, rcond=None)[0]
    scale = np.linalg.inv(result.W)
    np.testing.assert_allclose(scale @ result.theta, scale @ want, atol=1e-4)
    assert result.sigma == pytest.approx(0.25, rel=0.02)


def test_noise_is_measured_in_the_metric_that_was_learnt():
    """At a real budget, the whitened Gram matrix of collinear columns is near n times the identity."""
    X, y = correlated(30_000, 5, 7)
    stages = (Stage(2.0, 0.0, 0.15), Stage(2.0, 0.0, 0.15), Stage(2.0, 0.05, 0.1))
    response = Affine(np.array([6]), np.zeros(1), np.full(1, y.std()))
    result = whiten.whiten(Rows(X, y), identity(6), len(X), stages, Randomness(1), response)
    values = np.linalg.eigvalsh((X @ result.W).T @ (X @ result.W) / len(X))
    before = np.linalg.eigvalsh(X.T @ X / len(X))
    assert before[-1] / before[0] > 1000
    assert 0.5 < values[0] and values[-1] < 2
    fitted = X @ result.theta * y.std()
    assert np.var(y - fitted) < 1.2 * 0.25


def test_hidden_directions_are_those_below_the_floor_of_the_first_stage():
    generator = np.random.default_rng(8)
    X = generator.standard_normal((1000, 3)) * [1.0, 1.0, 1e-6]
    stages = (Stage(2.0, 0.0, 0.2),)
    result = whiten.whiten(Rows(X, np.zeros(1000)), identity(3), 1000.0, stages, Randomness(2))
    floor = math.sqrt(6) * 6.0 / 0.2
    values, vectors = np.linalg.eigh(result.hidden)
    np.testing.assert_allclose(values, [0, 0, floor], atol=1e-9)
    assert abs(vectors[2, -1]) > 0.99
    assert result.share.min() < 1
    # and with what is weak it is raised to 8 % of the rows, however small the noise is
    np.testing.assert_allclose(np.linalg.eigvalsh(result.hidden + result.weak), [0, 0, 80], atol=1e-9)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_few_or_hostile_rows_give_finite_results(n):
    generator = np.random.default_rng(9)
    response = Affine(np.array([3]), np.zeros(1), np.ones(1))
    for mu in (0.1, 10.0):
        for rows in (np.zeros((n, 4)), hostile_rows(generator, n, 4), np.full((n, 4), 1e308)):
            stages = (Stage(2.0, 0.0, mu), Stage(2.0, 0.1, mu), Stage(2.0, 1.0, mu))
            source = Rows(rows[:, :3], rows[:, 3])
            result = whiten.whiten(source, identity(3), 1.0, stages, Randomness(n), response)
            for value in (
                result.W,
                result.share,
                result.hidden,
                result.weak,
                result.theta,
                result.theta_variance,
                result.sigma,
            ):
                assert np.isfinite(value).all()
            assert np.linalg.matrix_rank(result.W) == 3
            assert result.sigma > 0


def test_a_stage_that_sees_noise_alone_leaves_a_radius_to_the_next():
    """Where no eigenvalue is above 0, rows are not cut to nothing."""
    stages, none = (Stage(2.0, 0.0, 1.0), Stage(4.0, 0.0, 1.0)), np.zeros((0, 2))
    for seed in range(40):
        blocks = Rows(none, np.zeros((0, 1)))
        learnt = whiten.whiten(blocks, identity(2), 3.0, stages, Randomness(seed))
        assert learnt.radius2 >= 4.0
        assert np.isfinite(learnt.W).all() and np.linalg.matrix_rank(learnt.W) == 2


def test_without_a_column_nothing_is_released(monkeypatch):
    spent = budgets(monkeypatch)
    nothing = Affine(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))
    learnt = whiten.whiten([(np.ones((3, 1)), np.ones((3, 1)))], nothing, 3.0, STAGES, Randomness(0))
    assert learnt.W.shape == (0, 0) and not spent


def test_public_start_is_used():
    X, y = correlated(5000, 2, 10)
    start = np.diag([1.0, 2.0, 5.0])
    stages = (Stage(3e3, 0.0, SILENT),)
    result = whiten.whiten(Rows(X, y), identity(3), 5000.0, stages, Randomness(0), start=start)
    v = X @ result.W
    np.testing.assert_allclose(v.T @ v / 5000, np.eye(3), atol=1e-3)


@pytest.mark.parametrize("known", [True, False])
def test_a_rare_group_is_not_taken_for_a_direction_without_rows(known):
    """Forty rows of 40,000, of which the radius shows a hundredth: their direction stays as long as it is."""
    n, m = 40_000, 40
    g = np.random.default_rng(4)
    p = m / n
    rare = np.where(np.arange(n) < m, (1 - p), -p) / math.sqrt(p * (1 - p))
    X = np.column_stack([np.ones(n), g.standard_normal(n), rare])
    means = np.array([[1.0, 0.0, rare[0]], [1.0, 0.0, rare[-1]]])
    response = Affine(np.array([3]), np.zeros(1), np.ones(1))
    # noise of 4 % of the rows in each stage, and rows of squared length 1,000 within 8
    stages = [Stage(2.0, 0.0, 8 / (0.04 * n))] * 3
    y = 2 * (np.arange(n) < m) + g.standard_normal(n)
    groups = (means, np.array([p, 1 - p])) if known else None
    fit = whiten.whiten(Rows(X, y), identity(3), float(n), stages, Randomness(0), response, groups=groups)
    V = X @ fit.W
    most = np.linalg.eigvalsh(V.T @ V / n)[-1]
    if not known:
        assert most > 100
        return
    assert 0.8 < most < 1.25 and fit.share.min() == 1
    # what is said to be released is of the rows within the radius
    within = V * np.sqrt(np.minimum(1, fit.radius2 / np.sum(V**2, axis=1)))[:, None]
    np.testing.assert_allclose(fit.gram, within.T @ within / n, atol=0.3)


def test_apply_standardises_and_limits_magnitudes():
    affine = Affine(np.array([2, 0]), np.array([1.0, 0.0]), np.array([2.0, 1.0]))
    rows = np.array([[5.0, 9.0, 7.0], [-1e308, 0.0, 1e308]])
    np.testing.assert_array_equal(affine.apply(rows), [[3.0, 5.0], [(2.0**101 - 1) / 2, -(2.0**101)]])


@pytest.mark.slow
def test_variance_of_the_first_fit_is_that_of_its_noise():
    """A response of zeros is fitted by noise alone; false alarm 1e-6."""
    n, runs = 4000, 800
    X = math.sqrt(n) * np.linalg.qr(np.random.default_rng(11).standard_normal((n, 2)))[0]
    response, stages = Affine(np.array([2]), np.zeros(1), np.ones(1)), (Stage(20.0, 0.0, 0.5),)
    fits = [
        whiten.whiten(Rows(X, np.zeros(n)), identity(2), float(n), stages, Randomness(s), response)
        for s in range(runs)
    ]
    squares = sum(np.sum(np.linalg.solve(fit.W, fit.theta) ** 2 / fit.theta_variance) for fit in fits)
    assert stats.chi2.isf(1 - 5e-7, 2 * runs) < squares < stats.chi2.isf(5e-7, 2 * runs)
