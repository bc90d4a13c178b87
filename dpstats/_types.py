"""Short names for the types of arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Booleans", "Floats", "Integers", "Words"]

Array = NDArray[Any]
Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
