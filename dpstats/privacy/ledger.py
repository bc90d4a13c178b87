"""What all releases from one data set may cost together, in a file that outlives the session.

The only mutable object of the package. The rule that accepts a charge is a privacy filter
(:mod:`dpstats.privacy.filters`); this module makes it durable, and atomic between threads and processes.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from fractions import Fraction
from sqlite3 import Connection
from typing import Any, NoReturn

from dpstats._format import at_least, at_most
from dpstats._validation import check, fail, one_of, quoted, shown
from dpstats.errors import BudgetExceeded, LedgerError, ParameterError
from dpstats.privacy import filters
from dpstats.privacy.filters import Rule
from dpstats.privacy.guarantee import NEIGHBOURS, Guarantee, Neighbours, Spend
from dpstats.privacy.statement import Statement, Total
from dpstats.privacy.store import Store

__all__ = ["Ledger", "Reservation", "charge_disjoint", "reserve"]


class Ledger:
    """The privacy budget of a data set: every release is charged before it reads the data.

    Give it to any estimator as ``ledger=``. A charge is on the disk before the estimator goes on, and stays
    there whatever happens to the process afterwards. What does not fit raises
    :class:`~dpstats.BudgetExceeded` and leaves the ledger as it was. Any number of threads and processes may
    use one file.

    Parameters
    ----------
    path : str or path-like
        An SQLite file, created if it does not exist, or ``":memory:"`` for a ledger that lives and dies with
        this process. It should be on a local disk: network file systems may not honour locks.
    eps, delta : float, optional
        The total. Set once, when the data set is first entered in the file: all releases under one
        neighbouring relation together are ``(eps, delta)``-DP. May be left out to reopen a ledger; must
        agree with what the file says if given.
    dataset : str
        Which data set; a file can hold several, each with its own total. The name is public, and it is on you
        that one body of records goes by one name.
    composition : {"basic", "zcdp", "gdp"}, optional
        How releases add up, set once too (by default ``"basic"``): budgets add up; or the zCDP or GDP of
        their steps does, which goes further for many small or Gaussian releases
        (:mod:`dpstats.privacy.filters`).
    unit : str, optional
        A column: the total is then about all rows of one of its values, such as a person, and only releases
        with that ``unit=`` are charged. Without it the total is about single records, and a release about
        units is not charged. Set once, too.

    Attributes
    ----------
    path, dataset, eps, delta, composition, unit
        As above; `path` is absolute.

    Raises
    ------
    ParameterError
        If the data set has another total, or none and no `eps` and `delta` are given, or a release is about
        another unit.
    LedgerError
        If the file is not a ledger, does not add up, or cannot be read or written.

    Notes
    -----
    The two neighbouring relations have separate totals, as neither promise contains the other when the
    number of rows is public under one and private under the other. :meth:`report` also converts everything to
    one record replaced. The file holds what was charged, when, and for which method and formula: nothing that
    depends on data, unless a private output made a release stop early, and the estimator gave the rest back.

    Examples
    --------
    >>> from dpstats import Guarantee, Ledger
    >>> ledger = Ledger(":memory:", eps=3, delta=1e-5)
    >>> ledger.charge(Guarantee(1, 1e-6, "add-remove", "approximate"), "tukey_em", "price ~ carat")
    >>> ledger.remaining()
    (2.0, 9e-06)
    >>> ledger.charge(Guarantee(2.5, 0, "add-remove", "pure"), "median", "price ~ 1")
    Traceback (most recent call last):
    ...
    dpstats.errors.BudgetExceeded: The ledger of data set 'default' has too little left for median: it asks \
for eps = 2.5, delta = 0 (add-remove), and of eps = 3, delta = 1e-05 there is eps = 2, delta = 9e-06 left. \
Nothing was charged and no data were read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        eps: float | None = None,
        delta: float | None = None,
        dataset: str = "default",
        composition: Rule | None = None,
        unit: str | None = None,
    ) -> None:
        if not isinstance(dataset, str) or not dataset:
            fail("dataset", dataset, "a non-empty string")
        eps, delta = check("eps", eps, optional=True), check("delta", delta, optional=True)
        if composition is not None:
            one_of("composition", composition, filters.FILTERS)
        if not (unit is None or (isinstance(unit, str) and unit)):
            fail("unit", unit, "None or the name of a column")
        if not isinstance(path, str | os.PathLike):
            fail("path", path, "a file name or ':memory:'")
        self.dataset = dataset
        self.path: str = ":memory:" if path == ":memory:" else os.path.abspath(path)
        self._store = Store(self.path, dataset)
        create = eps is not None and delta is not None
        if not (create or self._store.in_memory or os.path.lexists(self.path)):
            both = "delta too (0 for pure releases alone)" if delta is None else "eps too"
            lacking = "a total" if eps is delta is None else both
            text = f"There is no ledger {self._shown()}. To make one, give {lacking}: {self._example()}."
            raise LedgerError(text)
        with self._store.transaction(write=create, create=create) as db:
            total = self._store.total(db)
            if total is None:
                if eps is None or delta is None:
                    raise ParameterError(
                        f"eps and delta must be given for a new data set, as in {self._example()}, "
                        f"got {eps} and {delta}."
                    )
                total = eps, delta, composition or "basic"
                filters.limits(total[2], eps, delta)
                self._store.set_total(db, *total, unit)
            self.eps, self.delta, self.composition = total
            self.unit = self._store.unit(db)
            self._store.verify(db)
        facts = ("eps", eps), ("delta", delta), ("composition", composition), ("unit", unit)
        for name, given in facts:
            stored = getattr(self, name)
            if given not in (None, stored):
                fail(name, given, f"{stored!r}, the total of data set {dataset!r} having been set")
        self._limits = filters.limits(self.composition, self.eps, self.delta)

    def _name(self) -> str:
        return self.path if self._store.in_memory else os.path.basename(self.path)

    def _shown(self) -> str:
        """The file for an error that may be about a text given in the place of its name."""
        name = quoted(self._name())
        return repr(self.path) if name == repr(self._name()) else name

    def _example(self) -> str:
        where = "" if self.dataset == "default" else f", dataset={shown(self.dataset)}"
        return f"Ledger({shown(self._name())}, eps=3, delta=1e-5{where})"

    def charge(self, guarantee: Guarantee, method: str, formula: str = "") -> None:
        """Charge a release, durably, or refuse it.

        Estimators do so by themselves; this is for releases made elsewhere. Nothing of it can be given back.

        Parameters
        ----------
        guarantee : Guarantee
            What the release will cost. A seeded release, or a claim of random DP, is charged like any other.
        method : str
            The estimator's name.
        formula : str
            The formula, or whatever else says publicly what was asked.

        Raises
        ------
        BudgetExceeded
            If it does not fit. Nothing is written.
        LedgerError
            If the file cannot be written. The caller must not go on to read data.
        ParameterError
            If an argument is not of its kind, or the release is about another unit than the ledger.

        Examples
        --------
        >>> from dpstats import Guarantee, Ledger
        >>> ledger = Ledger(":memory:", eps=3, delta=0)
        >>> ledger.charge(Guarantee(1, 0, "add-remove", "pure"), "a table of our own", "y by age")
        >>> ledger.remaining()
        (2.0, 0.0)
        """
        self._charge(guarantee, method, formula)

    def _charge(
        self, guarantee: Guarantee, method: str, formula: str, parts: Sequence[Guarantee] = ()
    ) -> int:
        """Charge, and return the number of the release; of disjoint `parts` the dearest is paid for."""
        if not isinstance(guarantee, Guarantee):
            fail("guarantee", guarantee, "a Guarantee")
        for name, text in (("method", method), ("formula", formula)):
            if not isinstance(text, str):
                fail(name, text, "a string")
        self._same_unit(guarantee, method)
        costs = [filters.release_cost(self.composition, part) for part in parts or (guarantee,)]
        cost = max(own for own, _ in costs), max(delta for _, delta in costs)
        release = {
            "charged_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "method": method,
            "formula": formula,
            "neighbours": guarantee.neighbours,
            "kind": guarantee.kind,
            "seeded": bool(guarantee.seeded),
            **_costs(guarantee, cost),
        }
        with self._store.transaction(write=True) as db:
            self._same_total(db)
            spent = self._store.spent(db, guarantee.neighbours)
            after = tuple(s + Fraction(c) for s, c in zip(spent, cost, strict=True))
            if not all(filters.fits(a, limit) for a, limit in zip(after, self._limits, strict=True)):
                self._refuse(guarantee, method, cost, spent)
            self._store.set_spent(db, guarantee.neighbours, after)
            return self._store.add(db, release)

    def _same_unit(self, guarantee: Guarantee, method: str) -> None:
        """Refuse what is about single records where the total is about units, and the other way round."""
        if guarantee.unit == self.unit:
            return
        own, asked = (
            "single records" if u is None else f"all rows of one {u!r}" for u in (self.unit, guarantee.unit)
        )
        advice = (
            "Guarantee.of_unit() says what a release about records costs a unit whose number of rows has a "
            "public limit."
            if guarantee.unit is None
            else "Use a ledger with that unit=."
        )
        raise ParameterError(
            f"the ledger of data set {self.dataset!r} is about {own}, and this release by {method} about "
            f"{asked}. {advice} Nothing was charged."
        )

    def _refuse(
        self, guarantee: Guarantee, method: str, cost: tuple[float, float], spent: tuple[Fraction, Fraction]
    ) -> NoReturn:
        left = self._left(spent)
        detail = ""
        if self.composition != "basic":
            unit = filters.UNITS[self.composition]
            free = max(0.0, float(self._limits[0] - spent[0]))
            detail = f" (its steps cost {unit} = {at_least(cost[0])}, and {at_most(free)} is left)"
        raise BudgetExceeded(
            f"The ledger of data set {self.dataset!r} has too little left for {method}: it asks for "
            f"eps = {at_least(guarantee.eps)}, delta = {at_least(guarantee.delta)} ({guarantee.neighbours}), "
            f"and of eps = {at_least(self.eps)}, delta = {at_least(self.delta)} there is eps = "
            f"{at_most(left[0])}, delta = {at_most(left[1])} left{detail}. Nothing was charged and no data "
            "were read."
        )

    def _settle(self, number: int, guarantee: Guarantee, kept: tuple[Spend, ...]) -> Guarantee:
        """Replace what a release reserved by what its steps `kept` cost. Once."""
        reserved = filters.release_cost(self.composition, guarantee)
        cost = filters.release_cost(self.composition, guarantee, kept)
        stopped = filters.stopped_early(guarantee, kept)
        with self._store.transaction(write=True) as db:
            self._same_total(db)
            if not self._store.settle(db, number, _costs(stopped, cost)):
                raise LedgerError("This charge has been settled already.")
            spent = self._store.spent(db, guarantee.neighbours)
            after = (s - Fraction(r) + Fraction(c) for s, r, c in zip(spent, reserved, cost, strict=True))
            self._store.set_spent(db, guarantee.neighbours, after)
        return stopped

    def remaining(self, neighbours: Neighbours = "add-remove") -> tuple[float, float]:
        """What is left: the largest budget that one more release of any kind may ask for.

        Under ``composition="zcdp"`` or ``"gdp"`` this is for a release whose steps are not Gaussian; one with
        Gaussian steps, as of :func:`~dpstats.ols`, costs less, and several times that ``eps`` may still fit.

        Parameters
        ----------
        neighbours : {"add-remove", "substitution"}

        Returns
        -------
        tuple of float
            ``(eps, delta)``.

        Raises
        ------
        ParameterError
            If `neighbours` is another word.
        LedgerError
            If the file cannot be read, or is not the one that was opened.

        Examples
        --------
        >>> from dpstats import Ledger
        >>> Ledger(":memory:", eps=3, delta=1e-5).remaining()
        (3.0, 1e-05)
        """
        one_of("neighbours", neighbours, NEIGHBOURS)
        with self._store.transaction() as db:
            self._same_total(db)
            return self._left(self._store.spent(db, neighbours))

    def _left(self, spent: tuple[Fraction, Fraction]) -> tuple[float, float]:
        cost, delta = (Fraction(limit) - s for limit, s in zip(self._limits, spent, strict=True))
        return filters.largest(self.composition, cost, delta)

    def _same_total(self, db: Connection) -> None:
        now = self._store.total(db), self._store.unit(db)
        if now != ((self.eps, self.delta, self.composition), self.unit):
            raise LedgerError(f"The file {self.path!r} is not the ledger that was opened.")

    def report(self) -> Statement:
        """Every release, and what they come to.

        Returns
        -------
        Statement
            Prints as a table, also in a notebook; ``to_frame()`` gives a data frame.

        Examples
        --------
        >>> from dpstats import Guarantee, Ledger
        >>> ledger = Ledger(":memory:", eps=3, delta=1e-5)
        >>> ledger.charge(Guarantee(1, 1e-6, "add-remove", "approximate"), "tukey_em", "price ~ carat")
        >>> ledger.report().to_frame()[["method", "formula", "eps", "delta"]]
             method        formula  eps     delta
        0  tukey_em  price ~ carat  1.0  0.000001
        """
        with self._store.transaction() as db:
            self._same_total(db)
            releases = self._store.releases(db)
            spent = {r: self._store.spent(db, r) for r in NEIGHBOURS}
        used = {r["neighbours"] for r in releases}
        totals = {
            r: Total(filters.charged(self.composition, *s, self.delta), self._left(s))
            for r, s in spent.items()
            if r in used
        }
        return Statement(
            self.dataset, self.eps, self.delta, self.composition, tuple(releases), totals, self.unit
        )

    def __repr__(self) -> str:
        return (
            f"Ledger({self._name()!r}, eps={self.eps:g}, delta={self.delta:g}, dataset={self.dataset!r}, "
            f"composition={self.composition!r}{'' if self.unit is None else f', unit={self.unit!r}'})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self._store.in_memory:
            raise LedgerError("A ledger in memory cannot be copied or sent to another process: use a file.")
        return Ledger, (self.path, self.eps, self.delta, self.dataset, self.composition, self.unit)


def _costs(guarantee: Guarantee, cost: tuple[float, float]) -> dict[str, Any]:
    """What a row of the ledger says of the price."""
    return {
        "eps": float(guarantee.eps),
        "delta": float(guarantee.delta),
        "cost": cost[0],
        "cost_delta": cost[1],
        "spends": json.dumps([asdict(s) for s in guarantee.spends], default=float),
    }


def charge_disjoint(
    ledger: Ledger, guarantee: Guarantee, parts: Sequence[Guarantee], method: str, formula: str
) -> None:
    """Charge releases on disjoint records: for :mod:`dpstats.estimation.groups` alone.

    They cost what the dearest of `parts`, their guarantees, costs (parallel composition): in `eps` or ``rho``
    or ``mu^2`` and in `delta`, each by itself. Together they promise `guarantee`.

    Examples
    --------
    >>> from dpstats import Guarantee, Ledger
    >>> ledger = Ledger(":memory:", eps=3, delta=0)
    >>> parts = [Guarantee(eps, 0, "substitution", "pure") for eps in (0.5, 1)]
    >>> charge_disjoint(ledger, parts[1], parts, "median", "price ~ 1, by cut")
    >>> ledger.remaining("substitution")[0]
    2.0
    """
    ledger._charge(guarantee, method, formula, parts)


def reserve(ledger: Ledger, guarantee: Guarantee, method: str, formula: str) -> "Reservation":
    """Charge a release that may stop early: for :func:`dpstats.estimation.pipeline.run` alone.

    Parameters
    ----------
    ledger : Ledger
    guarantee, method, formula
        As of :meth:`Ledger.charge`.

    Returns
    -------
    Reservation

    Examples
    --------
    >>> from dpstats import Guarantee, Ledger
    >>> from dpstats.privacy.guarantee import Spend
    >>> ledger = Ledger(":memory:", eps=3, delta=0)
    >>> steps = Spend("number of rows", "Laplace noise", 0.1), Spend("median", "exponential mechanism", 0.9)
    >>> reserved = reserve(ledger, Guarantee(1, 0, "add-remove", "pure", steps), "median", "price ~ 1")
    >>> reserved.keep(steps[:1]).eps
    0.1
    >>> ledger.remaining()[0]
    2.9
    """
    return Reservation(ledger, ledger._charge(guarantee, method, formula), guarantee)


class Reservation:
    """A release that has been charged and may be settled by the process that made it (:func:`reserve`)."""

    def __init__(self, ledger: Ledger, number: int, guarantee: Guarantee) -> None:
        self._ledger, self._number, self._process = ledger, number, os.getpid()
        self._guarantee = guarantee

    def keep(self, spends: Iterable[Spend]) -> Guarantee:
        """Settle a release that stopped early: only these steps ran, and only they are paid for.

        To be called after the last of them, once it is certain that no other will run. Until then, or if it
        is never called, the whole charge stands. What ran is never given back, and neither is ``delta``. The
        ``eps`` of steps that did not run was reserved but not spent, so the filter may let it go even though
        stopping depended on private outputs; only Gaussian steps with a joint budget are kept all or none
        (:func:`dpstats.privacy.filters.stopped_early`).

        Parameters
        ----------
        spends : iterable of Spend
            Some of the steps of the guarantee; one at least, as a release stops because of what a step
            has put out.

        Returns
        -------
        Guarantee
            Of the release as it ended.

        Raises
        ------
        ParameterError
            If they are not among the steps of the charge, or there are none.
        LedgerError
            If it has been settled before, or was made in another process.
        """
        if os.getpid() != self._process:
            raise LedgerError("A charge can be settled only by the process that made it.")
        spends = tuple(spends)
        if not spends:
            fail("spends", None, "one step at least")
        return self._ledger._settle(self._number, self._guarantee, spends)

    def __reduce__(self) -> NoReturn:
        raise LedgerError("A charge cannot be copied or sent to another process.")
