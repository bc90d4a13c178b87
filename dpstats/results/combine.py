"""Releases of disjoint data, pooled by inverse variance: at no privacy cost."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from dpstats._boundary import guarded
from dpstats._format import listed
from dpstats._types import Booleans
from dpstats._validation import fail, shown
from dpstats.errors import NotReleased, ParameterError
from dpstats.privacy.guarantee import KINDS, Guarantee
from dpstats.results.estimable import Known
from dpstats.results.glm import GLMResults
from dpstats.results.grouped import GroupedResults, gathered_notes
from dpstats.results.parts import Heterogeneity, Predictor
from dpstats.results.pooling import pool
from dpstats.results.results import SAMPLING_AND_PRIVACY, Results
from dpstats.results.spends import division
from dpstats.results.table import format_ends

__all__ = ["combine"]

_POOLED = ", pooled"
_APART = (
    "Each coefficient is pooled by itself: the fits have no covariances between them, and so there is no "
    "test of whether all are about the same coefficients."
)
_DIFFER = 0.001
"""Significance from which on fits visibly differ."""
_FACTORS = ("root", "bias_root")


@guarded
def combine(fits: Sequence[Results] | GroupedResults) -> Results:
    r"""One result from several releases of disjoint data: the fixed-effect estimate of a meta-analysis.

    .. math:: \hat\beta = \Big(\sum_i A_i^\top V_i^{-1} A_i\Big)^{-1} \sum_i A_i^\top V_i^{-1} b_i

    with :math:`b_i` what release `i` determines, coefficients and differences of them, :math:`V_i` their
    covariance of sampling and privacy noise, and :math:`A_i` what they are of the coefficients. Cochran's
    :math:`Q = \sum_i (b_i - A_i \hat\beta)^\top V_i^{-1} (b_i - A_i \hat\beta)` tests whether the releases
    are about the same coefficients. Where a release has no covariances between its coefficients, as a `mean`
    of several columns, each coefficient is pooled by itself, and there is no such test.

    Parameters
    ----------
    fits : sequence of Results, or GroupedResults
        Two or more with the same names, terms and response, whose standard errors cover sampling and privacy
        noise. Of groups, those that have an estimate.

    Returns
    -------
    Results or GLMResults
        With the test in ``heterogeneity``, and NaN for a coefficient that no release determines. The
        intervals are about coefficients that all the data share: where `heterogeneity` speaks against that
        they are too short. Its notes are those that all fits have, and then the others behind the number of
        their fit: of groups, among those that have an estimate.

    Raises
    ------
    ParameterError
        If the fits do not belong together, estimate means of values that are not limited to the same
        interval, or have guarantees about different neighbours or units.
    NotReleased
        If one has no covariance that covers sampling and privacy noise.

    Notes
    -----
    **Privacy.** Post-processing. A record is in one of the data sets at most, so that the largest `eps` and
    the largest `delta` hold for all releases together (parallel composition; ``docs/privacy/combine.md``).
    That the data are disjoint is your word; nothing can check it. Releases of overlapping data cost their
    sum, and their estimates are not independent.

    Examples
    --------
    >>> from dpstats.privacy.guarantee import Guarantee
    >>> fits = [
    ...     Results(method="OLS", formula="y ~ x", names=("Intercept", "x"), estimates=[1.0, slope],
    ...             cov=[[0.04, 0.0], [0.0, variance]], covers=SAMPLING_AND_PRIVACY,
    ...             guarantee=Guarantee(eps, 0, "add-remove", "pure"))
    ...     for slope, variance, eps in ((2.0, 0.01, 1.0), (3.0, 0.03, 0.5))]
    >>> pooled = combine(fits)
    >>> pooled.params.round(2).to_dict(), pooled.guarantee.eps
    ({'Intercept': 1.0, 'x': 2.25}, 1.0)
    >>> print(pooled.heterogeneity)
    Heterogeneity: Cochran's Q(2) = 25.00, p < 0.001
    """
    given = _list(fits)
    labels = [str(level) for level in fits] if isinstance(fits, GroupedResults) else []
    labels = labels or [f"fit {i}" for i in range(1, len(given) + 1)]
    first = given[0]
    _check(given)
    limited = _limited(given)
    covs = [np.asarray(fit.cov, float) for fit in given]
    known = [_known(fit) for fit in given]
    biases = [
        np.zeros_like(cov) if fit.bias is None else fit.bias for fit, cov in zip(given, covs, strict=True)
    ]
    apart = not all(
        fit.free is not None or np.isfinite(V[np.ix_(k, k)]).all()
        for fit, V, k in zip(given, covs, known, strict=True)
    )
    if apart:
        covs, biases = ([np.diag(np.diagonal(V)) for V in matrices] for matrices in (covs, biases))
    roots, bias_roots = ([None if apart else getattr(fit, name) for fit in given] for name in _FACTORS)
    # what a fit has in place of what it does not determine
    zero = {i for fit in given if fit.free is not None for i in np.flatnonzero(fit.estimates == 0).tolist()}
    ways = [Known.of(k, fit.free, zero) for fit, k in zip(given, known, strict=True)]
    pooled = pool([fit.estimates for fit in given], covs, ways, biases, roots, bias_roots, zero)
    statistic, cov, df = pooled.statistic, pooled.cov, pooled.df
    if apart:
        statistic, cov = np.nan, np.where(np.eye(len(cov), dtype=bool), cov, np.nan)
    test = Heterogeneity(statistic, float(special.chdtrc(df, statistic)) if df else np.nan, float(df))
    own = {fit.cov_type for fit in given}
    notes = [
        f"Inverse-variance (fixed-effect) mean of {len(given)} releases of disjoint data.",
        *_without(fits),
        *([_APART] if apart else []),
        *(
            [f"{test}: whether all are about the same coefficients.{_differ(test)}"]
            if df and not apart
            else []
        ),
        *gathered_notes(
            [(label, fit.notes) for label, fit in zip(labels, given, strict=True)],
            "each fit has its own in notes",
        ),
    ]
    if isinstance(fits, GroupedResults):
        guarantee = fits.guarantee
    else:
        guarantee = _guarantee([fit.guarantee for fit in given])
    changes: dict[str, Any] = {
        "method": first.method.removesuffix(_POOLED) + _POOLED,
        "estimates": pooled.estimates,
        "cov": cov,
        "bias": pooled.bias,
        "root": pooled.root,
        "bias_root": pooled.bias_root,
        "free": pooled.free,
        "guarantee": guarantee,
        "released": _counts(given),
        "notes": tuple(notes),
        "df": None,
        "limited": limited,
        "design": _design(given),
        "cov_type": first.cov_type if len(own) == 1 else None,
        "het": None,
        "heterogeneity": test,
        "origin": None,
    }
    if isinstance(first, GLMResults):
        changes["slopes"] = None
    return replace(first, **changes)


def _without(fits: Any) -> list[str]:
    """The note of groups that have no fit."""
    if not isinstance(fits, GroupedResults) or not fits.failed:
        return []
    names = listed([str(level) for level in fits.failed])
    return [f"{len(fits.failed)} of {len(fits.levels)} groups have no fit and are not in this mean: {names}."]


def _differ(test: Heterogeneity) -> str:
    """What it means that the fits visibly differ."""
    if not test.pvalue < _DIFFER:
        return ""
    return (
        " They visibly are not. A pooled coefficient may then lie outside those of all fits, also one that "
        "is the same in all, since the errors of the coefficients of a fit go together: compare the fits, "
        "or fit all data with a term for what differs."
    )


def _list(fits: object) -> list[Results]:
    """Two Results or more, or an error that says what to pass."""
    if isinstance(fits, GroupedResults):
        given: list[Any] = list(fits.values())
        if len(given) < 2:
            raise ParameterError(
                f"fits must have two groups or more with an estimate, got {len(given)} of "
                f"{len(fits.levels)}; fits.failed says why the others have none. To pool these with other "
                "fits, pass all of them in one list: combine([*fits.values(), another])."
            )
    elif isinstance(fits, list | tuple):
        given = list(fits)
        if any(isinstance(fit, GroupedResults) for fit in given):
            raise ParameterError(
                "fits must be a list of Results, or one GroupedResults, got a list with a GroupedResults. "
                "The fits of its groups can be in the list: combine([*groups.values(), another])."
            )
    else:
        fail("fits", fits, "a list of Results, or a GroupedResults")
    if not all(isinstance(fit, Results) for fit in given):
        fail("fits", fits, "a list of Results, or a GroupedResults of an estimator")
    if len(given) < 2:
        fail("fits", len(given), "two Results or more")
    return given


def _limited(fits: list[Results]) -> tuple[tuple[str, float, float], ...]:
    """The intervals to which values are limited in all fits; an error if they are not the same."""
    first = fits[0].limited
    if all(fit.limited == first for fit in fits):
        return first
    ends = {
        f"fit {i}": ", ".join(f"{name} {format_ends(*pair)}" for name, *pair in fit.limited)
        for i, fit in enumerate(fits, 1)
    }
    some = [f"{label} ({text})" for label, text in ends.items() if text]
    others = [label for label, text in ends.items() if not text]
    raise ParameterError(
        f"fits must be about values limited to the same interval, got limits of {listed(some, 5)}"
        + (f", and none of {listed(others, 5)}" if others else "")
        + ". What they estimate are means of different values, and an average of these is the mean of none. "
        "With the same bounds= in all fits, more rows or a larger eps, values need no limits."
    )


def _known(fit: Results) -> Booleans:
    """Which coefficients a release determines, or determines but for how they move together."""
    if fit.root is not None and fit.free is not None:
        return np.asarray(np.isfinite(fit.root).all(axis=1))
    assert fit.cov is not None
    return np.asarray(np.isfinite(fit.estimates) & np.isfinite(np.diagonal(fit.cov)))


def _check(fits: list[Results]) -> None:
    """Raise an error unless the fits are of one model, and each has the covariance that weights need."""
    first = fits[0]
    for i, fit in enumerate(fits, 1):
        if fit.cov is None or fit.covers != SAMPLING_AND_PRIVACY or fit.interval is not None:
            raise NotReleased(
                f"A fit to be combined needs a covariance of {SAMPLING_AND_PRIVACY}; {fit.method} has none."
            )
        for what in ("names", "response", "terms"):
            if getattr(fit, what) != getattr(first, what):
                raise ParameterError(
                    f"fits must have the same {what}, of one formula and the same levels, got "
                    f"{_difference(getattr(first, what), getattr(fit, what), i)}."
                )
        kinds = [_kind(part) for part in (first, fit)]
        if kinds[0] != kinds[1]:
            raise ParameterError(f"fits must be of one kind, with one link, got {listed(kinds, 2)}.")
        methods = [part.method.removesuffix(_POOLED) for part in (first, fit)]
        if methods[0] != methods[1]:
            raise ParameterError(f"fits must be of one estimator, got {listed(methods, 2)}.")
        offsets = getattr(first, "offset", None), getattr(fit, "offset", None)
        if offsets[0] != offsets[1]:
            texts = listed([offset or "none" for offset in offsets], 2)
            raise ParameterError(f"fits must have one offset, as rates have one unit, got {texts}.")
    # independent releases do not agree to the last digit
    numbers = {(fit.estimates.tobytes(), np.array([*fit.released.values()]).tobytes()) for fit in fits}
    if len(numbers) < len(fits):
        raise ParameterError("fits must be of disjoint data, and two of them are the same release.")


def _difference(one: Any, other: Any, i: int) -> str:
    """What the first fit and the `i`-th have of names, terms or responses that are not the same."""
    if one is None or isinstance(one, str):
        return f"{shown(one)} and {shown(other)}"
    alone = [[name for name in a if name not in b] for a, b in ((one, other), (other, one))]
    words = [f"{listed(names)} in fit {j} alone" for names, j in zip(alone, (1, i), strict=True) if names]
    return "; ".join(words) or f"another order or other columns in fit {i}"


def _kind(fit: Results) -> str:
    """The kind of model, and its link."""
    link = getattr(fit, "link", None)
    return type(fit).__name__ + (f" with link {link}" if link else "")


def _guarantee(parts: list[Guarantee]) -> Guarantee:
    """What all releases together guarantee if their records, or units, are disjoint."""
    first = parts[0]
    pure, approximate, _ = KINDS
    for part in parts:
        if (part.neighbours, part.unit) != (first.neighbours, first.unit):
            raise ParameterError(
                "fits must have guarantees about the same neighbours and the same unit; one about records "
                "can be stated for units by Guarantee.of_unit."
            )
        if part.kind not in (pure, approximate):
            fail("fits", part.kind, "differentially private; random differential privacy has no such rule")
    who = "record" if first.unit is None else f"{first.unit!r}"
    scope = (
        f"no {who} is in the data of two of the releases (parallel composition). That is the analyst's word; "
        "nothing checks it."
    )
    if first.neighbours == "substitution":
        scope += (
            f" A neighbour replaces a {who} by another of the same data set; one that may change its data "
            "set costs twice."
        )
    before = dict.fromkeys(part.scope for part in parts if part.scope)
    same = len({part.spends for part in parts}) == 1 and len({(p.eps, p.delta) for p in parts}) == 1
    return Guarantee(
        max(part.eps for part in parts),
        max(part.delta for part in parts),
        first.neighbours,
        pure if all(part.kind == pure for part in parts) else approximate,
        first.spends if same and not any(map(np.isnan, division(first)[0])) else (),
        seeded=any(part.seeded for part in parts),
        scope=" ".join([scope, *before]),
        unit=first.unit,
    )


def _counts(fits: list[Results]) -> dict[str, float]:
    """The numbers of rows together, public or noisy, where all have one."""
    for key in ("nobs", "n"):
        if all(key in fit.released for fit in fits):
            return {key: sum(fit.released[key] for fit in fits)}
    return {}


def _design(fits: list[Results]) -> Predictor | None:
    """The design that all have, with the widest of their limits; None if they have several."""
    designs: list[Any] = [fit.design for fit in fits]
    first = designs[0]
    if first is None or any(design != first for design in designs):
        return None
    limits = [getattr(design, "limits", None) for design in designs]
    if any(pair is None for pair in limits):
        # one fit alone without limits: new rows are taken as they are
        return replace(first, limits=None) if any(pair is not None for pair in limits) else first
    low, high = zip(*limits, strict=True)
    wide: Predictor = first.within(np.min(low, axis=0), np.max(high, axis=0))
    return wide
