"""How far the products of a score may go: where to clip them, and what is lost by it."""

import math
from dataclasses import dataclass

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.mechanisms._kernels import EXPONENT, OCTAVES

__all__ = ["Clip", "choose_clip", "edges_about"]

_EDGES = np.array([-4, -2, -1, 0, 1, 2, 3, 4, 6, 9, 14])
"""Cells of products, in half-octaves about their typical size; the first and the last are open."""
_VISIBLE = 3.3
_STEPS = 9
"""Clips are tried up to so many half-octaves above the narrowest."""
_SKEWED = 2.2
"""Standard errors of the difference of both signs from which the tail counts as one-sided."""
_DECAY = 0.25, 0.6
"""Between these lies what each half-octave that is too far out to be seen holds, as a share of the one before."""
_MIDDLE = 2.0**0.25


@dataclass(frozen=True)
class Clip:
    """A norm to which products are shortened, and a bound on the norm of what that takes off their mean."""

    norm: float
    bias: float


def edges_about(size: float) -> Integers:
    """Lower edges, from the second on, of the cells about a typical size: indices of half-octaves."""
    middle = round(2 * math.log2(size)) + EXPONENT
    return np.unique(np.clip(middle + _EDGES, 1, OCTAVES - 1))


def choose_clip(
    edges: Integers, counts: Floats, sd: float, q: int, count: float, noise: float, most: float, shift: float
) -> Clip:
    """Read a clip off released counts of products.

    Parameters
    ----------
    edges : (m - 1,) int array
        Of :func:`edges_about`.
    counts : (2, m) array
        Rows by sign of the residual and cell (:func:`~dpstats.linear.scores.product_counts`).
    sd : float
        Standard deviation of the noise of a count.
    count : float
        Released number of rows.
    noise : float
        Standard deviation of the noise of an estimate along one direction, for a clip of 1.
    most : float
        The clip where no half-octave visibly holds rows, and the widest where both tails look alike.
    shift : float
        Standard deviation of the share of rows whose residual changes sign with the error of the estimates.

    Returns
    -------
    Clip
    """
    both, difference = counts.sum(axis=0), counts[1] - counts[0]
    spread = math.sqrt(2) * sd
    visible = np.flatnonzero(both[1:] > _VISIBLE * spread)
    if not len(visible):
        return Clip(most, 0.0)
    k = visible[-1] + 1
    lower = 2.0 ** ((edges - EXPONENT) / 2)
    top = lower[k - 1]
    scores = []
    for cells in (slice(1, k + 1), slice(k - 1, k + 2), slice(k + 1, None)):
        rows = max(both[cells].sum(), 0.0)
        error = math.sqrt(len(both[cells]) * spread**2 + rows + (shift * rows) ** 2)
        scores.append(difference[cells].sum() / error if len(both[cells]) else 0.0)
    # an error of the estimates moves both parts of the rows to the same side
    scores.append((scores[0] - scores[2]) / math.sqrt(2))
    if max(map(abs, scores)) < _SKEWED:
        return Clip(min(2 * top, most), 0.0)
    widths = np.diff(edges, append=edges[-1] + 4)
    upper, far = slice(k - 1, None), slice(k + 1, None)
    rows = max(both[upper].sum(), spread)
    error = math.sqrt(len(both[upper]) * spread**2 + rows)
    rest, rest_error = max(float(both[far].sum()), 0.0), math.sqrt(len(both[far])) * spread
    last = max(float(both[k]), spread) / widths[k - 1]
    before = max(float(both[k - 1]), spread) / widths[k - 2] if k > 1 else math.inf
    ratio = (last / before) ** (2 / (widths[k - 1] + widths[max(k - 2, 0)]))
    norms = 2 * top * 2.0 ** (np.arange(_STEPS) / 2)

    def lost(margin: float) -> Floats:
        share = min(1.0, 2 * (abs(difference[upper].sum()) + margin * error) / rows)
        beyond = rest + margin / 4 * rest_error
        decay = min(max(min(ratio, beyond / (beyond + last)), _DECAY[0]), _DECAY[1])
        j = np.arange(_STEPS + 40)
        sizes = top * _MIDDLE * 2.0 ** (j / 2)
        held = last * decay ** np.maximum(j - widths[k - 1] + 1, 0)
        return share * np.array([np.sum(held * np.maximum(sizes - c, 0.0)) for c in norms]) / count

    best = int(np.argmin(q * (norms * noise) ** 2 + lost(0.0) ** 2))
    return Clip(float(norms[best]), float(lost(2.0)[best]))
