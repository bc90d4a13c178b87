"""Rounds with the inverse of a noisy Gram matrix: what is released, and each part of the covariance."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.engines.local import Rows
from dpstats.linear import newton as module
from dpstats.linear import scores
from dpstats.linear.clip import MAY_CUT, Clip, outer_square
from dpstats.linear.identify import HIDDEN
from dpstats.linear.loss import Squared
from dpstats.linear.misfit import with_misfit
from dpstats.linear.moments import raised
from dpstats.linear.newton import Solved, solved_inference
from dpstats.linear.prepare import Prepared
from dpstats.linear.scores import averaged_noise, outer_limit
from dpstats.mechanisms import noise
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.whiten import Affine, Whitening
from dpstats.regression import adassp

ESTIMATORS = [dpstats.adassp, dpstats.boosted_adassp]


def frame(n=5000, seed=0):
    g = np.random.default_rng(seed)
    X = g.uniform(-0.5, 0.5, (n, 2))
    return pd.DataFrame(X, columns=["a", "b"]).assign(y=0.2 + X @ [0.5, -0.5] + 0.1 * g.standard_normal(n))


def prepared(count=900.0, sigma=1.0, spread=0.0, before=1.0):
    """Two columns, with a whitening whose last Gram matrix has the diagonal `before`."""
    whitening = replace(
        Whitening.public(np.eye(2)), sigma=sigma, gram=np.full(2, before), spread=np.full(2, spread)
    )
    response = Affine(np.array([2]), np.array([3.0]), np.array([7.0]))
    return replace(Prepared.raw(count, 2), whitening=whitening, response=response)


def solved(values, gram_noise, noises, burn, **more):
    """A release whose matrices are diagonal."""
    values = np.array(values, float)
    given = {
        "prepared": prepared(spread=0.1),
        "radius": 4.0,
        "start": np.array([0.1, -0.2]),
        "coefficients": np.array([0.7, 2.0]),
        "astray": 0.0,
        "gram": np.diag(values),
        "gram_noise": gram_noise,
        "noises": np.array(noises, float),
        "burn": burn,
        "clip": Clip.at(5.0),
        "binds": False,
        "variance": 1.3,
        "size": 1.0,
        "outer": np.diag(values) * [1.0, 3.0],
        "outer_noise": 0.0,
        "cut": 0.0,
        "excess": np.zeros(2),
        "contrast": None,
        "excess_noise": math.inf,
        "skew": None,
    }
    given |= more
    return Solved(**({"residual2": given["variance"]} | given))


@pytest.fixture
def as_released(monkeypatch):
    """Gram matrices taken as they are, not shrunk."""
    monkeypatch.setattr(module, "shrunken", lambda gram, noise, share: (gram, 0.0))


def test_propagation_is_that_of_each_direction():
    P, A = np.diag([0.8, 2.0]), np.diag([1.0, 0.3])
    variances = np.linspace(2.0, 1.0, 7)
    for burn in (0, 3, 6):
        cov, left = module._propagated(P, A, burn, variances)
        expected, kept = averaged_noise(1 - np.diag(P) * np.diag(A), burn, variances)
        np.testing.assert_allclose(cov, np.diag(expected * np.diag(P) ** 2), atol=1e-12)
        np.testing.assert_allclose(left, np.diag(kept), atol=1e-12)


def test_propagation_with_other_axes_against_iterates():
    g = np.random.default_rng(0)
    root = g.standard_normal((2, 3, 3))
    P, A = (np.eye(3) + 0.1 * r @ r.T for r in root)
    P = P / 2
    variances, burn, rounds = np.array([1.0, 2.0, 0.5, 1.0]), 1, 4
    cov, left = module._propagated(P, A, burn, variances)
    expected = np.zeros((3, 3))
    for s in range(rounds):
        for axis in np.eye(3):
            x, kept = np.zeros(3), []
            for t in range(rounds):
                x = x - P @ A @ x + (P @ axis * math.sqrt(variances[s]) if t == s else 0.0)
                kept.append(x)
            expected += np.outer(*2 * [np.mean(kept[burn:], axis=0)])
    np.testing.assert_allclose(cov, expected, atol=1e-12)
    paths = [np.linalg.matrix_power(np.eye(3) - P @ A, t + 1) for t in range(burn, rounds)]
    np.testing.assert_allclose(left, np.mean(paths, axis=0), atol=1e-12)


def test_variance_of_one_round_is_that_of_its_parts(as_released):
    """``A^-1 (noise of the score - noise of the Gram matrix times the way)``, and the sandwich's sampling."""
    release = solved([1.0, 0.5], 0.02, [0.03], 0)
    m, s = release.coefficients - release.start, release.gram_noise
    inverse = np.diag(1 / np.array([1.0, 0.5]))
    of_score = 0.03**2 * np.eye(2)
    # s on the diagonal, s / sqrt(2) off it
    of_gram = s**2 * np.array([
        [m[0] ** 2 + m[1] ** 2 / 2, m[0] * m[1] / 2],
        [m[0] * m[1] / 2, m[1] ** 2 + m[0] ** 2 / 2],
    ])  # fmt: skip
    sampling = release.outer / 898
    expected = inverse @ (of_score + of_gram + sampling) @ inverse
    got = solved_inference(release, "robust")
    np.testing.assert_allclose(got.cov, expected, rtol=1e-9)
    assert not got.hidden.any()
    assert got.noise == pytest.approx(np.sum(inverse @ (of_score + of_gram) @ inverse * release.gram))
    flat = inverse @ (of_score + of_gram + 1.3 * release.gram / 898) @ inverse
    np.testing.assert_allclose(solved_inference(release, "nonrobust").cov, flat, rtol=1e-9)


def test_variance_of_rounds_is_that_of_its_parts(as_released):
    """Without a ridge every round gets there, and the noise of six is averaged."""
    noises = np.linspace(0.05, 0.02, 8)
    release = solved([1.0, 0.5], 0.0, noises, 2)
    got = solved_inference(release, "robust")
    privacy = np.sum(noises[2:] ** 2) / 36 / np.array([1.0, 0.5]) ** 2
    sampling = np.array([1.0, 3.0]) / np.array([1.0, 0.5]) / 898
    np.testing.assert_allclose(got.cov, np.diag(privacy + sampling), rtol=1e-9)


def test_what_the_clip_takes_off_is_added(as_released):
    read = Clip(5.0, 0.0, np.array([5.0, 10.0]), np.zeros(2))

    def cov(bias, **excess):
        clip = replace(read, bias=bias)
        return solved_inference(solved([1.0, 0.5], 0.02, [0.03], 0, clip=clip, **excess), "robust").cov

    agrees = {"excess": np.array([0.06, 0.06]), "excess_noise": 0.05}
    plain = solved_inference(solved([1.0, 0.5], 0.02, [0.03], 0), "robust").cov
    # in the shape of long rows, of the scores diag(1, 1.5) over 1.3 diag(1, .5), and along the predictor one
    # and a half times that
    added = 0.2**2 * np.array([1.0, 1.5 * 4.5]) / 5.5 / np.array([1.0, 0.5]) ** 2
    np.testing.assert_allclose(cov(0.2, **agrees) - plain, np.diag(added), rtol=1e-9)
    # an excess that is seen is there, whatever the counts say of the signs
    seen = cov(0.01, excess=np.array([0.0, 0.6]), excess_noise=0.05) - plain
    assert seen[1, 1] > 0.4**2 / 0.5**2 and seen[0, 0] < 0.05 * seen[1, 1]


def test_squares_that_are_cut_are_put_back(as_released):
    """Of the scores diag(1, 1.5), in the shape of their square over 1.3 diag(1, .5), into the sampling."""
    plain, more = (
        solved_inference(solved([1.0, 0.5], 0.0, [0.0] * 9, 4, cut=cut), "robust").cov for cut in (0.0, 11.0)
    )
    added = np.array([2.0, 9.0]) / np.array([1.0, 0.5]) ** 2 / 898
    np.testing.assert_allclose(more - plain, np.diag(added), rtol=1e-9, atol=1e-15)


def test_a_misfit_that_is_seen_is_allowed_for(as_released):
    """Where nothing is known of it, as of units and with a given clip, nothing is allowed for."""
    more = {"clip": Clip(5.0, 0.0, np.array([5.0, 10.0]), np.zeros(2)), "excess_noise": 0.05}
    plain, bent = (
        solved([1.0, 0.5], 0.02, [0.03] * 4, 2, contrast=np.array(c), **more) for c in ([0, 0], [1.0, -2.0])
    )
    got = solved_inference(bent, "robust").cov - solved_inference(plain, "robust").cov
    found = bent.excess, bent.contrast, 0.05, 0.03 / math.sqrt(2), bent.outer / 900 / 4
    expected, _ = with_misfit(np.zeros((2, 2)), *found, 5.0 / math.sqrt(2 * 1.3), 4.0**2)
    np.testing.assert_allclose(got, expected / np.outer([1.0, 0.5], [1.0, 0.5]), rtol=1e-9)
    unknown = solved_inference(replace(bent, contrast=None), "robust").cov
    np.testing.assert_array_equal(unknown, solved_inference(plain, "robust").cov)


def test_what_is_seen_to_be_cut_comes_after_a_misfit(as_released, monkeypatch):
    clip = Clip(5.0, 0.0, np.array([5.0, 10.0]), np.zeros(2))
    bent = solved(
        [1.0, 0.5], 0.02, [0.03] * 4, 2, contrast=np.array([1.0, -2.0]), clip=clip, excess_noise=0.05
    )
    plain, seen = solved_inference(bent, "robust").cov, np.array([[4.0, 2.0], [2.0, 1.0]])
    monkeypatch.setattr(module, "with_seen", lambda moment, *found: moment + seen)
    got = solved_inference(bent, "robust").cov
    np.testing.assert_allclose(got - plain, seen / np.outer([1.0, 0.5], [1.0, 0.5]), rtol=1e-9)


def test_what_the_ridge_leaves_is_bounded(as_released):
    """The ridge's share of the way, for an eigenvalue three standard deviations below the released one."""
    s, value = 0.1, 0.35
    release = solved([1.0, value], s, [0.03], 0, prepared=prepared(spread=1e6))
    c = math.sqrt(4) * s
    ridge = raised(release.gram, s)[1, 1] - value
    assert ridge == pytest.approx(2 * c - value)
    without = solved_inference(replace(release, gram=release.gram + 0.0), "robust")
    left = ridge / (value - 3 * s + ridge)
    m = abs(release.coefficients - release.start)[1]
    assert without.cov[1, 1] > (left * min(math.sqrt(1.3 / (value - 2 * s)), m)) ** 2
    assert not without.hidden.any()


def test_what_is_left_of_a_start_that_is_astray_is_bounded(as_released):
    """Residuals that are limited do not show how far noise has taken the start."""
    given = {"prepared": prepared(spread=1e6), "coefficients": np.array([700.0, 2000.0])}
    near, far = (solved([1.0, 0.35], 0.1, [0.03], 0, astray=a, **given) for a in (0.0, 1e5))
    bias = [solved_inference(release, "robust").bias[1, 1] for release in (near, far)]
    assert bias[1] / bias[0] == pytest.approx((1.3 + 1e5) / 1.3, rel=0.01)


def test_a_start_that_noise_has_lost_leaves_nothing_determined():
    """A hundred times the residual standard deviation of 1.3."""
    for astray, lost in ((1.3e4 * 0.99, False), (1.3e4 * 1.01, True)):
        got = solved_inference(solved([1.0, 0.5], 0.02, [0.03], 0, astray=astray), "robust")
        assert (np.diag(got.hidden) > np.diag(got.cov)).all() == lost


@pytest.mark.parametrize("rounds", [1, 6])
def test_what_the_noise_hides_is_not_determined(rounds):
    """An eigenvalue that may be zero, whatever the estimate did along it."""
    for value, hidden in ((0.25, True), (0.5, False)):
        release = solved([1.0, value], 0.1, [0.03] * rounds, 0, prepared=prepared(spread=1e6))
        got = solved_inference(release, "robust")
        assert (got.hidden[1, 1] > got.cov[1, 1]) == hidden
        assert got.hidden[0, 0] < 1e-9
        if hidden:
            assert got.hidden[1, 1] >= 1.3 / HIDDEN * 0.99


def test_a_given_clip_that_binds_leaves_nothing_determined():
    got = solved_inference(solved([1.0, 0.5], 0.02, [0.03], 0, binds=True), "robust")
    assert (np.diag(got.hidden) > np.diag(got.cov)).all()
    data = frame().assign(y=lambda d: d["y"] + 3 * (np.arange(len(d)) < 1000))
    tight, wide = (
        dpstats.adassp("y ~ a + b", data, eps=3, clip=c, standardize=False, seed=1).bse for c in (0.5, 3.0)
    )
    assert tight.isna().all() and wide.notna().all()


def test_the_note_names_the_limits():
    release = solved([1.0, 0.5], 0.02, [0.03], 0)
    (note,) = solved_inference(release, "robust").notes
    assert note.startswith(f"A row counts as if its residual were at most {5 / math.sqrt(2) * 7:.3g} ")
    assert "rows longer than 4 have less weight" in note


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("formula", ["y ~ a + b", "y ~ 0 + a + b"])
def test_rows_near_0_have_a_say_at_the_end(estimator, formula, monkeypatch):
    """Where the estimates are then, and how far they have moved since the counts; with a constant."""
    seen, counted, real, limit = [], [], module.median_known, module.Newton.limit
    monkeypatch.setattr(module, "median_known", lambda *a: seen.append(a) or replace(real(*a), bias=7.0))
    made, finish = [], module.Newton.finish

    def watched(self):
        counted.append(self._u)
        limit(self)

    monkeypatch.setattr(module.Newton, "limit", watched)
    monkeypatch.setattr(
        module.Newton, "finish", lambda self: made.append((self, finish(self))) or made[-1][1]
    )
    estimator(formula, frame(), eps=3, seed=1)
    ((fit, found),) = made
    if "0" in formula:
        assert not seen and found.clip is fit._clip
        return
    ((clip, whitening, moved, noise, scale, count),) = seen
    assert clip is fit._clip and found.clip.bias == 7.0 and scale == fit.prepared.whitening.sigma
    assert (whitening == fit.prepared.whitening.W).all() and count == fit._count
    np.testing.assert_allclose(moved, found.coefficients - counted[0])
    assert noise == pytest.approx(found.noises[-1] / math.sqrt(len(found.noises) - found.burn))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_what_outer_products_lack_is_read_off_the_counts(estimator, monkeypatch):
    made, finish = [], module.Newton.finish
    monkeypatch.setattr(
        module.Newton, "finish", lambda self: made.append((self._budget, finish(self))) or made[-1][1]
    )
    g = np.random.default_rng(3)
    size = np.exp(g.standard_normal(20_000))
    estimator("y ~ size", {"size": size, "y": size * np.exp(g.standard_normal(20_000) / 2)}, eps=3, seed=1)
    ((budget, got),) = made
    unit = 1 / budget.mus["outer"] / got.prepared.count
    square, least = got.outer_noise / unit, outer_limit(got.variance, 2, 1 / unit, 0.4, (10.0, 40.0))
    assert square == pytest.approx(outer_square(got.clip, least, unit, 2, MAY_CUT), rel=1e-12)
    assert square > 1.1 * least
    assert got.cut == got.clip.squares(math.sqrt(square), math.inf) > got.clip.squares(math.sqrt(square)) > 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("options", [{}, {"standardize": False}])
def test_what_is_said_of_the_noise_is_true(estimator, options, monkeypatch):
    """The noise that standard errors reckon with is that which was drawn, step by step."""
    made, drawn, real, finish = [], [], noise._add, module.Newton.finish

    def add(values, law, sensitivity, budget, rng):
        drawn.append((np.shape(values), sensitivity / (1 + 2.0**-10) / budget))
        return real(values, law, sensitivity, budget, rng)

    monkeypatch.setattr(module.Newton, "finish", lambda self: made.append(finish(self)) or made[-1])
    monkeypatch.setattr(noise, "_add", add)
    estimator("y ~ a + b", frame(), eps=2, seed=1, **options)
    (got,) = made
    count = got.prepared.count
    sums = [sd / count for shape, sd in drawn if shape == (3,)]
    if got.skew is not None:  # of the products within a quarter of the clip, by the sum that comes last
        assert sums.pop() < got.excess_noise
    if math.isfinite(got.excess_noise):
        (both,) = (sd / count for shape, sd in drawn if shape == (2, 3))
        assert got.excess_noise == pytest.approx(both / math.sqrt(0.75), rel=1e-12)
    np.testing.assert_allclose(got.noises, sums[-len(got.noises) :], rtol=1e-12)
    # the rounds before the Gram matrix come after the whitening's vector
    before = sums[: -len(got.noises)][-3 if estimator is dpstats.boosted_adassp else -2 :]
    assert got.astray == pytest.approx(3 * np.sum(np.square(before)), rel=1e-12)
    *_, gram, outer = (sd / count for shape, sd in drawn if shape == (6,))
    assert (got.gram_noise, got.outer_noise) == pytest.approx((gram, outer), rel=1e-12)


@pytest.mark.parametrize(("unit", "where"), [(None, "coefficients"), ("who", "start")])
def test_where_it_is_seen_what_one_round_cut(unit, where, monkeypatch):
    """At the end, where all parts together are 0; of units at its start, which is the first fit."""
    made, at, finish, excess = [], [], module.Newton.finish, Squared.excess
    monkeypatch.setattr(module.Newton, "finish", lambda self: made.append(finish(self)) or made[-1])
    monkeypatch.setattr(
        Squared, "excess", lambda self, rows, u, *a: at.append(u) or excess(self, rows, u, *a)
    )
    data = frame().assign(who=lambda rows: np.arange(len(rows)) // 2)
    dpstats.adassp("y ~ a + b", data, eps=4, seed=1, unit=unit)
    assert np.array_equal(at[0], getattr(made[0], where)) and len(at) == 1


@pytest.mark.parametrize(
    ("more", "known"), [({}, True), ({"unit": "who"}, False), ({"clip": 4.0}, False)], ids=str
)
def test_rows_far_out_are_known_of_rows_alone(more, known, monkeypatch):
    made, finish = [], module.Newton.finish
    monkeypatch.setattr(module.Newton, "finish", lambda self: made.append(finish(self)) or made[-1])
    data = frame().assign(who=lambda rows: np.arange(len(rows)) // 2)
    dpstats.boosted_adassp("y ~ a + b", data, eps=4, seed=1, **more)
    assert (made[0].contrast is not None) == known


def moved(row, monkeypatch):
    """How far a row moves the first sums, over what their noise is for: raw rows, without any noise."""
    steps, budgets, release = [], [], adassp._release

    def silent(values, sensitivity, mu, rng):
        steps.append((np.array(values), sensitivity))
        return values

    monkeypatch.setattr(adassp, "_release", lambda *a: budgets.append(a[1]) or release(*a))
    data = frame(50)
    dpstats.adassp("y ~ a + b - 1", data, eps=1, seed=1, standardize=False, clip=2.0)
    monkeypatch.setattr(scores, "gaussian", silent)
    monkeypatch.setattr(scores, "symmetric_gaussian", silent)
    runs = []
    for rows in (data.to_numpy(), np.vstack([data.to_numpy(), row])):
        steps.clear()
        release(Rows(rows[:, :2], rows[:, 2:]), budgets[0], Randomness(0))
        runs.append(steps[:3])
    return [np.linalg.norm(a - b) / bound for (a, bound), (b, _) in zip(*runs, strict=True)]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([9.0, 9.0, 9.0], [1, 1, math.sqrt(0.5)]),  # longer than the radius, its response too
        ([9.0, 9.0, 90.0], [1, 0, 1]),  # beyond the clip, where it no longer moves
        ([0.3, 0.3, 1e100], [1, 0, 1]),
        ([1e308, -1e308, 1e308], None),
        ([1e12, 1e12, -1e12], None),
        ([5e-324, 0.0, 1e9], None),
        ([0.3, 0.3, 1e300], None),
    ],
)
def test_no_row_moves_the_first_sums_by_more_than_their_sensitivity(row, expected, monkeypatch):
    """Counts by size, Gram matrix and first score; what comes later starts from other places."""
    first = moved(row, monkeypatch)
    assert max(first) <= 1 + 1e-9
    assert expected is None or first == pytest.approx(expected, abs=2e-3)
