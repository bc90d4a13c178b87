"""Noisy gradient descent is gradient descent without noise."""

import numpy as np
import pandas as pd
import pytest

import dpstats


def frame(n=20_000):
    g = np.random.default_rng(0)
    X = g.uniform(-1, 1, (n, 2))
    return pd.DataFrame(X, columns=["a", "b"]).assign(y=0.2 + X @ [0.5, -0.5] + 0.1 * g.standard_normal(n))


@pytest.mark.parametrize("schedule", ["constant", "1/t", "1/sqrt(t)"])
def test_steps_without_noise(schedule):
    data = frame()
    fit = dpstats.gradient_descent(
        "y ~ a + b",
        data,
        eps=1e6,
        clip=0.4,
        steps=7,
        learning_rate=0.3,
        schedule=schedule,
        standardize=False,
        seed=1,
    )
    X, y, theta = np.column_stack([np.ones(len(data)), data[["a", "b"]]]), data["y"].to_numpy(), np.zeros(3)
    for t in range(1, 8):
        gradients = X * (y - X @ theta)[:, None]
        gradients *= np.minimum(1, 0.4 / np.linalg.norm(gradients, axis=1))[:, None]
        theta += 0.3 / {"constant": 1, "1/t": t, "1/sqrt(t)": t**0.5}[schedule] * gradients.mean(axis=0)
    np.testing.assert_allclose(fit.params, theta, atol=1e-4)
    assert fit.bse.isna().all() and fit.released["rounds"] == 7


def test_defaults_fit():
    data = frame()
    fit = dpstats.gradient_descent("y ~ a + b", data, eps=1, seed=1)
    np.testing.assert_allclose(fit.params, [0.2, 0.5, -0.5], atol=0.1)


def test_parameters():
    with pytest.raises(dpstats.ParameterError, match="schedule must be one of"):
        dpstats.gradient_descent("y ~ a", frame(), eps=1, schedule="cosine")
    with pytest.raises(dpstats.ParameterError, match="steps must be a positive integer"):
        dpstats.gradient_descent("y ~ a", frame(), eps=1, steps=0)
