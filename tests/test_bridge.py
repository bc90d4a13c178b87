import dataclasses
import inspect
import json
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats import bridge as _bridge
from dpstats import bridge_explore as explore
from dpstats import errors
from dpstats.errors import ReleaseFailed
from dpstats.privacy.guarantee import Guarantee

FACTORS = ["np.log(x)", "g", "Q('two words')"]
TERMS = [[0], [1], [2], [0, 1]]


def frame(n=2000):
    i = np.arange(n)
    return pd.DataFrame({
        "y": np.sin(i) * 3 + (i % 3),
        "x": 2 + np.cos(i),
        "g": pd.Categorical(np.array(["a", "b", "c"])[i % 3], categories=["a", "b", "c"]),
        "f": pd.array(i % 2 == 0, dtype="boolean"),
        "two words": np.cos(3 * i),
    })  # fmt: skip


def crossed(table):
    """A data frame as R sends it."""
    columns = {}
    for name, column in table.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            codes = (column.cat.codes.to_numpy() + 1).astype(np.int32)
            columns[name] = {
                "kind": "factor", "values": bytearray(codes.tobytes()), "levels": list(column.cat.categories)
            }  # fmt: skip
        elif column.dtype == "boolean":
            codes = column.to_numpy(np.int32) + 1
            columns[name] = {"kind": "truth", "values": bytearray(codes.tobytes())}
        else:
            columns[name] = {"kind": "number", "values": bytearray(column.to_numpy(float).tobytes())}
    return columns


def value(answer):
    assert "error" not in answer, answer["error"]
    assert not list(strange(answer))
    return answer["value"]


def strange(answer):
    """What is no plain value: reticulate with a newer NumPy makes nothing of NumPy's scalars, which pass for
    floats."""
    if type(answer) is dict:
        assert all(type(key) is str for key in answer)
        for item in answer.values():
            yield from strange(item)
    elif type(answer) is list:
        for item in answer:
            yield from strange(item)
    elif type(answer) not in (str, float, int, bool, type(None)):
        yield answer


def test_numbers_of_numpy_are_strange():
    assert list(strange({"a": [1.0, np.float64(2)], "b": (1,), "c": np.arange(2)})) != []
    assert _bridge._plain({"a": np.float64(2), "b": (np.int64(1), True), "c": None}) == {
        "a": 2.0,
        "b": [1, True],
        "c": None,
    }
    assert not list(strange(_bridge._plain({"a": np.float64(2), "b": [{"c": np.bool_(1)}]})))


def test_an_estimate_is_that_of_the_function():
    data = frame()
    formula = "y ~ np.log(x) + g + Q('two words') + np.log(x):g"
    found = value(
        _bridge.estimate("ols", formula, crossed(data), {"eps": 2.0, "seed": 3.0}, None, FACTORS, TERMS)
    )
    fit = dpstats.ols(formula, data, eps=2, seed=3)
    assert found["names"] == list(fit.names)
    assert found["estimates"] == fit.estimates.tolist()
    assert np.array_equal(np.reshape(found["cov"], (len(fit.names),) * 2), fit.cov)
    assert found["guarantee"] == fit.guarantee.to_dict()
    assert found["released"] == dict(fit.released)
    assert found["cov_type"] == fit.cov_type == "robust"
    assert found["het"] == (None if fit.het is None else fit.het.to_dict())
    terms = [entry["term"] for entry in found["columns"] for _ in range(int(entry["width"]))]
    expected = {
        "Intercept": None,
        "g": 1.0,
        "np.log(x)": 0.0,
        "np.log(x):g": 3.0,
        'Q("two words")': 2.0,
        "Q('two words')": 2.0,
    }
    for name, columns in fit.terms.items():
        assert set(terms[columns]) == {expected[name]}


def test_a_generalised_linear_model_has_its_link_and_its_mean_slope():
    data = frame()
    options = {"eps": 4.0, "seed": 3.0}
    found = value(_bridge.estimate("logit", "f ~ x", crossed(data[["f", "x"]]), options, None, ["x"], [[0]]))
    fit = dpstats.logit("f ~ x", data[["f", "x"]], eps=4, seed=3)
    assert found["link"] == fit.link == "logit"
    assert found["slopes"] == fit.to_dict()["slopes"]
    other = value(_bridge.estimate("ols", "y ~ x", crossed(data[["y", "x"]]), options, None, ["x"], [[0]]))
    assert other["link"] is None and other["slopes"] is None


def test_columns_make_the_design_matrix():
    """The description that R predicts from gives the matrix itself."""
    data = frame(60)
    formula = "y ~ np.log(x) + g + Q('two words') + np.log(x):g"
    found = value(_bridge.estimate("ols", formula, crossed(frame()), {"eps": 2.0}, None, FACTORS, TERMS))
    fit = dpstats.ols(formula, frame(), eps=2)
    numbers = {0.0: np.log(data["x"]), 2.0: data["two words"]}
    columns = []
    for entry in found["columns"]:
        made = np.ones((len(data), 1))
        for part in entry["parts"]:
            if part["kind"] == "levels":
                assert part["levels"] == ["a", "b", "c"]
                contrast = np.reshape(part["contrast"], (3, int(part["width"])))
                own = contrast[data["g"].cat.codes]
            else:
                own = np.asarray(numbers[part["factor"]])[:, None]
            made = (own[:, :, None] * made[:, None, :]).reshape(len(data), -1)
        columns.append(made)
    design = dataclasses.replace(fit.design, limits=None)
    np.testing.assert_allclose(np.hstack(columns), design.matrix(data), rtol=1e-15)


def test_columns_keep_their_term_beside_a_term_without_columns():
    data = frame().assign(h=pd.Categorical(["one"] * 2000))
    answer = _bridge.estimate(
        "ols", "y ~ h + x:g", crossed(data), {"eps": 2.0}, None, ["x", "g", "h"], [[0, 1], [2]]
    )
    described = [(columns["term"], columns["width"]) for columns in value(answer)["columns"]]
    assert described == [(None, 1), (1, 0), (0, 3)]


def test_missing_values_are_what_their_kind_says():
    columns = {
        "a": {"kind": "number", "values": bytearray(np.array([1.0, np.nan, 3.0]).tobytes())},
        "t": {"kind": "truth", "values": bytearray(np.array([0, 1, 2], np.int32).tobytes())},
        "f": {
            "kind": "factor",
            "values": bytearray(np.array([2, 0, 1], np.int32).tobytes()),
            "levels": ["u", "v"],
        },
        "n": {
            "kind": "factor",
            "values": bytearray(np.array([2, 0, 1], np.int32).tobytes()),
            "levels": [4.0, 6.0],
        },
    }
    table = _bridge.received(columns)
    assert table["a"].tolist()[::2] == [1.0, 3.0] and math.isnan(table["a"][1])
    assert table["t"].dtype == "boolean" and table["t"].tolist() == [pd.NA, False, True]
    assert table["f"].tolist()[::2] == ["v", "u"] and pd.isna(table["f"][1])
    assert table["n"].categories.tolist() == [4, 6]
    assert _bridge.received("data.csv") == "data.csv"


def test_whole_numbers_are_integers():
    given = {"seed": 3.0, "eps": 0.5, "bounds": {"x": [0.0, 2.5]}, "flag": True, "text": "3.0"}
    found = _bridge.in_python(given)
    assert found == {"seed": 3, "eps": 0.5, "bounds": {"x": [0, 2.5]}, "flag": True, "text": "3.0"}
    assert isinstance(found["seed"], int) and found["flag"] is True


def test_groups():
    data = frame()
    found = value(
        _bridge.estimate("median", "y ~ 1", crossed(data[["y", "g"]]), {"eps": 2.0, "by": "g", "seed": 1.0})
    )
    fits = dpstats.median("y ~ 1", data, eps=2, by="g", seed=1)
    assert found["levels"] == ["a", "b", "c"]
    assert [found["groups"][str(i)]["estimates"] for i in range(3)] == fits.params.to_numpy().tolist()
    found = value(
        _bridge.estimate(
            "ols", "y ~ x", crossed(data[["y", "x", "g"]]), {"eps": 2.0, "by": "g"}, None, ["x"], [[0.0]]
        )
    )
    assert [found["groups"][i]["columns"] is None for i in "012"] == [False, True, True]


def test_selection_is_by_position():
    found = value(
        _bridge.select(
            "y ~ np.log(x) + g + f",
            crossed(frame()),
            {"k": 2.0, "eps": 4.0, "seed": 1.0},
            None,
            ["np.log(x)", "g", "f"],
            [[0], [1], [2]],
        )
    )
    names = dpstats.select_features("y ~ np.log(x) + g + f", frame(), k=2, eps=4, seed=1).terms
    assert [["np.log(x)", "g", "f"][int(i)] for i in found["terms"]] == list(names)
    assert sorted(found["candidates"]) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("median", {"eps": 1.0}, "fixed"),
        ("median", {"eps": 1.0, "mechanism": "smooth", "guarantee": "random", "gamma": 0.1}, "noise"),
        ("deepest_regression", {"eps": 1.0, "mechanism": "smooth", "bounds": {"y": [-9.0, 9.0]}}, "line"),
        ("mean", {"eps": 1.0}, None),
    ],
)
@pytest.mark.slow
def test_every_kind_of_interval_is_known(name, options, kind):
    formula = "y ~ x" if name == "deepest_regression" else "y ~ 1"
    found = value(_bridge.estimate(name, formula, crossed(frame()[["y", "x"]]), options, None, ["x"], [[0]]))
    assert (found["interval"] and found["interval"]["kind"]) == kind


def test_errors_are_values():
    answer = _bridge.estimate("ols", "y ~ x", crossed(frame()), {"eps": -1.0})
    assert answer["error"]["kind"] == "parameter_error"
    assert answer["error"]["message"] == "eps must be a positive finite number, got -1."
    answer = _bridge.estimate("tukey_em", "y ~ x", crossed(frame(30)), {"eps": 0.1})
    assert answer["error"]["kind"] == "release_failed"
    assert 0 < answer["error"]["guarantee"]["eps"] < 0.1
    json.dumps(answer)


def test_the_kinds_of_errors_are_those_that_r_raises():
    ours = {_bridge._kind(kind("no")) for kind in errors.DpstatsError.__subclasses__()} | {"python_error"}
    sources = (Path(__file__).parents[1] / "r_bridge" / "R").glob("*.R")
    raised = {kind for source in sources for kind in re.findall(r'\bfail\(\s*"(\w+)"', source.read_text())}
    assert {"parameter_error", "python_error"} <= raised <= ours


def test_the_estimators_are_the_public_functions():
    names = value(_bridge.estimators())
    assert "ols" in names and "select_features" in names
    functions = {name for name in dpstats.__all__ if inspect.isfunction(getattr(dpstats, name))}
    # what takes no formula takes results, and a plan no private rows
    takes = {n for n in functions if "formula" in inspect.signature(getattr(dpstats, n)).parameters}
    assert takes - {"plan"} == set(names)


def test_an_error_that_is_not_meant_for_users_keeps_its_text():
    @_bridge.answer
    def broken():
        raise ValueError("could not convert 'Alice' to a number")

    answer = broken()
    assert "Alice" not in json.dumps(answer)
    assert answer["error"]["kind"] == "python_error"
    assert "ValueError in" in answer["error"]["message"]


def test_a_failure_without_guarantee():
    @_bridge.answer
    def failing():
        raise ReleaseFailed("no")

    @_bridge.answer
    def paid():
        raise ReleaseFailed("no", Guarantee(1, 0, "add-remove", "pure"))

    assert failing()["error"]["guarantee"] is None
    assert paid()["error"]["guarantee"]["eps"] == 1


def test_warnings_are_not_told():
    @_bridge.answer
    def warning():
        warnings.warn("7 rows of Alice", UserWarning, stacklevel=1)
        return 1.0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert warning() == {"value": 1.0}


IN_MEMORY = {"path": ":memory:", "eps": 3.0, "delta": 1e-5, "dataset": "default", "composition": None}


def test_ledgers_in_memory_live_on_and_are_apart():
    opened, other = (value(_bridge.ledger(IN_MEMORY, "facts")) for _ in range(2))
    assert opened["composition"] == "basic" and opened["eps"] == 3
    value(_bridge.estimate("median", "y ~ 1", crossed(frame()[["y"]]), {"eps": 1.0}, opened))
    assert value(_bridge.ledger(opened, "remaining", "add-remove")) == [2.0, 1e-5]
    assert value(_bridge.ledger(other, "remaining", "add-remove")) == [3.0, 1e-5]
    report = value(_bridge.ledger(opened, "report"))
    assert report["releases"]["formula"] == ["y ~ 1"] and "Privacy ledger" in report["text"]


def test_a_ledger_in_memory_is_of_the_session_that_made_it():
    """What R has saved of one, or sent to a worker, would be a whole budget there, or another ledger's."""
    opened = value(_bridge.ledger(IN_MEMORY, "facts"))
    for name in ("0" * 32, 1.0, None):
        elsewhere = opened | {"name": name}
        for ask in (
            lambda known=elsewhere: _bridge.ledger(known, "remaining", "add-remove"),
            lambda known=elsewhere: _bridge.ledger(known, "report"),
            lambda known=elsewhere: _bridge.estimate(
                "median", "y ~ 1", crossed(frame()), {"eps": 1.0}, known
            ),
        ):
            assert "belongs to another one" in str(ask()["error"])
    assert value(_bridge.ledger(opened, "remaining", "add-remove")) == [3.0, 1e-5]


def test_ledgers_in_files(tmp_path):
    facts = {"path": str(tmp_path / "study.db"), "eps": 3.0, "delta": 1e-5}
    value(_bridge.ledger(facts, "facts"))
    value(_bridge.estimate("median", "y ~ 1", crossed(frame()[["y"]]), {"eps": 1.0}, {"path": facts["path"]}))
    assert value(_bridge.ledger(facts, "remaining", "add-remove"))[0] == 2.0


def test_column_names_of_a_file(tmp_path):
    frame(3).to_csv(tmp_path / "d.csv", index=False)
    assert value(_bridge.column_names(str(tmp_path / "d.csv"))) == ["y", "x", "g", "f", "two words"]


def test_depth():
    data = frame(40)[["y", "x"]].to_numpy()

    def array(a):
        a = np.asarray(a, float)
        shape = {"rows": len(a)} | ({"columns": a.shape[1]} if a.ndim == 2 else {})
        return {"values": bytearray(a.tobytes(order="F"))} | shape

    found = value(_bridge.depth("halfspace", [array(data), array(data)], []))["found"]
    assert found == dpstats.depth.halfspace(data, data).tolist()
    median = value(_bridge.depth("tukey_median", [array(data)], {"method": None}))["found"]
    assert median["point"] == dpstats.depth.tukey_median(data).point.tolist()
    polygons = value(_bridge.depth("contours", [array(data)], {"depths": [3.0]}))["found"]
    assert polygons[0] == dpstats.depth.contours(data, [3])[0].ravel(order="F").tolist()
    chosen = {"method": "directions", "directions": array([[1.0, 0.0], [0.0, 1.0]])}
    expected = dpstats.depth.halfspace(data, data, method="directions", directions=[[1, 0], [0, 1]])
    assert value(_bridge.depth("halfspace", [array(data), array(data)], chosen))["found"] == expected.tolist()
    wide = array(np.sin(np.arange(1000.0)).reshape(200, 5))
    (text,) = value(_bridge.depth("halfspace", [wide, wide], []))["warnings"]
    assert "directions" in text


# -- before and after a fit ----------------------------------------------------------------------------------


def test_a_description_is_that_of_the_function():
    data = frame()[["x", "g", "f"]]
    options = {"eps": 2.0, "seed": 3.0, "correlation": False}
    found = value(explore.describe(crossed(data), None, options, None, ["text"]))
    expected = dpstats.describe(data, eps=2, seed=3)
    assert np.array_equal(found["statistics"]["estimate"], expected.tidy()["estimate"])
    assert found["statistics"]["statistic"][-2:] == ["share of FALSE", "share of TRUE"]
    assert found["numbers"]["column"] == ["x"] and found["numbers"]["sd"] == expected.numbers["sd"].tolist()
    assert found["levels"]["level"] == ["a", "b", "c", "FALSE", "TRUE"]
    assert found["levels"]["share"] == expected.levels["share"].tolist()
    assert "text." in found["text"] and "True" not in found["text"]
    assert found["correlation"] is None and found["guarantee"] == expected.guarantee.to_dict()
    bars = found["histograms"]["x"]
    assert len(bars["ends"]) == len(bars["rows"]) + 1 and np.diff(bars["ends"]).min() > 0
    groups = value(explore.describe(crossed(data), ["x"], options | {"by": "g"}))
    assert groups["levels"] == ["a", "b", "c"] and list(groups["groups"]) == ["0", "1", "2"]


def test_levels_are_written_as_in_r():
    assert explore._in_r((True, 1.5, 2.0, 3, "None")) == ("TRUE", "1.5", "2", "3", "None")


@pytest.mark.parametrize(
    ("name", "formula", "kind", "tables"),
    [
        ("ols", "y ~ np.log(x) + g", "linear", ["fitted", "qq", "leverage"]),
        ("logit", "f ~ x", "logit", ["calibration", "roc"]),
        ("poisson", "k ~ x", "counts", ["rootogram"]),
    ],
)
def test_a_saved_fit_is_diagnosed(name, formula, kind, tables):
    data = frame().assign(k=np.arange(2000) % 4)
    options = {"eps": 4.0, "seed": 1.0}
    fit = getattr(dpstats, name)(formula, data, eps=4, seed=1)
    factors = [["np.log(x)", "g"], [[0], [1]]] if name == "ols" else [["x"], [[0]]]
    saved = value(_bridge.estimate(name, formula, crossed(data), options, None, *factors))["saved"]
    assert dpstats.from_dict(json.loads(saved)) == fit
    columns = {column["name"]: column for column in value(explore.saved_columns(saved))}
    assert {"x", formula[0]} <= set(columns)
    if name == "ols":
        assert columns["g"] == {"name": "g", "kind": "factor", "levels": ["a", "b", "c"]}
    found = value(
        explore.diagnose(saved, crossed(data[list(columns)]), options, None, "r ~ x", {"np.log(x)": "log(x)"})
    )
    expected = fit.diagnose(data, eps=4, seed=1)
    assert found["kind"] == kind and list(found["tables"]) == tables and "r ~ x" in found["text"]
    assert found["tests"]["statistic"] == expected.test_table["statistic"].tolist()
    assert found["tests"]["test"] == list(expected.test_table.index)
    assert list(found["columns"]) == (["log(x)"] if name == "ols" else [])


def test_saved_fits_are_pooled():
    data = frame()
    halves, options = [data[:1000], data[1000:]], {"eps": 8.0, "seed": 1.0}
    answers = [
        _bridge.estimate("ols", "y ~ x", crossed(half), options, None, ["x"], [[0]]) for half in halves
    ]
    saved = [value(answer)["saved"] for answer in answers]
    expected = dpstats.combine([dpstats.ols("y ~ x", half, eps=8, seed=1) for half in halves])
    found = value(explore.combine(saved))
    assert found["estimates"] == expected.estimates.tolist() and found["has_design"]
    assert found["heterogeneity"] == expected.heterogeneity.to_dict() and found["columns"] is None
    grouped = _bridge.estimate("ols", "y ~ x", crossed(data), options | {"by": "f"}, None, ["x"], [[0]])
    groups = [group["saved"] for group in value(grouped)["groups"].values()]
    scope = dpstats.ols("y ~ x", data, eps=8, seed=1, by="f").guarantee.scope
    assert value(explore.combine(groups, "f"))["guarantee"]["scope"] == scope


def test_budgets_are_divided():
    assert value(explore.split(1.0, 4.0, "basic", 1e-6)) == {
        "part": None, "eps": [0.25] * 4, "delta": [2.5e-7] * 4
    }  # fmt: skip
    parts = dpstats.split(1, {"a": 2, "b": 1}, "gdp")
    found = value(explore.split(1.0, {"a": 2.0, "b": 1.0}, "gdp", 1e-6))
    assert found == {"part": ["a", "b"], "eps": [p.eps for p in parts.values()], "delta": [1e-6] * 2}


def law(name, *values, **named):
    return {"law": name, "values": list(values), "named": named}


def test_descriptions_of_columns_are_those_of_plan():
    assert explore._law("normal") == "normal"
    assert explore._law(law("normal", 0.0, 1.0)) == ("normal", 0.0, 1.0)
    assert explore._law(law("gamma", 2.0, sd=1.0, low=0.2)) == ("gamma", {"mean": 2.0, "sd": 1.0, "low": 0.2})
    assert explore._law({"quantiles": [[0.0, 1.0], [18.0, 90.0]]}) == ("quantiles", {0.0: 18.0, 1.0: 90.0})
    assert explore._law({"levels": [["a"], [1.0]]}) == {"a": 1.0}
    assert explore._law({"numbers": [[1.0, 2.0], [0.2, 0.8]]}) == {1.0: 0.2, 2.0: 0.8}


@pytest.mark.slow
def test_a_plan_is_that_of_the_function():
    like = {"columns": {"x": law("gamma", 2.0, 1.0), "g": {"levels": [["a", "b"], [0.5, 0.5]]}}}
    formula, factors = "y ~ np.log(x) + g", [["np.log(x)", "g"], [[0], [1]]]
    made = value(explore.plan_columns(formula, like, None, *factors))
    assert made["names"] == ["Intercept", "g[T.b]", "np.log(x)"]
    assert [columns["term"] for columns in made["columns"]] == [None, 1, 0]
    given = {
        "n": 1000.0, "eps": [2.0, 4.0], "estimator": "ols", "effects": {"np.log(x)": 2.0}, "sigma": 1.0,
        "errors": law("t", df=5.0), "correlation": [["x", "g", 0.2]], "runs": 2.0, "seed": 0.0,
        "options": None,
    }  # fmt: skip
    names = {"Intercept": "(Intercept)", "np.log(x)": "log(x)", "g[T.b]": "gb"}
    found = value(explore.plan(formula, like, given, "y ~ log(x) + g", names))
    expected = dpstats.plan(
        formula, {"x": ("gamma", 2, 1), "g": {"a": 0.5, "b": 0.5}}, n=1000, eps=[2, 4], runs=2, sigma=1,
        effects={"np.log(x)": 2}, errors=("t", {"df": 5}), correlation={("x", "g"): 0.2}, processes=1,
    )  # fmt: skip
    assert found["table"]["term"] == ["(Intercept)", "log(x)", "gb"] * 2 and found["needed"] is None
    assert found["table"]["se"] == expected.table["se"].iloc[[0, 2, 1, 3, 5, 4]].tolist()
    assert "log(x)" in found["text"] and "np." not in found["text"]
    wanted = given | {"eps": None, "target": {"np.log(x)": {"width": 1.0}}}
    found = value(explore.plan(formula, like, wanted, "y ~ log(x) + g", names))
    assert found["target"] == "width of log(x) <= 1" and found["needed"]["found"] == "eps"


def test_a_public_table_is_planned_from():
    like = {"table": crossed(frame()[["x", "g"]])}
    made = value(
        explore.plan_columns("y ~ x + g", like, {"bounds": {"x": [0.0, 3.0]}}, ["x", "g"], [[0], [1]])
    )
    assert made["names"] == ["Intercept", "g[T.b]", "g[T.c]", "x"]
