"""The list of mutants fits the code and the tests, and the runner sees what lives; the mutants themselves are
for ``make mutants``."""

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dpstats._estimators import AUDITED, ESTIMATORS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_spec = importlib.util.spec_from_file_location("mutants_run", HERE / "run.py")
runner = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = runner
_spec.loader.exec_module(runner)

# without R's: where R runs in the process of the tests, its libraries are found before those of Python
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
MUTANTS = runner.load()


def test_every_line_is_found_once_and_the_list_is_long():
    assert runner.problems(MUTANTS) == []
    assert len(MUTANTS) >= 80


def test_every_module_of_mechanisms_and_audited_estimators_has_mutants():
    files = {m.file for m in MUTANTS}
    new = {e.module for e in ESTIMATORS.values()} - {ESTIMATORS[name].module for name in AUDITED}
    files |= {f"{module.replace('.', '/')}.py" for module in new}
    for folder in (
        "engines",
        "privacy",
        "mechanisms",
        "linear",
        "estimation",
        "location",
        "regression",
        "selection",
    ):
        public = {f"dpstats/{folder}/{p.name}" for p in (ROOT / "dpstats" / folder).glob("[!_]*.py")}
        assert public - files <= OTHERS, sorted(public - files)


#: Facts, tables and the front door of a choice: no arithmetic of privacy, or none that is not done elsewhere.
OTHERS = {
    "dpstats/engines/progress.py",
    "dpstats/estimation/saved.py",
    "dpstats/linear/glm_release.py",
    "dpstats/privacy/guarantee.py",
    "dpstats/selection/features.py",
}


@pytest.mark.slow
def test_every_named_test_exists(request):
    """Those that this run has not collected are collected by another, which takes a while."""
    here = {part for item in request.session.items for part in (item.nodeid, item.nodeid.split("[")[0])}
    here |= {test.rpartition("::")[0] for test in here}
    names = sorted({test for m in MUTANTS for test in m.tests} - here)
    if not names:
        return
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", *names],
        cwd=ROOT, capture_output=True, text=True, check=False, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


# -- the runner on a made-up project ---------------------------------------------------------------------

CODE = "STEP = 2\n\n\ndef double(x):\n    return STEP * x\n\n\ndef triple(x):\n    return 3 * x\n"
TESTS = "from toy.code import double\n\n\ndef test_double():\n    assert double(4) == 8\n"
KILLED = runner.Mutant(
    "killed", "toy/code.py", "STEP = 2", "STEP = 1", "it halves", ("test_code.py::test_double",)
)
ALIVE = replace(KILLED, id="alive", old="3 * x", new="4 * x")
GONE = replace(KILLED, id="gone", old="5 * x", new="6 * x")
TWICE = replace(KILLED, id="twice", old="return ", new="return -")
BROKEN = replace(KILLED, id="broken", old="STEP = 2", new="STEP = (")


@pytest.fixture
def project(tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "__init__.py").write_text("")
    (tmp_path / "toy" / "code.py").write_text(CODE)
    (tmp_path / "test_code.py").write_text(TESTS)
    return tmp_path


def outcome(project, *mutants):
    """Exit status and output of the runner."""
    fields = ("id", "file", "old", "new", "why")
    lines = [
        "[[mutant]]\n" + "".join(f"{f} = '{getattr(m, f)}'\n" for f in fields) + f"tests = {list(m.tests)}\n"
        for m in mutants
    ]
    (project / "list.toml").write_text("\n".join(lines))
    command = [sys.executable, HERE / "run.py", "--root", project, "--list", project / "list.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_what_lives_or_cannot_run_is_reported(project):
    status, text = outcome(project, KILLED, ALIVE, BROKEN)
    assert status == 1
    assert "1 of 3 mutants killed" in text
    assert "alive: ALIVE" in text and "broken: BROKEN" in text and "killed: killed" not in text
    assert (project / "toy" / "code.py").read_text() == CODE
    status, text = outcome(project, KILLED)
    assert status == 0 and "1 of 1 mutants killed" in text


def test_a_line_that_is_gone_or_found_twice_is_reported(project):
    status, text = outcome(project, KILLED, GONE, TWICE)
    assert status == 1
    assert "gone: its line is found 0 times" in text and "twice: its line is found 2 times" in text
    assert "killed  " not in text


@pytest.mark.slow
def test_tests_that_fail_without_a_mutant_are_reported(project):
    (project / "test_code.py").write_text(TESTS.replace("8", "9"))
    status, text = outcome(project, KILLED)
    assert status == 1 and "without any mutant: FAILED test_code.py::test_double" in text


@pytest.mark.slow
def test_a_named_test_that_is_gone_is_reported(project):
    status, text = outcome(project, replace(KILLED, tests=("test_code.py::test_other",)))
    assert status == 1 and "without any mutant: ERROR" in text


@pytest.mark.slow
def test_compiled_functions_of_all_that_import_a_file_are_compiled_anew():
    """A constant of the kernels is compiled into the passes of other files, directly and through others."""
    stale = runner.compiled_after("dpstats/mechanisms/_kernels.py", ROOT)
    assert {
        "dpstats/mechanisms/_kernels.py",
        "dpstats/linear/score_kernels.py",
        "dpstats/linear/subset_kernels.py",
    } <= stale
    assert "dpstats/depth/_plane.py" not in stale
    assert "dpstats/mechanisms/median_slope.py" in runner.compiled_after(
        "dpstats/mechanisms/order_statistics.py", ROOT
    )


def test_caches_that_a_mutant_would_leave_stale_are_taken_out_of_its_copy(project):
    (project / "toy" / "user.py").write_text("from toy.code import double\n")
    (project / "toy" / "other.py").write_text("")
    caches = project / "toy" / "__pycache__"
    caches.mkdir()
    for stem in ("code", "user", "other"):
        (caches / f"{stem}.f-1.py3.nbi").write_text("")
        (caches / f"{stem}.f-1.py3.1.nbc").write_text("")
    copy = runner._mutated(project, project.parent / f"{project.name}-copy", KILLED)
    assert sorted(p.name for p in copy.rglob("*.nb?")) == ["other.f-1.py3.1.nbc", "other.f-1.py3.nbi"]
    assert "STEP = 1" in (copy / "toy" / "code.py").read_text()
