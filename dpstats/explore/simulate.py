"""Many runs of a whole estimator on made-up or public tables, in processes where there is enough to do."""

import contextlib
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import dpstats._threads
from dpstats._quiet import quiet
from dpstats._types import Booleans, Floats
from dpstats.engines.progress import progress
from dpstats.errors import ReleaseFailed
from dpstats.explore.lookalike import Lookalike
from dpstats.explore.response import Response, classical
from dpstats.formula.design import Design

__all__ = ["Progress", "Runs", "Simulation", "Task"]

Progress = Callable[[int, int], object]
_SECONDS = 4.0
"""Work for which processes are started, and a bar is shown."""
_AT_ONCE = 5


class _Outcome(NamedTuple):
    """One table: standard errors without privacy (d,), and of each eps (k, d), and what was refused (k,)."""

    plain: Floats
    se: Floats
    width: Floats
    refused: Booleans


@dataclass(frozen=True)
class Task:
    """What is simulated. It pickles, so that any kind of process can run it.

    Attributes
    ----------
    function : callable
        The estimator.
    formula : str
    like : Lookalike
    design : Design
    response : Response or None
    alpha : float
    seed : int
    robust : bool
        Of the standard errors without privacy.
    options : dict
        The estimator's own parameters, and its `delta`.
    """

    function: Callable[..., Any]
    formula: str
    like: Lookalike
    design: Design
    response: Response | None
    alpha: float
    seed: int
    robust: bool
    options: Mapping[str, Any]

    @property
    def terms(self) -> tuple[str, ...]:
        return self.design.column_names

    def run(self, n: int, number: int, budgets: Sequence[float]) -> _Outcome:
        """One table of `n` rows and a release for each `eps`; the same whatever process runs it."""
        rng = np.random.default_rng([self.seed, n, number])
        own = int(np.random.SeedSequence([self.seed, n, number, 1]).generate_state(1, np.uint64)[0])
        frame = self.like.draw(n, rng)
        if self.response is not None:
            frame = self.response.add(frame, rng)
        d = len(self.terms)
        se, width = np.full((2, len(budgets), d), np.nan)
        refused = np.zeros(len(budgets), bool)
        plain = classical(self.design, frame, self.function.__name__, self.robust)
        for k, eps in enumerate(budgets):
            try:
                fit = self.function(self.formula, frame, eps=eps, seed=own, **self.options)
            except ReleaseFailed:
                refused[k] = True
                continue
            low, high = fit.conf_int(self.alpha).to_numpy().T
            se[k], width[k] = fit.bse.to_numpy(), high - low
        return _Outcome(plain, se, width, refused)


@dataclass(frozen=True)
class Runs:
    """Outcomes of many tables: arrays whose first axis is the table, the second `eps`, the third the term."""

    plain: Floats
    se: Floats
    width: Floats
    refused: Booleans

    @classmethod
    def of(cls, outcomes: Iterable[_Outcome]) -> "Runs":
        return cls(*map(np.array, zip(*outcomes, strict=True)))

    def __len__(self) -> int:
        return len(self.plain)


def median(values: Floats) -> tuple[float, float]:
    """The median of a sample without its NaN, and its standard error by order statistics."""
    values = np.sort(values[~np.isnan(values)])
    if not len(values):
        return math.nan, math.nan
    low, high = np.quantile(values, _around(len(values)))
    return float(np.median(values)), float(high - low) / 2


def _around(n: int) -> tuple[float, float]:
    """Shares one standard error below and above the median of `n` values."""
    half = 0.5 / math.sqrt(n)
    return max(0.0, 0.5 - half), min(1.0, 0.5 + half)


@dataclass
class Simulation:
    """Runs a task, in this process first.

    Parameters
    ----------
    task : Task
    processes : int or None
        None is two where there is enough to do.
    progress : callable or bool or None
        None and True are a bar of tqdm where it is installed.
    """

    task: Task
    processes: int | None
    progress: Progress | bool | None
    _pool: ProcessPoolExecutor | None = field(default=None, init=False)
    _seconds: float = field(default=math.inf, init=False)
    _done: int = field(default=0, init=False)
    _expected: int = field(default=0, init=False)
    _bar: Any = field(default=None, init=False)

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def expect(self, tables: int) -> None:
        """Say that there will be so many more tables, for the progress alone."""
        self._expected += tables

    def outcomes(self, n: int, numbers: range, budgets: Sequence[float]) -> Iterator[_Outcome]:
        """The outcomes of tables of `n` rows, in the order of their numbers."""
        left = list(numbers)
        while left and not self._parallel(len(left), n):
            start = time.perf_counter()
            yield self.task.run(n, left.pop(0), budgets)
            # the first compiles, and is no measure
            taken = (time.perf_counter() - start) / n
            self._seconds = min(self._seconds, taken) if self._done else math.inf
            self._tick(1)
        if not left:
            return
        assert self._pool is not None
        pieces = [left[k : k + _AT_ONCE] for k in range(0, len(left), _AT_ONCE)]
        for found in self._pool.map(_work, [(n, piece, tuple(budgets)) for piece in pieces]):
            yield from found
            self._tick(len(found))

    def _tick(self, tables: int) -> None:
        self._done += tables
        self._expected = max(self._expected, self._done)
        if callable(self.progress):
            self.progress(self._done, self._expected)
        elif self.progress is not False:
            if self._bar is None:
                asked = self.progress is not None
                self._bar = progress(0, "plan", "table", everywhere=asked, delay=_SECONDS)
            self._bar.total = self._expected
            self._bar.update(tables)

    def _parallel(self, tables: int, n: int) -> bool:
        """Whether there are processes; they are started where the work left takes a while."""
        if self._pool is not None:
            return True
        if self.processes == 1 or self._done == 0 or multiprocessing.current_process().daemon:
            return False
        linux = sys.platform == "linux"
        if self.processes is None:
            left = max(tables, self._expected - self._done)
            enough = linux and math.isfinite(self._seconds) and left * n * self._seconds > _SECONDS
            if not enough:
                return False
        workers = min(self.processes or 2, len(os.sched_getaffinity(0)) if linux else os.cpu_count() or 1)
        if workers == 1 and self.processes is None:
            return False
        context = multiprocessing.get_context("fork" if linux else "spawn")
        with quiet():  # about forking beside threads: the workers run none of them
            self._pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(self.task,))
            self._pool.submit(os.getpid).result()
        return True


_TASK: Task | None = None


def _start(task: Task) -> None:
    global _TASK
    _TASK = task
    dpstats._threads.alone()
    with contextlib.suppress(ImportError):
        import threadpoolctl

        threadpoolctl.threadpool_limits(1)


def _work(piece: tuple[int, list[int], tuple[float, ...]]) -> list[_Outcome]:
    assert _TASK is not None
    n, numbers, budgets = piece
    return [_TASK.run(n, number, budgets) for number in numbers]
