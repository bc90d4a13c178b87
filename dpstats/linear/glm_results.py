"""What generalised linear models report, from released values only."""

import math
from collections.abc import Iterator

import numpy as np

from dpstats._types import Floats, Integers
from dpstats.linear.curvature import shrunken_to, visibly_more
from dpstats.linear.few_events import few_events
from dpstats.linear.glm_budget import LEAD, GLMBudget
from dpstats.linear.glm_release import GLMRelease
from dpstats.linear.identify import BELOW, HIDDEN, identify, undetermined
from dpstats.linear.misfit import with_unlike_rows
from dpstats.linear.normal_columns import bent
from dpstats.linear.prepare import Prepared
from dpstats.linear.public import PublicDesign
from dpstats.linear.results import (
    Inference,
    constant_alone,
    left_out,
    moves_the_constant,
    repeated_in_words,
)
from dpstats.linear.rounds_inference import rounds_inference
from dpstats.linear.spread import cut_shape, of_long_rows
from dpstats.results.glm import GLMResults, Slopes
from dpstats.results.results import SAMPLING_AND_PRIVACY
from dpstats.results.roots import root_of, side_by_side

__all__ = ["glm_covariance", "glm_results"]

_SEPARATED = 7.0
"""Standard deviation of the linear predictor beyond which the columns all but separate classes, and rounds of
counts have gone astray."""
_FAR = 1.0
"""Standard error of the linear predictor far out along a column from which nothing is determined of it."""
_SPARSE, _OUT = 0.05, 4.0
"""A column is sparse if at most such a share of the rows, in effect, is away from its middle; far out is then
so many times its scale."""
_BELOW_OF_COUNTS = 0.5
"""For a bound on what rounds of counts leave eigenvalues are lowered by so many standard deviations."""
_UNLIKE = (
    "Rows whose columns are far out have less weight. Where they do not follow the model of the others, "
    "intervals allow for what is seen of that, beyond the noise."
)
_OF_FAR_ROWS = 0.1
"""The variance of what limits add to a score that is limited, over the share of the information that it
lacks."""
_LEAST = 0.3
"""Squared scores are at least this share of what the information says."""
_MOST_NOISE, _EXPLAINED_NOISE = 0.25, 0.1
"""The standard deviation of the noise of both deviances is at most the second share of the null deviance
where that is shown, and with it the share that columns explain; else a deviance is shown where its own noise
is at most the first share of it."""
_GUESSED, _OVERDISPERSED = 0.5, 2.0
"""A dispersion is shown if what is read off the counts beyond the limit is at most this share of what is
below it, or if the latter is so many times what Poisson counts have."""
_WORDS = {"deviance": "deviance", "null_deviance": "null deviance", "dispersion": "dispersion"}


def _of_units(release: GLMRelease, cov_type: str) -> Inference:
    """What rounds on sums of units say."""
    assert release.rounds is not None
    return rounds_inference(release.rounds, release.prepared, cov_type, "")


def glm_covariance(release: GLMRelease, cov_type: str, counts: bool = False) -> tuple[Floats, Floats, Floats]:
    r"""Covariance of the coefficients in coordinates of the release, what hidden directions add to it, and
    its part that is of bounds on biases.

    .. math:: \frac1n (I - L) A^{-1} M A^{-1} (I - L) + N
              + A^{-1} K A^{-1} + I_d

    with ``A`` the information where rounds end, of shares the mean by precision of two released matrices
    and what ``turn`` makes of it, ``M`` that of the scores (for "nonrobust" what the model says: of shares a
    released matrix, of counts ``A``; else of counts with what rare events lack), ``L`` what the averaged
    rounds leave of their start, ``N`` their noise, ``K`` a bound on the second moment of what the clip of
    counts takes off, and :math:`I_d` the bounds of :func:`~dpstats.linear.identify.identify`, in which the
    mean deviance stands for the mean squared residual.
    """
    if release.rounds is not None:
        inference = _of_units(release, cov_type)
        return inference.cov, inference.hidden, inference.bias
    whitening, q = release.prepared.whitening, len(release.coefficients)
    count = max(release.prepared.count, 1.0)
    seen = release.seen
    values, error, vectors = seen.directions()
    values = np.maximum(values, np.maximum(error, 1e-9))
    # directions of the information where rounds began, as it is at the end
    turned, back = release.turn.T @ vectors, np.linalg.solve(release.turn, vectors)
    steps = np.linalg.solve(release.divisor, turned)
    reached, of_round = np.einsum("ie,ie->e", turned, steps), release.noise**2 * steps.T @ steps

    def left_over(eigenvalues: Floats) -> tuple[Floats, Floats]:
        left, noise = np.ones(q), np.zeros((q, q))
        for t in range(release.averaged):
            kept = 1 - eigenvalues * reached / (t + 1)
            left, noise = kept * left, kept[:, None] * noise * kept + of_round / (t + 1) ** 2
        return noise, np.abs(left)

    noise, left = left_over(values)
    kept = (1 - left) / values
    flat = (turned * values) @ turned.T
    scores = flat
    if release.model is not None and not counts:
        ratio = max(float(np.trace(release.model) / np.trace(flat)), _LEAST)
        scores = shrunken_to(release.model, release.model_noise, ratio * flat)
    if release.outer is not None and counts:
        seen_trace = float(np.trace(release.outer))
        ratio = max(seen_trace / float(np.trace(flat)), _LEAST)
        scores = shrunken_to(release.outer, release.outer_noise, ratio * flat)
        if release.model is not None:
            # of rare events the largest squares are cut
            scores = scores + visibly_more(release.model - scores, release.model_noise, flat)
            # what else is, in the shape of what is left
            total = float(np.trace(scores))
            more = max(release.cut - total + seen_trace, 0.0)
            scores *= 1 + more / max(total, release.square)
    elif release.outer is not None:
        # the largest squares, which are of few events, are cut
        scores = scores + visibly_more(release.outer - scores, release.outer_noise, flat)
    if release.outer is not None:
        if cov_type == "robust":
            scores = scores * (count / max(count - q, count / 2))
    # parts are long where means are large: between the constant and the predictor; and the longest lie more
    # than others along directions with large squares
    longest = of_long_rows(scores, flat)
    shape = cut_shape(longest, flat, whitening.W, release.coefficients, release.prepared.intercept)
    less = max(1 - float(np.trace(scores) / np.trace(flat)), 0.0)
    inverse, scores = (back / values) @ back.T, back.T @ scores @ back
    again = release.clip.again / count / np.trace(longest)
    taken = release.clip.bias**2 * shape
    if release.excess is not None:
        # of counts known by then, of shares by what weights take off
        sampling = release.excess_rest if counts else _OF_FAR_ROWS * less / count
        released = release.excess, release.excess_noise**2 + sampling
        taken = with_unlike_rows(taken, inverse @ whitening.W.T, whitening.W.T, *released, counts=counts)
    lost = inverse @ (taken + again * longest) @ inverse
    spread = vectors @ (kept[:, None] * scores * kept / count + noise) @ vectors.T
    undo = np.linalg.inv(release.turn)
    way = release.coefficients - release.start
    moved, arrived = release.turn @ way, 1.0
    if not counts:
        arrived = bent(way, undo @ spread @ undo.T, release.unit)

    def left_at(eigenvalues: Floats) -> Floats:
        # of shares it moves with the coefficients: one standard deviation more, and as they are farther on
        lower = (
            eigenvalues if counts else np.maximum((eigenvalues - error) * release.onward / arrived, HIDDEN)
        )
        return left_over(lower)[1]

    below = _BELOW_OF_COUNTS if counts else BELOW
    bias, hidden = identify(seen, 1.0, left_at, moved, spread, release.first.deviance, below)
    bias = undo @ bias @ undo.T + lost
    spread = undo @ spread @ undo.T
    # along the way that the rounds have gone
    along = way / max(float(np.linalg.norm(way)), 1e-300)
    spread = spread + (arrived**2 - 1) * float(along @ spread @ along) * np.outer(along, along)
    return spread + bias, undo @ hidden @ undo.T, bias


def _goodness(release: GLMRelease, counts: bool, alone: bool) -> dict[str, float]:
    """What a table says of the fit as a whole; NaN where that is mostly noise, or mostly a guess."""
    count, (of_fit, of_difference) = max(release.prepared.count, 1.0), release.deviance_noise
    deviance, null = release.deviance, release.deviance if alone else release.null_deviance
    # what noise has put on the difference is not to vouch for it
    surely = max(deviance, null - 2 * of_difference)
    lost = math.hypot(of_fit, of_difference) > _EXPLAINED_NOISE * surely
    found = {
        "deviance": count * (math.nan if lost and of_fit > _MOST_NOISE * (deviance - of_fit) else deviance),
        "null_deviance": count * (math.nan if lost else null),
    }
    if counts:
        # both of where the averaged rounds begin
        model = float(np.trace(release.divisor))
        guessed = release.beyond > _GUESSED * release.square and release.square < _OVERDISPERSED * model
        dispersion = (release.square + release.beyond) / model
        if release.rounds is not None:
            guessed, dispersion = math.isnan(found["deviance"]), release.rounds.residual2 / release.size
        found["dispersion"] = math.nan if guessed else dispersion
    return found


def _far(budget: GLMBudget, prepared: Prepared, errors: Floats, root: Floats) -> Integers:
    """Columns along which the mean is known within a factor e at most: there nothing is linear.

    Of counts at the end of the column. Shares have ends, beyond which nothing changes; but the few rows of a
    sparse column are as a rare level. Where other columns read the variable it is enough that the mean is
    known where all of them are at its end: the error of its own coefficient may be that of a slope far away.
    """
    columns, free = prepared.columns, budget.public.free
    if columns is None:
        return np.zeros(0, np.intp)
    distance = columns.reach
    if not budget.family.counts:
        sparse = columns.filled <= _SPARSE * prepared.count
        distance = np.where(sparse, np.minimum(distance, _OUT * columns.scale), 0.0)
    at_end = errors[free] * distance
    for i, moved in _to_ends(budget.public, prepared, distance):
        at_end[i] = min(at_end[i], float(np.max(np.linalg.norm(moved @ root, axis=1))))
    return free[at_end > _FAR]


def _to_ends(public: PublicDesign, prepared: Prepared, distance: Floats) -> Iterator[tuple[int, Floats]]:
    """For free columns whose variable others read, how all columns change towards its ends: (2, d)."""
    marginals, variables = public.marginals, prepared.variables
    assert marginals is not None and variables is not None
    middle = {name: float(variables.loc[i]) for name, i in marginals.variables.items()}
    codes = {factor.name: np.zeros(3, np.intp) for factor in marginals.factors}
    for name, i in marginals.variables.items():
        if i < len(public.free):
            values = {other: np.full(3, at) for other, at in middle.items()}
            values[name] += distance[i] * np.array([-1.0, 0.0, 1.0])
            X, usable = marginals.rows(values, codes)
            if usable.all() and np.isfinite(X).all():
                moved = np.zeros((2, len(public.scale)))
                moved[:, list(marginals.joint)] = X[::2] - X[1]
                yield i, moved


def glm_results(method: str, budget: GLMBudget, release: GLMRelease) -> GLMResults:
    """The results of a generalised linear model, from its release."""
    design, prepared, family = budget.narrow, release.prepared, budget.family
    back = prepared.to_units(len(design.column_names), design.has_intercept)
    cov, hidden, bias = glm_covariance(release, budget.cov_type, family.counts)
    more, few = few_events(release, cov, bias, family, back)
    cov = cov + more
    at_end = family.counts and release.rounds is None
    leaning = release.seen.leaning(hidden, back) if at_end else back
    repeated, turn = [], release.turn
    if release.rounds is None:
        repeated = release.seen.repeated(turn @ hidden @ turn.T, back @ np.linalg.inv(turn))
    root, hidden_root = back @ root_of(cov), leaning @ root_of(hidden)
    cov, hidden = back @ cov @ back.T, leaning @ hidden @ leaning.T
    lost, free = undetermined(cov, hidden) | few, prepared.gone.free
    in_model = np.append(prepared.affine.columns, prepared.gone.instead)
    lost[np.setdiff1d(np.arange(len(back)), in_model)] = True
    if moves_the_constant(design, prepared):
        lost[0] = True
    far = _far(budget, prepared, np.sqrt(np.diagonal(cov)), root)
    lost[far] = True
    steep = release.predictor_sd > _SEPARATED
    separated, unsettled = steep and not family.counts, steep and family.counts or release.unsettled
    lost |= separated or unsettled
    root = side_by_side(root, hidden_root)
    root[lost] = np.nan
    lost |= free.any(axis=1)
    cov = cov + hidden
    cov[lost] = cov[:, lost] = np.nan
    estimates = back @ release.coefficients
    if design.has_intercept:
        estimates[0] -= math.log(release.exposure)
    notes = list(left_out(design, prepared))
    notes.extend(repeated_in_words(repeated, design))
    if few.any():
        notes.append(
            "The events of a level, or of one value of a column with two, are hardly more than their noise: "
            "its coefficient is not determined."
        )
    if separated:
        notes.append(
            "The columns separate the classes, or nearly: estimates may grow without limit, and none is "
            "determined."
        )
    if len(far):
        notes.append(
            "The mean far out along a column may be off by a factor: nothing is determined of it."
            if family.counts
            else "A column is hardly ever away from its middle: too few rows to determine its coefficient."
        )
    if unsettled:
        notes.append("The rounds had not settled when they ended: no coefficient is determined.")
    if not design.layout.responses[0].truth:
        beside = " or that have no finite offset (as of an exposure of 0)" * (budget.wide is not None)
        notes.append(f"Rows whose response is not {family.answers}{beside} are left out.")
    typical = math.sqrt(max(release.square, 1e-300))
    if release.rounds is not None:
        notes.append(release.clip.unit_note(typical, release.rounds.most))
        notes.extend(_of_units(release, budget.cov_type).notes[1:])
        notes.append("Deviances and marginal effects are of one row of each unit, drawn at random.")
    elif family.counts:
        times = release.clip.norm / typical
        limit = f"A row's part of the score is limited to {times:.3g} times its typical size."
        notes.append(limit + release.clip.unseen_of())
    if release.rounds is None and not constant_alone(design):
        notes.append(_UNLIKE)
    released = {
        "n": prepared.count,
        "rounds": budget.first + release.averaged + (0 if release.rounds is None else sum(LEAD)),
        **_goodness(release, family.counts, constant_alone(design)),
    }
    if unknown := [_WORDS[name] for name in _WORDS if math.isnan(released.get(name, 0.0))]:
        of_which = "much of it" if len(unknown) == 1 else "much of them"
        notes.append(f"Not determined: {', '.join(unknown)}. Noise, or what limits cut, may be {of_which}.")
    slope = np.zeros(len(back))
    slope[prepared.affine.columns] = prepared.gradient(release.weight_slope)
    return GLMResults(
        method=method,
        formula=design.formula,
        response=design.response_names[0],
        names=design.column_names,
        estimates=estimates,
        cov=cov,
        covers=SAMPLING_AND_PRIVACY,
        guarantee=budget.guarantee,
        released=released,
        notes=tuple(notes),
        terms=dict(design.term_slices),
        design=design,
        cov_type=budget.cov_type,
        link=family.link,
        bias=back @ bias @ back.T,
        root=root,
        free=free if np.any(free) else None,
        bias_root=back @ root_of(bias),
        slopes=Slopes(release.weight, slope, release.weight_error),
    )
