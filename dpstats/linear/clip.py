r"""How far the products of a score may go: where to clip them, and what is lost by it.

Both are read off released counts of the products by half-octave and sign, with a posterior over the tail of
each sign (:mod:`dpstats.linear.tails`). All of it is computed from what has been released.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chndtrinc

from dpstats._types import Floats, Integers
from dpstats.linear.tails import CLIPS, EDGES, GRID, ODDS, TAIL, Tail, squares_beyond
from dpstats.mechanisms._kernels import EXPONENT, OCTAVES

__all__ = [
    "INFORMATION",
    "MAY_CUT",
    "SEEN",
    "UNIT_INFORMATION",
    "Clip",
    "choose_clip",
    "edges_about",
    "median_known",
    "outer_square",
    "visible",
]

_INNER, _BODY, _UPPER, _OUTER = slice(0, TAIL), slice(1, TAIL), slice(5, 9), slice(8, 13)
"""Cells up to the typical size, the larger of these, some above it, and some farther out."""
_UNLIKE = 0.5
"""By which share of the rows above the typical size the signs differ if they are not alike, as a standard
deviation."""
_ALONE = 0.3
"""Of the mean square, at least this share is that of tails that tell nothing of each other."""
_TOGETHER, SEEN, _SURELY, _MOST_FAR = (1, 2, 3), 5.5, 2.0, 0.1
"""Numbers of cells that are looked at together; standard deviations of their noise at which they are seen,
and by which their rows may be fewer; and the most that are few: where more are far out, the fit is."""
_MOVED = 1.0
"""Standard errors that an error of the estimates may move the rows above the typical size by."""
_ERROR = 1.0
"""Standard error of what the signs are seen to differ by: they may differ by that where nothing is seen."""
_TOGETHER_OFF, _AS_KNOWN = 0.7, 0.5
"""How many rows an error of the estimates brings from one sign to the other, in parts of what the density
near 0 gives, as the sampling errors of a mean and of a median go together; and by which share the number
that a known movement has brought may be off."""
_FEW, _MANY = 0.1, 10.0
"""Standard errors: the least that is left of the rows above the typical size when one is taken off, and what
rows are many against."""
_ALIKE = 0.5
"""Where the signs look alike, the share of the median bias that counts."""
_WITHIN, _LONG = ((0.8, -0.84), (0.02, 2.05)), 1e3
"""Confidence bounds from the released excess: values of the distribution function, and normal quantiles for
beyond so many standard deviations of the noise."""
_AT_LEAST, _FARTHEST = 2.0, 4.0
"""How many times what is cut up to twice the clip may be cut in all: at least, for an upper bound, since
tails may go on farther than their median does, and at most."""
INFORMATION, UNIT_INFORMATION = 3.0, 1.0
"""How much the squares that are cut add to the sampling variance: rows far out may be all that there is of a
direction. Sums of units are measured by how they vary, so that no direction has only those far out."""
MAY_CUT, _STEP = 0.25, 0.02
"""The share of the squares that outer products may lack, as more noise would hide that a variance depends
on a column, and the limits that are tried where they lack more, in squares of the clip."""
_MOST_NOISE = 0.004
"""The most that the noise of a clip may take of the response's variance, or of that of rows far out."""


@dataclass(frozen=True)
class _Signs:
    """What counts say of the signs: the counts, the standard deviation of their noise, the upper edge of the
    first cell, and the bounds on a clip's bias if the signs differ and if they do not."""

    counts: Floats
    sd: float
    edge: float
    unlike: float
    alike: float


@dataclass(frozen=True)
class Clip:
    """A norm to which products are shortened.

    Attributes
    ----------
    norm : float
    bias : float
        A bound on what that takes off their mean, in length, if their tail goes on as the released counts
        show it: the mean excess of the one sign over that of the other.
    sizes, beyond : (k,) arrays
        Share of the rows whose products are longer than these sizes, as far as is known; none for a clip
        that is not read off counts.
    seen : float
        What the clip is seen to take off the mean.
    unseen : float
        So many rows of one size the noise of a count may hide.
    again : float
        To be added to the mean square of the products, for squares that the clip takes off.
    signs : optional
        What the counts say of the signs; None for a clip that is not read off counts.
    """

    norm: float
    bias: float
    sizes: Floats
    beyond: Floats
    seen: float = 0.0
    unseen: float = 0.0
    again: float = 0.0
    signs: _Signs | None = None

    @classmethod
    def at(cls, norm: float) -> "Clip":
        """A clip of which nothing is known."""
        return cls(norm, 0.0, np.ones(1), np.zeros(1))

    def moment(self, excess: Floats, noise: float, shape: Floats) -> Floats:
        """A bound on the second moment of what the clip takes off the mean, (q, q).

        Of the squared `bias`, as `shape` spreads it over the directions
        (:func:`~dpstats.linear.spread.cut_shape`), if the released `excess` agrees with that: what shortening
        to `norm` in place of ``2 norm`` takes off the mean, with noise of the standard deviation `noise`. Its
        squared norm has exact confidence bounds from the noncentral chi-squared law; what lies beyond ``2
        norm`` is added in the proportion of the tail, and as much again at least for the upper bound. If the
        squared bias is outside both bounds, the nearer of them is taken, and what is seen at least, with the
        shape of the posterior whose prior is normal with that norm.
        """
        if len(self.sizes) == 1:
            return np.zeros_like(shape)
        q, length = len(excess), float(np.linalg.norm(excess / noise))
        beyond, farther = self.excess(self.norm), self.excess(2 * self.norm)
        more = min(beyond / (beyond - farther), _FARTHEST) if beyond > farther else 1.0
        # far from 0 only the noise along the excess matters
        low, high = (
            max(length + z, 0.0) ** 2 if length > _LONG else float(chndtrinc(length**2, q, p))
            for p, z in _WITHIN
        )
        noise2, bound = (more * noise) ** 2, self.bias**2 * float(np.trace(shape))
        most = (max(more, _AT_LEAST) * noise) ** 2 * high
        square = max(min(max(bound, noise2 * low), most), self.seen**2 * float(np.trace(shape)))
        if square == bound:
            return self.bias**2 * shape
        kept = square / (square + q * noise2)
        seen = kept * np.outer(excess, excess) + noise**2 * np.eye(q)
        return square / np.trace(seen) * seen

    def with_median(self, moved: float, error: float) -> "Clip":
        """The clip with the bias that it has if rows near 0 show that the signs differ.

        Where the mean of residuals, at which an estimate is, is not their median, they are skewed, though the
        noise of the counts may hide that in the tails. So the signs' difference in rows up to the typical
        size is one more score of :func:`choose_clip`, in standard errors. Estimates that have moved since
        have taken rows from one sign to the other, in proportion to those near 0: what is known of that is
        taken off, and half of it, and seven tenths of what the estimates may still be off, is in the standard
        error. No bias becomes smaller.

        Parameters
        ----------
        moved : float
            How far the estimates have moved along the constant since the counts, as a length of products.
        error : float
            How far they may still be off, as a standard deviation.
        """
        if self.signs is None:
            return self
        signs, rows = self.signs, self.signs.counts[:, _INNER]
        near = max(float(rows[:, 0].sum()), 1.0) / signs.edge
        variance = rows.size * signs.sd**2 + max(float(rows.sum()), 0.0)
        variance += (_TOGETHER_OFF * near * error) ** 2 + (_AS_KNOWN * near * moved) ** 2
        score = (float(rows[1].sum() - rows[0].sum()) - near * moved) / math.sqrt(variance)
        differ = _difference(signs.counts, signs.sd, abs(score))[0]
        return replace(self, bias=max(self.bias, differ * signs.unlike + (1 - differ) * signs.alike))

    def excess(self, norm: float) -> float:
        """Mean of what the products are longer than `norm`."""
        middle = np.sqrt(self.sizes[1:] * self.sizes[:-1])
        areas = (self.beyond[1:] + self.beyond[:-1]) / 2 * np.diff(self.sizes)
        return float(np.sum(areas[middle > norm]))

    def squares(self, norm: float, most: float | None = None) -> float:
        """Mean of what shortening to `norm` in place of `most`, or of the clip's, takes off the squares of
        the products."""
        middle = np.sqrt(self.sizes[1:] * self.sizes[:-1])
        between = (middle > norm) & (middle < (self.norm if most is None else most))
        areas = (self.beyond[1:] + self.beyond[:-1]) / 2 * np.diff(self.sizes**2)
        return float(np.sum(areas[between]))

    def note(self, limit: float, otherwise: str = "", also: str = "", weighted: bool = False) -> str:
        """What a table says of it, of residuals up to `limit` where columns, and weights, are of average
        size."""
        where = f"where its columns{' and its weight' * weighted} are of average size{otherwise}"
        return f"A row counts as if its residual were at most {limit:.3g} ({where}){also}.{self.unseen_of()}"

    def unseen_of(self, what: str = "rows") -> str:
        """What a table says of rows, or of units, in the noise of the counts: nothing if they are none."""
        some = f" Some {max(float(f'{self.unseen:.1g}'), 2.0):,.0f} {what}"
        return f"{some} beyond that may go unseen; intervals may not allow for these." * (self.unseen >= 1)

    def unit_note(self, typical: float, most: float = math.inf) -> str:
        """What a table says of it, of parts of units with about the norm `typical`, and of units of more than
        `most` rows."""
        times = self.norm / max(typical, 1e-300)
        note = f"What the rows of a unit add up to is limited to {times:.3g} times its typical size."
        more = (
            f" A unit of more than {most:.3g} rows counts as if it had those; where the noise hides that "
            "such units differ from the others, intervals do not allow for it."
        )
        if most == 1:
            more = " The rows of a unit together count as one."
        return note + self.unseen_of("units") + more * (most < math.inf)

    def kurtosis(self, norm: float, q: int) -> float:
        """Kurtosis of the residuals by the products up to `norm`, for normal covariates; 0 if unknown."""
        if len(self.sizes) == 1:
            return 0.0
        return self.power(norm, 4) / self.power(norm, 2) ** 2 * q / (q + 2)

    def power(self, norm: float, k: int) -> float:
        """Mean of the `k`-th power of the products, moved to the norm where they are longer."""
        middle = np.sqrt(self.sizes[1:] * self.sizes[:-1])
        rows = -np.diff(self.beyond)
        inside = middle < norm
        # rows below the first size are spread evenly, those beyond the norm are at it
        body, far = 1 - self.beyond[0], self.beyond[0] - float(np.sum(rows[inside]))
        within = body * self.sizes[0] ** k / (k + 1) + float(np.sum((rows * middle**k)[inside]))
        return float(within + far * norm**k)


def edges_about(size: float) -> Integers:
    """Lower edges, from the second on, of the cells about a typical size: indices of half-octaves."""
    lowest, highest = 1 - EDGES[0], OCTAVES - 1 - EDGES[-1]
    return np.clip(round(2 * math.log2(size)) + EXPONENT, lowest, highest) + EDGES


def choose_clip(
    edges: Integers,
    counts: Floats,
    sd: float,
    q: int,
    count: float,
    noise: float,
    spread: float = 1.0,
    information: float = INFORMATION,
    one_way: bool = False,
) -> Clip:
    """Read a clip off released counts of products.

    It has the least sum of the squared noise over the directions and of `spread` times the squared bound on
    the bias.

    Parameters
    ----------
    edges : (m - 1,) int array
        Of :func:`edges_about`.
    counts : (2, m) array
        Rows by sign of the residual and cell (:func:`~dpstats.linear.scores.product_counts`).
    sd : float
        Standard deviation of the noise of a count.
    q : int
    count : float
        Released number of rows.
    noise : float
        Standard deviation of the noise of an estimate along one direction, for a clip of 1.
    spread : float
        Of the squared bound, how much is allowed for over all directions.
    information : float
        Weight of the squares that are cut.
    one_way : bool
        Whether products of both signs may point one way, as sums of units do.

    Returns
    -------
    Clip

    Notes
    -----
    The bias is the difference of the mean excesses of both signs. Its bound is the root mean square over the
    posterior if the signs lie differently, half the median if they are alike, and between them by the
    posterior probability ``1 / (1 + 7 sqrt(1 + t^2) exp(-s^2 t^2 / (2 + 2 t^2)))`` that they differ. Its
    score ``s`` is the larger of ``d``, below, and of by how much more than 1 the signs differ above the
    typical size or farther out: standard normal where they are alike, and with the variance ``1 + t^2`` where
    they are not; ``t = max(a / 2, 1)``, with the rows ``a`` of some cells above the typical size. The mean
    square is a mean of two: over all pairs of tails, by the posterior of :meth:`Tail.pairs`, and of tails
    that tell nothing of each other; the latter has the weight ``min(max((10 / a)^2, .3), 1)``, since few rows
    show no shape, and one sign may have rows far out that the other has not. Few counts look alike whatever
    the signs are. So the bound at the clip that is chosen with that is at least a share of the root of the
    latter: ``sqrt(d^2 + 1) / max(a - 1, .1) (10 / max(b, 1))^2``, at most 1, with the rows ``b`` of some
    cells below the typical size, and ``d`` by how much what the signs differ by there and above it differs,
    known with an error of 1; all in standard errors of a difference of counts. Where both signs may point
    one way, the bound is at least the median of both excesses together.

    No bound is less than what rows that are seen have beyond a clip (:func:`visible`), where the clip's noise
    may be larger if few have much, or than at a larger clip, since rows of different sizes may lie in
    different directions. Fewer rows than the counts' noise show in no cell: a few very far out may move the
    mean by any amount, and no bound is known; the prior holds a far component to be unlikely.
    """
    size = 2.0 ** ((edges[TAIL - 1] - EXPONENT) / 2)
    minus, plus = (Tail.of(cells[TAIL:], sd, count) for cells in counts)
    beyond = minus.beyond + plus.beyond
    differ, share, alone = _difference(counts, sd)
    apart, together = minus.square_differences(plus)
    unlike = np.sqrt(alone * apart + (1 - alone) * together)
    medians = plus.median(), minus.median()
    alike = np.minimum(_ALIKE * np.abs(medians[0] - medians[1]), unlike)
    seen, square = visible(edges, counts, sd, count)
    seen = np.maximum(seen[1] - minus.moments()[0], seen[0] - plus.moments()[0])

    def bounds(differ: float) -> Floats:
        bound = differ * unlike + (1 - differ) * alike
        if one_way:
            bound = np.maximum(bound, medians[0] + medians[1])
        return np.maximum.accumulate(np.maximum(bound, seen)[::-1])[::-1]

    bound = bounds(differ)
    norms = size * GRID[CLIPS]
    lost = q * (norms * noise) ** 2
    squares = squares_beyond(beyond)
    loss = lost + size**2 * (bound**2 * spread + information * squares / count)
    most = max(_MOST_NOISE * max(size**2 * square / q, 1.0), lost[0])
    best = int(np.argmin(np.where(lost <= most, loss, np.inf)))
    bias = size * max(bound[best], share * math.sqrt(apart[best]))
    surely = size * max(float(seen[best]), 0.0)
    ends = (size * float(bounds(d)[best]) for d in (1.0, 0.0))
    edge = 2.0 ** (float(edges[0] - EXPONENT) / 2)
    signs = _Signs(counts, sd, edge, *ends)
    return Clip(float(norms[best]), float(bias), size * GRID, beyond, surely, SEEN * sd, signs=signs)


def median_known(clip: Clip, W: Floats, moved: Floats, noise: float, scale: float, count: float) -> Clip:
    """A clip with what rows near 0 say of the signs (:meth:`Clip.with_median`), at estimates of a model whose
    first column is the constant.

    Parameters
    ----------
    clip : Clip
    W : (q, q) array
        The map to whitened coordinates, ``v = W' z``.
    moved : (q,) array
        How far the estimates have moved since the counts, in whitened coordinates.
    noise, scale, count : float
        Standard deviations of the estimates' noise along one direction and of residuals, which have a
        sampling error, too, and the number of rows.
    """
    length, constant = math.sqrt(len(moved)), np.linalg.inv(W)[:, 0]
    error = math.hypot(noise, scale / math.sqrt(count))
    return clip.with_median(length * float(constant @ moved), length * error)


def outer_square(clip: Clip, least: float, noise: float, q: int, share: float = 0.0) -> float:
    """Where squared parts are cut for their outer products: `least`, or farther out where less is lost.

    That is what is cut, as the counts show it, and the noise of all directions, as squares; at most the
    square of the clip.

    Parameters
    ----------
    clip : Clip
    least : float
    noise : float
        Standard deviation along one direction, for a limit of 1.
    q : int
    share : float
        Of what the clip leaves, so much may be cut without a look farther out.
    """
    most = clip.norm**2
    if clip.squares(math.sqrt(least)) <= share * clip.power(clip.norm, 2):
        return min(least, most)
    squares = np.append(np.arange(min(least, most), most, _STEP * most), most)
    lost = [(q * noise * square) ** 2 + clip.squares(math.sqrt(square)) ** 2 for square in squares]
    return float(squares[int(np.argmin(lost))])


def visible(edges: Integers, counts: Floats, sd: float, count: float) -> tuple[Floats, float]:
    """What each sign is seen to have beyond every clip, (2, clips), as a mean over the rows, and the mean
    square of rows that are seen, if they are few.

    Tails of the family go on from where most rows are, and may say less of rows that are seen far beyond
    them, in a cell or in some together.

    Parameters
    ----------
    edges, counts, sd, count
        As of :func:`choose_clip`.
    """
    # at the edge of a narrow cell, in which tails fall, and in the middle of a wide one
    widths = np.diff(edges, append=2 * edges[-1] - edges[-2])
    sizes = 2.0 ** ((edges + np.where(widths > 1, widths / 2, 0) - edges[TAIL - 1]) / 2)
    beyond = np.maximum(sizes[:, None] - GRID[CLIPS], 0.0)
    most, square = np.zeros((2, len(CLIPS))), 0.0
    for cells in _TOGETHER:
        rows = np.lib.stride_tricks.sliding_window_view(counts[:, 1:], cells, axis=1).sum(axis=-1)
        error = sd * math.sqrt(cells)
        rows = np.where(rows > SEEN * error, rows - _SURELY * error, 0.0) / count
        starts = rows.shape[1]
        most = np.maximum(most, np.max(rows[:, :, None] * beyond[:starts], axis=1))
        square = max(square, float(np.max(np.where(rows < _MOST_FAR, rows, 0.0) * sizes[:starts] ** 2)))
    return most, square


def _difference(counts: Floats, sd: float, inner: float = 0.0) -> tuple[float, float, float]:
    """The posterior probability that the rows of both signs lie differently, which share of the bound for
    signs that do holds where that is not visible, and how far their tails tell nothing of each other.

    The score of rows near 0 is `inner` (:meth:`Clip.with_median`).
    """
    both, difference = counts.sum(axis=0), counts[1] - counts[0]

    def scores(cells: slice) -> tuple[float, float]:
        """The difference of the signs and all rows, in standard errors of the difference."""
        rows, total = both[cells], max(float(both[cells].sum()), 0.0)
        error = math.sqrt(2 * sd**2 * len(rows) + total)
        return float(difference[cells].sum()) / error, total / error

    (body, below), (upper, above), (far, _) = (scores(cells) for cells in (_BODY, _UPPER, _OUTER))
    # an error of the estimates moves the body and what is above it to the same side
    contrast = abs(body - upper) / math.sqrt(2)
    share = math.hypot(contrast, _ERROR) / max(above - 1, _FEW) * (_MANY / max(below, 1.0)) ** 2
    score = max(contrast, abs(upper) - _MOVED, abs(far) - _MOVED, inner)
    variance = max(_UNLIKE * above, 1.0) ** 2
    ratio = math.sqrt(1 + variance) * math.exp(-(score**2) / 2 * variance / (1 + variance))
    alone = min(max((_MANY / max(above, 1.0)) ** 2, _ALONE), 1.0)
    return 1 / (1 + ODDS * ratio), min(share, 1.0), alone
