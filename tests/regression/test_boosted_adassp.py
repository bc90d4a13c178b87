"""BoostedAdaSSP: rounds and limits; what it shares with AdaSSP is in test_adassp.py."""

import numpy as np
import pandas as pd
import pytest

import dpstats


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
