"""The private mean: NumPy's without noise, Huber's location with a clip, coverage, degenerate columns."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import dpstats
from dpstats.engines.local import Rows
from dpstats.linear import loss
from dpstats.location import mean as module
from dpstats.mechanisms.whiten import Affine


def frame(n=5000, seed=0):
    g = np.random.default_rng(seed)
    return pd.DataFrame(
        {"x": 7 + 3 * g.standard_normal(n), "y": g.exponential(5, n), "year": 1990.0 + g.integers(0, 20, n)}
    )


@pytest.mark.parametrize("bounds", [None, {"x": (-20, 30), "y": (0, 100), "year": (1900, 2100)}])
def test_numpys_means_and_standard_errors_as_eps_grows(bounds):
    data = frame()
    fit = dpstats.mean("x + y + year ~ 1", data, eps=1e7, bounds=bounds, seed=1)
    np.testing.assert_allclose(fit.params, data.mean(), rtol=1e-5)
    spread = np.sqrt(((data - data.mean()) ** 2).mean() / len(data))
    np.testing.assert_allclose(fit.bse, spread, rtol=0.01)


def test_hubers_location_with_a_clip():
    y = frame()["y"].to_numpy()
    fit = dpstats.mean("y ~ 1", {"y": y}, eps=1e7, clip=1.0, rounds=40, seed=1)
    low, high = (float(s) for s in fit.notes[0].split("[")[1].split("]")[0].split(","))
    tau = (high - low) / 2
    root = optimize.brentq(lambda m: np.clip(y - m, -tau, tau).sum(), 0, 10)
    assert fit.params["y"] == pytest.approx(root, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("column, truth", [("x", 7.0), ("y", 5.0), ("year", 1999.5)])
def test_intervals_cover(column, truth):
    """The number covered is binomial at best; false alarm 1e-6."""
    covered = 0
    for seed in range(100):
        low, high = dpstats.mean(f"{column} ~ 1", frame(seed=seed), eps=1, seed=seed).conf_int().to_numpy()[0]
        covered += low <= truth <= high
    assert covered > stats.binom.ppf(1e-6, 100, 0.93)


def test_degenerate_columns():
    data = frame().assign(c=3.0)
    data.loc[0, "x"] = 1e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = dpstats.mean("x + c ~ 1", data, eps=1, seed=1)
        for n in (0, 1):
            with pytest.raises(dpstats.ReleaseFailed, match="Nothing was estimated"):
                dpstats.mean("x ~ 1", data.iloc[:n], eps=1, seed=0)
    assert fit.params["x"] == pytest.approx(7, abs=0.5)
    assert fit.params["c"] == pytest.approx(3, rel=1e-4) and np.isnan(fit.bse["c"])
    assert fit.notes[1] == "No variation beyond the privacy noise: c. The location is given."


def test_formula_is_checked():
    with pytest.raises(dpstats.FormulaError, match="mean takes formulas such as"):
        dpstats.mean("x ~ y", frame(), eps=1)


@pytest.mark.parametrize("rounds", [1, 6])
def test_variance_is_that_of_its_parts(rounds, monkeypatch):
    """Noise of the rounds, noise of the count they divide by, what they leave of the way, and sampling."""
    count, tau, share, square, mus = 400.0, 2.5, 0.75, 0.3, {"rounds": 0.2, "count": 0.05, "moments": 0.1}
    monkeypatch.setattr(loss, "product_gradient", lambda rows, u, *more: np.array([100.0]) - 40 * u)
    monkeypatch.setattr(loss, "psi_moments", lambda *a: (share, square))
    budget = SimpleNamespace(rounds=rounds, mus=mus)
    affine = Affine(np.array([0, 1]), np.zeros(2), np.ones(2))
    u, variance = module._column(Rows(np.ones((5, 1)), np.zeros(5)), affine, tau, budget, count, None)
    # what a unit of noise in each round, and of the first error, is in the average of the later half
    burn, contraction = rounds // 2, 1 - share
    weights = [
        np.mean([contraction ** (t - s) if t >= s else 0.0 for t in range(burn, rounds)])
        for s in range(rounds)
    ]
    left = np.mean([contraction ** (t + 1) for t in range(burn, rounds)])
    noise = (tau / mus["rounds"] / count) ** 2 * np.sum(np.square(weights))
    miscount = (u / mus["count"] / count) ** 2
    bias = (left / (1 - left) * u) ** 2 if rounds > 1 else 0.0
    sampling = square * tau**2 / count / (share**2 if rounds > 1 else 1.0)
    assert variance == pytest.approx(noise + miscount + bias + sampling, rel=1e-12)
    assert min(noise, miscount, sampling) > 0.005 * variance
