"""Covariances by their factors: what uncentred powers, and products, need of digits."""

import dataclasses
import json
import math
import pickle

import numpy as np
import pytest

import dpstats
from dpstats.errors import ParameterError
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.results import SAMPLING_AND_PRIVACY, Results
from dpstats.results.roots import of_this, root_of, side_by_side, triangular

NAMES = ("Intercept", "t", "I(t ** 2)", "I(t ** 3)")
MIDDLE = 2005
BACK = np.array(
    [[math.comb(j, i) * (-MIDDLE) ** (j - i) if j >= i else 0 for j in range(4)] for i in range(4)]
)
AT = np.array([-10.0, 0.0, 12.0])
HERE, THERE = (np.vander(x, 4, increasing=True) for x in (AT, AT + MIDDLE))
TRUE = np.array([140.0, -0.5, 0.01, 0.02])


def release(rng, back=None, eps=1.0):
    """A release of a cubic about the middle, and if wanted of the same cubic in `back`'s coordinates."""
    size = np.array([0.1, 0.02, 2e-3, 3e-4])[:, None]
    root, lean = size * np.linalg.cholesky(0.3 + 0.7 * np.eye(4)), 0.5 * size * np.eye(4)
    root *= rng.uniform(1, 2)
    root = side_by_side(root, lean)
    beta = TRUE + root @ rng.normal(size=4)
    back = np.eye(4) if back is None else back.astype(float)
    root, lean, beta = back @ root, back @ lean, back @ beta
    return Results(
        method="OLS", formula="w ~ t + I(t ** 2) + I(t ** 3)", names=NAMES, response="w", estimates=beta,
        cov=root @ root.T, root=root, bias=lean @ lean.T, bias_root=lean, covers=SAMPLING_AND_PRIVACY,
        terms={name: slice(i, i + 1) for i, name in enumerate(NAMES) if i}, released={"n": 1000.0},
        guarantee=Guarantee(eps, 1e-6, "add-remove", "approximate"),
    )  # fmt: skip


def both(seed=0):
    return release(np.random.default_rng(seed)), release(np.random.default_rng(seed), BACK)


def close(found, expected, rel=1e-4):
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=rel)


def test_linear_combinations_and_joint_tests_are_those_of_the_centred_cubic():
    here, there = both()
    found, expected = there.t_test(THERE), here.t_test(HERE)
    close(found.effect, expected.effect)
    close(found.sd, expected.sd)
    close(expected.sd, np.sqrt(np.diagonal(HERE @ here.cov @ HERE.T)), 1e-12)
    close(np.sqrt(np.diagonal(there.cov_params(THERE))), expected.sd)
    close(there.f_test().statistic, here.f_test().statistic)
    close(there.wald_test(np.eye(4)).statistic, here.wald_test(np.eye(4)).statistic)
    last = dpstats.anova(there).table.loc[NAMES[3]], dpstats.anova(here).table.loc[NAMES[3]]
    close(last[0], last[1])
    # the matrix has lost them: how far off it is, is a matter of rounding, and of the machine
    without = dataclasses.replace(there, root=None)
    assert not np.allclose(without.t_test(THERE).sd, expected.sd, rtol=1e-3)


def test_pooled_releases_are_those_of_the_centred_cubic():
    fits = [both(seed) for seed in range(3)]
    here, there = (dpstats.combine(list(part)) for part in zip(*fits, strict=True))
    close(there.heterogeneity.statistic, here.heterogeneity.statistic)
    found, expected = there.t_test(THERE), here.t_test(HERE)
    close(found.effect, expected.effect)
    close(found.effect, HERE @ TRUE, 0.02)
    assert np.all(found.sd < fits[0][1].t_test(THERE).sd * 1.01)
    # roots of bounds on biases have an orientation of their own in other coordinates
    assert np.all(np.abs(np.log(found.sd / expected.sd)) < 0.2)
    alone = [[dataclasses.replace(fit, bias=None) for fit in pair] for pair in fits]
    here, there = (dpstats.combine(list(part)) for part in zip(*alone, strict=True))
    close(there.t_test(THERE).sd, here.t_test(HERE).sd)
    close(there.f_test().statistic, here.f_test().statistic)
    # pooled again, and with a release that does not know the last
    cov = np.array(fits[2][0].cov)
    cov[3], cov[:, 3] = math.nan, math.nan
    less = dataclasses.replace(fits[2][0], cov=cov)
    assert less.root is not None and np.isnan(less.root[3]).all()
    assert dpstats.combine([here, less]).determined.all()


def test_factors_and_matrices_pool_alike():
    fits = [both(seed)[0] for seed in range(3)]
    plain = [dataclasses.replace(fit, root=None, bias_root=None) for fit in fits]
    found, expected = dpstats.combine(fits), dpstats.combine(plain)
    close(found.estimates, expected.estimates, 1e-9)
    close(found.cov, expected.cov, 1e-9)
    np.testing.assert_allclose(
        found.bias / np.outer(found.bse, found.bse), expected.bias / np.outer(found.bse, found.bse), atol=1e-8
    )
    close(found.heterogeneity.statistic, expected.heterogeneity.statistic, 1e-9)


def test_a_factor_is_kept_in_files_and_copies_and_left_out_beside_another_matrix():
    _, fit = both()
    for again in (pickle.loads(pickle.dumps(fit)), dpstats.from_dict(json.loads(json.dumps(fit.to_dict())))):
        assert again == fit
        np.testing.assert_array_equal(again.root, fit.root)
        np.testing.assert_array_equal(again.bias_root, fit.bias_root)
    assert dataclasses.replace(fit, cov=2 * fit.cov).root is None
    assert dataclasses.replace(fit, cov=None, covers="None.").root is None
    with pytest.raises(ParameterError, match="root must be None or of shape"):
        dataclasses.replace(fit, root=np.eye(3))
    assert fit.root.flags.writeable is False


def older(fit):
    return dpstats.from_dict({k: v for k, v in fit.to_dict().items() if "root" not in k})


def test_a_file_of_an_older_version_is_read_and_says_nothing_where_its_digits_do_not_suffice():
    years = np.random.default_rng(3).integers(1990, 2021, 4000) * 1.0
    data = {"t": years, "w": (years - MIDDLE) ** 2 + np.random.default_rng(4).normal(0, 5, 4000)}
    fit = dpstats.ols("w ~ t + I(t**2)", data, eps=4, seed=1)
    old = older(fit)
    assert old.root is None and old.params.equals(fit.params) and old.bse.equals(fit.bse)
    with pytest.raises(
        ParameterError,
        match="positive definite covariances, and that of fit 1 is not to the digits that it has",
    ):
        dpstats.combine([older(both(seed)[1]) for seed in range(2)])
    data["j"] = jd = 2459000.5 + 10 * (years - MIDDLE)
    day = dpstats.ols("w ~ j + I(j**2)", data, eps=4, seed=1)
    assert (day.get_prediction({"j": jd[:3]}).se_mean > 0).all()
    assert np.isnan(older(day).get_prediction({"j": jd[:3]}).se_mean).all()


def test_factors():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(4, 6))
    np.testing.assert_allclose(triangular(A) @ triangular(A).T, A @ A.T)
    np.testing.assert_allclose(side_by_side(A, 0 * A, A[:, :1]) @ side_by_side(A, A[:, :1]).T,
                               A @ A.T + np.outer(A[:, 0], A[:, 0]))  # fmt: skip
    assert side_by_side(A, 0 * A) is A and side_by_side(0 * A).shape == (4, 4)
    V = A @ A.T
    np.testing.assert_allclose(root_of(V) @ root_of(V), V)
    assert of_this(A, V, V).all() and of_this(A, V + 1e-6 * np.eye(4), V) is None
    V[0] = V[:, 0] = np.nan
    assert of_this(A, V, V).tolist() == [False, True, True, True]
    A[1] = np.nan
    assert of_this(A, V, V) is None


def cubic(n=20_000):
    rng = np.random.default_rng(0)
    years = rng.integers(1990, 2021, n) * 1.0
    c = years - MIDDLE
    eta = 2e-4 * c**3 - 0.02 * c
    return {
        "year": years, "c": c, "w": 140 + 0.02 * c**3 - 0.5 * c + rng.normal(0, 12, n),
        "k": rng.poisson(np.exp(1 + eta)), "e": 1.0 * (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))),
    }  # fmt: skip


NEW = {"year": [1995.0, 2005, 2015], "c": [-10.0, 0, 10]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "response", "degree"),
    [("ols", "w", 3), ("ols", "w", 5), ("huber", "w", 4), ("adassp", "w", 4), ("tukey_em", "w", 3),
     ("poisson", "k", 3), ("logit", "e", 4)],
)  # fmt: skip
def test_powers_of_a_year_are_those_of_the_centred_year(estimator, response, degree):
    """The noise is another one; everything is determined, and errors of means are alike."""
    data, found = cubic(), []
    for t in ("year", "c"):
        formula = f"{response} ~ " + " + ".join([t, *(f"I({t}**{k})" for k in range(2, degree + 1))])
        fit = getattr(dpstats, estimator)(formula, data, eps=2, seed=1)
        assert fit.determined.all() and fit.root is not None
        found.append((fit.get_prediction(NEW), float(fit.f_test().statistic)))
    (year, f_year), (c, f_c) = found
    assert np.all(np.abs(np.log(year.linear_se / c.linear_se)) < math.log(1.7))
    assert np.all(np.abs(year.linear - c.linear) < 4 * np.hypot(year.linear_se, c.linear_se))
    assert 0.4 < f_year / f_c < 2.5


def test_halves_of_years_are_pooled():
    data = cubic()
    halves = [{k: v[i::2] for k, v in data.items()} for i in (0, 1)]
    pooled = dpstats.combine(
        [dpstats.ols("w ~ year + I(year**2) + I(year**3)", h, eps=2, seed=i) for i, h in enumerate(halves, 1)]
    )
    frame = pooled.get_prediction(NEW)
    assert np.all(np.abs(frame.linear - [125, 140, 155]) < 4 * frame.linear_se)
    assert np.all((frame.linear_se > 0.08) & (frame.linear_se < 0.25))
    assert pooled.heterogeneity.pvalue > 1e-4


@pytest.mark.parametrize(
    "formula", ["w ~ sec * jd", "w ~ jd + I(jd**2)", "k ~ age6 * h6", "w ~ sec + I(sec**2)"]
)
def test_products_and_squares_far_from_0(formula):
    rng, n = np.random.default_rng(5), 20_000
    z = rng.uniform(-1, 1, (2, n))
    data = {
        "sec": 1.6e9 + 1e7 * z[0], "jd": 2459180 + np.round(180 * z[1]),
        "age6": 1e6 + 30 * z[0], "h6": 1e6 + 10 * z[1],
        "w": 5 + z[0] + rng.normal(0, 5, n), "k": rng.poisson(np.exp(1 + 0.2 * z[0])),
    }  # fmt: skip
    estimator = "poisson" if formula[0] == "k" else "ols"
    fit = getattr(dpstats, estimator)(formula, data, eps=2, seed=1)
    prediction = fit.get_prediction({k: v[:50] for k, v in data.items()})
    truth = 1 + 0.2 * z[0, :50] if estimator == "poisson" else 5 + z[0, :50] * ("sec" in formula)
    assert fit.determined.all() and np.all(np.abs(prediction.linear - truth) < 4.5 * prediction.linear_se)
    assert np.all(prediction.linear_se < 0.5) and np.all(prediction.linear_se > 0.002)
