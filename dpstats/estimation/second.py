"""A second response that an argument names: an offset, or weights."""

from collections.abc import Iterable

from dpstats._validation import about
from dpstats.data.schema import Schema
from dpstats.estimation.call import Call, Needs
from dpstats.formula.design import Design
from dpstats.formula.grammar import names_in, parse, translate
from dpstats.formula.layout import check_offset
from dpstats.results.parts import Declared
from dpstats.results.saved import declared

__all__ = ["declared_beside", "own_design", "reads", "with_second"]


def reads(expression: str) -> set[str]:
    """The columns that an expression reads."""
    return set(names_in(translate(parse(expression.strip()), expression)))


def with_second(
    call: Call, schema: Schema, *, own: str, given: tuple[str, str], name: str, needs: Needs
) -> Design:
    """The design of a call whose formula has a second response.

    What is wrong with either is said of what the user wrote: the formula `own`, or `given`, a parameter and
    its expression.
    """
    parameter, expression = given
    with about(parameter):
        check_offset(expression.strip(), schema)
    needs.check(name, Design.from_formula(own, schema, {*reads(expression), call.by, call.unit}))
    return Design.from_formula(call.formula, schema, (call.by, call.unit))


def own_design(wide: Design, own: str, aside: Iterable[str | None]) -> Design:
    """The design of the formula `own`, without the second response of `wide`."""
    return Design.from_formula(own, wide.schema, {*reads(wide.response_names[1]), *aside})


def declared_beside(wide: Design, own: Design) -> tuple[Declared, ...]:
    """What was declared about columns that the second response alone reads."""
    read = own.schema.names
    return declared([column for column in wide.facts()["columns"] if column["name"] not in read])
