"""``unit=`` in the whole: what is promised, used, counted and refused, for every estimator."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats

import dpstats
from dpstats._estimators import ESTIMATORS
from dpstats.data.spill import Spill
from dpstats.estimation import units as estimation
from dpstats.linear import newton, rounds

sys.path.insert(0, str(Path(__file__).parents[1]))
from estimators import BOUNDS, GROUPED, data, public_rows, run, usual  # noqa: E402

SUMMED = ("ols", "huber", "adassp", "boosted_adassp", "tukey_em", "logit", "poisson")


def panel(units, seed=0, most=30):
    """Units of 1 to `most` rows, a heavy-tailed number; random intercepts and correlated errors, in random
    order."""
    g = np.random.default_rng(seed)
    size = np.minimum(most, 1 + g.pareto(1.3, units)).astype(int)
    unit = np.repeat(np.arange(units), size)
    n = len(unit)
    x, z = g.standard_normal(units)[unit], g.standard_normal(n)
    errors = g.standard_normal(units)[unit] + g.standard_normal(n)
    frame = pd.DataFrame({"y": 2 + x - 0.5 * z + errors, "x": x, "z": z, "id": unit})
    return frame.iloc[g.permutation(n)]


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.slow
def test_the_promise_is_about_units(name):
    frame = data(ESTIMATORS[name].rows)
    frame = pd.concat([frame, frame.head(500)]).assign(id=lambda f: f.index.astype(str) + "a")
    fit = run(name, frame, unit="id")
    assert fit.guarantee.unit == "id"
    relation = "replaced" if public_rows(name) else "added or removed"
    assert f"all rows of one 'id' {relation}" in str(fit.guarantee)
    text = fit.summary().as_text()
    assert "all rows of one 'id'" in " ".join(text.split())
    assert ("One row of each 'id' was used" in text) == (name not in (*SUMMED, "select_features"))
    assert "Rows (" not in text
    assert "number of rows" not in text and "A row counts" not in text
    limited = "What the rows of a unit add up to is limited to" in " ".join(text.split())
    assert limited == (name in SUMMED and name != "tukey_em")
    assert limited == ("units beyond that may go unseen" in " ".join(text.split()))


def test_notes_say_that_each_unit_counts_once():
    """Half of the persons have nine visits, and larger values: the mean is over persons."""
    frame = pd.DataFrame({"id": np.repeat(np.arange(4_000), np.tile([1, 9], 2_000))})
    frame["y"] = np.where(frame["id"] % 2, 10.0, 0.0) + np.random.default_rng(0).standard_normal(len(frame))
    for fit in (
        dpstats.mean("y ~ 1", frame, eps=2, unit="id", bounds={"y": (-5, 15)}, seed=1),
        dpstats.median("y ~ 1", frame, eps=2, unit="id", seed=1),
    ):
        assert "over units, each of which counts once" in " ".join(fit.summary().as_text().split())
    (mean,) = dpstats.mean("y ~ 1", frame, eps=2, unit="id", bounds={"y": (-5, 15)}, seed=1).params
    assert abs(mean - 5) < 1 < frame["y"].mean() - 5


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.slow
def test_one_unit_of_many_rows_is_one_unit(name):
    """Ten thousand rows at one place leave no more trace than one does; so do rows without a unit."""
    frame = data(ESTIMATORS[name].rows).assign(id=lambda f: np.arange(len(f), dtype=float))
    far = pd.DataFrame({"x": 30.0, "z": -30.0, "y": 400.0}, index=range(10_000))
    for changed in (far.assign(id=-1.0), far.assign(id=np.nan)):
        fit = run(name, pd.concat([frame, changed]), unit="id", eps=20.0)
        if name == "select_features":
            continue
        plain = run(name, frame, unit="id", eps=20.0)
        scale = np.maximum(np.abs(plain.params), 0.1)
        tolerance = 0.5 if ESTIMATORS[name].rows < 10_000 else 0.25
        assert (np.abs(fit.params - plain.params) / scale).max() < tolerance


@pytest.mark.parametrize("name", [n for n in GROUPED if n != "select_features" and not public_rows(n)])
@pytest.mark.slow
def test_groups_of_units(name):
    frame = pd.concat([data(ESTIMATORS[name].rows)] * 2).assign(id=lambda f: f.index)
    # the second row of a unit is in the other group
    frame["g"] = np.where((np.arange(len(frame)) + np.arange(len(frame)) // (len(frame) // 2)) % 2, "a", "b")
    call = {"unit": "id", "by": "g", "levels": {"g": ["a", "b"]}}
    fits = run(name, frame, **call)
    assert fits.guarantee.unit == "id"
    counts = [fit.released["n"] for fit in fits.results.values() if "n" in fit.released]
    # each unit is in one of them
    assert all(abs(n - len(frame) / 4) < len(frame) / 40 for n in counts)


REPLACED = {n: own for n in GROUPED for own in ({}, *ESTIMATORS[n].variants) if public_rows(n, **own)}


@pytest.mark.parametrize(("name", "own"), REPLACED.items())
def test_groups_of_units_are_refused_where_one_that_is_replaced_may_change_two(name, own, tmp_path):
    """Its group is drawn: with rows in both it may leave one and enter the other, and one is charged."""
    assert {"median", "tukey_em"} <= set(REPLACED)
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=10, delta=1e-3, unit="id")
    frame = pd.concat([usual(name)] * 2)
    frame = frame.assign(id=frame.index, g=np.resize(["a", "b"], len(frame)))
    with pytest.raises(dpstats.ParameterError, match="by must be None with unit= .*by substitution"):
        run(name, frame, **own, unit="id", by="g", levels={"g": ["a", "b"]}, ledger=ledger)
    assert ledger.remaining("substitution") == (10, 1e-3)


def test_sizes_of_groups_that_are_drawn_are_in_no_refusal():
    """Where the number of units is public: a dozen of them would be refused by the sizes of the groups."""
    frame = pd.concat([usual("theil_sen").iloc[:6]] * 2)
    frame = frame.assign(id=frame.index, g=np.resize(["a", "b"], 12))
    with pytest.raises(dpstats.ParameterError, match="by must be None with unit="):
        run("theil_sen", frame, unit="id", by="g", levels={"g": ["a", "b"]}, eps=1)


def test_groups_are_those_of_a_row_of_the_unit():
    g = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.repeat(np.arange(3_000), 3), "y": g.standard_normal(9_000)})
    # two rows of three in "a", and none in the declared level "c"
    frame["g"] = np.tile(["a", "a", "b"], 3_000)
    levels = {"g": ["a", "b", "c"]}
    fits = dpstats.mean("y ~ 1", frame, eps=1e4, unit="id", by="g", levels=levels, seed=0)
    assert abs(fits.results["a"].released["n"] - 2_000) < 6 * np.sqrt(3_000 * 2 / 9)
    assert abs(fits.results["b"].released["n"] - 1_000) < 6 * np.sqrt(3_000 * 2 / 9)


def test_without_noise_sums_are_those_of_the_cluster_robust_fit():
    frame = panel(4_000)
    exact = smf.ols("y ~ x + z", frame).fit(cov_type="cluster", cov_kwds={"groups": frame["id"]})
    for name in ("ols", "adassp", "boosted_adassp"):
        fit = getattr(dpstats, name)("y ~ x + z", frame, eps=1e6, unit="id", seed=1)
        assert (np.abs(fit.params - exact.params) < 0.1 * exact.bse).all()
        # with the share of the clip's bound on the bias, none of it at this eps
        np.testing.assert_allclose(fit.bse, exact.bse, rtol=0.05)
        assert fit.cov_type == "cluster"
        assert fit.sigma == pytest.approx(np.sqrt(exact.mse_resid), rel=0.02)
        assert fit.rsquared == pytest.approx(exact.rsquared, abs=0.01)
    huber = dpstats.huber("y ~ x + z", frame, eps=1e6, unit="id", seed=1)
    assert (np.abs(huber.params - exact.params) < 2 * exact.bse).all()


def answered(frame, name, seed=0):
    """A response of the model, with the errors of the panel in its predictor."""
    eta, g = (frame["y"] - 2) / 2, np.random.default_rng(seed)
    y = g.random(len(frame)) < 1 / (1 + np.exp(-eta)) if name == "logit" else g.poisson(np.exp(eta / 2))
    return frame.assign(y=np.asarray(y, dtype=float), exposure=g.uniform(0.5, 2, len(frame)))


@pytest.mark.parametrize("name", ["logit", "poisson"])
def test_without_noise_generalised_models_are_the_cluster_robust_ones(name):
    frame = answered(panel(4_000), name)
    family = {"logit": sm.families.Binomial(), "poisson": sm.families.Poisson()}[name]
    clusters = {"cov_type": "cluster", "cov_kwds": {"groups": frame["id"]}}
    exact = smf.glm("y ~ x + z", frame, family=family).fit(**clusters)
    fit = getattr(dpstats, name)("y ~ x + z", frame, eps=1e6, unit="id", seed=1)
    np.testing.assert_allclose(fit.params, exact.params, atol=0.1 * exact.bse.min())
    np.testing.assert_allclose(fit.bse, exact.bse, rtol=0.06)
    assert fit.cov_type == "cluster"
    if name == "poisson":
        pearson = exact.pearson_chi2 / len(frame)
        assert fit.released["dispersion"] == pytest.approx(pearson, rel=0.15)
        offset = np.log(frame["exposure"])
        exact = smf.glm("y ~ x + z", frame, family=family, offset=offset).fit(**clusters)
        fit = dpstats.poisson("y ~ x + z", frame, eps=1e6, unit="id", exposure="exposure", seed=1)
        np.testing.assert_allclose(fit.params, exact.params, atol=0.1 * exact.bse.min())
        np.testing.assert_allclose(fit.bse, exact.bse, rtol=0.06)


def test_answers_that_cannot_be_used_leave_the_rest_of_their_unit():
    """A response that is no answer drops its row, also where it was drawn; a unit of such rows goes."""
    frame = answered(panel(4_000), "logit")
    spoilt = pd.concat([frame, frame.assign(y=2.0), frame.assign(y=0.5, id=-1)])
    fits = [dpstats.logit("y ~ x + z", f, eps=1e6, unit="id", seed=1) for f in (frame, spoilt)]
    np.testing.assert_allclose(fits[1].params, fits[0].params, atol=0.05 * fits[0].bse.min())
    np.testing.assert_allclose(fits[1].bse, fits[0].bse, rtol=0.02)


def test_weights_and_effects_without_noise():
    frame = panel(4_000)
    size = frame.groupby("id")["y"].transform("size")
    clusters = {"cov_type": "cluster"}
    weighted = smf.wls("y ~ x + z", frame, weights=1 / size).fit(cov_kwds={"groups": frame["id"]}, **clusters)
    fit = dpstats.ols("y ~ x + z", frame, eps=1e6, unit="id", weights="unit", seed=1)
    np.testing.assert_allclose(fit.params, weighted.params, atol=0.1 * weighted.bse.min())
    np.testing.assert_allclose(fit.bse, weighted.bse, rtol=0.05)
    within = frame[["y", "z"]] - frame.groupby("id")[["y", "z"]].transform("mean")
    several = size > 1
    exact = smf.ols("y ~ z - 1", within[several]).fit(
        cov_kwds={"groups": frame.loc[several, "id"]}, **clusters
    )
    fit = dpstats.ols("y ~ x + z", frame, eps=1e6, unit="id", effects="unit", seed=1)
    assert fit.params.index.tolist() == ["x", "z"]
    assert fit.params["z"] == pytest.approx(exact.params["z"], abs=0.1 * exact.bse["z"])
    assert fit.bse["z"] == pytest.approx(exact.bse["z"], rel=0.05)
    # what is the same in all rows of a unit is taken up by its effect
    assert np.isnan(fit.bse["x"])
    for ask in (fit.predict, fit.get_prediction):
        with pytest.raises(dpstats.NotReleased, match="need the effects of the units"):
            ask(frame.head())


@pytest.mark.parametrize("effects", [None, "unit"])
@pytest.mark.slow
def test_intervals_cover(effects):
    """50 data sets: as many intervals hold as binomial trials at 0.93 would at 1e-6, and without `unit`
    those of a column that is the same in all rows of a unit do not."""
    held, record = [], []
    for seed in range(50):
        frame = panel(2_500, seed)
        truth = pd.Series({"Intercept": 2.0, "x": 1.0, "z": -0.5})[
            ["z"] if effects else ["Intercept", "x", "z"]
        ]
        ends = dpstats.ols("y ~ x + z", frame, eps=2, unit="id", effects=effects, seed=seed).conf_int()
        held += list((ends.loc[truth.index, 0] <= truth) & (truth <= ends.loc[truth.index, 1]))
        if effects is None:
            ends = dpstats.ols("y ~ x + z", frame, eps=2, seed=seed).conf_int().loc["x"]
            record.append(ends[0] <= 1 <= ends[1])
    assert sum(held) >= stats.binom.ppf(1e-6, len(held), 0.93)
    if record:
        assert sum(record) < stats.binom.ppf(1e-3, len(record), 0.93)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ols", "median"])
def test_with_one_row_each_the_law_is_that_of_records(name):
    """Where sums are of units, and where a row of each is drawn (`tukey_em` puts whole units into subsets).

    Rank tests of place (Mann-Whitney), of spread (Mood) and of the whole law (Kolmogorov-Smirnov), at 1e-6
    over all of them and the estimates. With 180 releases each a shift by .6 standard deviations is found in
    every second case, and 1.6 times the noise; with 300 and the last test alone, .5 and 2.3."""
    frame = data(4_000).assign(id=lambda f: np.arange(len(f)))
    fits = [[run(name, frame, seed=seed, **more) for seed in range(180)] for more in ({}, {"unit": "id"})]
    tests = stats.mannwhitneyu, stats.mood, stats.ks_2samp
    for what in ("params", "bse") if name != "median" else ("params",):
        one, other = (np.array([np.asarray(getattr(fit, what)) for fit in some]) for some in fits)
        for j in range(one.shape[1]):
            for test in tests:
                assert test(one[:, j], other[:, j]).pvalue > 1e-6 / one.shape[1] / len(tests)


def test_sigma_is_said_where_the_constant_tells_how_many_rows_units_have():
    frame = panel(3_000)
    with_constant = dpstats.ols("y ~ x", frame, eps=1000, unit="id", seed=1)
    pooled = smf.ols("y ~ x", frame).fit()
    assert with_constant.sigma == pytest.approx(np.sqrt(pooled.scale), rel=0.05)
    for formula, more in (("y ~ x - 1", {}), ("y ~ z", {"effects": "unit"})):
        fit = dpstats.ols(formula, frame, eps=1000, unit="id", seed=1, **more)
        assert "sigma" not in fit.released and "rsquared" in fit.released


def test_what_is_refused():
    frame = panel(50)
    for more, match in (
        ({"unit": 3}, "unit must be None or the name of a column"),
        ({"weights": "unit"}, "weights must be 'row' or the name of a column without unit="),
        ({"effects": "unit"}, "effects must be None without unit="),
        ({"unit": "id", "weights": "x", "effects": "unit"}, "effects must be None with weights"),
        ({"unit": "id", "cov_type": "nonrobust"}, "cov_type must be 'cluster' with unit="),
        ({"unit": "id", "cov_type": "bootstrap"}, "cov_type must be 'cluster' with unit="),
        ({"cov_type": "cluster"}, "cov_type must be one of"),
    ):
        with pytest.raises(dpstats.ParameterError, match=match):
            dpstats.ols("y ~ x", frame, eps=1, **more)
    with pytest.raises(dpstats.SchemaError, match="no column 'patient'"):
        dpstats.ols("y ~ x", frame, eps=1, unit="patient")
    with pytest.raises(dpstats.FormulaError, match="needs a covariate"):
        dpstats.ols("y ~ 1", frame, eps=1, unit="id", effects="unit")
    with pytest.raises(dpstats.ParameterError, match="standardize must be True with unit="):
        dpstats.adassp("y ~ x", frame, eps=1, unit="id", standardize=False)
    dates = frame.assign(id=pd.array(pd.to_datetime("2020-01-01") + pd.to_timedelta(frame["id"], "D")))
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(dates)
    with pytest.raises(dpstats.SchemaError, match="timestamp"):
        dpstats.ols("y ~ x", arrow, eps=1, unit="id")


@pytest.mark.parametrize("total", [None, 2.0])
def test_a_release_that_fails_says_what_ran(total):
    data = {"x": np.arange(300.0), "y": np.arange(300.0), "who": np.arange(300) % 3}
    ledger = None if total is None else dpstats.Ledger(":memory:", eps=total, delta=1e-5, unit="who")
    with pytest.raises(dpstats.ReleaseFailed) as caught:
        dpstats.ols("y ~ x", data, eps=1, unit="who", ledger=ledger)
    assert [spend.step for spend in caught.value.guarantee.spends] == ["number of units"]
    assert caught.value.guarantee.unit == "who"


def test_a_ledger_of_units_and_one_of_records(tmp_path):
    frame = panel(3_000)
    of_units = dpstats.Ledger(tmp_path / "units.db", eps=3, delta=1e-5, unit="id")
    of_records = dpstats.Ledger(tmp_path / "records.db", eps=3, delta=1e-5)
    call = {"eps": 1, "delta": 1e-6, "seed": 1}
    dpstats.ols("y ~ x", frame, unit="id", ledger=of_units, **call)
    dpstats.ols("y ~ x", frame, ledger=of_records, **call)
    for ledger, more in ((of_units, {}), (of_records, {"unit": "id"}), (of_units, {"unit": "x"})):
        with pytest.raises(dpstats.ParameterError, match="is about"):
            dpstats.ols("y ~ x", frame, ledger=ledger, **call, **more)
        assert ledger.remaining()[0] == pytest.approx(2)
    # with a public limit on the rows of a unit
    record = dpstats.median("y ~ 1", frame, eps=0.02, seed=1).guarantee
    of_units.charge(record.of_unit("id", rows=30), "median", "y ~ 1")
    assert of_units.remaining()[0] == pytest.approx(1.4)


def test_select_chooses_by_one_row_of_each():
    fit = dpstats.ols("y ~ x + z", panel(5_000), eps=3, unit="id", select=1, seed=1)
    assert fit.guarantee.unit == "id" and len(fit.params) == 2


DISK = [
    ("ols", {}), ("ols", {"weights": "unit"}), ("ols", {"effects": "unit"}), ("ols", {"select": 1}),
    ("logit", {}), ("poisson", {}), ("huber", {}), ("boosted_adassp", {}), ("tukey_em", {}), ("mean", {}),
    ("median", {}), ("theil_sen", {}), ("noisy_stats", {"bounds": {"x": (-10, 10), "y": (-50, 50)}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "more"),
    [case if case[1] else pytest.param(*case, marks=pytest.mark.slow) for case in DISK],
    ids=[f"{name}, {next(iter(more), 'plain')}" for name, more in DISK],
)
@pytest.mark.slow
def test_the_release_is_that_of_memory_whatever_the_order(name, more, tmp_path, monkeypatch):
    """To the last bit, from files on disk, a unit's rows in each; and with the units in another order."""
    pytest.importorskip("pyarrow")
    frame = answered(panel(2_000), name) if name in ("logit", "poisson") else panel(2_000)
    frame = frame.assign(id=lambda f: "p" + f["id"].astype(str)).reset_index(drop=True)
    paths = [tmp_path / f"{i}.parquet" for i in range(3)]
    for i, path in enumerate(paths):
        frame[i * 2_000 : (i + 1) * 2_000 if i < 2 else None].to_parquet(path)
    # rows of different units move, those of one stay in their order
    moved = frame.iloc[np.argsort(frame["id"].to_numpy(), kind="stable")]
    monkeypatch.setattr("dpstats.data.sources.BATCH_ROWS", 1_000)
    formula = {"mean": "y ~ 1", "median": "y ~ 1", "theil_sen": "y ~ x", "noisy_stats": "y ~ x"}

    def fit(data):
        given = {"eps": 20.0, "unit": "id", "seed": 2} | more
        return getattr(dpstats, name)(formula.get(name, "y ~ x + z"), data, **given)

    memory, again = fit(frame), fit(moved)
    # some 3,000 of the 6,000 rows are held
    monkeypatch.setattr("dpstats.data.units._HELD", 12_000)
    for other in (again, fit(paths)):
        np.testing.assert_array_equal(other.params, memory.params)
        np.testing.assert_array_equal(other.bse, memory.bse)


@pytest.mark.slow
def test_the_disk_is_let_go_of_after_a_release_and_after_an_error(tmp_path, monkeypatch):
    """Also with a number of units that is public, and in the description of columns."""
    frame = panel(500)
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    spills = []
    monkeypatch.setattr("dpstats.data.units.Spill", lambda piles: spills.append(Spill(piles)) or spills[-1])
    monkeypatch.setattr("dpstats.data.units._HELD", 500)
    dpstats.describe(path, ["y"], eps=1, unit="id", seed=1)
    dpstats.noisy_stats("y ~ x", path, eps=20, unit="id", bounds=BOUNDS, seed=1)
    with pytest.raises(dpstats.ReleaseFailed):
        dpstats.ols("y ~ x", path, eps=1e-3, unit="id", seed=1)
    assert len(spills) > 5 and all(spill._file.closed for spill in spills)


def test_keys_are_drawn_for_each_release(monkeypatch):
    """From the system, or from the seed: nobody lays all units on one pile by the choice of names."""
    keys, real = [], estimation.UnitParts
    monkeypatch.setattr(estimation, "UnitParts", lambda *given: keys.append(given[-1]) or real(*given))
    frame = panel(300)
    for seed in (None, None, 1, 1, 2):
        dpstats.mean("y ~ 1", frame, eps=20, unit="id", seed=seed)
    # its number of units is public, and counted with another key
    dpstats.noisy_stats("y ~ x", frame, eps=20, unit="id", bounds=BOUNDS, seed=1)
    assert keys[2] == keys[3] and len(set(keys)) == 5 and {len(key) for key in keys} == {16}


@pytest.mark.parametrize("name", ["ols", "huber", "adassp", "boosted_adassp"])
def test_the_clip_of_units_knows_that_their_sums_may_point_one_way(name, monkeypatch):
    """As where a column goes with the units' own effects; of rows by themselves the sign tells them apart."""
    asked = []
    for module in (rounds, newton):

        def choose(*given, chosen=module.choose_clip, **more):
            asked.append(more["one_way"])
            return chosen(*given, **more)

        monkeypatch.setattr(module, "choose_clip", choose)
    frame = data(ESTIMATORS[name].rows).assign(id=lambda f: f.index // 2)
    run(name, frame, unit="id", eps=20)
    assert asked == [True]
    run(name, frame)
    assert asked == [True, False]
