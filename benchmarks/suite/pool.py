"""Tasks in worker processes: one thread each, a time limit each, and none takes the others down."""

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

LIMIT = 900  # seconds of one task
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run(function, tasks, workers, threads=1, limit=LIMIT):
    """Yield ``(task, result, error)`` in the order in which tasks end.

    Parameters
    ----------
    function : callable
        Importable; called with one task.
    tasks : list
    workers : int
    threads : int or None
        Threads of each worker's numerical libraries; None leaves them at what they take.
    limit : float
        Seconds after which a task is given up.

    Yields
    ------
    task, result, error
        Either `result` is what `function` returned, or `error` is a text.
    """
    lost = []
    yield from _pool(function, tasks, workers, threads, limit, lost)
    for task in lost:  # a worker died and took the pool along: one at a time, to find the one that kills
        again = []
        yield from _pool(function, [task], 1, threads, limit, again)
        if again:
            yield task, None, "the process died"


def _pool(function, tasks, workers, threads, limit, lost):
    if not tasks:
        return
    context = multiprocessing.get_context("spawn")
    before = {name: os.environ.get(name) for name in THREADS}
    if threads is not None:
        os.environ.update(dict.fromkeys(THREADS, str(threads)))
    try:
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            futures = {pool.submit(_limited, function, task, limit): task for task in tasks}
            for future in as_completed(futures):
                try:
                    result, error = future.result(), None
                except BrokenProcessPool:
                    lost.append(futures[future])
                    continue
                except Exception as problem:
                    result, error = None, f"{type(problem).__name__}: {problem}"
                yield futures[future], result, error
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _limited(function, task, limit):
    def stop(*_):
        raise TimeoutError(f"more than {limit:g} s")

    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        return function(task)
    finally:
        if hasattr(signal, "SIGALRM"):
            signal.setitimer(signal.ITIMER_REAL, 0)
