import copy
import os
import pickle
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstats import BudgetExceeded, Guarantee, Ledger, ParameterError
from dpstats.errors import LedgerError
from dpstats.privacy import filters
from dpstats.privacy.guarantee import KINDS, Spend
from dpstats.privacy.ledger import reserve
from dpstats.privacy.store import Store


def pure(eps, neighbours="add-remove", **changes):
    return Guarantee(eps, 0, neighbours, "pure", **changes)


def steps(*eps):
    return tuple(Spend(f"step {i}", "mechanism", e) for i, e in enumerate(eps))


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "study.db")


# Totals --------------------------------------------------------------------------------------------------


def test_three_thirds_fit_exactly(path):
    ledger = Ledger(path, eps=3, delta=0)
    for _ in range(3):
        ledger.charge(pure(1), "median")
    assert ledger.remaining() == (0, 0)
    with pytest.raises(BudgetExceeded):
        ledger.charge(pure(1e-9), "median")


@pytest.mark.parametrize(("total", "parts"), [(3, 1000), (3, 7), (0.1, 3), (1e-3, 997)])
@pytest.mark.slow
def test_equal_parts_fit_and_no_more(total, parts):
    ledger = Ledger(":memory:", eps=total, delta=1e-5)
    for _ in range(parts):
        ledger.charge(Guarantee(total / parts, 1e-5 / parts, "add-remove", "approximate"), "ols")
    with pytest.raises(BudgetExceeded):
        ledger.charge(pure(total * 1e-8), "ols")


def test_delta_is_a_budget_too():
    ledger = Ledger(":memory:", eps=3, delta=1e-6)
    ledger.charge(Guarantee(0.1, 1e-6, "add-remove", "approximate"), "ols")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee(0.1, 1e-9, "add-remove", "approximate"), "ols")
    ledger.charge(pure(0.1), "median")


def test_a_refusal_says_what_is_left_and_leaves_all_as_it_was(path):
    ledger = Ledger(path, eps=2, delta=1e-5)
    ledger.charge(pure(1.5), "median")
    with open(path, "rb") as f:
        before = f.read()
    with pytest.raises(BudgetExceeded) as refused:
        ledger.charge(Guarantee(1, 1e-6, "add-remove", "approximate"), "tukey_em", "y ~ x")
    for words in (
        "tukey_em",
        "eps = 1, delta = 1e-06",
        "eps = 0.5, delta = 1e-05 left",
        "Nothing was charged",
    ):
        assert words in str(refused.value)
    with open(path, "rb") as f:
        assert f.read() == before


def test_relations_and_data_sets_have_totals_of_their_own(path):
    ledger = Ledger(path, eps=1, delta=0)
    other = Ledger(path, eps=2, delta=0, dataset="other")
    ledger.charge(pure(1), "median")
    ledger.charge(pure(1, "substitution"), "median")
    other.charge(pure(2), "median")
    assert ledger.remaining() == ledger.remaining("substitution") == other.remaining() == (0, 0)
    assert len(ledger.report().releases) == 2 and len(other.report().releases) == 1


@pytest.mark.parametrize("g", [pure(1, seeded=True), Guarantee(1, 0, "add-remove", KINDS[2], gamma=0.1)])
def test_seeded_and_random_releases_cost_all_the_same(g):
    ledger = Ledger(":memory:", eps=3, delta=0)
    ledger.charge(g, "median")
    assert ledger.remaining() == (2, 0)


@pytest.mark.parametrize("composition", ["zcdp", "gdp"])
def test_gaussian_releases_go_further_by_their_own_composition(composition):
    g = Guarantee(
        1, 1e-6, "add-remove", "approximate", (Spend("moments", "Gaussian noise", 1, 1e-6, mu=0.23),)
    )

    def count(rule):
        ledger, n = Ledger(":memory:", eps=3, delta=1e-5, composition=rule), 0
        with pytest.raises(BudgetExceeded, match="too little left"):
            while True:
                ledger.charge(g, "ols")
                n += 1
        return n

    assert count("basic") == 3
    assert count(composition) >= 7
    ledger = Ledger(":memory:", eps=3, delta=1e-5, composition=composition)
    with pytest.raises(BudgetExceeded, match={"zcdp": "cost rho = ", "gdp": r"cost mu\^2 = "}[composition]):
        ledger.charge(pure(3.1), "median")


# Opening -------------------------------------------------------------------------------------------------


def test_the_total_is_set_once(path):
    Ledger(path, eps=3, delta=1e-5).charge(pure(1), "median")
    assert Ledger(path).remaining() == (2, 1e-5)
    assert Ledger(path, eps=3).remaining() == (2, 1e-5)
    assert Ledger(path, 3, 1e-5, composition="basic").eps == 3
    with pytest.raises(ParameterError, match=r"eps must be 3\.0.* got 4\.0"):
        Ledger(path, eps=4, delta=1e-5)
    with pytest.raises(ParameterError, match=r"delta must be 1e-05.* got 1e-06"):
        Ledger(path, delta=1e-6)
    with pytest.raises(ParameterError, match="composition must be 'basic'.* got 'zcdp'"):
        Ledger(path, composition="zcdp")
    assert Ledger(path).remaining() == (2, 1e-5)


def test_a_new_data_set_needs_a_total(path):
    with pytest.raises(LedgerError, match=r"Ledger\('study.db', eps=3, delta=1e-5\)"):
        Ledger(path)
    with pytest.raises(LedgerError, match=r"give delta too \(0 for pure releases alone\): Ledger"):
        Ledger(path, eps=1)
    with pytest.raises(LedgerError, match="give eps too: Ledger"):
        Ledger(path, delta=0)
    assert not os.path.exists(path)
    Ledger(path, eps=1, delta=0)
    with pytest.raises(ParameterError, match=r"dataset='other'\), got"):
        Ledger(path, eps=1, dataset="other")
    with pytest.raises(ParameterError, match="eps and delta must be given"):
        Ledger(":memory:")


@pytest.mark.parametrize(
    "call",
    [
        lambda: Ledger(3, eps=1, delta=0),
        lambda: Ledger(":memory:", eps=0, delta=0),
        lambda: Ledger(":memory:", eps=1, delta=1),
        lambda: Ledger(":memory:", eps=1, delta=0, dataset=""),
        lambda: Ledger(":memory:", eps=1, delta=0, composition="renyi"),
        lambda: Ledger(":memory:", eps=1, delta=0, composition="zcdp"),
        lambda: Ledger(":memory:", eps=1, delta=0).charge((1, 0), "median"),
        lambda: Ledger(":memory:", eps=1, delta=0).remaining("both"),
    ],
)
def test_parameters_are_checked(call):
    with pytest.raises(ParameterError):
        call()


def test_what_is_no_ledger(tmp_path):
    text, foreign = str(tmp_path / "text.db"), str(tmp_path / "foreign.db")
    with open(text, "w") as f:
        f.write("hello " * 1000)
    with closing(sqlite3.connect(foreign)) as db:
        db.execute("CREATE TABLE t (x)")
        db.commit()
    for name in (text, foreign, str(tmp_path), str(tmp_path / "nowhere" / "x.db")):
        for total in ({}, {"eps": 1, "delta": 0}):
            with pytest.raises(LedgerError):
                Ledger(name, **total)
    with open(text) as f:
        assert f.read() == "hello " * 1000
    with closing(sqlite3.connect(foreign)) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]


def tamper(path, statement):
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE spent SET cost = '0'", "does not add up"),
        ("DELETE FROM spent", "does not add up"),
        ("DELETE FROM release WHERE id = 1", "does not add up"),
        ("UPDATE release SET cost = 0.5 WHERE id = 1", "does not add up"),
        *(
            (f"UPDATE {table} SET {column} = {number}", "does not add up: an amount in it is not a number")
            for table, column in (("spent", "cost"), ("spent", "delta"), ("release", "cost"))
            for number in ("'abc'", "'nan'", "x'00'")
        ),
        ("UPDATE spent SET cost = '1/0'", "an amount in it is not a number"),
        ("UPDATE release SET cost_delta = 9e999", "an amount in it is not a number"),
        ("UPDATE spent SET cost = '-5'", "a running total is below zero"),
        ("UPDATE total SET eps = 'abc'", "its total is not a budget"),
        ("UPDATE total SET delta = 2", "its total is not a budget"),
        ("UPDATE total SET composition = 'renyi'", "its total is not a budget"),
        ("PRAGMA user_version = 99", "another version"),
        ("DROP TABLE release", "no such table"),
    ],
)
def test_a_file_that_does_not_add_up(path, statement, message):
    ledger = Ledger(path, eps=3, delta=0)
    ledger.charge(pure(1), "median")
    tamper(path, statement)
    with pytest.raises(LedgerError, match=message):
        Ledger(path)


@pytest.mark.parametrize("number", ["'abc'", "'-5'", "'1/0'", "'1e400'"])
def test_a_file_that_is_damaged_while_it_is_open_takes_no_charge(path, number):
    ledger = Ledger(path, eps=3, delta=0)
    ledger.charge(pure(1), "median")
    tamper(path, f"UPDATE spent SET cost = {number}")
    for call in (lambda: ledger.charge(pure(1), "median"), ledger.remaining, ledger.report):
        with pytest.raises(LedgerError, match="does not add up"):
            call()
    tamper(path, "UPDATE spent SET cost = '1' WHERE neighbours = 'add-remove'")
    tamper(path, "UPDATE spent SET cost = '0' WHERE neighbours = 'substitution'")
    assert len(Ledger(path).report().to_frame()) == 1


def test_a_ledger_that_is_taken_away_is_not_made_anew(path):
    ledger = Ledger(path, eps=3, delta=0)
    os.remove(path)
    for call in (lambda: ledger.charge(pure(1), "median"), ledger.remaining, ledger.report):
        with pytest.raises(LedgerError, match="unable to open"):
            call()
    assert not os.path.exists(path)
    Ledger(path, eps=5, delta=0)
    with pytest.raises(LedgerError, match="not the ledger that was opened"):
        ledger.charge(pure(1), "median")


def test_a_read_only_file_can_be_read():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "study.db")
        Ledger(path, eps=3, delta=0).charge(pure(1), "median")
        os.chmod(path, stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # root may write anything
        try:
            ledger = Ledger(path)
            assert ledger.remaining() == (2, 0)
            with pytest.raises(LedgerError, match="cannot be written"):
                ledger.charge(pure(1), "median")
        finally:
            os.seteuid(user)


def test_odd_file_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("50% a?b#c é.db", eps=3, delta=0)
    monkeypatch.chdir("/")
    ledger.charge(pure(1), "median")
    assert [p.name for p in tmp_path.iterdir()] == ["50% a?b#c é.db"]
    assert Ledger(tmp_path / "50% a?b#c é.db").remaining() == (2, 0)


def test_text_is_stored_as_it_is(path):
    name, formula = "it's", "y ~ x'); DROP TABLE release; --"
    ledger = Ledger(path, eps=3, delta=0, dataset=name)
    ledger.charge(pure(1), "median", formula)
    assert Ledger(path, dataset=name).report().releases[0]["formula"] == formula


# Settling ------------------------------------------------------------------------------------------------


def test_keep_frees_what_did_not_run(path):
    ledger = Ledger(path, eps=3, delta=1e-5)
    parts = steps(0.25, 0.75)
    reserved = reserve(ledger, Guarantee(1, 1e-6, "add-remove", "approximate", parts), "tukey_em", "")
    ended = reserved.keep(parts[:1])
    assert (ended.eps, ended.delta, ended.spends) == (0.25, 1e-6, parts[:1])
    assert ledger.remaining() == (2.75, 9e-6)
    assert Ledger(path).report().releases[0]["eps"] == 0.25


@pytest.mark.parametrize("first", [1, 2])
def test_keep_works_once(first):
    ledger = Ledger(":memory:", eps=3, delta=0)
    parts = steps(0.25, 0.75)
    reserved = reserve(ledger, pure(1, spends=parts), "median", "")
    reserved.keep(parts[:first])
    left = ledger.remaining()
    for again in (parts, parts[:1]):
        with pytest.raises(LedgerError, match="settled already"):
            reserved.keep(again)
    assert ledger.remaining() == left


@pytest.mark.parametrize(("kept", "message"), [(steps(0.1), "reserved"), ((), "one step")])
def test_keep_takes_some_of_what_was_reserved(kept, message):
    ledger = Ledger(":memory:", eps=3, delta=0)
    reserved = reserve(ledger, pure(1, spends=steps(0.25, 0.75)), "median", "")
    with pytest.raises(ParameterError, match=message):
        reserved.keep(kept)
    assert ledger.remaining() == (2, 0)


def test_a_charge_by_hand_cannot_be_given_back():
    ledger = Ledger(":memory:", eps=3, delta=0)
    assert ledger.charge(pure(1, spends=steps(0.25, 0.75)), "median") is None
    public = {name for name in dir(ledger) if not name.startswith("_")}
    assert public == {
        "charge", "composition", "dataset", "delta", "eps", "path", "remaining", "report", "unit",
    }  # fmt: skip
    assert ledger.remaining() == (2, 0)


def test_a_charge_stays_where_it_was_made(path):
    ledger = Ledger(path, eps=3, delta=0)
    reserved = reserve(ledger, pure(1, spends=steps(0.5, 0.5)), "median", "")
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(LedgerError):
            duplicate(reserved)
    assert in_child(lambda: reserved.keep(steps(0.5))) == "LedgerError"
    assert ledger.remaining() == (2, 0)


def test_a_ledger_in_memory_stays_in_its_process():
    ledger = Ledger(":memory:", eps=3, delta=0)
    assert in_child(lambda: ledger.charge(pure(1), "median")) == "LedgerError"
    assert in_child(lambda: ledger.remaining()) == "LedgerError"
    with pytest.raises(LedgerError):
        pickle.dumps(ledger)


def test_a_ledger_in_a_file_goes_anywhere(path):
    ledger = Ledger(path, eps=3, delta=0)
    assert in_child(lambda: ledger.charge(pure(1), "median")) == "done"
    pickle.loads(pickle.dumps(ledger)).charge(pure(1), "median")
    assert ledger.remaining() == (1, 0)


def in_child(call):
    """What became of `call` in a forked process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            call()
            said = b"done"
        except Exception as error:
            said = type(error).__name__.encode()
        os.write(writer, said)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as f:
        said = f.read()
    os.waitpid(child, 0)
    return said


# Whatever happens ----------------------------------------------------------------------------------------

RELEASES = st.lists(
    st.tuples(
        st.lists(st.sampled_from([0.1, 0.2, 1 / 3, 0.7]), min_size=1, max_size=4),
        st.sampled_from([0.0, 1e-6, 3e-6]),
        st.sampled_from(["add-remove", "substitution"]),
        st.one_of(st.none(), st.integers(1, 4)),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from(filters.FILTERS), RELEASES)
@pytest.mark.slow
def test_the_sums_never_pass_their_limits(rule, releases):
    ledger = Ledger(":memory:", eps=2, delta=1e-5, composition=rule)
    for parts, delta, neighbours, keep in releases:
        g = Guarantee(sum(parts), delta, neighbours, "approximate", steps(*parts))
        before = ledger.remaining(neighbours)
        try:
            reserved = reserve(ledger, g, "median", "")
        except BudgetExceeded:
            assert ledger.remaining(neighbours) == before
            continue
        after = ledger.remaining(neighbours)
        assert after[0] < before[0] and after[1] <= before[1]
        if keep is not None:
            reserved.keep(g.spends[:keep])
            assert after[0] <= ledger.remaining(neighbours)[0] <= before[0]
        with ledger._store.transaction() as db:
            ledger._store.verify(db)
            spent = ledger._store.spent(db, neighbours)
        assert all(
            s <= Fraction(b) * (1 + filters.TOLERANCE) for s, b in zip(spent, ledger._limits, strict=True)
        )


def test_each_commit_reaches_the_disk_and_its_directory(path):
    ledger = Ledger(path, eps=3, delta=0)
    with ledger._store.transaction(write=True) as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.slow
def test_threads_share_a_ledger(path):
    for ledger in (Ledger(path, eps=3, delta=0), Ledger(":memory:", eps=3, delta=0)):
        accepted = []

        def work(ledger=ledger, accepted=accepted):
            for _ in range(50):
                try:
                    ledger.charge(pure(0.03), "median")
                    accepted.append(1)
                except BudgetExceeded:
                    pass

        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert len(accepted) == len(ledger.report().releases) == 100


COMMON = """
import os, signal, sys, time
from fractions import Fraction
from dpstats import BudgetExceeded, Guarantee, Ledger
from dpstats.privacy import filters

class CheckThenWrite(Ledger):
    '''Broken: another process can charge between the look at what is left and the entry.'''
    def charge(self, guarantee, method, formula=""):
        with self._store.transaction() as db:
            spent = self._store.spent(db, guarantee.neighbours)
        after = spent[0] + Fraction(guarantee.eps), spent[1]
        if not filters.fits(after[0], self.eps):
            raise BudgetExceeded("none left")
        time.sleep(0.001)
        with self._store.transaction(write=True) as db:
            self._store.set_spent(db, guarantee.neighbours, after)
            row = dict(charged_at="", method=method, formula="", neighbours=guarantee.neighbours)
            row |= dict(kind="pure", seeded=0, eps=guarantee.eps, delta=0)
            self._store.add(db, row | dict(cost=guarantee.eps, cost_delta=0, spends="[]"))

class WriteLater(Ledger):
    '''Broken: says "charged" before the commit.'''
    def charge(self, *args):
        self.open = self._store.transaction(write=True)
        db = self.open.__enter__()
        self._store.set_spent(db, "add-remove", (Fraction(1), Fraction(0)))

def pure(eps):
    return Guarantee(eps, 0, "add-remove", "pure")
"""


def script(code, *args):
    return subprocess.Popen(
        [sys.executable, "-c", COMMON + textwrap.dedent(code), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def four_processes(ledger, path, times, share):
    code = """
    ledger = globals()[sys.argv[1]](sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    accepted = 0
    for _ in range(int(sys.argv[3])):
        try:
            ledger.charge(pure(float(sys.argv[4])), "median")
            accepted += 1
        except BudgetExceeded:
            pass
    print(accepted)
    """
    workers = [script(code, ledger, path, times, share) for _ in range(4)]
    for w in workers:
        assert w.stdout.readline() == "ready\n"
    for w in workers:
        w.stdin.write("go\n")
        w.stdin.flush()
    return sum(int(w.communicate()[0]) for w in workers)


def exceeded(path, allowed, accepted):
    """Whether a ledger file holds more than it should, or does not add up."""
    try:
        return len(Ledger(path).report().releases) > allowed or accepted > allowed
    except LedgerError:
        return True


@pytest.mark.slow
def test_four_processes_never_exceed_the_total(path):
    Ledger(path, eps=3, delta=0)
    accepted = four_processes("Ledger", path, 250, 0.004)
    assert accepted == 750 == len(Ledger(path).report().releases)
    assert Ledger(path).remaining() == (0, 0)
    assert not exceeded(path, 750, accepted)


@pytest.mark.slow
def test_check_then_write_is_caught(path):
    """The test of the test."""
    Ledger(path, eps=3, delta=0)
    accepted = four_processes("CheckThenWrite", path, 50, 0.02)
    assert exceeded(path, 150, accepted)


def left_by_a_killed_process(ledger, path):
    """What is left after a process charged 1 and was killed before it released anything."""
    worker = script(
        """
        ledger = globals()[sys.argv[1]](sys.argv[2])
        ledger.charge(pure(1.0), "median")
        print("charged", flush=True)
        time.sleep(600)
        """,
        ledger,
        path,
    )
    assert worker.stdout.readline() == "charged\n"
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    return Ledger(path).remaining()


@pytest.mark.slow
def test_a_charge_outlives_its_process(path):
    Ledger(path, eps=3, delta=0)
    assert left_by_a_killed_process("Ledger", path) == (2, 0)


@pytest.mark.slow
def test_a_charge_that_is_written_later_is_caught(path):
    """The test of the test."""
    Ledger(path, eps=3, delta=0)
    assert left_by_a_killed_process("WriteLater", path) == (3, 0)


@pytest.mark.slow
def test_a_process_killed_while_it_writes_leaves_the_ledger_whole(path):
    Ledger(path, eps=3, delta=0).charge(pure(1), "median")
    worker = script(
        """
        ledger = Ledger(sys.argv[1])
        with ledger._store.transaction(write=True) as db:
            db.execute("PRAGMA cache_spill = ON")
            db.execute("PRAGMA cache_size = 1")
            ledger._store.set_spent(db, "add-remove", (Fraction(3), Fraction(0)))
            db.execute("CREATE TABLE large (x)")
            db.executemany("INSERT INTO large VALUES (?)", [("x" * 4000,)] * 200)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        path,
    )
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    assert os.path.exists(path + "-journal")
    assert Ledger(path).remaining() == (2, 0)


def test_a_writer_that_waits_too_long_says_so(path, monkeypatch):
    monkeypatch.setattr("dpstats.privacy.store._WAIT", 0.05)
    ledger = Ledger(path, eps=3, delta=0)
    with Store(path, "default").transaction(write=True), pytest.raises(LedgerError, match="locked"):
        ledger.charge(pure(1), "median")
    assert ledger.remaining() == (3, 0)


def test_an_interrupted_charge_is_undone(path, monkeypatch):
    ledger = Ledger(path, eps=3, delta=0)
    monkeypatch.setattr(Store, "add", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(pure(1), "median")
    monkeypatch.undo()
    assert ledger.remaining() == (3, 0)
    ledger.charge(pure(1), "median")


# Units ---------------------------------------------------------------------------------------------------


def test_a_ledger_of_units_is_reopened_as_one(path):
    Ledger(path, eps=3, delta=0, unit="patient").charge(pure(1, unit="patient"), "median")
    again = Ledger(path)
    assert again.unit == "patient" and again.remaining() == (2, 0)
    assert "unit='patient'" in repr(again) and pickle.loads(pickle.dumps(again)).unit == "patient"
    text = " ".join(str(again.report()).split())
    assert "Unit: patient" in text and "All rows of one 'patient' added or removed: charged (1, 0)" in text
    for other in ("person", ""):
        with pytest.raises(ParameterError, match="unit must be"):
            Ledger(path, unit=other)
    with pytest.raises(ParameterError, match="is about all rows of one 'patient', and this release by ols"):
        again.charge(pure(1), "ols")
    assert again.remaining() == (2, 0)


def test_data_sets_of_a_file_have_units_of_their_own(path):
    records = Ledger(path, eps=3, delta=0, dataset="visits")
    units = Ledger(path, eps=3, delta=0, dataset="patients", unit="patient")
    records.charge(pure(1), "median")
    units.charge(pure(2, unit="patient"), "median")
    assert Ledger(path, dataset="visits").unit is None and records.remaining() == (2, 0)
    assert Ledger(path, dataset="patients").unit == "patient" and units.remaining() == (1, 0)


def test_files_without_units_stay_as_they_were(path):
    """A version that knows no units reads them; it must not charge records to a file with units."""
    versions = []
    for more in ({}, {"dataset": "patients", "unit": "patient"}):
        Ledger(path, eps=3, delta=0, **more)
        with closing(sqlite3.connect(path)) as db:
            versions.append(db.execute("PRAGMA user_version").fetchone()[0])
    assert versions == [1, 2]


@pytest.mark.parametrize("k", [1, 3])
def test_what_records_cost_units(k):
    spends = (Spend("a", "Gaussian noise", 0.2, 1e-6, mu=0.1), Spend("b", "other", 0.3, rho=0.05))
    record = Guarantee(0.5, 1e-6, "add-remove", "approximate", spends)
    unit = record.of_unit("patient", rows=k)
    assert unit.unit == "patient" and unit.eps == pytest.approx(k * 0.5)
    # a chain of k neighbours: delta (1 + e^eps + ... + e^((k - 1) eps))
    assert unit.delta == pytest.approx(1e-6 * sum(2.718281828459045 ** (0.5 * i) for i in range(k)))
    assert unit.delta >= 1e-6 * sum(2.718281828459045 ** (0.5 * i) for i in range(k)) * (1 - 1e-12)
    assert [s.mu for s in unit.spends] == [pytest.approx(k * 0.1), None]
    assert [s.rho for s in unit.spends] == [None, pytest.approx(k * k * 0.05)]
    with pytest.raises(ParameterError, match="single records"):
        unit.of_unit("school", rows=2)
    with pytest.raises(ParameterError, match="rows must be"):
        record.of_unit("patient", rows=0)
    with pytest.raises(ParameterError, match="neighbours must be 'add-remove'"):
        Guarantee(0.5, 0, "substitution", "pure").of_unit("patient", rows=k)


@pytest.mark.parametrize("composition", ["basic", "zcdp", "gdp"])
def test_a_step_of_units_costs_what_it_costs_them(composition):
    """Of Laplace noise a ledger knows eps alone."""
    one, three = (pure(eps, spends=(Spend("a", "Laplace noise", eps),)) for eps in (0.2, 3 * 0.2))
    costs = []
    for guarantee in (one.of_unit("patient", rows=3), three.replace(unit="patient")):
        ledger = Ledger(":memory:", eps=9, delta=1e-5, composition=composition, unit="patient")
        ledger.charge(guarantee, "mean")
        costs.append(ledger.report().releases[0]["cost"])
    assert costs[0] == costs[1] > 0


def test_a_file_in_its_place_is_not_a_fresh_start(path):
    """Neither a new ledger with the same total nor a backup, for an object that has seen more."""
    ledger = Ledger(path, eps=3, delta=1e-5)
    ledger.charge(pure(0.5), "first")
    backup = Path(path).read_bytes()
    ledger.charge(pure(0.5), "second")
    os.rename(path, f"{path}.old")
    Ledger(path, eps=3, delta=1e-5)
    for _ in range(2):
        for call in (ledger.remaining, ledger.report, lambda: ledger.charge(pure(0.5), "third")):
            with pytest.raises(LedgerError, match="not the ledger that was opened: releases are missing"):
                call()
        Path(path).write_bytes(backup)
    os.replace(f"{path}.old", path)
    ledger.charge(pure(0.5), "third")
    assert len(ledger.report().releases) == 3


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_of_a_process_whose_threads_charge_can_charge(path, monkeypatch):
    """SQLite's table of locks must not go to the child with a lock in it, for which it would wait in vain.

    (Under load it waits some seconds for its turn: SQLite has no queue.)
    """
    monkeypatch.setattr("dpstats.privacy.store._WAIT", 20.0)
    ledger, done = Ledger(path, eps=100, delta=0), threading.Event()

    def charge():
        while not done.wait(1e-3):
            ledger.charge(pure(1e-3), "thread")

    thread = threading.Thread(target=charge)
    thread.start()
    try:
        statuses = []
        for _ in range(4):
            time.sleep(0.05)
            if not (child := os.fork()):
                status = 1
                try:
                    Ledger(path).charge(pure(1e-3), "child")
                    status = 0
                finally:
                    os._exit(status)
            statuses.append(os.waitpid(child, 0)[1])
            if statuses[-1]:
                break
    finally:
        done.set()
        thread.join()
    assert statuses == [0] * 4
