"""Estimates by group: the same as one by one, whatever the number of processes, for one charge."""

import pickle
import threading

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.estimation import groups as _groups
from dpstats.privacy.filters import release_cost

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
            "y ~ 1", DATA[DATA["g"] == level], eps=5, alpha=None, seed=_groups.group_seed(7, i)
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


def test_every_group_of_every_seed_has_its_own():
    seeds = {_groups.group_seed(seed, i) for seed in range(30) for i in range(30)}
    assert len(seeds) == 900


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


def test_the_scope_says_what_counts_of_a_unit_in_several_groups():
    data = pd.DataFrame({
        "id": np.arange(6000) // 2, "x": np.arange(6000) % 7, "g": pd.Categorical(["a", "b"] * 3000),
    }).assign(y=lambda rows: rows["x"] * 1.0)  # fmt: skip
    fits = dpstats.ols("y ~ x", data, eps=8, by="g", unit="id", seed=1)
    assert "Of a 'id' with rows in several groups those of one count" in fits.guarantee.scope
    assert "with rows in several" not in dpstats.ols("y ~ x", data, eps=8, by="g", seed=1).guarantee.scope


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


@pytest.mark.slow
@pytest.mark.parametrize("composition", ["basic", "zcdp", "gdp"])
@pytest.mark.parametrize("name", ["tukey_median", "deepest_regression"])
def test_a_ledger_is_charged_what_the_dearest_group_costs(name, composition):
    """Budgets that are divided by the public number of rows: whatever group is declared first."""
    sizes, rng = {"large": 6000, "small": 1000}, np.random.default_rng(0)
    x, y = rng.normal(size=(2, sum(sizes.values())))
    data = {"g": np.repeat(list(sizes), list(sizes.values())), "x": x, "y": y}
    formula = "x + y ~ 1" if name == "tukey_median" else "y ~ x"
    charged, alone = [], []
    for order in (["large", "small"], ["small", "large"]):
        ledger = dpstats.Ledger(":memory:", eps=9, delta=1e-5, composition=composition)
        fits = getattr(dpstats, name)(
            formula, data, eps=1.2, levels={"g": order}, by="g", seed=1, ledger=ledger
        )
        row = ledger.report().releases[0]
        charged.append((row["cost"], row["cost_delta"]))
        alone += [release_cost(composition, fits[group].guarantee) for group in order]
        assert fits.guarantee.spends == () and all(fits[group].guarantee.spends for group in order)
    assert composition == "basic" or len({cost for cost, _ in alone}) == 2
    assert charged[0] == charged[1] == tuple(max(part) for part in zip(*alone, strict=True))


def test_when_no_group_has_enough_rows_nothing_is_charged():
    ledger = dpstats.Ledger(":memory:", eps=2, delta=1e-5)
    with pytest.raises(dpstats.ParameterError, match="too few"):
        median(DATA[:200], eps=1, delta=1e-6, alpha=0.05, mechanism="smooth", ledger=ledger)
    assert ledger.remaining("substitution")[0] == pytest.approx(2)


@pytest.mark.slow
def test_two_threads_have_workers_of_their_own(monkeypatch):
    """Both are ready before either starts a process: what a worker runs must not be what another call has."""
    both, real = threading.Barrier(2), _groups.ProcessPoolExecutor

    def together(*given):
        both.wait(60)
        return real(*given)

    monkeypatch.setattr(_groups, "ProcessPoolExecutor", together)
    monkeypatch.setattr(_groups, "_workers", lambda groups: 2)
    found = {}

    def run(eps):
        found[eps] = median(eps=eps)

    threads = [threading.Thread(target=run, args=(eps,)) for eps in (1.0, 4.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all({fit.guarantee.eps for fit in found[eps].results.values()} == {eps} for eps in (1.0, 4.0))


def test_progress_bar_is_silent_off_a_terminal(capsys):
    median()
    assert capsys.readouterr().err == ""


def test_progress_bar_counts_groups(monkeypatch):
    tqdm = pytest.importorskip("tqdm.auto")
    seen = []

    class Bar:
        def __init__(self, total, desc, **how):
            seen.append((desc, total))

        def update(self, steps):
            seen.append(steps)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            seen.append("closed")

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    median()
    assert seen == [("median", 4), 1, 1, 1, 1, "closed"]


def test_unseeded_groups_draw_from_the_system():
    """Two draws on a lattice of relative 2^-30 agree with probability far below 1e-6."""
    one, other = median(), median()
    assert (one.params["y"] != other.params["y"]).all()


def test_a_column_without_categories_is_named():
    data = pd.DataFrame({"y": [1.0, 2.0], "x": [0.0, 1.0], "q": pd.Categorical([None, None])})
    with pytest.raises(dpstats.errors.SchemaError, match="the groups by 'q' must be declared"):
        dpstats.ols("y ~ x", data, by="q", eps=1)
    for formula in ("y ~ q", "y ~ C(q)"):
        with pytest.raises(dpstats.errors.SchemaError, match="column 'q'.*levels="):
            dpstats.ols(formula, data, eps=1)


@pytest.mark.parametrize("formula", ["y ~ x + g", "y ~ x*g", "y ~ I(g)"])
def test_a_formula_does_not_have_the_column_of_the_groups(formula):
    """It is constant in each group: every fit lacked it, or hid it, after the charge."""
    ledger = dpstats.Ledger(":memory:", eps=2, delta=1e-5)
    with pytest.raises(dpstats.FormulaError, match="'g', which is constant in each group"):
        dpstats.ols(formula, DATA, eps=1, ledger=ledger, **CALL)
    assert ledger.remaining() == (2, 1e-5)
    assert list(dpstats.ols("y ~ .", DATA, eps=2, **CALL).names) == ["Intercept", "x"]
