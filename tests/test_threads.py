"""The pool of threads."""

import os
import threading

import numpy as np
import pytest

from dpstats import _threads
from dpstats._threads import WORKERS, alone, in_threads, one_thread, pieces


def test_jobs_run_together_and_return_in_order():
    assert in_threads([lambda: 1]) == [1]
    names = in_threads([lambda: threading.current_thread().name] * min(WORKERS, 2))
    assert names[0] == threading.current_thread().name
    assert in_threads([lambda i=i: i for i in range(10)]) == list(range(10))


@pytest.mark.filterwarnings("error")
def test_no_thread_warns_of_numbers():
    """NumPy's settings are those of a thread, and what overflows may be one row's doing."""
    with np.errstate(all="ignore"):
        assert in_threads([lambda: np.array([1e200]) ** 2] * 3) == [np.inf] * 3


def test_one_of_several_processes_runs_no_threads(monkeypatch):
    monkeypatch.setattr(_threads, "_ALONE", False)
    alone()
    names = in_threads([lambda: threading.current_thread().name] * 4)
    assert names == [threading.current_thread().name] * 4


def test_one_of_several_tasks_runs_no_threads_and_leaves_the_others_theirs():
    me = threading.current_thread().name
    with one_thread():
        with one_thread():
            pass
        assert in_threads([lambda: threading.current_thread().name] * 4) == [me] * 4
    assert in_threads([lambda: threading.current_thread().name] * 4) != [me] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_threads_work_in_a_forked_child():
    in_threads([int, int])
    child = os.fork()
    if child == 0:
        os._exit(0 if in_threads([lambda: 1, lambda: 2]) == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_pieces_cover_the_rows_in_their_order():
    for rows in (0, 1, 9, 10, 11, 95, 1000):
        cut = pieces(rows, 10, 4)
        assert [row for piece in cut for row in range(rows)[piece]] == list(range(rows))
        assert len(cut) == max(1, min(4, rows // 10))
