"""The worked estimator of CONTRIBUTING.md is an estimator: it runs, pays, groups, repeats and refuses like
any other."""

import doctest
import importlib.util
import inspect
import re
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import dpstats
from dpstats.mechanisms.rng import Randomness

ROOT = Path(dpstats.__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
pytestmark = pytest.mark.skipif(
    not PAGE.is_file(), reason="CONTRIBUTING.md is not installed with the package"
)
RUNS = 500
DATA = {"y": np.repeat([0.0, 1.0, np.nan], [3_000, 1_000, 500]), "g": np.resize(["a", "b"], 4_500)}


def code():
    (example,) = re.findall(
        r"```python\n(.*?)```", PAGE.read_text().split("## Adding an estimator")[1], re.DOTALL
    )
    return example


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    path = tmp_path_factory.mktemp("worked") / "worked_share.py"
    path.write_text(code())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    yield made
    del sys.modules[path.stem]


def test_it_estimates_the_share_and_its_error(module):
    fits = [module.share("y ~ 1", DATA, eps=0.05, seed=seed) for seed in range(RUNS)]
    estimates = np.array([fit.params["y"] for fit in fits])
    assert abs(estimates.mean() - 0.25) < 5 * estimates.std() / np.sqrt(RUNS)
    # of the standard error, the part of the noise: these rows are always the same
    noise = np.mean([fit.bse["y"] ** 2 for fit in fits]) - 0.25 * 0.75 / 4_000
    # the relative error of a variance is about sqrt(5 / runs) for Laplace noise
    assert estimates.var() == pytest.approx(noise, rel=5 * np.sqrt(5 / RUNS))


def test_ledger_seed_and_summary(module):
    ledger = dpstats.Ledger(":memory:", eps=1.5, delta=0)
    fit = module.share("y ~ 1", DATA, eps=1, ledger=ledger)
    assert ledger.remaining()[0] == pytest.approx(0.5)
    with pytest.raises(dpstats.BudgetExceeded):
        module.share("y ~ 1", DATA, eps=1, ledger=ledger)
    assert not fit.guarantee.seeded and fit.nobs == pytest.approx(4_000, abs=100)
    text = str(fit.summary())
    assert "Share of ones" in text and "ones and zeros" in text and "pure differential privacy" in text
    one, again = (module.share("y ~ 1", DATA, eps=1, seed=3) for _ in range(2))
    assert one == again and "SEEDED" in str(one)


def test_groups(module):
    ledger = dpstats.Ledger(":memory:", eps=1, delta=0)
    fits = module.share("y ~ 1", DATA, eps=1, by="g", levels={"g": ["a", "b"]}, ledger=ledger)
    assert fits.params["y"].to_numpy() == pytest.approx([0.25, 0.25], abs=0.05)
    assert ledger.remaining()[0] == pytest.approx(0) and "parallel" in fits.guarantee.scope


def test_mistakes_cost_nothing_and_failures_are_paid_for(module):
    ledger = dpstats.Ledger(":memory:", eps=100, delta=0)
    for formula in ("y ~ g", "y + y2 ~ 1", "nothing ~ 1"):
        with pytest.raises(dpstats.DpstatsError):
            module.share(formula, DATA | {"y2": DATA["y"]}, eps=1, ledger=ledger, levels={"g": ["a", "b"]})
    assert ledger.remaining()[0] == 100
    with pytest.raises(dpstats.ReleaseFailed, match="no noisy count is positive") as failure:
        module.share("y ~ 1", {"y": np.empty(0)}, eps=100, ledger=ledger)
    assert failure.value.guarantee.eps == 100 and ledger.remaining()[0] == 0


def test_one_record_moves_the_two_counts_by_one_in_all(module, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "discrete_laplace", lambda value, eps, rng: seen.append((value, eps)) or 1)
    budget = module._Budget(dpstats.Guarantee(1.0, 0.0, "add-remove", "pure", ()))

    def counts(y):
        seen.clear()
        module._release([(np.ones((len(y), 1)), np.array(y, dtype=float)[:, None])], budget, Randomness(0))
        assert [eps for _, eps in seen] == [1.0, 1.0]
        return np.array([value for value, _ in seen])

    for rows in product((0.0, 1.0, 0.5, -1e300, 1e300), repeat=3):
        for more in (0.0, 1.0, 0.5, 1e300):
            assert np.abs(counts(rows) - counts((*rows, more))).sum() == 1


def test_it_is_written_as_the_others_are(module):
    text = inspect.getdoc(module.share)
    assert "**Privacy.**" in text and "%(" not in text and "**Privacy.**" in module._release.__doc__
    assert list(inspect.signature(module.share).parameters) == list(
        inspect.signature(dpstats.noisy_stats).parameters
    )
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    (example,) = (test for test in finder.find(module) if test.examples)
    assert runner.run(example).failed == 0
    assert len(code().splitlines()) <= 120


def test_every_place_that_the_page_names_is_there():
    table = PAGE.read_text().split("## Where things are")[1].split("## Adding an estimator")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    folder = ""
    for name in (name for cell in first for name in re.findall(r"`([^`]+)`", cell)):
        here = ROOT / name
        if "/" in name and here.exists():
            folder = str(Path(name).parent)
        assert here.exists() or (ROOT / folder / name).exists(), name
    floors = {p.name for p in (ROOT / "dpstats").iterdir() if p.is_dir() and not p.name.startswith("__")}
    assert floors - {"datasets"} == {f for f in floors if f"{f}/`" in " ".join(first)}


@pytest.mark.parametrize("eps", [1e-300, 1e-9, 1e3, 1e300])
def test_any_eps_makes_a_release_or_a_failure_that_is_foreseen(module, eps):
    try:
        assert module.share("y ~ 1", DATA, eps=eps, seed=1).bse["y"] >= 0
    except dpstats.ReleaseFailed as failure:
        assert "no noisy count is positive" in str(failure)
