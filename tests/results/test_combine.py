"""Pooled releases: the closed form, coverage, heterogeneity, what is not determined, and the guarantee."""

import copy
import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats
from dpstats.errors import NotReleased, ParameterError
from dpstats.privacy.guarantee import KINDS, Guarantee, Spend
from dpstats.results.estimable import Known
from dpstats.results.glm import GLMResults, Slopes
from dpstats.results.pooling import pool
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results

NAMES = ("Intercept", "x", "f[T.b]")
TRUE = np.array([1.0, -2e-5, 300.0])
UNITS = np.array([1.0, 1e-5, 100.0])


def guarantee(eps=1.0, delta=1e-6, **more):
    given = {"neighbours": "add-remove", "kind": "approximate"} | more
    return Guarantee(eps, delta, **given)


def covariance(rng):
    A = rng.normal(size=(3, 5))
    return A @ A.T * UNITS[:, None] * UNITS


def release(rng, cov=None, kind=Results, **changes):
    cov = covariance(rng) if cov is None else cov
    parts = {
        "method": "OLS", "formula": "y ~ x + f", "response": "y", "names": NAMES, "cov": cov,
        "estimates": rng.multivariate_normal(TRUE, cov), "covers": SAMPLING_AND_PRIVACY,
        "guarantee": guarantee(), "terms": {"x": slice(1, 2), "f": slice(2, 3)}, "cov_type": "robust",
    }  # fmt: skip
    return kind(**(parts | changes))


def several(seed=1, k=3, **changes):
    rng = np.random.default_rng(seed)
    return [release(rng, **changes) for _ in range(k)]


def test_the_closed_form():
    fits = several()
    pooled = dpstats.combine(fits)
    precisions = [np.linalg.inv(fit.cov) for fit in fits]
    cov = np.linalg.inv(sum(precisions))
    estimates = cov @ sum(P @ fit.estimates for P, fit in zip(precisions, fits, strict=True))
    np.testing.assert_allclose(pooled.params, estimates, rtol=1e-8)
    np.testing.assert_allclose(pooled.cov_params(), cov, rtol=1e-7)
    Q = sum(
        (fit.estimates - estimates) @ P @ (fit.estimates - estimates)
        for P, fit in zip(precisions, fits, strict=True)
    )
    assert pooled.heterogeneity.statistic == pytest.approx(Q) and pooled.heterogeneity.df == 6
    assert pooled.heterogeneity.pvalue == pytest.approx(stats.chi2.sf(Q, 6))
    assert type(pooled) is Results and pooled.df is None and pooled.cov_type == "robust"
    assert "Cochran" in str(pooled) and "x" in str(pooled.wald_test_terms())
    assert float(pooled.t_test("x = 0").tvalue[0]) == pytest.approx(pooled.tvalues["x"])


def test_one_coefficient_is_the_inverse_variance_mean():
    fits = [
        release(np.random.default_rng(0), np.diag([v, 1.0, 1.0]), estimates=[b, 0.0, 0.0])
        for b, v in ((1.0, 1.0), (4.0, 2.0))
    ]
    pooled = dpstats.combine(fits)
    assert pooled.params["Intercept"] == pytest.approx(2.0)
    assert pooled.bse["Intercept"] == pytest.approx(math.sqrt(2 / 3))


@pytest.mark.slow
def test_coverage_and_size_of_the_test():
    """600 studies of three releases; false alarm 1e-6 for each of the four shares."""
    rng, n = np.random.default_rng(7), 600
    covs = [covariance(rng) for _ in range(3)]
    roots = [np.linalg.cholesky(V) for V in covs]
    known = [Known.of(np.array(k)) for k in ([True] * 3, [True] * 3, [True, False, True])]
    inside, rejected = np.zeros(3), 0
    for _ in range(n):
        drawn = [TRUE + root @ rng.normal(size=3) for root in roots]
        estimates, cov, _, Q, df, *_ = pool(drawn, covs, known)
        inside += np.abs(estimates - TRUE) < 1.959964 * np.sqrt(np.diagonal(cov))
        rejected += stats.chi2.sf(Q, df) < 0.05
    allowed = 4.9 * math.sqrt(0.05 * 0.95 / n)
    assert np.all(np.abs(inside / n - 0.95) < allowed) and abs(rejected / n - 0.05) < allowed


def test_of_releases_in_which_nothing_is_determined_nothing_is():
    lost = [dataclasses.replace(fit, cov=np.full((3, 3), math.nan)) for fit in several()]
    pooled = dpstats.combine(lost)
    assert not pooled.determined.any() and pooled.bse.isna().all() and np.isnan(pooled.root).all()
    with pytest.raises(NotReleased):
        pooled.wald_test(np.eye(3))


def test_what_is_determined_in_some_releases_only():
    """Dropping a coefficient of a release is the same as giving it an enormous variance there."""
    fits = several()
    covs = [np.array(fit.cov) for fit in fits]
    covs[0][1], covs[0][:, 1] = math.nan, math.nan
    for cov in covs:
        cov[2], cov[:, 2] = math.nan, math.nan
    lost = [dataclasses.replace(fit, cov=cov) for fit, cov in zip(fits, covs, strict=True)]
    pooled = dpstats.combine(lost)
    assert pooled.determined.to_dict() == {"Intercept": True, "x": True, "f[T.b]": False}
    assert math.isnan(pooled.params["f[T.b]"]) and "n.d." in str(pooled)
    P, weighted = np.zeros((2, 2)), np.zeros(2)
    for i, fit in enumerate(fits):
        A = np.eye(2)[:1] if i == 0 else np.eye(2)
        part = np.linalg.inv(fit.cov[: len(A), : len(A)])
        P += A.T @ part @ A
        weighted += A.T @ part @ fit.estimates[: len(A)]
    np.testing.assert_allclose(pooled.params.iloc[:2], np.linalg.solve(P, weighted))
    assert pooled.heterogeneity.df == 3


def test_means_of_several_columns_are_pooled_column_by_column(tmp_path):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": rng.normal(5, 1, 6000), "b": rng.normal(0, 3, 6000)})
    fits = [dpstats.mean("a + b ~ 1", frame[i::3], eps=2, seed=i) for i in range(3)]
    pooled = dpstats.combine(fits)
    variances, biases = np.array([(np.diagonal(fit.cov), np.diagonal(fit.bias)) for fit in fits]).swapaxes(
        0, 1
    )
    weights = 1 / variances / (1 / variances).sum(axis=0)
    np.testing.assert_allclose(pooled.params, sum(weights * [fit.estimates for fit in fits]))
    shared = (weights * np.sqrt(biases)).sum(axis=0) ** 2
    expected = (weights**2 * (variances - biases)).sum(axis=0) + shared
    np.testing.assert_allclose(pooled.bse**2, expected)
    assert pooled.determined.all() and np.isnan(pooled.cov[0, 1])
    assert math.isnan(pooled.heterogeneity.pvalue) and "pooled by itself" in str(pooled)
    with pytest.raises(NotReleased, match="covariances between its estimates"):
        pooled.wald_test(["a", "b"])
    pooled.save(tmp_path / "fit.json")
    assert dpstats.load(tmp_path / "fit.json") == pooled
    assert dpstats.combine([pooled, fits[0]]).determined.all()


def test_the_guarantee_is_the_weakest_of_all():
    step = Spend("sums", "Gaussian noise", 1.0, 1e-6)
    parts = [guarantee(1.0, 1e-6, spends=(step,)), guarantee(0.5, 1e-5), guarantee(0.1, 0.0, kind="pure")]
    fits = [dataclasses.replace(f, guarantee=g) for f, g in zip(several(), parts, strict=True)]
    pooled = dpstats.combine(fits).guarantee
    assert (pooled.eps, pooled.delta, pooled.kind, pooled.spends) == (1.0, 1e-5, "approximate", ())
    assert "analyst's word" in pooled.scope and not pooled.seeded
    assert "analyst's word" in " ".join(str(dpstats.combine(fits)).split())
    seeded = [fits[0], dataclasses.replace(fits[1], guarantee=guarantee(seeded=True))]
    assert dpstats.combine(seeded).guarantee.seeded
    same = dpstats.combine(several(guarantee=parts[0])).guarantee
    assert same.spends == (step,) and same.eps == 1.0


def test_the_scope_under_substitution_and_of_units():
    replaced = dpstats.combine(several(guarantee=guarantee(neighbours="substitution"))).guarantee
    assert "costs twice" in replaced.scope and replaced.neighbours == "substitution"
    units = dpstats.combine(several(guarantee=guarantee(unit="patient"))).guarantee
    assert "no 'patient' is in" in units.scope and units.unit == "patient"


def one(**changes):
    return [several()[0], several(**changes)[1]]


@pytest.mark.parametrize(
    ("fits", "message"),
    [
        (several()[:1], "two Results or more"),
        ("fits", "a list of Results"),
        ([1, 2], "a list of Results"),
        ([several()[0]] * 2, "disjoint data, and two of them are the same release"),
        ([several()[0], copy.deepcopy(several()[0])], "disjoint data"),
        (
            one(limited=(("x", -1.0, 2.5),)),
            r"same interval, got limits of fit 2 \(x \[-1\.000, 2\.500\]\), and none of fit 1\. .*bounds=",
        ),
        (one(names=("Intercept", "x", "z")), "the same names.*, got f.T.b. in fit 1 alone; z in fit 2 alone"),
        (one(names=("x", "Intercept", "f[T.b]")), "the same names.*, got another order"),
        (one(terms={}), "the same terms.* in fit 1 alone"),
        (one(response="z"), "the same response.*, got 'y' and 'z'"),
        (
            one(kind=GLMResults, link="log"),
            "of one kind, with one link, got Results, GLMResults with link log",
        ),
        (one(method="Huber"), "of one estimator, got OLS, Huber"),
        (
            [
                release(np.random.default_rng(seed), kind=GLMResults, link="log", offset=offset)
                for seed, offset in enumerate(("t", None))
            ],
            "one offset, as rates have one unit, got t, none",
        ),
        (one(guarantee=guarantee(neighbours="substitution")), "same neighbours"),
        (one(guarantee=guarantee(unit="id")), "same unit"),
        (one(guarantee=guarantee(kind=KINDS[2], gamma=0.1)), "no such rule"),
        (one(cov=np.ones((3, 3)), estimates=[1, 2, 3]), "positive definite"),
        (one(cov=np.zeros((3, 3)), estimates=[1, 2, 3]), "positive standard errors"),
    ],
)
def test_what_does_not_belong_together_is_refused(fits, message):
    with pytest.raises(ParameterError, match=message):
        dpstats.combine(fits)


def test_without_the_sampling_variation_there_are_no_weights():
    fits = several()
    for changes in ({"covers": PRIVACY}, {"cov": None, "covers": "No intervals."}):
        with pytest.raises(NotReleased, match="needs a covariance"):
            dpstats.combine([fits[0], dataclasses.replace(fits[1], **changes)])


def test_generalised_linear_models_stay_what_they_are():
    slopes = Slopes(0.2, np.zeros(3), 0.01)
    pooled = dpstats.combine(several(kind=GLMResults, link="log", slopes=slopes))
    assert type(pooled) is GLMResults and pooled.link == "log"
    assert "exp(coef)" in str(pooled.summary(exponentiate=True))
    with pytest.raises(NotReleased):
        pooled.marginal_effects()


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.normal(size=6000), "s": np.repeat(["a", "b", "c"], 2000)})
    frame["y"] = 1 + 2 * frame["x"] + rng.normal(size=6000)
    return frame


def test_releases_of_three_sites_predict_and_count_together(sites):
    fits = [dpstats.ols("y ~ x", part, eps=3, seed=i) for i, (_, part) in enumerate(sites.groupby("s"))]
    pooled = dpstats.combine(fits)
    assert pooled.bse["x"] < min(fit.bse["x"] for fit in fits)
    assert abs(pooled.params["x"] - 2) < 5 * pooled.bse["x"]
    assert pooled.nobs == pytest.approx(sum(fit.nobs for fit in fits))
    new = sites.head(3)
    np.testing.assert_allclose(
        pooled.predict(new), pooled.params["Intercept"] + pooled.params["x"] * new["x"]
    )
    assert pooled.get_prediction(new).summary_frame().shape == (3, 4)
    assert pooled.limits.loc["x", 0] == min(fit.limits.loc["x", 0] for fit in fits)


def test_groups_are_disjoint_by_themselves(sites):
    fits = dpstats.ols("y ~ x", sites, eps=3, by="s", levels={"s": ["a", "b", "c"]}, seed=1)
    pooled = dpstats.combine(fits)
    assert pooled.guarantee == fits.guarantee
    others = dpstats.combine([fits[s] for s in fits])
    assert pooled == dataclasses.replace(others, guarantee=fits.guarantee, notes=pooled.notes)
    assert any(note.startswith("a: ") for note in pooled.notes)
    assert [note.startswith("fit 1: ") for note in others.notes] == [
        note.startswith("a: ") for note in pooled.notes
    ]


def test_means_of_values_limited_alike_stay_that():
    limited = (("x", -1.0, 2.5),)
    pooled = dpstats.combine(several(limited=limited))
    assert pooled.limited == limited
    assert "x, limited to" in str(pooled)


def test_differently_limited_fits_are_named_however_many_they_are():
    fits = [dataclasses.replace(fit, limited=(("x", 0.0, i),)) for i, fit in enumerate(several(k=9), 1)]
    with pytest.raises(ParameterError, match=r"fit 1 .*fit 5 .* and 4 more\. What"):
        dpstats.combine(fits)


def test_pooled_fits_can_be_pooled_again():
    first, second, third = several(k=3)
    pooled = dpstats.combine([dpstats.combine([first, second]), third])
    assert pooled.method == "OLS, pooled"


LEVELS = ("Intercept", "f[T.b]", "f[T.c]", "f[T.d]", "x")
ABOUT_B = np.array([[1.0, 1, 0, 0, 0], [0, -1, 1, 0, 0], [0, -1, 0, 1, 0], [0, 0, 0, 0, 1]])
"""What is determined without the reference level: the mean of b, two differences from it, and the slope."""
TERMS = {"f": slice(1, 4), "x": slice(4, 5)}
FREE = np.array([[1.0], [-1], [-1], [-1], [0]])


def without_reference(rng, anchor=1):
    """A release without the reference level, with the level of an anchor in its place; and what it
    determines, with the covariance."""
    A = rng.normal(size=(4, 6)) * np.array([1.0, 1, 1, 1e-5])[:, None]
    told, V = np.array([1.0, 2, 3, -2e-5]) + rng.normal(size=4) * np.sqrt(np.diag(A @ A.T)), A @ A.T
    beta, root = (np.insert(part[[0, 1, 2, 3]], 1, 0.0, axis=0) for part in (told, A))
    beta, root = (part + FREE * part[anchor] for part in (beta[:, None], root))
    cov = root @ root.T
    cov[:4] = cov[:, :4] = np.nan
    changes = {"names": LEVELS, "terms": TERMS, "estimates": beta[:, 0], "cov": cov, "root": root}
    return dataclasses.replace(release(rng), **changes, free=FREE), (told, V, ABOUT_B)


def with_reference(rng):
    A = rng.normal(size=(5, 7)) * np.array([1.0, 1, 1, 1, 1e-5])[:, None]
    b = np.array([0.5, 0.5, 2.5, 3.5, -2e-5]) + A @ rng.normal(size=7) / np.sqrt(7)
    changes = {"names": LEVELS, "terms": TERMS, "estimates": b, "cov": A @ A.T}
    return dataclasses.replace(release(rng), **changes), (b, A @ A.T, np.eye(5))


@pytest.mark.parametrize("anchors, some", [((1, 1), False), ((1, 3, 2), False), ((1, 2), True)])
def test_differences_beside_a_reference_that_is_left_out(anchors, some, tmp_path):
    """Against generalised least squares of what each release determines, whichever level takes its place."""
    rng = np.random.default_rng(5)
    fits, told = zip(*[without_reference(rng, anchor) for anchor in anchors], strict=True)
    if some:
        fit, all_of_it = with_reference(rng)
        fits, told = (fit, *fits), (all_of_it, *told)
    pooled = dpstats.combine(list(fits))
    # a least-norm inverse in units of the columns: what is not determined has no part in the differences
    unit = np.array([1.0, 1, 1, 1, 1e-5])
    inner = sum((A * unit).T @ np.linalg.solve(V, A * unit) for _, V, A in told)
    inverse = np.linalg.pinv(inner, 1e-10)
    beta = unit * (inverse @ sum((A * unit).T @ np.linalg.solve(V, b) for b, V, A in told))
    cov = inverse * unit[:, None] * unit
    found = pooled.t_test(ABOUT_B)
    np.testing.assert_allclose(found.effect, ABOUT_B @ beta, rtol=1e-8)
    np.testing.assert_allclose(np.ravel(found.sd) ** 2, np.diag(ABOUT_B @ cov @ ABOUT_B.T), rtol=1e-8)
    q = sum((b - A @ beta) @ np.linalg.solve(V, b - A @ beta) for b, V, A in told)
    assert pooled.heterogeneity.statistic == pytest.approx(q)
    assert pooled.heterogeneity.df == sum(map(len, (b for b, _, _ in told))) - (5 if some else 4)
    assert list(pooled.determined) == [some] * 4 + [True]
    assert np.isnan(np.ravel(pooled.t_test("f[T.b] = 0").sd)[0]) != some
    joint = pooled.wald_test("f[T.c] = f[T.b], f[T.d] = f[T.b]")
    R = ABOUT_B[1:3]
    value = R @ beta @ np.linalg.solve(R @ cov @ R.T, R @ beta)
    assert float(np.ravel(joint.statistic)[0]) == pytest.approx(value)
    pooled.save(tmp_path / "fit.json")
    again = dpstats.load(tmp_path / "fit.json")
    np.testing.assert_allclose(again.t_test(ABOUT_B).sd, found.sd)
    more, _ = without_reference(rng, 2)
    twice, once = dpstats.combine([pooled, more]), dpstats.combine([*fits, more])
    np.testing.assert_allclose(twice.t_test(ABOUT_B).sd, once.t_test(ABOUT_B).sd, rtol=1e-7)


def any_release(rng):
    """A release with or without the reference level, in which more may be hidden; and what it determines."""
    free, lost = rng.random() < 0.6, np.zeros(5, bool)
    lost[rng.choice(5, rng.integers(0, 3), replace=False)] = True
    if free:
        fit, (told, V, ways) = without_reference(rng, rng.integers(1, 4))
        root = np.array(fit.root)
        root[lost] = np.nan
        cov = np.where(lost[:, None] | lost, np.nan, fit.cov)
        # all differences of levels, of which some are alike, and the slope
        some = [i for i in range(4) if not lost[i]]
        R = [np.eye(5)[i] - FREE[i, 0] / FREE[j, 0] * np.eye(5)[j] for j in some[:1] for i in some[1:]]
        ways = np.array(R + [np.eye(5)[4]] * (not lost[4])).reshape(-1, 5)
        return dataclasses.replace(fit, root=root, cov=cov), (ways @ fit.estimates, root, ways)
    fit, (b, V, ways) = with_reference(rng)
    cov = np.where(lost[:, None] | lost, np.nan, V)
    return dataclasses.replace(fit, cov=cov), (b[~lost], np.linalg.cholesky(V), ways[~lost])


@pytest.mark.parametrize("seed", range(40))
def test_whatever_releases_hide_all_that_they_determine_is_pooled(seed):
    """Against generalised least squares, coefficient by coefficient and difference by difference: also where
    the level that stands for the reference is hidden in another release."""
    rng = np.random.default_rng(seed)
    fits, told = zip(*[any_release(rng) for _ in range(rng.integers(2, 5))], strict=True)
    pooled = dpstats.combine(list(fits))
    unit = np.array([1.0, 1, 1, 1, 1e-5])
    parts = [(b, (A @ np.nan_to_num(root)) @ (A @ np.nan_to_num(root)).T, A * unit) for b, root, A in told]
    stacked = np.vstack([A for *_, A in parts])
    inverse = np.linalg.pinv(sum(A.T @ np.linalg.solve(V, A) for _, V, A in parts), 1e-10)
    beta = inverse @ sum(A.T @ np.linalg.solve(V, b) for b, V, A in parts)
    R = np.array([*np.eye(5), *(np.eye(5)[i] - np.eye(5)[j] for i in range(1, 4) for j in range(1, i))])
    rank = np.linalg.matrix_rank(stacked)
    there = [np.linalg.matrix_rank(np.vstack([stacked, r * unit])) == rank for r in R]
    sd = np.where(there, np.sqrt(np.abs(np.einsum("ij,jk,ik->i", R * unit, inverse, R * unit))), np.nan)
    found = pooled.t_test(R)
    np.testing.assert_allclose(np.ravel(found.sd), sd, rtol=1e-7)
    np.testing.assert_allclose(np.ravel(found.effect)[there], ((R * unit) @ beta)[there], rtol=1e-6)
    assert list(pooled.determined) == there[:5]
    q = sum((b - A @ beta) @ np.linalg.solve(V, b - A @ beta) for b, V, A in parts)
    assert pooled.heterogeneity.statistic == pytest.approx(q, abs=1e-8)
    assert pooled.heterogeneity.df == len(stacked) - rank


def test_fits_that_visibly_differ_are_told_of():
    alike, other = several()[:2], release(np.random.default_rng(9), estimates=TRUE + 40 * UNITS)
    assert "visibly are not" not in str(dpstats.combine(alike))
    assert "may then lie outside those of all fits" in dpstats.combine([*alike, other]).notes[1]


def test_notes_say_what_the_estimates_are_about():
    notes = [
        ["Of all.", "Columns winsorised at x [0, 1], in the fit."],
        ["Of all."],
        ["Of all.", "Left out: z."],
    ]
    fits = [dataclasses.replace(fit, notes=own) for fit, own in zip(several(), notes, strict=True)]
    assert dpstats.combine(fits).notes[2:] == (
        "Of all.", "fit 1: Columns winsorised at x [0, 1], in the fit.", "fit 3: Left out: z.",
    )  # fmt: skip
    many = [dataclasses.replace(fit, notes=[f"Note {i}."]) for i, fit in enumerate(several(k=20))]
    assert dpstats.combine(many).notes[-1] == "8 more notes: each fit has its own in notes."


def test_the_limits_of_columns_in_the_fit_are_in_the_notes(sites):
    parts = [part for _, part in sites.groupby("s")]
    fits = [dpstats.ols("y ~ x", part, eps=3, seed=i, winsorize=True) for i, part in enumerate(parts)]
    text = " ".join(str(dpstats.combine(fits)).split())
    assert all(f"fit {i}: Columns winsorised at x [" in text for i in (1, 2, 3)) and "in the fit" in text


def test_what_to_do_with_groups_that_cannot_be_combined_as_they_are(sites):
    fits = dpstats.ols("y ~ x", sites, eps=3, by="s", levels={"s": ["a", "b", "c"]}, seed=1)
    reasons = dict.fromkeys("bc", "too few rows.")
    single = dataclasses.replace(fits, results={"a": fits["a"]}, failed=reasons)
    with pytest.raises(
        ParameterError, match=r"two groups or more with an estimate, got 1 of 3; fits\.failed"
    ):
        dpstats.combine(single)
    with pytest.raises(ParameterError, match=r"combine\(\[\*groups\.values\(\), another\]\)"):
        dpstats.combine([fits, fits["a"]])
    assert dpstats.combine([*single.values(), fits["b"]]).nobs == fits["a"].nobs + fits["b"].nobs


def test_groups_without_a_fit_are_named(sites):
    fits = dpstats.ols("y ~ x", sites, eps=3, by="s", levels={"s": ["a", "b", "c"]}, seed=1)
    two = dataclasses.replace(fits, results={g: fits[g] for g in "ac"}, failed={"b": "too few rows."})
    said = "1 of 3 groups have no fit and are not in this mean: b."
    assert dpstats.combine(two).notes[1] == said
    assert not any("have no fit" in note for note in dpstats.combine(fits).notes)
    found = dpstats.describe(sites, ["x"], eps=3, by="s", levels={"s": ["a", "b", "c"]}, seed=1)
    with pytest.raises(ParameterError, match="a GroupedResults of an estimator"):
        dpstats.combine(found)


def test_a_pooled_fit_without_any_coefficient_is_saved(tmp_path, monkeypatch):
    """Its test has no p-value, and the file that was there is not lost if one cannot be written."""
    unknown = [dataclasses.replace(fit, cov=np.full((3, 3), np.nan)) for fit in several()]
    pooled, path = dpstats.combine(unknown), tmp_path / "fit.json"
    pooled.save(path)
    assert dpstats.load(path) == pooled and np.isnan(dpstats.load(path).heterogeneity.pvalue)
    assert json.loads(path.read_text())["heterogeneity"] == {"statistic": 0.0, "pvalue": None, "df": 0.0}
    before = path.read_text()
    monkeypatch.setattr(Results, "to_dict", lambda fit: {"first": 1.0, "second": math.nan})
    with pytest.raises(ValueError, match="Out of range"):
        pooled.save(path)
    assert path.read_text() == before


def test_bounds_on_biases_add_up_as_lengths():
    """The same bias in all releases is that of their mean: only the rest of the variance falls."""
    covs, known = [np.diag([4.0, 9.0, 1.0])] * 5, [Known.of(np.ones(3, bool))] * 5
    bias = np.diag([3.0, 0.0, 0.5])
    _, cov, shared, *_ = pool([TRUE] * 5, covs, known, [bias] * 5)
    np.testing.assert_allclose(cov, np.diag([3 + 1 / 5, 9 / 5, 0.5 + 0.5 / 5]), atol=1e-12)
    np.testing.assert_allclose(shared, bias, atol=1e-12)
    rng = np.random.default_rng(1)
    covs = [covariance(rng) for _ in range(3)]
    parts = [0.5 * V for V in covs]
    _, cov, shared, *_ = pool([TRUE] * 3, covs, known[:3], parts)
    least = pool([TRUE] * 3, covs, known[:3])[1]
    assert np.linalg.eigvalsh(cov - least)[0] > 0 and np.linalg.eigvalsh(cov - shared)[0] > 0
    missing = [Known.of(np.array([True, False, True])), *known[1:3]]
    _, cov, *_ = pool([TRUE] * 3, covs, missing, parts)
    assert np.linalg.eigvalsh(cov)[0] > 0


def test_biases_of_fits_do_not_cancel():
    """Half of each variance is the square of a bound: that half stays in the variance of five pooled fits."""
    fits = several(k=5)
    shared = [dataclasses.replace(fit, bias=0.5 * fit.cov) for fit in fits]
    plain, pooled = (np.diagonal(dpstats.combine(each).cov) for each in (fits, shared))
    assert (pooled > 1.5 * plain).all()


@pytest.mark.slow
@pytest.mark.parametrize("law", ["log-normal", "0/1"])
def test_pooled_means_hold(law):
    """Of 20 groups: each mean leans to the tail within its interval. False alarm 1e-6 for 93 %."""
    held = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        values = np.exp(0.8 * rng.normal(size=60_000)) if law == "log-normal" else rng.random(60_000) < 0.3
        frame = pd.DataFrame({"y": values.astype(float), "g": np.arange(60_000) % 20})
        levels = {"g": list(range(20))}
        fit = dpstats.combine(dpstats.mean("y ~ 1", frame, eps=2, by="g", levels=levels, seed=seed))
        low, high = fit.conf_int().to_numpy()[0]
        held.append(low <= (np.exp(0.32) if law == "log-normal" else 0.3) <= high)
    assert sum(held) >= stats.binom.ppf(1e-6, len(held), 0.93)
