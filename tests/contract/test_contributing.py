"""The worked estimator of CONTRIBUTING.md is four files, and an estimator like any other: it pays, groups,
repeats and refuses, and the tests that read the list hold for it in a copy of the repository."""

import doctest
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpstats
from dpstats._estimators import ESTIMATORS

ROOT = Path(dpstats.__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
pytestmark = pytest.mark.skipif(
    not PAGE.is_file(), reason="CONTRIBUTING.md is not installed with the package"
)
LIST, CODE = "dpstats/_estimators.py", "dpstats/location/count.py"
DATA = {"y": np.repeat([0.0, 1.0, np.nan], [3_000, 1_000, 500]), "g": np.resize(["a", "b"], 4_500)}


def files():
    """The worked files by path, as the page has them; of the list, the line."""
    text = PAGE.read_text().split("## Adding an estimator")[1]
    return dict(re.findall(r"^`([\w/.]+)`[^\n]*:\n\n```\w+\n(.*?)```", text, re.DOTALL | re.MULTILINE))


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    path = tmp_path_factory.mktemp("worked") / "worked_count.py"
    path.write_text(files()[CODE])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    yield made
    del sys.modules[path.stem]


def test_it_is_at_most_five_files_of_which_the_estimator_is_short():
    worked = files()
    assert set(worked) == {LIST, CODE, "tests/location/test_count.py", "docs/privacy/count.md"}
    assert len(worked[LIST].splitlines()) == 1 and len(worked[CODE].splitlines()) <= 80
    code = "".join(text for path, text in worked.items() if path.endswith(".py"))
    assert max(map(len, code.splitlines())) <= 110
    text = PAGE.read_text().split("An estimator is four files:")[1].split("\n\n")[1]
    assert set(re.findall(r"^\| `([\w/.]+)`", text, re.MULTILINE)) == set(worked)


def test_ledger_seed_and_summary(module):
    ledger = dpstats.Ledger(":memory:", eps=1.5, delta=0)
    fit = module.count("y ~ 1", DATA, eps=1, ledger=ledger)
    assert ledger.remaining()[0] == pytest.approx(0.5)
    with pytest.raises(dpstats.BudgetExceeded):
        module.count("y ~ 1", DATA, eps=1, ledger=ledger)
    assert not fit.guarantee.seeded and fit.params["y"] == pytest.approx(1_000, abs=50)
    text = str(fit.summary())
    assert "Number of positive values" in text and "pure differential privacy" in text
    one, again = (module.count("y ~ 1", DATA, eps=1, seed=3) for _ in range(2))
    assert one == again and "SEEDED" in str(one)


def test_groups(module):
    ledger = dpstats.Ledger(":memory:", eps=1, delta=0)
    fits = module.count("y ~ 1", DATA, eps=1, by="g", levels={"g": ["a", "b"]}, ledger=ledger)
    assert fits.params["y"].to_numpy() == pytest.approx([500, 500], abs=50)
    assert ledger.remaining()[0] == pytest.approx(0) and "parallel" in fits.guarantee.scope


def test_mistakes_cost_nothing(module):
    ledger = dpstats.Ledger(":memory:", eps=100, delta=0)
    for formula in ("y ~ g", "y + y2 ~ 1", "nothing ~ 1"):
        with pytest.raises(dpstats.DpstatsError):
            module.count(formula, DATA | {"y2": DATA["y"]}, eps=1, ledger=ledger, levels={"g": ["a", "b"]})
    assert ledger.remaining()[0] == 100


@pytest.mark.parametrize("eps", [1e-20, 1e-9, 1e3, 1e20])
def test_any_eps_makes_a_release(module, eps):
    assert module.count("y ~ 1", DATA, eps=eps, seed=1).bse["y"] == pytest.approx(np.sqrt(2) / eps)


def test_it_is_written_as_the_others_are(module):
    text = inspect.getdoc(module.count)
    assert "**Privacy.**" in text and "%(" not in text and "**Privacy.**" in module._release.__doc__
    assert inspect.signature(module.count) == inspect.signature(dpstats.noisy_stats)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    (example,) = (test for test in finder.find(module) if test.examples)
    assert runner.run(example).failed == 0


def copied(folder):
    """A copy of what of the repository the tests need."""
    for part in ("dpstats", "tests", "benchmarks", "docs", "r_bridge"):
        shutil.copytree(ROOT / part, folder / part)
    for part in ("README.md", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy2(ROOT / part, folder)
    return folder


def added(folder, worked):
    """Write the worked files into a copy of the repository; the line goes to its place in the list."""
    for path, text in worked.items():
        if path != LIST:
            assert not (folder / path).exists(), path
            (folder / path).write_text(text)
    name = re.match(r' *"(\w+)"', worked[LIST])[1]
    after = min(other for other in ESTIMATORS if other > name)
    lines = (folder / LIST).read_text()
    assert lines.count(f'\n    "{after}": Listed(') == 1
    (folder / LIST).write_text(
        lines.replace(f'\n    "{after}": Listed(', f'\n{worked[LIST]}    "{after}": Listed(')
    )


def outcome(folder, *arguments):
    """Exit status and output of pytest in a copy, without the texts of assertions: to write them into every
    module takes longer than its tests."""
    # without R's libraries, where R runs in this process
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--assert=plain", "-p", "no:cacheprovider", *arguments],
        cwd=folder, env=environment | {"PYTHONPATH": str(folder)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr[-2_000:]


# what reads the list: of the first, the tests of the new estimator, and of the second all
OF_EACH = ("tests/contract", "tests/privacy", "tests/mechanisms/test_sums.py")
OF_ALL = (
    "tests/location/test_count.py", "tests/contract/test_list.py", "tests/contract/test_imports.py",
    "tests/privacy/test_docs_privacy.py", "tests/benchmarks/test_complete.py",
    "tests/test_bridge.py::test_the_estimators_are_the_public_functions",
    "tests/benchmarks/test_audit.py::test_every_public_estimator_is_audited",
    "tests/benchmarks/test_search.py::test_every_public_estimator_is_searched",
    "tests/mutants/test_mutants.py::test_every_module_of_mechanisms_and_audited_estimators_has_mutants",
)  # fmt: skip
OF_OTHERS = "test_intervals_for_a_population_are_in_the_study_of_coverage"
"""One of `OF_ALL` that fits every estimator, and reads of the list what is about that one alone."""
SEEN = """
import dpstats

def test_it_is_public_and_experimental():
    assert "**Experimental.**" in dpstats.count.__doc__ and "count" in dpstats.__all__
"""


@pytest.mark.slow
def test_the_four_files_are_all_that_an_estimator_needs(tmp_path):
    folder = copied(tmp_path)
    added(folder, files())
    (folder / "tests/test_seen.py").write_text(SEEN)
    # (in one run: to import and to collect them takes longer than they do)
    wanted = " or ".join(re.split("/|::", path)[-1] for path in (*OF_ALL, "tests/test_seen.py"))
    chosen = f"count-0 or [count] or ({wanted}) and not {OF_OTHERS}"
    status, text = outcome(folder, *OF_EACH, *OF_ALL, "tests/test_seen.py", "-rp", "-k", chosen)
    assert status == 0, text[-5_000:]
    passed = re.findall(r"^PASSED (\S+)", text, re.MULTILINE)
    # signature, guarantee, seeds, ledger, hostile rows, pickles, groups, exceptions, taint, replay, pieces
    assert sum("[count]" in test or "count-0" in test for test in passed) >= 25, text[-5_000:]
    for path in (*OF_ALL, "tests/test_seen.py"):
        assert any(test.startswith(path) for test in passed), path


@pytest.mark.slow
def test_what_is_left_out_is_asked_for(tmp_path):
    """Test of the test: without its page or its test file, or as an audited one, it is not complete."""
    worked = files()
    left_out = {path: text for path, text in worked.items() if path == LIST or path == CODE}
    folder = copied(tmp_path)
    added(folder, left_out | {LIST: worked[LIST].replace(", experimental=True", "")})
    asking = (
        "test_has_a_test_file[count]",
        "test_has_a_privacy_page[count]",
        "test_every_estimator_names_its_argument[count]",
        "test_has_a_function_in_r_or_a_reason[count]",
        "test_has_a_line_in_the_table_of_the_readme[count]",
        "test_has_a_line_in_the_table_of_privacy_pages[count]",
        "test_every_first_call_was_measured",
        "test_every_public_estimator_is_audited",
        "test_every_public_estimator_is_searched",
        "test_every_module_of_mechanisms_and_audited_estimators_has_mutants",
    )
    status, text = outcome(folder, *OF_ALL[1:], "-k", " or ".join(asking))
    assert status == 1
    for missing in asking:
        assert re.search(f"^FAILED .*{re.escape(missing)}", text, re.MULTILINE), missing


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
    assert floors == {f for f in floors if f"{f}/`" in " ".join(first)}
