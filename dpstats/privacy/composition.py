"""What several steps cost together: pure functions of frozen facts.

Every total errs on the safe side. The theorems, and which of them hold when later steps are chosen in the
light of earlier ones, are in ``docs/privacy/composition.md``. The conversions between forms of differential
privacy live in :mod:`dpstats.privacy.conversions` and can be had from here.
"""

import math
from collections import Counter
from fractions import Fraction
from typing import NamedTuple

from dpstats._validation import check, fail
from dpstats.privacy.conversions import (
    ULP,
    bounded_range_rho,
    gdp_delta,
    gdp_eps,
    gdp_mu,
    gdp_rho,
    gdp_split,
    pure_mu,
    pure_rho,
    round_down,
    round_up,
    to_substitution,
    zcdp_eps,
    zcdp_rho,
)
from dpstats.privacy.guarantee import Spend

__all__ = [
    "Composed",
    "bounded_range_rho",
    "compose",
    "exponential_spend",
    "gdp_delta",
    "gdp_eps",
    "gdp_mu",
    "gdp_rho",
    "gdp_split",
    "pure_mu",
    "pure_rho",
    "step_rho",
    "to_substitution",
    "zcdp_eps",
    "zcdp_rho",
]


def exponential_spend(step, eps):
    """A step that is an exponential mechanism at `eps`: bounded range, cheaper in zCDP than pure DP."""
    return Spend(step, "exponential mechanism", eps, rho=bounded_range_rho(eps))


class Composed(NamedTuple):
    """What several steps cost together, and the accounting that proves it."""

    eps: float
    method: str


def step_rho(spend):
    """The approximate zCDP of a step, ``(rho, delta)``: but for an event of probability ``delta``, `rho`-zCDP.

    A step that declares neither `rho` nor `mu` is taken at its ``(eps, delta)``, which is the same as being
    `eps`-DP but for an event of probability `delta`.

    Examples
    --------
    >>> from dpstats.privacy.guarantee import Spend
    >>> step_rho(Spend("moments", "Gaussian noise", eps=0.5, delta=1e-6, mu=0.2))[1]
    0.0
    """
    rhos = [] if spend.rho is None else [spend.rho]
    if spend.mu is not None:
        rhos.append(gdp_rho(spend.mu))
    if spend.delta == 0 or not rhos:
        rhos.append(pure_rho(spend.eps))
    return min(rhos), (spend.delta if spend.mu is None and spend.rho is None else 0.0)


def _add(numbers):
    """The exact sum, rounded up: no less than it, whatever the order."""
    exact = sum(map(Fraction, numbers), Fraction())
    total = float(exact)
    return total if Fraction(total) >= exact else math.nextafter(total, math.inf)


def _left(delta, spent):
    """What is left of `delta`, rounded down; a deficit within 1e-12 of it is rounding, and counts as none."""
    left = Fraction(delta) - sum(map(Fraction, spent), Fraction())
    if left <= 0:
        return 0.0 if -left <= Fraction(delta) / 10**12 else -math.inf
    return round_down(float(left))


def _basic(spends, delta):
    return _add(s.eps for s in spends) if _left(delta, [s.delta for s in spends]) >= 0 else math.inf


def _gdp(spends, delta):
    """Gaussian steps through their exact joint curve, the others added."""
    mu = math.sqrt(_add(round_up(s.mu * s.mu) for s in spends if s.mu is not None))
    others = [s for s in spends if s.mu is None]
    left = _left(delta, [s.delta for s in others])
    return _add([gdp_eps(round_up(mu), left), *(s.eps for s in others)]) if mu > 0 and left > 0 else math.inf


def _zcdp(spends, delta):
    costs = [step_rho(s) for s in spends]
    left = _left(delta, [d for _, d in costs])
    return zcdp_eps(_add(rho for rho, _ in costs), left) if left > 0 else math.inf


def _pld(spends, delta):
    """Numerical composition of dominating pairs, rounded pessimistically by ``dp_accounting``.

    Its convolutions are floating-point FFTs. Their error in `delta`, bounded below as in Higham (2002, section
    24.1), is set aside first; where it is not small beside `delta` the method does not apply.
    """
    steps = Counter((s.eps, s.delta) for s in spends if s.mu is None)
    mu = math.sqrt(_add(round_up(s.mu * s.mu) for s in spends if s.mu is not None))
    spread = sum(n * eps for (eps, _), n in steps.items()) + mu * mu / 2 + 12 * mu
    interval = 2.0**-13
    while spread > interval * 2**17:
        interval *= 2
    cells = 2 * spread / interval + 4
    slack = 1e-11 + len(spends) * math.sqrt(cells) * math.log2(cells) * 16 * ULP
    if len(steps) > 32 or 100 * slack > delta or spread > 700:
        return math.inf

    from dp_accounting.pld import common, privacy_loss_distribution

    parts = [
        privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(eps, step_delta), interval
        ).self_compose(n)
        for (eps, step_delta), n in sorted(steps.items())
    ]
    if mu > 0:
        parts.append(
            privacy_loss_distribution.from_gaussian_mechanism(
                1 / round_up(mu), value_discretization_interval=interval
            )
        )
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return round_up(float(total.get_epsilon_for_delta(delta - slack)))


_METHODS = {"basic": _basic, "gdp": _gdp, "zcdp": _zcdp, "pld": _pld}


def compose(spends, delta, *, pld=True):
    """The smallest provable ``eps`` of several steps together, at a total `delta`.

    The steps may be chosen in the light of one another's outputs, but their costs are fixed beforehand, as
    they are within one release. Where costs too are chosen as one goes, as in a ledger, use
    :mod:`dpstats.privacy.filters`.

    Parameters
    ----------
    spends : iterable of Spend
        The steps. One with `mu` or `rho` is accounted through them and needs its own `delta` only for basic
        composition.
    delta : float
        In ``[0, 1)``: of the whole.
    pld : bool
        Whether to try the numerical accountant too (some 50 ms; the other methods take about 1 ms).

    Returns
    -------
    Composed
        ``(eps, method)``, where method is that of the smallest total:

        - ``"basic"``: every ``eps`` and ``delta`` added up;
        - ``"gdp"``: Gaussian steps through ``sqrt(sum mu**2)``, converted exactly; the others added;
        - ``"zcdp"``: every ``rho`` added up (:func:`step_rho`), converted by :func:`zcdp_eps`;
        - ``"pld"``: privacy loss distributions of the Gaussian and ``(eps, delta)`` steps, convolved
          pessimistically (tried for mixtures, at a `delta` of at least about 1e-8).

    Raises
    ------
    ParameterError
        If the steps cannot be done within `delta`.

    Examples
    --------
    >>> from dpstats.privacy.guarantee import Spend
    >>> centre = Spend("centre", "exponential mechanism", eps=0.2)
    >>> moments = Spend("moments", "Gaussian noise", eps=gdp_eps(0.2, 5e-7), delta=5e-7, mu=0.2)
    >>> compose([centre, moments], 1e-6, pld=False).method
    'gdp'
    >>> eps, method = compose([centre] * 60, 1e-6)
    >>> round(eps, 1), method
    (7.8, 'pld')
    """
    delta = check("delta", delta)
    spends = sorted(spends, key=lambda s: (s.eps, s.delta, s.mu or 0.0, s.rho or 0.0))
    if not spends:
        return Composed(0.0, "basic")
    methods = dict(_METHODS)
    if not pld or len(spends) == 1 or all(s.mu is not None for s in spends):
        del methods["pld"]
    best = min((Composed(f(spends, delta), name) for name, f in methods.items()), key=lambda c: c.eps)
    if best.eps == math.inf:
        opaque = _add(step_rho(s)[1] for s in spends)
        least = _add(s.delta for s in spends)
        fail("delta", delta, f"at least {least:.3g}, or above {opaque:.3g}, for these steps")
    return best
