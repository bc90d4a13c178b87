"""What a result is put together from, by what it can do: the floors above and below make it."""

from collections.abc import Mapping
from typing import Any, Protocol

from dpstats._types import Floats

__all__ = ["Described", "Interval", "Predictor"]


class Interval(Protocol):
    """Released intervals that are not Wald intervals."""

    def conf_int(self, alpha: float) -> Floats: ...


class Predictor(Protocol):
    """How new rows become a matrix to multiply estimates with."""

    def matrix(self, data: Any) -> Floats: ...


class Described(Predictor, Protocol):
    """What results take from a :class:`~dpstats.formula.design.Design`."""

    @property
    def formula(self) -> str: ...

    @property
    def response_names(self) -> tuple[str, ...]: ...

    @property
    def column_names(self) -> tuple[str, ...]: ...

    @property
    def term_slices(self) -> Mapping[str, slice]: ...
