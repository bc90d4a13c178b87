"""Tests that need R: skipped with a reason where it is missing, failed when DPSTATS_REQUIRE_R=1.

``@pytest.mark.r`` needs R, ``@pytest.mark.r("ddalpha")`` also that package; ``@pytest.mark.mrfdepth`` needs
the package mrfDepth and is always skipped without it. The fixture ``robjects`` gives ``rpy2.robjects``.
"""

import functools
import gc
import os
import shutil
import subprocess
from pathlib import Path

import hypothesis
import pytest

# the same examples in every run: a failure is a change, not a draw
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")


@functools.cache
def _r_lacks(package):
    """Why R cannot load a package (None: base R), or an empty string."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return "R is not installed"
    if package is None:
        return ""
    code = f"quit(status = !requireNamespace('{package}', quietly = TRUE))"
    found = subprocess.run([rscript, "--vanilla", "-e", code], capture_output=True, check=False)
    return "" if found.returncode == 0 else f"the R package {package} is not installed"


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
        for package in marker.args or (None,):
            if reason := _r_lacks(package):
                _give_up(reason)


@pytest.fixture(scope="session")
def robjects():
    """``rpy2.robjects``, with R running in this process."""
    if reason := _r_lacks(None):
        _give_up(reason)
    try:
        import rpy2.robjects
    except Exception as error:  # rpy2 fails in many ways when it does not fit the installed R
        _give_up(f"rpy2 cannot be imported ({type(error).__name__}: {error})")
    return rpy2.robjects


@pytest.fixture(scope="session")
def r_library(tmp_path_factory):
    """A library with the R package as it is in the source tree."""
    library = tmp_path_factory.mktemp("r_library")
    built = ["R", "CMD", "INSTALL", "--no-docs", "--no-test-load", f"--library={library}"]
    source = Path(__file__).parents[1] / "r_bridge"
    done = subprocess.run([*built, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return library


def pytest_collection_modifyitems(items):
    """R's check of its package takes longest: of two processes the other one would wait for it at the end."""
    items.sort(key=lambda item: item.path.name != "test_r_package.py")


# Tests and their modules are nearly a million objects that live on, and to look for garbage among them takes
# some tenths of a second each time.
def pytest_collection(session):
    gc.disable()


def pytest_collection_finish(session):
    gc.freeze()
    gc.enable()
