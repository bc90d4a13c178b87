"""What is public about the columns of a design, before any row is read."""

from dataclasses import dataclass

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.formula.design import Design
from dpstats.formula.marginals import Marginals

__all__ = ["PublicDesign", "public_scale"]

_TINY = 2.0**-1022
"""The least scale: the reciprocal of a smaller one may overflow, and 0 times it is not a number."""


@dataclass(frozen=True)
class PublicDesign:
    """What is public about the columns of a design, before any row is read.

    Attributes
    ----------
    intercept : bool
    free : (f,) int array
        Columns that are standardised privately, whether or not they have bounds.
    loc, scale : (d,) arrays
        Public standardisation of the columns from their bounds; 0 where nothing is known.
    response_bounds : (float, float) or None
    marginals : Marginals or None
        What the other columns are made of; None where none of them is standardised.
    weighted : bool
        Whether there is a second response, the root of each row's weight.
    """

    intercept: bool
    free: Integers
    loc: Floats
    scale: Floats
    response_bounds: tuple[float, float] | None
    marginals: Marginals | None = None
    weighted: bool = False

    @classmethod
    def of(cls, design: Design) -> "PublicDesign":
        """The public facts of a :class:`dpstats.formula.design.Design`."""
        marginals = Marginals.of(design)
        loc, scale = np.zeros(len(design.column_bounds)), np.zeros(len(design.column_bounds))
        for j, bounds in enumerate(design.column_bounds):
            if bounds is not None:
                loc[j], scale[j] = public_scale(*bounds, design.has_intercept)
        free = np.array(marginals.direct, dtype=np.int64)
        response, *weights = design.response_bounds
        return cls(design.has_intercept, free, loc, scale, response, marginals, bool(weights))

    @classmethod
    def within(cls, columns: int) -> "PublicDesign":
        """Of columns about the means of units: nothing is known, and there is no constant."""
        nothing = np.zeros(columns)
        return cls(False, np.arange(columns), nothing, nothing, None)

    @property
    def variables(self) -> int:
        """How many variables behind the columns are standardised beside them."""
        return 0 if self.marginals is None else len(self.marginals.extra)

    @property
    def unknown(self) -> int:
        """How many columns and variables of unknown range are standardised."""
        return int(np.sum(self.scale[self.free] == 0)) + self.variables + self.weighted

    @property
    def response_unknown(self) -> bool:
        """Whether the response has no bounds."""
        return self.response_bounds is None

    @property
    def located(self) -> bool:
        """Whether the columns are centred, or something is made up from variables about their centres, or
        there are weights, which have a usual one."""
        return self.intercept or self.signed or self.weighted

    @property
    def signed(self) -> bool:
        """Whether the distribution of variables is wanted, and not their scales alone."""
        return self.marginals is not None and bool(self.marginals.variables)

    @property
    def factors(self) -> int:
        """How many factors have their levels counted."""
        return 0 if self.marginals is None else len(self.marginals.factors)


def public_scale(low: float, high: float, centred: bool) -> tuple[float, float]:
    """Location and scale of values within public bounds; values in units of the scale are never infinite."""
    if low == high:
        return 0.0, max(abs(low), _TINY) if low else 1.0
    if centred:
        return low / 2 + high / 2, max(high / 2 - low / 2, _TINY)
    return 0.0, max(abs(low), abs(high), _TINY)
