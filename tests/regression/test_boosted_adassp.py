"""BoostedAdaSSP: rounds and limits; what it shares with AdaSSP is in test_adassp.py."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.mechanisms import noise
from dpstats.regression import boosted_adassp as module


def frame(n=5000, seed=0):
    g = np.random.default_rng(seed)
    X = g.uniform(-0.5, 0.5, (n, 2))
    return pd.DataFrame(X, columns=["a", "b"]).assign(y=0.2 + X @ [0.5, -0.5] + 0.1 * g.standard_normal(n))


@pytest.mark.parametrize("rounds", [1, 2, 3, 12, 40])
def test_any_number_of_rounds(rounds):
    fit = dpstats.boosted_adassp("y ~ a + b", frame(), eps=8, rounds=rounds, seed=1)
    assert fit.released["rounds"] == rounds
    assert sum("gradients" in s.step for s in fit.guarantee.spends) == rounds
    np.testing.assert_allclose(fit.params, [0.2, 0.5, -0.5], atol=0.15)


def test_published_setting():
    """In the data's units, clip 1, 100 equal rounds: every row is within the limits, so the fit is least
    squares'."""
    data = frame()
    fit = dpstats.boosted_adassp(
        "y ~ a + b - 1", data, eps=1e5, standardize=False, clip=1.0, rounds=100, seed=1
    )
    steps = [s for s in fit.guarantee.spends if "gradients" in s.step]
    assert len(steps) == 100 and np.ptp([s.mu for s in steps]) < 1e-12
    b = np.linalg.lstsq(data[["a", "b"]].to_numpy(), data["y"].to_numpy(), rcond=None)[0]
    np.testing.assert_allclose(fit.params, b, atol=2e-3)


def test_outliers_of_the_response_count_for_little():
    data = frame()
    data.loc[:20, "y"] = 1e6
    fit = dpstats.boosted_adassp("y ~ a + b", data, eps=2, seed=1)
    np.testing.assert_allclose(fit.params, [0.2, 0.5, -0.5], atol=0.3)


def test_variance_is_that_of_its_parts():
    """Noise of every round through the later ones, sampling, and what is left of the way from 0, squared."""
    prepared = SimpleNamespace(count=900.0, response=SimpleNamespace(scale=np.array([7.0])))
    values, s, noises = np.array([15.0, 400.0]), 12.0, np.linspace(9.0, 5.0, 8)
    release = module._Release(prepared, np.diag(values), s, np.array([3.0, 1.0]), noises, 1.3)
    budget = SimpleNamespace(first=3, clip=None, standardize=True, mus={"rounds": 0.3}, cov_type="formula")
    ridge = module.spectral_floor(np.diag(values), s)
    expected = []
    for value, reached in zip(values, (3.0, 1.0), strict=True):
        step, kept = 1 / (value + ridge), range(3, 8)
        contraction = 1 - step * value
        weights = np.array(
            [np.mean([contraction ** (t - i) if t >= i else 0.0 for t in kept]) for i in range(8)]
        )
        left = np.mean([contraction ** (t + 1) for t in kept])
        noise_part, sampling = np.sum((weights * noises * step) ** 2), (1 - left) ** 2 * 1.3 / value
        bias = (left / (1 - left)) ** 2 * max(reached**2 - noise_part - sampling, 0.0)
        expected.append((noise_part, sampling, bias))
    assert min(expected[0]) > 0.01 * sum(expected[0])
    got = module._inference(budget, release)
    np.testing.assert_allclose(got.cov, np.diag(np.sum(expected, axis=1)), rtol=1e-9)
    # the limit of the residuals by the noise of the last round: noise = radius limit / mu
    assert got.notes[-1].startswith(f"Residuals beyond {5.0 * 0.3 / module.row_radius(2) * 7.0:.3g} count")


def test_what_is_said_of_the_noise_is_true(monkeypatch):
    """The noise that standard errors reckon with is that which was drawn, step by step."""
    made, drawn, real, release = [], [], noise._add, module._release

    def add(values, law, sensitivity, budget, rng):
        drawn.append((np.shape(values), sensitivity / (1 + 2.0**-10) / budget))
        return real(values, law, sensitivity, budget, rng)

    monkeypatch.setattr(module, "_release", lambda *a: made.append(release(*a)) or made[-1])
    monkeypatch.setattr(noise, "_add", add)
    dpstats.boosted_adassp("y ~ a + b", frame(), eps=2, seed=1)
    (got,) = made
    np.testing.assert_allclose(got.noises, [sd for shape, sd in drawn if shape == (3,)], rtol=1e-12)
    assert got.gram_noise == pytest.approx([sd for shape, sd in drawn if shape == (6,)][-1], rel=1e-12)
