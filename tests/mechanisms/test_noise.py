"""Additive noise: its law on both paths, and the arithmetic that turns a sensitivity into lattice units."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from dpstats.mechanisms import noise
from dpstats.mechanisms.rng import Randomness

ALARM = 1e-6
PATHS = pytest.mark.parametrize("seed", [1, None], ids=["seeded", "opendp"])
STEP = 2.0**-30


class Silent:
    """Draws no noise, and keeps the scale (in lattice steps) that was asked for."""

    seeded = True

    def __init__(self):
        self.generator = SimpleNamespace(normal=self._draw, laplace=self._draw)
        self.scale = None

    def _draw(self, centre, scale, size):
        self.scale = scale
        return np.zeros(size)


def step_of(sensitivity):
    return 2.0 ** math.floor(math.log2(sensitivity)) * STEP


@PATHS
@pytest.mark.parametrize(("sensitivity", "budget"), [(1.0, 1.0), (1e-5, 0.01), (3e7, 20.0)])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_noise_has_the_stated_law(law, sensitivity, budget, seed):
    n = 4000
    values = np.random.default_rng(3).normal(size=(n // 4, 4)) * 10 * sensitivity
    draws = getattr(noise, law)(values, sensitivity, budget, Randomness(seed)) - values
    assert draws.shape == values.shape
    scaled = np.ravel(draws) * budget / sensitivity
    assert stats.kstest(scaled, "norm" if law == "gaussian" else "laplace").pvalue > ALARM
    if law == "gaussian":
        squares = float(np.sum(scaled**2))
        assert stats.chi2.ppf(ALARM / 2, n) < squares < stats.chi2.isf(ALARM / 2, n)
    # test of the test
    assert stats.kstest(1.5 * scaled, "norm" if law == "gaussian" else "laplace").pvalue < ALARM


@PATHS
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_few_coordinates_have_the_same_law_as_many(law, seed):
    rng = Randomness(seed)
    draws = np.concatenate([getattr(noise, law)(np.full(3, 5.0), 2.0, 0.5, rng) - 5.0 for _ in range(400)])
    assert stats.kstest(draws / 4, "norm" if law == "gaussian" else "laplace").pvalue > ALARM


@PATHS
def test_draws_are_new_each_time_and_in_every_thread(seed):
    rng = Randomness(seed)
    draws = np.concatenate([noise.gaussian(np.zeros(2000), 1.0, 1.0, rng) for _ in range(3)])
    assert len(np.unique(draws)) > 0.999 * len(draws)
    # neighbouring pieces of one vector, drawn in different threads, are not alike
    for lag in (1, 500, 667, 1000, 2000):
        assert abs(np.corrcoef(draws[:-lag], draws[lag:])[0, 1]) < 5.5 / math.sqrt(len(draws) - lag)


def test_seed_reproduces_and_global_state_is_left_alone():
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    a, b = (noise.gaussian(np.zeros(9), 1.0, 1.0, Randomness(4)) for _ in range(2))
    noise.laplace(1.0, 1.0, 1.0, Randomness())
    noise.discrete_laplace(1, 1.0, Randomness(1))
    np.testing.assert_array_equal(a, b)
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


@PATHS
@pytest.mark.parametrize("sensitivity", [1.0, 0.3, 1e-9, 7e40])
def test_releases_lie_on_a_lattice_that_depends_on_the_sensitivity_alone(sensitivity, seed):
    for value in (0.0, 0.1 * sensitivity, 1e6 * sensitivity):
        released = noise.gaussian(np.full(20, value), sensitivity, 1.0, Randomness(seed)) / step_of(
            sensitivity
        )
        np.testing.assert_array_equal(released, np.rint(released))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("size", [1, 3, 40, 2000])
def test_rounding_to_the_lattice_is_paid_for(law, size):
    """Neighbours in lattice units are never further apart than the noise was calibrated to."""
    generator = np.random.default_rng(size)
    release, order = getattr(noise, law), 2 if law == "gaussian" else 1
    for trial in range(60):
        sensitivity = float(2.0 ** generator.uniform(-60, 60))
        budget = float(generator.choice([0.01, 1.0, 30.0]))
        step = step_of(sensitivity)
        change = generator.standard_normal(size)
        change *= sensitivity / np.linalg.norm(change, order)
        value = generator.choice([0.0, 1e3, 1e9]) * sensitivity * generator.standard_normal(size)
        if trial % 3 == 0:
            # worst case: every coordinate just short of a rounding boundary
            value = (np.rint(value / step) + np.where(change > 0, 0.4999, -0.4999)) * step
        silent = Silent()
        pair = value, value + change
        units = [release(v, sensitivity, budget, silent) / step for v in pair]
        moved = np.linalg.norm(units[1] - units[0], order)
        # at large values the pair itself was rounded to doubles
        apart = max(1.0, np.linalg.norm(pair[1] - pair[0], order) / sensitivity)
        assert moved <= silent.scale * budget * apart * (1 + 1e-12)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("size", [1, 10, 2000])
def test_rounding_errors_that_all_add_up_are_paid_for_by_their_own_term(law, size, monkeypatch):
    """Every coordinate crosses one boundary more than its change is long; nothing else to pay for it with."""
    monkeypatch.setattr(noise, "_DISCRETE", 0.0)
    order = 2 if law == "gaussian" else 1
    factor = size ** (1 / order)
    steps = int(1.3 * 2**30 / factor) + 0.0002
    sensitivity = factor * steps * STEP
    assert step_of(sensitivity) == STEP
    silent = Silent()
    value = np.full(size, 0.4999 * STEP)
    units = [getattr(noise, law)(v, sensitivity, 1.0, silent) / STEP for v in (value, value + steps * STEP)]
    moved = np.linalg.norm(units[1] - units[0], order)
    # test of the test: without its term the noise would not cover this
    assert sensitivity / STEP * (1 + 1e-12) < moved <= silent.scale * (1 + 1e-12)


@pytest.mark.filterwarnings("error")
@PATHS
def test_extreme_values_are_clipped_to_a_public_limit_without_a_warning(seed):
    rng = Randomness(seed)
    for sensitivity in (1.0, 1e-200, 1e200):
        limit = 2.0**62 * step_of(sensitivity)
        values = np.array([1e308, -1e308, np.inf, -np.inf, 5e-324, -0.0, 1e-308])
        released = noise.gaussian(values, sensitivity, 1.0, rng)
        assert np.isfinite(released).all()
        assert (abs(released) <= limit + 10 * sensitivity).all()
        assert (abs(released[4:]) <= 10 * sensitivity).all()
    assert abs(noise.laplace(1e308, 1.0, 1.0, rng)) <= 2.0**32 + 100


def test_clipping_never_moves_neighbours_apart():
    silent = Silent()
    generator = np.random.default_rng(5)
    for _ in range(100):
        value = generator.choice([-1, 1]) * 2.0**32 * (1 + generator.uniform(-1e-9, 1e-9, 5))
        change = generator.standard_normal(5)
        change /= np.linalg.norm(change)
        a, b = (noise.gaussian(v, 1.0, 1.0, silent) for v in (value, value + change))
        assert np.linalg.norm(a - b) <= silent.scale * step_of(1.0)


def discrete_divergence(shift, sd, eps):
    """Exact hockey-stick divergence of the integer Gaussian law against its shift by an integer."""
    z = np.arange(-int(12 * sd), int(12 * sd) + 1, dtype=float)
    p = np.exp(-0.5 * (z / sd) ** 2)
    q = np.exp(-0.5 * ((z - shift) / sd) ** 2)
    return math.fsum(np.maximum(p - math.exp(eps) * q, 0.0)) / math.fsum(p)


def gaussian_divergence(mu, eps):
    return stats.norm.cdf(-eps / mu + mu / 2) - math.exp(eps) * stats.norm.cdf(-eps / mu - mu / 2)


@pytest.mark.slow
def test_integer_noise_is_no_weaker_than_the_continuous_law_it_stands_for():
    """The enlargement by 2^-20 pays for the difference of the two laws, here on a lattice 10^5 times as
    coarse."""
    shift = 10_000
    for mu in (0.3, 1.0, 3.0):
        sd = shift / mu * (1 + noise._DISCRETE)
        for eps in (0.01, 0.5, 1.0, 3.0):
            wanted = gaussian_divergence(mu, eps)
            if wanted > 1e-10:
                assert discrete_divergence(shift, sd, eps) <= wanted
    # test of the test: noise a millionth part too small is seen
    assert discrete_divergence(shift, shift * (1 - 1e-6), 0.5) > gaussian_divergence(1.0, 0.5)


@pytest.mark.slow
@PATHS
@pytest.mark.parametrize("eps", [0.1, 1.0, 3.0])
def test_discrete_laplace_law(eps, seed):
    n, rng = 5000, Randomness(seed)
    draws = np.array([noise.discrete_laplace(7, eps, rng) for _ in range(n)]) - 7
    reach = int(math.log(n) / eps / 2) + 1
    mass = math.tanh(eps / 2) * np.exp(-eps * abs(np.arange(-reach, reach + 1.0)))
    beyond = math.exp(-eps * (reach + 1)) / (1 + math.exp(-eps))
    expected = n * np.concatenate([[beyond], mass, [beyond]])
    counts = np.bincount(np.clip(draws, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    common = expected > 5
    expected, counts = expected[common], counts[common]
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > ALARM
    assert isinstance(noise.discrete_laplace(np.int64(3), eps, rng), int)


def test_symmetric_noise_is_an_isometry_of_the_frobenius_norm(monkeypatch):
    seen = []
    real = noise.gaussian
    monkeypatch.setattr(
        noise, "gaussian", lambda v, s, mu, rng: seen.append((v, s, mu)) or real(v, s, mu, rng)
    )
    generator = np.random.default_rng(6)
    for k in (1, 2, 7):
        matrix = generator.standard_normal((k, k))
        matrix += matrix.T
        released = noise.symmetric_gaussian(matrix, 3.0, 0.5, Silent())
        vector, sensitivity, mu = seen.pop()
        assert (sensitivity, mu) == (3.0, 0.5)
        assert len(vector) == k * (k + 1) // 2
        assert np.linalg.norm(vector) == pytest.approx(np.linalg.norm(matrix), rel=1e-14)
        np.testing.assert_allclose(released, matrix, atol=1e-8)


@PATHS
def test_symmetric_noise_is_symmetric_with_the_stated_deviations(seed):
    rng, k, n = Randomness(seed), 4, 400
    matrix = np.full((k, k), 5.0)
    draws = np.array([noise.symmetric_gaussian(matrix, 3.0, 0.5, rng) for _ in range(n)])
    np.testing.assert_array_equal(draws, draws.transpose(0, 2, 1))
    off = ~np.eye(k, dtype=bool)
    diagonal = (draws[:, ~off] - 5) / 6
    above = (draws[:, np.triu(off)] - 5) / (6 / math.sqrt(2))
    for scaled in (diagonal, above):
        squares, df = float(np.sum(scaled**2)), scaled.size
        assert stats.chi2.ppf(ALARM / 2, df) < squares < stats.chi2.isf(ALARM / 2, df)


def test_scalars_and_shapes():
    rng = Randomness(1)
    assert noise.gaussian(5.0, 1.0, 1e6, rng).shape == ()
    assert noise.gaussian(np.zeros((2, 3, 4)), 1.0, 1.0, rng).shape == (2, 3, 4)
    assert noise.laplace([1, 2], 1.0, 1e6, rng) == pytest.approx([1, 2], abs=1e-4)


def test_opendp_is_not_imported_for_seeded_noise():
    """Simulations do not need it, and it takes a second to load."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noise._opendp.cache_clear()
        noise.gaussian(1.0, 1.0, 1.0, Randomness(1))
        assert noise._opendp.cache_info().currsize == 0


@pytest.mark.slow
@PATHS
@pytest.mark.parametrize(("scale", "exponent"), [(1.0, -20), (3e5, 0), (1e-9, -50)])
def test_noise_on_a_grid_has_the_stated_law(scale, exponent, seed):
    values = np.random.default_rng(8).normal(size=3000) * scale
    released = noise.laplace_on_grid(values, scale, exponent, Randomness(seed))
    np.testing.assert_array_equal(released / 2.0**exponent, np.rint(released / 2.0**exponent))
    scaled = (released - values) / scale
    assert stats.kstest(scaled, "laplace").pvalue > ALARM
    # test of the test
    assert stats.kstest(scaled / 2, "laplace").pvalue < ALARM


@PATHS
def test_coordinates_that_are_always_0_get_no_noise_and_the_others_their_own(seed):
    possible = np.arange(2_000).reshape(2, -1) % 3 > 0
    noisy = noise.gaussian(np.where(possible, 7.0, 0.0), 1.0, 0.5, Randomness(seed), possible)
    assert noisy.shape == possible.shape and np.all(noisy[~possible] == 0.0)
    assert stats.kstest((noisy[possible] - 7.0) / 2.0, "norm").pvalue > ALARM
