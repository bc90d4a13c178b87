"""The description of a table: what is read, how near it comes, what it costs, and what it refuses."""

import json
import math
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpstats
from dpstats.datasets import load_diamonds
from dpstats.explore import describe as module
from dpstats.explore import panels
from dpstats.explore.described import Correlation, LevelCounts, NumberSummary, around
from dpstats.explore.description import _within
from dpstats.location.mean import MeanColumn
from dpstats.mechanisms.quantiles import Distribution
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.conversions import gdp_mu
from dpstats.results.table import format_ends


@pytest.fixture(scope="module")
def diamonds():
    frame = load_diamonds()
    return frame.assign(log_price=np.log(frame["price"]), price_per_carat=frame["price"] / frame["carat"])


@pytest.fixture(scope="module")
def described(diamonds):
    return dpstats.describe(diamonds, eps=1, seed=3)


def table(n=4_000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    return pd.DataFrame({
        "x": np.where(rng.random(n) < 0.2, np.nan, x),
        "y": 3 * x + rng.standard_normal(n),
        "f": pd.Categorical(rng.choice(list("ab"), n, p=[0.7, 0.3]), categories=["a", "b", "never"]),
        "t": pd.array(rng.random(n) < 0.4, dtype="boolean"),
        "who": rng.integers(0, n // 4, n),
    })  # fmt: skip


class TestDiamonds:
    """Twelve columns at eps = 1."""

    def test_means(self, diamonds, described):
        means = described.numbers["mean"]
        assert len(means) == 9
        assert (means / diamonds[means.index].mean() - 1).abs().max() < 0.03

    def test_quartiles_in_ranks(self, diamonds, described):
        for name, row in described.numbers.iterrows():
            x = np.sort(diamonds[name].to_numpy(float))
            for label, q in (("25 %", 0.25), ("median", 0.5), ("75 %", 0.75)):
                value = float(f"{row[label]:.4g}")
                low, high = (np.searchsorted(x, value, side) / len(x) for side in ("left", "right"))
                assert low - 0.02 < q < high + 0.02, (name, label)

    def test_counts(self, diamonds, described):
        for (column, level), count in described.levels["count"].items():
            assert abs(count - (diamonds[column] == level).sum()) < 0.01 * len(diamonds)
        assert abs(described.rows - len(diamonds)) < 0.01 * len(diamonds)

    def test_the_table_is_narrow_and_says_what_it_covers(self, described):
        text = str(described)
        assert max(map(len, text.splitlines())) <= 78
        assert "cut" in text and "Ideal" in text and "PROTECTS NOBODY" in " ".join(text.split())
        assert "<table" in described._repr_html_() and r"\begin{tabular}" in described.summary().as_latex()


def test_without_noise_all_is_as_pandas_has_it():
    frame = table()
    found = dpstats.describe(frame.drop(columns="who"), eps=1e6, seed=1, correlation=True)
    x = frame["x"].dropna()
    row = found.numbers.loc["x"]
    assert row["missing"] == pytest.approx(frame["x"].isna().sum(), abs=0.1)
    assert row["mean"] == pytest.approx(x.mean(), abs=1e-3)
    assert row["sd"] == pytest.approx(x.std(), rel=0.01)
    assert row[["25 %", "median", "75 %"]].to_numpy(float) == pytest.approx(
        np.quantile(x, [0.25, 0.5, 0.75]), abs=5e-3
    )
    shares = found.levels["share"]
    assert shares["f", "a"] == pytest.approx((frame["f"] == "a").mean(), abs=1e-6)
    assert shares["f", "never"] == pytest.approx(0, abs=1e-6)
    assert shares["t", True] == pytest.approx(frame["t"].mean(), abs=1e-6)
    assert found.correlation.loc["x", "y"] == pytest.approx(frame[["x", "y"]].corr().iloc[0, 1], abs=0.01)


def test_standard_errors_at_large_eps_are_the_classical_ones():
    x = np.random.default_rng(1).gamma(2.0, size=20_000)
    tidy = dpstats.describe({"x": x}, eps=1e6, seed=1).tidy().set_index("statistic")
    assert tidy.loc["mean", "std.error"] == pytest.approx(x.std() / math.sqrt(len(x)), rel=0.03)
    share = dpstats.describe(
        {"f": np.where(x > 2, "a", "b")}, eps=1e6, levels={"f": ["a", "b"]}, seed=1
    ).tidy().set_index("statistic").loc["share of a"]  # fmt: skip
    p = (x > 2).mean()
    assert share["std.error"] == pytest.approx(math.sqrt(p * (1 - p) / len(x)), rel=1e-3)


def test_correlations_have_the_standard_errors_of_elliptical_distributions():
    r, n = 0.6, 10_000.0
    gram, kurtosis = np.array([[1, r], [r, 1]]), 1.7
    squares = kurtosis * (1 + 2 * gram**2)
    found = Correlation.of(("a", "b"), [0, 1], gram, squares, 0.0, n)
    assert found.se[0, 1] == pytest.approx(math.sqrt(kurtosis) * (1 - r**2) / math.sqrt(n))
    noisy = Correlation.of(("a", "b"), [0, 1], gram, squares, 0.9, n)
    assert np.isnan(noisy.estimates[0, 1]) and noisy.estimates[0, 0] == 1


class TestMostRowsAtZero:
    @pytest.mark.slow
    def test_deviations_are_of_the_size_of_the_column_or_not_given(self):
        given = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            frame = pd.DataFrame(rng.standard_normal((2_000, 6)), columns=list("abcdef"))
            cost = np.exp(7 + rng.standard_normal(2_000))
            frame["cost"] = np.where(rng.random(2_000) < 0.6, 0.0, cost)
            one = dpstats.describe(frame, eps=1, seed=seed)
            given.append(one.numbers.loc["cost", ["mean", "sd"]].min())
        assert np.isfinite(given).any() and np.nanmin(given) > 50

    def test_a_deviation_of_the_zeros_alone_is_not_given(self, monkeypatch):
        z = np.random.default_rng(0).standard_normal(3_000)
        cost = np.where(z > 0.3, np.exp(7 + z), 0.0)
        frame = pd.DataFrame({"x": z, "y": z**3, "cost": cost})
        whole = module.limited_means

        def astray(name, rows, *args):
            (mean,) = whole(name, rows, *args)
            # (of the three columns this has most zeros)
            zeros = np.median(rows.Y) == 0
            told = {"estimate": 0.0, "spread": 1e-30, "square": 1e-60, "square_se": 1e-61, "beyond": 0.0}
            return (replace(mean, **told) if zeros else mean,)

        monkeypatch.setattr(module, "limited_means", astray)
        one = dpstats.describe(frame, eps=10, seed=1, correlation=True)
        assert one.numbers.loc["cost", ["mean", "sd"]].isna().all()
        assert one.correlation["cost"].drop("cost").isna().all() and one.correlation.loc["x", "y"] > 0.5

    def test_a_median_beside_zero_is_taken_for_zero(self):
        least = 2.0**-100
        for quartiles in (
            [0.0, least, 700.0],
            [0.0, 4e-9, 900.0],
            [0.0, least, 2 * least],
            [-5.0, -1e-20, 0.0],
        ):
            assert module._middle(np.array(quartiles)) == 0.0
        for quartiles in ([0.0, 0.1, 900.0], [4e-13, 5e-13, 6e-13], [-0.7, 1e-5, 0.7]):
            assert module._middle(np.array(quartiles)) == quartiles[1]

    def test_a_deviation_that_the_counts_contradict_is_told(self):
        at, below = np.array([-8.0, -4.0, 0.0, 4.0, 8.0]), np.array([20.0, 100.0, 600.0, 900.0, 980.0])
        counts = Distribution(at, below, np.full(5, 10.0), np.zeros(1))

        def summary(spread, sd=10.0):
            return NumberSummary("x", 1_000.0, sd, MeanColumn(0.0, 1.0, spread), counts)

        assert summary(1.0).beyond(-4.0, 4.0) == (200.0, math.sqrt(300))
        assert summary(1.0).beyond(-5.0, 5.0) == (40.0, math.sqrt(300))
        assert summary(1.0).beyond(-9.0, 9.0) == (0.0, 0.0)
        assert summary(1e-30).overrun and summary(1.0).overrun
        # the same rows, but less certain; few of them; no deviation at all
        assert not summary(1.0, sd=60.0).overrun
        assert not summary(1.1).overrun and not summary(math.nan).overrun
        # nor by what the deviation may be at most
        wide = MeanColumn(0.0, 1.0, 1.0, square=1.0, square_se=0.1)
        assert not replace(summary(1.0), mean=wide).overrun


class TestQuartilesBetweenZerosAndOthers:
    def summary(self, at, below):
        counts = Distribution(np.array(at), np.array(below), np.full(len(at), 10.0), np.array(at))
        return NumberSummary("x", 1_000.0, 10.0, MeanColumn(0.3, 1e-4, 0.4, 0.0, 1.0), counts)

    def test_what_is_next_to_nothing_is_zero(self):
        found = self.summary([-1.0, 0.0, 1e-30, 1.0, 2.0], [0.0, 0.0, 500.0, 900.0, 1_000.0])
        rows = {key: row for key, *row in found.rows(0.05)}
        assert rows["median"][0] == 0 and rows["median"][2:] == [0.0, 1.0]
        # whose interval does not hold 0 is as small as that
        small = self.summary([1e-31, 1e-30, 2e-30, 1.0], [0.0, 500.0, 1_000.0, 1_000.0])
        assert {key: row for key, *row in small.rows(0.05)}["median"][0] == 1e-30

    def test_they_are_printed_as_their_intervals_allow(self):
        assert _within(0.98765, 0.0, 1.0) == "1.0"
        assert _within(2.34567, 2.33, 2.361) == "2.346"
        assert _within(0.4, 0.4, 0.4) == "0.4000"
        assert _within(math.nan, 0.0, 0.5432) == "<0.54"
        assert _within(math.nan, math.nan, 1.0) == "-"


def test_correlations_of_limited_values_are_theirs():
    z = np.random.default_rng(0).standard_normal((20_000, 2))
    Z = np.column_stack([z[:, 0], np.exp(z @ [0.6, 0.8] * 1.5)])

    class Held:
        def complete(self, columns):
            return Z.copy()

    def column(x, low, high, limited):
        x = np.clip(x, low, high)
        mean = MeanColumn(x.mean(), 1.0, x.std(), low, high, limited)
        return NumberSummary("x", float(len(x)), 1.0, mean, None)

    ends = (-2.5, 2.5), (0.0, 3.0)
    numbers = [column(x, *e, True) for x, e in zip(Z.T, ends, strict=True)]
    listing = SimpleNamespace(numbers=(0, 1))
    budget = SimpleNamespace(mus={"products": 1e9, "squares": 1e9}, listing=listing)
    found = module._correlation(Held(), numbers, budget, Randomness(0))
    limited = np.column_stack([np.clip(x, *e) for x, e in zip(Z.T, ends, strict=True)])
    assert found.estimates[0, 1] == pytest.approx(np.corrcoef(limited.T)[0, 1], abs=1e-6)
    assert found.shortened == ()
    # limits of means that are not limited are those of the noise alone
    numbers = [column(x, -np.inf, np.inf, False) for x in Z.T]
    whole = [replace(n, mean=replace(n.mean, low=0.0, high=0.1)) for n in numbers]
    one, other = (module._correlation(Held(), n, budget, Randomness(0)) for n in (numbers, whole))
    assert one.estimates[0, 1] == other.estimates[0, 1]


@pytest.mark.slow
def test_standard_errors_of_correlations_are_those_seen():
    found, told = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        z = rng.standard_normal((4_000, 2))
        frame = pd.DataFrame({"a": z[:, 0], "b": np.exp(0.3 * (z[:, 0] + z[:, 1]))})
        one = dpstats.describe(frame, eps=2, correlation=True, seed=seed)
        found.append(one.correlation.iloc[0, 1])
        told.append(one.correlation_se.iloc[0, 1])
    # (counts of rows far out that noise makes visible hide one in a hundred)
    assert np.isnan(found).mean() <= 0.02
    # a relative standard error of 1 / sqrt(400) of what is seen
    assert 0.75 < np.nanmean(told) / np.nanstd(found) < 1.3


class TestBudget:
    def test_adds_up(self, described):
        mus = [spend.mu for spend in described.guarantee.spends]
        assert math.hypot(*mus) == pytest.approx(gdp_mu(1, 1e-6), rel=1e-6)

    def test_is_charged_before_rows_are_read(self):
        ledger = dpstats.Ledger(":memory:", eps=1, delta=1e-5)
        dpstats.describe(table(), ["x", "f"], eps=1, ledger=ledger, seed=1)
        assert ledger.remaining()[0] == 0
        with pytest.raises(dpstats.BudgetExceeded):
            dpstats.describe(table(), ["x", "f"], eps=1, ledger=ledger)
        assert ledger.report().releases[0]["method"] == "describe"

    def test_of_bounded_columns_nothing_goes_to_their_range(self):
        one = dpstats.describe(table(), ["x"], eps=1, bounds={"x": (-4, 4)}, seed=1)
        assert not any(spend.step == "scales" for spend in one.guarantee.spends)
        assert -0.2 < one.numbers.loc["x", "mean"] < 0.2

    def test_levels_alone(self):
        one = dpstats.describe(table(), ["f", "t"], eps=1, seed=1)
        assert [spend.step for spend in one.guarantee.spends][1:] == ["numbers of rows by level"]
        assert one.numbers.empty and len(one.levels) == 5


class TestRows:
    def test_a_unit_counts_once(self):
        one = dpstats.describe(table(), ["x"], eps=3, unit="who", seed=1)
        assert abs(one.rows - 1_000) < 100 and one.guarantee.unit == "who"

    def test_groups(self):
        frame = table()
        groups = dpstats.describe(frame, ["x", "t"], eps=3, by="f", seed=1)
        assert groups["a"].rows > 2_000 and groups["never"].rows < 200
        assert "x: mean" in groups.tidy()["term"].to_numpy()
        assert "by group" in str(groups)

    def test_columns_by_themselves_drop_what_they_miss(self):
        one = dpstats.describe(table(), ["x", "y"], eps=3, seed=1)
        assert one.number_summaries[0].count < 3_500 < one.number_summaries[1].count

    def test_too_few_rows_leave_means_undetermined_and_say_so(self):
        one = dpstats.describe({"x": np.arange(50.0)}, eps=0.5, seed=1)
        assert math.isnan(one.numbers.loc["x", "mean"]) and "n.d." in str(one)

    def test_too_few_rows_leave_shares_undetermined_and_say_so(self):
        """They were shares with standard errors of 10, from 0 to 1."""
        one = dpstats.describe({"g": ["a"]}, levels={"g": ["a", "b"]}, eps=1, seed=1)
        assert one.levels.drop(columns="count").isna().all(axis=None) and one.levels["count"].notna().all()
        assert one.to_dict()["statistics"][-1]["estimate"] is None
        assert str(one).count("n.d.") == 9 and "n.d.: not determined by this release" in str(one)
        pytest.importorskip("matplotlib").use("Agg")
        one.plot()

    @pytest.mark.parametrize("present", [0, 1, 20])
    @pytest.mark.slow
    def test_quartiles_of_hardly_any_numbers_are_not_determined(self, present):
        x = np.full(5_000, np.nan)
        x[:present] = np.arange(present)
        for seed in range(40):
            one = dpstats.describe({"x": x}, eps=1, seed=seed)
            assert one.numbers.loc["x", ["25 %", "median", "75 %"]].isna().all()
            tidy = one.tidy().set_index("statistic").loc[["25 %", "median", "75 %"]]
            assert tidy[["estimate", "conf.low", "conf.high"]].isna().all(axis=None)
        line = next(text for text in str(one).splitlines() if text.startswith("x "))
        assert line.split()[-3:] == ["n.d."] * 3

    @pytest.mark.parametrize("present", [60, 120, 200])
    @pytest.mark.slow
    def test_quartiles_of_few_numbers_are_no_noise_of_the_search(self, present):
        """Quartiles of numbers of some tens lie near them if they are given."""
        x = np.full(5_000, np.nan)
        x[:present] = np.random.default_rng(1).lognormal(3, 1, present)
        for seed in range(100):
            given = dpstats.describe({"x": x}, eps=1, seed=seed).numbers.loc["x"].iloc[3:].dropna()
            assert given.between(1e-3, 1e4).all()

    def test_a_mean_of_limited_values_says_so_in_its_line(self):
        x = np.random.default_rng(0).lognormal(10, 2, 1_000)
        one = dpstats.describe({"x": x, "z": np.tanh(x)}, eps=1, bounds={"z": (0, 1)}, seed=1)
        mean = one.number_summaries[0].mean
        lines = str(one).splitlines()
        assert mean.limited and sum(text.startswith("* x ") for text in lines) == 1
        assert sum(text.startswith("z  ") for text in lines) == 1 and max(map(len, lines)) <= 78
        told = "* Means and standard deviations are those of values moved into: x "
        assert told + format_ends(mean.low, mean.high) in " ".join(str(one).split())
        pairs = dpstats.describe(
            {"x": x, "z": np.tanh(x)}, eps=1, bounds={"z": (0, 1)}, correlation=True, seed=1
        )
        assert "Means, standard deviations and correlations are those" in " ".join(str(pairs).split())

    def test_no_number_of_a_table_is_minus_zero(self):
        x = np.random.default_rng(0).normal(size=2_000)
        one = dpstats.describe({"x": x, "z": x**2}, eps=2, correlation=True, seed=1)
        little = replace(one.correlations, estimates=np.full((2, 2), -1e-4))
        rows = str(replace(one, correlations=little)).split("correlation ")[1].splitlines()[2:4]
        assert [row.split() for row in rows] == [["x", "0.00"], ["z", "0.00", "0.00"]]
        assert format_ends(-1e-9, 5.0) == "[0.000, 5.000]"

    def test_names_are_whole_and_stand_once(self):
        rng = np.random.default_rng(0)
        names = ["bmi", "fare", "income", "latitude", "concentration", "blood_pressure_sys"]
        frame = pd.DataFrame(rng.lognormal(6, 0.5, (2_000, 6)), columns=names)
        lines = str(dpstats.describe(frame, eps=2, seed=1)).splitlines()
        header = next(text for text in lines if "missing" in text)
        assert header.split()[-2:] == ["75", "%"]
        for name in names:
            assert sum(text.startswith(f"* {name}  ") for text in lines) == 1

    def test_files_and_chunks_give_the_same_release(self, tmp_path):
        pytest.importorskip("pyarrow")
        frame = table(3_000).drop(columns=["f", "t"])
        frame.to_parquet(tmp_path / "t.parquet")
        one, other = (dpstats.describe(d, ["x", "y"], eps=1, seed=1) for d in (frame, tmp_path / "t.parquet"))
        assert one.to_dict() == other.to_dict()

    @pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324])
    def test_hostile_values(self, value):
        frame = table(2_000)
        frame.loc[:50, "x"] = value
        one = dpstats.describe(frame[["x", "y"]], eps=2, correlation=True, seed=1)
        assert np.isfinite(one.numbers.loc["y"].to_numpy(float)).all()

    @pytest.mark.parametrize("n", [0, 1])
    def test_hardly_any_rows(self, n):
        one = dpstats.describe(table(8)[:n], eps=1, seed=1, correlation=True)
        assert str(one) and json.dumps(one.to_dict(), allow_nan=False)


class TestRefused:
    def test_text_without_levels_that_is_named(self):
        with pytest.raises(dpstats.SchemaError, match=r"levels=\{"):
            dpstats.describe(pd.DataFrame({"f": pd.array(["a"], dtype="string")}), ["f"], eps=1)

    def test_by_group_means_of_limited_values_say_so_too(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"x": rng.lognormal(0, 1, 3_000), "f": pd.Categorical(["a", "b"] * 1_500)})
        groups = dpstats.describe(frame, eps=1, by="f", seed=1)
        mean = groups["a"].number_summaries[0].mean
        assert mean.limited and groups["a"].limited == (("x: mean", mean.low, mean.high),)
        assert "a: x: mean of values moved into [" in str(groups)
        assert groups["a"].to_dict()["limited"] == [["x: mean", mean.low, mean.high]]

    def test_a_deviation_that_noise_hides_has_an_upper_end(self):
        frame = {"x": np.random.default_rng(0).random(1_000)}
        one = dpstats.describe(frame, eps=0.5, bounds={"x": (0, 100)}, seed=1)
        row = one.tidy().set_index("statistic").loc["sd"]
        assert np.isnan(row[["estimate", "std.error"]].astype(float)).all()
        assert row["conf.low"] == 0 and 0.3 < row["conf.high"] <= 50
        text = next(line for line in str(one).splitlines() if line.startswith("x  "))
        assert text.split()[4] == f"<{row['conf.high']:.0f}"
        assert "sd <: noise hides the standard deviation" in str(one)

    @pytest.mark.slow
    def test_deviations_of_rare_ones_are_not_those_that_noise_has_made_large(self):
        given, held = [], 0
        for seed in range(5):
            rng = np.random.default_rng(seed)
            frame = pd.DataFrame({f"c{j}": rng.binomial(1, 0.1, 3_000) for j in range(12)})
            tidy = dpstats.describe(frame, eps=1, seed=seed).tidy()
            rows = tidy[tidy["statistic"] == "sd"].dropna()
            given += rows["estimate"].to_list()
            held += int(rows["conf.low"].le(0.3).sum() - rows["conf.high"].lt(0.3).sum())
        # relative standard deviations of a tenth, and of the median a sixtieth
        assert len(given) > 45 and np.median(given) == pytest.approx(0.3, rel=0.13)
        assert held >= stats.binom.ppf(1e-6, len(given), 0.95)

    @pytest.mark.slow
    def test_a_deviation_that_noise_hides_is_not_determined(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"x": rng.lognormal(10.5, 0.6, 20_000), "z": rng.standard_normal(20_000)})
        frame["y"] = frame["z"] + rng.standard_normal(20_000)
        for wide in (1e6, 1e7):
            one = dpstats.describe(frame, eps=1, seed=1, bounds={"x": (0, wide)}, correlation=True)
            assert np.isnan(one.numbers.loc["x", "sd"])
            assert one.correlation.loc["z", "y"] == pytest.approx(0.5**0.5, abs=0.05)
        near = dpstats.describe(frame, eps=1, seed=1, bounds={"x": (0, 2e5)}).numbers.loc["x", "sd"]
        assert near == pytest.approx(frame["x"].std(), rel=0.2)

    @pytest.mark.parametrize(("scale", "shortened"), [(0.1, ()), (1.5, ("w",))])
    @pytest.mark.slow
    def test_correlations_of_columns_with_long_tails_say_so(self, scale, shortened):
        z = np.random.default_rng(0).standard_normal((20_000, 2))
        frame = pd.DataFrame({"x": z @ [0.5, 0.87], "w": np.exp(scale * z[:, 1])})
        one = dpstats.describe(frame, eps=1, seed=1, correlation=True)
        assert one.correlations.shortened == shortened
        assert ("nearer to the correlations of most rows" in str(one)) == bool(shortened)

    def test_an_interval_of_missing_values_has_its_ends_in_order(self):
        counts = LevelCounts("f", ("a",), np.array([900.0, -40.0]), 12.0)
        low, high = around(float(counts.noisy[-1]), counts.sd, 0.05)
        # [0, 0] would miss what noise of -40 hides
        assert (low, high) == (0.0, pytest.approx(1.96 * 12.0, rel=1e-4))

    def test_the_table_has_the_ends_of_another_level_if_it_is_asked_for(self):
        """What is not seen is less than the upper end of the interval of 99 %, of numbers and of levels."""
        frame = table()[["x", "f"]].assign(x=np.arange(4_000.0), f=pd.Categorical(["a", "b"] * 2_000))
        found = dpstats.describe(frame, eps=1, seed=1)
        wide, usual = str(found.summary(alpha=0.01)), str(found.summary())
        for alpha, text in ((0.01, wide), (found.alpha, usual)):
            missing = found.tidy(alpha=alpha).query("statistic == 'missing'").set_index("column")
            ends = [math.ceil(missing.loc[name, "conf.high"]) for name in ("x", "f")]
            assert f"<{ends[0]:,} " in text and f"f (missing: <{ends[1]:,})" in text

    def test_rows_that_may_go_unseen_are_told_once(self):
        frame = table(20_000)
        one = dpstats.describe(frame, ["x", "y"], eps=2, seed=1)
        (mu,) = {spend.mu for spend in one.guarantee.spends if spend.step.startswith("rows by distance")}
        rows = float(f"{4.5 / mu:.1g}")
        text = " ".join(str(one.summary()).split())
        assert text.count("may go unseen") == 1 and f"Some {rows:.0f} rows of about one size" in text
        bounds = {"x": (-9, 9), "y": (-30, 30)}
        of_one = dpstats.describe(frame, ["x", "y"], eps=2, bounds={"x": (-9, 9)}, seed=1)
        assert "may go unseen" in str(of_one)
        assert "go unseen" not in str(dpstats.describe(frame, ["x", "y"], eps=2, bounds=bounds, seed=1))

    @pytest.mark.slow
    def test_missing_values_of_the_table_are_those_of_tidy(self):
        """Where noise hides them the table has the upper end of the interval, of numbers and of levels; which
        holds as often as it says. False alarm 1e-6."""
        held = {"x": 0, "f": 0}
        for seed in range(60):
            g = np.random.default_rng(seed)
            frame = pd.DataFrame(
                {"x": g.standard_normal(2_000), "f": pd.Categorical(g.choice(["a", "b"], 2_000))}
            )
            frame.loc[:59, ["x", "f"]] = None
            found = dpstats.describe(frame, eps=1, seed=seed)
            tidy = found.tidy().query("statistic == 'missing'").set_index("column")
            lines = str(found.summary()).splitlines()
            texts = {
                "x": next(line for line in lines if line.lstrip("* ").startswith("x "))
                .lstrip("* ")
                .split()[1],
                "f": next(line for line in lines if line.startswith("f (missing"))
                .split(": ")[1]
                .rstrip(") "),
            }
            for name, text in texts.items():
                low, high = tidy.loc[name, ["conf.low", "conf.high"]]
                held[name] += low <= 60 <= high
                if text.startswith("<"):
                    assert int(text[1:].replace(",", "")) == math.ceil(high)
                else:
                    assert low > 0
        assert min(held.values()) > stats.binom.ppf(1e-6, 60, 0.95)

    def test_text_without_levels_that_is_not_named_is_left_out(self):
        frame = table(500).assign(s=pd.array(["secret"] * 500, dtype="string"))
        one = dpstats.describe(frame, eps=1, seed=1)
        assert one.skipped == ("s",) and "secret" not in str(one) and "declared levels" in str(one)

    def test_texts_and_dates_of_no_declared_type_are_named(self):
        frame = table(2_000).drop(columns="who")
        frame["note"], frame["gone"] = np.array(["secret", "other"] * 1_000, dtype=object), np.nan
        told = "no declared type are missing: note, gone. What is no number counts as missing"
        one = dpstats.describe(frame, eps=2, seed=1)
        assert told in " ".join(str(one).split()) and "secret" not in str(one)
        assert dpstats.describe(frame.drop(columns=["note", "gone"]), eps=2, seed=1).notes == ()
        # a declared type: numbers that are all missing
        frame["gone"] = frame["gone"].astype("Float64")
        assert "missing: note. What" in dpstats.describe(frame, eps=2, seed=1).notes[0]

    def test_texts_and_dates_are_left_out_where_their_type_is_declared(self):
        pa = pytest.importorskip("pyarrow")
        frame = table(1_000)[["x", "y"]]
        frame["day"], frame["text"] = pd.Timestamp("2020-01-01"), "a"
        assert dpstats.describe(frame, eps=2, seed=1).skipped == ()
        one = dpstats.describe(pa.Table.from_pandas(frame), eps=2, seed=1)
        assert one.skipped == ("day", "text") and one.columns == "x, y"

    def test_of_columns_that_are_missing_no_more_rows_are_asked_for(self):
        n = 2_000
        gone = {"gone": np.full(n, np.nan), "x": np.random.default_rng(0).standard_normal(n)}
        one = " ".join(str(dpstats.describe(gone, eps=3, seed=1)).split())
        assert "n.d.: not determined, as all values that are seen are missing." in one
        same = np.full(n, 3.0)
        other = " ".join(str(dpstats.describe({**gone, "same": same}, eps=3, seed=1)).split())
        assert "help, except where all values are missing or a column does not vary." in other
        alone = " ".join(str(dpstats.describe({"same": same}, eps=3, seed=1)).split())
        assert "fewer columns may help, except where a column does not vary." in alone

    def test_few_rows_are_no_missing_values(self):
        assert dpstats.describe(table(50)[["x", "y"]], eps=0.5, seed=1).notes == ()

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"columns": ["nope"]}, "no column 'nope'"),
            ({"columns": []}, "columns must be"),
            ({"columns": ["x", "x"]}, "distinct"),
            ({"columns": 3}, "columns must be"),
            ({"data": "x ~ y", "columns": table()}, "which comes first"),
            ({"columns": ["f"], "by": "f"}, "columns must be other columns"),
            ({"columns": ["x"], "correlation": True}, "correlation must be False"),
            ({"eps": -1}, "eps must be"),
            ({"delta": 0}, "delta must be"),
            ({"correlation": "yes"}, "correlation must be"),
        ],
    )
    def test_before_a_row_is_read(self, changes, message):
        with pytest.raises(dpstats.DpstatsError, match=message):
            dpstats.describe(**({"data": table(), "eps": 1} | changes))

    @pytest.mark.parametrize("parameter", ["columns", "by", "unit", "levels", "bounds", "eps", "correlation"])
    @pytest.mark.parametrize("value", ["a column", "a list", "a text"])
    def test_what_is_passed_by_mistake_is_not_quoted(self, parameter, value):
        number, text = 918273.645, "SENTINEL-ROW" * 8
        passed = {"a column": pd.Series([number, 1.0]), "a list": [text, number], "a text": text}[value]
        with pytest.raises(dpstats.DpstatsError) as caught:
            dpstats.describe(table(), **({"eps": 1} | {parameter: passed}))
        assert "918273" not in str(caught.value) and "SENTINEL" not in str(caught.value)

    def test_correlations_that_were_not_asked_for(self, described):
        with pytest.raises(dpstats.NotReleased, match="correlation=True"):
            described.correlation  # noqa: B018


def test_pickles_are_of_one_size_whatever_the_rows():
    sizes = {
        len(pickle.dumps(dpstats.describe(table(n), ["x", "f"], eps=1, seed=1))) for n in (900, 4_000, 9_000)
    }
    # points that coincide are released as one: where the quartiles lie is released, too
    assert max(sizes) - min(sizes) < 2_000


@pytest.mark.slow
def test_plot(described):
    pytest.importorskip("matplotlib").use("Agg")
    figure = described.plot()
    assert len(figure.axes) == 12
    assert len(described.plot("cut").axes) == 1
    with pytest.raises(dpstats.ParameterError, match="columns must be"):
        described.plot("nope")


def _collapsed(share=0.24, count=20_000.0):
    """A 0/1 column whose quartiles the search left at 0 and next to it: no point lies beyond the ones."""
    at = np.linspace(-1e-20, 1e-20, 9)
    below = (1 - share) * count * (at > 0)
    mean = MeanColumn(share, 1e-4, spread=0.43, low=0.0, high=1.0, square=0.18, square_se=0.01)
    return NumberSummary("x", count, 10.0, mean, Distribution(at, below, np.full(9, 20.0), at[4:5]))


def test_bars_of_quartiles_that_coincide_have_a_width_and_what_lies_beyond_is_said(described):
    pytest.importorskip("matplotlib").use("Agg")
    (ax,) = replace(described, number_summaries=(_collapsed(),), level_counts=()).plot("x").axes
    (bar,) = ax.patches
    low, high = ax.get_xlim()
    assert bar.get_width() > (high - low) / 60 and low < 0 < bar.get_x() + bar.get_width() and high > 0.24
    assert bar.get_height() * bar.get_width() == pytest.approx(15_200)
    assert [text.get_text() for text in ax.texts] == ["24 % of rows\nfurther right"]


def test_of_few_rows_or_none_beyond_the_bars_nothing_is_said(described):
    assert panels.beyond(_collapsed()) == pytest.approx((0, 0.24))
    assert panels.beyond(_collapsed(share=0.004)) == (0, 0)
    assert panels.beyond(_collapsed(count=200.0)) == (0, 0)  # no more than noise
    assert all(panels.beyond(n) == (0, 0) for n in described.number_summaries if n.name != "price")
    number = replace(_collapsed(), around=replace(_collapsed().around, below=np.full(9, 5_000.0)))
    assert panels.beyond(number) == pytest.approx((0.25, 0.75))


def test_bounds_on_what_is_not_seen_are_rounded_up():
    found = dpstats.describe(table()[["f"]], eps=1000, seed=1)
    text = str(found.summary())
    assert "f (missing: <1)" in text and f" {found.rows_sd:.2g}\n" in text and 0 < found.rows_sd < 0.5
    assert found._missing(0.0, 4.1, 0.05) == "<9" and found._missing(11.0, 4.1, 0.05) == "11"
    coarse = dpstats.describe(table()[["f"]], eps=1, seed=1)
    assert f" {coarse.rows_sd:.0f}\n" in str(coarse.summary()) and coarse.rows_sd > 1


def test_shares_of_the_budget_do_not_depend_on_rows():
    frame = table()
    schema = dpstats.describe(frame, ["x", "f"], eps=1, seed=1).guarantee
    assert schema.spends == dpstats.describe(frame[:10], ["x", "f"], eps=1, seed=2).guarantee.spends


def test_numbers_beyond_all_doubles_are_missing_however_a_file_is_read(tmp_path):
    """pandas reads integers of any length where all fields of a column are, and texts where one is not."""
    path, missing = tmp_path / "t.csv", []
    for last in ("7" * 310, "x"):
        path.write_text("x\n" + ("9" * 310 + "\n") * 1500 + "5\n" * 500 + last + "\n")
        found = dpstats.describe(path, ["x"], eps=1e4, seed=1, bounds={"x": (0, 100)})
        missing.append(found.numbers.loc["x", "missing"])
    assert missing == pytest.approx([1501, 1501], abs=1)


def test_descriptions_of_groups_have_no_verbs_of_fits():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=3_000), "f": pd.Categorical(["a", "b"] * 1_500)})
    groups = dpstats.describe(frame, ["x"], eps=1, by="f", seed=1)
    for ask in (
        groups.conf_int, groups.glance, lambda: groups.t_test("x = 0"),
        lambda: groups.wald_test("x = 0"), lambda: groups.predict(frame),
    ):  # fmt: skip
        with pytest.raises(dpstats.NotReleased, match=r"A description has no .*: tidy\(\) and summary\(\)"):
            ask()
    with pytest.raises(dpstats.NotReleased, match=r"is of one group: found\[group\]\.plot\(\)"):
        groups.plot()


def test_groups_stand_beside_each_other():
    """All statistics of all groups, three in a table."""
    rng = np.random.default_rng(0)
    levels, sexes = list("abcd"), ["f", "m"]
    frame = pd.DataFrame({
        "x": rng.normal(50, 9, 8_000), "s": pd.Categorical(rng.choice(sexes, 8_000)),
        "g": pd.Categorical(rng.choice(levels, 8_000)),
    })  # fmt: skip
    groups = dpstats.describe(frame, ["x", "s"], eps=5, by="g", seed=1)
    first, second = (groups.summary().coefficients, *groups.summary().further)
    assert first.header == ("", "a", "b", "c") and second.header == ("", "d")
    assert [row[0] for row in first.rows] == [row[0] for row in second.rows] == list(groups.names)
    mean = groups["b"].table()[list(groups.names).index("x: mean")]
    shown = dict((row[0], row[2]) for row in first.rows)["x: mean"]
    assert float(shown.split(" (")[0]) == pytest.approx(mean[0], rel=1e-3)
    assert float(shown.split(" (")[1].strip(")")) == pytest.approx(mean[1], rel=0.01)
    assert "more lines" not in str(groups) and "s (missing" not in str(groups)
