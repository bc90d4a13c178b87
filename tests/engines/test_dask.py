"""Frames of Dask on a real local cluster, and without one."""

import contextlib
import functools
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.engines import dask
from dpstats.engines.partitions import Partitions, added

config = pytest.importorskip("dask.config")
dd = pytest.importorskip("dask.dataframe")
delayed = pytest.importorskip("dask.delayed").delayed
distributed = pytest.importorskip("distributed")
sys.path.insert(0, str(Path(__file__).parent))
import workers  # noqa: E402

PARTS = 2
FORMULAS = {
    "ols": "y ~ a + b + C(f, levels=['p', 'q'])",
    "huber": "y ~ a + b",
    "adassp": "y ~ a + b + C(f, levels=['p', 'q'])",
    "boosted_adassp": "y ~ a + b",
    "tukey_em": "y ~ a",
    "logit": "z ~ a + b",
    "poisson": "k ~ a",
    "mean": "y ~ 1",
    "median": "y ~ 1",
}


GROUPED = {"ols": "y ~ a + b", "deepest_regression": "y ~ a", "median": "y ~ 1", "tukey_em": "y ~ a"}


def frame(make=workers.part, **more):
    return dd.from_map(make, range(PARTS), meta=workers.part(0, 1), **more)


@pytest.fixture(scope="module")
def cluster():
    # workers have the path of this process, but not the libraries that R puts before those of Python;
    # 15 s after a worker was lost, the cluster would give up the next one if that is just starting again
    with (
        config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        # workers are forked from what has imported the most: some are killed here
        config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        pytest.MonkeyPatch.context() as patch,
        contextlib.ExitStack() as stack,
    ):
        patch.delenv("LD_LIBRARY_PATH", raising=False)
        most = ["distributed", "dask.dataframe", "numba", "scipy.stats"]
        distributed.utils.get_mp_context().set_forkserver_preload(most)
        given = {"threads_per_worker": 1, "memory_limit": "1GiB", "dashboard_address": None}
        cluster = stack.enter_context(distributed.LocalCluster(n_workers=2, **given))
        client = stack.enter_context(distributed.Client(cluster))
        yield client


@pytest.fixture
def client(cluster):
    """With both workers: one that a test has killed may still be on its way."""
    end, there = time.monotonic() + 60, {}
    while len(there) < 2 and time.monotonic() < end:
        there = cluster.run(os.getpid, on_error="ignore")
        time.sleep(0.0 if len(there) == 2 else 0.2)
    assert len(there) == 2
    return cluster


@functools.cache
def here(name):
    return getattr(dpstats, name)(FORMULAS[name], workers.whole(PARTS), eps=3, seed=1)


def check(name, fit):
    np.testing.assert_allclose(fit.params, here(name).params, rtol=1e-9)
    if hasattr(fit, "bse"):
        np.testing.assert_allclose(fit.bse, here(name).bse, rtol=1e-9)


@pytest.mark.parametrize("name", ["ols", "adassp", "tukey_em", "mean", "median"])
@pytest.mark.slow
def test_without_a_cluster(name):
    check(name, getattr(dpstats, name)(FORMULAS[name], frame(), eps=3, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULAS)
def test_releases_are_those_in_memory(name, client):
    check(name, getattr(dpstats, name)(FORMULAS[name], frame(), eps=3, seed=1))


UNITS = {"eps": 9, "unit": "u", "seed": 1}


def of_units(make=workers.part, parts=PARTS, **more):
    meta = workers.of_units(0, rows=workers.ROWS).iloc[:0]
    return dd.from_map(workers.of_units, range(parts), make=make, meta=meta, **more)


@functools.cache
def units_here(name, unit="u"):
    table = pd.concat([workers.of_units(i) for i in range(PARTS)], ignore_index=True)
    return getattr(dpstats, name)(GROUPED.get(name) or FORMULAS[name], table, **UNITS | {"unit": unit})


def check_units(name, fit, unit="u"):
    """To the last bit."""
    np.testing.assert_array_equal(fit.params, units_here(name, unit).params)
    if hasattr(fit, "bse"):
        np.testing.assert_array_equal(fit.bse, units_here(name, unit).bse)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ols", "huber", "boosted_adassp", "logit", "median"])
def test_units_are_those_in_memory(name, client, monkeypatch):
    # nothing is read here
    monkeypatch.setattr("dpstats.data.clusters.DaskSource._batches", None)
    formula = GROUPED.get(name) or FORMULAS[name]
    check_units(name, getattr(dpstats, name)(formula, of_units(), **UNITS))


@pytest.mark.slow
def test_units_with_names_and_units_here(client, monkeypatch):
    """Texts, of which some are missing; and where the order of the rows matters."""
    named = of_units().repartition(npartitions=3)
    check_units("ols", dpstats.ols(GROUPED["ols"], named, **UNITS | {"unit": "name"}), "name")
    monkeypatch.setattr("dpstats.data.units._HELD", 9_000)
    check_units("tukey_em", dpstats.tukey_em(GROUPED["tukey_em"], of_units(), **UNITS))


@pytest.mark.slow
def test_units_without_a_cluster(monkeypatch):
    monkeypatch.setattr("dpstats.data.units._HELD", 9_000)
    monkeypatch.setattr("dpstats.data.clusters.has_workers", lambda: False)
    check_units("ols", dpstats.ols(GROUPED["ols"], of_units(), **UNITS))


@pytest.mark.slow
def test_units_when_a_worker_is_killed(client, tmp_path, monkeypatch):
    """While its partition is cut, and while sums are made of what it had; one charge."""
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=20, delta=1e-5, unit="u")
    table = of_units(workers.killing, folder=str(tmp_path), at=1)
    check_units("ols", dpstats.ols(GROUPED["ols"], table, ledger=ledger, **UNITS))
    assert (tmp_path / "made").stat().st_size > 1
    assert ledger.remaining()[0] == pytest.approx(11)
    passes, total = [], dask.DaskEngine.total

    def killing(engine, task):
        passes.append(task)
        if len(passes) == 5:
            pid = min(client.run(os.getpid).values())
            os.kill(pid, signal.SIGKILL)
        return total(engine, task)

    monkeypatch.setattr(dask.DaskEngine, "total", killing)
    check_units("ols", dpstats.ols(GROUPED["ols"], of_units(), **UNITS))
    assert len(passes) > 5
    gone(client)


@pytest.mark.slow
def test_units_of_a_failing_partition(client, tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=20, delta=1e-5, unit="u")
    table = of_units(workers.failing, folder=str(tmp_path), at=1)
    with pytest.raises(dpstats.SchemaError, match="could not be read by Dask") as error:
        dpstats.ols(GROUPED["ols"], table, ledger=ledger, **UNITS)
    assert "Smith" not in str(error.value) and error.value.__cause__ is None
    assert ledger.remaining()[0] == pytest.approx(11)
    gone(client)


def gone(client):
    """Nothing is kept on the workers, nor on their disks."""
    end = time.monotonic() + 20
    while (client.futures or sum(client.run(workers.nameless).values())) and time.monotonic() < end:
        time.sleep(0.1)
    assert not client.futures
    assert sum(client.run(workers.nameless).values()) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("room", "sets"), [(0.5, set()), (1.5, {(), ("mapped",)}), (9, {(), ("mapped",)})])
def test_whatever_fits_on_the_disks(room, sets, client, monkeypatch):
    """Nothing; blocks as they are or mapped, one after the other; both: the same release."""
    seen, together, keep = set(), [0], dask.DaskEngine._keep

    def keeping(engine, task):
        keep(engine, task)
        seen.update(("mapped",) * len(maps) for maps in engine._kept)
        together.append(len(engine._kept))

    monkeypatch.setattr(dask.DaskEngine, "_keep", keeping)
    size = PARTS * workers.ROWS * (3 + 1) * 8
    monkeypatch.setattr(dask, "room_there", lambda: room * size / dask._SHARE)
    check("huber", dpstats.huber(FORMULAS["huber"], frame(), eps=3, seed=1))
    assert seen == sets and max(together) == (2 if room == 9 else len(sets) // 2)


@pytest.mark.slow
def test_persisted_partitions_are_read_where_they_are(client):
    table = frame().persist()
    distributed.wait(table)
    for there in (table, frame()):
        shares = dask.persisted(there.to_delayed())
        assert [share.numbers for share in shares] == [[i] for i in range(PARTS)]
        assert all((share.worker in client.nthreads()) == (there is table) for share in shares)
    check("ols", dpstats.ols(FORMULAS["ols"], table, eps=3, seed=1))
    assert table.map_partitions(len).compute().sum() == PARTS * workers.ROWS


@pytest.mark.slow
@pytest.mark.parametrize("event", ["none", "killed", "more threads"])
def test_partitions_that_are_kept_together_when_workers_change(event, client, monkeypatch):
    """Some at a time, where the frame has the columns of the formula alone: under their own numbers."""
    parts, sizes_there, nthreads = 23, dask.sizes_there, client.nthreads
    table = dd.from_map(workers.part, range(parts), meta=workers.part(0, 1))[["a", "b", "y"]].persist()
    distributed.wait(table)
    engine = dask.DaskEngine(table.to_delayed())

    def sizes(*args):
        found = sizes_there(*args)
        if event == "killed":
            os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        if event == "more threads":
            monkeypatch.setattr(client, "nthreads", lambda: dict.fromkeys(nthreads(), 2))
        return found

    monkeypatch.setattr(dask, "sizes_there", sizes)
    source = Partitions(engine, lambda part: [(part[["a", "b"]].to_numpy(), part[["y"]].to_numpy())])
    want = [(i, [workers.part(i)["a"].iloc[0]]) for i in range(parts)]
    for _ in range(2):
        assert source.run(lambda blocks, index: (index, [float(X[0, 0]) for X, _ in blocks])) == want
        assert list(engine._kept) == [()]
    assert engine._size[()] == parts * workers.ROWS * 3 * 8
    assert event == "killed" or max(len(share.numbers) for share in engine._kept[()]) > 4
    engine.close()


@pytest.mark.slow
def test_blocks_take_an_eighth_of_a_workers_memory(client):
    """In the passes, too, in which a thread does not know its worker."""
    engine = dask.DaskEngine(frame()[["a", "b", "y"]].to_delayed())
    source = Partitions(engine, lambda part: [(part[["a", "b"]].to_numpy(), part[["y"]].to_numpy())])
    for _ in range(2):
        source.run(lambda blocks, index: sum(len(X) for X, _ in blocks))
    found = list(client.run(workers.held).values())
    assert all(rooms == {2**30 // 8} for rooms, _ in found) and sum(n for _, n in found) == PARTS
    engine.close()
    gone(client)
    assert not any(n for _, n in client.run(workers.held).values())


@pytest.mark.slow
def test_no_worker_that_is_gone_is_asked(client):
    """A message to it would be tried for half a minute, and end in another error."""
    share = dask.Share([SimpleNamespace(key="any")], [0], "tcp://127.0.0.1:1")
    with pytest.raises(RuntimeError, match="gone"):
        dask.asked(client, None, [share], dask.sum_of)


@pytest.mark.slow
def test_parquet_on_a_cluster(client, tmp_path):
    for i in range(PARTS):
        workers.part(i).to_parquet(tmp_path / f"{i}.parquet")
    check("ols", dpstats.ols(FORMULAS["ols"], dd.read_parquet(tmp_path), eps=3, seed=1))


@pytest.mark.slow
def test_workers_keep_nothing_after_a_call(client, tmp_path):
    dpstats.ols("y ~ a", frame(), eps=3, seed=1)
    with pytest.raises(dpstats.SchemaError):
        # the levels' counts make the rows once more
        dpstats.ols(FORMULAS["ols"], frame(workers.failing, folder=str(tmp_path), at=2), eps=3, seed=1)
    gone(client)


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2])
def test_a_killed_worker_changes_nothing(at, client, tmp_path):
    """In the first pass, and in a later one: the same release, and one charge."""
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=5, delta=1e-5)
    table = frame(workers.killing, folder=str(tmp_path), at=at)
    check("ols", dpstats.ols(FORMULAS["ols"], table, eps=3, seed=1, ledger=ledger))
    assert (tmp_path / "made").stat().st_size > at
    assert ledger.remaining()[0] == pytest.approx(2)


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 2])
def test_a_killed_worker_had_the_only_blocks(at, client, monkeypatch):
    """In the pass that puts blocks in the place of others, and in a later one."""
    mapped, total = [], dask.DaskEngine.total

    def killing(engine, task):
        if task.last:
            mapped.append(set(engine._kept))
            if len(mapped) == at + 1:
                os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        return total(engine, task)

    monkeypatch.setattr(dask.DaskEngine, "total", killing)
    check("ols", dpstats.ols(FORMULAS["ols"], frame(), eps=3, seed=1))
    assert mapped[0] == {()} and len(mapped) > 5 and () not in mapped[-1]


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 4])
def test_a_worker_is_killed_while_it_is_asked(at, client, monkeypatch):
    """In the first sum of what is kept, and in a later one; no worker that is gone is asked again."""
    found, answered = [], dask.asked

    def killing(*args):
        if len(found) == at:
            os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        found.append("failed")
        found[-1] = answered(*args)
        return found[-1]

    monkeypatch.setattr(dask, "asked", killing)
    check("ols", dpstats.ols(FORMULAS["ols"], frame(), eps=3, seed=1))
    assert found.count("failed") == 1 and found[at] == "failed"
    gone(client)


@pytest.mark.slow
def test_what_is_kept_is_asked_for(client, monkeypatch):
    """In every pass; a worker reads all of its shares, and says so if it has not got one."""
    found, answered = [], dask.asked

    def asking(client, task, shares, how):
        nowhere = [share._replace(parts=[SimpleNamespace(key="nowhere")]) for share in shares]
        found.append([answered(client, task, some, how) for some in (shares, shares + shares, nowhere)])
        return found[-1][0]

    monkeypatch.setattr(dask, "asked", asking)
    check("ols", dpstats.ols(FORMULAS["ols"], frame(), eps=3, seed=1))
    assert len(found) > 5
    for once, twice, nowhere in found:
        assert nowhere is None and len(twice) == 2 * len(once)
        if isinstance(once[0], list):
            assert sorted(i for share in once for i, _ in share) == list(range(PARTS))
        else:
            once, twice = added(once), added(twice)
            assert twice.size == 2 * once.size
            np.testing.assert_allclose(np.ravel(twice.value[0]), 2 * np.ravel(once.value[0]), rtol=1e-12)


@pytest.mark.slow
def test_blocks_whose_place_was_taken_are_made_again():
    """A map says that it is the last one; if it is not, sums are the same."""
    parts = [delayed(np.full((1_000, 2), float(i))) for i in range(1, 5)]
    engine = dask.DaskEngine(parts)
    rows = Partitions(engine, lambda X: [(X, X[:, :1])])

    def total(rows):
        return rows.total(lambda blocks, index: sum(float(X.sum() + Y.sum()) for X, Y in blocks))

    twice, thrice = rows.mapped(lambda X, Y: (2 * X, Y), last=True), rows.mapped(lambda X, Y: (3 * X, Y))
    for _ in range(2):
        assert [total(blocks) for blocks in (rows, twice, rows, thrice)] == [30_000, 50_000, 30_000, 70_000]
        engine.close()
    assert [total(blocks) for blocks in (rows, twice, twice)] == [30_000, 50_000, 50_000]
    assert [len(maps) for maps in engine._kept] == [1]


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.slow
def test_blocks_that_cannot_be_had_are_made_again(at, client, monkeypatch):
    """The first ones, and those that took their place: the same sums, and what is lost is let go of."""
    lost, keep = [], dask.DaskEngine._keep

    def losing(engine, task):
        keep(engine, task)
        if bool(task.maps) == (at == 2) and not lost:
            client.cancel(distributed.futures_of([share.parts for share in engine._kept[task.maps]]))
            lost.append(task)

    monkeypatch.setattr(dask.DaskEngine, "_keep", losing)
    check("ols", dpstats.ols(FORMULAS["ols"], frame(), eps=3, seed=1))
    assert lost
    gone(client)


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2])
def test_a_failing_partition(at, client, tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=5, delta=1e-5)
    table = frame(workers.failing, folder=str(tmp_path), at=at)
    with pytest.raises(dpstats.SchemaError, match="could not be read by Dask") as error:
        dpstats.ols(FORMULAS["ols"], table, eps=3, seed=1, ledger=ledger)
    assert "Smith" not in str(error.value) and error.value.__cause__ is None
    assert ledger.remaining()[0] == pytest.approx(2)


BY = {"by": "g", "levels": {"g": ["r", "nobody", "s", "t"]}}


@functools.cache
def groups_here(name):
    table = pd.concat([workers.grouped(i) for i in range(PARTS)], ignore_index=True)
    return getattr(dpstats, name)(GROUPED[name], table, eps=3, seed=1, **BY)


def check_groups(name, fits):
    np.testing.assert_allclose(fits.params, groups_here(name).params, rtol=1e-9)
    assert set(fits.failed) == set(groups_here(name).failed)


def grouped(make=workers.part, **more):
    meta = workers.grouped(0, rows=workers.ROWS).iloc[:0]
    return dd.from_map(workers.grouped, range(PARTS), make=make, meta=meta, **more)


def test_groups_without_a_cluster():
    check_groups("ols", dpstats.ols(GROUPED["ols"], grouped(), eps=3, seed=1, **BY))


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPED)
def test_groups_are_those_in_memory(name, client, monkeypatch):
    # nothing is collected here
    monkeypatch.setattr("dpstats.data.clusters.DaskSource._batches", None)
    check_groups(name, getattr(dpstats, name)(GROUPED[name], grouped(), eps=3, seed=1, **BY))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "at"), [("ols", 1), ("deepest_regression", 2)])
def test_groups_when_a_worker_is_killed(name, at, client, tmp_path):
    """In the only pass, and in that after the count of the groups' rows."""
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=5, delta=1e-5)
    table = grouped(workers.killing, folder=str(tmp_path), at=at)
    check_groups(name, getattr(dpstats, name)(GROUPED[name], table, eps=3, seed=1, ledger=ledger, **BY))
    assert (tmp_path / "made").stat().st_size > at
    assert ledger.remaining(groups_here(name).guarantee.neighbours)[0] == pytest.approx(2)


@pytest.mark.slow
def test_groups_of_a_failing_partition(client, tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=5, delta=1e-5)
    table = grouped(workers.failing, folder=str(tmp_path), at=1)
    with pytest.raises(dpstats.SchemaError, match="could not be read by Dask") as error:
        dpstats.ols(GROUPED["ols"], table, eps=3, seed=1, ledger=ledger, **BY)
    assert "Smith" not in str(error.value) and error.value.__cause__ is None
    assert ledger.remaining()[0] == pytest.approx(2)


@pytest.mark.slow
def test_another_version_is_told_before_the_charge(client, tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=5, delta=1e-5)

    try:
        client.run(workers.told, "0.0.1")
        with pytest.raises(ImportError, match=r"workers of Dask have dpstats 0\.0\.1, and here it is"):
            dpstats.ols("y ~ a", frame(), eps=3, seed=1, ledger=ledger)
    finally:
        client.run(workers.told)
    assert ledger.remaining()[0] == pytest.approx(5)
