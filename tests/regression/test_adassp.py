"""AdaSSP: least squares without noise, its noise, its sensitivity, degenerate data."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats
from dpstats.engines.local import Rows
from dpstats.linear import scores
from dpstats.linear.budget import Step, divide
from dpstats.linear.moments import shrinkage_bias, spectral_floor
from dpstats.linear.public import PublicDesign
from dpstats.mechanisms.rng import Randomness
from dpstats.regression import adassp as module

NAMES = ["a", "b", "c"]
FORMULA = "y ~ a + b + c"


def frame(n=20_000, sigma=0.2, seed=0):
    g = np.random.default_rng(seed)
    X = g.uniform(-1, 1, (n, 3))
    return pd.DataFrame(X, columns=NAMES).assign(y=2 + X @ [1.0, 2, 3] + sigma * g.standard_normal(n))


def least_squares(data):
    X = np.column_stack([np.ones(len(data)), data[NAMES]])
    return np.linalg.lstsq(X, data["y"].to_numpy(), rcond=None)[0]


@pytest.mark.parametrize("estimator", [dpstats.adassp, dpstats.boosted_adassp])
def test_least_squares_as_eps_grows(estimator):
    data = frame(200_000, sigma=0.1)
    fit = estimator(FORMULA, data, eps=1e6, clip=5.0, seed=1)
    np.testing.assert_allclose(fit.params, least_squares(data), rtol=1e-6)


@pytest.mark.parametrize("estimator", [dpstats.adassp, dpstats.boosted_adassp])
def test_least_squares_in_the_data_units(estimator):
    data = frame(20_000)
    more = {"rounds": 30} if estimator is dpstats.boosted_adassp else {}
    fit = estimator(FORMULA, data, eps=1e6, clip=8.0, standardize=False, seed=1, **more)
    np.testing.assert_allclose(fit.params, least_squares(data), rtol=1e-3)
    assert not any("Moved" in note for note in fit.notes)


def raw_budget():
    """That of three columns in their own units, with rows and responses within 2."""
    public = PublicDesign(True, np.arange(1, 4), np.zeros(4), np.ones(4), None)
    mus, guarantee = divide(1.0, 1e-6, [Step("count", "n", 0.01), Step("moments", "moments", 0.67)], True)
    return module._Budget(guarantee, mus, public, (), False, 2.0, "formula")


def draws(n, runs):
    """Released moments of the same hand-made rows, in their own units."""
    data = frame(n).to_numpy()
    blocks = Rows(np.column_stack([np.ones(n), data[:, :3]]), data[:, 3:])
    budget = raw_budget()
    return budget, [module._release(blocks, budget, Randomness(seed)) for seed in range(runs)]


def test_a_call_in_the_columns_units_has_the_budget_of_these_tests(monkeypatch):
    seen, release = [], module._release
    monkeypatch.setattr(module, "_release", lambda *a: seen.append(a[1]) or release(*a))
    dpstats.adassp(FORMULA, frame(200), eps=1, standardize=False, clip=2.0, seed=1)
    (got,), expected = seen, raw_budget()
    assert dict(got.mus) == dict(expected.mus)
    assert (got.stages, got.standardize, got.clip, got.cov_type) == ((), False, 2.0, "formula")


def test_noise_of_each_part():
    """Variances against the formulas; false alarm 1e-6 each."""
    runs = 400
    budget, released = draws(200, runs)
    one = released[0]
    radius2 = 2.0**2 + (one.weight * 2.0) ** 2
    assert one.noise == pytest.approx(radius2 / budget.mus["moments"])
    parts = {
        "diagonal": (np.array([r.gram[1, 1] for r in released]), one.noise),
        "off the diagonal": (np.array([r.gram[0, 2] for r in released]), one.noise / math.sqrt(2)),
        "cross": (np.array([r.cross[1] for r in released]), one.noise / one.weight / math.sqrt(2)),
        "square": (np.array([r.square for r in released]), one.noise / one.weight**2),
    }
    for name, (sample, sd) in parts.items():
        ratio = np.var(sample, ddof=1) * (runs - 1) / sd**2
        assert stats.chi2.isf(1 - 5e-7, runs - 1) < ratio < 1.003 * stats.chi2.isf(5e-7, runs - 1), name
    assert all((r.gram == r.gram.T).all() for r in released)


@pytest.mark.parametrize(
    "row", [[1e308, -1e308, 1.0, 1e308], [1e12, 1e12, 1e12, -1e12], [5e-324, 0, 0, 1e9], [9, 9, 9, 9]]
)
def test_no_row_moves_the_moments_by_more_than_the_radius(row, monkeypatch):
    sums = []

    def silent(matrix, sensitivity, mu, rng):
        sums.append((matrix, sensitivity / (1 + 2.0**-10)))
        return matrix

    monkeypatch.setattr(scores, "symmetric_gaussian", silent)
    data = frame(50).to_numpy()
    for rows in (data, np.vstack([data, row])):
        blocks = Rows(np.column_stack([np.ones(len(rows)), rows[:, :3]]), rows[:, 3:])
        module._release(blocks, raw_budget(), Randomness(0))
    (before, radius2), (after, _) = sums
    moved = np.linalg.norm(after - before)
    assert moved <= radius2 * (1 + 1e-9)
    assert moved > 0.9 * radius2 or row[0] < 1 or row[0] > 1e300  # both limits are attained


@pytest.mark.parametrize(
    "estimator", [dpstats.adassp, dpstats.boosted_adassp, dpstats.huber, dpstats.gradient_descent]
)
def test_degenerate_data(estimator):
    data = frame(5000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = estimator(FORMULA, data.assign(y=4.0), eps=1, seed=0)
        assert flat.params["Intercept"] == pytest.approx(4, rel=1e-3) and (flat.params[1:] == 0).all()
        left = estimator(FORMULA, data.assign(b=7.0), eps=1, seed=0)
        assert left.params["b"] == 0 and "Left out" in left.notes[0] + left.notes[-1] + left.notes[-2]
        far = data.copy()
        far.iloc[0] = [1e12, -1e12, 1e308, 1e12]
        fit = estimator(FORMULA, far, eps=1, seed=0)
        assert np.abs(fit.params - least_squares(data)).max() < 1.5
        assert np.abs(fit.predict(far)).max() < 100
        for n in (0, 1):
            with pytest.raises(dpstats.ReleaseFailed):
                estimator(FORMULA, data.iloc[:n], eps=1, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1e6, 1e-6])
@pytest.mark.parametrize("estimator", [dpstats.adassp, dpstats.boosted_adassp])
def test_units_do_not_matter_in_law(estimator, factor):
    data, truth = frame(5000, sigma=1.0), least_squares(frame(5000, sigma=1.0))
    scaled = data.assign(b=data["b"] * factor)
    errors = [
        np.array([estimator(FORMULA, d, eps=1, seed=s).params for s in range(20)]) for d in (data, scaled)
    ]
    errors[1][:, 2] *= factor
    size = [np.abs(e - truth)[:, 1:].mean() for e in errors]
    assert 0.5 < size[0] / size[1] < 2


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [dpstats.adassp, dpstats.boosted_adassp])
def test_intervals_cover(estimator):
    """The number covered is binomial at best; false alarm 1e-6."""
    covered = []
    for seed in range(80):
        low, high = estimator(FORMULA, frame(5000, 1.0, seed), eps=1, seed=seed).conf_int().to_numpy().T
        covered.append((low <= [2, 1, 2, 3]) & (high >= [2, 1, 2, 3]))
    assert np.sum(covered) > stats.binom.ppf(1e-6, 320, 0.92)


def released(noise=4.0, weight=0.8):
    response = SimpleNamespace(scale=np.array([7.0]), loc=np.array([3.0]))
    prepared = SimpleNamespace(
        count=900.0, response=response, response_reach=2.0, affine=SimpleNamespace(columns=np.arange(2))
    )
    gram, cross = np.array([[500.0, 20.0], [20.0, 6.0]]), np.array([300.0, 40.0])
    budget = SimpleNamespace(clip=None, standardize=True, cov_type="formula")
    return budget, module._Release(prepared, gram, cross, 900.0, noise, weight)


def test_variance_is_that_of_its_parts():
    """``A^-1 (noise of b - noise of G theta)``, sampling, and the bias of the ridge, squared."""
    (budget, release), theta, variance = released(), np.array([0.7, 2.0]), 1.3
    G, s = release.gram, release.noise
    A = G + spectral_floor(G, s) * np.eye(2)
    inverse = np.linalg.inv(A)
    # noise of (z, k y)(z, k y)': s on the diagonal, s / sqrt(2) off it; b = its last column over k
    of_b = s**2 / 2 / release.weight**2 * np.eye(2)
    of_G = s**2 * np.array([
        [theta[0] ** 2 + theta[1] ** 2 / 2, theta[0] * theta[1] / 2],
        [theta[0] * theta[1] / 2, theta[1] ** 2 + theta[0] ** 2 / 2],
    ])  # fmt: skip
    spread = inverse @ (of_b + of_G + variance * G) @ inverse
    bias = shrinkage_bias(A, A[0, 0] - G[0, 0], theta, spread)
    assert A[0, 0] > G[0, 0] and np.trace(bias) > 0.01 * np.trace(spread)
    np.testing.assert_allclose(
        module._inference(budget, release, theta, variance).cov, spread + bias, rtol=1e-9
    )


def test_the_note_names_the_limits():
    """The private range of the response is nearer than five, and rows have their default radius."""
    budget, release = released()
    *_, note = module._inference(budget, release, np.zeros(2), 1.0).notes
    limits = f"[{3 - 2 * 7:.4g}, {3 + 2 * 7:.4g}]"
    assert (
        note.startswith(f"Responses are moved into {limits}; rows")
        and f"longer than {1.5 * math.sqrt(2):.3g} " in note
    )
