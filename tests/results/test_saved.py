"""Results written as JSON and read again: every estimator, every kind of interval, every bit."""

import copy
import dataclasses
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.errors import NotReleased, ParameterError
from dpstats.estimation import pipeline
from dpstats.linear.anchors import LineInterval
from dpstats.mechanisms.smooth_sensitivity import NoiseInterval
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.hypotheses import HetTest
from dpstats.results.inference import FixedInterval
from dpstats.results.parts import Declared, Heterogeneity, Origin
from dpstats.results.results import PRIVACY, SAMPLING_AND_PRIVACY, Results


def through_json(fit):
    return dpstats.from_dict(json.loads(json.dumps(fit.to_dict(), allow_nan=False)))


def make(**changes):
    parts = {
        "method": "OLS", "formula": "y ~ x", "response": "y", "names": ("Intercept", "x"),
        "estimates": [0.1 + 0.2, -1 / 3], "cov": [[0.04, 0.001], [0.001, 0.0025]],
        "covers": SAMPLING_AND_PRIVACY, "guarantee": Guarantee(1.0, 1e-6, "add-remove", "approximate"),
    }  # fmt: skip
    return Results(**(parts | changes))


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 3000
    frame = pd.DataFrame({
        "x": rng.normal(size=n), "f": rng.choice(["a", "b"], n), "g": rng.choice([1, 2], n),
        "id": np.repeat(np.arange(n // 3), 3),
    })  # fmt: skip
    frame["y"] = 1 + frame["x"] + (frame["f"] == "b") + rng.normal(size=n)
    frame["k"] = rng.poisson(np.exp(0.2 * frame["x"]))
    frame["c"] = (frame["y"] > 1).astype(int)
    return frame


LEVELS = {"f": ["a", "b"], "g": [1, 2]}
CALLS = {
    "ols": (
        "ols",
        "y ~ f + bs(x, knots=[0], lower_bound=-3, upper_bound=3)",
        {"levels": {"f": ["a", "b"]}, "bounds": {"x": (-3, 3)}},
    ),
    "winsorised": ("ols", "y ~ x + I(x**2)", {"winsorize": True}),
    "within": ("ols", "y ~ x", {"unit": "id", "effects": "unit"}),
    "logit": ("logit", "c ~ x", {}),
    "poisson": ("poisson", "k ~ x", {}),
    "median": ("median", "y ~ 1", {"alpha": 0.05, "bounds": {"y": (-9, 9)}}),
    "groups": ("ols", "y ~ x", {"by": "g", "levels": LEVELS}),
    "groups of medians": ("median", "y ~ 1", {"by": "f", "levels": LEVELS, "alpha": None}),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_release_comes_back_whole(frame, case):
    name, formula, more = CALLS[case]
    fit = getattr(dpstats, name)(formula, frame, eps=20, seed=1, **more)
    again = through_json(fit)
    assert type(again) is type(fit) and again.to_dict() == fit.to_dict()
    assert str(again.summary()) == str(fit.summary()) and again.guarantee == fit.guarantee
    pd.testing.assert_frame_equal(again.tidy(), fit.tidy(), check_exact=True)
    pairs = [(again, fit)] if isinstance(fit, Results) else [(again[g], fit[g]) for g in fit]
    for one, other in pairs:
        assert one == other and one.terms == other.terms and one.limited == other.limited
        assert one.declared == other.declared and bool(one.declared) == (one.design is None)
        if case in ("within", "median", "groups of medians"):
            with pytest.raises(NotReleased):
                one.predict(frame)
            continue
        pd.testing.assert_series_equal(one.predict(frame), other.predict(frame), check_exact=True)
        pd.testing.assert_frame_equal(
            one.get_prediction(frame).summary_frame(), other.get_prediction(frame).summary_frame()
        )
        pd.testing.assert_frame_equal(one.limits, other.limits)
        assert one.wald_test_terms().table.equals(other.wald_test_terms().table)
        if name in ("logit", "poisson"):
            assert one.marginal_effects().equals(other.marginal_effects())


@pytest.mark.parametrize(
    "interval",
    [
        FixedInterval((-math.inf, 0.1), (1.0, math.inf), 0.1),
        NoiseInterval((0.1 + 0.2, -1 / 3), (0.1, 0.0), 2.0),
        LineInterval((0.3, 1 / 3), 0.1, (-1.0, 2.0), 3.0),
    ],
    ids=lambda interval: type(interval).__name__,
)
def test_every_kind_of_interval(interval):
    fit = make(cov=None, covers=PRIVACY, interval=interval)
    again = through_json(fit)
    assert again.interval == interval and again.conf_int().equals(fit.conf_int())


def test_levels_of_any_kind_of_number_are_written():
    frame = pd.DataFrame({"y": np.arange(400.0), "g": np.tile([0.5, 1.5], 200)})
    levels = {"g": [Fraction(1, 2), np.float64(1.5)]}
    fits = dpstats.median("y ~ 1", frame, eps=5, alpha=None, by="g", levels=levels, seed=1)
    assert through_json(fits).params.equals(fits.params.set_axis(pd.Index([0.5, 1.5], name="g")))


def test_another_interval_comes_back_for_its_confidence():
    class Own:
        alpha = 0.2

        def conf_int(self, alpha):
            return np.array([[0.0, 1.0], [math.nan, math.nan]])

    again = through_json(make(cov=None, covers=PRIVACY, interval=Own()))
    assert again.alpha == 0.2 and again.conf_int().loc["Intercept"].tolist() == [0.0, 1.0]
    assert again.determined.tolist() == [True, False]


def test_every_field_comes_back():
    fit = make(
        estimates=[math.inf, math.nan], cov=[[math.inf, math.nan], [math.nan, 5e-324]], df=7.5, notes=("a",),
        released={"n": 1e300, "sigma": math.nan}, terms={"x": slice(1, 2)}, cov_type="robust",
        limited=(("x", -math.inf, 2.0),), het=HetTest(3.0, 0.1, 1),
        declared=(Declared("x", None, (0.0, 0.1)), Declared("f", ("a", 1, 0.5, True))),
        heterogeneity=Heterogeneity(1.0, 0.5, 2.0), origin=Origin("0.1.0", "2026-01-31T12:00:00+00:00"),
        guarantee=Guarantee(1, 0, "substitution", "pure", scope="Some.", unit="id", seeded=True),
    )  # fmt: skip
    again = through_json(fit)
    for field in dataclasses.fields(Results):
        one, other = getattr(again, field.name), getattr(fit, field.name)
        if field.name in ("estimates", "cov"):
            np.testing.assert_array_equal(one, other)
        elif field.name == "released":
            assert repr(one) == repr(other)
        else:
            assert one == other, field.name


def test_a_group_without_estimate_comes_back_under_any_name_of_the_column():
    guarantee = Guarantee(1, 1e-6, "add-remove", "approximate")
    for by in ("g", "failed", "dpstats", "formula"):
        fits = dpstats.results.grouped.GroupedResults(
            "OLS",
            "y ~ x",
            by,
            ("a", 2, 0.5, True),
            {"a": make(), 0.5: make()},
            {2: "no.", True: "no!"},
            guarantee,
        )
        again = through_json(fits)
        assert dict(again.results) == dict(fits.results) and dict(again.failed) == dict(fits.failed)
        assert again.levels == fits.levels and str(again) == str(fits)


# -- the time and the version --------------------------------------------------------------------------


def test_a_release_says_when_it_was_made_and_a_seeded_one_does_not(frame, monkeypatch):
    fit = dpstats.median("y ~ 1", frame, eps=1, alpha=None)
    saved = fit.to_dict()["dpstats"]
    assert saved["version"] == dpstats.__version__ and saved["kind"] == "Results"
    assert len(saved["released_at"]) == 25 and saved["released_at"].endswith("+00:00")
    assert through_json(fit).origin == fit.origin
    seeded = [dpstats.median("y ~ 1", frame, eps=1, alpha=None, seed=1) for _ in range(2)]
    assert seeded[0].origin == Origin(dpstats.__version__) and pickle.dumps(seeded[0]) == pickle.dumps(
        seeded[1]
    )
    fits = dpstats.median("y ~ 1", frame, eps=1, alpha=None, by="g", levels=LEVELS)
    assert fits.origin.released_at and {fits[g].origin for g in fits} == {fits.origin}


def test_the_time_is_taken_before_rows_are_read(frame, monkeypatch):
    order = []
    now, opened = Origin.now, pipeline.opened
    monkeypatch.setattr(pipeline.Origin, "now", lambda seeded: order.append("time") or now(seeded))
    monkeypatch.setattr(pipeline, "opened", lambda *given: order.append("rows") or opened(*given))
    dpstats.median("y ~ 1", frame, eps=1)
    assert order == ["time", "rows"]


def test_equality_is_about_numbers():
    early, late = (make(origin=Origin("0.1.0", f"2026-01-31T12:00:0{s}+00:00")) for s in (1, 2))
    assert early == late and early != make(estimates=[1.0, 2.0])


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("facts", [None, [], {}, "text", {"dpstats": 1}, {"coefficients": []}])
def test_something_else_is_refused(facts):
    with pytest.raises(ParameterError, match="facts must be what to_dict"):
        dpstats.from_dict(facts)


@pytest.mark.parametrize("text", ["", "[1]", '{"a": 1}', '"text"'])
def test_a_file_of_something_else_is_refused_by_its_path(text, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ParameterError, match=r"path must be that of a file that fit.save\(\) wrote"):
        dpstats.load(path)


def test_what_is_no_fit_is_refused_in_words(frame):
    found = dpstats.describe(frame, columns=["x"], eps=5, seed=1)
    with pytest.raises(ParameterError, match=r"to_dict\(\) of a fit gave \(what describe\(\).* is not read"):
        dpstats.from_dict(found.to_dict())


@pytest.mark.parametrize(("form", "fine"), [("1.0", True), ("1.7", True), ("2.0", False), (None, False)])
def test_another_major_format_is_refused(form, fine):
    facts = make().to_dict()
    facts["dpstats"]["format"] = form
    if fine:
        assert dpstats.from_dict(facts) == make()
        return
    with pytest.raises(ParameterError, match="must be of format 1.0"):
        dpstats.from_dict(facts)


def test_what_was_changed_is_refused_in_words(frame):
    good = dpstats.ols("y ~ x", frame, eps=20, seed=1).to_dict()
    changes = {
        "cov": [[1.0]], "guarantee": {}, "terms": {"x": ["z"]}, "interval": {"kind": "other"},
        "design": {"formula": "y ~ nothing", "columns": [], "low": None, "high": None}, "covers": 3,
        "coefficients": [{}], "dpstats": good["dpstats"] | {"kind": "Other"},
    }  # fmt: skip
    for key, value in changes.items():
        with pytest.raises(ParameterError):
            dpstats.from_dict(copy.deepcopy(good) | {key: value})
        less = copy.deepcopy(good)
        del less[key]
        with pytest.raises(ParameterError, match="what to_dict"):
            dpstats.from_dict(less)
