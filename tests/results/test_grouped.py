"""The table of the released estimates of groups."""

import dataclasses
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.errors import ParameterError
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.estimates import TIDY
from dpstats.results.grouped import GroupedResults

LEVELS = ["a", "b", "c", "d"]


def frame(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c", "undeclared"], n)
    return pd.DataFrame({"y": rng.normal(size=n) + 10 * (group == "b"), "x": rng.normal(size=n), "g": group})


DATA = frame()


def median(data=DATA, **more):
    call = {"eps": 5, "alpha": None, "by": "g", "levels": {"g": LEVELS}} | more
    return dpstats.median("y ~ 1", data, **call)


@pytest.mark.parametrize("alpha", [None, 0.2])
@pytest.mark.parametrize("estimator", ["median", "ols"])
def test_tidy_equals_the_tables_of_the_groups(estimator, alpha):
    """All columns: the median has an interval and no standard error, least squares has both."""
    formula = {"median": "y ~ 1", "ols": "y ~ x"}[estimator]
    fits = getattr(dpstats, estimator)(formula, frame(8000), eps=8, seed=1, levels={"g": LEVELS[:3]}, by="g")
    # the interval of a median has one confidence
    alpha = None if estimator == "median" else alpha
    expected = pd.concat([fits[level].tidy(alpha).assign(g=level) for level in LEVELS[:3]], ignore_index=True)
    table = fits.tidy(alpha)
    pd.testing.assert_frame_equal(table, expected[table.columns], check_dtype=False, check_exact=True)
    assert table["g"].tolist() == [level for level in LEVELS[:3] for _ in fits.names]
    assert table[["estimate", "conf.low", "conf.high"]].notna().all(axis=None)
    assert table["std.error"].notna().all() == (estimator == "ols")


def test_summary_shows_the_first_lines_and_counts_the_rest():
    data = DATA.assign(g=np.arange(len(DATA)) % 100)
    text = str(median(data, levels={"g": range(100)}))
    assert "60 more lines" in text and "39: y" in text and "40: y" not in text
    assert max(map(len, text.splitlines())) <= 78
    assert "<table" in median()._repr_html_()


def test_grouped_results_are_values():
    fits = median(seed=1)
    again = pickle.loads(pickle.dumps(fits))
    assert again.params.equals(fits.params) and again.guarantee == fits.guarantee
    assert again.to_dict()["groups"][0]["group"] == "a"
    with pytest.raises(AttributeError):
        fits.by = "h"
    with pytest.raises(TypeError):
        fits.results["a"] = None


def test_a_table_without_any_estimate():
    guarantee = Guarantee(1, 1e-6, "add-remove", "approximate", scope="the groups are disjoint.")
    fits = GroupedResults("Median", "y ~ 1", "g", ("a",), {}, {"a": "the test failed."}, guarantee)
    assert "No estimate for a" in str(fits) and "disjoint" in str(fits)
    assert "Median, by group (differentially private)" in str(fits)
    assert fits.tidy().empty and fits.glance().empty
    assert fits.params.shape == (1, 0) and fits.params.index.tolist() == ["a"]


def test_a_group_without_an_estimate_raises_its_reason_and_an_unknown_one_a_key_error():
    guarantee = Guarantee(1, 1e-6, "add-remove", "approximate")
    fits = GroupedResults("Median", "y ~ 1", "g", ("a", "b"), {}, {"b": "of b.", "a": "of a."}, guarantee)
    assert list(fits.failed) == ["a", "b"] and fits.levels == ("a", "b")
    with pytest.raises(dpstats.ReleaseFailed, match="of a") as failure:
        fits["a"]
    assert failure.value.guarantee == guarantee
    for unknown in ("c", ["a"], None):
        with pytest.raises(KeyError, match="not a declared level of 'g'"):
            fits[unknown]
    near = dataclasses.replace(fits, levels=("south", "north"), failed={"south": "", "north": ""})
    with pytest.raises(KeyError, match=r"which has south, north \(did you mean 'south'\?\)"):
        near["sooth"]


def test_as_a_mapping_it_has_the_groups_with_results_alone():
    guarantee, one = Guarantee(1, 1e-6, "add-remove", "approximate"), median(seed=1)["b"]
    fits = GroupedResults(
        "Median", "y ~ 1", "g", ("a", "b", "c"), {"b": one}, {"a": "no.", "c": "no."}, guarantee
    )
    assert list(fits) == fits.keys() == ["b"] and len(fits) == 1
    assert (
        dict(fits) == dict(fits.items()) == dict(zip(fits.keys(), fits.values(), strict=True)) == {"b": one}
    )
    assert "b" in fits and "a" not in fits and list(fits.failed) == ["a", "c"]
    # tables have all groups
    assert (
        fits.params.index.tolist() == fits.determined.index.tolist() == fits.tidy()["g"].tolist() == [*"abc"]
    )
    assert "3 groups by g" in repr(fits) and "Groups:" in str(fits)


def test_which_tables_have_the_groups_without_results():
    """As the docstring says, and docs/results.md."""
    fits = dpstats.datasets.load_fit("groups")
    lost = {level: fit for level, fit in fits.items() if level != "Good"}
    fits = dataclasses.replace(fits, results=lost, failed={"Good": "the test failed."})
    alike = "`params`, `bse`, `tvalues`, `pvalues`, `determined`, `tidy()`, `summary()` and `plot()` have"
    pages = GroupedResults.__doc__, (Path(dpstats.__file__).parents[1] / "docs/results.md").read_text()
    assert all(alike in " ".join(page.split()) for page in pages)
    whole = [fits.params, fits.bse, fits.tvalues, fits.pvalues, fits.determined]
    assert {len(table) for table in whole} == {5} and len(fits.tidy()) == 10 and "Good: carat" in str(fits)
    few = [
        fits.glance(),
        fits.wald_test("carat"),
        fits.t_test("carat"),
        fits.conf_int().xs("carat", level="term"),
    ]
    assert {len(table) for table in few} == {4}
    assert [text.get_text() for text in fits.plot("carat").get_yticklabels()][1] == "Good (no estimate)"


@pytest.mark.parametrize("by", ["method", "response", "design", "failed", "group"])
def test_a_saved_group_keeps_its_level_whatever_the_column_is_called(by):
    fits = median(DATA.rename(columns={"g": by}), by=by, levels={by: LEVELS}, seed=1)
    saved = fits.to_dict()
    assert [group["group"] for group in saved["groups"]] == LEVELS
    assert dpstats.from_dict(saved) == fits


def with_notes(notes):
    guarantee = Guarantee(1, 1e-6, "add-remove", "approximate")
    base = median(seed=1).results["a"]
    results = {level: dataclasses.replace(base, notes=own) for level, own in notes.items()}
    return GroupedResults("Median", "y ~ 1", "g", tuple(notes), results, {}, guarantee)


def test_each_group_prints_its_own_notes_and_common_ones_once():
    text = str(
        with_notes({"a": ["Of all.", "Limits [0, 1]."], "b": ["Of all.", "Limits [0, 2]."], "c": ["Of all."]})
    )
    assert text.count("Of all.") == 1
    assert [line for line in text.split("\n") if line.startswith("[")] == [
        "[1] Of all.", "[2] a: Limits [0, 1].", "[3] b: Limits [0, 2]."
    ]  # fmt: skip


def test_many_groups_print_the_first_notes_and_count_the_rest():
    text = str(with_notes({f"g{i}": [f"Limits [0, {i}]."] for i in range(1, 51)}))
    assert "g12: Limits" in text and "g13: Limits" not in text and "38 more notes: fits[group].notes" in text


def test_the_limits_of_a_group_are_its_own():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(size=8000), "g": np.repeat(["a", "b"], 4000)})
    data.loc[data["g"] == "b", "x"] *= 100
    data["y"] = rng.normal(size=8000)
    fits = dpstats.ols("y ~ x", data, eps=4, by="g", levels={"g": ["a", "b"]}, seed=1)
    text = " ".join(str(fits).split())
    for level in "ab":
        (note,) = [note for note in fits[level].notes if "x [" in note]
        assert f"{level}: {note}" in text
    assert fits["b"].limits.loc["x", 1] > 20 * fits["a"].limits.loc["x", 1]


@pytest.mark.parametrize("by", ["term", *TIDY])
def test_a_column_of_groups_that_is_called_as_another_one_gets_an_underscore(by):
    fits = median(DATA.rename(columns={"g": by}), by=by, levels={by: LEVELS}, seed=1)
    table = fits.tidy()
    assert table.columns.tolist() == [f"{by}_", "term", *TIDY]
    assert table[f"{by}_"].tolist() == LEVELS
    pd.testing.assert_frame_equal(table.iloc[:, 1:], median(seed=1).tidy().iloc[:, 1:])
    assert "a: y" in str(fits) and fits.params.index.name == by
    assert fits.conf_int().reset_index().columns[0] == ("term_" if by == "term" else by)


def test_the_index_of_a_stacked_table_is_called_as_none_of_its_columns():
    data = frame(8000).rename(columns={"g": "method"})
    fits = dpstats.ols("y ~ x", data, eps=8, seed=1, by="method", levels={"method": LEVELS[:3]})
    assert fits.glance().reset_index().columns[:2].tolist() == ["method_", "method"]
    assert fits.t_test("x = 0").index.names == ["method", "term"]


def test_a_description_by_a_column_that_is_called_as_one_of_the_table():
    data = DATA.rename(columns={"g": "term"})
    found = dpstats.describe(data, ["x"], eps=5, by="term", levels={"term": LEVELS}, seed=1)
    assert found.tidy().columns[:2].tolist() == ["term_", "term"] and "rows " in str(found)


def test_equal_if_the_numbers_are():
    fits = median(levels={"g": [*LEVELS[:3], "none"]}, seed=1)
    assert (
        dpstats.from_dict(json.loads(json.dumps(fits.to_dict()))) == fits == pickle.loads(pickle.dumps(fits))
    )
    assert dataclasses.replace(fits, origin=None) == fits
    assert median(levels={"g": [*LEVELS[:3], "none"]}, seed=2) != fits != "fits"
    lost = dataclasses.replace(fits, results={}, failed=dict.fromkeys(fits.levels, "the test failed."))
    assert lost != fits and lost == dataclasses.replace(lost)
    with pytest.raises(TypeError, match="unhashable"):
        hash(fits)


@pytest.mark.parametrize("estimator", ["poisson", "logit"])
@pytest.mark.slow
def test_odds_and_rate_ratios_of_groups(estimator):
    data = frame(9000).assign(y=lambda rows: (rows["x"] > rows["y"] % 1).astype(int))
    fits = getattr(dpstats, estimator)("y ~ x", data, eps=8, seed=1, by="g", levels={"g": LEVELS[:3]})
    table = fits.tidy(0.1, exponentiate=True)
    each = [fits[level].tidy(0.1, exponentiate=True) for level in LEVELS[:3]]
    pd.testing.assert_frame_equal(table.iloc[:, 1:], pd.concat(each, ignore_index=True), check_exact=True)
    text = fits.summary(exponentiate=True)
    assert "exp(coef) with its interval" in str(text) and "exp(coef)" not in str(fits)
    line = dict(zip(text.coefficients.header, text.coefficients.rows[3], strict=True))
    alone = fits["b"].summary(exponentiate=True).coefficients
    assert line[""] == "b: x"
    assert all(dict(zip(alone.header, alone.rows[1], strict=True))[key] == line[key] for key in [*line][1:])


def test_there_are_no_ratios_of_other_estimates():
    for table in (median(seed=1).tidy, median(seed=1).summary):
        with pytest.raises(ParameterError, match="logit and poisson"):
            table(exponentiate=True)
        with pytest.raises(ParameterError, match="exponentiate must be True or False"):
            table(exponentiate="yes")


def test_groups_of_counts_predict_for_an_exposure():
    g = np.random.default_rng(0)
    data = pd.DataFrame({"x": g.standard_normal(6000), "pop": g.uniform(1, 3, 6000)})
    data["g"] = pd.Categorical(g.choice(["a", "b"], 6000))
    data["k"] = g.poisson(data["pop"] * np.exp(0.2 * data["x"])) * 1.0
    fits = dpstats.poisson("k ~ x", data, exposure="pop", by="g", eps=5, seed=1)
    rows = data.head(5)
    found = fits.predict(rows, exposure=rows["pop"])
    for i, row in rows.iterrows():
        alone = fits[row["g"]].predict(rows.loc[[i]], exposure=row["pop"])
        assert found[i] == pytest.approx(float(np.squeeze(alone)))
    np.testing.assert_allclose(fits.predict(rows), found / rows["pop"])
    np.testing.assert_allclose(np.exp(fits.predict(rows, which="linear")), fits.predict(rows))
    with pytest.raises(
        dpstats.ParameterError, match="exposure must be one number, or a list of one for each of"
    ):
        fits.predict(rows, exposure=[1.0, 2.0])
    lines = dpstats.ols("x ~ pop", data, by="g", eps=5, seed=1)
    with pytest.raises(dpstats.ParameterError, match="exposure must be left out"):
        lines.predict(rows, exposure=2.0)
