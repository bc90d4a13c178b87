"""The SQLite file behind a ledger: transactions, identity, rows and exact running sums. Knows no budget."""

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpstats.errors import LedgerError, ParameterError
from dpstats.privacy.filters import Rule, limits
from dpstats.privacy.guarantee import NEIGHBOURS, Neighbours

__all__ = ["COLUMNS", "Store"]

_APPLICATION_ID = 0x64705374  # "dpSt"
_VERSION, _OF_UNITS = 1, 2
"""The version of a file whose data sets all count records, and of one with a data set that counts units."""
_WAIT = 60.0  # seconds for which a call waits its turn
_TURN = threading.RLock()
# a process must not be forked within a transaction: SQLite's table of locks would go to the child as it is
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_TURN.acquire, after_in_parent=_TURN.release, after_in_child=_TURN.release)

COLUMNS = (
    "charged_at", "method", "formula", "neighbours", "kind", "seeded",
    "eps", "delta", "cost", "cost_delta", "spends",
)  # fmt: skip

# Sums are exact: texts of fractions, as no number type of SQLite holds the sum of two doubles.
_SCHEMA = (
    "CREATE TABLE total (dataset TEXT PRIMARY KEY, eps REAL NOT NULL, delta REAL NOT NULL,"
    " composition TEXT NOT NULL)",
    "CREATE TABLE spent (dataset TEXT NOT NULL, neighbours TEXT NOT NULL, cost TEXT NOT NULL,"
    " delta TEXT NOT NULL, PRIMARY KEY (dataset, neighbours))",
    "CREATE TABLE release (id INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL,"
    " charged_at TEXT NOT NULL, method TEXT NOT NULL, formula TEXT NOT NULL, neighbours TEXT NOT NULL,"
    " kind TEXT NOT NULL, seeded INTEGER NOT NULL, eps REAL NOT NULL, delta REAL NOT NULL,"
    " cost REAL NOT NULL, cost_delta REAL NOT NULL,"
    " spends TEXT NOT NULL, settled INTEGER NOT NULL DEFAULT 0)",
    "CREATE INDEX release_of ON release (dataset, neighbours)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_VERSION}",
)
_UNITS = (
    "CREATE TABLE IF NOT EXISTS unit (dataset TEXT PRIMARY KEY, name TEXT NOT NULL)",
    f"PRAGMA user_version = {_OF_UNITS}",
)


class Store:
    """One data set's entries in an SQLite file, or in memory.

    A file is opened anew for each transaction: an SQLite connection survives neither a fork nor a change of
    thread. It must not be opened by other means in the same process, as closing any descriptor of a file
    drops the POSIX locks that the process holds on it.

    Parameters
    ----------
    path : str
        Absolute, or ``":memory:"``.
    dataset : str
    """

    def __init__(self, path: str, dataset: str) -> None:
        self.path, self.dataset = path, dataset
        self._process = os.getpid()
        self._memory: sqlite3.Connection | None = None
        self._has_units, self._newest = False, 0
        if path == ":memory:":
            self._lock = threading.RLock()
            self._memory = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._memory.close)

    @property
    def in_memory(self) -> bool:
        """Whether there is no file."""
        return self._memory is not None

    @contextmanager
    def transaction(self, *, write: bool = False, create: bool = False) -> Iterator[sqlite3.Connection]:
        """The connection, inside one transaction: committed to the disk at the end, or rolled back.

        Raises
        ------
        LedgerError
            For whatever SQLite objects to, such as a file that is not its own, or cannot be written.
        """
        try:
            if self._memory is not None:
                if os.getpid() != self._process:
                    raise LedgerError("This ledger in memory belongs to another process: use a file.")
                with self._lock, self._begun(self._memory, write, create=True):
                    yield self._memory
            else:
                mode = "rwc" if create else "rw"  # a file that has been taken away is not made anew
                uri = f"{Path(self.path).as_uri()}?mode={mode}"
                with (
                    _TURN,
                    closing(sqlite3.connect(uri, uri=True, timeout=_WAIT, isolation_level=None)) as db,
                    self._begun(db, write, create),
                ):
                    yield db
        except sqlite3.Error as error:
            verb = "written" if write else "read"
            raise LedgerError(f"The ledger {self.path!r} cannot be {verb}: {error}.") from None

    @contextmanager
    def _begun(self, db: sqlite3.Connection, write: bool, create: bool) -> Iterator[None]:
        # EXTRA also syncs the directory after the journal is deleted: with less, a power cut just after
        # the commit could bring the journal back, and undo it.
        db.execute("PRAGMA synchronous = EXTRA")
        db.execute("PRAGMA fullfsync = ON")
        seen = self._newest
        # IMMEDIATE takes the write lock before anything is read: no one else can charge in between.
        db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            self._identify(db, create)
            if _last(db) < seen:
                raise LedgerError(
                    f"The file {self.path!r} is not the ledger that was opened: releases are missing."
                )
            yield
            newest = _last(db)
            db.execute("COMMIT")
            self._newest = max(self._newest, newest)
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _identify(self, db: sqlite3.Connection, create: bool) -> None:
        identity = tuple(
            db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        self._has_units = identity == (_APPLICATION_ID, _OF_UNITS)
        if self._has_units or identity == (_APPLICATION_ID, _VERSION):
            return
        empty = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if create and empty and identity == (0, 0):
            for statement in _SCHEMA:
                db.execute(statement)
        elif identity[0] == _APPLICATION_ID:
            raise LedgerError(f"The ledger {self.path!r} was written by another version of dpstats.")
        else:
            raise LedgerError(f"The file {self.path!r} is not a ledger of dpstats.")

    def total(self, db: sqlite3.Connection) -> tuple[float, float, Rule] | None:
        """``(eps, delta, composition)`` of the data set, or None."""
        query = "SELECT eps, delta, composition FROM total WHERE dataset = ?"
        row: tuple[float, float, Rule] | None = db.execute(query, (self.dataset,)).fetchone()
        return row

    def unit(self, db: sqlite3.Connection) -> str | None:
        """The column whose values the data set counts, None where it counts records."""
        if not self._has_units:
            return None
        row = db.execute("SELECT name FROM unit WHERE dataset = ?", (self.dataset,)).fetchone()
        return None if row is None else str(row[0])

    def set_total(
        self, db: sqlite3.Connection, eps: float, delta: float, composition: Rule, unit: str | None
    ) -> None:
        """Enter a data set that has no total yet."""
        if unit is not None:
            # a version that knows no units must not charge records to it
            for statement in _UNITS:
                db.execute(statement)
            self._has_units = True
            db.execute("INSERT INTO unit VALUES (?, ?)", (self.dataset, unit))
        db.execute("INSERT INTO total VALUES (?, ?, ?, ?)", (self.dataset, eps, delta, composition))
        db.executemany("INSERT INTO spent VALUES (?, ?, '0', '0')", [(self.dataset, r) for r in NEIGHBOURS])

    def spent(self, db: sqlite3.Connection, neighbours: Neighbours) -> tuple[Fraction, Fraction]:
        """The two running sums, exactly.

        Raises
        ------
        LedgerError
            If they are missing, no numbers, or below zero.
        """
        row = db.execute(
            "SELECT cost, delta FROM spent WHERE dataset = ? AND neighbours = ?", (self.dataset, neighbours)
        ).fetchone()
        if row is None:
            raise LedgerError(f"The ledger {self.path!r} does not add up: a running total is missing.")
        sums = self._exact(row[0]), self._exact(row[1])
        if min(sums) < 0:
            raise LedgerError(f"The ledger {self.path!r} does not add up: a running total is below zero.")
        return sums

    def _exact(self, number: Any) -> Fraction:
        """A number of the file, which may be damaged."""
        try:
            exact = Fraction(number)
            float(exact)  # amounts are shown, and compared, as floats
            return exact
        except (ValueError, TypeError, OverflowError, ZeroDivisionError):
            pass
        raise LedgerError(f"The ledger {self.path!r} does not add up: an amount in it is not a number.")

    def set_spent(self, db: sqlite3.Connection, neighbours: Neighbours, sums: Iterable[Fraction]) -> None:
        """Replace the running sums."""
        db.execute(
            "UPDATE spent SET cost = ?, delta = ? WHERE dataset = ? AND neighbours = ?",
            (*map(str, sums), self.dataset, neighbours),
        )

    def verify(self, db: sqlite3.Connection) -> None:
        """Raise LedgerError unless the total is a budget, and the running sums are those of the releases."""
        if not _is_budget(self.total(db)):
            raise LedgerError(f"The ledger {self.path!r} does not add up: its total is not a budget.")
        for neighbours in NEIGHBOURS:
            sums = [Fraction(), Fraction()]
            for costs in db.execute(
                "SELECT cost, cost_delta FROM release WHERE dataset = ? AND neighbours = ?",
                (self.dataset, neighbours),
            ):
                sums = [s + self._exact(c) for s, c in zip(sums, costs, strict=True)]
            if tuple(sums) != self.spent(db, neighbours):
                raise LedgerError(
                    f"The ledger {self.path!r} does not add up: "
                    "its running total is not that of its releases."
                )

    def add(self, db: sqlite3.Connection, release: Mapping[str, Any]) -> int:
        """Append a release, given as a dict of `COLUMNS`; return its number."""
        values = (self.dataset, *(release[c] for c in COLUMNS))
        number = db.execute(
            f"INSERT INTO release (dataset, {', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(values))})",
            values,
        ).lastrowid
        assert number is not None
        return number

    def settle(self, db: sqlite3.Connection, number: int, changes: Mapping[str, Any]) -> bool:
        """Change a release that has not been settled before; return whether there was one."""
        assigned = ", ".join(f"{c} = ?" for c in changes)
        return (
            1
            == db.execute(
                f"UPDATE release SET settled = 1, {assigned} WHERE id = ? AND dataset = ? AND settled = 0",
                (*changes.values(), number, self.dataset),
            ).rowcount
        )

    def releases(self, db: sqlite3.Connection) -> list[dict[str, Any]]:
        """All releases in order, as dicts of `COLUMNS`."""
        rows = db.execute(
            f"SELECT {', '.join(COLUMNS)} FROM release WHERE dataset = ? ORDER BY id", (self.dataset,)
        )
        return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def _is_budget(total: tuple[float, float, Rule] | None) -> bool:
    if total is None:
        return False
    eps, delta, composition = total
    try:
        limits(composition, eps, delta)
    except ParameterError:
        return False
    return True


def _last(db: sqlite3.Connection) -> int:
    """The number of the last release in the file; none is taken out of it."""
    return int(db.execute("SELECT coalesce(max(id), 0) FROM release").fetchone()[0])
