"""The budget of a generalised linear model, and whether there are rows enough for it."""

import math
from dataclasses import dataclass, replace

from dpstats.errors import ParameterError
from dpstats.formula.design import Design
from dpstats.linear.budget import LinearBudget, Step, divide, preparation, stage_steps, stages_of
from dpstats.linear.family import Family
from dpstats.linear.public import PublicDesign
from dpstats.linear.refusals import check_needs
from dpstats.linear.summed import unit_steps

__all__ = ["COUNT_ROUNDS", "FIRST", "LEAST_RADIUS2", "ROUNDS", "GLMBudget", "check_information", "glm_budget"]

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
    "outer": 0.05,
    "deviance": 0.015,
    "weights": 0.015,
}
"""Shares of ``mu^2``; the whitening stages have theirs."""
_COUNT_SHARES = _SHARES | {"hessian": 0.04, "rounds": 0.30, "end": 0.07, "outer": 0.03, "rare events": 0.02}
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
FIRST, ROUNDS, COUNT_ROUNDS = 5, 4, 8
"""Rounds that lead to a start, each with a matrix of its own, and rounds that are averaged, of shares and of
counts. More of them leave less of the start, and have more noise each: shares, whose variance falls towards
both ends, do not bear it where events are few."""
_FIRST_PARTS = (0.14, 0.14, 0.14, 0.14, 0.44)
"""Parts of their shares: the last one says where the averaged rounds begin. What noise does to the start adds
to the information there, which is convex in the coefficients far out, and standard errors come out too small.
"""
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
    averaged : int
        Number of the last rounds, which are averaged.
    """

    family: Family
    narrow: Design
    wide: Design | None
    cov_type: str
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
    first = [
        step
        for t, part in enumerate(_FIRST_PARTS)
        for step in (
            Step(f"sizes {t}", "sizes of the scores", s["sizes"] * (family.counts and t == _LOOK)),
            Step(f"score {t}", f"score, first round {t + 1}", s["scores"] * part),
            Step(f"information {t}", f"information, first round {t + 1}", s["informations"] * part),
        )
    ]
    robust, for_errors = cov_type != "nonrobust", "information for the standard errors"
    # of shares all of it, of counts that of rare events, whose outer products are cut
    of_model = s.get("rare events", 0.0) if robust else s["outer"] * (not family.counts)
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
        Step("excess", "what the clip cuts", s.get("excess", 0.0)),
        Step("end", for_errors, s.get("end", 0.0)),
        Step("outer", "outer products for the standard errors", s["outer"] * robust),
        Step("variance", "variance of the scores by the model", of_model),
        Step("deviance", "deviances", s["deviance"]),
        Step("weights", "mean variance, for marginal effects", s["weights"]),
    ]
    mus, guarantee = divide(eps, delta, steps, seeded)
    stages = tuple(replace(stage, response=False) for stage in stages_of(_STAGES, mus))
    return GLMBudget(guarantee, mus, public, stages, family, design, wide, cov_type, averaged)


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
