"""Huber regression: its equation at the released scale, R's and statsmodels' fits, median regression."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats
from dpstats.regression import huber as module

N = 20_000


def frame():
    """What tests/reference/huber_rlm.R makes."""
    i = np.arange(1.0, N + 1)
    u = (i * 0.6180339887498949) % 1
    x1 = np.sin(i)
    x2 = np.cos(0.7 * i) + 0.5 * x1
    return pd.DataFrame(
        {"x1": x1, "x2": x2, "y": 1 + 2 * x1 - 3 * x2 + stats.t.ppf(0.001 + 0.998 * u, 2) / 3}
    )


#: k, the scale, the coefficients of MASS::rlm
STORED = [
    (1.345, 0.402389250478252, [1.00000381012117, 1.9996864905353, -2.99974253054742]),
    (0.5, 0.402362309218451, [1.00001760854118, 1.99977029738425, -2.99981347958343]),
]


@pytest.mark.parametrize("k, scale, coefficients", STORED)
def test_rlm_of_r_at_its_scale(k, scale, coefficients):
    data = frame()
    sigma = dpstats.huber("y ~ x1 + x2", data, eps=1e7, seed=1).sigma
    fit = dpstats.huber("y ~ x1 + x2", data, eps=1e7, c=k * scale / sigma, seed=1)
    assert fit.sigma == pytest.approx(sigma, rel=1e-5)
    np.testing.assert_allclose(fit.params, coefficients, atol=1e-5)


@pytest.mark.slow
def test_rlm_of_statsmodels():
    import statsmodels.api as sm

    data = frame()
    fit = dpstats.huber("y ~ x1 + x2", data, eps=1e7, seed=1)
    model = sm.RLM(data["y"], sm.add_constant(data[["x1", "x2"]]), M=sm.robust.norms.HuberT(1.345))
    reference = model.fit(tol=1e-12, maxiter=500)
    again = dpstats.huber("y ~ x1 + x2", data, eps=1e7, c=1.345 * reference.scale / fit.sigma, seed=1)
    np.testing.assert_allclose(again.params, reference.params, atol=1e-5)
    np.testing.assert_allclose(again.bse, reference.bse, rtol=0.02)


def test_median_regression_as_c_goes_to_0():
    import statsmodels.api as sm

    data = frame()
    lad = sm.QuantReg(data["y"], sm.add_constant(data[["x1", "x2"]])).fit().params
    distance = [
        np.abs(
            dpstats.huber("y ~ x1 + x2", data, eps=1e7, c=c, seed=1).params.to_numpy() - lad.to_numpy()
        ).max()
        for c in (1.345, 0.02)
    ]
    assert distance[1] < 2e-3 and distance[1] <= distance[0]


@pytest.mark.slow
def test_intervals_cover():
    """The number covered is binomial at best; false alarm 1e-6."""
    covered = []
    for seed in range(60):
        g = np.random.default_rng(seed)
        x = g.standard_normal((5000, 2))
        data = pd.DataFrame(x, columns=["x1", "x2"]).assign(y=1 + x @ [2, -3] + g.standard_t(3, 5000))
        low, high = dpstats.huber("y ~ x1 + x2", data, eps=1, seed=seed).conf_int().to_numpy().T
        covered.append((low <= [1, 2, -3]) & (high >= [1, 2, -3]))
    assert np.sum(covered) > stats.binom.ppf(1e-6, 180, 0.92)


def test_more_efficient_than_least_squares_under_heavy_tails():
    data = frame()
    assert (
        dpstats.huber("y ~ x1 + x2", data, eps=1e6, seed=1).bse
        < dpstats.ols("y ~ x1 + x2", data, eps=1e6, seed=1).bse
    ).all()


def test_parameters():
    for arguments, message in (
        ({"c": 0}, "c must be"),
        ({"c": 5e-324}, "c must be a number from 1e-10 to 1e10"),
        ({"rounds": 5}, "rounds must be None or an integer of at least 6"),
    ):
        with pytest.raises(dpstats.ParameterError, match=message):
            dpstats.huber("y ~ x1", frame(), eps=1, **arguments)


def test_the_note_names_the_limit_of_a_residual(monkeypatch):
    seen, results = [], module._results
    monkeypatch.setattr(module, "_results", lambda *a: seen.append(a) or results(*a))
    fit = dpstats.huber("y ~ x1 + x2", frame(), eps=1, c=1.5, seed=1)
    ((_, _, release),) = seen
    limit = 1.5 * release.sigma * float(release.prepared.response.scale[0])
    assert fit.notes[-1].startswith(f"Residuals beyond {limit:.3g} count as if they were there. That limit")
    assert "Residual scale (MAD):" in str(fit.summary())
    assert fit.sigma == pytest.approx(limit / 1.5, rel=1e-12)


def test_rounds_start_with_least_squares_and_a_third_are_not_averaged(monkeypatch):
    """Two losses, in this order; the noise that the standard errors reckon with is that of Huber's rounds."""
    seen, release = [], module._release
    monkeypatch.setattr(module, "_release", lambda *a: seen.append((a[1], release(*a))) or seen[-1][1])
    fit = dpstats.huber("y ~ x1 + x2", frame(), eps=1, rounds=12, seed=1)
    ((budget, got),) = seen
    assert (budget.squares, budget.first, budget.averaged) == (3, 2, 7)
    assert (len(got.rounds.noises), got.rounds.burn) == (9, 2)
    assert fit.released["rounds"] == 12
    assert sum("gradients" in s.step for s in fit.guarantee.spends) == 12
    late = got.rounds.clip.norm / budget.mus["rounds"]
    np.testing.assert_allclose(got.rounds.noises[2:], late, rtol=1e-12)
    assert 0.5 < got.rounds.assumed < 1
