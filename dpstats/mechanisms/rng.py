"""The one source of randomness: the operating system's, or (for simulation only) a seed.

Every mechanism takes a :class:`Randomness`; nothing in the package touches NumPy's global state.
"""

import hashlib
import os
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats._types import Floats, Integers, Words
from dpstats.engines.partitions import uniform

__all__ = ["Randomness"]

_EXACT_BYTES = 32


class Randomness:
    """A stream of random words and the continuous laws that mechanisms sample.

    Parameters
    ----------
    seed : int, optional
        None takes every word from the operating system. An integer makes the stream reproducible, and
        every release made with it worthless as protection: its guarantee says so.
    key : bytes, optional
        Without a seed: a secret of 256 bits or more from the operating system, of which the words are a
        function, so that whoever starts again has the same ones. Additive noise is the operating system's.

    Attributes
    ----------
    seeded : bool

    Notes
    -----
    Additive noise does not come from here but from :mod:`dpstats.mechanisms.noise`, which samples
    discrete laws exactly. What is drawn here: partitions (any law will do, as long as it ignores the
    data), points uniform in a cell, and Gumbel variables for choosing among weighted cells.

    Examples
    --------
    >>> [Randomness(seed=1).integers(10, 3).tolist() for _ in range(2)]
    [[4, 5, 7], [4, 5, 7]]
    """

    def __init__(self, seed: int | None = None, key: bytes | None = None) -> None:
        self.seeded = seed is not None
        self._key, self._drawn = key, 0
        self._generator: Any = np.random.Generator(np.random.PCG64(seed)) if self.seeded else None

    @property
    def generator(self) -> np.random.Generator:
        """The seeded NumPy generator, or None when the operating system supplies the randomness."""
        return self._generator

    def _bytes(self, size: int) -> bytes:
        if self.seeded:
            # NumPy takes a word from the stream even for no bytes: an empty batch of rows would shift it
            drawn: bytes = self._generator.bytes(size) if size else b""
            return drawn
        if self._key is None:
            return os.urandom(size)
        self._drawn += 1
        return hashlib.shake_256(self._key + self._drawn.to_bytes(8, "little")).digest(size)

    def words(self, size: int) -> Words:
        """`size` independent uniform 64-bit words, shape ``(size,)``."""
        return np.frombuffer(self._bytes(8 * size), dtype=np.uint64)

    def uniform(self, size: int) -> Floats:
        """Uniform on the open interval (0, 1), symmetric about 1/2, shape ``(size,)``."""
        return uniform(self.words(size))

    def exact_uniform(self, size: int, width: int = _EXACT_BYTES) -> list[Fraction]:
        """Uniform rationals on (0, 1), the centres of ``2^(8 width)`` equal cells: a list of `size`
        fractions.

        For points whose value is released: rounded at the end, once, they have the law of a rounded real.
        """
        cells = 1 << 8 * width + 1
        draws = (int.from_bytes(self._bytes(width), "little") for _ in range(size))
        return [Fraction(2 * draw + 1, cells) for draw in draws]

    def small_uniform(self, size: int) -> Floats:
        """Uniform on (0, 1) with full relative precision near 0 (down to 2^-64), shape ``(size,)``.

        The position of the leading one bit and the bits behind it come from different words, so the
        lower tail is that of the continuous law and not that of a lattice of 2^-53.
        """
        words = self.words(2 * size)
        lead, tail = words[:size], words[size:]
        # frexp of the integer lead counts its leading zeros; 2^-64 is the mass of lead = 0
        exponent = np.minimum(np.frexp(np.maximum(lead, 1).astype(float))[1], 64)
        # one bit more and the largest mantissa would round to 1
        mantissa = 0.5 + ((tail >> np.uint64(13)).astype(float) + 0.5) * 2.0**-52
        return np.ldexp(mantissa, exponent - 64)

    def gumbel(self, size: int) -> Floats:
        """Standard Gumbel variables, shape ``(size,)``; the upper tail is sampled in full precision."""
        return -np.log(-np.log1p(-self.small_uniform(size)))

    def integers(self, high: int, size: int) -> NDArray[np.int32]:
        """Uniform integers in ``[0, high)`` for ``high < 2^31``, dtype int32, shape ``(size,)``.

        The bias is below ``high / 2^32``; it does not depend on the data, so no guarantee rests on it.
        """
        half = np.frombuffer(self._bytes(4 * size), dtype=np.uint32)
        return ((half.astype(np.uint64) * np.uint64(high)) >> np.uint64(32)).astype(np.int32)

    def permutation(self, n: int) -> Integers:
        """A random permutation of ``range(n)`` (ties among 64-bit keys have probability below n^2/2^65)."""
        return np.argsort(self.words(n), kind="stable")
