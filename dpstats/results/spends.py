"""How the budget of a release was divided among its steps: each step's share, adding up to the whole."""

import math
from collections.abc import Sequence
from itertools import groupby

from dpstats._text import Table
from dpstats.privacy.guarantee import Guarantee, Spend

__all__ = ["division", "spends_table"]

_BY_MU = "Shares of the budget are those of mu squared, which adds up over the steps."
_BY_RHO = "Shares of the budget are those of rho, which adds up over the steps."
_MIXED = "Shares of the budget are those of eps; the steps with a mu divide the rest by mu squared."


def division(guarantee: Guarantee) -> tuple[tuple[float, ...], tuple[str, ...], str | None]:
    r"""What adds up over the steps of a release, and each step's share of it.

    Gaussian steps compose by :math:`\mu^2`, steps of zero-concentrated DP by :math:`\rho`, others by their
    `eps`. Where Gaussian steps come before others, they have what the `eps` of the others leave.

    Parameters
    ----------
    guarantee : Guarantee

    Returns
    -------
    shares : tuple of float
        One for each of ``guarantee.spends``; their sum is 1. NaN if no step costs anything.
    units : tuple of str
        Which of ``"eps"``, ``"mu"`` and ``"rho"`` say what a step adds.
    words : str or None
        The sentence for the table; None where `eps` add up, as everyone expects.

    Examples
    --------
    >>> from dpstats.privacy.guarantee import Spend
    >>> steps = tuple(Spend("a sum", "Gaussian noise", mu, 1e-6, mu=mu) for mu in (0.3, 0.4))
    >>> [round(x, 2) for x in division(Guarantee(0.5, 1e-6, "add-remove", "approximate", steps))[0]]
    [0.36, 0.64]
    """
    spends = guarantee.spends
    eps = [s.eps for s in spends]
    squares = [math.nan if s.mu is None else s.mu**2 for s in spends]
    rho = [math.nan if s.rho is None else s.rho for s in spends]
    gaussian = [s.mu is not None for s in spends]
    rest = guarantee.eps - sum(e for e, g in zip(eps, gaussian, strict=True) if not g)
    if spends and all(gaussian):
        return _parts(squares), ("mu",), _BY_MU
    if any(gaussian) and rest > 0:
        whole = sum(m for m, g in zip(squares, gaussian, strict=True) if g)
        costs = [rest * m / whole if g and whole else 0.0 if g else e
                 for e, m, g in zip(eps, squares, gaussian, strict=True)]  # fmt: skip
        return _parts(costs), ("eps", "mu"), _MIXED
    if sum(eps) > guarantee.eps * (1 + 1e-9) and not any(map(math.isnan, rho)):
        return _parts(rho), ("rho",), _BY_RHO
    return _parts(eps), ("eps",), None


def _parts(costs: Sequence[float]) -> tuple[float, ...]:
    whole = sum(costs)
    return tuple(c / whole if whole > 0 else math.nan for c in costs)


def spends_table(guarantee: Guarantee) -> Table | None:
    """How the budget was divided, as a table; None if nothing is known. Equal steps in a row are one line."""
    if not guarantee.spends:
        return None
    parts, units, _ = division(guarantee)
    words, totals, costs = [], [], []
    for spend, same in groupby(zip(guarantee.spends, parts, strict=True), key=lambda pair: pair[0]):
        each = [part for _, part in same]
        words.append((f"{spend.step} ({len(each)} times)" if len(each) > 1 else spend.step, spend.mechanism))
        totals.append(sum(each))
        costs.append(_cost(spend, len(each), units))
    columns = [name for name in ("eps", "delta", "mu", "rho") if any(cost.get(name) for cost in costs)]
    rows = tuple(
        (*step, percent, *(f"{cost[name]:.3g}" if name in cost else "" for name in columns))
        for step, percent, cost in zip(words, _percents(totals), costs, strict=True)
    )
    return Table(("Step", "Mechanism", "share", *columns), rows, text_columns=2)


def _cost(spend: Spend, times: int, units: Sequence[str]) -> dict[str, float]:
    """What a step adds to the whole, all its times together."""
    if "mu" in units and spend.mu is not None:
        return {"mu": math.sqrt(times) * spend.mu}
    if "rho" in units and spend.rho is not None:
        return {"rho": times * spend.rho}
    return {"eps": times * spend.eps, "delta": times * spend.delta}


def _percents(parts: Sequence[float]) -> list[str]:
    """Shares in percent to one decimal, rounded so that what is printed adds up to 100."""
    if any(map(math.isnan, parts)):
        return [""] * len(parts)
    tenths = [math.floor(1000 * part) for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda i: tenths[i] - 1000 * parts[i])
    for i in by_remainder[: 1000 - sum(tenths)]:
        tenths[i] += 1
    return [f"{t / 10:.1f} %" for t in tenths]
