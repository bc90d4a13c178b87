"""Privacy filters: when one more release may run, its cost being chosen in the light of earlier outputs.

Three rules, each a full theorem for adaptively chosen costs. Whichever it is, a release has two costs that
add up, and each sum has a limit that is fixed before the first release:

=========  ===============================================  =============================================
rule       a step costs                                     limits of a total ``(eps, delta)``
=========  ===============================================  =============================================
``basic``  its ``eps``; its ``delta``                       ``eps``; ``delta``
``zcdp``   its ``rho``; its ``delta`` if it is opaque       ``zcdp_rho(eps, delta / 2)``; ``delta / 2``
``gdp``    its ``mu**2``; its ``delta`` if it is opaque     ``gdp_mu(eps, delta / 2)**2``; ``delta / 2``
=========  ===============================================  =============================================

A rule that took whichever of these is smaller at the time would not be valid: the choice would depend on
outputs. Proofs in ``docs/privacy/ledger.md``.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Literal, get_args

from scipy.optimize import brentq
from scipy.special import log_ndtr

from dpstats._validation import check, fail, one_of
from dpstats.privacy.conversions import (
    ULP,
    gdp_delta,
    gdp_eps,
    gdp_mu,
    gdp_rho,
    pure_mu,
    pure_rho,
    round_down,
    round_up,
    zcdp_eps,
    zcdp_rho,
)
from dpstats.privacy.guarantee import Guarantee, Kind, Spend

__all__ = [
    "FILTERS",
    "TOLERANCE",
    "UNITS",
    "Rule",
    "charged",
    "fits",
    "largest",
    "limits",
    "release_cost",
    "step_rho",
    "stopped_early",
]

Rule = Literal["basic", "zcdp", "gdp"]
FILTERS: tuple[Rule, ...] = get_args(Rule)

#: What the first cost of each rule measures.
UNITS: dict[Rule, str] = {"basic": "eps", "zcdp": "rho", "gdp": "mu^2"}

_Costs = tuple[Fraction, Fraction]

# A sum may exceed its limit by this much, relative: the rounding of numbers such as 1/3, and nothing more.
TOLERANCE = Fraction(1, 10**10)


def limits(rule: Rule, eps: float, delta: float) -> tuple[float, float]:
    """The limits of the two sums under which all releases together are ``(eps, delta)``-DP.

    Parameters
    ----------
    rule : {"basic", "zcdp", "gdp"}
    eps, delta : float
        The total. `delta` must be positive unless the rule is ``"basic"``.

    Returns
    -------
    tuple of float
        Of the cost (``eps``, ``rho`` or ``mu**2``), and of the ``delta`` of opaque steps.

    Examples
    --------
    >>> limits("basic", 3, 1e-5)
    (3.0, 1e-05)
    >>> cost, delta = limits("zcdp", 3, 1e-5)
    >>> round(cost, 6), delta
    (0.210877, 5e-06)
    """
    rule, eps, delta = one_of("composition", rule, FILTERS), check("eps", eps), check("delta", delta)
    if rule == "basic":
        return eps, delta
    if delta == 0:
        fail("delta", delta, f"positive for composition={rule!r}")
    if rule == "zcdp":
        return zcdp_rho(eps, delta / 2), delta / 2
    return round_down(gdp_mu(eps, delta / 2) ** 2), delta / 2


def fits(total: Fraction, limit: Fraction | float) -> bool:
    """Whether an exact sum is within its limit, rounding apart.

    Examples
    --------
    >>> fits(3 * Fraction(1.1), 3.3), fits(Fraction(3.31), 3.3)
    (True, False)
    """
    return total <= Fraction(limit) * (1 + TOLERANCE)


def step_rho(spend: Spend) -> tuple[float, float]:
    """The approximate zCDP of a step, ``(rho, delta)``: `rho`-zCDP but for an event of probability ``delta``.

    A step that declares neither `rho` nor `mu` is taken at its ``(eps, delta)``, which is the same as being
    `eps`-DP but for an event of probability `delta`.

    Examples
    --------
    >>> step_rho(Spend("moments", "Gaussian noise", eps=0.5, delta=1e-6, mu=0.2))[1]
    0.0
    """
    rhos = [] if spend.rho is None else [spend.rho]
    if spend.mu is not None:
        rhos.append(gdp_rho(spend.mu))
    if spend.delta == 0 or not rhos:
        rhos.append(pure_rho(spend.eps))
    return min(rhos), (spend.delta if spend.mu is None and spend.rho is None else 0.0)


def _step_cost(rule: Rule, spend: Spend) -> tuple[float, float]:
    if rule == "basic":
        return spend.eps, spend.delta
    if rule == "zcdp":
        return step_rho(spend)
    if spend.mu is not None:
        return round_up(spend.mu * spend.mu), 0.0
    return round_up(pure_mu(spend.eps) ** 2), spend.delta


def _exact_cost(rule: Rule, spend: Spend) -> _Costs:
    cost, delta = _step_cost(rule, spend)
    return Fraction(cost), Fraction(delta)


def _exact(steps: Iterable[Spend | Guarantee]) -> _Costs:
    eps, delta = Fraction(), Fraction()
    for s in steps:
        eps, delta = eps + Fraction(s.eps), delta + Fraction(s.delta)
    return eps, delta


def _units(rule: Rule, guarantee: Guarantee) -> Sequence[tuple[tuple[int, ...], _Costs]]:
    """The release as parts that are charged one by one: pairs of (positions in `spends`, exact costs).

    Under zCDP and GDP every step stands alone. Under basic composition it does if the steps' own budgets fit
    in the release's; otherwise the Gaussian steps are one part, whose price is what the others leave.
    """
    spends = guarantee.spends
    everything = tuple(range(max(1, len(spends))))
    whole = _exact([guarantee])
    if not spends or guarantee.kind.startswith("random"):
        if rule != "basic":
            whole = _exact_cost(rule, Spend("release", "", guarantee.eps, guarantee.delta))
        return [(everything, whole)]
    singly = [((i,), _exact_cost(rule, s)) for i, s in enumerate(spends)]
    if rule != "basic" or all(fits(t, w) for t, w in zip(_exact(spends), whole, strict=True)):
        return singly
    gaussian = tuple(i for i, s in enumerate(spends) if s.mu)
    others = [i for i, s in enumerate(spends) if not s.mu]
    if gaussian and others:
        eps, delta = (w - t for w, t in zip(whole, _exact(spends[i] for i in others), strict=True))
        mu = round_up(math.sqrt(math.fsum(s.mu**2 for s in spends if s.mu)))
        if eps > 0 and delta > 0 and fits(Fraction(gdp_delta(mu, float(eps))), delta):
            return [(gaussian, (eps, delta)), *(singly[i] for i in others)]
    return [(everything, whole)]


def _kept(spends: tuple[Spend, ...], kept: Iterable[Spend]) -> set[int]:
    """Positions of `kept` among `spends`, counted as often as they occur."""
    wanted, positions = Counter(kept), set()
    for i, s in enumerate(spends):
        if wanted[s] > 0:
            wanted[s] -= 1
            positions.add(i)
    if wanted.total():
        fail(
            "spends",
            ", ".join(sorted({s.step for s in wanted.elements()})),
            "steps that this release has reserved",
        )
    return positions


def _ceil(exact: Fraction) -> float:
    x = float(exact)
    return x if Fraction(x) >= exact else math.nextafter(x, math.inf)


def release_cost(
    rule: Rule, guarantee: Guarantee, kept: Iterable[Spend] | None = None
) -> tuple[float, float]:
    """The two costs of a release, or of the part of it that ran.

    Parameters
    ----------
    rule : {"basic", "zcdp", "gdp"}
    guarantee : Guarantee
        A release of random DP, or one without spends, is charged at its whole ``(eps, delta)``.
    kept : iterable of Spend, optional
        The steps that ran; by default all of them.

    Returns
    -------
    tuple of float
        Cost and ``delta``, rounded up. The ``delta`` is that of the whole release as soon as one step ran.

    Examples
    --------
    >>> from dpstats.privacy.guarantee import Guarantee
    >>> steps = Spend("count", "Laplace", 0.1), Spend("median", "EM", 0.9)
    >>> g = Guarantee(1, 0, "add-remove", "pure", steps)
    >>> release_cost("basic", g), release_cost("basic", g, g.spends[:1])
    ((1.0, 0.0), (0.1, 0.0))
    """
    spends = guarantee.spends
    positions = _kept(spends, spends if kept is None else kept)
    if spends and not positions:
        return 0.0, 0.0
    everything = len(positions) == len(spends)
    if everything and rule == "basic":
        return float(guarantee.eps), float(guarantee.delta)
    units = _units(rule, guarantee)
    ran = units if everything else [u for u in units if positions.intersection(u[0])]
    cost, delta = sum((c for _, (c, _) in ran), Fraction()), sum((d for _, (_, d) in units), Fraction())
    return _ceil(cost), float(guarantee.delta) if rule == "basic" else _ceil(delta)


def stopped_early(guarantee: Guarantee, kept: Iterable[Spend]) -> Guarantee:
    """The guarantee of a release of which only the steps `kept` ran.

    Which steps ran may depend on the outputs of those that did. What did not run costs nothing, with two
    exceptions, without which the rule would not be valid (``docs/privacy/ledger.md``):

    - ``delta`` is paid in full as soon as anything ran. A test that fails has used the probability with which
      it might have passed wrongly.
    - Gaussian steps that share a budget through their joint curve are paid for together, all or none.

    Parameters
    ----------
    guarantee : Guarantee
    kept : iterable of Spend
        Some of its spends.

    Returns
    -------
    Guarantee

    Examples
    --------
    >>> from dpstats.privacy.guarantee import Guarantee
    >>> steps = Spend("count", "Laplace", 0.1), Spend("median", "EM", 0.9)
    >>> g = Guarantee(1, 0, "add-remove", "pure", steps)
    >>> print(stopped_early(g, g.spends[:1]))
    (0.1, 0)-DP, pure; neighbours: one record added or removed
    """
    kept = tuple(kept)
    eps, delta = release_cost("basic", guarantee, kept)
    kind: Kind = "pure" if delta == 0 and guarantee.kind == "approximate" else guarantee.kind
    return guarantee.replace(eps=eps, delta=delta, kind=kind, spends=kept)


def largest(rule: Rule, cost: Fraction, delta: Fraction) -> tuple[float, float]:
    """The largest opaque ``(eps, delta)`` that the given remainders of the two sums still allow.

    Examples
    --------
    >>> largest("basic", Fraction(2), Fraction(0))
    (2.0, 0.0)
    """
    left, left_delta = max(0.0, float(cost)), max(0.0, float(delta))
    if rule == "basic" or left == 0:
        return left, left_delta
    if rule == "zcdp":
        top = max(2.0, 2 * left)
        eps: float = brentq(lambda e: pure_rho(e) - left, 0.0, top, xtol=5e-324, rtol=4 * ULP, maxiter=500)
    else:
        half = math.sqrt(left) / 2
        eps = float(log_ndtr(half) - log_ndtr(-half))
    return round_down(eps, 1e-13), left_delta


def charged(rule: Rule, cost: Fraction, delta: Fraction, total_delta: float) -> tuple[float, float]:
    """What has been charged so far, as an ``(eps, delta)``.

    Examples
    --------
    >>> charged("basic", Fraction(3, 2), Fraction(0), 1e-5)
    (1.5, 0.0)
    >>> eps, delta = charged("zcdp", Fraction(1, 10), Fraction(0), 1e-5)
    >>> round(eps, 4), delta
    (1.9854, 5e-06)
    """
    spent, spent_delta = _ceil(cost), _ceil(delta)
    if rule == "basic" or spent == spent_delta == 0:
        return spent, spent_delta
    half = total_delta / 2
    if spent == 0:
        return 0.0, spent_delta + half
    eps = zcdp_eps(spent, half) if rule == "zcdp" else gdp_eps(round_up(math.sqrt(spent)), half)
    return eps, spent_delta + half
