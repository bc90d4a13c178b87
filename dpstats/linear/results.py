"""What least-squares estimators report besides coefficients, from released values only."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpstats._format import apart, listed
from dpstats._types import Floats, Integers
from dpstats.formula.design import Design
from dpstats.formula.units import WithinDesign
from dpstats.linear.bootstrap import DRAWS, Corrected
from dpstats.linear.identify import Seen, undetermined
from dpstats.linear.misfit import OFF_THE_LINE
from dpstats.linear.prepare import Prepared
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.hypotheses import HetTest
from dpstats.results.results import SAMPLING_AND_PRIVACY, Results
from dpstats.results.roots import root_of, side_by_side

__all__ = [
    "Inference",
    "constant_alone",
    "decided_by_few",
    "left_out",
    "linear_results",
    "moves_the_constant",
    "r_squared",
    "regression_results",
    "repeated_in_words",
]

_VARIED, _ACCOUNTED = 0.2, (0.15, 25.0)
"""Where the response differs from one value in fewer than a fifth of the rows, the least share of its mean
square that a fit and its residuals have; and the most, anyway. Usually it is from 0.5 to 2, and for long
tails up to 20."""
_MOSTLY = 0.75
"""Share of a variance from which on it is said to be a bound on bias: without that the error is half."""
_BOUNDED = (
    "Standard errors of {} are for the most part a bound on bias, by the limit on {} or by what the fit "
    "leaves of its start, and not noise: more {} or a larger eps would make it smaller."
)
_REFERENCE = (
    "Left out, with its rows, which are too few for the noise: the reference level of {}, {!r}. What is "
    "about it is not determined, as the constant and comparisons with it; estimates have {!r} in its place. "
    "Differences of other levels, and predictions at them, may be. A level that many rows have would stay."
)
_APART = "Left out, with the rows that have another value there than nearly all, which"
_ONE_VALUE = (
    "The response has one value in nearly all rows, as a rare 0/1 response has. Those in which it differs "
    "are too few to be seen by their residuals: the fit is that of the others, and nothing is determined. "
    "For a 0/1 response take logit."
)
_FAR_OUT = (
    "Rows very far out are in the residuals that were not seen in the response: the fit hangs on few rows, "
    "and nothing is determined."
)


@dataclass(frozen=True)
class Inference:
    """What is known of the error of coefficients in whitened coordinates.

    Attributes
    ----------
    cov : (q, q) array
        Sampling and privacy noise together, and bias in quadrature.
    bias : (q, q) array
        The part of it that is of bounds on biases.
    noise : float
        What the noise in the coefficients ``u`` adds to ``u' gram u``, in expectation.
    gram : (q, q) array
        Gram matrix of the whitened coordinates over the number of rows.
    notes : tuple of str
    corrected : Corrected or None
        Estimates of the parametric bootstrap, if it was asked for.
    hidden : (q, q) array
        What directions without a bound add.
    seen : Seen or None
        By which they are hidden; None if that does not tell columns.
    """

    cov: Floats
    bias: Floats
    noise: float
    gram: Floats
    notes: tuple[str, ...]
    corrected: Corrected | None
    hidden: Floats
    seen: Seen | None = None


def regression_results(
    method: str,
    design: Design | WithinDesign,
    guarantee: Guarantee,
    prepared: Prepared,
    u: Floats,
    inference: Inference | None,
    variance: float | None,
    *,
    rounds: int | None = None,
    sigma: float | None = None,
    winsorized: bool,
    cov_type: str | None = None,
    het: HetTest | None = None,
    fitted_within: bool = True,
    size: float = 1.0,
) -> Results:
    """The Results of a linear fit in whitened coordinates.

    Parameters
    ----------
    method : str
    design : Design
    guarantee : Guarantee
    prepared : Prepared
    u : (q,) array
        Coefficients in whitened coordinates, for the standardised response.
    inference : Inference or None
        None for an estimator without standard errors, or a flat response.
    variance : float or None
        Released mean squared residual, in standardised units.
    winsorized : bool
        Whether predictions use columns moved into their private ranges.
    fitted_within : bool
        Whether the fit uses them too, and not predictions alone.
    rounds : int, optional
    sigma : float, optional
        Residual scale in standardised units, if it is not the root of `variance`.
    cov_type : str, optional
        What the standard errors allow for, for the table.
    het : HetTest, optional
        The test of constant error variance.
    size : float
        Number of rows that `variance` is about: the mean of a unit's.

    Returns
    -------
    Results
    """
    scale, shift = float(prepared.response.scale[0]), float(prepared.response.loc[0])
    back = scale * prepared.to_units(len(design.column_names), design.has_intercept)
    cov = corrected = bias = root = bias_root = None
    notes: list[str] = []
    bounded: list[str] = []
    explained = 0.0
    if inference is not None:
        cov, corrected = back @ inference.cov @ back.T, inference.corrected
        bias, bias_root = back @ inference.bias @ back.T, back @ root_of(inference.bias)
        hidden = back @ inference.hidden @ back.T
        lost = undetermined(cov, hidden)
        if inference.seen is not None:
            notes += repeated_in_words(inference.seen.repeated(inference.hidden, back), design)
        gone = np.zeros(len(lost), bool)
        gone[:1] = moves_the_constant(design, prepared)
        if variance is not None:
            explained = r_squared(prepared, u, inference, variance, design.has_intercept, size)
            if few := decided_by_few(prepared, variance, explained, size):
                gone[:], variance, het = True, None, None
                notes.append(few)
        if corrected is not None:
            notes.append(_correction_in_words(back @ (corrected.estimates - u), cov))
            cov = back @ corrected.cov @ back.T
        cov = cov + hidden
        whitened = inference.cov if corrected is None else corrected.cov
        root = side_by_side(back @ root_of(whitened), back @ root_of(inference.hidden))
        root[lost | gone] = np.nan
        lost |= gone | prepared.gone.free.any(axis=1)
        mostly = ~lost & (np.diagonal(bias) > _MOSTLY * np.diagonal(cov))
        bounded = [design.column_names[j] for j in np.flatnonzero(mostly)]
        cov[lost] = cov[:, lost] = np.nan
    estimates = back @ (u if corrected is None else corrected.estimates)
    if design.has_intercept:
        estimates[0] += shift
    notes += left_out(design, prepared)
    limits = _limits_in_words(design, prepared) if winsorized else []
    if limits:
        where = "in the fit and in predict()" if fitted_within else "in predict()"
        notes.append(f"Columns winsorised at {listed(limits)}, {where}.")
    notes += [] if inference is None else inference.notes
    if bounded and OFF_THE_LINE not in notes:
        what = "units" if cov_type == "cluster" else "rows"
        notes.append(_BOUNDED.format(listed(bounded), what, what))
    released = {"n": prepared.count}
    if prepared.flat_response:
        covers = "The response shows no variation beyond the privacy noise, so only its location is given."
    else:
        covers = SAMPLING_AND_PRIVACY if inference is not None else "This estimator has no standard errors."
        if rounds is not None:
            released["rounds"] = rounds
        if sigma is not None:
            released["sigma"] = scale * sigma
        if inference is not None and variance is not None:
            # (only the constant's column tells how many rows units have)
            if size == 1.0 or design.has_intercept:
                released["sigma"] = scale * math.sqrt(variance / size)
            released["rsquared"] = 0.0 if constant_alone(design) else explained
    limited = design.within(prepared.low, prepared.high) if winsorized else design
    return linear_results(
        method,
        limited,
        guarantee,
        prepared,
        estimates,
        covers,
        cov=cov,
        released=released,
        notes=notes,
        cov_type=None if inference is None else cov_type,
        het=het,
        bias=bias,
        root=root,
        bias_root=bias_root,
    )


def repeated_in_words(found: Sequence[Integers], design: Design | WithinDesign) -> list[str]:
    """A note for columns that repeat each other (:meth:`~dpstats.linear.identify.Seen.repeated`), but of one
    term alone, as the columns of a factor of which a level has no rows, and of products, as of a level whose
    rows are nearly all in one cell: none of these can be left out."""
    names, terms = design.column_names, np.zeros(len(design.column_names), int)
    for k, (term, part) in enumerate(design.term_slices.items()):
        terms[part] = -1 if ":" in term else k
    first, notes = int(design.has_intercept), list[str]()
    for columns in found:
        of = np.unique(terms[columns[columns >= first]])
        if len(of) > 1 and of[0] >= 0:
            repeated = listed([names[j] for j in columns], 6)
            notes.append(
                f"One of these nearly repeats the others: {repeated}. That hides what is not determined; "
                "leave one out."
            )
    return notes


def constant_alone(design: Design | WithinDesign) -> bool:
    """Whether there is nothing that could explain the response."""
    return design.has_intercept and len(design.column_names) == 1


def linear_results(
    method: str,
    design: Design | WithinDesign,
    guarantee: Guarantee,
    prepared: Prepared,
    estimates: Floats,
    covers: str,
    *,
    cov: Floats | None,
    released: Mapping[str, float],
    notes: Sequence[str],
    cov_type: str | None = None,
    het: HetTest | None = None,
    bias: Floats | None = None,
    root: Floats | None = None,
    bias_root: Floats | None = None,
) -> Results:
    """The Results of a linear fit in units of the data, without standard errors of columns left out."""
    if cov is not None:
        missing = np.setdiff1d(np.arange(len(cov)), prepared.affine.columns)
        cov[missing] = cov[:, missing] = np.nan
    results = Results.of_regression(
        design,
        method,
        estimates,
        guarantee,
        covers,
        cov=cov,
        released=released,
        notes=notes,
        cov_type=cov_type,
        het=het,
    )
    free = prepared.gone.free if np.any(prepared.gone.free) else None
    return replace(results, bias=bias, root=root, bias_root=bias_root, free=free)


def left_out(design: Design | WithinDesign, prepared: Prepared) -> tuple[str, ...]:
    """Notes about levels that left the model and columns without variation, as far as there are any."""
    of_levels, others = _missing(design, prepared)
    alike = prepared.gone.alike
    parts = alike, np.setdiff1d(of_levels, alike), others
    repeated, levels, columns = ([design.column_names[j] for j in part] for part in parts)
    notes = []
    if repeated:
        # (of a reference level there is no column)
        why = "which are the same or nearly so" if len(repeated) > 1 else "which are nearly those of a level"
        names = [name for name in repeated if ":" not in name] or repeated
        notes.append(f"Left out, with their rows, {why}: {listed(names, 6)}. Leave one out.")
    if levels:
        why = "are too few for the noise" + ", or have these levels in common" * (len(levels) > 1)
        notes.append(f"Left out, with their rows, which {why}: {listed(levels)}.")
    notes += [_REFERENCE.format(*names) for names in prepared.gone.references]
    apart = np.array([design.column_names[j] for j in prepared.gone.apart], object)
    once = ~np.isin(prepared.gone.apart, alike)
    few, none = (list(apart[once & (prepared.gone.seen == seen)]) for seen in (True, False))
    if few:
        notes.append(f"{_APART} are too few for the noise: {listed(few)}.")
    if none:
        notes.append(f"{_APART} are not seen beyond the noise: {listed(none)}; bounds= keep a column in.")
    if columns:
        why = "no variation beyond the privacy noise"
        notes.append(f"Left out, {why}: {listed(columns)}; bounds= keep a numeric column in.")
    if empty := [name for name, part in design.term_slices.items() if part.start == part.stop]:
        notes.append(f"Without a column, as its factor has one level: {listed(empty)}.")
    return tuple(notes)


def moves_the_constant(design: Design | WithinDesign, prepared: Prepared) -> bool:
    """Whether the constant takes up the mean of a column that left the model."""
    gone = prepared.gone
    elsewhere = np.any((gone.least != 0) | (gone.most != 0))
    return design.has_intercept and bool(len(_missing(design, prepared)[1]) or elsewhere)


def _missing(design: Design | WithinDesign, prepared: Prepared) -> tuple[Integers, Integers]:
    """Columns that are not in the model: those of levels, whose rows are not either, and others."""
    missing = np.setdiff1d(np.arange(len(design.column_names)), prepared.affine.columns)
    of_levels = np.isin(missing, prepared.gone.columns)
    instead = np.isin(missing, prepared.gone.instead)
    apart = np.isin(missing, prepared.gone.apart)
    return missing[of_levels], missing[~of_levels & ~instead & ~apart]


def _limits_in_words(design: Design | WithinDesign, prepared: Prepared) -> list[str]:
    """The limits of the winsorised columns that are in the model, as texts, unless they lie beyond bounds."""
    bounds = [(-math.inf, math.inf) if b is None else b for b in design.column_bounds]
    return [
        f"{design.column_names[j]} [{', '.join(apart(prepared.low[j], prepared.high[j]))}]"
        for j in prepared.affine.columns
        if prepared.low[j] > bounds[j][0] or prepared.high[j] < bounds[j][1]
    ]


def _correction_in_words(change: Floats, cov: Floats) -> str:
    """The note of the bootstrap, with the size of its correction in standard errors of the formula."""
    sizes = np.abs(change) / np.sqrt(np.maximum(np.diagonal(cov), 1e-300))
    return (
        f"Parametric bootstrap of {DRAWS:,} simulated releases, at no privacy cost. It takes off the bias "
        f"that it can see, here at most {float(np.max(sizes, initial=0.0)):.2g} standard errors."
    )


def decided_by_few(prepared: Prepared, variance: float, explained: float, size: float) -> str:
    """What to say where few rows decide the fit, which the released counts cannot follow; else nothing.

    The standardisation counts rows by octave of the response, and the fit by octave of the products. Where
    either sees a hundred rows, say, that the other does not, a clip is chosen without them, or the start is
    far from them: then residuals, and standard errors, are those of the other rows.

    Parameters
    ----------
    prepared : Prepared
    variance : float
        Mean squared residual; of units, of the sums of their squares.
    explained : float
        R-squared.
    size : float
        Mean number of rows of a unit.
    """
    # if no row is seen to differ, the scale is that of bounds, and nothing can be explained
    left = 1 - explained if prepared.varied > 0 else 1.0
    least, most = (bound * left * size for bound in _ACCOUNTED)
    if prepared.varied < _VARIED and variance < least:
        return _ONE_VALUE
    return _FAR_OUT if variance > most and not math.isnan(prepared.varied) else ""


def r_squared(
    prepared: Prepared, u: Floats, inference: Inference, variance: float, intercept: bool, size: float = 1.0
) -> float:
    """Explained share of the response's variance.

    Parameters
    ----------
    prepared : Prepared
    u : (q,) array
        Coefficients in whitened coordinates.
    inference : Inference
    variance : float
        Mean squared residual; of units, of the sums of their squares.
    intercept : bool
    size : float
        Mean number of rows of a unit.

    Returns
    -------
    float
        In [0, 1).
    """
    # the noise in u explains nothing: its expected part is taken off
    gram = inference.gram
    explained = float(u @ gram @ u) - inference.noise
    if intercept:
        first = np.linalg.inv(prepared.whitening.W)[:, 0]
        explained -= float(first @ gram @ u) ** 2 / size
    explained = max(explained, 0.0)
    return explained / (explained + variance) if explained + variance > 0 else 0.0
