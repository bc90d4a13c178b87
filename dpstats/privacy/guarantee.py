"""What a release guarantees: frozen facts, no arithmetic (see :mod:`dpstats.privacy.conversions`)."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from dpstats._validation import check, fail, one_of

__all__ = ["KINDS", "NEIGHBOURS", "Guarantee", "Kind", "Neighbours", "Spend"]

Neighbours = Literal["add-remove", "substitution"]
Kind = Literal["pure", "approximate", "random (claimed by the paper, unproven)"]
NEIGHBOURS: tuple[Neighbours, ...] = get_args(Neighbours)
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Spend:
    """One step of a release and what it costs.

    Parameters
    ----------
    step : str
        What the step does, in the user's words ("column scales").
    mechanism : str
        How ("Gaussian noise", "exponential mechanism", "propose-test-release").
    eps, delta : float
        The step is ``(eps, delta)``-DP on its own. For a Gaussian step this is its exact conversion at
        `delta`; several of them compose through `mu`, so their `eps` do not add up.
    mu : float, optional
        The step is ``mu``-GDP: Gaussian noise, or a choice that is composed with it.
    rho : float, optional
        The step is ``rho``-zCDP.
    """

    step: str
    mechanism: str
    eps: float
    delta: float = 0.0
    mu: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        for name in ("step", "mechanism"):
            if not isinstance(getattr(self, name), str):
                fail(name, getattr(self, name), "a string")
        for name in ("eps", "delta", "mu", "rho"):
            check(name, getattr(self, name), "nonnegative", optional=name in ("mu", "rho"))


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The privacy guarantee of one release.

    Parameters
    ----------
    eps, delta : float
        The whole release is ``(eps, delta)``-DP.
    neighbours : {"add-remove", "substitution"}
        Between which data sets: one record added or removed, or one record replaced (the number of
        rows being public).
    kind : {"pure", "approximate", "random (claimed by the paper, unproven)"}
    spends : tuple of Spend
        How the budget was divided.
    gamma : float, optional
        For random DP only: the share of data sets for which nothing is promised.
    seeded : bool
        True if the randomness came from a seed. Such a release protects nobody.
    scope : str, optional
        A sentence that qualifies the promise, such as the parallel composition over declared groups.

    Examples
    --------
    >>> g = Guarantee(1, 0, "add-remove", "pure", (Spend("median", "exponential mechanism", 1),))
    >>> print(g)
    (1, 0)-DP, pure; neighbours: one record added or removed
    """

    eps: float
    delta: float
    neighbours: Neighbours
    kind: Kind
    spends: tuple[Spend, ...] = ()
    gamma: float | None = None
    seeded: bool = False
    scope: str | None = None

    def __post_init__(self) -> None:
        one_of("neighbours", self.neighbours, NEIGHBOURS)
        one_of("kind", self.kind, KINDS)
        check("eps", self.eps, "nonnegative")
        check("delta", self.delta)
        if not (isinstance(self.spends, tuple) and all(isinstance(s, Spend) for s in self.spends)):
            fail("spends", self.spends, "a tuple of Spend")
        check("gamma", self.gamma, optional=True)
        check("seeded", self.seeded, "flag")
        if not (self.scope is None or isinstance(self.scope, str)):
            fail("scope", self.scope, "None or a string")

    def __str__(self) -> str:
        relation = {"add-remove": "one record added or removed", "substitution": "one record replaced"}
        text = f"({self.eps:.4g}, {self.delta:.3g})-DP, {self.kind}; neighbours: {relation[self.neighbours]}"
        if self.seeded:
            text += "; SEEDED: protects nobody"
        return text

    def to_dict(self) -> dict[str, Any]:
        """The guarantee as plain dicts, lists, strings and numbers."""
        return asdict(self) | {"spends": [asdict(s) for s in self.spends]}

    def replace(self, **changes: Any) -> "Guarantee":
        """A copy with some fields changed."""
        return replace(self, **changes)
