"""The order of every call, on a toy estimator that writes down what happens."""

from dataclasses import dataclass

import numpy as np
import pytest

import dpstats
from dpstats.data.batches import Source
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.results.results import Results

DATA = {"y": np.arange(6.0), "x": np.zeros(6), "g": np.array(list("aaabbb"))}
GROUPS = {"by": "g", "levels": {"g": ["a", "b", "c"]}}


@dataclass(frozen=True)
class Budget:
    guarantee: Guarantee
    rows: int | None


class Toy:
    """An estimator whose release is the sum of the response, with no noise at all."""

    def __init__(self, fail=None, **needs):
        self.fail, self.needs, self.seen = fail, Needs(**needs), []
        self.estimator = Estimator("toy", self.budget, self.release, self.results, self.needs)

    def budget(self, design, call, rows):
        self.seen.append("budget")
        if rows == 0 or call.eps == 13:
            raise dpstats.ParameterError("toy: refused.")
        spends = Spend("first", "noise", call.eps / 4), Spend("second", "noise", 3 * call.eps / 4)
        return Budget(Guarantee(call.eps, 0.0, "add-remove", "pure", spends, seeded=call.seeded), rows)

    def release(self, blocks, budget, rng):
        self.seen.append("release")
        self.draw = rng.uniform(1)[0]
        total = sum(float(Y.sum()) for _, Y in blocks)
        if self.fail is not None:
            raise self.fail(budget)
        return total

    def results(self, design, budget, released):
        self.seen.append("results")
        return Results(
            method="Toy", formula=design.formula, names=("y",), estimates=[released], cov=None, covers="No.",
            guarantee=budget.guarantee,
        )  # fmt: skip

    def __call__(self, formula="y ~ 1", data=DATA, eps=1.0, **more):
        return run(self.estimator, Call(formula, data, eps, **more))


@pytest.fixture
def toy(monkeypatch):
    """A toy that also writes down charges and reading."""
    toy, charge, batches = Toy(delta="delta"), dpstats.Ledger._charge, Source.batches
    monkeypatch.setattr(
        dpstats.Ledger, "_charge", lambda self, *a: (toy.seen.append("charge"), charge(self, *a))[1]
    )
    monkeypatch.setattr(Source, "batches", lambda self, *a: (toy.seen.append("read"), batches(self, *a))[1])
    return toy


def ledger(eps=1.0):
    return dpstats.Ledger(":memory:", eps=eps, delta=1e-5)


def test_checks_then_budget_then_charge_then_rows(toy):
    fit = toy(ledger=ledger())
    assert toy.seen == ["budget", "charge", "release", "read", "results"]
    assert fit.params["y"] == 15 and fit.guarantee.eps == 1


def test_with_groups_all_budgets_come_before_the_charge_and_one_charge_before_the_rows(toy):
    toy(ledger=ledger(), **GROUPS)
    assert toy.seen[:3] == ["budget", "charge", "read"]
    assert toy.seen.count("charge") == 1 and toy.seen.count("results") == 3


@pytest.mark.parametrize("more", [{}, GROUPS], ids=["whole", "groups"])
@pytest.mark.parametrize(
    ("changes", "error", "happens"),
    [
        ({"eps": 0}, dpstats.ParameterError, []),
        ({"delta": 2}, dpstats.ParameterError, []),
        ({"formula": "y ~ center(x)"}, dpstats.FormulaError, []),
        ({"formula": "y ~ nothing"}, dpstats.SchemaError, []),
        ({"formula": "y + x ~ 1"}, dpstats.FormulaError, []),
        ({"by": "nothing"}, dpstats.SchemaError, []),
        ({"eps": 13}, dpstats.ParameterError, ["budget"]),
        ({"eps": 20}, dpstats.BudgetExceeded, ["budget", "charge"]),
    ],
)
def test_what_is_refused_is_refused_before_any_row_is_read_and_costs_nothing(
    toy, changes, error, happens, more
):
    book = ledger(15)
    with pytest.raises(error):
        toy(ledger=book, **(more | changes))
    assert toy.seen == happens and book.remaining()[0] == 15


def test_rows_are_counted_only_where_their_number_is_public():
    counted = []

    class Counting(Toy):
        def budget(self, design, call, rows):
            counted.append(rows)
            return super().budget(design, call, rows)

    Counting(delta="delta")()
    Counting(delta="delta")(**GROUPS)
    assert counted == [None, None]
    counted.clear()
    public = Counting(delta="delta", public_rows=True)
    public()
    fits = public(**GROUPS)
    # groups of one size have one budget
    assert counted == [6, 3] and fits.failed == {"c": "toy: there are no rows."}


def test_a_seed_fixes_the_randomness_and_no_seed_does_not():
    draws = []
    for seed in (1, 1, 2, None, None):
        toy = Toy(delta="delta")
        toy(seed=seed)
        draws.append(toy.draw)
    assert draws[0] == draws[1] and len(set(draws)) == 4


def failure(spends):
    def made(budget):
        if spends is None:
            return dpstats.ReleaseFailed("toy: it failed.")
        done = budget.guarantee.replace(spends=budget.guarantee.spends[:spends])
        return dpstats.ReleaseFailed("toy: it failed.", done)

    return made


@pytest.mark.parametrize(("spends", "spent"), [(None, 1.0), (1, 0.25), (2, 1.0)])
def test_a_failure_costs_the_steps_that_ran(spends, spent):
    """With a ledger and without, the exception says the same."""
    book = ledger()
    for given in (book, None):
        with pytest.raises(dpstats.ReleaseFailed, match="it failed") as raised:
            Toy(failure(spends), delta="delta")(ledger=given)
        assert raised.value.guarantee.eps == pytest.approx(spent)
    assert book.remaining()[0] == pytest.approx(1 - spent)


def test_an_unforeseen_error_is_paid_for_and_says_nothing(monkeypatch):
    monkeypatch.delenv("DPSTATS_DEBUG", raising=False)
    book = ledger()
    with pytest.raises(dpstats.ReleaseFailed, match="toy: the computation failed") as raised:
        Toy(lambda budget: ValueError("row 3 is 17.5"), delta="delta")(ledger=book)
    assert "17.5" not in str(raised.value) and raised.value.guarantee.eps == 1
    assert raised.value.__cause__ is None and book.remaining()[0] == pytest.approx(0)


def test_groups_that_all_fail_are_an_error_and_all_groups_cost_what_one_costs():
    book = ledger()
    with pytest.raises(dpstats.ReleaseFailed, match="none of the 3 groups by 'g' has an estimate"):
        Toy(failure(1), delta="delta")(ledger=book, **GROUPS)
    assert book.remaining()[0] == pytest.approx(0)


def test_arithmetic_warns_nobody():
    """A warning about a division would tell of the data."""

    def release(blocks, budget, rng):
        return float(np.float64(1) / np.float64(0))

    toy = Toy(delta="delta")
    with np.errstate(all="raise"):
        fit = run(Estimator("toy", toy.budget, release, toy.results, toy.needs), Call("y ~ 1", DATA, 1.0))
    assert fit.params["y"] == np.inf
