"""What every estimator owes its user, whatever it estimates."""

import dataclasses
import functools
import inspect
import json
import math
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats._estimators import ESTIMATORS
from dpstats.estimation.groups import group_seed
from dpstats.privacy.conversions import gdp_eps, zcdp_eps
from dpstats.privacy.filters import step_rho

sys.path.insert(0, str(Path(__file__).parents[1]))
from estimators import GROUPED, data, run, usual  # noqa: E402

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


@functools.cache
def released(name):
    """The listed call with its seed: one fit for all that only look at it."""
    return run(name, usual(name))


def composed(spends, delta):
    """The least of three totals: every budget added, Gaussian steps by their joint curve, or all in zCDP."""
    others = [s for s in spends if s.mu is None]
    totals = [math.inf]
    if math.fsum(s.delta for s in spends) <= delta:
        totals.append(math.fsum(s.eps for s in spends))
    left = delta - math.fsum(s.delta for s in others)
    if left > 0 and len(others) < len(spends):
        mu = math.hypot(*(s.mu for s in spends if s.mu is not None))
        totals.append(gdp_eps(mu, left) + math.fsum(s.eps for s in others))
    rhos, deltas = zip(*map(step_rho, spends), strict=True)
    if sum(deltas) < delta:
        totals.append(zcdp_eps(math.fsum(rhos), delta - sum(deltas)))
    return min(totals)


@pytest.mark.parametrize("name", ESTIMATORS)
class TestContract:
    def test_signature(self, name):
        parameters = inspect.signature(getattr(dpstats, name)).parameters
        assert list(parameters)[:2] == ["formula", "data"]
        keywords = list(parameters.values())[2:]
        assert all(p.kind is p.KEYWORD_ONLY for p in keywords)
        assert parameters["eps"].default is inspect.Parameter.empty
        assert {"bounds", "levels", "ledger", "seed"} <= set(parameters)
        assert name in GROUPED or name == "select_features"

    def test_guarantee_is_what_was_asked_for_and_what_its_steps_cost(self, name):
        guarantee = released(name).guarantee
        assert guarantee.eps == 4
        assert guarantee.seeded
        assert guarantee.spends
        assert composed(guarantee.spends, guarantee.delta) <= 4 * (1 + 1e-9)

    def test_unseeded_releases_differ(self, name):
        frame = usual(name)
        one, other = (run(name, frame, seed=None) for _ in range(2))
        assert not one.guarantee.seeded
        if name != "select_features":
            assert (one.params != other.params).any()

    def test_a_seed_repeats_a_release(self, name):
        assert run(name, usual(name)).to_dict() == released(name).to_dict()

    def test_is_the_same_after_it_was_saved_as_json(self, name):
        if name == "select_features":
            return
        fit = released(name)
        again = dpstats.from_dict(json.loads(json.dumps(fit.to_dict(), allow_nan=False)))
        assert again == fit and again.to_dict() == fit.to_dict() and str(again) == str(fit)

    def test_ledger(self, name):
        ledger = dpstats.Ledger(":memory:", eps=4, delta=1e-5)
        guarantee = run(name, usual(name), ledger=ledger).guarantee
        assert ledger.remaining(guarantee.neighbours)[0] == pytest.approx(0, abs=1e-9)
        with pytest.raises(dpstats.BudgetExceeded):
            run(name, usual(name), ledger=ledger)

    def test_hostile_data_neither_crash_nor_speak(self, name):
        rows, released = 2_000, set()
        for case, spoil in HOSTILE.items():
            frame = spoil(data(rows))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    run(name, frame).summary()
                    released.add(case)
                except dpstats.ReleaseFailed as failure:
                    assert failure.guarantee is not None, case
                    assert failure.__cause__ is None, case
                except dpstats.ParameterError:
                    # the number of rows handed in is public where neighbours replace a row
                    assert len(frame) < rows, case
        # what always fails would pass all of the above
        assert {"integers", "one outlier"} <= released

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


@pytest.mark.parametrize("name", GROUPED)
def test_a_formula_without_a_constant_whose_columns_show_nothing(name):
    """Where no column is left there is no estimate, and that is all: here no crash passes for a failed
    test."""
    released, refused = set(), set()
    for formula in ("y ~ x - 1", "y ~ 0 + C(g, levels=['a', 'b'])"):
        for case, spoil in HOSTILE.items():
            frame = spoil(data(1_000)).assign(g="c")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    run(name, frame, formula=formula, eps=20).summary()
                    released.add((formula, case))
                except dpstats.ReleaseFailed as failure:
                    assert failure.guarantee is not None, case
                except dpstats.FormulaError:
                    refused.add((formula, case))
    # a formula is read, or it is not, whatever the data are
    assert ("y ~ x - 1", "integers") in released or len(refused) == 2 * len(HOSTILE)
    assert not (released and refused)


@pytest.mark.parametrize("name", GROUPED)
def test_groups(name):
    """Every group has the release that its rows have alone, with the seed of the group; the table has all."""
    parts = {"a": usual(name), "b": 3 * usual(name) - 1, "none": usual(name).iloc[:0]}
    frame = pd.concat([part.assign(g=level) for level, part in parts.items()], ignore_index=True)
    # in another order than the rows
    levels = ["b", "none", "a"]
    fit = run(name, frame, by="g", levels={"g": levels})
    assert fit.guarantee.eps == 4
    assert "parallel" in fit.guarantee.scope
    tables = []
    for i, level in enumerate(levels):
        if level in fit.failed:
            assert level == "none"
            alone = tables[0].assign(**dict.fromkeys(tables[0].columns.drop(["term", "g"]), np.nan))
        else:
            alone = run(name, parts[level], seed=group_seed(1, i)).tidy()
        tables.append(alone.assign(g=level))
    expected, table = pd.concat(tables, ignore_index=True), fit.tidy()
    assert table.columns[0] == "g" and set(table) == set(expected)
    pd.testing.assert_frame_equal(table, expected[table.columns], check_dtype=False, check_exact=True)
    assert fit.params.loc["a"].notna().all() and (fit.params.loc["a"] != fit.params.loc["b"]).all()
