"""What a release guarantees: frozen facts; their arithmetic is in :mod:`dpstats.privacy.conversions`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Any, Literal, get_args

from dpstats._format import at_least
from dpstats._validation import check, fail, one_of
from dpstats.privacy.conversions import of_group

__all__ = ["KINDS", "NEIGHBOURS", "Guarantee", "Kind", "Neighbours", "Spend", "relation"]

Neighbours = Literal["add-remove", "substitution"]
Kind = Literal["pure", "approximate", "random (claimed by the paper, unproven)"]
NEIGHBOURS: tuple[Neighbours, ...] = get_args(Neighbours)
KINDS: tuple[Kind, ...] = get_args(Kind)


def relation(neighbours: Neighbours, unit: str | None = None) -> str:
    """A neighbouring relation in words.

    Examples
    --------
    >>> relation("add-remove"), relation("substitution", "patient_id")
    ('one record added or removed', "all rows of one 'patient_id' replaced")
    """
    what = "one record" if unit is None else f"all rows of one {unit!r}"
    return f"{what} {'added or removed' if neighbours == 'add-remove' else 'replaced'}"


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
    unit : str, optional
        A column: neighbours differ by all rows of one of its values, and not by one record alone.

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
    unit: str | None = None

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
        if not (self.unit is None or isinstance(self.unit, str)):
            fail("unit", self.unit, "None or the name of a column")

    def __str__(self) -> str:
        words = relation(self.neighbours, self.unit)
        budget = f"({at_least(self.eps, 4)}, {at_least(self.delta, 3)})"
        text = f"{budget}-DP, {self.kind}; neighbours: {words}"
        if self.seeded:
            text += "; SEEDED: protects nobody"
        return text

    def _repr_html_(self) -> str:
        """The promise as a short table, for notebooks."""
        facts = [
            ("eps", at_least(self.eps)),
            ("delta", at_least(self.delta)),
            ("kind", self.kind),
            ("neighbours", relation(self.neighbours, self.unit)),
            ("steps", str(len(self.spends))),
        ]
        if self.scope:
            facts.append(("scope", self.scope))
        if self.seeded:
            facts.append(("seeded", "PROTECTS NOBODY"))
        rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts)
        return f"<table><tbody>{rows}</tbody></table>"

    def to_dict(self) -> dict[str, Any]:
        """The guarantee as plain dicts, lists, strings and numbers.

        Returns
        -------
        dict

        Examples
        --------
        >>> g = Guarantee(1, 0, "add-remove", "pure", (Spend("median", "exponential mechanism", 1),))
        >>> g.to_dict()["eps"], [spend["step"] for spend in g.to_dict()["spends"]]
        (1, ['median'])
        """
        return asdict(self) | {"spends": [asdict(s) for s in self.spends]}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> "Guarantee":
        """The guarantee whose :meth:`to_dict` this is.

        Parameters
        ----------
        facts : mapping

        Returns
        -------
        Guarantee

        Examples
        --------
        >>> g = Guarantee(1, 0, "add-remove", "pure", (Spend("median", "exponential mechanism", 1),))
        >>> print(Guarantee.from_dict(g.to_dict()))
        (1, 0)-DP, pure; neighbours: one record added or removed
        """
        return cls(**{**facts, "spends": tuple(Spend(**spend) for spend in facts["spends"])})

    def of_unit(self, unit: str, rows: int) -> "Guarantee":
        """What a release about single records guarantees for units of at most so many rows.

        The limit must be public and hold for every unit, as by design of the data; nothing checks it. Group
        privacy: of `k` records a ``mu``-GDP step is ``k mu``-GDP, a ``rho``-zCDP one ``k^2 rho``-zCDP, and
        for eps and delta see :func:`~dpstats.privacy.conversions.of_group`.

        Parameters
        ----------
        unit : str
            Column of the units.
        rows : int
            The most rows that a unit can have.

        Returns
        -------
        Guarantee

        Raises
        ------
        ParameterError
            If `rows` is no positive number, or the guarantee is about units already, or random, or about
            records that are replaced: of a unit's rows as many would have to come as go.

        Examples
        --------
        >>> print(Guarantee(0.5, 1e-6, "add-remove", "approximate").of_unit("patient_id", rows=3))
        (1.5, 5.37e-06)-DP, approximate; neighbours: all rows of one 'patient_id' added or removed
        """
        k = int(check("rows", rows, "count") or 1)
        if self.unit is not None:
            fail("unit", unit, "given for a guarantee about single records")
        if self.neighbours == "substitution":
            fail("neighbours", self.neighbours, "'add-remove': units differ in their number of rows")
        if self.gamma is not None:
            fail("guarantee", self.kind, "differential privacy; random differential privacy has no such rule")

        spends = []
        for s in self.spends:
            eps, delta = of_group(s.eps, s.delta, k)
            mu, rho = (None if x is None else times * x for x, times in ((s.mu, k), (s.rho, k * k)))
            spends.append(replace(s, eps=eps, delta=delta, mu=mu, rho=rho))
        eps, delta = of_group(self.eps, self.delta, k)
        if not delta < 1:
            fail("rows", rows, "fewer: of so many records this guarantee promises nothing")
        return replace(self, eps=eps, delta=delta, spends=tuple(spends), unit=unit)

    def replace(self, **changes: Any) -> "Guarantee":
        """A copy with some fields changed.

        Parameters
        ----------
        changes
            Fields by name.

        Returns
        -------
        Guarantee

        Examples
        --------
        >>> print(Guarantee(1, 0, "add-remove", "pure").replace(eps=2))
        (2, 0)-DP, pure; neighbours: one record added or removed
        """
        return replace(self, **changes)
