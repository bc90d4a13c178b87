"""Plans against closed forms, on tables whose standard errors are known; searches; what is refused."""

import math
import multiprocessing

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import dpstats
from dpstats import FormulaError, ParameterError, SchemaError, plan
from dpstats._estimators import ESTIMATORS
from dpstats.explore.regressions import REGRESSIONS
from dpstats.explore.response import classical, design_of
from dpstats.explore.search import powers
from dpstats.explore.simulate import median

X = {"x": ("normal", 0, 2)}
LINE = {"effects": {"Intercept": 1, "x": 0.05}, "sigma": 3.0}
FEW = {"runs": 5, "processes": 1}


def row(made, term, **where):
    table = made.table
    for key, value in where.items():
        table = table[table[key] == value]
    return table.set_index("term").loc[term]


@pytest.fixture(scope="module")
def at_a_large_budget():
    return plan("y ~ x", X, n=5_000, eps=20, runs=25, **LINE)


class TestClosedForms:
    @pytest.mark.slow
    def test_standard_errors_at_a_large_budget(self, at_a_large_budget):
        """sigma / sqrt(n) for the constant, and over the column's sd for the slope."""
        made = at_a_large_budget
        for term, size in (("Intercept", 1), ("x", 2)):
            found = row(made, term)
            assert found.se == pytest.approx(3 / math.sqrt(5_000) / size, rel=0.04)
            assert found.width == pytest.approx(2 * norm.isf(0.025) * found.se, rel=1e-6)
            assert found.ratio == pytest.approx(1, abs=0.04)
            assert found.determined == 1 and found.refused == 0 and found.runs == 25

    @pytest.mark.slow
    def test_power_is_that_of_the_normal_formula(self, at_a_large_budget):
        made = at_a_large_budget
        found, z = row(made, "x"), norm.isf(0.025)
        for shift, error in ((0.05 / found.se, 0.02), (0.05 * 2 * math.sqrt(5_000) / 3, 0.04)):
            power = norm.cdf(shift - z) + norm.cdf(-shift - z)
            assert found.power == pytest.approx(power, abs=error)
        assert powers(np.array([math.nan, 1e-9]), 0.05, 0.05).tolist() == [0, 1]
        assert powers(np.array([1.0]), 0.0, 0.05) == pytest.approx(0.05)

    @pytest.mark.slow
    def test_r2_is_the_share_that_the_line_explains(self):
        made = plan("y ~ x", X, n=5_000, eps=20, runs=25, effects={"x": 1.5}, r2=0.6)
        sigma = 3 * math.sqrt(0.4 / 0.6)
        assert row(made, "x").se == pytest.approx(sigma / 2 / math.sqrt(5_000), rel=0.04)

    @pytest.mark.slow
    def test_logit_and_poisson(self):
        n = 8_000
        logit = plan("y ~ x", {"x": {-1: 0.5, 1: 0.5}}, n=n, eps=20, estimator="logit",
                     effects={"x": 1.0}, runs=10)  # fmt: skip
        information = math.exp(1) / (1 + math.exp(1)) ** 2
        assert row(logit, "x").se == pytest.approx(1 / math.sqrt(n * information), rel=0.03)
        poisson = plan("y ~ x", {"x": {-1: 0.5, 1: 0.5}}, n=n, eps=20, estimator="poisson",
                       effects={"Intercept": 1.0, "x": 0.3}, runs=10)  # fmt: skip
        sums = n / 2 * np.exp([0.7, 1.3])
        assert row(poisson, "x").se == pytest.approx(math.sqrt(np.sum(1 / sums)) / 2, rel=0.1)
        assert {round(r) for r in [*logit.table["ratio"], *poisson.table["ratio"]]} == {1}

    @pytest.mark.slow
    def test_errors_that_spread_and_have_heavy_tails(self):
        """The variance of the slope is E[x^2 s^2] / (n E[x^2]^2)."""
        law = {"errors": "t5", "spread": {"x": 0.3}}
        made = plan("y ~ x", {"x": "normal"}, n=20_000, eps=20, runs=15, effects={"x": 1}, sigma=1, **law)
        expected = math.sqrt((1 + 0.6**2) / 20_000)
        found = row(made, "x")
        assert found.se / found.ratio == pytest.approx(expected, rel=0.03)
        # nothing but sampling is left at this eps; 1e-6 by the simulation's own error
        assert 1 - 4.9 * found.error / found.se < found.ratio < 1.15

    def test_a_public_table_is_drawn_anew(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=2_000)
        frame = pd.DataFrame({"x": x, "g": np.where(rng.random(2_000) < 0.4, "b", "a"), "y": 2 * x})
        frame["y"] += rng.normal(size=2_000)
        made = plan("y ~ x + g", frame, n=6_000, eps=20, runs=10, effects={"x": 0.02})
        assert row(made, "x").se == pytest.approx(1 / math.sqrt(6_000), rel=0.07)
        assert "g[T.b]" in set(made.table["term"]) and 0.2 < row(made, "x").power < 0.5

    @pytest.mark.slow
    def test_a_real_fit_has_the_standard_errors_that_were_planned(self):
        made = plan("y ~ x", X, n=5_000, eps=0.5, runs=60, **LINE)
        rng = np.random.default_rng(99)
        seen = []
        for seed in range(60):
            x = rng.normal(0, 2, 5_000)
            table = {"x": x, "y": 1 + 0.05 * x + rng.normal(0, 3, 5_000)}
            seen.append(dpstats.ols("y ~ x", table, eps=0.5, seed=seed).bse["x"])
        assert row(made, "x").se == pytest.approx(np.median(seen), rel=0.15)
        assert row(made, "x").ratio > 1.05


#: Without intervals there is nothing to plan.
WITHOUT = {"gradient_descent", "medsweep", "noisy_stats", "theil_sen"}


def test_every_regression_with_intervals_can_be_planned():
    listed = {name for name, e in ESTIMATORS.items() if e.module.startswith("dpstats.regression.")}
    assert set(REGRESSIONS) == listed - WITHOUT
    for name in ("adassp", "huber", "deepest_regression"):
        made = plan("y ~ x", X, n=1_000, eps=20, estimator=name, runs=1, processes=1, **LINE)
        assert row(made, "x").width > 0 and row(made, "x").determined == 1


def test_refusals_and_what_is_not_determined_are_counted():
    made = plan("y ~ x", X, n=(60, 3_000), eps=(0.05, 4), runs=6, **LINE)
    assert (made.table["refused"] <= 1 - made.table["determined"]).all()
    assert row(made, "x", n=60, eps=0.05).determined < 0.5
    assert row(made, "x", n=3_000, eps=4).determined == 1
    assert "refused" in str(made) and "n.d." not in repr(made)


@pytest.mark.slow
def test_the_number_of_processes_does_not_matter():
    call = {"formula": "y ~ x", "like": X, "n": (400, 700), "eps": (1, 2), "runs": 7, **LINE}
    one, other = plan(**call, processes=1), plan(**call, processes=2)
    pd.testing.assert_frame_equal(one.table, other.table, check_exact=True)
    again = plan(**call, processes=1, seed=1)
    assert not again.table["se"].equals(one.table["se"])
    # a grid has what its points have
    alone = plan(**{**call, "n": 700, "eps": 2}, processes=1)
    assert row(alone, "x").se == row(one, "x", n=700, eps=2).se


@pytest.mark.slow
def test_processes_that_are_spawned(monkeypatch):
    """What processes are handed pickles, and needs nothing of the parent."""
    kinds, get = [], multiprocessing.get_context
    monkeypatch.setattr(multiprocessing, "get_context", lambda kind: kinds.append(kind) or get("spawn"))
    # without R's: where R runs in the process of the tests, its libraries are found before those of Python
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    call = {"n": 500, "eps": 2, "effects": {"x": 1}, "sigma": 1, "runs": 4}
    made, alone = (plan("y ~ x", {"x": "normal"}, **call, processes=k) for k in (2, 1))
    assert len(kinds) == 1 and made.table["se"].tolist() == alone.table["se"].tolist()


class TestSearch:
    @pytest.mark.parametrize(
        "target",
        [
            {"x": {"power": 0.8}},
            pytest.param({"x": {"width": 0.2, "se": 0.1}}, marks=pytest.mark.slow),
        ],
    )
    @pytest.mark.slow
    def test_the_least_number_of_rows_meets_the_target(self, target):
        call = {"formula": "y ~ x", "like": X, "eps": 6, **LINE, "processes": 1}
        call["effects"] = {"x": 0.1}
        made = plan(**call, target=target, runs=15)
        needed = made.needed
        assert needed.reached and needed.found == "n" and needed.low <= needed.n <= needed.high
        sigma, z = 3 / 2, norm.isf(0.025)
        if "power" in target["x"]:
            alone = (sigma * (z + norm.isf(0.2)) / 0.1) ** 2
            assert row(made, "x").power >= 0.8
        else:
            alone = (sigma * 2 * z / 0.2) ** 2
            assert row(made, "x").width <= 0.2
        # noise asks for some rows more than sampling does
        assert alone < needed.n < 1.3 * alone
        less = plan(**call, n=int(0.85 * needed.n), runs=15)
        assert row(less, "x").power < 0.8 or row(less, "x").width > 0.2
        assert f"{needed.n:,} rows" in str(made)

    @pytest.mark.slow
    def test_the_least_eps(self):
        made = plan("y ~ x", X, n=3_000, target={"x": {"se": 0.035}}, runs=8, processes=1, **LINE)
        assert made.needed.found == "eps" and made.needed.n == 3_000
        assert row(made, "x").se <= 0.035 and row(made, "x").eps == made.needed.eps
        less = plan("y ~ x", X, n=3_000, eps=0.75 * made.needed.eps, runs=8, processes=1, **LINE)
        assert row(less, "x").se > 0.035

    @pytest.mark.slow
    def test_what_no_budget_reaches(self):
        made = plan("y ~ x", X, n=1_000, target={"x": {"se": 0.001}}, runs=3, processes=1, **LINE)
        assert not made.needed.reached and "Not reached" in str(made)
        few = plan("y ~ x", X, eps=1, target={"x": {"se": 1e-9}}, runs=3, processes=1, **LINE)
        for one, words in ((made, "with as much as eps ="), (few, "with as many as")):
            assert words in " ".join(str(one).split())


@pytest.mark.slow
def test_runs_go_on_until_the_medians_are_known():
    made = plan("y ~ x", X, n=500, eps=8, processes=1, **LINE)
    assert made.table["runs"].iloc[0] in range(100, 700, 100)
    assert made.table["runs"].iloc[0] == 600 or (made.table["error"] <= 0.03 * made.table["se"]).all()


def test_the_error_of_a_median():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(2_000, 101))
    found = np.array([median(v) for v in values])
    assert found[:, 1].mean() == pytest.approx(found[:, 0].std(), rel=0.1)
    assert np.isnan(median(np.array([math.nan]))).all()


def test_progress_is_told():
    told = []
    plan("y ~ x", X, n=(300, 400), eps=2, progress=lambda *counts: told.append(counts), **LINE, **FEW)
    assert told == [(k, 10) for k in range(1, 11)]


def test_standard_errors_without_privacy_are_those_of_statsmodels():
    import statsmodels.api as sm

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300)})
    frame["y"] = (rng.random(300) < 0.4).astype(float)
    design = design_of("y ~ x", frame, {})
    A = sm.add_constant(frame["x"])
    fits = {
        ("ols", True): sm.OLS(frame["y"], A).fit(cov_type="HC0"),
        ("ols", False): sm.OLS(frame["y"], A).fit(),
        ("logit", False): sm.Logit(frame["y"], A).fit(disp=0),
        ("logit", True): sm.Logit(frame["y"], A).fit(disp=0, cov_type="HC0"),
        ("poisson", False): sm.Poisson(frame["y"], A).fit(disp=0),
        ("poisson", True): sm.Poisson(frame["y"], A).fit(disp=0, cov_type="HC0"),
    }
    for (name, robust), fit in fits.items():
        assert classical(design, frame, name, robust) == pytest.approx(fit.bse.to_numpy(), rel=1e-5)


def test_a_plan_prints_and_keeps_its_table():
    made = plan("y ~ x", X, n=500, eps=4, **LINE, **FEW)
    table = made.table
    table["se"] = 0
    assert (made.table["se"] > 0).all()
    assert "which must be public" in repr(made)
    assert made._repr_html_().startswith('<div class="dpstats">')
    assert max(map(len, str(made).splitlines())) <= 78


@pytest.mark.slow
def test_plot():
    plt = pytest.importorskip("matplotlib.pyplot")
    made = plan("y ~ x", X, n=(300, 500), eps=(1, 2, 4), **LINE, **FEW)
    ax = made.plot()
    assert [line.get_label() for line in ax.lines] == ["x, n = 300", "x, n = 500"]
    assert ax.get_xlabel() == "eps" and list(ax.lines[0].get_xdata()) == [1, 2, 4]
    ax = made.plot(y="power", x="n", terms=["x", "Intercept"])
    assert len(ax.lines) == 6 and ax.get_ylim()[1] > 1
    for wrong in ({"y": "bias"}, {"x": "rows"}, {"terms": "z"}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            made.plot(**wrong)
    plt.close("all")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimator": "median"}, "estimator must be one of"),
        ({"eps": 0}, "eps must be a positive number or a sequence"),
        ({"eps": None}, "eps must be given"),
        ({"n": None}, "n must be given"),
        ({"n": [10, -1]}, "n must be a positive integer or a sequence"),
        ({"n": "many"}, "n must be"),
        ({"delta": 2}, "delta must be"),
        ({"options": {"ledger": None}}, "options must be a dictionary of parameters of ols"),
        ({"runs": 0}, "runs must be"),
        ({"seed": None}, "seed must be"),
        ({"processes": 0}, "processes must be"),
        ({"progress": 3}, "progress must be"),
        ({"alpha": 1}, "alpha must be"),
        ({"effects": None}, "effects must be given where like lacks the response 'y'"),
        ({"effects": {"xx": 1}}, r"effects must be about names among \['Intercept', 'x'\], got 'xx'"),
        ({"effects": {"x": "1"}}, r"effects\['x'\] must be a finite number, got '1'"),
        ({"effects": 1}, "effects must be a dictionary of numbers by names among"),
        ({"sigma": None}, "sigma must be given, or r2 in its place"),
        ({"r2": 0.5}, "sigma must be given, or r2 in its place"),
        ({"sigma": None, "r2": 1.0}, "r2 must be"),
        (
            {"sigma": None, "r2": 0.5, "effects": {"Intercept": 1}},
            "r2 must be None where the effects explain",
        ),
        ({"errors": "cauchy"}, "errors must be"),
        ({"errors": "t2"}, "errors must be with sd > 0, df > 2"),
        ({"spread": {"z": 1}}, "spread must be a dictionary of numbers by columns among"),
        ({"estimator": "logit"}, "sigma must be None for logit"),
        ({"target": {"x": {"width": 1}}}, "target must be given with one n or one eps"),
        ({"n": None, "target": {"z": {"width": 1}}}, "target must be a dictionary such as"),
        ({"n": None, "target": {"x": {"width": -1}}}, "target must be a dictionary such as"),
        ({"n": None, "target": {"x": {"power": 2}}}, "target must be a dictionary such as"),
        ({"n": None, "target": {"x": {"power": 0.8}}, "effects": {}}, "effects must say what effect it has"),
        ({"like": 3}, "like must be a public pandas DataFrame, or"),
        ({"like": [1, 2]}, "like must be a list of groups such as"),
        ({"like": pd.DataFrame({"x": []})}, "like must be a table with rows"),
        ({"like": pd.DataFrame({"x": [1.0]}), "correlation": {}}, "correlation must be None where"),
        ({"like": {"x": "normal", "y": "normal"}}, "sigma must be None where like has the response 'y'"),
        ({"formula": 3}, "formula must be"),
        ({"formula": "np.log(x) ~ x"}, r"sigma must be None where like has the response 'np.log\(x\)'"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(ParameterError, match=message):
        plan(**{"formula": "y ~ x", "like": X, "n": 100, "eps": 1, **LINE, **FEW, **changes})


def test_formulas_that_do_not_fit():
    with pytest.raises(SchemaError, match="'cost'.*formula must be one whose response is a name alone"):
        plan("np.log(cost) ~ x", X, n=100, eps=1, **LINE)
    costs = X | {"cost": ("lognormal", 1, 1)}
    for response in ("I(cost / 1e3)", "np.minimum(cost, 5e3)"):
        assert plan(f"{response} ~ x", costs, n=5_000, eps=2, **FEW).table.shape[0] == 2
    with pytest.raises(SchemaError, match="z"):
        plan("y ~ z", X, n=100, eps=1, **LINE)
    with pytest.raises(FormulaError):
        plan("y ~ x - 1", X, n=100, eps=1, estimator="deepest_regression", effects={"x": 1}, sigma=1)
