"""Estimates by group: the same as one by one, whatever the source and the number of processes."""

import pickle

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.estimation import groups as _groups
from dpstats.privacy.guarantee import Guarantee

LEVELS = ["a", "b", "c", "d"]


def frame(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c", "undeclared"], n)
    return pd.DataFrame({
        "x": rng.normal(size=n),
        "y": rng.normal(size=n) + 10 * (group == "b") + 20 * (group == "c"),
        "g": group,
    })  # fmt: skip


DATA = frame()
CALL = {"levels": {"g": LEVELS}, "by": "g"}


def median(data=DATA, **more):
    return dpstats.median("y ~ 1", data, **({"eps": 5, "alpha": None, **CALL} | more))


def test_every_group_is_estimated_on_its_own_rows():
    fits = median()
    assert list(fits) == LEVELS and len(fits) == 4
    assert fits.params["y"][:3].to_numpy() == pytest.approx([0, 10, 20], abs=0.5)
    assert isinstance(fits["b"], dpstats.results.results.Results)


def test_groups_equal_single_estimates_on_their_rows():
    """With a seed, the i-th group has the random numbers of its own seed."""
    fits = median(seed=7)
    for i, level in enumerate(LEVELS[:3]):
        alone = dpstats.median(
            "y ~ 1", DATA[DATA["g"] == level], eps=5, alpha=None, seed=_groups.Groups.seed(7, i)
        )
        assert fits[level].params["y"] == alone.params["y"]


@pytest.fixture
def two_processes(monkeypatch):
    """Groups in two processes; a test that asks for them fails if none were started."""
    started = []

    class Pool(_groups.ProcessPoolExecutor):
        def submit(self, *work):
            started.append(work)
            return super().submit(*work)

    monkeypatch.setattr(_groups, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(_groups, "_workers", lambda groups: 2)
    yield
    assert started


def test_processes_give_the_same_as_one_process(request):
    data = DATA.assign(g=np.arange(len(DATA)) % 50)
    more = {"levels": {"g": range(50)}, "seed": 1}
    alone = median(data, **more)
    request.getfixturevalue("two_processes")
    together = median(data, **more)
    assert together.params.equals(alone.params)


def test_processes_do_not_share_their_noise(two_processes):
    data = pd.DataFrame({"y": np.tile(np.arange(40.0), 60), "g": np.repeat(np.arange(60), 40)})
    fits = dpstats.median(
        "y ~ 1", data, eps=0.5, mechanism="smooth", bounds={"y": (0, 40)}, levels={"g": range(60)}, by="g"
    )
    assert fits.params["y"].nunique() == 60


def test_results_predict_after_a_process_sent_them(two_processes):
    fits = dpstats.deepest_regression("y ~ x", DATA, eps=5, at=(-1, 1), bounds={"y": (-100, 100)}, **CALL)
    for level in LEVELS[:3]:
        intercept, slope = fits[level].params
        expected = intercept + slope * np.array([0.0, 1.0, -2.0])
        assert fits[level].predict({"x": [0.0, 1.0, -2.0]}) == pytest.approx(expected)


def test_groups_predict_within_their_own_limits():
    rng = np.random.default_rng(8)
    data = {"x": np.append(rng.normal(size=6000), 1e6), "g": np.append(np.repeat(["a", "b"], 3000), "b")}
    data["y"] = 2 * data["x"] + rng.normal(size=6001)
    fits = dpstats.ols("y ~ x", data, eps=2, by="g", levels={"g": ["a", "b"]}, winsorize=True, seed=1)
    far, farther = (fits["a"].predict({"x": np.array([x])})[0] for x in (1e6, 1e9))
    assert far == farther < 100
    assert pickle.loads(pickle.dumps(fits))["a"].predict({"x": np.array([1e6])})[0] == far


def test_an_estimator_under_add_remove_keeps_the_sizes_private():
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=40_000), np.repeat(["a", "b", "c"], [20_000, 19_990, 10])
    data = {"x": x, "y": 1 + 2 * x + rng.normal(size=40_000) + (g == "b"), "g": g}
    fits = dpstats.tukey_em("y ~ x", data, eps=2, levels={"g": LEVELS[:3]}, by="g", seed=1)
    assert list(fits.failed) == ["c"] and "private count" in fits.failed["c"]
    assert fits.params.loc["b"].to_numpy() == pytest.approx([2, 2], abs=0.1)
    assert fits.tidy()["std.error"].notna().tolist() == [True] * 4 + [False] * 2
    assert "are public" not in fits.guarantee.scope


@pytest.mark.parametrize("to", ["dict", "polars", "arrow", "csv"])
def test_every_source(to, tmp_path):
    expected = median(seed=2).params
    data = DATA
    if to == "dict":
        data = {name: DATA[name].to_numpy() for name in DATA}
    elif to == "polars":
        data = pytest.importorskip("polars").DataFrame({name: DATA[name].to_numpy() for name in DATA})
    elif to == "arrow":
        data = pytest.importorskip("pyarrow").Table.from_pandas(DATA)
    elif to == "csv":
        data = tmp_path / "data.csv"
        DATA.to_csv(data, index=False)
    assert median(data, seed=2).params.equals(expected)


def test_kinds_of_group_columns():
    truths = median(DATA.assign(g=(DATA["x"] > 0).astype("boolean")), levels=None, seed=1)
    assert list(truths) == [False, True]
    declared = median(DATA.assign(g=DATA["x"] > 0), levels={"g": [False, True]}, seed=1)
    assert declared[True].params.tolist() == truths[True].params.tolist()
    with pytest.raises(dpstats.SchemaError, match="must be declared"):
        # pandas makes objects of truth values if one is missing
        median(DATA.assign(g=DATA["x"] > 0), levels=None)
    categories = median(
        DATA.assign(g=pd.Categorical(DATA["g"].where(DATA["g"].isin(LEVELS)), LEVELS)), levels=None, seed=1
    )
    assert list(categories) == LEVELS


def test_group_column_may_be_in_the_formula():
    fits = dpstats.median("y ~ 1", DATA.assign(g=(DATA["x"] > 0) * 1), eps=5, by="g", levels={"g": [0, 1]})
    assert len(fits) == 2


def test_undeclared_groups_are_a_schema_error():
    with pytest.raises(dpstats.SchemaError, match="groups by 'g' must be declared.*levels="):
        median(levels=None)
    with pytest.raises(dpstats.SchemaError, match="no column 'h'"):
        median(by="h")
    with pytest.raises(dpstats.ParameterError, match="by must be"):
        median(by=["g"])


# -- privacy ---------------------------------------------------------------------------------------------


def test_one_budget_pays_for_all_groups():
    ledger = dpstats.Ledger(":memory:", eps=6, delta=0)
    fits = median(ledger=ledger)
    assert ledger.remaining()[0] == pytest.approx(1)
    assert fits.guarantee.eps == 5 and "disjoint" in fits.guarantee.scope
    assert fits["a"].guarantee == fits.guarantee
    assert "public" not in fits.guarantee.scope


def test_under_substitution_the_sizes_of_the_groups_are_public_and_the_scope_says_so():
    fits = median(mechanism="smooth", bounds={"y": (-100, 100)}, alpha=0.05)
    assert fits.guarantee.neighbours == "substitution"
    assert "sizes of the groups, are public" in fits.guarantee.scope and "costs twice" in fits.guarantee.scope
    assert fits["b"].nobs == (DATA["g"] == "b").sum() and "there are no rows" in fits.failed["d"]
    assert "sizes of the groups" in str(fits) and "sizes of the groups" in str(fits["a"])


def test_other_groups_do_not_change_a_group():
    other = DATA.copy()
    other.loc[other["g"] == "c", "y"] = 1e9
    before, after = median(seed=3), median(other, seed=3)
    assert before["a"] == after["a"] and before["b"] == after["b"]


def test_rows_of_the_wrong_group_would_be_seen():
    """The check above fails if a row of c is counted with b."""
    other = DATA.copy()
    other.loc[other["g"] == "c", ["y", "g"]] = [1e9, "b"]
    assert median(seed=3)["b"] != median(other, seed=3)["b"]


def test_groups_with_too_few_rows_are_named_and_the_others_estimated():
    data = pd.DataFrame(
        {"y": np.random.default_rng(1).normal(size=3100), "g": np.repeat(["a", "b"], [3000, 100])}
    )
    fits = dpstats.median("y ~ 1", data, eps=2, mechanism="smooth", levels={"g": ["a", "b"]}, by="g")
    assert list(fits.results) == ["a"] and list(fits.failed) == ["b"]
    assert fits.params["y"].isna().tolist() == [False, True]
    with pytest.raises(dpstats.ReleaseFailed, match="too few"):
        fits["b"]
    with pytest.raises(KeyError):
        fits["z"]
    assert "No estimate for b" in str(fits)


def test_a_failed_private_test_is_reported_for_its_group_alone():
    wild = np.concatenate([10.0 ** np.arange(-300, 300), -(10.0 ** np.arange(-300, 300))])
    data = {
        "y": np.append(np.random.default_rng(1).normal(size=3000), wild),
        "g": ["a"] * 3000 + ["b"] * 1200,
    }
    ledger = dpstats.Ledger(":memory:", eps=2, delta=1e-5)
    fits = dpstats.median(
        "y ~ 1", data, eps=1, mechanism="smooth", levels={"g": ["a", "b"]}, by="g", ledger=ledger, seed=1
    )
    assert "safety test" in fits.failed["b"] and "a" in fits.results
    assert ledger.remaining("substitution")[0] == pytest.approx(1)


def test_when_no_group_has_enough_rows_nothing_is_charged():
    ledger = dpstats.Ledger(":memory:", eps=2, delta=1e-5)
    with pytest.raises(dpstats.ParameterError, match="too few"):
        median(DATA[:200], eps=1, delta=1e-6, alpha=0.05, mechanism="smooth", ledger=ledger)
    assert ledger.remaining("substitution")[0] == pytest.approx(2)


# -- the table -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [None, 0.2])
@pytest.mark.parametrize("estimator", ["median", "ols"])
def test_tidy_equals_the_tables_of_the_groups(estimator, alpha):
    """All columns: the median has an interval and no standard error, least squares has both."""
    formula = {"median": "y ~ 1", "ols": "y ~ x"}[estimator]
    fits = getattr(dpstats, estimator)(formula, frame(8000), eps=8, seed=1, levels={"g": LEVELS[:3]}, by="g")
    # the interval of a median has one level
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
    assert again.to_dict()["groups"][0]["g"] == "a"
    with pytest.raises(AttributeError):
        fits.by = "h"
    with pytest.raises(TypeError):
        fits.results["a"] = None


def test_a_table_without_any_estimate():
    guarantee = Guarantee(1, 1e-6, "add-remove", "approximate", scope="the groups are disjoint.")
    fits = _groups.GroupedResults("Median", "y ~ 1", "g", ("a",), {}, {"a": "the test failed."}, guarantee)
    assert "No estimate for a" in str(fits) and "disjoint" in str(fits)
    assert fits.tidy().empty


def test_progress_bar_is_silent_off_a_terminal(capsys):
    median()
    assert capsys.readouterr().err == ""


def test_progress_bar_counts_groups(monkeypatch):
    tqdm = pytest.importorskip("tqdm.auto")
    seen = []

    class Bar:
        def __init__(self, **how):
            seen.append(how["total"])

        def update(self, steps):
            seen.append(steps)

        def close(self):
            seen.append("closed")

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    median()
    assert seen == [4, 1, 1, 1, 1, "closed"]


def test_unseeded_groups_draw_from_the_system():
    """Two draws on a lattice of relative 2^-30 agree with probability far below 1e-6."""
    one, other = median(), median()
    assert (one.params["y"] != other.params["y"]).all()
