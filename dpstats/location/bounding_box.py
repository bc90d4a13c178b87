"""Private bounding box: the radius around 0 that holds a share of the rows."""

from dataclasses import dataclass

import numpy as np

from dpstats._boundary import guarded
from dpstats._validation import check
from dpstats.estimation import pipeline as _estimate
from dpstats.mechanisms.exponential import quantile
from dpstats.mechanisms.rounds import per_round
from dpstats.privacy.conversions import bounded_range_rho
from dpstats.privacy.guarantee import Guarantee, Spend
from dpstats.results.results import Results

__all__ = ["bounding_box"]


@guarded
def bounding_box(
    formula, data, *, eps, delta=0.0, share=0.95, bounds=None, levels=None, by=None, ledger=None, seed=None
):
    """Differentially private box ``[-r, r]`` that holds about a share of the rows, for every column.

    Parameters
    ----------
    formula : str
        ``"y ~ 1"``, or several columns: ``"y1 + y2 ~ 1"``.
    data : DataFrame, mapping of arrays, Arrow table, polars frame, or path
    eps : float
        Privacy budget, shared equally by the columns; positive.
    delta : float
        In [0, 1). With several columns a positive `delta` composes them more tightly.
    share : float
        In (0, 1): of the rows, for each column by itself.
    bounds : mapping of str to (float, float), optional
        Public bounds; the radius stays within them.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns, such as that of `by`.
    by : str, optional
        A column with declared levels: one box for each group, every one at the whole budget.
    ledger : Ledger, optional
        Charged before any row is read.
    seed : int, optional
        For simulation only: the release then protects nobody, and its guarantee says so.

    Returns
    -------
    Results or GroupedResults
        ``params`` are the radii.

    Raises
    ------
    ParameterError, FormulaError, SchemaError, BudgetExceeded

    Notes
    -----
    **Method** (Chen, Machanavajjhala, Reiter and Barrientos 2016). The radius is the private `share`-quantile of the
    absolute values, drawn by the exponential mechanism on the lattice of doubles, which needs no bound to start
    from. Its rank is off by about ``30 max(share, 1 - share)/eps`` rows a column.

    **Privacy.** ``(eps, delta)``-DP; neighbours: one record added or removed. Proof: ``docs/privacy/bounding_box.md``.

    Examples
    --------
    >>> import dpstats
    >>> diamonds = dpstats.datasets.load_diamonds()
    >>> box = dpstats.bounding_box("price ~ 1", diamonds, eps=1, share=0.9)
    >>> bool(9400 < box.params["price"] < 10200)
    True
    """
    eps, delta, share = check("eps", eps), check("delta", delta), check("share", share, "q")

    def plan(design, seeded):
        _estimate.location_only(design, "bounding_box")
        return _plan(design, eps, delta, share, seeded)

    def release(blocks, design, plan, rng):
        return _results(design, plan, _release(blocks, plan, rng))

    return _estimate.estimate(
        "bounding_box", formula, data, bounds=bounds, levels=levels, ledger=ledger, seed=seed, plan=plan, release=release,
        by=by,
    )  # fmt: skip


@dataclass(frozen=True)
class _Plan:
    """Everything public: the largest radius of each column, and its budget."""

    guarantee: Guarantee
    share: float
    largest: tuple[float, ...]
    eps_each: float


def _plan(design, eps, delta, share, seeded):
    names = design.response_names
    largest = tuple(
        np.finfo(float).max if b is None else max(abs(b[0]), abs(b[1])) for b in design.response_bounds
    )
    eps_each = per_round(eps, delta, len(names))
    if eps_each * len(names) <= eps:
        delta = 0.0
    rho = bounded_range_rho(eps_each)
    spends = tuple(Spend(f"radius of {name}", "exponential mechanism", eps_each, rho=rho) for name in names)
    kind = "approximate" if delta else "pure"
    return _Plan(Guarantee(eps, delta, "add-remove", kind, spends, seeded=seeded), share, largest, eps_each)


def _release(blocks, plan, rng):
    """The mechanism: rows in, a radius for each column out.

    **Privacy.** ``plan.guarantee``: one exponential mechanism a column, ``eps_each``-bounded-range, composed by
    :func:`~dpstats.mechanisms.rounds.per_round`. Proof: ``docs/privacy/bounding_box.md``.
    """
    parts = [Y for _, Y in blocks] or [np.empty((0, len(plan.largest)))]
    rows = np.abs(parts[0] if len(parts) == 1 else np.concatenate(parts))
    return [
        quantile(rows[:, j], plan.share, plan.eps_each, rng, bounds=(0.0, largest))
        for j, largest in enumerate(plan.largest)
    ]


def _results(design, plan, radii):
    return Results(
        method="Bounding box",
        formula=design.formula,
        response=design.response_names[0] if len(radii) == 1 else None,
        names=design.response_names,
        estimates=radii,
        cov=None,
        covers=f"[-r, r] is meant to hold {100 * plan.share:.10g}% of these rows in each column; the radius is no more than that.",
        guarantee=plan.guarantee,
    )
