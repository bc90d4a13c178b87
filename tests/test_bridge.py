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
    table = _bridge._table(columns)
    assert table["a"].tolist()[::2] == [1.0, 3.0] and math.isnan(table["a"][1])
    assert table["t"].dtype == "boolean" and table["t"].tolist() == [pd.NA, False, True]
    assert table["f"].tolist()[::2] == ["v", "u"] and pd.isna(table["f"][1])
    assert table["n"].categories.tolist() == [4, 6]
    assert _bridge._table("data.csv") == "data.csv"


def test_receiving_columns_counts_rows():
    assert value(_bridge.receive(crossed(frame(7)))) == 7


def test_whole_numbers_are_integers():
    given = {"seed": 3.0, "eps": 0.5, "bounds": {"x": [0.0, 2.5]}, "flag": True, "text": "3.0"}
    found = _bridge._options(given)
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
    assert {name for name in dpstats.__all__ if inspect.isfunction(getattr(dpstats, name))} == set(names)


def test_an_error_that_is_not_meant_for_users_keeps_its_text():
    @_bridge._answer
    def broken():
        raise ValueError("could not convert 'Alice' to a number")

    answer = broken()
    assert "Alice" not in json.dumps(answer)
    assert answer["error"]["kind"] == "python_error"
    assert "ValueError in" in answer["error"]["message"]


def test_a_failure_without_guarantee():
    @_bridge._answer
    def failing():
        raise ReleaseFailed("no")

    @_bridge._answer
    def paid():
        raise ReleaseFailed("no", Guarantee(1, 0, "add-remove", "pure"))

    assert failing()["error"]["guarantee"] is None
    assert paid()["error"]["guarantee"]["eps"] == 1


def test_warnings_are_not_told():
    @_bridge._answer
    def warning():
        warnings.warn("7 rows of Alice", UserWarning, stacklevel=1)
        return 1.0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert warning() == {"value": 1.0}


def test_ledgers_in_memory_live_on_and_are_apart():
    facts = {"path": ":memory:", "eps": 3.0, "delta": 1e-5, "dataset": "default", "composition": None}
    opened = value(_bridge.ledger(facts | {"number": 1001.0}, "facts"))
    assert opened["composition"] == "basic" and opened["eps"] == 3
    options = {"eps": 1.0}
    value(_bridge.estimate("median", "y ~ 1", crossed(frame()[["y"]]), options, opened | {"number": 1001.0}))
    assert value(_bridge.ledger(opened | {"number": 1001.0}, "remaining", "add-remove")) == [2.0, 1e-5]
    assert value(_bridge.ledger(facts | {"number": 1002.0}, "remaining", "add-remove")) == [3.0, 1e-5]
    report = value(_bridge.ledger(opened | {"number": 1001.0}, "report"))
    assert report["releases"]["formula"] == ["y ~ 1"] and "Privacy ledger" in report["text"]


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
