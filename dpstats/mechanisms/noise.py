"""Additive noise, sampled exactly on a lattice by OpenDP.

A statistic of sensitivity ``s`` is rounded to a lattice whose step is a power of two near ``2^-30 s``,
and integer noise is added there. Rounding moves two neighbouring values further apart by at most one
step a coordinate; the noise is enlarged by more than that, so the stated guarantee holds for the
numbers as computed. The argument is in ``docs/privacy/noise.md``.
"""

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpstats._threads import WORKERS, in_threads
from dpstats._types import Booleans, Floats
from dpstats.mechanisms.rng import Randomness

__all__ = ["discrete_laplace", "gaussian", "laplace", "laplace_on_grid", "symmetric_gaussian"]

_STEP = 2.0**-30
_DISCRETE = 2.0**-20
_LIMIT = 2.0**62
_PIECE = 40
"""So many coordinates are worth a thread."""


@functools.cache
def _opendp() -> tuple[Any, Any, Any]:
    # not opendp.prelude: that imports scikit-learn, pandas and polars where they are installed
    from opendp import domains, measurements, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    return domains, metrics, measurements


@functools.cache
def _space(law: str, vector: bool) -> tuple[Any, Any]:
    """The domain and the metric of integers with the noise of a law."""
    domains, metrics, _ = _opendp()
    atom = domains.atom_domain(T="i64")
    if law == "gaussian":
        return domains.vector_domain(atom), metrics.l2_distance(T="f64")
    if vector:
        return domains.vector_domain(atom), metrics.l1_distance(T="i64")
    return atom, metrics.absolute_distance(T="i64")


@functools.lru_cache(maxsize=256)
def _integer_noise(law: str, scale: float, vector: bool) -> Any:
    measurements = _opendp()[2]
    make = measurements.make_gaussian if law == "gaussian" else measurements.make_laplace
    return make(*_space(law, vector), scale)


def _add(values: ArrayLike, law: str, sensitivity: float, budget: float, rng: Randomness) -> Floats:
    """Noise of scale ``sensitivity / budget``, enlarged for the lattice, on every coordinate."""
    values = np.asarray(values, dtype=float)
    step = 2.0 ** (math.frexp(sensitivity)[1] - 1) * _STEP
    rounding = _STEP * (math.sqrt(values.size) if law == "gaussian" else values.size)
    scale = sensitivity * (1 + _DISCRETE + rounding) / budget / step
    with np.errstate(over="ignore"):
        units = np.rint(np.minimum(np.maximum(values.ravel() / step, -_LIMIT), _LIMIT))
    if rng.seeded:
        draw = rng.generator.normal if law == "gaussian" else rng.generator.laplace
        noisy = units + np.rint(draw(0.0, scale, units.size))
    else:
        measure, whole = _integer_noise(law, scale, True), units.astype(np.int64)
        if units.size < _PIECE:
            noisy = np.array(measure(whole.tolist()), dtype=float)
        else:
            pieces = np.array_split(whole, min(WORKERS, 1 + units.size // _PIECE))
            parts = in_threads([functools.partial(measure, piece.tolist()) for piece in pieces])
            noisy = np.concatenate([np.asarray(part, dtype=float) for part in parts])
    return (noisy * step).reshape(values.shape)


def gaussian(
    values: ArrayLike, sensitivity: float, mu: float, rng: Randomness, possible: Booleans | None = None
) -> Floats:
    """Release `values` with Gaussian noise: ``mu``-GDP.

    Parameters
    ----------
    values : array_like
        The exact statistic, any shape.
    sensitivity : float
        Its l2-sensitivity over all coordinates together.
    mu : float
        The Gaussian-DP parameter; the noise has standard deviation ``sensitivity / mu``.
    rng : Randomness
    possible : array of bool, optional
        Of the shape of `values`, and public or released: where it is False 0 is given back, whatever
        `values` are.

    Returns
    -------
    ndarray
        The noisy statistic, of the shape of `values`.

    Examples
    --------
    >>> from dpstats.mechanisms.rng import Randomness
    >>> gaussian([5.0, 7.0], 1.0, 2.0, Randomness(0)).round(2)  # seeded for the example
    array([5.06, 6.93])
    """
    if possible is None:
        return _add(values, "gaussian", sensitivity, mu, rng)
    if rng.seeded:
        # a seed draws the same for the other coordinates, whatever is possible
        return np.where(possible, _add(values, "gaussian", sensitivity, mu, rng), 0.0)
    noisy = np.zeros(possible.shape)
    noisy[possible] = _add(np.asarray(values)[possible], "gaussian", sensitivity, mu, rng)
    return noisy


def laplace(values: ArrayLike, sensitivity: float, eps: float, rng: Randomness) -> Floats:
    """Release `values` with Laplace noise: ``eps``-DP for l1-sensitivity `sensitivity`.

    The noise has scale ``sensitivity / eps``; arguments and result are as in :func:`gaussian`.
    """
    return _add(values, "laplace", sensitivity, eps, rng)


def laplace_on_grid(values: ArrayLike, scale: float, exponent: int, rng: Randomness) -> Floats:
    """Round `values` to multiples of ``2**exponent`` and add discrete Laplace noise of that lattice.

    The building block for a scale that depends on the data: nothing but `exponent`, which must be public,
    can be seen in the last digits of the result. What the noise guarantees is the caller's to prove.

    Parameters
    ----------
    values : (d,) array_like
        Finite.
    scale : float
        Of the Laplace law, in the units of `values`.
    exponent : int
        Of the lattice.
    rng : Randomness

    Returns
    -------
    (d,) ndarray

    Examples
    --------
    >>> from dpstats.mechanisms.rng import Randomness
    >>> laplace_on_grid([0.3, 1.6], 1e-9, -1, Randomness(0))
    array([0.5, 1.5])
    """
    values = np.asarray(values, dtype=float)
    if rng.seeded:
        step = 2.0**exponent
        return np.rint(values / step + rng.generator.laplace(0.0, scale / step, values.size)) * step
    domains, metrics, measurements = _opendp()
    domain, metric = domains.atom_domain(T="f64", nan=False), metrics.absolute_distance(T="f64")
    noise = measurements.make_laplace(domain, metric, scale, exponent)
    return np.array([noise(float(value)) for value in values])


def symmetric_gaussian(matrix: Floats, sensitivity: float, mu: float, rng: Randomness) -> Floats:
    """Release a symmetric matrix with Gaussian noise: ``mu``-GDP.

    The isometry that keeps the diagonal and multiplies the upper triangle by ``sqrt(2)`` turns the
    Frobenius norm of symmetric matrices into the l2-norm of vectors. The noise therefore has standard
    deviation ``s = sensitivity / mu`` on the diagonal and ``s / sqrt(2)`` off it.

    Parameters
    ----------
    matrix : (k, k) array
        The exact statistic, symmetric.
    sensitivity : float
        Its sensitivity in Frobenius norm.
    mu, rng
        As in :func:`gaussian`.

    Returns
    -------
    (k, k) ndarray
        Exactly symmetric.
    """
    matrix = np.asarray(matrix, dtype=float)
    rows, cols = np.triu_indices(len(matrix))
    stretch = np.where(rows == cols, 1.0, math.sqrt(2.0))
    noisy = gaussian(matrix[rows, cols] * stretch, sensitivity, mu, rng) / stretch
    out = np.empty_like(matrix)
    out[rows, cols] = noisy
    out[cols, rows] = noisy
    return out


def discrete_laplace(value: int, eps: float, rng: Randomness) -> int:
    """Release an integer of sensitivity 1 with ``P(Z = z)`` proportional to ``exp(-eps |z|)``: ``eps``-DP.

    Parameters
    ----------
    value : int
    eps : float
    rng : Randomness

    Returns
    -------
    int
    """
    if rng.seeded:
        p = -math.expm1(-eps)
        up, down = rng.generator.geometric(p, 2)
        return int(value) + int(up) - int(down)
    return int(_integer_noise("laplace", 1.0 / eps, False)(int(value)))
