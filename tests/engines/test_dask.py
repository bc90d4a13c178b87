"""Frames of Dask on a real local cluster, and without one."""

import contextlib
import functools
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.engines import dask

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
sys.path.insert(0, str(Path(__file__).parent))
import workers  # noqa: E402

PARTS = 2
FORMULAS = {
    "ols": "y ~ a + b + C(f, levels=['p', 'q'])",
    "huber": "y ~ a + b",
    "adassp": "y ~ a + b",
    "boosted_adassp": "y ~ a + b",
    "tukey_em": "y ~ a",
    "logit": "z ~ a + b",
    "poisson": "k ~ a",
    "mean": "y ~ 1",
    "median": "y ~ 1",
}


def frame(make=workers.part, **more):
    return dd.from_map(make, range(PARTS), meta=workers.part(0, 1), **more)


@pytest.fixture(scope="module")
def client():
    # workers have the path of this process, but not the libraries that R puts before those of Python
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.ExitStack() as stack,
    ):
        patch.delenv("LD_LIBRARY_PATH", raising=False)
        given = {"threads_per_worker": 1, "memory_limit": "1GiB", "dashboard_address": None}
        cluster = stack.enter_context(distributed.LocalCluster(n_workers=2, **given))
        client = stack.enter_context(distributed.Client(cluster))
        yield client


@functools.cache
def here(name):
    return getattr(dpstats, name)(FORMULAS[name], workers.whole(PARTS), eps=3, seed=1)


def check(name, fit):
    np.testing.assert_allclose(fit.params, here(name).params, rtol=1e-9)
    if hasattr(fit, "bse"):
        np.testing.assert_allclose(fit.bse, here(name).bse, rtol=1e-9)


@pytest.mark.parametrize("name", FORMULAS)
def test_without_a_cluster(name):
    check(name, getattr(dpstats, name)(FORMULAS[name], frame(), eps=3, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULAS)
def test_releases_are_those_in_memory(name, client):
    check(name, getattr(dpstats, name)(FORMULAS[name], frame(), eps=3, seed=1))


@pytest.mark.slow
def test_units_in_several_partitions(client, monkeypatch):
    """They come together on the driver's disk."""
    ids = {"id": lambda table: table["b"] // 0.02}
    want = dpstats.ols("y ~ a", workers.whole(PARTS).assign(**ids), eps=9, unit="id", seed=1)
    monkeypatch.setattr("dpstats.data.units._HELD", 9_000)
    for table in (frame().assign(**ids), frame().assign(**ids).repartition(npartitions=3)):
        np.testing.assert_array_equal(
            dpstats.ols("y ~ a", table, eps=9, unit="id", seed=1).params, want.params
        )


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
    monkeypatch.setattr(dask, "_room", lambda: room * size / dask._SHARE)
    check("huber", dpstats.huber(FORMULAS["huber"], frame(), eps=3, seed=1))
    assert seen == sets and max(together) == (2 if room == 9 else len(sets) // 2)


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
    end = time.monotonic() + 20
    while (client.futures or sum(client.run(workers.nameless).values())) and time.monotonic() < end:
        time.sleep(0.1)
    assert not client.futures
    # nor on their disks
    assert sum(client.run(workers.nameless).values()) == 0


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
@pytest.mark.parametrize("at", [1, 2])
def test_a_failing_partition(at, client, tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=5, delta=1e-5)
    table = frame(workers.failing, folder=str(tmp_path), at=at)
    with pytest.raises(dpstats.SchemaError, match="could not be read by Dask") as error:
        dpstats.ols(FORMULAS["ols"], table, eps=3, seed=1, ledger=ledger)
    assert "Smith" not in str(error.value) and error.value.__cause__ is None
    assert ledger.remaining()[0] == pytest.approx(2)


BY = {"by": "g", "levels": {"g": ["r", "nobody", "s", "t"]}}
GROUPED = {"ols": "y ~ a + b", "deepest_regression": "y ~ a", "median": "y ~ 1", "tukey_em": "y ~ a"}


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
        client.run(workers.older)
        with pytest.raises(ImportError, match=r"workers of Dask have dpstats 0\.0\.1, and here it is"):
            dpstats.ols("y ~ a", frame(), eps=3, seed=1, ledger=ledger)
    finally:
        client.run(workers.reloaded)
    assert ledger.remaining()[0] == pytest.approx(5)
