"""A response with one value in nearly all rows, or with a few far out: intervals hold, or are not printed."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats

ESTIMATORS = ("ols", "adassp", "boosted_adassp")


def rare(n, events, seed, zero=0.0, one=1.0):
    """A response that is `one` in about so many rows, more of them where x is large, and else `zero`; and
    the coefficients of its projection."""
    rng = np.random.default_rng([n, events, seed])
    x = rng.standard_normal(n)
    share = events / n
    answer = rng.random(n) < share * np.exp(0.3 * x - 0.045)
    truth = [zero + (one - zero) * share, 0.3 * (one - zero) * share]
    return pd.DataFrame({"x": x, "y": np.where(answer, one, zero)}), truth


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(
    "n, events, given",
    [
        (20_000, 80, {}),
        (2_000, 72, {}),
        (2_000, 72, {"bounds": {"y": (0, 1)}}),
        (20_000, 80, {"zero": 5.0, "one": 6.5}),
        (20_000, 240, {}),
    ],
)
def test_intervals_hold_or_are_not_printed(name, n, events, given):
    """20 sets; without the rule some 5 to 50 % held."""
    given = dict(given)
    bounds, held = given.pop("bounds", None), []
    for seed in range(20):
        frame, truth = rare(n, events, seed, **given)
        ends = getattr(dpstats, name)("y ~ x", frame, eps=1, seed=seed, bounds=bounds).conf_int()
        held += list(((ends[0] <= truth) & (truth <= ends[1]))[ends[0].notna()])
    assert sum(held) >= stats.binom.ppf(1e-6, len(held), 0.93)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_rows_that_are_enough_are_seen(name):
    frame, truth = rare(20_000, 1_000, 1)
    fit = getattr(dpstats, name)("y ~ x", frame, eps=1, seed=1)
    assert np.all(np.abs(fit.params - truth) < 5 * fit.bse)


def test_a_response_of_a_rare_group_that_explains_it():
    """Few rows differ, and their residuals are as those of the others."""
    rng = np.random.default_rng(0)
    treated = rng.random(20_000) < 0.03
    y = np.where(treated, 10 + rng.standard_normal(20_000), 0.0)
    frame = pd.DataFrame({"treated": treated, "y": y}).astype({"treated": "boolean"})
    fit = dpstats.ols("y ~ treated", frame, eps=2, seed=1)
    assert np.all(fit.bse < 1) and abs(fit.params.iloc[1] - 10) < 5 * fit.bse.iloc[1]


@pytest.mark.slow
def test_bounds_whose_middle_is_far_away_explain_nothing():
    """The constant is then most of the response's mean square about it, and its noise looks like columns."""
    for seed in range(40):
        frame, _ = rare(20_000, 72, seed)
        frame["z"] = np.random.default_rng(seed).standard_normal(20_000)
        fit = dpstats.ols("y ~ x + z", frame, eps=1, seed=seed, bounds={"y": (0, 1)})
        assert fit.bse.isna().all(), seed


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_said_of_too_few(name):
    frame, _ = rare(20_000, 72, 3)
    fit = getattr(dpstats, name)("y ~ x", frame, eps=1, seed=3, bounds={"y": (0, 1)})
    text = " ".join(str(fit.summary()).split())
    assert fit.bse.isna().all() and "For a 0/1 response take logit." in text
    assert not {"sigma", "rsquared"} & set(fit.released)
    with pytest.raises(dpstats.NotReleased):
        _ = fit.rsquared


@pytest.mark.slow
def test_rows_far_out_that_the_residuals_alone_show():
    """200 of 2,000 rows, a thousand times as far out: the counts of the response hardly show them."""
    held = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, far = rng.standard_normal(2_000), rng.random(2_000) < 0.1
        frame = pd.DataFrame({"x": x, "y": np.where(far, 1_000.0, 0.0) + rng.standard_normal(2_000)})
        ends = dpstats.ols("y ~ x", frame, eps=1, seed=seed).conf_int().loc["Intercept"]
        if not np.isnan(ends[0]):
            held.append(ends[0] <= 100 <= ends[1])
    assert held.count(False) <= 1


def test_without_a_standardisation_there_is_nothing_to_compare():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 5_000)
    frame = pd.DataFrame({"x": x, "y": 50 * (x + rng.uniform(-1, 1, 5_000))})
    more = {"standardize": False, "bounds": {"x": (-1, 1), "y": (-100, 100)}}
    fit = dpstats.adassp("y ~ x", frame, eps=5, seed=1, **more)
    assert fit.rsquared > 0 and not any("very far out" in note for note in fit.notes)
