"""One estimate for each declared group of rows, in processes where there are many, or on the workers of a
cluster.

Groups are disjoint: a record is in one of them, so every group has the whole budget (parallel composition;
``docs/privacy/groups.md``).
"""

import functools
import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np

from dpstats._boundary import contained
from dpstats._quiet import quiet
from dpstats._threads import alone
from dpstats._validation import quoted
from dpstats.data.batches import Source
from dpstats.data.clusters import ClusterSource
from dpstats.data.groups import GroupedRows
from dpstats.engines.memory import Memory, lent
from dpstats.engines.progress import progress
from dpstats.errors import FormulaError, ParameterError, ReleaseFailed, SchemaError
from dpstats.estimation.call import B, Call, Estimator, R, T, text_reminder
from dpstats.estimation.units import (
    about_units,
    check_groups_of_units,
    of_one_group,
    opened,
    promised,
)
from dpstats.formula.design import Design
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger import charge_disjoint
from dpstats.results.grouped import GroupedResults
from dpstats.results.parts import Origin

__all__ = ["group_seed", "run_groups"]

_PARALLEL = 256
"""Fewest groups for which processes are started; a public number, since a measured time would not be."""
_AT_ONCE = 16
"""Groups that a process is handed at once."""


def run_groups(
    estimator: Estimator[B, R, T], call: Call, source: Source, design: Design, levels: tuple[Any, ...]
) -> GroupedResults:
    """Estimate every declared group on its own rows; the charge is that of one group."""
    by, name = str(call.by), estimator.name
    names, coded = design.schema.names, design.coded
    there = source if isinstance(source, ClusterSource) and call.unit is None and source.gathers() else None

    def grouped() -> GroupedRows:
        if call.unit is None:
            return GroupedRows(source, names, coded, by, levels)
        rng = Randomness(None if call.seed is None else group_seed(call.seed, len(levels)))
        rows = of_one_group(call, design, source, levels, rng)
        return GroupedRows(rows, (*names, *({call.unit} - set(names))), coded | {call.unit}, by, levels)

    origin = Origin.now(call.seeded)
    read_as_levels = call.reminder(design, by)
    rows, failed = None, {}
    budgets: list[B | None]
    if estimator.needs.public_rows:
        if there is None:
            rows = grouped()
            sizes = [rows.size(i) for i in range(len(levels))]
        else:
            sizes = there.sizes(by, levels)
        budgets, refused = _budgets(estimator, call, design, sizes)
        failed = {levels[i]: str(error) for i, error in refused.items()}
        if len(refused) == len(levels):
            raise ParameterError(f"{refused[0]}{read_as_levels}")
    else:
        budgets = [estimator.budget(design, call, None)] * len(levels)
    # a budget may be divided by the number of rows, and the steps of one group are not those of another
    differing = {id(budget): budget for budget in budgets if budget is not None}.values()
    own = list(dict.fromkeys(promised(budget.guarantee, call) for budget in differing))
    guarantee = own[0] if len(own) == 1 else own[0].replace(spends=())
    check_groups_of_units(name, call, guarantee.neighbours)
    if by in names:
        raise FormulaError(f"the formula has {quoted(by)}, which is constant in each group of by=.")
    guarantee = guarantee.replace(scope=_scope(by, guarantee))
    if call.ledger is not None:
        charge_disjoint(call.ledger, guarantee, own, name, f"{call.written or design.formula}, by {by}")

    todo = [i for i, budget in enumerate(budgets) if budget is not None]
    results = {}
    try:
        key = None if there is None else Randomness().words(4).tobytes()
        fits = _Fits(estimator, replace(call, data=None, ledger=None), design, budgets, key)
        if there is None:
            outcomes = _outcomes(fits, rows or grouped(), todo, name)
        else:
            work = functools.partial(_on_worker, fits, names, coded, by, levels)
            outcomes = _counted(there.gathered(names, by, levels, work), todo, name)
        scoped = functools.cache(lambda guarantee: guarantee.replace(scope=_scope(by, guarantee)))
        for i, outcome in outcomes:
            if isinstance(outcome, ReleaseFailed):
                left_out = f"{text_reminder(design)}{call.unit_reminder}{estimator.needs.reminder}"
                failed[levels[i]] = f"{outcome}{left_out}"
            else:
                result, predicts, limits = outcome
                own = scoped(result.guarantee)
                whole = design if limits is None else design.within(*limits)
                results[levels[i]] = replace(
                    result, guarantee=own, design=whole if predicts else None, origin=origin
                )
        if not results:
            why = f"Of the first: {failed[levels[0]]}{read_as_levels}"
            raise ReleaseFailed(
                f"{name}: none of the {len(levels):,} groups by {by!r} has an estimate. {why}", guarantee
            )
        # (a design may read an offset beside the response)
        formula = next((getattr(r, "formula", design.formula) for r in results.values()), design.formula)
        return GroupedResults(name, formula, by, levels, results, failed, guarantee, origin)
    except Exception as error:
        raise contained(error, name, guarantee) from None


def _budgets(
    estimator: Estimator[B, R, T], call: Call, design: Design, sizes: list[int]
) -> tuple[list[B | None], dict[int, ParameterError]]:
    """The budget of every group where the sizes are public, None where one is refused, and those refusals."""

    @functools.cache
    def of_size(size: int) -> B | ParameterError:
        if size == 0:
            return ParameterError(f"{estimator.name}: there are no rows.")
        try:
            return estimator.budget(design, call, size)
        except ParameterError as error:
            return error

    found = [of_size(size) for size in sizes]
    budgets = [None if isinstance(each, ParameterError) else each for each in found]
    return budgets, {i: each for i, each in enumerate(found) if isinstance(each, ParameterError)}


def _scope(by: str, guarantee: Guarantee) -> str:
    """The sentence that qualifies the promise."""
    text = f"the groups by {by!r} are disjoint, so each has the whole budget (parallel composition)."
    if guarantee.unit is not None:
        text += f" Of a {guarantee.unit!r} with rows in several groups those of one count, drawn at random."
    if guarantee.neighbours == "substitution":
        text += (
            " A neighbour replaces a record by one of the same group: the group of each record, and with it "
            "the sizes of the groups, are public. A record that may change its group costs twice."
        )
    return text


def group_seed(seed: int, i: int) -> int:
    """A seed for the `i`-th group, whatever process it runs in."""
    return int(np.random.SeedSequence([seed, i]).generate_state(1, np.uint64)[0])


# -- the fit of a group ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fits(Generic[B, R, T]):
    """What is done to every group, wherever that is.

    Attributes
    ----------
    estimator : Estimator
    call : Call
        Without data and ledger.
    design : Design
    budgets : list
        Of every group; None for one that is refused.
    key : bytes or None
        On a cluster, of what is drawn without a seed: a task that runs again draws the same.
    """

    estimator: Estimator[B, R, T]
    call: Call
    design: Design
    budgets: list[B | None]
    key: bytes | None

    def randomness(self, i: int) -> Randomness:
        """What the `i`-th group is released with."""
        key = None if self.key is None else self.key + i.to_bytes(8, "little")
        return Randomness(None if self.call.seed is None else group_seed(self.call.seed, i), key)

    def outcome(self, rows: GroupedRows, i: int) -> Any:
        """The results of a group without the design that all groups share, whether they had it, and their
        limits; or the private test that failed."""
        estimator, call, design, rng = self.estimator, self.call, self.design, self.randomness(i)
        budget = self.budgets[i]
        assert budget is not None
        try:
            with np.errstate(all="ignore"):
                with opened(estimator, call, design, rows.group(i), rng) as blocks:
                    released = estimator.release(blocks, budget, rng)
                result: Any = about_units(estimator.results(design, budget, released), estimator, call)
                result = call.about_bounds(result, design)
        except Exception as error:
            failure = contained(error, estimator.name)
            if not isinstance(failure, ReleaseFailed):
                raise failure from None
            return ReleaseFailed(str(failure))
        predicts = isinstance(result.design, Design)
        return replace(result, design=None), predicts, result.design.limits if predicts else None


def _on_worker(
    fits: _Fits[Any, Any, Any],
    names: Sequence[str],
    coded: frozenset[str],
    by: str,
    levels: tuple[Any, ...],
    source: Source,
    groups: range,
) -> list[tuple[int, Any]]:
    """The outcomes of a range of groups, whose rows a worker has."""
    rows = GroupedRows(source, names, coded, by, levels)
    with lent(Memory()):
        return [(i, fits.outcome(rows, i)) for i in groups if fits.budgets[i] is not None]


def _counted(
    parts: Iterator[list[tuple[int, Any]]], todo: list[int], label: str
) -> Iterator[tuple[int, Any]]:
    """The outcomes of all ranges, with a progress bar; an error unless every group has one."""
    seen = 0
    with progress(len(todo), label, "group") as bar:
        for part in parts:
            yield from part
            seen += len(part)
            bar.update(len(part))
    if seen != len(todo):
        raise SchemaError("not all groups came back from the cluster.")


# -- processes ---------------------------------------------------------------------------------------------

_TASK: Callable[[int], Any] | None = None
"""What a worker process runs: set in the worker alone, as threads may have workers of their own."""


def _begin(task: Callable[[int], Any]) -> None:
    """What a worker process does first. The task is inherited, so nothing of it need be pickled."""
    global _TASK
    _TASK = task
    alone()
    # what it has inherited stays
    gc.freeze()


def _work(positions: list[int]) -> list[tuple[int, Any]]:
    assert _TASK is not None
    return [(i, _TASK(i)) for i in positions]


def _workers(groups: int) -> int:
    """How many processes to use, from public facts: the platform, the processors and the number of groups."""
    if sys.platform != "linux" or groups < _PARALLEL or multiprocessing.current_process().daemon:
        return 1
    return min(len(os.sched_getaffinity(0)), groups // _AT_ONCE)


def _outcomes(
    fits: _Fits[Any, Any, Any], rows: GroupedRows, todo: list[int], label: str
) -> Iterator[tuple[int, Any]]:
    """Yield ``(i, outcome)`` for every group, in any order; `label` is for the progress bar."""
    one = functools.partial(fits.outcome, rows)
    with progress(len(todo), label, "group") as bar:
        workers = _workers(len(todo))
        # the first groups run here: what they compile, the others inherit
        first, rest = (todo[:1], todo[1:]) if workers > 1 else (todo, [])
        for i in first:
            yield i, one(i)
            bar.update(1)
        if not rest:
            return
        with ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), _begin, (one,)) as pool:
            handed = [rest[k : k + _AT_ONCE] for k in range(0, len(rest), _AT_ONCE)]
            with quiet():  # about forking beside threads: the workers run none of them
                working = [pool.submit(_work, positions) for positions in handed]
            for done in as_completed(working):
                yield from done.result()
                bar.update(len(done.result()))
