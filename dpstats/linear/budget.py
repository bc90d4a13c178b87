"""The budget of an estimator whose every step is Gaussian: shares of ``mu^2`` that add to 1."""

from dataclasses import dataclass

from dpstats.privacy.conversions import gdp_eps, gdp_mu, gdp_split
from dpstats.privacy.guarantee import Guarantee, Spend

__all__ = ["Step", "divide", "preparation"]


@dataclass(frozen=True)
class Step:
    """A step of an estimator.

    Attributes
    ----------
    key : str
    words : str
        What it does, for the table.
    share : float
        Its part of the budget in relation to the other steps' parts; 0 if it is not needed.
    times : int
        Number of releases that share it.
    """

    key: str
    words: str
    share: float
    times: int = 1


def divide(eps, delta, steps, seeded):
    """Divide a budget among Gaussian steps.

    Parameters
    ----------
    eps, delta : float
        Of the whole, under add-remove neighbours.
    steps : sequence of Step
        In the order in which they run.
    seeded : bool

    Returns
    -------
    mus : dict of str to float
        The Gaussian-DP parameter of each release of a step; 0 for a step that is not needed.
    guarantee : Guarantee
        With one spend for each release.

    Notes
    -----
    **Privacy.** ``mu^2`` of the whole is the sum over all releases, adaptively chosen or not (Dong, Roth and
    Su 2022, corollary 3.3), rounded down (:func:`~dpstats.privacy.conversions.gdp_split`), and ``mu`` is the
    largest that is ``(eps, delta)``-DP. Argument: ``docs/privacy/composition.md``.

    Examples
    --------
    >>> steps = [Step("a", "first", 1.0), Step("b", "second", 3.0, times=2)]
    >>> mus, guarantee = divide(1.0, 1e-6, steps, seeded=False)
    >>> round(mus["b"] / mus["a"], 6), len(guarantee.spends)
    (1.224745, 3)
    """
    releases = [step for step in steps for _ in range(step.times)]
    parts = gdp_split(gdp_mu(eps, delta), [step.share / step.times for step in releases])
    mus = {step.key: mu for step, mu in zip(releases, parts, strict=True)}
    spends = tuple(
        Spend(step.words, "Gaussian noise", gdp_eps(mu, delta), delta, mu=mu)
        for step, mu in zip(releases, parts, strict=True)
        if mu
    )
    return mus, Guarantee(eps, delta, "add-remove", "approximate", spends, seeded=seeded)


def preparation(public, shares):
    """The steps of :func:`~dpstats.linear.prepare.prepare` before the whitening, without those not needed.

    Parameters
    ----------
    public : PublicDesign
    shares : mapping
        Of ``count, location, scale, response_location, response_scale``.
    """
    free = bool(len(public.free))
    unknown = public.response_bounds is None
    needed = {
        "count": ("number of rows", True),
        "location": ("locations of the columns", free and public.intercept),
        "scale": ("scales of the columns", free),
        "response_location": ("location of the response", unknown and public.intercept),
        "response_scale": ("scale of the response", unknown),
    }
    return [Step(key, words, shares[key] * on) for key, (words, on) in needed.items()]
