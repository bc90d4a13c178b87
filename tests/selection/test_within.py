"""``select=k``: the budget of choice and fit, the reduced design, and a fit that stops early."""

import contextlib
import importlib
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import norm

import dpstats
from dpstats import Guarantee, Ledger, ParameterError, ReleaseFailed
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.engines.local import gather
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Design
from dpstats.privacy.conversions import gdp_delta, gdp_eps, gdp_mu, pure_mu
from dpstats.privacy.guarantee import Spend
from dpstats.results.results import Results
from dpstats.selection.within import SHARE, selecting

sys.path.insert(0, str(Path(__file__).parents[1]))
from estimators import takes  # noqa: E402


def frame(n=2000):
    generator = np.random.default_rng(0)
    x = generator.standard_normal((n, 4))
    g = pd.Categorical.from_codes(generator.integers(0, 3, n), ["p", "q", "r"])
    data = pd.DataFrame(x, columns=list("abcd")).assign(g=g, y=5 * x[:, 0] + 3 * x[:, 2])
    data.loc[: n // 2, "d"] = np.nan
    return data


@dataclass(frozen=True)
class Budget:
    guarantee: Guarantee


class Watched:
    """A stand-in that records what it is handed; its steps cost 0.2 and the rest of eps."""

    def __init__(self, delta=1e-6, stop=None, steps_follow_the_design=False, kind="approximate"):
        self.delta, self.stop, self.follow, self.kind = delta, stop, steps_follow_the_design, kind
        self.budgets, self.rows = [], []

    def budget(self, design, call, rows):
        count = 0.02 * len(design.column_names) if self.follow else 0.2
        spends = Spend("number of rows", "noise", count), Spend("fit", "noise", call.eps - count, call.delta)
        self.budgets.append((design.column_names, call.eps, call.delta))
        return Budget(Guarantee(call.eps, call.delta, "add-remove", self.kind, spends, seeded=call.seeded))

    def release(self, blocks, budget, rng):
        X, Y = gather(blocks)
        self.rows.append(X.shape)
        if self.stop == "early":
            raise ReleaseFailed("too few rows", budget.guarantee.replace(spends=budget.guarantee.spends[:1]))
        if self.stop == "late":
            raise ReleaseFailed("failed the test")
        return np.linalg.lstsq(X, Y[:, 0], rcond=None)[0]

    def results(self, design, budget, estimates):
        return Results(
            method="Stand-in", formula=design.formula, names=design.column_names, estimates=estimates,
cov=None,
            covers="No.", guarantee=budget.guarantee, notes=("Its own note.",), design=design,
        )  # fmt: skip

    def __call__(self, formula="y ~ a + b + c + d + g", select=2, eps=40.0, ledger=None, by=None):
        own = Estimator("stand_in", self.budget, self.release, self.results, Needs(delta="delta"))
        call = Call(formula, frame(), eps, self.delta, by=by, levels=None, ledger=ledger, seed=3)
        return run(selecting(own, select), call)


class TestFit:
    def test_fits_the_chosen_terms(self):
        estimator = Watched()
        fit = estimator()
        assert fit.formula == "y ~ a + c" and fit.params.round(6).to_dict() == {
            "Intercept": 0,
            "a": 5,
            "c": 3,
        }
        assert fit.predict({"a": [1.0], "c": [1.0]}) == pytest.approx([8])
        assert (
            "chose a, c (in this order) among the 5 terms" in fit.notes[0] and fit.notes[1] == "Its own note."
        )
        assert "choice of 2 terms" in str(fit)

    def test_rows_need_only_the_chosen_columns(self):
        estimator = Watched()
        estimator()
        assert estimator.rows == [(2000, 3)]

    def test_a_categorical_term_keeps_its_columns(self):
        fit = Watched()("y ~ g + b", select=1, eps=1e6)
        assert fit.params.index.tolist() in (["Intercept", "g[T.q]", "g[T.r]"], ["Intercept", "b"])

    def test_five_terms_are_chosen_at_once(self):
        fit = Watched()("y ~ a + b + c + d + I(a + c) + I(a - c) + g", select=5)
        assert len(fit.params) == 6 and fit.guarantee.spends[0].delta == 0
        assert (
            fit.notes[0].startswith("Signs of pairs chose") and "(at once) among the 7 terms" in fit.notes[0]
        )

    def test_none_is_the_estimator_alone(self):
        estimator = Watched()
        fit = estimator(select=None)
        assert fit.formula == "y ~ a + b + c + d + g" and estimator.budgets[0][1:] == (40.0, 1e-6)
        assert fit.guarantee.spends[0].step == "number of rows"


class TestBudget:
    def test_five_percent_choose(self):
        estimator = Watched()
        g = estimator().guarantee
        assert (g.eps, g.delta) == (40.0, 1e-6)
        assert g.spends[0].eps == pytest.approx(SHARE * 40)
        assert sum(s.eps for s in g.spends) == pytest.approx(40) and sum(s.delta for s in g.spends) <= 1e-6
        assert [p[1] for p in estimator.budgets] == [pytest.approx(38)] * 2
        assert [len(p[0]) for p in estimator.budgets] == [7, 3]

    def test_one_term_leaves_delta_to_the_fit(self):
        estimator = Watched()
        assert estimator(select=1).guarantee.spends[0].delta == 0
        assert estimator.budgets[0][2] == 1e-6

    def test_a_pure_estimator_stays_pure(self):
        g = Watched(delta=0.0, kind="pure")().guarantee
        assert (g.delta, g.kind) == (0.0, "pure")
        assert Watched(kind="pure")().guarantee.kind == "approximate"

    def test_the_whole_is_charged_before_rows_are_read(self):
        ledger = Ledger(":memory:", eps=50, delta=1e-5)
        Watched()(ledger=ledger)
        assert ledger.remaining()[0] == pytest.approx(10)


def gaussian(eps, delta):
    """What an estimator of two Gaussian steps promises."""
    mu = gdp_mu(eps, delta)
    spends = tuple(
        Spend(f"step {share}", "Gaussian noise", gdp_eps(mu * share, delta), delta, mu=mu * share)
        for share in (0.6, 0.8)
    )
    return Guarantee(eps, delta, "add-remove", "approximate", spends)


class TestGaussianComposition:
    """An estimator of Gaussian steps: it has 95 %, and the choice what composition in mu leaves."""

    def divided(self, eps=1.0, delta=1e-6, select=2):
        asked = []

        def budget(design, call, rows):
            asked.append((call.eps, call.delta))
            return Budget(gaussian(call.eps, call.delta))

        both = selecting(Estimator("stand_in", budget, None, None), select)
        formula = "y ~ a + b + c + d + I(a + c) + I(a - c) + g"
        design = Design.from_formula(formula, Schema.of(open_source(frame())))
        return both.budget(design, Call(formula, None, eps, delta), None), asked[-1]

    @pytest.mark.parametrize("select", [1, 2, 5])
    @pytest.mark.parametrize(("eps", "delta"), [(0.1, 1e-8), (1.0, 1e-6), (10.0, 1e-5)])
    @pytest.mark.slow
    def test_nothing_is_left_and_nothing_is_overspent(self, select, eps, delta):
        budget, rest = self.divided(eps, delta, select)
        assert rest == ((1 - SHARE) * eps, (1 - SHARE) * delta)
        guarantee = budget.guarantee
        spent = sum(s.mu**2 for s in guarantee.spends)
        assert (1 - 1e-9) * gdp_mu(eps, delta) ** 2 < spent <= gdp_mu(eps, delta) ** 2
        assert (guarantee.eps, guarantee.delta) == (eps, delta)
        choice = budget.choice
        assert choice.rounds * pure_mu(choice.step / 2) ** 2 == pytest.approx(choice.spends[0].mu ** 2)
        assert choice.rounds * pure_mu(choice.step / 2) ** 2 <= choice.spends[0].mu ** 2

    @pytest.mark.parametrize("select", [1, 2, 3])
    def test_the_choice_names_what_all_its_rounds_cost(self, select):
        """A release that stops behind it has spent that."""
        choice = self.divided(select=select)[0].choice
        assert choice.rounds == select and choice.spends[0].delta == 0
        assert Fraction(choice.spends[0].eps) >= choice.rounds * Fraction(choice.step)

    def test_a_round_has_more_than_by_basic_composition(self):
        one, five = (self.divided(select=k)[0].choice for k in (5, 2))
        assert one.rounds == 1 and one.step > 2 * SHARE and five.step > 3 * SHARE / 2

    @pytest.mark.filterwarnings("error")
    def test_a_budget_without_noise(self):
        budget, _ = self.divided(eps=1e5)
        assert budget.choice.step == pytest.approx(SHARE * 1e5 / 2)

    def test_other_steps_add_up(self):
        guarantee = Watched()().guarantee
        assert guarantee.spends[0].mu is None and guarantee.spends[0].eps == pytest.approx(SHARE * 40)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["ols", "adassp", "boosted_adassp", "huber"])
    def test_estimators_have_the_same_mu_for_every_design(self, name):
        """What the composition assumes of a budget: with and without bounds, levels and an intercept."""
        module = importlib.import_module(f"dpstats.regression.{name}")
        seen = []

        def watched(estimator, k, neighbours="add-remove"):
            def budget(design, call, rows):
                found = estimator.budget(design, call, rows)
                seen.append(((call.eps, call.delta), found.guarantee))
                return found

            return selecting(replace(estimator, budget=budget), k, neighbours)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "selecting", watched)
            for formula in ("y ~ a + b + g", "y ~ 0 + a + c", "y ~ g + a"):
                for bounds in (None, {"a": (-3, 3)}, {"a": (-3, 3), "c": (-3, 3), "y": (-30, 30)}):
                    with contextlib.suppress(ReleaseFailed):
                        getattr(dpstats, name)(formula, frame(), eps=2, select=1, bounds=bounds, seed=1)
        assert len(seen) >= 18
        for (eps, delta), guarantee in seen:
            total = sum(s.mu**2 for s in guarantee.spends)
            assert total == pytest.approx(gdp_mu(eps, delta) ** 2, rel=1e-9)


def kinks(eps):
    """The mu that each extreme pair of an eps-bounded-range round needs: log odds of one outcome differ by
    eps."""
    low = np.linspace(-eps - 12, 12, 4001)
    return norm.ppf(expit(low + eps)) - norm.ppf(expit(low))


class TestBoundedRangeAsGaussian:
    @pytest.mark.parametrize("eps", [0.01, 0.1, 1.0, 3.0, 8.0])
    def test_holds_for_every_extreme_pair(self, eps):
        assert kinks(eps).max() <= pure_mu(eps / 2) * (1 + 1e-12)

    @pytest.mark.parametrize("eps", [0.01, 0.1, 1.0, 3.0, 8.0])
    def test_of_the_test_less_is_caught(self, eps):
        assert kinks(eps).max() > 0.999 * pure_mu(eps / 2)

    def test_extreme_pairs_are_those_of_the_proof(self):
        """Two outcomes with likelihood ratios e^-t and e^(eps-t), probabilities adding to one under both
        laws."""
        eps = 0.7
        for t in np.linspace(0.01, 0.69, 30):
            p = np.expm1(eps - t) / (np.exp(eps - t) - np.exp(-t))
            q = p * np.exp(-t)
            assert q + (1 - p) * np.exp(eps - t) == pytest.approx(1)
            assert logit(p) - logit(q) == pytest.approx(eps)

    @pytest.mark.slow
    @pytest.mark.parametrize("share", [1.0, 0.9])
    def test_trade_off_of_the_exponential_mechanism(self, share):
        """Three outcomes, scores moving within the width: its hockey-stick divergences against the normal
        curve's."""
        e = 0.5
        generator = np.random.default_rng(1)
        worst = -np.inf
        for _ in range(400):
            scores, moves = generator.normal(0, 3, 3), generator.choice([0.0, 1.0], 3)
            p, q = (np.exp(e * s) / np.exp(e * s).sum() for s in (scores, scores + moves))
            for x in np.linspace(0, e, 9):
                divergence = np.maximum(p - np.exp(x) * q, 0).sum()
                worst = max(worst, divergence - gdp_delta(share * pure_mu(e / 2), x))
        assert (worst <= 1e-12) == (share == 1.0)


class TestStops:
    def spent(self, **kwargs):
        ledger = Ledger(":memory:", eps=50, delta=1e-5)
        with pytest.raises(ReleaseFailed) as failure:
            Watched(**kwargs)(ledger=ledger)
        assert failure.value.guarantee.eps == pytest.approx(50 - ledger.remaining()[0])
        return failure.value.guarantee

    def test_early_keeps_the_choice_and_what_ran(self):
        guarantee = self.spent(stop="early")
        assert guarantee.eps == pytest.approx(SHARE * 40 + 0.2)
        assert [s.step for s in guarantee.spends] == ["choice of 2 terms", "number of rows"]

    def test_early_with_other_steps_than_planned_keeps_the_whole_charge(self):
        assert self.spent(stop="early", steps_follow_the_design=True).eps == 40

    def test_late_keeps_the_whole_charge(self):
        assert self.spent(stop="late").eps == 40


class TestRefusals:
    @pytest.mark.parametrize(
        ("call", "text"),
        [
            ({"select": 0}, "select must be None or a positive integer"),
            ({"select": True}, "select must be None or a positive integer"),
            (
                {"select": 5},
                "select must be smaller than the number of terms besides the constant, which is 5",
            ),
            ({"by": "g"}, "by must be None with select="),
        ],
    )
    def test_says_what_is_allowed(self, call, text):
        with pytest.raises(ParameterError, match=text):
            Watched()(**call)


@pytest.mark.parametrize("name", takes("select"))
class TestEstimators:
    @pytest.mark.slow
    def test_chooses_and_fits(self, name):
        ledger = Ledger(":memory:", eps=3, delta=1e-5)
        diamonds = dpstats.datasets.load_diamonds()
        response = "I(price > 4000)" if name == "logit" else "price"
        fit = getattr(dpstats, name)(
            f"{response} ~ carat + clarity + table", diamonds, eps=2, select=2, ledger=ledger, seed=4
        )
        chosen = ("clarity + carat", "carat + table", "clarity + table")
        assert fit.formula in [f"{response} ~ {terms}" for terms in chosen]
        assert list(fit.terms) == [
            "Intercept",
            *(t for t in ("clarity", "carat", "table") if t in fit.formula.split("~")[1]),
        ]
        assert fit.guarantee.spends[0].step == "choice of 2 terms" and fit.guarantee.eps == 2
        assert ledger.remaining()[0] == pytest.approx(1)
        assert np.isfinite(fit.predict(diamonds.head())).all()

    def test_refuses_before_anything_is_spent(self, name):
        ledger = Ledger(":memory:", eps=3, delta=1e-5)
        with pytest.raises(ParameterError, match="select must be smaller than the number of terms"):
            getattr(dpstats, name)("y ~ a + b", frame(), eps=1, select=2, ledger=ledger)
        assert ledger.remaining()[0] == 3


def test_a_term_without_columns_is_not_among_those_that_can_be_chosen():
    g = np.random.default_rng(0)
    data = pd.DataFrame({"x": g.standard_normal(5000), "z": g.standard_normal(5000)})
    data = data.assign(q=pd.Categorical(["u"] * 5000), y=data["x"] + g.standard_normal(5000))
    assert dpstats.ols("y ~ q + x + z", data, eps=10, seed=1, select=1).formula == "y ~ x"
    assert dpstats.select_features("y ~ q + x + z", data, k=1, eps=10, seed=1).terms == ("x",)
