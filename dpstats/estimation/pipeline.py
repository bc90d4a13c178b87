"""The path of every call: public checks, budget, charge, release, results."""

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from dpstats._boundary import contained
from dpstats.data.batches import Source
from dpstats.data.groups import group_levels
from dpstats.data.schema import Column, Schema
from dpstats.data.sources import open_source
from dpstats.errors import ReleaseFailed
from dpstats.estimation.call import B, Call, Estimator, R, T, text_reminder
from dpstats.estimation.groups import run_groups
from dpstats.estimation.units import about_units, check_units, count_units, opened, promised
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.filters import stopped_early
from dpstats.privacy.ledger import reserve
from dpstats.results.grouped import GroupedResults
from dpstats.results.parts import Origin

__all__ = ["run"]


def run(estimator: Estimator[B, R, T], call: Call) -> T | GroupedResults:
    """Run one private estimator from formula to results.

    Parameters
    ----------
    estimator : Estimator
    call : Call

    Returns
    -------
    What ``estimator.results`` returns, or a GroupedResults of it.

    Notes
    -----
    The order is the point: everything that can go wrong for public reasons goes wrong first, then the
    whole budget is charged durably, and only then is a row of data read. What goes wrong after that without
    being foreseen becomes a ReleaseFailed that does not say what it was (:mod:`dpstats._boundary`).
    """
    call = call.checked(estimator.needs)
    source = open_source(call.data)
    try:
        return _run(estimator, call, source)
    finally:
        if source is not call.data:
            source.close()


def _run(estimator: Estimator[B, R, T], call: Call, source: Source) -> T | GroupedResults:
    origin, rng = Origin.now(call.seeded), Randomness(call.seed)
    schema = Schema.of(source, levels=call.levels, bounds=call.bounds)
    design = estimator.design(call, schema)
    levels = None if call.by is None else group_levels(call.by, schema)
    check_units(estimator, call, schema)
    estimator.needs.check(estimator.name, design)
    _tell_of_bins([*getattr(design, "schema", ()), *(() if call.by is None else (schema[call.by],))])
    if levels is not None:
        return run_groups(estimator, call, source, design, levels)
    rows = _count(source, call.unit) if estimator.needs.public_rows else None
    budget = estimator.budget(design, call, rows)
    guarantee = promised(budget.guarantee, call)
    written = call.written or call.formula
    reserved = None if call.ledger is None else reserve(call.ledger, guarantee, estimator.name, written)
    try:
        with np.errstate(all="ignore"):
            with opened(estimator, call, design, source, rng) as blocks:
                released = estimator.release(blocks, budget, rng)
            made = about_units(estimator.results(design, budget, released), estimator, call)
            results: T = dated(call.about_bounds(made, design), origin)
            return results
    except ReleaseFailed as failure:
        of_rows = call.reminder(design) + text_reminder(design) + call.unit_reminder
        failure.args = (f"{failure}{of_rows}{estimator.needs.reminder}",)
        if failure.guarantee is None:
            failure.guarantee = guarantee
        else:
            ran = promised(failure.guarantee, call).spends
            failure.guarantee = stopped_early(guarantee, ran) if reserved is None else reserved.keep(ran)
        raise
    except Exception as error:
        raise contained(error, estimator.name, guarantee) from None


def _tell_of_bins(columns: Iterable[Column]) -> None:
    """Warn of levels that pandas may have computed from the data: a fact about the schema alone."""
    for name in {c.name: None for c in columns if any(isinstance(v, pd.Interval) for v in c.levels or ())}:
        warnings.warn(
            f"the levels of column {name!r} are intervals, as pd.cut and pd.qcut make them. Levels are taken "
            "as public, and ends that were computed from the data, as by pd.cut(x, 3), are not protected: "
            "give fixed ends, as in pd.cut(x, [0, 10, 20]). "
            "With labels of your own, labels=[...], there is no warning.",
            stacklevel=6,  # the line of the user's call
        )


def dated(results: Any, origin: Origin) -> Any:
    """Results that say when they were released: of the time before any row was read, not of the end."""
    return replace(results, origin=origin) if hasattr(results, "origin") else results


def _count(source: Source, unit: str | None) -> int:
    """The number of rows, or of units, handed in."""
    if unit is not None:
        return count_units(source, unit)
    return sum(batch.rows for batch in source.batches(()))
