"""The budget of a generalised linear model, and whether there are rows enough for it."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from dpstats.errors import ParameterError
from dpstats.formula.design import Design
from dpstats.linear.budget import LinearBudget, Step, divide, preparation, stage_steps, stages_of
from dpstats.linear.family import Family, Start
from dpstats.linear.public import PublicDesign
from dpstats.linear.refusals import check_needs
from dpstats.linear.summed import unit_steps

__all__ = [
    "COUNT_ROUNDS",
    "FIRST",
    "LEAST_RADIUS2",
    "ROUNDS",
    "GLMBudget",
    "check_information",
    "deviance_ceilings",
    "glm_budget",
    "weight_ceilings",
]

_DEVIANCE_NOISE, _DEVIANCES = 0.02, (6.0, 60.0)
"""Deviances of counts are cut at 6 to 60 times their mean: at the geometric mean of 6 times and of where
their noise is 2 % of it, which falls with more rows."""
_ABOVE = 4.0
"""Those of shares, at so much more than that of the rarer class about the mean."""
_AWAY, _FLAT = 4.0, 0.02
"""What deviances are lower than about the mean is cut for predictors and counts four standard deviations off,
of counts farther out with more rows; predictors are taken to spread by a fiftieth at least."""
_WEIGHT_NOISE, _WEIGHT, _FARTHEST = 0.02, 3.0, 30.0
"""Variances of shares with their slopes, at 3 to 30 times their size: at the geometric mean of 3 times and of
where their noise is 2 % of the mean variance, which falls with more rows."""
_MOST_VARIANCE = 0.25
"""The largest of them."""
_SLOPES, _STEEP, _HEAVIER = 0.5, 2.0, 1.8
"""Those of counts: the typical size of the slopes' share, the largest standard deviation that the linear
predictor is held to have, and by how much larger it may be where columns are skewed."""
_STAGES = ((2.0, 0.0, 0.05), (2.0, 0.25, 0.05), (2.0, 0.5, 0.05))
"""Three stages of whitening: clip rule (c, L), and share of ``mu^2``."""
_SHARES = {
    "count": 0.01,
    "location": 0.05,
    "scale": 0.09,
    "response_location": 0.0,
    "response_scale": 0.0,
    "start": 0.03,
    "exposure": 0.02,
    "scores": 0.12,
    "informations": 0.12,
    "sizes": 0.015,
    "typical": 0.01,
    "limit": 0.12,
    "hessian": 0.09,
    "rounds": 0.32,
    "excess": 0.08,
    "outer": 0.05,
    "rare events": 0.03,
    "deviance": 0.015,
    "weights": 0.015,
}
"""Shares of ``mu^2``; the whitening stages have theirs."""
_COUNT_SHARES = _SHARES | {"hessian": 0.04, "rounds": 0.30, "end": 0.07, "outer": 0.03}
_COUNT_SHARES["rare events"] = 0.02
"""Of counts, whose information moves with the coefficients, and whose rare events have long parts."""
_UNIT_SHARES = _SHARES | {
    "scores": 0.06,
    "informations": 0.10,
    "typical": 0.0,
    "limit": 0.06,
    "rounds": 0.30,
    "excess": 0.05,
    "metric": 0.04,
    "gram": 0.06,
    "first rounds": 0.03,
    "spread": 0.015,
}
"""Where units have several rows, which the steps before the rounds do not know of."""
FIRST, COUNT_FIRST, ROUNDS, COUNT_ROUNDS = 5, 7, 4, 8
"""Rounds that lead to a start, each with a matrix of its own, and rounds that are averaged, of shares and of
counts. More of them leave less of the start, and have more noise each: shares, whose variance falls towards
both ends, do not bear it where events are few. Levels of low rates fall by about a factor of e a round."""
_LAST_PART = 0.44
"""What the last of the first rounds has of their shares, as it says where the averaged rounds begin. What
noise does to the start adds to the information there, which is convex in the coefficients far out, and
standard errors come out too small."""
LEAD, UNIT_ROUNDS = (3, 1), 6
"""Rounds on sums over the rows of a unit: before and after their limit is chosen, and those averaged."""
_LOOK = 2
"""The round before which the sizes of the parts of counts are looked at again."""
LEAST_RADIUS2 = 2.0
"""The least limit of a row's information, in units of the mean over the rows."""
_HIDES = 1.0
"""Spectral norm of the noise of an information matrix over the rows that hides what there is."""


@dataclass(frozen=True)
class GLMBudget(LinearBudget):
    """Everything public about the fit of a generalised linear model.

    Attributes
    ----------
    family : Family
    narrow : Design
        Of the formula as the user wrote it.
    wide : Design or None
        With an offset as a second response.
    cov_type : {"robust", "nonrobust", "cluster"}
    first, averaged : int
        Numbers of the first rounds, and of the last ones, which are averaged.
    """

    family: Family
    narrow: Design
    wide: Design | None
    cov_type: str
    first: int
    averaged: int


def glm_budget(
    design: Design,
    wide: Design | None,
    family: Family,
    cov_type: str,
    eps: float,
    delta: float,
    seeded: bool,
    units: bool = False,
) -> GLMBudget:
    """Divide a budget among the steps of :func:`release_glm`.

    Parameters
    ----------
    design : Design
    wide : Design or None
        With the offset as a second response.
    family : Family
    cov_type : {"robust", "nonrobust", "cluster"}
    eps, delta : float
    seeded : bool
    units : bool
        Whether the rows are added up unit by unit.
    """
    _check_bounds(design, family)
    public = PublicDesign.of(design)
    s = _UNIT_SHARES if units else _COUNT_SHARES if family.counts else _SHARES
    averaged = UNIT_ROUNDS if units else COUNT_ROUNDS if family.counts else ROUNDS
    rounds = COUNT_FIRST if family.counts else FIRST
    parts = [(1 - _LAST_PART) / (rounds - 1)] * (rounds - 1) + [_LAST_PART]
    first = [
        step
        for t, part in enumerate(parts)
        for step in (
            Step(f"sizes {t}", "sizes of the scores", s["sizes"] * (family.counts and t == _LOOK)),
            Step(f"score {t}", f"score, first round {t + 1}", s["scores"] * part),
            Step(f"information {t}", f"information, first round {t + 1}", s["informations"] * part),
        )
    ]
    of_far_rows = "scores of rows far out" if family.counts and not units else "what the limits cut"
    robust, for_errors = cov_type != "nonrobust", "information for the standard errors"
    # of counts that of rare events: with few events outer products are cut
    of_model = s["rare events"] * (not units) if robust else s["outer"] * (not family.counts)
    lead = Step("first rounds", "scores of the units, first rounds", s.get("first rounds", 0.0), sum(LEAD))
    steps = [
        *preparation(public, s),
        *stage_steps(_STAGES),
        Step("start", "shares of the classes" if not family.counts else "sizes of the counts", s["start"]),
        Step("exposure", "sizes of the exposures", s["exposure"] * (wide is not None)),
        *first,
        *([] if not units else [*unit_steps(s["gram"], s["metric"]), lead]),
        Step("typical", "mean square of the scores", s["typical"] * family.counts),
        Step("limit", "sizes of the scores", s["limit"] * (units or family.counts)),
        Step("hessian", "information, averaged rounds" if "end" in s else for_errors, s["hessian"]),
        Step("rounds", "scores, averaged rounds", s["rounds"], averaged),
        *([] if not units else [Step("spread", "mean square of the residuals", s["spread"])]),
        Step("excess", of_far_rows, s["excess"]),
        Step("end", for_errors, s.get("end", 0.0)),
        Step("outer", "outer products for the standard errors", s["outer"] * robust),
        Step("variance", "variance of the scores by the model", of_model),
        Step("deviance", "deviances", s["deviance"]),
        Step("weights", "mean variance, for marginal effects", s["weights"]),
    ]
    mus, guarantee = divide(eps, delta, steps, seeded)
    stages = tuple(replace(stage, response=False) for stage in stages_of(_STAGES, mus))
    return GLMBudget(guarantee, mus, public, stages, family, design, wide, cov_type, rounds, averaged)


def _check_bounds(design: Design, family: Family) -> None:
    """Values are moved to their bounds, and rows with no count, or neither 0 nor 1, are left out then."""
    (name, *_), (bounds, *_) = design.response_names, design.response_bounds
    if bounds is None:
        return
    if family.counts and any(end > 0 and end != math.floor(end) for end in bounds):
        allowed = "whole numbers, to which counts are moved"
    elif not family.counts and (bounds[0] > 0 or bounds[1] < 1):
        allowed = "0 or less, and 1 or more"
    else:
        return
    low, high = bounds
    raise ParameterError(f"bounds of the response {name!r} must be {allowed}, got {low:g} and {high:g}.")


def check_information(method: str, budget: GLMBudget, count: float) -> None:
    """Refuse where noise would hide the information of the first rounds; it knows the released count alone.

    Parameters
    ----------
    method : str
    budget : GLMBudget
    count : float
    """
    q = len(budget.public.scale)
    need = math.sqrt(2 * q) * LEAST_RADIUS2 * q / budget.mus["information 0"] / _HIDES
    check_needs(method, budget, need, count)


def deviance_ceilings(
    budget: GLMBudget, first: Start, count: float, dispersion: float, spread: float
) -> tuple[float, float]:
    """The largest deviance of a row at the fit, and what it may be lower than about the mean.

    Parameters
    ----------
    budget : GLMBudget
    first : Start
    count : float
        The released number of rows.
    dispersion : float
    spread : float
        The standard deviation of the linear predictor.

    Returns
    -------
    tuple of float
    """
    mean, away = first.mean, _AWAY * max(spread, _FLAT)
    if not budget.family.counts:
        most = _ABOVE - 2 * math.log(min(mean, 1 - mean))
        return most, min(2 * away, most)
    wide = max(_DEVIANCE_NOISE * count * budget.mus["deviance"], _DEVIANCES[0])
    times = min(math.sqrt(wide * _DEVIANCES[0]), _DEVIANCES[1])
    # where counts are rare, those that are not 0 make most of the deviance
    two = 4 * math.log(2 / mean) - 4 + 2 * mean
    # 2 away for each unit that a count is off its mean, and what the fit is off the mean
    change = 2 * away * (1 + math.sqrt(mean * max(dispersion, 1.0))) + 2 * mean * away**2
    change *= math.exp(min(away, 20.0))
    # rows of a rare level are explained more
    change = max(change, math.sqrt(wide / 2 * dispersion * change))
    most = max(times * first.deviance, two)
    return max(times * dispersion, two), min(change, most)


def weight_ceilings(
    budget: GLMBudget, first: Start, count: float, dispersion: float, spread: float, lengths2: float
) -> tuple[float, tuple[float, float], float, float]:
    """How a row's mean variance and its slopes are limited.

    The means of counts have no end, and are held to be log-normal.

    Parameters
    ----------
    budget : GLMBudget
    first : Start
    count : float
        The released number of rows.
    dispersion : float
    spread : float
        The standard deviation of the linear predictor but for offsets.
    lengths2 : float
        Mean squared length of a row whose linear predictor is about its mean.

    Returns
    -------
    share : float
        Of the slopes, so that those of counts are as a rule half as large as the variance.
    ceilings : (float, float)
        Of the variance, and of the length of the slopes' share.
    cut : float
        What the first takes off the mean variance, over it.
    error : float
        By how much that may be wrong.
    """
    variance, noise = budget.family.variance(first.mean), 1 / budget.mus["weights"] / count
    if not budget.family.counts:
        least = variance * math.sqrt(1 + lengths2) * _WEIGHT
        wide = _WEIGHT_NOISE / noise * variance
        norm = max(least, min(math.sqrt(wide * least), _FARTHEST * least), _MOST_VARIANCE)
        return 1.0, (_MOST_VARIANCE, math.sqrt(norm**2 - _MOST_VARIANCE**2)), 0.0, 0.0
    # counts vary by their means, offsets and all, by their dispersion, and by what is in no model
    varies = max(first.dispersion - dispersion, 0.0) / first.mean
    sd = min(max(spread, math.sqrt(math.log1p(varies))), _STEEP)
    found = []
    for ceiling in 2.0 ** np.arange(1, 9, 0.5):
        low, high = (_cut(ceiling, times * sd) for times in (1.0, _HEAVIER))
        cut, error = (low + high) / 2, (high - low) / 2
        found.append(((ceiling * noise) ** 2 + error**2, ceiling * variance, cut, error))
    _, ceiling, cut, error = min(found)
    return _SLOPES / math.sqrt(lengths2), (ceiling, _SLOPES * ceiling), cut, error


def _cut(ceiling: float, sd: float) -> float:
    """The share of the mean of a log-normal variable that is beyond so many times its mean."""
    beyond = math.log(ceiling) + sd**2 / 2
    return float(ndtr((sd**2 - beyond) / sd) - ceiling * ndtr(-beyond / sd)) if sd > 0 else 0.0
