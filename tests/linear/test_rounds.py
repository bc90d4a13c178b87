"""Rounds of released scores: without noise, what they say of their noise, and what follows from it."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpstats.engines.local import Rows
from dpstats.linear import scores
from dpstats.linear.curvature import curvature_radius2
from dpstats.linear.loss import Huber, Squared
from dpstats.linear.prepare import Prepared
from dpstats.linear.rounds import Rounds, Walk, rounds_inference
from dpstats.mechanisms import noise
from dpstats.mechanisms.rng import Randomness

N, Q, SILENT = 6000, 3, 1e7
KEYS = "hessian", "limit", "first rounds", "rounds", "outer", "spread"
W = np.array([[1.0, 0.2, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.1]])
THETA = np.array([0.3, -0.2, 0.1])


def arrays(seed=0):
    g = np.random.default_rng(seed)
    X = g.standard_normal((N, Q))
    return X, X @ [1.0, -1.0, 0.5] + 0.5 * g.standard_normal(N)


def walk_on(X, y, averaged=3, winsorized=False, low=-np.inf, high=np.inf, **mus):
    """A walk on rows ``W' x`` from the first fit ``THETA``, as good as without noise but for `mus`."""
    raw = Prepared.raw(float(len(X)), Q)
    whitening = replace(raw.whitening, W=W, theta=THETA, sigma=1.0)
    prepared = replace(raw, whitening=whitening, low=np.full(Q, low), high=np.full(Q, high))
    budget = dict.fromkeys(KEYS, SILENT) | mus
    return Walk(Rows(X, y), prepared, winsorized, budget, averaged, Randomness(0))


def steps_by_hand(V, y, times, psi, curvature, start):
    """Iterates of the rounds without noise or clip, the start first."""
    path = [start]
    for _ in range(times):
        path.append(path[-1] + V.T @ psi(y - V @ path[-1]) / (len(V) * curvature))
    return path


def walked(walk, first, squares, loss, more, last=3):
    """Rounds as an estimator makes them: some to a start, then with a released clip; the last are averaged."""
    walk.guess_limit(squares)
    walk.rounds(squares, first, "first rounds")
    walk.restart()
    walk.limit(loss)
    walk.curve(loss)
    walk.rounds(loss, more, "first rounds")
    walk.rounds(loss, last, "rounds")
    return walk.finish(loss)


def clipped(V, r, clip):
    """What rows add to a score."""
    sizes = np.linalg.norm(V, axis=1) * np.abs(r)
    return V * (r * np.minimum(1, clip / np.maximum(sizes, 1e-300)))[:, None]


def test_rounds_of_least_squares_in_closed_form():
    """``u - target`` is multiplied by ``I - V'V/n`` in each round, and the last ones are averaged."""
    X, y = arrays()
    V, first = X @ W, np.linalg.solve(W, THETA)
    # nothing is clipped, the first rounds apart: their size is of a standard deviation of 1, three times so
    got = walked(walk_on(X, y), 2, Squared(1.0), Squared(1.0), 1)
    start = first
    for _ in range(2):
        start = start + clipped(V, y - V @ start, 3 * math.sqrt(Q)).sum(axis=0) / N
    target, contraction = np.linalg.lstsq(V, y, rcond=None)[0], np.eye(Q) - V.T @ V / N
    power = np.linalg.matrix_power
    iterates = [target + power(contraction, t) @ (start - target) for t in (2, 3, 4)]
    np.testing.assert_allclose(got.start, start, atol=1e-5)
    np.testing.assert_allclose(got.coefficients, np.mean(iterates, axis=0), atol=1e-5)
    np.testing.assert_allclose(got.hessian, V.T @ V / N, atol=1e-3)
    assert (got.burn, len(got.noises), got.assumed, got.curvature) == (1, 4, 1.0, 1.0)
    residuals = y - V @ got.coefficients
    assert got.psi2 == pytest.approx(np.mean(residuals**2), rel=1e-5)
    parts = V * residuals[:, None]
    np.testing.assert_allclose(got.outer, parts.T @ parts / N, rtol=0.02, atol=1e-3)


def test_rounds_of_huber_restart_where_least_squares_ends():
    X, y = arrays()
    V, squares, loss = X @ W, Squared(9.0), Huber(0.4, 0.6)
    got = walked(walk_on(X, y), 2, squares, loss, 1)
    start = steps_by_hand(V, y, 2, lambda r: r, 1.0, np.linalg.solve(W, THETA))[-1]
    path = steps_by_hand(V, y, 4, lambda r: np.clip(r, -0.4, 0.4), 0.6, start)
    np.testing.assert_allclose(got.start, start, atol=1e-5)
    np.testing.assert_allclose(got.coefficients, np.mean(path[-3:], axis=0), atol=1e-5)
    assert (got.burn, len(got.noises), got.assumed) == (1, 4, 0.6)
    residuals = y - V @ got.coefficients
    assert got.curvature == pytest.approx(np.mean(np.abs(residuals) < 0.4), rel=1e-4)
    assert got.psi2 == pytest.approx(np.mean(np.clip(residuals, -0.4, 0.4) ** 2), rel=1e-4)
    within = np.abs(y - V @ start) < 0.4
    np.testing.assert_allclose(got.hessian, V[within].T @ V[within] / N, atol=1e-4)


@pytest.mark.parametrize("winsorized", [True, False])
def test_rows_are_limited_if_they_are_winsorized(winsorized):
    X, y = arrays()
    walk = walk_on(X, y, winsorized=winsorized, low=-0.5, high=0.5)
    ((V, _),) = walk.rows
    np.testing.assert_allclose(V, (np.clip(X, -0.5, 0.5) if winsorized else X) @ W, atol=1e-12)


def test_limits_are_a_public_rule_and_then_read_off_the_counts():
    """Without noise and far rows: beyond all products, or at the tail that a budget can afford."""
    X, y = arrays()
    V = X @ W
    walk, loss = walk_on(X, y), Huber(0.4, 0.6)
    walk.guess_limit(loss)
    assert walk._clip.norm == pytest.approx(3 * 0.2 * math.sqrt(Q)) and walk._clip.bias == 0
    walk.limit(loss)
    products = np.linalg.norm(V, axis=1) * np.minimum(np.abs(y - V @ walk.u), 0.4)
    assert walk._clip.norm > 0.9 * products.max()
    dear = walk_on(X, y, rounds=0.005)
    dear.limit(loss)
    assert 2 * 0.2 * math.sqrt(Q) / math.sqrt(2) <= dear._clip.norm < walk._clip.norm


def test_noise_that_is_named_is_noise_that_was_drawn(monkeypatch):
    drawn, real = [], noise._add

    def add(values, law, sensitivity, budget, rng):
        drawn.append((np.shape(values), sensitivity / (1 + 2.0**-10) / budget))
        return real(values, law, sensitivity, budget, rng)

    monkeypatch.setattr(noise, "_add", add)
    X, y = arrays()
    mus = {"hessian": 0.3, "limit": 0.1, "first rounds": 0.05, "rounds": 0.2, "spread": 0.1, "outer": 0.25}
    got = walked(walk_on(X, y, **mus), 2, Squared(1.0), Squared(1.0), 1)
    scores_drawn = [sd for shape, sd in drawn if shape == (Q,)]
    # the noise of the first fit's rounds is forgotten with them: they lead to a start
    np.testing.assert_allclose(got.noises, scores_drawn[2:], rtol=1e-12)
    hessian, outer = (sd for shape, sd in drawn if shape == (Q * (Q + 1) // 2,))
    assert got.hessian_noise * N == pytest.approx(hessian, rel=1e-12)
    assert hessian == pytest.approx(curvature_radius2(Q, float(N), 0.3) / 0.3)
    assert got.outer_noise * N == pytest.approx(outer, rel=1e-12)
    assert got.clip.norm / mus["rounds"] == pytest.approx(got.noises[-1])


def test_each_release_has_its_own_budget(monkeypatch):
    """Counts, Gram matrix, each round, spread and outer products, at the parameter that names it, and nothing
    else."""
    seen = []

    def watched(name, place):
        real = getattr(scores, name)
        monkeypatch.setattr(scores, name, lambda *a: seen.append(a[place]) or real(*a))

    watched("gaussian", 2)
    watched("symmetric_gaussian", 2)
    X, y = arrays()
    mus = {"hessian": 0.31, "limit": 0.12, "first rounds": 0.05, "rounds": 0.24, "spread": 0.17, "outer": 0.29}
    walked(walk_on(X, y, **mus), 2, Squared(1.0), Huber(0.4, 0.6), 1)
    assert seen == [0.05, 0.05, 0.12, 0.31, 0.05, 0.24, 0.24, 0.24, 0.17, 0.29]


# -- inference ---------------------------------------------------------------------------------------------

SCALES = {"least squares": np.repeat([60.0, 15.0], [3, 6]), "huber": 900 * np.linspace(0.08, 0.03, 9)}
MADE_UP = {
    "least squares": dict(assumed=1.0, curvature=1.0, values=(1.0, 0.6), burn=3),
    "huber": dict(assumed=0.8, curvature=0.7, values=(1.0, 0.5), burn=2),
}


def made_up(name, **changes):
    """Rounds in two directions, one of which they do not get to the end of."""
    facts = {"noises": SCALES[name], "psi2": 1.7, "gram_noise": 0.0, "clip": 3.0} | MADE_UP[name] | changes
    gram = np.diag(facts.pop("values"))
    start, end = np.array([0.5, -0.5]), np.array([1.0, 2.5])
    prepared = SimpleNamespace(whitening=SimpleNamespace(share=np.ones(2)), count=900.0)
    return Rounds(start=start, coefficients=end, gram=gram, **facts), prepared


@pytest.mark.parametrize("name", MADE_UP)
def test_variance_is_that_of_its_parts(name):
    """Noise of every round through the later ones, sampling of an M-estimator, and squared bias."""
    rounds, prepared = made_up(name)
    T, kept = len(rounds.noises), range(rounds.burn, len(rounds.noises))
    expected, noises = [], []
    for value, moved in zip(np.diag(rounds.gram), (0.5, 3.0), strict=True):
        contraction = 1 - value * rounds.curvature / rounds.assumed
        weights = [np.mean([contraction ** (t - s) if t >= s else 0.0 for t in kept]) for s in range(T)]
        left = np.mean([contraction ** (t + 1) for t in kept])
        parts = (
            np.sum((np.array(weights) * rounds.noises / 900 / rounds.assumed) ** 2),
            (1 - left) ** 2 * rounds.psi2 / rounds.curvature**2 / (value * 900),
            (left / (1 - left) * moved) ** 2,
        )
        noises.append(parts[0] * value)
        expected.append(sum(parts))
    assert min(parts) > 0.01 * sum(parts)
    got = rounds_inference(rounds, prepared, "formula", "the start", "a note")
    np.testing.assert_allclose(got.cov, np.diag(expected), rtol=1e-12)
    assert got.noise == pytest.approx(sum(noises), rel=1e-12)
    assert got.corrected is None
    short, note = got.notes
    assert (
        short.startswith("The fit is shrunk towards the start along 1 of 2 directions") and note == "a note"
    )


@pytest.mark.parametrize("name", MADE_UP)
def test_the_bootstrap_takes_off_what_is_left_of_the_start(name):
    rounds, prepared = made_up(name, psi2=1e-12, noises=np.full(9, 1e-9))
    kept = range(rounds.burn, 9)
    contraction = 1 - np.diag(rounds.gram) * rounds.curvature / rounds.assumed
    left = np.mean([contraction ** (t + 1) for t in kept], axis=0)
    got = rounds_inference(rounds, prepared, "bootstrap", "the start", "").corrected
    np.testing.assert_allclose(
        got.estimates, (rounds.coefficients - left * rounds.start) / (1 - left), rtol=1e-5
    )
