"""Code without its warnings, in threads whose calls overlap and in forked children."""

import os
import re
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import dpstats
from dpstats import _quiet
from dpstats._quiet import quiet
from dpstats.data.batches import read_safely
from dpstats.engines.partitions import attempted

PACKAGE = Path(dpstats.__file__).parent


@pytest.fixture(autouse=True)
def filters():
    """What every test must leave as it was, while all warnings are heard."""
    fit()  # what it imports has filters of its own
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        before = list(warnings.filters)
        yield
        assert warnings.filters == before
        assert not _quiet._INSIDE


def heard():
    """Whether a warning is an error, as the fixture has it."""
    try:
        warnings.warn("row 7 is odd", stacklevel=2)
    except UserWarning:
        return True
    return False


def quietly(step):
    with quiet():
        step()


def fit():
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=300).astype(object), "y": rng.normal(size=300)}
    return dpstats.mean("y + x ~ 1", data, eps=9)


def in_a_thread(work):
    """Run it, and return a function that waits for its end."""
    thread = threading.Thread(target=work)
    thread.start()
    return lambda: thread.join(30)


def test_nothing_is_heard_inside_and_all_outside():
    assert heard()
    with quiet():
        assert not heard()
        with quiet():
            assert not heard()
        assert not heard()
    assert heard()
    with pytest.raises(ZeroDivisionError), quiet():
        1 / 0  # noqa: B018
    assert heard()


@pytest.mark.parametrize("entered", [read_safely, lambda step: attempted(step, ""), quietly])
def test_of_two_threads_the_last_one_out_restores(entered):
    """The second comes while the first is inside, and stays longer."""
    inside, go = threading.Event(), threading.Event()
    found = []

    def second():
        entered(lambda: (inside.set(), go.wait(30), found.append(heard())))

    def first():
        done.append(in_a_thread(second))
        assert inside.wait(30)

    done = []
    entered(first)
    assert not heard()  # the other is inside
    go.set()
    done[0]()
    assert found == [False]
    assert heard()


@pytest.mark.slow
def test_threads_that_fit_at_once_leave_the_filters_as_they_were():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for done in [in_a_thread(lambda: [fit() for _ in range(25)]) for _ in range(4)]:
            done()
    finally:
        sys.setswitchinterval(interval)
    assert heard()


@pytest.mark.parametrize("first_out", ["theirs", "ours"])
def test_filters_that_others_put_in_place_meanwhile_stay_theirs(first_out):
    """Another thread uses `catch_warnings` itself, and was in it before, or comes into it while we are
    inside."""
    come, go = threading.Event(), threading.Event()

    def theirs():
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            come.set()
            go.wait(30)

    if first_out == "theirs":
        done = in_a_thread(theirs)
        assert come.wait(30)
        with quiet():
            go.set()
            done()
    else:
        with quiet():
            done = in_a_thread(theirs)
            assert come.wait(30)
        go.set()
        done()
    assert heard()


def test_a_filter_of_others_that_ignores_everything_stays():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with quiet():
            pass
        assert not heard()
    assert heard()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("forks", ["outside", "inside"])
def test_a_child_forked_while_another_thread_is_inside(forks):
    inside, go = threading.Event(), threading.Event()

    def other():
        with quiet():
            inside.set()
            go.wait(30)

    done = in_a_thread(other)
    assert inside.wait(30)
    if forks == "outside":
        if not (child := os.fork()):
            ok = heard() and not _quiet._INSIDE
            with quiet():
                ok = ok and not heard()
            os._exit(0 if ok and heard() else 1)
    else:
        with quiet():
            if not (child := os.fork()):
                ok = not heard()
        if not child:
            os._exit(0 if ok and heard() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not heard()
    go.set()
    done()


def test_no_other_place_keeps_filters_for_itself():
    """But the bridge to R, which has one thread, where it collects the warnings themselves."""
    for path in PACKAGE.rglob("*.py"):
        found = re.findall(r"\bwarnings\.(?:catch_warnings|simplefilter|filterwarnings)\(", path.read_text())
        assert len(found) == (2 if path.name == "bridge.py" else 0), path.name
