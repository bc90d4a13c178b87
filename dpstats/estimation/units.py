"""Rows as an estimator gets them, and what a promise about units changes in its results."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.data.batches import Source
from dpstats.data.clusters import ClusterSource, UnitBuckets
from dpstats.data.schema import Schema
from dpstats.data.units import UnitParts, UnitRows, check_unit
from dpstats.errors import ParameterError
from dpstats.estimation.call import B, Call, Estimator, R, T
from dpstats.formula.design import Blocks, Design
from dpstats.formula.units import UnitBlocks, drawn, drawn_source
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.guarantee import Guarantee, Neighbours

__all__ = [
    "about_units",
    "check_groups_of_units",
    "check_units",
    "count_units",
    "of_one_group",
    "opened",
    "promised",
]


def check_units(estimator: Estimator[B, R, T], call: Call, schema: Schema) -> None:
    """Raise an error unless the column of the units can be used as asked."""
    if call.unit is None:
        return
    check_unit(call.unit, schema)
    if estimator.needs.public_rows:
        check_groups_of_units(estimator.name, call, "substitution")


def check_groups_of_units(name: str, call: Call, neighbours: Neighbours) -> None:
    """Raise an error where a unit that is replaced could leave one group's release and enter another's."""
    if None not in (call.by, call.unit) and neighbours == "substitution":
        raise ParameterError(
            f"by must be None with unit= for {name} with neighbours by substitution: the group of a unit of "
            "several is drawn, so that a unit that is replaced may change two groups."
        )


def promised(guarantee: Guarantee, call: Call) -> Guarantee:
    """A guarantee about the units of a call."""
    if call.unit is None:
        return guarantee
    steps = {"number of rows": "number of units"}
    spends = [replace(spend, step=steps.get(spend.step, spend.step)) for spend in guarantee.spends]
    return guarantee.replace(unit=call.unit, spends=tuple(spends))


def about_units(results: Any, estimator: Estimator[Any, Any, Any], call: Call) -> Any:
    """Results whose guarantee, and where one row of each was used whose notes, say so."""
    if call.unit is None:
        return results
    changes: dict[str, Any] = {"guarantee": promised(results.guarantee, call)}
    if estimator.of_units == "row" and hasattr(results, "notes"):
        said = (
            f"One row of each {call.unit!r} was used, drawn at random: what is estimated is over units, each "
            "of which counts once."
        )
        changes["notes"] = (said, *results.notes)
    return replace(results, **changes)


def count_units(source: Source, unit: str) -> int:
    """The number of units handed in."""
    with closing(_by_unit(source, (), (), unit, new_key(Randomness()))) as parts:
        return sum(parts.sizes())


@contextmanager
def opened(
    estimator: Estimator[B, R, T], call: Call, design: Design, source: Source, rng: Randomness
) -> Iterator[Blocks]:
    """The rows of a source: with units one row of each, and all of them beside these."""
    if call.unit is None:
        yield design.blocks(source)
        return
    given = source, design.schema.names, design.coded, call.unit, new_key(rng)
    if isinstance(design, Design):
        here = estimator.of_units == "all in order"
        with closing(UnitParts(*given) if here else _by_unit(*given)) as parts:
            yield UnitBlocks.drawn(design, parts, rng)
    else:
        with closing(UnitParts(*given)) as held:
            yield design.blocks(drawn_source(held, rng))


def _by_unit(source: Source, *given: Any) -> UnitParts | UnitBuckets:
    """The rows by unit: on the workers, where there are any."""
    if isinstance(source, ClusterSource) and source.has_workers():
        return UnitBuckets(source, *given)
    return UnitParts(source, *given)


def new_key(rng: Randomness) -> str:
    """A key for hashes of the units."""
    return f"{int(rng.words(1)[0]):016x}"


def of_one_group(
    call: Call, design: Design, source: Source, levels: tuple[Any, ...], rng: Randomness
) -> Source:
    """The rows of every unit that are in the same declared group as one of them, drawn at random.

    **Privacy.** The group of a unit depends on nothing but its own rows and a coin of its own, so a unit
    added or removed changes one group. Argument: ``docs/privacy/unit.md``.
    """
    by = str(call.by)
    names = [*design.schema.names, *({by} - set(design.schema.names))]
    held = UnitRows(source, names, {*design.coded, by}, str(call.unit))
    codes = np.asarray(held.array(by, levels), dtype=np.int64)
    group = codes[drawn(held, codes[held.together] >= 0, rng.uniform(held.size))]
    own = codes[held.together]
    return held.source(held.together[(own >= 0) & (own == group[held.units])])
