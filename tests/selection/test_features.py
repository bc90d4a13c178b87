"""select_features: what it returns, what it costs, and what it refuses."""

import doctest
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats import FormulaError, Ledger, ParameterError, SchemaError
from dpstats.selection.choice import Choice, candidates, reduced_formula


def frame(n=3000, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((n, 4))
    g = generator.integers(0, 4, n)
    y = 2 * x[:, 0] + np.array([0.0, 0.0, 3.0, 0.0])[g] + generator.standard_normal(n)
    data = pd.DataFrame(x, columns=["a", "b", "c d", "e"])
    return data.assign(g=pd.Categorical.from_codes(g, ["p", "q", "r", "s"]), y=y)


class TestSelection:
    @pytest.fixture
    def chosen(self):
        return dpstats.select_features("y ~ .", frame(), k=2, eps=8, delta=1e-6, seed=1)

    def test_a_categorical_term_enters_as_a_whole(self, chosen):
        assert chosen.terms == ("a", "g") and chosen.columns == (1, 3)
        assert set(chosen.candidates) == {"a", "b", 'Q("c d")', "e", "g"}

    def test_its_model_is_a_formula(self, chosen):
        fit = dpstats.tukey_em(chosen.model, frame(), eps=5, seed=1)
        assert fit.params.index.tolist() == ["Intercept", "g[T.q]", "g[T.r]", "g[T.s]", "a"]

    def test_printed_and_exported(self, chosen):
        text = str(chosen)
        assert max(map(len, text.splitlines())) <= 78
        text = " ".join(text.split())
        assert "DPKendall" in text and "choice of 2 terms" in text and "one record added or removed" in text
        assert "PROTECTS NOBODY" in text
        assert "<div" in chosen._repr_html_() and "DPKendall" in repr(chosen)
        assert chosen.tidy().to_dict("list") == {"term": ["a", "g"], "round": [1, 2], "columns": [1, 3]}
        assert json.loads(json.dumps(chosen.to_dict()))["guarantee"]["delta"] == 1e-6
        assert pickle.loads(pickle.dumps(chosen)) == chosen

    def test_size_does_not_depend_on_the_rows(self):
        few, many = (
            dpstats.select_features("y ~ a + b + e", frame(n), k=1, eps=1e6, seed=1) for n in (50, 3000)
        )
        assert len(pickle.dumps(few)) == len(pickle.dumps(many))

    def test_sub_lasso(self):
        chosen = dpstats.select_features("y ~ .", frame(), k=2, eps=100, method="sub_lasso", seed=1)
        assert set(chosen.terms) == {"a", "g"} and "SubLasso" in str(chosen)

    def test_a_file_gives_the_same(self, tmp_path):
        frame().to_parquet(tmp_path / "rows.parquet")
        chosen = dpstats.select_features("y ~ a + b + e", tmp_path / "rows.parquet", k=1, eps=1e6, seed=1)
        assert chosen.terms == ("a",)

    def test_no_rows_and_constant_columns_choose_something(self):
        empty = frame().iloc[:0]
        constant = frame().assign(a=1.0, b=1.0, e=np.nan)
        for data in (empty, constant):
            for method in ("kendall", "pairs", "sub_lasso"):
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    chosen = dpstats.select_features("y ~ .", data, k=2, eps=1, method=method)
                assert len(chosen.terms) == 2


class TestMethods:
    """What ``method="auto"`` stands for, and what `pairs` says of itself."""

    @staticmethod
    def wide(columns, n=400):
        x = np.random.default_rng(2).standard_normal((n, columns))
        return pd.DataFrame(x, columns=[f"x{j}" for j in range(columns)]).assign(y=x[:, :5].sum(axis=1))

    @pytest.mark.parametrize(
        ("columns", "k", "method"),
        [
            (7, 5, "Signs of pairs"),
            (16, 5, "Signs of pairs"),
            (9, 7, "Signs of pairs"),
            (7, 4, "Signs of pairs"),
            (7, 3, "DPKendall"),
            (17, 5, "DPKendall"),
            (9, 8, "DPKendall"),
        ],
    )
    def test_auto_goes_by_public_numbers(self, columns, k, method):
        assert dpstats.select_features("y ~ .", self.wide(columns), k=k, eps=1).method == method

    def test_terms_chosen_at_once(self):
        chosen = dpstats.select_features("y ~ .", self.wide(8), k=5, eps=1e4, delta=1e-6, seed=1)
        assert chosen.terms == ("x0", "x1", "x2", "x3", "x4") and chosen.rounds == (1,) * 5
        assert chosen.tidy()["round"].tolist() == [1] * 5 == chosen.to_dict()["rounds"]
        g = chosen.guarantee
        assert (g.kind, g.delta, g.eps) == ("pure", 0.0, 1e4) and g.spends[0].eps == 1e4

    def test_a_categorical_term_counts_by_its_columns(self):
        data = self.wide(6)
        data["g"] = pd.Categorical.from_codes(np.arange(400) % 4, list("pqrs"))
        chosen = dpstats.select_features(
            "y ~ .", data.assign(y=data["y"] + (data["g"] == "s") * 9), k=5, eps=1e4
        )
        assert chosen.method == "Signs of pairs" and "g" in chosen.terms

    def test_pairs_refuses_too_many_sets_before_anything_is_spent(self):
        ledger = Ledger(":memory:", eps=1, delta=0)
        with pytest.raises(ParameterError, match="at most 7 of them, in at most 5,000 sets of columns"):
            dpstats.select_features("y ~ .", self.wide(17), k=5, eps=1, method="pairs", ledger=ledger)
        assert ledger.remaining()[0] == 1


class TestCost:
    def test_pure(self):
        g = dpstats.select_features("y ~ a + b + e", frame(), k=2, eps=0.5).guarantee
        assert (g.eps, g.delta, g.kind, g.neighbours, g.seeded) == (0.5, 0.0, "pure", "add-remove", False)
        assert sum(s.eps for s in g.spends) == pytest.approx(0.5)

    @pytest.mark.parametrize(("method", "rounds"), [("kendall", 3), ("pairs", 1), ("sub_lasso", 3)])
    def test_each_round_is_an_exponential_mechanism_for_a_ledger(self, method, rounds):
        g = dpstats.select_features("y ~ .", frame(), k=3, eps=0.6, method=method).guarantee
        *count, spend = g.spends
        assert len(count) == (method == "sub_lasso")
        # eps^2 / 8 each (Cesar and Rogers 2021)
        assert spend.rho == pytest.approx(rounds * (spend.eps / rounds) ** 2 / 8, rel=1e-9)

    def test_approximate_and_its_rho(self):
        g = dpstats.select_features("y ~ a + b + e", frame(), k=2, eps=0.5, delta=1e-6).guarantee
        assert (g.delta, g.kind) == (1e-6, "approximate")
        assert g.spends[-1].rho < 0.5**2 / 2

    def test_one_term_needs_no_delta(self):
        g = dpstats.select_features("y ~ a + b + e", frame(), k=1, eps=0.5, delta=1e-6).guarantee
        assert (g.delta, g.kind) == (0.0, "pure")

    @pytest.mark.parametrize("method", ["kendall", "pairs", "sub_lasso"])
    def test_substitution(self, method):
        g = dpstats.select_features(
            "y ~ a + b + e", frame(), k=1, eps=0.5, method=method, neighbours="substitution"
        ).guarantee
        assert g.neighbours == "substitution" and sum(s.eps for s in g.spends) == pytest.approx(0.5)

    def test_ledger(self):
        ledger = Ledger(":memory:", eps=1, delta=0)
        dpstats.select_features("y ~ a + b + e", frame(), k=1, eps=0.75, ledger=ledger)
        assert ledger.remaining()[0] == pytest.approx(0.25)
        with pytest.raises(dpstats.BudgetExceeded):
            dpstats.select_features("y ~ a + b + e", frame(), k=1, eps=0.75, ledger=ledger)


class TestRefusals:
    @pytest.mark.parametrize(
        ("changed", "error", "text"),
        [
            ({"k": 0}, ParameterError, "k must be a positive integer"),
            (
                {"k": 3},
                ParameterError,
                "k must be smaller than the number of terms besides the constant, which is 3",
            ),
            (
                {"method": "lasso"},
                ParameterError,
                "method must be one of 'auto', 'kendall', 'pairs', 'sub_lasso'",
            ),
            ({"eps": 0}, ParameterError, "eps must be"),
            ({"delta": 1}, ParameterError, "delta must be"),
            ({"neighbours": "both"}, ParameterError, "neighbours must be"),
            ({"formula": "y + a ~ b + e"}, FormulaError, "one response"),
            ({"formula": "y ~ nothing + b"}, SchemaError, "nothing"),
        ],
    )
    def test_says_what_is_allowed(self, changed, error, text):
        call = {"formula": "y ~ a + b + e", "data": frame(), "k": 1, "eps": 1} | changed
        with pytest.raises(error, match=text):
            dpstats.select_features(call.pop("formula"), call.pop("data"), **call)


class TestChoice:
    @staticmethod
    def design(formula):
        from dpstats.data.schema import Schema
        from dpstats.data.sources import open_source
        from dpstats.formula.design import Design

        return Design.from_formula(formula, Schema.of(open_source(frame())))

    @pytest.mark.parametrize(
        "formula",
        [
            "np.log(y ** 2 + 1) ~ a*b + C(g, levels=['p', 'q']):e + I(a**2) + Q('c d')",
            "y ~ 0 + g + a:e + bs(b, knots=[0.0], degree=2, lower_bound=-9, upper_bound=9)",
        ],
    )
    def test_all_terms_give_the_formula_back(self, formula):
        design = self.design(formula)
        terms = candidates(design)
        again = self.design(reduced_formula(design, set(terms)))
        assert again.column_names == design.column_names and again.response_names == design.response_names
        assert "Intercept" not in terms
        assert sorted(j for t in terms.values() for j in t) == list(
            range(design.has_intercept, len(design.column_names))
        )

    def test_each_term_alone_is_a_formula(self):
        design = self.design("y ~ a*g + I(b**2) + Q('c d')")
        for term in candidates(design):
            reduced = self.design(reduced_formula(design, {term}))
            assert list(reduced.term_slices) == ["Intercept", term]

    def test_budget_of_sub_lasso_includes_the_count(self):
        choice = Choice.of(self.design("y ~ a + b + e"), 2, 1.0, 0.0, "sub_lasso", "add-remove")
        assert choice.eps_count + 2 * choice.step <= 1.0


@pytest.mark.slow
def test_the_examples_of_the_documentation_run():
    page = Path(dpstats.__file__).parent.parent / "docs" / "selection.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert failed == 0 and tried > 3
