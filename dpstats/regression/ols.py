"""Private least squares with no bounds and no tuning: standardise, whiten, then clipped gradient rounds."""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Levels
from dpstats._validation import about, fail
from dpstats.engines.local import Block
from dpstats.errors import FormulaError
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.estimation.second import declared_beside, own_design, reads, with_second
from dpstats.formula.design import Blocks, Design, check_formula
from dpstats.formula.terms import with_offset
from dpstats.formula.units import UnitBlocks, WithinBlocks, WithinDesign
from dpstats.linear.bootstrap import check_cov_type
from dpstats.linear.budget import SHARES, LinearBudget, Step, divide, preparation, stages_of
from dpstats.linear.conditioning import REFERENCE
from dpstats.linear.loss import Squared
from dpstats.linear.prepare import REACH, Prepared, prepare
from dpstats.linear.public import PublicDesign
from dpstats.linear.refusals import check_directions
from dpstats.linear.results import regression_results
from dpstats.linear.rounds import Rounds, Walk
from dpstats.linear.rounds_inference import rounds_inference
from dpstats.linear.scores import outside_score
from dpstats.linear.summed import LEAST_WEIGHT, Summed, balanced, whitening_steps
from dpstats.linear.whitened import Frame
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import Results
from dpstats.selection.within import selecting

__all__ = ["ols"]

_SHARES = SHARES | {"choice": 0.015, "first rounds": 0.1, "rounds": 0.38, "spread": 0.02}
"""Shares of mu^2; the whitening stages have the rest."""
_FIRST, _SECOND, _ROUNDS = 2, 1, 6
_EVIDENCE = 3.0
"""Standard errors of the private comparison that decide between narrow and wide limits."""
_NEAR_EXACT = 0.01
"""Without evidence the limits are wide if the fit leaves less than this share of the variance."""
_SINGLE = 0.1
"""Wide limits lie where one row has this share of the sum of squares, by a standardised coefficient of 1."""


@documented
@guarded
def ols(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 1e-6,
    winsorize: bool | str = "auto",
    cov_type: str = "robust",
    select: int | None = None,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    weights: str = "row",
    effects: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    r"""Differentially private least squares, with nothing to tune and no bound to guess.

    Columns are standardised and whitened privately, and noisy gradient rounds with clipped contributions lead
    to the least-squares fit.

    Parameters
    ----------
    %(formula, data, eps, delta)s
    winsorize : {"auto", True, False}
        Whether to move the values of numeric columns into limits; the table names them. Without limits a
        single row far out may get an absurd prediction. ``"auto"`` limits ``predict()`` alone: at about 1 %
        of ``mu^2`` it compares the private range (times 1.4) with limits of ``sqrt(n / 10)`` standard
        deviations, by how either predicts the rows between them with the fit; where that does not
        decide, it takes the wide ones if the fit leaves less than 1 % of the variance. True takes the
        private range in the fit, too: then the coefficients and their intervals are about limited columns.
    %(cov_type, select, bounds, levels, by, unit of sums)s
    weights : str
        The name of a column of weights, or an expression, as those of a survey: the fit is weighted least
        squares with robust standard errors. Weights are as private as the rest of a row, may be of any
        size from 2**-200 to 2**200, and need no bound; rows with a negative or missing one are not used.
        By default, ``"row"``, all rows count the same; a column of that name is ``Q("row")``. With `unit`
        also ``"unit"``: the rows of a unit share the weight of one. Where noise asks for it, rows of units of
        very many rows count less; the table says from what number on.
    effects : {"unit"}, optional
        With `unit`: fixed effects, the within estimator. Columns and response are taken about their means in
        the unit; there is no constant, and units of one row do not count.
    %(ledger, seed)s

    Returns
    -------
    Results or GroupedResults
        ``params``, ``bse``, ``conf_int()``, ``summary()``, ``sigma``, ``rsquared``, ``f_test()``,
        ``guarantee`` ...

    %(raises, too few rows, errors)s

    Notes
    -----
    **Method.** A private location and scale of every numeric column, and of the variables behind powers,
    splines and products; four noisy Gram matrices, each in the metric of the one before, which make the
    covariates ``v = W' z`` nearly orthonormal; then nine rounds

    .. math:: u \leftarrow u + \frac1{\tilde n} P
              \Bigl(\sum_i \mathrm{clip}_C(v_i (y_i - u^\top v_i)) + N_t\Bigr),

    of which the last six are averaged. After two rounds ``C`` is chosen from released counts of the
    products by size and sign: the noise that it takes against the bias that it may leave. From then on ``P``
    is about the inverse of the last Gram matrix (before, ``P = I``), which makes the rounds steps of Newton's
    method; shorter ones, where they visibly overshoot. A column that shows no variation beyond the noise
    leaves the model, as does a level whose released number of rows is small for its noise, with these rows;
    the table says so. If it is the reference level, coefficients that compare with it are not determined, but
    ``t_test`` of their differences is.

    %(gaussian steps)s
    Proof: ``docs/privacy/ols.md``.

    **Standard errors** add up four variances: of sampling, of the noise of the rounds, and the squares of two
    bounds on a bias: what the clip takes off, and what the rounds leave of the first fit. The sampling part
    is a sandwich of two released matrices (White 1980), which allows for errors whose variance depends on
    the columns; with ``cov_type="nonrobust"`` it is that of homoskedastic errors. ``fit.het_test()`` compares
    the two. ``cov_type="bootstrap"`` takes what it can see of the first fit off the estimates; the bound on
    the clip's bias stays.

    Where noise hides a direction of the columns, what the rounds leave there has no bound. A coefficient that
    mostly depends on such directions is not determined (``n.d.`` in the table, NaN), and neither is the
    constant if a numeric column left the model. Where the private count shows that noise would hide most
    directions, nothing is estimated.

    The bound on the clip's bias supposes that the tail of the products goes on as it shows in the counts, and
    that what is taken off lies mostly along the constant, the linear predictor and the directions of long
    products. A few rows far out show in none and may move least squares by any amount: no interval covers
    that, nor where a few per cent of the rows have a third of the weight and differ from the others. With few
    rows or a small `eps` skewness may not show either, and the bound fall short; so it does where errors are
    skewed and in proportion to a skewed column, or much larger in a small group.

    %(diamonds)s
    >>> fit = dpstats.ols("price ~ carat + table", diamonds, eps=1, seed=1)  # seeded for the example
    >>> fit.conf_int().round()
                    0       1
    Intercept  1688.0  2590.0
    carat      7824.0  7934.0
    table       -86.0   -70.0
    """
    if not isinstance(winsorize, bool) and not (isinstance(winsorize, str) and winsorize == "auto"):
        fail("winsorize", winsorize, "'auto', True or False")
    cov_type = check_cov_type(cov_type, unit)
    root = _root_of_weights(formula, weights, unit, cov_type, effects, select)
    if not (effects is None or isinstance(effects, str) and effects == "unit"):
        fail("effects", effects, "None or 'unit'")
    if unit is None and effects is not None:
        fail("effects", effects, "None without unit=")
    budget = functools.partial(
        _budget,
        weighted=None if root is None else (formula, weights),
        winsorize=winsorize,
        cov_type=cov_type,
        shared=weights == "unit",
        within=effects is not None,
    )
    estimator = Estimator("ols", budget, _release, _results, of_units="all")
    wide = formula
    if root is not None:
        wide, given = with_offset(formula, root), ("weights", weights)
        design = functools.partial(with_second, own=formula, given=given, name="ols", needs=estimator.needs)
        estimator = replace(estimator, needs=Needs(responses="any"), design=design)
    written = None if root is None else f"{formula}, weights {weights}"
    call = Call(wide, data, eps, delta, bounds, levels, by, ledger, seed, unit, written)
    return run(selecting(estimator, select), call)


def _root_of_weights(
    formula: str, weights: str, unit: str | None, cov_type: str, effects: str | None, select: int | None
) -> str | None:
    """The root of the weights as an expression of the formula's grammar; None where all rows count alike."""
    if not (isinstance(weights, str) and weights.strip()):
        fail("weights", weights, "'row', the name of a column, or 'unit' with unit=")
    if weights == "row" or weights == "unit" and unit is not None:
        return None
    if weights == "unit":
        fail("weights", weights, "'row' or the name of a column without unit=")
    if cov_type not in ("robust", "cluster"):
        fail("cov_type", cov_type, "'robust' with weights")
    if effects is not None:
        fail("effects", effects, "None with weights")
    if select is not None:
        fail("select", select, "None with weights; choose the terms first, by select_features")
    check_formula(formula)
    with about("weights"):
        reads(weights)
    return f"np.sqrt({weights.strip()})"


@dataclass(frozen=True)
class _Budget(LinearBudget):
    """Everything public: the budget of every step, and what is known about the columns."""

    winsorize: bool | str
    cov_type: str
    shared: bool
    within: WithinDesign | None
    weighted: tuple[Design, str] | None
    """The design without the root of the weights, and what these are."""


def _budget(
    design: Design,
    call: Call,
    rows: int | None,
    *,
    weighted: tuple[str, str] | None,
    winsorize: bool | str,
    cov_type: str,
    shared: bool,
    within: bool,
) -> _Budget:
    public, (stages, whitening) = PublicDesign.of(design), whitening_steps(call.unit)
    narrow = WithinDesign(design) if within else None
    if narrow is not None:
        if not narrow.column_names:
            raise FormulaError("effects='unit' needs a covariate: the means of units take up the constant.")
        # limits are for predictions, and there are none without the effects
        public, winsorize = PublicDesign.within(len(narrow.column_names)), False
    # (rows that have been multiplied by weights do not say which limits predict better)
    chosen = winsorize == "auto" and not public.weighted
    steps = [
        *preparation(public, _SHARES),
        *whitening,
        Step("hessian", "Gram matrix for the standard errors", _SHARES["hessian"]),
        Step("limit", "sizes of the products", _SHARES["limit"]),
        Step("first rounds", "gradients, first rounds", _SHARES["first rounds"], _FIRST + _SECOND),
        Step("rounds", "gradients, averaged rounds", _SHARES["rounds"], _ROUNDS),
        Step("spread", "residual variance", _SHARES["spread"]),
        Step("excess", "what the clip cuts", _SHARES["excess"]),
        Step("skewness", "skewness of the products", _SHARES["skewness"] * (call.unit is None)),
        Step("outer", "outer products for the standard errors", _SHARES["outer"]),
        Step("choice", "choice between narrow and wide limits", _SHARES["choice"] * chosen),
    ]
    mus, guarantee = divide(call.eps, call.delta, steps, call.seeded)
    own = None if weighted is None else (own_design(design, weighted[0], (call.by, call.unit)), weighted[1])
    return _Budget(guarantee, mus, public, stages_of(stages, mus), winsorize, cov_type, shared, narrow, own)


@dataclass(frozen=True)
class _Release:
    """What the mechanism releases, without rounds for a flat response."""

    prepared: Prepared
    rounds: Rounds | None
    winsorized: bool
    """Whether columns have limits, for predictions at least."""
    size: float = 1.0
    """About the mean number of rows of a unit."""


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, released values out.

    Notes
    -----
    **Privacy.** ``budget.guarantee``, one record added or removed. Every pass over the rows is a sum to which
    a row adds a bounded vector, in coordinates fixed by what has been released before, plus Gaussian noise;
    the bounds are those of :func:`~dpstats.linear.prepare.prepare`, :class:`~dpstats.linear.rounds.Walk` and
    the functions of :mod:`dpstats.linear.scores`. Argument: ``docs/privacy/ols.md``.
    """
    winsorized = bool(budget.winsorize)
    if budget.shared and isinstance(blocks, UnitBlocks):
        blocks = blocks.sharing()
    if budget.within is not None and isinstance(blocks, UnitBlocks):
        blocks = WithinBlocks(blocks, budget.within.columns, rng)
    check = functools.partial(check_directions, "ols", budget)
    prepared = prepare(
        "ols", blocks, budget, rng, REACH if winsorized else math.inf, check, references=REFERENCE, leave=True
    )
    if prepared.flat_response:
        return _Release(prepared, None, winsorized)
    loss, within, size = Squared(prepared.whitening.sigma), budget.winsorize is True, 1.0
    if isinstance(blocks, UnitBlocks):
        prepared, size = balanced(
            prepared,
            Summed(blocks, Frame.of(prepared, within)),
            budget.public.intercept,
            budget.mus,
            rng,
        )
    walk = Walk(blocks, prepared, within, budget.mus, _ROUNDS, rng, size)
    walk.guess_limit(loss)
    walk.rounds(loss, _FIRST, "first rounds")
    # rounds with another clip lead elsewhere
    walk.restart()
    walk.measure(loss)
    walk.limit(loss)
    walk.curve(loss)
    walk.rounds(loss, _SECOND, "first rounds")
    walk.rounds(loss, _ROUNDS, "rounds")
    rounds, prepared = walk.finish(loss), walk.prepared
    if budget.winsorize == "auto":
        prepared = _choose_limits(walk.rows, prepared, rounds, budget.mus["choice"], rng)
    return _Release(prepared, rounds, winsorized, size)


def _choose_limits(
    rows: Iterable[Block], narrow: Prepared, rounds: Rounds, mu: float, rng: Randomness
) -> Prepared:
    """The preparation with narrow or with wide limits of the columns, for predictions.

    Rows that lie between the two decide, by which limits let the fit predict them better; where they are too
    few for that, the limits are narrow unless the fit is nearly exact.

    **Privacy.** One release, :func:`~dpstats.linear.scores.outside_score`: ``mu``-GDP under add-remove.
    With a `mu` of 0 there is none, and the limits are wide.
    """
    columns, loc, scale = narrow.affine.columns, narrow.affine.loc, narrow.affine.scale
    private_range = (narrow.high - narrow.low)[columns] / 2
    half = np.maximum(private_range, math.sqrt(_SINGLE * max(narrow.count, 1.0)) * scale)
    low, high = narrow.low.copy(), narrow.high.copy()
    low[columns], high[columns] = loc - half, loc + half
    wide = replace(narrow, low=low, high=high)
    if mu == 0:
        return wide
    theta = narrow.whitening.W @ rounds.coefficients
    score = outside_score(rows, Frame.of(narrow, True), Frame.of(wide, True), theta, mu, rng)
    # the noise of the score has the standard deviation 1 / mu
    if abs(score) * mu > _EVIDENCE:
        return wide if score > 0 else narrow
    return narrow if rounds.residual2 > _NEAR_EXACT else wide


def _results(design: Design, budget: _Budget, release: _Release) -> Results:
    """Results from the release alone."""
    prepared, rounds, size = release.prepared, release.rounds, release.size
    u, inference, variance = np.zeros(len(prepared.affine.columns)), None, 0.0
    described: Design | WithinDesign = design if budget.within is None else budget.within
    method = "Private OLS" if budget.within is None else "Private OLS, fixed effects of units"
    if budget.weighted is not None:
        described, method = budget.weighted[0], "Private weighted least squares"
    if rounds is not None:
        limit = rounds.clip.norm / math.sqrt(len(u)) * float(prepared.response.scale[0])
        note = rounds.clip.note(limit, "; less far out", weighted=budget.weighted is not None)
        if rounds.metric is not None:
            note = rounds.clip.unit_note(math.sqrt(len(u) * rounds.psi2), rounds.most)
        u, variance = rounds.coefficients, rounds.residual2
        inference = rounds_inference(rounds, prepared, budget.cov_type, note)
    if budget.weighted is not None and (rounds is None or rounds.metric is None):
        size = math.nan
        if inference is not None and budget.public.intercept:
            # the mean weight, in units of what rows were multiplied by
            first = np.linalg.inv(prepared.whitening.W)[:, 0]
            size = max(float(first @ inference.gram @ first), LEAST_WEIGHT)
    results = regression_results(
        method,
        described,
        budget.guarantee,
        prepared,
        u,
        inference,
        variance,
        cov_type=budget.cov_type,
        winsorized=release.winsorized,
        fitted_within=budget.winsorize is True,
        het=None if rounds is None or budget.weighted is not None else rounds.het,
        rounds=_FIRST + _SECOND + _ROUNDS,
        size=size,
    )
    if budget.weighted is None:
        return results
    own, weights = budget.weighted
    notes = (f"Rows count by their weights, {weights}.", *results.notes)
    return replace(results, notes=notes, declared=declared_beside(design, own))
