"""The private mean: NumPy's without noise, Huber's location with a clip, coverage, degenerate columns."""

import math
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
from dpstats.location.tail import Limit
from dpstats.results.table import format_ends


def frame(n=5000, seed=0):
    g = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "x": 7 + 3 * g.standard_normal(n),
            "y": g.exponential(5, n),
            "year": 1990.0 + g.integers(0, 20, n),
            "z": g.lognormal(0, 1, n),
        }
    )


@pytest.mark.parametrize("bounds", [None, {"x": (-20, 30), "y": (0, 100), "year": (1900, 2100)}])
def test_numpys_means_and_standard_errors_as_eps_grows(bounds):
    data = frame()
    data = data.drop(columns="z")
    fit = dpstats.mean("x + y + year ~ 1", data, eps=1e7, bounds=bounds, seed=1)
    np.testing.assert_allclose(fit.params, data.mean(), rtol=1e-5)
    spread = np.sqrt(((data - data.mean()) ** 2).mean() / len(data))
    np.testing.assert_allclose(fit.bse, spread, rtol=0.01)


def test_hubers_location_with_a_clip():
    y = frame()["y"].to_numpy()
    fit = dpstats.mean("y ~ 1", {"y": y}, eps=1e7, clip=1.0, rounds=40, seed=1)
    ((name, low, high),) = fit.limited
    assert name == "y" and f"y [{low:.2f}, {high:.2f}]" in fit.notes[0]
    tau = (high - low) / 2
    root = optimize.brentq(lambda m: np.clip(y - m, -tau, tau).sum(), 0, 10)
    assert fit.params["y"] == pytest.approx(root, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("column, truth", [("x", 7.0), ("y", 5.0), ("year", 1999.5), ("z", np.exp(0.5))])
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
    assert fit.notes[-1] == (
        "No variation beyond the privacy noise: c. What is given is where most values are; the mean is not "
        "determined, as values far out may go unseen."
    )


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
    u, variance, psi2 = module._huber(Rows(np.ones((5, 1)), np.zeros(5)), tau, budget, count, None)
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
    assert psi2 == pytest.approx(square * tau**2)
    assert min(noise, miscount, sampling) > 0.005 * variance


def test_variance_of_a_mean_is_that_of_its_parts(monkeypatch):
    """Noise, noise of the count, the bound on what the limits take off, and sampling."""
    count, tau, mus = 400.0, 2.5, {"rounds": 0.2, "count": 0.05, "moments": 0.1}
    limit = Limit(tau, 0.03, 0.04, True, 0.6, np.array([0.02, 0.01]), np.array([2.0, 9.0]))
    cuts = []
    monkeypatch.setattr(module, "product_gradient", lambda *a: np.array([100.0]))
    monkeypatch.setattr(module, "residual_variance", lambda rows, u, cut, *a: cuts.append(cut) or 1.7)
    budget = SimpleNamespace(mus=mus)
    u, variance, mean_square, within, se, more = module._mean(None, tau, limit, budget, count, None)
    beyond = 0.02 * (4 - cuts[0]) + 0.01 * (tau**2 - cuts[0])
    parts = [(tau / 0.2 / count) ** 2, (0.25 / 0.05 / count) ** 2, 0.04**2, (1.7 + beyond) / count]
    assert (mean_square, within, more) == pytest.approx((1.7 + beyond, 1.7, beyond))
    noise, fourth = cuts[0] / 0.1 / count, 0.02 * min(4.0, cuts[0]) ** 2 + 0.01 * cuts[0] ** 2
    assert se == pytest.approx(math.hypot(noise, 1.7 / 0.05 / count, max(fourth - 1.7**2, 0) ** 0.5 / 20))
    assert u == 0.25 + 0.03 and cuts == [9 * 0.6**2]
    assert variance == pytest.approx(sum(parts), rel=1e-12) and min(parts) > 0.005 * variance


@pytest.mark.parametrize("followed", [True, False])
def test_noise_of_a_mean_square_does_not_decide_whether_it_is_given(monkeypatch, followed):
    """Of squares of 4 standard deviations of their noise those are given that noise has made small, too."""
    limit = Limit(2.0, 0.0, 0.0, followed, 0.6, np.array([0.1, *np.zeros(80)]), np.full(81, 0.6))
    noise = 9 * 0.36 / 0.1
    monkeypatch.setattr(module, "product_gradient", lambda *a: np.zeros(1))

    def given(count, square):
        monkeypatch.setattr(module, "residual_variance", lambda *a: square)
        mus = {"rounds": 0.2, "count": 0.05, "moments": 0.1}
        _, _, found, within, se, _ = module._mean(None, 2.0, limit, SimpleNamespace(mus=mus), count, None)
        assert within == square and se >= noise / count
        return math.isfinite(found)

    # 36 in units of the noise of a count, and somewhat less
    assert given(365.0, 2.1 * noise / 365) and given(365.0, 9 * noise / 365)
    assert not given(355.0, 9 * noise / 355) and not given(365.0, 1.9 * noise / 365)


def test_a_mean_says_how_many_rows_may_go_unseen():
    """4.5 standard deviations of the noise of a count; where values are moved into limits it says that."""
    fit = dpstats.mean("x + y ~ 1", frame(20_000), eps=1, seed=0)
    (mu,) = {spend.mu for spend in fit.guarantee.spends if spend.step == "rows by distance"}
    (note,) = fit.notes
    rows = float(f"{4.5 / mu:.1g}")
    assert note.startswith(
        f"Some {rows:.0f} rows of about one size, and more of several sizes, may go unseen"
    )
    assert "unseen beyond x [" in note
    assert note.endswith("]; the interval may not allow for these.") and "y [" in note
    assert "may go unseen" not in " ".join(dpstats.mean("y ~ 1", frame(), eps=1, clip=2.0, seed=0).notes)


@pytest.mark.slow
def test_intervals_of_costs_with_a_few_far_out_hold():
    """150 or 200 of 20,000 rows, which hardly a cell shows by itself. The number that holds is binomial at
    best; false alarm 1e-6."""
    for share, least in ((0.0075, 0.9), (0.01, 0.93)):
        truth = (1 - share) * 120 + share * math.exp(9.32)
        held = []
        for seed in range(100):
            g = np.random.default_rng(1000 + seed)
            y = np.where(g.random(20_000) < share, g.lognormal(9, 0.8, 20_000), g.gamma(2, 60, 20_000))
            fit = dpstats.mean("y ~ 1", {"y": y}, eps=1, seed=seed)
            low, high = fit.conf_int().loc["y"]
            held += [low <= truth <= high] * (not fit.limited)
        assert len(held) > 90 and sum(held) > stats.binom.ppf(1e-6, len(held), least)


def test_sampling_variance_of_rare_ones_within_bounds():
    """A 0/1 column with bounds: the standard error is that of a share, of the count and of the noise."""
    y = (np.arange(20_000) < 200) * 1.0
    fits = [dpstats.mean("y ~ 1", {"y": y}, eps=3, bounds={"y": (0, 1)}, seed=s) for s in range(30)]
    mus = {spend.step: spend.mu for spend in fits[0].guarantee.spends}
    noise = (0.5 / mus["limited means"] / 2e4) ** 2 + (0.49 / mus["number of rows"] / 2e4) ** 2
    assert np.mean([fit.bse["y"] ** 2 for fit in fits]) == pytest.approx(noise + 0.0099 / 2e4, rel=0.05)
    assert not any(fit.limited or len(fit.notes) > 1 for fit in fits)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["log-normal", "exponential", "Pareto", "zeros"])
def test_intervals_of_skewed_columns_cover(law):
    """The number covered is binomial at best; false alarm 1e-6."""
    draw, truth = {
        "log-normal": (lambda g: g.lognormal(0, 1.5, 5000), np.exp(1.125)),
        "exponential": (lambda g: g.exponential(1, 5000), 1.0),
        "Pareto": (lambda g: g.pareto(2.5, 5000), 1 / 1.5),
        "zeros": (lambda g: (g.random(5000) < 0.2) * g.lognormal(0, 1, 5000), 0.2 * np.exp(0.5)),
    }[law]
    covered = 0
    for seed in range(100):
        fit = dpstats.mean("y ~ 1", {"y": draw(np.random.default_rng(seed))}, eps=2, seed=seed)
        low, high = fit.conf_int().to_numpy()[0]
        assert not fit.limited
        covered += low <= truth <= high
    assert covered > stats.binom.ppf(1e-6, 100, 0.93)


def test_few_rows_give_the_mean_of_limited_values_and_say_so_in_the_line():
    y = np.random.default_rng(0).lognormal(0, 1, 1000)
    fit = dpstats.mean("y ~ 1", {"y": y}, eps=1, seed=1)
    ((name, low, high),) = fit.limited
    inside = np.clip(y, low, high).mean()
    assert abs(fit.params["y"] - inside) < 5 * fit.bse["y"]
    assert name == "y" and 0 < high < y.max()
    lines = str(fit.summary()).splitlines()
    (at,) = [i for i, line in enumerate(lines) if line.startswith("y, limited to ")]
    assert lines[at + 1].strip() == format_ends(low, high)
    assert "how many lie further out" in fit.notes[0]
    data = {"y": y, "g": ["a"] * len(y)}
    groups = dpstats.mean("y ~ 1", data, eps=1, by="g", levels={"g": ["a"]}, seed=1)
    (limits,) = groups.results["a"].limited
    lines = str(groups.summary()).splitlines()
    (at,) = [i for i, line in enumerate(lines) if line.startswith("a: y, limited to ")]
    assert lines[at + 1].strip() == format_ends(*limits[1:])


def test_little_variation_far_from_zero():
    """The resolution of the location at 1e6 is 8: what varies within it is averaged, and called limited."""
    y = 1e6 + np.random.default_rng(0).uniform(-1, 1, 20_000)
    fit = dpstats.mean("y ~ 1", {"y": y}, eps=0.5, seed=1)
    assert abs(fit.params["y"] - 1e6) < 5 * fit.bse["y"] < 1


def test_rows_too_rare_for_a_scale_are_not_called_no_variation_within_a_tiny_unit():
    y = (np.random.default_rng(0).random(1000) < 0.05) * 7.0
    fit = dpstats.mean("y ~ 1", {"y": y}, eps=1, seed=1)
    assert np.isnan(fit.bse["y"]) and not fit.limited


def test_tidy_has_the_limits():
    """Of a skewed column and of one that is not limited; of groups; of a description, with its deviation."""
    g = np.random.default_rng(1)
    frame = pd.DataFrame({"y": np.exp(6 + 1.2 * g.standard_normal(1_000)), "g": "a"})
    fit = dpstats.mean("y ~ 1", frame, eps=0.5, seed=1)
    (limits,) = fit.limited
    assert fit.tidy()[["limited.low", "limited.high"]].iloc[0].tolist() == list(limits[1:])
    fits = dpstats.mean("y ~ 1", frame, eps=0.5, by="g", levels={"g": ["a", "b"]}, seed=1)
    found = fits.tidy().set_index("g")[["limited.low", "limited.high"]]
    assert found.loc["a"].tolist() == list(fits["a"].limited[0][1:])
    assert "limited to" in str(fits)
    described = dpstats.describe(frame[["y"]], eps=1, seed=1)
    table = described.tidy().set_index("statistic")["limited.high"]
    assert table.dropna().to_dict() == dict.fromkeys(["mean", "sd"], described.limited[0][2])
    bounded = dpstats.mean("y ~ 1", frame, eps=1, bounds={"y": (0, 50_000)}, seed=1)
    assert bounded.limited or "limited.low" not in bounded.tidy()


@pytest.mark.parametrize(("together", "given"), [(0, True), (1, False)])
def test_a_standard_deviation_that_rests_on_cells_seen_together_is_hidden(monkeypatch, together, given):
    """Noise makes such cells too large: of a mean it is in the error, and a standard deviation has none."""
    share, sizes = np.array([0.5, 0.1, *np.zeros(80)]), np.array([0.6, 9.0, *np.full(80, 9.0)])
    limit = Limit(9.0, 0.0, 0.0, True, 0.6, share, sizes, together)
    monkeypatch.setattr(module, "product_gradient", lambda *a: np.zeros(1))
    monkeypatch.setattr(module, "residual_variance", lambda *a: 1.0)
    mus = {"rounds": 0.2, "count": 0.05, "moments": 0.1}
    _, variance, found, *_ = module._mean(None, 9.0, limit, SimpleNamespace(mus=mus), 4_000.0, None)
    assert math.isfinite(found) == given and math.isfinite(variance)


def test_bounds_whose_width_overflows():
    fit = dpstats.mean("y ~ 1", {"y": np.zeros(5_000)}, eps=1, bounds={"y": (-1e308, 1e308)}, seed=1)
    assert np.isfinite(fit.params["y"])  # its variance is beyond the doubles, and it is not determined
