"""How large do non-negative numbers get: the highest half-octave that visibly holds rows."""

import math

import numpy as np
from scipy.special import ndtri

from dpstats._types import Floats, Integers
from dpstats.mechanisms import _kernels
from dpstats.mechanisms.noise import gaussian
from dpstats.mechanisms.rng import Randomness

__all__ = ["largest_visible", "release_largest_visible"]

FALSE_ALARM = 1e-3
_WINDOWS = (1, 2, 4)


def release_largest_visible(hist: Integers, mu: float, rng: Randomness) -> float:
    """Release the lower edge of the highest half-octave that visibly holds rows.

    Parameters
    ----------
    hist : (OCTAVES,) int array
        Number of rows by octave of the square of their number (:func:`~dpstats.mechanisms._kernels.octave`).
    mu : float
    rng : Randomness

    Returns
    -------
    float
        ``2^(k/2)`` for the highest cell that stands out, or the middle of a higher window of 2 or 4 cells
        that does: up to ``2^(3/4)`` more where the window begins in that cell. 0 if nothing stands out.

    Notes
    -----
    **Privacy.** A record adds or removes one count: ``mu``-GDP under add-remove. The rest is post-processing:
    a window is visible above the noise quantile of false-alarm rate 1e-3 over all windows. Argument:
    ``docs/privacy/standardize.md``.

    Examples
    --------
    >>> from dpstats.mechanisms.rng import Randomness
    >>> hist = np.zeros(_kernels.OCTAVES, int)
    >>> hist[_kernels.EXPONENT + np.arange(5)] = 1000
    >>> round(release_largest_visible(hist, 1.0, Randomness(0)) ** 2 / 2**1.5, 6)
    16.0
    """
    return largest_visible(gaussian(hist, 1.0, mu, rng), 1 / mu)


def largest_visible(noisy: Floats, sd: float) -> float:
    """What :func:`release_largest_visible` reads off released counts whose noise has this `sd`."""
    threshold = -ndtri(FALSE_ALARM / (len(_WINDOWS) * len(noisy))) * sd
    best = -math.inf
    for width in _WINDOWS:
        visible = np.flatnonzero(np.convolve(noisy, np.ones(width), "valid") > threshold * np.sqrt(width))
        if len(visible):
            best = max(best, visible[-1] + (width - 1) / 2)
    return float(2.0 ** ((best - _kernels.EXPONENT) / 2))
