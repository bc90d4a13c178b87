"""Diagnostics of a released fit: size and power of tests, what bins and curves show, what is refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import dpstats
from dpstats.explore import residuals, responses, score_tests, sums
from dpstats.explore.diagnosed import Bins, Leverage, Rootogram
from dpstats.explore.score_tests import RESIDUAL_EDGES, normality
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.conversions import gdp_mu

FORMULA = "y ~ x1 + x2 + f"


def table(n, seed=0, kind="null"):
    """A linear model with a skewed column and a factor; `kind` is what it departs from."""
    rng = np.random.default_rng(seed)
    x1, x2, f = rng.standard_normal(n), np.exp(0.5 * rng.standard_normal(n)), rng.integers(0, 3, n)
    mean, e = 1 + x1 + 0.5 * x2 + 0.3 * (f == 1), rng.standard_normal(n)
    if kind == "curve":
        mean = mean + 0.06 * x1**2
    if kind == "spread":
        e = e * np.exp(0.08 * (mean - mean.mean()))
    if kind == "tails":
        e = rng.standard_t(3, n) / math.sqrt(3)
    levels = np.array(["a", "b", "c"])
    return pd.DataFrame({"x1": x1, "x2": x2, "f": pd.Categorical(levels[f], levels), "y": mean + e})


def shares(n, seed=0, curve=0.0):
    rng = np.random.default_rng(seed)
    frame = table(n, seed)
    eta = -0.8 + 0.7 * frame["x1"] + 0.4 * frame["x2"] + curve * (frame["x1"] ** 2 - 1)
    return frame.assign(y=(rng.random(n) < special.expit(eta)) * 1.0, eta=eta)


def counts(n, seed=0, extra=0.0):
    rng = np.random.default_rng(seed)
    frame = table(n, seed)
    mean = np.exp(-0.8 + 0.7 * frame["x1"] + 0.4 * frame["x2"])
    mean = mean * (rng.gamma(1 / extra, extra, n) if extra else 1.0)
    return frame.assign(y=rng.poisson(mean) * 1.0, t=np.exp(0.3 * rng.standard_normal(n)))


def pvalues(n, kind, runs, first=0):
    found = []
    for seed in range(first, first + runs):
        frame = table(n, seed, kind)
        fit = dpstats.ols(FORMULA, frame, eps=1, seed=seed)
        found.append([t.pvalue for t in fit.diagnose(frame, eps=1, seed=seed + 10**6).tests])
    return np.array(found)


def test_noise_makes_no_share_beyond_a_larger_limit_the_larger_one():
    counts = np.array([900.0, -16.0, 14.0, -1.0, 100.0])
    frame = Leverage(np.array([2.0, 3.0, 5.0, 10.0]), counts, 10.0, 1000.0).to_frame()
    np.testing.assert_allclose(frame["share"], [0.105, 0.105, 0.0995, 0.0995])


def test_noise_makes_no_number_of_rows_negative():
    frame = Rootogram(np.array([50.0, -3.0, 1.0]), 5.0, np.array([40.0, 5.0, -30.0]), 9.0).to_frame()
    assert frame["observed"].tolist() == [50, 0, 1] and frame["expected"].tolist() == [40, 5, 0]


@pytest.mark.slow
def test_size_and_power():
    """At n = 10,000 and eps = 1; benchmarks/explore has many more runs."""
    runs = 40
    assert np.all(np.sum(pvalues(10_000, "null", runs) < 0.05, axis=0) <= stats.binom.isf(1e-6, runs, 0.065))
    for which, kind in enumerate(["curve", "spread", "tails"]):
        found = pvalues(10_000, kind, 12)
        assert np.sum(found[:, which] < 0.05) >= 8, kind


@pytest.fixture(scope="module")
def frame():
    return table(10_000, 1, "curve")


@pytest.fixture(scope="module")
def fit(frame):
    return dpstats.ols(FORMULA, frame, eps=1e5, seed=1)


@pytest.fixture(scope="module")
def found(fit, frame):
    return dpstats.diagnose(fit, frame, eps=1e5, seed=2)


class TestLinear:
    def test_without_noise_bins_are_those_of_the_residuals(self, fit, frame, found):
        residual = (frame["y"] - fit.predict(frame)).to_numpy()
        fitted = (frame["y"] - residual).to_numpy()
        bins = found.frames()["fitted"]
        places = np.searchsorted(np.quantile(fitted, np.arange(1, 10) / 10), fitted)
        assert found.fitted.limit == 20
        limited = np.clip(residual, -20 * fit.sigma, 20 * fit.sigma)
        means = [limited[places == k].mean() for k in range(10)]
        assert bins["mean"].to_numpy() == pytest.approx(means, abs=2e-3)
        assert bins["rows"].to_numpy() == pytest.approx(np.full(10, 1_000), abs=5)

    def test_without_noise_the_q_q_plot_is_that_of_the_residuals(self, fit, frame, found):
        residual = ((frame["y"] - fit.predict(frame)) / fit.sigma).to_numpy()
        qq = found.frames()["qq"].dropna()
        share = np.array([(residual < edge).mean() for edge in qq["residual"]])
        assert special.ndtr(qq["normal"].to_numpy()) == pytest.approx(share, abs=1e-3)

    def test_without_noise_leverage_is_that_of_the_hat_matrix(self, frame, found):
        import statsmodels.formula.api as smf

        leverage = smf.ols(FORMULA, frame).fit().get_influence().hat_matrix_diag
        told = found.frames()["leverage"]
        for times, share, _ in told.itertuples(index=False):
            assert share == pytest.approx((leverage > times * leverage.mean()).mean(), abs=0.01)

    def test_rows_far_out_are_in_the_metric_of_leverages(self):
        rng = np.random.default_rng(1)
        data = {"income": np.exp(0.8 * rng.standard_normal(5_000)), "hours": rng.standard_normal(5_000)}
        X = np.column_stack([np.ones(5_000), data["income"], data["hours"]])
        leverage = np.sum(np.linalg.qr(X)[0] ** 2, axis=1)
        data["y"] = rng.standard_normal(5_000)
        fit = dpstats.ols("y ~ income + hours", data, eps=1e5, seed=1)
        told = fit.diagnose(data, eps=1e5, seed=2).leverage.to_frame()
        for times, share, _ in told.itertuples(index=False):
            assert share == pytest.approx((leverage > times * leverage.mean()).mean(), abs=0.001)

    @pytest.mark.slow
    def test_errors_of_leverages_have_the_noise_of_their_metric(self):
        rng = np.random.default_rng(1)
        data = {"a": rng.standard_normal(10_000), "b": rng.standard_normal(10_000)}
        data["y"] = rng.standard_normal(10_000)
        fit = dpstats.ols("y ~ a + b", data, eps=1e5, seed=1)
        told = [fit.diagnose(data, eps=2, seed=seed).leverage.to_frame() for seed in range(12)]
        # about exp(-2) of the rows are beyond 2 times the mean: their number moves with it
        shares = np.array([one["share"][0] for one in told])
        assert shares.std() > 1.2 * np.sqrt(4) * fit.diagnose(data, eps=2, seed=1).leverage.sd / 10_000
        assert shares.std() < 1.3 * np.mean([one["std.error"][0] for one in told])

    def test_reset_is_near_the_one_without_noise(self, frame, found):
        import statsmodels.formula.api as smf
        from statsmodels.stats.diagnostic import linear_reset

        classical = linear_reset(smf.ols(FORMULA, frame).fit(cov_type="HC0"), power=3, use_f=False).statistic
        # powers are limited here, so the two are not the same
        assert found.tests[0].statistic == pytest.approx(float(classical), rel=0.5)

    def test_columns_of_levels_have_no_bins(self, found):
        assert set(found.frames()) == {"tests", "fitted", "qq", "leverage", "x1", "x2"}

    def test_the_budget_adds_up_and_is_charged_besides_the_fit(self, frame):
        ledger = dpstats.Ledger(":memory:", eps=2, delta=1e-5)
        fit = dpstats.ols(FORMULA, frame, eps=1, ledger=ledger, seed=1)
        found = fit.diagnose(frame, eps=1, ledger=ledger, seed=2)
        assert math.hypot(*(s.mu for s in found.guarantee.spends)) == pytest.approx(gdp_mu(1, 1e-6), rel=1e-6)
        assert ledger.remaining()[0] == 0
        assert [r["method"] for r in ledger.report().releases] == ["ols", "diagnose"]

    def test_text_columns_take_the_levels_of_the_fit(self, fit, frame, found):
        texts = frame.assign(f=frame["f"].astype(str))
        assert dpstats.diagnose(fit, texts, eps=1e5, seed=2).to_dict() == found.to_dict()

    def test_of_units(self, frame):
        people = frame.assign(who=np.arange(len(frame)) // 2)
        fit = dpstats.ols(FORMULA, people, eps=3, unit="who", seed=1)
        found = fit.diagnose(people, eps=3, seed=1)
        assert found.guarantee.unit == "who" and abs(found.count - 5_000) < 200

    def test_tables(self, found):
        text = str(found)
        assert max(map(len, text.splitlines())) <= 78 and "RESET" in text and "Leverage" in text
        assert "<table" in found._repr_html_() and json.dumps(found.to_dict(), allow_nan=False)
        assert list(found.test_table.columns) == ["statistic", "df", "pvalue"]

    @pytest.mark.parametrize("value", [np.inf, np.nan, 1e308, -1e308, 5e-324])
    @pytest.mark.parametrize("column", ["x1", "y"])
    @pytest.mark.slow
    def test_hostile_values(self, fit, frame, value, column):
        other = frame.copy()
        other.loc[:20, column] = value
        found = dpstats.diagnose(fit, other, eps=1, seed=1)
        assert np.isfinite(found.frames()["fitted"]["rows"]).all()


class TestShares:
    def test_area_and_calibration(self):
        frame = shares(20_000, 3)
        fit = dpstats.logit(FORMULA, frame, eps=2, seed=1)
        found = fit.diagnose(frame, eps=2, seed=2)
        ranks = stats.rankdata(fit.predict(frame))
        ones = frame["y"].to_numpy() == 1
        area = (ranks[ones].sum() - ones.sum() * (ones.sum() + 1) / 2) / (ones.sum() * (~ones).sum())
        # binning takes a little off the area
        assert abs(found.auc - area) < 4.9 * found.auc_se + 0.005
        table_ = found.frames()["calibration"]
        assert np.all((table_["observed"] - table_["predicted"]).abs() < 5 * table_["std.error"] + 0.02)

    @pytest.mark.slow
    def test_a_right_model_looks_calibrated(self):
        """Noise of the predicted shares, too, is in the standard errors: of 400 tenths no more miss than of
        intervals that hold in 95 % (false alarm 1e-6), and shares rise with the predictions."""
        missed = tenths = 0
        for seed in range(40):
            rng = np.random.default_rng(seed)
            x = rng.standard_normal(5_000)
            frame = pd.DataFrame({"x": x, "y": (rng.random(5_000) < special.expit(2 * x - 0.5)) * 1.0})
            fit = dpstats.logit("y ~ x", frame, eps=2, seed=seed)
            table_ = fit.diagnose(frame, eps=1, seed=seed).frames()["calibration"].dropna()
            missed += np.sum((table_["observed"] - table_["predicted"]).abs() > 1.96 * table_["std.error"])
            tenths += len(table_)
            assert np.all(np.diff(table_["predicted"]) >= 0)
        assert tenths > 300 and missed <= stats.binom.ppf(1 - 1e-6, tenths, 0.05)

    def test_standard_error_of_the_area_without_noise(self):
        """DeLong's, of binned predictions."""
        frame = shares(4_000, 4)
        fit = dpstats.logit(FORMULA, frame, eps=1e5, seed=1)
        found = fit.diagnose(frame, eps=1e5, seed=2)
        predicted, y = fit.predict(frame).to_numpy(), frame["y"].to_numpy()
        draws = []
        rng = np.random.default_rng(0)
        for _ in range(300):
            rows = rng.integers(0, len(y), len(y))
            ranks, ones = stats.rankdata(predicted[rows]), y[rows] == 1
            area = ranks[ones].sum() - ones.sum() * (ones.sum() + 1) / 2
            draws.append(area / (ones.sum() * (~ones).sum()))
        assert found.auc_se == pytest.approx(np.std(draws), rel=0.2)

    def test_a_wrong_link_shows(self):
        frame = shares(20_000, 5, curve=0.3)
        fit = dpstats.logit(FORMULA, frame, eps=3, seed=1)
        assert fit.diagnose(frame, eps=3, seed=2).tests[0].pvalue < 1e-3


class TestCounts:
    @pytest.mark.slow
    def test_rootogram_and_dispersion(self):
        frame = counts(20_000, 6)
        fit = dpstats.poisson(FORMULA, frame, eps=3, seed=1)
        found = fit.diagnose(frame, eps=3, seed=2)
        root = found.frames()["rootogram"]
        assert np.all((root["observed"] - root["expected"]).abs() < 5 * root["std.error"])
        assert found.tests[1].pvalue > 1e-3
        just_below = replace(found, rootogram=replace(found.rootogram, observed=np.full(len(root), -0.3)))
        assert "-0 " not in str(just_below)
        more = counts(20_000, 6, extra=0.3)
        fit = dpstats.poisson(FORMULA, more, eps=3, seed=1)
        assert fit.diagnose(more, eps=3, seed=2).tests[1].pvalue < 1e-6

    def test_an_exposure_of_the_fit_is_one_of_the_diagnosis(self):
        frame = counts(20_000, 7)
        frame["y"] = np.random.default_rng(0).poisson(frame["t"] * np.exp(0.3 + 0.5 * frame["x1"])) * 1.0
        fit = dpstats.poisson("y ~ x1", frame, eps=3, exposure="t", seed=1)
        assert fit.offset == "np.log(t)" and dpstats.from_dict(fit.to_dict()).offset == "np.log(t)"
        assert fit.diagnose(frame, eps=3, seed=2).tests[1].pvalue > 1e-3
        with pytest.raises(dpstats.SchemaError, match="no column 't'"):
            fit.diagnose(frame.drop(columns="t"), eps=3)

    def test_bounds_of_a_fit_with_an_exposure_are_those_of_the_diagnosis(self):
        frame = counts(6_000, 8)
        wild = frame.assign(x1=np.where(np.arange(len(frame)) % 50, frame["x1"], 40.0))
        fit = dpstats.poisson("y ~ x1", wild, eps=3, bounds={"x1": (-2, 2)}, exposure="t", seed=1)
        found, within = (
            fit.diagnose(data, eps=3, seed=2) for data in (wild, wild.assign(x1=wild["x1"].clip(-2, 2)))
        )
        assert found.to_dict() == within.to_dict()

    def test_an_offset_of_the_fit_is_arithmetic_in_the_diagnosis(self):
        frame = counts(6_000, 8).assign(t2=np.linspace(-1, 1, 6_000))
        found = [
            dpstats.poisson("y ~ x1", frame, eps=1e4, offset=offset, seed=1).diagnose(frame, eps=1e4, seed=2)
            for offset in ("t2 - 2*t2", "I(t2 - 2*t2)")
        ]
        assert found[0].to_dict() == found[1].to_dict()

    def test_what_is_not_known_of_the_fit_is_not_tested(self):
        """Coefficients that are far off made the tests reject a true model of rare counts in a quarter."""
        frame = counts(5_000, 3)
        frame["y"] = np.random.default_rng(1).poisson(0.03 * np.exp(0.5 * frame["x1"])) * 1.0
        fit = dpstats.poisson(FORMULA, frame, eps=1, seed=1)
        assert fit.bse.isna().any()
        found = fit.diagnose(frame, eps=1, seed=2)
        assert found.test_table["pvalue"].isna().all() and found.test_table["df"].tolist() == [2, 1]
        assert found.frames()["rootogram"]["observed"].notna().all()
        assert "need every coefficient that is in the fit determined" in " ".join(str(found).split())
        made = " ".join(spend.step for spend in found.guarantee.spends)
        assert "rows by count" in made and "power" not in made and "squared" not in made

    def test_a_level_without_rows_does_not_keep_it_from_being_tested(self):
        frame = counts(20_000, 3)
        names = frame["f"].astype(str)
        frame["f"] = pd.Categorical(names, categories=[*sorted(set(names)), "none"])
        fit = dpstats.poisson(FORMULA, frame, eps=3, seed=1)
        assert fit.bse.index[fit.bse.isna()].tolist() == ["f[T.none]"]
        assert fit.diagnose(frame, eps=1, seed=2).test_table["pvalue"].notna().all()

    @pytest.mark.parametrize("mean", [1e-5, 0.003, 0.03, 0.5, 1.0, 7.0, 300.0])
    def test_limited_parts_of_poisson_counts_have_the_mean_zero(self, mean):
        """Without their means taken off, the tests rejected true models of rare counts, of many rows."""
        y = np.arange(600.0)
        p = stats.poisson.pmf(y, mean)
        excess = responses._excess(np.empty(0), np.column_stack([np.full(600, math.log(mean)), y]))[:, 0]
        assert p @ excess == pytest.approx(0, abs=1e-12)
        assert np.abs(excess).max() <= responses._EXCESS + responses._SLACK
        for root in (0.5, 1.0):
            sd = math.sqrt(mean) / root
            R = np.column_stack([(y - mean) / sd, np.full(600, mean), np.full(600, sd)])
            for left in (0.01, 1.7, 4.0, 7.0):
                psi = responses._limited(np.full((600, 2), left / math.sqrt(2)), R, 8.0)
                assert p @ psi == pytest.approx(0, abs=1e-12)
                assert left * np.abs(psi).max() <= 8.0 + 1e-9


def test_the_error_of_the_coefficients_drops_out():
    """Residuals of coefficients that are off by many standard errors along a skewed column."""
    frame = table(20_000, 2)
    frame["y"] = 1 + 0.5 * frame["x2"] + np.random.default_rng(0).standard_normal(len(frame))
    fit = dpstats.ols("y ~ x2", frame, eps=1e5, seed=1)
    off = replace(fit, estimates=fit.estimates + [0.0, 0.1])
    assert off.diagnose(frame, eps=1e5, seed=1).tests[0].pvalue > 1e-4


def test_the_error_of_the_coefficients_drops_out_of_squares_of_skewed_residuals():
    """Of rows at the quantiles of their law, and a slope off by fourteen standard errors: a chi2 of 22 where
    squares alone are looked at, as their limit makes them go with the mean."""
    e = stats.expon.ppf((np.arange(200) + 0.5) / 200)
    x, e = (values.ravel() for values in np.meshgrid(stats.norm.ppf((np.arange(100) + 0.5) / 100), e))
    frame = pd.DataFrame({"x": x, "y": 3 + 2 * x + e})
    fit = dpstats.ols("y ~ x", frame, eps=1e5, seed=1)
    off = replace(fit, estimates=fit.estimates + [0.0, 0.1])
    assert off.diagnose(frame, eps=1e5, seed=2).tests[1].statistic < 2
    assert fit.diagnose(frame, eps=1e5, seed=2).tests[1].statistic < 1


def test_skewed_errors_of_unequal_variance_are_no_curve():
    """Limited at three standard deviations of all residuals, their means bend: a chi2 of 14 for rows at the
    quantiles of their law, which have no sampling error.
    """
    e = stats.expon.ppf((np.arange(400) + 0.5) / 400)
    x, e = (values.ravel() for values in np.meshgrid(np.linspace(0, 10, 200), e / e.mean()))
    frame = pd.DataFrame({"x": x, "y": (3 + 2 * x) * e})
    found = dpstats.ols("y ~ x", frame, eps=1e5, seed=1).diagnose(frame, eps=1e5, seed=2)
    assert found.tests[0].statistic < 1
    bins = found.frames()["fitted"]
    assert np.all(np.abs(bins["mean"]) < 0.1 * bins["std.error"])


class TestParts:
    def test_a_line_of_spreads(self):
        z = special.ndtri(np.arange(1, 10) / 10)
        sds = 1 + 0.2 * np.concatenate([[-1.61], (z[1:] + z[:-1]) / 2, [1.61]])
        squares = np.interp(sds, residuals._SDS, residuals._LIMITED_SQUARES)
        full = Bins("prediction", 5 + 2 * z, np.full(10, 100.0), 0 * sds, 1.0, 100 * squares, 1.0, 1.0, 3.0)
        # a bin of hardly any row says nothing
        bins = replace(full, counts=full.counts * ([1] * 9 + [1e-3]), squares=full.squares * ([1] * 9 + [0]))
        for seen in (full, bins):
            spread = residuals.Spread.of(seen, 5.0, 2.0)
            assert spread.slope == pytest.approx(0.2, abs=0.01)
            assert spread(np.array([-1e9, 5.0, 7.0, 1e9])) == pytest.approx([0.25, 1, 1.2, 1.3], abs=0.02)

    def test_the_limit_grows_with_the_rows(self):
        assert [residuals._limit(rows, 0.05) for rows in (0, 400, 6_400, 1e8)] == [3, 3, 6, 20]

    @pytest.mark.slow
    def test_a_score_test_has_its_level_where_noise_is_most_of_the_variance(self):
        runs, mus = 1_000, {"a": 0.02, "a outer": 0.02}
        rng, hits = np.random.default_rng(3), 0
        for seed in range(runs):
            Y = rng.uniform(-1, 1, (2_000, 2))
            found = score_tests.score_test("", [(Y, Y)], lambda V, Y: Y, 1.5, "a", mus, Randomness(seed))
            hits += found.pvalue < 0.05
        assert stats.binom.isf(1 - 1e-6, runs, 0.04) <= hits <= stats.binom.isf(1e-6, runs, 0.06)

    @pytest.mark.slow
    def test_normality_has_the_level_of_its_test(self):
        rng, sd, runs = np.random.default_rng(8), 15.0, 2_000
        ends = np.concatenate([[0.0], special.ndtr((RESIDUAL_EDGES - 0.1) / 1.07), [1.0]])
        found = [
            normality(
                rng.multinomial(5_000, np.diff(ends)) + sd * rng.standard_normal(len(ends) - 1), sd
            ).pvalue
            for _ in range(runs)
        ]
        hits = int(np.sum(np.array(found) < 0.05))
        assert stats.binom.isf(1 - 1e-6, runs, 0.04) <= hits <= stats.binom.isf(1e-6, runs, 0.06)

    def test_hermite_integrals(self):
        z = np.array([-np.inf, -1.0, 0.3, 2.0, np.inf])
        grid = np.linspace(-1.0, 0.3, 20_001)
        density = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
        polynomials = [np.ones_like(grid), grid, grid**2 - 1, grid**3 - 3 * grid, grid**4 - 6 * grid**2 + 3]
        for k, p in enumerate(polynomials):
            expected = np.trapezoid(p * density, grid) / math.sqrt(math.factorial(k))
            assert score_tests._hermite(z)[k][1] == pytest.approx(expected, abs=1e-7)

    def test_a_sum_is_exact_before_its_noise_and_terms_are_shortened(self, monkeypatch):
        lengths = []
        monkeypatch.setattr(sums, "gaussian", lambda total, s, mu, rng: lengths.append(s) or total)
        Y = np.array([[3.0, 4.0], [30.0, 40.0], [np.nan, 0.0], [np.inf, 0.0]])
        rows = [(np.zeros((4, 1)), Y)]
        total = sums.noisy_sum(rows, lambda V, Y: Y, 2, 5.0, 1.0, Randomness(0))
        assert total == pytest.approx([3 + 3 + 5, 8], abs=1e-9)
        assert lengths == [(1 + sums.SUMMATION) * 5.0]

    def test_counts_of_cells_and_of_none(self, monkeypatch):
        monkeypatch.setattr(sums, "gaussian", lambda total, length, mu, rng: (total, length))
        cells = np.array([[0, 1], [-1, 5], [0, 0]])
        found, length = sums.noisy_counts([(cells, cells)], lambda V, Y: Y, (2, 3), 1.0, Randomness(0))
        assert found.tolist() == [[2, 0, 0], [1, 1, 1]] and length == pytest.approx(math.sqrt(2))


class TestRefused:
    def test_what_has_no_residuals(self):
        frame = table(2_000)
        location = dpstats.median("y ~ 1", frame, eps=1, seed=1)
        with pytest.raises(dpstats.NotReleased, match="no residuals"):
            location.diagnose(frame, eps=1)
        with pytest.raises(dpstats.ParameterError, match="fit must be the result of a regression"):
            dpstats.diagnose(frame, frame, eps=1)

    def test_groups_one_by_one(self):
        frame = table(6_000)
        groups = dpstats.ols("y ~ x1", frame, eps=3, by="f", seed=1)
        with pytest.raises(dpstats.ParameterError, match="one group"):
            dpstats.diagnose(groups, frame, eps=1)
        assert groups["a"].diagnose(frame[frame["f"] == "a"], eps=3, seed=1).tests

    def test_without_a_constant(self):
        frame = table(4_000)
        fit = dpstats.ols("y ~ 0 + x1 + x2", frame, eps=3, seed=1)
        with pytest.raises(dpstats.ParameterError, match="constant"):
            fit.diagnose(frame, eps=1)

    def test_another_table(self):
        frame = table(4_000)
        fit = dpstats.ols("y ~ x1", frame, eps=3, seed=1)
        with pytest.raises(dpstats.SchemaError, match="no column 'y'"):
            fit.diagnose(frame.drop(columns="y"), eps=1)

    def test_too_few_rows(self):
        frame = table(4_000)
        fit = dpstats.ols("y ~ x1 + x2", frame, eps=3, seed=1)
        with pytest.raises(dpstats.ReleaseFailed, match="diagnose"):
            fit.diagnose(frame[:20], eps=0.5, seed=1)


@pytest.mark.slow
def test_plots():
    pytest.importorskip("matplotlib").use("Agg")
    frame = table(4_000)
    assert len(dpstats.ols(FORMULA, frame, eps=2, seed=1).diagnose(frame, eps=2, seed=1).plot().axes) == 5
    fit = dpstats.ols("y ~ f", frame, eps=2, seed=1)
    assert len(fit.diagnose(frame, eps=2, seed=1).plot().axes) == 4
    frame = shares(4_000)
    assert len(dpstats.logit("y ~ x1", frame, eps=2, seed=1).diagnose(frame, eps=2, seed=1).plot().axes) == 2
    frame = counts(4_000)
    assert (
        len(dpstats.poisson("y ~ x1", frame, eps=2, seed=1).diagnose(frame, eps=2, seed=1).plot().axes) == 1
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ols", "poisson"])
def test_a_prediction_is_that_of_its_own_row(monkeypatch, kind):
    """With eight columns a matrix product rounds the last rows of a table in another way than the others: one
    record more moved the predictions, and the cells, of as many as five."""
    g = np.random.default_rng(2)
    n, names = 4_003, [f"x{j}" for j in range(14)]
    data = pd.DataFrame(g.standard_normal((n, 14)) / 3, columns=names)
    data["y"] = g.poisson(1.0, n) * 1.0
    model = "y ~ " + " + ".join(names)
    released = getattr(dpstats, kind)(model, data, eps=10, seed=1)
    module = residuals if kind == "ols" else responses
    mapped = {"ols": "_Residuals", "poisson": "_Predicted"}[kind]
    seen, whole = [], getattr(module, mapped).map

    def watched(self, X, Y):
        V, shown = whole(self, X, Y)
        seen.append((V[0], shown[0], np.unique(V, axis=0), np.unique(shown, axis=0)))
        return V, shown

    monkeypatch.setattr(getattr(module, mapped), "map", watched)
    for row in range(5):
        copies = pd.concat([data.iloc[[row]]] * n, ignore_index=True)
        dpstats.diagnose(released, copies, eps=1, delta=1e-6, seed=1)
    assert seen and all(len(V) == 1 and len(shown) == 1 for *_, V, shown in seen)


def test_other_columns_of_the_data_are_not_among_all_others_of_the_fit():
    """A diagnosis took ``.`` of a fit with an exposure for all that it found, and failed after the charge."""
    g = np.random.default_rng(0)
    data = pd.DataFrame({"x": g.standard_normal(5000), "pop": g.uniform(1, 3, 5000)})
    data["k"] = g.poisson(data["pop"] * np.exp(0.2 * data["x"])) * 1.0
    released = dpstats.poisson("k ~ .", data, exposure="pop", eps=8, seed=1)
    plain, more = (
        dpstats.diagnose(released, table, eps=1, delta=1e-6, seed=1)
        for table in (data, data.assign(other=1.0))
    )
    assert plain.to_dict() == more.to_dict()


@pytest.mark.filterwarnings("error")
@pytest.mark.slow
@pytest.mark.parametrize("family", ["ols", "logit", "poisson"])
def test_rows_far_out_make_no_warning(family):
    """In any piece of a block: the last ones are another thread's."""
    n = 2 * 32_768
    x = np.random.default_rng(0).standard_normal(n)
    y = {"ols": x, "logit": (x > 0) * 1.0, "poisson": np.round(np.exp(x / 2))}[family]
    fit = getattr(dpstats, family)("y ~ x", {"x": x, "y": y}, eps=4, seed=1)
    for value in (1e200, -1e308):
        for name in ("x", "y"):
            data = {"x": np.append(x, 0.1), "y": np.append(y, 1.0)}
            data[name][-1] = value
            fit.diagnose(data, eps=1, seed=2)


@pytest.mark.parametrize("family", ["ols", "poisson"])
def test_what_rows_show_has_an_end(family):
    """So that squares of it are numbers."""
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 3_000), "y": np.floor(np.linspace(0, 3, 3_000))})
    mapped = residuals._Residuals if family == "ols" else responses._Predicted
    ends, real = [], mapped.map

    def watched(self, X, Y):
        V, shown = real(self, X, Y)
        ends.append(max(np.abs(V).max(), np.abs(shown).max()))
        return V, shown

    frame.loc[7, "x"], frame.loc[9, "y"] = -1e300, 1e300
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped, "map", watched)
        fit = getattr(dpstats, family)("y ~ x", frame, eps=4, seed=1)
        fit.diagnose(frame, eps=4, seed=2)
    assert 1e80 < max(ends) < 1e100


def test_the_variance_of_a_sum_has_the_noise_of_its_outer_products(monkeypatch):
    """One standard deviation: a variance that noise makes too small would reject too often."""
    released = iter([np.array([3.0, 4.0]), np.array([2.0, -9.0, 0.0])])
    monkeypatch.setattr(score_tests, "noisy_sum", lambda *a: next(released))
    found = score_tests.score_test("", None, None, 2.0, "x", {"x": 1.0, "x outer": 0.5}, None)
    noise, of_outer = 2.0**2, 2.0**2 / 0.5
    assert found.statistic == pytest.approx(3**2 / (2 + of_outer + noise) + 4**2 / noise, rel=1e-12)
