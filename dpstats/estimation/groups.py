"""One estimate for each declared group of rows, in processes where there are many.

Groups are disjoint: a record is in one of them, so every group has the whole budget (parallel composition;
``docs/privacy/groups.md``).
"""

import contextlib
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from dpstats._boundary import contained
from dpstats._threads import alone
from dpstats.data.groups import GroupedRows
from dpstats.data.sources import Source
from dpstats.errors import ParameterError, ReleaseFailed
from dpstats.estimation.call import Budget, Call, Estimator
from dpstats.estimation.units import about_units, of_one_group, opened, promised
from dpstats.formula.design import Design
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.grouped import GroupedResults
from dpstats.results.parts import Origin

__all__ = ["group_seed", "run_groups"]

_PARALLEL = 256
"""Fewest groups for which processes are started; a public number, since a measured time would not be."""
_AT_ONCE = 16
"""Groups that a process is handed at once."""

B = TypeVar("B", bound=Budget)
R = TypeVar("R")
T = TypeVar("T")


def run_groups(
    estimator: Estimator[B, R, T], call: Call, source: Source, design: Design, levels: tuple[Any, ...]
) -> GroupedResults:
    """Estimate every declared group on its own rows; the charge is that of one group."""
    by, name = str(call.by), estimator.name

    def grouped() -> GroupedRows:
        names, coded, rows = design.schema.names, design.coded, source
        if call.unit is not None:
            rng = Randomness(None if call.seed is None else group_seed(call.seed, len(levels)))
            rows = of_one_group(call, design, source, levels, rng)
            names, coded = (*names, *({call.unit} - set(names))), coded | {call.unit}
        return GroupedRows(rows, names, coded, by, levels)

    origin = Origin.now(call.seeded)
    rows, failed = None, {}
    budgets: list[B | None]
    if estimator.needs.public_rows:
        rows = grouped()
        budgets, refused = _budgets(estimator, call, design, [rows.size(i) for i in range(len(levels))])
        failed = {levels[i]: str(error) for i, error in refused.items()}
        if len(refused) == len(levels):
            raise refused[0]
    else:
        budgets = [estimator.budget(design, call, None)] * len(levels)
    guarantee = next(b for b in budgets if b is not None).guarantee
    guarantee = promised(guarantee.replace(scope=_scope(by, guarantee)), call)
    if call.ledger is not None:
        call.ledger.charge(guarantee, name, f"{design.formula}, by {by}")

    def one(i: int) -> T:
        rng = Randomness(None if call.seed is None else group_seed(call.seed, i))
        budget = budgets[i]
        assert rows is not None and budget is not None
        try:
            with np.errstate(all="ignore"):
                with opened(call, design, rows.group(i), rng) as blocks:
                    released = estimator.release(blocks, budget, rng)
                results: T = about_units(estimator.results(design, budget, released), estimator, call)
                return results
        except Exception as error:
            raise contained(error, name) from None

    todo = [i for i, budget in enumerate(budgets) if budget is not None]
    results = {}
    try:
        rows = rows or grouped()
        for i, outcome in _outcomes(one, todo, name):
            if isinstance(outcome, ReleaseFailed):
                failed[levels[i]] = f"{outcome}{design.reminder}{estimator.needs.reminder}"
            else:
                result, predicts, limits = outcome
                own = result.guarantee.replace(scope=guarantee.scope)
                whole = design if limits is None else design.within(*limits)
                results[levels[i]] = replace(
                    result, guarantee=own, design=whole if predicts else None, origin=origin
                )
        return GroupedResults(name, design.formula, by, levels, results, failed, guarantee, origin)
    except Exception as error:
        raise contained(error, name, guarantee) from None


def _budgets(
    estimator: Estimator[B, R, T], call: Call, design: Design, sizes: list[int]
) -> tuple[list[B | None], dict[int, ParameterError]]:
    """The budget of every group where the sizes are public, None where one is refused, and those refusals."""
    budgets: list[B | None] = []
    refused: dict[int, ParameterError] = {}
    for i, size in enumerate(sizes):
        try:
            if size == 0:
                raise ParameterError(f"{estimator.name}: there are no rows.")
            budgets.append(estimator.budget(design, call, size))
        except ParameterError as error:
            budgets.append(None)
            refused[i] = error
    return budgets, refused


def _scope(by: str, guarantee: Guarantee) -> str:
    """The sentence that qualifies the promise."""
    text = f"the groups by {by!r} are disjoint, so each has the whole budget (parallel composition)."
    if guarantee.neighbours == "substitution":
        text += (
            " A neighbour replaces a record by one of the same group: the group of each record, and with it "
            "the sizes of the groups, are public. A record that may change its group costs twice."
        )
    return text


def group_seed(seed: int, i: int) -> int:
    """A seed for the `i`-th group, whatever process it runs in."""
    return int(np.random.SeedSequence([seed, i]).generate_state(1, np.uint64)[0])


# -- processes ---------------------------------------------------------------------------------------------

_TASK: Callable[[int], Any] | None = None
"""What a worker process runs; it is inherited, so nothing of it need be pickled."""


def _outcome(one: Callable[[int], Any], i: int) -> Any:
    """The results of a group without the design that all groups share, whether they had it, and their limits;
    or the private test that failed."""
    try:
        result = one(i)
    except ReleaseFailed as failure:
        return ReleaseFailed(str(failure))
    design = result.design
    predicts = isinstance(design, Design)
    return replace(result, design=None), predicts, design.limits if predicts else None


def _work(positions: list[int]) -> list[tuple[int, Any]]:
    assert _TASK is not None
    return [(i, _outcome(_TASK, i)) for i in positions]


def _workers(groups: int) -> int:
    """How many processes to use, from public facts: the platform, the processors and the number of groups."""
    if sys.platform != "linux" or groups < _PARALLEL or multiprocessing.current_process().daemon:
        return 1
    return min(len(os.sched_getaffinity(0)), groups // _AT_ONCE)


def _outcomes(one: Callable[[int], Any], todo: list[int], label: str) -> Iterator[tuple[int, Any]]:
    """Yield ``(i, outcome)`` for every group, in any order; `label` is for the progress bar."""
    global _TASK
    with _progress(len(todo), label) as bar:
        workers = _workers(len(todo))
        # the first groups run here: what they compile, the others inherit
        first, rest = (todo[:1], todo[1:]) if workers > 1 else (todo, [])
        for i in first:
            yield i, _outcome(one, i)
            bar.update(1)
        if not rest:
            return
        _TASK = one
        try:
            with warnings.catch_warnings():
                # forking beside threads: the workers run none of them
                warnings.simplefilter("ignore", DeprecationWarning)
                with ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), alone) as pool:
                    handed = [rest[k : k + _AT_ONCE] for k in range(0, len(rest), _AT_ONCE)]
                    for done in as_completed([pool.submit(_work, positions) for positions in handed]):
                        yield from done.result()
                        bar.update(len(done.result()))
        finally:
            _TASK = None


def _progress(total: int, label: str) -> Any:
    """tqdm's bar on a terminal, for what takes more than a second; nothing where tqdm is not installed."""
    try:
        with warnings.catch_warnings():
            # in a notebook without widgets it says so, with its path
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError:
        return contextlib.nullcontext(_NoBar)
    return tqdm(total=total, desc=label, unit="group", disable=None, delay=1)


class _NoBar:
    @staticmethod
    def update(steps: int) -> None:
        pass
