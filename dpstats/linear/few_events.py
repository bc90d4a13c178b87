"""Levels with few events: how far off a truth may be that leads averaged rounds to where they are."""

import math

import numpy as np

from dpstats._types import Booleans, Floats
from dpstats.linear.family import Family
from dpstats.linear.glm_release import GLMRelease

__all__ = ["few_events"]

_FEW = 1 / 3
"""Standard error of a level's linear predictor from which the events of counts, or of units, are hardly more
than their noise."""
_Z, _ASKED = 1.96, 1.645
"""Standard errors to the end of an interval, and standard deviations at which it is asked how far it has to
reach: on the side that asks for more, so that it holds more often on the other one."""
_NONE, _MOST = 1.0, 1.5
"""A standard error of a level's linear predictor that is as good as none, and the largest that
an interval of shares may have."""
_HARDLY, _ENOUGH, _NEAR = 25.0, 100.0, 0.5
"""Counts of a level: with fewer of them by the estimate rounds may be anywhere, and with more by the released
information they are no few, if averaged rounds have gone no farther."""
_TRUTHS = np.concatenate([-np.geomspace(12, 0.01, 120), [0.0], np.geomspace(0.01, 12, 120)])
"""Truths that are tried, as distances from the estimate."""
_LIMIT = 30.0
_LEFT = 1e-9
"""Of a direction that others are taken off less than this share of its variance is rounding."""


def few_events(
    release: GLMRelease, cov: Floats, bias: Floats, family: Family, back: Floats
) -> tuple[Floats, Booleans]:
    """What a covariance lacks for the linear predictors of levels, and coefficients that are not determined
    as they are mostly of levels whose error is large.

    Parameters
    ----------
    release : GLMRelease
    cov, bias : (q, q) arrays
        Covariance of the coefficients, and its part that bounds what rounds leave.
    family : Family
    back : (d, q) array
        To the coefficients of the design's columns.

    Returns
    -------
    more : (q, q) array
    lost : (d,) array of bool
    """
    if release.rounds is not None:
        return _few_of_units(release, cov, family, back)
    more, few = np.zeros_like(cov), np.zeros_like(cov)
    prepared, q = release.prepared, len(cov)
    levels = tuple(part[prepared.levels_apart] for part in prepared.levels)
    apart = [
        (mean, share, np.zeros((0, q)))
        for of in (levels, prepared.twos)
        for mean, share in zip(*of, strict=True)
    ]
    cells, W = prepared.cells, prepared.whitening.W
    informations = _informations(release)
    for mean, share, within in [*apart, *zip(cells.means, cells.shares, cells.within, strict=True)]:
        mean = mean @ W
        variance = float(mean @ cov @ mean)
        if not variance > 0:
            continue
        sd = math.sqrt(max(variance - float(mean @ bias @ mean), 0.0))
        reach = _reach(release, family, mean, float(share), sd, informations)
        unlimited = reach > _MOST
        lacks = max((_NONE if unlimited else reach) ** 2 - sd**2, 0.0) / variance
        rest = cov
        # what is multiplied with a level is known from its events alone, too
        for row in [mean, *(within @ W)]:
            moved = rest @ row
            size = float(row @ moved)
            if size > _LEFT * float(row @ cov @ row):
                direction = np.outer(moved, moved) / size
                more += lacks * direction
                few += unlimited * direction
                rest = rest - direction
    return more, _mostly(few, cov, back)


def _mostly(few: Floats, cov: Floats, back: Floats) -> Booleans:
    """Coefficients most of whose variance is `few`."""
    return np.asarray(
        np.einsum("di,ij,dj->d", back, few, back) > np.einsum("di,ij,dj->d", back, cov, back) / 2, bool
    )


def _few_of_units(release: GLMRelease, cov: Floats, family: Family, back: Floats) -> tuple[Floats, Booleans]:
    """As :func:`few_events`, of sums over units, for declared levels."""
    more, few = np.zeros_like(cov), np.zeros_like(cov)
    means, shares = release.prepared.levels
    for mean, share in zip(means @ release.prepared.whitening.W, shares, strict=True):
        moved = cov @ mean
        variance = float(mean @ moved)
        if variance > 0:
            direction = np.outer(moved, moved) / variance
            factor, is_few = _of_units(release, family, mean, float(share), variance)
            more += (factor - 1) * direction
            few += direction * factor * is_few
    return more, _mostly(few, cov + more, back)


def _informations(release: GLMRelease) -> tuple[Floats, Floats]:
    """Inverses of what the steps divided by, before the averaged rounds and at their end."""
    inverse = np.asarray(np.linalg.inv(release.divisor), float)
    return np.asarray(release.turn @ inverse @ release.turn.T, float), inverse


def _reach(
    release: GLMRelease,
    family: Family,
    mean: Floats,
    share: float,
    sd: float,
    inverses: tuple[Floats, Floats],
) -> float:
    r"""The standard error by which an interval about a level's linear predictor has all truths that may have
    led here.

    Towards few events the score of a level falls without limit beside its noise (Hauck & Donner 1977), and
    averaged rounds, which divide by the information at their start, stop short. Of a truth :math:`\eta` the
    expected way is that of

    .. math:: e_{t+1} = \frac1{t + 1} \sum_{s \le t} \Bigl(e_s + \frac{p(\eta) - p(e_s)}{d_s}\Bigr)

    with :math:`d_s` what the steps divide by, for each row of the level as it counts: in the first round the
    mean of what there is before and at the end. A truth is within the
    interval if it leads to within 1.645 of the rounds' standard deviations of where they are; infinite if
    there is no end to them. Of counts this is asked towards few of them alone: many hide nothing.
    """
    start, here = float(mean @ release.start), float(mean @ release.coefficients)
    p = float(_means(release, family, np.array(start)))
    variance, length = family.variance(p), float(np.linalg.norm(mean))
    residual = max(1.0, math.sqrt(p)) if family.counts else max(p, 1 - p)
    weight = min(
        1.0,
        release.radius2 / max(variance * length**2, 1e-300),
        release.clip.norm / max(length * residual, 1e-300),
    )
    shown, at_end = (1 / max(float(mean @ inverse @ mean), 1e-300) for inverse in inverses)
    # a row that has less weight than its level's mean looks like less information
    first = max(shown / max(share * weight, 1e-12), variance, 1e-9)
    later = max(first * at_end / shown, 1e-9)
    if family.counts:
        rows = share * max(release.prepared.count, 1.0)
        if rows * float(_means(release, family, np.array(here))) < _HARDLY:
            return math.inf
        if rows * min(first, later) > _ENOUGH and abs(here - start) < _NEAR:
            return sd
    truths = np.clip(here + _TRUTHS * max(1.0, 3 * sd), -_LIMIT, _LIMIT)
    ends, reached = np.full(len(truths), start), np.zeros(len(truths))
    for t in range(release.averaged):
        missing = _means(release, family, truths) - _means(release, family, ends)
        reached += ends + missing / (later if t else (first + later) / 2)
        ends = reached / (t + 1)
    # truths far to the side of more information lead beyond nearer ones first, and come back
    above = int(np.searchsorted(truths, start))
    ends[above:] = np.maximum.accumulate(ends[above:])
    ends[:above] = np.minimum.accumulate(ends[:above][::-1])[::-1]
    low, high = here - _ASKED * sd, here + _ASKED * sd
    if low <= ends[0] or (high >= ends[-1] and not family.counts):
        return math.inf
    least, most = np.interp([low, high], ends, truths)
    return float(max(here - least, 0.0 if family.counts else most - here)) / _Z


def _means(release: GLMRelease, family: Family, predictor: Floats) -> Floats:
    """Of a row with the mean exposure."""
    predictor = np.clip(predictor, -_LIMIT, _LIMIT)
    if family.counts:
        return np.asarray(release.size * np.exp(predictor), float)
    return np.asarray(1 / (1 + np.exp(-predictor)), float)


def _of_units(
    release: GLMRelease, family: Family, mean: Floats, share: float, variance: float
) -> tuple[float, bool]:
    """The factor of a level's variance, and whether its error is large.

    A level's information is about its number of rows times the variance at its mean. Where it is small, the
    released matrices may show more, of their noise and of the rounds before; and where a level has hardly
    more events than their noise, the truth may lie where there is less without limit.
    Where the averaged rounds have gone far to where a row of the level knows less, they may not have arrived.
    """
    count = max(release.prepared.count, 1.0)
    start, end = (
        family.variance(family.mean(float(mean @ u))) for u in (release.start, release.coefficients)
    )
    events = share * count * release.size * end
    shown = count / max(float(mean @ np.linalg.solve(release.divisor, mean)), 1e-300)
    factor = max(min((shown / max(events, 1e-9)) ** 2, _NONE / variance), 1.0)
    # steps that divide by what a row knew at the start do not arrive where it knows much less
    fallen = (start / max(end, 1e-9 * start, 1e-300)) ** 2
    return factor, variance * max(factor, fallen) > _FEW**2
