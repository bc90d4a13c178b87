"""NoisyStats: least squares at a large budget, the sensitivity of its statistics, and how it fails."""

import itertools
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

import dpstats
from dpstats import FormulaError, Ledger, ParameterError, ReleaseFailed
from dpstats.mechanisms.rng import Randomness
from dpstats.regression import noisy_stats as module

BOUNDS = {"x": (-5.0, 15.0), "y": (-100.0, 300.0)}
GUARANTEE = dpstats.Guarantee(1, 0, "substitution", "pure", ())


def blocks(x, y):
    return [(np.column_stack([np.ones(len(x)), x]), np.reshape(y, (-1, 1)))]


def frame(n=2000, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 10, n)
    return pd.DataFrame({"x": x, "y": 30 - 2 * x + 5 * generator.standard_normal(n)})


class TestEstimate:
    def test_is_least_squares_at_a_large_budget(self):
        data = frame()
        fit = dpstats.noisy_stats("y ~ x", data, eps=1e9, bounds=BOUNDS, seed=1)
        slope, intercept = np.polyfit(data["x"], data["y"], 1)
        assert fit.params.to_numpy() == pytest.approx([intercept, slope], rel=1e-5)

    def test_bounds_clip(self):
        data = frame()
        data.loc[0, "y"] = 1e9
        clipped = data.assign(y=data["y"].clip(-100, 300))
        fits = [dpstats.noisy_stats("y ~ x", d, eps=1, bounds=BOUNDS, seed=1) for d in (data, clipped)]
        assert fits[0] == fits[1]

    def test_results(self):
        fit = dpstats.noisy_stats("y ~ x", frame(), eps=2, bounds=BOUNDS, seed=1)
        assert fit.nobs == 2000 and np.isnan(fit.bse).all() and "not released" in str(fit)
        assert (fit.guarantee.neighbours, fit.guarantee.kind, fit.guarantee.delta) == (
            "substitution",
            "pure",
            0,
        )
        assert sum(s.eps for s in fit.guarantee.spends) == pytest.approx(2)

    def test_groups(self):
        data = frame().assign(g=np.repeat(["a", "b"], 1000))
        fits = dpstats.noisy_stats(
            "y ~ x", data, eps=1e6, bounds=BOUNDS, by="g", levels={"g": ["a", "b"]}, seed=3
        )
        assert fits.params["x"].to_numpy() == pytest.approx([-2, -2], abs=0.3)

    @pytest.mark.slow
    def test_noise_of_the_slope_follows_its_closed_form(self, monkeypatch):
        """With the variance left exact, ``(slope - b) nvar eps_each`` is standard Laplace (KS at 1e-6)."""
        data = frame(400)
        real = module.laplace

        def exact(value, s, eps, rng):
            return real(value, s, eps, rng) if abs(value - covariance) < 1e-9 else np.asarray(value)

        u, v = (data["x"] + 5) / 20, (data["y"] + 100) / 400
        u, v = u - u.mean(), v - v.mean()
        covariance = float(np.sum(u * v))
        monkeypatch.setattr(module, "laplace", exact)
        slopes = [
            dpstats.noisy_stats("y ~ x", data, eps=1, bounds=BOUNDS, seed=s).params["x"] / 20
            for s in range(400)
        ]
        z = (np.array(slopes) * float(np.sum(u * u)) - covariance) * 0.3
        assert kstest(z, "laplace").pvalue > 1e-6
        assert kstest(z * 3, "laplace").pvalue < 1e-6


class TestSensitivity:
    """What the noise of each step is added to, over what that noise is for, as the release itself makes
    them."""

    @staticmethod
    def steps(x, y, slope):
        """Statistic and sensitivity of the four steps in the unit square, at answers that give this slope."""
        seen, answers = [], iter((10.0, 1.0, slope, 0.0))

        def played(value, sensitivity, eps, rng):
            seen.append((float(value), sensitivity))
            return next(answers)

        budget = module._Budget(GUARANTEE, len(x), (0.0, 1.0), (0.0, 1.0), 1.0, 1.0)
        with mock.patch.object(module, "laplace", played):
            module._release(blocks(x, y), budget, Randomness(1))
        return np.array(seen)

    @classmethod
    def largest_moves(cls, slope):
        """Of the steps, when a record is replaced, added or removed."""
        generator = np.random.default_rng(0)
        corners = list(itertools.product((0.0, 0.5, 1.0), repeat=2))
        worst = np.zeros(4)
        for n in (0, 1, 2, 3, 6, 30):
            for _ in range(30):
                x, y = generator.choice([0.0, 0.3, 1.0], (2, n)) * generator.integers(0, 2, (2, 1))
                variants = [cls.steps(x, y, slope)]
                variants += [cls.steps(np.append(x, a), np.append(y, b), slope) for a, b in corners]
                worst = np.maximum(worst, np.ptp(variants, axis=0)[:, 0] / variants[0][:, 1])
        return worst

    @pytest.mark.slow
    @pytest.mark.parametrize("slope", [-3.0, 0.0, 0.7, 10.0])
    def test_no_record_moves_a_step_by_more_than_its_noise_is_for(self, slope):
        worst = self.largest_moves(slope)
        assert (worst <= 1).all() and (worst > 0.9).all()

    @pytest.mark.slow
    def test_of_the_test_uncentred_sums_are_caught(self, monkeypatch):
        """Without the means the sum of products moves as the mean of the others asks for."""
        monkeypatch.setattr(module.np, "mean", lambda z: -1.0)
        assert self.largest_moves(0.7).max() > 1


class TestFailures:
    def test_constant_column(self):
        """The noise of the variance is symmetric, so half the releases fail: 40 of them never all agree
        (2^-39)."""
        data, outcomes = frame(50).assign(x=3.0), []
        for seed in range(40):
            ledger = Ledger(":memory:", eps=5, delta=0)
            try:
                dpstats.noisy_stats("y ~ x", data, eps=1, bounds=BOUNDS, ledger=ledger, seed=seed)
                outcomes.append(True)
            except ReleaseFailed as failure:
                assert "is not positive" in str(failure) and failure.guarantee.eps == pytest.approx(0.4)
                assert ledger.remaining("substitution")[0] == pytest.approx(4.6)
                outcomes.append(False)
        assert set(outcomes) == {True, False}

    def test_no_usable_row(self):
        """Count and variance are noise alone: both positive in a quarter of the releases (0.75^60 = 3e-8)."""
        data, failed = frame(20).assign(y=np.nan), 0
        for seed in range(60):
            try:
                dpstats.noisy_stats("y ~ x", data, eps=1, bounds=BOUNDS, seed=seed)
            except ReleaseFailed:
                failed += 1
        assert 20 < failed < 60

    @pytest.mark.parametrize(
        "bounds", [None, {"x": (0, 1)}, {"y": (0, 1)}, {"x": (-1e308, 1e308), "y": (0, 1)}]
    )
    def test_bounds_are_required(self, bounds):
        with pytest.raises(ParameterError, match="needs finite public bounds of every column"):
            dpstats.noisy_stats("y ~ x", frame(), eps=1, bounds=bounds)

    def test_other_formulas(self):
        with pytest.raises(FormulaError, match="a constant and one column"):
            dpstats.noisy_stats("y ~ x + I(x**2)", frame(), eps=1, bounds=BOUNDS)


def test_release_takes_public_units():
    """The map to [0, 1] and back is that of the bounds, not of the data."""
    budget = module._Budget(GUARANTEE, 3, (0.0, 10.0), (0.0, 4.0), 1e12, 1e12)
    x = np.array([0.0, 5.0, 10.0])
    line = module._release(blocks(x, 1 + 0.3 * x), budget, Randomness(1))
    assert (line.intercept, line.slope) == (pytest.approx(1, abs=1e-4), pytest.approx(0.3, abs=1e-4))
