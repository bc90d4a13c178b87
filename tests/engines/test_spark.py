"""Frames of Spark on ``local[2]``: skipped without pyspark or Java, failed with DPSTATS_REQUIRE_SPARK=1."""

import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dpstats
from dpstats.data.sources import open_source
from dpstats.engines.spark import _versions, check_speculation

sys.path.insert(0, str(Path(__file__).parent))
import workers  # noqa: E402
from test_dask import BY, FORMULAS, GROUPED, PARTS, UNITS, check_groups, check_units, here  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spark():
    missing = None
    try:
        import pyspark.sql
    except ImportError:
        missing = "pyspark is not installed"
    if missing is None and shutil.which("java") is None:
        missing = "Java is not installed"
    if missing:
        if os.environ.get("DPSTATS_REQUIRE_SPARK") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    folder = str(Path(__file__).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # R in this process puts libraries before those of Python
        patch.delenv("LD_LIBRARY_PATH", raising=False)
        patch.setenv("PYTHONPATH", os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])]))
        # a task that fails is tried once more
        builder = pyspark.sql.SparkSession.builder.master("local[2,2]").appName("dpstats")
        for key, value in {
            "ui.enabled": "false",
            "driver.memory": "1g",
            "sql.shuffle.partitions": "2",
            # many short jobs: what is compiled for one is not worth its time
            "driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "sql.codegen.wholeStage": "false",
            "sql.adaptive.enabled": "false",
            # the usual mode from Spark 4 on
            "sql.ansi.enabled": "true",
            # workers are forked from what has imported the most: some that are tried here are killed
            "python.daemon.module": "ready",
        }.items():
            builder = builder.config(f"spark.{key}", value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """Parquet files, one partition each, in their order."""
    folder = tmp_path_factory.mktemp("table")
    for i in range(PARTS):
        workers.grouped(i).to_parquet(folder / f"{i}.parquet")
    parts = [spark.read.parquet(str(folder / f"{i}.parquet")).coalesce(1) for i in range(PARTS)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole


def check(name, fit):
    np.testing.assert_allclose(fit.params, here(name).params, rtol=1e-9)
    if hasattr(fit, "bse"):
        np.testing.assert_allclose(fit.bse, here(name).bse, rtol=1e-9)


def test_releases_are_those_in_memory(spark, table):
    """Sums, also of mapped blocks and by a factor; a sample; and rows that are read here.

    The others make the same kinds of passes, more of them, and are compared on Dask.
    """
    for name in ("adassp", "tukey_em", "median"):
        check(name, getattr(dpstats, name)(FORMULAS[name], table, eps=3, seed=1))
    gone(spark)


def gone(spark):
    """Nothing is kept."""
    end = time.monotonic() + 20
    while (kept := spark.sparkContext._jsc.getPersistentRDDs().size()) and time.monotonic() < end:
        time.sleep(0.1)
    assert kept == 0


def test_units_are_those_in_memory(spark, tmp_path, monkeypatch):
    """By names, and where the order of the rows matters."""
    for i in range(PARTS):
        workers.of_units(i).to_parquet(tmp_path / f"{i}.parquet")
    table, *others = (spark.read.parquet(str(tmp_path / f"{i}.parquet")).coalesce(1) for i in range(PARTS))
    for other in others:
        table = table.union(other)
    monkeypatch.setattr("dpstats.data.units._HELD", 9_000)
    check_units("tukey_em", dpstats.tukey_em(GROUPED["tukey_em"], table, **UNITS))
    # nothing is read here
    monkeypatch.setattr("dpstats.data.clusters.SparkSource._batches", None)
    check_units("mean", dpstats.mean(FORMULAS["mean"], table, **UNITS | {"unit": "name"}), "name")
    gone(spark)


def test_groups_are_those_in_memory(spark, table, monkeypatch):
    # nothing is collected here
    monkeypatch.setattr("dpstats.data.clusters.SparkSource._batches", None)
    for name in ("ols", "deepest_regression"):
        check_groups(name, getattr(dpstats, name)(GROUPED[name], table, eps=3, seed=1, **BY))


def test_groups_are_not_released_by_two_tasks_at_once():
    class Session:
        sparkContext = property(lambda self: self)
        getConf = property(lambda self: lambda: {"spark.speculation": "true"})

    with pytest.raises(dpstats.SchemaError, match=r"spark\.speculation to be false"):
        check_speculation(Session())


def test_a_worker_that_is_asked_for_its_version_lives_on():
    """Spark ends one that has not read what it was given, and the next has all to import again."""
    pytest.importorskip("pyarrow")
    given = iter(range(3))
    assert len(list(_versions(given))) == 1
    assert not list(given)


def broken(how, folder, at, kind="grouped", names=("a", "b", "y", "g")):
    """What makes the rows of a partition on a worker, by :mod:`workers`."""

    def rows(batches):
        import pyarrow as pa
        import workers
        from pyspark import TaskContext

        for _ in batches:
            make, index = getattr(workers, how), TaskContext.get().partitionId()
            made = getattr(workers, kind)(index, make, folder=folder, at=at)
            yield from pa.Table.from_pandas(made[list(names)], preserve_index=False).to_batches()

    return rows


SCHEMA = "a double, b double, y double, g string"


def test_a_killed_worker_changes_nothing(spark, tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=5, delta=1e-5)
    table = spark.range(PARTS, numPartitions=PARTS).mapInArrow(broken("killing", str(tmp_path), 1), SCHEMA)
    check("mean", dpstats.mean(FORMULAS["mean"], table, eps=3, seed=1, ledger=ledger))
    assert (tmp_path / "made").stat().st_size > 1
    assert ledger.remaining()[0] == pytest.approx(2)


def test_a_failing_partition(spark, tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=5, delta=1e-5)
    table = spark.range(PARTS, numPartitions=PARTS).mapInArrow(broken("failing", str(tmp_path), 1), SCHEMA)
    with pytest.raises(dpstats.SchemaError, match="could not be read by Spark") as error:
        dpstats.ols("y ~ a", table, eps=3, seed=1, ledger=ledger)
    assert "Smith" not in str(error.value) and error.value.__cause__ is None
    assert ledger.remaining()[0] == pytest.approx(2)


def test_groups_when_a_worker_is_killed(spark, tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=5, delta=1e-5)
    table = spark.range(PARTS, numPartitions=PARTS).mapInArrow(broken("killing", str(tmp_path), 1), SCHEMA)
    check_groups("ols", dpstats.ols(GROUPED["ols"], table, eps=3, seed=1, ledger=ledger, **BY))
    assert (tmp_path / "made").stat().st_size > 1
    assert ledger.remaining()[0] == pytest.approx(2)


def test_groups_of_a_failing_partition(spark, tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=5, delta=1e-5)
    table = spark.range(PARTS, numPartitions=PARTS).mapInArrow(broken("failing", str(tmp_path), 1), SCHEMA)
    with pytest.raises(dpstats.SchemaError, match="could not be read by Spark") as error:
        dpstats.ols(GROUPED["ols"], table, eps=3, seed=1, ledger=ledger, **BY)
    assert "Smith" not in str(error.value) and error.value.__cause__ is None
    assert ledger.remaining()[0] == pytest.approx(2)


def broken_units(spark, how, folder):
    rows = broken(how, folder, 1, "of_units", ("a", "b", "f", "y", "u"))
    schema = "a double, b double, f string, y double, u double"
    return spark.range(PARTS, numPartitions=PARTS).mapInArrow(rows, schema)


def test_units_when_a_worker_is_killed(spark, tmp_path, monkeypatch):
    """By numbers; the passes are more than those of the mean above, and of two kinds of blocks."""
    # nothing is read here
    monkeypatch.setattr("dpstats.data.clusters.SparkSource._batches", None)
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=20, delta=1e-5, unit="u")
    table = broken_units(spark, "killing", str(tmp_path))
    check_units("adassp", dpstats.adassp(FORMULAS["adassp"], table, ledger=ledger, **UNITS))
    assert (tmp_path / "made").stat().st_size > 1
    assert ledger.remaining()[0] == pytest.approx(11)
    gone(spark)


def test_units_of_a_failing_partition(spark, tmp_path):
    ledger = dpstats.Ledger(tmp_path / "ledger.db", eps=20, delta=1e-5, unit="u")
    table = broken_units(spark, "failing", str(tmp_path))
    with pytest.raises(dpstats.SchemaError, match="could not be read by Spark") as error:
        dpstats.ols(GROUPED["ols"], table, ledger=ledger, **UNITS)
    assert "Smith" not in str(error.value) and error.value.__cause__ is None
    assert ledger.remaining()[0] == pytest.approx(11)
    gone(spark)


def test_types_that_are_guessed_and_casts_that_fail_are_refused(spark, tmp_path):
    workers.part(0)[["a", "y"]].to_csv(tmp_path / "a.csv", index=False)
    guessed = spark.read.csv(str(tmp_path / "a.csv"), header=True, inferSchema=True)
    with pytest.raises(dpstats.SchemaError, match="guessed"):
        dpstats.ols("y ~ a", guessed, eps=1)
    spark.conf.set("spark.sql.sources.useV1SourceList", "")
    try:  # (a relation of another name)
        guessed = spark.read.csv(str(tmp_path / "a.csv"), header=True, inferSchema=True)
        with pytest.raises(dpstats.SchemaError, match="guessed"):
            dpstats.ols("y ~ a", guessed, eps=1)
    finally:
        spark.conf.unset("spark.sql.sources.useV1SourceList")
    for header in ('"a\nb",y', 'y,"a#1] parquet\nb"', '"Relation [a#1] parquet\nb",y'):
        # (names that are spread over lines of the plan)
        (tmp_path / "b.csv").write_text(f"{header}\n1,2\n")
        guessed = spark.read.csv(str(tmp_path / "b.csv"), header=True, inferSchema=True, multiLine=True)
        for made in (guessed, guessed.toDF("a", "y")):
            with pytest.raises(dpstats.SchemaError, match="guessed"):
                open_source(made)
    # a name is no reader, nor are Parquet files
    workers.part(0).assign(relation=1.0)[["relation", "y"]].to_parquet(tmp_path / "a.parquet")
    typed = spark.read.parquet(str(tmp_path / "a.parquet")).select("relation", "y")
    assert dpstats.mean("y ~ 1", typed, eps=9, seed=1).nobs > 0
    words = spark.createDataFrame([("1",), ("2",)], "w string").selectExpr("cast(w as double) as y")
    many = [f"{i} as c{i}" for i in range(30)]
    for made in (words, words.selectExpr(*many, "cast(y as int) as z")):
        with pytest.raises(dpstats.SchemaError, match="try_cast"):
            open_source(made)
    cut, shown = "spark.sql.maxPlanStringLength", "spark.sql.debug.maxToStringFields"
    spark.conf.set(cut, "60")
    spark.conf.set(shown, "7")
    try:
        with pytest.raises(dpstats.SchemaError, match="not shown in full"):
            open_source(guessed.selectExpr(*many, "y"))
        assert spark.conf.get(shown) == "7"
    finally:
        spark.conf.unset(cut)
        spark.conf.unset(shown)
    open_source(typed)
    assert spark.conf.get(shown, None) is None


@pytest.mark.parametrize("name", ["my group", "a:b", "a%20b", "année", "o'k", "Group"])
def test_folders_of_any_name_are_seen(name, spark, tmp_path):
    wide = [f"cast({i} as double) as c{i}" for i in range(30)]
    rows = spark.range(4).selectExpr("1.5D as y", *wide, f"cast(id % 2 as string) as `{name}`")
    rows.write.partitionBy(name).parquet(str(tmp_path / "codes"))
    frame = spark.read.parquet(str(tmp_path / "codes"))
    frame.createOrReplaceTempView("codes")
    for made in (
        frame,
        frame.select("y"),
        spark.read.schema(f"y double, `{name.upper()}` int").parquet(str(tmp_path / "codes")),
        spark.sql("select 1.5D as y from range(9) where exists (select 1 from codes where y > 1.5D)"),
    ):
        with pytest.raises(dpstats.SchemaError, match="is made from the names of folders"):
            open_source(made)


def test_columns_made_from_the_names_of_folders_are_refused(spark, tmp_path):
    inferred = "spark.sql.sources.partitionColumnTypeInference.enabled"
    rows = spark.createDataFrame([(1.0, "100"), (2.0, "101"), (3.0, "E10")], ["y", "g"])
    rows.where("g <> 'E10'").write.partitionBy("g").parquet(str(tmp_path / "codes"))
    frame = spark.read.parquet(str(tmp_path / "codes"))
    for made in (frame, frame.withColumnRenamed("g", "h")):
        with pytest.raises(dpstats.SchemaError, match="column 'g' is made from the names of folders"):
            open_source(made)
    assert len(open_source(spark.read.parquet(str(tmp_path / "codes/g=100"))).schema) == 1
    spark.conf.set(inferred, "false")
    try:
        assert open_source(spark.read.parquet(str(tmp_path / "codes"))).schema["g"].kind == "text"
    finally:
        spark.conf.unset(inferred)


def test_an_empty_table_is_refused_privately(spark):
    empty = spark.createDataFrame([], "y double, a double")
    with pytest.raises(dpstats.ReleaseFailed):
        dpstats.ols("y ~ a", empty, eps=1, seed=1)
