"""What every estimator owes its user, whatever it estimates."""

import dataclasses
import inspect
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats._estimators import ESTIMATORS
from dpstats.privacy.composition import compose

sys.path.insert(0, str(Path(__file__).parents[1]))
from estimators import data, run, usual  # noqa: E402

HOSTILE = {
    "no rows": lambda f: f.iloc[:0],
    "one row": lambda f: f.iloc[:1],
    "two rows": lambda f: f.iloc[:2],
    "constants": lambda f: f * 0 + 3.0,
    "all missing": lambda f: f * np.nan,
    "half missing": lambda f: f.assign(x=np.where(np.arange(len(f)) % 2, np.nan, f["x"])),
    "infinite": lambda f: f.assign(y=np.inf),
    "huge": lambda f: np.sign(f) * 1e308,
    "subnormal": lambda f: f * 5e-324,
    "one outlier": lambda f: f.assign(x=np.r_[1e300, f["x"].to_numpy()[1:]]),
    "integers": lambda f: f.round(),
}


@pytest.mark.parametrize("name", ESTIMATORS)
class TestContract:
    def test_signature(self, name):
        parameters = inspect.signature(getattr(dpstats, name)).parameters
        assert list(parameters)[:2] == ["formula", "data"]
        keywords = list(parameters.values())[2:]
        assert all(p.kind is p.KEYWORD_ONLY for p in keywords)
        assert parameters["eps"].default is inspect.Parameter.empty
        assert {"bounds", "levels", "ledger", "seed"} <= set(parameters)
        if name != "select_features":
            assert "by" in parameters

    def test_guarantee_is_what_was_asked_for_and_what_its_steps_cost(self, name):
        guarantee = run(name, usual(name)).guarantee
        assert guarantee.eps == 4
        assert guarantee.seeded
        assert guarantee.spends
        assert compose(guarantee.spends, guarantee.delta).eps <= 4 * (1 + 1e-9)

    def test_unseeded_releases_differ(self, name):
        frame = usual(name)
        one, other = (run(name, frame, seed=None) for _ in range(2))
        assert not one.guarantee.seeded
        if name != "select_features":
            assert (one.params != other.params).any()

    def test_a_seed_repeats_a_release(self, name):
        frame = usual(name)
        assert run(name, frame).to_dict() == run(name, frame).to_dict()

    def test_ledger(self, name):
        ledger = dpstats.Ledger(":memory:", eps=4, delta=1e-5)
        guarantee = run(name, usual(name), ledger=ledger).guarantee
        assert ledger.remaining(guarantee.neighbours)[0] == pytest.approx(0, abs=1e-9)
        with pytest.raises(dpstats.BudgetExceeded):
            run(name, usual(name), ledger=ledger)

    def test_hostile_data_neither_crash_nor_speak(self, name):
        rows = 2_000
        for case, spoil in HOSTILE.items():
            frame = spoil(data(rows))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    run(name, frame).summary()
                except dpstats.ReleaseFailed as failure:
                    assert failure.guarantee is not None, case
                    assert failure.__cause__ is None, case
                except dpstats.ParameterError:
                    # the number of rows handed in is public where neighbours replace a row
                    assert len(frame) < rows, case

    def test_pickle_says_nothing_of_the_rows(self, name):
        fits = [run(name, data(ESTIMATORS[name].rows + more)) for more in (0, 1_000)]
        if name != "select_features":
            # notes may print released numbers
            fits = [dataclasses.replace(fit, notes=()) for fit in fits]
        sizes = {len(pickle.dumps(fit)) for fit in fits}
        assert max(sizes) < 50_000
        if name != "select_features":
            assert len(sizes) == 1

    def test_mistakes_name_the_parameter(self, name):
        for wrong, message in (
            ({"eps": 0}, "eps must be"),
            ({"seed": "x"}, "seed must be"),
            ({"ledger": 1}, "ledger"),
        ):
            with pytest.raises(dpstats.ParameterError, match=message):
                run(name, data(10), **wrong)
        with pytest.raises(dpstats.SchemaError, match="nothing"):
            run(name, data(10), formula=ESTIMATORS[name].formula.replace("y", "nothing"))
        with pytest.raises(dpstats.FormulaError):
            run(name, data(10), formula="y ~ center(x)")


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"select_features"}))
def test_a_formula_without_a_constant_whose_columns_show_nothing(name):
    """Where no column is left there is no estimate, and that is all: here no crash passes for a failed test."""
    for formula in ("y ~ x - 1", "y ~ 0 + C(g, levels=['a', 'b'])"):
        for case, spoil in HOSTILE.items():
            frame = spoil(data(1_000)).assign(g="c")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    run(name, frame, formula=formula, eps=20).summary()
                except dpstats.DpstatsError as error:
                    assert not isinstance(error, dpstats.ReleaseFailed) or error.guarantee is not None, case


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"select_features"}))
def test_groups(name):
    frame = pd.concat([usual(name).assign(g="a"), usual(name).assign(g="b")], ignore_index=True)
    fit = run(name, frame, by="g", levels={"g": ["a", "b"]})
    assert fit.guarantee.eps == 4
    assert "parallel" in fit.guarantee.scope
    assert len(fit.tidy()) >= 2
