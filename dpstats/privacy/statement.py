"""The statement of a ledger: frozen rows to text, HTML or a data frame."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dpstats._format import at_least, at_most, package_version
from dpstats._text import Summary, Table
from dpstats.privacy import store
from dpstats.privacy.conversions import to_substitution
from dpstats.privacy.filters import Rule
from dpstats.privacy.guarantee import Neighbours, relation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "Statement", "Total"]

COLUMNS = tuple(c for c in store.COLUMNS if c != "spends")


class Total(NamedTuple):
    """What releases under one neighbouring relation have been charged, and what is left: ``(eps, delta)``."""

    charged: tuple[float, float]
    left: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Statement:
    """Every release in a ledger and what they come to. Made by :meth:`dpstats.Ledger.report`.

    Parameters
    ----------
    dataset : str
    eps, delta : float
        The total.
    composition : {"basic", "zcdp", "gdp"}
    releases : tuple of dict
        In order, each with ``charged_at, method, formula, neighbours, kind, seeded, eps, delta``, the
        ``spends`` (JSON), and the ``cost`` and ``cost_delta`` that the ledger adds up.
    totals : dict
        A :class:`Total` for each neighbouring relation that has releases.
    unit : str, optional
        The column whose values the totals are about; None for single records.

    Examples
    --------
    >>> from dpstats import Guarantee, Ledger
    >>> ledger = Ledger(":memory:", eps=3, delta=1e-5)
    >>> ledger.charge(Guarantee(1, 1e-6, "add-remove", "approximate"), "tukey_em", "price ~ carat")
    >>> ledger.report().totals["add-remove"].left
    (2.0, 9e-06)
    >>> print("\\n".join(str(ledger.report()).splitlines()[-5:-1]))
    One record added or removed: charged (1, 1e-06); left (2, 9e-06).
    All releases under one relation, these and any later ones, are (3, 1e-05)-DP.
    All releases above are (2, 3.72e-06)-DP when one record is replaced, which is
    one removed and one added.
    """

    dataset: str
    eps: float
    delta: float
    composition: Rule
    releases: tuple[dict[str, Any], ...]
    totals: dict[Neighbours, Total]
    unit: str | None = None

    @property
    def substitution(self) -> tuple[float, float]:
        """All releases together when one record is replaced: ``(eps, delta)``, as charged so far.

        Replacing a record is removing one and adding one, so add-remove releases count
        ``(2 eps, (1 + e^eps) delta)``.
        """
        parts = [to_substitution(*self.totals["add-remove"].charged)] if "add-remove" in self.totals else []
        if "substitution" in self.totals:
            parts.append(self.totals["substitution"].charged)
        return sum(p[0] for p in parts), min(1.0, sum(p[1] for p in parts))

    def to_frame(self) -> "pd.DataFrame":
        """The releases as a data frame; its ``attrs`` hold the totals.

        Returns
        -------
        pandas.DataFrame
            One row for each release; `charged_at` is in UTC.

        Examples
        --------
        >>> from dpstats import Guarantee, Ledger
        >>> ledger = Ledger(":memory:", eps=3, delta=1e-5)
        >>> ledger.charge(Guarantee(1, 1e-6, "add-remove", "approximate"), "tukey_em", "price ~ carat")
        >>> ledger.report().to_frame()[["method", "formula", "eps"]]
             method        formula  eps
        0  tukey_em  price ~ carat  1.0
        """
        import pandas as pd

        frame = pd.DataFrame(list(self.releases), columns=list(COLUMNS)).astype({"seeded": bool})
        frame["charged_at"] = pd.to_datetime(frame["charged_at"], utc=True)
        frame.insert(1, "dataset", self.dataset)
        frame.attrs.update(eps=self.eps, delta=self.delta, composition=self.composition)
        frame.attrs["totals"] = {r: t._asdict() for r, t in self.totals.items()}
        return frame

    def to_dict(self) -> dict[str, Any]:
        """The record of the study as plain dicts, lists, strings and numbers for JSON.

        Returns
        -------
        dict
            ``version`` of the package; ``dataset``, ``unit``, ``composition`` and the ``total``;
            ``releases``, each with its time, method, formula, price and ``spends`` as a list; and what they
            come to: ``totals`` by neighbouring relation, and ``substitution``, all releases together when
            one record is replaced.

        Examples
        --------
        >>> from dpstats import Guarantee, Ledger
        >>> ledger = Ledger(":memory:", eps=3, delta=1e-5)
        >>> ledger.charge(Guarantee(1, 1e-6, "add-remove", "approximate"), "tukey_em", "price ~ carat")
        >>> ledger.report().to_dict()["totals"]
        {'add-remove': {'charged': [1.0, 1e-06], 'left': [2.0, 9e-06]}}
        """
        return {
            "version": package_version(),
            "dataset": self.dataset,
            "unit": self.unit,
            "composition": self.composition,
            "total": {"eps": self.eps, "delta": self.delta},
            "releases": [
                {key: release[key] for key in COLUMNS}
                | {"seeded": bool(release["seeded"]), "spends": json.loads(release["spends"])}
                for release in self.releases
            ],
            "totals": {
                name: {"charged": list(total.charged), "left": list(total.left)}
                for name, total in self.totals.items()
            },
            "substitution": list(self.substitution),
        }

    def as_text(self) -> str:
        """The table as plain text, as it prints.

        Returns
        -------
        str

        Examples
        --------
        >>> from dpstats import Guarantee, Ledger
        >>> ledger = Ledger(":memory:", eps=3, delta=1e-5)
        >>> ledger.charge(Guarantee(1, 1e-6, "add-remove", "approximate"), "tukey_em", "price ~ carat")
        >>> ledger.report().as_text().splitlines()[-5]
        'One record added or removed: charged (1, 1e-06); left (2, 9e-06).'
        """
        return self._summary().as_text()

    def as_html(self) -> str:
        """The table as a fragment of HTML.

        Returns
        -------
        str

        Examples
        --------
        >>> from dpstats import Guarantee, Ledger
        >>> ledger = Ledger(":memory:", eps=3, delta=1e-5)
        >>> ledger.charge(Guarantee(1, 1e-6, "add-remove", "approximate"), "tukey_em", "price ~ carat")
        >>> ledger.report().as_html().count("<tr>")
        7
        """
        return self._summary().as_html()

    def as_markdown(self) -> str:
        """The table as Markdown, for the appendix of a study.

        Returns
        -------
        str

        Examples
        --------
        >>> from dpstats import Guarantee, Ledger
        >>> ledger = Ledger(":memory:", eps=3, delta=1e-5)
        >>> ledger.charge(Guarantee(1, 1e-6, "add-remove", "approximate"), "tukey_em", "price ~ carat")
        >>> [line for line in ledger.report().as_markdown().splitlines() if line.startswith("- Total")]
        ['- Total: (3, 1e-05)']
        """
        return self._summary().as_markdown()

    def _summary(self) -> Summary:
        header = ["Charged (UTC)", "Method", "Formula", "Neighbours", "eps", "delta"]
        rows = []
        for r in self.releases:
            marks = [r["neighbours"], *(["random DP"] if r["kind"].startswith("random") else [])]
            marks += ["SEEDED: protects nobody"] if r["seeded"] else []
            when = r["charged_at"][:16].replace("T", " ")
            rows.append(
                (
                    when,
                    r["method"],
                    r["formula"],
                    ", ".join(marks),
                    at_least(r["eps"], 4),
                    at_least(r["delta"], 3),
                )
            )
        by_eps = self.composition == "basic"
        further = "" if by_eps else " for a release without Gaussian steps, more for one with them"
        together = [
            f"{_capital(relation(name, self.unit))}: charged {_pair(t.charged)}; "
            f"left {_pair(t.left, at_most)}{further}."
            for name, t in self.totals.items()
        ]
        if not self.releases:
            together.append("Nothing has been released yet.")
        if self.totals:
            together.append(
                "All releases under one relation, these and any later ones, are "
                f"{_pair((self.eps, self.delta))}-DP."
            )
        what = "one record is" if self.unit is None else f"all rows of one {self.unit!r} are"
        if "add-remove" in self.totals:
            together.append(
                f"All releases above are {_pair(self.substitution)}-DP when {what} replaced, which is one "
                f"removed and one added{'; a delta of 1 guarantees nothing' * (self.substitution[1] >= 1)}."
            )
        facts = (
            ("Data set", self.dataset),
            *((("Unit", self.unit),) if self.unit is not None else ()),
            ("Total", _pair((self.eps, self.delta))),
            ("Releases", str(len(rows))),
            ("Composition", self.composition),
            ("dpstats", package_version()),
        )
        return Summary("Privacy ledger", "", facts, Table(tuple(header), tuple(rows), 4), tuple(together))

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.as_html()


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _pair(budget: tuple[float, float], rounded: Callable[[float, int], str] = at_least) -> str:
    return f"({rounded(budget[0], 4)}, {rounded(budget[1], 3)})"
