"""What a call is checked for, and what an estimator asks of a formula."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import dpstats
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.estimation.call import Call, Needs
from dpstats.formula.design import Design

ROWS = {"y": np.zeros(3), "x": np.zeros(3), "z": np.zeros(3)}


def call(**changes):
    return Call(**{"formula": "y ~ x", "data": ROWS, "eps": 1.0, "delta": 1e-6} | changes)


class TestCall:
    def test_checked_numbers_are_of_one_type(self):
        checked = call(eps=1, delta=np.float32(0.5), seed=np.int64(7)).checked(Needs())
        assert [type(v) for v in (checked.eps, checked.delta, checked.seed)] == [float, float, int]
        assert (checked.eps, checked.delta, checked.seed) == (1.0, 0.5, 7)

    def test_what_is_not_checked_is_kept(self):
        bounds, ledger = {"x": (0, 1)}, dpstats.Ledger(":memory:", eps=1, delta=0)
        checked = call(bounds=bounds, by="z", ledger=ledger).checked(Needs())
        assert checked.bounds is bounds and checked.data is ROWS
        assert checked.by == "z" and checked.ledger is ledger and checked.formula == "y ~ x"

    def test_seeded_says_that_the_release_protects_nobody(self):
        assert call(seed=0).seeded and not call().seeded

    def test_it_is_a_value(self):
        with pytest.raises(FrozenInstanceError):
            call().eps = 2.0

    @pytest.mark.parametrize(
        ("changes", "error", "text"),
        [
            ({"eps": 0}, dpstats.ParameterError, "eps must be"),
            ({"eps": "1"}, dpstats.ParameterError, "eps must be"),
            ({"eps": np.inf}, dpstats.ParameterError, "eps must be"),
            ({"delta": 1.0}, dpstats.ParameterError, "delta must be"),
            ({"delta": -1e-9}, dpstats.ParameterError, "delta must be"),
            ({"seed": 1.5}, dpstats.ParameterError, "seed must be"),
            ({"seed": -1}, dpstats.ParameterError, "seed must be"),
            ({"ledger": "ledger.db"}, dpstats.ParameterError, "ledger must be None or a dpstats.Ledger"),
            ({"formula": 3}, dpstats.FormulaError, "formula"),
        ],
    )
    def test_mistakes(self, changes, error, text):
        with pytest.raises(error, match=text):
            call(**changes).checked(Needs(delta="delta"))

    def test_only_where_it_is_allowed_may_delta_be_0(self):
        assert call(delta=0).checked(Needs(delta="delta")).delta == 0
        with pytest.raises(dpstats.ParameterError, match="delta must be"):
            call(delta=0).checked(Needs())


class TestNeeds:
    """Every kind of right-hand side, with the formulas that it takes and the error for the others."""

    FORMULAS = ("y ~ 1", "y ~ x", "y ~ x - 1", "y ~ x + z", "y ~ 0 + x + z")

    @staticmethod
    def refused(needs, formula):
        """The text of the error, or None."""
        design = Design.from_formula(formula, Schema.of(open_source(ROWS)))
        try:
            return needs.check("toy", design)
        except dpstats.FormulaError as error:
            return str(error)

    @pytest.mark.parametrize(
        ("columns", "allowed", "text"),
        [
            ("any", FORMULAS, None),
            ("constant", ("y ~ 1",), "toy takes formulas such as 'income ~ 1', got "),
            (
                "covariates",
                ("y ~ x", "y ~ x + z"),
                "toy takes a constant and covariates, as in 'y ~ x', got ",
            ),
            ("one covariate", ("y ~ x",), "toy takes formulas such as 'y ~ x', a constant and one column; "),
        ],
    )
    def test_columns(self, columns, allowed, text):
        for formula in self.FORMULAS:
            refusal = self.refused(Needs(columns=columns), formula)
            assert (refusal is None) == (formula in allowed), formula
            if refusal is not None:
                assert refusal.startswith(text) and repr(formula) in refusal

    def test_one_covariate_names_the_first_five_columns(self):
        levels = {"g": list("abcdefgh")}
        schema = Schema.of(open_source({"y": np.zeros(2), "g": ["a", "b"]}), levels=levels)
        with pytest.raises(
            dpstats.FormulaError,
            match=r"columns 'Intercept', .*'g\[T.e\]' and more\. For levels use",
        ):
            Needs(columns="one covariate").check("toy", Design.from_formula("y ~ g", schema))

    def test_responses(self):
        assert self.refused(Needs(), "y + x ~ 1") == "toy takes one response, and 'y + x ~ 1' has 2."
        assert self.refused(Needs(responses="any"), "y + x ~ 1") is None

    def test_an_error_ends_with_what_to_do_instead(self):
        needs = Needs(columns="one covariate", instead="Use dpstats.ols for more.")
        assert self.refused(needs, "y ~ x + z").endswith("'x', 'z'. Use dpstats.ols for more.")
        assert self.refused(needs, "y ~ x") is None
        assert self.refused(needs, "y ~ 1").endswith("use dpstats.median or dpstats.mean.")
