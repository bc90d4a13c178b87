"""Short names for types: of arrays, and of what every estimator can be asked for."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Booleans", "Bounds", "Floats", "Integers", "Levels", "Words"]

Array = NDArray[Any]
Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

Bounds = Mapping[str, tuple[float, float]]
Levels = Mapping[str, Sequence[Any]]
