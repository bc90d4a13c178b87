"""What is public about the columns of a design, before any row is read."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.data.schema import Schema
from dpstats.data.sources import Batch
from dpstats.formula.design import Design

__all__ = ["PublicDesign", "public_scale"]

_BALANCED_ROWS = 4096
_LEAST_ROWS = 256
_LEAST_EIGENVALUE = 1e-6
_TINY = 2.0**-1022
"""The least scale: the reciprocal of a smaller one may overflow, and 0 times it is not a number."""


class _BalancedBatch(Batch):
    """Made-up rows in which every level, and every value within declared bounds, is equally likely."""

    _schema: Schema
    _generator: np.random.Generator

    def __init__(self, schema: Schema) -> None:
        super().__init__(_BALANCED_ROWS, {})
        object.__setattr__(self, "_schema", schema)
        object.__setattr__(self, "_generator", np.random.default_rng(20220816))

    def numbers(self, name: str) -> Floats:
        column = self._schema[name]
        if column.kind == "truth":
            return self._generator.integers(0, 2, self.rows).astype(float)
        low, high = column.bounds or (1.0, 2.0)
        return low + (high - low) * self._generator.random(self.rows)

    def codes(self, name: str, levels: tuple[Any, ...]) -> Integers:
        return self._generator.integers(0, len(levels), self.rows)


@dataclass(frozen=True)
class PublicDesign:
    """What is public about the columns of a design, before any row is read.

    Attributes
    ----------
    intercept : bool
    free : (f,) int array
        Columns of unknown range: they are standardised privately.
    loc, scale : (d,) arrays
        Public standardisation of the other columns from their bounds; 0 and 1 for the free ones.
    W : (d, d) array
        Makes the Gram matrix of a balanced design (levels equally likely, values uniform within bounds) the
        identity: without it a rare reference level would look like a collinearity.
    response_bounds : (float, float) or None
    """

    intercept: bool
    free: Integers
    loc: Floats
    scale: Floats
    W: Floats
    response_bounds: tuple[float, float] | None

    @classmethod
    def of(cls, design: Design) -> "PublicDesign":
        """The public facts of a :class:`dpstats.formula.design.Design`."""
        bounds = design.column_bounds
        d = len(bounds)
        free = np.array([j for j, b in enumerate(bounds) if b is None], dtype=np.int64)
        known = np.setdiff1d(np.arange(d), free)
        loc, scale = np.zeros(d), np.ones(d)
        for j, b in enumerate(bounds):
            if b is not None:
                loc[j], scale[j] = public_scale(*b, design.has_intercept)
        W = np.eye(d)
        balanced, _ = design.arrays(_BalancedBatch(design.schema))
        if len(balanced) >= _LEAST_ROWS:
            z = (balanced[:, known] - loc[known]) / scale[known]
            values, vectors = np.linalg.eigh(z.T @ z / len(z))
            # symmetric square root: keeps each coordinate near its own column
            root = vectors / np.sqrt(np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
            W[np.ix_(known, known)] = root
        return cls(design.has_intercept, free, loc, scale, W, design.response_bounds[0])


def public_scale(low: float, high: float, centred: bool) -> tuple[float, float]:
    """Location and scale of values within public bounds; values in units of the scale are never infinite."""
    if low == high:
        return 0.0, max(abs(low), _TINY) if low else 1.0
    if centred:
        return low / 2 + high / 2, max(high / 2 - low / 2, _TINY)
    return 0.0, max(abs(low), abs(high), _TINY)
