"""Private bounding box: the radius around 0 that holds a share of the rows."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats._boundary import guarded
from dpstats._docs import documented
from dpstats._types import Bounds, Levels
from dpstats._validation import check
from dpstats.engines.local import gather
from dpstats.estimation.call import Call, Estimator, Needs
from dpstats.estimation.pipeline import run
from dpstats.formula.design import Blocks, Design
from dpstats.mechanisms.exponential import exponential_spend, quantile
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.rounds import per_round
from dpstats.privacy.guarantee import Guarantee, Kind
from dpstats.privacy.ledger import Ledger
from dpstats.results.grouped import GroupedResults
from dpstats.results.results import Results

__all__ = ["bounding_box"]

_NEEDS = Needs(columns="constant", responses="any", delta="delta")
_RANKS = 30.0
"""By so many times ``max(share, 1 - share) / eps`` the rank of a radius among all doubles may be off."""


@documented
@guarded
def bounding_box(
    formula: str,
    data: Any,
    *,
    eps: float,
    delta: float = 0.0,
    share: float = 0.95,
    bounds: Bounds | None = None,
    levels: Levels | None = None,
    by: str | None = None,
    unit: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
) -> Results | GroupedResults:
    """Differentially private box ``[-r, r]`` that holds about a share of the rows, for every column.

    Parameters
    ----------
    %(formula of columns, data)s
    eps : float
        Privacy budget, shared equally by the columns; positive.
    delta : float
        In [0, 1). With several columns a positive `delta` composes them more tightly.
    share : float
        In (0, 1): of the rows, for each column by itself.
    bounds : mapping of str to (float, float), optional
        Public bounds; the radius stays within them.
    %(levels, by, unit, ledger, seed)s

    %(results)s
        ``params`` are the radii.

    %(raises, errors)s

    Notes
    -----
    **Method** (Chen, Machanavajjhala, Reiter and Barrientos 2016). The radius is the private `share`-quantile
    of the absolute values, drawn by the exponential mechanism on the lattice of doubles, which needs no bound
    to start from. Its rank is off by about ``30 max(share, 1 - share)/eps`` rows a column. Unless there are
    more rows than that both within and beyond the radius, it may be any number; no interval tells, and the
    table names the rows that it takes.

    **Privacy.** ``(eps, delta)``-DP; neighbours: one record added or removed. Proof:
    ``docs/privacy/bounding_box.md``.

    %(diamonds)s
    >>> box = dpstats.bounding_box("price ~ 1", diamonds, eps=1, share=0.9, seed=1)  # seeded for the example
    >>> box.params.round().to_dict()
    {'price': 9822.0}
    """
    budget = functools.partial(_budget, share=check("share", share, "q"))
    estimator = Estimator("bounding_box", budget, _release, _results, _NEEDS)
    return run(estimator, Call(formula, data, eps, delta, bounds, levels, by, ledger, seed, unit))


@dataclass(frozen=True)
class _Budget:
    """Everything public: the largest radius of each column, and its budget."""

    guarantee: Guarantee
    share: float
    largest: tuple[float, ...]
    eps_each: float


def _budget(design: Design, call: Call, rows: int | None, *, share: float) -> _Budget:
    names, delta = design.response_names, call.delta
    limits = (b or (0.0, np.finfo(float).max) for b in design.response_bounds)
    largest = tuple(max(abs(low), abs(high)) for low, high in limits)
    eps_each = per_round(call.eps, delta, len(names))
    if eps_each * len(names) <= call.eps:
        delta = 0.0
    spends = tuple(exponential_spend(f"radius of {name}", eps_each) for name in names)
    kind: Kind = "approximate" if delta else "pure"
    guarantee = Guarantee(call.eps, delta, "add-remove", kind, spends, seeded=call.seeded)
    return _Budget(guarantee, share, largest, eps_each)


@dataclass(frozen=True)
class _Release:
    """The radii of the columns."""

    radii: tuple[float, ...]


def _release(blocks: Blocks, budget: _Budget, rng: Randomness) -> _Release:
    """The mechanism: rows in, a radius for each column out.

    **Privacy.** ``budget.guarantee``: one exponential mechanism a column, ``eps_each``-bounded-range,
    composed by :func:`~dpstats.mechanisms.rounds.per_round`. Proof: ``docs/privacy/bounding_box.md``.
    """
    columns = np.abs(gather(blocks)[1]).T
    return _Release(
        tuple(
            quantile(column, budget.share, budget.eps_each, rng, bounds=(0.0, largest))
            for column, largest in zip(columns, budget.largest, strict=True)
        )
    )


def _results(design: Design, budget: _Budget, release: _Release) -> Results:
    """Results from the release alone."""
    covers = (
        f"[-r, r] is meant to hold {100 * budget.share:.10g}% of these rows in each column; "
        "the radius is no more than that."
    )
    larger, smaller = max(budget.share, 1 - budget.share), min(budget.share, 1 - budget.share)
    rows = max(_RANKS * larger / budget.eps_each, 1) / smaller
    note = (
        f"A radius takes some {float(f'{rows:.2g}'):,.0f} rows at this budget. With fewer it may be any "
        "number (within bounds, where there are any), and nothing shows whether it is."
    )
    return Results.of_columns(design, "Bounding box", release.radii, budget.guarantee, covers, notes=(note,))
