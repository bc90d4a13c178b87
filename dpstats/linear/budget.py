"""The budget of an estimator of a linear predictor, whose steps are Gaussian: shares of ``mu^2``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dpstats.linear.public import PublicDesign
from dpstats.mechanisms.whiten import Stage
from dpstats.privacy.conversions import gdp_eps, gdp_mu, gdp_split
from dpstats.privacy.guarantee import Guarantee, Spend

__all__ = [
    "GaussianBudget",
    "LinearBudget",
    "SHARES",
    "Recipe",
    "Step",
    "divide",
    "preparation",
    "stage_steps",
    "stages_of",
]

Recipe = Sequence[tuple[float, float, float]]
"""Clip rule (c, L) of each stage of a whitening, and its share."""
SHARES = {
    "count": 0.01,
    "location": 0.06,
    "scale": 0.11,
    "response_location": 0.03,
    "response_scale": 0.03,
    "hessian": 0.09,
    "limit": 0.08,
    "excess": 0.1,
    "skewness": 0.02,
    "outer": 0.05,
}
"""Shares of ``mu^2`` of steps that have the same in all rounds; those of the whitening are in its stages."""
_LEVELS = 0.2
"""Share of the levels' counts, relative to that of the scales."""


@dataclass(frozen=True)
class Step:
    """A step of an estimator: what it does in words, its share of the budget, and the releases that share it.

    Shares are in relation to those of the other steps; that of a step that is not needed is 0.
    """

    key: str
    words: str
    share: float
    times: int = 1


class GaussianBudget(Protocol):
    """A budget whose steps are Gaussian: `mus` holds the Gaussian-DP parameter of each release of a step."""

    @property
    def guarantee(self) -> Guarantee: ...

    @property
    def mus(self) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class LinearBudget:
    """Everything public about a fit; an estimator's own adds its parameters.

    Attributes
    ----------
    guarantee : Guarantee
    mus : mapping of str to float
        The Gaussian-DP parameter of each release of a step, by its key.
    public : PublicDesign
    stages : tuple of Stage
        Of the whitening.
    """

    guarantee: Guarantee
    mus: Mapping[str, float]
    public: PublicDesign
    stages: tuple[Stage, ...]


def divide(
    eps: float, delta: float, steps: Sequence[Step], seeded: bool
) -> tuple[dict[str, float], Guarantee]:
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


def preparation(public: PublicDesign, shares: Mapping[str, float]) -> list[Step]:
    """The steps of :func:`~dpstats.linear.prepare.prepare` before the whitening, without those not needed.

    Parameters
    ----------
    public : PublicDesign
    shares : mapping
        Of ``count, location, scale, response_location, response_scale``.
    """
    free = bool(len(public.free) or public.variables or public.weighted)
    weights = " and of the weights" if public.weighted else ""
    needed = {
        "count": ("number of rows", shares["count"]),
        "location": (f"locations of the columns{weights}", shares["location"] * (free and public.located)),
        "scale": (f"scales of the columns{weights}", shares["scale"] * free),
        "levels": ("numbers of rows of the levels", _LEVELS * shares["scale"] * bool(public.factors)),
        "response_location": ("location of the response", shares["response_location"] * public.intercept),
        "response_scale": ("scale of the response", shares["response_scale"]),
    }
    return [Step(key, words, share) for key, (words, share) in needed.items()]


def stage_steps(recipe: Recipe, share: float = 1.0) -> list[Step]:
    """The steps of a whitening: `recipe` has the clip rule (c, L) of each stage and its part of `share`."""
    return [
        Step(f"stage {i}", f"whitening, Gram matrix {i + 1}", share * s) for i, (_, _, s) in enumerate(recipe)
    ]


def stages_of(recipe: Recipe, mus: Mapping[str, float]) -> tuple[Stage, ...]:
    """The stages of a whitening at their Gaussian-DP parameters."""
    return tuple(Stage(c, L, mus[f"stage {i}"]) for i, (c, L, _) in enumerate(recipe))
