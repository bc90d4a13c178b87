"""How one total is divided among several releases, as a ledger adds them up again."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from dpstats._boundary import guarded
from dpstats._validation import allows, check, fail, one_of
from dpstats.privacy.conversions import ULP, gdp_eps, gdp_mu, gdp_rho, round_up
from dpstats.privacy.filters import FILTERS, Rule, limits

__all__ = ["Part", "split"]


class Part(NamedTuple):
    """What one release may ask for."""

    eps: float
    delta: float


@guarded
def split(
    total_eps: float, parts: int | Mapping[str, float], rule: Rule = "basic", delta: float = 1e-6
) -> tuple[Part, ...] | dict[str, Part]:
    r"""Divide a total among several releases, such as three regressions within ``eps = 1``.

    Parameters
    ----------
    total_eps : float
        All the releases together are ``(total_eps, delta)``-DP.
    parts : int or dict
        The number of equal parts; or their names and weights. Weights are shares of what adds up: of `eps`
        under ``"basic"``, else of the inverse variance of the noise.
    rule : {"basic", "zcdp", "gdp"}
        How the releases add up: the `composition` of the ledger that is to take them.
    delta : float
        Of the total; positive unless the rule is ``"basic"``.

    Returns
    -------
    tuple of (eps, delta), or dict of them
        What each release may ask for, `total_eps` and `delta` being those of the ledger. Under ``"basic"``
        it has its share of both. Under the other rules what adds up is the noise alone, and each is quoted at
        the whole `delta`.

    Raises
    ------
    ParameterError
        If the arguments are out of range.

    See Also
    --------
    dpstats.Ledger : accepts these releases together, and not one more.

    Notes
    -----
    **Privacy.** Nothing is released. With ``mu`` the parameter of Gaussian differential privacy that the
    ledger allows in all (:func:`~dpstats.privacy.filters.limits`), a part of share :math:`w` may spend
    :math:`\mu_w = \sqrt{w}\,\mu`, and its `eps` is that at which Gaussian noise of :math:`\mu_w` is
    ``(eps, delta)``-DP. So ``"zcdp"`` and ``"gdp"`` are for estimators whose steps all are Gaussian: `ols`,
    `huber`, `adassp`, `boosted_adassp`, `gradient_descent`, `logit`, `poisson` and `mean`. Under ``"basic"``
    parts are for any estimator. Proof of the rules: ``docs/privacy/ledger.md``.

    Examples
    --------
    >>> [round(part.eps, 3) for part in split(1, 3)]
    [0.333, 0.333, 0.333]
    >>> [round(part.eps, 3) for part in split(1, 3, rule="gdp")]
    [0.535, 0.535, 0.535]
    >>> parts = split(1, {"main": 2, "check": 1}, rule="gdp")
    >>> round(parts["main"].eps, 3), round(parts["check"].eps, 3)
    (0.776, 0.535)
    """
    total, delta = check("total_eps", total_eps, "eps"), check("delta", delta)
    rule = one_of("rule", rule, FILTERS)
    if rule != "basic" and delta == 0:
        fail("delta", delta, f"positive for rule={rule!r}")
    names, weights = _weights(parts)
    budgets = [_part(rule, total, delta, weight / sum(weights)) for weight in weights]
    return tuple(budgets) if names is None else dict(zip(names, budgets, strict=True))


def _weights(parts: Any) -> tuple[list[str] | None, list[Fraction]]:
    """The names of the parts, None if they have none, and exact weights."""
    if allows(parts, "count"):
        return None, [Fraction(1)] * int(parts)
    valid = isinstance(parts, Mapping) and len(parts) > 0
    valid = valid and all(isinstance(name, str) for name in parts)
    if not (valid and all(allows(weight, "positive") for weight in parts.values())):
        fail("parts", parts, "a positive integer, or a dictionary of names and positive weights")
    return list(parts), [Fraction(float(weight)) for weight in parts.values()]


def _part(rule: Rule, eps: float, delta: float, share: Fraction) -> Part:
    if rule == "basic":
        return Part(float(share * Fraction(eps)), float(share * Fraction(delta)))
    limit, _ = limits(rule, eps, delta)
    left = limit * float(share)
    mu = math.sqrt(left if rule == "gdp" else 2 * left)
    quoted, step = gdp_eps(mu, delta), ULP
    # an estimator goes back from (eps, delta) to mu, and rounding must not cost more than the share
    while _cost(rule, gdp_mu(quoted, delta)) > left:
        quoted, step = quoted * (1 - step), 2 * step
    return Part(quoted, delta)


def _cost(rule: Rule, mu: float) -> float:
    """What Gaussian noise costs under a rule."""
    return round_up(mu * mu) if rule == "gdp" else gdp_rho(mu)
