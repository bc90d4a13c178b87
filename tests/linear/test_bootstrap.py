"""The parametric bootstrap: exact where it can be, calibrated where it cannot, and blind to the rows."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats
from dpstats.linear.bootstrap import DRAWS, bootstrap, rounds_response
from dpstats.regression import adassp, boosted_adassp, huber, ols

FAMILY = {"ols": ols, "adassp": adassp, "boosted_adassp": boosted_adassp, "huber": huber}
FORMULA = "y ~ a + b"
# a sample variance of DRAWS normal draws is off by more than this factor once in 10^6
SLACK = stats.chi2.isf([1 - 5e-7, 5e-7], DRAWS - 1) / (DRAWS - 1)


NONE = 1e-24 * np.eye(3)
"""Scores that do not vary."""


def frame(n=6000, seed=0):
    g = np.random.default_rng(seed)
    data = pd.DataFrame(g.standard_normal((n, 2)), columns=["a", "b"])
    return data.assign(y=1 + data["a"] - 2 * data["b"] + g.standard_normal(n))


def spread(q=3, seed=0):
    """A Gram matrix of uneven eigenvalues, and a target."""
    g = np.random.default_rng(seed)
    basis = np.linalg.qr(g.standard_normal((q, q)))[0]
    return basis @ np.diag(np.geomspace(50, 1000, q)) @ basis.T, g.standard_normal(q)


def one_step(A, noise):
    """``u = A^-1 (H u + sum v e + noise)``: one round from 0 that goes all the way."""
    return rounds_response(np.linalg.inv(A), np.zeros(len(A)), 0, np.array([noise]))


class TestLinearSystem:
    def test_takes_off_the_bias_of_a_ridge_exactly(self):
        G, target = spread()
        A = G + 200 * np.eye(3)
        corrected = bootstrap(np.linalg.solve(A, G @ target), G, 0.0, NONE, one_step(A, 0.0))
        np.testing.assert_allclose(corrected.estimates, target, rtol=1e-10)
        np.testing.assert_allclose(corrected.cov, 0, atol=1e-20)

    def test_covariance_is_the_formulas_without_bias(self):
        G, target = spread()
        variance, noise = 2.0, 12.0
        inverse = np.linalg.inv(G)
        expected = variance * inverse + noise**2 * inverse @ inverse
        corrected = bootstrap(target, G, 0.0, variance * G, one_step(G, noise))
        ratio = np.diagonal(corrected.cov) / np.diagonal(expected)
        assert (SLACK[0] < ratio).all() and (ratio < SLACK[1]).all()

    def test_scores_are_drawn_from_their_own_covariance(self):
        """Not from the Gram matrix: errors need not have the same variance everywhere."""
        G, target = spread()
        scores = spread(seed=5)[0]
        inverse = np.linalg.inv(G)
        corrected = bootstrap(target, G, 0.0, scores, one_step(G, 0.0))
        ratio = np.diagonal(corrected.cov) / np.diagonal(inverse @ scores @ inverse)
        assert (SLACK[0] < ratio).all() and (ratio < SLACK[1]).all()

    def test_noise_of_the_gram_matrix_is_in_the_covariance(self):
        G, target = 1000 * np.eye(3), np.array([3.0, -2.0, 1.0])
        s = 10.0
        expected = s**2 / 2 * (target @ target * np.eye(3) + np.outer(target, target)) / 1000**2
        corrected = bootstrap(target, G, s, NONE, one_step(G, 0.0))
        ratio = np.diagonal(corrected.cov) / np.diagonal(expected)
        assert (SLACK[0] < ratio).all() and (ratio < SLACK[1]).all()

    def test_intervals_cover_what_the_ridge_hides(self):
        """A known ridge of four times the smallest eigenvalue; exact binomial bounds, false alarm 1e-6
        each."""
        G, target = spread()
        A, noise, runs = G + 200 * np.eye(3), 12.0, 400
        g = np.random.default_rng(3)
        plain, covered = np.zeros(3), np.zeros(3)
        root = np.linalg.cholesky(G)
        for _ in range(runs):
            cross = G @ target + root @ g.standard_normal(3) + noise * g.standard_normal(3)
            estimates = np.linalg.solve(A, cross)
            corrected = bootstrap(estimates, G, 0.0, G, one_step(A, noise))
            se = np.sqrt(np.diagonal(corrected.cov))
            covered += np.abs(corrected.estimates - target) < 1.96 * se
            plain += np.abs(estimates - target) < 1.96 * se
        low, high = stats.binom.ppf([1e-6, 1 - 1e-6], runs, 0.95)
        assert (low <= covered).all() and (covered <= high).all()
        assert plain.min() < low  # the same intervals around the biased estimates would be caught

    def test_a_direction_that_is_all_ridge_stays_finite(self):
        G = np.diag([1000.0, 0.0])
        corrected = bootstrap(
            np.array([1.0, 0.5]), G, 30.0, G + 30 * np.eye(2), one_step(G + 100 * np.eye(2), 30.0)
        )
        assert np.isfinite(corrected.estimates).all() and np.isfinite(corrected.cov).all()
        assert corrected.cov[1, 1] > 10 * corrected.cov[0, 0]


class TestRounds:
    def test_response_is_that_of_the_rounds(self):
        H, target = spread()
        step, start = np.eye(3) / 1500, np.array([1.0, 0.0, -1.0])
        u, kept = start, []
        for t in range(9):
            u = u + step @ (H @ (target - u))
            kept += [u] * (t >= 3)
        L, c = rounds_response(step, start, 3, np.zeros(9))(
            H[None], np.zeros((1, 3)), np.random.default_rng(0)
        )
        np.testing.assert_allclose(L[0] @ target + c[0], np.mean(kept, axis=0), rtol=1e-12)

    def test_takes_off_what_is_left_of_the_start(self):
        H, target = spread()
        response = rounds_response(np.eye(3) / 1500, np.array([1.0, 0.0, -1.0]), 3, np.zeros(9))
        L, c = response(H[None], np.zeros((1, 3)), np.random.default_rng(0))
        estimates = L[0] @ target + c[0]
        assert np.abs(estimates - target).max() > 0.1
        np.testing.assert_allclose(bootstrap(estimates, H, 0.0, NONE, response).estimates, target, rtol=1e-8)

    def test_noise_of_the_rounds(self):
        """With a step that goes all the way, the average of T rounds has the noise of one over T."""
        response = rounds_response(np.eye(2) / 100, np.zeros(2), 1, np.full(5, 30.0))
        corrected = bootstrap(np.ones(2), 100 * np.eye(2), 0.0, NONE[:2, :2], response)
        ratio = np.diagonal(corrected.cov) / (0.3**2 / 4)
        assert (SLACK[0] < ratio).all() and (ratio < SLACK[1]).all()


@pytest.mark.parametrize("name", FAMILY)
class TestPublic:
    def test_is_a_function_of_the_release(self, name, monkeypatch):
        """Same release twice, the rows gone: the same answer."""
        held = []
        original = FAMILY[name]._results

        def keep(*arguments):
            held.append(arguments)
            return original(*arguments)

        monkeypatch.setattr(FAMILY[name], "_results", keep)
        fit = getattr(dpstats, name)(FORMULA, frame(), eps=1, seed=1, cov_type="bootstrap")
        assert original(*held[0]).to_dict() == fit.to_dict()

    def test_costs_nothing_and_changes_only_what_it_says(self, name):
        formula, fit = (
            getattr(dpstats, name)(FORMULA, frame(), eps=1, seed=1, cov_type=kind)
            for kind in ("robust", "bootstrap")
        )
        assert fit.guarantee == formula.guarantee
        assert dict(fit.released) == dict(formula.released)
        assert "bootstrap of 1,000 simulated releases" in " ".join(fit.notes)
        assert "simulated" not in " ".join(formula.notes)
        ratio = fit.bse / formula.bse
        assert ((0.75 < ratio) & (ratio < 1.6)).all()
        assert (np.abs(fit.params - formula.params) < formula.bse).all()

    def test_default_and_mistakes(self, name):
        estimator = getattr(dpstats, name)
        default, formula = (
            estimator(FORMULA, frame(), eps=1, seed=2, **k) for k in ({}, {"cov_type": "robust"})
        )
        assert default == formula
        with pytest.raises(
            dpstats.ParameterError, match="cov_type must be one of 'robust', 'nonrobust', 'bootstrap'"
        ):
            estimator(FORMULA, frame(), eps=1, cov_type="HC3")

    @pytest.mark.slow
    def test_groups_and_flat_responses(self, name):
        data = frame(12_000).assign(g=np.repeat(["u", "v"], 6000))
        fits = getattr(dpstats, name)(
            FORMULA, data, eps=2, by="g", levels={"g": ["u", "v"]}, seed=1, cov_type="bootstrap"
        )
        assert all("bootstrap" in " ".join(fits[level].notes) for level in fits)
        flat = getattr(dpstats, name)(FORMULA, frame().assign(y=1.0), eps=1, seed=1, cov_type="bootstrap")
        assert flat.cov is None


def test_not_offered_where_nothing_is_released_to_simulate_from():
    with pytest.raises(TypeError, match="cov_type"):
        dpstats.gradient_descent(FORMULA, frame(), eps=1, cov_type="bootstrap")
