"""Tests that need R: skipped with a reason where it is missing, failed when DPSTATS_REQUIRE_R=1.

``@pytest.mark.r`` needs R, ``@pytest.mark.r("ddalpha")`` also that package; ``@pytest.mark.mrfdepth`` needs
the package mrfDepth and is always skipped without it. The fixture ``robjects`` gives ``rpy2.robjects``.
"""

import functools
import gc
import os
import runpy
import shutil
import subprocess
from pathlib import Path

import hypothesis
import pytest

# the same examples in every run: a failure is a change, not a draw
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")


_ASKED = set()
"""Packages of R that the tests of this run need."""


@functools.cache
def _not_loaded(packages):
    """Those packages that R cannot load, or None if it cannot be asked."""
    # one process for all of them: what they have in common is loaded once
    code = "cat(Filter(function(p) !requireNamespace(p, quietly = TRUE), commandArgs(TRUE)), sep = ', ')"
    command = [shutil.which("Rscript"), "--vanilla", "-e", code, *sorted(packages)]
    found = subprocess.run(command, capture_output=True, check=False)
    return None if found.returncode else found.stdout.decode(errors="replace").split(", ")


def _r_lacks(*packages):
    """Why R cannot load the packages, or an empty string."""
    if shutil.which("Rscript") is None:
        return "R is not installed"
    if not packages:
        return ""
    not_loaded = _not_loaded(frozenset(_ASKED).union(packages))
    if not_loaded is None:
        return f"R cannot be asked for {', '.join(packages)}"
    missing = [package for package in packages if package in not_loaded]
    return f"R cannot load: {', '.join(missing)}" if missing else ""


@pytest.fixture(autouse=True, scope="module")
def errors_as_they_are():
    """A crash fails a test as the error that it is, and is not taken for a private test that failed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPSTATS_DEBUG", "1")
        yield


def _give_up(reason):
    if os.environ.get("DPSTATS_REQUIRE_R") == "1":
        pytest.fail(f"{reason}, and DPSTATS_REQUIRE_R=1")
    pytest.skip(reason)


def pytest_runtest_setup(item):
    if item.get_closest_marker("mrfdepth") is not None and (reason := _r_lacks("mrfDepth")):
        pytest.skip(reason)
    for marker in item.iter_markers("r"):
        if reason := _r_lacks(*marker.args):
            _give_up(reason)


@pytest.fixture(scope="session")
def robjects():
    """``rpy2.robjects``, with R running in this process."""
    if reason := _r_lacks():
        _give_up(reason)
    try:
        import rpy2.robjects
    except Exception as error:  # rpy2 fails in many ways when it does not fit the installed R
        _give_up(f"rpy2 cannot be imported ({type(error).__name__}: {error})")
    return rpy2.robjects


@pytest.fixture(scope="session")
def r_library(tmp_path_factory):
    """A library with the R package: the first process that asks builds and installs it, for all of them.

    Vignettes have no chunk that runs, and ``make lint`` builds them; help pages are converted by
    ``test_gallery.py``; whoever uses the library loads it.
    """
    import fcntl

    check = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "check_r.py"))
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    library = shared / "r_library"
    with (shared / "r_library.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            folder = tmp_path_factory.mktemp("r_package")
            archive = check["built"](folder, "--no-build-vignettes")
            made = folder / "library"
            made.mkdir()
            options = ("--no-docs", "--no-test-load", f"--library={made}")
            done = check["r"]("INSTALL", *options, archive, cwd=folder)
            assert done.returncode == 0, done.stdout[-3000:]
            made.rename(library)
    return library


def pytest_collection_modifyitems(items):
    """R's check of its package takes longest: of two processes the other one would wait for it at the end."""
    items.sort(key=lambda item: item.path.name != "test_r_package.py")


# Tests and their modules are nearly a million objects that live on, and to look for garbage among them takes
# some tenths of a second each time.
def pytest_collection(session):
    gc.disable()


def pytest_collection_finish(session):
    for item in session.items:
        _ASKED.update(*(marker.args for marker in item.iter_markers("r")))
        if item.get_closest_marker("mrfdepth") is not None:
            _ASKED.add("mrfDepth")
    gc.freeze()
    gc.enable()
