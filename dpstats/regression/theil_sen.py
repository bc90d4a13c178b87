"""Private Theil-Sen regression: exponential-mechanism medians over random matchings of the rows."""

import math
from dataclasses import dataclass

import numpy as np

from dpstats._boundary import guarded
from dpstats._validation import check
from dpstats.errors import ParameterError, ReleaseFailed
from dpstats.estimation import pipeline as _estimate
from dpstats.linear.simple import one_covariate, pairs_of
from dpstats.mechanisms.exponential import quantile
from dpstats.mechanisms.noise import laplace
from dpstats.privacy.conversions import bounded_range_rho
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.results.results import Results

__all__ = ["theil_sen"]

_TEST = 0.05
"""Share of eps for the number of usable pairs."""
_POINTS = 0.3
"""Share of eps for the quartiles of the covariate, where it has no bounds."""
_NATS = 18.0
"""Log-probability that a median's slack in rank must be worth: the lattice's 11 nats, and 7 for a failure of 1e-3."""
_SLACK = 0.25
"""A median may be off by this share of the ranks."""
_NO_ERRORS = "The spread of the pairwise lines is not released, so there are no standard errors."


@guarded
def theil_sen(formula, data, *, eps, matchings=10, bounds=None, levels=None, by=None, ledger=None, seed=None):
    """Differentially private simple regression by medians of lines through random pairs of rows.

    Parameters
    ----------
    formula : str
        ``"y ~ x"``: one response and one numeric column.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
    eps : float
        Privacy budget; positive.
    matchings : int
        How often the rows are paired. More pairs vary less, at no cost in privacy noise; the time is in
        proportion.
    bounds : mapping of str to (float, float), optional
        Public bounds. With those of the column the line is estimated at a quarter and three quarters of that range;
        else at private quartiles, which cost 30 % of `eps`. With those of the response its estimates stay in them.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns, such as that of `by`.
    by : str, optional
        A column with declared levels: one line for each group, every one at the whole `eps`.
    ledger : Ledger, optional
        Charged before any row is read.
    seed : int, optional
        For simulation only: the release then protects nobody, and its guarantee says so.

    Returns
    -------
    Results or GroupedResults
        Two coefficients, without standard errors.

    Raises
    ------
    ReleaseFailed
        If too few pairs of usable rows differ in the column (5 % of `eps` is spent), or if the released quartiles
        of the column coincide.
    ParameterError
        If there are too few rows; their number is public.
    FormulaError, SchemaError, BudgetExceeded

    Notes
    -----
    **Method** (Alabi, McMillan, Sarathy, Smith and Vadhan 2022, ``DPExpTheilSen`` with ``k`` matchings; Dwork and Lei
    2009). A matching pairs the rows at random; the line through a pair gives the response at two points
    ``x25`` and ``x75``. The estimates at each point, over all matchings, have a median, drawn by the exponential
    mechanism; the two medians make the line.

    **Privacy.** Pure `eps`-DP; neighbours: one record replaced, the number of rows being public. A record is in one
    pair of each matching, so the score of a median moves by at most ``k``, also if the record becomes unusable:
    then a pair disappears or changes. What is left of `eps` is halved between the two points. Proof:
    ``docs/privacy/theil_sen.md``.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> fit = dpstats.theil_sen("price ~ carat", diamonds, eps=1, matchings=2)
    >>> bool(5000 < fit.params["carat"] < 9000)
    True
    """
    eps = check("eps", eps)
    matchings = check("matchings", matchings, "count")

    def plan(design, seeded, rows):
        one_covariate(design, "theil_sen")
        return _plan(design, eps, matchings, rows, seeded)

    def release(blocks, design, plan, rng):
        return _results(design, plan, *_release(*pairs_of(blocks), plan, rng))

    return _estimate.estimate(
        "theil_sen", formula, data, bounds=bounds, levels=levels, ledger=ledger, seed=seed, plan=plan, release=release,
        by=by, public_rows=True,
    )  # fmt: skip


@dataclass(frozen=True)
class _Plan:
    """Everything public.

    Attributes
    ----------
    points : (float, float) or None
        Where the line is estimated; None for private quartiles.
    response : (float, float) or None
        Bounds of the response.
    eps_test, eps_quartile, eps_median : float
        Budget of the number of pairs, of each quartile, of each median.
    least : float
        Pairs that a matching must have.
    """

    guarantee: Guarantee
    rows: int
    matchings: int
    points: tuple | None
    response: tuple | None
    eps_test: float
    eps_quartile: float
    eps_median: float
    least: float


def _plan(design, eps, matchings, rows, seeded):
    bounds = design.column_bounds[1]
    points, eps_quartile = None, _POINTS * eps / 2
    if bounds is not None:
        low, high = bounds
        points, eps_quartile = (0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high), 0.0
    eps_test = _TEST * eps
    eps_median = (eps - eps_test - 2 * eps_quartile) / 2
    # the score loses eps_median / (2 matchings) a rank over rows of pairs times matchings
    least = 2 * _NATS / (_SLACK * eps_median)
    needed = max(2 * least, 2 * _NATS / (_SLACK * eps_quartile) if eps_quartile else 0.0)
    if rows < needed:
        raise ParameterError(
            f"theil_sen: {rows:,} rows are too few at eps = {eps:g}, which needs {math.ceil(needed):,}. A larger eps would do."
        )
    spends = [Spend("number of pairs", "Laplace noise", eps_test)]
    steps = ["25 % quantile of the column", "75 % quantile of the column"] if eps_quartile else []
    spends += [
        Spend(step, "exponential mechanism", eps_quartile, rho=bounded_range_rho(eps_quartile))
        for step in steps
    ]
    rho = bounded_range_rho(eps_median)
    spends += [Spend(f"response at point {i}", "exponential mechanism", eps_median, rho=rho) for i in (1, 2)]
    guarantee = Guarantee(eps, 0.0, "substitution", "pure", tuple(spends), seeded=seeded)
    return _Plan(
        guarantee,
        rows,
        matchings,
        points,
        design.response_bounds[0],
        eps_test,
        eps_quartile,
        eps_median,
        least,
    )


def _release(x, y, plan, rng):
    """The mechanism: rows in, a line out.

    Parameters
    ----------
    x, y : (n,) float arrays
        Finite.
    plan : _Plan
    rng : Randomness

    Returns
    -------
    intercept, slope : float

    Raises
    ------
    ReleaseFailed

    Notes
    -----
    **Privacy.** ``plan.guarantee``; one record replaced, usable or not. In each matching one pair changes, appears or
    disappears: the mean number of pairs moves by at most 1, and the score of a median by at most
    ``matchings``, so each median is ``eps_median``-DP. Proof: ``docs/privacy/theil_sen.md``.
    """
    pairs = np.concatenate([_matching(len(x), rng) for _ in range(plan.matchings)])
    pairs = pairs[x[pairs[:, 0]] != x[pairs[:, 1]]]
    spends = plan.guarantee.spends
    if laplace(len(pairs) / plan.matchings, 1.0, plan.eps_test, rng) < plan.least:
        raise ReleaseFailed(
            f"theil_sen: a private count found fewer than {math.ceil(plan.least):,} pairs of usable rows that differ "
            "in the column. Only the count was spent.",
            plan.guarantee.replace(spends=spends[:1]),
        )
    points = plan.points
    if points is None:
        points = tuple(
            quantile(x, q, plan.eps_quartile, rng, neighbours="substitution") for q in (0.25, 0.75)
        )
        if not points[0] < points[1]:
            raise ReleaseFailed(
                "theil_sen: the private quartiles of the column coincide, so there is no slope to estimate. Public "
                "bounds of the column would help.",
                plan.guarantee.replace(spends=spends[:3]),
            )
    first, second = (_median(x, y, pairs, at, plan, rng) for at in points)
    slope = (second - first) / (points[1] - points[0])
    intercept = first - slope * points[0]
    if not (math.isfinite(slope) and math.isfinite(intercept)):
        raise ReleaseFailed("theil_sen: the released line is beyond the range of numbers.")
    return intercept, slope


def _matching(n, rng):
    """Random disjoint pairs of `n` rows, shape (n // 2, 2)."""
    return rng.permutation(n)[: n - n % 2].reshape(-1, 2)


def _median(x, y, pairs, at, plan, rng):
    """The private median of the lines through the pairs at the point `at`."""
    i, j = pairs.T
    lines = _lines_at(x[i], y[i], x[j], y[j], at)
    return quantile(
        lines, 0.5, plan.eps_median / plan.matchings, rng, neighbours="substitution", bounds=plan.response
    )


def _lines_at(x1, y1, x2, y2, at):
    """The response at the point `at` of the lines through pairs; a pair with no finite line is left out."""
    largest = np.finfo(float).max
    slope = (y2 - y1) / (x2 - x1)
    lines = slope * (at - x1 / 2 - x2 / 2) + (y1 / 2 + y2 / 2)
    return np.clip(lines[~np.isnan(lines)], -largest, largest)


def _results(design, plan, intercept, slope):
    return Results(
        method="Theil-Sen",
        formula=design.formula,
        response=design.response_names[0],
        names=design.column_names,
        estimates=[intercept, slope],
        cov=None,
        covers=_NO_ERRORS,
        guarantee=plan.guarantee,
        released={"nobs": plan.rows},
        notes=("A median regression: under skewed errors the intercept is off the mean.",),
        terms=dict(design.term_slices),
        design=design,
    )
