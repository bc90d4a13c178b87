"""Rounds of released scores: without noise, what they say of their noise, and what follows from it."""

import itertools
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats
from dpstats.engines.local import Rows
from dpstats.linear import rounds, scores
from dpstats.linear.bootstrap import DRAWS
from dpstats.linear.clip import Clip
from dpstats.linear.curvature import curvature_radius2
from dpstats.linear.identify import Seen, undetermined
from dpstats.linear.loss import Huber, Squared
from dpstats.linear.misfit import with_misfit
from dpstats.linear.prepare import Prepared
from dpstats.linear.refusals import check_directions
from dpstats.linear.rounds import Rounds, Walk
from dpstats.linear.rounds_inference import rounds_inference
from dpstats.linear.skew import PART
from dpstats.mechanisms import noise
from dpstats.mechanisms.rng import Randomness

N, Q, SILENT = 6000, 3, 1e7
KEYS = "hessian", "limit", "first rounds", "rounds", "outer", "spread", "excess", "skewness"
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


def walked(walk, first, squares, loss):
    """Rounds as an estimator makes them: some to a start, then with a released clip, the last averaged."""
    walk.guess_limit(squares)
    walk.rounds(squares, first, "first rounds")
    walk.restart()
    walk.limit(loss)
    walk.curve(loss)
    walk.rounds(loss, 1, "first rounds")
    walk.rounds(loss, 3, "rounds")
    return walk.finish(loss)


def clipped(V, r, clip):
    """What rows add to a score."""
    sizes = np.linalg.norm(V, axis=1) * np.abs(r)
    return V * (r * np.minimum(1, clip / np.maximum(sizes, 1e-300)))[:, None]


def test_rounds_of_least_squares_in_closed_form():
    """``u - target`` is multiplied by ``I - V'V/n`` in each round, and the last ones are averaged."""
    X, y = arrays()
    V, first = X @ W, np.linalg.solve(W, THETA)
    # nothing is clipped, the first rounds apart: their size is of a standard deviation of 1, 2.5 times so
    got = walked(walk_on(X, y), 2, Squared(1.0), Squared(1.0))
    start = first
    for _ in range(2):
        start = start + clipped(V, y - V @ start, 2.5 * math.sqrt(Q)).sum(axis=0) / N
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
    got = walked(walk_on(X, y), 2, squares, loss)
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


@pytest.mark.parametrize("loss", [Squared(1.0), Huber(0.4, 0.6)], ids=["least squares", "huber"])
def test_a_known_curvature_makes_a_round_a_step_of_newtons_method(loss):
    """Then ``I - P A`` is about 0, where ``I - A`` is not: what is known is the matrix of the rows."""
    X, y = arrays()
    walk = walk_on(X, y)
    whitening = replace(walk.prepared.whitening, spread=np.full(Q, 1e3))
    walk.prepared = replace(walk.prepared, whitening=whitening)
    got = walked(walk, 2, Squared(9.0), loss)
    np.testing.assert_allclose(got.precondition, got.assumed * np.linalg.inv(got.hessian), rtol=1e-4)
    if isinstance(loss, Squared):
        # as far as nothing is clipped, least squares after one round
        np.testing.assert_allclose(got.coefficients, np.linalg.lstsq(X @ W, y)[0], atol=2e-4)


def test_directions_hidden_by_noise_are_not_gone_along_too_far():
    """An eigenvalue counts as at least four standard deviations of its noise, and 35 % of the aim."""
    gram, wide = np.diag([1.0, 0.2, 0.01]), np.full(3, 1e6)
    np.testing.assert_allclose(Seen(gram, 0.1, gram, wide).steps(1.0), np.diag([1, 2.5, 2.5]), rtol=0.3)
    np.testing.assert_allclose(
        Seen(gram, 1e-9, gram, wide).steps(0.5), np.diag([0.5, 2.5, 1 / 0.35]), rtol=1e-6
    )


def hidden_curvature(mus=None):
    """Rounds on a column of few rows far out, whose curvature of 5 limited Gram matrices hide."""
    g = np.random.default_rng(6)
    n = 4000
    rare = np.zeros(n)
    rare[:40] = math.sqrt(5 * n / 40)
    X = np.column_stack([np.ones(n), rare, g.standard_normal(n)])
    y = X @ [[0.0], [0.3], [0.5]] + 0.1 * g.standard_normal((n, 1))
    raw = Prepared.raw(float(n), 3)
    public = replace(raw.whitening, share=np.ones(3), gram=np.eye(3), spread=np.full(3, 0.01), sigma=0.1)
    walk = Walk(
        Rows(X, y),
        replace(raw, whitening=public),
        False,
        dict.fromkeys(KEYS, SILENT) | (mus or {}),
        6,
        Randomness(0),
    )
    # as where noise keeps the radius of the Gram matrix small
    walk._step = np.eye(3)
    walk._clip = Clip.at(1e9)
    return walk, np.linalg.lstsq(X, y[:, 0], rcond=None)[0]


def test_rounds_that_overshoot_take_shorter_steps():
    """The change of the score over a step shows the curvature; unseen, errors grow by ``1 - 5``."""
    walk, exact = hidden_curvature()
    loss = Squared(0.1)
    walk.rounds(loss, 1, "first rounds")
    walk.rounds(loss, 6, "rounds")
    np.testing.assert_allclose(np.linalg.eigvalsh(walk._step), 0.2, rtol=0.1)
    # it starts anew where it learned: the rounds before are not averaged
    assert len(walk._path) == len(walk._noises) == 6
    np.testing.assert_allclose([u[1] for u in walk._path[1:]], exact[1], rtol=0.05)


@pytest.mark.parametrize("change", ["noise", "clip", "late"])
def test_steps_stay_where_no_curvature_is_to_be_seen(change):
    """Not by noise alone, not from scores with two clips, and not where hardly a round would be left."""
    walk, _ = hidden_curvature({"rounds": 1e-4} if change == "noise" else None)
    loss = Squared(0.1)
    if change == "late":
        walk._path = [walk.u] * 2
    walk.rounds(loss, 1, "first rounds")
    if change == "clip":
        walk._clip = Clip.at(1e8)
    walk.rounds(loss, 1, "rounds")
    np.testing.assert_array_equal(walk._step, np.eye(3))


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
    assert walk._clip.norm == pytest.approx(2.5 * 0.2 * math.sqrt(Q)) and walk._clip.bias == 0
    walk.limit(loss)
    products = np.linalg.norm(V, axis=1) * np.minimum(np.abs(y - V @ walk.u), 0.4)
    assert walk._clip.norm > 0.9 * products.max()
    dear = walk_on(X, y, rounds=0.005)
    dear.limit(loss)
    assert 2 * 0.2 * math.sqrt(Q) / math.sqrt(2) <= dear._clip.norm < walk._clip.norm


@pytest.mark.parametrize("intercept", [True, False])
def test_rows_near_0_have_a_say_at_the_end(intercept, monkeypatch):
    """Where the estimates are then, and how far they have moved since the counts; with a constant."""
    seen, real = [], rounds.median_known
    monkeypatch.setattr(rounds, "median_known", lambda *a: seen.append(a) or replace(real(*a), bias=7.0))
    walk, loss = walk_on(*arrays(), rounds=9.0), Huber(0.4, 0.6)
    walk.prepared = replace(walk.prepared, intercept=intercept)
    walk.guess_limit(loss)
    walk.rounds(loss, 2, "first rounds")
    counted = walk.u
    walk.limit(loss)
    norm = walk._clip.norm
    walk.curve(loss)
    walk.rounds(loss, 3, "rounds")
    found = walk.finish(loss)
    if not intercept:
        assert not seen and found.clip is walk._clip
        return
    ((clip, whitening, moved, noise, scale, count),) = seen
    assert clip is walk._clip and found.clip.bias == 7.0 and (whitening == W).all()
    np.testing.assert_allclose(moved, found.coefficients - counted)
    assert (scale, count) == (0.2, N) and noise == pytest.approx(norm / 9.0 / N / 0.6 / math.sqrt(3))


def test_noise_that_is_named_is_noise_that_was_drawn(monkeypatch):
    drawn, real = [], noise._add

    def add(values, law, sensitivity, budget, rng):
        drawn.append((np.shape(values), sensitivity / (1 + 2.0**-10) / budget))
        return real(values, law, sensitivity, budget, rng)

    monkeypatch.setattr(noise, "_add", add)
    X, y = arrays()
    mus = {
        "hessian": 0.3,
        "limit": 0.1,
        "first rounds": 0.05,
        "rounds": 0.2,
        "spread": 0.1,
        "outer": 0.25,
        "excess": 0.15,
        "skewness": 0.35,
    }
    got = walked(walk_on(X, y, **mus), 2, Squared(1.0), Squared(1.0))
    scores_drawn = [sd for shape, sd in drawn if shape == (Q,)]
    excess = next(sd for shape, sd in drawn if shape == (2, Q)) / math.sqrt(0.75)
    assert got.excess_noise * N == pytest.approx(excess) and excess == pytest.approx(
        got.clip.norm / 0.15 / math.sqrt(0.75)
    )
    # the noise of the first fit's rounds is forgotten with them: they lead to a start
    np.testing.assert_allclose(got.noises, scores_drawn[2:-1], rtol=1e-12)
    assert scores_drawn[-1] == pytest.approx(PART * got.clip.norm / 0.35)
    hessian, outer = (sd for shape, sd in drawn if shape == (Q * (Q + 1) // 2,))
    assert got.hessian_noise * N == pytest.approx(hessian, rel=1e-12)
    assert hessian == pytest.approx(curvature_radius2(Q, float(N), 0.3) / 0.3)
    assert got.outer_noise * N == pytest.approx(outer, rel=1e-12)
    assert got.clip.norm / mus["rounds"] == pytest.approx(got.noises[-1])


def test_each_release_has_its_own_budget(monkeypatch):
    """Counts, Gram matrix, rounds, spread, excess, skewness and outer products, at the parameter that names
    them, and nothing else."""
    seen = []

    def watched(name, place):
        real = getattr(scores, name)
        monkeypatch.setattr(scores, name, lambda *a: seen.append(a[place]) or real(*a))

    watched("gaussian", 2)
    watched("symmetric_gaussian", 2)
    X, y = arrays()
    mus = {
        "hessian": 0.31,
        "limit": 0.12,
        "first rounds": 0.05,
        "rounds": 0.24,
        "spread": 0.17,
        "excess": 0.22,
        "skewness": 0.35,
        "outer": 0.29,
    }
    walked(walk_on(X, y, **mus), 2, Squared(1.0), Huber(0.4, 0.6))
    assert seen == [0.05, 0.05, 0.12, 0.31, 0.05, 0.24, 0.24, 0.24, 0.17, 0.22, 0.35, 0.29]


# -- inference ---------------------------------------------------------------------------------------------

COUNT = 900.0
SCALES = {"least squares": np.repeat([60.0, 15.0], [3, 6]), "huber": 900 * np.linspace(0.08, 0.03, 9)}
MADE_UP = {
    "least squares": dict(assumed=1.0, curvature=1.0, values=(1.0, 0.6), burn=3),
    "huber": dict(assumed=0.8, curvature=0.7, values=(0.9, 0.4), burn=2),
}
BIASED = Clip(3.0, 0.07, np.array([1.0, 2.0]), np.zeros(2))
"""With an excess of two times 0.05 and as much noise: no reason to doubt the bound."""
OUTER = np.array([[2.0, 0.4], [0.4, 0.7]])
MOVED = np.array([0.5, 3.0])
NONE = {"noises": np.zeros(9), "outer": 1e-30 * np.eye(2), "psi2": 1e-30, "clip": Clip.at(3.0), "sigma": 0.0}
PARTS = {
    "noise": {"noises": None},
    "sampling": {"outer": OUTER, "psi2": 1.7},
    "clip": {"clip": BIASED, "outer": OUTER * 1e-12, "psi2": 1e-12},
    "start": {"sigma": 1.3},
}


MAP = np.array([[1.0, 0.3], [0.0, 0.8]])


def made_up(name, sigma=1.3, **changes):
    """Rounds in two directions, of one of which they do not get to the end."""
    facts = {"noises": SCALES[name], "psi2": 1.7, "hessian_noise": 0.0, "clip": Clip.at(3.0), "outer": OUTER}
    facts |= (
        {"outer_noise": 0.0, "cut": 0.0, "excess_noise": 0.05, "skew": None, "het": None, "swings": False}
        | {"excess": np.full(2, 0.05), "contrast": np.zeros(2)}
        | MADE_UP[name]
        | changes
    )
    facts = {"metric": None, "residual2": facts["psi2"], "precondition": np.eye(2)} | facts
    hessian = np.diag(facts.pop("values"))
    start = np.array([0.5, -0.5])
    whitening = SimpleNamespace(share=np.ones(2), gram=np.eye(2), spread=np.zeros(2), sigma=sigma, W=MAP)
    prepared = SimpleNamespace(whitening=whitening, count=COUNT, intercept=True)
    return Rounds(start=start, coefficients=start + MOVED, hessian=hessian, **facts), prepared


def contractions(rounds):
    return 1 - np.diag(rounds.hessian) / rounds.assumed


def left_of_start(rounds):
    kept = range(rounds.burn, len(rounds.noises))
    return np.mean([contractions(rounds) ** (t + 1) for t in kept], axis=0)


def noise_by_hand(rounds):
    """Through every later round, and the mean of those that are kept."""
    T, kept = len(rounds.noises), range(rounds.burn, len(rounds.noises))
    ages = [[contractions(rounds) ** (t - s) for t in kept if t >= s] for s in range(T)]
    weights = [np.sum(powers, axis=0) / len(kept) for powers in ages]
    return np.diag((rounds.noises / COUNT / rounds.assumed) ** 2 @ np.square(weights))


def sampling_by_hand(rounds, M):
    """The sandwich, of what is not left of the start, in the degrees of freedom of two coefficients."""
    half = np.diag((1 - left_of_start(rounds)) / np.diag(rounds.hessian))
    return half @ M @ half / COUNT * COUNT / (COUNT - 2)


def long_rows_by_hand(rounds, M):
    """As much larger than the scores along each direction as these are than those of equal errors."""
    return M @ np.linalg.inv(rounds.psi2 * rounds.hessian / rounds.curvature) @ M


def clip_by_hand(rounds, M):
    """A squared bias of this norm: once along the constant, one and a half times along the predictor, where
    that is not the constant's, in the metric of long rows; in all no less than if all rows were long."""
    M = long_rows_by_hand(rounds, M)
    of_constant = rounds.hessian @ np.linalg.solve(MAP, [1.0, 0.0])
    of_fit, weight = rounds.hessian @ rounds.coefficients, np.linalg.inv(M)
    of_fit -= of_constant * (of_constant @ weight @ of_fit) / (of_constant @ weight @ of_constant)
    shape = sum(
        k * np.outer(d, d) / (d @ weight @ d) for k, d in ((1.0, of_constant), (1.5, of_fit))
    ) / np.trace(M)
    shape = shape * max((1 + 1.5) / 2 / np.trace(shape), 1.0)
    inverse = np.linalg.inv(rounds.hessian)
    return rounds.clip.bias**2 * inverse @ shape @ inverse


def start_by_hand(rounds, sigma):
    """At most what the response can explain, or what is left of a move by what is not."""
    left = left_of_start(rounds)
    most = np.minimum(sigma / np.sqrt(np.diag(rounds.hessian)), MOVED / (1 - left))
    return np.diag((left * most) ** 2)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", MADE_UP)
def test_each_part_of_the_covariance_alone(name, part):
    """The others have nothing to add; equal to the value by hand, from above and from below."""
    changes = NONE | PARTS[part]
    if changes["noises"] is None:
        changes["noises"] = SCALES[name]
    rounds, prepared = made_up(name, **changes)
    expected = {
        "noise": lambda: noise_by_hand(rounds),
        "sampling": lambda: sampling_by_hand(rounds, OUTER),
        "clip": lambda: clip_by_hand(rounds, rounds.outer),
        "start": lambda: start_by_hand(rounds, 1.3),
    }[part]()
    got = rounds_inference(rounds, prepared, "robust", "")
    if part == "noise":
        # where the response is explained by nothing, nothing is left of the start
        assert got.noise == pytest.approx(
            float(np.sum(np.diag(expected) * np.diag(rounds.hessian))), rel=1e-12
        )
    if part == "sampling":
        # V is the mean squared score where that is larger than the first residuals
        expected = expected + start_by_hand_with_error(rounds, math.sqrt(1.7), expected)
    np.testing.assert_allclose(got.cov, expected, rtol=1e-6, atol=1e-12)
    assert np.trace(expected) > 1e-5
    np.testing.assert_array_equal(got.hidden, 0)


def start_by_hand_with_error(rounds, sigma, spread):
    left = left_of_start(rounds)
    reached = (MOVED + 2 * np.sqrt(np.diag(spread))) / (1 - left)
    return np.diag((left * np.minimum(sigma / np.sqrt(np.diag(rounds.hessian)), reached)) ** 2)


@pytest.mark.parametrize("kind", ["robust", "nonrobust"])
@pytest.mark.parametrize("name", MADE_UP)
def test_the_covariance_is_the_sum_of_its_parts(name, kind):
    rounds, prepared = made_up(name, clip=BIASED)
    # errors that do not depend on the covariates: the mean of psi^2 times the Gram matrix of all rows
    M = OUTER if kind == "robust" else 1.7 * rounds.hessian / rounds.curvature
    spread = noise_by_hand(rounds) + sampling_by_hand(rounds, M)
    lost = clip_by_hand(rounds, M)
    left = start_by_hand_with_error(rounds, max(1.3, math.sqrt(1.7)), spread)
    got = rounds_inference(rounds, prepared, kind, "a note")
    np.testing.assert_allclose(got.cov, spread + lost + left, rtol=1e-9)
    assert got.notes == ("a note",) and got.corrected is None


@pytest.mark.parametrize("name", MADE_UP)
def test_squares_that_are_cut_are_put_back_where_long_rows_lie(name):
    """All of them, into the sampling part and the shape of the bias; the model's formula has none of it."""
    rounds, prepared = made_up(name, clip=BIASED, cut=5.0)
    long = long_rows_by_hand(rounds, OUTER)
    M = OUTER + 5 * long / np.trace(long)
    spread = noise_by_hand(rounds) + sampling_by_hand(rounds, M)
    left = start_by_hand_with_error(rounds, max(1.3, math.sqrt(1.7)), spread)
    got = rounds_inference(rounds, prepared, "robust", "")
    np.testing.assert_allclose(got.cov, spread + clip_by_hand(rounds, M) + left, rtol=1e-9)
    none = replace(rounds, cut=0.0)
    plain, same = (rounds_inference(these, prepared, "nonrobust", "").cov for these in (none, rounds))
    np.testing.assert_array_equal(plain, same)


@pytest.mark.parametrize("name", MADE_UP)
def test_a_misfit_that_is_seen_is_allowed_for(name):
    """In the coordinates of the score; where nothing is known of it nothing is allowed for."""
    contrast = np.array([1.0, -2.0])
    (rounds, prepared), (bent, _) = (
        made_up(name, clip=BIASED, **more) for more in ({}, {"contrast": contrast})
    )
    plain, got = (rounds_inference(these, prepared, "robust", "").cov for these in (rounds, bent))
    A, M = rounds.hessian, OUTER / (COUNT - 2)
    rest = rounds.noises[-1] / COUNT / math.sqrt(len(rounds.noises) - rounds.burn)
    straight = A @ clip_by_hand(rounds, OUTER) @ A
    found = rounds.excess, contrast, rounds.excess_noise, rest, M, 3.0 / math.sqrt(2 * 1.7)
    more = np.linalg.inv(A) @ (with_misfit(straight, *found)[0] - straight) @ np.linalg.inv(A)
    np.testing.assert_allclose(got - plain, more, rtol=1e-6)
    assert np.trace(more) > 10 * np.trace(plain)
    unknown = rounds_inference(replace(bent, contrast=None), prepared, "robust", "").cov
    np.testing.assert_allclose(unknown, plain, rtol=1e-12)


@pytest.mark.parametrize("name", MADE_UP)
def test_what_is_seen_to_be_cut_comes_after_a_misfit(name, monkeypatch):
    """Before it, it would be taken off what is allowed for a misfit, and standard errors could be smaller."""
    bent, prepared = made_up(name, clip=BIASED, contrast=np.array([1.0, -2.0]))
    plain = rounds_inference(bent, prepared, "robust", "").cov
    seen = np.array([[4.0, 2.0], [2.0, 1.0]])
    monkeypatch.setattr("dpstats.linear.rounds_inference.with_seen", lambda moment, *found: moment + seen)
    got = rounds_inference(bent, prepared, "robust", "").cov
    A = np.linalg.inv(bent.hessian)
    np.testing.assert_allclose(got - plain, A @ seen @ A, rtol=1e-6)


@pytest.mark.parametrize("kind", ["robust", "nonrobust"])
def test_other_coordinates_give_the_same_covariance(kind):
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    rounds, prepared = made_up("huber", clip=BIASED)
    turned = replace(
        rounds,
        start=turn @ rounds.start,
        coefficients=turn @ rounds.coefficients,
        hessian=turn @ rounds.hessian @ turn.T,
        outer=turn @ rounds.outer @ turn.T,
    )
    whitening = SimpleNamespace(**vars(prepared.whitening) | {"W": MAP @ turn.T})
    there = SimpleNamespace(whitening=whitening, count=COUNT, intercept=True)
    plain, got = (rounds_inference(*given, kind, "").cov for given in ((rounds, prepared), (turned, there)))
    np.testing.assert_allclose(got, turn @ plain @ turn.T, rtol=1e-9, atol=1e-15)


def test_preconditioned_rounds_by_hand():
    """Noise and sampling error through ``u + P score / (n aim)``, as powers of ``I - P A / aim``."""
    P = np.array([[1.3, 0.4], [0.4, 0.9]])
    rounds, prepared = made_up("huber", sigma=0.0, residual2=0.0, precondition=P)
    step, T = P / rounds.assumed, len(rounds.noises)
    powers = [np.linalg.matrix_power(np.eye(2) - step @ rounds.hessian, k) for k in range(T + 1)]
    kept = range(rounds.burn, T)
    drawn = [sum(powers[t - s] for t in kept if t >= s) @ step / len(kept) for s in range(T)]
    noise_part = sum((sd / COUNT) ** 2 * R @ R.T for sd, R in zip(rounds.noises, drawn, strict=True))
    done = (np.eye(2) - sum(powers[t + 1] for t in kept) / len(kept)) @ np.linalg.inv(rounds.hessian)
    expected = noise_part + done @ OUTER @ done.T / (COUNT - 2)
    got = rounds_inference(rounds, prepared, "robust", "")
    np.testing.assert_allclose(got.cov, expected, rtol=1e-9)
    assert got.noise == pytest.approx(np.trace(noise_part @ rounds.hessian), rel=1e-9)
    # the bootstrap knows of the steps, too: what is left of the start is taken off
    quiet = replace(rounds, noises=np.full(T, 1e-9), outer=1e-12 * np.eye(2), psi2=1e-12)
    left = np.eye(2) - done @ rounds.hessian
    corrected = rounds_inference(quiet, prepared, "bootstrap", "").corrected.estimates
    np.testing.assert_allclose(
        (np.eye(2) - left) @ corrected + left @ rounds.start, rounds.coefficients, rtol=1e-5
    )


def test_what_steps_leave_of_the_start_has_a_bound():
    """Steps by the inverse leave nothing; half of them leave, along each direction, powers of a half."""
    for share, left in ((1.0, 0.0), (0.5, np.mean(0.5 ** np.arange(3, 10)))):
        rounds, prepared = made_up("huber", **NONE | {"sigma": 1.3})
        P = share * rounds.assumed * np.linalg.inv(rounds.hessian)
        got = rounds_inference(replace(rounds, precondition=P), prepared, "robust", "")
        most = np.minimum(1.3 / np.sqrt(np.diag(rounds.hessian)), MOVED / (1 - left))
        np.testing.assert_allclose(got.cov, np.diag((left * most) ** 2), rtol=1e-6, atol=1e-12)


def test_the_whitening_matrix_has_the_curvature_of_the_loss():
    """Both matrices of Huber's loss are then of one size, whatever their weights."""
    whitening = replace(Prepared.raw(100.0, 2).whitening, gram=np.eye(2), spread=np.full(2, 0.3))
    seen = Seen.of(0.4 * np.eye(2), 0.1, whitening, 0.4)
    np.testing.assert_allclose(seen.directions()[0], 0.4, rtol=1e-12)
    np.testing.assert_allclose(seen.steps(0.4), np.eye(2), atol=1e-12)


def test_the_bootstrap_does_not_follow_rounds_that_diverge():
    """A curvature of two and more times what was stepped for; its noise alone can do that."""
    P = np.diag([1.0, 9.0])
    rounds, prepared = made_up("least squares", values=(1.0, 0.6), precondition=P, noises=np.full(9, 0.1))
    got = rounds_inference(rounds, prepared, "bootstrap", "").corrected
    assert np.all(np.abs(got.estimates - rounds.coefficients) < 10 * np.abs(MOVED))


def test_a_direction_that_may_be_empty_is_hidden_and_no_other():
    """Three standard deviations below its eigenvalue there is nothing."""
    rounds, prepared = made_up("least squares", values=(1.0, 0.32), hessian_noise=0.1)
    prepared.whitening.spread = np.full(2, 1e3)
    got = rounds_inference(rounds, prepared, "robust", "")
    assert got.hidden[1, 1] > 50 and got.hidden[0, 0] == got.hidden[0, 1] == 0
    rounds, prepared = made_up("least squares", values=(1.0, 0.34), hessian_noise=0.1)
    prepared.whitening.spread = np.full(2, 1e3)
    np.testing.assert_allclose(rounds_inference(rounds, prepared, "robust", "").hidden, 0, atol=1e-12)


@pytest.mark.parametrize("name", MADE_UP)
def test_the_bootstrap_takes_off_what_is_left_of_the_start(name):
    tiny = {"psi2": 1e-12, "outer": 1e-12 * np.eye(2), "noises": np.full(9, 1e-9), "sigma": 0.0}
    rounds, prepared = made_up(name, **tiny)
    left = left_of_start(rounds)
    assert left.max() > 0.005
    got = rounds_inference(rounds, prepared, "bootstrap", "").corrected
    np.testing.assert_allclose(
        got.estimates, (rounds.coefficients - left * rounds.start) / (1 - left), rtol=1e-5
    )


@pytest.mark.parametrize("name", MADE_UP)
def test_the_bootstrap_keeps_the_biases_that_it_cannot_see(name):
    """Two that it adds as they are, to draws of scores and noise; false alarm 1e-6 each."""
    rounds, prepared = made_up(name, clip=replace(Clip.at(3.0), bias=0.5))
    got = rounds_inference(rounds, prepared, "bootstrap", "")
    left = left_of_start(rounds)
    drawn = noise_by_hand(rounds) + sampling_by_hand(rounds, OUTER)
    kept = np.diag(got.cov - drawn)
    # a direction of which a share is left is divided by what is not
    ratio = (np.diag(got.corrected.cov) - kept) / (np.diag(drawn) / (1 - left) ** 2)
    slack = stats.chi2.isf([1 - 5e-7, 5e-7], DRAWS - 1) / (DRAWS - 1)
    assert np.all((slack[0] < ratio) & (ratio < slack[1]))


# -- refusal -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_many_columns_are_refused_for_the_price_of_the_count():
    g = np.random.default_rng(0)
    data = pd.DataFrame(g.standard_normal((3000, 301)), columns=["y", *(f"x{j}" for j in range(300))])
    formula = "y ~ " + " + ".join(data.columns[1:])
    bounds = {name: (-9, 9) for name in data}
    for estimator, known in itertools.product((dpstats.ols, dpstats.huber), ({}, bounds)):
        with pytest.raises(dpstats.ReleaseFailed, match="hides most coefficients") as caught:
            estimator(formula, data, eps=1, seed=0, bounds=known)
        assert [s.step for s in caught.value.guarantee.spends] == ["number of rows"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, columns",
    [*itertools.product(["ols", "huber", "logit", "poisson"], [1, 3, 20]), ("adassp", 1), ("adassp", 80)],
)
def test_a_refusal_names_the_larger_need(name, columns):
    """The rows that columns of unknown range need, or their directions: with so many it is enough."""
    g = np.random.default_rng(1)
    X = g.standard_normal((20_000, columns))
    data = pd.DataFrame(X, columns=[f"x{j}" for j in range(columns)]).assign(y=g.integers(0, 2, len(X)))
    formula = "y ~ " + " + ".join(data.columns[:-1])
    with pytest.raises(dpstats.ReleaseFailed, match="need") as caught:
        getattr(dpstats, name)(formula, data[:50], eps=1, seed=0)
    need = int(re.search(r"about ([\d,]+) rows", str(caught.value))[1].replace(",", ""))
    # the count's noise has a standard deviation of about 50
    getattr(dpstats, name)(formula, data[: need + 250], eps=1, seed=0)


@pytest.mark.parametrize("q, count, refused", [(5, 20_000, False), (300, 20_000, True), (300, 10**7, False)])
def test_what_is_refused_depends_on_public_facts_and_the_count(q, count, refused):
    budget = SimpleNamespace(
        public=SimpleNamespace(
            scale=np.ones(q),
            unknown=False,
            free=np.zeros(0),
            variables=(),
            intercept=True,
            response_unknown=False,
        ),
        mus={"count": 0.07, "hessian": 0.07, "scale": 0.07},
        guarantee=dpstats.Guarantee(1, 1e-6, "add-remove", "approximate"),
    )
    if refused:
        with pytest.raises(dpstats.ReleaseFailed, match=f"test: {q} columns"):
            check_directions("test", budget, count)
    else:
        check_directions("test", budget, count)


@pytest.mark.parametrize("far", [0, 3])
def test_rounds_that_swing_determine_nothing(far):
    """A few rows far out have a curvature of 5, which the limited Gram matrix hides."""
    g = np.random.default_rng(5)
    n = 4000
    rare = np.zeros(n)
    rare[:far] = math.sqrt(5 * n / 3)
    X = np.column_stack([np.ones(n), rare, g.standard_normal(n)])
    y = X[:, 2:] + 0.001 * rare[:, None] + 0.01 * g.standard_normal((n, 1))
    public = SimpleNamespace(share=np.ones(3), gram=np.eye(3), spread=np.full(3, 0.01), sigma=0.01)
    raw = Prepared.raw(float(n), 3)
    prepared = replace(raw, whitening=replace(raw.whitening, **vars(public)))
    walk = Walk(Rows(X, y), prepared, False, dict.fromkeys(KEYS, SILENT), 3, Randomness(0))
    rounds = walked(walk, 1, Squared(0.01), Squared(0.01))
    got = rounds_inference(rounds, prepared, "robust", "")
    assert rounds.swings == bool(far)
    assert undetermined(got.cov, got.hidden).all() == bool(far)
    assert any("settling" in note for note in got.notes) == bool(far)
